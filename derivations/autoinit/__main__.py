"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

from derivations import printing
from derivations.autoinit import CLAIMS


def main() -> None:
    printing.command("autoinit", CLAIMS, "figures 1, 2 and 5, and panels J and K of figure 3")


if __name__ == "__main__":
    main()
