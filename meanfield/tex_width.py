r"""How wide and how high TeX sets a formula: a reader of the LaTeX that SymPy prints, and a box model of it.

Widths of letters are those of Computer Modern at 10 pt; brackets, fractions, roots, scripts and cases follow TeX's
rules closely enough that an estimate is within a few per cent of the box that TeX makes, and rarely below it. Lines are
broken by these estimates (`tex_lines`), so that no TeX is needed to write a formula that fits. Nothing here knows SymPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

TEXTWIDTH = 345.0  # pt, \textwidth of an article at 10 pt
#: size of the document's text → points per quad of its text, script and scriptscript letters
SIZES = {
    "normalsize": (10.0, 8.1, 6.9),
    "small": (9.3, 7.4, 6.9),
    "footnotesize": (8.55, 7.4, 6.9),
    "scriptsize": (8.1, 6.9, 6.9),
}

_ITALIC = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (529, 429, 433, 520, 466, 597, 513, 576, 345, 469, 552, 318, 878, 600, 485, 503, 482, 479, 469, 361, 572, 521)
        + (743, 572, 526, 509, 750, 809, 786, 856, 796, 782, 786, 912, 518, 651, 921, 681, 1079, 912, 791, 781, 791)
        + (767, 671, 723, 792, 806, 1083, 907, 803, 754),
    )
)
_ROMAN = dict(
    zip(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
        (500, 556, 444, 556, 444, 306, 500, 556, 278, 306, 528, 278, 833, 556, 500, 556, 528, 392, 394, 389, 556, 528)
        + (722, 528, 528, 444, 750, 708, 722, 764, 681, 653, 785, 750, 361, 514, 778, 625, 917, 750, 778, 681, 778)
        + (736, 556, 722, 750, 750, 1028, 750, 750, 611),
    )
)
_NARROW = dict.fromkeys("!,.;:'[]|", 280) | dict.fromkeys("()", 389)
_SYMBOLS = dict(
    alpha=643, beta=618, gamma=573, delta=482, epsilon=406, varepsilon=466, zeta=511, eta=532, theta=497, iota=354,
    kappa=576, mu=603, nu=558, xi=484, pi=606, rho=517, sigma=607, tau=550, upsilon=576, phi=596, varphi=654,
    chi=626, psi=687, omega=658, Gamma=625, Delta=833, Theta=778, Lambda=694, Xi=667, Pi=750, Sigma=722, Phi=722,
    Psi=778, Omega=722, lambda_=583, ell=417, infty=1000, partial=586, ast=500, dots=1340, prime=275, int=1000, sum=1460,
    langle=389, rangle=389, lvert=278, rvert=278, vert=278, lfloor=444, rfloor=444, lbrace=500, rbrace=500,
)  # fmt: skip
_SYMBOLS["lambda"] = _SYMBOLS.pop("lambda_")
_BINARY = dict(pm=778, cdot=278, times=778, ast=500) | {"+": 778, "-": 778, "*": 500}
_RELATION = dict.fromkeys(("sim", "le", "leq", "ge", "geq", "approx", "neq", "in", "mid", "wedge", "vee"), 778)
_RELATION |= dict.fromkeys(("to", "rightarrow", "leftarrow"), 1000) | dict.fromkeys("<>=", 778)
_OPERATORS = frozenset(
    "log exp sin cos tan cot sec csc tanh sinh cosh coth arcsin arccos arctan max min lim sup inf".split()
)
_SPACES = {",": 167, ":": 222, ";": 278, "!": -167, " ": 333, "quad": 1000, "qquad": 2000, "thinspace": 167}
_NOTHING = frozenset(["displaystyle", "textstyle", "allowbreak", "limits", "nolimits", "relax", "strut"])
_BIG = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}
BIG_SIZES = tuple(_BIG)
#: widths of a parenthesis by the height it has to cover, both in quads
_BRACKET = ((1.01, 0.39), (1.21, 0.47), (1.81, 0.61), (2.41, 0.75), (3.01, 0.81), (99.0, 0.88))
_CLASS = {"bin": 222, "rel": 278}


@dataclass(frozen=True)
class Node:
    """One piece of a formula: `kind` says which, `text` its LaTeX, `parts` the formulas inside it."""

    kind: str  # ord bin rel op punct space group frac sqrt sup sub left text cases big amp newline
    text: str
    parts: tuple[tuple[Node, ...], ...] = ()
    detail: tuple[str, ...] = ()


@dataclass(frozen=True)
class Box:
    """Width, height above and depth below the baseline, in points."""

    width: float
    height: float
    depth: float


class Unreadable(ValueError):
    """LaTeX outside the subset that is printed here, with the place."""


# ------------------------------------------------------------------------------------------------------------- reading

_TOKEN = re.compile(r"\\[a-zA-Z]+|\\.|[{}^_&]|\s+|.", re.DOTALL)


@lru_cache(maxsize=4096)
def read(text: str) -> tuple[Node, ...]:
    """A formula (math mode) as nodes. Raises: Unreadable for unbalanced braces or brackets and for unknown macros."""
    return _Reader(_TOKEN.findall(text)).until(())


class _Reader:
    def __init__(self, tokens: list[str]):
        self.tokens, self.at = tokens, 0

    def peek(self) -> str:
        """The next token that is no white space; "" at the end."""
        while self.at < len(self.tokens) and self.tokens[self.at].isspace():
            self.at += 1
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        if not token:
            raise Unreadable("the formula ends too early")
        self.at += 1
        return token

    def until(self, ends: tuple[str, ...]) -> tuple[Node, ...]:
        out: list[Node] = []
        while self.peek():
            if self.peek() in ends:
                return tuple(out)
            if self.peek() in ("}", r"\right", r"\end"):
                raise Unreadable(f"{self.peek()} closes nothing")
            out.append(self.node())
        if ends:
            raise Unreadable(f"{ends[0]} is missing")
        return tuple(out)

    def group(self) -> tuple[Node, ...]:
        """The argument of a macro: {…} or one token."""
        if self.peek() != "{":
            return (self.node(),)
        self.next()
        inside = self.until(("}",))
        self.next()
        return inside

    def raw(self) -> str:
        """{…} as text."""
        if self.next() != "{":
            raise Unreadable("a macro has no argument")
        depth, out = 1, []
        while depth:
            if self.at >= len(self.tokens):
                raise Unreadable("} is missing")
            t = self.tokens[self.at]
            self.at += 1
            depth += (t == "{") - (t == "}")
            out.append(t)
        return "".join(out[:-1])

    def node(self) -> Node:
        t = self.next()
        if t == "{":
            self.at -= 1
            inside = self.group()
            return Node("group", "{" + write(inside) + "}", (inside,))
        if t in ("^", "_"):
            braced = self.peek() == "{"
            inside = self.group()
            body = "{" + write(inside) + "}" if braced else write(inside)
            return Node("sup" if t == "^" else "sub", t + body, (inside,))
        if t == "&":
            return Node("amp", "&")
        if t[0] != "\\":
            if t in _BINARY:
                return Node("bin", t)
            if t in _RELATION:
                return Node("rel", t)
            if t in ",;":
                return Node("punct", t)
            if not (t.isalnum() or t in _NARROW or t == "/"):
                raise Unreadable(f"{t!r} has no place in a formula")
            return Node("ord", t)
        return self.macro(t[1:])

    def macro(self, name: str) -> Node:
        full = "\\" + name
        if name in ("frac", "dfrac", "tfrac"):
            top, bottom = self.group(), self.group()
            return Node("frac", rf"{full}{{{write(top)}}}{{{write(bottom)}}}", (top, bottom))
        if name == "sqrt":
            index = ""
            if self.peek() == "[":
                self.next()
                while self.peek() != "]":
                    index += self.next()
                self.next()
            inside = self.group()
            return Node("sqrt", rf"\sqrt{f'[{index}]' if index else ''}{{{write(inside)}}}", (inside,), (index,))
        if name == "left":
            opening = self.next()
            inside = self.until((r"\right",))
            self.next()
            closing = self.next()
            return _bracketed(opening, inside, closing)
        if name in ("text", "textbf", "mathrm", "operatorname", "mathit"):
            body = self.raw()
            return Node("op" if name == "operatorname" else "text", rf"{full}{{{body}}}", (), (body,))
        if name == "begin":
            kind = self.raw().replace(" ", "")
            if kind != "cases":
                raise Unreadable(f"the environment {kind} inside a formula")
            rows: list[tuple[Node, ...]] = []
            while True:
                rows.append(self.until((r"\\", r"\end")))
                if self.next() == r"\end":
                    break
            if self.raw().replace(" ", "") != kind:
                raise Unreadable(rf"\begin{{{kind}}} has another end")
            body = r" \\ ".join(write(r) for r in rows)
            return Node("cases", rf"\begin{{cases}} {body} \end{{cases}}", tuple(rows))
        if name.rstrip("lrm") in _BIG and name != "big":
            return Node("big", full + self.next(), (), (name.rstrip("lrm"), name[-1]))
        if name == "\\":
            return Node("newline", r"\\")
        if name in _SPACES:
            return Node("space", full if name != " " else "\\ ", (), (name,))
        if name in _NOTHING:
            return Node("space", full, (), ("0",))
        if name in _OPERATORS:
            return Node("op", full, (), (name,))
        if name in _BINARY:
            return Node("bin", full)
        if name in _RELATION:
            return Node("rel", full)
        if name in ("{", "}", "|"):
            return Node("ord", full)
        if name in _SYMBOLS:
            return Node("ord", full)
        raise Unreadable(f"unknown macro {full}")


def _bracketed(opening: str, inside: tuple[Node, ...], closing: str) -> Node:
    return Node("left", rf"\left{opening} {write(inside)} \right{closing}", (inside,), (opening, closing))


def write(nodes: tuple[Node, ...] | list[Node]) -> str:
    """LaTeX of nodes."""
    out = ""
    for n in nodes:
        letters = n.text.isalpha() and out[-1:].isalpha() and not re.search(r"\\[a-zA-Z]+$", out)
        tight = not out or n.kind in ("sup", "sub", "punct") or n.text.isdigit() and out[-1].isdigit() or letters
        out += n.text if tight else " " + n.text
    return out


def leaves(nodes: tuple[Node, ...]) -> Iterator[Node]:
    """All nodes, depth first."""
    for n in nodes:
        yield n
        for part in n.parts:
            yield from leaves(part)


# ----------------------------------------------------------------------------------------------------------- measuring


def width(text: str, size: str = "normalsize") -> float:
    """Estimated width of a displayed formula, in points."""
    return measure(read(text), size).width


@lru_cache(maxsize=65536)
def measure(nodes: tuple[Node, ...], size: str = "normalsize", style: int = -1) -> Box:
    """The box of nodes set in a style: -1 display, 0 text, 1 script, 2 scriptscript."""
    quad = SIZES[size][max(style, 0)]
    space = quad / 1000 if style <= 0 else 0.0  # TeX drops the spaces between atoms in scripts
    wide, height, depth, i = 0.0, 0.0, 0.0, 0
    before, base = "", Box(0.0, 0.0, 0.0)
    while i < len(nodes):
        n = nodes[i]
        kind = n.kind if n.kind != "bin" or before not in ("", "bin", "rel", "punct", "open") else "ord"
        if n.kind in ("sup", "sub"):
            both = [n]
            if i + 1 < len(nodes) and nodes[i + 1].kind in ("sup", "sub") and nodes[i + 1].kind != n.kind:
                both.append(nodes[i + 1])
                i += 1
            boxes = [measure(b.parts[0], size, min(max(style, 0) + 1, 2)) for b in both]
            wide += max(b.width for b in boxes) + 0.5
            for b, box in zip(both, boxes):
                if b.kind == "sup":
                    rise = max(0.41 * quad, base.height - 0.38 * quad, box.depth + 0.11 * quad)
                    height = max(height, rise + box.height)
                else:
                    drop = max(0.15 * quad, base.depth + 0.05 * quad, box.height - 0.34 * quad)
                    depth = max(depth, drop + box.depth)
            i += 1
            continue
        base = box = _one(n, size, style, quad)
        wide += box.width + 2 * space * _CLASS.get(kind, 0)
        if before == "op" and kind in ("ord", "frac", "group", "sqrt") or kind == "op" and before in ("ord", "close"):
            wide += 167 * space
        if kind == "left" and before and before not in ("bin", "rel"):
            wide += 167 * space
        if before == "left" and kind not in ("bin", "rel", "punct"):
            wide += 167 * space
        if kind == "punct":
            wide += 167 * space
        height, depth = max(height, box.height), max(depth, box.depth)
        if n.kind != "space":
            before = kind if kind not in ("frac", "group", "sqrt", "cases", "text") else "ord"
        if n.kind == "big":
            before = {"l": "open", "r": "close"}.get(n.detail[1], "ord")
        i += 1
    return Box(wide, height, depth)


def _one(n: Node, size: str, style: int, quad: float) -> Box:
    up, down = 0.7 * quad, 0.2 * quad
    if n.kind == "space":
        return Box(_SPACES.get(n.detail[0], 0) * quad / 1000, 0.0, 0.0)
    if n.kind == "group":
        return measure(n.parts[0], size, style)
    if n.kind == "frac":
        inner = 0 if style < 0 else min(style + 1, 2)
        top, bottom = (measure(p, size, inner) for p in n.parts)
        # the baselines of numerator and denominator, and the clearance from the rule on the axis, in quads
        raised, lowered, clear = (0.68, 0.69, 0.12) if style < 0 else (0.4, 0.35, 0.04)
        rise = max(raised * quad, (0.27 + clear) * quad + top.depth)
        drop = max(lowered * quad, bottom.height + (clear - 0.23) * quad)
        return Box(max(top.width, bottom.width) + 2.4, rise + top.height, drop + bottom.depth)
    if n.kind == "sqrt":
        inside = measure(n.parts[0], size, style)
        extra = measure(read(n.detail[0]), size, 2).width if n.detail[0] else 0.0
        sign = 0.84 if inside.height + inside.depth < 0.85 * quad else 1.0
        return Box(inside.width + sign * quad + extra, inside.height + 0.3 * quad, inside.depth)
    if n.kind == "left":
        inside = measure(n.parts[0], size, style)
        ends = sum(_delimiter(d, _covered(inside, quad), quad) for d in n.detail)
        return Box(inside.width + ends, inside.height + 0.1 * quad, inside.depth + 0.1 * quad)
    if n.kind == "big":
        tall = _BIG[n.detail[0]]
        return Box(_delimiter(n.text, tall, quad), (tall / 2 + 0.25) * quad, (tall / 2 - 0.25) * quad)
    if n.kind in ("text", "op"):
        return Box(text_width(n.detail[0], quad), up, down)
    if n.kind == "cases":
        return _cases(n, size, quad)
    name = n.text.lstrip("\\")
    for table in (_BINARY, _RELATION, _NARROW, _SYMBOLS, _ITALIC):
        if name in table:
            return Box(table[name] * quad / 1000, up, down)
    return Box(0.5 * quad, up, down)


def _cases(n: Node, size: str, quad: float) -> Box:
    cells = [_split(r, "amp") for r in n.parts]
    boxes = [[measure(c, size, 0) for c in row] for row in cells]
    columns = max(len(r) for r in boxes)
    wide = sum(max((r[c].width for r in boxes if c < len(r)), default=0.0) for c in range(columns))
    tall = sum(max(1.44 * quad, max(b.height for b in r) + max(b.depth for b in r) + 0.1 * quad) for r in boxes)
    return Box(wide + (columns - 1) * quad + 1.25 * quad, tall / 2 + 0.25 * quad, tall / 2 - 0.25 * quad)


def _split(nodes: tuple[Node, ...], kind: str) -> list[tuple[Node, ...]]:
    out: list[list[Node]] = [[]]
    for n in nodes:
        if n.kind == kind:
            out.append([])
        else:
            out[-1].append(n)
    return [tuple(p) for p in out]


def _covered(inside: Box, quad: float) -> float:
    """The height in quads of brackets around a box: symmetric about the axis."""
    return 2 * max(inside.height - 0.25 * quad, inside.depth + 0.25 * quad) / quad * 0.901


def _delimiter(mark: str, tall: float, quad: float) -> float:
    if mark == ".":
        return 1.2
    scale = 0.62 if mark.endswith(("|", "vert")) else 0.8 if mark.endswith(("[", "]")) else 1.0
    return scale * quad * next(w for h, w in _BRACKET if tall <= h)


def bracket_size(nodes: tuple[Node, ...], size: str) -> str:
    r"""The macro among \big, \Big, \bigg, \Bigg whose brackets cover nodes."""
    quad = SIZES[size][0]
    tall = _covered(measure(nodes, size), quad)
    return next((name for name, h in _BIG.items() if tall <= 1.1 * h), "Bigg")


def text_width(text: str, quad: float) -> float:
    """Width of roman text."""
    return sum(_ROMAN.get(c, 333 if c == " " else 280 if c in ".,;:'()-|" else 500) for c in text) * quad / 1000
