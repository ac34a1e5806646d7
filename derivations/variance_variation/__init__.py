"""*Deep Mean Field Theory: Layerwise Variance and Width Variation as Methods to Control Gradient Explosion*.

CLAIMS: every statement that the engine can decide, each with a variant that must come out the other way. R- and
T-numbers are the results and tables of its specification, E-numbers errata.

python -m derivations.variance_variation            prints the verdicts
python -m derivations.variance_variation numbers    prints the published and the engine's numbers
python -m derivations.variance_variation figures DIR
"""

from __future__ import annotations

from derivations.claims import Claim
from derivations.variance_variation import angles, kernels, lemmas, recursions, relu, tanh, tanh_beyond, widths

CLAIMS: tuple[Claim, ...] = (
    *recursions.CLAIMS,
    *kernels.CLAIMS,
    *lemmas.CLAIMS,
    *tanh.CLAIMS,
    *tanh_beyond.CLAIMS,
    *relu.CLAIMS,
    *angles.CLAIMS,
    *widths.CLAIMS,
)
#: claims that hold to 30 digits and are not proved: square roots and angles of c, Stein's lemma for tanh
TO_DIGITS = frozenset(
    {
        "R4, Thm C.2, γ",
        "R14, proof of C.10, ReLU, Wφ",
        "R22, Lemma D.4, proof, integral of sech⁴",
        "R22, Lemma D.5, proof, integral of sech²",
    }
)
