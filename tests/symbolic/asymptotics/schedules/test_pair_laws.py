"""Large-depth laws of two inputs under schedules, against exact recursions continued as a flow in log l."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import MeanFieldError
from meanfield.symbolic.asymptotics.log_growth import regular
from meanfield.symbolic.asymptotics.schedules.balance import Correlated
from meanfield.symbolic.asymptotics.schedules.power_tails import Meeting, Tail, tail
from tests.oracles.pair_flow import follow_pair
from tests.symbolic.asymptotics.schedules.test_phase_tables import BETAS, SIGMAS, full, points

ONES = dict.fromkeys(SIGMAS, 1)
KIND = {"relu": 0, "erf": 1, "sin": 2}


def laws(phi: str, beta, size):
    names = dict(zip(("beta_v", "beta_w", "beta_a", "beta_b"), beta))
    names |= {n: f"sqrt({s})" for n, s in zip(("sigma_v", "sigma_w", "sigma_a", "sigma_b"), size)}
    (row,) = full(phi).phase_table("K", "distance", "gamma", "c", **names)
    return row.regimes


def slow(way) -> bool:
    """Whether corrections fall as powers of log l."""
    return any(law.power_of(1) != 0 for _, law in way.laws)


def flowed(phi: str, beta, size, far: float) -> dict[str, np.ndarray]:
    s, b = (np.array([float(x) for x in one]) for one in (size, beta))
    K, ratio, both = follow_pair(
        KIND[phi], s, b, 1.0, 0.5, np.array([far / 4, far / 2, far]), 0.02 if far < 1e3 else 0.1
    ).T
    c = np.where(ratio < -0.1, np.log1p(-np.exp(np.minimum(ratio, -0.1)) / 2), both - K)  # log c without a loss
    return {"distance": K + ratio, "gamma": c + np.log(2) - ratio, "c": c}


def assert_pair_follows(way, found: dict[str, np.ndarray], far: float) -> None:
    """Slopes and constants of both laws to 0.05; slopes alone, to 0.15, where corrections fall as 1/√log l. Beside a
    start that is 100 times as large a logarithm is seen by the slope of X/l^e in log l, which is steady."""
    most = 0.15 if slow(way) else 0.05
    for name, law in way.laws:
        if name == "K":
            continue
        (before, near, end), (low, high) = found[name], (law.log_at(t, leading=True) for t in (far / 2, far))
        if law.products or law.stretched:
            assert abs((end - near) / (high - low) - 1) < (0.06 if law.leading else 5e-3), (
                f"the flow's {name} does not follow {law}"
            )
            continue
        off = abs(end - near - (high - low))
        if off > most and law.power_of(1) == 1:
            e = float(sp.N(law.exponent))
            first, last = np.expm1(near - before - e * far / 4), np.expm1(end - near - e * far / 2)
            off = abs(last * np.exp(near - before - e * far / 4) / first / 2 - 1)
        assert off < most, f"the flow's {name} does not follow {law}: {found}"
        if law.constant is not None and not slow(way):
            assert abs(end - high) < most, f"the constant of {name} is not that of {law}: {found}"


def assert_pair_law(phi: str, beta, size) -> None:
    try:
        ways = laws(phi, beta, size)
    except MeanFieldError:
        return  # a boundary where the next order decides says so
    strong = beta[0] + beta[1] < 1
    far = 40.0 if strong and phi == "relu" else 1e4 if any(map(slow, ways)) or beta[0] + beta[1] == 1 else 350.0
    found = flowed(phi, beta, size, far)
    if np.isnan(found["gamma"]).any():  # below what doubles hold
        far = 350.0
        found = flowed(phi, beta, size, far)
    if strong and phi == "relu" and min(found["gamma"]) < 9:
        return  # γ = (…l^{1-V})² has not begun
    for way in ways:
        assert_pair_follows(way, found, far)


@pytest.mark.slow
def test_pairs_follow_the_flow():
    for phi, beta, size in points(14, 1, ("relu", "erf")):
        assert_pair_law(phi, beta, size)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(16))
def test_more_pairs_follow_the_flow(part):
    """800 places in parts of 50."""
    for phi, beta, size in points(50, 50 + part, ("relu", "erf")):
        assert_pair_law(phi, beta, size)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_pairs_of_waves_follow_the_flow(part):
    for phi, beta, size in points(50, 80 + part, ("sin",)):
        assert_pair_law(phi, beta, size)


@pytest.mark.slow
def test_a_source_that_ties_with_the_feedback_is_shared():
    """q → 0 where φ is linear: K ~ l^W log l by its source, which Δ ~ l^W has not."""
    beta, size = (Fraction(1, 2), Fraction(1, 2), Fraction(3, 4), Fraction(2)), (Fraction(1, 4), 1, 1, 1)
    (way,) = laws("sin", beta, size)
    assert way["K"].power_of(1) == 1 and way["distance"].power_of(1) == 0 and way["gamma"].power_of(1) == 1
    assert_pair_law("sin", beta, size)


@pytest.mark.slow
def test_waves_of_two_inputs_are_unlike():
    """sin as q → ∞: c is the share of the source, or dies as the branch sends nothing that both have."""
    for beta, size in (
        ((0, Fraction(1, 4), 0, 2), (1, 1, 1, 1)),
        ((0, Fraction(1, 4), 2, 2), (1, 1, 1, 1)),
        ((Fraction(1, 2), Fraction(1, 4), 0, 2), (1, 1, 1, 1)),
    ):
        assert_pair_law("sin", beta, size)
    (way,) = laws("sin", (0, Fraction(1, 4), 0, 2), (1, 1, 1, 1))
    assert way["gamma"].constant == 2  # K′ = 1 + 1/2


def test_a_wrong_law_of_two_inputs_is_seen():
    beta, size = (0, sp.Rational(1, 4), 2, 2), (1, 1, 1, 1)
    (way,) = laws("erf", beta, size)
    found = flowed("erf", beta, size, 600.0)
    assert_pair_follows(way, found, 600.0)
    for wrong in (regular(1, "1/5000"), regular(sp.Rational(5, 4))):
        moved = tuple((n, law * wrong if n == "distance" else law) for n, law in way.laws)
        with pytest.raises(AssertionError, match=r"^the (flow's|constant of)"):
            assert_pair_follows(type(way)(moved, way.regime, way.basin), found, 600.0)


@pytest.mark.slow
def test_limits_of_the_cosine():
    """[variance_variation] C.7: the root below 1 of e = (σ_v² (2/π) arcsin e + σ_a²)/(σ_v² + σ_a²)."""
    for share, value in (("1/2", 0.789832628373), ("1/3", 0.613828479957), ("1/11", 0.218238032502)):
        assert abs(sp.N(Meeting(0, 1, -1, share), 20) - value) < 1e-11
    made = full("tanh").phase_table("K", "gamma")
    row = made.at(
        beta_v=0, beta_w=0, beta_a=0, beta_b=0, **dict.fromkeys(("sigma_v", "sigma_w", "sigma_a", "sigma_b"), 1)
    )
    gamma = sp.N(row["gamma"].constant, 15)
    assert abs(gamma / (1 + gamma) - 0.789832628373) < 1e-11
    kernel = tail(mf.activation("relu").pieces, True).kernel(sp.Rational(19, 20))
    assert abs(sp.N(kernel, 15) - 1.43004560581 / 1.5) < 1e-11  # J_1(.95)


def test_relu_closes_in_as_the_paper_says():
    """R65 of the specification: 1 - c ~ (2(1 - V)/(k W l^{1-V}))², k = 2√2/3π."""
    row = (
        full("relu")
        .phase_table("distance", "gamma")
        .at(beta_v="1/4", beta_w="1/4", beta_a=1, beta_b=1, sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=1)
    )
    k = 2 * sp.sqrt(2) / (3 * sp.pi)
    assert row["gamma"].exponent == 1 and sp.simplify(row["gamma"].constant - (k / 2) ** 2) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "phi", ["erf", "relu", *(pytest.param(p, marks=pytest.mark.slow) for p in ("tanh", "gelu", "sin", "z*erf(z)"))]
)
def test_distance_never_outgrows_J(phi):
    """Δ^l/Δ^1 ≤ J^{1,l}."""
    theory = mf.derive(phi, architecture="full_residual", beta_v="1/4", beta_w="1/2", beta_a=1, beta_b="1/2")
    run = theory.propagate(
        sigma_w=1.3,
        sigma_b=0.4,
        sigma_v=1.1,
        sigma_a=0.3,
        depth=60,
        correlation=0.3,
        quantities=("K", "J", "distance"),
    )
    assert (run.log_distance - run.log_distance[0] <= run.log_J + 1e-12).all()


BENDS = (Fraction(2, 5), Fraction(2, 5), Fraction(1, 5), Fraction(2))  # W_t = 0: where φ bends, distances settle in q
RESTS = (Fraction(1, 2), Fraction(1, 2), Fraction(2), Fraction(2))
SLOW = (Fraction(1), Fraction(0), Fraction(2), Fraction(1))


@pytest.mark.slow_with("beta2-size2-gamma-350.0-1e-06", "beta3-size3-gamma-350.0-0.001")
@pytest.mark.parametrize(
    ("beta", "size", "name", "far", "near"),
    [
        (BENDS, (1, 1, 1, 1), "distance", 350.0, 1e-6),  # J is faster than what bends
        (BENDS, (1, Fraction(1, 100), 1, 1), "distance", 350.0, 1e-6),  # J is slower
        (RESTS, (2, 1, 1, 1), "gamma", 350.0, 1e-6),  # an odd φ at rest: K_ab/K dies by S⟨φ′⟩² - β_w
        ((*RESTS[:2], Fraction(3, 2), Fraction(1, 20)), (2, 1, 1, 1), "gamma", 350.0, 1e-3),  # or as its biases do
    ],
)
def test_rates_that_hold_averages(beta, size, name, far, near):
    (way,) = laws("erf", beta, size)
    found = flowed("erf", beta, size, far)
    slope = (found[name][2] - found[name][1]) / (far / 2)
    assert abs(slope - float(sp.N(way[name].exponent))) < near < abs(slope - float(sp.N(way[name].exponent)) + 0.02)


@pytest.mark.slow
def test_an_odd_branch_that_grows_with_log_l():
    """γ = (log l)^{2/π - 1}: K_ab lives on κ′(0) = 2/π of what K lives on; corrections fall as 1/log l."""
    (way,) = laws("erf", SLOW, (2, 1, 1, 1))
    assert way["gamma"].power_of(1) == 2 / sp.pi - 1
    slopes = []
    for far in (1e3, 1e4, 3e4):
        found = flowed("erf", SLOW, (2, 1, 1, 1), far)["gamma"]
        slopes.append((found[2] - found[1]) / np.log(2))
    assert slopes[0] < slopes[1] < slopes[2] < 2 / np.pi - 1 and slopes[2] > 2 / np.pi - 1 - 0.02


def test_the_largest_of_several_rates_is_printed():
    made = full("erf").phase_table("distance", "gamma")
    row = next(
        r for r in made for w in r.regimes for _, g in w.laws if g.exponent.has(sp.Max) and g.exponent.has(sp.pi)
    )
    assert "Max(" in str(row) and "2/pi" in str(row)
    place = dict(zip(("beta_v", "beta_w", "beta_a", "beta_b"), (0, "1/2", "1/10", 3)))
    there = made.at(**place, sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=1)
    assert there["gamma"].exponent == sp.Rational(-1, 10)


@pytest.mark.slow_with("1/4-1-0", "1/3-2--1")
@pytest.mark.parametrize(("d", "right", "left"), [(0, 1, 0), ("1/4", 1, -1), ("1/4", 1, 0), ("1/3", 2, -1), (1, 1, 0)])
def test_how_a_kernel_closes(d, right, left):
    """1 - κ(1 - ε) = k ε^{d + 1/2} (d = 1: ε less that), against the kernel itself; k off by 1 % is seen."""
    one = Tail(sp.Rational(d), sp.Integer(right), sp.Integer(left))
    (k, n), c = one.nearness(), sp.Symbol("c")
    kernel = sp.lambdify(c, one.kernel(c), "mpmath")
    with mpmath.workdps(60):
        e = mpmath.mpf(10) ** -20
        gap = abs(1 - kernel(1 - e) - (e if one.d == 1 else 0))
        ratio = gap / (mpmath.mpf(sp.N(k, 40)) * e ** mpmath.mpf(sp.N(n, 40)))
        assert abs(ratio - 1) < 1e-3


@pytest.mark.slow
def test_tails_that_rise_slower_than_a_root_behind_a_source():
    """φ = z/(1 + z²)^{3/8} ~ z^{1/4}: what K and Δ of the law are driven by, by quadrature of ⟨(φ_a - φ_b)²⟩, is what
    they grow by; a constant off by 5 % is not."""
    row = full("z/(1+z**2)**(3/8)").phase_table("K", "distance", **dict(zip(BETAS, ("7/20", 0, 0, 3))), **ONES).rows[0]
    law, K, l_ = row["distance"], row["K"], 1e60
    assert law.exponent == sp.Rational(3, 5) and K.exponent == 1
    q, gap = l_, float(sp.N(law.constant)) * l_**0.6

    def grown(gap):
        """σ_v² l^{-β_v} ⟨(φ_a - φ_b)²⟩ at q = K, by Gauss–Hermite in the mean and in log |difference|."""
        u = np.linspace(-60, np.log(8 * np.sqrt(q)), 4001)  # log |z| of the mean, wide
        z = np.exp(u)
        x, w = np.polynomial.hermite_e.hermegauss(80)
        d = np.sqrt(gap) * x[:, None]

        def f(t):
            return np.sign(t) * np.abs(t) ** 0.25

        jump = sum((f(s * z + d / 2) - f(s * z - d / 2)) ** 2 for s in (1, -1))
        inner = (w[:, None] * jump).sum(0) / np.sqrt(2 * np.pi)
        return l_**-0.35 * np.trapezoid(inner * np.exp(-(z**2) / (2 * q)) * z, u) / np.sqrt(2 * np.pi * q)

    slope = 0.6 * gap / l_
    assert abs(grown(gap) / slope - 1) < 5e-3 < abs(grown(1.05 * gap) / (1.05 * slope) - 1)


@pytest.mark.slow
def test_a_bounded_J_with_a_growing_distance_does_not_exist():
    for phi in ("tanh", "relu"):
        assert not full(phi).phase_table("J", "distance").where(J="bounded", distance="grows")
        assert full(phi).phase_table("J", "distance").where(J="bounded", distance="constant")


def test_depth_law_of_a_unit_skip():
    """K grows as a power of l and the map of c depends on it: c goes to the root."""
    theory = mf.derive("erf", residual=True)
    law = theory.depth_law("c", sigma_w=1, sigma_b="1/2")
    limit = float(sp.N(law.expr))
    assert abs(limit - float(sp.N(Meeting(0, 1, -1, "1/5")))) < 1e-12 and "0.42171444" in str(law)
    gamma = theory.depth_law("gamma", sigma_w=1, sigma_b="1/2")
    assert abs(float(sp.N(gamma.expr)) - limit / (1 - limit)) < 1e-12


@pytest.mark.slow
def test_a_unit_skip_goes_to_the_root():
    theory = mf.derive("erf", residual=True)
    limit = float(sp.N(theory.depth_law("c", sigma_w=1, sigma_b="1/2").expr))
    run = theory.propagate(sigma_w=1, sigma_b=0.5, depth=40_000, correlation=0.0, quantities=("K", "c"))
    left = [run.c[n - 1] - limit for n in (100, 10_000, 40_000)]
    assert left[0] > left[1] > left[2] > 0 and left[2] < 0.03  # falls as a small power of l


def test_the_correlation_itself():
    """c is γ where that dies, 1 where it grows, a number between; where cells are not cut, the smaller of both."""
    table = mf.derive("tanh", architecture="full_residual", beta_v="beta_v", beta_w="beta_w", beta_a=1, beta_b="1/2")
    table = table.phase_table("c", **ONES)
    w = sp.Rational(1, 4)
    (row,) = (r for r in table if "beta_v + beta_w < 1" in r.conditions())
    assert row["c"].exponent.has(sp.Min) and row["c"].constant is None
    assert sp.simplify(table.at(beta_v=2 * w, beta_w=w)["c"].exponent - (1 / sp.pi - sp.Rational(1, 2))) == 0
    assert table.at(beta_v=1, beta_w=1)["c"].constant == 1
    (rest,) = mf.derive("relu", architecture="full_residual", sigma_a=0, sigma_b=0, total_v=1).phase_table("c")
    share, at = rest["c"].constant, {"sigma_v": 1, "sigma_w": 2, "K_0": 3, "t": 1}
    two = share.subs({s: at[s.name] for s in share.free_symbols})
    assert str(two) == "h(1)*exp(-2)/3" and len(rest.regimes[0].equations) == 4  # h over k, with their equations


@pytest.mark.slow
def test_where_two_inputs_settle_beside_a_source():
    """V = 1, q → q*: c is the root below 1 of what K_ab obeys; a source off by 1 % fails."""
    beta = Fraction(1, 2), Fraction(1, 2), Fraction(1, 2), Fraction(0)
    (way,) = laws("erf", beta, (4, 1, 1, 1))
    found = flowed("erf", beta, (4, 1, 1, 1), 300.0)
    assert_pair_follows(way, found, 300.0)
    c = way["c"].constant
    assert abs(float(sp.log(sp.N(c, 15))) - found["c"][-1]) < 1e-6
    (other,) = laws("erf", beta, (4, 1, Fraction(101, 100), 1))
    assert abs(float(sp.log(sp.N(other["c"].constant, 15))) - found["c"][-1]) > 1e-4
    root = next(iter(c.atoms(Correlated))).root
    # what the ball says is checked on both sides of it
    with pytest.raises(AssertionError, match="the gap is not positive"):
        assert root._gap(mpmath.mpf(str(root.evalf(15))) + 1e-8, 15) > 0, "beyond the root the gap is not positive"
    q = root.args[4]
    x = sp.asin(2 * sp.N(c * (q - 1) + 1, 20) / (2 * sp.N(q, 20) + 1)) * 8 / sp.pi  # q c_q = c (q - 1) + 1
    assert abs(sp.N(x + sp.Rational(3, 2) - sp.N(c * (q - 1) + 1, 20) / 2)) < 1e-12


@pytest.mark.slow
def test_where_they_settle_without_a_closed_form():
    """tanh: ⟨φ_aφ_b⟩ at the root against a trapezoid rule."""
    theory = mf.derive("tanh", architecture="full_residual", beta_v="1/2", beta_w="1/2", beta_b=0, beta_a="1/2")
    law = theory.depth_law("c", sigma_v=2, sigma_w=1, sigma_a=1, sigma_b=1)
    root = next(iter(law.growth.constant.atoms(Correlated))).root
    q, c = float(root.args[4]), float(sp.N(root, 12))
    x = np.arange(-9, 9, 0.02)
    w = np.exp(-(x**2) / 2) * 0.02 / np.sqrt(2 * np.pi)
    inner = np.tanh(np.sqrt(q) * (c * x[:, None] + np.sqrt(1 - c * c) * x)) @ w
    assert abs(4 * (w * np.tanh(np.sqrt(q) * x) * inner).sum() + 1.5 - q * c / 2) < 1e-9


def test_where_q_falls_with_log_l():
    """An odd φ leaves c where it is; an even part |z|² takes it to 1/2, as (log l)^-0.2 here."""
    beta, size = (0, 1, 3, 2), (Fraction(1), Fraction(1), 0, 0)
    (way,) = laws("sin", beta, size)
    found = flowed("sin", beta, size, 1e4)
    assert way["c"].constant is None and way["c"].exponent == 0
    assert abs(found["c"][1] - found["c"][2]) < 1e-3 and found["c"][2] < np.log(0.49)
    bent = mf.derive("tanh(z) + z**2/2*exp(-z**2)", architecture="full_residual", beta_v=0, beta_w=1)
    row = bent.phase_table("K", "c", sigma_v=1, sigma_w=1, sigma_a=0, sigma_b=0).rows[0]
    assert row["c"].constant == sp.S.Half and row["K"].constant == sp.Rational(4, 5)
    x, w = np.polynomial.hermite_e.hermegauss(40)
    w, q, c, u, marks = w / w.sum(), 0.3, 0.9, 10.0, []

    def phi(z):
        return np.tanh(z) + z**2 / 2 * np.exp(-(z**2))

    while u < 1e6:
        a, b = np.sqrt(q) * x, np.sqrt(q) * (c * x[:, None] + np.sqrt(1 - c * c) * x)
        more, shared = (w * phi(a) ** 2).sum() - q, (w * phi(a) * (phi(b) @ w)).sum() - q * c
        step = 0.02 * u
        q, c, u = q + step * more, (q * c + step * shared) / (q + step * more), 1.02 * u
        marks.append((np.log(u), np.log((2 * c - 1) / (1 - c))))
    (t0, y0), (t1, y1) = marks[len(marks) // 2], marks[-1]
    assert abs((y1 - y0) / (t1 - t0) + 0.2) < 0.01
