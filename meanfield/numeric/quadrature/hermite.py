r"""Functions of a Gaussian as sums of Hermite polynomials: f(z) = Σ_n f_n h_n(z/√K), z ~ N(0, K), h_n orthonormal.

Of two Gaussians of correlation ρ, ⟨h_n h_m⟩ = δ_nm ρ^n: an average ⟨f g⟩ over them is Σ_n f_n g_n ρ^n, its connected
part is the sum without n = 0 (nothing cancels), and a derivative, in the weak sense, shifts coefficients:
∂h_n = √(n/K) h_{n−1}. So kinks and jumps need nothing of their own.

The coefficients are integrals by 24-point Legendre panels, graded from the origin and ending at breaks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.quadrature.rules import gauss_legendre

MOST = 6000  # coefficients
BLOCK = 64  # coefficients between two looks at what is left
SMALL = 1e-17  # of the largest value: nothing to a double
LEAST = 1e-14  # what the last coefficients may add to an average, or to one of a second derivative
PHASE = 28.0  # of the fastest polynomial in one panel of 24 points
REACHES = (13.0, 18.0, 26.0, 38.0)  # in standard deviations


@dataclass(frozen=True)
class HermiteSpectrum:
    """Functions g_a of z ~ N(0, K): their coefficients c[a, n], and the averages ⟨g_a g_b⟩.

    missing: what the coefficients that are left out may add to ⟨g_a g_b⟩ over two Gaussians of the correlation the
    spectrum was made for, of √(⟨g_a²⟩⟨g_b²⟩), by Schwarz's inequality.
    """

    c: np.ndarray
    products: np.ndarray
    missing: float


def spectrum(
    functions: Callable[[np.ndarray], np.ndarray],
    K: float,
    breaks: Sequence[float] = (),
    rho: float = 0.0,
    fine: int = 1,
) -> HermiteSpectrum:
    """The coefficients of functions of one variable, as many as matter at correlations up to rho.

    functions: from an array of z to the values, one row for each; they are analytic between `breaks`. K > 0; fine:
    panels are narrower by this factor. Raises: MeanFieldError where the functions grow too fast.

    >>> found = spectrum(lambda z: np.stack([z, z**2]), 4.0)
    >>> np.abs(found.c[:, :3] - [[0, 2, 0], [4, 0, 32**0.5]]).max() < 1e-13
    np.True_
    """
    most = MOST if rho >= 1 else BLOCK if rho <= 0 else min(MOST, BLOCK + math.ceil(40 / -math.log(rho)))
    x, weights = _nodes(functions, math.sqrt(K), breaks, most, fine)
    half = (2 * math.pi) ** -0.25 * np.exp(-(x**2) / 4)  # the root of the density
    right, reflected = functions(x * math.sqrt(K)) * half, functions(-x * math.sqrt(K)) * half
    unit = np.maximum(np.abs(right), np.abs(reflected)).max(-1, keepdims=True)  # whose square may overflow
    right, reflected = right / np.where(unit > 0, unit, 1.0), reflected / np.where(unit > 0, unit, 1.0)
    products = (weights * (right[:, None] * right[None] + reflected[:, None] * reflected[None])).sum(-1)
    folded = [weights * (right + reflected), weights * (right - reflected)]  # h_n is even or odd, as n is
    nothing = [not part.any() for part in folded]
    square = np.diagonal(products)
    scale = np.sqrt(np.where(square > 0, square, 1.0))
    before, here, product, found, left = np.zeros_like(x), half.copy(), np.empty_like(x), [], 1.0
    for n in range(most):
        found.append(np.zeros(len(square)) if nothing[n % 2] else (folded[n % 2] * here).sum(-1))
        # h_{n+1} = (x h_n − √n h_{n−1})/√(n+1), in place
        np.multiply(x, here, out=product)
        product *= 1 / math.sqrt(n + 1)
        before *= math.sqrt(n / (n + 1))
        np.subtract(product, before, out=before)
        before, here = here, before
        if (n + 1) % BLOCK == 0:
            c = np.array(found) / scale
            left = float(np.abs(1 - (c**2).sum(0) - (square == 0)).max())
            passed = rho**n if rho > 0 else 0.0
            if passed < LEAST or (left < 1e-10 and (n * np.abs(c[-BLOCK:]).max()) ** 2 * passed < LEAST):
                break
    missing = 0.0 if left < 1e-10 else left * rho ** len(found)
    with np.errstate(over="ignore"):
        return HermiteSpectrum(np.array(found).T * unit, products * unit * unit.T, missing)


def _nodes(functions, s: float, breaks: Sequence[float], most: int, fine: int) -> tuple[np.ndarray, np.ndarray]:
    """(x = z/s > 0, weights of ∫ dx) on all that a double sees of functions times the root of a density."""
    with np.errstate(all="ignore"):
        usual = np.abs(functions(s * np.array([-3.0, -2, -1, 0.5, 1, 2, 3]))).max()
        ends = [np.abs(functions(s * np.array([-r, r]))).max() * math.exp(-(r**2) / 4) for r in REACHES]
    reach = next((r for r, end in zip(REACHES, ends) if end <= SMALL * max(usual, 1e-300)), None)
    if reach is None:
        raise MeanFieldError(f"The activation grows too fast for an expansion at K = {s * s:.6g}; take a smaller K.")
    positive, width = [0.0], 0.5 * min(1.0, 1 / s) / fine
    while positive[-1] < reach:
        positive.append(min(positive[-1] + width, reach))
        width = max(width, positive[-1] / fine)
    coarse = np.unique([*positive, *(abs(b) / s for b in breaks if abs(b) < reach * s)])
    widest = PHASE / math.sqrt(most) / fine
    pieces = [np.linspace(a, b, 1 + math.ceil((b - a) / widest))[1:] for a, b in pairwise(coarse)]
    edges = np.concatenate((coarse[:1], *pieces))
    t, w = gauss_legendre(24)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    return (middle[:, None] + half[:, None] * t).ravel(), (half[:, None] * w).ravel()
