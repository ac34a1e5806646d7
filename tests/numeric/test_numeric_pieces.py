"""Pieces of the numbers behind the verbs: units of runs, tabulated averages, first layers with fourth cumulants."""

from __future__ import annotations

import math

import numpy as np
import pytest

import meanfield as mf
from meanfield.networks.records import Dense, Nonlinearity, Sequential
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.phases.phase_grids import compile_phase
from meanfield.numeric.run.vanishing import degree
from meanfield.tuning.network_gains.descent import through_network
from meanfield.tuning.network_gains.tune import _drive as drive

DEEP = 3000


@pytest.mark.parametrize(
    ("name", "power"),
    [("K", 1), ("Theta_ab", 1), ("D_J", 1), ("J", 0), ("norm_angle", 0), ("V", 2), ("A", 2), ("D", 2), ("F", 2),
     ("G1", 1), ("G_w[2]", 1), ("G_b[1]", 0), ("G_z", 0), ("nonsense", None)],
)  # fmt: skip
def test_powers_of_units(name, power):
    """What K → λK makes of a quantity: covariances λ, correlators of two of them λ², quotients nothing."""
    assert degree(name) == power


@pytest.mark.slow_with("0.5")
@pytest.mark.parametrize("correlation", [None, 0.5])
def test_runs_below_the_doubles_follow_the_same_layers(correlation):
    """ReLU with σ_w = 0.8 falls by 0.32 a layer, past 1e-308 at layer 622: J, and c of two inputs, go on as of σ_w =
    √2, whose K stays."""
    theory, more = mf.derive("relu"), {} if correlation is None else {"correlation": correlation}
    quantities = ("K", "J") if correlation is None else ("c",)
    low = theory.propagate(sigma_w=0.8, sigma_b=0, depth=DEEP, quantities=quantities, **more)
    held = theory.propagate(sigma_w="sqrt(2)", sigma_b=0, depth=DEEP, quantities=quantities, **more)
    if correlation is None:
        assert low.log_J == pytest.approx(math.log(0.32) * np.arange(DEEP), rel=1e-12)
        assert low.K[:600] == pytest.approx(0.64 * 0.32 ** np.arange(600), rel=1e-11) and low.K[-1] == 0
        assert held.log_J == pytest.approx(np.zeros(DEEP), abs=1e-10)
    else:
        assert low.c == pytest.approx(held.c, rel=1e-9)


@pytest.mark.parametrize(
    ("block", "count"),
    [
        (mf.networks.mlp("tanh"), 2),
        (mf.networks.mlp("relu"), 2),
        (Sequential((Nonlinearity("tanh"), Dense(), Nonlinearity("tanh"), Dense())), 2),
        (mf.networks.mlp("linear"), 0),
    ],
)
def test_averages_of_K_alone_are_tabulated(block, count):
    """⟨φ²⟩ and ⟨φ′²⟩ over K; those behind an inner Dense depend on σ's as well and are not."""
    recursion = mf.derive(architecture=block).one_input.only("K", "J")
    assert compile_phase(recursion).count == count


@pytest.mark.slow
def test_a_fourth_cumulant_of_the_first_layer():
    """⟨z_a² z_b²⟩ of uniform weights is that of a Gaussian and −6/5 σ_w⁴ Σ_j x_a² x_b²/N_0²; of φ = z² that is
    what K has more: G1 of layer 2 is n σ_w² times it."""
    x = np.array([[1.0, -2.0, 0.5], [0.25, 1.0, -1.0]])
    theory = mf.derive("z**2", weights="uniform")
    run = theory.correlators(x, depth=2, sigma_w=1.5, sigma_b=0.3, quantities="G1", input_ratio=2)
    expected = -1.2 * 1.5**6 * np.einsum("aj,bj->ab", x**2, x**2) / 3 / 2
    assert not run.G1[0].any() and run.G1[1] == pytest.approx(expected, rel=1e-12)


def test_a_gain_of_zero_leaves_the_other_slopes():
    """Of a branch that is shut every slope is finite, and that of any other gain is the central difference."""
    d, _ = drive(mf.architectures.preln("gelu", mu="1/2"), {}, 3, 6, 1.3, 0.2, 2, 1, 1.0, 2, 7)
    gains = d.gains.copy()
    gains[1, 0, 0] = 0.0
    slope = through_network(d, gains, 0, "JKL", 0.4)[1]
    assert np.isfinite(slope).all()
    for i in ((0, 0, 0), (2, 0, 0), (2, 0, 1)):
        e = np.zeros_like(gains)
        e[i] = 1e-5
        ends = [through_network(d, gains + s * e, 0, "JKL", 0.4)[0] for s in (1, -1)]
        assert slope[i] == pytest.approx((ends[0] - ends[1]) / 2e-5, abs=1e-6 * np.abs(slope).max())


@pytest.mark.slow_with("softsign-<lambda>")
@pytest.mark.parametrize("name, f", [("tanh", np.tanh), ("softsign", lambda z: z / (1 + abs(z)))])
def test_a_small_correlation_is_not_read_off_its_square(name, f):
    """⟨φφ⟩ ~ c⟨zφ⟩² of an odd φ; 1 - c² of doubles knows no c below 1e-8."""
    z = np.linspace(-12, 12, 240_001)
    slope = (f(z) * z * np.exp(-z * z / 2)).sum() * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    theory = mf.derive(name)
    c = np.array([-7e-9, 1.2e-8])
    start = {"K_aa": 1.0, "K_bb": 1.0, "K_ab": c}
    found = theory.propagate(sigma_w=1, sigma_b=0, depth=2, start=start, quantities=("K_aa", "K_bb", "K_ab"))
    off = [np.abs(found.K_ab[:, -1] - factor * c * slope**2) for factor in (1, 1.0001)]
    assert off[0].max() < 1e-15 < off[1].min()
    K = np.linspace(0.05, 5, 20 if name == "tanh" else 1)  # one in ten of them had c = 1e-8
    found = theory.propagate(sigma_w=1, sigma_b=0, depth=2, start={"K": K, "c": 0.0}, quantities=("K", "c", "distance"))
    assert np.abs(found.c).max() < 1e-14
    closeness = printing.interpret("def f(a, ab, b, s):\n    return _closeness(a, ab, b, s)\n", "f")
    for c in (0.0, 3e-9, 0.3, 0.70710678, 0.70710679, 0.999999, 1 - 1e-12):
        assert abs(closeness(4.0, -6 * c, 9.0, (1 - c) * (1 + c)) / (1 - c) - 1) < 1e-15
