"""`recommend` for networks with attention: deviations by kind of matrix, followed block by block with drawn heads."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from meanfield.base.arrays import Arrays
from meanfield.base.export import Result, plain
from meanfield.base.printed import wrapped
from meanfield.base.results import MeanFieldError, one_line
from meanfield.networks.attention import Attention
from meanfield.networks.folds import chain, fold, holds_activation, rebuild, with_dense
from meanfield.networks.records import Block, Constant, Dense, Network, Param, Residual, Schedule
from meanfield.symbolic.blocks.naming import describe
from meanfield.theory.theory import Theory
from meanfield.tuning import snippets
from meanfield.tuning.answer import Layer
from meanfield.tuning.records import kinds

FOLLOWED = ("K", "K_ab", "J", "branch", "entropy", "query_share")
LEAST = 0.25  # of 1/L: the least share of a branch in the variance of the last layer
MARGIN = 1.05
ROUNDS = 12
DRAWS = 4  # of the heads of all blocks
MOST_TOKENS = 256  # that are followed; of longer contexts the first ones
_GPT2 = 0.02


@dataclass(frozen=True)
class Followed:
    """One choice of deviations, followed through the blocks: arrays over the layers (K, c, log J) and over the blocks
    (entropy of the scores over log T, query_share Θ_Q/Θ_V of what a block adds, shares of the branches in the variance
    of the last layer, fractions of them where they are added), means over draws of the heads."""

    name: str
    sigmas: Mapping[str, float]
    K: np.ndarray = field(repr=False)
    c: np.ndarray = field(repr=False)
    log_J: np.ndarray = field(repr=False)
    entropy: np.ndarray = field(repr=False)
    query_share: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    fractions: np.ndarray = field(repr=False)

    @property
    def growth(self) -> float:
        """K of the last layer over that of the first."""
        return float(self.K[-1] / self.K[0])

    @property
    def least_share(self) -> float:
        """The smallest share of a branch, in units of 1/L."""
        return float(self.shares.min() * self.shares.shape[1])


@dataclass(frozen=True)
class TransformerRecommendation(Result):
    """Standard deviations for a network with attention, and what its first passes do; see `recommend`.

    layers: a row for the embeddings ("input") and for each matrix of a block, by its role; followed: this choice;
    recipes: GPT-2's and PyTorch's, followed alike; tokens: how many were followed; network: the record with these
    numbers, for `derive` (which then takes no deviations).

    >>> found = recommend("gpt", depth=5, width=96, heads=8, context=8, seed=1)
    >>> [one.key for one in found.layers]
    ['input', 'query', 'key', 'value', 'output', 'dense1', 'dense2']
    >>> found.followed.growth < 3 < found.recipes[0].growth
    True
    """

    what: str
    depth: int
    width: int
    heads: int
    context: int
    tokens: int
    draws: int
    layers: tuple[Layer, ...]
    followed: Followed
    recipes: tuple[Followed, ...]
    network: Network = field(repr=False)
    caveats: tuple[str, ...] = ()

    @property
    def sigmas(self) -> dict[str, tuple[float, float]]:
        """(σ_w, σ_b) of every kind of matrix by its role."""
        return {one.key: (one.sigma_w, one.sigma_b) for one in self.layers}

    def torch(self) -> str:
        """Code for PyTorch: `init_` draws a Linear of one kind, `init_network_` all Linears of a network in order."""
        return snippets.torch(self.sigmas, None, self.what, self.layers[0].sigma_w ** 2, self.depth)

    def numbers(self) -> str:
        """Plain numbers: std of weights and biases for each kind of matrix."""
        return snippets.numbers(self.layers, None)

    def data(self) -> dict[str, Any]:
        """All of it as plain numbers, text and lists (JSON)."""
        own = ("what", "depth", "width", "heads", "context", "tokens", "draws")
        found = {name: getattr(self, name) for name in own} | {"caveats": list(self.caveats)}
        rows = [plain(one.__dict__) | {"weight_std": one.weight_std} for one in self.layers]
        both = {n: [_plain(one) for one in held] for n, held in (("recipes", self.recipes), ("own", (self.followed,)))}
        return found | {"layers": rows, "followed": both["own"][0], "recipes": both["recipes"]} | {
            "record": repr(self.network)
        }

    def arrays(self) -> Arrays:
        """K, c, log J, and of the block that made a layer the entropy, Θ_Q/Θ_V and the shares of its branches."""
        one, layers = self.followed, np.arange(1, self.depth + 1)
        columns: dict[str, Any] = {n: (("layer",), getattr(one, n)) for n in ("K", "c", "log_J")}
        blocks = {"entropy": one.entropy, "query_share": one.query_share}
        blocks |= {f"share_{i + 1}": row for i, row in enumerate(one.shares)}
        columns |= {n: (("layer",), np.concatenate([[np.nan], row])) for n, row in blocks.items()}
        return Arrays({"layer": (("layer",), layers)}, columns, {"tokens": self.tokens, "draws": self.draws})

    def __repr__(self) -> str:
        each = ", ".join(f"{one.key}: {one.sigma_w:.4g}" for one in self.layers)
        return one_line("TransformerRecommendation", f"{self.what}; {each}")

    def __str__(self) -> str:
        return wrapped("\n".join(_screen(self)))


def _plain(one: Followed) -> dict[str, Any]:
    return {name: plain(value) for name, value in one.__dict__.items()} | {
        "growth": one.growth, "least_share": one.least_share,
    }  # fmt: skip


def _screen(r: TransformerRecommendation) -> list[str]:
    out = [f"{r.what}", f"{r.depth - 1} blocks, width {r.width}, {r.heads} heads, {r.context} tokens", ""]
    out.append(f"  {'matrix':<10}{'sigma_w':>12}{'fan_in':>10}{'weight std':>14}")
    for one in r.layers:
        std = one.sigma_w if one.weight_std is None else one.weight_std
        fan = "-" if one.fan_in is None else f"{one.fan_in:g}"
        out.append(f"  {one.key:<10}{one.sigma_w:>12.6g}{fan:>10}{std:>14.6g}")
    out += ["", "  biases 0; std of an embedding is that of the sum of all that are added", ""]
    f, last = r.followed, r.depth - 1
    out.append(f"  {'layer':<7}{'K/K_1':>9}{'c':>9}{'log J':>9}{'entropy':>9}{'Q/V':>9}{'shares of 1/L':>18}")
    for block in sorted({0, 1, last // 2, last - 1} & set(range(last))):
        shares = ", ".join(f"{s * last:.2f}" for s in f.shares[:, block])
        out.append(
            f"  {block + 2:<7}{f.K[block + 1] / f.K[0]:>9.4g}{f.c[block + 1]:>9.3g}{f.log_J[block + 1]:>9.3g}"
            f"{f.entropy[block]:>9.3g}{f.query_share[block]:>9.3g}{shares:>18}"
        )
    out += ["", f"  {'':<12}{'K_L/K_1':>10}{'c':>9}{'log J':>9}{'Q/V':>20}{'least share':>13}"]
    for each in (*r.recipes, f):
        ends = f"{each.query_share.min():.2g} to {each.query_share.max():.2g}"
        own = f"{each.growth:>10.4g}{each.c[-1]:>9.3g}{each.log_J[-1]:>9.3g}{ends:>20}{each.least_share:>13.2g}"
        out.append(f"  {each.name:<12}{own}")
    return out + [""] + [f"  note: {one}" for one in r.caveats]


def recommend_transformer(
    block: Block, *, depth: int, width: int, context: int, draws: int, input_norm: float, seed: int
) -> TransformerRecommendation:
    """`recommend` for a block with attention."""
    roles = _roles(block)

    def most(one: Block, inside: tuple[int, ...]) -> int:
        return max((one.heads if isinstance(one, Attention) else 0, *inside))

    heads = fold(block, most)
    if width % heads:
        raise MeanFieldError(
            f"The heads of an Attention divide its width, but {heads} heads of {width} neurons were asked for."
        )
    tokens, free = min(context, MOST_TOKENS), _open(block, roles)
    sized = _sized(block, width, heads)
    follow = _Follow(sized, roles, depth, tokens, draws, input_norm, seed)
    fans = dict(zip(roles, (float(one.fan or 1) * width for one in kinds(block))))
    own = _chosen(follow, free)
    common = {
        "GPT-2": {r: _GPT2 * math.sqrt(fan) for r, fan in fans.items()},
        "PyTorch": dict.fromkeys(fans, 1 / math.sqrt(3)) | {"input": 1.0},
    }
    common["GPT-2"] |= {r: common["GPT-2"][r] / math.sqrt(2 * (depth - 1)) for r in follow.ends}
    common["GPT-2"]["input"] = math.hypot(_GPT2, _GPT2 / 2)
    recipes = tuple(follow(name, one | _held(block, roles)) for name, one in common.items())
    layers = [Layer("input", "neurons", None, own.sigmas["input"], 0.0)]
    layers += [Layer(r, "neurons", fans[r], own.sigmas[r], 0.0) for r in roles]
    return TransformerRecommendation(
        describe(block), depth, width, heads, context, tokens, draws, tuple(layers), own, recipes,
        Network(_with(block, roles, own.sigmas), Dense(sigma_w=_exact(own.sigmas["input"]), sigma_b=0)),
        tuple(_caveats(own, follow, context, width)),
    )  # fmt: skip


def _roles(block: Block) -> tuple[str, ...]:
    """What each Dense of a block is, in the order they are met."""
    found: list[str] = []

    def of(one: Block, inside: tuple[None, ...]) -> None:
        if isinstance(one, Attention):
            found[-3:] = ["query", "key", "value"]
        elif one.inner() and holds_activation(one):  # a gate
            found[-2:] = ["up", "gate"]
        elif isinstance(one, Dense):
            found.append("output" if found and found[-1] == "value" and "output" not in found else "dense")

    fold(block, of)
    counts = {one: found.count(one) for one in found}
    seen: dict[str, int] = {}
    out = []
    for one in found:
        seen[one] = seen.get(one, 0) + 1
        out.append(one if counts[one] == 1 else f"{one}{seen[one]}")
    return tuple(out)


def _open(block: Block, roles: tuple[str, ...]) -> set[str]:
    """The roles whose deviation is left to be chosen: a symbol, or a schedule of one."""
    found = set()

    def seen(at: int, one: Dense) -> Dense:
        held = one.sigma_w.value if isinstance(one.sigma_w, Schedule) else one.sigma_w
        if isinstance(held, Param):
            found.add(roles[at])
        return one

    with_dense(block, seen)
    return found


def _held(block: Block, roles: tuple[str, ...]) -> dict[str, float]:
    """The deviations that the record says."""
    found = {}

    def seen(at: int, one: Dense) -> Dense:
        if not isinstance(one.sigma_w, Param | Schedule):
            found[roles[at]] = float(one.sigma_w)
        return one

    with_dense(block, seen)
    return found


def _with(block: Block, roles: tuple[str, ...], sigmas: Mapping[str, float]) -> Block:
    """The record with numbers."""
    return with_dense(block, lambda at, one: replace(one, sigma_w=_exact(sigmas[roles[at]]), sigma_b=0))


def _exact(value: float) -> Constant:
    return Constant(repr(float(value)))


def _sized(block: Block, width: int, heads: int) -> Block:
    """The record whose heads have the dimensions that this width gives them."""

    def put(one: Block) -> Block:
        if not isinstance(one, Attention) or one.key_dim is not None:
            return one
        return replace(one, key_dim=width // one.heads)

    return rebuild(block, put)


@dataclass(frozen=True)
class _Follow:
    """Follows deviations by role through the blocks. ends: the roles of the Dense that a branch ends in."""

    block: Block
    roles: tuple[str, ...]
    depth: int
    tokens: int
    draws: int
    input_norm: float
    seed: int

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(role for role, kind in zip(self.roles, kinds(self.block)) if kind.ends)

    def __call__(self, name: str, sigmas: Mapping[str, float], tangents: bool = True) -> Followed:
        theory = Theory(_with(self.block, self.roles, sigmas), Dense(sigma_w=_exact(sigmas["input"]), sigma_b=0))
        wanted = FOLLOWED if tangents else tuple(n for n in FOLLOWED if n != "J")
        run = theory.sample(
            depth=self.depth, tokens=self.tokens, draws=self.draws, seed=self.seed,
            input_norm=self.input_norm, quantities=wanted,
        )  # fmt: skip
        mean = {n: run.estimate(n).mean for n in run.samples}
        K = mean["K"]
        log_J = mean.get("log_J", np.full(len(K), np.nan))
        branches = np.stack([mean[n] for n in sorted(n for n in mean if n.startswith("branch["))])
        return Followed(
            name, dict(sigmas), K, mean["K_ab"] / K, log_J, mean["entropy[1]"], mean["query_share[1]"],
            *_shares(self.block, K, branches),
        )  # fmt: skip


def _shares(block: Block, K: np.ndarray, branches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of every branch of every block in the variance of the last layer, and the fraction that it is where it
    is added, each (branches, blocks).

    A branch that adds b to a stream of variance μ²K is the fraction b/(μ²K + b) of it, and every later one leaves 1 −
    (its own fraction) of what was there; a norm in the way of the skip makes K = 1 and moves no share.
    """
    parts, fractions = chain(block), np.empty_like(branches)
    for at in range(branches.shape[1]):
        here, place = float(K[at]), 0
        for part in parts:
            if isinstance(part, Residual):
                kept = here * float(part.mu) ** 2 if not isinstance(part.mu, Param) else here
                fractions[place, at] = branches[place, at] / (kept + branches[place, at])
                here, place = kept + branches[place, at], place + 1
            elif part.normalizes:
                here = 1.0
    flat = fractions.T.ravel()
    later = np.append(np.cumprod((1 - flat)[::-1])[::-1][1:], 1.0)
    return (flat * later).reshape(-1, len(branches)).T, fractions


def _chosen(follow: _Follow, free: set[str]) -> Followed:
    """The ends of the branches so that the least share of each is 1/(4L), queries and keys so that Θ_Q/Θ_V is 1 in the
    geometric mean over the blocks; all else has deviation 1. Where norms stand in the way of the skips no choice gives
    every branch 1/(4L): there each of n branches a block is the fraction 1/(nL) of what it is added to, which makes the
    first one's share largest."""
    sigmas = dict.fromkeys(("input", *follow.roles), 1.0) | _held(follow.block, follow.roles)
    blocks, moving = follow.depth - 1, set(follow.ends) & free
    for end in moving:
        sigmas[end] = 1 / math.sqrt(blocks)
    quick = replace(follow, block=rebuild(follow.block, _quick), draws=2)
    normed = any(part.normalizes for part in chain(follow.block))
    asked = [role for role in ("query", "key") if role in free]
    for turn in range(ROUNDS):
        one = quick("", sigmas, tangents=False)
        size = one.fractions.mean(axis=1) * len(one.fractions) if normed else one.shares.min(axis=1) / LEAST / MARGIN
        moved = {end: float(size[i] * blocks) ** -0.5 for i, end in enumerate(follow.ends) if end in moving}
        if asked:
            ratio = float(np.exp(np.log(np.maximum(one.query_share, 1e-12)).mean()))
            moved |= dict.fromkeys(asked, min(1.5, max(0.67, ratio ** (-0.5 / (2 * len(asked))))))
        for role, factor in moved.items():
            sigmas[role] *= min(4.0, max(0.25, factor))
        if turn and all(abs(factor - 1) < 0.01 for factor in moved.values()):
            break
    return follow("this one", {role: float(f"{value:.4g}") for role, value in sigmas.items()})


def _quick(one: Block) -> Block:
    """The same block with few heads of infinitely many channels, by which deviations are found: their number and
    positions hardly move means."""
    if not isinstance(one, Attention):
        return one
    return replace(one, heads=min(one.heads, 4), groups=None, key_dim=None, value_dim=None, rotary=0)


def _caveats(own: Followed, follow: _Follow, context: int, width: int) -> list[str]:
    out = ["tokens are taken as independent where they enter; positions are part of the embeddings."]
    if follow.tokens < context:
        out.append(f"{follow.tokens} of the {context} tokens were followed; further ones attend to more.")
    if 4 * follow.tokens > width:
        out.append(
            f"{follow.tokens} tokens are not few beside width {width}: averages over softmax rows of a network miss "
            "those of infinite width by a share of the order of tokens/width."
        )
    if fold(follow.block, lambda one, inside: isinstance(one, Attention) and one.scale == "1/d" or any(inside)):
        out.append(
            "scores are divided by the key dimension, so that those of independent queries and keys are about "
            "1/sqrt(key dimension): attention is nearly uniform at the start, whatever their deviations."
        )
    if own.least_share < LEAST:
        out.append(
            f"the least share of a branch in the last layer is {own.least_share:.2g}/L: norms in the way of the skips "
            "leave no choice with more, or the record says the deviation."
        )
    return out
