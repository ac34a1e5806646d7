"""The acceptance values of the paper on variance and width variation (section 8 of its specification), each with a
planted error, and what narrowing does to finite networks."""

from __future__ import annotations

import re

import numpy as np
import pytest

from derivations.variance_variation import CLAIMS, figures
from derivations.variance_variation.acceptance import CHECKS, ELSEWHERE
from tests import TESTS

FAST = {"14", "15", "18", "20", "23"}
CASES = [pytest.param(c, id=f"{c.line} {c.name}", marks=[pytest.mark.slow] * (c.line not in FAST)) for c in CHECKS]


@pytest.mark.slow_with("14 log χ/(A√l)", "18 χ ratio, V_r = 2")
@pytest.mark.parametrize("check", CASES)
def test_the_engine_reproduces_the_value_and_a_planted_error_does_not(check):
    """Within the tolerance; one per cent in σ_w (or K, c, …) is outside it."""
    assert check.misses() <= 1
    assert check.misses("1/100") > 1


def test_all_lines_of_the_specification_are_there():
    """Lines 1-30, here or where `ELSEWHERE` says: tests and claims that exist."""
    assert len(CHECKS) == 14
    assert {c.line for c in CHECKS} | set(ELSEWHERE) == {str(n) for n in range(1, 31)}
    assert not {c.line for c in CHECKS} & set(ELSEWHERE)
    claimed = " ".join(c.source for c in CLAIMS)
    for where in ELSEWHERE.values():
        for file in re.findall(r"test_\w+\.py", where):
            names = re.findall(r"\btest_\w+(?!\.py)\b", where.split(file)[1])
            (path,) = TESTS.rglob(file)
            text = path.read_text()
            assert all(f"def {name}(" in text for name in names), where
        for number in re.findall(r"\bR\d+b?", where):
            assert re.search(rf"\b{number}\b", claimed), where


@pytest.mark.slow
def test_narrowing_keeps_the_mean_and_spreads():
    """Line 25, R68, R71: p(100) = 190.27 with and without projections, and its spread grows; chi is that of figure 1,
    divided by the ratio of the widths, within four standard errors."""
    spreads = []
    for widths in (np.full(101, 2048), figures.halved(2048)):
        found = figures.measured(widths, 60)
        p = found["p"][:, 100]
        spreads.append(p.std(ddof=1))
        assert abs(p.mean() - 190.27) < 4 * spreads[-1] / len(p) ** 0.5
    assert 4 < spreads[1] / spreads[0] < 16
    chi = found["chi"][:, [16, 81]]
    error = chi.std(axis=0, ddof=1) / len(chi) ** 0.5
    assert (abs(chi.mean(axis=0) - [2.882, 2.130]) < 4 * error).all()
    assert (abs(chi.mean(axis=0) - [92.217, 2.130 * 2]) > 4 * error).all()  # without the widths
