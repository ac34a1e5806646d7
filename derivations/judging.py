"""Verdicts beside expectations: what must come out of a claim and of its contrast, and what came out.

One rule for all papers. A claim comes out as it should where its print holds with the verdict that its kind usually
gives (or, for the sources that a paper names, to 30 digits) and its contrast is refuted; of a misprint the other way
round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import meanfield as mf
from derivations.claims import Claim, Network, Verdict


@dataclass(frozen=True)
class Judgement:
    """A claim and its verdicts; `expected` is the one on what should hold, its print or, of a misprint, its contrast.

    case: the network on which the print fails, or the first. error: why there is no verdict; None where there is one.
    """

    claim: Claim
    expected: Verdict
    verdict: Verdict = Verdict.REFUTED
    contrast: Verdict = Verdict.REFUTED
    case: Network | None = None
    error: str | None = None

    @property
    def complaint(self) -> str | None:
        """What came out otherwise, in words; None where all is as expected."""
        if self.error is not None:
            return f"no verdict: {self.error}"
        names = ("the contrast", "the print") if self.claim.misprint else ("the print", "the contrast")
        holds, fails = (self.contrast, self.verdict) if self.claim.misprint else (self.verdict, self.contrast)
        if fails is not Verdict.REFUTED:
            return f"{names[1]} should be refuted, and is {fails.value}"
        if holds is not self.expected:
            return f"{names[0]} should be {self.expected.value}, and is {holds.value}"
        return None


def judge(claim: Claim, to_digits: Collection[str] = ()) -> Judgement:
    """The verdicts on a claim and on its contrast; to_digits: sources whose proof is replaced by 30 digits."""
    expected = Verdict.DIGITS if claim.source in to_digits else claim.usual
    try:
        verdict, case = claim.over_networks(claim.printed)
        return Judgement(claim, expected, verdict, claim.contrast_verdict(), case)
    except (mf.MeanFieldError, AssertionError) as error:
        return Judgement(claim, expected, error=str(error))


def judged(claims: Iterable[Claim], to_digits: Collection[str] = ()) -> Iterator[Judgement]:
    for claim in claims:
        yield judge(claim, to_digits)
