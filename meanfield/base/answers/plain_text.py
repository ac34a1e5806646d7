"""Text for a terminal: lines of at most 79 columns, and names for the numbers that a formula holds as nodes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence

import sympy as sp
from sympy.printing.str import StrPrinter

COLUMNS = 79
DIGITS = 12  # of a number that is named
READABLE, DECIMALS = 40, 17  # digits of a rational number that is shown as it is, else of its decimal


class _Formula(textwrap.TextWrapper):
    """Breaks at spaces and after * / ( and commas."""

    wordsep_simple_re = re.compile(r"(\s+)|(?<=[/(,])|(?<=[^*]\*)(?!\*)")


def wrapped(text: str, columns: int = COLUMNS) -> str:
    """`text` with its long lines broken at spaces; where that is not enough, after an operator, else anywhere."""
    out = []
    for line in text.splitlines():
        indent = " " * (len(line) - len(line.lstrip()))
        more = indent + " " * (4 if 0 < len(indent) < 6 else 0)
        if len(line) <= columns:
            out.append(line)
            continue
        kind = textwrap.TextWrapper if max(map(len, line.split())) < columns - len(more) else _Formula
        fill = kind(columns, initial_indent=indent, subsequent_indent=more, break_on_hyphens=False)
        out += fill.wrap(line.lstrip())
    return "\n".join(out)


def columns(rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines whose cells stand below each other, from the left.

    >>> columns([["layer", "own"], ["1", "0.25"], ["10", "3"]])
    ['layer  own', '1      0.25', '10     3']
    """
    held = [list(row) for row in rows]
    wide = [max(map(len, column)) for column in zip(*held)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, wide)).rstrip() for row in held]


def legible(e: sp.Expr, digits: int = DECIMALS) -> sp.Expr:
    """The expression with one decimal for each of its numbers that holds a rational of more digits than anybody reads
    (SELU's).

    >>> legible(sp.pi * sp.Rational(10**40 + 1, 3 * 10**40) * sp.Symbol("x") + 2)
    1.0471975511965977*x + 2
    """
    long = {r: sp.Float(r, digits) for r in e.atoms(sp.Rational) if _long(r)}
    if not long:
        return e
    if e.is_number and not any(hasattr(part, "tex_letter") for part in sp.preorder_traversal(e)):
        return sp.N(e, digits)
    if e.is_Add or e.is_Mul:
        numbers, rest = e.as_independent(*e.free_symbols, as_Add=e.is_Add)
        parts = rest.args if rest.func == e.func else (rest,)
        if numbers != e:
            return e.func(legible(numbers, digits), *[legible(part, digits) for part in parts])
    return e.func(*[legible(p, digits) if isinstance(p, sp.Expr) else p.xreplace(long) for p in e.args])


def _long(r: sp.Rational) -> bool:
    return len(str(r.p)) + len(str(r.q)) > READABLE


class _Legible(StrPrinter):
    """Text with `legible` numbers, inside the nodes of an expression too."""

    def _print_Rational(self, r: sp.Rational) -> str:
        printed: str = super()._print(sp.Float(r, DECIMALS)) if _long(r) else super()._print_Rational(r)
        return printed

    def _print_Mul(self, product: sp.Mul) -> str:
        shown = [sp.Float(a, DECIMALS) if a.is_Rational and _long(a) else a for a in product.args]
        printed: str = super()._print_Mul(product if tuple(shown) == product.args else sp.Mul(*shown))
        return printed


def text(e: sp.Expr) -> str:
    """The expression as text, with decimals as `legible` has them."""
    printed: str = _Legible().doprint(legible(e))
    return printed


def named(parts: Iterable[sp.Expr]) -> tuple[list[sp.Expr], list[str]]:
    """(`parts` with a name for every number that is no closed form, "name = node = digits" for each).

    A node takes part by `tex_letter`; one inside another is named where it stands alone, too.
    """
    given = [legible(p) if isinstance(p, sp.Expr) else p for p in parts]
    nodes = {e for p in given for e in sp.preorder_traversal(p) if hasattr(e, "tex_letter") and not e.free_symbols}
    swap: dict[sp.Expr, sp.Symbol] = {}
    lines = []
    for node in sorted(nodes, key=str):
        letter = node.tex_letter
        taken = {s.name for p in given for s in p.free_symbols} | {s.name for s in swap.values()}
        name = next(n for k in range(1, len(nodes) + len(taken) + 2) if (n := f"{letter}_{k}") not in taken)
        swap[node] = sp.Symbol(name, positive=True)
        lines.append(f"{name} = {node} = {_digits(node)}")
    return [p.xreplace(swap) for p in given], lines


def _digits(node: sp.Expr) -> str:
    try:
        return str(sp.N(node, DIGITS))
    except ValueError as error:  # no ball encloses it; the sentence says why
        return f"({error})"
