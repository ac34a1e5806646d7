"""Architectures on a served page: what is offered, what is asked of the worker, and what is refused."""

from __future__ import annotations

import json

import pytest

from meanfield import derive
from meanfield.base.answers.results import MeanFieldError
from meanfield.explorer.page_content import followed
from meanfield.explorer.serving.selectable import CHOICES, PLAIN, SKIP, at_values, choice_of, chosen, strength
from meanfield.explorer.serving.worker import answer
from tests.explorer.explorer_pages import assert_follows, needs_node, points_of

pytest.importorskip("bokeh", reason="Bokeh is not installed, which serves pages")
RELU = {"act": "relu", "parameters": {}}
HOSTILE = ("__import__('os').system('true')", "<script>alert(1)</script>", "", "skip", None, 7, ["skip μ"], "x" * 5000)


class Recorded:
    """In the place of a worker: what it was asked."""

    def __init__(self, told, patience):
        self.told, self.asked = told, []

    def ask(self, what, settings):
        self.asked.append((what, json.loads(json.dumps(settings))))

    def close(self):
        pass


@pytest.fixture
def opened(monkeypatch):
    """An open page without a browser or a worker."""
    from bokeh.document import Document

    from meanfield.explorer.serving import served

    monkeypatch.setattr(served, "WorkerQueue", Recorded)
    return lambda **theory: served.Served(Document(), RELU | theory, 60)


def answered(page) -> None:
    """Answer the model that was asked for last."""
    what, settings = page.asking.asked[-1]
    page._show(json.loads(answer(json.dumps({"id": 1, "what": what, "settings": settings}))))


def said(page) -> str:
    return page.parts["notes"].text


def assert_asked(page, count: int) -> None:
    """Raise unless so many models were asked for."""
    found = [what for what, _ in page.asking.asked].count("model")
    if found != count:
        raise AssertionError(f"{found} models were asked for, and not {count}")


# ------------------------------------------------------------------------------------------------ choices


def test_flags_of_the_command_line_are_choices():
    assert choice_of(RELU) == choice_of({"architecture": "mlp"}) == PLAIN
    assert choice_of({"residual": True}) == choice_of({"mu": "1/2"}) == choice_of({"architecture": "resnet"}) == SKIP
    assert choice_of({"norm": "act"}) == "LayerNorm behind φ"
    assert choice_of({"residual": True, "norm": "pre"}) == choice_of({"architecture": "preln"})
    assert CHOICES[choice_of({"architecture": "swiglu"})]["architecture"] == "swiglu"
    for theory in ({"architecture": "mlp_mixer"}, {"norm": "other"}, {"architecture": "preln", "residual": True}):
        assert choice_of(theory) is None


@needs_node
@pytest.mark.parametrize("name", CHOICES)
def test_every_choice_is_followed_with_its_symbols(name):
    theory = derive("relu", **CHOICES[name])
    known = followed(theory, {})
    ranges = {"mu": (0.0, 1.2), "sigma_v": (0.1, 1.0), "sigma_a": (0.0, 0.5)}
    points = points_of(14, 6, **{k: ranges[k] for k in known.parameters})
    if name.startswith(SKIP):
        with pytest.raises(AssertionError, match=r"'K': |'log_J': |'c': "):
            assert_follows(theory, known.model.script.replace("p.mu", "(p.mu + 0.1)"), points, 12)
    assert_follows(theory, known.model.script, points, 12)


@pytest.mark.fast_with("0", "3")
@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_an_unknown_architecture_is_refused_in_a_sentence(name, opened):
    with pytest.raises(MeanFieldError, match="The architecture must be one of plain layers; LayerNorm"):
        chosen(name)
    page = opened()
    page._choose(name)
    assert_asked(page, 1)
    assert "The architecture must be one of" in said(page) and "<script>" not in said(page) and len(said(page)) < 700


@pytest.mark.parametrize("mu", ["-1", "nan", "inf", "1/0", "__import__('os')", "", "nu", "1e999"])
def test_a_strength_that_is_no_number_is_refused_in_a_sentence(mu, opened):
    with pytest.raises(MeanFieldError, match=r"mu (must|was to) be|--mu as a number"):
        strength(mu)
    with pytest.raises(MeanFieldError, match=r"mu (must|was to) be|--mu as a number"):
        opened(residual=True, mu=mu)


# ------------------------------------------------------------------------------------------------ pages


def test_a_choice_asks_for_another_model_and_shows_its_slider(opened):
    page = opened(mu="1/2")
    assert page.chosen.value == SKIP and page.sliders["mu"].value == 0.5
    assert page.asking.asked[-1] == ("model", {"theory": RELU | {"residual": True, "mu": "mu"}})
    answered(page)
    assert "mu by its slider" in said(page)
    assert [n for n, one in page.sliders.items() if one.visible] == ["mu"]
    at_half = ("marks", {"theory": RELU | {"residual": True, "mu": "0.5"}})
    assert page.asking.asked[-1] == at_half
    answered(page)
    assert "the critical point (1.224745, 0)" in said(page)
    page.chosen.value = "x + v φ(w x + b) + a (full_residual)"
    answered(page)
    assert [n for n, one in page.sliders.items() if one.visible] == ["sigma_v", "sigma_a"]
    page.chosen.value = PLAIN
    answered(page)
    assert not any(one.visible for one in page.sliders.values())
    assert "the critical point (1.414214, 0)" in said(page)
    assert_asked(page, 3)
    with pytest.raises(AssertionError, match="3 models were asked for, and not 2"):
        assert_asked(page, 2)


def test_a_held_point_is_asked_about_with_the_sliders(opened):
    page = opened(residual=True)
    answered(page)
    page.sliders["mu"].value = 0.3
    held = {"sigma_w": [1.2], "sigma_b": [0.3], "norm": [1.0], "depth": [5], "mu": [0.3], "version": [1]}
    page._tapped(held)
    what, settings = page.asking.asked[-2]
    assert (what, settings["parameters"]) == ("phase", {"mu": 0.3})
    text = json.loads(answer(json.dumps({"id": 1, "what": what, "settings": settings})))["answer"]["text"]
    assert text.startswith("ordered: chi_J* = 81/100")  # 0.72 + 0.09
    count = len(page.asking.asked)
    for name, value in (("sigma_w", "import os"), ("sigma_b", float("nan")), ("norm", None), ("depth", [1])):
        page._tapped(held | {name: [value]})
        assert f"{name} must be " in page.parts["certified"].text
    page.sliders["mu"].value = -2.0
    page._moved()
    assert "mu must be a number ≥ 0" in said(page) and len(page.asking.asked) == count


def test_parameters_of_what_was_before_are_left_out(opened):
    page = opened(act="leaky_relu", parameters={"alpha": "0.3", "sigma_v": "0.5"}, architecture="full_residual")
    page.chosen.value = SKIP
    assert page.theory == {"act": "leaky_relu", "parameters": {"alpha": "0.3"}, "residual": True, "mu": "mu"}
    page.typed.value = "tanh"
    assert page.theory == {"act": "tanh", "parameters": {}, "residual": True, "mu": "mu"}


def test_numbers_take_the_place_of_symbols():
    theory = at_values(RELU | {"architecture": "postln", "mu": "mu"}, {"mu": 0.25, "sigma_v": 2.0})
    assert theory == {"act": "relu", "architecture": "postln", "mu": "0.25", "parameters": {"sigma_v": "2.0"}}
