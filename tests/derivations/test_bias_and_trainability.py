"""Published equations of the paper on bias and trainability as claims: the engine's own results decide each one.

Source: Bassi et al., When Bias Meets Trainability; B-numbers are the results of its specification, equation numbers
those of the paper.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import pytest
import sympy as sp

import meanfield as mf
from derivations.bias_and_trainability import (
    CLAIMS,
    TO_DIGITS,
    changes,
    definitions,
    depths,
    fractions,
    lines,
    phases,
    pooling,
    relu,
)
from derivations.bias_and_trainability.__main__ import main
from derivations.claims import Verdict, network
from derivations.comparisons import equal_by_slopes, inside
from derivations.judging import judge
from derivations.placeholders import gamma

FAST = {*definitions.WIDTHS, *fractions.CLAIMS, *relu.ONE_NODE[:4], *relu.LAWS, *changes.CLAIMS[:2]}
FAST |= {*pooling.OF_RELU[:-1], *pooling.GENERAL[4:6], *depths.LEMMA_H1[8:12:3], *lines.CLAIMS[3:5]}
CASES = [pytest.param(c, id=f"{c.source} {c.quantity}", marks=[pytest.mark.slow] * (c not in FAST)) for c in CLAIMS]
IDS = [c.id for c in CASES]


@pytest.mark.slow_with(
    "B9 (55) q_aa q_bb - q_ab^2", "B30 (62), third line density", "B54 (109), γ g 1", "B54 (110), γ^{-1/2} f -1/2",
    "B54 (111), γ^{1/2} g/f 1/2", "B55 (114), B57, σ_w² = 2, σ_b² = 0 gamma",
)  # fmt: skip
@pytest.mark.parametrize("claim", CASES)
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right equation holds and its planted change does not; a misprint fails and the corrected formula holds.

    A claim that drops from a proof to digits is seen.
    """
    complaint = judge(claim, TO_DIGITS).complaint
    assert complaint is None, complaint


def test_counts():
    """A claim that silently disappears is seen."""
    assert len(CLAIMS) == len(set(IDS)) == 206
    assert Counter(type(c).__name__ for c in CLAIMS) == {"Equation": 80, "Formula": 88, "At": 29, "Floats": 9}
    assert sum(c.misprint for c in CLAIMS) == 43
    assert sum(c.composed for c in CLAIMS) == 9


def test_every_result_that_can_be_decided_is_claimed():
    """What is missing is a definition, or tested by numbers (41) and finite networks (5, 20, 22, 29, 61)."""
    found = {int(n) for c in CLAIMS for n in re.findall(r"\bB(\d+)", c.source)}
    assert set(range(1, 62)) - found == {3, 5, 20, 22, 29, 41, 61}


def test_a_claim_fails_when_its_print_is_changed():
    """Every kind of claim sees an error, and is not `decided` by a contrast that holds."""
    by_source = {c.source: c for c in CLAIMS}
    formula = by_source["B10 (43), (45)"]
    assert not replace(formula, printed=formula.printed + sp.Rational(1, 10**6)).decided
    assert not replace(formula, contrast=formula.printed).decided
    word = by_source["B4: the EOC"]
    assert word.decided and not replace(word, places=phases.ON_LINE).decided


@pytest.mark.slow
def test_functions_with_equal_slopes_are_proved_equal():
    """arctan √(2γ + 1) = π/4 + arcsin(γ/(1 + γ))/2: the derivatives are the same, and so are the values at 1."""
    x = sp.Symbol("gamma", positive=True)
    left, right = sp.atan(sp.sqrt(2 * x + 1)), sp.pi / 4 + sp.asin(x / (1 + x)) / 2
    assert mf.equal(left, right) is mf.symbolic.Equality.TO_30_DIGITS and equal_by_slopes(left, right)
    assert not equal_by_slopes(left, right + 1) and not equal_by_slopes(left, right + (x - 1) ** 3)
    assert inside(gamma) == x


def test_one_network_that_fails_refutes_a_claim_for_several():
    claim = next(c for c in CLAIMS if c.source == "B18, ⟨φ′²⟩")
    both = replace(claim, networks=(network("relu"), network("leaky_relu")))
    assert both.verdict() is Verdict.REFUTED and claim.verdict() is Verdict.PROVED


def test_the_command_line_knows_its_verbs(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["bias_and_trainability", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    assert "numbers" in capsys.readouterr().out
