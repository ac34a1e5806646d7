"""The tangent kernel and its differentials of one network, against differences over every parameter at 60 digits."""

from dataclasses import replace
from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product

import mpmath as mp
import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions import reference_functions
from meanfield.empirical.observables.differentials import LayerTensors, correlator_samples
from tests.empirical.observables.dense_differentials import differentials

WIDTHS = (3, 2, 3, 2)  # n_0, …, n_3
INPUTS = np.array([[0.8, -1.1, 0.4], [-0.3, 0.5, 1.2], [1.5, 0.2, -0.7]])
RATE_W, RATE_B = (0.7, 1.3, 0.4), (0.9, 0.25, 1.7)
PHI = {"silu": lambda x: x / (1 + mp.exp(-x)), "sin": mp.sin}
STEP = mp.mpf("1e-12")


def _network(biases=True, widths=WIDTHS, seed=5):
    draw = np.random.default_rng(seed)
    shapes = list(zip(widths[1:], widths))
    W = [draw.normal(size=shape) / np.sqrt(shape[1]) for shape in shapes]
    return W, [draw.normal(size=n) / 2 if biases else None for n, _ in shapes]


def _found(name, biases=True, order=3, inputs=INPUTS[:1], change=None, rates=(RATE_W, RATE_B)):
    """The layers of the code under test; `change` turns σ, σ′, σ″, σ‴ into wrong ones."""
    exact = reference_functions.derivatives(name, 3)
    derivatives = exact if change is None else lambda z: change(*exact(z))
    return list(differentials(*_network(biases), inputs, derivatives, *rates, order))


class Differences:
    """Every derivative of z at all layers with respect to the parameters, as products of central differences."""

    def __init__(self, name, x, biases):
        W, b = _network(biases)
        self.phi, self.x, self.points = PHI[name], [mp.mpf(v) for v in x], {}
        self.rates, self.values, self.sizes = [], [], []
        for matrix, bias, lam_w, lam_b in zip(W, b, RATE_W, RATE_B):
            self.sizes.append(matrix.shape)
            bias = np.zeros(len(matrix)) if bias is None else bias
            self.values += [mp.mpf(v) for v in (*matrix.ravel(), *bias)]
            self.rates += [lam_w / matrix.shape[1]] * matrix.size + [lam_b] * len(matrix)
        self.number = len(self.values)

    def network(self, moved):
        """z of all layers in one list, with parameter a moved by `moved[a]` steps."""
        key = tuple(sorted((a, steps) for a, steps in moved.items() if steps))
        if key not in self.points:
            values = list(self.values)
            for a, steps in key:
                values[a] += steps * STEP
            take, y, z = iter(values), self.x, []
            for rows, columns in self.sizes:
                W = [[next(take) for _ in range(columns)] for _ in range(rows)]
                z.append([sum(w * v for w, v in zip(row, y)) for row in W])
                z[-1] = [v + next(take) for v in z[-1]]
                y = [self.phi(v) for v in z[-1]]
            self.points[key] = np.array([v for layer in z for v in layer])
        return self.points[key]

    def derivative(self, *which):
        total = 0
        for signs in product((1, -1), repeat=len(which)):
            moved = {}
            for a, sign in zip(which, signs):
                moved[a] = moved.get(a, 0) + sign
            total = total + int(np.prod(signs)) * self.network(moved)
        return (total / (2 * STEP) ** len(which)).astype(float)

    def all(self, order):
        """∂_a… z, with z last: one axis of parameters for each of `order`."""
        found = np.empty((self.number,) * order + (sum(rows for rows, _ in self.sizes),))
        for which in combinations_with_replacement(range(self.number), order):
            value = self.derivative(*which)
            for places in permutations(which):
                found[places] = value
        return found


class Jets:
    """The same by truncated Taylor series in all parameters at once: value, gradient, Hessian and third derivatives,
    by Leibniz and Faà di Bruno, with φ's own derivatives from mpmath."""

    def __init__(self, name, x, biases, seed=5, widths=WIDTHS):
        W, b = _network(biases, widths, seed)
        self.phi, self.x = PHI[name], x
        self.sizes = [matrix.shape for matrix in W]
        values, self.rates = [], []
        for matrix, bias, lam_w, lam_b in zip(W, b, RATE_W, RATE_B):
            values += [*matrix.ravel(), *(np.zeros(len(matrix)) if bias is None else bias)]
            self.rates += [lam_w / matrix.shape[1]] * matrix.size + [lam_b] * len(matrix)
        self.number, self.z, place = len(values), [], 0
        y = [self.constant(v) for v in x]
        for rows, columns in self.sizes:
            weights = np.arange(place, place + rows * columns).reshape(rows, columns)
            place += rows * columns
            new = []
            for i in range(rows):
                total = self.variable(values[place + i], place + i)
                for j in range(columns):
                    term = self.times(self.variable(values[weights[i, j]], weights[i, j]), y[j])
                    total = tuple(p + q for p, q in zip(total, term))
                new.append(total)
            place += rows
            self.z += new
            y = [self.through(one) for one in new]

    def constant(self, value):
        return value, *(np.zeros((self.number,) * k) for k in (1, 2, 3))

    def variable(self, value, which):
        found = self.constant(value)
        found[1][which] = 1.0
        return found

    def times(self, f, g):
        outer = np.multiply.outer
        pairs = [(outer(a[2], b[1])) for a, b in ((f, g), (g, f))]
        return (
            f[0] * g[0],
            f[0] * g[1] + g[0] * f[1],
            f[0] * g[2] + g[0] * f[2] + outer(f[1], g[1]) + outer(g[1], f[1]),
            f[0] * g[3] + g[0] * f[3] + sum(_cycled(t) for t in pairs),
        )

    def through(self, f):
        """φ(f)."""
        with mp.workdps(40):
            taylor = mp.taylor(self.phi, mp.mpf(f[0]), 3)
        p = [float(c * mp.factorial(k)) for k, c in enumerate(taylor)]
        two = np.multiply.outer(f[1], f[1])
        three = p[1] * f[3] + p[2] * _cycled(np.multiply.outer(f[2], f[1])) + p[3] * np.multiply.outer(two, f[1])
        return p[0], p[1] * f[1], p[1] * f[2] + p[2] * two, three

    def network(self, moved):
        return np.array([z[0] for z in self.z])

    def all(self, order):
        return np.stack([z[order] for z in self.z], axis=-1)


def _cycled(t):
    """T_abc + T_acb + T_bca of a T symmetric in its first two."""
    return t + t.transpose(0, 2, 1) + t.transpose(2, 1, 0)


def _defined(routes):
    """The tensors of every layer, with all patterns of inputs, by their definitions."""
    with mp.workdps(60):
        every = [np.stack([route.all(order) for route in routes]) for order in (1, 2, 3)]
        z = np.stack([np.asarray(route.network({}), dtype=float) for route in routes])
    lam, expected, start = np.array(routes[0].rates), [], 0
    for rows, _ in routes[0].sizes:
        at = slice(start, start := start + rows)
        d1, d2, d3 = (d[..., at] for d in every)
        l1 = lam[:, None] * d1
        expected.append(
            LayerTensors(
                z[:, at],
                np.einsum("a,xai,yaj->xyij", lam, d1, d1),
                np.einsum("xabi,yaj,zbk->xyzijk", d2, l1, l1, optimize=True),
                np.einsum("wabci,xaj,ybk,zcl->wxyzijkl", d3, l1, l1, l1, optimize=True),
                np.einsum("c,waci,xbcj,yak,zbl->wxyzijkl", lam, d2, d2, l1, l1, optimize=True),
            )
        )
    return expected


@lru_cache
def _expected(name, biases):
    """One input, by differences."""
    return _defined([Differences(name, INPUTS[0], biases)])


@lru_cache
def _mixed(name, biases):
    """Three inputs, by jets."""
    return _defined([Jets(name, x, biases) for x in INPUTS])


def _wrong(layers, expected, tolerance=1e-12):
    """(layer, name) of every tensor that is further from what is expected than the tolerance, relative to its
    largest entry."""
    found = set()
    for layer, (ours, theirs) in enumerate(zip(layers, expected, strict=True), start=1):
        for name, true in vars(theirs).items():
            value = getattr(ours, name)
            assert value.shape == true.shape
            if not np.abs(value - true).max() <= tolerance * np.abs(true).max() + 1e-22:  # differences: 0 is 1e-24
                found.add((layer, name))
    return found


def assert_same(layers, expected):
    wrong = _wrong(layers, expected)
    assert not wrong, f"differentials that are off: {wrong}"


@pytest.mark.slow
@pytest.mark.parametrize("name, biases", [("silu", True), ("sin", False)])
def test_definitions(name, biases):
    assert_same(_found(name, biases), _expected(name, biases))


@pytest.mark.parametrize("name, biases", [("silu", True), ("sin", False)])
def test_definitions_at_mixed_inputs(name, biases):
    """Every pattern of three inputs; errors planted in one pattern of one tensor, or in the inputs' order, are seen."""
    found, expected = _found(name, biases, inputs=INPUTS), _mixed(name, biases)
    assert_same(found, expected)
    last = found[-1]
    for tensor in ("dH", "ddI", "ddII"):
        value = getattr(last, tensor).copy()
        value[(0, 1, 2, 1)[: value.ndim // 2]] *= 1 + 1e-9
        assert _wrong([*found[:-1], replace(last, **{tensor: value})], expected) == {(3, tensor)}
        turned = getattr(last, tensor).swapaxes(0, 1)
        assert _wrong([*found[:-1], replace(last, **{tensor: turned})], expected) == {(3, tensor)}


@pytest.mark.slow
def test_mixed_inputs_by_differences():
    """Two inputs, n = 2, without any derivative taken but by differences at 60 digits."""
    routes = [Differences("silu", x, True) for x in INPUTS[:2]]
    assert_same(_found("silu", inputs=INPUTS[:2]), _defined(routes))


@pytest.mark.slow
def test_every_tensor_is_tested_on_something():
    """ddI and ddII differ, and nothing but dH, ddI and ddII of layer 1 is zero; patterns of inputs differ."""
    for layer, t in enumerate(_mixed("silu", True), start=1):
        assert np.abs(t.H[0, 1]).max() > 0.1
        assert all((np.abs(tensor).max() > 1e-3) == (layer > 1) for tensor in (t.dH, t.ddI, t.ddII))
        assert layer == 1 or np.abs(t.ddI - t.ddII).max() > 1e-3
        for tensor in (t.dH, t.ddI, t.ddII):
            blocks = tensor.reshape(3 ** (tensor.ndim // 2), -1)
            assert layer == 1 or np.abs(blocks[1:] - blocks[0]).max(axis=1).min() > 1e-3


@pytest.mark.fast_with("<lambda>-broken3")
@pytest.mark.parametrize(
    "change, broken",
    [
        (lambda s, d1, d2, d3: (s, d1, 1.01 * d2, d3), {"dH", "ddI", "ddII"}),
        (lambda s, d1, d2, d3: (s, d1, d2, 1.01 * d3), {"ddI"}),
        (lambda s, d1, d2, d3: (s, d1, d2, d3 * (1 + 1e-9)), {"ddI"}),
        (lambda s, d1, d2, d3: (s, (1 + 1e-9) * d1, d2, d3), {"H", "dH", "ddI", "ddII"}),
    ],
)
def test_planted_errors_in_derivatives_are_seen(change, broken):
    layers = _found("silu", change=change)
    with pytest.raises(AssertionError, match="differentials that are off"):
        assert_same(layers, _expected("silu", True))
    assert _wrong(layers, _expected("silu", True)) == set(product((2, 3), broken))


def test_planted_errors_in_rates_are_seen():
    swapped = _found("silu", rates=(RATE_B, RATE_W))
    assert {name for _, name in _wrong(swapped, _expected("silu", True))} == {"H", "dH", "ddI", "ddII"}
    assert (1, "H") in _wrong(swapped, _expected("silu", True))
    late = _found("silu", rates=((*RATE_W[:2], RATE_W[2] + 1e-9), RATE_B))
    assert _wrong(late, _expected("silu", True)) == {(3, name) for name in ("H", "dH", "ddI", "ddII")}


@pytest.mark.parametrize("name", ["ddI", "ddII"])
def test_a_planted_swap_of_indices_is_seen(name):
    """Those that are symmetries are not; those that are not, are."""
    layers, expected = _found("silu"), _expected("silu", True)
    symmetric = {"ddI": {(0, *p) for p in permutations((1, 2, 3))}, "ddII": {(0, 1, 2, 3), (1, 0, 3, 2)}}[name]
    for order in permutations(range(4)):
        turned = [replace(t, **{name: getattr(t, name).transpose(0, 1, 2, 3, *(4 + x for x in order))}) for t in layers]
        assert (_wrong(turned, expected) == set()) == (order in symmetric)


def test_symmetries():
    """An index and its input go together."""
    for t in _found("silu", inputs=INPUTS):
        np.testing.assert_array_equal(t.H[0, 1], t.H[1, 0].T)
        np.testing.assert_allclose(t.H[2, 2], t.H[2, 2].T, rtol=1e-13, atol=1e-15)
        np.testing.assert_allclose(t.dH, t.dH.transpose(0, 2, 1, 3, 5, 4), rtol=1e-12, atol=1e-14)
        for order in permutations((1, 2, 3)):
            turned = t.ddI.transpose(0, *order, 4, *(4 + x for x in order))
            np.testing.assert_allclose(t.ddI, turned, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(t.ddII, t.ddII.transpose(1, 0, 3, 2, 5, 4, 7, 6), rtol=1e-12, atol=1e-14)
        gram = t.ddII.transpose(0, 2, 4, 6, 1, 3, 5, 7).reshape(9 * t.ddII.shape[4] ** 2, -1)
        assert np.linalg.eigvalsh(gram).min() > -1e-12 * max(np.abs(gram).max(), 1e-300)


@pytest.mark.parametrize("inputs", [INPUTS, INPUTS[:1]])
def test_the_lower_orders_are_the_same_numbers(inputs):
    full = _found("silu", inputs=inputs)
    for order, names in ((1, ("z", "H")), (2, ("z", "H", "dH"))):
        for t, all_of_it in zip(_found("silu", order=order, inputs=inputs), full, strict=True):
            assert {name for name, value in vars(t).items() if value is not None} == set(names)
            for name in names:
                np.testing.assert_array_equal(getattr(t, name), getattr(all_of_it, name))


def test_fewer_inputs_are_the_same_numbers():
    """One input alone, and the one of two equal inputs, are the patterns of one; with two inputs, those of two."""
    full, pair, one = (_found("silu", inputs=x) for x in (INPUTS, INPUTS[:2], INPUTS[:1]))
    same = _found("silu", inputs=INPUTS[[0, 0]])
    for t, two, alone, twice in zip(full, pair, one, same, strict=True):
        for name in ("H", "dH", "ddI", "ddII"):
            many = getattr(t, name)
            count = many.ndim // 2
            np.testing.assert_allclose(getattr(two, name), many[(slice(2),) * count], rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(getattr(alone, name), many[(slice(1),) * count], rtol=1e-12, atol=1e-13)
            every = getattr(twice, name).reshape(2**count, -1)
            np.testing.assert_allclose(every, np.broadcast_to(every[0], every.shape), rtol=1e-12, atol=1e-14)


def test_a_second_run_gives_the_same_bits_and_leaves_what_it_gave():
    W, b = _network(widths=(4, 9, 9, 9, 9))
    arguments = W, b, np.ones((1, 4)), reference_functions.derivatives("tanh", 3), [1.0] * 4, [0.5] * 4, 3
    kept = list(differentials(*arguments))
    for t, again in zip(differentials(*arguments), kept, strict=True):
        for name, value in vars(t).items():
            np.testing.assert_array_equal(value, getattr(again, name))


@pytest.mark.slow
def test_an_overflow_is_carried_on_without_a_warning():
    W = [1e200 * np.ones((2, 2))] * 3
    *_, last = differentials(
        W, [None] * 3, np.ones((1, 2)), reference_functions.derivatives("monomial", 3), [1] * 3, [1] * 3, 3
    )
    assert not np.isfinite(last.ddI).all()


def _loops(t):
    """`correlator_samples` one neuron at a time."""
    inputs, n = t.z.shape
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    z, H = t.z, t.H
    found = {
        name: np.zeros((inputs,) * (2 if name in ("S", "h") else 4)) for name in ["S", "h", "SS", "hh", "B", "Sh", "F"]
    }
    for a, b in product(range(inputs), repeat=2):
        found["S"][a, b] = sum(z[a, i] * z[b, i] for i in range(n)) / n
        found["h"][a, b] = sum(H[a, b, i, i] for i in range(n)) / n
        for c, d in product(range(inputs), repeat=2):
            for i, j in pairs:
                for name, term in (
                    ("SS", z[a, i] * z[b, i] * z[c, j] * z[d, j]),
                    ("hh", H[a, b, i, i] * H[c, d, j, j]),
                    ("B", H[a, b, i, j] * H[c, d, i, j]),
                    ("Sh", z[a, i] * z[b, i] * H[c, d, j, j]),
                    ("F", z[a, i] * z[b, j] * H[c, d, i, j]),
                ):
                    found[name][a, b, c, d] += term / len(pairs)
    for name, term in (
        ("P", lambda a, b, c, d, i, j: t.dH[a, b, c, i, j, j] * z[d, i]),
        ("Q", lambda a, b, c, d, i, j: t.dH[a, b, c, i, i, j] * z[d, j]),
        ("R", lambda a, b, c, d, i, j: t.ddI[a, b, c, d, i, i, j, j]),
        ("S_dd", lambda a, b, c, d, i, j: t.ddII[a, b, c, d, i, i, j, j]),
        ("T", lambda a, b, c, d, i, j: t.ddII[a, b, c, d, i, j, i, j]),
        ("U", lambda a, b, c, d, i, j: t.ddII[a, b, c, d, i, j, j, i]),
    ):
        found[name] = np.zeros((inputs,) * 4)
        for at in product(range(inputs), repeat=4):
            found[name][at] = sum(term(*at, i, j) for i, j in pairs) / len(pairs)
    return found


def _random(inputs, n):
    draw = np.random.default_rng(3)
    shapes = [(inputs,) * k + (n,) * k for k in (1, 2, 3, 4, 4)]
    return LayerTensors(*(draw.normal(size=shape) for shape in shapes))


def test_correlator_samples_are_the_averages_they_say():
    """On tensors without any symmetry, so that no two of the averages agree by chance."""
    t = _random(2, 4)
    found, expected = correlator_samples(t), _loops(t)
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert found[name].shape == np.shape(value)
        np.testing.assert_allclose(found[name], value, rtol=1e-12, atol=1e-14)
    assert not np.allclose(expected["B"], expected["B"].transpose(0, 2, 1, 3))
    # control: another pairing of the neurons
    with pytest.raises(AssertionError, match=r"Not equal to tolerance rtol=0.001"):
        turned = replace(t, ddII=t.ddII.transpose(0, 1, 2, 3, 4, 5, 7, 6))
        np.testing.assert_allclose(correlator_samples(turned)["T"], expected["T"], rtol=1e-3)


def test_only_the_tensors_that_are_there_are_averaged():
    t = _random(3, 2)
    kernel = ["S", "h", "SS", "hh", "B", "Sh", "F"]
    assert list(correlator_samples(LayerTensors(t.z, t.H))) == kernel
    assert list(correlator_samples(LayerTensors(t.z, t.H, t.dH))) == [*kernel, "P", "Q"]


def test_one_neuron_has_no_pairs():
    with pytest.raises(MeanFieldError, match="need a layer of at least 2, but this one has 1"):
        correlator_samples(_random(1, 1))
