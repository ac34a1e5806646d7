"""Which solver takes the equations of a regression: what can answer what is asked, and what fits into memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.arguments import choice, path, positive, whole
from meanfield.base.budgets import memory_limit, require_memory
from meanfield.base.errors import MeanFieldError

SOLVERS = ("auto", "eigh", "cholesky", "cg", "nystrom")
SMALL = 1000  # inputs up to which the eigenvalues cost about a second, and come along
RANK, INDUCING, STEPS = 1000, 4000, 1000  # rows of a preconditioner, of Nyström's, iterations, unless they are given
RTOL = 1e-8
USED = {"rank": ("cg", "nystrom"), "rtol": ("cg",), "maxiter": ("cg",), "checkpoint": ("cg", "nystrom")}


@dataclass(frozen=True)
class SolverSettings:
    """A solver with its settings, all checked.

    rank: rows that a low-rank approximation of the kernel is made of; rtol: of the residual, over that of the targets;
    maxiter: iterations at most; checkpoint: a file; seed: of the rows that are chosen, and of probes.
    """

    solver: str = "auto"
    rank: int | None = None
    rtol: float = RTOL
    maxiter: int = STEPS
    checkpoint: Any = None
    seed: int = 0

    def rows(self, n: int, name: str) -> int:
        """The rank for n inputs: what was asked for, or what is usual and fits beside the rest."""
        if self.rank is not None:
            return min(self.rank, n)
        usual = RANK if name == "cg" else INDUCING
        return max(0, min(n // 2 if name == "cg" else n, usual, int(memory_limit() / (4 * 8 * n))))


def solver_settings(solver: Any, rank: Any, rtol: Any, maxiter: Any, checkpoint: Any, seed: int) -> SolverSettings:
    """The arguments of `Theory.predict` that say how equations are solved.

    Raises: MeanFieldError for a name that is no solver, and for settings that the named one does not have.
    """
    name = choice(solver, "solver", SOLVERS)
    given = {"rank": rank, "rtol": rtol, "maxiter": maxiter, "checkpoint": checkpoint}
    for what, value in given.items():
        if value is not None and name not in ("auto", *USED[what]):
            raise MeanFieldError(
                f"{what}= was given, but solver={name!r} has no such setting, only {' and '.join(USED[what])}; leave "
                "it out."
            )
    if checkpoint is not None:
        path(checkpoint, "checkpoint")
    return SolverSettings(
        name,
        None if rank is None else whole(rank, "rank", 0, 10**6),
        RTOL if rtol is None else positive(rtol, "rtol"),
        STEPS if maxiter is None else whole(maxiter, "maxiter", 1, 10**9),
        checkpoint,
        seed,
    )


def chosen(
    settings: SolverSettings, *, inputs: int, test: int, outputs: int, times: np.ndarray, rate: float | None, loss: str,
    ridge: float, rounding: Callable[[], float],
) -> str:  # fmt: skip
    """The name of the solver that is taken, whose arrays fit into memory.

    rounding: n EPS of the trace of the kernel, what a factorization loses, when it is needed. Raises: MeanFieldError
    for what the named solver cannot answer, and for arrays that do not fit.
    """
    name, n = settings.solver, inputs
    spectral = _why_spectral(times, rate, loss)
    if name == "auto":
        name = "eigh"
        if not spectral and ridge and not (n <= SMALL and _fits("eigh", settings, n, test, outputs)):
            known = ridge > rounding()
            if known and _fits("cholesky", settings, n, test, outputs):
                name = "cholesky"
            elif known or not _fits("eigh", settings, n, test, outputs):
                name = "cg"
    if name != "eigh":
        if spectral:
            raise MeanFieldError(
                f"solver={name!r} solves the equations of the end of training under square loss, and {spectral}; take "
                "solver='eigh', which knows the eigenvalues, or leave it out."
            )
        if name != "cholesky" and not ridge:
            raise MeanFieldError(
                f"solver={name!r} needs a ridge: without one nothing says when its answer is near. Give ridge=1e-3 of "
                "the mean of the kernel's diagonal, or take solver='eigh', which finds what is never trained."
            )
    require_memory(
        needed(name, settings, n, test, outputs),
        f"Predicting with {n} training and {test} further inputs" + f" by solver={name!r}" * (name != "eigh"),
        {"eigh": "give fewer inputs, or a ridge and t = inf, for which solver='cg' stores no kernel",
         "cholesky": "take solver='cg' or 'nystrom'", "cg": "give a smaller rank= or fewer outputs",
         "nystrom": "give a smaller rank="}[name],
    )  # fmt: skip
    return name


def _why_spectral(times: np.ndarray, rate: float | None, loss: str) -> str:
    """What only eigenvalues answer, as the end of a sentence; "" where one solve does."""
    if loss != "mse":
        return "under cross-entropy a flow is integrated"
    if not np.isinf(times).all():
        return f"t = {times[np.isfinite(times)][0]:g} was asked for"
    return "with rate= the largest eigenvalue decides whether steps come to rest" if rate is not None else ""


def needed(name: str, settings: SolverSettings, inputs: int, test: int, outputs: int) -> float:
    """Bytes of what a solver keeps at a time."""
    n, m = float(inputs), float(test)
    rank = settings.rows(inputs, name)
    return 8 * {
        "eigh": 3 * (n + m) ** 2 + 4 * n * n,
        "cholesky": n * n + (6 * n + 2 * m) * outputs,
        "cg": n * rank + 2.0 * rank * rank + (8 * n + 2 * m) * outputs,
        "nystrom": 3.0 * rank * rank + 2.0 * min(strip(rank), n) * rank + (2 * n + 2 * m) * outputs,
    }[name]


def _fits(name: str, settings: SolverSettings, inputs: int, test: int, outputs: int) -> bool:
    return needed(name, settings, inputs, test, outputs) <= memory_limit()


def strip(rank: int) -> int:
    """Rows of the kernel with `rank` others that are in memory at a time: 64 MB of them, in blocks of 512."""
    return max(512, 2**23 // max(rank, 1) // 512 * 512)
