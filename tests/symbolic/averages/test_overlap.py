"""Overlaps of two softmax rows: digits, doubles and tables against grids, sums and samples that share no code with
them."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, K_ab, distance, sigma_b, sigma_w, tokens
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.lowering.many_positions.softmax_rows import tables, text
from meanfield.numeric.lowering.text.printing import interpret
from meanfield.numeric.quadrature.softmax.overlaps import number, softmax_average
from meanfield.numeric.quadrature.softmax.softmax_tables import measured
from meanfield.symbolic.averages.nodes.overlap import (
    Overlap,
    overlap,
    overlap_by_variance,
    overlap_growth,
    overlap_quotient,
    overlap_slope,
    softmax_entropy,
)
from meanfield.symbolic.recursion import Recursion, StateVar


def assert_close(found, expected, relative):
    np.testing.assert_allclose(np.asarray(found, dtype=float), np.asarray(expected, dtype=float), rtol=relative)


# ------------------------------------------------------------------------------ routes of the tests' own


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def of_rows(z, other):
    """ΣAA', Σ_su ∂_uA_s ∂_uA'_s, Σ(A - A')²/2, -ΣA log A of many pairs of rows, as they are defined."""
    A, B = softmax(z), softmax(other)
    met = (A * B).sum(axis=-1)
    jacobians = [x[..., :, None] * (np.eye(z.shape[-1]) - x[..., None, :]) for x in (A, B)]
    slope = (jacobians[0] * jacobians[1]).sum(axis=(-2, -1))
    return met, slope, ((A - B) ** 2).sum(axis=-1) / 2, -(A * np.log(A)).sum(axis=-1)


def three_entries(beta, r, step=0.32, reach=26):
    """The averages of T = 3 over the plane of differences: a trapezoidal rule in four dimensions."""
    plane = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2.0], [6.0]])
    g = step * np.arange(-reach, reach + 1)
    one = np.exp(-0.5 * g * g)
    one /= one.sum()
    x, y = (a.ravel() for a in np.meshgrid(g, g, indexing="ij"))
    w = np.outer(one, one).ravel()
    total = np.zeros(4)
    for u, v, weight in zip(x, y, w):
        if weight < 1e-19:
            continue
        z = beta * np.array([u, v]) @ plane
        other = beta * np.stack([r * u + math.sqrt(1 - r * r) * x, r * v + math.sqrt(1 - r * r) * y], axis=1) @ plane
        total += weight * np.array([(w * f).sum() for f in of_rows(z[None], other)])
    return total


def by_reciprocals(T, beta, r, step=0.2):
    """Φ by 1/Z = ∫e^{-xZ}dx: T∫∫e^{u+v}E[e^{z+z'} e^{-e^{u+z}-e^{v+z'}}] h^{T-1}, over (u, v) and two normals."""
    u = np.arange(-9.0 * beta - 9.0 - math.log(T), 6.0 * beta + 4.0, step)
    g = 0.14 * np.arange(-58, 59)
    w = np.exp(-0.5 * g * g)
    w /= w.sum()
    y = beta * (r * g[:, None] + math.sqrt(1 - r * r) * g)  # of the second, at each of the first
    with np.errstate(over="ignore", under="ignore"):
        first = np.exp(np.minimum(u[:, None] + beta * g, 700.0))
        second = np.exp(np.minimum(u[:, None, None] + y, 700.0))
        kept, taken = np.exp(-second) @ w, (second * np.exp(-second)) @ w  # (v, g)
        h = (np.exp(-first) * w) @ kept.T
        own = (first * np.exp(-first) * w) @ taken.T
    return T * step * step * float((own * h ** (T - 1)).sum())


def top_gap(T):
    """The density at 0 of the gap between the two largest of T normals: T(T - 1)∫φ²Φ^{T-2}."""
    with mp.workdps(20):
        return float(T * (T - 1) * mp.quad(lambda x: mp.npdf(x) ** 2 * mp.ncdf(x) ** (T - 2), [-8, 0, 2, 4, 9]))


# ------------------------------------------------------------------------------ values


@pytest.mark.slow
def test_three_entries_over_the_plane():
    V = 1.44
    met, slope, apart, _ = three_entries(1.2, 0.3)
    found = [number(kind, 3, V, 0.7 * V) for kind in ("value", "slope", "quotient")]
    assert_close(found, [met, slope, apart / (0.7 * V)], 1e-12)
    assert_close(number("value", 3, V, 1.4 * V), three_entries(1.2, -0.4)[0], 1e-12)
    met, slope, _, entropy = three_entries(1.2, 1.0)
    assert_close([number(k, 3, V) for k in ("value", "slope", "entropy")], [met, slope, entropy], 1e-12)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(number("value", 3, V, 0.7 * V * (1 + 1e-9)), three_entries(1.2, 0.3)[0], 1e-12)


def test_thirty_two_entries_by_reciprocals():
    assert_close(number("value", 32, 9.0, 6.3), by_reciprocals(32, 3.0, 0.3), 1e-11)
    assert_close(number("value", 32, 9.0, 6.3), 0.076824532, 1e-8)
    assert_close(number("value", 32, 9.0), 0.395731327, 1e-9)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(number("value", 32, 9.0, 6.3), by_reciprocals(31, 3.0, 0.3), 1e-3)


def of_two_entries(f, V, C, step=0.2):
    """⟨f(d/2) f(d'/2)⟩ over differences of variance 2V and covariance 2C, by a trapezoidal rule."""
    g = step * np.arange(-45, 46)
    w = np.exp(-0.5 * g * g)
    w /= w.sum()
    other = C / math.sqrt(V) * g[:, None] + math.sqrt(V - C * C / V) * g
    return float(w @ (f(math.sqrt(V) * g / math.sqrt(2))[:, None] * f(other / math.sqrt(2))) @ w)


def test_two_entries_close_to_averages_of_tanh():
    for V, D in ((1.5, 0.4), (1.5, 2.6), (0.2, 0.1)):
        value = 0.5 + 0.5 * of_two_entries(np.tanh, V, V - D)
        slope = 0.25 * of_two_entries(lambda x: 1 - np.tanh(x) ** 2, V, V - D)
        assert_close([number("value", 2, V, D), number("slope", 2, V, D)], [value, slope], 1e-12)
    closed = overlap(2, K, K / 4).doit()
    assert str(closed) == "<tanh(z_a/2)*tanh(z_b/2)>_{2*K, 3*K/2, 2*K}/2 + 1/2" and not closed.has(Overlap)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(number("value", 2, 1.5, 0.4), 0.5 + 0.5 * of_two_entries(np.tanh, 1.5, 1.1 + 1e-8), 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("make", [overlap, overlap_slope])
def test_certified_digits_of_two_entries(make):
    """The engine's own averages over two Gaussians."""
    V, D = sp.Rational(3, 2), sp.Rational(2, 5)
    found = make(2, V, D).evalf(22)
    assert abs(found - make(2, V, D).doit().evalf(22)) < sp.Float("1e-21", 22)
    assert abs(found - make(2, V, D + sp.Rational(1, 10**18)).evalf(22)) > sp.Float("1e-20", 22)


@pytest.mark.slow
def test_thirty_digits_of_one_row():
    """T = 2 is one integral over the difference d, of variance 2V."""
    V = sp.Rational(9, 4)
    with mp.workdps(40):
        s = mp.sqrt(2 * mp.mpf(9) / 4)

        def mean(f):
            return mp.quad(lambda x: f(1 / (1 + mp.exp(-s * x))) * mp.npdf(x), mp.linspace(-15, 15, 13))

        truth = {
            "value": mean(lambda p: p * p + (1 - p) ** 2),
            "slope": mean(lambda p: 4 * (p * (1 - p)) ** 2),
            "entropy": mean(lambda p: -p * mp.log(p) - (1 - p) * mp.log(1 - p)),
        }
        for kind, expected in truth.items():
            found = mp.mpf(str(Overlap(2, V, 0, kind).evalf(32)))
            assert abs(found / expected - 1) < mp.mpf(10) ** -30, kind
            assert abs(found / (expected * (1 + mp.mpf(10) ** -29)) - 1) > mp.mpf(10) ** -30, kind


def assert_digits(T, V, D, pairs=("value", "slope", "quotient", "by_V"), alone=("growth", "entropy")):
    for kind in pairs:
        found, error = softmax_average(kind, T, float(V), float(D))
        assert_close(found, Overlap(T, V, D, kind).evalf(16), 1e-12)
        assert error < 1e-10 * abs(found)
    for kind in alone:
        assert_close(number(kind, T, float(V)), Overlap(T, V, 0, kind).evalf(16), 1e-12)


def test_doubles_are_the_digits():
    assert_digits(40, sp.Integer(8), sp.Integer(7), ("quotient",))


@pytest.mark.slow
@pytest.mark.parametrize(("T", "V", "D"), [(5, "2", "1/3"), (40, "6", "11/2"), (16, "50", "3")])
def test_doubles_are_the_digits_everywhere(T, V, D):
    assert_digits(T, sp.Rational(V), sp.Rational(D))


@pytest.mark.slow
def test_samples():
    rng, n, T, V, r = np.random.default_rng(5), 60_000, 16, 4.0, 0.4
    z, y = rng.standard_normal((2, n, T))
    found = of_rows(2.0 * z, 2.0 * (r * z + math.sqrt(1 - r * r) * y))

    def assert_within(V, r):
        D = (1 - r) * V
        theory = [number("value", T, V, D), number("slope", T, V, D), D * number("quotient", T, V, D)]
        for sample, mean in zip(found, [*theory, number("entropy", T, V)]):
            z_score = (sample.mean() - mean) / (sample.std() / math.sqrt(n))
            assert abs(z_score) < 4, f"z = {z_score}"

    assert_within(V, r)
    for wrong in ((2.0, r), (V, 1.0), (1.05 * V, r), (V, 0.44)):  # σ for β², Φ(1) for Φ(ρ), five percent
        with pytest.raises(AssertionError, match="z = "):
            assert_within(*wrong)


# ------------------------------------------------------------------------------ limits


def test_wide_scores_see_the_gap_of_the_largest_two():
    f, beta = top_gap(16), 1e7
    assert f == pytest.approx(1.7660, abs=5e-5)
    V = beta**2
    assert_close(beta * (1 - number("value", 16, V)), f, 1e-6)
    assert_close(beta * number("slope", 16, V), f / 3, 1e-6)
    assert_close(beta * number("entropy", 16, V), f * math.pi**2 / 6, 1e-6)
    assert_close(2 * beta**3 * number("growth", 16, V), f, 1e-5)


def test_random_energies():
    for T, expected in ((10**2, 0.600), (10**3, 0.574), (10**6, 0.543)):
        assert number("value", T, 8 * math.log(T)) == pytest.approx(expected, abs=6e-4)


def test_no_scores_no_covariance_one_token():
    for T in (2, 7, 4096):
        flat = (T - 1) / T**2
        assert_close(number("value", T, 3.0, 3.0), 1 / T, 1e-13)
        assert_close([number(k, T, 1e-12, 4e-13) for k in ("slope", "quotient")], flat, 1e-10)
        assert_close(number("value", T, 0.0), 1 / T, 1e-13)
        assert_close(number("entropy", T, 0.0), math.log(T), 1e-13)
        assert_close(T * number("value", T, 1e-3, 4e-4) - 1, 6e-4 * flat * T, 1e-2)
    assert number("value", 1, 2.0, 1.0) == 1.0 and number("quotient", 1, 2.0, 1.0) == 0.0
    assert overlap(1, K) == 1 and overlap_slope(1, K) == 0 and softmax_entropy(1, K) == 0
    assert overlap(tokens, 0) == 1 / tokens == overlap(tokens, K, K)
    assert overlap_quotient(5, 0, 0) == sp.Rational(4, 25) and softmax_entropy(5, 0) == sp.log(5)


def test_rows_that_nearly_agree_keep_the_quotient():
    for V in (0.1, 5.0, 1e4):
        slope = number("slope", 16, V)
        for gap in (1e-100, 1e-12, 1e-7):
            assert_close(number("quotient", 16, V, gap), slope, 1e-11 + gap)


@pytest.mark.slow
def test_a_quotient_is_a_difference():
    V, D = sp.Integer(1), sp.Rational(1, 100)
    expected = ((overlap(8, V) - overlap(8, V, D)) / D).evalf(15)
    assert_close(number("quotient", 8, 1.0, 0.01), expected, 1e-12)
    assert_close(overlap_quotient(8, V, D).evalf(15), expected, 1e-13)


def test_heat_equations():
    """Slopes against difference quotients, and the entropy's against the chain rule."""
    T, V, D, h = 9, 2.5, 1.1, 1e-4

    def quotient(f):
        return (8 * (f(h) - f(-h)) - (f(2 * h) - f(-2 * h))) / (12 * h)

    assert_close(quotient(lambda e: number("value", T, V, D - e)), number("slope", T, V, D), 1e-9)
    assert_close(quotient(lambda e: number("value", T, V + e, D + e)), number("by_V", T, V, D), 1e-8)
    assert_close(quotient(lambda e: number("value", T, V + e)), number("growth", T, V), 1e-9)
    x = sp.Symbol("x", positive=True)
    for node, wrong in (
        (overlap(T, x**2, x), overlap_slope), (overlap_quotient(T, 2 * x, x**2), overlap_slope),
        (softmax_entropy(T, x**3), None), (overlap(T, x**2), None),
    ):  # fmt: skip

        def value(at, node=node):
            return number(node.which, T, float(node.variance.subs(x, at)), float(node.distance.subs(x, at)))

        def slope(e):
            e = e.subs(x, sp.Rational(3, 2))
            nodes = {n: number(n.which, T, float(n.variance), float(n.distance)) for n in e.atoms(Overlap)}
            return float(e.xreplace(nodes))

        assert_close(quotient(lambda e, value=value: value(1.5 + e)), slope(node.diff(x)), 1e-8)
        if wrong:
            with pytest.raises(AssertionError, match="Not equal to tolerance"):
                assert_close(quotient(lambda e, value=value: value(1.5 + e)), slope(wrong(T, x, x / 2)), 1e-8)


# ------------------------------------------------------------------------------ tables and recursions


def assert_table(T, rows=None, bound=1e-10):
    found = tables(T)
    assert max(found.errors.values()) < bound, found.errors
    rng = np.random.default_rng(11)
    for kind, table in found.pairs.items():
        f, held = interpret(text(T, kind, True, "f"), "f"), (table if rows is None else rows(table)).tolist()
        for _ in range(30):
            V = 10.0 ** rng.uniform(-4, 5)
            D = V * (1 - rng.uniform(-1 / (T - 1), 1)) * rng.choice([1.0, 0.1, 1e-4])
            assert_close(f(V, D, held), number(kind, T, V, D), bound)
        assert_close(f(1e-3, 1e-103, held), number(kind, T, 1e-3, 1e-103), bound)
        assert f(0.0, 0.0, held) == pytest.approx(number(kind, T, 0.0), rel=1e-13)
        assert math.isnan(f(1.0, -0.1, held)) and math.isnan(f(1.0, 2.1, held))
    for kind, table in found.alone.items():
        f = interpret(text(T, kind, False, "f"), "f")
        for V in (1e-6, 0.3, 11.0, 1e5, 1e8):
            assert_close(f(V, table.tolist()), number(kind, T, V), bound)


@pytest.mark.slow
def test_a_table_misses_what_it_says():
    assert_table(16)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_table(16, rows=lambda table: table + np.array([1e-9] + [0.0] * 9))
    f, held = interpret(text(16, "slope", True, "f"), "f"), (tables(16).pairs["slope"] + 1e-9).tolist()
    assert measured(16, "slope", lambda V, D: f(V, D, held), True) > 5e-10


@pytest.mark.slow
@pytest.mark.parametrize("T", [2, 3, 128, 4096])
def test_tables_from_two_entries_to_four_thousand(T):
    assert_table(T)


@pytest.mark.slow
def test_a_recursion_of_overlaps_runs():
    e = sigma_w**2 * (overlap(16, K) + overlap(16, K, K / 2) * overlap_slope(16, K) + softmax_entropy(16, K) / 9)
    near = distance**3 * overlap_quotient(16, K, distance)
    state = (StateVar("K", K, sp.S.One), StateVar("distance", distance, sp.Float(1e-30)))
    lowered = lower(Recursion(state, (e + sigma_b**2, near)))
    sigma = {"sigma_w": 2.0, "sigma_b": 0.5}
    start = np.array([[1.0, 1e-30]])
    values, _ = lowered.run(start, np.array([[[sigma[p]]] for p in lowered.parameters]), 4, True, True)
    k, d = [1.0], [1e-30]
    for _ in range(3):
        V, half = k[-1], k[-1] / 2
        d.append(d[-1] ** 3 * number("slope", 16, V))
        product = number("value", 16, V, half) * number("slope", 16, V)
        k.append(4 * (number("value", 16, V) + product + number("entropy", 16, V) / 9) + 0.25)
    assert_close(values[0, :, 0], k, 1e-9)
    assert_close(values[0, :3, 1], d[:3], 1e-9)  # 1e-30, 1e-91, 1e-273
    assert max(lowered.errors) < 3e-10
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_close(values[0, :, 0], np.array(k) * (1 + 1e-7), 1e-9)


# ------------------------------------------------------------------------------ as expressions


def test_it_prints():
    node = overlap(16, K, K - K_ab)
    assert str(node) == "Phi_16(K, K_ab)" and sp.latex(node) == r"\Phi_{16}(K, K_{ab})"
    assert str(overlap(16, K)) == "Phi_16(K, K)"
    assert sp.latex(overlap_slope(16, K, K - K_ab)) == r"\partial_C \Phi_{16}(K, K_{ab})"
    assert str(overlap_by_variance(tokens, K, K / 2)) == "dPhi_tokens/dV(K, K/2)"
    assert str(overlap_growth(3, K)) == "d(Phi_3(V, V))/dV(K)" and str(softmax_entropy(3, K)) == "entropy_3(K)"
    assert node.free_symbols == {K, K_ab} and overlap(tokens, K).subs(tokens, 16) == overlap(16, K)
    assert overlap_quotient(16, K, 0) == overlap_slope(16, K)


def test_what_is_refused():
    for wrong in (0, -2, sp.Rational(5, 2)):
        with pytest.raises(mf.MeanFieldError, match="over a number of entries T = 1, 2"):
            overlap(wrong, K)
    with pytest.raises(mf.MeanFieldError, match="have a variance V ≥ 0"):
        overlap(4, -1)
    with pytest.raises(mf.MeanFieldError, match="covariance of modulus above its variance"):
        overlap(4, 1, 3).evalf()
    with pytest.raises(mf.MeanFieldError, match="0 ≤ D ≤ 2V"):
        number("value", 4, 1.0, 2.5)
    with pytest.raises(mf.MeanFieldError, match=r"needs a grid of [0-9]+ places"):
        number("value", 4, 1e8, 2e8)
    with pytest.raises(mf.MeanFieldError, match="is no average of softmax rows"):
        softmax_average("mean", 4, 1.0)
    with pytest.raises(mf.MeanFieldError, match="over tokens tokens, which has no value"):
        overlap(tokens, K).over_symbols()
    with pytest.raises(mf.MeanFieldError, match="is derived, but not compiled"):
        lower(Recursion((StateVar("K", K, sp.S.One),), (overlap_by_variance(16, K, K / 2) + sigma_w,)))
