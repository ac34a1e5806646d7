"""Answers that are kept: found again by their question and engine alone, never in the place of another, never needed."""

import json
import math
import subprocess
import sys

import pytest

import meanfield as mf
from meanfield.base.errors import MeanFieldError
from meanfield.numeric.lowering import cache
from meanfield.theory.verbs import kept, places

THEORY = mf.derive("erf")
PLACE = {"sigma_w": "1.3", "sigma_b": "0.2"}


@pytest.fixture
def folder(monkeypatch, tmp_path):
    """An empty cache folder, in which every answer is kept, however fast it came."""
    monkeypatch.setattr(cache, "folder", lambda: tmp_path)
    monkeypatch.setattr(kept, "LEAST", -1.0)
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    """How often the engine was asked for fixed points."""
    calls = []
    own = places.fixed_points
    monkeypatch.setattr(places, "fixed_points", lambda *given: calls.append(given) or own(*given))
    return calls


def assert_computed(asked: list, times: int) -> None:
    assert len(asked) == times, f"the engine was asked {len(asked)} times, and {times} were to be"


def test_an_answer_is_found_once(folder, asked):
    first = THEORY.fixed_points(**PLACE)
    again = mf.derive("erf").fixed_points(**PLACE)
    assert_computed(asked, 1)
    assert again == first and str(again) == str(first) and again.data() == first.data()
    THEORY.fixed_points(sigma_w="1.4", sigma_b="0.2")  # another place, another architecture, a float for a decimal
    mf.derive("erf", residual=True).fixed_points(**PLACE)
    THEORY.fixed_points(sigma_w=1.3, sigma_b=0.2)
    assert_computed(asked, 4)
    with pytest.raises(AssertionError, match="were to be"):
        assert_computed(asked, 1)


def test_every_verb_gives_what_it_gave(folder):
    verbs = ("fixed_points", "phase", "bias", "correlations")
    found = [getattr(THEORY, verb)(**PLACE) for verb in verbs] + [THEORY.critical_line(), THEORY.critical_points()]
    files = {p.name: p.read_bytes() for p in folder.glob("answer_*")}
    assert len(files) >= 6  # the bias asks for the phase and for correlations at exact numbers
    again = [getattr(THEORY, verb)(**PLACE) for verb in verbs] + [THEORY.critical_line(), THEORY.critical_points()]
    assert again == found and {p.name: p.read_bytes() for p in folder.glob("answer_*")} == files
    law = THEORY.depth_law("K", **PLACE)
    assert THEORY.depth_law("K", **PLACE) == law


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text", "other"])
def test_a_damaged_file_counts_as_none(folder, asked, damage):
    true = THEORY.fixed_points(**PLACE)
    (file,) = folder.glob("answer_*")
    whole = file.read_bytes()
    if damage == "other":  # whole, and the answer to something else
        file.unlink()
        THEORY.fixed_points(sigma_w="0.9", sigma_b="0.2")
        (other,) = folder.glob("answer_*")
        wrong = other.rename(file).read_bytes()
        asked.clear()
        asked.append(None)
    else:
        changed = {"cut": whole[:-9], "flipped": whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:]}
        wrong = changed.get(damage, b"" if damage == "empty" else b"no answer")
        file.write_bytes(wrong)
    assert kept.recalled(file) is None
    assert THEORY.fixed_points(**PLACE) == true
    assert_computed(asked, 2)
    assert file.read_bytes() == whole != wrong
    assert kept.recalled(file) == true


def test_an_answer_of_another_engine_is_not_asked(folder, asked, monkeypatch):
    """A changed source is another hash, and another name."""
    THEORY.fixed_points(**PLACE)
    for engine in ("another", "a third"):
        monkeypatch.setattr(cache, "_engine", lambda engine=engine: engine)
        THEORY.fixed_points(**PLACE)
        THEORY.fixed_points(**PLACE)
    assert_computed(asked, 3)
    monkeypatch.setattr(cache, "_added", lambda: "a function that was added")
    THEORY.fixed_points(**PLACE)
    assert_computed(asked, 4)


def test_a_folder_that_cannot_be_written_fails_no_call(folder, asked, monkeypatch):
    def full(path, content):
        raise MeanFieldError("the disk is full")

    monkeypatch.setattr(kept, "write_whole", full)
    assert THEORY.fixed_points(**PLACE) == THEORY.fixed_points(**PLACE)
    assert_computed(asked, 2)
    monkeypatch.undo()
    monkeypatch.setattr(cache, "folder", lambda: folder / "gone")
    monkeypatch.setattr(kept, "LEAST", -1.0)
    assert len(THEORY.fixed_points(**PLACE)) == 1


def test_what_is_fast_or_not_text_is_not_kept(folder, monkeypatch):
    monkeypatch.setattr(kept, "LEAST", 1e3)
    THEORY.fixed_points(**PLACE)
    monkeypatch.setattr(kept, "LEAST", math.inf)
    THEORY.fixed_points(**PLACE)
    monkeypatch.setattr(kept, "LEAST", -1.0)
    point = mf.derive("tanh").critical_points()[0]
    before = set(folder.glob("answer_*"))
    mf.derive("tanh").depth_law("K", at=point)
    assert set(folder.glob("answer_*")) == before


def test_what_is_unknown_is_not_kept(folder):
    found = mf.derive("tanh", mu="mu").correlations(sigma_w=1, sigma_b=0, mu=1)
    assert found.status is mf.Status.UNKNOWN
    names = {p.name for p in folder.glob("answer_*")}
    mf.derive("tanh", mu="mu").correlations(sigma_w=1, sigma_b=0, mu=1)
    assert {p.name for p in folder.glob("answer_*")} == names


LOADED = """
import json, sys
sys.argv = ["meanfield", {argument!r}]
from meanfield.__main__ import main
try:
    main()
except SystemExit:
    pass
print(json.dumps([name for name in ("sympy", "numpy", "numba", "typer", "scipy") if name in sys.modules]))
"""


def assert_loads_nothing(argument: str) -> None:
    lines = subprocess.check_output([sys.executable, "-c", LOADED.format(argument=argument)], text=True).splitlines()
    assert lines[-1] == "[]", f"{argument} loads {', '.join(json.loads(lines[-1]))}"


def test_a_version_needs_nothing():
    assert_loads_nothing("--version")
    with pytest.raises(AssertionError, match="--help loads sympy"):
        assert_loads_nothing("--help")
