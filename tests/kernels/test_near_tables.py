"""Tables near full correlation: their error is said, and larger ones are seen; the powers they are made of are the same
on every CPU; loops of small blocks have the bits of the compiled ones."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

import meanfield as mf
from meanfield.functions.activations import activation
from meanfield.kernels.loops import hermite_cells, hermite_sums, numpy_sums
from meanfield.kernels.loops.hermite_cells import CELLS, nodes, to_coefficients, variances
from meanfield.kernels.loops.near_sums import MISSED, WEDGES, WIDTH
from meanfield.kernels.loops.nearby import Nearby
from meanfield.kernels.loops.pair_averages import PairAverages
from tests.kernels.test_kernel_scales import W, assert_bounds_hold, fan

pytestmark = pytest.mark.usefixtures("interpreted")

RNG = np.random.default_rng(11)
PARTS = {"distances": slice(0, WIDTH), "slopes": slice(WIDTH, 2 * WIDTH), "all": slice(0, None)}  # of a box


@pytest.fixture
def many(monkeypatch):
    """Rows are followed as those of a kernel with many pairs are: by boxes, wherever one is served."""
    monkeypatch.setattr(Nearby, "price", lambda *_: 0)


def kernel(X, names=("K", "Theta", "distance")):
    return mf.derive("relu").kernel(X[:1], X, sigma_w=W, sigma_b=0, depth=3, quantities=names)


@pytest.mark.slow_with("slopes", "all")
@pytest.mark.parametrize("part", PARTS)
def test_what_boxes_may_miss_is_said_and_more_is_seen(part, monkeypatch, many):
    """Rows that are followed by their distance say what each layer's boxes may miss, others do not; an error in a box
    that is larger leaves the bounds, one that is allowed stays inside. Exact: two layers of a ReLU with 60 digits."""
    X = fan(3e-5)[:4]
    near, far = kernel(X), kernel(fan(0.3)[:4])
    grown = near.error["K"] / (far.error["K"] + 1e-300)
    assert near.error["K"] - far.error["K"] > MISSED and near.error["distance"] - far.error["distance"] > 2 * MISSED
    assert near.error["Theta"] - far.error["Theta"] > 3 * MISSED and grown < 30
    assert_bounds_hold(near, "relu", X, 3)
    true = Nearby.tables

    def planted(by):
        def tables(self, V, made):
            *out, boxes, polynomials, stamp, total = true(self, V, made)
            boxes = boxes.copy()
            boxes[..., PARTS[part]] *= 1 + by
            return *out, boxes, polynomials, stamp, total

        monkeypatch.setattr(Nearby, "tables", tables)
        return kernel(X)

    assert_bounds_hold(planted(MISSED), "relu", X, 3)
    with pytest.raises(AssertionError, match=r"Theta|distance|K"):
        assert_bounds_hold(planted(1e-10), "relu", X, 3)


def test_products_with_an_operator_say_one_bound(many):
    """A second product adds nothing to what the first one said."""
    X = fan(3e-5)[:4]
    operator = mf.derive("relu").kernel_operator(X, sigma_w=W, sigma_b=0, depth=3, quantity="Theta")
    before = operator.error
    said = [(operator @ np.ones(4), operator.error)[1] for _ in range(3)]
    assert said[0] == said[1] == said[2] > before + 3 * MISSED


@pytest.mark.slow
def test_a_box_that_misses_more_is_dropped(monkeypatch):
    """The rule by which boxes are kept, at places and by averages that the box does not know: a kinked function's box
    is right to MISSED of the smallest distance and slope, and one with a planted error is none."""
    f = activation("leaky_relu").pieces
    own = Nearby(f.expr, PairAverages(f.expr, f.diff().expr))
    slot = 1  # the first ring, norms apart
    box = own._box(0, slot)
    assert box is not None
    rng = np.random.default_rng(5)
    places = rng.uniform(-1, 1, (3, 40))
    ratio, slope, rise, whole = own._values(0, slot, *places)
    turns = 14
    for value, q, least in ((ratio, 0, whole.min()), (slope, 1, slope.min()), (rise, 2, math.sqrt(whole.min()) / 2)):
        coefficients = box[:, :, WIDTH * q : WIDTH * q + turns]
        read = np.polynomial.chebyshev.chebval2d(places[1], places[2], coefficients[0])
        assert np.abs(read - value).max() <= MISSED * least, q
        assert np.abs(read * (1 + 4 * MISSED) - value).max() > MISSED * least, q
    true = own._values

    def planted(index, slot, u, *rest):
        found = true(index, slot, u, *rest)
        return found * (1 + 4 * MISSED) if np.ndim(u) == 1 else found

    monkeypatch.setattr(own, "_values", planted)
    assert own._box(0, slot) is None
    assert WEDGES[1] == (-WEDGES[1][1], WEDGES[1][1]) and [lo for lo, _ in WEDGES[2::2]] == [
        hi for _, hi in (WEDGES[1], *WEDGES[2:-2:2])
    ]


@pytest.mark.parametrize("index", [-1160, -7, -1, 0, 3, 1001])
def test_variances_of_a_cell_are_rounded_once(index):
    """2^((index + (u + 1)/2)/4) to the last bit, by 60 digits; Chebyshev points and their matrix by definition."""
    u = np.concatenate([nodes(9), RNG.uniform(-1, 1, 5), [-1.0, 1.0]])
    found = variances(index, u)
    with mp.workdps(60):
        exact = [mp.mpf(2) ** ((index + (mp.mpf(x) + 1) / 2) / CELLS) for x in u]
        assert all(v == float(e) for v, e in zip(found, exact))
        assert any(math.nextafter(v, math.inf) != float(e) for v, e in zip(found, exact))
    assert found[-2] == math.ldexp(2.0 ** (index % 4 / 4), index // 4)
    x = nodes(7)
    values = np.polynomial.chebyshev.chebval(x, [1.0, -2.0, 0.5, 3.0])
    assert to_coefficients(7) @ values == pytest.approx([1, -2, 0.5, 3, 0, 0, 0], abs=1e-14)


def test_what_is_kept_is_taken_up(tmp_path, monkeypatch):
    """Boxes, and those that were dropped, by the one pair of functions that keeps cells, too."""
    monkeypatch.setattr(hermite_cells.cache, "folder", lambda: tmp_path)
    f = activation("relu").pieces
    one, other = (Nearby(f.expr, PairAverages(f.expr, f.diff().expr)) for _ in range(2))
    box = RNG.standard_normal((one.variances, 13, 48))
    one.found |= {(0, 3): box, (0, 1): None}
    one.keep()
    other.found[0, 9] = 2 * box
    other.keep()
    third = Nearby(f.expr, PairAverages(f.expr, f.diff().expr))
    assert sorted(third.found) == [(0, 1), (0, 3), (0, 9)] and third.found[0, 1] is None
    assert np.array_equal(third.found[0, 3], box) and np.array_equal(third.found[0, 9], 2 * box)
    assert (
        type(third).recall is hermite_cells.HermiteCells.recall and type(third).keep is hermite_cells.HermiteCells.keep
    )
    third.file.write_bytes(b"damaged")
    assert Nearby(f.expr, PairAverages(f.expr, f.diff().expr)).found == {}


def assert_same_terms(edge: bool = False) -> None:
    """`plain.terms` and `plain.sums` have the bits of the compiled ones."""
    ladder = np.array([4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512])
    for trial in range(300):
        rng = np.random.default_rng(trial)
        m, fall = 9, rng.uniform(0.0, 0.1)
        tails = np.exp(-fall * ladder)[:, None] * rng.uniform(0.1, 1, (2, len(ladder), 12))
        c = np.tanh(rng.normal(0, 1.5, m))
        left = np.ascontiguousarray(tails[:, :, 0])
        if edge:  # the strongest pair is just served by one of the rungs, to rounding
            tails = np.exp(-fall * ladder)[:, None] * np.ones((2, 1, 1)) * rng.uniform(0.1, 1, 12)
            c, left = 0.1 * c, np.ascontiguousarray(tails[:, :, 0])
            c[0] = (numpy_sums.WANTED / (left[0, 5] * tails[0, 5, 1:10].max())) ** (1 / 32)
        for slopes in (0, 1):
            flags, own = np.zeros(12, dtype=np.uint8), np.zeros(12, dtype=np.uint8)
            expected = hermite_sums.terms(ladder, slopes, left, tails, 1, m, c, flags)
            found = numpy_sums.terms(ladder, slopes, left, tails, 1, m, c, own)
            assert found == expected and np.array_equal(flags, own), (trial, slopes)
            a, b = rng.normal(size=40), rng.normal(size=(40, 12))
            out = np.zeros((2, 3, m))
            for row, function in zip(out, (hermite_sums.sums, numpy_sums.sums)):
                function(a, b, 1, m, c, trial % 2, 1 + trial // 2 % 2, 37, *row, bool(slopes))
            assert np.array_equal(out[0, : 1 + slopes], out[1, : 1 + slopes])


def test_loops_of_small_blocks_have_the_bits_of_compiled_ones(monkeypatch):
    """Also where a rung just serves a pair, so that one rounding decides; NumPy's powers differ there."""
    assert_same_terms()
    assert_same_terms(edge=True)
    monkeypatch.setattr(numpy_sums, "_power", lambda x, n: x ** float(n))
    with pytest.raises(AssertionError, match=r"\(\d+, [01]\)"):
        assert_same_terms(edge=True)
