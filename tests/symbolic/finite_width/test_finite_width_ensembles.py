"""Correlators of order 1/n against ensembles of finite networks, layer by layer: estimates at several widths,
extrapolated by x₀ + x₁/n + x₂/n², have an error of at most 5 % of the largest |value| and |z| ≤ 4 everywhere.

The networks are those of `oracles.ensembles`; teeth: each term by which the ensembles differ, dropped alone, and the
start of V, fail.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, product

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.empirical.functions import reference_functions
from meanfield.empirical.observables.differentials import LayerTensors, correlator_samples
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.finite_width.correlator_maps import MEANS, correlator_map, in_averages
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.monomials import lambda_b, lambda_w
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b
from tests.empirical.observables.dense_differentials import differentials
from tests.oracles import ensembles as oracle
from tests.oracles.controls import PAIRS, first_layer, tables
from tests.oracles.ensembles import Law, differential_ensemble, ensemble
from tests.oracles.estimates import Estimate, extrapolated
from tests.oracles.probes import HIGHER, Networks

ORDER = ("K", "Theta", "V", "B", "D", "F", "A")
CASES = [("tanh", 0.0), ("sin", 0.0), ("tanh", 0.3), ("gelu", 0.3)]
SHORT = [pytest.param(*case, marks=pytest.mark.slow) for case in CASES]
SAMPLED = [case for case in SHORT if case.values[0] != "tanh"]  # with matrices: odd without biases, neither with them
DEPTH = {"orthogonal": 12, "gaussian": 6}
#: networks of every width: of z alone, which V needs, and with matrices
PATHS = {
    "orthogonal": {16: 4000, 32: 4000, 64: 4000, 128: 2000},
    "gaussian": {32: 40_000, 64: 60_000, 128: 60_000, 256: 6000},
}
DENSE = {
    "orthogonal": {16: 6000, 32: 5000, 64: 3600, 128: 600},
    "gaussian": {32: 4000, 64: 3000, 128: 2000, 256: 60},
}


@lru_cache(maxsize=32)
def maps(phi, law):
    """{name: the map of one input in averages}, rates 1 and 1/2."""
    at = {lambda_w: 1, lambda_b: sp.Rational(1, 2), C_W: 1}
    return {x: in_averages(correlator_map(x, weights=law), phi).xreplace(at) for x in ORDER}


def key(name):
    return correlator(name, (0,) * (2 if name in MEANS else 4))


def iterated(phi, law, bias, depth, law_of=None, start=None):
    """{name: values at layers 1 … depth}; law_of: the weights whose map one correlator takes instead; start: those of
    V at layer 1."""
    first = start or law
    state = {key(x): 0.0 for x in ORDER} | {key("K"): 1 + bias**2, key("Theta"): 1.5}
    state[key("V")] = -2.0 if first == "orthogonal" else 0.0
    layers = [state]
    chosen = {x: maps(phi, (law_of or {}).get(x, law))[x].xreplace({C_b: sp.Float(bias) ** 2}) for x in ORDER}
    for _ in range(depth - 1):
        K = {key("K"): sp.Float(layers[-1][key("K")], 20)}
        averages = {a: _number(a.xreplace(K)) for m in chosen.values() for a in m.atoms(Average)}
        layers.append({key(x): float(m.xreplace(averages).subs(layers[-1])) for x, m in chosen.items()})
    return {x: np.array([layer[key(x)] for layer in layers]) for x in ORDER}


@lru_cache(maxsize=4096)
def _number(average):
    return sp.Float(average.evalf(17), 17)


def assert_extrapolated(found, theory, share=0.05):
    """Within 4 standard errors at every layer, and these at most `share` of the largest |value|; returns z."""
    mean, error = (part.reshape(np.shape(theory)) for part in (found.mean, found.error))
    z = (mean - theory) / error
    assert np.abs(z).max() < 4, f"not the theory's values: z = {z}"
    assert (error <= share * np.abs(theory).max()).all(), f"errors too large: {error / np.abs(theory).max()}"
    return z


@pytest.mark.slow
def test_the_sampler_knows_the_networks():
    """Rows of the batches are those of `correlator_samples`; H is the tangent kernel."""
    for weights, bias in (("gaussian", 0.3), ("orthogonal", 0.0)):
        law = Law("tanh", weights, 1.1, bias, gram=((1.0, 0.4), (0.4, 0.8)))
        for z, H, *_ in law.layers(np.random.default_rng(1), 3, 5, 2):
            batch = oracle.rows(z, H)
            for i in range(3):
                one = correlator_samples(LayerTensors(z[i], H[i]))
                for name in ("S", "h", "V", "A", "B", "D", "F"):
                    other = {"V": "SS", "A": "hh", "D": "Sh"}.get(name, name)
                    np.testing.assert_allclose(batch[name][i], one[other], rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_controls_are_zero_on_average():
    for weights, bias in (("gaussian", 0.3), ("orthogonal", 0.0), ("orthogonal", 0.3)):
        one, two = (Law("tanh", weights, 1.1, bias, gram=g) for g in (((1.0,),), ((1.0, 0.4), (0.4, 0.8))))
        for law, networks, matrices in ((one, 4000, True), (one, 20_000, False), (two, 4000, True)):
            C = ensemble(law, 8, networks, 3, 3, matrices).known(2)
            z = C.mean(axis=0) / C.std(axis=0) * np.sqrt(len(C))
            assert np.abs(z).max() < 4.5 and C.shape[1] > 5


@pytest.mark.slow
def test_moments_of_a_layer_given_the_one_before():
    """Averages and covariances of means over neurons of z², σ², H, σ′²H: those of many W at one y and inner; of layer 1
    at two inputs likewise. Neurons of orthogonal layers taken for independent are seen."""
    draw, n, networks = np.random.default_rng(2), 6, 60_000
    y, a = draw.standard_normal(n), draw.standard_normal((n, n))
    inner, own = a @ a.T / n, 0.7
    sigma, slope = oracle.PHI["gelu"]
    for weights, bias in (("gaussian", 0.3), ("orthogonal", 0.0), ("orthogonal", 0.3)):
        law = Law("gelu", weights, 1.1, bias, gram=((1.0, 0.5), (0.5, 1.2)))
        W = law.matrices(draw, networks, n)
        b = bias * draw.standard_normal((networks, 1, n))
        z, H = W @ y + b[:, 0], own + np.einsum("Nij,jk,Nik->Ni", W, inner, W, optimize=True)
        square = np.array([y @ y])
        kernel = (np.array([own]), *oracle.along_and_across(y[None], square, inner[None]))
        at = (oracle.PHI["gelu"], weights, n, 1.1, bias)
        known = np.array([np.ravel(x)[0] for x in tables(*at).at(square, kernel)])
        means = np.stack([x.mean(axis=1) for x in (z**2, sigma(z) ** 2, H, slope(z) ** 2 * H)], axis=1)
        first, covariance = first_layer(*at, law.gram)
        z = law.inputs(draw, networks, n) @ W.transpose(0, 2, 1) + b
        p, q = np.triu_indices(2)
        two = np.concatenate([(x[:, p] * x[:, q]).mean(axis=2) for x in (z, sigma(z), slope(z))], axis=1) - first
        seen = means - known[:4]
        products = np.stack([seen[:, k] * seen[:, l] for k, l in PAIRS], axis=1) - known[4:-1]
        i, j = np.tril_indices(9)
        for zero in (seen, products, two, two[:, i] * two[:, j] - covariance[i, j]):
            error = np.hypot(zero.std(axis=0) / np.sqrt(networks), 1e-6)
            assert np.abs(zero.mean(axis=0) / error).max() < 4
        if weights == "orthogonal":
            wrong = first_layer(at[0], "gaussian", *at[2:], law.gram)[1]
            zero = two[:, i] * two[:, j] - wrong[i, j]
            assert np.abs(zero.mean(axis=0) / np.maximum(zero.std(axis=0), 1e-12)).max() * np.sqrt(networks) > 10


@pytest.mark.parametrize(("phi", "bias"), SHORT)
@pytest.mark.parametrize("law", ["orthogonal", "gaussian"])
def test_vertex_of_ensembles(phi, bias, law):
    """V at layers 1 … 12 (6): paths of z, as |y| times a unit or normal vector."""
    depth, sizes = DEPTH[law], PATHS[law]
    networks = Law(phi, law, 1.0, bias)
    found = extrapolated({n: ensemble(networks, n, N, depth, 11, False).estimate("V") for n, N in sizes.items()})
    theory = mf.derive(phi, weights=law).propagate(sigma_w=1, sigma_b=bias, depth=depth, quantities="V").V
    assert_extrapolated(found, theory)
    with pytest.raises(AssertionError, match="not the theory's values"):
        assert_extrapolated(found, 1.1 * theory)
    other = {"orthogonal": "gaussian", "gaussian": "orthogonal"}[law]
    for planted in ({"law_of": {"V": other}}, {"start": other}):
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_extrapolated(found, iterated(phi, law, bias, depth, **planted)["V"])


@pytest.mark.parametrize(("phi", "bias"), SAMPLED)
@pytest.mark.parametrize("law", ["orthogonal", "gaussian"])
def test_tangent_correlators_of_ensembles(phi, bias, law):
    """A, B, D, F at layers 1 … 12 (6)."""
    depth, names = DEPTH[law], ("A", "B", "D", "F")
    runs = {n: ensemble(Law(phi, law, 1.0, bias), n, N, depth, 12) for n, N in DENSE[law].items()}
    found = {x: extrapolated({n: run.estimate(x) for n, run in runs.items()}) for x in names}
    settings = dict(sigma_w=1, sigma_b=bias, depth=depth, lambda_w=1, lambda_b=0.5)
    theory = mf.derive(phi, weights=law).propagate(**settings, quantities=names)
    same = iterated(phi, law, bias, depth)
    z = []
    for x in names:
        np.testing.assert_allclose(same[x], getattr(theory, x), rtol=1e-9)
        z.append(assert_extrapolated(found[x], getattr(theory, x)))
    assert np.mean(np.square(np.concatenate(z))) < 2.5
    other = {"orthogonal": "gaussian", "gaussian": "orthogonal"}[law]
    for x in ("B", "F"):  # the terms by which the ensembles differ
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_extrapolated(found[x], iterated(phi, law, bias, depth, law_of={x: other})[x])


# ----------------------------------------------------------------------------------------- differentials: P, …, U

#: networks of five widths: layers 1 … 6, and 1 … 4, where tails are heavier
DIFFERENTIALS = {
    "orthogonal": {8: 16_000, 12: 12_000, 16: 10_000, 24: 8000, 32: 8000},
    "gaussian": {8: 40_000, 12: 30_000, 16: 60_000, 24: 30_000, 32: 45_000},
}


@pytest.mark.parametrize("phi", ["gelu", *(pytest.param(x, marks=pytest.mark.slow) for x in ("tanh", "sin"))])
def test_probes_are_the_tensors(phi):
    """Summed over all signs and all halves of four neurons, probes are the rows of the tensors themselves."""
    n, depth, inputs = 4, 3, 2
    draw = np.random.default_rng(3)
    signs = np.array(list(product((-1.0, 1.0), repeat=n)))[None]
    W = [draw.standard_normal((n, n)) / 2 for _ in range(depth)]
    b = [0.3 * draw.standard_normal(n) for _ in range(depth)]
    x = draw.standard_normal((inputs, n))
    tensors = differentials(W, b, x, reference_functions.derivatives(phi, 3), [1.2] * depth, [0.5] * depth, 3)
    for layer, tensor in enumerate(tensors, 1):
        one, found = correlator_samples(tensor), dict.fromkeys(HIGHER, 0.0)
        for half in combinations(range(n), 2):
            order = [*half, *(i for i in range(n) if i not in half)]
            weights, biases = [w[None] for w in W[:layer]], [c[None] for c in b[:layer]]
            weights[-1], biases[-1] = weights[-1][:, order], biases[-1][:, order]
            probed = Networks(phi, weights, biases, x[None], 1.2, 0.5).rows(layer, signs)
            found = {name: found[name] + probed[name][0] / 6 for name in HIGHER}
        for name in HIGHER:
            np.testing.assert_allclose(found[name], one[name], rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize(("phi", "bias"), SAMPLED)
@pytest.mark.parametrize("law", ["orthogonal", "gaussian"])
def test_differentials_of_ensembles(phi, bias, law):
    """P, Q, R, S, T, U of five widths, layers 1 … 6 (4); 1.2 times the theory fails."""
    depth = {"orthogonal": 6, "gaussian": 4}[law]
    seed = 100 * CASES.index((phi, bias)) + 14
    sizes = DIFFERENTIALS[law]
    runs = {n: differential_ensemble(Law(phi, law, 1.0, bias), n, N, depth, seed) for n, N in sizes.items()}
    settings = dict(sigma_w=1, sigma_b=bias, depth=depth, lambda_w=1, lambda_b=0.5)
    theory = mf.derive(phi, weights=law).propagate(**settings, quantities=tuple("PQRSTU"))
    z = []
    for row in HIGHER:
        values = getattr(theory, row[0])
        found = extrapolated({n: run.estimate(row) for n, run in runs.items()})
        z.append(assert_extrapolated(*_after_the_first(found, values)))
        with pytest.raises(AssertionError, match="not the theory's values"):
            assert_extrapolated(*_after_the_first(found, 1.2 * values), 1.0)
    assert np.mean(np.square(np.concatenate(z))) < 2.5


def _after_the_first(found, theory):
    """Layer 1 has no differentials: 0 in every network."""
    assert (found.mean[0] == 0).all() and theory[0] == 0
    return Estimate(found.mean[1:], found.error[1:]), theory[1:]
