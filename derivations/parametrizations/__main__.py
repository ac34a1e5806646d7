"""Verdicts, numbers and tables; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.parametrizations import CLAIMS
from derivations.parametrizations.kinds import tables


def main() -> int:
    """The exit code: 1 where a verdict or a power is not what is expected."""

    def show(given: argparse.Namespace) -> None:
        for table in tables():
            print(table, end="\n\n", flush=True)

    return printing.command("parametrizations", CLAIMS, verbs={
        "tables": printing.Verb("the powers of every published parametrization", show),
        "figures": printing.drawing("derivations.parametrizations.figures", "broken networks beside the right line"),
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
