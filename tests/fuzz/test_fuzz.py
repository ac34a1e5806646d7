"""Hostile calls end in a sentence or an answer; the harness sees a planted TypeError, a hang, a NaN and a wrong shape.

MEANFIELD_FUZZ_CASES=100000 pytest tests/fuzz runs that many cases of every kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from flint import acb
from scipy import special

import meanfield as mf
from meanfield.base.symbols import K, z
from meanfield.functions import balls
from meanfield.numeric.quadrature import oscillatory_integrands
from meanfield.symbolic.fixed_points.certified_roots import rough_sign
from tests import ROOT

from .calls import VERBS, Call
from .judge import Finding, judge

CASES = {"verbs": 150, "texts": 80, "lines": 30}
MORE = {"verbs": 1200, "texts": 600, "lines": 240}


def assert_none(findings: list[Finding]) -> None:
    assert not findings, "\n".join(map(str, findings))


def assert_survives(kind: str, cases: int, seed: int) -> None:
    """A process of its own: memory is limited."""
    sizes = ["--calls", str(cases), "--seed", str(seed)]
    command = [sys.executable, "-m", "tests.fuzz", "--kind", kind, *sizes]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", CASES)
def test_hostile_calls_end_in_sentences_or_answers(kind):
    assert_survives(kind, int(os.environ.get("MEANFIELD_FUZZ_CASES", CASES[kind])), 20)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MORE)
def test_more_hostile_calls(kind):
    assert_survives(kind, MORE[kind], 21)


@pytest.mark.slow
def test_hostile_formulas_through_the_whole_engine():
    assert_survives("deep", 60, 20)


def test_planted_type_error_is_found(monkeypatch):
    def wrong(*_, **__):
        raise TypeError("planted")

    call = Call("tanh.table", {"order": "text abc"})
    assert_none([f for f in [judge(call)] if f])
    monkeypatch.setattr(mf.Theory, "table", wrong)
    with pytest.raises(AssertionError, match="TypeError: planted"):
        assert_none([f for f in [judge(call)] if f])


def test_planted_error_in_a_command_line_is_found(monkeypatch):
    def wrong(*_, **__):
        raise KeyError("planted")

    call = Call("line", line=("propagate", "linear", "--sigma-w", "1", "--sigma-b", "0", "--depth", "2"))
    assert_none([f for f in [judge(call)] if f])
    monkeypatch.setattr(mf.Theory, "propagate", wrong)
    with pytest.raises(AssertionError, match="KeyError"):
        assert_none([f for f in [judge(call)] if f])


def test_planted_hang_is_found(monkeypatch):
    monkeypatch.setitem(VERBS, "activations", (lambda: time.sleep(60), {}, ()))
    with pytest.raises(AssertionError, match="no answer and no sentence"):
        assert_none([f for f in [judge(Call("activations"), seconds=0.2)] if f])


def test_planted_nan_and_shape_are_found(monkeypatch):
    run = mf.derive("relu").propagate(sigma_w=1, sigma_b=0, depth=3)
    for spoilt in ({"K": np.array([1.0, np.nan, 1.0])}, {"K": np.ones(2)}):
        answer = replace(run, values=spoilt)
        monkeypatch.setitem(VERBS, "activations", (lambda answer=answer: answer, {}, ()))
        with pytest.raises(AssertionError, match="K"):
            assert_none([f for f in [judge(Call("activations"))] if f])


TWICE = mf.Sequential((mf.Nonlinearity("erf"), mf.Dense()) * 2)
FADING = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(sigma_w=mf.Schedule(1, 1))))


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=10**10), "every_layer=False"),
        (lambda: mf.derive("tanh").phase_diagram(sigma_w=(0, 2, 10**9)), "GB"),
        (lambda: mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depht=3), "Did you mean 'depth'"),
        (lambda: mf.Dense(weigths="orthogonal"), "Did you mean 'weights'"),
        (lambda: mf.derive("tanh", weigths="orthogonal"), "Did you mean 'weights'"),
        (lambda: mf.measure("tanh", sigma_w=1, sigma_b=0, widht=3), "Did you mean 'width'"),
        (lambda: mf.derive("tanh(" * 10 + "z" + ")" * 10), "nests functions 10 deep"),
        (lambda: mf.derive("y**2"), "The variable is z"),
        (lambda: mf.derive(architecture=mf.networks.mlp("tanh"), weights="orthogonal"), "weights"),
        (lambda: mf.derive(architecture=mf.networks.mlp("tanh"), alpha=1), "parameters"),
        (lambda: mf.derive("swish", beta=None), "beta"),
        (lambda: mf.derive("tanh", residual=True, mu="1e400"), "mu"),
        (lambda: mf.Sequential(3), "Sequential"),
        (lambda: mf.measure_criticality("tanh", sigma_w=1, sigma_b=[[1], [2, 3]], width=20), "sigma_b"),
        (lambda: mf.derive(architecture=TWICE).critical_line(), "several Dense"),
        (lambda: mf.derive(architecture=FADING).phase_diagram(sigma_w=[0, 0.5, 1], sigma_b=[0, 0.5, 1]), "Schedule"),
        (lambda: mf.average("__import__('os')", 1), "is not allowed"),
        (lambda: mf.check("tanh", sigma_w=1, sigma_b=0, sampler={}), "sampler"),
        (lambda: mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=3, correlation=np.array([1j])), "correlation"),
    ],
)
def test_a_sentence_says_what_to_do(ask, says):
    with pytest.raises(mf.MeanFieldError, match=says.replace("(", r"\(")):
        ask()


def test_one_name_is_one_quantity():
    theory = mf.derive("tanh")
    assert "Theta" in theory.propagate(sigma_w=1, sigma_b=0, depth=3, quantities="Theta").values
    found = mf.measure("tanh", sigma_w=1, sigma_b=0, width=4, depth=2, networks=3, quantities="Theta")
    assert "Theta" in found.quantities


def test_limits_come_from_outside(monkeypatch):
    monkeypatch.setenv("MEANFIELD_MEMORY", "1kB")
    with pytest.raises(mf.MeanFieldError, match="MEANFIELD_MEMORY"):
        mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=100)
    monkeypatch.setenv("MEANFIELD_MEMORY", "much")
    with pytest.raises(mf.MeanFieldError, match="must be a number > 0"):
        mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=100)
    monkeypatch.delenv("MEANFIELD_MEMORY")
    monkeypatch.setenv("MEANFIELD_SECONDS", "0.05")
    with pytest.raises(mf.MeanFieldError, match=r"0\.05 seconds"):
        mf.derive("tanh(z)*erf(z/3) + z/7").fixed_points(sigma_w="1.1", sigma_b="0.37")


def test_time_that_ends_inside_an_integral_is_a_sentence(monkeypatch):
    """The clock runs out in a callback of python-flint, which may call it again and then fail by itself."""
    monkeypatch.setenv("MEANFIELD_SECONDS", "0.7")
    with pytest.raises(mf.MeanFieldError, match=r"0\.7 seconds"):
        mf.derive("1/(2 + cos(z))").fixed_points(sigma_w=2, sigma_b=0)


def test_what_an_integrand_raises_comes_out():
    seen = []

    def integrand(t, analytic):
        seen.append(t)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        balls.integral(integrand, acb(0), acb(1))
    assert len(seen) == 1


SMALL = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 6, "depth": 2, "networks": 2}


def test_a_parameter_that_cancels_needs_no_number():
    cancels = mf.activation("z**2 + alpha*z - alpha*z", alpha="beta")
    plain = mf.measure("z**2", **SMALL).estimate("K").mean
    np.testing.assert_allclose(mf.measure(cancels, **SMALL).estimate("K").mean, plain, rtol=1e-12)
    with pytest.raises(mf.MeanFieldError, match=r"alpha is no symbol of 'z\*\*2', which has none but z"):
        mf.activation("z**2", alpha="beta")


@pytest.mark.parametrize("value", ["abc", None, [1, 2], 1j, float("nan"), True, {}, 10**400])
@pytest.mark.parametrize("verb", [mf.measure, mf.measure_criticality])
def test_numbers_of_an_ensembles_parameters_are_read_like_all_others(verb, value):
    record = mf.activation("swish", beta="beta")
    with pytest.raises(mf.MeanFieldError, match="beta must be"):
        verb(mf.derive(record), beta=value, **SMALL)


def test_parameters_of_an_ensemble_may_be_written():
    record = mf.activation("z*tanh(beta*z)", beta="beta")
    found = [mf.measure(mf.derive(record), beta=b, **SMALL).estimate("K").mean for b in ("sqrt(4)", 2)]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Max(log(z), exp(1e30)) - exp(1e-6)", "no double holds"),
        ("sin(exp(1e30))*z", "no double holds"),
        ("exp(z*exp(1e30))", "no double holds"),
        ("Max(z, exp(-exp(1e30)))", "no double holds"),
        ("Max(asinh(z), 1e30)", "digits would take too long"),
        ("(1e30*(1e-6 if z > 1e-6 else 1e30))**64", "coefficient that no double holds"),
        ("Min(log(-3 if z < 1e-6 else z), 1/z)", "not real"),
        ("(1e30*1e30*1e30*z)**64", "coefficient that no double holds"),
        ("exp(exp(Max(z, 1e30)))", "no double holds"),
    ],
)
def test_numbers_that_no_double_holds_are_refused_at_once(text, says):
    before = time.process_time()
    with pytest.raises(mf.MeanFieldError, match=says):
        mf.activation(text)
    assert time.process_time() - before < 5


def test_formulas_that_took_minutes_are_read():
    before = time.process_time()
    assert len(mf.activation("Max(z**64, 0.5 - z)").kinks) == 2
    assert len(mf.activation("tanh(z if z > 1e30 else -3)").kinks) == 1
    assert mf.derive("erf(z)**64").recursion("K").doit()
    assert time.process_time() - before < 10


def test_large_integers_are_compiled_as_doubles():
    run = mf.derive("Max(z, 1e6)**2").propagate(sigma_w=1.1, sigma_b=0.3, depth=2)
    assert run.values["K"][1] == pytest.approx(1.21e24, rel=1e-3)
    with pytest.raises(mf.MeanFieldError, match="beyond 1e308"):
        mf.derive("(1e30*z)**6").propagate(sigma_w=1, sigma_b=0, depth=2)


def test_ranges_of_bounded_activations_spare_integrals():
    """1/9 ≤ φ² ≤ 1: the map meets K between 4/9 and 4 only."""
    expr = 4 * mf.average(1 / (2 + sp.cos(z)) ** 2, K) - K
    assert [rough_sign(expr, sp.Rational(k), sp.Rational(k)) for k in ("0.4", "0.5", "3.9", "4.1")] == [1, 0, 0, -1]
    assert rough_sign(expr, sp.Rational("0.4"), sp.Rational("4.1")) == 0  # a planted range that holds the zero
    assert rough_sign(expr, sp.Integer(5), sp.Integer(10**4)) == -1


def test_spherical_bessel_functions_of_a_panel():
    x = np.concatenate([np.linspace(0.1, 60, 300), np.logspace(2, 9, 40)])
    expected = special.spherical_jn(np.arange(24)[:, None], x)
    np.testing.assert_allclose(oscillatory_integrands._spherical(24, x), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("progress", [int, len, lambda done: None, 3])
def test_progress_that_takes_no_two_numbers_is_refused(progress):
    with pytest.raises(mf.MeanFieldError, match="progress must be"):
        mf.measure_criticality("tanh", progress=progress, **SMALL)
    mf.measure("tanh", progress=lambda done, networks: None, **SMALL)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sin(1e36 if z > 0 else 1e-6 / z)", "oscillates there"),
        ("sigmoid(pi**64) if z < 0.5 else tanh(pi**64)", "could not be told apart"),
    ],
)
def test_breaks_that_are_no_limit_or_too_close(text, says):
    with pytest.raises(mf.MeanFieldError, match=says):
        mf.derive(text).recursion("K", "J")


def test_a_saturated_constant_has_a_parity_at_once():
    """tanh(10^6 + 1) is 1 to 800 000 digits, and is not 1."""
    before = time.process_time()
    assert mf.activation("Max(tanh(1e6 + 1), sign(z))").parity is None
    assert mf.activation("Max(tanh(2), z**2)").parity == 1
    assert time.process_time() - before < 5


def test_names_beyond_ascii_are_typeset():
    assert r"\mu^{2}" in mf.derive("linear", mu="μ").recursion("K").latex()
    assert r"\text{é}" in mf.derive("linear", mu="é").latex()


def test_high_powers_of_waves_are_left_as_they_are():
    before = time.process_time()
    assert len(mf.activation("cos(2 if z < 0.5 else z)**64").kinks) == 1
    assert time.process_time() - before < 5


def test_what_cannot_be_described_is_no_progress():
    class Unprintable:
        def __repr__(self):
            raise RuntimeError("no text")

    with pytest.raises(mf.MeanFieldError, match="progress must be a function"):
        mf.measure_criticality("tanh", sigma_w=1, sigma_b=0, progress=Unprintable())
