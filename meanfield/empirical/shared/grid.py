"""χ of many blocks at many (σ_w, σ_b), from the same weights: one product of W with a wide matrix serves all of them.

A *column* is one block at one point of the grid, run as one position of a network whose positions have σ's of their
own. All columns see the same W, b (of the same Dense of the block, layer and network) and the same input: differences
between columns have less noise than two independent runs. Columns are kept in tiles (some points of one block) that
fit into a core's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.empirical.ensemble.parallel import check_workers, each_network
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import integer, sampled
from meanfield.empirical.network.operations.operation_walk import Linear
from meanfield.empirical.network.tangents_and_cotangents import Tangents
from meanfield.empirical.observables.norms import draw_inputs, draw_probes
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import MAX_LAYER
from meanfield.empirical.shared.several_networks import ensembles_of, points
from meanfield.empirical.shared.shared_weights import SharedWeights, sharing
from meanfield.networks.records import Block

_TILE = 1 << 17  # numbers of a tile: 1 MiB
_HELD = 1 << 22  # numbers of all tiles a thread works on at once: 32 MiB


@dataclass(frozen=True, eq=False)
class CriticalityGrid:
    """χ[p, g] of block p at (σ_w[g], σ_b[g]): mean and standard error over the networks, of depth L and width N.

    Where diverged[p, g] > 0, that many networks had a number that is not finite (an overflow, or a LayerNorm of equal
    numbers), and χ and its standard error are NaN.

    >>> from meanfield.networks.records import mlp
    >>> sizes = dict(width=20, depth=3, networks=5)
    >>> criticality_grid([mlp("relu")], sigma_w=[1.0, 2.0], sigma_b=[0, 0], **sizes).chi.shape
    (1, 2)
    """

    sigma_w: np.ndarray
    sigma_b: np.ndarray
    chi: np.ndarray
    standard_error: np.ndarray
    diverged: np.ndarray
    width: int
    depth: int
    networks: int
    probes: int
    seed: int

    def __repr__(self) -> str:
        return one_line("CriticalityGrid", str(self))

    def __str__(self) -> str:
        blocks, points = self.chi.shape
        finite = self.chi[self.diverged == 0]
        span = f"χ from {finite.min():.4g} to {finite.max():.4g}" if finite.size else "no χ"
        lost = self.chi.size - finite.size
        return (
            f"{blocks} blocks at {points} points (N = {self.width}, L = {self.depth}, {self.networks} networks): {span}"
            + (f"; {lost} of {self.chi.size} columns overflow (or normalize equal numbers)" if lost else "")
        )


@dataclass(eq=False)
class _Tile:
    """Some points of one block: `columns` are theirs among all of a batch; the σ's are columns of an array."""

    ensemble: Ensemble
    columns: slice
    sigma_w: np.ndarray
    sigma_b: np.ndarray


def criticality_grid(
    blocks: Sequence[Block],
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: int = 500,
    depth: int = 50,
    networks: int = 100,
    probes: int = 4,
    seed: int = 0,
    input_norm: float = 1.0,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> CriticalityGrid:
    """Measure χ = J^{L−2,L−1} as `measure_criticality` does, for every block at every pair (sigma_w[g], sigma_b[g]).

    Network i of a column has the weights, the input and the probes of network i of `measure_criticality` with this
    seed, so the two agree to rounding. A network costs 2 N² (L + probes) operations a column.
    sigma_w, sigma_b ≥ 0: arrays of one length, or a number for one of them. Memory: about 32 MiB a thread, N² numbers
    for every Dense of a block, and one number for every network and column.

    Raises `MeanFieldError` for arguments out of range and for a φ that jumps. A column that overflows is NaN, with the
    number of its networks that did in `diverged`.

    >>> from meanfield.networks.records import mlp
    >>> grid = criticality_grid([mlp("tanh"), mlp("relu")], sigma_w=[0.5, 1, 2], sigma_b=[0, 0, 0], width=20,
    ...     depth=5, networks=4)
    >>> grid.chi.shape, bool((grid.chi[:, 0] < 1).all())
    ((2, 3), True)
    """
    check_workers(threads, progress=progress)
    depth = integer(depth, "The depth", 3, MAX_LAYER)
    scanned = points(sigma_w, sigma_b)
    ensembles = _scanned(blocks, parameters, width=width, depth=depth, activation_pairs=activation_pairs)
    width = ensembles[0].width
    networks, probes, seed, input_norm = sampled(networks, probes, seed, input_norm, width)
    batches = _batches(ensembles, *scanned, width)
    parts = []
    for done, tiles in enumerate(batches):
        report = None if progress is None else _shifted(progress, done * networks, len(batches) * networks)
        chi = np.full((networks, tiles[-1].columns.stop), math.nan)

        def work(index: int, buffers: Buffers, stop: Event, tiles: list[_Tile] = tiles, chi: np.ndarray = chi) -> None:
            with np.errstate(all="ignore"):
                _measure(tiles, seed, index, buffers, input_norm, probes, chi[index], stop)

        each_network(work, networks, threads, report)
        bad = np.count_nonzero(~np.isfinite(chi), axis=0)
        with np.errstate(all="ignore"):
            parts.append((chi.mean(axis=0), chi.std(axis=0, ddof=1) / math.sqrt(networks), bad))
    shape = len(blocks), scanned[0].size
    mean, error, diverged = (np.concatenate(arrays).reshape(shape) for arrays in zip(*parts))
    mean[diverged > 0] = error[diverged > 0] = math.nan
    return CriticalityGrid(*scanned, mean, error, diverged, width, depth, networks, probes, seed)


def _scanned(blocks: Sequence[Block], values: Mapping[str, Any], **more: Any) -> list[Ensemble]:
    """The networks of every block, whose own σ's the points of the grid replace."""
    more |= {"apart": "A grid", "derivative": "χ"}
    one, other = (ensembles_of(blocks, (s, s), values, **more) for s in (1.0, 2.0))
    if any(a.operations != b.operations for a, b in zip(one, other)):
        raise MeanFieldError(
            "A grid shares its weights between the points and cannot run a network where a Schedule falls from the σ's "
            "that it scans; use run_ensemble for one point at a time."
        )
    return one


def _shifted(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int, int], None]:
    return lambda now, _: progress(done + now, total)


def _batches(
    ensembles: list[Ensemble], sigma_w: np.ndarray, sigma_b: np.ndarray, width: int
) -> list[list[_Tile]]:
    """All columns, block after block, cut into tiles, and the tiles into batches that are held at once.

    The cuts depend on the sizes alone, so that neither threads nor networks change a bit.
    """
    parts = math.ceil(sigma_w.size / max(8, _TILE // width))
    cuts = [sigma_w.size * i // parts for i in range(parts + 1)]
    batches: list[list[_Tile]] = [[]]
    for one in ensembles:
        for first, end in pairwise(cuts):
            used = batches[-1][-1].columns.stop if batches[-1] else 0
            if used and (used + end - first) * width > _HELD:
                batches.append([])
                used = 0
            here = slice(first, end)
            columns = slice(used, used + end - first)
            batches[-1].append(_Tile(one, columns, sigma_w[here, None], sigma_b[here, None]))
    return batches


def _measure(
    tiles: list[_Tile],
    seed: int,
    index: int,
    buffers: Buffers,
    input_norm: float,
    probes: int,
    chi: np.ndarray,
    stop: Event,
) -> None:
    """Write χ of every column of one network; NaN where a number is not finite."""
    width, depth = tiles[0].ensemble.width, tiles[0].ensemble.depth
    x, signs = draw_inputs(width, seed, index, input_norm), draw_probes(width, seed, index, probes)
    drawn, bad = SharedWeights(seed, index, buffers), np.zeros(chi.size, dtype=bool)
    carried: list[list[Linear]] = [[] for _ in tiles]
    runs = []
    for tile, one in zip(tiles, carried):
        sigmas = {"sigma_w": tile.sigma_w, "sigma_b": tile.sigma_b}
        network = sharing(tile.ensemble, seed, index, buffers, drawn, **sigmas)
        runs.append(network.run(np.repeat(x, len(tile.sigma_w), axis=0), one))
    for layer in range(1, depth):  # in step, so that a layer's weights are drawn once
        if stop.is_set():
            break
        for tile, run, one in zip(tiles, runs, carried):
            _, z = next(run)
            if layer < depth - 1:  # in the last block χ says it
                bad[tile.columns] |= ~np.isfinite(z).all(axis=1)
            if layer == depth - 2:
                rows = buffers.take(probes, *z.shape)
                rows[...] = signs.T[:, None, :]
                one.append(Tangents(rows, buffers))
            elif layer == depth - 1:
                pushed: Any = one[0]
                chi[tile.columns] = np.square(pushed.rows).sum(axis=(0, 2)) / (width * probes)
        drawn.release()
    chi[bad] = math.nan
