"""Numbers behind class fractions: interpolation of known cubics, roots of known functions, a law by Gauss's rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import ndtr

from meanfield.bias import class_numbers


def cubic(x):
    return 0.25 + 0.1 * x + 0.02 * x**2 - 0.01 * x**3


def slope(x):
    return 0.1 + 0.04 * x - 0.03 * x**2


def test_a_cubic_is_interpolated_exactly_and_constant_outside():
    """In every cell and at every node, the first and the last with them; the law stays in [0, 1] and never falls."""
    v = np.array([-1.0, -0.75, 0.0, 0.5, 1.5])
    x = np.concatenate((np.linspace(-1.0, 1.5, 101), v))
    value, rate = class_numbers.interpolated(v, cubic(v), slope(v), x)
    assert value == pytest.approx(cubic(x), abs=1e-14) and rate == pytest.approx(slope(x), abs=1e-13)
    value, rate = class_numbers.interpolated(v, cubic(v), slope(v), np.array([-1.1, -9.0, 1.6, 9.0]))
    assert value == pytest.approx(cubic(np.array([-1.0, -1.0, 1.5, 1.5])), abs=1e-14) and not rate.any()
    falling = class_numbers.interpolated(v, 1 - 3 * cubic(v), -3 * slope(v), np.linspace(-1, 1.5, 51))
    assert not falling[1].any() and falling[0].min() == 0.0
    above = class_numbers.interpolated(v, 1 + cubic(v), slope(v), np.array([0.3]))
    assert above[0] == 1.0


def test_inverses_of_rising_functions():
    """Rows v = 2w + 1 and v = w³ + 3w: the place and the speed inside, and straight on with the slope at the ends."""
    w = np.linspace(-2.0, 2.0, 401)
    rows, inverse = np.array([2 * w + 1, w**3 + 3 * w]), np.array([np.full(401, 0.5), 1 / (3 * w**2 + 3)])
    target = np.array([-20.0, -14.0, -2.9, -1.0, 0.0, 0.01, 2.5, 4.9, 14.0, 17.0])
    place, speed = class_numbers._inverse(rows, w, inverse, target)
    assert place[0] == pytest.approx((target - 1) / 2, abs=1e-12) and speed[0] == pytest.approx(0.5, abs=1e-9)
    for i, v in enumerate(target):
        if abs(v) <= 14:
            root = brentq(lambda x, v=v: x**3 + 3 * x - v, -3, 3, xtol=1e-14)
            assert place[1, i] == pytest.approx(root, abs=1e-9)
            assert speed[1, i] == pytest.approx(1 / (3 * root**2 + 3), rel=1e-5)
        else:
            assert place[1, i] == pytest.approx(math.copysign(2 + (abs(v) - 14) / 15, v), abs=1e-12)
            assert speed[1, i] == pytest.approx(1 / 15, abs=1e-12)


def law_of_three(v: np.ndarray, root: float) -> np.ndarray:
    """P(G_0 ≤ Φ(v)) of three classes: given the difference of two centres, G_0 rises with the third, and where it is
    Φ(v) is found by halves; the third's spread about the mean of the others is √(3γ/2)."""
    y, dy = np.linspace(-8, 8, 65, retstep=True)
    density = dy * np.exp(-y * y / 2) / math.sqrt(2 * math.pi)
    x, weights = np.polynomial.hermite_e.hermegauss(21)
    half = (root * x / math.sqrt(2))[:, None, None]
    low, high = np.full((len(x), len(v)), -30.0), np.full((len(x), len(v)), 30.0)
    for _ in range(45):
        t = (low + high) / 2
        z = y + t[..., None]
        up = (ndtr(z - half) * ndtr(z + half)) @ density < ndtr(v)
        low, high = np.where(up, t, low), np.where(up, high, t)
    return weights @ ndtr(low / (root * math.sqrt(1.5))) / math.sqrt(2 * math.pi)


@pytest.mark.slow_with("1.0")
@pytest.mark.parametrize("root", [0.5, 1.0])
def test_the_law_of_three_classes(root):
    """The table, narrow below root = 1 and wide from there on, to four of the errors that its random shifts show; its
    slope as a difference quotient."""
    v, below, rate = class_numbers.table(3, root)
    assert below.shape == rate.shape == (class_numbers.SHIFTS, len(v))
    at = np.array([-1.1, -0.4, 0.2]) if root == 1 else np.array([-0.8, -0.43, -0.1])
    off = at - class_numbers.centre(3)
    each = np.array([class_numbers.interpolated(v, b, r, off) for b, r in zip(below, rate)])
    mean, error = each.mean(axis=0), each.std(axis=0, ddof=1) / class_numbers.SHIFTS**0.5
    assert error[0].max() < 2e-5
    before, true, after = law_of_three(np.concatenate((at - 0.01, at, at + 0.01)), root).reshape(3, -1)
    assert (np.abs(mean[0] - true) <= 4 * error[0] + 1e-7).all()
    assert mean[1] == pytest.approx((after - before) / 0.02, rel=2e-3)


def test_fractions_of_known_centres():
    """Equal centres share equally; of two, G_0 = Φ(root·(μ_0 − μ_1)/√2); far ahead one takes all, behind nothing."""
    assert class_numbers.fractions_at(np.zeros((2, 5)), 3.0) == pytest.approx(np.full(2, 0.2), abs=1e-12)
    centres = np.array([[0.4, -0.3], [-1.0, 0.5]])
    two = ndtr(0.7 * (centres[:, 0] - centres[:, 1]) / math.sqrt(2))
    assert class_numbers.fractions_at(centres, 0.7) == pytest.approx(two, abs=1e-12)
    assert class_numbers.fractions_at(np.array([[9.0, 0.0, 0.0], [-9.0, 0.0, 1.0]]), 1e6).tolist() == [1.0, 0.0]
    many = np.random.default_rng(0).standard_normal((7, 4))
    assert class_numbers.fractions_at(many, 1.0, rows=3) == pytest.approx(
        class_numbers.fractions_at(many, 1.0), abs=1e-15
    )


def test_stirlings_remainder():
    """log n! less Stirling's formula, on both sides of where the series takes over, against log Γ at 40 digits."""
    import mpmath as mp

    n = np.array([1.0, 2.0, 7.0, 15.0, 16.0, 17.0, 60.0, 1e5])
    with mp.workdps(40):
        true = [float(mp.loggamma(k + 1) - (mp.mpf(k) + 0.5) * mp.log(k) + k - mp.log(2 * mp.pi) / 2) for k in n]
    assert class_numbers._stirling(n) == pytest.approx(true, rel=1e-11, abs=2e-15)
