"""The tables and the figure of docs/digits.md; see the package's docstring."""

from __future__ import annotations

import sys

from derivations.digits import figures, tables


def main(words: list[str]) -> None:
    match words:
        case []:
            print("\n\n".join((tables.depths(), tables.without_noise(), tables.chosen(), tables.fitted())))
        case ["figures", folder]:
            print(*figures.write(folder), sep="\n")
        case _:
            sys.exit("python -m derivations.digits [figures DIR]")


if __name__ == "__main__":
    main(sys.argv[1:])
