"""Networks whose blocks shrink as 1/√L: at L → ∞ the state is a function of t = l/L, which a differential equation has.

Every block then changes the state by a multiple of 1/L, so that K, c and log J at the layer tL converge. Their limits
are found from networks of L, 2L, 4L, … blocks by Richardson's extrapolation in 1/L; the equations, from the derivative
of a block by 1/L. Source: derived here; [2206.03126] has the 1/√L.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import sympy as sp

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.drawing import plot_flow
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.answers.named import Formulas
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import whole
from meanfield.base.symbols import L
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.verbs.propagating import run as run_of

if TYPE_CHECKING:
    from meanfield.numeric.run.depth_iteration import Run

SHALLOWEST, DEEPEST = 16, 2048  # blocks of the networks of the extrapolation
FEWEST = 4  # networks of it
ENOUGH = 1e-11  # the relative error at which no deeper network is asked
MOST = 1024  # places
SHOWN = 8  # points that are printed
WORST = 1e-4  # the largest relative error that counts as a limit


@dataclass(frozen=True)
class Flow(Numbers):
    """The state of infinitely many blocks, each of which changes it by a multiple of 1/L, as a function of t = l/L.

    t: places from 0 to 1. values: name → array over the points asked for, then t; J by its logarithm, "log_J". errors:
    the same, absolute, estimated from the last steps of the extrapolation. equations: name → d/dt of what is followed.

    >>> from meanfield.networks import Dense, Nonlinearity, Residual, Schedule, Sequential
    >>> branch = Sequential((Nonlinearity("relu"), Dense(sigma_w=Schedule("sigma_w", 0, total=1), sigma_b=0)))
    >>> found = derive(architecture=Residual(branch)).flow(quantities=("K", "J"), sigma_w=2, sigma_b=0, points=2)
    >>> print(found.equations["K"].doit())
    K*sigma_w**2/2
    >>> found.K.round(9).tolist()  # of K¹ = 4: 4, 4e, 4e²
    [4.0, 10.873127314, 29.556224396]
    """

    t: np.ndarray
    values: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]
    equations: Formulas

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names that are held."""
        return tuple(self.values)

    def __getattr__(self, name: str) -> Any:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        if not values:  # a copy in the making
            raise AttributeError(name)
        raise self._absent(name, values)

    def data(self) -> dict[str, Any]:
        """The equations, and the numbers by t."""
        numbers = {n: plain(v) for n, v in (("t", self.t), *self.values.items())}
        return {"equations": {n: str(e) for n, e in self.equations.items()}, **numbers}

    def arrays(self) -> Arrays:
        """Every quantity over the points and t."""
        axes = tuple(f"point_{i}" for i in range(np.ndim(next(iter(self.values.values()))) - 1))
        return Arrays({"t": (("t",), self.t)}, {n: ((*axes, "t"), v) for n, v in self.values.items()}, {})

    def plot(self, quantities: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Quantities against t, all of them unless named; returns the Axes, an array of several."""
        return plot_flow(self, quantities, ax)

    def __repr__(self) -> str:
        return one_line("Flow", f"{', '.join(self.values)}; t from 0 to 1 in {len(self.t) - 1} steps")

    def __str__(self) -> str:
        ends = {n: ", ".join(f"{x:.6g}" for x in np.ravel(v[..., -1])[:SHOWN]) for n, v in self.values.items()}
        lines = [f"d{n}/dt = {e}" for n, e in self.equations.items()]
        return wrapped("\n".join([*lines, "at t = 1:", *(f"  {n} = {end}" for n, end in ends.items())]))


def equations(recursion: Recursion) -> Formulas:
    """d/dt of the state: the derivative of a block by 1/L, at L → ∞.

    Raises: MeanFieldError where a block changes the state by more than a multiple of 1/L.
    """
    small = sp.Dummy("small", positive=True)
    step = recursion.block.map(lambda e: sp.sympify(e).subs(L, 1 / small))
    at_rest = step.map(lambda e: e.subs(small, 0)).whole()
    found = Formulas()
    for i, v in enumerate(recursion.state):
        start = step.next[i].subs(small, 0).xreplace(at_rest)
        if sp.simplify(closed(start - v.symbol)) != 0:
            raise MeanFieldError(
                f"There is no flow in l/L: with infinitely many blocks each one still changes {v.name}; give what ends "
                "the branches total=1 (a Schedule(sigma, 0, total=1)), and skips of strength 1."
            )
        found[v.name] = step.derivative(i, small).subs(small, 0).xreplace(at_rest)
    return found


def flow(theory: Maps, *, points: int, quantities: Any, settings: dict[str, Any]) -> Flow:
    """`Theory.flow`."""
    if "depth" in settings:
        raise MeanFieldError("A flow is of infinitely many blocks, and has no depth; leave it out, or ask propagate.")
    points = whole(points, "points", 1, MOST)
    held: list[dict[str, np.ndarray]] = []
    rates: Formulas | None = None
    coarsest = math.ceil(SHALLOWEST / points)  # blocks between two places
    values: dict[str, np.ndarray] = {}
    errors: dict[str, np.ndarray] = {}
    while True:
        between = coarsest * 2 ** len(held)
        run = run_of(theory, depth=points * between + 1, quantities=quantities, **settings)
        rates = rates or _required(run.lowered.recursion)
        held.append({n: v[..., ::between] for n, v in _columns(run).items()})
        if len(held) < FEWEST:
            continue
        for name in held[0]:
            values[name], errors[name] = _limit([one[name] for one in held])
        off = {n: float(np.max(errors[n] / _size(n, values[n]))) for n in values}
        if max(off.values()) <= ENOUGH:
            break
        if points * between >= DEEPEST:
            worst = max(off, key=lambda n: off[n] if off[n] >= 0 else math.inf)
            if not off[worst] <= WORST:
                raise MeanFieldError(
                    f"{worst} does not converge as the number of blocks grows, or not as 1/L; look at it with "
                    "propagate at depths of your own."
                )
            break
    return Flow(np.linspace(0, 1, points + 1), values, errors, rates)


def _size(name: str, values: np.ndarray) -> np.ndarray:
    """What errors of a quantity are compared with: its size, at least that of its start, or 1 of a logarithm."""
    return np.maximum(np.abs(values), np.maximum(1.0 if name.startswith("log_") else np.abs(values[..., :1]), 1e-300))


def _required(recursion: Recursion) -> Formulas:
    """The equations, or a sentence that says why there are none."""
    if not recursion.knows_depth:
        raise MeanFieldError(
            "There is no flow in l/L: no deviation falls with the number of blocks; give what ends the branches "
            "total=1 (in a preset), or Schedule(sigma, 0, total=1)."
        )
    if recursion.knows_layer:
        raise MeanFieldError(
            "A flow in l/L is of blocks that are all alike, but here deviations change from block to block; follow it "
            "with propagate."
        )
    return equations(recursion)


def _columns(run: Run) -> dict[str, np.ndarray]:
    """What a run holds, J by its logarithm."""
    logs = {"J": "log_J", "J0": "log_J0"}
    return {logs.get(n, n): run.values[logs[n]] if n in logs else getattr(run, n) for n in run.quantities}


def _limit(found: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The limit of values whose error is a power series in 1/L, L doubling from one to the next; and its error, from
    what the last network changed, and rounding."""
    rows = [found]
    for order in range(1, len(found)):
        last = rows[-1]
        with np.errstate(invalid="ignore"):  # of values that overflow
            rows.append([b + (b - a) / (2**order - 1) for a, b in itertools.pairwise(last)])
    end, before = rows[-1][-1], rows[-2]
    with np.errstate(invalid="ignore"):
        return end, np.abs(end - before[-1]) + np.abs(before[-1] - before[-2]) / 2 ** len(found) + 1e-13 * np.abs(end)
