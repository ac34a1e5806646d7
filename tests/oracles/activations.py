"""Hand-written multiprecision activations: value, slope and curvature of each function under test.

Each formula takes a *number backend* ``m`` (mpmath or Arb, see below) and a point ``z`` of that backend that lies on no
kink, and returns ``(phi, phi', phi'')``.  Nothing here is derived by a computer algebra system: slopes and curvatures
are written out, and the tests compare them with difference quotients.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import mpmath
from flint import arb
from mpmath import mp


class MpmathBackend:
    """Number backend on mpmath, at the working precision of ``mpmath.mp``."""

    name = "mpmath"
    exp, expm1, log1p, tanh = map(staticmethod, (mp.exp, mp.expm1, mp.log1p, mp.tanh))
    erf, erfc, atan, sin, cos, sqrt = map(staticmethod, (mp.erf, mp.erfc, mp.atan, mp.sin, mp.cos, mp.sqrt))

    @staticmethod
    def num(value: Any) -> Any:
        """Number of this backend that equals a double, an integer, a fraction or a decimal text."""
        if isinstance(value, Fraction):
            return mp.mpf(value.numerator) / value.denominator
        return mp.mpf(value)

    @staticmethod
    def pi() -> Any:
        """Circle constant at the working precision."""
        return +mp.pi

    @staticmethod
    def to_mpf(value: Any) -> tuple[Any, Any]:
        """Pair (midpoint, rounding radius) of a number; mpmath tracks no radius."""
        return value, mp.mpf(0)


class ArbBackend:
    """Number backend on Arb balls, at the working precision of ``flint.ctx``."""

    name = "arb"
    exp, expm1, log1p, tanh = map(staticmethod, (arb.exp, arb.expm1, arb.log1p, arb.tanh))
    erf, erfc, atan, sin, cos, sqrt = map(staticmethod, (arb.erf, arb.erfc, arb.atan, arb.sin, arb.cos, arb.sqrt))

    @staticmethod
    def num(value: Any) -> Any:
        """Number of this backend that equals (or encloses) a double, an integer, a fraction or a decimal text."""
        if isinstance(value, Fraction):
            return arb(value.numerator) / value.denominator
        return arb(value)

    @staticmethod
    def pi() -> Any:
        """Circle constant at the working precision."""
        return arb.pi()

    @staticmethod
    def to_mpf(value: Any) -> tuple[Any, Any]:
        """Pair (midpoint, radius) of a ball, as mpmath numbers."""
        mid, rad = value.mid().man_exp(), value.rad().man_exp()
        return mpmath.ldexp(int(mid[0]), int(mid[1])), mpmath.ldexp(int(rad[0]), int(rad[1]))


MPMATH, ARB = MpmathBackend(), ArbBackend()
Triple = tuple[Any, Any, Any]
SELU_LAMBDA, SELU_ALPHA = "1.0507009873554804934193349852946", "1.6732632423543772848170429916717"


def piecewise_linear(a_plus: Fraction | int, a_minus: Fraction | int) -> Callable[[Any, Any], Triple]:
    """Function ``a_plus z`` for z > 0 and ``a_minus z`` for z < 0."""

    def triple(m: Any, z: Any) -> Triple:
        slope = m.num(a_plus if z > 0 else a_minus)
        return slope * z, slope, m.num(0)

    return triple


def _constant_pieces(plus: int, minus: int) -> Callable[[Any, Any], Triple]:
    return lambda m, z: (m.num(plus if z > 0 else minus), m.num(0), m.num(0))


def _clip(low: int, high: int) -> Callable[[Any, Any], Triple]:
    def triple(m: Any, z: Any) -> Triple:
        if z > high or z < low:
            return m.num(high if z > high else low), m.num(0), m.num(0)
        return z, m.num(1), m.num(0)

    return triple


def _tanh(m: Any, z: Any) -> Triple:
    t = m.tanh(z)
    e = m.exp(-2 * abs(z))
    d = 4 * e / (1 + e) ** 2
    return t, d, -2 * t * d


def _erf(m: Any, z: Any, a: Any) -> Triple:
    d = 2 * a / m.sqrt(m.pi()) * m.exp(-((a * z) ** 2))
    return m.erf(a * z), d, -2 * a * a * z * d


def _sigmoid(m: Any, z: Any) -> Triple:
    e = m.exp(-abs(z))
    d = e / (1 + e) ** 2
    slope_log = (1 - e) / (1 + e)
    return (1 / (1 + e), d, -slope_log * d) if z > 0 else (e / (1 + e), d, slope_log * d)


def _times_z(z: Any, g: Triple) -> Triple:
    return z * g[0], g[0] + z * g[1], 2 * g[1] + z * g[2]


def _swish(m: Any, z: Any, beta: Any) -> Triple:
    g = _sigmoid(m, beta * z)
    return _times_z(z, (g[0], beta * g[1], beta * beta * g[2]))


def _softsign(m: Any, z: Any) -> Triple:
    q = 1 / (1 + abs(z))
    return z * q, q * q, (-2 if z > 0 else 2) * q**3


def _arctan(m: Any, z: Any) -> Triple:
    q = 1 / (1 + z * z)
    return m.atan(z), q, -2 * z * q * q


def _gelu(m: Any, z: Any) -> Triple:
    cdf = m.erfc(-z / m.sqrt(m.num(2))) / 2
    pdf = m.exp(-z * z / 2) / m.sqrt(2 * m.pi())
    return z * cdf, cdf + z * pdf, (2 - z * z) * pdf


def _gelu_tanh(m: Any, z: Any) -> Triple:
    c, a = m.sqrt(2 / m.pi()), m.num(Fraction(44715, 1000000))
    u, du, ddu = c * (z + a * z**3), c * (1 + 3 * a * z * z), 6 * a * c * z
    s, ds, dds = _sigmoid(m, 2 * u)  # (1 + tanh u)/2
    return _times_z(z, (s, 2 * du * ds, 2 * ddu * ds + 4 * du * du * dds))


def _mish(m: Any, z: Any) -> Triple:
    # g = tanh(softplus z) = ((1+e^z)^2 - 1)/((1+e^z)^2 + 1), written in the decaying exponential of each side
    if z > 0:
        v = m.exp(-z)
        below = 1 + 2 * v + 2 * v * v
        g, gap = (1 + 2 * v) / below, 2 * v * v / below
    else:
        w = m.exp(z)
        n = w * (w + 2)
        g, gap = n / (n + 2), 2 / (n + 2)
    s, ds, _ = _sigmoid(m, z)
    dg = gap * (1 + g) * s
    return _times_z(z, (g, dg, gap * (1 + g) * ds - 2 * g * dg * s))


def _softplus(m: Any, z: Any) -> Triple:
    s, ds, _ = _sigmoid(m, z)
    tail = m.log1p(m.exp(-abs(z)))
    return (z + tail if z > 0 else tail), s, ds


def _elu(m: Any, z: Any, scale: Any, alpha: Any) -> Triple:
    if z > 0:
        return scale * z, scale, m.num(0)
    e = scale * alpha * m.exp(z)
    return scale * alpha * m.expm1(z), e, e


def _gaussian(m: Any, z: Any) -> Triple:
    g = m.exp(-z * z / 2)
    return g, -z * g, (z * z - 1) * g


def _relu2(m: Any, z: Any) -> Triple:
    return (z * z, 2 * z, m.num(2)) if z > 0 else (m.num(0), m.num(0), m.num(0))


def _z_erf(m: Any, z: Any) -> Triple:
    e, d, dd = _erf(m, z, m.num(1))
    return _times_z(z, (e, d, dd))


def _tanh_mix(m: Any, z: Any) -> Triple:
    one, two = _tanh(m, z), _tanh(m, 2 * z)
    return one[0] - two[0] / 8, one[1] - two[1] / 4, one[2] - two[2] / 2


def _hard_swish(m: Any, z: Any) -> Triple:
    if z > 3:
        return z, m.num(1), m.num(0)
    if z < -3:
        return m.num(0), m.num(0), m.num(0)
    return z * (z + 3) / 6, (2 * z + 3) / 6, m.num(Fraction(1, 3))


@dataclass(frozen=True)
class Activation:
    """Activation of the oracle: its formulas, its kinks and its symmetry.

    ``kinks`` lists (place, jump of phi'^2 there), left to right; ``infinite_slope`` marks a jump of phi itself, for
    which <phi'^2> is infinite.
    """

    formula: str
    triple: Callable[[Any, Any], Triple]
    kinks: tuple[tuple[Fraction, Fraction], ...] = ()
    odd: bool = False
    infinite_slope: bool = False


def _kink(place: int, jump: Fraction | int | str) -> tuple[Fraction, Fraction]:
    return Fraction(place), Fraction(jump)


_F = Fraction
_ERF_SCALED = "erf(z sqrt(pi)/2)"
ACTIVATIONS: dict[str, Activation] = {
    "linear": Activation("z", piecewise_linear(1, 1), odd=True),
    "relu": Activation("max(z,0)", piecewise_linear(1, 0), (_kink(0, 1),)),
    "leaky_relu": Activation("z (z>0), z/100 (z<0)", piecewise_linear(1, _F(1, 100)), (_kink(0, 1 - _F(1, 10**4)),)),
    "scale_invariant": Activation(
        "3z/2 (z>0), -z/4 (z<0)", piecewise_linear(_F(3, 2), _F(-1, 4)), (_kink(0, _F(35, 16)),)
    ),
    "abs": Activation("|z|", piecewise_linear(1, -1), (_kink(0, 0),)),
    "step": Activation("1[z>0]", _constant_pieces(1, 0), (_kink(0, 0),), infinite_slope=True),
    "sign": Activation("sign(z)", _constant_pieces(1, -1), (_kink(0, 0),), odd=True, infinite_slope=True),
    "hard_tanh": Activation("min(max(z,-1),1)", _clip(-1, 1), (_kink(-1, 1), _kink(1, -1)), odd=True),
    "relu6": Activation("min(max(z,0),6)", _clip(0, 6), (_kink(0, 1), _kink(6, -1))),
    "tanh": Activation("tanh(z)", _tanh, odd=True),
    "erf": Activation("erf(z)", lambda m, z: _erf(m, z, m.num(1)), odd=True),
    "erf_scaled": Activation(_ERF_SCALED, lambda m, z: _erf(m, z, m.sqrt(m.pi()) / 2), odd=True),
    "sigmoid": Activation("1/(1+exp(-z))", _sigmoid),
    "softsign": Activation("z/(1+|z|)", _softsign, (_kink(0, 0),), odd=True),
    "arctan": Activation("arctan(z)", _arctan, odd=True),
    "gelu": Activation("z/2 (1+erf(z/sqrt 2))", _gelu),
    "gelu_tanh": Activation("z/2 (1+tanh(sqrt(2/pi)(z+0.044715 z^3)))", _gelu_tanh),
    "silu": Activation("z/(1+exp(-z))", lambda m, z: _swish(m, z, m.num(1))),
    "swish": Activation("z/(1+exp(-3z/2))", lambda m, z: _swish(m, z, m.num(_F(3, 2)))),
    "mish": Activation("z tanh(log(1+exp(z)))", _mish),
    "softplus": Activation("log(1+exp(z))", _softplus),
    "elu": Activation("z (z>0), exp(z)-1 (z<0)", lambda m, z: _elu(m, z, m.num(1), m.num(1)), (_kink(0, 0),)),
    "selu": Activation(
        f"l z (z>0), l a (exp(z)-1) (z<0), l={SELU_LAMBDA}, a={SELU_ALPHA}",
        lambda m, z: _elu(m, z, m.num(SELU_LAMBDA), m.num(SELU_ALPHA)),
        ((_F(0), _F(SELU_LAMBDA) ** 2 * (1 - _F(SELU_ALPHA) ** 2)),),
    ),
    "sin": Activation("sin(z)", lambda m, z: (m.sin(z), m.cos(z), -m.sin(z)), odd=True),
    "cos": Activation("cos(z)", lambda m, z: (m.cos(z), -m.sin(z), -m.cos(z))),
    "gaussian": Activation("exp(-z^2/2)", _gaussian),
    "relu2": Activation("max(z,0)^2", _relu2, (_kink(0, 0),)),
    "cubic": Activation("z - z^3/3", lambda m, z: (z - z**3 / 3, 1 - z * z, -2 * z), odd=True),
    "monomial3": Activation("z^3", lambda m, z: (z**3, 3 * z * z, 6 * z), odd=True),
    "z_erf": Activation("z erf(z)", _z_erf),
    "tanh_mix": Activation("tanh(z) - tanh(2z)/8", _tanh_mix, odd=True),
    "hard_swish": Activation("z min(max(z+3,0),6)/6", _hard_swish, (_kink(-3, _F(1, 4)), _kink(3, _F(-5, 4)))),
}
