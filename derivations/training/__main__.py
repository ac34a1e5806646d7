"""Verdicts on the training claims; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.training import FIGURES, claims
from derivations.training.experiments import FULL, QUICK


def main() -> int:
    """The exit code: 1 where a verdict is not what is expected."""
    parser = argparse.ArgumentParser(prog="python -m derivations.training", description="Training claims, judged.")
    parser.add_argument("what", nargs="?", choices=("claims", "table", "figures"), default="claims")
    parser.add_argument("folder", nargs="?", help="where figures are written")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="few networks and depths (the default)")
    size.add_argument("--full", action="store_true", help="more networks, depths and steps")
    parser.add_argument("--only", metavar="TEXT", default="", help="claims whose source holds this text")
    given = parser.parse_args()
    if given.what == "table":
        for row in FIGURES:
            print("  ".join(row))
        return 0
    if given.what == "figures":
        from derivations.training.maps import write

        if given.folder is None:
            parser.error("figures needs a folder")
        write(given.folder)
        return 0
    chosen = [one for one in claims(FULL if given.full else QUICK) if given.only in one.source]
    if not chosen:
        parser.error(f"no claim has {given.only!r} in its source")
    return int(bool(printing.verdicts(chosen)))


if __name__ == "__main__":
    sys.exit(main())
