"""Phase tables up to constant factors: every row against derivations at numbers, and the variables U, V, W emerge."""

import random
from dataclasses import replace
from fractions import Fraction

import pytest
import sympy as sp

from meanfield import MeanFieldError
from meanfield.presentation.phase_orders import PhaseOrders
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth
from tests.symbolic.asymptotics.schedules.test_phase_tables import BETAS, SIGMAS, full, place

QUANTITIES = ("K", "K[1]", "J", "G_w")


def size(g: Growth) -> tuple:
    """What a law says up to constant factors: the powers of its logarithms; of a leading term its own and its sign."""

    def number(e):
        return round(float(sp.N(e)), 9)

    if g.leading:
        (key, c), *_ = g.stretched
        return ("log", *map(number, key), number(c) > 0)
    terms = sorted((tuple(map(number, k)), number(c)) for k, c in g.terms if abs(number(c)) > 1e-12)
    return ("whole", tuple(terms), tuple(tuple(map(number, p)) for p in g.products))


def assert_orders(made: PhaseOrders, phi: str, beta, sigmas) -> None:
    """One row holds the place, and says what the derivation at its numbers says."""
    named = dict(zip((*BETAS, *SIGMAS), (*beta, *(sp.sqrt(s) for s in sigmas))))
    strength = {
        str(s): sp.nsimplify(e.subs({sp.Symbol(k, positive=True): v for k, v in named.items()}))
        for s, e in made.definitions
    }
    place = {k: v for k, v in named.items() if k in BETAS} | strength
    given = {s: sp.sympify(place[s.name]) for s in made.groups[0][0][0].coordinates}
    held = [any(cell.contains(given) for cell in row.regions) for row in made]
    if sum(held) != 1:
        raise AssertionError(f"{sum(held)} rows hold the place {named} of {phi}")
    row = made.at(**named)
    (direct,) = full(phi).phase_table(*made.quantities, **named)
    if not row.regimes[0].laws:
        return
    for name in made.quantities:
        found = {size(one[name]) for one in row.regimes}
        asked = {size(one[name]) for one in direct.regimes}
        if found != asked:
            raise AssertionError(f"{name} of {phi} at {named} is {found}, not {asked}")


def draws(number: int, seed: int):
    draw = random.Random(seed)
    for _ in range(number):
        beta, sigmas = place(draw)
        yield beta, [s or Fraction(1) for s in sigmas]


@pytest.mark.slow
def test_rows_are_the_derivations_at_numbers():
    for phi, quantities, number in (("relu", QUANTITIES, 12), ("tanh", ("K", "J"), 6)):
        made = full(phi).phase_table(*quantities).orders()
        for beta, sigmas in draws(number, 3):
            assert_orders(made, phi, beta, sigmas)


@pytest.mark.slow
@pytest.mark.parametrize("phi", ["gelu", "softsign", "z*erf(z)", "Max(0,z)**(3/4)", "erf"])
def test_more_rows_are_the_derivations_at_numbers(phi):
    made = full(phi).phase_table(*QUANTITIES).orders()
    for beta, sigmas in draws(200, 4):
        assert_orders(made, phi, beta, sigmas)


def test_a_wrong_row_is_seen():
    """A smallest for a largest exponent, a row lost, a row doubled, an exponent moved by 1/50."""
    made = full("relu").phase_table("K", "J").orders()
    places = list(draws(30, 5))

    def smallest(e):
        return sp.sympify(e).replace(sp.Max, sp.Min)

    def moved(e):
        return e + sp.Rational(1, 50) if e.has(sp.Max) else e

    cells, ways = made.groups[1]
    wrong = [tuple(one.map(f) for one in ways) for f in (smallest, moved)]
    spoiled = [(*made.groups[:1], (cells, laws), *made.groups[2:]) for laws in wrong]
    for groups in (*spoiled, made.groups[1:], (*made.groups, made.groups[0])):
        with pytest.raises(AssertionError, match=r"of relu at .* is .*, not|rows hold the place"):
            for beta, sigmas in places:
                assert_orders(replace(made, groups=groups), "relu", beta, sigmas)


@pytest.mark.slow
def test_the_variables_of_the_theorems_emerge():
    """[variance_variation] Def. C.4, C.8: U_r = min(β_v + β_b, β_a), U_t = min(β_v, β_a), W_t = 1 - β_w + U_t - 2β_v.
    """
    v, w, a, b = (sp.Symbol(n, positive=True) for n in BETAS)
    S = sp.Symbol("S", positive=True)
    relu = full("relu").phase_table("K", "J").orders()
    assert len(relu) == 6
    exponents = [row["K"].exponent for row in relu]
    beyond, marginal = sp.Max(0, 1 - a, 1 - b - v), sp.Max(S / 2, 1 - a, 1 - b - v)
    assert beyond in exponents and marginal in exponents
    tanh = full("tanh").phase_table("K", "J").orders()
    U = sp.Min(v, a)
    (strong,) = [row for row in tanh if row["J"].leading]
    assert strong["K"].exponent == 1 - U
    assert sp.expand(strong["J"].stretched[0][0][0] - (1 - w + U - 2 * v) / 2) == 0
    assert any("beta_v + beta_w > 1, beta_a < 1" in ", ".join(one) for row in relu for one in row.conditions())


@pytest.mark.slow
def test_orders_print_and_answer_at_a_place():
    made = full("relu").phase_table("K", "G_w").orders()
    text = str(made)
    assert all(len(line) <= 80 for line in text.splitlines()) and "K = Θ(log(l))" in text
    assert r"\operatorname{max}" in made.latex() or r"\max" in made.latex()
    row = made.at(beta_v="2/5", beta_w="3/5", beta_a="1/2", beta_b="9/10", S=1)
    assert str(row["K"].expr.subs(CONSTANT, 1)) == "sqrt(l)*log(l)"
    for values, words in (
        ({"beta_v": 1}, "numbers for"),
        ({"beta_v": -1, "beta_w": 0, "beta_a": 0, "beta_b": 0, "S": 1}, "outside"),
        ({"beta_x": 1}, "not a parameter"),
        ({"S": 1, "sigma_v": 2, "sigma_w": 1}, "beside"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            made.at(**values)
    both = full("z*tanh(z)").phase_table("K", "distance", beta_v="1/4", beta_w="1/2", beta_a=2, beta_b=2).orders()
    assert "small starts:" in str(both)
    open_ = full("tanh").phase_table("K", "distance", beta_a=2, beta_b=2).orders()
    assert "not derived here" not in str(open_) and "distance = Θ(l**S/log(l))" in str(open_)
