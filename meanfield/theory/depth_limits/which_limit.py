"""Which number of a theory converges with depth: the one place that tells networks apart by it."""

from __future__ import annotations

from meanfield.networks.folds import attends
from meanfield.theory.depth_limits.coupled_limits import BatchDepthLimit, CoupledDepthLimit
from meanfield.theory.depth_limits.depth_limit import DepthLimit
from meanfield.theory.depth_limits.token_limits import TokensAlike
from meanfield.theory.queries.architecture_maps import Maps


def depth_limit_of(theory: Maps) -> DepthLimit:
    """The number of a theory whose limit at large depth its verbs ask for."""
    if attends(theory.block):
        return TokensAlike(theory)
    return {"": DepthLimit, "tokens": CoupledDepthLimit, "batch": BatchDepthLimit}[theory.kind](theory)
