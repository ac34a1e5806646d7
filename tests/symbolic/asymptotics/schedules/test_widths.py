"""Widths for which squared gradients per neuron stay bounded: by a loop of its own, by finite networks, at large depth.
"""

import json
import math
import random

import numpy as np
import pytest
import sympy as sp
from scipy.special import expit

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.cli.app import main
from tests.oracles.flow import follow
from tests.symbolic.asymptotics.schedules.test_full_residual import by_hand
from tests.symbolic.asymptotics.schedules.test_phase_tables import tables

LOOPS = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: np.sqrt(np.heaviside(z, 0.5))),
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z))),
}
A = 4 / (3 * math.sqrt(math.pi))  # log J ~ A √l of tanh, all σ 1


def full(phi, **given):
    return mf.derive(phi, architecture="full_residual", **{"sigma_v": 1, "sigma_a": 1} | given)


def assert_bounded(widths, G, factor):
    """Squared gradients per neuron, G^l N_L/N_l, are within a factor of each other."""
    per_neuron = np.asarray(G) * widths[-1] / np.asarray(widths, dtype=float)
    if not per_neuron.max() <= factor * per_neuron.min() * (1 + 1e-6):
        raise AssertionError(f"max/min is {per_neuron.max() / per_neuron.min()}, not {factor}")


# ------------------------------------------------------------------------------------------------------ any φ, any β


@pytest.mark.slow_with("silu")
@pytest.mark.parametrize("phi", LOOPS)
def test_any_schedule_of_variances_keeps_the_factor(phi):
    """J by a loop that shares nothing with the engine; an entry doubled, and no change of width, fail."""
    draw = random.Random(4)
    for _ in range(3):
        beta = {k: draw.choice([0, 0.25, 0.5, 1]) for k in "wbva"}
        sigma = {k: draw.choice([0.5, 1, 1.5]) for k in "wbva"}
        factor = draw.choice([1.6, 2, 3])
        theory = full(phi, sigma_v=sigma["v"], sigma_a=sigma["a"], **{f"beta_{k}": v for k, v in beta.items()})
        found = theory.width_schedule(
            width=1 << 22, depth=25, sigma_w=sigma["w"], sigma_b=sigma["b"], factor=factor, multiple=4
        )
        _, G, _, _ = by_hand(*LOOPS[phi], 25, sigma, beta, 1.0)
        assert_bounded(found.widths, G, factor)
        assert found.widths[0] == 1 << 22 and all(isinstance(n, int) and n % 4 == 0 for n in found.widths)
        assert np.isclose(found.spread, found.chi.max() / found.chi.min(), rtol=1e-12) and found.spread < factor + 1e-9
        if found.projections:
            wrong = list(found.widths)
            wrong[found.projections[0] - 1] *= 4
            for widths in (wrong, [1] * 25):
                with pytest.raises(AssertionError, match="max/min is"):
                    assert_bounded(widths, G, factor)


def test_widths_grow_where_gradients_vanish():
    """tanh without a skip: J falls below the edge of chaos and grows above; either end may be fixed."""
    for sigma_w, falls in (("0.8", False), ("1.5", True)):
        for fixed in ("first", "last"):
            found = mf.derive("tanh").width_schedule(
                width=4096, depth=12, sigma_w=sigma_w, sigma_b=0, factor="3/2", fixed=fixed
            )
            G = mf.derive("tanh").propagate(sigma_w=float(sigma_w), sigma_b=0, depth=12, quantities=("G_z",)).G_z
            assert_bounded(found.widths, G, 1.5)
            assert (found.widths[0] > found.widths[-1]) == falls
            assert found.widths[0 if fixed == "first" else -1] == 4096


def fewest(intervals) -> int:
    """Changes of width at least: every cut of the layers into runs, by dynamic programming."""
    best = [0]
    for end in range(1, len(intervals) + 1):
        runs = [intervals[start:end] for start in range(end)]
        fits = [max(a for a, _ in run) <= min(b for _, b in run) for run in runs]
        best.append(min(best[start] + 1 for start in range(end) if fits[start]))
    return best[-1] - 1


def test_there_are_no_schedules_with_fewer_changes():
    for phi, beta in (("tanh", 0), ("relu", "1/2"), ("silu", "1/4")):
        theory = full(phi, beta_v=beta)
        found = theory.width_schedule(width=3000, depth=40, sigma_w=1, sigma_b=1, factor="5/2")
        rise = found.log_G - found.log_G[0]
        ends = [(math.ceil(3000 * math.exp(x) - 1e-9), math.floor(3000 * 2.5 * math.exp(x) + 1e-9)) for x in rise]
        ends[0] = (3000, 3000)
        assert len(found.projections) == fewest(ends)


def test_the_printed_rule_of_tanh():
    """[variance_variation] Sec. 6, read as it is printed, makes widths grow; the other way round it bounds χ."""
    found = full("tanh").width_schedule(width=1 << 20, depth=101, sigma_w=1, sigma_b=1, factor=math.exp(A))
    layers = np.arange(101)
    fewer = np.array([sum(k * k <= layer for k in range(1, 11)) for layer in layers])
    corrected, printed = (np.exp(found.log_profile(np.exp(sign * A * fewer))) for sign in (-1, 1))
    assert abs(corrected.min() - 0.4895) < 2e-4 and abs(corrected.max() - 1.0139) < 2e-4
    assert printed.max() / printed.min() > found.spread_of_one_width**1.9
    assert found.spread <= math.exp(A) and len(found.projections) <= 10


# ---------------------------------------------------------------------------------------------------------- networks


def per_neuron(theory, widths, networks, **at):
    """(measured, its standard error, theory) of χ^l/χ^1: what every network has per neuron, over that of layer 1."""
    depth = len(widths)
    run = mf.measure(theory, **at, width=widths, depth=depth, networks=networks, quantities=("G_z",))
    found, share = run.estimate("G_z"), widths[-1] / np.asarray(widths, dtype=float)
    G = theory.propagate(**at, depth=depth, quantities=("G_z",)).G_z
    return found.mean * share, found.standard_error * share, G * share


@pytest.mark.slow
def test_networks_of_the_widths_have_flat_gradients():
    theory, at = full("tanh", sigma_a="1/2"), {"sigma_w": 1.2, "sigma_b": 0.3}
    made = theory.width_schedule(width=256, depth=9, factor=1.6, multiple=16, **at)
    assert len(made.projections) >= 2 and made.spread <= 1.6 < 3 < made.spread_of_one_width
    report = mf.check(theory, **at, width=made.widths, depth=9, networks=60, quantities=("G_z",))
    assert report.passed, str(report)
    flat, error, exact = per_neuron(theory, made.widths, 60, **at)
    assert np.allclose(exact, made.chi, rtol=1e-12)
    finite = 1 + 9 / min(made.widths)  # what a width of n adds is of order l/n
    assert (flat - 4 * error).max() <= 1.6 * finite * (flat + 4 * error).min()
    equal, error, _ = per_neuron(theory, (256,) * 9, 60, **at)
    assert (equal - 4 * error).max() > 1.6 * finite * (equal + 4 * error).min()


# ------------------------------------------------------------------------------------------------------- large depth

LAWS = [  # φ, β_v, β_w, β_a, factor, level, log l, how far log l may be off (level 0) or its share (level 1)
    ("tanh", 0, 0, 0, "exp(4/(3*sqrt(pi)))", 0, 200.0, 1e-3),
    ("tanh", "1/2", "1/4", 1, 2, 0, 400.0, 1e-3),
    ("relu", "1/2", "1/2", 0, 2, 0, 1000.0, 1e-3),
    ("relu", "1/2", "1/4", 0, 3, 0, 200.0, 1e-3),
    ("gelu", "1/4", "1/4", 0, 2, 0, 100.0, 1e-3),
    ("softsign", 0, 0, 0, 2, 0, 200.0, 1e-3),
    ("tanh", 1, 0, 1, 2, 1, 1e5, 0.03),
]


def assert_due(law, number: float, t: float, most: float, factor: float = 1.0) -> None:
    """The change of this number is due at log l = t; factor: of what the law says about l, or about log l."""
    n = sp.Symbol("n", positive=True)
    said = law.expr.subs(n, sp.Float(number, 30)) * factor
    value = float(sp.N(sp.log(said) if law.level == 0 else said))
    off = abs(value - t) if law.level == 0 else abs(value / t - 1)
    if not off < most:
        raise AssertionError(f"change {number} is due at log l = {t}, not {value}")


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "v", "w", "a", "factor", "level", "t", "most"), LAWS)
def test_where_changes_are_due(phi, v, w, a, factor, level, t, most):
    """log J at log l by the flow; l off by 1 % (log l by 10 %), and n^0.02 more, fail."""
    law = full(phi, beta_v=v, beta_w=w, beta_a=a).projection_law(sigma_w=1, sigma_b=1, factor=factor)
    assert (law.level, law.direction) == (level, -1)
    beta = np.array([float(sp.Rational(v)), float(sp.Rational(w)), float(a), 0.0])
    ((_, _, log_J),) = follow(*tables(phi), np.ones(4), beta, 1.0, np.array([t]), 0.05 if t < 2000 else 0.25)
    number = log_J / math.log(float(sp.N(sp.sympify(factor))))
    assert_due(law, number, t, most)
    for wrong in (1.01 if level == 0 else 1.1, number**0.02):
        with pytest.raises(AssertionError, match="is due at"):
            assert_due(law, number, t, most, wrong)


def test_changes_of_a_power_law_are_due_where_J_is():
    """ReLU at β_v = β_w = 1/2: J = 2√(l/π) doubles for the ninth time at 4⁹π/4, by running all layers before it."""
    theory = full("relu", beta_v="1/2", beta_w="1/2")
    law = theory.projection_law(sigma_w=1, sigma_b=1, factor=2)
    log_J = theory.propagate(sigma_w=1, sigma_b=1, depth=250_000, quantities=("J",)).log_J
    l = int(np.argmax(log_J >= 9 * math.log(2))) + 1
    assert_due(law, 9, math.log(l), 1e-3)
    with pytest.raises(AssertionError, match="is due at"):
        assert_due(law, 9, math.log(l), 1e-3, 1.01)


def test_the_rule_of_tanh_emerges():
    law = full("tanh").projection_law(sigma_w=1, sigma_b=1, factor="exp(4/(3*sqrt(pi)))")
    assert sp.simplify(law.expr - sp.Symbol("n", positive=True) ** 2) == 0
    assert str(law).startswith("l_n ~ n**2, N divided by exp(4/(3*sqrt(pi))) at each")
    chaotic = mf.derive("tanh").projection_law(sigma_w=2, sigma_b=0)
    assert abs(chaotic.expr.coeff(sp.Symbol("n", positive=True)) - 3.2315559143 * math.log(2)) < 1e-8
    ordered = mf.derive("tanh").projection_law(sigma_w="1/2", sigma_b=0)
    assert ordered.direction == 1 and "multiplied" in str(ordered)
    assert mf.derive("relu").projection_law(sigma_w="sqrt(2)", sigma_b=0).direction == 0
    slow = full("tanh", beta_v=1, beta_a=1).projection_law(sigma_w=1, sigma_b=1)
    assert slow.level == 1 and str(slow).startswith("log l_n")


# --------------------------------------------------------------------------------------------------------- the answer


def test_a_schedule_prints_and_reads():
    theory = full("tanh", expand="3/2")
    found = theory.width_schedule(width=2048, depth=60, sigma_w=1, sigma_b=1)
    assert all(len(line) <= 79 for line in str(found).splitlines()) and "WidthSchedule(60 layers" in repr(found)
    assert all(n % 2 == 0 for n in found.widths) and found.inner_widths[0][0] == 3 * found.widths[1] // 2
    assert found.spread <= 2 and np.isclose(found.chi[-1], 1) and len(found.layers) == 60
    deep = mf.derive("tanh").width_schedule(width=1 << 24, depth=40, sigma_w=2, sigma_b=0)
    assert deep.spread <= 2 < 1e4 < deep.spread_of_one_width


def test_bad_input_is_a_sentence():
    theory = full("tanh")
    fine = {"width": 64, "depth": 20, "sigma_w": 1, "sigma_b": 1}
    for wrong, words in (
        ({"depth": 2000}, "there is no whole number"),
        ({"factor": 1}, "factor must be a number > 1"),
        ({"factor": 1.001}, "no whole number"),
        ({"width": 0}, "width must be a whole number"),
        ({"fixed": "middle"}, "first"),
        ({"multiple": 5}, "multiples of 5"),
        ({"sigma_w": [1, 2]}, "one network"),
        ({"sigma_q": 1}, "sigma_q"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            theory.width_schedule(**fine | wrong)
    with pytest.raises(MeanFieldError, match="Projection"):
        mf.derive("tanh", residual=True).width_schedule(**fine)
    with pytest.raises(MeanFieldError, match="infinite"):
        mf.derive("step").width_schedule(**fine)
    with pytest.raises(MeanFieldError, match="is 0"):
        mf.derive("tanh").width_schedule(**fine | {"sigma_w": 0})
    with pytest.raises(MeanFieldError, match="not finite"):
        mf.derive("z**3").width_schedule(**fine | {"sigma_w": 9})
    with pytest.raises(MeanFieldError, match="give it a number"):
        full("tanh", expand="r").width_schedule(**fine)
    with pytest.raises(MeanFieldError, match="factor must be"):
        theory.projection_law(sigma_w=1, sigma_b=1, factor="1/2")
    with pytest.raises(MeanFieldError, match="give them numbers"):
        full("tanh", beta_v="beta_v").projection_law(sigma_w=1, sigma_b=1)


def test_on_the_command_line(capsys):
    line = ["widths", "tanh", "--architecture", "full_residual", "--param", "sigma_v=1", "--param", "sigma_a=1"]
    line += ["--width", "1024", "--depth", "30"]
    place = ["--sigma-w", "1", "--sigma-b", "1", "--factor", "5/2"]
    with pytest.raises(SystemExit, match=r"^0$") as stop:
        main([*line, *place, "--json"])
    found = json.loads(capsys.readouterr().out)["results"]
    made = full("tanh").width_schedule(width=1024, depth=30, sigma_w=1, sigma_b=1, factor="5/2")
    assert not stop.value.code and found["widths"] == list(made.widths) and found["projections"] == [5, 12, 22]
    assert np.allclose(found["chi"], made.chi) and found["spread"] == made.spread
    with pytest.raises(SystemExit, match=r"^0$"):
        main([*line, *place])
    text = capsys.readouterr().out
    assert "22 …     30        83" in text and max(map(len, text.splitlines())) <= 79
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["widths", "tanh", "--residual", "--width", "64", "--depth", "9", *place])
    assert "Projection()" in capsys.readouterr().err


def test_the_number_of_changes_is_the_least():
    """Against the count that ranges of log J alone allow: groups of layers whose log J^{l,L} lies within the factor, as
    long as may be from the fixed end on. log J that turns (σ_w = 3, 3, .5, 1) had one change more."""
    from meanfield.numeric.run.layer_widths import width_schedule

    rng, met = np.random.default_rng(0), 0
    for _ in range(60):
        log_G = np.cumsum(rng.normal(size=12) / 2)
        log_G = log_G - log_G[-1]
        for fixed in ("first", "last"):
            along = log_G if fixed == "first" else log_G[::-1]
            changes, low, high = 0, along[0], along[0]
            for one in along:
                low, high = min(low, one), max(high, one)
                if high - low > math.log(2):
                    changes, low, high = changes + 1, one, one
            found = width_schedule(log_G, 1 << 12, 2.0, fixed, 1, ())
            assert len(found.projections) == changes and found.spread < 2.01
            met += found.widths[0 if fixed == "first" else -1] == 1 << 12
    assert met == 120, "control: the fixed end keeps its width"
    at = {"sigma_w": [3, 3, 0.5, 1], "sigma_b": 0, "layerwise": True}
    assert len(mf.derive("tanh").width_schedule(width=1000, depth=4, factor=2, **at).projections) == 1
