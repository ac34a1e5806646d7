"""Ensembles of finite-width networks: samples network by network, and means with standard errors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from meanfield.architecture import Block
from meanfield.empirical.derivatives import Buffers
from meanfield.empirical.functions import ScalarPair
from meanfield.empirical.network import Ensemble
from meanfield.empirical.observables import draw_inputs, measure
from meanfield.empirical.operations import integer, positive, real, refuse_jumps
from meanfield.empirical.parallel import each_network, threads_used
from meanfield.empirical.philox import MAX_NETWORK
from meanfield.results import Estimate, MeanFieldError


@dataclass(frozen=True, eq=False)
class EnsembleResult:
    """Samples of every measured quantity: one row per network, one column per layer.

    samples: K (one input), or K_aa, K_bb, K_ab and D = K_aa + K_bb − 2 K_ab (two), for layers 1..depth; Theta, the
    diagonal of the tangent kernel at the first input averaged over the neurons, for layers 1..depth; log_J for layers
    max(l0, 1)..depth, the logarithm of J^{l0,l} = ‖∂z^l/∂z^{l0}‖²_F/N at the first input (−inf where J is exactly 0).
    diverged_at: per network, the first layer where a measured number is not finite (an overflow, or a LayerNorm of
    equal numbers), 0 if there is none; the samples from that layer on are NaN.
    """

    width: int
    depth: int
    networks: int
    first_network: int
    seed: int
    input_dimension: int
    input_norm: float
    correlation: float | None
    l0: int
    diverged_at: np.ndarray
    samples: Mapping[str, np.ndarray] = field(repr=False)

    @property
    def finite_depth(self) -> int:
        """The last layer that every network of the ensemble reached with finite numbers."""
        diverged = self.diverged_at[self.diverged_at > 0]
        return int(diverged.min()) - 1 if diverged.size else self.depth

    @property
    def quantities(self) -> tuple[str, ...]:
        """What `estimate` can be asked for; where J is measured, log_J can be asked for too."""
        return tuple("J" if name == "log_J" else name for name in self.samples)

    def layers(self, quantity: str) -> np.ndarray:
        """The layers an estimate covers: from l0 ≥ 1 (J, log_J) or 1 (all else) to `finite_depth`."""
        return np.arange(max(self.l0, 1) if quantity in ("J", "log_J") else 1, self.finite_depth + 1)

    def estimate(self, quantity: str, l: int | None = None, log_scale: Any = 0.0) -> Estimate:
        """Mean and standard error over the networks, at layer l or on all of `layers(quantity)`.

        `log_scale` (a number, or one per layer) multiplies J by exp(−log_scale): with the predicted log J the
        prediction is 1 and nothing overflows. "K" also names K_aa. Raises `MeanFieldError` for a quantity that was not
        measured, for a layer that not every network reached (a mean over the survivors would be biased), for a J that
        overflows and for a log_J that is −∞ somewhere.
        """
        name = {"J": "log_J", "K": "K" if "K" in self.samples else "K_aa"}.get(quantity, quantity)
        if name not in self.samples:
            raise MeanFieldError(f"{quantity} was asked for, but this ensemble measured {', '.join(self.quantities)}.")
        layers = self.layers(quantity)
        if l is not None and l not in layers:
            covered = f"at layers {layers[0]} to {layers[-1]}" if layers.size else "at no layer"
            end = self.finite_depth + 1
            reached = (
                f", and networks overflow (or normalize equal numbers) at layer {end}" if end <= self.depth else ""
            )
            raise MeanFieldError(f"{quantity} at layer {l} was asked for, but it is measured {covered}{reached}.")
        values = self.samples[name][:, : layers.size]
        if quantity == "J":
            values = values - np.asarray(log_scale, dtype=float)
            if values.max(initial=0.0) > 700:
                raise MeanFieldError("J overflows a double here; ask for log_J, or give log_scale=(predicted log J).")
            values = np.exp(values)
        elif quantity == "log_J" and np.isneginf(values).any():
            raise MeanFieldError("log_J has no mean here, because J is exactly 0 in some networks; ask for J.")
        _, power = np.frexp(np.abs(values).max(axis=0, initial=0.0))  # a K near 1e308 has a mean; its square overflows
        scaled = np.ldexp(values, -power)
        error = scaled.std(axis=0, ddof=1) / math.sqrt(self.networks)
        at = ... if l is None else l - layers[0]
        return Estimate(np.ldexp(scaled.mean(axis=0), power)[at], np.ldexp(error, power)[at], self.networks)


def run_ensemble(
    block: Block,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: int,
    depth: int,
    networks: int,
    seed: int = 0,
    input_norm: float = 1.0,
    correlation: float | None = None,
    input_dimension: int | None = None,
    l0: int = 1,
    jacobian: bool = True,
    theta: bool = False,
    mu: Any = None,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    first_network: int = 0,
) -> EnsembleResult:
    """Measure K^l = Σ_i (z_i^l)²/N and J^{l0,l} = ‖∂z^l/∂z^{l0}‖²_F/N on `networks` independent random networks.

    block: the architecture record; the network is an input layer Dense followed by depth − 1 blocks.
    sigma_w, sigma_b ≥ 0: one number or one per layer. width = N, input_dimension = N_0 (N unless given).
    input_norm: |x|²/N_0 > 0. correlation in [−1, 1]: two inputs with that cosine (K_aa, K_bb, K_ab, D), else one (K).
    jacobian: push the exact N × N Jacobian (2 N³ operations a layer and network); K does not depend on it.
    l0: the layer J starts from; 0 is the input, J^{0,l} = ‖∂z^l/∂x‖²_F/N (divided by the outputs: J^{0,1} ≈ σ_w²).
    theta: measure Θ^l = (1/N) Σ_i Σ_θ (∂z_i^l/∂θ)² over all W and b (each N(0, 1) at initialization) up to layer l and
    γ and β of every LayerNorm(affine=True), by pushing the exact N × N kernel (4 N³ operations, 6 N³ inside a skip).
    mu: value of symbolic skip strengths, a number, one per layer (the first is not used), or a mapping from their names
    to either. activation_pairs: functions for activations without a hand-written twin.
    first_network: networks are numbered from here; a run split by it, and any number of threads, gives the same bits.
    progress: called as progress(done, networks) from the calling thread.

    Raises `MeanFieldError` for arguments out of range, an architecture that cannot be run, J or Θ of a φ that jumps.

    >>> from meanfield.architecture import mlp
    >>> run = run_ensemble(mlp("tanh", mu=1), sigma_w=1, sigma_b=0, width=20, depth=3, networks=4)
    >>> run.estimate("J").mean.shape, float(run.estimate("J", l=1).mean)
    ((3,), 1.0)
    """
    ensemble = Ensemble(block, sigma_w, sigma_b, width, depth, input_dimension, activation_pairs, mu)
    networks = integer(networks, "The number of networks", 2, MAX_NETWORK + 1)
    first_network = integer(first_network, "first_network", 0, MAX_NETWORK - networks + 1)
    seed = integer(seed, "The seed", 0, 1 << 64)
    l0 = integer(l0, "The layer l0", 0, ensemble.depth + 1)
    input_norm = positive(input_norm, "The input norm |x|²/N_0")
    if correlation is not None:
        correlation = real(correlation, "The correlation")
        if abs(correlation) > 1:
            raise MeanFieldError(f"The correlation of two inputs must lie in [−1, 1], but {correlation} was given.")
        if abs(correlation) < 1 and ensemble.fan_in == 1:
            raise MeanFieldError(f"Inputs with correlation {correlation} need N_0 ≥ 2, but N_0 = 1 was given.")
    if jacobian or theta:
        refuse_jumps(
            ensemble.operations, "J" if jacobian else "Theta", "pass jacobian=False (and theta=False) to measure K"
        )
    threads = threads_used(threads)
    names = ("K",) if correlation is None else ("K_aa", "K_bb", "K_ab", "D")
    samples = {name: np.full((networks, ensemble.depth), math.nan) for name in names}
    if jacobian:
        samples["log_J"] = np.full((networks, ensemble.depth - max(l0, 1) + 1), math.nan)
    if theta:
        samples["Theta"] = np.full((networks, ensemble.depth), math.nan)
    diverged_at = np.zeros(networks, dtype=np.int64)

    def work(i: int, buffers: Buffers, stop: Event) -> None:
        index = first_network + i
        inputs = draw_inputs(ensemble.fan_in, seed, index, input_norm, correlation)
        rows = {name: array[i] for name, array in samples.items()}
        network = ensemble.network(seed, index, buffers)
        diverged_at[i] = measure(network, inputs, l0 if jacobian else None, rows, stop)

    each_network(work, networks, threads, progress)
    return EnsembleResult(
        width=ensemble.width,
        depth=ensemble.depth,
        networks=networks,
        first_network=first_network,
        seed=seed,
        input_dimension=ensemble.fan_in,
        input_norm=input_norm,
        correlation=correlation,
        l0=l0,
        diverged_at=diverged_at,
        samples=samples,
    )
