"""Verdicts and numbers; see the package's docstring."""

from __future__ import annotations

import argparse
import sys

from derivations import printing
from derivations.recipes import CLAIMS, questions
from derivations.recipes.effects import lines


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""

    def show(given: argparse.Namespace) -> None:
        for line in lines():
            print(line, flush=True)

    def ask(given: argparse.Namespace) -> None:
        for line in questions.lines():
            print(line, flush=True)

    table = printing.Verb("published, exact, relative difference, K and J after 50 layers", show)
    return printing.command("recipes", CLAIMS, verbs={
        "constants": table,
        "questions": printing.Verb("a table for each question that people ask (minutes)", ask),
        "figures": printing.drawing("derivations.recipes.questions", "K and log J over the blocks for each question"),
    })  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
