"""Transformer blocks: what papers and public code state of them at initialization.

CLAIMS: statements C1 to C30 as far as they are decided without training, each with a variant that must come out the
other way; SLOW: those among them that take longer than seconds. STATEMENTS says of every one of the thirty what became
of it.

python -m derivations.attention             prints a verdict on every claim (minutes)
python -m derivations.attention statements  prints what became of every statement
"""

from __future__ import annotations

from derivations.attention import depth, moments
from derivations.claims import Claim

SLOW: tuple[Claim, ...] = depth.SLOW
CLAIMS: tuple[Claim, ...] = (*moments.CLAIMS, *depth.CLAIMS, *SLOW)
