"""The empirical test of criticality: χ = J^{L−2,L−1} of random networks of any block, with no theory in it.

z^{L−2} is drawn by running the network; χ = ‖∂z^{L−1}/∂z^{L−2}‖²_F/N of the one block that follows says whether small
changes grow (χ > 1, chaotic) or fade (χ < 1, ordered) from one deep layer to the next.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from meanfield.architecture import Block
from meanfield.arguments import choice, provides, spoken
from meanfield.empirical.ensemble.parallel import each_network
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import SAMPLERS, Ensemble
from meanfield.empirical.network.operations import integer, positive, real, refuse_jumps
from meanfield.empirical.observables.norms import draw_inputs, draw_probes
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import MAX_LAYER, MAX_NETWORK
from meanfield.results import Estimate, MeanFieldError, one_line

_NAMED = 5  # diverged networks a message lists


@dataclass(frozen=True, eq=False)
class CriticalityEstimate:
    """χ = ‖∂z^{L−1}/∂z^{L−2}‖²_F/N, its mean and standard error over networks of depth L and width N.

    diverged_at: per network, the first layer with a number that is not finite, 0 if there is none. Such networks have
    no χ and are not in the mean: if there are any, the mean is over the others, and `str` says so.
    """

    chi: Estimate
    width: int
    depth: int
    networks: int
    probes: int
    seed: int
    diverged_at: np.ndarray

    @property
    def diverged(self) -> int:
        """How many networks left the finite numbers."""
        return int(np.count_nonzero(self.diverged_at))

    @property
    def phase(self) -> str:
        """ "critical within error" if |χ − 1| is at most two standard errors, else "ordered" (χ < 1) or "chaotic"."""
        if abs(self.chi.mean - 1) <= 2 * self.chi.standard_error:
            return "critical within error"
        return "ordered" if self.chi.mean < 1 else "chaotic"

    @property
    def correlation_length(self) -> float:
        """1/|ln χ| in layers: ∞ at χ = 1, 0 at χ = 0."""
        rate = abs(math.log(self.chi.mean)) if self.chi.mean > 0 else math.inf
        return 1 / rate if rate > 0 else math.inf

    def __repr__(self) -> str:
        return one_line("CriticalityEstimate", str(self))

    def __str__(self) -> str:
        text = (
            f"χ = {self.chi.mean:.5g} ± {self.chi.standard_error:.1g} (N = {self.width}, L = {self.depth}, "
            f"{self.chi.count} networks): {self.phase}, correlation length {self.correlation_length:.3g} layers"
        )
        return (
            f"{text}\n{_diverged_text(self.diverged_at)} and are left out, which biases χ." if self.diverged else text
        )


@spoken
def measure_criticality(
    block: Block,
    *,
    sigma_w: float,
    sigma_b: float,
    width: int = 500,
    depth: int = 50,
    networks: int = 100,
    probes: int = 8,
    seed: int = 0,
    sampler: str = "explicit",
    input_norm: float = 1.0,
    mu: Any = None,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> CriticalityEstimate:
    """Measure χ = J^{L−2,L−1} (L = depth ≥ 3) of the block on `networks` random networks of width N = N_0.

    The forward pass costs 2 N² operations a layer; ‖·‖²_F is estimated from `probes` random directions of signs ±1,
    pushed through the one block with its full derivative, so a network costs 2 N² (L + probes); with sampler="lazy" the
    products are drawn exactly in law, at O(N) each.
    sigma_w, sigma_b ≥ 0: one number each. The other arguments are those of `run_ensemble`.

    Raises `MeanFieldError` for arguments out of range, a φ that jumps, and if fewer than two networks stay finite.

    >>> from meanfield.architecture import mlp
    >>> measure_criticality(mlp("tanh"), sigma_w=0.5, sigma_b=0, width=30, depth=5, networks=4).phase
    'ordered'
    """
    choice(sampler, "sampler", SAMPLERS)
    provides(progress, "progress", None, "a function progress(done, networks)")
    depth = integer(depth, "The depth", 3, MAX_LAYER)
    sigmas = real(sigma_w, "sigma_w"), real(sigma_b, "sigma_b")
    ensemble = Ensemble(block, *sigmas, width, depth, None, activation_pairs, mu, sampler=sampler)
    networks = integer(networks, "The number of networks", 2, MAX_NETWORK + 1)
    probes = integer(probes, "The number of probes", 1, 1 << 16)
    seed = integer(seed, "The seed", 0, 1 << 64)
    input_norm = positive(input_norm, "The input norm |x|²/N_0")
    refuse_jumps(ensemble.operations, "χ", "measure K with run_ensemble(..., jacobian=False)")
    chi, diverged_at = np.full(networks, math.nan), np.zeros(networks, dtype=np.int64)

    def work(index: int, buffers: Buffers, stop: Event) -> None:
        inputs = draw_inputs(ensemble.fan_in, seed, index, input_norm)
        directions = draw_probes(ensemble.width, seed, index, probes)
        network = ensemble.network(seed, index, buffers)
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            for layer, z, pushed in network.layers(inputs, depth - 2, directions=directions):
                last = layer == depth - 1
                if last and pushed is not None:
                    chi[index] = np.vdot(pushed, pushed) / (ensemble.width * probes)
                if not np.isfinite(chi[index] if last else z).all():
                    diverged_at[index] = layer
                    return
                if last or stop.is_set():
                    return

    each_network(work, networks, threads, progress)
    finite = chi[diverged_at == 0]
    if finite.size < 2:
        raise MeanFieldError(
            f"χ was asked for at L = {depth}, but {_diverged_text(diverged_at)}; take a smaller depth, sigma_w or "
            "sigma_b, or more networks."
        )
    estimate = Estimate(float(finite.mean()), float(finite.std(ddof=1)) / math.sqrt(finite.size), finite.size)
    return CriticalityEstimate(estimate, ensemble.width, depth, networks, probes, seed, diverged_at)


def _diverged_text(diverged_at: np.ndarray) -> str:
    """ "3 of 100 networks overflowed (or normalized equal numbers), the first at layer 7: numbers 4, 17, 55"."""
    which = np.flatnonzero(diverged_at)
    named = ", ".join(str(i) for i in which[:_NAMED]) + (", …" if which.size > _NAMED else "")
    return (
        f"{which.size} of {diverged_at.size} networks overflowed (or normalized equal numbers), the first at layer "
        f"{diverged_at[which].min()}: numbers {named}"
    )
