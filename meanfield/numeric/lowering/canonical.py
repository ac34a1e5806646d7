"""What two averages share: the shape of an average over plain variances, and the formulas that go there."""

from __future__ import annotations

import sympy as sp

from meanfield.arguments import shown
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.numeric.lowering import (
    loops,
)
from meanfield.numeric.lowering.printing import code
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.chord import Chord, Rise, Turn
from meanfield.symbolic.averages.common import Common
from meanfield.symbolic.averages.groups import CHORD, PRODUCT, RISE, STRETCH, Group
from meanfield.symbolic.averages.largest import Largest
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.pools import MaxProduct, MaxStretch
from meanfield.symbolic.averages.stretch import Stretch
from meanfield.symbolic.recursion import Recursion
from meanfield.symbols import P_POSITIVE, K, K_aa, K_ab, K_bb, P, Z, distance, tilt


def inputs(shape: sp.Expr) -> int:
    """How many Gaussians the averages of an expression are over; of a number, or a function of K, one."""
    if not shape.atoms(Average) and not shape.has(K_aa, K_ab, K_bb):
        return 1
    return max([n.n for n in shape.atoms(Average)], default=2)


def sine2(node: Average, arguments: list[str], ordered: dict, symbols: dict) -> str:
    """Source of 1 - c²: by way of the distance, where the covariance is given by it, of two norms by its share that is
    one of directions: then no term of 1 - c is left that is not a part of the distance."""
    a, ab, b = node.cov
    size = a if a == b else sp.sqrt(a) * sp.sqrt(b)
    near = sp.expand(2 * (size - ab))
    parted = a == b or all(t.has(distance) for t in sp.Add.make_args(near))
    if near.has(K_ab) or not near.has(distance) or not parted:
        return f"_sine2({', '.join(arguments)})"
    gap = code((near / (2 * size)).xreplace(ordered).xreplace(symbols))
    return f"_of_gap({gap})"


def centred(node: Average) -> tuple[Average, tuple[sp.Expr, ...]]:
    """⟨f⟩ over N(m, V) as the average of f(z + m) over N(0, K), m one more parameter; and what to put there.

    Such is what one input is given that the other stands where φ jumps.
    """
    body, _, (mean,), params = node.args
    m = P[len(params)]
    p = pieces(body.expr, Z[0])
    moved = Pieces(Z[0], tuple(b - m for b in p.breaks), tuple(e.xreplace({Z[0]: Z[0] + m}) for e in p.exprs))
    own = sp.Tuple(*P[: len(params)], m)
    return Average(Integrand(moved.expr), sp.Tuple(K), sp.Tuple(0), own), (*node.cov, *params, mean)


def written_out(recursion: Recursion, node: loops.Node) -> dict[sp.Symbol, sp.Expr]:
    """What the intermediates are in the step that holds the node."""
    here = (step for step in recursion.steps if any(e.has(node) for e in step.expressions))
    return next(here, recursion.block).whole()


def canonical(node: loops.Node):
    """The node over plain K or (K_aa, K_ab, K_bb), and what to put there."""
    if isinstance(node, Common):
        return Common(node.args[0], K_aa, K_bb, node.params), (node.own, node.shared)
    if isinstance(node, Group):
        plain = {STRETCH: (K, distance), CHORD: (K_aa, K_bb, distance, tilt), RISE: (K_aa, K_bb)}.get(node.what)
        return node.over(plain or ((K,) if len(node.variables) == 1 else (K_aa, K_ab, K_bb))), node.variables
    if isinstance(node, MaxStretch):
        return Largest(node.args[0], node.nodes, STRETCH, (K, distance)), (node.variance, node.apart)
    if isinstance(node, (Chord, Rise)) and node.params:
        raise MeanFieldError(
            f"The distance of two inputs through {node} depends on a mean and a scale that change from layer to "
            "layer; it is derived, but not compiled."
        )
    if isinstance(node, (Stretch, Rise)):
        if isinstance(node, Rise):
            return Rise(node.args[0], K_aa, K_bb), node.args[1:3]
        if isinstance(node, Chord):
            kind = Turn if isinstance(node, Turn) else Chord
            return kind(node.args[0], K_aa, K_bb, distance, tilt), (*node.variances, node.apart, node.tilt)
        own = sp.Tuple(*[P_POSITIVE[i] if p.is_positive else P[i] for i, p in enumerate(node.params)])
        return Stretch(node.args[0], K, distance, own), (node.variance, node.apart, *node.params)
    if isinstance(node, MaxProduct):
        return Largest(node.args[0], node.nodes, PRODUCT, (K_aa, K_ab, K_bb)), node.cov
    if node.n == 1 and node.mean[0] != 0:
        return centred(node)
    if node.n > 2 or any(m != 0 for m in node.mean):
        raise MeanFieldError(
            f"{shown(node)} is not an average over one or two centred Gaussians; it is derived, but not compiled."
        )
    plain = (K,) if node.n == 1 else (K_aa, K_ab, K_bb)
    body, _, mean, params = node.args
    inner = body.expr.atoms(Average)
    if inner:  # constants of a LayerNorm at fixed variance, as rationals far beyond double precision
        body = Integrand(body.expr.xreplace({a: sp.Rational(str(sp.N(a, 40))) for a in inner}))
    if params:  # values that come with each layer: the node over its variances and its own dummies
        return Average(body, sp.Tuple(*plain), mean, P[: len(params)]), (*node.cov, *params)
    return Average(body, sp.Tuple(*plain), mean, params), node.cov
