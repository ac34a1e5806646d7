"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

from derivations import printing
from derivations.bias_and_trainability import CLAIMS


def main() -> None:
    printing.command(
        "bias_and_trainability",
        CLAIMS,
        "figures 1, 2, 3, 15-19, 22, 23, 30 and 31",
        "networks of the paper's sizes; some minutes",
    )


if __name__ == "__main__":
    main()
