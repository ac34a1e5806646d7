"""Writes predict.json: means and covariances of trained wide networks by neural-tangents 0.6.5, in float64.

    ENV/bin/python tests/references/predict.py     # ENV: as benchmarks/neural_tangents.py makes it

40 training and 10 further inputs of dimension 4, two outputs, two nonlinearities and a readout, σ_w = 1.5, σ_b = 0.1;
t = 1, 100 and the end. "last" is its `nngp` answer.
"""

import json
import sys
import types
from pathlib import Path

import numpy as np

sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")

import jax  # noqa: E402

jax.config.update("jax_enable_x64", True)

import neural_tangents as nt  # noqa: E402
from neural_tangents import stax  # noqa: E402

rng = np.random.default_rng(65)
X, y, far = (rng.standard_normal(shape).round(6) for shape in ((40, 4), (40, 2), (10, 4)))
cases = []
for name, act in (("erf", stax.Erf), ("relu", stax.Relu)):
    layers = [layer for _ in range(2) for layer in (stax.Dense(1, W_std=1.5, b_std=0.1), act())]
    kernel = stax.serial(*layers, stax.Dense(1, W_std=1.5, b_std=0.1))[2]
    told = nt.predict.gradient_descent_mse_ensemble(kernel, X, y)
    for get, train in (("ntk", "all"), ("nngp", "last")):
        found = [told(t=t, x_test=far, get=get, compute_cov=True) for t in (1.0, 100.0, None)]
        cases.append(
            {
                "activation": name,
                "train": train,
                "mean": [np.asarray(f.mean).tolist() for f in found],
                "covariance": [np.asarray(f.covariance).tolist() for f in found],
            }
        )
content = {"X": X.tolist(), "y": y.tolist(), "X_test": far.tolist(), "cases": cases}
Path(__file__).with_suffix(".json").write_text(json.dumps(content) + "\n")
