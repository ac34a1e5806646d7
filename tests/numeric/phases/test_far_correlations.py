"""Correlations where K grows without bound: φ's leading power stands for φ, by closed maps and by φ itself far out."""

from __future__ import annotations

import math

import pytest
import sympy as sp

import meanfield as mf
from meanfield.networks.records import mlp
from meanfield.numeric.phases import correlations as module
from meanfield.theory.depth_limits import inputs_apart
from meanfield.theory.queries import stored_answers
from meanfield.theory.queries.architecture_maps import Maps

FAR = {"sigma_w": 2, "sigma_b": "1/3"}


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch):
    monkeypatch.setattr(stored_answers, "LEAST", math.inf)


def ends(phi, **settings) -> list[tuple[float, float, str]]:
    found = mf.derive(phi, **settings).correlations(**FAR)
    assert found.message.startswith("K flows to ∞") and found.status is mf.Status.MEASURED and math.isnan(found.K)
    return [(p.c, p.slope, p.stability) for p in found]


def powers(a: float, b: float, p: int, c: float) -> float:
    """c′ of φ = a z^p for z > 0, b z^p for z < 0, p = 1 or 2, by the chance and moments of quadrants."""
    angle, root = math.acos(c), math.sqrt(1 - c * c)
    if p == 1:
        same, other = (root + (math.pi - angle) * c) / (2 * math.pi), (angle * c - root) / (2 * math.pi)
        return ((a * a + b * b) * same + 2 * a * b * other) / ((a * a + b * b) / 2)
    same = (3 * root * c + (math.pi - angle) * (1 + 2 * c * c)) / (2 * math.pi)
    other = (1 + 2 * c * c) / 2 - same
    return ((a * a + b * b) * same + 2 * a * b * other) / ((a * a + b * b) * 1.5)


@pytest.mark.slow_with("2*z**2+z if z>0 else z**2-1-2-1-2")
@pytest.mark.parametrize(
    ("phi", "a", "b", "p"),
    [("z**2+z", 1, 1, 2), ("z**2 if z>1 else 3*z", 1, 0, 2), ("2*z**2+z if z>0 else z**2-1", 2, 1, 2)],
)
def test_ends_are_those_of_the_leading_power(phi, a, b, p):
    """The zero of an elementary map of c by bisection, its slope by differences; φ itself at K = 1e26 the same."""
    low, high = 1e-9, 0.99
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if powers(a, b, p, middle) > middle else (low, middle)
    (one, steep, kind), (c, slope, other) = ends(phi)
    assert one == 1 and (kind, other) == ("unstable", "stable")
    assert steep == pytest.approx((1 - powers(a, b, p, 1 - 1e-8)) / 1e-8, abs=1e-5)
    assert c == pytest.approx(low, abs=1e-9)
    assert slope == pytest.approx((powers(a, b, p, low + 1e-5) - powers(a, b, p, low - 1e-5)) / 2e-5, abs=1e-6)
    assert abs(c - (low + 1e-6)) > 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["z**2+z", "max(z, 0) + 1", "abs(z) + z/2 + 1"])
def test_phi_itself_ends_there(phi, monkeypatch):
    """The route without the leading power; another power ends elsewhere."""
    found = ends(phi)
    monkeypatch.setattr(inputs_apart, "at_infinity", lambda *_: None)
    itself = ends(phi)
    assert [kind for *_, kind in found] == [kind for *_, kind in itself]
    for one, other in zip(found, itself):
        assert one[:2] == pytest.approx(other[:2], abs=2e-9)
    wrong = Maps(mlp(sp.Symbol("z") ** 4)).equal_norms.only("K", "K_ab", "distance", "J_ab")
    monkeypatch.setattr(inputs_apart, "at_infinity", lambda *_: wrong)
    assert any(abs(one[1] - other[1]) > 1e-3 for one, other in zip(ends(phi), itself))


@pytest.mark.slow_with("selu")
@pytest.mark.parametrize("phi", ["softplus", "elu", "selu", "mish"])
def test_usual_activations_take_no_quadrature(phi, monkeypatch):
    """They took 40 to 90 seconds, of averages at K = 1e26; now nothing of φ itself is lowered."""
    asked, lower = [], module.lower
    monkeypatch.setattr(module, "lower", lambda recursion: asked.append(recursion) or lower(recursion))
    theory = mf.derive(phi)
    assert ends(phi) == [(1.0, 1.0, "marginal")]
    own = theory.equal_norms.only("K", "K_ab", "distance", "J_ab")
    assert own not in asked and all("max" in str(one).lower() or "Piecewise" in str(one) for one in asked)


def test_what_phi_becomes():
    def limit(phi, **settings):
        found = inputs_apart.at_infinity(mf.derive(phi, **settings), {})
        return None if found is None else str(found.doit()["K"])

    relu = str(mf.derive("relu").recursion("K").doit()["K"])
    for phi in ("elu", "softplus", "mish", "gelu", "max(z, 0) + 1", "z if z>3 else tanh(z)"):
        assert limit(phi) == relu, phi
    assert limit("z**3 + z") == str(mf.derive("z**3").recursion("K").doit()["K"]) != relu
    assert limit("elu", residual=True) == str(mf.derive("relu", residual=True).recursion("K").doit()["K"])
    for phi in ("relu", "tanh", "z**2", "z + sin(z)", "z + sqrt(abs(z))", "exp(z)"):
        assert limit(phi) is None, phi
    assert limit("elu", norm="pre") is None and limit("elu", architecture="batchnorm_mlp") is None
