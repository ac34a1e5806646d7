"""The training claims of thirty figures: each holds at the quick scale and its control does not; the table has all."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace

import numpy as np
import pytest

from derivations.judging import judge
from derivations.training import CLAIMS, FIGURES, claims_of_figures
from derivations.training.experiments import QUICK, rank_correlation
from derivations.training.table import HOLDS, NOT_SEEN, OUT, REFUTED

QUICKLY = ("[bias_and_trainability] Fig. 5", "[orthogonal_weights] Fig. 15")


def ids(one):
    return one.source


@pytest.mark.slow
@pytest.mark.parametrize("claim", [one for one in CLAIMS if one.source in QUICKLY], ids=ids)
def test_claims_that_are_judged_in_seconds(claim):
    assert judge(claim).complaint is None
    turned = replace(claim, printed=claim.contrast, contrast=claim.printed)
    assert "the contrast should be refuted, and is measured" in str(judge(turned).complaint)


@pytest.mark.slow
@pytest.mark.parametrize("claim", [one for one in CLAIMS if one.source not in QUICKLY], ids=ids)
def test_claims_of_figures(claim):
    assert judge(claim).complaint is None


def test_every_figure_that_needs_training_stands_in_the_table():
    """Three figures of three papers, ten of bias, twelve of orthogonal weights."""
    wanted = {"partial_jacobians": (3, 4, 6, 9), "bias_and_trainability": range(5, 15), "variance_variation": (2, 3)}
    wanted |= {"orthogonal_weights": (*range(4, 10), *range(15, 21)), "autoinit": (3, 4)}
    rows = [(paper, int(figure)) for paper, figure, *_ in FIGURES]
    assert sorted(rows) == sorted((paper, n) for paper, each in wanted.items() for n in each) and len(rows) == 30
    assert {row[2] for row in FIGURES} <= {HOLDS, REFUTED, NOT_SEEN, OUT} and all(row[3] for row in FIGURES)
    claimed = {(c.source[1:].split("]")[0]) for c in CLAIMS}
    assert claimed == set(wanted)


def test_ranks_are_spearmans():
    a, b = [1.0, 4, 2, 8], [10.0, 20, 20, 40]
    ranks = np.array([1, 3, 2, 4.0]), np.array([1, 2.5, 2.5, 4])
    assert rank_correlation(a, b) == pytest.approx(np.corrcoef(*ranks)[0, 1])


@pytest.mark.parametrize(("arguments", "code"), [(("--only", "Fig. 99"), 2), (("table",), 0), (("--only", "[x]"), 0)])
def test_the_command(arguments, code, monkeypatch, capsys):
    held = replace(CLAIMS[0], source="[x]", printed=1, contrast=0, of=lambda one: one == 1)
    package = sys.modules["derivations.training"]
    monkeypatch.setattr(package, "claims", lambda scale: (held,))
    monkeypatch.setattr(sys, "argv", ["training", *arguments])
    with pytest.raises(SystemExit, match=str(code)):
        runpy.run_module("derivations.training.__main__", run_name="__main__")
    out = capsys.readouterr()
    assert "has 'Fig. 99' in its source" in out.err if code else ("1 as expected" in out.out or "VGG" in out.out)


def test_a_claim_that_does_not_hold_exits_1(monkeypatch, capsys):
    wrong = replace(CLAIMS[0], source="[x]", printed=0, contrast=1, of=lambda one: one == 1)
    monkeypatch.setattr(sys.modules["derivations.training"], "claims", lambda scale: (wrong,))
    monkeypatch.setattr(sys, "argv", ["training"])
    with pytest.raises(SystemExit, match="1"):
        runpy.run_module("derivations.training.__main__", run_name="__main__")
    assert "NOT AS EXPECTED" in capsys.readouterr().out


def test_the_quick_scale_is_the_default():
    assert claims_of_figures.claims.__defaults__ == (QUICK,)
