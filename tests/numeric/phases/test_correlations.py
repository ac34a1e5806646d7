"""Fixed points of the correlation: their number from convexity, their place against iteration by another rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import erf

import meanfield as mf
from meanfield.numeric.phases import correlations as module


def iterated(phi, sigma_w2: float, sigma_b2: float, layers: int, c: float = 0.5, steps: int | None = None, nodes=301):
    """(K*, c*, slope at c*) by the trapezoid rule in sum and difference, c after `steps` layers at K*; slope by
    differences along the map."""
    x = np.linspace(-8.5, 8.5, nodes)
    w = np.exp(-(x**2) / 2)
    mean = np.outer(w / w.sum(), w / w.sum())
    K = sigma_w2 + sigma_b2
    for _ in range(layers):
        K = sigma_w2 * ((w / w.sum()) * phi(math.sqrt(K) * x) ** 2).sum() + sigma_b2

    def image(c):
        plus, minus = math.sqrt(K * (1 + c) / 2), math.sqrt(K * (1 - c) / 2)
        a, b = plus * x[:, None], minus * x[None]
        return (sigma_w2 * (mean * phi(a + b) * phi(a - b)).sum() + sigma_b2) / K

    for _ in range(layers if steps is None else steps):
        c = image(c)
    h = 1e-4
    return K, c, (image(c - 2 * h) - 8 * image(c - h) + 8 * image(c + h) - image(c + 2 * h)) / (12 * h)


@pytest.mark.parametrize(
    ("name", "phi", "sigma_w2", "sigma_b2"),
    [
        pytest.param("erf", erf, 6.0, 0.1, marks=pytest.mark.slow),
        pytest.param("tanh", np.tanh, 3.0, 0.1, marks=pytest.mark.slow),
        pytest.param("sin", np.sin, 4.0, 0.25, marks=pytest.mark.slow),
        pytest.param("z*sech(z)", lambda z: z / np.cosh(z), 9.0, 0.5, marks=pytest.mark.slow),
        pytest.param("tanh", np.tanh, 2.5, 0.1, marks=pytest.mark.slow),
        pytest.param("z*exp(-z**2)", lambda z: z * np.exp(-z * z), 12.0, 0.3, marks=pytest.mark.slow),
    ],
)
def test_against_iteration(name, phi, sigma_w2, sigma_b2):
    steps = 450 if sigma_w2 < 3 else 300 if sigma_w2 < 6 else 160
    K, c, slope = iterated(phi, sigma_w2, sigma_b2, 500, steps=steps, nodes=181)
    found = mf.derive(name).correlations(sigma_w=f"sqrt({sigma_w2})", sigma_b=f"sqrt({sigma_b2})")
    assert found.status is mf.Status.CERTIFIED and found[0].c == 1 and len(found) == 2
    one, inside = found
    assert one.stability == "unstable" and one.slope > 1 and inside is found.stable
    assert abs(found.K - K) < 1e-12 * K
    assert abs(inside.c - c) < 2e-12 and inside.error < 1e-10
    assert abs(inside.slope - slope) < 1e-9 and abs(inside.xi_c + 1 / math.log(slope)) < 1e-6
    assert not abs(inside.c * (1 + 1e-10) - c) < 2e-12  # the comparison has teeth


def places(found) -> list[tuple[float, str]]:
    return [(round(p.c, 9), p.stability) for p in found]


@pytest.mark.slow
def test_what_convexity_says():
    assert places(mf.derive("erf").correlations(sigma_w="0.9", sigma_b="sqrt(0.1)")) == [(1, "stable")]
    assert places(mf.derive("relu").correlations(sigma_w="sqrt(2)", sigma_b=0)) == [(1, "marginal")]
    odd = mf.derive("erf").correlations(sigma_w=2, sigma_b=0)
    assert places(odd) == [(1, "unstable"), (0, "stable"), (-1, "unstable")]
    assert "odd" in odd.message and "not odd" not in odd.message
    step = mf.derive("step").correlations(sigma_w="1.5", sigma_b="0.1")
    assert step[0].slope == math.inf and step[0].xi_c == 0 and step.stable.c == pytest.approx(0.793662469, abs=1e-9)
    normed = mf.derive("relu", norm="act").correlations(sigma_w=1.5, sigma_b=0)  # LayerNorm takes the mean away
    assert places(normed) == [(1, "unstable"), (0, "stable")]


@pytest.mark.slow
def test_a_constant_that_a_norm_takes_away():
    """sigmoid = 1/2 + tanh(z/2)/2: behind a LayerNorm without bias (x, -y) goes the way of (x, y)."""
    found = mf.derive("erfc(z)", norm="act").correlations(sigma_w=1.5, sigma_b=0)
    assert places(found) == [(1, "unstable"), (0, "stable"), (-1, "unstable")] and found.status is mf.Status.MEASURED
    alone = mf.derive("erfc(z)", norm="act").correlations(sigma_w=1.5, sigma_b="0.1")
    assert -1 not in [p.c for p in alone]


def test_the_map_of_step_is_known():
    """sgn-like φ: C(c) = (σ_w²(1/4 + asin(c)/2π) + σ_b²)/K, solved by bisection here."""
    w, b = 2.25, 0.01
    K, low, high = w / 2 + b, 0.0, 0.999
    for _ in range(200):
        c = (low + high) / 2
        low, high = (c, high) if (w * (0.25 + math.asin(c) / (2 * math.pi)) + b) / K > c else (low, c)
    found = mf.derive("step").correlations(sigma_w="1.5", sigma_b="0.1").stable
    assert abs(found.c - low) < 1e-13
    assert abs(found.slope - w / K / (2 * math.pi) / math.sqrt(1 - low**2)) < 1e-12


@pytest.mark.slow
def test_where_K_has_no_place():
    """ReLU's map of c does not know K without a bias: c → 1 by a power law. GELU becomes ReLU where K grows; where the
    way there decides, nothing is claimed."""
    for given in (dict(sigma_w=1, sigma_b=0), dict(sigma_w="sqrt(2.5)", sigma_b="sqrt(0.1)")):
        found = mf.derive("relu").correlations(**given)
        assert places(found) == [(1, "marginal")] and found.status is mf.Status.MEASURED and math.isnan(found.K)
        assert found.gamma == math.inf and found[0].xi_c == math.inf
    assert not mf.derive("relu").correlations(sigma_w=0, sigma_b=0).points
    far = mf.derive("gelu").correlations(sigma_w=2, sigma_b="0.1")
    assert places(far) == [(1, "marginal")] and far.status is mf.Status.MEASURED
    run = mf.derive("gelu").propagate(sigma_w=2, sigma_b=0.1, depth=500, correlation=0, quantities=("K", "gamma"))
    assert run.gamma[-1] / 500**2 == pytest.approx(2 / (9 * math.pi**2), rel=0.1)  # ReLU's law without a bias
    nothing = mf.derive("z*sech(z)", residual=True).correlations(sigma_w=1, sigma_b="0.1")
    assert not nothing.points and nothing.status is mf.Status.UNKNOWN and nothing.stable is None
    assert "propagate" in nothing.message and math.isnan(nothing.gamma)


def test_a_long_run_ends_there():
    theory = mf.derive("relu", norm="pre", mu="1/2", residual=True)
    found = theory.correlations(sigma_w=1.5, sigma_b=0.3)
    run = theory.propagate(sigma_w=1.5, sigma_b=0.3, depth=3000, correlation=-0.5, quantities=("c",))
    assert abs(run.c[-1] - found.stable.c) < 1e-9


def test_planted_errors_are_seen(monkeypatch):
    """A slope taken for that of another place, and a step that forgets K'/K."""
    right = mf.derive("step").correlations(sigma_w="1.5", sigma_b="0.1").stable
    old = module._Step.at

    def wrong(self, K, distance):
        ratio, grown, slope = old(self, K, distance)
        return ratio, grown + 1e-9, slope

    monkeypatch.setattr(module._Step, "at", wrong)
    assert abs(mf.derive("step").correlations(sigma_w="1.5", sigma_b="0.1").stable.c - right.c) > 1e-10


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (dict(sigma_w=-1, sigma_b=0), "sigma_w"),
        (dict(sigma_w=1), "sigma_b"),
        (dict(sigma_w=1, sigma_b=0, input_norm=0), "input_norm"),
        (dict(sigma_w=1, sigma_b=0, alpha=2), "alpha"),
    ],
)
def test_bad_input_gets_a_sentence(given, message):
    with pytest.raises(mf.MeanFieldError, match=message):
        mf.derive("tanh").correlations(**given)
    block = mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense(sigma_w=mf.Schedule(1, 1))))
    with pytest.raises(mf.MeanFieldError, match="layer"):
        mf.derive(architecture=block).correlations(sigma_w=1, sigma_b=0.1)


def assert_fixed_under_cos(found, sigma_w: float, sigma_b: float) -> None:
    """⟨cos z_a cos z_b⟩ = e^{-K} cosh(K c): K* and c* are kept."""
    K, c = found.K, found.stable.c
    second, product = math.exp(-K) * math.cosh(K), math.exp(-K) * math.cosh(K * c)
    assert abs(sigma_w**2 * second + sigma_b**2 - K) < 1e-13 * K, f"K* = {K} is not kept"
    assert abs(sigma_w**2 * product + sigma_b**2 - K * c) < 1e-12, f"c* = {c} is not kept"


@pytest.mark.slow
def test_opposite_inputs_of_an_even_oscillating_function():
    """They are the same from layer 2 on; what was left of their distance had a sign, which was called divergence."""
    theory = mf.derive("cos")
    found = theory.correlations(sigma_w="2.5", sigma_b="0.3")
    assert_fixed_under_cos(found, 2.5, 0.3)
    with pytest.raises(AssertionError, match="is not kept"):
        assert_fixed_under_cos(found, 2.5 * (1 + 1e-10), 0.3)
    K = np.linspace(3, 3.5, 40)
    run = theory.propagate(sigma_w=2.5, sigma_b=0.3, depth=2, start={"K": K, "c": -1}, quantities=("K", "distance"))
    assert (run.distance[:, 1] >= 0).all() and (run.distance[:, 1] < 1e-13).all()
    start = {"K": 3.2, "c": -1 + 1e-6}
    near = theory.propagate(sigma_w=2.5, sigma_b=0.3, depth=2, start=start, quantities=("distance",))
    exact = 12.5 * math.exp(-3.2) * 2 * math.sinh(3.2 * (1 - 5e-7)) * math.sinh(3.2 * 5e-7)
    assert abs(near.distance[1] / exact - 1) < 1e-9  # and what is not 0 is not cut off


class Parabola:
    """C(c) = a + (1 - a) c² with rounding: what a layer at fixed K does, as `_inside` asks for it."""

    error = 1e-15

    def __init__(self, a: float, noise: float = 7e-17):
        self.a, self.noise = a, noise

    def excess(self, K: float, gap: float) -> float:
        return math.log((1 - self.a) * (2 - gap)) - self.noise

    def slope(self, K: float, gap: float) -> float:
        return 2 * (1 - self.a) * (1 - gap) + self.noise

    slope_at_zero = module._Step.slope_at_zero


def test_a_flat_map_at_0_has_the_slope_0():
    flat = module._inside(Parabola(0.0), 1.0, False)
    assert (flat.c, flat.slope, flat.xi_c) == (0.0, 0.0, 0.0)
    for a in (1e-9, 1e-3):  # control: c = a + (1 - a) c² at c = a/(1 - a), a slope that floats see
        seen = module._inside(Parabola(a), 1.0, False)
        assert seen.slope == pytest.approx(2 * a, rel=1e-6) and seen.xi_c > 0.04
        assert seen.c == pytest.approx(a / (1 - a), rel=1e-6)
