"""Arguments that could be misread: every verb answers the call as it is meant, and refuses it with one of them put
wrong, in a sentence that names it. Each row is its own control: the call without the wrong value passes."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from typer.testing import CliRunner

import meanfield as mf
from meanfield import empirical
from meanfield.base.answers.results import Status
from meanfield.base.arguments import WORDS
from meanfield.cli.app import app

ERF, SKIP = mf.derive("erf"), mf.derive("erf", mu="mu")
X, NETWORKS = np.eye(2), {"width": 8, "depth": 2, "networks": 2}
POINT = {"sigma_w": 1, "sigma_b": 0}
SKIPPED = {**POINT, "mu": "1/2"}

#: name → (the call, arguments with which it answers)
CALLS = {
    "derive": (lambda **k: mf.derive("erf", **k), {}),
    "preset": (lambda **k: mf.derive("erf", architecture="full_residual", **k), {}),
    "activation": (lambda **k: mf.activation("leaky_relu", **k), {}),
    "Dense": (mf.Dense, {}),
    "Scale": (mf.Scale, {"factor": 1}),
    "Schedule": (mf.Schedule, {"value": 1, "beta": 0}),
    "Residual": (lambda **k: mf.Residual(mf.networks.mlp("erf"), **k), {}),
    "Param": (mf.Param, {"name": "mu"}),
    "recursion": (lambda **k: ERF.recursion("Theta", **k), {}),
    "correlator_map": (ERF.correlator_map, {"quantity": "K"}),
    "derivation": (ERF.derivation, {"quantity": "K"}),
    "depth_law": (SKIP.depth_law, {"quantity": "J", **SKIPPED}),
    "fixed_points": (SKIP.fixed_points, SKIPPED),
    "phase": (SKIP.phase, SKIPPED),
    "propagate": (SKIP.propagate, {"depth": 2, **SKIPPED}),
    "phase_diagram": (ERF.phase_diagram, {"sigma_w": [1, 2], "sigma_b": [0.0], "line": False}),
    "kernel": (ERF.kernel, {"X": X, "depth": 2, "quantities": "K", **POINT}),
    "correlators": (ERF.correlators, {"gram": [[1.0]], "depth": 2, "quantities": "V", **POINT}),
    "check": (lambda **k: mf.check(ERF, **NETWORKS, **k), POINT),
    "measure": (lambda **k: mf.measure("erf", **NETWORKS, **k), POINT),
    "measure_pairs": (lambda **k: mf.measure_pairs("erf", width=8, depth=2, batch=3, **k), POINT),
    "measure_criticality": (lambda **k: mf.measure_criticality("erf", width=8, depth=3, networks=2, **k), POINT),
    "tune": (lambda **k: mf.tune("relu", depth=3, width=4, **k), {}),
    "recommend": (lambda **k: mf.recommend(mf.networks.mlp("relu"), depth=3, width=8, networks=0, **k), {}),
    "tuning_region": (lambda **k: mf.tuning.tuning_region("relu", steps=2, **k), {"sigma_w": 1, "rate": 0.1}),
    "first_linear_layer": (mf.symbolic.first_linear_layer, {"fan_in": 3}),
    "linear_moments": (mf.symbolic.linear_moments, {"order": 2, "depth": 2}),
    "average": (lambda **k: mf.average("tanh(z)", **k), {"cov": 1}),
    "iterate": (lambda v: ERF.recursion("K").iterate({**POINT, "Q0": 1} | v, 2), {"v": {}}),
    "decay": (mf.symbolic.decay, {"gain": {3: -1}, "log_chi": {1: -1}}),
    "run at": (lambda **k: ERF.propagate(depth=3, **POINT).at(**k), {"layer": "2"}),
    "subs": (lambda v: ERF.recursion("K").subs(v), {"v": {}}),
    "susceptibilities": (lambda **k: ERF.susceptibilities().at(**k), {}),
    "averages": (lambda **k: ERF.averages().at(**k), {}),
    "law": (lambda **k: ERF.expansions(1)["phi^2", "0"].at(**k), {"value": 1}),
}
NAMED = "no name of a symbol"
ONE = "must be (one finite real|a finite|a) number"
ROWS = [
    *(("derive", {"residual": x}, "residual must be True, False") for x in ("False", "True", "yes", "half", None)),
    *(("derive", {"mu": x}, NAMED) for x in ("False", "half", "none", "one", "auto", "nan", "lambda")),
    *(("derive", {"mu": x}, ONE) for x in (True, np.True_, math.nan, math.inf, 1j, [1], b"1", sp.true)),
    ("derive", {"mu": -1}, "must be ≥ 0"),
    ("preset", {"sigma_w": "yes"}, NAMED),
    ("preset", {"sigma_v": True}, ONE),
    ("preset", {"beta_v": "none"}, NAMED),
    ("activation", {"alpha": "half"}, NAMED),
    ("activation", {"alpha": np.True_}, ONE),
    ("Dense", {"sigma_w": "off"}, NAMED),
    ("Dense", {"sigma_b": False}, ONE),
    ("Dense", {"expand": "two"}, NAMED),
    ("Scale", {"factor": "true"}, NAMED),
    ("Schedule", {"beta": "null"}, NAMED),
    ("Residual", {"mu": "on"}, NAMED),
    *(("Param", {"name": x}, NAMED) for x in ("True", "half", "inf")),
    ("recursion", {"lambda_w": "yes"}, NAMED),
    ("recursion", {"lambda_w": True}, ONE),
    ("correlator_map", {"quantity": ["K"]}, "must be a text"),
    ("correlator_map", {"inputs": 1}, "inputs must be a tuple"),
    ("correlator_map", {"inputs": (True, True)}, "An entry of inputs must be a whole number"),
    ("correlator_map", {"ratio": "False"}, NAMED),
    ("derivation", {"latex": "False"}, "latex must be True or False"),
    ("derivation", {"inputs": {1, 2}}, "inputs must be a tuple"),
    ("depth_law", {"input_ratio": True}, ONE),
    ("depth_law", {"mu": "half"}, NAMED),
    *((verb, {"sigma_w": x}, ONE) for verb in ("fixed_points", "phase") for x in (True, [1], np.True_)),
    *((verb, {"sigma_w": None}, "need numbers for sigma_w") for verb in ("fixed_points", "phase")),
    ("phase", {"sigma_w": ""}, "must be a number"),
    ("propagate", {"sigma_w": True}, "must be a real number"),
    ("propagate", {"sigma_w": -1}, "must be ≥ 0"),
    ("propagate", {"input_ratio": "x y"}, "must be a finite number"),
    ("propagate", {"input_ratio": True}, ONE),
    ("propagate", {"sigma_w": None}, "sigma_w has no value"),
    *(("propagate", {"depth": x}, "depth must be a whole number") for x in (np.array([2, 3]), [2], "two", True)),
    ("propagate", {"layerwise": "False"}, "layerwise must be True or False"),
    ("phase_diagram", {"sigma_w": (1, 1.5, 2)}, "three values or 2 numbers .* as a list"),
    ("phase_diagram", {"sigma_w": (0, 3, 300.0)}, "no number of points"),
    ("phase_diagram", {"sigma_w": (0, 3, True)}, "must be a real number"),
    ("phase_diagram", {"line": "no"}, "line must be True or False"),
    *((verb, {"sigma_w": [1, 1]}, "several points, and this verb takes one") for verb in ("kernel", "correlators")),
    *((verb, {"sigma_w": [1, 1]}, "several points, and this verb takes one") for verb in ("check", "measure")),
    ("check", {"input_dimension": "yes"}, "input dimension N_0 must be an integer"),
    *((verb, {"nu": 0.5}, "nu") for verb in ("measure", "measure_pairs", "measure_criticality")),
    ("check", {"nu": 0.5}, "nu is not a parameter of this theory"),
    ("measure", {"mu": {"nu": 1}}, "mu must be"),
    ("measure", {"widht": 3}, "Did you mean 'width'"),
    ("recommend", {"norm": "pre"}, "beside a network that says what it is"),
    ("measure", {"input_norm": b"1"}, "must be a finite number"),
    ("measure", {"lambda_w": "1e400"}, "beyond any double"),
    ("tune", {"tokens": [1, 2]}, "tokens must be a whole number"),
    ("tune", {"sigma_w": [1, 1, 1]}, "several points, and this verb takes one"),
    ("tune", {"rate": [[1], [1, 2]]}, "rate must be"),
    ("kernel", {"sigma_w": range(1, 3)}, "several points, and this verb takes one"),
    ("tune", {"minibatches": "no"}, "minibatches must be True or False"),
    ("tune", {"progress": 1}, "progress must be a function"),
    ("tune", {"inputs": np.ones((2, 4), complex)}, "inputs must be real"),
    ("recommend", {"budget": "inf"}, ONE),
    ("recommend", {"sigma_w": 1}, "it is what recommend answers"),
    *(("tuning_region", {"rate": x}, "must be") for x in (True, [], math.inf, 10**400, [1j], b"1")),
    *(("first_linear_layer", {"fan_in": x}, "fan_in must be a whole number") for x in (True, -1, 1.5, "__import__")),
    ("first_linear_layer", {"square": "exit()"}, "square must be a finite number"),
    ("first_linear_layer", {"variance": -1}, "variance must be ≥ 0"),
    ("first_linear_layer", {"varianz": 1}, "Did you mean 'variance'"),
    ("linear_moments", {"variance": None}, ONE),
    ("average", {"cov": "yes"}, NAMED),
    ("average", {"variables": "x"}, "are no symbols of"),
    *(("iterate", {"v": {"sigma_w": x}}, ONE) for x in (None, True, math.nan, [1])),
    ("iterate", {"v": {"sigma_w": "-1"}}, "must be ≥ 0"),
    *(("subs", {"v": x}, "given by name") for x in (1, "sigma_w", [1])),
    ("subs", {"v": {"sigmaw": 1}}, "is no symbol of this recursion. Did you mean 'sigma_w'"),
    ("subs", {"v": {sp.Symbol("mu"): 1}}, "is no symbol of this recursion"),
    *(("decay", {"gain": x}, "must be a mapping") for x in (3, [1], None)),
    *(("decay", {"gain": x}, "powers of δ above 1") for x in ({}, {1: -1}, {2: -1, 0: 3})),
    *(("decay", {"gain": x}, "leading coefficient is negative") for x in ({3: 0.7}, {3: 0})),
    *(("decay", {"gain": x}, "must be") for x in ({2: True}, {2: math.nan}, {"__import__('os')": -1}, {"a": -1})),
    ("decay", {"log_chi": {1: "x"}}, "A coefficient of log_chi must be a finite number"),
    *(("run at", {"layer": x}, "is not available: this run holds layers 1 to 3") for x in (True, 1.0, 0, 4, None, [1])),
    ("subs", {"v": {"sigma_w": False}}, ONE),
    ("susceptibilities", {"sigmaw": 1}, "Did you mean 'sigma_w'"),
    ("susceptibilities", {"sigma_w": -1}, "sigma_w must be ≥ 0"),
    ("averages", {"K": 0}, "K must be > 0"),
    ("averages", {"K": True}, ONE),
    ("law", {"value": "__import__('os').getcwd()"}, "must be a finite number"),
    ("law", {"value": None}, "The value of a law is not available: give K"),
    ("law", {"value": None, "k": 1}, "is no symbol here"),
]


@pytest.fixture(scope="module")
def answered():
    """Which calls answer, each tried once."""
    return set()


@pytest.mark.parametrize(("verb", "wrong", "words"), ROWS, ids=[f"{v} {w}"[:60] for v, w, _ in ROWS])
def test_a_wrong_argument_is_refused_by_name(answered, verb, wrong, words):
    call, right = CALLS[verb]
    if verb not in answered:
        call(**right)
        answered.add(verb)
    with pytest.raises(mf.MeanFieldError, match=words) as caught:
        call(**(right | wrong))
    assert len(str(caught.value)) < 700 and "Traceback" not in str(caught.value)


def test_truth_values_and_numbers_in_words_are_no_symbols_but_names_are():
    for word in sorted(WORDS):
        with pytest.raises(mf.MeanFieldError, match=NAMED):
            mf.Param(word)
    for name in ("mu", "alpha", "sigma_v", "halfway", "offset", "beta_1"):
        assert mf.derive("erf", mu=name).block.mu == mf.Param(name)
    assert mf.derive("erf", residual=np.True_) == mf.derive("erf", residual=True)
    assert mf.derive("erf", residual="1/2") == mf.derive("erf", mu="1/2")


def test_several_names_in_one_tuple_are_all_taken():
    assert ERF.recursion(("K", "J")) == ERF.recursion("K", "J") != ERF.recursion("K")


# ----------------------------------------------------------------------------- standard deviations that a record holds

HELD = mf.derive("erf", architecture="full_residual", sigma_w=1, sigma_v=1, sigma_a=0)  # sigma_b stays open
VERBS = {
    "depth_law": lambda **k: HELD.depth_law("J", **k),
    "further terms": lambda **k: HELD.depth_law("J", order=1, **k),
    "fixed_points": HELD.fixed_points,
    "phase": HELD.phase,
    "phase_table": lambda **k: HELD.phase_table("J", **k),
    "propagate": lambda **k: HELD.propagate(depth=3, **k),
    "gradients": lambda **k: HELD.propagate(depth=3, quantities="G_w", **k),
    "kernel": lambda **k: HELD.kernel(X, depth=3, **k),
    "kernel_operator": lambda **k: HELD.kernel_operator(X, depth=3, **k),
    "phase_diagram": lambda sigma_w=None, sigma_b=0: HELD.phase_diagram(
        sigma_w=sigma_w if sigma_w is None else [sigma_w], sigma_b=[sigma_b], line=False
    ),
    "width_schedule": lambda **k: HELD.width_schedule(width=64, depth=3, **k),
    "sample": lambda **k: HELD.sample(depth=2, tokens=2, draws=2, **k),
    "check": lambda **k: mf.check(HELD, **NETWORKS, **k),
    "measure": lambda **k: mf.measure(HELD, **NETWORKS, **k),
    "measure_pairs": lambda **k: mf.measure_pairs(HELD, width=8, depth=2, batch=3, **k),
}


@pytest.mark.slow_with("kernel", "kernel_operator")
@pytest.mark.parametrize("verb", list(VERBS))
def test_what_a_record_holds_is_not_given_again(verb):
    VERBS[verb](sigma_b=0)  # the other one is open
    with pytest.raises(mf.MeanFieldError, match=r"sigma_w(=\S+)? (was given, but every Dense|is not a parameter)"):
        VERBS[verb](sigma_w=2, sigma_b=0)


def test_what_a_record_holds_is_what_is_run():
    """Against the map by hand: K′ = K + ⟨erf²⟩ at w²K, from K = 1."""
    K = 1 + 2 / math.pi * math.asin(2 / 3)
    assert float(HELD.propagate(sigma_b=0, depth=2).K[-1]) == pytest.approx(K, rel=1e-12)
    twice = mf.derive("erf", architecture="full_residual", sigma_w=2, sigma_v=1, sigma_a=0)
    assert float(twice.propagate(sigma_b=0, depth=2).K[-1]) != pytest.approx(K, rel=1e-2)


# -------------------------------------------------------------------------------------------------- values by name


def test_numbers_go_into_formulas_by_name():
    """χ_J = σ_w²⟨φ′²⟩ of erf is 4σ_w²/(π√(1 + 4K))."""
    found = ERF.susceptibilities()
    for given in ({"sigma_w": 1.5, "K": 1}, {sp.Symbol("sigma_w"): "3/2", sp.Symbol("K"): 1.0}):
        assert float(found.at(given)["chi_J"]) == pytest.approx(9 / (math.pi * math.sqrt(5)), rel=1e-14)
    assert found.at(K=1)["chi_J"].free_symbols  # σ_w stays
    made = ERF.recursion("K", "J").at(K=1, J=2, sigma_w=1, sigma_b="1/2")
    assert float(made["K"]) == pytest.approx(2 / math.pi * math.asin(2 / 3) + 0.25, rel=1e-14)
    assert float(made["J"]) == pytest.approx(8 / (math.pi * math.sqrt(5)), rel=1e-14)
    assert float(ERF.averages().at(K="1/2")["phi^2"]) == pytest.approx(2 / math.pi * math.asin(0.5), rel=1e-14)
    (point,) = mf.derive("leaky_relu", alpha="alpha").critical_points().at(alpha="1/7")
    assert point["sigma_w"] == sp.Rational(7, 5)
    with pytest.raises(mf.MeanFieldError, match="no symbol here"):
        mf.derive("leaky_relu", alpha="alpha").critical_points().at(beta=1)
    law = mf.derive("relu").depth_law("K", sigma_w="sqrt(2)", sigma_b="1/10")
    assert law.at(l=100) == law.at(100) and law.at(100) != law.at(l=101)
    line = mf.derive("tanh").critical_line()
    assert line.at(K="1/2") == line.at("1/2")


# ---------------------------------------------------------------------------------------------------- missing layers


def test_an_estimate_says_that_layers_are_missing():
    run = mf.measure("relu", sigma_w=1e60, sigma_b=0, width=8, depth=5, networks=3)
    found = run.estimate("K")
    assert found.status is run.status is Status.DIVERGES and len(found.mean) == run.finite_depth == 2
    assert "overflow" in found.message and "at layer 3 of 5" in found.message
    fine = mf.measure("relu", sigma_w=1, sigma_b=0, width=8, depth=5, networks=3)
    assert fine.status is fine.estimate("K").status is Status.MEASURED and fine.estimate("K").message == ""
    block = mf.Sequential((mf.Nonlinearity("relu"), mf.Dense(sigma_w=1e60)))
    none = empirical.run_ensemble(
        mf.Network(block, mf.Dense(sigma_w=1e150)), sigma_w=1, sigma_b=0, width=8, depth=3, networks=3, input_norm=1e60
    )
    assert none.finite_depth == 0
    with pytest.raises(mf.MeanFieldError, match="measured at no layer, and networks overflow"):
        none.estimate("K")


# --------------------------------------------------------------------------------------------------- the command line


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["derive", "erf", "--mu", "half"], NAMED),
        (["derive", "erf", "--mu", "False"], NAMED),
        (["propagate", "erf", "--sigma-w", "yes", "--sigma-b", "0", "--depth", "2"], "sigma-w"),
        (["propagate", "erf", "--sigma-w", "nan", "--sigma-b", "0", "--depth", "2"], "sigma-w"),
        (["phase-diagram", "erf", "--sigma-w", "1,1.5,2.5"], "whole number"),
    ],
)
def test_the_command_line_refuses_alike(words, said):
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, mf.MeanFieldError) and said in str(done.exception)


def test_recursions_take_numbers_by_name():
    """By keyword, and for a symbol that was declared without assumptions, which SymPy would not find in a formula."""
    step, K = ERF.recursion("K").doit(), sp.Symbol("K", positive=True)
    expected = 8 / sp.pi * sp.asin(2 * K / (2 * K + 1)) + sp.Rational(1, 9)
    for given in ((({"sigma_w": 2, "sigma_b": "1/3"},), {}), ((), {"sigma_w": 2, "sigma_b": "1/3"})):
        assert sp.simplify(step.subs(*given[0], **given[1])["K"] - expected) == 0
    plain = step.subs({sp.Symbol("sigma_w"): 2, sp.Symbol("sigma_b"): "1/3"})["K"]
    assert sp.simplify(plain - expected) == 0
    assert step["K"].subs(sp.Symbol("sigma_w"), 2) == step["K"]  # control: SymPy's own takes no notice
