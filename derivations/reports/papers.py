"""The papers that have reports: their titles, claims, numbers, figures and coverage, each found in its package."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from derivations.checks import Check
from derivations.claims import Claim
from derivations.coverage import Coverage
from derivations.drawing import Drawn
from meanfield.base.words import unknown


@dataclass(frozen=True)
class Paper:
    """A paper's package in `derivations`, how it is cited, the seeds of its figures' networks, and who draws them."""

    name: str
    title: str
    authors: str
    seeds: str = "0"
    drawing: str = "figures"

    def module(self, name: str = "") -> Any:
        return import_module(f"derivations.{self.name}" + (f".{name}" if name else ""))

    @property
    def claims(self) -> Sequence[Claim]:
        return self.module().CLAIMS

    @property
    def to_digits(self) -> Collection[str]:
        return self.module().TO_DIGITS

    @property
    def checks(self) -> Sequence[Check]:
        return self.module("acceptance").CHECKS

    def drawn(self, paper: bool) -> Drawn:
        return self.module(self.drawing).drawn(paper)

    @property
    def coverage(self) -> Coverage:
        """What became of everything that is numbered in the paper."""
        return Coverage.of(self.name)


PAPERS = (
    Paper(
        "partial_jacobians", "Critical Initialization of Wide and Deep Neural Networks through Partial Jacobians",
        "D. Doshi, T. He, A. Gromov", "0, 1 (half the width)",
    ),
    Paper(
        "autoinit", "AutoInit: Automatic Initialization via Jacobian Tuning", "T. He, D. Doshi, A. Gromov",
        "width + batch (figure 2), 5 + width (figure 3)",
    ),
    Paper(
        "variance_variation",
        "Deep Mean Field Theory: Layerwise Variance and Width Variation as Methods to Control Gradient Explosion", "",
        "0, 1 (half the width)",
    ),
    Paper(
        "bias_and_trainability",
        "When Bias Meets Trainability: Connecting Theories of Initialization",
        "A. Bassi, M. Baity-Jesi, A. Lucchi, C. Albert, E. Francazi", "42",
    ),
    Paper(
        "orthogonal_weights",
        "Feature Learning and Generalization in Deep Networks with Orthogonal Weights",
        "H. Day, Y. Kahn, D. Roberts", "5 + width", "drawing",
    ),
)  # fmt: skip


def chosen(names: Sequence[str]) -> tuple[Paper, ...]:
    """The papers of these names, in the order of `PAPERS`; all of them where none is named.

    Raises: MeanFieldError for a name that is none.
    """
    known = {paper.name: paper for paper in PAPERS}
    for name in names:
        if name not in known:
            raise unknown("paper", name, list(known))
    return tuple(paper for paper in PAPERS if paper.name in names or not names)
