"""Attention, RMSNorm and a Scale of a Schedule in finite networks: values by plain loops, derivatives by complex steps
of these loops, invariances, and the covariance of what leaves by draws of Gaussian scores."""

import cmath
import math

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, draw_network, run_ensemble
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.network.operations.operation_walk import Passage, Site
from meanfield.empirical.network.program import attention, operations
from meanfield.empirical.network.tangents_and_cotangents import ParameterTangents, Tangents
from meanfield.empirical.observables.inputs import Inputs
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.training.passes import TrainedLayers, Trainee
from meanfield.networks.attention import Attention
from meanfield.networks.records import (
    Dense,
    LayerNorm,
    Nonlinearity,
    Param,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
)
from meanfield.tuning.network_gains.instance import Instance

T, N = 5, 8
SIGMAS = {"sigma_w": 1.7, "sigma_b": 0.4}
OPTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "rotary": {"rotary": True, "key_dim": 4},
    "groups": {"groups": 2},
    "qk_norm": {"qk_norm": True, "key_dim": 3},
    "inverse": {"scale": "1/d", "key_dim": 3, "query": Dense(sigma_w=3)},
    "dims": {"key_dim": 6, "value_dim": 3},
    "all": {
        "causal": True, "rotary": 100, "groups": 2, "qk_norm": True, "scale": "1/d", "key_dim": 4, "value_dim": 3,
        "query": Dense(sigma_w=2, sigma_b=1), "key": Dense(weights="orthogonal"),
    },
}  # fmt: skip
each_option = pytest.mark.parametrize("option", OPTIONS)
X = np.random.default_rng(1).standard_normal((2 * T, 6))


def record(option):
    return Attention(4, **OPTIONS[option])


def block(option):
    return Sequential((record(option), Dense()))


def drawn(option, depth=2, **more):
    return draw_network(block(option), **SIGMAS, width=N, depth=depth, input_dimension=6, tokens=T, **more)


def mixed_by_loops(q, k, v, of, tokens, turned=1.0, scaled=1.0, seen=None):
    """Attention number by number, of complex numbers, too; turned, scaled, seen: planted errors."""
    d, dv = q.shape[1] // of.heads, v.shape[1] // of.key_heads
    factor = scaled / (d if of.scale == "1/d" else math.sqrt(d))

    def prepared(y, head, t):
        one = [y[t, head * d + i] for i in range(d)]
        if of.qk_norm:
            size = cmath.sqrt(sum(a * a for a in one) / d)
            one = [a / size for a in one]
        if of.rotary:
            for i in range(d // 2):
                angle = turned * (t % tokens) * float(of.rotary) ** (-2 * i / d)
                a, b = one[2 * i], one[2 * i + 1]
                one[2 * i] = a * math.cos(angle) - b * math.sin(angle)
                one[2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
        return one

    out = np.zeros((len(q), of.heads * dv), dtype=complex)
    for head in range(of.heads):
        group = head // (of.heads // of.key_heads)
        for t in range(len(q)):
            first = t - t % tokens
            others = range(first, t + 1 if (of.causal if seen is None else seen) else first + tokens)
            own = prepared(q, head, t)
            scores = [factor * sum(a * b for a, b in zip(own, prepared(k, group, s))) for s in others]
            weights = [cmath.exp(one) for one in scores]
            for s, weight in zip(others, weights):
                for i in range(dv):
                    out[t, head * dv + i] += weight / sum(weights) * v[s, group * dv + i]
    return out


def by_loops(network, x, of, moved=None, **planted):
    """z² of a stored network of depth 2, `block` after its input layer; moved: parameters in place of its own."""
    values = dict(network.parameters) | (moved or {})
    w = [name for name in values if name.name == "W"]
    b = [name for name in values if name.name == "b"]

    def dense(y, place, of=None):
        sigma_w, sigma_b = SIGMAS.values()
        if of is not None and of.sigma_w != Param("sigma_w"):
            sigma_w = float(of.sigma_w)
        if of is not None and of.sigma_b != Param("sigma_b"):
            sigma_b = float(of.sigma_b)
        return sigma_w / math.sqrt(y.shape[1]) * (y @ values[w[place]].T) + sigma_b * values[b[place]]

    z = dense(np.asarray(x), 0)
    q, k, v = (dense(z, place, one) for place, one in ((1, of.query), (2, of.key), (3, of.value)))
    return dense(mixed_by_loops(q, k, v, of, T, **planted), 4)


def assert_close(found, wanted, rtol=1e-11):
    scale = np.abs(wanted).max()
    assert np.abs(found - wanted).max() <= rtol * scale, f"off by {np.abs(found - wanted).max() / scale:.2e}"


def assert_refuted(found, wanted, rtol=1e-4):
    with pytest.raises(AssertionError, match="off by"):
        assert_close(found, wanted, rtol)


@each_option
def test_values_are_those_of_plain_loops(option):
    network, of = drawn(option), record(option)
    z = network.forward(X)
    assert_close(z, by_loops(network, X, of).real)
    assert_refuted(z, by_loops(network, X, of, scaled=1.1).real)
    assert_refuted(z, by_loops(network, X, of, seen=not of.causal).real)
    if of.rotary:
        assert_refuted(z, by_loops(network, X, of, turned=-2.0).real)


@each_option
def test_pushes_are_complex_steps_and_pulls_their_transposes(option):
    network, of, rng = drawn(option), record(option), np.random.default_rng(2)
    t, u = rng.standard_normal((2, *X.shape)), rng.standard_normal((2, 2 * T, N))
    _, pushed = network.network.jvp(X, t)
    _, pulled = network.network.vjp(X, u)
    slope = by_loops(network, X + 1e-30j * t[1], of).imag / 1e-30
    assert_close(pushed[1], slope)
    assert_refuted(pushed[1], by_loops(network, X + 1e-30j * t[1], of, scaled=1.05).imag / 1e-30, 1e-3)
    assert_close((u * pushed).sum(axis=(1, 2)), (pulled * t).sum(axis=(1, 2)), 1e-12)
    assert_refuted((u * pushed).sum(axis=(1, 2)), (pulled * t[::-1]).sum(axis=(1, 2)))


@each_option
def test_gradients_by_every_weight(option):
    """Of stored networks, and of those that are trained, whose parameters are σ n^{−1/2} W and σ b."""
    network, of, rng = drawn(option), record(option), np.random.default_rng(3)
    u = rng.standard_normal((2 * T, N))
    found = network.gradients(X, u)
    trained = Trainee(TrainedLayers(network.ensemble, network.ensemble.operations, N), 0, 0)
    assert_close(trained.outputs(X, True), by_loops(network, X, of).real.reshape(2, T, N).mean(axis=1))
    passes = trained.gradients(u[:2])
    averaged = np.repeat(u[:2], T, axis=0) / T
    for name, one in network.parameters.items():
        along = rng.standard_normal(one.shape)
        z = by_loops(network, X, of, {name: one + 1e-30j * along}).imag / 1e-30
        if name.name == "b" and list(network.parameters).index(name) == 5 and not of.rotary and not of.qk_norm:
            assert np.abs(found[name]).max() < 1e-13, "biases of keys change nothing"
            assert np.abs(passes[name]).max() < 1e-13
            continue
        assert_close((found[name] * along).sum(), (u * z).sum(), 1e-9)
        assert_close((passes[name] * along * _scale(network, name)).sum(), (averaged * z).sum(), 1e-9)
        assert_refuted((found[name] * along).sum() * 1.01, (u * z).sum(), 1e-3)


def _scale(network, name):
    """dw/dW of a parameter that is trained."""
    sites = [network.ensemble.input_layer] if name.layer == 1 else network.ensemble.operations
    dense, weights = sites[name.place], network.network.weights
    sigma_w, sigma_b = weights.deviations(dense, name.layer)
    return sigma_b if name.name == "b" else sigma_w / math.sqrt(network.parameters[name].shape[1])


@each_option
def test_second_derivatives(option):
    """Jets: ε₁ and ε₁ε₂ of (q, k, v) along tangents, against pushes and their differences; and `bent`, against
    differences of pulls."""
    heads_of, keys, attend = attention(record(option))
    rng = np.random.default_rng(4)
    sizes = heads_of.outputs(2, N), keys.outputs(2, N), attend.values.outputs(2, N)
    signals = [rng.standard_normal((2 * T, n)) for n in sizes]
    first, second = ([rng.standard_normal(one.shape) for one in signals] for _ in range(2))
    passage = Passage(2, (T, N), inputs=2, differentiate=True)
    site = Site(attend, 7, passage)

    def at(h):
        z, derivatives = attend.joined([one + h * d for one, d in zip(signals, second)], site)
        pushed = np.zeros((1, *z.shape))
        for derivative, t in zip(derivatives, first):
            more = np.empty_like(pushed)
            derivative.push(t[None], more)
            pushed += more
        pulled = [np.empty((1, *one.shape)) for one in signals]
        for derivative, out in zip(derivatives, pulled):
            derivative.pull(cotangent[None], out)
        return z, pushed[0], [one[0] for one in pulled], derivatives

    cotangent = rng.standard_normal((2 * T, attend.joined_shape([(T, n) for n in sizes], 2, (T, N))[1]))
    z, pushed, _, derivatives = at(0.0)
    jets = [Jet([y, a, b, None]) for y, a, b in zip(signals, first, second)]
    found = attend.joined_formula(jets, site).c
    (_, push_up, pull_up, _), (_, push_down, pull_down, _) = at(1e-5), at(-1e-5)
    assert_close(found[0], z, 1e-12)
    assert_close(found[1], pushed, 1e-12)
    assert_close(found[3], (push_up - push_down) / 2e-5, 1e-6)
    assert_refuted(found[3], (push_up - push_down) / 2.1e-5)
    bent = attend.bent(derivatives, [one[None] for one in second], cotangent[None])
    for one, up, down in zip(bent, pull_up, pull_down):
        assert_close(one, (up - down) / 2e-5, 1e-6)
        assert_refuted(one, (up - down) / 2.1e-5)


def test_parts_of_a_long_signal_are_the_whole(monkeypatch):
    """Vectors and inputs are taken in parts, which no number depends on."""
    network, rng = drawn("all"), np.random.default_rng(5)
    t, u = rng.standard_normal((3, *X.shape)), rng.standard_normal((3, 2 * T, N))
    z, pushed, pulled = (network.forward(X), network.network.jvp(X, t)[1], network.network.vjp(X, u)[1])
    for size in (1, 2 * 4 * T * T):
        monkeypatch.setattr("meanfield.empirical.network.operations.softmax._CHUNK", size)
        assert_close(network.forward(X), z, 1e-14)
        assert_close(network.network.jvp(X, t)[1], pushed, 1e-13)
        assert_close(network.network.vjp(X, u)[1], pulled, 1e-13)
    assert_refuted(network.forward(X[::-1].copy()), z)


def test_tokens_permuted_and_biases_of_keys():
    x, order = X[:T], np.random.default_rng(6).permutation(T)
    for option in ("plain", "groups", "qk_norm", "dims"):
        network = drawn(option)
        assert_close(network.forward(x[order]), network.forward(x)[order])
    for option in ("causal", "rotary"):
        network = drawn(option)
        assert_refuted(network.forward(x[order]), network.forward(x)[order])
    both = [_with_bias("key", size) for size in (0, 3)], [_with_bias("query", size) for size in (0, 3)]
    assert_close(both[0][0], both[0][1], 1e-12)
    assert_refuted(both[1][0], both[1][1])
    first, second = (drawn("causal").forward(np.concatenate([x[:-1], x[-1:] * k])) for k in (1, 9))
    assert_close(first[:-1], second[:-1], 1e-13)
    assert_refuted(first[-1], second[-1])


@pytest.mark.slow
def test_lazy_networks():
    """Products that are revealed: cotangents are still the transposes of tangents, and K is that of explicit ones."""
    network, trace = Ensemble(BLOCK, 1.2, 0.1, N, 3, 6, tokens=T, sampler="lazy").network(2, 1), []
    t = np.random.default_rng(10).standard_normal((2, *X.shape))
    carried = Tangents(t.copy(), network.buffers)
    for _ in network.run(X, [carried], trace, 2):
        pushed = carried.rows.copy()
    u = np.random.default_rng(11).standard_normal(pushed.shape)
    *_, (_, _, pulled) = network.pull(trace, u)
    assert_close((u * pushed).sum(axis=(1, 2)), (pulled * t).sum(axis=(1, 2)), 1e-11)
    settings = SMALL | {"width": 16, "networks": 300, "tokens": 3, "jacobian": False}
    explicit = run_ensemble(BLOCK, **settings, seed=5).K
    for seed, sigma, agrees in ((6, 1.2, True), (7, 1.35, False)):
        lazy = run_ensemble(BLOCK, **settings | {"sigma_w": sigma}, sampler="lazy", seed=seed).K
        error = math.hypot(lazy.standard_error[-1], explicit.standard_error[-1])
        assert (abs(lazy.mean[-1] - explicit.mean[-1]) < 4 * error) == agrees


def _with_bias(name, size):
    held = Attention(4, **{name: Dense(sigma_b=size)})
    whole = Sequential((held, Dense()))
    return draw_network(whole, **SIGMAS, width=N, depth=3, input_dimension=6, tokens=T).forward(X)


def _behind_values(network, of):
    """z² where of(v) is what attention makes of its values, from W and b of a stored network."""
    w, b = ([one for name, one in network.parameters.items() if name.name == kind] for kind in "Wb")
    z = 1.7 / math.sqrt(6) * X @ w[0].T + 0.4 * b[0]
    mixed = of(1.7 / math.sqrt(N) * z @ w[3].T + 0.4 * b[3])
    return 1.7 / math.sqrt(mixed.shape[1]) * mixed @ w[4].T + 0.4 * b[4]


def test_equal_scores_are_a_mean():
    silent = Sequential((Attention(4, query=Dense(sigma_w=0, sigma_b=0), value_dim=3), Dense()))
    network = draw_network(silent, **SIGMAS, width=N, depth=2, input_dimension=6, tokens=T)
    wanted = _behind_values(network, lambda v: np.repeat(v.reshape(2, T, -1).mean(axis=1), T, axis=0))
    assert_close(network.forward(X), wanted)
    whole = _behind_values(network, lambda v: np.tile(v.mean(axis=0), (2 * T, 1)))
    assert_refuted(network.forward(X), whole)


def test_one_token_is_two_dense():
    """It has all the weight; the two heads of queries of a group look at the same value."""
    network = draw_network(block("all"), **SIGMAS, width=N, depth=2, input_dimension=6, tokens=1)
    twice = _behind_values(network, lambda v: np.repeat(v.reshape(2 * T, 2, 1, -1), 2, axis=2).reshape(2 * T, -1))
    assert_close(network.forward(X), twice)
    tiled = _behind_values(network, lambda v: np.tile(v, (1, 2)))
    assert_refuted(network.forward(X), tiled)


def test_scores_that_overflow_exp_and_those_that_overflow():
    """Scores of 1e8 are a choice of one token; scores beyond all doubles are an overflow, which has a layer."""
    sharp = Sequential((Attention(4, query=Dense(sigma_w=1e8)), Dense()))
    network = draw_network(sharp, **SIGMAS, width=N, depth=2, input_dimension=6, tokens=T)
    z = network.forward(X)
    assert np.isfinite(z).all()
    again = Sequential((Attention(4, query=Dense(sigma_w=1e9)), Dense()))
    assert_close(z, draw_network(again, **SIGMAS, width=N, depth=2, input_dimension=6, tokens=T).forward(X), 1e-6)
    settings = {"width": N, "tokens": T, "networks": 2, "sigma_b": 0.0, "depth": 3}
    lost = run_ensemble(Sequential((Attention(4), Dense())), sigma_w=1e120, **settings)
    assert lost.diverged == 2 and lost.finite_depth == 1
    assert run_ensemble(Sequential((Attention(4), Dense())), sigma_w=1, **settings).diverged == 0


BLOCK = Sequential(
    (
        Residual(Sequential((LayerNorm(), Attention(4, causal=True, key=Dense(sigma_w=2)), Dense()))),
        Residual(Sequential((RMSNorm(), Dense(expand=4), Nonlinearity("gelu"), Dense()))),
    )
)
MEASURED = ("K", "K_ab", "c", "J", "J_ab", "Theta", "Theta_ab", "G_w", "chi")
SMALL = {"sigma_w": 1.2, "sigma_b": 0.1, "width": N, "depth": 3, "input_dimension": 6}


def test_the_same_bits_for_one_and_two_threads():
    settings = SMALL | {"networks": 6, "tokens": 3, "batch": 2, "probes": 2, "quantities": MEASURED}
    runs = [run_ensemble(BLOCK, **settings, threads=threads, seed=seed) for threads, seed in ((1, 0), (2, 0), (1, 1))]
    one, two, other = (run.samples for run in runs)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])
    assert np.abs(one["K"] - other["K"]).max() > 1e-3, "control: another seed"


def test_measured_jacobians_and_gradients_of_one_network():
    """J, J_ab, chi by every unit vector, and G_w by random signs, against the stored network's own."""
    settings = SMALL | {"networks": 2, "tokens": 3, "quantities": ("J", "J_ab", "chi")}
    samples = run_ensemble(BLOCK, **settings, seed=4).samples
    network = draw_network(BLOCK, **SMALL, tokens=3, seed=4, index=1)
    x = _tokens_of(1, 3, 4)
    z = network.layers(x)
    assert_close(_layer(network.parameters, 3, z[1]), z[2])
    jacobian = _jacobian(network, x)
    square = np.einsum("aibj,cibj->ac", jacobian, jacobian) / N
    assert_close(math.exp(samples["log_J"][1, -1]), np.trace(square) / 3, 1e-6)
    assert_close(samples["J_ab"][1, -1], (square.sum() - np.trace(square)) / 6, 1e-6)
    assert_refuted(samples["J_ab"][1, -1], square.sum() / 6)
    assert samples["J_ab"][1, 0] == 0.0
    assert samples["chi"].shape == (2, 2)
    last = run_ensemble(BLOCK, **settings | {"quantities": ("J", "chi")}, seed=4, read="last")
    assert_close(math.exp(last.samples["log_J"][1, -1]), square[2, 2], 1e-6)
    assert_refuted(math.exp(last.samples["log_J"][1, -1]), square[0, 0])
    assert_close(last.samples["K"][1, -1], (z[2][2] ** 2).mean())
    assert "K_ab" not in last.samples and "the last token of every input is read" in repr(last)
    two = run_ensemble(BLOCK, **settings | {"quantities": ("K_ab",), "batch": 2}, seed=4, read="last")
    z = network.layers(Inputs(batch=2).draw(network.ensemble, 4, 1))[2]
    assert_close(two.samples["K_ab"][1, -1], (z[2] * z[5]).mean())
    assert_refuted(two.samples["K_ab"][1, -1], (z[2] * z[4]).mean())


def _tokens_of(index, tokens, seed):
    return Inputs().draw(Ensemble(BLOCK, 1.2, 0.1, N, 3, 6, tokens=tokens), seed, index)


def _jacobian(network, x):
    """∂z³/∂z¹ by central differences of layers 2 and 3: [position, neuron, position, neuron]."""
    z, h = network.layers(x)[0], 1e-6
    found = np.empty((*z.shape, *z.shape))

    def last(z):
        values = {**network.parameters}
        for layer in (2, 3):
            z = _layer(values, layer, z)
        return z

    for b in range(z.shape[0]):
        for j in range(z.shape[1]):
            unit = np.zeros(z.shape)
            unit[b, j] = h
            found[:, :, b, j] = (last(z + unit) - last(z - unit)) / (2 * h)
    return found


def _layer(values, layer, z):
    """BLOCK by hand at initialization, with W and b of a stored network."""
    w = [one for name, one in values.items() if name.layer == layer and name.name == "W"]
    b = [one for name, one in values.items() if name.layer == layer and name.name == "b"]

    def dense(y, place, sigma_w=1.2):
        return sigma_w / math.sqrt(y.shape[1]) * y @ w[place].T + 0.1 * b[place]

    y = (z - z.mean(axis=1, keepdims=True)) / z.std(axis=1, keepdims=True)
    of = Attention(4, causal=True)
    mixed = mixed_by_loops(dense(y, 0), dense(y, 1, 2.0), dense(y, 2), of, 3).real
    z = z + dense(mixed, 3)
    y = dense(z / np.sqrt((z * z).mean(axis=1, keepdims=True)), 4)
    phi = 0.5 * y * (1 + np.vectorize(math.erf)(y / math.sqrt(2)))
    return z + dense(phi, 5)


@pytest.mark.slow
def test_random_tangents_have_the_tangent_kernel():
    """Theta and Theta_ab of one network, 4000 random tangents, against its gradients."""
    network = draw_network(BLOCK, **SMALL, tokens=3, seed=4, index=1)
    x = _tokens_of(1, 3, 4)
    theta = np.einsum("aibi->ab", network.tangent_kernel(x)) / N
    count, buffers = 4000, Buffers()
    carried = ParameterTangents(count, 3, 6, 4, 1, buffers)
    for _ in network.network.run(x, [carried]):
        rows = carried.rows.copy()
    for a, b in ((0, 0), (2, 2), (0, 2), (1, 2)):
        products = (rows[:, a] * rows[:, b]).mean(axis=1)
        assert_z(products, theta[a, b])
        with pytest.raises(AssertionError, match="standard errors"):
            assert_z(products, 1.15 * theta[a, b])
    settings = {"networks": 2, "tokens": 3, "seed": 4, "probes": 1000, "quantities": ("Theta", "Theta_ab", "G_w")}
    measured = run_ensemble(BLOCK, **SMALL, **settings).samples
    last = run_ensemble(BLOCK, **SMALL, **settings | {"quantities": ("Theta", "G_w")}, read="last").samples
    assert last["Theta"][1, -1] == pytest.approx(theta[2, 2], rel=0.1)
    assert last["Theta"][1, -1] != pytest.approx(np.trace(theta) / 3, rel=0.1), "control: all tokens"
    assert measured["Theta"][1, -1] == pytest.approx(np.trace(theta) / 3, rel=0.1)
    assert measured["Theta_ab"][1, -1] == pytest.approx((theta.sum() - np.trace(theta)) / 6, rel=0.15)
    gradients = [network.gradients(x, unit.reshape(3, N)) for unit in np.eye(3 * N)]
    for layer in (2, 3):
        names = [name for name in network.parameters if name.layer == layer and name.name == "W"]
        for name, found in zip(names, measured["G_w"][1, layer - 1], strict=True):
            square = sum((one[name] ** 2).sum() for one in gradients) / (3 * N * _scale(network, name) ** 2)
            assert found == pytest.approx(square, rel=0.1)
            assert found != pytest.approx(1.3 * square, rel=0.1), "control"
        for name, found in zip(names, last["G_w"][1, layer - 1], strict=True):
            square = sum((one[name] ** 2).sum() for one in gradients[2 * N :]) / (N * _scale(network, name) ** 2)
            assert found == pytest.approx(square, rel=0.15)


def assert_z(samples, wanted, most=4.0):
    z = (samples.mean() - wanted) / (samples.std(ddof=1) / math.sqrt(len(samples)))
    assert abs(z) < most, f"{z:.1f} standard errors"


def mean_of_mixed(gram, heads, d, draws, rng, sigma=1.0):
    """E[A G Aᵀ], A = softmax of σ (L Z₁)(L Z₂)ᵀ/√d, G = L Lᵀ: exact for heads of d neurons, whatever the width."""
    L, total = np.linalg.cholesky(gram), np.zeros_like(gram)
    for _ in range(draws):
        z = rng.standard_normal((2, heads, len(gram), d))
        scores = sigma * (L @ z[0]) @ (L @ z[1]).swapaxes(1, 2) / math.sqrt(d)
        weights = np.exp(scores - scores.max(axis=2, keepdims=True))
        weights /= weights.sum(axis=2, keepdims=True)
        total += (weights @ gram @ weights.swapaxes(1, 2)).mean(axis=0) / draws
    return total


@pytest.mark.slow
def test_covariance_of_what_leaves():
    """K and K_ab of eight independent tokens behind one Attention of 16 heads of 4 neurons, σ_q σ_k = 3: the mean over
    what is drawn, given the covariances before it, is E[A G Aᵀ] at any width."""
    held = Attention(16, query=Dense(sigma_w=3, sigma_b=0), key=Dense(sigma_w=1, sigma_b=0))
    whole = Sequential((held, Dense()))
    tokens, width, found, off = 8, 64, [], []
    rng = np.random.default_rng(7)
    for index in range(60):
        network = draw_network(whole, sigma_w=1.3, sigma_b=0, width=width, depth=2, tokens=tokens, index=index)
        z = network.layers(rng.standard_normal((tokens, width)))
        before, after = (one @ one.T / width for one in z)
        for kept, sigma in ((found, 3.0), (off, 1.0)):
            mixed = 1.3**4 * mean_of_mixed(before, 16, 4, 20, rng, sigma)
            gap = after - mixed
            kept.append((np.trace(gap) / tokens, (gap.sum() - np.trace(gap)) / (tokens * (tokens - 1))))
    for column in np.array(found).T:
        assert_z(column, 0.0)
    with pytest.raises(AssertionError, match="standard errors"):
        assert_z(np.array(off)[:, 0], 0.0)


def overlap(tokens, beta, r, rng, draws=40_000):
    """Φ(r) = E Σ_s A_s A′_s of two softmax rows of normals times β of correlation r, and dΦ/dr by Price's theorem."""
    x, y = rng.standard_normal((2, draws, tokens))
    rows = [np.exp(beta * one) for one in (x, r * x + math.sqrt(1 - r * r) * y)]
    a, b = (one / one.sum(axis=1, keepdims=True) for one in rows)
    both = (a * b).sum(axis=1)
    bent = both - (a * a * b).sum(axis=1) - (a * b * b).sum(axis=1) + both * both
    return both.mean(), beta**2 * bent.mean()


@pytest.mark.slow
def test_jacobians_of_exchangeable_tokens():
    """K, K_ab, J and J_ab behind two blocks z + Dense(Attention(LN(z))), σ_q σ_k = 1.5, by the linear response of q′ =
    q + ρ + (1 − ρ)Φ(1), c′ = c + ρ + (1 − ρ)Φ(ρ), as the width and key_dim grow."""
    inner = Attention(8, key_dim=64, query=Dense(sigma_w="3/2"))
    whole = Residual(Sequential((LayerNorm(affine=False), inner, Dense())))
    tokens, found = 8, {}
    measured = run_ensemble(
        whole, sigma_w=1, sigma_b=0, width=256, depth=3, networks=48, tokens=tokens, probes=2,
        quantities=("K", "K_ab", "J", "J_ab"), seed=3,
    )  # fmt: skip
    for path in (1, 0):  # 0: as if J did not pass queries and keys
        rng, q, c, j, a = np.random.default_rng(12), 1.0, 0.0, 1.0, 0.0
        for _ in range(2):
            rho, x, y = c / q, j / q, a / q
            (one, bent), (phi, slope) = (overlap(tokens, 1.5 * math.sqrt(1 - rho), r, rng) for r in (1.0, rho))
            j += y + (x - y) * one + path * (x * (1 - rho) + x - y) * bent
            a += y + (x - y) * phi + path * (y * (1 - rho) + rho * (x - y)) * slope
            q, c = q + rho + (1 - rho) * one, c + rho + (1 - rho) * phi
        found[path] = {"K": q, "K_ab": c, "J": j, "J_ab": a}
    for name, wanted in found[1].items():
        one = measured.estimate(name, 3)
        assert abs(one.z(wanted)) < 4, (name, one.mean, wanted)
    for name in ("J", "J_ab"):
        assert abs(measured.estimate(name, 3).z(found[0][name])) > 4, "control: no path through queries and keys"


def test_root_mean_square_norm():
    """Values at any scale, γ moved, and gradients; what has no size is lost."""
    whole = Residual(Sequential((RMSNorm(), Nonlinearity("tanh"), Dense())), "0.6")
    network = draw_network(whole, **SMALL, seed=1)
    rng = np.random.default_rng(8)
    network = network.moved({k: 0.2 * rng.standard_normal(v.shape) for k, v in network.parameters.items()})
    x = X[:3]

    def by_hand(x, moved=None):
        values, z = dict(network.parameters) | (moved or {}), x
        for layer in (1, 2, 3):
            def dense(y, place, layer=layer):
                w, b = values[layer, place, "W"], values[layer, place, "b"]
                return 1.2 / math.sqrt(y.shape[1]) * y @ w.T + 0.1 * b

            gain = 1.0 if layer == 1 else values[layer, 1, "gamma"]
            normed = gain * z / np.sqrt((z * z).mean(axis=1, keepdims=True))
            z = dense(z, 0) if layer == 1 else dense(np.tanh(normed), 3) + 0.6 * z
        return z

    assert not any(name.name == "beta" for name in network.parameters)
    z, u = network.forward(x), rng.standard_normal((3, N))
    assert_close(z, by_hand(x))
    t = rng.standard_normal((2, *x.shape))
    assert_close(network.network.jvp(x, t)[1][0], by_hand(x + 1e-30j * t[0]).imag / 1e-30)
    assert_close((network.network.vjp(x, u[None])[1] * t[0]).sum(), (u * by_hand(x + 1e-30j * t[0]).imag).sum() / 1e-30)
    for name, one in network.parameters.items():
        along = rng.standard_normal(one.shape)
        slope = (u * by_hand(x, {name: one + 1e-30j * along}).imag).sum() / 1e-30
        assert_close((network.gradients(x, u)[name] * along).sum(), slope, 1e-10)
        assert_refuted((network.gradients(x, u)[name] * along).sum() * 1.01, slope)


def test_root_mean_square_norm_at_any_scale():
    """What has no size is lost; jets against differences of pushes."""
    norm, x, t = operations(RMSNorm(), depth=2)[0], X[:3], np.random.default_rng(8).standard_normal((2, 3, 6))
    for size in (1e-200, 1.0, 1e200):
        assert_close(norm.normalized(size * x, None)[0], x / np.sqrt((x * x).mean(axis=1, keepdims=True)), 1e-14)
        assert_refuted(norm.normalized(size * x, None)[0], x / x.std(axis=1, keepdims=True))
    assert np.isnan(norm.normalized(np.zeros((1, 4)), None)[0]).all()
    pushed = np.empty((2, 1, *x.shape))
    for h, out in zip((1e-5, -1e-5), pushed):
        norm.normalized(x + h * t[1], None)[1].push(t[:1], out)
    jet = norm.unit(Jet([x, t[0], t[1], None])).c[3]
    assert_close(jet, (pushed[0] - pushed[1])[0] / 2e-5, 1e-8)
    assert_refuted(jet, (pushed[0] - pushed[1])[0] / 2.1e-5)


def test_one_factor_a_layer():
    """Scale of a Schedule: value·k^{−β/2} L^{−τ/2} in the k-th of L blocks."""
    depth = 6
    (scale,) = operations(Scale(Schedule("1.5", 1, total="0.5")), depth=depth)
    wanted = [1.5 * k**-0.5 * 5**-0.25 for k in range(1, depth)]
    np.testing.assert_allclose(scale.factor[1:], wanted, rtol=1e-14)
    assert abs(scale.factor[2] / wanted[0] - 1) > 0.1, "control: off by one block"
    named = operations(Scale(Schedule("a", "b")), values={"a": 2.0, "b": 1.0}, depth=depth)[0]
    np.testing.assert_allclose(named.factor[1:], [2 * k**-0.5 for k in range(1, depth)], rtol=1e-14)
    scaled = Sequential((Nonlinearity("tanh"), Dense(sigma_b=0), Scale(Schedule(1, 1))))
    drawn_so = Sequential((Nonlinearity("tanh"), Dense(sigma_w=Schedule("sigma_w", 1), sigma_b=0)))
    held, same = (draw_network(Residual(branch), **SMALL | {"depth": 5}).forward(X) for branch in (scaled, drawn_so))
    assert_close(held, same, 1e-13)
    unscaled = draw_network(Residual(Sequential(scaled.blocks[:2])), **SMALL | {"depth": 5})
    assert_refuted(held, unscaled.forward(X))
    with pytest.raises(MeanFieldError, match="needs a number for the factor a"):
        operations(Scale(Schedule("a", 1)), depth=3)


@pytest.mark.parametrize("option", ["plain", "all"])
def test_reversed_probes(option):
    """∂S/∂gains and ∂S/∂z of S = Σ z̄·z + Σ t̄·(∂z/∂z′)t, as `tune` asks for them, against differences."""
    whole = Sequential((Residual(block(option)), Residual(Sequential((RMSNorm(), Nonlinearity("tanh"), Dense())))))
    instance = Instance(draw_network(whole, **SIGMAS, width=N, depth=2, input_dimension=6, tokens=T), 2)
    rng = np.random.default_rng(9)
    z, t, z_bar, t_bar = (rng.standard_normal((2 * T, N)) for _ in range(4))
    gains = 1 + 0.1 * rng.standard_normal((instance.count, 2))

    def value(z, gains):
        new, pushed, _ = instance.block(2, z, t[None], gains)
        return (z_bar * new).sum() + (t_bar * pushed[0]).sum()

    tape = instance.block(2, z, t[None], gains, tape=True)[2]
    back, _, by_gains = instance.reverse(tape, z_bar, t_bar[None], gains)
    along, h = rng.standard_normal(z.shape), 1e-5
    slope = (value(z + h * along, gains) - value(z - h * along, gains)) / (2 * h)
    assert_close((back * along).sum(), slope, 1e-6)
    assert_refuted((back * along).sum() + 0.01 * abs(slope), slope, 1e-3)
    moved = rng.standard_normal(gains.shape)
    moved[[2], 1] = 0.0 if option == "plain" else moved[[2], 1]
    slope = (value(z, gains + h * moved) - value(z, gains - h * moved)) / (2 * h)
    assert_close((by_gains * moved).sum(), slope, 1e-6)


def test_what_is_refused():
    def ensemble(of, width=10, tokens=4, **more):
        return Ensemble(Sequential((of, Dense())), 1, 0, width, 3, tokens=tokens, **more)

    with pytest.raises(MeanFieldError, match="The 10 neurons of layer 2 were to be split among the 4 heads"):
        ensemble(Attention(4))
    with pytest.raises(MeanFieldError, match=r"The 10 neurons of layer 2 .* give key_dim= and value_dim="):
        ensemble(Attention(4, key_dim=3))
    assert ensemble(Attention(4, key_dim=3, value_dim=2)).couples
    with pytest.raises(MeanFieldError, match="rotary turns pairs of neurons, but the heads of an Attention have 5"):
        ensemble(Attention(2, rotary=True))
    held = Sequential((Attention(2), Dense()))
    settings = {"sigma_w": 1, "sigma_b": 0, "width": 8, "depth": 2, "networks": 2, "tokens": 2, "jacobian": False}
    with pytest.raises(MeanFieldError, match=r'With device="cuda", attention has no kernel; use device="cpu"'):
        run_ensemble(held, **settings, device="cuda")
    with pytest.raises(MeanFieldError, match="up to 8 inputs without tokens"):
        run_ensemble(held, **settings, quantities=("P",))
    with pytest.raises(MeanFieldError, match='read="last" is of networks whose positions act on each other'):
        run_ensemble(Sequential((Nonlinearity("tanh"), Dense())), **settings, read="last")
    with pytest.raises(MeanFieldError, match="read"):
        run_ensemble(held, **settings, read="first")
    with pytest.raises(MeanFieldError, match="J_ab and Theta_ab are of two positions, but one is read"):
        run_ensemble(held, **settings, quantities=("J_ab",), read="last")
    with pytest.raises(MeanFieldError, match="J_ab and Theta_ab are of two positions"):
        run_ensemble(held, **settings | {"tokens": 1}, quantities=("J_ab",))
    with pytest.raises(MeanFieldError, match="positions act on each other is measured with random vectors"):
        run_ensemble(held, **settings, quantities=("Theta",))
