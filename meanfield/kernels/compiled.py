"""The compiled loops of one theory: generated once, stored with the other modules, and run on blocks of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from meanfield.kernels.loops import hermite_sums, near_sums
from meanfield.kernels.loops.hermite_series import HermiteTable, table
from meanfield.kernels.loops.numpy_sums import PLAIN
from meanfield.kernels.loops.pair_loops import PairLoop
from meanfield.kernels.loops.plans import KernelPlan, of_inputs, plan
from meanfield.numeric.lowering.assembly import Lowered, described, lower, tree
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import Module
from meanfield.numeric.lowering.text import interpreting
from meanfield.symbolic.recursion import Recursion


@dataclass(frozen=True, eq=False)
class Planned(PairLoop):
    """A loop with the plan that it was made by, and the recursion of what each input brings."""

    plan: KernelPlan
    inputs: Lowered

    def cells(self, expansion: int) -> HermiteTable:
        one = self.plan.expansions[expansion]
        return table(*one.digits)


@lru_cache(maxsize=1)
def _single() -> dict[str, Any]:
    """What stands in the interpreter for the compiled sums of single pairs: the same, as they are written."""
    return interpreting.plain(near_sums) | interpreting.plain(hermite_sums)


@lru_cache(maxsize=64)
def block_loop(recursion: Recursion, one_input: Recursion) -> Planned:
    """The loop over blocks of pairs of a recursion of (K_aa, K_bb, K_ab, …). Raises: NotCovered."""
    return _loop(recursion, one_input, "block")


@lru_cache(maxsize=64)
def few_loop(recursion: Recursion, one_input: Recursion) -> Planned:
    """The loop over single pairs of a recursion of (K_aa, K_bb, norm_angle, distance, K_ab, …). Raises: NotCovered."""
    return _loop(recursion, one_input, "few")


def _loop(recursion: Recursion, one_input: Recursion, entry: str) -> Planned:
    found = plan(recursion)
    inputs = lower(of_inputs(one_input, found))
    name = cache.key(f"kernel {entry}|{described(recursion)}|{tree(found.inputs)}")
    stored = cache.read(name)
    if stored is None:
        from meanfield.kernels.loops.loop_source import generated  # what derives closed forms and measures them

        stored = generated(found, entry)
        cache.write(name, *stored)
    arrays = stored[1]
    boxes = tuple((int(n), float(lo), float(hi)) for n, lo, hi in arrays["boxes"])
    error, least = float(arrays["error"]), float(arrays["least"])
    workspace = int(arrays["workspace"])
    state, groups = tuple(v.name for v in found.state), tuple(found.groups[g][:2] for g in arrays["groups"].tolist())
    variances = tuple(e.variance for e in found.expansions)
    auxiliary = len(found.inputs)
    return Planned(
        Module(name, stored[0], (), 1.0, plain=PLAIN if entry == "block" else _single()),
        entry,
        state,
        tuple(found.parameters),
        auxiliary,
        groups,
        variances,
        boxes,
        error,
        least,
        workspace,
        found,
        inputs,
    )
