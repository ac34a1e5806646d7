"""What `python -m derivations.<paper>` prints: the verdicts on its claims, and its acceptance values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

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
