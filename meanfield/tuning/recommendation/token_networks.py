"""`recommend` for networks with attention: deviations by kind of matrix, followed block by block with drawn heads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.attention import Attention
from meanfield.networks.folds import chain, dense_of, fold, rebuild
from meanfield.networks.records import Block, Dense, Network, Param, Residual, Schedule
from meanfield.networks.roles import roles_of
from meanfield.symbolic.recursions.naming import describe
from meanfield.tuning.dense_layers import kinds
from meanfield.tuning.recommendation.answer import Layer
from meanfield.tuning.recommendation.blockwise import (
    BlockwiseRun,
    Follow,
    exactly,
    is_free,
    strength_of,
    with_deviations,
)
from meanfield.tuning.recommendation.transformer_answer import TransformerRecommendation

LEAST = 0.25  # of 1/L: the least share of a branch in the variance of the last layer
MARGIN = 1.05
ROUNDS = 12
DRAWS = 4  # of the heads of all blocks
MOST_TOKENS = 256  # that are followed; of longer contexts the first ones
_GPT2 = 0.02


def recommend_transformer(
    block: Block, *, depth: int, width: int, context: int, draws: int, input_norm: float, seed: int
) -> TransformerRecommendation:
    """`recommend` for a block with attention."""
    roles = roles_of(block)

    heads = largest(block, lambda one: one.heads)
    if width % heads:
        raise MeanFieldError(
            f"The heads of an Attention divide its width, but {heads} heads of {width} neurons were asked for."
        )
    tokens, free = min(context, MOST_TOKENS), _open(block, roles)
    follow = Follow(sized(block, width), roles, depth, tokens, draws, input_norm, seed)
    each = dict(zip(roles, kinds(block)))
    fans = {r: float(one.fan or 1) * (tokens if one.axis == "tokens" else width) for r, one in each.items()}
    own, settled = chosen(follow, free)
    common = {
        "GPT-2": {r: _GPT2 * math.sqrt(fan) for r, fan in fans.items()},
        "PyTorch": dict.fromkeys(fans, 1 / math.sqrt(3)) | {"input": 1.0},
    }
    ends = [r for r in follow.ends if r is not None]
    common["GPT-2"] |= {r: common["GPT-2"][r] / math.sqrt(len(follow.ends) * (depth - 1)) for r in ends}
    common["GPT-2"]["input"] = math.hypot(_GPT2, _GPT2 / 2)
    recipes = tuple(follow(name, one | _held(block, roles, depth)) for name, one in common.items())
    layers = [Layer("input", "neurons", None, own.sigmas["input"], 0.0)]
    layers += [Layer(r, each[r].axis, fans[r], own.sigmas[r], _bias(one)) for r, one in zip(roles, dense_of(block))]
    return TransformerRecommendation(
        describe(block), depth, width, heads, context, tokens, draws, tuple(layers), own, recipes,
        Network(with_deviations(block, roles, own.sigmas), Dense(sigma_w=exactly(own.sigmas["input"]), sigma_b=0)),
        tuple(_caveats(own, follow, context, width, settled)),
    )  # fmt: skip


def _bias(one: Dense) -> float:
    return 0.0 if isinstance(one.sigma_b, Param | Schedule) else float(one.sigma_b)


def _open(block: Block, roles: tuple[str, ...]) -> set[str]:
    """The roles whose deviation is left to be chosen: a symbol, or a schedule of one."""
    return {role for role, one in zip(roles, dense_of(block)) if is_free(one)}


def _held(block: Block, roles: tuple[str, ...], depth: int) -> dict[str, float]:
    """The deviations that the record says, of a Schedule those of the first block."""
    found = {}
    for role, one in zip(roles, dense_of(block)):
        if not is_free(one):
            held = one.sigma_w
            value = held.value if isinstance(held, Schedule) else held
            total = held.total if isinstance(held, Schedule) else 0
            found[role] = float(value) * (depth - 1) ** (-float(total) / 2)  # type: ignore[arg-type]
    return found


def largest(block: Block, of: Callable[[Attention], int]) -> int:
    """The largest number that an Attention of a block has; 0 where there is none."""

    def most(one: Block, inside: tuple[int, ...]) -> int:
        return max((of(one) if isinstance(one, Attention) else 0, *inside))

    found: int = fold(block, most)
    return found


def sized(block: Block, width: int) -> Block:
    """The record whose heads have the dimensions that this width gives them."""

    def put(one: Block) -> Block:
        if not isinstance(one, Attention) or one.key_dim is not None:
            return one
        return replace(one, key_dim=width // one.heads)

    return rebuild(block, put)


def chosen(follow: Follow, free: set[str]) -> tuple[BlockwiseRun, bool]:
    """(what is recommended, whether it settled). What ends a branch is such that the least share of each is 1/(4L),
    queries and keys such that Θ_Q/Θ_V is 1 in the geometric mean over the blocks; all else has deviation 1. Where the
    stream does not carry what was added (norms in the way of the skips, skips of another strength than 1, branches
    that grow with it) no choice gives every branch 1/(4L): there each of n branches a block is the fraction 1/(nL) of
    what it is added to, and what the skip takes away, if that is more."""
    sigmas = dict.fromkeys(("input", *follow.roles), 1.0) | _held(follow.block, follow.roles, follow.depth)
    blocks, count = follow.depth - 1, len(follow.ends)
    moving = {end: i for i, end in enumerate(follow.ends) if end in free}
    sigmas |= dict.fromkeys(moving, 1 / math.sqrt(blocks))
    few = replace(follow, block=rebuild(follow.block, quick), draws=2)
    least = None if _carries(follow.block) else [max(1 / (count * blocks), 1 - m**2) for m in _strengths(follow.block)]
    fixed = _any(follow.block, lambda one: one.qk_norm or one.scale == "1/d")  # scores that no deviation moves
    asked = [] if fixed else [r for r in sorted(free) if r.startswith(("query", "key"))]
    if any(value == 0 for role, value in sigmas.items() if role.startswith(("query", "key"))):
        asked = []
    moved: dict[str, float] = {}
    for turn in range(ROUNDS):
        one = few("", sigmas, tangents=False)
        for end, i in moving.items():
            f = one.fractions[i].mean()
            size = one.shares[i].min() * blocks / LEAST / MARGIN if least is None else f / (1 - f) * (1 / least[i] - 1)
            if not 0 < size < math.inf:
                raise MeanFieldError(
                    f"No deviation of {end} is found: its branch adds {'nothing' if size == 0 else 'no number'} to "
                    "the stream, whatever it is; change the deviations that the record holds."
                )
            moved[end] = min(4.0, max(0.25, float(size) ** -0.5))
        if asked:
            ratio = float(np.exp(np.log(np.maximum(one.query_share, 1e-12)).mean()))
            moved |= dict.fromkeys(asked, min(1.5, max(0.67, ratio ** (-0.25))))
        for role, factor in moved.items():
            sigmas[role] *= factor
        if turn and all(abs(factor - 1) < 0.01 for factor in moved.values()):
            break
    settled = all(abs(factor - 1) < 0.1 for factor in moved.values())
    return follow("this one", {role: float(f"{value:.4g}") for role, value in sigmas.items()}), settled


def _skips(block: Block) -> tuple[Residual, ...]:
    def of(one: Block, inside: tuple[tuple[Residual, ...], ...]) -> tuple[Residual, ...]:
        return (*(skip for held in inside for skip in held), *((one,) if isinstance(one, Residual) else ()))

    found: tuple[Residual, ...] = fold(block, of)
    return found


def _strengths(block: Block) -> list[float]:
    return [strength_of(one) for one in _skips(block)]


def _carries(block: Block) -> bool:
    """Whether the stream keeps all that is added to it, and branches do not grow with it."""
    plain = all(m == 1 for m in _strengths(block)) and not any(part.normalizes for part in chain(block))
    return plain and all(bool(chain(one.branch)) and bool(chain(one.branch)[0].normalizes) for one in _skips(block))


def _any(block: Block, of: Callable[[Attention], bool]) -> bool:
    """Whether some Attention of a block is so."""
    return fold(block, lambda one, inside: (isinstance(one, Attention) and of(one)) or any(inside))


def quick(one: Block) -> Block:
    """The same block with few heads of infinitely many channels, by which deviations are found: their number and
    positions hardly move means."""
    if not isinstance(one, Attention):
        return one
    return replace(one, heads=min(one.heads, 4), groups=None, key_dim=None, value_dim=None, rotary=0)


def _caveats(own: BlockwiseRun, follow: Follow, context: int, width: int, settled: bool) -> list[str]:
    out = ["tokens are taken as independent where they enter; positions are part of the embeddings."]
    if follow.tokens < context:
        out.append(f"{follow.tokens} of the {context} tokens were followed; further ones attend to more.")
    if 4 * follow.tokens > width:
        out.append(
            f"{follow.tokens} tokens are not few beside width {width}: averages over softmax rows of a network miss "
            "those of infinite width by a share of the order of tokens/width."
        )
    if _any(follow.block, lambda one: one.scale == "1/d"):
        out.append(
            "scores are divided by the key dimension, so that those of independent queries and keys are about "
            "1/sqrt(key dimension): attention is nearly uniform at the start, whatever their deviations."
        )
    if own.least_share < 0.99 * LEAST:
        out.append(
            f"the least share of a branch in the last layer is {own.least_share:.2g}/L: what the stream does not carry "
            "(norms or other strengths in the way of the skips), or what the record holds, leaves no choice with more."
        )
    if not settled:
        out.append(f"the search did not settle within {ROUNDS} rounds; these numbers are where it stopped.")
    return out
