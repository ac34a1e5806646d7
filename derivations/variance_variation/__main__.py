"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import argparse

from derivations import printing
from derivations.variance_variation import CLAIMS


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m derivations.variance_variation", description=printing.verdicts.__doc__
    )
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("numbers", help="the acceptance values, each with a planted error")
    figures = verbs.add_parser("figures", help="figures 1, 2, 3, A.1, A.2, B.3 and B.4, without training")
    figures.add_argument("folder")
    given = parser.parse_args()
    if given.verb == "numbers":
        from derivations.variance_variation.acceptance import CHECKS

        printing.numbers(CHECKS)
    elif given.verb == "figures":
        from derivations.variance_variation.figures import write

        for path in write(given.folder):
            print(path)
    else:
        printing.verdicts(CLAIMS)


if __name__ == "__main__":
    main()
