"""Recipes: the constants of public code by which networks are initialized and functions rescaled, statements of public
threads and documents, and where code does otherwise than its own words say (C36 to C38, E.1 to E.9).

CLAIMS: each constant beside the number that it stands for, by `meanfield.gains`, with a variant that must come out the
other way. A constant that is not that number counts as a misprint here, whatever it was meant to be (a mean of samples,
a fit): its contrast is the exact one.

python -m derivations.recipes            prints a verdict on every constant
python -m derivations.recipes numbers    prints the acceptance values
python -m derivations.recipes constants  prints published, exact, relative difference, and K and J after 50 layers
python -m derivations.recipes questions  prints a table for each question that people ask (minutes)
python -m derivations.recipes figures    draws K and log J over the blocks for each, into a folder
"""

from __future__ import annotations

from derivations.claims import Claim
from derivations.recipes import constants, threads

CLAIMS: tuple[Claim, ...] = (*constants.CLAIMS, *threads.CLAIMS)
