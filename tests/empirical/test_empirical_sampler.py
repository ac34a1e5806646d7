"""Lazy matrices: their exact identities, their law against explicit matrices, and the traps that must be seen."""

import math

import numpy as np
import pytest
from scipy import stats

from meanfield.empirical import run_ensemble
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.tangents_and_cotangents import Tangents
from meanfield.empirical.random import sampler
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import DrawnMatrix, haar
from meanfield.empirical.random.sampler import LazyMatrix
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Residual, Sequential, mlp

LAWS = ("gaussian", "orthogonal")
SHAPES = [(9, 9), (12, 5), (5, 12)]


def _lazy(law, shape, index=0, scale=1.0):
    return LazyMatrix(law, (3, index, 2, 0), shape, scale, Buffers())


def _products(matrix, rows, transposed=False):
    out = np.empty((len(rows), matrix.shape[1 if transposed else 0]))
    (matrix.rmatvec if transposed else matrix.matvec)(np.ascontiguousarray(rows), out)
    return out


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_one_matrix(law, shape):
    """Forward, back, forward: all answers agree with the matrix that the last products spell out."""
    rng = np.random.default_rng(1)
    x, u = rng.standard_normal((3, shape[1])), rng.standard_normal((2, shape[0]))
    x[2] = 3 * x[0] - x[1]  # dependent
    matrix = _lazy(law, shape, scale=0.7)
    forward, back, again = _products(matrix, x), _products(matrix, u, True), _products(matrix, x[::-1])
    w = _products(matrix, np.eye(shape[1])).T
    for found, expected in ((forward, x @ w.T), (back, u @ w), (again, x[::-1] @ w.T)):
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)
    assert np.abs(u @ forward.T - back @ x.T).max() < 1e-13, "adjoint identity"
    if law == "orthogonal":
        gram = w.T @ w if shape[0] >= shape[1] else w @ w.T
        np.testing.assert_allclose(gram, 0.49 * max(shape) * np.eye(min(shape)), atol=1e-13)


@pytest.mark.parametrize("law", LAWS)
def test_nearby_vectors_keep_their_difference(law):
    """|W(x − y)|²/(N |x − y|²) for |x − y| = 1e-7 has the law of a single vector: Gram's matrix would lose it."""
    n, found = 50, []
    rng = np.random.default_rng(2)
    for index in range(300):
        x = rng.standard_normal(n)
        step = rng.standard_normal(n)
        y = x + 1e-7 * step
        a, b = _products(_lazy(law, (n, n), index), np.stack((x, y)))
        found.append(((a - b) ** 2).sum() / ((x - y) ** 2).sum() / n)
    exact = 1.0
    if law == "orthogonal":
        np.testing.assert_allclose(found, exact, rtol=1e-7)
    else:
        assert abs(np.mean(found) - exact) < 4 * np.std(found) / math.sqrt(len(found))
        assert stats.kstest(np.array(found) * n, stats.chi2(n).cdf).pvalue > 1e-3


@pytest.mark.parametrize("law", LAWS)
def test_extreme_lengths_and_bad_vectors(law):
    n = 6
    x = np.random.default_rng(0).standard_normal(n)
    one = _products(_lazy(law, (n, n)), x[None])
    for power in (-1060, -600, 600, 900):
        np.testing.assert_allclose(
            _products(_lazy(law, (n, n)), np.ldexp(x, power)[None]), np.ldexp(one, power), rtol=1e-2
        )
    assert (_products(_lazy(law, (n, n)), np.zeros((1, n))) == 0).all()
    for bad in (math.nan, math.inf):
        y = x.copy()
        y[2] = bad
        assert np.isnan(_products(_lazy(law, (n, n)), y[None])).all()


def test_a_dependent_vector_does_not_shift_the_stream():
    """Numbers are keyed by the number of the vector, so the third is the same whatever the second was."""
    x = np.eye(7)
    with_dependent = _products(_lazy("gaussian", (7, 7)), np.stack((x[0], 2 * x[0], x[1])))
    with_zero = _products(_lazy("gaussian", (7, 7)), np.stack((x[0], 0 * x[0], x[1])))
    assert (with_dependent[2] == with_zero[2]).all() and (with_dependent[2] != with_dependent[0]).any()


# ------------------------------------------------------------------------------ moments of a matrix revealed both ways


def _statistics(law, shape, networks, planted=None):
    """Products with a fixed forward, a dependent backward, and a dependent forward vector, for many matrices: first,
    second and fourth moments of what they are."""
    out = []
    for index in range(networks):
        matrix = planted(law, shape, index) if planted else _lazy(law, shape, index)
        x = np.linspace(-1, 1, shape[1]) + 0.3
        y = _products(matrix, x[None])[0]
        u = np.tanh(y) + 0.5
        h = _products(matrix, u[None], True)[0]
        w = np.maximum(h, 0.0) + 0.1 * x
        v = _products(matrix, w[None])[0]
        out.append(
            np.r_[
                y[:2],
                h[:2],
                v[:2],
                y[:2] ** 2,
                h[:2] ** 2,
                v[:2] ** 2,
                y[0] * h[0],
                v[1] * y[1],
                h @ x - u @ y,
                h @ h,
                v @ v,
                y @ v,
                u @ v,
                (v @ v) ** 2,
            ]
        )
    return np.array(out)


class Explicit:
    def __init__(self, law, shape, index):
        self.shape = shape
        self._w = (
            haar((9, index, 2, 0), shape)
            if law == "orthogonal"
            else next(iter(DrawnMatrix(law, (9, index, 2, 0), shape, 1.0, Buffers()).blocks()))[1].copy()
        )

    def matvec(self, rows, out):
        out[:] = rows @ self._w.T

    def rmatvec(self, rows, out):
        out[:] = rows @ self._w


class FreshBackward(Explicit):
    """Fresh weights in the backward pass."""

    def rmatvec(self, rows, out):
        out[:] = rows @ np.random.default_rng(abs(hash(rows.tobytes()))).standard_normal(self.shape)


class Unrecorded:
    """A lazy matrix that forgets what it back-propagated."""

    def __init__(self, law, shape, index):
        self.shape, self._inner, self._law, self._index = shape, _lazy(law, shape, index), law, index

    def matvec(self, rows, out):
        self._inner.matvec(rows, out)

    def rmatvec(self, rows, out):
        self._inner.rmatvec(rows, out)
        if self._law == "gaussian":
            self._inner._known[1] = 0
        else:
            self._inner._known[0] -= 1


def _z_scores(a, b):
    error = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
    gap = a.mean(axis=0) - b.mean(axis=0)
    return np.where(error < 1e-9, np.where(np.abs(gap) < 1e-9, 0.0, np.inf), gap / np.maximum(error, 1e-300))


def assert_same_law(a, b):
    worst = np.abs(_z_scores(a, b)).max()
    assert worst < 4.5, f"the laws differ: |z| = {worst}"


@pytest.mark.slow
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("shape", SHAPES)
def test_both_ways_have_the_law_of_a_matrix(law, shape):
    assert_same_law(_statistics(law, shape, 3000), _statistics(law, shape, 3000, Explicit))


@pytest.mark.parametrize(
    ("law", "planted"), [("gaussian", FreshBackward), ("gaussian", Unrecorded), ("orthogonal", Unrecorded)]
)
def test_planted_errors_are_rejected(law, planted):
    with pytest.raises(AssertionError, match="the laws differ"):
        assert_same_law(_statistics(law, (9, 9), 3000, planted), _statistics(law, (9, 9), 3000, Explicit))


def test_haar_needs_the_sign_fix():
    """E O_11 = 0 for Haar; LAPACK's Q has E Q_11 < 0 (a Householder reflection maps onto −e_1)."""
    first = {fix: np.array([haar((1, i, 2, 0), (3, 3), 1.0, fix)[0, 0] for i in range(2000)]) for fix in (True, False)}
    z = {fix: values.mean() / values.std() * math.sqrt(len(values)) for fix, values in first.items()}
    assert abs(z[True]) < 4 and abs(z[False]) > 10


@pytest.mark.parametrize("shape", SHAPES)
def test_haar_moments(shape):
    """E W_11² = 1; for the square one E O_11⁴ = 3/(n(n + 2)) and E O_11² O_22² = (n + 1)/((n − 1) n (n + 2))."""
    w = np.array([haar((1, i, 2, 0), shape) for i in range(4000)])
    assert abs(stats.ttest_1samp(w[:, 0, 0] ** 2, 1.0).statistic) < 4
    size = max(shape)
    assert abs(stats.ttest_1samp(w[:, 0, 0] ** 4 / size**2, 3 / (size * (size + 2))).statistic) < 4
    pair = (w[:, 0, 0] * w[:, 1, 1]) ** 2 / size**2
    assert abs(stats.ttest_1samp(pair, (size + 1) / ((size - 1) * size * (size + 2))).statistic) < 4
    assert abs(stats.ttest_1samp(w[:, 0, 0] ** 4 / size**2, 3 / size**2).statistic) > 4, "control: Gaussian entries"


# ------------------------------------------------------------------- whole networks: Kolmogorov–Smirnov with Holm


def _block(activation, law, residual, norm):
    return mlp(activation, mu=1 if residual else 0, weights=law, norm="pre" if norm else None)


def _samples(block, width, networks, which, seed, **more):
    run = run_ensemble(
        block,
        sigma_w=1.3,
        sigma_b=0.3,
        width=width,
        depth=4,
        networks=networks,
        seed=seed,
        sampler=which,
        probes=3,
        quantities=("K", "J", "V"),
        threads=2,
        **more,
    )
    v = run.estimate("V")
    return run.samples["K"][:, 1:], run.samples["log_J"][:, 1:], v


def holm(pvalues):
    """The smallest of the p-values adjusted by Holm: it rejects at level α if below α."""
    p = np.sort(np.asarray(pvalues))
    return float(np.min(p * np.arange(len(p), 0, -1)))


def ks_pvalues(first, second):
    return [stats.ks_2samp(a, b).pvalue for x, y in zip(first[:2], second[:2]) for a, b in zip(x.T, y.T)]


def v_scores(first, second):
    a, b = first[2], second[2]
    return ((a.mean - b.mean) / np.hypot(a.standard_error, b.standard_error)).ravel()


CASES = [
    (activation, law, residual, norm)
    for activation in ("tanh", "relu", "gelu")
    for law in LAWS
    for residual in (False, True)
    for norm in (False, True)
]


def compare_paths(width, networks, cases, **planted):
    pvalues, scores = [], []
    for activation, law, residual, norm in cases:
        block = _block(activation, law, residual, norm)
        explicit = _samples(block, width, networks, "explicit", 1)
        lazy = _samples(block, width, networks, "lazy", 2, **planted)
        pvalues += ks_pvalues(explicit, lazy)
        scores += v_scores(explicit, lazy).tolist()
    return holm(pvalues), max(abs(s) for s in scores)


@pytest.mark.slow
def test_paths_agree_in_distribution():
    smallest, worst = compare_paths(8, 500, CASES[::5])
    assert smallest > 0.01 and worst < 4.5, (smallest, worst)


@pytest.mark.slow
@pytest.mark.parametrize(("width", "networks"), [(8, 1000), (32, 600), (256, 120)])
def test_paths_agree_in_distribution_everywhere(width, networks):
    smallest, worst = compare_paths(width, networks, CASES)
    assert smallest > 0.01 and worst < 4.8, (smallest, worst)


@pytest.mark.slow
def test_control_the_paths_differ_with_other_biases():
    """The same comparison rejects a network with σ_b = 0.4 instead of 0.3."""
    block = _block("tanh", "gaussian", False, False)
    first = _samples(block, 32, 1000, "explicit", 1)
    other = run_ensemble(block, sigma_w=1.3, sigma_b=0.4, width=32, depth=4, networks=1000, sampler="lazy", probes=3)
    assert holm(ks_pvalues(first, (other.samples["K"][:, 1:], other.samples["log_J"][:, 1:]))) < 1e-3


def test_control_without_the_sign_fix_networks_differ(monkeypatch):
    """LAPACK's own signs: the mean of z_1 is no longer that of Haar weights."""
    from meanfield.empirical.random import matrices

    def first_neuron():
        ensemble = Ensemble(mlp("relu", weights="orthogonal"), 1.0, 0.0, 4, 3)
        x = np.abs(np.random.default_rng(3).standard_normal((1, 4)))
        return np.array([[z[0, 0] for _, z in ensemble.network(5, i).run(x)] for i in range(1500)])

    right = first_neuron()
    plain = matrices.haar
    monkeypatch.setattr(matrices, "haar", lambda key, shape, scale=1.0: plain(key, shape, scale, False))
    wrong = first_neuron()
    assert (np.abs(right.mean(axis=0)) < 4 * right.std(axis=0) / math.sqrt(len(right))).all()
    assert (np.abs(wrong.mean(axis=0)) > 4 * wrong.std(axis=0) / math.sqrt(len(wrong))).any()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("which", ["explicit", "lazy"])
def test_adjoint_identity_in_every_network(law, which):
    """u·(J t) = (Jᵀ u)·t to rounding, also through a skip, LayerNorm and several inputs."""
    phi = Nonlinearity("gelu")
    block = Residual(Sequential((LayerNorm(), Dense(law, expand=2), phi, Dense(law))), "0.5", Dense(law))
    ensemble = Ensemble(block, 1.2, 0.3, 15, 5, 11, sampler=which)
    rng = np.random.default_rng(0)
    for index in range(5):
        network = ensemble.network(0, index)
        x, t = rng.standard_normal((2, 11)), rng.standard_normal((3, 2, 11))
        trace = []
        carried = Tangents(t.copy(), network.buffers)
        for _ in network.run(x, [carried], trace, 3):
            pushed = carried.rows.copy()
        u = rng.standard_normal(pushed.shape)
        *_, (layer, _, pulled) = network.pull(trace, u)
        assert layer == 0
        left, right = (u * pushed).sum(axis=(1, 2)), (pulled * t).sum(axis=(1, 2))
        np.testing.assert_allclose(left, right, rtol=1e-12, atol=1e-12 * np.abs(u).max() * np.abs(pushed).max())


def test_more_vectors_than_dimensions():
    """A batch larger than the width reveals the whole matrix."""
    x = np.random.default_rng(4).standard_normal((20, 5))
    for law in LAWS:
        matrix = _lazy(law, (5, 5))
        y = _products(matrix, x)
        w = np.linalg.lstsq(x, y, rcond=None)[0]
        np.testing.assert_allclose(x @ w, y, atol=1e-12)


def test_dot_in_lanes():
    rng = np.random.default_rng(1)
    for size in (0, 1, 7, 8, 9, 1001):
        a, b = rng.standard_normal((2, size))
        assert sampler.dot(a, b) == pytest.approx(math.fsum(a * b), abs=1e-12)
