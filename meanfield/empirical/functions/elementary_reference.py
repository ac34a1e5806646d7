"""Elementary functions without a branch inside, from +, −, ×, ÷ and the bits of a double: a loop over an array becomes
vector instructions, and compiled, interpreted and device code agree in every bit.

Relative errors are below 1e-15 (`test_elementary_reference.py` measures them against 30 digits); a NaN stays one.
Polynomials are Taylor's where noted; the others are interpolated at Chebyshev's nodes in 60 digits, as a test does
again. Source: derived here.
"""

from __future__ import annotations

import math

import numpy as np
from numba.extending import register_jitable

_LOG2_E = 1.0 / math.log(2.0)
_LN2_HIGH = 0.693147180369123816490  # 32 bits: its product with a whole number below 2²⁰ is exact
_LN2_LOW = 1.90821492927058770002e-10  # ln 2 − _LN2_HIGH
_ROUND = 1.5 * 2.0**52  # x + _ROUND holds the whole number next to x in its last bits
_COARSE = 1.5 * 2.0**32  # (x + _COARSE) − _COARSE is x to 20 binary places
_BIAS, _52 = np.uint64(1023), np.uint64(52)
_1, _2, _3 = np.uint64(1), np.uint64(2), np.uint64(3)
_SQRT_HALF = math.sqrt(0.5)
_TAN_PI_8 = math.sqrt(2.0) - 1.0
_QUARTER, _HALF = 0.25 * math.pi, 0.5 * math.pi
_TURNS = 1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32  # π/2 in 33 bits each
_TWO_OVER_PI = 2.0 / math.pi
_FOLD_FAR, _FOLD_NEAR = 2.0**38, 2.0**21  # numbers of quarter turns
_FARTHEST = 2.0**56


@register_jitable(forceinline=True, error_model="numpy")
def _power_of_two(shifted):
    """2ᵏ for shifted = k + _ROUND, −1022 ≤ k ≤ 1023."""
    return np.uint64((np.float64(shifted).view(np.uint64) + _BIAS) << _52).view(np.float64)


@register_jitable(forceinline=True, error_model="numpy")
def _expm1_small(r):
    """e^r − 1 for |r| ≤ ½ ln 2: Taylor to r¹³, the first omitted term is below 5e-18."""
    p = 1 / 6227020800
    p = p * r + 1 / 479001600
    p = p * r + 1 / 39916800
    p = p * r + 1 / 3628800
    p = p * r + 1 / 362880
    p = p * r + 1 / 40320
    p = p * r + 1 / 5040
    p = p * r + 1 / 720
    p = p * r + 1 / 120
    p = p * r + 1 / 24
    p = p * r + 1 / 6
    p = p * r + 0.5
    return r + (r * r) * p


@register_jitable(forceinline=True, error_model="numpy")
def exp(x):
    """e^x: 2ᵏ e^r, the power in two factors, so that results below 1e-308 are right, too."""
    x = -746.0 if x < -746.0 else (710.0 if x > 710.0 else x)
    k = (x * _LOG2_E + _ROUND) - _ROUND
    p = _expm1_small((x - k * _LN2_HIGH) - k * _LN2_LOW)
    half = 0.5 * k + _ROUND
    first = _power_of_two(half)
    return (first + first * p) * _power_of_two((k - (half - _ROUND)) + _ROUND)


@register_jitable(forceinline=True, error_model="numpy")
def expm1_below(x):
    """e^x − 1 for x ≤ 0."""
    x = -50.0 if x < -50.0 else x
    shifted = x * _LOG2_E + _ROUND
    k = shifted - _ROUND
    scale = _power_of_two(shifted)
    return scale * _expm1_small((x - k * _LN2_HIGH) - k * _LN2_LOW) + (scale - 1.0)


@register_jitable(forceinline=True, error_model="numpy")
def tanh(x):
    e = expm1_below(-2.0 * abs(x))
    value = -e / (2.0 + e)
    return value if x >= 0.0 else -value


@register_jitable(forceinline=True, error_model="numpy")
def log1p_unit(e):
    """ln(1 + e) for 0 ≤ e ≤ 1: 2 artanh s with s = e/(2 + e), a polynomial in s² ≤ 1/9."""
    s = e / (2.0 + e)
    u = s * s
    p = 0.08522081781390699
    p = p * u + 0.0416225325593041
    p = p * u + 0.06055084364034609
    p = p * u + 0.06650187016337313
    p = p * u + 0.07693307021152004
    p = p * u + 0.09090870416252403
    p = p * u + 0.11111112040373837
    p = p * u + 0.14285714272727057
    p = p * u + 0.20000000000092874
    p = p * u + 0.33333333333333076
    return 2.0 * (s + s * (u * p))


@register_jitable(forceinline=True, error_model="numpy")
def arctan(x):
    """Within tan(π/8) a polynomial; beyond, that of (|x| − 1)/(|x| + 1), and from tan(3π/8) on of −1/|x|."""
    a = abs(x)
    low, high = a <= _TAN_PI_8, a > 2.0 + _TAN_PI_8
    above = a if low else (-1.0 if high else a - 1.0)
    below = 1.0 if low else (a if high else a + 1.0)
    start = 0.0 if low else (_HALF if high else _QUARTER)
    s = above / below
    u = s * s
    p = -0.017790395523288063
    p = p * u + 0.03795171422296338
    p = p * u - 0.05034575594522044
    p = p * u + 0.058467627400560856
    p = p * u - 0.06662936116136517
    p = p * u + 0.0769204396500265
    p = p * u - 0.0909089673297879
    p = p * u + 0.11111110742286896
    p = p * u - 0.14285714279197312
    p = p * u + 0.1999999999994035
    p = p * u - 0.3333333333333312
    value = start + (s + s * (u * p))
    return value if x >= 0.0 else -value


@register_jitable(forceinline=True, error_model="numpy")
def bell(x):
    """e^{−x²/2}: x is cut into a part whose square is exact and a rest below 2⁻²¹, whose factor is Taylor's."""
    a = abs(x)
    a = 40.0 if a > 40.0 else a
    high = (a + _COARSE) - _COARSE
    low = a - high
    d = low * (high + 0.5 * low)
    return exp(-0.5 * high * high) * (1.0 - d * (1.0 - d * (0.5 - d / 6.0)))


@register_jitable(forceinline=True, error_model="numpy")
def _scaled_tail(y):
    """e^{y²} erfc(y) for y ≥ 0: (1 + 2y) times it is a polynomial in (y − 4)/(y + 4)."""
    t = (y - 4.0) / (y + 4.0)
    p = -2.764120233734578e-10
    p = p * t + 9.297625263709659e-10
    p = p * t + 3.2323973445082033e-09
    p = p * t - 1.2338731403798444e-08
    p = p * t - 2.0725802488181963e-08
    p = p * t + 1.0631817593818149e-07
    p = p * t + 7.771943241086912e-08
    p = p * t - 8.210647933297337e-07
    p = p * t + 2.9173425573089733e-07
    p = p * t + 5.70657829924074e-06
    p = p * t - 1.1221135665965907e-05
    p = p * t - 2.4397731143023292e-05
    p = p * t + 0.00015062142608651945
    p = p * t - 0.0001992571524726518
    p = p * t - 0.0007577732435942576
    p = p * t + 0.005031970069102256
    p = p * t - 0.01619773406293477
    p = p * t + 0.037167515526338006
    p = p * t - 0.06633036581186058
    p = p * t + 0.09373283499911264
    p = p * t - 0.10103906603631811
    p = p * t + 0.06809705425466839
    p = p * t + 0.015379652102619974
    p = p * t - 0.13962111684056228
    p = p * t + 1.2329951186255526
    return p / (1.0 + 2.0 * y)


@register_jitable(forceinline=True, error_model="numpy")
def erf(x):
    """Within 1 a polynomial in x², beyond it 1 − e^{−x²} times the scaled tail."""
    a = abs(x)
    near = 1.0 if a > 1.0 else a
    u = near * near
    p = -7.795898827002142e-10
    p = p * u + 1.3720064546777686e-08
    p = p * u - 1.6208483801871705e-07
    p = p * u + 1.6447424703317362e-06
    p = p * u - 1.492473690741966e-05
    p = p * u + 0.00012055294904839707
    p = p * u - 0.0008548325975389692
    p = p * u + 0.0052239776071164225
    p = p * u - 0.02686617064323777
    p = p * u + 0.11283791670945006
    p = p * u - 0.37612638903183543
    p = p * u + 1.1283791670955126
    far = 7.0 if a > 7.0 else a
    value = near * p if a < 1.0 else 1.0 - exp(-far * far) * _scaled_tail(far)
    return value if x >= 0.0 else -value


@register_jitable(forceinline=True, error_model="numpy")
def normal_cdf(x):
    """Φ(x) = ½ erfc(−x/√2), with all its digits in the lower tail."""
    y = abs(x) * _SQRT_HALF
    y = 40.0 if y > 40.0 else y
    tail = 0.5 * bell(x) * _scaled_tail(y)
    return 1.0 - tail if x >= 0.0 else tail


@register_jitable(forceinline=True, error_model="numpy")
def _folded(x, quarters):
    """x less a whole number (below 2²⁰) of `quarters`, a power of two, quarter turns: x where that number is 0, else to
    the rounding of x."""
    k = ((x * (_TWO_OVER_PI / quarters) + _ROUND) - _ROUND) * quarters
    return (x - k * _TURNS[0]) - k * _TURNS[1]


@register_jitable(forceinline=True, error_model="numpy")
def _reduced(x):
    """(q mod 4, r, what is missing in r) with x = q π/2 + r, |r| ≤ π/4."""
    far = -_FARTHEST if x < -_FARTHEST else (_FARTHEST if x > _FARTHEST else x)
    near = _folded(_folded(far, _FOLD_FAR), _FOLD_NEAR)
    shifted = near * _TWO_OVER_PI + _ROUND
    k = shifted - _ROUND
    first = near - k * _TURNS[0]  # exact, as are the products
    b = k * _TURNS[1]
    second = first - b
    rest = (first - second) - b
    c = k * _TURNS[2]
    third = second - c
    rest = (((second - third) - c) + rest) - k * _TURNS[3]
    r = third + rest
    return np.float64(shifted).view(np.uint64) & _3, r + (x - x), (third - r) + rest


@register_jitable(forceinline=True, error_model="numpy")
def _sin_small(r, rest):
    """sin(r + rest) for |r| ≤ π/4: Taylor to r¹⁵, the first omitted term is below 5e-17 of r."""
    u = r * r
    p = -1 / 1307674368000
    p = p * u + 1 / 6227020800
    p = p * u - 1 / 39916800
    p = p * u + 1 / 362880
    p = p * u - 1 / 5040
    p = p * u + 1 / 120
    p = p * u - 1 / 6
    return r + (rest * (1.0 - 0.5 * u) + r * (u * p))


@register_jitable(forceinline=True, error_model="numpy")
def _cos_small(r, rest):
    """cos(r + rest) for |r| ≤ π/4: Taylor to r¹⁶, the first omitted term is below 3e-18."""
    u = r * r
    p = 1 / 20922789888000
    p = p * u - 1 / 87178291200
    p = p * u + 1 / 479001600
    p = p * u - 1 / 3628800
    p = p * u + 1 / 40320
    p = p * u - 1 / 720
    p = p * u + 1 / 24
    near = 1.0 - 0.5 * u
    return near + (((1.0 - near) - 0.5 * u) + (u * u * p - r * rest))


@register_jitable(forceinline=True, error_model="numpy")
def sin(x):
    """Up to |x| = 10⁶ with all its digits; beyond, the sine of a number within two units in the last place of x."""
    q, r, rest = _reduced(x)
    value = _cos_small(r, rest) if q & _1 == _1 else _sin_small(r, rest)
    return -value if q & _2 == _2 else value


@register_jitable(forceinline=True, error_model="numpy")
def cos(x):
    """As `sin`."""
    q, r, rest = _reduced(x)
    value = _sin_small(r, rest) if q & _1 == _1 else _cos_small(r, rest)
    return -value if (q + _1) & _2 == _2 else value
