"""`Theory.predict`: the arguments, the kernels, and one of the two ways to train."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any

import numpy as np

from meanfield.base.arguments import choice, finite, positive, refuse_not_real, shown, whole
from meanfield.base.budgets import require_memory
from meanfield.base.errors import MeanFieldError
from meanfield.base.progress import watched
from meanfield.kernels.input_data import inputs
from meanfield.kernels.kernel_matrices import KernelOperator, Kernels
from meanfield.prediction import logits, targets
from meanfield.prediction.linearized import LinearizedNetworks
from meanfield.prediction.solvers.fitted import FittedRegression
from meanfield.prediction.solvers.nystrom import Nystrom
from meanfield.prediction.solvers.regression import Regression, Solver, by_cholesky, by_conjugate_gradients
from meanfield.prediction.solvers.solver_choice import SolverSettings, chosen, solver_settings
from meanfield.prediction.solvers.spectrum import Spectrum, spectrum
from meanfield.prediction.solvers.system import EPS, System
from meanfield.prediction.trained import Prediction

BY: dict[str, Solver] = {"cholesky": by_cholesky, "cg": by_conjugate_gradients, "nystrom": Nystrom}
STEPS = 10**6  # of gradient descent under cross-entropy
LOSSES = ("mse", "cross_entropy")
TRAINS = {"all": "Theta", "last": "K"}
Kernel = Callable[..., Kernels]
Operator = Callable[..., KernelOperator]


def predict(
    kernel: Kernel, X: Any, y: Any, X_test: Any, *, operator: Operator, rank_of: Callable[[np.ndarray, str], int],
    t: Any, rate: Any, loss: Any, train: Any, ridge: Any, networks: Any, seed: Any, threads: Any,
    executor: Executor | None, progress: Any, solver: Any = "auto",
    rank: Any = None, rtol: Any = None, maxiter: Any = None, checkpoint: Any = None, **of_kernel: Any,
) -> Prediction:  # fmt: skip
    """`Theory.predict`; kernel, operator: `Theory.kernel` and `Theory.kernel_operator` of the same theory; rank_of: the
    rank that a kernel of some inputs has at most, by its name."""
    loss, train = choice(loss, "loss", LOSSES), choice(train, "train", tuple(TRAINS))
    rows = inputs(X, "X")
    test = np.empty((0, rows.shape[1])) if X_test is None else inputs(X_test, "X_test", rows.shape[1])
    n, m = len(rows), len(test)
    rate = None if rate is None else positive(rate, "rate")
    ridge, seed = ridge_of(ridge), whole(seed, "seed", 0, 2**63)
    times = _times(t, rate)
    known = targets.values(y, n) if loss == "mse" else targets.classes(y, n)
    solving = solver_settings(solver, rank, rtol, maxiter, checkpoint, seed)
    settings = {"threads": threads, "executor": executor, **of_kernel}
    system = System(kernel, operator, rows, TRAINS[train], ridge, settings)
    how = chosen(
        solving, inputs=n, test=m, outputs=known.shape[1] if isinstance(known, np.ndarray) else 1, times=times,
        rate=rate, loss=loss, ridge=ridge, rounding=lambda: (n + 1) * EPS * system.trace,
    )  # fmt: skip
    count = whole(networks, "networks", 0, 10**6) if networks is not None else 0
    if isinstance(known, targets.Classes):
        _integrable(times, rate, ridge, max(count, 1), (n + m) * known.codes.shape[1])
    elif count:
        raise MeanFieldError(
            "networks= draws starts for loss='cross_entropy'; under square loss mean and covariance over all networks "
            "are known in closed form: leave it out."
        )
    head = _about(n, loss, train, rate, ridge)
    if how != "eigh" and isinstance(known, np.ndarray):  # cross-entropy has no solver by one solve
        return _by_solve(solved(how, system, known, solving, progress), test, times, head)
    name = TRAINS[train]
    found = kernel(
        np.concatenate((rows, test)), quantities=("K",) if train == "last" else ("K", "Theta"), **settings
    )
    trained, K = found[name], np.asarray(found.K)
    own = spectrum(np.array(trained[:n, :n]), found.error[name], ridge, name, lambda: rank_of(rows, name))
    across = np.ascontiguousarray(trained[n:, :n])
    if isinstance(known, np.ndarray):
        sizes = np.sqrt(np.diag(trained)[n:])
        error = max(found.error[name], found.error["K"])
        linear = LinearizedNetworks(own, across, K, known, rate, train == "last", error, sizes)
        return Prediction(
            times, _finite(linear.mean(times)), own, _message(own, rate), head, _inputs=(n, m),
            _covariance=linear.covariance, _error=linear.mean_error, _likelihood=linear.likelihood,
        )  # fmt: skip
    starts = _starts(K, known.codes.shape[1], count, seed)
    with watched(progress, "networks") as tell, np.errstate(over="ignore", invalid="ignore"):
        every, wrong = logits.outputs(
            np.asarray(trained[:n, :n]), across, known.codes, starts, ridge, times, rate, tell
        )  # fmt: skip
    drawn = _Drawn(every, wrong, n, times, bool(count))
    return Prediction(
        times, _finite(every.mean(axis=0)), own, drawn.said, head, known.names, _inputs=(n, m),
        _covariance=drawn.covariance, _error=drawn.error,
    )  # fmt: skip


def solved(how: str, system: System, y: np.ndarray, settings: SolverSettings, progress: Any) -> Regression:
    """The regression at the end of training by a solver of that name."""
    return BY[how](system, y, settings, progress)


def _by_solve(found: Regression, test: np.ndarray, times: np.ndarray, head: str) -> Prediction:
    """The prediction of what has been solved, the same at all times, which are infinite."""
    own = FittedRegression(found, test)
    return Prediction(
        times, np.repeat(_finite(own.mean())[None], len(times), axis=0), None, found.message, head, (), found.name,
        found.iterations, found.residual, (found.system.count, len(test)), own.covariance, own.error,
        _variance=own.variance, _likelihood=own.likelihood,
    )  # fmt: skip


def _integrable(times: np.ndarray, rate: float | None, ridge: float, networks: int, numbers: int) -> None:
    """Refuse times and sizes that flows under cross-entropy are not integrated for; numbers: outputs of a network."""
    if np.isinf(times).any() and not (ridge and rate is None):
        why = "steps are taken one by one" if ridge else "outputs of labels grow without end unless there is a ridge"
        raise MeanFieldError(
            f"Under cross-entropy t = inf has no answer here: {why}. Give t= as a number or an array of numbers."
        )
    if rate is not None and times.max() > STEPS:
        raise MeanFieldError(
            f"{times.max():g} steps under cross-entropy are taken one by one, and at most {STEPS:.0e} are; leave rate= "
            "out, so that t is a time of gradient flow."
        )
    require_memory(
        16.0 * networks * len(times) * numbers, f"Outputs of {networks} networks", "give fewer networks or times"
    )


class _Drawn:
    """What is known of networks whose starts were drawn: outputs and what is wrong with them, (network, t, input,
    class)."""

    def __init__(self, outputs: np.ndarray, wrong: np.ndarray, train: int, times: np.ndarray, drawn: bool) -> None:
        self.outputs, self.wrong, self.train, self.times = outputs, wrong.mean(axis=0), train, times
        self.drawn = drawn

    def error(self, times: np.ndarray) -> np.ndarray:
        """Of the mean over networks: that of the integration, and the standard error."""
        count = len(self.outputs)
        return self.wrong + (self.outputs.std(axis=0, ddof=1) / np.sqrt(count) if count > 1 else 0.0)

    @property
    def said(self) -> str:
        """How the mean came about."""
        count = len(self.outputs)
        if not self.drawn:
            return "of the network that starts at 0: networks=100 gives mean and spread over starts"
        return f"mean over {count} start{'s' * (count > 1)} drawn from N(0, K); error has its standard error"

    def covariance(self, t: float, train: bool, test: bool) -> np.ndarray:
        """Over networks, the mean over classes."""
        if len(self.outputs) == 1:
            raise MeanFieldError(
                "The covariance under cross-entropy has no closed form: give networks=100 to draw starts (2 at least)."
            )
        rows = self.outputs[:, int(np.flatnonzero(self.times == t)[0])]
        rows = rows[:, (0 if train else self.train) : (None if test else self.train)]
        rows = rows - rows.mean(axis=0)
        return np.einsum("nac,nbc->ab", rows, rows) / ((len(rows) - 1) * rows.shape[2])


def _starts(K: np.ndarray, outputs: int, networks: int, seed: int) -> np.ndarray:
    """Untrained functions, (network, input, class): 0, or draws from N(0, K)."""
    if networks == 0:
        return np.zeros((1, len(K), outputs))
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.array(
        [root @ np.random.default_rng((seed, i)).standard_normal((len(K), outputs)) for i in range(networks)]
    )


def _about(n: int, loss: str, train: str, rate: float | None, ridge: float) -> str:
    how = "gradient flow" if rate is None else f"gradient descent of rate {rate:g}"
    which = "all weights" if train == "all" else "the readout (by K)"
    what = {"mse": "square loss", "cross_entropy": "cross-entropy"}[loss]
    return f"wide networks, {which} trained on {n} inputs by {how} on {what}" + (f", ridge {ridge:g}" if ridge else "")


def _message(own: Spectrum, rate: float | None) -> str:
    """What is to be said of a rate, and of a kernel that is not positive definite."""
    fast = ""
    if rate is not None and rate >= own.largest_rate:
        fast = (
            f"rate {rate:g} is not below 2N/lambda_max = {own.largest_rate:.4g}: steps along the first eigenvector do "
            "not settle"
        )
    return _joined(fast, own.said)


def _joined(*parts: str) -> str:
    return "; ".join(p for p in parts if p)


def _times(t: Any, rate: float | None) -> np.ndarray:
    """Times as an array; None: the end of training."""
    if t is None:
        return np.array([np.inf])
    if isinstance(t, str):
        t = [np.inf if one.strip() in ("inf", "oo") else finite(one, "t") for one in t.split(",")]
    refuse_not_real(t, "t")
    try:
        times = np.atleast_1d(np.asarray(t, dtype=float)).copy()
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(f"t must be a number or an array of numbers, but {shown(t)} was given.") from None
    if times.ndim != 1 or times.size == 0 or np.isnan(times).any() or (times < 0).any():
        raise MeanFieldError(f"t must be a number ≥ 0 or a list of them, but {shown(t)} was given.")
    if rate is not None and (np.isfinite(times) & (times != np.floor(times))).any():
        raise MeanFieldError(
            f"With rate= t counts steps of gradient descent, whole numbers, but {shown(t)} was given."
        )
    return times


def moment(t: Any, rate: Any) -> tuple[float, float | None]:
    """(the one time, the rate) of an estimator."""
    rate = None if rate is None else positive(rate, "rate")
    times = _times(t, rate)
    if len(times) != 1:
        raise MeanFieldError(f"An estimator is trained to one time, but t={shown(t)} was given.")
    return float(times[0]), rate


def ridge_of(value: Any) -> float:
    """A ridge as a number ≥ 0."""
    number = finite(value, "ridge")
    if number < 0:
        raise MeanFieldError(f"ridge must be ≥ 0, but {number:g} was given.")
    return number


def _finite(mean: np.ndarray) -> np.ndarray:
    if not np.isfinite(mean).all():
        raise MeanFieldError("The outputs grow beyond doubles; take a lower rate=, a smaller t, or smaller targets.")
    return mean
