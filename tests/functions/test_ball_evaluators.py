"""Straight-line programs of balls against a naive evaluator that walks the tree: same values, same branch cuts, never
wider; averages and critical points that use them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import re
import statistics

import mpmath as mp
import pytest
import sympy as sp
from flint import acb, arb, fmpq

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, sigmoid, softplus
from meanfield.functions import balls
from meanfield.functions.activations import activation
from meanfield.functions.balls.ball_functions import _BALLS
from meanfield.functions.balls.straight_line import compile_program
from meanfield.functions.elementary import records
from meanfield.functions.series.ball_series import ball_series, coefficients
from meanfield.symbolic.averages import enclosure
from meanfield.symbolic.averages.node import _surely_not_odd, average
from meanfield.symbolic.criticality.critical_points import critical_points, curvature

z, y = Z[:2]
METHODS = ["exp", "erf", "erfc", "erfi", "tanh", "sech", "sinh", "cosh", "sin", "cos", "gamma"]


def naive(e: sp.Expr, at: dict, analytic: bool = False) -> acb:
    """The expression as it stands, node by node: no sharing, no reordering, one formula for each head."""
    if e in at:
        return at[e]
    if e.is_Rational:
        return acb(fmpq(int(e.p), int(e.q)))
    if e is sp.pi:
        return acb(arb.pi())
    parts = [naive(a, at, analytic) for a in e.args]
    if e.is_Add or e.is_Mul:
        total = parts[0]
        for p in parts[1:]:
            total = total + p if e.is_Add else total * p
        return total
    u = parts[0]
    if e.is_Pow:
        return u ** int(e.exp) if e.exp.is_Integer else u.pow(parts[1], analytic=analytic)
    if isinstance(e, sigmoid):
        return 1 / (1 + (-u).exp())
    if isinstance(e, softplus):
        return (1 + u.exp()).log(analytic=analytic)
    if isinstance(e, sp.log):
        return u.log(analytic=analytic)
    if isinstance(e, sp.asinh):
        return (u + (u * u + 1).sqrt(analytic=analytic)).log(analytic=analytic)
    if isinstance(e, sp.atan):
        return u.atan()
    return getattr(u, e.func.__name__)()


ELEMENTARY_FUNCTIONS = (sp.exp, sp.erf, sp.tanh, sp.sech, sp.sin, sp.cos, sp.atan, sp.asinh, sigmoid, softplus)


def grown(r: random.Random, depth: int) -> sp.Expr:
    """A random smooth expression in z and y."""
    kind = r.random()
    if depth == 0 or kind < 0.1:
        return r.choice([z, z, y, sp.Rational(r.randint(-5, 5), r.randint(1, 7)), sp.sqrt(2) / sp.sqrt(sp.pi)])
    if kind < 0.4:
        return sp.Add(*[grown(r, depth - 1) for _ in range(r.randint(2, 3))])
    if kind < 0.7:
        return sp.Mul(*[grown(r, depth - 1) for _ in range(r.randint(2, 3))])
    if kind < 0.8:
        return grown(r, depth - 1) ** r.choice([2, 3, 5])
    if kind < 0.85:
        return (2 + grown(r, depth - 1) ** 2) ** r.choice([-1, -2, sp.Rational(1, 2), sp.Rational(-1, 2)])
    return r.choice(ELEMENTARY_FUNCTIONS)(sp.Rational(1, 2) * grown(r, depth - 1))


def expressions(count: int, seed: int) -> list[sp.Expr]:
    r, out = random.Random(seed), []
    while len(out) < count:
        e = grown(r, 4)
        if r.random() < 0.5:  # derivatives are what the library feeds in: full of common parts
            e = e.diff(z)
        if e.has(z) and not e.has(sp.zoo, sp.nan) and sp.count_ops(e) < 400:
            out.append(e)
    return out


def ball(re: float, im: float, radius: float = 0.0) -> acb:
    return acb(arb(re, radius), arb(im, radius))


def assert_same_value(program, e: sp.Expr, point: tuple[acb, acb]) -> None:
    """Both enclosures are tight and meet."""
    one, two = program(point, False), naive(e, dict(zip((z, y), point)))
    assert one.overlaps(two), f"{e}: {one} and {two} exclude each other"
    if two.rel_accuracy_bits() > 60:
        assert one.rel_accuracy_bits() > two.rel_accuracy_bits() - 30, f"{e}: {one} lost digits of {two}"


def assert_encloses(program, e: sp.Expr, r: random.Random, analytic: bool = False) -> None:
    """Over wide balls the program holds the values at points inside."""
    centre = [(r.uniform(-2, 2), r.uniform(-0.5, 0.5)) for _ in range(2)]
    wide = program(tuple(ball(*c, 0.125) for c in centre), analytic)
    if not wide.is_finite():
        return
    for _ in range(4):
        inside = tuple(ball(x + r.uniform(-0.12, 0.12), t + r.uniform(-0.12, 0.12)) for x, t in centre)
        value = naive(e, dict(zip((z, y), inside)))
        assert wide.overlaps(value), f"{e}: {value} is outside {wide}"


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_programs_equal_the_naive_evaluator(seed):
    r = random.Random(100 + seed)
    for e in expressions(40, seed):
        program = balls.compile_ball(e)
        with balls.precision(160):
            for _ in range(3):
                real = tuple(ball(r.uniform(-3, 3), 0) for _ in range(2))
                assert_same_value(program, e, real)
                if not several_branches(e):  # the program may continue log(1 + e^u) along another branch
                    beside = tuple(ball(r.uniform(-3, 3), r.uniform(-1, 1)) for _ in range(2))
                    assert_same_value(program, e, beside)
            if not several_branches(e):
                assert_encloses(program, e, r)


def several_branches(e: sp.Expr) -> bool:
    return e.has(softplus, sp.atan, sp.asinh) or any(not p.exp.is_Integer for p in e.atoms(sp.Pow) if p.has(z, y))


def test_a_planted_error_is_seen():
    r = random.Random(7)
    e = (z * sp.tanh(z) + sp.sech(z) ** 2) ** 2
    wrong = balls.compile_ball((z * sp.tanh(z) + sp.sech(z) ** 2 + 100) ** 2)
    with balls.precision(160), pytest.raises(AssertionError, match="exclude each other"):
        assert_same_value(wrong, e, (ball(1, 0), ball(0, 0)))
    with pytest.raises(AssertionError, match="outside"):
        assert_encloses(wrong, e, r)
    coarse = balls.compile_ball(e)
    with balls.precision(160), pytest.raises(AssertionError, match="lost digits"):
        assert_same_value(lambda p, a: coarse(p, a) + acb(arb(0, 1e-20)), e, (ball(1, 0), ball(0, 0)))


@pytest.mark.slow
def test_rational_programs_are_not_wider():
    """Sharing factors is subdistributivity, a(b + c) lies in ab + ac: exact for real balls; complex rectangles also
    depend on the order of the products. 1/b² is (1/b)²: the ball of b² may hold 0 where that of b does not."""
    r = random.Random(11)
    complex_ratios = []
    for _ in range(60):
        e = sp.Add(*[r.randint(-9, 9) * z ** r.randint(0, 4) * y ** r.randint(0, 4) for _ in range(6)]) + z
        e = e / (1 + z**2) ** r.randint(0, 2) + e.diff(z)
        program = balls.compile_ball(e)
        x = [acb(arb(r.uniform(-1, 1), 0.03)) for _ in range(2)]
        assert width(program(tuple(x), False)) < 1.000001 * width(naive(e, dict(zip((z, y), x))))
        x = [ball(r.uniform(-1, 1), r.uniform(-1, 1), 0.03) for _ in range(2)]
        complex_ratios.append(width(program(tuple(x), False)) / width(naive(e, dict(zip((z, y), x)))))
    assert statistics.median(complex_ratios) < 1 and max(complex_ratios) < 2
    near = (ball(0.35, 0.35, 0.3),)  # 0 is in the rectangle of b², not in that of b
    assert (near[0] * near[0]).contains(0) and balls.compile_ball(z**-2)(near, False).is_finite()


def width(w: acb) -> float:
    return float(max(w.real.rad(), w.imag.rad()))


# ------------------------------------------------------------------------------------------------------ branch cuts

CUTS = {  # expression: a ball across a cut and away from where it starts, a ball on which the function is analytic
    sp.log(z): ((-1, 0, 0.5), (1, 0, 0.5)),
    sp.sqrt(z): ((-1, 0.1, 0.5), (1, 0.1, 0.5)),
    z ** sp.Rational(1, 3): ((-1, 0.1, 0.5), (1, 0.1, 0.5)),
    sp.sqrt(1 + z**2) ** 3: ((0, 1.5, 0.5), (0.2, 0, 0.5)),
    z / 3 * sp.sqrt(2 + sp.sin(z)): ((-1.57, 2, 0.1), (0.2, 0, 0.25)),
    sp.atan(z): ((0, 1.5, 0.25), (1, 0, 0.5)),
    sp.asinh(z): ((0.02, 1.5, 0.05), (1, 0, 0.5)),
    sp.log(2 + sp.cos(z)): ((3.2, 2, 0.1), (0, 0, 0.5)),
    2 ** sp.log(z): ((-1, 0, 0.5), (1, 0, 0.5)),
}


def assert_cut_is_seen(program, across: acb, beside: acb) -> None:
    assert program((beside,), True).is_finite(), "refused where the function is analytic"
    assert not program((across,), True).is_finite(), "a branch cut went unseen"


@pytest.mark.parametrize("e", CUTS, ids=lambda e: str(e).replace("_", ""))
def test_a_ball_across_a_cut_is_not_finite_when_analyticity_is_asked(e):
    across, beside = (ball(*c) for c in CUTS[e])
    program = balls.compile_ball(e)
    assert_cut_is_seen(program, across, beside)
    with pytest.raises(AssertionError, match="unseen"):  # the flag dropped on the way
        assert_cut_is_seen(lambda p, a: program(p, False), across, beside)


@pytest.mark.parametrize(
    ("e", "across", "beside"),
    [
        (softplus(z), (-0.5, 3.2, 0.5), (1, 1, 0.5)),
        (softplus(-z), (0.25, -3.2, 0.5), (1, 1, 0.5)),
        (z * softplus(z) * sigmoid(z) * sigmoid(-z), (-0.5, 3.2, 0.5), (1, 1, 0.5)),
        (z * softplus(z) * sigmoid(z), (0.25, 3.2, 0.5), (1, 1, 0.5)),
        (sp.asin(z / 2), (3, 0.1, 0.5), (0, 0, 0.5)),
        (sp.acos(sp.tanh(z)), (0.5, 1.57, 0.25), (0, 0, 0.25)),
        (sp.tanh(softplus(z)), (0, 3.14, 0.25), (0, 1, 0.25)),
        (1 / (1 + z**2) ** 2, (0, 1, 0.25), (0, 0.5, 0.25)),
    ],
)
def test_a_ball_around_a_singularity_is_not_finite(e, across, beside):
    assert_cut_is_seen(balls.compile_ball(e), ball(*across), ball(*beside))
    with pytest.raises(AssertionError, match="unseen"):
        assert_cut_is_seen(balls.compile_ball(e), ball(*beside), ball(*beside))


def test_real_values_do_not_need_the_flag():
    for e in (sp.log(z), sp.sqrt(z), sp.asin(z / 2), sp.acos(z / 2), sp.asinh(z), sp.atan(z)):
        assert balls.compile_ball(e)((ball(1, 0, 0.01),), False).is_finite()


def test_a_dropped_flag_would_give_a_wrong_average(monkeypatch):
    """What the flag is for: without it the certified ball of ⟨√(z² + 1/10⁴)⟩ excludes the true value."""
    e = sp.sqrt(z**2 + sp.Rational(1, 10000))
    right = enclosure.average(e, (sp.S.One,), (sp.S.Zero,), 15)
    # ⟨√(z² + c)⟩ = √(c/2)/√2 · e^{c/4}·[K₀ + K₁](c/4)·√(c/π)…, here by the trapezoidal rule in w, z = √c sinh w
    with balls.precision(120):
        c, h, total = arb(1) / 10000, arb(1) / 64, arb(0)
        for k in range(-900, 901):
            w = h * k
            s = c.sqrt() * w.sinh()
            total += c * w.cosh() ** 2 * (-s * s / 2).exp()
        truth = total * h / (2 * arb.pi()).sqrt()
        assert abs(right - truth) < arb(10) ** -14
    blind = dataclasses.replace(_BALLS, root=lambda u, a: u.sqrt())
    monkeypatch.setattr(enclosure, "compile_ball", lambda f, v=Z[:2]: compile_program(f, v, blind)[1])
    wrong = enclosure.average(e, (sp.S.One,), (sp.S.Zero,), 15)
    assert not wrong.overlaps(truth + arb(0, 1e-14))


# ---------------------------------------------------------------------------------------------------------- programs


def counted(e: sp.Expr) -> dict[str, int]:
    """How often each head is evaluated in one call."""
    source = compile_program(e, Z[:2], _BALLS)[0]
    found = {name: len(re.findall(rf"\.{name}\(\)", source)) for name in METHODS}
    found["other"] = len(re.findall(r"h\d+\(", source))
    return {name: n for name, n in found.items() if n}


@pytest.mark.slow
def test_each_head_is_computed_once():
    for name, expected in {
        "silu": {"other": 1},
        "gelu_tanh": {"tanh": 1, "sech": 1},
        "mish": {"tanh": 1, "sech": 1, "other": 1},
        "gelu": {"exp": 1, "erf": 1},
    }.items():
        g = curvature(activation(name).pieces.expr)[0]
        assert counted(g) == expected
        assert counted((z * g.diff(z)) ** 2) == expected
        assert counted(g + sp.sin(3 * z)) == expected | {"sin": 1}


@pytest.mark.slow
def test_source_holds_nothing_of_the_caller():
    for e in expressions(20, 5):
        source = compile_program(e, Z[:2], _BALLS)[0]
        names = set(re.findall(r"[A-Za-z_]\w*", source)) - set(METHODS) - {"def", "f", "z", "a", "return", "constants"}
        assert all(re.fullmatch(r"[vch]\d+|e\d+_\d+m?|True|False", n) for n in names), names


def test_constants_follow_the_precision():
    program = balls.compile_ball(sp.sqrt(2) * z / 3 + sp.pi)
    for bits in (53, 200, 80, 400, 53):
        with balls.precision(bits):
            value = program((acb(1),), False).real
            assert bits - 6 < value.rel_accuracy_bits() and value.overlaps(arb(2).sqrt() / 3 + arb.pi())


def test_unknown_heads_and_symbols_are_refused_before_anything_is_computed():
    other = sp.Symbol("other", real=True)
    for e in (sp.besselj(0, z), z + other, sp.airyai(2) * z, z**other, sp.Max(z, 0)):
        with pytest.raises(MeanFieldError, match="No certified evaluation"):
            balls.compile_ball(e)
    with pytest.raises(MeanFieldError, match="No certified evaluation"):
        balls.constant(sp.airyai(2))


def test_one_variable_of_two_and_none():
    for e in (y**2 + sp.pi, sp.sqrt(2), sp.S.Zero, z - z, sp.tanh(1) ** 2):
        value = balls.compile_ball(e)((acb(3), acb(2)), False)
        assert value.overlaps(naive(sp.sympify(e), {z: acb(3), y: acb(2)}))
    assert balls.compile_ball(z**3)((acb(2),), False) == 8  # the second variable is not asked for


def test_cancelling_parts_leave_no_pole():
    e = sp.Add(sp.Mul(2, z + 1), sp.Mul(-1, 2 * z + 2, evaluate=False), evaluate=False)
    assert balls.compile_ball(e)((acb(3),), False) == 0
    assert not balls.compile_ball(1 / e)((acb(3),), False).is_finite()


@pytest.mark.parametrize("k", ["1e-30", "1/7", "1e12"])
def test_certified_along_a_variable_is_certified_after_substitution(k):
    form = average(sp.erf(z) ** 2, K).doit() + sp.sqrt(K) * sp.exp(-K / 3)
    one, two = balls.certified_at(form, {K: sp.Rational(k)}, 25), balls.certified(form.subs(K, sp.Rational(k)), 25)
    assert one.overlaps(two) and one.rel_accuracy_bits() > 80
    assert not balls.certified_at(form * (1 + sp.Rational(1, 10**20)), {K: sp.Rational(k)}, 25).overlaps(two)


def assert_taylor(series, e: sp.Expr, at: arb) -> None:
    """Coefficients 0 … 3 at a ball against derivatives taken by SymPy, evaluated naively at its centre."""
    found = coefficients(series, at, 4)
    if found is None or not all(c.is_finite() for c in found):
        return
    d = e
    for k, c in enumerate(found):
        value = naive(sp.sympify(d), {z: acb(at.mid())}).real / math.factorial(k)
        assert c.overlaps(value), f"coefficient {k} of {e}: {c} excludes {value}"
        d = sp.sympify(d).diff(z)


def test_programs_of_series_equal_derivatives():
    r = random.Random(3)
    for e in expressions(40, 21):
        e = e.xreplace({y: sp.Rational(1, 3)})
        if e.has(z) and not e.has(sp.zoo, sp.nan) and sp.count_ops(e) < 25:
            for x in (0.0, r.uniform(-2, 2)):
                assert_taylor(ball_series(e), e, arb(x))
                assert_taylor(ball_series(e), e, arb(x, 0.01))
    e = z * sigmoid(z) * sp.tanh(softplus(z))
    with balls.precision(120):
        narrow, wide = (coefficients(ball_series(e), arb(0.7, radius), 4) for radius in (0, 0.01))
    assert all(c.rel_accuracy_bits() > 100 for c in narrow)
    assert all(w.contains(c) for c, w in zip(narrow, wide))
    with pytest.raises(AssertionError, match="excludes"):
        assert_taylor(ball_series(e), e + z**2 / 1000, arb(0.7))
    with pytest.raises(MeanFieldError, match="no power series"):
        ball_series(sp.gamma(z))
    root = z ** sp.Rational(1, 3)  # a series where the base is positive, nothing finite where it is not
    assert all(c.is_finite() for c in coefficients(ball_series(root), arb(0.7), 4))
    assert_taylor(ball_series(root), root, arb(0.7))
    with pytest.raises(AssertionError, match="excludes"):
        assert_taylor(ball_series(root), root * (1 + z**3 / 1000), arb(0.7))
    for at in (arb(0), arb(-1), arb(0.1, 0.2)):
        found = coefficients(ball_series(root), at, 4)
        assert found is None or not any(c.is_finite() for c in found)


@pytest.mark.parametrize("head", [sp.tanh, sp.sinh, sp.asinh])
def test_series_keep_their_digits_near_a_zero(head):
    """Each is z + O(z³): at 10^-90 the first coefficient is 10^-90 to all digits, which differences of exponentials
    lose."""
    with balls.precision(120):
        tiny = arb("1e-90")
        found = coefficients(ball_series(head(z)), tiny, 4)
        assert found[0].rel_accuracy_bits() > 100 and found[0].overlaps(tiny)
        lost = coefficients(ball_series((sp.exp(z) - sp.exp(-z)) / 2), tiny, 4)  # control: sinh by its definition
        assert lost[0].rel_accuracy_bits() < 0
        for at in (arb(-0.4), arb(0.4), arb(0.6, 0.01), arb(3)):
            assert_taylor(ball_series(head(z)), head(z), at)


# ---------------------------------------------------------------------------------------------------------- averages


def assert_parity(e: sp.Expr, parity: int | None) -> None:
    if parity is None:
        return
    f = balls.compile_ball(e)
    for x in (0.3, 1.7):
        assert f((acb(-x),), False).overlaps(parity * f((acb(x),), False)), f"{e} does not have parity {parity}"


@pytest.mark.slow
def test_parity_is_what_it_says():
    shown = (z**2 * sp.tanh(z**3) * z, sp.sech(sp.sin(z)) ** 2, sp.atan(z) / z, sp.exp(z))
    known = [enclosure._parity(e) for e in shown]
    assert known == [1, 1, 1, None]
    for e in expressions(60, 9):
        e = e.xreplace({y: sp.S.Half}) if random.Random(sp.count_ops(e)).random() < 0.5 else e.xreplace({y: z**2})
        e = e.subs(z, z**2) * z if sp.count_ops(e) % 2 else e
        if not e.has(sp.zoo, sp.nan):
            assert_parity(e, enclosure._parity(e))
    with pytest.raises(AssertionError, match="does not have parity"):
        assert_parity(z * sigmoid(z), 1)


@pytest.mark.parametrize("name", ["tanh", "arctan", "sin", "erf_scaled"])
def test_half_the_line_twice_is_the_line(name, monkeypatch):
    e = activation(name).pieces.expr ** 2
    cov, mean = (sp.Rational(3, 2),), (sp.S.Zero,)
    half = enclosure.average(e, cov, mean, 30)
    monkeypatch.setattr(enclosure, "_parity", lambda e: None)
    whole = enclosure.average(e, cov, mean, 30)
    assert half.overlaps(whole) and half.rad() < 4 * whole.rad()
    monkeypatch.setattr(enclosure, "_parity", lambda e: 1)  # planted: silu² is not even
    silu = enclosure.average((z * sigmoid(z)) ** 2, cov, mean, 30)
    monkeypatch.undo()
    assert not silu.overlaps(enclosure.average((z * sigmoid(z)) ** 2, cov, mean, 30))


def test_refuted_oddness():
    for e in (z**3, sp.tanh(z) * sp.sech(z), z * sp.cos(z), sp.sin(z) * z**2, z * y**2, sp.tanh(z) * sp.cos(y)):
        assert not _surely_not_odd(e, 2 if e.has(y) else 1)
    for e in (z**2, z * sigmoid(z), sp.exp(z), z * y, 1 + z):
        assert _surely_not_odd(e, 2 if e.has(y) else 1)
    assert average(sp.tanh(z) * sp.sech(z) ** 2, K) == 0 != average(z * sigmoid(z), K)


@pytest.mark.slow
def test_the_approach_to_a_critical_point_is_computed_when_it_is_asked_for():
    critical_points.cache_clear()
    point = mf.derive("silu").critical_points()[-1]
    done = vars(point.approach)
    assert not {"c_n", "zeta", "laws"} & set(done)
    assert abs(point.zeta.value - sp.Float("608.1240766481", 13)) < 1e-9 and "laws" not in done
    assert point.side == "attracts from below, repels above" and point.law_K.law.terms and "laws" in done
    assert point.law_J.exponent == -point.zeta.value and abs(point.A.value * point.c_n.value - 1) < 1e-20


POWERS = (
    sp.sqrt(sigmoid(z)) + sp.Rational(1, 10**6),
    z**2 * sigmoid(z) ** sp.Rational(3, 5),
    sp.sech(z) ** sp.Rational(1, 3) + sigmoid(2 * z) ** sp.Rational(7, 10),
)


@pytest.mark.fast_with("sqrt(sigmoid(_z)) + 1/1000000")
@pytest.mark.parametrize("e", POWERS, ids=str)
def test_powers_of_what_vanishes_nowhere(e):
    """Where such a function is small, a ball of its power is all that a wide interval needs: averages at a large
    variance, which took minutes, against mpmath in pieces."""
    with mp.workdps(40):
        f = sp.lambdify(z, e, [{"sigmoid": lambda u: 1 / (1 + mp.exp(-u)), "sech": mp.sech}, "mpmath"])
        for K in (4, 10**12):
            s, scales = mp.sqrt(K), [*range(13), *(mp.mpf(10) ** -k for k in range(1, 9))]
            walls = sorted({sign * w for sign in (1, -1) for w in scales if w == 0 or w * s > 1e-3})
            exact = mp.quad(lambda t, s=s: f(s * t) * mp.npdf(t), walls)
            ball = balls.certified(average(e, K), 20)
            assert abs(mp.mpf(ball.mid().str(30, radius=False)) - exact) < 1e-15 * abs(exact)


def test_heads_without_zeros():
    """By the argument principle, zeros less poles in a rectangle: as many as there are poles."""

    def turns(h):
        corners = [mp.mpc(4, -4), mp.mpc(4, 4), mp.mpc(-4, 4), mp.mpc(-4, -4)]
        total = 0
        for a, b in zip(corners, corners[1:] + corners[:1]):
            steps = [h(a + (b - a) * k / mp.mpf(400)) for k in range(401)]
            total += sum(mp.arg(q / p) for p, q in itertools.pairwise(steps))
        return int(mp.nint(total / (2 * mp.pi)))

    found = {head.name for head in records("zero_free")}
    assert {"sigmoid", "sech", "exp"} <= found and not found & {"tanh", "softplus", "erf", "sinh"}
    poles = {"sigmoid": 2, "sech": 2, "exp": 0}
    for head in records("zero_free"):
        assert turns(head.mpmath) == -poles.get(head.name, 0), head
    assert turns(mp.tanh) == 3 - 2, "control: zeros at 0 and ±iπ, poles at ±iπ/2"


def test_control_powers_of_what_vanishes_are_not_finite_where_they_branch():
    assert not balls.compile_ball(sp.sqrt(1 + z), (z,))((acb(arb(-1, 1), arb(0, 2)),), True).is_finite()
    left = (acb(arb(-9, 3), arb(0, 9)),)
    assert balls.compile_ball(sp.sqrt(sp.exp(z) * sigmoid(z / 9)), (z,))(left, True).is_finite()
    assert not balls.compile_ball(sp.sqrt(sp.tanh(z) + 1), (z,))(left, True).is_finite()
    assert not balls.compile_ball(sp.sqrt(sigmoid(z)), (z,))((acb(arb(0, 1), arb(0, 9)),), True).is_finite(), "poles"
