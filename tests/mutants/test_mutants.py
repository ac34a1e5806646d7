"""Errors that tests.mutants plants: operators do what they say, a seed says which, and a planted error is seen."""

import ast
import json

import pytest

from tests.mutants import __main__ as program
from tests.mutants import operators
from tests.mutants.coverage_map import ROOT, Map, bits

SAMPLE = '''\
"""A docstring with a < b, which stays."""
import os
def f(x: dict[str, int], y, error):
    if y < 2 and x:
        raise ValueError("x - y" + "z")
    bound = y * 3
    return g(x[0], min(-y, x[y, 1]), error=error + 1, status=Status.MEASURED) if y else not x
'''
EXPECTED = {
    "comparison_turned": ["(y >= 2)"],
    "comparison_at_its_edge": ["(y <= 2)"],
    "term_dropped": ["(y < 2)", "(error)"],
    "operation_changed": ["(y / 3)", "(error - 1)"],
    "sign_dropped": ["(y)", "(x)"],
    "index_swapped": ["(x[1])", "(x[1, y])"],
    "arguments_swapped": [],
    "extreme_changed": ["(max(-y, x[y, 1]))"],
    "bound_divided": ["bound = y * 3 / 10", "error=(error + 1) / 10"],
    "refusal_removed": ["pass"],
    "status_raised": ["(Status.CERTIFIED)"],
    "number_changed": ["(y * 4)", "(error + 2)"],
    "branch_taken": ["(g(x[0], min(-y, x[y, 1]), error=error + 1, status=Status.MEASURED))"],
}


def _of_sample(tmp_path, text=SAMPLE):
    path = tmp_path / "sample.py"
    path.write_text(text, "utf-8")
    return operators.mutants(tmp_path, path)


def test_operators(tmp_path):
    found = _of_sample(tmp_path)
    names = [operator.__name__ for operator in operators.OPERATORS]
    assert {name: [m.new for m in found if m.operator == name] for name in names} == EXPECTED
    (swapped,) = _of_sample(tmp_path, "f(a, b)\n")
    assert swapped.source("f(a, b)\n") == "(f(b, a))\n"
    assert str(swapped) == "sample.py:1 arguments_swapped: f(a, b) → (f(b, a))"


def test_an_error_changes_one_place_and_still_compiles(tmp_path):
    for one in _of_sample(tmp_path):
        changed = one.source(SAMPLE)
        assert changed != SAMPLE and ast.dump(ast.parse(changed)) != ast.dump(ast.parse(SAMPLE))
        assert changed.startswith(SAMPLE[: SAMPLE.index("def")])


@pytest.mark.slow
def test_a_seed_says_which_errors():
    within = "meanfield/symbolic/fixed_points"
    first = operators.drawn(ROOT, 3, 12, within)
    assert first == operators.drawn(ROOT, 3, 12, within) != operators.drawn(ROOT, 4, 12, within)
    assert len(set(first)) == 12 and all(one.path.startswith(within) for one in first)


def test_the_map_names_the_quickest_tests_first(tmp_path):
    records = [
        {"test": "a", "seconds": 2.0, "lines": {"meanfield/m.py": bits([3, 4])}},
        {"test": "b", "seconds": 1.0, "lines": {"meanfield/m.py": bits([4])}},
        {"test": "c", "seconds": 0.5, "lines": {"meanfield/m.py": bits([9])}},
    ]
    (tmp_path / "w.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records), "utf-8")
    tests = Map(tmp_path)
    assert tests.tests("meanfield/m.py", 3, 3) == ["a"] and tests.tests("meanfield/m.py", 3, 4) == ["b", "a"]
    assert tests.tests("meanfield/m.py", 20, 20) == ["c", "b", "a"], "no test runs the line: all that run the file"
    assert tests.tests("meanfield/other.py", 1, 1) == []
    assert tests.tests("meanfield/a/other.py", 1, 1) == ["a"], "nothing is seen to run the file: those of its folder"
    with pytest.raises(FileNotFoundError, match=r"python -m tests\.mutants --map"):
        Map(tmp_path / "nothing")


def test_a_planted_error_is_seen_and_the_file_put_back(tmp_path, monkeypatch):
    (tmp_path / "m.py").write_text("def twice(x):\n    return x * 2 if x >= 0 else -abs(x) * 2\n", "utf-8")
    (tmp_path / "test_m.py").write_text("from m import twice\ndef test_it():\n    assert twice(2) == 4\n", "utf-8")
    records = {"test": "test_m.py::test_it", "seconds": 0.1, "lines": {"m.py": bits([2])}}
    (tmp_path / "w.jsonl").write_text(json.dumps(records) + "\n", "utf-8")
    before, verdicts = (tmp_path / "m.py").read_text("utf-8"), {}
    for one in operators.mutants(tmp_path, tmp_path / "m.py"):
        if one.new in ("(x < 0)", "(abs(x))"):
            verdicts[one.new] = program.judged(tmp_path, one, Map(tmp_path), 60)["verdict"]
    assert (tmp_path / "m.py").read_text("utf-8") == before
    assert verdicts == {"(x < 0)": "failed", "(abs(x))": "passed"}


def test_an_error_that_hangs_is_seen(tmp_path, monkeypatch):
    (tmp_path / "m.py").write_text("def down(x):\n    return x - 1\n", "utf-8")
    records = {"test": "test_m.py::test_it", "seconds": 0.1, "lines": {"m.py": bits([2])}}
    (tmp_path / "w.jsonl").write_text(json.dumps(records) + "\n", "utf-8")
    one = operators.mutants(tmp_path, tmp_path / "m.py")[0]
    monkeypatch.setattr(program, "run", lambda tree, tests, seconds: ("out of time", ""))
    record = program.judged(tmp_path, one, Map(tmp_path), 600)
    assert record["seen"] and record["verdict"] == "hangs"
    assert not program.judged(tmp_path, one, Map(tmp_path), 50)["seen"], "control: the budget was too short"


def test_tests_that_are_slow_by_now_see_nothing(tmp_path):
    (tmp_path / "test_m.py").write_text("def test_it():\n    raise ValueError\n", "utf-8")
    assert program.run(tmp_path, ["-k", "nothing", "test_m.py"], 60) == ("passed", "")
    assert program.run(tmp_path, ["test_m.py"], 60)[0] == "failed", "control"
