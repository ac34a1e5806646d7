"""V, A, …, U and G1, Theta1, J1 by their names: recursions, runs, normalized forms, rates, bad input; against published
numbers, an iteration in mpmath that shares no code behind the maps, and explicit networks."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.quantities import CORRELATORS, QUANTITIES
from meanfield.numeric.lowering import assembly, generation, near_zero
from meanfield.symbolic.finite_width.correlator_maps import correlator_map
from meanfield.symbolic.finite_width.correlator_recursions import ORDER
from tests.oracles import correlators as oracle

ALL = ("K", "Theta", *CORRELATORS)
TANH = {law: mf.derive("tanh", weights=law) for law in ("gaussian", "orthogonal", "mixed")}
PAPER = dict(sigma_w=1, sigma_b=0, input_norm="1/3")  # figures 1 and 2: inputs uniform in [0, 1]


# ------------------------------------------------------------------------------------------------ published numbers


@pytest.mark.parametrize(
    ("law", "printed"),
    [
        ("orthogonal", {1: -2, 2: -1.870, 3: -1.837, 4: -1.830, 5: -1.833, 6: -1.8387, 11: -1.873}),
        ("mixed", {1: 0, 2: -0.976, 3: -1.338, 4: -1.515, 5: -1.616, 11: -1.822}),
        ("gaussian", {1: 0, 6: 3.7505}),
    ],
)
def test_vertex_of_tanh(law, printed):
    """[orthogonal_weights] figure 1, and the extrapolated simulations at layer 6."""
    run = TANH[law].propagate(**PAPER, depth=11, quantities="V")
    for layer, value in printed.items():
        assert run.normalized("V")[layer - 1] == pytest.approx(value, abs=6e-4)
    assert run.at(2)["K"] == pytest.approx(0.211875204256, abs=1e-12)
    assert run.at(11)["K"] == pytest.approx(0.04624414, abs=1e-8)


@pytest.mark.slow
def test_vertex_of_relu_and_linear():
    """(4.19) 3l − 5 and 5(l − 1), mixed 3(l − 1); linear −2, 2(l − 1), 0; a wide input layer −2n/N_0."""
    l = np.arange(1, 41)
    for law, relu, linear in (
        ("orthogonal", 3 * l - 5, 0 * l - 2),
        ("gaussian", 5 * (l - 1), 2 * (l - 1)),
        ("mixed", 3 * (l - 1), 0 * l),
    ):
        for phi, sigma_w, expected in (("relu", "sqrt(2)", relu), ("z", 1, linear)):
            run = mf.derive(phi, weights=law).propagate(sigma_w=sigma_w, sigma_b=0, depth=40, quantities="V")
            assert np.allclose(run.normalized("V"), expected, atol=1e-11)
    wide = TANH["orthogonal"].propagate(**PAPER, depth=1, quantities="V", input_ratio=4)
    assert wide.normalized("V")[0] == pytest.approx(-0.5, abs=1e-15)


@pytest.mark.slow
def test_means_at_finite_width():
    """n(E K − K)/K = 0.9786 at layer 6 of orthogonal tanh; both corrections are linear in 1/n."""
    run = TANH["orthogonal"].propagate(**PAPER, depth=6, quantities=("G1", "Theta1", "J1"))
    assert run.normalized("G1")[-1] == pytest.approx(0.9786, abs=1e-4)
    at = run.at_width(50)
    assert set(at) == {"K", "Theta", "J"}
    for mean, name in (("K", "G1"), ("Theta", "Theta1"), ("J", "J1")):
        assert np.allclose(at[mean], getattr(run, mean) + getattr(run, name) / 50, rtol=1e-15)
    assert np.allclose(run.J * run.normalized("J1"), run.J1)


@pytest.mark.slow
def test_large_depth():
    """Ṽ(10⁵) = −1.99997 and G1/K = 1.9994 of orthogonal tanh, −0.16666 = G1 of Gaussian; Θ → 3/2 with (5.17)."""
    deep = dict(PAPER, depth=10**5, every_layer=False, lambda_w=1, lambda_b="1/l", quantities=("V", "G1", "Theta"))
    run = TANH["orthogonal"].propagate(**deep)
    assert run.normalized("V")[0] == pytest.approx(-1.99997, abs=1e-5)
    assert run.normalized("G1")[0] == pytest.approx(1.9994, abs=1e-4)
    assert run.Theta[0] == pytest.approx(1.5, abs=1e-3)
    assert TANH["gaussian"].propagate(**deep).G1[0] == pytest.approx(-0.16666, abs=1e-5)


# --------------------------------------------------------------------------------------------------- another route


def assert_iterated(run, weights, slopes, rates, digits=30, tolerance=1e-12, law_of=None):
    """Every quantity of a run at σ_w = 1.1, σ_b = .3 within `tolerance` of the iteration in mpmath."""
    with mp.workdps(digits):
        numbers = {"C_W": mp.mpf(1.1) ** 2, "C_b": mp.mpf(0.3) ** 2}
        state = {x: mp.mpf(float(getattr(run, x)[0])) for x in ORDER}
        for layer in range(2, len(run.l) + 1):
            numbers |= {"lambda_w": mp.mpf(rates[0]), "lambda_b": mp.mpf(rates[1](layer))}
            averages = oracle.Averages(state["K"], slopes, mp.mpf(1) / 7, 10)
            state = oracle.next_layer(state, ORDER, weights, numbers, averages, law_of)
            for x in ORDER:
                found = float(getattr(run, x)[layer - 1])
                assert abs(found - float(state[x])) <= tolerance * abs(float(state[x])), (
                    f"{x} of layer {layer} is not iterated"
                )


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", pytest.param("gaussian", marks=pytest.mark.slow)])
def test_against_mpmath(weights):
    """All quantities of tanh, rates 1 and 1/l; with the map of the other weights for one correlator it fails."""
    settings = dict(sigma_w=1.1, sigma_b=0.3, depth=4, quantities=ALL, lambda_w=1, lambda_b="1/l")
    run = TANH[weights].propagate(**settings)
    rates = (1, lambda l: mp.mpf(1) / l)
    assert_iterated(run, weights, oracle.tanh, rates)
    short = TANH[weights].propagate(**(settings | {"depth": 2}))
    other = {"gaussian": "orthogonal", "orthogonal": "gaussian"}[weights]
    for one in "VBF":  # the maps that differ: a term of Weingarten's next order in each
        with pytest.raises(AssertionError, match="is not iterated"):
            assert_iterated(short, weights, oracle.tanh, rates, law_of={one: other})
    with pytest.raises(AssertionError, match="is not iterated"):
        assert_iterated(short, weights, oracle.tanh, (1, lambda l: mp.mpf(1)))


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["tanh", pytest.param("gelu", marks=pytest.mark.slow)])
def test_sources_that_cancel_keep_their_digits(phi):
    """One step from K = 1e-8 (and above the series' range): each source, and what every correlator adds, to 8 digits
    of 60."""
    theory = mf.derive(phi, weights="orthogonal")
    for K in (1e-8, 1e-5, 2e-2):
        runs = {}
        for alone in (None, "V", "G1", "D", "F", "B", "P"):
            zero = dict.fromkeys(ORDER, 0.0) | {"K": K, "Theta": 1.0} | ({alone: 3 * K} if alone else {})
            runs[alone] = zero, theory.propagate(
                sigma_w=1, sigma_b=0, depth=2, quantities=tuple(ORDER), start=zero, lambda_w=1, lambda_b=0
            )
        with mp.workdps(60):
            averages = oracle.Averages(mp.mpf(K), getattr(oracle, phi), mp.mpf(3) / 10, 17)
            numbers = {"C_W": mp.mpf(1), "C_b": mp.mpf(0), "lambda_w": mp.mpf(1), "lambda_b": mp.mpf(0)}
            for zero, run in runs.values():
                state = {x: mp.mpf(v) for x, v in zero.items()}
                true = oracle.next_layer(state, ORDER, "orthogonal", numbers, averages)
                for x in ORDER:
                    assert float(getattr(run, x)[1]) == pytest.approx(float(true[x]), rel=1e-8, abs=0), (x, K)


def test_without_the_series_digits_are_lost(monkeypatch):
    """V of tanh one step from K = 1e-8: 1e-13 off, and more than 1e-9 where no series stands in for what cancels."""
    recursion = TANH["orthogonal"].recursion("V")
    with mp.workdps(60):
        averages = oracle.Averages(mp.mpf(1e-8), oracle.tanh, mp.mpf(3) / 10, 17)
        start = {"K": mp.mpf(1e-8), "V": mp.mpf(0)}
        true = float(oracle.next_layer(start, ["V"], "orthogonal", {"C_W": mp.mpf(1)}, averages)["V"])

    def error():
        text, arrays = generation.generated(recursion)
        lowered = assembly.Lowered(recursion, assembly.Module.of("tried", text, arrays), (0.0,))
        sigma = np.array([float(p == "sigma_w") for p in lowered.parameters]).reshape(-1, 1, 1)
        return abs(lowered.run(np.array([[1e-8, 0.0]]), sigma, 2, True, False)[0][0, 0, 1] / true - 1)

    assert error() < 1e-13
    monkeypatch.setattr(near_zero, "steadied", lambda r: (r, 0.0))
    assert error() > 1e-9


# --------------------------------------------------------------------------------------------------------- networks


WIDTHS = (16, 32, 64)


def assert_means(run, results, corrections, sign=1):
    """n(E X − X) of networks of three widths, extrapolated by x₀ + x₁/n, is what is derived: |z| ≤ 4."""
    widths, seen = WIDTHS, []
    powers = np.vander(1 / np.array(widths), 2, increasing=True)
    for correction in corrections:
        mean = QUANTITIES[correction].corrects
        for layer in range(1, len(run.l)):
            found = [r.estimate(mean) for r in results]
            first = [n * (np.ravel(e.mean)[layer] - getattr(run, mean)[layer]) for n, e in zip(widths, found)]
            error = np.array([n * np.ravel(e.standard_error)[layer] for n, e in zip(widths, found)])
            weights = (np.linalg.pinv(powers / error[:, None]) / error)[0]
            expected = sign * getattr(run, correction)[layer]
            seen.append((weights @ np.array(first) - expected) / np.sqrt(weights**2 @ error**2))
    assert np.abs(seen).max() < 4, f"not the theory's values: z = {seen}"


@pytest.mark.slow
@pytest.mark.parametrize("law", ["orthogonal", "gaussian", "uniform"])
def test_means_of_networks(law):
    """G1, Theta1, J1 of tanh with biases, layers 2 to 4; a wrong sign fails where the effect is not small, J1 among
    them, and so does J1 of Gaussian weights for uniform ones."""
    settings = dict(sigma_w=1.1, sigma_b=0.3, depth=4)
    networks = (60_000, 40_000, 20_000) if law == "uniform" else (30_000, 20_000, 10_000)
    theory = mf.derive("tanh", weights=law)
    run = theory.propagate(**settings, quantities=("G1", "Theta1", "J1"))
    results = [
        mf.measure(theory, **settings, width=n, networks=N, seed=5, quantities=("K", "J", "Theta"))
        for n, N in zip(WIDTHS, networks)
    ]
    assert_means(run, results, ("G1", "Theta1", "J1"))
    for one in {"orthogonal": ("G1", "Theta1", "J1"), "gaussian": ("Theta1",), "uniform": ("J1",)}[law]:
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_means(run, results, (one,), sign=-1)
    if law == "uniform":
        gaussian = TANH["gaussian"].propagate(**settings, quantities=("G1", "Theta1", "J1"))
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_means(gaussian, results, ("J1",))


@pytest.mark.slow
def test_correlators_of_networks():
    """V and F of orthogonal tanh networks by the names, as `measure` gives them, extrapolated in 1/n; 1.1 times them,
    and those of Gaussian weights, fail."""
    settings, widths = dict(sigma_w=1.0, sigma_b=0.3, depth=4), (12, 24, 48)
    measured = [
        mf.measure(
            TANH["orthogonal"], **settings, width=n, networks=1500, seed=9, quantities=("V", "F"), rates=(1, 0.5)
        )
        for n in widths
    ]
    powers = np.vander(1 / np.array(widths), 3, increasing=True)

    def assert_networks(law, factor=1.0):
        run = TANH[law].propagate(**settings, quantities=("V", "F"), lambda_w=1, lambda_b=0.5)
        seen = []
        for name in ("V", "F"):
            for layer in range(1, 4):
                mean, error = (
                    np.array([np.ravel(getattr(r.estimate(name), part))[layer] for r in measured])
                    for part in ("mean", "standard_error")
                )
                first = (np.linalg.pinv(powers / error[:, None]) / error)[0]
                seen.append((first @ mean - factor * getattr(run, name)[layer]) / np.sqrt(first**2 @ error**2))
        assert np.abs(seen).max() < 4, f"not the theory's values: z = {seen}"

    assert_networks("orthogonal")
    with pytest.raises(AssertionError, match="not the theory's values"):
        assert_networks("orthogonal", 1.15)
    with pytest.raises(AssertionError, match="not the theory's values"):
        assert_networks("gaussian")


# ------------------------------------------------------------------------------------------------------------ rates


def test_rates():
    """Left out they are σ_w², σ_b²; a formula in l is an array of layers; Theta alone feels them; arrays broadcast."""
    theory, settings = mf.derive("erf", weights="orthogonal"), dict(sigma_w=1.1, sigma_b=0.3, depth=5)
    usual = theory.propagate(**settings, quantities=("Theta", "B"))
    given = theory.propagate(**settings, quantities=("Theta", "B"), lambda_w=1.1**2, lambda_b=0.3**2)
    old = theory.propagate(**settings, quantities=("K", "Theta"))
    assert np.allclose(usual.B, given.B, rtol=1e-13) and np.allclose(usual.Theta, old.Theta, rtol=1e-14)
    formula = theory.propagate(**settings, quantities="B", lambda_w="2/(l + 1)", lambda_b="1/l")
    l = np.arange(1, 6)
    layers = theory.propagate(**settings, quantities="B", lambda_w=2 / (l + 1), lambda_b=1 / l, layerwise=True)
    assert np.allclose(formula.B, layers.B, rtol=1e-13) and formula.Theta[0] == pytest.approx(2.0)
    alone = theory.propagate(**settings, quantities="Theta", lambda_w="2/(l + 1)", lambda_b="1/l")
    assert np.allclose(alone.Theta, formula.Theta, rtol=1e-15)
    many = theory.propagate(**settings, quantities="B", lambda_w=np.array([1.0, 2.0]), lambda_b=0)
    assert many.B.shape == (2, 5) and np.allclose(many.B[1], 4 * many.B[0])
    assert "lambda_w*" in str(theory.recursion("Theta", "B", lambda_w="lambda_w", lambda_b="1/l"))
    assert not theory.recursion("V").knows_layer and theory.recursion("B", lambda_b="1/l").knows_layer


@pytest.mark.slow
def test_correlators_may_overflow_where_K_does_not():
    run = TANH["gaussian"].propagate(sigma_w=5, sigma_b=0, depth=1500, quantities=("K", "S", "J1"))
    assert np.isinf(run.S[-1]) and run.K[-1] == pytest.approx(20.69936684) and run.message() == ""
    assert np.isfinite(run.normalized("J1")).all() and np.isinf(run.J[-1])


@pytest.mark.slow
def test_first_layers_of_their_own():
    """Network(block, Dense(σ's)): the start is that layer's; a "mixed" input layer is Gaussian."""
    hidden = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense("orthogonal")))
    theory = mf.derive(architecture=mf.Network(hidden, mf.Dense(sigma_w=2, sigma_b="1/2")))
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=2, quantities=("V", "Theta"))
    assert run.K[0] == 4.25 and run.V[0] == -32 and run.Theta[0] == 4.25
    mixed = mf.derive(architecture=mf.Network(hidden, mf.Dense("mixed")))
    found = mixed.propagate(**PAPER, depth=4, quantities="V")
    assert np.array_equal(found.V, TANH["mixed"].propagate(**PAPER, depth=4, quantities="V").V)


# -------------------------------------------------------------------------------------------------------- bad input

AT = dict(sigma_w=1, sigma_b=0, depth=3)
SKIP, NORM = mf.derive("tanh", residual=True), mf.derive("tanh", norm="pre")
SCHEDULE = mf.derive(architecture=mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(sigma_w=mf.Schedule("sigma_w", 1)))))
TWO = mf.derive(architecture=mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(), mf.Nonlinearity("erf"), mf.Dense())))
LATE = mf.derive(
    architecture=mf.Network(mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense())), mf.Dense("orthogonal"))
)


@pytest.mark.slow_with("theory8-settings8-lambda_w must be ≥ 0")
@pytest.mark.parametrize(
    ("theory", "settings", "sentence"),
    [
        (SKIP, dict(quantities=("V", "A")), "A is not available: of networks with a skip K, J, V, G1, J1"),
        (NORM, dict(quantities="F"), "F is not available: .* has a LayerNorm"),
        (SCHEDULE, dict(quantities="V"), "a Schedule"),
        (TWO, dict(quantities="V"), "2 Dense layers"),
        (LATE, dict(quantities="V"), "gaussian weights after an input layer of orthogonal ones"),
        (mf.derive("step"), dict(quantities="B"), "step jumps; .* only V and G1"),
        (mf.derive("step"), dict(quantities="J1"), "step jumps; .* only V and G1"),
        (mf.derive("relu"), dict(quantities=("V", "P")), "relu is needed, which has kinks"),
        (TANH["gaussian"], dict(quantities="B", lambda_w=-1), "lambda_w must be ≥ 0"),
        (TANH["gaussian"], dict(quantities="B", lambda_w="-1"), "lambda_w must be ≥ 0"),
        (TANH["gaussian"], dict(quantities="B", lambda_b="1 - l"), "lambda_b must be ≥ 0 at every layer"),
        (TANH["gaussian"], dict(quantities="B", lambda_b="1/z"), "lambda_b must be a number or a formula in l"),
        (TANH["gaussian"], dict(quantities="B", lambda_b="open('x')"), "open"),
        (TANH["gaussian"], dict(quantities="B", lambda_b="eta"), "lambda_b must be a number or a formula in l"),
        (TANH["gaussian"], dict(quantities="B", lambda_b=float("nan")), "lambda_b must be finite"),
        (TANH["gaussian"], dict(quantities="V", lambda_w=1), "learning rates do not change V"),
        (TANH["gaussian"], dict(quantities="V", input_norm=0), "is 0 at layer 1"),
        (TANH["gaussian"], dict(quantities="V", input_norm=float("nan")), "input_norm must be finite"),
        (TANH["gaussian"], dict(quantities="V", input_ratio=0), "N_0/n"),
        (TANH["gaussian"], dict(quantities=("V", "K_ab"), correlation=0.5), "of one input"),
        (TANH["gaussian"], dict(quantities=("V", "J0")), "J0 was asked for with V"),
        (SKIP, dict(quantities=("G1", "Theta"), lambda_w=1), "Theta is not available: of networks with a skip"),
        (mf.derive("tanh(A*z)", A="A"), dict(quantities="V", A=1), "A is a parameter of .* and a correlator"),
    ],
)
def test_what_is_refused(theory, settings, sentence):
    with pytest.raises(mf.MeanFieldError, match=sentence):
        theory.propagate(**(AT | settings))


def test_runs_refuse():
    run = TANH["gaussian"].propagate(**AT, quantities=("K", "V"))
    for width in (1, 0, 2.5, "many"):
        with pytest.raises(mf.MeanFieldError, match="width must be"):
            run.at_width(width)
    with pytest.raises(mf.MeanFieldError, match="propagate G1, Theta1 or J1"):
        run.at_width(10)
    with pytest.raises(mf.MeanFieldError, match="this run has that of V"):
        run.normalized("K")
    with pytest.raises(mf.MeanFieldError, match="none: ask for quantities of order 1/n"):
        TANH["gaussian"].propagate(**AT).normalized("V")


@pytest.mark.slow
def test_every_correlator_is_of_a_registry_entry():
    """Each has a normalized form, and a recursion carries what it needs for it, even where a map does not."""
    for name in CORRELATORS:
        assert QUANTITIES[name].order == 1 and QUANTITIES[name].over
        run = mf.derive("z").propagate(sigma_w=1, sigma_b=0.1, depth=3, quantities=name)
        assert run.normalized(name).shape == (3,) and np.isfinite(run.normalized(name)).all()


def test_one_map_and_its_derivation():
    """`correlator_map` is the map of the recursion, and between several inputs that of the calculus; the derivation
    ends with it; another law of weights gives another map, and a mixed network has orthogonal layers."""
    for law in ("gaussian", "orthogonal", "mixed"):
        theory = mf.derive("gelu", weights=law)
        one = theory.recursion("F")["F"]
        assert sp.expand(theory.correlator_map("F") - one) == 0
        inside = correlator_map("F", weights="gaussian" if law == "gaussian" else "orthogonal")
        assert theory.derivation("F").replace("\n      ", " ").endswith(f"F' = {inside}")
    gaussian, orthogonal = (mf.derive("relu", weights=law) for law in ("gaussian", "orthogonal"))
    added = sp.expand(orthogonal.correlator_map("V", (1, 2, 1, 2)) - gaussian.correlator_map("V", (1, 2, 1, 2)))
    assert {s.name for s in added.free_symbols} == {"K_11", "K_12", "K_22", "sigma_w"}
    assert theory.correlator_map("B", lambda_w=0) == theory.correlator_map("B")
    assert theory.correlator_map("D", lambda_w=0) != theory.correlator_map("D")
    assert sp.expand(theory.correlator_map("G1", ratio=2) - 2 * theory.correlator_map("G1")) == 0
    for call, words in (
        (lambda: SKIP.correlator_map("V"), "has a skip"),
        (lambda: SKIP.derivation("V"), "has a skip"),
        (lambda: gaussian.correlator_map("V", (1, 2)), "4 indices"),
        (lambda: gaussian.correlator_map("P"), "kinks"),
        (lambda: gaussian.derivation("J"), "choices are"),
    ):
        with pytest.raises(mf.MeanFieldError, match=words):
            call()


def test_a_ratio_of_widths_is_a_number_or_a_name():
    number, name = (correlator_map("G1", ratio=r) for r in ("3/2", "r"))
    assert number == correlator_map("G1", ratio=sp.Rational(3, 2)) and name.has(sp.Symbol("r", real=True))
    with pytest.raises(mf.MeanFieldError, match=r"must be > 0, but -1/2 was given"):
        correlator_map("G1", ratio="-1/2")
