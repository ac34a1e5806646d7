"""Generated source, run by the interpreter: the very text that Numba compiles, without Numba."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np


class Rows(list):
    """A table as lists of Python floats: what the interpreter reads fastest, indexed as the array it was."""

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self[0])


class Row(list):
    """An array as a list of Python floats: with NumPy's own scalars the interpreter takes three times as long."""

    @property
    def shape(self) -> tuple[int]:
        return (len(self),)


def _njit(*args, **kwargs):
    return args[0] if args and callable(args[0]) else (lambda f: f)


def _empty(n: int) -> Row:
    return Row([0.0] * n)


_NUMPY = SimpleNamespace(**{**vars(np), "empty": _empty})


def scope_of(text: str, name: str) -> dict[str, Any]:
    """What stands in the scope of `text` when it has run, its arrays of one dimension as lists; name: of its module."""
    scope: dict[str, Any] = {
        "__name__": f"plain_{name}", "math": math, "np": np, "njit": _njit, "prange": range
    }  # fmt: skip
    exec(compile(text, f"<{name}>", "exec"), scope)  # generated here, from expressions only
    scope |= {k: Row(v.tolist()) for k, v in scope.items() if isinstance(v, np.ndarray) and v.ndim == 1}
    scope["np"] = _NUMPY
    return scope
