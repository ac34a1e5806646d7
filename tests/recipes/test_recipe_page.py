"""docs/recipes.md: its table is that of the rows and of their reports, and its sentences hold the numbers of questions.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

import meanfield as mf
from derivations.recipes import page, questions
from tests import DOCS

PAGE = DOCS / "recipes.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = {line.split("`")[1]: line for line in TEXT.splitlines() if line.startswith("| `")}


def assert_row(name: str, line: str) -> None:
    """The cells of a row of the page are those of the recipe; numbers by two digits."""
    cells, made = ([c.strip() for c in row.strip("|").split(" | ")] for row in (line, page.row(name)))
    assert cells[:-4] == made[:-4], name
    for said, found in zip(cells[-4:], made[-4:]):
        assert said == found or float(said) == pytest.approx(float(found), rel=0.02, abs=0.02), (name, said, found)


@pytest.mark.slow
def test_the_table_has_every_recipe_and_its_laws():
    assert list(ROWS) == list(mf.recipes.names())
    for name, line in ROWS.items():
        recipe = mf.recipe(name, **page.SIZE)
        cells = [c.strip() for c in line.strip("|").split(" | ")]
        assert cells[1:-4] == [page.cell(recipe, kinds) for kinds in page.KINDS.values()], name


@pytest.mark.slow
def test_a_row_is_what_its_report_says():
    assert_row("gpt2", ROWS["gpt2"])
    with pytest.raises(AssertionError, match="gpt2"):
        assert_row("gpt2", ROWS["gpt2-released"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["t5", "vit-jax", "olmo2", "deepnorm", "pytorch", "siren", "llama2.c", "bert-hf"])
def test_rows_are_what_their_reports_say(name):
    assert_row(name, ROWS[name])


SAID = {
    "w2 or w3": (("w2", "K_L/K_1", 1.048), ("none", "K_L/K_1", 2.84), ("both", "K_L/K_1", 1.02)),
    "2L or 2l": (("1/sqrt(2l)", "K_L/K_1", 1.201), ("1/sqrt(2L)", "K_L/K_1", 1.048), ("no scale", "log J", 2.4)),
    "embeddings": (("size .02", "K_L/K_1", 116), ("size .02", "embeddings", 0.0086), ("size 1", "K_L/K_1", 1.072)),
    "fused": (("fused", "scores", 0.49), ("apart", "scores", 0.98), ("fused", "K_L/K_1", 3.6),
              ("apart", "log J", 2.25)),
    "norm behind": (("peri", "K_L/K_1", 65), ("pre", "K_L/K_1", 5.15), ("post", "embeddings", 0.009)),
    "norm scaled": (("norm / sqrt(l)", "K_L/K_1", 1.27), ("norm / sqrt(l)", "log J", 0.32)),
    "default linear": (("sqrt(5): 1/(3n)", "K_L/K_1", 1.76), ("1/n", "K_L/K_1", 12.3)),
    "gated": (("plain", "log J", 2.7), ("gated", "log J", 3.8), ("gated", "c", 0.36)),
}  # fmt: skip


def assert_said(key: str, off: float = 1.0) -> None:
    """The numbers of the page's sentences on a question, each in the text and within 1.5 % of what is computed."""
    for name, what, said in SAID[key]:
        found = questions.numbers(questions.followed(key, name))[what] * off
        assert found == pytest.approx(said, rel=0.015), (key, name, what, found)
        shown = [f"{said:g}".removeprefix("0"), f"{100 * said:.2g} %", f"{said:g}".removeprefix("0") + "-fold"]
        assert any(one in TEXT for one in shown), (key, said)


@pytest.mark.slow
@pytest.mark.parametrize("key", SAID)
def test_sentences_hold_the_numbers_of_their_questions(key):
    assert_said(key)
    with pytest.raises(AssertionError, match=re.escape(key)):
        assert_said(key, off=1.05)


def test_a_tied_head_lifts_the_logit_of_its_own_token():
    """√(s d) deviations, s the share of the token's embedding in the last layer: one block of ReLU, drawn."""
    d, tokens = 512, 200
    random = np.random.default_rng(3)
    E = random.standard_normal((tokens, d))
    W, V = (random.standard_normal((d, d)) / math.sqrt(d) for _ in range(2))
    x = E + np.maximum(E @ W, 0) @ V * math.sqrt(2 * 3)  # a branch of variance 3 beside the embeddings' 1
    x /= np.sqrt((x**2).mean(axis=1, keepdims=True))
    logits = x @ E.T
    own = np.diag(logits) / math.sqrt(d)
    assert own.mean() == pytest.approx(math.sqrt(d / 4), abs=4 * own.std() / math.sqrt(tokens) + 3 * d**-0.5)
    assert (logits - np.diag(np.diag(logits))).std() / math.sqrt(d) == pytest.approx(1, rel=0.05)
