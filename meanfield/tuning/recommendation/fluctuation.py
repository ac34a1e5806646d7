"""Mean and variance of log J^{1,L} over networks of a plain MLP, to order 1/n, by the correlators of J."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.correlators.derived import plain
from meanfield.networks.records import Block, Dense
from meanfield.numeric.lowering.modules.module_functions import EVERY_K
from meanfield.numeric.run.depth_iteration import propagate
from meanfield.symbolic.finite_width.correlator_recursions import correlator_recursion

SMALLEST_K = 1e-25  # K beyond it, or its inverse, are asked of tables of every K
STEP = 16  # octaves by which spans of K are told apart: tables of one serve many points


def _around(K: np.ndarray) -> tuple[float, float]:
    """A range of K that holds all of these with room, the same for most runs; of a K that vanishes or overflows every
    one."""
    low, high = float(np.min(K)), float(np.max(K))
    if not (low > SMALLEST_K and high < 1 / SMALLEST_K):
        return EVERY_K
    first, last = math.floor((math.log2(low) - 1) / STEP), math.ceil((math.log2(high) + 1) / STEP)
    return 2.0 ** (first * STEP), 2.0 ** (last * STEP)


def of_log_J(block: Block, point: tuple[float, float, float], depth: int) -> tuple[float, float, float] | None:
    """(log J, n times what its mean over networks is more, n times its variance) at (σ_w, σ_b, K¹); None for other
    networks than plain MLPs with Gaussian weights, and where a number is not finite.

    J is a tangent kernel that starts as the identity and is not trained: its A, divided by J², is A_J, so that Var J =
    J²(A_J/n + 2B_J/n²) for a mean over n neurons, and log J has the mean log J + J1/(nJ) − A_J/(2n).
    """
    try:
        phi, law = plain(block, Dense(), "J1")
        if law != "gaussian":
            return None
        recursion = correlator_recursion(phi, quantities=("J1", "A_J"))
        sigma_w, sigma_b, K1 = point
        with np.errstate(all="ignore"):
            followed = partial(propagate, sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, start={"K": K1})
            met = followed(recursion.only("K")).values["K"]
            run = followed(recursion, span=_around(met))
    except MeanFieldError:
        return None
    log_J, shift, variance = (float(run.values[x][-1]) for x in ("log_J", "J1_J", "A_J"))
    if not (math.isfinite(log_J) and math.isfinite(shift) and 0 <= variance < math.inf):
        return None
    return log_J, shift - variance / 2, variance
