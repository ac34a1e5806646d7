"""The closed forms of a first step against networks of several widths: what is left falls as 1/n, in every Dense, for
three phi and each rule; and the errors that a derivation could make are found."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from tests.parametrizations.coordinate_cases import CHI, ETA, X, settings_of
from tests.parametrizations.coordinate_networks import Measured, measure
from tests.parametrizations.coordinate_nodes import Setting, chain
from tests.parametrizations.coordinate_theory import Step, chain_step

Z = 4.5  # standard errors, of up to 15 numbers in each of 24 cases
TERM = 0.6  # n·gap changes by less than this share of itself above n = 64: what 1/n² adds (seen: 0.3, within errors)
FLOOR = 1e-5  # what is of second order in the rates
NETWORKS = {64: 400, 256: 80, 512: 24, 1024: 12}
CASES = [(phi, rule) for phi in ("tanh", "relu", "gelu") for rule in ("sgd", "adam", "muon", "mixed")]
fast = pytest.mark.parametrize(("phi", "rule"), CASES)


class Gaps(NamedTuple):
    """Relative gaps between networks and a law, and their standard errors."""

    n: int
    gap: np.ndarray
    error: np.ndarray


def numbers(of: Measured | Step) -> np.ndarray:
    """Own and total mean squares of every Dense, total/own of the hidden ones (in which what all of a network's layers
    share cancels), Df and what of it is not the readout's own: the last axis."""
    own, total = np.asarray(of.own), np.asarray(of.total)
    outputs = [np.asarray(one).reshape(*own.shape[:-1], 1) for one in (of.Df, of.Df_rest)]
    return np.concatenate((own, total, total[..., 1:-1] / own[..., 1:-1], *outputs), axis=-1)


@cache
def measured(phi: str, rule: str, trained_bias: bool, n: int) -> np.ndarray:
    """(networks, numbers)."""
    return numbers(measure(chain(n, phi, settings_of(rule, trained_bias, n)), X, NETWORKS[n], 11, CHI))


def gaps(phi: str, rule: str, trained_bias: bool, n: int, planted: str = "") -> Gaps:
    found = measured(phi, rule, trained_bias, n)
    theory = numbers(chain_step(phi, settings_of(rule, trained_bias, n), n, X, CHI, planted))
    error = found.std(axis=0, ddof=1) / np.sqrt(len(found)) / np.abs(theory)
    return Gaps(n, found.mean(axis=0) / theory - 1, error)


def assert_falls(small: Gaps, large: Gaps) -> None:
    """The gap at the larger width is that at the smaller one times the ratio of the widths, within errors."""
    share = small.n / large.n
    allowed = Z * np.hypot(large.error, share * small.error) + TERM * share * np.abs(small.gap) + FLOOR
    off = np.abs(large.gap - share * small.gap) / allowed
    k = int(off.argmax())
    assert off[k] < 1, (
        f"number {k}: relative gaps {small.gap[k]:.4f} at n = {small.n}, {large.gap[k]:.4f} at n = {large.n} do not "
        f"fall as 1/n: {off[k]:.1f} times what is allowed"
    )


def planted_in(rule: str) -> list[str]:
    return ["r", "xi", *(["M"] if rule in ("sgd", "mixed") else []), *(["root"] if rule in ("adam", "mixed") else [])]


@pytest.mark.slow
@fast
def test_what_is_left_falls_as_one_over_n(phi, rule):
    case = phi, rule, rule in ("adam", "mixed") or phi == "relu"
    assert_falls(gaps(*case, 64), gaps(*case, 256))
    for planted in planted_in(rule):
        with pytest.raises(AssertionError, match=r"do not fall as 1/n: \d"):
            assert_falls(gaps(*case, 64, planted), gaps(*case, 256, planted))


@pytest.mark.slow
@fast
def test_wide_networks_meet_the_closed_forms(phi, rule):
    """At n = 512 and 1024 within c/n, c measured at 64 and 256; the other way round with trained biases."""
    case = phi, rule, not (rule in ("adam", "mixed") or phi == "relu")
    rows = {n: gaps(*case, n) for n in NETWORKS}
    for small, large in ((64, 256), (64, 512), (64, 1024), (256, 512), (256, 1024), (512, 1024)):
        assert_falls(rows[small], rows[large])
    for planted in planted_in(rule):
        with pytest.raises(AssertionError, match=r"do not fall as 1/n: \d"):
            assert_falls(gaps(*case, 64, planted), gaps(*case, 1024, planted))


def test_the_step_is_small_enough_to_be_linear():
    """Twice the rates, twice the change: what is measured is the first order."""
    settings = settings_of("adam", True, 64)
    twice = [replace(s, eta=2 * s.eta, eta_b=2 * s.eta_b) for s in settings]
    one, two = (measure(chain(64, "gelu", rows), X, 3, 11, CHI) for rows in (settings, twice))
    np.testing.assert_allclose(two.total, 4 * one.total, rtol=100 * ETA)
    np.testing.assert_allclose(two.Df, 2 * one.Df, rtol=100 * ETA)


@pytest.mark.parametrize("rule", ["sgd", "adam", "muon"])
def test_a_readout_of_zeros_leaves_all_below_it_where_it_is(rule):
    settings = settings_of(rule, True, 64)
    settings[-1] = Setting(S=0.0, M=1 / 64, eta=ETA, rule=rule)
    found, theory = measure(chain(64, "relu", settings), X, 3, 11, CHI), chain_step("relu", settings, 64, X, CHI)
    assert not any(theory.total[:-1]) and not any(theory.own[:-1]) and not found.total[:, :-1].any()
    np.testing.assert_allclose(theory.Df, found.Df.mean(), rtol=0.5)
    assert theory.Df_rest == 0 and theory.f == 0
