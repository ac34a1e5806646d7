"""Public recipes as data, and one of them at given sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from meanfield.base.arguments import whole
from meanfield.recipes.description.described import Described
from meanfield.recipes.description.matrix_laws import law_of

R = TypeVar("R", bound=Described)


@dataclass(frozen=True)
class RecipeRow:
    """A public recipe: the architecture as a function of its sizes, the laws of its matrices, and where it was read.

    make: from (depth, width, heads, hidden, groups, context) to a network whose deviations are open; laws: by kind of
    matrix; sizes: those of a usual model; more: what a `Recipe` is told beside (tied, input_norm, final_norm); notes:
    what it has that the record does not; source: repository, file and lines; std: the letter s of the laws, the number
    that configurations hold (initializer_range).
    """

    name: str
    make: Callable[..., Any]
    laws: Mapping[str, object]
    sizes: Mapping[str, Any]
    source: str
    more: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    std: str = ".02"


def made(kind: type[R], row: RecipeRow, given: Mapping[str, Any], **more: Any) -> R:
    """A row at sizes, as a `kind`; more: what differs from it (laws, tied, notes, name)."""
    whole_ = {k: whole(v, f"The {k} of a recipe", 1, 1 << 40) for k, v in given.items() if k != "std"}
    given = dict(given) | whole_
    sizes = dict(row.sizes) | given
    usual = row.sizes
    if "width" in given and sizes["width"] != usual["width"]:
        if "heads" in usual and "heads" not in given:
            sizes["heads"] = _heads(int(sizes["width"]), usual["width"] // usual["heads"])
        if "hidden" in usual and "hidden" not in given:
            sizes["hidden"] = round(sizes["width"] * usual["hidden"] / usual["width"])
    if "groups" not in given and sizes.get("heads") != usual.get("heads"):
        sizes["groups"] = _groups(int(sizes["heads"]), usual) if "heads" in usual else None
    shape = {k: sizes.get(k) for k in ("depth", "width", "heads", "hidden", "groups", "context")}
    own = dict(row.more) | {"name": row.name, "source": row.source, "notes": row.notes} | more
    base = str(sizes.get("std", row.std))
    laws = {kind: law_of(law, kind).based_on(base) for kind, law in own.pop("laws", row.laws).items()}
    return kind(
        row.make(**{k: v for k, v in shape.items() if v is not None}), laws, depth=sizes["depth"],
        width=sizes["width"], context=sizes["context"], vocabulary=sizes.get("vocabulary"), **own,
    )  # fmt: skip


def _heads(width: int, size: int) -> int:
    """How many heads of this dimension a width has; the nearest number that divides it."""
    wanted = max(1, round(width / size))
    return min((n for n in range(1, width + 1) if width % n == 0), key=lambda n: abs(n - wanted))


def _groups(heads: int, usual: Mapping[str, Any]) -> int | None:
    """As many heads of queries to one of keys as a usual model has, where that divides them."""
    shared = usual["heads"] // usual["groups"] if "groups" in usual else 1
    return heads // shared if shared > 1 and heads % shared == 0 else None
