"""Block rules: any order of LayerNorm, Nonlinearity, Dense and skips, one and two inputs, tangent kernels, finite
N_0."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K, Theta, parameter, sigma_b, sigma_w
from meanfield.empirical import run_ensemble
from meanfield.networks.records import Block, Dense, LayerNorm, Nonlinearity, Residual, Sequential, mlp
from meanfield.symbolic.recursion import closed

W, B = np.sqrt(1.7), np.sqrt(0.3)
# specification § 8, line 15: Θ^5 at (σ_w², σ_b²) = (1.7, .3), Q0 = 1, for erf, GELU, ReLU
TANGENT = {
    (None, 0): (5.1407, 6.0951, 7.4173),
    ("pre", 0): (8.2839, 8.0306, 8.0076),
    ("act", 0): (34.3873, 31.6274, 35.8322),
    (None, 0.7): (10.3417, 25.5420, 27.0844),
    ("pre", 0.7): (10.0230, 10.4120, 10.6999),
    ("pre", 1): (18.1914, 19.3967, 20.1111),
}


@pytest.mark.slow_with("pre-0")
@pytest.mark.parametrize(("norm", "mu"), list(TANGENT))
def test_tangent_kernels(norm, mu):
    for name, expected in zip(("erf", "gelu", "relu"), TANGENT[norm, mu]):
        run = mf.derive(name, norm=norm, mu=mu).propagate(sigma_w=W, sigma_b=B, depth=5, quantities=("Theta",))
        assert abs(run.Theta[-1] - expected) < 1e-4 * expected
    printed = {("pre", 0): 7.179, ("pre", 0.7): 7.827}.get((norm, mu))  # (B.24), (E.11) as printed
    if printed:
        run = mf.derive("erf", norm=norm, mu=mu).propagate(sigma_w=W, sigma_b=B, depth=5, quantities=("Theta",))
        assert abs(run.Theta[-1] - printed) > 0.1


def test_layer_norm_recursions_symbolically():
    """R23, R25, R28, R29 with B = ⟨φ²⟩₁, A = ⟨φ′²⟩₁."""
    mu = parameter("mu")
    a, b = (mf.derive("gelu").averages()[k].subs(K, 1) for k in ("phi'^2", "phi^2"))
    pre = mf.derive("gelu", norm="pre", mu="mu")
    assert sp.expand(pre.one_input["K"] - (sigma_w**2 * b + sigma_b**2 + mu**2 * K)) == 0
    assert sp.simplify(pre.susceptibilities()["chi_J"] - (sigma_w**2 * a / K + mu**2)) == 0
    act = mf.derive("gelu", norm="act")
    assert sp.expand(act.one_input["K"] - sigma_w**2 - sigma_b**2) == 0
    averages = mf.derive("gelu").averages()
    chi = sigma_w**2 * averages["phi'^2"] / (averages["phi^2"] - averages["phi"] ** 2)
    assert sp.simplify(closed(act.susceptibilities()["chi_J"] - chi)) == 0
    wrong = sigma_w**2 * averages["phi'^2"] / averages["phi^2"]  # the mean forgotten
    assert abs(sp.N(closed(wrong - chi).subs({K: 2, sigma_w: 1}))) > 0.1


@pytest.mark.slow
def test_input_jacobian_of_a_finite_input():
    """Specification § 8, line 6; the printed (B.8) keeps the correction of layer 2 only and is refused from layer 3
    on."""
    run = mf.derive("erf").propagate(sigma_w=1, sigma_b=np.sqrt(0.1), depth=5, quantities=("J0",), input_dimension=3)
    assert np.allclose(run.J0, [1, 0.41262739, 0.27969919, 0.20998540, 0.16328079], atol=1e-8)
    assert abs(run.J0[2] - 0.28788843) > 1e-3
    pre = mf.derive("gelu", norm="pre", mu="0.8")
    run = pre.propagate(sigma_w=np.sqrt(2), sigma_b=np.sqrt(0.1), depth=4, quantities=("J0",), input_dimension=3)
    assert np.allclose(run.J0, [2, 1.8726, 1.848, 1.8444], atol=1e-4)
    wide = mf.derive("gelu").propagate(sigma_w=1.3, sigma_b=0.2, depth=30, quantities=("J0",), input_dimension=1e15)
    plain = mf.derive("gelu").propagate(sigma_w=1.3, sigma_b=0.2, depth=30)
    assert np.allclose(wide.log_J0, plain.log_J + np.log(1.3**2), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("kw", [{}, {"mu": 0.7}, {"norm": "act", "mu": 0.5}], ids=str)
def test_input_jacobian_against_networks(kw):
    report = mf.check(
        mf.derive("erf", **kw),
        sigma_w=1.2,
        sigma_b=0.3,
        width=300,
        depth=5,
        networks=300,
        quantities=("J0",),
        input_dimension=3,
    )
    assert report.passed, str(report)
    planted = mf.check(
        mf.derive("erf", **kw),
        sigma_w=1.2,
        sigma_b=0.3,
        width=300,
        depth=5,
        networks=300,
        quantities=("J0",),
        input_dimension=60,
    )
    theory = mf.derive("erf", **kw).propagate(sigma_w=1.2, sigma_b=0.3, depth=5, quantities=("J0",), input_dimension=3)
    other = mf.derive("erf", **kw).propagate(sigma_w=1.2, sigma_b=0.3, depth=5, quantities=("J0",), input_dimension=60)
    assert planted.passed and abs(theory.J0[-1] / other.J0[-1] - 1) > 0.03  # N_0 matters, and both are right


PHI = Nonlinearity("erf")
ORDERS = {
    "norm last": Sequential((mlp("erf"), LayerNorm())),
    "norm after the skip, fixed gains": Sequential((mlp("erf", mu="1/2"), LayerNorm(affine=False))),
    "norm before the skip": Sequential((LayerNorm(affine=False), mlp("gelu", mu="1/2"))),
    "skip without weights": Sequential((Residual(Sequential((LayerNorm(), PHI)), "1/2"), Dense())),
    "twice": Sequential((LayerNorm(), Nonlinearity("gelu"), LayerNorm(), Dense())),
    "norm between": Sequential((Nonlinearity("tanh"), LayerNorm(), Nonlinearity("gelu"), Dense())),
    "two dense": Residual(Sequential((LayerNorm(), Dense(), Nonlinearity("relu"), Dense())), 1),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "order", [pytest.param(o, marks=[pytest.mark.slow] * (o in ("norm between", "twice"))) for o in ORDERS]
)
def test_any_order_of_blocks_against_networks(order):
    """K, J and Θ within 4 standard errors where they are derived; the plain layer's predictions fail."""
    theory = mf.derive(architecture=ORDERS[order])
    names = tuple(n for n in ("K", "J", "Theta") if n in theory.one_input.names)
    report = mf.check(theory, sigma_w=1.4, sigma_b=0.4, width=200, depth=6, networks=150, quantities=names)
    assert report.passed, str(report)
    ours, plain = (
        t.propagate(sigma_w=1.4, sigma_b=0.4, depth=6, quantities=names) for t in (theory, mf.derive("tanh"))
    )
    for name in names:
        unit = getattr(ours, name) if name != "K" else np.ones(6)
        rows = [r for r in report.rows if r.quantity == name and r.layer > 1]
        measured = np.array([r.measured * unit[r.layer - 1] for r in rows])
        error = np.array([r.standard_error * unit[r.layer - 1] for r in rows])
        gap = np.abs(measured - getattr(plain, name)[1:])
        assert np.any(gap > 4 * error + 1e-9), name


@pytest.mark.fast_with("{'norm': 'act', 'mu': '1/2'}")
@pytest.mark.parametrize(
    "kw", [{"norm": "pre"}, {"norm": "act"}, {"norm": "pre", "mu": 1}, {"norm": "act", "mu": "1/2"}], ids=str
)
def test_correlation_maps_with_layer_norm_against_networks(kw):
    report = mf.check(
        mf.derive("gelu", **kw), sigma_w=1.3, sigma_b=0.3, width=300, depth=8, networks=120, correlation=0.3
    )
    assert report.passed, str(report)
    run = mf.derive("gelu", **kw).propagate(sigma_w=1.3, sigma_b=0.3, depth=8, correlation=0.36)
    rows = [r for r in report.rows if r.quantity == "K_ab"]
    assert max(abs(r.measured - run.K_ab[r.layer - 1]) / r.standard_error for r in rows) > 4


@pytest.mark.slow
def test_equal_inputs_stay_equal():
    for name, kw in (("tanh", {"norm": "pre"}), ("erf", {"norm": "act", "mu": 1})):
        run = mf.derive(name, **kw).propagate(sigma_w=1.3, sigma_b=0.3, depth=8, correlation=1.0)
        assert np.allclose(run.c, 1, atol=1e-12)


@pytest.mark.slow
def test_layer_dependent_skip_strength():
    """μ_l per layer in theory and in networks."""
    depth, theory = 8, mf.derive("erf", mu="mu")
    mu = np.linspace(0.2, 1.0, depth)
    run = theory.propagate(sigma_w=np.full(depth, 1.2), sigma_b=0.3, depth=depth, mu=mu, layerwise=True)
    by_hand = 1.2**2 + 0.09
    a = theory.averages()["phi^2"]
    for layer in range(1, 4):
        by_hand = 1.44 * float(sp.N(a.subs(K, sp.Float(by_hand, 25)), 20)) + 0.09 + mu[layer] ** 2 * by_hand
        assert abs(run.K[layer] / by_hand - 1) < 1e-12
    nets = run_ensemble(mlp("erf", mu="mu"), sigma_w=1.2, sigma_b=0.3, width=300, depth=depth, networks=150, mu=mu)
    assert np.all(np.abs(nets.estimate("K").z(run.K)) < 4)
    shifted = theory.propagate(sigma_w=np.full(depth, 1.2), sigma_b=0.3, depth=depth, mu=np.roll(mu, 1), layerwise=True)
    assert np.any(np.abs(nets.estimate("K").z(shifted.K)) > 4)


def test_a_norm_between_two_nonlinearities_keeps_its_digits():
    """Panel quadrature at every call against certified values, K from 1e-4 to 1e4."""
    theory = mf.derive(architecture=ORDERS["norm between"])
    step = theory.one_input["K"].subs({sigma_w: 1, sigma_b: 0})
    for k in (1e-4, 0.3, 7.0, 1e4):
        run = theory.propagate(sigma_w=1.0, sigma_b=0.0, depth=2, input_norm=k, quantities=("K",))
        certified = float(sp.N(step.subs(K, sp.Rational(k)), 18))
        assert abs(run.K[1] / certified - 1) < 1e-12
        assert abs(run.K[1] / certified * 1.0001 - 1) > 1e-12


def test_what_does_not_close_is_refused():
    with pytest.raises(mf.MeanFieldError, match="Theta is not derived here"):
        mf.derive(architecture=Sequential((mlp("erf", mu="1/2"), LayerNorm()))).recursion("Theta")
    with pytest.raises(mf.MeanFieldError, match="architecture='batchnorm_mlp'"):
        mf.derive("erf", norm="batch")
    with pytest.raises(mf.MeanFieldError, match="does not end in Dense"):
        mf.derive(architecture=Sequential((Dense(), PHI))).recursion("K")
    with pytest.raises(mf.MeanFieldError, match="J0 is of an input of finite dimension"):
        mf.derive("erf").recursion("J", "J0")
    assert Theta in mf.derive("erf", norm="pre").one_input["Theta"].free_symbols


@pytest.mark.parametrize("weights", ["orthogonal", "mixed"])
def test_haar_weights_share_the_limit_of_infinite_width(weights):
    """[orthogonal_weights] (4.1)–(4.3): K, J, Θ, K_ab and J0 are those of Gaussian weights."""
    for kw in ({}, {"residual": True, "norm": "pre"}):
        ours, gaussian = mf.derive("gelu", weights=weights, **kw), mf.derive("gelu", **kw)
        assert ours.one_input == gaussian.one_input and ours.two_inputs == gaussian.two_inputs
    with pytest.raises(mf.MeanFieldError, match="the choices are gaussian, orthogonal, mixed"):
        mf.derive("gelu", weights="sparse")


@dataclass(frozen=True)
class Unruled(Block):
    """A record that nobody wrote a rule for."""


def test_records_without_a_rule_are_refused_by_name():
    theory = mf.derive(architecture=Sequential((PHI, Unruled(), Dense())))
    with pytest.raises(
        mf.MeanFieldError, match=r"has no rule in the theory yet; finite networks with it can be measured"
    ):
        theory.recursion("K")


def test_two_norms_behind_a_layer_norm_of_activations():
    """K_ab of a ReLU at K_aa = 4, K_bb = 1/4 behind a LayerNorm: each mean belongs to its own position. The arc-cosine
    kernel, written down; with the means of the two exchanged it would be 1.6 off."""
    A, B, c, w, b = 4.0, 0.25, 0.4, 1.25, 0.5
    run = mf.derive("relu", norm="act").propagate(
        sigma_w=w, sigma_b=b, depth=2, start={"K_aa": A, "K_bb": B, "K_ab": c}, quantities=("K_aa", "K_bb", "K_ab")
    )
    angle = math.acos(c)  # √(AB) = 1
    product = (math.sin(angle) + (math.pi - angle) * c) / (2 * math.pi)
    means = [math.sqrt(K / (2 * math.pi)) for K in (A, B)]
    spread = math.sqrt((A / 2 - means[0] ** 2) * (B / 2 - means[1] ** 2))
    assert run.K_ab[1] == pytest.approx(w**2 * (product - means[0] * means[1]) / spread + b**2, rel=1e-13)
    exchanged = product - means[0] ** 2 - means[1] ** 2 + means[0] * means[1]
    assert abs(run.K_ab[1] - w**2 * exchanged / spread - b**2) > 1.6
    assert run.K_aa[1] == run.K_bb[1] == pytest.approx(w**2 + b**2, rel=1e-14)
