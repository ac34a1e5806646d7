"""Python functions as activations: read by calling them on a symbol, or else known by their values.

`lambda x: x * np.tanh(x)` is called on a symbol and so becomes a formula. What decides by comparing numbers, or is
compiled (a torch module), cannot be read so; its values at 200 points within |z| ≤ 12 and 60 beyond, up to 10⁶, say
whether it is an activation that is known: to 1e-12, and to 1e-6 where it computes in single precision.
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
from meanfield.functions.elementary import mpmath_functions

POINTS = 200
AGREES, SINGLE = 1e-12, 1e-6  # of 1 + |φ|: in double and in single precision
COMPARED, CANCELLED = 40, 1e-4  # places of a formula that was read, and what its function may lose by cancellation
REACH, FARTHEST = 12.0, 1e6  # most points lie within the first, denser near 0; some lie up to the second


class UnreadableFunction(MeanFieldError):
    """A function that is neither a formula nor known by its values."""


#: name of a function, the names and values of its other arguments → its formula in z, or None
Lookup = Callable[[str, "dict[str, Any]"], "sp.Expr | None"]
#: arguments behind the first one by position, of functions of torch that have some
POSITIONS = {
    "leaky_relu": ("negative_slope",), "elu": ("alpha",), "celu": ("alpha",), "hardtanh": ("min_val", "max_val"),
    "softplus": ("beta", "threshold"), "prelu": ("weight",),
    "clamp": ("min", "max"), "clip": ("min", "max"), "gelu": ("approximate",),
}  # fmt: skip


class Traced:
    """A stand-in for a number that writes down what is done to it. NumPy's functions call its methods by name; those of
    torch say their name (`__torch_function__`), and `lookup` has their formulas."""

    __array_priority__ = 1e6

    def __init__(self, expr: sp.Expr, lookup: Lookup | None = None) -> None:
        self.expr, self.lookup = expr, lookup

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, (first, *others) = function.__name__, args
        if not isinstance(first, Traced) or first.lookup is None:  # what a name says is compared with values, then
            raise TypeError(f"{name} takes no symbol")
        if name in _OPERATORS:  # torch.mul(x, 2)
            return getattr(first, f"__{_OPERATORS[name]}__")(*others)
        more = dict(zip(POSITIONS.get(name, ()), others)) | dict(kwargs or {})
        more = {k: v for k, v in more.items() if k != "inplace" and v is not None}
        plain = getattr(cls, name, None) if not more else None
        if plain is not None:
            return plain(first)
        found = first.lookup(name, more)
        if found is None:
            raise TypeError(f"{name} of a symbol is not known")
        return Traced(found.subs(z, first.expr), first.lookup)


_OPERATORS = {"mul": "mul", "multiply": "mul", "add": "add", "sub": "sub", "div": "truediv", "pow": "pow"}


def _binary(how: Callable[[Any, Any], Any]) -> Callable[[Traced, Any], Any]:
    def method(self: Traced, other: Any) -> Any:
        value = other.expr if isinstance(other, Traced) else other
        if not isinstance(value, (int, float, sp.Expr)) and getattr(value, "shape", None) != ():
            return NotImplemented
        return Traced(how(self.expr, sp.sympify(value)), self.lookup)

    return method


def _unary(how: Callable[[Any], Any]) -> Callable[[Traced], Any]:
    return lambda self: Traced(how(self.expr), self.lookup)


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


def traced(function: Callable[[Any], Any], lookup: Lookup | None = None) -> sp.Expr | None:
    """What a function makes of a symbol; None where it cannot be called on one. lookup: formulas of torch's functions
    by their names; without it these are not followed."""
    for given in (z, Traced(z)) if lookup is None else (Traced(z, lookup),):
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


def far_points() -> Any:
    """Points of both signs beyond those, up to 10⁶: a cap there makes another function. They are of single precision,
    so that a sine in it is given the same ones."""
    import numpy as np

    u = (np.geomspace(REACH, FARTHEST, 30) * 1.01234).astype(np.float32).astype(float)
    return np.concatenate([u, -u])


def values_of(function: Callable[[Any], Any], at: Any) -> Any:
    """The values of a function at an array of points, however it takes them: an array, one number, a torch tensor.

    Raises: UnreadableFunction where it takes none of these, or what it gives is no real number for each.
    """
    import numpy as np

    def tensor(x: Any) -> Any:
        return sys.modules["torch"].as_tensor(x)

    def one_by_one(x: Any) -> Any:
        return [function(float(v)) for v in x]

    reason = ""
    def single(x: Any) -> Any:  # parameters of a module are of single precision
        return function(tensor(x).float())

    calls: tuple[Callable[[Any], Any], ...]
    calls = (lambda x: function(np.array(x)), one_by_one, lambda x: function(tensor(x)), single)
    for call in calls:
        try:
            with np.errstate(all="ignore"):  # of both sides of numpy.where
                found = call(at)
            found = found.detach().numpy() if hasattr(found, "detach") else found
            array = np.asarray(found, dtype=float)
        except Exception as error:
            if isinstance(error, (NameError, AttributeError)):  # of the function's own text
                reason = f" Calling it raised {type(error).__name__}: {error}."
            continue
        if array.shape == np.shape(at) and not np.isnan(array).any():
            return array
    raise UnreadableFunction(
        f"{named(function)} is no function of one real number: it takes no array, number or tensor of them that gives "
        f"as many real ones back.{reason} Give a formula in z, such as 'z*tanh(z)'."
    )


def misread(function: Callable[[Any], Any], expr: sp.Expr) -> bool:
    """Whether a function makes another number than the formula that it makes of a symbol, as one that asks z == |z|;
    not where it takes no numbers."""
    at = points()[:COMPARED]
    try:
        values = values_of(function, at)
    except UnreadableFunction:
        return False
    return bool((_off(values, expr, at) > CANCELLED).any())


def _off(values: Any, expr: sp.Expr, at: Any) -> Any:
    """How far values are from those of a formula, of 1 + their size; NaN where it has none that a float holds."""
    import numpy as np

    exact, other = sp.lambdify(z, expr, modules=[mpmath_functions(), "mpmath"]), np.full(len(at), np.nan)
    for i, x in enumerate(at):
        try:
            other[i] = float(exact(mpmath.mpf(x)))
        except (ArithmeticError, TypeError, ValueError):  # beyond floats, or complex
            continue
    with np.errstate(all="ignore"):
        return np.abs(values - other) / (1 + np.abs(other))


def refuse_together(function: Callable[[Any], Any]) -> None:
    """Refuse what is random, or acts on several numbers at once (a softmax, a dropout): no activation.

    Raises: UnreadableFunction, also where values cannot be had.
    """
    import numpy as np

    at = points()
    whole, part, again = (values_of(function, x) for x in (at, at[::2], at))
    if not (np.allclose(whole[::2], part, rtol=1e-5, atol=1e-7) and np.allclose(whole, again, rtol=1e-5, atol=1e-7)):
        raise UnreadableFunction(
            f"{named(function)} is no activation: it gives other values for the same number, being random or acting on "
            "several numbers at once. Give a function of one number."
        )


def nearest(function: Callable[[Any], Any], known: Iterable[tuple[str, sp.Expr]]) -> tuple[str, float, bool]:
    """(the name of the formula that is nearest to a function, how far it is, of 1 + its size, and whether that is
    rounding)."""
    import numpy as np

    near, far = points(), far_points()
    values, beyond = values_of(function, near), _far_values(function, far)
    told = np.isfinite(beyond)  # where a float has no value (inf/inf of a written-out sigmoid) nothing is compared
    at, values = np.concatenate([near, far[told]]), np.concatenate([values, beyond[told]])
    allowed = SINGLE if (values == values.astype(np.float32)).all() else AGREES
    best = "", float("inf")
    for name, expr in known:
        off = float(np.max(np.nan_to_num(_off(values, expr, at), nan=np.inf)))
        if off < best[1]:
            best = name, off
    return *best, best[1] <= allowed


def _far_values(function: Callable[[Any], Any], at: Any) -> Any:
    """Values one by one, NaN where there is none."""
    import numpy as np

    found = np.full(len(at), np.nan)
    for i in range(len(at)):
        try:
            found[i] = values_of(function, at[i : i + 1])[0]
        except UnreadableFunction:  # an overflow of floats
            continue
    return found


def named(function: object) -> str:
    """What a function is called in a sentence."""
    name = getattr(function, "__name__", type(function).__name__)
    return "A function without a name" if name == "<lambda>" else f"The function {name}"
