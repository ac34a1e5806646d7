"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import sys

from derivations import printing
from derivations.variance_variation import CLAIMS, TO_DIGITS


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    text = "figures 1, 2, 3, A.1, A.2, B.3 and B.4, without training"
    figures = printing.drawing("derivations.variance_variation.figures", text)
    return printing.command("variance_variation", CLAIMS, TO_DIGITS, {"figures": figures})


if __name__ == "__main__":
    sys.exit(main())
