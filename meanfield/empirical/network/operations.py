"""What a network is made of: operations on a signal, or on the stack of signals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.empirical.functions.groups import jumps
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.derivatives import Derivative, Factor, Trained
from meanfield.empirical.network.forward import apply_batch_norm, apply_group, apply_map, apply_norm, apply_pool
from meanfield.empirical.random.buffers import aligned
from meanfield.pooling import POOLS
from meanfield.results import MeanFieldError


class Operation:
    """One step of a block. Those with `apply` act on a signal by themselves; the others a network knows (a Dense needs
    its weights, Save, Swap, AddSaved and MultiplySaved its stack).

    A record of one's own becomes an operation by `operation(Record)`: a class derived from this one, whose `apply`
    returns the new signal and its `Derivative` (push and pull).
    """

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        """The new signal (positions × neurons), and the derivative there (empty unless `differentiate`)."""
        raise NotImplementedError

    def shape(self, here: tuple[int, int], layer: int, end: tuple[int, int]) -> tuple[int, int]:
        """(tokens, neurons) after it, in the block that makes `layer`, which has `end`."""
        return here


OPERATIONS: dict[type, Callable[[Any], Operation]] = {}


def operation(record: type) -> Callable[[Callable[[Any], Operation]], Callable[[Any], Operation]]:
    """Decorator: what makes the operation of a record (a function or the class itself), from the record."""

    def put(make: Callable[[Any], Operation]) -> Callable[[Any], Operation]:
        OPERATIONS[record] = make
        return make

    return put


@dataclass(frozen=True)
class Map(Operation):
    """y → φ(y)."""

    pair: ScalarPair

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        return apply_map(self.pair, z, differentiate)


@dataclass(frozen=True)
class Affine(Operation):
    """y → σ_w n^{−1/2} W y + σ_b b, the `ordinal`-th Dense of the block (of a layer, for the input layer).

    sigma_w, sigma_b: one per layer, or None for the network's own. expand: outputs per neuron of the layer that is made
    (per input token if `tokens`), one per layer.
    """

    ordinal: int
    law: str = "gaussian"
    sigma_w: tuple[float, ...] | None = None
    sigma_b: tuple[float, ...] | None = None
    expand: tuple[float, ...] | None = None
    tokens: bool = False

    def outputs(self, layer: int, basis: int) -> int:
        """How many: `expand` times `basis`, which must be a whole number."""
        factor = 1.0 if self.expand is None else self.expand[layer - 1]
        number = round(factor * basis) if factor * basis < 1 << 53 else 0
        if number < 1 or abs(number - factor * basis) > 1e-9 * number:
            raise MeanFieldError(
                f"A Dense with expand = {factor:g} makes {factor * basis:g} of {basis} "
                f"{'tokens' if self.tokens else 'neurons'} at layer {layer}; the product must be a whole number ≥ 1."
            )
        return number

    def shape(self, here: tuple[int, int], layer: int, end: tuple[int, int]) -> tuple[int, int]:
        if self.tokens:
            return self.outputs(layer, end[0]), here[1]
        return here[0], self.outputs(layer, end[1])


@dataclass(frozen=True)
class Project(Operation):
    """y → n^{−1/2} π y where the layer has not as many neurons as y, else y; `ordinal` is that of its own weights."""

    ordinal: int

    def shape(self, here: tuple[int, int], layer: int, end: tuple[int, int]) -> tuple[int, int]:
        return here[0], end[1]


@dataclass(frozen=True)
class Normalize(Operation):
    """y → (y − mean(y))/sd(y) over the neurons; `affine`: its γ and β are trained."""

    affine: bool

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        return apply_norm(z, self.affine)

    def shape(self, here: tuple[int, int], layer: int, end: tuple[int, int]) -> tuple[int, int]:
        refuse_one_neuron(here[1])
        return here


@dataclass(frozen=True)
class NormalizeBatch(Operation):
    """y → (y − mean(y))/sd(y) over the positions."""

    affine: bool

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        return apply_batch_norm(z, self.affine)


@dataclass(frozen=True)
class Adapt(Operation):
    """y → γy + β with γ = 1 and β = 0, which are trained."""

    affine: bool = True

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        new_z = aligned(*z.shape)
        new_z[...] = z
        return new_z, Trained(new_z, np.empty(0), self.affine)


@dataclass(frozen=True)
class PoolGroups(Operation):
    """Groups of `size` neurons → their largest ("max"), their mean ("average"), or a formula of theirs."""

    size: int
    kind: str

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        if self.kind in POOLS:
            return apply_pool(z, self.size, self.kind == "max")
        return apply_group(z, self.size, self.kind, differentiate)

    def shape(self, here: tuple[int, int], layer: int, end: tuple[int, int]) -> tuple[int, int]:
        if here[1] < self.size:
            raise MeanFieldError(f"A Pool of {self.size} neurons meets {here[1]} at layer {layer}.")
        return here[0], here[1] // self.size


@dataclass(frozen=True)
class Multiply(Operation):
    """y → factor[l − 1] y."""

    factor: tuple[float, ...]

    def apply(self, z: np.ndarray, layer: int, differentiate: bool) -> tuple[np.ndarray, Derivative]:
        factor = self.factor[layer - 1]
        return np.multiply(z, factor, out=aligned(*z.shape)), Factor(factor, (z.shape[0], z.shape[1]))


@dataclass(frozen=True)
class Save(Operation):
    """Remember y."""


@dataclass(frozen=True)
class Swap(Operation):
    """Exchange y and the last one remembered."""


@dataclass(frozen=True)
class AddSaved(Operation):
    """y → y + μ y′ with y′ the last one remembered, which is then forgotten; μ = mu[l − 1] in the block that makes
    layer l."""

    mu: tuple[float, ...]


@dataclass(frozen=True)
class MultiplySaved(Operation):
    """y → y ⊙ y′, neuron by neuron, with y′ the last one remembered, which is then forgotten."""


def refuse_one_neuron(neurons: int) -> None:
    """One neuron minus its mean is 0, with or without the rest of LayerNorm."""
    if neurons == 1:
        raise MeanFieldError(
            "LayerNorm was asked for in a network of width 1, where a neuron is its own mean and the standard "
            "deviation is 0; take a width of at least 2."
        )


def refuse_new(done: tuple[Operation, ...], what: str) -> None:
    """Refuse what networks with shared weights cannot run: all but square Gaussian Dense, φ, LayerNorm and skips."""
    for operation in done:
        known = isinstance(operation, Map | Normalize | Save | AddSaved) or operation == Affine(
            getattr(operation, "ordinal", 0)
        )
        if not known:
            raise MeanFieldError(
                f"{what} shares its weights between networks and cannot run {type(operation).__name__} {operation}; "
                "use run_ensemble for one block at a time."
            )


def refuse_jumps(done: tuple[Operation, ...], what: str, instead: str) -> None:
    """Refuse a derivative, `what`, of operations with an activation or a pool that jumps; `instead` is what to do."""
    pools = [(operation.kind, operation.size) for operation in done if isinstance(operation, PoolGroups)]
    if not all(operation.pair.continuous for operation in done if isinstance(operation, Map)):
        held = "an activation"
    elif any(jumps(kind, size) for kind, size in pools):
        held = "a pool"
    else:
        return
    raise MeanFieldError(
        f"{what} was asked for {held} that jumps: a finite network measures a derivative of 0 almost surely, while the "
        f"value at infinite width is infinite; {instead}."
    )
