"""Power series of balls for heads that python-flint's series lack, or would lose digits of."""

from __future__ import annotations

from flint import arb, arb_series


def risen(value: arb, slope, u):
    """The series with this value at u's centre and derivative slope·u′: unlike differences of exponentials it keeps
    its digits where the value is near 0."""
    return arb_series([value], prec=u.prec) + (slope * u.derivative()).integral()


def tanh(u, _=False):
    if abs(u[0].mid()) < 0.5:
        return risen(u[0].tanh(), sech(u) ** 2, u)
    if u[0].mid() < 0:
        return -tanh(-u)
    e = (-2 * u).exp()
    return (1 - e) / (1 + e)


def sech(u, _=False):
    e = (u if u[0].mid() < 0 else -u).exp()
    return 2 * e / (1 + e * e)


def cosh(u, _=False):
    return (u.exp() + (-u).exp()) / 2


def sinh(u, _=False):
    return risen(u[0].sinh(), cosh(u), u)


def asinh(u, _=False):
    return risen(u[0].asinh(), 1 / (u * u + 1).sqrt(), u)


def logistic_joint(u, _=False, wanted=True):
    """σ(u), σ(-u), softplus(u) from one exponential that does not overflow."""
    left = u[0].mid() < 0
    e = (u if left else -u).exp()
    large = 1 / (1 + e)
    small = e * large
    plus = None if not wanted else (1 + e).log() if left else u + (1 + e).log()
    return (small, large, plus) if left else (large, small, plus)


def logistic(u, _=False):
    return logistic_joint(u, wanted=False)[0]


def softplus(u, _=False):
    return logistic_joint(u)[2]
