"""All of the paper's figures that need no training, with the theory's lines through networks."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from derivations.drawing import Drawn, write_all
from derivations.orthogonal_weights import figures as single
from derivations.orthogonal_weights import several_inputs as several


def drawn(paper: bool = False) -> Drawn:
    """The figures by name; with `paper` figures 2 and 3 at the paper's sizes, which takes an hour."""
    return {
        "figure1": single.figure_1,
        **{f"figure{n}": partial(single.correlators, *single.SIZES[n][paper]) for n in single.SIZES},
        **{f"figure{n}": partial(several.vertices, phi) for n, phi in several.FIGURES.items()},
        "figure13": several.figure_13,
        "figure14": single.figure_14,
    }


def write(folder: str | os.PathLike, paper: bool = False, suffix: str = ".png") -> list[Path]:
    """All figures into `folder`; returns the files."""
    return write_all(drawn(paper), folder, suffix)
