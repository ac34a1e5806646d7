"""Walks in which every Dense of a block has a number, and tangents of its own that start at its outputs."""

from __future__ import annotations

from dataclasses import dataclass, fields

import sympy as sp

from meanfield.networks.folds import dense_of, with_dense
from meanfield.networks.records import Block, Dense
from meanfield.symbolic.recursions.coordinate import Coordinate, gaussian
from meanfield.symbolic.recursions.coordinate_walk import RULES, Walk, rule


@dataclass(frozen=True, repr=False)
class Counted(Dense):
    """The `number`-th Dense of a block, from 1 on, in the order they are met (a shortcut before its branch)."""

    number: int = 0


@dataclass
class Numbered(Walk):
    """A walk that says which field the tangents of the `number`-th Dense belong to, and what their Gram matrix is at
    its outputs."""

    def field_of(self, number: int) -> str:
        raise NotImplementedError

    def begins(self, block: Dense, number: int, x: Coordinate, p: int, q: int) -> sp.Expr:
        """The Gram entry (p, q), where the coordinate x comes in."""
        raise NotImplementedError


@rule(Counted)
def _counted(block: Counted, x: Coordinate, walk: Walk) -> Coordinate:
    """A Dense, and tangents of its own that start at its outputs."""
    assert isinstance(walk, Numbered)
    x = walk.named(walk.as_gaussian(x))
    out, own = RULES[Dense](block, x, walk), walk.field_of(block.number)

    def started(name: str, pq: tuple[int, int], e: sp.Expr) -> sp.Expr:
        return e + walk.begins(block, block.number, x, *pq) if name == own else e

    return gaussian(out.law.map(started))


def counted(block: Block) -> tuple[Block, int]:
    """(the block with its Dense numbered, how many there are)."""
    held = dense_of(block)

    def numbered(at: int, one: Dense) -> Dense:
        return Counted(**{f.name: getattr(one, f.name) for f in fields(Dense)}, number=at + 1)

    return with_dense(block, numbered), len(held)
