"""The site: the front page's calls work, the reference holds every public name once, each with an executed example, and
the pictures of the gallery have a title. What Sphinx warns of stops `.ci/run`, which builds it."""

from __future__ import annotations

import inspect
import re
import types

import pytest

import meanfield as mf
from tests import DOCS

ROOMS = ("bias", "data", "empirical", "kernels", "networks", "prediction", "presentation", "symbolic", "training")
ROOMS += ("tuning", "recipes", "parametrizations")
QUESTION = re.compile(r"(?m)^\| (?P<question>[^|]*) \| `(?P<call>mf\..*?)` \| \[")
CALLS = [m.groupdict() for m in QUESTION.finditer((DOCS / "index.md").read_text(encoding="utf-8"))]


def names() -> dict[str, object]:
    """Every public name by the path under which the reference shows it: the top first, then the rooms."""
    found, seen = {}, set()
    for room in ("", *ROOMS):
        face = getattr(mf, room) if room else mf
        for name in face.__all__:
            one = getattr(face, name)
            if not isinstance(one, types.ModuleType) and id(one) not in seen:
                seen.add(id(one))
                found[f"{room}.{name}".lstrip(".")] = one
    return found


@pytest.mark.slow_with("A phase diagram?", "And a language model?", "The correction of order 1/n?")
@pytest.mark.parametrize("one", CALLS, ids=[c["question"][:50] for c in CALLS])
def test_the_calls_of_the_front_page(one, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert eval(one["call"], {"mf": mf}) is not None


def test_the_front_page_has_a_call_for_two_dozen_questions():
    assert len(CALLS) >= 24


def test_the_reference_holds_every_public_name_once():
    text = (DOCS / "reference" / "index.md").read_text(encoding="utf-8")
    listed = [row.strip() for row in text.splitlines() if re.fullmatch(r"   [\w.]+", row)]
    assert sorted(listed) == sorted(names())


def without_example(found) -> list[str]:
    shown = {path: inspect.getdoc(one) or "" for path, one in found.items()}
    return [path for path, text in shown.items() if ">>>" not in text and "docs/writing_a_layer.md" not in text]


def test_every_public_name_has_an_executed_example():
    verbs = {f"Theory.{n}": getattr(mf.Theory, n) for n in dir(mf.Theory) if not n.startswith("_")}
    assert without_example(names() | {n: v for n, v in verbs.items() if callable(v)}) == []
    assert without_example({"planted": test_the_front_page_has_a_call_for_two_dozen_questions}) == ["planted"]


def test_pictures_have_a_title_and_are_numbered():
    scripts = sorted((DOCS / "gallery").glob("*.py"))
    assert len(scripts) >= 12
    for i, path in enumerate(scripts, 1):
        assert path.name.startswith(f"{i:02d}_")
        assert re.match(r'"""\n[^\n]+\n=+\n\n', path.read_text(encoding="utf-8")), path.name
