"""Networks of blocks at several (σ_w, σ_b), as callers ask for them: read, checked and made in one place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import refuse_not_real, shown
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import blocks_of, of_each
from meanfield.empirical.network.operations.operations import refuse_jumps
from meanfield.networks.records import Block


def ensembles_of(
    blocks: Sequence[Block],
    sigmas: tuple[Any, Any],
    values: Mapping[str, Any],
    *,
    apart: str = "",
    derivative: str = "",
    **more: Any,
) -> list[Ensemble]:
    """The networks of blocks[p] at (sigmas[0][p], sigmas[1][p]), each with the values of its own symbols; a number is
    for all of them.

    apart: what cannot be done where positions act on each other; derivative: what is taken, where it is one. more: as
    `Ensemble` takes it. Raises `MeanFieldError` for what no network is made of, and for these two.

    >>> from meanfield.networks.records import mlp
    >>> [one.widths for one in ensembles_of([mlp("relu")] * 2, points([1, 2], 0), {}, width=5, depth=2)]
    [(5, 5), (5, 5)]
    """
    blocks_of(blocks)
    at = (np.broadcast_to(one, len(blocks)).tolist() for one in sigmas)
    made = [Ensemble(block, w, b, values=own, **more) for (block, own), w, b in zip(of_each(blocks, values), *at)]
    for one in made:
        if apart and one.couples:
            raise MeanFieldError(
                f"{apart} cannot run a network where positions act on each other (BatchNorm, tokens); use run_ensemble "
                "for one block at a time."
            )
        if derivative:
            refuse_jumps(one.operations, derivative, "measure K with run_ensemble(..., jacobian=False)")
    return made


def points(sigma_w: Any, sigma_b: Any, blocks: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """σ_w and σ_b of the points (sigma_w[g], sigma_b[g]): numbers ≥ 0, of which one stands for all, or lists of one
    length; blocks: how many there have to be, if that is known.

    >>> points(1, [0, 0.5])
    (array([1., 1.]), array([0. , 0.5]))
    """
    arrays = deviations(sigma_w, "sigma_w"), deviations(sigma_b, "sigma_b")
    counts = {len(one) for one in arrays} - {1} | ({blocks} if blocks else set())
    if len(counts) > 1:
        wanted = f"for {blocks} blocks; give one for each" if blocks else "; give arrays of one length"
        raise MeanFieldError(
            f"sigma_w and sigma_b are the points (sigma_w[g], sigma_b[g]), but they have {len(arrays[0])} and "
            f"{len(arrays[1])} numbers{' ' * bool(blocks)}{wanted}, or a number for all."
        )
    first, second = (np.array(np.broadcast_to(one, max(counts, default=1))) for one in arrays)
    return first, second


def deviations(value: Any, name: str) -> np.ndarray:
    """A number ≥ 0, or a list of them, as an array with one axis."""
    refuse_not_real(value, name)
    try:
        array = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError, OverflowError):
        array = np.asarray([math.nan])
    if array.ndim != 1 or not array.size or not (np.isfinite(array) & (array >= 0)).all():
        mesh = " (flatten a mesh with ravel())" * (array.ndim > 1)
        raise MeanFieldError(f"{name} must be a number ≥ 0 or a list of them{mesh}, but {shown(value)} was given.")
    return array
