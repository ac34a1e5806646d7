"""What is 0 on average at every width, for `ensembles`: means over the neurons of a layer less their averages
given the layer before, and products of two of them less theirs.

Given y = σ(z) of the layer before, |y|² = s, and inner = σ′Hσ′ there, let o be a neuron's row of W/σ_w, c its
component along y and r the rest. Then z = σ_w |y| c + b and

    H = own + σ_w² (c² a + 2 c r·v + r·M r),  a = y·inner y/s, M: inner across y, v: inner y/|y| across y.

Rows are normal of variance 1/n, or of a Haar matrix: c is a component of a unit vector in n dimensions and, given c,
r is uniform among the vectors with |r|² = 1 − c² in m = n − 1; r, r′ of two neurons have r·r′ = −c c′ =: q, and

    E[r_i r_j r′_k r′_l] = α δ_ij δ_kl + β (δ_ik δ_jl + δ_il δ_jk):  |r|²|r′|² = α m² + 2βm, q² = αm + β(m² + m).

What is left, averages over c, c′ and b, are functions of s alone: polynomials in own, a, t = tr M, |v|², |M|² with
coefficients from tables in log s.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import combinations_with_replacement

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import roots_gegenbauer, roots_hermitenorm

Poly = dict[tuple[int, ...], np.ndarray]  # powers of own, a, t, |v|², |M|²: coefficients
ONE, OWN, A, T = (0, 0, 0, 0, 0), (1, 0, 0, 0, 0), (0, 1, 0, 0, 0), (0, 0, 1, 0, 0)
TT, VV, MM = (0, 0, 2, 0, 0), (0, 0, 0, 1, 0), (0, 0, 0, 0, 1)
GRID = np.linspace(np.log(1e-6), np.log(1e3), 321)  # of log s/n
STEP = 0.38  # of a standard normal number


@lru_cache(maxsize=64)
def component(weights: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Places and weights of a mean over one entry of a row: normal of variance 1/n, or of a unit vector, sin θ.

    Trapezoids, troubled by poles of φ at a distance less than Gauss's rules: e^(−2π distance/step); sin θ with the
    density cos^(n−2) θ is periodic, up to an absolute value for odd n. In few dimensions Gauss's is better.
    """
    if weights != "orthogonal":
        c = STEP * np.arange(-22, 23)
        weight = np.exp(-c * c / 2)
        return c / np.sqrt(n), weight / weight.sum()
    if n <= 40:
        c, weight = roots_gegenbauer(40, (n - 2) / 2)
        return c, weight / weight.sum()
    count = 2 * round(np.pi * np.sqrt(n) / STEP / 2) + 1
    theta = np.pi * (np.arange(count) - count // 2) / count
    weight = np.cos(theta) ** (n - 2)
    seen = weight > 1e-16
    return np.sin(theta[seen]), weight[seen] / weight.sum()


@lru_cache(maxsize=1)
def normal() -> tuple[np.ndarray, np.ndarray]:
    """Of a mean over a standard normal number, for biases, which are small beside where φ has poles."""
    g, weight = roots_hermitenorm(11)
    return g, weight / weight.sum()


def times(p: Poly, q: Poly) -> Poly:
    found: Poly = {}
    for a, f in p.items():
        for b, g in q.items():
            power = tuple(i + j for i, j in zip(a, b))
            found[power] = found.get(power, 0.0) + f * g
    return found


def plus(*parts: tuple[float, Poly]) -> Poly:
    found: Poly = {}
    for factor, p in parts:
        for power, f in p.items():
            found[power] = found.get(power, 0.0) + factor * f
    return found


PAIRS = tuple(combinations_with_replacement(range(4), 2))


class Tables:
    """Averages given the layer before of f = z², σ², H, σ′²H: polynomials whose coefficients are arrays on GRID.

    `means`, one each; `products`, of every two in PAIRS: covariances of their means over neurons; `z2H`: of z²H.
    """

    def __init__(self, functions: tuple[Callable, Callable], weights: str, n: int, sigma_w: float, sigma_b: float):
        self.functions, self.haar, self.n, self.w = functions, weights == "orthogonal", n, sigma_w**2
        self.length, self.sigma_b = sigma_w * np.sqrt(n * np.exp(GRID))[:, None], sigma_b
        self.g, self.of_g = normal() if sigma_b else (np.zeros(1), np.ones(1))
        c, weight = component(weights, n)
        factors = self._factors(c)
        self.means = [_mean(p, weight) for p in self._conditional(factors, c)]
        same = [_mean(self._same(k, l, factors, c), weight) for k, l in PAIRS]
        if self.haar:
            other, of_other = component(weights, n - 1)
            first, second = np.repeat(c, len(other)), (np.sqrt(1 - c * c)[:, None] * other).ravel()
            one = np.repeat(np.stack([f @ self.of_g for f in factors]), len(other), axis=2)
            two = np.stack([f @ self.of_g for f in self._factors(second)])
            both = (weight[:, None] * of_other).ravel()
            apart = [_mean(self._apart(k, l, one, two, first, second), both) for k, l in PAIRS]
        else:
            apart = [times(self.means[k], self.means[l]) for k, l in PAIRS]
        outer = [times(self.means[k], self.means[l]) for k, l in PAIRS]
        self.products = [plus((1 / n, s), (1 - 1 / n, a), (-1, o)) for s, a, o in zip(same, apart, outer)]
        self.z2H = same[PAIRS.index((0, 2))]
        every = [*self.means, *self.products, self.z2H]
        self.powers = [list(p) for p in every]
        columns = [np.broadcast_to(f, GRID.shape) for p in every for f in p.values()]
        self.spline = CubicSpline(GRID, np.stack(columns, axis=1))

    def at(self, square: np.ndarray, kernel: tuple[np.ndarray, ...] | None) -> list[np.ndarray]:
        """The averages at |y|² = square, (N,), and own, a, t, |v|², |M|²; without a kernel only those free of it."""
        place = np.log(square / self.n)
        if place.min() < GRID[0] or place.max() > GRID[-1]:
            raise ValueError("a layer's mean square is beyond the tables")
        columns, found, first = self.spline(place), [], 0
        for powers in self.powers:
            value = 0.0
            for i, power in enumerate(powers):
                if kernel is not None:
                    value = value + columns[:, first + i] * np.prod([x**k for x, k in zip(kernel, power) if k], axis=0)
                elif not any(power):
                    value = value + columns[:, first + i]
            first += len(powers)
            found.append(value)
        return found

    def _factors(self, c: np.ndarray) -> list[np.ndarray]:
        """z², σ², 1, σ′² at GRID, c and b."""
        sigma, slope = self.functions
        z = (self.length * c)[:, :, None] + self.sigma_b * self.g
        return [z**2, sigma(z) ** 2, np.ones(z.shape), slope(z) ** 2]

    def _rest(self, c: np.ndarray) -> np.ndarray:
        """E[r_i²] given c."""
        return (1 - c * c) / (self.n - 1) if self.haar else np.full(c.shape, 1 / self.n)

    def _kernel(self, c: np.ndarray) -> Poly:
        """E[H] given c."""
        return {OWN: np.ones(c.shape), A: self.w * c * c, T: self.w * self._rest(c)}

    def _conditional(self, factors: list[np.ndarray], c: np.ndarray) -> list[Poly]:
        one, h = {ONE: np.ones(c.shape)}, self._kernel(c)
        return [times({ONE: f @ self.of_g}, one if k < 2 else h) for k, f in enumerate(factors)]

    def _same(self, k: int, l: int, factors: list[np.ndarray], c: np.ndarray) -> Poly:
        """Of two f of one neuron; the variance of H given c is that of 2c r·v + r·M r."""
        h, m = self._kernel(c), self.n - 1
        if self.haar:
            fourth = (1 - c * c) ** 2 / (m * (m + 2))
            spread = {MM: 2 * fourth, TT: fourth - self._rest(c) ** 2}
        else:
            spread = {MM: np.full(c.shape, 2 / self.n**2)}
        squared = plus((1, times(h, h)), (self.w**2, spread), (self.w**2, {VV: 4 * c * c * self._rest(c)}))
        kernel = ({ONE: np.ones(c.shape)}, h, squared)[(k > 1) + (l > 1)]
        return times({ONE: (factors[k] * factors[l]) @ self.of_g}, kernel)

    def _apart(self, k: int, l: int, one, two, first: np.ndarray, second: np.ndarray) -> Poly:
        """Of f of one and f of another row of a Haar matrix; α, β as above."""
        m, q, lengths = self.n - 1, -first * second, (1 - first**2) * (1 - second**2)
        scale = m * (m - 1) * (m + 2)
        alpha, beta = ((m + 1) * lengths - 2 * q * q) / scale, (m * q * q - lengths) / scale
        shared = {TT: alpha - lengths / m**2, MM: 2 * beta, VV: -4 * q * q / m}
        both = plus((1, times(self._kernel(first), self._kernel(second))), (self.w**2, shared))
        kernel = ({ONE: np.ones(first.shape)}, self._kernel(second), both)[(k > 1) + (l > 1)]
        return times({ONE: one[k] * two[l]}, kernel)


def _mean(p: Poly, weight: np.ndarray) -> Poly:
    return {power: f @ weight for power, f in p.items()}


@lru_cache(maxsize=8)
def tables(functions: tuple[Callable, Callable], weights: str, n: int, sigma_w: float, sigma_b: float) -> Tables:
    return Tables(functions, weights, n, sigma_w, sigma_b)


@lru_cache(maxsize=8)
def first_layer(
    functions: tuple[Callable, Callable], weights: str, n: int, sigma_w: float, sigma_b: float, gram: tuple
) -> tuple[np.ndarray, np.ndarray]:
    """Averages of z_p z_q, σ_p σ_q, σ′_p σ′_q (p ≤ q: 11, 12, 22) of a neuron of layer 1 at two inputs of that Gram
    matrix (divided by n), and the covariance of the means over neurons of every two of these nine.

    A row of a Haar matrix has components c along two directions, of a unit vector; given it, another row's are those of
    a row of a smaller Haar matrix multiplied by √(1 − c cᵀ), so that columns stay orthonormal.
    """
    haar = weights == "orthogonal"
    factor = sigma_w * np.sqrt(n) * np.linalg.cholesky(np.array(gram))
    g, of_g = normal() if sigma_b else (np.zeros(1), np.ones(1))

    def row(size: int) -> tuple[np.ndarray, np.ndarray]:
        c, of_c = component(weights, size if haar else n)
        d, of_d = component(weights, size - 1 if haar else n)
        second = np.sqrt(1 - c * c)[:, None] * d if haar else np.broadcast_to(d, (len(c), len(d)))
        return np.stack([np.repeat(c, len(d)), second.ravel()], axis=1), np.outer(of_c, of_d).ravel()

    def seen(c: np.ndarray) -> np.ndarray:
        """The nine at c and b: (places, 9, b)."""
        z = (c @ factor.T)[:, :, None] + sigma_b * g
        p, q = np.triu_indices(2)
        parts = (z, functions[0](z), functions[1](z))
        return np.concatenate([x[:, p] * x[:, q] for x in parts], axis=1)

    first, weight = row(n)
    here = seen(first)
    one = here @ of_g
    mean = weight @ one
    same = np.einsum("c,cib,cjb,b->ij", weight, here, here, of_g, optimize=True)
    apart = np.outer(mean, mean)
    if haar:
        other, of_other = row(n - 1)
        square = (first * first).sum(axis=1)
        shrink = 1 / (1 + np.sqrt(1 - square))
        two = np.stack([of_other @ (seen(other - s * np.outer(other @ c, c)) @ of_g) for c, s in zip(first, shrink)])
        apart = np.einsum("c,ci,cj->ij", weight, one, two)
    return mean, same / n + (1 - 1 / n) * apart - np.outer(mean, mean)
