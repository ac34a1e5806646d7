"""From the architecture record to a flat list of operations on a stack."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.words import no_parameter
from meanfield.empirical.functions.reference_functions import resolve
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.operations.attention_operation import Attend, HeadSizes
from meanfield.empirical.network.operations.checks import per_layer
from meanfield.empirical.network.operations.operation import OPERATIONS, Operation
from meanfield.empirical.network.operations.operations import (
    Adapt,
    AddSaved,
    DenseOperation,
    Map,
    Multiply,
    MultiplySaved,
    Normalize,
    NormalizeBatch,
    NormalizeRoot,
    PoolGroups,
    Project,
    Save,
    Swap,
)
from meanfield.networks.attention import Attention
from meanfield.networks.folds import symbols_in
from meanfield.networks.records import (
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
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
    scheduled,
)


class RecordNumbers:
    """The numbers of a record, one per layer."""

    def __init__(self, given: Mapping[str, Any], depth: int, own: Mapping[str, np.ndarray] | None) -> None:
        self._given, self._depth, self._own = given, depth, own

    def value(self, of: Any, what: str) -> tuple[float, ...]:
        if not isinstance(of, Param):
            return (float(of),) * self._depth
        if self._own is not None and of.name in self._own:
            return tuple(self._own[of.name].tolist())
        if self._given.get(of.name) is None:
            raise MeanFieldError(
                f"A finite-width network needs a number for {what} {of.name}, which the architecture leaves symbolic; "
                f"give {of.name}=..."
            )
        array = per_layer(self._given[of.name], f"{what[0].upper()}{what[1:]} {of.name}", self._depth)
        return tuple(array.tolist())

    def scheduled(self, of: Any, what: str) -> tuple[float, ...]:
        """A number, or one that falls with the block."""
        if not isinstance(of, Schedule):
            return self.value(of, what)
        beta, total = self.value(of.beta, "the exponent"), self.value(of.total, "the exponent")
        numbers = enumerate(zip(self.value(of.value, what), beta, total))
        return tuple(scheduled(k, self._depth - 1, *layer) for k, layer in numbers)

    def deviation(self, of: Any, own: str) -> tuple[float, ...] | None:
        """None for the network's own."""
        return None if of == Param(own) else self.scheduled(of, "the standard deviation")


def attention(part: Attention) -> tuple[HeadSizes, HeadSizes, Attend]:
    """(heads of queries, heads of keys, what mixes them with the values)."""
    queries, keys, values = (
        HeadSizes(number, dim, part.heads)
        for number, dim in (
            (part.heads, part.key_dim), (part.key_heads, part.key_dim), (part.key_heads, part.value_dim),
        )
    )  # fmt: skip
    rotary = float(part.rotary)  # type: ignore[arg-type]
    return queries, keys, Attend(keys, values, part.causal, part.scale == "1/d", rotary, part.qk_norm)


def operations(
    block: Block,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    values: Mapping[str, Any] | None = None,
    depth: int = 1,
    own: Mapping[str, np.ndarray] | None = None,
) -> tuple[Operation, ...]:
    """The block as a flat list.

    own: the network's σ_w and σ_b, one number per layer, for a `Schedule` that falls from them.

    values: of the block's `Param`s by their names: one number each, or one per layer (`depth` of them, of which the
    first is not used: layer 1 has no skip). A number in the block is the same in every layer.

    Raises `MeanFieldError` for an activation without functions, for a `Param` without a value, and for a value of none.
    """
    pairs, known, given = activation_pairs or {}, symbols_in(block), dict(values or {})
    for name in given:
        if name not in known:
            raise no_parameter(name, known - {"sigma_w", "sigma_b"}, "network")
    numbers, ordinals = RecordNumbers(given, depth, own), iter(range(1 << 14))
    others = iter(range((1 << 13) - 1, 0, -1))  # so that weights are the same with a Projection and without

    def dense(part: Dense, heads: HeadSizes | None = None) -> DenseOperation:
        return DenseOperation(
            next(ordinals),
            "orthogonal" if part.weights == "mixed" else part.weights,
            numbers.deviation(part.sigma_w, "sigma_w"),
            numbers.deviation(part.sigma_b, "sigma_b"),
            None if part.expand == 1 else numbers.value(part.expand, "the factor"),
            part.axis == "tokens",
            heads,
        )

    def walk(part: Block) -> Iterator[Operation]:
        match part:
            case Nonlinearity(activation):
                yield Map(resolve(activation, pairs))
            case Dense():
                yield dense(part)
            case LayerNorm(affine):
                yield Normalize(affine)
            case RMSNorm(affine):
                yield NormalizeRoot(affine)
            case BatchNorm(affine):
                yield NormalizeBatch(affine)
            case AffineNorm():
                yield Adapt()
            case Pool(size, kind):
                yield PoolGroups(size, kind)
            case Scale(factor):
                yield Multiply(numbers.scheduled(factor, "the factor"))
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
                yield AddSaved(numbers.value(strength, "the skip strength"))
            case Gate(phi, by_value, by_gate):
                yield Save()
                yield from walk(by_value)
                yield Swap()
                yield from walk(Sequential((by_gate, Nonlinearity(phi))))
                yield MultiplySaved()
            case Attention():
                queries, keys, attend = attention(part)
                yield Save()
                yield dense(part.query, queries)
                yield Swap()
                yield Save()
                yield dense(part.key, keys)
                yield Swap()
                yield dense(part.value, attend.values)
                yield attend
            case Network():
                raise MeanFieldError(
                    "A network with an input layer of its own was given where all layers share their σ's; give its "
                    ".block, or measure it with measure or run_ensemble."
                )
            case _ if (made := OPERATIONS.nearest(type(part))) is not None:
                yield made(part)
            case _:
                raise MeanFieldError(
                    f"A finite-width network was asked for with {part!r}; a block is made of Dense, Nonlinearity, "
                    "LayerNorm, RMSNorm, BatchNorm, AffineNorm, Pool, Scale, Gate, Attention, Projection, Sequential "
                    "and Residual."
                )

    return tuple(walk(block))
