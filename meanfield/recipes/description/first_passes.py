"""What the first forward and backward pass of a recipe do: its network followed block by block, and the laws in l."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.attention import Attention
from meanfield.networks.folds import dense_of, fold, mixing, rebuild
from meanfield.networks.records import Block, Network
from meanfield.recipes.description.described import Described
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.theory.queries.stored_answers import answered
from meanfield.theory.theory import Theory
from meanfield.tuning.recommendation.blockwise import FOLLOWED, BlockwiseRun, followed
from meanfield.tuning.recommendation.token_networks import quick

TOKENS, TURNED_TOKENS = 32, 16  # that are followed unless more are asked for; where heads are turned or normed
HEADS = 4  # of a layer that are drawn: means do not feel how many there are


def run(recipe: Described, *, tokens: int, draws: int, seed: int, rough: bool = False) -> BlockwiseRun:
    """A recipe followed with drawn heads; rough: without the tangent kernel by matrices, and with heads of infinitely
    many channels that no position turns, by which recipes are told apart."""
    wanted = FOLLOWED if rough or _tokens_share(recipe.network.block) else (*FOLLOWED, "Theta")
    few = Network(rebuild(recipe.network.block, quick if rough else _few), recipe.network.first)

    def make() -> BlockwiseRun:
        return followed(
            recipe.name, few, recipe.sigmas, depth=recipe.depth + 1, tokens=tokens, draws=draws, seed=seed,
            quantities=wanted,
        )  # fmt: skip

    if rough:
        return make()
    found = answered("recipe", recipe.theory, (recipe.depth, tokens, draws, seed), {}, make)
    return replace(found, name=recipe.name, sigmas=recipe.sigmas)


def usual_tokens(recipe: Described) -> int:
    """How many tokens are followed unless more are asked for."""
    turned = fold(recipe.network.block, lambda one, inside: _is_turned(one) or any(inside))
    return min(TURNED_TOKENS if turned else TOKENS, recipe.context)


def drawn_heads(recipe: Described) -> int:
    """How many heads of a layer are drawn."""
    return min(HEADS, recipe.heads or HEADS)


def _is_turned(one: Block) -> bool:
    return isinstance(one, Attention) and bool(one.rotary or one.qk_norm)


def _few(one: Block) -> Block:
    """Attention of at most HEADS heads, whose keys are shared by as many as they are, where that divides."""
    if not isinstance(one, Attention) or one.heads <= HEADS:
        return one
    shared = one.heads // one.key_heads
    return replace(one, heads=HEADS, groups=max(1, HEADS // shared) if HEADS % min(shared, HEADS) == 0 else None)


def _tokens_share(block: Block) -> bool:
    """Whether a Dense acts on tokens, whose share of the tangent kernel is not followed."""
    return any(one.mixes == "tokens" for one in dense_of(block))


def laws(recipe: Described, tokens: int) -> tuple[tuple[str, str], ...]:
    """K, c and log J of deep networks with these deviations in every block, as (name, law): of tokens without a mask
    or positions; () where there is no law."""
    network = recipe.network
    plain = rebuild(network.block, _plain)
    more: dict[str, Any] = {"tokens": tokens} if "tokens" in mixing(plain) else {}
    if fold(plain, lambda one, inside: (isinstance(one, Attention) and one.qk_norm) or any(inside)):
        return ()
    found, theory = [], Theory(plain, network.first)
    for quantity in ("K", "c", "J"):
        try:
            law = theory.depth_law(quantity, **more)
        except MeanFieldError as error:
            if quantity == "c":  # why there is none says where tokens go
                reason = str(error).partition("not available: ")[2].partition(" (")[0].partition(", and")[0]
                found += [("c", f"no law, as {reason.rstrip('.')}")] if reason else []
            continue
        if isinstance(law, Law) and law.terms:
            found.append(("log J" if quantity == "J" else quantity, _text(law)))
    return tuple(found)


def _plain(one: Block) -> Block:
    """Attention as the averaged theory has it: no mask, no positions, many heads of many channels."""
    if not isinstance(one, Attention):
        return one
    return replace(one, causal=False, rotary=0, groups=None, key_dim=None, value_dim=None)


def _text(law: Law) -> str:
    text = " + ".join(sp.sstr(_short(term.expr(law.variable))) for term in law.terms).replace("+ -", "- ")
    return f"{text} + smaller order" if law.remainder != "zero" else text


def _short(e: sp.Expr) -> sp.Expr:
    """An expression whose numbers have three digits."""
    if e.is_number:
        value = float(e)
        return sp.Integer(int(value)) if value.is_integer() and abs(value) < 1e6 else sp.Float(value, 3)
    return e.func(*map(_short, e.args)) if e.args else e
