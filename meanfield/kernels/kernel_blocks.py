"""A kernel in blocks: over threads or any executor, into arrays or files, with a journal of what is done.

A block is a pure function of the network and of its two ranges of rows, which depend on the number of inputs alone: any
split of the work gives the same bits, and a block may be computed twice. Blocks of one row of blocks are computed one
after the other, so that no more than a few are in memory.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.budgets import counted
from meanfield.base.errors import MeanFieldError
from meanfield.kernels.pairs import BLURRED, OPPOSITE, READ, WORST, block_of, side_of
from meanfield.kernels.sides import Side
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

ROWS = 512  # inputs of a block
SEVERAL = 8  # blocks in each direction, at most, that one task of a product takes
Bounds = tuple[float, float, float, float, float]  # of bounds, by a block: WORST, OPPOSITE, BLURRED, READ
NOTHING = (0.0, 0.0, 0.0, 0.0, 0.0)
KEPT = 2e8  # bytes of what inputs bring that are kept for further blocks
_sides_lock = Lock()


@dataclass(eq=False)
class Work:
    """A kernel to be computed: the network, rows X, rows Y (None: X itself), quantities, and how numbers are kept."""

    network: TheoryAtNumbers
    X: np.ndarray
    Y: np.ndarray | None
    quantities: tuple[str, ...]
    dtype: np.dtype

    def __post_init__(self) -> None:
        self._sides: dict[tuple[bool, int], Side] = {}
        self._kept = 0

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.X), len(self.X if self.Y is None else self.Y)

    def tasks(self) -> list[tuple[int, int]]:
        """The first row and the first column of every block; of a kernel of X with itself those on and above the
        diagonal."""
        n, m = self.shape
        return [(a, b) for a in range(0, n, ROWS) for b in range(a if self.Y is None else 0, m, ROWS)]

    def side(self, right: bool, at: int) -> Side:
        """What the inputs of one side of a block bring, kept as long as there is room."""
        right = right and self.Y is not None
        found = self._sides.get((right, at))
        if found is None:
            given = self.Y if right else self.X
            assert given is not None
            found = side_of(self.network, given[at : at + ROWS])
            with _sides_lock:
                if self._kept + found.size <= KEPT:
                    self._sides[right, at] = found
                    self._kept += found.size
        return found

    def compute(self, task: tuple[int, int]) -> dict[str, np.ndarray]:
        """One block."""
        left = self.side(False, task[0])
        same = self.Y is None and task[0] == task[1]
        right = left if same else self.side(True, task[1])
        found = block_of(self.network, left, right, same, "distance" in self.quantities)
        own = (left.last, right.last)
        out = {n: _narrowed(n, found[n], [s[n] for s in own if n in s], self.dtype) for n in self.quantities}
        return out | {n: found[n] for n in (WORST, OPPOSITE, BLURRED, READ)}

    kept = "the same call can be made again, and goes on from the blocks that are in out=, if it names files"

    def apart(self, task: tuple[int, int], side: int | None = None) -> Work:
        """One block (or a square of `side` rows) as work of its own, to be sent away."""
        a, b = (slice(at, at + (side or ROWS)) for at in task)
        same = self.Y is None and task[0] == task[1]
        other = None if same else (self.X if self.Y is None else self.Y)[b]
        return Work(self.network, self.X[a], other, self.quantities, self.dtype)

    def __reduce__(self):
        return Work, (self.network, self.X, self.Y, self.quantities, self.dtype)

    @property
    def key(self) -> str:
        """A hash of all that decides the numbers."""
        digest = hashlib.sha256()
        network = self.network
        what = (network.described, network.values, network.depth, self.quantities, self.dtype.str, ROWS)
        digest.update(repr(what).encode())
        for given in (self.X, self.Y):
            digest.update(b"-" if given is None else np.ascontiguousarray(given).tobytes())
        return digest.hexdigest()


def _narrowed(name: str, values: np.ndarray, sizes: list[np.ndarray], dtype: np.dtype) -> np.ndarray:
    """Values in the type that was asked for. sizes: what their errors are relative to, if not they themselves.

    Raises: MeanFieldError where the type does not hold them.
    """
    if values.dtype == dtype:
        return values
    held, both = np.finfo(dtype), np.abs(np.concatenate([s.ravel() for s in sizes or [values]]))
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0.0))
    least = float(both[both > 0.0].min(initial=math.inf))
    if largest > float(held.max) or least < float(held.tiny):
        beyond = largest if largest > float(held.max) else least
        raise MeanFieldError(
            f"{name} in {dtype.name} is not available: it holds {float(held.tiny):.1e} to {float(held.max):.1e}, and "
            f'{beyond:.1e} occurs; ask for dtype="float64".'
        )
    return values.astype(dtype)


def elsewhere(work: Work | BlockProducts, parent: int) -> dict[str, np.ndarray]:
    """A block in another process (or thread of the one that asks, `parent`): all of it."""
    if os.getpid() == parent:
        return work.compute((0, 0))
    with threadpool_limits(limits=1, user_api="blas"):
        return work.compute((0, 0))


def blocks(
    work: Work | BlockProducts,
    tasks: list[tuple[int, int]],
    threads: int,
    executor: Executor | None = None,
) -> Iterator[tuple[tuple[int, int], dict[str, np.ndarray]]]:
    """(task, block) of all tasks as they are done; no more are under way than two for each worker."""
    if executor is None and min(threads, len(tasks)) <= 1:
        yield from ((task, work.compute(task)) for task in tasks)
        return
    from concurrent.futures import (  # not needed above: logging comes with them
        FIRST_COMPLETED,
        ThreadPoolExecutor,
        wait,
    )

    with ExitStack() as stack:
        pool = executor or stack.enter_context(ThreadPoolExecutor(min(threads, max(1, len(tasks)))))
        ahead = 2 * (threads if executor is None else max(threads, getattr(executor, "_max_workers", 8)))
        waiting: dict[Future, tuple[int, int]] = {}
        rest, compute = iter(tasks), counted(work.compute)
        try:
            while True:
                for task in rest:
                    if executor is None:
                        waiting[pool.submit(compute, task)] = task
                    else:
                        waiting[pool.submit(elsewhere, work.apart(task), os.getpid())] = task
                    if len(waiting) >= ahead:
                        break
                if not waiting:
                    return
                for future in wait(waiting, return_when=FIRST_COMPLETED).done:
                    task = waiting.pop(future)
                    yield task, future.result()
        except BaseException as error:
            for future in waiting:
                future.cancel()
            lost = type(error).__name__ in ("BrokenProcessPool", "BrokenThreadPool", "BrokenExecutor", "KilledWorker")
            if lost:
                raise MeanFieldError(
                    "A worker of the executor died (a script that spawns processes must guard its main part with "
                    f"if __name__ == '__main__'); {work.kept}."
                ) from error
            raise


class Journal:
    """Which blocks are in the files, in a small file beside the first of them."""

    def __init__(self, target: Path, work: Work) -> None:
        self.path = target.with_name(target.name + ".blocks")
        self.key, self.done, self.bounds = work.key, set[tuple[int, int]](), NOTHING
        if self.path.exists():
            text = self.path.read_text()
            lines = text.splitlines()
            if not lines or lines[0] != self.key:
                raise MeanFieldError(
                    f"{target} was begun by another call (other inputs, settings or quantities); remove it and "
                    f"{self.path.name}, or name another file."
                )
            # a line that was cut off by a kill is a block that is not done
            whole = [line.split(" ") for line in lines[1:] if line.endswith(".")]
            whole = [line for line in whole if len(line) == 2 + len(NOTHING)]
            self.done = {(int(line[0]), int(line[1])) for line in whole}
            for line in whole:
                a, b, c, d, e = (float(number) for number in (*line[2:-1], line[-1][:-1]))
                self.bounds = larger(self.bounds, (a, b, c, d, e))
            if not text.endswith("\n"):
                with self.path.open("a") as file:
                    file.write("\n")
        else:
            self.path.write_text(self.key + "\n")

    def add(self, task: tuple[int, int], bounds: Bounds) -> None:
        """A block is in the files, and what it says of bounds."""
        self.done.add(task)
        self.bounds = larger(self.bounds, bounds)
        with self.path.open("a") as file:
            file.write(f"{task[0]} {task[1]} {' '.join(map(repr, bounds))}.\n")


def bounds_of(block: dict[str, np.ndarray]) -> Bounds:
    """What a block says of bounds: WORST, OPPOSITE, BLURRED and READ."""
    distances, K = (float(one) for one in block[BLURRED])
    return float(block[WORST]), float(block[OPPOSITE]), distances, K, float(block[READ])


def larger(one: Bounds, other: Bounds) -> Bounds:
    """What two blocks say of bounds."""
    a, b, c, d, e = map(max, one, other)
    return a, b, c, d, e


def put(work: Work, task: tuple[int, int], block: np.ndarray, target: Any) -> None:
    """A block where it belongs, and what it mirrors."""
    a, b = task
    n, m = block.shape
    target[a : a + n, b : b + m] = block
    if work.Y is None and a != b:
        target[b : b + m, a : a + n] = block.T


def fill(
    work: Work,
    targets: dict[str, Any],
    threads: int,
    executor: Executor | None = None,
    journal: Journal | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Bounds:
    """All blocks into arrays; progress(done, all) is told after each. Returns the largest of what blocks say."""
    tasks = work.tasks()
    left = [t for t in tasks if journal is None or t not in journal.done]
    done, bounds = len(tasks) - len(left), journal.bounds if journal is not None else NOTHING
    for task, block in blocks(work, left, threads, executor):
        for name, target in targets.items():
            put(work, task, block[name], target)
        bounds = larger(bounds, bounds_of(block))
        if journal is not None:
            journal.add(task, bounds_of(block))
        done += 1
        if progress is not None:
            progress(done, len(tasks))
    for target in targets.values():
        if hasattr(target, "flush"):
            target.flush()
    return bounds


@dataclass(eq=False)
class BlockProducts:
    """Products with the columns of v, (m, k): those of several blocks, a square of `side` rows and columns, are one
    task, so that what is sent to a worker and comes back is small beside its work.

    turned: the columns that the transpose of a block off the diagonal is multiplied with, None for a kernel of X with
    other rows, which has no mirror image.
    """

    work: Work
    v: np.ndarray
    v_left: np.ndarray | None
    side: int

    kept = "the same call can be made again"

    def tasks(self) -> list[tuple[int, int]]:
        """The first row and the first column of every square."""
        (n, m), step = self.work.shape, self.side
        return [(a, b) for a in range(0, n, step) for b in range(a if self.work.Y is None else 0, m, step)]

    def compute(self, task: tuple[int, int]) -> dict[str, np.ndarray]:
        """What one square adds to the rows of its left side (and, mirrored, to those of its right side)."""
        (a0, b0), (n, m) = task, self.work.shape
        (name,) = self.work.quantities
        left = np.zeros((min(self.side, n - a0), self.v.shape[1]))
        right = np.zeros((min(self.side, m - b0), self.v.shape[1]))
        bounds = NOTHING
        for a in range(a0, min(a0 + self.side, n), ROWS):
            own = self.work.Y is None and a0 == b0  # a square on the diagonal: its upper triangle
            for b in range(a if own else b0, min(b0 + self.side, m), ROWS):
                block = self.work.compute((a, b))
                bounds = larger(bounds, bounds_of(block))
                rows, columns = block[name].shape
                left[a - a0 : a - a0 + rows] += block[name] @ self.v[b : b + columns]
                if self.v_left is not None and not (own and a == b):
                    right[b - b0 : b - b0 + columns] += block[name].T @ self.v_left[a : a + rows]
        return {"left": left, "right": right, "said": np.array(bounds)}

    def apart(self, task: tuple[int, int]) -> BlockProducts:
        """One square as work of its own, to be sent away."""
        a, b = (slice(at, at + self.side) for at in task)
        v_left = None if self.v_left is None else self.v_left[a]
        return BlockProducts(self.work.apart(task, self.side), self.v[b], v_left, self.side)


def product(work: Work, v: np.ndarray, threads: int, executor: Executor | None = None) -> tuple[np.ndarray, Bounds]:
    """(the kernel times the columns of v, without the kernel, the largest of what blocks say); squares of blocks, whose
    size follows from the number of rows alone, are added in one order."""
    out, bounds = np.zeros((work.shape[0], v.shape[1])), NOTHING
    several = max(1, min(SEVERAL, -(-max(work.shape) // ROWS) // 6))
    times = BlockProducts(work, v, v if work.Y is None else None, several * ROWS)
    parts: dict[tuple[int, int], dict[str, np.ndarray]] = {}
    order = times.tasks()
    ready = iter(order)
    expected = next(ready, None)
    with threadpool_limits(limits=1, user_api="blas"):  # blocks run side by side, and the bits are fixed
        for task, part in blocks(times, order, threads, executor):
            parts[task] = part
            while expected is not None and expected in parts:
                one, (a, b) = parts.pop(expected), expected
                out[a : a + len(one["left"])] += one["left"]
                if times.v_left is not None:
                    out[b : b + len(one["right"])] += one["right"]
                e, f, g, h, i = one["said"].tolist()
                bounds = larger(bounds, (e, f, g, h, i))
                expected = next(ready, None)
    return out, bounds
