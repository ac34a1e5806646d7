"""Quantities that this file adds, functions of what recursions carry and a map of its own, are run and refused."""

from __future__ import annotations

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.quantities import QUANTITIES, Quantity, mathtext, register

OWN = (
    Quantity("own_variance", r"s^{\ell}", "what two inputs do not share of a variance", read="K - K_ab"),
    Quantity("depth_scale", r"\log K^{\ell}", "logarithm of K", read="log(K)"),
    Quantity("norm_of_J", r"\lambda^{\ell}", "logarithm of the norm of the Jacobian", read="log(J)/2"),
    Quantity("total", r"T^{\ell}", "sum of K over the layers before", step=("0", "total + K")),
    Quantity("drift", r"t^{\ell}", "sum of 1 - c over the layers before", step=("0", "drift + distance/(2*K)")),
    Quantity("passed", r"p^{\ell}", "sum of J0 over the layers before", step=("0", "passed + J0")),
    Quantity("share", r"r^{\ell}", "share of a variance that is common", read="K_ab/K", degree=0),
    Quantity("plain_share", r"r^{\ell}", "the same, of which nobody says that it is a quotient", read="K_ab/K"),
    Quantity("excess", r"v^{\ell}", "V over K squared", read="V/K**2", degree=0),
    Quantity("exact_variance", r"e^{\ell}", "K - K_ab with all digits", read="K - K_ab", needs=("distance",)),
    Quantity("tangents", r"u^{\ell}", "Theta over K", read="Theta/K"),
)
AT = dict(sigma_w=1.3, sigma_b=0.1, depth=6)
TANH, RELU = mf.derive("tanh"), mf.derive("relu")


@pytest.fixture(scope="module", autouse=True)
def registered():
    """The quantities of this file, for as long as its tests run."""
    for one in OWN:
        register(one)
    yield
    for one in OWN:
        del QUANTITIES[one.name]


def assert_equal(found, expected):
    np.testing.assert_array_equal(found, expected)


def test_a_function_of_two_inputs_is_read_off_what_it_is_made_of():
    run = TANH.propagate(**AT, correlation=0.3, quantities="own_variance")
    assert set(run.values) == {"K", "K_ab"}, "what it depends on, and no more"
    assert_equal(run.own_variance, run.K - run.K_ab)
    with pytest.raises(AssertionError, match="not equal"):
        assert_equal(run.own_variance, run.K + run.K_ab)
    plain = TANH.propagate(**AT, correlation=0.3, quantities=("K", "K_ab"))
    assert_equal(run.K_ab, plain.K_ab)  # what stands beside it is what it was
    assert "own_variance" not in plain.quantities


def test_a_map_of_what_is_carried_as_a_logarithm():
    """J0 of an input of finite dimension: its value is made of its logarithm where a map holds it."""
    run = TANH.propagate(**AT, quantities=("passed", "J0"), input_dimension=5)
    np.testing.assert_allclose(run.passed[1:], np.cumsum(run.J0)[:-1], rtol=1e-14)
    assert abs(run.passed[-1] - run.J0.sum()) > 0.1, "control: one layer more"


def test_what_it_needs_is_carried_beside_it():
    """K_ab of inputs that nearly coincide takes its digits from their distance."""
    run = TANH.propagate(**AT, correlation=1 - 1e-6, quantities="exact_variance")
    assert set(run.values) == {"K", "K_ab", "log_distance"}
    np.testing.assert_allclose(run.exact_variance, run.distance / 2, rtol=1e-9)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(run.exact_variance, run.distance, rtol=1e-9)


def test_it_is_named_in_frames_in_json_and_in_figures():
    run = TANH.propagate(**AT, quantities=("depth_scale", "J"))
    assert run.quantities == ("K", "J", "depth_scale")
    assert_equal(run.to_frame()["depth_scale"].to_numpy(), np.log(run.K))
    assert run.data()["values"]["depth_scale"] == np.log(run.K).tolist()
    assert mathtext("depth_scale") == r"$\log K^\ell$"
    with pytest.raises(AssertionError, match="not equal"):
        assert_equal(run.depth_scale, run.K)


def test_a_logarithm_is_read_off_the_one_that_is_carried():
    """J overflows at layer 1500, and its logarithm does not."""
    run = RELU.propagate(sigma_w=2, sigma_b=0, depth=3000, quantities="norm_of_J")
    assert np.isinf(run.J[-1]) and run.norm_of_J[-1] == pytest.approx(2999 * np.log(2) / 2, rel=1e-12)


def test_a_map_of_its_own_is_compiled_beside_the_others():
    run = TANH.propagate(**AT, quantities=("total", "J"))
    assert_equal(run.total, np.concatenate(([0.0], np.cumsum(run.K)[:-1])))
    with pytest.raises(AssertionError, match="not equal"):
        assert_equal(run.total, np.cumsum(run.K))
    assert str(TANH.recursion("total")).endswith("total' = K + total")
    begun = TANH.propagate(**AT, quantities="total", start={"total": 2.0})
    assert begun.total == pytest.approx(run.total + 2, rel=1e-15)
    rows = TANH.recursion("total").iterate({"sigma_w": "13/10", "sigma_b": "1/10", "Q0": 1}, 3)
    assert [float(row["total"]) for row in rows] == pytest.approx(run.total[:3].tolist(), rel=1e-14)


def test_its_map_decides_which_recursion_is_run():
    """1 - c from what the distance keeps: inputs that are 1e-12 apart."""
    run = TANH.propagate(sigma_w=1, sigma_b=0, depth=4, correlation=1 - 1e-12, quantities=("drift", "c"))
    assert "log_distance" in run.values
    apart = np.exp(run.log_distance) / (2 * run.K)
    assert run.drift == pytest.approx(np.concatenate(([0.0], np.cumsum(apart)[:-1])), rel=1e-13)
    with pytest.raises(AssertionError, match="comparison failed"):
        assert run.drift == pytest.approx(np.cumsum(apart), rel=1e-13)


@pytest.mark.parametrize("architecture", ["batchnorm_mlp", "resmlp"])
def test_positions_that_act_on_each_other_have_it_too(architecture):
    theory = mf.derive("relu", architecture=architecture)
    run = theory.propagate(**AT, quantities=("own_variance", "total"))
    assert_equal(run.own_variance, run.K - run.K_ab)
    assert_equal(run.total, np.concatenate(([0.0], np.cumsum(run.K)[:-1])))
    with pytest.raises(AssertionError, match="not equal"):
        assert_equal(run.own_variance, run.K)


@pytest.mark.slow
def test_a_quotient_goes_on_where_K_underflows():
    """Its degree says that other units do not change it; of one that says nothing 0/0 is left."""
    asked = ("share", "plain_share", "c")
    run = TANH.propagate(sigma_w=0.5, sigma_b=0, depth=1200, correlation=0.5, quantities=asked)
    assert run.underflows_at > 0 and run.share[-1] == pytest.approx(run.c[-1], rel=1e-12)
    assert np.isnan(run.plain_share[-1])


@pytest.mark.parametrize("weights", ["gaussian", "orthogonal"])
def test_correlators_of_order_1_over_n(weights):
    theory = mf.derive("tanh", weights=weights)
    run = theory.propagate(sigma_w=1, sigma_b=0, depth=5, quantities="excess")
    np.testing.assert_allclose(run.excess, run.normalized("V"), rtol=1e-13)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(run.excess, run.V, rtol=1e-13)


def test_beside_gradients():
    run = RELU.propagate(**AT, quantities=("G_w", "depth_scale", "total"))
    plain = RELU.propagate(**AT, quantities=("depth_scale", "total"))
    assert_equal(run.depth_scale, plain.depth_scale)
    assert_equal(run.total, plain.total)
    assert {"G_w[1]", "depth_scale", "total"} <= set(run.quantities)
    with pytest.raises(AssertionError, match="not equal"):
        assert_equal(run.total, plain.depth_scale)


OPEN = mf.derive(
    architecture=mf.Residual(mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense())), shortcut=mf.LayerNorm(affine=True))
)
REFUSED = [
    (lambda: TANH.propagate(**AT, quantities="own_variance"), "sigma_y2 and own_variance belong to two inputs; give"),
    (
        lambda: TANH.propagate(**AT, correlation=0.1, quantities=("own_variance", "K_aa")),
        "K_aa was asked for with own_variance, but K_aa is of two inputs of any norms, and own_variance of",
    ),
    (
        lambda: TANH.propagate(**AT, correlation=0.1, quantities="own_variance", start={"K_aa": 1.0}),
        "K_aa was given in start with own_variance",
    ),
    (lambda: OPEN.propagate(sigma_w=1, sigma_b=1, depth=2, quantities="tangents"), "tangents is Theta/K, but Theta is"),
    (lambda: TANH.recursion("own_variance"), "The map of own_variance is not available: it is read"),
    (lambda: mf.derive("relu", mu="total").propagate(**AT, quantities="total"), "total is a quantity of yours and"),
    (lambda: TANH.kernel(np.eye(3), depth=2, quantities="own_variance"), "Unknown kernel 'own_variance'"),
    (
        lambda: mf.check("tanh", **AT, correlation=0.1, quantities="own_variance"),
        "Unknown quantity of a check 'own_variance'",
    ),
    (
        lambda: mf.derive("relu", architecture="batchnorm_mlp").propagate(**AT, quantities="excess"),
        "excess was asked for, which is not derived where positions act on each other",
    ),
    (lambda: TANH.propagate(**AT, quantities=("excess", "total")), "total was asked for with V"),
    (lambda: register(Quantity("c", "c", "taken", read="K")), "cannot be called 'c', which is taken or no name"),
    (lambda: register(Quantity("a b", "c", "no name", read="K")), "cannot be called 'a b'"),
    (lambda: register(Quantity("mixed", "m", "of two kinds", read="K - K_aa")), "mixed was given as 'K - K_aa'"),
    (lambda: register(Quantity("empty", "m", "nothing")), "empty was given as 'no formula', but no recursion"),
    (lambda: register(Quantity("late", "m", "of layers", read="K*l")), "late was given as 'K\\*l', which holds l; a"),
    (lambda: register(Quantity("gain", "m", "of a gain", read="K/sigma_w")), "which holds sigma_w; a formula holds"),
    (lambda: register(Quantity("sums", "m", "", step=("1", "sums + x1 + K"))), "sums \\+ x1 \\+ K', which holds x1"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_it_is_refused_by_name(call, message):
    with pytest.raises(mf.MeanFieldError, match=message):
        call()


def test_control_a_name_that_nobody_registers_is_unknown():
    with pytest.raises(mf.MeanFieldError, match=r"Unknown quantity 'own_variances'|did you mean 'own_variance'"):
        TANH.propagate(**AT, quantities="own_variances")
    assert not {"mixed", "empty", "late", "gain", "sums"} & set(QUANTITIES)


@pytest.mark.parametrize("formula", ["log(K)/2", "1.5e-3*K + pi", "sqrt (K)*E", "K**2.5e1"])
def test_numbers_constants_and_functions_are_no_names(formula):
    try:
        assert register(Quantity("read_off", "r", "a formula", read=formula)).recursions
    finally:
        QUANTITIES.pop("read_off", None)
