"""What a result rests on, as BibTeX: each kind of result, and entries that a parser of BibTeX takes."""

from __future__ import annotations

import re
from functools import cache

import pytest

import meanfield as mf
from meanfield.presentation.citation import ENTRIES, OF_KINDS, OF_QUANTITIES, OWN, keys_of
from tests import ROOT

AT = {"sigma_w": 1.5, "sigma_b": 0.2}
TANH = mf.derive("tanh")
ORTHOGONAL = mf.derive("tanh", weights="orthogonal")
CITED = {
    "theory": (lambda: TANH, {"partial_jacobians"}),
    "record": (lambda: mf.Sequential((mf.Nonlinearity("tanh"), mf.Dense())), {"partial_jacobians"}),
    "orthogonal": (lambda: ORTHOGONAL, {"partial_jacobians", "orthogonal_weights"}),
    "batch": (lambda: mf.derive("relu", architecture="batchnorm_mlp"), {"partial_jacobians", "autoinit"}),
    "schedule": (
        lambda: mf.derive("tanh", architecture="full_residual", beta_w=1),
        {"partial_jacobians", "variance_variation"},
    ),
    "fixed points": (lambda: TANH.fixed_points(**AT), {"partial_jacobians", "poole"}),
    "norm": (lambda: mf.derive("tanh", norm="pre"), {"partial_jacobians", "layernorm"}),
    "critical points": (lambda: TANH.critical_points(), {"partial_jacobians", "schoenholz", "pdlt"}),
    "V": (lambda: ORTHOGONAL.depth_law("V", sigma_w=1, sigma_b=0), {"orthogonal_weights", "pdlt"}),
    "bias": (lambda: TANH.bias(**AT), {"bias_and_trainability"}),
    "gamma": (lambda: mf.derive("relu").depth_law("gamma", sigma_w="sqrt(2)", sigma_b=0), {"bias_and_trainability"}),
    "kernel": (lambda: TANH.kernel([[1.0]], **AT, depth=2), {"nngp", "ntk", "poole"}),
    "NNGP alone": (lambda: TANH.kernel([[1.0]], **AT, depth=2, quantities="K"), {"nngp"}),
    "tuning": (lambda: mf.tune("relu", depth=3), {"autoinit"}),
    "run": (lambda: TANH.propagate(**AT, depth=2), {"partial_jacobians"}),
}


@cache
def made_of(name: str):
    """A result, made once for all tests of a process."""
    return CITED[name][0]()


@pytest.mark.slow_with("fixed points", "critical points", "V", "bias")
@pytest.mark.parametrize("name", CITED)
def test_each_kind_of_result_rests_on_its_papers(name):
    what, expected = made_of(name), CITED[name][1]
    assert set(keys_of(what)) == expected
    text = mf.cite(what)
    assert re.findall(r"@\w+\{(\w+),", text) == ["meanfield", *(k for k in ENTRIES if k in expected)]
    assert f"note = {{version {mf.__version__}}}" in text


def assert_is_bibtex(text: str) -> None:
    """Balanced braces, a key and fields `name = {value}` in every entry, nothing between entries."""
    text = re.sub(r"^%.*\n", "", text, flags=re.M)  # comments
    depth = 0
    for letter in text:
        depth += {"{": 1, "}": -1}.get(letter, 0)
        assert depth >= 0 and (depth or letter in "@}\n" or letter.isalpha()), f"{letter!r} between entries"
    assert depth == 0, "a brace is open"
    for entry in re.split(r"\n\n(?=@)", text):
        lines = entry.splitlines()
        assert re.fullmatch(r"@\w+\{\w+,", lines[0]) and lines[-1] == "}"
        assert all(re.fullmatch(r"  \w+ = \{.+\},?", line) for line in lines[1:-1]), entry


def test_entries_are_bibtex():
    text = "\n\n".join(mf.cite(made_of(name)) for name in CITED)
    assert_is_bibtex(text)
    for planted, said in (
        (text.replace("}\n}", "}\n", 1), "."),
        (text + "x y", "between entries"),
        (text + "@a{", "open"),
    ):
        with pytest.raises(AssertionError, match=said):
            assert_is_bibtex(planted)


def test_keys_are_the_papers_that_are_compared():
    folders = {p.name for p in (ROOT / "derivations").iterdir() if (p / "claims").exists() or
               (p / "__init__.py").exists()}  # fmt: skip
    assert set(OWN) <= folders and set(OWN) <= set(ENTRIES)
    held = {key for keys in (*OF_KINDS.values(), *OF_QUANTITIES.values()) for key in keys.split()}
    assert held <= set(ENTRIES)
    with pytest.raises(mf.MeanFieldError, match="A result, a theory or a record can be cited, but 3 was given"):
        mf.cite(3)
    with pytest.raises(mf.MeanFieldError, match="There is nothing to cite"):
        mf.cite()


def test_several_results_are_cited_once():
    text = mf.cite(TANH, ORTHOGONAL, TANH.critical_points())
    assert re.findall(r"@\w+\{(\w+),", text) == [
        "meanfield", "partial_jacobians", "orthogonal_weights", "schoenholz", "pdlt"
    ]
