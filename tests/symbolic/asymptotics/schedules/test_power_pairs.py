"""Two inputs under φ that rises as |z|^a, a < 1: at V > 1, too, where ⟨φ′²⟩ grows as q → 0. Against a flow in log l
whose averages are integrals over an angle."""

from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from meanfield.symbolic.asymptotics.log_growth import regular
from tests.oracles.power_pairs import follow_powers, kernel
from tests.symbolic.asymptotics.schedules.test_pair_laws import assert_pair_follows, laws, slow
from tests.symbolic.asymptotics.schedules.test_phase_tables import points

PHI = {  # power, what stands before it on the right and on the left
    "Max(0,z)**(3/4)": (0.75, 1.0, 0.0),
    "Max(0,z)**(3/5)": (0.6, 1.0, 0.0),
    "Abs(z)**(4/5)": (0.8, 1.0, 1.0),
    "sign(z)*Abs(z)**(3/4)": (0.75, 1.0, -1.0),
}
FAR = Fraction(3)  # an exponent that plays no part


@cache
def averages(phi: str):
    return kernel(*PHI[phi])


def flowed(phi: str, beta, size, far: float) -> dict[str, np.ndarray]:
    v, table = averages(phi)
    s, b = (np.array([float(x) for x in one]) for one in (size, beta))
    stops = np.array([far / 4, far / 2, far])
    K, ratio, both = follow_powers(v, table, PHI[phi][0], s, b, 1.0, 0.5, stops, 0.05 if far < 1e3 else 0.5).T
    c = np.where(ratio < -0.1, np.log1p(-np.exp(np.minimum(ratio, -0.1)) / 2), both - K)
    return {"distance": K + ratio, "gamma": c + np.log(2) - ratio, "c": c}


def assert_pair_law(phi: str, beta, size, far: float = 2000.0) -> None:
    (way,) = laws(phi, beta, size)
    far = 1e4 if slow(way) else far
    assert_pair_follows(way, flowed(phi, beta, size, far), far)


SOURCED = (  # V > 1: K by its feedback; beside biases, a source, both as large; far enough for the slow ones
    ("Max(0,z)**(3/4)", (0, "6/5", FAR, FAR), (1, 1, 1, 1), 2e3),
    ("Max(0,z)**(3/4)", ("1/5", 1, FAR, "4/5"), (1, 2, 1, "1/2"), 6e4),
    ("Max(0,z)**(3/4)", ("1/10", "21/20", "11/20", FAR), (1, 1, "1/20", 0), 6e4),
    ("Abs(z)**(4/5)", (0, "6/5", "4/5", 1), (1, 1, "1/2", "1/4"), 6e4),
    ("sign(z)*Abs(z)**(3/4)", (0, "6/5", FAR, FAR), (1, 1, 1, 1), 2e3),
)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "beta", "size", "far"), SOURCED)
def test_feedback_and_what_both_have_in_common(phi, beta, size, far):
    beta, size = ([Fraction(x) for x in one] for one in (beta, size))
    assert_pair_law(phi, beta, size, far)


def test_every_place_has_a_law():
    """Where the feedback is lost the distance stays; else it goes with K."""
    phi = "Max(0,z)**(3/4)"
    for beta, exponent in (((1, 1, 2, "3/2"), 0), ((0, "6/5", 3, 3), Fraction(2, 5))):
        (way,) = laws(phi, [Fraction(x) for x in beta], (1, 1, 1, 1))
        assert way["distance"].exponent == exponent and {"gamma", "c"} <= dict(way.laws).keys()


@pytest.mark.slow
def test_where_feedback_is_lost_and_where_it_is_not():
    """Δ stays, or goes with K; an exponent moved by 0.02 and a constant by 10 % are seen."""
    phi = "Max(0,z)**(3/4)"
    assert_pair_law(phi, [Fraction(1), Fraction(1), Fraction(2), Fraction(3, 2)], (1, 2, 1, 1), 350.0)
    beta, size = [Fraction(0), Fraction(6, 5), FAR, FAR], (1, 1, 1, 1)
    (way,), found = laws(phi, beta, size), flowed(phi, beta, size, 2000.0)
    assert_pair_follows(way, found, 2000.0)
    for wrong in (regular(1, "1/50"), regular("11/10")):
        spoiled = tuple((n, g * wrong if n == "distance" else g) for n, g in way.laws)
        with pytest.raises(AssertionError, match=r"^the (flow's|constant of)"):
            assert_pair_follows(replace(way, laws=spoiled), found, 2000.0)


@pytest.mark.slow
@pytest.mark.parametrize("phi", PHI)
def test_at_random_places(phi):
    for _, beta, size in points(60, 3, (phi,)):
        if beta[0] + beta[1] > 1:
            assert_pair_law(phi, beta, size)
