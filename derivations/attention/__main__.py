"""Verdicts and numbers; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.attention import CLAIMS, STATEMENTS


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""

    def show(given: argparse.Namespace) -> None:
        for row in STATEMENTS:
            print("  ".join(row))

    return printing.command("attention", CLAIMS, verbs={"statements": printing.Verb("what became of each", show)})


if __name__ == "__main__":
    sys.exit(main())
