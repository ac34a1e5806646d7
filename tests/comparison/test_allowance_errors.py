"""Standard errors of a report's rows are the spread that the rows have: of many ensembles that are drawn here.

Every column (or every ensemble) is one repetition; the spread of what was measured, less the allowance, over the
repetitions is compared with the error that the rows state.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.comparison import allowances

MANY, NETWORKS = 4000, 40


def assert_error_is_the_spread(rows, factor=1.0):
    """The mean square of the stated errors is the variance of measured less allowance; 4,000 repetitions know it to 5 %
    within four of its own errors."""
    gaps = np.array([row.measured - row.allowance for row in rows])
    stated = factor * np.mean([row.standard_error**2 for row in rows]) ** 0.5
    spread = np.std(gaps - [row.theory for row in rows], ddof=1)
    assert abs(stated / spread - 1) < 4 / np.sqrt(2 * len(rows)), f"stated {stated:.4g}, but the spread is {spread:.4g}"


def ensemble(width, seed, names, depth=MANY, spread=0.3):
    """Values 1 + 2/width, with a spread of their own."""
    draw = np.random.default_rng(seed).standard_normal((len(names), NETWORKS, depth))
    values = np.maximum(1 + 2 / width + spread * draw, 1e-3)
    samples = {name: np.log(x) if name == "log_J" else x for name, x in zip(names, values)}
    return SimpleNamespace(samples=samples, width=width, finite_depth=depth, depth=depth, networks=NETWORKS)


@pytest.mark.parametrize("quantity", ["Theta", "J0"])
def test_extrapolated_from_two_widths(quantity):
    """2 X(n) - X(n/2): four times the variance of X(n) and that of X(n/2), each over its networks."""
    key = "log_J" if quantity == "J0" else quantity
    run = SimpleNamespace(Theta=np.ones(MANY), log_J0=np.zeros(MANY), log_J=np.zeros(MANY), l=np.arange(1, MANY + 1))
    rows = allowances._extrapolated(quantity, run, ensemble(64, 1, (key,)), ensemble(32, 2, (key,)), MANY)
    assert_error_is_the_spread(rows)
    for lost in (3 / 5, 4 / 5, 5 / 4):  # of 4 + 1: 2 for 4 and 3 for 4, and its inverse
        with pytest.raises(AssertionError, match="but the spread is"):
            assert_error_is_the_spread(rows, lost**0.5)


@pytest.mark.parametrize("widths", [(64, 32), (64, 4, 2)])
def test_of_gradients(widths, monkeypatch):
    """The same of a gradient, and of one whose bias two narrower ensembles measure."""
    draw = np.random.default_rng(3).standard_normal((len(widths), MANY))
    errors = [0.03, 0.05, 0.04][: len(widths)]
    found = [(1 + 2 / n + e * x, np.full(MANY, e)) for n, e, x in zip(widths, errors, draw)]
    here, nothing = np.arange(MANY), np.zeros(MANY, dtype=bool)
    monkeypatch.setattr(allowances.check_gradients, "parts", lambda *given: (here, found, nothing))
    run = SimpleNamespace(diverged_at=0, l=np.arange(1, MANY + 1))
    ensembles = tuple(SimpleNamespace(width=n, depth=MANY, finite_depth=MANY) for n in widths)
    rows = allowances._gradient_rows("G_w", run, ensembles)
    assert_error_is_the_spread(rows)
    assert abs(np.mean([r.measured - r.allowance for r in rows]) - 1) < 0.01  # the bias is gone
    with pytest.raises(AssertionError, match="but the spread is"):
        assert_error_is_the_spread(rows, 0.9)


def estimates(width, seed, error):
    """An ensemble whose estimates have this standard error."""
    mean = 1 + 2 / width + error * np.random.default_rng(seed).standard_normal(MANY)
    found = SimpleNamespace(mean=mean, standard_error=np.full(MANY, error))
    return SimpleNamespace(width=width, finite_depth=MANY, estimate=lambda name, log_scale=0.0: found)


def test_with_a_bias_from_two_narrower_ensembles():
    """The measured allowance brings its own error."""
    ensembles = tuple(estimates(n, n, e) for n, e in ((64, 0.03), (4, 0.3), (2, 0.4)))
    run = SimpleNamespace(K=np.ones(MANY), l=np.arange(1, MANY + 1))
    rows = allowances._with_measured_bias("K", run, ensembles, MANY, 0.0)
    assert_error_is_the_spread(rows)
    assert abs(np.mean([r.allowance for r in rows]) - 2 / 64) < 2e-3
    with pytest.raises(AssertionError, match="but the spread is"):
        assert_error_is_the_spread(rows, 0.95)


@pytest.mark.slow
def test_of_jacobians_with_one_number_for_all_layers():
    """a (l - 1)/n fitted from two widths: 400 ensembles of five layers, the last layer's rows."""
    run = SimpleNamespace(log_J=np.zeros(5), l=np.arange(1, 6))
    rows = []
    for seed in range(400):
        full, half = (ensemble(n, seed + k, ("log_J",), 5) for n, k in ((64, 0), (32, 10**6)))
        rows.append(allowances._jacobian_rows(run, full, half, 5)[0][-1])
    assert_error_is_the_spread(rows)
    with pytest.raises(AssertionError, match="but the spread is"):
        assert_error_is_the_spread(rows, 0.8)
