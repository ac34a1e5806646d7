"""Gains: each number by the engine and by quadrature, by simulation, by the engine's recursions, or from a closed form.

The quadrature knows φ from a table of its own in mpmath; a planted relative error of 1e-6 in the variance that the
engine is given must show in every comparison, one of a few per cent in those that are statistical.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from itertools import pairwise

import mpmath as mp
import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.cli.app import main
from meanfield.tuning import Gains
from tests import DOCS

PLANTED = sp.Rational(10**6 + 1, 10**6)

# ------------------------------------------------------------------------------ φ and φ′ by hand, with their kinks


def sigmoid(z):
    return 1 / (1 + mp.exp(-z))


def sloped(low: Callable, high: Callable, at: object = 0) -> Callable:
    return lambda z: low(z) if z < at else high(z)


def tanh_form(z):
    return mp.tanh(mp.sqrt(2 / mp.pi) * (z + mp.mpf("0.044715") * z**3))


def tanh_form_slope(z):
    inner = mp.sqrt(2 / mp.pi) * (1 + 3 * mp.mpf("0.044715") * z**2)
    return (1 + tanh_form(z)) / 2 + z / 2 * mp.sech(mp.sqrt(2 / mp.pi) * (z + mp.mpf("0.044715") * z**3)) ** 2 * inner


with mp.workdps(40):
    LAMBDA, ALPHA = mp.mpf("1.0507009873554804934193349852946"), mp.mpf("1.6732632423543772848170429916717")
#: (φ, φ′, kinks)
BY_HAND: dict[str, tuple[Callable, Callable, tuple[int, ...]]] = {
    "elu": (sloped(mp.expm1, lambda z: z), sloped(mp.exp, lambda z: 1), (0,)),
    "gelu": (lambda z: z * mp.ncdf(z), lambda z: mp.ncdf(z) + z * mp.npdf(z), ()),
    "gelu_tanh": (lambda z: z * (1 + tanh_form(z)) / 2, tanh_form_slope, ()),
    "leaky_relu": (sloped(lambda z: z / 100, lambda z: z), sloped(lambda z: mp.mpf(1) / 100, lambda z: 1), (0,)),
    "-softplus(-z)": (lambda z: -mp.log1p(mp.exp(-z)), lambda z: sigmoid(-z), ()),
    "relu": (lambda z: max(z, 0), sloped(lambda z: 0, lambda z: 1), (0,)),
    "relu6": (lambda z: min(max(z, 0), 6), lambda z: int(0 < z < 6), (0, 6)),
    "selu": (
        sloped(lambda z: LAMBDA * ALPHA * mp.expm1(z), lambda z: LAMBDA * z),
        sloped(lambda z: LAMBDA * ALPHA * mp.exp(z), lambda z: LAMBDA), (0,),
    ),
    "sigmoid": (sigmoid, lambda z: sigmoid(z) * sigmoid(-z), ()),
    "silu": (lambda z: z * sigmoid(z), lambda z: sigmoid(z) * (1 + z * sigmoid(-z)), ()),
    "softsign": (lambda z: z / (1 + abs(z)), lambda z: 1 / (1 + abs(z)) ** 2, (0,)),
    "softplus": (lambda z: mp.log1p(mp.exp(z)), sigmoid, ()),
    "tanh": (mp.tanh, lambda z: mp.sech(z) ** 2, ()),
}  # fmt: skip


def mean_of(f: Callable, K: object, kinks: tuple[int, ...]) -> mp.mpf:
    """⟨f⟩ at the variance K to about 35 digits: Gauss-Legendre between the kinks and whole deviations."""
    s = mp.sqrt(K)
    ends = sorted({mp.mpf(k) for k in kinks} | {i * s for i in (-13, -9, -6, -4, -2, -1, 0, 1, 2, 4, 6, 9, 13)})
    density = mp.sqrt(2 * mp.pi * K)
    return sum(
        mp.quad(lambda z: f(z) * mp.exp(-z * z / (2 * K)), pair, method="gauss-legendre", maxdegree=5)
        for pair in pairwise(ends)
    ) / density  # fmt: skip


def by_quadrature(phi: str, K: object) -> dict[str, mp.mpf]:
    f, slope, kinks = BY_HAND[phi]
    m, q, d = (mean_of(g, K, kinks) for g in (f, lambda z: f(z) ** 2, lambda z: slope(z) ** 2))
    return {
        "mean": m, "second_moment": q, "slope_square": d, "unit_variance": 1 / mp.sqrt(q - m * m),
        "unit_rms": 1 / mp.sqrt(q), "unit_gradient": 1 / mp.sqrt(d), "sigma_w_forward": mp.sqrt(K / q),
        "sigma_w_backward": 1 / mp.sqrt(d),
        "gate": {"second_moment": K * q, "slope_square": q + K * d, "unit_rms": 1 / mp.sqrt(K * q),
                 "sigma_w_forward": 1 / mp.sqrt(q), "sigma_w_backward": 1 / mp.sqrt(q + K * d)},
    }  # fmt: skip


def assert_gains_agree(phi: str, K: str, planted: object = 1) -> None:
    """Every number of `gains` to 30 digits (a mean of SELU, which is 0 to 31, absolutely)."""
    with mp.workdps(40):
        exact = sp.Rational(K)
        found, expected = mf.gains(phi, exact * planted), by_quadrature(phi, mp.mpf(exact.p) / exact.q)
        for name, value in expected.items():
            both = value.items() if name == "gate" else [(name, value)]
            for inner, right in both:
                record = found.gate if name == "gate" else found
                ours = mp.mpf(str(sp.N(getattr(record, inner).value, 40)))
                off = abs(ours - right) / max(abs(right), mp.mpf("0.01"))
                assert off < mp.mpf("1e-29"), f"{phi}, K = {K}: {name} {inner} is off by {mp.nstr(off, 3)}"


@pytest.mark.fast_with("relu", "relu6")
@pytest.mark.parametrize("phi", BY_HAND)
def test_gains_are_those_of_quadrature_to_30_digits(phi):
    assert_gains_agree(phi, "1")


@pytest.mark.fast_with("relu6-5", "tanh-3/7")
@pytest.mark.parametrize(("phi", "K"), [("silu", "9/4"), ("gelu", "1/10"), ("relu6", "5"), ("tanh", "3/7")])
def test_at_any_variance(phi, K):
    assert_gains_agree(phi, K)


@pytest.mark.parametrize("phi", ["silu", "gelu", "tanh", "relu6"])
def test_a_planted_millionth_shows(phi):
    with pytest.raises(AssertionError, match="is off by"):
        assert_gains_agree(phi, "1", PLANTED)


# ------------------------------------------------------------------------------------- what the numbers are for


def assert_keeps(phi: str, K: str, planted: float = 1.0) -> None:
    """A layer of the engine with sigma_w_forward keeps K, one with sigma_w_backward has J = 1, gated ones, too."""
    own = mf.gains(phi, K)
    theories = {"plain": (own, mf.derive(phi))}
    if own.gate is not None and own.gate.slope_square.value is not sp.nan:
        ones = mf.Dense(sigma_w=1, sigma_b=0)
        record = mf.Sequential((mf.Gate(phi, ones, ones), mf.Dense()))
        theories["gated"] = own.gate, mf.derive(architecture=record)
    for kind, (found, theory) in theories.items():
        for name, quantity in (("sigma_w_forward", "K"), ("sigma_w_backward", "J")):
            sigma = found.gain(name) * planted
            start = {"K": float(sp.Rational(K))}
            run = theory.propagate(sigma_w=sigma, sigma_b=0, depth=2, start=start, quantities=("K", "J"))
            ratio = run.K[1] / run.K[0] if quantity == "K" else np.exp(run.log_J[1])
            assert abs(ratio - 1) < 1e-9, f"{kind} {phi}: {quantity} is multiplied by {ratio}"


@pytest.mark.slow_with("silu-1")
@pytest.mark.parametrize(("phi", "K"), [("relu", "9/4"), ("silu", "1"), ("gelu", "1/2")])
def test_a_layer_of_the_engine_keeps_K_or_J(phi, K):
    assert_keeps(phi, K)
    with pytest.raises(AssertionError, match="is multiplied by"):
        assert_keeps(phi, K, 1 + 1e-6)


def test_closed_forms():
    half, two = sp.Rational(1, 2), sp.sqrt(2)
    relu = mf.gains("relu", "9/4")
    assert relu.unit_rms.value == two / sp.Rational(3, 2) and relu.sigma_w_forward.value == two
    K = sp.Rational(9, 4)
    assert relu.gate.second_moment.value == K**2 / 2 and relu.gate.slope_square.value == K
    assert mf.gains("linear").unit_variance.value == 1 and mf.gains("linear").gate.sigma_w_backward.value == 1 / two
    assert sp.simplify(mf.gains("gelu").second_moment.value - sp.Rational(1, 3) - sp.sqrt(3) / (6 * sp.pi)) == 0
    assert sp.simplify(mf.gains("sin").slope_square.value - half - sp.exp(-2) / 2) == 0
    found = mf.gains(mf.activation("leaky_relu", alpha="alpha"))
    (alpha,) = found.unit_rms.value.free_symbols
    assert sp.simplify(found.unit_rms.value - sp.sqrt(2 / (1 + alpha**2))) == 0
    with pytest.raises(mf.MeanFieldError, match="depends on alpha"):
        found.gain("unit_rms")


@pytest.mark.slow_with("gelu_tanh", "mish", "sigmoid")
@pytest.mark.parametrize("phi", mf.activations())
def test_every_registered_activation_has_gains(phi):
    """In a second each, certified or exact; the numbers are those of one another."""
    begun = time.process_time()
    found = mf.gains(phi, 2)
    took = time.process_time() - begun
    assert took < 2, f"gains({phi}) took {took:.2f} s"
    for name in (*found.moments, *found.names):
        one = getattr(found, name)
        assert one.status in (Status.EXACT, Status.CERTIFIED, Status.NONEXISTENT)
        absent = phi in ("sign", "step") and name in ("slope_square", "unit_gradient", "sigma_w_backward")
        assert (one.status is Status.NONEXISTENT) == absent
        assert one.error is None or one.error <= 1e-30 * max(1, abs(float(one)))
    assert found.gain("unit_variance") >= found.gain("unit_rms") * (1 - 1e-12)
    assert found.gain("sigma_w_forward") == pytest.approx(2**0.5 * found.gain("unit_rms"), rel=1e-13)
    assert found.gate.gain("unit_rms") == pytest.approx(found.gain("unit_rms") / 2**0.5, rel=1e-13)


# ------------------------------------------------------------------------------------------------------- gates, drawn


def assert_gate_is_drawn(phi: str, K: float, terms: int = 2) -> None:
    """Mean square of u·φ(v) and of its gradient, over draws of u and v: within 4 standard errors."""
    f, slope = {"silu": (lambda v: v / (1 + np.exp(-v)), lambda v: (1 + np.exp(-v) * (1 + v)) / (1 + np.exp(-v)) ** 2),
                "relu": (lambda v: np.maximum(v, 0), lambda v: (v > 0) * 1.0)}[phi]  # fmt: skip
    u, v = np.sqrt(K) * np.random.default_rng(5).standard_normal((2, 400_000))
    gate = mf.gains(phi, str(K)).gate
    drawn = {"unit_rms": (u * f(v)) ** 2, "sigma_w_backward": f(v) ** 2 + (terms == 2) * (u * slope(v)) ** 2}
    for name, squares in drawn.items():
        z = (squares.mean() - gate.gain(name) ** -2) / (squares.std() / len(squares) ** 0.5)
        assert abs(z) < 4, f"{phi}, {name}: z = {z:.1f}"


@pytest.mark.fast_with("relu-0.5")
@pytest.mark.parametrize(("phi", "K"), [("silu", 1.0), ("silu", 2.5), ("relu", 0.5)])
def test_gated_units_as_they_are_drawn(phi, K):
    assert_gate_is_drawn(phi, K)
    with pytest.raises(AssertionError, match="sigma_w_backward: z ="):
        assert_gate_is_drawn(phi, K, terms=1)


@pytest.mark.slow
def test_gated_units_by_their_names():
    inner = {"glu": "sigmoid", "SwiGLU": "silu", "geglu": "gelu", "reglu": "relu", "bilinear": "z"}
    for name, inside in inner.items():
        assert mf.gains(name, 3).second_moment.value == mf.gains(inside, 3).gate.second_moment.value
    assert mf.gains("swiglu").is_gate and not mf.gains("silu").is_gate


# ------------------------------------------------------------------------------------------------------------ softmax


def assert_softmax_is_drawn(T: int, s: float, planted: float = 1.0) -> None:
    """Φ, the average of values and the gradient of its scores, over drawn rows: within 4 standard errors."""
    rng = np.random.default_rng(8)
    z = rng.normal(size=(20_000, T)) * s * planted
    A = np.exp(z - z.max(axis=1, keepdims=True))
    A /= A.sum(axis=1, keepdims=True)
    v = rng.normal(size=A.shape)
    y = (A * v).sum(axis=1, keepdims=True)
    drawn = {
        "overlap": (A**2).sum(axis=1), "unit_average": y[:, 0] ** 2, "unit_entry": (A**2).mean(axis=1),
        "unit_score_gradient": ((A * (v - y)) ** 2).sum(axis=1),
        "unit_entry_gradient": ((A * (v - y)) ** 2).mean(axis=1),  # v as the gradient that comes in
    }  # fmt: skip
    found = mf.gains("softmax", tokens=T, scores=str(s))
    for name, squares in drawn.items():
        expected = float(found.overlap) if name == "overlap" else found.gain(name) ** -2
        score = (squares.mean() - expected) / (squares.std() / len(squares) ** 0.5)
        assert abs(score) < 4, f"T = {T}, s = {s}: {name} has z = {score:.1f}"


@pytest.mark.slow_with("64-2.5")
@pytest.mark.parametrize(("T", "s"), [(16, 1.0), (64, 2.5)])
def test_softmax_as_it_is_drawn(T, s):
    assert_softmax_is_drawn(T, s)
    with pytest.raises(AssertionError, match="has z ="):
        assert_softmax_is_drawn(T, s, 1.05)


def assert_two_tokens(s: str, planted: object = 1) -> None:
    """Of two tokens A = σ(x), x normal of variance 2s²: balls of averages over it, another route."""
    V = sp.Rational(s) ** 2 * planted
    flat, steep = (mf.certified(mf.average(text, 2 * V), 25) for text in ("tanh(z/2)**2", "(1 - tanh(z/2)**2)**2"))
    found = mf.gains("softmax", tokens=2, scores=s, digits=20)
    for one, right in ((found.overlap, (1 + flat) / 2), (found.slope, steep / 4)):
        off = abs(float(mf.certified(sp.Rational(str(one.value)), 30) / right - 1))
        assert off < 1e-20, f"s = {s}: off by {off:.1e}"
        assert one.status is Status.MEASURED and one.error <= 2e-20


@pytest.mark.slow
def test_softmax_of_two_tokens_by_balls():
    for s in ("1/10", "1", "8"):
        assert_two_tokens(s)
    with pytest.raises(AssertionError, match="off by"):
        assert_two_tokens("1", PLANTED)


def test_softmax_at_its_ends():
    even = mf.gains("softmax", tokens=49, scores=0)
    assert (even.unit_average.value, even.unit_entry.value) == (7, 49) and even.overlap.status is Status.EXACT
    assert even.slope.value == sp.Rational(48, 49**2)
    far = mf.gains("softmax", tokens=9, scores=100)
    assert far.gain() == pytest.approx(1, abs=2e-2) and far.gain("unit_score_gradient") > 10
    alone = mf.gains("softmax", tokens=1, scores=2)
    assert alone.unit_average.value == 1 and alone.unit_score_gradient.status is Status.NONEXISTENT
    assert "The softmax of one token is 1" in alone.unit_score_gradient.message


# ------------------------------------------------------------------------------------------- what does not exist


@pytest.mark.parametrize(
    ("phi", "absent", "said"),
    [
        ("sign", {"slope_square", "unit_gradient", "sigma_w_backward"}, "φ jumps at z = 0"),
        ("z if z > 1 else 0", {"slope_square", "unit_gradient", "sigma_w_backward"}, "φ jumps at z = 1"),
        ("sqrt(abs(z))", {"slope_square", "unit_gradient", "sigma_w_backward"}, "is not integrable at 0"),
        ("exp(z**2/3)", {*Gains.moments, *Gains.names} - {"mean"}, "outgrows the Gaussian"),
        ("sign(z)**2", {"unit_variance", "unit_gradient", "sigma_w_backward"}, "no spread"),
    ],
)
def test_what_does_not_exist_is_absent_with_a_sentence(phi, absent, said):
    found = mf.gains(phi)
    nowhere = {n for n in (*found.moments, *found.names) if getattr(found, n).status is Status.NONEXISTENT}
    assert nowhere == absent and said in str(found.data()) and " ".join(said.split()) in " ".join(str(found).split())
    with pytest.raises(mf.MeanFieldError, match="is not available"):
        found.gain(min(absent & set(found.names)))
    space: dict = {}
    exec(found.torch(), space)
    assert set(space["GAINS"]) == set(found.names) - absent


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"activation": "relu", "variance": 0}, "variance must be > 0"),
        ({"activation": "relu", "variance": "-1/2"}, "variance must be > 0"),
        ({"activation": "relu", "variance": float("nan")}, "variance must be a finite number"),
        ({"activation": "relu", "variance": [1, 2]}, "variance must be a finite number"),
        ({"activation": "relu", "tokens": 4}, "are of a softmax"),
        ({"activation": "softmax"}, "give both"),
        ({"activation": "softmax", "tokens": 4}, "give both"),
        ({"activation": "softmax", "tokens": 0, "scores": 1}, "tokens must be a whole number"),
        ({"activation": "softmax", "tokens": 4, "scores": -1}, "standard deviation ≥ 0"),
        ({"activation": "softmax", "variance": 2, "tokens": 4, "scores": 1}, "given by scores="),
        ({"activation": "gelou"}, "Did you mean gelu"),
        ({"activation": "3"}, "a constant is no activation"),
        ({"activation": "exp(exp(z))"}, "not bounded by the rules"),
        ({"activation": "relu", "digits": 0}, "digits must be a whole number"),
        ({"activation": None}, "An activation must be"),
        ({"activation": "relu", "varaince": 2}, "takes no argument 'varaince'"),
    ],
)
def test_bad_input_is_a_sentence(given, said):
    with pytest.raises(mf.MeanFieldError, match=said):
        mf.gains(**given)
    with pytest.raises(mf.MeanFieldError, match="No gain is called 'rms'"):
        mf.gains("relu").gain("rms")


# ---------------------------------------------------------------------------------------------------------- its forms


@pytest.mark.slow
def test_digits_at_request():
    with mp.workdps(120):
        right = 1 / mp.sqrt(mean_of(lambda z: mp.tanh(z) ** 2, mp.mpf(1), ()))
    found = mf.gains("tanh", digits=60)
    assert found.decimals("unit_rms")[:38] == mp.nstr(right, 60)[:38] and len(found.decimals("unit_rms")) > 59
    assert found.unit_rms.error < 1e-60
    assert mf.gains("gelu", digits=50).decimals("mean") == "0.28209479177387814347403972578038629292202531466450"


@pytest.mark.parametrize(
    "found", [mf.gains("silu"), mf.gains("selu", 2), mf.gains("sign"), mf.gains("softmax", tokens=8, scores="1/2")]
)
def test_every_form(found, tmp_path):
    assert max(map(len, str(found).splitlines())) <= 80 and len(str(found).splitlines()) < 40
    assert "\\begin{aligned}" in found.latex() and "aligned" in found._repr_html_()
    names = (*found.moments, *found.names)
    data = json.loads(found.to_json())["data"]
    for name in names:
        one = getattr(found, name)
        assert data[name]["status"] == one.status.value and data[name]["digits"] == (found.decimals(name) or None)
    assert list(found.arrays().columns["name"][1][: len(names)]) == list(names)
    assert mf.load(found.save(tmp_path / "gains.json"))
    space: dict = {}
    exec(found.torch(), space)
    assert space["gain"]() == found.gain() and space["gain"](found.names[1]) == found.gain(found.names[1])
    if importlib.util.find_spec("pandas"):
        assert len(found.to_frame()) in (len(names), 2 * len(names))


@pytest.mark.slow
def test_a_callable_and_a_formula_are_read_as_everywhere():
    assert mf.gains(lambda z: z / (1 + z**2)).second_moment.status in (Status.EXACT, Status.CERTIFIED)
    assert mf.gains(np.tanh).unit_rms == mf.gains("tanh").unit_rms == mf.gains(sp.tanh).unit_rms
    assert mf.gains("nn.GELU(approximate='tanh')").what == "gelu_tanh"


# ------------------------------------------------------------------------------------------------------ what is written


def assert_page_says(page: str, phi: str, digits: int = 6) -> None:
    """The three gains of φ stand on the page, rounded to as many decimals."""
    found = mf.gains(phi)
    for name in ("unit_rms", "unit_gradient", "unit_variance"):
        shown = f"{found.gain(name):.{digits}f}"
        assert shown in page, f"{phi}: {name} = {shown} is not on the page"


@pytest.mark.slow
def test_the_page_answers_what_people_ask():
    page = (DOCS / "gains.md").read_text(encoding="utf-8")
    asked = page.partition("## Questions that come up")[2].partition("## Softmax")[0]
    for phi in ("gelu", "gelu_tanh", "silu", "mish", "elu", "sigmoid"):
        assert_page_says(asked, phi)
    for gate in ("swiglu", "geglu"):
        assert f"{mf.gains(gate).gain('sigma_w_backward'):.6f}" in asked
    with pytest.raises(AssertionError, match="is not on the page"):
        assert_page_says(asked.replace("1.676532", "1.676531"), "silu")


def test_on_the_command_line(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["gains", "silu", "--variance", "9/4", "--json", "--digits", "12"])
    found = json.loads(capsys.readouterr().out)
    assert found["command"] == "gains"
    assert found["results"]["unit_rms"]["digits"] == mf.gains("silu", "9/4", digits=12).decimals("unit_rms")
    refused = {"softmax": "give both", "silu --snippet flax": "must be torch", "silu --variance -1": "> 0"}
    for line, said in refused.items():
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["gains", *line.split()])
        assert said in capsys.readouterr().err
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["gains", "softmax", "--tokens", "4", "--scores", "0", "--snippet", "torch"])
    assert '"unit_average": 2.0' in capsys.readouterr().out
