"""What a report says of a recipe beside ensembles of networks that are drawn by the recipe's own laws."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

import meanfield as mf
from meanfield.recipes import normal, trunc_normal_, uniform
from meanfield.recipes.description.recipe_report import report_of
from tests.recipes.recipe_networks import Net, measured, shapes

N, H, L, T, CONTEXT = 256, 8, 3, 6, 64
ALLOWED = (T + L) / N  # what networks of this width differ by from infinite ones: tokens/width and blocks/width
LLAMA = {"phi": "silu", "gate": True, "norm": "rms", "rotary": True}
NETS = {
    "gpt2": Net("gelu_tanh"),
    "bert": Net("gelu_tanh", place="post", causal=False, input_norm=True),
    "pytorch": Net("relu", place="post", causal=False),
    "llama-torchtitan-tied": Net(**LLAMA, groups=2),
    "qwen3-torchtitan": Net(**LLAMA, qk="head", groups=4),
    "olmo-mitchell": Net("silu", gate=True, rotary=True),
    "olmo2": Net(**LLAMA, place="behind", qk="whole"),
    "gemma2": Net("gelu_tanh", gate=True, norm="rms", place="peri", rotary=True, groups=4),
    "t5-mesh": Net("relu", norm="rms", causal=False, divide="nothing"),
    "neox-small-wang": Net(rotary=True, parallel=True),
    "deepnorm": Net(place="post", causal=False, alpha="(2*L)**.25"),
    "sub-ln": Net(causal=False, inner=True),
    "lns": Net(**LLAMA, by_block=True),
    "vit-jax": Net(causal=False, inputs=768),
    "dyt": Net(norm="tanh .5 .5", causal=False, inputs=768),
    "t-fixup": Net("relu", norm="none", causal=False),
    "modula": Net("root2 gelu", divide="h", alpha="1-1/(2*L)", branch="1/(2*L)"),
    "pytorch-mlp": Net("relu", plain=True, inputs=N),
    "siren": Net("sin", plain=True),
}  # fmt: skip
FAST = ("gpt2", "bert", "pytorch")


def recipe(name: str) -> mf.Recipe:
    net = NETS[name]
    more = {} if net.plain else {"heads": H} | ({"groups": net.groups} if net.groups else {})
    return mf.recipe(name, depth=L, width=N, context=CONTEXT, **more)


@cache
def ensemble(name: str) -> list[dict[str, np.ndarray]]:
    made, net = recipe(name), NETS[name]
    hidden, heads = (0, 0) if net.plain else (int(made.sizes()["f"]), H)
    count = 16 if name in FAST else 24
    return [measured(net, dict(made.laws), N, hidden, heads, L, T, CONTEXT, 1000 + i, True) for i in range(count)]


def of_networks(name: str, m: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The quantities of a report from the means over networks."""
    order = ["input", *shapes(NETS[name], N, 4, H)]
    roles = ["input", *recipe(name).roles]
    theta = np.array([m["Theta"][order.index(role)] for role in roles])
    found = {"K": m["K"], "c": m["K_ab"] / m["K"], "log J": np.log(m["J"])}
    found |= {"Theta": theta, "shares of Theta": theta / theta.sum()}
    if not NETS[name].plain:
        found["fractions"] = (m["branch"][:, :, 1] / m["branch"].sum(axis=2)).T
        found["scores"], found["entropy"] = np.sqrt(m["scores"]).mean(axis=1), m["entropy"]
    return found


def of_report(made: mf.Recipe, seed: int) -> dict[str, np.ndarray]:
    report = report_of(made, tokens=T, draws=6, seed=seed, change=False)
    f = report.followed
    found = {"K": f.K, "c": f.c, "log J": f.log_J, "Theta": f.Theta[:, -1]}
    found["shares of Theta"] = np.array(list(report.theta_shares.values()))
    more = {"fractions": f.fractions, "scores": f.scores, "entropy": f.entropy}
    return found | {n: v for n, v in more.items() if v.size and np.isfinite(v).all()}


def assert_as_networks(name: str, made: mf.Recipe, only: tuple[str, ...] = ()) -> None:
    """All of a recipe's report within 4 standard errors of the networks that `name` draws, and what their width allows:
    (tokens + blocks)/width of a number, and of 1 for logarithms, correlations and entropies."""
    rows = ensemble(name)
    mean = {n: np.mean([row[n] for row in rows], axis=0) for n in rows[0]}
    networks = of_networks(name, mean)
    left_out = [of_networks(name, {n: (mean[n] * len(rows) - row[n]) / (len(rows) - 1) for n in row}) for row in rows]
    several = [of_report(made, 100 * seed) for seed in range(4)]
    assert set(networks) == set(several[0])
    for what in only or networks:
        theory = np.mean([one[what] for one in several], axis=0)
        own = np.std([one[what] for one in several], axis=0, ddof=1) / math.sqrt(len(several))
        jackknife = np.std([one[what] for one in left_out], axis=0) * math.sqrt(len(rows) - 1)
        unit = 1.0 if what in ("log J", "c", "entropy") else np.abs(theory)
        limit = 4 * np.hypot(jackknife, own) + ALLOWED * unit
        assert (np.abs(networks[what] - theory) <= limit).all(), (name, what, networks[what], theory, limit)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in NETS])
def test_reports_are_those_of_networks_drawn_by_the_laws(name):
    assert_as_networks(name, recipe(name))


def assert_error_shows(name: str, wrong: mf.Recipe, what: str) -> None:
    with pytest.raises(AssertionError, match=what):
        assert_as_networks(name, wrong, (what,))


@pytest.mark.slow
def test_a_variance_in_the_place_of_a_deviation_shows():
    assert_error_shows("gpt2", recipe("gpt2").with_laws(down=".02**2/(2*L)"), "fractions")
    assert_error_shows("gpt2", recipe("gpt2").with_laws(query=".02**2"), "scores")
    assert_error_shows("gpt2", recipe("gpt2").with_laws(token=".02**2"), "K")


@pytest.mark.slow
def test_a_fan_out_in_the_place_of_a_fan_in_shows():
    assert_error_shows("pytorch", recipe("pytorch").with_laws(up=uniform("1/sqrt(m)")), "fractions")
    assert_error_shows("pytorch", recipe("pytorch").with_laws(down=uniform("1/sqrt(m)")), "shares of Theta")
    alone = uniform("sqrt(6/(n+m))")  # q, k and v as three matrices, not one of 3d rows
    assert_error_shows("pytorch", recipe("pytorch").with_laws(query=alone, key=alone), "scores")


@pytest.mark.slow
def test_a_truncation_that_is_ignored_shows():
    uncut = dict.fromkeys(("query", "key", "value", "output", "up", "down"), normal(".02"))
    assert_error_shows("bert", recipe("bert").with_laws(**uncut), "fractions")
    assert_error_shows("bert", recipe("bert").with_laws(**uncut), "scores")


@pytest.mark.slow
def test_the_number_of_blocks_in_the_place_of_that_of_the_block_shows():
    flat = trunc_normal_(".02/sqrt(2*L)")
    wrong = recipe("llama-torchtitan-tied").with_laws(output=flat, up=flat, down=flat)
    assert_error_shows("llama-torchtitan-tied", wrong, "fractions")
    assert_error_shows("llama-torchtitan-tied", wrong, "K")
    assert_error_shows("lns", mf.recipe("peri", depth=L, width=N, heads=H, context=CONTEXT), "K")


# The tangent kernel by matrices, with drawn heads and in the mean


POINT = {"sigma_e": 1, "sigma_q": 1, "sigma_k": 1, "sigma_v": 1, "sigma_o": 1, "sigma_1": 1, "sigma_2": 1}


def assert_theta_of_the_mean(heads: int, drawn: dict[str, float], mean: dict[str, float]) -> None:
    """Theta by matrices of many drawn heads is that of infinitely many, within 4 standard errors and 4/heads."""
    theory = mf.derive("relu", architecture="gpt", heads=heads, causal=False)
    depth, names = 4, [f"Theta[{d}]" for d in range(7)]
    sampled = theory.sample(depth=depth, tokens=6, draws=8, seed=3, quantities=("K", "Theta"), **drawn)
    wanted = theory.propagate(depth=depth, tokens=6, quantities=("K", *names), **mean).at(depth)
    for name in ("K", *names):
        found, value = sampled.estimate(name, depth), float(wanted[name])
        limit = 4 * found.standard_error + 4 / heads * value
        assert abs(found.mean - value) <= limit, (name, found.mean, value, limit)


@pytest.mark.slow
def test_the_tangent_kernel_of_many_drawn_heads_is_that_of_the_mean():
    assert_theta_of_the_mean(300, POINT, POINT)


@pytest.mark.slow
def test_another_deviation_of_the_drawn_heads_shows():
    with pytest.raises(AssertionError, match="Theta"):
        assert_theta_of_the_mean(300, POINT | {"sigma_q": 1.1}, POINT)
