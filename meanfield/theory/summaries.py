"""One row for each activation and architecture: where it is critical, and what J does there."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import tex
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.arguments import choice, validated
from meanfield.base.arguments import names as names_of
from meanfield.base.symbols import K
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs, heading, table_width
from meanfield.base.tex.width import TEXTWIDTH, column, width
from meanfield.functions import balls
from meanfield.functions.activations import activation
from meanfield.networks.architectures import PRESETS
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.criticality.critical_points import CriticalPoint
from meanfield.symbolic.fixed_points.certified_roots import from_ball
from meanfield.theory.deriving import derive
from meanfield.theory.theory import Theory

SHORT = 40.0  # points: of a number that is shown exactly
LEGEND = (
    r"$\sigma_w$, $\sigma_b$: the critical point, where $\chi_J = \chi_K = 1$ at the fixed point $K^\ast$; $\zeta$: "
    r"$J^{1,\ell} \sim \ell^{-\zeta}$ there"
)
LINE = "every point of the critical line is critical"
EVERYWHERE = r"; where every point is critical, $\zeta$ is that at $\sigma_b = 0$"


@dataclass(frozen=True)
class Entry(Result):
    """One critical point of one activation in one architecture, or why there is none.

    point: None where none is isolated; message: what is said in its place, or of other points. exponent: where every
    point is critical, ζ at σ_b = 0, None where it is not known.
    """

    activation: str
    architecture: str
    point: CriticalPoint | None
    message: str
    exponent: Solution | None = None

    columns = ("activation", "architecture", "sigma_w", "sigma_b", "K", "kind", "zeta", "message")

    def __getattr__(self, name: str) -> Any:
        if name in ("sigma_w", "sigma_b", "K", "kind", "zeta"):
            point = self.__dict__["point"]
            if point is None:
                return self.__dict__["exponent"] if name == "zeta" else None
            return getattr(point, name)
        raise AttributeError(name)

    def data(self) -> dict[str, Any]:
        """The names, the point with its errors and laws, and what is said, as plain values."""
        return {n: plain(getattr(self, n)) for n in ("activation", "architecture", "point", "message", "zeta")}


@dataclass(frozen=True)
class Summary(Result):
    """Critical points of several activations and architectures, a row for each; see `summary`."""

    entries: tuple[Entry, ...]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def data(self) -> list[dict[str, Any]]:
        """Every row as plain values."""
        return [one.data() for one in self.entries]

    def latex(self, *, caption: str | None = None, label: str | None = None) -> str:
        """A `table` float (booktabs) with a row for each; caption: LaTeX in the place of the usual one.

        Where there are several architectures they have a column, or headings where the column does not fit; the kind of
        a point is said where a column of text is wide (`presentation.column_width`).
        """
        names = list(dict.fromkeys(one.architecture for one in self.entries))
        told = LEGEND + EVERYWHERE * any(one.exponent is not None for one in self.entries)
        told += "" if len(names) > 1 else f"; architecture: {', '.join(map(prose, names))}"
        header, rows = self._rows(len(names) > 1)
        if len(names) > 1 and table_width([header, *rows]) > column().width:
            header, rows = self._rows(False)
            for name in reversed(names):
                first = next(i for i, one in enumerate(self.entries) if one.architecture == name)
                rows.insert(first, [heading(name, len(header))])
        texts = header.index(r"$\sigma_w$")
        return booktabs(told if caption is None else caption, header, rows, label=label, texts=texts)

    def _rows(self, architecture: bool) -> tuple[list[str], list[list[str]]]:
        """The header, and a row for each entry; with a column of architectures, or without."""
        narrow = column().width < TEXTWIDTH
        numbers = [r"$\sigma_w$", r"$\sigma_b$", r"$K^\ast$", r"$\zeta$", *["kind"] * (not narrow)]
        room, rows = (0.45 if narrow else 0.55) + 0.2 * (narrow and not architecture), []
        for one in self.entries:
            cells = [prose(one.activation), *[prose(one.architecture)] * architecture]
            if one.point is None:
                box = rf"@{{}}p{{{room:.2f}\linewidth}}@{{}}"
                said = prose(_brief(one.message))
                if one.exponent is None:
                    rows.append([*cells, rf"\multicolumn{{{len(numbers)}}}{{{box}}}{{\raggedright {said}}}"])
                else:
                    kind = [""] * (not narrow)
                    rows.append([*cells, rf"\multicolumn{{3}}{{@{{}}l}}{{{said}}}", _cell(one.exponent), *kind])
                continue
            cells += [_cell(v) for v in (one.sigma_w, one.sigma_b, one.K, one.zeta)]
            rows.append([*cells, *[prose(one.kind)] * (not narrow)])
        return ["activation", *["architecture"] * architecture, *numbers], rows

    def __repr__(self) -> str:
        return one_line("Summary", f"{len(self)} rows; {', '.join(dict.fromkeys(e.activation for e in self.entries))}")

    def __str__(self) -> str:
        head = f"{'activation':<14}{'architecture':<14}{'sigma_w':>12}{'sigma_b':>12}{'K*':>12}{'zeta':>12}"
        lines = [head, "-" * len(head)]
        for one in self.entries:
            start = f"{one.activation:<14}{one.architecture:<14}"
            if max(len(one.activation), len(one.architecture)) > 13:  # a name that is cut is another one
                lines += wrapped(f"{one.activation}  {one.architecture}").splitlines()
                start = " " * 28
            if one.point is None:
                said = start + _brief(one.message)
                lines += wrapped(said if one.exponent is None else f"{said:<64}{_text(one.exponent):>12}").splitlines()
                continue
            lines.append(start + "".join(f"{_text(v):>12}" for v in (one.sigma_w, one.sigma_b, one.K, one.zeta)))
        return "\n".join(lines)


@validated
def summary(activations: str | Sequence[str], architectures: str | Sequence[str] = ("mlp",)) -> Summary:
    """Where activations are critical in several architectures, and how J behaves there: a row for each critical point.

    activations: names or formulas; architectures: names of presets. A pair without critical points has a row that says
    so. Exact values are exact, others certified (`CriticalPoint`). Returns: a `Summary`, which prints, is a frame, or a
    table for a paper.

    >>> print(summary(("tanh", "relu")))
    activation    architecture       sigma_w     sigma_b          K*        zeta
    ----------------------------------------------------------------------------
    tanh          mlp                      1           0           0           1
    relu          mlp                sqrt(2)           0         any           0
    """
    entries = []
    for architecture in names_of(architectures, "architectures"):
        choice(architecture, "architecture", tuple(PRESETS))  # a misspelling is no network without critical points
        for phi in names_of(activations, "activations"):
            name = str(activation(phi))
            try:
                theory = derive(phi, architecture=architecture)
                found = theory.critical_points()
            except MeanFieldError as error:
                entries.append(Entry(name, architecture, None, str(error)))
                continue
            entries += [Entry(name, architecture, point, found.message) for point in found]
            if not found.points:
                exponent = _exponent(theory) if theory.critical_line().kind == "everywhere" else None
                entries.append(Entry(name, architecture, None, found.message, exponent))
    return Summary(tuple(entries))


def _exponent(theory: Theory) -> Solution | None:
    """ζ at σ_w = 1, σ_b = 0, where J ~ l^-ζ; None where J is no power of l there."""
    try:
        law = theory.depth_law("J", sigma_w=1, sigma_b=0)
        power = None if law.rate != 0 else law.exponent
        if power is None:
            return None
        if power.has(Average) or power.count_ops() > 40 or len(str(power)) > 60:
            return from_ball(balls.certified(-power, 20))
        return Solution(sp.simplify(-power), Status.EXACT)
    except MeanFieldError:
        return None


def _brief(message: str) -> str:
    """The first clause of a message, for a row; `data` has all of it."""
    if message.endswith(LINE):
        return LINE
    first = re.split(r":|,? and log J|,? log J| everywhere", message.removeprefix("no critical line: "))[0].rstrip(", ")
    return first if first.startswith(("no ", "every ")) else f"no critical point: {first}"


def _cell(v: Solution | None) -> str:
    if v is None:
        return "--"
    if sp.sympify(v.value) == K:
        return "any"
    exact = tex(v.value)
    return f"${exact if v.error is None and width(exact) < SHORT else f'{float(v.value):.7g}'}$"


def _text(v: Solution | None) -> str:
    if v is None:
        return "-"
    if sp.sympify(v.value) == K:
        return "any"
    exact = str(v.value)
    return exact if v.error is None and len(exact) < 12 else f"{float(v.value):.7g}"
