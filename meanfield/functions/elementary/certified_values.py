"""Certified values of functions that python-flint lacks, or whose branch cuts its methods do not guard.

The `analytic` flag of rigorous integration asks that the result be non-finite where a function is not analytic on the
whole ball: every function with a branch cut honours it.
"""

from __future__ import annotations

from flint import acb, arb


def not_known() -> acb:
    return acb(arb.nan(), arb.nan())


def logistic(u: acb, analytic: bool) -> acb:
    if u.real < 0:
        e = u.exp()
        return e / (1 + e)
    return 1 / (1 + (-u).exp()) if u.real > 0 else (1 + (u / 2).tanh()) / 2


def logistic_joint(u: acb, analytic: bool, wanted: bool) -> tuple[acb, acb, acb | None]:
    """σ(u), σ(-u) and, if wanted, softplus(u), from one exponential."""
    if u.real > 0:
        e = (-u).exp()
        right = 1 / (1 + e)
        return right, e * right, u + log1p(e, analytic) if wanted else None
    if u.real < 0:
        e = u.exp()
        left = 1 / (1 + e)
        return e * left, left, log1p(e, analytic) if wanted else None
    t = (u / 2).tanh()
    return (1 + t) / 2, (1 - t) / 2, softplus(u, analytic) if wanted else None


def log1p(w: acb, analytic: bool) -> acb:
    if analytic and not (w.real > -1) and w.imag.contains(0):
        return not_known()
    return w.log1p()


def softplus(u: acb, analytic: bool) -> acb:
    # two analytic continuations of one real function; each call uses one of them for its whole ball, which is all a
    # bound needs
    return u + log1p((-u).exp(), analytic) if u.real.mid() > 0 else log1p(u.exp(), analytic)


def log(u: acb, analytic: bool) -> acb:
    return u.log(analytic=analytic)


def atan(u: acb, analytic: bool) -> acb:
    if analytic and u.real.contains(0) and not (abs(u.imag) < 1):
        return not_known()
    return u.atan()


def asinh(u: acb, analytic: bool) -> acb:
    if u.real.mid() < 0:  # odd; the logarithm cancels on the left
        return -asinh(-u, analytic)
    return (u + (u * u + 1).sqrt(analytic=analytic)).log(analytic=analytic)


def asin(u: acb, analytic: bool) -> acb:
    if u.imag.is_zero() and not analytic:
        return acb(u.real.asin()) if abs(u.real) <= 1 else acb(_clip(u.real).asin())
    return u.asin() if not analytic or _inside(u) else not_known()


def acos(u: acb, analytic: bool) -> acb:
    return u.acos() if not analytic or _inside(u) else not_known()


def _inside(u: acb) -> bool:
    """Away from the cuts of arcsine and arccosine, the real |x| ≥ 1."""
    return not u.imag.contains(0) or abs(u.real) < 1


def _clip(x: arb) -> arb:
    """A correlation is in [-1, 1]; rounding may push its ball's edge out."""
    return x.intersection(arb(0, 1)) if x.overlaps(arb(0, 1)) else arb.nan()
