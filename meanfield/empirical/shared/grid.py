"""χ of many blocks at many (σ_w, σ_b), from the same weights: one product of W with a wide matrix serves all of them.

A *column* is one block at one point of the grid. All columns see the same W, b (of the same Dense of the block, layer
and network) and the same input, each scaled by its own σ_w, σ_b: differences between columns have less noise than two
independent runs. Columns are kept in tiles, N × (some points of one block), that fit into a core's cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from threading import Event
from typing import Any

import numpy as np

from meanfield.architecture import Block
from meanfield.empirical.ensemble.parallel import each_network, threads_used
from meanfield.empirical.functions.registry import ScalarPair, elementwise
from meanfield.empirical.network.carried import add_scaled
from meanfield.empirical.network.checks import integer, positive
from meanfield.empirical.network.operations import (
    AddSaved,
    Affine,
    Map,
    Normalize,
    Operation,
    Save,
    refuse_jumps,
    refuse_new,
    refuse_one_neuron,
)
from meanfield.empirical.network.program import operations
from meanfield.empirical.observables.norms import draw_inputs, draw_probes
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import MAX_INDEX, MAX_LAYER, MAX_NETWORK, fill_normals
from meanfield.empirical.shared.columns import add_squares, mark, normalize_columns, project_columns, scale_columns
from meanfield.results import MeanFieldError, one_line

_TILE = 1 << 17  # numbers of a tile: 1 MiB
_HELD = 1 << 22  # numbers of all tiles a thread works on at once: 32 MiB


@dataclass(frozen=True, eq=False)
class CriticalityGrid:
    """χ[p, g] of block p at (σ_w[g], σ_b[g]): mean and standard error over the networks, of depth L and width N.

    Where diverged[p, g] > 0, that many networks had a number that is not finite (an overflow, or a LayerNorm of equal
    numbers), and χ and its standard error are NaN.
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
    """Some points of one block: `columns` are theirs among all of a batch."""

    operations: tuple[Operation, ...]
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
    mu: Any = None,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CriticalityGrid:
    """Measure χ = J^{L−2,L−1} as `measure_criticality` does, for every block at every pair (sigma_w[g], sigma_b[g]).

    Network i of a column has the weights, the input and the probes of network i of `measure_criticality` with this
    seed, so the two agree to rounding. A network costs 2 N² (L + probes) operations a column.
    sigma_w, sigma_b ≥ 0: arrays of one length. Memory: about 32 MiB a thread, N² numbers for every Dense of a block,
    and one number for every network and column.

    Raises `MeanFieldError` for arguments out of range and for a φ that jumps. A column that overflows is NaN, with the
    number of its networks that did in `diverged`.

    >>> from meanfield.architecture import mlp
    >>> grid = criticality_grid([mlp("tanh"), mlp("relu")], sigma_w=[0.5, 1, 2], sigma_b=[0, 0, 0], width=20,
    ...     depth=5, networks=4)
    >>> grid.chi.shape, bool((grid.chi[:, 0] < 1).all())
    ((2, 3), True)
    """
    if isinstance(blocks, str) or not isinstance(blocks, Sequence) or not blocks:
        raise MeanFieldError(f"A list of at least one block was needed, but {blocks!r} was given.")
    width = integer(width, "The width", 1, 1 << 24)
    depth = integer(depth, "The depth", 3, MAX_LAYER)
    networks = integer(networks, "The number of networks", 2, MAX_NETWORK + 1)
    probes = integer(probes, "The number of probes", 1, min(1 << 16, MAX_INDEX // width))
    seed = integer(seed, "The seed", 0, 1 << 64)
    input_norm = positive(input_norm, "The input norm |x|²/N_0")
    threads = threads_used(threads)
    points = _points(sigma_w, sigma_b)
    lists = [operations(block, activation_pairs, mu, depth) for block in blocks]
    for one in lists:
        refuse_new(one, "A grid")
        if any(isinstance(operation, Normalize) for operation in one):
            refuse_one_neuron(width)
        refuse_jumps(one, "χ", "measure K with run_ensemble(..., jacobian=False)")
    batches = _batches(lists, *points, width)
    parts = []
    for done, tiles in enumerate(batches):
        report = None if progress is None else _shifted(progress, done * networks, len(batches) * networks)
        chi = np.full((networks, tiles[-1].columns.stop), math.nan)

        def work(index: int, buffers: Buffers, stop: Event, tiles: list[_Tile] = tiles, chi: np.ndarray = chi) -> None:
            with np.errstate(all="ignore"):
                _Run(width, depth, seed, index, buffers).measure(tiles, input_norm, probes, chi[index], stop)

        each_network(work, networks, threads, report)
        bad = np.count_nonzero(~np.isfinite(chi), axis=0)
        with np.errstate(all="ignore"):
            parts.append((chi.mean(axis=0), chi.std(axis=0, ddof=1) / math.sqrt(networks), bad))
    shape = len(blocks), points[0].size
    mean, error, diverged = (np.concatenate(arrays).reshape(shape) for arrays in zip(*parts))
    mean[diverged > 0] = error[diverged > 0] = math.nan
    return CriticalityGrid(*points, mean, error, diverged, width, depth, networks, probes, seed)


def _points(sigma_w: Any, sigma_b: Any) -> tuple[np.ndarray, np.ndarray]:
    arrays = []
    for name, value in (("sigma_w", sigma_w), ("sigma_b", sigma_b)):
        try:
            array = np.array(value, dtype=float)
        except (TypeError, ValueError):
            array = np.array(math.nan)
        if array.ndim != 1 or array.size == 0:
            raise MeanFieldError(
                f"{name} must hold the points of the grid, one number for each, but its shape is {array.shape}; "
                "flatten a mesh with ravel()."
            )
        if not (np.isfinite(array).all() and (array >= 0).all()):
            raise MeanFieldError(f"{name} must be finite and ≥ 0, but {value!r} was given.")
        arrays.append(array)
    first, second = arrays
    if first.size != second.size:
        raise MeanFieldError(
            f"sigma_w and sigma_b are the points (sigma_w[g], sigma_b[g]), but they have {first.size} and "
            f"{second.size} numbers; give arrays of one length."
        )
    return first, second


def _shifted(progress: Callable[[int, int], None], done: int, total: int) -> Callable[[int, int], None]:
    return lambda now, _: progress(done + now, total)


def _batches(
    lists: list[tuple[Operation, ...]], sigma_w: np.ndarray, sigma_b: np.ndarray, width: int
) -> list[list[_Tile]]:
    """All columns, block after block, cut into tiles, and the tiles into batches that are held at once.

    The cuts depend on the sizes alone, so that neither threads nor networks change a bit.
    """
    parts = math.ceil(sigma_w.size / max(8, _TILE // width))
    cuts = [sigma_w.size * i // parts for i in range(parts + 1)]
    batches: list[list[_Tile]] = [[]]
    for done in lists:
        for first, end in pairwise(cuts):
            used = batches[-1][-1].columns.stop if batches[-1] else 0
            if used and (used + end - first) * width > _HELD:
                batches.append([])
                used = 0
            here = slice(first, end)
            batches[-1].append(_Tile(done, slice(used, used + end - first), sigma_w[here], sigma_b[here]))
    return batches


@dataclass(eq=False)
class _Run:
    """One network with the columns of some tiles."""

    width: int
    depth: int
    seed: int
    index: int
    buffers: Buffers

    def measure(self, tiles: list[_Tile], input_norm: float, probes: int, chi: np.ndarray, stop: Event) -> None:
        """Write χ of every column; NaN where a number is not finite."""
        ordinals = {op.ordinal for tile in tiles for op in tile.operations if isinstance(op, Affine)}
        scratch = {ordinal: self.buffers.take(self.width, self.width) for ordinal in ordinals | {0}}
        bad = np.zeros(chi.size, dtype=bool)
        weights = self._draw(1, scratch, {0})
        field = weights[0][0] @ draw_inputs(self.width, self.seed, self.index, input_norm)[0]
        states = []
        for tile in tiles:
            z = self._filled((self.width, tile.sigma_w.size), field[:, None])
            scale_columns(z, tile.sigma_w, tile.sigma_b, weights[0][1])
            mark(z, bad[tile.columns])
            states.append(z)
        signs = draw_probes(self.width, self.seed, self.index, probes)
        for layer in range(2, self.depth):
            if stop.is_set():
                return
            weights = self._draw(layer, scratch, ordinals)
            for number, tile in enumerate(tiles):
                tangents = []
                if layer == self.depth - 1:
                    tangents = [self._filled(states[number].shape, column[:, None]) for column in signs.T]
                states[number] = self._block(layer, tile, weights, states[number], tangents, bad[tile.columns])
                if tangents:
                    total = np.zeros(tangents[0].shape[1])
                    for tangent in tangents:
                        add_squares(tangent, total)
                        self.buffers.give(tangent)
                    chi[tile.columns] = total / (self.width * probes)
        chi[bad] = math.nan
        for array in (*scratch.values(), *states):
            self.buffers.give(array)

    def _draw(self, layer: int, scratch: dict[int, np.ndarray], ordinals: set[int]) -> dict[int, tuple[Any, Any]]:
        """For every Dense: (N^{−1/2} W, b) of the layer, as a `Network` draws them."""
        drawn = {}
        for ordinal in ordinals:
            matrix, bias = scratch[ordinal], np.empty(self.width)
            key = self.seed, self.index, layer
            fill_normals(matrix.ravel(), *key, 2 * ordinal, scale=1 / math.sqrt(self.width))
            fill_normals(bias, *key, 2 * ordinal + 1)
            drawn[ordinal] = matrix, bias
        return drawn

    def _filled(self, shape: tuple[int, ...], value: np.ndarray) -> np.ndarray:
        new = self.buffers.take(*shape)
        new[...] = value
        return new

    def _block(
        self,
        layer: int,
        tile: _Tile,
        weights: dict[int, tuple[Any, Any]],
        z: np.ndarray,
        tangents: list[np.ndarray],
        bad: np.ndarray,
    ) -> np.ndarray:
        """The block applied to z, which is given back; its derivative to `tangents`, in place; columns with a number
        that is not finite, inside the block too, are marked in `bad`."""
        shape = z.shape
        saved: list[tuple[np.ndarray, list[np.ndarray]]] = []
        for operation in tile.operations:
            match operation:
                case Save():
                    saved.append((self._filled(shape, z), [self._filled(shape, t) for t in tangents]))
                    continue
                case AddSaved(mu):
                    kept, kept_tangents = saved.pop()
                    for one, other in ((z, kept), *zip(tangents, kept_tangents)):
                        add_scaled(one, mu[layer - 1], other, one)
                        self.buffers.give(other)
                case Map(pair):
                    if tangents:
                        slope = self.buffers.take(*shape)
                        elementwise(pair.dphi)(z.ravel(), slope.ravel(), pair.parameters)
                        for tangent in tangents:
                            np.multiply(tangent, slope, out=tangent)
                        self.buffers.give(slope)
                    elementwise(pair.phi)(z.ravel(), z.ravel(), pair.parameters)
                case Normalize():
                    spread = np.empty(shape[1])
                    normalize_columns(z, spread)
                    for tangent in tangents:
                        project_columns(z, spread, tangent)
                case Affine(ordinal):
                    matrix, bias = weights[ordinal]
                    for number, tangent in enumerate(tangents):
                        tangents[number] = self._product(matrix, tangent)
                        np.multiply(tangents[number], tile.sigma_w, out=tangents[number])
                    z = self._product(matrix, z)
                    scale_columns(z, tile.sigma_w, tile.sigma_b, bias)
            if not tangents:  # in the last block χ says it
                mark(z, bad)
        return z

    def _product(self, matrix: np.ndarray, z: np.ndarray) -> np.ndarray:
        new = self.buffers.take(*z.shape)
        np.matmul(matrix, z, out=new)
        self.buffers.give(z)
        return new
