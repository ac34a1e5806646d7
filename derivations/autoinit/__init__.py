"""He, Doshi, Gromov, *AutoInit: Automatic Initialization via Jacobian Tuning*: BatchNorm, ResMLP, tuning.

CLAIMS: the equations of BatchNorm (Sec. 3, App. B.4), of ResMLP (App. D) and of the tuning (Sec. 2, App. B, C), each
with a variant that must come out the other way. R-numbers are those of the specification, equation numbers those of
the paper.

python -m derivations.autoinit             prints the verdicts
python -m derivations.autoinit numbers     prints the acceptance values
python -m derivations.autoinit figures DIR
"""

from __future__ import annotations

from derivations.autoinit import batchnorm, perceptrons, resmlp, tuning
from derivations.claims import Claim

CLAIMS: tuple[Claim, ...] = (*perceptrons.CLAIMS, *batchnorm.CLAIMS, *resmlp.CLAIMS, *tuning.CLAIMS)
#: claims that hold to 30 digits and are not proved: angles of an arc-cosine kernel
TO_DIGITS = frozenset({"R38B (32), |B| = 8", "R6 (6), |B| = 8", "R10 (10)"})
