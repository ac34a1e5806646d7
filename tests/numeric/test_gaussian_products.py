"""Averages over up to four correlated Gaussians: exact values, randomized quasi-Monte Carlo against the bound, Gram
matrices of low rank, weak derivatives against the engine's nodes."""

from __future__ import annotations

import math
from itertools import product

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.stats import norm, qmc

from meanfield.base.answers.results import MeanFieldError
from meanfield.functions.activations import activation
from meanfield.numeric.quadrature.covariances.layer_averages import averages_of
from meanfield.numeric.quadrature.covariances.slopes import monomials, slopes_of
from meanfield.numeric.quadrature.covariances.weak import weak_pair
from meanfield.numeric.quadrature.covariances.whitened import WhitenedGrid, product_averages, resolved
from meanfield.symbolic.finite_width.correlator_maps import in_averages
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.neuron_fields import NEURON, Mean, Sigma

TEMPLATES = (
    "tanh({a}*z)", "sin({a}*z + {b})", "z*sigmoid({a}*z)", "erf({a}*z) + {b}*z", "gelu", "softplus({a}*z) - {b}",
    "z*exp(-z**2*{a}**2/2)", "z + {b}*z**2 - z**3/9", "atan({a}*z)", "cos({a}*z)", "mish", "relu", "elu",
    "hard_tanh", "leaky_relu(0.2)", "z if z > {b} else {b}", "abs(z - {b})", "clip({a}*z, -1, 2)", "step",
)  # fmt: skip


def averaged(slopes, cov, counts=None, order=0):
    """(values, errors, scales) with the grid that the variances ask for."""
    counts = counts or (1,) * len(cov)
    wanted = [one for one in monomials(order, 4) if sum(one) <= 6]

    def needed(x):
        rows = dict(zip(monomials(order, 4), slopes.products(order, 4, x)))
        return np.stack([rows[one] for one in wanted])

    grid = resolved(needed, math.sqrt(np.diag(cov).max()), slopes.name, not len(slopes.breaks))
    return product_averages(slopes, np.asarray(cov, dtype=float), counts, order, grid)


def random_gram(rng, largest=1.0, cosine=0.97):
    """Four inputs of different norms, now and then of low rank, repeated or opposite."""
    rank = rng.choice([1, 2, 3, 4, 4, 4, 4])
    x = rng.normal(size=(4, rank + (0 if rank < 4 else rng.integers(0, 6)))) + rng.normal() * rng.integers(0, 3)
    if rng.random() < 0.2:
        x[rng.integers(4)] = x[rng.integers(4)] * rng.choice([1, 1, -1, 0.5])
    x *= (largest * 10 ** rng.uniform(-2, 0, size=4) / np.maximum((x**2).sum(axis=1), 1e-12))[:, None] ** 0.5
    return x @ x.T


def sampled(slopes, cov, rng, replicates=32, power=11):
    """(mean, standard error) of f(z_1) f(z_2) f(z_3) f(z_4) by scrambled Sobol points."""
    values, vectors = np.linalg.eigh(cov)
    root = (vectors * np.sqrt(np.maximum(values, 0)))[:, ::-1]
    means = []
    for seed in rng.integers(1 << 31, size=replicates):
        xi = norm.ppf(np.clip(qmc.Sobol(4, rng=int(seed)).random_base2(power), 1e-15, 1 - 1e-15))
        means.append(np.prod(slopes(0, xi @ root.T), axis=1).mean())
    return float(np.mean(means)), float(np.std(means, ddof=1) / math.sqrt(replicates))


def assert_bound_holds(value, error, mean, deviation):
    """Quasi-Monte Carlo does not find more than the bound: 6.5 standard errors of 32 replicates on top of it."""
    assert abs(value - mean) <= error + 6.5 * deviation + 1e-15 * abs(value), f"{value} ± {error} is not {mean}"


def check_pairs(seed, count):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        a, b = rng.uniform(0.4, 1.6), rng.uniform(-0.8, 0.8)
        text = str(rng.choice(TEMPLATES)).format(a=f"{a:.2f}", b=f"({b:.1f})")
        slopes, cov = slopes_of(activation(text), 0), random_gram(rng)
        value, error, scale = (float(part.ravel()[0]) for part in averaged(slopes, cov))
        assert 0 < error < 1e-4 * scale, (text, cov, error, scale)
        mean, deviation = sampled(slopes, cov, rng)
        assert_bound_holds(value, error, mean, deviation)


@pytest.mark.slow
def test_random_averages_against_quasi_monte_carlo():
    check_pairs(0, 8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_thousand_random_averages(seed):
    check_pairs(seed, 250)


def test_a_planted_error_is_found():
    rng = np.random.default_rng(3)
    slopes, cov = slopes_of(activation("tanh"), 0), 0.6 * np.eye(4) + 0.3
    value, error, _ = (float(part.ravel()[0]) for part in averaged(slopes, cov))
    mean, deviation = sampled(slopes, cov, rng, power=13)
    assert_bound_holds(value, error, mean, deviation)
    with pytest.raises(AssertionError, match="is not"):
        assert_bound_holds(1.01 * value, error, mean, deviation)


@pytest.mark.slow
@pytest.mark.parametrize("order", [0, pytest.param(3, marks=pytest.mark.slow)])
def test_tanh_to_nine_digits(order):
    """The bound is 1e-9 of the scale for K ≤ 1 and cosines ≤ .9, derivatives up to φ‴ of total order 6 included."""
    rng, slopes = np.random.default_rng(5), slopes_of(activation("tanh"), 3)
    for _ in range(4 if order else 12):
        x = rng.normal(size=(4, 8)) + 1.2
        x /= np.sqrt((x**2).sum(axis=1))[:, None]
        cosines = np.clip(x @ x.T, -0.9, 0.9) * (1 - np.eye(4)) + np.eye(4)
        norms = rng.uniform(0.05, 1, size=4)
        cov = cosines * np.sqrt(np.outer(norms, norms))
        if np.linalg.eigvalsh(cov)[0] < 0:
            continue
        _, error, scale = averaged(slopes, cov, order=order)
        low = sum(np.indices(error.shape)) <= 6
        assert (error[low] <= 1e-9 * scale[low]).all(), (error[low] / scale[low]).max()


def product_of_sines(cov):
    """⟨Π sin z_i⟩ = Re-part of Σ over signs: exp(−sᵀKs/2) Π s_i / (2i)^m."""
    size = len(cov)
    with mp.workdps(40):
        exponents = [(math.prod(s), mp.fsum(-0.5 * mp.mpf(cov[i, j]) * s[i] * s[j] for i in range(size)
                      for j in range(size))) for s in product((1, -1), repeat=size)]  # fmt: skip
        return float(mp.fsum(sign * mp.exp(e) for sign, e in exponents) / 2**size)


def test_products_of_sines_exactly():
    """To the bound, and to 1e-13 of the scale, also at repeated, opposite and collinear inputs and large K."""
    rng, slopes = np.random.default_rng(7), slopes_of(activation("sin"), 0)
    for k in range(40):
        cov = random_gram(rng, largest=4.0 if k % 2 else 0.3)
        value, error, scale = (float(part.ravel()[0]) for part in averaged(slopes, cov))
        exact = product_of_sines(cov)
        assert abs(value - exact) <= error and abs(value - exact) < 1e-13 * scale, (cov, value - exact, error)
    same = np.ones((4, 4))
    assert averaged(slopes, same)[0].item() == pytest.approx(product_of_sines(same), rel=1e-14)


def test_a_tenth_of_a_bound_is_none():
    """Where rules are too coarse the difference of the two is the error of the finer one to a factor below 10, for
    smooth φ as for kinked ones: ⟨f²⟩ of one input twice. A tenth of any of these bounds is broken."""
    x = np.linspace(-12, 12, 200_001)
    w = np.exp(-x * x / 2) / np.exp(-x * x / 2).sum()
    cases = [("tanh", 30.0, spacing) for spacing in (0.8, 1.0, 1.4, 1.8)]
    cases += [(f"sin({k}*z) if z > 0 else 0", 1.0, math.inf) for k in (13, 17, 21, 25)]
    for text, K, spacing in cases:
        wave = int(text[4 : text.index("*")]) if text != "tanh" else 0
        exact = (1 - math.exp(-2 * wave * wave)) / 4 if wave else float((w * np.tanh(math.sqrt(K) * x) ** 2).sum())
        slopes = slopes_of(activation(text), 0)
        value, error, _ = product_averages(slopes, np.full((2, 2), K), (1, 1), 0, WhitenedGrid(9.5, spacing))
        assert_bound_holds(value.item(), error.item(), exact, 0.0)
        with pytest.raises(AssertionError, match="0"):
            assert_bound_holds(value.item(), error.item() / 10, exact, 0.0)


def test_polynomials_exactly():
    """⟨z_1 z_2 z_3 z_4⟩ by pairings, and of rank 1 and 2."""
    slopes = slopes_of(activation("linear"), 0)
    for K in (random_gram(np.random.default_rng(s), largest=3) for s in range(12)):
        exact = K[0, 1] * K[2, 3] + K[0, 2] * K[1, 3] + K[0, 3] * K[1, 2]
        value, error, scale = (float(part.ravel()[0]) for part in averaged(slopes, K))
        assert abs(value - exact) <= error < 1e-12 * scale


def test_orthants_and_relu_exactly():
    """P(four variables of correlation ½ > 0) = 1/5; ⟨σσσσ⟩ of ReLU for two pairs that are independent."""
    step, relu = slopes_of(activation("step"), 0), slopes_of(activation("relu"), 0)
    value, error, _ = averaged(step, 0.5 * np.eye(4) + 0.5)
    assert abs(value.item() - 0.2) <= error.item() < 1e-9
    c = 0.6
    J = (math.sqrt(1 - c * c) + (math.pi - math.acos(c)) * c) / (2 * math.pi)
    value, error, _ = averaged(relu, np.kron(np.eye(2), [[1, c], [c, 1]]))
    assert abs(value.item() - J**2) <= error.item() < 1e-10


@pytest.mark.parametrize(
    "name", ["tanh", *(pytest.param(name, marks=pytest.mark.slow) for name in ("gelu", "relu", "hard_tanh"))]
)
def test_repeated_and_collinear_inputs(name):
    """(a, a, b, c) as four variables of rank 3 and as three with a square; nearly equal inputs go there smoothly."""
    slopes = slopes_of(activation(name), 1)
    three = np.array([[0.8, 0.3, -0.2], [0.3, 0.5, 0.1], [-0.2, 0.1, 0.9]])
    four = three[[0, 0, 1, 2]][:, [0, 0, 1, 2]]
    merged, error, _ = averaged(slopes, three, (2, 1, 1), 1)
    apart, other, _ = averaged(slopes, four, order=1)
    near, third, _ = averaged(slopes, four + np.diag([1e-13, 0, 0, 0]), order=1)
    for i, j, k, m in product(range(2), repeat=4):
        whole = merged[monomials(1, 2).index(tuple(sorted((i, j)))), k, m]
        bound = error.max() + other.max()
        assert abs(apart[i, j, k, m] - whole) <= bound
        assert abs(near[i, j, k, m] - whole) <= bound + third.max() + 1e-6


@pytest.mark.slow
def test_weak_derivatives_are_those_of_the_nodes():
    """⟨∂…∂ φ^(i)φ^(j)⟩ of two variables against derivatives of the engine's nodes by the covariance."""
    cov = np.array([[1.3, 0.4], [0.4, 0.7]])
    names = {correlator("K", at): sp.Rational(str(cov[at[0] - 1, at[1] - 1])) for at in ((1, 1), (1, 2), (2, 2))}
    for name in ("relu", "hard_tanh"):
        value, error, _ = weak_pair(slopes_of(activation(name), 5), cov, 5, WhitenedGrid(9.5, 0.1))
        for order, by in ((0, (1, 1)), (0, (1, 1, 2, 2)), (1, (1, 2)), (1, (1, 1, 1, 2)), (1, (1, 1, 2, 2))):
            node = in_averages(Mean(Sigma(order, 1, NEURON) * Sigma(order, 2, NEURON), by), name)
            exact = float(sp.N(node.xreplace(names).doit(), 20))
            here = order + by.count(1), order + by.count(2)
            assert abs(value[here] - exact) <= error[here] + 1e-15 * abs(exact)
            assert abs(1.01 * value[here] - exact) > error[here] + 1e-15


def test_what_cannot_be_averaged():
    """Growth and oscillation beyond the quadrature are refused."""
    with pytest.raises(MeanFieldError, match="grow too fast"):
        averaged(slopes_of(activation("exp(z**2/3)"), 0), np.eye(4))
    with pytest.raises(MeanFieldError, match="nodes"):
        averaged(slopes_of(activation("sin(400*z)"), 0), 1e6 * np.eye(4))
    found = averages_of(activation("tanh"), [((0, 0), (0, 0))], [(0, 0, 0, 0)]).at(np.eye(2))
    assert found.error < 1e-9 and found.four[0, 0, 0, 0].shape == (2,) * 4


# ------------------------------------------------------------------------------------- one common factor: exact sums


def one_factor(slopes, shared, own):
    """⟨Π φ(z_i)⟩ for z_i = shared_i x + own_i ξ_i, as an integral over x of products of integrals over one ξ each."""
    t, w = np.polynomial.legendre.leggauss(16)

    def rule(edges):
        edges = np.sort(np.clip(edges, -9.5, 9.5), axis=-1)
        half, middle = np.diff(edges) / 2, (edges[..., 1:] + edges[..., :-1]) / 2
        x = middle[..., None] + half[..., None] * t
        weights = half[..., None] * w * np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
        return x.reshape(*edges.shape[:-1], -1), weights.reshape(*edges.shape[:-1], -1)

    sharp = [np.array([-8, -4, -2, -1, 0, 1, 2, 4, 8]) * abs(b / a) + s / a for a, b in zip(shared, own) if a
             for s in slopes.breaks]  # fmt: skip
    x, weights = rule(np.concatenate([np.linspace(-9.5, 9.5, 40), *sharp]))
    total = weights
    for a, b in zip(shared, own):
        mean = a * x[:, None]
        cuts = [(s - mean) / b if b else 0 * mean for s in slopes.breaks]
        xi, inner = rule(np.concatenate([np.broadcast_to(np.linspace(-9.5, 9.5, 49), (len(x), 49)), *cuts], axis=1))
        total = total * (inner * slopes(0, mean + b * xi)).sum(axis=1)
    return float(total.sum())


def check_factors(seed, count, factor=1.0):
    rng, worst = np.random.default_rng(seed), 0.0
    for _ in range(count):
        p, q = rng.uniform(0.4, 1.6), rng.uniform(-0.8, 0.8)
        text = str(rng.choice(TEMPLATES)).format(a=f"{p:.2f}", b=f"({q:.1f})")
        slopes, size = slopes_of(activation(text), 0), 10 ** rng.uniform(-2, 0.5, size=4)
        tilt = rng.choice([0.1, 0.5, 0.9, 0.99, 0.9999, 1.0], size=4) * rng.choice([1, 1, -1], size=4)
        shared, own = size * tilt, size * np.sqrt(1 - tilt**2)
        value, error, scale = (float(part.ravel()[0]) for part in averaged(slopes, np.outer(shared, shared)
                               + np.diag(own**2)))  # fmt: skip
        exact = one_factor(slopes, shared, own)
        assert abs(factor * value - exact) <= error + 2e-14 * scale, (
            f"{text} at {shared}, {own}: {value - exact} is beyond the error {error}"
        )
        worst = max(worst, error / scale)
    return worst


@pytest.mark.slow
def test_one_common_factor():
    """The bound holds against sums that are exact to rounding, correlations of 0.9999 and 1 and large K included."""
    check_factors(0, 4)
    with pytest.raises(AssertionError, match="is beyond the error"):
        check_factors(0, 4, factor=1 + 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_many_common_factors(seed):
    check_factors(seed, 100)
