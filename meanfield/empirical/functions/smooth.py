"""Hand-written twins of smooth activations, φ to φ‴: without a branch inside, so that a loop over an array
becomes vector instructions. No finite double gives inf − inf or 0·inf."""

from __future__ import annotations

import math

from meanfield.empirical.functions.elementary_reference import (
    arctan,
    bell,
    cos,
    erf,
    exp,
    log1p_unit,
    normal_cdf,
    sin,
    tanh,
)
from meanfield.empirical.functions.registry import jitable, register

_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the standard normal at 0
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_GELU_SLOPE = math.sqrt(2 / math.pi)


@jitable
def _logistic(x):
    """1/(1 + e^{−x})."""
    e = exp(-abs(x))
    return (1.0 if x >= 0.0 else e) / (1.0 + e)


@jitable
def _logistic_slope(x):
    """e^{−x}/(1 + e^{−x})²."""
    e = exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


@jitable
def _logistic_slope_d(x):
    return -tanh(0.5 * x) * _logistic_slope(x)


@jitable
def _logistic_slope_dd(x):
    bend = tanh(0.5 * x)
    return _logistic_slope(x) * (1.5 * bend * bend - 0.5)


def _tanh(x):
    return tanh(x)


def _tanh_d(x):
    return 4.0 * _logistic_slope(2.0 * x)  # sech² x; 1 − tanh² x would lose its digits in the tails


def _tanh_dd(x):
    return -8.0 * tanh(x) * _logistic_slope(2.0 * x)


def _tanh_ddd(x):
    value = tanh(x)
    return 4.0 * _logistic_slope(2.0 * x) * (6.0 * value * value - 2.0)


def _erf(x):
    return erf(x)


def _erf_d(x):
    return _TWO_OVER_SQRT_PI * exp(-x * x)


def _erf_dd(x):
    return -2.0 * _TWO_OVER_SQRT_PI * (x * exp(-x * x))


def _erf_ddd(x):
    density = exp(-x * x)  # 0 before x² overflows; so below
    return _TWO_OVER_SQRT_PI * (4.0 * x * x - 2.0) * density if density > 0.0 else 0.0


def _arctan(x):
    return arctan(x)


def _arctan_d(x):
    return 1.0 / (1.0 + x * x)


def _arctan_dd(x):
    q = 1.0 / (1.0 + x * x)
    return -2.0 * (x * q) * q


def _arctan_ddd(x):
    q = 1.0 / (1.0 + x * x)
    return q * q * (6.0 - 8.0 * q)


def _gelu(x):
    return x * normal_cdf(x)


def _gelu_d(x):
    return normal_cdf(x) + x * (_DENSITY * bell(x))


def _gelu_dd(x):
    density = _DENSITY * bell(x)
    return (2.0 - x * x) * density if density > 0.0 else 0.0


def _gelu_ddd(x):
    density = _DENSITY * bell(x)
    return x * (x * x - 4.0) * density if density > 0.0 else 0.0


def _gelu_tanh(x):
    return x * _logistic(2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x))


def _gelu_tanh_d(x):
    t = 2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x)
    slope = _logistic_slope(t)
    # slope is 0 long before the polynomial overflows
    return _logistic(t) + (2.0 * _GELU_SLOPE * x * (1.0 + 3 * 0.044715 * x * x) * slope if slope > 0.0 else 0.0)


@jitable
def _gelu_tanh_parts(x):
    """t, its three derivatives, tanh(t/2) and λ′(t), where φ = x λ(t) with the logistic function λ."""
    t = 2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x)
    t1 = 2.0 * _GELU_SLOPE * (1.0 + 3 * 0.044715 * x * x)
    t2 = 2.0 * _GELU_SLOPE * (6 * 0.044715 * x)
    return t, t1, t2, 2.0 * _GELU_SLOPE * (6 * 0.044715), tanh(0.5 * t), _logistic_slope(t)


def _gelu_tanh_dd(x):
    _, t1, t2, _, bend, slope = _gelu_tanh_parts(x)
    return slope * (2.0 * t1 + x * (t2 - t1 * t1 * bend)) if slope > 0.0 else 0.0


def _gelu_tanh_ddd(x):
    _, t1, t2, t3, bend, slope = _gelu_tanh_parts(x)
    if slope == 0.0:
        return 0.0
    return slope * (
        3.0 * (t2 - t1 * t1 * bend) + x * (t3 - 3.0 * t1 * t2 * bend + t1 * t1 * t1 * (1.5 * bend * bend - 0.5))
    )


def _swish(x, beta):
    return x * _logistic(beta * x)


def _swish_d(x, beta):
    t = beta * x
    slope = _logistic_slope(t)
    return _logistic(t) + (t * slope if slope > 0.0 else 0.0)


@jitable
def _swish_dd(x, beta):
    t = beta * x
    slope = _logistic_slope(t)
    return beta * slope * (2.0 - t * tanh(0.5 * t)) if slope > 0.0 else 0.0


@jitable
def _swish_ddd(x, beta):
    t = beta * x
    slope, bend = _logistic_slope(t), tanh(0.5 * t)
    return beta * beta * slope * (t * (1.5 * bend * bend - 0.5) - 3.0 * bend) if slope > 0.0 else 0.0


def _silu(x):
    return x * _logistic(x)


def _silu_d(x):
    return _logistic(x) + x * _logistic_slope(x)


def _silu_dd(x):
    return _swish_dd(x, 1.0)


def _silu_ddd(x):
    return _swish_ddd(x, 1.0)


@jitable
def _tanh_softplus(x):
    """tanh ln(1 + eˣ) as a ratio of polynomials in e^{−|x|}."""
    e = exp(-abs(x))
    above = 1.0 + 2.0 * e if x > 0.0 else e * (e + 2.0)
    return above / (above + (2.0 * e * e if x > 0.0 else 2.0))


def _mish(x):
    return x * _tanh_softplus(x)


def _mish_d(x):
    e = exp(-abs(x))
    above = 1.0 + 2.0 * e if x > 0.0 else e * (e + 2.0)
    below = above + (2.0 * e * e if x > 0.0 else 2.0)
    return above / below + x * (4.0 * e * (1.0 + e) * (e if x > 0.0 else 1.0) / (below * below))


@jitable
def _mish_parts(x):
    """T = tanh ln(1 + eˣ), T′ = λ(1 − T²), λ, 1 − λ and 1 − T², with the logistic function λ."""
    e = exp(-abs(x))
    root = 2.0 * (1.0 + e) * (e if x > 0.0 else 1.0)
    root = root / (1.0 + 2.0 * e * (1.0 + e) if x > 0.0 else e * (e + 2.0) + 2.0)
    return _tanh_softplus(x), _logistic(x) * root * root, _logistic(x), _logistic(-x), root * root


def _mish_dd(x):
    value, slope, up, down, _ = _mish_parts(x)
    return slope * (2.0 + x * (down - 2.0 * value * up)) if slope > 0.0 else 0.0


def _mish_ddd(x):
    value, slope, up, down, gap = _mish_parts(x)
    bend = down - 2.0 * value * up  # T″/T′
    further = bend * bend - up * (down * (1.0 + 2.0 * value) + 2.0 * gap * up)  # T‴/T′
    return slope * (3.0 * bend + x * further) if slope > 0.0 else 0.0


def _softplus(x):
    return (x if x > 0.0 else 0.0) + log1p_unit(exp(-abs(x)))


def _sin(x):
    return sin(x)


def _cos(x):
    return cos(x)


def _minus_sin(x):
    return -sin(x)


def _minus_cos(x):
    return -cos(x)


def _gaussian(x):
    return bell(x)


def _gaussian_d(x):
    return -x * bell(x)


def _gaussian_dd(x):
    value = bell(x)
    return (x * x - 1.0) * value if value > 0.0 else 0.0


def _gaussian_ddd(x):
    value = bell(x)
    return x * (3.0 - x * x) * value if value > 0.0 else 0.0


def _erf_scaled(x, s):
    return erf(s * x)


def _erf_scaled_d(x, s):
    return s * _TWO_OVER_SQRT_PI * exp(-(s * x) * (s * x))


def _erf_scaled_dd(x, s):
    density = exp(-(s * x) * (s * x))
    return -2.0 * _TWO_OVER_SQRT_PI * s * s * (s * x) * density if density > 0.0 else 0.0


def _erf_scaled_ddd(x, s):
    density = exp(-(s * x) * (s * x))
    return s * s * s * _TWO_OVER_SQRT_PI * (4.0 * (s * x) * (s * x) - 2.0) * density if density > 0.0 else 0.0


register("tanh", _tanh, _tanh_d, _tanh_dd, _tanh_ddd)
register("erf", _erf, _erf_d, _erf_dd, _erf_ddd)
register("sigmoid", _logistic, _logistic_slope, _logistic_slope_d, _logistic_slope_dd)
register("arctan", _arctan, _arctan_d, _arctan_dd, _arctan_ddd)
register("gelu", _gelu, _gelu_d, _gelu_dd, _gelu_ddd)
register("gelu_tanh", _gelu_tanh, _gelu_tanh_d, _gelu_tanh_dd, _gelu_tanh_ddd)
register("silu", _silu, _silu_d, _silu_dd, _silu_ddd)
register("swish", _swish, _swish_d, _swish_dd, _swish_ddd, beta=1.0)
register("mish", _mish, _mish_d, _mish_dd, _mish_ddd)
register("softplus", _softplus, _logistic, _logistic_slope, _logistic_slope_d)
register("sin", _sin, _cos, _minus_sin, _minus_cos)
register("cos", _cos, _minus_sin, _minus_cos, _sin)
register("gaussian", _gaussian, _gaussian_d, _gaussian_dd, _gaussian_ddd)
register("erf_scaled", _erf_scaled, _erf_scaled_d, _erf_scaled_dd, _erf_scaled_ddd, s=0.5 * math.sqrt(math.pi))
