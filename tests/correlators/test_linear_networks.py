"""Laws of linear networks: against moments from pairings, quadrature of one another, drawn networks, and (3.20)."""

import math

import mpmath
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.correlators.linear_networks import LinearPreactivations, preactivations

CASES = [(depth, weights) for depth in (1, 2, 3) for weights in ("gaussian", "orthogonal", "mixed")]


def _of(depth, weights, width=5):
    return preactivations(depth=depth, width=width, weights=weights, sigma_w="6/5", input_norm="1/2")


def assert_same(found, expected, digits=13):
    assert abs(found - expected) <= mpmath.mpf(10) ** -digits * max(abs(expected), 1), f"{found} is not {expected}"


def test_characteristic_function_of_the_paper():
    """(3.20) at n = 6, C_W = 1.3, l = 3, K_0 = .7, u = 1.9; control: one neuron more."""
    value = mpmath.mpf("-0.046104309611048669")
    settings = dict(depth=3, weights="orthogonal", sigma_w="sqrt(13/10)", input_norm="7/10")
    assert_same(preactivations(width=6, **settings).characteristic_function("1.9", 25), value, 16)
    with pytest.raises(AssertionError, match=r"is not -0\.046"):
        assert_same(preactivations(width=7, **settings).characteristic_function("1.9", 25), value, 16)


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_moments_are_those_of_pairings(weights):
    """E z^2m = (2m - 1)!! G_2m, from Weingarten sums, exactly; control: another depth."""
    for order in (2, 4, 6):
        pairings = mf.symbolic.linear_moments(
            order, 3, fan_in=5, width=5, weights=weights, variance=sp.Rational(36, 25)
        )
        for depth, G in enumerate(pairings, 1):
            expected = sp.factorial2(order - 1) * G * sp.Rational(1, 2) ** (order // 2)
            assert _of(depth, weights).moment(order) == expected != _of(depth + 1, weights).moment(order)
        assert _of(1, weights).moment(order + 1) == 0


@pytest.mark.slow_with("2-gaussian", "2-orthogonal", "3-gaussian", "3-orthogonal")
@pytest.mark.parametrize(("depth", "weights"), CASES)
def test_density_has_the_moments_and_the_characteristic_function(depth, weights):
    law, u = _of(depth, weights), 1.3
    end = mpmath.sqrt(sp.N(law.squared, 20)) if not law.gaussian else mpmath.mpf(30)
    points = [0, end / 8, end / 2, end]
    with mpmath.workdps(9):
        assert_same(2 * mpmath.quad(law.density, points), 1, 6)
        assert_same(2 * mpmath.quad(lambda z: z**2 * law.density(z), points), mpmath.mpf(law.moment(2)), 5)
        transform = 2 * mpmath.quad(
            lambda z: mpmath.cos(u * z) * law.density(z), mpmath.linspace(0, end, 10 if not law.gaussian else 5)
        )
    assert_same(transform, law.characteristic_function(u), 6)
    with pytest.raises(AssertionError, match="is not"):
        assert_same(transform, _of(depth, weights, 6 if law.gaussian != 1 else 3).characteristic_function(1.31), 6)


@pytest.mark.fast_with("1")
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_density_of_the_norm(depth):
    """Its integral, and its mean, which is σ_w^{2l} Q0."""
    law = _of(depth, "gaussian")
    with mpmath.workdps(9):
        points = [0, 0.05, 0.5, 1, 3, 10, 100, 1000]
        assert_same(mpmath.quad(law.norm_density, points), 1, 6)
        assert_same(mpmath.quad(lambda q: q * law.norm_density(q), points), mpmath.mpf(law.squared / 5), 6)


@pytest.mark.parametrize(("depth", "weights"), CASES)
def test_drawn_networks(depth, weights):
    """E cos(u z) over 40,000 networks drawn by NumPy; control: σ_w larger by 3 %."""
    rng, n, networks, u = np.random.default_rng(0), 4, 40_000, 1.7
    z = np.full((networks, n), math.sqrt(0.5))
    for layer in range(depth):
        W = rng.standard_normal((networks, n, n))
        if weights == "orthogonal" or (weights == "mixed" and layer):
            Q, R = np.linalg.qr(W)
            W = Q * np.sign(np.einsum("kii->ki", R))[:, None] * math.sqrt(n)
        z = 1.2 / math.sqrt(n) * np.einsum("kij,kj->ki", W, z)
    drawn = np.cos(u * z).mean(axis=1)
    mean, error = drawn.mean(), drawn.std() / math.sqrt(networks)

    def assert_drawn(law):
        assert abs(mean - law.characteristic_function(u)) < 4 * error, "not the law of the networks drawn"

    assert_drawn(_of(depth, weights, n))
    with pytest.raises(AssertionError, match="not the law of the networks drawn"):
        assert_drawn(preactivations(depth=depth, width=n, weights=weights, sigma_w="1.26", input_norm="1/2"))


def test_elementary_ends():
    """Uniform in n = 3, the arcsine law in n = 2, and what lies outside the sphere."""
    assert preactivations(depth=2, width=3, weights="orthogonal").density(1) == pytest.approx(1 / (2 * math.sqrt(3)))
    assert preactivations(depth=2, width=2, weights="orthogonal").density(0) == pytest.approx(
        1 / (math.pi * math.sqrt(2))
    )
    assert preactivations(depth=1, width=4, weights="orthogonal").density("2.001") == 0
    assert preactivations(depth=3, width=1).density(0) == mpmath.inf
    assert _of(3, "gaussian").characteristic_function(0) == 1


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: preactivations(depth=0, width=3), "depth must be"),
        (lambda: preactivations(depth=1, width=3, weights="uniform"), "uniform"),
        (lambda: preactivations(depth=1, width=3, sigma_w=0), r"sigma_w must be a number > 0, but 0 was given\."),
        (lambda: preactivations(depth=1, width=3, input_norm="x"), r"input_norm must be .*number"),
        (lambda: preactivations(depth=1, width=3).characteristic_function("u"), "u must be a finite number"),
        (lambda: _of(2, "orthogonal").norm_density(1), "orthogonal matrices keep it"),
        (lambda: _of(2, "gaussian").norm_density(0), r"asked for at 0\.0; give a q > 0"),
        (lambda: preactivations(depth=1, width=1, weights="orthogonal").density(1), "it has no density"),
    ],
)
def test_what_is_no_such_network(call, says):
    with pytest.raises(mf.MeanFieldError, match=says):
        call()


def test_the_record_is_public():
    assert isinstance(_of(1, "mixed"), LinearPreactivations) and _of(2, "mixed").gaussian == 1


def test_products_of_many_gamma_variables():
    """Ordinary sizes at which mpmath's hypergeometric sums do not converge: against one integral over a gamma variable,
    and a Bessel function."""
    with mpmath.workdps(30):
        half, u = mpmath.mpf(25), mpmath.mpf("0.2")
        x = u**2 * 50 * (mpmath.mpf(2) / 50) ** 3 / 4  # (1 + x p)^(-n/2) over p of shape n/2
        over = mpmath.quad(lambda p: p ** (half - 1) * mpmath.exp(-p) * (1 + x * p) ** -half, [0, 10, 25, 50, 120])
        over /= mpmath.gamma(half)
        found = preactivations(depth=3, width=50).characteristic_function("0.2")
        other = preactivations(depth=4, width=50).characteristic_function("0.2")
        assert abs(found / over - 1) < 1e-14 and abs(other / over - 1) > 1e-9
        y = 5 * mpmath.mpf("0.7") / (5 * (mpmath.mpf(2) / 5) ** 2)
        bessel = 2 * y**1.5 * mpmath.besselk(0, 2 * mpmath.sqrt(y)) * y / mpmath.mpf("0.7") / mpmath.gamma(2.5) ** 2
        assert abs(preactivations(depth=2, width=5).norm_density("0.7") / bessel - 1) < 1e-14
    wide = preactivations(depth=3, width=1000)
    assert float(wide.norm_density(1)) == pytest.approx(math.sqrt(1000 / (12 * math.pi)), rel=5e-3)  # nearly normal
    assert float(preactivations(depth=12, width=200).density("0.5")) == pytest.approx(0.359195383565758, rel=1e-13)
