"""Tangent kernel and differentials of one finite network of any operations, by jets in its parameters.

With parameters whose learning rates are 1 (θ over the root of its rate) and the gradients g_j = ∂z_j/∂θ, taken back
from every neuron j of every position,

    H_ij = g_i · g_j,  dH_ijk = D²z_i(g_j, g_k),  ddI_ijkl = D³z_i(g_j, g_k, g_l),
    ddII_ijkl = Σ_c D²z_i(e_c, g_k) D²z_j(e_c, g_l), e_c the unit vectors,

where D²z(u, v) is the coefficient of ε₁ε₂ in z(θ + ε₁u + ε₂v). The network is run with such parameters
(`Operation.formula`), once for every layer. `differentials` is the faster way for Dense(φ(z)).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from meanfield.base.budgets import require_memory
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.network.network import Network, Trace
from meanfield.empirical.network.operations.operation_walk import Linear, Site
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.network.stored import parameter_gradients
from meanfield.empirical.observables.differentials import Differentials, LayerTensors
from meanfield.empirical.observables.wanted import is_chain

Directions = Mapping[Name, np.ndarray]  # of some vectors of the parameters: (vectors, *shape of the parameter)
_CHUNK = 1 << 22  # numbers of a coefficient at once


class ParameterJets(Linear):
    """The signal where the parameters are θ + Σ_k ε_k d_k, every vector d_k of directions[k] with every other."""

    def __init__(self, x: np.ndarray, directions: Sequence[Directions]) -> None:
        super().__init__(Jet([x, *[None] * (2 ** len(directions) - 1)]))
        self._directions = directions

    @property
    def signal(self) -> Jet:
        return self._stack[-1]

    def add(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        self._stack.append(top + mu * below)

    def join(self, site: Site) -> None:
        self._stack.append(site.operation.joined_formula(self.operands(site), site))  # type: ignore[attr-defined]

    def apply(self, site: Site) -> None:
        operation: Any = site.operation
        positions, neurons = self.signal.value.shape[-2:]
        rated = operation.rated((positions // site.inputs, neurons), site)
        values = {name: self._moved(Name(site.layer, site.place, name), *given) for name, given in rated.items()}
        self._stack.append(operation.formula(self._stack.pop(), values, site))

    def _moved(self, name: Name, value: np.ndarray, root: float) -> Jet:
        """A parameter with its directions, each along an axis of its own in front of two of the parameter."""
        count = len(self._directions)
        coefficients: list[np.ndarray | None] = [np.atleast_2d(value), *[None] * (2**count - 1)]
        for k, directions in enumerate(self._directions):
            if name in directions:
                along = directions[name]
                front = [1] * count
                front[k] = len(along)
                coefficients[1 << k] = root * along.reshape(*front, *np.atleast_2d(value).shape)
        return Jet(coefficients)


def layer_tensors(network: Network, inputs: np.ndarray, order: int) -> Iterator[tuple[int, LayerTensors]]:
    """(layer, tensors) of every layer, the faster way where there is one."""
    if not is_chain(network.ensemble):
        yield from network_tensors(network, inputs, order)
        return
    carried = Differentials(inputs, order)
    for layer, _ in network.run(inputs, [carried]):
        yield layer, carried.tensors


def network_tensors(network: Network, inputs: np.ndarray, order: int) -> Iterator[tuple[int, LayerTensors]]:
    """(layer, tensors) of every layer, see `LayerTensors`: its P inputs are all positions.

    Order 1 gives H, by gradients alone; 2 also dH, 3 also ddI and ddII. Raises `MeanFieldError` for an operation
    without a formula, an activation without φ″ and what does not fit into memory.
    """
    trace: Trace = []
    for layer, z in network.run(inputs, None, trace, inputs.shape[0]):
        gradients = dict(parameter_gradients(trace, np.eye(z.size).reshape(z.size, *z.shape)))
        size, count = z.size, sum(one[0].size for one in gradients.values())
        largest = max((one[0].size for one in gradients.values()), default=1)
        held = {1: size * size, 2: 3.0 * size**3, 3: 5.0 * size**4}[order] + size * (count + largest)
        require_memory(8.0 * held, f"Differentials of {size} neurons of all positions", "take fewer of them")
        flat = [one.reshape(size, -1) for one in gradients.values()]
        tensors = [sum((one @ one.T for one in flat), np.zeros((size, size)))]
        if order > 1:
            tensors.append(_mixed(network, inputs, layer, (gradients, gradients)))
        if order > 2:
            tensors.append(_third(network, inputs, layer, gradients))
            tensors.append(_gram(network, inputs, layer, gradients, size))
        yield layer, LayerTensors(z, *(_by_inputs(one, z.shape) for one in tensors))


def _mixed(network: Network, inputs: np.ndarray, layer: int, directions: Sequence[Directions]) -> np.ndarray:
    """D^m z_i(d_1, …, d_m) for every d_k of directions[k]: (all neurons i, vectors of directions[0], …)."""
    carrier = ParameterJets(inputs, directions)
    for reached, z in network.run(inputs, [carrier]):
        if reached == layer:
            last = carrier.signal.c[-1]
            counts = [len(next(iter(one.values()))) for one in directions]
            found = np.zeros((*counts, *z.shape)) if last is None else np.broadcast_to(last, (*counts, *z.shape))
            return np.moveaxis(found.reshape(*counts, z.size), -1, 0)
    raise AssertionError(f"There is no layer {layer}.")


def _third(network: Network, inputs: np.ndarray, layer: int, gradients: Directions) -> np.ndarray:
    size = len(next(iter(gradients.values())))
    step = max(1, _CHUNK // size**3)
    parts = [{name: one[k : k + step] for name, one in gradients.items()} for k in range(0, size, step)]
    return np.concatenate([_mixed(network, inputs, layer, (one, gradients, gradients)) for one in parts], axis=1)


def _gram(network: Network, inputs: np.ndarray, layer: int, gradients: Directions, size: int) -> np.ndarray:
    total = np.zeros((size * size, size * size))
    step = max(1, _CHUNK // size**2)
    for name, held in gradients.items():
        count = held[0].size
        for first in range(0, count, step):
            units = np.eye(count)[first : first + step].reshape(-1, *held.shape[1:])
            psi = _mixed(network, inputs, layer, ({name: units}, gradients))  # i, c, k
            flat = psi.swapaxes(0, 1).reshape(len(units), -1)
            total += flat.T @ flat
    return total.reshape((size,) * 4).swapaxes(1, 2)  # of (i, k), (j, l)


def _by_inputs(tensor: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """T[i, j, …] over neurons of all positions as T[α, β, …, i, j, …]."""
    count = tensor.ndim
    apart = tensor.reshape(shape * count)
    return np.ascontiguousarray(apart.transpose(*range(0, 2 * count, 2), *range(1, 2 * count, 2)))
