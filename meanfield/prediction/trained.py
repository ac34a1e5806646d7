"""`Prediction`: what is expected of trained wide networks, and how much it differs from one network to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import Solution, one_line
from meanfield.base.arguments import whole
from meanfield.base.budgets import require_memory
from meanfield.base.errors import MeanFieldError
from meanfield.prediction.solvers.spectrum import Spectrum

ROWS, TIMES = 8, 3  # of what is printed
Covariance = Callable[[float, bool, bool], np.ndarray]


@dataclass(frozen=True, eq=False)
class Prediction(Result):
    """Outputs of trained wide networks: their mean and covariance over networks.

    t: the times, or numbers of steps; mean: (t, input, output), training inputs first, then those of X_test; error: a
    bound of what is wrong with it by rounding and by the kernel's error, to first order, if the eigenvalues that
    `message` takes as 0 are 0; under cross-entropy what integration misses, and the standard error over drawn starts;
    covariance: (t, input, input), the same of every output; variance, sd: (t, input). train, test: the part that is
    of training inputs, or of X_test. largest_rate: below it gradient descent is stable (2N/λ_max); times: N/λ of every
    eigenvector of the kernel of the training inputs, the slowest first; eigenvalues: λ, rising; message: what else is
    to be said. solver: how it was computed, "eigh", "cholesky", "cg" or "nystrom"; only the first knows eigenvalues.
    iterations, residual: of conjugate gradients, and what is left of the equations over the targets, None where there
    are no equations. Covariances and errors are computed when they are asked for.

    >>> theory = derive("erf")
    >>> found = theory.predict([[1.0], [2.0]], [1.0, -1.0], [[1.5]], sigma_w=1.5, sigma_b=0.1, depth=2)
    >>> print(found.test.mean.shape, f"{found.test.sd[0, 0]:.6f}")
    (1, 1, 1) 0.031113
    """

    t: np.ndarray
    mean: np.ndarray
    spectrum: Spectrum | None = field(repr=False)
    message: str = ""
    about: str = ""
    classes: tuple[Any, ...] = ()
    solver: str = "eigh"
    iterations: int = 0
    residual: float | None = None
    _inputs: tuple[int, int] = (0, 0)  # training, further
    _covariance: Covariance | None = field(default=None, repr=False)
    _error: Callable[[np.ndarray], np.ndarray] | None = field(default=None, repr=False)
    _rows: tuple[int | None, int | None] = field(default=(None, None), repr=False)
    _variance: Callable[[bool, bool], np.ndarray] | None = field(default=None, repr=False)
    _likelihood: Callable[[int], tuple[Solution, Solution]] | None = field(default=None, repr=False)

    @property
    def train(self) -> Prediction:
        """The part of the training inputs. Raises: MeanFieldError where they have been left out."""
        if not self._inputs[0]:
            raise MeanFieldError("This is the part of X_test alone; take .train of the whole prediction.")
        return self._part((None, self._inputs[0]), (self._inputs[0], 0))

    @property
    def test(self) -> Prediction:
        """The part of the inputs of X_test. Raises: MeanFieldError where there are none."""
        if not self._inputs[1]:
            raise MeanFieldError("This prediction has no further inputs; give X_test= to predict.")
        return self._part((self._inputs[0], None), (0, self._inputs[1]))

    def _part(self, rows: tuple[int | None, int | None], inputs: tuple[int, int]) -> Prediction:
        return replace(self, mean=self.mean[:, slice(*rows)], _inputs=inputs, _rows=rows)

    @cached_property
    def error(self) -> np.ndarray:
        """A bound of what is wrong with the mean, (t, input, output)."""
        assert self._error is not None
        return self._error(self.t)[:, slice(*self._rows)]

    @cached_property
    def covariance(self) -> np.ndarray:
        """Over networks, (t, input, input), of each output; outputs are independent. Raises: MeanFieldError where it is
        not known (cross-entropy without networks=)."""
        count = self.mean.shape[1]
        require_memory(
            8.0 * len(self.t) * count**2, f"The covariance of {count} inputs at {len(self.t)} times",
            "take .variance, the .test part, or fewer times",
        )  # fmt: skip
        return np.array([self._at(t) for t in self.t])

    def _at(self, t: float) -> np.ndarray:
        assert self._covariance is not None
        found = self._covariance(t, *(n > 0 for n in self._inputs))
        if not np.isfinite(found).all():
            raise MeanFieldError(f"The covariance at t = {t:g} is beyond doubles; take a lower rate= or a smaller t.")
        return found

    @cached_property
    def variance(self) -> np.ndarray:
        """The diagonal of the covariance, (t, input)."""
        if self._variance is not None:  # at the end of training, all times alike
            own = self._variance(*(n > 0 for n in self._inputs))
            return np.repeat(own[None], len(self.t), axis=0)
        return np.array([np.maximum(np.diag(self._at(t)), 0.0) for t in self.t])

    @property
    def sd(self) -> np.ndarray:
        """The standard deviation over networks, (t, input)."""
        return np.sqrt(self.variance)

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of the kernel of the training inputs, rising."""
        return self._known.values

    @property
    def times(self) -> np.ndarray:
        """N/λ of every eigenvector (with a ridge, N/(λ + ridge)), the slowest first."""
        return self._known.times

    @property
    def largest_rate(self) -> float:
        """2N/λ_max (with a ridge, 2N/(λ_max + ridge)): gradient descent of a higher rate diverges."""
        return self._known.largest_rate

    @property
    def _known(self) -> Spectrum:
        if self.spectrum is None:
            raise MeanFieldError(
                f"Eigenvalues, times and rates are not known of an answer by solver={self.solver!r}; take "
                "solver='eigh', which computes them."
            )
        return self.spectrum

    def log_determinant(self, probes: int = 16) -> Solution:
        """log det of the kernel of the training inputs with the ridge on its diagonal.

        By eigenvalues or Cholesky's factor with a bound of its error; by solver="cg" from so many probes (vectors of
        random signs, 2 at least), with the standard error; by "nystrom" of the approximate kernel, with a bound.
        Raises: MeanFieldError where the matrix is singular to rounding, and under cross-entropy.
        """
        return self._evidence(probes)[0]

    def log_likelihood(self, probes: int = 16) -> Solution:
        """The log marginal likelihood of the targets under N(0, K + ridge), summed over outputs, as that of
        scikit-learn's `GaussianProcessRegressor` (of train="last"; with all weights trained Theta is in the place of
        K). probes, error and what is raised: as of `log_determinant`."""
        return self._evidence(probes)[1]

    def _evidence(self, probes: int) -> tuple[Solution, Solution]:
        if self._likelihood is None:
            raise MeanFieldError("A likelihood is known under square loss alone; give loss='mse'.")
        return self._likelihood(whole(probes, "probes", 2, 10**4))

    def data(self) -> dict[str, Any]:
        """Times, mean, its error, standard deviation and covariance where they are known, and what is said."""
        known = {} if self._spread is None else {"sd": plain(self._spread)}
        if known and self.spectrum is not None:
            known["covariance"] = plain(self.covariance)
        own = ("eigenvalues", "largest_rate") if self.spectrum is not None else ("iterations", "residual")
        more = {n: plain(getattr(self, n)) for n in (*own, "solver", "classes", "message")}
        return {"t": plain(self.t), "mean": plain(self.mean), "error": plain(self.error), **known, **more}

    @property
    def _spread(self) -> np.ndarray | None:
        if self._variance is not None and "variance" not in self.__dict__:  # a solve: only if it has been asked for
            return None
        try:
            return self.sd
        except ValueError:  # a MeanFieldError, which the attribute itself raises
            return None

    def arrays(self) -> Arrays:
        """Mean, sd and error over t, input and output; set: "train" or "test"."""
        train, test = self._inputs
        coords = {
            "t": (("t",), self.t),
            "input": (("input",), np.arange(train + test)),
            "set": (("input",), np.array(["train"] * train + ["test"] * test)),
            "output": (("output",), np.array(self.classes) if self.classes else np.arange(self.mean.shape[2])),
        }
        columns: dict[str, Any] = {"mean": (("t", "input", "output"), self.mean)}
        if self._spread is not None:
            columns["sd"] = ("t", "input"), self._spread
        columns["error"] = ("t", "input", "output"), self.error
        known = {} if self.spectrum is None else {"largest_rate": self.largest_rate}
        return Arrays(coords, columns, known)

    def plot(self, output: int = 0, ax: Any = None) -> Any:
        """Mean and twice the standard deviation of one output: against t where there are several times (up to seven
        inputs, those of X_test before others), against the input otherwise. Returns: the Axes."""
        from meanfield.prediction.prediction_figures import plot

        return plot(self, whole(output, "output", 0, self.mean.shape[2] - 1), ax)

    @property
    def _solved(self) -> str:
        many = f", {self.iterations} iterations" if self.iterations else ""
        left = "" if self.residual is None else f", residual {self.residual:.1e} of the targets"
        return f"solver {self.solver}{many}{left}"

    def __repr__(self) -> str:
        shape = f"{len(self.t)} times, {self.mean.shape[1]} inputs, {self.mean.shape[2]} outputs"
        return one_line("Prediction", f"{shape}; {self.about}")

    def __str__(self) -> str:
        spread, (train, test) = self._spread, self._inputs
        lines = [self.about]
        if self.spectrum is None:
            lines.append(self._solved)
        elif not self.classes:  # of square loss
            lines.append(f"stable rates < {self.largest_rate:.6g}; slowest time N/lambda = {self.times[0]:.4g}")
        shown = list(range(train, train + test) or range(train))[:ROWS]
        names = [f"test {i - train}" if i >= train else f"train {i}" for i in shown]
        at = sorted({0, len(self.t) // 2, len(self.t) - 1})[-TIMES:]
        lines.append(f"{'input':<12}" + "".join(f"  {'t = ' + format(self.t[k], '.4g'):>20}" for k in at))
        for name, i in zip(names, shown):
            cells = [f"{self.mean[k, i, 0]:.6f}" for k in at]
            if spread is not None:
                cells = [f"{c} ± {spread[k, i]:.6f}" for c, k in zip(cells, at)]
            lines.append(f"{name:<12}" + "".join(f"  {c:>20}" for c in cells))
        if self.mean.shape[2] > 1:
            lines.append(f"(output {self.classes[0] if self.classes else 0} of {self.mean.shape[2]})")
        return wrapped("\n".join([*lines, *[f"({self.message}.)"] * bool(self.message)]))
