"""Which recursion holds the quantities that are asked for."""

from __future__ import annotations

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.quantities import (
    EQUAL_NORMS,
    FINITE_INPUT,
    FINITE_WIDTH,
    GRADIENTS,
    ONE_INPUT,
    PAIR_TANGENTS,
    TWO_INPUTS,
    UNEQUAL_NORMS,
)
from meanfield.base.words import unknown
from meanfield.symbolic.coordinates import COORDINATES, needed
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.coordinate_walk import remembered
from meanfield.theory.asked.architecture_maps import Maps
from meanfield.theory.asked.given_values import listed


@remembered(maxsize=512)
def selected(theory: Maps, names: tuple[str, ...]) -> Recursion:
    """The part of a theory's recursions that `names` need."""
    if theory.kind:
        return theory.acting.selected(names)
    known = ONE_INPUT + FINITE_INPUT[1:] + TWO_INPUTS + EQUAL_NORMS + UNEQUAL_NORMS + COORDINATES + GRADIENTS
    known += FINITE_WIDTH
    strange = [n for n in names if n not in known]
    if strange:
        raise unknown("quantity", strange[0], known)
    if set(names) & set(GRADIENTS):
        raise MeanFieldError(
            f"{listed(GRADIENTS)} go from the last layer back, so no map takes them one layer deeper; propagate(...) "
            "gives them, and .gradients what they are products of."
        )
    if set(names) & set(FINITE_WIDTH):
        from meanfield.correlators.derived import correlators  # seldom asked for

        return correlators(theory.block, theory.first, names)
    if of_two_norms(names):
        return _unequal(theory, names)
    near = [n for n in names if n in EQUAL_NORMS + COORDINATES]
    two = [n for n in names if n in TWO_INPUTS]
    if near or (two and set(names) & set(ONE_INPUT)):
        return _of_one_norm(theory, names, (near or [n for n in names if n in ONE_INPUT])[0])
    if two:
        if not set(names) & set(PAIR_TANGENTS):
            return theory.two_inputs.only(*names)
        if "Theta_ab" in names and "Theta_ab" not in theory.pair_tangents.names:
            raise _open_tangent("Theta_ab")
        return theory.pair_tangents.only(*names)
    if any(n in FINITE_INPUT for n in names):
        if {"J", "Theta"} & set(names):
            raise MeanFieldError("J0 (finite input dimension) has its own recursion; ask for J and Theta separately.")
        return theory.input_jacobian  # whole, so that N_0 is a parameter even where it has no effect
    if "Theta" in names and "Theta" not in theory.one_input.names:
        raise _open_tangent("Theta")
    return theory.one_input.only(*names)


def of_two_norms(names: tuple[str, ...]) -> bool:
    """Whether names are of two inputs of any norms with their distance: K_aa or K_bb beside it."""
    return "tilt" in names or ("distance" in names and bool({"K_aa", "K_bb"} & set(names)))


def _unequal(theory: Maps, names: tuple[str, ...]) -> Recursion:
    """Two inputs of any norms and their distance: the state that `names` are read off."""
    wrong = [n for n in names if n not in (*TWO_INPUTS, *EQUAL_NORMS, *UNEQUAL_NORMS, "c")]
    if wrong:
        raise MeanFieldError(
            f"{wrong[0]} was asked for with K_aa, K_bb and distance, which are of two inputs of any norms; with these "
            "go K_ab, c, J_ab and Theta_ab."
        )
    if "Theta_ab" in names and "Theta_ab" not in theory.unequal_norms.names:
        raise _open_tangent("Theta_ab")
    wanted = [n for n in names if n != "c"] + ["K_ab"] * ("c" in names)
    return theory.unequal_norms.only("K_aa", "K_bb", "distance", *wanted)


def _of_one_norm(theory: Maps, names: tuple[str, ...], why: str) -> Recursion:
    """Two inputs of one norm: the state that `names` are read off."""
    wrong = [n for n in names if n in ("K_aa", "K_bb", "D0", "J0")]
    if wrong:
        what = "any two norms" if wrong[0].startswith("K") else "an input of finite dimension"
        raise MeanFieldError(
            f"{wrong[0]} was asked for with {why}, but {wrong[0]} is of {what}, and {why} with two inputs of one norm; "
            "ask for K, K_ab and distance, or separately."
        )
    open_ = [n for n in names if n not in (*theory.equal_norms.names, *COORDINATES)]
    if open_:
        raise _open_tangent(open_[0])
    return theory.equal_norms.only(*needed(names))


def _open_tangent(name: str) -> MeanFieldError:
    return MeanFieldError(
        f"{name} does not close here: a skip starts at the output of a LayerNorm with trained gains, or one stands "
        "before or behind a Pool; use LayerNorm(affine=False) there, or put the LayerNorm inside the branch."
    )
