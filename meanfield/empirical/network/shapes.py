"""Whether the shapes of signals fit, from the input of a block to its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from meanfield.empirical.network.operations import AddSaved, MultiplySaved, Operation, Project, Save, Swap
from meanfield.results import MeanFieldError


def check_shapes(done: tuple[Operation, ...], widths: Sequence[int], tokens: int) -> tuple[Operation, ...]:
    """Follow (tokens, neurons) through the block of every layer; raises `MeanFieldError` where they do not fit. The
    operations are returned without a `Project` that is the identity at every layer."""
    moved = set()
    for layer in range(2, len(widths) + 1):
        for operation, here in shapes(done, widths, tokens, layer):
            if isinstance(operation, Project) and here[1] != widths[layer - 1]:
                moved.add(operation)
    return tuple(one for one in done if not isinstance(one, Project) or one in moved)


def shapes(
    done: tuple[Operation, ...], widths: Sequence[int], tokens: int, layer: int
) -> Iterator[tuple[Operation, tuple[int, int]]]:
    """(operation, (tokens, neurons) before it) in the block that makes `layer`; raises as `check_shapes` does."""
    here, end = (tokens, widths[layer - 2]), (tokens, widths[layer - 1])
    saved = []
    for operation in done:
        yield operation, here
        match operation:
            case Save():
                saved.append(here)
            case Swap():
                here, saved[-1] = saved[-1], here
            case AddSaved() | MultiplySaved():
                if saved[-1] != here:
                    raise MeanFieldError(_misfit(layer, "A skip adds", saved[-1], here))
                saved.pop()
            case _:
                here = operation.shape(here, layer, end)
    if here != end:
        raise MeanFieldError(_misfit(layer, "The block makes", here, end))


def _misfit(layer: int, what: str, found: tuple[int, int], wanted: tuple[int, int]) -> str:
    return (
        f"{what} {found[0]} × {found[1]} (tokens × neurons) where {wanted[0]} × {wanted[1]} are wanted at layer "
        f"{layer}; change expand= of a Dense, or the shortcut of the Residual (Projection() fits any widths)."
    )
