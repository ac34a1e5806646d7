"""The networks of docs/coordinate_checks.md: six that are broken, each laid over the line of the right parametrization,
and right ones over their own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import meanfield as mf

WIDE: dict[str, Any] = {"widths": (64, 128, 256, 512), "depth": 4, "rate": 0.001}
DEEP: dict[str, Any] = {"widths": (64, 256), "depths": (4, 10, 18), "residual": True, "rate": 0.001}
NETWORKS = 8
NEURONS = 512  # where the line is that of broken networks, at which nobody looks closely


@dataclass(frozen=True, eq=False)
class Example:
    """right, broken: what is changed of a parametrization that has a name, scheme; first: (layer, column, n or L,
    power, factor) that the check names first, power 0 where it is a factor."""

    what: str
    first: tuple[int, str, str, float, float]
    broken: Mapping[str, Any]
    scheme: str = "mup"
    optimizer: str = "adam"
    right: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=lambda: WIDE)

    def scheme_of(self, changed: Mapping[str, Any]) -> Any:
        return mf.parametrization(self.scheme, optimizer=self.optimizer, base_width=64, **changed)

    @cached_property
    def line(self) -> Any:
        """What was meant."""
        return mf.coordinate_check("tanh", self.scheme_of(self.right), **self.settings)

    @cached_property
    def log(self) -> Any:
        """The broken networks, and the line of what they are."""
        return mf.coordinate_check(
            "tanh", self.scheme_of(self.broken), networks=NETWORKS, neurons=NEURONS, **self.settings
        )

    @cached_property
    def compared(self) -> Any:
        """The broken networks, as a reader has them (rows of numbers), over the line of what was meant."""
        return self.line.compare([row.data() for row in self.log])


EXAMPLES = (
    Example(
        "readout multiplier 1/sqrt(n), Adam", (4, "Df_readout", "n", 0.5, 2.83),
        {"readout": {"multiplier": "1/sqrt(n)"}},
    ),
    Example(
        "readout multiplier 1/sqrt(n), SGD", (4, "Df_readout", "n", 1.0, 8.0),
        {"readout": {"multiplier": "1/sqrt(n)"}}, optimizer="sgd", settings={**WIDE, "rate": 0.01},
    ),
    Example("hidden rate n^(-3/2)", (2, "own", "n", -0.5, 0.354), {"hidden": {"rate": "n**(-3/2)"}}),
    Example("hidden rate times 2", (2, "own", "n", 0.0, 2.0), {"hidden": {"rate": "2/n"}}),
    Example(
        "branch factor missing", (17, "total", "L", 0.7, 4.7), {"branch": "1"}, scheme="depth_mup", settings=DEEP,
    ),
    Example(
        "branches 1/sqrt(L), rate L^0", (17, "own", "L", 0.5, 4.0), {"hidden": {"rate": "1/n"}}, scheme="depth_mup",
        settings=DEEP,
    ),
    Example(
        "Adam's epsilon constant in n", (1, "own", "n", -0.2, 0.65), {}, right={"eps": "1/n"},
        settings={**WIDE, "eps": 0.003},
    ),
)  # fmt: skip
RIGHT = (
    Example("muP", (0, "", "n", 0.0, 1.0), {}),
    Example("muP, another gauge of the hidden matrices", (0, "", "n", 0.0, 1.0), {}, scheme="mean_field"),
    Example("muP, another gauge of the readout", (0, "", "n", 0.0, 1.0), {}, scheme="spectral"),
    Example("CompleteP", (0, "", "n", 0.0, 1.0), {}, scheme="completep", settings=DEEP),
    Example("depth-muP", (0, "", "n", 0.0, 1.0), {}, scheme="depth_mup", settings=DEEP),
)
