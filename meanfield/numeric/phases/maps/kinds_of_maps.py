"""Which kind of `ScalarMap` a recursion of (K, J) is: the one place that tells them apart."""

from __future__ import annotations

from meanfield.base.symbols import sigma_b, sigma_w
from meanfield.networks.records import Block
from meanfield.numeric.phases.maps.scalar_map import EnclosedMap, ScalarMap
from meanfield.symbolic.averages.nodes.shared_averages import Common
from meanfield.symbolic.criticality.phases import inside_averages, moves_with_K
from meanfield.symbolic.recursion import Recursion


def scalar_map(recursion: Recursion, block: Block) -> ScalarMap:
    """The map of what settles of a block. NumPy is loaded where nothing encloses it, and nowhere else."""
    if recursion.only_floats and not inside_averages(recursion) & {sigma_w, sigma_b}:
        from meanfield.numeric.phases.maps.sampled_maps import sampled

        return sampled(recursion, block)
    if any(e.has(Common) for step in recursion.steps for e in step.expressions):
        from meanfield.numeric.phases.maps.nested_maps import NestedMap

        return NestedMap(recursion, block)
    if recursion.only_floats or moves_with_K(recursion):
        from meanfield.numeric.phases.maps.moving_maps import MovingMap

        return MovingMap(recursion, block)
    return EnclosedMap(recursion, block)

