"""`NTKRegressor` and `NTKClassifier`: trained wide networks as estimators of scikit-learn."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from meanfield.base.arguments import choice, whole
from meanfield.base.errors import MeanFieldError
from meanfield.prediction.exact_ranks import largest_rank
from meanfield.prediction.predict import TRAINS, moment, ridge_of, solved
from meanfield.prediction.solvers.solver_choice import chosen, solver_settings
from meanfield.prediction.solvers.spectrum import spectrum
from meanfield.prediction.solvers.system import EPS, System
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import mapping

try:
    from scipy.special import ndtr
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise MeanFieldError(
        "Estimators of scikit-learn are not available: it is not installed, or older than 1.6; try: pip install "
        "'meanfield[sklearn]', or use theory.predict(...)."
    ) from None

NODES = np.linspace(-9.0, 9.0, 361)  # of a Gaussian: the trapezoidal rule is exact to rounding
WEIGHTS = np.exp(-(NODES**2) / 2) * (NODES[1] - NODES[0]) / np.sqrt(2 * np.pi)


class _Wide(BaseEstimator):
    """What both estimators share: the kernels, and the weights of the training inputs."""

    def __init__(
        self, network="relu", *, sigma_w=1.4, sigma_b=0.1, depth=3, t=None, rate=None, train="all", ridge=1e-6,
        lambda_w=None, lambda_b=None, solver="auto", rank=None, rtol=None, maxiter=None, checkpoint=None,
        random_state=0, parameters=None,
    ):  # fmt: skip
        self.network = network
        self.sigma_w = sigma_w
        self.sigma_b = sigma_b
        self.depth = depth
        self.t = t
        self.rate = rate
        self.train = train
        self.ridge = ridge
        self.lambda_w = lambda_w
        self.lambda_b = lambda_b
        self.solver = solver
        self.rank = rank
        self.rtol = rtol
        self.maxiter = maxiter
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.parameters = parameters

    def _fitted(self, X: np.ndarray, codes: np.ndarray) -> None:
        self.theory_, more = theory_and_values(self.network, dict(mapping(self.parameters, "parameters")))
        self._name, ridge = TRAINS[choice(self.train, "train", tuple(TRAINS))], ridge_of(self.ridge)
        t, rate = moment(self.t, self.rate)
        # as they are now: set_params changes nothing before the next fit
        rates = {k: v for k in ("lambda_w", "lambda_b") if (v := getattr(self, k)) is not None}
        self._at = dict(sigma_w=self.sigma_w, sigma_b=self.sigma_b, depth=self.depth) | rates | more
        self._trained = dict(t=t, rate=rate, train=self.train, ridge=ridge)
        self._codes, self.X_fit_ = codes, X
        seed = whole(self.random_state, "random_state", 0, 2**63)
        settings = solver_settings(self.solver, self.rank, self.rtol, self.maxiter, self.checkpoint, seed)
        theory = self.theory_
        system = System(theory.kernel, theory.kernel_operator, X, self._name, ridge, self._at)
        how = chosen(
            settings, inputs=len(X), test=0, outputs=codes.shape[1], times=np.array([t]), rate=rate, loss="mse",
            ridge=ridge, rounding=lambda: (len(X) + 1) * EPS * system.trace,
        )  # fmt: skip
        self.solver_, self._found, self.X_support_ = how, None, X
        if how == "eigh":
            found = self._kernel(X)
            own = spectrum(
                np.array(found[self._name]), found.error[self._name], ridge, self._name,
                lambda: largest_rank(theory.block, theory.first, X, int(self.depth), self._at, self._name),
            )  # fmt: skip
            g, _ = own.trained(t, rate)
            if own.said and not ridge > own.doubt:
                warnings.warn(own.said, UserWarning, stacklevel=3)
            self.dual_coef_ = own.vectors @ (g[:, None] * (own.vectors.T @ codes))
            return
        self._found = solved(how, system, codes, settings, None)
        self.dual_coef_, self.X_support_ = self._found.weights, self._found.support
        if how == "cg" and self._found.message:
            warnings.warn(self._found.message, ConvergenceWarning, stacklevel=3)

    def _kernel(self, X: np.ndarray, Y: np.ndarray | None = None) -> Any:
        return self.theory_.kernel(X, Y, quantities=(self._name,), **self._at)

    def _outputs(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """(the inputs, their mean outputs)."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        if self._found is not None:
            return X, self._found.mean(X)
        return X, np.asarray(self._kernel(X, self.X_fit_)[self._name]) @ self.dual_coef_

    def _covariance(self, X: np.ndarray) -> np.ndarray:
        if self._found is not None:
            return self._found.covariance(X)
        found = self.theory_.predict(self.X_fit_, self._codes, X, **self._trained, **self._at)
        return found.test.covariance[0]


class NTKRegressor(RegressorMixin, _Wide):
    """Regression by the mean output of trained wide networks: `Theory.predict` for scikit-learn.

    network: what `derive` takes, a record or a `Theory`; sigma_w, sigma_b, depth: as in `Theory.kernel` (two hidden
    layers are depth 3); t, rate, train, ridge, lambda_w, lambda_b: as in `Theory.predict`, t one number; parameters: a
    mapping of further numbers (mu); solver, rank, rtol, maxiter, checkpoint: as in `Theory.predict`, random_state: of
    the rows that are drawn. After fit: theory_, X_fit_, solver_, and the sum that outputs are, X_support_ (the training
    inputs; of solver="nystrom" those that are kept) with dual_coef_. What has not converged is a ConvergenceWarning of
    scikit-learn. Raises: MeanFieldError as `Theory.predict`.

    >>> model = NTKRegressor("erf", sigma_w=1.5, depth=2).fit([[0.0], [1], [2]], [0.0, 1, 0])
    >>> print(model.predict([[1.0], [1.5]]).round(4))
    [1.     0.5164]
    """

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X, y):
        """Train on inputs (N, N_0) and targets (N,) or (N, outputs)."""
        X, y = validate_data(self, X, y, dtype=np.float64, multi_output=True, y_numeric=True)
        self._shape = y.shape[1:]
        self._fitted(X, np.asarray(y, dtype=float).reshape(len(X), -1))
        return self

    def predict(self, X, return_std=False, return_cov=False):
        """The mean output; with return_std=True also the standard deviation over networks, (M,), with return_cov=True
        the covariance, (M, M)."""
        if return_std and return_cov:
            raise MeanFieldError("return_std and return_cov were both asked for; take the diagonal of the latter.")
        X, mean = self._outputs(X)
        mean = mean.reshape(len(X), *self._shape)
        if not (return_std or return_cov):
            return mean
        covariance = self._covariance(X)
        return mean, (covariance if return_cov else np.sqrt(np.maximum(np.diag(covariance), 0.0)))


class NTKClassifier(ClassifierMixin, _Wide):
    """Classification by trained wide networks: square loss on codes, -1 and 1 of two classes, one-hot of more.

    Parameters are those of `NTKRegressor`. predict: the class of the largest mean output; outputs: the mean outputs;
    predict_proba: the probability, over networks, that a class has the largest output. It comes from the covariance of
    outputs and says nothing of noise in the labels. After fit: classes_, and what `NTKRegressor` has.
    Raises: MeanFieldError as `Theory.predict`.

    >>> model = NTKClassifier("erf", sigma_w=1.5, depth=2).fit([[0.0], [1], [2]], ["a", "b", "a"])
    >>> print(model.predict([[0.9], [3]]), model.predict_proba([[1.5]]).round(3))
    ['b' 'a'] [[0.113 0.887]]
    """

    def fit(self, X, y):
        """Train on inputs (N, N_0) and labels (N,)."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, places = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            own = self.classes_.tolist()[0]
            raise MeanFieldError(f"y has one class alone, {own!r}; a classifier needs at least two.")
        codes = 2.0 * places[:, None] - 1 if len(self.classes_) == 2 else np.eye(len(self.classes_))[places]
        self._fitted(X, codes)
        return self

    def outputs(self, X):
        """Mean outputs, (M,) of two classes (of the second one) and (M, classes) of more."""
        mean = self._outputs(X)[1]
        return mean[:, 0] if len(self.classes_) == 2 else mean

    def predict(self, X):
        """The class of the largest mean output."""
        mean = self.outputs(X)
        return self.classes_[(mean > 0).astype(int) if mean.ndim == 1 else mean.argmax(axis=1)]

    def predict_proba(self, X):
        """The probability over networks that each class has the largest output, (M, classes)."""
        X, mean = self._outputs(X)
        sd = np.sqrt(np.maximum(np.diag(self._covariance(X)), 0.0))[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            scaled = np.where(sd > 0, mean / sd, np.where(mean == 0, 0.0, np.sign(mean) * np.inf))
        if len(self.classes_) == 2:
            return np.concatenate((ndtr(-scaled), ndtr(scaled)), axis=1)
        return np.array([_largest(m / s if s > 0 else m * 1e200) for m, s in zip(mean, sd[:, 0])])


def _largest(mean: np.ndarray) -> np.ndarray:
    """The probabilities that each of independent Gaussians of variance 1 is the largest."""
    found = []
    for c in range(len(mean)):
        others = np.delete(mean, c)
        found.append(WEIGHTS @ ndtr(NODES[:, None] + mean[c] - others).prod(axis=1))
    total = np.array(found)
    return total / total.sum()
