"""All of the paper's figures that need no training, with the theory's lines through networks."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from derivations.orthogonal_weights import figures as single
from derivations.orthogonal_weights import several_inputs as several
from meanfield.base import files

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def write(folder: str | os.PathLike, paper: bool = False, suffix: str = ".png") -> list[Path]:
    """All figures into `folder`; with `paper` figures 2 and 3 at the paper's sizes, which takes an hour."""
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    made: dict[str, Callable[[], Figure]] = {
        "figure1": single.figure_1,
        **{f"figure{n}": partial(single.correlators, *single.SIZES[n][paper]) for n in single.SIZES},
        **{f"figure{n}": partial(several.vertices, phi) for n, phi in several.FIGURES.items()},
        "figure13": several.figure_13,
        "figure14": single.figure_14,
    }
    return [files.save(draw(), target / f"{name}{suffix}") for name, draw in made.items()]
