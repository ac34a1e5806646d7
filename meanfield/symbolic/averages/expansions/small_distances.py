r"""How averages of two inputs of one norm behave as the inputs come together: powers of Δ = ⟨(z_a - z_b)²⟩ → 0.

With Q_g = ⟨g(z_a) g(z_b)⟩ over variance V, dQ_g/dΔ = -½ ⟨g′ g′⟩ (Price's theorem), and the distance ratio of f is
the mean of Q_{f′} from 0 to Δ. Where g jumps by δ_b at b, g′ holds deltas, whose product is a density:

    Q_g = ⟨g²⟩ - √Δ·Σ δ_b² e^{-b²/2V}/(2π√V) - ½ Δ·(⟨g′²⟩ + Σ δ_b p(b) (g′(b+) + g′(b-))) + …

with p the density of z; so half-integer powers enter at the first derivative that jumps. Source: derived here;
[bias_and_trainability] (109), (110) are ReLU's first two terms.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, distance
from meanfield.functions.piecewise import Pieces, at, pieces
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.averages.nodes.pools import MaxDistanceRatio

Powers = dict[sp.Expr, sp.Expr]
T = sp.Symbol("t", positive=True)  # √(1 - c)


def distance_ratio_powers(f: sp.Expr, variance: sp.Expr, order: int = 2) -> Powers:
    """power of Δ → coefficient in ⟨(f(z_a) - f(z_b))²⟩/Δ: to Δ^order where f is smooth, else as far as one
    order beyond its first half-integer power.

    Raises: MeanFieldError where f jumps or a derivative becomes infinite (|z|^{3/2}).

    >>> distance_ratio_powers(sp.Max(0, Z[0]), K)[sp.Rational(1, 2)]
    -1/(3*pi*sqrt(K))
    """
    p = pieces(f, Z[0])
    if p.jumps():
        raise MeanFieldError(f"{f} jumps, so its slope between two inputs is infinite as they come together.")
    return {q: c / (q + 1) for q, c in _product(p.diff(), variance, order).items() if c != 0}


def _product(g: Pieces, variance: sp.Expr, order: int) -> Powers:
    """The powers of Q_g."""
    _finite(g)
    out = {sp.S.Zero: average(g.map(lambda e: e**2).expr, variance)}
    if order == 0:
        return out
    steps, slope = g.jumps(), g.diff()
    if not steps:
        return out | {q + 1: -c / (2 * (q + 1)) for q, c in _product(slope, variance, order - 1).items()}
    _finite(slope)
    weight = {b: sp.exp(-(b**2) / (2 * variance)) for b, _ in steps}
    out[sp.S.Half] = -sp.Add(*[step**2 * weight[b] for b, step in steps]) / (2 * sp.pi * sp.sqrt(variance))
    sides = {b: sum(_sides(slope, b)) / sp.sqrt(2 * sp.pi * variance) for b, _ in steps}
    rest = sp.Add(*[step * weight[b] * sides[b] for b, step in steps])
    out[sp.S.One] = -(average(slope.map(lambda e: e**2).expr, variance) + rest) / 2
    return out


def _finite(g: Pieces) -> None:
    for b in g.breaks:
        if any(not side.is_finite for side in _sides(g, b) if side.is_number):
            raise MeanFieldError(
                f"A derivative of φ becomes infinite at z = {b}; how correlations near 1 behave is not derived there."
            )


def _sides(g: Pieces, b: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    for i, place in enumerate(g.breaks):
        if place == b:
            return at(g.exprs[i], g.variable, b), at(g.exprs[i + 1], g.variable, b)
    value = at(g.expr, g.variable, b)  # a break that the derivative does not have
    return value, value


def gap_powers(step: sp.Expr, order: int = 2) -> Powers:
    """power of 1 - c → coefficient, functions of K, in distance′/distance: 0, the first that does not vanish, and what
    is known beyond it, from the map `step` of the distance.

    The recursion of several Dense nests such ratios; each is expanded in the one inside it.
    """
    ratio = sp.expand(sp.cancel(step / distance) if not step.has(DistanceRatio) else step / distance)
    names: dict[sp.Symbol, sp.Expr] = {}
    last = [2 * order]

    def named(e: sp.Expr) -> sp.Expr:
        if e.is_number and not e.args:
            return e
        symbol = sp.Dummy("r", real=True)
        names[symbol] = e
        return symbol

    def in_t(e: sp.Expr) -> sp.Expr:
        """e with its distance ratios as polynomials in t, distance = 2K t²."""
        found = {}
        for node in sorted(e.atoms(DistanceRatio), key=str):  # outer ones hold inner ones, which stand beside them, too
            in_powers = sp.expand(_truncated(in_t(node.distance), last[0] + 2))
            lead = sp.expand(in_powers / T**2)
            powers = node.powers() if isinstance(node, MaxDistanceRatio) else distance_ratio_powers(
                node.function, node.variance, order
            )
            whole = sp.Add(*[named(c) * T ** (2 * q) * lead**q for q, c in powers.items()])
            halves = [q for q in powers if q.q == 2]
            if isinstance(node, MaxDistanceRatio):
                last[0] = 1
            last[0] = min([last[0], *(int(2 * q) + 1 for q in halves)])  # one order beyond the first is known
            found[node] = _truncated(whole, last[0])
        rest = e.xreplace(found)
        return rest.xreplace({distance: named(2 * K) * T**2})

    whole = in_t(ratio)
    poly = _truncated(whole, last[0])
    out: Powers = {}
    for term in sp.Add.make_args(sp.expand(poly)):
        c, power = term.as_independent(T)
        q = sp.degree(power, T) if power.has(T) else 0
        out[sp.Rational(q, 2)] = out.get(sp.Rational(q, 2), sp.S.Zero) + c
    return {q: v for q, c in sorted(out.items()) if (v := c.xreplace(names)) != 0}


def _truncated(e: sp.Expr, last: int) -> sp.Expr:
    """e to t^last."""
    e = sp.expand(e)
    if not e.is_polynomial(T):
        e = sp.expand(sp.series(e, T, 0, last + 1).removeO())
    return sp.Add(*[t for t in sp.Add.make_args(e) if sp.degree(t.as_independent(T)[1] + 0 * T, T) <= last])
