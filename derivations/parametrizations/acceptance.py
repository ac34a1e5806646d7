"""Acceptance values: powers that were worked out by hand, each with a planted error of .01 in one exponent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import sympy as sp

from derivations.checks import Check
from derivations.parametrizations.kinds import TWO, powers
from meanfield.parametrizations import Monomial, Powers


def _powers(kind: str, what: str, at: Fraction, size: str, of: Callable[[Powers], Any], **scheme: Any) -> Callable:
    """The power `of` as a double, with one exponent of the parametrization moved by what is planted."""

    def found(off: sp.Rational) -> Sequence[float]:
        moved = Monomial(**{"of_width": Fraction(0), "of_depth": Fraction(0)} | {size: at + Fraction(str(off))})
        return (float(getattr(of(powers({**scheme, kind: {what: moved}}, TWO)), size)),)

    return found


CHECKS: tuple[Check, ...] = (
    Check("C34", "µP, SGD: own of the input", (0.0,), 1e-12,
          _powers("input", "rate", Fraction(1), "of_width", lambda p: p.row("input").own, name="mup", optimizer="sgd")),
    Check("C34", "µP, Adam: change of f by the readout", (0.0,), 1e-12,
          _powers("readout", "multiplier", Fraction(-1), "of_width", lambda p: p.delta_f_readout, name="mup")),
    Check("52", "u-µP: own of embeddings", (-0.5,), 1e-12,
          _powers("input", "rate", Fraction(-1, 2), "of_width", lambda p: p.row("input").own, name="u_mup")),
    Check("C33", "depth-µP: change of a bias in the branch", (-0.5,), 1e-12,
          _powers("bias", "rate", Fraction(-1, 2), "of_depth", lambda p: p.row("up").bias, name="depth_mup")),
)  # fmt: skip
