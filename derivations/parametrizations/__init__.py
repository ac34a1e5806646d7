"""Parametrizations: what five papers and four packages say of learning rates and multipliers, decided by the exact
powers of one training step (C31 to C35).

The tables are those of public code as of 2026-11 where a claim says "code", and those of a paper's own image or
abstract otherwise; theorems of [2310.02244] and tables of [2203.03466] and [2407.17465] were not read. Each claim asks
`parametrization(...).powers(...)`; its contrast is another parametrization, or the other word.

python -m derivations.parametrizations          prints a verdict on every claim
python -m derivations.parametrizations numbers  prints powers, each with a planted error of an exponent
python -m derivations.parametrizations tables   prints the powers of every published parametrization
"""

from __future__ import annotations

from derivations.claims import Claim
from derivations.parametrizations import depths, widths

CLAIMS: tuple[Claim, ...] = (*widths.CLAIMS, *depths.CLAIMS)
