"""Hand-written scalar activations φ(x), φ′(x) and, where they are smooth, φ″(x) and φ‴(x), and kernels that apply them
to arrays.

They share nothing with the symbolic registry but the names: the finite-width judge must not import what it judges. No
finite double gives inf − inf or 0·inf. At a kink φ′ takes a value between its one-sided ones; `step` and `sign` have
φ′ = 0, which is not the derivative of the distribution, and are marked as not continuous. An activation with a kink in
φ or φ′ has no φ″, φ‴ here: their delta functions lie at points that no sample meets, so what needs them is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from numba.extending import is_jitted, register_jitable

Scalar = Callable[..., float]
_SQRT_HALF = math.sqrt(0.5)
_DENSITY = 1 / math.sqrt(2 * math.pi)  # of the standard normal at 0
_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_GELU_SLOPE = math.sqrt(2 / math.pi)


@dataclass(frozen=True)
class ScalarPair:
    """φ and φ′ as scalar functions of (x, *parameters), compiled by Numba or plain Python that Numba can compile.

    `higher`: φ″ and φ‴ in the same form; they hold no delta functions, so they belong to a φ without a kink in φ or φ′.
    Without them, what needs φ″ (dNTK, ddNTK and their correlators) is refused.
    """

    phi: Scalar
    dphi: Scalar
    continuous: bool = True
    parameters: tuple[float, ...] = ()
    higher: tuple[Scalar, Scalar] | None = None
    sources: tuple[str, ...] = ()

    @classmethod
    def from_sources(cls, *sources: str, continuous: bool = True) -> ScalarPair:
        """From Python text: φ, φ′ and, if there are four, φ″ and φ‴, each text defining f(z) with `math`, `np` and
        `@njit`. Only such a pair, and one of module-level functions, can be sent to another process."""
        phi, dphi, *higher = (compiled(text) for text in sources)
        return cls(phi, dphi, continuous, (), tuple(higher) or None, sources)  # type: ignore[arg-type]

    def __reduce__(self) -> Any:
        if self.sources:
            return _rebuilt, (self.sources, self.continuous)
        return ScalarPair, (self.phi, self.dphi, self.continuous, self.parameters, self.higher)

    def __repr__(self) -> str:
        """All that decides what the functions compute: it is part of a checkpoint's fingerprint."""
        named = self.sources or tuple(map(_identity, (self.phi, self.dphi, *(self.higher or ()))))
        return f"ScalarPair{(*named, self.parameters, self.continuous)}"

    def __iter__(self) -> Iterator[Scalar]:
        yield bound(self.phi, self.parameters)
        yield bound(self.dphi, self.parameters)


def _identity(function: Any) -> str:
    """A function's name, code and what it encloses."""
    plain = getattr(function, "py_func", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return repr(plain)
    held = tuple(repr(cell.cell_contents) for cell in plain.__closure__ or ())
    return f"{plain.__module__}.{plain.__qualname__}:{code.co_code.hex()}:{code.co_consts}:{code.co_names}:{held}"


@lru_cache(maxsize=256)
def compiled(text: str) -> Scalar:
    """The function f of Python text, compiled."""

    def decorate(*arguments: Any, **options: Any) -> Any:  # text without a file has no disk cache
        numpy = njit(error_model="numpy")  # a division by 0 gives ∞ or nan, as everywhere here
        return numpy(arguments[0]) if arguments else numpy

    scope: dict[str, Any] = {"math": math, "np": np, "njit": decorate}
    exec(compile(text, "<activation>", "exec"), scope)  # text made by the caller's own program
    return scope["f"]


def _rebuilt(sources: tuple[str, ...], continuous: bool) -> ScalarPair:
    return ScalarPair.from_sources(*sources, continuous=continuous)


@dataclass(frozen=True)
class Twin:
    """The entry of a name: φ, φ′ and the parameters they take after x, with their defaults; (φ″, φ‴) if smooth."""

    phi: Scalar
    dphi: Scalar
    defaults: tuple[tuple[str, float], ...]
    continuous: bool
    higher: tuple[Scalar, Scalar] | None


TWINS: dict[str, Twin] = {}
# register_jitable leaves a plain module-level function, which Numba's disk cache can name; a compiled one it cannot.
_jitable_once = lru_cache(maxsize=None)(register_jitable)


def _register(
    name: str, phi: Scalar, dphi: Scalar, *higher: Scalar, continuous: bool = True, **defaults: float
) -> None:
    functions = [_jitable_once(function) for function in (phi, dphi, *higher)]
    both = (functions[2], functions[3]) if higher else None
    TWINS[name] = Twin(functions[0], functions[1], tuple(defaults.items()), continuous, both)


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
def _logistic_slope_d(x):
    return -math.tanh(0.5 * x) * _logistic_slope(x)


@_jitable_once
def _logistic_slope_dd(x):
    bend = math.tanh(0.5 * x)
    return _logistic_slope(x) * (1.5 * bend * bend - 0.5)


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
    return -1.0 if x < -1.0 else (1.0 if x > 1.0 else x)  # max and min do not compile for every GPU target


def _hard_tanh_d(x):
    return 1.0 if abs(x) < 1.0 else 0.0


def _relu6(x):
    return 0.0 if x < 0.0 else (6.0 if x > 6.0 else x)


def _relu6_d(x):
    return 1.0 if 0.0 < x < 6.0 else 0.0


def _tanh(x):
    return math.tanh(x)


def _tanh_d(x):
    return 4.0 * _logistic_slope(2.0 * x)  # sech² x; 1 − tanh² x would lose its digits in the tails


def _tanh_dd(x):
    return -8.0 * math.tanh(x) * _logistic_slope(2.0 * x)


def _tanh_ddd(x):
    value = math.tanh(x)
    return 4.0 * _logistic_slope(2.0 * x) * (6.0 * value * value - 2.0)


def _erf(x):
    return math.erf(x)


def _erf_d(x):
    return _TWO_OVER_SQRT_PI * math.exp(-x * x)


def _erf_dd(x):
    return -2.0 * _TWO_OVER_SQRT_PI * (x * math.exp(-x * x))


def _erf_ddd(x):
    density = math.exp(-x * x)  # 0 before x² overflows; so below
    return _TWO_OVER_SQRT_PI * (4.0 * x * x - 2.0) * density if density > 0.0 else 0.0


def _softsign(x):
    return x / (1.0 + abs(x))


def _softsign_d(x):
    t = 1.0 / (1.0 + abs(x))
    return t * t


def _arctan(x):
    return math.atan(x)


def _arctan_d(x):
    return 1.0 / (1.0 + x * x)


def _arctan_dd(x):
    q = 1.0 / (1.0 + x * x)
    return -2.0 * (x * q) * q


def _arctan_ddd(x):
    q = 1.0 / (1.0 + x * x)
    return q * q * (6.0 - 8.0 * q)


def _gelu(x):
    return x * _normal_cdf(x)


def _gelu_d(x):
    return _normal_cdf(x) + x * (_DENSITY * math.exp(-0.5 * x * x))


def _gelu_dd(x):
    density = _DENSITY * math.exp(-0.5 * x * x)
    return (2.0 - x * x) * density if density > 0.0 else 0.0


def _gelu_ddd(x):
    density = _DENSITY * math.exp(-0.5 * x * x)
    return x * (x * x - 4.0) * density if density > 0.0 else 0.0


def _gelu_tanh(x):
    return x * _logistic(2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x))


def _gelu_tanh_d(x):
    t = 2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x)
    slope = _logistic_slope(t)
    # slope is 0 long before the polynomial overflows
    return _logistic(t) + (2.0 * _GELU_SLOPE * x * (1.0 + 3 * 0.044715 * x * x) * slope if slope > 0.0 else 0.0)


@_jitable_once
def _gelu_tanh_parts(x):
    """t, its three derivatives, tanh(t/2) and λ′(t), where φ = x λ(t) with the logistic function λ."""
    t = 2.0 * _GELU_SLOPE * x * (1.0 + 0.044715 * x * x)
    t1 = 2.0 * _GELU_SLOPE * (1.0 + 3 * 0.044715 * x * x)
    t2 = 2.0 * _GELU_SLOPE * (6 * 0.044715 * x)
    return t, t1, t2, 2.0 * _GELU_SLOPE * (6 * 0.044715), math.tanh(0.5 * t), _logistic_slope(t)


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


@_jitable_once
def _swish_dd(x, beta):
    t = beta * x
    slope = _logistic_slope(t)
    return beta * slope * (2.0 - t * math.tanh(0.5 * t)) if slope > 0.0 else 0.0


@_jitable_once
def _swish_ddd(x, beta):
    t = beta * x
    slope, bend = _logistic_slope(t), math.tanh(0.5 * t)
    return beta * beta * slope * (t * (1.5 * bend * bend - 0.5) - 3.0 * bend) if slope > 0.0 else 0.0


def _silu(x):
    return x * _logistic(x)


def _silu_d(x):
    return _logistic(x) + x * _logistic_slope(x)


def _silu_dd(x):
    return _swish_dd(x, 1.0)


def _silu_ddd(x):
    return _swish_ddd(x, 1.0)


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


@_jitable_once
def _mish_parts(x):
    """T = tanh ln(1 + eˣ), T′ = λ(1 − T²), λ, 1 − λ and 1 − T², with the logistic function λ."""
    e = math.exp(-abs(x))
    if x > 0.0:
        root = 2.0 * e * (1.0 + e) / (1.0 + 2.0 * e * (1.0 + e))
    else:
        root = 2.0 * (1.0 + e) / (e * (e + 2.0) + 2.0)
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
    return (x if x > 0.0 else 0.0) + math.log1p(math.exp(-abs(x)))


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


def _minus_cos(x):
    return -math.cos(x)


def _gaussian(x):
    return math.exp(-0.5 * x * x)


def _gaussian_d(x):
    return -x * math.exp(-0.5 * x * x)


def _gaussian_dd(x):
    value = math.exp(-0.5 * x * x)
    return (x * x - 1.0) * value if value > 0.0 else 0.0


def _gaussian_ddd(x):
    value = math.exp(-0.5 * x * x)
    return x * (3.0 - x * x) * value if value > 0.0 else 0.0


def _relu2(x):
    return x * x if x > 0.0 else 0.0


def _relu2_d(x):
    return 2.0 * x if x > 0.0 else 0.0


def _hard_swish(x):
    share = (x + 3.0) / 6.0
    return x * (0.0 if share < 0.0 else (1.0 if share > 1.0 else share))


def _hard_swish_d(x):
    return (2.0 * x + 3.0) / 6.0 if abs(x) < 3.0 else (1.0 if x > 0.0 else 0.0)


def _erf_scaled(x, s):
    return math.erf(s * x)


def _erf_scaled_d(x, s):
    return s * _TWO_OVER_SQRT_PI * math.exp(-(s * x) * (s * x))


def _erf_scaled_dd(x, s):
    density = math.exp(-(s * x) * (s * x))
    return -2.0 * _TWO_OVER_SQRT_PI * s * s * (s * x) * density if density > 0.0 else 0.0


def _erf_scaled_ddd(x, s):
    density = math.exp(-(s * x) * (s * x))
    return s * s * s * _TWO_OVER_SQRT_PI * (4.0 * (s * x) * (s * x) - 2.0) * density if density > 0.0 else 0.0


def _monomial(x, n):
    return x**n


def _monomial_d(x, n):
    return n * x ** (n - 1.0) if n > 0.0 else 0.0


def _monomial_dd(x, n):
    return n * (n - 1.0) * x ** (n - 2.0) if n > 1.0 else 0.0


def _monomial_ddd(x, n):
    return n * (n - 1.0) * (n - 2.0) * x ** (n - 3.0) if n > 2.0 else 0.0


def _polynomial(x, c0, c1, c2, c3):
    return ((c3 * x + c2) * x + c1) * x + c0


def _polynomial_d(x, c0, c1, c2, c3):
    return (3.0 * c3 * x + 2.0 * c2) * x + c1


def _polynomial_dd(x, c0, c1, c2, c3):
    return 6.0 * c3 * x + 2.0 * c2


def _polynomial_ddd(x, c0, c1, c2, c3):
    return 6.0 * c3


_register("linear", _linear, _one, _zero, _zero)
_register("relu", _relu, _relu_d)
_register("leaky_relu", _leaky_relu, _leaky_relu_d, alpha=0.01)
_register("scale_invariant", _scale_invariant, _scale_invariant_d, a_plus=1.0, a_minus=0.0)
_register("abs", _abs, _sign)
_register("step", _relu_d, _zero, continuous=False)
_register("sign", _sign, _zero, continuous=False)
_register("hard_tanh", _hard_tanh, _hard_tanh_d)
_register("relu6", _relu6, _relu6_d)
_register("tanh", _tanh, _tanh_d, _tanh_dd, _tanh_ddd)
_register("erf", _erf, _erf_d, _erf_dd, _erf_ddd)
_register("sigmoid", _logistic, _logistic_slope, _logistic_slope_d, _logistic_slope_dd)
_register("softsign", _softsign, _softsign_d)
_register("arctan", _arctan, _arctan_d, _arctan_dd, _arctan_ddd)
_register("gelu", _gelu, _gelu_d, _gelu_dd, _gelu_ddd)
_register("gelu_tanh", _gelu_tanh, _gelu_tanh_d, _gelu_tanh_dd, _gelu_tanh_ddd)
_register("silu", _silu, _silu_d, _silu_dd, _silu_ddd)
_register("swish", _swish, _swish_d, _swish_dd, _swish_ddd, beta=1.0)
_register("mish", _mish, _mish_d, _mish_dd, _mish_ddd)
_register("softplus", _softplus, _logistic, _logistic_slope, _logistic_slope_d)
_register("elu", _elu, _elu_d, alpha=1.0)
_register("selu", _selu, _selu_d, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717)
_register("sin", _sin, _cos, _minus_sin, _minus_cos)
_register("cos", _cos, _minus_sin, _minus_cos, _sin)
_register("gaussian", _gaussian, _gaussian_d, _gaussian_dd, _gaussian_ddd)
_register("relu2", _relu2, _relu2_d)
_register("hard_swish", _hard_swish, _hard_swish_d)
_register("erf_scaled", _erf_scaled, _erf_scaled_d, _erf_scaled_dd, _erf_scaled_ddd, s=0.5 * math.sqrt(math.pi))
_register("monomial", _monomial, _monomial_d, _monomial_dd, _monomial_ddd, n=3.0)
_register("polynomial", _polynomial, _polynomial_d, _polynomial_dd, _polynomial_ddd, c0=0.0, c1=1.0, c2=0.0, c3=-1 / 3)


def _jitable(function: Scalar) -> Scalar:
    """What a kernel may close over: a twin as it is, a user's function compiled."""
    registered = any(function in (t.phi, t.dphi, *(t.higher or ())) for t in TWINS.values())
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
