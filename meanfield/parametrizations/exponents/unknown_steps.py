"""Records of the library through which no training step of an infinitely wide network is known, and why."""

from __future__ import annotations

from typing import TypeVar

from meanfield.base.errors import MeanFieldError
from meanfield.base.leading import Registry
from meanfield.functions.activations import activation
from meanfield.networks.attention import Attention
from meanfield.networks.pooling import POOLS
from meanfield.networks.records import Block, Dense, Pool, Projection

Rule = TypeVar("Rule")


def rule_of(rules: Registry[type, Rule], record: Block, asked: str, adds: str) -> Rule:
    """The rule of a record. asked: what it is needed for ("Powers were asked"); adds: what registers a rule of one's
    own. Raises: MeanFieldError for a record without one."""
    found = rules.nearest(type(record))
    if found is None:
        refuse(record, asked)
        name = type(record).__name__
        raise MeanFieldError(f"{asked} of a network with {name}, of which no rule is known; add one with {adds}.")
    return found


def refuse(record: Block, asked: str) -> None:
    """Raises MeanFieldError for a record through which no step is known; asked: as in `rule_of`."""
    reason = _unknown(record)
    if reason:
        raise MeanFieldError(f"{asked} of a network with {reason}.")


def _unknown(record: Block) -> str:
    """What it is and why no step is known through it; empty for all others."""
    match record:
        case Attention():
            return "Attention: no rule is known for the change of its scores; take the blocks without it"
        case Projection():
            return "a Projection: between layers of one width it is the identity; leave it out"
        case Dense(axis="tokens"):
            return "a Dense over tokens: its matrix does not grow with the width"
        case Dense(weights=("orthogonal" | "mixed") as law):
            return f"{law} weights: the step is known for independent entries alone"
        case Pool(kind=kind) if kind not in POOLS:
            return f"a Pool of {kind}: rules are known of {' and '.join(POOLS)}"
    given = getattr(record, "activation", None)
    if given is not None and not (phi := activation(given)).is_continuous:
        return f"{phi}, which jumps: it has no gradient; take a continuous activation"
    return ""
