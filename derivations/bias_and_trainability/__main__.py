"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import sys

from derivations import printing
from derivations.bias_and_trainability import CLAIMS, TO_DIGITS


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    figures = printing.drawing(
        "derivations.bias_and_trainability.figures",
        "figures 1-4, 15-19, 22-26, 30 and 31",
        "networks of the paper's sizes; some minutes",
    )
    return printing.command("bias_and_trainability", CLAIMS, TO_DIGITS, {"figures": figures})


if __name__ == "__main__":
    sys.exit(main())
