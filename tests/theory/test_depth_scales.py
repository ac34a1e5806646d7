"""Depths of finite width and fluctuations over inputs: against iterations, the paper's values and drawn neurons."""

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.bias.guessing import variance_over_inputs
from meanfield.theory.depth_scales import crossover_depth, optimal_depth


def _pooled(kind):
    return mf.derive(architecture=mf.Sequential((mf.Nonlinearity("relu"), mf.Pool(2, kind), mf.Dense())))


@pytest.mark.parametrize(("kind", "printed"), [("max", 24), ("average", 17)])
@pytest.mark.parametrize("sigma_w", [1, "5/2"])
def test_crossover_of_pools(kind, printed, sigma_w):
    """The paper's 24 and 17 at N = 1000, A = 10, where K settles and where it grows: χ_K/χ_J of ReLU knows no K."""
    found = crossover_depth(_pooled(kind), width=1000, amplitude=10, sigma_w=sigma_w, sigma_b="1/10")
    assert abs(found - printed) < 0.5
    # χ_K/χ_J: E max(0, u_1, u_2)² over 1 - P(both < 0) … = (3/4 + 1/(2π))·(…): here from drawn pairs
    u = np.random.default_rng(0).standard_normal((400_000, 2))
    relu, slope = np.maximum(u, 0), (u > 0).astype(float)
    if kind == "max":
        f, J = relu.max(axis=1), (u.max(axis=1) > 0).astype(float)
    else:
        f, J = relu.mean(axis=1), (slope**2).sum(axis=1) / 4
    ratio = (f * f).mean() / J.mean()
    assert abs(math.log(100) / math.log(ratio) - found) < 0.02 * found
    assert abs(math.log(100) / math.log(1.02 * ratio) - found) > 0.05 * found, "control"


def test_crossover_of_a_fixed_point_and_its_ends():
    theory = mf.derive("sin")
    point = theory.phase(sigma_w=2, sigma_b="1/10").fixed_point
    ratio = float(point.chi_K.value / point.chi_J.value)
    found = crossover_depth(theory, width=500, sigma_w=2, sigma_b="1/10")
    assert found == (math.inf if ratio <= 1 else pytest.approx(math.log(500) / math.log(ratio)))
    with pytest.raises(mf.MeanFieldError, match="K grows without bound and moves them"):
        crossover_depth(mf.derive("gelu"), width=1000, sigma_w=3, sigma_b="1/10")
    with pytest.raises(mf.MeanFieldError, match="amplitude must be > 0"):
        crossover_depth(theory, width=500, amplitude=0, sigma_w=2, sigma_b=0)


@pytest.mark.fast_with("100-12")
@pytest.mark.parametrize(("width", "printed"), [(30, sp.Rational(18, 5)), (100, 12)])
def test_optimal_depth_of_the_paper(width, printed):
    """3.6 and 12 for ten outputs; ν = 2/3 again from V/K² of a long run."""
    theory = mf.derive("tanh")
    assert optimal_depth(theory, width=width, outputs=10, sigma_w=1, sigma_b=0) == printed
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=20_000, quantities=("V",))
    slope = (run.normalized("V")[-1] - run.normalized("V")[-10_001]) / 10_000
    assert abs(4 * width / (50 * slope) - float(printed)) < 1e-3 * float(printed)
    assert abs(4 * width / (50 * 1.01 * slope) - float(printed)) > 5e-3 * float(printed), "control"


def test_no_optimal_depth():
    with pytest.raises(mf.MeanFieldError, match=r"but here it is -2 \+ 8/\(3\*l\)"):
        optimal_depth(mf.derive("tanh", weights="orthogonal"), width=30, outputs=10, sigma_w=1, sigma_b=0)


@pytest.mark.parametrize("quantity", ["K_ab", "K_aa"])
def test_variance_over_inputs_of_drawn_neurons(quantity):
    """N Var over inputs, mean over centres, of z = μ + σ_y ε; (53) of the paper, without the cross term, fails."""
    rng, N, mu2, y2 = np.random.default_rng(1), 50, 2.0, 0.7
    found = []
    for _ in range(40):
        centre = math.sqrt(mu2) * rng.standard_normal(N)
        a, b = (centre + math.sqrt(y2) * rng.standard_normal((2000, N)) for _ in "ab")
        found.append(N * np.var((a * (b if quantity == "K_ab" else a)).mean(axis=1), ddof=1))
    mean, error = np.mean(found), np.std(found) / math.sqrt(len(found))
    expected = variance_over_inputs(quantity)

    def assert_close(value):
        assert abs(float(value) - mean) < 4 * error, "not N Var"

    at = dict(zip(sorted(expected.free_symbols, key=str), (mu2, y2)))
    assert_close(expected.subs(at))
    with pytest.raises(AssertionError, match="not N Var"):
        assert_close((2 if quantity == "K_aa" else 1) * y2**2)


@pytest.mark.slow
def test_the_optimal_depth_is_as_exact_as_its_slope():
    """ν of tanh(z) + z²/5 at K* > 0 is a float, and so is L*; a long exact one stays what it is."""
    theory = mf.derive("tanh(z)+z**2/5")
    found = optimal_depth(theory, width=1000, outputs=10, at=theory.critical_points()[1])
    assert found.is_Float and abs(found - 122.157) < 0.001
    exact = optimal_depth(mf.derive("relu"), width=987654321987, outputs=7, sigma_w="sqrt(2)", sigma_b=0)
    assert exact == sp.Rational(4 * 987654321987, 41 * 5) and exact.is_Rational


@pytest.mark.slow
def test_a_pool_rests_at_zero_without_biases_alone():
    pool = mf.Pool(2, "sqrt(z1**2 + z2**2)")
    theory = mf.derive(architecture=mf.Sequential((mf.Nonlinearity("relu"), pool, mf.Dense())))
    (point,) = theory.fixed_points(sigma_w=0.7, sigma_b=0)
    assert float(point.K.value) == 0 and float(point.chi_K.value) == pytest.approx(0.49)  # K' = sigma_w² K
    (biased,) = theory.fixed_points(sigma_w=0.7, sigma_b=0.1)
    assert float(biased.K.value) > 0.01


def test_fluctuations_of_k_may_lead_from_the_first_layer():
    """log(N/A)/log(χ_K/χ_J) is negative where A > N: there is no negative layer."""
    at = dict(width=100, sigma_w=1.5, sigma_b=0.1)
    assert crossover_depth(mf.derive("sin(z)**2"), amplitude=200, **at) == 0
    assert crossover_depth(mf.derive("sin(z)**2"), amplitude=50, **at) > 0
