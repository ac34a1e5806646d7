"""Claims as such: what `python -m derivations.<paper>` exits with, and that the engine is asked.

The verdicts on the claims themselves are in the tests of each paper.
"""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from importlib import import_module

import pytest
import sympy as sp

import meanfield as mf
from derivations.checks import Check
from derivations.claims import Claim, Verdict, network
from derivations.comparisons import Equation, Floats, Formula, Holds, Is
from derivations.judging import judge
from derivations.orthogonal_weights.kinds import PerNetwork, Says
from meanfield.base.symbols import K, sigma_b, sigma_w

PAPERS = ("attention", "autoinit", "bias_and_trainability", "orthogonal_weights", "partial_jacobians")
PAPERS += ("recipes", "parametrizations", "variance_variation")
RELU = network("relu")
RIGHT = sigma_w**2 * K / 2 + sigma_b**2
GOOD = Equation("(1)", RELU, "K", RIGHT, 2 * RIGHT)
MISPRINT = Equation("(2)", RELU, "K", 2 * RIGHT, RIGHT, misprint=True)
WRONG = {  # what comes out otherwise than expected, and what is said of it
    "a print that is wrong": (replace(GOOD, printed=RIGHT + sp.Rational(1, 10**6)), "the print should be proved"),
    "a contrast that holds": (replace(GOOD, contrast=RIGHT), "the contrast should be refuted, and is proved"),
    "a misprint that holds": (replace(MISPRINT, printed=RIGHT), "the print should be refuted, and is proved"),
    "a correction that does not": (replace(MISPRINT, contrast=3 * RIGHT), "the contrast should be proved"),
    "30 digits for a proof": (
        Equation("(3)", network("tanh"), "<phi^2>", 1 - mf.average(sp.sech(sp.Symbol("z", real=True)) ** 2, K), K),
        "the print should be proved, and is equal to 30 digits",
    ),
    "no verdict": (Is("(4)", RELU, "law Theta exponent of", 1, 2), "no verdict"),
}


def fails(*arguments: str, package: str = "autoinit") -> int | None:
    """The exit code of `python -m derivations.<package> …`."""
    main = f"derivations.{package}.__main__"
    before, imported, sys.argv = sys.argv, sys.modules.pop(main, None), [package, *arguments]
    try:
        runpy.run_module(main, run_name="__main__")
    except SystemExit as end:
        return end.code
    finally:
        sys.argv = before
        if imported is not None:
            sys.modules[main] = imported
    return None


@pytest.mark.parametrize("package", PAPERS)
def test_the_command_of_a_paper_exits_1_for_a_wrong_claim(package, monkeypatch, capsys):
    paper = import_module(f"derivations.{package}")
    monkeypatch.setattr(paper, "CLAIMS", (GOOD, MISPRINT))
    assert fails(package=package) == 0
    text = capsys.readouterr().out
    assert "2 claims: 1 proved, 1 refuted" in text and "1 of them misprints, 0 composed" in text
    assert "2 as expected, 0 not" in text and "NOT AS EXPECTED" not in text
    monkeypatch.setattr(paper, "CLAIMS", (GOOD, WRONG["a print that is wrong"][0], MISPRINT))
    assert fails(package=package) == 1
    text = capsys.readouterr().out
    assert "NOT AS EXPECTED: the print should be proved, and is refuted" in text and "2 as expected, 1 not" in text


@pytest.mark.parametrize("case", WRONG)
def test_whatever_comes_out_otherwise_is_said(case, monkeypatch, capsys):
    claim, text = WRONG[case]
    assert text in str(judge(claim).complaint)
    monkeypatch.setattr(import_module("derivations.autoinit"), "CLAIMS", (GOOD, claim))
    assert fails() == 1
    assert f"NOT AS EXPECTED: {text}" in capsys.readouterr().out


def test_weaker_verdicts_are_expected_where_a_paper_names_them():
    claim, _ = WRONG["30 digits for a proof"]
    assert judge(claim, {"(3)"}).complaint is None
    assert "equal to 30 digits, and is proved" in str(judge(GOOD, {"(1)"}).complaint)


def test_a_part_of_the_claims(monkeypatch, capsys):
    monkeypatch.setattr(import_module("derivations.autoinit"), "CLAIMS", (GOOD, replace(GOOD, source="x", printed=K)))
    assert fails("--only", "(1)") == 0 and fails("--only", "x") == 1
    assert fails("--only", "nowhere") == 2
    assert "no claim has 'nowhere' in its source" in capsys.readouterr().err


def test_the_numbers_of_a_paper_exit_1_for_a_value_that_differs(monkeypatch, capsys):
    right = Check("1", "a", (2.0,), 1e-3, lambda off: (2 + off,))
    wrong = replace(right, name="b", expected=(2.1,))
    blunt = replace(right, name="c", compute=lambda off: (2.0,))  # whatever is planted
    lost = replace(right, name="d", compute=lambda off: (float("nan"),))
    acceptance = import_module("derivations.autoinit.acceptance")
    for checks, code, text in (
        ((right,), 0, "1 as expected, 0 not"),
        ((right, wrong), 1, "1 as expected, 1 not\n  1 b"),
        ((right, blunt), 1, "1 as expected, 1 not\n  1 c"),
        ((right, lost), 1, "1 as expected, 1 not\n  1 d"),
    ):
        monkeypatch.setattr(acceptance, "CHECKS", checks)
        assert fails("numbers") == code
        assert text in capsys.readouterr().out


def test_a_contrast_of_an_input_fails_only_where_the_engine_tells_it_apart():
    claim = Holds("(5)", RELU, "bound", 1.0, 3.0, of=lambda bound, x: x >= bound, places=((2.0,), (1.0,)))
    assert claim.verdict() is Verdict.MEASURED and claim.decided
    assert not replace(claim, printed=1.5).decided and not replace(claim, contrast=0.5).decided
    assert judge(claim).complaint is None


# ----------------------------------------------------------------------------------------------- who is asked

ENGINE = ("derive", "average", "at_infinity", "at_zero", "decay", "haar_moment", "weingarten", "linear_moments")
ENGINE += ("first_linear_layer", "tune", "tuning_rates", "tuning_region", "ClassFraction", "measure", "recipe")
# their functions, too
BESIDE = ("meanfield.bias.guessing", "meanfield.theory.depth_scales", "meanfield.correlators.linear_networks")
BESIDE += ("meanfield.symbolic.finite_width.monomials",)


class Asked(Exception):
    """The engine was asked."""


class Silent:
    """A theory that answers nothing but what its activations are."""

    def __init__(self, theory: mf.Theory):
        self.activations = theory.activations

    def __getattr__(self, name: str) -> object:
        raise Asked(name)


def refuse(*given: object, **named: object) -> None:
    raise Asked


@pytest.fixture
def silence(monkeypatch):
    """The engine as it is seen from `derivations` raises `Asked`; what was remembered there is forgotten meanwhile."""
    for name, module in list(sys.modules.items()):
        if name.startswith("derivations"):
            for key, value in list(vars(module).items()):
                if hasattr(value, "cache_clear"):
                    monkeypatch.setattr(module, key, value.__wrapped__)
                if callable(value) and (key in ENGINE or getattr(value, "__module__", "") in BESIDE):
                    monkeypatch.setattr(module, key, refuse)
    monkeypatch.setattr("derivations.variance_variation.lemmas.FAR", 1000)  # iterations are no concern here
    for room in (mf, mf.bias, mf.symbolic, mf.tuning):
        for name in set(ENGINE) & set(room.__all__):
            monkeypatch.setattr(room, name, refuse)


def written(claim: Claim):
    """The engine's side of a claim where its author wrote it, as a function of a theory; None where the kind does."""
    if isinstance(claim, Formula | PerNetwork | Says):
        return claim.by
    if isinstance(claim, Floats):
        return lambda theory: claim.of(*claim.places[0])
    if isinstance(claim, Holds):
        return lambda theory: claim.of(claim.printed, *claim.places[0])
    return None


def asks(claim: Claim, theory: mf.Theory) -> bool:
    try:
        written(claim)(Silent(theory))
    except Asked:
        return True
    return False


@pytest.mark.parametrize("package", PAPERS)
def test_the_engine_is_asked_by_every_claim_that_is_not_composed(package, request):
    """And a claim counts as composed only where it is not. An engine that raises whatever it is asked tells which."""
    claims = [c for c in import_module(f"derivations.{package}").CLAIMS if written(c) is not None]
    theories = {case: case.theory for claim in claims for case in claim.cases}
    request.getfixturevalue("silence")
    typed = {c.source for c in claims if not asks(c, theories[c.cases[0]])}
    assert typed == {c.source for c in claims if c.composed}


def test_a_side_that_is_typed_is_seen(request):
    claim = Formula("(6)", RELU, "K", RIGHT, 2 * RIGHT, by=lambda theory: RIGHT)
    of = Floats("(7)", RELU, "x", lambda x: x, lambda x: 2 * x, of=lambda x: x, places=((1.0,),))
    theory = RELU.theory
    request.getfixturevalue("silence")
    assert not asks(claim, theory) and not asks(of, theory)
    assert asks(replace(claim, by=lambda theory: theory.one_input["K"]), theory)
    assert asks(replace(of, of=lambda x: float(mf.derive("relu").propagate(sigma_w=x).K[0])), theory)


def test_the_help_names_the_verbs(capsys):
    assert fails("--help", package="orthogonal_weights") == 0
    text = capsys.readouterr().out
    assert all(word in text for word in ("numbers", "figures", "constants", "--only"))
