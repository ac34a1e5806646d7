"""`Tabled`: the ratio of distances as a node whose compiled form looks a table up (`ratios`)."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from meanfield.base.errors import MeanFieldError
from meanfield.base.symbols import K, Z, distance
from meanfield.explorer.ratios import ratios
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.modules.module_functions import Functions, lowers
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio
from meanfield.symbolic.equality import closed
from meanfield.symbolic.recursion import Recursion

CALL = "_ratio"


class Tabled(DistanceRatio):
    """A `DistanceRatio` without parameters that is read off its table."""

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        return Tabled(self.args[0], K, distance, self.params), (self.variance, self.distance)


@lowers(Tabled)
def _looked_up(functions: Functions, shape: Tabled, written: Sequence[sp.Expr]) -> None:
    table, name = ratios(shape.function), functions.name(shape, "ratio")
    text = f"def {name}(V, apart):\n    return {CALL}({name.split('_')[1]}, V, apart)\n"
    functions.add(name, text, f"{name} = {shape}: table", table.error, 0.0)


def tabled(recursion: Recursion) -> Recursion:
    """The recursion with tables in the place of ratios of distances that have no closed form."""
    found = {s for step in recursion.steps for e in step.expressions for s in e.atoms(DistanceRatio)}
    swap: dict[sp.Expr, sp.Expr] = {s: Tabled(*s.args) for s in found if not s.params and _is_open(s)}
    pairs = {a for step in recursion.steps for e in step.expressions for a in e.atoms(Average) if a.dimension == 2}
    swap |= {a: e for a in pairs if (e := _product(a)) is not None}
    return recursion.map(lambda e: e.xreplace(swap)) if swap else recursion


def _is_open(node: DistanceRatio) -> bool:
    own = DistanceRatio(node.args[0], K, distance, node.params)
    return closed(own.product).has(Average) or closed(own.second).has(Average)


def _product(node: Average) -> sp.Expr | None:
    """⟨f(z_a) f(z_b)⟩ of one variance V, as ⟨f²⟩ less (V - K_ab) times the ratio of distances; None of others."""
    V, covariance, other = node.cov
    if other != V or any(node.mean) or node.args[3] or node.mixed:
        return None
    try:
        f, g = planes.separate(node)
    except MeanFieldError:
        return None
    factor = sp.simplify(f / g) if f != g else sp.S.One
    if factor.free_symbols or f == Z[0]:
        return None
    own = distance_ratio(f, V, 2 * (V - covariance))
    found = [s for s in own.atoms(DistanceRatio) if not s.params and _is_open(s)]
    if len(found) != 1:
        return None
    second = average(pieces(f, Z[0]).map(lambda e: e**2).expr, V)
    return (second - (V - covariance) * own.xreplace({found[0]: Tabled(*found[0].args)})) / factor
