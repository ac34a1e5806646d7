"""A theory with numbers, and what no loop over blocks answers: its pairs one by one.

Pairs that come close in some layer are followed by their distance (`single_pairs`). What that does not reach (jumps
and branch points near full correlation), and blocks whose maps are not of pairs of functions, the two-input recursions
of `propagate` answer.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.kernels.compiled import Planned, block_loop, few_loop
from meanfield.kernels.loops.plans import NotCovered
from meanfield.kernels.sides import JUMPS, refuse_divergence, sample
from meanfield.numeric.lowering.assembly import Lowered, lower
from meanfield.numeric.run.depth_iteration import affine, first_value
from meanfield.symbolic.parity import is_even, is_odd
from meanfield.symbolic.recursion import Recursion, c0
from meanfield.theory.queries.architecture_maps import Maps, described
from meanfield.theory.queries.selection import selected
from meanfield.theory.queries.zero_inputs import jumps_at_zero
from meanfield.theory.verbs.propagating import run

DEPTH = "L"  # the parameter that stands for the number of blocks
PARALLEL = Lock()  # one compiled parallel region at a time
DERIVING = Lock()  # one thread derives what close pairs need
KEEPING = Lock()  # one thread writes cells
ENGINE = 20_000  # pairs that the two-input recursions take at a time
FACED = 16  # variances at which it is asked what a first map makes of opposite inputs


@dataclass(frozen=True, eq=False)
class TheoryAtNumbers:
    """A theory with numbers: all that blocks of pairs, and pairs that they leave out, may ask.

    values: numbers by the name of a parameter, tuples of one entry per layer where they change with it; depth: the
    last layer; theta: whether Theta is followed; pairs: how many there are in the whole kernel, which
    decides what tables near full correlation pay.
    """

    values: tuple[tuple[str, Any], ...]
    depth: int
    theta: bool
    theory: Maps
    pairs: int = 1

    def __reduce__(self):
        """Without what is compiled: another process makes its own."""
        return TheoryAtNumbers, (self.values, self.depth, self.theta, self.theory, self.pairs)

    @property
    def names(self) -> tuple[str, ...]:
        return ("K_ab", "Theta_ab") if self.theta else ("K_ab",)

    @cached_property
    def given(self) -> dict[str, np.ndarray]:
        """Values of parameters at the layers 1 … depth."""
        out = {n: np.broadcast_to(np.asarray(v, dtype=float), (self.depth,)) for n, v in self.values}
        return out | {DEPTH: np.full(self.depth, float(max(self.depth - 1, 1)))}

    def sigma(self, names: tuple[str, ...]) -> np.ndarray:
        """Rows of parameters at the layers 2 … depth."""
        missing = [n for n in names if n not in self.given]
        if missing:
            raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
        rest = [self.given[n][1:] if self.depth > 1 else self.given[n] for n in names]
        return np.ascontiguousarray(rest).reshape(len(names), max(1, self.depth - 1))

    def rows(self, names: tuple[str, ...], inputs: int) -> np.ndarray:
        """The same for each of some inputs, (parameters, inputs, layers), as loops over single inputs take them."""
        layers = max(1, self.depth - 1)
        if not names:
            return np.zeros((1, inputs, layers))
        return np.broadcast_to(self.sigma(names)[:, None, :], (len(names), inputs, layers))

    @property
    def described(self) -> str:
        """All of the theory as text."""
        return described(self.theory)

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
        """Whether close rows are followed by their distance."""
        return self.near is not None

    @cached_property
    def block(self) -> Planned | None:
        try:
            return block_loop(self.recursion, self.theory.one_input)
        except NotCovered:
            return None

    def keep(self) -> None:
        """Write the cells of series that were met, for further processes; not to a full disk."""
        if self.block is None:
            return
        with KEEPING, suppress(OSError):
            for e in {e for pair in self.block.groups for e in pair}:
                self.block.cells(e).keep()
            few: Planned | None = self.__dict__.get("few")
            if few is None:
                return
            for pair in set(few.groups):
                if (near := few.plan.nearby(*pair)) is not None:
                    near.keep()

    @cached_property
    def few(self) -> Planned | None:
        try:
            return None if self.near is None else few_loop(self.near, self.theory.one_input)
        except NotCovered:
            return None

    def _mirrored(self, rule: Callable[..., bool]) -> bool:
        between = tuple(n for n in self.names if n in self.recursion.names)
        return rule(self.recursion, between, {n: 0 if np.all(np.equal(v, 0)) else 1 for n, v in self.values})

    @cached_property
    def mirrors(self) -> bool:
        """Whether K and Theta of (x, -y) are -1 times those of (x, y), while averages see the root of 1 + c."""
        return self.block is not None and self.block.least >= 0 and self._mirrored(is_odd)

    @cached_property
    def even(self) -> bool:
        """Whether preactivations at layer 1 that are opposite to those of y give the K, Theta and distance of y: how
        far these are from x's has digits that 1 - c of (x, y) does not have."""
        (a, b), (c, d) = self.begin, self.lines[self.names[-1]]
        steady = a * d == b * c  # Theta_ab has the sign of K_ab
        return self.block is not None and self.depth > 1 and steady and self.begin[0] > 0 and self._mirrored(is_even)

    @cached_property
    def begin(self) -> tuple[float, float]:
        """(scale, shift) with K¹_ab = scale·x_a·x_b/N_0 + shift."""
        return self._line(self.theory.one_input.state[0].initial)

    @cached_property
    def lines(self) -> dict[str, tuple[float, float]]:
        """The same of every quantity between two inputs: (scale, shift) by its name."""
        return {n: self._line(self.recursion.state[self.recursion.index(n)].initial) for n in self.names}

    def _line(self, formula: sp.Expr) -> tuple[float, float]:
        at_layer_1 = {n: float(v[0]) for n, v in self.given.items()}
        scale, shift = affine(formula.subs(c0, 1), at_layer_1)
        return float(scale), float(shift)

    def started(self, formula: sp.Expr, q: np.ndarray) -> np.ndarray:
        """A value at layer 1, from the products of inputs q = x_a·x_b/N_0."""
        known = {n: float(v[0]) for n, v in self.given.items()}
        return np.broadcast_to(first_value(formula, known | {"Q0": q, "c0": 1.0}), q.shape)

    def brought(self, loop: Planned, K: np.ndarray, q: np.ndarray | None = None) -> np.ndarray:
        """What inputs bring to every layer, (numbers, layers, inputs); K, q: as in `followed`."""
        out = self.followed(loop.inputs, K, loop.auxiliary, q)
        return np.ascontiguousarray(out[[0, *range(len(out) - loop.auxiliary, len(out))]])

    def followed(self, inputs: Lowered, K: np.ndarray, auxiliary: int = 0, q: np.ndarray | None = None) -> np.ndarray:
        """The state of single inputs at every layer, (variables, layers, inputs); K: at layer 1; auxiliary: variables
        without a start; q: Q0, where there are more than K and these."""
        state = inputs.recursion.state
        start = np.zeros((K.size, len(state)))
        start[:, 0] = K
        for i, v in enumerate(state[1 : len(state) - auxiliary], start=1):
            assert q is not None
            start[:, i] = self.started(v.initial, q)
        with PARALLEL:
            out, diverged = inputs.run(start, self.rows(inputs.parameters, K.size), self.depth, False, True)
        refuse_divergence(diverged, out[:, :, 0])
        return out.transpose(2, 1, 0)

    def alone(self, K: np.ndarray, Theta: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """K (and Theta) of inputs by themselves at the last layer, from those at layer 1 (Theta: K)."""
        names = ("K", "Theta") if self.theta else ("K",)
        found = self._run(names, {"K": K} | ({"Theta": K if Theta is None else Theta} if self.theta else {}))
        return {n: np.ascontiguousarray(getattr(found, n)[..., -1]) for n in names}

    def _run(self, quantities: tuple[str, ...], start: dict[str, np.ndarray]):
        given = {n: (float(v[0]) if (v == v[0]).all() else v) for n, v in self.given.items() if n != DEPTH}
        layers = any(isinstance(v, np.ndarray) for v in given.values())
        given = {n: v if not layers else np.broadcast_to(v, (self.depth,)) for n, v in given.items()}
        with PARALLEL:
            found = run(
                self.theory, **given, depth=self.depth, quantities=quantities, layerwise=layers, every_layer=False,
                start=start,
            )  # fmt: skip
        refuse_divergence(np.ravel(found.diverged_at), None)
        return found

    @property
    def error(self) -> float:
        """What one average misses in one layer, of the root mean squares of its factors."""
        if self.block is not None:
            return max([self.block.error, *self.block.inputs.errors])
        try:
            return max(lower(self.near or self.recursion).errors, default=0.0)
        except MeanFieldError as error:  # a distance that is derived only: `engine` follows the covariance then
            if self.near is None or "not compiled" not in str(error):
                raise
            return max(lower(self.recursion).errors, default=0.0)

    @cached_property
    def _plain(self) -> TheoryAtNumbers:
        """The same network with every weight trained at its own variance, as errors of K grow."""
        if not self.theory.rate_names:
            return self
        values = tuple((n, v) for n, v in self.values if n not in self.theory.rate_names)
        return replace(self, theory=replace(self.theory, rate_names=()), values=values)

    def growth(self, X: np.ndarray) -> float:
        """The largest Θ/K at the last layer, by which errors of single layers add up; a guess where Θ is infinite."""
        K = sample(X, *self.begin)
        try:
            found = self._plain._run(("K", "Theta"), {"K": K, "Theta": K})
        except MeanFieldError as error:
            if not any(known in str(error) for known in ("infinite", "close", "φ(0)")):  # `refuse_zero` names the input
                raise
            return JUMPS * self.depth
        with np.errstate(all="ignore"):
            return float(np.nanmax(found.Theta[..., -1] / found.K[..., -1], initial=1.0))

    def facing(self, K: np.ndarray) -> float:
        """The largest K/distance at layer 2 of opposite inputs, from K at layer 1: their distance does not say 1 + c,
        so that an almost even first map keeps as many digits fewer. ⟨f_a f_b⟩ of odd f has the sign of c: no inputs
        with c < 0 are closer."""
        K = np.unique(K)
        K = K[:: max(1, K.size // FACED)]
        values = tuple((n, v if np.ndim(v) == 0 else v[:2]) for n, v in self._plain.values)
        two = replace(self._plain, depth=2, values=values)
        found = two._run(("K_aa", "K_bb", "K_ab"), {"K_aa": K, "K_bb": K, "K_ab": -K})
        own = found.K_aa[..., -1]
        with np.errstate(all="ignore"):
            return float(np.nanmax(own / (2 * (own - found.K_ab[..., -1])), initial=0.25))

    def refuse_zero(self, K: np.ndarray) -> None:
        """A sentence where an input is 0 and φ jumps there. K: (layers, inputs) from layer 1 on."""
        zero = np.argwhere(K == 0)
        if not zero.size or self.theta or not jumps_at_zero(self.theory, self.given):
            return
        raise MeanFieldError(
            f"The kernel is not available: input {zero[0][1]} is 0 at layer {zero[0][0] + 1}, where φ jumps: φ(0) is "
            "no limit of averages at small K; leave that input out, or take sigma_b > 0."
        )

    def engine(self, KX, KY, distance, norm_angle, K_ab, Theta_ab=None) -> tuple[dict[str, np.ndarray], bool]:
        """Pairs by the two-input recursions of `propagate`, and whether their distance is a difference of covariances,
        because none of these recursions follows it."""
        parts, lost = [], False
        for at in range(0, KX.size, ENGINE):
            here = slice(at, at + ENGINE)
            norms = {"K_aa": KX[here], "K_bb": KY[here]}
            between = {"K_ab": K_ab[here]} | ({"Theta_ab": Theta_ab[here]} if self.theta else {})
            if self.near is not None:
                try:
                    start = norms | {"distance": distance[here], "norm_angle": norm_angle[here]} | between
                    found = self._run(("K_aa", "K_bb", "distance", *self.names), start)
                    parts.append({n: getattr(found, n)[..., -1] for n in ("distance", *self.names)})
                    continue
                except MeanFieldError as error:
                    if "not compiled" not in str(error):
                        raise
            found = self._run(("K_aa", "K_bb", *self.names), norms | between)
            one = {n: getattr(found, n)[..., -1] for n in self.names}
            one["distance"] = np.maximum(found.K_aa[..., -1] + found.K_bb[..., -1] - 2 * one["K_ab"], 0.0)
            parts.append(one)
            lost = True
        return {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}, lost
