"""Bassi, Baity-Jesi, Lucchi, Albert, Francazi, *When Bias Meets Trainability: Connecting Theories of Initialization*.

CLAIMS: every equation that the engine can decide, each with a variant that must come out the other way. B-numbers are
the results of its specification, equation numbers those of the paper; E-numbers are errata.

python -m derivations.bias_and_trainability            prints the verdicts
python -m derivations.bias_and_trainability numbers    prints the published and the engine's numbers
python -m derivations.bias_and_trainability figures DIR
"""

from __future__ import annotations

from derivations.bias_and_trainability import (
    changes,
    definitions,
    depths,
    fractions,
    lines,
    phases,
    pooling,
    recursions,
    relu,
)
from derivations.claims import Claim

CLAIMS: tuple[Claim, ...] = (
    *definitions.CLAIMS,
    *recursions.CLAIMS,
    *changes.CLAIMS,
    *fractions.CLAIMS,
    *phases.CLAIMS,
    *pooling.CLAIMS,
    *relu.CLAIMS,
    *depths.CLAIMS,
    *lines.CLAIMS,
)
