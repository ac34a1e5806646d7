"""Pairs that are followed by their distance, one by one, with what functions with kinks take near full correlation.

Tables are made where many pairs ask for them; averages of single pairs are taken where there is no table, or where so
few ask that making one would cost more than they do.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.budgets import tick
from meanfield.kernels import inner_products
from meanfield.kernels.compiled import Planned
from meanfield.kernels.loops.near_sums import MISSED, TAKEN
from meanfield.kernels.loops.nearby import Nearby
from meanfield.kernels.loops.pair_averages import TAKEN_OF
from meanfield.kernels.loops.pair_loops import RUNGS, Series
from meanfield.kernels.sides import Side
from meanfield.kernels.theory_at_numbers import DERIVING, TheoryAtNumbers

ASKS = 3  # flag of a pair that asks for a box, or for averages of its own
STEP = 150.0  # work of one layer of one pair, in layers of a plain recursion

BLUR = 2 * np.finfo(float).eps  # of a norm angle and of what one input has across another
FACING = 1e3  # K/distance up to which a rounding of 1 + c is within what `bounds` allow
COLLINEAR = 1e-15  # an angle that is 0 to rounding of the inputs
Missed = tuple[float, float, float]  # of pairs that are followed one by one: by distances, by K, in each layer
Box = tuple[int, tuple[int, int]]  # an expansion, and one of its boxes


def one_by_one(
    network: TheoryAtNumbers, left: Side, right: Side, where, lines: dict[str, tuple[float, float]], found: dict
) -> Missed:
    """Pairs that the blocks leave out, into the arrays of `found`; inf if some of them are followed by their
    covariance, else what distances miss (and what K) where functions that jump see shares of directions; and what
    each layer misses of pairs that are read off tables near full correlation. where: their rows and columns; lines:
    (scale/N_0, shift) of K_ab and Theta_ab.

    Opposite pairs of an odd network are those of x and -y, which are close; an even first map does not know y from -y.
    """
    K_ab, (scale, shift) = np.empty(where[0].size), lines["K_ab"]
    inner_products.products(left.X, right.X, where[0], where[1], scale, shift, K_ab)
    opposite = K_ab < 0
    if not opposite.any() or not (network.mirrors or network.even):
        return _one_by_one(network, left, right, where, lines, found)
    sides, ends = (left, right), lines
    if not network.mirrors and shift > 0:  # the bias is one more entry of the rows, which turns with them
        bias = math.sqrt(shift / scale)
        sides, ends = (_with_entry(left, bias), _with_entry(right, bias)), {n: (a, 0.0) for n, (a, _) in lines.items()}
    straight, turned = (tuple(w[here] for w in where) for here in (~opposite, opposite))
    lost = [_one_by_one(network, sides[0], replace(sides[1], X=-sides[1].X), turned, ends, found)]
    if straight[0].size:
        lost.append(_one_by_one(network, left, right, straight, lines, found))
    if network.mirrors:
        for n in network.names:
            found[n][turned] *= -1
        if "distance" in found:
            whole = left.last["K"][turned[0]] + right.last["K"][turned[1]]
            found["distance"][turned] = 2 * whole - found["distance"][turned]
    a, b, c = (max(each) for each in zip(*lost))
    return a, b, c


def _with_entry(side: Side, entry: float) -> Side:
    return replace(side, X=np.hstack([side.X, np.full((len(side.X), 1), entry)]))


def _one_by_one(network: TheoryAtNumbers, left: Side, right: Side, where, lines, found) -> Missed:
    """Pairs that the blocks leave out, in place; inf if some of them are followed by their covariance, else what
    distances and K (or Theta) miss: the cosine of a norm angle near ±π/2 is known to a rounding of 1, each jump takes a
    root, and slopes of kinks see the angle itself. The third is what tables near full correlation, or averages of
    single pairs, miss in a layer."""
    distance, norm_angle, across = (np.empty(where[0].size) for _ in range(3))
    a, b, (scale, shift) = where[0], where[1], lines["K_ab"]
    inner_products.pair_distances(left.X, right.X, a, b, scale, shift, left.K, right.K, distance, norm_angle, across)
    same = distance == 0.0
    if scale == 0 < max(of_n[0] for of_n in lines.values()):  # one K, but Theta tells the inputs apart
        same[:] = False
    equal_rows = tuple(w[same] for w in where)
    own: dict[str, Any] = {"distance": np.zeros(len(left.X)), "K_ab": left.last["K"]}
    own["Theta_ab"] = left.last.get("Theta")
    for n, values in found.items():
        values[equal_rows] = own[n][equal_rows[0]]
    rest = np.flatnonzero(~same)
    if not rest.size:
        return 0.0, 0.0, 0.0
    lost, read = False, 0.0
    where, distance, norm_angle, across = tuple(w[rest] for w in where), distance[rest], norm_angle[rest], across[rest]
    KX, KY = left.K[where[0]], right.K[where[1]]
    K_ab = np.empty(rest.size)
    a, b = where[0], where[1]
    inner_products.products(left.X, right.X, a, b, scale, shift, K_ab)
    turned, size = distance * across**2, np.maximum(np.sqrt(KX) * np.sqrt(KY), 1e-290)
    K_ab = np.where(turned < 2 * size, size - turned / 2, K_ab)
    begin = {"distance": distance, "norm_angle": norm_angle, "K_ab": K_ab}
    for n in network.names[1:]:
        begin[n], of_n = K_ab.copy(), lines[n]
        if of_n != lines["K_ab"]:
            inner_products.products(left.X, right.X, a, b, of_n[0], of_n[1], begin[n])
    out = {n: np.empty(rest.size) for n in ("distance", *network.names)}
    left_over = np.arange(rest.size)
    if network.depth == 1:
        out = begin
        left_over = left_over[:0]
    else:
        with DERIVING:
            loop = network.few
        if loop is not None:
            share = min(1.0, left.K.size * right.K.size / network.pairs)
            flags, read = _followed(network, loop, KX, KY, begin, share, out)
            left_over = np.flatnonzero(flags)
    if left_over.size:
        more, lost = network.engine(KX[left_over], KY[left_over], **{n: v[left_over] for n, v in begin.items()})
        for n, values in more.items():
            out[n][left_over] = values
    for n, values in found.items():
        values[where] = out[n]
    blunt, facing = 0.0, K_ab < 0
    if network.depth > 1 and "distance" in found and facing.any() and not lost:
        size_2 = network.facing(np.concatenate([KX[facing], KY[facing]]))
        if size_2 > FACING:
            blunt = BLUR * size_2 * network.growth(np.concatenate([left.X, right.X]))
    if lost or network.depth == 1:
        return (np.inf if lost else 0.0), 0.0, read
    if network.theta:
        return blunt, float(network.depth * BLUR * np.sqrt((distance / size).max())), read
    if network.block is None or network.block.least < 0:
        return blunt, 0.0, read
    gap = np.minimum(1.0, 0.5 * turned / size)
    told = np.sqrt(2.0 * gap) > COLLINEAR
    missed = np.minimum(1.0, np.divide(BLUR, across, out=np.zeros(gap.size), where=told))
    return float(missed.max()) + blunt, float((2 * missed * gap**0.5 ** (network.depth - 1)).max()), read


def _followed(
    network: TheoryAtNumbers, loop: Planned, KX: np.ndarray, KY: np.ndarray, begin: dict[str, np.ndarray],
    share: float, out: dict[str, np.ndarray],
) -> tuple[np.ndarray, float]:  # fmt: skip
    """Flags of the pairs that nothing here reaches, and what others may miss in a layer; their state at the last layer
    goes into `out`. KX, KY: K of both inputs at layer 1; begin: the state of the pairs there; share: of all pairs of
    the kernel that are in this block."""
    K, index = np.unique(np.concatenate([KX, KY]), return_inverse=True)
    order = np.argsort(index[: KX.size], kind="stable")
    sides = index[: KX.size][order], index[KX.size :][order]
    state = {name: begin[name][order] for name in loop.state}
    pairs = _Pairs(network, loop, sides, network.brought(loop, K), state, share)
    pairs.follow()
    for name in set(out) & set(loop.state):
        out[name][order] = state[name]
    flags = np.empty(KX.size, dtype=np.uint8)
    flags[order] = pairs.flags
    return flags, pairs.missed


class _Pairs:
    """Pairs on their way, sorted by their first input: the loop, what their inputs bring, their state and flags (ASKS
    of those not yet followed); missed: what they may miss in a layer by tables and averages."""

    def __init__(
        self, network: TheoryAtNumbers, loop: Planned, sides, brought: np.ndarray, state: dict[str, np.ndarray],
        share: float,
    ) -> None:  # fmt: skip
        self.network, self.loop, self.sides, self.brought, self.state = network, loop, sides, brought, state
        self.share = share
        self.flags = np.full(sides[0].size, ASKS, dtype=np.uint8)
        self.starts = np.zeros(sides[0].size, dtype=np.int64)
        self.known = np.full((sides[0].size, max(1, len(loop.groups)), TAKEN_OF), np.nan)
        self.missed = 0.0
        self.series = loop.series(brought)
        self.sigma = network.sigma(loop.parameters)
        near = {g: loop.plan.nearby(*pair) for g, pair in enumerate(loop.groups)}
        own = {g: loop.plan.averages(*pair) for g, pair in enumerate(loop.groups)}
        self.averages = {g: averages for g, averages in own.items() if averages is not None}
        self.tables: dict[int, Nearby] = {g: tables for g, tables in near.items() if tables is not None}
        self.made: set[Box] = set()
        self.asks: Counter[Box] = Counter()

    def follow(self) -> None:
        """All pairs, each until it is done or asks; what it asks for is there when it goes on."""
        left = np.arange(self.flags.size)
        while left.size:
            tick()
            asked, places = self._run(left)
            wants = self.flags[left] == ASKS
            left, asked, places = left[wants], asked[wants], places[wants]
            moved = left[asked[:, 2] > self.starts[left]]
            self.known[moved], self.starts[left] = np.nan, asked[:, 2]
            told = ~np.isnan(self.known[left, asked[:, 0], 0])  # what asks again has no use for what it was told
            waits = self._boxes(asked, places)
            for g, averages in self.averages.items():
                own = np.flatnonzero((asked[:, 0] == g) & ~waits & ~told)
                if own.size:
                    self.missed = max(self.missed, TAKEN)
                    self.known[left[own], g] = averages.of_pairs(*places[own].T)
            lost = ~waits & (told | ~(self.known[left, asked[:, 0], 0] >= 0.0))
            self.flags[left[lost]] = 2
            left = left[~lost]

    def _run(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Some pairs as far as they get; what those that have flag ASKS then ask for (`few_source`)."""
        values = [self.state[name][some] for name in self.loop.state]
        flags, asked = np.zeros(some.size, dtype=np.uint8), np.zeros((some.size, 3), dtype=np.int64)
        places = np.zeros((some.size, 4))
        tables = [t for g, pair in enumerate(self.loop.groups) for t in self._read(g, *(self.series[e] for e in pair))]
        ends = (side[some] for side in self.sides)
        layers = self.network.depth - 1
        self.loop.run(
            *ends, *values, self.brought, self.sigma, self.network.depth, RUNGS, self.starts[some], flags, asked,
            places, self.known[some], *tables, work=STEP * some.size * layers * len(self.loop.groups),
        )  # fmt: skip
        self.flags[some] = flags
        for name, found in zip(self.loop.state, values):
            self.state[name][some] = found
        return asked, places

    def _read(self, group: int, one: Series, other: Series) -> tuple[Any, ...]:
        """What the loop reads of the expansions of a group."""
        if (one.first, one.step) != (other.first, other.step):
            one, other = one.full(), other.full()
        a = np.ascontiguousarray(one.a.transpose(0, 2, 1))
        if other is not one:
            b = np.ascontiguousarray(other.a.transpose(0, 2, 1))
            return a, one.tails, b, other.tails, (one.first, one.step)
        near = self.tables.get(group)
        expansion = self.loop.groups[group][0]
        made = {box for e, box in self.made if e == expansion}
        tables = [] if near is None else [near.tables(self._variance(group), made)]
        return a, one.tails, (one.first, one.step), *tables

    def _variance(self, group: int) -> np.ndarray:
        return self.loop.variance(self.loop.variances[self.loop.groups[group][0]], self.brought)

    def _boxes(self, asked: np.ndarray, places: np.ndarray) -> np.ndarray:
        """Which pairs wait for boxes: those that, for all pairs of the kernel, cost less than averages of single pairs.
        Which boxes are read depends on what pairs of this block ask for, never on which boxes happen to be there."""
        waits = np.zeros(len(asked), dtype=bool)
        for g, number in sorted({(g, number) for g, number, _ in asked.tolist() if number >= 0}):
            ask, near = (asked[:, 0] == g) & (asked[:, 1] == number), self.tables[g]
            box = self.loop.groups[g][0], near.box(self._variance(g), number)
            self.asks[box] += int(ask.sum())
            if self.asks[box] >= self.share * near.price(box[1]):
                near.make(*box[1])
                self.made.add(box)
                self.missed = MISSED
                waits |= ask
        return waits
