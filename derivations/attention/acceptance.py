"""Acceptance values: numbers of the statements, each with a planted error of one per cent in σ or in 1 - ρ."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import sympy as sp

from derivations.attention import depth, softmax
from derivations.checks import Check


def _moment(kind: str, T: int, s: float, r: float) -> Callable[[sp.Rational], Sequence[float]]:
    return lambda off: (softmax.exact(kind, T, s * (1 + float(off)), r),)


def _parted(T: int, beta: float, p: float) -> Callable[[sp.Rational], Sequence[float]]:
    def parted(off: sp.Rational) -> Sequence[float]:
        s = beta * (1 + float(off)) * math.log(T) ** 0.5
        return (softmax.exact("variance", T, s, p) - softmax.exact("covariance", T, s, p),)

    return parted


def _overlap(T: int, beta: float) -> Callable[[sp.Rational], Sequence[float]]:
    return lambda off: (softmax.overlap("value", T, (beta * (1 + float(off))) ** 2),)


def _end(tokens: int) -> Callable[[sp.Rational], Sequence[float]]:
    """Where J of post-LN ends: the planted error is in what is left of J."""
    return lambda off: (float(depth.run(depth.POST, 60, tokens).J[-1]) * (1 + float(off)),)


CHECKS: tuple[Check, ...] = (
    Check("must hold", "Phi(1) at T = 32, beta = 3", (0.395731327,), 1e-8, _overlap(32, 3.0)),
    Check("C23", "q' - p' at T = 512, p = .3, beta = 1.5", (0.1266,), 5e-4, _parted(512, 1.5, 0.3)),
    Check("C7", "gradient at T = 64, s = 1, r = .3", (0.06327274,), 1e-6, _moment("gradient", 64, 1.0, 0.3)),
    Check("C15", "J of post-LN at T = 16", (0.26890842,), 1e-6, _end(16)),
)
