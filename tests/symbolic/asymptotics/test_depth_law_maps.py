"""Laws of K and J of maps written by hand, against orbits that are iterated here, and what a law of log J says."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.symbols import K, l
from meanfield.symbolic.asymptotics.depth import (
    CONSTANT,
    DepthLaw,
    _at_infinity,
    _at_rest,
    _at_zero,
    critical_law,
    grows_always,
)

R, S = sp.Rational, sp.S


def number(e: sp.Expr, layer: int) -> float:
    """A law at a layer, its constant 1."""
    return float(sp.N(e.subs(CONSTANT, 1).subs(l, layer), 30))


def orbit(step, chi, start: float, layers: list[int]) -> list[tuple[float, float]]:
    """(K, log J) at these layers, J = 1 at the first."""
    f, x = (sp.lambdify(K, e, "math") for e in (step, chi))
    out, k, log_j = [], start, 0.0
    for layer in range(1, layers[-1] + 1):
        if layer in layers:
            out.append((k, log_j))
        k, log_j = f(k), log_j + math.log(x(k))
    return out


GROWING = [  # K', χ_J, words of the regimes of K and of J
    (K + 2, 1 + 3 / K, "linear growth", "p/l"),
    (K + 2 + 1 / K, 1 + 3 / K, "linear growth", "K grows linearly"),
    (
        K + 2,
        1 + 1 / sp.sqrt(K),
        "linear growth",
        "stretched exponential: K grows linearly and chi_J - 1",
    ),
    (K + 2, R(3, 2) + 1 / K, "linear growth", "K grows linearly"),
    (K + 2, 1 + 1 / K**2, "linear growth", "K grows linearly"),
    (K + sp.sqrt(K), 1 + 1 / K, "power growth", "power growth of K: log chi_J sums to a constant"),
    (K + sp.sqrt(K), 1 + 1 / sp.sqrt(K), "power growth", "power growth of K"),
    (K + sp.sqrt(K), 1 + K ** R(-1, 4), "power growth", "power growth of K: stretched exponential"),
    (K + sp.sqrt(K), R(1, 2) + 1 / K, "power growth", "power growth of K"),
    (K + 1 / K, 1 + 1 / K**2, "power growth", "power growth of K"),
    (3 * K / 2 + 1, R(4, 5) + 1 / K, "exponential growth of K", "exponential growth of K"),
]


@pytest.mark.parametrize("step, chi, of_K, of_J", GROWING, ids=str)
def test_laws_where_K_grows(step, chi, of_K, of_J):
    """Between two layers K changes by its law's quotient, and log J by its law's difference."""
    layers = [40, 60] if "exponential growth" in of_K else [20000, 80000]
    (k1, j1), (k2, j2) = orbit(step, chi, 1.0, layers)
    size, slope = (_at_infinity(step, chi, S.One, q) for q in "KJ")
    assert of_K in size.regime and of_J in slope.regime and size.status is Status.EXACT
    a, b = (number(size.expr, n) for n in layers)
    assert k2 / k1 == pytest.approx(b / a, rel=2e-3)
    if not size.expr.has(CONSTANT):
        assert k2 == pytest.approx(b, rel=2e-2)
    a, b = (number(slope.law.expr, n) for n in layers)
    assert j2 - j1 == pytest.approx(b - a, rel=2e-2, abs=2e-3)
    if slope.exact is not None:
        exact = sp.lambdify(l, sp.log(slope.exact), "mpmath")
        assert [j1, j2] == pytest.approx([float(exact(mp.mpf(n))) for n in layers], rel=1e-9)


@pytest.mark.parametrize(
    "chi, left",
    [
        (1 + 1 / sp.sqrt(K), R(-1, 2)),
        (1 + 1 / K**2, R(-1, 2)),
        (1 + K ** R(-1, 3), "smaller"),
        (R(3, 2) + 1 / K, "smaller"),
    ],
)
def test_what_is_left_out_of_log_J_under_linear_growth(chi, left):
    """O(1/√l) where all powers are halves: K's own logarithm falls as log(l)/l^(3/2) times √l there."""
    assert _at_infinity(K + 2 + 1 / K, chi, S.One, "J").remainder == left


@pytest.mark.parametrize("step, chi, said", [
    (K + K**2, 1 + 1 / K, "K grows faster than exponentially"),
    (K + K + K**2 / 100, 1 + 1 / K, "K grows faster than exponentially"),
    (K + sp.sqrt(K), K, "χ_J tends to K, not to a finite number"),
])  # fmt: skip
def test_growth_without_a_law_is_refused(step, chi, said):
    with pytest.raises(MeanFieldError, match=said):
        _at_infinity(step, chi, S.One, "J")


FALLING = [  # K', χ_J; the powers and logarithms of K's law, those of log J's; words of the regime
    (K - K**2, 1 - 2 * K, [(-1, 0), (-2, 1)], [(0, 1), (0, 0), (-1, 1)], "power-law approach of K to 0"),
    (K - 2 * K**2 + K**3, 1 + K / 2, [(-1, 0), (-2, 1)], [(0, 1), (0, 0), (-1, 1)], "power-law approach"),
    (K - K**3, 1 - K**2, [(R(-1, 2), 0), (R(-3, 2), 1)], [(0, 1), (0, 0), (-1, 1)], "power-law approach"),
    (K - K**3, 1 - K, [(R(-1, 2), 0), (R(-3, 2), 1)], [(R(1, 2), 0), (0, 1), (0, 0)], "stretched exponential J"),
    (K - K**2, 1 - K**2, [(-1, 0), (-2, 1)], [(0, 0)], "J saturates"),
    (K - K**2, R(1, 2) - K, [(-1, 0), (-2, 1)], [(1, 0), (0, 1), (0, 0)], "power-law approach"),
    (K / 2 - K**2, R(3, 4) - K, None, [(1, 0)], "K falls to 0 exponentially"),
]


@pytest.mark.parametrize("step, chi, of_K, of_J, words", FALLING, ids=str)
def test_laws_where_K_falls_to_0(step, chi, of_K, of_J, words):
    layers = [30, 45] if of_K is None else [10000, 40000]
    (k1, j1), (k2, j2) = orbit(step, chi, 0.25, layers)
    size, slope = (_at_zero(step, chi, q) for q in "KJ")
    assert words in slope.regime
    a, b = (number(size.expr, n) for n in layers)
    assert k2 / k1 == pytest.approx(b / a, rel=2e-3)
    a, b = (number(slope.law.expr, n) for n in layers)
    assert j2 - j1 == pytest.approx(b - a, rel=2e-3, abs=1e-3)
    if of_K is not None:
        assert k2 == pytest.approx(number(size.expr, layers[1]), rel=2e-3)
        assert [(t.power, t.logs) for t in size.terms][: len(of_K)] == of_K
    assert [(t.power, t.logs) for t in slope.terms][: len(of_J)] == of_J


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("rate", [None, sp.log(R(9, 10))])
def test_a_law_at_a_fixed_point_with_chi_K_1(side, rate):
    """K = 3 + side·δ under δ′ = δ - δ²/2 and χ_J = x (1 + δ/5)."""
    x = S.One if rate is None else R(9, 10)
    step = sp.expand(3 + side * ((side * (K - 3)) - (K - 3) ** 2 / 2))
    chi = x * (1 + side * (K - 3) / 5)
    size, slope = (critical_law({S(2): -R(1, 2)}, {S(0): x, S(1): x / 5}, S(3), q, side, rate) for q in "KJ")
    (_, j1), (k2, j2) = orbit(step, chi, 3 + side * 0.5, [10000, 40000])
    assert "approach of K to K*" in size.regime and size.terms[0] == Term(S(3))
    assert k2 - 3 == pytest.approx(number(size.expr - 3, 40000), rel=2e-3)
    a, b = (number(slope.law.expr, n) for n in (10000, 40000))
    assert j2 - j1 == pytest.approx(b - a, rel=1e-3)
    assert slope.rate == (0 if rate is None else rate) and slope.exponent == R(2, 5)


def test_K_that_stays():
    assert _at_rest(S(2), 1 + K / 2, "K").law.text() == "2"
    law = _at_rest(S(2), 1 + K / 2, "J")
    assert law.rate == sp.log(2) and law.remainder == "zero" and "scale-invariant" in law.regime
    still = _at_rest(S(2), K / 2, "J")
    assert still.terms == () and still.regime.endswith("J stays 1")


# ---------------------------------------------------------------------------------------------- what a law says of J


def log_j(*terms: Term, remainder="smaller", logs=0) -> DepthLaw:
    return DepthLaw(l, sp.oo, terms, remainder, S(logs), quantity="J")


CONST, ROOT = Term(CONSTANT), Term(S(3), R(1, 2))
LINEAR, LOG = Term(S(-2), S.One), Term(R(5, 2), logs=S.One)
LAWS = [  # log J; its rate and that of l, the slower powers, whether it is whole, the exponent
    (log_j(LINEAR, ROOT, LOG, CONST), (-2, 1), ((3, R(1, 2)),), True, R(5, 2)),
    (log_j(ROOT, LOG, CONST), (3, R(1, 2)), (), True, R(5, 2)),
    (log_j(LOG, CONST), (0, 1), (), True, R(5, 2)),
    (log_j(CONST), (0, 1), (), True, 0),
    (log_j(LINEAR), (-2, 1), (), False, None),
    (log_j(LINEAR, remainder="zero"), (-2, 1), (), True, 0),
    (log_j(LINEAR, remainder="exponential"), (-2, 1), (), True, 0),
    (log_j(LINEAR, remainder=S.Zero), (-2, 1), (), True, 0),
    (log_j(LINEAR, remainder=S.Zero, logs=1), (-2, 1), (), False, None),
    (log_j(LINEAR, remainder=R(1, 2)), (-2, 1), (), False, None),
    (log_j(LINEAR, LOG, remainder=R(-1, 2)), (-2, 1), (), True, R(5, 2)),
    (log_j(LOG), (0, 1), (), False, R(5, 2)),
    (log_j(Term(S(2), S.One, S.One), CONST), (0, 1), (), True, None),
    (log_j(Term(S(2), logs=S(2)), CONST), (0, 1), (), True, None),
]


@pytest.mark.parametrize("law, rate, slower, whole, exponent", LAWS, ids=lambda v: getattr(v, "text", lambda: "")())
def test_what_a_law_of_log_J_says_of_J(law, rate, slower, whole, exponent):
    assert (law.rate, law.rate_power) == rate and law.slower == slower
    assert law.is_whole is whole and law.exponent == exponent
    if whole and exponent is not None:
        known = sp.exp(law.law.expr - sp.Add(*[t.coefficient for t in law.terms if t.coefficient == CONSTANT]))
        quotients = [sp.N(law.expr / known / CONSTANT, 30, subs={l: n}) for n in (7, 50)]
        assert quotients == pytest.approx([1.0, 1.0])


def test_maps_that_always_grow():
    a, b = sp.symbols("a b", positive=True), sp.symbols("b", real=True)
    assert grows_always(S.One) and grows_always(a[0] ** 2 * 3 + a[1]) and grows_always((sp.pi - 3) * a[0])
    assert not grows_always(S.Zero) and not grows_always(S(-1)) and not grows_always(b)
    assert not grows_always((sp.E - 3) * a[0]) and not grows_always(a[0] - a[1]) and not grows_always(K - 1)


@pytest.mark.parametrize("phi", ["softsign", "arctan", "tanh"])
def test_the_expression_of_J_holds_every_term_of_log_J_that_grows(phi):
    """Also beside log² l, where there is no exponent: log J minus log(expr) has no log l left."""
    law = mf.derive(phi, residual=True).depth_law("J", sigma_w=1, sigma_b=0)
    growing = [t for t in law.terms if t.coefficient != CONSTANT and (t.power > 0 or (t.power == 0 and t.logs > 0))]
    whole = sp.Add(*[t.expr(l) for t in growing])
    left = sp.expand(sp.expand_log(sp.log(law.expr.subs(CONSTANT, 1)), force=True) - whole)
    assert not left.has(sp.log(l)) and not left.has(sp.sqrt(l)), left
    assert (law.exponent is None) == any(t.logs == 2 and t.power == 0 for t in law.terms)
