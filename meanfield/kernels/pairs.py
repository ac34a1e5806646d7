"""K, Theta and the distance between inputs: blocks of pairs by the compiled loops, single ones by what they need.

Most pairs are told apart by their covariances, and take the loop over blocks. Those that come close in some layer are
followed by their distance. Where no series reaches a pair (kinks near full correlation), and for blocks whose maps are
not of pairs of functions, the two-input recursions of `propagate` answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import sympy as sp

from meanfield.kernels import rows
from meanfield.kernels.compiled import RUNGS, Loop, block_loop, few_loop
from meanfield.kernels.plans import LEAST, NotCovered
from meanfield.kernels.series import Series
from meanfield.numeric.lowering.assembly import Lowered, lower
from meanfield.numeric.solvers import first_value
from meanfield.results import MeanFieldError
from meanfield.symbolic.recursion import Recursion
from meanfield.symbols import L
from meanfield.verbs.maps import Maps
from meanfield.verbs.running import run
from meanfield.verbs.selection import selected

PARALLEL = Lock()  # one compiled parallel region at a time
DERIVING = Lock()  # one thread derives what close pairs need
JUMPS = 1 / np.sqrt(2 * LEAST)  # slope of an arcsine where a covariance still tells inputs apart
ENGINE = 20_000  # pairs that the two-input recursions take at a time
WORST = "worst"  # by how much a bound of K is to be magnified for distances of a block; inf if nothing follows them
SAME = 1e-10  # 1 - c of inputs that may be equal


@dataclass(frozen=True, eq=False)
class Network:
    """A theory with numbers: what decides a kernel beside the inputs.

    values: numbers by the name of a parameter, arrays of one entry per layer where they change with it; depth: the last
    layer; theta: whether Theta is followed.
    """

    theory: Maps
    values: tuple[tuple[str, Any], ...]
    depth: int
    theta: bool

    def __reduce__(self):
        """Without what is compiled: another process makes its own."""
        return Network, (self.theory, self.values, self.depth, self.theta)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return ("K_ab", "Theta_ab") if self.theta else ("K_ab",)

    @cached_property
    def recursion(self) -> Recursion:
        return selected(self.theory, ("K_aa", "K_bb", *self.names))

    @cached_property
    def near(self) -> Recursion | None:
        """The recursion that follows the distance, where there is one."""
        try:
            return selected(self.theory, ("K_aa", "K_bb", "distance", *self.names))
        except MeanFieldError:
            return None

    @property
    def keeps_distances(self) -> bool:
        """Whether close rows are followed by their distance; else it is a difference of covariances, and nothing bounds
        its relative error."""
        return self.near is not None

    @cached_property
    def block(self) -> Loop | None:
        try:
            return block_loop(self.recursion, self.theory.one_input)
        except NotCovered:
            return None

    @cached_property
    def few(self) -> Loop | None:
        try:
            return None if self.near is None else few_loop(self.near, self.theory.one_input)
        except NotCovered:
            return None

    @cached_property
    def given(self) -> dict[str, np.ndarray]:
        """Values of parameters at the layers 1 … depth."""
        out = {n: np.broadcast_to(np.asarray(v, dtype=float), (self.depth,)) for n, v in self.values}
        return out | {L.name: np.full(self.depth, float(max(self.depth - 1, 1)))}

    @cached_property
    def begin(self) -> tuple[float, float]:
        """(scale, shift) with K¹_ab = scale·x_a·x_b/N_0 + shift."""
        initial = self.theory.one_input.state[0].initial
        known = {n: float(v[0]) for n, v in self.given.items()}
        shift, whole = (float(first_value(initial, known | {"Q0": q})) for q in (0.0, 1.0))
        return whole - shift, shift

    def sigma(self, names: list[str]) -> np.ndarray:
        """Rows of parameters at the layers 2 … depth."""
        missing = [n for n in names if n not in self.given]
        if missing:
            raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
        rest = [self.given[n][1:] if self.depth > 1 else self.given[n] for n in names]
        return np.ascontiguousarray(rest).reshape(len(names), max(1, self.depth - 1))

    def started(self, formula: sp.Expr, K: np.ndarray) -> np.ndarray:
        """A start as a function of the inputs' covariance, from K or K_ab at layer 1."""
        scale, shift = self.begin
        known = {n: float(v[0]) for n, v in self.given.items()}
        Q0 = (K - shift) / scale if scale > 0 else np.zeros_like(K)
        return np.broadcast_to(first_value(formula, known | {"Q0": Q0, "c0": 1.0}), K.shape)

    def brought(self, loop: Loop, K: np.ndarray) -> np.ndarray:
        """What inputs bring to every layer, (numbers, layers, inputs); K: at layer 1."""
        inputs, beside = loop.inputs, len(loop.plan.inputs)
        out = self.followed(inputs, K, beside)
        return np.ascontiguousarray(out[[0, *range(len(out) - beside, len(out))]])

    def followed(self, inputs: Lowered, K: np.ndarray, beside: int = 0) -> np.ndarray:
        """The state of single inputs at every layer, (variables, layers, inputs); beside: variables without a start."""
        state = inputs.recursion.state
        start = np.zeros((K.size, len(state)))
        for i, v in enumerate(state[: len(state) - beside]):
            start[:, i] = K if i == 0 else self.started(v.initial, K)
        names = [p.name for p in inputs.recursion.parameters if p.name not in ("Q0", "c0")]
        sigma = np.broadcast_to(self.sigma(names)[:, None, :], (len(names), K.size, max(1, self.depth - 1)))
        if not len(names):
            sigma = np.zeros((1, K.size, max(1, self.depth - 1)))
        with PARALLEL:
            out, diverged = inputs.run(start, sigma, self.depth, False, True)
        _refuse(diverged, out[:, :, 0])
        return out.transpose(2, 1, 0)

    def alone(self, K: np.ndarray) -> dict[str, np.ndarray]:
        """K (and Theta) of inputs by themselves at the last layer."""
        found = self._run(("K", "Theta"), {"K": K, "Theta": K}) if self.theta else self._run(("K",), {"K": K})
        names = ("K", "Theta") if self.theta else ("K",)
        return {n: np.ascontiguousarray(getattr(found, n)[..., -1]) for n in names}

    def _run(self, quantities: tuple[str, ...], start: dict[str, np.ndarray]):
        given = {n: (float(v[0]) if (v == v[0]).all() else v) for n, v in self.given.items() if n != L.name}
        layers = any(isinstance(v, np.ndarray) for v in given.values())
        given = {n: v if not layers else np.broadcast_to(v, (self.depth,)) for n, v in given.items()}
        with PARALLEL:
            found = run(
                self.theory, **given, depth=self.depth, quantities=quantities, layerwise=layers, every_layer=False,
                start=start,
            )  # fmt: skip
        _refuse(np.ravel(found.diverged_at), None)
        return found

    @property
    def error(self) -> float:
        """What one average misses in one layer, of the root mean squares of its factors."""
        if self.block is not None:
            return max([self.block.error, *self.block.inputs.errors])
        return max(lower(self.near or self.recursion).errors, default=0.0)

    def growth(self, X: np.ndarray) -> float:
        """The largest Θ/K at the last layer, by which errors of single layers add up; a guess where Θ is infinite."""
        scale, shift = self.begin
        K = np.square(X).sum(axis=1) * (scale / X.shape[1]) + shift
        K = np.unique(K)[:: max(1, K.size // 16)]
        try:
            found = self._run(("K", "Theta"), {"K": K, "Theta": K})
        except MeanFieldError as error:
            if "infinite" not in str(error) and "close" not in str(error):
                raise
            return JUMPS * self.depth
        with np.errstate(all="ignore"):
            return float(np.nanmax(found.Theta[..., -1] / found.K[..., -1], initial=1.0))

    def engine(self, KX, KY, K_ab, distance, tilt) -> tuple[dict[str, np.ndarray], bool]:
        """Pairs by the two-input recursions of `propagate`, and whether their distance is a difference of covariances,
        because none of these recursions follows it."""
        parts, lost = [], False
        for at in range(0, KX.size, ENGINE):
            here = slice(at, at + ENGINE)
            norms = {"K_aa": KX[here], "K_bb": KY[here]}
            if self.near is not None:
                try:
                    start = norms | {"distance": distance[here], "tilt": tilt[here]}
                    found = self._run(("K_aa", "K_bb", "distance", *self.names), start)
                    parts.append({n: getattr(found, n)[..., -1] for n in ("distance", *self.names)})
                    continue
                except MeanFieldError as error:
                    if "not compiled" not in str(error):
                        raise
            found = self._run(("K_aa", "K_bb", *self.names), norms | {"K_ab": K_ab[here]})
            one = {n: getattr(found, n)[..., -1] for n in self.names}
            one["distance"] = np.maximum(found.K_aa[..., -1] + found.K_bb[..., -1] - 2 * one["K_ab"], 0.0)
            parts.append(one)
            lost = True
        return {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}, lost


def _refuse(diverged: np.ndarray, K: np.ndarray | None) -> None:
    bad = np.flatnonzero(diverged)
    if not bad.size:
        return
    layer = int(diverged[bad[0]])
    if K is not None and np.isnan(K[bad[0], layer - 1]):
        raise MeanFieldError(
            f"The kernel was asked for, but input {bad[0]} is 0 at layer {layer - 1}, and a LayerNorm divides by its "
            "norm; leave that input out, or take sigma_b > 0."
        )
    raise MeanFieldError(
        f"The kernel was asked for, but K of input {bad[0]} exceeds 1e300 at layer {layer}; take a smaller depth, "
        "sigma_w or sigma_b, or smaller inputs."
    )


@dataclass(frozen=True, eq=False)
class Side:
    """Inputs of one side of a block: rows, K¹, K and Theta at the last layer; what they bring to the loop over blocks,
    their series, and which of them are outside of its closed forms."""

    X: np.ndarray
    K: np.ndarray
    last: dict[str, np.ndarray]
    brought: np.ndarray | None = None
    series: dict[int, Series] | None = None
    outside: Any = None

    @property
    def size(self) -> int:
        """Bytes."""
        return self.X.nbytes + sum(one.a.nbytes + one.tails.nbytes for one in (self.series or {}).values())


def side_of(network: Network, X: np.ndarray) -> Side:
    """A side of rows X."""
    scale, shift = network.begin
    K = np.empty(len(X))
    rows.norms(X, K)
    K = K * (scale / X.shape[1]) + shift
    last = network.alone(K)
    if network.block is None or network.depth == 1:
        return Side(X, K, last)
    brought = network.brought(network.block, K)
    return Side(X, K, last, brought, network.block.series(brought), network.block.outside(brought))


def block_of(network: Network, left: Side, right: Side, same: bool, distances: bool) -> dict[str, np.ndarray]:
    """K, Theta and (distances) distance of all pairs of a row of `left` and one of `right`; same: the two are one side,
    whose upper triangle is computed. WORST: the largest √(K_aa K_bb)/distance of differences of covariances, inf where
    close inputs had to be followed by their covariance."""
    scale, shift = network.begin
    scale /= left.X.shape[1]
    shape = (len(left.X), len(right.X))
    K_ab, flags = np.empty(shape), np.zeros(shape, dtype=np.uint8)
    first = np.arange(1, shape[0] + 1) if same else np.zeros(shape[0], dtype=np.int64)
    rows.gram(left.X, np.ascontiguousarray(right.X.T), first, scale, shift, K_ab)
    least = LEAST if distances or network.block is None else network.block.least
    rows.close_at_start(K_ab, left.K, right.K, max(least, SAME), first, flags)
    held = {"K_ab": K_ab} | ({"Theta_ab": K_ab.copy()} if network.theta else {})
    if network.block is None:
        flags[:] = 2
    elif network.depth > 1:
        _by_blocks(network, left, right, first, held, flags, least)
    found, worst = dict(held), 0.0
    if distances:
        found["distance"] = np.empty(shape)
        worst = rows.distances(K_ab, left.last["K"], right.last["K"], first, flags, found["distance"])
    where = rows.flagged(flags, first)
    lost = where[0].size > 0 and _one_by_one(network, left, right, where, (scale, shift), found)
    if same:
        own = {"distance": np.zeros(shape[0]), "K_ab": left.last["K"], "Theta_ab": left.last.get("Theta")}
        for n, values in found.items():
            rows.mirror(values, own[n])
    out = {n.removesuffix("_ab"): values for n, values in found.items()}
    return out | {WORST: np.array(np.inf if lost else worst)}


def _by_blocks(network: Network, left: Side, right: Side, first, held, flags, least: float) -> None:
    loop = network.block
    assert loop is not None and left.series is not None and right.series is not None
    flags[np.flatnonzero(left.outside)] = 2
    flags[:, np.flatnonzero(right.outside)] = 2
    tables: list[Any] = []
    for g in loop.groups:
        one, other, _ = loop.plan.groups[g]
        a, b = left.series[one], right.series[other]
        if (a.first, a.step) != (b.first, b.step):
            a, b = a.full(), b.full()
        tables += [a.a, b.a, a.tails, b.tails, (a.first, a.step)]
    values = [held[v.name] for v in loop.plan.state]
    sigma = network.sigma(loop.plan.parameters)
    loop.run(first, *values, left.brought, right.brought, sigma, network.depth, least, RUNGS, flags, *tables)


def _one_by_one(network: Network, left: Side, right: Side, where, line, found) -> bool:
    """Pairs that the blocks leave out, in place; whether some of them are followed by their covariance."""
    distance, tilt = np.empty(where[0].size), np.empty(where[0].size)
    a, b = where[0], where[1]
    rows.apart(left.X, right.X, a, b, line[0], line[1], left.K, right.K, distance, tilt)
    same = distance == 0.0
    twins = tuple(w[same] for w in where)
    own: dict[str, Any] = {"distance": np.zeros(len(left.X)), "K_ab": left.last["K"]}
    own["Theta_ab"] = left.last.get("Theta")
    for n, values in found.items():
        values[twins] = own[n][twins[0]]
    rest = np.flatnonzero(~same)
    if not rest.size:
        return False
    lost = False
    where, distance, tilt = tuple(w[rest] for w in where), distance[rest], tilt[rest]
    KX, KY = left.K[where[0]], right.K[where[1]]
    K_ab = np.empty(rest.size)
    a, b = where[0], where[1]
    rows.products(left.X, right.X, a, b, line[0], line[1], K_ab)
    turned, size = distance * np.cos(tilt) ** 2, np.sqrt(KX) * np.sqrt(KY)
    K_ab = np.where(turned < 2 * size, size - turned / 2, K_ab)
    out = {n: np.empty(rest.size) for n in ("distance", *network.names)}
    left_over = np.arange(rest.size)
    if network.depth == 1:
        out = {"distance": distance} | {n: K_ab for n in network.names}
        left_over = left_over[:0]
    else:
        with DERIVING:
            loop = network.few
        if loop is not None:
            left_over = np.flatnonzero(_followed(network, loop, KX, KY, distance, tilt, K_ab, out))
    if left_over.size:
        more, lost = network.engine(*(v[left_over] for v in (KX, KY, K_ab, distance, tilt)))
        for n, values in more.items():
            out[n][left_over] = values
    for n, values in found.items():
        values[where] = out[n]
    return lost


def _followed(network: Network, loop: Loop, KX, KY, distance, tilt, K_ab, out) -> np.ndarray:
    """Pairs followed by their distance; returns which of them no series reaches."""
    K, index = np.unique(np.concatenate([KX, KY]), return_inverse=True)
    brought = network.brought(loop, K)
    series = loop.series(brought)
    flags = np.zeros(KX.size, dtype=np.uint8)
    start = {"distance": distance.copy(), "tilt": tilt.copy(), "K_ab": K_ab.copy(), "Theta_ab": K_ab.copy()}
    values = [start[v.name] for v in loop.plan.state]
    tables: list[Any] = []
    for g in loop.groups:
        one = series[loop.plan.groups[g][0]]
        tables += [np.ascontiguousarray(one.a.transpose(0, 2, 1)), one.tails, (one.first, one.step)]
    sigma = network.sigma(loop.plan.parameters)
    pair = index[: KX.size], index[KX.size :]
    loop.run(*pair, *values, brought, sigma, network.depth, RUNGS, flags, *tables)
    for n in out:
        out[n][:] = start[n]
    return flags
