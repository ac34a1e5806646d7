"""Where correlations end over a grid: zeros of known functions, and which points take which answer."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.bias.guessing import BiasPhase
from meanfield.numeric.phases import correlation_grids
from meanfield.numeric.phases.correlation_grids import CorrelationCells, ends, zeros
from meanfield.presentation import bias_diagrams


def cells(*rows):
    """(σ_w, σ_b, K*, χ_J*, odd) of some points."""
    w, b, K, chi, odd = zip(*rows)
    return CorrelationCells(*(np.array(v, dtype=float) for v in (w, b, K, chi)), np.array(odd, dtype=bool))


class Block:
    """A block that says which of its points it was asked for."""

    def __init__(self, identity=False, free=0.25, keeps=False):
        self.asked, self.identity, self.free, self.keeps = {}, identity, free, keeps

    def fixed_points(self, points):
        self.asked["settle"] = points.sigma_w.tolist()
        return tuple(np.full((3, points.K.size), 0.5) * [[1], [1.2], [1e-3]])

    def without_K(self, points):
        self.asked["without_K"] = points.sigma_w.tolist()
        return tuple(np.full((3, points.K.size), self.free))

    def keeps_angles(self, points):
        self.asked["angles"] = points.sigma_w.tolist()
        return np.full(points.K.size, self.keeps)

    def is_identity(self, points):
        self.asked["identity"] = points.sigma_w.tolist()
        return np.full(points.K.size, self.identity)


@pytest.mark.parametrize("identity", [False, True])
def test_which_points_take_which_answer(identity):
    """Ordered up to χ_J = 1 + EXACTLY with it, chaotic beyond; K at 0 or ∞ apart; χ_J unknown claims nothing."""
    tiny, block = correlation_grids.EXACTLY, Block(identity)
    points = cells(
        (1, 1, 2.0, 0.5, False), (2, 1, 2.0, 1 + 0.99 * tiny, False), (3, 1, 2.0, 1 + 1.01 * tiny, False),
        (4, 1, 2.0, 3.0, False), (5, 1, 0.0, 0.5, False), (6, 1, math.inf, 2.0, False), (7, 1, 2.0, math.nan, False),
        (8, 1, 0.0, math.nan, False), (9, 1, 2.0, 1 - 1.01 * tiny, False), (10, 1, 2.0, math.inf, False),
    )  # fmt: skip
    found = ends(points, block)
    assert block.asked == {"identity": [2], "settle": [3, 4, 10], "without_K": [5, 6]}
    critical = math.nan if identity else 0.0
    nan = math.nan
    assert np.array_equal(found.gap, [0, critical, 0.5, 0.5, 0.25, 0.25, nan, nan, 0, 0.5], equal_nan=True)
    chi = points.chi_J
    slope = [0.5, nan if identity else chi[1], 0.6, 0.6, 0.25, 0.25, nan, nan, chi[8], 0.6]
    assert np.array_equal(found.slope, slope, equal_nan=True)
    assert np.array_equal(found.error[[0, 2, 4]], [0, 5e-4, 0.25]) and not found.start.any()


def test_odd_functions_without_a_bias():
    """Orthogonal inputs stay so: exactly where they are chaotic, from the start where nothing else is known and σ_w >
    0; not where they are ordered."""
    rows = [(1, 0, 2.0, 3.0), (2, 0, 2.0, 0.5), (3, 0, 2.0, math.nan), (0, 0, 0.0, 0.0), (4, 0, 0.0, 0.5)]
    found = ends(cells(*((*row, True) for row in rows)), Block(free=math.nan))
    assert np.array_equal(found.gap, [1, 0, 1, math.nan, 1], equal_nan=True)
    assert found.start.tolist() == [False, False, True, False, True]
    assert np.array_equal(found.error, [0, 0, 0, math.nan, 0], equal_nan=True) and found.slope[0] == 0.6
    other = ends(cells(*((*row, False) for row in rows)), Block(free=math.nan))
    assert other.gap[0] == 0.5 and not other.start.any() and np.isnan(other.gap[[2, 3, 4]]).all()
    block = Block(free=math.nan, keeps=True)  # K falls by a factor a layer, and the map of c becomes the identity
    fall = ends(cells(*((*row, False) for row in rows)), block)
    assert fall.start.tolist() == [False] * 4 + [True] and np.isnan(fall.gap[4]) and block.asked["angles"] == [4]


def test_zeros_of_falling_functions():
    """Roots of x^p = r from 1e-12 to 0.97 at once to 14 digits; 1 where not below 0 at 1, NaN where never above it or
    where unknown."""
    roots, powers = np.array([1e-12, 1e-5, 0.3, 0.97, 0.5]), np.array([1.0, 0.5, 3.0, 1.0, 7.0])

    def excess(where, gap):
        tail = np.array([-1.0, 1.0, 0.0, math.nan])
        inside = where < 5
        at = np.minimum(where, 4)
        own = roots[at] ** powers[at] - gap ** powers[at]
        return np.where(inside, own, tail[np.clip(where - 5, 0, 3)])

    found = zeros(excess, 9)
    assert found[:5] == pytest.approx(roots, rel=1e-14)
    assert np.array_equal(found[5:], [math.nan, 1.0, 1.0, math.nan], equal_nan=True)
    assert zeros(excess, 0).shape == (0,)


def test_the_phase_of_a_point():
    """By its end c* against 1/2, known to its error, by χ_J against 1 and by K: on both sides of every border."""
    nan, inf, P = math.nan, math.inf, BiasPhase
    rows = {  # (K, χ_J, 1 - c*, error, start) → its phase
        (1.0, 0.5, 0.0, 0.0, False): P.ORDERED_DEEP_PREJUDICE,
        (1.0, 2.0, 0.0, 0.0, False): P.CHAOTIC_DEEP_PREJUDICE,
        (1.0, 1.0, 0.0, 0.0, False): P.TRANSIENT_DEEP_PREJUDICE,
        (inf, 1.0, 0.0, 0.0, False): P.DIVERGENT_DEEP_PREJUDICE,
        (inf, 0.5, 0.0, 0.0, False): P.ORDERED_DEEP_PREJUDICE,
        (0.0, 0.5, 0.0, 0.0, False): P.VANISHING_DEEP_PREJUDICE,
        (1.0, nan, 0.0, 0.0, False): P.UNKNOWN,
        (1.0, 2.0, 0.3, 0.0, False): P.PREJUDICE,
        (1.0, 2.0, 0.7, 0.0, False): P.NEUTRALITY,
        (1.0, 2.0, 0.5, 0.0, False): P.BALANCE,
        (1.0, 2.0, 0.49, 0.02, False): P.BALANCE,
        (1.0, 2.0, 0.51, 0.02, False): P.BALANCE,
        (1.0, 2.0, 0.49, 0.005, False): P.PREJUDICE,
        (1.0, 2.0, 0.51, 0.005, False): P.NEUTRALITY,
        (1.0, 1.0, nan, 0.0, False): P.UNKNOWN,
        (0.0, 2.0, 1.0, 0.0, True): P.BY_THE_START,
    }
    for at in ((1.0, 1 + 0.9 * correlation_grids.EXACTLY), (1.0, 1 - 0.9 * correlation_grids.EXACTLY)):
        rows[(*at, 0.0, 0.0, False)] = P.TRANSIENT_DEEP_PREJUDICE
    rows[1.0, 1 + 1.1 * correlation_grids.EXACTLY, 0.0, 0.0, False] = P.CHAOTIC_DEEP_PREJUDICE
    K, chi, gap, error, start = (np.array(v) for v in zip(*rows))
    found = bias_diagrams._phases(SimpleNamespace(K=K, chi_J=chi), gap, error, start)
    names = list(BiasPhase)
    for at, (row, phase) in enumerate(rows.items()):
        assert names[found[at]] == phase, row
