"""Derivatives of K and Theta by σ_w, σ_b and other parameters: the recursion's own, through the loops over pairs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from meanfield.kernels import inner_products
from meanfield.kernels.compiled import block_loop
from meanfield.kernels.loops.pair_loops import LEAST, RUNGS
from meanfield.kernels.loops.plans import NotCovered
from meanfield.kernels.loops.tangents import with_tangents
from meanfield.kernels.pairs import block_of, side_of
from meanfield.kernels.sides import Side
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers
from meanfield.networks.records import OWN
from meanfield.numeric.lowering.assembly import lower

STEP = 2e-4  # relative, of the differences that serve where no series reaches a pair


def gradients(network: TheoryAtNumbers, X: np.ndarray, Y: np.ndarray | None, names: tuple[str, ...]) -> np.ndarray:
    """∂K/∂p (∂Theta/∂p where the network follows Theta) for parameters p: (rows, columns, parameters)."""
    which = "Theta_ab" if network.theta else "K_ab"
    known = {p.name: p for p in network.recursion.parameters} | {p.name: p for p in network.theory.one_input.parameters}
    symbols = tuple(known.get(n, sp.Symbol(n)) for n in names)
    left = side_of(network, X)
    right = left if Y is None else side_of(network, Y)
    out = np.empty((len(X), len(right.X), len(names)))
    left_over = np.ones(out.shape[:2], dtype=bool)
    try:
        recursion = with_tangents(network.recursion, symbols)
        one = with_tangents(network.theory.one_input.only("K"), symbols)
        loop = block_loop(recursion, one)
    except NotCovered:
        loop = None
    if loop is not None:
        first = np.zeros(len(X), dtype=np.int64)
        q = np.empty(out.shape[:2])
        inner_products.gram(left.X, np.ascontiguousarray(right.X.T), first, 1 / X.shape[1], 0.0, q)
        held = {v.name: np.array(network.started(v.initial, q), order="C") for v in loop.plan.state}
        flags = np.zeros(q.shape, dtype=np.uint8)
        if network.depth > 1:
            sides = []
            for side in (left, right):
                brought = network.brought(loop, side.K, _mean_square(side.X))
                sides.append((brought, loop.series(brought), loop.outside(brought)))
            (NA, EA, bad_a), (NB, EB, bad_b) = sides
            flags[np.flatnonzero(bad_a)] = 2
            flags[:, np.flatnonzero(bad_b)] = 2
            tables = loop.tables(EA, EB)
            values = [held[name] for name in loop.state]
            sigma = network.sigma(loop.parameters)
            loop.run(first, *values, NA, NB, sigma, network.depth, LEAST, RUNGS, flags, *tables)
        for i, n in enumerate(names):
            out[:, :, i] = held[f"d{which}_by_{n}"]
        left_over = flags == 2
    _same(network, left, right, Y is None, symbols, out, left_over)
    left_over |= ~np.isfinite(out).all(axis=2)
    if left_over.any():
        _differences(network, left, right, names, out, left_over)
    if Y is None:
        out = 0.5 * (out + out.transpose(1, 0, 2))
    return out


def diagonal(network: TheoryAtNumbers, X: np.ndarray, symbols: tuple[sp.Symbol, ...]) -> np.ndarray:
    """The derivatives of single inputs, (inputs, parameters)."""
    quantities = ("K", "Theta") if network.theta else ("K",)
    recursion = with_tangents(network.theory.one_input.only(*quantities), symbols)
    found = network.followed(lower(recursion), side_of(network, X).K, q=_mean_square(X))
    which = "Theta" if network.theta else "K"
    return np.stack([found[recursion.index(f"d{which}_by_{p.name}"), -1] for p in symbols], axis=1)


def _mean_square(X: np.ndarray) -> np.ndarray:
    return np.square(X).sum(axis=1) / X.shape[1]


def _same(network: TheoryAtNumbers, left: Side, right: Side, square: bool, symbols, out, left_over) -> None:
    """Equal inputs: the derivatives of single ones."""
    if square:
        equal_rows = np.arange(len(left.X)), np.arange(len(left.X))
        own = diagonal(network, left.X, symbols)
    else:
        near = np.isclose(left.K[:, None], right.K[None, :], rtol=1e-13, atol=0)
        a, b = np.nonzero(near)
        equal = (left.X[a] == right.X[b]).all(axis=1)
        equal_rows = a[equal], b[equal]
        if not equal_rows[0].size:
            return
        own = diagonal(network, left.X, symbols)
    out[equal_rows] = own[equal_rows[0]]
    left_over[equal_rows] = False


def _differences(network: TheoryAtNumbers, left: Side, right: Side, names, out, left_over) -> None:
    """Central differences of two steps, Richardson's rule, for rows that hold pairs that are left. Kernels are even in
    σ_w and σ_b, so that a step across 0 has a mirror image."""
    which = "Theta" if network.theta else "K"
    at = np.flatnonzero(left_over.any(axis=1))
    values, even = dict(network.values), {one.name for one in OWN}
    for i, n in enumerate(names):
        center = np.asarray(values[n], dtype=float)
        step = STEP * np.maximum(np.abs(center), 1e-3)
        parts = []
        for h in (step, 2 * step):
            ends = []
            for sign in (1, -1):
                beside = np.asarray(values[n]) + sign * h
                moved = tuple(({**values, n: _plain(np.abs(beside) if n in even else beside)}).items())
                there = replace(network, values=moved)
                a, b = side_of(there, left.X[at]), side_of(there, right.X)
                ends.append(block_of(there, a, b, False, False)[which])
            parts.append((ends[0] - ends[1]) / (2 * np.max(h)))
        found = (4 * parts[0] - parts[1]) / 3
        rows_of, columns = np.nonzero(left_over[at])
        out[at[rows_of], columns, i] = found[rows_of, columns]


def _plain(v: np.ndarray) -> Any:
    return float(v) if v.ndim == 0 else tuple(v.tolist())
