"""Pairs of functions with kinks that no series reaches, by averages of their own: opposite inputs and close ones.

The reference integrates one of two Gaussians by hand (ramps and exponentials of a Gaussian have closed forms) and the
other by mpmath; nothing of the panels is in it.
"""

from __future__ import annotations

from functools import lru_cache

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import Z
from meanfield.functions.activations import activation
from meanfield.kernels.loops import nearby as near_tables
from meanfield.kernels.loops.near_sums import MISSED, TAKEN
from meanfield.kernels.loops.nearby import Nearby
from meanfield.kernels.loops.pair_averages import PairAverages
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.modules import cache

W, B = 1.5, 0.1
X = np.array([[1.0, 0.4], [-0.9, -0.5], [1.02, 0.37], [-2.0, -0.8], [0.2, -1.0]])


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No recursion of two inputs answers, and no tables are there from elsewhere."""
    monkeypatch.setattr(TheoryAtNumbers, "engine", lambda *_: pytest.fail("a pair is left to the recursion"))
    monkeypatch.setenv("MEANFIELD_CACHE", str(tmp_path))
    near_tables.nearby.cache_clear()


def _Phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def _ramp(m, s):
    """⟨max(m + s w, 0)⟩."""
    return m * _Phi(m / s) + s * mp.npdf(m / s)


def _exponential(m, s):
    """⟨exp(m + s w)⟩ where that is below 1."""
    return mp.exp(m + s * s / 2) * _Phi(-m / s - s)


KINDS = {  # φ, φ′, their means over m + s w, and kinks
    "hard_tanh": (
        lambda z: max(-1, min(1, z)),
        lambda z: mp.mpf(-1 < z < 1),
        lambda m, s: _ramp(m + 1, s) - _ramp(m - 1, s) - 1,
        lambda m, s: _Phi((1 - m) / s) - _Phi((-1 - m) / s),
        (-1, 1),
    ),
    "elu": (
        lambda z: z if z > 0 else mp.expm1(z),
        lambda z: mp.mpf(1) if z > 0 else mp.exp(z),
        lambda m, s: _ramp(m, s) + _exponential(m, s) - _Phi(-m / s),
        lambda m, s: _Phi(m / s) + _exponential(m, s),
        (0,),
    ),
    "max(z-3,0)": (
        lambda z: max(z - 3, mp.mpf(0)),
        lambda z: mp.mpf(z > 3),
        lambda m, s: _ramp(m - 3, s),
        lambda m, s: _Phi((m - 3) / s),
        (3,),
    ),
}


SMOOTH = {
    "erf": (
        mp.erf,
        lambda z: 2 / mp.sqrt(mp.pi) * mp.exp(-z * z),
        lambda m, s: mp.erf(m / mp.sqrt(1 + 2 * s * s)),
        lambda m, s: 2 / mp.sqrt(mp.pi * (1 + 2 * s * s)) * mp.exp(-m * m / (1 + 2 * s * s)),
        (),
    ),
}


@lru_cache(maxsize=64)
def reference(name: str, s, t, gap) -> tuple:
    """2(√(⟨f²⟩_a⟨f²⟩_b) - ⟨f_a f_b⟩), ⟨f′f′⟩, the rise of ⟨f²⟩, by 40 digits."""
    f, slope, mean, mean_slope, kinks = (KINDS | SMOOTH)[name]
    with mp.workdps(40):
        s, t, gap = mp.mpf(s), mp.mpf(t), mp.mpf(gap)
        c, r = 1 - gap, mp.sqrt(gap * (2 - gap))

        def over(g, u):
            steep = [k / u + j * r / abs(c) for k in kinks for j in (-16, -12, -8, -4, -2, -1, 0, 1, 2, 4, 8, 12, 16)]
            return mp.quad(lambda x: mp.npdf(x) * g(x), sorted({*range(-15, 16, 3), *steep, *(k / s for k in kinks)}))

        def squares(u):
            edges = sorted({*range(-15, 16, 3), *(k / u for k in kinks)})
            return mp.quad(lambda x: mp.npdf(x) * f(u * x) ** 2, edges)

        qa, qb = squares(s), squares(t)
        half = mp.sqrt(qb / qa)  # taken off point by point: the integral of what is left has digits
        both = over(lambda x: f(s * x) * (mean(t * c * x, t * r) - half * f(s * x)), t * c)
        slopes = over(lambda x: slope(s * x) * mean_slope(t * c * x, t * r), t * c)
        rise = (qa - qb) / (s - t) if s != t else mp.nan
        return -2 * both, slopes, rise


def assert_averages(name: str, s: float, t: float, gap: float, off: float = 0.0) -> None:
    f = activation(name).pieces
    found = PairAverages(f.expr, f.diff().expr).of_pairs(*(np.array([v]) for v in (s, t, s - t, gap)))[0] * (1 + off)
    turned, slope, rise = reference(name, s, t, gap)
    assert abs(found[0] / turned - 1) < TAKEN and abs(found[1] / slope - 1) < TAKEN, (found, turned, slope)
    assert s == t or np.isnan(found[2]) or abs(found[2] / rise - 1) < 1e-13, (found, rise)
    assert s == t or abs(s - t) > 0.1 * s or not np.isnan(found[2])


@pytest.mark.fast_with(
    "1.2-1.15-0.017-hard_tanh", "1.2-1.4-1.966-elu", "0.1-2.0-1e-05-erf", "3.0-3.0-1e-14-hard_tanh"
)
@pytest.mark.parametrize("name", ["hard_tanh", "elu", *SMOOTH])
@pytest.mark.parametrize(
    ("s", "t", "gap"), [(1.2, 1.15, 0.017), (1.2, 1.4, 1.966), (0.1, 2.0, 1e-5), (3.0, 3.0, 1e-14)]
)
def test_averages_of_single_pairs(name, s, t, gap):
    assert_averages(name, s, t, gap)
    with pytest.raises(AssertionError, match=r"mpf"):
        assert_averages(name, s, t, gap, off=2 * TAKEN)


@pytest.mark.parametrize(("s", "t", "gap"), [(0.3, 0.3, 0.1), (0.4, 0.5, 0.5), (0.35, 0.35, 1e-9)])
def test_all_mass_lies_beyond_nine_deviations(s, t, gap, monkeypatch):
    """max(z - 3, 0) at K = .09: panels ended at nine deviations, its kink lies at ten, and c was 1 for .033."""
    assert_averages("max(z-3,0)", s, t, gap)
    monkeypatch.setattr(planes, "QUIET", -1.0)
    key = cache.key
    monkeypatch.setattr(cache, "key", lambda text: key(f"planted {text}"))
    planes.plan_of.cache_clear()
    with pytest.raises(AssertionError, match=r"mpf"):
        assert_averages("max(z-3,0)", s, t, gap)
    planes.plan_of.cache_clear()


def assert_gaussian(s: float, t: float, gap: float, off: float = 0.0) -> None:
    """exp(-z²) by its closed form, which is 1 next to 0 and even."""
    found = PairAverages(sp.exp(-Z[0] ** 2), -2 * Z[0] * sp.exp(-Z[0] ** 2)).of_pairs(
        *(np.array([v]) for v in (s, t, s - t, gap))
    )[0]
    with mp.workdps(60):
        A, B, c = mp.mpf(s) ** 2, mp.mpf(t) ** 2, 1 - mp.mpf(gap)
        one, other = (1 / mp.sqrt(1 + 4 * v) for v in (A, B))
        exact = 2 * (mp.sqrt(one * other) - 1 / mp.sqrt((1 + 2 * A) * (1 + 2 * B) - 4 * A * B * c * c))
    assert abs(found[0] * (1 + off) / exact - 1) < 1e-12, f"{found[0]} for {exact}"


@pytest.mark.parametrize(("s", "t"), [(1e-4, 1e-4), (1e-6, 1.3e-6), (1.0, 1.0)])
@pytest.mark.parametrize("gap", [0.5, 2.0 - 2.0**-30, 1e-6])
def test_what_hardly_moves_beside_a_constant(s, t, gap):
    """Differences of f lost what f(0) is larger than they are (1e-5 of a distance at K = 1e-12), and opposite inputs of
    an even f what 1 - c rounds 1 + c to."""
    assert_gaussian(s, t, gap)
    with pytest.raises(AssertionError, match="for"):
        assert_gaussian(s, t, gap, off=1e-11)


@pytest.mark.parametrize("steepness", [20, 300])
def test_squares_of_steep_functions(steepness):
    """Panels of width 1 left 1e-7 of ⟨tanh(20z)²⟩, which stood in K of pairs, and no bound named it."""
    f = sp.erf(steepness * Z[0])
    V = np.array([1e-4, 0.3, 1.0, 50.0])
    exact = 2 / np.pi * np.arcsin(2 * steepness**2 * V / (1 + 2 * steepness**2 * V))
    assert np.abs(PairAverages(f, f.diff(Z[0])).squares(V) / exact - 1).max() < 1e-13
    wide = PairAverages(f, f.diff(Z[0]))
    wide._width = 1.0
    assert np.abs(wide.squares(V) / exact - 1).max() > 1e-9


def assert_one_layer(name: str, pairs: tuple, off: float = 0.0) -> None:
    """K and Theta of the second layer, of opposite and close rows."""
    found = mf.derive(name).kernel(X, sigma_w=W, sigma_b=B, depth=2)
    first = W**2 * X @ X.T / 2 + B**2
    for i, j in pairs:
        s, t = np.sqrt(first[i, i]), np.sqrt(first[j, j])
        turned, slope, _ = reference(name, s, t, 1 - first[i, j] / (s * t))
        qa, qb = ((found.K[k, k] - B**2) / W**2 for k in (i, j))
        K = W**2 * (np.sqrt(qa * qb) - float(turned) / 2) + B**2
        theta = K + W**2 * float(slope) * first[i, j]
        size, whole = np.sqrt(found.K[i, i] * found.K[j, j]), np.sqrt(found.Theta[i, i] * found.Theta[j, j])
        assert abs(found.K[i, j] * (1 + off) - K) < 1e-13 * size, "K"
        assert abs(found.Theta[i, j] * (1 + off) - theta) < 1e-12 * whole, "Theta"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hard_tanh", "elu"])
@pytest.mark.parametrize("pairs", [((0, 1), (0, 2)), ((0, 1), (0, 3), (2, 3), (0, 4))], ids=["two of them", "others"])
def test_rows_that_are_opposite_or_close(name, pairs, monkeypatch):
    assert_one_layer(name, pairs)
    with pytest.raises(AssertionError, match="K"):
        assert_one_layer(name, pairs, off=1e-11)
    true = PairAverages.direction_ratio

    def planted(self, s, t, between, gap, *squares):
        return true(self, s, t, between, np.minimum(gap, 1), *squares)

    monkeypatch.setattr(PairAverages, "direction_ratio", planted)
    with pytest.raises(AssertionError, match="K"):
        assert_one_layer(name, pairs)


@pytest.mark.slow
def test_tables_are_made_when_enough_pairs_ask_for_them(monkeypatch):
    """By boxes and by averages kernels are the same within what they say they miss; which one a kernel with few pairs
    takes depends on its own pairs, not on what other kernels have left."""
    theory, made = mf.derive("hard_swish"), []
    true = Nearby.make
    monkeypatch.setattr(Nearby, "make", lambda self, *box: (made.append(box), true(self, *box)))
    rows = np.array([[1.0, 0.2], [1.01, 0.21], [-1.0, -0.22]])
    at = {"sigma_w": W, "sigma_b": B, "depth": 4}
    one = theory.kernel(rows, **at)
    assert not made
    monkeypatch.setattr(Nearby, "price", lambda *_: 0)
    other = theory.kernel(rows, **at)
    assert made
    monkeypatch.undo()
    monkeypatch.setattr(TheoryAtNumbers, "engine", lambda *_: pytest.fail("a pair is left to the recursion"))
    again = theory.kernel(rows, **at)
    for name in ("K", "Theta"):
        assert np.array_equal(one[name], again[name])
        assert np.abs(one[name] / other[name] - 1).max() < 1e-12
    assert other.error["K"] - one.error["K"] > 0.9 * (MISSED - TAKEN)
    monkeypatch.setattr(Nearby, "price", lambda *_: 1)
    bought = theory.kernel(rows, **at)
    assert bought.error["K"] == other.error["K"] and not np.array_equal(bought.K, one.K)


def test_pairs_that_no_average_serves_are_told_apart(monkeypatch):
    """⟨f²⟩ of one pair is 0 in doubles: the other keeps its own; and a pair that asks again is left over, not told for
    ever."""
    f = activation("max(z - 30, 0)").pieces
    own = PairAverages(f.expr, f.diff().expr)
    s, t, gap = np.array([9.0, 9.0]), np.array([0.5, 8.0]), np.array([0.3, 0.3])
    lost, kept = own.of_pairs(s, t, s - t, gap)
    assert np.isnan(lost).all() and not np.isnan(kept[[0, 1, 3, 4]]).any()
    assert np.array_equal(kept, own.of_pairs(s[1:], t[1:], (s - t)[1:], gap[1:])[0], equal_nan=True)
    asked = []
    true = PairAverages.of_pairs

    def useless(self, *given):
        asked.append(len(given[0]))
        found = true(self, *given)
        found[:, 3:] = 0.0
        return found

    left = []

    def engine(self, KX, *_, **__):
        left.append(KX.size)
        pytest.fail("left over")

    monkeypatch.setattr(PairAverages, "of_pairs", useless)
    monkeypatch.setattr(TheoryAtNumbers, "engine", engine)
    with pytest.raises(pytest.fail.Exception, match="left over"):
        mf.derive("elu").kernel(X, sigma_w=W, sigma_b=B, depth=3)
    assert len(asked) == 1 and left == asked


def test_averages_of_powers_know_no_scale():
    """A ReLU's at 1e40 are those at 1, to the scale; far from every box of a function with a scale there are none."""
    f = activation("relu").pieces
    own = PairAverages(f.expr, f.diff().expr)
    s, t, gap = np.array([1.0, 2.0]), np.array([3.0, 1.0]), np.array([1e-9, 1.7])
    one, other = own.of_pairs(s, t, s - t, gap), own.of_pairs(1e40 * s, 1e40 * t, 1e40 * (s - t), gap)
    assert other / np.array([1e80, 1, 1e40, 1e40, 1e40]) == pytest.approx(one, rel=1e-13, nan_ok=True)
    g = activation("elu").pieces
    far = PairAverages(g.expr, g.diff().expr).of_pairs(1e40 * s, 1e40 * t, 1e40 * (s - t), gap)
    assert np.isnan(far).all() and not np.isnan(own.of_pairs(s, t, s - t, gap)[:, :2]).any()
