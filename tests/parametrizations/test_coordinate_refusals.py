"""What coordinate checks and parametrizations refuse, each in one sentence; and edges that are answers."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import dataclass, replace

import numpy as np
import pytest

from meanfield import MeanFieldError
from meanfield.networks import architectures
from meanfield.networks.records import (
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Projection,
    Residual,
    Sequential,
    mlp,
)
from meanfield.parametrizations import Stage, coordinate_check, parametrization, stage

RNG = np.random.default_rng(0)


def check(network="tanh", scheme="mup", **more):
    return coordinate_check(network, scheme, **({"widths": (32,), "neurons": 64, "rate": 0.01} | more))


def behind(*blocks: Block) -> Sequential:
    return Sequential((*blocks, Dense()))


def assert_one_sentence(error: MeanFieldError) -> None:
    text = str(error)
    assert text[0].isalnum() and text.endswith(".") and "\n" not in text and ". " not in text, text


def test_sentences_are_counted():
    with pytest.raises(AssertionError, match="Two of them"):
        assert_one_sentence(MeanFieldError("One. Two of them."))


TANH, GATE = Nonlinearity("tanh"), Gate("silu", Dense(), Dense())
GPT = dict.fromkeys(["sigma_e", "sigma_q", "sigma_k", "sigma_v", "sigma_o", "sigma_1", "sigma_2"], 1)
REFUSED = {
    "step": (lambda: check("step"), "which jumps"),
    "sign": (lambda: check("sign"), "which jumps"),
    "eps": (lambda: check(eps=-1), "eps must be ≥ 0, but -1 was given"),
    "no eps": (lambda: check(eps=float("nan")), "eps must be a finite number"),
    "orthogonal": (lambda: check(weights="orthogonal"), "with orthogonal weights"),
    "attention": (lambda: check(architectures.gpt(**GPT)), "with Attention: no rule is known for"),
    "projection": (lambda: check(Residual(behind(TANH), 1, Projection())), "with a Projection"),
    "mixer": (lambda: check(architectures.mlp_mixer("gelu")), "with a Dense over tokens"),
    "tokens": (lambda: check(inputs=np.ones((2, 3, 4))), "inputs of one token each"),
    "input 0": (lambda: check(inputs=np.array([[1.0, 2.0], [0.0, 0.0]])), "is 0, which moves no weight"),
    "inputs": (lambda: check(inputs=0), "inputs must be a whole number from 1"),
    "huge": (lambda: check(inputs=np.full((1, 3), 1e200)), "inputs must be of a size from"),
    "slopes": (lambda: check(slopes=1e-200), "slopes must be of a size from"),
    "slopes 0": (lambda: check(slopes=0), "not all 0"),
    "slopes 3": (lambda: check(slopes=[1, 2, 3], inputs=2), "one for each of the 2 inputs"),
    "steps": (lambda: check(steps=2), "2 steps were asked for without networks"),
    "one": (lambda: check(networks=1), "One network shows no error of its own"),
    "muon": (lambda: check(optimizer="muon", steps=2, networks=2), "optimizer of several steps 'muon'"),
    "muon norm": (lambda: check(behind(LayerNorm(), GATE), optimizer="muon", inputs=2), "has rank 1 at infinite width"),
    "lion": (lambda: check(optimizer="lion"), "Unknown optimizer 'lion'"),
    "both": (lambda: check("tanh", parametrization("mup"), optimizer="sgd"), "leave it out"),
    "scheme": (lambda: check("tanh", "mupp"), "Unknown parametrization 'mupp'"),
    "none": (lambda: check("tanh", None), "the name of one, but None was given"),
    "widths": (lambda: check(widths=1), "width must be a whole number from 2"),
    "no widths": (lambda: check(widths=[]), "one or several whole numbers"),
    "depth": (lambda: check(depth=1), "depth must be a whole number from 2"),
    "rate": (lambda: check(rate=-1), "rate must be > 0"),
    "still": (lambda: check(sigma_w=0, rate=None), "Nothing moves in this step"),
    "overflowing": (lambda: check("exp(z**2)", sigma_w=3, rate=None), "The forward pass overflows at layer"),
    "exploding": (lambda: check("exp(z)", sigma_w=2, rate=None), "No rate can be chosen: a step of"),
    "sigma": (lambda: check(sigma_w=-1), "sigma_w must be one number ≥ 0"),
    "mu": (lambda: check(mlp("tanh", mu="mu")), "give mu=..."),
    "expand": (lambda: check(architectures.swiglu(expand="8/3"), networks=2), "makes 85.3333 of 32 neurons"),
    "pool": (lambda: check(behind(TANH, Pool(64))), "A Pool of 64 neurons meets 32 at layer 2"),
    "batch": (lambda: check(behind(BatchNorm(), TANH), inputs=2), "at least 3 inputs, but 2 were given"),
    "seed": (lambda: check(seed=-1), "seed must be a whole number from 0"),
    "biases": (lambda: check(biases="no"), "biases must be True or False"),
    "memory": (lambda: check(widths=2**20, networks=2), "would take about"),
    "many": (lambda: check(inputs=400, depth=20), "A neuron of these layers takes 24020 numbers"),
    "grows": (lambda: check("tanh", parametrization(hidden={"variance": "1"})), "whose forward pass grows with n"),
    "column": (lambda: check().column("foo"), "has the columns z, own"),
    "float": (lambda: parametrization(hidden={"rate": -1.5}), r'exact fractions \("-3/2"\)'),
    "float text": (lambda: parametrization(hidden={"rate": "n**-1.5"}), '"3/2" for 1.5'),
    "sum": (lambda: parametrization(hidden={"rate": "n+1"}), "a sum is no product"),
    "letter": (lambda: parametrization(hidden={"rate": "m"}), "m is none of its letters"),
    "zero": (lambda: parametrization(hidden={"rate": 0}), "a number > 0"),
    "call": (lambda: parametrization(hidden={"rate": "__import__('os')"}), "write it like"),
    "tower": (lambda: parametrization(hidden={"rate": "((((2**64)**64)**64)**64)**64"}), "too many digits"),
    "root": (lambda: parametrization(hidden={"rate": "sqrt((10**64)**4*(10**64)**4*(10**64)**4)"}), "too many digits"),
    "lr": (lambda: parametrization(hidden={"lr": "n"}), r"by name \(multiplier, variance, rate"),
    "at": (lambda: parametrization(input={"rate": "n**64*n**64*n**64"}).at(1024), "larger than any double"),
    "kind": (lambda: parametrization().gauge("weights", "n"), "Unknown kind 'weights'"),
    "u_mup": (lambda: parametrization("u_mup", optimizer="sgd"), "published for adam alone"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_is_refused_in_a_sentence(name):
    asked, match = REFUSED[name]
    with pytest.raises(MeanFieldError, match=match) as error:
        asked()
    if name not in ("lion", "scheme", "tokens", "number"):
        assert_one_sentence(error.value)


ROW = {"width": 32, "layer": 1, "column": "own", "value": 0.5}
FRAMES = {
    "empty": ([], "The frame holds no rows"),
    "none": (None, "compare takes a data frame"),
    "missing": ([{"width": 32}], "no layer and no column and no value"),
    "column": ([ROW | {"column": "owns"}], "Unknown column in row 1 'owns'"),
    "layer": ([ROW | {"layer": 9}], "layer 9 and depth 4, which the check has not"),
    "width": ([ROW, ROW | {"width": 33}], "Row 2 is of width 33"),
    "negative": ([ROW | {"value": -1}], "holds a number < 0"),
    "infinite": ([ROW | {"value": float("inf")}], "value of row 1 must be a finite number"),
    "nan": ([ROW | {"value": float("nan")}], "Row 1 has no value"),
    "half": ([ROW | {"width": 32.5}], "width of row 1 must be a whole number"),
    "matrix": ([ROW | {"matrix": "up"}], "of the column own of up, which layer 1 has not"),
    "output": ([ROW | {"column": "Df"}], "which layer 1 has not"),
    "error": ([ROW | {"error": -1}], "holds a number < 0"),
    "file": ("no/such/file.csv", "could not be read as .csv"),
    "mixed": ([ROW, 5], "compare takes a data frame"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_frames_that_are_refused(name):
    frame, match = FRAMES[name]
    with pytest.raises(MeanFieldError, match=match):
        check().compare(frame)


def test_frames_that_are_read(tmp_path):
    """Whole numbers as frames write them where something is missing, and files as spreadsheets write them."""
    line = check(networks=2)
    own = line.column("own", layer=2)[0].theory
    assert line.compare([ROW | {"width": 32.0, "layer": "2.0", "value": own}]).passed
    assert not line.compare([ROW | {"layer": 2, "value": 2 * own, "error": own / 100}]).passed
    path = tmp_path / "log.csv"
    path.write_text(f"\ufeffwidth,layer,column,value\n32,2,own,{own}\n", encoding="utf-8")
    assert line.compare(path).passed


def test_edges_are_answers():
    """Nothing warns, and what vanishes is 0."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        zero = check("relu", parametrization(readout={"variance": "n**-64*n**-64*n**-64"}), widths=(128,), networks=2)
        assert all(row.theory == 0 == row.measured for row in zero.rows if row.column in ("own", "total"))
        for rate in (1e100, 1e-150):
            found = check("relu", rate=rate, widths=(32, 64), networks=3)
            assert found.passed == (rate < 1), found.verdict
            assert ("no finite number" in str(found)) == (rate > 1) and found.to_json() and found.latex()
        small = check("tanh", rate=1e-30, widths=(64,), networks=3)
        assert {row.column for row in small.rows if row.measured is None} == {"total", "Df", "Df_features"}
        assert small.passed and "below the rounding" in str(small) and "±1" not in str(small)
        assert all(row.measured is not None for row in check("tanh", rate=1e-10, widths=(64,), networks=3).rows)
        assert len(check(depth=2, networks=2).rows) == 4 + 5
        few = check("tanh", inputs=RNG.standard_normal((20, 4)), widths=(8,), networks=3)  # more inputs than neurons
        assert few.passed, few.verdict
        assert check(optimizer="muon", inputs=np.ones((3, 4)), networks=3).passed  # one input three times
        for block in (behind(TANH, Pool(2)), behind(TANH, Pool(3, "average")), behind(BatchNorm(), TANH)):
            found = check(block, inputs=4, widths=(96,), networks=8, neurons=2048)
            assert found.passed, found.verdict


@dataclass(frozen=True)
class Doubled(Block):
    """A record of one's own: twice what comes in."""


def test_a_stage_of_ones_own_is_used():
    from meanfield.parametrizations.step.training_stages import STAGES

    class Twice(Stage):
        def forward(self, x):
            return 2 * x

        def backward(self, v):
            return 2 * v

        def step(self, change):
            return 2 * change

    with pytest.raises(MeanFieldError, match="Doubled"):
        check(behind(TANH, Doubled()))
    stage(Doubled)(lambda record, at: Twice())
    try:
        from meanfield.parametrizations.step.first_step import first_step
        from meanfield.parametrizations.step.step_case import Case

        def squares(block: Block, sigma_w: float) -> np.ndarray:
            from meanfield.networks.records import Network

            case = Case(Network(block), parametrization("mup", optimizer="adam"), sigma_w, 0.0, 64, 3, np.ones((1, 4)),
                        1e-4, 0.0, np.ones(1))  # fmt: skip
            return first_step(case, 256).total

        own = squares(behind(TANH, Doubled()), 1.0)
        by_hand = squares(behind(TANH, *[architectures.Scale(2)]), 1.0)
        np.testing.assert_allclose(own, by_hand, rtol=1e-12)
        assert np.abs(own / squares(behind(TANH), 1.0) - 1).max() > 0.5
    finally:
        del STAGES[Doubled]


def test_odd_calls_answer_or_refuse():
    """Of 120 draws of odd arguments, none warns or breaks."""
    odd = {
        "widths": [2, 3, (4, 4), 17, "8", 2.0, None, (), -1], "depth": [2, 3, 7, 0, "4", 2.5, None],
        "rate": [1e-12, 0.3, 50.0, "1/10", None, 0, 1e150], "eps": [0, 1e-8, 10.0, "1/100", -1, 1e-150],
        "inputs": [1, 2, 5, np.ones((2, 1)), np.eye(3), [[1, 2]], [1], "x", np.ones((2, 2)) * 1e-50],
        "slopes": [1, -2, [1, 2], 1e30, "1", None, [0, 1]], "biases": [True, False, 1, None],
        "networks": [0, 2, 3, 1, -1, "2"], "steps": [1, 1, 1, 2, 0], "sigma_w": [1, 0, "3/2", 1e20, None, -1],
        "sigma_b": [0, 1, "1/10", None], "optimizer": ["sgd", "adam", "muon", "momentum", None, "x"],
        "seed": [0, 7, -1, 2**62, "1"], "neurons": [16, 64, 65, 3, None],
    }  # fmt: skip
    nets = ["tanh", "relu", "abs", "z**3", mlp("gelu", mu=1), behind(LayerNorm(), GATE), behind(TANH, Pool(2))]
    rng, answered = np.random.default_rng(11), 0
    for _ in range(120):
        names = rng.choice(list(odd), 4, replace=False)
        asked = {str(name): odd[name][rng.integers(len(odd[name]))] for name in names}
        scheme = ("sp", "ntk", "mup", "completep")[rng.integers(4)]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            try:
                found = check(nets[rng.integers(len(nets))], scheme, **asked)
                assert str(found) and found.to_json() and found.latex()
                answered += 1
            except MeanFieldError as error:
                assert len(str(error)) < 400
    assert 20 < answered < 110


def assert_allowed_alike(check, compared) -> None:
    """What finite width may change is the same, whoever measured."""
    pairs = [(one.allowance, other.allowance) for one, other in zip(check.rows, compared.rows, strict=True)]
    assert all(ours == theirs for ours, theirs in pairs), f"allowances differ: {next(p for p in pairs if p[0] != p[1])}"


def logged(check) -> list[dict]:
    names = ("width", "layer", "matrix", "column")
    return [{name: getattr(row, name) for name in names} | {"value": 9 * row.theory} for row in check.rows]


def test_a_log_is_allowed_what_networks_are():
    """A product doubles what finite width adds, in networks and in a log; measured later steps have no line at all."""
    gates = check(behind(GATE), widths=(256,), depth=4)  # ten Dense, and three products: 4 · 10 · 8/256
    log = logged(gates)
    assert {row.allowance for row in gates.rows} == {4.0 * len(gates.column("z") + gates.column("f")) * 8 / 256}
    assert_allowed_alike(gates, gates.compare(log))
    with pytest.raises(AssertionError, match="allowances differ"):  # planted: products that double nothing
        assert_allowed_alike(gates, replace(gates, _counts={4: 10}).compare(log))
    later = check(steps=2, networks=2, optimizer="sgd")
    assert {row.allowance for row in later.compare(logged(later))} == {math.inf}


def test_powers_of_the_width_are_exponents_in_tex():
    """All of an exponent stands above the line: n^{0.57} and not n^0.57, of which TeX raises one character."""
    steep = check("tanh", parametrization("sp", hidden={"rate": "n**(3/7)"}), widths=(32, 64, 128), depth=5)
    tex = steep.latex()
    powers = re.findall(r"\\sim n([^$]*)\$", tex)
    assert any("." in power for power in powers) and any(f"n^{p[2:-1]}" in str(steep) for p in powers if "." in p)
    assert all(re.fullmatch(r"(\^\{-?[\d./]+\})?", power) for power in powers), powers
    assert not re.fullmatch(r"(\^\{-?[\d./]+\})?", "^0.57")  # the control
    scheme = parametrization("mup", base_width=64).latex()
    assert "= width/64, $L$ = blocks" in scheme and "blocks/1" not in scheme
