"""check(): theory against explicit networks, with the control that must fail."""

from __future__ import annotations

import json

import numpy as np
import pytest

import meanfield as mf
from meanfield.comparison import check as comparison
from meanfield.comparison import checked_networks
from meanfield.empirical import run_ensemble


def verdict(run, full, half, names=("K", "J")) -> dict[str, bool]:
    rows, _, _ = comparison.compare(run, full, (half,), names)
    return {q: all(r.passed for r in rows if r.quantity == q) for q in names}


@pytest.mark.slow
def test_acceptance_tanh_residual():
    """σ_w = 1.2, σ_b = .1, width 500, depth 50, 200 networks: |z| ≤ 4 at every layer; σ_w off by 2 % fails in K."""
    theory = mf.derive("tanh", residual=True)
    full = run_ensemble(theory.block, sigma_w=1.2, sigma_b=0.1, width=500, depth=50, networks=200, seed=0)
    half = run_ensemble(
        theory.block, sigma_w=1.2, sigma_b=0.1, width=250, depth=50, networks=200, seed=0, first_network=200
    )
    right = theory.propagate(sigma_w=1.2, sigma_b=0.1, depth=50)
    assert verdict(right, full, half) == {"K": True, "J": True}
    for factor in (1.02, 0.98):
        wrong = theory.propagate(sigma_w=1.2 * factor, sigma_b=0.1, depth=50)
        assert not verdict(wrong, full, half)["K"]


CASES = [
    ("gelu", {}, None),
    ("silu", {"residual": True, "mu": 0.5}, None),
    ("hard_tanh", {}, 0.4),
    ("z*erf(z)", {}, None),
    ("step", {}, None),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kw", "correlation"), CASES, ids=[c[0] for c in CASES])
def test_small_checks_pass_and_two_percent_fails(name, kw, correlation):
    theory = mf.derive(name, **kw)
    report = mf.check(
        theory, sigma_w=1.3, sigma_b=0.2, width=150, depth=8, networks=150, correlation=correlation, seed=3
    )
    assert report.passed, str(report)
    assert json.loads(json.dumps(report.data()))["passed"] is report.passed
    assert all(len(line) <= 80 for line in str(report).splitlines())


@pytest.mark.slow
def test_planted_error_is_caught_at_small_size():
    theory = mf.derive("tanh", residual=True)
    full = run_ensemble(theory.block, sigma_w=1.2, sigma_b=0.1, width=200, depth=12, networks=400, seed=1)
    half = run_ensemble(
        theory.block, sigma_w=1.2, sigma_b=0.1, width=100, depth=12, networks=400, seed=1, first_network=400
    )
    assert verdict(theory.propagate(sigma_w=1.2, sigma_b=0.1, depth=12), full, half) == {"K": True, "J": True}
    wrong = verdict(theory.propagate(sigma_w=1.224, sigma_b=0.1, depth=12), full, half)
    assert not wrong["K"]
    other = verdict(mf.derive("erf", residual=True).propagate(sigma_w=1.2, sigma_b=0.1, depth=12), full, half)
    assert not other["K"] and not other["J"]


@pytest.mark.slow
def test_standard_report_catches_planted_errors(monkeypatch):
    """Default settings (exact in law, width 10⁴, 200 networks): variance of the weights 1 % off, φ′ missing once."""
    from meanfield.empirical.network.operations import operations

    theory = mf.derive("tanh")
    sigmas = {"sigma_w": 1.0, "sigma_b": 0.1}
    right = mf.check(theory, **sigmas)
    assert right.passed, str(right)
    assert right.settings["sampler"] == "lazy" and right.settings["width"] == 10_000
    real_run = checked_networks.run_ensemble

    def heavier(block, *, sigma_w, **more):
        return real_run(block, sigma_w=sigma_w * 1.01**0.5, **more)

    monkeypatch.setattr(checked_networks, "run_ensemble", heavier)
    wrong = mf.check(theory, **sigmas)
    assert not wrong.passed and abs(wrong.worst("K").z) > 5, str(wrong)
    monkeypatch.setattr(checked_networks, "run_ensemble", real_run)
    right_apply = operations.Map.apply

    def forgetful(self, z, site):
        new, derivative = right_apply(self, z, site)
        if site.layer == 8:
            derivative.slope[...] = 1.0
        return new, derivative

    monkeypatch.setattr(operations.Map, "apply", forgetful)
    wrong = mf.check(theory, **sigmas, threads=1)
    assert all(r.passed for r in wrong.rows if r.quantity == "K"), str(wrong)
    failed = [r.layer for r in wrong.rows if not r.passed]
    assert failed and min(failed) == 8, str(wrong)


@pytest.mark.slow
def test_layerwise_sigmas_reach_both_sides():
    theory = mf.derive("erf")
    sigma = np.array([1.0, 2.0, 0.5, 1.5])
    settings = dict(sigma_b=0.1, width=150, depth=4, networks=150, quantities=("K",))
    report = mf.check(theory, sigma_w=sigma, layerwise=True, **settings)
    assert report.passed, str(report)
    with pytest.raises(mf.MeanFieldError, match="several points, and this verb takes one"):
        mf.check(theory, sigma_w=sigma, **settings)


def test_report_is_written_whole(tmp_path):
    report = mf.check(mf.derive("relu"), sigma_w=1.4, sigma_b=0.0, width=40, depth=3, networks=20)
    report.to_json(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["data"]["title"] == "Check of MLP, relu"
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ({"width": 0}, "width"),
        ({"depth": 0}, "depth"),
        ({"networks": 1}, "networks"),
        ({"sigma_w": -1}, "≥ 0"),
        ({"input_norm": 0}, "norm"),
        ({"quantities": ("J0",)}, "input_dimension"),
        ({"quantities": ("J0", "J"), "input_dimension": 3}, "check them separately"),
        ({"quantities": ("V",)}, "of a check"),
        ({"correlation": 1.5}, "between -1 and 1"),
    ],
)
def test_bad_sizes_get_a_sentence(arguments, word):
    settings = {"sigma_w": 1.0, "sigma_b": 0.0, "width": 10, "depth": 2, "networks": 4} | arguments
    with pytest.raises(mf.MeanFieldError, match=word):
        mf.check(mf.derive("tanh"), **settings)


def test_a_kernel_of_a_jump_is_refused_for_what_it_is():
    """Theta of step is infinite: it was called a quantity of two inputs."""
    settings = {"sigma_w": 1.0, "sigma_b": 0.0, "width": 10, "depth": 2, "networks": 4}
    with pytest.raises(mf.MeanFieldError, match="infinite in the theory"):
        mf.check("step", quantities=("Theta",), **settings)
    with pytest.raises(mf.MeanFieldError, match="give correlation="):  # one that is
        mf.check("step", quantities=("K_ab",), **settings)


def test_overflowing_networks_are_reported():
    report = mf.check(mf.derive("relu2"), sigma_w=3.0, sigma_b=0.0, width=20, depth=12, networks=10)
    assert any("overflow" in n or "diverges" in n for n in report.notes)
    assert max(r.layer for r in report.rows) < 12


ZERO = [
    ({}, "explicit"),
    ({"width": 2000, "networks": 12}, "two narrower ensembles"),
    ({"quantities": ("J0",), "input_dimension": 5}, "J0"),
    ({"sigma_w": [1.2, 0.0, 1.0, 1.0], "layerwise": True}, "one layer"),
]


@pytest.mark.slow_with("J0")
@pytest.mark.parametrize("more", [z[0] for z in ZERO], ids=[z[1] for z in ZERO])
def test_exactly_nothing_agrees_with_exactly_nothing(more, monkeypatch):
    """σ_w = 0: the theory's J is 0, and so is that of every network. One network of one width that is not 0 fails."""
    settings = {"sigma_w": 0.0, "sigma_b": 0.3, "width": 32, "depth": 4, "networks": 8, "seed": 2} | more
    report = mf.check("tanh", **settings)
    quantity = "J0" if "quantities" in more else "J"
    rows = [r for r in report.rows if r.quantity == quantity and r.layer > 1]
    assert len(rows) == 3 and report.passed, str(report)
    assert all((r.theory, r.allowance, r.measured, r.z) == (0, 0, 0, 0) and r.nothing for r in rows)
    text = str(report)
    assert text.count(" exact\n") >= 3 and f"theory's {quantity} is exactly 0" in text.replace("\n", " ")
    assert max(map(len, text.splitlines())) <= 80

    real_run = checked_networks.run_ensemble

    def leaking(block, **given):
        found = real_run(block, **given)
        if given["first_network"] > 0:  # a narrower ensemble; the widest one is right
            found.samples["log_J"][0, -1] = -800.0  # e^{-800} is 0 in doubles
        return found

    monkeypatch.setattr(checked_networks, "run_ensemble", leaking)
    wrong = mf.check("tanh", **settings)
    assert [r.layer for r in wrong.rows if not r.passed and r.quantity == quantity] == [4], str(wrong)
    monkeypatch.setattr(checked_networks, "run_ensemble", lambda b, **given: real_run(b, **given | {"sigma_w": 1e-3}))
    wrong = mf.check("tanh", **settings)
    failed = {r.layer for r in wrong.rows if not r.passed and r.quantity == quantity}
    assert failed >= {2, 3, 4}, str(wrong)


def test_no_network_is_exactly_nothing_where_the_theory_is_not(monkeypatch):
    real_run = checked_networks.run_ensemble
    monkeypatch.setattr(checked_networks, "run_ensemble", lambda b, **given: real_run(b, **given | {"sigma_w": 0.0}))
    wrong = mf.check("tanh", sigma_w=1.0, sigma_b=0.3, width=32, depth=3, networks=8)
    assert not any(r.passed for r in wrong.rows if r.layer > 1 and r.quantity == "J")


@pytest.mark.slow
def test_progress_counts_the_networks_of_all_widths():
    """(networks done, of all widths together), growing to the whole of it, and never a width's own count again."""
    seen = []
    mf.check(
        mf.derive("tanh"), sigma_w=1.2, sigma_b=0.3, width=256, depth=2, networks=6, quantities=("Theta",), threads=1,
        progress=lambda done, total: seen.append((done, total)),
    )  # fmt: skip
    done, totals = zip(*seen)
    assert len(set(totals)) == 1 and totals[0] % 6 == 0 and done[-1] == totals[0]
    assert list(done) == sorted(done)


@pytest.mark.slow_with("31-explicit")
@pytest.mark.parametrize(("width", "sampler"), [(31, "explicit"), (32, "lazy"), (33, "lazy")])
def test_which_sampler_a_width_has(width, sampler, monkeypatch):
    """From LAZY_FROM on, with it; one that is named stays; uniform weights are refused from there on."""
    from meanfield.comparison import check

    monkeypatch.setattr(check, "LAZY_FROM", 32)
    settings = dict(sigma_w=1, sigma_b=0, width=width, depth=2, networks=2, quantities=("K",))
    assert mf.check(mf.derive("tanh"), **settings).settings["sampler"] == sampler
    other = {"lazy": "explicit", "explicit": "lazy"}[sampler]
    assert mf.check(mf.derive("tanh"), **settings, sampler=other).settings["sampler"] == other
    uniform = mf.derive("tanh", weights="uniform")
    if sampler == "lazy":
        with pytest.raises(mf.MeanFieldError, match=f"entry by entry, which is slow at width {width}"):
            mf.check(uniform, **settings)
    assert mf.check(uniform, **settings, sampler="explicit").settings["sampler"] == "explicit"


def test_what_narrower_networks_cannot_be_is_said_of_them():
    """The networks beside those of width 3 have one neuron, and a LayerNorm none: width 3 was said to be width 1."""
    with pytest.raises(mf.MeanFieldError, match=r"of width 3 compares them with others of width 1, .* but: LayerNorm"):
        mf.check(mf.derive("relu", norm="act"), sigma_w=1, sigma_b=0.2, width=3, depth=3, networks=5)
