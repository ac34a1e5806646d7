"""Averages that switch between their variables: closed over cuts by planes, refused where the cut is curved."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp
from scipy import integrate, stats

import meanfield as mf
from meanfield import MeanFieldError
from meanfield.functions.regions import mixed, regions

x, y, u, v = sp.symbols("x y u v", real=True)
a, b = sp.symbols("a b", positive=True)
c = sp.Symbol("c", real=True)
PAIR = (1, sp.Rational(1, 3), 2)
THREE = (1, sp.Rational(1, 3), 2, sp.Rational(1, 5), sp.Rational(-1, 2), sp.Rational(3, 2))


def on_a_grid(f, cov, mean=(0.0, 0.0), steps: int = 1601) -> float:
    """⟨f⟩ of two variables by the trapezoid rule in whitened coordinates: 1e-5 where f is continuous."""
    C = np.array([[cov[0], cov[1]], [cov[1], cov[2]]], float)
    root = np.linalg.cholesky(C)
    t = np.linspace(-9, 9, steps)
    w = np.exp(-t * t / 2)
    X = mean[0] + root[0, 0] * t[:, None] + 0 * t[None]
    Y = mean[1] + root[1, 0] * t[:, None] + root[1, 1] * t[None]
    values = sp.lambdify((x, y), f, ["scipy", "numpy"])(X, Y)
    return float((np.outer(w, w) * values).sum() / w.sum() ** 2)


def assert_near(found, expected: float, rel: float) -> None:
    assert abs(float(found) - expected) <= rel * (1 + abs(expected)), f"{found} is not near {expected}"


CONTINUOUS = (
    sp.Max(x, y),
    sp.Max(0, x, y) ** 2,
    sp.Min(x, y) ** 3,
    sp.Abs(x - y) * sp.Max(x, 2 * y),
    sp.Max(x**2, y**2),
    sp.Max(x, sp.Abs(y)),
    sp.Max(x, y) * sp.exp(-(x**2)),
    sp.Max(x, y) * sp.erf(x + y),
    sp.Max(sp.Max(0, x), sp.Max(0, y) / 2) ** 2,
)


@pytest.mark.slow_with("Min(x, y)**3", "Abs(x - y)*Max(x, 2*y)")
@pytest.mark.parametrize("f", CONTINUOUS, ids=str)
def test_closed_forms_against_a_grid(f):
    node = mf.average(f, PAIR, variables=(x, y))
    closed = node.doit()
    assert not closed.has(mf.symbolic.Average) and not closed.free_symbols
    expected = on_a_grid(f, PAIR)
    assert_near(node.evalf(20), expected, 2e-5)
    with pytest.raises(AssertionError, match="is not near"):
        assert_near(node.evalf(20) * sp.Rational(1001, 1000), expected, 2e-5)


def test_jumps_means_and_degenerate_covariances():
    assert mf.average(sp.Heaviside(x - y), PAIR, variables=(x, y)).doit() == sp.Rational(1, 2)
    step = mf.average(sp.Heaviside(2 * x - y + 1), PAIR, variables=(x, y))
    assert_near(step.evalf(), stats.norm.cdf(1 / np.sqrt(4 + 2 - 4 / 3)), 1e-14)
    shifted = mf.average(sp.Max(x, y), PAIR, (1, sp.Rational(1, 2)), variables=(x, y))
    assert_near(shifted.evalf(), on_a_grid(sp.Max(x, y), PAIR, (1.0, 0.5)), 2e-5)
    cases = sp.Piecewise((x, (x > y) & (y > 0)), (y**2, x + y < 0), (3, True))
    found = mf.average(cases, PAIR, variables=(x, y)).evalf()
    draws = np.random.default_rng(3).multivariate_normal([0, 0], [[1, 1 / 3], [1 / 3, 2]], 400_000)
    sample = sp.lambdify((x, y), cases, "numpy")(*draws.T)
    assert abs(sample.mean() - float(found)) < 4 * sample.std() / np.sqrt(len(sample)) < 0.02 * float(found)
    assert mf.average(sp.Max(x, y), (1, 1, 1), variables=(x, y)).doit() == 0
    assert_near(mf.average(sp.Max(x, y) ** 2, (1, -2, 4), variables=(x, y)).evalf(), 2.5, 1e-14)
    assert_near(mf.average(sp.Max(x, y) ** 2, (1, 2, 4), variables=(x, y)).evalf(), 2.5, 1e-14)


@pytest.mark.slow
def test_three_and_four_variables_by_order_statistics():
    """The largest of n has P(max ≤ t) = Φ(t)^n; correlated ones as independent ones plus a common part."""

    def second(n: int) -> float:
        return integrate.quad(lambda t: t * t * n * stats.norm.pdf(t) * stats.norm.cdf(t) ** (n - 1), -12, 12)[0]

    for n, names in ((2, (x, y)), (3, (x, y, u)), (4, (x, y, u, v))):
        alone = tuple(sp.Integer(i == j) for i in range(n) for j in range(i + 1))
        shared = tuple(e + sp.Rational(1, 3) for e in alone)
        assert_near(mf.average(sp.Max(*names) ** 2, alone, variables=names).evalf(), second(n), 1e-12)
        assert_near(mf.average(sp.Max(*names) ** 2, shared, variables=names).evalf(), second(n) + 1 / 3, 1e-12)
    relu = [sp.Max(0, s) for s in (x, y, u)]
    found = mf.average(sp.Max(*relu) ** 2, THREE, variables=(x, y, u)).evalf()
    C = [[1, 1 / 3, 0.2], [1 / 3, 2, -0.5], [0.2, -0.5, 1.5]]
    draws = np.maximum(np.random.default_rng(1).multivariate_normal([0, 0, 0], C, 400_000), 0).max(axis=1) ** 2
    assert abs(draws.mean() - float(found)) < 4 * draws.std() / np.sqrt(len(draws)) < 0.01 * float(found)


def test_symbols_and_slopes():
    """⟨max²⟩ over a symbolic covariance, and its slopes in it."""
    node = mf.average(sp.Max(0, x, y) ** 2, (a, c, b), variables=(x, y))
    at = {a: 1, b: 2, c: sp.Rational(1, 3)}
    assert node.doit().free_symbols == {a, b, c}
    h = sp.Rational(1, 10**8)
    for s in (a, b, c):
        ends = [node.doit().subs(at | {s: at[s] + k * h}).evalf(40) for k in (1, -1)]
        assert_near(node.diff(s).subs(at).evalf(20), float((ends[0] - ends[1]) / (2 * h)), 1e-12)


def test_what_is_no_plane_is_refused():
    """A leaked dummy was the answer: ⟨max(z_a, z_b)⟩ held one."""
    curved = mf.average(sp.Max(sp.tanh(x), y), (a, c, b), variables=(x, y))
    assert curved.doit() == curved
    for call in (lambda: curved.diff(c), lambda: curved.subs({a: 1, b: 1, c: 0}).evalf()):
        with pytest.raises(MeanFieldError, match="switches between its variables"):
            call()
    with pytest.raises(MeanFieldError, match="no plane"):
        regions(sp.Max(x**2, y), (x, y))


def test_pieces():
    found = regions(sp.Max(0, x, y), (x, y))
    assert sorted(str(e) for e, _ in found) == ["x", "y"] and all(len(walls) == 2 for _, walls in found)
    assert mixed(sp.Abs(x) * sp.Abs(x - y), (x, y)) and not mixed(sp.Abs(x) * sp.Abs(y), (x, y))
    # x > y > 0 implies x > 0; x > y and y > x leave nothing
    (kept,) = [walls for e, walls in regions(sp.Max(x, y) * sp.Max(0, y) * sp.Max(0, x), (x, y)) if e == x**2 * y]
    assert len(kept) == 2
    assert regions(sp.Heaviside(x - y) * sp.Heaviside(y - x), (x, y)) == []
