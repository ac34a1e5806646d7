"""The walk over a network's operations: the one place on the CPU where an operation is met.

A *carrier* is whatever is taken through the operations: signals (`signals`), their shapes (`shapes`), tangents, random
tangents of the parameters and the tangent kernel (`tangents_and_cotangents`), cotangents, which go backwards
(`cotangents`). An operation says to a carrier which of five things it does: remember the current signal, exchange it
with the one remembered, add the two, join several, or act by itself. So a new operation is a class, a new carrier is a
class, and neither changes this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.random.buffers import aligned
from meanfield.empirical.random.matrices import Matrix


class Weights(Protocol):
    """Where a network's parameters come from: drawn when they are used, revealed, shared or stored
    (`parameter_sources`)."""

    def deviations(self, dense: Any, layer: int) -> tuple[Any, Any]:
        """(σ_w, σ_b) of one Dense: numbers, or columns of one for every position."""

    def matrix(self, dense: Any, site: Site, shape: tuple[int, int]) -> Matrix:
        """w = σ_w n^{−1/2} W of a Dense, with its β = σ_b b; shape is (outputs, inputs)."""

    def back(self, dense: Any, site: Site, shape: tuple[int, int]) -> Matrix | None:
        """What cotangents meet in the place of that matrix, None for itself."""

    def whole(self, dense: Any, site: Site, shape: tuple[int, int]) -> tuple[np.ndarray, np.ndarray | None]:
        """w and β (None where σ_b = 0) as arrays."""

    def steps(self, dense: Any, layer: int) -> tuple[float, float]:
        """Square roots of the learning rates of an entry of √n w and of β."""

    def value(self, site: Site, name: str) -> np.ndarray | None:
        """The parameter `name` of an operation that is no Dense; None where it still is what it starts from."""


@dataclass(slots=True, eq=False)
class Passage:
    """One way through the block that makes `layer`, which ends with `end` = (tokens, neurons).

    weights: a `Weights`; inputs: how many, of some positions each. differentiate: whether derivatives are wanted;
    expected: how many products a matrix will be asked for, pulls: how many cotangents of every position will be taken
    back. new(*shape): an empty array for a signal.
    """

    layer: int
    end: tuple[int, int]
    weights: Any = None
    inputs: int = 1
    differentiate: bool = False
    expected: int = 1
    pulls: int = 0
    new: Callable[..., np.ndarray] = aligned


@dataclass(slots=True, eq=False)
class Site:
    """An operation where it is applied, number `place` of its block. derivative: filled in when values have gone
    through (None for an identity); where signals are joined, one by each of them, in the order of the stack."""

    operation: Visited
    place: int
    passage: Passage
    derivative: Derivative | tuple[Derivative, ...] | None = None

    @property
    def layer(self) -> int:
        return self.passage.layer

    @property
    def end(self) -> tuple[int, int]:
        return self.passage.end

    @property
    def weights(self) -> Any:
        return self.passage.weights

    @property
    def inputs(self) -> int:
        return self.passage.inputs

    @property
    def differentiate(self) -> bool:
        return self.passage.differentiate

    def new(self, *shape: int) -> np.ndarray:
        """An empty array for a signal, which may be used again when the block is passed."""
        return self.passage.new(*shape)

    def value(self, name: str) -> np.ndarray | None:
        """The operation's own parameter `name`, None where it still is what it starts from."""
        return self.passage.weights.value(self, name)


class Carrier(Protocol):
    """A stack whose last entry is the current one. A carrier that goes backwards has the transposes of all five."""

    def save(self) -> None:
        """Remember the current one."""

    def swap(self) -> None:
        """Exchange it with the last one remembered."""

    def add(self, mu: float) -> None:
        """Add μ times the last one remembered, which is then forgotten."""

    def join(self, site: Site) -> None:
        """Make one of the last few, as many as the operation says, which are then forgotten."""

    def apply(self, site: Site) -> None:
        """What the operation itself does."""


class Visited(Protocol):
    """An operation, as a walk sees it."""

    def visit(self, carrier: Carrier, site: Site) -> None: ...


def walk(sites: Iterable[Site], carriers: Sequence[Carrier]) -> Iterator[Site]:
    """Take all carriers through the operations, and yield each site when they have passed it. Values come first: the
    others find the derivative there. For carriers that go backwards the sites come in reversed order."""
    for site in sites:
        for carrier in carriers:
            site.operation.visit(carrier, site)
        yield site


def placed(operations: Sequence[Visited], passage: Passage) -> list[Site]:
    """The operations of a block, where they are applied."""
    return [Site(one, place, passage) for place, one in enumerate(operations)]


class Stack:
    """What the carriers that go forwards share."""

    def __init__(self, top: Any) -> None:
        self._stack = [top]

    def save(self) -> None:
        self._stack.append(self._stack[-1])

    def swap(self) -> None:
        self._stack[-2:] = self._stack[:-3:-1]

    def operands(self, site: Site) -> list[Any]:
        """What is joined there, off the stack, in its order."""
        count = site.operation.count  # type: ignore[attr-defined]
        joined = self._stack[-count:]
        del self._stack[-count:]
        return joined


class Linear(Stack):
    """A carrier of something on which derivatives act. products: how many it asks of a matrix on neurons."""

    products = 0

    def push(self, derivative: Derivative) -> None:
        raise NotImplementedError

    def add(self, mu: float) -> None:
        raise NotImplementedError

    def begin(self, layer: int) -> None:
        """The next operations belong to the block that makes `layer`."""

    def release(self) -> None:
        """Give scratch memory back."""

    def apply(self, site: Site) -> None:
        if site.derivative is not None:
            assert isinstance(site.derivative, Derivative)
            self.push(site.derivative)

    def join(self, site: Site) -> None:
        """The sum of what comes from each of the signals."""
        assert isinstance(site.derivative, tuple)
        *others, last = site.derivative
        self.push(last)
        for one in reversed(others):
            self.swap()
            self.push(one)
            self.add(1.0)
