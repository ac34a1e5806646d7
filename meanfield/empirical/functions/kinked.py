"""Hand-written twins of activations made of powers, with kinks or without, and of ELU and SELU."""

from __future__ import annotations

import math

from meanfield.empirical.functions.elementary_reference import exp, expm1_below
from meanfield.empirical.functions.registry import jitable, register


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


def _softsign(x):
    return x / (1.0 + abs(x))


def _softsign_d(x):
    t = 1.0 / (1.0 + abs(x))
    return t * t


def _elu(x, alpha):
    below = alpha * expm1_below(0.0 if x > 0.0 else x)
    return x if x > 0.0 else below


def _elu_d(x, alpha):
    below = alpha * exp(0.0 if x > 0.0 else x)
    return 1.0 if x > 0.0 else below


def _selu(x, scale, alpha):
    below = alpha * expm1_below(0.0 if x > 0.0 else x)
    return scale * (x if x > 0.0 else below)


def _selu_d(x, scale, alpha):
    below = alpha * exp(0.0 if x > 0.0 else x)
    return scale * (1.0 if x > 0.0 else below)


def _relu2(x):
    return x * x if x > 0.0 else 0.0


def _relu2_d(x):
    return 2.0 * x if x > 0.0 else 0.0


def _hard_swish(x):
    share = (x + 3.0) / 6.0
    return x * (0.0 if share < 0.0 else (1.0 if share > 1.0 else share))


def _hard_swish_d(x):
    return (2.0 * x + 3.0) / 6.0 if abs(x) < 3.0 else (1.0 if x > 0.0 else 0.0)


@jitable
def _power(x, n):
    """xⁿ; of a whole n below 8 by squares, rounded at most four times; the choice stands outside of a loop over x."""
    if not 0.0 <= n < 8.0 or n != math.floor(n):
        return x**n
    k, two = int(n), x * x
    return (x if k & 1 else 1.0) * (two if k & 2 else 1.0) * (two * two if k & 4 else 1.0)


def _monomial(x, n):
    return _power(x, n)


def _monomial_d(x, n):
    return n * _power(x, n - 1.0) if n > 0.0 else 0.0


def _monomial_dd(x, n):
    return n * (n - 1.0) * _power(x, n - 2.0) if n > 1.0 else 0.0


def _monomial_ddd(x, n):
    return n * (n - 1.0) * (n - 2.0) * _power(x, n - 3.0) if n > 2.0 else 0.0


def _polynomial(x, c0, c1, c2, c3):
    return ((c3 * x + c2) * x + c1) * x + c0


def _polynomial_d(x, c0, c1, c2, c3):
    return (3.0 * c3 * x + 2.0 * c2) * x + c1


def _polynomial_dd(x, c0, c1, c2, c3):
    return 6.0 * c3 * x + 2.0 * c2


def _polynomial_ddd(x, c0, c1, c2, c3):
    return 6.0 * c3


register("linear", _linear, _one, _zero, _zero)
register("relu", _relu, _relu_d)
register("leaky_relu", _leaky_relu, _leaky_relu_d, alpha=0.01)
register("scale_invariant", _scale_invariant, _scale_invariant_d, a_plus=1.0, a_minus=0.0)
register("abs", _abs, _sign)
register("step", _relu_d, _zero, continuous=False)
register("sign", _sign, _zero, continuous=False)
register("hard_tanh", _hard_tanh, _hard_tanh_d)
register("relu6", _relu6, _relu6_d)
register("softsign", _softsign, _softsign_d)
register("elu", _elu, _elu_d, alpha=1.0)
register("selu", _selu, _selu_d, scale=1.0507009873554804934193349852946, alpha=1.6732632423543772848170429916717)
register("relu2", _relu2, _relu2_d)
register("hard_swish", _hard_swish, _hard_swish_d)
register("monomial", _monomial, _monomial_d, _monomial_dd, _monomial_ddd, n=3.0)
register("polynomial", _polynomial, _polynomial_d, _polynomial_dd, _polynomial_ddd, c0=0.0, c1=1.0, c2=0.0, c3=-1 / 3)
