"""Doshi, He, Gromov, *Critical Initialization of Wide and Deep Neural Networks through Partial Jacobians*.

CLAIMS: every equation that the engine can decide, in the paper's order, each with a variant that must come out the
other way. R-numbers are those of the specification, equation numbers those of the paper; E-numbers are errata.

python -m derivations.partial_jacobians            prints the verdicts
python -m derivations.partial_jacobians numbers    prints the published and the engine's numbers
python -m derivations.partial_jacobians figures DIR [--networks N]
python -m derivations.partial_jacobians tables FILE.tex
"""

from __future__ import annotations

from derivations.claims import Claim
from derivations.partial_jacobians import erf, gelu, general, scale_invariant, statements

CLAIMS: tuple[Claim, ...] = (
    *general.CLAIMS,
    *statements.CLAIMS,
    *scale_invariant.CLAIMS,
    *erf.CLAIMS,
    *gelu.CLAIMS,
)
#: claims that hold to 30 digits and are not proved: tanh, whose averages have no closed form, is among their networks
TO_DIGITS = frozenset({"R5, Stein's lemma", "R13 (B.7)", "R18 (B.24)", "R21 (E.11)", "R21 (E.13)"})
