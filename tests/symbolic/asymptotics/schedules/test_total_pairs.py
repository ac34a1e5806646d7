"""Two inputs of networks whose variances fall with the number of blocks: distance, γ and the equations of K_ab against
a flow in log l whose σ² are σ² L^-δ, at log L of hundreds."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
import sympy as sp
from sympy.core.function import AppliedUndef

import meanfield as mf
from meanfield import MeanFieldError
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, c_0, h, k, t
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, regular
from meanfield.symbolic.averages.node import Average
from tests.oracles.pair_flow import follow_pair_logs
from tests.symbolic.asymptotics.schedules.test_pair_laws import KIND
from tests.symbolic.asymptotics.schedules.test_total_depth import BETAS, SIGMAS, TOTALS, laws, place, theory

NAMES = ("K", "distance", "gamma")
GAUSS = {  # ⟨φ_aφ_b⟩ of two inputs of variance q and covariance x
    "relu": lambda q, x: (
        (math.sqrt(max(q * q - x * x, 0)) + (math.pi - math.acos(min(x / q, 1.0))) * x) / (2 * math.pi)
    ),
    "erf": lambda q, x: 2 / math.pi * math.asin(2 * x / (1 + 2 * q)),
    "sin": lambda q, x: -math.exp(x - q) * math.expm1(-2 * x) / 2,
}


def judged(phi: str, beta, total, size, far: float, shares) -> np.ndarray:
    """Rows (log K, log distance, log γ) at log L = far and l = e^share L, increasing."""
    with np.errstate(divide="ignore"):
        logs = np.log([float(s) for s in size]) - far * np.array([float(d) for d in total])
    stops = far + np.asarray(shares)
    first = min(20_000, int(math.exp(min(stops[0], 20.0)) / 2))
    b = np.array([float(x) for x in beta])
    K, ratio, both = follow_pair_logs(KIND[phi], logs, b, 1.0, 0.5, stops, 0.02, first).T
    c = np.where(ratio < -0.1, np.log1p(-np.exp(np.minimum(ratio, -0.1)) / 2), both - K)
    return np.array([K, K + ratio, c + math.log(2) - ratio]).T


def at(phi: str, *where):
    """The one behaviour at a place."""
    (way,) = laws(phi, "", *where, quantities=NAMES)
    return way


def far_for(law) -> float:
    """log L where stretched terms are large, and what the judge multiplies are doubles still."""
    steep = [max(60.0, 60 / float(key[0])) for key, _ in law.stretched if key[0] != 0]
    power = [] if law.leading else [500 / float(abs(law.power_of(0)))] if law.power_of(0) != 0 else []
    return min([250.0, *steep, *power])


def assert_law(name: str, law, phi: str, *where) -> None:
    """log X between log L = far/2 and far at t = 1/e and 1: the power of L to 0.06/125, constants to 3 %."""
    far, column = far_for(law), NAMES.index(name)
    low = judged(phi, *where, far / 2, [-0.92 * far / 2, -1.0, 0.0])
    high = judged(phi, *where, far, [30 - far, -1.0, 0.0])
    early = dict(zip(NAMES, np.exp(np.minimum(high[0], 700))))
    start = {K_0: early["K"], c_0: early["gamma"] / (1 + early["gamma"])}
    for n, share in ((1, -1.0), (2, 0.0)):
        here, there = low[n, column], high[n, column]
        if law.leading:
            key, _ = law.terms[0]
            grown, expected, most = math.log(there / here), float(key[0]) * far / 2 + float(key[1]) * math.log(2), 0.1
        else:
            grown, most = there - here, 0.1 if law.power_of(1) else 0.06  # beside log L a start falls slowly
            expected = float(law.power_of(0)) * far / 2 + float(law.power_of(1)) * math.log(2)
            plain = law.constant is not None and not law.constant.has(AppliedUndef, CONSTANT)
            if plain and law.power_of(1) == 0:
                constant = float(sp.N(law.constant.subs({t: math.exp(share), **start})))
                value = float(law.power_of(0)) * far + math.log(constant)
                assert abs(there - value) < 0.03, f"{name} is not {law.text()}: {there}, not {value}"
        assert abs(grown - expected) < most, f"{name} does not grow as {law.text()}: {grown}, not {expected}"


def side(phi: str, rhs: sp.Expr):
    """The right side of the equation of h as a function of t, k, h; averages by closed forms of their own."""
    kk, hh = sp.symbols("kk hh", positive=True)
    swap = {k(t): kk, h(t): hh}
    nodes = sorted(rhs.atoms(Average), key=str)
    A = sp.symbols(f"A:{len(nodes) + 1}", positive=True)
    whole = sp.lambdify((t, kk, hh, *A), rhs.xreplace(dict(zip(nodes, A))).xreplace(swap), "mpmath")
    inner = [sp.lambdify((t, kk, hh), [x.xreplace(swap) for x in n.args[1][:2]]) for n in nodes]
    return lambda s, x, y: float(whole(s, x, y, *[GAUSS[phi](*f(s, x, y)) for f in inner], 0).real)


def assert_equation(way, phi: str, *where) -> None:
    """h of the flow changes as its equation says, from t = 1/20 to 1, and starts where it says."""
    kappa, far = float(way["K"].exponent), 250.0
    shares = np.linspace(-3.0, 0.0, 61)
    rows = judged(phi, *where, far, [-0.7 * far, *shares])
    K = np.exp(rows[:, 0] - kappa * far)
    values = K - np.exp(rows[:, 1] - kappa * far) / 2
    pairs = {one.lhs: one.rhs for one in way.limit}
    if kappa == 0:
        assert pairs[h(0)] == c_0 * K_0
    f = side(phi, pairs[h(t).diff(t)])
    rates = np.array([f(s, x, y) for s, x, y in zip(np.exp(shares), K[1:], values[1:])])
    weights = (shares[1] - shares[0]) / 3 * np.array([1, *[4, 2] * 29, 4, 1])
    expected, change = float(np.sum(weights * rates * np.exp(shares))), values[-1] - values[1]
    assert abs(expected / change - 1) < 5e-3, f"h changes by {change}, not {expected}: {way.regime}"


def assert_pair(way, phi: str, *where) -> int:
    for name, law in way.laws:
        if name != "K" and not (law.constant is not None and law.constant.has(h)):
            assert_law(name, law, phi, *where)
    if any(one.lhs == h(t).diff(t) for one in way.limit):
        assert_equation(way, phi, *where)
    return len(way.laws) - 1


def draws(number: int, seed: int):
    """Places with laws in L, those that are open left out."""
    draw, out = random.Random(seed), []
    while len(out) < number:
        one = (draw.choice(tuple(KIND)), *place(draw))
        try:
            way = at(*one)
        except (MeanFieldError, ValueError):
            continue
        if way.laws and way["K"].of.name == "L" and "add nothing" not in way.regime:  # laws in l, below
            out.append((one, way))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_more_pairs_follow_the_flow(seed):
    found = draws(100, 90 + seed)
    assert sum(assert_pair(way, *one) for one, way in found) > 185
    assert sum(any(e.lhs == h(t).diff(t) for e in way.limit) for _, way in found) > 2


HALF = Fraction(1, 2)
PLACES = {  # every kind of answer, met on purpose
    "K outgrows a distance that J moves": ("erf", (0, HALF, 0, 0), (HALF, 0, 0, 1), (2, 1, 1, 1)),
    "a source, and tails that saturate": ("erf", (0, 0, 0, 0), (HALF, 0, Fraction(1, 4), 0), (1, 2, 1, 1)),
    "feedback alone": ("erf", (0, 0, 0, 0), (HALF, 0, 0, 0), (1, 2, 0, 1)),
    "feedback and a source": ("erf", (0, 0, 0, 0), (HALF, 0, HALF, 0), (1, 2, 1, 1)),
    "waves": ("sin", (0, 0, 0, 0), (HALF, 0, HALF, 0), (1, 2, 1, 1)),
    "waves beside a source": ("sin", (0, 0, 0, 0), (HALF, 0, Fraction(1, 4), 0), (1, 2, 1, 1)),
    "K beyond every power": ("relu", (0, 0, 0, 0), (HALF, 0, 2, 0), (1, 2, 1, 1)),
    "K beyond every power, by a source first": (
        "relu", (0, 0, 0, 0), (Fraction(3, 4), 0, Fraction(1, 8), 0), (1, 2, 1, 1)
    ),
    "K beyond every power, a source forgotten": ("relu", (0, 0, 0, 0), (Fraction(3, 4), 0, HALF, 0), (1, 2, 1, 1)),
    "all of order 1": ("relu", (HALF, 0, HALF, 0), (HALF, 0, HALF, 0), (1, 2, 1, 1)),
    "V = 1, a source with L that adds nothing": ("erf", (HALF, HALF, 2, 0), (0, 0, HALF, 0), (2, 1, 1, 1)),
    "q falls, the branch is linear": ("erf", (0, 0, 0, 0), (HALF, HALF, 1, 1), (2, 1, 1, 1)),
}  # fmt: skip


@pytest.mark.slow_with("K outgrows a distance that J moves")
@pytest.mark.parametrize("kind", PLACES)
def test_kinds_of_answers(kind):
    """Each follows the flow; a power moved by 0.02 and a constant off by 5 % do not."""
    one = PLACES[kind]
    way = at(*one)
    assert assert_pair(way, *one) == 2
    for name in NAMES[1:]:
        law = way[name]
        if law.leading or (law.constant is not None and law.constant.has(h)):
            continue
        wrong = [law * regular(1, "1/50")]
        if law.constant is not None and not law.constant.has(AppliedUndef, CONSTANT):
            wrong.append(law * regular("21/20"))
        for bad in wrong:
            with pytest.raises(AssertionError, match=r"is not|does not grow as"):
                assert_law(name, bad, *one)


def test_how_c_dies_is_told_where_K_has_one_law():
    """K_ab starts to fall behind K where K starts to grow: not where a source makes K grow first, l ~ L^(1/2)."""
    place = (0, 0, HALF, 0), (Fraction(1, 4), 0, 0, 0)
    alone, after = (at("erf", *place, (1, 2, a, 0)) for a in (0, 1))
    assert alone["distance"].terms == after["distance"].terms
    assert "gamma" in dict(alone.laws) and "gamma" not in dict(after.laws)


def test_an_equation_that_is_wrong_is_seen():
    one = PLACES["all of order 1"]
    way = at(*one)
    assert_equation(way, *one)
    bad = [
        sp.Eq(e.lhs, e.rhs * sp.Rational(51, 50), evaluate=False) if e.lhs == h(t).diff(t) else e for e in way.limit
    ]
    with pytest.raises(AssertionError, match="h changes by"):
        assert_equation(type(way)(way.laws, way.regime, way.basin, tuple(bad)), *one)


def test_without_totals_the_laws_are_those_in_l():
    """The row total_v = 0 of a table in L, beside the law without totals."""
    fixed = dict(zip(BETAS, (0, Fraction(1, 4), 2, 2))) | dict.fromkeys(SIGMAS, 1)
    row = theory("erf").phase_table(*NAMES, **fixed, **dict.fromkeys(TOTALS[1:], 0)).at(total_v=0)
    (plain,) = theory("erf").phase_table(*NAMES, **fixed, **dict.fromkeys(TOTALS, 0))
    for name in NAMES:
        assert row[name].of.name == "L" and plain[name].of.name == "l"
        assert (row[name].map(lambda e: sp.sympify(e).subs(t, 1)) / plain[name]).terms == ()


@pytest.mark.slow
def test_sources_that_add_nothing_add_nothing():
    """V = 1 with no L in the weights: the laws are those in l without sources that fall with L, which are judged to
    block e^10000 with the others in l; here the flow with them grows as that without them."""
    from tests.symbolic.asymptotics.schedules.test_total_marginal import marginal_place

    draw, found = random.Random(5), 0
    while found < 60:
        phi, (beta, total, size) = draw.choice(tuple(KIND)), marginal_place(draw)
        try:
            way = at(phi, beta, total, size)
        except (MeanFieldError, ValueError):
            continue
        if "add nothing" not in way.regime or "distance" not in dict(way.laws):
            continue
        found += 1
        early = [0 if d else s for s, d in zip(size, total)]
        (plain,) = laws(phi, "", beta, (0, 0, 0, 0), early, quantities=NAMES)
        names = [name for name, _ in way.laws]
        for name in names:
            assert way[name].power_of(0) == plain[name].power_of(0)
            assert way[name].power_of(1) == plain[name].power_of(1)
        rows = [[judged(phi, beta, total, s, far, [0.0])[0] for far in (125.0, 250.0)] for s in (size, early)]
        grown = [b - a for a, b in rows]
        for name in names:
            n = NAMES.index(name)
            assert abs(grown[0][n] - grown[1][n]) < 0.06, (phi, beta, total, size, name, grown)


def test_a_table_of_two_inputs():
    """Totals as symbols: rows where the distance stays, grows with K, or as J."""
    values = dict.fromkeys(BETAS, 0) | {"total_b": 0, "sigma_b": 0} | {TOTALS[1]: 0}
    table = theory("erf").phase_table("K", "distance", "gamma", **values)
    for total_v, total_a, power in (("2", "1/2", 0), ("1/2", "1/4", "1/4"), ("1/2", "2", "1/2")):
        row = table.at(total_v=total_v, total_a=total_a)
        assert row["distance"].exponent == sp.Rational(power), (total_v, total_a, row)


SHAPES = {
    "a source": ("erf", {"total_v": 1}, {"sigma_a": 1}, 0.02),
    "waves": ("sin", {"total_v": "1/2"}, {"sigma_a": 0}, 0.02),
    "an odd power": ("erf", {"total_v": "1/2"}, {"sigma_a": 0}, 0.05),
}


@pytest.mark.slow_with("waves")
@pytest.mark.parametrize("which", SHAPES)
def test_gamma_of_unknown_size_keeps_its_shape_in_t(which):
    """γ = C·f(t)·L^p, whose C no block before knows: t was lost in it. Against 8000 blocks; control: no f(t)."""
    phi, scheduled, sigma_a, near = SHAPES[which]
    theory, depth = mf.derive(phi, architecture="full_residual", **scheduled), 8000
    at = {"sigma_v": 1, "sigma_w": 1, "sigma_b": 0, **sigma_a}
    law = theory.depth_law("gamma", correlation=0.3, **at)
    gamma = np.asarray(theory.propagate(depth=depth + 1, correlation=0.3, quantities=("gamma",), **at).gamma)
    found = gamma[[depth // 4, depth // 2]] / gamma[depth]
    told = [float(law.at(depth, C=1, t=t) / law.at(depth, C=1, t=1)) for t in (0.25, 0.5)]
    np.testing.assert_allclose(told, found, rtol=near)
    assert abs(found[0] - 1) > 4 * near, "control"


@pytest.mark.fast_with("scheduled0-1 + exp(-z**2)", "scheduled1-1 + exp(-z**2)")
@pytest.mark.parametrize("phi", ["erf(z)**2", "abs(tanh(z))", "1 + exp(-z**2)"])
@pytest.mark.parametrize("scheduled", [{"beta_v": "1/3"}, {"total_v": "1/2"}])
def test_tails_of_one_constant_say_no_law_of_two_inputs(phi, scheduled):
    """κ(c) = 1 has no root below 1: a number next to 1 was printed, so that γ was 2e18."""
    theory = mf.derive(phi, architecture="full_residual", **scheduled)
    at = {"sigma_v": 1, "sigma_w": 1, "sigma_a": 0, "sigma_b": 0}
    for quantity in ("distance", "gamma"):
        with pytest.raises(mf.MeanFieldError, match="tends to one number on both sides"):
            theory.depth_law(quantity, correlation=0.3, **at)
    run = theory.propagate(depth=2000, correlation=0.3, quantities=("c",), **at)
    assert 0.01 < 1 - run.c[-1] < 1 - run.c[200], "control: c tends to 1, slowly"
