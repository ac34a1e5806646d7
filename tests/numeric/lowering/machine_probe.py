"""What a fresh process computes, as exact text: run by test_machines with one BLAS kernel or one set of instructions.

Prints one JSON document: name → list of doubles in hexadecimal; "errors": name → the relative error that is claimed.
"""

import json
import sys

import numpy as np

import meanfield as mf
from meanfield.numeric.lowering.averages.one_gaussian import scalar
from meanfield.numeric.lowering.evaluators import ROUNDING
from meanfield.numeric.quadrature import gaussian_averages as quadrature
from meanfield.numeric.quadrature import rules

DEPTH = 12
PLACES = [1e-6, 0.03, 1.0, 7.3, 4.1e3, 1e8]
ACTIVATIONS = ("tanh", "gelu", "tanh(z)*sin(z)", "tanh(sin(z))")  # tables, closed forms, waves


def _hex(values) -> list[str]:
    return [float(v).hex() for v in np.ravel(values)]


def probe() -> dict:
    out, errors = {}, {}
    for n in (16, quadrature.NODES, 24):
        out[f"rule {n}"] = _hex(rules.gauss_legendre(n))
    for name in ACTIVATIONS:
        theory = mf.derive(name)
        for label, node in theory.averages().items():
            lowered, label = scalar(node), f"{name} {label}"
            out[label], errors[label] = _hex([lowered(k) for k in PLACES]), max(lowered.error, ROUNDING)
            if lowered.table is not None:
                out[f"table of {label}"] = _hex(lowered.table.coefficients)
    for name, settings in (
        ("tanh", {"residual": True}),
        ("gelu", {}),
        ("relu", {"norm": "act"}),
    ):
        run = mf.derive(name, **settings).propagate(sigma_w=1.3, sigma_b=0.2, depth=DEPTH)
        out[f"propagate {name}"] = _hex([run.K, run.log_J])
        errors[f"propagate {name}"] = DEPTH * run.error  # each layer adds its own; none of these maps amplifies it
    # control: what went through BLAS before; it tells whether this process really runs another kernel
    t = np.cos(np.pi * (2 * np.arange(10) + 1) / 20)
    values = np.sin(np.outer(np.arange(1, 1601), np.arange(1, 11)))
    out["control"] = _hex((values @ np.linalg.inv(np.vander(t, increasing=True)).T)[::40])
    out["elementwise control"] = _hex(np.exp(np.linspace(-3, 3, 4001))[::7])
    return {"values": out, "errors": errors}


if __name__ == "__main__":
    json.dump(probe(), sys.stdout)
