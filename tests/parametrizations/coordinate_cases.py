"""What the tests of the coordinate oracle share: settings, an input, and a comparison of means with laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.parametrizations.coordinate_nodes import Setting

ETA = 1e-7  # small enough that what is of second order in it is rounding here
X = np.random.default_rng(5).standard_normal(16)
CHI = -0.7


def settings_of(rule: str, trained_bias: bool, n: int) -> list[Setting]:
    """Outputs of order 1/√n and changes of order ETA in every Dense."""
    if rule == "mixed":  # a rule of its own for every Dense
        rules = ("adam", "muon", "sgd", "adam", "sgd")
        rows = [settings_of(one, trained_bias, n) for one in rules]
        return [replace(row[k], bias_rule="adam" if k == 2 else "") for k, row in enumerate(rows)]
    linear = rule == "sgd"
    scale = {"sgd": (n / 16, n, n), "adam": (1 / 16, n**-0.5, 1.0), "muon": (0.25, 1.0, n**0.5)}[rule]
    bias = {"Sb": 0.4, "Mb": 0.7, "eta_b": ETA * (n / 16 if linear else 1)} if trained_bias else {}
    first, inner, last = (ETA * one for one in scale)
    return [
        Setting(S=0.3, M=0.9, eta=first, rule=rule, **bias),
        *[Setting(S=1.2, M=1.1 * n**-0.5, eta=inner, rule=rule, **bias)] * 3,
        Setting(S=1.3, M=1 / n, eta=last, rule=rule, **{**bias, "eta_b": ETA * trained_bias}),
    ]


def assert_within(found, theory, allowed, what: str) -> None:
    """Means over draws (the first axis) are the theory's, within 4.5 standard errors and a relative allowance."""
    found, theory = np.asarray(found), np.asarray(theory)
    gap = found.mean(axis=0) / theory - 1
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) / np.abs(theory)
    far = np.abs(gap) > 4.5 * error + allowed
    assert not far.any(), f"{what}: relative gaps {np.round(gap, 4)}, errors {np.round(error, 4)}, allowed {allowed}"
