"""The suite itself: what makes a test slow names parameters that it has."""

from __future__ import annotations

import pytest

from tests.conftest import mark_slow


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
