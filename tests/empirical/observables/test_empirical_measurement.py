"""Rows of a plan against brute force on single networks, and the allowances on made-up ensembles."""

from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.base.answers.results import Estimate, MeanFieldError
from meanfield.comparison.allowances import compare, narrower
from meanfield.empirical import run_ensemble
from meanfield.empirical.ensemble import scaleout
from meanfield.empirical.ensemble.one_run import Running
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.observables.inputs import Inputs
from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.observables.wanted import Measurement
from meanfield.empirical.random.buffers import Buffers
from meanfield.networks.records import BatchNorm, Dense, LayerNorm, Nonlinearity, Pool, Residual, Sequential, mlp

PHI = Nonlinearity("tanh")
TOKENS = Residual(Sequential((LayerNorm(), Dense(axis="tokens", expand=2), PHI, Dense(axis="tokens"))), 1)
BLOCKS = {
    "tokens": (Sequential((TOKENS, PHI, Dense())), 3),
    "batch norm": (Residual(Sequential((BatchNorm(), PHI, Dense())), "0.5"), 1),
    "two Dense and a shortcut": (Residual(Sequential((LayerNorm(), Dense(expand=2), PHI, Dense())), 1, Dense()), 1),
    "pool": (Sequential((PHI, Pool(2), BatchNorm(affine=False), Dense())), 1),
}
PROBES, DEPTH, WIDTH, INPUTS = 3000, 3, 4, 2


def _brute(ensemble, x):
    """Per layer and parameter group, Σ_{p,i} |∂z^L_{p,i}/∂θ|²/(P N), from one gradient per output."""
    network, found = ensemble.network(7, 3), {}
    positions = len(x)
    for p in range(positions):
        for i in range(WIDTH):
            u = np.zeros((positions, WIDTH))
            u[p, i] = 1.0
            count = {}
            for layer, first, second in network.gradients(x, u):
                kind = "w" if first.ndim == 2 else "gamma"
                number = count.get((layer, kind), 0)
                count[layer, kind] = number + 1
                for name, value in ((kind, first), ({"w": "b", "gamma": "beta"}[kind], second)):
                    key = name, layer, number
                    found[key] = found.get(key, 0.0) + np.square(value).sum() / (positions * WIDTH)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_gradients_and_theta_of_one_network(name):
    """G_w, G_b, G_gamma, G_beta by 3000 cotangents and Θ by 3000 parameter tangents, against one gradient per output
    of the same network: a column per Dense and norm, in the order they are met."""
    block, tokens = BLOCKS[name]
    rng = np.random.default_rng(0)
    x = rng.standard_normal((INPUTS * tokens, 5))
    ensemble = Ensemble(block, 1.3, 0.9, WIDTH, DEPTH, 5, tokens=tokens)
    plan = MeasurementPlan(ensemble, Inputs(given=x), Measurement(("Theta", "G_w"), PROBES), 7)
    bad, rows = plan.measure(3, Buffers())
    exact = _brute(ensemble, x)
    assert bad == 0 and len({key[1] for key in exact}) == DEPTH
    sizes = {name: rows[f"G_{name}"].shape[1] for name in ("w", "gamma") if f"G_{name}" in rows}
    for (group, layer, number), value in exact.items():
        measured = rows[f"G_{group}"][layer - 1]
        met = [n for g, l, n in exact if (g, l) == (group, layer)]
        column = sizes["w" if group in "wb" else "gamma"] - len(met) + number
        assert measured[column] == pytest.approx(value, rel=0.15), (group, layer, number)
    if ensemble.couples:
        theta = 0.0
        for (group, layer, number), value in exact.items():
            theta += value * (_scale(ensemble, layer, number, group) if group in "wb" else 1.0)
        assert rows["Theta"][-1] == pytest.approx(theta, rel=0.05)


def _scale(ensemble, layer, number, group):
    """The squared derivative of w or β by its standard normal entry: σ_w²/fan-in, σ_b²."""
    if group == "b":
        return 0.9**2
    tokens = [(3, 6, WIDTH) if layer > 1 else (5,), (5,), (WIDTH,), (2,)]
    fan_in = {"tokens": tokens[0], "batch": (5,) if layer == 1 else (WIDTH,)}
    if any(getattr(operation, "tokens", False) for operation in ensemble.operations):
        return 1.3**2 / fan_in["tokens"][number]
    if any(type(operation).__name__ == "PoolGroups" for operation in ensemble.operations):
        return 1.3**2 / (5 if layer == 1 else WIDTH // 2)
    return 1.3**2 / fan_in["batch"][number]


def test_default_rates_are_those_of_the_standard_normal_parameters():
    sizes = {"sigma_w": 1.3, "sigma_b": 0.4, "width": 5, "depth": 3, "networks": 6, "quantities": ("A", "P")}
    given = run_ensemble(mlp("tanh"), rates=(1.69, 0.16), **sizes)
    default, other = run_ensemble(mlp("tanh"), **sizes), run_ensemble(mlp("tanh"), rates=(1.3, 0.4), **sizes)
    for name in ("_h", "_hh", "_P"):
        np.testing.assert_allclose(default.samples[name], given.samples[name], rtol=1e-12)
        assert not np.allclose(default.samples[name][:, 1:], other.samples[name][:, 1:])
    theta = run_ensemble(mlp("tanh"), **sizes | {"quantities": ("Theta",)}).samples["Theta"]
    np.testing.assert_allclose(default.samples["_h"][:, :, 0, 0], theta, rtol=1e-10)


def test_moments_of_a_batch():
    """K is the mean over inputs, K_ab that over pairs of different ones; `batch` has entries of variance input_norm."""
    x = np.random.default_rng(1).standard_normal((3, 4))
    run = run_ensemble(mlp("tanh"), sigma_w=1, sigma_b=0.3, width=6, depth=2, networks=3, inputs=x)
    ensemble = Ensemble(mlp("tanh"), 1, 0.3, 6, 2, 4)
    for index in range(3):
        for layer, z in ensemble.network(0, index).run(x):
            gram = z @ z.T / 6
            assert run.samples["K"][index, layer - 1] == pytest.approx(np.trace(gram) / 3, rel=1e-12)
            pairs = (gram.sum() - np.trace(gram)) / 6
            assert run.samples["K_ab"][index, layer - 1] == pytest.approx(pairs, rel=1e-9, abs=1e-12)
    drawn = run_ensemble(
        mlp("tanh"), sigma_w=1, sigma_b=0, width=4, depth=1, networks=400, batch=20, input_norm=2.5, input_dimension=30
    )
    assert abs(drawn.estimate("K", l=1).z(2.5)) < 4 and abs(drawn.estimate("K", l=1).z(2.5**2)) > 4


def test_one_lost_position_of_a_coupled_batch_loses_all():
    """Where positions act on each other, none is finite by itself, and max(NaN, 0) = 0 does not hide it."""
    for block, coupled in ((Sequential((BatchNorm(), Nonlinearity("relu"), Dense())), True), (mlp("tanh"), False)):
        ensemble = Ensemble(block, 1.0, 0.0, 4, 2, 4)
        x = np.ones((3, 4)) * np.array([[1.0], [2.0], [np.inf]])
        with np.errstate(all="ignore"):
            *_, (_, z) = ensemble.network(0, 0).run(x)
        assert np.isnan(z[2]).all() and np.isnan(z[:2]).all() == coupled


@pytest.mark.parametrize(
    "change",
    [{"l0": 2}, {"input_norm": 2.0}, {"batch": 3}, {"classes": 3}, {"tokens": 2}, {"input_dimension": 5}, {"mu": 0.3}],
)
def test_all_that_decides_the_numbers_is_in_the_fingerprint(change, tmp_path):
    from meanfield.networks.records import Param

    block = mlp("tanh", mu=Param("mu"))
    sizes = {"sigma_w": 1, "sigma_b": 0.1, "width": 4, "depth": 3, "networks": 4, "batch": 2, "mu": 0.5}
    sizes |= {"quantities": ("J", "G0"), "probes": 1, "checkpoint": tmp_path / "run.npz"}
    run_ensemble(block, **sizes)
    with pytest.raises(MeanFieldError, match="checkpoint of another run"):
        run_ensemble(block, **sizes | change)


def test_rates_are_in_the_fingerprint():
    keys = {
        scaleout.fingerprint(
            MeasurementPlan(Ensemble(mlp("tanh"), 1, 0, 4, 2, rates=rates), Inputs(), Measurement(("A",))), Running(3)
        )
        for rates in (None, ((1.0, 1.0), (0.0, 0.0)), ((1.0, 2.0), (0.0, 0.0)))
    }
    assert len(keys) == 3


# ---------------------------------------------------------------------------------------------------- allowances


def _made_up(width, bias, error=0.0, depth=4):
    """An ensemble whose K and J are 1 + bias/width at every layer, with a standard error of `error`."""
    mean = np.full(depth, 1 + bias / width)
    estimate = lambda quantity, l=None, log_scale=0.0: Estimate(mean, np.full(depth, error), 10)  # noqa: E731
    return SimpleNamespace(width=width, depth=depth, finite_depth=depth, estimate=estimate, networks=200)


RUN = SimpleNamespace(
    l=np.arange(1, 5), diverged_at=0, message=lambda: "", K=np.ones(4), log_J=np.zeros(4), Theta=np.ones(4)
)


def test_the_measured_allowance_removes_a_bias_of_order_one_over_n():
    others = _made_up(200, 7.0, 0.02), _made_up(100, 7.0, 0.03)
    rows, _, notes = compare(RUN, _made_up(3200, 7.0, 0.001), others, ("K", "J"))
    factor = (1 / 3200) / (1 / 100 - 1 / 200)
    for row in rows:
        assert row.theory == 1 and row.sum == pytest.approx(row.measured, abs=1e-12)
        assert row.z == pytest.approx(0, abs=1e-9)
        assert row.allowance == pytest.approx(7 / 3200)
        assert row.standard_error == pytest.approx(np.sqrt(0.001**2 + factor**2 * (0.02**2 + 0.03**2)))
    assert len(rows) == 8 and "widths 100 and 200" in notes[0]
    wrong, _, _ = compare(RUN, _made_up(3200, 40.0, 0.001), others, ("K",))
    assert not any(row.passed for row in wrong), "a deviation that the narrow ensembles do not show is not excused"


def test_which_widths_are_measured():
    assert narrower(10_000, 50) == (624, 312) and narrower(10_000, 100) == (800, 400)
    assert narrower(500, 50) == (250,) and narrower(1, 5) == (1,)
    for width in (64, 800, 3000, 10**6):
        for depth in (1, 10, 200):
            found = narrower(width, depth)
            assert all(1 <= one < width for one in found)
            assert len(found) == 1 or (found[1] >= 4 * depth and found[0] == 2 * found[1] <= width // 2)


def test_theta_and_j0_of_small_networks_are_extrapolated():
    """2 X(n) − X(n/2) has no bias of order 1/n; X(n) alone would be off by 7/n."""
    rng = np.random.default_rng(0)

    def small(width, count):
        noise = 1e-4 * rng.standard_normal((count, 4))
        values = 1 + 7 / width + noise
        samples = {"Theta": values, "log_J": np.log(values)}
        return SimpleNamespace(width=width, depth=4, finite_depth=4, networks=count, samples=samples)

    run = SimpleNamespace(l=np.arange(1, 5), diverged_at=0, message=lambda: "", log_J0=np.zeros(4), Theta=np.ones(4))
    rows, _, notes = compare(run, small(100, 60), (small(50, 40),), ("Theta", "J0"))
    assert all(row.passed for row in rows) and len(rows) == 8 and "2 Theta(n) - Theta(n/2)" in notes[0]
    expected = 1e-4 * np.sqrt(4 / 60 + 1 / 40)
    assert all(row.standard_error == pytest.approx(expected, rel=0.4) for row in rows)
    wrong, _, _ = compare(run, small(100, 60), (small(70, 40),), ("Theta", "J0"))
    assert not any(row.passed for row in wrong)
