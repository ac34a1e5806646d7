"""Power series of balls for functions that python-flint's series lack, or would lose digits of."""

from __future__ import annotations

from flint import arb, arb_series


def risen(value: arb, slope: arb_series | arb, u: arb_series) -> arb_series:
    """The series with this value at u's centre and derivative slope·u′: unlike differences of exponentials it keeps
    its digits where the value is near 0."""
    return arb_series([value], prec=u.prec) + (slope * u.derivative()).integral()


def tanh(u: arb_series, _: bool = False) -> arb_series:
    if abs(u[0].mid()) < 0.5:
        return risen(u[0].tanh(), sech(u) ** 2, u)
    if u[0].mid() < 0:
        return -tanh(-u)
    e = (-2 * u).exp()
    return (1 - e) / (1 + e)


def sech(u: arb_series, _: bool = False) -> arb_series:
    e = (u if u[0].mid() < 0 else -u).exp()
    return 2 * e / (1 + e * e)


def cosh(u: arb_series, _: bool = False) -> arb_series:
    return (u.exp() + (-u).exp()) / 2


def sinh(u: arb_series, _: bool = False) -> arb_series:
    return risen(u[0].sinh(), cosh(u), u)


def asinh(u: arb_series, _: bool = False) -> arb_series:
    return risen(u[0].asinh(), 1 / (u * u + 1).sqrt(), u)


def logistic_joint(
    u: arb_series, _: bool = False, wanted: bool = True
) -> tuple[arb_series, arb_series, arb_series | None]:
    """σ(u), σ(-u), softplus(u) from one exponential that does not overflow."""
    left = u[0].mid() < 0
    e = (u if left else -u).exp()
    large = 1 / (1 + e)
    small = e * large
    plus = None if not wanted else (1 + e).log() if left else u + (1 + e).log()
    return (small, large, plus) if left else (large, small, plus)


def logistic(u: arb_series, _: bool = False) -> arb_series:
    return logistic_joint(u, wanted=False)[0]


def softplus(u: arb_series, _: bool = False) -> arb_series:
    value = logistic_joint(u)[2]
    assert value is not None  # it is wanted
    return value
