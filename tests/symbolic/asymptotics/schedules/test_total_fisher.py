"""Squared gradients and max/min over the diagonal of the Fisher information in networks whose variances fall with the
number of blocks, and J where blocks of several scales have a share: against a flow in log l at log L of hundreds."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

from meanfield import MeanFieldError
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import t
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, regular
from tests.oracles.fisher import GROUPS, spread_logs
from tests.oracles.flow import _at
from tests.symbolic.asymptotics.schedules.test_phase_tables import PHI, tables
from tests.symbolic.asymptotics.schedules.test_total_depth import (
    BETAS,
    NORMS,
    TOTALS,
    assert_laws,
    judged,
    laws,
    place,
    theory,
)

HALF = Fraction(1, 2)
GRADIENTS = ("G_w[1]", "G_b[1]", "G_w[2]", "G_b[2]")


def spread(phi: str, norm: str, beta, total, size, far: float, without: str | None = None) -> float:
    """log(max/min) at log L = far; without: a group that is left out."""
    with np.errstate(divide="ignore"):
        logs = np.log([float(s) for s in size]) - far * np.array([float(d) for d in total])
    held = np.array([True, size[3] > 0, True, size[2] > 0]) & [name != without for name in GROUPS]
    b = np.array([float(x) for x in beta])
    return spread_logs(*tables(phi), logs, b, 1.0, held, np.array([far]), 0.05, NORMS[norm], 2000)[0]


def far_for(law) -> float:
    steep = [max(60.0, 60 / float(key[0])) for key, _ in law.stretched if key[0] != 0]
    return min([1000.0, *steep])


def assert_grown(law, low: float, high: float, far: float) -> None:
    """log X between log L = far/2 and far: the power of L to 2e-4 (6e-4 beside powers of log L in log X), of log L to
    0.2; of leading terms of log X, both."""
    if law.leading:
        key, _ = law.terms[0]
        grown, expected = math.log(high / low), float(key[0]) * far / 2 + float(key[1]) * math.log(2)
    else:
        grown, plain = high - low, law.of_unknown_size
        expected = plain.log_at(far, leading=True) - plain.log_at(far / 2, leading=True)
    within = [key for key, _ in law.stretched if key[0] == 0]  # exp(c √log L): what follows falls as 1/√log L
    most = 0.3 if within else 0.15 if law.power_of(1) else 0.1  # beside log L a start falls slowly
    assert abs(grown - expected) < most, f"does not grow as {law.text()}: {grown}, not {expected}"


def assert_spread(law, phi: str, norm: str, *where, without: str | None = None) -> None:
    far = far_for(law)
    assert_grown(law, *(spread(phi, norm, *where, x, without) for x in (far / 2, far)), far)


def gradients(phi: str, norm: str, beta, total, size, far: float) -> dict[str, float]:
    """log of the G of the last block over J^{1,L}."""
    square, slope = tables(phi)
    K, q, J = judged(phi, norm, beta, total, size, far, [0.0])[0]
    inside = 0.0 if norm == "inner" else q
    through = math.log(float(size[0])) - far * float(beta[0] + total[0]) + _at(slope, inside) - J
    through -= q if norm == "inner" else 0.0
    entered = through + (0.0 if norm == "first" else K)
    return dict(zip(GRADIENTS, (entered, through, _at(square, inside) + inside - J, -J)))


def assert_gradient(name: str, way, phi: str, norm: str, *where) -> None:
    law = way[name]
    far = far_for(law)
    steep = float(way["J"].stretched[0][0][0]) if way["J"].stretched else 0.0
    if not law.leading and steep:  # of logarithms that cancel digits are left
        far = min(far, 25 / steep)
    low, high = (gradients(phi, norm, *where, x)[name] for x in (far / 2, far))
    assert_grown(law, low, high, far)
    known = not law.leading and law.constant is not None and not law.constant.has(AppliedUndef, CONSTANT)
    if known and not law.power_of(1) and not law.constant.free_symbols - {t}:
        constant = float(sp.N(law.constant.subs(t, 1)))
        assert abs(high - float(sp.N(law.power_of(0))) * far - math.log(constant)) < 0.03, (
            f"the constant of {name} is not that of {law.text()}"
        )


def drawn(number: int, seed: int, names=tuple(PHI)):
    """Places with laws in L."""
    draw, out = random.Random(seed), []
    while len(out) < number:
        one = (draw.choice(names), draw.choice(["", "", "", "first", "inner"]), *place(draw))
        try:
            (way,) = laws(*one, quantities=("K", "K[1]", "J", *GRADIENTS, "fisher"))
        except (MeanFieldError, ValueError):
            continue
        if "fisher" in dict(way.laws) and way["K"].of.name == "L":
            out.append((one, way))
    return out


def assert_all(one, way) -> int:
    found = 1
    assert_spread(way["fisher"], *one)
    # where φ ~ z² lost small q at first, digits end before the powers show; a place where they do is below
    early = one[0] == "z*erf(z)" and way["J"].stretched
    for name in GRADIENTS:
        if name in dict(way.laws) and not (early and not way[name].leading):
            assert_gradient(name, way, *one)
            found += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_more_gradients_and_their_spread_follow_the_flow(seed):
    assert sum(assert_all(*one) for one in drawn(80, 500 + seed)) > 300


def ways(phi: str, norm: str, *where):
    (way,) = laws(phi, norm, *where, quantities=("K", "K[1]", "J", *GRADIENTS, "fisher"))
    return way


PLACES = {  # J, by every way in which scales below L have a share
    "a power of every scale from some on": ("Max(0,z)**(3/4)", "", (0, 0, 1, 0), (0, 1, 0, 0), (1, 1, HALF, 0)),
    "K by its branch, then by its source": (
        "tanh", "inner", (Fraction(3, 5), 1, 0, Fraction(4, 5)), (0, Fraction(2, 5), Fraction(2, 5), Fraction(4, 5)),
        (1, 2, 1, HALF),
    ),
    "a logarithm first": ("gelu", "first", (0, 0, HALF, 1), (0, 0, Fraction(3, 2), 0), (HALF, 1, 1, 2)),
    "a power of log L": ("relu", "inner", (1, 0, HALF, 0), (0, HALF, 0, 0), (2, 1, HALF, 0)),
    "one scale alone": ("tanh", "", (0, HALF, 0, 0), (0, 0, Fraction(1, 8), 2), (1, 1, 1, 1)),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", PLACES)
def test_J_of_several_scales(kind):
    """K, q, J and the spread follow the flow; a power of J moved by 0.02 and a logarithm too many do not."""
    one = PLACES[kind]
    way = ways(*one)
    three = type(way)(tuple(x for x in way.laws if x[0] in ("K", "K[1]", "J")), way.regime, way.basin, way.limit)
    assert assert_laws([three], *one) == 3
    assert_spread(way["fisher"], *one)
    for wrong in (regular(1, "1/50"), regular(1, 0, 1)):
        if not way["J"].leading:
            bad = tuple((n, g * wrong if n == "J" else g) for n, g in three.laws)
            with pytest.raises(AssertionError, match="no way is the flow"):
                assert_laws([type(way)(bad, way.regime, way.basin, way.limit)], *one)


@pytest.mark.slow
def test_gradients_where_K_and_J_outgrow_every_power():
    """K/J is what it is when the feedback takes over."""
    totals = (0, Fraction(9, 10), Fraction(3, 20), 0)
    for one in (
        ("relu", "", (0, 0, 0, 0), (HALF, 0, Fraction(3, 4), 0), (1, 1, 1, 1)),
        ("gelu", "", (0, 0, 0, 0), totals, (1, 1, 1, 0)),
    ):
        way = ways(*one)
        for name in ("G_w[1]", "G_w[2]"):
            assert not way[name].leading
            assert_gradient(name, way, *one)
            moved = tuple((n, g * regular(1, "1/50") if n == name else g) for n, g in way.laws)
            with pytest.raises(AssertionError, match=r"does not grow as|the constant of"):
                assert_gradient(name, type(way)(moved, way.regime, way.basin, way.limit), *one)


@pytest.mark.slow
def test_K_falls_behind_J_where_small_q_are_lost():
    """φ ~ z² at q → 0: until q is 1, J gains 4/3 of what K does, which takes 1/60 off the power of G_w."""
    one = ("z*erf(z)", "", (0, 0, 0, 0), (0, Fraction(9, 10), Fraction(1, 10), 0), (1, 1, 1, 0))
    law = ways(*one)["G_w[1]"]
    low, high = (gradients(*one, far)["G_w[1]"] for far in (60.0, 120.0))
    assert law.power_of(0) == sp.Rational(5, 6) and abs((high - low) / 60 - 5 / 6) < 0.004


@pytest.mark.slow
@pytest.mark.parametrize("place_", range(3))
def test_a_group_left_out_and_a_wrong_exponent_fail(place_):
    """Each group is an extreme one somewhere."""
    fifth = Fraction(1, 5)
    one = (
        ("tanh", "", (0, 4 * fifth, 6 * fifth, 0), (0, 2 * fifth, 0, 3 * fifth), (HALF, 1, 2, 2)),
        ("tanh", "", (3 * HALF, 3 * HALF, 0, HALF), (HALF, 0, HALF, 0), (1, HALF, HALF, 2)),
        ("tanh", "", (0, 2 * fifth, 4 * fifth, 4 * fifth), (1, 1, fifth, 3 * fifth), (2, HALF, 2, HALF)),
    )[place_]
    law = ways(*one)["fisher"]
    assert_spread(law, *one)
    with pytest.raises(AssertionError, match="does not grow as"):
        assert_spread(law * regular(1, "1/50"), *one)
    for name in (GROUPS[:1] + GROUPS[2:3], GROUPS[1:2], GROUPS[2:])[place_]:
        with pytest.raises(AssertionError, match="does not grow as"):
            assert_spread(law, *one, without=name)


@pytest.mark.slow
def test_a_table_of_the_spread():
    """Totals as symbols: rows that agree with derivations at numbers."""
    fixed = dict.fromkeys(BETAS, 0) | {TOTALS[1]: 0, "total_b": 0, "sigma_b": 0}
    made = theory("tanh").phase_table("K", "fisher", **fixed)
    draw = random.Random(3)
    for _ in range(12):
        v, a = (Fraction(draw.randint(1, 6), draw.choice([2, 3, 4])) for _ in "va")
        row = made.at(total_v=v, total_a=a, sigma_v=1, sigma_w=1, sigma_a=1)
        way = ways("tanh", "", (0, 0, 0, 0), (v, 0, a, 0), (1, 1, 1, 0))
        gap = row["fisher"] / way["fisher"]
        assert all(abs(sp.N(c.subs(t, 0.4))) < 1e-12 for _, c in gap.terms), (v, a)


def test_the_spread_of_a_root_branch():
    """ReLU scaled by 1/√L without biases, exact blocks at two depths."""
    (way,) = laws("relu", "", (0, 0, 0, 0), (1, 0, 0, 0), (1, 1, 0, 0), quantities=("K", "fisher", "G_w[1]"))
    assert way["fisher"].power_of(0) == 1  # of the inner weights, which the branch's 1/L scales, to the outer ones
    spreads = []
    for blocks in (1000, 2000):
        K = (1 + 0.5 / blocks) ** np.arange(blocks)  # J is the same
        factors = np.array([0.5 / blocks * K / K, 0.5 * K / K])
        spreads.append(math.log(factors.max() / factors.min()))
    assert abs((spreads[1] - spreads[0]) / math.log(2) - 1) < 1e-9
