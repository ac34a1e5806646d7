"""Sine and cosine."""

from __future__ import annotations

import math

import mpmath as mp
import sympy as sp

from meanfield.functions.elementary.record import ElementaryFunction

WAVES = (
    ElementaryFunction(
        sp.sin,
        mpmath=mp.sin,
        ball="sin",
        series="sin",
        slope=sp.cos,
        names=("sin",),
        values=(sp.S.NegativeOne, sp.S.One),
        number=math.sin,
        parity=-1,
        steepest=1.0,
    ),
    ElementaryFunction(
        sp.cos,
        mpmath=mp.cos,
        ball="cos",
        series="cos",
        slope=lambda u: -sp.sin(u),
        names=("cos",),
        values=(sp.S.NegativeOne, sp.S.One),
        number=math.cos,
        parity=1,
        steepest=1.0,
        # of a right angle 0, not what the rounding of π leaves
        code="return math.cos(x) if abs(x) != 0.5 * math.pi else 0.0",
    ),
)
