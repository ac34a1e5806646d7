"""How much each standard deviation of a network moves the Jacobian of each of its blocks, at infinite width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import one_point, positive, validated, whole
from meanfield.tuning.network_gains.backward import Blocks, state
from meanfield.tuning.network_gains.infinite_width import given_deviations
from meanfield.tuning.network_gains.tuned import refuse_schedules
from meanfield.tuning.recommendation.recommend import read


@dataclass(frozen=True, eq=False)
class Sensitivities:
    """∂ log J^{l,l+1}/∂σ of every block l = 1 … depth − 1 by the σ's of every layer; see `sensitivities`.

    sigma_w, sigma_b: arrays (block l, layer, Dense), block l in place l − 1 and layer k in place k − 1: 0 where the
    layer comes after the block, and in the places that the input layer, whose one Dense is in place 0, has no Dense
    for; log_J: log J^{l,l+1}; K: K^l of the layers.
    """

    sigma_w: np.ndarray
    sigma_b: np.ndarray
    log_J: np.ndarray
    K: np.ndarray


@validated
def sensitivities(
    network: Any,
    *,
    architecture: str | None = None,
    depth: int,
    sigma_w: Any = 1.0,
    sigma_b: Any = 0.0,
    layerwise: bool = False,
    input_norm: float = 1.0,
    **parameters: Any,
) -> Sensitivities:
    """∂ log J^{l,l+1}/∂σ_w^k and ∂ log J^{l,l+1}/∂σ_b^k of a network of infinite width, for all blocks l and layers k.

    network, architecture, parameters: as in `recommend`; depth: layers, from 2; sigma_w, sigma_b: numbers, with
    layerwise=True one for each layer; input_norm: |x|²/N_0. Layer k = l + 1 is that of the block's own matrices, an
    earlier one moves J through K^l. By a gain a with σ = a σ_0 the derivative is σ_0 times as large.

    Accuracy: about 1e-9 relative to the largest entry (differences of fourth order in log σ). Raises: MeanFieldError
    where σ_w = 0, where K leaves the range of floats, for a φ that jumps and for a Schedule. Source: [autoinit] (15),
    (16) for plain layers, with their misprints mended; here for every record with a J.

    >>> found = sensitivities("relu", depth=4, sigma_w=2)
    >>> found.sigma_w[:, :, 0].round(6).tolist()  # J = σ_w²/2 knows its own layer alone
    [[0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
    """
    depth, norm = whole(depth, "depth", 2, 10_000), positive(input_norm, "input_norm")
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b}, layerwise)
    block, values = read(network, architecture, parameters)
    refuse_schedules(block)
    sigma = given_deviations(block, values, depth, sigma_w, sigma_b)
    if not (sigma[0, 0, 0] > 0 and (sigma[1:, :, 0] > 0).all()):
        raise MeanFieldError("log J was to be derived by sigma_w, but sigma_w is 0 in a layer, where J is 0.")
    found = state(Blocks(block, values), np.ones(sigma.shape), sigma, norm)
    with np.errstate(invalid="ignore", divide="ignore"):
        rows = np.where(sigma > 0, found.jacobian(), 0.0)  # K is even in σ_b: its derivative at 0 is 0
    return Sensitivities(rows[..., 0], rows[..., 1], found.log_J, found.K)
