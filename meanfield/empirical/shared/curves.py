"""J^{l0,l} of many blocks as a curve over the layers, from the same weights and a few random directions.

A *block* has its own (σ_w, σ_b). All of them see the same W, b (of the same Dense of the block, layer and network), so
that a layer is drawn once for all: drawing N² normals costs as much as pushing a hundred directions through them. The
networks, inputs and probes are those of `run_ensemble` and `measure_criticality` with the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from meanfield.base.answers.results import Estimate, MeanFieldError
from meanfield.base.arguments import choice
from meanfield.empirical.ensemble.parallel import each_network
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.operations.checks import blocks_of, integer, sampled
from meanfield.empirical.observables.norms import PROBE_LAWS, draw_inputs, draw_probes, log_squared_norm
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.shared.several_networks import ensembles_of, points
from meanfield.empirical.shared.shared_weights import SharedWeights, sharing
from meanfield.networks.records import Block


@dataclass(frozen=True, eq=False)
class JacobianCurves:
    """log_J[p, i, k] = log of the estimate of J^{l0,l} = ‖∂z^l/∂z^{l0}‖²_F/N for block p, network i, l = layers[k].

    Each J (not its logarithm) is unbiased: a mean of |(∂z^l/∂z^{l0}) v|²/N over `probes` vectors v of signs ±1. Where
    l < l0[p] it is NaN, and so is all from layer diverged_at[p, i] on: the first one with a number that is not finite
    (an overflow, or a LayerNorm of equal numbers), 0 if there is none.

    >>> from meanfield.networks.records import mlp
    >>> curves = jacobian_curves([mlp("relu")], sigma_w=1.4, sigma_b=0, width=20, depth=4, networks=5)
    >>> curves.log_J.shape
    (1, 5, 4)
    """

    layers: np.ndarray
    diverged_at: np.ndarray
    l0: tuple[int, ...]
    width: int
    depth: int
    networks: int
    probes: int
    seed: int
    log_J: np.ndarray = field(repr=False)

    @property
    def diverged(self) -> np.ndarray:
        """How many networks of each block left the finite numbers."""
        return np.count_nonzero(self.diverged_at, axis=1)

    def finite_depth(self, p: int) -> int:
        """The last layer that every network of block p reached with finite numbers."""
        found = self.diverged_at[self._block(p)]
        return int(found[found > 0].min()) - 1 if found.any() else self.depth

    def mean_log(self, p: int) -> Estimate:
        """The log of the mean of J over the networks, and its standard error s/(√n mean J), at every one of `layers`.

        NaN before layer l0 and where a network has diverged: a mean over the others would be biased.
        """
        logs = self.log_J[self._block(p)]
        largest = logs.max(axis=0)
        shift = np.where(np.isfinite(largest), largest, 0.0)
        with np.errstate(all="ignore"):  # a J that is 0 in all networks is an answer: −∞
            scaled = np.exp(logs - shift)
            mean = scaled.mean(axis=0)
            error = scaled.std(axis=0, ddof=1) / (math.sqrt(self.networks) * mean)
            return Estimate(np.log(mean) + shift, error, self.networks)

    def slope(self, p: int, first: int, last: int, against: Callable[[np.ndarray], np.ndarray] = np.log) -> Estimate:
        """Least-squares slope of log mean J against log l, or against(l), over first ≤ l ≤ last.

        Its standard error is the jackknife's over the networks: the layers of one network are not independent.
        """
        p = self._block(p)
        start, end = max(self.l0[p], 1), self.finite_depth(p)
        where = f"layer of a fit (all networks of block {p} have J^{{{self.l0[p]},l}} at layers {start} to {end})"
        first = integer(first, f"The first {where}", start, end)
        last = integer(last, f"The last {where}", first + 1, end + 1)
        kept = slice(first - int(self.layers[0]), last - int(self.layers[0]) + 1)
        without = _log_means_without(self.log_J[p, :, kept])
        if np.isneginf(without).any():
            raise MeanFieldError(f"log J of block {p} has no slope, as J is 0 in the networks by layer {last}.")
        x = against(self.layers[kept].astype(float))
        fit = (x - x.mean()) / ((x - x.mean()) ** 2).sum()
        error = math.sqrt((self.networks - 1) * float((without @ fit).var()))
        return Estimate(float(self.mean_log(p).mean[kept] @ fit), error, self.networks)

    def _block(self, p: int) -> int:
        return integer(p, "The number of a block", 0, len(self.l0))

    def __str__(self) -> str:
        sizes = f"N = {self.width}, {self.networks} networks, {self.probes} probes"
        lost = f"{self.diverged.sum()} of {self.diverged_at.size} diverged"
        return f"log J of {len(self.l0)} blocks at layers {self.layers[0]} to {self.depth} ({sizes}); {lost}"


def _log_means_without(logs: np.ndarray) -> np.ndarray:
    """Row i: the log of the mean of exp(logs) over all rows but i, without subtracting what dominates a sum."""
    before = np.logaddexp.accumulate(logs, axis=0)[:-1]
    after = np.logaddexp.accumulate(logs[::-1], axis=0)[::-1][1:]
    inner = np.logaddexp(before[:-1], after[1:])
    return np.concatenate((after[:1], inner, before[-1:])) - math.log(len(logs) - 1)


def jacobian_curves(
    blocks: Sequence[Block],
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: int,
    depth: int,
    networks: int,
    probes: int = 32,
    probe_law: str = "signs",
    seed: int = 0,
    l0: int | Sequence[int] = 1,
    sampler: str = "explicit",
    input_dimension: int | None = None,
    input_norm: float = 1.0,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> JacobianCurves:
    """Measure J^{l0,l} of blocks[p] at (sigma_w[p], sigma_b[p]) for every l, on networks that share their weights.

    sigma_w, sigma_b ≥ 0 and l0: one number, or one for each block. l0 = 0 is the input, ∂z^l/∂x, still divided by N.
    A network costs N² normals and 2 N² (1 + probes) operations a block for every Dense and layer. Memory: N·max(N, N_0)
    numbers a thread for every Dense of a block. With sampler="lazy" products are drawn exactly in law for every block,
    from the same normals, at O(N) each. probe_law: of the probes: "signs" ±1 (the least variance), "gaussian" or
    "sphere". The other arguments are those of `run_ensemble`.

    Raises `MeanFieldError` for arguments out of range and for a φ that jumps.

    >>> from meanfield.networks.records import mlp
    >>> curves = jacobian_curves([mlp("erf"), mlp("relu")], sigma_w=[1, 2**0.5], sigma_b=[0, 0], width=30, depth=9,
    ...     networks=4)
    >>> curves.log_J.shape, bool(curves.slope(0, 3, 9).mean < curves.slope(1, 3, 9).mean)
    ((2, 4, 9), True)
    """
    blocks_of(blocks)
    choice(probe_law, "probe_law", PROBE_LAWS)
    sizes: dict[str, Any] = {"width": width, "depth": depth, "input_dimension": input_dimension, "sampler": sampler}
    more: dict[str, Any] = {"activation_pairs": activation_pairs, "apart": "A set of curves", "derivative": "J"}
    ensembles = ensembles_of(blocks, points(sigma_w, sigma_b, len(blocks)), parameters, **sizes, **more)
    width, depth, fan_in = ensembles[0].width, ensembles[0].depth, ensembles[0].fan_in
    starts = tuple(integer(start, "The layer l0", 0, depth + 1) for start in _each(l0, blocks))
    networks, probes, seed, input_norm = sampled(networks, probes, seed, input_norm, max(width, fan_in))
    layers = np.arange(max(min(starts), 1), depth + 1)
    log_J = np.full((len(blocks), networks, layers.size), math.nan)
    diverged_at = np.zeros((len(blocks), networks), dtype=np.int64)

    def work(index: int, buffers: Buffers, stop: Event) -> None:
        inputs = draw_inputs(fan_in, seed, index, input_norm)
        sizes = fan_in, *ensembles[0].widths
        directions = {s: draw_probes(sizes[s], seed, index, probes, law=probe_law) for s in set(starts)}
        drawn = SharedWeights(seed, index, buffers)
        runs = {
            p: sharing(ensemble, seed, index, buffers, drawn).layers(inputs, start, directions=directions[start])
            for p, (ensemble, start) in enumerate(zip(ensembles, starts))
        }
        carried = np.zeros(len(blocks))  # ln of what the directions were divided by
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            for layer in range(1, depth + 1):
                if stop.is_set():
                    return
                for p in list(runs):
                    _, z, pushed = next(runs[p])
                    log_norm, shift = (0.0, 0.0) if pushed is None else log_squared_norm(pushed)
                    if math.isnan(log_norm) or not np.isfinite(z).all():
                        diverged_at[p, index] = layer
                        del runs[p]
                    elif pushed is not None:
                        log_J[p, index, layer - layers[0]] = log_norm + 2 * carried[p] - math.log(pushed.size)
                        carried[p] += shift
                drawn.release()

    each_network(work, networks, threads, progress)
    return JacobianCurves(layers, diverged_at, starts, width, depth, networks, probes, seed, log_J)


def _each(value: Any, blocks: Sequence[Block]) -> list[float]:
    """A layer l0 for each block."""
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        array = np.asarray(math.nan)
    if array.ndim and array.shape != (len(blocks),):
        raise MeanFieldError(
            f"l0 must be one number, or one for each of the {len(blocks)} blocks, but its shape is {array.shape}."
        )
    return np.broadcast_to(array, (len(blocks),)).tolist()
