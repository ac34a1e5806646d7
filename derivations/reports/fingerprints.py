"""Fingerprints: one text for all that a claim, a number or a figure says, the same in every process.

Data count by value. A function counts by its code (without line numbers), its defaults, what it closes over, and the
functions that it calls, these by their fingerprints. Installed packages count by names alone, and so does the engine:
which of its modules were at work is noted beside each record (`records`).
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import sympy as sp

ENGINE = "meanfield"
_PLAIN = (type(None), bool, int, float, complex, str, bytes, Fraction, Decimal, range)


def fingerprint(*values: Any) -> str:
    """The fingerprint of some values, 64 hexadecimal digits."""
    return hashlib.sha256(_Reader().read(values).encode()).hexdigest()


class _Reader:
    """Writes values as text; functions and classes as a hash of theirs, which is kept."""

    _known: ClassVar[dict[int, tuple[Any, str]]] = {}  # with the object itself, so that no two have one id

    def __init__(self) -> None:
        self._open: list[int] = []  # what is being read, outermost first
        self._lowest: int | None = None  # the outermost of these that was met again inside itself

    def read(self, value: Any) -> str:
        if isinstance(value, Enum):
            return f"{type(value).__qualname__}.{value.name}"
        if isinstance(value, _PLAIN):
            return f"{type(value).__name__} {value!r}"
        if isinstance(value, sp.Basic):
            return f"sympy {sp.srepr(value)}"
        if isinstance(value, (np.ndarray, np.generic)):
            array = np.asarray(value)
            return f"array {array.dtype} {array.shape} {hashlib.sha256(array.tobytes()).hexdigest()}"
        if isinstance(value, (tuple, list)):
            return f"{type(value).__name__}({', '.join(map(self.read, value))})"
        if isinstance(value, (set, frozenset)):
            return f"set({', '.join(sorted(map(self.read, value)))})"
        if isinstance(value, Mapping):
            return f"dict({', '.join(f'{self.read(k)}: {self.read(v)}' for k, v in value.items())})"
        if isinstance(value, type):
            return self._once(value, self._type)
        if isinstance(value, types.MethodType):
            return f"method {self.read(value.__self__)} {self.read(value.__func__)}"
        if isinstance(value, types.FunctionType):
            return self._once(value, self._function)
        if isinstance(value, functools.partial):
            return f"partial {self.read((value.func, value.args, value.keywords))}"
        if hasattr(value, "__wrapped__"):  # a function that keeps its answers
            return self.read(value.__wrapped__)
        if is_dataclass(value):
            held = {f.name: getattr(value, f.name) for f in fields(value)}
            return f"{self.read(type(value))} {self.read(held)}"
        return self._named(value)

    def _once(self, value: Any, write: Callable[[Any], str]) -> str:
        if id(value) in self._known:
            return self._known[id(value)][1]
        if id(value) in self._open:  # a circle: what it is is written further out
            place = self._open.index(id(value))
            self._lowest = place if self._lowest is None else min(place, self._lowest)
            return f"circle {value.__qualname__}"
        self._open.append(id(value))
        text = hashlib.sha256(write(value).encode()).hexdigest()
        self._open.pop()
        if self._lowest is None or self._lowest >= len(self._open):
            self._lowest = None
            self._known[id(value)] = (value, text)
        return text

    def _type(self, value: type) -> str:
        name = f"{value.__module__}.{value.__qualname__}"
        if not _is_ours(value.__module__):
            return name
        held = {k: v for k, v in vars(value).items() if isinstance(v, (types.FunctionType, property))}
        own = [self.read(v.fget if isinstance(v, property) else v) for _, v in sorted(held.items()) if _written(v)]
        return f"class {name}({', '.join(map(self.read, value.__bases__))}): {own}"

    def _function(self, value: types.FunctionType) -> str:
        if not _is_ours(value.__module__):
            return f"function {value.__module__}.{value.__qualname__}"
        closed = [cell.cell_contents for cell in value.__closure__ or ()]
        parts = [self._code(value.__code__), value.__defaults__, value.__kwdefaults__, closed]
        for name in sorted(_names(value.__code__)):
            if name in value.__globals__:
                parts.append((name, value.__globals__[name]))
        return f"def {value.__qualname__} {[p if isinstance(p, str) else self.read(p) for p in parts]}"

    def _code(self, code: types.CodeType) -> str:
        held = [self._code(c) if isinstance(c, types.CodeType) else self.read(c) for c in code.co_consts]
        return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {held}"

    def _named(self, value: Any) -> str:
        """A module of ours by its text; anything else by its name or what it shows."""
        if isinstance(value, types.ModuleType):
            if _is_ours(value.__name__):
                return f"module {value.__name__} {hashlib.sha256(inspect.getsource(value).encode()).hexdigest()}"
            return f"module {value.__name__}"
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if name is not None:
            return f"{getattr(value, '__module__', '')}.{name}"
        shown = repr(value)
        if " at 0x" in shown:  # an address says nothing: its kind, and what it holds
            return f"{self.read(type(value))} {self.read(getattr(value, '__dict__', {}))}"
        return f"{type(value).__qualname__} {shown}"


@functools.cache
def _is_ours(module: str | None) -> bool:
    """Whether a module belongs to a paper: neither to the engine nor to an installed package."""
    top = (module or "builtins").partition(".")[0]
    if top in sys.stdlib_module_names or top == ENGINE:
        return False
    if top == __name__.partition(".")[0]:  # wherever it is installed
        return True
    path = getattr(sys.modules.get(module or ""), "__file__", None) or ""
    return "site-packages" not in path and "dist-packages" not in path


def _written(value: Any) -> bool:
    """Whether a method stands in a class's text: those that `dataclass` makes follow from its fields."""
    code = getattr(value.fget if isinstance(value, property) else value, "__code__", None)
    return code is not None and not code.co_filename.startswith("<")


def _names(code: types.CodeType) -> set[str]:
    """Global names that a function, or one inside it, may read."""
    inner = [_names(c) for c in code.co_consts if isinstance(c, types.CodeType)]
    return set(code.co_names).union(*inner)
