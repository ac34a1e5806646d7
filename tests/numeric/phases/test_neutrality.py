"""Lines in the (σ_w, σ_b) plane read at a given σ_b: the critical one, and where the correlation settles at ½."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from tests.numeric.phases.test_correlations import iterated


def assert_neutral(phi, sigma_w2: float, sigma_b2: float, c: float = 0.5) -> None:
    """K iterated by the trapezoid rule, and c from there on for 20 layers, stays at c."""
    _, found, _ = iterated(phi, sigma_w2, sigma_b2, 400, c, steps=20)
    assert abs(found - c) < 1e-9, f"c* = {found}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "phi"), [("erf", erf), ("tanh", np.tanh)])
def test_the_line(name, phi):
    line = mf.derive(name).neutrality_line()
    ((sigma_w, K),) = line.sigma_w_at("sqrt(0.1)")
    assert_neutral(phi, sigma_w.value**2, 0.1)
    with pytest.raises(AssertionError, match=r"c\*"):
        assert_neutral(phi, sigma_w.value**2 * (1 + 1e-7), 0.1)
    assert sigma_w.status is mf.Status.MEASURED and sigma_w.error < 1e-11
    again = line.at(K.value)
    assert again == pytest.approx((sigma_w.value, math.sqrt(0.1)), rel=1e-12)
    ((sigma_b, _),) = line.sigma_b_at(sigma_w.value)
    assert sigma_b.value == pytest.approx(math.sqrt(0.1), rel=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "phi", "c"), [("sin", np.sin, "1/2"), ("tanh", np.tanh, "4/5")])
def test_other_lines(name, phi, c):
    points = mf.derive(name).neutrality_line(correlation=c).sigma_w_at("0.5")
    assert points
    for sigma_w, _ in points:
        stable = mf.derive(name).correlations(sigma_w=str(sigma_w.value), sigma_b="0.5").stable
        if abs(stable.c - float(sp.Rational(c))) < 1e-6:
            assert_neutral(phi, sigma_w.value**2, 0.25, float(sp.Rational(c)))
            break
    else:
        pytest.fail("no point of the line is where K flows to")


def test_where_there_is_none():
    """ReLU's correlations always reach 1."""
    line = mf.derive("relu").neutrality_line()
    assert line.sigma_w_at("0.3") == ()
    with pytest.raises(mf.MeanFieldError, match="σ_b² ="):
        line.at(1)


@pytest.mark.slow
def test_small_biases():
    """erf: φ = 2/√π (z - z³/3 + …), so that the line leaves σ_w² = π/4 as the cube root of σ_b²."""
    line = mf.derive("erf").neutrality_line()
    excess = [line.sigma_w_at(b)[0][0].value ** 2 * 4 / math.pi - 1 for b in ("1e-4", "1e-5")]
    assert excess[0] / excess[1] == pytest.approx(100 ** (1 / 3), rel=0.02)


@pytest.mark.slow
def test_the_critical_line_at_a_bias():
    line = mf.derive("erf").critical_line()
    ((sigma_w, K),) = line.sigma_w_at("sqrt(0.1)")
    back = line.sigma_b_at(sigma_w.value)
    assert any(abs(float(b.value) - math.sqrt(0.1)) < 1e-12 for b, _ in back)
    w2, k = float(sigma_w.value) ** 2, float(K.value)
    assert abs(w2 * 4 / math.pi / math.sqrt(1 + 4 * k) - 1) < 1e-14  # χ_J = σ_w² ⟨φ′²⟩
    assert abs(w2 * 2 / math.pi * math.asin(2 * k / (1 + 2 * k)) + 0.1 - k) < 1e-14
    assert mf.derive("relu").critical_line().sigma_w_at("0.3")[0][0].value ** 2 == 2
    ((end, at), *_) = mf.derive("tanh").critical_line().sigma_w_at(0)
    assert end.value == 1 and at.value == 0 and end.status is mf.Status.EXACT
    assert mf.derive("relu", norm="pre").critical_line().sigma_w_at("0.3") == ()
    (ray,) = mf.derive("relu", norm="act").critical_line().sigma_w_at("0.3")
    assert float(ray[0].value) == pytest.approx(0.3 * math.sqrt(math.pi - 1), rel=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mf.derive("tanh", norm="pre").neutrality_line(), "one Dense"),
        (lambda: mf.derive("tanh", residual=True, mu="mu").neutrality_line(), "number for the skip"),
        (lambda: mf.derive("tanh").neutrality_line(correlation=1), "0 ≤ c < 1"),
        (lambda: mf.derive("tanh").neutrality_line().sigma_w_at(0), "sigma_b must be a number > 0"),
        (lambda: mf.derive("tanh").critical_line().sigma_w_at(-1), "sigma_b must be ≥ 0"),
        (lambda: mf.derive("relu", norm="pre").critical_line().sigma_w_at(0), "free"),
    ],
)
def test_bad_input_gets_a_sentence(call, message):
    with pytest.raises(mf.MeanFieldError, match=message):
        call()


@pytest.mark.fast_with("erf")
@pytest.mark.parametrize("name", ["tanh", "erf", "sin", "z - z**5/100", pytest.param("gelu", marks=pytest.mark.slow)])
def test_the_critical_line_at_small_biases(name):
    line = mf.derive(name).critical_line()
    law = line.near_zero(2)
    left = []
    for b2 in (sp.Rational(1, 10**6), sp.Rational(1, 10**9)):
        left.append(abs(float(line.sigma_w_at(sp.sqrt(b2))[0][0].value ** 2 - law.at(b2))))
    falls = math.log10(left[0] / left[1]) / 3
    assert falls > float(law.terms[-1].power) + 0.1, (falls, law.text())


@pytest.mark.slow
def test_the_lines_of_tanh_leave_the_origin_as_cube_roots():
    theory = mf.derive("tanh")
    cube = sp.Rational(1, 3)
    for line, inside in ((theory.critical_line(), sp.Rational(3, 4)), (theory.neutrality_line(), sp.Integer(2))):
        second = line.near_zero(2).terms[1]
        assert second.power == cube and sp.simplify(second.coefficient - 2 * inside**cube) == 0
    with pytest.raises(MeanFieldError, match="would need sigma_b"):
        mf.derive("gelu").neutrality_line().near_zero()
    with pytest.raises(MeanFieldError, match="has no parameter K"):
        mf.derive("relu").critical_line().near_zero()


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "sin"])
def test_the_neutrality_line_at_small_biases(name):
    line = mf.derive(name).neutrality_line()
    law = line.near_zero(3)
    for b2 in (sp.Rational(1, 10**5), sp.Rational(1, 10**6)):
        assert abs(line.sigma_w_at(sp.sqrt(b2))[0][0].value ** 2 - float(law.at(b2))) < 200 * float(b2)
