"""Signals as a carrier: an operation makes the new signal, and leaves its derivative at the site."""

from __future__ import annotations

import math

import numpy as np

from meanfield.empirical.network.operations.forward import mark_rows
from meanfield.empirical.network.operations.operation_walk import Site, Stack
from meanfield.empirical.random.buffers import Buffers, aligned


class SignalValues(Stack):
    """A signal (positions × neurons). A position that met a number that is not finite inside a block is NaN at its end:
    max(NaN, 0) and erf(∞) are finite, but an overflow stays one."""

    def __init__(self, z: np.ndarray, inputs: int, buffers: Buffers | None = None) -> None:
        """buffers: where a block's signals come from and go back to at its end (None: they may be kept)."""
        super().__init__(z)
        self._lost, self._inputs = np.zeros(len(z), dtype=bool), inputs
        self._buffers, self._taken = buffers, list[np.ndarray]()

    def new(self, *shape: int) -> np.ndarray:
        """An empty array for a signal."""
        if self._buffers is None:
            return aligned(*shape)
        self._taken.append(self._buffers.take(*shape))
        return self._taken[-1]

    @property
    def z(self) -> np.ndarray:
        return self._stack[-1]

    def _put(self, z: np.ndarray) -> None:
        self._stack.append(z)
        if len(z) != len(self._lost):  # a Dense on tokens makes more of them, or fewer
            of_input = self._lost.reshape(self._inputs, -1).any(axis=1)
            self._lost = np.repeat(of_input, len(z) // self._inputs)
        mark_rows(z, self._lost)

    def add(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        new = np.multiply(below, mu, out=self.new(*top.shape))
        new += top
        self._put(new)

    def join(self, site: Site) -> None:
        z, site.derivative = site.operation.joined(self.operands(site), site)  # type: ignore[attr-defined]
        self._put(z)

    def apply(self, site: Site) -> None:
        z, site.derivative = site.operation.apply(self._stack.pop(), site)  # type: ignore[attr-defined]
        self._put(z)

    def finish(self) -> np.ndarray:
        """The signal at the end of a block."""
        z = np.where(self._lost[:, None], math.nan, self.z) if self._lost.any() else self.z
        for array in self._taken:
            if self._buffers is not None and array.base is not z.base and array.base is not self.z.base:
                self._buffers.give(array)
        self._taken = []
        self._stack, self._lost = [z], np.zeros(len(z), dtype=bool)
        return z
