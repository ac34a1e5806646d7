"""Pieces of kernels by hand: numbers of layers, refusals, blocks and their journal."""

from __future__ import annotations

import math
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.base.errors import MeanFieldError
from meanfield.kernels import kernel_blocks, sides
from meanfield.kernels.loops.pair_loops import PairLoop, Series
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers
from meanfield.theory.gaussian_processes import refuse_no_bounds

RNG = np.random.default_rng(5)

# --------------------------------------------------------------------------------------------------- numbers and words


def test_numbers_of_layers():
    """Layer 1 is not among the rows, a network of one layer has its own; L counts the blocks, and at least one."""
    three = TheoryAtNumbers((("sigma_w", (1.0, 2.0, 3.0)), ("mu", 0.5)), 3, True, None)
    assert three.given["mu"].tolist() == [0.5] * 3 and three.given["L"].tolist() == [2.0] * 3
    assert three.sigma(("mu", "sigma_w")).tolist() == [[0.5, 0.5], [2.0, 3.0]]
    rows = three.rows(("sigma_w",), 4)
    assert rows.shape == (1, 4, 2) and (rows == [2.0, 3.0]).all() and three.rows((), 4).shape == (1, 4, 2)
    one = TheoryAtNumbers((("sigma_w", 2.0),), 1, False, None)
    assert one.sigma(("sigma_w", "L")).tolist() == [[2.0], [1.0]]
    assert one.rows((), 2).shape == (1, 2, 1)
    assert (three.names, one.names) == (("K_ab", "Theta_ab"), ("K_ab",))
    with pytest.raises(MeanFieldError, match=r"nu has no value; give it as a keyword \(nu=...\)"):
        three.sigma(("mu", "nu"))


def test_a_sample_of_norms():
    """K¹ of different inputs, in order, some sixteen of them."""
    rows = np.array([[2.0, 0.0], [1.0, 1.0], [0.0, -2.0], [0.0, 0.0]])
    assert sides.sample(rows, 2.0, 0.5).tolist() == [0.5, 2.5, 4.5]
    many = sides.sample(np.sqrt(np.arange(64.0))[:, None], 2.0, 0.5)
    assert many == pytest.approx(0.5 + 2 * np.arange(0, 64, 4), rel=1e-14)


def test_what_underflows_and_diverges_is_named():
    ones, tiny = np.ones((2, 3)), sides.SMALLEST / 2
    sides.refuse_underflow(ones, np.array([[1.0, sides.SMALLEST], [1.0, 0.0]]), 1, 1.0)
    sides.refuse_underflow(0 * ones, np.zeros((1, 2)), 1, 1.0)
    sides.refuse_underflow(ones, np.zeros((1, 2)), 1, 0.0)
    for K, first, words in (
        ([[1.0, 1.0], [1.0, tiny]], 1, "K of input 1 is below 1e-290 at layer 2"),
        ([[1.0, 1.0], [1.0, tiny]], 4, "at layer 5"),
        ([[0.0, 1.0]], 1, "K of input 0 is below 1e-290 at layer 1"),
    ):
        with pytest.raises(MeanFieldError, match=words):
            sides.refuse_underflow(ones, np.array(K), first, 1.0)
    sides.refuse_divergence(np.zeros(3), None)
    for K, words in ((None, "K of input 2 exceeds 1e300 at layer 4"), (np.ones((3, 5)), "input 2 exceeds"),
                     (np.full((3, 5), math.nan), "input 2 is 0 at layer 3, and a LayerNorm")):  # fmt: skip
        with pytest.raises(MeanFieldError, match=words):
            sides.refuse_divergence(np.array([0, 0, 4]), K)


def test_bounds_of_hyperparameters():
    for good in ("fixed", (1e-5, 1e5), [1, 1], np.array([0.5, 2.0])):
        refuse_no_bounds(good, "sigma_w_bounds")
    for bad in ("free", (0.0, 1.0), (-1.0, 1.0), (2.0, 1.0), (1.0,), (1.0, 2.0, 3.0), 3.0, None):
        with pytest.raises(MeanFieldError, match=r"sigma_w_bounds must be \(low, high\) with 0 < low <= high"):
            refuse_no_bounds(bad, "sigma_w_bounds")


# -------------------------------------------------------------------------------------------------------------- blocks


def work(n, m=None):
    """A kernel of rows whose blocks are cut out of one known matrix."""
    known = RNG.standard_normal((n, m or n))
    known = known if m else known + known.T
    network = SimpleNamespace(described="known", values=(), depth=2)
    one = kernel_blocks.Work(
        network, np.zeros((n, 1)), None if m is None else np.ones((m, 1)), ("K",), np.dtype("float64")
    )

    def compute(task):
        a, b = task
        said = {
            kernel_blocks.WORST: 1.0 + a,
            kernel_blocks.OPPOSITE: 2.0 + b,
            kernel_blocks.BLURRED: (3.0 - a, 4.0 - b),
        }
        return (
            {"K": known[a : a + kernel_blocks.ROWS, b : b + kernel_blocks.ROWS]} | said | {kernel_blocks.READ: 5.0 + b}
        )

    one.compute = compute
    return one, known


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("m", [None, 7, 2])
def test_blocks_make_the_matrix_and_its_product(m, threads, monkeypatch, tmp_path):
    """Every block where it belongs, and below the diagonal its mirror; the product without the matrix; what blocks say
    of bounds is the largest; a journal leaves out what is done and refuses another work's."""
    monkeypatch.setattr(kernel_blocks, "ROWS", 2)
    one, known = work(5, m)
    columns = m or 5
    starts = [(a, b) for a in (0, 2, 4) for b in range(0, columns, 2) if m or b >= a]
    assert one.tasks() == starts and one.shape == (5, columns)
    target, told = np.zeros(known.shape), []
    said = kernel_blocks.fill(one, {"K": target}, threads, progress=lambda *at: told.append(at))
    last = starts[-1][1]
    assert np.array_equal(target, known) and said == (5.0, 2.0 + last, 3.0, 4.0, 5.0 + last)
    assert told == [(k + 1, len(starts)) for k in range(len(starts))]
    v = RNG.standard_normal((columns, 3))
    out, again = kernel_blocks.product(one, v, threads)
    assert out == pytest.approx(known @ v, abs=1e-13) and again == said
    journal = kernel_blocks.Journal(tmp_path / "K.npy", one)
    journal.add((0, 0), (9.0, 0.0, 0.0, 0.5, 0.25))
    kept = kernel_blocks.Journal(tmp_path / "K.npy", one)
    assert kept.done == {(0, 0)} and kept.bounds == (9.0, 0.0, 0.0, 0.5, 0.25)
    target[:] = 0
    assert kernel_blocks.fill(one, {"K": target}, threads, journal=kept)[0] == 9.0
    assert not target[:2, :2].any() and np.array_equal(target[2:, 2:], known[2:, 2:])
    with kept.path.open("a") as file:
        file.write("2 2 1.0 1.0")  # a line that was cut off
    assert kernel_blocks.Journal(tmp_path / "K.npy", one).done == set(starts)
    other, _ = work(4, m)
    with pytest.raises(MeanFieldError, match=r"K\.npy was begun by another call"):
        kernel_blocks.Journal(tmp_path / "K.npy", other)


@pytest.mark.parametrize(("threads", "workers", "ahead"), [(1, 3, 6), (4, 3, 8), (1, None, 16)])
def test_no_more_blocks_are_under_way_than_two_a_worker(threads, workers, ahead, monkeypatch):
    monkeypatch.setattr(kernel_blocks, "ROWS", 1)
    one, _ = work(7)
    sent = []

    class Executor:
        def submit(self, function, part, parent):
            sent.append(part.shape)
            future: Future = Future()
            future.set_result({})
            return future

    executor = Executor()
    if workers:
        executor._max_workers = workers
    found = kernel_blocks.blocks(one, one.tasks(), threads, executor)
    next(found)
    assert len(sent) == ahead
    assert len(list(found)) == 27 and sent == [(1, 1)] * 28


def test_variances_and_series_of_a_loop():
    """Which variances are outside of boxes, whose ends are inside; 0 is K of the layer before, 1 of the layer that is
    made; series of other orders are written out in all of them."""
    boxes = (0, 1.0, 4.0), (2, 0.5, 2.0)
    loop = PairLoop("name", "block", ("K_ab",), (), 1, ((0, 0), (0, 1)), (0, 2), boxes, 0.0, -1.0, 1)
    brought = np.array([[[1.0, 4.0, 2.0, 0.9, 2.0], [9.0] * 5], [[7.0] * 5, [0.5, 2.0, 2.1, 1.0, 0.4]]])
    assert loop.variance(0, brought).tolist() == [[1.0, 4.0, 2.0, 0.9, 2.0]]
    assert loop.variance(1, brought).tolist() == [[9.0] * 5]
    assert loop.variance(2, brought).tolist() == [[0.5, 2.0, 2.1, 1.0, 0.4]]
    assert loop.outside(brought).tolist() == [False, False, True, True, True]
    tails = np.zeros((1, 2, 1, 2))
    odd, even = (Series(np.arange(1.0, 5.0).reshape(1, 2, 2), tails, first, 2) for first in (1, 0))
    same, other = np.split(np.array(loop.tables({0: odd}, {0: odd, 1: even}), dtype=object), 2)
    assert same[0] is odd.a and same[1] is odd.a and same[4] == (1, 2)
    assert other[0][0].tolist() == [[0, 0], [1, 2], [0, 0], [3, 4], [0, 0]] and other[4] == (0, 1)
    assert other[1][0].tolist() == [[1, 2], [0, 0], [3, 4], [0, 0]]
