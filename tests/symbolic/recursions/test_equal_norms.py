"""Two inputs of one norm: the distance that loses no digit, other coordinates, any start; and what each must not be."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield as mf
from meanfield.base.symbols import K, Z, distance
from meanfield.numeric.lowering import evaluators
from meanfield.numeric.lowering.averages import panel_arrays
from meanfield.numeric.lowering.distances import equal_norm_distance
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio

SHAPES = [{}, {"residual": True, "mu": "1/2"}, {"norm": "pre"}, {"norm": "act"}]


def assert_close(found, wanted, rel: float) -> None:
    found, wanted = np.asarray(found, dtype=float), np.asarray(wanted, dtype=float)
    assert np.all(np.abs(found - wanted) <= rel * np.abs(wanted)), f"{found} against {wanted}"


# ------------------------------------------------------------------------------------------------ the map


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("phi", ["relu", "gelu", "step", "erf"])
def test_the_distance_is_what_the_covariances_say(phi, shape):
    recursion = mf.derive(phi, **shape).equal_norms.only("K_ab", "distance")
    places = {"sigma_w": sp.Rational(3, 2), "sigma_b": sp.Rational(1, 10), "Q0": 1, "c0": sp.Rational(9, 10)}
    for layer in recursion.iterate(places, 4, digits=25):
        assert abs(layer["distance"] - 2 * (layer["K"] - layer["K_ab"])) < 1e-22
        assert abs(layer["distance"] - 2.001 * (layer["K"] - layer["K_ab"])) > 1e-6


@pytest.mark.slow
def test_through_two_dense_layers_and_twice_the_same_phi():
    """Inner distances are named by their share of the outer one."""
    branch = mf.Sequential((mf.Nonlinearity("gelu"), mf.Dense(), mf.Nonlinearity("relu"), mf.Dense()))
    block = mf.Residual(branch, "1/2")
    theory = mf.derive(architecture=block)
    recursion = theory.equal_norms.only("K_ab", "distance")
    assert any(s.name.startswith("ratio[") for s, _ in recursion.block.definitions)
    exact = recursion.iterate({"sigma_w": 1.5, "sigma_b": 0.25, "Q0": 1, "c0": 0.75}, 4, digits=25)
    assert all(abs(x["distance"] - 2 * (x["K"] - x["K_ab"])) < 1e-22 for x in exact)
    run = theory.propagate(sigma_w=1.5, sigma_b=0.25, depth=4, correlation=0.75, quantities=("K_ab", "distance"))
    assert_close(run.distance, [float(x["distance"]) for x in exact], 1e-13)


def test_a_parameter_of_the_activation():
    """A slope that comes as a number later gives the very same node."""
    late, early = mf.derive("leaky_relu", alpha="alpha"), mf.derive("leaky_relu", alpha="3/10")
    assert late.equal_norms.subs({"alpha": sp.Rational(3, 10)}).only("distance") == early.equal_norms.only("distance")
    place = dict(sigma_w=1.2, sigma_b=0.1, depth=4, correlation=0.3, quantities=("c", "gamma"))
    assert (late.propagate(**place, alpha="3/10").gamma == early.propagate(**place).gamma).all()
    found = [t.correlations(sigma_w="1.2", sigma_b="0.1", **k) for t, k in ((late, {"alpha": "3/10"}), (early, {}))]
    assert found[0].points == found[1].points


def assert_nothing_between(node) -> None:
    """⟨(f_a - f_b)²⟩ of one input twice is 0, in digits and in averages."""
    assert node.evalf(30) == 0 and node.doit() == 0 and node.definition() == 0, f"{node} of one input twice is not 0"


@pytest.mark.parametrize("f", [sp.erf(Z[0]), sp.Heaviside(Z[0])], ids=str)
def test_a_separation_of_nothing_is_nothing(f):
    """Its evalf was the slope ⟨f′²⟩ (and an error where f jumps), which is what the ratio has there."""
    ratio = distance_ratio(f, sp.S.One, sp.S.Zero)
    assert_nothing_between(ratio.separation())
    # the ratio itself
    with pytest.raises((AssertionError, mf.MeanFieldError), match=r"input twice is not 0|: the function jumps"):
        assert_nothing_between(ratio)
    apart = distance_ratio(sp.erf(Z[0]), sp.S.One, sp.Rational(1, 2))
    assert abs(apart.separation().evalf(20) - apart.evalf(20) / 2) < 1e-18


def test_what_does_not_move_apart():
    assert distance_ratio(3 * Z[0] + 2, K, distance) == 9
    assert distance_ratio(sp.Integer(2), K, distance) == 0
    node = distance_ratio(sp.tanh(Z[0]), K, distance)
    at_zero = sp.N(node.subs({K: 1, distance: 0}), 20)
    near = sp.N(distance_ratio(sp.erf(Z[0]), K, distance).subs({K: 1, distance: sp.Rational(1, 10**20)}), 15)
    assert abs(at_zero - mf.average(sp.sech(Z[0]) ** 4, 1).evalf(20)) < 1e-18
    assert abs(near - 4 / sp.pi / sp.sqrt(5)) < 1e-12
    with pytest.raises(mf.MeanFieldError, match="infinite"):
        distance_ratio(sp.Heaviside(Z[0], 0), K, distance).subs({K: 1, distance: 0}).evalf()


# ------------------------------------------------------------------------------------------------ compiled


def arc_cosine(sigma_w2: str, sigma_b2: str, depth: int, c0: str = "0") -> list:
    """γ of ReLU layer by layer in 700 digits: K′ and K_ab′ by the arc-cosine kernel, nothing of the engine's."""
    with mp.workdps(700):
        w, b = mp.mpf(sigma_w2), mp.mpf(sigma_b2)
        q, ab, out = w + b, w * mp.mpf(c0) + b, []
        for _ in range(depth):
            out.append(mp.log(ab / (q - ab)))
            c = ab / q
            q, ab = w / 2 * q + b, w * q * (mp.sqrt(1 - c * c) + c * (mp.pi - mp.acos(c))) / (2 * mp.pi) + b
        return out


@pytest.mark.slow
@pytest.mark.parametrize("sigma_w2", ["1.5", "2", "2.5"])
def test_gamma_of_relu_beyond_all_doubles(sigma_w2):
    exact = arc_cosine(sigma_w2, "0.1", 2000)
    run = mf.derive("relu").propagate(
        sigma_w=math.sqrt(float(sigma_w2)), sigma_b=math.sqrt(0.1), depth=2000, correlation=0, quantities="log_gamma"
    )
    for l in (1, 2, 10, 100, 1000, 2000):
        assert abs(float(exact[l - 1]) - run.log_gamma[l - 1]) < 1e-11 * max(1, l / 10)
    assert float(exact[-1]) > 500 or sigma_w2 != "1.5"
    carried = mf.derive("relu").propagate(
        sigma_w=math.sqrt(float(sigma_w2)), sigma_b=math.sqrt(0.1), depth=100, correlation=0
    )  # K_ab alone: the gap is gone
    if sigma_w2 == "1.5":
        c = carried.c[-1]
        assert abs(math.log(c / (1 - c)) - float(exact[99])) > 1e-5


def trapezoid_pair(phi, sigma_w: float, sigma_b: float, c0: float, depth: int, nodes: int = 401):
    """(K, K_ab, distance) by the trapezoid rule in two independent Gaussians (smooth φ, K of order 1)."""
    x = np.linspace(-9, 9, nodes)
    w = np.exp(-(x**2) / 2)
    w /= w.sum()
    K, ab = sigma_w**2 + sigma_b**2, sigma_w**2 * c0 + sigma_b**2
    out = [(K, ab, 2 * sigma_w**2 * (1 - c0))]
    for _ in range(depth - 1):
        half = out[-1][2] / 2
        plus, minus = np.sqrt(K - half / 2), np.sqrt(half / 2)
        a = phi(plus * x[:, None] + minus * x[None])
        b = phi(plus * x[:, None] - minus * x[None])
        mean = w[:, None] * w[None]
        apart = sigma_w**2 * (mean * (a - b) ** 2).sum()
        K = sigma_w**2 * (mean * a * a).sum() + sigma_b**2
        out.append((K, sigma_w**2 * (mean * a * b).sum() + sigma_b**2, apart))
    return np.array(out).T


@pytest.mark.slow
@pytest.mark.parametrize(
    ("phi", "c0"),
    [
        (("gelu", lambda z: z * (1 + erf(z / math.sqrt(2))) / 2), 0.3),
        *[
            pytest.param(phi, c0, marks=pytest.mark.slow)
            for phi in (("tanh", np.tanh), ("z*tanh(z)", lambda z: z * np.tanh(z)), ("sin", np.sin))
            for c0 in (0.3, 1 - 1e-3)
        ],
    ],
    ids=lambda v: v[0] if isinstance(v, tuple) else str(v),
)
def test_against_another_quadrature(phi, c0):
    name, function = phi
    K_, ab, apart = trapezoid_pair(function, 1.3, 0.3, c0, 6)
    run = mf.derive(name).propagate(
        sigma_w=1.3, sigma_b=0.3, depth=6, correlation=c0, quantities=("K", "K_ab", "distance", "J")
    )
    assert_close(run.K, K_, 1e-12)
    assert_close(run.K_ab, ab, 1e-12)
    assert_close(run.distance, apart, 1e-11)
    with pytest.raises(AssertionError, match=" against "):
        assert_close(run.distance * (1 + 3e-11), apart, 1e-11)
    alone = mf.derive(name).propagate(sigma_w=1.3, sigma_b=0.3, depth=6)
    assert (alone.K == run.K).all() and (alone.log_J == run.log_J).all()


@pytest.mark.parametrize(
    "phi", ["relu", *[pytest.param(name, marks=pytest.mark.slow) for name in ("tanh", "hard_tanh", "elu")]]
)
def test_digits_of_close_inputs(phi):
    """The growth of a tiny distance is χ_J; with kinks the next term is its root."""
    theory = mf.derive(phi)
    run = theory.propagate(
        sigma_w=1.2, sigma_b=0.3, depth=3, start={"K": 1.0, "distance": 1e-24}, quantities=("distance", "J")
    )
    assert_close(run.distance[1] / run.distance[0], run.J[1] / run.J[0], 3e-12)
    assert abs(run.distance[1] / run.distance[0] / (run.J[1] / run.J[0]) - 1) < 3e-12
    same = theory.propagate(sigma_w=1.2, sigma_b=0.3, depth=40, correlation=1, quantities=("distance", "c", "gamma"))
    assert (same.distance == 0).all() and (same.c == 1).all() and np.isinf(same.gamma).all()


def test_the_measured_error_sees_a_rule_with_too_few_nodes(monkeypatch):
    node = next(iter(distance_ratio(mf.derive("relu").activations[0].pieces.expr, K, distance).atoms(DistanceRatio)))

    def error_of(rules):
        monkeypatch.setattr(equal_norm_distance, "RULES", rules)
        functions = evaluators.Functions()
        used = [functions.of(part) for part in equal_norm_distance.parts(node)]
        source = functions.text + equal_norm_distance.text(node, "s", *used)
        table = functions.arrays[f"T{used[0].split('_')[1]}"]
        function = panel_arrays.function(source, "s", functions.plans)
        return equal_norm_distance.error(node, function, [table]), function(1.0, 1e-30, table)

    right, wrong = error_of(equal_norm_distance.RULES), error_of(((0.1, 2),))
    assert right[0] <= equal_norm_distance.FLOOR and abs(right[1] - 0.5) < 1e-14
    assert wrong[0] > 1e-9
    # what gives nan has no error, not an error of 0
    assert equal_norm_distance.error(node, lambda *_: math.nan, []) == math.inf
    monkeypatch.setattr(equal_norm_distance, "error", lambda *_: math.inf)
    with pytest.raises(mf.MeanFieldError, match="not compiled"):
        evaluators.Functions().of(node)


# ------------------------------------------------------------------------------------------------ coordinates


@pytest.mark.slow_with(
    "{}-names0", "{}-names1", "{}-names2", "{}-names3", "{'residual': True, 'mu': '1/2'}-names0",
    "{'residual': True, 'mu': '1/2'}-names3",
)  # fmt: skip
@pytest.mark.parametrize("names", [("K", "c"), ("gamma",), ("sigma_mu2", "sigma_y2"), ("c", "J")])
@pytest.mark.parametrize("shape", [SHAPES[0], SHAPES[1], SHAPES[3]], ids=str)
def test_coordinates_are_the_same_state(names, shape):
    theory = mf.derive("gelu", **shape)
    places = {"sigma_w": 1.5, "sigma_b": 0.25}
    exact = theory.recursion(*names).iterate(places | {"Q0": 1, "c0": 0.5}, 3)
    run = theory.propagate(**places, depth=3, correlation=0.5, quantities=names)
    for name in names:
        assert_close(getattr(run, name), [float(x[name]) for x in exact], 1e-12)
    with pytest.raises(AssertionError, match=" against "):
        assert_close(getattr(run, names[0]) * (1 + 1e-11), [float(x[names[0]]) for x in exact], 1e-12)


@pytest.mark.parametrize(
    "start",
    [
        {"K": 1.6, "c": 0.0625},
        {"K": 1.6, "K_ab": 0.1},
        {"K": 1.6, "distance": 3.0},
        {"K": 1.6, "gamma": 1 / 15},
        {"sigma_mu2": 0.1, "sigma_y2": 1.5},
    ],
)
def test_any_start(start):
    """The bias of random data at σ_w² = 1.5, σ_b² = .1: K¹ = 1.6, c¹ = 1/16 whichever way it is said."""
    theory, places = mf.derive("relu"), dict(sigma_w=math.sqrt(1.5), sigma_b=math.sqrt(0.1), depth=20)
    run = theory.propagate(**places, start=start, quantities=("gamma", "sigma_y2"))
    same = theory.propagate(**places, correlation=0, quantities=("gamma", "sigma_y2"))
    assert_close(run.gamma, same.gamma, 1e-12)
    assert_close(run.sigma_y2, same.sigma_y2, 1e-12)


WRONG = [
    (dict(start={"c": 1.2}), "c must be between -1 and 1"),
    (dict(start={"c": 0.2, "gamma": 1}), "K with one of"),
    (dict(start={"sigma_mu2": 0.2}), "sigma_mu2 and sigma_y2"),
    (dict(start={"gamma": -2.0}), "gamma must be"),
    (dict(start={"K": 1.0, "distance": 5.0}), "between 0 and 4K"),
    (dict(start={"K": 1.0, "K_ab": -1.5}), "between -K and K"),
    (dict(correlation=0.5, quantities=("K_aa", "gamma")), "of two inputs of any norms"),
    (dict(quantities=("gamma",)), "correlation"),
    (dict(correlation=0.5, quantities=("J0", "c")), "finite dimension"),
    (dict(correlation=0.5, quantities=("ceta",)), "Unknown quantity 'ceta'; the choices are K"),
]


@pytest.mark.parametrize(("given", "message"), WRONG, ids=[m for _, m in WRONG])
def test_bad_input_gets_a_sentence(given, message):
    with pytest.raises(mf.MeanFieldError, match=message):
        mf.derive("relu").propagate(sigma_w=1.0, sigma_b=0.1, depth=3, **given)


@pytest.mark.parametrize("names", [("c", "gamma"), ("log_gamma",), ("c", "K_ab"), ("sigma_mu2", "K")])
def test_coordinates_that_do_not_go_together(names):
    with pytest.raises(mf.MeanFieldError, match=r"asked for together|not available|ask for one or the other"):
        mf.derive("relu").recursion(*names)
