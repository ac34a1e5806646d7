"""The table of docs/recipes.md: what each public recipe draws, and what its first passes do at one size.

python -m derivations.recipes page  prints it (minutes)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import meanfield as mf
from meanfield.recipes import Law, Recipe

SIZE = {"depth": 12, "width": 768, "context": 32}
KINDS = {"embeddings": ("token", "position"), "q, k": ("query", "key"), "v": ("value",), "output": ("output",),
         "up, gate": ("up", "gate", "dense"), "down": ("down",)}  # fmt: skip


def law(one: Law) -> str:
    """A law in a cell: its parameter, U for uniform on ±, T for truncated, O for orthogonal."""
    mark = {"normal": "", "uniform": "U ", "truncated": "T ", "orthogonal": "O "}[one.shape]
    mark = "" if one.absolute else mark  # cut at ±2, a hundred deviations
    return f"{mark}{one.deviation}" + ("" if one.multiplier == "1" else f" × {one.multiplier}")


def cell(recipe: Recipe, kinds: tuple[str, ...]) -> str:
    """The laws of some kinds, each once."""
    return ", ".join(dict.fromkeys(law(recipe.laws[kind]) for kind in kinds if kind in recipe.laws)) or "-"


def numbers(recipe: Recipe) -> tuple[str, ...]:
    """K_L/K_1, log J, c and the mean Θ_Q/Θ_V, "-" for what there is not."""
    f = recipe.report().followed
    share = f"{np.nanmean(f.query_share):.2g}" if np.isfinite(f.query_share).any() else "-"
    c = f"{f.c[-1]:.2g}" if recipe.heads else "-"
    return f"{f.growth:.3g}", f"{f.log_J[-1]:.2g}", c, share


def row(name: str) -> str:
    """One line of the table."""
    recipe = mf.recipe(name, **SIZE)
    cells = [f"`{name}`", *(cell(recipe, kinds) for kinds in KINDS.values()), *numbers(recipe)]
    return f"| {' | '.join(cells)} |"


def lines() -> Iterator[str]:
    """The whole table, in Markdown."""
    head = ("recipe", *KINDS, "K_L/K_1", "log J", "c", "Θ_Q/Θ_V")
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for name in mf.recipes.names():
        yield row(name)
