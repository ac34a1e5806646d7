"""The compiled loops of one theory: generated once, stored with the other modules, and run on blocks of pairs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import sympy as sp

from meanfield import balls
from meanfield.functions.piecewise import pieces
from meanfield.kernels.generate import APART, HEADER, INLINE, block_source, few_source, parameters
from meanfield.kernels.plans import NotCovered, Plan, of_inputs, plan
from meanfield.kernels.series import LADDER, Series, expand
from meanfield.numeric.lowering import cache, printing
from meanfield.numeric.lowering.assembly import Lowered, described, lower
from meanfield.numeric.lowering.evaluators import MARGIN
from meanfield.numeric.lowering.pairs import _closed_box, _scales, closed_text
from meanfield.numeric.lowering.planes import separate
from meanfield.numeric.quadrature.tables import resolved
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import K_aa, K_ab, K_bb, Z

RUNGS = np.array(LADDER)
LEAST = 1e-4  # 1 - c from which on a covariance says how far two inputs are apart
_COVARIANCE = ("product", "slope")  # pairings that a covariance answers
SERIES = 2e-14  # of √(⟨f²⟩⟨g²⟩): what coefficients read off tables miss


@dataclass(frozen=True, eq=False)
class Loop:
    """The compiled loop of one recursion of two inputs.

    plan, name, entry: what it computes and where it is stored; boxes: between which variances its closed forms hold, by
    the number of the variance among what inputs bring; least: from which 1 - c on K_ab says all that it needs, -1
    (always) where averages ⟨f g⟩ are of functions without jumps, which K_ab's rounding moves by as much as itself.
    """

    plan: Plan
    name: str
    entry: str
    groups: tuple[int, ...]
    boxes: tuple[tuple[int, float, float], ...]
    error: float
    least: float
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
    error, least = float(arrays["error"]), float(arrays["least"])
    return Loop(found, name, entry, tuple(arrays["groups"].tolist()), boxes, error, least, inputs)


def _generate(found: Plan, entry: str) -> tuple[str, dict[str, np.ndarray]]:
    texts, boxes, error = "", [], SERIES
    least = -1.0 if all(_steady(n) for s in found.pairings for n, p in s.items() if p.kind in _COVARIANCE) else LEAST
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
                error = max(error, MARGIN * _missed(form[0], texts, own, node, least < 0))
    used = sorted({p.group for s in found.pairings for n, p in s.items() if n not in functions})
    try:
        body = block_source(found, functions) if entry == "block" else few_source(found)
    except MeanFieldError as open_node:  # maxima and other averages that only the recursion of two inputs lowers
        raise NotCovered(str(open_node)) from open_node
    text = HEADER.format(summary=f"{entry} of pairs") + printing.helpers_for(texts + body)
    text += printing.decorated(APART + texts, INLINE) + body
    return text, {
        "boxes": np.array(sorted(set(boxes)), dtype=float).reshape(-1, 3),
        "groups": np.array(used, dtype=np.int64),
        "error": np.array(error),
        "least": np.array(least),
    }


def _steady(node: sp.Expr) -> bool:
    """Whether ⟨f g⟩ rises with the covariance by no more than √(⟨f′²⟩⟨g′²⟩), finite: f and g jump nowhere."""
    return isinstance(node, Average) and all(_continuous(f) for f in separate(node))


@lru_cache(maxsize=256)
def _continuous(f: sp.Expr) -> bool:
    try:
        return not pieces(f, Z[0]).jumps() and resolved(pieces(f, Z[0]).diff().expr)[1] < 1e-9
    except MeanFieldError:
        return False


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


def _missed(form: sp.Expr, texts: str, name: str, node: Average, close: bool) -> float:
    """What a closed form misses in floats, of √(⟨f²⟩⟨g²⟩), at sample places; close: of close inputs, too."""
    f, worst = printing.interpret(texts, name), 0.0
    apart = printing.interpret(APART, "_apart")
    scales = _scales(node)
    places = [(0.01, 1.0, -0.9), (1.0, 1.0, 0.3), (1.0, 100.0, 0.9), (0.01, 0.01, 0.999), (1.0, 1.0, 0.0)]
    if close:
        places += [(1.0, 1.0, 1 - 1e-7), (0.01, 100.0, 1 - 1e-10), (1.0, 100.0, 1 - 1e-13), (0.01, 0.01, 1.0)]
    for a, b, c in places:
        ab = c * math.sqrt(a * b)
        exact = balls.certified(form.subs({K_aa: sp.Rational(a), K_bb: sp.Rational(b), K_ab: sp.Rational(ab)}), 20)
        scale = math.sqrt(scales[a][0] * scales[b][1])
        worst = max(worst, abs(float(exact - f(a, ab, b, apart(a, ab, b)))) / scale)
    return worst
