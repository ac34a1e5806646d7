"""Linear networks, exact in n: brute force from the definitions, closed forms, and explicit networks of 3 neurons."""

from __future__ import annotations

from fractions import Fraction
from math import prod

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, Theta, n
from meanfield.symbolic.finite_width import linear_correlators
from meanfield.symbolic.finite_width.correlator_maps import INDEX_OF, NAMES, correlator_map, in_averages
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.linear_correlators import first_linear_layer, linear_moments
from meanfield.symbolic.finite_width.weight_averages import (
    C_b,
)
from tests.oracles.haar import expectation, sphere

WEIGHTS = ("gaussian", "orthogonal", "uniform")

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
        for name in linear_correlators.KINDS[kind]:
            size = linear_correlators._SIZE[name]
            factors *= tensor(name, *neurons[at : at + size])
            at += size
        poly = sp.Poly(sp.expand(factors), *gens)
        return expectation(poly, matrices, b, law, Fraction(3, 2), Fraction(1, 5))

    return mean


SETTING = dict(variance=sp.Rational(3, 2), bias=sp.Rational(1, 5), rates=(sp.Rational(7, 10), sp.Rational(3, 10)))
NEURONS = [(0, 0, 0, 0), (0, 0, 1, 1), (0, 1, 0, 1), (0, 1, 1, 0), (0, 0, 0, 1)]


def assert_linear_layer(layer, kind, law, mean):
    length = sum(linear_correlators._SIZE[name] for name in linear_correlators.KINDS[kind])
    for neurons in {x[:length] for x in NEURONS}:
        value = sum(c for s, c in layer.moments[kind].items() if all(neurons[b[0]] == neurons[p] for b in s for p in b))
        assert value == sp.Rational(str(mean(kind, neurons, law))), f"moment {kind} of {neurons} is {value}"


@pytest.mark.slow
@pytest.mark.parametrize("law", WEIGHTS)
def test_linear_networks_from_the_definitions(law, tiny):
    """n = 2, two layers, biases and rates: E zz, zzzz, H, zzH, HH, dH z, ddI, ddII, every index pattern, exactly."""
    first = first_linear_layer(2, 2, square=5, fourth=17, weights=law, **SETTING)
    second = first.next(weights=law, **SETTING)
    for kind in linear_correlators.KINDS:
        assert_linear_layer(second, kind, law, tiny)
    with pytest.raises(AssertionError, match="moment HH of"):
        assert_linear_layer(first, "HH", law, tiny)


@pytest.mark.parametrize("kind", ["dHz", *(pytest.param(x, marks=pytest.mark.slow) for x in ("zzzz", "ddII"))])
def test_linear_networks_from_the_definitions_in_short(kind, tiny):
    first = first_linear_layer(2, 2, square=5, fourth=17, weights="orthogonal", **SETTING)
    second = first.next(weights="orthogonal", **SETTING)
    assert_linear_layer(second, kind, "orthogonal", tiny)
    wrong = second.moments | {kind: {s: 2 * c for s, c in second.moments[kind].items()}}
    with pytest.raises(AssertionError, match=f"moment {kind} of"):
        assert_linear_layer(linear_correlators.LinearLayer(second.width, wrong), kind, "orthogonal", tiny)


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


def linear_limit(e):
    """A map with σ(z) = z: averages of one Gaussian variable."""
    return in_averages(e, "z").doit()


@pytest.mark.slow
@pytest.mark.parametrize("law", WEIGHTS)
def test_maps_of_linear_networks_are_the_limits_of_exact_layers(law):
    """All correlators from layer 1 to 2 to 3, symbolic C_W and rates: two codes, one closes, the other expands."""
    layer = first_linear_layer(n, weights=law, bias=0)
    names = [x for x in (*NAMES, "V0", "A0", "D0_H", "P0", "R0", "S0") if x not in ("G1", "Theta1")]
    zeros = {correlator(x, (0,) * 4): sp.S.Zero for x in names if x in INDEX_OF} | dict.fromkeys(
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
            if x in INDEX_OF or x in ("K", "Theta"):
                found = linear_limit(correlator_map(x, weights=law)).subs(C_b, 0).subs(at)
                assert sp.expand(found - sp.limit(new.get(x, sp.S.Zero), n, sp.oo)) == 0, x


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
