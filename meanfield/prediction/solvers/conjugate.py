"""Preconditioned conjugate gradients for several right-hand sides, each by itself: one product serves all of them.

The conventions are those of `scipy.sparse.linalg.cg`: rtol bounds the norm of what is left over that of the right-hand
side, maxiter the iterations. What is left is computed anew at the end, and iterations go on from there as long as that
brings it down. In exact arithmetic the norm of the error that bounds predictions, ‖(Θ + ρ)^(1/2) (α - α_k)‖, falls with
every iteration: the last iterate is the best.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.base.storage.checkpoints import SECONDS_BETWEEN_CHECKPOINTS, Checkpoint

Map = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Answer:
    """X of A X = B: x; left, what is left of B - A X; iterations; residual: ‖left‖/‖B‖ of each column; message: what is
    to be said, "" of what has converged."""

    x: np.ndarray
    left: np.ndarray
    iterations: int
    residual: np.ndarray
    message: str


def norms(v: np.ndarray) -> np.ndarray:
    """Of the columns."""
    return np.sqrt(np.einsum("ac,ac->c", v, v))


class _State:
    """x, what is left r, the direction p and r·z of every column; which of them have come to nothing; how often
    iterations began anew, and what was left when they last did."""

    NAMES = ("x", "r", "p", "rz", "stopped", "iteration", "restarts", "before")

    def __init__(self, B: np.ndarray, precondition: Map) -> None:
        self.x, self.stopped = np.zeros_like(B), np.zeros(B.shape[1], dtype=bool)
        self.iteration, self.restarts, self.before = 0, 0, np.inf
        self.whole = True  # an interrupt may come between two of the arrays
        self.begin(B.copy(), precondition)

    def begin(self, r: np.ndarray, precondition: Map) -> None:
        """Iterations from what is left of the right-hand side."""
        self.whole = False
        self.r, self.p = r, np.array(precondition(r))  # r itself, where nothing preconditions
        self.rz = np.einsum("ac,ac->c", self.r, self.p)
        self.whole = True

    def arrays(self) -> dict[str, np.ndarray]:
        """What a checkpoint holds."""
        return {name: np.asarray(getattr(self, name)) for name in self.NAMES}

    def resume(self, arrays: dict[str, np.ndarray]) -> None:
        """From what a checkpoint holds."""
        for name in self.NAMES:
            setattr(self, name, arrays[name] if arrays[name].ndim else arrays[name].item())

    def step(self, times: Map, precondition: Map, which: np.ndarray) -> None:
        """One iteration of some columns; nothing changes before the product is there."""
        every = len(which) == self.x.shape[1]
        p = self.p if every else self.p[:, which]
        image = times(p)
        curved = np.einsum("ac,ac->c", p, image)
        fine = np.isfinite(curved) & (curved > 0)
        if not fine.all():  # no direction of a positive matrix, but one of rounding
            self.stopped[which[~fine]] = True
            which, p, image, curved = which[fine], p[:, fine], image[:, fine], curved[fine]
            every = False
        at = slice(None) if every else which
        far = self.rz[which] / curved
        self.whole = False
        self.x[:, at] += far * p
        self.r[:, at] -= far * image
        r = self.r[:, at]
        z = precondition(r)
        rz = np.einsum("ac,ac->c", r, z)
        self.p[:, at] = z + (rz / self.rz[which]) * p
        self.rz[which] = rz
        self.iteration += 1
        self.whole = True


def conjugate_gradients(
    times: Map, B: np.ndarray, precondition: Map, *, rtol: float, maxiter: int, file: Checkpoint | None = None,
    tell: Callable[[int, int], None] | None = None,
) -> Answer:  # fmt: skip
    """X of A X = B, (n, c), A by its products; file: where the state is kept, from which the same call goes on.

    Raises: MeanFieldError where a worker dies or the file cannot be written: what was done before is in the file.
    """
    size = np.maximum(norms(B), np.finfo(float).tiny)
    state = _State(B, precondition)
    if file is not None:
        if found := file.read():
            state.resume(found)
        else:
            file.write(state.arrays())  # a disk that is full is met before hours of work
    written = time.monotonic()
    try:
        while True:
            residual = norms(state.r) / size
            which = np.flatnonzero((residual > rtol) & ~state.stopped)
            if not which.size or state.iteration >= maxiter:
                left = B - times(state.x) if norms(state.x).any() else B.copy()
                residual = norms(left) / size
                worst, open_ = float(residual.max()), residual[~state.stopped] > rtol
                if not open_.any() or state.iteration >= maxiter or not worst < state.before / 2:
                    break
                state.restarts, state.before = state.restarts + 1, worst
                state.begin(left, precondition)
                continue
            state.step(times, precondition, which)
            if tell is not None:
                tell(state.iteration, _expected(state.iteration, float(residual.max()), rtol, maxiter))
            if file is not None and time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS:
                file.write(state.arrays())
                written = time.monotonic()
    except MeanFieldError as error:
        raise MeanFieldError(f"{str(error).rstrip('.')}; {_kept(file, state)}.") from error
    except BaseException:  # an interrupt
        _kept(file, state)
        raise
    if file is not None:
        file.write(state.arrays())
    return Answer(state.x, left, state.iteration, residual, _message(state, residual, rtol, maxiter))


def _kept(file: Checkpoint | None, state: _State) -> str:
    """What an interruption leaves behind."""
    if file is None:
        return f"{state.iteration} iterations are lost, which checkpoint= would keep"
    try:
        if not state.whole:
            raise MeanFieldError("The state is in the middle of an iteration.")
        file.write(state.arrays())
    except MeanFieldError:  # also a full disk: the file is what it was
        return f"{file.path} has the iterations up to the last one that was written: the same call goes on from there"
    return f"{state.iteration} iterations are in {file.path}: the same call goes on from there"


def _expected(done: int, residual: float, rtol: float, maxiter: int) -> int:
    """How many iterations there may be in all, if what is left goes on to fall as it did."""
    if not 0 < residual < 1 or rtol >= 1:
        return maxiter
    return min(maxiter, max(done, int(np.ceil(done * np.log(rtol) / np.log(residual)))))


def _message(state: _State, residual: np.ndarray, rtol: float, maxiter: int) -> str:
    worst = float(residual.max())
    if worst <= rtol:
        return ""
    many = state.iteration
    why = (
        "give more iterations (maxiter=) or a larger rank="
        if many >= maxiter
        else "rounding leaves no more: give a larger ridge= or rtol="
    )
    return (
        f"conjugate gradients have not converged: after {many} iterations the residual is {worst:.1e} of the targets, "
        f"and rtol = {rtol:.1e}; this is the best iterate, and error bounds what is wrong with it; {why}"
    )
