"""What all kinds of calls begin with: a theory of a random network, and how its numbers are compared."""

from __future__ import annotations

import math

import sympy as sp

from .activations import activation
from .maps import Net
from .places import net
from .session import Session

SHAPES = ("plain", "residual", "pre", "scaled", "two", "inner", "gate")


def number(solution) -> float:
    value = solution.value
    if value is None or value is sp.nan:
        return math.nan
    return math.inf if value == sp.oo else float(value)


def is_proved(status) -> bool:
    return status.name in ("EXACT", "CERTIFIED")


def derived(s: Session, shapes=SHAPES, families=()) -> Net:
    of = net(s.rng, activation(s.rng, families), shapes)
    s.derive(of.text, of.phi.family)
    return of


def close(what, s: Session, call: str, engine: float, oracle: float, error: float, scale: float | None = None) -> bool:
    scale = abs(oracle) if scale is None else scale
    return s.same(what, f"theory.{call}", engine, oracle, error * scale)
