"""What the first forward and backward pass of a recipe do: its network followed block by block, and the laws in l."""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.results import Law, MeanFieldError
from meanfield.networks.attention import Attention
from meanfield.networks.folds import fold, mixing, rebuild
from meanfield.networks.records import Block
from meanfield.recipes.described import Described
from meanfield.theory.theory import Theory
from meanfield.tuning.blockwise import FOLLOWED, Followed, followed

TOKENS = 32  # that are followed unless more are asked for


def run(recipe: Described, *, tokens: int, draws: int, seed: int, shares: bool = True) -> Followed:
    """A recipe followed with drawn heads; shares: with the tangent kernel by matrices."""
    wanted = (*FOLLOWED, "Theta") if shares and not _tokens_share(recipe.network.block) else FOLLOWED
    return followed(
        recipe.name, recipe.network, recipe.sigmas, depth=recipe.depth + 1, tokens=tokens, draws=draws, seed=seed,
        quantities=wanted,
    )  # fmt: skip


def _tokens_share(block: Block) -> bool:
    """Whether a Dense acts on tokens, whose share of the tangent kernel is not followed."""
    return fold(block, lambda one, inside: getattr(one, "axis", "neurons") == "tokens" or any(inside))


def laws(recipe: Described, tokens: int) -> tuple[tuple[str, str], ...]:
    """K, c and log J of deep networks with these deviations in every block, as (name, law): of tokens without a mask
    or positions; () where there is no law."""
    network = recipe.network
    plain = rebuild(network.block, _plain)
    more = {"tokens": tokens} if "tokens" in mixing(plain) else {}
    if fold(plain, lambda one, inside: (isinstance(one, Attention) and one.qk_norm) or any(inside)):
        return ()
    found, theory = [], Theory(plain, network.first)
    for quantity in ("K", "c", "J"):
        try:
            law = theory.depth_law(quantity, **more)
        except MeanFieldError:
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
    parts = []
    for term in law.terms:
        one = term.expr(law.variable)
        parts.append(one.xreplace({n: sp.Float(n, 3) for n in one.atoms(sp.Rational) if not n.is_Integer}).evalf(3))
    text = " + ".join("1" if one == 1 else sp.sstr(one) for one in parts).replace("+ -", "- ")
    return f"{text} + smaller order" if law.remainder != "zero" else text

