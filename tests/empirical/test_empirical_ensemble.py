"""Ensembles against laws that are exact at any width, their reproducibility, overflow, and refusals."""

import math
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import meanfield
from meanfield.base.answers.results import Estimate, MeanFieldError
from meanfield.empirical import Ensemble, ScalarPair, run_ensemble
from meanfield.networks.records import Dense, Nonlinearity, Param, Residual, Sequential, mlp

DEPTH = 6
LAYERS = np.arange(1, DEPTH + 1)


def _run(activation="linear", mu=0, **more):
    arguments = {"sigma_w": 1.0, "sigma_b": 0.0, "width": 30, "depth": DEPTH, "networks": 600, "seed": 1} | more
    return run_ensemble(mlp(activation, mu=mu), **arguments)


def _worst(estimate: Estimate, predicted) -> float:
    """Largest |z|; a standard error of 0 asks for equality."""
    predicted = np.broadcast_to(predicted, np.shape(estimate.mean))
    sure = estimate.standard_error == 0
    assert (estimate.mean[sure] == predicted[sure]).all()
    return float(np.abs((estimate.mean - predicted)[~sure] / estimate.standard_error[~sure]).max())


@pytest.mark.slow
def test_linear_networks():
    """E K^l = σ_w^{2l} and E J^{1,l} = σ_w^{2(l−1)} at any width."""
    sigma_w = 1.3
    run = _run(sigma_w=sigma_w)
    assert _worst(run.estimate("K"), sigma_w ** (2 * LAYERS)) <= 4
    assert _worst(run.estimate("J"), sigma_w ** (2.0 * (LAYERS - 1))) <= 4
    wrong = _run(sigma_w=1.02 * sigma_w)
    assert _worst(wrong.estimate("K"), sigma_w ** (2 * LAYERS)) > 4, "control: σ_w off by 2 %"
    assert _worst(wrong.estimate("J"), sigma_w ** (2.0 * (LAYERS - 1))) > 4, "control: σ_w off by 2 %"


@pytest.mark.slow
def test_rectifier_at_its_critical_point():
    """σ_w² = 2 keeps E K and E J at any width, by the symmetry of each row of W."""
    run = _run("relu", sigma_w=math.sqrt(2), input_norm=0.7)
    assert _worst(run.estimate("K"), 1.4) <= 4
    assert _worst(run.estimate("J"), 1.0) <= 4
    wrong = _run("relu", sigma_w=1.02 * math.sqrt(2), input_norm=0.7)
    assert _worst(wrong.estimate("K"), 1.4) > 4, "control: σ_w off by 2 %"


@pytest.mark.slow
def test_biases_skips_and_layer_dependent_sigmas():
    """Linear: K^{l+1} = (σ_w² + μ²) K^l + σ_b² with the σ of layer l + 1, and K_ab and D in the same way."""
    sigma_w, sigma_b, mu, norm, c = np.linspace(0.9, 1.2, DEPTH), np.linspace(0, 0.5, DEPTH), 0.5, 2.0, -0.3
    run = _run(mu=mu, sigma_w=sigma_w, sigma_b=sigma_b, input_norm=norm, correlation=c, l0=2, input_dimension=3)
    own, cross, jacobian, early = [], [], [], []
    for l in range(DEPTH):
        factor = sigma_w[l] ** 2 + (mu**2 if l else 0)
        own.append(factor * (own[-1] if l else norm) + sigma_b[l] ** 2)
        cross.append(factor * (cross[-1] if l else c * norm) + sigma_b[l] ** 2)
        early.append((sigma_w[l - 1] ** 2 + mu**2) * early[-1] + sigma_b[l - 1] ** 2 if l else own[0])
        if l >= 1:
            jacobian.append(jacobian[-1] * factor if jacobian else 1.0)
    assert _worst(run.estimate("K_aa"), own) <= 4
    assert _worst(run.estimate("K_bb"), own) <= 4
    assert _worst(run.estimate("K_ab"), cross) <= 4
    assert _worst(run.estimate("distance"), 2 * (np.array(own) - cross)) <= 4
    assert _worst(run.estimate("J"), jacobian) <= 4
    assert _worst(run.estimate("K"), early) > 4, "control: the σ of layer l"
    assert run.layers("J").tolist() == [2, 3, 4, 5, 6] and run.layers("K").tolist() == LAYERS.tolist()
    assert run.estimate("J", l=2).mean == 1.0 and run.estimate("K", l=3).mean == run.estimate("K_aa").mean[2]


@pytest.mark.slow
def test_layer_dependent_skip_strengths():
    """Linear: K^{l+1} = (σ_w² + μ_{l+1}²) K^l, J in the same way; μ_1 is not used."""
    mu = np.array([9.0, 0.3, 0.0, 1.1, 0.6, 0.9])
    run = run_ensemble(
        mlp("linear", mu=Param("m")), sigma_w=0.9, sigma_b=0, width=30, depth=DEPTH, networks=600, seed=1, m=mu
    )
    factors = 0.81 + mu[1:] ** 2
    growth = np.cumprod(np.r_[1.0, factors])
    assert _worst(run.estimate("K"), 0.81 * growth) <= 4
    assert _worst(run.estimate("J"), growth) <= 4
    shifted = np.cumprod(np.r_[1.0, 0.81 + np.r_[mu[2:], mu[1]] ** 2])
    assert _worst(run.estimate("J"), shifted) > 4, "control: the μ of the next layer"


@pytest.mark.slow
def test_jacobian_from_the_input():
    """σ_w² = 1, σ_b² = .1, N_0 = 3, |x|² = N_0: a neuron's slopes depend on its N_0 weights, which J contains too.

    The naive theory averages the two separately and differs from layer 3 on.
    """
    sigma_b = math.sqrt(0.1)
    sizes = {"width": 500, "depth": 5, "networks": 600, "seed": 7}
    run = run_ensemble(mlp("erf"), sigma_w=1, sigma_b=sigma_b, input_dimension=3, l0=0, **sizes)
    assert run.layers("J").tolist() == [1, 2, 3, 4, 5] and run.samples["log_J"].shape == (600, 5)
    wide = np.array([1, 0.41262739, 0.27969919, 0.20998540, 0.16328079])
    assert _worst(run.estimate("J"), wide) <= 4
    assert run.estimate("J", l=3).z(0.28788843) < -4, "control: slopes averaged without the weights"
    linear = _run(sigma_w=1.3, input_dimension=3, l0=0)
    assert _worst(linear.estimate("J"), 1.3 ** (2 * LAYERS)) <= 4
    assert _worst(linear.estimate("J"), 1.3 ** (2 * LAYERS) * 30 / 3) > 4, "control: divided by the inputs"


def test_layer_norm_of_equal_numbers_is_a_divergence():
    """Two rectifiers that are both off are normalized to 0/0: about one network in four at each layer."""
    run = run_ensemble(mlp("relu", norm="act"), sigma_w=1, sigma_b=1, width=2, depth=5, networks=80)
    assert 30 < (run.diverged_at > 0).sum() < 75 and run.finite_depth == 1
    for i, l in enumerate(run.diverged_at[run.diverged_at > 0]):
        values = run.samples["K"][run.diverged_at > 0][i]
        assert np.isfinite(values[: l - 1]).all() and np.isnan(values[l - 1 :]).all()
    with pytest.raises(MeanFieldError, match=r"networks overflow \(or normalize equal numbers\) at layer 2\."):
        run.estimate("J", l=2)


def test_the_difference_does_not_cancel():
    c = 1 - 1e-12
    run = _run(sigma_w=1.0, correlation=c, networks=200, jacobian=False, input_dimension=300)
    assert _worst(run.estimate("distance"), 2 * (1 - c)) <= 4
    same = _run("tanh", correlation=1, networks=2, jacobian=False)
    assert (same.samples["distance"] == 0).all() and (same.samples["K_ab"] == same.samples["K_aa"]).all()
    opposite = _run("tanh", correlation=-1, networks=2, jacobian=False)
    assert (opposite.samples["K_ab"] == -opposite.samples["K_aa"]).all()


def test_same_bits_for_any_threads_and_any_split():
    block = Residual(Sequential((Nonlinearity("gelu"), Dense(), Nonlinearity("sin"), Dense())), "0.5")
    arguments = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 97, "depth": 5, "seed": 2**63, "correlation": 0.4}
    whole = run_ensemble(block, networks=7, threads=1, **arguments)
    for threads in (2, 3, 8):
        again = run_ensemble(block, networks=7, threads=threads, **arguments)
        for name, values in whole.samples.items():
            assert (again.samples[name] == values).all()
    parts = [run_ensemble(block, networks=n, first_network=first, **arguments) for first, n in ((0, 3), (3, 4))]
    alone = run_ensemble(block, networks=7, jacobian=False, **(arguments | {"correlation": None}))
    for name, values in whole.samples.items():
        assert (np.concatenate([part.samples[name] for part in parts]) == values).all()
    assert (alone.samples["K"] == whole.samples["K_aa"]).all(), "K depends neither on J nor on the second input"
    other = run_ensemble(block, networks=7, **(arguments | {"seed": 2**63 + 1}))
    assert not (other.samples["K_aa"] == whole.samples["K_aa"]).any()


def test_divergence_is_a_layer():
    kind = {"activation": "relu2", "sigma_w": 1e10, "networks": 6, "width": 20}
    run = _run(depth=12, **kind)
    end = run.finite_depth
    assert 1 < end < 12 and (run.diverged_at > 0).all() and run.diverged_at.min() == end + 1
    for i, l in enumerate(run.diverged_at):
        for values in run.samples.values():
            assert np.isfinite(values[i, : l - 1]).all() and np.isnan(values[i, l - 1 :]).all()
    short = _run(depth=end, **kind)
    assert (short.diverged_at == 0).all()
    assert (short.samples["K"] == run.samples["K"][:, :end]).all(), "earlier layers are intact"
    assert run.estimate("K").mean.shape == (end,) and np.isfinite(run.estimate("K").standard_error).all()
    with pytest.raises(MeanFieldError, match=rf"K at layer {end + 1} is not av.*1 to {end}, and networks overflow"):
        run.estimate("K", l=end + 1)


def test_log_jacobian_neither_overflows_nor_underflows():
    for sigma_w, norm in ((1e30, 1e-300), (1e-30, 1e300)):
        run = _run(depth=10, sigma_w=sigma_w, input_norm=norm, networks=40, width=60)
        assert (run.diverged_at == 0).all()
        predicted = 2 * np.arange(10) * math.log(sigma_w)
        assert _worst(run.estimate("J", log_scale=predicted), 1.0) <= 4
        assert np.abs(run.samples["log_J"] - predicted).max() < 3
        assert np.isfinite(run.estimate("log_J").mean).all()
        if sigma_w > 1:
            with pytest.raises(MeanFieldError, match="J overflows a double here"):
                run.estimate("J")


def test_standard_errors_of_large_jacobians():
    """The square of J = 1e240 is no double; its mean and standard error are those of J / e^{log_scale}, times that."""
    run = _run(depth=5, sigma_w=1e30, input_norm=1e-300, networks=40, width=60)
    predicted = 2 * np.arange(5) * math.log(1e30)
    plain, scaled = run.estimate("J"), run.estimate("J", log_scale=predicted)
    assert 1e239 < plain.mean[-1] < 1e241
    for one, other in ((plain.mean, scaled.mean), (plain.standard_error, scaled.standard_error)):
        assert one == pytest.approx(other * np.exp(predicted), rel=1e-9)


def test_exact_zeros():
    run = _run("tanh", sigma_w=0.0, networks=3)
    assert (run.estimate("K").mean == 0).all()
    assert run.estimate("J").mean.tolist() == [1, 0, 0, 0, 0, 0]
    with pytest.raises(MeanFieldError, match="J is exactly 0 in some networks"):
        run.estimate("log_J")


def test_samples_near_the_largest_double_have_a_mean():
    run = _run(depth=1, sigma_w=1e150, input_norm=1e6, networks=50, jacobian=False)
    assert _worst(run.estimate("K"), 1e306) <= 4 and np.isfinite(run.estimate("K").standard_error).all()


@pytest.mark.slow
def test_jumps_and_users_functions():
    with pytest.raises(MeanFieldError, match=r"an activation that jumps.*jacobian=False"):
        _run("step")
    run = _run("step", sigma_w=2.0, jacobian=False, networks=300)
    assert run.quantities == ("K",)
    assert _worst(run.estimate("K"), [4.0] + [2.0] * (DEPTH - 1)) <= 4  # each neuron is on with probability ½
    with pytest.raises(MeanFieldError, match="of this ensemble 'J'; the choices are K"):
        run.estimate("J")
    own = {"z/2": ScalarPair(lambda x: 0.5 * x, lambda x: 0.5)}
    mine, half = _run("z/2", activation_pairs=own, networks=3), _run(sigma_w=1.0, networks=3)
    assert (mine.samples["K"] == half.samples["K"] * 0.25 ** (LAYERS - 1)).all()


def test_symbolic_skip_strength_takes_a_value():
    value = run_ensemble(mlp("tanh", mu=Param("m")), m=0.5, sigma_w=1, sigma_b=0, width=5, depth=3, networks=2)
    plain = run_ensemble(mlp("tanh", mu="0.5"), sigma_w=1, sigma_b=0, width=5, depth=3, networks=2)
    assert (value.samples["log_J"] == plain.samples["log_J"]).all()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"width": 0}, "The width must be an integer from 1 to"),
        ({"width": 2.5}, "The width must be an integer .*, but 2.5 was given"),
        ({"depth": 0}, "The depth must be an integer from 1 to"),
        ({"networks": 1}, "The number of networks must be an integer from 2 to .*, but 1 was given"),
        ({"seed": -1}, "The seed must be an integer from 0 to"),
        ({"first_network": 2**32}, "first_network must be an integer from 0 to"),
        ({"l0": 7}, "The layer l0 must be an integer from 0 to 6, but 7 was given"),
        ({"threads": 0}, "The number of threads must be an integer from 1"),
        ({"input_dimension": 0}, "The input dimension N_0 must be an integer from 1"),
        ({"sigma_w": -1}, "sigma_w must be finite and ≥ 0, but -1 was given"),
        ({"sigma_w": math.nan}, "sigma_w must be finite and ≥ 0, but nan was given"),
        ({"sigma_b": "a"}, "sigma_b must be finite and ≥ 0, but 'a' was given"),
        ({"sigma_b": [1, 2]}, r"sigma_b must be one number or one per layer \(depth = 6\), but its shape is \(2,\)"),
        ({"input_norm": 0}, r"The input norm \|x\|²/N_0 must be > 0, but 0.0 was given"),
        ({"input_norm": math.inf}, "The input norm .* must be a finite number, but inf was given"),
        ({"correlation": 1.5}, r"must lie in \[−1, 1\], but 1.5 was given"),
        ({"correlation": 0.5, "input_dimension": 1}, "Inputs with correlation 0.5 need N_0 ≥ 2, but N_0 = 1"),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(MeanFieldError, match=message) as caught:
        _run(**({"networks": 2} | arguments))
    assert str(caught.value).endswith(".") and "\n" not in str(caught.value)


def test_estimate_refusals():
    run = _run(networks=2, l0=3)
    with pytest.raises(MeanFieldError, match="of this ensemble 'K_ab'; the choices are K, J"):
        run.estimate("K_ab")
    with pytest.raises(MeanFieldError, match="J at layer 2 is not available: it is measured at layers 3 to 6"):
        run.estimate("J", l=2)


def test_progress_and_interrupt():
    seen = []
    _run(networks=5, width=4, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(n, 5) for n in range(1, 6)]

    def interrupt(done, total):
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt, match=r"^$"):
        _run(networks=10_000, width=100, progress=interrupt)
    assert threading.active_count() == before


def test_a_network_can_be_drawn_alone():
    ensemble = Ensemble(mlp("tanh", mu=1), 1.0, 0.1, 16, 4)
    inputs = np.ones((1, 16))
    first = [z.copy() for _, z, _ in ensemble.network(0, 5).layers(inputs)]
    again = [z.copy() for _, z, _ in ensemble.network(0, 5).layers(inputs)]
    assert all((a == b).all() for a, b in zip(first, again)) and len(first) == 4


SECOND_PROCESS = """
import numpy as np
from meanfield.networks.records import mlp
from meanfield.empirical.ensemble import ensemble
from meanfield.empirical.functions import reference_functions
from meanfield.empirical.functions import registry as functions
from meanfield.empirical.network import tangents_and_cotangents as carried
from meanfield.empirical.network.operations import forward
from meanfield.empirical.network.operations import operation_derivatives as derivatives
from meanfield.empirical.observables import norms as observables
from meanfield.empirical.random import philox
block = mlp("tanh", mu=1, norm="pre")
sizes = {"width": 5, "depth": 3, "networks": 2, "correlation": 0.5}
run = ensemble.run_ensemble(block, sigma_w=1, sigma_b=0.1, theta=True, **sizes)
pair = reference_functions.pair_of("tanh")
kernels = [functions.elementwise(pair.phi), functions.elementwise(pair.dphi), philox.fill_stream]
kernels += [derivatives._project, derivatives.normalize, carried.add_scaled, carried._add_with_transpose]
kernels += [observables.mean_product, observables._squared_norm, forward.mark_rows]
misses = sum(sum(k.stats.cache_misses.values()) for k in kernels) if hasattr(kernels[0], "stats") else -1
print(misses, *(values.tobytes().hex() for values in run.samples.values()))
"""


@pytest.mark.slow
def test_a_second_process_compiles_nothing_and_no_process_needs_to(tmp_path):
    root = str(Path(meanfield.__file__).parents[1])
    environment = os.environ | {"PYTHONPATH": root, "NUMBA_CACHE_DIR": str(tmp_path)}

    def run(**more):
        command = [sys.executable, "-W", "error", "-c", SECOND_PROCESS]
        done = subprocess.run(command, check=True, env=environment | more, capture_output=True, text=True)
        misses, *samples = done.stdout.split()
        return int(misses), [np.frombuffer(bytes.fromhex(s)) for s in samples]

    first, second, interpreted = run(), run(), run(NUMBA_DISABLE_JIT="1")
    assert (first[0], second[0], interpreted[0]) == (10, 0, -1)
    for compiled, again, slow in zip(first[1], second[1], interpreted[1]):
        assert (compiled == again).all()
        np.testing.assert_allclose(slow, compiled, rtol=1e-13, atol=1e-15)
