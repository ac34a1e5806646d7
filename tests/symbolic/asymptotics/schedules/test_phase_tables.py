"""Large-depth laws of residual networks with decaying variances: the partition, the laws against a flow in log l."""

import math
import random
from dataclasses import replace
from fractions import Fraction
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.special import erf, expit

import meanfield as mf
from meanfield import Dense, MeanFieldError, Nonlinearity, Param, Residual, Schedule, Sequential
from meanfield.base.storage.files import figure_of
from meanfield.symbolic.asymptotics.log_growth import Growth, log_product, regular
from tests.oracles.flow import EDGE, STEP, follow, table

BETAS = ("beta_v", "beta_w", "beta_a", "beta_b")
SIGMAS = ("sigma_v", "sigma_w", "sigma_a", "sigma_b")
PHI = {  # φ and φ′ of the judge, written apart
    "tanh": (np.tanh, lambda z: 1 / np.cosh(np.clip(z, -350, 350)) ** 2),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    "gelu": (
        lambda z: z * 0.5 * (1 + erf(z / 2**0.5)),
        lambda z: 0.5 * (1 + erf(z / 2**0.5)) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
    "sigmoid": (expit, lambda z: expit(z) * expit(-z)),
    "erf": (erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z)),
    "silu": (lambda z: z * expit(z), lambda z: expit(z) * (1 + z * expit(-z))),
    "softsign": (lambda z: z / (1 + abs(z)), lambda z: 1 / (1 + abs(z)) ** 2),
    "atan(z)": (np.arctan, lambda z: 1 / (1 + z * z)),
    "z*erf(z)": (lambda z: z * erf(z), lambda z: erf(z) + 2 * z / math.sqrt(math.pi) * np.exp(-z * z)),
    "Max(0,z)**(3/4)": (
        lambda z: np.maximum(z, 0) ** 0.75,
        lambda z: np.where(z > 0, 0.75 * np.abs(z) ** -0.25, 0),
    ),
    "z/(1+z**2)**(1/4)": (
        lambda z: z / (1 + z * z) ** 0.25,
        lambda z: (1 + z * z) ** -0.25 - 0.5 * z * z * (1 + z * z) ** -1.25,
    ),
}


def full(phi: str) -> mf.Theory:
    """Dense, φ, Dense with a skip, every σ and β a symbol."""
    w, b, v, a = (
        Schedule(Param(s), Param(e))
        for s, e in zip(("sigma_w", "sigma_b", "sigma_v", "sigma_a"), ("beta_w", "beta_b", "beta_v", "beta_a"))
    )
    inner = Dense(sigma_w=w, sigma_b=b)
    return mf.derive(architecture=Residual(Sequential((inner, Nonlinearity(phi), Dense(sigma_w=v, sigma_b=a)))))


@cache
def tables(phi: str):
    f, slope = PHI[phi]
    if phi == "relu":  # ⟨φ²⟩ = q/2, ⟨φ′²⟩ = 1/2
        half = np.full(int(2 * EDGE / STEP) + 1, math.log(0.5))
        return half, half
    return table(f, 1), table(slope, 0)


def place(draw: random.Random) -> tuple[list[Fraction], list[Fraction]]:
    """(β's, σ²'s), on boundaries on purpose."""
    q = draw.choice([1, 2, 2, 4, 5])
    beta = [Fraction(draw.randint(0, 2 * q), q) for _ in range(4)]
    where = draw.random()
    if where < 0.3:
        beta[1] = max(Fraction(0), 1 - beta[0])
    elif where < 0.5:
        beta[2] = max(Fraction(0), 1 - beta[1])
    elif where < 0.6:
        beta[2] = Fraction(1)
    elif where < 0.7:
        beta[3] = Fraction(0)
    size = [draw.choice([Fraction(1), Fraction(2), Fraction(1, 2)]) for _ in range(4)]
    return beta, [0 if i > 1 and draw.random() < 0.2 else s for i, s in enumerate(size)]


def at(phi: str, beta, size, *quantities: str):
    """The laws at one place, from the derivation at numbers."""
    fixed = dict(zip(BETAS, beta)) | {n: f"sqrt({s})" for n, s in zip(SIGMAS, size)}
    (row,) = full(phi).phase_table(*quantities, **fixed)
    return row.regimes


def _step(far: float) -> float:
    """Of log l: half of it changes no logarithm by 1e-7 (below)."""
    return 0.05 if far < 2000 else 0.1 if far == 2000 else 0.25


def judged(phi: str, beta, size, far: float) -> np.ndarray:
    """(log K, log q, log J) of the flow at log l = far/2 and far."""
    s, b = (np.array([float(x) for x in one]) for one in (size, beta))
    return follow(*tables(phi), s, b, 1.0, np.array([far / 2, far]), _step(far))


def assert_follows(ways, rows: np.ndarray, far: float) -> None:
    """One of the ways is what the flow does: log X between far/2 and far to 0.03 (3e-2 of log log l, 6e-5 of log l at
    2000), constants to 1 %, leading terms of stretched exponentials to 5 %."""
    missed = []
    for way in ways:
        wrong = []
        for i, name in enumerate(("K", "K[1]", "J")):
            law: Growth = way[name]
            low, high = law.log_at(far / 2, leading=True), law.log_at(far, leading=True)
            if law.leading:
                off, most = (abs(rows[1, i] / high - 1), 0.05)
                if law.stretched[0][0][:2] == (0, 2):  # beside (log l)², log l falls slowly: here it cancels
                    off = min(off, abs((rows[1, i] - 2 * rows[0, i]) / (high - 2 * low) - 1))
            elif law.products or any(key[0] != 0 for key, _ in law.stretched):
                off, most = abs((rows[1, i] - rows[0, i]) / (high - low) - 1), 2e-3
            else:
                off, most = abs(rows[1, i] - rows[0, i] - (high - low)), 0.03 * _logs(law) + 6e-5 * max(0.0, far - 2000)
                if law.constant is not None and not (law.power_of(1) or law.power_of(2)) and off <= most:
                    off, most = abs(rows[1, i] - high), 0.01
                if off > most and law.constant is not None and law.power_of(1) == 1:
                    off, most = abs(_beside_a_large_start(law, rows[:, i], far) - 1), 0.01
            if not off <= most:
                wrong.append((name, law.text(), float(off)))
        if not wrong:
            return
        missed.append((way.regime, wrong))
    raise AssertionError(f"no way is the flow: {missed}")


def _beside_a_large_start(law: Growth, log_x: np.ndarray, far: float) -> float:
    """The slope of X/l^e in log l over its constant, e the law's power: what is seen of C l^e log l beside D l^e, where
    D is 10^8 as large."""
    e = float(sp.N(law.power_of(0)))
    near, end = log_x[0] - e * far / 2, log_x[1] - e * far
    return math.exp(near) * math.expm1(end - near) / (far / 2) / float(sp.N(law.constant))


def _logs(law: Growth) -> float:
    """How many powers of log l and log log l are judged at once; what follows (log log l)² falls as it over √log l."""
    squares = any(key[2] != 0 for key, _ in law.stretched)
    return max(5.0 if squares else 1.0, *(abs(float(sp.N(law.power_of(k)))) for k in (1, 2)))


def far_for(ways) -> float:
    """Where to judge: exponentials leave the range of doubles early."""
    laws = [one[n] for one in ways for n in ("K", "K[1]", "J")]
    if any(law.products or (law.stretched and not law.leading and law.stretched[0][0][0] != 0) for law in laws):
        return 60.0
    if any(law.leading for law in laws):
        return 500.0
    return 1e5 if any(law.power_of(0) == 0 and law.power_of(1) for law in laws) else 2000.0


def assert_law_holds(phi: str, beta, size) -> None:
    ways = at(phi, beta, size, "K", "K[1]", "J")
    far = far_for(ways)
    assert_follows(ways, judged(phi, beta, size, far), far)


def points(number: int, seed: int, names=("tanh", "relu", "gelu")):
    draw = random.Random(seed)
    return [(draw.choice(names), *place(draw)) for _ in range(number)]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(8))
def test_laws_follow_the_flow(part):
    """At 200 random rational places, boundaries on purpose; 25 of them in the fast suite."""
    for phi, beta, size in points(25, 2000 + part, tuple(PHI)):
        assert_law_holds(phi, beta, size)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_more_laws_follow_the_flow(part):
    """2000 places in parts of 40."""
    for phi, beta, size in points(40, 100 + part, tuple(PHI)):
        assert_law_holds(phi, beta, size)


@pytest.mark.slow
def test_half_the_step_changes_nothing():
    for phi, beta, size in points(24, 5, ("tanh", "erf", "sigmoid")):
        s, b = (np.array([float(x) for x in one]) for one in (size, beta))
        for far, most in ((60.0, 1e-9), (2000.0, 1e-7), (1e5, 1e-5)):
            stops = np.array([far / 2, far])
            one, two = (follow(*tables(phi), s, b, 1.0, stops, h) for h in (_step(far), _step(far) / 2))
            assert np.allclose(one, two, rtol=most, atol=most), (phi, beta, size, far)


def test_a_logarithm_beside_a_large_start_is_seen():
    """K ~ √l (2 log l + 10^8): the flow shows the 2."""
    beta, size = (Fraction(0), Fraction(1), Fraction(1, 2), Fraction(1)), (2, 1, 2, 1)
    (way,) = at("gelu", beta, size, "K", "K[1]", "J")
    rows = judged("gelu", beta, size, 2000.0)
    assert_follows([way], rows, 2000.0)
    half = sp.Rational(1, 2)
    for wrong in (way["K"].times(sp.Rational(51, 50)), regular(2, half, 2), regular(2, sp.Rational(12, 25), 1)):
        with pytest.raises(AssertionError, match="no way is the flow"):
            assert_follows([replace(way, laws=(("K", wrong), *way.laws[1:]))], rows, 2000.0)


# ------------------------------------------------------------------------------------------------- controls


def test_a_law_that_is_wrong_is_seen():
    """An exponent moved by 0.02, a logarithm lost, a constant off by 2 %."""
    beta, size = (Fraction(2, 5), Fraction(3, 5), Fraction(1, 2), Fraction(9, 10)), (1, 1, 1, 1)
    (way,) = at("relu", beta, size, "K", "K[1]", "J")
    rows = judged("relu", beta, size, 2000.0)
    assert_follows([way], rows, 2000.0)
    for wrong in (regular(1, "1/50"), regular(1, 0, -1), regular(sp.Rational(51, 50), 0, 0)):
        name = "K" if wrong.constant == 1 else "J"
        laws = tuple((n, g * wrong if n == name else g) for n, g in way.laws)
        with pytest.raises(AssertionError, match="no way is the flow"):
            assert_follows([type(way)(laws, way.regime, way.basin)], rows, 2000.0)


def assert_partition(rows, draws) -> None:
    """Every point lies in exactly one region."""
    for point in draws:
        found = [i for i, row in enumerate(rows) if row.region.contains(point)]
        if len(found) != 1:
            raise AssertionError(f"{point} lies in {len(found)} regions: {found}")


def draws_for(made, number: int, seed: int):
    draw, coordinates = random.Random(seed), made.tree.cell.coordinates
    for _ in range(number):
        beta, size = place(draw)
        strength = size[0] * size[1]
        if draw.random() < 0.3:  # β_w = S v, where the feedback is marginal
            beta[1], beta[0] = min(strength / 2, Fraction(1)), 1 - min(strength / 2, Fraction(1))
        values = dict(zip(BETAS, beta)) | {"S": strength, "W": strength}
        yield {s: sp.Rational(str(values[s.name])) for s in coordinates}


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["relu", "tanh", "gelu", "Max(0,z)**(3/4)"])
def test_rows_cover_and_are_disjoint(phi):
    made = full(phi).phase_table("K", "J")
    assert_partition(made.rows, draws_for(made, 100, 5))
    if phi == "relu":
        for wrong in (made.rows[1:], (*made.rows, made.rows[0])):
            with pytest.raises(AssertionError, match=r"lies in . regions"):
                assert_partition(wrong, draws_for(made, 100, 5))


def _alike(one, other) -> bool:
    gap = one / other
    if (one.constant is None) != (other.constant is None) or gap.products:
        return False
    exponents = [c for _, c in gap.terms] + ([] if gap.constant is None else [gap.constant - 1])
    return all(abs(sp.N(e, 25)) < 1e-18 for e in exponents)


def assert_table_is_derivation(phi: str, made, beta, size) -> None:
    """The table's laws at a place are those of a derivation at its numbers."""
    names = {n: f"sqrt({s})" for n, s in zip(SIGMAS, size)}
    row, direct = made.at(**dict(zip(BETAS, beta)), **names), at(phi, beta, size, *made.quantities)
    assert len(row.regimes) == len(direct), (beta, size, row.regimes, direct)
    for one, other in zip(row.regimes, direct):
        assert (one.basin, one.regime) == (other.basin, other.regime)
        for name, law in one.laws:
            assert _alike(law, other[name]), (beta, size, name, law, other[name])


@pytest.mark.slow
def test_tables_are_derivations_at_numbers():
    made = {phi: full(phi).phase_table("K", "J", "G_w", "G_b") for phi in ("tanh", "relu", "gelu")}
    for phi, beta, size in points(40, 3, tuple(made)):
        if all(size):
            assert_table_is_derivation(phi, made[phi], beta, size)


@pytest.mark.slow
@pytest.mark.parametrize("phi", list(PHI))
def test_more_tables_are_derivations_at_numbers(phi):
    made = full(phi).phase_table("K", "K[1]", "J", "G_w", "G_b")
    for _, beta, size in points(400, 31, (phi,)):
        if all(size):
            assert_table_is_derivation(phi, made, beta, size)


# -------------------------------------------------------------------------------- what the paper's tables say


def exponents(law: Growth) -> tuple:
    """(power of l, power of log l) of a regular law."""
    assert law.is_regular, law
    return law.power_of(0), law.power_of(1)


def relu_rows(v, w, a, b, W):
    """[variance_variation] Theorems C.9 and C.11, corrected: exponents of (p, J, χ_w, χ_b, χ_v) over the values of the
    first layer; None for p and J where they are exponential."""
    V, U = v + w, min(v + b, a)
    if V < 1:
        return None, None, (v, 0), None, (w, 0)
    top = 0 if V > 1 else W
    if V > 1:
        p = (1 - U, 0) if U < 1 else (0, 1) if U == 1 else (0, 0)
    else:
        p = (W, 1) if W == 1 - U else (max(W, 1 - U), 0)
    if V > 1 and U < 1:
        q = max(1 - U - w, -b), 0
    elif V > 1 and U == 1:
        q = (-w, 1) if w <= b else (-b, 0)
    elif V > 1:
        q = -min(w, b), 0
    else:
        q = p[0] - w, p[1]
    return p, (top, 0), (v + top - p[0], -p[1]), (v + top, 0), (top - q[0], -q[1])


def test_relu_agrees_with_the_theorems():
    made, draw = full("relu").phase_table("K", "J", "G_w", "G_b"), random.Random(8)
    for _ in range(60):
        beta, size = place(draw)
        size = [1, 1, 1, 1] if draw.random() < 0.5 else [s or Fraction(1) for s in size]
        W = size[0] * size[1] / Fraction(2)
        if draw.random() < 0.2 and W <= 1:  # the logarithm at V = 1
            beta[0], beta[1], beta[2] = Fraction(1, 3), Fraction(2, 3), 1 - W
        row = made.at(**dict(zip(BETAS, beta)), **{n: f"sqrt({s})" for n, s in zip(SIGMAS, size)})
        p, J, w, b, v = relu_rows(*beta, W)
        if p is not None:
            assert exponents(row["K"]) == p and exponents(row["J"]) == J
            assert exponents(row["G_b[1]"] ** -1) == b
        assert exponents(row["G_w[1]"] ** -1) == w and exponents(row["G_w[2]"] ** -1) == v, (beta, W)


@pytest.mark.slow
def test_tanh_agrees_with_the_theorems():
    """C.5 to C.7 of the paper, with the constants of its specification (R27–R37)."""
    made = full("tanh").phase_table("K", "J", "G_w", "G_b")
    one = dict.fromkeys(SIGMAS, 1)
    row = made.at(beta_v=0, beta_w=0, beta_a=0, beta_b=0, **one)
    assert exponents(row["K"]) == (1, 0) and row["K"].constant == 2
    ((key, rate),) = row["J"].stretched
    assert key[0] == sp.Rational(1, 2) and abs(sp.N(rate) - 0.752252778) < 1e-8
    row = made.at(beta_v="2/5", beta_w="1/10", beta_a="2/5", beta_b=0, **one)
    assert exponents(row["K"]) == (sp.Rational(3, 5), 0) and abs(row["K"].constant - 2 / sp.Rational(3, 5)) == 0
    row = made.at(beta_v="3/5", beta_w="1/10", beta_a="3/10", beta_b="1/2", **one)  # W_t = 0
    assert row["J"].is_regular and abs(sp.N(row["J"].exponent) - 0.44501) < 1e-4
    row = made.at(beta_v=1, beta_w=0, beta_a=1, beta_b=0, **one)  # U_t = V_t = 1
    ((key, _),) = row["J"].stretched
    assert key[:2] == (0, sp.Rational(1, 2)) and exponents(row["K"]) == (0, 1)
    assert exponents(row["K"]) == (0, 1) and row["K"].constant == 2


@pytest.mark.slow
def test_no_schedule_is_the_old_law():
    """β = 0: tanh and ReLU with a skip, constants included."""
    for phi in ("tanh", "relu", "erf", "gelu"):
        block = Residual(Sequential((Nonlinearity(phi), Dense(sigma_w="7/5", sigma_b="1/2"))))
        theory = mf.derive(architecture=block)
        (row,) = theory.phase_table("K", "J")
        old = mf.derive(phi, residual=True).depth_law("K", sigma_w="7/5", sigma_b="1/2")
        lead, law = old.leading, row["K"]
        if lead.rate != 0:
            assert sp.simplify(law.terms[0][1] - lead.rate) == 0
        else:
            assert law.exponent == lead.power and sp.simplify(law.constant - lead.coefficient) == 0
        tangent = mf.derive(phi, residual=True).depth_law("J", sigma_w="7/5", sigma_b="1/2")
        assert abs(sp.N(row["J"].stretched[0][1] - tangent.rate)) < 1e-12


# -------------------------------------------------------------------------------------------------- using a table


def test_where_and_points():
    made = full("tanh").phase_table("K", "J", "G_w")
    found = made.where(J="bounded", K="grows")
    assert found and found.point is not None
    row = made.at(**found.point)
    assert row["J"].constant is None and row["J"].terms == () and row["K"].terms
    empty = full("relu").phase_table("K", "J").where(K="vanishes")
    assert not empty and str(empty) == ("empty: K grows or stays of order 1 in every row, so it vanishes nowhere")
    assert not full("tanh").phase_table("K", "J").where(J="vanishes")
    with pytest.raises(MeanFieldError, match="is not in this table"):
        made.where(Q="grows")


@pytest.mark.slow
def test_the_start_decides():
    """z·tanh z: ⟨φ²⟩_q vanishes as q², so that small starts stay small."""
    ways = at("z*tanh(z)", (Fraction(1, 4), Fraction(1, 2), 2, 2), (1, 1, 1, 1), "K", "J")
    assert {one.basin for one in ways} == {"large starts", "small starts"}
    small = judged_start("z*erf(z)", (0.25, 0.5, 2.0, 2.0), (1.0, 1.0, 0.0, 0.0), 1e-3)
    large = judged_start("z*erf(z)", (0.25, 0.5, 2.0, 2.0), (1.0, 1.0, 0.0, 0.0), 10.0)
    assert small[0] < 0 < large[0]  # log K


def judged_start(phi, beta, size, K):
    return follow(*tables(phi), np.array(size), np.array(beta), K, np.array([30.0]), 0.02)[-1]


PLACE = dict(zip((*BETAS, "sigma_w", "sigma_b"), ("1/2", "1/2", 2, 2, 1, 1)))


def test_where_q_settles_is_said_with_its_basin():
    """⟨z⁴e^{-z²}⟩_q = 3q²/(1 + 2q)^{5/2}: S times it meets q/2 at two q > 0, which touch at S = (5/3)^{5/2}/2."""
    made = full("z**2*exp(-z**2/2)")
    (row,) = made.phase_table("K", sigma_a=0, sigma_v=3, **PLACE)
    low, high = (mpmath.findroot(lambda q: 54 * q - (1 + 2 * q) ** 2.5, x) for x in (0.02, 3.6))
    above, below = row.regimes
    assert above.basin == f"K[1] between {mpmath.nstr(low, 10)} and oo at large l"
    assert below.basin == f"K[1] between 0 and {mpmath.nstr(low, 10)} at large l" and below["K"].terms == ()
    assert f"near {mpmath.nstr(high, 5)}" in str(above["K"])
    assert abs(above["K"].constant.evalf(20) - high) < 1e-12 and r"\approx 3.629" in sp.latex(above["K"].constant)
    assert r"\left[ q =" in row.latex()
    (touching,) = made.phase_table("K", sigma_a=0, sigma_v="sqrt(25/18*sqrt(5/3))", **PLACE)
    assert ["attracted from one side only" in one.regime for one in touching.regimes] == [True]
    (beside,) = made.phase_table("K", sigma_a=0, sigma_v="sqrt(25/18*sqrt(5/3))*(1 - 1/10**9)", **PLACE)
    assert not any("one side" in one.regime for one in beside.regimes)


@pytest.mark.slow
def test_a_variance_at_rest_has_the_digits_asked_for():
    """4⟨erf²⟩_q = q/2, ⟨erf²⟩_q = (4/π) arctan √(1 + 4q) - 1, in mpmath."""
    row = full("erf").phase_table("K", sigma_a=0, sigma_v=2, **PLACE).rows[0]
    with mpmath.workdps(60):
        q = mpmath.findroot(lambda q: 16 / mpmath.pi * mpmath.atan(mpmath.sqrt(1 + 4 * q)) - 4 - q / 2, 5)
        for digits in (20, 45):
            assert abs(mpmath.mpf(str(sp.N(row["K"].constant, digits))) - q) < mpmath.mpf(10) ** (2 - digits)


def test_a_place_that_attracts_from_one_side_is_refused(monkeypatch):
    """Such a place is exact only in theory: as a certificate would give it."""
    import meanfield.symbolic.asymptotics.schedules.marginal as rooms

    found = rooms.resting_points

    def one_sided(*asked):
        points = found(*asked)
        return replace(points, points=tuple(replace(p, stability="half-stable") for p in points))

    monkeypatch.setattr(rooms, "resting_points", one_sided)
    (row,) = full("z**2*exp(-z**2/2)").phase_table("K[1]", sigma_a=0, sigma_v=3, **PLACE)  # tables are kept
    assert row.regimes[0].laws == () and "from one side only" in row.regimes[0].regime


@pytest.mark.parametrize(("W", "V"), [(4.0, 0.25), (0.1, 0.5), (100.0, 0.1), (3.0, 0.99)])
def test_products_over_layers_are_summed_whole(W, V):
    """Factors far from 1, too: against the sum itself, which half of its last term completes."""
    last = 50_000
    exact = math.fsum(math.log1p(W * m**-V) for m in range(1, last)) + 0.5 * math.log1p(W * last**-V)
    assert abs(log_product(W, V, math.log(last)) - exact) < 2e-7
    assert abs(log_product(W, V, math.log(last + 1)) - exact) > 1e-3 * W * last**-V


def test_sizes_beyond_measure():
    """Γ(1 + S/2) is not worked out for a huge S: the constant stays open."""
    made = full("relu").phase_table("J")
    for size, known in ((2, True), ("10**20/7", False), (10**40, False)):
        law = made.at(beta_v="1/2", beta_w="1/2", beta_a=1, beta_b=1, S=size)["J"]
        assert law.exponent == sp.sympify(size) / 2 and (law.constant is not None) == known


def test_bad_input_is_a_sentence():
    made = full("tanh").phase_table()
    for values, words in (
        ({"beta_v": -1, "beta_w": 0, "beta_a": 0, "beta_b": 0}, "outside of the table"),
        ({"beta_v": 1}, "give"),
        ({"beta_x": 1}, "not a parameter"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            made.at(**values)
    with pytest.raises(MeanFieldError, match="switches the branch off"):
        full("tanh").phase_table(sigma_v=0)
    with pytest.raises(MeanFieldError, match="≥ 0"):
        full("tanh").phase_table(beta_v=-1)
    with pytest.raises(MeanFieldError, match="infinite"):
        full("step").phase_table("J")
    with pytest.raises(MeanFieldError, match="outgrows"):
        full("z**2").phase_table("K")
    with pytest.raises(MeanFieldError, match="Residual of strength 1"):
        mf.derive("tanh").phase_table()
    with pytest.raises(MeanFieldError, match="Unknown quantity of a phase table"):
        full("tanh").phase_table("Theta")
    assert len(full("tanh").phase_table("K", sigma_a=0, sigma_b=0)) < len(made)


def test_a_table_prints_and_draws(tmp_path):
    made = full("relu").phase_table("K", "J")
    text = str(made)
    assert "S = sigma_v**2*sigma_w**2" in text and all(len(line) <= 80 for line in text.splitlines())
    assert "beta_v + beta_w" in made.proof() and r"\ell^{" in made.latex()
    figure = figure_of(made.plot("beta_v", "beta_w", beta_a=1, beta_b=1, S=1))
    same = figure_of(made.plot("beta_v", "beta_w", beta_a=1, beta_b=1, sigma_v="1/2", sigma_w=2))
    ones = {"beta_a": 1, "beta_b": 1}
    turned = made.plot("S", "beta_w", beta_v=1, **ones), made.plot("beta_v", "S", beta_w=1, **ones)
    named = [(axes.get_xlabel(), axes.get_ylabel()) for axes in (*figure.axes, *turned)]
    assert named == [(r"$\beta_v$", r"$\beta_w$"), ("$S$", r"$\beta_w$"), (r"$\beta_v$", "$S$")]
    assert np.array_equal(same.axes[0].images[0].get_array(), figure.axes[0].images[0].get_array())
    figure.savefig(tmp_path / "map.png")
    with pytest.raises(MeanFieldError, match="numbers for the others"):
        figure_of(made.plot("beta_v", "beta_w"))


def test_depth_law_knows_schedules():
    last = Dense(sigma_w=Schedule(Param("sigma_v"), Param("beta")), sigma_b=0)
    theory = mf.derive(architecture=Residual(Sequential((Nonlinearity("tanh"), last))))
    law = theory.depth_law("J", sigma_v=1, beta="1/2")
    assert law.exponent is None and law.rate_power == sp.Rational(1, 4) and "smaller order" in str(law)
    assert theory.depth_law("K", sigma_v=1, beta="1/2").exponent == sp.Rational(1, 2)
    assert r"\log J" in law.latex()
    run = theory.propagate(sigma_w=1, sigma_b=0, sigma_v=1, beta=0.5, depth=40_000)
    assert abs(run.K[-1] / run.K[9_999] - 2) < 0.1 and run.K[-1] < 2 * math.sqrt(40_000)
    with pytest.raises(MeanFieldError, match="phase_table"):
        theory.depth_law("K", sigma_v=1)


@pytest.mark.slow_with("values3")
@pytest.mark.parametrize(
    "values", [{"sigma_a": 10**5000}, {"sigma_w": object()}, {"beta_v": [1, 2]}, {"sigma_w": 10**18, "sigma_v": 2}]
)
def test_hostile_numbers_end_in_a_sentence_or_an_answer(values):
    try:
        assert len(str(full("relu").phase_table("K", "J", **values))) > 0
    except MeanFieldError as error:
        assert len(str(error)) < 400
    with pytest.raises(MeanFieldError, match="Unknown quantity of a phase table"):
        full("relu").phase_table("z+" * 5000)
