"""Integrals over half-lines in closed form, and sums of powers and logarithms of K, against mpmath.

A finite part is taken by hand: what diverges is subtracted under the integral and its own finite part added.
"""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, sigmoid, softplus
from meanfield.functions import balls
from meanfield.symbolic.averages.expansions import finite_parts
from meanfield.symbolic.averages.expansions.finite_parts import exact, outer_ball
from meanfield.symbolic.averages.expansions.moments import moment
from meanfield.symbolic.averages.expansions.powerlog import Sums

t = finite_parts.t
R = sp.Rational
SCOPE = [{"sigmoid": lambda u: 1 / (1 + mp.exp(-u)), "softplus": lambda u: mp.log1p(mp.exp(u))}, "mpmath"]


def quadrature(g: sp.Expr, x, a, b, divergent: dict | None = None) -> mp.mpf:
    """fp∫_a^b g: divergent {power: coefficient} is subtracted beyond 1, where fp∫_1^∞ x^s = -1/(s+1), 0 for s = -1."""
    f = sp.lambdify(x, g, SCOPE)
    away = {s: mp.mpf(sp.N(c, 30)) for s, c in (divergent or {}).items()}
    if not away:
        return mp.quad(f, [a, *[c for c in (1, 4, 16) if a < c < b], b])
    powers = {s: mp.mpf(s.p) / s.q for s in map(sp.sympify, away)}

    def rest(u):
        with mp.workdps(150):  # far out nearly all of f is subtracted
            return f(u) - sum(mp.mpf(sp.N(c, 140)) * u ** powers[s] for s, c in (divergent or {}).items())

    total = mp.quad(f, [a, 1]) + mp.quad(rest, [1, 8, mp.inf])
    return total - sum(c / (powers[s] + 1) for s, c in away.items() if s != -1)


EXACT = [  # (g, a, b, divergent powers far out, whose finite part from 1 is known)
    (1 / (1 + t**2), 0, sp.oo, {}),
    (1 / (3 + 2 * t**2) ** 2, 0, sp.oo, {}),
    ((2 * t - 5) / (t**2 + t + 4) ** 2, R(1, 2), sp.oo, {}),
    ((2 * t - 5) / (t**2 + t + 4) ** 3, 0, 2, {}),
    ((t + 3) / (2 * t**2 - t + 5), 1, 3, {}),
    (1 / (t + 2) ** 3 + 4 / (3 * t + 1) ** 2, 0, sp.oo, {}),
    (1 / ((t + 2) * (2 * t + 1)), 0, sp.oo, {}),
    (1 / (t - 5), 1, 3, {}),
    (t**2 - 3 * t + 1, 1, 2, {}),
    (5 * t**3 / (1 + t**2), 0, sp.oo, {sp.Integer(1): 5, sp.Integer(-1): -5}),
    (1 / (2 + 3 * t), 0, sp.oo, {sp.Integer(-1): R(1, 3)}),
    ((3 + 5 * t**2) ** R(-2, 3), 0, sp.oo, {R(-4, 3): sp.Integer(5) ** R(-2, 3)}),
    ((2 + 7 * t**2) ** R(-3, 4) / sp.sqrt(t), 0, sp.oo, {}),
    (t ** R(1, 3) * (2 + 7 * t**2) ** R(-4, 5), 0, sp.oo, {R(-19, 15): sp.Integer(7) ** R(-4, 5)}),
    (sp.sqrt(3 + 5 * t**2) / t ** R(1, 2), 0, sp.oo, {R(1, 2): sp.sqrt(5)}),
    (sp.sqrt(4 + 9 * t**2), 0, sp.oo, {sp.Integer(1): 3, sp.Integer(-1): R(2, 3)}),
    (t**2 / sp.sqrt(4 + 9 * t**2), 0, sp.oo, {sp.Integer(1): R(1, 3), sp.Integer(-1): -R(2, 27)}),
    (sp.atan(2 * t) - sp.pi / 2, 0, sp.oo, {sp.Integer(-1): -R(1, 2)}),
    (t * sp.atan(3 * t), 0, 2, {}),
    (t**2 * sp.log(1 + 3 * t), 0, 2, {}),
    (sp.log(4 + t**2), 1, 3, {}),
    (t * sp.log(2 + t), 1, 3, {}),
    (sp.atan(t) ** 2, 0, sp.oo, {sp.Integer(0): sp.pi**2 / 4, sp.Integer(-1): -sp.pi}),
    (t * sp.atan(t) ** 2, 0, sp.oo, {sp.Integer(1): sp.pi**2 / 4, sp.Integer(0): -sp.pi, sp.Integer(-1): 1}),
]


@pytest.mark.slow_with("sqrt(5*t**2 + 3)/sqrt(t)")
@pytest.mark.parametrize(("g", "a", "b", "far"), EXACT, ids=[str(e[0]).replace("_t", "t") for e in EXACT])
def test_closed_forms_of_finite_parts(g, a, b, far):
    with mp.workdps(20):
        found = exact(g, sp.sympify(a), sp.sympify(b))
        assert found is not None and not found.has(sp.Integral)
        end = mp.inf if b == sp.oo else mp.mpf(b)
        truth = quadrature(g, t, mp.mpf(a.p) / a.q if isinstance(a, R) else mp.mpf(a), end, far)
        assert abs(mp.mpf(sp.N(found, 25)) - truth) < 1e-9 * (1 + abs(truth))


def test_no_closed_form_is_claimed_outside_the_rules():
    for g in (1 / (t - 2), 1 / (t**2 - 2), 1 / (t**4 + 1), sp.sqrt(1 + t), (1 + t + t**2) ** R(1, 3), sp.exp(-t)):
        assert exact(g, sp.S.Zero, sp.oo) is None
    assert exact((2 - t**2) ** R(-1, 2), sp.S.Zero, sp.oo) is None and exact(1 / t, sp.S.Zero, sp.S.One) is None


BALLS = [
    (Z[0] / (1 + Z[0] ** 3), 0, 0, {}),
    (1 / (2 + Z[0] ** 2) + sp.exp(-Z[0]), R(1, 2), 1, {sp.Integer(-1): 1}),
    (sp.atan(Z[0]) * sp.tanh(Z[0]), 0, 0, {sp.Integer(0): sp.pi / 2, sp.Integer(-1): -1}),
    (sp.sqrt(3 + Z[0]), 0, 0, {R(1, 2): 1, R(-1, 2): R(3, 2)}),
]


@pytest.mark.parametrize(("e", "a", "n", "far"), BALLS, ids=[str(e[0]) for e in BALLS])
def test_certified_finite_parts(e, a, n, far):
    with mp.workdps(18), balls.precision(80):
        found = outer_ball(e, Z[0], sp.sympify(a), n)
        truth = quadrature(e * Z[0] ** n, Z[0], mp.mpf(sp.N(a, 20)), mp.inf, far)
        assert found.rad() < 1e-15 and abs(mp.mpf(found.mid().str(25, radius=False)) - truth) < 1e-8


MOMENTS = [sp.sech(Z[0]), sp.sech(2 * Z[0]) ** 2, sp.tanh(Z[0]) ** 2 - 1, sigmoid(Z[0]) * sigmoid(-Z[0]),
           softplus(-sp.Abs(Z[0])), sp.exp(-sp.Abs(Z[0] - 1)), sp.exp(-(Z[0] ** 2)) * (1 + Z[0])]  # fmt: skip


@pytest.mark.parametrize("f", MOMENTS, ids=str)
@pytest.mark.parametrize("n", [0, 1, 2])
def test_moments_of_what_dies(f, n):
    g = sp.lambdify(Z[0], f, SCOPE)
    with mp.workdps(20):
        truth = mp.quad(lambda x: g(x) * x**n, [-60, -20, -5, -1, 0, 1, 5, 20, 60])
        assert abs(mp.mpf(sp.N(moment(f, n), 20)) - truth) < 1e-12


# ------------------------------------------------------------------------------------------- powers and logarithms

L = sp.log(K)
FUNCTIONS = {  # near 0: F, the terms of its sum, the remainder
    "plain": (2 / (1 - K) - 1, {(sp.Integer(k), 0): sp.Integer(2 if k else 1) for k in range(3)}, (sp.Integer(3), 0)),
    "root": (sp.sqrt(K) + 3 * K**2, {(R(1, 2), 0): sp.S.One}, (sp.Integer(2), 0)),
    "logs": (2 + K * L + K**2 * L**2, {(sp.S.Zero, 0): sp.Integer(2), (sp.S.One, 1): sp.S.One}, (sp.Integer(2), 2)),
    "falling": (1 / K + 4 + K, {(-sp.S.One, 0): sp.S.One, (sp.S.Zero, 0): sp.Integer(4)}, (sp.S.One, 0)),
}
OPERATIONS = {
    "sum": (Sums.plus, lambda x, y: x + y),
    "product": (Sums.times, lambda x, y: x * y),
    "square": (lambda sums, a, b: sums.power(a, sp.Integer(2)), lambda x, y: x**2),
    "inverse": (lambda sums, a, b: sums.power(a, -sp.S.One), lambda x, y: 1 / x),
    "root": (lambda sums, a, b: sums.power(a, R(1, 2)), lambda x, y: sp.sqrt(x)),
}


@pytest.mark.parametrize("end", [1, -1])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_sums_leave_out_what_they_say(name, operation, end):
    """|F - sum| falls as K^r |log K|^m, at both ends (1/K instead of K), and no more slowly."""
    act, truth = OPERATIONS[operation]
    given, sums = [], Sums(end, sp.Integer(2))
    for F, terms, rest in (FUNCTIONS[name], FUNCTIONS["logs" if operation == "product" else "plain"]):
        turned = {(end * p, m): c * end**m for (p, m), c in terms.items()}  # log(1/K) = -log K
        given.append((F.subs(K, K**end), sums.of(turned, (end * rest[0], rest[1]))))
    (F, a), (G, b) = given
    found = act(sums, a, b)
    law, terms = sums.law(found), sums.terms(found)
    assert sums.terms(sums.of_law(law)) == terms and law.point == (0 if end > 0 else sp.oo)
    sizes = []
    for k in (8, 16):
        at = sp.Rational(1, 10**k) ** end
        written = sp.Add(*[c * K**p * L**m for (p, m), c in terms.items()])
        left = sp.N((truth(F, G) - written).subs(K, at), 30, maxn=400)
        scale = sp.N((K**law.remainder * sp.Abs(L) ** law.remainder_logs).subs(K, at), 30)
        sizes.append(abs(left / scale))
    assert 1e-3 < sizes[0] < 50 and sizes[1] < 3 * sizes[0] + 1


def test_functions_of_sums_and_what_has_none():
    for e, terms in (
        (sp.exp(K), {(0, 0): 1, (1, 0): 1, (2, 0): R(1, 2)}),
        (1 / (1 + 2 * K), {(0, 0): 1, (1, 0): -2, (2, 0): 4}),
        (sp.atan(K) * K, {(2, 0): 1}),
        (sp.sqrt(K) * sp.exp(-1 / K), {}),
    ):
        sums = Sums(1, sp.Integer(2))
        assert {k: v for k, v in sums.terms(sums(e)).items() if k[0] <= 2} == terms
    assert Sums(1, sp.Integer(2))(sp.exp(-1 / K)).small
    far = Sums(-1, sp.Integer(2))
    assert far.terms(far(sp.exp(-1 / K)))[-sp.S.One, 0] == -1
    for bad, words in ((sp.exp(1 / K), "no power-law expansion"), (sp.atan(1 / K), "the argument grows")):
        with pytest.raises(MeanFieldError, match=words):
            Sums(1, sp.Integer(2))(bad)
    node = sp.Function("node")(K)
    for e, terms, rest, words in (
        (K / node, {(sp.S.Zero, 1): sp.S.One}, sp.S.One, "a logarithm leads"),
        (1 / node, {}, sp.S.One, "its leading order is not known"),
        (sp.tanh(node), {}, sp.S.Zero, r"The limit of .* is not known"),
    ):
        sums = Sums(1, sp.Integer(2))
        sums.known[node] = sums.of(terms, (rest, 0))
        with pytest.raises(MeanFieldError, match=words):
            sums(e)
