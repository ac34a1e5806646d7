"""At the derived critical points, explicit networks of finite width follow the theory layer by layer.

At a half-stable point the noise of finite width pushes K off it in the long run, so K^l and J^l are compared, not the
exponent.
"""

from __future__ import annotations

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, sigma_b, sigma_w

POINTS = {
    "z*erf(z)": 0,
    "tanh(z) - tanh(2*z)/8": 0,
    "silu": 1,
    "mish": 1,
    "sin": 0,
    "softsign": 0,
    "elu": 0,
    "hard_tanh": 0,
    "sin(z) + 2/sqrt(3)*(1 - cos(z))": 0,
}


FAST = ("silu", "softsign", "hard_tanh")  # one of each kind: smooth with K* > 0, an algebraic tail, kinks


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in FAST)) for n in POINTS])
def test_networks_at_the_critical_point(name):
    theory = mf.derive(name)
    point = theory.critical_points()[POINTS[name]]
    w, b = float(point.sigma_w.value), float(point.sigma_b.value)
    norm = (2.0 if point.K.value == 0 else float(point.K.value)) / w**2 - b**2 / w**2
    settings = dict(sigma_b=b, input_norm=norm, depth=10, width=300, networks=120)
    report = mf.check(theory, sigma_w=w, **settings)
    assert report.passed, str(report)
    off = theory.propagate(sigma_w=1.05 * w, sigma_b=b, input_norm=norm, depth=10, quantities=("K",))
    rows = [r for r in report.rows if r.quantity == "K"]
    assert max(abs(r.measured - off.K[r.layer - 1]) / r.standard_error for r in rows) > 4


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sin", "z*erf(z)"])
def test_measured_criticality_brackets_the_line(name):
    """χ from probes, without theory: above 1 on one side of the derived line, below 1 on the other."""
    line = mf.derive(name).critical_line()
    w, b = (float(s.value) for s in line.at(3))
    for factor, phase in ((0.93, "ordered"), (1.08, "chaotic")):
        found = mf.measure_criticality(name, sigma_w=factor * w, sigma_b=factor * b, width=200, depth=25, networks=60)
        assert found.phase == phase, str(found)


def test_relu_squared():
    """Degree 2, so no critical point, a line σ_b = √2/(4σ_w) of unstable fixed points."""
    theory = mf.derive("relu2")
    line = theory.critical_line()
    assert sp.simplify(line.sigma_b - sp.sqrt(2) / (4 * sigma_w)) == 0
    assert len(theory.critical_points()) == 0
    w = sp.Rational(9, 10)
    found = theory.fixed_points(sigma_w=w, sigma_b=line.sigma_b.subs(sigma_w, w))
    at_line = min(found, key=lambda p: abs(float(p.chi_J.value) - 1))
    assert abs(float(at_line.chi_J.value) - 1) < 1e-20 and at_line.stability == "unstable"
    step = theory.one_input["K"].subs({sigma_w: w, sigma_b: line.sigma_b.subs(sigma_w, w)})
    assert abs(sp.N(step.subs(K, at_line.K.value), 20) - at_line.K.value) < 1e-15
