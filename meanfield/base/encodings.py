"""How a state variable is held from layer to layer: as it is, or as its logarithm.

An encoding is asked by everything that holds the variable: recursions for its key, generated loops for the text of one
layer, `propagate` for the first layer. A new one needs no change there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Encoding:
    """A variable held as it is."""

    name: str = "linear"
    relative = False  # whether `update` takes (next value)/(present value), which must not depend on the variable

    def key(self, variable: str) -> str:
        """The variable's name in runs and in JSON, as it is held."""
        return variable

    def update(self, here: str, value: str) -> str:
        """Source of the held value of the next layer, from the next value (or its ratio, see `relative`)."""
        return value

    def ahead(self, here: str, there: str, layers: str) -> str | None:
        """Source of the held value after `layers` more layers that repeat the last one (`here` to `there`), or None
        where only the layers themselves give it."""
        return None

    def held(self, values: Any) -> Any:
        """An array of values as it is held."""
        return values

    def value(self, held: Any) -> Any:
        """The values of an array as it is held."""
        return held

    def allows(self, held: Any) -> Any:
        """Whether a run may start from these, element by element."""
        import numpy as np

        return np.isfinite(held)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Logarithm(Encoding):
    """A variable whose next value is proportional to it, held as its logarithm: J overflows no double at any depth."""

    name: str = "log"
    relative = True

    def key(self, variable: str) -> str:
        return f"log_{variable}"

    def update(self, here: str, value: str) -> str:
        return f"{here} + math.log({value}) if {here} > -math.inf else {here}"  # 0 stays 0, whatever multiplies it

    def ahead(self, here: str, there: str, layers: str) -> str | None:
        return f"{there} + {layers} * ({there} - {here})"

    def held(self, values: Any) -> Any:
        import numpy as np

        with np.errstate(divide="ignore"):  # log 0 = -∞: with σ_w = 0, J0 is exactly 0
            return np.log(values)

    def value(self, held: Any) -> Any:
        import numpy as np

        with np.errstate(over="ignore", under="ignore"):
            return np.exp(held)

    def allows(self, held: Any) -> Any:
        import numpy as np

        return np.isfinite(held) | np.isneginf(held)


@dataclass(frozen=True)
class Bounded(Encoding):
    """An angle between what two inputs differ by: 0 where they no longer differ, and it would be that of 0/0."""

    name: str = "bounded"

    def update(self, here: str, value: str) -> str:
        return f"_defined({value})"


PLAIN, LOGARITHM, BOUNDED = Encoding(), Logarithm(), Bounded()
ENCODINGS = {encoding.name: encoding for encoding in (PLAIN, LOGARITHM, BOUNDED)}
