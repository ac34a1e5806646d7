"""Layers at which K leaves the doubles: the same layers in other units.

Where no bias holds it, K of an ordered phase falls by a factor a layer, and so do K_ab, distances, Theta, while their
quotients c and γ go on. There the map is homogeneous: with all variances λ times as large, all of the next layer are,
V = O(K²) λ² times. So the layers are followed from a state in which K is multiplied by a power of two, again and again,
and the power is kept beside. K that grows without end (ReLU, GELU of large weights) is followed in the same way; a bias
or a bounded part of φ are less than rounding of it. Whether a map is homogeneous is asked of a layer at both scales, K
near 2^±200 and 2^±450, whose next layers must agree to 1e-12; where they do not (φ = z²), the layer from which K is
lost is known, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from meanfield.base.budgets import tick
from meanfield.base.quantities import NORMS, QUANTITIES
from meanfield.numeric.lowering.assembly import Lowered

SMALLEST, LARGEST = 1e-290, 1e300  # of a K whose digits are all there, and of one that counts as finite
PRODUCT = 1e-145  # of two whose product has them
LOW, UNIT, LEAST = -450, -200, -500  # exponents of K: below the first it is brought to the second; above the last;
# and their negatives where K is large
ALIKE = 1e-12  # between a layer and the same one in other units
LAYERS, ROOM = 4096, 1 << 22  # at a time; layers of all points
LN2 = math.log(2)
_INNER = {"D_J": 1, "F_J": 1, "J1_J": 0}  # of correlators of the Jacobian, which are no quantities


def degree(name: str) -> int | None:
    """The power of λ that a quantity is multiplied by where K is multiplied by λ; None of what is not known here."""
    base = name.partition("[")[0]
    found = QUANTITIES.get(base)
    if found is None or not found.over:
        return _INNER.get(base) if found is None else found.degree
    return sum(power * (QUANTITIES[mean].degree or 0) for mean, power in found.over)


@dataclass(frozen=True, eq=False)
class Units:
    """A run in units in which K neither underflows nor overflows.

    values: by key, as a run's; exponent (…, layers): K is its value here times 2 to this power; below (…): the first
    layer at which K < SMALLEST, 0 of none; lost (…): the layer from which on nothing is known of quotients, 0 of none.
    """

    values: dict[str, np.ndarray]
    exponent: np.ndarray
    below: np.ndarray
    lost: np.ndarray

    def at(self, name: str, layers: np.ndarray) -> np.ndarray:
        """Values, NaN where they are lost."""
        gone = (self.lost[..., None] > 0) & (layers >= self.lost[..., None])
        return np.where(gone, np.nan, self.values[name])


def units(
    lowered: Lowered, begin: np.ndarray, sigma: np.ndarray, depth: int, constant: bool, out: np.ndarray,
    diverged: np.ndarray, every: bool, shape: tuple[int, ...],
) -> Units | None:  # fmt: skip
    """What `out`, a run from `begin`, misses where K, or products of two of them, leave the doubles; None where they do
    not. `out` becomes what is known so, but for K that has overflowed. sigma (parameters, points, 1 or
    depth - 1): of the later layers; constant: whether they are the same in all of them; shape: that of the points."""
    state = lowered.recursion.state
    norms = [i for i, v in enumerate(state) if v.name in NORMS]
    if not norms:
        return None
    degrees = [degree(v.name) for v in state]
    divided = lowered.recursion.readout or any(
        d is None or d > 1 or v.name.startswith("G_w") for d, v in zip(degrees, state)
    )
    least = SMALLEST if not divided else PRODUCT
    _fallen(lowered, norms, begin, sigma, constant, out, diverged, every)
    end = out[:, -1][:, norms]
    small = (diverged == 0) & (out[:, :, norms].min(axis=(1, 2)) < least) & (begin[:, norms].min(axis=1) >= SMALLEST)
    over = (diverged > 0) & np.isinf(end).any(axis=1)
    large = (diverged == 0) & (end.max(axis=1) > 1 / PRODUCT) & (max(d or 0 for d in degrees) > 1)
    if not (small | large).any() and not (over.any() and (len(state) > 1 or lowered.recursion.readout)):
        return None
    chosen = np.flatnonzero(small | large | over)
    points, layers = out.shape[:2]
    held, exponent = out.copy(), np.zeros((points, layers))
    below, lost = np.zeros(points, np.int64), np.zeros(points, np.int64)
    walk = _Walk(lowered, norms, sigma[:, chosen], constant, begin[chosen].copy())
    walk.done[:] = ~over[chosen] & (not divided)  # where nothing is divided by a K that falls
    while walk.layer < depth and not walk.done.all():
        tick()
        walk.go(min(walk.length, depth - walk.layer))
        part, first = walk.part, walk.first
        for k in np.flatnonzero(walk.here):
            p = chosen[k]
            if every:
                held[p, first : first + part.shape[1]] = part[k]
                exponent[p, first : first + part.shape[1]] = walk.before[k]
            elif walk.layer == depth:
                held[p, 0], exponent[p, 0] = part[k, -1], walk.before[k]
    for k in np.flatnonzero(walk.done):
        if over[chosen[k]]:
            lost[chosen[k]] = walk.cut[k] or diverged[chosen[k]]
            continue
        rows = out[chosen[k], :, norms].min(axis=0) if every else None
        search = lowered, norms, begin[chosen[k]], sigma[:, chosen[k]], constant, depth, rows
        below[chosen[k]] = _first(*search, SMALLEST)
        if walk.lost[k]:
            lost[chosen[k]] = walk.cut[k] or _first(*search, PRODUCT if len(norms) > 1 else SMALLEST)
    followed = ~walk.done | ((walk.cut > 0) & every)
    going = chosen[followed]
    below[going] = np.where(over[going], 0, walk.below[followed])
    plain, beyond = out[going], (walk.cut[followed, None] > 0) & (np.arange(1, layers + 1) >= walk.cut[followed, None])
    for i, (v, d) in enumerate(zip(state, degrees)):
        if d:
            power = d * exponent[going]
            own = held[going, :, i]
            with np.errstate(over="ignore"):
                out[going, :, i] = own + LN2 * power if v.encoding.relative else np.ldexp(own, power.astype(int))
        else:
            out[going, :, i] = held[going, :, i]
    for i in norms:
        own = out[going, :, i]
        out[going, :, i] = np.where(np.isinf(plain[:, :, i]) | (own >= LARGEST), np.inf, own)
    out[going] = np.where(beyond[:, :, None], plain, out[going])
    return Units(
        {v.key: held[:, :, i].reshape(*shape, layers) for i, v in enumerate(state)},
        exponent.reshape(*shape, layers),
        below.reshape(shape),
        lost.reshape(shape),
    )


def _fallen(
    lowered: Lowered, norms: list[int], begin: np.ndarray, sigma: np.ndarray, constant: bool, out: np.ndarray,
    diverged: np.ndarray, every: bool,
) -> None:  # fmt: skip
    """Take back what a run calls divergence where K had fallen below the doubles: quotients of them are 0/0."""
    for p in np.flatnonzero((diverged > 0) & np.isnan(out[:, -1][:, norms]).any(axis=1)):
        last = int(diverged[p]) - 1
        if last < 1 or begin[p, norms].min() < SMALLEST:
            continue
        one = sigma[:, [p]] if sigma.shape[2] == 1 else sigma[:, [p], : max(last - 1, 1)]
        before = out[p, last - 1] if every else lowered.follow(begin[[p]], one, 1, last, constant, False)[0][0, -1]
        if before[norms].min() < SMALLEST:
            diverged[p] = 0
            gone = out[p, last if every else 0 :]
            gone[:, [not v.encoding.relative for v in lowered.recursion.state]] = 0.0


def _first(
    lowered: Lowered, norms, begin, sigma, constant: bool, depth: int, rows: np.ndarray | None, least: float
) -> int:
    """The first layer at which K of one point is below `least`, 0 of none; rows: K of all layers, where they are
    known."""
    if rows is not None:
        return int((rows < least).any() * (1 + np.argmax(rows < least)))

    def small(layer: int) -> bool:
        one = sigma if sigma.shape[1] == 1 else sigma[:, : layer - 1]
        end = lowered.follow(begin[None], one[:, None], 1, layer, constant, False)[0][0, 0]
        return bool(end[norms].min() < least)

    above, below = 1, depth
    if not small(depth):
        return 0
    while below - above > 1:  # K falls
        tick()
        middle = (above + below) // 2
        above, below = (above, middle) if small(middle) else (middle, below)
    return below


def together(values: dict[str, np.ndarray], parts: list, shape: tuple[int, ...]) -> Units | None:
    """The units of a run of `values` from those of its points: (which of them, units) each."""
    if all(units is None for _, units in parts):
        return None
    layers = next(iter(values.values())).shape[-1]
    held = {n: v.reshape(-1, layers).copy() for n, v in values.items()}
    points = len(next(iter(held.values())))
    exponent, below, lost = np.zeros((points, layers)), np.zeros(points, np.int64), np.zeros(points, np.int64)
    for here, one in parts:
        if one is None:
            continue
        for n, v in one.values.items():
            if n in held:
                held[n][here] = v
        exponent[here], below[here], lost[here] = one.exponent, one.below, one.lost
    whole = {n: v.reshape(*shape, layers) for n, v in held.items()}
    return Units(whole, exponent.reshape(*shape, layers), below.reshape(shape), lost.reshape(shape))


class _Walk:
    """The layers of some points, some at a time; held: their state in units of 2^exponent."""

    def __init__(self, lowered: Lowered, norms: list[int], sigma: np.ndarray, constant: bool, held: np.ndarray) -> None:
        self.lowered, self.norms, self.sigma, self.constant, self.held = lowered, norms, sigma, constant, held
        degrees = [degree(v.name) for v in lowered.recursion.state]
        self.known = None not in degrees
        self.degrees = np.array([d or 0 for d in degrees])
        self.most = max(1, int(self.degrees.max()))
        points = len(held)
        self.exponent, self.below = np.zeros(points), np.zeros(points, np.int64)
        self.done, self.lost, self.stays = (np.zeros(points, bool) for _ in range(3))
        self.cut = np.zeros(points, np.int64)  # the first layer that other units do not know any more
        self.layer, self.length = 1, 64

    def shifted(self, state: np.ndarray, by: np.ndarray) -> np.ndarray:
        """The state with K times 2^by."""
        out = state.copy()
        for i, (v, d) in enumerate(zip(self.lowered.recursion.state, self.degrees)):
            if d:
                out[:, i] = (
                    out[:, i] + d * LN2 * by if v.encoding.relative else np.ldexp(out[:, i], (d * by).astype(int))
                )
        return out

    def go(self, count: int) -> None:
        """Up to `count` layers more: fewer where K falls or rises too far in so many."""
        self.rescale()
        alive = ~self.done
        floor = np.where(self.stays, SMALLEST, 2.0 ** (LEAST / self.most))
        ceiling = np.where(self.stays, LARGEST, 2.0 ** (-LEAST / self.most))
        while True:
            here = slice(None) if self.sigma.shape[2] == 1 else slice(self.layer - 1, self.layer - 1 + count)
            sigma = self.sigma[:, :, here]
            part, _ = self.lowered.follow(self.held, sigma, self.layer, self.layer + count, self.constant, True)
            least, most = part[:, :, self.norms].min(axis=2), part[:, :, self.norms].max(axis=2)
            fallen, risen = alive & (least[:, -1] < floor), alive & ~(most.max(axis=1) < ceiling)  # NaN, too
            if not (fallen | risen).any() or count == 1:
                break
            count = max(1, count // 2)
        self.part, self.first, self.before, self.here = part[:, 1:], self.layer, self.exponent.copy(), alive.copy()
        for k in np.flatnonzero(alive):
            with np.errstate(divide="ignore"):
                true = np.log2(least[k, 1:]) + self.exponent[k]
            under = np.flatnonzero(true < math.log2(SMALLEST))
            if under.size and not self.below[k]:
                self.below[k] = self.layer + 1 + under[0]
        far = (least[:, -1] < 2.0**-900) | ~(most[:, -1] < 2.0 ** (900 / self.most))  # in one layer
        self._lose((fallen | risen) & (far | self.stays), self.layer + 1)
        if not self.constant:
            self._watch(part)
        self.held, self.layer = part[:, -1].copy(), self.layer + count
        near = 2.0 ** ((LOW + LEAST) / 2 / self.most)
        far = (least[:, -1] < near) | (most[:, -1] > 1 / near)
        self.length = count if (far & alive).any() else min(LAYERS, max(64, ROOM // len(alive)), 2 * count)

    def rescale(self) -> None:
        """Points whose K has become small or large go on in other units. Those whose map is not homogeneous stay in
        the doubles, where K may turn back, and end if they have left them."""
        with np.errstate(divide="ignore", invalid="ignore"):
            size = np.log2(self.held[:, self.norms].max(axis=1))
        beyond = ~self.done & (np.abs(size) > -LOW / self.most) & np.isfinite(size)
        self.stays[:] = False
        if not beyond.any():
            return
        by = np.where(beyond, np.rint(np.copysign(UNIT / self.most, size) - size), 0.0)
        moved = self.shifted(self.held, by)
        alike = self._alike(self.held, moved, by, self.layer) if self.known else np.zeros(len(beyond), bool)
        self._lose(beyond & ~alike & (self.exponent != 0), self.layer + 1)
        self.stays = beyond & ~alike & (self.exponent == 0)
        keep = beyond & alike
        self.held[keep] = moved[keep]
        self.exponent[keep] -= by[keep]

    def _lose(self, which: np.ndarray, layer: int) -> None:
        """These points end before this layer."""
        self.cut[which & (self.exponent != 0)] = layer
        self.done |= which
        self.lost |= which

    def _watch(self, part: np.ndarray) -> None:
        """Points in other units end where a layer of its own σ's is not homogeneous: a bias that K of these units
        hides and the true K does not, or the reverse. The layer is asked for as near the true K as doubles go."""
        reach = 900 / max(self.most, len(self.norms))
        for j in range(part.shape[1] - 1):
            moved = ~self.done & (self.exponent != 0)
            if not moved.any():
                return
            state = part[:, j]
            with np.errstate(divide="ignore", invalid="ignore"):
                size = np.log2(state[:, self.norms].max(axis=1))
                by = np.rint(np.clip(size + self.exponent, -reach, reach) - size)
            by = np.where(moved & np.isfinite(by), by, 0.0)
            self._lose(moved & ~self._alike(state, self.shifted(state, by), by, self.layer + j), self.layer + j + 1)

    def _alike(self, state: np.ndarray, moved: np.ndarray, by: np.ndarray, layer: int) -> np.ndarray:
        """Whether the next layer is the same in both units."""
        at = 0 if self.sigma.shape[2] == 1 else min(layer - 1, self.sigma.shape[2] - 1)
        sigma = self.sigma[:, :, at]
        one, other = (self.lowered.step(x, sigma, layer) for x in (state, moved))
        one = self.shifted(one, by)
        size = other[:, self.norms].max(axis=1)[:, None] ** self.degrees  # 1 of what K does not scale
        size[:, [v.encoding.relative for v in self.lowered.recursion.state]] = 1.0
        with np.errstate(invalid="ignore"):
            same = np.abs(one - other) <= ALIKE * np.maximum(np.abs(other), size)
        return (same | (one == other)).all(axis=1)
