r"""Where a sum over blocks is made: its powers of L at every scale l = L^s, 0 ≤ s ≤ 1.

K(L^s) ~ L^{κ(s)} with κ piecewise linear; the terms of log J sum to L^{r(s)} by that scale. At numbers both are
followed through every place at which two of their lines can meet. With symbols, forms in the exponents say whether
κ = e (s - s₀) is one line from s₀ = 1 - κ(1)/e on: every other lies below 0 at s₀.
"""

from __future__ import annotations

from itertools import combinations, pairwise

import sympy as sp

from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.in_total_depth.total_scales import Scale, Scales
from meanfield.symbolic.asymptotics.schedules.branch import Variance


def _has_numbers(scales: Scales) -> bool:
    return not any(one.fall.free_symbols for one in scales.branch.variances)


OTHERS = "K may grow by one term, then by another, and J has a share of each; no law in L is derived"
LOGARITHM = "K grows as log L before it grows as a power; no law of J in L is derived"
Line = tuple[sp.Expr, sp.Expr]  # slope and offset


def _of_K(scales: Scales) -> list[Line]:
    """Every line that κ can follow once K grows."""
    branch = scales.branch
    v, w, a, b = ((one.beta, one.total) if one is not None else None for one in
                  (branch.v, branch.w, branch.a, branch.b))
    assert v is not None and w is not None
    kappas = []
    if a is not None:
        kappas.append((1 - a[0], -a[1]))
    powers = {scales.square_power(-1), sp.S.Zero}
    if not branch.norm:
        powers.add(scales.square_power(1))
    for p in powers:
        kappas += [(1 - v[0] - p * one[0], -v[1] - p * one[1]) for one in (w, b) if one is not None]
        if p < 1:
            kappas.append(((1 - v[0] - p * w[0]) / (1 - p), -(v[1] + p * w[1]) / (1 - p)))
    return kappas


def _lines(scales: Scales) -> list[Line]:
    """Every line that κ or q's power can follow."""
    w, b = scales.branch.w, scales.branch.b
    kappas = [(sp.S.Zero, sp.S.Zero), *_of_K(scales)]
    inner = [(s - w.beta, d - w.total) for s, d in kappas]
    inner += [(-one.beta, -one.total) for one in (w, b) if one is not None]
    return [*kappas, *inner]


def _path(scales: Scales) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """(s, κ(s), r(s)) at every place where they can bend, and between."""
    lines, places = _lines(scales), {sp.S.Zero, sp.S.One}
    for (m, c), (n, d) in combinations(dict.fromkeys([*lines, (sp.S.Zero, sp.S.Zero)]), 2):
        if m != n and 0 < (s := (d - c) / (m - n)) < 1:
            places.add(s)
    ordered = sorted(places)
    ordered = sorted({*ordered, *((x + y) / 2 for x, y in pairwise(ordered))})
    out, highest = [], sp.S.Zero
    branch = scales.branch
    for s in ordered:
        here = Scales(branch, scales.oracle, s)
        scale = here.scale()
        highest = max(highest, scale.kappa)  # K never falls
        y, sign = here.given(highest)
        a1 = here.end(sign).of_slope[0] if sign else sp.S.Zero
        norm = {"first": highest, "inner": here.inner(highest)[0]}.get(branch.norm, sp.S.Zero)
        r = s - here.fall(branch.v) - here.fall(branch.w) + a1 * y - norm
        out.append((s, highest, r))
    return out


def alone(scales: Scales, kappa: sp.Expr, e: sp.Expr) -> None:
    """Raises `Undecided` unless forms in the exponents show that κ is one line from s₀ on."""
    for slope, offset in _of_K(scales):
        at = slope + offset
        if scales.sign(at - kappa) > 0 or (low := scales.sign(e * at - slope * kappa)) > 0:
            raise Undecided(OTHERS)
        if low == 0 and scales.sign(slope) == 0:
            raise Undecided(LOGARITHM)


def _makers(scales: Scales, scale: Scale) -> list[Variance]:
    """The variances that make what the inner Dense puts out, all of them where they are of one order."""
    w, b = scales.branch.w, scales.branch.b
    return ([w] if scale.on_w else []) + ([b] if scale.on_b and b is not None else [])


def _bounded_by_forms(scales: Scales, scale: Scale, e: sp.Expr) -> None:
    """κ is one line, and log J has no growing share at s₀, where r turns last."""
    branch, rest = scales.branch, e - scale.kappa  # e s₀
    v, w = branch.v, branch.w
    if branch.zero.of_slope[0] < 0:
        raise Undecided(OTHERS)
    alone(scales, scale.kappa, e)
    if branch.norm == "inner":
        peaks = [rest * (1 - v.beta) - e * v.total]
    elif branch.norm:
        a1 = branch.zero.of_slope[0]
        bare = rest * (1 - v.beta - w.beta) - e * (v.total + w.total)
        makers = [one for one in (w, branch.b) if one is not None]
        peaks = [bare - a1 * (rest * one.beta + e * one.total) for one in makers]
    else:
        return  # from where q passes 1, at r ≤ 0, r is a line to ρ < 0
    if any(scales.sign(one) >= 0 for one in peaks):
        raise Undecided(OTHERS)


def _single_by_forms(scales: Scales, scale: Scale, e: sp.Expr) -> None:
    """κ, and what makes q or N, are one line each from s₀ on, and log J has no share before."""
    branch, kappa = scales.branch, scale.kappa
    v, w = branch.v, branch.w
    alone(scales, kappa, e)
    made = _makers(scales, scale)
    others = [one for one in (w, branch.b) if one is not None and one not in made]
    if branch.norm == "inner" and w not in made:
        raise Undecided(OTHERS)
    for one in others:
        if scales.sign(e * (made[0].fall - one.fall) + kappa * (one.beta - made[0].beta)) > 0:
            raise Undecided(OTHERS)
    if len(made) == 2 and scales.sign(made[0].beta - made[1].beta) != 0:
        raise Undecided(OTHERS)
    lost = v.total if branch.norm == "inner" else v.total + w.total
    if scales.sign(lost) == 0 and scales.sign(e - kappa) != 0:
        raise Undecided(OTHERS)


def bounded(scales: Scales, scale: Scale, e: sp.Expr) -> None:
    """Raises `Undecided` where log J grows by blocks of a scale below L, although those of the order of L add nothing.
    """
    if not _has_numbers(scales):
        _bounded_by_forms(scales, scale, e)
        return
    path = _path(scales)
    if any(r > 0 for _, _, r in path) or any(one[2] == 0 == other[2] for one, other in pairwise(path)):
        raise Undecided("J grows by blocks l ~ L^s with s < 1 alone; no law in L is derived")


def single(scales: Scales, scale: Scale, e: sp.Expr) -> None:
    """Raises `Undecided` where κ and r do not each follow one line from where K starts to grow, κ = e (s - s₀)."""
    if not _has_numbers(scales):
        _single_by_forms(scales, scale, e)
        return
    path = _path(scales)
    if (0, 0) in _of_K(scales):
        raise Undecided(LOGARITHM)
    s0 = 1 - path[-1][1] / e
    for s, kappa, r in path:
        if kappa != (0 if s <= s0 else e * (s - s0)) or (s >= s0 and r != 0) or r > 0:
            raise Undecided(OTHERS)
    if any(one[2] == 0 == other[2] for one, other in pairwise(path) if other[0] <= s0):
        raise Undecided("J grows with every scale of l, before K does, too; no law in L is derived")
