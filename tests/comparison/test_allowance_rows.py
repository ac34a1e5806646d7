"""Rows of a report from made-up ensembles whose bias is known: allowances, errors, and verdicts on every border."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.base.answers.results import Estimate, MeanFieldError
from meanfield.comparison import allowances
from meanfield.comparison.allowances import _rows, compare, judged, narrower, narrower_layers

DEPTH = 4
LAYERS = np.arange(1, DEPTH + 1)
NOISE = np.array([[0, 1, 1, 1], [0, 1, -1, -1], [0, -1, 1, -1], [0, -1, -1, 1]])  # of four networks, no correlations


def run(**values):
    return SimpleNamespace(l=LAYERS, diverged_at=0, message=lambda: "", **values)


def ensemble(width, spread=0.0, finite=DEPTH, **means):
    """Four networks with these means, layer by layer, and uncorrelated deviations from them."""
    samples = {name: np.asarray(mean) + spread * NOISE for name, mean in means.items()}
    samples = {("log_J" if n == "J" else n): np.log(v) if n == "J" else v for n, v in samples.items()}
    return SimpleNamespace(width=width, widths=(width,), depth=DEPTH, finite_depth=finite, networks=4, samples=samples)


@pytest.mark.parametrize(
    ("width", "depth", "widths"),
    [(3200, 10, (200, 100)), (640, 10, (80, 40)), (160, 10, (80, 40)), (159, 10, (79,)), (1, 10, (1,)), (4, 1, (2,)),
     (16, 1, (8, 4)), (15, 1, (7,)), (256, 2, (16, 8)), (288, 2, (18, 9))],
)  # fmt: skip
def test_widths_of_the_narrower_networks(width, depth, widths):
    """n/32 and n/16 but four neurons a layer at least, while that is a quarter of n; else n/2, and one at least."""
    assert narrower(width, depth) == widths
    if width > 1:
        assert narrower_layers((width, 3 * width), depth) == tuple((k, 3 * k) for k in widths)


def test_narrower_layers_keep_their_quotients():
    """All by one factor; what `expand` needs divides them still, and 2 of it are the least there may be."""
    assert narrower_layers((640, 320, 640), 4) == ((64, 32, 64), (32, 16, 32))
    assert narrower_layers((6, 4), 9) == ((3, 2),)
    assert narrower_layers((12, 8), 9, step=2) == ((6, 4),)
    for widths, step, said in (((6, 4), 2, "of which 2 is needed"), ((5, 3), 1, "have 1 as their common divisor;")):
        with pytest.raises(MeanFieldError, match=said):
            narrower_layers(widths, 9, step)


def test_a_bias_that_grows_with_the_layer():
    """J of both widths is 1 + a(l − 1)/n: a comes out, to its least error 1/√(N Σ (l − 1)²/s²)/(1/n₂ − 1/n); rows have
    a(l − 1)/n as their allowance and nothing is left over. A row and what corrects it have their noise in common."""
    a, s, steps, apart = 3.0, 0.02 * np.array([1.0, 1.0, 3.0, 2.0]), LAYERS - 1, 1 / 50 - 1 / 100
    wide, half = (ensemble(n, s, J=1 + a * steps / n) for n in (100, 50))
    rows, _, notes = compare(run(log_J=np.zeros(DEPTH)), wide, (half,), ("J",))
    one = s**2 * 4 / 3  # the variance of a network's value
    error = 1 / math.sqrt(4 * (steps**2 / (2 * one)).sum()) / apart
    assert f"a (l-1)/n with a = 3.00 +- {error:.2f}, fitted from widths 100 and 50" in notes[-1]
    assert [r.allowance for r in rows] == pytest.approx(a * steps / 100, abs=1e-12)
    assert [r.measured for r in rows] == pytest.approx(1 + a * steps / 100, abs=1e-12)
    assert all(r.passed and abs(r.z) < 1e-6 for r in rows) and rows[0].standard_error < 1e-12
    pull = steps / one / (steps**2 / one).sum() / apart  # of each layer's noise in a
    for i in range(1, DEPTH):
        shares = pull * steps[i] / 100
        variance = ((shares + (np.arange(DEPTH) == i)) ** 2 * one).sum() + (shares**2 * one).sum()
        assert rows[i].standard_error == pytest.approx(math.sqrt(variance / 4), rel=1e-9)


def test_networks_without_a_spread_show_no_bias():
    wide, half = (ensemble(n, 0.0, J=np.ones(DEPTH)) for n in (100, 50))
    rows, _, notes = compare(run(log_J=np.zeros(DEPTH)), wide, (half,), ("J",))
    assert notes[-1] == "J is compared without allowance." and all(r.passed and r.z == 0 for r in rows)


def test_a_mean_of_two_widths_has_no_bias():
    """2 X(n) − X(n/2) of X = 2(1 + 5/n) is 2 in units of the theory; layers beyond the half's last finite one are not
    rows."""
    wide, half = ensemble(100, 0.01, Theta=np.full(DEPTH, 2.1)), ensemble(50, 0.01, finite=3, Theta=np.full(DEPTH, 2.2))
    rows, _, _ = compare(run(Theta=np.full(DEPTH, 2.0)), wide, (half,), ("Theta",))
    assert [(r.layer, r.theory, r.allowance) for r in rows] == [(l, 1.0, 0.0) for l in (1, 2, 3)]
    assert [r.measured for r in rows] == pytest.approx([1.0] * 3, abs=1e-12)
    error = math.sqrt(5 * 0.01**2 * 4 / 3 / 4) / 2
    assert [r.standard_error for r in rows] == pytest.approx([0, error, error], abs=1e-12)
    assert not compare(run(Theta=np.full(DEPTH, 2.0)), wide, (), ("Theta",))[0]  # nothing to take the bias off by


def test_a_bias_that_two_narrower_widths_show():
    """Of X = 2 + 7/n at 3200, 200 and 100: 7/3200, whose error is that of the narrow ones by (1/3200)/(1/100 −
    1/200)."""

    def made(width, error):
        estimate = lambda q, l=None, log_scale=0.0: Estimate(  # noqa: E731
            np.full(DEPTH, 2 + 7 / width), np.full(DEPTH, error), 10
        )
        return SimpleNamespace(
            width=width, depth=DEPTH, finite_depth=DEPTH, estimate=estimate, samples={}, networks=10
        )

    ensembles = made(3200, 0.01), made(200, 0.3), made(100, 0.4)
    factor = (1 / 3200) / (1 / 100 - 1 / 200)
    for share in (0.0, 0.5):
        rows, _, notes = compare(run(K=np.full(DEPTH, 2.0)), ensembles[0], ensembles[1:], ("K",), next_order=share)
        error = math.sqrt(0.01**2 + factor**2 * (0.3**2 + 0.4**2) + (share * 7 / 3200) ** 2)
        for row in rows:
            assert row.allowance == pytest.approx(7 / 3200) and row.standard_error == pytest.approx(error)
            assert row.theory == 2.0 and row.sum == pytest.approx(row.measured)
        assert "measured on networks of widths 100 and 200" in notes[-1]


def test_the_border_of_a_verdict():
    """|z| = 4 of many networks passes, and 7 of ten; without a spread only rounding may separate networks from the
    theory; no unit overflows."""
    error = np.array([0.25] * 4)
    found = _rows("K", [1, 2, 3, 4], 2.0, np.zeros(4), np.array([[3.0, 1.0, 3.0 + 1e-5, 3.8]] * 2), error)
    many = judged(found, 10**9)
    assert [(r.z, r.passed) for r in many[:2]] == [(4.0, True), (-4.0, True)] and not many[2].passed
    assert [r.passed for r in judged(found, 10)] == [True, True, True, False]
    exact = np.array([2.0, 2.0 * (1 + 9e-10), 2.0 * (1 + 2e-9)])
    found = _rows("K", [1, 2, 3], 2.0, np.zeros(3), np.stack([exact] * 2), None)
    assert [r.z for r in found] == [0.0, 0.0, math.inf]
    assert [r.passed for r in judged(found, 2)] == [True, True, False]
    large = np.array([[1e300], [3e300]])
    (row,) = _rows("K", [1], 2e300, np.zeros(1), large, None)
    assert row.measured == pytest.approx(2e300) and row.standard_error == pytest.approx(1e300) and row.z == 0


@pytest.mark.parametrize("planted", [None, 0, 1])
def test_what_is_exactly_0_passes_where_every_network_is_0(planted):
    """One network of one width that is not 0 fails the row, whatever its spread."""
    log = np.zeros((2, 4, DEPTH))
    log[:, :, 2] = -math.inf
    if planted is not None:
        log[planted, 1, 2] = -700.0
    wide, half = (ensemble(n) for n in (100, 50))
    wide.samples, half.samples = {"log_J": log[0]}, {"log_J": log[1]}
    theory = run(log_J=np.array([0, 0, -math.inf, 0]))
    rows, _, notes = compare(theory, wide, (half,), ("J",))
    assert (rows[2].theory, rows[2].passed) == (0.0, planted is None)
    assert rows[2].z == (0.0 if planted is None else math.inf)
    assert any("theory's J is exactly 0" in note for note in notes) and rows[3].theory == 1.0
    assert allowances._nothing("K", theory, DEPTH).tolist() == [False] * DEPTH
