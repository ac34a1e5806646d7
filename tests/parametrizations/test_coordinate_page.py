"""docs/coordinate_checks.md: broken networks are told apart by the layer, the column and the power that is named first;
right ones follow their lines; and what was planted in a log is found where it was planted."""

from __future__ import annotations

import csv
import math

import numpy as np
import pytest

import meanfield as mf
from derivations.parametrizations.broken import EXAMPLES, NETWORKS, RIGHT, WIDE, Example
from meanfield.parametrizations.coordinates.coordinate_verdicts import first_of
from tests import DOCS

PAGE = " ".join((DOCS / "coordinate_checks.md").read_text(encoding="utf-8").split())
WIDTHS = (64, 128, 256, 512, 1024)


def names(examples):
    return [one.what for one in examples]


def assert_named(found, first) -> None:
    """The finding that comes first has this layer and column, and departs by this power, or this factor if none."""
    layer, column, of, power, factor = first
    assert (found.layer, found.column, found.of) == (layer, column, of), f"named first: {found}"
    assert abs(found.power - power) < 0.07, f"a power of {power} was expected: {found}"
    assert bool(found.power) == bool(power), f"a power of {power} was expected: {found}"
    assert found.factor == pytest.approx(factor, rel=0.05), f"a factor of {factor} was expected: {found}"


@pytest.mark.fast_with("readout multiplier 1/sqrt(n), Adam")
@pytest.mark.parametrize("example", EXAMPLES, ids=names(EXAMPLES))
def test_broken_ones_are_told_apart(example: Example):
    check = example.compared
    first = first_of(check.findings)
    assert_named(first, example.first)
    assert not check.passed and check.verdict.endswith(first.text) and check.verdict in PAGE
    assert example.log.passed  # they follow the line of what they are
    with pytest.raises(AssertionError, match="named first"):  # planted: each is taken for another one
        assert_named(first, EXAMPLES[EXAMPLES.index(example) - 2].first)


def test_no_two_broken_ones_look_alike():
    of_adam = [one for one in EXAMPLES if one.optimizer == "adam"]
    assert len(of_adam) == 6
    assert len({(*one.first[:3], round(2 * one.first[3])) for one in of_adam}) == 6


@pytest.mark.fast_with("depth-muP")
@pytest.mark.parametrize("example", RIGHT, ids=names(RIGHT))
def test_right_ones_follow_their_line(example: Example):
    own, over = example.log, example.compared
    assert own.passed and over.passed and over.findings == () and over.verdict == "networks follow the line"
    flat = [one for one in own.slopes if (one.of, one.column) != ("L", "own")]
    assert not flat  # own of a block falls as 1/sqrt(L) in depth-muP, which L blocks make good
    assert [round(one.power, 1) for one in own.slopes] == ([-0.5] if example.what == "depth-muP" else [])


def test_gauges_of_mup_are_one_table():
    tables = [np.array([row.theory for row in one.line]) for one in RIGHT[:3]]
    for other in tables[1:]:
        np.testing.assert_allclose(other, tables[0], rtol=1e-12)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        np.testing.assert_allclose(np.array([row.theory for row in EXAMPLES[0].log]), tables[0], rtol=1e-3)


@pytest.fixture(scope="module")
def line():
    scheme = mf.parametrization("mup", optimizer="adam", base_width=64)
    return mf.coordinate_check("tanh", scheme, **{**WIDE, "widths": WIDTHS}, networks=NETWORKS, neurons=2048)


def logged(check, seed: int, *, layer: int = 0, column: str = "own", factor: float = 1.0) -> list[dict]:
    """What one network would log: numbers that scatter about the line as single networks do, of which one column is
    wrong by a factor."""
    rng = np.random.default_rng(seed)
    return [
        {
            "width": row.width, "layer": row.layer, "column": row.column,
            "value": (row.theory + 0.5 * math.sqrt(NETWORKS) * row.error * rng.standard_normal())
            * (factor if (row.layer, row.column) == (layer, column) else 1.0),
        }
        for row in check
        if row.column in ("own", "total")
    ]  # fmt: skip


@pytest.mark.slow_with("1")
@pytest.mark.parametrize("layer", [1, 2, 3])
def test_ten_per_cent_of_one_layer_are_found(line, layer):
    for factor in (0.9, 1.1):
        check = line.compare(logged(line, layer, layer=layer, factor=factor))
        assert [(one.layer, one.column, one.power) for one in check.findings] == [(layer, "own", 0.0)]
        assert check.findings[0].factor == pytest.approx(factor, abs=0.04)
        assert check.verdict.startswith("1 column is beside the line")
    for factor in (1, 1.01):
        assert line.compare(logged(line, layer, layer=layer, factor=factor)).passed


def test_ten_per_cent_are_not_found_where_nothing_is_known_of_the_scatter(line):
    """Without networks a number may be 10 % off, so that four deviations are 40 %."""
    alone = mf.coordinate_check("tanh", line.parametrization, **WIDE)
    for factor, passes in ((1.1, True), (1.8, False)):
        rows = [row for row in logged(line, 1, layer=2, factor=factor) if row["width"] == 512]
        assert alone.compare(rows).passed == passes


def test_a_file_and_runs_of_it(line, tmp_path):
    path = tmp_path / "run.csv"
    for factor, off in ((1.0, 0), (1.1, 1)):
        rows = [one for seed in range(4) for one in logged(line, seed, layer=3, factor=factor)]
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        check = line.compare(path)
        assert len(check.findings) == off
    assert check.message == f"Measured elsewhere: {len(rows)} numbers."


def test_a_factor_is_said_of_the_width_where_it_holds():
    """Planted: one width alone is wrong; a dead column; one that is no number."""
    base = EXAMPLES[3].line
    rows = [{"width": r.width, "layer": 2, "column": "own", "value": r.theory} for r in base.column("own", layer=2)]
    planted = [{**row, "value": row["value"] * (1.6 if row["width"] == 256 else 1), "error": 1e-4} for row in rows]
    assert base.compare(planted).verdict.endswith("own change is 1.6 times the line at width 256")
    same = [{**row, "value": 1.6 * row["value"], "error": 1e-4} for row in rows]
    assert "at every width" in base.compare(same).verdict
    dead = [{**row, "value": 0.0, "error": 0.0} for row in rows]
    assert base.compare(dead).verdict.endswith("layer 2: own change vanishes, and the line does not")


def test_errors_of_few_networks_count_as_such():
    """A frame of a check says of how many networks its errors are; without that they are taken as known."""
    base, run = EXAMPLES[3].line, EXAMPLES[3].log
    rows = [row.data() for row in run]
    assert {row.networks for row in base.compare(rows)} == {NETWORKS}
    for row in rows:
        row.pop("networks")
    assert min(row.networks for row in base.compare(rows)) > NETWORKS


def test_adam_without_an_epsilon_leaves_alone_what_has_no_gradient():
    """relu has neurons that are off: 0/0 once made every later step no number, and that was read as 0."""
    scheme = mf.parametrization("mup", optimizer="adam", base_width=64)
    one, two = (
        mf.coordinate_check("relu", scheme, widths=(64,), rate=0.0003, networks=2, steps=steps, neurons=256)
        for steps in (1, 2)
    )
    for before, after in zip(one.column("own"), two.column("own")):
        assert 1.7 * before.measured < after.measured < 2.1 * before.measured


def test_what_the_page_says_in_words():
    """Own shows the power of the blocks' rate, total a fraction of it; a layer that is dead goes on moving."""
    powers = {(one.column, one.of): one.power for one in EXAMPLES[5].compared.findings if one.of == "L"}
    assert powers["own", "L"] == pytest.approx(0.5, abs=0.02) and powers["total", "L"] == pytest.approx(0.26, abs=0.03)
    scheme = EXAMPLES[2].scheme_of(EXAMPLES[2].broken)
    dead = mf.coordinate_check("tanh", scheme, widths=(64, 1024, 16384), depth=4, rate=0.001)
    assert [f"{row.theory:.3f}" for row in dead.column("total", layer=2)] == ["0.067", "0.048", "0.044"]
    assert [f"{row.theory:.4f}" for row in dead.column("own", layer=2)] == ["0.0355", "0.0089", "0.0022"]
    assert {one.column for one in EXAMPLES[0].compared.findings} == {"Df", "Df_readout", "Df_features", "gain"}
    assert "z" not in {one.column for one in EXAMPLES[5].compared.findings}
