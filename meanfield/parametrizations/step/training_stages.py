"""One training step in layers of infinitely many neurons: a rule for each record, in the three passes of a step.

A stage is a record where it stands in a network. `forward` takes what neurons are before the step, `backward` the
cotangents v = ∂L/∂z, `step` how much what it is given has changed. Between stages go arrays (replicates, neurons,
inputs). A rule of one's own record is added by `stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meanfield.base.leading import Registry
from meanfield.numeric.quadrature.covariances.slopes import Slopes

SMALL = 1e-7  # changes below it are multiplied with the slope, as a difference would lose their digits


class Stage:
    """A record at its place in a network, as a training step goes through it; this base changes nothing.

    forward(x): what it makes of neurons x before the step; backward(v): the cotangents ∂L/∂x before it from those
    behind it; step(change): by how much its output changes with what it is given. Arrays are (replicates, neurons,
    inputs).

    >>> Stage().step(0.5)
    0.5
    """

    def forward(self, x: np.ndarray) -> np.ndarray:
        return x

    def backward(self, v: np.ndarray) -> np.ndarray:
        return v

    def step(self, change: np.ndarray) -> np.ndarray:
        return change


Rule = Callable[[Any, Any], Stage]  # of a record and the `Builder` at its place
STAGES: Registry[type, Rule] = Registry()


def stage(record: type) -> Callable[[Rule], Rule]:
    """Registers the rule of a record of one's own: what makes its `Stage`, from the record and its place.

    record: its class. The function that is decorated is given the record and a `Builder`: .case, .layer, .make(inner
    record), .number(a number of the record, what it is). docs/parametrizations.md writes one.

    >>> from dataclasses import dataclass
    >>> from meanfield.networks import Block
    >>> @dataclass(frozen=True)
    ... class Same(Block):
    ...     "The identity."
    >>> @stage(Same)
    ... def same(record, at):
    ...     return Stage()
    >>> len(coordinate_check(Sequential(Same(), Nonlinearity("tanh"), Dense()), "mup", widths=(64,), rate=0.1).rows)
    17
    """
    return STAGES.adds(record)


class ChainStage(Stage):
    """One stage after another."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = tuple(stages)

    def forward(self, x: np.ndarray) -> np.ndarray:
        for one in self.stages:
            x = one.forward(x)
        return x

    def backward(self, v: np.ndarray) -> np.ndarray:
        for one in reversed(self.stages):
            v = one.backward(v)
        return v

    def step(self, change: np.ndarray) -> np.ndarray:
        for one in self.stages:
            change = one.step(change)
        return change


class SkipStage(Stage):
    """branch + μ shortcut."""

    def __init__(self, shortcut: Stage, branch: Stage, mu: float) -> None:
        self.shortcut, self.branch, self.mu = shortcut, branch, mu

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.mu * self.shortcut.forward(x) + self.branch.forward(x)

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.shortcut.backward(self.mu * v) + self.branch.backward(v)

    def step(self, change: np.ndarray) -> np.ndarray:
        return self.mu * self.shortcut.step(change) + self.branch.step(change)


class ScaleStage(Stage):
    """A factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.factor * x

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.factor * v

    def step(self, change: np.ndarray) -> np.ndarray:
        return self.factor * change


class FunctionStage(Stage):
    """φ, neuron by neuron."""

    def __init__(self, phi: Slopes) -> None:
        self.phi = phi

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.before, self.slope = x, self.phi(1, x)
        self.after = self.phi(0, x)
        return self.after

    def backward(self, v: np.ndarray) -> np.ndarray:
        return v * self.slope

    def step(self, change: np.ndarray) -> np.ndarray:
        moved = self.phi(0, self.before + change) - self.after
        return np.where(np.abs(change) < SMALL, self.slope * change, moved)


class GateStage(Stage):
    """u ⊙ φ(v) of a gate: two ways from what it is given."""

    def __init__(self, value: Stage, gate: Stage) -> None:
        self.value, self.gate = value, gate

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.u, self.g = self.value.forward(x), self.gate.forward(x)
        return self.u * self.g

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.value.backward(v * self.g) + self.gate.backward(v * self.u)

    def step(self, change: np.ndarray) -> np.ndarray:
        u, g = self.value.step(change), self.gate.step(change)
        return u * (self.g + g) + self.u * g
