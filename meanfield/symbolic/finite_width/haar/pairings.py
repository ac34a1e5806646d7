"""Pair partitions, coset types and joins of set partitions: the combinatorics of products of random matrices.

A set partition of the positions 0, 1, …, r − 1 is a tuple of blocks, each a tuple in increasing order, the blocks by
their first positions; a pairing is one whose blocks are pairs. Two pairings of 2k positions, laid over each other, are
loops of even lengths; half of these, largest first, are a partition of k: their coset type.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache

Blocks = tuple[tuple[int, ...], ...]
Type = tuple[int, ...]


def pairings(positions: Iterable[int]) -> Iterator[Blocks]:
    """All pairings of the positions: (2k − 1)!! of 2k, one (empty) of none, none of an odd number."""
    points = tuple(positions)
    if not points:
        yield ()
        return
    first, rest = points[0], points[1:]
    for i, partner in enumerate(rest):
        for others in pairings(rest[:i] + rest[i + 1 :]):
            yield ((first, partner), *others)


@lru_cache(maxsize=32)
def all_pairings(k: int) -> tuple[Blocks, ...]:
    """The (2k − 1)!! pairings of 0, …, 2k − 1."""
    return tuple(pairings(range(2 * k)))


def even_partitions(positions: Iterable[int]) -> Iterator[Blocks]:
    """All set partitions into blocks of even sizes: pairings among them."""
    points = tuple(positions)
    if not points:
        yield ()
        return
    first, rest = points[0], points[1:]
    for chosen in _subsets(rest):
        if len(chosen) % 2:
            left = tuple(p for p in rest if p not in chosen)
            for others in even_partitions(left):
                yield ((first, *chosen), *others)


def set_partitions(items: Sequence) -> Iterator[tuple[tuple, ...]]:
    """All partitions of a sequence into blocks; blocks and their members keep its order."""
    if not items:
        yield ()
        return
    for rest in set_partitions(items[:-1]):
        yield (*rest, (items[-1],))
        for i, block in enumerate(rest):
            yield (*rest[:i], (*block, items[-1]), *rest[i + 1 :])


def _subsets(points: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for mask in range(1 << len(points)):
        yield tuple(p for i, p in enumerate(points) if mask >> i & 1)


def join(*partitions: Iterable[Iterable[Hashable]]) -> list[tuple]:
    """The finest partition that is coarser than all: labels that any of them puts together.

    Of two pairings it has one block for each loop; Σ over labels 1 … n of their Kronecker deltas is n^(blocks).
    """
    parent: dict[Hashable, Hashable] = {}

    def root(x: Hashable) -> Hashable:
        while parent.setdefault(x, x) != x:
            x = parent[x]
        return x

    for blocks in partitions:
        for block in blocks:
            members = list(block)
            for member in members:
                one, two = root(members[0]), root(member)
                if one != two:
                    parent[two] = one
    found: dict[Hashable, list] = {}
    for x in parent:
        found.setdefault(root(x), []).append(x)
    return [tuple(block) for block in found.values()]


def coset_type(one: Blocks, two: Blocks) -> Type:
    """Half the lengths of the loops of two pairings, largest first.

    >>> coset_type(((0, 1), (2, 3), (4, 5)), ((0, 2), (1, 3), (4, 5)))
    (2, 1)
    """
    return tuple(sorted((len(block) // 2 for block in join(one, two)), reverse=True))


def partitions(k: int, largest: int | None = None) -> Iterator[Type]:
    """The partitions of k, parts in decreasing order, (k) first and (1, …, 1) last."""
    if k == 0:
        yield ()
        return
    for part in range(min(k, k if largest is None else largest), 0, -1):
        for rest in partitions(k - part, part):
            yield (part, *rest)


def joined(type_: Type, gone: Sequence[int], come: Sequence[int]) -> Type:
    """A partition with some parts replaced by others."""
    parts = list(type_)
    for part in gone:
        parts.remove(part)
    return tuple(sorted([*parts, *come], reverse=True))


def fits(labels: Sequence[Hashable], blocks: Blocks) -> bool:
    """Whether labels are equal within every block: the product of Kronecker deltas."""
    return all(labels[block[0]] == labels[p] for block in blocks for p in block[1:])
