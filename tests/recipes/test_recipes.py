"""Public initializations by name: every deviation of every row by arithmetic of the test's own, laws beside SciPy's,
what is refused, and the code for PyTorch."""

from __future__ import annotations

import math
import re
import types
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

import meanfield as mf
from meanfield import MeanFieldError, recipes
from meanfield.networks.folds import dense_of
from meanfield.networks.records import Schedule
from meanfield.recipes.description import recipe_report
from tests.recipes.recipe_table import ROWS, Sizes

SIZES = (Sizes(4, 256, 768, 4, 64, 1000, 1), Sizes(9, 384, 1152, 6, 48, 500, 3))


def recipe(name: str, x: Sizes) -> recipes.Recipe:
    return mf.recipe(name, depth=x.L, width=x.d, hidden=x.f, heads=x.H, context=x.T, vocabulary=x.V)


def assert_deviations(made: recipes.Recipe, wanted: dict[str, float | None], block: int) -> None:
    """Every law of the recipe has the deviation wanted of it, and there is no other law."""
    expected = {kind: value for kind, value in wanted.items() if value is not None}
    found = {kind: made.deviation(kind, block) for kind in made.laws}
    stored = {"head"} - set(expected)  # of a tied one the table has none
    assert set(found) - (stored if made.tied else set()) == set(expected), (made.name, set(found) ^ set(expected))
    for kind, value in expected.items():
        if kind == "head" and made.tied:
            continue  # its law says what multiplies the stored embeddings
        assert math.isclose(found[kind], value, rel_tol=1e-12, abs_tol=0), (made.name, kind, found[kind], value)


def test_every_row_is_in_the_table_and_the_other_way_round():
    assert set(recipes.names()) == set(ROWS)
    assert len(ROWS) == 76


@pytest.mark.parametrize("x", SIZES, ids=("small", "deeper"))
@pytest.mark.parametrize("name", ROWS)
def test_deviations_are_those_of_the_table(name, x):
    assert_deviations(recipe(name, x), ROWS[name](x), x.l)


def test_a_planted_change_of_a_deviation_fails():
    x = SIZES[1]
    made = recipe("gpt2", x)
    for kind, wrong in (("down", 0.02), ("token", 0.02**2), ("query", 0.02 * 0.8796)):
        with pytest.raises(AssertionError, match=kind):
            assert_deviations(made, ROWS["gpt2"](x) | {kind: wrong}, x.l)
    with pytest.raises(AssertionError, match="down"):  # the number of the block for how many there are
        by_number = ROWS["gpt2"](replace(x, L=x.l))["down"]
        assert_deviations(made, ROWS["gpt2"](x) | {"down": by_number}, 1)


@pytest.mark.parametrize("name", ROWS)
def test_the_network_holds_them_times_the_square_root_of_the_fan_in(name):
    x = SIZES[1]
    made, wanted = recipe(name, x), ROWS[name](x)
    first = ROWS[name](replace(x, l=1))
    fans = {"down": x.d if name in ("fixup", "nfnet") else x.f, "tokens": x.T, "tokens1": x.T, "tokens2": 2 * x.T}
    for role, dense in zip(made.roles, dense_of(made.network.block)):
        fan = fans.get(role, x.d)
        held = dense.sigma_w
        value, power = (held.value, float(held.beta)) if isinstance(held, Schedule) else (held, 0.0)
        assert math.isclose(float(value), first[role] * math.sqrt(fan), rel_tol=1e-9, abs_tol=1e-300), (name, role)
        here = float(value) * x.l ** (-power / 2)
        assert math.isclose(here, wanted[role] * math.sqrt(fan), rel_tol=1e-9, abs_tol=1e-300), (name, role)


# Laws


LAWS = {
    "normal": (recipes.normal(0.3), scipy.stats.norm(scale=0.3)),
    "uniform": (recipes.uniform(0.3), scipy.stats.uniform(-0.3, 0.6)),
    "two deviations": (recipes.truncated(0.3), scipy.stats.truncnorm(-2, 2, scale=0.3)),
    "three deviations": (recipes.truncated(0.3, 3), scipy.stats.truncnorm(-3, 3, scale=0.3)),
    "corrected": (recipes.truncated(0.3, corrected=True), scipy.stats.norm(scale=0.3)),
    "absolute, far": (recipes.trunc_normal_(0.02), scipy.stats.norm(scale=0.02)),
    "absolute, near": (recipes.trunc_normal_(1.5), scipy.stats.truncnorm(-2 / 1.5, 2 / 1.5, scale=1.5)),
    "xavier": (recipes.xavier_uniform(2), scipy.stats.uniform(-2 * math.sqrt(0.06), 4 * math.sqrt(0.06))),
    "xavier, normal": (recipes.xavier_normal(), scipy.stats.norm(scale=math.sqrt(0.02))),
    "kaiming": (recipes.kaiming_uniform(), scipy.stats.uniform(-0.2, 0.4)),
}


@pytest.mark.parametrize("name", LAWS)
def test_the_true_deviation_of_a_law_is_that_of_scipy(name):
    law, drawn = LAWS[name]
    assert math.isclose(law.true_deviation({"n": 25, "m": 75}), drawn.std(), rel_tol=1e-12)


def test_orthogonal_matrices_have_entries_of_one_over_the_larger_side():
    rng = np.random.default_rng(1)
    for n, m in ((6, 14), (14, 6)):
        q = np.stack([np.linalg.qr(rng.standard_normal((max(n, m), min(n, m))))[0] for _ in range(4000)])
        measured = 0.7 * math.sqrt(float((q**2).mean()))
        assert math.isclose(recipes.orthogonal(0.7).true_deviation({"n": n, "m": m}), measured, rel_tol=1e-9)


def test_a_law_by_the_number_of_the_block_is_a_schedule():
    assert recipes.normal("1/sqrt(2*l)").power({}) == 1
    assert recipes.normal("1/l").power({}) == 2
    assert recipes.normal("1/L").power({"L": 5}) == 0
    with pytest.raises(MeanFieldError, match="no power of the number l of the block"):
        recipes.normal("1/(1+l)").power({})


# Code for PyTorch


class _Weight:
    """Records how it is drawn."""

    std = math.nan

    def normal_(self, mean, std):
        assert mean == 0
        self.std = std

    def uniform_(self, low, high):
        assert low == -high
        self.std = high / math.sqrt(3)


def _initializer(code: str):
    """`init_` of the pasted code, run against a stand-in for torch that knows four calls."""
    torch, init = types.ModuleType("torch"), types.SimpleNamespace()

    def trunc_normal_(weight, mean, std, a, b):
        assert mean == 0
        weight.std = scipy.stats.truncnorm(a / std, b / std, scale=std).std() if std > 0 else 0.0

    def orthogonal_(weight, gain):
        weight.std = ("orthogonal", gain)

    init.trunc_normal_, init.orthogonal_ = trunc_normal_, orthogonal_
    torch.nn = types.SimpleNamespace(init=init)
    torch.no_grad = lambda: lambda function: function
    held = {"__builtins__": __builtins__}
    lines = code.replace("import torch\n", "")
    exec(compile(lines, "pasted", "exec"), held | {"torch": torch}, space := {"torch": torch})
    space["init_"].__globals__.update(space)
    return space["init_"]


@pytest.mark.parametrize("name", ROWS)
def test_the_pasted_code_draws_what_the_recipe_says(name):
    x = SIZES[1]
    made = recipe(name, x)
    init = _initializer(made.torch())
    for kind, law in made.laws.items():
        for block in (1, x.l):
            weight = _Weight()
            init(weight, f"{made.roles[0]} bias" if kind == "bias" else kind, block)
            sizes = made.sizes(kind) | {"l": block}
            if law.shape == "orthogonal":
                assert math.isclose(weight.std[1], math.sqrt(sizes["m"] / sizes["n"]), rel_tol=1e-12)
                continue
            stored = recipes.Law(law.deviation, law.shape, law.cut, law.absolute, law.corrected)
            assert math.isclose(weight.std, stored.true_deviation(sizes), rel_tol=1e-9), (kind, block)
            alone = stored.multiplier == law.multiplier and not (kind == "head" and made.tied)
            if alone and (wanted := ROWS[name](replace(x, l=block)).get(kind)) is not None:
                assert math.isclose(weight.std, wanted, rel_tol=1e-9), (kind, block)
    with pytest.raises(ValueError, match="no kind of matrix is called nothing"):
        init(_Weight(), "nothing")


# Architectures


def _held(name: str, **sizes: int) -> str:
    return repr(mf.recipe(name, **({"depth": 4, "width": 128} | sizes)).architecture.block)


@pytest.mark.slow
def test_norms_stand_where_the_recipes_have_them():
    def norms(text):
        return text.count("LayerNorm()"), text.count("RMSNorm()")

    assert norms(_held("gpt2")) == (2, 0) and norms(_held("llama")) == (0, 2)
    assert norms(_held("gemma2")) == norms(_held("peri")) == (0, 4)
    assert norms(_held("sub-ln")) == norms(_held("normformer")) == (4, 0)
    assert norms(_held("t-fixup")) == norms(_held("rezero")) == norms(_held("dyt")) == (0, 0)
    assert norms(_held("olmo-mitchell")) == (0, 0) and _held("olmo-mitchell").count("LayerNorm(affine=False)") == 2
    olmo2 = mf.recipe("olmo2", depth=4, width=128).architecture.block.blocks
    assert [type(one.branch.blocks[-1]).__name__ for one in olmo2] == ["RMSNorm", "RMSNorm"]
    assert [type(one.branch.blocks[0]).__name__ for one in olmo2] == ["Attention", "Gate"]
    bert = mf.recipe("bert", depth=4, width=128).architecture.block.blocks
    assert [type(one).__name__ for one in bert] == ["Residual", "LayerNorm"] * 2


@pytest.mark.slow
def test_what_else_the_recipes_have():
    deep = mf.recipe("deepnorm", depth=6, width=128).architecture.block.blocks
    assert [float(one.mu) for one in deep[::2]] == [12**0.25, 12**0.25]
    parallel = mf.recipe("neox-small-wang", depth=4, width=128)
    assert parallel.roles == ("up", "down", "query", "key", "value", "output")
    assert _held("lns").count("Scale(Schedule(1, 1))") == 2 and "Scale(0)" in _held("rezero")
    assert "tanh(z*(.8))" in _held("dyt-llama") and "tanh(z*(.2))" in _held("dyt-llama")
    assert "scale='1/d'" in _held("mutransformers") and "qk_norm=True" in _held("qwen3")
    assert "groups=8" in repr(mf.recipe("llama-torchtitan").architecture)
    assert "groups=2" in repr(mf.recipe("llama-torchtitan", width=1024).architecture)
    assert "Scale(Fraction(1, 10000))" in _held("resmlp") and "Scale(Fraction(1, 100000))" in _held("resmlp", depth=24)
    assert "mu=Fraction(7, 8)" in _held("modula") and "Scale(Fraction(1, 8))" in _held("modula")


@pytest.mark.slow
def test_tied_heads_and_what_is_common_to_all_tokens():
    tied = {name for name in ROWS if mf.recipe(name, depth=2, width=192).tied}
    assert {"gpt2", "nanogpt", "llama2.c", "gemma2", "bert", "t5", "llama-torchtitan-tied"} <= tied
    assert not {"mingpt", "llama", "llama-torchtitan", "t5-v1.1", "olmo2", "vit"} & tied
    first = mf.recipe("bert", depth=2, width=192).network.first
    assert math.isclose(float(first.sigma_w) ** 2, 2 / 3, rel_tol=1e-12)  # words and positions of three that are summed
    assert math.isclose(float(first.sigma_b) ** 2, 1 / 3, rel_tol=1e-12)
    both = mf.recipe("llama-torchtitan", depth=2).network.first, mf.recipe("llama-torchtitan-tied").network.first
    assert float(both[0].sigma_w) == 1 and math.isclose(float(both[1].sigma_w) * math.sqrt(2048), 0.98658, rel_tol=1e-5)


# What is refused


def test_what_is_refused():
    laws = {"dense": 1, "token": 1}
    block = mf.architectures.resnet("tanh")
    own = {"depth": 2, "width": 8}
    for wrong, said in (
        (lambda: mf.recipe("gtp2"), "did you mean 'gpt2'"),
        (lambda: mf.recipe(3), "asked for by its name"),
        (lambda: mf.recipe("gpt2", width=100, heads=12), "heads of an Attention divide its width"),
        (lambda: mf.recipe("gpt2", depth=0), "depth of a recipe"),
        (lambda: mf.Recipe(block, {"token": 1}, **own), "has no law for dense"),
        (lambda: mf.Recipe(block, laws | {"query": 1}, **own), "query"),
        (lambda: mf.Recipe(block, laws | {"dense": "x/sqrt(n)"}, **own), "x stands for nothing"),
        (lambda: mf.Recipe(block, laws | {"dense": -1}, **own), "is ≥ 0"),
        (lambda: mf.Recipe(block, laws | {"token": 0}, **own), "nothing enters the first block"),
        (lambda: mf.Recipe(block, [1], **own), "given by kind of matrix"),
        (lambda: mf.Recipe("mlp", laws, **own), "needs an activation"),
        (lambda: mf.recipe("gpt2", depth=2, width=128).report(tokens=5000), "tokens"),
        (lambda: mf.recipe("gpt2", depth=2, width=128, context=4).report(tokens=8), "context of the recipe is 4"),
        (lambda: mf.recipe("gpt2").compare(), "nothing to compare with"),
    ):  # fmt: skip
        with pytest.raises(MeanFieldError, match=re.escape(said)):
            wrong()


@pytest.mark.parametrize("name", ("gpt2", "neox-small-wang", "bert", "mixer", "resmlp", "rezero", "t5", "kan"))
def test_reports_of_small_networks(name):
    made = recipe(name, SIZES[0])
    report = recipe_report.report_of(made, tokens=8, draws=2, seed=0, change=False)
    assert report.followed.K[0] > 0 and np.isfinite(report.followed.K).all() and len(report.findings) >= 3
    assert made.name in str(report) and set(report.data()) >= {"recipe", "followed", "findings"}
