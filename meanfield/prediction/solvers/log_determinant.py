r"""log det(Θ + ρ) by stochastic Lanczos quadrature, with its standard error.

log det A = log det P + tr log(P^(-1/2) A P^(-1/2)), and the trace is the mean of zᵀ log(…) z over z of signs. Each is a
Gauss quadrature in the eigenvalues of a tridiagonal matrix of few Lanczos steps: a preconditioner that is near A leaves
a small spread and takes few steps. All probes take their steps together, one pass over the kernel's rows for each step.

Source: Ubaru, Chen and Saad, Fast estimation of tr(f(A)) via stochastic Lanczos quadrature (2017), Sec. 3.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh_tridiagonal

from meanfield.prediction.solvers.low_rank import LowRank

STEPS = 200  # of Lanczos, at most
SHARE = 0.05  # of the standard error, below which a further step changes nothing
LOST = 1e-12  # of the largest entry: what a step leaves where nothing is left


def log_determinant(
    times: Callable[[np.ndarray], np.ndarray], near: LowRank, probes: int, seed: int,
    tell: Callable[[int, int], None] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """(log det A, its standard error, to which the change by the last step is added); times: products with A.

    probes: vectors of random signs, 2 at least."""
    n = len(near.Q)
    v = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, probes)) / np.sqrt(n)
    runs = [_Run() for _ in range(probes)]
    going, before, off = np.arange(probes), np.zeros_like(v), np.zeros(probes)  # probes that have not come to an end
    for step in range(min(STEPS, n)):
        w = near.root(times(near.root(v))) - off * before
        alpha = np.einsum("ac,ac->c", w, v)
        w -= alpha * v
        off = np.sqrt(np.einsum("ac,ac->c", w, w))
        for c, a, b in zip(going, alpha, off):
            runs[c].add(float(a), float(b), n)
        if tell is not None:
            tell(step + 1, min(STEPS, n))
        spread = float(np.std([run.value for run in runs], ddof=1) / np.sqrt(probes))
        open_ = np.array([not run.ended for run in runs])[going]
        changes = max((runs[c].change for c in going[open_]), default=0.0)
        if changes <= max(SHARE * spread, 1e-12 * n):
            break
        going, before, v, off = going[open_], v[:, open_], w[:, open_] / off[open_], off[open_]
    return near.log_determinant + float(np.mean([run.value for run in runs])), spread + changes


class _Run:
    """The steps of one probe. value: n times its quadrature; change: by the last step; ended: whether the probe lies in
    a space that its steps have filled, so that nothing is left to change: signs may be an eigenvector."""

    def __init__(self) -> None:
        self.alphas: list[float] = []
        self.betas: list[float] = []
        self.value, self.change, self.ended = np.nan, np.inf, False

    def add(self, alpha: float, off: float, n: int) -> None:
        """One more step; off: the length of what is left."""
        self.alphas.append(alpha)
        value = n * _quadrature(np.array(self.alphas), np.array(self.betas))
        self.change = abs(value - self.value) if len(self.alphas) > 1 else np.inf
        self.value, self.ended = value, off <= LOST * max(map(abs, (*self.alphas, *self.betas)))
        self.betas.append(off)


def _quadrature(alpha: np.ndarray, beta: np.ndarray) -> float:
    """Σ τ² log θ over the eigenvalues θ of a tridiagonal matrix, τ the first entries of their vectors."""
    theta, vectors = eigh_tridiagonal(alpha, beta)
    return float((vectors[0] ** 2 * np.log(np.maximum(theta, np.finfo(float).tiny))).sum())
