"""Acceptance values: gains by quadrature in 20 digits, each with a planted error of one per cent in the variance."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

import meanfield as mf
from derivations.checks import Check


def _gain(phi: str, name: str) -> Callable[[sp.Rational], Sequence[float]]:
    return lambda off: (float(getattr(mf.gains(phi, 1 + off), name).value),)


def _softmax(tokens: int, name: str) -> Callable[[sp.Rational], Sequence[float]]:
    return lambda off: (float(getattr(mf.gains("softmax", tokens=tokens, scores=1 + off), name).value),)


CHECKS: tuple[Check, ...] = (
    Check("B1", "1/sd silu", (1.7871872221004420,), 1e-12, _gain("silu", "unit_variance")),
    Check("B3", "1/rms tanh", (1.5925374197228314,), 1e-12, _gain("tanh", "unit_rms")),
    Check("B2", "1/rms silu'", (1.6233202579524973,), 1e-12, _gain("silu", "unit_gradient")),
    Check("B2", "average over 2 tokens, s = 1", (1.2530992285400406,), 1e-12, _softmax(2, "unit_average")),
)
