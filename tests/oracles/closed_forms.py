"""Closed forms known by hand, in multiprecision and in double precision, for cross-checks of the quadratures."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from mpmath import mp, mpf

SLOPES: dict[str, tuple[Fraction, Fraction]] = {
    "linear": (Fraction(1), Fraction(1)),
    "relu": (Fraction(1), Fraction(0)),
    "leaky_relu": (Fraction(1), Fraction(1, 100)),
    "scale_invariant": (Fraction(3, 2), Fraction(-1, 4)),
    "abs": (Fraction(1), Fraction(-1)),
}


def _fraction(value: Fraction) -> Any:
    return mpf(value.numerator) / value.denominator


def one_input_closed(name: str, K: float) -> dict[str, tuple[Any, Any]]:
    """Exact one-input values as (value, rounding bound), at mpmath's precision; empty where none is used.

    Only quantities that have an elementary closed form without cancellation at any K are returned.
    """
    k, s = mpf(K), mp.sqrt(mpf(K))
    values: tuple[Any, ...]
    if name in SLOPES:
        plus, minus = (_fraction(a) for a in SLOPES[name])
        square = (plus * plus + minus * minus) / 2
        values = ((plus - minus) * s / mp.sqrt(2 * mp.pi), k * square, square, square, mpf(0))
    elif name == "step":
        values = (mpf(0.5), mpf(0.5), mp.inf, mpf(0), mp.inf)
    elif name == "sign":
        values = (mpf(0), mpf(1), mp.inf, mpf(0), mp.inf)
    elif name == "relu2":
        values = (k / 2, 3 * k * k / 2, 2 * k, 3 * k, mpf(2))
    elif name == "cubic":
        values = (mpf(0), k - 2 * k**2 + 5 * k**3 / 3, 1 - 2 * k + 3 * k**2, 1 - 4 * k + 5 * k**2, 6 * k - 2)
    elif name == "monomial3":
        values = (mpf(0), 15 * k**3, 27 * k**2, 45 * k**2, 54 * k)
    elif name in ("sin", "cos"):
        # <cos(t z)> = exp(-t^2 K/2); quadrature cannot reach relative digits of exp(-2K) at large K
        e, low, high = mp.exp(-2 * k), -mp.expm1(-2 * k) / 2, (1 + mp.exp(-2 * k)) / 2
        if name == "sin":
            values = (mpf(0), low, high, e, -e)
        else:
            values = (mp.exp(-k / 2), high, low, -e, e)
    elif name == "gaussian":
        w = 1 + 2 * k
        values = (1 / mp.sqrt(1 + k), 1 / mp.sqrt(w), k / (w * mp.sqrt(w)), -1 / (w * mp.sqrt(w)))
        values += ((1 - k) / (w * w * mp.sqrt(w)),)
    else:
        return {}
    tiny = mpf(10) ** (4 - mp.dps)
    names = ("phi", "phi2", "dphi2", "dK_phi2", "dK_dphi2")
    return {q: (v, abs(v) * tiny if mp.isfinite(v) else mpf(0)) for q, v in zip(names, values)}


def two_input_closed(name: str, K_aa: float, K_bb: float, K_ab: float) -> dict[str, Any]:
    """Exact <phi_a phi_b> ("phi_phi") and <phi'_a phi'_b> ("dphi_dphi") at mpmath's precision, where known by hand.

    Slopes are weak ones; for step and sign <phi'_a phi'_b> is the derivative in K_ab, finite for |c| < 1.
    """
    a, b, k = mpf(K_aa), mpf(K_bb), mpf(K_ab)
    root = mp.sqrt(max(a * b - k * k, mpf(0)))
    angle = mp.atan2(root, k)  # arccos of the correlation
    arc = mp.pi / 2 - angle  # its arcsine
    pair: tuple[Any, Any]
    if name in SLOPES:
        plus, minus = (_fraction(x) for x in SLOPES[name])
        even, odd = ((plus - minus) / 2) ** 2, ((plus + minus) / 2) ** 2
        pair = odd * k + even * 2 / mp.pi * (root + k * arc), odd + even * 2 / mp.pi * arc
    elif name in ("step", "sign"):
        value, slope = arc / (2 * mp.pi), 1 / (2 * mp.pi * root) if root else mp.inf
        pair = (mpf(1) / 4 + value, slope) if name == "step" else (4 * value, 4 * slope)
    elif name == "relu2":
        pair = 3 * root * k + (mp.pi - angle) * (a * b + 2 * k * k), 4 * (root + (mp.pi - angle) * k)
        pair = pair[0] / (2 * mp.pi), pair[1] / (2 * mp.pi)
    elif name in ("erf", "erf_scaled"):
        t = 2 * (mpf(1) if name == "erf" else mp.pi / 4)
        square = (1 + t * a) * (1 + t * b) - (t * k) ** 2
        pair = 2 / mp.pi * mp.atan2(t * k, mp.sqrt(square)), 2 * t / (mp.pi * mp.sqrt(square))
    elif name == "gaussian":
        square = (1 + a) * (1 + b) - k * k
        pair = 1 / mp.sqrt(square), k / (square * mp.sqrt(square))
    elif name in ("sin", "cos"):
        near, far = mp.exp(k - (a + b) / 2) / 2, mp.exp(-k - (a + b) / 2) / 2
        pair = (near - far, near + far) if name == "sin" else (near + far, near - far)
    elif name == "cubic":
        pair = k * (1 - a - b + a * b) + 2 * k**3 / 3, (1 - a) * (1 - b) + 2 * k * k
    elif name == "monomial3":
        pair = 9 * a * b * k + 6 * k**3, 9 * a * b + 18 * k * k
    else:
        return {}
    return dict(zip(("phi_phi", "dphi_dphi"), pair))
