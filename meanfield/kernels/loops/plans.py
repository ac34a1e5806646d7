"""What a recursion of two inputs asks of each input alone, and which averages over pairs it is made of."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_aa, K_bb, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.kernels.loops.nearby import Nearby, nearby
from meanfield.kernels.loops.pair_averages import PairAverages, pair_averages
from meanfield.numeric.lowering.averages.planes import separate
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.symbolic.averages.base import Node, nodes_in
from meanfield.symbolic.averages.node import Average, in_digits
from meanfield.symbolic.equality import quotient
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Step

SIDES = (K_aa, K_bb)
RATIOS = ("distance_ratio", "unequal_distance_ratio", "direction_ratio")  # that are read off distances
PROBES = np.array([0.31, 0.87, 1.73, 2.9, -0.23, -0.71, -1.37, -2.3])


class NotCovered(MeanFieldError):
    """A recursion with averages that are not of pairs of functions of one variable each."""


@dataclass(frozen=True)
class GaussianFunction:
    """A function of one Gaussian, its derivative, and the number of its variance among what is known of each input."""

    f: sp.Expr
    slope: sp.Expr
    variance: int

    @property
    def digits(self) -> tuple[sp.Expr, sp.Expr]:
        """The function and its derivative with digits for the averages in them."""
        return in_digits(self.f), in_digits(self.slope)


@dataclass(frozen=True)
class Pairing:
    """An average over two inputs: ⟨f g⟩ of two expansions over cov, or factor times its derivative by the covariance
    (slope); the ratios of distances and divided differences: what the same series say of the distance of f's."""

    node: sp.Expr
    kind: str
    group: int
    factor: float = 1.0


@dataclass
class KernelPlan:
    """A recursion of two inputs, taken apart.

    alone: the variables of one input, with their side and the symbol that stands for them in the recursion of a single
    input; both: symbols of pairs; inner: what a step defines of one input alone, with its side and formula, which is
    put in where it is asked for alone (within formulas of both SymPy takes minutes to multiply it); inputs: formulas in
    K of what each input brings to a layer beside K, numbered from 2 on (0 is K, 1 the K of the layer that is made);
    groups: (expansion of one input, of the other, covariance); pairings: the averages of each step, each in a group;
    steps: the maps of what is carried of a pair, with one-sided parts as symbols (`side`).
    """

    recursion: Recursion
    alone: dict[sp.Symbol, tuple[str, sp.Symbol]]
    both: set[sp.Symbol] = field(default_factory=set)
    inner: dict[sp.Symbol, tuple[str | None, sp.Expr]] = field(default_factory=dict)
    inputs: list[sp.Expr] = field(default_factory=list)
    expansions: list[GaussianFunction] = field(default_factory=list)
    groups: list[tuple[int, int, tuple[sp.Expr, ...]]] = field(default_factory=list)
    pairings: list[dict[sp.Expr, Pairing]] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def state(self) -> tuple[StateVar, ...]:
        """What is carried of a pair."""
        return tuple(v for v in self.recursion.state if v.symbol not in self.alone)

    @property
    def parameters(self) -> list[str]:
        """The names of the numbers that come with each layer, in the order of the rows of `sigma`."""
        return [p.name for p in self.recursion.parameters if p.name not in ("Q0", "c0")]

    def averages(self, one: int, other: int) -> PairAverages | None:
        """The averages that single pairs take of two expansions; None where these are of two functions."""
        a, b = self.expansions[one], self.expansions[other]
        return pair_averages(*a.digits) if a.f == b.f else None

    def nearby(self, one: int, other: int) -> Nearby | None:
        """The tables near full correlation by which two expansions are read; None where they are of two functions."""
        a = self.expansions[one]
        return None if self.averages(one, other) is None else nearby(*a.digits)

    def side(self, e: sp.Expr) -> str | None:
        """ "a" or "b" of a formula of one input alone ("a" of one that holds neither), None of one of both."""
        free = e.free_symbols
        if free & self.both:
            return None
        sides = {known[s][0] for known in (self.alone, self.inner) for s in free if s in known}
        return None if {"a", "b"} <= sides else "b" if "b" in sides else "a"

    def holds(self, e: sp.Expr) -> bool:
        """Whether a formula holds variables of an input."""
        return bool(e.free_symbols & set(self.alone))

    def whole(self, e: sp.Expr) -> sp.Expr:
        """A formula without symbols of definitions of one input alone."""
        return e.xreplace({s: formula for s, (_, formula) in self.inner.items()})

    def number(self, e: sp.Expr) -> int:
        """The number of a one-sided formula among what inputs bring."""
        e = self.whole(e).xreplace({s: own for s, (_, own) in self.alone.items()})
        if e == K:
            return 0
        if e not in self.inputs:
            self.inputs.append(e)
        return self.inputs.index(e) + 2


def side(name: str, j: int) -> sp.Symbol:
    """What input "a" or "b" brings: its K, K of the layer that is made, further numbers."""
    return sp.Symbol(("K_", "K_next_")[j] + 2 * name if j < 2 else f"x{j}_{name}", real=True, nonnegative=True)


def plan(recursion: Recursion) -> KernelPlan:
    """The plan of a recursion with K_aa and K_bb in its state. Raises: NotCovered."""
    of_one = [v for v in recursion.state if "_aa" in v.name or "_bb" in v.name]
    alone = {v.symbol: ("ab"["_bb" in v.name], single(v)) for v in of_one}
    found = KernelPlan(recursion, alone, {v.symbol for v in recursion.state} - set(alone))
    norms = {i: alone[v.symbol][0] for i, v in enumerate(recursion.state) if v.symbol in alone}
    for step in recursion.steps:
        found.inner.clear()
        definitions = []
        for symbol, e in step.definitions:
            if (which := found.side(e)) is None:
                definitions.append((symbol, e))
                found.both.add(symbol)
            else:
                found.inner[symbol] = which, found.whole(e)
        maps = [sp.sympify(e) for e in step.next]
        made = {maps[i]: side(w, 1) for i, w in norms.items() if recursion.state[i].symbol in SIDES}
        changed = Step(
            tuple(_apart(found, e, made) for i, e in enumerate(maps) if i not in norms),
            tuple((s, _apart(found, e, made)) for s, e in definitions),
        )
        pairings: dict[sp.Expr, Pairing] = {}
        every = (*(e for _, e in changed.definitions), *changed.next)
        for apart in (True, False):  # the distance decides the correlation of a group
            for e in every:
                for node in sorted(nodes_in(e) - set(pairings), key=str):
                    if not apart or (node.paired and node.paired.kind in RATIOS):
                        pairings[node] = _pairing(found, node)
        found.pairings.append(pairings)
        found.steps.append(changed)
    return found


def _apart(found: KernelPlan, e: sp.Expr, made: dict[sp.Expr, sp.Symbol]) -> sp.Expr:
    """The formula with its parts of one input alone as symbols."""
    if e in made:
        return made[e]
    if (e in found.alone or e in found.inner) and e not in SIDES:
        return side(found.side(e) or "a", found.number(e))
    if not e.args or (isinstance(e, Node) and e.paired):
        return found.whole(e)
    if e.has(Average) and (which := found.side(e)) is not None and not any(a.dimension > 1 for a in e.atoms(Average)):
        return side(which, found.number(e))
    return found.whole(e) if isinstance(e, Node) else e.func(*[_apart(found, a, made) for a in e.args])


def single(v: StateVar) -> sp.Symbol:
    """The symbol of a variable of one of two inputs in the recursion of a single input."""
    return K if v.symbol in SIDES else sp.Symbol(v.name.replace("_aa", "").replace("_bb", ""), real=True)


def _pairing(found: KernelPlan, node: Node) -> Pairing:
    of = node.paired
    if of is None:
        raise NotCovered(f"{node} is no average over pairs of functions of one variable each.")
    if of.function is None:
        return _product(found, node, of.between)
    if node.args[-1]:
        raise NotCovered(f"{node} depends on numbers that change from layer to layer.")
    f, (A, B), factor = of.function, of.variances, 1.0
    if of.kind == "divided_difference":  # of ⟨f²⟩: the root of f² is a function with the same average
        f = _root(found, f, _row(found, A, "a"), _row(found, B, "b"))
    one, other = _expansion(found, f, _row(found, A, "a")), _expansion(found, f, _row(found, B, "b"))
    group = _group(found, one, other, of.between)
    if of.kind == "divided_difference":
        factor = _ratio(of.function, pieces(found.expansions[one].f, Z[0]).map(lambda h: h**2).expr) or 0.0
    return Pairing(node, of.kind, group, factor)


def _root(found: KernelPlan, square: sp.Expr, v: int, w: int) -> sp.Expr:
    """f of an expansion at these variances with f² = square but for a factor."""
    for e in found.expansions:
        if e.variance in (v, w) and _ratio(square, pieces(e.f, Z[0]).map(lambda h: h**2).expr) is not None:
            return e.f
    raise NotCovered(f"{square} is the square of no function whose distance is followed.")


def _row(found: KernelPlan, e: sp.Expr, which: str) -> int:
    """The number of a variance of one input."""
    if found.side(e) != which and (found.side(e) is None or found.holds(e)):
        raise NotCovered(f"The variance {e} is not one of a single input.")
    return found.number(e)


def _product(found: KernelPlan, node: Node, between: tuple[sp.Expr, ...]) -> Pairing:
    (f, g), (A, AB, B) = separate(node), between
    v, w = _row(found, A, "a"), _row(found, B, "b")
    _one_place(found, v, w)
    for i, (one, other, cov) in enumerate(found.groups):  # the same once more, or the derivative of what is there
        left, right = found.expansions[one], found.expansions[other]
        if (left.variance, right.variance) == (v, w) and (cov == (A, AB, B) or _is_apart(cov)):
            known = ("product", left.f, right.f), ("slope", left.slope, right.slope)
            for kind, *own in sorted(known, key=lambda k: _bare(k[1])[1] != _bare(f)[1]):  # by words before by numbers
                p, q = _ratio(f, own[0]), _ratio(g, own[1])
                if p is not None and q is not None:
                    return Pairing(node, kind, i, p * q)
    i = _group(found, _expansion(found, f, v), _expansion(found, g, w), (A, AB, B))
    return Pairing(node, "product", i)


def _is_apart(cov: tuple[sp.Expr, ...]) -> bool:
    """Whether the covariance of a group is given by how far the two are apart: then it is known better so."""
    return cov[1].has(distance)


def _bare(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """The numbers before a function, and the function without them."""
    content, rest = f.primitive()
    factor, rest = rest.as_independent(Z[0], as_Add=False)
    return content * factor, rest


def _ratio(f: sp.Expr, g: sp.Expr) -> float | None:
    """f/g where it is a number. Numbers rule it out, and what they leave is proved: tanh(z) and tanh(z) + relu(z - 5)
    are one function at all numbers below 5."""
    (c, one), (d, other) = _bare(f), _bare(g)
    if one == other:
        return float(c / d)
    p, q = evaluate(in_digits(f), PROBES), evaluate(in_digits(g), PROBES)
    with np.errstate(all="ignore"):
        r = p[q != 0] / q[q != 0]
    if not r.size or (p[q == 0] != 0).any() or not np.allclose(r, r[0], rtol=1e-12, atol=0):
        return None
    exact = quotient(f, g)
    return None if exact is None else float(exact)


def _expansion(found: KernelPlan, f: sp.Expr, variance: int) -> int:
    for i, e in enumerate(found.expansions):
        if (e.f, e.variance) == (f, variance):
            return i
    if not {Z[0]} >= f.free_symbols:
        raise NotCovered(f"{f} depends on numbers that change from layer to layer.")
    found.expansions.append(GaussianFunction(f, pieces(f, Z[0]).diff().expr, variance))
    return len(found.expansions) - 1


def _one_place(found: KernelPlan, v: int, w: int) -> None:
    """Averages at these variances are all of one covariance: which of two distances another formula of the covariance
    belongs to is not seen."""
    at = {cov[1] for one, other, cov in found.groups if _is_apart(cov) and _variances(found, one, other) == (v, w)}
    if len(at) > 1:
        raise NotCovered("Two distances of a layer stand between the same variances.")


def _variances(found: KernelPlan, one: int, other: int) -> tuple[int, int]:
    return found.expansions[one].variance, found.expansions[other].variance


def _group(found: KernelPlan, one: int, other: int, cov: tuple[sp.Expr, ...]) -> int:
    if not cov:
        _one_place(found, *_variances(found, one, other))
    for i, key in enumerate(found.groups):
        if key[:2] == (one, other) and (cov == key[2] or (not cov and _is_apart(key[2]))):
            return i
    if not cov:
        raise NotCovered("A divided difference stands without the distance it belongs to.")
    found.groups.append((one, other, cov))
    return len(found.groups) - 1


def of_inputs(one_input: Recursion, found: KernelPlan) -> Recursion:
    """The recursion of what belongs to a single input (K first) and of what it brings to a layer, evaluated at the
    layer before; one_input: a recursion that holds the former."""
    base = one_input.only("K") if set(found.alone) <= set(SIDES) else one_input
    names = [f"x{j + 2}" for j in range(len(found.inputs))]
    state = (*base.state, *(StateVar(n, sp.Symbol(n, real=True), sp.S.Zero) for n in names))
    steps = [Step((*step.flat(), *found.inputs)) for step in base.steps]
    return replace(base, state=state, block=steps[-1], head=tuple(steps[:-1]), readout=(), closer=())
