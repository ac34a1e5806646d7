"""Verdicts, numbers, figures and tables of the paper; see the package's docstring."""

from __future__ import annotations

import argparse

from derivations import printing
from derivations.partial_jacobians import CLAIMS, figures, tables


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m derivations.partial_jacobians", description=printing.verdicts.__doc__
    )
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("numbers", help="the acceptance values, each with a planted error")
    figures.options(verbs.add_parser("figures", help="figures 1, 2, 4 (A1, B1), 5, 7 and 28 xi of figure 8"))
    table = verbs.add_parser("tables", help="critical lines and exponents of all activations, as LaTeX")
    table.add_argument("file")
    table.add_argument("--limit", type=float, default=120.0, help="seconds a row may take")
    given = parser.parse_args()
    if given.verb == "numbers":
        from derivations.partial_jacobians.acceptance import CHECKS

        printing.numbers(CHECKS)
    elif given.verb == "figures":
        sizes = figures.Sizes(given.networks, given.width, given.grid)
        for path in figures.write(given.folder, sizes, given.measured, given.suffix):
            print(path)
    elif given.verb == "tables":
        print(tables.write(given.file, given.limit))
    else:
        printing.verdicts(CLAIMS)


if __name__ == "__main__":
    main()
