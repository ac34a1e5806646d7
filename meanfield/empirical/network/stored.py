"""A network that keeps its parameters: it can be run again, differentiated by them, moved, and given other gains."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown, validated
from meanfield.base.budgets import require_memory
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.cotangents import Cotangents
from meanfield.empirical.network.network import Ensemble, Network, Trace
from meanfield.empirical.network.operations.checks import given_inputs, stream_of
from meanfield.empirical.network.operations.operation import Parameter
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import walk
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.parameter_sources import Name, Stored
from meanfield.empirical.network.shapes import shapes
from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.matrices import DrawnMatrix
from meanfield.empirical.random.philox import normals
from meanfield.networks.records import Block


@validated
def draw_network(
    block: Block,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: Any,
    depth: int,
    seed: int = 0,
    index: int = 0,
    input_dimension: int | None = None,
    tokens: int = 1,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    **parameters: Any,
) -> StoredNetwork:
    """Network number `index` of the realization `seed`, with its parameters: the one that `run_ensemble` measures with
    explicit weights (to rounding), kept. The other arguments are those of `run_ensemble`.

    Raises `MeanFieldError` for arguments out of range and for parameters that do not fit into memory.

    >>> from meanfield.networks.records import mlp
    >>> network = draw_network(mlp("tanh", mu=1), sigma_w=1.2, sigma_b=0.1, width=8, depth=3, input_dimension=4)
    >>> x = np.ones((2, 4))
    >>> network.forward(x).shape, [tuple(name) for name in network.parameters][:2]
    ((2, 8), [(1, 0, 'W'), (1, 0, 'b')])
    >>> change = network.gradients(x, np.ones((2, 8)))
    >>> bool(network.moved(change, 0.01).forward(x).sum() > network.forward(x).sum())
    True
    """
    given = input_dimension, activation_pairs, parameters
    ensemble = Ensemble(block, sigma_w, sigma_b, width, depth, *given, tokens=tokens)
    seed, index = stream_of(seed, index)
    held = list(_held(ensemble))
    require_memory(
        8.0 * sum(float(np.prod(one.shape)) for _, one in held),
        f"The parameters of a network of {ensemble.depth} layers and {max(ensemble.widths)} neurons",
        "take fewer neurons or layers",
    )
    drawn = {name: drawn_parameter(one, seed, index, name.layer) for name, one in held}
    values = {name: drawn[name] for name, one in held if one.trained}
    fixed = {name: drawn[name] for name, one in held if not one.trained}
    shape = ensemble.fan_ins().shape
    return StoredNetwork(ensemble, seed, index, values, fixed, np.ones(shape), np.ones(shape))


@dataclass(frozen=True, eq=False)
class StoredNetwork:
    """One network with its parameters.

    parameters: arrays by `Name` (layer, place, name), in the order they are met: "W" (outputs, inputs) and "b" of every
    Dense, which enter as σ_w n^{−1/2} W and σ_b b and are standard normal when drawn; "gamma" = 1 and "beta" = 0 of
    every trained norm; what else an operation trains. `place` is the operation's number in the block. fixed: arrays of
    projections, which are not trained. gain_w, gain_b: factors of σ_w and σ_b, (layers, Dense), 1 when drawn, the input
    layer's in the last place of the first row; they are read while the network runs, so a change counts from the
    layers on that are still to come.

    >>> from meanfield.networks.records import mlp
    >>> network = draw_network(mlp("tanh"), sigma_w=1.2, sigma_b=0.1, width=8, depth=2, input_dimension=4)
    >>> {tuple(name): array.shape for name, array in network.parameters.items()}
    {(1, 0, 'W'): (8, 4), (1, 0, 'b'): (8,), (2, 1, 'W'): (8, 8), (2, 1, 'b'): (8,)}
    """

    ensemble: Ensemble
    seed: int
    index: int
    parameters: Mapping[Name, np.ndarray]
    fixed: Mapping[Name, np.ndarray]
    gain_w: np.ndarray
    gain_b: np.ndarray

    @property
    def network(self) -> Network:
        """What tangents and cotangents are taken through (`run`, `pull`, `jvp`, `vjp`)."""
        buffers, values = Buffers(), {**self.parameters, **self.fixed}
        stored = Stored(self.ensemble, self.seed, self.index, buffers, values, self.gain_w, self.gain_b)
        return Network(self.ensemble, self.seed, self.index, buffers, stored)

    def layers(self, inputs: Any) -> list[np.ndarray]:
        """z^1 … z^L, arrays (positions, neurons), of inputs (inputs, N_0) or (inputs, tokens, N_0)."""
        with np.errstate(all="ignore"):  # an overflow is an answer: NaN
            return [z for _, z in self.network.run(self._inputs(inputs))]

    def forward(self, inputs: Any) -> np.ndarray:
        """z^L, see `layers`."""
        return self.layers(inputs)[-1]

    def gradients(self, inputs: Any, cotangent: Any) -> dict[Name, np.ndarray]:
        """∂S/∂θ of every parameter θ, S = Σ u·z^L with the cotangent u = ∂S/∂z^L of the shape of z^L."""
        _, trace = self._traced(inputs, 1)
        u = self._of_outputs(trace, cotangent)
        found = dict(parameter_gradients(trace, u[None]))
        return {name: found[name][0] for name in self.parameters}

    def tangent_kernel(self, inputs: Any) -> np.ndarray:
        """Θ[p, i, q, j] = Σ_θ (∂z_i^L/∂θ)(x_p) (∂z_j^L/∂θ)(x_q) over all parameters θ."""
        _, trace = self._traced(inputs, 1)
        positions, neurons = trace[-1].end[0] * trace[-1].inputs, trace[-1].end[1]
        size = positions * neurons
        largest = max((one.size for one in self.parameters.values()), default=1)
        require_memory(
            8.0 * size * (3 * size + 2 * largest),
            f"The tangent kernel of {positions} positions and {neurons} neurons",
            "take fewer inputs or neurons, or run_ensemble with probes=",
        )
        theta = np.zeros((size, size))
        every = np.eye(size).reshape(size, positions, neurons)
        for _, found in parameter_gradients(trace, every):
            rows = found.reshape(size, -1)
            theta += rows @ rows.T
        return theta.reshape(positions, neurons, positions, neurons)

    def moved(self, changes: Mapping[Any, Any], factor: float = 1.0) -> StoredNetwork:
        """The network with parameters θ + factor·(change of θ); those without a change stay.

        Raises `MeanFieldError` for a parameter that it has not got, or a change of another shape.
        """
        new = dict(self.parameters)
        for name, change in changes.items():
            if name not in new or np.shape(change) != new[name].shape:
                has = f"of shape {new[name].shape}" if name in new else "no such parameter"
                raise MeanFieldError(
                    f"A change of shape {np.shape(change)} was given for the parameter {shown(name)}, but the network "
                    f"has {has}; see network.parameters."
                )
            new[name] = new[name] + factor * np.asarray(change, dtype=float)
        return replace(self, parameters=new)

    def with_gains(self, gain_w: Any = None, gain_b: Any = None) -> StoredNetwork:
        """The same parameters with other factors of σ_w and σ_b: a number, or an array that fits (layers, Dense)."""
        return replace(self, gain_w=self._gains(gain_w, self.gain_w), gain_b=self._gains(gain_b, self.gain_b))

    def _gains(self, given: Any, before: np.ndarray) -> np.ndarray:
        if given is None:
            return before.copy()
        try:
            array = np.array(np.broadcast_to(np.asarray(given, dtype=float), before.shape))
        except (TypeError, ValueError):
            array = np.array(np.nan)
        if not np.isfinite(array).all():
            raise MeanFieldError(
                f"Gains must be finite numbers that fit {before.shape} (layers × Dense of a block), but {shown(given)} "
                "was given."
            )
        return array

    def _inputs(self, inputs: Any) -> np.ndarray:
        array, tokens, _ = given_inputs(inputs, self.ensemble.tokens, self.ensemble.fan_in)
        if tokens != self.ensemble.tokens:
            raise MeanFieldError(
                f"Inputs of {tokens} tokens were given to a network of inputs of {self.ensemble.tokens}."
            )
        return array

    def _traced(self, inputs: Any, pulls: int) -> tuple[np.ndarray, Trace]:
        trace: Trace = []
        *_, (_, z) = self.network.run(self._inputs(inputs), None, trace, pulls)
        return z, trace

    def _of_outputs(self, trace: Trace, cotangent: Any) -> np.ndarray:
        last = trace[-1]
        shape = last.inputs * last.end[0], last.end[1]
        u = np.asarray(cotangent, dtype=float)
        if u.shape != shape:
            raise MeanFieldError(f"A cotangent has the shape {shape} of z^L, but one of shape {u.shape} was given.")
        return u


def parameter_gradients(trace: Trace, cotangents: np.ndarray) -> Iterator[tuple[Name, np.ndarray]]:
    """(name, ∂S_k/∂θ for every cotangent k) of every parameter θ of learning rate 1, from the last one on."""
    carrier = Cotangents(cotangents)
    for site in walk(reversed(trace), [carrier]):
        if isinstance(site.derivative, Derivative) and site.derivative.names:
            each = [site.derivative.gradient(one) for one in carrier.met]
            for name, step, found in zip(site.derivative.names, site.derivative.steps, zip(*each)):
                yield Name(site.layer, site.place, name), step * np.stack(found)


@validated
def number_of_parameters(
    block: Block,
    *,
    width: Any,
    depth: int,
    input_dimension: int | None = None,
    tokens: int = 1,
    biases: bool = True,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    **parameters: Any,
) -> int:
    """How many numbers a network of these sizes trains: weights, biases, and the gains and shifts of its norms.

    block: a record; width: of every layer, or one for each; input_dimension: N_0 (the first width unless given);
    biases: whether those of the Dense count; parameters: values of the record's symbols by their names. Layers are
    counted as everywhere: the input layer, then `block` depth − 1 times.

    Raises: MeanFieldError for sizes out of range, or that do not fit the record.

    >>> from meanfield.networks.records import mlp
    >>> number_of_parameters(mlp("tanh"), width=100, depth=3, input_dimension=784)
    98700
    """
    if not isinstance(biases, bool):
        raise MeanFieldError(f"biases must be True or False, but {shown(biases)} was given.")
    ensemble = Ensemble(block, 1.0, 1.0, width, depth, input_dimension, activation_pairs, parameters, tokens=tokens)
    kept = [one for name, one in _held(ensemble) if biases or name.name != "b"]
    return sum(math.prod(one.shape) for one in kept)


def _held(ensemble: Ensemble) -> Iterator[tuple[Name, Parameter]]:
    """All that the operations of a network hold, layer by layer."""
    first: DenseOperation = ensemble.input_layer
    widths, tokens = ensemble.widths, ensemble.tokens
    for one in first.parameters((tokens, ensemble.fan_in), 1, (tokens, widths[0])):
        yield Name(1, 0, one.name), one
    for layer in range(2, ensemble.depth + 1):
        for place, (operation, here, end) in enumerate(shapes(ensemble.operations, widths, tokens, layer)):
            for one in operation.parameters(here, layer, end):
                yield Name(layer, place, one.name), one


def drawn_parameter(one: Parameter, seed: int, index: int, layer: int) -> np.ndarray:
    """What a parameter starts from: standard normal from its stream, or its own number."""
    if one.start is not None:
        return np.full(one.shape, one.start)
    if len(one.shape) < 2:
        return normals(seed, index, layer, one.role, int(np.prod(one.shape)))
    outputs, inputs = one.shape
    return DrawnMatrix(one.law, (seed, index, layer, one.role), (outputs, inputs), 1.0, Buffers()).whole()
