"""Walks over architecture records. Whatever is asked of a network, these go through it: nothing else does by hand.

`fold` gathers from the innermost records outwards, `rebuild` makes a record anew, `through` carries a state along as
signals go. What a record is made of is asked of it (`Block.inner`, `Block.ways`), so that one of a user's own is walked
like those of the library. Records are frozen, so that what verbs ask of one at every call is gathered once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import TypeVar

from meanfield.networks.records import Block, Dense, Param, Residual, Sequential

T = TypeVar("T")
KEPT = 512  # records of which answers are held


def fold(block: Block, of: Callable[[Block, tuple[T, ...]], T]) -> T:
    """of(record, what it gave for each record inside), from the innermost records outwards.

    >>> from meanfield.networks.records import Nonlinearity
    >>> fold(Residual(Sequential((Nonlinearity("tanh"), Dense()))), lambda _, inside: 1 + max(inside, default=0))
    3
    """
    return of(block, tuple(fold(one, of) for one in block.inner()))


def rebuild(block: Block, of: Callable[[Block], Block]) -> Block:
    """The record with `of` of every record in it, from the innermost outwards, in the order in which signals meet them.

    >>> from meanfield.networks.records import Nonlinearity
    >>> chain = Sequential((Nonlinearity("tanh"), Dense()))
    >>> rebuild(chain, lambda one: Dense(sigma_b=0) if isinstance(one, Dense) else one)
    Sequential((Nonlinearity('tanh'), Dense(sigma_b=0)))
    """
    inner = block.inner()
    made = tuple(rebuild(one, of) for one in inner)
    return of(block if all(a is b for a, b in zip(made, inner)) else block.with_inner(made))


def through(block: Block, x: T, of: Callable[[Block, T], T], joined: Callable[[Block, tuple[T, ...]], T]) -> T:
    """What a state becomes along a block: `of` at every record that is one map, and `joined` where ways that are given
    the same state meet again (those of a Residual, its shortcut first, and of a Gate).

    >>> from meanfield.networks.records import Nonlinearity
    >>> longest = through(Residual(Sequential((Dense(), Nonlinearity("tanh"), Dense()))), 0,
    ...                   lambda _, met: met + 1, lambda _, met: max(met))
    >>> longest
    3
    """
    if isinstance(block, Sequential):
        for one in block.blocks:
            x = through(one, x, of, joined)
        return x
    ways = block.ways()
    return joined(block, tuple(through(one, x, of, joined) for one in ways)) if ways else of(block, x)


def parts(block: Block) -> Iterator[Block]:
    """The records that are not made of others, in the order they are met (a shortcut before its branch)."""
    inner = block.inner()
    if not inner and not isinstance(block, Sequential):
        yield block
    for one in inner:
        yield from parts(one)


def chain(block: Block) -> tuple[Block, ...]:
    """The blocks that a signal goes through one after the other: those of a Sequential, and of a Sequential in it."""
    if not isinstance(block, Sequential):
        return (block,)
    return tuple(one for inner in block.blocks for one in chain(inner))


def skip_of(block: Block) -> Residual | None:
    """The Residual that a block is as a whole; None for another one."""
    held = chain(block)
    return held[0] if len(held) == 1 and isinstance(held[0], Residual) else None


@lru_cache(maxsize=KEPT)
def has_skip(block: Block) -> bool:
    """Whether a block holds a Residual at any depth."""
    return fold(block, lambda one, inside: isinstance(one, Residual) or any(inside))


@lru_cache(maxsize=KEPT)
def has_norm(block: Block) -> bool:
    """Whether a block holds a record that normalizes, at any depth."""
    return fold(block, lambda one, inside: bool(one.normalizes) or any(inside))


@lru_cache(maxsize=KEPT)
def dense_of(block: Block) -> tuple[Dense, ...]:
    """The Dense layers of a block, in the order they are met."""
    return tuple(one for one in parts(block) if isinstance(one, Dense))


def with_dense(block: Block, of: Callable[[int, Dense], Dense]) -> Block:
    """The record with `of` of every Dense and of its place among them, from 0."""
    places = iter(range(1 << 14))
    return rebuild(block, lambda one: of(next(places), one) if isinstance(one, Dense) else one)


@lru_cache(maxsize=KEPT)
def activations_of(block: Block) -> tuple[Hashable, ...]:
    """The activations a block holds, in the order they are met."""
    return tuple(one.activation for one in parts(block) if holds_activation(one))  # type: ignore[attr-defined]


def with_activations(block: Block, of: Callable[[Hashable], Hashable]) -> Block:
    """The record with `of` of every activation in it."""

    def put(one: Block) -> Block:
        if one.inner() or not holds_activation(one):
            return one
        made = of(one.activation)  # type: ignore[attr-defined]
        return one if made is one.activation else replace(one, activation=made)  # type: ignore[attr-defined,type-var]

    return rebuild(block, put)


@lru_cache(maxsize=KEPT)
def mixing(block: Block) -> frozenset[str]:
    """In which ways positions of a block act on each other: "batch", "tokens", both or none."""
    return fold(block, lambda one, inside: frozenset({one.mixes}.union(*inside)) - {""})


@lru_cache(maxsize=KEPT)
def attends(block: Block) -> bool:
    """Whether tokens of a block act on each other by what they hold."""
    return fold(block, lambda one, inside: one.attends or any(inside))


def holds_activation(part: Block) -> bool:
    """Whether a record that is not made of others is a function with an activation."""
    return hasattr(part, "activation")


@lru_cache(maxsize=KEPT)
def symbols_in(record: Block | tuple[Block, ...]) -> frozenset[str]:
    """The names of the symbols in the numbers of a record and of all that it is made of."""
    return _symbols_in(record)


def _symbols_in(held: object) -> frozenset[str]:
    if isinstance(held, Param):
        return frozenset({held.name})
    inside = held if isinstance(held, tuple) else ()
    if is_dataclass(held) and not isinstance(held, type):
        inside = tuple(getattr(held, f.name) for f in fields(held))
    return frozenset().union(*map(_symbols_in, inside))


def input_weights(block: Block) -> str:
    """The law of the input layer's W: "orthogonal" or "uniform" if all Dense of the block are, else "gaussian"."""
    laws = {one.weights for one in dense_of(block)}
    return laws.pop() if laws in ({"orthogonal"}, {"uniform"}) else "gaussian"
