"""Hand-written scalar activations φ(x) and φ′(x), and kernels that apply them to arrays.

They share nothing with the symbolic registry but the names: the finite-width judge must not import what it judges. No
finite double gives inf − inf or 0·inf. At a kink φ′ takes a value between its one-sided ones; `step` and `sign` have
φ′ = 0, which is not the derivative of the distribution, and are marked as not continuous.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from numba import njit
from numba.extending import is_jitted, register_jitable

Scalar = Callable[..., float]
_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the standard normal at 0
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_GELU_SLOPE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class ScalarPair:
    """φ and φ′ as scalar functions of (x, *parameters), compiled by Numba or plain Python that Numba can compile."""

    phi: Scalar
    dphi: Scalar
    continuous: bool = True
    parameters: tuple[float, ...] = ()

    def __iter__(self) -> Iterator[Scalar]:
        yield bound(self.phi, self.parameters)
        yield bound(self.dphi, self.parameters)


@dataclass(frozen=True)
class Twin:
    """The entry of a name: φ, φ′ and the parameters they take after x, with their defaults."""

    phi: Scalar
    dphi: Scalar
    defaults: tuple[tuple[str, float], ...]
    continuous: bool


TWINS: dict[str, Twin] = {}
# register_jitable leaves a plain module-level function, which Numba's disk cache can name; a compiled one it cannot.
_jitable_once = lru_cache(maxsize=None)(register_jitable)


def _register(name: str, phi: Scalar, dphi: Scalar, continuous: bool = True, **defaults: float) -> None:
    TWINS[name] = Twin(_jitable_once(phi), _jitable_once(dphi), tuple(defaults.items()), continuous)


@_jitable_once
def _logistic(x):
    """1/(1 + e^{−x})."""
    e = math.exp(-abs(x))
    return 1.0 / (1.0 + e) if x >= 0.0 else e / (1.0 + e)


@_jitable_once
def _logistic_slope(x):
    """e^{−x}/(1 + e^{−x})²."""
    e = math.exp(-abs(x))
    return e / ((1.0 + e) * (1.0 + e))


@_jitable_once
def _normal_cdf(x):
    return 0.5 * math.erfc(-x * _SQRT_HALF)


def _zero(x):
    return 0.0


def _one(x):
    return 1.0


def _linear(x):
    return x


def _relu(x):
    return x if x > 0.0 else 0.0


def _relu_d(x):
    return 1.0 if x > 0.0 else 0.0


def _leaky_relu(x, alpha):
    return x if x > 0.0 else alpha * x


def _leaky_relu_d(x, alpha):
    return 1.0 if x > 0.0 else alpha


def _scale_invariant(x, a_plus, a_minus):
    return a_plus * x if x > 0.0 else a_minus * x


def _scale_invariant_d(x, a_plus, a_minus):
    return a_plus if x > 0.0 else a_minus


def _abs(x):
    return abs(x)


def _sign(x):
    return 1.0 if x > 0.0 else (-1.0 if x < 0.0 else 0.0)


def _hard_tanh(x):
    return min(max(x, -1.0), 1.0)


def _hard_tanh_d(x):
    return 1.0 if abs(x) < 1.0 else 0.0


def _relu6(x):
    return min(max(x, 0.0), 6.0)


def _relu6_d(x):
    return 1.0 if 0.0 < x < 6.0 else 0.0


def _tanh(x):
    return math.tanh(x)


def _tanh_d(x):
    return 4.0 * _logistic_slope(2.0 * x)  # sech² x; 1 − tanh² x would lose its digits in the tails


def _erf(x):
    return math.erf(x)


def _erf_d(x):
    return _TWO_OVER_SQRT_PI * math.exp(-x * x)


def _softsign(x):
    return x / (1.0 + abs(x))


def _softsign_d(x):
    t = 1.0 / (1.0 + abs(x))
    return t * t


def _arctan(x):
    return math.atan(x)


def _arctan_d(x):
    return 1.0 / (1.0 + x * x)


def _gelu(x):
    return x * _normal_cdf(x)


def _gelu_d(x):
    return _normal_cdf(x) + x * (_DENSITY * math.exp(-0.5 * x * x))


def _gelu_tanh(x):
    return x * _logistic(2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x))


def _gelu_tanh_d(x):
    t = 2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x)
    slope = _logistic_slope(t)
    # slope is 0 long before the polynomial overflows
    return _logistic(t) + (2.0 * _GELU_SLOPE * x * (1.0 + 3 * 0.044715 * x * x) * slope if slope > 0.0 else 0.0)


def _swish(x, beta):
    return x * _logistic(beta * x)


def _swish_d(x, beta):
    t = beta * x
    slope = _logistic_slope(t)
    return _logistic(t) + (t * slope if slope > 0.0 else 0.0)


def _silu(x):
    return x * _logistic(x)


def _silu_d(x):
    return _logistic(x) + x * _logistic_slope(x)


@_jitable_once
def _tanh_softplus(x):
    """tanh ln(1 + eˣ) as a ratio of polynomials in e^{−|x|}."""
    e = math.exp(-abs(x))
    return (1.0 + 2.0 * e) / (1.0 + 2.0 * e * (1.0 + e)) if x > 0.0 else e * (e + 2.0) / (e * (e + 2.0) + 2.0)


def _mish(x):
    return x * _tanh_softplus(x)


def _mish_d(x):
    e = math.exp(-abs(x))
    if x > 0.0:
        below = 1.0 + 2.0 * e * (1.0 + e)
        return _tanh_softplus(x) + x * (4.0 * e * e * (1.0 + e) / (below * below))
    below = e * (e + 2.0) + 2.0
    return _tanh_softplus(x) + x * (4.0 * e * (1.0 + e) / (below * below))


def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _elu(x, alpha):
    return x if x > 0.0 else alpha * math.expm1(x)


def _elu_d(x, alpha):
    return 1.0 if x > 0.0 else alpha * math.exp(x)


def _selu(x, scale, alpha):
    return scale * (x if x > 0.0 else alpha * math.expm1(x))


def _selu_d(x, scale, alpha):
    return scale * (1.0 if x > 0.0 else alpha * math.exp(x))


def _sin(x):
    return math.sin(x)


def _cos(x):
    return math.cos(x)


def _minus_sin(x):
    return -math.sin(x)


def _gaussian(x):
    return math.exp(-0.5 * x * x)


def _gaussian_d(x):
    return -x * math.exp(-0.5 * x * x)


def _relu2(x):
    return x * x if x > 0.0 else 0.0


def _relu2_d(x):
    return 2.0 * x if x > 0.0 else 0.0


def _hard_swish(x):
    return x * min(max((x + 3.0) / 6.0, 0.0), 1.0)


def _hard_swish_d(x):
    return (2.0 * x + 3.0) / 6.0 if abs(x) < 3.0 else (1.0 if x > 0.0 else 0.0)


def _erf_scaled(x, s):
    return math.erf(s * x)


def _erf_scaled_d(x, s):
    return s * _TWO_OVER_SQRT_PI * math.exp(-(s * x) * (s * x))


def _monomial(x, n):
    return x**n


def _monomial_d(x, n):
    return n * x ** (n - 1.0) if n > 0.0 else 0.0


def _polynomial(x, c0, c1, c2, c3):
    return ((c3 * x + c2) * x + c1) * x + c0


def _polynomial_d(x, c0, c1, c2, c3):
    return (3.0 * c3 * x + 2.0 * c2) * x + c1


_register("linear", _linear, _one)
_register("relu", _relu, _relu_d)
_register("leaky_relu", _leaky_relu, _leaky_relu_d, alpha=0.01)
_register("scale_invariant", _scale_invariant, _scale_invariant_d, a_plus=1.0, a_minus=0.0)
_register("abs", _abs, _sign)
_register("step", _relu_d, _zero, continuous=False)
_register("sign", _sign, _zero, continuous=False)
_register("hard_tanh", _hard_tanh, _hard_tanh_d)
_register("relu6", _relu6, _relu6_d)
_register("tanh", _tanh, _tanh_d)
_register("erf", _erf, _erf_d)
_register("sigmoid", _logistic, _logistic_slope)
_register("softsign", _softsign, _softsign_d)
_register("arctan", _arctan, _arctan_d)
_register("gelu", _gelu, _gelu_d)
_register("gelu_tanh", _gelu_tanh, _gelu_tanh_d)
_register("silu", _silu, _silu_d)
_register("swish", _swish, _swish_d, beta=1.0)
_register("mish", _mish, _mish_d)
_register("softplus", _softplus, _logistic)
_register("elu", _elu, _elu_d, alpha=1.0)
_register("selu", _selu, _selu_d, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717)
_register("sin", _sin, _cos)
_register("cos", _cos, _minus_sin)
_register("gaussian", _gaussian, _gaussian_d)
_register("relu2", _relu2, _relu2_d)
_register("hard_swish", _hard_swish, _hard_swish_d)
_register("erf_scaled", _erf_scaled, _erf_scaled_d, s=0.5 * math.sqrt(math.pi))
_register("monomial", _monomial, _monomial_d, n=3.0)
_register("polynomial", _polynomial, _polynomial_d, c0=0.0, c1=1.0, c2=0.0, c3=-1 / 3)


def _jitable(function: Scalar) -> Scalar:
    """What a kernel may close over: a twin as it is, a user's function compiled."""
    registered = any(function is t.phi or function is t.dphi for t in TWINS.values())
    return function if registered or is_jitted(function) else njit(error_model="numpy")(function)


@lru_cache(maxsize=256)
def bound(function: Scalar, parameters: tuple[float, ...] = ()) -> Scalar:
    """x → function(x, *parameters), compiled."""
    inner = _jitable(function)

    @njit(cache=inner is function and not is_jitted(function), error_model="numpy")
    def scalar(x):
        return inner(x, *parameters)

    return scalar


@lru_cache(maxsize=256)
def elementwise(function: Scalar) -> Callable[..., None]:
    """The kernel (z, out, parameters) → out[i] = function(z[i], *parameters) on 1-D arrays, free of the interpreter
    lock.

    A closure over a plain module-level function has the same disk-cache key in every process; one over a compiled
    function, or a compiled function passed as an argument, does not. So registered activations compile once per
    machine.
    """
    inner = _jitable(function)

    @njit(cache=inner is function and not is_jitted(function), nogil=True, error_model="numpy")
    def kernel(z, out, parameters):
        for i in range(z.size):
            out[i] = inner(z[i], *parameters)

    return kernel
