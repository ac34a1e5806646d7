r"""A reader of the LaTeX formulas that are printed here (a subset of amsmath), and the widths of TeX's letters.

`read` gives nodes, `write` their LaTeX. Widths are those of Computer Modern at 10 pt. Nothing here knows SymPy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache


def _widths(text: str) -> dict[str, int]:
    """Names, each followed by its width in thousandths of a quad."""
    return {name: int(width) for name, width in re.findall(r"([A-Za-z]+)(\d+)", text)}


ITALIC = _widths(
    "a529 b429 c433 d520 e466 f597 g513 h576 i345 j469 k552 l318 m878 n600 o485 p503 q482 r479 s469 t361 u572 "
    "v521 w743 x572 y526 z509 A750 B809 C786 D856 E796 F782 G786 H912 I518 J651 K921 L681 M1079 N912 O791 P781 "
    "Q791 R767 S671 T723 U792 V806 W1083 X907 Y803 Z754 "
)
ROMAN = _widths(
    "a500 b556 c444 d556 e444 f306 g500 h556 i278 j306 k528 l278 m833 n556 o500 p556 q528 r392 s394 t389 u556 "
    "v528 w722 x528 y528 z444 A750 B708 C722 D764 E681 F653 G785 H750 I361 J514 K778 L625 M917 N750 O778 P681 "
    "Q778 R736 S556 T722 U750 V750 W1028 X750 Y750 Z611 "
)
NARROW = dict.fromkeys("!,.;:'[]|", 280) | dict.fromkeys("()", 389)
SYMBOLS = _widths(
    "alpha643 beta618 gamma573 delta482 epsilon406 varepsilon466 zeta511 eta532 theta497 iota354 kappa576 "
    "mu603 nu558 xi484 pi606 rho517 sigma607 tau550 upsilon576 phi596 varphi654 chi626 psi687 omega658 "
    "Gamma625 Delta833 Theta778 Lambda694 Xi667 Pi750 Sigma722 Phi722 Psi778 Omega722 ell417 infty1000 "
    "partial586 ast500 dots1340 prime275 int1000 sum1460 prod1280 langle389 rangle389 lvert278 rvert278 vert278 "
    "lfloor444 rfloor444 lbrace500 rbrace500 lambda583 "
)
BINARY = dict(pm=778, cdot=278, times=778, ast=500) | {"+": 778, "-": 778, "*": 500}
RELATION = dict.fromkeys(("sim", "le", "leq", "ge", "geq", "approx", "neq", "in", "mid", "wedge", "vee"), 778)
RELATION |= dict.fromkeys(("to", "rightarrow", "leftarrow"), 1000) | dict.fromkeys("<>=", 778)
OPERATORS = frozenset(
    re.findall(
        r"\w+", "log exp sin cos tan cot sec csc tanh sinh cosh coth arcsin arccos arctan max min lim sup inf"
    )
)
SPACES = {",": 167, ":": 222, ";": 278, "!": -167, " ": 333, "quad": 1000, "qquad": 2000, "thinspace": 167}
NOTHING = frozenset(["displaystyle", "textstyle", "allowbreak", "limits", "nolimits", "relax", "strut"])
ACCENTS = ("widehat", "hat", "tilde", "bar", "overline")  # as wide as what they stand above
BIG = {"big": 1.2, "Big": 1.8, "bigg": 2.4, "Bigg": 3.0}


@dataclass(frozen=True)
class TexNode:
    """One piece of a formula: `kind` says which, `text` its LaTeX, `parts` the formulas inside it."""

    kind: str  # ord bin rel op punct space group frac sqrt sup sub left text cases big amp newline
    text: str
    parts: tuple[tuple[TexNode, ...], ...] = ()
    detail: tuple[str, ...] = ()


class UnreadableTex(ValueError):
    """LaTeX outside the subset that is printed here, with the place."""


# ------------------------------------------------------------------------------------------------------------- reading

_TOKEN = re.compile(r"\\[a-zA-Z]+|\d+(?:\.\d+)?|\\.|[{}^_&]|\s+|.", re.DOTALL)


@lru_cache(maxsize=4096)
def read(text: str) -> tuple[TexNode, ...]:
    """A formula (math mode) as nodes. Raises: UnreadableTex for unbalanced braces or brackets, unknown macros."""
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
            raise UnreadableTex("the formula ends too early")
        self.at += 1
        return token

    def until(self, ends: tuple[str, ...]) -> tuple[TexNode, ...]:
        out: list[TexNode] = []
        while self.peek():
            if self.peek() in ends:
                return tuple(out)
            if self.peek() in ("}", r"\right", r"\end"):
                raise UnreadableTex(f"{self.peek()} closes nothing")
            out.append(self.node())
        if ends:
            raise UnreadableTex(f"{ends[0]} is missing")
        return tuple(out)

    def group(self) -> tuple[TexNode, ...]:
        """The argument of a macro: {…} or one token."""
        token = self.peek()
        if token[:1].isdigit() and len(token) > 1:  # x^23 is x squared, times 3
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        if token != "{":
            return (self.node(),)
        self.next()
        inside = self.until(("}",))
        self.next()
        return inside

    def raw(self) -> str:
        """{…} as text."""
        if self.next() != "{":
            raise UnreadableTex("a macro has no argument")
        depth, out = 1, []
        while depth:
            if self.at >= len(self.tokens):
                raise UnreadableTex("} is missing")
            t = self.tokens[self.at]
            self.at += 1
            depth += (t == "{") - (t == "}")
            out.append(t)
        return "".join(out[:-1])

    def node(self) -> TexNode:
        t = self.next()
        if t == "{":
            self.at -= 1
            inside = self.group()
            return TexNode("group", "{" + write(inside) + "}", (inside,))
        if t in ("^", "_"):
            braced = self.peek() == "{"
            inside = self.group()
            body = "{" + write(inside) + "}" if braced else write(inside)
            return TexNode("sup" if t == "^" else "sub", t + body, (inside,))
        if t == "&":
            return TexNode("amp", "&")
        if t[0] != "\\":
            if t in BINARY:
                return TexNode("bin", t)
            if t in RELATION:
                return TexNode("rel", t)
            if t in ",;":
                return TexNode("punct", t)
            if not ((t.isascii() and t.isalnum()) or t[0].isdigit() or t in NARROW or t == "/"):
                raise UnreadableTex(f"{t!r} has no place in a formula")
            return TexNode("ord", t)
        return self.macro(t[1:])

    def macro(self, name: str) -> TexNode:
        full = "\\" + name
        if name in ("frac", "dfrac", "tfrac"):
            top, bottom = self.group(), self.group()
            return TexNode("frac", rf"{full}{{{write(top)}}}{{{write(bottom)}}}", (top, bottom))
        if name == "sqrt":
            index = ""
            if self.peek() == "[":
                self.next()
                while self.peek() != "]":
                    index += self.next()
                self.next()
            inside = self.group()
            return TexNode("sqrt", rf"\sqrt{f'[{index}]' if index else ''}{{{write(inside)}}}", (inside,), (index,))
        if name == "left":
            opening = self.next()
            inside = self.until((r"\right",))
            self.next()
            closing = self.next()
            return _bracketed(opening, inside, closing)
        if name in ACCENTS:
            inside = self.group()
            return TexNode("group", rf"{full}{{{write(inside)}}}", (inside,))
        if name in ("text", "textbf", "mathrm", "mathbb", "operatorname", "mathit"):
            body = self.raw()
            return TexNode("op" if name == "operatorname" else "text", rf"{full}{{{body}}}", (), (body,))
        if name == "begin":
            kind = self.raw().replace(" ", "")
            if kind != "cases":
                raise UnreadableTex(f"the environment {kind} inside a formula")
            rows: list[tuple[TexNode, ...]] = []
            while True:
                rows.append(self.until((r"\\", r"\end")))
                if self.next() == r"\end":
                    break
            if self.raw().replace(" ", "") != kind:
                raise UnreadableTex(rf"\begin{{{kind}}} has another end")
            body = r" \\ ".join(write(r) for r in rows)
            return TexNode("cases", rf"\begin{{cases}} {body} \end{{cases}}", tuple(rows))
        if name.rstrip("lrm") in BIG and name != "big":
            return TexNode("big", full + self.next(), (), (name.rstrip("lrm"), name[-1]))
        if name == "\\":
            return TexNode("newline", r"\\")
        if name in SPACES:
            return TexNode("space", full if name != " " else "\\ ", (), (name,))
        if name in NOTHING:
            return TexNode("space", full, (), ("0",))
        if name in OPERATORS:
            return TexNode("op", full, (), (name,))
        if name in BINARY:
            return TexNode("bin", full)
        if name in RELATION:
            return TexNode("rel", full)
        if name in ("{", "}", "|"):
            return TexNode("ord", full)
        if name in SYMBOLS:
            return TexNode("ord", full)
        raise UnreadableTex(f"unknown macro {full}")


def _bracketed(opening: str, inside: tuple[TexNode, ...], closing: str) -> TexNode:
    return TexNode("left", rf"\left{opening} {write(inside)} \right{closing}", (inside,), (opening, closing))


def write(nodes: tuple[TexNode, ...] | list[TexNode]) -> str:
    """LaTeX of nodes."""
    out = ""
    for n in nodes:
        letters = n.text.isalpha() and out[-1:].isalpha() and not re.search(r"\\[a-zA-Z]+$", out)
        tight = not out or n.kind in ("sup", "sub", "punct") or letters
        tight = tight or n.text == "'"  # TeX takes primes with a space between them as two superscripts
        tight = tight or (n.text[0].isdigit() and out[-1].isdigit())
        out += n.text if tight else " " + n.text
    return out


def leaves(nodes: tuple[TexNode, ...]) -> Iterator[TexNode]:
    """All nodes, depth first."""
    for n in nodes:
        yield n
        for part in n.parts:
            yield from leaves(part)
