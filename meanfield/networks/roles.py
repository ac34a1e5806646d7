"""What each matrix of a block is for, by the words that its users have for it."""

from __future__ import annotations

from meanfield.networks.attention import Attention
from meanfield.networks.folds import fold, holds_activation
from meanfield.networks.records import Block, Dense, Residual

HEADS = ("query", "key", "value")


def roles_of(block: Block) -> tuple[str, ...]:
    """The role of every Dense of a block, in the order in which signals meet them.

    query, key, value: of an Attention; output: the Dense behind it. up, down: the two Dense of a feed-forward branch,
    and gate: the one inside the nonlinearity of a gated one, whose other factor is up. dense: any other. Where several
    have one role, they are numbered (dense1, dense2).

    >>> from meanfield.networks.transformers import llama
    >>> roles_of(llama().block)
    ('query', 'key', 'value', 'output', 'up', 'gate', 'down')
    """
    found: list[str] = []
    branch: list[str] = []  # of the branch that is being met

    def of(one: Block, inside: tuple[None, ...]) -> None:
        if isinstance(one, Attention):
            branch[-3:] = HEADS
        elif one.inner() and holds_activation(one):
            branch[-2:] = ("up", "gate")
        elif isinstance(one, Dense):
            branch.append("tokens" if one.mixes else "dense")
        elif isinstance(one, Residual):
            ended()

    def ended() -> None:
        found.extend(_named(branch))
        branch.clear()

    fold(block, of)
    ended()
    return numbered(found)


def _named(branch: list[str]) -> list[str]:
    """The roles of the Dense of one branch, the last of which closes it."""
    if branch[:3] == list(HEADS) and branch[3:4] == ["dense"]:
        return [*HEADS, "output", *_named(branch[4:])]
    if branch == ["dense", "dense"]:
        return ["up", "down"]
    if branch == ["up", "gate", "dense"]:
        return ["up", "gate", "down"]
    return branch


def numbered(names: list[str]) -> tuple[str, ...]:
    """The same names, those that stand several times with their number."""
    seen: dict[str, int] = {}
    out = []
    for one in names:
        seen[one] = seen.get(one, 0) + 1
        out.append(one if names.count(one) == 1 else f"{one}{seen[one]}")
    return tuple(out)
