"""Names that are not known: misspellings and words of the field lead to the name here; what is not there says so."""

from __future__ import annotations

import ast

import pytest

import meanfield as mf
from meanfield.base.quantities import QUANTITIES
from meanfield.base.words import MISSING, WORDS, canonical, close, meant, unknown
from meanfield.networks.architectures import PRESETS
from tests import ROOT

TANH = mf.derive("tanh")
AT = {"sigma_w": 1, "sigma_b": 0, "depth": 3}

#: call → what its refusal leads to
LED = {
    lambda: TANH.recursion("NTK"): "Unknown quantity 'NTK': did you mean 'Theta'",
    lambda: TANH.propagate(**AT, quantities="NNGP"): "Unknown quantity 'NNGP': did you mean 'K'",
    lambda: TANH.propagate(**AT, quantities="theta"): "did you mean 'Theta'",
    lambda: TANH.propagate(**AT, quantities="correlation"): "did you mean 'c'",
    lambda: TANH.kernel([[1.0]], **AT, quantities="ntk"): "Unknown kernel 'ntk': did you mean 'Theta'",
    lambda: TANH.depth_law("tangent kernel"): "did you mean 'Theta'",
    lambda: TANH.depth_law("chi_J"): r"susceptibilities\(\) has its formula",
    lambda: mf.measure("tanh", **AT, width=9, networks=2, quantities="NTK"): "did you mean 'Theta'",
    lambda: mf.check("tanh", **AT, width=9, networks=2, quantities="jacobian"): "did you mean 'J'",
    lambda: mf.derive("tanh", weights="haar"): "Unknown weights 'haar': did you mean 'orthogonal'",
    lambda: mf.derive("tanh", weights="He"): "did you mean 'gaussian'",
    lambda: mf.derive("tanh", architecture="pre-ln"): "did you mean 'preln'",
    lambda: mf.derive("tanh", architecture="ResNet"): "did you mean 'resnet'",
    lambda: mf.derive("tanh", architecture="MLP-Mixer"): "did you mean 'mlp_mixer'",
    lambda: mf.derive("tanh", architecture="CNN"): "Convolutions are not described here: .* the choices are mlp",
    lambda: mf.derive("tanh", architecture="transformer"): "did you mean 'gpt'",
    lambda: mf.derive("tanh", architecture="BERT"): "did you mean 'encoder_postln'",
    lambda: mf.derive("tanh", norm="RMSNorm"): r"It is a record, meanfield.networks.RMSNorm",
    lambda: mf.derive("tanh", norm="LayerNorm"): "did you mean 'pre'",
    lambda: mf.derive("tanh", norm="batchnorm"): "architecture='batchnorm_mlp'",
    lambda: mf.derive("tanh", norm="post"): "architecture='postln'",
    lambda: TANH.phase_diagram(points=50): r"An axis of a grid is \(low, high, count\)",
    lambda: TANH.propagate(weight_std=1, bias_std=0, depth=3): "weight_std is called sigma_w here",
    lambda: TANH.propagate(C_W=1, C_b=0, depth=3): r"It is sigma_w\*\*2: give its root",
    lambda: TANH.propagate(sigma_w=1, sigma_b=0, layers=3): "'layers'. Did you mean 'depth'",
    lambda: mf.recommend("tanh", layers=5, width=9): "'layers'. Did you mean 'depth'",
    lambda: mf.measure("tanh", **AT, n=9, networks=2): "Did you mean 'width'",
}  # fmt: skip


@pytest.mark.parametrize("call", LED, ids=LED.values())
def test_words_of_the_field_lead_on(call):
    with pytest.raises(mf.MeanFieldError, match=LED[call]):
        call()


def test_a_theory_knows_what_its_verbs_are_called_elsewhere():
    for word, verb in (("critical_point", "critical_points"), ("run", "propagate"), ("correlatoins", "correlations")):
        with pytest.raises(AttributeError, match=f"A Theory has no '{word}': did you mean '{verb}'"):
            getattr(TANH, word)
    for name, where in (("Attention", "networks"), ("gpt", "architectures"), ("overlap", "symbolic")):
        with pytest.raises(AttributeError, match=f"meanfield has no '{name}': it is meanfield.{where}.{name}"):
            getattr(mf, name)
    with pytest.raises(AttributeError, match="has K \\(NNGP\\) and Theta \\(NTK\\)"):
        TANH.ntk  # noqa: B018
    with pytest.raises(AttributeError, match="it has averages, batch_invariant, bias, correlations, "):
        TANH.xyzzy  # noqa: B018
    assert not hasattr(TANH, "_repr_json_") and not hasattr(TANH, "__array__")


def names() -> set[str]:
    """Every name that a word may lead to."""
    from tests.docs.test_vocabulary import arguments

    verbs = {n for cls in (mf.Theory, mf.Law) for n in dir(cls) if not n.startswith("_")} | set(mf.__all__)
    choices = {"orthogonal", "gaussian", "pre", "act", "none"}
    return set(QUANTITIES) | set(PRESETS) | verbs | choices | set(arguments()) | {"G_z", "G_w", "G_b", "fisher"}


def assert_words_lead_somewhere(words) -> None:
    gone = {target for targets in words.values() for target in targets.split()} - names()
    assert not gone, f"no name is called {sorted(gone)}"
    assert all(word == canonical(word) for word in words), "words stand in small letters and digits"


def test_every_word_leads_to_a_name_that_there_is():
    assert_words_lead_somewhere(WORDS)
    assert all(word == canonical(word) for word in MISSING)
    with pytest.raises(AssertionError, match=r"no name is called \['Thetta'\]"):  # planted
        assert_words_lead_somewhere({**WORDS, "ntk": "Thetta"})
    with pytest.raises(AssertionError, match="small letters"):
        assert_words_lead_somewhere({**WORDS, "N-T-K": "Theta"})


def test_what_is_near_and_what_is_not():
    """Of names of one or two letters every other one is near, so that only capitals are forgiven."""
    assert close("k", ("K", "J")) == "K" and close("q", ("J", "V")) is None and close("xy", ("xz", "Theta")) is None
    assert close("distence", ("distance", "c")) == "distance" and close("gram", ("orthogonal",)) is None
    assert close("ntk", ("J", "gamma")) is None and close("NTK", ("Theta_ab",)) == "Theta_ab"
    assert str(unknown("loss", "x", ())) == "Unknown loss 'x'; the choices are none."
    assert str(unknown("loss", 3, ("a", "b"))) == "Unknown loss 3; the choices are a, b."
    assert meant("zzz", ()) == " It takes none." and meant("dropout", ("a",)) == " Dropout is not described here."


WORDS_FILE = ROOT / "meanfield" / "base" / "words.py"


def test_no_word_stands_twice():
    """A later entry would hide an earlier one: `ensemble` led to a verb alone, and no longer to networks=."""
    source = WORDS_FILE.read_text(encoding="utf-8")
    assert_no_key_twice(source)
    with pytest.raises(AssertionError, match="run"):
        assert_no_key_twice(source.replace('"network": "networks"', '"run": "networks"'))
    assert close("ensemble", ["networks", "width"]) == "networks" and close("act", ["activation"])


def assert_no_key_twice(source: str) -> None:
    tables = [n for n in ast.parse(source).body if isinstance(n, ast.AnnAssign) and isinstance(n.value, ast.Dict)]
    assert len(tables) == 3
    for table in tables:
        keys = [key.value for key in table.value.keys if key is not None]
        keys += [e.value for v in table.value.values if isinstance(v, ast.Call) for e in v.args[0].elts]
        twice = sorted({k for k in keys if keys.count(k) > 1})
        assert not twice, f"{table.target.id} has {', '.join(twice)} twice"
