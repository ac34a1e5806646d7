"""Verdicts, numbers, figures and tables of the paper; see the package's docstring."""

from __future__ import annotations

import argparse
from collections import Counter

from derivations.partial_jacobians import CLAIMS, figures, tables


def verdicts() -> None:
    """Print the verdict on every claim, and the counts."""
    counts: Counter[str] = Counter()
    for claim in CLAIMS:
        verdict = claim.verdict()
        mark = "misprint" if claim.misprint else ""
        where = "; ".join(map(str, claim.cases))
        where = where if len(where) <= 44 else where[:41] + "..."
        print(f"{claim.source:<42} {claim.quantity:<24} {verdict.value:<20} {mark:<9} {where}")
        counts[verdict.value] += 1
    print(f"{len(CLAIMS)} claims: " + ", ".join(f"{n} {name}" for name, n in counts.items()))


def numbers() -> None:
    """Print every acceptance value: the largest deviation in units of its tolerance, and that of the planted error."""
    from derivations.partial_jacobians.acceptance import CHECKS

    for check in CHECKS:
        found, planted = check.misses(), check.misses("1/100")
        word = "agrees" if found <= 1 < planted else "DIFFERS"
        print(f"{check.line:>4}  {check.name:<48} {word:<8} {found:9.2g} tolerances; planted error {planted:.2g}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m derivations.partial_jacobians", description=verdicts.__doc__)
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("numbers", help="the acceptance values, each with a planted error")
    figures.options(verbs.add_parser("figures", help="figures 1, 2, 5, 7 and 28 xi of figure 8"))
    table = verbs.add_parser("tables", help="critical lines and exponents of all activations, as LaTeX")
    table.add_argument("file")
    table.add_argument("--limit", type=float, default=120.0, help="seconds a row may take")
    given = parser.parse_args()
    if given.verb == "numbers":
        numbers()
    elif given.verb == "figures":
        sizes = figures.Sizes(given.networks, given.width, given.grid)
        for path in figures.write(given.folder, sizes, given.measured, given.suffix):
            print(path)
    elif given.verb == "tables":
        print(tables.write(given.file, given.limit))
    else:
        verdicts()


if __name__ == "__main__":
    main()
