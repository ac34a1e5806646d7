"""The empirical test of criticality: χ = J^{L−2,L−1} of random networks of any block, with no theory in it.

z^{L−2} is drawn by running the network; χ = ‖∂z^{L−1}/∂z^{L−2}‖²_F/N of the one block that follows says whether small
changes grow (χ > 1, chaotic) or fade (χ < 1, ordered) from one deep layer to the next. Where positions act on each
other (BatchNorm, a Dense on tokens), z holds all of them, every one is perturbed, and N counts all their neurons.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from threading import Event
from typing import Any

import numpy as np

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import Estimate, MeanFieldError, one_line
from meanfield.base.arguments import choice, validated
from meanfield.empirical.ensemble.parallel import each_network
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import integer, real, sampled
from meanfield.empirical.network.operations.operation_walk import Linear
from meanfield.empirical.network.operations.operations import NormalizeBatch
from meanfield.empirical.network.tangents_and_cotangents import Tangents
from meanfield.empirical.observables.norms import PROBE_LAWS, draw_batch, draw_inputs, draw_probes
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import MAX_LAYER
from meanfield.empirical.shared.several_networks import ensembles_of
from meanfield.networks.records import Block

_NAMED = 5  # diverged networks a message lists
_LEAST = 4  # positions of a BatchNorm whose Jacobian has a mean


@dataclass(frozen=True, eq=False)
class CriticalityEstimate(Result):
    """χ = ‖∂z^{L−1}/∂z^{L−2}‖²_F/N, its mean and standard error over networks of depth L and width N; per position
    where positions act on each other.

    diverged_at: per network, the first layer with a number that is not finite, 0 if there is none. Such networks have
    no χ and are not in the mean: if there are any, the mean is over the others, and `str` reports it.

    >>> found = measure_criticality("relu", sigma_w=1.2, sigma_b=0, width=64, depth=5, networks=20)
    >>> bool(abs(found.chi.z(0.72)) < 4)
    True
    """

    columns = ("width", "depth", "networks", "phase", "correlation_length", "diverged")

    chi: Estimate
    width: int
    depth: int
    networks: int
    probes: int
    seed: int
    diverged_at: np.ndarray

    def cells(self) -> dict[str, Any]:
        """The columns of a frame: χ, its standard error, and what it was measured on."""
        return {"chi": self.chi.mean, "standard_error": self.chi.standard_error, **super().cells()}

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


@validated
def measure_criticality(
    block: Block,
    *,
    sigma_w: float,
    sigma_b: float,
    width: int = 500,
    depth: int = 50,
    networks: int = 100,
    probes: int = 8,
    probe_law: str = "signs",
    seed: int = 0,
    sampler: str = "explicit",
    input_norm: float = 1.0,
    tokens: int | None = None,
    batch: int | None = None,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> CriticalityEstimate:
    """Measure χ = J^{L−2,L−1} (L = depth ≥ 3) of the block on `networks` random networks of width N = N_0.

    The forward pass costs 2 N² operations a layer; ‖·‖²_F is estimated from `probes` random directions, pushed
    through the one block with its full derivative, so a network costs 2 N² (L + probes); with sampler="lazy" the
    products are drawn exactly in law, at O(N) each. probe_law: of the directions: "signs" ±1 (the least variance),
    "gaussian" or "sphere".
    sigma_w, sigma_b ≥ 0: one number each. tokens: of an input, which a block with a Dense on tokens needs; batch: how
    many inputs a BatchNorm sees (at least 4 positions), with independent normal entries. χ is then the sum over the
    outputs and perturbations of all positions, per position and neuron. The other arguments are those of
    `run_ensemble`.

    Raises `MeanFieldError` for arguments out of range, a φ that jumps, positions that are missing, and if fewer than
    two networks stay finite.

    >>> from meanfield.networks.records import BatchNorm, Dense, Nonlinearity, Sequential, mlp
    >>> measure_criticality(mlp("tanh"), sigma_w=0.5, sigma_b=0, width=30, depth=5, networks=4).phase
    'ordered'
    >>> normed = Sequential((BatchNorm(), Nonlinearity("relu"), Dense()))
    >>> measure_criticality(normed, sigma_w=1, sigma_b=0, batch=8, width=100, depth=6, networks=8).phase
    'chaotic'
    """
    choice(probe_law, "probe_law", PROBE_LAWS)
    depth = integer(depth, "The depth", 3, MAX_LAYER)
    at = real(sigma_w, "sigma_w"), real(sigma_b, "sigma_b")
    batch = None if batch is None else integer(batch, "The number of inputs (batch)", 1, 1 << 24)
    together = 1 if tokens is None else integer(tokens, "The number of tokens", 1, 1 << 24)
    more: dict[str, Any] = {"activation_pairs": activation_pairs, "sampler": sampler, "tokens": together}
    (ensemble,) = ensembles_of([block], at, parameters, derivative="χ", width=width, depth=depth, **more)
    _require_positions(ensemble, tokens, batch)
    networks, probes, seed, input_norm = sampled(networks, probes, seed, input_norm)
    positions = together * (batch or 1) if ensemble.couples else 1
    chi, diverged_at = np.full(networks, math.nan), np.zeros(networks, dtype=np.int64)

    def work(index: int, buffers: Buffers, stop: Event) -> None:
        if batch is None and together == 1:
            inputs = draw_inputs(ensemble.fan_in, seed, index, input_norm)
        else:
            inputs = draw_batch(together * (batch or 1), ensemble.fan_in, seed, index, input_norm)
        size = positions * ensemble.width
        network = ensemble.network(seed, index, buffers)
        carried: list[Linear] = []
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            for layer, z in network.run(inputs, carried):
                last = layer == depth - 1
                if last:
                    pushed = carried[0].rows.reshape(-1, ensemble.width).T  # type: ignore[attr-defined]
                    chi[index] = np.vdot(pushed, pushed) / (size * probes)
                if not np.isfinite(chi[index] if last else z).all():
                    diverged_at[index] = layer
                    return
                if last or stop.is_set():
                    return
                if layer == depth - 2:
                    rows = buffers.take(probes, positions, ensemble.width)
                    rows[...] = draw_probes(size, seed, index, probes, law=probe_law).T.reshape(rows.shape)
                    carried.append(Tangents(rows, buffers, alone=not ensemble.couples))

    each_network(work, networks, threads, progress)
    finite = chi[diverged_at == 0]
    if finite.size < 2:
        raise MeanFieldError(
            f"χ was asked for at L = {depth}, but {_diverged_text(diverged_at)}; take a smaller depth, sigma_w or "
            "sigma_b, or more networks."
        )
    estimate = Estimate(float(finite.mean()), float(finite.std(ddof=1)) / math.sqrt(finite.size), finite.size)
    return CriticalityEstimate(estimate, ensemble.width, depth, networks, probes, seed, diverged_at)


def _require_positions(ensemble: Ensemble, tokens: int | None, batch: int | None) -> None:
    """Raise `MeanFieldError` where a record acts on positions that nobody gave."""
    if tokens is None and any(one.mixes_tokens for one in ensemble.operations):
        raise MeanFieldError(
            "χ of a block whose tokens act on each other is not available: give the number of tokens as tokens=."
        )
    positions = ensemble.tokens * (batch or 1)
    if positions < _LEAST and any(isinstance(one, NormalizeBatch) for one in ensemble.operations):
        raise MeanFieldError(
            f"χ of a block with a BatchNorm was asked for over {positions} position{'s' * (positions > 1)}; give "
            f"batch={_LEAST} or more, as with fewer the Jacobian has no mean."
        )


def _diverged_text(diverged_at: np.ndarray) -> str:
    """ "3 of 100 networks overflowed (or normalized equal numbers), the first at layer 7: numbers 4, 17, 55"."""
    which = np.flatnonzero(diverged_at)
    named = ", ".join(str(i) for i in which[:_NAMED]) + (", …" if which.size > _NAMED else "")
    return (
        f"{which.size} of {diverged_at.size} networks overflowed (or normalized equal numbers), the first at layer "
        f"{diverged_at[which].min()}: numbers {named}"
    )
