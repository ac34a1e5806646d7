"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import sys

from derivations import printing
from derivations.orthogonal_weights import CLAIMS, TO_DIGITS, laws


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    figures = printing.drawing(
        "derivations.orthogonal_weights.drawing",
        "figures 1-3 and 10-14, without training",
        "networks of the paper's sizes; an hour",
    )
    text = "leading terms of all correlators of tanh at large depth, exact"
    constants = printing.Verb(text, lambda given: print(laws.constants()))
    return printing.command("orthogonal_weights", CLAIMS, TO_DIGITS, {"constants": constants, "figures": figures})


if __name__ == "__main__":
    sys.exit(main())
