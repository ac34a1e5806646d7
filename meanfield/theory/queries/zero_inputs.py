"""Inputs that are 0 at layer 1, where φ(0) may be no limit of averages at small K."""

from __future__ import annotations

import sympy as sp

from meanfield.functions import zeros
from meanfield.functions.activations import activation
from meanfield.functions.piecewise import at
from meanfield.networks.folds import through
from meanfield.networks.records import Block, Dense, Nonlinearity, Param, Residual, Schedule, exact
from meanfield.theory.queries.architecture_maps import Maps


def jumps_at_zero(theory: Maps, given: dict) -> bool:
    """Whether an input whose z is 0 meets a φ that jumps there: the value φ(0) is no limit of averages at small K.

    given: numbers or arrays by name, which say behind which Dense no z is 0.
    """
    met = False

    def of(part: Block, is_zero: bool) -> bool:
        nonlocal met
        if not is_zero or part.normalizes == "neurons" or (isinstance(part, Dense) and _is_biased(part, given)):
            return False
        if not isinstance(part, Nonlinearity):
            return True
        p = activation(part.activation).pieces
        met = met or any(b == 0 for b, _ in p.jumps())
        return all(zeros.is_zero(at(side, p.variable, sp.S.Zero)) for side in p.around_zero())

    def joined(part: Block, ways: tuple[bool, ...]) -> bool:
        return all(ways) if isinstance(part, Residual) else any(ways)  # a sum, a product

    through(theory.block, True, of, joined)
    return met


def _is_biased(dense: Dense, given: dict) -> bool:
    b = dense.sigma_b
    if isinstance(b, Schedule):
        return True
    if not isinstance(b, Param):
        return exact(b, "sigma_b") != 0
    import numpy as np  # a run may be of many points

    return bool(np.all(np.asarray(given.get(b.name, 0)) != 0))
