"""Compiled averages and depth iteration, beside math.tanh and vectorised NumPy."""

import math

import numpy as np
import pytest
from numba import njit
from oracle_float import graded_edges, one_input_float, two_input_float

from meanfield import derive
from meanfield.numeric.lowering import lower

POINT = {"sigma_w": 1.0, "sigma_b": 0.1}
TANH = derive("tanh", residual=True)
NAMES_PAIR = ("K_aa", "K_bb", "K_ab")


def _rule(spread: float, order: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre panels on [0, 10] for even functions of √K x, graded at 0 for √K up to `spread`."""
    edges = np.array(graded_edges(0.0, 10.0, [], [(0.0, 1.0 / spread)], 1.5))
    x, w = np.polynomial.legendre.leggauss(order)
    half = np.diff(edges)[:, None] / 2
    nodes, weights = (edges[:-1, None] + half * (1 + x)).ravel(), (half * w).ravel()
    return nodes, weights * np.exp(-(nodes**2) / 2) * math.sqrt(2 / math.pi)


def _numpy_tanh(K, rule):
    t = np.tanh(np.sqrt(K)[..., None] * rule[0]) ** 2
    return t @ rule[1], (1 - t) ** 2 @ rule[1]


def _numpy_erf(K, rule):
    return 2 / math.pi * np.arcsin(2 * K / (2 * K + 1)), 4 / math.pi / np.sqrt(1 + 4 * K)


def _numpy(averages, sigma_w, sigma_b, depth, rule):
    """(K, log J) of a residual network at the last layer."""
    K = np.array(sigma_w**2 + sigma_b**2)
    log_J = np.zeros_like(K)
    for _ in range(depth - 1):
        second, slope = averages(K, rule)
        K, log_J = K + sigma_w**2 * second + sigma_b**2, log_J + np.log1p(sigma_w**2 * slope)
    return K, log_J


def test_averages(beside):
    """<tanh^2> and <sech^4> at one K, compiled loop."""
    lowered = lower(TANH.recursion("K", "J"))
    first, second, T = lowered.module.avg_0, lowered.module.avg_1, lowered.tables
    K = np.exp(np.random.default_rng(0).uniform(-7, 7, 1_000_000))

    @njit
    def ours(K, T0, T1):
        total = 0.0
        for k in K:
            total += first(k, T0) + second(k, T1)
        return total

    @njit
    def peer(K):
        total = 0.0
        for k in K:
            total += math.tanh(k)
        return total

    beside(lambda: [ours(K, *T)], lambda: [peer(K)], "one math.tanh", units=K.size, peer_units=K.size, bar=1e-7)


@pytest.mark.parametrize("call", ["Lowered.run", "Theory.propagate"])
def test_point(beside, call):
    """1000 layers of (K, J), tanh residual, one point, {call}"""
    lowered, rule = lower(TANH.recursion("K", "J")), _rule(30.0)
    run = TANH.propagate(**POINT, depth=1000)
    K, log_J = _numpy(_numpy_tanh, 1.0, 0.1, 1000, rule)
    np.testing.assert_allclose([run.K[-1], run.log_J[-1]], [K, log_J], rtol=1e-11)
    start, sigma = np.array([[1.01, 0.0]]), np.array([POINT[n] for n in lowered.parameters])[:, None, None]
    sigma = np.broadcast_to(sigma, (2, 1, 999))
    calls = {
        "Lowered.run": lambda: lowered.run(start, sigma, 1000, True, True),
        "Theory.propagate": lambda: TANH.propagate(**POINT, depth=1000),
    }
    peer = "NumPy, Gauss-Legendre panels"
    beside(calls[call], lambda: _numpy(_numpy_tanh, 1.0, 0.1, 1000, rule), peer, rounds=51, bar=5e-4)


@pytest.mark.parametrize(("phi", "bar"), [("tanh", 5.0), ("erf", 1.0)])
def test_grid(beside, phi, bar):
    """300 x 300 grid x 1000 layers, last layer only, {phi} residual."""
    theory, axis = derive(phi, residual=True), np.linspace(0.1, 3.0, 300)
    averages, side, depth = (_numpy_tanh, 30, 101) if phi == "tanh" else (_numpy_erf, 300, 21)
    few = np.linspace(0.1, 3.0, side)
    share = axis.size**2 * 999 / (side**2 * (depth - 1))
    where = f"NumPy, {side} x {side} x {depth - 1}, scaled by {share:g}"
    run = theory.propagate(sigma_w=few[:, None], sigma_b=few, depth=depth, every_layer=False)
    peer = lambda: _numpy(averages, *np.meshgrid(few, few, indexing="ij"), depth, _rule(150.0))  # noqa: E731
    np.testing.assert_allclose(run.log_J[..., -1], peer()[1], rtol=1e-11)
    ours = lambda: theory.propagate(sigma_w=axis[:, None], sigma_b=axis, depth=1000, every_layer=False)  # noqa: E731
    beside(ours, peer, where, rounds=5, peer_units=1 / share, bar=bar)


def test_pair_average(beside):
    """<tanh(z_a) tanh(z_b)> at one (K_aa, K_ab, K_bb), panel quadrature."""
    pair = lower(TANH.recursion(*NAMES_PAIR)).module.pair_0
    np.testing.assert_allclose(pair(1.0, 0.3, 2.0), two_input_float(np.tanh, 1.0, 2.0, 0.3), rtol=1e-12)
    ours = lambda: [pair(1.0, 0.3, 2.0) for _ in range(20)]  # noqa: E731
    beside(ours, lambda: [two_input_float(np.tanh, 1.0, 2.0, 0.3)], "two_input_float (NumPy)", rounds=21, units=20)


def test_pair_layers(beside):
    """100 layers of (K_aa, K_bb, K_ab), tanh residual."""

    def peer():
        aa = bb = 1.01
        ab = 0.31
        for _ in range(99):
            new = two_input_float(np.tanh, aa, bb, ab)
            aa, bb = (k + one_input_float(lambda z: np.tanh(z) ** 2, k) + 0.01 for k in (aa, bb))
            ab += new + 0.01
        return [aa, bb, ab]

    run = TANH.propagate(**POINT, depth=100, correlation=0.3)
    np.testing.assert_allclose([run.values[n][-1] for n in NAMES_PAIR], peer(), rtol=1e-11)
    ours = lambda: TANH.propagate(**POINT, depth=100, correlation=0.3)  # noqa: E731
    beside(ours, peer, "two_input_float (NumPy)", rounds=5)
