"""Every `pytest.raises` of the tests says which text it expects: a control that any error satisfies shows nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import TESTS

FILES = sorted(TESTS.rglob("*.py"))
ANY = {"", ".", ".*", ".+", "^", "$", "assert", "Error"}  # patterns that say nothing
BLANK = "^$"  # of exceptions that are raised without a text, never of these:
WITH_TEXT = {"AssertionError", "MeanFieldError", "ValueError", "Exception"}


def calls(text: str) -> Iterator[tuple[int, ast.Call]]:
    """(line, call) of every `raises(...)`: only these are parsed, not whole files."""
    for start in re.finditer(r"\b(pytest\.)?raises\(", text):
        end = start.end()
        while (end := text.find(")", end) + 1) > 0:
            try:
                node = ast.parse(text[start.start() : end], mode="eval").body
            except SyntaxError:  # a bracket inside of it
                continue
            if isinstance(node, ast.Call):
                yield text.count("\n", 0, start.start()) + 1, node
            break


def unnamed(text: str) -> Iterator[str]:
    """The lines with a `pytest.raises` that any exception of its kind satisfies, and why."""
    for line, node in calls(text):
        found = {k.arg: k.value for k in node.keywords}.get("match")
        if found is None:
            yield f"line {line}: no match"
        elif isinstance(found, ast.Constant) and found.value in ANY:
            yield f"line {line}: match={found.value!r} says nothing"
        elif isinstance(found, ast.Constant) and found.value == BLANK:
            names = {n.attr if isinstance(n, ast.Attribute) else getattr(n, "id", "") for n in ast.walk(node.args[0])}
            if names & WITH_TEXT:
                yield f"line {line}: {min(names & WITH_TEXT)} without a text"


def assert_named(text: str, name: str = "") -> None:
    found = list(unnamed(text))
    assert not found, f"{name}: {'; '.join(found)}"


def test_every_control_and_refusal_names_its_text():
    assert len(FILES) > 150
    for path in FILES:
        if path != Path(__file__):  # whose planted ones are texts
            assert_named(path.read_text("utf-8"), str(path.relative_to(TESTS)))
    assert sum(1 for path in FILES for _ in calls(path.read_text("utf-8"))) > 600


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ("with pytest.raises(AssertionError):\n    pass", "no match"),
        ("with pytest.raises((KeyError, mf.MeanFieldError)) as error:\n    pass", "no match"),
        ("def f():\n    with raises(ValueError, match='.*'):\n        pass", r"match='\.\*' says nothing"),
        ("with pytest.raises(mf.MeanFieldError, match='^$'):\n    pass", "MeanFieldError without a text"),
    ],
)
def test_one_that_says_nothing_is_seen(planted, said):
    with pytest.raises(AssertionError, match=said):
        assert_named(planted, "planted")
    assert_named("with pytest.raises(KeyboardInterrupt, match='^$'):\n    pass")
