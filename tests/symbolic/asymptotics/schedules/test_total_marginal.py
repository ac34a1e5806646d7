"""Laws in L at V = 1 where no variance of a weight knows L, against a flow in log l at log L of hundreds."""

import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp

from meanfield import MeanFieldError
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import j, k, t
from meanfield.symbolic.asymptotics.log_growth import regular
from tests.symbolic.asymptotics.schedules.test_phase_tables import PHI
from tests.symbolic.asymptotics.schedules.test_total_depth import assert_laws, judged, laws, side

HALF = Fraction(1, 2)


def marginal_place(draw: random.Random):
    """(β's, δ's, σ²'s) with β_v + β_w = 1, δ_v = δ_w = 0 and a source that falls with L, ties on purpose."""
    while True:
        q = draw.choice([1, 2, 4, 5])
        inner = Fraction(draw.randint(0, q), q)
        beta = [1 - inner, inner, *(Fraction(draw.randint(0, q + 1), q) for _ in "ab")]
        total = [Fraction(0), Fraction(0), *(Fraction(draw.randint(0, q), 2 * q) for _ in "ab")]
        if draw.random() < 0.2:
            total[2] = max(Fraction(0), 1 - beta[2] - inner)
        size = [draw.choice([Fraction(1), Fraction(2), Fraction(1, 2)]) for _ in range(4)]
        size = [0 if i > 1 and draw.random() < 0.3 else s for i, s in enumerate(size)]
        if (size[2] and total[2]) or (size[3] and total[3]):
            return beta, total, size


def is_slow(way) -> bool:
    """Whether q goes by powers of log l before a source counts: what the flow has beside the law falls as these do."""
    return "with log l" in way.regime


def assert_marginal(phi: str, where) -> int:
    """How many laws were judged."""
    try:
        found = laws(phi, "", *where)
    except MeanFieldError:
        return 0
    if any(is_slow(one) or len(one.laws) < 3 for one in found):
        return 0
    powers = [float(one["K"].power_of(0)) for one in found if one["K"].power_of(1) != 0]
    if powers and judged(phi, "", *where, 500.0, [-470.0])[0, 0] - 30 * min(powers) > 7:
        return 0  # a start that outweighs log L
    count = assert_laws(found, phi, "", *where)
    if len(found) == 1 and found[0].limit:
        assert_moving(found[0], phi, *where)
    return count


def assert_moving(way, phi: str, *where) -> None:
    """k and j of the flow change as their equations say, from t = 1/20 to 1, and k begins as its limit says."""
    kappa, far, shares = float(way["K"].exponent), 300.0, np.linspace(-3.0, 0.0, 61)
    early = -0.3 * far
    rows = judged(phi, "", *where, far, [early, *shares])
    K, J = np.exp(rows[1:, 0] - kappa * far), rows[1:, 2]
    pairs = {one.lhs: one.rhs for one in way.limit}
    weights = (shares[1] - shares[0]) / 3 * np.array([1, *[4, 2] * 29, 4, 1])
    for i, (left, change) in enumerate(((k(t).diff(t), K[-1] - K[0]), (j(t).diff(t), J[-1] - J[0]))):
        f = side(phi, i, pairs[left])
        expected = float(np.sum(weights * [f(s, x) for s, x in zip(np.exp(shares), K)] * np.exp(shares)))
        assert abs(expected / change - 1) < 5e-3, (left, expected, change)
    (begin,) = (left for left in pairs if isinstance(left, sp.Limit))
    first = sp.log(k(t) / begin.args[0]).subs(t, sp.exp(sp.Float(early, 30)))
    assert abs(rows[0, 0] - kappa * far - float(first.evalf())) < 0.02


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_laws_follow_the_flow(seed):
    draw = random.Random(700 + seed)
    assert sum(assert_marginal(draw.choice(tuple(PHI)), marginal_place(draw)) for _ in range(100)) > 150


TIE = ("relu", ((HALF, HALF, 0, 0), (0, 0, HALF, HALF), (1, 1, 1, 1)))
PLACES = {  # φ and a place for each way in which a source with L may count
    "not at all": ("tanh", ((HALF, HALF, HALF, 0), (0, 0, HALF, 1), (2, 1, 1, 1))),
    "after q has settled": ("tanh", ((HALF, HALF, 0, 2), (0, 0, Fraction(1, 4), 0), (2, 1, 1, 1))),
    "as q → 0 stays": ("tanh", ((HALF, HALF, HALF, 0), (0, 0, Fraction(1, 4), 1), (Fraction(1, 4), 1, 1, 1))),
    "as it takes q → 0 to ∞": ("gelu", ((HALF, HALF, 0, 2), (0, 0, Fraction(1, 8), 0), (Fraction(1, 4), 1, 1, 1))),
    "and is outgrown again": (
        "gelu", ((Fraction(7, 8), Fraction(1, 8), HALF, 2), (0, 0, Fraction(1, 8), 0), (2, 1, 1, 1))
    ),
    "biases": ("tanh", ((Fraction(1, 4), Fraction(3, 4), 2, 0), (0, 0, 0, Fraction(1, 8)), (Fraction(1, 4), 1, 1, 1))),
    "as all moves": ("tanh", ((HALF, HALF, 0, 2), (0, 0, HALF, 1), (2, 1, 1, 1))),
    "at any q": TIE,
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_kinds_of_answers(kind):
    """Each follows the flow; a power moved by 0.02 does not."""
    phi, where = PLACES[kind]
    assert assert_marginal(phi, where) >= 3
    (way, *more) = laws(phi, "", *where)
    assert not more
    for name in ("K", "J"):
        bad = tuple((n, g * regular(1, "1/50") if n == name else g) for n, g in way.laws)
        with pytest.raises(AssertionError, match="no way is the flow"):
            assert_laws([type(way)(bad, way.regime, way.basin, way.limit)], phi, "", *where)


@pytest.mark.slow
def test_a_source_behind_powers_of_log_l():
    """q ~ log l before: J of the flow comes to the law as 1/√log L, at log L of 10^4."""
    where = ((1, 0, Fraction(2, 5), Fraction(4, 5)), (0, 0, Fraction(3, 10), Fraction(1, 5)), (1, 1, 1, 0))
    (way,) = laws("erf", "", *where)
    gaps = []
    for far in (4000.0, 16000.0):
        low, high = (judged("erf", "", *where, x, [0.0])[0, 2] for x in (far / 2, far))
        gaps.append(abs(high - low - way["J"].log_at(far, leading=True) + way["J"].log_at(far / 2, leading=True)))
        wrong = way["J"] * regular(1, "1/50")
        assert abs(high - low - wrong.log_at(far, leading=True) + wrong.log_at(far / 2, leading=True)) > 30
    assert gaps[0] < 0.06 and gaps[1] < 0.65 * gaps[0]


def test_blocks_of_a_linear_branch():
    """ReLU, exact blocks at L = 10^4 and 10^5: a source that falls with L takes K over from what the start left."""
    beta, total, size = [HALF, HALF, 0, 2], [0, 0, Fraction(1, 4), 0], [1, 1, 1, 0]
    (way,) = laws("relu", "", beta, total, size)
    assert way["K"].power_of(0) == Fraction(3, 4) and way["J"].power_of(0) == HALF

    def last(blocks: int) -> tuple[float, float]:
        K, J, source = 1.0, 1.0, blocks**-0.25
        for m in range(1, blocks):
            K += 0.5 / m * K + source
            J *= 1 + 0.5 / m
        return K, J

    (K, J), (far, far_J) = last(10_000), last(100_000)
    assert abs(np.log10(far_J / J) - 0.5) < 1e-4
    for power, close in ((0.75, True), (0.77, False)):
        # beside the law 2 L^(3/4) the start leaves Θ(√L), which two depths tell apart
        both = np.linalg.solve([[1e4**power, 1e2], [1e5**power, 1e5**0.5]], [K, far])
        assert (abs(both[0] / float(way["K"].constant.subs(t, 1)) - 1) < 1e-2) == close
