"""Where ⟨φ²⟩_q vanishes faster than q, or ⟨φ′²⟩_q grows: sources, starts and edges, against own iteration in log l."""

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield import MeanFieldError
from meanfield.base.symbols import K
from meanfield.symbolic.asymptotics.schedules.stationary_variance import sign_of_exponentials

LETTERS = "vwab"
X, WEIGHTS = np.polynomial.legendre.leggauss(600)
X, WEIGHTS = 9 * X, 9 * WEIGHTS * np.exp(-(81 * X**2) / 2) / math.sqrt(2 * math.pi)
PHI = {"z-tanh(z)": lambda z: z - np.tanh(z), "z**2/(1+z**2)": lambda z: z**2 / (1 + z**2)}


def full(phi: str, beta=()) -> mf.Theory:
    return mf.derive(phi, architecture="full_residual", **{f"beta_{k}": b for k, b in zip(LETTERS, beta or BETAS)})


BETAS = tuple(f"beta_{k}" for k in LETTERS)


def table(phi: str, beta, size, *quantities: str):
    """At numbers; size: variances."""
    sigmas = {f"sigma_{k}": f"sqrt({s})" for k, s in zip(LETTERS, size)}
    return full(phi, beta).phase_table(*quantities, **sigmas)


def log_K(phi: str, beta, size, K: float, far: float) -> tuple[float, float]:
    """(log K, its slope in log l) at log l = far: exact steps to l = 2000, then steps of 0.01 in log l (midpoint)."""
    bv, bw, ba, bb = map(float, map(sp.Rational, beta))
    v, w, a, b = map(float, map(sp.Rational, size))

    def grown(u: float, K: float) -> float:
        q = w * math.exp(-bw * u) * K + b * math.exp(-bb * u)
        mean = float(WEIGHTS @ PHI[phi](math.sqrt(q) * X) ** 2)
        return v * math.exp(-bv * u) * mean + a * math.exp(-ba * u)

    for l in range(1, 2001):
        K += grown(math.log(l), K)
    u, y, slope, step = math.log(2000.5), math.log(K), 0.0, 0.01
    while u < far:
        half = y + step / 2 * grown(u, math.exp(y)) * math.exp(u - y)
        slope = grown(u + step / 2, math.exp(half)) * math.exp(u + step / 2 - half)
        u, y = u + step, y + step * slope
    return y, slope


@pytest.mark.slow
def test_a_rising_average_beside_a_source_rests_at_two_places():
    """z - tanh z: ⟨φ²⟩_q/q rises from 0 to 1, so that S⟨φ²⟩_q + c = d q has two roots; large starts alone escape."""
    beta, size = ("2/5", "3/5", "2/5", "1/3"), ("1/3", 2, 1, "9/2")
    (row,) = table("z-tanh(z)", beta, size, "K")
    assert {one.regime for one in row.regimes} == {"V = 1: q converges", "V = 1: q → ∞ by its feedback"}
    rest = next(one for one in row.regimes if "converges" in one.regime)["K"]
    found, slope = log_K("z-tanh(z)", beta, size, 1.0, 40.0)
    assert abs(slope - float(rest.exponent)) < 1e-3
    assert abs(found - 40 * float(rest.exponent) - math.log(float(rest.constant.evalf()))) < 1e-2
    with pytest.raises(MeanFieldError, match="The start decides"):
        full("z-tanh(z)", beta).depth_law("K", **{f"sigma_{k}": f"sqrt({s})" for k, s in zip(LETTERS, size)})
    with pytest.raises(MeanFieldError, match="give S numbers"):  # S = σ_v²σ_w²
        full("z-tanh(z)").phase_table("K").at(**dict(zip(BETAS, beta)))


@pytest.mark.slow_with("beta0-size0")
@pytest.mark.parametrize(
    ("beta", "size"),
    [
        ((0, "3/5", "4/5", 1), (1, "1/4", "1/25", 1)),  # K¹'s source falls as the edge of what is trapped
        ((0, "3/5", 2, "2/5"), (1, "1/4", "1/1000", "1/400")),  # and the biases inside
    ],
)
def test_a_source_on_the_edge_may_hold_small_starts(beta, size):
    """z²/(1 + z²), V < 1: K = k l^p with dk/dlog l = A(w k + b)² + s - p k, which has roots for small sources only."""
    small, large = (log_K("z**2/(1+z**2)", beta, size, K, 60.0)[1] for K in (1e-3, 1e3))
    assert abs(small - 0.2) < 2e-2 and abs(large - 1) < 2e-2  # p = 1/5, and l^{1 - β_v}
    (row,) = table("z**2/(1+z**2)", beta, size, "K")
    assert row.regimes[0].laws == () and "on this edge" in row.regimes[0].regime


def test_a_large_source_on_the_edge_lets_nothing_stay():
    beta, size = (0, "3/5", "4/5", 1), (1, "1/4", "1/4", 1)
    assert abs(log_K("z**2/(1+z**2)", beta, size, 1e-3, 60.0)[1] - 1) < 2e-2
    (row,) = table("z**2/(1+z**2)", beta, size, "K")
    assert row["K"].exponent == 1 and row.regimes[0].basin == "every start"


def test_a_slope_that_grows_has_no_false_law():
    """⟨φ′²⟩_q ~ q/2 of z sin z: a power of l where q grows slowly enough, else a sentence; it was C, or a traceback."""
    made = full("z*sin(z)").phase_table("J")
    with pytest.raises(MeanFieldError, match="grows with q"):
        made.at(beta_v="1/2", beta_w="1/4", beta_a=1, beta_b=1)
    slow = made.at(beta_v=1, beta_w="1/2", beta_a=0, beta_b=0, sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=1)
    assert slow["J"].exponent == sp.Rational(1, 2)


@pytest.mark.slow
def test_two_inputs_in_latex():
    """Hypergeometric kernels were set as matrices, which no line holds (a traceback); Δ read as G_{stance}."""
    made = full("Max(0,z)**(2/3)").phase_table(
        "distance", "c", "K_ab", beta_v=0, beta_w=0, sigma_v=1, sigma_w=1, sigma_a=0, sigma_b=0
    )
    text = made.latex()
    assert "matrix" not in text and "_{2}" in text and "stance" not in text
    assert all(f"{letter} &=" in text for letter in (r"\Delta", "c", "K_{ab}"))


EVEN = {"beta_w": "1/2", "beta_a": 2, "beta_b": 2} | {f"sigma_{k}": 1 for k in LETTERS}


@pytest.mark.slow
@pytest.mark.parametrize(
    "shift", [sp.Rational(1, 10**80), sp.sqrt(2) / 10**80, sp.exp(-200), sp.log(sp.exp(2) + sp.Rational(1, 10**70)) - 2]
)
def test_numbers_that_all_but_tie_are_told_apart(shift):
    """V = 1 ± 1e-80 is not V = 1: a number that is not 0 shows it in its digits, as many as it takes."""
    for sign, power in ((1, 0), (-1, sp.S.Half)):
        ((way,),) = (row.regimes for row in full("tanh").phase_table("K", beta_v=sp.S.Half + sign * shift, **EVEN))
        assert ("V > 1" if sign > 0 else "V < 1") in way.regime
        assert abs(sp.N(way["K"].exponent - power, 9, maxn=300)) < 1e-60
    with pytest.raises(MeanFieldError, match="less than 1e-30"):
        full("tanh").depth_law("K", order=2, beta_v=sp.S.Half + sp.sqrt(2) / 10**80, **EVEN)


@pytest.mark.slow
@pytest.mark.parametrize(
    "half",
    [
        -sp.cos(2 * sp.pi / 7) - sp.cos(4 * sp.pi / 7) - sp.cos(6 * sp.pi / 7),  # which rewriting alone does not show
        sp.S.Half + sp.sqrt(2) + sp.sqrt(3) - sp.sqrt(5 + 2 * sp.sqrt(6)),
    ],
)
def test_algebraic_ties_are_proved(half):
    ((way,),) = (row.regimes for row in full("tanh").phase_table("K", beta_v=half, **EVEN))
    assert way.regime == "V = 1: q converges"


def test_a_tie_that_no_digits_decide_is_a_sentence():
    """Machin's 4 atan(1/5) - atan(1/239) = π/4, as half of what β_v + β_w needs: equal to 60 digits, proved by none."""
    machin = (4 * sp.atan(sp.Rational(1, 5)) - sp.atan(sp.Rational(1, 239))) * 2 / sp.pi
    asked = {"beta_v": machin, **EVEN}
    for call in (
        lambda: full("tanh").phase_table("K", **asked),
        lambda: full("tanh").depth_law("K", order=2, **asked),
    ):
        with pytest.raises(MeanFieldError, match=r"^60 digits do not decide whether .* is 0 at") as caught:
            call()
        assert len(str(caught.value)) < 250


def test_places_have_standard_deviations_above_zero():
    """The exponent of J has σ_a σ_w below: a negative σ turned its sign, and 0 asks for another table."""
    made = full("tanh").phase_table("J")
    place = dict(zip(BETAS, ("3/5", "1/10", "3/10", "1/2")), sigma_v=1, sigma_w=1, sigma_a=1)
    for wrong in ({"sigma_w": -1}, {"sigma_a": 0}, {"sigma_b": "-1/2"}):
        with pytest.raises(MeanFieldError, match="is outside of the table"):
            made.at(**(place | wrong))
    law = full("tanh", ("3/5", "1/10", "3/10", "1/2")).depth_law("J")
    assert {s.name for s in law.exponent.free_symbols} == {"sigma_v", "sigma_w", "sigma_a"}  # S is the table's


@pytest.mark.slow
def test_what_has_no_law_is_printed_and_proofs_fit():
    made = table("asinh(z)", (0, 0, 1, 0), (1, 1, 2, 1), "K", "gamma")
    assert "gamma: not derived here" in str(made)
    assert max(map(len, full("z*tanh(z)").phase_table("K").proof().split("\n"))) <= 80
    with pytest.raises(MeanFieldError, match=r"was given\.$"):
        mf.architectures.decays("v")


SLOPELESS = [pytest.param("Max(0,z)**(1/4)", 0.25, None, marks=pytest.mark.slow), ("step", 0.0, 0.5)]


def test_waves_settle_without_numbers():
    """⟨sin²⟩_q/q = (1 - e^{-2q})/2q is proved to fall, so that V = 1 has rows with laws; a sign that is none is not."""
    made = full("sin(z)").phase_table("K", "J")
    assert all(one.laws for row in made for one in row.regimes)
    e = sp.exp
    for f, sign in (
        (K * e(-2 * K) - (1 - e(-2 * K)) / 2, -1),
        (e(-K) - 1 + K, 1),
        (1 - 2 * e(-K), 0),
        (1 - 3 * K * e(-K), 0),  # falls below 0 between .62 and 1.51
        (e(-K) - e(-3 * K), 1),
    ):
        assert sign_of_exponentials(f) == sign


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "a", "moment"), SLOPELESS)
def test_K_has_its_laws_where_gradients_are_infinite(phi, a, moment):
    """α ≤ 1/2: ⟨φ²⟩ = ⟨φ²⟩_1 q^α, iterated; J is refused."""
    made = full(phi).phase_table("K", "K[1]")
    assert all(one.laws for row in made for one in row.regimes)
    row = made.at(**dict(zip(BETAS, ("1/2", "1/4", 2, 3))), **{f"sigma_{k}": 1 for k in LETTERS})
    moment = moment or 2**a * math.gamma(a + 0.5) / (2 * math.sqrt(math.pi))
    k = 1.0
    for l in range(1, 40_001):
        k += moment * l**-0.5 * (l**-0.25 * k + l**-3.0) ** a + l**-2.0
    assert abs(k / float(sp.N(row["K"].constant)) / 40_000 ** float(row["K"].exponent) - 1) < 0.03
    with pytest.raises(MeanFieldError, match="ask for K alone"):
        full(phi).phase_table("K", "J")


@pytest.mark.slow
def test_two_inputs_of_a_power_at_a_variance_that_settles():
    """c = κ(c), κ(cos u) ∝ ∫ (cos t cos(t - u))^α dt over the angles where both are positive: an integral in place of
    hypergeometric functions. It is printed at once: no average over two variables is worked out for it."""
    law = full("relu(z)**(2/3)", ("1/2", "1/2", 2, 1)).depth_law("c", sigma_v=1, sigma_w=1, sigma_a=1, sigma_b=1)
    assert law.text().startswith("root(c = ") and "near" not in law.text()[: law.text().index("q = ")]
    found = mp.mpf(str(sp.N(law.expr, 15)))

    def angles(u):
        return mp.quad(lambda t: (mp.cos(t) * mp.cos(t - u)) ** (mp.mpf(2) / 3), [u - mp.pi / 2, u / 2, mp.pi / 2])

    def gap(c):
        return angles(mp.acos(c)) / angles(mp.mpf(0)) - c

    assert abs(gap(found)) < 1e-9 < abs(gap(found * 1.001))
