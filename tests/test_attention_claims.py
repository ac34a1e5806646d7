"""Statements on transformer blocks: each print and its contrast come out as they should."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from derivations.attention import CLAIMS, SLOW, depth
from derivations.judging import judge


@pytest.mark.parametrize("claim", [pytest.param(c, marks=[pytest.mark.slow] * (c in SLOW), id=c.source) for c in CLAIMS])
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right statement holds and its planted change does not; a wrong one fails and the right one holds."""
    complaint = judge(claim).complaint
    assert complaint is None, complaint


def test_sources_are_told_apart():
    assert len(CLAIMS) == len({c.source for c in CLAIMS})
    assert Counter(c.misprint for c in CLAIMS)[True] >= 9


# --------------------------------------------------------------------- uniform attention and relu, by a loop in plain NumPy


def kinks(x: float) -> tuple[float, float]:
    """⟨relu relu⟩ and ⟨relu′ relu′⟩ of two normals of variance 1 and correlation x."""
    angle = np.arccos(x)
    return (np.sqrt(1 - x * x) + x * (np.pi - angle)) / (2 * np.pi), (np.pi - angle) / (2 * np.pi)


def looped(norm: str, tokens: int, blocks: int, lost: float = 0.0) -> np.ndarray:
    """K, K_ab, J, J_ab after that many blocks of [2002.04745] from orthogonal tokens; lost: taken from relu's slope."""
    q, c, j, a = 1.0, 0.0, 1.0, 0.0
    for _ in range(blocks):
        mixed, moved = c + (q - c) / tokens, a + (j - a) / tokens
        scale = q if norm == "pre" else 1.0
        q, c, j, a = q + mixed / scale, c + mixed / scale, j + moved / scale, a + moved / scale
        if norm == "post":
            q, c, j, a = 1.0, c / q, j / q, a / q
        value, slope = kinks(c / q)
        scale = 1.0 if norm == "pre" else q
        j, a = j + (0.5 - lost) * j / q, a + (slope - lost) * a / q
        q, c = q + 0.5 * scale, c + value * scale
        if norm == "post":
            q, c, j, a = 1.0, c / q, j / q, a / q
    return np.array([q, c, j, a])


def assert_runs_as_looped(norm: str, lost: float = 0.0) -> None:
    network = {"pre": depth.PRE, "post": depth.POST}[norm]
    blocks = {"pre": 2000, "post": 60}[norm]
    found = depth.run(network, blocks, 16)
    ours = np.array([getattr(found, name)[-1] for name in ("K", "K_ab", "J", "J_ab")])
    np.testing.assert_allclose(ours, looped(norm, 16, blocks, lost), rtol=1e-7)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_setting_of_2002_04745_by_a_loop(norm):
    assert_runs_as_looped(norm)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_runs_as_looped(norm, lost=1e-4)
