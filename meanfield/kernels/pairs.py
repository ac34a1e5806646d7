"""K, Theta and the distance of blocks of pairs.

Most pairs are told apart by their covariances, and take the loop over blocks; those that come close in some layer, or
that it cannot answer, are asked of the network one by one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from meanfield.kernels import inner_products
from meanfield.kernels.loops import numpy_sums
from meanfield.kernels.loops.pair_loops import LEAST, RUNGS, TILE
from meanfield.kernels.sides import SMALLEST, Side, refuse_underflow
from meanfield.kernels.single_pairs import one_by_one
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers

WORST = "worst"  # by how much a bound of K is to be magnified for distances of a block; inf if nothing follows them
OPPOSITE = "opposite"  # the largest K of inputs whose covariance is -1 + LEAST or less of their roots, 0 of none
BLURRED = "blurred"  # (what distances, what K misses), where functions that jump see shares of directions
READ = "read"  # what each layer may miss of pairs that are read off tables near full correlation, 0 of none
SAME = 1e-10  # 1 - c of inputs that may be equal


def side_of(network: TheoryAtNumbers, X: np.ndarray) -> Side:
    """A side of rows X."""
    scale, shift = network.begin
    norms = np.empty(len(X))
    (numpy_sums if len(X) ** 2 <= numpy_sums.SMALL else inner_products).norms(X, norms)
    K = norms * (scale / X.shape[1]) + shift
    refuse_underflow(X, K[None], 1, scale)
    if network.depth > 1:
        network.refuse_zero(K[None])
    last = network.alone(K, *(norms * (a / X.shape[1]) + b for a, b in [*network.lines.values()][1:]))
    gone = (last["K"] == 0) & (K > 0)
    if gone.any() and (network.alone(np.ones(1))["K"] > 0).all():  # 0 of a network that is not 0 is less than a double
        refuse_underflow(X, np.where(gone, SMALLEST / 2, last["K"])[None], network.depth, 0.0)
    refuse_underflow(X, last["K"][None], network.depth, 0.0)
    if network.block is None or network.depth == 1:
        return Side(X, K, last)
    brought = network.brought(network.block, K)
    refuse_underflow(X, brought[0], 1, 0.0)
    network.refuse_zero(brought[0, :-1])
    return Side(X, K, last, brought, network.block.series(brought), network.block.outside(brought))


def block_of(network: TheoryAtNumbers, left: Side, right: Side, same: bool, distances: bool) -> dict[str, np.ndarray]:
    """K, Theta and (distances) distance of all pairs of a row of `left` and one of `right`; same: the two are one side,
    whose upper triangle is computed. WORST: the largest √(K_aa K_bb)/distance of differences of covariances, inf where
    close inputs had to be followed by their covariance; OPPOSITE: whether 1 + c of some pair has lost its digits;
    BLURRED: what is missed through shares of directions; READ: through tables near full correlation."""
    lines = {n: (a / left.X.shape[1], b) for n, (a, b) in network.lines.items()}
    scale, shift = lines["K_ab"]
    shape = (len(left.X), len(right.X))
    loops: Any = numpy_sums if shape[0] * shape[1] <= numpy_sums.SMALL else inner_products
    K_ab, flags = np.empty(shape), np.zeros(shape, dtype=np.uint8)
    first = np.arange(1, shape[0] + 1) if same else np.zeros(shape[0], dtype=np.int64)
    columns = np.ascontiguousarray(right.X.T)
    loops.gram(left.X, columns, first, scale, shift, K_ab)
    opposite = loops.opposite(K_ab, left.K, right.K, LEAST, first)
    least = LEAST if distances or network.block is None else network.block.least
    loops.close_at_start(K_ab, left.K, right.K, max(least, SAME), first, flags)
    held = {n: K_ab.copy() if n != "K_ab" else K_ab for n in lines}
    for n in lines:
        if lines[n] != lines["K_ab"]:
            loops.gram(left.X, columns, first, *lines[n], held[n])
    if network.block is None:
        flags[:] = 2
    elif network.depth > 1:
        if opposite and least >= 0 and (network.mirrors or network.even):
            loops.close_at_start(-K_ab, left.K, right.K, LEAST, first, flags)
            opposite = 0.0
        _by_blocks(network, left, right, first, held, flags, least)
    found, worst = dict(held), 0.0
    if distances:
        found["distance"] = np.empty(shape)
        worst = loops.distances(K_ab, left.last["K"], right.last["K"], first, flags, found["distance"])
    where = inner_products.flagged(flags, first)
    said = one_by_one(network, left, right, where, lines, found) if where[0].size else (0.0, 0.0, 0.0)
    *blurred, read = said
    lost = blurred[0] == np.inf
    known = found["K_ab"] if not network.mirrors else np.where(flags, 0.0, found["K_ab"])
    opposite = max(opposite, loops.opposite(known, left.last["K"], right.last["K"], LEAST, first))
    if same:
        own = {"distance": np.zeros(shape[0]), "K_ab": left.last["K"], "Theta_ab": left.last.get("Theta")}
        for n, values in found.items():
            loops.mirror(values, own[n])
    out = {n.removesuffix("_ab"): values for n, values in found.items()}
    return out | {
        WORST: np.array(np.inf if lost else worst),
        OPPOSITE: np.array(opposite),
        BLURRED: np.array((0.0, 0.0) if lost else blurred),
        READ: np.array(read),
    }


def _by_blocks(network: TheoryAtNumbers, left: Side, right: Side, first, held, flags, least: float) -> None:
    loop = network.block
    assert loop is not None and left.series is not None and right.series is not None
    flags[np.flatnonzero(left.outside)] = 2
    flags[:, np.flatnonzero(right.outside)] = 2
    tables = loop.tables(left.series, right.series)
    values = [held[name] for name in loop.state]
    sigma = network.sigma(loop.parameters)
    columns = flags.shape[1] - first
    tiles = int((-(-columns // TILE)).sum())
    work = numpy_sums.work(int(columns.sum()), tiles, network.depth - 1, [a.shape[1] for a in tables[::5]])
    given = (first, *values, left.brought, right.brought, sigma, network.depth, least, RUNGS, flags, *tables)
    loop.run(*given, work=work)
