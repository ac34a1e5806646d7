"""What an operation of a network is: a class that gives its own parameters, shape, signal and derivative. What goes
through a network asks the operation (`visit`) and knows no kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Carrier, Site

Shape = tuple[int, int]


@dataclass(frozen=True)
class Parameter:
    """What an operation holds: an array `name` of some shape. start: the number it starts from, None if its entries
    are drawn by `law`, from the stream `role` of the layer. trained: whether it is a parameter, or fixed. Used in
    docs/writing_a_layer.md."""

    name: str
    shape: tuple[int, ...]
    start: float | None = None
    law: str = "gaussian"
    role: int = 0
    trained: bool = True


class Operation:
    """One step of a block.

    docs/writing_a_layer.md writes one. A record of one's own becomes an operation by `operation(Record)`: a class
    derived from this one, whose `apply` returns the new signal and its `Derivative` (push and pull). One with
    parameters says which (`parameters`) and reads them with `site.value(name)`, which is None while they are what
    they start from. Second and third derivatives, for the differentials of the tangent kernel, are those of
    `formula`.
    """

    trains: tuple[str, ...] = ()  # the names of its trained parameters

    def visit(self, carrier: Carrier, site: Site) -> None:
        """Do to a carrier what the operation does: it acts by itself."""
        carrier.apply(site)

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative | None]:
        """The new signal (positions × neurons), and the derivative there (empty unless `site.differentiate`)."""
        raise NotImplementedError

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        """The new signal in the arithmetic of jets; values: its trained parameters, a vector as one row."""
        raise MeanFieldError(
            f"Differentials of the tangent kernel need second derivatives of {type(self).__name__}, which has no "
            "`formula`; give its class one."
        )

    def rated(self, here: Shape, site: Site) -> dict[str, tuple[np.ndarray, float]]:
        """The trained parameters that `formula` takes, where `here` comes in: values, and roots of learning rates."""
        found = {}
        for one in self.parameters(here, site.layer, site.end):
            if one.trained:
                value = site.value(one.name)
                found[one.name] = np.full(one.shape, one.start) if value is None else value, 1.0
        return found

    def shape(self, here: Shape, layer: int, end: Shape) -> Shape:
        """(tokens, neurons) after it, where `here` comes in, in the block that makes `layer`, which has `end`."""
        return here

    def parameters(self, here: Shape, layer: int, end: Shape) -> tuple[Parameter, ...]:
        """What it holds, where `here` comes in."""
        return ()

    def acts(self, here: Shape, end: Shape) -> bool:
        """Whether it is more than the identity there."""
        return True

    @property
    def mixes_tokens(self) -> bool:
        """Whether it makes the tokens of an input act on each other, and inputs not."""
        return False

    @property
    def couples(self) -> bool:
        """Whether it makes positions act on each other."""
        return self.mixes_tokens

    @property
    def jumps(self) -> str:
        """What of it jumps, "" if nothing does."""
        return ""

    @property
    def bends(self) -> str:
        """What of it has no second derivative as a function, "" if nothing lacks one."""
        return "" if type(self).formula is not Operation.formula else f"{type(self).__name__} without a formula"


class Join(Operation):
    """An operation that makes one signal of several: the last `count` of the stack, which come in its order."""

    count = 2

    def visit(self, carrier: Carrier, site: Site) -> None:
        carrier.join(site)

    def joined(self, signals: Sequence[np.ndarray], site: Site) -> tuple[np.ndarray, tuple[Derivative, ...]]:
        """The new signal, and the derivatives by each (none unless `site.differentiate`)."""
        raise NotImplementedError

    def joined_shape(self, shapes: Sequence[Shape], layer: int, end: Shape) -> Shape:
        """(tokens, neurons) of the new signal, where these come in."""
        return shapes[-1]

    def joined_formula(self, signals: Sequence[Jet], site: Site) -> Jet:
        """The new signal in the arithmetic of jets."""
        raise MeanFieldError(
            f"Differentials of the tangent kernel need second derivatives of {type(self).__name__}, which has no "
            "`joined_formula`; give its class one."
        )

    def bent(
        self, derivatives: Sequence[Derivative], tangents: Sequence[np.ndarray], cotangents: np.ndarray
    ) -> Sequence[np.ndarray]:
        """∂/∂y of Σ ū·(the derivative at y)(ẏ) for every signal y, with tangents ẏ of each and cotangents ū of the
        result, arrays (vectors, positions, neurons)."""
        raise MeanFieldError(
            f"The gradient of a Jacobian was asked for through {type(self).__name__}, which has no rule for the "
            "derivative of its push; take method='sweep'."
        )

    @property
    def bends(self) -> str:
        lacks = type(self).joined_formula is Join.joined_formula
        return f"{type(self).__name__} without a formula" if lacks else ""


OPERATIONS: dict[type, Callable[[Any], Operation]] = {}


def operation(record: type) -> Callable[[Callable[[Any], Operation]], Callable[[Any], Operation]]:
    """Decorator: what makes the operation of a record (a function or the class itself), from the record; as in
    docs/writing_a_layer.md."""

    def put(make: Callable[[Any], Operation]) -> Callable[[Any], Operation]:
        OPERATIONS[record] = make
        return make

    return put
