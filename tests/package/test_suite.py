"""The suite itself: a test lies in the room that it is about, and what makes it slow names parameters that it has."""

from __future__ import annotations

from pathlib import Path

import pytest

import meanfield
from tests import TESTS
from tests.conftest import mark_slow

PACKAGE = Path(meanfield.__file__).parent
#: what is about no single room: papers, pages, all of the package; judges, recorded numbers, searches for errors
OTHERS = {"derivations", "docs", "package", "oracles", "references", "fuzz", "mutants", "net"}
MOST = 26  # files of a folder


def misplaced(tests: Path) -> list[str]:
    """Folders that no room is named like, folders that hold too many files, and files whose name exists twice."""
    files = sorted(path for path in tests.rglob("*.py") if path.name not in ("__init__.py", "conftest.py"))
    found, folders = [], sorted({path.parent.relative_to(tests) for path in files} - {Path()})
    found += [f"{f} is no room" for f in folders if str(f) not in OTHERS and not (PACKAGE / f).is_dir()]
    found += [f"{f} holds too much" for f in folders if sum(p.parent == tests / f for p in files) > MOST]
    found += [f"{path.name} lies in no room" for path in files if path.parent == tests and path.stem != "rooms"]
    names = [path.name for path in files if path.name.startswith("test_")]
    return found + [f"{name} exists twice" for name in sorted({n for n in names if names.count(n) > 1})]


def test_tests_lie_in_rooms(tmp_path):
    assert misplaced(TESTS) == []
    for name in ("kernels/test_a.py", "symbolic/kernels/test_b.py", "numeric/test_a.py", "test_c.py", "rooms.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    planted = ["symbolic/kernels is no room", "test_c.py lies in no room", "test_a.py exists twice"]
    assert misplaced(tmp_path) == planted, "control"
    for k in range(MOST + 1):
        (tmp_path / "kernels" / f"k{k}.py").touch()
    assert "kernels holds too much" in misplaced(tmp_path), "control"


def test_every_folder_is_a_package():
    """So that modules import each other by one name, and no two are one module."""
    folders = {path.parent for path in TESTS.rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []


class Item:
    """What a test is to `mark_slow`: its id, and its markers."""

    def __init__(self, name: str, *marks: pytest.MarkDecorator):
        self.nodeid, self.marks = f"f.py::test[{name}]" if name else "f.py::test_of_no_parameter", list(marks)

    def iter_markers(self):
        return iter([one.mark for one in self.marks])

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark)


@pytest.mark.parametrize(
    ("mark", "slow"),
    [(pytest.mark.slow_with("tanh", "l → ∞"), {"tanh", "∞"}), (pytest.mark.fast_with("tanh"), {"relu", "∞"})],
    ids=["slow_with", "fast_with"],
)
def test_parameters_make_a_test_slow(mark, slow):
    items = {"tanh": Item("tanh", mark), "relu": Item("relu", mark), "∞": Item(r"l \u2192 \u221e", mark)}
    assert mark_slow(items.values()) == []
    assert {name for name, item in items.items() if pytest.mark.slow in item.marks} == slow


def test_a_parameter_that_is_not_there_is_named():
    mark = pytest.mark.slow_with("tan", "relu")
    items = [Item("tanh", mark), Item("relu", mark), Item("", pytest.mark.slow)]
    assert mark_slow(items) == ["f.py::test: 'tan'"]
