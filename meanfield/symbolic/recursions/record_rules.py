"""The rule of each record: what it does to a coordinate. Neurons are averaged, positions kept.

Dense is where layers begin: K′_pq = σ_w²⟨x_p x_q⟩ + σ_b², and of tangents Γ′_pq = σ_w²⟨∂x_p/∂z_p ∂x_q/∂z_q⟩Γ_pq, which
is J from Γ = 1 on; with K′_pq and what trained gains of norms make added it is Θ. All other rules change x alone.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, distance
from meanfield.functions.activations import activation
from meanfield.functions.piecewise import pieces
from meanfield.networks.folds import dense_of, parts
from meanfield.networks.records import (
    Block,
    Dense,
    LayerNorm,
    Nonlinearity,
    Projection,
    Residual,
    RMSNorm,
    Scale,
    Sequential,
)
from meanfield.symbolic.recursions.coordinate import (
    Coordinate,
    Exprs,
    Gaussian,
    composed,
    gaussian,
    holds_state,
    pairs,
    tidy,
)
from meanfield.symbolic.recursions.coordinate_walk import TangentUnknown, Walk, refusal, rule


@rule(Sequential)
def _sequential(block: Sequential, x: Coordinate, walk: Walk) -> Coordinate:
    for part in block.blocks:
        x = walk(part, x)
    return x


ONE_POSITION = ((0, 2),)  # of two inputs of tokens (`two_sequences`): a token, and the one at its place in the other


@rule(Dense)
def _dense(block: Dense, x: Coordinate, walk: Walk) -> Coordinate:
    """z → σ_w N^{-1/2} W x + σ_b b: fresh weights make a new Gaussian of it, whatever x was."""
    mixes = block.axis == "tokens"
    if mixes and walk.kind != "tokens":
        raise refusal(block)
    x = walk.named(walk.as_gaussian(x))
    w, b = walk.deviation(block.sigma_w), walk.deviation(block.sigma_b)

    def variance(p: int, q: int) -> sp.Expr:
        return w**2 * x.moment(p, q) + b**2

    def fresh(name: str, pq: tuple[int, int], _: sp.Expr) -> sp.Expr:
        if mixes and name == "distance":  # every output token has weights and a bias of its own
            return 2 * variance(0, 0)
        if mixes and pq not in ONE_POSITION and pq[0] != pq[1]:
            return sp.S.Zero
        if name == "K":
            return variance(*pq)
        if name == "distance":
            return w**2 * x.distance()
        if name == "norm_difference":
            return w**2 * x.norm_difference()
        if name == "direction_part":
            return w**2 * x.direction_part() + _direction_by_bias(w, b, x)
        gram = sp.S.Zero if w == 0 else walk.tangent(x, name, *pq)  # without weights nobody sees where φ jumps
        if gram == sp.oo:
            return sp.oo
        if name != walk.trained_field:
            return w**2 * gram
        own = sp.Add(*[_gain_moment(one, x, *pq) for one in x.by_gains])
        of_w, of_b = walk.rates(w, b)
        return w**2 * (gram + own) + of_w * x.moment(*pq) + of_b

    return gaussian(x.law.map(fresh))


def _direction_by_bias(w: sp.Expr, b: sp.Expr, x: Coordinate) -> sp.Expr:
    """What a bias of both inputs adds to the direction part of two norms, whose ratio it changes."""
    if b == 0 or not x.law.norm_difference:
        return sp.S.Zero
    A, B = x.moment(0, 0), x.moment(1, 1)
    both = sp.sqrt(w**2 * A + b**2) * sp.sqrt(w**2 * B + b**2) + w**2 * sp.sqrt(A) * sp.sqrt(B) + b**2
    return 2 * distance * (w * b * x.norms()) ** 2 / both


def _direction_by_skip(one: Gaussian, other: Gaussian, strength: sp.Expr) -> sp.Expr:
    """What the sum of two independent Gaussians, of strengths 1 and μ, has of direction part beside their own."""
    if strength == 0 or not (one.norm_difference or other.norm_difference):
        return sp.S.Zero
    (A, B), (C, D) = (tuple(map(sp.sqrt, law.cov[:2])) for law in (one, other))
    across = A * other.norm_difference / (C + D) - C * one.norm_difference / (A + B)
    whole = sp.sqrt(A**2 + strength**2 * C**2) * sp.sqrt(B**2 + strength**2 * D**2)
    return 2 * distance * (strength * across) ** 2 / (whole + A * B + strength**2 * C * D)


def _gain_moment(source: tuple[sp.Expr, ...], x: Coordinate, p: int, q: int) -> sp.Expr:
    """⟨s_p s_q⟩ of what one trained vector adds to a tangent."""
    if len(source) < x.positions:  # of a Gate, which knows two positions, beside a third one
        raise TangentUnknown
    if p == q and source[p] == x.trained()[p]:
        return x.moment(p, p)
    return x.expect(source[p] * source[q], p, q)


@rule(Nonlinearity)
def _nonlinearity(block: Nonlinearity, x: Coordinate, walk: Walk) -> Coordinate:
    """x → φ(x)."""
    record = activation(block.activation)
    joint = x.behind(record.pieces.expr)
    if joint is not None:
        return joint
    if any(map(holds_state, x.scales)):  # a constant factor stays inside φ, whose averages are over the same variance
        x = walk.as_gaussian(x)
    x = walk.with_constants(walk.named(x))
    phi = record.pieces
    slope = phi.diff() if x.by_gains else phi
    if x.by_gains and slope.jumps() and phi.jumps():
        raise MeanFieldError(f"{record} jumps, so the tangent kernel of a LayerNorm before it is infinite.")

    def at(outer: sp.Expr, p: int) -> sp.Expr:
        return outer.xreplace({Z[0]: Z[p]}) if x.values()[p] == Z[p] else composed(outer, x, p)

    positions = range(x.positions)
    functions = tuple(at(phi.expr, p) for p in positions)
    slopes = [at(slope.expr, p) for p in positions] if x.by_gains else []
    by_gains = tuple(tuple(d * a for d, a in zip(slopes, one)) for one in x.by_gains)
    return x.with_values(functions, by_gains=by_gains)


@rule(LayerNorm)
def _layer_norm(block: LayerNorm, x: Coordinate, walk: Walk) -> Coordinate:
    """x → (x - ⟨x⟩)/sd(x) over the neurons; γ and β are trained if it is affine."""
    x = walk.named(x)
    scales, shifts = [], []
    for p in range(x.positions):
        if x.scales[p] == 0:
            raise MeanFieldError("A LayerNorm acts on a coordinate that is 0 in every neuron (a Scale of 0 before it).")
        mean = x.mean(p)
        variance = x.with_values(x.functions).moment(p, p) - mean**2
        if variance == 0:
            raise MeanFieldError(
                "A LayerNorm acts on a coordinate that is the same in every neuron; its variance is 0."
            )
        scales.append(1 / sp.sqrt(variance))
        shifts.append(mean)
    factors = tuple(new / old for new, old in zip(scales, x.scales))
    out = replace(x.rescaled(factors), scales=tuple(scales), shifts=tuple(shifts))
    if block.affine:  # ∂/∂γ = the normalized coordinate, ∂/∂β = 1
        out = replace(out, by_gains=(*out.by_gains, out.trained(), (sp.S.One,) * x.positions))
    return out


@rule(RMSNorm)
def _rms_norm(block: RMSNorm, x: Coordinate, walk: Walk) -> Coordinate:
    """x → x/√⟨x²⟩ over the neurons; γ is trained if it is affine."""
    x = walk.named(x)
    moments = tuple(x.moment(p, p) for p in range(x.positions))
    if any(one == 0 for one in moments):
        raise MeanFieldError("An RMSNorm acts on a coordinate that is 0 in every neuron; its mean square is 0.")
    out = x.rescaled(tuple(1 / sp.sqrt(one) for one in moments))
    return replace(out, by_gains=(*out.by_gains, out.trained())) if block.affine else out


@rule(Scale)
def _scale(block: Scale, x: Coordinate, walk: Walk) -> Coordinate:
    """x → factor·x."""
    return x.rescaled((walk.deviation(block.factor),) * x.positions)


@rule(Projection)
def _projection(block: Projection, x: Coordinate, walk: Walk) -> Coordinate:
    """x → x: fresh weights of standard deviation 1 keep the law of a Gaussian, and all that is averaged over neurons.

    What it makes has no part in common with what went in, which a branch with a Dense of its own does not see.
    """
    if not x.is_linear or x.by_gains:
        raise MeanFieldError(
            "A Projection takes a Gaussian to a Gaussian of the same law, but it is given φ(z) or the output of a "
            "trained LayerNorm; put it where a block begins, or take Dense(sigma_w=1, sigma_b=0)."
        )
    return replace(x, law=replace(x.law, skip_factors={}))


@rule(Residual)
def _residual(block: Residual, x: Coordinate, walk: Walk) -> Coordinate:
    """x → branch(x) + μ shortcut(x): without fresh weights functions of one z, else Gaussians that have in common what
    both let through of z."""
    strength = walk.number(block.mu)
    shortcut = block.shortcut or Sequential(())
    mixes = has_dense(block.branch), has_dense(shortcut)
    if not any(mixes):
        if any(isinstance(part, Projection) for part in parts(block)):
            raise MeanFieldError(
                "A Projection beside a branch without Dense was asked for: whether the two have anything in common "
                "depends on widths, which the theory does not know; take Dense(sigma_w=1, sigma_b=0)."
            )
        return _inner_skip(block.branch, shortcut, strength, x, walk)
    x = walk.named(walk.as_gaussian(x))
    if x.by_gains and not all(mixes):
        raise TangentUnknown
    skip = object()
    entered = replace(x.law, skip_factors={**x.law.skip_factors, skip: (sp.S.One,) * x.positions})
    # where both ways have a Dense, each adds its own share of what trains before them
    ends = [walk.as_gaussian(walk(part, replace(x, law=entered))) for part in (block.branch, shortcut)]
    if all(end.is_linear for end in ends) and any(end.by_gains for end in ends):
        raise TangentUnknown
    for end in ends:
        if not end.is_linear:
            raise MeanFieldError(
                "A Residual adds a Gaussian to a skip that is not Gaussian, or its branch does not end in Dense; put "
                "the Nonlinearity inside the branch and end the branch with Dense()."
            )
    new, old = (end.law for end in ends)
    total = _sum(new, old, strength)
    factors = _in_common(new, old, skip, strength, walk)
    if factors is not None:
        total = _with_shared(total, entered, factors)
    return gaussian(replace(total, skip_factors=_skip_factors(new, old, strength, skip)))


def _sum(new: Gaussian, old: Gaussian, strength: sp.Expr) -> Gaussian:
    """The law of z + μ z′ of independent Gaussians."""

    def added(entries, others):
        return tuple(sp.oo if sp.oo in (a, b) else a + strength**2 * b for a, b in zip(entries, others))

    grams = {name: added(new.grams[name], old.grams[name]) for name in new.grams}
    pairs_of = ((new.distance, old.distance), (new.norm_difference, old.norm_difference))
    distance, norm_difference = (None if a is None or b is None else a + strength**2 * b for a, b in pairs_of)
    direction_part = None
    if new.direction_part is not None and old.direction_part is not None:
        direction_part = new.direction_part + strength**2 * old.direction_part + _direction_by_skip(new, old, strength)
    return Gaussian(new.positions, added(new.cov, old.cov), grams, distance, norm_difference, direction_part)


def _in_common(new: Gaussian, old: Gaussian, skip: object, strength: sp.Expr, walk: Walk) -> Exprs | None:
    """μ m_p m′_q + μ m_q m′_p over the entries, m and m′ the factors by which the two ways let z through; None where
    one of them lets nothing through."""
    if strength == 0 or skip not in new.skip_factors or skip not in old.skip_factors:
        return None
    one, other = new.skip_factors[skip], old.skip_factors[skip]
    if one is None or other is None:
        raise MeanFieldError(
            "Both ways of a Residual let its input through, and one of them normalizes it over a batch: what the two "
            "have in common is not derived; end one of them with Dense()."
        )
    if all(f == 0 for f in one) or all(f == 0 for f in other):
        return None
    if walk.variance_share is not None and any(holds_state(f) for f in (*one, *other)):
        raise MeanFieldError(
            "J0 (an input of finite dimension) where both ways of a Residual let its input through, one of them "
            "normalized, is not derived; ask for J."
        )
    return tuple(strength * (one[p] * other[q] + one[q] * other[p]) for p, q in pairs(new.positions))


def _with_shared(law: Gaussian, z: Gaussian, factors: Exprs) -> Gaussian:
    """The law of a sum that holds `factors` times the covariances of z, too."""

    def added(entries, others):
        return tuple(sp.oo if sp.oo in (a, b) else a + f * b for a, b, f in zip(entries, others, factors))

    grams = {name: added(law.grams[name], z.grams[name]) for name in law.grams}
    out = replace(law, cov=added(law.cov, z.cov), grams=grams)
    if law.distance is None or z.distance is None:
        return out
    factor, *others = factors
    if any(tidy(f - factor) != 0 for f in others):
        raise MeanFieldError(
            "The distance of two inputs is not available where both ways of a Residual let its input through by "
            "factors that differ between the inputs; ask for K_aa, K_bb and K_ab."
        )
    out = replace(out, distance=law.distance + factor * z.distance)
    if law.norm_difference is None or z.norm_difference is None:
        return out
    out = replace(out, norm_difference=law.norm_difference + factor * z.norm_difference)
    if law.direction_part is None or z.direction_part is None:
        return out
    if z.norm_difference != 0 and not factor.is_nonnegative:
        raise MeanFieldError(
            "The distance of two inputs of unequal norms is not available where both ways of a Residual let its input "
            "through with different signs; ask for K_aa, K_bb and K_ab."
        )
    moved = _direction_by_skip(law, z, sp.sqrt(factor)) if factor.is_nonnegative else sp.S.Zero
    return replace(out, direction_part=law.direction_part + factor * z.direction_part + moved)


def _skip_factors(new: Gaussian, old: Gaussian, strength: sp.Expr, skip: object) -> dict[object, Exprs | None]:
    """What is left, in the sum, of each z that entered a Residual around this one."""
    found: dict[object, Exprs | None] = {}
    zero = (sp.S.Zero,) * new.positions
    for one in dict.fromkeys((*new.skip_factors, *old.skip_factors)):
        if one is not skip:
            a, b = new.skip_factors.get(one, zero), old.skip_factors.get(one, zero)
            found[one] = None if a is None or b is None else tuple(f + strength * g for f, g in zip(a, b))
    return found


def has_dense(block: Block) -> bool:
    """Whether a block holds a Dense layer."""
    return bool(dense_of(block))


def _inner_skip(branch: Block, shortcut: Block, mu: sp.Expr, x: Coordinate, walk: Walk) -> Coordinate:
    """Without fresh weights, branch and shortcut depend on the same z."""
    if any(part.mixes == "batch" for way in (branch, shortcut) for part in parts(way)):
        raise MeanFieldError(
            "A skip around a BatchNorm without a Dense beside it was asked for: its sum holds what the batch shares in "
            "two ways, which is not derived; end the branch with Dense()."
        )
    x = walk.named(x)
    one = (sp.S.One,) * x.positions
    inner = walk(branch, replace(x, z_ratios=one))
    side = walk(shortcut, replace(x, z_ratios=one))
    if side.z_ratios != one:
        raise MeanFieldError(
            "A shortcut without Dense that rescales its Gaussian (LayerNorm before a Nonlinearity) is not derived yet; "
            "put the Nonlinearity into the branch."
        )
    back = {z: z / g for z, g in zip(Z, inner.z_ratios)}
    total = [a + mu * b.xreplace(back) for a, b in zip(inner.values(), side.values())]
    shared = len(x.by_gains)

    def moved(source):
        return tuple(mu * a.xreplace(back) for a in source)

    both = tuple(
        tuple(a + b for a, b in zip(one, moved(other)))
        for one, other in zip(inner.by_gains[:shared], side.by_gains[:shared])
    )
    by_gains = both + inner.by_gains[shared:] + tuple(map(moved, side.by_gains[shared:]))
    out = replace(inner, z_ratios=tuple(a * b for a, b in zip(x.z_ratios, inner.z_ratios)))
    linear = [sp.cancel(t / z) for t, z in zip(total, Z)]
    if not any(c.has(*Z) for c in linear):
        return replace(out.with_values(Z[: x.positions], by_gains=by_gains), scales=tuple(linear))
    return out.with_values(tuple(pieces(t, z).expr for t, z in zip(total, Z)), by_gains=by_gains)
