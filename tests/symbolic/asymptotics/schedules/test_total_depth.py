"""Laws in L at l = tL of networks whose variances fall with the number of blocks: the laws and the limiting equations
against a flow in log l whose σ² are σ² L^-δ, at log L of hundreds."""

import math
import random
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import sympy as sp
from scipy.integrate import solve_ivp
from scipy.special import erf

import meanfield as mf
from meanfield import Dense, LayerNorm, MeanFieldError, Nonlinearity, Residual, Schedule, Sequential
from meanfield.base.symbols import L
from meanfield.symbolic.asymptotics.in_total_depth.total_equations import K_0, c_0, h, j, k, t
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, regular
from meanfield.symbolic.averages.node import Average
from tests.oracles.flow import follow_logs
from tests.symbolic.asymptotics.schedules.test_phase_tables import BETAS, PHI, SIGMAS, tables

TOTALS = tuple(name.replace("beta", "total") for name in BETAS)
NORMS = {"": 0, "first": 1, "inner": 2}


@cache
def theory(phi: str, norm: str = "") -> mf.Theory:
    w, b, v, a = (Schedule(f"sigma_{x}", f"beta_{x}", total=f"total_{x}") for x in "wbva")
    inner, nonlinearity, last = Dense(sigma_w=w, sigma_b=b), Nonlinearity(phi), Dense(sigma_w=v, sigma_b=a)
    chain = {
        "": (inner, nonlinearity, last),
        "first": (LayerNorm(), inner, nonlinearity, last),
        "inner": (inner, LayerNorm(), nonlinearity, last),
    }[norm]
    return mf.derive(architecture=Residual(Sequential(chain)))


def place(draw: random.Random):
    """(β's, δ's, σ²'s), on boundaries on purpose."""
    q = draw.choice([1, 2, 2, 4, 5])
    beta, total = (
        [Fraction(draw.randint(0, q + 1), q) if draw.random() < 0.6 else Fraction(0) for _ in range(4)] for _ in "bt"
    )
    where = draw.random()
    if where < 0.2:
        total[0] = max(Fraction(0), 1 - beta[0])
    elif where < 0.4:
        total[1] = max(Fraction(0), 1 - beta[0] - beta[1] - total[0])
    elif where < 0.5:
        total[2] = max(Fraction(0), 1 - beta[2])
    size = [draw.choice([Fraction(1), Fraction(2), Fraction(1, 2)]) for _ in range(4)]
    return beta, total, [0 if i > 1 and draw.random() < 0.3 else s for i, s in enumerate(size)]


def numbers(beta, total, size) -> dict:
    sigmas = {n: f"sqrt({s})" for n, s in zip(SIGMAS, size)}
    return dict(zip(BETAS, beta)) | dict(zip(TOTALS, total)) | sigmas


def laws(phi: str, norm: str, *where, quantities=("K", "K[1]", "J")):
    (row,) = theory(phi, norm).phase_table(*quantities, **numbers(*where)).rows
    return row.regimes


def judged(phi: str, norm: str, beta, total, size, far: float, shares) -> np.ndarray:
    """Rows (log K, log q, log J) at log L = far and l = e^share L, increasing."""
    with np.errstate(divide="ignore"):
        logs = np.log([float(s) for s in size]) - far * np.array([float(d) for d in total])
    stops = far + np.asarray(shares)
    first = min(20_000, int(math.exp(min(stops[0], 20.0)) / 2))
    return follow_logs(*tables(phi), logs, np.array([float(x) for x in beta]), 1.0, stops, 0.05, NORMS[norm], first)


def assert_law(name: str, law, low, high, start: float, far: float, share: float) -> None:
    """log X between log L = far/2 (low) and far (high), and its constant, where these are numbers."""
    swap = {t: math.exp(share), K_0: start}
    unknown = {k(t), j(t), CONSTANT}
    if law.leading:
        key, c = law.terms[0]
        power, logs = float(key[0]), float(key[1])
        grown, expected, most = math.log(high / low), power * far / 2 + logs * math.log(2), 0.1
        if not c.has(*unknown):
            at = float(sp.N(c.subs(swap))) * math.exp(power * far) * far**logs
            assert abs(high / at - 1) < 0.1, (name, law.text(), high, at)
    else:
        grown, most = high - low, 0.06
        expected = float(law.power_of(0)) * far / 2 + float(law.power_of(1)) * math.log(2)
        expected += sum(float(c) * (far ** float(p[1]) - (far / 2) ** float(p[1])) for p, c in law.stretched)
        plain = law.constant is not None and not law.stretched and not law.constant.has(*unknown)
        if plain:
            at = float(law.power_of(0)) * far + float(law.power_of(1)) * math.log(far)
            at += math.log(float(sp.N(law.constant.subs(swap))))
            falls = law.power_of(1) != 0 and abs(high - at) < min(0.3, 0.95 * abs(low + expected - at))
            assert abs(high - at) < 0.03 or falls, (name, law.text(), high, at)  # as a power of log L
    assert abs(grown - expected) < most, (name, law.text(), grown, expected)


def assert_moves(name: str, law, rows: np.ndarray, shares) -> None:
    """How a law with an unknown constant depends on t, at log L = far."""
    c = law.constant
    if law.leading or c is None or not c.has(CONSTANT) or c.has(k, j):
        return
    last, first = (c.subs({CONSTANT: 1, K_0: 1, t: math.exp(s)}) for s in (shares[1], shares[0]))
    most = 0.03 if not (law.power_of(1) or law.stretched) else 0.1
    gap = float(sp.N(sp.log(last / first)))
    assert abs(rows[1] - rows[0] - gap) < most, (name, law.text(), rows, gap)


def assert_laws(ways, phi: str, norm: str, *where) -> int:
    """One of the ways is what the flow does; how many laws were judged. K_0 is what the first blocks leave."""
    missed = []
    for way in ways:
        try:
            for name, law in way.laws:
                if law.of.name != "L":
                    continue
                steep = [60 / float(key[0]) for key, _ in law.stretched if key[0] != 0]
                far = min([1000.0, *(max(60.0, x) for x in steep)])
                shares = [-0.92 * far / 2, -1.0, 0.0]
                low = judged(phi, norm, *where, far / 2, shares)
                high = judged(phi, norm, *where, far, [-0.96 * far, -1.0, 0.0])
                for n in (1, 2):
                    column = ("K", "K[1]", "J").index(name)
                    start = math.exp(min(high[0, 0], 700.0))
                    assert_law(name, law, low[n, column], high[n, column], start, far, shares[n])
                if not law.constant or not law.constant.has(sp.Add):
                    assert_moves(name, law, high[1:, column], shares[1:])
            return len(way.laws)
        except AssertionError as error:
            missed.append((way.regime, error))
    raise AssertionError(f"no way is the flow: {missed}")


def draws(number: int, seed: int, names):
    draw = random.Random(seed)
    return [(draw.choice(names), draw.choice(["", "", "", "first", "inner"]), *place(draw)) for _ in range(number)]


@pytest.mark.slow
def test_laws_follow_the_flow():
    found = 0
    for one in draws(4, 1, ("tanh", "relu")):
        found += assert_laws(laws(*one), *one)
    assert found > 8


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_more_laws_follow_the_flow(seed):
    found = 0
    for one in draws(120, 60 + seed, tuple(PHI)):
        found += assert_laws(laws(*one), *one)
    assert found > 200


@pytest.mark.slow
def test_laws_with_log_L_follow_the_flow():
    """Sums that every scale of l has a share in, and a linear feedback that multiplies them."""
    for phi, norm, beta, total in (
        ("tanh", "", (0, 0, 1, 0), (1, 0, 0, 0)),
        ("relu", "", (0, 0, 1, 0), (1, 0, 0, 1)),
        ("relu", "first", (Fraction(1, 2), 0, 1, 0), (1, 1, 0, 1)),
    ):
        one = (phi, norm, beta, total, (1, 2, 1, 1))
        (way,) = laws(*one)
        assert way["K"].power_of(1) == 1 and assert_laws([way], *one) == 3


CONTROL = ("tanh", "", (0, 0, 0, 0), (Fraction(1, 2), Fraction(1, 4), 2, 2), (1, 2, 1, 1))


@pytest.mark.parametrize("name", ["K", "K[1]", "J"])
def test_a_law_that_is_wrong_is_seen(name):
    """An exponent moved by 0.02, a constant off by 5 %, a logarithm too many."""
    (way,) = laws(*CONTROL)
    assert_laws([way], *CONTROL)
    if name == "J":
        (key, c), *_ = way["J"].terms
        moved = [{(key[0] + sp.Rational(1, 50), *key[1:]): c}, {key: 1.2 * c}, {(key[0], 1, *key[2:]): c}]
        wrong = [type(way["J"])(tuple(terms.items()), (), None, True, way["J"].of) for terms in moved]
    else:
        wrong = [way[name] * by for by in (regular(1, "1/50"), regular("21/20"), regular(1, 0, 1))]
    for law in wrong:
        planted = tuple((n, law if n == name else g) for n, g in way.laws)
        with pytest.raises(AssertionError, match="no way is the flow"):
            assert_laws([type(way)(planted, way.regime, way.basin, way.limit)], *CONTROL)


# --------------------------------------------------------------------------------------------- limiting equations


def value(phi: str, which: int, variance: float) -> float:
    """⟨φ²⟩ (0) or ⟨φ′²⟩ (1) by a trapezoid in log |z|."""
    x = np.exp(np.arange(-60, 2.6, 0.05))
    z = math.sqrt(variance) * x
    f = PHI[phi][which]
    values = f(z) ** 2 + f(-z) ** 2 if phi != "relu" else (variance * x * x, np.ones_like(x))[which]
    return float(np.sum(np.exp(-x * x / 2) * values * x) * 0.05 / math.sqrt(2 * math.pi))


def side(phi: str, which: int, rhs: sp.Expr):
    """The right side of an equation as a function of t and k, its average by `value` up to a constant factor that
    stands before it."""
    (node,) = rhs.atoms(Average) or {None}
    x, A = sp.Symbol("x", positive=True), sp.Symbol("A", positive=True)
    whole = sp.lambdify((t, x, A), rhs.xreplace({node: A}).xreplace({k(t): x}))
    factor = 1.0
    if node is not None:
        factor = float(node.func(node.args[0], sp.Tuple(sp.S.One), *node.args[2:]).evalf(15)) / value(phi, which, 1)
    inner = sp.lambdify((t, x), sp.S.One if node is None else node.args[1][0].xreplace({k(t): x}))


    def function(at, here):
        x = float(np.ravel(here)[0])
        return float(whole(at, x, factor * value(phi, which, float(inner(at, x)))))

    return function


def assert_equations(way, phi: str, norm: str, *where) -> None:
    """k and j of the flow change as the equations say, from t = 1/20 to 1, and k starts where they say."""
    kappa = float(way["K"].exponent)
    leading = way["J"].leading
    rho = float(way["J"].terms[0][0][0]) if leading else 0.0
    logs = float(way["J"].terms[0][0][1]) if leading else 0.0
    far = 1e4 if way["K"].power_of(1) else 300.0 if not rho else min(1000.0, 200 / rho)  # a start falls as 1/log L
    shares = np.linspace(-3.0, 0.0, 61)
    rows = judged(phi, norm, *where, far, [-0.7 * far, *shares])
    at, here = np.exp(shares), np.exp(rows[1:, 0] - kappa * far)
    pairs = {one.lhs: one.rhs for one in way.limit}
    if pairs[k(0)] == K_0:
        assert kappa == 0
        early = math.exp(rows[0, 0])
        f = side(phi, 0, pairs[k(t).diff(t)])
        in_log = (lambda s, y: math.exp(s) * f(math.exp(s), y)), (-0.7 * far, 0.0)
        path = solve_ivp(*in_log, [early], rtol=1e-7, atol=1e-10, max_step=2.0).y[0, -1]
        assert abs(path / here[-1] - 1) < 2e-3, f"k ends at {path}, not {here[-1]}"
    weights = (shares[1] - shares[0]) / 3 * np.array([1, *[4, 2] * 29, 4, 1])
    changes = [(k(t).diff(t), here[-1] - here[0])]
    if j(t).diff(t) in pairs:
        scale = math.exp(rho * far) * far**logs
        changes.append((j(t).diff(t), (rows[-1, 2] - rows[1, 2]) / scale))
    for i, (left, change) in enumerate(changes):
        f = side(phi, i, pairs[left])
        rates = np.array([f(x, y) for x, y in zip(at, here)])
        expected = float(np.sum(weights * rates * at))
        assert abs(expected / change - 1) < 5e-3, f"{left} integrates to {expected}, not {change}"


def moving(number: int, seed: int, names):
    """Places where an equation is returned."""
    draw, out = random.Random(seed), []
    while len(out) < number:
        phi, norm, (beta, total, size) = draw.choice(names), draw.choice(["", "", "first", "inner"]), place(draw)
        if draw.random() < 0.6:  # everything of order 1, at l = L
            total = [max(Fraction(0), 1 - beta[0]), Fraction(0), max(Fraction(0), 1 - beta[2]), total[3]]
            beta[1] = Fraction(0)
        if draw.random() < 0.3:
            total[1] = max(Fraction(0), 1 - beta[0] - beta[1] - total[0])
        one = (phi, norm, beta, total, size)
        try:
            ways = laws(*one)
        except MeanFieldError:
            continue
        if ways[0].limit and "of J" not in ways[0].regime:
            out.append((one, ways[0]))
    return out


@pytest.mark.slow
def test_limiting_equations_follow_the_flow():
    for one, way in moving(3, 2, ("tanh", "gelu")):
        assert_equations(way, *one)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_more_limiting_equations_follow_the_flow(seed):
    for one, way in moving(60, 70 + seed, ("tanh", "relu", "gelu", "Max(0,z)**(3/4)")):
        assert_equations(way, *one)


ROOT = ("tanh", "", (0, 0, 0, 0), (1, 0, 1, 0), (2, 1, 1, 1))  # branches scaled by 1/√L


def test_an_equation_that_is_wrong_is_seen():
    """A term lost, a factor of 1.02, a power of t, another start."""
    (way,) = laws(*ROOT)
    assert_equations(way, *ROOT)
    k_, start, j_, zero = way.limit
    A = next(iter(k_.rhs.atoms(Average)))
    for bad in (
        (sp.Eq(k_.lhs, k_.rhs - 1), start, j_, zero),
        (sp.Eq(k_.lhs, k_.rhs.subs(A, A * sp.Rational(51, 50))), start, j_, zero),
        (k_, start, sp.Eq(j_.lhs, j_.rhs * t ** sp.Rational(1, 50)), zero),
        (k_, start, sp.Eq(j_.lhs, j_.rhs * sp.Rational(51, 50)), zero),
    ):
        with pytest.raises(AssertionError, match=r"integrates to|k ends at"):
            assert_equations(type(way)(way.laws, way.regime, way.basin, bad), *ROOT)


def test_networks_of_finite_depth_come_to_the_limit():
    """The 1/√L branch: compiled layers at growing L against the solved equations; what is left falls as 1/L."""
    (way,) = laws(*ROOT)
    pairs = {one.lhs: one.rhs for one in way.limit}
    rates = side("tanh", 0, pairs[k(t).diff(t)]), side("tanh", 1, pairs[j(t).diff(t)])
    first = 1.25  # K^1 = σ_w² Q0 + σ_b²
    at = solve_ivp(lambda s, y: [f(s, y[0]) for f in rates], (0, 1), [first, 0], rtol=1e-9, atol=1e-11).y[:, -1]
    layers = dict(beta_v=0, beta_w=0, beta_a=0, beta_b=0, total_v=1, total_a=1, total_w=0, total_b=0)
    values = layers | dict(sigma_v=2**0.5, sigma_a=1)
    gaps = []
    for blocks in (500, 1000, 2000):
        run = theory("tanh").propagate(
            sigma_w=1, sigma_b=1, input_norm=0.25, depth=blocks + 1, quantities=("K", "J"), **values
        )
        gaps.append([run.K[-1] - at[0], run.log_J[-1] - at[1]])
    gaps = np.abs(gaps)
    assert (gaps[-1] < 1e-3).all() and (gaps[1:] / gaps[:-1] < 0.55).all()


@pytest.mark.slow
def test_two_inputs_of_a_root_branch():
    """distance and γ of compiled layers come to the solution of their equations as 1/L; a wrong term does not."""
    (way,) = laws("erf", *ROOT[1:], quantities=("K", "distance", "gamma"))
    pairs = {one.lhs: one.rhs for one in way.limit}
    u, weights = np.polynomial.hermite_e.hermegauss(60)
    x, y = np.meshgrid(u, u)
    weights = np.outer(weights, weights) / (2 * math.pi)

    def product(q: float, between: float) -> float:
        c = between / q
        one, other = math.sqrt(q) * x, math.sqrt(q) * (c * x + math.sqrt(1 - c * c) * y)
        return float(np.sum(weights * erf(one) * erf(other)))

    (node,) = pairs[h(t).diff(t)].atoms(Average)
    A, kk, hh = sp.symbols("A kk hh", positive=True)
    swap = {k(t): kk, h(t): hh}
    (q, between, same), whole = node.args[1], pairs[h(t).diff(t)].xreplace({node: A})
    assert q == same and pairs[h(0)] == c_0 * K_0
    read = sp.lambdify((kk, hh), [q.xreplace(swap), between.xreplace(swap)])
    rate, grows = sp.lambdify((t, A), whole), side("erf", 0, pairs[k(t).diff(t)])

    def solved(factor: float) -> np.ndarray:
        def both(s, z):
            return [grows(s, z[0]), factor * rate(s, product(*read(*z)))]

        return solve_ivp(both, (0, 1), [1.25, 1.125], rtol=1e-8, atol=1e-10).y[:, -1]

    values = dict(beta_v=0, beta_w=0, beta_a=0, beta_b=0, total_v=1, total_a=1, total_w=0, total_b=0)
    run = theory("erf").propagate(
        sigma_w=1, sigma_b=1, input_norm=0.25, correlation=0.5, depth=2001, quantities=("K", "distance"),
        sigma_v=2**0.5, sigma_a=1, **values,
    )  # fmt: skip
    for factor, close in ((1.0, True), (1.02, False)):
        at = solved(factor)
        there = {name: float(law.constant.xreplace({k(t): at[0], h(t): at[1]})) for name, law in way.laws}
        assert (abs(there["distance"] / run.distance[-1] - 1) < 2e-3) == close
        assert (abs(there["gamma"] / (2 * run.K[-1] / run.distance[-1] - 1) - 1) < 2e-3) == close


# ------------------------------------------------------------------------------------------------------- tables


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["", *(pytest.param(n, marks=pytest.mark.slow) for n in ("first", "inner"))])
def test_a_table_covers_and_agrees_with_derivations_at_numbers(norm):
    made = theory("tanh", norm).phase_table("K", "J", **dict.fromkeys(BETAS, 0), total_b=0)
    draw = random.Random(4)
    for _ in range(15):
        total = [Fraction(draw.randint(0, 4), draw.choice([1, 2, 3])) for _ in range(3)] + [Fraction(0)]
        point = {s: sp.Rational(str(dict(zip(TOTALS, total))[s.name])) for s in made.tree.cell.coordinates}
        assert sum(row.region.contains(point) for row in made) == 1
        values = numbers((0, 0, 0, 0), total, (1, 1, 1, 1))
        row = made.at(**{n: v for n, v in values.items() if n not in (*BETAS, "total_b")})
        (way,) = laws("tanh", norm, (0, 0, 0, 0), total, (1, 1, 1, 1), quantities=("K", "J"))
        for name, law in way.laws:
            gap = row[name] / law
            assert all(abs(sp.N(c.subs(t, 0.4), 20)) < 1e-12 for _, c in gap.terms), (total, name, row[name], law)
        open_ = "of J" in made.at(**{s.name: v for s, v in point.items()}).regimes[0].regime
        assert ("J" in dict(row.regimes[0].laws)) == ("J" in dict(way.laws)) and (norm or not open_)
    lost = [row for row in made if row.region.contains(point)]
    assert len(lost) == 1  # without it the place would have no row


def test_a_table_knows_the_constant_of_J_that_numbers_know():
    """Behind a LayerNorm where J is made by the last blocks alone, with symbols as with numbers."""
    fixed = dict.fromkeys(BETAS, 0) | dict(total_b=0, total_a=2)
    made = theory("tanh", "inner").phase_table("K", "J", **fixed)
    rows = [row for row in made if "total_v + total_w = 1" in row.conditions()]
    half = Fraction(1, 2)
    (way,) = laws("tanh", "inner", (0, 0, 0, 0), (half, half, 2, 0), (1, 1, 1, 1))
    assert rows and {way["J"].text(), *(row["J"].text() for row in rows)} == {"exp(j(t))"}


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "gelu", "sigmoid", "Max(0,z)**(3/4)"])
def test_more_tables_agree_with_derivations_at_numbers(phi):
    made = theory(phi).phase_table("K", "J", beta_b=0, total_b=0)
    draw = random.Random(5)
    for _ in range(150):
        beta, total, _ = place(draw)
        beta[3] = total[3] = Fraction(0)
        values = numbers(beta, total, (1, 1, 1, 1))
        try:
            (way,) = laws(phi, "", beta, total, (1, 1, 1, 1), quantities=("K", "J"))
        except (MeanFieldError, ValueError):
            continue
        if way.laws and way["K"].of.name == "L":
            row = made.at(**{n: v for n, v in values.items() if n not in ("beta_b", "total_b")})
            assert dict(row.regimes[0].laws).keys() == dict(way.laws).keys()
            for name, law in way.laws:
                gap = row[name] / law
                assert all(abs(sp.N(c.subs(t, 0.4), 20)) < 1e-12 for _, c in gap.terms), (beta, total, name)


def test_without_totals_the_old_laws_are_those_at_t_1():
    for phi in ("tanh", "gelu"):
        made = theory(phi).phase_table("K", "J", **dict.fromkeys(BETAS, 0), total_w=0, total_b=0, total_a=0)
        at = made.at(total_v=0, sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=1)
        old = mf.derive(phi, architecture="full_residual").phase_table("K", "J", **dict.fromkeys(SIGMAS, 1)).rows[0]
        for name in ("K", "J"):
            gap = at[name].map(lambda e: sp.sympify(e).subs(t, 1)) / old[name]
            assert all(abs(sp.N(c)) < 1e-12 for _, c in gap.terms) and at[name].of.name == "L"


def test_one_over_root_L_is_a_row():
    """δ_v = 1 with sources that fall as fast: everything of order 1, and moving."""
    table = mf.derive("tanh", architecture="full_residual", total_v="total_v", sigma_a=0).phase_table("K", "J")
    rows = [row for row in table if "stays of order 1 and moves" in row.regimes[0].regime]
    assert [row.conditions() for row in rows] == [["total_v = 1"]]
    assert "k'(t) = sigma_v**2*<tanh(z)**2>" in str(rows[0]) and r"\frac{d}{d t} k" in rows[0].latex()
    assert [bool(table.where(K=b)) for b in ("grows", "constant", "vanishes")] == [True, True, False]


def test_depth_law_in_L():
    block = mf.derive("relu", architecture="full_residual", total_v=1, sigma_a=0, sigma_b=0)
    law = block.depth_law("K", sigma_v=1, sigma_w=1)
    assert law.expr == K_0 * sp.exp(t / 2) and law.exponent == 0 and "K_{0}" in law.latex()
    moving_ = mf.derive("tanh", architecture="full_residual", total_v=1).depth_law("J", sigma_a=0)
    assert "k'(t) =" in str(moving_) and moving_.exponent == 0


# -------------------------------------------------------------------------------------------------------- records


def test_the_record_and_its_recursion():
    made = mf.derive("tanh", architecture="full_residual", sigma_v=1, sigma_a=0, total_v=1)
    assert "/L" in str(made.recursion("K")) and "}{L}" in made.recursion("K").latex()
    run = made.propagate(sigma_w=1.2, sigma_b=0.3, depth=11)
    exact = made.one_input.only("K").iterate({"sigma_w": 1.2, "sigma_b": 0.3, "Q0": 1}, 11)[-1]["K"]
    assert abs(float(exact) - run.K[-1]) < 1e-14
    shallow = made.propagate(sigma_w=1.2, sigma_b=0.3, depth=1)
    assert shallow.K[-1] == 1.0
    assert repr(Schedule("sigma_v", "1/2", total=1)) == "Schedule(Param('sigma_v'), Fraction(1, 2), total=1)"
    assert made.source("K").count("L_")


@pytest.mark.parametrize(
    "act, words",
    [
        (lambda: Schedule(1, 0, total=-1), "total of a Schedule must be ≥ 0"),
        (lambda: Schedule(1, 0, total=float("inf")), "finite"),
        (lambda: mf.derive("tanh", architecture="full_residual", total_v="nan"), "finite"),
        (lambda: Schedule("L", 0), "fixed meaning"),
        (lambda: theory("tanh").fixed_points(sigma_w=1, sigma_b=0), "number of blocks L"),
        (lambda: theory("tanh").phase_table("K", total_v=-1), "total must be a number ≥ 0"),
        (lambda: theory("tanh").propagate(sigma_w=1, sigma_b=0, depth=9, L=3), "L is not a parameter"),
        (lambda: theory("tanh").depth_law("K"), "give them numbers"),
        (lambda: mf.derive("z**2", architecture="full_residual", total_v="1/2").phase_table("K"), "outgrows"),
        (lambda: mf.derive("step", architecture="full_residual", total_v=1).phase_table("J"), "infinite"),
        (lambda: mf.derive("tanh", architecture="full_residual", total_v=1, sigma_w="t").phase_table(), "its own"),
    ],
)
def test_bad_input_is_a_sentence(act, words):
    with pytest.raises(MeanFieldError, match=words):
        act()


@pytest.mark.slow
def test_finite_networks_of_a_root_branch():
    """K and J of branches scaled by 1/√L; 5 % in σ_v is seen."""
    sizes = dict(sigma_w=1.2, sigma_b=0.3, width=200, depth=9, networks=100)
    made = mf.derive("tanh", architecture="full_residual", sigma_v=3, sigma_a=0, total_v=1)
    report = mf.check(made, quantities=("K", "J"), **sizes)
    assert report.passed
    other = mf.derive("tanh", architecture="full_residual", sigma_v="3.15", sigma_a=0, total_v=1)
    planted = other.propagate(sigma_w=1.2, sigma_b=0.3, depth=9)
    (row,) = [r for r in report.rows if r.quantity == "K" and r.layer == 9]
    assert abs(planted.K[-1] - row.measured) > 4 * row.standard_error


@pytest.mark.slow
def test_orders_in_L():
    """Up to constant factors: one row where K grows by whatever is larger."""
    made = mf.derive("tanh", architecture="full_residual", total_v="total_v", total_a="total_a", sigma_b=0)
    assert "K = Θ(L**Max(0, 1 - total_a, 1 - total_v))" in str(made.phase_table("K").orders())
    text = str(made.phase_table("J").orders())
    assert "log J = Θ(L**" in text and "l**" not in text


@pytest.mark.slow
def test_the_command_line_knows_totals(capsys):
    from meanfield.cli.app import main

    def said(*arguments: str) -> str:
        with pytest.raises(SystemExit, match=r"^[02]$") as done:
            main([*arguments])
        found = capsys.readouterr()
        assert done.value.code in (0, 2)
        return found.out + found.err

    network = ("--architecture", "full_residual", "--decay", "v=0,w=0,a=0,b=0")
    assert "k'(t) = sigma_a**2 + sigma_v**2" in said("law", "tanh", *network, "--total", "v=1,a=1", "--quantity", "K")
    assert '"equations": [' in said("law", "tanh", *network, "--total", "v=1,a=1", "--json")
    assert "letters w, b, v, a" in said("law", "tanh", *network, "--total", "x=1")
    assert "--total is of the standard deviations" in said("derive", "tanh", "--total", "v=1")
    assert "/L" in said("derive", "tanh", "--architecture", "full_residual", "--total", "v=1")


def test_feedback_that_makes_q_of_order_1_is_no_explosion():
    """⟨φ²⟩_q → 1 at q → 0 and ~ q at q → ∞, δ_v = δ_w = ½: K ~ √L, q = Θ(1). With 1 % more of δ_v q falls."""
    made = mf.derive("abs(z)+1", architecture="full_residual", total_v="1/2", total_w="1/2", sigma_a=0, sigma_b=0)
    assert made.depth_law("K", sigma_v=1, sigma_w=1).expr == sp.sqrt(L) * k(t)
    less = mf.derive("abs(z)+1", architecture="full_residual", total_v="51/100", total_w="1/2", sigma_a=0, sigma_b=0)
    assert not less.depth_law("K", sigma_v=1, sigma_w=1).expr.has(k(t))


def test_a_root_with_an_inner_bias_of_its_order_is_solved():
    """φ = √|z|: k′ = √(2/π)·√(k/t + 1), so k = xt with x² = (2/π)(x + 1), solved here as numbers."""
    made = mf.derive("sqrt(abs(z))", architecture="full_residual", beta_w=1, total_v="1/4", total_b="1/2", sigma_a=0)
    law = made.depth_law("K", sigma_v=1, sigma_w=1, sigma_b=1).expr
    (x,) = [r for r in np.roots([1, -2 / math.pi, -2 / math.pi]) if r > 0]
    assert float(law.subs({L: 1, t: 0.3})) == pytest.approx(0.3 * x, rel=1e-12)
    other = made.depth_law("K", sigma_v=1, sigma_w=1, sigma_b="1.05").expr
    assert float(other.subs({L: 1, t: 0.3})) != pytest.approx(0.3 * x, rel=1e-2)  # the control


def followed(L: float, v: float, a: float, w: float, delta: float) -> float:
    """log J of erf at l = L by the flow in log l, of blocks with σ_v² l^{-1/2}, σ_a² L^{-δ}, σ_w², σ_b² = 1."""
    x = np.linspace(0.0, math.log(L), 40_001)
    K, log_J, h = 1.0, 0.0, x[1] - x[0]
    for u in x[:-1] + h / 2:
        size, at = math.exp(u), K
        for part in (h / 2, h):  # the middle of the step, then the step
            q = w * w * at + 1
            slope = size * (v * v * size**-0.5 * 2 / math.pi * math.asin(2 * q / (1 + 2 * q)) + a * a * L**-delta)
            at = K + slope * part
        K, q = at, w * w * (K + at) / 2 + 1
        log_J += h * v * v * w * w * math.sqrt(size) * 4 / math.pi / math.sqrt(1 + 4 * q)
    return log_J


def test_log_j_that_every_scale_of_a_level_stretch_adds_to():
    """Beyond l = L^{2δ} each e-fold of l adds the same power of L: the law was exp(C L^{δ/2}), without log L."""
    v, a, w, delta = 4 / 3, 3 / 2, 2 / 3, 1 / 3
    net = dict(beta_v="1/2", total_a="1/3", sigma_w="2/3", sigma_b=1, sigma_v="4/3", sigma_a="3/2")
    law = mf.derive("erf", architecture="full_residual", **net).depth_law("J")
    share = 2 * v**2 * w * (1 - 2 * delta) / (math.pi * a)
    assert "L**(1/6)*log(L)" in str(law) and f"{128 / 243 / math.pi - share:.9f}" == "0.000000000"
    assert "128*L**(1/6)*log(L)/(243*pi)" in str(law)
    near, far = (followed(10.0**k, v, a, w, delta) / 10 ** (k / 6) for k in (30, 60))
    slope = (far - near) / (30 * math.log(10))
    assert slope == pytest.approx(share, rel=0.02) and slope != pytest.approx(1.1 * share, rel=0.02)
