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
#: claims that hold to 30 digits and are not proved: several square roots and angles, or a φ without closed forms
TO_DIGITS = frozenset(
    {
        "B2, App. A, σ_μ²",
        "B2, App. A, σ_y²",
        "B7 (6), (48)",
        "B14 (8), (19)",
        "B30 (58), B40, mean",
        "B33 (70), V(|grad f|²), tanh",
        "B39, odd φ + mean: q_ab",
        "B40, ReLU + mean",
        "B6 (36)",
        "B6 (37)",
        "B15 (21)",
        "B16 (23)",
        "B16 (25)",
        "B16 (27)",
        "B17 (22)",
        "B17 (28)",
        "B17 (29)",
        "B21 (90)",
        "B21 (91), c = 1",
        "B30 (62), fourth line",
        "B30 (62), as two correlated inputs",
        "B45 (96), right",
        "B46, I = γ² h′",
        "B48 (99)",
        "B51 (103)",
        "B51 (104)",
        "B52 (105)",
        "B52 (106)",
        "B53 (108)",
    }
)
