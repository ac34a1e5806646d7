"""The layer that is made before the first block: a recursion's start with the σ's of that layer."""

from __future__ import annotations

from dataclasses import replace

from meanfield.base.symbols import sigma_b, sigma_w
from meanfield.networks.records import OWN, Dense
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.coordinate_walk import Walk


def begun(recursion: Recursion, first: Dense) -> Recursion:
    """`recursion` after the input layer `first`: K¹ = σ_w² Q0 + σ_b², and all that starts from it, with its σ's."""
    if (first.sigma_w, first.sigma_b) == OWN:
        return recursion
    walk = Walk()
    given = walk.deviation(first.sigma_w), walk.deviation(first.sigma_b)
    swap = {s: walk.plain(e) for s, e in zip((sigma_w, sigma_b), given)}
    state = tuple(replace(v, initial=v.initial.xreplace(swap)) for v in recursion.state)
    found = replace(recursion, state=state)
    known = dict(found.domain)
    fresh = tuple((s, walk.domain[s.name]) for s in found.parameters if s not in known and s.name in walk.domain)
    return replace(found, domain=(*((s, d) for s, d in found.domain if s in found.parameters), *fresh))
