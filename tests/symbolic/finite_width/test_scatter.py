"""How log J scatters over networks: correlators of J against networks that NumPy multiplies, and in closed form."""

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.finite_width.correlator_recursions import correlator_recursion
from meanfield.tuning.recommendation.fluctuation import of_log_J

PHI = {  # φ and φ′ of their own
    "relu": (lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "sin": (np.sin, np.cos),
}


def of_networks(phi: str, place: tuple[float, float, float], depth: int, width: int, count: int) -> np.ndarray:
    """log J^{1,L} of networks z^{l+1} = σ_w W φ(z^l)/√n + σ_b b that start from z¹ with N(0, K¹) entries, exact."""
    (f, slope), (w, b, K1), found = PHI[phi], place, []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        z, T = math.sqrt(K1) * rng.standard_normal(width), np.eye(width)
        for _ in range(depth - 1):
            W = w * rng.standard_normal((width, width)) / math.sqrt(width)
            z, T = W @ f(z) + b * rng.standard_normal(width), W @ (slope(z)[:, None] * T)
        found.append(math.log((T * T).sum() / width))
    return np.array(found)


def derived(phi: str, place: tuple[float, float, float], depth: int) -> tuple[float, float]:
    """(A_J, J1_J) at layer `depth`, by exact iteration."""
    w, b, K1 = place
    recursion = correlator_recursion(phi, quantities=("J1", "A_J"))
    last = recursion.iterate({"sigma_w": w, "sigma_b": b, "Q0": (K1 - b * b) / (w * w)}, depth, 15)[-1]
    return float(last["A_J"]), float(last["J1_J"])


def test_relu_in_closed_form():
    """A neuron of the next layer is on or off, J' a mean over n of them: n Var(J'/J) grows by ⟨φ′⁴⟩/⟨φ′²⟩² − 1 = 1."""
    recursion = correlator_recursion("relu", quantities=("A_J",)).doit()
    assert recursion.names[-1] == "A_J" and sp.expand(recursion.step[-1] - recursion.state[-1].symbol) == 1


@pytest.mark.slow_with("softsign-place1")
@pytest.mark.parametrize(
    ("phi", "place"), [("tanh", (1.3, 0.2, 1.0)), ("softsign", (1.1, 0.0, 1e-9)), ("relu", (1.4, 0, 1e-30))]
)
def test_short_tables_hold_every_k_of_a_run(phi, place):
    """Tables of A_J and J1 are made around the K that are met alone: against exact iteration; one cut short is seen."""
    block = mf.derive(phi).block
    A, J1 = derived(phi, place, 6)
    _, shift, variance = of_log_J(block, place, 6)
    assert variance == pytest.approx(A, rel=1e-10) and shift + variance / 2 == pytest.approx(J1, rel=1e-10, abs=1e-12)


def test_a_table_that_is_too_short_is_wrong():
    recursion = correlator_recursion("tanh", quantities=("J1", "A_J"))
    given = {"sigma_w": 1.3, "sigma_b": 0.2, "depth": 6, "start": {"K": 1.0}}
    right = propagate(recursion, **given).values["A_J"][-1]
    assert propagate(recursion, **given, span=(2.0**-16, 2.0**16)).values["A_J"][-1] == pytest.approx(right, rel=1e-13)
    assert propagate(recursion, **given, span=(2.0**8, 2.0**16)).values["A_J"][-1] != pytest.approx(right, rel=1e-3)


@pytest.mark.slow
def test_the_answer_says_how_it_was_found():
    found = mf.recommend("relu", depth=50, width=500, networks=0)
    assert found.spread.source == "derived" and found.spread.sd == pytest.approx(math.sqrt(49 / 500), rel=1e-12)
    assert mf.recommend("relu", architecture="preln", depth=10, width=50, networks=4).spread.source == "measured"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phi", "place"), [("relu", (1.4, 0.0, 1.0)), ("tanh", (1.3, 0.2, 1.0)), ("sin", (1.2, 0.3, 0.8))]
)
def test_the_variance_of_log_J(phi, place):
    """n Var log J of two widths, extrapolated in 1/n, is A_J within 4 standard errors; half of it, or one layer more,
    is not. The means are those of J1 and A_J."""
    depth, count = 4, 12_000
    A, shift = derived(phi, place, depth)
    runs = {n: of_networks(phi, place, depth, n, count) for n in (24, 48)}
    scaled = {n: (n * x.var(ddof=1), n * x.var(ddof=1) * math.sqrt(2 / count) * 1.2) for n, x in runs.items()}
    found = 2 * scaled[48][0] - scaled[24][0]
    error = math.hypot(2 * scaled[48][1], scaled[24][1])
    assert abs(found - A) <= 4 * error and abs(found - A / 2) > 4 * error
    bias = {n: n * (x.mean() - _wide(phi, place, depth)) for n, x in runs.items()}
    noise = math.hypot(*(f * n * runs[n].std(ddof=1) / math.sqrt(count) for n, f in ((48, 2), (24, 1))))
    assert abs(2 * bias[48] - bias[24] - (shift - A / 2)) <= 4 * noise


def _wide(phi: str, place: tuple[float, float, float], depth: int) -> float:
    w, b, K1 = place
    return float(mf.derive(phi).propagate(sigma_w=w, sigma_b=b, depth=depth, start={"K": K1}).log_J[-1])
