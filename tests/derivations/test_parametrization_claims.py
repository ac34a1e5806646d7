"""Statements about parametrizations come out as the errata say, each with a contrast; powers beside values by hand."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from derivations.judging import judge
from derivations.parametrizations import CLAIMS, depths, widths
from derivations.parametrizations.acceptance import CHECKS
from derivations.parametrizations.kinds import TWO, Equivalent, OneStep, Word, powers, tables


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: f"{one.source} {one.quantity}")
def test_statements(claim):
    assert judge(claim).complaint is None and claim.decided


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda one: f"{one.source} {one.quantity}")
def test_a_statement_the_other_way_round_is_seen(claim):
    turned = replace(claim, printed=claim.contrast, contrast=claim.printed)
    assert "should be" in str(judge(turned).complaint)


def test_the_counts():
    """A claim cannot vanish or weaken unseen."""
    assert Counter(type(c) for c in CLAIMS) == {OneStep: 22, Word: 12, Equivalent: 3}
    assert sum(c.misprint for c in CLAIMS) == 3 and not any(c.composed for c in CLAIMS)
    sources = {c.source.split(",")[0].split(":")[0] for c in CLAIMS}
    assert {"C31", "C32", "C33", "C34", "C35", "row 52", "row 53", "row 54"} <= sources
    marked = ("code", "README", "abstract", "second-hand", "unread", "Table 1")
    own = [c.source for c in CLAIMS if not any(word in c.source for word in marked)]
    assert len(own) == 4 and len({c.source + c.quantity for c in CLAIMS}) == len(CLAIMS)


@pytest.mark.parametrize("check", CHECKS, ids=lambda one: one.name)
def test_powers_by_hand(check):
    assert check.misses() <= 1 < check.misses("1/100")


@pytest.mark.slow
def test_the_published_tables_are_those_of_the_package():
    """Rates and multipliers of the claims were typed from the code; `parametrization` holds the same."""
    for optimizer, rates in (("sgd", "n 1 n n"), ("adam", "1 1/n 1 1")):
        typed = powers(widths.scheme(optimizer, rates), TWO)
        held = powers({"name": "mup", "optimizer": optimizer}, TWO)
        assert typed.data()["rows"] == held.data()["rows"]
    for name, alpha in (("completep", "1"), ("depth_mup", "1/2")):
        typed, held = powers(depths.complete(alpha, eps="1", decay="1"), TWO), powers({"name": name, "eps": "1"}, TWO)
        assert typed.data()["rows"] == held.data()["rows"]
    assert powers(depths.complete("1/2"), TWO).data()["rows"] != powers(depths.complete("1"), TWO).data()["rows"]
    assert len(list(tables())) == 15
