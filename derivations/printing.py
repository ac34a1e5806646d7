"""What `python -m derivations.<paper>` does: verdicts on its claims, its acceptance values, its figures.

Verdicts and values are compared with what is expected, contrasts and planted errors, too; the exit code is 1 where one
comes out otherwise.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module

from derivations.checks import Check
from derivations.claims import Claim
from derivations.judging import judge


def verdicts(claims: Sequence[Claim], to_digits: Collection[str] = ()) -> int:
    """Print the verdict on every claim, what came out otherwise than expected, and the counts; the number of those."""
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    wide = max([42, *(len(claim.source) for claim in claims)])
    for claim in claims:
        found = judge(claim, to_digits)
        word = found.verdict.value if found.error is None else "undecided"
        mark = "misprint" if claim.misprint else "composed" if claim.composed else ""
        where = "; ".join(map(str, claim.cases))
        where = where if len(where) <= 44 else where[:41] + "..."
        print(f"{claim.source:<{wide}} {claim.quantity:<24} {word:<20} {mark:<9} {where}", flush=True)
        counts[word] += 1
        if found.complaint is not None:
            wrong.append(f"{claim.source} {claim.quantity}: {found.complaint}")
            print(f"    NOT AS EXPECTED: {found.complaint}")
    print(f"{len(claims)} claims: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    misprints, composed = (sum(getattr(c, name) for c in claims) for name in ("misprint", "composed"))
    print(f"{misprints} of them misprints, {composed} composed (no map of the engine on either side)")
    _ends(len(claims), wrong)
    return len(wrong)


def numbers(checks: Iterable[Check]) -> int:
    """Print every acceptance value: the largest deviation in units of its tolerance, and that of the planted error; the
    number of those that differ or whose planted error does not."""
    total, wrong = 0, []
    for check in checks:
        total += 1
        found, planted = check.misses(), check.misses("1/100")
        word = "agrees" if found <= 1 < planted else "DIFFERS"
        print(f"{check.line:>4}  {check.name:<48} {word:<8} {found:9.2g} tolerances; planted error {planted:.2g}")
        if word == "DIFFERS":
            wrong.append(f"{check.line} {check.name}")
    _ends(total, wrong)
    return len(wrong)


def _ends(total: int, wrong: Sequence[str]) -> None:
    print(f"{total - len(wrong)} as expected, {len(wrong)} not" + "".join(f"\n  {text}" for text in wrong), flush=True)


@dataclass(frozen=True)
class Verb:
    """One more word of a paper's command line: its help, what it does, the options it has."""

    help: str
    run: Callable[[argparse.Namespace], object]
    options: Callable[[argparse.ArgumentParser], object] = lambda parser: None


def drawing(module: str, help: str, paper: str = "") -> Verb:
    """The verb `figures DIR`, by `write` of a module; paper: the help of --paper, "" where there is none."""

    def options(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder")
        if paper:
            parser.add_argument("--paper", action="store_true", help=paper)

    def run(given: argparse.Namespace) -> None:
        write = import_module(module).write
        for path in write(given.folder, paper=given.paper) if paper else write(given.folder):
            print(path)

    return Verb(help, run, options)


def command(
    package: str, claims: Sequence[Claim], to_digits: Collection[str] = (), verbs: Mapping[str, Verb] | None = None
) -> int:
    """`python -m derivations.<package>`: verdicts, `numbers` of its `acceptance`, and its own verbs; the exit code.

    to_digits: sources of claims that hold to 30 digits and are not proved.
    """
    parser = argparse.ArgumentParser(prog=f"python -m derivations.{package}", description=verdicts.__doc__)
    parser.add_argument("--only", metavar="TEXT", default="", help="claims whose source has this text in it")
    words = parser.add_subparsers(dest="verb")
    words.add_parser("numbers", help="the acceptance values, each with a planted error")
    for name, verb in (verbs or {}).items():
        verb.options(words.add_parser(name, help=verb.help))
    given = parser.parse_args()
    if given.verb == "numbers":
        return int(numbers(import_module(f"derivations.{package}.acceptance").CHECKS) > 0)
    if given.verb:
        (verbs or {})[given.verb].run(given)
        return 0
    chosen = [claim for claim in claims if given.only in claim.source]
    if not chosen:
        parser.error(f"no claim has {given.only!r} in its source")
    return int(verdicts(chosen, to_digits) > 0)
