"""Sequences as series in l and log l: sums, powers along a path, and the equations that they solve, against orbits."""

from __future__ import annotations

import math

import mpmath as mp
import pytest
import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.symbols import K, l
from meanfield.symbolic.asymptotics.scaling import _integrated, decay, logarithm, path
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, expression, of, rational
from meanfield.symbolic.series.difference import solved
from meanfield.symbolic.series.exponents import NO_POWER, Basis, NoHigherOrder
from meanfield.symbolic.series.recurrences import along, growing, put_in
from meanfield.symbolic.series.ring import ORDER_ONE, Ring, any_logs, key, plus
from meanfield.symbolic.series.truncated import Calculus, Truncated

R, S = sp.Rational, sp.S

SERIES = {(S.Zero, 0): S(2), (R(-1, 2), 1): S(3), (S(-1), 0): S(5), (S(-1), 2): R(1, 7), (S.One, 1): S(4)}
SMALL = {(R(-1, 2), 0): S(3), (S(-1), 1): S(-2), (R(-3, 2), 0): S.One}


def ring_to(floor) -> Ring:
    return Ring(Atoms(), rational(floor), NO_POWER, basis=Basis())


def series(terms):
    return {(rational(p), NO_POWER, fmpq(g), 0): of(rational(c)) for (p, g), c in terms.items()}


def value(terms, ring: Ring) -> sp.Expr:
    numbers = [ring.atoms.expr(c) * l ** expression(k[0]) * sp.log(l) ** expression(k[2]) for k, c in terms.items()]
    return sp.Add(*numbers)


def test_integrals_of_what_grows():
    """Terms that fall have none, but for the logarithm, which is larger than a constant's."""
    ring = ring_to(9)
    whole = _integrated(ring, series(SERIES))
    assert sp.expand(sp.diff(value(whole, ring), l) - value(series(SERIES), ring)) == 0
    below = {(R(-3, 2), 1): S(2), (R(-3, 2), 0): S(7), (S(-2), 2): S(9)}
    assert _integrated(ring, series(SERIES | below)) == plus(whole, series({(R(-1, 2), 1): S(-4)}))


@pytest.mark.parametrize(("power", "logs"), [(R(1, 2), 0), (S(-1), 1), (R(-3, 2), 2), (S(2), 0), (-sp.sqrt(2), 1)])
def test_powers_and_logarithms_along_a_path(power, logs):
    """u^p (log u + log 3)^m of u = l (1 + w), down to l^{p-2}: what is left out is of the order that is named."""
    ring = ring_to(2 - sp.N(power, 30) if power.is_irrational else 2 - power)
    found = along(ring, {(ring.basis.of(power), logs): ONE}, series(SMALL), ring.atoms.of(sp.log(3)))
    lost = ring.size(ring.lost)
    assert float(lost[0].p) / float(lost[0].q) == pytest.approx(float(power) - 2.5)
    for n in (10**6, 10**8):
        u = n * (1 + value(series(SMALL), ring).subs(l, n))
        ours = sp.Add(*[
            ring.atoms.expr(c) * S(n) ** ring.basis.expr(k[0], k[1]) * sp.log(n) ** expression(k[2])
            for k, c in found.items()
        ])
        gap = sp.N(ours / (u**power * sp.log(3 * u) ** logs) - 1, 30)
        assert abs(gap) < 500 * n**-2.5 * math.log(n) ** 3


def assert_follows_an_orbit(floor: int, error: float, continuous: bool = False) -> None:
    """u = l (1 + w) with its constant from layer 2000, at layer 200, against u′ = u + 1 + Σ c u^p (log u + log 2)^m."""
    steps = {(R(-1, 2), 0): R(-1, 2), (S(-1), 0): R(3, 10), (S(-1), 1): R(1, 5), (R(-3, 2), 0): R(1, 4)}
    ring = ring_to(floor)
    held = {((rational(p), NO_POWER), m): of(rational(c)) for (p, m), c in steps.items()}
    start = {key(-1): ring.atoms.of(sp.Symbol("C"))}
    w = growing(ring, held, ring.atoms.of(sp.log(2)), start, continuous)
    law = sp.lambdify((l, sp.Symbol("C")), l * (1 + value(w, ring)), "mpmath")
    with mp.workdps(30):
        numbers = [(mp.mpf(p.p) / p.q, m, mp.mpf(c.p) / c.q) for (p, m), c in steps.items()]
        u, seen = mp.mpf(2), {}
        for n in range(1, 2001):
            seen[n] = u
            u += 1 + mp.fsum(c * u**p * mp.log(2 * u) ** m for p, m, c in numbers)
        constant = mp.findroot(lambda c: law(mp.mpf(2000), c) - seen[2000], 1)
        assert abs(law(mp.mpf(200), constant) - seen[200]) < error, "the orbit is another"


@pytest.mark.slow
def test_a_growing_sequence_against_its_orbit():
    assert_follows_an_orbit(2, 3e-2)
    assert_follows_an_orbit(4, 2e-5)
    with pytest.raises(AssertionError, match="the orbit is another"):
        assert_follows_an_orbit(4, 2e-5, continuous=True)
    ring = ring_to(1)
    with pytest.raises(NoHigherOrder, match="The expansion of K at large depth does not converge"):
        put_in(lambda x: plus(x, {ORDER_ONE: ONE}), "K")
    assert growing(ring, {}, ZERO) == {}


def test_a_linear_recurrence_has_every_term_above_what_it_leaves_out():
    """x_{l+1} = (1 + 1/(4 l²)) x_l + l^{-1/2} (1 + O(l^{-13/10})): the last terms are Euler and Maclaurin's, and those
    of the multiplier on the leading one."""
    calc = Calculus(Atoms())
    half = fmpq(-1, 2)
    far, near = (Truncated({key(half): ONE}, rest) for rest in (any_logs(-9), any_logs(fmpq(-9, 5))))
    multiplier = Truncated({ORDER_ONE: ONE, key(-2): of(fmpq(1, 4))}, None)
    found = [solved(calc, multiplier, s, lambda: ZERO) for s in (far, near)]
    edge = calc.edge(found[1])
    assert edge == fmpq(-4, 5)
    assert found[1].terms == {k: c for k, c in found[0].terms.items() if k[0] > edge}
    assert found[1].terms == {key(-half): of(fmpq(2)), key(half): of(fmpq(-3, 2))}


def test_layers_and_powers_of_truncated_series():
    """The layer after the one before is the same; x·x^{-1} is 1; (x^{1/2})² is x; each down to what it leaves out."""
    calc = Calculus(Atoms(), bases=(sp.Integer(3),))
    logs = {(NO_POWER, NO_POWER, fmpq(1), 0): of(fmpq(2)), key(-1): of(fmpq(5, 7))}
    x = Truncated({key(2): ONE, key(1): of(fmpq(-4))} | logs, any_logs(-3), (fmpq(1),))
    after = calc.later(x)
    assert calc.later(after, -1) == x
    assert (after.terms[key(2)].number, after.terms[key(1)].number) == (3, 3 * (2 - 4))
    one = calc.times(x, calc.power(x, -1))
    assert one.terms == {ORDER_ONE: ONE} and calc.edge(one) == -5 and one.rate == (fmpq(0),)
    plain = Truncated(x.terms, x.remainder, (fmpq(0),))
    root = calc.real_power(plain, fmpq(1, 2))
    assert calc.times(root, root) == plain and calc.edge(root) == -4
    with pytest.raises(MeanFieldError, match="Only a plain power of l can lead"):
        calc.real_power(Truncated(logs, None, (fmpq(0),)), fmpq(1, 2))
    with pytest.raises(MeanFieldError, match="divided by is not known"):
        calc.power(Truncated({}, any_logs(-1), (fmpq(0),)), -1)


def test_powers_and_compositions_of_truncated_series():
    """In y = 1/l, each down to where it is known; with a reach, to the first power that is not worked out."""
    calc, y, numbers = Calculus(Atoms()), sp.Symbol("y"), [1, 3, -R(1, 2), 2]

    def series(given: list) -> Truncated:
        return calc.made({key(-k): of(rational(c)) for k, c in enumerate(given)}, any_logs(-4), ())

    def seen(found: Truncated) -> list:
        return [expression(found.terms.get(key(-k), ZERO).number) for k in range(4)]

    whole = sum(c * y**k for k, c in enumerate(numbers))
    for r in (R(1, 3), S(-1), S(4)):
        exact = sp.series(whole**r, y, 0, 4).removeO()
        found = calc.real_power(series(numbers), rational(r))
        assert seen(found) == [exact.coeff(y, k) for k in range(4)] and found.remainder == any_logs(-4)
    short = calc.real_power(series(numbers), fmpq(-1), fmpq(2))
    assert short.remainder == key(-3) and seen(short) == [1, -3, R(19, 2), 0]
    inner = [0, 2, -3, 1]
    exact = sp.expand(sum(c * sum(d * y**j for j, d in enumerate(inner)) ** k for k, c in enumerate(numbers)))
    found = calc.composed(series(inner), lambda k: of(rational((*numbers, 0)[k])))
    assert seen(found) == [exact.coeff(y, k) for k in range(4)]
    even = calc.composed(series(inner), lambda k: of(fmpq(int(k == 2))), fmpq(2))
    assert even.remainder == key(-3) and even.terms == {key(-2): of(fmpq(4))}  # x² is known to y^5, but not asked for
    with pytest.raises(MeanFieldError, match="does not fall as a power"):
        calc.composed(series([1, 1]), lambda k: ONE, fmpq(2))


def test_no_term_of_a_path_outlives_what_is_left_out():
    """√K = l/2 + c l^{3/4} + O(l^{5/8}): the square has c² l^{3/2}, which is less than what is left out."""
    law = Law(K, sp.oo, (Term(S.One, R(1, 2)), Term(S.One, R(3, 8))), R(5, 16))
    found = path(law)
    assert [t.power for t in found.x] == [2, R(7, 4)] and found.error == R(-3, 8)
    more = path(Law(K, sp.oo, law.terms, R(1, 100)))
    assert [t.power for t in more.x] == [2, R(7, 4), R(3, 2), R(5, 4)]


def test_no_term_of_a_sum_along_a_path_outlives_what_is_left_out():
    """Σ K^{-1/4} along K = l²/4 (1 + w), w ~ l^{-1/4}: √l first, then l^{1/4}, log l, and a log(l)/√l that the last
    term of w makes. Where w is known down to l^{-3/8}, log l is not, where down to l^{-3/4}, log(l)/√l is not; nor are
    they where the sum leaves out K^{-1/2}."""
    terms = Term(S.One, R(1, 2)), Term(S.One, R(3, 8))
    whole, near, far = (path(Law(K, sp.oo, terms, rest)) for rest in ("zero", R(5, 16), R(1, 8)))
    assert (near.error, far.error) == (-R(3, 8), -R(3, 4))
    every = [(R(1, 2), 0), (R(1, 4), 0), (0, 1), (-R(1, 2), 1)]
    for at, rest, count, complete in (
        (whole, None, 4, True),
        (near, None, 2, False),
        (far, None, 3, True),
        (whole, (-R(1, 2), 0), 2, False),
    ):
        found, all_that_grows = at.summed({(-R(1, 4), 0): S.One}, rest)
        assert [(t.power, t.logs) for t in found] == every[:count] and all_that_grows == complete


def test_the_logarithm_of_a_power_series():
    x = sp.Symbol("x", positive=True)
    for powers, top in (({0: 1, 1: 2, 2: -3}, 4), ({0: 1, R(1, 2): 1, R(3, 2): 2}, 2)):
        found = logarithm({sp.sympify(p): sp.sympify(c) for p, c in powers.items()}, S(top))
        exact = sp.series(
            sp.log(sum(sp.sympify(c) * x ** (2 * sp.sympify(p)) for p, c in powers.items())), x, 0, 2 * top + 1
        )
        assert sp.expand(exact.removeO() - sum(c * x ** (2 * p) for p, c in found.items())) == 0


@pytest.mark.slow_with("gain3")
@pytest.mark.parametrize(
    "gain", [{2: -1, 3: 2}, {3: -2, 5: 1}, {R(3, 2): -1, 2: 1}, {R(5, 3): -R(1, 2), R(7, 3): R(1, 5)}]
)
def test_how_a_small_distance_dies(gain):
    """δ^l against an orbit, from two layers: what the law leaves out falls by its constant's power."""
    found = decay({sp.sympify(p): sp.sympify(c) for p, c in gain.items()})
    n, c = float(min(gain)), -float(gain[min(gain)])
    assert float(found.amplitude) == pytest.approx(((n - 1) * c) ** (-1 / (n - 1)))
    assert float(found.exponent) == pytest.approx(1 / (n - 1))
    powers, places, k = [(float(p), float(c)) for p, c in gain.items()], {}, 0.2
    for layer in range(1, 80001):
        places[layer] = k
        k += sum(c * k**p for p, c in powers)
    k1, k2 = places[5000], places[80000]
    law = sp.Add(*[t.expr(l) for t in found.delta])
    e1, e2 = (k / float(law.subs(l, m)) - 1 for k, m in ((k1, 5000), (k2, 80000)))
    assert abs(e2) < 1e-2 and abs(e2) < abs(e1) / 4 + 1e-6


def test_a_path_whose_power_is_irrational():
    """K' = K + K^p, p = 1/√2: K = (r l)^{1/r} (1 + (r - 1)/(2r²) log l/l + …), r = 1 - p, and 1 - p + (p - 1) is 0."""
    p = 1 / sp.sqrt(2)
    lead, after = path(Law(K, sp.oo, (Term(sp.S.One, p),))).x
    r = 1 - p
    assert lead.logs == 0 and sp.simplify(lead.power - 1 / r) == 0 and after.logs == 1
    assert sp.N(lead.coefficient - r ** (1 / r)) == pytest.approx(0, abs=1e-14)
    assert sp.simplify(lead.power - after.power) == 1
    assert sp.N(after.coefficient / lead.coefficient) == pytest.approx(float((r - 1) / (2 * r**2)), rel=1e-13)
