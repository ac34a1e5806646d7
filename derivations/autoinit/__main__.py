"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import sys

from derivations import printing
from derivations.autoinit import CLAIMS, TO_DIGITS


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    figures = printing.drawing("derivations.autoinit.figures", "figures 1, 2 and 5, and panels J and K of figure 3")
    return printing.command("autoinit", CLAIMS, TO_DIGITS, {"figures": figures})


if __name__ == "__main__":
    sys.exit(main())
