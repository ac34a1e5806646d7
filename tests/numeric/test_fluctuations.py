"""Networks with a skip to order 1/n: V, G1, J1 against plain recursions, pairs of layers, and explicit networks."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield.functions.activations import activation
from meanfield.numeric.finite_width.skip_correlators import corrections
from meanfield.numeric.quadrature.hermite import spectrum
from tests.oracles import memory as oracle

NAMES = ("K", "J", "V", "G1", "J1")
SKIP = mf.derive("tanh", residual=True, mu="mu")
PAPER = dict(sigma_w=1.2, sigma_b=0.1)


def assert_same(run, other, tolerance, names=("V", "G1", "J1")):
    """Every layer of every name, in units of its largest value."""
    for name in names:
        a, b = np.asarray(getattr(run, name)), np.asarray(other[name])
        assert np.abs(a - b).max() <= tolerance * np.abs(b).max(), f"{name} is {a}, not {b}"


ALL = ("V", "G1", "J1")
PHI = [("tanh", ("V",)), *(pytest.param(p, ALL, marks=pytest.mark.slow) for p in ("tanh", "relu", "selu"))]


@pytest.mark.parametrize(("phi", "names"), PHI)
def test_without_a_skip_it_is_the_plain_recursion(phi, names):
    """μ = 0, to digits; the plain recursion is derived by words and pairings."""
    settings = dict(sigma_w=1.2, sigma_b=0.1, depth=6)
    plain = mf.derive(phi).propagate(**settings, quantities=names)
    K, log_J = plain.K, plain.log_J if "J1" in names else None
    found = corrections(activation(phi), K, log_J, [1.44] * 5, [0.01] * 5, [0.0] * 5)
    assert_same(found, {"V": plain.V}, 1e-12, ("V",))
    if "J1" in names:
        assert np.abs(found.G1 - plain.G1).max() < 1e-12  # 0 for relu, as J1
        assert np.abs(found.J1_J - plain.normalized("J1")).max() < 1e-12
        alone = corrections(activation(phi), K, None, [1.44] * 5, [0.01] * 5, [0.0] * 5)
        assert alone.J1_J is None and np.allclose(alone.G1, found.G1, rtol=1e-12, atol=1e-14)
    with pytest.raises(AssertionError, match=r"^V is \["):
        assert_same(found, {"V": 1.0001 * plain.V}, 1e-12, ("V",))


@pytest.mark.parametrize(("sigma_w", "sigma_b", "mu"), [(1.2, 0.1, 1.0), (0.8, 0.3, 0.6)])
def test_against_pairs_of_layers(sigma_w, sigma_b, mu):
    """The sum over all earlier layers, with two-dimensional averages; the closure on V and G1 fails."""
    settings = dict(sigma_w=sigma_w, sigma_b=sigma_b)
    run = SKIP.propagate(**settings, depth=7, quantities=NAMES, mu=mu)
    K1 = sigma_w**2 + sigma_b**2
    pairs = oracle.expansion(oracle.tanh, oracle.d_tanh, **settings, mu=mu, K1=K1, depth=7)
    assert_same(run, pairs, 1e-9, NAMES)
    closed = oracle.expansion(oracle.tanh, oracle.d_tanh, **settings, mu=mu, K1=K1, depth=7, memory=False)
    for name, least in (("V", 0.005), ("G1", 0.02), ("J1", 0.02)):
        with pytest.raises(AssertionError, match=r"^\w+ is \["):
            assert_same(run, closed, least, (name,))
    if mu == 1:  # by layer 5 about half of G1 is missing
        assert 0.35 < 1 - closed["G1"][4] / run.G1[4] < 0.65


def test_linear_networks_know_it_exactly():
    """φ = z: K^{l+1} given layer l is a sum of independent squares, so n E K = n K, and n var K is known in closed
    form: E[S²] of |z′|² = |W z + μ z|², layer by layer."""
    C, mu, depth = 0.7, 0.5, 6
    run = mf.derive("z", residual=True, mu=mu).propagate(sigma_w=C**0.5, sigma_b=0, depth=depth, quantities=NAMES)
    growth = C + mu**2
    assert np.abs(run.G1).max() < 1e-13 and np.abs(run.normalized("J1")).max() < 1e-13
    # given z, |z′|²/n has mean (C + μ²)S and variance (2C² + 4Cμ²)S²/n; of independent neurons 2K²/n
    relative = 2 + np.arange(depth) * (2 * C**2 + 4 * C * mu**2) / growth**2
    assert np.allclose(run.V / run.K**2, relative - 2, rtol=1e-12, atol=1e-12)


# --------------------------------------------------------------------------------------------------------- networks


def assert_means(measured, expected):
    """Extrapolated by x₀ + x₁/n, |z| ≤ 4 at every layer; measured: width → (values, errors)."""
    widths = np.array(list(measured))
    powers = np.vander(1 / widths, 2, increasing=True)
    seen = []
    for k, value in enumerate(expected):
        x, error = (np.array([m[i][k] for m in measured.values()]) for i in (0, 1))
        weights = (np.linalg.pinv(powers / error[:, None]) / error)[0]
        seen.append((weights @ x - value) / np.sqrt(weights**2 @ error**2))
    assert np.abs(seen).max() < 4, f"not the theory's values: z = {np.round(seen, 1)}"


@pytest.mark.slow
def test_means_of_networks():
    """n(E K − K) and n(E J − J)/J of tanh, μ = 1, layers 2 to 9, explicit weights of widths 16, 32, 64; the closure on
    V and G1, and a wrong sign of J1, fail."""
    settings = dict(**PAPER, mu=1.0)
    run = SKIP.propagate(**settings, depth=9, quantities=NAMES)
    place = (oracle.tanh, oracle.d_tanh, *settings.values(), 1.2**2 + 0.1**2, 9)
    closed = oracle.expansion(*place, memory=False)
    found = {}
    for n, parts in ((16, 10), (32, 10), (64, 20)):
        each = [oracle.networks(*place, n, 32000 // parts, 100 * n + i, closed) for i in range(parts)]
        mean, error = np.mean([e[:, 0] for e in each], 0), np.sqrt(np.mean([e[:, 1] ** 2 for e in each], 0) / parts)
        found[n] = mean, error
    of_K, of_J = ({n: (m[i], e[i]) for n, (m, e) in found.items()} for i in (0, 1))
    assert_means(of_K, run.G1[1:])
    assert_means(of_J, run.normalized("J1")[1:])
    for wrong in (closed["G1"][1:], -run.G1[1:]):
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_means(of_K, wrong)
    for wrong in ((closed["J1"] / closed["J"])[1:], -run.normalized("J1")[1:]):
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_means(of_J, wrong)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["tanh", "relu"])
def test_vertex_of_networks(phi):
    """V of `measure`, three widths; n var(δK), a quarter of it, without what neurons know of each other, fails."""
    theory, settings = mf.derive(phi, residual=True), dict(sigma_w=1.0, sigma_b=0.2, depth=4)
    run = theory.propagate(**settings, quantities=("K", "V"))
    found = {}
    for n in (12, 24, 48):
        one = mf.measure(theory, **settings, width=n, networks=4000, seed=n, quantities=("V",)).estimate("V")
        found[n] = np.ravel(one.mean)[1:], np.ravel(one.standard_error)[1:]
    assert_means(found, run.V[1:])
    with pytest.raises(AssertionError, match="not the theory's values"):
        assert_means(found, 0.3 * run.V[1:])


# -------------------------------------------------------------------------------------------------------- spectra


def test_hermite_coefficients_average_over_two_gaussians():
    """⟨f g⟩ of a kink, a jump and an analytic function against panels in two dimensions, Mehler's sum of erf."""
    found = spectrum(lambda z: np.stack([np.maximum(z, 0), (z > 0.3) * 1.0, np.tanh(z)]), 2.0, (0.0, 0.3), rho=0.8)
    n = np.arange(found.c.shape[1])
    kappa = 2.0 * (np.sqrt(1 - 0.64) + 0.8 * (np.pi - np.arccos(0.8))) / (2 * np.pi)
    assert found.c[0] ** 2 @ 0.8**n == pytest.approx(kappa, rel=1e-13)
    x, y, w = oracle.X[:, None], oracle.X[None, :], oracle.W[:, None] * oracle.W[None, :]
    both = np.tanh(2**0.5 * x) * np.tanh(2**0.5 * (0.8 * x + 0.6 * y))
    assert found.c[2] ** 2 @ 0.8**n == pytest.approx(float((w * both).sum()), rel=1e-12)
    assert found.products[1, 1] == pytest.approx(found.c[1, 0], rel=1e-13)
    with pytest.raises(mf.MeanFieldError, match="grows too fast"):
        spectrum(lambda z: np.exp(z**2 / 4)[None], 4.0)


# ------------------------------------------------------------------------------------------------------------ runs


def test_runs_of_networks_with_a_skip():
    """Arrays of points, layers, σ's that vary, what is read off; kinks and jumps; layers behind an overflow are NaN."""
    run = SKIP.propagate(sigma_w=[1.0, 1.3], sigma_b=0.1, depth=4, quantities=NAMES, mu=1)
    one = SKIP.propagate(sigma_w=1.3, sigma_b=0.1, depth=4, quantities=("G1", "J1"), mu=1)
    assert run.V.shape == (2, 4) and np.allclose(run.G1[1], one.G1, rtol=1e-13) and "V" not in one.quantities
    assert np.allclose(run.J1, run.J * run.normalized("J1")) and run.normalized("V").shape == (2, 4)
    assert np.allclose(one.at_width(50)["J"], one.J + one.J1 / 50) and 0 < one.error < 1e-10
    last = SKIP.propagate(sigma_w=1.3, sigma_b=0.1, depth=4, quantities=("G1",), mu=1, every_layer=False)
    assert last.G1.shape == (1,) and last.l.tolist() == [4] and last.G1[0] == one.G1[-1]
    layers = SKIP.propagate(sigma_w=[1.3] * 4, sigma_b=[0.1] * 4, depth=4, quantities="G1", mu=1, layerwise=True)
    assert np.allclose(layers.G1, one.G1, rtol=1e-13)
    formula = mf.derive("z if z > t else a*z", t="t", a="a", residual=True)
    kinked = formula.propagate(sigma_w=1.3, sigma_b=0.1, depth=3, quantities="G1", t=0, a=0.01)
    leaky = mf.derive("leaky_relu", residual=True).propagate(sigma_w=1.3, sigma_b=0.1, depth=3, quantities="G1")
    assert np.allclose(kinked.G1, leaky.G1, atol=1e-14)
    assert SKIP.propagate(sigma_w=1, sigma_b=0, depth=1, quantities=NAMES, mu=1).V.tolist() == [0]
    frozen = SKIP.propagate(sigma_w=[1.3, 0, 0], sigma_b=0.1, depth=3, quantities=NAMES, mu=1, layerwise=True)
    assert np.array_equal(frozen.V, np.zeros(3)) and np.array_equal(frozen.J, np.ones(3))
    step = mf.derive("step", residual=True).propagate(sigma_w=1, sigma_b=0.1, depth=4, quantities=("V", "G1"))
    assert np.isfinite(step.V).all() and step.G1[-1] < 0
    burst = mf.derive("relu2", residual=True).propagate(sigma_w=3, sigma_b=0, depth=14, quantities=("V", "G1"))
    first = int(burst.diverged_at)
    assert first and np.isnan(burst.V[first - 1 :]).all() and "diverges" in burst.message()


AT = dict(sigma_w=1, sigma_b=0.1, depth=3)


@pytest.mark.parametrize(
    ("theory", "settings", "sentence"),
    [
        (mf.derive("tanh", residual=True), dict(quantities=("V", "Theta1")), "Theta1 is not available: .* with a skip"),
        (mf.derive("tanh", residual=True), dict(quantities="V", lambda_w=1), "lambda_w is not available"),
        (mf.derive("tanh", residual=True), dict(quantities="V", input_norm=0, sigma_b=0), "is 0 at layer 1"),
        (mf.derive("tanh", residual=True, norm="pre"), dict(quantities="V"), "has a LayerNorm"),
        (mf.derive("tanh", residual=True, weights="orthogonal"), dict(quantities="G1"), "other weights than Gaussian"),
        (mf.derive("tanh", architecture="full_residual"), dict(quantities="J1"), "2 Dense layers"),
        (mf.derive("step", residual=True), dict(quantities="J1"), "infinite"),
    ],
)
def test_what_is_refused(theory, settings, sentence):
    with pytest.raises(mf.MeanFieldError, match=sentence):
        theory.propagate(**(AT | settings))


def test_no_map_of_one_layer_carries_it():
    with pytest.raises(mf.MeanFieldError, match=r"V is not available: .* has a skip"):
        mf.derive("tanh", residual=True).recursion("V")
