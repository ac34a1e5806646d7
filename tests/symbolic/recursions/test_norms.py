"""LayerNorm after LayerNorm, and J0 where a normalized φ has a mean, by hand and against finite networks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import mpmath as mp
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, sigma_w, z
from meanfield.empirical import run_ensemble
from meanfield.networks.records import Block, Dense, LayerNorm, Nonlinearity, Residual, Sequential
from meanfield.numeric.lowering.averages import direct
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.recursions.block_recursions import input_jacobian, one_input, two_inputs
from meanfield.symbolic.recursions.coordinate_walk import RULES, Walk
from meanfield.theory.deriving import derive

FIXED = LayerNorm(affine=False)


def chain(*parts) -> Block:
    """The parts in order, names standing for activations, and a Dense after them."""
    return Sequential((*(Nonlinearity(p) if isinstance(p, str) else p for p in parts), Dense()))


# ------------------------------------------------------------------------------------- a norm after a norm


def assert_same_recursion(one: Recursion, other: Recursion) -> None:
    """Two recursions have the same maps, expression by expression."""
    assert one.names == other.names
    for name in one.names:
        assert sp.simplify(closed(one[name] - other[name])) == 0, f"{name}: {one[name]} and {other[name]}"


TWICE = {
    "before φ": (chain(FIXED, "erf"), chain(FIXED, FIXED, "erf")),
    "after φ with a mean": (chain("relu", FIXED), chain("relu", FIXED, FIXED)),
    "with a skip": (Residual(chain("relu", FIXED), "1/2"), Residual(chain("relu", FIXED, FIXED), "1/2")),
}


def assert_normalizing_twice_is_once(case: str) -> None:
    """LN(LN(x)) = LN(x): K, J, Theta (gains not trained), two inputs, J0."""
    once, twice = TWICE[case]
    for recursion in (one_input, two_inputs, input_jacobian):
        assert_same_recursion(recursion(once), recursion(twice))


@pytest.mark.slow_with("with a skip")
@pytest.mark.parametrize("case", list(TWICE))
def test_normalizing_twice_is_normalizing_once(case):
    assert_normalizing_twice_is_once(case)


def assert_gains_count_twice() -> None:
    """Theta of LN(LN(x)) with trained gains: each LayerNorm adds σ_w²⟨(γ̂² + 1) ψ²⟩, ψ what follows it; by hand."""
    plain, once, twice = (
        one_input(chain(first, second, "erf"))["Theta"]
        for first, second in ((FIXED, FIXED), (FIXED, LayerNorm()), (LayerNorm(), LayerNorm()))
    )
    slope = 4 / (sp.pi * sp.sqrt(5))  # ⟨erf′²⟩ at K = 1, and ⟨z² erf′²⟩ = slope/5
    share = sigma_w**2 * slope * sp.Rational(6, 5)
    assert sp.simplify(closed(once - plain) - share) == 0, "one gain adds something else"
    assert sp.simplify(closed(twice - plain) - 2 * share) == 0, "two gains add something else"
    after = [one_input(chain("relu", *norms))["Theta"] for norms in ((FIXED, FIXED), (LayerNorm(), LayerNorm()))]
    assert sp.simplify(closed(after[1] - after[0]) - 2 * 2 * sigma_w**2) == 0  # ⟨y²⟩ + 1 = 2, twice


@pytest.mark.slow
def test_trained_gains_of_two_norms_enter_the_tangent_kernel_twice():
    assert_gains_count_twice()


@pytest.mark.slow
@pytest.mark.parametrize("parts", [(LayerNorm(), LayerNorm(), "erf"), ("relu", LayerNorm(), LayerNorm())], ids=str)
def test_two_norms_against_networks(parts):
    """Theta of explicit networks with two LayerNorms in a row; the theory of one LayerNorm is refused."""
    block = chain(*parts)
    found = run_ensemble(
        block, sigma_w=1.2, sigma_b=0.5, width=256, depth=3, networks=48, quantities=("K", "Theta"), seed=2
    ).estimate("Theta")
    run = derive(architecture=block).propagate(sigma_w=1.2, sigma_b=0.5, depth=3, quantities=("K", "Theta"))
    one = chain(*[p for i, p in enumerate(parts) if i == 0 or p != parts[i - 1]])
    wrong = derive(architecture=one).propagate(sigma_w=1.2, sigma_b=0.5, depth=3, quantities=("K", "Theta"))
    allowed = 5 * found.standard_error + 3 / 256 * run.Theta  # what finite width adds is of order 1/n
    assert (abs(found.mean - run.Theta) <= allowed).all(), (found.mean, run.Theta, allowed)
    assert (abs(found.mean - wrong.Theta) > 3 * allowed)[1:].all()


def _forgetful(rule: Callable, mistake: str) -> Callable:
    """The rule of LayerNorm with a planted mistake."""

    def wrong(block, x, walk):
        out = rule(block, x, walk)
        (old,) = x.scales
        if mistake == "scale on scale":
            return replace(out, scales=tuple(a * b for a, b in zip(out.scales, x.scales)))
        shared = len(x.by_gains)
        return replace(
            out,
            by_gains=tuple((a * old,) for (a,) in out.by_gains[:shared])
            + out.by_gains[shared:],
        )

    return wrong


@pytest.mark.parametrize(
    ("mistake", "check"),
    [
        ("scale on scale", lambda: assert_normalizing_twice_is_once("before φ")),
        ("scale on scale", lambda: assert_normalizing_twice_is_once("after φ with a mean")),
        ("old scale forgotten", assert_gains_count_twice),
    ],
)
def test_planted_errors_in_a_second_norm_are_caught(monkeypatch, mistake, check):
    monkeypatch.setitem(RULES, LayerNorm, _forgetful(RULES[LayerNorm], mistake))
    with pytest.raises(AssertionError, match=r" and |adds? something else"):
        check()


# --------------------------------------------------------------- J0 where the normalized φ has a mean


def quadratic(a, b, c):
    """⟨φ_a φ_b⟩ and ⟨φ_a⟩ of φ = z + z²/2 by Wick's theorem: ⟨z_a² z_b²⟩ = ab + 2c²."""
    return c + (a * b + 2 * c**2) / 4, a / 2


def relu(a, b, c):
    """⟨φ_a φ_b⟩ (the arc-cosine kernel) and ⟨φ_a⟩."""
    r = c / mp.sqrt(a * b)
    return mp.sqrt(a * b) * (mp.sqrt(1 - r**2) + r * (mp.pi - mp.acos(r))) / (2 * mp.pi), mp.sqrt(a / (2 * mp.pi))


def normalized(phi, a, b, c, centred=True):
    """The covariance of LN(φ(z)) for two inputs."""
    cross, sizes = phi(a, b, c)[0], []
    for v in (a, b):
        second = v + mp.mpf(3) / 4 * v**2 if phi is quadratic else v / 2
        sizes.append(mp.sqrt(second - phi(v, v, v)[1] ** 2))
    means = phi(a, a, a)[1] * phi(b, b, b)[1]
    return (cross - means if centred else cross) / (sizes[0] * sizes[1])


def by_kernel_derivatives(phi, depth: int, norm: bool, centred: bool = True, mu=0) -> list:
    """J0 of layers 1 … depth as Σ_j ∂²k/∂x_j∂x′_j of the two-input kernel at x′ = x, by differences with 60 digits.

    Uses nothing but the kernels by hand: σ_w² = 3/2, σ_b² = 1/5, x = (1, 1/2, -3/4) (so that Q0 = 29/48).
    """
    w, b, x, h = mp.mpf(3) / 2, mp.mpf(1) / 5, [mp.mpf(1), mp.mpf(1) / 2, -mp.mpf(3) / 4], mp.mpf(10) ** -20

    def first(p, q):
        return w * mp.fsum(s * t for s, t in zip(p, q)) / 3 + b

    def forward(a, c, e):
        cross = normalized(phi, a, c, e, centred) if norm else phi(a, c, e)[0]
        return w * cross + b + mu**2 * e

    def diagonal(a):
        second = a + mp.mpf(3) / 4 * a**2 if phi is quadratic else a / 2
        centre = phi(a, a, a)[1] ** 2
        normed = (second - centre if centred else second) / (second - centre)
        return w * (normed if norm else second) + b + mu**2 * a

    def kernels(p, q):
        a, c, e, out = first(p, p), first(q, q), first(p, q), []
        for _ in range(depth):
            out.append(e)
            a, c, e = diagonal(a), diagonal(c), forward(a, c, e) if p != q else diagonal(a)
        return out

    def moved(j, step):
        return [v + step * (i == j) for i, v in enumerate(x)]

    total = [mp.mpf(0)] * depth
    for j in range(3):
        for s in (1, -1):
            for t in (1, -1):
                found = kernels(moved(j, s * h), moved(j, t * h))
                total = [o + s * t * v / (4 * h**2) for o, v in zip(total, found)]
    return total


def assert_j0(block: Block, expected: list) -> None:
    """The derived recursion of J0 gives these values at layers 1, 2, …"""
    values = {"sigma_w": sp.sqrt(sp.Rational(3, 2)), "sigma_b": 1 / sp.sqrt(5), "Q0": sp.Rational(29, 48), "N0": 3}
    found = [layer["J0"] for layer in input_jacobian(block).iterate(values, len(expected), 20)]
    for l, (ours, theirs) in enumerate(zip(found, expected), 1):
        assert abs(mp.mpf(str(ours)) / theirs - 1) < 1e-12, f"layer {l}: {ours} and {mp.nstr(theirs, 15)}"


CASES = {
    "quadratic, norm": (quadratic, chain("z + z**2/2", LayerNorm()), True, 0),
    "quadratic, plain": (quadratic, chain("z + z**2/2"), False, 0),
    "quadratic, norm, skip": (quadratic, Residual(chain("z + z**2/2", LayerNorm()), "1/2"), True, mp.mpf(1) / 2),
    "relu, norm": (relu, chain("relu", LayerNorm()), True, 0),
    "relu, norm, skip": (relu, Residual(chain("relu", LayerNorm()), "1/2"), True, mp.mpf(1) / 2),
}


@pytest.mark.fast_with("quadratic, plain")
@pytest.mark.parametrize("case", list(CASES))
def test_j0_under_a_norm_whose_activation_has_a_mean(case):
    phi, block, norm, mu = CASES[case]
    with mp.workdps(80):
        assert_j0(block, by_kernel_derivatives(phi, 4, norm, mu=mu))


def test_planted_errors_in_j0_are_caught(monkeypatch):
    """Kernels without the mean; an engine in which the mean of φ does not move with the input, or nothing does."""
    phi, block, norm, mu = CASES["quadratic, norm, skip"]
    with mp.workdps(80):
        right = by_kernel_derivatives(phi, 3, norm, mu=mu)
        with pytest.raises(AssertionError, match=r"layer .* and"):
            assert_j0(block, by_kernel_derivatives(phi, 3, norm, centred=False, mu=mu))
        real = Walk.drift

        def wrong(self, x, c, m, forgotten):
            scale, mean, *inside = real(self, x, c, m)
            return [scale if forgotten == "mean" else mean, *inside]

        for forgotten in ("mean", "scale"):
            monkeypatch.setattr(Walk, "drift", lambda *given, f=forgotten: wrong(*given, f))
            with pytest.raises(AssertionError, match=r"layer .* and"):
                assert_j0(block, right)
        monkeypatch.setattr(Walk, "drift", real)
        assert_j0(block, right)


def by_hand(first, second, second_slope, first_slope, K):
    """(⟨ψ²⟩, ⟨ψ′²⟩) of ψ(z) = second((first(z) - m)/s), m and s the mean and the spread of first, by mpmath alone."""
    root = mp.sqrt(K)

    def mean(f, *kinks):
        near = [s * 10 ** mp.mpf(-k) for k in range(4) for s in (-1, 1)]  # tanh(√K t) is steep
        return mp.quad(lambda t: f(root * t) * mp.npdf(t), sorted({-12, -4, 0, 4, 12, *near, *kinks}))

    m = mean(first)
    s = mp.sqrt(mean(lambda z: first(z) ** 2) - m**2)
    kink = (m / root,)  # of relu behind relu; elsewhere one more panel
    moment = mean(lambda z: second((first(z) - m) / s) ** 2, *kink)
    return moment, mean(lambda z: (second_slope((first(z) - m) / s) * first_slope(z) / s) ** 2, *kink)


def relu(z):
    return max(z, mp.mpf(0))


def is_positive(z):
    return mp.mpf(z > 0)


def sech2(z):
    return mp.sech(z) ** 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "functions"),
    [
        (("relu", "relu"), (relu, relu, is_positive, is_positive)),
        (("relu", "tanh"), (relu, mp.tanh, sech2, is_positive)),
        (("z*tanh(z)", "tanh"), (lambda z: z * mp.tanh(z), mp.tanh, sech2, lambda z: mp.tanh(z) + z * sech2(z))),
    ],
    ids=["relu relu", "relu tanh", "z*tanh(z) tanh"],
)
def test_a_nonlinearity_behind_a_norm_is_followed(names, functions):
    """Its mean and spread change with the layer: the averages are integrated at every call, at any scale of K."""
    theory = derive(architecture=chain(names[0], LayerNorm(), names[1]))
    for k in (1e-4, 0.3, 30):
        run = theory.propagate(sigma_w=1, sigma_b=0, depth=2, input_norm=k)
        with mp.workdps(25):  # its goals are absolute
            moment, slope = by_hand(*functions, mp.mpf(k))
        assert abs(run.K[1] / moment - 1) < 1e-12
        assert abs(run.J[1] / slope - 1) < 1e-12


def test_a_rule_that_misses_is_refused():
    """Control: panels that end too early are seen by the measurement that a sample of consistent settings makes."""
    theory = derive(architecture=chain("relu", LayerNorm(), "tanh"))
    for node in theory.recursion("K").step[0].atoms(Average):
        shape, variables = node.over_symbols()
        if len(variables) < 2:
            continue
        text, rest = direct.direct(shape, "f"), ("f", variables)
        assert direct.measured(shape, text, *rest) < 1e-12
        with pytest.raises(MeanFieldError, match="not compiled"):
            direct.measured(shape, text.replace("= 9.5 * s", "= 2.5 * s"), *rest)
        break
    else:
        raise AssertionError("no average with parameters was found")


def test_a_rule_without_a_reference_is_refused():
    """An integrand that ends as ∞ - ∞ far out has no measured error; none is claimed, however close the rule is."""
    a, b = sp.symbols("a b", positive=True)
    node = average(z**2 / (2 * a * sp.exp(z**2) - b * sp.exp(z**2)), K)
    shape, variables = node.over_symbols()
    text = direct.direct(shape, "f")
    with pytest.raises(MeanFieldError, match="not compiled"):
        direct.measured(shape, text, "f", variables)


def test_a_norm_of_nothing_is_refused_by_name():
    """σ_w = σ_b = 0 in front of a LayerNorm is 0/0, which J shows; one such point of a grid is counted."""
    pre = derive("relu", norm="pre")
    with pytest.raises(MeanFieldError, match="neurons that are all 0, and divides"):
        pre.propagate(sigma_w=0, sigma_b=0, depth=3)
    with pytest.raises(MeanFieldError, match="all 0 at 1 of 2 points"):
        pre.propagate(sigma_w=[0, 1.0], sigma_b=0, depth=3)
    assert pre.propagate(sigma_w=0, sigma_b=1, depth=3).J[-1] == 0
