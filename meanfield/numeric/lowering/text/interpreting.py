"""Generated source, run by the interpreter: the very text that Numba compiles, without Numba."""

from __future__ import annotations

import inspect
import math
import re
from types import ModuleType
from typing import Any

import numpy as np

NUMBA = re.compile(r"from numba import .*\n")


class FloatRows(list):
    """A table as lists of Python floats: what the interpreter reads fastest, indexed as the array it was."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self[0])


class FloatRow(list):
    """An array as a list of Python floats: with NumPy's own scalars the interpreter takes three times as long."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def _njit(*args, **kwargs):
    return args[0] if args and callable(args[0]) else (lambda f: f)


def _room(n: int) -> FloatRow:
    return FloatRow([0.0] * n)


def scope_of(text: str, name: str) -> dict[str, Any]:
    """What stands in the scope of `text` when it has run; name: of its module. Where quadratures ask `_room` for what
    they read and write number by number, it gives lists, and their nodes are lists."""
    scope: dict[str, Any] = {
        "__name__": f"plain_{name}", "math": math, "np": np, "njit": _njit, "prange": range
    }  # fmt: skip
    exec(compile(text, f"<{name}>", "exec"), scope)  # generated here, from expressions only
    if "_room" in scope:
        scope |= {k: FloatRow(v.tolist()) for k, v in scope.items() if isinstance(v, np.ndarray) and v.ndim == 1}
        scope["_room"] = _room
    return scope


def plain(module: ModuleType) -> dict[str, Any]:
    """The functions of a module that Numba compiles, for the interpreter."""
    return scope_of(NUMBA.sub("", inspect.getsource(module), count=1), module.__name__)
