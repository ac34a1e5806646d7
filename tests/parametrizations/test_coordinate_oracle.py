"""The oracle of coordinate checks against itself: gradients by differences, steps by what the loss falls by, closed
forms by neurons that are drawn. Every comparison has an error it must find."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from tests.parametrizations.coordinate_cases import CHI, ETA, X, assert_within, settings_of
from tests.parametrizations.coordinate_networks import differences, draw, gradients, loss, measure, polar, rms, steps
from tests.parametrizations.coordinate_nodes import Parameters, Setting, chain, denses, gated, phi, pre_norm, residual
from tests.parametrizations.coordinate_theory import chain_step, moments, tangent_shares

HERE = Setting(S=0.6, M=0.8, Sb=0.3, Mb=1.3, eta=0.01, eta_b=0.02)
SMALL = {
    "chain, tanh": chain(5, "tanh", [HERE] * 4),
    "chain, relu": chain(5, "relu", [HERE] * 4),
    "residual, gelu": residual(5, "gelu", [HERE] * 4, 0.7),
    "pre-norm, tanh": pre_norm(5, "tanh", [HERE] * 6, 0.7, 2),
    "gated, gelu": gated(5, "gelu", [HERE] * 8, 2),
    "gated, no norm": gated(5, "tanh", [HERE] * 5, norm=False),
}
INPUTS = np.random.default_rng(1).standard_normal((3, 4))
CHIS = np.array([1.0, -0.5, 2.0])


# ------------------------------------------------------------------------------------------------- gradients and steps


def assert_gradients(ours, theirs) -> None:
    for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        for a, b in zip(one, other, strict=True):
            miss = np.abs(a - b).max() / np.abs(b).max()
            assert miss < 1e-7, f"the gradient of Dense {k} is off by {miss:.1e} of its largest entry"


@pytest.mark.parametrize("name", SMALL)
def test_gradients_are_those_of_differences(name):
    weights = draw(SMALL[name], 4, np.random.default_rng(2))
    found, _ = gradients(SMALL[name], weights, INPUTS, CHIS)
    by_differences = differences(SMALL[name], weights, INPUTS, CHIS)
    assert_gradients(found, by_differences)
    wrong = [(W / HERE.M, b) for W, b in found]  # by M·W, which is not what is stored
    with pytest.raises(AssertionError, match="the gradient of Dense 0 is off"):
        assert_gradients(wrong, by_differences)


def test_polar_factors_are_those_of_the_full_matrix():
    rng = np.random.default_rng(3)
    for inputs, out, size in ((3, 7, 5), (3, 1, 6), (1, 4, 4), (6, 4, 3)):
        left, right = rng.standard_normal((inputs, out)), rng.standard_normal((inputs, size))
        U, _, V = np.linalg.svd(left.T @ right, full_matrices=False)
        rank = min(inputs, out, size)
        np.testing.assert_allclose(polar(left, right), U[:, :rank] @ V[:rank], atol=1e-12)
    twice = polar(np.vstack((left, left)), np.vstack((right, right)))
    np.testing.assert_allclose(twice, polar(left, right), atol=1e-12)
    repeated = polar(np.ones((2, 4)), np.ones((2, 9)))  # of rank one
    np.testing.assert_allclose(repeated, np.full((4, 9), 1 / 6), atol=1e-12)
    assert not polar(np.zeros((2, 3)), np.ones((2, 4))).any()


def norm_of(rule: str, eps: float, g: np.ndarray) -> float:
    """By how much a step of one unit along this rule lowers a linear loss whose gradient is g."""
    if rule == "sgd":
        return float((g**2).sum())
    if rule == "adam":
        return float((g**2 / np.maximum(np.abs(g) + eps, 1e-300)).sum())
    return float(np.linalg.norm(g)) if g.ndim == 1 else float(np.linalg.norm(g, "nuc"))


def assert_lowers(body, eta: float, planted: float = 1.0) -> None:
    """The loss falls by Σ eta‖g‖² (SGD), eta‖g‖₁ (Adam, eps = 0), eta‖g‖_nuclear (Muon) to first order in eta."""
    weights = draw(body, 4, np.random.default_rng(4))
    found, seen = gradients(body, weights, INPUTS, CHIS)
    changes = steps(body, found, seen)
    sides = [
        loss(body, [Parameters(w.W + sign * c.W, w.b + sign * c.b) for w, c in zip(weights, changes)], INPUTS, CHIS)
        for sign in (1, -1)
    ]
    expected = 0.0
    for node, (gW, gb) in zip(denses(body), found, strict=True):
        s = node.setting
        expected += s.eta * norm_of(s.rule, s.eps, gW) + s.eta_b * planted * norm_of(s.rule_of_bias, s.eps, gb)
    miss = abs((sides[1] - sides[0]) / (2 * expected) - 1)
    assert miss < 1e-6, f"the loss falls by another amount than the gradients' norms say, relative {miss:.1e}"


RULES = {
    "sgd": {"rule": "sgd"},
    "adam": {"rule": "adam"},
    "adam, eps": {"rule": "adam", "eps": 0.1},
    "muon": {"rule": "muon"},
    "muon throughout": {"rule": "muon", "bias_rule": "muon"},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("build", [chain, pre_norm, gated], ids=["chain", "pre-norm", "gated"])
def test_a_step_lowers_the_loss_by_the_norm_of_its_rule(build, rule):
    setting = replace(HERE, eta=3e-6, eta_b=2e-6, **RULES[rule])
    body = build(6, "tanh", [setting] * (8 if build is gated else 6))
    assert_lowers(body, 3e-6)
    with pytest.raises(AssertionError, match="the loss falls by another amount"):
        assert_lowers(body, 3e-6, planted=1.1)


def test_adam_leaves_where_it_is_what_has_no_gradient():
    setting = replace(HERE, rule="adam", eta=0.3, eta_b=0.3)
    body = chain(40, "relu", [setting] * 3)
    weights = draw(body, 4, np.random.default_rng(6))
    found, seen = gradients(body, weights, INPUTS[:1], CHIS[:1])
    first, _, last = steps(body, found, seen)
    silent = seen[0].z[0] < 0
    assert 5 < silent.sum() < 35
    assert not first.W[silent].any() and not first.b[silent].any() and not last.W[0, seen[1].z[0] < 0].any()
    np.testing.assert_allclose(np.abs(first.W[~silent]), 0.3)


def test_parts_add_up_and_what_is_given_does_not_move():
    """Dense 0 moves by its own part alone, and so does every Dense if no other is trained; Df is its two parts."""
    settings = [replace(HERE, eta=ETA, eta_b=ETA)] * 4
    all_of_them = measure(chain(30, "gelu", settings), INPUTS, 3, 7, CHIS)
    np.testing.assert_allclose(all_of_them.own[:, 0], all_of_them.total[:, 0], rtol=1e-6)
    np.testing.assert_allclose(all_of_them.Df, all_of_them.Df_own + all_of_them.Df_rest, rtol=1e-12)
    assert (np.abs(all_of_them.own[:, 2] / all_of_them.total[:, 2] - 1) > 0.1).all()
    alone = [replace(one, eta=ETA * (k == 2), eta_b=ETA * (k == 2)) for k, one in enumerate(settings)]
    third = measure(chain(30, "gelu", alone), INPUTS, 3, 7, CHIS)
    np.testing.assert_allclose(third.own[:, 2], third.total[:, 2], rtol=1e-6)
    assert not third.total[:, :2].any() and (np.abs(third.Df_own) < 1e-12 * np.abs(third.Df_rest)).all()
    np.testing.assert_allclose(third.own[:, 2], all_of_them.own[:, 2], rtol=1e-5)
    value, error = rms(third.total)
    assert value.shape == error.shape == (4,) and (error[2:] > 0).all() and not error[:2].any()


# -------------------------------------------------------------------------------------------------------- closed forms


def assert_moments(name: str, K: float, ours) -> None:
    """Every average again by SciPy's adaptive quadrature of NumPy's phi, half lines apart."""
    zero = -0.7517915246935645 if name == "gelu" else 0.0
    of = (
        lambda v, s: v**2,
        lambda v, s: abs(v),
        *(lambda v, s, k=k: abs(s) ** k for k in (1, 2, 3, 4)),
        lambda v, s: s != 0,
    )
    ends = sorted({-13.0, max(zero / np.sqrt(K), -12.9), 0.0, 13.0})
    for field, value, f in zip(ours._fields, ours, of, strict=True):
        parts = [
            quad(lambda t, f=f: f(*phi(name, np.sqrt(K) * t)) * norm.pdf(t), a, b, limit=200, epsabs=1e-13)[0]
            for a, b in pairwise(ends)
        ]
        assert abs(sum(parts) / value - 1) < 1e-9, f"{field} of {name} at K = {K} is {sum(parts)}, and not {value}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_averages_by_another_quadrature(name):
    for K in (0.04, 1.0, 9.0):
        ours = moments(name, K)
        assert_moments(name, K, ours)
        with pytest.raises(AssertionError, match=f"slope3 of {name} at K = {K} is"):
            assert_moments(name, K, ours._replace(slope3=ours.slope3 * (1 + 1e-8)))
    np.testing.assert_allclose(moments("relu", 2.0), (1, np.pi**-0.5, 0.5, 0.5, 0.5, 0.5, 0.5), rtol=1e-14)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_shares_of_the_tangent_kernel_are_the_squares(name):
    """⟨(Delta z)²⟩ = ⟨delta²⟩ (Theta² + B) under SGD, by two recursions."""
    settings = settings_of("sgd", True, 100)
    theory, shares = chain_step(name, settings, 100, X, CHI), tangent_shares(name, settings, 100, X)
    squares = [delta * (Theta**2 + B) for (Theta, B), delta in zip(shares, theory.delta)]
    np.testing.assert_allclose(squares, theory.total[:-1], rtol=1e-13)


def neurons(name: str, settings: list[Setting], n: int, count: int, rng: np.random.Generator) -> list[np.ndarray]:
    """own², total² of every Dense but the readout and (Df_own, Df_rest) from `count` neurons a layer, drawn one by one:
    z, q and xi are Gaussian of the variances that the neurons before (or above) have; no average is written down."""
    drawn, a, size = [], X, 1.0
    for one in settings[:-1]:
        K = one.M**2 * one.S**2 * (a**2).sum() * size + one.Mb**2 * one.Sb**2
        z = np.sqrt(K) * rng.standard_normal(count)
        drawn.append((*phi(name, z), a, size))
        a, size = drawn[-1][0], n / count
    q, above = CHI * settings[-1].M * settings[-1].S * rng.standard_normal(count), None
    deltas, qs = [], []
    for k in reversed(range(len(settings) - 1)):
        if above is not None:
            s = settings[k + 1]
            q = s.M * s.S * np.sqrt(n * (above**2).mean()) * rng.standard_normal(count)
        above = drawn[k][1] * q
        deltas.insert(0, above)
        qs.insert(0, q)
    own_squares, squares, Da = [], [], None
    for k, one in enumerate(settings):
        last = k == len(settings) - 1
        delta = np.array([CHI]) if last else deltas[k]
        a, size = (drawn[-1][0], n / count) if last else drawn[k][2:]
        step = {
            "sgd": -one.eta * one.M**2 * (a**2).sum() * size * delta,
            "adam": -one.eta * one.M * np.abs(a).sum() * size * np.sign(delta),
            "muon": -one.eta * one.M * np.sqrt((a**2).sum() * size) * delta
            / np.sqrt((delta**2).mean() * (1 if last else n)),
        }
        own = step[one.rule]
        own = own - one.eta_b * one.Mb * (one.Mb * delta if one.rule_of_bias == "sgd" else np.sign(delta))
        if last:
            return [np.array(own_squares), np.array(squares), np.array([own[0], n * (qs[-1] * Da).mean() / CHI])]
        Dz = own
        if k:
            r = (qs[k - 1] * Da).mean() / (delta**2).mean()
            Dz = own + r * delta + one.M * one.S * np.sqrt(n * (Da**2).mean()) * rng.standard_normal(count)
        own_squares.append((own**2).mean())
        squares.append((Dz**2).mean())
        Da = drawn[k][1] * Dz
    raise AssertionError("a network ends with its readout")


@pytest.mark.parametrize("rule", ["sgd", "adam", "mixed"])
@pytest.mark.parametrize("name", ["tanh", "relu", "gelu"])
def test_closed_forms_are_the_averages_over_drawn_neurons(name, rule):
    settings, n, count = settings_of(rule, True, 400), 400, 4000
    rng = np.random.default_rng(8)
    own, total, outputs = zip(*(neurons(name, settings, n, count, rng) for _ in range(60)))
    for planted in ("", "r", "xi", "root" if rule != "sgd" else "M"):
        theory = chain_step(name, settings, n, X, CHI, planted)
        rows = (own, theory.own[:-1]), (total, theory.total[:-1]), (outputs, (theory.Df_own, theory.Df_rest))
        if planted:
            with pytest.raises(AssertionError, match="relative gaps"):
                for k, row in enumerate(rows):
                    assert_within(*row, 20 / count, f"neurons, {k}")
        else:
            for k, row in enumerate(rows):
                assert_within(*row, 20 / count, f"neurons, {k}")
