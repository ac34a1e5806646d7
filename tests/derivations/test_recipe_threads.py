"""Statements of threads and of code about initializations come out as the errata say; questions get numbers."""

from __future__ import annotations

from dataclasses import replace

import pytest

import meanfield as mf
from derivations.judging import judge
from derivations.recipes import questions, threads

LONG = ("C36", "C37", "E.1")


@pytest.mark.parametrize(
    "claim",
    [pytest.param(c, marks=[pytest.mark.slow] * c.source.startswith(LONG), id=c.source) for c in threads.CLAIMS],
)
def test_statements(claim):
    assert judge(claim).complaint is None


def test_a_verdict_the_other_way_round_is_seen():
    claim = next(c for c in threads.CLAIMS if c.source.startswith("E.8"))
    assert judge(replace(claim, misprint=False)).complaint is not None
    assert len(threads.CLAIMS) == 14 and sum(c.misprint for c in threads.CLAIMS) == 12


@pytest.mark.slow
def test_a_scale_of_w2_or_of_w3_is_one_factor_of_the_branch():
    """u ⊙ φ(v) behind w2 is linear in w2 and in w3: one K, J, whichever is scaled; both square the factor."""
    small = dict(depth=3, width=64, heads=4, hidden=172, context=8)
    scaled = mf.recipes.normal(".02/sqrt(2*L)")
    base = mf.recipe("llama", **small).with_laws(token="1")
    found = [base.with_laws(**laws).report(draws=2).followed for laws in ({"up": scaled}, {"down": scaled})]
    for name in ("K", "log_J"):
        assert getattr(found[0], name) == pytest.approx(getattr(found[1], name), rel=1e-9)
    both = base.with_laws(up=scaled, down=scaled).report(draws=2).followed
    assert both.fractions[1, 0] == pytest.approx(found[0].fractions[1, 0] / 6, rel=1e-3)


def test_questions_have_names_of_their_own_and_two_answers():
    keys = [q.key for q in questions.QUESTIONS]
    assert len(set(keys)) == len(keys) == 10
    for question in questions.QUESTIONS:
        variants = question.variants()
        assert len(variants) >= 2 and all(isinstance(one, mf.Recipe) for one in variants.values())
        assert len({str(sorted(one.sigmas.items())) + repr(one.network) for one in variants.values()}) == len(variants)
