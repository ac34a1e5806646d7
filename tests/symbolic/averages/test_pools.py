"""Pools of nodes in the theory: against sums over a grid, exact probabilities, and published digits."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
import sympy as sp
from scipy.special import erf, ndtr, owens_t

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import J, K, sigma_b, sigma_w
from meanfield.functions.activations import activation
from meanfield.numeric.lowering.many_positions import maximum_averages as lowered_largest
from meanfield.numeric.lowering.text import printing
from meanfield.symbolic.averages.node import Integrand
from meanfield.symbolic.averages.nodes import group_functions
from meanfield.symbolic.averages.nodes.maxima import MaximumAverage
from meanfield.symbolic.averages.nodes.pools import EVEN_FALLING, EVEN_RISING, FALLING, RISING, kind_of


def pooled(phi, size=2, kind="max", norm=False) -> mf.Theory:
    front = (mf.LayerNorm(affine=False),) if norm else ()
    return mf.derive(architecture=mf.Sequential((*front, mf.Nonlinearity(phi), mf.Pool(size, kind), mf.Dense())))


def on_a_grid(phi, slope, combine, which, variance, n=1600, reach=7.5):
    """(⟨f²⟩, ⟨‖∇f‖²⟩) of f = combine(φ(z_1), φ(z_2)) by the midpoint rule in the plane; which: the share of each
    node's slope."""
    x = np.linspace(-reach, reach, n)
    w = np.exp(-(x**2) / 2)
    w = np.outer(w, w) / w.sum() ** 2
    a, b = (math.sqrt(variance) * v for v in np.meshgrid(x, x, indexing="ij"))
    one, other = which(phi(a), phi(b))
    squares = (one * slope(a)) ** 2 + (other * slope(b)) ** 2
    return (w * combine(phi(a), phi(b)) ** 2).sum(), (w * squares).sum()


def larger(a, b):
    return (a > b) + 0.5 * (a == b), (b > a) + 0.5 * (a == b)


def at(theory, name, variance):
    e = theory.recursion("K", "J")[name]
    numbers = {"sigma_w": 1, "sigma_b": 0, "K": sp.Rational(variance), "J": 1}
    return float(sp.N(e.subs({s: numbers[s.name] for s in e.free_symbols}), 15))


SMOOTH = {
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "erf": (erf, lambda z: 2 / math.sqrt(math.pi) * np.exp(-z * z)),
    "exp(-z**2)": (lambda z: np.exp(-z * z), lambda z: -2 * z * np.exp(-z * z)),
    "softplus": (lambda z: np.log1p(np.exp(z)), lambda z: 1 / (1 + np.exp(-z))),
    "sin": (np.sin, np.cos),
    "relu": (lambda z: np.maximum(z, 0), lambda z: (z > 0) * 1.0),
    "abs(z)": (np.abs, np.sign),
}


@pytest.mark.fast_with("sin", "abs(z)")
@pytest.mark.parametrize("name", SMOOTH)
def test_maxima_of_one_input_against_a_grid(name):
    phi, slope = SMOOTH[name]
    second, squares = on_a_grid(phi, slope, np.maximum, larger, 0.7)
    theory = pooled(name)
    assert at(theory, "K", "0.7") == pytest.approx(second, abs=2e-5)
    assert at(theory, "J", "0.7") == pytest.approx(squares, abs=2e-3)
    assert at(theory, "K", "0.72") != pytest.approx(second, abs=2e-5)


@pytest.mark.slow_with("sin-z1*z2")
@pytest.mark.parametrize(
    ("name", "kind"), [("tanh", "average"), ("relu", "(z1+z2)/2"), ("sin", "z1*z2"), ("tanh", "z1**2 + z2")]
)
def test_polynomials_of_nodes_against_a_grid(name, kind):
    phi, slope = SMOOTH[name]
    text = "(z1+z2)/2" if kind == "average" else kind
    value = sp.lambdify(sp.symbols("z1 z2"), sp.sympify(text), "numpy")
    shares = [sp.lambdify(sp.symbols("z1 z2"), sp.diff(sp.sympify(text), v), "numpy") for v in ("z1", "z2")]
    second, squares = on_a_grid(phi, slope, value, lambda a, b: tuple(s(a, b) for s in shares), 0.7)
    theory = pooled(name, 2, kind)
    assert at(theory, "K", "0.7") == pytest.approx(second, abs=1e-6)
    assert at(theory, "J", "0.7") == pytest.approx(squares, abs=2e-4)
    assert at(theory, "K", "0.7") != pytest.approx(second * 1.001, abs=1e-6)


def test_relu_thresholds_and_kinks_on_the_diagonal():
    """χ_J = 1 and χ_K = 1 are two lines: a kink of the maximum on z_1 = z_2 is in χ_K alone."""
    theory, pi = pooled("relu"), sp.pi
    found = {name: sp.simplify(mf.symbolic.closed(e)) for name, e in theory.susceptibilities().items()}
    assert sp.simplify(found["chi_K"] / sigma_w**2 - (3 * pi + 2) / (4 * pi)) == 0
    assert found["chi_J"] == 3 * sigma_w**2 / 4
    assert theory.critical_line().sigma_w ** 2 == sp.Rational(4, 3)
    assert sp.simplify(theory.critical_line("K").sigma_w ** 2 - 4 * pi / (3 * pi + 2)) == 0
    means = pooled("relu", 2, "average")
    assert means.critical_line().sigma_w == 2
    assert sp.simplify(means.critical_line("K").sigma_w ** 2 - 4 * pi / (pi + 1)) == 0
    assert mf.derive("relu").critical_line("K").sigma_w == mf.derive("relu").critical_line().sigma_w


@pytest.mark.parametrize("size", [2, 3, 5, 16])
def test_how_often_the_largest_is_positive(size):
    often = 1 - sp.Rational(1, 2**size)
    assert pooled("relu", size).recursion("J")["J"] == often * J * sigma_w**2
    assert mf.symbolic.closed(pooled("step", size).recursion("K")["K"]) == sigma_b**2 + sigma_w**2 * often
    assert pooled("abs(z)", size).recursion("J")["J"] == J * sigma_w**2


@pytest.mark.slow
def test_the_largest_of_many_follows_order_statistics():
    """⟨max²⟩ of n ReLUs by ∫ 2s P(max > s) ds."""
    s = np.linspace(0, 12, 400001)
    for n in (3, 7, 20):
        exact = np.trapezoid(2 * s * (1 - ndtr(s) ** n), s)
        assert at(pooled("relu", n), "K", "1") == pytest.approx(exact, rel=1e-9)
        assert at(pooled("relu", n + 1), "K", "1") != pytest.approx(exact, rel=1e-3)


def test_a_maximum_leaves_the_line_of_odd_phi_alone():
    """[bias_and_trainability] Lemma F.3 is right for odd φ, and wrong for even ones."""
    for name in ("tanh", "erf", "sin"):
        assert (
            pooled(name).recursion("K", "J").equals(mf.derive(name).recursion("K", "J")) is mf.symbolic.Equality.PROVED
        )
    for name in ("abs(z)", "exp(-z**2)"):
        assert not pooled(name).recursion("K").equals(mf.derive(name).recursion("K"))
    assert (
        mf.symbolic.closed(pooled("abs(z)").recursion("K")["K"].subs({sigma_w: 1, sigma_b: 0, K: 1})) == 1 + 2 / sp.pi
    )


@pytest.mark.slow
def test_an_average_of_odd_phi_doubles_the_diagram():
    theory, plain = pooled("tanh", 2, "average"), mf.derive("tanh")
    one, other = (t.critical_line().sigma_w_at("sqrt(0.1)")[0][0].value ** 2 for t in (theory, plain))
    assert abs(one - 2 * other) < 1e-25 and abs(float(one) - 3.9721452823) < 1e-10


def test_two_inputs_of_averages_are_exact():
    theory = pooled("relu", 2, "average")
    step = theory.recursion("K", "K_ab", "distance")
    c = sp.Rational(3, 10)
    at_c = {sp.Symbol("K_ab", real=True): c * K, sp.Symbol("distance", nonnegative=True): 2 * K * (1 - c)}
    product = mf.symbolic.closed((step["K_ab"] - sigma_b**2) / sigma_w**2).subs(at_c).subs(K, 1)
    arc = (sp.sqrt(1 - c**2) + c * (sp.pi - sp.acos(c))) / (2 * sp.pi)
    assert abs(sp.N(product - (arc + 1 / (2 * sp.pi)) / 2, 30)) < 1e-28
    apart = sp.N(step["distance"].subs(at_c).subs({K: 1, sigma_w: 1}), 30)
    one = mf.symbolic.closed((step["K"] - sigma_b**2) / sigma_w**2).subs(K, 1)
    assert abs(apart - 2 * (sp.N(one, 30) - sp.N(product, 30))) < 1e-27


@pytest.mark.slow
def test_what_lies_off_the_diagonal_against_owens_t_and_digits():
    lost = printing.interpret("def f(h, k, gap, flip):\n    return _lost(h, k, gap, flip)\n", "f")

    def below(x, y, c):
        r = math.sqrt(1 - c * c)
        whole = owens_t(x, (y - c * x) / (x * r)) + owens_t(y, (x - c * y) / (y * r))
        return 0.5 * (ndtr(x) + ndtr(y)) - whole - 0.5 * (x * y < 0)

    for x, y, c in ((0.3, 1.1, 0.5), (-0.7, 0.2, 0.9), (1.4, 1.3, 0.999), (-2.0, -1.0, 0.001), (0.1, -0.4, 0.3)):
        assert lost(x, y, 1 - c, False) == pytest.approx(ndtr(x) - below(x, y, c), abs=2e-12)
        assert lost(x, y, 1 - c, True) == pytest.approx(ndtr(x) - below(x, y, -c), abs=1e-14)
        assert lost(x, y, 1 - c - 1e-6 * (1 - c), False) != pytest.approx(ndtr(x) - below(x, y, c), abs=2e-12)
    for h, k, gap in ((0.4, 0.4 + 3e-5, 1e-10), (-1.0, -1.0 + 1e-4, 2e-9), (0.2, 0.2, 1e-10)):  # relatively
        exact = off_the_diagonal(h, k, gap)
        assert lost(h, k, gap, False) == pytest.approx(exact, rel=2e-11)
        assert lost(h, k + 1e-9, gap, False) != pytest.approx(exact, rel=2e-11)


def off_the_diagonal(h: float, k: float, gap: float) -> float:
    """P(u < h, v > k) at correlation 1 - gap, with 30 digits on the way."""
    with mpmath.workdps(30):
        c = 1 - mpmath.mpf(gap)
        r = mpmath.sqrt(1 - c**2)
        ends = [mpmath.mpf(h) - t * r for t in (30, 10, 3, 1, 0)]
        return float(mpmath.quad(lambda u: mpmath.npdf(u) * mpmath.ncdf((c * u - mpmath.mpf(k)) / r), ends))


def sorted_largest(phi, slope, n: int, variance: float, m: int = 400001):
    """(⟨M⟩, ⟨M²⟩, ⟨‖∇M‖²⟩) of the largest of φ at n nodes: values of a fine grid, in their order."""
    x = np.linspace(-8.5, 8.5, m)
    w = np.exp(-x * x / 2)
    z, w = math.sqrt(variance) * x, w / w.sum()
    order = np.argsort(phi(z))
    below = np.cumsum(w[order])
    share = np.diff(np.concatenate([[0.0], below**n]))
    value = phi(z)[order]
    return (share * value).sum(), (share * value**2).sum(), (share * slope(z)[order] ** 2).sum()


TURNS = {
    "gelu": (lambda z: z * ndtr(z), lambda z: ndtr(z) + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)),
    "sin": (np.sin, np.cos),
    "z*exp(-z)": (lambda z: z * np.exp(-z), lambda z: (1 - z) * np.exp(-z)),
    "max(z, 0) - max(z - 1, 0)*2": (
        lambda z: np.maximum(z, 0) - 2 * np.maximum(z - 1, 0),
        lambda z: (z > 0) - 2.0 * (z > 1),
    ),
}


@pytest.mark.fast_with("sin", "z*exp(-z)")
@pytest.mark.parametrize("name", TURNS)
def test_maxima_of_a_phi_that_turns_against_sorted_values(name):
    for n, variance in ((2, 0.3), (5, 1.0), (40, 2.0)):
        node = MaximumAverage(Integrand(activation(name).pieces.expr), n, group_functions.SECOND, (K,))
        one = printing.interpret(lowered_largest.core(node, "nodes")[0], "nodes_one")(variance, 0)
        exact = sorted_largest(*TURNS[name], n, variance)
        assert one[0] == pytest.approx(exact[0], rel=3e-6, abs=1e-7)
        assert one[1] == pytest.approx(exact[1], rel=3e-6)
        assert one[2] == pytest.approx(exact[2], rel=1e-4)
        other = sorted_largest(*TURNS[name], n + 1, variance)
        assert abs(one[1] / other[1] - 1) > 1e-5 or abs(one[2] / other[2] - 1) > 1e-3


def distance_on_a_grid(phi, n: int, a: float, b: float, c: float, m: int = 1500) -> float:
    """⟨(M_a - M_b)²⟩ by the joint distribution of one node on a grid, to the power n."""
    x = np.linspace(-6, 6, m)
    u, v = x[:, None], x[None]
    w = np.exp(-(u * u - 2 * c * u * v + v * v) / (2 * (1 - c * c)))
    first, second = phi(math.sqrt(a) * x), phi(math.sqrt(b) * x)
    w = (w / w.sum())[np.argsort(first)][:, np.argsort(second)]
    whole = np.cumsum(np.cumsum(w, axis=0), axis=1) ** n
    share = np.diff(np.diff(np.pad(whole, ((1, 0), (1, 0))), axis=0), axis=1)
    return float((share * (np.sort(first)[:, None] - np.sort(second)[None]) ** 2).sum())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", "sin", "max(z, 0) - max(z - 1, 0)*2"])
def test_two_inputs_of_a_phi_that_turns_against_a_grid(name):
    """Any number of nodes, equal norms and others, both signs of c; the slope against differences of the distance."""
    for n in (2, 5):
        node = MaximumAverage(Integrand(activation(name).pieces.expr), n, group_functions.SECOND, (K,))
        source, limit = lowered_largest.core(node, "nodes")
        two = printing.compiled(source, "nodes_two")
        for a, b, c in ((1.0, 1.0, 0.4), (1.0, 0.5, 0.4), (2.0, 2.0, -0.3)):
            found, slope = two(a, b, 1 - abs(c), c < 0, 0)
            assert found == pytest.approx(distance_on_a_grid(TURNS[name][0], n, a, b, c), rel=5e-4)
            assert found != pytest.approx(distance_on_a_grid(TURNS[name][0], n, a, b, c + 0.01), rel=5e-4)
            h = 1e-4  # d⟨(M_a - M_b)²⟩ = -2 d⟨M_a M_b⟩
            ends = [two(a, b, 1 - abs(c + s), c < 0, 1)[0] for s in (h, -h)]
            assert slope == pytest.approx((ends[1] - ends[0]) / (4 * h * math.sqrt(a * b)), rel=1e-6)
        assert lowered_largest.error(node, source, "nodes", limit) < 1e-6


def test_how_phi_goes():
    kinds = {"tanh": RISING, "relu": RISING, "-softplus(z)": FALLING, "z**2": EVEN_RISING, "1/cosh(z)": EVEN_FALLING}
    kinds |= {"hard_tanh": RISING, "step": RISING, "abs(z) if abs(z) < 2 else 2": EVEN_RISING, "z**3": RISING}
    kinds |= {"gelu": None, "sin": None, "cos": None, "z**2 + z": None}
    assert {n: kind_of(activation(n).pieces.expr) for n in kinds} == kinds


def test_what_is_not_derived_is_said():
    for theory in (pooled("gelu", 5), pooled("tanh", 2, "sqrt(z1**2 + z2**2)")):
        with pytest.raises(MeanFieldError, match="nothing encloses"):
            theory.depth_law("J", sigma_w=1, sigma_b=1)
    with pytest.raises(MeanFieldError, match="put a Nonlinearity before"):
        mf.derive(architecture=mf.Sequential((mf.Pool(2), mf.Nonlinearity("tanh"), mf.Dense()))).recursion("K")
    with pytest.raises(MeanFieldError, match="Two Pools"):
        block = (mf.Nonlinearity("tanh"), mf.Pool(2), mf.Pool(2), mf.Dense())
        mf.derive(architecture=mf.Sequential(block)).recursion("K")
    with pytest.raises(MeanFieldError, match="J0"):
        pooled("tanh").recursion("J0")
    with pytest.raises(MeanFieldError, match="one node"):
        mf.Pool(1)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.slow
def test_networks_confirm_pools(size):
    product = "z1*z2" if size == 2 else "z1*z2*z3"
    for phi, kind in (("relu", "max"), ("tanh", "max"), ("gelu", "average"), ("tanh", product)):
        theory = pooled(phi, size, kind)
        settings = {"sigma_b": 0.2, "width": 1200, "depth": 6, "networks": 60, "seed": 5}
        assert mf.check(theory, sigma_w=1.2, **settings).passed, (phi, kind)


# c of ReLU and the maximum of two, first layer linear, orthogonal inputs, at layers 5 and 10; kernels at K = 1
LAYERS = {(1.5, 0.1): (0.8853312291, 0.9750160843), (1.0, 0.1): (0.9099488152, 0.9862154391)}
KERNEL = {0.0: 0.4638114937, 0.1: 0.4933043349, 0.3: 0.5607216112, 0.5: 0.6401450151, 0.9: 0.8435825639}


@pytest.mark.slow
def test_two_inputs_of_a_maximum():
    theory = pooled("relu")
    for (w2, b2), expected in LAYERS.items():
        run = theory.propagate(
            sigma_w=math.sqrt(w2), sigma_b=math.sqrt(b2), depth=10, correlation=0.0, quantities=("K", "c", "J_ab")
        )
        assert np.ravel(run.c)[[4, 9]] == pytest.approx(expected, abs=2e-10)
        assert np.ravel(run.c)[[4, 9]] != pytest.approx([x + 1e-8 for x in expected], abs=2e-10)
    c = np.array(list(KERNEL))
    start = {"K": np.ones(len(c)), "c": c}
    run = theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=2, start=start, quantities=("K", "K_ab", "J_ab"))
    assert run.values["K_ab"][..., 1] == pytest.approx(list(KERNEL.values()), abs=3e-10)
    # ∂⟨f f⟩/∂K_ab at c = 0: 2 (P(z > 0 and the largest))² = 2 (∫_{z>0} φ Φ)² = 2 (3/8)²
    assert run.values["J_ab"][0, 1] == pytest.approx(2 * (3 / 8) ** 2, abs=1e-11)


@pytest.mark.slow
def test_correlations_of_a_maximum():
    theory = pooled("tanh")
    for w2, expected in ((2.5, 0.958935), (3, 0.904902), (4, 0.820659), (10, 0.631731)):
        found = theory.correlations(sigma_w=f"sqrt({w2})", sigma_b="sqrt(0.1)").stable
        assert found.c == pytest.approx(expected, abs=6e-7) and found.error < 1e-8
    line = theory.neutrality_line().sigma_w_at("sqrt(0.1)")
    assert line[0][0].value ** 2 == pytest.approx(39.6632, abs=1e-4)


def test_pools_are_typeset():
    text = pooled("tanh").latex()
    assert r"\max_{2}" in text and "JointRank" not in text
    assert str(pooled("tanh").recursion("K", "distance")).count("max2(tanh(z_a))") == 1


@pytest.mark.slow
def test_a_maximum_closes_where_K_grows_or_falls():
    """c → 1 by χ_J/χ_K a layer where K is carried away, by χ_J where it settles ([bias_and_trainability] (74))."""
    theory, ratio = pooled("relu"), 3 * sp.pi / (3 * sp.pi + 2)
    for place in (("sqrt(2)", "0.3"), ("1", "0")):
        law = theory.depth_law("c", sigma_w=place[0], sigma_b=place[1])
        assert sp.simplify(law.rate - sp.log(ratio)) == 0
    assert theory.depth_law("c", sigma_w=1, sigma_b="0.3").rate == sp.log(sp.Rational(3, 4))
    assert theory.bias(sigma_w="sqrt(2)", sigma_b="0.3").phase is mf.bias.BiasPhase.CHAOTIC_DEEP_PREJUDICE


def test_a_norm_after_a_pool():
    block = (mf.Nonlinearity("relu"), mf.Pool(2, "max"), mf.LayerNorm(), mf.Dense())
    theory = mf.derive(architecture=mf.Sequential(block))
    assert theory.recursion("K")["K"] == sigma_b**2 + sigma_w**2
    rng = np.random.default_rng(3)
    pairs = np.maximum(rng.normal(size=(2_000_000, 2)).max(axis=1), 0)
    one = float(sp.N(theory.recursion("K", "J")["J"].subs({sigma_w: 1, K: 1, J: 1}), 12))
    assert one == pytest.approx(0.75 / pairs.var(), rel=4e-3) != pytest.approx(0.77 / pairs.var(), rel=4e-3)
    with pytest.raises(MeanFieldError, match="behind a Pool"):
        theory.recursion("Theta")


def assert_short(sentence: str) -> None:
    assert len(sentence) < 400 and sentence.endswith("follow K with propagate."), f"no short sentence: {sentence}"


def test_a_line_that_is_not_enclosed_is_refused_in_a_sentence():
    """It named the whole map of K."""
    pooled = mf.Sequential((mf.Nonlinearity("softplus"), mf.Pool(2, "max"), mf.Dense()))
    line = mf.derive(architecture=pooled).critical_line()
    with pytest.raises(mf.MeanFieldError, match=r"follow K with propagate\.$") as refused:
        line.sigma_w_at("0.2")
    assert_short(str(refused.value))
    with pytest.raises(AssertionError, match="no short sentence"):  # planted: with the line in full
        assert_short(f"{line.sigma_w}, {line.sigma_b}: {refused.value}")
