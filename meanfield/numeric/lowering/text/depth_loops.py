"""What the compiled depth loop of one recursion computes: for each step its averages and intermediates in order, the
next values, which variables drive the others, and which formulas bring a variable's digits back.

`lockstep` makes loops of it. A variable is held as its encoding says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.encodings import PLAIN
from meanfield.base.quantities import CARRIED, GRADIENTS, QUANTITIES
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.scheduling import StatementOrder, more_exact
from meanfield.numeric.quadrature.polynomial_tables import PolynomialTable
from meanfield.symbolic.averages.base import Node, nodes_in
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step

# no loop has a name like these
_PLAIN_NAMES = frozenset((*CARRIED, "sigma_w", "sigma_b", "mu", "N0")) - {*GRADIENTS}


def identifiers(recursion: Recursion) -> dict[sp.Symbol, sp.Symbol]:
    """The name of each symbol in generated code: a user's own ends in an underscore, as no name of the loops does."""
    states = [v.symbol for v in recursion.state]
    names = {s: s.name if s.name in _PLAIN_NAMES else f"{s.name}_" for s in (*states, *recursion.parameters)}
    names |= {v.symbol: v.name if v.name in _PLAIN_NAMES else f"{v.name}_" for v in recursion.state}
    names |= {v.symbol: _bare(v.name) for v in recursion.state if "[" in v.name}  # no user's name has brackets
    for step in recursion.steps:
        names |= {s: _bare(s.name) for s, _ in step.definitions}  # K[1] as K1
    names[recursion.layer] = "layer"
    return {s: sp.Symbol(re.sub(r"\W", "_", name), real=True) for s, name in names.items()}


def _bare(name: str) -> str:
    return name.replace("[", "").replace("]", "")


def placeholders(recursion: Recursion) -> dict[Node, sp.Symbol]:
    """Every average of the steps with the local name that holds its value, inner ones (in the variance of another)
    first."""
    nodes = {n for step in recursion.steps for e in step.expressions for n in nodes_in(e)}
    ordered = sorted(nodes, key=lambda n: (len(nodes_in(sp.Tuple(*n.args[1:]))), str(n)))
    return {n: sp.Symbol(f"a{i}", real=True) for i, n in enumerate(ordered)}


def _inside_averages(step: Step) -> set[sp.Symbol]:
    """The symbols that the averages of a step depend on, by way of intermediates, too."""
    found: set[sp.Symbol] = set().union(*[n.free_symbols for e in step.expressions for n in nodes_in(e)])
    for symbol, e in reversed(step.definitions):
        if symbol in found:
            found |= e.free_symbols
    return found


def assignments(
    step: Step, calls: dict[Node, str], names: dict, ids: dict, known: frozenset[Node] = frozenset()
) -> tuple[list[str], list[str]]:
    """(averages and the intermediates that they need, each after what it is made of; the other intermediates), as
    source lines; averages in `known` have their values already."""
    numbers = {n for n in names if n.is_number}
    found, early = StatementOrder(step, lambda node: [calls[node]], ids, names, known | numbers), _inside_averages(step)
    for symbol, _ in step.definitions:
        if symbol in early:
            found.intermediate(symbol)
    for e in step.expressions:
        found.averages(e)
    evaluate, found.lines = found.lines, []
    for symbol, _ in step.definitions:
        found.intermediate(symbol)
    return evaluate, found.lines


@dataclass(frozen=True)
class LayerSource:
    """One step as assignments (name, source): what only the drivers decide (once they repeat, so does it), and the
    updates, which end with `x_next` of every variable, or `x_factor` of one that is carried as a logarithm."""

    evaluate: list[tuple[str, str]]
    updates: list[tuple[str, str]]


def _layer(recursion: Recursion, step: Step, calls: dict[Node, str], names: dict, ids: dict) -> LayerSource:
    evaluate, rest = assignments(step, calls, names, ids)
    mapped = []
    for v, e in zip(recursion.state, step.next):
        e = e.xreplace(names)
        if v.encoding.relative:
            e = _ratio(e, v)
        mapped.append(e.xreplace(ids))
    lines, values = printing.statements(mapped)
    update = []
    for v, x in zip(recursion.state, values):
        c = ids[v.symbol].name
        update.append((f"{c}_factor", x) if v.encoding.relative else (f"{c}_next", v.encoding.update(c, x)))
    return LayerSource(_pairs(evaluate), [*_pairs([*rest, *lines]), *update])


def _pairs(lines: list[str]) -> list[tuple[str, str]]:
    return [(name, text) for name, text in (line.split(" = ", 1) for line in lines)]


def _ratio(e: sp.Expr, v: StateVar) -> sp.Expr:
    """e/v of a map e that is proportional to v; a positive factor may hold v, as where a norm divides by a variance."""
    slope = sp.diff(e, v.symbol)
    if slope.has(v.symbol):
        slope = sp.expand(e / v.symbol) if e.has(sp.exp) else sp.cancel(e / v.symbol)
    if slope.has(v.symbol):
        slope = sp.expand(e / v.symbol)
    at_zero = slope.xreplace({v.symbol: sp.S.Zero})
    if at_zero.has(sp.nan, sp.zoo, sp.oo) or e.xreplace({v.symbol: sp.S.Zero}) != 0:
        raise MeanFieldError(f"{v.name} is carried as a logarithm, but its map is not proportional to it.")
    return slope


@dataclass(frozen=True)
class Variable:
    """A state variable in generated code: its name, whether it is carried as a logarithm, as m·2^e, and whether
    others depend on its value."""

    name: str
    wide: bool
    drives: bool
    norm: bool  # without it no layer can be made

    @property
    def rows(self) -> list[str]:
        """The float rows that hold it."""
        return [f"m_{self.name}", *([self.name] if self.drives else [])] if self.wide else [self.name]


@dataclass(frozen=True)
class LoopSource:
    """All that the text of a loop is made of."""

    variables: list[Variable]
    parameters: list[str]
    layers: list[LayerSource]  # of the head's steps, then of the block
    constants: list[tuple[str, str]]  # averages that no state moves
    closer: list[tuple[str, str]]
    layer: str  # the name of the number of the layer that is made, if a step holds it
    held: dict[str, PolynomialTable]  # functions that are a table and nothing else
    functions: str  # source of the functions called
    jumps: bool = False  # whether some distance falls as a power of itself: then none is so small that it counts as 0

    @property
    def ends(self) -> bool:
        """Whether a point is done once its drivers repeat: all else repeats with them, or grows by one factor."""
        return all(v.wide or v.drives for v in self.variables)


def loop(
    recursion: Recursion, calls: dict[Node, str], functions: str, held: dict[str, PolynomialTable]
) -> LoopSource:
    """The loop of a recursion. `calls` maps each average node to the source of its evaluation, `module_functions` holds
    the functions called, `held` says which of them are tables."""
    ids, names_of = identifiers(recursion), placeholders(recursion)
    drivers, norms = _drivers(recursion), _norms(recursion)
    return LoopSource(
        [Variable(ids[v.symbol].name, v.encoding.relative, v in drivers, v in norms) for v in recursion.state],
        [ids[p].name for p in recursion.parameters if p.name not in ("Q0", "c0")],
        [_layer(recursion, step, calls, names_of, ids) for step in recursion.steps],
        [(str(a), calls[n]) for n, a in names_of.items() if n.is_number],
        _closer(recursion, ids),
        ids[recursion.layer].name if recursion.knows_layer else "",
        held,
        functions,
        any(n.moves_near_zero for n in names_of),
    )


def _drivers(recursion: Recursion) -> list[StateVar]:
    """The variables that decide every other one: once they stay the same, each layer only repeats itself."""
    linear = [v for v in recursion.state if v.encoding == PLAIN]
    inside: set[sp.Symbol] = set()
    for step in recursion.steps:
        inside |= _inside_averages(step)
    inside |= sp.Tuple(*(e for one in recursion.closer for e in one)).free_symbols  # what decides by another formula
    found = {v for v in recursion.state if v.symbol in inside}
    found |= {v for v in recursion.state[:1] if not v.encoding.relative}  # J alone repeats its factor from the start
    for i, w in enumerate(recursion.state):
        free = set().union(*[step.pick([i]).free_symbols for step in recursion.steps])
        found |= {v for v in linear if w is not v and v.symbol in free}
        if not w.encoding.relative:  # needs the value of what is carried as a logarithm
            found |= {v for v in recursion.state if v.encoding.relative and v.symbol in free}
    return [v for v in recursion.state if v in found]


def _norms(recursion: Recursion) -> list[StateVar]:
    """The drivers without which no layer can be made: where one overflows, all is lost. Of correlators of order 1/n,
    which depend on each other and may overflow while K stays where it is, those that averages are over."""
    if not any(v.name in QUANTITIES and QUANTITIES[v.name].order for v in recursion.state):
        return _drivers(recursion)
    inside = set().union(*[_inside_averages(step) for step in recursion.steps])
    return [v for v in recursion.state if v.symbol in inside or v is recursion.state[0]]


def _closer(recursion: Recursion, ids: dict) -> list[tuple[str, str]]:
    """Assignments that take the more exact formula of a variable's next value, where there is one."""
    following = {v.symbol: sp.Symbol(f"{ids[v.symbol].name}_next", real=True) for v in recursion.state}
    drivers = _drivers(recursion)
    hidden = frozenset(v.symbol for v in recursion.state if v.encoding.relative and v not in drivers)  # logarithms only
    return list(more_exact(recursion, following, hidden))
