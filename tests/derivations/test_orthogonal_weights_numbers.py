"""Acceptance values of the paper on orthogonal weights (section 8 of its specification), each with a planted error."""

from __future__ import annotations

import re

import pytest

from derivations.orthogonal_weights import CLAIMS
from derivations.orthogonal_weights.acceptance import CHECKS, ELSEWHERE
from tests import TESTS

SLOW = {"16", "19", "30"}
CASES = [pytest.param(c, id=f"{c.line} {c.name}", marks=[pytest.mark.slow] * (c.line in SLOW)) for c in CHECKS]


@pytest.mark.parametrize("check", CASES)
def test_the_engine_reproduces_the_value_and_a_planted_error_does_not(check):
    """Within the tolerance; one per cent in σ_w (or in a size) is outside it."""
    assert check.misses() <= 1
    assert check.misses("1/100") > 1


def test_all_lines_of_the_specification_are_there():
    """Lines 1-31 without 29 (training), here or where `ELSEWHERE` says: tests and claims that exist."""
    assert {c.line for c in CHECKS} | set(ELSEWHERE) == {str(n) for n in range(1, 32)} - {"29"}
    claimed = " ".join(c.source for c in CLAIMS)
    for line, where in ELSEWHERE.items():
        tests = re.findall(r"(test_\w+\.py) (test_\w+)", where)
        for file, name in tests:
            (path,) = TESTS.rglob(file)
            assert f"def {name}(" in path.read_text(), where
        equations = re.findall(r"\(\d\.\d+\)", where)
        assert all(e in claimed for e in equations) and (tests or equations), (line, where)
