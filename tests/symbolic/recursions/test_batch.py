"""Networks whose inputs act on each other: BatchNorm over infinite and finite batches, affine maps, mixed tokens.

Judges: Monte Carlo over the exact layer of infinite width (its own NumPy code), Gauss–Hermite and mpmath quadrature for
the maps, finite networks of two widths.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Residual, Scale, Sequential
from meanfield.base.symbols import J, J_ab, K, K_ab, Z, sigma_b, sigma_w
from meanfield.networks import AffineNorm
from meanfield.numeric.lowering.many_positions import nested_quadrature as lowering
from meanfield.numeric.quadrature.sphere import sphere_value
from meanfield.symbolic.averages.node import average, independent
from meanfield.symbolic.averages.nodes.shared_averages import Common
from meanfield.symbolic.averages.nodes.spheres import SphereAverage, sphere

BN, D = BatchNorm(), Dense()
RELU, TANH, GELU, STEP = (Nonlinearity(n) for n in ("relu", "tanh", "gelu", "step"))
CHAIN = Sequential((BN, RELU, D))
V = K - K_ab


def theory(*blocks, mu=0, batch=None):
    chain = Sequential(blocks)
    return mf.derive(architecture=chain if mu == 0 else Residual(chain, mu), batch=batch)


# ------------------------------------------------------------------------------------------------------------- maps


def test_an_infinite_batch_of_gaussians_is_normalized_to_independent_ones():
    found = theory(BN, RELU, D).recursion("K", "K_ab", "J", "J_ab").doit()
    assert sp.expand(found["K"] - sigma_b**2 - sigma_w**2 / 2) == 0
    assert sp.expand(found["K_ab"] - sigma_b**2 - sigma_w**2 / (2 * sp.pi)) == 0
    assert sp.simplify(found["J"] - sigma_w**2 * (J - J_ab) / (2 * V)) == 0
    assert found["J_ab"] == 0
    assert found.start["J_ab"] == 0  # summed over what is perturbed at every position


def test_a_skip_adds_what_the_batch_shares():
    found = theory(BN, RELU, D, mu="mu").recursion("K_ab", "J_ab").doit()
    mu = sp.Symbol("mu", real=True)
    assert sp.expand(found["K_ab"] - sigma_b**2 - sigma_w**2 / (2 * sp.pi) - mu**2 * K_ab) == 0
    assert sp.expand(found["J_ab"] - mu**2 * J_ab) == 0


def test_what_a_norm_makes_of_any_function_has_mean_zero_and_variance_one():
    """φ → BN → Dense: K and K_ab do not know φ."""
    for phi in (TANH, GELU):
        found = theory(phi, BN, D).recursion("K", "K_ab")
        assert found["K"] == sigma_b**2 + sigma_w**2
        assert found["K_ab"] == sigma_b**2


@pytest.mark.slow
def test_jacobians_of_the_issue():
    """ReLU, |B| = 8, σ_w = 1.4, σ_b = .3: J^{1,12} by the pair (J, J_ab); one-block Jacobians multiplied miss it."""
    for mu, true, product in ((0, 200.58, 66.09), (Fraction(7, 10), 24.727, 12.89), (1, 14.007, 12.06)):
        held = theory(BN, RELU, D, mu=mu, batch=8)
        run = held.propagate(sigma_w=1.4, sigma_b=0.3, depth=12, quantities=("K", "K_ab", "J", "J_ab"))
        assert run.J[-1] == pytest.approx(true, rel=5e-5)
        maps, total = held.recursion("J").doit(), 1.0
        for k, k_ab in zip(run.K[:-1], run.K_ab[:-1]):
            here = {K: k, K_ab: k_ab, J: 1, J_ab: 0, sigma_w: 1.4, sigma_b: 0.3}
            total *= float(sp.N(maps["J"].subs(here)))
        assert total == pytest.approx(product, rel=5e-4)
        assert abs(total / true - 1) > 0.1


@pytest.mark.fast_with("256-1.473234")
@pytest.mark.parametrize(("size", "rate"), [(8, 1.788190), (64, 1.493063), (256, 1.473234)])
def test_growth_per_layer_of_a_finite_batch(size, rate):
    rho = -1 / (size - 1)
    kappa = (math.sqrt(1 - rho**2) + rho * (math.pi - math.acos(rho))) / math.pi
    both = 0.25 + math.asin(rho) / (2 * math.pi)
    formula = (size - 2 + 2 * both + kappa) / ((size - 3) * (1 - kappa))
    chi = float(theory(BN, RELU, D, batch=size).phase(sigma_w="1.4", sigma_b="0.3").chi_J.value)
    assert chi == pytest.approx(formula, rel=1e-12)
    assert chi == pytest.approx(rate, abs=6e-7)


def one_layer(f, slope, size, K_, K_ab_, own, between, neurons=400_000, seed=0):
    """(⟨x_a x_a⟩, ⟨x_a x_b⟩, Γ, Γ_ab) of x = f(BN(z)) by Monte Carlo over neurons of an infinitely wide layer, each
    with its own error: the full derivative of BatchNorm, written out as matrices."""
    rng = np.random.default_rng(seed)
    cov = np.full((size, size), K_ab_) + np.eye(size) * (K_ - K_ab_)
    gram = np.full((size, size), between) + np.eye(size) * (own - between)
    z = rng.normal(size=(neurons, size)) @ np.linalg.cholesky(cov).T
    P = np.eye(size) - 1 / size
    centred = z @ P
    s = np.sqrt((centred**2).mean(1))
    y = centred / s[:, None]
    # dy = (P - y yᵀ/B) dz/s
    D_ = (P[None] - y[:, :, None] * y[:, None, :] / size) / s[:, None, None] * slope(y)[:, :, None]
    pushed = np.einsum("nij,jk,nlk->nil", D_, gram, D_, optimize=True)
    x = f(y)

    def split(M):
        diagonal = np.einsum("nii->ni", M).mean(1)
        rest = (M.sum((1, 2)) - np.einsum("nii->n", M)) / (size * (size - 1))
        return diagonal, rest

    parts = [*split(x[:, :, None] * x[:, None, :]), *split(pushed)]
    return [(p.mean(), p.std() / math.sqrt(neurons)) for p in parts]


@pytest.mark.slow
def test_any_activation_against_the_exact_layer():
    """tanh, |B| = 10: every map, from a state with J_ab ≠ 0; a sign of J_ab's map turned is seen."""
    state = {K: 1.3, K_ab: 0.4}
    own, between = 2.0, -0.3
    maps = theory(BN, TANH, D, batch=10).recursion("K", "K_ab", "J", "J_ab")
    nodes = {n: sphere_value(n)[0] for e in maps.step for n in e.atoms(SphereAverage)}
    at = state | {J: own, J_ab: between, sigma_w: 1, sigma_b: 0}
    ours = [float(e.xreplace(nodes).subs(at)) for e in maps.step]
    true = one_layer(np.tanh, lambda y: 1 - np.tanh(y) ** 2, 10, 1.3, 0.4, own, between, 100_000)
    z = [(mean - here) / error for here, (mean, error) in zip(ours, true)]
    assert max(map(abs, z)) < 4, z
    assert abs(true[3][0] + ours[3]) > 10 * true[3][1]


@pytest.mark.slow
def test_a_batch_of_any_size_has_no_less_than_four():
    with pytest.raises(mf.MeanFieldError, match=r"from .B. = 4 on"):
        theory(BN, RELU, D, batch=3)
    assert theory(BN, RELU, D, batch=4).phase(sigma_w=1, sigma_b=0).name == "chaotic"


# ------------------------------------------------------------------------------------- averages over a normalized batch


def test_sphere_averages_against_mpmath():
    """The compiled quadrature and mpmath's, of functions with kinks and without, of one entry and of two."""
    kinked = mf.activation("hard_tanh").pieces.expr
    smooth = mf.activation("relu").pieces.expr
    for node in (*sphere(kinked**2, sp.S.One, 5).atoms(SphereAverage), *sphere(smooth, smooth, 4).atoms(SphereAverage)):
        assert sphere_value(node)[0] == pytest.approx(float(sp.N(node, 15)), abs=1e-13)


@pytest.mark.slow
def test_sphere_averages_of_two_entries_against_mpmath():
    tanh, hard = (mf.activation(n).pieces.expr for n in ("tanh", "hard_tanh"))
    for f, size in ((tanh, 8), (hard, 5), (hard, 8)):
        (node,) = sphere(f, f, size).atoms(SphereAverage)
        assert sphere_value(node)[0] == pytest.approx(float(sp.N(node, 15)), abs=1e-12)


def test_homogeneous_functions_close_over_the_sphere():
    """⟨φφ⟩ = κ₁(ρ)/2 of ReLU at ρ = -1/(|B| - 1), by the radius of a Gaussian."""
    relu = mf.activation("relu").pieces.expr
    rho = -1 / 7
    kappa = (math.sqrt(1 - rho**2) + rho * (math.pi - math.acos(rho))) / math.pi
    assert float(sphere(relu, relu, 8).doit()) == pytest.approx(kappa / 2, rel=1e-14)
    assert sphere(Z[0] ** 2, Z[0] ** 2, 5) == sp.Rational(3, 4)  # (1 + 2ρ²)·(B - 1)/(B + 1) with ρ = -1/4
    assert sphere(Z[0] ** 2, sp.S.One, 5) == 1


# ----------------------------------------------------------------------------------------- BatchNorm of a function of z


def hermite(n=80):
    x, w = np.polynomial.hermite_e.hermegauss(n)
    return x, w / math.sqrt(2 * math.pi)


@pytest.mark.slow
def test_the_growth_of_a_norm_on_activations():
    """tanh → BN → Dense at σ_w = 1.4, σ_b = .8: 1.3881 a layer, by nested Gauss–Hermite; one common mean and variance
    would give 1.079."""
    x, w = hermite()
    inner, outer = 1.4, 0.8
    z = outer * x[:, None] + inner * x[None, :]
    f, slope = np.tanh(z), 1 - np.tanh(z) ** 2
    mean, square, steep = f @ w, (f**2) @ w, (slope**2) @ w
    nested = 1.96 * float((steep / (square - mean**2)) @ w)
    shared = 1.96 * float(steep @ w) / float(square @ w - (mean @ w) ** 2)
    run = theory(TANH, BN, D).propagate(sigma_w=1.4, sigma_b=0.8, depth=5)
    assert run.J[-1] / run.J[-2] == pytest.approx(nested, rel=1e-9)
    assert nested == pytest.approx(1.3881, abs=5e-5)
    assert shared == pytest.approx(1.079, abs=5e-4)
    assert run.error < 1e-6


def test_nested_averages_are_compiled_as_they_are_meant():
    """A node's generated source against Gauss–Hermite within Gauss–Hermite, and a wrong variance."""
    (node,) = theory(TANH, BN, D).limiting["J"].atoms(Common)
    source = lowering.text(node, "g")
    f = lowering.printing.interpret(source, "g")
    x, w = hermite()
    for V_, M in ((0.7, 0.5), (0.5, 0.9)):
        z = math.sqrt(M) * x[:, None] + math.sqrt(V_) * x[None, :]
        t = np.tanh(z)
        spread = ((t - (t @ w)[:, None]) ** 2) @ w
        true = float(((((1 - t**2) ** 2) @ w) / spread) @ w)
        assert f(V_, M) == pytest.approx(true, rel=1e-8)
        assert f(M, V_) != pytest.approx(true, rel=1e-3)


# --------------------------------------------------------------------------------------------------- where it settles


def test_without_skip_gradients_grow_against_the_signal():
    """Fixed points, phases and the invariant that no gain moves."""
    held = theory(BN, RELU, D)
    chi = sp.pi / (sp.pi - 1)
    assert sp.simplify(held.phase(sigma_w="1.4", sigma_b="0.3").chi_J.value - chi) == 0
    assert sp.simplify(held.batch_invariant() - chi) == 0
    assert sp.simplify(theory(BN, RELU, Scale("g"), D).batch_invariant() - chi) == 0
    assert theory(BN, Nonlinearity("linear"), D).batch_invariant() == 1
    diagram = held.phase_diagram(sigma_w=[0.5, 1, 1.5, 2], sigma_b=[0, 0.5, 1])
    assert np.allclose(diagram.chi_J, math.pi / (math.pi - 1), rtol=1e-12)


@pytest.mark.slow
def test_gains_that_fall_make_every_jacobian_one_and_scale_the_batch():
    depth = 10
    shrink = math.sqrt((math.pi - 1) / math.pi)
    start = 1.3
    first = start * shrink / math.sqrt(0.5)  # J^{1,2} = ½σ²/V¹ = 1 with V¹ = start²
    z_ratios = np.array([start, *(math.sqrt(2) * start * shrink**k for k in range(depth - 1))])
    run = theory(BN, RELU, D).propagate(sigma_w=z_ratios, sigma_b=0, depth=depth, layerwise=True)
    assert first > 0
    assert np.allclose(run.J, 1, rtol=1e-12)
    apart = run.K - run.K_ab
    assert np.allclose(apart[1:] / apart[:-1], shrink**2, rtol=1e-12)


def test_under_a_skip():
    """(π - μ²)/(π - 1) for μ < 1, J ~ l^{π/(π - 1)} at μ = 1."""
    held = theory(BN, RELU, D, mu="mu")
    found = held.phase(sigma_w=1, sigma_b=0, mu="0.5").chi_J.value
    assert sp.simplify(found - (sp.pi - sp.Rational(1, 4)) / (sp.pi - 1)) == 0
    one = theory(BN, RELU, D, mu=1)
    assert one.phase(sigma_w=1, sigma_b=0).name == "critical"
    assert sp.simplify(one.depth_law("J", sigma_w=1, sigma_b=0).exponent - sp.pi / (sp.pi - 1)) == 0
    finite = theory(BN, RELU, D, mu=1, batch=256).propagate(sigma_w=1, sigma_b=0, depth=30, every_layer=True)
    assert finite.J[-1] / finite.J[-2] == pytest.approx(1.0461 + 0.0016, abs=2e-3)


# ----------------------------------------------------------------------------------------------------- mixed tokens


def test_tokens_at_the_level_of_means():
    """A Dense on tokens leaves nothing between two of them, and does to K and J what one on neurons does."""
    mixed = theory(RELU, Dense(axis="tokens")).recursion("K", "K_ab", "J", "J_ab").doit()
    plain = mf.derive("relu").recursion("K", "J").doit()
    assert mixed["K"] == plain["K"]
    assert sp.expand(mixed["J"] - plain["J"]) == 0
    assert (mixed["K_ab"], mixed["J_ab"]) == (0, 0)


@pytest.mark.slow
def test_affine_maps_are_the_identity_but_for_what_they_train():
    with_, without = theory(AffineNorm(), TANH, D), theory(TANH, D)
    assert with_.recursion("K", "J") == without.recursion("K", "J")
    more = sp.expand(with_.recursion("Theta")["Theta"] - without.recursion("Theta")["Theta"])
    assert more != 0
    ours = with_.propagate(sigma_w=1.2, sigma_b=0.3, depth=3, quantities=("Theta",))
    block = Sequential((AffineNorm(), TANH, D))
    found = mf.measure(block, sigma_w=1.2, sigma_b=0.3, width=150, depth=3, networks=24, quantities=("Theta",), seed=2)
    half = mf.measure(block, sigma_w=1.2, sigma_b=0.3, width=75, depth=3, networks=24, quantities=("Theta",), seed=5)
    mean = 2 * found.estimate("Theta").mean - half.estimate("Theta").mean
    error = np.hypot(2 * found.estimate("Theta").standard_error, half.estimate("Theta").standard_error)
    assert (np.abs(mean - ours.Theta) < 4 * error).all()
    plain = without.propagate(sigma_w=1.2, sigma_b=0.3, depth=3, quantities=("Theta",))
    assert abs(mean[-1] - plain.Theta[-1]) > 4 * error[-1]


# ------------------------------------------------------------------------------------------------------------ networks

NETWORKS = {
    "relu, |B| = 8": (Sequential((BN, RELU, D)), {"batch": 8}),
    "tanh beside a skip": (Residual(Sequential((BN, TANH, D)), Fraction(7, 10)), {"batch": 16}),
    "norm on activations": (Sequential((TANH, BN, D)), {"batch": 128, "networks": 16, "sigma_b": 0.8}),
    "between two Dense": (Sequential((D, BN, Nonlinearity("softplus"), D, Scale(Fraction(1, 2)))), {"batch": 6}),
    "with a LayerNorm": (Sequential((BN, RELU, LayerNorm(), D, TANH, D)), {"batch": 8}),
    "a norm at the end": (Sequential((TANH, D, BN)), {"batch": 64, "networks": 16}),
    "a norm on the shortcut": (Residual(Sequential((TANH, D)), 1, BN), {"batch": 64, "networks": 16}),
    "two norms on activations": (Sequential((TANH, BN, TANH, BN, D)), {"batch": 128, "networks": 16}),
    "a pool": (Sequential((BN, RELU, Pool(2), D)), {"batch": 64, "networks": 16}),
    "a gate": (Sequential((BN, mf.Gate("silu"), D)), {"batch": 8}),
    "a skip behind a norm": (Sequential((TANH, BN, Residual(TANH, 1), D)), {"batch": 128, "networks": 16}),
    "gelu, norm, tanh": (Sequential((GELU, BN, TANH, D)), {"batch": 128, "networks": 16}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_finite_networks(name):
    """K, K_ab, J and Theta of networks of width 512, what width (and batch) add measured; J of other σ_w is refused."""
    block, more = NETWORKS[name]
    given = {"sigma_w": 1.4, "sigma_b": 0.3, "width": 512, "depth": 4, "networks": 32, "seed": 1} | more
    theory_ = mf.derive(architecture=block)
    names = tuple(n for n in ("K", "K_ab", "J", "Theta") if n in theory_.one_input.names)
    report = mf.check(theory_, **given, sampler="explicit", quantities=names)
    assert report.passed, str(report)


@pytest.mark.slow
def test_a_block_of_resmlp():
    half = Fraction(7, 10)
    patches = Residual(Sequential((AffineNorm(), Dense(axis="tokens"), Scale(half))), Fraction(9, 10))
    channels = Residual(Sequential((AffineNorm(), Dense(expand=2), RELU, D, Scale(half))), Fraction(9, 10))
    given = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 256, "depth": 4, "networks": 32, "seed": 1, "tokens": 32}
    report = mf.check(mf.derive(architecture=Sequential((patches, channels))), **given, quantities=("K", "J", "Theta"))
    assert report.passed, str(report)


# ------------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda: theory(TANH, BN, D, batch=8).recursion(), "BatchNorm of a function of z over a batch of 8"),
        (lambda: theory(Scale(0), BN, RELU, D).recursion(), "constant over the batch"),
        (lambda: theory(BN, RELU, D).recursion("K_aa"), "of two inputs apart from all others"),
        (lambda: theory(BN, RELU, D).recursion("V"), "not derived where positions act on each other"),
        (lambda: mf.derive("tanh", batch=8), "no BatchNorm"),
        (lambda: theory(RELU, Pool(2), BN, D).recursion(), "right after a Pool"),
        (lambda: theory(Residual(BN, 1), RELU, D).recursion(), "skip around a BatchNorm"),
        (lambda: theory(BN, Dense(axis="tokens"), RELU, D).recursion(), "one block"),
        (lambda: theory(BN, RELU, D).correlations(sigma_w=1, sigma_b=0), "not of two given inputs"),
        (lambda: theory(BN, RELU, D, mu=1).batch_invariant(), "there is none"),
        (lambda: theory(TANH, D).batch_invariant(), "holds none"),
        (lambda: mf.check(theory(BN, RELU, D), sigma_w=1, sigma_b=0), "how many inputs"),
        (lambda: mf.check(theory(BN, RELU, D, batch=8), sigma_w=1, sigma_b=0, batch=16), "leave it out"),
        (lambda: mf.check(theory(RELU, Dense(axis="tokens")), sigma_w=1, sigma_b=0), "give tokens="),
        (lambda: mf.check(theory(BN, RELU, D), sigma_w=1, sigma_b=0, batch=2, width=8, depth=2), "from .B. = 4"),
        (lambda: theory(BN, STEP, D).propagate(sigma_w=1, sigma_b=0, depth=3, quantities="J"), "infinite"),
    ],
)
def test_refusals(ask, words):
    with pytest.raises(mf.MeanFieldError, match=words) as error:
        ask()
    assert str(error.value).count(". ") == 0 or len(str(error.value)) < 300


def test_a_diagram_says_nothing_where_the_batch_is_constant():
    found = theory(BN, RELU, D).phase_diagram(sigma_w=[0, 1], sigma_b=[0.3], line=False)
    assert found.phase.tolist()[0][0] == 3 and found.chi_J[0, 1] == pytest.approx(np.pi / (np.pi - 1), abs=1e-12)


def test_the_line_of_a_batch():
    """χ_J* is one number for every σ."""
    line = theory(BN, RELU, D).critical_line()
    assert line.kind == "none" and "chi_J = pi/(-1 + pi)" in line.message
    half = theory(BN, RELU, D, mu="1/2").critical_line().message  # (π - μ²)/(π - 1)
    assert "(-1/4 + pi)/(-1 + pi)" in half
    with pytest.raises(mf.MeanFieldError, match="what a batch shares"):
        theory(TANH, BN, D).critical_line()
    assert "Maps (any two inputs of a batch)" in str(theory(BN, RELU, D).table())


@pytest.mark.slow
def test_laws_of_a_batch():
    """With a unit skip every point is critical; numbers say how they are known."""
    unit = theory(BN, TANH, D, mu=1)
    assert unit.critical_line().kind == "everywhere" and len(unit.critical_points()) == 0
    power = float(unit.depth_law("J").exponent)
    run = unit.propagate(sigma_w=1.3, sigma_b=0, depth=4000)
    assert np.diff(run.log_J[[1999, 3999]])[0] / np.log(2) == pytest.approx(power, abs=2e-3)
    finite = mf.derive("gelu", architecture="batchnorm_mlp", batch=8)
    law = finite.depth_law("J", sigma_w=1, sigma_b=0)
    assert law.status is mf.Status.MEASURED and finite.critical_points().status is mf.Status.MEASURED
    growth = float(law.rate)
    assert np.diff(finite.propagate(sigma_w=1, sigma_b=0, depth=9).log_J)[-1] == pytest.approx(growth, abs=1e-12)
    assert f"chi_J = {np.exp(growth):.11f}" in finite.critical_line().message


def test_what_is_certified_behind_a_finite_batch():
    """Averages by quadrature are measured, closed ones exact; floats are taken where the biases drop out."""
    tanh = mf.derive("tanh", architecture="batchnorm_mlp", batch=8)
    found, phase = tanh.fixed_points(sigma_w=1.4, sigma_b=0.3), tanh.phase(sigma_w=1.4, sigma_b=0.3)
    assert found.status is found[0].K.status is found[0].chi_J.status is phase.status is mf.Status.MEASURED
    assert abs(float(found[0].chi_J.value) - 1.35854812541) < 1e-10 and found[0].K.error > 0
    relu = mf.derive("relu", architecture="batchnorm_mlp", batch=8).fixed_points(sigma_w=1.4, sigma_b=0.3)
    assert relu.status is mf.Status.EXACT


@pytest.mark.slow
def test_a_diagram_behind_a_norm_holds_its_averages_as_numbers():
    """tanh: no average is taken point by point, and the phase of a place is the one of its exact theory."""
    behind = theory(BN, TANH, D)
    w, b = (0.5, 2.0, 40), (0.0, 1.0, 30)
    found = behind.phase_diagram(sigma_w=w, sigma_b=b, line=False)
    chi = float(behind.phase(sigma_w=1, sigma_b="0.3").chi_J.value)
    np.testing.assert_allclose(found.chi_J, chi, rtol=1e-12)
    assert chi == pytest.approx(1.17780723, abs=1e-8)


def test_an_average_over_two_independent_gaussians_is_split_only_where_its_factors_are():
    """⟨f(z_a) g(z_b)⟩ = ⟨f⟩⟨g⟩; tanh(z_a + z_b)² is no product, and stays."""
    product = average(sp.tanh(Z[0]) ** 2 * sp.exp(-(Z[1] ** 2)), (K, 0, K))
    assert independent(3 * product) == 3 * average(sp.tanh(Z[0]) ** 2, K) * average(sp.exp(-(Z[0] ** 2)), K)
    for other in (
        average(sp.tanh(Z[0] + Z[1]) ** 2 * sp.exp(-(Z[1] ** 2)), (K, 0, K)),
        average(sp.tanh(Z[0]) ** 2 * sp.exp(-(Z[1] ** 2)), (K, K_ab, K)),
    ):
        assert independent(other) == other
