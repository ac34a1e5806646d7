"""Training: what the figures of five papers claim of trained networks, at a reduced scale, each with a control.

python -m derivations.training              prints a verdict on every claim (minutes)
python -m derivations.training --full       the same with more networks, depths and steps (hours)
python -m derivations.training figures DIR  draws the maps

Digits of 8 × 8 pixels stand for the papers' images, 30 to 100 neurons for their 500 to 1000. `FIGURES` says of every
figure that needs training what became of it.
"""

from __future__ import annotations

from derivations.training.claims_of_figures import CLAIMS as CLAIMS
from derivations.training.claims_of_figures import claims as claims
from derivations.training.table import FIGURES as FIGURES
