"""Scalar activations φ(x), φ′(x) and, where they are smooth, φ″(x) and φ‴(x), and kernels that apply them to arrays.

The hand-written ones (`smooth`, `kinked`) share nothing with the symbolic registry but the names: the finite-width
judge must not import what it judges. At a kink φ′ takes a value between its one-sided ones; `step` and `sign` have
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


@dataclass(frozen=True)
class ScalarPair:
    """φ and φ′ as scalar functions of (x, *parameters), compiled by Numba or plain Python that Numba can compile.

    `higher`: φ″ and φ‴ in the same form; they hold no delta functions, so they belong to a φ without a kink in φ or φ′.
    Without them, what needs φ″ (dNTK, ddNTK and their correlators) is refused.

    >>> import math
    >>> ScalarPair(math.tanh, lambda x: 1 - math.tanh(x)**2).continuous
    True
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
class ReferenceFunction:
    """The entry of a name: φ, φ′ and the parameters they take after x, with their defaults; (φ″, φ‴) if smooth."""

    phi: Scalar
    dphi: Scalar
    defaults: tuple[tuple[str, float], ...]
    continuous: bool
    higher: tuple[Scalar, Scalar] | None


REFERENCES: dict[str, ReferenceFunction] = {}
# register_jitable leaves a plain module-level function, which Numba's disk cache can name; a compiled one it cannot.
# It is inlined whatever its length: a call in a loop would keep the loop from becoming vector instructions.
jitable = lru_cache(maxsize=None)(register_jitable(forceinline=True, error_model="numpy"))


def register(
    name: str, phi: Scalar, dphi: Scalar, *higher: Scalar, continuous: bool = True, **defaults: float
) -> None:
    functions = [jitable(function) for function in (phi, dphi, *higher)]
    both = (functions[2], functions[3]) if higher else None
    REFERENCES[name] = ReferenceFunction(functions[0], functions[1], tuple(defaults.items()), continuous, both)


def _jitable(function: Scalar) -> Scalar:
    """What a kernel may close over: a twin as it is, a user's function compiled."""
    registered = any(function in (t.phi, t.dphi, *(t.higher or ())) for t in REFERENCES.values())
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
