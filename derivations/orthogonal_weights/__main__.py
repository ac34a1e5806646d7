"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

import argparse

from derivations import printing
from derivations.orthogonal_weights import CLAIMS, laws


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m derivations.orthogonal_weights", description=printing.verdicts.__doc__
    )
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("numbers", help="the acceptance values, each with a planted error")
    verbs.add_parser("constants", help="leading terms of all correlators of tanh at large depth, exact")
    figures = verbs.add_parser("figures", help="figures 1-3 and 10-14, without training")
    figures.add_argument("folder")
    figures.add_argument("--paper", action="store_true", help="networks of the paper's sizes; an hour")
    given = parser.parse_args()
    if given.verb == "numbers":
        from derivations.orthogonal_weights.acceptance import CHECKS

        printing.numbers(CHECKS)
    elif given.verb == "constants":
        print(laws.constants())
    elif given.verb == "figures":
        from derivations.orthogonal_weights.drawing import write

        for path in write(given.folder, paper=given.paper):
            print(path)
    else:
        printing.verdicts(CLAIMS)


if __name__ == "__main__":
    main()
