"""Which recursion holds the quantities that are asked for."""

from __future__ import annotations

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import GRADIENTS, KINDS, QUANTITIES, made_of, recursion_of
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.coordinate_walk import OPEN, remembered
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import listed


@remembered(maxsize=512)
def selected(theory: Maps, names: tuple[str, ...], start: tuple[str, ...] = ()) -> Recursion:
    """The maps of `names`, or of what they are read off, and of what these depend on; start: quantities whose values at
    layer 1 are given, which must be of the same inputs."""
    if theory.kind:
        return theory.acting.selected(names)
    own = recursion_of(names, start)
    if own == "gradients":
        raise MeanFieldError(
            f"{listed(GRADIENTS)} go from the last layer back, so no map takes them one layer deeper; propagate(...) "
            "gives them, and .gradients what they are products of."
        )
    if own == "correlators":
        from meanfield.correlators.derived import correlators  # seldom asked for

        return correlators(theory.block, theory.first, made_of(names)).with_own(names)
    found: Recursion = getattr(theory, own).with_own(names)
    open_ = [n for n in names if n not in (*found.names, *(read for read, _ in found.readout))]
    if open_:
        raise MeanFieldError(f"{open_[0]} is not derived here: {OPEN}")
    beside = [n for name in names for n in QUANTITIES[name].needs]
    return found.only(*names, *beside, *KINDS[own].with_) if names else found
