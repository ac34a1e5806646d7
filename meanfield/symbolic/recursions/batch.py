r"""Positions that act on each other: the rules of `BatchNorm`, and what flows behind it.

Any two positions of a batch, or of the tokens of one input, are as good as any other two, so that the law of z is
(K, K_ab) and a Gram matrix of tangents (Γ, Γ_ab), Γ_ab of tangents summed over what is perturbed at every position.

An infinite batch. z = m + ε with m ~ N(0, K_ab) of the whole batch and ε ~ N(0, V) of each position, V = K - K_ab.
Tangents split alike, into what all positions share (Γ_ab) and a part of each (Γ - Γ_ab), which a batch mean does not
see. BatchNorm of f(z) is y = (f - ⟨f|m⟩)/sd(f|m), a function g(z, m), and with D = ∂g/∂z, R = ∂g/∂z + ∂g/∂m

    Γ → ⟨D²⟩(Γ - Γ_ab) + ⟨R²⟩Γ_ab,   Γ_ab → ⟨⟨R|m⟩²⟩Γ_ab.

Of z itself y = ε/√V is Gaussian, (K, K_ab) → (1, 0) and (Γ, Γ_ab) → ((Γ - Γ_ab)/(K - K_ab), 0).

A batch of size B. BatchNorm of z is a point of a sphere (`SphereAverage`), independent of what it was divided by; with
the mean of one over that, B/(B - 3)/(K - K_ab), tangents of f(y) have

    Γ → ⟨f′(y)²(B - 1 - y²)⟩(Γ - Γ_ab)/((B - 3)(K - K_ab)),   Γ_ab → -⟨f′(y_a)f′(y_b)(1 + y_a y_b)⟩ of the same.

Source: derived here; [autoinit] (32), (36) have the leading order of an infinite batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.derivatives import derivative
from meanfield.functions.piecewise import pieces
from meanfield.networks.records import AffineNorm, BatchNorm
from meanfield.symbolic.averages.nodes.shared_averages import Means, common
from meanfield.symbolic.averages.nodes.spheres import mean_on_sphere
from meanfield.symbolic.recursions.coordinate import Coordinate, Exprs, Gaussian, gaussian, too_steep
from meanfield.symbolic.recursions.coordinate_walk import TangentUnknown, Walk, rule


@dataclass(frozen=True)
class Spherical(Coordinate):
    """A function of the entries y of a normalized batch of `size`; functions[p] in Z[p], which stands for y_p."""

    of_gaussian: ClassVar[bool] = False
    size: int = 0

    @property
    def is_linear(self) -> bool:
        return False  # not Gaussian, whatever it is of y

    @property
    def is_normalized(self) -> bool:
        """Whether it is y itself, times a constant."""
        return self.functions == Z[: self.positions] and not any(self.shifts)

    def expect(self, e: sp.Expr, p: int, q: int) -> sp.Expr:
        return mean_on_sphere(e.xreplace({Z[p]: Z[0]}) if p == q else e, self.size)

    def mean(self, p: int) -> sp.Expr:
        return mean_on_sphere(self.pieces(p).expr, self.size)

    def moment(self, p: int, q: int) -> sp.Expr:
        scale, (m, n) = self.scales[p] * self.scales[q], (self.shifts[p], self.shifts[q])
        if p == q:
            raw = mean_on_sphere(self.pieces(p).map(lambda e: e**2).expr, self.size)
        else:
            raw = mean_on_sphere(self.functions[p] * self.functions[q], self.size)
        if m != 0 or n != 0:
            raw = raw - m * self.mean(q) - n * self.mean(p) + m * n
        return scale * raw

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        own, _, between = self.law.grams[name]
        if too_steep(self.pieces(p)):
            return sp.oo
        B, V = self.size, self.law.cov[0] - self.law.cov[2]
        one, other = (self.pieces(r).diff() for r in (p, q))
        if p == q:
            plain, bent = one.map(lambda e: e**2).expr, one.map(lambda e: e**2 * Z[0] ** 2).expr
            found = (B - 1) * mean_on_sphere(plain, B) - mean_on_sphere(bent, B)
        else:
            f, g = one.expr, other.expr.xreplace({Z[0]: Z[1]})
            found = -mean_on_sphere(f * g, B) - mean_on_sphere(Z[0] * f * Z[1] * g, B)
        return self.scales[p] * self.scales[q] * found * (own - between) / ((B - 3) * V)


@dataclass(frozen=True)
class Shared(Coordinate):
    """A function of z and of means over the batch, at fixed m: functions[p], scales and shifts in Z[p] and the symbols
    of `means`, (c, h) with c = ⟨h⟩ over N(m, V); slopes_of: (c, dc/dm), a symbol that stands among them, too; amount: x
    in units of the normalized coordinate, where it is that and nothing else."""

    of_gaussian: ClassVar[bool] = False
    means: Means = ()
    slopes_of: tuple[tuple[sp.Symbol, sp.Expr], ...] = ()
    amount: sp.Expr | None = field(default=None)  # x = amount·y where y is normalized, and nothing else came since

    @property
    def is_linear(self) -> bool:
        return False

    def plain(self) -> Shared:
        """The same with scale and shift inside the function."""
        values = tuple(pieces(e, z).expr for e, z in zip(self.values(), Z))
        return replace(self, functions=values, scales=(sp.S.One,) * 2, shifts=(sp.S.Zero,) * 2)

    def with_values(self, functions: Exprs, **more) -> Coordinate:
        return super().with_values(functions, **({"amount": None} | more))

    def rescaled(self, factors: Exprs) -> Coordinate:
        found = super().rescaled(factors)
        assert isinstance(found, Shared)
        return found if self.amount is None else replace(found, amount=self.amount * factors[0])

    def _average(self, value: sp.Expr, means: Means) -> sp.Expr:
        K, _, between = self.law.cov
        return common(value, means, K - between, between)

    def expect(self, e: sp.Expr, p: int, q: int) -> sp.Expr:
        if not e.has(*Z[:2]):
            return self._average(e, self.means)
        if p == q:
            one = _mean("e", e.xreplace({Z[p]: Z[0]}))
            return self._average(one[0], (*self.means, one))
        total = sp.S.Zero
        for term in sp.Add.make_args(sp.expand(e, deep=False)):
            parts = [sp.Mul(*[t for t in sp.Mul.make_args(term) if t.has(z)]) for z in Z[:2]]
            rest = sp.Mul(*[t for t in sp.Mul.make_args(term) if not t.has(*Z[:2])])
            if any(t.has(Z[0]) and t.has(Z[1]) for t in sp.Mul.make_args(term)):
                raise MeanFieldError(f"{e} is no sum of products of functions of one position of the batch.")
            both = [_mean("e", part.xreplace({Z[1]: Z[0]})) for part in parts if part != 1]
            total += self._average(rest * sp.Mul(*[c for c, _ in both]), (*self.means, *both))
        return total

    def mean(self, p: int) -> sp.Expr:
        return self.expect(self.functions[p], p, p)

    def moment(self, p: int, q: int) -> sp.Expr:
        if self.amount is not None:
            return self.amount**2 if p == q else sp.S.Zero
        one = self.plain()
        if p == q:
            return self.expect(one.pieces(p).map(lambda e: e**2).expr.xreplace({Z[0]: Z[p]}), p, p)
        return self.expect(one.functions[p] * one.functions[q], p, q)

    def gram(self, name: str, p: int, q: int) -> sp.Expr:
        own, _, between = self.law.grams[name]
        if too_steep(self.pieces(p)):
            return sp.oo
        one, total = self.plain(), sp.S.Zero
        if p == q:
            D = one.pieces(p).diff().map(lambda e: e**2).expr
            total = self.expect(D.xreplace({Z[0]: Z[p]}), p, p) * (own - between)
        if between == 0 or (p != q and self.amount is not None):  # the mean of a normalized coordinate never moves
            return total
        R = self._moved(one.functions[0])
        if p == q:
            found = _mean("r", pieces(R, Z[0]).map(lambda e: e**2).expr)
            return total + self._average(found[0], (*self.means, found)) * between
        found = _mean("r", R)
        return self._average(found[0] ** 2, (*self.means, found)) * between

    def _moved(self, g: sp.Expr) -> sp.Expr:
        """R = ∂g/∂z + Σ ∂g/∂c·dc/dm, in Z[0]."""
        slopes = dict(self.slopes_of)

        def along(e: sp.Expr) -> sp.Expr:
            return derivative(e, Z[0]) + sp.Add(*[sp.diff(e, c) * slopes[c] for c in slopes if e.has(c)])

        return pieces(g, Z[0]).map(along).expr

    def normalized(self) -> Shared:
        """(x - ⟨x|m⟩)/sd(x|m)."""
        one = self.plain()
        f = one.functions[0]
        m, h = _mean("m", f)
        v = sp.Dummy("v", positive=True)
        spread = pieces(f - m, Z[0]).map(lambda e: e**2).expr
        means = (*self.means, (m, h), (v, spread))
        by_mean = _mean("dm", self._moved(f))  # dm/dm
        middle = replace(self, means=means, slopes_of=(*self.slopes_of, (m, by_mean[0])))
        by_variance = _mean("dv", middle._moved(spread))
        return replace(
            middle,
            functions=one.functions,
            scales=(1 / sp.sqrt(v),) * 2,
            shifts=(m,) * 2,
            means=(*means[:-2], means[-2], by_mean, means[-1], by_variance),
            slopes_of=(*middle.slopes_of, (v, by_variance[0])),
            amount=sp.S.One,
        )


def _mean(name: str, h: sp.Expr) -> tuple[sp.Symbol, sp.Expr]:
    """A conditional mean: its symbol and what is averaged, a function of Z[0]."""
    return sp.Dummy(name, real=True), h


@rule(BatchNorm)
def _batch_norm(block: BatchNorm, x: Coordinate, walk: Walk) -> Coordinate:
    """x → (x - mean)/sd over the positions, for each neuron; γ and β are trained if it is affine."""
    if walk.kind != "batch":
        raise MeanFieldError(
            "A BatchNorm makes inputs act on each other; of such a network K, K_ab, J, J_ab, Theta and Theta_ab of any "
            "two positions of a batch are derived, not of two given inputs."
        )
    if not x.of_one_node:
        raise MeanFieldError("A BatchNorm right after a Pool or a Gate is not derived; put a Dense between them.")
    x = walk.named(walk.as_gaussian(x))
    if x.by_gains:
        raise TangentUnknown
    if any(s == 0 for s in x.scales) or x.functions[0].xreplace({Z[0]: sp.S.One}) == x.functions[0]:
        raise MeanFieldError(
            "A BatchNorm acts on a neuron that is constant over the batch, so that its standard deviation is 0; "
            "change what comes before it."
        )
    out = _normalized(x, walk)
    if block.affine:  # ∂/∂γ = the normalized coordinate, ∂/∂β = 1
        out = replace(out, by_gains=(out.values(), (sp.S.One,) * 2))
    return out


#: of a neuron whose standard deviation over the batch is 0; the gap says where
CONSTANT = (
    "A BatchNorm acts on neurons that are constant over the batch{} (K = K_ab, inputs that are all the same, "
    "or biases alone: sigma_w = 0); give inputs that differ and sigma_w > 0."
)


def _normalized(x: Coordinate, walk: Walk) -> Coordinate:
    law, size = x.law, walk.size
    ones, zeros = (sp.S.One,) * 2, (sp.S.Zero,) * 2
    if isinstance(x, Spherical) and x.is_normalized:
        return replace(x, scales=ones)
    if x.is_linear and law.cov[0] == law.cov[2]:
        raise MeanFieldError(CONSTANT.format(""))
    if x.is_linear and size is not None:
        return Spherical(law, Z[:2], ones, zeros, ones, size=size)
    if x.is_linear:
        V = law.cov[0] - law.cov[2]
        grams = {n: ((own - between) / V, (own - between) / V, sp.S.Zero) for n, (own, _, between) in law.grams.items()}
        grams = {n: tuple(sp.oo if e.has(sp.oo) else e for e in g) for n, g in grams.items()}
        skip_factors: dict[object, tuple[sp.Expr, ...] | None] = dict.fromkeys(law.skip_factors)
        return gaussian(Gaussian(2, (sp.S.One, sp.S.One, sp.S.Zero), grams, skip_factors=skip_factors))
    if size is not None:
        raise MeanFieldError(
            f"A BatchNorm of a function of z over a batch of {size} was asked for: its mean and variance depend on "
            "every position, so that nothing closes; put the BatchNorm before the Nonlinearity, or take an infinite "
            "batch."
        )
    if isinstance(x, Shared):
        return x.normalized()
    return Shared(law, x.functions, ones, zeros, x.z_ratios).normalized()  # constants of a layer divide out


@rule(AffineNorm)
def _affine_norm(block: AffineNorm, x: Coordinate, walk: Walk) -> Coordinate:
    """x → γx + β, the identity where γ = 1 and β = 0; both are trained."""
    if not walk.trained_field:
        return x
    return replace(x, by_gains=(*x.by_gains, x.trained(), (sp.S.One,) * x.positions))
