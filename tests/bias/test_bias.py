"""Averages inside averages, and the guessing bias that they define: against nested quadrature and table 1."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z, z
from meanfield.bias.guessing import BiasPhase, bias_recursion
from meanfield.functions.activations import activation
from meanfield.symbolic.averages.node import average

M, V = sp.symbols("M V", positive=True)
HALF = sp.Rational(1, 2)


def nested(f, g, M, V):
    """⟨⟨f⟩_{V; μ} ⟨g⟩_{V; μ}⟩ by two quadratures inside one."""
    x, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()

    def inner(h):
        return (w * h(math.sqrt(M) * x[:, None] + math.sqrt(V) * x)).sum(axis=1)

    return (w * inner(f) * inner(g)).sum()


def test_nested_averages_are_merged():
    inner = average(sp.tanh(z), V, mean=z)
    whole = average(inner**2, M)
    assert whole.free_symbols == {M, V} and whole == average(sp.tanh(Z[0]) * sp.tanh(Z[1]), (M + V, M, M + V))
    assert average(average(sp.tanh(z) ** 2, V, mean=z), M) == average(sp.tanh(z) ** 2, M + V)
    shifted = average(average(sp.tanh(z), V, mean=2 * z - 1) * z, M, mean=3)
    assert shifted == average(Z[0] * sp.tanh(Z[1]), (M, 2 * M, 4 * M + V), (3, 5))
    assert average(inner**2 + inner, M) == whole  # the odd one vanishes


def test_merged_averages_equal_nested_quadrature():
    inner = [average(f, V, mean=z) for f in (sp.tanh(z), sp.erf(z))]
    place = {M: HALF, V: sp.Rational(7, 10)}
    for one, other, f, g in ((0, 1, np.tanh, erf), (1, 1, erf, erf)):
        value = float(average(inner[one] * inner[other], M).subs(place).evalf(12))
        assert abs(value - nested(f, g, 0.5, 0.7)) < 1e-10
        assert abs(value - nested(f, g, 0.51, 0.7)) > 1e-4
    with pytest.raises(MeanFieldError, match="3 Gaussian variables"):
        average(inner[0] * inner[1] * z**2, M).subs(place).evalf(12)


def test_what_cannot_be_merged_is_refused():
    inner = average(sp.tanh(z), V, mean=z)
    with pytest.raises(MeanFieldError, match="only sums of products"):
        average(sp.exp(inner), M)
    with pytest.raises(MeanFieldError, match="not linear"):
        average(average(sp.tanh(z), V, mean=z**2), M)
    with pytest.raises(MeanFieldError, match="more than 4 variables"):
        average(inner**5, M)
    with pytest.raises(MeanFieldError, match=r"variance of .* depends"):
        average(average(sp.tanh(z), 1 + z**2, mean=z), M)


@pytest.mark.parametrize("name", ["erf", "relu", "tanh", "gelu", "step", "softplus", "hard_tanh"])
def test_the_definition_is_the_recursion_of_two_inputs(name):
    """Lemma D.3 and theorem 3.1: equality is proved, not measured; a changed coefficient is not equal."""
    theirs = mf.derive(name).recursion("sigma_mu2", "sigma_y2")
    own = bias_recursion(activation(name))
    assert own.equals(theirs) is mf.symbolic.Equality.PROVED
    if name in ("erf", "relu"):
        assert not own.map(lambda e: e * sp.Rational(101, 100)).equals(theirs)


PLACES = {  # φ, σ_b², σ_w²
    ("relu", "0.1", "1.5"): BiasPhase.ORDERED_DEEP_PREJUDICE,
    ("relu", "0", "2"): BiasPhase.TRANSIENT_DEEP_PREJUDICE,
    ("relu", "0.1", "2.5"): BiasPhase.CHAOTIC_DEEP_PREJUDICE,
    ("relu", "0.1", "2"): BiasPhase.DIVERGENT_DEEP_PREJUDICE,
    ("relu", "0", "1.5"): BiasPhase.VANISHING_DEEP_PREJUDICE,
    ("tanh", "0.1", "1.5"): BiasPhase.ORDERED_DEEP_PREJUDICE,
    ("tanh", "0", "1"): BiasPhase.BY_THE_START,
}
SLOW = {
    ("erf", "0.1", "2.5"): BiasPhase.NEUTRALITY,
    ("erf", "0.1", "2.1"): BiasPhase.PREJUDICE,
    ("tanh", "0.1", "2.5"): BiasPhase.PREJUDICE,
    ("tanh", "0.1", "3"): BiasPhase.NEUTRALITY,
}


@pytest.mark.parametrize("place", [*PLACES, *[pytest.param(p, marks=pytest.mark.slow) for p in SLOW]])
def test_table_1_and_what_it_leaves_out(place):
    name, b2, w2 = place
    found = mf.derive(name).bias(sigma_w=f"sqrt({w2})", sigma_b=f"sqrt({b2})")
    assert found.phase is (PLACES | SLOW)[place]
    if found.phase is BiasPhase.BY_THE_START:
        assert found.gamma == found.c == 0 and found.chi_J.value == 1
    elif found.phase in (BiasPhase.NEUTRALITY, BiasPhase.PREJUDICE):
        assert (found.gamma > 1) == (found.c > 0.5) == (found.phase is BiasPhase.PREJUDICE)
        assert math.isclose(found.gamma, found.c / (1 - found.c), rel_tol=1e-12)
        assert found.fraction().var() == pytest.approx(math.asin(found.c) / (2 * math.pi))
    else:
        assert found.gamma == math.inf and found.c == 1


@pytest.mark.slow
def test_balance_between_prejudice_and_neutrality():
    theory = mf.derive("erf")
    width = theory.neutrality_line().sigma_w_at("sqrt(0.1)")[0][0].value
    assert theory.bias(sigma_w=width, sigma_b="sqrt(0.1)").c == pytest.approx(0.5, abs=1e-10)
    below, above = (theory.bias(sigma_w=width * x, sigma_b="sqrt(0.1)").phase for x in (0.999, 1.001))
    assert (below, above) == (BiasPhase.PREJUDICE, BiasPhase.NEUTRALITY)


@pytest.mark.slow
def test_unknown_is_said_with_its_reason():
    found = mf.derive("z/(1 + z**2)**(3/4)", residual=True).bias(sigma_w=1, sigma_b="0.1")
    assert found.phase is BiasPhase.UNKNOWN and "is not known" in found.message and found.status is mf.Status.UNKNOWN
    with pytest.raises(MeanFieldError, match="is not known here"):
        found.fraction()


def assert_says(found, phase: BiasPhase, c: float, image) -> None:
    """The phase, and a c* that the map `image` keeps to 1e-12."""
    assert found.phase is phase and abs(found.c - c) < 1e-12, f"{found.phase} at c* = {found.c}"
    assert abs(image(found.c) - found.c) < 1e-12, f"the map moves c* = {found.c} to {image(found.c)}"


@pytest.mark.fast_with("2-0.3")
@pytest.mark.parametrize(("sigma_w", "sigma_b"), [("1", "0"), ("1/2", "0"), ("2", "0.3")])
def test_the_limit_is_known_where_its_law_is_not(sigma_w, sigma_b):
    """z²: K falls to 0 or grows without bound, as its start decides, and either way C(c) = (1 + 2c²)/3."""
    found = mf.derive("z**2").bias(sigma_w=sigma_w, sigma_b=sigma_b)
    assert found.law is None and found.status is mf.Status.MEASURED and found.fraction().var() == pytest.approx(1 / 12)
    assert "None" not in str(found) and "gamma = " not in str(found)  # γ* stands there, and no law
    assert_says(found, BiasPhase.BALANCE, 0.5, lambda c: (1 + 2 * c * c) / 3)
    with pytest.raises(AssertionError, match="the map moves"):  # the map with one coefficient 1e-9 off
        assert_says(found, BiasPhase.BALANCE, 0.5, lambda c: (1 + (2 + 1e-9) * c * c) / 3)
    axes = {"sigma_w": [float(sp.Rational(sigma_w))], "sigma_b": [float(sigma_b)]}
    drawn = mf.derive("z**2").phase_diagram(**axes, quantity="gamma", line=False)
    assert drawn.phases[drawn.phase[0, 0]] == found.phase.value and abs(drawn.c[0, 0] - found.c) < 1e-12
    assert math.isinf(drawn.K[0, 0]) == (found.chi_J.value == sp.oo)


def test_odd_powers_end_at_0_from_every_start():
    """z³: C(c) = (9c + 6c³)/15; orthogonal inputs start at its stable fixed point, of z they stay by C(c) = c."""
    assert mf.derive("z**3").bias(sigma_w=1, sigma_b=0).phase is BiasPhase.NEUTRALITY
    assert mf.derive("z").bias(sigma_w=1, sigma_b=0).phase is BiasPhase.BY_THE_START


def test_nothing_but_biases_is_ordered():
    """σ_w = 0: every input has the same output; without biases there is none."""
    for name in ("erf", "step"):
        found = mf.derive(name).bias(sigma_w=0, sigma_b="0.3")
        assert found.phase is BiasPhase.ORDERED_DEEP_PREJUDICE and found.c == 1 and found.gamma == math.inf
        assert found.chi_J.value == 0
    weighted = mf.derive("relu").bias(sigma_w=2, sigma_b="0.3")
    assert weighted.phase is BiasPhase.CHAOTIC_DEEP_PREJUDICE and weighted.chi_J.value == 2
    assert mf.derive("erf").bias(sigma_w=0, sigma_b=0).phase is BiasPhase.UNKNOWN


@pytest.mark.parametrize("cosine", [2, "-1.01", "c"])
def test_a_cosine_beyond_1_is_refused(cosine):
    """In the chaotic phase, too, where the start does not decide."""
    with pytest.raises(MeanFieldError, match="between -1 and 1"):
        mf.derive("erf").bias(sigma_w=3, sigma_b=1, correlation=cosine)


ENSEMBLES = {
    "relu": mf.derive("relu"),
    "tanh": mf.derive("tanh"),
    "gelu": mf.derive("gelu"),
    "relu, max": mf.derive(
        architecture=mf.Sequential((mf.Nonlinearity("relu"), mf.Pool(2, "max"), mf.Dense()))
    ),
}


@pytest.mark.parametrize(
    "phi, more",
    [("cos(z)", {}), ("z**2*exp(-Abs(z))", {}), ("exp(-z**2)", {"norm": "act"}), ("Max(Abs(z)-1,0)", {"norm": "pre"})],
)
def test_opposite_inputs_through_an_even_function_are_one(phi, more):
    """c = 1 from layer 2 on, as depth_law and propagate say; with a bias, or a skip, they are two."""
    theory, at = mf.derive(phi, **more), dict(sigma_w=2, sigma_b=0)
    assert theory.propagate(depth=3, correlation=-1.0, quantities=("c",), **at).c[1:] == pytest.approx(1, abs=1e-12)
    with pytest.raises(mf.MeanFieldError, match="φ is even, so that the inputs are the same from layer 2 on"):
        theory.bias(correlation=-1, **at)
    assert mf.derive("cos(z)").bias(correlation=-1, sigma_w=2, sigma_b=0.1).gamma == pytest.approx(0.4528891754)
    assert mf.derive("tanh").bias(correlation=-1, **at).c == -1



@pytest.mark.slow
@pytest.mark.parametrize("width", [1000, 10_000])
@pytest.mark.parametrize("name", ENSEMBLES)
def test_networks_confirm_what_two_inputs_do(name, width):
    """c, γ, distance, J_ab and Θ_ab of networks; a theory with 2 % more σ_w fails."""
    names = ("c", "gamma", "distance", "J_ab", "Theta_ab")
    settings = {"width": width, "depth": 5, "networks": 60 if width < 5000 else 150, "correlation": 0.2, "seed": 3}
    report = mf.check(ENSEMBLES[name], sigma_w=1.3, sigma_b=0.3, quantities=names, sampler="lazy", **settings)
    assert report.passed and max(abs(r.z) for r in report.rows) <= 4, str(report)
    if width > 5000:
        run = mf.measure(ENSEMBLES[name], sigma_w=1.3, sigma_b=0.3, quantities=names, sampler="lazy", **settings)
        wrong = ENSEMBLES[name].propagate(sigma_w=1.326, sigma_b=0.3, depth=5, correlation=0.2, quantities=names)
        found = run.estimate("distance")
        assert max(abs(found.z(wrong.distance))) > 6


def test_what_the_start_decides_is_that_of_the_start():
    """A linear network at sigma_w = 2: c → σ_b² Σ 4^l/4^L, by hand .09/3; at sigma_w = 1 every c stays."""
    found = mf.derive("linear").bias(sigma_w=2, sigma_b="3/10")
    assert found.phase is BiasPhase.BY_THE_START and found.gamma == pytest.approx(0.03, rel=1e-12)
    assert found.fraction().var() == pytest.approx(math.asin(0.03 / 1.03) / (2 * math.pi))
    half = mf.derive("linear").bias(sigma_w=1, sigma_b=0, correlation="1/2")
    assert (half.gamma, half.c) == (pytest.approx(1), pytest.approx(0.5))
    skip = mf.derive("linear", residual=True).bias(sigma_w=1, sigma_b=0.5)  # (K_ab + b²)/(K + b²), of 1/4 and 5/4
    assert skip.c == pytest.approx(0.5 / 1.5)
