r"""How wide and how high TeX sets a formula: a box model of it.

Brackets, fractions, roots, scripts and cases follow TeX's rules closely enough that an estimate is within a few per
cent of the box that TeX makes, and rarely below it. Lines are broken by these estimates (`tex_lines`), so that no TeX
is needed to write a formula that fits.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

from meanfield.base.tex.read import BIG, BINARY, ITALIC, NARROW, RELATION, ROMAN, SPACES, SYMBOLS, TexNode, read

TEXTWIDTH = 345.0  # pt, \textwidth of an article at 10 pt
#: size of the document's text → points per quad of its text, script and scriptscript letters
SIZES = {
    "normalsize": (10.0, 8.1, 6.9),
    "small": (9.3, 7.4, 6.9),
    "footnotesize": (8.55, 7.4, 6.9),
    "scriptsize": (8.1, 6.9, 6.9),
}
#: widths of a parenthesis by the height it has to cover, both in quads
_BRACKET = ((1.01, 0.39), (1.21, 0.47), (1.81, 0.61), (2.41, 0.75), (3.01, 0.81), (99.0, 0.88))
_CLASS = {"bin": 222, "rel": 278}


@dataclass(frozen=True)
class Box:
    """Width, height above and depth below the baseline, in points."""

    width: float
    height: float
    depth: float


@dataclass(frozen=True)
class Column:
    """What LaTeX is written for: lines of `width` points; across: floats span both columns of a page."""

    width: float = TEXTWIDTH
    across: bool = False

    @property
    def float(self) -> str:
        return "table*" if self.across else "table"


COLUMN: ContextVar[Column | None] = ContextVar("the column that LaTeX is written for", default=None)


def column() -> Column:
    """What LaTeX is written for here."""
    return COLUMN.get() or Column()


def width(text: str, size: str = "normalsize") -> float:
    """Estimated width of a displayed formula, in points."""
    return measure(read(text), size).width


@lru_cache(maxsize=65536)
def measure(nodes: tuple[TexNode, ...], size: str = "normalsize", style: int = -1) -> Box:
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
        applied = before == "op" and kind in ("ord", "frac", "group", "sqrt")
        if applied or (kind == "op" and before in ("ord", "close")):
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


def _one(n: TexNode, size: str, style: int, quad: float) -> Box:
    up, down = 0.7 * quad, 0.2 * quad
    if n.kind == "space":
        return Box(SPACES.get(n.detail[0], 0) * quad / 1000, 0.0, 0.0)
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
        tall = BIG[n.detail[0]]
        return Box(_delimiter(n.text, tall, quad), (tall / 2 + 0.25) * quad, (tall / 2 - 0.25) * quad)
    if n.kind in ("text", "op"):
        return Box(text_width(n.detail[0], quad), up, down)
    if n.kind == "cases":
        return _cases(n, size, quad)
    name = n.text.lstrip("\\")
    for table in (BINARY, RELATION, NARROW, SYMBOLS, ITALIC):
        if name in table:
            return Box(table[name] * quad / 1000, up, down)
    return Box(text_width(n.text, quad), up, down)  # a number


def _cases(n: TexNode, size: str, quad: float) -> Box:
    cells = [_split(r, "amp") for r in n.parts]
    boxes = [[measure(c, size, 0) for c in row] for row in cells]
    columns = max(len(r) for r in boxes)
    wide = sum(max((r[c].width for r in boxes if c < len(r)), default=0.0) for c in range(columns))
    tall = sum(max(1.44 * quad, max(b.height for b in r) + max(b.depth for b in r) + 0.1 * quad) for r in boxes)
    return Box(wide + (columns - 1) * quad + 1.25 * quad, tall / 2 + 0.25 * quad, tall / 2 - 0.25 * quad)


def _split(nodes: tuple[TexNode, ...], kind: str) -> list[tuple[TexNode, ...]]:
    out: list[list[TexNode]] = [[]]
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


def bracket_size(nodes: tuple[TexNode, ...], size: str) -> str:
    r"""The macro among \big, \Big, \bigg, \Bigg whose brackets cover nodes."""
    quad = SIZES[size][0]
    tall = _covered(measure(nodes, size), quad)
    return next((name for name, h in BIG.items() if tall <= 1.1 * h), "Bigg")


def text_width(text: str, quad: float) -> float:
    """Width of roman text."""
    return sum(ROMAN.get(c, 333 if c == " " else NARROW.get(c, 280 if c == "-" else 500)) for c in text) * quad / 1000
