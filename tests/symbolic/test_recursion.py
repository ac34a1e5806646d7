"""Recursions as such: the layer they know, heads, intermediates, domains, names, starts; compiled against exact."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import J, K, l, sigma_w, z
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Param, Residual, Schedule, Sequential
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.symbolic.steps import Domain, Step

NO_SIGMAS = {"sigma_w": 1, "sigma_b": 0}


def counting(step: sp.Expr = K + l) -> Recursion:
    return Recursion((StateVar("K", K, sp.S.One),), (step,))


def assert_same_layers(recursion: Recursion, values: dict, depth: int = 7, **more) -> None:
    """The compiled loop gives what `iterate` gives, at every layer and at the last one alone."""
    exact = recursion.iterate(values | {"Q0": 1}, depth)
    sigmas = {k: values.get(k, 1.0) for k in ("sigma_w", "sigma_b")}
    others = {k: v for k, v in values.items() if k not in sigmas}
    for every in (True, False):
        run = propagate(recursion, **sigmas, depth=depth, parameters=others, every_layer=every, **more)
        for name in recursion.names:
            found = np.atleast_1d(getattr(run, name))
            expected = [float(x[name]) for x in exact][None if every else -1 :]
            np.testing.assert_allclose(found, expected, rtol=1e-13, err_msg=f"{name}, every_layer={every}")


# ----------------------------------------------------------------------------------------------------- the layer


def test_a_step_knows_the_layer_it_makes():
    assert [int(x["K"]) for x in counting().iterate({}, 4)] == [1, 3, 6, 10]
    for every in (True, False):
        run = propagate(counting(), **NO_SIGMAS, depth=4, every_layer=every)
        assert run.K.tolist() == ([1, 3, 6, 10] if every else [10])
    many = propagate(counting(), sigma_w=[1.0, 2.0], sigma_b=0, depth=4)
    assert many.K.tolist() == [[1, 3, 6, 10]] * 2
    assert_same_layers(counting(), {})
    off_by_one = propagate(counting(K + l - 1), **NO_SIGMAS, depth=4)  # control: l counted from 1
    assert off_by_one.K.tolist() != [1, 3, 6, 10]


def test_nothing_stops_where_the_layer_is_known():
    """K stays the same for a thousand layers and then moves: an exact stop would not see it."""
    late = counting(K + sp.Max(0, l - 1500))
    assert propagate(late, **NO_SIGMAS, depth=1502, every_layer=False).K[0] == 4
    assert_same_layers(Recursion((StateVar("K", K, 1), StateVar("J", J, 1, "log")), (K, J * l / 2)), {}, depth=9)


@pytest.mark.parametrize("verb", ["fixed_points", "phase", "critical_line", "critical_points", "depth_law"])
def test_verbs_of_one_map_refuse_a_map_that_changes(verb):
    theory = mf.derive(architecture=Sequential((Nonlinearity("tanh"), Dense(sigma_w=Schedule(1, 1)))))
    place = {} if verb.startswith("critical") else {"sigma_b": "0.1"}
    with pytest.raises(MeanFieldError, match="the map changes from layer to layer"):
        getattr(theory, verb)(**place)


def test_a_phase_diagram_refuses_a_map_that_changes():
    theory = mf.derive(architecture=Sequential((Nonlinearity("tanh"), Dense(sigma_w=Schedule(1, 1)))))
    with pytest.raises(MeanFieldError, match="the map changes from layer to layer"):
        theory.phase_diagram(sigma_w=[1, 1.5, 2], sigma_b=[0, 0.5, 1])


# ------------------------------------------------------------------------------- heads, intermediates, readout


def test_head_and_intermediates():
    v = sp.Symbol("K[1]", positive=True)
    state = (StateVar("K", K, sigma_w**2), StateVar("J", J, 1, "log"))
    block = Step((v**2 / (1 + v), J * v), ((v, average(sp.tanh(z) ** 2, K) + sp.Rational(1, 2)),))
    head = Step((K + 1, 3 * J))
    recursion = Recursion(state, block, (head, head.map(lambda e: 2 * e)))
    assert_same_layers(recursion, {"sigma_w": 1.25})
    assert_same_layers(recursion.only("K"), {"sigma_w": 1.25})
    assert recursion.flat().equals(recursion) is mf.symbolic.Equality.PROVED
    assert recursion.flat().equals(Recursion(state, block)) is mf.symbolic.Equality.DIFFERENT
    assert recursion.only("K").block.definitions and not Recursion(state, (K, J * K)).block.definitions
    whole = recursion.flat()
    for label, value in recursion.susceptibilities().items():
        flat = value.xreplace(dict(block.definitions))
        assert sp.simplify(flat - whole.susceptibilities()[label]) == 0, label


def test_the_first_stop_comes_after_the_head():
    """A head that keeps K does not end the run before the block begins."""
    recursion = Recursion((StateVar("K", K, sp.S.One),), Step((K + 1,)), (Step((K,)), Step((K,))))
    assert_same_layers(recursion, {}, depth=6)
    assert propagate(recursion, **NO_SIGMAS, depth=6).K.tolist() == [1, 1, 1, 2, 3, 4]


def test_closing_norm_is_a_head():
    """γ and β of a LayerNorm at the end of a block: Theta at layer 2 knows of none, and at 3 of the ones before."""
    theory = mf.derive(architecture=Sequential((Nonlinearity("erf"), Dense(), LayerNorm())))
    recursion = theory.recursion("Theta")
    assert recursion.names == ("K", "Theta") and len(recursion.head) == 1
    assert_same_layers(recursion, {"sigma_w": 1.25, "sigma_b": 0.5}, depth=4)


def test_c_is_read_off():
    run = mf.derive("tanh").propagate(sigma_w=1.3, sigma_b=0.2, depth=4, correlation=0.3)
    assert "c" in run.quantities
    np.testing.assert_allclose(run.c, run.K_ab / np.sqrt(run.K_aa * run.K_bb), rtol=1e-15)


# --------------------------------------------------------------------------------------------- names and domains


@pytest.mark.slow_with("T", "p", "fixed")
@pytest.mark.parametrize("name", ["T", "p", "out", "start", "depth", "fixed", "a0", "x_0", "math", "layer", "K1"])
def test_no_name_collides(name):
    """State variables and parameters called as something in generated code is."""
    own, other = sp.Symbol(name, positive=True), sp.Symbol("b_" + name, real=True)
    node = average(sp.tanh(z) ** 2, K)
    recursion = Recursion((StateVar("K", K, 2), StateVar(name, own, 1)), (node + other / 3, own / 2 + K * node))
    assert_same_layers(recursion, {"b_" + name: 0.7})
    swapped = Recursion((StateVar("K", K, 2),), (node + own / 3,))
    assert_same_layers(swapped, {name: 0.7})
    if name in ("start", "depth"):  # arguments of propagate
        with pytest.raises(MeanFieldError, match="which has a fixed meaning here"):
            mf.derive("tanh", mu=name)
        return
    theory = mf.derive("tanh", mu=name)
    expected = mf.derive("tanh", mu="0.7").propagate(sigma_w=1.1, sigma_b=0.1, depth=5)
    np.testing.assert_allclose(theory.propagate(sigma_w=1.1, sigma_b=0.1, depth=5, **{name: 0.7}).K, expected.K, 1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mu", "kappa", "nu"])
def test_parameters_behave_alike_whatever_they_are_called(name):
    theory = mf.derive("erf", mu=name)
    (point,) = theory.critical_points()
    assert point.kind == "power law" and str(point.sigma_w.value) == f"sqrt(pi)*sqrt(1 - {name}**2)/2"
    assert str(theory.critical_line().sigma_w) == str(mf.derive("erf", mu="mu").critical_line().sigma_w).replace(
        "mu", name
    )
    for refused in (
        lambda: theory.propagate(sigma_w=1, sigma_b=0, depth=3, **{name: -0.5}),
        lambda: theory.fixed_points(sigma_w=1, sigma_b=0, **{name: "-1/2"}),
        lambda: theory.recursion("K").subs({name: sp.Rational(-1, 2)}),
    ):
        with pytest.raises(MeanFieldError, match=f"{name} must be ≥ 0, but -"):
            refused()


def test_bounds_of_a_param_narrow_its_place_of_use():
    block = Residual(Sequential((Nonlinearity("tanh"), Dense())), Param("mu", upper="1/2"))
    theory = mf.derive(architecture=block)
    assert theory.recursion("K").domains["mu"] == Domain(sp.S.Zero, sp.Rational(1, 2))
    theory.propagate(sigma_w=1, sigma_b=0, depth=3, mu=0.5)
    with pytest.raises(MeanFieldError, match=r"mu must be ≤ 1/2, but 0\.6"):
        theory.propagate(sigma_w=1, sigma_b=0, depth=3, mu=0.6)
    for wrong, said in (
        ({"lower": "b"}, "must be a number, but 'b'"),
        ({"lower": 2, "upper": 1}, "No value of mu"),
        ({"lower": "1/0"}, "must be a finite number"),
    ):
        with pytest.raises(MeanFieldError, match=said):
            Param("mu", **wrong)


def test_a_start_of_ones_own():
    theory = mf.derive("tanh")
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, start={"K": [0.5, 2.0]})
    assert run.K[:, 0].tolist() == [0.5, 2.0]
    exact = theory.recursion("K").iterate({"sigma_w": 1.3, "sigma_b": 0.2, "K": 2}, 3)
    np.testing.assert_allclose(run.K[1], [float(x["K"]) for x in exact], rtol=1e-13)
    refused = ({"Q": 1}, "Unknown quantity"), ({"K": "a"}, "."), ({"K": float("nan")}, "finite"), (3, "mapping")
    for wrong, why in refused:
        with pytest.raises(MeanFieldError, match=why):
            theory.propagate(sigma_w=1, sigma_b=0, depth=3, start=wrong)
