"""Verdicts, numbers and figures of the paper; see the package's docstring."""

from __future__ import annotations

from derivations import printing
from derivations.variance_variation import CLAIMS


def main() -> None:
    printing.command(
        "variance_variation", CLAIMS, "figures 1, 2, 3, A.1, A.2, B.3 and B.4, without training"
    )


if __name__ == "__main__":
    main()
