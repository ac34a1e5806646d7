"""Which number of a theory settles: the one place that tells networks apart by it."""

from __future__ import annotations

from meanfield.networks.folds import attends
from meanfield.theory.asked.architecture_maps import Maps
from meanfield.theory.settling.acting_positions import SettlingBatch, SettlingPositions
from meanfield.theory.settling.attending import TokensAlike
from meanfield.theory.settling.one_number import Settling


def settling_of(theory: Maps) -> Settling:
    """What settles of a theory."""
    if attends(theory.block):
        return TokensAlike(theory)
    return {"": Settling, "tokens": SettlingPositions, "batch": SettlingBatch}[theory.kind](theory)
