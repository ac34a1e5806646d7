"""The laws of c, γ and the distance: exact constants, and iteration by maps that share no code with the library."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sympy as sp
from numba import njit

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Z, distance, l
from meanfield.symbolic.averages.expansions.small_distances import distance_ratio_powers, gap_powers
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio


def law(name, quantity, sigma_w, sigma_b, **keywords):
    start = {k: keywords.pop(k) for k in ("correlation", "input_norm") if k in keywords}
    return mf.derive(name, **keywords).depth_law(quantity, sigma_w=sigma_w, sigma_b=sigma_b, **start)


RELU = {  # σ_w, σ_b → the leading term of γ
    ("sqrt(2)", "0"): 2 * l**2 / (9 * sp.pi**2),
    ("sqrt(2)", "sqrt(1/10)"): 8 * l**2 / (9 * sp.pi**2),
    ("sqrt(5/2)", "sqrt(1/10)"): 2 * l**2 / (9 * sp.pi**2),
    ("1", "0"): 2 * l**2 / (9 * sp.pi**2),
}


@pytest.mark.slow_with("place1")
@pytest.mark.parametrize("place", RELU)
def test_relu_regimes(place):
    found = law("relu", "gamma", *place)
    assert found.law.leading.expr(l) == RELU[place] and found.exponent == 2 and found.status is mf.Status.EXACT
    assert found.law.leading.expr(l) != RELU[place] * 4
    gap = law("relu", "c", *place)
    assert gap.terms[0].coefficient == 1 and sp.expand(gap.terms[1].expr(l) * RELU[place]) == -1


def test_relu_ordered_with_biases():
    found = law("relu", "gamma", "sqrt(3/2)", "sqrt(1/10)")
    assert found.rate == -sp.log(sp.Rational(3, 4)) and found.terms[0].coefficient == sp.Symbol("C", real=True)
    assert law("relu", "c", "sqrt(3/2)", "sqrt(1/10)").rate == sp.log(sp.Rational(3, 4))


@njit
def relu_gap(gap, K, w2, b2, layers):
    """1 - c of ReLU after some layers: 1 - cos θ - (sin θ - θ cos θ)/π, in a series where that cancels."""
    for _ in range(layers):
        t = 2.0 * math.asin(math.sqrt(0.5 * gap))
        if t > 0.05:
            lost = math.sin(t) - t * math.cos(t)
        else:
            lost = t**3 * (1 / 3 - t * t * (1 / 30 - t * t * (1 / 840 - t * t / 45360)))
        K_next = 0.5 * w2 * K + b2
        gap, K = (gap - lost / math.pi) * 0.5 * w2 * K / K_next, K_next
    return gap, K


@pytest.mark.slow
def test_constants_of_relu_by_iteration():
    """(1 - c) l² → 9π²/2, and 9π²/8 with a bias: what is left falls as log(l)/l and as 1/√l."""
    exact = law("relu", "c", "sqrt(2)", "0")
    places = [10**5, 10**6]
    gaps = [relu_gap(1.0, 2.0, 2.0, 0.0, n - 1)[0] for n in places]
    left = [n**3 * (float(1 - exact.at(n)) - g) for n, g in zip(places, gaps)]
    assert abs(left[1] / left[0] - 1) < 0.02, left  # C l^{-3} is what depends on the start: the logarithm is right
    wrong = [x - n**3 * float(exact.terms[2].expr(l).subs(l, n)) * 0.05 for x, n in zip(left, places)]
    assert abs(wrong[1] / wrong[0] - 1) > 0.02
    roots = [1 / math.sqrt(n * n * relu_gap(1.0, 0.1, 2.0, 0.1, n - 1)[0]) for n in (10**6, 4 * 10**6)]
    limit = float(sp.sqrt(law("relu", "gamma", "sqrt(2)", "sqrt(1/10)").terms[0].coefficient))
    assert abs(2 * roots[1] - roots[0] - limit) < 2e-5 * limit, (roots, limit)  # in powers of 1/√l


def assert_falls_like(found, distances, tolerance):
    """The quotient of distances at two layers is that of the law: what the start decides is a factor."""
    (l1, d1), (l2, d2) = distances
    stated = float(sp.cancel(found.at(l2) / found.at(l1)))
    assert abs(d2 / d1 / stated - 1) < tolerance, (d2 / d1, stated)


@pytest.mark.parametrize("place", [("1", "0"), ("sqrt(3)", "1/2"), ("1", "1/2")])
def test_distances_of_relu_by_iteration(place):
    """2K(1 - c) as K falls, grows and settles: K and 1 - c each have a law, with C in one, both or none of them."""
    w, b = (float(sp.sympify(s)) ** 2 for s in place)
    found, pairs = law("relu", "distance", *place), []
    for layer in (500, 1000):
        gap, K_l = relu_gap(w / (w + b), w + b, w, b, layer - 1)
        pairs.append((layer, 2 * gap * K_l))
    assert_falls_like(found, pairs, 0.03)
    with pytest.raises(AssertionError, match=r"\("):  # as much as another power of l
        assert_falls_like(found, [pairs[0], (1000, 2 * pairs[1][1])], 0.03)


@pytest.mark.slow
def test_distances_with_known_constants():
    critical = law("relu", "distance", "sqrt(2)", "0")
    assert critical.leading.expr(l) == 18 * sp.pi**2 / l**2 and critical.status is mf.Status.EXACT
    odd = law("tanh", "distance", "1", "0")  # c stays 0: twice the law of K
    assert sp.expand(odd.law.expr - 2 * law("tanh", "K", "1", "0").law.expr) == 0 and odd.remainder != "zero"
    assert law("tanh", "distance", "1", "0", correlation="1/2").leading.expr(l) == sp.Symbol("C", real=True) / l
    assert law("tanh", "distance", "2", "1/2", correlation=1).text() == "0"
    twice = law("linear", "distance", "1", "0", correlation="1/2")
    assert twice.law.text() == "C + smaller order" and twice.quantity == "distance"  # K = 1 and c = 1/2 at every layer


def distances_by_quadrature(phi, w2, b2, layers):
    """2K(1 - c) of two orthogonal inputs of norm 1, by Gauss-Hermite products."""
    x, weight = np.polynomial.hermite_e.hermegauss(90)
    weight, found = weight / weight.sum(), []
    K, shared = w2 + b2, b2
    for _ in range(layers):
        found.append(2 * (K - shared))
        c = shared / K
        first = phi(np.sqrt(K) * x)
        other = phi(np.sqrt(K) * (c * x[:, None] + np.sqrt(1 - c * c) * x))
        shared, K = w2 * (weight * first) @ (other @ weight) + b2, w2 * weight @ first**2 + b2
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "phi", "place", "k"),
    [
        ("sin", np.sin, ("2", "1/2"), 30),
        ("z*exp(-z**2/8)", lambda z: z * np.exp(-z * z / 8), ("2", "1/2"), 14),
    ],
)
def test_distances_in_the_chaotic_phase(name, phi, place, k):
    """They settle with the slower of c and K, from alternate sides where its multiplier is negative."""
    found = law(name, "distance", *place)
    run = distances_by_quadrature(phi, float(place[0]) ** 2, 0.25, 120)
    end = float(found.terms[0].coefficient)
    assert abs(end / run[-1] - 1) < 1e-8
    measured = (run[k] - run[-1]) / (run[k - 1] - run[-1])
    term = found.terms[1].expr(l)
    stated = float((term.subs(l, k + 1) / term.subs(l, k)).simplify())
    assert abs(measured / stated - 1) < 2e-2, (measured, stated)
    assert abs(-measured / stated - 1) > 1 and abs(measured**2 / stated - 1) > 0.1


TANH = {"0.0001": 302.80, "0.01": 16.639, "0.1": 4.00958, "1": 0.88974}


@pytest.mark.slow
@pytest.mark.parametrize("b2", ["0.1", *[pytest.param(b, marks=pytest.mark.slow) for b in TANH if b != "0.1"]])
def test_tanh_on_the_critical_line(b2):
    theory = mf.derive("tanh")
    width = theory.critical_line().sigma_w_at(f"sqrt({b2})")[0][0].value
    found = theory.depth_law("c", sigma_w=width, sigma_b=f"sqrt({b2})")
    assert found.exponent == -1 and found.rate == 0 and "critical to rounding" in found.regime
    beta = -found.terms[1].coefficient
    assert float(beta) == pytest.approx(TANH[b2], rel=2e-5) != pytest.approx(TANH[b2] * 1.001, rel=2e-5)


@pytest.mark.slow
def test_a_width_of_thirty_digits_is_critical_to_rounding_and_text_is_not():
    theory = mf.derive("tanh")
    width = theory.critical_line().sigma_w_at("sqrt(0.1)")[0][0].value
    assert theory.phase(sigma_w=width, sigma_b="sqrt(0.1)").name == "critical to rounding"
    assert theory.phase(sigma_w=str(width), sigma_b="sqrt(0.1)").name == "ordered"
    assert theory.phase(sigma_w=width + sp.Rational(1, 10**25), sigma_b="sqrt(0.1)").name == "chaotic"


@pytest.mark.parametrize(
    ("name", "phi", "b2"),
    [("tanh", np.tanh, "0.1"), ("z*erf(z)", None, "0.5"), ("sin", np.sin, "0.2")],
)
@pytest.mark.slow
def test_smooth_phi_at_the_critical_line_by_hermite_coefficients(name, phi, b2):
    from scipy.special import erf

    phi = phi or (lambda z: z * erf(z))
    theory = mf.derive(name)
    points = theory.critical_line().sigma_w_at(f"sqrt({b2})")
    width, place = points[0][0].value, float(points[0][1].value)
    found = theory.depth_law("gamma", sigma_w=width, sigma_b=f"sqrt({b2})")
    assert found.exponent == 1
    x = np.linspace(-9, 9, 6001)  # the trapezoid rule is as good as any for what decays like this
    w = np.exp(-(x**2) / 2)
    values = w / w.sum() * phi(math.sqrt(place) * x)
    before, now, a2 = np.zeros_like(x), np.ones_like(x), []
    for k in range(700):  # normalized Hermite polynomials
        a2.append((values * now).sum() ** 2)
        before, now = now, (x * now - math.sqrt(k) * before) / math.sqrt(k + 1)
    a2 = np.array(a2)
    a2 = a2[: 1 + max(np.flatnonzero(a2 > 1e-20))]

    @njit
    def gap_after(gap, layers):
        for _ in range(layers):
            step = math.log1p(-gap)
            total = 0.0
            for k in range(1, a2.shape[0]):
                total -= a2[k] * math.expm1(k * step)
            gap = w2 * total / place
        return gap

    w2 = 1 / (sum(k * v for k, v in enumerate(a2)) / place)  # slope 1 by its own digits
    assert w2 == pytest.approx(float(width) ** 2, rel=1e-9)
    left, gap, done = [], 0.5, 1
    last = 10**7 if len(a2) < 100 else 10**6
    for n in (last // 100, last // 10, last):
        gap, done = gap_after(gap, n - done), n
        left.append(1 / gap - 1 - float(found.at(n)))
    assert abs(left[2] - left[1]) < 1e-2 + abs(left[1] - left[0]), left
    beta = float(found.terms[0].coefficient)
    assert abs(left[2] - left[1]) < 1e-6 * beta * last, (left, beta)  # what a wrong seventh digit would leave


@pytest.mark.slow
def test_c_settles_below_one_in_the_chaotic_phase():
    found = law("step", "c", 2, "0.3")
    point = mf.derive("step").correlations(sigma_w=2, sigma_b="0.3").stable
    assert float(found.terms[0].coefficient) == pytest.approx(point.c, abs=1e-14)
    assert float(found.rate) == pytest.approx(math.log(point.slope), abs=1e-12) and found.status is mf.Status.MEASURED
    assert float(law("step", "gamma", 2, "0.3").terms[0].coefficient) == pytest.approx(point.c / (1 - point.c))


def test_what_the_start_decides():
    assert law("tanh", "c", 1, 0, correlation="1/2").regime.startswith("c tends to what the start makes it")
    assert law("tanh", "c", 1, 0).at(10) == 0 and law("tanh", "gamma", 1, 0).at(10) == 0
    assert law("tanh", "c", 1, 0, correlation=-1).at(10) == -1
    assert law("tanh", "c", "1.3", "0.2", correlation=1).at(10) == 1
    with pytest.raises(MeanFieldError, match="infinite at every layer"):
        law("relu", "gamma", 1, 0, correlation=1)
    with pytest.raises(MeanFieldError, match="correlation must be a number between -1 and 1"):
        law("relu", "gamma", 1, 0, correlation="1.5")
    with pytest.raises(MeanFieldError, match="give sigma_b numbers"):
        mf.derive("relu").depth_law("c", sigma_w=1)
    with pytest.raises(MeanFieldError, match="the map of c depends on K all the while"):
        mf.derive("tanh", norm="pre", residual=True).depth_law("c", sigma_w=1, sigma_b="0.1")


def test_behind_norms_and_skips():
    assert law("relu", "c", "sqrt(2)", 0, norm="pre").terms[1].coefficient == -9 * sp.pi**2 / 2
    assert law("relu", "c", 1, 0, residual=True).terms[1].coefficient == -81 * sp.pi**2 / 2


@pytest.mark.parametrize(
    "name", ["relu", "z*abs(z)", *[pytest.param(n, marks=pytest.mark.slow) for n in ("hard_tanh", "tanh")]]
)
def test_the_expansion_leaves_a_remainder_of_the_next_order(name):
    """Against digits of the distance ratio itself: the remainder falls by the power that the first missing term has."""
    f = mf.activation(name).pieces.expr
    powers = distance_ratio_powers(f, sp.Rational(7, 5))
    last = max(powers)
    left = []
    for apart in (sp.Rational(1, 10**4), sp.Rational(1, 10**6)):
        series = sum(c * apart**q for q, c in powers.items())
        left.append(abs(float(sp.N(distance_ratio(f, sp.Rational(7, 5), apart) - series, 30))))
    order = math.log10(left[0] / left[1]) / 2
    missing = float(last) + (0.5 if name in ("relu", "hard_tanh", "z*abs(z)") else 1)
    assert order > missing - 0.1, (order, missing)


def test_kinks_give_half_integer_powers_and_jumps_none():
    half = distance_ratio_powers(sp.Max(0, Z[0]), K)
    assert half[sp.S.Half] == -1 / (3 * sp.pi * sp.sqrt(K))
    with pytest.raises(MeanFieldError, match="jumps"):
        distance_ratio_powers(sp.sign(Z[0]), K)
    with pytest.raises(MeanFieldError, match="becomes infinite at z = 0"):
        distance_ratio_powers(sp.Abs(Z[0]) ** sp.Rational(3, 2), K)


@pytest.mark.slow
def test_nested_ratios_expand_in_each_other():
    """Two Dense in a block: the outer distance ratio in the inner one's distance, against digits at a small gap."""
    block = mf.Sequential((mf.Nonlinearity("relu"), mf.Dense(), mf.Nonlinearity("erf"), mf.Dense()))
    step = mf.derive(architecture=block).equal_norms.only("K", "K_ab", "distance")["distance"]
    numbers = {"sigma_w": sp.Rational(6, 5), "sigma_b": sp.Rational(1, 5)}
    step = step.subs({s: numbers[s.name] for s in step.free_symbols if s.name in numbers}).subs(K, 1)
    powers = {q: sp.N(c.subs(K, 1), 30) for q, c in gap_powers(step).items()}
    assert set(powers) == {sp.S.Zero, sp.S.Half, sp.S.One}
    left = []
    for gap in (sp.Rational(1, 10**6), sp.Rational(1, 10**8)):
        at = step.subs(distance, 2 * gap) / (2 * gap)
        inner = min(at.atoms(DistanceRatio), key=lambda s: len(str(s)))
        true = sp.N(at.xreplace({inner: sp.Rational(str(sp.N(inner, 40)))}), 30)
        left.append(abs(float(true - sum(c * gap**q for q, c in powers.items()))))
    assert math.log10(left[0] / left[1]) / 2 > 1.4, left


def block(*parts) -> mf.Theory:
    return mf.derive(architecture=mf.Sequential((*parts, mf.Dense())))


def test_pools_of_odd_phi_are_odd_only_as_odd_polynomials():
    """z1 + z2² is not odd, so c leaves 0; z1·z2 makes (x, -x) the same input."""
    mixed = block(mf.Nonlinearity("z"), mf.Pool(2, "z1 + z2**3"))
    assert mixed.depth_law("c", sigma_w="0.1", sigma_b=0, input_norm="0.01").at(5) == 0
    assert "odd" not in block(mf.Nonlinearity("z"), mf.Pool(2)).depth_law("c", sigma_w=1, sigma_b=0).regime
    product = block(mf.Nonlinearity("z"), mf.Pool(2, "z1*z2"))
    assert product.depth_law("c", sigma_w=1, sigma_b=0, correlation=-1).at(7) == 1
    for name in ("abs(z)", "cos"):
        assert law(name, "c", 1, 0, correlation=-1).regime.startswith("the map is even")


@pytest.mark.slow_with("gate")
@pytest.mark.parametrize(
    ("architecture", "width", "bias"),
    [
        (mf.networks.mlp("abs(z)", mu="1/2"), 0.6, 0),
        pytest.param(mf.networks.mlp("z**2/(1+z**2)", mu="1/2"), 1.2, 0, marks=pytest.mark.slow),
        (mf.Network(mf.Sequential((mf.Gate("exp(-z**2)"), mf.Dense())), mf.Dense(sigma_w=1, sigma_b=0)), 1.2, 0.4),
    ],
    ids=["skip", "skip and a bounded phi", "gate"],
)
def test_an_even_phi_beside_what_is_odd_does_not_make_opposite_inputs_equal(architecture, width, bias, monkeypatch):
    """x and -x pass a skip, or the value of a gate, as they are: c = 1 was EXACT from layer 2 on."""
    theory, place = mf.derive(architecture=architecture), {"sigma_w": width, "sigma_b": bias}
    numbers = theory.propagate(depth=8, correlation=-1, quantities=("K", "c"), **place).c
    assert numbers[0] == -1 and (np.abs(numbers[1:] - 1) > 0.05).all()

    def assert_not_equal():
        regime = theory.depth_law("c", correlation=-1, **place).regime
        assert "even" not in regime, f"c = 1 is claimed: {regime}"

    assert_not_equal()
    monkeypatch.setattr("meanfield.symbolic.criticality.correlation_laws.parity", lambda e, flipped: 1)
    with pytest.raises(AssertionError, match="c = 1 is claimed"):
        assert_not_equal()


def test_rounding_that_decides_how_K_ends_is_not_guessed():
    for name, width, bias in (("relu", 2**0.5, 0.1), ("tanh", 1.0000000000000002, 0)):
        with pytest.raises(MeanFieldError, match="both 1 to rounding"):
            law(name, "c", width, bias, correlation=0.3)
    assert law("relu", "gamma", 2**0.5, 0).law.leading.expr(l) == 2 * l**2 / (9 * sp.pi**2)
    found = mf.derive("relu").bias(sigma_w=2**0.5, sigma_b=0)
    assert found.phase is mf.bias.BiasPhase.CHAOTIC_DEEP_PREJUDICE or found.status is mf.Status.MEASURED


@pytest.mark.slow
def test_a_start_on_a_repelling_fixed_point_stays_there():
    found = law("z**2", "c", "sqrt(1/3)", 0, correlation="0.3", input_norm=3)
    assert float(found.terms[0].coefficient) == pytest.approx(0.5, abs=1e-14)
    assert float(found.rate) == pytest.approx(math.log(2 / 3), abs=1e-12)


def test_the_diagonal_of_a_maximum_gives_a_root():
    """ReLU and the maximum of two: (1 - c′)/(1 - c) = χ - .3301 √(1 - c) at σ_b = 0, as published."""
    step = block(mf.Nonlinearity("relu"), mf.Pool(2)).equal_norms.only("K", "distance")
    found = gap_powers(step["distance"])
    powers = {q: float(sp.N(c.subs({s: 1 for s in c.free_symbols}), 15)) for q, c in found.items()}
    size = 0.75 + 1 / (2 * math.pi)
    assert powers[sp.S.Zero] == 0.75 and powers[sp.S.Half] / size == pytest.approx(-0.3301, abs=5e-5)


def test_a_maximum_keeps_its_kink_where_phi_is_straight():
    """tanh and the maximum of two as K falls to 0 is that of z: c → 1, where tanh alone leaves c to the start."""
    found = block(mf.Nonlinearity("tanh"), mf.Pool(2)).depth_law("c", sigma_w="0.5", sigma_b=0)
    straight = block(mf.Nonlinearity("z"), mf.Pool(2)).depth_law("c", sigma_w=1, sigma_b=0)
    assert found.exponent == -2 and found.terms[1] == straight.terms[1]
    assert law("tanh", "c", "0.5", 0, correlation="1/2").exponent == 0
