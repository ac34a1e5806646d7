"""Hostile calls end in a sentence or an answer; the harness sees a planted TypeError, a hang, a NaN and a wrong shape.

MEANFIELD_FUZZ_CASES=100000 pytest tests/fuzz runs that many cases of every kind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from flint import acb

import meanfield as mf
from meanfield import balls

from .calls import VERBS, Call
from .judge import Finding, judge

ROOT = Path(__file__).parents[2]
CASES = {"verbs": 1500, "texts": 400, "lines": 150}


def assert_none(findings: list[Finding]) -> None:
    assert not findings, "\n".join(map(str, findings))


@pytest.mark.parametrize("kind", CASES)
def test_hostile_calls_end_in_sentences_or_answers(kind):
    cases = int(os.environ.get("MEANFIELD_FUZZ_CASES", CASES[kind]))
    command = [sys.executable, "-m", "tests.fuzz", "--kinds", kind, "--cases", str(cases), "--seed", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)  # a process of its own: memory is limited
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_hostile_formulas_through_the_whole_engine():
    command = [sys.executable, "-m", "tests.fuzz", "--kinds", "deep", "--cases", "60", "--seed", "20"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


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
        (lambda: mf.derive("x**2"), "the variable is z"),
        (lambda: mf.derive(architecture=mf.mlp("tanh"), weights="orthogonal"), "weights"),
        (lambda: mf.derive(architecture=mf.mlp("tanh"), alpha=1), "parameters"),
        (lambda: mf.derive("swish", beta=None), "beta"),
        (lambda: mf.derive("tanh", residual=True, mu="1e400"), "mu"),
        (lambda: mf.Sequential(3), "Sequential"),
        (lambda: mf.measure_criticality("tanh", sigma_w=1, sigma_b=[[1], [2, 3]], width=20), "sigma_b"),
        (lambda: mf.derive(architecture=TWICE).phase_diagram(sigma_w=(0, 1, 3), sigma_b=(0, 1, 3)), "a second Dense"),
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

    with pytest.raises(KeyboardInterrupt):
        balls.integral(integrand, acb(0), acb(1))
    assert len(seen) == 1
