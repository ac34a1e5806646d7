"""A public recipe, asked for by its name."""

from __future__ import annotations

from meanfield.base.arguments import validated
from meanfield.base.errors import MeanFieldError
from meanfield.recipes.description.matrix_laws import law_of
from meanfield.recipes.one_recipe import Recipe
from meanfield.recipes.rows.catalog import row_of
from meanfield.recipes.rows.recipe_row import made


@validated
def recipe(
    name: str, *, depth: object = None, width: object = None, heads: object = None, hidden: object = None,
    groups: object = None, context: object = None, vocabulary: object = None, std: object = None,
) -> Recipe:  # fmt: skip
    """A public initialization at given sizes; `recipes.names()` lists them.

    depth: blocks, as configuration files count them. width: neurons of the stream. heads; hidden: neurons of the
    feed-forward branch; groups: heads of keys and values; context: tokens; vocabulary; std: the deviation that
    configuration files hold (initializer_range, .02 unless given). What is left out is that of a usual model; of the
    heads, as many as keep their dimension (64, or that of the model). Sizes are those of any recipe: what a network
    does not have (heads of a Mixer) is not used. Returns a `Recipe`.

    Raises: MeanFieldError for an unknown name, for sizes that do not fit, and for std where no law is based on it.
    Source: each row's `source`.

    >>> recipe("gpt2", depth=48, width=1600, context=1024)
    Recipe('gpt2', depth=48, width=1600)
    """
    row = row_of(name)
    given = {"depth": depth, "width": width, "heads": heads, "hidden": hidden, "groups": groups, "context": context,
             "vocabulary": vocabulary, "std": std}  # fmt: skip
    if std is not None and not any(law_of(law, kind).holds("s") for kind, law in row.laws.items()):
        raise MeanFieldError(
            f"std= was given for {name}, where it changes nothing: no law of its matrices is based on it; leave it out."
        )
    return made(Recipe, row, {k: v for k, v in given.items() if v is not None})
