"""In which order generated statements stand, in loops over points and over pairs of inputs: averages and intermediates
of a step, each once and after what it is made of; the steps of a loop, by the layer; formulas that are more exact."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import sympy as sp

from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.base import Node, nodes_in
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.steps import Step


class StatementOrder:
    """The statements of one step, written as they are needed.

    call: the lines that evaluate an average, the last one its value; ids: names for the symbols of the step; names: for
    averages, a0, a1, … in the order in which they are written; n0, n1, … in that of their text unless given; known:
    averages that have their values already.
    """

    def __init__(
        self,
        step: Step,
        call: Callable[[Node], Sequence[str]],
        ids: Mapping[sp.Symbol, sp.Symbol],
        names: Mapping[Node, sp.Symbol] | None = None,
        known: frozenset[Node] = frozenset(),
    ):
        self.definitions, self.call, self.ids = dict(step.definitions), call, ids
        self.names: dict[Node, sp.Symbol] = dict(names or {})
        self.done: set[sp.Basic] = set(known)
        self.lines: list[str] = []

    def need(self, e: sp.Expr) -> sp.Expr:
        """The formula in names, after what it is made of has been written."""
        e = sp.sympify(e)
        self.averages(e)
        for symbol in self.definitions:
            if symbol in e.free_symbols:
                self.intermediate(symbol)
        return e.xreplace(self.names).xreplace(self.ids)

    def averages(self, e: sp.Basic) -> None:
        """Write the averages of a formula, inner ones first."""
        for node in sorted(nodes_in(e) - self.done, key=self._rank):
            if node not in self.done:
                self.averages(sp.Tuple(*node.args[1:]))
                *before, value = self.call(node)
                self.done.add(node)
                name = self.names.setdefault(node, sp.Symbol(f"n{len(self.names)}", real=True))
                self.lines += [*before, f"{name} = {value}"]

    def _rank(self, node: Node) -> tuple[int, str]:
        name = self.names.get(node)
        return (0, str(node)) if name is None else (int(name.name[1:]), "")

    def intermediate(self, symbol: sp.Symbol) -> None:
        """Write an intermediate."""
        if symbol not in self.done:
            lines, (value,) = printing.statements([self.need(self.definitions[symbol])])
            self.done.add(symbol)
            self.lines += [*lines, f"{self.ids[symbol]} = {value}"]


def more_exact(
    recursion: Recursion, following: Mapping[sp.Symbol, sp.Symbol], hidden: frozenset[sp.Symbol] = frozenset()
) -> Iterator[tuple[str, str]]:
    """(name, value) of the next values that another formula gives more exactly where it does; following: their names,
    hidden: variables that have no value in the loop."""
    for symbol, e, where in recursion.closer:
        if symbol in following and not (e.free_symbols | where.free_symbols) & hidden:
            value, lower, upper = (printing.code(part.xreplace(following)) for part in (e, *where.args))
            yield str(following[symbol]), f"{value} if {lower} < {upper} else {following[symbol]}"


def by_layer(steps: Sequence[str]) -> str:
    """The text of the head's steps and of the block, by the layer l."""
    if len(steps) == 1:
        return steps[0]
    out = ""
    for i, lines in enumerate(steps):
        word = f"if l == {i}" if i == 0 else f"elif l == {i}" if i < len(steps) - 1 else "else"
        out += f"{word}:\n" + indent(lines or "pass", 4) + "\n"
    return out


def indent(lines: str, by: int) -> str:
    return "\n".join(" " * by + line for line in lines.splitlines())
