"""The theory of coordinate checks: its numbers are those of the closed forms of a chain, which know nothing of it, in
every published parametrization and gauge; they converge, and are linear where rates are small."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr, stdtrit

from meanfield import derive
from meanfield.networks.records import Dense, Nonlinearity, Pool, Sequential
from meanfield.parametrizations import CoordinateCheck, coordinate_check, parametrization
from tests.parametrizations.coordinate_nodes import Setting
from tests.parametrizations.coordinate_theory import Step, chain_step
from tests.parametrizations.parametrization_cases import TABLES, settings_in

T = float(stdtrit(15, ndtr(4.5)))  # errors of 16 replicates, as likely to be passed as 4.5 of a normal number
BAR = 0.02
X = np.random.default_rng(3).standard_normal((1, 64))
KINDS = ("input", "hidden", "hidden", "readout")
HERE = {"sigma_w": 1.3, "sigma_b": 0.2}
RATE, WIDTH, BASE, SLOPE = 1e-6, 256, 16, -0.7
PLANTED = {"sgd": ("r", "xi", "M"), "adam": ("r", "xi", "root"), "muon": ("r", "xi")}
GAUGES = {
    "mup": {"input": -0.5, "hidden": -0.5, "readout": 0.5},
    "sp": {"hidden": 1.5},
    "ntk": {"hidden": 0.5, "readout": 0.5},
}


@cache
def line(phi: str, name: str, rule: str, gauged: bool = False, **more) -> CoordinateCheck:
    scheme = parametrization(name, optimizer=rule, base_width=BASE)
    for kind, power in (GAUGES[name] if gauged else {}).items():
        scheme = scheme.gauge(kind, f"n**({int(2 * power)}/2)")
    asked = {"widths": (WIDTH,), "depth": 4, "rate": RATE, "inputs": X, "slopes": SLOPE, "biases": True}
    return coordinate_check(phi, scheme, **HERE, **(asked | more))


def settings(name: str, rule: str, gauged: bool = False) -> list[Setting]:
    return settings_in(
        name, rule, WIDTH, KINDS, rate=RATE, base=BASE, blocks=2, biases=True, **HERE,
        gauges=GAUGES[name] if gauged else None,
    )  # fmt: skip


def law(phi: str, rows: list[Setting], planted: str = "") -> dict[tuple[int, str], float]:
    """By layer and column, the roots of the closed forms."""
    step: Step = chain_step(phi, rows, WIDTH, X[0], SLOPE, planted)
    out = {}
    for k, (z, own, total) in enumerate(zip(step.z, step.own, step.total, strict=True), 1):
        names = ("f", "Df_readout", "Df") if k == len(step.z) else ("z", "own", "total")
        out |= {(k, name): value**0.5 for name, value in zip(names, (z, own, total), strict=True)}
    return out | {(len(step.z), "Df_features"): abs(step.Df_rest)}


def assert_on_the_law(check: CoordinateCheck, expected: dict[tuple[int, str], float]) -> None:
    rows = [row for row in check.rows if row.column != "gain"]
    assert {(row.layer, row.column) for row in rows} == set(expected)
    for row in rows:
        wanted = expected[row.layer, row.column]
        gap = abs(row.theory - wanted) / wanted
        allowed = min(T * row.theory_error / row.theory + 1e-4, BAR)
        assert gap < allowed, (
            f"layer {row.layer}, {row.column}: {row.theory:.6g} and not {wanted:.6g}; apart by {gap:.1e}, {allowed:.1e}"
            " are allowed"
        )


@pytest.mark.fast_with("relu-adam", "relu-muon", "gelu-adam", "gelu-muon")
@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
@pytest.mark.parametrize("phi", ["tanh", "relu", "gelu"])
def test_the_line_is_the_closed_form(phi, rule):
    for name in TABLES if phi == "tanh" else ("mup", "sp"):
        assert_on_the_law(line(phi, name, rule), law(phi, settings(name, rule)))
    for planted in PLANTED[rule]:
        with pytest.raises(AssertionError, match=r"layer \d, \w+: .* apart by"):
            assert_on_the_law(line(phi, "mup", rule), law(phi, settings("mup", rule), planted))


@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
@pytest.mark.parametrize("name", GAUGES)
def test_gauges_have_the_line_of_their_closed_forms(name, rule):
    gauged = settings(name, rule, True)
    assert_on_the_law(line("tanh", name, rule, True), law("tanh", gauged))
    assert any(one.S != two.S for one, two in zip(gauged, settings(name, rule), strict=True))
    plain = [replace(one, eta=two.eta) for one, two in zip(gauged, settings(name, rule), strict=True)]
    with pytest.raises(AssertionError, match=r"layer \d, own: .* apart by"):
        assert_on_the_law(line("tanh", name, rule, True), law("tanh", plain))


@pytest.mark.slow_with("sgd")
@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
def test_each_power_counts(rule):
    """A multiplier, a variance or a rate of one kind that is 5 % off is found."""
    check = line("tanh", "mup", rule)
    for k in range(len(KINDS)):
        for field, factor in (("S", 1.05), ("M", 1.05), ("eta", 1.05), ("eta_b", 1.6)):
            wrong = settings("mup", rule)
            wrong[k] = replace(wrong[k], **{field: factor * getattr(wrong[k], field)})
            with pytest.raises(AssertionError, match="apart by"):
                assert_on_the_law(check, law("tanh", wrong))


def assert_nearer(few: np.ndarray, many: np.ndarray) -> None:
    """16 times the neurons: at most a quarter of the root mean square, as of independent ones (seen: a tenth)."""
    one, other = np.sqrt(np.square(few).mean()), np.sqrt(np.square(many).mean())
    assert other < one / 4, f"with 16 times the neurons, {other:.1e} after {one:.1e}"


@pytest.mark.parametrize("rule", ["sgd", "adam"])
@pytest.mark.parametrize("phi", ["tanh", "relu", "gelu"])
def test_more_neurons_are_nearer(phi, rule):
    """Gaps fall, and so do stated errors, which are as large as gaps are."""
    expected, gaps, errors = law(phi, settings("mup", rule)), [], []
    for neurons in (256, 4096):
        checks = [line(phi, "mup", rule, neurons=neurons, seed=seed) for seed in range(4)]
        rows = [row for check in checks for row in check.rows if row.column != "gain"]
        gaps.append(np.array([row.theory / expected[row.layer, row.column] - 1 for row in rows]))
        errors.append(np.array([row.theory_error / row.theory for row in rows]))
    assert_nearer(*gaps)
    assert_nearer(*errors)
    assert np.square(gaps[1]).mean() < 4 * np.square(errors[1]).mean()
    with pytest.raises(AssertionError, match="with 16 times the neurons"):
        assert_nearer(gaps[0], gaps[0][::-1])


def changes(check: CoordinateCheck) -> np.ndarray:
    return np.array([row.theory for row in check.rows if row.column not in ("z", "f", "gain")])


def assert_linear(small: CoordinateCheck, large: CoordinateCheck, bar: float) -> None:
    """Changes over their rates are the same."""
    gap = np.abs(changes(large) / large.rate / (changes(small) / small.rate) - 1).max()
    assert gap < bar, f"changes over the rate differ by {gap:.1e}"


@pytest.mark.slow_with("tanh-sgd", "tanh-adam", "tanh-muon", "relu-adam")
@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
@pytest.mark.parametrize("phi", ["tanh", "gelu", "relu"])
def test_small_rates_are_linear(phi, rule):
    """Differences of phi (rates of 1e-4 and 1e-6) and its slope (1e-10, where changes are below 1e-7) are one law."""
    tiny, small, large, huge = (line(phi, "mup", rule, rate=rate) for rate in (1e-10, 1e-6, 1e-4, 0.3))
    kink = phi == "relu"  # a neuron that a step takes over the kink: of first order in the rate
    assert_linear(small, large, 4e-3 if kink else 1e-4)
    assert_linear(tiny, small, 1e-4 if kink else 1e-6)
    with pytest.raises(AssertionError, match="changes over the rate differ by"):
        assert_linear(small, huge, 1e-2)


def test_rates_where_the_linear_theory_is_off():
    """At a large rate, total changes of tanh saturate; the size at the start is not moved."""
    small, huge = (line("tanh", "mup", "adam", rate=rate) for rate in (1e-6, 10.0))
    assert huge.column("z")[1].theory == small.column("z")[1].theory
    behind, linear = huge.column("total", layer=2)[0].theory, small.column("total", layer=2)[0].theory * 1e7
    assert behind < linear / 20


def assert_sizes(check: CoordinateCheck, variances: np.ndarray) -> None:
    for row, K in zip(check.column("z"), variances, strict=True):
        gap = abs(row.theory / K**0.5 - 1)
        assert gap < T * row.theory_error / row.theory + 1e-9 < 0.05, f"layer {row.layer} is apart by {gap:.1e}"


@pytest.mark.parametrize(("size", "kind"), [(2, "max"), (2, "average"), (3, "average")])
def test_pooled_neurons_are_independent(size, kind):
    """Sizes at the start are those of the engine; of neighbours among Sobol points they are off by a third."""
    block = Sequential((Nonlinearity("tanh"), Pool(size, kind), Dense()))
    check = coordinate_check(block, "sp", widths=96, depth=4, rate=1e-3)
    K = derive(architecture=block).propagate(sigma_w=1, sigma_b=0, depth=3).K
    assert_sizes(check, K)
    with pytest.raises(AssertionError, match="is apart by"):
        assert_sizes(check, K * np.array([1, 0.9, 0.9]))
