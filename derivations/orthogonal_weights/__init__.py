"""*Feature Learning and Generalization in Deep Networks with Orthogonal Weights*.

CLAIMS: every statement that the engine can decide, each with a variant that must come out the other way. Numbers in
brackets are the paper's equations, E-numbers errata of its specification.

python -m derivations.orthogonal_weights            prints the verdicts
python -m derivations.orthogonal_weights numbers    prints the published and the engine's numbers
python -m derivations.orthogonal_weights constants  prints the limits and slopes of tanh
python -m derivations.orthogonal_weights figures DIR
"""

from __future__ import annotations

from derivations.claims import Claim
from derivations.orthogonal_weights import kernels, laws, linear, tangents, vertices, weights

CLAIMS: tuple[Claim, ...] = (
    *weights.CLAIMS,
    *linear.CLAIMS,
    *kernels.CLAIMS,
    *vertices.CLAIMS,
    *tangents.CLAIMS,
    *laws.CLAIMS,
)
#: claims that hold to 30 digits and are not proved: φ without closed forms of ⟨z φ φ′⟩
TO_DIGITS = frozenset({"(4.4)", "(4.18), orthogonal", "(4.18), Gaussian", "(4.26), any sigma"})
