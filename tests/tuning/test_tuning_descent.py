"""Lines of the specification of [autoinit] about losses, steps and regions: by SymPy, by the map of one layer, by drawn
networks."""

import math

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import J, K, parameter, sigma_w
from meanfield.empirical import draw_network
from meanfield.networks.architectures import preln, resnet
from meanfield.tuning.network_gains.backward import Blocks, state


def at(phi: str, sigma_w: float, sigma_b: float, depth: int):
    gains = np.ones((depth, 1, 2))
    return state(Blocks(mf.networks.mlp(phi), {}), gains * [sigma_w, sigma_b], gains, 1.0)


@pytest.mark.parametrize("lam", [0.5, 2.0])
def test_the_kernel_loss_of_relu_without_biases_is_a_multiple_of_the_other(lam):
    """Line 6: K^{l+1}/K^l = J^{l,l+1}, so JKL = (1 + λ) JLL; with biases it is not."""
    now = at("relu", 2.0, 0.0, 12)
    assert now.loss("JKL", lam) == pytest.approx((1 + lam) * now.loss("JLL", lam), rel=1e-12)
    biased = at("relu", 2.0, 0.5, 12)
    assert biased.loss("JKL", lam) != pytest.approx((1 + lam) * biased.loss("JLL", lam), rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("w", "ratio"), [(2.0, 0.5004), (1.0, 0.0011)])
def test_what_the_kernel_adds_in_the_two_phases(w, ratio):
    """Line 24: σ_b = .5, λ = .5, 200 layers."""
    now = at("relu", w, 0.5, 201)
    assert now.loss("JKL", 0.5) / now.loss("JLL", 0.5) - 1 == pytest.approx(ratio, abs=6e-5)


@pytest.mark.slow
def test_one_step_of_a_phi_of_degree_1_by_sympy():
    """Line 10, for any slope α below 0: the engine's J gives the maps of s = √J, and the rates with s = 1 behind."""
    a, eta, s, alpha = (sp.Symbol(x, positive=True) for x in ("a", "eta", "s", "alpha"))
    theory = mf.derive("leaky_relu", alpha="alpha")
    chi = mf.symbolic.closed(theory.recursion("J")["J"] / J).subs(parameter("alpha"), alpha)
    assert not chi.has(K)
    A = sp.simplify(chi / sigma_w**2)
    assert sp.simplify(A - (1 + alpha**2) / 2) == 0
    w = sp.Symbol("w", positive=True)
    root = a * w * sp.sqrt(A)
    for loss, step in (
        (sp.log(root**2) ** 2 / 2, lambda s: s - 2 * A * eta * w**2 * sp.log(s**2) / s),
        ((root**2 - 1) ** 2 / 2, lambda s: s - 2 * A * eta * w**2 * s * (s**2 - 1)),
    ):
        moved = root.subs(a, a - eta * loss.diff(a))
        assert sp.simplify((moved - step(s)).subs(a, s / (w * sp.sqrt(A)))) == 0
        assert sp.simplify((moved - step(2 * s)).subs(a, s / (w * sp.sqrt(A)))) != 0  # the control
        (rate,) = sp.solve(step(s) - 1, eta)
        numbers = {alpha: sp.Rational(1, 10), w: 2}
        J_0 = (root**2).subs(a, 1).subs(numbers)
        kind = "JLL" if loss.has(sp.log) else "JSL"
        found = mf.tuning.tuning_rates("leaky_relu(0.1)", sigma_w=2, loss=kind).one_step
        assert found == pytest.approx(float(rate.subs(numbers).subs(s, sp.sqrt(J_0))), rel=1e-12)


#: [autoinit] figures 1 and 5 by iterating the maps, a grid of .024 %: σ_w → first and last rate of JLL and of JSL
ETA = {
    0.1: (0.057641, 102.767, 0.341005, 103.544),
    0.25: (0.009178, 16.4404, 0.039352, 16.5685),
    0.5: (0.002222, 4.17633, 0.006799, 4.42211),
    0.75: (0.000899, 1.85657, 0.002108, 1.96537),
    1.0: (0.000385, 1.02749, 0.000707, 1.03550),
    1.25: (0.000026, 0.66827, 0.000037, 0.66264),
    1.4: (None, 0.53276, None, 0.52827),
    1.5: (None, 0.45666, None, 0.49133),
    1.75: (0.000148, 0.33551, 0.000092, 0.33813),
    2.0: (0.000221, 0.25687, 0.000117, 0.26298),
    2.5: (0.000242, 0.16707, 0.000100, 0.15056),
    3.0: (0.000227, 0.11603, 0.000077, 0.06348),
    4.0: (0.000189, 0.06422, 0.000047, 0.01786),
    5.0: (0.000161, 0.04177, 0.000031, 0.00696),
    7.0: (0.000125, 0.02131, 0.000016, 0.00174),
    10.0: (0.000098, 0.01044, 0.000008, 0.00041),
}


def test_the_edges_of_the_region_are_those_of_the_table():
    """Line 11: within .1 % and the digits of the table."""
    sigma_w = np.array(sorted(ETA))
    for loss, at_low, at_high in (("JLL", 0, 1), ("JSL", 2, 3)):
        for place, inside in ((at_low, 1), (at_high, -1)):
            edges = [(w, ETA[w][place]) for w in sigma_w if ETA[w][place] is not None]
            w, eta = (np.array(x) for x in zip(*edges))
            slack = 1e-3 * eta + 0.5 * np.where(eta < 1, 1e-6 if place in (0, 2) else 1e-5, 1e-3)
            for sign, expected in ((inside, True), (-inside, False)):
                J = mf.tuning.tuning_region("relu", sigma_w=w, rate=eta + sign * slack, loss=loss)
                good = (J > 0.8) & (J < 1.25)
                assert (good == expected).all(), (loss, place, w[good != expected])


def weights_of(width: int, depth: int, seed: int) -> list[np.ndarray]:
    drawn = draw_network(mf.networks.mlp("relu"), sigma_w=1, sigma_b=0, width=width, depth=depth, seed=seed)
    found = {name.layer: w for name, w in drawn.parameters.items() if name.name == "W"}
    return [found[l] / math.sqrt(width) for l in sorted(found)]


def own_jacobians(width: int, depth: int, seed: int) -> np.ndarray:
    """J^{l,l+1} of a ReLU network with σ_w = 1, by NumPy: the masks do not depend on gains > 0."""
    from meanfield.tuning.network_gains.tune import random_inputs

    first, *later = weights_of(width, depth, seed)
    z, found = first @ random_inputs(1, 1, 1.0, width, seed)[0][0], []
    for W in later:
        found.append(((W * (z > 0)) ** 2).sum() / width)
        z = W @ np.maximum(z, 0)
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["JLL", "JSL"])
def test_networks_agree_with_the_map_over_the_plane(loss):
    """Line 12: 1200 points of the rate–σ_w plane, ten layers of a network of width 500 each: at least 98 % of (point,
    layer) end on the side of the 1-D map; the map of another activation does not."""
    sigma_w, rate = np.linspace(0.1, 5, 40), np.geomspace(1e-3, 10, 30)
    w, eta = (x.ravel() for x in np.meshgrid(sigma_w, rate))

    def inside(J):
        return (J > 0.8) & (J < 1.25)

    mapped = inside(mf.tuning.tuning_region("relu", sigma_w=w, rate=eta, loss=loss))
    own = 2 * own_jacobians(500, 11, 3)  # of s = √J: the map of σ_w² J/⟨φ′²⟩, one half
    # the step is s → s − 2A'ησ_w² …, A' = own/2 of this layer: that of ReLU at σ_w √own and η σ_w²
    ends = np.array(
        [inside(mf.tuning.tuning_region("relu", sigma_w=w * math.sqrt(x), rate=eta, loss=loss)) for x in own]
    )
    assert (ends == mapped).mean() >= 0.98
    other = inside(mf.tuning.tuning_region("linear", sigma_w=w, rate=eta, loss=loss))
    assert (ends == other).mean() < 0.98


def test_the_descent_of_a_network_is_that_map():
    """What the plane above stands on: each layer's J of a drawn ReLU network moves as the map from its own J(0)."""
    own, w, eta = own_jacobians(64, 6, 3), 1.7, 0.06
    found = mf.tune("relu", depth=6, width=64, sigma_w=w, method="gradient", rate=eta, steps=5, tolerance=0, seed=3)
    one = [float(mf.tuning.tuning_region("relu", sigma_w=w * math.sqrt(2 * x), rate=eta, steps=5)) for x in own]
    assert np.exp(found.after).tolist() == pytest.approx(one, rel=1e-10)


def test_one_step_with_rates_of_a_networks_own():
    """Line 10: (√J − 1)/(2√J log J), J of the drawn network, ends every layer at J = 1 at any width."""
    J_0 = 4 * own_jacobians(50, 7, 8)
    rates = [1.0, *(np.sqrt(J_0) - 1) / (2 * np.sqrt(J_0) * np.log(J_0))]
    settings = {"depth": 7, "width": 50, "sigma_w": 2, "method": "gradient", "steps": 1, "tolerance": 0, "seed": 8}
    assert np.abs(mf.tune("relu", rate=rates, **settings).after).max() < 1e-12
    wide = mf.tuning.tuning_rates("relu", sigma_w=2).one_step
    assert np.abs(mf.tune("relu", rate=wide, **settings).after).max() > 1e-3  # that of infinite width


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "mean", "error"), [(1, 1.7324, 0.02), (5, 1.1537, 0.01), (20, 1.0001, 0.001)])
def test_relu_of_width_500_from_2(steps, mean, error):
    """Line 9: η = .05."""
    settings = {"depth": 11, "width": 500, "sigma_w": 2, "method": "gradient", "rate": 0.05, "tolerance": 0}
    assert np.exp(mf.tune("relu", steps=steps, **settings).after).mean() == pytest.approx(mean, abs=error)


@pytest.mark.slow
def test_tanh_networks_follow_the_theory():
    """Line 14: mean J behind 20 steps from σ_w = 2, eight networks of width 250; the printed gradient says 1.2489."""
    settings = {"depth": 11, "sigma_w": 2, "method": "gradient", "rate": 0.05, "steps": 20, "tolerance": 0}
    theory = float(np.exp(mf.tune("tanh", **settings).after).mean())
    means = [float(np.exp(mf.tune("tanh", width=250, seed=k, **settings).after).mean()) for k in range(8)]
    error = np.std(means, ddof=1) / math.sqrt(8)
    assert theory == pytest.approx(1.0851, abs=5e-4)
    assert abs(np.mean(means) - theory) < 4 * error and 4 * error < 0.03 < 1.2489 - theory


@pytest.mark.slow
def test_the_explosion_of_the_specification():
    """tanh, σ_w = 4, width 300, depth 50: own-layer terms near 3.6, gradients of 10⁶; the sweep is offered."""
    settings = {"depth": 50, "width": 300, "sigma_w": 4, "probes": 8}
    found = mf.tune("tanh", method="gradient", steps=3, **settings)
    assert found.status == "exploded" and "sweep" in found.message and found.trace[0]["gradient"] > 1e6
    assert mf.tune("tanh", **settings | {"probes": None}).converged


BLOCKS = {"norm": preln("relu", mu="1/2"), "skip": resnet("tanh", mu="1/2")}


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
@pytest.mark.parametrize("loss", ["JLL", "JSL"])
def test_the_descent_of_a_theory_behind_skips_and_norms(name, loss):
    """It ends at J^{l,l+1} = 1 for every block, which `propagate` sees in the record that is returned."""
    settings = {"depth": 9, "sigma_w": 1.8, "method": "gradient", "loss": loss, "steps": 4000}
    found = mf.tune(BLOCKS[name], rate=0.02, tolerance=1e-12, **settings)
    assert found.status == "tuned"
    values = {k: np.array(v) for k, v in found.values.items()}
    run = mf.derive(architecture=found.network).propagate(depth=9, layerwise=True, **values)
    assert np.abs(np.diff(run.log_J)).max() < 1e-5 and float(run.log_J[-1]) == pytest.approx(found.log_J[1], abs=1e-8)
    assert 0 < found.rate_bound < math.inf


@pytest.mark.slow
def test_the_sweep_of_a_theory():
    """Plain layers by division, a skip of strength ½ by one unknown, skips of strength 1 within the budget."""
    plain = mf.tune("erf", depth=12, sigma_w=2.5)
    assert plain.status == "tuned" and plain.worst < 1e-12
    skip = mf.tune(resnet("relu", mu="1/2"), depth=12, sigma_w=0.5)
    assert skip.status == "tuned" and skip.worst < 1e-8
    assert skip.gains[1:, 0, 0] * 0.5 == pytest.approx(np.full(11, math.sqrt(1.5)), rel=1e-8)  # σ²/2 + ¼ = 1
    within = mf.tune(resnet("relu"), depth=12)
    assert within.status == "within budget" and within.log_J[1] == pytest.approx(1, rel=1e-6)
    assert within.scale == pytest.approx(math.sqrt(2 * math.expm1(1 / 11)), rel=1e-6)  # (1 + s²/2)^11 = e


@pytest.mark.slow
def test_a_rate_just_below_the_bound_holds_and_one_just_above_does_not():
    settings = {"depth": 12, "sigma_w": 2, "method": "gradient"}
    bound = mf.tune("erf", rate=0.05, tolerance=1e-10, **settings).rate_bound
    below, above = (mf.tune("erf", rate=f * bound, tolerance=1e-12, steps=3000, **settings) for f in (0.95, 1.05))
    assert below.status == "tuned" and above.status == "not converged" and "must stay below" in above.message


def test_the_loss_of_unit_skips_has_no_minimum():
    found = mf.tune(resnet("relu"), depth=6, method="gradient", rate=0.05, steps=20)
    assert any("until they are empty" in one for one in found.caveats)
    assert (found.gains[1:] < 1).any() and not mf.tune("erf", depth=4, method="gradient", steps=2).caveats


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["JLL", "JSL"])
def test_the_panels_of_figures_1_and_5(loss):
    """Dots on the left are one step of the map from each layer's own J(0); squares on the right are where it ends."""
    from derivations.autoinit import figures

    own = own_jacobians(64, 6, 0)
    for w, dots in zip((1.0, 2.0), figures.one_step(loss, width=64, depth=6, at=(1.0, 2.0))):
        rate = mf.tuning.tuning_rates("relu", sigma_w=w, loss=loss).one_step
        at = {"rate": rate, "steps": 1, "loss": loss}
        one = [float(mf.tuning.tuning_region("relu", sigma_w=w * math.sqrt(2 * x), **at)) for x in own]
        assert dots.tolist() == pytest.approx(one, rel=1e-10)
    sigma_w, rate, J = figures.region(loss)
    assert J.size == 1200 and (np.diff(sigma_w) > 0).all()
    edge = [min(one.edge, one.edge * 2 / max(one.J - 1, 1e-12) if loss == "JSL" else math.inf) for one in (
        mf.tuning.tuning_rates("relu", sigma_w=float(w), loss=loss) for w in sigma_w)]  # fmt: skip
    well = (rate[:, None] < 0.9 * np.array(edge)) & (rate[:, None] > 0.6)
    assert ((J > 0.8) & (J < 1.25))[well].all()
    assert not ((J > 0.8) & (J < 1.25))[rate[:, None] > 10 * np.array(edge)].any()
