"""What an initialization costs: the sweep and a step of the descent of drawn networks, phase planes, `recommend`."""

import math

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import meanfield as mf
from meanfield.numeric.lowering.modules import generated_modules
from meanfield.tuning.network_gains.descent import through_network
from meanfield.tuning.network_gains.tune import _drive, random_inputs


def _exactly(W, x, sigma_w):
    """log J^{l,l+1} and log J^{1,L} of a tanh network by products of whole Jacobians."""
    n, found = len(x), []
    z, T = sigma_w * W[0] @ x, np.eye(n)
    for one in W[1:]:
        M = sigma_w * one / np.cosh(z) ** 2
        found.append(math.log((M * M).sum() / n))
        z, T = sigma_w * one @ np.tanh(z), M @ T
    return found, math.log((T * T).sum() / n)


@pytest.mark.parametrize("phi", ["relu", "tanh", "gelu"])
def test_sweep(beside, phi):
    """tune, sweep, 50 layers of 500 neurons, J exact, sigma_w = 2: {phi}"""
    rng = np.random.default_rng(0)
    W, x = rng.standard_normal((50, 500, 500)) / math.sqrt(500), random_inputs(1, 1, 1.0, 500, 0)[0][0]

    def ours():
        assert mf.tune(phi, depth=50, width=500, sigma_w=2, seed=1).status == "tuned"

    beside(ours, lambda: _exactly(W, x, 2.0), "NumPy, every J once, tanh", rounds=3, bar=10.0)


@pytest.mark.parametrize("phi", ["relu", "tanh"])
def test_step(beside, phi):
    """One step of the descent, 20 layers of 500 neurons, 64 probes, one thread: {phi}"""
    d, _ = _drive(mf.networks.mlp(phi), {}, 20, 500, 1.5, 0.1, 1, 1, 1.0, 64, 0)

    def forward():
        z = d.instance.block(1, d.inputs, None, d.gains[0])[0]
        for layer in range(2, 21):
            z, _, _ = d.instance.block(layer, z, d.fresh(layer - 1, z, 0), d.gains[layer - 1])

    with threadpool_limits(limits=1):
        step = lambda: through_network(d, d.gains, 0, "JLL", 0.0)  # noqa: E731
        beside(step, forward, "a forward pass with as many probes", rounds=9, ratio_bar=3.0)


def test_plane(beside):
    """tuning_region: 1200 points of figures 1 and 5 each, 980 steps"""
    sigma_w, rate = np.linspace(0.1, 5, 40), np.geomspace(1e-3, 10, 30)[:, None]

    def ours():
        for loss in ("JLL", "JSL"):
            mf.tuning.tuning_region("relu", sigma_w=sigma_w, rate=rate, loss=loss)

    def peer():
        for w in sigma_w:
            s, kappa = w / math.sqrt(2), w * w * 1e-3
            for _ in range(980):
                s = abs(s - 2 * kappa * math.log(s) / s)

    beside(ours, peer, "Python floats, 40 points, scaled by 60", rounds=5, peer_units=1 / 60, bar=30.0)


@pytest.mark.parametrize(("phi", "preset"), [("gelu", "mlp"), ("tanh", "mlp"), ("gelu", "preln"), ("gelu", "resmlp")])
def test_recommend(beside, phi, preset, monkeypatch):
    """recommend, 50 layers of 512 neurons, warm: {phi}, {preset}"""
    monkeypatch.setattr(generated_modules, "PATIENCE", 0.0)  # compiled, as after a dozen calls
    ours = lambda: mf.recommend(phi, architecture=preset, depth=50, width=512)  # noqa: E731
    theory = mf.derive(phi, architecture=preset)

    def peer():
        theory.propagate(sigma_w=1.0, sigma_b=0.1, depth=50, quantities=("K", "J"))

    beside(ours, peer, "one propagate of 50 layers", rounds=3, bar=5.0)
