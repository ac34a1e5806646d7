"""How many finite networks the figures show beside the theory, and how large."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Sizes:
    """How many finite networks to draw beside the theory, and how large; `grid` points a side in figure 2."""

    networks: int = 0
    width: int = 200
    grid: int = 12
    seed: int = 0
