"""The compiled loops of one theory: generated once, stored with the other modules, and run on blocks of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from meanfield import balls
from meanfield.kernels.generate import HEADER, HELPER, block_source, few_source, parameters
from meanfield.kernels.plans import Plan, of_inputs, plan
from meanfield.kernels.series import LADDER, Series, expand
from meanfield.numeric.lowering import cache, printing
from meanfield.numeric.lowering.assembly import Lowered, described, lower
from meanfield.numeric.lowering.evaluators import MARGIN
from meanfield.numeric.lowering.pairs import _closed_box, _scales, closed_text, sine2_of
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import K_aa, K_ab, K_bb

RUNGS = np.array(LADDER)
SERIES = 2e-14  # of √(⟨f²⟩⟨g²⟩): what coefficients read off tables miss


@dataclass(frozen=True, eq=False)
class Loop:
    """The compiled loop of one recursion of two inputs: its plan, its module, and between which variances its closed
    forms hold (by the number of the variance among what inputs bring)."""

    plan: Plan
    name: str
    entry: str
    groups: tuple[int, ...]
    boxes: tuple[tuple[int, float, float], ...]
    error: float
    inputs: Lowered

    @cached_property
    def run(self):
        """The compiled function."""
        return getattr(cache.load(self.name), self.entry)

    @cached_property
    def parameters(self) -> list[str]:
        return parameters(self.plan)

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
    name = cache.key(f"kernel {entry}|{described(recursion)}|{sp.srepr(found.inputs)}")
    stored = cache.read(name)
    if stored is None:
        stored = _generate(found, entry)
        cache.write(name, *stored)
    arrays = stored[1]
    boxes = tuple((int(n), float(lo), float(hi)) for n, lo, hi in arrays["boxes"])
    return Loop(found, name, entry, tuple(arrays["groups"].tolist()), boxes, float(arrays["error"]), inputs)


def _generate(found: Plan, entry: str) -> tuple[str, dict[str, np.ndarray]]:
    texts, boxes, error = "", [], SERIES
    functions: dict[sp.Expr, str] = {}
    if entry == "block":
        for step in found.pairings:
            for node, pairing in step.items():
                form = _closed(node)
                if form is None:
                    continue
                own = f"pair_{len(functions)}"
                texts += closed_text(form[0], own) + "\n"
                functions[node] = own
                one, other, _ = found.groups[pairing.group]
                boxes += [(found.expansions[e].variance, *form[1]) for e in (one, other) if form[1] != (0.0, np.inf)]
                error = max(error, MARGIN * _missed(form[0], texts, own, node))
    used = sorted({p.group for s in found.pairings for n, p in s.items() if n not in functions})
    body = block_source(found, functions, "") if entry == "block" else few_source(found)
    text = HEADER.format(summary=f"{entry} of pairs") + printing.helpers_for(texts + body)
    text += printing.decorated(texts, "@njit(cache=True, error_model='numpy', nogil=True)") + HELPER + body
    return text, {
        "boxes": np.array(sorted(set(boxes)), dtype=float).reshape(-1, 3),
        "groups": np.array(used, dtype=np.int64),
        "error": np.array(error),
    }


def _closed(node: sp.Expr) -> tuple[sp.Expr, tuple[float, float]] | None:
    """(closed form over (K_aa, K_ab, K_bb), between which variances it keeps its digits)."""
    if not isinstance(node, Average):
        return None
    plain = Average(node.args[0], sp.Tuple(K_aa, K_ab, K_bb), *node.args[2:])
    form = closed(plain)
    if form.has(Average):
        return None
    box = _closed_box(form, plain)
    return None if box is None or box[0] > 1e-4 else (form, box)


def _missed(form: sp.Expr, texts: str, name: str, node: Average) -> float:
    """What a closed form misses in floats, of √(⟨f²⟩⟨g²⟩), at sample places."""
    f, worst = printing.interpret(texts, name), 0.0
    scales = _scales(node)
    for a, b, c in ((0.01, 1.0, -0.9), (1.0, 1.0, 0.3), (1.0, 100.0, 0.9), (0.01, 0.01, 0.999), (1.0, 1.0, 0.0)):
        ab = c * math.sqrt(a * b)
        exact = balls.certified(form.subs({K_aa: sp.Rational(a), K_bb: sp.Rational(b), K_ab: sp.Rational(ab)}), 20)
        scale = math.sqrt(scales[a][0] * scales[b][1])
        worst = max(worst, abs(float(exact - f(a, ab, b, sine2_of(a, ab, b)))) / scale)
    return worst
