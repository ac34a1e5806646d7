"""What a check adds for finite width from the theory of order 1/n: where it comes from, its size, its next order."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.comparison import checked_networks
from meanfield.comparison.finite_width_allowance import FiniteWidthCorrections, corrections
from meanfield.functions.activations import activation
from meanfield.numeric.finite_width.pair_corrections import pair_corrections
from meanfield.symbolic.finite_width.correlator_maps import correlator_map, in_averages
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b

PLAIN, SKIP = mf.derive("tanh"), mf.derive("tanh", residual=True)
AT = dict(sigma_w=1.2, sigma_b=0.1)


# ---------------------------------------------------------------------------------------------------- two inputs


def by_maps(phi: str, start: dict, C: float, b: float, depth: int) -> dict[str, list[float]]:
    """K, V and G1 of two inputs by the maps that words and pairings give, with closed forms."""
    names = {correlator("K", i): ("K", i) for i in product((0, 1), repeat=2)}
    names |= {correlator("G1", i): ("G1", i) for i in product((0, 1), repeat=2)}
    names |= {correlator("V", i): ("V", i) for i in product((0, 1), repeat=4)}
    maps = {
        s: in_averages(correlator_map(*name), activation(phi)).subs({C_W: C, C_b: b}).doit()
        for s, name in names.items()
    }
    state, found = {s: start.get(s, 0.0) for s in names}, []
    compiled = sp.lambdify(list(names), list(maps.values()), modules="math")
    for _ in range(depth):
        found.append([state[correlator("G1", i)] for i in ((0, 0), (0, 1), (1, 1))])
        state = dict(zip(names, compiled(*state.values())))
    return dict(zip(("K_aa", "K_ab", "K_bb"), np.array(found).T))


def assert_pairs(found, expected, tolerance=1e-10):
    for name, values in expected.items():
        assert np.allclose(found[name], values, rtol=tolerance, atol=tolerance), (
            f"{name} is {found[name]}, not {values}"
        )


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["z + z**2/4", pytest.param("relu", marks=pytest.mark.slow)])
def test_two_inputs_against_the_maps(phi):
    """G1_aa, G1_ab, G1_bb of different norms; of the other weights' V they differ."""
    C, b, depth = 0.8, 0.1, 3
    K = {correlator("K", (0, 0)): 1.0, correlator("K", (0, 1)): 0.3, correlator("K", (1, 1)): 0.6}
    run = mf.derive(phi).propagate(
        sigma_w=C**0.5, sigma_b=b**0.5, depth=depth, correlation=0, start={"K_aa": 1, "K_ab": 0.3, "K_bb": 0.6}
    )
    found = pair_corrections(activation(phi), run.K_aa, run.K_ab, run.K_bb, [C] * (depth - 1))
    expected = by_maps(phi, K, C, b, depth)
    assert_pairs(found, expected)
    with pytest.raises(AssertionError, match="K_ab is"):
        assert_pairs(found, expected | {"K_ab": 1.001 * expected["K_ab"]})


@pytest.mark.slow
def test_the_same_input_twice_and_inputs_that_are_too_close():
    run = PLAIN.propagate(**AT, depth=4, correlation=0.5)
    alone = PLAIN.propagate(**AT, depth=4, quantities=("V",))
    twice = pair_corrections(activation("tanh"), alone.K, alone.K * (1 - 1e-4), alone.K, [1.44] * 3)
    apart = pair_corrections(activation("tanh"), run.K_aa, run.K_ab, run.K_bb, [1.44] * 3)
    assert np.allclose(twice["K_ab"], twice["K_aa"], rtol=1e-2) and np.allclose(twice["K_aa"], apart["K_aa"])
    with pytest.raises(mf.MeanFieldError, match="too near to 1"):
        pair_corrections(activation("step"), [1.0, 1.0], [1 - 1e-9] * 2, [1.0, 1.0], [1.0])


# ------------------------------------------------------------------------------------------------------- reports


def test_allowances_of_a_report_are_those_of_the_theory(monkeypatch):
    """G1/n and J1/n, beside the networks of one width alone; with a skip, too."""
    widths, real = [], checked_networks.run_ensemble
    monkeypatch.setattr(checked_networks, "run_ensemble", lambda b, **g: widths.append(g["width"]) or real(b, **g))
    for theory in (PLAIN, SKIP):
        report = mf.check(theory, **AT, width=60, depth=5, networks=30, seed=1)
        run = theory.propagate(**AT, depth=5, quantities=("K", "J", "V", "G1", "J1") if theory is SKIP else ("V",))
        assert report.passed and "G1/n, J1/n, derived" in " ".join(report.notes)
        rows = {(r.quantity, r.layer): r for r in report.rows}
        for l in range(1, 6):
            assert rows["K", l].theory == pytest.approx(run.K[l - 1], rel=1e-14) and rows["J", l].theory == 1
            if theory is SKIP:
                assert rows["K", l].allowance == pytest.approx(run.G1[l - 1] / 60, rel=1e-10)
                assert rows["J", l].allowance == pytest.approx(run.normalized("J1")[l - 1] / 60, rel=1e-10)
        assert rows["K", 5].allowance < 0 and rows["J", 5].allowance > 0
    assert widths == [60, 60]
    report = mf.check(mf.derive("erf"), **AT, width=60, depth=4, networks=30, correlation=0.3)
    assert report.passed and widths == [60] * 3 and "K_aa, K_bb, K_ab: G1/n, derived" in " ".join(report.notes)


REFUSED = [
    (SKIP, dict(quantities=("K", "Theta")), "allowance of Theta not derived: of networks with a skip"),
    (mf.derive("tanh", norm="pre"), {}, "has a LayerNorm"),
    (mf.derive("tanh", residual=True, weights="orthogonal"), {}, "has other weights than Gaussian ones"),
    (PLAIN, dict(width=20), "8 layers of 20 neurons are too many"),
    (PLAIN, dict(width=[40] * 4 + [80] * 4), "layers have different widths"),
    (PLAIN, dict(sigma_w=0.0), "J is exactly 0"),
    (PLAIN, dict(quantities=("K", "J0"), input_dimension=5), "those of K, J and Theta of one input"),
    (PLAIN, dict(quantities=("K", "G_w")), "allowance of G_w not derived: those of K, J and Theta"),
    (mf.derive("relu"), dict(correlation=1), "at layer 1 their correlation 1 is too near to 1"),
    (SKIP, dict(correlation=0.3), "with a skip those of one input are"),
    (PLAIN, dict(quantities=("K_aa", "distance"), correlation=0.3), "K_aa, K_ab and K_bb together"),
]
LATE = [pytest.param(*case, marks=[pytest.mark.slow] * (i > 5), id=case[2][:24]) for i, case in enumerate(REFUSED)]


@pytest.mark.slow_with("allowance of Theta not d", "J is exactly 0")
@pytest.mark.parametrize(("theory", "more", "reason"), LATE)
def test_everything_else_is_measured_and_says_why(theory, more, reason):
    report = mf.check(theory, **(AT | dict(width=40, depth=8, networks=8, seed=2) | more))
    assert reason in " ".join(report.notes), report.notes
    assert all(len(line) <= 80 for line in str(report).splitlines())


def test_the_next_order_is_in_the_error():
    """r(r + l/n + s²), r the largest share so far."""
    values, size = np.array([0.0, 4.0, -2.0]), np.array([1.0, 2.0, 2.0])
    found = FiniteWidthCorrections({"K": (values, size)}).next_order("K", 10, np.array([0.0, 0.4, 0.04]))
    assert np.allclose(found, size * np.array([0.0, 0.2 * (0.2 + 0.2 + 0.1), 0.2 * (0.2 + 0.3 + 0.1)]))


# ------------------------------------------------------------------------------------------------------- networks


NARROW = [
    ("tanh", {}, (2.5, 0.2)),
    ("gelu", {}, (1.5, 0.1)),
    ("tanh", {"weights": "orthogonal"}, (1.2, 0.1)),
    ("tanh", {"residual": True}, (1.2, 0.1)),
    ("softplus", {}, (1.0, 0.1)),
]


def left_over(phi, kind, sigmas, width, depth, networks, sign=1.0):
    """(what networks have beyond theory + allowance, its error, what the next order was taken to be) of K and J."""
    theory, names = mf.derive(phi, **kind), ("K", "J")
    place = dict(sigma_w=sigmas[0], sigma_b=sigmas[1], depth=depth)
    run = theory.propagate(**place, quantities=names)
    derived = corrections(theory, run, names, (width,) * depth, place)
    result = mf.measure(theory, **place, width=width, networks=networks, quantities=names, seed=width)
    for name in names:
        one, unit = result.estimate(name), 1 if name == "K" else run.J
        mean, error = one.mean / unit, one.standard_error / unit
        rest = derived.next_order(name, width, networks * error**2)
        target = run.K if name == "K" else 1
        yield mean - target - sign * derived.of[name][0] / width, error, rest


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "kind", "sigmas"), NARROW)
def test_what_is_left_is_no_more_than_the_next_order(phi, kind, sigmas):
    """6 layers of 24 neurons: l/n at the limit of what a check derives."""
    for gap, error, rest in left_over(phi, kind, sigmas, 24, 6, 12000):
        assert (np.abs(gap) <= rest + 3.5 * error).all(), (gap, error, rest)


@pytest.mark.slow
def test_a_wrong_sign_of_the_allowance_fails():
    """Of 32 neurons, 4 layers: theory + allowance agrees, theory − allowance does not, nor the theory alone."""
    place = ("tanh", {"weights": "orthogonal"}, (1.2, 0.1), 32, 4, 12000)
    for sign, agrees in ((1.0, True), (-1.0, False), (0.0, False)):
        found = left_over(*place, sign)
        largest = [np.max(np.abs(gap[1:]) / np.hypot(error, rest)[1:]) for gap, error, rest in found]
        assert bool(max(largest) < 4) is agrees, (sign, largest)


def test_a_wrong_theory_still_fails(monkeypatch):
    """σ_w of the networks 2 % off, allowances derived; a factor of the correlators' size hides nothing."""
    real = checked_networks.run_ensemble
    monkeypatch.setattr(
        checked_networks, "run_ensemble", lambda b, **g: real(b, **(g | {"sigma_w": 1.02 * np.asarray(g["sigma_w"])}))
    )
    for theory in (PLAIN, SKIP):
        report = mf.check(theory, **AT, width=300, depth=8, networks=150, seed=4, quantities=("K",))
        assert not report.passed and "derived" in report.notes[0], str(report)


def test_corrections_that_are_not_small_are_not_used():
    theory = mf.derive("z + z**2/3")
    found = corrections(theory, theory.propagate(sigma_w=1, sigma_b=0.1, depth=4), ("K", "J"), (32,) * 4, {})
    assert not found.of and "J1/n is 0.51 of J, which is not small" in found.reasons["J"]
