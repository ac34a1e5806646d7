"""From what a block holds, a name or a record, to the scalar functions that run it."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions import kinked, smooth
from meanfield.empirical.functions.registry import REFERENCES, Scalar, ScalarPair, elementwise

assert kinked and smooth  # they fill the registry
Parameters = Mapping[str, Any] | tuple[tuple[str, Any], ...]


def names() -> tuple[str, ...]:
    """The names that have a twin."""
    return tuple(REFERENCES)


def _number(name: str, key: str, value: Any) -> float:
    """A parameter as a double; text is a decimal or a fraction ("1/3")."""
    try:
        number = float(Fraction(value)) if isinstance(value, str) else float(value)
    except (TypeError, ValueError, ZeroDivisionError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise MeanFieldError(f"The parameter {key} of {name!r} must be a finite number, but {value!r} was given.")
    return number


def pair_of(name: str, parameters: Parameters = ()) -> ScalarPair:
    """The hand-written twin of a registered activation; a parameter not given takes its default."""
    entry = REFERENCES.get(name)
    if entry is None:
        raise MeanFieldError(
            f"The activation {name!r} has no hand-written twin for finite-width networks; give its functions as "
            f"activation_pairs={{activation: ScalarPair(phi, dphi)}}, or use one of {', '.join(REFERENCES)}."
        )
    given = dict(parameters)
    unknown = [key for key in given if key not in dict(entry.defaults)]
    if unknown:
        takes = ", ".join(key for key, _ in entry.defaults) or "none"
        raise MeanFieldError(f"The activation {name!r} takes these parameters: {takes}; {unknown[0]} was given.")
    values = tuple(_number(name, key, given.get(key, default)) for key, default in entry.defaults)
    return ScalarPair(entry.phi, entry.dphi, entry.continuous, values, entry.higher)


def twin(activation: Hashable, parameters: Parameters = ()) -> tuple[Scalar, Scalar]:
    """(φ, φ′) as compiled functions of one number, for a registered name with parameters, or for a `ScalarPair`.

    Raises `MeanFieldError` for a name without a twin and for parameters it does not take.

    >>> phi, dphi = twin("leaky_relu", {"alpha": "0.2"})
    >>> phi(-3.0), dphi(-3.0)
    (-0.6000000000000001, 0.2)
    """
    phi, dphi = _pair(activation, parameters)
    return phi, dphi


def _pair(activation: Hashable, parameters: Parameters) -> ScalarPair:
    return pair_of(activation, parameters) if isinstance(activation, str) else resolve(activation, {})


def is_smooth(activation: Hashable, parameters: Parameters = ()) -> bool:
    """Whether φ″ and φ‴ are known as functions: no twin with a kink in φ or φ′ has them.

    >>> is_smooth("tanh"), is_smooth("softsign")
    (True, False)
    """
    return _pair(activation, parameters).higher is not None


def derivatives(
    activation: Hashable, order: int, parameters: Parameters = ()
) -> Callable[[np.ndarray], tuple[np.ndarray, ...]]:
    """z → (φ(z), φ′(z), …, derivative number `order` ≤ 3), elementwise on an array.

    Raises `MeanFieldError` where φ″ is asked for and the activation is not smooth.
    """
    pair = _pair(activation, parameters)
    name = repr(activation) if isinstance(activation, str) else "an activation"
    if order not in range(4):
        raise MeanFieldError(f"Derivative {order} of {name} is not available: only those of order 0 to 3 can be had.")
    if order > 1 and pair.higher is None:
        raise MeanFieldError(
            f"Derivative {order} of {name} is not available: it has no φ″ and φ‴ here; take an activation without a "
            "kink in φ or φ′, or give ScalarPair(phi, dphi, higher=(d2phi, d3phi))."
        )
    kernels = [elementwise(function) for function in (pair.phi, pair.dphi, *(pair.higher or ()))[: order + 1]]

    def evaluate(z: np.ndarray) -> tuple[np.ndarray, ...]:
        found = tuple(np.empty(z.shape) for _ in kernels)
        for kernel, out in zip(kernels, found):
            kernel(np.ascontiguousarray(z, dtype=float).reshape(-1), out.reshape(-1), pair.parameters)
        return found

    return evaluate


def resolve(activation: Hashable, pairs: Mapping[Hashable, ScalarPair]) -> ScalarPair:
    """The functions of an activation as a block holds it: given in `pairs`, a name, a `ScalarPair`, or a record
    with attributes `name` and `parameters`."""
    if activation in pairs:
        pair = pairs[activation]
        return pair if isinstance(pair, ScalarPair) else ScalarPair(*pair)
    if isinstance(activation, ScalarPair):
        return activation
    if isinstance(activation, str):
        return pair_of(activation)
    return pair_of(getattr(activation, "name", str(activation)), getattr(activation, "parameters", None) or ())
