"""The average over one layer's weights: its steps, its exact values, and the maps of the correlators that follow.

Second routes: the dense differentials of explicit networks, sums over all labels with moments found row by row, brute
force from the definitions on tiny networks, uniform vectors on a sphere, sampled matrices, published formulas.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise, permutations, product
from math import prod

import numpy as np
import pytest
import sympy as sp
from oracle_haar import expectation, haar_samples, matrix_moment, sphere

import meanfield as mf
from meanfield.empirical.observables.differentials import differentials
from meanfield.results import MeanFieldError
from meanfield.symbolic.finite_width import correlators, linear, neuron_sums
from meanfield.symbolic.finite_width.correlators import NAMES, WHERE, correlator_map, in_averages
from meanfield.symbolic.finite_width.ensembles import UNIFORM, Contraction, Independent, Orthogonal
from meanfield.symbolic.finite_width.fields import LETTERS, Expected, Mean, Sigma, Tensor, left, right
from meanfield.symbolic.finite_width.layer_law import correlator, first_order
from meanfield.symbolic.finite_width.linear import first_linear_layer, linear_moments
from meanfield.symbolic.finite_width.neuron_sums import (
    C_W,
    C_b,
    average_over_weights,
    leading,
    structure_of,
)
from meanfield.symbolic.finite_width.recursions import correlator_recursion
from meanfield.symbolic.finite_width.words import CONTRACTIONS, Word, lambda_b, lambda_w, quantity
from meanfield.symbols import K, Theta, n

I = left(1, 2, 3, 4)
WEIGHTS = ("gaussian", "orthogonal", "uniform")
K_, V_ = K, correlator("V", (0, 0, 0, 0))

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


def word_value(word, chosen, old, W, b, rate_w, rate_b):
    """A word at neurons {label: number} of the new layer, its sums done by loops."""
    sigma, width = tanh_derivatives(old.z[0]), W.shape[1]
    tensors = {"H": old.H[0, 0], "dH": old.dH, "ddI": old.ddI, "ddII": old.ddII}
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
    dense = {"z": new.z[0], "H": new.H[0, 0], "dH": new.dH, "ddI": new.ddI, "ddII": new.ddII}[name]
    for place in product(range(2), repeat=dense.ndim):
        chosen = dict(zip(I, place))
        found = sum(word_value(word, chosen, old, *rest) for word in words)
        assert found == pytest.approx(dense[place], rel=1e-11, abs=1e-12), (name, place)


@pytest.mark.parametrize("name", ["z", "H", "dH", *(pytest.param(d, marks=pytest.mark.slow) for d in ("ddI", "ddII"))])
def test_the_chain_rule_gives_the_differentials(name, two_layers):
    words = quantity(name, I[: dict(z=1, H=2, dH=3, ddI=4, ddII=4)[name]])
    assert_words_are(name, words, two_layers)
    with pytest.raises(AssertionError):
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
        assert value == sp.Rational(str(matrix_moment(law, entries, shape, Fraction(3, 2))))


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
    ensemble = correlators.ensemble_of(law)
    assert_contractions(ensemble, law, 4, shape, LABELS)
    assert_contractions(ensemble, law, 6, shape, SIX)
    other = "gaussian" if law != "gaussian" else "uniform"
    with pytest.raises(AssertionError):
        assert_contractions(ensemble, other, 4, shape, LABELS)


def test_a_coset_type_exchanged_is_seen():
    class Wrong(Orthogonal):
        def contractions(self, factors, variance, fan_in, whole_):
            for c in super().contractions(factors, variance, fan_in, whole_):
                yield Contraction(c.left, c.right[::-1] if len(c.right) < 2 else c.left, c.coefficient)

    with pytest.raises(AssertionError):
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
        sums = neuron_sums._told_apart(kept, n)
        one = neuron_sums._expanded(sums[s], first_order)
        whole = made.expanded(first_order)[s]
        assert sp.expand(whole[1] - 2 * K1 * G1 - right) == 0
        assert (sp.expand(one[0] - whole[0]) != 0 or sp.expand(one[1] - whole[1]) != 0) == (
            made.pairings[gone].structure == s
        )


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


# ------------------------------------------------------------------------- linear networks, from the definitions


@pytest.fixture(scope="module")
def tiny():
    """z of a linear network 2 → 2 → 2 as polynomials in its parameters, and their derivatives by the definitions."""
    W = [sp.symbols(f"u{m}_1:3 v{m}_1:3") for m in (1, 2)]
    M = [sp.Matrix(2, 2, w) for w in W]
    b = [sp.symbols(f"b{m}_1:3") for m in (1, 2)]
    x = sp.Matrix([1, 2])
    z = M[1] * (M[0] * x + sp.Matrix(b[0])) + sp.Matrix(b[1])
    rates = {s: sp.Rational(7, 10) / 2 for w in W for s in w} | {s: sp.Rational(3, 10) for bs in b for s in bs}
    names = [s for w in W for s in w] + [s for bs in b for s in bs]
    d1 = [{s: z[i].diff(s) for s in names} for i in range(2)]
    d2 = [{(s, t): d1[i][s].diff(t) for s in names for t in names} for i in range(2)]
    third = [{k: {t: e.diff(t) for t in names} for k, e in d2[i].items() if e.has(*names)} for i in range(2)]
    cache: dict = {}

    def tensor(name, *i):
        key = (name, *i)
        if key not in cache:
            cache[key] = sp.expand(made(name, *i))
        return cache[key]

    def made(name, *i):
        if name == "z":
            return z[i[0]]
        if name == "H":
            return sum(rates[s] * d1[i[0]][s] * d1[i[1]][s] for s in names)
        pairs = [(s, t) for s in names for t in names]
        if name == "dH":
            return sum(
                rates[s] * rates[t] * d2[i[0]][s, t] * d1[i[1]][s] * d1[i[2]][t]
                for s, t in pairs
                if d2[i[0]][s, t] != 0
            )
        if name == "ddI":
            return sum(
                rates[s] * rates[t] * rates[u] * e * d1[i[1]][s] * d1[i[2]][t] * d1[i[3]][u]
                for (s, t), row in third[i[0]].items()
                for u, e in row.items()
                if e != 0
            )
        return sum(
            rates[s] * rates[c] * rates[t] * d2[i[0]][s, c] * d2[i[1]][t, c] * d1[i[2]][s] * d1[i[3]][t]
            for s, c in pairs
            if d2[i[0]][s, c] != 0
            for t in names
            if d2[i[1]][t, c] != 0
        )

    gens = [*names]
    matrices = [[list(w[:2]), list(w[2:])] for w in W]

    def mean(kind, neurons, law):
        at, factors = 0, sp.S.One
        for name in linear.KINDS[kind]:
            size = linear._SIZE[name]
            factors *= tensor(name, *neurons[at : at + size])
            at += size
        poly = sp.Poly(sp.expand(factors), *gens)
        return expectation(poly, matrices, b, law, Fraction(3, 2), Fraction(1, 5))

    return mean


SETTING = dict(variance=sp.Rational(3, 2), bias=sp.Rational(1, 5), rates=(sp.Rational(7, 10), sp.Rational(3, 10)))
NEURONS = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 1)]


def assert_linear_layer(layer, kind, law, mean):
    length = sum(linear._SIZE[name] for name in linear.KINDS[kind])
    for neurons in {x[:length] for x in NEURONS}:
        value = sum(c for s, c in layer.moments[kind].items() if all(neurons[b[0]] == neurons[p] for b in s for p in b))
        assert value == sp.Rational(str(mean(kind, neurons, law))), (kind, neurons)


@pytest.mark.slow
@pytest.mark.parametrize("law", WEIGHTS)
def test_linear_networks_from_the_definitions(law, tiny):
    """n = 2, two layers, biases and rates: E zz, zzzz, H, zzH, HH, dH z, ddI, ddII, every index pattern, exactly."""
    first = first_linear_layer(2, 2, square=5, fourth=17, weights=law, **SETTING)
    second = first.next(weights=law, **SETTING)
    for kind in linear.KINDS:
        assert_linear_layer(second, kind, law, tiny)
    with pytest.raises(AssertionError):
        assert_linear_layer(first, "HH", law, tiny)


@pytest.mark.parametrize("kind", ["dHz", *(pytest.param(x, marks=pytest.mark.slow) for x in ("zzzz", "ddII"))])
def test_linear_networks_from_the_definitions_in_short(kind, tiny):
    first = first_linear_layer(2, 2, square=5, fourth=17, weights="orthogonal", **SETTING)
    second = first.next(weights="orthogonal", **SETTING)
    assert_linear_layer(second, kind, "orthogonal", tiny)
    wrong = second.moments | {kind: {s: 2 * c for s, c in second.moments[kind].items()}}
    with pytest.raises(AssertionError):
        assert_linear_layer(linear.LinearLayer(second.width, wrong), kind, "orthogonal", tiny)


@pytest.mark.parametrize("size", [3, 4, 10])
@pytest.mark.parametrize("m", range(1, 6))
def test_moments_of_linear_networks(m, size):
    """[orthogonal_weights] (3.17) and (3.24), and the sphere: G_2m = (n/…)^m for orthogonal weights at every depth."""
    rising = prod(size + 2 * j for j in range(m))
    assert linear_moments(2 * m, 4, size, size, weights="orthogonal", variance=1) == [sp.Rational(size**m, rising)] * 4
    gaussian = linear_moments(2 * m, 4, size, size, variance=1)
    assert gaussian == [sp.Rational(rising, size**m) ** layer for layer in range(4)]
    assert sphere((2,) * min(m, size) + (0,) * max(size - m, 0), size) == sp.Rational(
        1, prod(size + 2 * j for j in range(min(m, size)))
    )
    assert gaussian != linear_moments(2 * m, 4, size + 1, size + 1, variance=1) or m == 1


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_moments_and_layers_agree(law):
    layer = first_linear_layer(n, weights=law, bias=0).next(weights=law, bias=0).next(weights=law, bias=0)
    found = layer.moments["zzzz"]
    assert set(found) == {((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))}
    assert {sp.cancel(v - linear_moments(4, 3, weights=law)[2]) for v in found.values()} == {0}


def test_unequal_widths_of_linear_networks():
    """Ṽ¹ = −2n/(max(n, N_0) + 2): n = 50 on 784 and 20 inputs."""
    for inputs, value in ((784, -100 / 786), (20, -100 / 52)):
        layer = first_linear_layer(inputs, 50, weights="orthogonal", variance=1, bias=0)
        assert float(layer.correlators()["V"]) == pytest.approx(value, rel=1e-14)


# --------------------------------------------------------------------- maps of the correlators, for any activation


def linear_limit(e):
    """A map with σ(z) = z: averages of one Gaussian variable."""
    return in_averages(e, "z").doit()


@pytest.mark.slow
@pytest.mark.parametrize("law", WEIGHTS)
def test_maps_of_linear_networks_are_the_limits_of_exact_layers(law):
    """All correlators from layer 1 to 2 to 3, symbolic C_W and rates: two codes, one closes, the other expands."""
    layer = first_linear_layer(n, weights=law, bias=0)
    names = [x for x in (*NAMES, "V0", "A0", "D0_H", "P0", "R0", "S0") if x not in ("G1", "Theta1")]
    zeros = {correlator(x, (0,) * 4): sp.S.Zero for x in names if x in WHERE} | dict.fromkeys(
        (sp.Symbol("G1", real=True), sp.Symbol("Theta1", real=True)), sp.S.Zero
    )
    for _ in range(2):
        old = layer.correlators()
        layer = layer.next(weights=law, bias=0)
        new = layer.correlators()
        at = zeros | {
            (K if x == "K" else Theta if x == "Theta" else correlator(x, (0,) * 4)): sp.limit(v, n, sp.oo)
            for x, v in old.items()
        }
        for x in names:
            if x in WHERE or x in ("K", "Theta"):
                found = linear_limit(correlator_map(x, weights=law)).subs(C_b, 0).subs(at)
                assert sp.expand(found - sp.limit(new.get(x, sp.S.Zero), n, sp.oo)) == 0, x


@pytest.mark.slow
def test_four_inputs_as_published():
    """[orthogonal_weights] (4.16): its sum over β with raised indices, whitened back to derivatives of averages."""
    for law, sign in (("orthogonal", 1), ("gaussian", 0)):
        found = correlator_map("V", (1, 2, 3, 4), weights=law)
        s = {a: Sigma(0, a, sp.Symbol("neuron")) for a in (1, 2, 3, 4)}
        pair = lambda a, b: Mean(s[a] * s[b])  # noqa: B023, E731
        source = Mean(s[1] * s[2] * s[3] * s[4]) - pair(1, 2) * pair(3, 4)
        source -= sign * (pair(1, 3) * pair(2, 4) + pair(1, 4) * pair(2, 3))
        for b1, b2, b3, b4 in product((1, 2), (1, 2), (3, 4), (3, 4)):
            vertex = correlator("V", (b1, b2, b3, b4))
            source += vertex * Mean(s[1] * s[2], (b1, b2)) * Mean(s[3] * s[4], (b3, b4)) / 4
        assert sp.expand(found - C_W**2 * source) == 0
        wrong = source + sign * pair(1, 3) * pair(2, 4) + (1 - sign) * pair(1, 2) * pair(3, 4)
        assert sp.expand(found - C_W**2 * wrong) != 0


def test_one_input_as_published():
    """(4.18): 3 ↔ 1 and χ_∥²; (4.26), (5.5); ReLU (4.19): 3l − 5, 5(l − 1), mixed 3(l − 1)."""
    s = Sigma(0, 0, sp.Symbol("neuron"))
    for law, times in (("orthogonal", 3), ("gaussian", 1)):
        chi = C_W * Mean(s**2, (0, 0)) / 2
        expected = C_W**2 * (Mean(s**4) - times * Mean(s**2) ** 2) + chi**2 * V_
        assert sp.expand(correlator_map("V", weights=law) - expected) == 0
        G1 = chi * correlator("G1", (0, 0)) + C_W * Mean(s**2, (0, 0, 0, 0)) * V_ / 8
        assert sp.expand(correlator_map("G1", weights=law) - G1) == 0
    relu = in_averages(correlator_map("V", weights="orthogonal"), "relu").doit().subs(C_W, 2)
    assert sp.expand(relu - V_ - 3 * K**2) == 0
    relu = in_averages(correlator_map("V"), "relu").doit().subs(C_W, 2)
    assert sp.expand(relu - V_ - 5 * K**2) == 0


@pytest.mark.slow
def test_tanh_as_measured_and_printed():
    """Iterated in 20 digits from K¹ = 1/3: Ṽ of orthogonal networks −2, −1.870, −1.837, −1.830, −1.833 … −1.8387 at
    layer 6 and −1.873 at 11; Gaussian 3.7505 at 6; G1/K of orthogonal ones 0.9786 at 6."""
    for law, printed in (
        ("orthogonal", {2: -1.870, 3: -1.837, 4: -1.830, 5: -1.833, 6: -1.8387}),
        ("gaussian", {6: 3.7505}),
    ):
        maps = [in_averages(correlator_map(x, weights=law), "tanh").subs({C_W: 1, C_b: 0}) for x in ("K", "V", "G1")]
        G1 = correlator("G1", (0, 0))
        state = [sp.Rational(1, 3), -2 * sp.Rational(1, 9) if law == "orthogonal" else sp.S.Zero, sp.S.Zero]
        for layer in range(2, 7):
            state = [m.subs({K: state[0], V_: state[1], G1: state[2]}).evalf(20) for m in maps]
            if layer in printed:
                assert float(state[1] / state[0] ** 2) == pytest.approx(printed[layer], abs=6e-4)
        if law == "orthogonal":
            assert float(state[2] / state[0]) == pytest.approx(0.9786, abs=1e-4)


# ------------------------------------------------ polynomial activations: layers 2 and 3, exact in n by the sphere

A_ = sp.Rational(1, 5)


def phi(z):
    return z - A_ * z**3


def gaussian_mean(f, z, variance):
    """⟨f⟩ of a polynomial in z ~ N(0, variance)."""
    return sum(c * sp.factorial2(p - 1) * variance ** (p // 2) for (p,), c in sp.Poly(f, z).terms() if p % 2 == 0)


def exact_third_layer_vertex(law):
    """Ṽ of layer 3, C_W = C_b + 1 = 1, |x|² = N_0 = n, exact in n: with R = |φ(z)|², z′ = √(R/n)·g or √R·u."""
    z, y, R = sp.symbols("z y R", positive=True)

    def moment(f):
        """E[f(z_1) g(z_2)] of f·g, polynomials in z and y, at given R of the layer before: a polynomial in R."""
        total = sp.S.Zero
        for (p, q), c in sp.Poly(f, z, y).terms():
            if p % 2 == 0 == q % 2:
                weight = sp.factorial2(p - 1) * sp.factorial2(q - 1)
                total += c * weight * (R / n) ** ((p + q) // 2)
                if law == "orthogonal":
                    total += (
                        c
                        * weight
                        * (R ** ((p + q) // 2))
                        * (
                            1 / prod((n + 2 * j for j in range((p + q) // 2)), start=sp.S.One)
                            - n ** sp.Integer(-(p + q) // 2)
                        )
                    )
        return total

    one, two = moment(phi(z) ** 2), moment(phi(z) ** 2 * phi(y) ** 2)
    four = moment(phi(z) ** 4)
    K3 = powers_of_R(law, z, one, R)
    E = powers_of_R(law, z, four / n + (1 - 1 / n) * two, R)
    if law == "orthogonal":  # C_W²(Σ_jk)/(n(n + 2)): E z_1² z_2² of √R u
        E = E * n / (n + 2)
    return sp.cancel(n * (E - K3**2)), sp.cancel(K3)


def powers_of_R(law, z, polynomial, R):
    """E of a polynomial in R = Σ_j φ(z_j)² of layer 1: z_j i.i.d. N(0, 1), or √n times a uniform unit vector."""
    found = sp.S.Zero
    for (p,), c in sp.Poly(sp.expand(polynomial), R).terms():
        found += c * moment_of_R(law, p)
    return found


CACHE: dict = {}


def moment_of_R(law, p):
    """E R^p = Σ over ways to give p factors to neurons: compositions into parts, falling factorials of n."""
    if (law, p) not in CACHE:
        z = sp.Symbol("z")
        total = sp.S.Zero
        for shape in sp.utilities.iterables.partitions(p):
            parts = [part for part, times in shape.items() for _ in range(times)]
            ways = (
                sp.factorial(p)
                / prod(sp.factorial(part) for part in parts)
                / prod(sp.factorial(t) for t in shape.values())
            )
            falling = prod((n - j for j in range(len(parts))), start=sp.S.One)
            factors = [{q: c for (q,), c in sp.Poly(phi(z) ** (2 * part), z).terms()} for part in parts]
            by_degree: dict[int, sp.Expr] = {0: sp.S.One}
            for f in factors:  # both laws need only the products of double factorials, and the total degree
                new: dict[int, sp.Expr] = {}
                for d, v in by_degree.items():
                    for q, c in f.items():
                        new[d + q] = new.get(d + q, 0) + v * c * sp.factorial2(q - 1)
                by_degree = new
            for d, v in by_degree.items():
                if law == "orthogonal":
                    v = v * n ** (d // 2) / prod((n + 2 * j for j in range(d // 2)), start=sp.S.One)
                total += ways * falling * v
        CACHE[law, p] = sp.together(total)
    return CACHE[law, p]


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_polynomial_layers_expand_to_the_maps(law):
    """E over three layers of a cubic network, exact in n, has the derived V and G1 as its coefficients of 1/n."""
    V3, K3 = exact_third_layer_vertex(law)
    start = {K: sp.S.One, V_: -2 if law == "orthogonal" else 0, correlator("G1", (0, 0)): sp.S.Zero}
    z = sp.Symbol("z", real=True)
    maps = {
        x: in_averages(correlator_map(x, weights=law), phi(z)).doit().subs({C_W: 1, C_b: 0}) for x in ("K", "V", "G1")
    }
    names = {"K": K, "V": V_, "G1": correlator("G1", (0, 0))}
    for _ in range(2):
        start = {names[x]: m.subs(start) for x, m in maps.items()}
    assert sp.limit(V3, n, sp.oo) == start[V_]
    assert sp.limit(K3, n, sp.oo) == start[K]
    assert sp.limit(n * (K3 - start[K]), n, sp.oo) == start[names["G1"]]
    other = {"gaussian": "orthogonal", "orthogonal": "gaussian"}[law]
    assert exact_third_layer_vertex(other)[0].subs(n, 10**9) != pytest.approx(float(start[V_]), rel=1e-6)


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
        r"\widehat H_{j k}",
        r"\begin{aligned}",
    ):
        assert piece in tex, piece
    assert tex.count("{") == tex.count("}") and str(Expected(sp.S.One)) == "1"


def test_a_derivation_ends_with_its_map():
    for latex in (False, True):
        text = correlators.derivation("F", weights="orthogonal", latex=latex)
        found = correlator_map("F", weights="orthogonal")
        assert text.endswith(f"F' = {sp.latex(found) if latex else found}")
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
            lambda: average_over_weights([Word(sp.S.One, ((I[0], right(1)),))] * 1, *[quantity("z", [I[0]])] * 9),
            "at most 8",
        ),
        (lambda: average_over_weights(*[quantity("z", [I[0]])] * 6, weights=Independent("mine", ((4, 1),))), "order 6"),
        (lambda: Independent("skew", ((3, 1),)), "whole number|odd"),
        (lambda: Independent("skew", ((5, 1),)), "odd"),
        (lambda: Independent("mine", ((4, None),)), "cumulant"),
        (lambda: Independent("mine", ((4, "-5/2"),)), "below -2"),
        (lambda: linear_moments(12, 2), "from 2 to 10"),
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


# ------------------------------------------------------------------------------------------------- finite networks


def iterated(phi, law, names, depth, bias):
    """[{name: value}] of layers 1 … depth at σ_w = 1, σ_b = bias, rates 1 and 1/2, |x|² = N_0 = n."""
    keys = {x: correlator(x, (0,) * (2 if x in correlators.MEANS else 4)) for x in NAMES}
    at = {C_W: 1, C_b: bias**2, lambda_w: 1, lambda_b: sp.Rational(1, 2)}
    maps = {x: in_averages(correlator_map(x, weights=law), phi).subs(at) for x in names}
    state = dict.fromkeys(keys.values(), sp.S.Zero) | {keys["K"]: 1 + bias**2, keys["Theta"]: sp.Rational(3, 2)}
    state[keys["V"]] = -2 if law == "orthogonal" else sp.S.Zero
    found = [state]
    for _ in range(depth - 1):
        found.append(found[-1] | {keys[x]: m.subs(found[-1]).evalf(15) for x, m in maps.items()})
    return [{x: float(layer[keys[x]]) for x in names} for layer in found]


def assert_networks(phi, law, measured, widths, networks, factor=1.0, of=None):
    """Estimates at several widths, extrapolated by x₀ + x₁/n + x₂/n², are the theory's values (times `factor`; those of
    the weights `of`): |z| ≤ 4 at layers 2 and 3, whose mean square is that of a standard normal's."""
    bias, seen = sp.Rational(3, 10), []
    names = NAMES if set(measured) & set("PQRSTU") else ("K", "Theta", "G1", "Theta1", "V", "A", "B", "D", "F")
    theory = iterated(phi, of or law, names, 3, bias)
    runs = [
        mf.measure(
            mf.derive(phi, weights=law),
            sigma_w=1,
            sigma_b=0.3,
            width=w,
            depth=3,
            networks=networks,
            seed=4,
            quantities=measured,
            rates=(1.0, 0.5),
        )
        for w in widths
    ]
    powers = np.vander(1 / np.array(widths), 3, increasing=True)
    for x in measured:
        for layer in (1, 2):
            mean, error = (
                np.array([np.ravel(getattr(r.estimate(x), part))[layer] for r in runs])
                for part in ("mean", "standard_error")
            )
            first = (np.linalg.pinv(powers / error[:, None]) / error)[0]
            seen.append((first @ mean - factor * theory[layer][x]) / np.sqrt(first**2 @ error**2))
    assert np.abs(seen).max() < 4, seen
    assert np.mean(np.square(seen)) < 2.5, seen


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_correlators_of_finite_networks(law):
    """V, A, B, D, F of tanh networks with biases, n = 12, 24, 48; 1.1 times the theory fails."""
    assert_networks("tanh", law, ("V", "A", "B", "D", "F"), (12, 24, 48), 2000)
    with pytest.raises(AssertionError):
        assert_networks("tanh", law, ("B", "F"), (12, 24, 48), 2000, factor=1.1)
    for alone in ("V", "B", "F"):
        with pytest.raises(AssertionError):
            other = "gaussian" if law == "orthogonal" else "orthogonal"
            assert_networks("tanh", law, (alone,), (12, 24, 48), 500, of=other)


@pytest.mark.slow
def test_higher_correlators_of_finite_networks():
    """P, Q, R, S, T, U of GELU networks with biases and orthogonal weights, n = 8, 12, 16."""
    assert_networks("gelu", "orthogonal", tuple("PQRSTU"), (8, 12, 16), 700)


def linear_layers(law, size, depth):
    setting = dict(weights=law, variance=1, bias=sp.Rational(9, 100), rates=(1, sp.Rational(1, 2)))
    layers = [first_linear_layer(size, size, **setting)]
    for _ in range(depth - 1):
        layers.append(layers[-1].next(**setting))
    return layers


@pytest.mark.slow
@pytest.mark.parametrize("law", WEIGHTS)
def test_integers_are_put_in_for_n(law):
    """All correlators at n = 3, 4, 10, three layers: sums done at this n are the rational functions there."""
    general = linear_layers(law, n, 3)
    for size in (3, 4, 10):
        for one, other in zip(general, linear_layers(law, size, 3)):
            assert {x: v.subs(n, size) for x, v in one.correlators().items()} == other.correlators()


@pytest.mark.slow
@pytest.mark.parametrize(("law", "size"), [("gaussian", 3), ("orthogonal", 3), ("orthogonal", 4), ("orthogonal", 10)])
def test_linear_networks_at_small_n(law, size):
    """All eleven correlators of explicit linear networks with biases, layers 1 to 3, no extrapolation: |z| ≤ 4."""
    layers = [layer.correlators() for layer in linear_layers(law, size, 3)]
    run = mf.measure(
        mf.derive("linear", weights=law),
        sigma_w=1,
        sigma_b=0.3,
        width=size,
        depth=3,
        networks=3000 if size < 10 else 1500,
        seed=11,
        quantities=tuple("VABDFPQRSTU"),
        rates=(1.0, 0.5),
    )
    seen, wrong = [], []
    for x in "VABDFPQRSTU":
        found = run.estimate(x)
        for layer in range(3):
            mean, error = np.ravel(found.mean)[layer], np.ravel(found.standard_error)[layer]
            expected = float(layers[layer][x])
            if error > 1e-12:
                seen.append((mean - expected) / error)
                wrong.append((mean - float(layers[layer][x] * sp.Rational(5, 4))) / error)
            else:
                assert mean == pytest.approx(expected, abs=1e-9)
    assert np.abs(seen).max() < 4, seen
    assert np.abs(wrong).max() > 5


# ------------------------------------------------------------------------------------------------------- recursions


@pytest.mark.parametrize(
    ("weights", "vertex"),
    [
        ("orthogonal", lambda l: 3 * l - 5),
        pytest.param("gaussian", lambda l: 5 * (l - 1), marks=pytest.mark.slow),
        ("mixed", lambda l: 3 * (l - 1)),
    ],
)
def test_relu_exactly(weights, vertex):
    """Ṽ = 3l − 5, 5(l − 1), 3(l − 1) at σ_w = √2 (4.19); K does not move."""
    layers = correlator_recursion("relu", weights=weights, quantities="V").doit()
    found = layers.iterate({"sigma_w": sp.sqrt(2), "sigma_b": 0, "Q0": 3}, 6)
    for l, layer in enumerate(found, 1):
        assert layer["V"] / layer["K"] ** 2 == pytest.approx(vertex(l), abs=1e-25)
    assert layers.names == ("K", "V")


@pytest.mark.slow
def test_what_a_recursion_carries():
    """Each variable depends on itself and those before; Θ is that of the theory; φ decides what exists."""
    found = correlator_recursion("erf", weights="uniform")
    assert {"V0", "D0_H", *NAMES} == set(found.names)
    for i, step in enumerate(found.step):
        assert not step.free_symbols & {v.symbol for v in found.state[i + 1 :]}
    theory = mf.derive("erf").recursion("K", "Theta")
    assert found.only("K", "Theta").equals(theory)
    assert correlator_recursion("step").names == ("K", "V", "G1")
    assert not set(correlator_recursion("relu").names) & set("PQRSTU")
    start = correlator_recursion("erf", weights="orthogonal", inputs=2, rates=(1, "1/2")).start
    Q0, w2, b2 = (sp.Symbol("Q0", positive=True), *(sp.Symbol(f"sigma_{x}", nonnegative=True) ** 2 for x in "wb"))
    assert start["V"] == -(Q0**2) * w2**2 and start["K"] == Q0 * w2 + b2 and start["Theta"] == Q0 + sp.Rational(1, 2)


# ---------------------------------------------------------------------------------------------------- several inputs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["V", "A", "D", "F", "P", "T"])
def test_repeated_inputs_are_harmless(name):
    """Maps of the inputs 1, 2, 3, 4, all taken equal afterwards, are those of one input: derivatives by K_ab and by
    means against ⟨z f⟩/K; a cubic φ that is not odd, orthogonal weights."""
    z = sp.Symbol("z", real=True)
    cubic = z + z**2 / 3 - z**3 / 7
    one = sp.expand(in_averages(correlator_map(name, weights="orthogonal"), cubic).doit())
    four = sp.expand(in_averages(correlator_map(name, (1, 2, 3, 4), weights="orthogonal"), cubic).doit())
    same = {
        s: correlator(s.name.partition("_")[0], (0,) * (len(s.name.partition("_")[2])))
        for s in four.free_symbols
        if "_" in s.name and s.name[-1].isdigit()
    }
    assert sp.expand(four.xreplace(same) - one) == 0
    assert len(four.free_symbols) > 10


@pytest.mark.slow
def test_two_inputs_of_a_map():
    """V_(11)(22) of ReLU, orthogonal: one input's source at c = 1, −2 ⟨σσ⟩² + 0 at c = 0, as closed forms say."""
    e = in_averages(correlator_map("V", (1, 1, 2, 2), weights="orthogonal"), "relu").doit()
    K11, K12, K22 = (correlator("K", x) for x in ((1, 1), (1, 2), (2, 2)))
    source = e.subs({s: 0 for s in e.free_symbols if s.name.startswith("V")}).subs({K11: 1, K22: 1, C_W: 2})
    assert sp.simplify(source.subs(K12, 0) - 4 * (sp.Rational(1, 4) - sp.Rational(1, 4) - 2 / (2 * sp.pi) ** 2)) == 0
    assert sp.limit(source, K12, 1, "-") == 3


def start_of_two(law, K1):
    """{symbol: value} at layer 1 of two inputs with covariance K1 of z¹, rates 1 and 1/2, no biases, N_0 = n."""
    state = {}
    for a, b in product((1, 2), repeat=2):
        state[correlator("K", (a, b))] = K1[a - 1][b - 1]
        state[correlator("Theta", (a, b))] = K1[a - 1][b - 1] + 0.5
        state[correlator("G1", (a, b))] = state[correlator("Theta1", (a, b))] = 0.0
    for name in "VABDFPQRSTU":
        for at in product((1, 2), repeat=4):
            a, b, c, d = (x - 1 for x in at)
            vertex = -(K1[a][c] * K1[b][d] + K1[a][d] * K1[b][c])
            state[correlator(name, at)] = vertex if name == "V" and law == "orthogonal" else 0.0
    return state


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian", "orthogonal"])
def test_two_inputs_of_finite_networks(law):
    """V, A, B, D, F of every pattern of two inputs at layer 2, sin networks, n = 12, 24, 48 extrapolated: |z| ≤ 4.5
    (of 5 × 16); V and B of the other weights fail."""
    K1 = [[1.0, 0.5], [0.5, 1.0]]
    widths, names = (12, 24, 48), ("V", "A", "B", "D", "F")
    runs = [
        mf.measure(
            mf.derive("sin", weights=law),
            sigma_w=1,
            sigma_b=0,
            width=w,
            depth=2,
            networks=1500,
            seed=9,
            correlation=0.5,
            quantities=names,
            rates=(1.0, 0.5),
        )
        for w in widths
    ]
    state = start_of_two(law, K1) | {C_W: 1, C_b: 0, lambda_w: 1, lambda_b: sp.Rational(1, 2)}
    powers, seen, wrong = np.vander(1 / np.array(widths), 3, increasing=True), [], []
    other = "gaussian" if law == "orthogonal" else "orthogonal"
    for x in names:
        for at in product((1, 2), repeat=4):
            indices = at if x in "VAD" else (at[0], at[2], at[1], at[3])  # B and F: those of one neuron first
            theory, planted = (
                float(in_averages(correlator_map(x, indices, weights=w), "sin").doit().subs(state))
                for w in (law, other)
            )
            place = (1, *(a - 1 for a in at))
            mean, error = (
                np.array([getattr(r.estimate(x), part)[place] for r in runs]) for part in ("mean", "standard_error")
            )
            first = (np.linalg.pinv(powers / error[:, None]) / error)[0]
            seen.append((first @ mean - theory) / np.sqrt(first**2 @ error**2))
            if x in "VB":
                wrong.append((first @ mean - planted) / np.sqrt(first**2 @ error**2))
    assert np.abs(seen).max() < 4.5, seen
    assert np.abs(wrong).max() > 6
