"""Verdicts and numbers; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.recipes import CLAIMS
from derivations.recipes.effects import lines


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""

    def show(given: argparse.Namespace) -> None:
        for line in lines():
            print(line, flush=True)

    table = printing.Verb("published, exact, relative difference, K and J after 50 layers", show)
    return printing.command("recipes", CLAIMS, verbs={"constants": table})


if __name__ == "__main__":
    sys.exit(main())
