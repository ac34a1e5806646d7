"""Tests of the oracle itself, run before it judges anything: exact values, honest errors, planted mistakes."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mpmath import mp, mpf

from tests import ROOT
from tests.oracles import gaussian_averages as oracles
from tests.oracles.activations import ACTIVATIONS, ARB, MPMATH
from tests.oracles.closed_forms import SLOPES
from tests.oracles.gaussian_averages import (
    NUMPY_TWINS,
    assert_close,
    assert_intervals_overlap,
    assert_reference,
    two_input_float,
)
from tests.oracles.quadrature import (
    PAIR_QUANTITIES,
    QUANTITIES,
    Settings,
    gauss_nodes,
    gaussian_density,
    one_input_quadrature,
    precision,
    two_input_quadrature,
)

ONE, TWO = oracles.load_one_input(), oracles.load_two_input()
THIRD = Settings(ARB, 54, 52, 0.35, 1.7, 1.1, 16.5)
CORRELATIONS = (-1.0, -0.9, 0.0, 0.3, 0.9, 1 - 1e-6, 1.0)
PLACES = (-41.0, -7.3, -3.4, -1.7, -0.6, -1e-5, 1e-5, 0.4, 0.9, 2.6, 3.3, 5.5, 8.1, 41.0)


def assert_consistent_file(references: dict[tuple[Any, ...], oracles.Reference], limit: float) -> None:
    """Check that every finite reference has an error below ``limit`` times its scale."""
    for key, r in references.items():
        assert mp.isinf(r.value) or 0 <= r.error <= max(limit * r.scale, oracles.FLOOR), key


def recomputed(name: str, K: float, settings: Settings = THIRD) -> dict[str, Any]:
    """Values of a third quadrature, run with other panels, order and precision than the file's two."""
    return one_input_quadrature(ACTIVATIONS[name], K, settings).values


# --- the rules and the formulas ------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", [MPMATH, ARB], ids=["mpmath", "arb"])
def test_nodes_integrate_polynomials(backend: Any) -> None:
    with precision(40):
        rule = gauss_nodes(backend.name, 12, 40)
        for power in (0, 2, 14, 22):
            total = sum((w * x**power for x, w in rule), backend.num(0))
            assert_close(f"x^{power}", backend.to_mpf(total)[0], mpf(2) / (power + 1), mpf(10) ** -37)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_formulas_agree_with_difference_quotients_and_across_libraries(name: str) -> None:
    activation = ACTIVATIONS[name]
    phi, slope, _ = NUMPY_TWINS[name]
    with precision(60):
        step = mpf(10) ** -18
        for place in PLACES:
            z = mpf(place)
            here, ahead, back = (activation.triple(MPMATH, z + h) for h in (0, step, -step))
            for low, high in ((0, 1), (1, 2)):
                size = 1 + abs(here[high]) + abs(here[low])
                assert_close(f"{name}({place})", (ahead[low] - back[low]) / (2 * step), here[high], 1e-28 * size)
            for x, y in zip(here, activation.triple(ARB, ARB.num(place))):
                assert_close(f"{name}({place}) in Arb", x, ARB.to_mpf(y)[0], mpf(10) ** -50 * (1 + abs(x)))
            for twin, exact in ((phi, here[0]), (slope, here[1])):
                if twin is not None:
                    found = float(np.asarray(twin(np.array([place])))[0])
                    assert abs(found - float(exact)) <= 4e-15 * abs(float(exact)) + 1e-15 * min(1, abs(place)), place


@pytest.mark.parametrize("name", [n for n, a in ACTIVATIONS.items() if not a.infinite_slope])
def test_kinks_are_where_the_squared_slope_jumps(name: str) -> None:
    activation = ACTIVATIONS[name]
    with precision(50):
        step = mpf(10) ** -45
        for place, jump in activation.kinks:
            b = MPMATH.num(place)
            right, left = (activation.triple(MPMATH, b + h)[1] ** 2 for h in (step, -step))
            assert_close(f"{name} at {place}", right - left, MPMATH.num(jump), mpf(10) ** -40)
        places = {b for b, _ in activation.kinks}
        for a, b in pairwise([Fraction(i, 4) for i in range(-40, 42)]):
            if not places & {a, b}:  # no kink left out
                here = [activation.triple(MPMATH, MPMATH.num(a) + h)[1] for h in (step, -step)]
                assert_close(f"{name} at {a}", *here, mpf(10) ** -40)


# --- one input -----------------------------------------------------------------------------------------------------


def test_one_input_file_is_complete_and_tight() -> None:
    assert set(ONE) == {(n, K, q) for n in ACTIVATIONS for K in oracles.VARIANCES for q in QUANTITIES}
    assert_consistent_file(ONE, 1e-32)
    raw = json.loads(oracles.ONE_INPUT_FILE.read_text())
    assert raw["schema"] == 1
    assert all(repr(float(e["K"])) == e["K"] for e in raw["values"])
    assert oracles.ONE_INPUT_FILE.stat().st_size < 1_000_000
    for (name, _, q), r in ONE.items():
        assert mp.isinf(r.value) == (ACTIVATIONS[name].infinite_slope and "dphi2" in q)


def exact_values(K: float) -> dict[tuple[str, str], Any]:
    """Values known by hand for activations that the file takes from quadrature."""
    k, s = mpf(K), mp.sqrt(mpf(K))
    inside, edge = mp.erf(1 / mp.sqrt(2 * k)), gaussian_density(MPMATH, mpf(1), k)
    tail = mp.exp(k / 2) * mp.erfc(s / mp.sqrt(2)) / 2 if K < 1e5 else 1 / (s * mp.sqrt(2 * mp.pi)) * (1 - 1 / k)
    return {
        ("erf", "phi2"): 2 / mp.pi * mp.asin(2 * k / (1 + 2 * k)),
        ("erf", "dphi2"): 4 / mp.pi / mp.sqrt(1 + 4 * k),
        ("erf", "dK_phi2"): 4 / mp.pi / ((1 + 2 * k) * mp.sqrt(1 + 4 * k)),
        ("erf", "dK_dphi2"): -8 / mp.pi / mp.sqrt(1 + 4 * k) ** 3,
        ("hard_tanh", "phi2"): k * (inside - 2 * edge) + 1 - inside,
        ("hard_tanh", "dphi2"): inside,
        ("hard_tanh", "dK_phi2"): inside - 2 * edge,
        ("hard_tanh", "dK_dphi2"): -edge / k,
        ("gelu", "phi"): k / mp.sqrt(2 * mp.pi * (1 + k)),
        ("z_erf", "phi"): 2 * k / mp.sqrt(mp.pi * (1 + 2 * k)),
        ("sigmoid", "phi"): mpf(0.5),
        ("elu", "phi"): s / mp.sqrt(2 * mp.pi) - mpf(0.5) + tail,
    }


@pytest.mark.parametrize("K", oracles.VARIANCES)
def test_values_known_by_hand(K: float) -> None:
    with precision(70):
        for (name, q), value in exact_values(K).items():
            loose = mpf(10) ** -18 if (name, K) == ("elu", 1e8) else mpf(10) ** -50  # elu: two terms of a series
            assert_close(f"{name} K={K} {q}", ONE[name, K, q].value, value, ONE[name, K, q].error + loose)
        for name, (plus, minus) in SLOPES.items():
            half = MPMATH.num(plus**2 + minus**2) / 2
            assert_reference(name, half, ONE[name, K, "dphi2"], 0)
            assert_reference(name, half * mpf(K), ONE[name, K, "phi2"], 0)
            assert ONE[name, K, "dK_dphi2"].value == 0
        # the identities of sin and cos, and selu's fixed point <phi> = 0, <phi^2> = 1 at K = 1
        total = ONE["sin", K, "phi2"].value + ONE["cos", K, "phi2"].value
        assert_close("sin^2 + cos^2", total, 1, 2e-40)
    assert abs(ONE["selu", 1.0, "phi"].value) < 1e-30 and abs(ONE["selu", 1.0, "phi2"].value - 1) < 1e-30


def sample(count: int) -> list[tuple[str, float]]:
    """Fixed pseudo-random sample of (activation, K) for which the file's values come from quadrature."""
    names = [n for n in ACTIVATIONS if not oracles.one_input_closed(n, 1.0)]
    return random.Random(7).sample([(n, K) for n in names for K in oracles.VARIANCES], count)


@pytest.mark.parametrize(("name", "K"), sample(14))
def test_a_third_quadrature_falls_into_the_stored_intervals(name: str, K: float) -> None:
    values = recomputed(name, K)
    with precision(60):
        for q in QUANTITIES:
            r = ONE[name, K, q]
            assert_intervals_overlap(f"{name} K={K} {q}", (values[q], mpf(10) ** -42 * r.scale), (r.value, r.error))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "K"), [("tanh", 1.0), ("softsign", 3.7), ("gelu", 0.1)])
def test_another_rule_agrees(name: str, K: float) -> None:
    """Tanh-sinh on fixed panels, and the K-derivatives by the Gaussian identity, as in no other place here."""
    with precision(40):
        k = mpf(K)
        ends = [mpf(x) * mp.sqrt(k) for x in (-15, -4, -1, 0, 1, 4, 15)]

        def average(power: int, part: int, identity: bool) -> Any:
            def integrand(z: Any) -> Any:
                f = ACTIVATIONS[name].triple(MPMATH, z)[part] ** power * gaussian_density(MPMATH, z, k)
                return f * (z * z / k - 1) / (2 * k) if identity else f

            return mp.quad(integrand, ends, method="tanh-sinh")

        for q, args in {"phi2": (2, 0, False), "dK_phi2": (2, 0, True), "dK_dphi2": (2, 1, True)}.items():
            assert_close(f"{name} {q}", average(*args), ONE[name, K, q].value, mpf(10) ** -34)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_stored_value_agrees_with_floats(name: str) -> None:
    """Double precision and the Gaussian identity <(z^2/K - 1) F>/(2K), over the whole file."""
    phi, slope, kinks = NUMPY_TWINS[name]
    for K in oracles.VARIANCES:
        if name in ("sin", "cos") and K > 10:
            continue
        for q in QUANTITIES:
            f = slope if "dphi2" in q else phi
            if f is None:
                continue
            power = 1 if q == "phi" else 2
            weight = (lambda z, K=K: (z * z / K - 1) / (2 * K)) if q.startswith("dK") else (lambda z: 1.0)

            def integrand(z: Any, f: Any = f, power: int = power, weight: Any = weight) -> Any:
                return weight(z) * f(z) ** power

            size = oracles.one_input_float(lambda z, g=integrand: np.abs(g(z)), K, kinks)
            value = oracles.one_input_float(integrand, K, kinks)
            assert_close(f"{name} K={K} {q}", value, ONE[name, K, q].value, 1e-14 * size)


def assert_file_judges(name: str, K: float, values: dict[str, Any]) -> None:
    """Check values against the stored ones, as a judge of 30 digits would."""
    with precision(60):
        for q in QUANTITIES:
            assert_reference(f"{name} {q}", values[q], ONE[name, K, q], 1e-30)


def test_planted_errors_are_detected() -> None:
    assert_file_judges("hard_swish", 3.7, recomputed("hard_swish", 3.7))
    with pytest.raises(AssertionError, match="exceeds"):  # a truncated tail
        assert_file_judges("hard_swish", 3.7, recomputed("hard_swish", 3.7, replace(THIRD, reach=8.0)))
    with pytest.raises(AssertionError, match="exceeds"):  # too few nodes for the poles of tanh
        assert_file_judges("tanh", 100.0, recomputed("tanh", 100.0, replace(THIRD, order=12)))
    with pytest.raises(AssertionError, match="exceeds"):  # the decimal 0.1 in place of the double
        shifted = one_input_quadrature(ACTIVATIONS["tanh"], math.nextafter(0.1, 1), THIRD).values
        assert_file_judges("tanh", 0.1, shifted)

    right = ACTIVATIONS["hard_swish"]
    wrong = replace(right, kinks=(right.kinks[0], (Fraction(3), Fraction(-5, 4) * (1 + Fraction(1, 10**20)))))
    with pytest.raises(AssertionError, match="exceeds"):  # a wrong jump, against the file
        assert_file_judges("hard_swish", 3.7, one_input_quadrature(wrong, 3.7, THIRD).values)
    run = one_input_quadrature(wrong, 3.7, THIRD)  # and without the file: the Gaussian identity knows no jumps
    with precision(60), pytest.raises(AssertionError, match="identity"):
        oracles.compare_runs("hard_swish", run, run, "dK_dphi2")
    missing = replace(ACTIVATIONS["relu6"], kinks=())  # a kink that no panel edge meets
    run = one_input_quadrature(missing, 3.7, THIRD)
    with precision(60), pytest.raises(AssertionError, match="exceeds"):
        assert_intervals_overlap("relu6", (run.values["phi2"], run.radii["phi2"]), (ONE["relu6", 3.7, "phi2"].value, 0))


# --- two inputs ----------------------------------------------------------------------------------------------------


def test_two_input_file_is_complete_and_tight() -> None:
    points = [(n, a, b, c * math.sqrt(a * b)) for n, a, b, c in oracles.two_input_points()]
    assert set(TWO) == {(*p, q) for p in points for q in PAIR_QUANTITIES}
    assert_consistent_file(TWO, 1e-24)
    assert {p[0] for p in points} == set(oracles.PAIR_NAMES)


def test_two_input_values_known_by_hand() -> None:
    checked = 0
    with precision(60):
        for (name, a, b, k, q), r in TWO.items():
            closed = oracles.two_input_closed(name, a, b, k)
            if q in closed:
                assert_reference(f"{name} {a} {b} {k} {q}", closed[q], r, 0)
                checked += 1
    assert checked == 24


@pytest.mark.slow
@pytest.mark.parametrize(("name", "a", "b", "c"), [("tanh", 1e-4, 1e-4, -0.9), ("softsign", 1e-4, 1.0, 0.3)])
def test_two_inputs_in_another_library(name: str, a: float, b: float, c: float) -> None:
    k = c * math.sqrt(a * b)
    found = two_input_quadrature(ACTIVATIONS[name], a, b, k, Settings(MPMATH, 26, 14, 0.6, 1.9, 2.4, 10.5))
    with precision(40):
        for q in PAIR_QUANTITIES:
            assert_reference(f"{name} {q}", found[q][0], TWO[name, a, b, k, q], 1e-18)
            with pytest.raises(AssertionError, match="exceeds"):
                assert_reference(f"{name} {q}", found[q][0] * (1 + mpf(10) ** -15), TWO[name, a, b, k, q], 1e-18)


@pytest.mark.parametrize("name", oracles.PAIR_NAMES)
def test_float_route_agrees_with_the_file(name: str) -> None:
    twin = NUMPY_TWINS[name]
    for key, r in TWO.items():
        if key[0] == name:
            f = twin[PAIR_QUANTITIES.index(key[-1])]
            assert_reference(str(key), two_input_float(f, *key[1:4], kinks=twin[2]), r, 3e-14)


CLOSED_PAIRS = [n for n in ACTIVATIONS if oracles.two_input_closed(n, 1.0, 1.0, 0.5)]


@pytest.mark.parametrize("name", CLOSED_PAIRS)
@pytest.mark.parametrize("c", CORRELATIONS)
def test_float_route_agrees_with_closed_forms(name: str, c: float) -> None:
    twin = NUMPY_TWINS[name]
    variances = (1e-4, 1.0, 4.0) if name in ("sin", "cos") else (1e-4, 1.0, 1e4)
    for a, b in [(a, b) for a in variances for b in variances]:
        k = c * math.sqrt(a * b)
        with precision(50):
            closed = oracles.two_input_closed(name, a, b, k)
        for q, square, f in zip(PAIR_QUANTITIES, ("phi2", "dphi2"), twin):
            if f is not None:
                scale = mp.sqrt(mp.fprod(one_input_square(name, K, square) for K in (a, b)))
                value = two_input_float(f, a, b, k, kinks=twin[2])
                assert_close(f"{name} {a} {b} {c} {q}", value, closed[q], 3e-14 * scale)


def one_input_square(name: str, K: float, quantity: str) -> Any:
    """Average of the square at one variance: from the file, or by floats at a variance that it does not hold."""
    if K in oracles.VARIANCES:
        return ONE[name, K, quantity].value
    phi, slope, kinks = NUMPY_TWINS[name]
    f = phi if quantity == "phi2" else slope
    return mpf(oracles.one_input_float(lambda z: f(z) ** 2, K, kinks))


@pytest.mark.slow_with("gelu_tanh", "cubic", "monomial3")
@pytest.mark.parametrize("name", [n for n in NUMPY_TWINS if n not in ("sin", "cos")])
def test_float_route_agrees_with_its_own_refinement(name: str) -> None:
    phi, slope, kinks = NUMPY_TWINS[name]
    for a, b in ((1.0, 1.0), (1e4, 1e-4), (1e4, 1e4)):
        for c in (-0.9, 1 - 1e-6):
            for f in (phi, slope):
                if f is not None:
                    k = c * math.sqrt(a * b)
                    values = [two_input_float(f, a, b, k, kinks, **o) for o in ({}, {"order": 20, "refine": 1.7})]
                    squares = [oracles.one_input_float(lambda z, f=f: f(z) ** 2, K, kinks) for K in (a, b)]
                    assert abs(values[0] - values[1]) <= 3e-14 * math.sqrt(squares[0] * squares[1]), (a, b, c)


def test_float_route_needs_its_kinks_and_meets_one_input_values_at_full_correlation() -> None:
    phi, slope, kinks = NUMPY_TWINS["hard_tanh"]
    with pytest.raises(AssertionError, match="the kinks are felt"):
        gap = abs(two_input_float(slope, 1.0, 4.0, 1.0) - two_input_float(slope, 1.0, 4.0, 1.0, kinks))
        assert gap < 1e-10, "the kinks are felt"
    for name, (phi, slope, kinks) in NUMPY_TWINS.items():
        for K in (1e-8, 1e-4, 1.0, 3.7, 100.0, 1e4, 1e8):
            if not (name in ("sin", "cos") and K > 10):
                assert_reference(name, two_input_float(phi, K, K, K, kinks), ONE[name, K, "phi2"], 3e-14)
                if slope is not None:
                    assert_reference(name, two_input_float(slope, K, K, K, kinks), ONE[name, K, "dphi2"], 3e-14)


# --- the files -----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_generation_reproduces_the_committed_entries(tmp_path: Path) -> None:
    raw = json.loads(oracles.ONE_INPUT_FILE.read_text())
    for name, K in (("mish", 1e-4), ("relu6", 1e-8), ("sin", 1e8), ("step", 1.0)):
        entries = oracles.one_input_entries(name, K)
        assert entries == [e for e in raw["values"] if (e["activation"], e["K"]) == (name, repr(K))]
    for e in oracles.two_input_entries("hard_tanh", 1e-4, 1e-4, 0.3):
        r = TWO["hard_tanh", 1e-4, 1e-4, float(e["K_ab"]), e["quantity"]]
        assert_intervals_overlap("hard_tanh", (mpf(e["value"]), mpf(e["error"])), (r.value, r.error))
    path = tmp_path / "copy.json"
    oracles.write_json(path, {k: v for k, v in raw.items() if k != "values"}, raw["values"])
    assert path.read_text() == oracles.ONE_INPUT_FILE.read_text()
    assert list(tmp_path.iterdir()) == [path]


def test_the_oracle_imports_nothing_of_what_it_judges() -> None:
    code = "import sys, tests.oracles.gaussian_averages; assert not {'meanfield', 'sympy', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
