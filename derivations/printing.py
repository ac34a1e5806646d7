"""What `python -m derivations.<paper>` prints: the verdicts on its claims, and its acceptance values."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module

from derivations.checks import Check
from derivations.claims import Claim


def verdicts(claims: Sequence[Claim]) -> None:
    """Print the verdict on every claim, and the counts."""
    counts: Counter[str] = Counter()
    wide = max(42, *(len(claim.source) for claim in claims))
    for claim in claims:
        verdict = claim.verdict()
        mark = "misprint" if claim.misprint else ""
        where = "; ".join(map(str, claim.cases))
        where = where if len(where) <= 44 else where[:41] + "..."
        print(f"{claim.source:<{wide}} {claim.quantity:<24} {verdict.value:<20} {mark:<9} {where}")
        counts[verdict.value] += 1
    print(f"{len(claims)} claims: " + ", ".join(f"{n} {name}" for name, n in counts.items()))


def numbers(checks: Iterable[Check]) -> None:
    """Print every acceptance value: the largest deviation in units of its tolerance, and that of the planted error."""
    for check in checks:
        found, planted = check.misses(), check.misses("1/100")
        word = "agrees" if found <= 1 < planted else "DIFFERS"
        print(f"{check.line:>4}  {check.name:<48} {word:<8} {found:9.2g} tolerances; planted error {planted:.2g}")


def command(
    package: str,
    claims: Sequence[Claim],
    figures: str,
    paper: str = "",
    drawn_by: str = "figures",
    more: Mapping[str, tuple[str, Callable[[], None]]] | None = None,
) -> None:
    """`python -m derivations.<package>`: verdicts, `numbers` of its `acceptance`, `figures` by its module `drawn_by`.

    figures, paper: help of the verb and of --paper ("" where there is none); more: other verbs, {name: (help, what)}.
    """
    parser = argparse.ArgumentParser(prog=f"python -m derivations.{package}", description=verdicts.__doc__)
    verbs = parser.add_subparsers(dest="verb")
    verbs.add_parser("numbers", help="the acceptance values, each with a planted error")
    for name, (text, _) in (more or {}).items():
        verbs.add_parser(name, help=text)
    draw = verbs.add_parser("figures", help=figures)
    draw.add_argument("folder")
    if paper:
        draw.add_argument("--paper", action="store_true", help=paper)
    given = parser.parse_args()
    if given.verb == "numbers":
        numbers(import_module(f"derivations.{package}.acceptance").CHECKS)
    elif given.verb == "figures":
        write = import_module(f"derivations.{package}.{drawn_by}").write
        for path in write(given.folder, paper=given.paper) if paper else write(given.folder):
            print(path)
    elif given.verb:
        (more or {})[given.verb][1]()
    else:
        verdicts(claims)
