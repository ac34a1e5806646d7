"""What a page shows of a theory: its model, the points it marks, and what it leaves out."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from meanfield.base.arguments import scalar
from meanfield.base.errors import MeanFieldError
from meanfield.explorer.model import Model, model
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import decided, double, inside_averages, of_widths, refuse_unknown
from meanfield.theory.queries.selection import selected
from meanfield.theory.verbs.at_a_point import critical_points_of

WIDE = 3.0  # of the plane, unless a critical point lies beyond
FARTHEST = 8.0


@dataclass(frozen=True, eq=False)
class PageTheory:
    """A theory with numbers in its averages: title, model, the values of its other symbols, and what is left out."""

    theory: Maps
    title: str
    model: Model
    parameters: dict[str, float]
    notes: tuple[str, ...]


def followed(theory: Maps, parameters: dict[str, Any]) -> PageTheory:
    """The model of (K, J, distance), or of what of it can be computed on a page.

    parameters: numbers for symbols; those outside of averages stay what a reader may move, and are 1 unless given.
    Raises: MeanFieldError for a network whose inputs or tokens act on each other, and for one whose σ's are fixed.
    """
    if theory.kind:
        what = "inputs of a batch" if theory.kind == "batch" else "tokens"
        raise MeanFieldError(
            f"A page that computes was asked for, but here {what} act on each other, and it follows one input and two "
            "that are apart; follow this network with propagate."
        )
    title = describe(theory.block)
    theory, rest = decided(theory, {k: scalar(v, k) for k, v in parameters.items()})
    found, notes = _chosen(theory, rest)
    own = [n for n in found.parameters if n not in ("sigma_w", "sigma_b")]
    if "sigma_w" not in found.parameters:
        raise MeanFieldError(
            "A page that computes moves over the plane of sigma_w and sigma_b, but every Dense of this network has a "
            "sigma_w of its own; leave one out of its records."
        )
    values = {n: double(n, rest[n]) if n in rest else 1.0 for n in own}
    return PageTheory(theory, title, found, {n: float(v) for n, v in values.items()}, notes)


def _chosen(theory: Maps, values: dict[str, Any]) -> tuple[Model, tuple[str, ...]]:
    one = theory.default_quantities
    notes = () if "J" in one else ("J is left out: it is infinite at every layer, because φ jumps.",)
    try:
        return model(_recursion(theory, (*one, "distance"), values)), notes
    except MeanFieldError as error:
        said = str(error)
    found = model(_recursion(theory, one, values))  # what fails here is no affair of two inputs
    return found, (*notes, f"c and the distance of two inputs are left out: {said}")


def _recursion(theory: Maps, names: tuple[str, ...], values: dict[str, Any]) -> Recursion:
    recursion = selected(theory, names)
    values = {k: v for k, v in values.items() if k not in of_widths(theory.block)}
    refuse_unknown(values, recursion)
    inside = inside_averages(recursion, values)
    return recursion.replaced(inside) if inside else recursion


def marks(theory: Maps) -> tuple[tuple[tuple[float, float, str], ...], str]:
    """(critical points as (σ_w, σ_b, what they are), a sentence that recommends them)."""
    found: list[tuple[float, float, str]] = []
    with suppress(MeanFieldError):
        for one in critical_points_of(theory):
            point = (one.sigma_w.value, one.sigma_b.value)
            if all(e.is_number for e in point) and float(point[0]) <= FARTHEST and float(point[1]) <= FARTHEST:
                found.append((float(point[0]), float(point[1]), one.kind))
    if not found:
        return (), "No critical point is known here."
    listed = "; ".join(f"({w:.7g}, {b:.7g}), {kind}" for w, b, kind in found)
    points = "the critical points" if len(found) > 1 else "the critical point"
    return tuple(found), f"Recommended (σ_w, σ_b): {points} {listed}. Elsewhere on the border J stays, too."


def extent_of(points: tuple[tuple[float, float, str], ...]) -> tuple[float, float]:
    """How far the plane goes: so that critical points lie inside."""
    return max([WIDE, *(1.25 * w for w, _, _ in points)]), max([WIDE, *(1.25 * b for _, b, _ in points)])


def accuracy(known: Model) -> str:
    """What a page knows, in a sentence."""
    said = f"Averages of one layer are known to {max(known.error, 1e-15):.0e}"
    return f"{said} up to K = {known.limit:.3g}." if known.limit < 1e300 else f"{said}; layers are those of propagate."
