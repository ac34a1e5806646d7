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


def log_determinant(
    times: Callable[[np.ndarray], np.ndarray], near: LowRank, probes: int, seed: int,
    tell: Callable[[int, int], None] | None = None,
) -> tuple[float, float]:  # fmt: skip
    """(log det A, its standard error, to which the change by the last step is added); times: products with A.

    probes: vectors of random signs, 2 at least."""
    n = len(near.Q)
    v = np.random.default_rng(seed).choice([-1.0, 1.0], size=(n, probes)) / np.sqrt(n)
    before, off = np.zeros_like(v), np.zeros(probes)
    alphas: list[np.ndarray] = []
    betas: list[np.ndarray] = []
    value, changes = np.full(probes, np.nan), np.inf
    spread = np.inf
    for step in range(min(STEPS, n)):
        w = near.root(times(near.root(v))) - off * before
        alpha = np.einsum("ac,ac->c", w, v)
        w -= alpha * v
        alphas.append(alpha)
        found = n * np.array([_quadrature(np.array(alphas)[:, c], np.array(betas)[:, c]) for c in range(probes)]) \
            if betas else n * np.log(alpha)  # fmt: skip
        changes = float(np.abs(found - value).max()) if step else np.inf
        value, spread = found, float(found.std(ddof=1) / np.sqrt(probes))
        if tell is not None:
            tell(step + 1, min(STEPS, n))
        off = np.sqrt(np.einsum("ac,ac->c", w, w))
        if changes <= max(SHARE * spread, 1e-12 * n) or (off < 1e-12).any():
            break
        betas.append(off)
        before, v = v, w / off
    return near.log_determinant + float(value.mean()), spread + (changes if np.isfinite(changes) else 0.0)


def _quadrature(alpha: np.ndarray, beta: np.ndarray) -> float:
    """Σ τ² log θ over the eigenvalues θ of a tridiagonal matrix, τ the first entries of their vectors."""
    theta, vectors = eigh_tridiagonal(alpha, beta)
    return float((vectors[0] ** 2 * np.log(np.maximum(theta, np.finfo(float).tiny))).sum())
