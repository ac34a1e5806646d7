"""`method="sweep"`: J^{l,l+1} depends on the gains up to layer l + 1 alone, so one pass solves block after block."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from meanfield.empirical.network.operations.operation_derivatives import Slope
from meanfield.numeric.phases.float_roots import sides
from meanfield.tuning.network_gains.instance import Instance

MOST = 2.0**20  # the largest gain that is tried, and one over the smallest
SHARED_GAIN = 0.045  # the largest |log J^{l,l+1}| that all blocks share to bring J^{1,L} to 1
NEAR = 0.05  # |log J^{1,L}| that is near enough
ENOUGH = 0.15  # |log J^{1,L}| at which no other K¹ is tried
FIRST_GAINS = (1.0, 0.5, 2.0, 0.25, 4.0)  # of the input layer, in the order they are tried
SWEEPS = 8
EXACT = 1024  # entries of z up to which J is exact unless a number of probes is given
PROBES = 128  # where it is not
TOTAL = 128  # directions that J^{1,L} is followed in
ACTIVE = 0.4  # share of neurons of layer 1 with a slope of a tenth of the largest below which it is called saturated


@dataclass
class Drive:
    """An instance, its inputs, and what is solved for in each block.

    inputs (positions, N_0); probes: random directions of each estimate (None: all directions where z has few enough
    entries). last: place of the Dense that a gain without skip multiplies; ends: those that branches end in.
    """

    instance: Instance
    inputs: np.ndarray
    probes: int | None
    gains: np.ndarray
    last: int
    ends: tuple[int, ...]
    progress: Callable[[int, int], None] | None = None
    trace: list[dict[str, float]] = field(default_factory=list)
    scatter: float = 1.0  # largest over smallest K^L of the inputs, when `total` was last asked

    def first(self) -> np.ndarray:
        """z¹."""
        return self.instance.block(1, self.inputs, None, self.gains[0])[0]

    def directions(self, layer: int, z: np.ndarray, most: int | None = None) -> np.ndarray:
        """Probes at z^layer, the same whenever they are asked for; all unit vectors, times √size, where no number was
        given and they are few enough (then J is exact)."""
        if most is not None or not self._all_of(z):
            return self.instance.probes(layer, min(self.probes or PROBES, most or z.size), z.shape)
        return (np.eye(z.size) * math.sqrt(z.size)).reshape(z.size, *z.shape)

    def _all_of(self, z: np.ndarray) -> bool:
        return self.probes is None and z.size <= EXACT

    @property
    def exact(self) -> bool:
        """Whether J is exact in every block."""
        return self._all_of(self.first())

    def fresh(self, layer: int, z: np.ndarray, step: int) -> np.ndarray:
        """Random probes that no other step has."""
        return self.instance.probes(layer, self.probes or PROBES, z.shape, step)

    @np.errstate(over="ignore", invalid="ignore")  # a K that overflows is refused by who asked
    def total(self, gains: np.ndarray, blocks: bool = True) -> tuple[float, np.ndarray, np.ndarray]:
        """(log J^{1,L}, log J^{l,l+1} unless they are left out, K^l) with these gains."""
        z = self.instance.block(1, self.inputs, None, gains[0])[0]
        t, scale = self.directions(1, z), 0.0
        each_block, K = [], [float((z * z).mean())]
        for layer in range(2, len(gains) + 1):
            own = self.directions(layer - 1, z) if blocks else t[:0]
            z, both, _ = self.instance.block(layer, z, np.concatenate([t, own]), gains[layer - 1])
            assert both is not None
            t = both[: len(t)]
            growth = log_mean_square(t)
            scale += growth
            t = t * math.exp(-growth / 2) if math.isfinite(growth) else t
            if blocks:
                each_block.append(log_mean_square(both[len(t) :]))
            K.append(float((z * z).mean()))
        each = (z * z).reshape(self.instance.inputs, -1).mean(axis=1)
        self.scatter = float(each.max() / each.min()) if each.min() > 0 else math.inf
        return scale, np.array(each_block), np.array(K)


def log_mean_square(rows: np.ndarray) -> float:
    """log of the mean square, −∞ of zeros: log J of probes whose squared length was their number of entries."""
    value = float((rows * rows).mean())
    return math.log(value) if value > 0 else -math.inf


def by_blocks(d: Drive, with_skip: bool, ends_in_dense: bool) -> tuple[np.ndarray, bool]:
    """Gains with J^{l,l+1} = 1 in every block and J^{1,L} = 1, and whether all were found.

    Perturbations along z grow by χ_K, not χ_J, and are one direction of n: where K is repelled they carry J^{1,L} away
    from the product of the blocks in the end. So one small number, the same log J^{l,l+1} for all blocks, is solved for
    by secants, each of them a sweep; where that is not enough, from another K¹.
    """
    start, found = d.gains, []
    for factor in FIRST_GAINS:  # of the input layer: where K is repelled, from farther in or farther out
        d.gains = start.copy()
        d.gains[0] *= factor
        gains, good, total = _towards_one(d, with_skip, ends_in_dense)
        found.append((abs(total), gains, good))
        if abs(total) <= ENOUGH or not good:
            break
    d.gains = start
    _, gains, good = min(found, key=lambda one: one[0])
    return gains, good


def _towards_one(d: Drive, with_skip: bool, ends_in_dense: bool) -> tuple[np.ndarray, bool, float]:
    """(gains, whether all were found, log J^{1,L}) of the common log J^{l,l+1} with J^{1,L} nearest to 1."""
    known: list[tuple[float, float]] = []
    target = 0.0
    for _ in range(SWEEPS):
        d.trace.clear()
        gains, good, total = one_sweep(d, with_skip, ends_in_dense, target)
        known.append((target, total))
        if abs(total) <= NEAR or not good:
            break
        slope = len(gains) - 1.0
        if len(known) > 1 and known[-1][0] != known[-2][0]:
            slope = max((known[-1][1] - known[-2][1]) / (known[-1][0] - known[-2][0]), slope)
        new = max(-SHARED_GAIN, min(SHARED_GAIN, target - total / slope))
        if new == target:
            break
        target = new
    return gains, good, total


@dataclass
class Unknown:
    """A block and the gain that is solved for: of its branches with a skip, else of a_w of its last Dense."""

    drive: Drive
    layer: int
    z: np.ndarray
    rows: np.ndarray
    followed: int  # the rows that come from layer 1; the others are the block's own
    with_skip: bool

    def put(self, g: float) -> np.ndarray:
        """The gains of the block's Dense."""
        d = self.drive
        here = d.gains[self.layer - 1].copy()
        if self.with_skip:
            here[list(d.ends)] *= g
        else:
            here[d.last, 0] *= g
        return here

    def measured(self, g: float) -> tuple[np.ndarray, np.ndarray, float]:
        """(z behind the block, pushed rows, log J^{l,l+1})."""
        new_z, both, _ = self.drive.instance.block(self.layer, self.z, self.rows, self.put(g))
        assert both is not None
        return new_z, both, log_mean_square(both[self.followed :])


def one_sweep(d: Drive, with_skip: bool, ends_in_dense: bool, target: float) -> tuple[np.ndarray, bool, float]:
    """(gains with log J^{l,l+1} = target, block after block, whether all were found, log J^{1,L}).

    Without skip J is a_w² times what it is at a_w = 1, so each block is one division; with a skip (or a norm behind
    the Dense) its one unknown, the gain of the branches, is searched for.
    """
    gains, good = d.gains.copy(), True
    z = d.first()
    t, total = d.directions(1, z, TOTAL), 0.0
    depth = len(gains)
    for layer in range(2, depth + 1):
        one = Unknown(d, layer, z, np.concatenate([t, d.directions(layer - 1, z)]), len(t), with_skip)
        new_z, both, at_one = one.measured(1.0)
        if not with_skip and ends_in_dense and math.isfinite(at_one):
            g, log_J = math.exp((target - at_one) / 2), target
            new_z, both = d.instance.block(layer, z, None, one.put(g))[0], g * both
        else:
            root = zero(lambda x, one=one: one.measured(x)[2] - target)  # type: ignore[misc]
            good &= root is not None
            g = 1.0 if root is None else root
            new_z, both, log_J = one.measured(g)
        pushed = both[: len(t)]
        growth = log_mean_square(pushed)
        total += growth
        gains[layer - 1] = one.put(g)
        d.trace.append({"layer": layer, "gain": g, "before": at_one, "behind": log_J, "log_J": total})
        z, t = new_z, pushed * math.exp(-growth / 2) if math.isfinite(growth) else pushed
        if d.progress is not None:
            d.progress(layer - 1, depth - 1)
    return gains, good, total


def by_scale(d: Drive, budget: float) -> tuple[np.ndarray, float | None]:
    """Gains with the largest common factor of all branches that keeps |log J^{1,L}| ≤ budget, and that factor."""

    def put(g: float) -> np.ndarray:
        gains = d.gains.copy()
        gains[1:, list(d.ends)] *= g
        return gains

    calls = 0

    def over(g: float) -> float:
        nonlocal calls
        calls += 1
        log_J = d.total(put(g), blocks=False)[0]
        d.trace.append({"gain": g, "log_J": log_J})
        if d.progress is not None:
            d.progress(min(calls, 15), 16)
        return abs(log_J) - budget

    inside = next((g for g in (1.0, 0.1, 1e-2, 1e-4, 1e-6) if over(g) <= 0), None)
    if inside is None:
        return d.gains.copy(), None
    outside = inside * (10 if inside < 1 else 2)
    while outside < MOST and over(outside) <= 0:
        inside, outside = outside, 2 * outside
    g = sides(over, inside, outside)[0] if outside < MOST else inside
    return put(g), g


def zero(f: Callable[[float], float]) -> float | None:
    """A gain > 0, near 1, with f = 0, f a function of one number; None where no change of sign is found."""
    f = cache(f)  # the ends of the bracket are asked for again
    here = f(1.0)
    if here == 0:
        return 1.0
    sign = 1.0 if here < 0 else -1.0
    for factor in (2.0, 0.5):
        inside = 1.0
        while 1 / MOST <= inside * factor <= MOST:
            outside = inside * factor
            there = f(outside)
            if there == 0:
                return outside
            if math.isfinite(there) and (there < 0) != (here < 0):
                return sides(lambda x: sign * f(x), inside, outside)[0]
            inside = outside
    return None


def active_share(instance: Instance, z: np.ndarray, gains: np.ndarray) -> float:
    """Share of the neurons behind layer 1 whose activation has at least a tenth of the largest slope."""
    *_, tape = instance.block(2, z, None, gains, tape=True)
    assert tape is not None
    slopes = [np.abs(site.derivative.slope) for site in tape.done if isinstance(site.derivative, Slope)]
    return min((float((s >= 0.1 * s.max()).mean()) for s in slopes if s.size and s.max() > 0), default=1.0)
