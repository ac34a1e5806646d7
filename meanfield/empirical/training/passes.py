"""One network with weights that are trained: outputs, gradients and tangent kernels, with memory used again."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.network.cotangents import Cotangents
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.operation import Operation
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Passage, Site, placed, walk
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.network.shapes import Shapes
from meanfield.empirical.network.signals import SignalValues
from meanfield.empirical.network.stored import drawn_parameter
from meanfield.empirical.random.buffers import Buffers, aligned
from meanfield.empirical.random.philox import MAX_LAYER, normals
from meanfield.empirical.training.trained_weights import TrainedParameters

EIGENVECTOR = MAX_LAYER - 3  # the layer of the streams of random outputs


class Arena(Buffers):
    """Arrays of one pass: all are taken again when the next one begins."""

    def __init__(self) -> None:
        super().__init__()
        self._held: dict[tuple[int, ...], list[np.ndarray]] = {}
        self._used: dict[tuple[int, ...], int] = {}

    def take(self, *shape: int) -> np.ndarray:
        held, used = self._held.setdefault(shape, []), self._used.get(shape, 0)
        self._used[shape] = used + 1
        if used == len(held):
            held.append(aligned(*shape))
        return held[used]

    def give(self, array: np.ndarray) -> None:
        """It stays until the next pass."""

    def again(self) -> None:
        self._used = {}


@dataclass(frozen=True, eq=False)
class TrainedLayers:
    """The layers of a network that is trained: those of `ensemble`, but for the last one, which `head` makes.

    outputs: how many numbers the last layer makes of an input; biases: whether β are trained (they stay what they are
    drawn as, if not).
    """

    ensemble: Ensemble
    head: tuple[Operation, ...]
    outputs: int
    biases: bool = True

    @property
    def mixes_inputs(self) -> bool:
        """Whether inputs act on each other (BatchNorm), and not the tokens of each alone."""
        every = *self.ensemble.operations, *self.head
        return any(one.couples and not one.mixes_tokens for one in every)

    def of(self, layer: int) -> tuple[tuple[Operation, ...], tuple[int, int]]:
        """The operations that make a layer, and (tokens, neurons) of its end."""
        ensemble = self.ensemble
        if layer == ensemble.depth:
            return self.head, (ensemble.tokens, self.outputs)
        done = ensemble.operations if layer > 1 else (ensemble.input_layer,)
        return done, (ensemble.tokens, ensemble.widths[layer - 1])

    def held(self) -> Iterator[tuple[Name, Any, DenseOperation | None]]:
        """(name, what it is, the Dense it belongs to) of all parameters, layer by layer."""
        ensemble = self.ensemble
        here = ensemble.tokens, ensemble.fan_in
        for layer in range(1, ensemble.depth + 1):
            done, end = self.of(layer)
            for place, (operation, before) in enumerate(_met(done, here, layer, end)):
                for one in operation.parameters(before, layer, end):
                    dense = operation if isinstance(operation, DenseOperation) else None
                    yield Name(layer, place, one.name), one, dense
            here = end


def _met(
    done: tuple[Operation, ...], here: tuple[int, int], layer: int, end: tuple[int, int]
) -> list[tuple[Operation, tuple[int, int]]]:
    """(operation, shape before it) of a block; raises `MeanFieldError` where it makes another shape than `end`."""
    carrier, met = Shapes(here, layer), list[tuple[Operation, tuple[int, int]]]()
    for site in walk(placed(done, Passage(layer, end)), [carrier]):
        met.append((site.operation, carrier.before))  # type: ignore[arg-type]
    if carrier.here != end:
        raise MeanFieldError(
            f"The readout makes {carrier.here[1]} outputs where {end[1]} are wanted; let head= end in a Dense()."
        )
    return met


class Trainee:
    """Network number `index` of the realization `seed`: `parameters` are arrays that an optimizer changes in place.

    Its weights start from the streams that `run_ensemble` measures with, times σ_w n^{−1/2} and σ_b. rates: of every
    parameter the λ of Θ for an entry of it, λ_w/n and λ_b.
    """

    def __init__(self, layers: TrainedLayers, seed: int, index: int) -> None:
        self.layers, self.arena = layers, Arena()
        every = dict[Name, np.ndarray]()
        self.rates, self.parameters = dict[Name, float](), dict[Name, np.ndarray]()
        self.weights = TrainedParameters(layers.ensemble, seed, index, self.arena, every)
        for name, one, dense in layers.held():
            array = drawn_parameter(one, seed, index, name.layer)
            rate = 1.0
            if dense is not None:
                n = one.shape[1] if one.name == "W" else 1
                which = 0 if one.name == "W" else 1
                array = array * (self.weights.deviations(dense, name.layer)[which] / math.sqrt(n))
                step = self.weights.steps(dense, name.layer)[which]
                rate = step * step / n
            elif one.name == "W":  # of a projection
                array = array / math.sqrt(one.shape[1])
            every[name] = array
            if one.trained and (layers.biases or dense is None or one.name != "b"):
                self.parameters[name], self.rates[name] = array, rate
        self._sites: dict[tuple[int, bool], list[list[Site]]] = {}

    def sites(self, inputs: int, differentiate: bool) -> list[list[Site]]:
        """The operations of every layer, where they are applied to so many inputs."""
        key = inputs, differentiate
        if key not in self._sites:
            if len(self._sites) > 8:
                self._sites.clear()
            more = dict(weights=self.weights, inputs=inputs, differentiate=differentiate, pulls=int(differentiate))
            self._sites[key] = [
                placed(done, Passage(layer, end, new=self.arena.take, **more))  # type: ignore[arg-type]
                for layer in range(1, self.layers.ensemble.depth + 1)
                for done, end in (self.layers.of(layer),)
            ]
        return self._sites[key]

    def forget(self) -> None:
        """Where operations stand is asked anew: the weights come from somewhere else."""
        self._sites.clear()

    def layer_outputs(self, x: np.ndarray, differentiate: bool = False) -> Iterator[np.ndarray]:
        """z^1 … z^L, (positions, neurons), of positions x; each is overwritten by the next pass."""
        self.arena.again()
        inputs = len(x) // self.layers.ensemble.tokens
        values = SignalValues(x, inputs, self.arena)
        for here in self.sites(inputs, differentiate):
            for _ in walk(here, [values]):
                pass
            yield values.finish()

    def outputs(self, x: np.ndarray, differentiate: bool = False) -> np.ndarray:
        """f(x), (inputs, outputs): the last layer, averaged over tokens."""
        *_, z = self.layer_outputs(x, differentiate)
        tokens = self.layers.ensemble.tokens
        return z if tokens == 1 else z.reshape(-1, tokens, z.shape[1]).mean(axis=1)

    def gradients(self, cotangent: np.ndarray) -> dict[Name, np.ndarray]:
        """∂L/∂θ of every parameter θ, from ∂L/∂f (inputs, outputs), after `outputs(x, differentiate=True)`."""
        return {name: found[0] for name, found in self._pulled(cotangent[None])}

    def tangent_kernel(self, x: np.ndarray) -> np.ndarray:
        """Θ_ab = (1/C) Σ_i Σ_θ λ_θ (∂f_i(x_a)/∂θ)(∂f_i(x_b)/∂θ) over all parameters, for C outputs."""
        inputs, outputs = self.outputs(x, True).shape
        every = np.eye(inputs * outputs).reshape(-1, inputs, outputs)
        theta = np.zeros((inputs, inputs))
        for name, found in self._pulled(every):
            rows = found.reshape(inputs, outputs, -1)
            theta += self.rates[name] / outputs * np.einsum("aip,bip->ab", rows, rows, optimize=True)
        return theta

    def largest_eigenvalue(self, x: np.ndarray, rounds: int = 100) -> float:
        """λ_max of Θ[a, i, b, j] on all inputs and outputs, by power iteration from random outputs, until a round
        changes it by less than 1e-3.

        Θ v is the change of the outputs along the gradient of v·f; parameters are moved, and put back.
        """
        before = {name: one.copy() for name, one in self.parameters.items()}
        start = self.outputs(x).copy()
        v = normals(self.weights.seed, self.weights.index, EIGENVECTOR, 0, start.size).reshape(start.shape)
        largest = 0.0
        for _ in range(rounds):
            v = v / np.linalg.norm(v)
            self.outputs(x, True)
            along = {name: self.rates[name] * one for name, one in self.gradients(v).items()}
            length = math.sqrt(sum(float(np.vdot(one, one)) for one in along.values()))
            if not 0 < length < math.inf:
                return 0.0
            for name, one in along.items():
                self.parameters[name][...] += 1e-5 / length * one
            v = (self.outputs(x) - start) * (length / 1e-5)
            before_it, largest = largest, float(np.linalg.norm(v))
            for name, one in before.items():
                self.parameters[name][...] = one
            if abs(largest - before_it) < 1e-3 * largest:
                break
        return largest

    def _pulled(self, cotangents: np.ndarray) -> Iterator[tuple[Name, np.ndarray]]:
        """(name, ∂S_k/∂θ for every cotangent k of f)."""
        tokens = self.layers.ensemble.tokens
        if tokens > 1:
            cotangents = np.repeat(cotangents, tokens, axis=1) / tokens
        carrier = Cotangents(cotangents, self.arena.take)
        every = self.sites(cotangents.shape[1] // tokens, True)
        first, *others = (site for here in every for site in here)
        for back in (walk(reversed(others), [carrier]), (first,)):
            for site in back:
                if site is first:  # nobody asks for the gradient by the input
                    carrier.met = carrier.rows
                derivative = site.derivative
                if isinstance(derivative, Derivative) and derivative.names:
                    each = [derivative.gradient(one) for one in carrier.met]
                    for name, found in zip(derivative.names, zip(*each)):
                        named = Name(site.layer, site.place, name)
                        if named in self.parameters:
                            yield named, found[0][None] if len(found) == 1 else np.stack(found)
