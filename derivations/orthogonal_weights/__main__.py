"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

from derivations import printing
from derivations.orthogonal_weights import CLAIMS, laws


def main() -> None:
    constants = "leading terms of all correlators of tanh at large depth, exact"
    printing.command(
        "orthogonal_weights",
        CLAIMS,
        "figures 1-3 and 10-14, without training",
        "networks of the paper's sizes; an hour",
        "drawing",
        {"constants": (constants, lambda: print(laws.constants()))},
    )


if __name__ == "__main__":
    main()
