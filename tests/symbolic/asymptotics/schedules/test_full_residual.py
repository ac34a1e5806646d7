"""Full residual networks: two Dense in a block, variances that fall with depth, widths that vary, gradients by every
weight. Numbers of [variance_variation] were computed without this package."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K
from meanfield.cli.app import main
from meanfield.empirical import run_ensemble
from meanfield.networks import mlp
from meanfield.networks.architectures import PRESETS, decays, full_residual
from meanfield.networks.folds import parts

BETAS = ("beta_w", "beta_b", "beta_v", "beta_a")
GRADIENTS = ("K", "J", "G_z", "G_w", "G_b")


def full(phi: str, **numbers) -> mf.Theory:
    """The network with every exponent, and every σ that is not given, a symbol."""
    return mf.derive(phi, architecture="full_residual", **{k: k for k in BETAS} | numbers)


def run(phi: str, depth: int = 50, correlation: float | None = None, **betas):
    """K … G, or two inputs, of p^(0) … p^(depth), all σ 1."""
    values = dict.fromkeys(BETAS, 0) | betas
    ask = {"quantities": GRADIENTS} if correlation is None else {"correlation": correlation}
    return full(phi).propagate(sigma_w=1, sigma_b=1, sigma_v=1, sigma_a=1, depth=depth + 1, **ask, **values)


def ratios(phi: str, depth: int = 50, **betas) -> dict[str, float]:
    """p, and chi^(0)/chi^(depth), chi_w^(1)/chi_w^(depth), … of one width: the paper's, per entry."""
    found = run(phi, depth, **betas)
    out = {"p": found.K[-1], "chi": found.G_z[0] / found.G_z[-1]}
    for name, of in (("w", found.G_w[:, 0]), ("v", found.G_w[:, 1]), ("b", found.G_b[:, 0]), ("a", found.G_b[:, 1])):
        out[f"chi_{name}"] = of[1] / of[-1]
    return out


def between(phi: str, depth: int = 50, **betas) -> dict[str, float]:
    """e and s of two inputs with cosine 1/2."""
    found = run(phi, depth, 0.5, **betas)
    return {"e": found.c[-1], "s": (found.K_aa - found.K_ab)[-1]}


# ------------------------------------------------------------------------------------ section 8 of the paper's page


def test_relu_with_variances_that_fall_as_one_over_l_is_linear():
    """Line 1: p^(l) = 2l + 1, in floats and exactly; the half of each variance that depends on w, b falls, or v."""
    for betas in ({"beta_w": 1, "beta_b": 1}, {"beta_v": 1}):
        assert np.abs(run("relu", 200, **betas).K / (2 * np.arange(201) + 1) - 1).max() < 1e-12
    theory = mf.derive("relu", architecture="full_residual", sigma_v=1, sigma_a=1, beta_v=1)
    exact = theory.recursion("K").doit().subs({"sigma_w": 1, "sigma_b": 1})
    assert [int(x["K"]) for x in exact.iterate({"Q0": 1}, 6)] == [1, 3, 5, 7, 9, 11]


def test_kernels():
    """Lines 2 and 3."""
    z = sp.Symbol("z", real=True)
    found = [mf.average(sp.tanh(z) ** 2, K).subs(K, k) for k in (1, 1000)] + [mf.average(sp.sech(z) ** 4, K).subs(K, 1)]
    for node, value in zip(found, (0.39429449039784, 0.97477904179745, 0.46440290244827)):
        assert abs(sp.N(node, 16) - value) < 1e-13
    wide = mf.derive("relu").propagate(sigma_w=1, sigma_b=0, depth=2, input_norm=3, correlation=0.95)
    assert abs(wide.K_ab[1] - 1.43004560581) < 1e-10
    none = mf.derive("relu").propagate(sigma_w=1, sigma_b=0, depth=2, correlation=0)
    assert abs(none.c[1] - 1 / math.pi) < 1e-10


def test_tanh_without_variation():
    """Line 4, one input."""
    found = run("tanh", 100)
    q = {1: 2.0, 2: 3.5199757457, 10: 17.3883452575, 100: 189.3256325330}
    p = {1: 2.5199757457, 2: 4.1352773201, 10: 18.2013187675, 100: 190.2677702878}
    log_chi = {1: 0.2997403022, 2: 0.5399342669, 10: 1.7605095666, 100: 6.9055678274}
    for l in q:
        assert abs(found.K[l - 1] + 1 - q[l]) < 1e-7 and abs(found.K[l] - p[l]) < 1e-7
        assert abs(found.log_J[l] - log_chi[l]) < 1e-7
        assert abs(found.log_G_z[0] - found.log_G_z[l] - log_chi[l]) < 1e-7


FIGURE_1 = {0: 997.815, 15: 101.373, 16: 92.217, 25: 43.601, 36: 20.535, 49: 9.655, 64: 4.536, 81: 2.130, 99: 1.039}
HALVED = {0: 15.591, 15: 1.584, 16: 2.882, 25: 2.725, 36: 2.567, 49: 2.414, 64: 2.268, 81: 2.130, 99: 1.039}


def test_figure_1():
    """Line 6: chi per neuron is G_z by the widths N^(l), halved at 16, 25, …, 81; the forward pass does not know."""
    G_z, layers = run("tanh", 100).G_z, np.arange(101)
    for squares, known in (((), FIGURE_1), (range(4, 10), HALVED)):
        width = 2.0 ** -sum((layers >= n * n).astype(float) for n in squares) if squares else np.ones(101)
        chi = G_z * width[-1] / width
        for l, value in known.items():
            assert abs(chi[l] / value - 1) < 1e-3, (squares, l)


GRID = [
    ("relu", {"beta_w": 0.5, "beta_b": 0.5}, {"chi": 362.001, "chi_w": 0.123966, "chi_v": 1.75224, "chi_b": 241.334,
                                              "chi_a": 241.334, "p": 2085.51}),  # line 7
    ("relu", {}, {"p": 4 * 1.5**50 - 3, "chi": 1.5**50, "chi_w": 0.25, "chi_v": 0.5}),  # line 8
    ("relu", {"beta_w": 2, "beta_b": 2}, {"p": 54.5811, "chi": 2.03075, "chi_w": 0.0252722, "chi_v": 124.045}),
    ("relu", {"beta_w": 2, "beta_b": 2, "beta_a": 2}, {"p": 5.12301, "chi_w": 0.264349, "chi_v": 1105.82}),
    ("tanh", dict.fromkeys(BETAS, 0.25), {"p": 43.4524, "chi": 10.9322, "chi_w": 1.35565}),  # line 9
    ("tanh", {"beta_v": 0.5, "beta_w": 0.5, "beta_a": 1, "beta_b": 1}, {"p": 12.12, "chi": 4.34692, "chi_w": 1.7754}),
    ("tanh", {"beta_v": 1, "beta_a": 1, "beta_w": 0.5, "beta_b": 0.5},
     {"p": 7.82574, "chi": 2.09694, "chi_w": 8.17107, "chi_v": 1.86099}),
]  # fmt: skip


@pytest.mark.parametrize(("phi", "betas", "known"), GRID)
def test_gradients_of_every_parameter(phi, betas, known):
    found = ratios(phi, **betas)
    for name, value in known.items():
        assert abs(found[name] / value - 1) < 1e-5, (name, found[name])


PAIRS = [
    ("relu", {"beta_w": 0.5, "beta_b": 0.5}, 0.946909, 110.723),
    ("relu", {"beta_w": 2, "beta_b": 2}, 0.982886, 0.934083),
    ("relu", {"beta_w": 2, "beta_b": 2, "beta_a": 2}, 0.818576, 0.929439),
]
SLOW_PAIRS = [
    ("tanh", dict.fromkeys(BETAS, 0.25), 0.917749, 3.57401),
    ("tanh", {"beta_v": 0.5, "beta_w": 0.5, "beta_a": 1, "beta_b": 1}, None, 1.88877),
    ("tanh", {"beta_v": 1, "beta_a": 1, "beta_w": 0.5, "beta_b": 0.5}, None, 0.976675),
]


def assert_pair(phi, betas, e, s):
    found = between(phi, **betas)
    assert e is None or abs(found["e"] / e - 1) < 2e-6
    assert abs(found["s"] / s - 1) < 1e-5


@pytest.mark.parametrize(("phi", "betas", "e", "s"), PAIRS)
def test_two_inputs(phi, betas, e, s):
    assert_pair(phi, betas, e, s)


@pytest.mark.slow
@pytest.mark.parametrize(("phi", "betas", "e", "s"), SLOW_PAIRS)
def test_two_inputs_of_tanh(phi, betas, e, s):
    assert_pair(phi, betas, e, s)


@pytest.mark.slow
def test_cosines_of_tanh_without_variation():
    """Line 4, two inputs, and their distance beside K_ab."""
    known = {1: 0.7406537249, 2: 0.8057432670, 10: 0.8874358866, 100: 0.8837547001}
    found = run("tanh", 100, 0.5)
    near = full("tanh").propagate(sigma_w=1, sigma_b=1, sigma_v=1, sigma_a=1, depth=101, correlation=0.5,
                                  quantities=("K", "distance", "c", "J_ab"), **dict.fromkeys(BETAS, 0))  # fmt: skip
    for l, value in known.items():
        assert abs(found.c[l] - value) < 1e-7 and abs(near.c[l] - value) < 1e-7
    assert np.allclose(near.distance / 2, near.K * (1 - near.c), rtol=1e-12)
    assert (near.distance / near.distance[0] <= run("tanh", 100).J * (1 + 1e-12)).all()


# ------------------------------------------------------------------------------------------------ gradients, derived


def by_hand(phi, slope, depth, sigma, beta, Q0):
    """K, and per output neuron the squared gradients by x, w, v, b, a, of a loop that knows only quadrature."""
    z = np.linspace(-9, 9, 4001)
    weight = np.exp(-(z**2) / 2)
    weight /= weight.sum()
    s2 = {k: [sigma[k] ** 2 * max(l, 1) ** -beta[k] for l in range(depth)] for k in sigma}
    p, rows = [Q0], []
    for l in range(1, depth):
        q = s2["w"][l] * p[-1] + s2["b"][l]
        square, steep = (weight * phi(math.sqrt(q) * z) ** 2).sum(), (weight * slope(math.sqrt(q) * z) ** 2).sum()
        rows.append((s2["v"][l] * s2["w"][l] * steep + 1, s2["v"][l] * steep, square, p[-1]))
        p.append(s2["v"][l] * square + s2["a"][l] + p[-1])
    chi, G_w, G_b = [1.0], [], []
    for growth, local, square, before in rows[::-1]:
        G_w.append((chi[-1] * local * before, chi[-1] * square))
        G_b.append((chi[-1] * local, chi[-1]))
        chi.append(chi[-1] * growth)
    first = [(0.0, chi[-1] * Q0)], [(0.0, chi[-1])]
    return np.array(p), np.array(chi[::-1]), np.array(first[0] + G_w[::-1]), np.array(first[1] + G_b[::-1])


def test_gradients_against_a_loop():
    sigma = {"w": 1.3, "b": 0.4, "v": 0.9, "a": 0.3}
    beta = {"w": 0.2, "b": 0.7, "v": 0.6, "a": 1.1}
    found = full("tanh").propagate(
        sigma_w=1.3, sigma_b=0.4, sigma_v=0.9, sigma_a=0.3, depth=30, input_norm=1.7, quantities=GRADIENTS,
        **{f"beta_{k}": v for k, v in beta.items()},
    )  # fmt: skip
    p, chi, G_w, G_b = by_hand(np.tanh, lambda x: 1 / np.cosh(x) ** 2, 30, sigma, beta, 1.7)
    for own, mine in ((p, found.K), (chi, found.G_z), (G_w, found.G_w), (G_b, found.G_b)):
        assert own.shape == mine.shape and np.allclose(own, mine, rtol=1e-11, atol=0)
    doubled = by_hand(np.tanh, lambda x: 1 / np.cosh(x) ** 2, 30, sigma, {k: 2 * v for k, v in beta.items()}, 1.7)
    assert not np.allclose(doubled[2], found.G_w, rtol=0.02)


phi = mf.Nonlinearity("tanh")
BLOCKS = {
    "plain": mlp("gelu"),
    "skip": mlp("tanh", mu="1/2"),
    "norm": mf.Sequential((mf.LayerNorm(False), phi, mf.Dense())),
    "norm of activations": mf.Sequential((phi, mf.LayerNorm(False), mf.Dense(sigma_w=1, sigma_b=2))),
    "two dense": mf.Sequential((phi, mf.Dense(sigma_w="3/2", expand=4), mf.Nonlinearity("relu"), mf.Dense())),
    "a shortcut of its own": mf.Residual(
        mf.Sequential((mf.Dense(), phi, mf.Dense(sigma_b=1))), "2/3", mf.Sequential((phi, mf.Dense(sigma_w=2)))
    ),
    "skips in a row": mf.Sequential(
        (mf.Residual(mf.Sequential((phi, mf.Dense()))), mf.Residual(mf.Sequential((phi, mf.Dense())), "1/3"))
    ),
    "full": full_residual("tanh", sigma_v="3/4", sigma_a="1/3", beta_v=1, beta_w="1/2"),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_add_up_to_the_tangent_kernel(name):
    """Θ^L is the sum over all Dense of σ_w² G_w + σ_b² G_b, σ's those of their layer, for every architecture."""
    theory, depth = mf.derive(architecture=BLOCKS[name]), 6
    given = {"sigma_w": 1.3, "sigma_b": 0.4}
    found = theory.propagate(**given, depth=depth, quantities=(*GRADIENTS, "Theta"))
    assert np.allclose(found.G_z * found.J, found.J[-1], rtol=1e-13)
    held = [p for p in parts(theory.block) if isinstance(p, mf.Dense)]
    total = 0.0
    for layer in range(1, depth + 1):
        for d, dense in enumerate(held if layer > 1 else [*held[:-1], theory.first]):
            w, b = (_deviation(e, layer, given) for e in (dense.sigma_w, dense.sigma_b))
            total += w**2 * found.G_w[layer - 1, d] + b**2 * found.G_b[layer - 1, d]
    assert abs(total / found.Theta[-1] - 1) < 1e-12
    assert found.quantities[:3] == ("K", "J", "Theta") and f"G_w[{len(held)}]" in found.quantities


OTHERS = {
    "pool": mf.Sequential((mf.Nonlinearity("relu"), mf.Pool(2, "max"), mf.Dense())),
    "trained norms": mf.Sequential(
        (mf.LayerNorm(), phi, mf.Dense(), mf.LayerNorm(), mf.Nonlinearity("gelu"), mf.Dense())
    ),
    "scale": mf.Residual(mf.Sequential((phi, mf.Dense(), mf.Scale("1/2"))), 1, mf.Projection()),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*BLOCKS, *OTHERS])
def test_gradients_of_any_architecture_against_networks(name):
    theory = mf.derive(architecture=(BLOCKS | OTHERS)[name])
    report = mf.check(
        theory, sigma_w=1.3, sigma_b=0.4, width=400, depth=6, networks=80, quantities=("K", "G_z", "G_w", "G_b")
    )
    assert report.passed, str(report)


def _deviation(given, layer, own):
    if isinstance(given, mf.Schedule):
        return _deviation(given.value, layer, own) * max(layer - 1, 1) ** (-float(given.beta) / 2)
    return own[given.name] if isinstance(given, mf.Param) else float(given)


def test_gradients_overflow_no_double_and_vanish_exactly():
    deep = mf.derive("tanh").propagate(sigma_w=6, sigma_b=0.1, depth=1000, quantities=("J", "G_z", "G_w"))
    assert np.isinf(deep.G_z[0]) and deep.log_G_z[0] > 800 and abs(deep.log_G_z[0] - deep.log_J[-1]) < 1e-9
    theory = mf.derive("tanh", architecture="full_residual", sigma_v=0, sigma_a="1/2")
    found = theory.propagate(sigma_w=1, sigma_b=1, depth=5, quantities=GRADIENTS)
    assert (1 + np.arange(5) / 4 == found.K).all() and (found.G_z == 1).all()
    assert (found.G_w[:, 0] == 0).all() and (found.G_b[:, 1] == 1).all() and (found.G_w[1:, 1] > 0).all()
    report = mf.check(theory, sigma_w=1, sigma_b=1, width=60, depth=5, networks=20, quantities=("K", "J", "G_w", "G_b"))
    assert report.passed, str(report)
    alone = mf.derive("tanh").propagate(sigma_w=1, sigma_b=0, depth=5, every_layer=False, quantities=("G_w",))
    assert alone.G_w.shape == (1, 1) and alone.l.tolist() == [5]
    layered = mf.derive("tanh").propagate(
        sigma_w=[1, 1, 0, 1, 1], sigma_b=0.3, depth=5, layerwise=True, quantities=("G_z",)
    )
    assert (layered.G_z[:2] == 0).all() and (layered.G_z[2:] > 0).all()  # not 0/0 beyond the layer that forgets


def test_arrays_of_parameters():
    found = full("relu").propagate(
        sigma_w=1, sigma_b=1, sigma_v=[[1.0], [2.0]], sigma_a=1, depth=4, quantities=("G_w",),
        beta_w=[0, 0.5, 1], beta_b=0, beta_v=0, beta_a=0,
    )  # fmt: skip
    assert found.G_w.shape == (2, 3, 4, 2) and getattr(found, "G_w[2]").shape == (2, 3, 4)
    one = full("relu").propagate(
        sigma_w=1, sigma_b=1, sigma_v=2.0, sigma_a=1, depth=4, quantities=("G_w",),
        beta_w=0.5, beta_b=0, beta_v=0, beta_a=0,
    )  # fmt: skip
    assert np.array_equal(found.G_w[1, 1], one.G_w) and found.at(4)["G_w[1]"].shape == (2, 3)
    assert "G_{w,1}" in one.latex() and repr(one) == "Run(G_w[1], G_w[2]; layers 1 to 4)"


# ------------------------------------------------------------------------------------------------------ finite width

AT = {"sigma_v": "3/2", "sigma_a": "1/2", "beta_v": "1/2", "beta_w": "1/5"}
SIGMAS = {"sigma_w": 1.2, "sigma_b": 0.3}
NARROWING = [192] * 3 + [96] * 3 + [64] * 2


def checked(phi: str = "tanh", networks: int = 100, names=("K", "J", "G_z", "G_w", "G_b"), expand=2, **more):
    theory = mf.derive(phi, architecture="full_residual", **AT, expand=expand)
    sizes = {"width": NARROWING, "depth": 8, "networks": networks, "quantities": names} | SIGMAS | more
    return mf.check(theory, **sizes)


@pytest.mark.slow
def test_networks_of_varying_widths():
    report = checked()
    assert report.passed, str(report)
    assert report.quantities == ("K", "J", "G_z", "G_w[1]", "G_w[2]", "G_b[1]", "G_b[2]")
    assert json.loads(json.dumps(report.data()))["settings"]["width"] == NARROWING
    assert len([r for r in report.rows if r.quantity == "G_w[1]"]) == 7  # the input layer is the last Dense


@pytest.mark.fast_with("own")
@pytest.mark.parametrize("backward", ["own", "copy"])
def test_fresh_weights_in_the_backward_pass(backward):
    """Both agree with the theory; the forward pass is the same, the gradients are others, and drawn the same twice."""
    network = full_residual("tanh", **AT)
    sizes = dict(width=40, depth=6, networks=5, seed=3, quantities=("K", "G_z", "G_w"), **SIGMAS)
    found, again, own = (run_ensemble(network, **sizes, backward=b) for b in (backward, backward, "own"))
    for name in found.samples:
        assert np.array_equal(found.samples[name], again.samples[name])
        assert np.array_equal(found.samples[name], own.samples[name]) == (name == "K" or backward == "own")
    report = checked(names=("G_z", "G_w"), networks=60, backward=backward)
    assert report.passed, str(report)


def heavier(expected_to_pass: bool, phi: str, wrong: dict, width, networks: int, names, **more) -> None:
    """Networks of one law against the theory of another."""
    from meanfield.comparison.allowances import compare

    right = mf.derive(phi, architecture="full_residual", **AT)
    other = mf.derive(phi, architecture="full_residual", **AT | wrong)
    depth = 8
    runs = [
        run_ensemble(mf.Network(right.block, right.first), width=n, depth=depth, networks=networks, sampler="lazy",
                     quantities=names, first_network=i * networks, **SIGMAS, **more)
        for i, n in enumerate((width, width // 16, width // 32))
    ]  # fmt: skip
    predicted = other.propagate(**SIGMAS, depth=depth, quantities=names, **more)
    rows, _, _ = compare(predicted, runs[0], tuple(runs[1:]), names)
    for name in dict.fromkeys(r.quantity for r in rows):
        largest = max(abs(r.z) for r in rows if r.quantity == name)
        assert (largest <= 4) == expected_to_pass, (phi, wrong, name, largest)


def test_planted_errors_fail():
    """2 % in σ_v, and standard deviations read for variances: K fails, at a width that takes a second."""
    heavier(True, "relu", {}, 4096, 60, ("K",))
    heavier(False, "relu", {"sigma_v": "1.53"}, 4096, 60, ("K",))
    heavier(False, "relu", {"beta_v": 1, "beta_w": "2/5"}, 4096, 60, ("K",))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_checks_and_planted_errors(name):
    """K, J, gradients and two inputs, with widths that vary and fresh weights, |z| ≤ 4; every planted error fails in
    every quantity that it enters."""
    wide = [4096] * 3 + [2048] * 3 + [1024] * 2
    for backward in ("own", "copy"):
        report = checked(name, width=wide, backward=backward, seed=2)
        assert report.passed, str(report)
    two = checked(name, names=("K_aa", "K_bb", "K_ab"), width=wide, correlation=0.5)
    assert two.passed, str(two)
    names = ("K", "J", "G_w", "G_b") if name != "relu" else ("K", "G_w")
    heavier(True, name, {}, 16384, 200, names)
    heavier(False, name, {"sigma_v": "1.53"}, 16384, 400, ("K",))
    heavier(False, name, {"beta_v": 1, "beta_w": "2/5"}, 16384, 200, ("K", "J"))
    heavier(False, name, {"sigma_v": "1.53"}, 16384, 200, ("K_aa", "K_ab"), correlation=0.5)


@pytest.mark.slow
def test_the_printed_recursion_of_two_inputs_fails():
    """Line 5: ⟨h_a h_b⟩ of a layer comes from the x of the layer before, not from its h."""
    theory = mf.derive("relu", architecture="full_residual", sigma_v=1, sigma_a=1, beta_v="1/2", beta_w="1/5")
    found = theory.propagate(sigma_w=1, sigma_b=1, depth=13, correlation=0.5)
    measured = run_ensemble(
        mf.Network(theory.block, theory.first), sigma_w=1, sigma_b=1, width=3000, depth=13, networks=40, sampler="lazy",
        correlation=0.5, quantities=("K_ab",),
    ).estimate("K_ab", l=12)  # fmt: skip
    assert abs(measured.z(found.K_ab[11])) < 4
    inner = 0.5
    for l in range(1, 13):
        inner = l**-0.2 * inner + 1
    assert abs(12**-0.2 * measured.mean + 1 - inner) > 50 * measured.standard_error


# ------------------------------------------------------------------------------------------------------- the records


def test_records_of_whole_networks():
    network = full_residual("tanh")
    assert network.first == mf.Dense(sigma_w=1, sigma_b=0) and network.block.shortcut == mf.Projection()
    assert network.block.branch.blocks == (mf.Dense(), phi, mf.Dense(sigma_w="sigma_v", sigma_b="sigma_a"))
    assert full_residual("tanh", beta_v=0.1).block.branch.blocks[2].sigma_w == mf.Schedule("sigma_v", "1/10")
    assert mf.Schedule("sigma_w", 1) == mf.Schedule(mf.Param("sigma_w"), 1)
    assert mf.Dense(sigma_b="sigma_w").sigma_b == mf.Param("sigma_w")
    theory = mf.derive(architecture=mf.Network(mlp("tanh"), mf.Dense(sigma_w=2, sigma_b="sigma_0")))
    found = theory.propagate(sigma_w=1.5, sigma_b=0.1, depth=2, sigma_0=3.0, quantities=("K", "Theta"))
    assert found.K[0] == found.Theta[0] == 13 and str(theory.one_input.start["K"]) == "4*Q0 + sigma_0**2"
    assert mf.derive("relu", architecture="mlp", mu="1/2") == mf.derive("relu", mu="1/2")
    assert {"mlp", "full_residual"} < set(PRESETS) and decays("v=1/2, w=0") == {"beta_v": "1/2", "beta_w": "0"}
    # a network with an input layer like all others is the block itself
    assert mf.derive(architecture=mf.Network(mlp("tanh"))) == mf.derive("tanh")


def test_the_start_of_two_inputs_in_other_coordinates():
    """K¹ is that of the input layer, and of the first of several layers."""
    whole = mf.Network(mlp("relu"), mf.Dense(sigma_w=2, sigma_b=0))
    for network, sigma_w, first in ((whole, 1.3, 4.0), (mlp("relu"), [1.5, 1.2, 1.1], 2.25)):
        found = mf.derive(architecture=network).propagate(
            sigma_w=sigma_w, sigma_b=0, depth=3, layerwise=True, start={"c": 0.3}, quantities=("K", "c")
        )
        assert found.K.shape == (3,) and found.K[0] == first and abs(found.c[0] - 0.3) < 1e-15


def test_own_input_layers_of_networks():
    """σ's of layer 1 alone, and a Schedule of the network's own σ_w, in theory and networks."""
    block = mf.Sequential((phi, mf.Dense(sigma_w=mf.Schedule("sigma_w", "beta"), sigma_b=0)))
    theory = mf.derive(architecture=mf.Network(block, mf.Dense(sigma_w=0, sigma_b="sigma_0")))
    report = mf.check(theory, sigma_w=1.5, width=150, depth=5, networks=100, beta=1, sigma_0=1.3,
                      quantities=("K", "J", "G_w"))  # fmt: skip
    assert report.passed, str(report)
    start = mf.derive(architecture=mf.Network(mlp("z**3 if z < 1 else z"), mf.Dense(sigma_w=1, sigma_b=0)))
    assert start.propagate(sigma_w=5, sigma_b=5, depth=1).K == 1  # of the block's Dense, which comes later
    assert mf.measure(full_residual("relu", sigma_v=1, sigma_a=1), **SIGMAS, width=30, depth=3, networks=4).widths


@pytest.mark.slow
def test_a_projection_is_the_identity_where_it_can_be():
    """Between equal widths no weights are drawn: the same bits with and without it."""
    network = full_residual("tanh", **AT)
    plain = mf.Network(mf.Residual(network.block.branch), network.first)
    sizes = dict(depth=4, networks=3, quantities=("K", "J", "G_w", "Theta"), **SIGMAS)
    for width in (20, [20, 10, 10, 20]):
        found = run_ensemble(network, width=width, **sizes)
        if width == 20:
            other = run_ensemble(plain, width=width, **sizes)
            assert all(np.array_equal(found.samples[k], other.samples[k]) for k in ("K", "log_J", "G_w"))
            assert np.allclose(found.samples["Theta"], other.samples["Theta"], rtol=1e-13)
        assert found.fan_ins.shape == (4, 2) and found.fan_ins[1].tolist() == [20, 20 if width == 20 else 10]
    one = mf.derive(architecture=mf.Residual(mf.Sequential((phi, mf.Dense())), 1, mf.Projection()))
    assert str(one.critical_line()) == str(mf.derive("tanh", residual=True).critical_line())


REFUSED = {
    "is a whole network": lambda: mf.Sequential((full_residual("tanh"),)),
    "whole network with its input layer": lambda: mf.Network(full_residual("tanh")),
    "is a Dense on neurons": lambda: mf.Network(mlp("tanh"), mf.LayerNorm()),
    "one value of each standard deviation": lambda: mf.Network(mlp("tanh"), mf.Dense(sigma_w=mf.Schedule(1, 1))),
    "beta_v must be ≥ 0": lambda: full_residual("tanh", beta_v=-1),
    "beta_v must be a finite number": lambda: full_residual("tanh", beta_v=math.nan),
    "beta_b must be a finite number": lambda: full_residual("tanh", beta_b="inf"),
    "sigma_v must be ≥ 0": lambda: full_residual("tanh", sigma_v=-1),
    "letters w, b, v, a": lambda: decays("v=1,q=2"),
    "v was given twice": lambda: decays("v=1,v=2"),
    "the choices are mlp, resnet, preln, .*, full_residual": lambda: mf.derive("tanh", architecture="full"),
    "mu=1 was given, but the architecture full_residual .*; leave it out": lambda: mf.derive(
        "tanh", architecture="full_residual", mu=1
    ),
    "beta_a must be ≥ 0, but -1": lambda: run("tanh", 2, beta_a=-1),
    "given φ\\(z\\)": lambda: mf.derive(architecture=mf.Sequential((phi, mf.Projection(), mf.Dense()))).one_input,
    "beside a branch without Dense": lambda: mf.derive(
        architecture=mf.Sequential((mf.Residual(phi, 1, mf.Projection()), mf.Dense()))
    ).one_input,
    "go from the last layer back": lambda: mf.derive("tanh").recursion("G_w"),
    "are of one input": lambda: mf.derive("tanh").propagate(**SIGMAS, depth=3, correlation=0, quantities=("G_w",)),
    "infinite at every layer but the last": lambda: mf.derive("step").propagate(
        **SIGMAS, depth=3, quantities=("G_z",)
    ),
    "common divisor": lambda: checked(width=[7] * 4 + [5] * 4),
    "one per layer": lambda: checked(width=[8] * 4),
    "where it is the identity": lambda: checked(names=("Theta",)),
    "product must be a whole number": lambda: run_ensemble(
        full_residual("tanh", **AT, expand="1/3"), width=10, depth=3, networks=2, **SIGMAS
    ),
    "A skip adds": lambda: run_ensemble(
        mf.Residual(mf.Sequential((phi, mf.Dense()))), width=[10, 20], depth=2, networks=2, **SIGMAS
    ),
    "the choices are own, copy": lambda: run_ensemble(
        mlp("tanh"), width=10, depth=2, networks=2, backward="fresh", **SIGMAS
    ),
    "a loss \\(delta2\\)": lambda: run_ensemble(
        mlp("tanh"), width=10, depth=2, networks=2, backward="copy", batch=4, quantities=("delta2",), **SIGMAS
    ),
    "the map changes from layer to layer": lambda: mf.derive(
        "tanh", architecture="full_residual", **AT
    ).fixed_points(sigma_w=1, sigma_b=1),
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_refused(sentence):
    with pytest.raises(MeanFieldError, match=sentence) as error:
        REFUSED[sentence]()
    assert "\n" not in str(error.value)


def test_on_the_command_line(capsys):
    place = ["--sigma-w", "1", "--sigma-b", "1", "--param", "sigma_v=1", "--param", "sigma_a=1"]
    words = ["relu", "--architecture", "full_residual", "--decay", "v=1,w=0"]
    with pytest.raises(SystemExit, match=r"^0$") as done:
        main(["propagate", *words, *place, "--depth", "4", "--quantities", "K,G_b", "--json"])
    found = json.loads(capsys.readouterr().out)["results"]["layers"]
    assert done.value.code == 0 and found["K"] == [1, 3, 5, 7] and found["G_b[2]"][-1] == 1
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["table", *words, "--param", "sigma_v=1", "--param", "sigma_a=0"])
    assert "K' = K*sigma_w**2/(2*(l - 1)) + K + sigma_b**2/(2*(l - 1))" in " ".join(capsys.readouterr().out.split())
    for wrong, sentence in (
        (["propagate", *words, *place[:4], "--depth", "3"], "sigma_a of the architecture must be a number here"),
        (["propagate", "relu", "--decay", "v=1", *place[:4], "--depth", "3"], "give both"),
        (["propagate", *words[:3], "--decay", "x=1", *place, "--depth", "3"], "letters w, b, v, a"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(wrong)
        assert sentence in capsys.readouterr().err
