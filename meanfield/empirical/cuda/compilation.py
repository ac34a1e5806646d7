"""Kernels become device code: rebuilt with numba.cuda and the constants of a plan in the place of placeholders.

Kernels are plain functions (`cuda_kernels`), and call plain functions: of `cooperation`, `philox` and the twins.
`kernel` rebuilds one, and compiles that; so numba.cuda is imported when the first one is needed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from types import CellType, FunctionType
from typing import Any

from numba import config
from numba.extending import is_jitted

import meanfield.empirical.cuda.cuda_kernels as kernels
from meanfield.base.answers.results import MeanFieldError

MOST_REGISTERS = 128  # of a thread of the lazy sampler: blocks of 512 fit


def require_cuda() -> Any:
    """The module numba.cuda with a GPU behind it; raises `MeanFieldError` where either is missing."""
    try:
        driver = importlib.import_module("numba.cuda")
    except ImportError:
        raise MeanFieldError(
            'device="cuda" is not available: numba.cuda is not installed; pip install meanfield[cuda], or use '
            'device="cpu".'
        ) from None
    if not driver.is_available():
        raise MeanFieldError(
            'device="cuda" is not available: numba.cuda finds no GPU that it can compile for; that takes an NVIDIA '
            'GPU with its driver and pip install meanfield[cuda], or use device="cpu".'
        )
    return driver


class _Rebuilt:
    """Functions rebuilt in copies of their modules' globals, with every function they call compiled for the device.

    Kernels and what they call, here or in a module of a user's (with `cuda = None`), share one copy, because the
    simulator puts its own `cuda` there while a kernel runs.
    """

    def __init__(self, driver: Any, constants: dict[str, Any]) -> None:
        self._driver, self._given = driver, constants | {"cuda": driver}
        self._named = dict(vars(kernels))
        self._shared = self._named | self._given
        self._scopes: dict[int, dict[str, Any]] = {}
        self._made: list[Any] = []

    def function(self, plain: Any) -> FunctionType:
        plain = getattr(plain, "py_func", plain)
        scope = self._scope(plain)
        for name in plain.__code__.co_names:
            if name in scope:
                scope[name] = self._on_device(scope[name])
        cells = tuple(CellType(self._on_device(cell.cell_contents)) for cell in plain.__closure__ or ())
        return FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__, cells or None)

    def _scope(self, plain: Any) -> dict[str, Any]:
        own = plain.__globals__
        if own.get("cuda", self) is not None:
            return self._scopes.setdefault(id(own), dict(own))
        for name in set(plain.__code__.co_names) & own.keys() - self._given.keys():
            if self._named.setdefault(name, own[name]) is not own[name]:
                raise MeanFieldError(
                    f"The kernel {plain.__name__} uses the name {name}, which is something else in "
                    "meanfield.empirical.cuda.cuda_kernels; rename it."
                )
            self._shared.setdefault(name, own[name])
        return self._shared

    def _on_device(self, value: Any) -> Any:
        if any(value is one for one in self._made) or not (isinstance(value, FunctionType) or is_jitted(value)):
            return value
        plain = self.function(value)  # the simulator runs it as it is
        self._made.append(plain if simulated() else self._driver.jit(device=True)(plain))
        return self._made[-1]


@lru_cache(maxsize=256)
def kernel(function: Callable[..., None], **constants: Any) -> Any:
    """The kernel `function` with `constants` in the place of its module's globals."""
    driver = require_cuda()
    plain = _Rebuilt(driver, geometry() | constants).function(function)
    limited = function is kernels.lazy_kernel and not simulated()
    return driver.jit(plain, **({"max_registers": MOST_REGISTERS} if limited else {}))


def simulated() -> bool:
    return bool(getattr(config, "ENABLE_CUDASIM", 0))  # set at run time, from the environment


def geometry() -> dict[str, int]:
    """The size of thread blocks: small in the simulator, where a thread of the device is one of Python."""
    names = "THREADS", "LANES", "ROWS", "CHUNK"
    return dict.fromkeys(names, 2) if simulated() else {name: getattr(kernels, name) for name in names}


def launch(compiled: Any, grid: int, block: Any, *arguments: Any) -> None:
    compiled[grid, block](*arguments)
