r"""The slopes χ_J and χ_K at a fixed point held against 1: their side decides the phase, their distance the length.

χ - 1 is evaluated as one number, and K* and the averages as finely as its sign and leading digits ask for: at K* =
10⁻⁶⁰ a tanh has χ_J = 1 - 1.4·10⁻⁶⁰. Where χ = 1 exactly, no digits tell; closed forms do. Source: derived here.
"""

from __future__ import annotations

import sympy as sp
from flint import arb

from meanfield.base.answers.results import MeanFieldError, Solution, Status
from meanfield.base.symbols import K, simplified
from meanfield.functions import balls, zeros
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, from_ball, sharpened, value_at
from meanfield.symbolic.recursion import closed

LADDER = (25, 50, 100, 200, 310)  # digits of K* and of the averages; a double cannot say an error below 10^-323
KNOWN = 40  # bits of χ - 1 that are enough
MOST = LADDER[-1] + 20
HIGHEST = 12  # order of a zero that is looked for


def slope_at(gain: sp.Expr, slope: sp.Expr, root: RootInterval) -> Solution:
    """χ, a function of K, at a zero of `gain`: exact where its closed form is free of K or is 1 there, else enclosed so
    that the sign of χ - 1 and its first digits are known, as far as `LADDER` reaches."""
    form = closed(slope)
    if not form.has(K) and not form.has(Average):
        return Solution(simplified(form), Status.EXACT)
    gap = arb.nan()
    for step, digits in enumerate(LADDER):
        if step:
            root = sharpened(gain, root, digits)
        gap = value_at(slope - 1, root, digits)
        if _is_known(gap):
            break
        if step == 1 and not form.has(Average) and _is_one(closed(gain), form, root):
            return Solution(sp.S.One, Status.EXACT)
    return _plus_one(gap)


def slope_of_number(slope: sp.Expr) -> Solution:
    """The same for a constant expression, averages included."""
    gap = arb.nan()
    for digits in LADDER:
        with balls.precision(int(digits * 3.33) + 60):
            gap = balls.constant(slope - 1)
        if _is_known(gap):
            break
    return _plus_one(gap)


def _is_known(gap: arb) -> bool:
    return bool(gap.is_finite()) and (gap.is_zero() or gap.rel_accuracy_bits() >= KNOWN)


def _plus_one(gap: arb) -> Solution:
    with balls.precision(int(MOST * 3.33)):
        return from_ball(1 + gap, most=MOST)


def _is_one(gain: sp.Expr, slope: sp.Expr, root: RootInterval) -> bool:
    """Whether the closed form of χ is proved to be 1 at the root: solved for K, it gives a zero of `gain` there."""
    if root.exact is not None:
        return zeros.is_zero(slope.subs(K, root.exact) - 1)
    if gain.has(Average):
        return False
    try:
        places = zeros.same_place(zeros.real_zeros(slope - 1, K, root.lo, root.hi))
        inside = [k for k in places if zeros.compare(k, root.lo) > 0 and zeros.compare(root.hi, k) > 0]
    except MeanFieldError:
        return False
    return any(zeros.is_zero(gain.subs(K, k)) for k in inside)  # the bracket holds one zero of `gain`


def multiple_root(gain: sp.Expr, slope: sp.Expr, root: RootInterval) -> sp.Expr | None:
    """The root exactly, where it is proved to be one at which `gain` = K' - K has a zero of higher order, χ_K = 1.

    slope: dK'/dK. No digits tell a triple root from a simple one of a slope near 1: closed forms do, whose zeros of
    χ_K - 1 and of its derivative are looked at.
    """
    if root.exact is not None or not value_at(slope - 1, root, LADDER[0]).contains(0):
        return None
    gain, slope = closed(gain), closed(slope)
    if gain.has(Average) or slope.has(Average):
        return None
    lo, hi = (sp.Rational(root.mid) + s * 10**6 * (root.hi - root.lo) for s in (-1, 1))
    for form in (slope.diff(K), sp.factor(slope.diff(K)), slope - 1):  # factors have zeros in closed form
        try:
            places = zeros.real_zeros(form, K, max(lo, sp.S.Zero), hi)
            inside = [k for k in places if zeros.compare(k, lo) > 0 and zeros.compare(hi, k) > 0]
            for k in inside:
                if root.lo <= k and k <= root.hi and all(zeros.is_zero(e.subs(K, k)) for e in (gain, slope - 1)):
                    return k
        except (MeanFieldError, TypeError):
            continue
    return None


def order_of(gain: sp.Expr, star: sp.Expr, least: int = 1) -> int | None:
    """The n of the first derivative of K' - K at K* that is not 0; None where that is not decided. Those below `least`
    are known to be 0."""
    for n in range(1, HIGHEST + 1):
        gain = sp.diff(gain, K)
        if n < least:
            continue
        value = gain.subs(K, star)
        if not balls.certified(value, 20).contains(0):
            return n
        if not zeros.is_zero(value):
            return None
    return None


# ------------------------------------------------------------------------------------------------- what χ says


def phase_of(chi: Solution) -> str:
    """ "ordered" (χ < 1), "chaotic" (χ > 1), "critical" (χ = 1, proved) or "undecided"."""
    if chi.status is Status.NONEXISTENT:
        return "chaotic"
    if chi.value in (sp.nan, sp.oo):
        return "undecided" if chi.value is sp.nan else "chaotic"
    gap = gap_of(chi)
    if gap.is_zero():
        return "critical"
    return "chaotic" if gap > 0 else "ordered" if gap < 0 else "undecided"


def is_contracting(chi_K: Solution) -> bool | None:
    """Whether |χ_K| < 1, so that K comes to K* exponentially; None where that is not decided."""
    if not chi_K.value.is_number or chi_K.value is sp.nan:
        return None
    if chi_K.value == sp.oo:
        return False
    gap = gap_of(chi_K)
    if gap.is_zero() or gap > 0 or gap <= -2:
        return False
    return True if gap < 0 and gap > -2 else None


def gap_of(chi: Solution) -> arb:
    """A ball of χ - 1; 0 itself only where χ = 1 is proved."""
    if chi.error is None:
        gap = balls.certified(chi.value - 1, 20)
        return arb(0) if gap.contains(0) and zeros.is_zero(chi.value - 1) else gap
    with balls.precision(int(MOST * 3.33)):
        return balls.constant(chi.value) - 1 + arb(0, chi.error)


def log_of(chi: Solution) -> arb:
    """A ball of log χ, by the distance from 1 where χ is close to it; not finite where χ > 0 is not known."""
    gap = gap_of(chi)
    with balls.precision(int(MOST * 3.33)):
        return gap.log1p() if gap > -1 else arb.nan()


def length_of(chi: Solution) -> float:
    """1/|log χ|: infinite at χ = 1 (and where a double cannot hold it), 0 for χ ≤ 0 or infinite, NaN where it is not
    known whether χ = 1."""
    if chi.value is sp.nan or not chi.value.is_number:
        return float("nan")
    if chi.value == sp.oo or chi.value <= 0:
        return 0.0
    size = abs(log_of(chi))
    if size.is_zero():
        return float("inf")
    return float((1 / size).mid()) if size > 0 else float("nan")


def digits_near_one(chi: Solution) -> str | None:
    """χ as text where it is so close to 1 that 12 digits would not show on which side; None elsewhere."""
    if not chi.value.is_number or chi.value in (sp.nan, sp.oo):
        return None
    gap = gap_of(chi)
    if gap.is_zero() or not abs(gap) < 5e-12:
        return None
    if gap.contains(0):
        return f"1 +- {_short(arb(gap.abs_upper()))}"
    return f"1 {'+' if gap > 0 else '-'} {_short(abs(gap))}"


def _short(size: arb) -> str:
    return str(sp.Float(size.mid().str(12, radius=False), 6))
