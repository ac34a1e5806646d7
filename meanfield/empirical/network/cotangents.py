"""Cotangents as a carrier: they go backwards, so each of the five things is the transpose of what it is forwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Site, Stack
from meanfield.empirical.random.buffers import aligned


class Cotangents(Stack):
    """Vectors taken back: (number of vectors, positions, neurons). `met` are those of the result of the last operation
    that was passed: its gradients are taken with them."""

    def __init__(self, rows: np.ndarray, new: Callable[..., np.ndarray] = aligned) -> None:
        """new(*shape): an empty array."""
        super().__init__(rows)
        self.met, self._new = rows, new

    @property
    def rows(self) -> np.ndarray:
        return self._stack[-1]

    def save(self) -> None:
        """What was remembered was used twice."""
        self._stack.append(self._stack.pop() + self._stack.pop())

    def add(self, mu: float) -> None:
        self._stack.insert(-1, mu * self._stack[-1])

    def join(self, site: Site) -> None:
        assert isinstance(site.derivative, tuple)
        rows = self._stack.pop()
        self._stack += [self._pulled(one, rows) for one in site.derivative]

    def apply(self, site: Site) -> None:
        self.met = self._stack[-1]
        if site.derivative is not None:
            assert isinstance(site.derivative, Derivative)
            self._stack[-1] = self._pulled(site.derivative, self.met)
            site.derivative.release()

    def _pulled(self, derivative: Derivative, rows: np.ndarray) -> np.ndarray:
        out = self._new(len(rows), *derivative.before)
        derivative.pull(np.ascontiguousarray(rows), out)
        return out
