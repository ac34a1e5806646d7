"""What a recommendation says about itself: from which numbers on a sentence is there, and the reason it gives."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import meanfield as mf
from meanfield.tuning.recommendation.answer import Layer, Point, Spread, _number, screen
from meanfield.tuning.recommendation.choices import Anchor

ABOVE = Anchor("1", "0", "2", "half-stable", "attracts from above, repels below")
BELOW = ABOVE._replace(side="attracts from below, repels above")
QUIET = dict(log_J=0.0, swing=0.1, correlation=0.5, by_draws=None)


@pytest.fixture(scope="module")
def answer():
    """A recommendation whose numbers give no caveat; tests put others in their place."""
    found = mf.recommend("relu", depth=20, width=100, networks=0)
    dense = Layer("dense1", "neurons", 100.0, 1.5, 0.0)
    quiet = replace(found.predicted, **QUIET)
    stable = Anchor("1", "0", "2", "stable")
    return replace(found, layers=(dense,), anchor=stable, worst=0.5, predicted=quiet, spread=None, silent="")


@pytest.mark.slow
def test_plain_layers_have_no_scale(answer):
    assert answer.scale is None and answer.scale_is_a_layer is False and answer.layer_scale is None
    scaled = replace(answer, scale=0.5)
    assert scaled.layer_scale is None and replace(scaled, scale_is_a_layer=True).layer_scale == 0.5
    assert [replace(answer, kind=k).windowed for k in ("budget", "point")] == ["branch scale", "sigma_w"]


def test_weight_std(answer):
    assert Layer("dense1", "neurons", 25.0, 1.5, 0.0).weight_std == 0.3
    assert Layer("input", "neurons", None, 1.5, 0.0).weight_std is None


@pytest.mark.parametrize(
    ("part", "changed", "there"),
    [
        ("scatter widely", {"depth": 25}, False),
        ("depth/width = 0.26", {"depth": 26}, True),
        ("Starts K^1", {"worst": 1.0}, False),
        ("Starts K^1 that are two s.d. of width 100 off end at |log J| = 1.01", {"worst": 1.01}, True),
        ("Starts K^1", {"worst": 3.8, "log_J": -3.0}, False),
        ("Starts K^1", {"worst": 4.0, "log_J": -3.0}, True),
        ("On the way", {"swing": 1.0}, False),
        ("On the way |log J^(1,l)| reaches 1.02", {"swing": 1.02}, True),
        ("On the way", {"swing": 2.15, "log_J": -2.0}, False),
        ("On the way", {"swing": 2.25, "log_J": -2.0}, True),
        ("hardly tells them apart", {"correlation": None}, False),
        ("hardly tells them apart", {"correlation": 0.99}, False),
        ("end at 1 - c = 0.009: the last layer hardly", {"correlation": 0.991}, True),
        ("attracts from above, repels below: keep K^1", {"anchor": ABOVE, "worst": 0.1}, True),
        ("or a little above", {"anchor": ABOVE, "worst": 0.1}, True),
        ("attracts from below, repels above: keep K^1", {"anchor": BELOW, "worst": 0.1}, True),
        ("or a little below", {"anchor": BELOW, "worst": 0.1}, True),
        ("Starts K^1", {"anchor": ABOVE, "worst": 9.0}, False),
        ("Starts K^1", {"anchor": None, "worst": 9.0}, True),
        ("not measured: it was not asked for.", {"silent": "it was not asked for."}, True),
        ("not measured", {"silent": "why", "spread": Spread(0.0, 1.0, None)}, False),
        ("number of tokens it reads", {"layers": (Layer("dense1", "tokens", None, 1.0, 0.0),)}, True),
        ("exact for activations of degree 1", {"layers": (Layer("dense1", "tokens", None, 1.0, 0.0),)}, True),
    ],
)
def test_where_a_caveat_begins(answer, part, changed, there):
    """On both sides of every threshold, with it; one sentence at a time but for Dense on tokens."""
    assert answer.caveats == ()
    inside = {k: v for k, v in changed.items() if k in QUIET or k == "swing"}
    outside = {k: v for k, v in changed.items() if k not in inside}
    found = replace(answer, predicted=replace(answer.predicted, **inside), **outside).caveats
    assert any(part in one for one in found) == there, found


def test_the_reason_given(answer):
    """Of every kind, with what makes it another sentence of the same kind."""
    point = Point("1.2", "0.1", "0.7", "stable", 0.1, 2.5)
    own = replace(point, sigma_w="1", sigma_b="0")
    at = lambda K, kind: replace(answer, kind="point", anchor=Anchor("1", "0", K, kind), points=(own, point))  # noqa: E731
    drifts = "K drifts to 0 there, so sigma_w is moved until J^(1,20) = 1"
    for K, kind, shown, part in (
        ("0", "stable", "K* = 0", drifts),
        ("0", "scale-invariant", "K* = 0", ""),
        ("K", "scale-invariant", "K* = any", ""),
        ("0.3", "stable", "K* = 0.3", "; the input layer starts at K*"),
    ):
        why = at(K, kind).why
        assert why.startswith(f"critical point sigma_w = 1, sigma_b = 0 ({kind}, {shown})")
        assert [drifts in why, "starts at K*" in why] == [part == drifts, "starts" in part]
        assert why.count("Not sigma_w") == 1 and "Not sigma_w = 1.2, sigma_b = 0.1 (stable, K* = 0.7)" in why
    for changed, part in (
        ({"kind": "budget", "grows": True, "scale": 0.5}, "J grows at every scale > 0 of the branches"),
        ({"kind": "budget", "grows": False, "scale": 0.5}, "no sigma_w gives J = 1; this is the largest common scale"),
        ({"kind": "budget", "grows": False, "scale": 1.0}, "the branches as they are stay within |log J| <= 1"),
        ({"kind": "line"}, "critical at every point of the ray"),
        ({"kind": "flat"}, "critical at every sigma_w; 1 is taken"),
        ({"kind": "search"}, "no certified critical point holds here"),
        ({"kind": "point", "anchor": None}, "no certified critical point holds here"),
    ):
        assert part in replace(answer, **({"budget": 1.0} | changed)).why, changed


def test_the_screen(answer):
    """Widths, fan-ins, the branch scale, the window and the reach, each as it is said."""
    layers = (
        Layer("input", "neurons", None, 1.25, 0.0), Layer("dense1", "neurons", 100.0, 1.5, 0.2),
        Layer("dense2", "tokens", None, 0.75, 0.0),
    )  # fmt: skip
    p = replace(answer.predicted, reach=33, scanned=80, xi=math.inf)
    found = replace(answer, layers=layers, scale=0.5, scale_is_a_layer=True, window=(1.0, math.inf), predicted=p)
    lines = screen(found)
    rows = {line.split()[0]: line.split() for line in lines[4:7]}
    assert rows["input"] == ["input", "1.25", "0", "N_0", "1.25/sqrt(N_0)", "0"]
    assert rows["dense1"] == ["dense1", "1.5", "0.2", "100", "0.15", "0.2"]
    assert rows["dense2"] == ["dense2", "(tokens)", "0.75", "0", "T", "0.75/sqrt(T)", "0"]
    text = "\n".join(lines)
    for part in ("branch scale 0.5, value of its Scale", "= infinite at l = 20", "<= 1 up to layer 33",
                 "from 1 to any larger one", "depth 20, width 100"):  # fmt: skip
        assert part in text, part
    whole = {"scale_is_a_layer": False, "scale_in_dense": True, "window": (1.0, 2.5)}
    other = replace(found, **whole, predicted=replace(p, reach=None, swing=3.0, xi=4))
    text = "\n".join(screen(other))
    for part in ("of the branch's last Dense", "= 4 at l = 20", "<= 3 up to layer 80 at least", "from 1 to 2.5"):
        assert part in text, part
    assert "window" not in "\n".join(screen(replace(found, window=None)))
    data = json.loads(json.dumps(replace(other, window=(1.0, 2.5)).data()))
    assert [one["weight_std"] for one in data["layers"]] == [None, 0.15, None] and data["why"] == other.why


def test_numbers_on_the_screen():
    for value, text in ((-math.inf, "vanishes"), (math.inf, "overflows"), (math.nan, "overflows"), (9e-9, "0"),
                        (-9e-9, "0"), (1e-8, "1e-08"), (-2.5, "-2.5")):  # fmt: skip
        assert _number(value) == text


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gelu", "silu", "mish"])
def test_the_side_is_that_of_the_critical_point(name):
    """silu and mish attract from below, gelu from above: K that starts on the other side leaves K*."""
    advice = next(one for one in mf.recommend(name, depth=20, width=100, networks=0).caveats if "keep K^1" in one)
    (point,) = (p for p in mf.derive(name).critical_points() if p.kind == "half-stable")
    assert point.side in advice and ("a little above" in advice) == point.side.startswith("attracts from above")
    held = 1 if "a little above" in advice else -1
    w, b, K = (float(x.value) for x in (point.sigma_w, point.sigma_b, point.K))
    run = mf.derive(name).propagate(
        sigma_w=w, sigma_b=b, depth=2, input_norm=(K * (1 + np.array([0.01, -0.01]) * held) - b**2) / w**2
    )
    off = np.abs(np.asarray(run.K) - K)
    assert off[0, 1] < off[0, 0] and off[1, 1] > off[1, 0]
