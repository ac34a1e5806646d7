"""`BiasDiagram`: where the correlation of two inputs, the guessing bias γ and the gradients of an untrained network
end, over a grid of (σ_w, σ_b); to a picture or a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import one_line
from meanfield.bias.guessing import BiasPhase, phase_of
from meanfield.numeric.phases.correlation_grids import EXACTLY, CorrelationCells, Plain, Stepwise, ends
from meanfield.presentation.phase_diagram import PLANE, PhaseDiagram, plane, plane_data
from meanfield.symbolic.criticality.critical_lines import CriticalLine
from meanfield.symbolic.criticality.critical_points import CriticalPoints

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from meanfield.numeric.phases.neutrality import CorrelationLine

BIAS_PHASES = tuple(p.value for p in BiasPhase)
BALANCED = 1e-12  # |c* - 1/2| below this, or below its error, is balance


@dataclass(frozen=True, eq=False)
class BiasDiagram(Result):
    """Where two orthogonal inputs of one norm end in the limit of large depth; every array has shape (len(sigma_b),
    len(sigma_w)).

    sigma_w, sigma_b: the axes. K, chi_J, attractors: as in `PhaseDiagram` (chi_J = ∞ where φ jumps). gap: 1 - c*, with
    all its digits; c: the correlation c*, gamma: γ* = c*/(1 - c*); slope: C′(c*), the factor by which a small deviation
    of c shrinks in one layer; error: absolute error of c* at the K of the diagram (0 where c* is exact): the measured
    error of the averages over 1 - C′(c*). phase: index into `phases`, the names of `BiasPhase`. line, points: critical
    line and points of χ_J*; neutrality: the line c* = 1/2; None where they are not derived, or with line=False.

    c, gamma, gap, slope and error are NaN where nothing is known: the phase is "unknown" there. "By the start" means
    that the first layers decide γ; c and gamma are then those of orthogonal inputs, 0, where every φ is odd, else NaN.

    Accuracy: float64; `error` for c*. γ* = 1 within 1e-12 is "balance", χ_J* = 1 within 1e-10 critical.

    >>> found = derive("erf").phase_diagram(sigma_w=[1, 3], sigma_b=[0.3], quantity="gamma")
    >>> found.gamma.round(4)
    array([[   inf, 0.0583]])
    """

    title: str
    sigma_w: np.ndarray
    sigma_b: np.ndarray
    input_norm: float
    K: np.ndarray
    chi_J: np.ndarray
    attractors: np.ndarray
    gap: np.ndarray
    slope: np.ndarray
    error: np.ndarray
    phase: np.ndarray
    line: CriticalLine | None
    points: CriticalPoints | None
    neutrality: CorrelationLine | None
    parameters: dict[str, float]

    @property
    def phases(self) -> tuple[str, ...]:
        """The names that `phase` counts."""
        return BIAS_PHASES

    @cached_property
    def c(self) -> np.ndarray:
        return 1 - self.gap

    @cached_property
    def gamma(self) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return (1 - self.gap) / self.gap

    @property
    def xi_c(self) -> np.ndarray:
        """The depth over which correlations relax, 1/|log C′(c*)| layers (∞ at slope 1)."""
        with np.errstate(divide="ignore"):
            return 1 / np.abs(np.log(self.slope))

    @property
    def bistable(self) -> np.ndarray:
        """Where more than one state of K attracts, so that the phase depends on the norm of the input."""
        return self.attractors > 1

    def plot(self, ax: Axes | None = None, *, squared: bool = True) -> Axes:
        """The diagram: phases as colours, the lines χ_J* = 1 and c* = 1/2.

        squared: σ_b² to the right and σ_w² upwards, as [bias_and_trainability] figure 3; False: σ_w and σ_b, as
        `PhaseDiagram.plot`.
        """
        from meanfield.presentation import bias_figures

        return bias_figures.plot_bias_diagram(self, ax, squared=squared)

    def arrays(self) -> Arrays:
        """Every array over σ_b and σ_w, the phase by its name."""
        columns = {n: (PLANE, getattr(self, n)) for n in _COLUMNS}
        columns["phase"] = PLANE, np.array(BIAS_PHASES, dtype=object)[self.phase]
        return Arrays(plane(self), columns, {"title": self.title, "input_norm": self.input_norm})

    def data(self) -> dict[str, Any]:
        """Axes and arrays as lists, the phase of each point by its name, the line and the critical points."""
        return plane_data(self)

    def shares(self) -> dict[str, float]:
        """Phase → its share of the points, those that occur."""
        found = {p: float((self.phase == i).mean()) for i, p in enumerate(BIAS_PHASES)}
        return {p: s for p, s in found.items() if s}

    def __repr__(self) -> str:
        return one_line("BiasDiagram", f"{self.title}; {self.sigma_w.size} x {self.sigma_b.size} points")

    def __str__(self) -> str:
        parts = ", ".join(f"{p} {100 * s:.3g} %" for p, s in self.shares().items())
        return wrapped(
            f"{self.title}: sigma_w {self.sigma_w[0]:g} to {self.sigma_w[-1]:g} ({self.sigma_w.size}), "
            f"sigma_b {self.sigma_b[0]:g} to {self.sigma_b[-1]:g} ({self.sigma_b.size}): {parts}"
        )


_COLUMNS = ("K", "chi_J", "c", "gap", "gamma", "slope", "error", "attractors")


def bias_diagram(
    base: PhaseDiagram, block: Plain | Stepwise, odd: bool, weightless: float | None, neutrality: CorrelationLine | None
) -> BiasDiagram:
    """The diagram from that of the gradients; see `Theory.phase_diagram`.

    odd: whether every φ is odd and every bias 0 at σ_b = 0; weightless: χ_J at σ_w = 0 where it is ∞ at every other
    (the base's is not meant then), else None.
    """
    W, B = np.meshgrid(base.sigma_w, base.sigma_b)
    chi = base.chi_J if weightless is None else np.where(W > 0, np.inf, weightless)
    cells = CorrelationCells(*(v.ravel() for v in (W, B, base.K, chi, odd & (B == 0))))
    found = ends(cells, block)
    phase = _phases(cells, found.gap, found.error, found.start)
    gap, slope, error, phase = (v.reshape(W.shape) for v in (found.gap, found.slope, found.error, phase))
    return BiasDiagram(
        base.title, base.sigma_w, base.sigma_b, base.input_norm, base.K, chi, base.attractors,
        gap, slope, error, phase, base.line, base.points, neutrality, base.parameters,
    )  # fmt: skip


def _phases(cells: CorrelationCells, gap: np.ndarray, error: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The index of the phase of every point."""
    with np.errstate(invalid="ignore"):
        off = 0.5 - gap  # c* - 1/2
        even = np.abs(off) <= np.maximum(error, BALANCED)
        where = np.select(
            [start, np.isnan(gap), gap == 0, even, off > 0], [0, 1, 2, 3, 4], default=5
        )  # in the order of the words below
        side = np.select([np.isnan(cells.chi_J), np.abs(cells.chi_J - 1) <= EXACTLY, cells.chi_J > 1], [2, 0, 1], -1)
    end = np.select([np.isinf(cells.K), cells.K == 0], [1, 2], 0)
    names = list(BiasPhase)
    codes = (where * 4 + side + 1) * 3 + end
    own = np.zeros(6 * 4 * 3, dtype=np.int8)
    words = ("start", "?", "oo", "one", "above", "below")
    for code in np.flatnonzero(np.bincount(codes)):  # those that occur
        g, s, k = code // 12, code // 3 % 4 - 1, code % 3
        own[code] = names.index(phase_of(words[g], None if s == 2 else int(s), ("finite", "oo", "0")[k]))
    return own[codes]
