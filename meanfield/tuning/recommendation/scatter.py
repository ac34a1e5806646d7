"""How log J^{1,L} scatters over networks of one width: by correlators of J where they are derived, else measured."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.comparison.finite_width_allowance import LARGEST
from meanfield.comparison.measure import measure
from meanfield.networks.folds import parts
from meanfield.networks.records import Block, Network
from meanfield.theory.deriving import derive
from meanfield.tuning.recommendation.answer import Spread
from meanfield.tuning.recommendation.compiled_prediction import CompiledPrediction
from meanfield.tuning.recommendation.drawn_tokens import mixes
from meanfield.tuning.recommendation.fluctuation import of_log_J

BATCH, TOKENS = 32, 16  # unless given, where positions act on each other
PROBES, FEW = 16, 2  # directions of each network; few where they have the entries of many positions


def derived(block: Block, point: tuple[float, float, float], depth: int, width: int) -> Spread | None:
    """Mean and standard deviation of log J^{1,L} to order 1/n of a plain MLP with Gaussian weights at (σ_w, σ_b, K¹);
    None for other networks, and where 1/n is not small."""
    found = of_log_J(block, point, depth) if depth <= LARGEST * width else None
    if found is None or max(abs(found[1]), found[2]) > LARGEST * width:
        return None
    log_J, shift, variance = found
    return Spread(log_J + shift / width, math.sqrt(variance / width), None)


def measured(
    record: Network, p: CompiledPrediction, depth: int, width: int, tokens: int, networks: int, seed: int
) -> tuple[Spread | None, str]:
    """(how log J scatters over networks that are drawn at this width, why not)."""
    if not networks:
        return None, "not asked for (networks=0)"
    extra: dict[str, Any] = {}
    if mixes(p):
        extra = {"tokens": tokens}
    elif any(one.mixes == "batch" for one in parts(p.block)):
        extra = {"batch": p.batch or BATCH}
    try:
        run = measure(
            derive(architecture=record, batch=p.batch),
            width=width,
            depth=depth,
            networks=networks,
            seed=seed,
            probes=FEW if extra else PROBES,
            sampler="lazy",
            input_norm=p.input_norm,
            keep_samples=True,
            **extra,
        )
        log_J = np.asarray(run.samples["log_J"])[:, -1]
        if not np.isfinite(log_J).all():
            return None, "networks of this width overflow"
        return Spread(float(log_J.mean()), float(log_J.std(ddof=1)), networks), ""
    except MeanFieldError as error:
        return None, str(error)
