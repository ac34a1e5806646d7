"""Public recipes by name."""

from __future__ import annotations

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import shown
from meanfield.base.words import unknown
from meanfield.recipes.rows import language, libraries, open_models, schemes, vision
from meanfield.recipes.rows.recipe_row import RecipeRow

_ROOMS = (language, open_models, vision, schemes, libraries)
_ROWS = {one.name: one for room in _ROOMS for one in room.ROWS}


def names() -> tuple[str, ...]:
    """The names that `recipe` knows.

    >>> {"gpt2", "llama", "bert", "vit", "t5", "deepnorm", "pytorch"} <= set(names())
    True
    """
    return tuple(_ROWS)


def row_of(name: str) -> RecipeRow:
    """A public recipe as it is written."""
    if not isinstance(name, str):
        raise MeanFieldError(f"A recipe is asked for by its name, but {shown(name)} was given.")
    if name not in _ROWS:
        raise unknown("recipe", name, tuple(_ROWS))
    return _ROWS[name]
