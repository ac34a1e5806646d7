"""Further terms of two inputs that come together: distance, c, γ and K_ab against exact steps over 10^6 blocks, and a
flow in log l where only logarithms fall. C_K is fitted to K and C to the distance, at the last depth alone."""

import math
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq

import meanfield as mf
from meanfield import MeanFieldError
from tests.oracles.pair_flow import follow_pair, pair_steps
from tests.symbolic.asymptotics.test_higher_order_terms import STOPS, assert_predicts, fitted, law, sizes, spoiled

KIND = {"relu": 0, "erf": 1}
ORDER = 5
PLACES = {  # (φ, β's, σ²'s): how many terms are seen at least
    "exponential": ("relu", (0, 0, 0, 0), (1, 1, 0, 0), 4),
    "source beside linear feedback": ("relu", ("1/2", "1/2", "1/4", 2), (1, 1, 1, 1), 4),
    "V > 1, kinked": ("relu", (0, "3/2", 0, 2), (1, 1, 1, 1), 4),
    "V > 1, q grows": ("erf", ("3/2", "1/2", "1/4", 2), (1, 1, 1, 1), 4),
    "V > 1, q → 0": ("erf", ("1/2", 1, "1/2", 2), (1, "1/3", 1, 1), 5),
    "V > 1, flat biases": ("erf", (0, 2, 0, 0), (1, 1, 1, 1), 6),
    "V > 1, several powers": ("erf", (1, "3/4", "3/4", 1), (1, 1, 1, 1), 4),
    "irrational": ("erf", ("sqrt(2)", "3/4", "sqrt(3)/3", 1), (1, 1, 1, 1), 4),
}


def numbers(place):
    phi, beta, size = place[:3]
    floats = [np.array([float(law_number(x)) for x in one]) for one in (size, beta)]
    return phi, beta, [Fraction(x) for x in size], *floats


def law_number(x) -> float:
    return math.sqrt(int(x[5])) / (int(x[8:]) if "/" in x else 1) if str(x).startswith("sqrt") else float(Fraction(x))


def start(found, log: float, t: float, values: dict) -> float | None:
    """The C of a law of the distance from its logarithm at log l = t."""
    if "C" not in {s.name for s in found.expr.free_symbols}:
        return None
    front = found.growth.constant is not None and any(s.name == "C" for s in found.growth.constant.free_symbols)
    if front:
        return math.exp(brentq(lambda u: found.log_at(t, values | {"C": math.exp(u)}) - log, -6, 6, xtol=1e-15))
    a, b = 0.0, 1e-3
    fa, fb = (found.log_at(t, values | {"C": x}) - log for x in (a, b))
    for _ in range(60):
        if fa == fb or abs(fb) < 1e-14:
            break
        a, b, fa = b, b - fb * (b - a) / (fb - fa), fb
        fb = found.log_at(t, values | {"C": b}) - log
    return b


def judged(phi: str, size, beta) -> tuple[np.ndarray, np.ndarray]:
    """(log K, log distance) at STOPS."""
    rows = pair_steps(KIND[phi], size, beta, 1.0, 0.5, STOPS)
    return rows[:, 0], rows[:, 1]


def assert_pair(place, spoil: int | None = None) -> int:
    """How many terms of the four quantities were seen; spoil: the number of a coefficient of Δ that is 1 % off."""
    phi, beta, exact, size, falls = numbers(place)
    K, apart = judged(phi, size, falls)
    depths, values = np.log(STOPS), {}
    C = fitted(law(phi, beta, exact, "K", ORDER + 3), K[-1], depths[-1])
    values |= {} if C is None else {"C_K": C}
    full = law(phi, beta, exact, "distance", ORDER + 2)
    C = start(full, apart[-1], depths[-1], values)
    values |= {} if C is None else {"C": C}
    if spoil is not None:
        full = spoiled(full, spoil)
    seen = assert_predicts(full, apart, depths, values, False)
    near = np.exp(apart - K) / 2
    logs = {"c": np.log1p(-near), "K_ab": K + np.log1p(-near), "gamma": np.log1p(-near) - np.log(near)}
    return seen + sum(
        assert_predicts(law(phi, beta, exact, n, ORDER), x, depths, values, False, 0.008) for n, x in logs.items()
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", PLACES)
def test_pairs_meet_the_blocks(name):
    place = PLACES[name]
    assert assert_pair(place) >= place[3]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exponential", "V > 1, kinked", "V > 1, q → 0", "V > 1, flat biases"])
def test_a_coefficient_of_the_distance_that_is_off_is_seen(name):
    with pytest.raises(AssertionError, match=r"leaves|misses a term"):
        assert_pair(PLACES[name], spoil=0)


@pytest.mark.slow
@pytest.mark.parametrize("source", ["2", "1/2"], ids=["feedback alone", "a tie with a source"])
def test_where_only_logarithms_bring_inputs_together(source):
    """ReLU at V = 1: 1 - c falls as 1/log² l, and what follows in powers of 1/log l or 1/√log l."""
    phi, beta, size = "relu", ("1/2", "1/2", source, 2), [1, 1, 1, 1]
    depths = np.array([1e4, 1e5, 3e5, 1e6])
    s, b = np.array([1.0, 1, 1, 1]), np.array([0.5, 0.5, float(Fraction(source)), 2])
    rows = follow_pair(KIND[phi], s, b, 1.0, 0.9, depths, 0.5)
    K, apart = rows[:, 0], rows[:, 0] + rows[:, 1]
    values = {"C_K": fitted(law(phi, beta, size, "K", 3), K[-1], depths[-1])}
    found = law(phi, beta, size, "distance", 6)
    values["C"] = start(found, apart[-1], depths[-1], values)
    terms = sizes(found, depths[0], values)
    assert terms[0] > 1e-3
    for x, t in zip(apart, depths):
        assert abs(found.log_at(t, values) - x) < max(2e-6, 30 * sizes(found, t, values)[-1]), (found.text(), t)
    few = law(phi, beta, size, "distance", 1)  # without what follows, the same C does not serve
    assert abs(few.log_at(depths[0], values) - apart[0]) > 3 * abs(found.log_at(depths[0], values) - apart[0])


@pytest.mark.slow
def test_pairs_say_their_terms():
    """ReLU at β = 0: 1 - c ~ A/l² (1 - 3 log l/l + C/l), and what is left to a sentence."""
    found = law("relu", (0, 0, 0, 0), (1, 1, 0, 0), "c", 3)
    assert [k[:2] for k, _ in found.corrections.terms] == [(-2, 0), (-3, 1), (-3, 0)]
    for name, beta, size in (
        ("tanh", (0, 0, 0, 0), (1, 1, 1, 1)),
        ("relu", (0, "3/2", 2, 2), (1, 1, 1, 1)),
        ("Max(0,z)**(3/4)", (2, "1/2", "1/4", 2), (1, 1, 1, 1)),
    ):
        with pytest.raises(MeanFieldError, match=r"^Further terms of (two inputs|c)"):
            law(name, beta, size, "c", 2)


@pytest.mark.parametrize("phi, sigma_w, quantity", [("2*z/3", "1/2", "c"), ("z/2+1", "1/2", "distance"),
                                                    ("erf(z)+z/3", 1, "gamma")])  # fmt: skip
def test_further_terms_where_the_start_decides_c_are_refused(phi, sigma_w, quantity):
    """The same nonzero slope at both ends beside a skip of 1: 1 - c tends to what it began with."""
    theory = mf.derive(phi, residual=True)
    with pytest.raises(MeanFieldError, match="the start decides what it tends to"):
        theory.depth_law(quantity, sigma_w=sigma_w, sigma_b=0, order=1, correlation="1/2")
    run = theory.propagate(sigma_w=float(sp.Rational(sigma_w)), sigma_b=0, depth=2000, correlation=np.array([0.2, 0.5]),
                           quantities=("K", "c"))  # fmt: skip
    assert run.c[1, -1] - run.c[0, -1] > 0.01


@pytest.mark.slow
def test_a_law_below_zero_says_nothing():
    """Further terms that exceed the first leave the logarithm of a negative number: nan was printed."""
    law = mf.derive("log(1+exp(z))-1/2", residual=True).depth_law(
        "c", sigma_w=".4", sigma_b=".1", correlation=".3", order=2
    )
    with pytest.raises(mf.MeanFieldError, match="says nothing at l = 30: its further terms exceed the first"):
        law.at(30)
    assert 0.9 < float(law.at(1000)) < 1, "control: where they fall"


@pytest.mark.parametrize("quantity", ["c", "distance", "J"])
def test_further_terms_where_phi_jumps_are_refused(quantity):
    pair = {} if quantity == "J" else {"correlation": ".3"}
    with pytest.raises(mf.MeanFieldError, match="every gradient is infinite; ask for K alone"):
        mf.derive("sign(z)", residual=True).depth_law(quantity, sigma_w=1, sigma_b=".3", order=1, **pair)
    assert "l" in str(mf.derive("sign(z)", residual=True).depth_law("K", sigma_w=1, sigma_b=".3", order=1)), "control"
