"""Laws in l as numbers at huge l: products, powers, logarithms, sums, and which of two is larger."""

from __future__ import annotations

import itertools
import math

import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.symbols import K, l
from meanfield.symbolic.asymptotics.comparing import added, compared, direction, largest, leading_term, log_of, summed
from meanfield.symbolic.asymptotics.depth import CONSTANT as FREE
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.asymptotics.exponent_cells import At, Undecided
from meanfield.symbolic.asymptotics.log_growth import CONSTANT, exponential, grown, log_product, product, regular

R, S = sp.Rational, sp.S
HERE = At({})
LAWS = {
    "3": regular(3), "l": regular(2, 1), "1/l": regular(R(1, 2), -1), "sqrt": regular(1, R(1, 2)),
    "log": regular(5, 0, 1), "1/log": regular(1, 0, -2), "l log": regular(1, 1, 1), "l/loglog": regular(4, 1, 0, -1),
    "loglog": regular(1, 0, 0, 3), "exp": exponential(R(1, 3), 1), "exp-": exponential(-2, 1),
    "root": exponential(3, R(1, 2)), "rootlog": exponential(1, R(1, 2), 1), "square": exponential(2, 0, 2),
    "both": exponential(R(1, 3), 1) * regular(7, -4), "P": product(S(2), R(1, 2), HERE),
    "P/exp": product(S(2), R(1, 2), HERE) * exponential(-4, R(1, 2)),
}  # fmt: skip
OPEN = ("3", "square", "l", "1/l", "sqrt", "log", "1/log", "l log", "l/loglog", "loglog")


@pytest.mark.parametrize("one, other", list(itertools.combinations_with_replacement(LAWS, 2)))
def test_which_of_two_laws_is_larger(one, other):
    """log X - log Y at two huge l says it: it grows, falls or stays."""
    a, b = LAWS[one], LAWS[other]
    near, far = (a.log_at(t) - b.log_at(t) for t in (20.0, 30.0))
    sign = 0 if abs(far - near) < 5e-3 else 1 if far > near else -1
    if "P/exp" in (one, other) and one != other and one in OPEN:  # Π (1 + 2/√m) ~ exp(4 √l - 2 log l + …)
        with pytest.raises(Undecided, match="is a question of terms that are not derived"):
            compared(a, b, HERE)
        return
    assert compared(a, b, HERE) == sign == -compared(b, a, HERE)
    assert largest([a, b], HERE) == ([a] if sign > 0 else [b] if sign < 0 else [a, b])
    if sign:
        assert added([a, b], HERE) == (a if sign > 0 else b)


@pytest.mark.parametrize("one, other", list(itertools.product(list(LAWS)[:12], ["l", "log", "exp", "P"])))
def test_products_and_powers_are_those_of_numbers(one, other):
    a, b = LAWS[one], LAWS[other]
    for t in (5.0, 12.0):
        x, y = (one.log_at(t) - (0 if one.constant is None else math.log(one.constant)) for one in (a, b))
        whole = a.constant is not None and b.constant is not None
        c, d = (math.log(a.constant), math.log(b.constant)) if whole else (0.0, 0.0)
        assert (a * b).log_at(t) == pytest.approx(x + y + c + d) and (a / b).log_at(t) == pytest.approx(x - y + c - d)
        c = 0.0 if a.constant is None else math.log(a.constant)
        assert (a ** R(3, 2)).log_at(t) == pytest.approx(1.5 * (x + c)) and (a**0).log_at(t) == 0
        assert (a**-1).log_at(t) == pytest.approx(-x - c)
        if a.constant is not None:
            assert a.times(S(7)).log_at(t) == pytest.approx(x + c + math.log(7))
            assert float(sp.N(sp.log(a.expr).subs(l, sp.exp(t)))) == pytest.approx(x + c)


def test_what_is_known_of_a_law():
    assert LAWS["l/loglog"].is_regular and not LAWS["exp"].is_regular and not LAWS["P"].is_regular
    assert [LAWS["l/loglog"].power_of(i) for i in range(3)] == [1, 0, -1] and LAWS["both"].exponent == -4
    lead = exponential(2, 1, leading=True)
    assert (lead * regular(1, 3)).terms == lead.terms and not lead.is_regular
    with pytest.raises(MeanFieldError, match="log X is known to its leading terms alone"):
        lead.log_at(10.0)
    assert lead.log_at(2.0, leading=True) == pytest.approx(2 * math.exp(2))
    unknown = regular(3 * CONSTANT, 1)
    assert (unknown * unknown).constant == 9 * CONSTANT and (unknown**2).constant == 9 * CONSTANT
    assert (unknown / unknown).constant == CONSTANT and (unknown * regular(2)).constant == 6 * CONSTANT
    assert (regular(CONSTANT**2 + 1) * unknown).constant is None and (regular(None) * regular(2)).constant is None
    assert regular(2).of_unknown_size.constant is None


@pytest.mark.parametrize("W, V", [(2.0, 0.5), (0.01, 0.3), (50.0, 0.9)])
def test_a_product_over_layers(W, V):
    l_1 = 30000
    direct = math.fsum(math.log1p(W * m**-V) for m in range(1, l_1))
    assert log_product(W, V, math.log(l_1)) == pytest.approx(direct, abs=1e-3 + W * l_1**-V)
    far = math.fsum(math.log1p(W * m**-V) for m in range(1, 2 * l_1)) - direct
    assert log_product(W, V, math.log(2 * l_1)) - log_product(W, V, math.log(l_1)) == pytest.approx(far, rel=1e-4)


def test_a_product_as_an_expression():
    """Π (1 + 2/√m)^3 · 5 l, and its logarithm."""
    law = product(S(2), R(1, 2), HERE) ** 3 * regular(5, 1)
    direct = math.prod(1 + 2 / math.sqrt(m) for m in range(1, 21)) ** 3
    assert float(sp.N((law.expr / CONSTANT).subs(l, 20).doit())) == pytest.approx(20 * direct)
    assert float(sp.N(law.log.subs(l, 20).doit())) == pytest.approx(math.log(20 * direct))


def test_products_by_how_fast_their_factors_fall():
    assert product(S(3), S(2), HERE) == regular(None) and product(S(3), S(1), HERE) == regular(None, 3)
    assert product(S(3), S(0), HERE) == exponential(sp.log(4), 1)
    assert product(S(3), R(1, 2), HERE).products == ((3, R(1, 2), 1),)


@pytest.mark.parametrize(
    "powers, expected",
    [((1, 0), (R(1, 2), 2, 0)), ((R(-1, 2), 3), (2, R(1, 2), 3)), ((-1, 0), (1, 0, 1)), ((-1, 2), (R(1, 3), 0, 3)),
     ((-1, -1), (1, 0, 0, 1)), ((-1, -2), None), ((-2, 5), None), ((-1, -1, 1), (R(1, 2), 0, 0, 2))],
)  # fmt: skip
def test_sums_over_layers(powers, expected):
    """Σ m^p (log m)^q … ~ ∫ dm of it, by its derivative."""
    found = summed(regular(3, *powers), HERE)
    assert found == (None if expected is None else regular(3 * S(expected[0]), *expected[1:]))


def test_logarithms_of_laws_and_where_they_go():
    for name in ("l", "1/l", "sqrt", "exp", "exp-", "root", "rootlog", "square", "log", "1/log", "P"):
        x = LAWS[name]
        t = 1e5 if name not in ("exp", "exp-", "root", "rootlog", "P") else 60.0
        assert log_of(x, HERE).log_at(t) == pytest.approx(math.log(abs(x.log_at(t))), rel=0.15)
        near, far = x.log_at(40.0), x.log_at(60.0)
        assert direction(x, HERE) == (1 if far > near else -1)
    with pytest.raises(MeanFieldError, match="a fourfold logarithm, which no law here holds"):
        log_of(LAWS["loglog"], HERE)
    assert direction(regular(3), HERE) == 0 and log_of(regular(3), HERE).constant == sp.log(3)
    sign, key, c = leading_term(LAWS["both"], LAWS["root"], HERE)
    assert (sign, key[0], c) == (1, 1, R(1, 3))
    assert leading_term(LAWS["l"], LAWS["l"], HERE)[0] == 0


def depth(quantity, *terms, remainder="smaller") -> DepthLaw:
    return DepthLaw(l, sp.oo, terms, remainder, quantity=quantity, status=Status.EXACT)


def test_laws_of_K_and_J_as_growth():
    """What leads K, and everything of log J that grows."""
    assert grown(depth("K", Term(S(3), R(-1, 2), S(1)), Term(S(9), S(-1)))) == regular(3, R(-1, 2), 1)
    assert grown(depth("K", Term(FREE, rate=S(-2)))) == regular(None) * exponential(-2, 1)
    law = depth("J", Term(S(-2), S.One), Term(S(3), R(1, 2)), Term(R(5, 2), logs=S.One), Term(S(4)), remainder=R(-1, 2))
    found = grown(law)
    assert found.constant == sp.exp(4) and not found.leading and found.exponent == R(5, 2)
    assert found.log_at(4.0) == pytest.approx(-2 * math.exp(4) + 3 * math.exp(2) + 10 + 4)
    assert grown(depth("J", Term(S(-2), S.One), Term(FREE))).constant is None
    assert grown(depth("J", Term(S(-2), S.One), remainder="exponential")).constant == 1
    assert (
        grown(depth("J", Term(S(-2), S.One))).leading
        and grown(depth("J", Term(S(-2), S.One), remainder=R(1, 2))).leading
    )
    assert not grown(depth("J", Term(S(2), logs=S.One))).leading
    assert grown(depth("J", Term(S(-2), S.One), remainder=S.Zero)).constant is None
    with pytest.raises(MeanFieldError, match="falls with 1/log l here"):
        grown(DepthLaw(K, S.Zero, (Term(S(1)),), quantity="J"))
