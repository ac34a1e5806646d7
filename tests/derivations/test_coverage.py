"""Coverage of the papers: every number of theirs stands in a list once, and each has one state, found from the claims.

No claim is judged here. The numbering of each paper is written down a second time, as ranges.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import pytest

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Equation
from derivations.coverage import (
    DECIDED,
    KINDS,
    OPEN,
    OUTSIDE,
    STATES,
    Coverage,
    Item,
    deciding,
    equation_labels,
    holds,
    state,
)
from derivations.orthogonal_weights import figures as single
from derivations.orthogonal_weights import several_inputs as several
from derivations.training.table import FIGURES
from tests import DOCS

#: the equations of each paper, its tables and figures, and its statements, in its order
NUMBERING = {
    "partial_jacobians": (
        "(1)-(32) (B.1)-(B.40) (C.1)-(C.7) (D.1)-(D.8) (E.1)-(E.14) (F.1)-(F.15) (G.1)-(G.25) (H.1)-(H.31) "
        "(I.1)-(I.37)",
        (),
        tuple(f"Figure {n}" for n in range(1, 10)),
        "Theorem 1.3, Lemma 2.2, Theorem 2.4, Theorem 2.5, Proposition 2.6, Theorem 2.7, Theorem 4.4, Lemma B.1, "
        "Theorem B.4, Theorem B.6, Lemma B.11, Theorem B.12, Theorem B.13, Theorem B.14, Theorem B.19, Theorem B.20, "
        "Theorem B.21, Lemma C.1, Theorem D.4, Theorem D.5, Theorem D.6, Theorem E.1, Theorem E.4, Theorem E.7",
    ),
    "bias_and_trainability": (  # it has no (95) and no Lemma F.4: that is a definition
        "(1)-(94) (96)-(114)",
        ("Table 1", "Table 2"),
        tuple(f"Figure {n}" for n in range(1, 32)),
        "Theorem 3.1, Proposition 4.1, Lemma C.1, Lemma C.2, Theorem D.2, Lemma D.3, Lemma D.4, Theorem E.1, "
        "Lemma E.2, Proposition E.3, Lemma F.1, Lemma F.2, Lemma F.3, Lemma F.5, Lemma F.6, Lemma F.7, Lemma F.8, "
        "Lemma F.9, Lemma H.1",
    ),
    "orthogonal_weights": (
        "(2.1)-(2.10) (3.1)-(3.24) (4.1)-(4.28) (5.1)-(5.17) (A.1)-(A.5)",
        (),
        tuple(f"Figure {n}" for n in range(1, 21)),
        "",
    ),
    "variance_variation": (
        "",
        ("Table A.1", "Table A.2"),
        ("Figure 1", "Figure 2", "Figure 3", "Figure A.1", "Figure A.2", "Figure B.3", "Figure B.4"),
        "Theorem C.2, Theorem C.3, Theorem C.5, Theorem C.6, Theorem C.7, Theorem C.9, Theorem C.10, Theorem C.11, "
        "Lemma D.1, Lemma D.2, Lemma D.3, Lemma D.4, Lemma D.5, Lemma D.6, Lemma D.7, Lemma D.8",
    ),
    "autoinit": (
        "(1)-(72)",
        (),
        tuple(f"Figure {n}" for n in range(1, 6)),
        "Conjecture 3.1, Conjecture B.1, Conjecture B.2",
    ),
}
PAPERS = tuple(NUMBERING)
RELU = network("relu")


def claim(source: str) -> Equation:
    return Equation(source, RELU, "K", 1, 2)


def numbered(ranges: str) -> list[str]:
    """(1)-(3) as (1), (2), (3)."""
    out = []
    for words in ranges.split():
        head, first, last = re.fullmatch(r"\((\w+\.)?(\d+)\)(?:-\(.*?(\d+)\))?", words).groups()
        out += [f"({head or ''}{n})" for n in range(int(first), int(last or first) + 1)]
    return out


def assert_complete(items, equations: str, tables, figures, statements: str) -> None:
    """Every number once and in order; the parts of figures and theorems together."""
    of = {kind: [item.label for item in items if item.kind == kind] for kind in KINDS}
    wanted = (numbered(equations), [*tables], [*figures], re.findall(r"\w+ [\w.]+", statements))
    for (kind, found), numbers in zip(of.items(), wanted):
        assert [*dict.fromkeys(found)] == numbers, f"{kind}: not every number, or not in order"
    assert len({item.name for item in items}) == len(items), "a number stands there twice"
    assert len(items) == sum(map(len, of.values())), "an item is of no kind"


def assert_named(coverage: Coverage) -> None:
    """Every equation that a source names is an item."""
    labels = {item.label for item in coverage.items}
    for one in coverage.claims:
        assert equation_labels(one.source) <= labels, f"{one.source} names an equation that is no item"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_number_of_a_paper_stands_in_its_list_once(paper):
    items = Coverage.of(paper).items
    assert_complete(items, *NUMBERING[paper])
    for wrong in (items[1:], items[:-1], (*items, items[0]), (items[1], items[0], *items[2:])):
        with pytest.raises(AssertionError, match=r"not every number|stands there twice"):
            assert_complete(wrong, *NUMBERING[paper])


@pytest.mark.parametrize("paper", PAPERS)
def test_every_item_has_one_state_and_every_equation_of_a_source_is_an_item(paper):
    coverage = Coverage.of(paper)
    assert {at for _, at in coverage.states} <= set(STATES)
    assert all(item.about for item in coverage.items)
    assert sum(coverage.counts().values()) == len(coverage.items)
    assert coverage.counts() == {s: sum(coverage.counts(kind)[s] for kind in KINDS) for s in STATES}
    assert_named(coverage)
    with pytest.raises(AssertionError, match=r"R1 \(99\.9\) names an equation that is no item"):
        assert_named(replace(coverage, claims=(*coverage.claims, claim("R1 (99.9)"))))


@pytest.mark.parametrize("paper", PAPERS)
def test_what_is_planted_is_seen(paper):
    """A claim or a value that is lost, and a reason beside a claim: on every item that a claim or a value decides."""
    coverage = Coverage.of(paper)
    for item, at in coverage.states:
        if at == DECIDED and not item.figure:
            by = set(map(id, deciding(item, coverage.claims)))
            rest = tuple(one for one in coverage.claims if id(one) not in by)
            with pytest.raises(mf.MeanFieldError, match=r"which no claim|without a claim"):
                state(item, rest, ())
            for reason in ("open", "outside"):
                with pytest.raises(mf.MeanFieldError, match="is decided and"):
                    coverage.state(replace(item, **{reason: "why not"}))
        elif at != DECIDED:
            with pytest.raises(mf.MeanFieldError, match="without a claim"):
                coverage.state(replace(item, open="", outside=""))
            with pytest.raises(mf.MeanFieldError, match="open and out of scope"):
                coverage.state(replace(item, open="a", outside="b"))


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_that_are_drawn_are_written(paper):
    """By their names in the modules that draw; those of orthogonal weights are made from two tables of numbers."""
    package = Path(import_module(f"derivations.{paper}").__file__).parent
    text = "".join(path.read_text() for path in package.glob("*.py") if path.name != "coverage.py")
    made = {*re.findall(r'"(figure\w+)"', text)}
    if paper == "orthogonal_weights":
        made |= {f"figure{n}" for n in (*single.SIZES, *several.FIGURES)}
    drawn = {item.figure for item in Coverage.of(paper).items if item.figure}
    assert drawn == made - {"figures"}


@pytest.mark.parametrize("paper", PAPERS)
def test_figures_that_need_training_are_those_of_the_table(paper):
    outside = [item for item in Coverage.of(paper).items if item.outside.startswith("training")]
    assert {item.label for item in outside} == {f"Figure {number}" for of, number, *_ in FIGURES if of == paper}


def assert_counted(page: str) -> None:
    """The table of docs/papers.md: for each paper and kind, and for all of them, decided / open / out of scope."""
    rows = {name: cells.split("|") for name, cells in re.findall(r"^\| `?(\w+)`? \|((?: [\d/ ]+ \|)+)$", page, re.M)}
    assert {*rows} == {*PAPERS, "together"}, f"the table has rows of {sorted(rows)}"
    total = Counter()
    for paper in PAPERS:
        coverage = Coverage.of(paper)
        for kind, cell in zip((*KINDS, None), rows[paper]):
            counts = coverage.counts(kind)
            assert tuple(map(int, cell.split("/"))) == tuple(counts.values()), f"the table of {paper}: {cell}"
            total.update({(kind, at): n for at, n in counts.items()})
    for kind, cell in zip((*KINDS, None), rows["together"]):
        found = [total[kind, at] for at in STATES]
        assert [*map(int, cell.split("/"))] == found, f"the table together: {cell}"


def test_the_counts_of_the_page_are_those_of_the_lists():
    page = (DOCS / "papers.md").read_text()
    assert_counted(page)
    for wrong in (page.replace("| `autoinit` | ", "| `autoinit` | 9"), re.sub(r"\| `autoinit` \|.*\n", "", page)):
        with pytest.raises(AssertionError, match="the table"):
            assert_counted(wrong)


def test_labels_are_found_as_wholes():
    assert equation_labels("R39 (H.6), (H.7): σ_w²(K*)") == {"(H.6)", "(H.7)"}
    assert equation_labels("(3.14)-(3.16), order 6") == {"(3.14)", "(3.15)", "(3.16)"}
    assert equation_labels("B35 (75)-(77), the kink") == {"(75)", "(76)", "(77)"}
    for aside in ("R14, after (B.5)", "B55, before (112)", "Thm C.5 (1)", "Thm C.10 (2)", "Fig. 3 (a)", "h(1), χ^(1)"):
        assert not equation_labels(aside)
    assert holds("R23, Lemma D.1, X → 0", "Lemma D.1") and not holds("R23, Lemma D.10", "Lemma D.1")
    assert holds("R27, Thm C.5 (1)", "Theorem C.5") and not holds("R20, proof of C.5", "Theorem C.5")
    assert holds("figure 3 (a): q", "Figure 3") and not holds("Figure 30", "Figure 3")
    assert holds("B1 (2)", "(2)") and not holds("B1 (12)", "(2)") and not holds("R27 (I.2)", "(2)")


def test_the_three_states():
    there, item = (claim("R1 (7)"),), Item("equation", "(7)", "seven")
    assert state(item, there, ()) == DECIDED
    assert state(replace(item, label="(8)", by=("R1",)), there, ()) == DECIDED
    assert state(replace(item, label="(8)", open="no claim yet"), there, ()) == OPEN
    assert state(replace(item, label="(8)", outside="a definition"), there, ()) == OUTSIDE
    assert state(replace(item, label="(8)", figure="figure8"), there, ()) == DECIDED
    with pytest.raises(mf.MeanFieldError, match=r"\(8\) names 'R2', which no claim"):
        state(replace(item, label="(8)", by=("R2",)), there, ())
    with pytest.raises(mf.MeanFieldError, match=r"\(7\) names 'seven', which no claim and no value has"):
        state(replace(item, numbers=("seven",)), there, ())
