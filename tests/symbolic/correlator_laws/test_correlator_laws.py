"""Large-depth laws of the correlators: every constant against runs to 10⁶ layers, and exact ones against the maps.

A run knows nothing of the laws: it iterates the maps in floats. What the start decides is fitted at layers 3000 to
3·10⁴, and the law is held against the run at 10⁵ and 10⁶.
"""

from __future__ import annotations

from dataclasses import replace

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.optimize import least_squares

import meanfield as mf
from meanfield.base.symbols import l
from meanfield.functions.activations import activation
from meanfield.symbolic.correlator_laws import positive_variance, vanishing_variance
from meanfield.symbolic.correlator_laws.scale_invariant import expr_of, summed
from meanfield.symbolic.finite_width.correlator_recursions import ORDER
from tests.oracles import correlators as oracle

NAMES = ("V", "G1", "A", "B", "D", "F", "P", "Q", "R", "S", "T", "U", "Theta", "Theta1", "J1")
CRITICAL = dict(sigma_w=1, sigma_b=0)
PAPER = dict(lambda_w=1, lambda_b="1/l")
FITTED = np.unique(np.geomspace(3000, 30_000, 30).astype(int))
DEPTH = 10**6


def size(law, at):
    lead = law.leading
    return at ** float(lead.power) * np.log(at) ** float(lead.logs)


def assert_law(law, x, tolerance=1e-4, at=(10**5, 10**6)):
    """The leading constant that a run has, all other terms of the law taken off, is the law's."""
    f = sp.lambdify([l, *law.constants], law.expr, "numpy")
    found = np.zeros(0)
    if law.constants:
        places = FITTED.astype(float)

        def miss(c):
            return (f(places, *c) - x[FITTED - 1]) / size(law, places)

        start = np.full(len(law.constants), 0.1)
        found = least_squares(miss, start, x_scale="jac", xtol=1e-15, ftol=1e-15, gtol=1e-15).x
    lead = float(law.leading.coefficient.subs(dict(zip(law.constants, found))))
    for layer in at:
        error = (x[layer - 1] - f(float(layer), *found)) / size(law, float(layer))
        assert abs(error) <= tolerance * abs(lead), (
            f"the law of {law.name} is off by {error} of {lead} at layer {layer}"
        )


def values_of(run, name):
    return run.Theta if name == "Theta" else run.normalized(name)


def laws_of(theory, names, **settings):
    found = {}
    for name in names:
        found[name] = theory.depth_law(name, **settings)
    return found


def assert_laws(phi, weights, names=NAMES, rates=PAPER, at=(10**5, DEPTH), **settings):
    theory = mf.derive(phi, weights=weights)
    settings = (settings or CRITICAL) | rates
    laws = laws_of(theory, names, **settings)
    floats = {k: float(sp.sympify(v)) if k.startswith("sigma") else v for k, v in settings.items()}
    run = theory.propagate(**floats, depth=DEPTH, quantities=names)
    for name in names:
        assert_law(laws[name], values_of(run, name), 1e-4, at)
    return laws, run


def changed(law, factor, which=0):
    """The law with one term wrong."""
    terms = list(law.terms)
    terms[which] = replace(terms[which], coefficient=terms[which].coefficient * factor)
    return replace(law, terms=tuple(terms))


# ------------------------------------------------------------------------------------------------------------ K* = 0


def test_tanh_in_short():
    """Ṽ and F̃ of orthogonal tanh to 10⁵ layers."""
    theory = mf.derive("tanh", weights="orthogonal")
    run = theory.propagate(**CRITICAL, depth=10**5, quantities=("V", "F"))
    for name in "VF":
        law = theory.depth_law(name, **CRITICAL)
        assert_law(law, run.normalized(name), 1e-6, (10**5,))
        with pytest.raises(AssertionError, match=r"^the law of"):
            assert_law(changed(law, 1.001), run.normalized(name), 1e-6, (10**5,))


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
def test_tanh(weights):
    """All laws with the rates of (5.17); a limit wrong by 1e-3, a logarithm by 5 %, and the other weights fail."""
    laws, run = assert_laws("tanh", weights)
    planted = {"orthogonal": ("F", 1), "gaussian": ("V", 1)}[weights]
    for law in (changed(laws[planted[0]], 1.001), changed(laws["U"], 1.001)):
        with pytest.raises(AssertionError, match=r"^the law of"):
            assert_law(law, values_of(run, law.quantity))
    name, fine = {"orthogonal": ("G1", 1e-6), "gaussian": ("V", 1e-7)}[weights]
    assert_law(laws[name], run.normalized(name), fine)
    with pytest.raises(AssertionError, match=r"^the law of"):
        assert_law(changed(laws[name], 1.05, 1), run.normalized(name), fine)
    other = mf.derive("tanh", weights={"orthogonal": "gaussian", "gaussian": "orthogonal"}[weights])
    with pytest.raises(AssertionError, match=r"^the law of"):
        assert_law(other.depth_law("F", **CRITICAL, **PAPER), run.normalized("F"))


ODD = {
    "orthogonal": {
        "V": "-2", "G1": "2", "A": "64/27/l", "B": "2/l", "D": "-16/9/l", "F": "-2/3", "P": "-1/3", "Q": "-2/27",
        "R": "-7/27", "S": "1/9", "T": "8/243", "U": "1/(2*l)", "Theta": "3/2", "Theta1": "71*log(l)**2/36/l",
    },
    "gaussian": {
        "V": "2*l/3", "G1": "-l/3", "A": "16*l/243", "B": "l/3", "D": "-4*l/27", "F": "l/4", "P": "-l/12",
        "Q": "-l/24", "R": "-5*l/72", "S": "l/36", "T": "l/72", "U": "1/(2*l)", "Theta": "3/2", "Theta1": "-7*l/108",
        "J1": "-log(l)/36",
    },
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
def test_table_of_tanh(weights):
    """The leading terms of docs/errata.md; mixed weights have those of orthogonal ones."""
    theory = mf.derive("tanh", weights=weights)
    for name, text in ODD[weights].items():
        law = theory.depth_law(name, **CRITICAL, **PAPER)
        assert law.forgets
        lead = law.leading
        assert sp.simplify(lead.expr(l) - sp.sympify(text, {"l": l})) == 0, name
    if weights == "orthogonal":
        for name in ("V", "S"):
            assert mf.derive("tanh", weights="mixed").depth_law(name, **CRITICAL, **PAPER).law == theory.depth_law(
                name, **CRITICAL, **PAPER
            ).law


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
@pytest.mark.parametrize("phi", ["sin", "tanh", "arctan", "tanh(z)+0.3*tanh(z)**2", "sin(z)+z**2/5"])
def test_smooth(phi, weights):
    """φ that no paper lists, too, by one of two kinds of rates for each kind of weights (rates do not know φ); with the
    usual rates Θ of sin is 1 at every layer, so C_Theta = 0 there."""
    rates = PAPER if (weights == "orthogonal") == (phi in ("sin", "tanh", "sin(z)+z**2/5")) else {}
    names = [x for x in NAMES if not (phi == "sin" and not rates and x in "ADQT")]
    assert_laws(phi, weights, tuple(names), rates, (DEPTH,))  # with φ″(0) ≠ 0 powers of l lie close together


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
def test_kinked_and_scaled(weights):
    """elu, whose φ″ jumps at 0 (constants with π), and erf at σ_w = √π/2."""
    names = ("V", "G1", "A", "B", "D", "F", "Theta", "Theta1", "J1")
    assert_laws("elu", weights, names)
    assert_laws("erf", weights, names, sigma_w="sqrt(pi)/2", sigma_b=0)


@pytest.mark.slow
def test_class_in_short():
    """Ṽ of a φ with φ″(0) ≠ 0, and what s_2 does in an odd one."""
    law = mf.derive("tanh(z)+0.3*tanh(z)**2", weights="orthogonal").depth_law("V", order=0, **CRITICAL)
    found = mf.symbolic.class_law("V", weights="orthogonal")
    s1, s2 = (sp.Symbol(f"s_{i}", real=True) for i in (1, 2))
    assert found.limit.subs({s1: sp.Rational(3, 5), s2: -2}) == law.limit == sp.Rational(-76, 173)
    for name in ("G1", "Theta1"):  # a single neuron feels uniform weights, but not to leading order
        uniform, gaussian = (mf.symbolic.class_law(name, weights=w, odd=True, **PAPER) for w in ("uniform", "gaussian"))
        assert uniform == gaussian
    assert mf.symbolic.class_law("Q", weights="orthogonal", odd=True, **PAPER).limit.subs(s2, -2) == sp.Rational(-2, 27)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
def test_class(weights):
    """The laws of the class at the s_1, s_2 of three φ are those of these φ; s_3 and s_4 drop out but where shown."""
    for phi, odd, at in (
        ("sin", True, (0, -1, 0, 1)),
        ("tanh", True, (0, -2, 0, 16)),
        ("tanh(z)+0.3*tanh(z)**2", False, (sp.Rational(3, 5), -2, sp.Rational(-24, 5), 16)),
    ):
        theory = mf.derive(phi, weights=weights)
        for name in ("V", "A", "F", "Theta1") if weights == "orthogonal" else (*NAMES[:12], "Theta1", "J1"):
            found = mf.symbolic.class_law(name, weights=weights, odd=odd, **PAPER)
            law = theory.depth_law(name, order=0, **CRITICAL, **PAPER)
            if found.coefficient.has(sp.Symbol("s_4", real=True)) and not odd:
                continue
            values = {sp.Symbol(f"s_{i}", real=True): v for i, v in enumerate(at, 1)}
            expected = law.leading
            if odd and law.quantity == "Theta1" and weights == "orthogonal" and at[1] == -2:
                assert found.limit.subs(values) == 0  # s_2 = -2 is where this limit vanishes
                continue
            assert sp.simplify(found.coefficient.subs(values) - expected.coefficient) == 0, (phi, name)
            assert (found.power, found.logs) == (expected.power, expected.logs)


# -------------------------------------------------------------------------------------------------- homogeneous φ


RELU = dict(sigma_w="sqrt(2)", sigma_b=0)


def assert_exact(phi, weights, name, depth=30, **settings):
    """The exact quotient at every layer is that of a run."""
    theory = mf.derive(phi, weights=weights)
    law = theory.depth_law(name, **settings)
    floats = {k: float(sp.sympify(v)) if k.startswith("sigma") else v for k, v in settings.items()}
    run = theory.propagate(**floats, depth=depth, quantities=name)
    f = [float(law.exact.subs(l, i)) for i in range(1, depth + 1)]
    assert np.allclose(values_of(run, name), f, rtol=1e-9, atol=1e-9), name
    return law


@pytest.mark.parametrize(
    ("weights", "text"), [("orthogonal", "3*l - 5"), ("gaussian", "5*l - 5"), ("mixed", "3*l - 3")]
)
def test_relu(weights, text):
    """(4.19), its Gaussian and mixed twins, at every layer; G1, Theta1 and J1 are 0."""
    law = assert_exact("relu", weights, "V", **RELU)
    assert sp.expand(law.exact - sp.sympify(text, {"l": l})) == 0 and law.remainder == "zero"
    for name in ("G1", "Theta1", "J1"):
        assert mf.derive("relu", weights=weights).depth_law(name, **RELU).exact == 0


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian", "mixed"])
def test_homogeneous_exactly(weights):
    """All that exists, constant rates and 1/l (harmonic numbers), on and off criticality."""
    for name in ("V", "A", "B", "D", "F", "Theta"):
        assert_exact("relu", weights, name, **RELU)
        assert_exact("relu", weights, name, sigma_w="1.2", sigma_b=0)
        if name != "V":
            assert_exact("relu", weights, name, **RELU, **PAPER)
            assert_exact("leaky_relu(0.1)", weights, name, sigma_w="sqrt(200/101)", sigma_b=0, lambda_w=1, lambda_b=2)
    for name in "PQRSTU":
        assert_exact("z", weights, name, **CRITICAL, lambda_w=1, lambda_b=1)
    with pytest.raises(AssertionError, match="A is not the exact law"):
        theory = mf.derive("relu", weights=weights)
        law = theory.depth_law("A", **RELU, **PAPER)
        run = theory.propagate(sigma_w=2**0.5, sigma_b=0, depth=30, quantities="A", **PAPER)
        wrong = [float((law.exact * (1 + sp.Rational(1, 1000))).subs(l, i)) for i in range(1, 31)]
        assert np.allclose(run.normalized("A"), wrong, rtol=1e-9), "A is not the exact law"


@pytest.mark.slow
def test_homogeneous_asymptotically():
    """ReLU with biases at σ_w = √2, where K grows linearly, and rates that do not close."""
    names = ("V", "A", "B", "F")
    assert_laws("relu", "orthogonal", names, {}, sigma_w="sqrt(2)", sigma_b=1)
    assert_laws("relu", "gaussian", names, dict(lambda_w="1/l", lambda_b=1), **RELU)


def test_sums():
    """Σ l^a H_l^b against the sum itself."""
    for a, b in ((0, 1), (2, 1), (0, 2), (1, 2), (3, 2)):
        f = expr_of(summed({(a, b): sp.S.One}))
        for n in (1, 2, 7):
            direct = sum(sp.Integer(m) ** a * sp.harmonic(m) ** b for m in range(1, n))
            assert sp.simplify(f.subs(l, n) - direct) == 0, (a, b, n)


# ----------------------------------------------------------------------------------------------------------- K* > 0


@pytest.mark.parametrize(
    ("sigma_w", "sigma_b", "names"),
    [
        (1, "0.3", ("V", "F")),
        pytest.param(1, "0.3", ("A", "S", "Theta", "Theta1", "J1"), marks=pytest.mark.slow),
        pytest.param(2, "0.3", ("V", "G1", "B", "A", "D", "Q"), marks=pytest.mark.slow),
    ],
    ids=["ordered", "ordered, further", "chaotic"],
)
def test_off_criticality(sigma_w, sigma_b, names):
    """tanh where K → K* exponentially: in the ordered phase constants, in the chaotic one what grows with l."""
    theory = mf.derive("tanh", weights="orthogonal")
    run = theory.propagate(sigma_w=sigma_w, sigma_b=float(sigma_b), depth=300, quantities=names)
    for name in names:
        law = theory.depth_law(name, sigma_w=sigma_w, sigma_b=sigma_b)
        x = values_of(run, name)
        if not law.constants:
            f = sp.lambdify(l, law.expr)
            assert x[299] == pytest.approx(float(f(300.0)), rel=1e-9), name
            assert x[299] != pytest.approx(1.001 * float(f(300.0)), rel=1e-9)
        elif law.leading.power == 1:
            assert x[299] - x[298] == pytest.approx(float(law.leading.coefficient), rel=1e-6), name


def test_falling_exponentially():
    """tanh at σ_w = 1/2: Ṽ of Gaussian weights grows by 2 a layer, that of orthogonal ones stays."""
    for weights, rise in (("gaussian", 2), ("orthogonal", 0)):
        theory = mf.derive("tanh", weights=weights)
        law = theory.depth_law("V", sigma_w="1/2", sigma_b=0)
        run = theory.propagate(sigma_w=0.5, sigma_b=0, depth=60, quantities="V")
        steps = np.diff(run.normalized("V"))
        assert steps[-1] == pytest.approx(rise, abs=1e-9)
        assert law.leading.power == (1 if rise else 0) and law.forgets == bool(rise)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["gelu", "silu"])
def test_critical_points_with_positive_K(phi):
    """The exponents at the critical point with K* > 0, from one layer of the maps in 40 digits at l = 10⁹: each
    correlator on its law is taken to the law at l + 1; another exponent, or a constant wrong by a tenth, is not."""
    theory = mf.derive(phi, weights="orthogonal")
    point = next(p for p in theory.critical_points() if p.kind == "half-stable")
    power = {"V": 1, "B": 1, "F": 1, "A": 3, "D": 2, "Q": 2, "P": 1, "S": 2, "U": 1}
    for name, expected in power.items():
        law = theory.depth_law(name, at=point, lambda_w=1, lambda_b="1/l")
        assert law.leading.power.is_number and law.leading.logs == 0
        if phi == "silu":
            assert law.leading.power == expected and law.forgets, name
    theta = theory.depth_law("Theta", at=point)
    zeta = float(point.zeta.value)
    assert float(theta.leading.power) == pytest.approx(max(1, -zeta), rel=1e-12)
    # V' − V per layer is the source where χ_K = 1: Ṽ ~ s l/(5 K*²), s = σ_w⁴(⟨φ⁴⟩ − 3⟨φ²⟩²)
    with mp.workdps(30):
        K, w2 = mp.mpf(str(sp.N(point.K.value, 30))), mp.mpf(str(sp.N(point.sigma_w.value, 30))) ** 2
        f = oracle.gelu if phi == "gelu" else (lambda x: (x / (1 + mp.exp(-x)),))

        def mean(g):
            return mp.quad(lambda x: g(f(mp.sqrt(K) * x)[0]) * mp.npdf(x), [-12, -4, 0, 4, 12])

        source = w2**2 * (mean(lambda y: y**4) - 3 * mean(lambda y: y**2) ** 2)
        expected = float(source / (5 * K**2))
    found = theory.depth_law("V", at=point).leading.coefficient
    assert float(found) == pytest.approx(expected, rel=1e-9)
    assert float(found) != pytest.approx(1.1 * expected, rel=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("weights", ["orthogonal", "gaussian"])
def test_one_layer_far_out(weights):
    """SiLU at its critical point with K* > 0: all variables put on their laws at l = 10¹⁰, the compiled map takes each
    one layer further by what its law says; V put 5 % off is not taken there."""
    theory, far = mf.derive("silu", weights=weights), 1e10
    point = next(p for p in theory.critical_points() if p.kind == "half-stable")
    rates = sp.sympify(point.sigma_w.value) ** 2, sp.sympify(point.sigma_b.value) ** 2
    rates = tuple(sp.Rational(sp.N(r, 40)) for r in rates)
    system = positive_variance._half_stable(activation("silu"), weights, point, rates, 1)
    names = [x for x in ORDER if x != "K"]
    K = system.solution("K")
    start = {"K": float(sum(float(system.expr(c)) * far ** float(str(k[0])) for k, c in K.terms.items() if k[0] >= -1))}
    powers, leads = {}, {}
    for name in names:
        found = system.solution(name)
        k, c = system.calculus.ring(found.remainder).ordered(found.terms)[0]
        powers[name], leads[name] = float(sp.sympify(system.power(k))), float(system.expr(c))
        start[name] = leads[name] * far ** powers[name]

    def rise(**moved):
        run = theory.propagate(
            sigma_w=float(point.sigma_w.value),
            sigma_b=float(point.sigma_b.value),
            depth=2,
            quantities=tuple(ORDER),
            start=start | moved,
            lambda_w=float(rates[0]),
            lambda_b=float(rates[1]),
        )
        return {name: getattr(run, name)[1] - getattr(run, name)[0] for name in names}

    here, off = rise(), rise(V=1.05 * start["V"])
    for name in names:
        expected = powers[name] * leads[name] * far ** (powers[name] - 1)
        if powers[name] > 0:
            assert here[name] == pytest.approx(expected, rel=1e-2), name
    assert off["V"] != pytest.approx(leads["V"], rel=5e-2)


# ----------------------------------------------------------------------------------------------------- finite width


@pytest.mark.fast_with("relu-gaussian-0")
@pytest.mark.parametrize(
    ("phi", "weights", "shift"),
    [
        ("tanh", "gaussian", sp.Rational(2, 3)),
        ("tanh", "orthogonal", 0),
        ("relu", "gaussian", 0),
        pytest.param("sin", "gaussian", sp.Rational(2, 3), marks=pytest.mark.slow),
        pytest.param("tanh(z)+0.3*tanh(z)**2", "gaussian", sp.Rational(2, 3), marks=pytest.mark.slow),
        pytest.param("elu", "gaussian", sp.Rational(1, 2), marks=pytest.mark.slow),
    ],
)
def test_critical_shift(phi, weights, shift):
    """(4.28), and beyond: smooth φ with K* = 0 share 2/3, elu, whose φ″ jumps at 0, has 1/2."""
    found = mf.derive(phi, weights=weights).critical_shift()
    assert shift * (1 if found.C_W0 == 1 else found.C_W0) == found.C_W1 and found.C_b1 == 0


@pytest.mark.slow
def test_the_shift_keeps_the_correction_bounded():
    """G1 iterated with c_1⟨φ²⟩ added, tanh: bounded by K and to its law's limit for c_1 = 2/3, not for 0.6."""
    theory = mf.derive("tanh")
    run = theory.propagate(**CRITICAL, depth=20_000, quantities="G1")
    found = theory.critical_shift()
    for c1, bounded in ((float(found.C_W1), True), (0.6, False)):
        G, shift = 0.0, []
        ahead = np.append(run.K[1:], np.nan)
        chi = 1 - 4 * run.K + 17 * run.K**2 - 248 / 3 * run.K**3  # (4.22); the difference of two G1 obeys it
        for slope, new in zip(chi[:-1], ahead):
            G = slope * G + c1 * new  # K' = ⟨φ²⟩ at σ_w = 1
            shift.append((G, new))
        moved = run.G1[1:] + np.array([g for g, _ in shift])
        ratio = moved / run.K[1:]
        limit = float(found.law.limit)
        assert (abs(ratio[-1] / ratio[9999] - 1) < 1e-2) == bounded
        if bounded:
            assert ratio[-1] == pytest.approx(limit, rel=0.02)


# ---------------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("phi", "name", "settings", "sentence"),
    [
        ("tanh", "V", dict(sigma_w=1), "give sigma_b numbers"),
        ("tanh", "V", dict(sigma_b=0, sigma_w="s"), "give sigma_w numbers"),
        ("relu", "P", RELU, "which has kinks"),
        ("step", "A", dict(sigma_w=1, sigma_b=1), "jumps"),
        ("gelu", "V", dict(sigma_w=3, sigma_b=0), "grows without bound"),
        ("hard_tanh", "V", CRITICAL, "smaller than every power"),
        ("tanh", "V", dict(CRITICAL, at=3), "at= is one of"),
        ("tanh", "K", dict(CRITICAL, lambda_w=1), "laws of Theta and of correlators"),
        ("tanh", "S", dict(CRITICAL, lambda_b="log(l)"), "no series in powers of 1/l"),
    ],
)
def test_refused(phi, name, settings, sentence):
    with pytest.raises(mf.MeanFieldError, match=sentence):
        mf.derive(phi).depth_law(name, **settings)


def test_other_networks_are_refused():
    with pytest.raises(mf.MeanFieldError, match="has a skip"):
        mf.derive("tanh", residual=True).depth_law("V", **CRITICAL)
    with pytest.raises(mf.MeanFieldError, match=r"critical points of .* are"):
        mf.derive("hard_swish").critical_shift()
    with pytest.raises(mf.MeanFieldError, match="leave them out"):
        point = mf.derive("tanh").critical_points()[0]
        mf.derive("tanh").depth_law("V", at=point, sigma_w=1)


def test_command_line():
    """meanfield law with --quantity V,Theta; at the critical points where no σ is given; rates of K are refused."""
    from typer.testing import CliRunner

    from meanfield.cli.app import app

    run = CliRunner().invoke
    asked = ["law", "relu", "--weights", "orthogonal", "--quantity", "V,Theta", "--sigma-w", "sqrt(2)"]
    asked += ["--sigma-b", "0"]
    assert "V/K**2 = 3*l - 5" in run(app, asked).output
    assert "At the critical point" in run(app, ["law", "relu", "--quantity", "V"]).output
    assert '"V*' not in run(app, [*asked, "--json"]).output and '"exact"' in run(app, [*asked, "--json"]).output
    wrong = run(app, ["law", "relu", "--quantity", "K", "--sigma-w", "1", "--sigma-b", "0", "--lambda-b", "1"])
    assert wrong.exit_code != 0


def test_long_rationals_stay_what_they_are():
    """SymPy's nsimplify finds products of roots within 1e-15 of a rational of 14 digits or more."""
    draw = np.random.default_rng(7)
    for _ in range(60):
        p, q = (int(x) for x in draw.integers(10**17, 10**18, 2))
        assert vanishing_variance.shown_exactly(sp.Rational(p, q)) == sp.Rational(p, q)
    law = mf.derive("atan(z)+z**2/5", weights="orthogonal").depth_law("F", sigma_w=1, sigma_b=0).law
    assert sp.Rational(18998402, 934407) in [term.coefficient for term in law.terms]


@pytest.mark.parametrize("name, slope", [("Theta", 1), ("V", sp.Rational(92, 45))])
def test_coefficients_that_are_zero_have_no_digits(name, slope):
    """z - z³/7 at K* = 7/3: χ_J = 1 - 4/(3l), so that Θ ~ K* l/(1 + 4/3) = l; V/K² by a run of 4000 layers."""
    theory = mf.derive("z-z**3/7")
    point = theory.critical_points()[1]
    law = theory.depth_law(name, at=point)
    assert law.leading.power == 1 and abs(law.leading.coefficient - slope) < 1e-14
    run = theory.propagate(sigma_w=float(point.sigma_w.value), sigma_b=float(point.sigma_b.value), depth=4000,
                           input_norm=float((point.K.value - point.sigma_b.value**2) / point.sigma_w.value**2) - 0.1,
                           quantities=("K", name))  # fmt: skip
    seen = getattr(run, name) / (run.K**2 if name == "V" else 1)
    grown = (seen[3999] - seen[1999]) / 2000
    assert abs(grown / float(slope) - 1) < 0.02 < abs(grown / float(slope) / 1.05 - 1)


def test_weights_that_are_a_fraction_of_roots():
    """sigma_w = 3 sqrt(pi)/(sqrt(pi) + 6): in lowest terms K'/K is 1 at K = 0, and every power of l a rational number
    (Theta and all correlators were refused). Against the recursion, whose constant is read off at one depth."""
    theory, sigma_w = mf.derive("erf(z) + z/3"), 3 * sp.sqrt(sp.pi) / (sp.sqrt(sp.pi) + 6)
    at = {"sigma_w": sigma_w, "sigma_b": 0}
    run = theory.propagate(sigma_w=float(sigma_w), sigma_b=0, depth=40_000, quantities=("K", "Theta"))

    law = theory.depth_law("Theta", **at)
    assert sp.simplify(law.leading.coefficient - sp.sqrt(sp.pi) / 12 - sp.Rational(1, 2)) == 0
    known = sp.lambdify(l, law.expr.subs(sp.Symbol("C_Theta", real=True), 0))
    first, last = (n * (run.Theta[n - 1] - known(n)) for n in (5_000, 40_000))
    assert abs(last - first) < 0.002, "C_Theta/l is left"
    first, last = (n * (run.Theta[n - 1] - 1.000001 * known(n)) for n in (5_000, 40_000))
    assert abs(last - first) > 0.02, "planted"
    assert theory.depth_law("V", **at).leading.coefficient == sp.Rational(2, 3)


@pytest.mark.slow
def test_theta_of_an_activation_with_long_numbers():
    """α and λ of SELU have ten decimals, powers of them hundreds of digits (an OverflowError before)."""
    selu = mf.derive("selu")
    point = selu.critical_points()[0]
    law = selu.depth_law("Theta", at=point)
    run = selu.propagate(
        sigma_w=float(point.sigma_w), sigma_b=float(point.sigma_b), depth=100_000, quantities=("K", "Theta")
    )
    lead = float(law.terms[0].coefficient)
    assert abs(run.Theta[-1] * 1e5 / lead - 1) < 1e-3 < abs(run.Theta[-1] * 1e5 / (1.01 * lead) - 1)


@pytest.mark.slow
def test_a_law_at_a_point_whose_closed_forms_are_long_is_that_of_a_run():
    """sin(z) + z²/3 at its half-stable point: slopes are bounded by integrals, not by closed forms of thousands of
    terms (more than 150 s before). V/K² rises by the law's coefficient a layer, up to 1/l."""
    theory = mf.derive("sin(z) + z**2/3")
    point = theory.critical_points()[-1]
    (term,) = theory.depth_law("V", at=point).terms
    at = {"sigma_w": float(point.sigma_w.value), "sigma_b": float(point.sigma_b.value) - 1e-13}
    run = theory.propagate(**at, depth=4000, quantities=("K", "V"))
    ratio = run.V / run.K**2
    rises = [(ratio[2 * n - 1] - ratio[n - 1]) / n for n in (1000, 2000)]
    limit = 2 * rises[1] - rises[0]  # what goes like 1/l is gone
    assert abs(float(term.coefficient) / limit - 1) < 2e-4 < abs(float(term.coefficient) / rises[0] - 1)
