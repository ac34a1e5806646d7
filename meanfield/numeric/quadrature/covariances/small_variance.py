"""Averages of several inputs at small K, in balls: maps whose terms cancel as K → 0 keep their digits.

With orthogonal weights what is linear in φ drops out of A, B, D and F: their sources are of order K² and K of the terms
they are sums of. There φ is its Taylor polynomial, and ⟨z_a^i z_b^j …⟩ is a polynomial in the covariance (Isserlis), so
that an average costs a sum and has as many digits as are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from flint import arb

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.activations import Activation
from meanfield.functions.series.taylor import taylor
from meanfield.numeric.quadrature.covariances.layer_averages import LayerAverages, NeededAverages

BITS = 200
LARGEST = 1e-4  # of K over the square of the radius within which φ is like its linear part
MOST = 14  # the degree of a product of four Taylor polynomials


@lru_cache(maxsize=32)
def coefficients(phi: Activation, highest: int) -> tuple[tuple[arb, ...], float] | None:
    """(Taylor coefficients of φ at 0, ρ² of the radius 1/ρ on which φ bends); None where φ has none, or no slope."""
    if phi.pieces.breaks:
        return None
    try:
        terms = taylor(phi.pieces.expr, Z[0], MOST + 2 + highest)
        with balls.precision(BITS):
            found = tuple(balls.constant(t) for t in terms)
    except (MeanFieldError, ArithmeticError, TypeError, ValueError):
        return None
    if len(found) < 2 or not all(t.is_finite() for t in found) or found[1].contains(0):
        return None
    sizes = [abs(float(t.mid())) / abs(float(found[1].mid())) for t in found]
    return found, max(s ** (2 / (k - 1)) for k, s in enumerate(sizes) if k > 1) if len(sizes) > 2 else 0.0


def small(averages: NeededAverages, phi: Activation, K: np.ndarray) -> LayerAverages | None:
    """All averages at a covariance of balls, as arrays of balls; None where K is not small for φ."""
    highest = max(averages.highest2, averages.highest4)
    known = coefficients(phi, highest)
    if known is None:
        return None
    terms, bend = known
    x = bend * max(float(K[a, a]) for a in range(len(K)))
    if not 0 <= x <= LARGEST:
        return None
    # sources start at K⁴, where what they are sums of starts at K²
    degree = next((d for d in range(8, MOST, 2) if x ** (d // 2 - 3) < 1e-11), MOST)
    series = [_derivative(terms, d, degree + 2) for d in range(highest + 1)]
    moments = GaussianMoments(K)
    two, four, error = {}, {}, 0.0
    for orders, by in averages.two:
        own = [series[o + p] for o, p in zip(orders, by)]
        two[orders, by] = _table(own, moments, degree)
        error = max(error, _missed(own, degree, bend, x))
    for some in averages.four:
        own = [series[o] for o in some]
        four[some] = _table(own, moments, degree)
        error = max(error, _missed(own, degree, bend, x))
    return LayerAverages(two, four, error)


def _derivative(terms: Sequence[arb], order: int, degree: int) -> list[tuple[int, arb]]:
    """(k, coefficient of z^k) of φ^(order) up to a degree, those that are 0 left out."""
    found = [(k, terms[k + order] * math.perm(k + order, order)) for k in range(degree + 1) if k + order < len(terms)]
    return [(k, c) for k, c in found if c != 0]


def _missed(own: Sequence[list[tuple[int, arb]]], degree: int, bend: float, x: float) -> float:
    """What ⟨Π f⟩ misses of the factors' root mean squares multiplied; own: the factors, two degrees further.

    That is the terms beyond `degree` but for a share of order x. By Hölder's inequality a moment of even degree D is at
    most (D − 1)!! Π K_a^(k/2), and each root mean square is that of its factor's first term but for such a share.
    """
    if x == 0 or not all(own):
        return 0.0
    sizes = [[(k, abs(float(c.mid())) * bend ** (-k / 2)) for k, c in one] for one in own]
    found: dict[int, float] = {0: 1.0}  # total degree → the sum of all products of sizes
    for one in sizes:
        grown: dict[int, float] = {}
        for total, size in found.items():
            for k, c in one:
                grown[total + k] = grown.get(total + k, 0.0) + size * c
        found = grown
    first = sum(one[0][0] for one in sizes)
    scale = math.prod(one[0][1] * math.prod(range(1, 2 * one[0][0], 2)) ** 0.5 for one in sizes)
    rest = sum(
        size * math.prod(range(1, total, 2)) * x ** ((total - first) / 2)
        for total, size in found.items()
        if total > degree and total % 2 == 0
    )
    return 1.1 * rest / scale


class GaussianMoments:
    """⟨Π_a z_a^{k_a}⟩ at one covariance: ⟨z_a m⟩ = Σ_b K_ab ⟨∂m/∂z_b⟩."""

    def __init__(self, K: np.ndarray):
        self.K = K
        self.known: dict[tuple[int, ...], arb] = {(0,) * len(K): arb(1)}

    def __call__(self, powers: tuple[int, ...]) -> arb:
        if powers in self.known:
            return self.known[powers]
        total = arb(0)
        if sum(powers) % 2 == 0:
            a = next(i for i, k in enumerate(powers) if k)
            rest = list(powers)
            rest[a] -= 1
            for b, k in enumerate(rest):
                if k:
                    rest[b] -= 1
                    total += self.K[a, b] * k * self(tuple(rest))
                    rest[b] += 1
        self.known[powers] = total
        return total


def _table(own: Sequence[list[tuple[int, arb]]], moments: GaussianMoments, degree: int) -> np.ndarray:
    """⟨Π f(z_a)⟩ at every tuple of inputs."""
    out = np.empty((len(moments.K),) * len(own), dtype=object)
    terms = _products(own, degree)
    for at in np.ndindex(out.shape):
        tick()
        total = arb(0)
        for powers, coefficient in terms:
            where = [0] * len(moments.K)
            for a, k in zip(at, powers):
                where[a] += k
            total += coefficient * moments(tuple(where))
        out[at] = total
    return out


def _products(own: Sequence[list[tuple[int, arb]]], degree: int) -> list[tuple[tuple[int, ...], arb]]:
    """(powers, coefficient) of the product of polynomials in variables of their own, of even degree up to `degree`."""
    found: list[tuple[tuple[int, ...], arb]] = [((), arb(1))]
    for one in own:
        found = [((*p, k), c * d) for p, c in found for k, d in one if sum(p) + k <= degree]
    return [(p, c) for p, c in found if sum(p) % 2 == 0]
