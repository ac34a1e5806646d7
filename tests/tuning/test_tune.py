"""`tune`: gains of drawn networks against Jacobians that NumPy multiplies from the network's own weights."""

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest

import meanfield as mf
from meanfield.empirical import draw_network
from meanfield.networks.architectures import batchnorm_mlp, resmlp
from meanfield.tuning.network_gains import sweep
from meanfield.tuning.network_gains.instance import Instance
from meanfield.tuning.network_gains.tune import random_inputs

ERF = np.vectorize(math.erf)
SLOPES = {
    "relu": (lambda z: np.maximum(z, 0), lambda z: 1.0 * (z > 0)),
    "tanh": (np.tanh, lambda z: 1 / np.cosh(z) ** 2),
    "gelu": (
        lambda z: z * (1 + ERF(z / math.sqrt(2))) / 2,
        lambda z: (1 + ERF(z / math.sqrt(2))) / 2 + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi),
    ),
}


def exact_jacobians(found: mf.tuning.Tuning, phi: str, seed: int) -> tuple[np.ndarray, float]:
    """(log J^{l,l+1}, log J^{1,L}) of the tuned network, by products of whole Jacobians; only its weights are asked of
    the package."""
    f, slope = SLOPES[phi]
    n, depth = found.width, found.depth
    drawn = draw_network(mf.networks.mlp(phi), sigma_w=1, sigma_b=0, width=n, depth=depth, seed=seed)
    weights = {name.layer: w for name, w in drawn.parameters.items() if name.name == "W"}
    W = [found.sigma[l - 1, 0, 0] * weights[l] / math.sqrt(n) for l in range(1, depth + 1)]
    z, T, blocks = W[0] @ random_inputs(1, 1, 1.0, n, seed)[0][0], np.eye(n), []
    for w in W[1:]:
        M = w * slope(z)
        blocks.append(math.log((M * M).sum() / n))
        z, T = w @ f(z), M @ T
    return np.array(blocks), math.log((T * T).sum() / n)


def test_relu_is_tuned_and_a_planted_gain_is_seen():
    found = mf.tune("relu", depth=12, width=60, sigma_w=2, seed=4)
    blocks, total = exact_jacobians(found, "relu", 4)
    assert np.abs(blocks - found.after).max() < 1e-12 and np.abs(blocks).max() <= 0.05 and abs(total) <= 0.2
    assert total == pytest.approx(found.log_J[1], abs=1e-10) and found.status == "tuned"
    found.sigma[5] *= 1.02
    assert abs(exact_jacobians(found, "relu", 4)[0][4] - found.after[4]) > 0.03  # the control


def test_the_same_seed_gives_the_same_gains_and_the_record_draws_the_network_again():
    found = mf.tune("tanh", depth=6, width=40, sigma_w=1.5, sigma_b=0.1, seed=9)
    again = mf.tune("tanh", depth=6, width=40, sigma_w=1.5, sigma_b=0.1, seed=9)
    assert found.gains.tobytes() == again.gains.tobytes()
    x = random_inputs(1, 1, 1.0, 40, 9)[0]
    settings = {"width": 40, "depth": 6, "networks": 2, "seed": 9, "inputs": x, "keep_samples": True}
    run = mf.measure(found.network, **found.values, **settings)
    assert run.samples["log_J"][0, -1] == pytest.approx(found.log_J[1], abs=1e-9)
    assert run.samples["K"][0].tolist() == pytest.approx(found.K.tolist(), rel=1e-10)
    assert json.loads(json.dumps(found.data()))["gains"] == found.gains.tolist()
    assert max(map(len, str(found).splitlines())) < 80


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: mf.tune("relu", depth=5, width=0), "width must be a whole number"),
        (lambda: mf.tune("relu", depth=0, width=9), "depth must be a whole number"),
        (lambda: mf.tune("relu", depth=5, width=9, budget=-1), "budget must be > 0"),
        (lambda: mf.tune("relu", depth=5, width=9, method="newton"), "method"),
        (lambda: mf.tune("sign", depth=5, width=9), "jumps"),
        (
            lambda: mf.measure(
                mf.derive("tanh"), sigma_w=1, sigma_b=0, w_1=[1.0], b_1=[0.0], width=9, depth=1, networks=2
            ),
            "no such symbol",
        ),
        (lambda: mf.tune("relu", depth=5, width=9, inputs=np.full((2, 9), np.nan)), "inputs must be finite"),
        (lambda: mf.tune("tanh", architecture="full_residual", beta_v=1, depth=5, width=9), "Schedule"),
    ],
)
def test_what_cannot_be_tuned_is_a_sentence(call, words):
    with pytest.raises(mf.MeanFieldError, match=words) as caught:
        call()
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("phi", sorted(SLOPES))
@pytest.mark.parametrize("sigma_w", [0.5, 1, 2, 4])
def test_fifty_layers_from_any_start(phi, sigma_w):
    """Issue: every |log J^{l,l+1}| ≤ .05 and |log J^{1,50}| ≤ .2 by exact Jacobians, width 500, σ_b = 0."""
    found = mf.tune(phi, depth=50, width=500, sigma_w=sigma_w, seed=1)
    blocks, total = exact_jacobians(found, phi, 1)
    assert np.abs(blocks).max() <= 0.05 and abs(total) <= 0.2
    saturated = any("saturates" in one for one in found.caveats)
    assert saturated == (phi == "tanh" and sigma_w == 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "call",
    [
        {"network": resmlp("gelu", scale=1), "depth": 13, "width": 32, "tokens": 8},
        {"network": batchnorm_mlp("relu", mu=1), "depth": 31, "width": 64, "inputs": 16},
    ],
)
def test_the_largest_scale_within_the_budget(call):
    """The gain meets the budget, and five percent more do not: by all directions, not by probes."""
    found = mf.tune(**call, seed=2)
    assert found.status == "within budget" and abs(found.log_J[1]) <= 1
    here, further = (_log_J(found, call, factor) for factor in (1.0, 1.05))
    assert here <= 1.01 and further > 1


def _log_J(found, call, factor):
    """log J^{1,L} of the tuned network with its branches times a factor, from the record alone, all unit vectors."""
    stored = draw_network(
        found.network,
        sigma_w=1,
        sigma_b=0,
        width=found.width,
        depth=found.depth,
        seed=2,
        tokens=call.get("tokens", 1),
        input_dimension=found.width,
        **found.values,
    )
    ends = [0, 2] if "tokens" in call else [0]  # of ResMLP: the Dense on tokens, and the last of the other branch
    stored.gain_w[1:, ends] *= factor
    x = random_inputs(call.get("inputs", 1), call.get("tokens", 1), 1.0, found.width, 2)[0]
    size = len(x) * found.width
    rows = np.eye(size).reshape(size, len(x), found.width)
    instance, z = Instance(stored, len(x) // call.get("tokens", 1)), stored.layers(x)[0]
    for layer in range(2, found.depth + 1):
        gains = np.stack([stored.gain_w[layer - 1], stored.gain_b[layer - 1]], axis=1)
        z, rows, _ = instance.block(layer, z, rows, gains)
    return math.log((rows * rows).sum() / size)


def gains(seed: int) -> bytes:
    """Of a sweep, and of five steps of the descent with probes."""
    swept = mf.tune("tanh", depth=6, width=300, sigma_w=2, seed=seed)
    settings = {"method": "gradient", "probes": 8, "steps": 5, "rate": 0.02, "tolerance": 0}
    return swept.gains.tobytes() + mf.tune("gelu", depth=4, width=200, sigma_w=2, seed=seed, **settings).gains.tobytes()


@pytest.mark.slow
def test_gains_do_not_know_threads_or_workers():
    """The same bytes with one thread and with two, of BLAS and of Numba, and in two workers at once."""
    code = "from tests.tuning.test_tune import gains; print(gains(3).hex())"
    found = set()
    for threads in ("1", "2"):
        env = os.environ | {f"{x}_NUM_THREADS": threads for x in ("OPENBLAS", "OMP", "MKL", "NUMBA")}
        found.add(subprocess.check_output([sys.executable, "-c", code], env=env, text=True).strip())
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as workers:
        both = [one.hex() for one in workers.map(gains, (3, 4))]
    assert found == {both[0]} and both[1] != both[0]


@pytest.mark.parametrize(
    ("curve", "root"), [(lambda x: 0.4 + 30 * x + 150 * x * x, None), (lambda x: 9.0 + x, -sweep.SHARED_GAIN)]
)
def test_the_common_log_J_is_a_root_by_secants(monkeypatch, curve, root):
    """log J^{1,L} as a curve of the target that is no line: the sweeps end where it is next to 0, in few of them; where
    nothing within the bar brings it there, at the bar."""
    asked = []

    def one_sweep(d, with_skip, ends_in_dense, target):
        asked.append(target)
        return np.ones((6, 1)), True, curve(target)

    monkeypatch.setattr(sweep, "one_sweep", one_sweep)
    drive = sweep.Drive(None, np.zeros((1, 1)), None, np.ones((6, 1)), 0, (0,))
    _, good, total = sweep._towards_one(drive, False, True)
    assert good and total == curve(asked[-1]) and max(map(abs, asked)) <= sweep.SHARED_GAIN
    if root is None:
        assert abs(total) <= sweep.NEAR and 3 <= len(asked) <= 5
    else:
        assert asked[-1] == root and len(asked) == 2
