"""Which branch of `meanfield law` answers: laws of correlators, further terms, critical points, or a sentence."""

from __future__ import annotations

import pytest

from meanfield.base.quantities import CORRELATORS
from meanfield.cli.commands import law
from tests.cli import test_cli

run, strict = test_cli.run, test_cli.strict


@pytest.mark.parametrize("names", [("Theta",), ("V",), ("Theta", *CORRELATORS)])
def test_laws_of_correlators_are_asked_for_together(run, monkeypatch, names):
    """One name, or all that there are; an empty part between commas is none. Rates that were left out are not given."""
    asked = []
    monkeypatch.setattr(law, "_of_correlators", lambda *given: asked.append(given))
    code, _, error = run(f"law relu --lambda-w 1/2 --quantity ' {', ,'.join(names)} '")
    assert code == 0, error
    (theory, weights, found, values, rates, order, form) = asked[0]
    assert (weights, found, values, order, form) == ("gaussian", names, {}, None, (False, False, None))
    assert {k: float(v) for k, v in rates.items()} == {"lambda_w": 0.5} and theory.kind == ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("law relu --quantity W", "'W'"),
        ("law relu --quantity V,K", "'V,K'"),
        ("law relu --orders", "--orders is of the tables of --architecture full_residual"),
        ("law relu --lambda-w 1", "--lambda-w and --lambda-b are of the laws of Theta"),
        ("law relu --lambda-b 1", "--lambda-w and --lambda-b are of the laws of Theta"),
        ("law relu --quantity K --correlation 0.5", "--correlation is of two inputs"),
        ("law exp(-z**2) --quantity K", "has no critical point, where a law could be printed"),
        ("law exp(-z**2) --quantity V", "There is no critical point here; give --sigma-w and --sigma-b."),
    ],
)
def test_what_has_no_law_here(run, line, words):
    code, out, error = run(line.replace("exp(-z**2)", "'exp(-z**2)'"))
    assert code == 2 and not out and words in " ".join(error.split()), error


def test_a_correlation_starts_what_is_of_two_inputs(run):
    """At the critical ReLU 1 - c falls like 9π²/(2l²) from any start, γ grows like 2l²/(9π²); K and J stay."""
    place = "--sigma-w 'sqrt(2)' --sigma-b 0 --correlation 0.5"
    found = strict(run(f"law relu {place} --quantity gamma --json")[1])
    assert found["inputs"]["correlation"] == "1/2" and found["inputs"]["quantity"] == "gamma"
    assert "2*l**2/(9*pi**2)" in run(f"law relu {place} --quantity gamma")[1]


@pytest.mark.slow
def test_a_section_says_where_the_law_holds(run):
    """The numbers that were given, or that any σ_w will do (μ = 1 and a saturating φ)."""
    assert "\nsigma_w = 1, sigma_b = 0\n" in run("law tanh --sigma-w 1 --sigma-b 0")[1]
    assert "\nAny sigma_w > 0\n" in run("law tanh --residual --mu 1")[1]
