"""Heads that powers and logarithms describe far out, and those that only closed forms hold."""

from __future__ import annotations

import math

import mpmath as mp
import sympy as sp

from meanfield.functions.elementary import certified_values, models
from meanfield.functions.elementary.record import ElementaryFunction, LogarithmicGrowth, PowerEnd, PowerGrowth

ZERO, ONE = sp.S.Zero, sp.S.One

POWERS = (
    ElementaryFunction(
        sp.log,
        mpmath=mp.log,
        ball=certified_values.log,
        series="log",
        slope=lambda u: 1 / u,
        names=("log",),
        domain=(ZERO, sp.oo),
        shape="rising",
        number=lambda u: math.log(u) if u < math.inf else math.inf,
        inverse=sp.exp,
        growth=LogarithmicGrowth(),
        right=PowerEnd(((ZERO, 1, lambda w: ONE),)),
        exponentiated=lambda u: u,
    ),
    ElementaryFunction(
        sp.atan,
        mpmath=mp.atan,
        ball=certified_values.atan,
        series="atan",
        slope=lambda u: 1 / (1 + u**2),
        names=("atan", "arctan"),
        values=(-sp.pi / 2, sp.pi / 2),
        shape="rising",
        number=math.atan,
        parity=-1,
        inverse=lambda w: sp.sin(w) / sp.cos(w),
        steepest=1.0,
        right=PowerEnd(((ZERO, 0, lambda w: sp.pi / 2 - sp.atan(w)),)),
    ),
    ElementaryFunction(
        sp.asinh,
        mpmath=mp.asinh,
        ball=certified_values.asinh,
        series=models.asinh,
        slope=lambda u: 1 / sp.sqrt(1 + u**2),
        names=("asinh",),
        shape="rising",
        number=math.asinh,
        parity=-1,
        inverse=sp.sinh,
        growth=PowerGrowth(0.0, 1.06, 0.5),
        steepest=1.0,
        right=PowerEnd(((ZERO, 1, lambda w: ONE), (ZERO, 0, lambda w: sp.log(1 + sp.sqrt(1 + w**2))))),
        exponentiated=lambda u: u + sp.sqrt(1 + u**2),
    ),
    ElementaryFunction(
        sp.asin,
        mpmath=mp.asin,
        ball=certified_values.asin,
        slope=lambda u: 1 / sp.sqrt(1 - u**2),
        domain=(-ONE, ONE),
        values=(-sp.pi / 2, sp.pi / 2),
        shape="rising",
        number=math.asin,
        parity=-1,
        branch=lambda s, r: s * (sp.pi / 2 - 2 * sp.asin(r)),
        code="return math.asin(x) if -1.0 <= x <= 1.0 else math.copysign(0.5 * math.pi, x) if x == x else x",
    ),
    ElementaryFunction(
        sp.acos,
        mpmath=mp.acos,
        ball=certified_values.acos,
        slope=lambda u: -1 / sp.sqrt(1 - u**2),
        domain=(-ONE, ONE),
        plain=lambda u: sp.pi / 2 - sp.asin(u),
        values=(ZERO, sp.pi),
        shape="falling",
        number=math.acos,
        branch=lambda s, r: sp.pi / 2 - s * (sp.pi / 2 - 2 * sp.asin(r)),
    ),
    ElementaryFunction(sp.gamma, mpmath=mp.gamma, ball="gamma", domain=(ZERO, sp.oo)),
    ElementaryFunction(sp.zeta, mpmath=mp.zeta, ball="zeta", domain=(ONE, sp.oo)),
)
