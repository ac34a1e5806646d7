"""The compiled loops of one theory: generated once, stored with the other modules, and run on blocks of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from meanfield.kernels.plans import Plan, of_inputs, plan
from meanfield.kernels.series import LADDER, Series, expand
from meanfield.numeric.lowering import cache
from meanfield.numeric.lowering.assembly import Lowered, described, lower, tree
from meanfield.numeric.lowering.machine import Code, Function
from meanfield.symbolic.recursion import Recursion

RUNGS = np.array(LADDER)
_Codes = tuple[Code, ...]
#: first; what is followed; NA, NB, sigma, depth, least, ladder, flags; of each group EA, EB, TA, TB, shape
_BLOCK: tuple[_Codes, Code, _Codes, _Codes] = (
    ("i8[:]",),
    "f8[:, :]",
    ("f8[:, :, :]", "f8[:, :, :]", "f8[:, :]", "i8", "f8", "i8[:]", "u1[:, :]"),
    ("f8[:, :, :]", "f8[:, :, :]", "f8[:, :, :, :]", "f8[:, :, :, :]", ("i8", 2)),
)
#: left, right; what is followed; NA, sigma, depth, ladder, flags; of each group EA, TA, shape
_FEW: tuple[_Codes, Code, _Codes, _Codes] = (
    ("i8[:]", "i8[:]"),
    "f8[:]",
    ("f8[:, :, :]", "f8[:, :]", "i8", "i8[:]", "u1[:]"),
    ("f8[:, :, :]", "f8[:, :, :, :]", ("i8", 2)),
)


@dataclass(frozen=True, eq=False)
class Loop:
    """The compiled loop of one recursion of two inputs.

    plan, name, entry: what it computes and where it is stored; boxes: between which variances its closed forms hold, by
    the number of the variance among what inputs bring; least: from which 1 - c on K_ab says all that it needs, -1
    (always) where averages ⟨f g⟩ are of functions without jumps, which K_ab's rounding moves by as much as itself;
    workspace: numbers that a call has for its own use.
    """

    plan: Plan
    name: str
    entry: str
    groups: tuple[int, ...]
    boxes: tuple[tuple[int, float, float], ...]
    error: float
    least: float
    inputs: Lowered
    workspace: int

    def run(self, *arguments) -> None:
        """Run the compiled function; each call has a workspace of its own."""
        self._function(*arguments, np.zeros(self.workspace))

    @cached_property
    def _function(self) -> Function:
        before, state, after, group = _BLOCK if self.entry == "block" else _FEW
        signature = (*before, *[state] * len(self.plan.state), *after, *group * len(self.groups), "f8[:]")
        return Function(self.name, self.entry, signature, lambda: getattr(cache.load(self.name), self.entry))

    def series(self, brought: np.ndarray) -> dict[int, Series]:
        """The series that a loop reads, by expansion; brought: what inputs bring, (numbers, layers, inputs)."""
        out = {}
        for g in self.groups:
            for e in self.plan.groups[g][:2]:
                if e not in out:
                    one = self.plan.expansions[e]
                    V = brought[0, :-1] if one.variance == 0 else brought[one.variance - 1, 1:]
                    out[e] = expand(one.f, one.slope, np.ascontiguousarray(V))
        return out

    def outside(self, brought: np.ndarray) -> np.ndarray:
        """Which inputs have a variance at which a closed form loses its digits."""
        bad = np.zeros(brought.shape[2], dtype=bool)
        for number, low, high in self.boxes:
            V = brought[0, :-1] if number == 0 else brought[number - 1, 1:]
            bad |= ((low > V) | (high < V)).any(axis=0)
        return bad


@lru_cache(maxsize=64)
def block_loop(recursion: Recursion, one_input: Recursion) -> Loop:
    """The loop over blocks of pairs of a recursion of (K_aa, K_bb, K_ab, …). Raises: NotCovered."""
    return _loop(recursion, one_input, "block")


@lru_cache(maxsize=64)
def few_loop(recursion: Recursion, one_input: Recursion) -> Loop:
    """The loop over single pairs of a recursion of (K_aa, K_bb, tilt, distance, K_ab, …). Raises: NotCovered."""
    return _loop(recursion, one_input, "few")


def _loop(recursion: Recursion, one_input: Recursion, entry: str) -> Loop:
    found = plan(recursion)
    inputs = lower(of_inputs(one_input, found))
    name = cache.key(f"kernel {entry}|{described(recursion)}|{tree(found.inputs)}")
    stored = cache.read(name)
    if stored is None:
        from meanfield.kernels.sources import generated  # what derives closed forms and measures them

        stored = generated(found, entry)
        cache.write(name, *stored)
    arrays = stored[1]
    boxes = tuple((int(n), float(lo), float(hi)) for n, lo, hi in arrays["boxes"])
    error, least = float(arrays["error"]), float(arrays["least"])
    groups, size = tuple(arrays["groups"].tolist()), int(arrays["workspace"])
    return Loop(found, name, entry, groups, boxes, error, least, inputs, size)
