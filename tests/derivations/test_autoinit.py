"""AutoInit: published equations of BatchNorm and ResMLP as claims, and acceptance values.

Source: He, Doshi, Gromov, AutoInit; R-numbers are those of its specification.
"""

from __future__ import annotations

from collections import Counter

import pytest

from derivations.autoinit import CLAIMS, TO_DIGITS
from derivations.autoinit.acceptance import CHECKS
from derivations.judging import judge

LONG = ("R65", "R69", "R71", "R1", "R27", "R46", "R41", "R43")  # seconds of compilation, half a minute of digits


@pytest.mark.slow_with("RχΔ (26)", "R38B (32), |B| = 8", "R6 (6), |B| = 8")
@pytest.mark.parametrize(
    "claim", [pytest.param(c, marks=[pytest.mark.slow] * c.source.startswith(LONG), id=c.source) for c in CLAIMS]
)
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right equation holds and its planted change does not; a misprint fails and the corrected formula holds."""
    complaint = judge(claim, TO_DIGITS).complaint
    assert complaint is None, complaint


def test_counts():
    assert len(CLAIMS) == len({c.source for c in CLAIMS}) == 37
    assert Counter(c.misprint for c in CLAIMS) == {False: 27, True: 10}
    assert [c.source for c in CLAIMS if c.composed] == ["R7 (7)"]


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS, ids=[f"{c.line} {c.name}" for c in CHECKS])
def test_acceptance_values(check):
    assert check.misses() <= 1 < check.misses("1/100")
