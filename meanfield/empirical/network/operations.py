"""From the architecture record to a flat list of operations on a stack, and the checks of numbers given by a user."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.architecture import (
    AffineNorm,
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Param,
    Pool,
    Projection,
    Residual,
    Scale,
    Schedule,
    Sequential,
)
from meanfield.arguments import count_of, refuse_not_real, shown
from meanfield.empirical.functions.formulas import number
from meanfield.empirical.functions.groups import jumps
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.functions.twins import resolve
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


def operations(
    block: Block,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    mu: Any = None,
    depth: int = 1,
    own: Mapping[str, np.ndarray] | None = None,
) -> tuple[Operation, ...]:
    """The block as a flat list.

    own: the network's σ_w and σ_b, one number per layer, for a `Schedule` that falls from them.

    mu: the value of the block's `Param`s: one number, one per layer (`depth` of them, of which the first is not used:
    layer 1 has no skip), or a mapping from names to either. A number in the block is the same in every layer.

    Raises `MeanFieldError` for an activation without functions and for a `Param` without a value.
    """
    pairs = activation_pairs or {}
    ordinals, met = iter(range(1 << 14)), set[str]()
    others = iter(range((1 << 13) - 1, 0, -1))  # so that weights are the same with a Projection and without

    def value(of: Any, what: str) -> tuple[float, ...]:
        if not isinstance(of, Param):
            return (float(of),) * depth
        if own is not None and of.name in own:
            return tuple(own[of.name].tolist())
        met.add(of.name)
        if len(met) > 1 and mu is not None and not isinstance(mu, Mapping):
            raise MeanFieldError(
                f"One value was given for the symbols {', '.join(sorted(met))}; give mu={{name: value, ...}}."
            )
        given = mu.get(of.name) if isinstance(mu, Mapping) else mu
        if given is None:
            raise MeanFieldError(
                f"A finite-width network needs a number for {what} {of.name}, which the architecture leaves symbolic; "
                f"give mu=..., or mu={{{of.name!r}: ...}}."
            )
        return tuple(per_layer(given, f"{what[0].upper()}{what[1:]} {of.name}", depth).tolist())

    def deviation(of: Any, own: str) -> tuple[float, ...] | None:
        if of == Param(own):
            return None
        if not isinstance(of, Schedule):
            return value(of, "the standard deviation")
        base = value(of.value, "the standard deviation")
        beta, total = value(of.beta, "the exponent"), value(of.total, "the exponent")
        blocks = max(depth - 1, 1)
        layers = enumerate(zip(base, beta, total), 1)
        return tuple(b * max(l - 1, 1) ** (-0.5 * e) * blocks ** (-0.5 * d) for l, (b, e, d) in layers)

    def walk(part: Block) -> Iterator[Operation]:
        match part:
            case Nonlinearity(activation):
                yield Map(resolve(activation, pairs))
            case Dense(weights, sigma_w, sigma_b, expand, axis):
                yield Affine(
                    next(ordinals),
                    "orthogonal" if weights == "mixed" else weights,
                    deviation(sigma_w, "sigma_w"),
                    deviation(sigma_b, "sigma_b"),
                    None if expand == 1 else value(expand, "the factor"),
                    axis == "tokens",
                )
            case LayerNorm(affine):
                yield Normalize(affine)
            case BatchNorm(affine):
                yield NormalizeBatch(affine)
            case AffineNorm():
                yield Adapt()
            case Pool(size, kind):
                yield PoolGroups(size, kind)
            case Scale(factor):
                yield Multiply(value(factor, "the factor"))
            case Projection():
                yield Project(next(others))
            case Sequential(blocks):
                for inner in blocks:
                    yield from walk(inner)
            case Residual(branch, strength, shortcut):
                yield Save()
                if shortcut is not None:
                    yield from walk(shortcut)
                    yield Swap()
                yield from walk(branch)
                yield AddSaved(value(strength, "the skip strength"))
            case Gate(phi, by_value, by_gate):
                yield Save()
                yield from walk(by_value)
                yield Swap()
                yield from walk(Sequential((by_gate, Nonlinearity(phi))))
                yield MultiplySaved()
            case Network():
                raise MeanFieldError(
                    "A network with an input layer of its own was given where all layers share their σ's; give its "
                    ".block, or measure it with measure or run_ensemble."
                )
            case _ if type(part) in OPERATIONS:
                yield OPERATIONS[type(part)](part)
            case _:
                raise MeanFieldError(
                    f"A finite-width network was asked for with {part!r}; a block is made of Dense, Nonlinearity, "
                    "LayerNorm, BatchNorm, AffineNorm, Pool, Scale, Gate, Projection, Sequential and Residual."
                )

    return tuple(walk(block))


def check_shapes(done: tuple[Operation, ...], widths: Sequence[int], tokens: int) -> tuple[Operation, ...]:
    """Follow (tokens, neurons) through the block of every layer; raises `MeanFieldError` where they do not fit. The
    operations are returned without a `Project` that is the identity at every layer."""
    moved = set()
    for layer in range(2, len(widths) + 1):
        for operation, here in shapes(done, widths, tokens, layer):
            if isinstance(operation, Project) and here[1] != widths[layer - 1]:
                moved.add(operation)
    return tuple(one for one in done if not isinstance(one, Project) or one in moved)


def shapes(
    done: tuple[Operation, ...], widths: Sequence[int], tokens: int, layer: int
) -> Iterator[tuple[Operation, tuple[int, int]]]:
    """(operation, (tokens, neurons) before it) in the block that makes `layer`; raises as `check_shapes` does."""
    here, end = (tokens, widths[layer - 2]), (tokens, widths[layer - 1])
    saved = []
    for operation in done:
        yield operation, here
        match operation:
            case Save():
                saved.append(here)
            case Swap():
                here, saved[-1] = saved[-1], here
            case AddSaved() | MultiplySaved():
                if saved[-1] != here:
                    raise MeanFieldError(_misfit(layer, "A skip adds", saved[-1], here))
                saved.pop()
            case _:
                here = operation.shape(here, layer, end)
    if here != end:
        raise MeanFieldError(_misfit(layer, "The block makes", here, end))


def refuse_one_neuron(neurons: int) -> None:
    """One neuron minus its mean is 0, with or without the rest of LayerNorm."""
    if neurons == 1:
        raise MeanFieldError(
            "LayerNorm was asked for in a network of width 1, where a neuron is its own mean and the standard "
            "deviation is 0; take a width of at least 2."
        )


def _misfit(layer: int, what: str, found: tuple[int, int], wanted: tuple[int, int]) -> str:
    return (
        f"{what} {found[0]} × {found[1]} (tokens × neurons) where {wanted[0]} × {wanted[1]} are wanted at layer "
        f"{layer}; change expand= of a Dense, or the shortcut of the Residual (Projection() fits any widths)."
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


def real(value: Any, what: str) -> float:
    """`value` as a finite double, or `MeanFieldError`."""
    try:
        refused = isinstance(value, str | bool | np.bool_ | np.complexfloating) or np.ndim(value) > 0
        number = math.nan if refused else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise MeanFieldError(f"{what} must be a finite number, but {shown(value)} was given.")
    return number


def positive(value: Any, what: str) -> float:
    """`value` as a finite double > 0, or `MeanFieldError`."""
    number = real(value, what)
    if number <= 0:
        raise MeanFieldError(f"{what} must be > 0, but {number} was given.")
    return number


def integer(value: Any, what: str, lowest: int, below: int) -> int:
    """`value`, a whole number or a text of its digits, as an integer of [lowest, below), or `MeanFieldError`."""
    given, value = value, count_of(value)
    try:
        refused = isinstance(value, bool | np.bool_ | np.complexfloating) or np.ndim(value) > 0
        refused = refused or not abs(float(value)) < 1e30  # a Decimal of 10^6 digits is not written out first
        number = None if refused or int(value) != value else int(value)
    except (TypeError, ValueError, OverflowError):
        number = None
    if number is None or not lowest <= number < below:
        raise MeanFieldError(f"{what} must be an integer from {lowest} to {below - 1}, but {shown(given)} was given.")
    return number


def per_layer(value: Any, what: str, depth: int) -> np.ndarray:
    """`value`, one number ≥ 0 or `depth` of them, as an array of length `depth`, or `MeanFieldError`."""
    refuse_not_real(value, what)
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        array = np.asarray(math.nan)
    if array.ndim > 1 or (array.ndim == 1 and array.size != depth):
        raise MeanFieldError(
            f"{what} must be one number or one per layer (depth = {depth}), but its shape is {array.shape}."
        )
    if not (np.isfinite(array).all() and (array >= 0).all()):
        raise MeanFieldError(f"{what} must be finite and ≥ 0, but {shown(value)} was given.")
    return np.array(np.broadcast_to(array, (depth,)))


def rates_per_layer(given: Any, depth: int) -> tuple[tuple[float, ...] | None, tuple[float, ...] | None]:
    """Learning rates (λ_w, λ_b) as `Ensemble` takes them, for layers 1 … depth: the layer that is made is l."""
    if given is None:
        return None, None
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise MeanFieldError(f"rates must be (λ_w, λ_b), but {shown(given)} was given.")
    return _rate(given[0], "lambda_w", depth), _rate(given[1], "lambda_b", depth)


def _rate(given: Any, name: str, depth: int) -> tuple[float, ...] | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = [number(given, {"l": float(layer)}) for layer in range(1, depth + 1)]
    return tuple(per_layer(given, f"The learning rate {name}", depth).tolist())
