"""What a report says in words: what is critical, what is switched off, what drowns. Each sentence has its rule here."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from meanfield.networks.folds import chain, fold, holds_activation, mixing
from meanfield.recipes.description.described import Described
from meanfield.recipes.description.first_passes import drawn_heads
from meanfield.tuning.function_gains.gains import gains
from meanfield.tuning.recommendation.blockwise import BlockwiseRun

NEAR = 1.0  # |log| up to which a size counts as kept
FIRST = 2.0  # growth in the first block from which on embeddings are said to drown
UNIFORM = 0.99  # entropy over log T from which on attention is said to be uniform
SILENT = 0.05  # of 1/L: the share of the last layer below which a branch is said to be silent
OFF = 1e-4  # of the stream: below it a branch is said to be switched off
ALIKE = 0.9  # correlation of tokens from which on they are said to be alike


def assumed(recipe: Described, tokens: int) -> str:
    """The first line of a report: what it assumes of the input."""
    if not mixing(recipe.network.block):
        return "assumes inputs of the size that its first layer makes"
    what = "behind a norm" if recipe.input_norm else "positions added" if "position" in recipe.laws else "tokens alone"
    what += ", with a part common to all" if "token bias" in recipe.laws else ""
    return f"assumes independent tokens, the recipe's embeddings ({what}); {tokens} of {recipe.context} tokens followed"


def findings(recipe: Described, f: BlockwiseRun, tokens: int) -> tuple[str, ...]:
    """The sentences of a report."""
    out = [_stream(f), _jacobian(f)]
    if recipe.heads is not None and f.c[-1] > ALIKE and f.c[0] < 0.5:
        out.append(f"tokens become alike (correlation {f.c[-1]:.3g} at the end): attention has little to choose from.")
    out += _attention(recipe, f, tokens) + _branches(recipe, f) + _gates(recipe) + _head(recipe, f)
    return (*out, _width(recipe, f, tokens))


def _stream(f: BlockwiseRun) -> str:
    first, kept = f.K[1] / f.K[0], 1 - float(f.shares.sum())
    if not f.shares.size:
        return f"K changes by a factor of {f.growth:.3g} from the first layer to the last."
    if first > FIRST:
        return (
            f"the embeddings drown: K grows {first:.3g}-fold in the first block and {f.growth:.4g}-fold in all; "
            f"{_percent(kept)} of the last layer's variance is theirs."
        )
    how = f"grows {f.growth:.4g}-fold" if f.growth > 1.005 else f"falls to {f.growth:.3g} of its size"
    how = "keeps its size" if abs(f.growth - 1) <= 0.005 else how
    return f"K {how}; {_percent(kept)} of the last layer's variance is that of the embeddings."


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if share > 0.1 else f"{100 * share:.2g} %"


def _jacobian(f: BlockwiseRun) -> str:
    J = float(f.log_J[-1])
    blocks = len(f.log_J) - 1
    if math.isnan(J):
        return "J is not known."
    if abs(J) <= NEAR:
        return f"gradients keep their size through the blocks: J = {math.exp(J):.3g}."
    verb = "grow" if J > 0 else "shrink"
    return f"squared gradients {verb} by e^{J:.3g} towards the input, e^{J / blocks:.2g} a block in the mean."


def _masked(recipe: Described) -> bool:
    return fold(recipe.network.block, lambda one, inside: getattr(one, "causal", False) or any(inside))


def _uniform_entropy(tokens: int) -> float:
    """The entropy of equal weights under a mask over log T, in the mean over tokens."""
    return sum(math.log(t) for t in range(1, tokens + 1)) / (tokens * math.log(tokens))


def _attention(recipe: Described, f: BlockwiseRun, tokens: int) -> list[str]:
    if not np.isfinite(f.entropy).any():
        return []
    if recipe.sigmas.get("query") == 0 or recipe.sigmas.get("key") == 0:
        return ["queries or keys are drawn as 0: attention is uniform at the start, and the other one is at rest."]
    if not np.isfinite(f.query_share).any():
        return ["values or outputs are drawn as 0: attention adds nothing at the start."]
    uniform = _uniform_entropy(tokens) if _masked(recipe) else 1.0
    low, share = float(np.nanmin(f.entropy)) / uniform, float(np.nanmean(f.query_share))
    out = []
    if low > UNIFORM and share < 0.1:
        out.append(
            f"attention is uniform in every block (at least {100 * low:.3g} % of the entropy of equal weights, scores "
            f"deviate by {np.nanmax(f.scores):.2g}): queries and keys are nearly off, Θ_Q/Θ_V = {share:.2g} in the "
            "mean over blocks."
        )
    elif share < 0.1:
        out.append(f"queries and keys hardly learn beside the values: Θ_Q/Θ_V = {share:.2g} in the mean over blocks.")
    return out


def _branches(recipe: Described, f: BlockwiseRun) -> list[str]:
    if not f.shares.size:
        return []
    off = [i + 1 for i, row in enumerate(f.fractions) if row.max() < OFF]
    if off:
        which, verb = " and ".join(map(str, off)), "are" if len(off) > 1 else "is"
        return [f"branch {which} of a block {verb} switched off: less than {OFF:g} of the stream in every block."]
    least = f.least_share
    i, block = np.unravel_index(int(f.shares.argmin()), f.shares.shape)
    if least < SILENT:
        return [f"branch {i + 1} of block {block + 1} is nearly silent: {least:.2g}/L of the last layer's variance."]
    return []


def _gates(recipe: Described) -> list[str]:
    if recipe.sigmas.get("gate", 1.0) < 1e-3:
        return ["the gate's matrix is about 0, so that nothing is gated at the start."]
    return []


def _head(recipe: Described, f: BlockwiseRun) -> list[str]:
    law = recipe.laws.get("head")
    if recipe.tied:  # the stored matrix, and what the head multiplies by: what multiplies embeddings is not the head's
        stored = recipe.laws["token"]
        law = replace(stored, multiplier="1" if law is None else law.multiplier)
    if law is None:
        return []
    size = law.true_deviation(recipe.sizes("head"))
    logits = size * math.sqrt(recipe.width) * (1.0 if recipe.final_norm else math.sqrt(_read(recipe, float(f.K[-1]))))
    if not recipe.tied:
        return [f"the head makes logits of deviation {logits:.3g}."]
    said = f"the tied head, one matrix with the embeddings, makes logits of deviation {logits:.3g}"
    if not f.shares.size or recipe.input_norm:
        return [f"{said}."]
    own = (1 - float(f.shares.sum())) * (recipe.deviation("token") / recipe.sigmas["input"]) ** 2
    return [f"{said}; that of a token's own place is {math.sqrt(max(0.0, own) * recipe.width):.2g} deviations higher."]


def _read(recipe: Described, K: float) -> float:
    """The second moment of what a head without a norm reads: of φ(z) where blocks begin with φ."""
    first = chain(recipe.network.block)[0]
    if not holds_activation(first):
        return K
    held = gains(first.activation, repr(K)).second_moment  # type: ignore[attr-defined]
    return float(held.value)


def _width(recipe: Described, f: BlockwiseRun, tokens: int) -> str:
    parts = []
    if recipe.heads is not None and f.spread.get("K", 0.0) > 1e-9 * f.K[-1]:
        fewer = math.sqrt(drawn_heads(recipe) / recipe.heads)
        share, log_J = 100 * fewer * f.spread["K"] / f.K[-1], fewer * f.spread.get("log_J", 0.0)
        parts.append(f"heads ({recipe.heads}) scatter K_L by {share:.2g} % and log J by {log_J:.2g}")
    ratio, blocks = recipe.context / recipe.width, recipe.depth / recipe.width
    if recipe.heads is not None:
        missed = f"misses shares of the order {ratio:.2g} (tokens/width)"
        said = missed if ratio < 0.5 else f"is not that of infinite width at width {recipe.width}"
        parts.append(f"the softmax over {recipe.context} tokens {said}")
    parts.append(f"fluctuations between networks are of the order {blocks:.2g} (blocks/width)")
    return "finite width: " + "; ".join(parts) + "."
