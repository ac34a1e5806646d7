"""Matrices of K, Theta and distances of a data set: whole, in files, or as products."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.drawing import plot_matrix
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.arguments import path, shown, whole
from meanfield.base.budgets import require_memory
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.kernels.kernel_blocks import Journal, Work, bounds_of, fill, product
from meanfield.kernels.loops.pair_loops import LEAST
from meanfield.kernels.pairs import BLURRED, OPPOSITE, READ, WORST, side_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

CORNER = 5  # rows and columns of a matrix that are printed
FLOAT32 = 2.0**-24
FOLLOWED = 1e-12  # what a distance that is followed by itself loses in a layer


@dataclass(frozen=True, eq=False, repr=False)
class Kernels(Numbers):
    """Kernels of a data set at the last layer: arrays `K`, `Theta`, `distance`, those that were asked for.

    values: the arrays by name (memory maps where files were named); error: bounds by name, of K over √(K_aa K_bb), of
    Theta over √(Theta_aa Theta_bb), of the distance over itself (inf behind a LayerNorm on activations, and of close
    inputs where φ jumps off 0 or has a branch point: there it is a difference of covariances); depth: the layer;
    parameters: σ's and further numbers.

    >>> kernel = derive("erf").kernel([[1.0, 0], [0, 1]], sigma_w=1, sigma_b=0, depth=2)
    >>> kernel.K.round(6)
    array([[0.333333, 0.      ],
           [0.      , 0.333333]])
    >>> kernel.error["K"] < 1e-12
    True
    """

    values: dict[str, Any]
    error: dict[str, float]
    depth: int
    parameters: dict[str, Any] = field(default_factory=dict)

    def data(self) -> dict[str, Any]:
        """The matrices as lists, with the bounds of their error, the layer and the parameters."""
        return {n: plain(getattr(self, n)) for n in ("depth", "parameters", "error", "values")}

    def arrays(self) -> Arrays:
        """The matrices over the rows of X ("a") and of Y ("b"), and the bound of the error of each ("K_error", …)."""
        n, m = next(iter(self.values.values())).shape
        coords = {"a": (("a",), np.arange(n)), "b": (("b",), np.arange(m))}
        single = {n: float(v) for n, v in self.parameters.items() if np.size(v) == 1}
        columns = {name: (("a", "b"), np.asarray(v)) for name, v in self.values.items()}
        bounds = {f"{name}_error": float(bound) for name, bound in self.error.items()}
        return Arrays(coords, columns, {"depth": self.depth, **single, **bounds})

    def plot(self, quantity: str | None = None, ax: Any = None) -> Any:
        """A matrix as colours, the first of them unless named; returns the Axes."""
        name = next(iter(self.values)) if quantity is None else quantity
        return plot_matrix(self[name], name, ax)

    def __str__(self) -> str:
        shown = []
        for name, matrix in self.values.items():
            bound = "no bound of the error" if self.error[name] == math.inf else f"error {self.error[name]:.1e}"
            over = "itself" if name == "distance" else f"sqrt({name}_aa {name}_bb)"
            rows, columns = (min(k, CORNER) for k in matrix.shape)
            corner = "" if matrix.shape == (rows, columns) else f", the first {rows} × {columns} of {matrix.shape}"
            shown.append(f"{name} at layer {self.depth}{corner} ({bound}, relative to {over})")
            shown += ["".join(f"{x:>15.8g}" for x in row) for row in np.asarray(matrix[:rows, :columns])]
        return "\n".join(shown)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        if not values:
            raise AttributeError(name)
        raise self._absent(name, values)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, next(iter(self.values.values())).shape))
        loose = [n for n, e in self.error.items() if e == math.inf]
        unbounded = f"; no bound of {', '.join(loose)}" if loose else ""
        return one_line("Kernels", f"{', '.join(self.values)}; {shape}; layer {self.depth}{unbounded}")


class KernelOperator:
    """One kernel of a data set as a linear map: products K @ v and the diagonal, the matrix itself never stored.

    shape, dtype, `matvec`, `matmat`, `@` and `diagonal()` are those of SciPy's linear operators
    (`scipy.sparse.linalg.aslinearoperator` takes it). Each product computes the kernel once more, in blocks; `error`
    bounds the entries, as that of `Kernels`.

    >>> operator = derive("erf").kernel_operator([[1.0, 0], [0, 1]], sigma_w=1, sigma_b=0, depth=2)
    >>> operator.shape, (operator @ [1.0, 0.0]).round(6)
    ((2, 2), array([0.333333, 0.      ]))
    """

    def __init__(self, work: Work, threads: int, executor: Executor | None, error: float) -> None:
        self._work, self._threads, self._executor, self.error = work, threads, executor, error
        self._least = error  # before any block has said what it misses
        self.shape, self.dtype = work.shape, np.dtype(np.float64)

    @property
    def key(self) -> str:
        """A hash of all that decides the numbers: inputs, network, layer and quantity."""
        return self._work.key

    def matmat(self, v) -> np.ndarray:
        """K v for the columns of v, (m, k)."""
        v = _numbers(v)
        if v.ndim != 2 or v.shape[0] != self.shape[1]:
            raise MeanFieldError(
                f"A product of a kernel of shape {self.shape} with an array of shape {v.shape} is not available: its "
                f"first axis must have {self.shape[1]} entries."
            )
        found, block_bounds = product(self._work, v, self._threads, self._executor)
        (name,) = self._work.quantities
        self.error = known(self._work, *block_bounds, {name: self._least})[name]
        return found

    def matvec(self, v) -> np.ndarray:
        """K v of one vector."""
        v = _numbers(v)
        found = self.matmat(v.reshape(-1, 1))
        return found[:, 0] if v.ndim == 1 else found

    def __matmul__(self, v) -> np.ndarray:
        return self.matvec(v) if np.ndim(v) == 1 else self.matmat(v)

    dot = __matmul__

    def diagonal(self) -> np.ndarray:
        """Values of each input with itself (of X with itself)."""
        (name,) = self._work.quantities
        if name == "distance":
            return np.zeros(len(self._work.X))
        return side_of(self._work.network, self._work.X).last[name]

    def __repr__(self) -> str:
        return one_line("KernelOperator", f"{self._work.quantities[0]}; {self.shape[0]} × {self.shape[1]}")


def _numbers(v) -> np.ndarray:
    try:
        return np.asarray(v, dtype=float)
    except (TypeError, ValueError):
        raise MeanFieldError(f"A kernel is multiplied with an array of numbers, but {shown(v)} was given.") from None


def computed(
    work: Work,
    out,
    threads: int,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Kernels:
    """The kernels of some work, where out= says."""
    error = bounds(work)
    targets, journal = _targets(work, out)
    prepare(work)
    if out is executor is None and len(tasks := work.tasks()) == 1:  # the block is the kernel: nothing to copy
        targets = work.compute(tasks[0])
        block_bounds = bounds_of(targets)
        del targets[WORST], targets[OPPOSITE], targets[BLURRED], targets[READ]
        if progress is not None:
            progress(1, 1)
    else:
        block_bounds = fill(work, targets, threads, executor, journal, progress)
    error |= known(work, *block_bounds, error)
    return Kernels(targets, error, work.network.depth, dict(work.network.values))


def workers(threads) -> int:
    """The number of threads asked for, or of the cores that this process may use."""
    if threads is not None:
        return whole(threads, "threads", 1, 1 << 16)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare(work: Work) -> None:
    """What every block needs is compiled before threads start; what close pairs need, when the first is met."""
    network = work.network
    if network.depth > 1 and network.block is not None:
        _ = network.block.run


def bounds(work: Work) -> dict[str, float]:
    """Bounds of the relative error, to first order: what an average misses in one layer grows on as K and J do.

    Between layers l and L an error of K_ab^l grows by J_ab ≤ J^{l,L}, so that in all it is at most ε Σ K^l J^{l,L} ≤
    ε Θ^L; that of Theta_ab, a sum of L such terms, L times as much. A distance is a difference of covariances where it
    is at least 2·LEAST of them; of closer inputs it is followed by itself.
    """
    network = work.network
    K = _of_K(work)
    found: dict[str, float] = {"K": K, "Theta": K * network.depth}
    if "distance" in work.quantities:
        kept = network.depth == 1 or network.keeps_distances
        found["distance"] = K / (2 * LEAST) + FOLLOWED * network.depth if kept else math.inf
    rounding = FLOAT32 if work.dtype == np.float32 else 0.0
    return {n: float(found[n] + rounding) for n in work.quantities}


def _of_K(work: Work) -> float:
    network = work.network
    averages, grown = (network.error, _growth(work)) if network.depth > 1 else (0.0, 1.0)
    return averages * grown + 4 * np.finfo(float).eps * network.depth


def known(
    work: Work, worst: float, opposite: float, shares: float, blurred: float, read: float, error: dict[str, float]
) -> dict[str, float]:
    """The bounds once all blocks are there, by the largest of what they say (`pairs.WORST`, `OPPOSITE`, `BLURRED`,
    `READ`).

    Where the distance of close inputs could not be followed nothing bounds it, nor K (Theta, where that is followed)
    where averages are of functions that jump, which magnify what a covariance has lost. Of inputs that are nearly
    opposite 1 + c is known to a rounding of 1: functions that jump see its root, slopes of others move by K of it. What
    is missed of the share of directions in a distance, functions that jump keep. What tables near full correlation and
    averages of single pairs miss in a layer grows on as what other averages miss, and of a distance adds up.
    """
    network = work.network
    K = read * _growth(work) if read > 0.0 else 0.0
    more = {"K": K, "Theta": K * network.depth, "distance": read * network.depth}
    error = {n: float(e + more[n]) for n, e in error.items()}
    steady = network.block is not None and network.block.least < 0
    magnified = ("Theta",) if network.theta else () if steady else ("K",)
    if opposite > 0.0:
        rounded = 8 * np.finfo(float).eps
        off = network.depth * (min(math.sqrt(rounded), rounded * max(1.0, opposite)) if steady else math.sqrt(rounded))
        error = error | {n: float(error[n] + off) for n in magnified if n in work.quantities}
    if worst < math.inf:
        if "distance" not in work.quantities or not error["distance"] < math.inf:
            return _blurred(error, shares, blurred)
        rounding = FLOAT32 if work.dtype == np.float32 else 0.0
        own = _of_K(work) * max(worst, 1.0) + FOLLOWED * network.depth + rounding + more["distance"]
        error = error | {"distance": min(error["distance"], float(own))}
        return _blurred(error, shares, blurred)
    magnified = () if steady else magnified
    return error | dict.fromkeys((n for n in ("distance", *magnified) if n in work.quantities), math.inf)


def _blurred(error: dict[str, float], apart: float, blurred: float) -> dict[str, float]:
    return {n: float(e + (apart if n == "distance" else blurred)) for n, e in error.items()}


def _growth(work: Work) -> float:
    """The largest Θ/K at the last layer among inputs of the first block, which are computed in any case, or a few."""
    if not work.network.theta or work.network.theory.rate_names:
        return work.network.growth(work.X)
    last = work.side(False, 0).last
    with np.errstate(all="ignore"):
        return float(np.nanmax(last["Theta"] / last["K"], initial=1.0))


def _targets(work: Work, out) -> tuple[dict[str, Any], Journal | None]:
    """Where the numbers go: new arrays, arrays that were given, or files."""
    if out is None:
        n, m = work.shape
        require_memory(
            float(n) * m * len(work.quantities) * work.dtype.itemsize,
            f"{' and '.join(work.quantities)} of {n} × {m} inputs",
            "name files in out=, or ask kernel_operator for products",
        )
        return {name: np.empty(work.shape, dtype=work.dtype) for name in work.quantities}, None
    if not isinstance(out, dict):
        if len(work.quantities) != 1:
            raise MeanFieldError(
                f"out= is one array or file, but {len(work.quantities)} quantities are not available: give a mapping "
                "from "
                f"{', '.join(work.quantities)} to arrays or files, or ask for one quantity."
            )
        out = {work.quantities[0]: out}
    if set(out) != set(work.quantities):
        raise MeanFieldError(
            f"out= names {', '.join(map(str, out)) or 'nothing'}, and quantities are {', '.join(work.quantities)}; "
            "they must be the same."
        )
    files = [name for name, target in out.items() if isinstance(target, (str, os.PathLike))]
    if files and len(files) != len(out):
        raise MeanFieldError("out= holds files and arrays; give either files or arrays for all quantities.")
    if files:
        return _files(work, {name: out[name] for name in work.quantities})
    for name, target in out.items():
        shape = getattr(target, "shape", None)
        if shape != work.shape or not hasattr(target, "__setitem__"):
            raise MeanFieldError(
                f"out= of {name} must be an array of shape {work.shape}, but "
                + (f"its shape is {shape}." if shape is not None else f"{shown(target)} was given.")
            )
        if np.dtype(target.dtype) != work.dtype:
            raise MeanFieldError(
                f"out= of {name} holds {np.dtype(target.dtype).name}, and the kernel is {work.dtype.name}; give an "
                f"array of {work.dtype.name}, or dtype={np.dtype(target.dtype).name!r}."
            )
    return {name: out[name] for name in work.quantities}, None


def _files(work: Work, out: dict[str, Any]) -> tuple[dict[str, Any], Journal]:
    targets = {}
    for name, target in out.items():
        path(target, f"out= of {name}")
        targets[name] = Path(target)
        if not targets[name].parent.is_dir():
            raise MeanFieldError(f"out= names {target}, but there is no folder {targets[name].parent}.")
    first = next(iter(targets.values()))
    begun = first.with_name(first.name + ".blocks").exists()
    for file in targets.values():
        if file.exists() and not begun:
            raise MeanFieldError(f"out= names {file}, which exists and holds no begun kernel; remove it first.")
    journal = Journal(first, work)
    arrays: dict[str, Any] = {}
    for name, file in targets.items():
        there = file.exists()
        if not there:
            journal.done.clear()
        arrays[name] = np.lib.format.open_memmap(
            file, mode="r+" if there else "w+", dtype=None if there else work.dtype, shape=None if there else work.shape
        )
        if arrays[name].shape != work.shape or arrays[name].dtype != work.dtype:
            raise MeanFieldError(
                f"{file} holds an array of shape {arrays[name].shape}, and the kernel has {work.shape}; remove it."
            )
    return arrays, journal
