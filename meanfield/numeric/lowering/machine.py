"""Compiled loops as object code of this machine, kept in the cache and run without Numba.

A `Function` is a Numba function of numbers and contiguous arrays that allocates nothing. What Numba makes of it is
stored as an object file (`emission`); another process hands that to LLVM's linker and calls it, and neither Numba nor
its compiler is imported, which would take ten times as long. A file says for which CPU and by which versions it was
made, and its own hash; whatever does not fit is compiled anew. What cannot be stored (a function that allocates, an
environment that gives Numba orders) is run by Numba as it is: the answer is the same.

The arguments go as one row of 8-byte fields in memory, so no platform's calling convention matters. Calls release the
interpreter's lock, as those of `nogil` functions do.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from meanfield.numeric.lowering import storage
from meanfield.numeric.lowering.emission import ENTRY, Code, emitted, target_machine
from meanfield.numeric.lowering.storage import folder, replace

FORMAT = 1  # of a stored file
#: variables that tell Numba what code to make: where one is set, its own function is what was asked for
_SWITCHES = "BOUNDSCHECK CPU_FEATURES CPU_NAME DEBUGINFO DISABLE_JIT ENABLE_AVX LOOP_VECTORIZE OPT SLP_VECTORIZE"
ORDERS = tuple(f"NUMBA_{name}" for name in _SWITCHES.split())


class Function:
    """A compiled function of numbers and arrays.

    name: key of what is computed and by which code, for file names; entry: the function's name; signature: a code for
    each argument, "i8", "f8" and "b1" for numbers, "f8[:]", "i8[:, :]", … for C-contiguous arrays of that type and
    number of axes, (code, n) for a tuple of n such; made(): the Numba function, which is asked for only if
    nothing is stored; result: what it returns, None or "f8".

    It may be called by several threads at once. Raises: TypeError for an argument that is not what the signature says,
    because compiled code would take it for something else.
    """

    def __init__(
        self, name: str, entry: str, signature: tuple[Code, ...], made: Callable[[], Any], result: str | None = None
    ) -> None:
        self.name, self.entry, self.signature, self.result, self.made = name, entry, signature, result, made
        self._arguments = [_argument(code) for code in signature]
        self._fields = struct.Struct("=" + "".join(a.fields for a in self._arguments) + "qq")  # + result, error
        self._lock = Lock()
        self._run: Callable[..., Any] | None = None
        self._native: Callable[[Any], int] | None = None

    def __call__(self, *arguments: Any) -> Any:
        fields = self._values(arguments)
        if self._run is None:
            self._prepare()
        assert self._run is not None
        return self._run(fields, arguments)

    @cached_property
    def path(self) -> Path:
        """Where the object code for this machine is stored."""
        own = hashlib.sha256(f"{self.signature} {self.result} {machine()}".encode()).hexdigest()[:12]
        return folder() / f"{self.name}-{self.entry}-{own}.o"

    @cached_property
    def in_numba(self) -> Any:
        """Numba's function."""
        return self.made()

    @property
    def stands_alone(self) -> bool:
        """Whether object code runs, not Numba's function; known after the first call."""
        return self._run == self._by_object

    def _prepare(self) -> None:
        with self._lock:
            if self._run is None:
                self._native = self._object()
                self._run = self._by_numba if self._native is None else self._by_object

    def _object(self) -> Callable[[Any], int] | None:
        """The entry of the object code, which is stored or made now; None where there can be none."""
        if machine() is None or any(os.environ.get(name) for name in ORDERS):
            return None
        code = self._stored()
        if code is None:
            # that a function cannot stand alone is stored as well: to find out takes as long as to compile it
            code = emitted(self.in_numba, self.signature, self.result) or (b"", [])
            with suppress(OSError):  # a full disk: the next process compiles, too
                replace(self.path, lambda f: f.write(sealed(*code, self._says)))
        return linked(*code) if code[0] else None

    def _stored(self) -> tuple[bytes, list[str]] | None:
        try:
            return opened(self.path.read_bytes(), self._says)
        except (OSError, ValueError):
            return None

    @property
    def _says(self) -> dict[str, Any]:
        """What the stored file must say of itself."""
        return {"format": FORMAT, "name": self.name, "entry": self.entry, "machine": machine()}

    def _values(self, arguments: tuple) -> list:
        if len(arguments) != len(self.signature):
            raise TypeError(f"{self.entry} takes {len(self.signature)} arguments, {len(arguments)} were given.")
        out: list = []
        for i, (one, value) in enumerate(zip(self._arguments, arguments)):
            if one.is_array:
                arrays = (value,) if one.count is None else value
                right = one.count is None or (isinstance(value, tuple) and len(value) == one.count)
                for a in arrays if right else ():
                    right = isinstance(a, np.ndarray) and a.dtype == one.dtype and a.ndim == one.axes
                    if not right:
                        break
                    flags = a.flags
                    if not (flags.c_contiguous and flags.aligned):
                        right = False
                        break
                    out += (0, 0, a.size, a.itemsize, _place(a), *a.shape, *a.strides)
            elif one.count is None:
                right = one.takes(value)
                out.append(bool(value) if one.is_bit else value)
            else:
                right = isinstance(value, tuple) and len(value) == one.count and all(map(one.takes, value))
                out += value if right else ()
            if not right:
                raise TypeError(
                    f"Argument {i + 1} of {self.entry} is to be {_named(self.signature[i])}; {_described(value)} was "
                    "given."
                )
        return out

    def _by_numba(self, fields: list, arguments: tuple) -> Any:
        return self.in_numba(*arguments)

    def _by_object(self, fields: list, arguments: tuple) -> Any:
        memory = ctypes.create_string_buffer(self._fields.size)
        self._fields.pack_into(memory, 0, *fields, 0, 0)
        assert self._native is not None
        if self._native(memory) != 0:  # an exception, which Numba's function raises again, in words
            return self.in_numba(*arguments)
        return None if self.result is None else struct.unpack_from("=d", memory, self._fields.size - 16)[0]


def loop(*signature: Code, result: str | None = None, **options: Any) -> Callable[[Callable], Function]:
    """Decorator: a `Function` of a Python function, with Numba's options; its name is the hash of the file it is in,
    which therefore holds all that it calls."""

    def decorated(function: Callable) -> Function:
        def made() -> Any:
            from numba import njit

            return njit(cache=True, nogil=True, **options)(function)

        path = Path(function.__code__.co_filename)
        return Function(f"{path.stem}_{_digest(path)}", function.__name__, signature, made, result)

    return decorated


@lru_cache(maxsize=64)
def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:24]


class _Argument:
    """One argument: its fields, and which values may become them."""

    def __init__(self, code: Code) -> None:
        one, count = (code, None) if isinstance(code, str) else code
        self.count: int | None = count
        kind, _, axes = one.partition("[")
        self.is_array, self.is_bit = bool(axes), kind == "b1"
        self.dtype, self.axes = np.dtype("?" if self.is_bit else kind), axes.count(":")
        # an array: its owner, twice (none), number and size of items, place, shape, strides
        fields = "qqqqq" + "qq" * self.axes if axes else "d" if kind == "f8" else "q"
        self.fields = fields * (1 if self.count is None else self.count)
        whole = (int, np.integer)
        self.kinds = (bool, np.bool_) if self.is_bit else whole if kind == "i8" else (*whole, float, np.floating)

    def takes(self, value: Any) -> bool:
        """Whether a number is what it has to be."""
        return isinstance(value, self.kinds) and isinstance(value, bool | np.bool_) == self.is_bit


_NOTHING = ctypes.c_char * 0


def _place(a: np.ndarray) -> int:
    """Where an array's items begin."""
    try:
        return ctypes.addressof(_NOTHING.from_buffer(a))  # type: ignore[arg-type]  # asking the array takes five times as long
    except (TypeError, ValueError, BufferError):  # of one that is not to be written, or not contiguous
        return a.ctypes.data


@lru_cache(maxsize=256)
def _argument(code: Code) -> _Argument:
    return _Argument(code)


def _named(code: Code) -> str:
    if not isinstance(code, str):
        return f"a tuple of {code[1]} {code[0]}"
    return f"a contiguous array {code}" if "[" in code else f"a number {code}"


def _described(value: Any) -> str:
    if isinstance(value, np.ndarray):
        how = "" if value.flags.c_contiguous else ", not contiguous,"
        return f"an array {value.dtype.str[1:]} with {value.ndim} axes{how}"
    return f"a {type(value).__name__}" + (f" of {len(value)}" if isinstance(value, tuple) else "")


def version(library: str) -> str:
    """What tells one version of an installed library from another: the hash of the file in which it says its own (to
    ask importlib.metadata takes as long as all else that a process does that finds its loops)."""
    spec = PathFinder.find_spec(library)
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(f"{library} is not installed.")
    file = Path(spec.submodule_search_locations[0]) / "_version.py"
    if file.exists():
        return _digest(file)
    from importlib import metadata

    return metadata.version(library)


@lru_cache(maxsize=1)
def machine() -> str | None:
    """What object code depends on beside its source: the CPU and its features, the libraries that made it; None where
    nothing can be loaded."""
    try:
        import llvmlite.binding as llvm

        cpu = f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {llvm.get_host_cpu_features().flatten()}"
        versions = " ".join(f"{name} {version(name)}" for name in ("llvmlite", "numba"))
    except (ImportError, OSError):
        return None
    return f"{cpu} {versions} {sys.byteorder} {struct.calcsize('P')}"


def sealed(code: bytes, needs: list[str], says: dict[str, Any]) -> bytes:
    """A stored file: a hash of the rest, a line of JSON, object code."""
    return storage.sealed(json.dumps(says | {"needs": needs}).encode() + b"\n" + code)


def opened(data: bytes, says: dict[str, Any]) -> tuple[bytes, list[str]] | None:
    """(code, symbols that it needs) of a stored file that is whole and says what it has to."""
    rest = storage.unsealed(data)
    if rest is None:
        return None
    head, _, code = rest.partition(b"\n")
    found = json.loads(head)
    needs = found.pop("needs", None)
    return (code, needs) if found == says and isinstance(needs, list) else None


_engines: list[Any] = []  # what is called must not be freed


def linked(code: bytes, needs: list[str]) -> Callable[[Any], int] | None:
    """The entry of object code in this process; None if a symbol that it needs is not here."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), target_machine(llvm))
    if any(not llvm.address_of_symbol(name) for name in needs):
        return None
    engine.add_object_file(llvm.ObjectFileRef.from_data(code))
    engine.finalize_object()
    _engines.append(engine)
    return ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(engine.get_function_address(ENTRY))
