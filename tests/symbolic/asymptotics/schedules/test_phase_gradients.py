"""Laws of squared gradients under schedules, against averages along the flow in log l: G^l J^{1,l} of each Dense."""

import math

import pytest

from meanfield.symbolic.asymptotics.log_growth import Growth, regular
from tests.oracles.flow import _at
from tests.symbolic.asymptotics.schedules.test_phase_tables import at, far_for, judged, points, tables

NAMES = ("G_z", "G_w[1]", "G_b[1]", "G_w[2]", "G_b[2]")


def gradients(phi: str, beta, size, far: float) -> dict[str, list[float]]:
    """Logarithms at log l = far/2 and far: what a block's weights meet, over J."""
    square, slope = tables(phi)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for u, (K, q, J) in zip((far / 2, far), judged(phi, beta, size, far)):
        inner = math.log(float(size[0])) - float(beta[0]) * u + _at(slope, q)
        for name, local in zip(NAMES, (0.0, inner + K, inner, _at(square, q) + q, 0.0)):
            found[name].append(local - J)
    return found


def misses(name: str, law: Growth, found: list[float], far: float) -> list[str]:
    """How a law fails: by its slope between far/2 and far, or its constant."""
    logs, low, high = abs(float(law.power_of(1))), law.log_at(far / 2, leading=True), law.log_at(far, leading=True)
    if not abs(found[1] - found[0] - (high - low)) < 0.05 * max(1.0, logs):
        return [f"{name} ~ {law.text()}"]
    known = law.constant is not None and not logs and not law.power_of(2)
    return [f"{name} ~ {law.text()}"] if known and not abs(found[1] - high) < 0.02 else []


def assert_gradients(phi: str, beta, size, wrong: Growth | None = None) -> int:
    """One of the ways is what the flow does; how many laws were judged."""
    ways = at(phi, beta, size, "K", "K[1]", "J", "G_z", "G_w", "G_b")
    far = far_for(ways)
    if far != 2000.0:  # exponentials, and places where only logarithms grow
        return 0
    found = gradients(phi, beta, size, far)
    laws = [{n: way[n] if wrong is None else way[n] * wrong for n in NAMES} for way in ways]
    failed = [[m for n in NAMES for m in misses(n, one[n], found[n], far)] for one in laws]
    assert [] in failed, f"no way of {phi} at {beta}, {size} is the flow: {failed}"
    return len(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_gradients_follow_the_flow(part):
    names = ("tanh", "relu", "gelu", "erf", "softsign", "Max(0,z)**(3/4)")
    assert sum(assert_gradients(*one) for one in points(70, 4242 + part, names)) > 150


@pytest.mark.slow
def test_an_exponent_and_a_constant_that_are_off_are_seen():
    place = ("relu", [1, 1, 2, 2], (1, 1, 1, 1))
    assert assert_gradients(*place) == 5
    for wrong in (regular(1, "1/50"), regular(1, 0, 1)):
        with pytest.raises(AssertionError, match="is the flow"):
            assert_gradients(*place, wrong=wrong)
