"""Verdicts and numbers; see the package's docstring."""

from __future__ import annotations

import sys

from derivations import printing
from derivations.attention import CLAIMS


def main() -> int:
    """The exit code: 1 where a verdict or a value is not what is expected."""
    return printing.command("attention", CLAIMS)


if __name__ == "__main__":
    sys.exit(main())
