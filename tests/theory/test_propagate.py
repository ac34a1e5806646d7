"""The compiled depth loop: against exact iteration, its cache, divergence, broadcasting, bad input."""

from __future__ import annotations

import os
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Residual, Scale, Sequential
from meanfield.numeric.lowering.modules import generated_modules
from meanfield.theory.queries import given_values, parameter_points
from meanfield.theory.verbs import propagating

CASES = [
    ("tanh", True),
    ("erf", False),
    ("gelu", False),
    ("silu", True),
    ("hard_tanh", False),
    ("selu", False),
    ("softsign", True),
    ("sin", False),
]


def assert_layers_agree(run, exact, tolerance: float) -> None:
    """Every carried quantity equals the 30-digit iteration at every layer."""
    for i, layer in enumerate(exact):
        for name, value in layer.items():
            ours = float(getattr(run, name)[i])
            assert abs(ours - float(value)) <= tolerance * abs(float(value)), (
                f"{name} at layer {i + 1}: {ours} against {value}"
            )


@pytest.mark.slow_with("tanh-True", "silu-True", "softsign-True")
@pytest.mark.parametrize(("name", "residual"), CASES)
def test_compiled_layers_equal_exact_iteration(name, residual):
    theory = mf.derive(name, residual=residual)
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=6, quantities=("K", "J", "Theta"), input_norm=0.7)
    exact = theory.one_input.iterate({"sigma_w": 1.3, "sigma_b": 0.2, "Q0": 0.7}, 6, digits=25)
    assert_layers_agree(run, exact, 2e-14)
    with pytest.raises(AssertionError, match=r"at layer .* against"):
        wrong = theory.one_input.iterate({"sigma_w": 1.3 * (1 + 1e-12), "sigma_b": 0.2, "Q0": 0.7}, 6, digits=25)
        assert_layers_agree(run, wrong, 1e-13)


@pytest.mark.fast_with("erf", "relu")
@pytest.mark.parametrize("name", ["erf", "tanh", "relu", "leaky_relu"])
def test_two_input_layers_equal_exact_iteration(name):
    theory = mf.derive(name, mu="1/2")
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, correlation=0.3)
    exact = theory.two_inputs.iterate({"sigma_w": 1.3, "sigma_b": 0.2, "Q0": 1.0, "c0": 0.3}, 3, digits=12)
    assert_layers_agree(run, exact, 1e-11)
    identical = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=10, correlation=1.0)
    one = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=10, quantities=("K",))
    assert np.allclose(identical.K_ab, one.K, rtol=1e-12, atol=0) and np.allclose(identical.c, 1, rtol=1e-12)


@pytest.mark.slow
def test_final_equals_trace_and_early_stop_changes_nothing():
    theory = mf.derive("tanh")
    w = np.linspace(0.5, 3, 7)
    full = theory.propagate(sigma_w=w, sigma_b=0.3, depth=400)
    last = theory.propagate(sigma_w=w, sigma_b=0.3, depth=400, every_layer=False)
    assert np.array_equal(full.K[:, -1], last.K[:, 0])
    assert np.allclose(full.log_J[:, -1], last.log_J[:, 0], rtol=1e-13, atol=0)  # the last layers are added in one step
    layered = theory.propagate(sigma_w=np.repeat(w[:, None], 400, axis=1), sigma_b=0.3, depth=400, layerwise=True)
    assert np.allclose(layered.K, full.K, rtol=1e-15, atol=0)
    assert np.allclose(layered.log_J, full.log_J, rtol=1e-13)


def test_broadcasting_and_indexing():
    theory = mf.derive("erf")
    run = theory.propagate(sigma_w=np.ones((3, 1)), sigma_b=np.zeros(2), depth=5, input_norm=2.0)
    assert run.K.shape == (3, 2, 5) and run.l.tolist() == [1, 2, 3, 4, 5]
    assert np.all(run.at(1)["K"] == 2.0) and np.all(run.at(1)["J"] == 1.0)
    with pytest.raises(mf.MeanFieldError, match="layers 1 to 5"):
        run.at(6)
    sigma = np.array([1.0, 2.0, 0.5, 0.5, 0.5])
    by_layer = theory.propagate(sigma_w=sigma, sigma_b=0.0, depth=5, layerwise=True)
    K = 1.0
    for layer, s in enumerate(sigma[1:], start=2):
        K = s**2 * 2 / np.pi * np.arcsin(2 * K / (1 + 2 * K))
        assert abs(by_layer.at(layer)["K"] - K) < 1e-14 * K
    swept = mf.derive("tanh", mu="mu").propagate(sigma_w=1.0, sigma_b=0.1, depth=4, mu=0.5)
    fixed = mf.derive("tanh", mu=0.5).propagate(sigma_w=1.0, sigma_b=0.1, depth=4)
    assert np.array_equal(swept.K, fixed.K)
    alpha = mf.derive("leaky_relu", alpha="alpha").propagate(sigma_w=1.0, sigma_b=0.1, depth=4, alpha=0.2)
    assert np.allclose(alpha.K, mf.derive("leaky_relu(0.2)").propagate(sigma_w=1.0, sigma_b=0.1, depth=4).K, rtol=1e-15)


def test_divergence_is_reported_at_its_layer_with_the_rest_intact():
    run = mf.derive("relu2").propagate(sigma_w=[2.5, 0.1], sigma_b=0.0, depth=20)
    K, layer = Fraction(25, 4), 1
    while K < 10**300:
        K, layer = Fraction(75, 8) * K**2, layer + 1
    assert run.diverged_at.tolist() == [layer, 0]
    assert np.isfinite(run.K[0, : layer - 1]).all() and np.isinf(run.K[0, layer - 1 :]).all()
    assert run.status[0] is mf.Status.DIVERGES and f"layer {layer}" in run.message()
    assert mf.derive("relu").propagate(sigma_w=1.0, sigma_b=0.1, depth=20).message() == ""


def test_small_K_below_the_table_follows_the_power_law():
    """K falls as 4^{-l} far below every table: the ratio stays exact, and J too."""
    run = mf.derive("tanh").propagate(sigma_w=0.5, sigma_b=0.0, depth=400)
    assert abs(run.K[-1] / run.K[-2] - 0.25) < 1e-14 and run.K[-1] < 1e-200
    assert abs((run.log_J[-1] - run.log_J[-2]) - np.log(0.25)) < 1e-13


BAD = [
    ({"sigma_w": float("nan"), "sigma_b": 0, "depth": 3}, "finite"),
    ({"sigma_w": float("inf"), "sigma_b": 0, "depth": 3}, "finite"),
    ({"sigma_w": -1, "sigma_b": 0, "depth": 3}, "≥ 0"),
    ({"sigma_w": 1, "sigma_b": -0.1, "depth": 3}, "≥ 0"),
    ({"sigma_w": 1, "sigma_b": 0, "depth": 0}, "depth"),
    ({"sigma_w": 1, "sigma_b": 0, "depth": 2.5}, "depth"),
    ({"sigma_w": 1, "sigma_b": 0, "depth": 3, "correlation": 2}, "between -1 and 1"),
    ({"sigma_w": 1, "sigma_b": 0, "depth": 3, "quantities": ("X",)}, "the choices are K, J"),
    ({"sigma_w": 1, "sigma_b": 0, "depth": 3, "gain": 2}, "not a parameter"),
    ({"sigma_w": "a", "sigma_b": 0, "depth": 3}, "number"),
    ({"sigma_w": [], "sigma_b": 0, "depth": 3}, "empty"),
    ({"sigma_w": [1, 2], "sigma_b": 0, "depth": 3, "layerwise": True}, "layers"),
    ({"sigma_w": 1e200, "sigma_b": 0, "depth": 3}, "overflows"),
]


@pytest.mark.parametrize(("arguments", "word"), BAD)
def test_bad_input_gets_a_sentence(arguments, word):
    with pytest.raises(mf.MeanFieldError, match=word) as error:
        mf.derive("tanh").propagate(**arguments)
    assert str(error.value).rstrip().endswith(".") and "\n" not in str(error.value)


def test_infinite_jacobian_is_named():
    with pytest.raises(mf.MeanFieldError, match="jump"):
        mf.derive("step").propagate(sigma_w=1, sigma_b=0, depth=3, quantities=("K", "J"))
    assert mf.derive("step").propagate(sigma_w=1, sigma_b=0.5, depth=3).K[-1] == 0.75


def test_source_can_be_read_and_names_the_forms():
    text = mf.derive("tanh", residual=True).source()
    assert "<tanh(z)**2>_{K}: table, measured error" in text and "def layers" in text
    assert "closed form for every K" in mf.derive("erf").source()


@pytest.mark.slow
def test_second_process_compiles_nothing(tmp_path):
    code = (
        "import sys; import meanfield as mf;"
        "t = mf.derive('tanh', residual=True);"
        "t.propagate(sigma_w=1.2, sigma_b=0.1, depth=10**7, every_layer=False);"  # so many that compiling pays
        "from meanfield.numeric.lowering.assembly import lower; m = lower(t.recursion('K', 'J')).generated;"
        "s = m.compiled.layers.stats;"
        "print('meanfield.numeric.lowering.generation' in sys.modules, bool(s.cache_hits), bool(s.cache_misses))"
    )
    own = os.environ | {"MEANFIELD_CACHE": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "numba")}
    outputs = [
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=own).stdout.split()
        for _ in range(2)
    ]
    assert outputs == [["True", "False", "True"], ["False", "True", "False"]]


def test_blocks_compose():
    """A residual around an activation, two activations in a row, and two Dense layers per block all have their rule."""
    inner = Residual(Sequential((Residual(Nonlinearity("tanh"), 2), Dense())), 1)
    k = mf.derive(architecture=inner).recursion("K")["K"]
    assert "(tanh(z) + 2*z)**2" in str(k) or "(2*z + tanh(z))**2" in str(k)
    twice = mf.derive(architecture=Sequential((Nonlinearity("erf"), Nonlinearity("relu"), Dense())))
    assert sp.diff(twice.recursion("K")["K"], mf.symbols.K) != 0
    deep = mf.derive(architecture=Sequential((Nonlinearity("erf"), Dense(), Nonlinearity("relu"), Dense())))
    run = deep.propagate(sigma_w=1.3, sigma_b=0.2, depth=4, quantities=("K", "J", "Theta"))
    exact = deep.one_input.iterate({"sigma_w": 1.3, "sigma_b": 0.2, "Q0": 1.0}, 4, digits=20)
    assert_layers_agree(run, exact, 2e-14)
    both = mf.derive(architecture=Sequential((Nonlinearity("tanh"), Dense(), Nonlinearity("silu"), Dense())))
    assert_layers_agree(
        both.propagate(sigma_w=1.3, sigma_b=0.2, depth=3),
        both.recursion("K", "J").iterate({"sigma_w": 1.3, "sigma_b": 0.2, "Q0": 1.0}, 3, digits=20),
        2e-14,
    )
    erf_map = mf.derive("erf").recursion("K").doit()["K"]
    composed = mf.derive("relu").recursion("K").doit()["K"].subs(mf.symbols.K, erf_map)
    assert sp.simplify(deep.recursion("K").doit()["K"] - composed) == 0
    with pytest.raises(mf.MeanFieldError, match="Dense"):
        mf.derive(architecture=Sequential((Dense(), Nonlinearity("tanh")))).recursion("K")
    with pytest.raises(mf.MeanFieldError, match="Gaussian"):
        mf.derive(
            architecture=Sequential((Nonlinearity("tanh"), Residual(Sequential((Nonlinearity("tanh"), Dense())), 1)))
        ).recursion("K")


@pytest.mark.slow
def test_whole_numbers_too_long_for_a_compiled_integer(monkeypatch):
    """φ∘LN∘φ∘LN: the constants of its averages are rationals of forty digits."""
    monkeypatch.setattr(generated_modules, "PATIENCE", -1.0)  # the interpreter knows integers of any size
    norm = LayerNorm(affine=False)
    theory = mf.derive(architecture=Sequential((norm, Nonlinearity("erf"), norm, Nonlinearity("erf"), Dense())))
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=4, correlation=1.0)
    alone = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=4)
    assert run.K_ab == pytest.approx(alone.K, rel=1e-12)


def test_an_input_has_a_neuron():
    """At N_0 < 1 the share D0 of the gradient would exceed K, and J0 be negative."""
    theory = mf.derive("tanh")
    with pytest.raises(mf.MeanFieldError, match="input_dimension must be ≥ 1"):
        theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, quantities=("J0",), input_dimension=0.375)
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, quantities=("J0",), input_dimension=1)
    assert np.isfinite(run.J0).all()
    with pytest.raises(mf.MeanFieldError, match="input_dimension= is of J0 and D0"):
        theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, input_dimension=1)
    with pytest.raises(mf.MeanFieldError, match="input_dimension has no value; give it as a keyword"):
        theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=3, quantities=("J0",))


@pytest.mark.slow
def test_a_node_that_overflowed_twice_is_finite():
    """(gelu → LN) + z/2 held ⟨z²/((v - m²) e^{z²})⟩ with the bracket multiplied out: ∞ - ∞ from K ≈ 9 on."""
    inner = Residual(Sequential((Nonlinearity("gelu"), LayerNorm(affine=False))), "1/2")
    theory = mf.derive(architecture=Sequential((inner, Dense())))
    run = theory.propagate(sigma_w=1.3, sigma_b=0.2, depth=8)
    assert np.isfinite(run.J).all() and run.K[-1] == pytest.approx(10.759289149, rel=1e-9)
    exact = theory.one_input.iterate({"sigma_w": 1.3, "sigma_b": 0.2, "Q0": 1}, 6)
    assert run.J[5] == pytest.approx(float(exact[5]["J"]), rel=1e-12)


def counted_readings(monkeypatch, call) -> int:
    """How often sigma_w is read while `call` runs."""
    read: list[str] = []

    def noted(name, value):
        read.append(name)
        return given_values.double(name, value)

    for module in (parameter_points, propagating):
        monkeypatch.setattr(module, "double", noted)
    call()
    return read.count("sigma_w")


def test_a_call_reads_its_numbers_once(monkeypatch):
    """Gradients with Theta beside them are two runs at one place, and so is K where nobody asked for an infinite J."""
    relu, tanh = mf.derive("relu"), mf.derive("tanh", mu="1/2")
    at = dict(sigma_w="1.2", sigma_b="1/10", depth=3)
    for call in (
        lambda: relu.propagate(**at, quantities=("G_w", "Theta")),
        lambda: tanh.propagate(**at, quantities=("V", "J")),
        lambda: mf.derive("leaky_relu", alpha="alpha").propagate(**at, alpha=[0.1, 0.2]),
    ):
        assert counted_readings(monkeypatch, call) == 1

    def again(theory, place, *rest):  # planted: a run that makes its place anew
        parameter_points.ParameterPoint.of(theory, **place.inputs, start=None, parameters={})
        return kept(theory, place, *rest)

    kept = propagating._run
    monkeypatch.setattr(propagating, "_run", again)
    with pytest.raises(AssertionError, match="2 == 1"):
        assert counted_readings(monkeypatch, lambda: relu.propagate(**at)) == 1


BETWEEN = [({"c": 0.3}, 0.3 * 2**0.5), ({"distance": 2.5}, 0.25), ({"K_ab": 0.1}, 0.1)]
TANH = Nonlinearity("tanh"), Dense()


@pytest.mark.parametrize("between, K_ab", BETWEEN)
@pytest.mark.parametrize("block", [Residual(Sequential((*TANH, Scale(0)))), Sequential((Scale(0), *TANH))])
def test_two_norms_may_start_with_c_or_a_distance_where_nothing_turns(block, between, K_ab):
    """Where a block lets its input through, or nothing of it, no norm_angle is followed."""
    asked = {"sigma_w": 1, "sigma_b": 0.1, "depth": 2, "quantities": ("K_aa", "K_ab")}
    run = mf.derive(block).propagate(**asked, start={"K_aa": 1, "K_bb": 2, **between})
    assert abs(run.K_ab[0] - K_ab) < 1e-15
    with pytest.raises(mf.MeanFieldError, match="distance must be at least"):
        mf.derive(block).propagate(**asked, start={"K_aa": 1, "K_bb": 2, "distance": 0.1})
