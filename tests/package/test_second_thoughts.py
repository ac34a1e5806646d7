"""What an independent reading of the walk, of recursions and of laws found, each with its right answer."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.symbols import Q0, K, l
from meanfield.empirical import run_ensemble
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Param, Residual, Scale, Schedule, Sequential
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.series.asymptotic_law import Law

ERF, TANH, RELU = map(Nonlinearity, ("erf", "tanh", "relu"))


def chain(*parts) -> mf.Theory:
    return mf.derive(architecture=Sequential(parts))


# -------------------------------------------------------------------------------------------- shortcuts and scales


@pytest.mark.slow_with("relu")
@pytest.mark.parametrize("inner", [Dense(sigma_w=1), Sequential((RELU, Dense()))], ids=["Dense", "relu"])
def test_a_diagram_keeps_the_shortcut(inner):
    theory = mf.derive(architecture=Residual(Sequential((TANH, Dense())), "1/2", inner))
    diagram = theory.phase_diagram(sigma_w=[0.5], sigma_b=[0.3], line=False)
    run = theory.propagate(sigma_w=0.5, sigma_b=0.3, depth=3000, every_layer=False)
    assert float(diagram.K.ravel()[0]) == pytest.approx(run.K[0], rel=1e-11)
    assert "shortcut" in repr(theory)


def test_a_diagram_sees_schedules_and_parameters_of_a_shortcut():
    branch = Sequential((TANH, Dense()))
    faded = mf.derive(architecture=Residual(branch, "1/2", Dense(sigma_w=Schedule(1, 1))))
    with pytest.raises(MeanFieldError, match="changes from layer to layer"):
        faded.phase_diagram(sigma_w=[0.5], sigma_b=[0.3])
    free = mf.derive(architecture=Residual(branch, "1/2", Dense(sigma_w="a")))
    at = {"sigma_w": [0.5], "sigma_b": [0.3], "line": False}
    fixed = mf.derive(architecture=Residual(branch, "1/2", Dense(sigma_w="0.8")))
    np.testing.assert_allclose(free.phase_diagram(**at, a=0.8).K, fixed.phase_diagram(**at).K, rtol=1e-12)
    inner = mf.derive(architecture=Residual(Sequential((ERF, Scale("mu"), Dense())), "1/2"))
    with pytest.raises(MeanFieldError, match="mu"):
        inner.phase_diagram(sigma_w=[0.5], sigma_b=[0.3])
    step = mf.activation("z if z > t else (z/2 if z > s else 0)", s="s", t="t")
    held = mf.derive(architecture=Residual(branch, 1, Sequential((Nonlinearity(step), Dense()))))
    assert held.propagate(sigma_w=1, sigma_b=0.1, depth=3, s=0.5, t=1.0).K[-1] > 0


def test_a_constant_factor_stays_inside_the_function():
    """φ(2z): averages over K itself, so that every verb sees a plain theory."""
    point = chain(Scale(2), TANH, Dense()).critical_points()[0]
    assert (point.sigma_w.value, point.K.value) == (sp.Rational(1, 2), 0)
    (point,) = [p for p in chain(TANH, Scale("1/2"), Dense()).critical_points()]
    assert (point.sigma_w.value, point.sigma_b.value, point.K.value) == (2, 0, 0)
    found = chain(Scale(2), RELU, Dense()).fixed_points(sigma_w="sqrt(2)/2", sigma_b=0)
    assert found[0].stability == "neutral" and found.status is Status.EXACT
    assert chain(Scale(2), RELU, Dense()).depth_law("J", sigma_w=1, sigma_b="1/2").rate == sp.log(2)
    theory = mf.derive(architecture=Sequential((Residual(Sequential((Scale(0), ERF)), 1), TANH, Dense())))
    plain = mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=4)
    np.testing.assert_allclose(theory.propagate(sigma_w=1.2, sigma_b=0.1, depth=4).K, plain.K, rtol=1e-12)


def test_relu_twice_at_criticality_keeps_every_K():
    found = chain(RELU, Dense(), RELU, Dense()).fixed_points(sigma_w="sqrt(2)", sigma_b=0)
    assert found[0].stability == "neutral"


def test_points_that_are_not_derived_are_not_denied():
    """Nor are those of a record that holds a σ: of the plane tanh has (1, 0) alone, which neither of these is."""
    for block in ((TANH, Dense(), Scale("1/2")), (Residual(Sequential((TANH, Dense(), Scale(2))), "1/2"),)):
        assert chain(*block).critical_points().status is Status.UNKNOWN
    for own in (Dense(sigma_b="1/5"), Dense(sigma_w="6/5")):
        theory = chain(TANH, own)
        assert theory.critical_line().kind == "unknown" and len(theory.critical_points()) == 0
    assert len(chain(TANH, Dense(sigma_b="0")).critical_points()) == 1


# --------------------------------------------------------------------------------------------- the tangent kernel


@pytest.mark.slow
def test_gains_before_a_skip_with_two_dense_ways():
    block = Sequential((LayerNorm(), Residual(Sequential((ERF, Dense())), "1/2", Dense())))
    at = {"sigma_w": 1.2, "sigma_b": 0.4, "depth": 4}
    found = run_ensemble(block, **at, width=128, networks=60, quantities=("K", "Theta"), probes=8, seed=1)
    theory = mf.derive(architecture=block).propagate(**at, quantities=("Theta",))
    estimate = found.estimate("Theta")
    allowed = 4 * estimate.standard_error + 3 / 128 * theory.Theta
    assert (abs(estimate.mean - theory.Theta) <= allowed).all()
    fixed = Sequential((LayerNorm(False), *block.blocks[1:]))  # control: without the gains
    wrong = mf.derive(architecture=fixed).propagate(**at, quantities=("Theta",))
    assert (abs(estimate.mean - wrong.Theta) > allowed)[1:].all()
    one_way = Sequential((LayerNorm(), Residual(Scale("1/2"), "1/2", Sequential((ERF, Dense())))))
    with pytest.raises(MeanFieldError, match="what the trained gains of a norm add is not followed"):
        mf.derive(architecture=one_way).recursion("Theta")


def test_sources_of_the_head_share_its_symbols():
    first, second = (chain(ERF, Dense(), LayerNorm(), Scale("s")).recursion("Theta") for _ in range(2))
    assert first == second and [p.name for p in first.parameters].count("s") == 1
    values = {"sigma_w": 1.2, "sigma_b": 0.4, "s": sp.Rational(1, 2), "Q0": 1}
    assert len(first.iterate(values, 3)) == 3 and "s" in first.domains
    assert not first.subs({"s": 2}).parameters[-1].name.startswith("_")


# ---------------------------------------------------------------------------------------------- cycles, starts, text


def test_a_point_that_repels_by_overshooting():
    """K = 1.1419 with χ_K = -1.23: every orbit ends in a 2-cycle."""
    theory = chain(Nonlinearity("exp(-z**2)"), Dense(), Nonlinearity("z**3"), Dense())
    (point,) = theory.fixed_points(sigma_w=1, sigma_b=0)
    assert point.stability == "unstable" and float(point.chi_K.value) < -1
    with pytest.raises(MeanFieldError, match="do not decide where the orbit ends"):
        theory.phase(sigma_w=1, sigma_b=0)


@pytest.mark.parametrize(
    ("start", "why"),
    [({"K": -1.0}, "must be ≥ 0"), ({"J": -1.0}, "must be ≥ 0")],
)
def test_impossible_starts(start, why):
    with pytest.raises(MeanFieldError, match=why):
        mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=3, start=start)


@pytest.mark.parametrize("start", [{"K_bb": 0.1}, {"K_ab": 50.0}])
def test_impossible_covariances(start):
    with pytest.raises(MeanFieldError, match="is no covariance"):
        mf.derive("tanh").propagate(sigma_w=1, sigma_b=0.3, depth=3, correlation=0.9, start=start)


@pytest.mark.parametrize(
    ("start", "names", "why"),
    [
        ({"K_aa": 4.0, "K_bb": 1.0, "K_ab": 2.1}, ("K_aa", "K_bb", "K_ab"), "K_ab = 2.1 at layer 1 is no covariance"),
        ({"K_aa": 4.0, "K_bb": 1.0, "K_ab": -2.1}, ("K_aa", "K_bb", "K_ab"), "K_ab = -2.1 at layer 1 is no covariance"),
        ({"K_aa": 4.0, "K_bb": 0.0, "K_ab": 0.1}, ("K_aa", "K_bb", "K_ab"), "K_ab = 0.1 at layer 1 is no covariance"),
        ({"K": 1.0, "K_ab": 1.1}, ("K", "distance"), "K_ab must be between -K and K"),
        ({"K": 1.0, "K_ab": -1.1}, ("K", "distance"), "K_ab must be between -K and K"),
        ({"K": 1.0, "distance": 4.1}, ("K", "distance"), "distance must be between 0 and 4K"),
    ],
)
def test_every_impossible_covariance_is_refused(start, names, why):
    place = dict(sigma_w=1, sigma_b=0.3, depth=2, quantities=names)
    with pytest.raises(MeanFieldError, match=why):
        mf.derive("linear").propagate(**place, start=start)
    off = 2 if "distance" in start else 1.1
    most = {n: v / off if n in ("K_ab", "distance") else v for n, v in start.items()}
    most |= {"K_ab": 0.0} if start.get("K_bb") == 0 else {}
    run = mf.derive("linear").propagate(**place, start=most)
    assert np.isfinite(run.K_aa if "K_aa" in names else run.K).all()


def test_nothing_given_is_evaluated():
    u = sp.Symbol("u", real=True)
    for text in ("__import__('os').getcwd() and 7", "1/2+("):
        with pytest.raises(MeanFieldError, match="The start of u must be a finite number"):
            StateVar("u", u, text)
        with pytest.raises(MeanFieldError, match="A step must be a finite number"):
            Recursion((StateVar("K", K, 1),), (text,))
    with pytest.raises(MeanFieldError, match="≥ 0"):
        Schedule(-1, 1)
    with pytest.raises(MeanFieldError, match="is 0 in every neuron"):
        chain(ERF, Scale(0), LayerNorm(), Dense()).recursion("K")
    with pytest.raises(MeanFieldError, match="must be ≥ 0"):
        mf.derive("erf", mu="s").recursion("K").iterate({"sigma_w": 1, "sigma_b": 0, "s": -1, "Q0": 1}, 2)
    with pytest.raises(MeanFieldError, match="belongs to the start"):
        from meanfield.numeric.run.depth_iteration import propagate

        propagate(Recursion((StateVar("K", K, 1),), (K / 2 + Q0,)), sigma_w=1, sigma_b=0, depth=2)


def test_runs_travel_and_odd_names_run():
    run = mf.derive("tanh").propagate(sigma_w=1.2, sigma_b=0.1, depth=5)
    assert (pickle.loads(pickle.dumps(run)).K == run.K).all()
    from meanfield.numeric.run.depth_iteration import propagate

    odd = sp.Symbol("p-q", positive=True)
    found = propagate(Recursion((StateVar("p-q", odd, 2),), (odd / 2,)), sigma_w=1, sigma_b=0, depth=3)
    assert getattr(found, "p-q").tolist() == [2, 1, 0.5]


def test_a_block_that_forgets_its_input():
    run = chain(ERF, Dense(sigma_w=0), ERF, Dense()).propagate(
        sigma_w=1, sigma_b=0.5, depth=3, quantities=("J0",), input_dimension=3.0
    )
    assert run.J0[1:].tolist() == [0, 0]


def test_the_reason_is_the_right_one():
    with pytest.raises(MeanFieldError, match="leave it out for one-input ones"):
        mf.check("erf", sigma_w=1, sigma_b=0, quantities=("J", "J_ab"), correlation=0.5, width=16, depth=2)
    assert Param("s").name == "s"


# ---------------------------------------------------------------------------------------------------------- laws


def law(*terms, remainder="zero") -> Law:
    rest = remainder if isinstance(remainder, str) else sp.sympify(remainder)
    return Law(l, sp.oo, tuple(Term(*map(sp.sympify, t)) for t in terms), rest)


def test_laws_claim_no_more_than_they_know():
    unknown, square = law(remainder=-1), law((1, -2))
    assert not unknown > square and not square < unknown and unknown < law((1, 0))
    grown = law((1, 0, 0, 1)) * law((1, 0), remainder="exponential")
    assert grown.remainder == "smaller" and len(grown.terms) == 1
    assert (law((2, 0), (1, 0, 0, -1)) + law(remainder="exponential")).text() == "2 + exponentially small"
    rough = law((1, 0, 0, 1)) * law((1, 0), remainder=-1)
    with pytest.raises(MeanFieldError, match="leading order"):
        (rough - rough) + 1
    assert (law((1, 1), remainder=0) * 0).text() == "0"
    for number in (sp.nan, sp.oo, sp.I):
        with pytest.raises(MeanFieldError, match="no finite real number"):
            law((1, 1)) * number
    log_j = mf.derive("tanh", residual=True).depth_law("J", sigma_w=1, sigma_b=0)
    assert log_j.at(100) == log_j.law.at(100) == (log_j * 1).at(100)
