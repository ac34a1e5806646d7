"""Shapes (tokens, neurons) as a carrier: whether signals fit, from the input of a block to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.network.operations.operation import Operation
from meanfield.empirical.network.operations.operation_walk import Passage, Site, Stack, placed, walk


class Shapes(Stack):
    """`before` is the shape that the last operation met; `longest`, `held`: the most neurons of a signal, and the most
    signals at once."""

    def __init__(self, here: tuple[int, int], layer: int) -> None:
        super().__init__(here)
        self.before, self.longest, self.held, self._layer = here, here[1], 1, layer

    @property
    def here(self) -> tuple[int, int]:
        return self._stack[-1]

    def save(self) -> None:
        self.before = self.here
        super().save()
        self.held = max(self.held, len(self._stack))

    def swap(self) -> None:
        self.before = self.here
        super().swap()

    def add(self, mu: float) -> None:
        self.before = self._stack.pop()
        if self.here != self.before:
            raise _misfit(self._layer, "A skip adds", self.here, self.before)

    def join(self, site: Site) -> None:
        met = self.operands(site)
        self.before = met[-1]
        self._stack.append(site.operation.joined_shape(met, site.layer, site.end))  # type: ignore[attr-defined]
        self.longest = max(self.longest, self.here[1])

    def apply(self, site: Site) -> None:
        self.before = self._stack.pop()
        self._stack.append(site.operation.shape(self.before, site.layer, site.end))  # type: ignore[attr-defined]
        self.longest = max(self.longest, self.here[1])


def check_shapes(done: tuple[Operation, ...], widths: Sequence[int], tokens: int) -> tuple[Operation, ...]:
    """Follow (tokens, neurons) through the block of every layer; raises `MeanFieldError` where they do not fit. The
    operations are returned without those that are the identity at every layer."""
    moved = set()
    for layer in range(2, len(widths) + 1):
        for place, (operation, here, end) in enumerate(shapes(done, widths, tokens, layer)):
            if operation.acts(here, end):
                moved.add(place)
    return tuple(one for place, one in enumerate(done) if place in moved or len(widths) < 2)


def shapes(
    done: Sequence[Operation], widths: Sequence[int], tokens: int, layer: int
) -> Iterator[tuple[Operation, tuple[int, int], tuple[int, int]]]:
    """(operation, (tokens, neurons) before it, those of the block's end) in the block that makes `layer`; raises as
    `check_shapes` does."""
    end = tokens, widths[layer - 1]
    carrier = Shapes((tokens, widths[layer - 2]), layer)
    for site in walk(placed(done, Passage(layer, end)), [carrier]):
        operation: Any = site.operation
        yield operation, carrier.before, end
    if carrier.here != end:
        raise _misfit(layer, "The block makes", carrier.here, end)


def _misfit(layer: int, what: str, found: tuple[int, int], wanted: tuple[int, int]) -> MeanFieldError:
    return MeanFieldError(
        f"{what} {found[0]} × {found[1]} (tokens × neurons) where {wanted[0]} × {wanted[1]} are wanted at layer "
        f"{layer}; change expand= of a Dense, or the shortcut of the Residual (Projection() fits any widths)."
    )
