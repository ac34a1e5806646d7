"""The average over one layer's weights: its steps, and its exact values.

Second routes: the dense differentials of explicit networks, sums over all labels with moments found row by row,
cumulants of sums of uniform numbers, sampled matrices.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import prod

import numpy as np
import pytest
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, Theta, n
from meanfield.symbolic.finite_width import correlator_maps, neuron_fields, weight_averages
from meanfield.symbolic.finite_width.correlator_maps import NAMES, correlator_map, in_averages
from meanfield.symbolic.finite_width.correlator_recursions import correlator_recursion
from meanfield.symbolic.finite_width.ensembles import ORTHOGONAL, UNIFORM, Contraction, Independent, Orthogonal
from meanfield.symbolic.finite_width.layer_law import correlator, first_order
from meanfield.symbolic.finite_width.linear_correlators import first_linear_layer, linear_moments
from meanfield.symbolic.finite_width.monomials import CONTRACTIONS, WeightMonomial, lambda_b, lambda_w, quantity
from meanfield.symbolic.finite_width.neuron_fields import LETTERS, Expected, Mean, Sigma, Tensor, left, right
from meanfield.symbolic.finite_width.weight_averages import (
    C_W,
    C_b,
    average_over_weights,
    leading,
    structure_of,
)
from tests.empirical.observables.dense_differentials import differentials
from tests.oracles.haar import haar_samples, matrix_moment

I = left(1, 2, 3, 4)
WEIGHTS = ("gaussian", "orthogonal", "uniform")
V_ = correlator("V", (0, 0, 0, 0))

# ------------------------------------------------------------------------ words, against dense tensors of networks


def tanh_derivatives(z):
    t = np.tanh(z)
    s = 1 - t * t
    return t, s, -2 * t * s, s * (6 * t * t - 2)


@pytest.fixture(scope="module")
def two_layers():
    """The tensors of two consecutive layers of a network, the weights between them, and the rates."""
    rng = np.random.default_rng(3)
    widths = (2, 3, 3, 2)
    W = [rng.standard_normal((b, a)) for a, b in pairwise(widths)]
    b = [rng.standard_normal(w) for w in widths[1:]]
    rates = (0.7, 0.8, 1.1), (0.3, 0.2, 0.6)
    layers = list(differentials(W, b, rng.standard_normal((1, 2)), tanh_derivatives, *rates, 3))
    return layers[1], layers[2], W[2], b[2], rates[0][2], rates[1][2]


def dense(layer):
    """The tensors of a layer at its only input."""
    found = {"z": layer.z, "H": layer.H, "dH": layer.dH, "ddI": layer.ddI, "ddII": layer.ddII}
    return {name: tensor[(0,) * (tensor.ndim // 2)] for name, tensor in found.items()}


def word_value(word, chosen, old, W, b, rate_w, rate_b):
    """A word at neurons {label: number} of the new layer, its sums done by loops."""
    sigma, width = tanh_derivatives(old.z[0]), W.shape[1]
    tensors = dense(old)
    if any(chosen[x] != chosen[y] for x, y in word.deltas):
        return 0.0
    total, constant = 0.0, prod(b[chosen[i]] for i in word.biases)
    for places in product(range(width), repeat=len(word.summed)):
        at = dict(zip(word.summed, places))
        values = {n: width, lambda_w: rate_w, lambda_b: rate_b}
        for f in word.summand.atoms(Sigma):
            values[f] = sigma[int(f.args[0])][at[f.args[2]]]
        for f in word.summand.atoms(Tensor):
            values[f] = tensors[f.name][tuple(at[x] for x in f.labels)]
        weights = prod(W[chosen[i], at[j]] for i, j in word.weights)
        total += weights * float(word.summand.xreplace({k: sp.Float(v) for k, v in values.items()}))
    return constant * total


def assert_words_are(name, words, layers):
    old, new, *rest = layers
    expected = dense(new)[name]
    for place in product(range(2), repeat=expected.ndim):
        chosen = dict(zip(I, place))
        found = sum(word_value(word, chosen, old, *rest) for word in words)
        assert found == pytest.approx(expected[place], rel=1e-11, abs=1e-12), (
            f"the monomials of {name} miss entry {place}"
        )


@pytest.mark.slow_with("dH")
@pytest.mark.parametrize("name", ["z", "H", "dH", *(pytest.param(d, marks=pytest.mark.slow) for d in ("ddI", "ddII"))])
def test_the_chain_rule_gives_the_differentials(name, two_layers):
    words = quantity(name, I[: dict(z=1, H=2, dH=3, ddI=4, ddII=4)[name]])
    assert_words_are(name, words, two_layers)
    with pytest.raises(AssertionError, match=r"the monomials of .* miss"):
        assert_words_are(name, words[:-1], two_layers)


def test_counts_of_words():
    """As many terms as on paper: H 3, dH 4, ddI 11, ddII 10."""
    found = {name: len(quantity(name, I[: len(legs)])) for name, legs in CONTRACTIONS.items()}
    assert found == {"z": 2, "H": 3, "dH": 4, "ddI": 11, "ddII": 10}


# ------------------------------------------------------------------------------------------ ensembles, exact sums


def assert_contractions(ensemble, law, factors, shape, labels):
    """Σ coefficient δ(i) δ(j) is the moment of the matrix for all labels given."""
    found = list(ensemble.contractions(factors, sp.Rational(3, 2), sp.Integer(shape[1]), sp.Integer(max(shape))))
    fits = lambda x, blocks: all(x[b[0]] == x[p] for b in blocks for p in b)  # noqa: E731
    for rows, columns in labels:
        value = sum(c.coefficient for c in found if fits(rows, c.left) and fits(columns, c.right))
        entries: dict = {}
        for i, j in zip(rows, columns):
            entries[i, j] = entries.get((i, j), 0) + 1
        moment = sp.Rational(str(matrix_moment(law, entries, shape, Fraction(3, 2))))
        assert value == moment, f"contracted to {value}, not {moment}"


LABELS = [
    ((1, 1, 1, 1), (1, 1, 1, 1)),
    ((1, 1, 2, 2), (1, 1, 2, 2)),
    ((1, 1, 2, 2), (1, 2, 1, 2)),
    ((1, 2, 1, 2), (1, 1, 1, 1)),
    ((1, 1, 1, 2), (1, 1, 1, 2)),
]
SIX = [((1,) * 6, (1,) * 6), ((1, 1, 1, 1, 2, 2), (1, 1, 2, 2, 1, 1)), ((1, 2) * 3, (1, 1, 2, 2, 1, 1))]


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (3, 2)])
@pytest.mark.parametrize("law", WEIGHTS)
def test_contractions_are_moments(law, shape):
    """Rectangular blocks of orthogonal matrices, and n below the order, too."""
    ensemble = correlator_maps.ensemble_of(law)
    assert_contractions(ensemble, law, 4, shape, LABELS)
    assert_contractions(ensemble, law, 6, shape, SIX)
    other = "gaussian" if law != "gaussian" else "uniform"
    with pytest.raises(AssertionError, match="contracted to"):
        assert_contractions(ensemble, other, 4, shape, LABELS)


def test_a_coset_type_exchanged_is_seen():
    """Wg(2) and Wg(1, 1) in each other's place."""

    class Wrong(Orthogonal):
        def contractions(self, factors, variance, fan_in, whole_):
            found = list(super().contractions(factors, variance, fan_in, whole_))
            same, other = (
                next(c for c in found if (c.left == c.right) == equal).coefficient for equal in (True, False)
            )
            for c in found:
                yield Contraction(c.left, c.right, other if c.left == c.right else same)

    assert_contractions(ORTHOGONAL, "orthogonal", 4, (3, 3), LABELS)
    with pytest.raises(AssertionError, match="contracted to"):
        assert_contractions(Wrong(), "orthogonal", 4, (3, 3), LABELS)


def test_cumulants_of_the_uniform_law():
    """κ_4 = −6/5, κ_6 = 48/7: from the moments 9/5 and 27/7."""
    assert UNIFORM.cumulant(4) == sp.Rational(-6, 5) == sp.Rational(9, 5) - 3
    assert UNIFORM.cumulant(6) == sp.Rational(48, 7) == sp.Rational(27, 7) - 15 * sp.Rational(9, 5) + 30


@pytest.mark.parametrize(("law", "shape"), [("gaussian", (2, 2)), ("orthogonal", (2, 3)), ("uniform", (3, 2))])
def test_a_layer_given_the_layer_before(law, shape):
    """E over W and b of z′z′z′z′ for numbers σ_j: `pairings` and `sums` against a sum over all labels."""
    outputs, inputs = shape
    sigma, variance, bias = [Fraction(2, 3), Fraction(-1, 2), Fraction(5, 4)][:inputs], Fraction(3, 2), Fraction(1, 5)
    made = average_over_weights(
        *(quantity("z", [i]) for i in I),
        weights=law,
        variance=sp.Rational(3, 2),
        bias=sp.Rational(1, 5),
        size=max(shape),
        fan_in=sp.Integer(inputs),
    )
    for neurons in product(range(1, outputs + 1), repeat=4):
        direct = Fraction(0)
        for which in product((False, True), repeat=4):  # which factor is a bias
            biases = [i for i, is_bias in zip(neurons, which) if is_bias]
            lone = prod(bias ** (biases.count(i) // 2) * (1, 0, 1, 0, 3)[biases.count(i)] for i in set(biases))
            rest = [i for i, is_bias in zip(neurons, which) if not is_bias]
            for js in product(range(1, inputs + 1), repeat=len(rest)) if lone else ():
                entries: dict = {}
                for key in zip(rest, js):
                    entries[key] = entries.get(key, 0) + 1
                moment = matrix_moment(law, entries, shape, variance)
                direct += lone * moment * prod(sigma[j - 1] for j in js)
        at = dict(zip(I, neurons))
        allowed = lambda s: all(at[b[0]] == at[x] for b in s for x in b)  # noqa: B023, E731
        values = lambda f, places: f.xreplace(  # noqa: E731
            {a: sp.Rational(str(sigma[places[a.args[2]]])) for a in f.atoms(Sigma)}
        )
        by_pairings = sum(
            p.coefficient
            * sum(values(p.summand, dict(zip(p.labels, js))) for js in product(range(inputs), repeat=len(p.labels)))
            for p in made.pairings
            if allowed(p.structure)
        )
        by_sums = sp.S.Zero
        for s, found in made.sums.items():
            for f, c in found.items() if allowed(s) else ():
                count = len({a.args[2] for a in f.atoms(Sigma)})
                orders = list(permutations(range(inputs), count))
                if orders:
                    by_sums += c * sum(values(f, dict(zip(LETTERS, o))) for o in orders) / len(orders)
        assert by_pairings == by_sums == sp.Rational(str(direct)), neurons


def test_a_dropped_pairing_is_seen():
    """Of the 9 terms of W⁴ each off-diagonal one matters: without it V is that of neither ensemble."""
    made = average_over_weights(*(quantity("z", [i]) for i in I), weights="orthogonal", bias=0)
    assert len(made.pairings) == 9
    right = correlator_map("V", weights="orthogonal").subs(C_b, 0)
    (s,) = [x for x in made.structures if x == structure_of(I[:2], I[2:])]
    G1, K1 = correlator_map("G1"), correlator_map("K").subs(C_b, 0)
    for gone in range(9):
        kept = [p for i, p in enumerate(made.pairings) if i != gone]
        sums = weight_averages._distinguished(kept, n)
        one = weight_averages._expanded(sums[s], first_order)
        whole = made.expanded(first_order)[s]
        assert sp.expand(whole[1] - 2 * K1 * G1 - right) == 0
        assert (sp.expand(one[0] - whole[0]) != 0 or sp.expand(one[1] - whole[1]) != 0) == (
            made.pairings[gone].structure == s
        )


@pytest.mark.slow
def test_rectangular_blocks_against_sampled_matrices():
    """E[z′_1² z′_2²] of a 2 × 3 block, C_W = 1: own QR, z-scores."""
    x, rng = np.array([0.9, -0.4, 1.3]), np.random.default_rng(8)
    for shape in ((2, 3), (4, 3)):
        O = haar_samples(80_000, max(shape), rng) * (max(shape) / shape[1]) ** 0.5
        z = np.einsum("sij,j->si", O[:, : shape[0], :3], x)
        made = average_over_weights(
            *(quantity("z", [i]) for i in I),
            weights="orthogonal",
            variance=1,
            bias=0,
            size=max(shape),
            fan_in=sp.Integer(3),
        )
        for s, sample in ((((0, 1), (2, 3)), z[:, 0] ** 2 * z[:, 1] ** 2), (None, z[:, 0] ** 4)):
            total = 0.0
            for p in made.pairings:
                if s is None or p.structure == structure_of(*[[I[q] for q in b] for b in s]):
                    sums = np.array([1.0])
                    for g in p.groups:
                        power = sum(a.args[2] in g and k for a, k in p.summand.as_powers_dict().items())
                        sums = sums * (x ** int(power)).sum()
                    total += float(p.coefficient) * sums[0]
            assert abs(sample.mean() - total) < 4 * sample.std() / len(sample) ** 0.5
            assert abs(sample.mean() - 1.05 * total) > 4 * sample.std() / len(sample) ** 0.5


# --------------------------------------------------------------------------------- the law of a layer, and expansion


def test_first_order_of_a_product():
    """H_jk H_jk, j ≠ k, is B; H_jj is Θ + (Theta1 + …); equal labels add 2F to D."""
    j, k = LETTERS[:2]
    H = lambda a, b: Tensor(sp.Symbol("H"), sp.Tuple(a, b), sp.Tuple(0, 0))  # noqa: E731
    B, D, F = (correlator(x, (0,) * 4) for x in "BDF")
    assert first_order(H(j, k) ** 2) == (0, B)
    zero, one = first_order(Sigma(0, 0, j) * H(j, j))
    s = Mean(Sigma(0, 0, sp.Symbol("neuron")))
    two = Mean(s.f, (0, 0))
    assert zero == Theta * s
    assert sp.expand(one.coeff(D) - two / 2) == 0 and sp.expand(one.coeff(F) - two) == 0
    assert first_order(Sigma(0, 0, j) * H(k, k))[1].coeff(F) == 0
    assert first_order(Tensor(sp.Symbol("dH"), sp.Tuple(j, j, k), sp.Tuple(0, 0, 0)) * Sigma(1, 0, k))[1] == correlator(
        "Q", (0,) * 4
    ) * Mean(Sigma(1, 0, sp.Symbol("neuron")), (0,))


@pytest.mark.parametrize(
    ("e", "pair"),
    [
        ((n + 1) / ((n - 1) * (n + 2)) * n, (1, 0)),
        (-n / ((n - 1) * (n + 2)), (0, -1)),
        (C_W**2 * (n - 1) / n, (C_W**2, -(C_W**2))),
        (sp.Integer(3), (3, 0)),
        (sp.S.Zero, (0, 0)),
        (1 / n**2, (0, 0)),
        (n**2 / (2 * n + 1) ** 2, (sp.Rational(1, 4), sp.Rational(-1, 4))),
    ],
)
def test_leading_coefficients(e, pair):
    assert leading(e) == pair


def test_what_uniform_weights_change():
    """κ_4 reaches the means through single neurons, and no correlator of two different neurons."""
    for name in ("V", "B", "Q"):
        assert correlator_map(name, weights="uniform") == correlator_map(name, weights="gaussian"), name
    V0, s = correlator("V0", (0,) * 4), Sigma(0, 0, sp.Symbol("neuron"))
    difference = correlator_map("G1", weights="uniform") - correlator_map("G1")
    assert sp.expand(difference - C_W * V0 * Mean(s**2, (0,) * 4) / 24) == 0
    assert correlator_map("V0", weights="uniform") == sp.Rational(-6, 5) * C_W**2 * Mean(s**4)
    kappa = sp.Symbol("kappa")
    assert correlator_map("V0", weights=Independent("two points", ((4, -2),))) == -2 * C_W**2 * Mean(s**4)
    assert correlator_map("V0", weights=Independent("any", ((4, kappa),))) == kappa * C_W**2 * Mean(s**4)


@pytest.mark.slow
def test_uniform_weights_by_cumulants():
    """φ = z + z²/2, C_W = 1, three layers, exact in n: z¹ is a sum of n uniform numbers, whose cumulants add up, and
    given z¹ so is z². K³ to order 1/n has the derived G1; without V0, that of Gaussian weights, it is another."""
    t, kappa = sp.Symbol("t"), UNIFORM.cumulant
    exponent = sum(kappa(p) / n ** (p // 2 - 1) * t**p / sp.factorial(p) for p in (2, 4, 6, 8))
    series = sp.expand(sum(exponent**q / sp.factorial(q) for q in range(5)))
    moment = {p: series.coeff(t, p) * sp.factorial(p) for p in range(9)}

    def mean(power):
        z = sp.Symbol("z")
        return sum(c * moment[p] for (p,), c in sp.Poly((z + z**2 / 2) ** power, z).terms())

    square = mean(4) / n + (1 - 1 / n) * mean(2) ** 2  # E S², S = Σ_j φ_j²/n the variance of z² given z¹
    third = mean(2) + (3 * square + kappa(4) * mean(4) / n) / 4  # E φ² = E[z² + z³ + z⁴/4]
    names = {"K": K, "V": V_, "V0": correlator("V0", (0,) * 4), "G1": correlator("G1", (0, 0))}
    for law, same in (("uniform", True), ("gaussian", False)):
        maps = {x: in_averages(correlator_map(x, weights=law), "z + z**2/2").doit() for x in names if same or x != "V0"}
        state = {K: sp.S.One, V_: sp.S.Zero, names["V0"]: kappa(4) if same else sp.S.Zero, names["G1"]: sp.S.Zero}
        for _ in range(2):
            state |= {names[x]: m.subs({C_W: 1, C_b: 0}).subs(state) for x, m in maps.items()}
        assert sp.limit(third, n, sp.oo) == state[K]
        assert (sp.limit(n * (third - state[K]), n, sp.oo) == state[names["G1"]]) == same


@pytest.mark.slow
def test_unequal_widths_in_maps():
    """V of a layer twice as wide, or half: n′/n times the diagonal, −n′/max(n, n′) from the off-diagonal."""
    s = Sigma(0, 0, sp.Symbol("neuron"))
    for ratio in (sp.Integer(2), sp.Rational(1, 2)):
        found = correlator_map("V", weights="orthogonal", ratio=ratio)
        gaussian = correlator_map("V", ratio=ratio)
        assert sp.expand(found - gaussian + 2 * C_W**2 * ratio / max(1, ratio) * Mean(s**2) ** 2) == 0


# --------------------------------------------------------------------------------- what prints, what is refused


def test_every_step_prints():
    made = average_over_weights(
        quantity("z", I[:1]), quantity("z", I[1:2]), quantity("H", I[2:]), weights="orthogonal", of="z1 z2 H34"
    )
    text = str(made)
    for piece in (
        "E[z1 z2 H34] over orthogonal W and b:",
        "  + Σ_{j1 j2 j3 j4} W_{i1 j1} W_{i2 j2} W_{i3 j3} W_{i4 j4} σ_{j1}*σ_{j2}*σ'_{j3}*σ'_{j4}*H_{j3 j4}",
        "δ_{i1 i3} δ_{i2 i4} * C_W**2*(n + 1)/(n*(n - 1)*(n + 2)) * Σ_{j1=j3, j2=j4} σ_{j1}*σ_{j2}*σ'_{j1}",
        "coincidences",
        "E[σ_{j}*σ_{k}*σ'_{j}*σ'_{k}*H_{j k}]",
    ):
        assert piece in text, piece
    tex = made.latex()
    for piece in (
        r"\delta_{i_{1} i_{3}} \delta_{i_{2} i_{4}}",
        r"\sum_{j_{1}=j_{3}, j_{2}=j_{4}}",
        r"\widehat{H}_{j k}",
        r"\begin{align*}",
    ):
        assert piece in tex, piece
    assert tex.count("{") == tex.count("}") and str(Expected(sp.S.One)) == "1"


def test_a_derivation_ends_with_its_map():
    for latex in (False, True):
        text = correlator_maps.derivation("F", weights="orthogonal", latex=latex)
        found = correlator_map("F", weights="orthogonal")
        assert text.endswith(f"F' = {sp.latex(found)}\n\\end{{align*}}" if latex else f"F' = {found}")
        assert text.count("E[") + text.count("mathbb{E}") > 10


@pytest.mark.slow
def test_mathtext_reads_the_steps():
    """Each formula of the LaTeX is read by matplotlib's parser."""
    mathtext = pytest.importorskip("matplotlib.mathtext")
    parser = mathtext.MathTextParser("path")
    for name in NAMES:
        parser.parse(f"${sp.latex(correlator_map(name, weights='orthogonal'))}$")
    for word in quantity("dH", I[:3]):
        parser.parse(f"${word.latex()}$")


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: correlator_map("W"), "choices are"),
        (lambda: correlator_map("V", (1, 2)), "4 indices"),
        (lambda: correlator_map("V", weights="cauchy"), "ensembles are"),
        (lambda: correlator_map("V", ratio=-1), "> 0"),
        (lambda: correlator_map("V", ratio=float("nan")), "ratio"),
        (lambda: quantity("dddH", I), "choices are"),
        (lambda: quantity("H", I), "2 labels"),
        (
            lambda: average_over_weights(
                [WeightMonomial(sp.S.One, ((I[0], right(1)),))] * 1, *[quantity("z", [I[0]])] * 9
            ),
            "at most 8",
        ),
        (lambda: average_over_weights(*[quantity("z", [I[0]])] * 6, weights=Independent("mine", ((4, 1),))), "order 6"),
        (lambda: Independent("skew", ((3, 1),)), "whole number|odd"),
        (lambda: Independent("skew", ((5, 1),)), "odd"),
        (lambda: Independent("mine", ((4, None),)), "cumulant"),
        (lambda: Independent("mine", ((4, "-5/2"),)), "below -2"),
        (lambda: linear_moments(202, 2), "from 2 to 200"),
        (lambda: linear_moments(3, 2), "even"),
        (lambda: linear_moments(4, 2, weights="uniform"), "pairings"),
        (lambda: first_linear_layer(n, 7, weights="orthogonal"), "larger"),
        (lambda: in_averages(correlator_map("P"), "relu"), "kinks"),
        (lambda: in_averages(correlator_map("B"), "step"), "jumps"),
        (lambda: leading(n**2 / (n + 1)), "grows"),
        (lambda: average_over_weights(quantity("z", I[:1]), quantity("z", I[:1])).expanded(first_order, 2), "order 2"),
        (lambda: correlator("X", (0,) * 4), "choices"),
        (lambda: correlator_recursion("tanh", quantities="W"), "choices"),
        (lambda: correlator_recursion("relu", quantities="R"), "kinks"),
        (lambda: correlator_recursion("step", quantities="A"), "jumps"),
        (lambda: correlator_recursion("tanh", rates=(1, -1)), "≥ 0"),
        (lambda: correlator_recursion("tanh", rates=1), "λ_w"),
        (lambda: correlator_recursion("tanh", inputs=0), "> 0"),
        (lambda: correlator_recursion("tanh", inputs="many"), "N_0/n"),
        (lambda: correlator_recursion("tanh", weights="cauchy"), "ensembles"),
    ],
)
def test_refusals(call, words):
    with pytest.raises(MeanFieldError, match=words):
        call()


def test_powers_of_texts():
    """A factor without an exponent has no brackets of its own."""
    assert (neuron_fields._power("x", None), neuron_fields._power("x", "2")) == ("x", "{x}^{2}")
