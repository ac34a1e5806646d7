"""Stages that divide a signal by its size, their gains and shifts, and those that make one neuron of several."""

from __future__ import annotations

import numpy as np

from meanfield.networks.pooling import POOLS
from meanfield.parametrizations.step.own_changes import MatrixStep, bias_change
from meanfield.parametrizations.step.training_stages import SMALL, Stage

FAINT = 1e-12  # of a gradient: an average of many signs


class NormStage(Stage):
    """A signal over its size, less its mean where `centred`: over neurons, of each input."""

    def __init__(self, centred: bool) -> None:
        self.centred = centred

    def _centred(self, x: np.ndarray) -> np.ndarray:
        return x - x.mean(axis=1, keepdims=True) if self.centred else x

    def forward(self, x: np.ndarray) -> np.ndarray:
        self.x = self._centred(x)
        self.size = np.sqrt(np.square(self.x).mean(axis=1, keepdims=True))
        return self.x / self.size

    def backward(self, v: np.ndarray) -> np.ndarray:
        out = v / self.size  # the averages of v and of v·y vanish, as the signs of v are drawn by the readout
        still = out == 0.0
        if not still.any():
            return out
        # at every width these averages are something, and what has no other gradient follows them: an optimizer that
        # divides by the size of a gradient moves it as far as the others
        along, mean = np.random.default_rng(out.shape).standard_normal((2, *out[:, :1].shape))
        rest = self.x / self.size * along + (mean if self.centred else 0.0)
        return np.where(still, FAINT * np.sqrt(np.square(out).mean()) * rest, out)

    def step(self, change: np.ndarray) -> np.ndarray:
        change = self._centred(change)
        more = (change * (2 * self.x + change)).mean(axis=1, keepdims=True)
        new = np.sqrt(self.size**2 + more)
        return change / new - self.x * (more / (self.size * new * (self.size + new)))


class BatchNormStage(Stage):
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


class GainStage(Stage):
    """γ y + β with γ = 1 and β = 0 before the step, both moved (β where `shifted`) as biases are."""

    def __init__(self, optimizer: str, one: MatrixStep, shifted: bool) -> None:
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


class PoolStage(Stage):
    """The largest, or the mean, of each group of neurons, which are drawn: neighbours among Sobol points are no
    independent neurons."""

    def __init__(self, size: int, kind: str) -> None:
        assert kind in POOLS
        self.size, self.largest = size, kind == "max"

    def _groups(self, x: np.ndarray) -> np.ndarray:
        count = x.shape[1] // (2 * self.size) * 2  # groups in both halves alike
        halves = x.reshape(x.shape[0], 2, x.shape[1] // 2, x.shape[2])
        halves = np.take_along_axis(halves, self._order(x)[..., : count // 2 * self.size, :], axis=2)
        return halves.reshape(x.shape[0], count, self.size, x.shape[2])

    def _order(self, x: np.ndarray) -> np.ndarray:
        """An order of the neurons of a half, one for each replicate: (replicates, 1, neurons, 1)."""
        rows = np.tile(np.arange(x.shape[1] // 2), (x.shape[0], 1))
        return np.random.default_rng(x.shape[:2]).permuted(rows, axis=1)[:, None, :, None]

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
        order = self._order(out.reshape(self.shape))[..., : made.shape[2], :]
        np.put_along_axis(out, order, made, axis=2)  # neurons that fill no group are left out
        return out.reshape(self.shape)

    def step(self, change: np.ndarray) -> np.ndarray:
        groups = self._groups(change)
        linear = (groups * self._shares()).sum(axis=2)
        small = np.abs(groups).max(axis=2) < SMALL
        return np.where(small, linear, self._made(self.x + groups) - self._made(self.x))
