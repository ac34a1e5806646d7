"""Scratch memory of one thread."""

from __future__ import annotations

import math

import numpy as np


def aligned(*shape: int) -> np.ndarray:
    """An empty array that starts on a cache line, so that no BLAS peels off a different head in another run."""
    raw = np.empty(math.prod(shape) + 8)
    skip = (-raw.ctypes.data // 8) % 8
    return raw[skip : skip + math.prod(shape)].reshape(shape)


class Buffers:
    """Recycled scratch matrices of one thread: fresh pages for every N × N product would cost as much as the draw."""

    def __init__(self) -> None:
        self._free: dict[tuple[int, ...], list[np.ndarray]] = {}

    def take(self, *shape: int) -> np.ndarray:
        free = self._free.get(shape)
        return free.pop() if free else aligned(*shape)

    def give(self, array: np.ndarray) -> None:
        self._free.setdefault(array.shape, []).append(array)
