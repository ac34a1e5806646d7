"""Verdicts, numbers, figures and tables of the paper; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.partial_jacobians import CLAIMS, TO_DIGITS, figures, tables


def draw(given: argparse.Namespace) -> None:
    sizes = figures.Sizes(given.networks, given.width, given.grid)
    for path in figures.write(given.folder, sizes, given.measured, given.suffix):
        print(path)


def table(parser: argparse.ArgumentParser) -> None:
    """The command line of `tables`."""
    parser.add_argument("file")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a row may take")


VERBS = {
    "figures": printing.Verb("figures 1, 2, 4 (A1, B1), 5, 7 and 28 xi of figure 8", draw, figures.options),
    "tables": printing.Verb(
        "critical lines and exponents of all activations, as LaTeX",
        lambda given: print(tables.write(given.file, given.limit)),
        table,
    ),
}


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    return printing.command("partial_jacobians", CLAIMS, TO_DIGITS, VERBS)


if __name__ == "__main__":
    sys.exit(main())
