"""Balances of powers and correlations of tails against mpmath."""

from __future__ import annotations

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.asymptotics.schedules.balance import Balance
from meanfield.symbolic.asymptotics.schedules.power_tails import Meeting, Tail, tail, unlike

z, R = Z[0], sp.Rational


BALANCES = [(1, 2, 3, 0, 0, 5), (2, 3, 5, 0, R(1, 3), 0), (2, 3, 5, 7, R(1, 2), 1), (2, 3, 5, 0, R(1, 2), 4)]
BALANCES += [(3, 1, 2, 1, R(1, 3), 2), (R(1, 100), 1, 1, 0, R(3, 4), 1), (50, 1, 1, R(1, 9), R(2, 3), 0)]


@pytest.mark.parametrize("args", BALANCES)
def test_the_root_of_a_balance(args):
    """e x = A (w x + b)^a + s."""
    e, A, w, b, a, s = (mp.mpf(R(v).p) / R(v).q for v in args)
    node = Balance(*args)
    for x in (sp.N(node, 25), sp.N(node.doit(), 25)):
        x = mp.mpf(str(x))
        assert x > 0 and abs((A * (w * x + b) ** a + s) / (e * x) - 1) < 1e-14
    ball = node.ball(25)
    assert ball.rad() < 1e-23 * ball.mid() and ball.contains(ball.mid()) and not ball.contains(ball.mid() * (1 + 1e-15))
    x, other = node.equation()
    assert float(other.subs(x, sp.N(node, 25))) == pytest.approx(float(node))


TAILS = [Tail(R(1), R(1), R(0)), Tail(R(1), R(1), R(-1, 3)), Tail(R(1, 3), R(2), R(1)), Tail(R(0), R(1), R(-1)),
         Tail(R(0), R(3), R(1)), Tail(R(2), R(1), R(0)), Tail(R(1, 4), R(1), R(-1))]  # fmt: skip


def correlation(one: Tail, c: float) -> float:
    """⟨f_a f_b⟩/⟨f²⟩ by quadrature over the angle of (z_a, z_b), whose radius is a factor of both."""
    d, right, left = (float(v) for v in (one.d, one.right, one.left))
    f = lambda x: (right if x > 0 else left) * abs(x) ** d if x else mp.mpf(0)  # noqa: E731
    theta = mp.acos(c)
    kinks = sorted({k % (2 * mp.pi) for k in (mp.pi / 2, 3 * mp.pi / 2, theta + mp.pi / 2, theta + 3 * mp.pi / 2)})
    points = [mp.mpf(0), *kinks, 2 * mp.pi]
    return mp.quad(lambda u: f(mp.cos(u)) * f(mp.cos(u - theta)), points) / mp.quad(lambda u: f(mp.cos(u)) ** 2, points)


@pytest.mark.fast_with("0, 1, -1", "0, 3, 1", "2, 1, 0")
@pytest.mark.parametrize("one", TAILS, ids=lambda t: f"{t.d}, {t.right}, {t.left}")
def test_the_correlation_of_a_tail(one):
    for c in (0.9, 0.35):
        assert float(sp.N(one.kernel(sp.Float(c)))) == pytest.approx(float(correlation(one, c)), rel=1e-6)
    assert sum(one.weights) == 1
    if one.d > R(1, 2):
        step = 1e-6
        rise = (1 - correlation(one, 1 - step)) / step
        assert float(one.slope) == pytest.approx(float(rise), rel=1e-2)
    else:
        assert one.slope == sp.oo
    if one.d == 2:
        with pytest.raises(MeanFieldError, match="linear or slower than √"):
            one.nearness()
        return
    k, n = one.nearness()
    assert n == one.d + R(1, 2)
    quotients, steps = [], [R(1, 10**6), R(1, 10**8)]
    for step in steps:  # (1 - κ)/ε = k ε^(n - 1) + a constant
        left = 1 - sp.N(one.kernel(sp.Float(1 - step, 50)), 40)
        quotients.append(float((step - left if one.d == 1 else left) / step))
    powers = [float(step) ** float(n - 1) for step in steps]
    assert (quotients[0] - quotients[1]) / (powers[0] - powers[1]) == pytest.approx(float(k), rel=2e-3)


def test_a_constant_tail_does_not_close():
    with pytest.raises(MeanFieldError, match="linear or slower"):
        Tail(R(0), R(1), R(1)).nearness()


@pytest.mark.parametrize(
    "f, far, expected",
    [
        (sp.Max(z, 0), True, (1, 1, 0)),
        (sp.tanh(z), True, (0, 1, -1)),
        (sp.tanh(z), False, (1, 1, -1)),
        (z / (1 + sp.Abs(z)) + 3 * z, True, (1, 3, -3)),
        (sp.Piecewise((-z / 4, z < 0), (z, True)), True, (1, 1, R(1, 4))),
        (sp.Piecewise((z**2 + 1, z < 0), (z, True)), True, (2, 0, 1)),
        (sp.Piecewise((z**2, z < 0), (z, True)), False, (1, 1, 0)),
        (sp.exp(-z) * sp.Heaviside(z) + 5 * sp.Heaviside(-z), True, (0, 0, 5)),
    ],
)
def test_what_is_left_of_a_function_at_an_end(f, far, expected):
    found = tail(pieces(f, z), far)
    assert (found.d, found.right, found.left) == expected


def test_functions_without_a_tail_and_waves():
    with pytest.raises(MeanFieldError, match="no powers of"):
        tail(pieces(sp.exp(-(z**2)), z), True)
    with pytest.raises(MeanFieldError, match="no powers of"):
        tail(pieces(sp.log(1 + z**2), z), True)
    assert unlike(pieces(3 + sp.sin(2 * z), z)) == R(9) / (9 + R(1, 2)) and unlike(pieces(sp.cos(z), z)) == 0
    assert unlike(pieces(sp.sin(z) + z, z)) is None and unlike(pieces(sp.sin(z**2), z)) is None
    assert unlike(pieces(sp.tanh(z), z)) is None and unlike(pieces(sp.Abs(sp.sin(z) - 2) * sp.sign(z), z)) is None


@pytest.mark.fast_with("one1-share1", "one3-0")
@pytest.mark.parametrize("one, share", [(TAILS[2], R(1, 5)), (TAILS[3], R(1, 10)), (TAILS[6], R(1, 3)), (TAILS[4], 0)])
def test_where_two_inputs_meet(one, share):
    """e = (1 - s) κ(e) + s below 1, by iteration of it from 0."""
    found, e = Meeting(one.d, one.right, one.left, share), 0.0
    kernel = sp.lambdify(sp.Symbol("c"), one.kernel(sp.Symbol("c")), "mpmath")
    for _ in range(100):
        e = float((1 - share) * kernel(mp.mpf(e)) + share)
    assert float(sp.N(found, 20)) == pytest.approx(e, rel=1e-6) and found.doit() is found
    c, other = found.equation()
    assert float(other.subs(c, sp.N(found, 20))) == pytest.approx(float(sp.N(found, 20)))
    assert Meeting(R(1, 3), 1, -1, 0).doit() == 0 and sp.N(Meeting(R(1, 3), 1, -1, 0)) == 0
