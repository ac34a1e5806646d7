"""Kernels for scikit-learn's Gaussian processes: `mf.nngp` and `mf.ntk`.

The two classes `NNGP` and `NTK` are made when they are first asked for, because scikit-learn is optional.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from meanfield.base.answers.named import given_values
from meanfield.base.arguments import finite, shown, validated, whole
from meanfield.base.errors import MeanFieldError
from meanfield.kernels.kernel_blocks import fill
from meanfield.kernels.kernel_gradients import gradients
from meanfield.kernels.kernel_matrices import prepare, workers
from meanfield.kernels.pairs import side_of
from meanfield.kernels.planning import DEEPEST, planned
from meanfield.theory.derivation import theory_and_values

BOUNDS = (1e-2, 1e2)


@lru_cache(maxsize=1)
def _classes() -> dict[str, type]:
    try:
        from sklearn.gaussian_process.kernels import Hyperparameter, Kernel
    except ImportError:
        raise MeanFieldError(
            "A scikit-learn kernel is not available: scikit-learn is not installed; try: pip install "
            "'meanfield[sklearn]', or use theory.kernel(...)."
        ) from None

    class NetworkKernel(Kernel):
        """The kernel of a wide network at initialization, with hyperparameters σ_w and σ_b (as logarithms in theta).

        theory: a `Theory`; sigma_w, sigma_b > 0 (σ_b = 0 with sigma_b_bounds="fixed"); depth: the last layer;
        parameters: a mapping of further numbers (mu); sigma_w_bounds, sigma_b_bounds: (low, high) or "fixed".
        """

        quantity = "K"

        def __init__(
            self,
            theory,
            sigma_w=1.0,
            sigma_b=0.1,
            depth=2,
            sigma_w_bounds=BOUNDS,
            sigma_b_bounds=BOUNDS,
            parameters=None,
        ):
            self.theory = theory
            self.sigma_w = sigma_w
            self.sigma_b = sigma_b
            self.depth = depth
            self.sigma_w_bounds = sigma_w_bounds
            self.sigma_b_bounds = sigma_b_bounds
            self.parameters = parameters

        @property
        def hyperparameter_sigma_w(self):
            return Hyperparameter("sigma_w", "numeric", self.sigma_w_bounds)

        @property
        def hyperparameter_sigma_b(self):
            return Hyperparameter("sigma_b", "numeric", self.sigma_b_bounds)

        def _work(self, X, Y=None):
            return planned(
                self.theory, X, Y, self.sigma_w, self.sigma_b, self.depth, (self.quantity,), "float64",
                dict(self.parameters or {}),
            )  # fmt: skip

        @validated
        def __call__(self, X, Y=None, eval_gradient=False):
            """The matrix of X with Y (or itself), and its derivatives by theta where they are asked for."""
            if eval_gradient and Y is not None:
                raise ValueError("Gradients can be evaluated only for Y=None.")  # as scikit-learn's own kernels do
            work = self._work(X, Y)
            prepare(work)
            target = np.empty(work.shape)
            fill(work, {self.quantity: target}, workers(None))
            if not eval_gradient:
                return target
            free = [p for p in ("sigma_b", "sigma_w") if getattr(self, f"{p}_bounds") != "fixed"]
            if not free:
                return target, np.empty((*work.shape, 0))
            slopes = gradients(work.network, work.X, None, tuple(free))
            return target, slopes * np.array([getattr(self, p) for p in free])  # by logarithms

        @validated
        def diag(self, X):
            """The diagonal of the matrix of X with itself."""
            work = self._work(X)
            return side_of(work.network, work.X).last[self.quantity].copy()

        def is_stationary(self):
            """False: it depends on the norms of the inputs."""
            return False

        def __eq__(self, other):
            if type(self) is not type(other):
                return False
            mine, theirs = self.get_params(), other.get_params()
            return all(np.all(mine[n] == theirs[n]) for n in mine)

        def __repr__(self):
            return (
                f"{type(self).__name__}({self.theory!r}, sigma_w={self.sigma_w:.3g}, sigma_b={self.sigma_b:.3g}, "
                f"depth={self.depth})"
            )

    class NNGP(NetworkKernel):
        __doc__ = NetworkKernel.__doc__

    class NTK(NetworkKernel):
        __doc__ = NetworkKernel.__doc__
        quantity = "Theta"

    for one in (NetworkKernel, NNGP, NTK):
        one.__module__, one.__qualname__ = __name__, one.__name__
    return {one.__name__: one for one in (NetworkKernel, NNGP, NTK)}


def __getattr__(name: str) -> Any:
    if name in ("NNGP", "NTK", "NetworkKernel"):
        return _classes()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _made(name: str, network: Any, values: dict, settings: dict) -> Any:
    theory, values = theory_and_values(network, values)
    settings |= {k: finite(settings[k], k) for k in ("sigma_w", "sigma_b")}
    if not (settings["sigma_w"] > 0 and settings["sigma_b"] >= 0):
        raise MeanFieldError(
            f"sigma_w must be > 0 and sigma_b ≥ 0, but {settings['sigma_w']:g} and {settings['sigma_b']:g} were given."
        )
    whole(settings["depth"], "depth", 1, DEEPEST)
    given_values(values, {})
    for end in ("sigma_w_bounds", "sigma_b_bounds"):
        refuse_no_bounds(settings[end], end)
    return _classes()[name](theory, **settings, parameters=values or None)


def refuse_no_bounds(value: Any, what: str) -> None:
    """Refuse what is neither "fixed" nor (low, high) with 0 < low ≤ high."""
    if isinstance(value, str) and value == "fixed":
        return
    ends = [finite(one, what) for one in value] if isinstance(value, (tuple, list, np.ndarray)) else []
    if not (len(ends) == 2 and 0 < ends[0] <= ends[1]):
        raise MeanFieldError(
            f'{what} must be (low, high) with 0 < low <= high, or "fixed", but {shown(value)} was given.'
        )


@validated
def nngp(
    network: Any,
    *,
    sigma_w: Any = 1.0,
    sigma_b: Any = 0.1,
    depth: int = 2,
    sigma_w_bounds: Any = BOUNDS,
    sigma_b_bounds: Any = BOUNDS,
    **parameters: Any,
) -> Any:
    """The NNGP kernel K of a theory as a kernel of scikit-learn: the covariance of the outputs of wide networks.

    network: a `Theory`, an architecture record, or what `derive` takes, with its keywords. sigma_w, sigma_b > 0: start
    values of the hyperparameters, which `GaussianProcessRegressor` fits within the bounds ((low, high), or "fixed");
    depth: the last layer, 1 is the first Dense; other keywords give numbers to symbols (mu=0.5). The result is
    scikit-learn's `Kernel`: clone, get_params, theta, sums and products with other kernels, pickling; its gradient is
    that of the derived recursion. Needs scikit-learn (meanfield[sklearn]); it is made on first use.
    Raises: MeanFieldError without scikit-learn, and as `Theory.kernel`. Source: derived here.

    >>> from meanfield import derive
    >>> nngp(derive("erf"), sigma_w=1.5, sigma_b=0.1, depth=3)
    NNGP(Theory(MLP, erf), sigma_w=1.5, sigma_b=0.1, depth=3)
    """
    bounds = dict(sigma_w_bounds=sigma_w_bounds, sigma_b_bounds=sigma_b_bounds)
    return _made("NNGP", network, parameters, dict(sigma_w=sigma_w, sigma_b=sigma_b, depth=depth) | bounds)


@validated
def ntk(
    network: Any,
    *,
    sigma_w: Any = 1.0,
    sigma_b: Any = 0.1,
    depth: int = 2,
    sigma_w_bounds: Any = BOUNDS,
    sigma_b_bounds: Any = BOUNDS,
    **parameters: Any,
) -> Any:
    """The neural tangent kernel Theta of a theory as a kernel of scikit-learn (every weight trained at the rates σ_w²,
    σ_b²).

    Arguments, result and refusals are those of `nngp`; also refused is an activation whose Theta is infinite.
    Source: derived here.

    >>> from meanfield import derive
    >>> ntk(derive("erf"), sigma_w=1.5, sigma_b=0.1, depth=3)
    NTK(Theory(MLP, erf), sigma_w=1.5, sigma_b=0.1, depth=3)
    """
    bounds = dict(sigma_w_bounds=sigma_w_bounds, sigma_b_bounds=sigma_b_bounds)
    return _made("NTK", network, parameters, dict(sigma_w=sigma_w, sigma_b=sigma_b, depth=depth) | bounds)
