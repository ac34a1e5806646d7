"""The ring of series in l, log l and log log l as numbers at a huge l, and exact coefficients as numbers."""

from __future__ import annotations

import itertools

import mpmath as mp
import pytest
import sympy as sp
from flint import fmpq

from meanfield.base.symbols import Z
from meanfield.symbolic.series.coefficients import ONE, ZERO, Atoms, Exact, expression, of
from meanfield.symbolic.series.exponents import Basis, NoHigherOrder, decided
from meanfield.symbolic.series.ring import (
    Ring,
    TooLong,
    binomial,
    key,
    natural,
    over,
    plus,
    scaled,
    times,
)

z, R, S = Z[0], sp.Rational, sp.S
ROOT = sp.sqrt(2)


def ring(kind: str = "rational", floor: int = 9, depth: int = 9) -> Ring:
    if kind == "basis":
        basis = Basis()
        basis.of(ROOT)
        return Ring(Atoms(), fmpq(floor), fmpq(depth), basis=basis)
    value = R(sp.N(ROOT, 60))
    return Ring(Atoms(), fmpq(floor), fmpq(depth), ROOT, fmpq(int(value.p), int(value.q)))


def term(r: Ring, a, b=0, logs=0, loglogs=0, c=1):
    """c l^{a + b √2} (log l)^logs (log log l)^loglogs."""
    part = fmpq(b) if r.basis is None else r.basis.of(b * ROOT)[1]
    a, logs = (fmpq(int(R(e).p), int(R(e).q)) for e in (a, logs))
    return {(a, part, logs, loglogs): r.atoms.of(sp.sympify(c))}


def value(r: Ring, series, t) -> mp.mpf:
    """The series at log l = t."""
    total = mp.mpf(0)
    for (a, b, n, m), c in series.items():
        p = sp.N(expression(a) + (r.basis.expr(fmpq(0), b) if r.basis else expression(b) * ROOT), 40)
        front = mp.mpf(str(sp.N(r.atoms.expr(c), 40)))
        total += front * mp.exp(mp.mpf(str(p)) * t) * t ** (mp.mpf(int(n.p)) / int(n.q)) * mp.log(t) ** m
    return total


def sample(r: Ring):
    a = plus(
        term(r, 0, c=2), term(r, R(-1, 2), 0, 1, c=-3), term(r, -1, 0, -1, 1, c=sp.pi), term(r, 1, -1, R(1, 2), c=5)
    )
    b = plus(term(r, -1, 0, 2, c=7), term(r, 0, -1, 0, 2, c=R(1, 3)), term(r, R(-3, 2), c=-1))
    return a, b


@pytest.mark.parametrize("kind", ["rational", "basis"])
def test_series_are_numbers(kind):
    r = ring(kind)
    (a, b), t = sample(r), mp.mpf(7)
    with mp.workdps(40):
        x, y = value(r, a, t), value(r, b, t)
        close = lambda ours, theirs: abs(ours / theirs - 1) < mp.mpf("1e-25")  # noqa: E731
        assert close(value(r, plus(a, b), t), x + y) and close(value(r, r.product(a, b), t), x * y)
        assert close(value(r, scaled(a, of(fmpq(3, 2)), key(-2)), t), x * mp.mpf("1.5") * mp.exp(-2 * t))
        assert scaled(a, ZERO) == {} and scaled(a, ONE) is a and plus(a, scaled(a, of(fmpq(-1)))) == {}
        slope = mp.diff(lambda s: value(r, a, s), t) * mp.exp(-t)  # d/dl = 1/l d/dlog l
        assert abs(value(r, r.derivative(a), t) / slope - 1) < mp.mpf("1e-15")
        base = next(iter(term(r, 2, 1, -1, 1)))
        moved = mp.diff(lambda s: value(r, a, s) * value(r, {base: ONE}, s), t) * mp.exp(-t) / value(r, {base: ONE}, t)
        assert abs(value(r, r.derivative(a, base), t) / moved - 1) < mp.mpf("1e-15")
    ordered = r.ordered(plus(a, b))
    sizes = [r.size(k) for k, _ in ordered]
    assert sizes == sorted(sizes, reverse=True) and r.largest(*[k for k, _ in ordered], None) == ordered[0][0]
    assert set(r.above(plus(a, b), ordered[2][0])) == {k for k, _ in ordered[:2]} and r.above(a, None) is a
    for one, other in itertools.product(a, b):
        assert over(times(one, other), other) == one


@pytest.mark.slow_with("slope3--1-rational", "slope3--1-basis")
@pytest.mark.parametrize("kind", ["rational", "basis"])
@pytest.mark.parametrize("slope, logs", [((0, 0), 0), ((1, 0), 0), ((0, 1), R(1, 2)), ((R(1, 2), 0), -1), ((0, 0), -1)])
def test_a_linear_equation_in_l_is_solved(kind, slope, logs):
    """l x′ + slope x + logs x/log l = rhs, put in; terms further down than (log l)^-9 are left out."""
    r = ring(kind)
    rhs = plus(*sample(r), term(r, R(-1, 2), 0, 0, 1, c=2))
    part = fmpq(slope[1]) if r.basis is None else r.basis.of(slope[1] * ROOT)[1]
    n = fmpq(int(R(logs).p), int(R(logs).q))
    found = r.solved(rhs, (fmpq(int(R(slope[0]).p), int(R(slope[0]).q)), part), n)
    with mp.workdps(60):
        t, back = mp.mpf(10) ** 4, mp.mpf(0)
        for k, c in found.items():
            front = {k: c}
            p = mp.mpf(str(sp.N(slope[0] + slope[1] * ROOT, 50)))
            own = value(r, scaled(r.derivative(front), ONE, key(1)), t) + (
                p + mp.mpf(R(logs).p) / R(logs).q / t
            ) * value(r, front, t)
            back += own
        truth = value(r, rhs, t)
        assert abs(back / truth - 1) < mp.mpf("1e-24")


def test_sums_logarithms_and_powers_of_series():
    """Σ_{m<l} differs by what a step puts in; (1 + a)^p and log(1 + a) from the powers of a."""
    r = ring(floor=7)
    f = plus(term(r, R(1, 2), 0, 1, c=3), term(r, -2, c=5), term(r, 0, c=-1))
    total, a = r.summed(f), plus(term(r, R(-1, 2), c=2), term(r, -1, 0, 1, c=-3))
    with mp.workdps(60):
        t, step = mp.log(mp.mpf(10) ** 6), mp.log(mp.mpf(10) ** 6 + 1)
        assert abs((value(r, total, step) - value(r, total, t)) / value(r, f, t) - 1) < mp.mpf("1e-30")
        x, powers, t = value(r, a, mp.mpf(60)), r.powers(a), mp.mpf(60)
        assert abs(value(r, powers[2], t) / x**3 - 1) < mp.mpf("1e-30")
        assert abs(value(r, r.log1p(powers), t) / mp.log1p(x) - 1) < mp.mpf("1e-30")
        whole = r.composed(powers, lambda j: binomial(fmpq(-3, 2), j))
        assert abs(value(r, whole, t) - (1 + x) ** mp.mpf("-1.5")) < mp.mpf("1e-45")
    assert len(r.powers(a, 2)) == 2 and r.powers(a, 0) == [] and len(powers) == 14
    with pytest.raises(TooLong, match="more than 400 terms"):
        ring(floor=400, depth=900).powers(plus(*[term(r, -R(1, n), c=n) for n in range(2, 30)]))


def test_what_is_left_out_is_remembered():
    r = ring(floor=2, depth=1)
    assert r.keeps(key(-2)) and r.lost is None and not r.keeps(key(fmpq(-5, 2))) and not r.keeps(key(-3))
    assert r.lost == key(fmpq(-5, 2)) and r.with_floor(fmpq(9), fmpq(9)).lost is None
    assert not r.keeps((fmpq(0), fmpq(0), fmpq(-2), 0)) and r.lost == (fmpq(0), fmpq(0), fmpq(-2), 0)
    assert [natural(fmpq(*n)) for n in ((3, 1), (0, 1), (-1, 1), (1, 2))] == [3, 0, None, None]
    with pytest.raises(NoHigherOrder, match="two exponents differ by"):
        near = Basis()
        near.of(ROOT)
        n = R(sp.N(ROOT, 50))
        Ring(Atoms(), fmpq(1), fmpq(1), basis=near).inverse(fmpq(-int(n.p), int(n.q)), near.of(ROOT)[1])


def test_coefficients_are_numbers():
    atoms = Atoms()
    numbers = [sp.pi, 3 * sp.sqrt(5), R(-2, 7), sp.log(2) / 3]
    values = [atoms.of(e) for e in numbers]
    for (x, a), (y, b) in itertools.product(zip(numbers, values), repeat=2):
        for ours, theirs in (
            (a + b, x + y),
            (a - b, x - y),
            (a * b, x * y),
            (-a, -x),
            (a.scaled(fmpq(2, 3)), 2 * x / 3),
        ):
            assert sp.N(atoms.expr(ours) - theirs, 20, chop=True) == 0
            assert bool(ours) == (theirs != 0) and atoms.vanishes(ours) == (theirs == 0)
        for c, e in ((a, x), (a + b, x + y)):
            if c:
                assert sp.N(atoms.expr(atoms.reciprocal(c)) - 1 / e, 20, chop=True) == 0
    assert values[2].number == fmpq(-2, 7) and values[0].number is None and ZERO.number == 0
    assert (
        isinstance(values[0] * atoms.reciprocal(values[0]), Exact)
        and (values[0] * atoms.reciprocal(values[0])).number == 1
    )
    e = sp.sqrt(sp.pi) ** 3 * 7 / sp.Symbol("s", positive=True) ** 2
    assert sp.simplify(atoms.expr(atoms.product(e)) - e) == 0
    assert (
        decided(R(3, 2), "x") == R(3, 2) and decided(ROOT, "x") is None and decided(ROOT - sp.sqrt(8) + ROOT, "x") == 0
    )


def test_irrational_parts_of_exponents_add_up():
    basis = Basis()
    x, y = (basis.of(e)[1] for e in (ROOT, sp.sqrt(3)))
    for a, b in itertools.product((x, y, x * 3 + y, y - x, x * fmpq(-1, 2)), repeat=2):
        for ours, theirs in ((a + b, basis.value(a) + basis.value(b)), (a - b, basis.value(a) - basis.value(b))):
            assert basis.value(ours) == theirs and (ours == 0) == (theirs == 0)
        assert (a == b) == (basis.value(a) == basis.value(b)) and (a != b or hash(a) == hash(b))
        assert basis.value(-a) == -basis.value(a) and basis.value(a * fmpq(2, 3)) == basis.value(a) * fmpq(2, 3)
    assert x + 0 == x == 0 + x and 0 - x == -x and x - 0 == x and x * 0 == 0
    assert repr(x - y) == "1*lambda_0 + -1*lambda_1"
    for wrong in (lambda: x + 1, lambda: 1 - x):
        with pytest.raises(TypeError, match="a rational is kept apart"):
            wrong()
    assert basis.expr(fmpq(1, 2), x * 2 - y) == R(1, 2) + 2 * ROOT - sp.sqrt(3)
    assert basis.of(R(1, 3) + ROOT + sp.sqrt(12)) == (fmpq(1, 3), x + y * 2) and basis.of(S.One) == (1, 0)
    with pytest.raises(NoHigherOrder, match="Further terms need a number for an exponent"):
        basis.of(sp.Symbol("beta"))
