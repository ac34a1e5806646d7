"""Kernels of a theory that an earlier process derived: its loops are found on disk, and SymPy is never loaded.

What is kept belongs to the arguments of `derive`, to the code of this package, and to the libraries' versions (the hash
of `cache`). It answers the calls whose every pair the loop over blocks answers; whatever else is asked, all that is
refused included, is left to the theory itself, which is derived then. The numbers are the same, bit by bit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from meanfield.arguments import names as names_of
from meanfield.arguments import printable
from meanfield.errors import MeanFieldError
from meanfield.kernels.blocks import Work
from meanfield.kernels.cells import Cells, NotKept
from meanfield.kernels.data import inputs
from meanfield.kernels.loops import Loop
from meanfield.kernels.matrices import Kernels, computed, workers
from meanfield.kernels.numbers import JUMPS, QUANTITIES, Numbers, Side, sample
from meanfield.numeric.lowering import cache
from meanfield.numeric.lowering.modules import Module
from meanfield.numeric.lowering.storage import replace, sealed, unsealed

FORMAT = 1
PLAIN = (str, int, float, bool, type(None))  # arguments of `derive` that say all in their repr
_parallel = Lock()  # one compiled region at a time


def request(arguments: dict[str, Any]) -> str | None:
    """The arguments of `derive` as text, where that says all about them."""
    if any(type(v) not in PLAIN or not printable(v) for v in arguments.values()):
        return None
    return repr(sorted(arguments.items()))


def file_of(asked: str) -> Path:
    """Where the kernels of a request are kept."""
    return cache.folder() / f"{cache.key(f'kernels {FORMAT} {asked}')}.json"


def read(file: Path) -> dict[str, Any]:
    """What is kept: {} of nothing, and of a file that is not whole."""
    try:
        data = unsealed(file.read_bytes())
    except OSError:
        return {}
    return {} if data is None else json.loads(data)


def write(file: Path, what: dict[str, Any]) -> None:
    replace(file, lambda f: f.write(sealed(json.dumps(what).encode())))


@dataclass(frozen=True, eq=False)
class Known(Loop):
    """A loop, and where the cells of its expansions are kept: the arguments of `Cells`, None of those it does not ask
    for."""

    kept_cells: tuple[Any, ...]

    def cells(self, expansion: int) -> Cells:
        return _cells(*self.kept_cells[expansion])


@dataclass(frozen=True, eq=False)
class Recalled(Numbers):
    """A theory with numbers, from what is kept of it."""

    kept: dict[str, Any]

    @property
    def described(self) -> str:
        return self.kept["described"]

    @cached_property
    def begin(self) -> tuple[float, float]:
        code = _formula(self.kept["begin"])
        known = {n: float(v[0]) for n, v in self.given.items()}
        shift, whole = (float(eval(code, {"__builtins__": {}}, known | {"Q0": q})) for q in (0.0, 1.0))
        return whole - shift, shift

    @cached_property
    def block(self) -> Known:
        own = self.kept["loop"]
        _whole(own["name"])
        lists = {k: tuple(map(tuple, own[k])) for k in ("groups", "boxes")}
        lists |= {k: tuple(own[k]) for k in ("state", "parameters", "variances", "kept_cells")}
        return Known(**own | lists)

    @property
    def keeps_distances(self) -> bool:
        return self.kept["keeps_distances"]

    @property
    def mirrors(self) -> bool:
        return self.block.least >= 0  # opposite inputs are left to the theory, which knows whether φ is odd

    @property
    def error(self) -> float:
        return self.kept["error"]

    def alone(self, K: np.ndarray) -> dict[str, np.ndarray]:
        return self._last("both" if self.theta else "K", K)

    def growth(self, X: np.ndarray) -> float:
        if self.kept["both"] is None:
            return JUMPS * self.depth
        found = self._last("both", sample(self, X))
        with np.errstate(all="ignore"):
            return float(np.nanmax(found["Theta"] / found["K"], initial=1.0))

    def _last(self, which: str, K: np.ndarray) -> dict[str, np.ndarray]:
        """The state of single inputs at the last layer, which starts at K."""
        own = self.kept[which]
        sigma = self.rows(tuple(own["parameters"]), K.size)
        once = self.constant
        with _parallel:
            out, diverged = _module(own["name"]).follow(
                np.stack([K] * len(own["state"]), axis=1), sigma[..., :1] if once else sigma, (), 1, self.depth,
                once and own["repeats"], False,
            )  # fmt: skip
        if diverged.any() or np.isnan(out).any():  # as behind a LayerNorm of neurons that are all 0
            raise NotKept
        return {n: np.ascontiguousarray(out[:, 0, i]) for i, n in enumerate(own["state"])}

    def brought(self, loop: Loop, K: np.ndarray) -> np.ndarray:
        own = self.kept["inputs"]
        start = np.zeros((K.size, 1 + loop.beside))
        start[:, 0] = K
        sigma = self.rows(tuple(own["parameters"]), K.size)
        with _parallel:
            out, diverged = _module(own["name"]).follow(start, sigma, (), 1, self.depth, False, True)
        if diverged.any() or np.isnan(out[:, :, : 1 + loop.beside]).any():
            raise NotKept
        return np.ascontiguousarray(out.transpose(2, 1, 0))

    def refuse_zero(self, K: np.ndarray) -> None:
        if self.block.least >= 0 and (K == 0).any():  # the theory knows where φ jumps
            raise NotKept

    def one_by_one(self, left: Side, right: Side, where, line: tuple[float, float], found: dict) -> tuple[float, float]:
        raise NotKept


@lru_cache(maxsize=256)
def _module(name: str) -> Module:
    stored = cache.read(name)
    if stored is None:
        raise NotKept
    return Module.of(name, *stored)


@lru_cache(maxsize=256)
def _whole(name: str) -> None:
    """Refuse a loop whose text is not there: it may have to be compiled."""
    if cache.read(name) is None:
        raise NotKept


@lru_cache(maxsize=64)
def _cells(name: str, first: int, step: int, at_zero: float) -> Cells:
    found = Cells(name, first, step, at_zero)
    found.recall()
    return found


@lru_cache(maxsize=64)
def _formula(text: str):
    return compile(text, "<the start of K>", "eval")


def kernel(
    asked: str, /, X, Y=None, *, sigma_w, sigma_b, depth, quantities=QUANTITIES, dtype="float64", out=None,
    threads=None, executor=None, progress=None, **parameters,
) -> Kernels | None:  # fmt: skip
    """`Theory.kernel` of what is kept of a request, or None where the theory itself has to answer."""
    usual = (
        out is executor is progress is None and isinstance(dtype, str | np.dtype) and dtype in ("float64", "float32")
    )
    if not usual or type(depth) is not int or not 2 <= depth <= 10**6:
        return None
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b, **parameters}
    if any(type(v) not in (int, float, np.float64) or not -1e150 < v < 1e150 for v in given.values()):
        return None
    try:
        names = names_of(quantities, "quantities")
        if not set(names) <= set(QUANTITIES):
            return None
        theta = "Theta" in names
        kept = read(file_of(asked)).get("Theta" if theta else "K")
        if kept is None or given.keys() != kept["ends"].keys():
            return None
        if any(not low <= given[n] <= high for n, (low, high) in kept["ends"].items()):
            return None
        rows = inputs(X, "X")
        other = None if Y is None else inputs(Y, "Y", rows.shape[1])
        numbers = Recalled(tuple((n, float(v)) for n, v in given.items()), depth, theta, kept)
        with np.errstate(all="ignore"):
            return computed(Work(numbers, rows, other, names, np.dtype(dtype)), None, workers(threads))
    except (MeanFieldError, NotKept):
        return None
