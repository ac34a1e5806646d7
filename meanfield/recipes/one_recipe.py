"""A recipe as users hold it: what it describes, its report, and itself beside others."""

from __future__ import annotations

from dataclasses import dataclass

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import record, shown
from meanfield.recipes.description.described import Described
from meanfield.recipes.description.recipe_report import Comparison, Report, comparison, report_of
from meanfield.recipes.rows.catalog import row_of
from meanfield.recipes.rows.recipe_row import made


@record
@dataclass(frozen=True, eq=False, init=False, repr=False)
class Recipe(Described):
    """An initialization: an architecture, and how each kind of its matrices is drawn at given sizes.

    architecture: a `Network`, a block, or a preset's name ("gpt", "llama"); standard deviations that it holds are
    replaced. laws: by kind of matrix, the standard deviation of an entry as configuration files have it (.02), or a law
    of `meanfield.recipes` (`truncated(".02")`, `xavier_uniform()`). Kinds are the roles of the block's Dense ("query",
    "key", "value", "output", "up", "gate", "down"; "dense" elsewhere), "token" and "position" (embeddings, whose
    variances add), "token bias" (a vector that is added to all tokens alike), "head" (of a tied one its multiplier
    counts), and "bias" (of all Dense, or "query bias" of one). depth: number of blocks, as configuration
    files count them; a `Theory` counts the embeddings, too. width: neurons of the stream. context: tokens of an input.
    tied: whether the head is the token embedding, one matrix with two uses. input_norm: whether a norm stands behind
    the embeddings; final_norm: before the head.

    `network`: the record with all numbers; `report()`, `compare(...)`, `torch()`. Raises: MeanFieldError for a kind
    without a law, a law without a kind, and heads that do not divide the width.

    >>> own = Recipe("gpt", {"token": .02, "query": .02, "key": .02, "value": .02, "output": ".02/sqrt(2*L)",
    ...                      "up": .02, "down": ".02/sqrt(2*L)"}, depth=12, width=768, context=64)
    >>> own.sigmas["down"]
    0.2262741699796952
    """

    def report(self, *, tokens: object = None, draws: object = 4, seed: object = 0) -> Report:
        """What the first forward and backward pass of this recipe do, block by block; see `Report`.

        tokens: how many are followed, at most the context (the default: up to 32); draws: of all heads; seed: theirs.
        """
        return report_of(self, tokens=tokens, draws=draws, seed=seed)

    def compare(self, *others: object, tokens: object = None, draws: object = 4, seed: object = 0) -> Comparison:
        """This recipe beside others, recipes or their names (which are taken at the same depth, width and context)."""
        if not others:
            raise MeanFieldError("compare(...) was given nothing to compare with; give recipes or their names.")
        sizes = {"depth": self.depth, "width": self.width, "context": self.context}
        beside: list[Described] = [self]
        for other in others:
            if isinstance(other, Described):
                beside.append(other)
            elif isinstance(other, str):
                beside.append(made(Recipe, row_of(other), sizes))
            else:
                raise MeanFieldError(f"compare(...) takes recipes and their names, but {shown(other)} was given.")
        return comparison(beside, tokens=tokens, draws=draws, seed=seed)
