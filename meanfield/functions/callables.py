"""Python functions as activations: read by calling them on a symbol, or else known by their values.

`lambda x: x * np.tanh(x)` is called on a symbol and so becomes a formula. What decides by comparing numbers, or is
compiled (a torch module), cannot be read so; its values at 200 points say whether it is an activation that is known.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any

import mpmath
import sympy as sp

from meanfield.base.errors import MeanFieldError
from meanfield.base.symbols import z
from meanfield.functions.heads import mpmath_functions

POINTS = 200
AGREES = 1e-6  # of 1 + |φ|
REACH = 12.0  # the points lie within, denser near 0


class Unreadable(MeanFieldError):
    """A function that is neither a formula nor known by its values."""


class Traced:
    """A stand-in for a number that writes down what is done to it; NumPy's functions call its methods by name."""

    __array_priority__ = 1e6

    def __init__(self, expr: sp.Expr) -> None:
        self.expr = expr


def _binary(how: Callable[[Any, Any], Any]) -> Callable[[Traced, Any], Any]:
    def method(self: Traced, other: Any) -> Any:
        value = other.expr if isinstance(other, Traced) else other
        if not isinstance(value, (int, float, sp.Expr)) and getattr(value, "shape", None) != ():
            return NotImplemented
        return Traced(how(self.expr, sp.sympify(value)))

    return method


def _unary(how: Callable[[Any], Any]) -> Callable[[Traced], Any]:
    return lambda self: Traced(how(self.expr))


for _name in ("add", "sub", "mul", "truediv", "pow"):
    _how = getattr(operator, _name)
    setattr(Traced, f"__{_name}__", _binary(_how))
    setattr(Traced, f"__r{_name}__", _binary(lambda a, b, how=_how: how(b, a)))  # type: ignore[misc]
for _name, _how in {
    "__neg__": operator.neg, "__pos__": operator.pos, "__abs__": abs, "absolute": abs, "fabs": abs,
    **{n: getattr(sp, n) for n in ("exp", "log", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{f"arc{n}": getattr(sp, f"a{n}") for n in ("tan", "sin", "sinh")},
    "sign": sp.sign,
    "square": lambda x: x**2, "exp2": lambda x: 2**x, "reciprocal": lambda x: 1 / x,
    "expm1": lambda x: sp.exp(x) - 1, "log1p": lambda x: sp.log(1 + x),
}.items():  # fmt: skip
    setattr(Traced, _name, _unary(_how))


def traced(function: Callable[[Any], Any]) -> sp.Expr | None:
    """What a function makes of a symbol; None where it cannot be called on one."""
    for given in (z, Traced(z)):
        try:
            found = function(given)
        except Exception:  # whatever a foreign function raises, it does not take a symbol
            continue
        expr = found.expr if isinstance(found, Traced) else found
        if isinstance(expr, sp.Expr) and expr.free_symbols <= {z}:
            return expr
    return None


def points() -> Any:
    """The 200 points at which functions are compared: in no order that a kink or a table would share."""
    import numpy as np

    u = np.sin(np.arange(1, POINTS + 1) * 1.2345)
    return REACH * u * np.abs(u)


def values_of(function: Callable[[Any], Any], at: Any) -> Any:
    """The values of a function at an array of points, however it takes them: an array, one number, a torch tensor.

    Raises: Unreadable where it takes none of these, or what it gives is no real number for each.
    """
    import numpy as np

    def tensor(x: Any) -> Any:
        return sys.modules["torch"].as_tensor(x)

    def one_by_one(x: Any) -> Any:
        return [function(float(v)) for v in x]

    for call in (lambda x: function(np.array(x)), one_by_one, lambda x: function(tensor(x))):
        try:
            with np.errstate(all="ignore"):  # of both sides of numpy.where
                found = call(at)
            found = found.detach().numpy() if hasattr(found, "detach") else found
            array = np.asarray(found, dtype=float)
        except Exception:
            continue
        if array.shape == np.shape(at) and not np.isnan(array).any():
            return array
    raise Unreadable(
        f"{named(function)} is no function of one real number: it takes no array, number or tensor of them that gives "
        "as many real ones back. Give a formula in z, such as 'z*tanh(z)'."
    )


def nearest(function: Callable[[Any], Any], known: Iterable[tuple[str, sp.Expr]]) -> tuple[str, float]:
    """(the name of the formula that is nearest to a function at 200 points, how far it is, of 1 + its size)."""
    import numpy as np

    at = points()
    values = values_of(function, at)
    best = "", float("inf")
    for name, expr in known:
        exact = sp.lambdify(z, expr, modules=[mpmath_functions(), "mpmath"])
        other = np.array([float(exact(mpmath.mpf(x))) for x in at])
        off = float(np.max(np.abs(values - other) / (1 + np.abs(other))))
        if off < best[1]:
            best = name, off
    return best


def named(function: object) -> str:
    """What a function is called in a sentence."""
    name = getattr(function, "__name__", type(function).__name__)
    return "A function without a name" if name == "<lambda>" else f"The function {name}"
