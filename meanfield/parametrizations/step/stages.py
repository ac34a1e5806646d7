"""One training step in layers of infinitely many neurons: a rule for each record, in the three passes of a step.

A stage is a record where it stands in a network. `forward` takes what neurons are before the step, `backward` the
cotangents v = ∂L/∂z, `step` how much what it is given has changed. Between stages go arrays (replicates, neurons,
inputs). A rule of one's own record is added by `stage`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meanfield.networks.pooling import POOLS
from meanfield.numeric.quadrature.slopes import Slopes
from meanfield.parametrizations.step.own_changes import Matrix, bias_change, own_change
from meanfield.parametrizations.step.populations import Population, inverse, mean_product, root

SMALL = 1e-7  # changes below it are multiplied with the slope, as a difference would lose their digits


class Stage:
    """What a stage must have. The base changes nothing."""

    def forward(self, x: np.ndarray) -> np.ndarray:
        return x

    def backward(self, v: np.ndarray) -> np.ndarray:
        return v

    def step(self, change: np.ndarray) -> np.ndarray:
        return change


Rule = Callable[[Any, Any], Stage]  # of a record and the `Builder` at its place
STAGES: dict[type, Rule] = {}


def stage(record: type) -> Callable[[Rule], Rule]:
    """Registers the rule of a record: what makes its `Stage`, from the record and the `Builder` at its place."""

    def add(made: Rule) -> Rule:
        STAGES[record] = made
        return made

    return add


class Chain(Stage):
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


class Skip(Stage):
    """branch + μ shortcut."""

    def __init__(self, shortcut: Stage, branch: Stage, mu: float) -> None:
        self.shortcut, self.branch, self.mu = shortcut, branch, mu

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.mu * self.shortcut.forward(x) + self.branch.forward(x)

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.shortcut.backward(self.mu * v) + self.branch.backward(v)

    def step(self, change: np.ndarray) -> np.ndarray:
        return self.mu * self.shortcut.step(change) + self.branch.step(change)


class Times(Stage):
    """A factor."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def forward(self, x: np.ndarray) -> np.ndarray:
        return self.factor * x

    def backward(self, v: np.ndarray) -> np.ndarray:
        return self.factor * v

    def step(self, change: np.ndarray) -> np.ndarray:
        return self.factor * change


class Function(Stage):
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


class Product(Stage):
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


class Normalized(Stage):
    """A signal over its size, less its mean where `centred`: over neurons, of each input."""

    def __init__(self, centred: bool) -> None:
        self.centred = centred

    def _less(self, x: np.ndarray) -> np.ndarray:
        return x - x.mean(axis=1, keepdims=True) if self.centred else x

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = self._less(x)
        self.size = np.sqrt(np.square(self.x).mean(axis=1, keepdims=True))
        return self.x / self.size

    def backward(self, v: np.ndarray) -> np.ndarray:
        return v / self.size  # the averages of v and of v·y vanish, as the signs of v are drawn by the readout

    def step(self, change: np.ndarray) -> np.ndarray:
        change = self._less(change)
        more = (change * (2 * self.x + change)).mean(axis=1, keepdims=True)
        new = np.sqrt(self.size**2 + more)
        return change / new - self.x * (more / (self.size * new * (self.size + new)))


class NormalizedBatch(Stage):
    """A signal less its mean over the inputs, over its deviation there, for each neuron."""

    @staticmethod
    def _made(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        x = x - x.mean(axis=2, keepdims=True)
        size = np.sqrt(np.square(x).mean(axis=2, keepdims=True))
        return x / size, size

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = x
        self.y, self.size = self._made(x)
        return self.y

    def backward(self, v: np.ndarray) -> np.ndarray:
        along = (v * self.y).mean(axis=2, keepdims=True)
        return (v - v.mean(axis=2, keepdims=True) - self.y * along) / self.size

    def step(self, change: np.ndarray) -> np.ndarray:
        linear = (change - change.mean(axis=2, keepdims=True)) / self.size
        linear = linear - self.y * (linear * self.y).mean(axis=2, keepdims=True)
        return np.where(np.abs(linear) < SMALL, linear, self._made(self.x + change)[0] - self.y)


class Gains(Stage):
    """γ y + β with γ = 1 and β = 0 before the step, both moved (β where `shifted`) as biases are."""

    def __init__(self, optimizer: str, one: Matrix, shifted: bool) -> None:
        self.optimizer, self.one, self.shifted = optimizer, one, shifted

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.y = x
        return x

    def backward(self, v: np.ndarray) -> np.ndarray:
        self.v = v
        return v

    def step(self, change: np.ndarray) -> np.ndarray:
        gain = bias_change(self.optimizer, self.one, self.v * self.y)
        moved = change + gain * (self.y + change)
        return moved + bias_change(self.optimizer, self.one, self.v) if self.shifted else moved


class Pooled(Stage):
    """The largest, or the mean, of each group of neurons."""

    def __init__(self, size: int, kind: str) -> None:
        assert kind in POOLS
        self.size, self.largest = size, kind == "max"

    def _groups(self, x: np.ndarray) -> np.ndarray:
        count = x.shape[1] // (2 * self.size) * 2  # groups in both halves alike
        halves = x.reshape(x.shape[0], 2, x.shape[1] // 2, x.shape[2])[:, :, : count // 2 * self.size]
        return halves.reshape(x.shape[0], count, self.size, x.shape[2])

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.shape, self.x = x.shape, self._groups(x)
        return self._made(self.x)

    def _made(self, groups: np.ndarray) -> np.ndarray:
        return groups.max(axis=2) if self.largest else groups.mean(axis=2)

    def _shares(self) -> np.ndarray:
        if not self.largest:
            return np.full(self.x.shape, 1.0 / self.size)
        return (self.x == self.x.max(axis=2, keepdims=True)).astype(float)

    def backward(self, v: np.ndarray) -> np.ndarray:
        made = (v[:, :, None, :] * self._shares()).reshape(self.shape[0], 2, -1, self.shape[2])
        out = np.zeros((self.shape[0], 2, self.shape[1] // 2, self.shape[2]))
        out[:, :, : made.shape[2]] = made  # neurons that fill no group are left out
        return out.reshape(self.shape)

    def step(self, change: np.ndarray) -> np.ndarray:
        groups = self._groups(change)
        linear = (groups * self._shares()).sum(axis=2)
        small = np.abs(groups).max(axis=2) < SMALL
        return np.where(small, linear, self._made(self.x + groups) - self._made(self.x))


class Affine(Stage):
    """A Dense. After `step`, `z2`, `own2` and `total2` hold the mean squares of z, of what its own parameters changed,
    and of all that changed, `gain` what its own step takes from the loss in first order, one for each replicate.

    deviation_w, deviation_b: of m W √fan-in and of the bias as it is added; weights, bias: as the optimizer moves them
    (bias None: it stays). first: whether it is given the inputs of the network, which do not change; last: whether it
    makes the output, one number.
    """

    def __init__(
        self, among: Population, optimizers: tuple[str, str], weights: Matrix, bias: Matrix | None,
        deviation_w: float, deviation_b: float, first: bool, last: bool,
    ) -> None:  # fmt: skip
        self.among, self.optimizers, self.weights, self.bias = among, optimizers, weights, bias
        self.deviation_w, self.deviation_b, self.first, self.last = deviation_w, deviation_b, first, last

    def forward(self, a: np.ndarray) -> np.ndarray:
        self.a, inputs = a, a.shape[2]
        self.second = np.broadcast_to(mean_product(a, a), (self.among.replicates, inputs, inputs))
        kept, turned = self.among.normals(inputs + 1, 2 * inputs)
        self.q_normals, self.xi_normals = turned[..., :inputs], turned[..., inputs:]
        self.product = self.deviation_w * (kept[..., :inputs] @ root(self.second))
        z = self.product + self.deviation_b * kept[..., inputs:]
        self.z2 = np.square(z).mean(axis=(1, 2))
        return z

    def backward(self, v: np.ndarray) -> np.ndarray:
        self.v = v
        self.outer = self.weights.fan_out * mean_product(v, v)
        if self.first:
            return v
        normals = self.among.sample(self.q_normals, self.a.shape[1])
        self.q = self.deviation_w / np.sqrt(self.weights.fan_in) * (normals @ root(self.outer))
        return self.q

    def step(self, change: np.ndarray) -> np.ndarray:
        own = own_change(self.optimizers[0], self.weights, self.v, self.a, self.a + change, self.among)
        if self.bias is not None:
            own = own + bias_change(self.optimizers[1], self.bias, self.v)
        self.own2 = np.square(own).mean(axis=(1, 2))
        self.gain = -self.weights.fan_out * (self.v * own).sum(axis=2).mean(axis=1)
        self.inherited = self._inherited(change)
        total = own + self.inherited
        self.total2 = np.square(total).mean(axis=(1, 2))
        self.own, self.total = own, total
        return total

    def _inherited(self, change: np.ndarray) -> np.ndarray:
        """m W Δa given m W a and m Wᵀ v: along v, along m W a, and what is new."""
        if self.first:
            return np.zeros(self.v.shape)
        along = self.v @ (inverse(self.outer) @ (self.weights.fan_in * mean_product(self.q, change)))
        if self.last:
            return along
        crossed = mean_product(self.a, change)
        kept = inverse(self.second) @ crossed
        rest = mean_product(change, change) - crossed.transpose(0, 2, 1) @ kept
        return along + self.product @ kept + self.deviation_w * (self.xi_normals @ root(rest))
