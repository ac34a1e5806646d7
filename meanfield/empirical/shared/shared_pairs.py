"""All pairs of inputs of one network, layer by layer, at several (σ_w, σ_b) that share one draw of the weights.

Two readings of the same network: covariances over the neurons, for every pair of inputs (their quantiles are bands),
and the split of a neuron's values over the inputs into its mean and its spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import choice, provides, refuse_not_real, shown, validated
from meanfield.base.budgets import require_memory
from meanfield.empirical.ensemble.parallel import threads_used
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.operations.checks import given_inputs, integer, positive, stream_of
from meanfield.empirical.observables.norms import draw_batch, spread_and_drift
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.shared.several_networks import ensembles_of, points
from meanfield.empirical.shared.shared_weights import SharedWeights, sharing
from meanfield.networks.records import Block

PAIR_ROWS = ("K_aa", "K_ab", "c", "one_minus_c", "distance")


@dataclass(frozen=True, eq=False)
class PairStatistics:
    """What one network does to m inputs, at S points (sigma_w[s], sigma_b[s]) and layers l = 1..depth.

    K[s, l − 1, a, b] = Σ_i z_ia z_ib/N over the N neurons; distance[s, l − 1, a, b] = Σ_i (z_ia − z_ib)²/N, which keeps
    its digits near full correlation. sigma_y2[s, l − 1], ≥ 0: mean over the neurons of the variance over the inputs.
    sigma_mu2[s, l − 1]: variance over the neurons of the mean over the inputs, less the share sigma_y2/m that a mean of
    m has (so it may be below 0). Both variances have denominators m − 1 and N − 1, so that neither is biased.
    diverged_at[s]: first layer with a number that is not finite, 0 if there is none; all is NaN from there on.

    Source: [bias_and_trainability] Def. 2.1, Sec. 2.2; the correction by sigma_y2/m is derived here.

    >>> from meanfield.networks.records import mlp
    >>> pairs = measure_pairs(mlp("relu"), sigma_w=1.4, sigma_b=0.3, width=100, depth=3, batch=5)
    >>> pairs.c.shape
    (1, 3)
    """

    sigma_w: np.ndarray
    sigma_b: np.ndarray
    width: int
    depth: int
    inputs: int
    sampler: str
    seed: int
    index: int
    diverged_at: np.ndarray
    sigma_y2: np.ndarray
    sigma_mu2: np.ndarray
    K: np.ndarray = field(repr=False)
    distance: np.ndarray = field(repr=False)

    @property
    def layers(self) -> np.ndarray:
        return np.arange(1, self.depth + 1)

    @property
    def gamma(self) -> np.ndarray:
        """sigma_mu2/sigma_y2, of shape (S, depth)."""
        with np.errstate(all="ignore"):
            return self.sigma_mu2 / self.sigma_y2

    @property
    def c(self) -> np.ndarray:
        """γ/(1 + γ) = sigma_mu2/(sigma_mu2 + sigma_y2), of shape (S, depth)."""
        with np.errstate(all="ignore"):
            return self.sigma_mu2 / (self.sigma_mu2 + self.sigma_y2)

    def pairs(self, name: str) -> np.ndarray:
        """One row of numbers for every s and l: "K_aa" of the m inputs; "K_ab", "c" = K_ab/√(K_aa K_bb), "one_minus_c"
        (to rounding of itself) or "distance" of the m(m − 1)/2 pairs a < b, in the order of `np.triu_indices(m, 1)`.

        Raises `MeanFieldError` for another name.
        """
        choice(name, "name", PAIR_ROWS)
        own = np.diagonal(self.K, axis1=2, axis2=3)
        if name == "K_aa":
            return own.copy()
        a, b = np.triu_indices(self.inputs, 1)
        if name in ("K_ab", "distance"):
            return (self.K if name == "K_ab" else self.distance)[:, :, a, b]
        root = np.sqrt(own)
        with np.errstate(all="ignore"):  # of a signal that has died there is no correlation: NaN
            gap = (self.distance[:, :, a, b] - np.square(root[:, :, a] - root[:, :, b])) / (
                2.0 * root[:, :, a] * root[:, :, b]
            )
        gap = np.maximum(gap, 0.0)  # NaN stays
        return gap if name == "one_minus_c" else 1.0 - gap

    def quantiles(self, name: str, levels: Any = (0.05, 0.5, 0.95)) -> np.ndarray:
        """Quantiles of `pairs(name)` over the pairs (over the inputs for "K_aa"), of shape (levels, S, depth).

        levels: numbers of [0, 1]. Raises `MeanFieldError` for another name and for other levels.
        """
        refuse_not_real(levels, "levels")
        at = np.atleast_1d(np.asarray(levels, dtype=float))
        if at.ndim != 1 or not at.size or not ((at >= 0) & (at <= 1)).all():
            raise MeanFieldError(f"levels must be numbers from 0 to 1, but {shown(levels)} was given.")
        return np.quantile(self.pairs(name), at, axis=-1)

    def __repr__(self) -> str:
        return one_line("PairStatistics", str(self))

    def __str__(self) -> str:
        lost = int(np.count_nonzero(self.diverged_at))
        return (
            f"{self.inputs} inputs of network {self.index} (N = {self.width}, L = {self.depth}, {self.sampler}) at "
            f"{len(self.sigma_w)} points" + (f"; {lost} of them overflow (or normalize equal numbers)" if lost else "")
        )


@validated
def measure_pairs(
    block: Block,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: Any,
    depth: int,
    batch: int | None = None,
    inputs: Any = None,
    seed: int = 0,
    index: int = 0,
    sampler: str = "lazy",
    input_dimension: int | None = None,
    input_norm: float = 1.0,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> PairStatistics:
    """Covariances and correlations of all pairs of inputs of network number `index`, at every layer, with the unbiased
    spread and drift of its neurons.

    sigma_w, sigma_b ≥ 0: numbers, or arrays of S points (one of them may be a number). All points see the same W and b,
    each times its own σ: with sampler="explicit" one matrix; with "lazy", which draws a batch's products exactly in
    law for every point, the same normals. batch: m ≥ 2 independent normal inputs of variance input_norm, 100 unless
    given; or inputs=, an array (m, N_0). width, depth, input_dimension, parameters as in `run_ensemble`.

    A layer costs O(N m²) a point with "lazy", N² normals and 2 N² m operations a point with "explicit". The answer
    holds 2 S L m² numbers.

    Raises `MeanFieldError` for arguments out of range and for a network that cannot be run. A point that overflows is
    NaN from the layer on that `diverged_at` names.

    >>> from meanfield.networks.records import mlp
    >>> found = measure_pairs(mlp("relu"), sigma_w=[1.2, 1.6], sigma_b=0.3, width=500, depth=4, batch=10)
    >>> found.K.shape, found.quantiles("c").shape, found.gamma.shape
    ((2, 4, 10, 10), (3, 2, 4), (2, 4))
    """
    provides(progress, "progress", None, "a function progress(done, layers)")
    given = None
    if inputs is not None:
        if batch is not None:
            raise MeanFieldError("Give one of batch= and inputs=.")
        given, tokens, input_dimension = given_inputs(inputs, 1, input_dimension)
        if tokens > 1:
            raise MeanFieldError(f"Inputs of {tokens} tokens were given, but pairs are of inputs without tokens.")
    count = len(given) if given is not None else integer(100 if batch is None else batch, "batch", 2, 1 << 16)
    if count < 2:
        raise MeanFieldError("Pairs need two inputs or more, but one was given; give batch= or more inputs=.")
    at = points(sigma_w, sigma_b)
    sizes: dict[str, Any] = {"width": width, "depth": depth, "input_dimension": input_dimension}
    more: dict[str, Any] = {"activation_pairs": activation_pairs, "sampler": sampler}
    ensembles = ensembles_of([block] * len(at[0]), at, parameters, **sizes, **more)
    first = ensembles[0]
    if min(first.widths) < 2:
        raise MeanFieldError("A variance over the neurons needs two of them, but the width is 1; take 2 or more.")
    seed, index = stream_of(seed, index)
    input_norm = positive(input_norm, "The input norm |x|²/N_0")
    threads = min(threads_used(threads), len(ensembles))
    largest = max(first.fan_in, *first.widths)
    held = largest * (largest if sampler == "explicit" else (2 + 4 * len(ensembles)) * count)
    require_memory(
        8.0 * (2 * len(ensembles) * first.depth * count**2 + held),
        f"Pairs of {count} inputs at {len(ensembles)} points, {first.depth} layers and {largest} neurons",
        "take fewer inputs, points, layers or neurons, or sampler='lazy'",
    )
    x = draw_batch(count, first.fan_in, seed, index, input_norm) if given is None else given
    drawn = SharedWeights(seed, index, Buffers())
    runs = [sharing(one, seed, index, Buffers(), drawn, once=True).run(x) for one in ensembles]
    shape = len(runs), first.depth
    K, distance = (np.full((*shape, count, count), math.nan) for _ in range(2))
    sigma_y2, sigma_mu2 = (np.full(shape, math.nan) for _ in range(2))
    diverged_at = np.zeros(len(runs), dtype=np.int64)

    def step(s: int) -> None:
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            layer, found = _statistics(runs[s])
        if not all(np.isfinite(one).all() for one in found):
            diverged_at[s] = layer
            return
        K[s, layer - 1], distance[s, layer - 1], sigma_y2[s, layer - 1], sigma_mu2[s, layer - 1] = found

    with threadpool_limits(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for layer in range(1, first.depth + 1):  # in step, so that a layer's weights are drawn once
            list(pool.map(step, [s for s in range(len(runs)) if not diverged_at[s]]))
            drawn.release()
            if progress is not None:
                progress(layer, first.depth)
    return PairStatistics(
        *at, first.width, first.depth, count, sampler, seed, index, diverged_at, sigma_y2, sigma_mu2, K, distance
    )


def _statistics(run: Iterator[tuple[int, np.ndarray]]) -> tuple[int, tuple[np.ndarray, ...]]:
    """(l, (K, distance, sigma_y2, sigma_mu2)) of the next layer."""
    layer, z = next(run)
    neurons = z.shape[1]
    apart = z - z.mean(axis=0)
    spread = apart @ apart.T / neurons
    own = np.diagonal(spread)
    distance = np.maximum(own[:, None] + own[None, :] - 2.0 * spread, 0.0)
    np.fill_diagonal(distance, 0.0)
    sigma_y2, sigma_mu2 = spread_and_drift(z)
    return layer, (z @ z.T / neurons, distance, np.asarray(sigma_y2), np.asarray(sigma_mu2))
