"""max/min over the diagonal blocks of the Fisher information as a law in the depth: against a flow, and networks."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import linprog

import meanfield as mf
from meanfield import MeanFieldError
from meanfield.symbolic.asymptotics.comparing import compared, direction
from meanfield.symbolic.asymptotics.exponent_cells import Affine, At, Cell, CellSplit
from meanfield.symbolic.asymptotics.log_growth import Growth, exponential, regular
from tests.oracles.fisher import GROUPS, spread
from tests.symbolic.asymptotics.schedules.test_phase_tables import (
    BETAS,
    SIGMAS,
    assert_partition,
    assert_table_is_derivation,
    draws_for,
    far_for,
    full,
    place,
    points,
    tables,
)


def judged(phi, beta, size, far: float, without: str | None = None) -> np.ndarray:
    """log(max/min) of the flow at log l = far/2 and far; without: a group that is left out."""
    s, b = (np.array([float(x) for x in one]) for one in (size, beta))
    held = np.array([True, s[3] > 0, True, s[2] > 0]) & [name != without for name in GROUPS]
    return spread(*tables(phi), s, b, 1.0, held, np.array([far / 2, far]), 0.05 if far <= 2000 else 0.25)


def assert_spreads(laws: list[Growth], rows: np.ndarray, far: float) -> None:
    """One of the laws is what the flow does between far/2 and far: 0.03 for every logarithm, 5 % of leading terms."""
    missed = []
    for law in laws:
        low, high = law.log_at(far / 2, leading=True), law.log_at(far, leading=True)
        if law.leading:
            off, most = abs(rows[1] / high - 1), 0.05
            if law.stretched[0][0][:2] == (0, 2):  # beside (log l)², log l falls slowly: here it cancels
                off, most = abs((rows[1] - 2 * rows[0]) / (high - 2 * low) - 1), 0.07
        elif law.products or any(key[0] != 0 for key, _ in law.stretched):
            off, most = abs((rows[1] - rows[0]) / (high - low) - 1), 2e-3
        else:
            logs = max(1.0, *(abs(float(sp.N(law.power_of(k)))) for k in (1, 2)))
            logs = 5.0 if any(key[2] != 0 for key, _ in law.stretched) else logs
            off, most = abs(rows[1] - rows[0] - (high - low)), 0.03 * logs + 6e-5 * max(0.0, far - 2000)
        if off <= most:
            return
        missed.append((law.text(), float(off)))
    raise AssertionError(f"no law is the flow {rows}: {missed}")


def laws_at(phi, beta, size):
    fixed = dict(zip(BETAS, beta)) | {n: f"sqrt({s})" for n, s in zip(SIGMAS, size)}
    (row,) = full(phi).phase_table("K", "K[1]", "J", "fisher", **fixed)
    return row.regimes


def far_of(ways) -> float:
    """Where to judge: as for K, q and J, and further where the law is one of logarithms alone."""
    laws = [one["fisher"] for one in ways]
    far = far_for(ways)
    slow = any(law.power_of(0) == 0 and (law.power_of(1) or law.power_of(2)) for law in laws)
    return 1e5 if far == 2000 and slow else far


def assert_law_holds(phi, beta, size) -> None:
    ways = laws_at(phi, beta, size)
    far = far_of(ways)
    assert_spreads([one["fisher"] for one in ways], judged(phi, beta, size, far), far)


@pytest.mark.slow
def test_the_law_follows_the_flow():
    for phi, beta, size in points(4, 21, ("tanh", "relu")):
        assert_law_holds(phi, beta, size)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_law_follows_the_flow_at_many_places(seed):
    for phi, beta, size in points(60, 300 + seed):
        assert_law_holds(phi, beta, size)


LEFT_OUT = [  # a place where each group is the extreme one
    ("relu", ("1/4", 1, 0, 1), (1, 1, 1, 1), GROUPS[0]),
    ("relu", ("1/4", 1, 2, 1), (1, 1, 1, 1), GROUPS[2]),
    ("tanh", ("3/5", "1/10", "3/10", "1/2"), (1, 1, 1, 1), GROUPS[1]),
    ("relu", ("1/2", "1/2", 2, 1), (2, 1, 1, 0), GROUPS[3]),
]


@pytest.mark.fast_with("relu-beta3-size3-b of the outer Dense")
@pytest.mark.parametrize(("phi", "beta", "size", "group"), LEFT_OUT)
def test_a_group_left_out_and_a_wrong_exponent_fail(phi, beta, size, group):
    beta = [Fraction(b) for b in beta]
    ways = laws_at(phi, beta, size)
    far = far_of(ways)
    rows = judged(phi, beta, size, far)
    assert_spreads([one["fisher"] for one in ways], rows, far)
    with pytest.raises(AssertionError, match="no law is the flow"):
        assert_spreads([one["fisher"] for one in ways], judged(phi, beta, size, far, group), far)
    if not ways[0]["fisher"].leading:
        with pytest.raises(AssertionError, match="no law is the flow"):
            assert_spreads([one["fisher"] * regular(1, "1/50") for one in ways], rows, far)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "tanh", "gelu"])
def test_tables_cover_and_are_derivations_at_numbers(phi):
    made = full(phi).phase_table("K", "fisher")
    assert_partition(made.rows, draws_for(made, 100, 5))
    draw = random.Random(11)
    for _ in range(100):
        beta, size = place(draw)
        if all(size):
            assert_table_is_derivation(phi, made, beta, size)
    # proved: some group always falls behind, as β_v = 0 with ⟨φ²⟩_q > 0 makes K grow
    assert not made.where(fisher="bounded") and made.where(fisher="grows")
    assert abs(min(map(least_power, made)) - 1 / 3) < 1e-9


def least_power(row) -> float:
    """The smallest power of l that the law has on the closure of its region; infinite for what outgrows powers."""
    found, coordinates = [math.inf], row.region.coordinates
    for way in row.regimes:
        law = dict(way.laws).get("fisher")
        if law is None or law.stretched or law.products:
            continue
        power = sp.expand(law.exponent)
        if not set(power.free_symbols) <= set(coordinates):
            continue
        below = [*row.region.strict, *row.region.weak]
        answer = linprog(
            [float(power.coeff(s)) for s in coordinates],
            A_ub=[[-float(c) for c in a.coefficients] for a in below] or None,
            b_ub=[float(a.constant) for a in below] or None,
            A_eq=[[float(c) for c in a.coefficients] for a in row.region.equal] or None,
            b_eq=[-float(a.constant) for a in row.region.equal] or None,
            bounds=[(0, 9)] * len(coordinates),
        )
        found.append(answer.fun + float(power.subs(dict.fromkeys(coordinates, 0))))
    return min(found)


# ------------------------------------------------------------------------------------------- networks without schedules


def spread_of(phi, slope, sigma_w, sigma_b, mu, depth):
    """log(max/min) over l ≤ depth of χ_w, χ_b of a network with one Dense in a block, by a loop with quadrature."""
    z = np.linspace(-9, 9, 3001)
    weight = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    K, J, logs = sigma_w**2 + sigma_b**2, 0.0, []
    out = []
    for _ in range(depth):
        square, steep = (weight * phi(K**0.5 * z) ** 2).sum(), (weight * slope(K**0.5 * z) ** 2).sum()
        J += math.log(sigma_w**2 * steep + mu**2)
        logs += [math.log(square) - J] + ([-J] if sigma_b else [])
        out.append(max(logs) - min(logs))
        K = sigma_w**2 * square + sigma_b**2 + mu**2 * K
    return np.array(out)


def sech2(z):
    return 1 / np.cosh(np.clip(z, -300, 300)) ** 2


PLAIN = [  # φ, its loop, σ_w, σ_b, μ, exponent in l (None: exponential), constant of log l or of l
    ("tanh", (np.tanh, sech2), "2", "0.1", 0),
    ("tanh", (np.tanh, sech2), "1/2", "0.1", 0),
    ("tanh", (np.tanh, sech2), "1/2", "0", 0),
    ("tanh", (np.tanh, sech2), "1", "0", 0),
    ("tanh", (np.tanh, sech2), "3/2", "0.3", "1/2"),
    ("relu", (lambda z: np.maximum(z, 0), lambda z: np.sqrt(np.heaviside(z, 0.5))), "sqrt(2)", "1", 0),
    ("relu", (lambda z: np.maximum(z, 0), lambda z: np.sqrt(np.heaviside(z, 0.5))), "2", "1", 0),
    ("relu", (lambda z: np.maximum(z, 0), lambda z: np.sqrt(np.heaviside(z, 0.5))), "1", "1", 1),
]


@pytest.mark.slow_with("tanh-loop0-2-0.1-0", "tanh-loop4-3/2-0.3-1/2")
@pytest.mark.parametrize(("phi", "loop", "sigma_w", "sigma_b", "mu"), PLAIN)
def test_the_law_off_and_at_criticality(phi, loop, sigma_w, sigma_b, mu):
    """Exponential in the depth off criticality, by either sign of log χ; a power or bounded at it."""
    skip = {"mu": mu} if mu else {}
    law = mf.derive(phi, **skip).depth_law("fisher", sigma_w=sigma_w, sigma_b=sigma_b).growth
    rows = spread_of(*loop, float(sp.sympify(sigma_w)), float(sp.Rational(sigma_b)), float(sp.Rational(mu)), 400)
    told = law.log_at(math.log(400), leading=True) - law.log_at(math.log(200), leading=True)
    assert abs(rows[399] - rows[199] - told) < 0.02 * max(1.0, told) + 0.01
    wrong = law * regular(1, "1/50")
    told = wrong.log_at(math.log(400), leading=True) - wrong.log_at(math.log(200), leading=True)
    if not law.stretched:
        assert abs(rows[399] - rows[199] - told) > 0.01
    assert bool(law.stretched) == (abs(rows[399] - 2 * rows[199]) < 0.2 * rows[199] > 1)


@pytest.mark.slow
def test_networks_have_the_diagonal():
    """Mean squared gradients per entry of networks of width 200, in either phase: the ratio of the theory's, which
    grows with the depth as the law says."""
    for sigma_w, sigma_b in ((6**0.5, 0.1**0.5), (0.5**0.5, 0.1**0.5)):
        at, depth = {"sigma_w": sigma_w, "sigma_b": sigma_b}, 12
        run = mf.measure("tanh", **at, width=200, depth=depth, networks=60, quantities=("G_w", "G_b"))
        exact = mf.derive("tanh").propagate(**at, depth=depth, quantities=("G_w", "G_b"))
        found = []
        for name in ("G_w", "G_b"):
            one = run.estimate(name)
            per = run.fan_ins[1:, 0] if name == "G_w" else 1
            found.append(one.mean[1:, 0] / per)
        wide = np.array([exact.G_w[1:, 0], exact.G_b[1:, 0]])
        ratio, limit = (np.log(np.max(x) / np.min(x)) for x in (np.array(found), wide))
        assert abs(ratio - limit) < 0.25 + 0.05 * limit and limit > 3
        law = mf.derive("tanh").depth_law("fisher", sigma_w=str(sigma_w), sigma_b=str(sigma_b)).growth
        assert abs(limit / (depth * float(law.stretched[0][1])) - 1) < 0.35


# ------------------------------------------------------------------------------------------------------------- orders


def test_orders_of_laws():
    """By the largest term of log X, whatever its form; what is not known is not decided."""
    none, V = At({}), sp.Rational(1, 2)
    slow, stretched = exponential(1, 0, sp.Rational(1, 2)), exponential(2, sp.Rational(1, 2))
    product = Growth((), ((sp.S.One, V, sp.S.One),), None)  # exp(2 √l + …)
    assert compared(regular(1, "1/10"), slow, none) == 1 and compared(slow, regular(1, 0, 5), none) == 1
    assert compared(regular(1, 7), stretched, none) == -1 == compared(stretched, product * product, none)
    assert compared(product, product.times(sp.Integer(2)), none) == 0 == compared(regular(3, 1), regular(1, 1), none)
    assert compared(product * regular(1, -3), exponential(1, "1/3"), none) == 1
    assert compared(exponential(-1, 1), regular(1, -9), none) == -1
    for one, other in ((product, stretched), (exponential(1, 1, leading=True), exponential(1, 1))):
        with pytest.raises(MeanFieldError, match="not derived"):
            compared(one, other, none)
    # l^β against 1 where β may be 0
    beta = sp.Symbol("beta", positive=True)
    cell = Cell((beta,), (), (Affine((Fraction(1),), Fraction(0)),))
    with pytest.raises(CellSplit, match="beta"):
        direction(regular(1, beta), cell)
    assert direction(regular(1, -beta) * exponential(1, 0, sp.Rational(1, 2)), At({beta: sp.S.One})) == -1


def test_bad_input_is_a_sentence():
    for theory, given, words in (
        (mf.derive("tanh", norm="pre"), {"sigma_w": 1, "sigma_b": 0}, "LayerNorm"),
        (mf.derive("step"), {"sigma_w": 1, "sigma_b": 1}, "infinite"),
        (full("tanh"), {}, "give them numbers"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            theory.depth_law("fisher", **given)
    (row,) = mf.derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=0).phase_table(
        "fisher", sigma_w=1, sigma_b=0
    )
    assert row["fisher"].leading and "fisher ~ exp(" in str(row) and r"\frac{\max" in row.latex()
