"""Common initializers as standard deviations: what they give every Dense of an architecture, and what becomes of J.

Each is a pair of functions of (fan_in, fan_out): σ_w² = fan_in·Var W, and σ_b² = Var b.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.networks.folds import with_dense
from meanfield.networks.records import OWN, Block, Dense, Network, Param
from meanfield.theory.deriving import derive
from meanfield.tuning.dense_layers import kinds, put

Law = Callable[[float, float], tuple[float, float]]
#: (σ_w², σ_b²) by fan-in and fan-out, as their libraries draw them
COMMON: dict[str, Law] = {
    "PyTorch default": lambda n, m: (1 / 3, 1 / (3 * n)),  # uniform on ±1/√n, weights and biases
    "He (Kaiming)": lambda n, m: (2.0, 0.0),
    "Xavier (Glorot)": lambda n, m: (2 * n / (n + m), 0.0),
    "LeCun": lambda n, m: (1.0, 0.0),
}


@dataclass(frozen=True)
class Outcome:
    """What an initializer does: log J^{1,L} and K^L, ∞ where they overflow."""

    name: str
    log_J: float
    K: float


def outcomes(block: Block, depth: int, width: int, input_norm: float, batch: int | None) -> tuple[Outcome, ...]:
    """log J^{1,L} and K^L of the architecture under each of `COMMON`; a `Schedule` multiplies what they draw."""
    places = kinds(block)

    def named(i: int, one: Dense) -> Dense:
        w, b = OWN if len(places) == 1 else (Param(f"w_{i + 1}"), Param(f"b_{i + 1}"))
        return replace(one, sigma_w=put(one.sigma_w, w), sigma_b=put(one.sigma_b, b))

    record = with_dense(block, named)
    first = Dense(sigma_w=Param("input_w"), sigma_b=Param("input_b"))
    theory = derive(architecture=Network(record, first), batch=batch)
    columns: dict[str, list[float]] = {}
    for law in COMMON.values():
        fans = [(width, width), *((float(k.fan or 1) * width, float(k.made or 1) * width) for k in places)]
        for name, (n, m) in zip(("input", *(str(i + 1) for i in range(len(places)))), fans):
            square_w, square_b = law(n, m)
            w, b = ("input_w", "input_b") if name == "input" else (f"w_{name}", f"b_{name}")
            columns.setdefault(w, []).append(square_w**0.5)
            columns.setdefault(b, []).append(square_b**0.5)
    arrays = {name: np.array(column) for name, column in columns.items()}
    met = {s.name for s in theory.recursion("K", "J").parameters}  # J feels σ's behind which a norm takes K apart
    own: dict[str, Any] = {"sigma_w": arrays["w_1"], "sigma_b": arrays["b_1"]} if len(places) == 1 else {}
    given: dict[str, Any] = {name: value for name, value in arrays.items() if name in met}
    everything = own | given

    def ends(values: dict[str, Any]) -> list[np.ndarray]:
        at: dict[str, Any] = {"depth": depth, "input_norm": input_norm, "quantities": ("K", "J"), "every_layer": False}
        with np.errstate(all="ignore"):
            run = theory.propagate(**at, **values)
        return [np.asarray(a)[..., -1] for a in (run.log_J, run.K)]

    try:
        J, K = (np.broadcast_to(a, (len(COMMON),)) for a in ends(everything))
    except MeanFieldError:  # a deviation inside an average, as of a Dense with a bias before a norm, is one number
        each = [ends({name: float(column[i]) for name, column in everything.items()}) for i in range(len(COMMON))]
        J, K = (np.array(column).reshape(len(COMMON)) for column in zip(*each))
    return tuple(
        Outcome(name, float(j) if not np.isnan(j) else float("inf"), float(k)) for name, j, k in zip(COMMON, J, K)
    )
