"""The law of random networks, and one of them: the second reading of the architecture record.

z¹ = σ_w N_0^{−1/2} W x + σ_b b, then z^{l+1} = block(z^l), with the records `meanfield.networks.records` defines. The
block becomes a flat list of operations (`program`), which values, tangents, the tangent kernel and (backwards)
cotangents are taken through (`operation_walk`). σ_w, σ_b may depend on the layer. A signal is an array of positions ×
neurons; positions are the inputs, or inputs × tokens (token fastest).

W is drawn entry by entry (sampler "explicit"), or its products are drawn as they are asked for, exactly in law
(sampler "lazy"), which makes a layer cost O(N) instead of O(N²).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice
from meanfield.base.words import unknown
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.cotangents import Cotangents
from meanfield.empirical.network.operations.checks import integer, per_layer, rates_per_layer, stream_of
from meanfield.empirical.network.operations.operation import Operation
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Linear, Passage, Site, Weights, placed, walk
from meanfield.empirical.network.operations.operations import DenseOperation, Normalize, refuse_one_neuron
from meanfield.empirical.network.parameter_sources import DrawnParameters
from meanfield.empirical.network.program import operations
from meanfield.empirical.network.shapes import check_shapes, shapes
from meanfield.empirical.network.signals import SignalValues
from meanfield.empirical.network.tangents_and_cotangents import TangentKernel, Tangents
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import MAX_INDEX, MAX_LAYER
from meanfield.networks.folds import input_weights
from meanfield.networks.records import Block, Sequential, network_of

SAMPLERS = ("explicit", "lazy")
BACKWARD = ("own", "copy")
Trace = list[Site]


@dataclass(frozen=True, eq=False)
class Ensemble:
    """The law of random networks: a block, its widths and its standard deviations.

    `block` is repeated depth − 1 times after the input layer; `sigma_w`, `sigma_b` ≥ 0 are numbers or arrays of length
    `depth`; `width` is one number, or one per layer (`widths`; `width` is then the last); `input_dimension` N_0 (kept
    as `fan_in`) is the first layer's width unless given; `signals` are those of symbols by name, see `operations`;
    `tokens` positions make one input. block: a `Network`, where the input layer has σ's of its own. backward:
    "own", or "copy" for cotangents that meet weights independent of those of the forward pass. rates: learning rates
    (λ_w, λ_b) of every Dense, each one number ≥ 0, one per layer, a formula in l such as "1/l", or None for that of
    standard normal parameters, σ_w² and σ_b²; λ_w is divided by the fan-in. `Ensemble(...).network(seed, index)` is one
    draw.

    >>> from meanfield.networks.records import mlp
    >>> networks = Ensemble(mlp("tanh"), sigma_w=1.2, sigma_b=0.1, width=8, depth=3)
    >>> networks.width, networks.depth
    (8, 3)
    """

    block: Block
    sigma_w: Any
    sigma_b: Any
    width: Any
    depth: int
    input_dimension: int | None = None
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None
    values: Mapping[str, Any] | None = None
    tokens: int = 1
    sampler: str = "explicit"
    backward: str = "own"
    rates: Any = (None, None)
    fan_in: int = field(init=False)
    widths: tuple[int, ...] = field(init=False)
    input_layer: DenseOperation = field(init=False)
    operations: tuple[Operation, ...] = field(init=False)

    def __post_init__(self) -> None:
        depth = integer(self.depth, "The depth", 1, MAX_LAYER)
        widths = widths_of(self.width, depth)
        if self.sampler not in SAMPLERS:
            raise unknown("sampler", self.sampler, SAMPLERS)
        choice(self.backward, "backward", BACKWARD)
        own = {n: per_layer(v, n, depth) for n, v in (("sigma_w", self.sigma_w), ("sigma_b", self.sigma_b))}
        whole = network_of(self.block)
        parts = Sequential((whole.block, whole.first))
        *block, first = operations(parts, self.activation_pairs, self.values, depth, own)
        assert isinstance(first, DenseOperation)
        given_law = whole.first.weights
        law = {"gaussian": input_weights(whole.block), "mixed": "gaussian"}.get(given_law, given_law)
        given = widths[0] if self.input_dimension is None else self.input_dimension
        checked = {
            "width": widths[-1],
            "widths": widths,
            "input_layer": replace(first, ordinal=0, law=law),
            "depth": depth,
            "fan_in": integer(given, "The input dimension N_0", 1, MAX_INDEX // widths[0]),
            "tokens": integer(self.tokens, "The number of tokens", 1, 1 << 24),
            **own,
            "rates": rates_per_layer(self.rates, depth),
            "operations": tuple(block),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        laws = {one.law for one in (self.input_layer, *block) if isinstance(one, DenseOperation)}
        if self.sampler == "lazy" and "uniform" in laws:
            raise MeanFieldError(
                "The lazy sampler knows the products of Gaussian and orthogonal matrices, but uniform weights were "
                "asked for, whose products have no such law; take sampler='explicit'."
            )
        if any(isinstance(operation, Normalize) for operation in self.operations):
            refuse_one_neuron(min(widths))
        object.__setattr__(self, "operations", check_shapes(self.operations, widths, self.tokens))

    def fan_ins(self) -> np.ndarray:
        """Inputs of the Dense of every layer, an array (layers, Dense): in the order they are met, the input layer's in
        the last place, 1 where there is none (what `G_w` is divided by to be per input)."""
        count = max(1, sum(isinstance(operation, DenseOperation) for operation in self.operations))
        found = np.ones((self.depth, count))
        found[0, -1] = self.fan_in
        for layer in range(2, self.depth + 1):
            each = shapes(self.operations, self.widths, self.tokens, layer)
            met = [here[0] if one.tokens else here[1] for one, here, _ in each if isinstance(one, DenseOperation)]
            found[layer - 1, : len(met)] = met
        return found

    @property
    def couples(self) -> bool:
        """Whether positions act on each other (BatchNorm, attention, or a Dense on the tokens)."""
        return any(operation.couples for operation in self.operations)

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: the operations, not the records they were made of."""
        return self.__dict__ | {"block": None, "activation_pairs": None, "values": None}

    def network(self, seed: int, index: int, buffers: Buffers | None = None) -> Network:
        """Network number `index` of the ensemble's realization `seed`: the same numbers wherever it is drawn."""
        return Network(self, *stream_of(seed, index), buffers or Buffers())


def widths_of(given: Any, depth: int) -> tuple[int, ...]:
    """One width for every layer, from one number or one per layer."""
    if not isinstance(given, list | tuple) and not getattr(given, "ndim", 0):  # np.ndim fails on a ragged list
        return (integer(given, "The width", 1, 1 << 24),) * depth
    if len(given) != depth:
        raise MeanFieldError(
            f"width must be one number or one per layer (depth = {depth}), but {len(given)} were given."
        )
    return tuple(integer(one, "The width", 1, 1 << 24) for one in given)


@dataclass(frozen=True)
class Network:
    """One network of an ensemble: where its parameters come from is the affair of `parameter_sources`, see there.

    >>> from meanfield.networks.records import mlp
    >>> network = Ensemble(mlp("tanh"), sigma_w=1.2, sigma_b=0.1, width=8, depth=3).network(seed=0, index=0)
    >>> [z.shape for _, z, _ in network.layers(np.ones((1, 8)))]
    [(1, 8), (1, 8), (1, 8)]
    """

    ensemble: Ensemble
    seed: int
    index: int
    buffers: Buffers
    weights: Weights = None  # type: ignore[assignment]  # drawn, unless given

    def __post_init__(self) -> None:
        if self.weights is None:
            drawn = DrawnParameters(self.ensemble, self.seed, self.index, self.buffers)
            object.__setattr__(self, "weights", drawn)

    def layers(
        self,
        inputs: np.ndarray,
        l0: int | None = None,
        tangent: TangentKernel | None = None,
        directions: np.ndarray | None = None,
    ) -> Iterator[tuple[int, np.ndarray, np.ndarray | None]]:
        """Yield (l, z, G) for l = 1..depth: z[p] = z^l at position p, and G = ∂z^l/∂z^{l0} at the first position.

        `inputs` has shape (positions, N_0). G is None before layer l0, or always if l0 is None; it may be rescaled in
        place by the caller (it enters linearly) and is overwritten when the iteration goes on. l0 = 0 is the input x,
        and then G is N × N_0. With `directions` V given, G is (∂z^l/∂z^{l0}) V. `tangent` holds the tangent kernel at
        the first position for the layer just yielded.
        """
        ensemble = self.ensemble
        self._refuse_coupled("the Jacobian or the tangent kernel of one input", l0 is not None or tangent is not None)
        carried: list[Linear] = [] if tangent is None else [tangent]
        if l0 == 0:
            carried.append(self.tangents(ensemble.fan_in, directions))
        for layer, z in self.run(inputs, carried):
            if layer == l0:
                carried.append(self.tangents(ensemble.widths[layer - 1], directions))
            pushed = carried[-1] if carried and isinstance(carried[-1], Tangents) else None
            yield layer, z, None if pushed is None else pushed.rows[:, 0].T

    def tangents(self, size: int, directions: np.ndarray | None = None) -> Tangents:
        """The columns of `directions`, or all unit vectors of `size` numbers, at the first position."""
        rows = self.buffers.take(size if directions is None else directions.shape[1], 1, size)
        rows[:, 0] = 0.0 if directions is None else directions.T
        if directions is None:
            np.fill_diagonal(rows[:, 0], 1.0)
        return Tangents(rows, self.buffers, alone=True)

    def run(
        self,
        inputs: np.ndarray,
        carried: list[Linear] | None = None,
        trace: Trace | None = None,
        pulls: int = 0,
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield (l, z) for l = 1..depth, and take all that is in `tangents_and_cotangents` along: the list may grow in
        between.

        The sites that were passed are written down in `trace` for `pull`, which will take `pulls` cotangents.
        """
        carried = [] if carried is None else carried
        z = np.ascontiguousarray(inputs, dtype=float)
        values = SignalValues(z, len(z) // self.ensemble.tokens, self.buffers if trace is None else None)
        try:
            for layer in range(1, self.ensemble.depth + 1):
                products = sum(one.products for one in carried)
                for one in carried:
                    one.begin(layer)
                here = self.sites(
                    layer,
                    inputs=len(z) // self.ensemble.tokens,
                    differentiate=bool(carried) or trace is not None,
                    expected=len(values.z) * (1 + pulls) + products,
                    pulls=pulls,
                    new=values.new,
                )
                for site in walk(here, [values, *carried]):
                    if isinstance(site.derivative, Derivative):
                        site.derivative.release(kept=trace is not None)
                    if trace is not None:
                        trace.append(site)
                yield layer, values.finish()
        finally:
            for one in carried:
                one.release()

    def sites(self, layer: int, **more: Any) -> list[Site]:
        """The operations that make `layer`, with this network's weights; more: as in `Passage`."""
        ensemble = self.ensemble
        done = ensemble.operations if layer > 1 else (ensemble.input_layer,)
        end = ensemble.tokens, ensemble.widths[layer - 1]
        return placed(done, Passage(layer, end, self.weights, **more))

    def pull(self, trace: Trace, cotangents: np.ndarray) -> Iterator[tuple[int, Derivative | None, np.ndarray]]:
        """Take cotangents (vectors, positions, neurons) at the last layer of a trace back to the input.

        Yields (l, d, u) for every operation with parameters of layer l, d its derivative and u the cotangents of its
        result, and (l, None, u) with u those of z^l, for every layer down to 0 (the input).
        """
        carrier = Cotangents(cotangents)
        for layer, here in groupby(reversed(trace), key=lambda site: site.layer):
            yield layer, None, carrier.rows
            for site in walk(here, [carrier]):
                if isinstance(site.derivative, Derivative) and site.derivative.names:
                    yield layer, site.derivative, carrier.met
        yield 0, None, carrier.rows

    def jvp(self, inputs: np.ndarray, tangents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(z^L, (∂z^L/∂x) t) for tangents t of the inputs, an array (vectors, positions, N_0)."""
        self._refuse_lazy()
        carried = Tangents(np.array(tangents, dtype=float), self.buffers)
        for _, z in self.run(inputs, [carried]):
            last = z, carried.rows.copy()
        return last

    def vjp(self, inputs: np.ndarray, cotangents: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(z^L, (∂z^L/∂x)ᵀ u) for cotangents u of z^L, an array (vectors, positions, N)."""
        self._refuse_lazy()
        trace: Trace = []
        *_, (_, z) = self.run(inputs, None, trace, len(cotangents))
        *_, (_, _, pulled) = self.pull(trace, np.asarray(cotangents, dtype=float))
        return z, pulled

    def gradients(self, inputs: np.ndarray, cotangent: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """(l, ∂S/∂w, ∂S/∂β) of every Dense, or (l, ∂S/∂γ, ∂S/∂β) of a trained norm, in the order they are met.

        S = Σ u·z^L with the cotangent u (positions, N); w = σ_w n^{−1/2} W and β = σ_b b.
        """
        self._refuse_lazy()
        trace: Trace = []
        for _ in self.run(inputs, None, trace, 1):
            pass
        pulled = self.pull(trace, np.asarray(cotangent, dtype=float)[None])
        found: list[Any] = [(layer, *d.gradient(u[0])) for layer, d, u in pulled if d is not None]
        return found[::-1]

    def _refuse_lazy(self) -> None:
        if self.ensemble.sampler == "lazy":
            raise MeanFieldError(
                "jvp, vjp and gradients were asked for with the lazy sampler, which reveals other weights in every "
                "pass; take sampler='explicit', or `run` and `pull` in a single pass."
            )

    def _refuse_coupled(self, what: str, asked: bool) -> None:
        if asked and self.ensemble.couples:
            raise MeanFieldError(
                f"{what[0].upper()}{what[1:]} was asked for in a network where positions act on each other; take "
                "probes=..., which push all positions."
            )
