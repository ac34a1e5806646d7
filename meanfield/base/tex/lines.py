r"""Formulas broken into lines that fit a width, without TeX.

A formula breaks at the plus and minus signs of its outermost sum. A term that is still too wide is opened: its brackets
become \Bigl( … \Bigr), inside which a line may end, a fraction becomes a factor, a root or an exponential a bracket;
last of all a product breaks at \times. Widths are those of `tex_width`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from meanfield.base.tex.read import TexNode, read, write
from meanfield.base.tex.width import bracket_size, measure

INDENT = r"\quad "  # of continuation lines
#: what `_open` makes of a node
Opening = tuple[int, tuple[TexNode, ...], tuple[TexNode, ...], tuple[TexNode, ...], bool]
_SIGNS = ("+", "-")
_SHARES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6)  # of the room, that a piece may take


@dataclass(frozen=True)
class _Chunk:
    """A piece that does not break. `cost` of ending the line before it: its bracket depth for a sign, more for a
    product; None where a line may not end."""

    nodes: tuple[TexNode, ...]
    cost: int | None
    product: bool = False


def lines(text: str, limit: float, size: str = "normalsize", first: float = 0.0) -> list[str]:
    """`text` as lines (math mode each) of at most `limit` points; the first one is `first` points shorter.

    Continuation lines begin with a quad of indent. A line that cannot be broken (one long word) stays too wide.
    """
    nodes = read(text)
    if measure(nodes, size).width <= limit - first:
        return [text]
    quad = measure(read(r"\quad"), size).width
    room, best = limit - max(first, quad), None
    for share in _SHARES:  # brackets that are opened grow, and a piece may be wider in its place than alone
        found = _filled(_chunks(nodes, share * room, size, 0), limit, first, quad, size)
        over = max(measure(read(line), size).width - (limit if i else limit - first) for i, line in enumerate(found))
        if over <= 0:
            return found
        if best is None or over < best[0]:
            best = over, found
    assert best is not None
    return best[1]


def opened(text: str, limit: float, size: str = "normalsize") -> bool:
    """Whether `text` needs more than breaks at the signs of its outermost sum to fit."""
    quad = measure(read(r"\quad"), size).width
    return any(measure(t, size).width > limit - quad for t in _terms(read(text)))


def _terms(nodes: tuple[TexNode, ...]) -> list[tuple[TexNode, ...]]:
    """The summands at this level, each with its sign."""
    out: list[list[TexNode]] = [[]]
    for i, n in enumerate(nodes):
        sign = n.text in _SIGNS and n.kind == "bin" and i and nodes[i - 1].kind not in ("bin", "rel", "punct")
        if out[-1] and (sign or n.kind == "rel"):
            out.append([])
        out[-1].append(n)
    return [tuple(t) for t in out if t]


def _chunks(nodes: tuple[TexNode, ...], room: float, size: str, depth: int) -> list[_Chunk]:
    out: list[_Chunk] = []
    for i, term in enumerate(_terms(nodes)):
        cost = depth if i else None
        if _wide(term, size) <= room:
            out.append(_Chunk(term, cost))
            continue
        out += _opened(term, room, size, depth, cost)
    return out


def _opened(term: tuple[TexNode, ...], room: float, size: str, depth: int, cost: int | None) -> list[_Chunk]:
    """A summand that is too wide: its widest bracket, fraction, root or exponential is opened, else its product."""
    factors = [measure(f, size).width for f in _factors(term)]
    if max(factors) <= 0.62 * room:
        return _product(term, room, size, depth, cost)
    best, found = 0.0, None
    for i, n in enumerate(term):
        candidate = _open(term, i, size)
        if candidate is not None:
            wide = measure((n,), size).width if n.kind != "sup" else measure(n.parts[0], size).width
            if wide > best:
                best, found = wide, (i, candidate)
    if found is None or best < 0.35 * room:
        return _product(term, room, size, depth, cost)
    i, (back, before, inside, after, bracketed) = found
    head, tail = (*term[: i - back], *before), (*after, *term[i + 1 :])
    if not bracketed:  # the inside is a product and joins the factors around it
        return _chunks_of_term((*head, *inside, *tail), room, size, depth, cost)
    k = len(after)
    while k < len(tail) and tail[k].kind in ("sup", "sub"):
        k += 1
    closing, rest = tail[:k], tail[k:]
    if measure(head, size).width > 0.7 * room:
        front = _chunks_of_term(head, room, size, depth, cost)
    else:
        front = [_Chunk(head, cost)]
    end = measure(closing, size).width
    chunks = _chunks(inside, max(room - end, 0.5 * room), size, depth + 1)
    start = measure(front[-1].nodes, size).width
    if start + measure(chunks[0].nodes, size).width + (end if len(chunks) == 1 else 0.0) > room:
        # what follows an opening bracket shares its line
        chunks = _chunks(inside, max(room - start - end, 0.3 * room), size, depth + 1)
    if start + measure(chunks[0].nodes, size).width <= room:  # else what cannot be broken has a line of its own
        front[-1], chunks = _glued(front[-1], chunks[0].nodes), chunks[1:]
    if chunks:
        chunks[-1] = _glued(chunks[-1], closing)
    else:
        front[-1] = _glued(front[-1], closing)
    chunks = [*front, *chunks]
    if not rest or measure((*chunks[-1].nodes, *rest), size).width <= room:
        chunks[-1] = _glued(chunks[-1], rest)
        return chunks
    sign = measure(read(r"{}\times{}"), size).width
    back_half = _chunks_of_term(rest, max(room - sign, 0.5 * room), size, depth, depth + 1)
    return [*chunks, replace(back_half[0], product=True), *back_half[1:]]


def _glued(chunk: _Chunk, nodes: tuple[TexNode, ...]) -> _Chunk:
    return replace(chunk, nodes=(*chunk.nodes, *nodes))


def _wide(term: tuple[TexNode, ...], size: str) -> float:
    """The width of a term at the start of a later line, where its sign is spaced as a binary one."""
    lead = read("{}") if term and term[0].kind in ("bin", "rel") else ()
    return measure((*lead, *term), size).width


def _chunks_of_term(term: tuple[TexNode, ...], room: float, size: str, depth: int, cost: int | None) -> list[_Chunk]:
    if _wide(term, size) <= room:
        return [_Chunk(term, cost)]
    return _opened(term, room, size, depth, cost)


def _open(term: tuple[TexNode, ...], i: int, size: str) -> Opening | None:
    """(nodes to drop before, opening, inside, closing, whether a bracket stands around it) of a node, if it opens."""
    n = term[i]
    if n.kind == "group" and len(n.parts[0]) == 1 and n.parts[0][0].kind == "left":
        n = n.parts[0][0]
    if n.kind == "group":
        return 0, (), n.parts[0], (), False
    if n.kind == "left" and "." not in n.detail:
        big = bracket_size(n.parts[0], size)
        return 0, read(rf"\{big}l{n.detail[0]}"), n.parts[0], read(rf"\{big}r{n.detail[1]}"), True
    if n.kind == "frac":
        return _fraction(n, size)
    if n.kind == "sqrt" and not n.detail[0]:
        big = bracket_size(n.parts[0], size)
        return 0, read(rf"\{big}l("), n.parts[0], read(rf"\{big}r)^{{1/2}}"), True
    if n.kind == "sup" and i and term[i - 1].text == "e":
        big = bracket_size(n.parts[0], size)
        return 1, read(rf"\exp\{big}l("), n.parts[0], read(rf"\{big}r)"), True
    return None


def _fraction(n: TexNode, size: str) -> Opening | None:
    top, bottom = n.parts
    over, under = measure(top, size).width, measure(bottom, size).width
    if over >= under:
        if len(_terms(top)) == 1 and top[0].kind != "bin":  # its widest factor leaves the fraction
            factors = _factors(top)
            widest = max(factors, key=lambda f: measure(f, size).width)
            if not any(n.parts for n in widest):  # nothing but letters and numbers
                return None
            rest = write([n for f in factors if f is not widest for n in f]) or "1"
            return 0, read(rf"\frac{{{rest}}}{{{write(bottom)}}}"), widest, (), False
        before = read(rf"\frac{{1}}{{{write(bottom)}}}")
        big = bracket_size(top, size)
        return 0, (*before, *read(rf"\{big}l(")), top, read(rf"\{big}r)"), True
    big = bracket_size(bottom, size)
    over_text = write(top) if len(_terms(top)) == 1 else rf"\left( {write(top)} \right)"
    before = () if over_text == "1" else read(over_text)
    return 0, (*before, *read(rf"\{big}l(")), bottom, read(rf"\{big}r)^{{-1}}"), True


def _factors(term: tuple[TexNode, ...]) -> list[tuple[TexNode, ...]]:
    """The factors of a product, each with its scripts; a function keeps its argument, a sign the factor after it."""
    out: list[list[TexNode]] = []
    open_end = False  # the last factor still waits for an argument
    for n in term:
        if out and (open_end or n.kind in ("sup", "sub", "punct", "bin", "rel", "space")):
            out[-1].append(n)
        else:
            out.append([n])
        if n.kind not in ("sup", "sub"):
            open_end = n.kind in ("op", "bin", "rel", "space")
    return [tuple(f) for f in out]


def _product(term: tuple[TexNode, ...], room: float, size: str, depth: int, cost: int | None) -> list[_Chunk]:
    """A product cut between factors, so that no piece is wider than the room where its factors are not."""
    pieces: list[tuple[TexNode, ...]] = []
    for f in _factors(term):
        if pieces and measure((*pieces[-1], *f), size).width <= 0.4 * room:
            pieces[-1] += f
        else:
            pieces.append(f)
    return [_Chunk(p, cost if k == 0 else depth + 1, product=k > 0) for k, p in enumerate(pieces)]


def _filled(chunks: list[_Chunk], limit: float, first: float, quad: float, size: str) -> list[str]:
    """Chunks on lines: each line ends where breaking is cheapest, as late as its width allows."""
    out: list[str] = []
    start = 0
    while start < len(chunks):
        room = limit - (first if not out else quad)
        stop, best = start + 1, None
        while stop < len(chunks) and measure(_joined(chunks[start:stop], bool(out)), size).width <= room:
            cost = chunks[stop].cost
            if cost is not None:
                full = measure(_joined(chunks[start:stop], bool(out)), size).width / room
                # a break inside brackets is worth it only where the line would stay rather empty
                price = 0.25 * cost - full
                if best is None or price <= best[0]:
                    best = (price, stop)
            stop += 1
        if stop >= len(chunks) and measure(_joined(chunks[start:], bool(out)), size).width <= room:
            end = len(chunks)
        elif best is not None:
            end = best[1]
        else:  # one chunk wider than the room, or one that must not start a line
            end = start + 1
            while end < len(chunks) and chunks[end].cost is None:
                end += 1
        out.append((INDENT if out else "") + write(_joined(chunks[start:end], bool(out))))
        start = end
    return out


def _joined(chunks: list[_Chunk], later: bool) -> tuple[TexNode, ...]:
    nodes: tuple[TexNode, ...] = ()
    for k, c in enumerate(chunks):
        if c.product and k == 0 and later:
            nodes += read(r"\times")
        nodes += c.nodes
    if later and nodes and nodes[0].kind in ("bin", "rel"):
        nodes = (*read("{}"), *nodes)  # so that the sign is spaced as a binary one
    return nodes
