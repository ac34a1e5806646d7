"""Published statements of the paper on orthogonal weights as claims: the engine's own results decide each.

Source: Feature Learning and Generalization in Deep Networks with Orthogonal Weights; numbers in brackets are its
equations, E-numbers errata of its specification.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from derivations.comparisons import Floats
from derivations.judging import judge
from derivations.orthogonal_weights import CLAIMS, TO_DIGITS, laws, vertices
from derivations.orthogonal_weights.__main__ import main
from derivations.orthogonal_weights.kernels import TANH
from meanfield.base.symbols import K

MANY = ("(4.26), any sigma", "(4.18), Gaussian")  # φ's
SLOW = {c for c in CLAIMS if isinstance(c, Floats) or c.source.startswith("(4.16)") or c.source in MANY}
CASES = [pytest.param(c, id=f"{c.source} {c.quantity}", marks=[pytest.mark.slow] * (c in SLOW)) for c in CLAIMS]


@pytest.mark.slow_with(
    "(4.17), C_W = 1, layer by layer V_1234", "(4.17), one input, layers 1-3 V",
    "E15 (4.17), mixed: V has 1/n corrections V", "(4.4) chi_par", "(4.21) <sigma^2>^2", "(4.18), orthogonal V",
    "(4.13)-(4.15) Delta V", "E2 (4.14) Delta V", "(4.19), ReLU, orthogonal: V' of layer l V/K^2", "(4.24), c = -1/2 V",
    "(4.24) V/K^2", "§ 4.3, Gaussian tanh V/K^2", "§ 5.3, Gaussian: as l but U V ... T", "C1: bounded V ... U",
    "C1: log(l)/l beside the limit V ... U", "C2: |A| < |B| A/B", "C2: |D| < |F| D/F", "C4: tanh, 1/n^2 G2/K, V1/K^2",
    "C6: powers of l, Gaussian tanh V ... U", "C6: powers of l, Gaussian ReLU V ... F",
    "C5: one input, the leading terms V ... U",
)  # fmt: skip
@pytest.mark.parametrize("claim", CASES)
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right statement holds and its planted change does not; a misprint fails and the corrected form holds."""
    complaint = judge(claim, TO_DIGITS).complaint
    assert complaint is None, complaint


def test_counts():
    """A claim that silently disappears is seen."""
    assert len(CLAIMS) == len({c.id for c in CASES})
    counts = {"Formula": 79, "PerNetwork": 14, "Equation": 4, "Says": 15, "Floats": 19}
    assert Counter(type(c).__name__ for c in CLAIMS) == counts
    assert sum(c.misprint for c in CLAIMS) == 11
    assert not any(c.composed for c in CLAIMS)


def test_the_laws_differ_where_they_are_told_apart():
    """Each term that tells orthogonal from Gaussian weights, put into the other's map, is refuted."""
    for law, other in (("orthogonal", 1), ("gaussian", 3)):
        claim = next(c for c in vertices.MAPS if c.source.lower() == f"(4.18), {law}")
        assert not replace(claim, networks=claim.cases[1], printed=vertices.bracket(other)).verdict()


def test_a_series_that_is_cut_too_early_is_seen():
    claim = next(c for c in CLAIMS if c.source == "(4.22)")
    assert claim.networks == TANH and not replace(claim, printed=claim.printed + K**2).verdict()


def test_the_verdicts_print(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["orthogonal_weights"])
    monkeypatch.setattr("derivations.orthogonal_weights.__main__.CLAIMS", CLAIMS[:3])
    assert main() == 0
    assert "3 claims: 3 proved" in capsys.readouterr().out


@pytest.mark.slow
def test_the_table_of_constants(capsys, monkeypatch):
    """Limits where the published figures saturate, slopes for Gaussian weights; another rate gives another table."""
    monkeypatch.setattr("sys.argv", ["orthogonal_weights", "constants"])
    main()
    table = capsys.readouterr().out
    for row in ("V~  -2                 2*l/3", "F~  -2/3               l/4", "U~  1/(2*l)            1/(2*l)"):
        assert row in table
    monkeypatch.setitem(laws.PLACE, "lambda_b", 0)
    assert "64/(27*l)" in table and "64/(27*l)" not in laws.constants(("A",))
