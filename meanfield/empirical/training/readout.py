"""The readout of a network that is trained: the last layer, which makes the outputs."""

from __future__ import annotations

from meanfield.networks.folds import chain, dense_of, has_skip, parts, skip_of
from meanfield.networks.records import Block, Dense, Sequential


def readout_of(block: Block) -> Block | None:
    """What makes the outputs where nobody says it: None for the block itself.

    That is a block without skips and with one Dense on the neurons, which can make any number of neurons. Of a skip
    around such a block it is that branch alone; of anything else, a Dense behind a norm over neurons like the block's
    first (without it if the block has none). Outputs of several tokens are averaged afterwards, which is the same as to
    average before the Dense.

    >>> from meanfield.networks.records import Residual, mlp
    >>> readout_of(mlp("tanh")), readout_of(mlp("tanh", mu=1))
    (None, Sequential((Nonlinearity('tanh'), Dense())))
    """
    if _is_layer(block):
        return None
    skip = skip_of(block)
    if skip is not None and skip.shortcut is None and _is_layer(skip.branch):
        return skip.branch
    norm = next((one for one in parts(block) if one.normalizes == "neurons"), None)
    return Dense() if norm is None else Sequential((norm, Dense()))


def _is_layer(block: Block) -> bool:
    """Whether a block is one layer of any number of neurons: it ends in its one Dense, and has no skip."""
    dense, last = dense_of(block), chain(block)[-1:]
    mixing = any(one.mixes == "tokens" for one in parts(block))
    return not has_skip(block) and not mixing and len(dense) == 1 and dense == last and dense[0].expand == 1
