r"""Averages over the maximum of φ at n independent nodes, one pair of Gaussians (z_i, z_i′) for each node.

The largest φ sits at a node with probability R(z)^{n-1}, R(z) = P(φ(u) ≤ φ(z)), which is a function of z/√V where φ is
monotone, or even and monotone on each side; so a pool of one input is an average over one Gaussian:

    ⟨g(max φ)⟩ = n⟨g(φ(z)) R(z)^{n-1}⟩,  ⟨‖∇ max φ‖²⟩ = n⟨φ′(z)² R(z)^{n-1}⟩.

Of two inputs the product, its slope ⟨∇f·∇f′⟩ = ∂⟨f f′⟩/∂K_ab and the distance are two-dimensional for any n
(`maxima`). Source: derived here; [bias_and_trainability] Lemma F.5 has n = 2, without the factor 2.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import Self

import sympy as sp
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, K_aa, K_ab, K_bb, Z, distance
from meanfield.functions import zeros
from meanfield.functions.piecewise import Pieces, pieces
from meanfield.symbolic.averages.base import Node, Typeset, Write
from meanfield.symbolic.averages.node import Integrand, average
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio
from meanfield.symbolic.averages.nodes.group_functions import PRODUCT, RATIO, SLOPES
from meanfield.symbolic.averages.nodes.maxima import MaximumAverage

RISING, FALLING, EVEN_RISING, EVEN_FALLING = 1, -1, 2, -2
FEW = 4  # nodes up to which powers of R are multiplied out: each power may close by itself


@lru_cache(maxsize=256)
def kind_of(f: sp.Expr) -> int | None:
    """How φ goes: rising, falling, rising or falling with |z|; None for any other."""
    p = pieces(f, Z[0])
    whole = _trend(p, -sp.oo, sp.oo)
    if whole is not None:
        return RISING if whole >= 0 else FALLING
    reflected = pieces(p.expr.subs(Z[0], -Z[0]) if not p.breaks else sp.Integer(0), Z[0])
    even = _is_even(p) if p.breaks else sp.simplify(reflected.expr - p.expr) == 0
    half = _trend(p, sp.S.Zero, sp.oo) if even else None
    return None if half is None else EVEN_RISING if half >= 0 else EVEN_FALLING


def _is_even(p: Pieces) -> bool:
    if tuple(-b for b in reversed(p.breaks)) != p.breaks:
        return False
    return all(sp.simplify(a - b.subs(Z[0], -Z[0])) == 0 for a, b in zip(p.exprs, reversed(p.exprs)))


def _trend(p: Pieces, lo: sp.Expr, hi: sp.Expr) -> int | None:
    """1, 0 or -1 where p rises, stays or falls all over (lo, hi); None where it does both, or that is not decided."""
    signs: set[int | None] = set()
    try:
        for e, left, right in p.intervals():
            left, right = (a if zeros.compare(a, b) >= 0 else b for a, b in ((left, lo), (right, right)))
            if zeros.compare(left, right) >= 0:
                continue
            slope = sp.diff(e, Z[0])
            if not slope.has(Z[0]):
                signs.add(zeros.sign(slope))
                continue
            extrema = [t for t in zeros.real_zeros(slope, Z[0], left, right) if _between(t, left, right)]
            ends = [left, *zeros.same_place(extrema), right]
            for a, b in pairwise(ends):
                signs.add(zeros.sign(slope.subs(Z[0], _middle(a, b))))
        for b, step in p.jumps():
            if lo == -sp.oo or zeros.compare(b, lo) > 0:
                signs.add(zeros.sign(step))
    except MeanFieldError:
        return None
    signs.discard(0)
    return 0 if not signs else None if len(signs) > 1 else signs.pop()


def _between(t: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    return (lo == -sp.oo or zeros.compare(t, lo) > 0) and (hi == sp.oo or zeros.compare(hi, t) > 0)


def _middle(a: sp.Expr, b: sp.Expr) -> sp.Expr:
    if a == -sp.oo:
        return sp.S.Zero if b == sp.oo else sp.Rational(str(sp.N(b, 20))) - 1
    if b == sp.oo:
        return sp.Rational(str(sp.N(a, 20))) + 1
    return sp.Rational(str(sp.N((a + b) / 2, 20)))


# kind → (shift, sign, scale): R = scale·(shift + sign·E), E = erf(z/√2V) or, of |z|, its size
_DISTRIBUTIONS = {
    RISING: (1, 1, sp.S.Half),
    FALLING: (1, -1, sp.S.Half),
    EVEN_RISING: (0, 1, sp.S.One),
    EVEN_FALLING: (1, -1, sp.S.One),
}


def maximum_mean(g: Pieces, kind: int, n: int, variance: sp.Expr) -> sp.Expr:
    """n⟨g(z) R(z)^{n-1}⟩ over N(0, variance), powers of R multiplied out where they are few; where g is one power of z
    on either side of 0, that power of the variance times a number."""
    if not any(e.has(Z[0]) for e in g.exprs):
        return _of_steps(g, kind, n, variance)
    power = power_of(g)
    if power is not None and variance != 1:
        return variance ** (power / 2) * maximum_mean(g, kind, n, sp.S.One)
    shift, sign, scale = _DISTRIBUTIONS[kind]
    e = sp.erf(Z[0] / sp.sqrt(2 * variance))
    of_size = abs(kind) == 2
    t = sp.Dummy("t")
    if not shift or n > FEW:
        weights = [(shift + sign * t) ** (n - 1)]
    else:
        weights = [sp.binomial(n - 1, k) * sign**k * t**k for k in range(n)]
    total = sp.S.Zero
    for weight in weights:
        c, weight = weight.as_independent(t, as_Add=False)
        above = _weighted(g, weight.xreplace({t: e}))
        if of_size:
            below = _weighted(g, weight.xreplace({t: -e}))
            above = pieces(sp.Piecewise((below.expr, Z[0] < 0), (above.expr, True)), Z[0])
        total += c * average(above.expr, variance)
    return n * scale ** (n - 1) * total


def _of_steps(g: Pieces, kind: int, n: int, variance: sp.Expr) -> sp.Expr:
    """The same for constants between breaks: n R^{n-1} dR has the integral R^n."""
    shift, sign, scale = _DISTRIBUTIONS[kind]

    def distribution(b: sp.Expr) -> sp.Expr:
        e = {-sp.oo: -sp.S.One, sp.oo: sp.S.One}.get(b, sp.erf(b / sp.sqrt(2 * variance)))
        return (scale * (shift + sign * e)) ** n

    total = sp.S.Zero
    for c, lo, hi in g.intervals():
        if abs(kind) == 2:  # g is even, and R one of |z|
            if hi != sp.oo and zeros.compare(hi, 0) <= 0:
                continue
            lo = sp.S.Zero if lo == -sp.oo or zeros.compare(lo, 0) < 0 else lo
        total += sign * c * (distribution(hi) - distribution(lo))
    return total


def power_of(g: Pieces) -> sp.Expr | None:
    """p where g is c z^p, or c_± |z|^p on the two sides of 0; None for other functions."""
    parts = {e.as_independent(Z[0], as_Add=False)[1] for e in g.exprs if e != 0}
    if any(b != 0 for b in g.breaks) or len(parts) != 1:
        return None
    base, power = parts.pop().as_base_exp()
    if base == 1:
        return sp.S.Zero
    return power if base == Z[0] and power.is_Integer else None


def _weighted(g: Pieces, weight: sp.Expr) -> Pieces:
    return g.map(lambda e: e * weight)


class _OfMaximum:
    """What the nodes of a pool share: φ, the number of nodes, how φ goes."""

    args: tuple[sp.Basic, ...]

    @property
    def nodes(self) -> int:
        return int(self.args[-2])

    @property
    def which(self) -> int:
        return int(self.args[-1])


class MaxProduct(_OfMaximum, Node):
    r"""⟨max_i φ(z_i) · max_i φ(z_i′)⟩ over n independent pairs of covariance `cov`."""

    tex_letter = "M"

    def __new__(
        cls, body: Integrand, cov: Iterable[sp.Expr], n: int | sp.Integer, kind: int | sp.Integer
    ) -> Self:
        made: Self = super().__new__(cls, body, sp.Tuple(*cov), sp.Integer(n), sp.Integer(kind))
        return sp.Mul(*made.means) if made.cov[1] == 0 else made  # independent inputs, as two of a batch are

    @property
    def function(self) -> sp.Expr:
        return self.args[0].expr

    @property
    def cov(self) -> tuple[sp.Expr, ...]:
        return tuple(self.args[1])

    @property
    def slope(self) -> sp.Expr:
        """∂/∂K_ab."""
        return MaximumAverage(self.args[0], self.nodes, SLOPES, self.cov)

    @property
    def means(self) -> tuple[sp.Expr, sp.Expr]:
        """⟨max φ⟩ at each input."""
        a, _, b = self.cov
        first, second = (maximum_mean(pieces(self.function, Z[0]), self.which, self.nodes, v) for v in (a, b))
        return first, second

    def _eval_evalf(self, prec: int) -> None:
        if not self.is_number:
            return None
        raise MeanFieldError(
            f"Digits of {self} are not available: pools of two inputs have those of doubles (propagate)."
        )

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        a, ab, b = self.cov
        if a.diff(symbol) != 0 or b.diff(symbol) != 0:
            raise MeanFieldError("The derivative of a pool of two inputs by a variance is not derived.")
        return ab.diff(symbol) * self.slope

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        return MaximumAverage(self.args[0], self.nodes, PRODUCT, (K_aa, K_ab, K_bb)), self.cov

    at_inputs = DistanceRatio.at_inputs

    def _sympystr(self, printer: Printer) -> str:
        one, other = (f"max{self.nodes}({printer._print(e)})" for e in self.at_inputs())
        return f"<{one}*{other}>_{{{', '.join(printer._print(c) for c in self.cov)}}}"

    def tex_inside(self) -> Typeset:
        a, b = self.at_inputs()

        def ends(body: str, write: Write) -> str:
            law = ",".join(write(c) for c in self.cov)
            largest = rf"\max_{{{self.nodes}}}"
            return rf"\left\langle {largest} {body} \cdot {largest} {write(b)} \right\rangle_{{{law}}}"

        return a, ends


class MaxDistanceRatio(_OfMaximum, DistanceRatio):
    """⟨(max_i φ(z_i) - max_i φ(z_i′))²⟩/Δ over n independent pairs of one variance."""

    def __new__(
        cls, body: Integrand, variance: sp.Expr, distance: sp.Expr, n: int | sp.Integer, kind: int | sp.Integer
    ) -> Self:
        law = sp.sympify(variance), sp.sympify(distance)
        made: Self = sp.Expr.__new__(cls, body, *law, sp.Integer(n), sp.Integer(kind))
        return made

    @property
    def function(self) -> sp.Expr:
        return self.args[0].expr

    @property
    def params(self) -> sp.Tuple:
        return sp.Tuple()

    @property
    def second(self) -> sp.Expr:
        return maximum_mean(pieces(self.function, Z[0]).map(lambda e: e**2), self.which, self.nodes, self.variance)

    @property
    def product(self) -> sp.Expr:
        cov = self.variance, self.variance - self.distance / 2, self.variance
        return MaxProduct(self.args[0], cov, self.nodes, self.which)

    @property
    def slope(self) -> sp.Expr:
        f = pieces(self.function, Z[0])
        return sp.oo if f.jumps() else maximum_mean(f.diff().map(lambda e: e**2), self.which, self.nodes, self.variance)

    def separation(self) -> sp.Expr:
        return MaxSeparation(*self.args)

    def powers(self) -> dict[sp.Expr, sp.Expr]:
        """power of Δ → coefficient, to √Δ: where two nodes are largest together, slopes pass from one to the
        other (on z_i = z_j, of |z| on z_i = -z_j, too); a kink of φ itself counts where its node is the largest."""
        f, n, V = pieces(self.function, Z[0]), self.nodes, self.variance
        slope = f.diff()
        density = sp.exp(-(Z[0] ** 2) / (2 * V)) / sp.sqrt(2 * sp.pi * V)
        shared = maximum_mean(slope.map(lambda e: e**2 * density), self.which, n - 1, V) / (n - 1)
        sides = 2 if abs(self.which) == 2 else 1
        half = -2 / sp.sqrt(sp.pi) * sp.binomial(n, 2) * sides * shared
        shift, sign, scale = _DISTRIBUTIONS[self.which]
        for b, step in slope.jumps():
            e = sp.erf(b / sp.sqrt(2 * V)) if abs(self.which) == 1 else abs(sp.erf(b / sp.sqrt(2 * V)))
            often = n * (scale * (shift + sign * e)) ** (n - 1)
            half -= step**2 * sp.exp(-(b**2) / (2 * V)) / (2 * sp.pi * sp.sqrt(V)) * often
        return {sp.S.Zero: self.slope, sp.S.Half: sp.Rational(2, 3) * half}

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        return MaximumAverage(self.args[0], self.nodes, RATIO, (K, distance)), (self.variance, self.distance)

    def parts(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """⟨f²⟩ over K, and product and slope over (K_aa, K_ab, K_bb)."""
        pair = MaxProduct(self.args[0], (K_aa, K_ab, K_bb), self.nodes, self.which)
        return self.second, pair, pair.slope

    def _difference(self, printer: Printer) -> str:
        a, b = (f"max{self.nodes}({printer._print(e)})" for e in self.at_inputs())
        return f"{a} - {b}"

    def tex_inside(self) -> Typeset:
        a, b = self.at_inputs()

        def ends(body: str, write: Write) -> str:
            law = ",".join(map(write, self.law))
            front = rf"\frac{{1}}{{{write(self.distance)}}} " if self.is_ratio else ""
            largest = rf"\max_{{{self.nodes}}}"
            inner = rf"{largest} {body} - {largest} {write(b)}"
            return rf"{front}\left\langle \left( {inner} \right)^{{2}} \right\rangle_{{{law}}}"

        return a, ends


class MaxSeparation(MaxDistanceRatio):
    """⟨(max_i φ(z_i) - max_i φ(z_i′))²⟩ itself, as maps of the distance are printed."""

    is_ratio = False
