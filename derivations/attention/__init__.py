"""Transformer blocks: what papers and public code state of them at initialization.

CLAIMS: statements C1 to C30 as far as they are decided without training, each with a variant that must come out the
other way; SLOW: those among them that take longer than seconds. STATEMENTS says of every one of the thirty what became
of it.

python -m derivations.attention             prints a verdict on every claim (minutes)
python -m derivations.attention numbers     prints the acceptance values
python -m derivations.attention statements  prints what became of every statement
"""

from __future__ import annotations

from derivations.attention import collapse, depth, finite, infinite, moments, softmax
from derivations.attention.table import STATEMENTS as STATEMENTS
from derivations.claims import Claim

QUICK: tuple[Claim, ...] = (
    *moments.CLAIMS, *softmax.CLAIMS, *depth.CLAIMS, *collapse.CLAIMS, *infinite.CLAIMS
)  # fmt: skip
SLOW: tuple[Claim, ...] = (*softmax.SLOW, *depth.SLOW, *collapse.SLOW, *infinite.SLOW, *finite.SLOW)
CLAIMS: tuple[Claim, ...] = (*QUICK, *SLOW)
