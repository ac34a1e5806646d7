"""From the architecture record to a flat list of operations on a stack."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np

from meanfield.base.results import MeanFieldError
from meanfield.base.words import no_parameter
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.functions.twins import resolve
from meanfield.empirical.network.checks import per_layer
from meanfield.empirical.network.operation import OPERATIONS, Operation
from meanfield.empirical.network.operations import (
    Adapt,
    AddSaved,
    Affine,
    Map,
    Multiply,
    MultiplySaved,
    Normalize,
    NormalizeBatch,
    PoolGroups,
    Project,
    Save,
    Swap,
)
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
    Scale,
    Schedule,
    Sequential,
)


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
    pairs, known = activation_pairs or {}, symbols_in(block)
    ordinals, given = iter(range(1 << 14)), dict(values or {})
    for name in given:
        if name not in known:
            raise no_parameter(name, known - {"sigma_w", "sigma_b"}, "network")
    others = iter(range((1 << 13) - 1, 0, -1))  # so that weights are the same with a Projection and without

    def value(of: Any, what: str) -> tuple[float, ...]:
        if not isinstance(of, Param):
            return (float(of),) * depth
        if own is not None and of.name in own:
            return tuple(own[of.name].tolist())
        if given.get(of.name) is None:
            raise MeanFieldError(
                f"A finite-width network needs a number for {what} {of.name}, which the architecture leaves symbolic; "
                f"give {of.name}=..."
            )
        return tuple(per_layer(given[of.name], f"{what[0].upper()}{what[1:]} {of.name}", depth).tolist())

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
