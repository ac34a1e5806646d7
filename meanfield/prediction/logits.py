r"""Outputs of wide networks trained by cross-entropy: the flow is integrated.

With L = -(1/N) Σ_a Σ_c Y_ac log softmax(f(x_a))_c a linear model moves by f_t(A) = f_0(A) - Θ_AX u_t, where
du/dt = (softmax(f_0(X) - Θ_XX u) - Y - ρu)/N and ρ is the ridge. This is no linear map of f_0, so that the mean over
networks is one over draws of f_0 ~ N(0, K); from f_0 = 0 one flow is integrated.

Source: Lee et al., Wide neural networks of any depth evolve as linear models (2019), Sec. 2.2.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import softmax

from meanfield.base.errors import MeanFieldError

TOLERANCE = 1e-8  # of the integration, relative to the largest output
CHECK = 100  # how much coarser the second integration is, whose distance is the stated error
END = 50  # times N/ρ, after which a flow with a ridge has ended
LARGEST = 4000  # inputs times classes: the stiff solver factorizes a matrix of this order


class LogitVelocity:
    """N du/dt and its derivative."""

    def __init__(self, kernel: np.ndarray, codes: np.ndarray, ridge: float, start: np.ndarray) -> None:
        self.kernel, self.codes, self.ridge, self.start = kernel, codes, ridge, start

    def __call__(self, u: np.ndarray) -> np.ndarray:
        u = u.reshape(self.codes.shape)
        return (softmax(self.start - self.kernel @ u, axis=1) - self.codes - self.ridge * u).ravel()

    def slope(self, u: np.ndarray) -> np.ndarray:
        """∂(N du_ac/dt)/∂u_be = -p_ac (δ_ce - p_ae) Θ_ab - ρ."""
        (n, m), u = self.codes.shape, u.reshape(self.codes.shape)
        p = softmax(self.start - self.kernel @ u, axis=1)
        inner = p[:, :, None] * np.eye(m) - p[:, :, None] * p[:, None, :]
        full = -np.einsum("ace,ab->acbe", inner, self.kernel).reshape(n * m, n * m)
        full[np.diag_indices(n * m)] -= self.ridge
        return full


def flow(force: LogitVelocity, times: np.ndarray, rate: float | None) -> tuple[np.ndarray, np.ndarray]:
    """(u at each time, the difference to a coarser integration), each (t, input, class).

    With a ridge the flow ends: what is left falls at least as e^(-ρt/N), so that t = ∞ is 50 N/ρ.
    """
    if force.ridge:
        times = np.where(np.isinf(times), END * len(force.codes) / force.ridge, times)
    shape = (len(times), *force.codes.shape)
    if rate is not None:
        return _steps(force, times, rate).reshape(shape), np.zeros(shape)
    fine = _integrated(force, times, TOLERANCE)
    return fine.reshape(shape), np.abs(fine - _integrated(force, times, TOLERANCE * CHECK)).reshape(shape)


def _integrated(force: LogitVelocity, times: np.ndarray, tolerance: float) -> np.ndarray:
    n, order = force.codes.shape[0], np.argsort(times, kind="stable")
    found = solve_ivp(
        lambda _, u: force(u) / n, (0.0, max(float(times.max()), 1e-300)), np.zeros(force.codes.size), method="BDF",
        t_eval=np.unique(times), rtol=tolerance, atol=tolerance * 1e-3, jac=lambda _, u: force.slope(u) / n,
    )  # fmt: skip
    if not found.success:
        raise MeanFieldError(f"The flow under cross-entropy could not be integrated to t = {times.max():g}: "
                             f"{found.message}")  # fmt: skip
    places = np.searchsorted(found.t, times[order])
    out = np.empty((len(times), force.codes.size))
    out[order] = found.y.T[places]
    return out


def _steps(force: LogitVelocity, times: np.ndarray, rate: float) -> np.ndarray:
    n, wanted = force.codes.shape[0], {int(t): i for i, t in enumerate(times)}
    u, out = np.zeros(force.codes.size), np.empty((len(times), force.codes.size))
    for step in range(int(times.max()) + 1):
        for i in [i for i, t in enumerate(times) if int(t) == step] if step in wanted else ():
            out[i] = u
        u = u + rate / n * force(u)
    return out


def outputs(
    kernel: np.ndarray, across: np.ndarray, codes: np.ndarray, starts: np.ndarray, ridge: float, times: np.ndarray,
    rate: float | None, tell: Callable[[int, int], None] | None = None,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """(outputs, their error) of networks that start as `starts` (network, input, class), training inputs first; each
    (network, t, input, class)."""
    n, m = codes.shape
    if n * m > LARGEST and rate is None:
        raise MeanFieldError(
            f"Cross-entropy of {n} inputs and {m} classes is not integrated: its stiff equations have {n * m} "
            f"unknowns, and {LARGEST} is the most; give fewer inputs, rate= (steps of gradient descent), or loss='mse'."
        )
    every, found, wrong = np.concatenate((kernel, across)), [], []
    for done, start in enumerate(starts):
        u, error = flow(LogitVelocity(kernel, codes, ridge, start[:n]), times, rate)
        found.append(start - every @ u)
        wrong.append(np.abs(every) @ error)
        if tell is not None:
            tell(done + 1, len(starts))
    return np.array(found), np.array(wrong)
