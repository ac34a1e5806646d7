"""The source of a kernel's loops: which averages over pairs take their closed forms, and what these were measured to
miss."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K_aa, K_ab, K_bb, Z
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.kernels.loops.generate import APART, HEADER, block_source, few_source
from meanfield.kernels.loops.pair_loops import LEAST
from meanfield.kernels.loops.plans import KernelPlan, NotCovered
from meanfield.numeric.lowering.averages.planes import separate
from meanfield.numeric.lowering.averages.two_gaussians import FAR, _closed_box, _scales, closed_text, needs_care
from meanfield.numeric.lowering.evaluators import MARGIN
from meanfield.numeric.lowering.modules.module_functions import USABLE
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.lowering.text.helpers import INLINED
from meanfield.numeric.quadrature.gaussian_averages import resolved
from meanfield.symbolic.averages.node import Average, in_digits
from meanfield.symbolic.recursion import closed

_COVARIANCE = ("product", "slope")  # pairings that a covariance answers
SERIES = 2e-14  # of √(⟨f²⟩⟨g²⟩): what coefficients read off tables miss


def generated(found: KernelPlan, entry: str) -> tuple[str, dict[str, np.ndarray]]:
    """(source, arrays) of the loop over "block"s of pairs, or over a "few" single ones. Raises: NotCovered."""
    texts, boxes, error = "", [], SERIES
    least = -1.0 if all(_steady(n) for s in found.pairings for n, p in s.items() if p.kind in _COVARIANCE) else LEAST
    functions: dict[sp.Expr, str] = {}
    if entry == "block":
        for step in found.pairings:
            for node, pairing in step.items():
                form = _closed(node) if pairing.kind in _COVARIANCE else None
                if form is None:
                    continue
                if node not in functions:  # of no other step
                    own = f"pair_{len(functions)}"
                    written = closed_text(form[0], own, far=False) + "\n"
                    missed = MARGIN * _missed(form[0], texts + written, own, node, least < 0)
                    if not missed < USABLE:  # the series of the group has it
                        continue
                    functions[node], texts, error = own, texts + written, max(error, missed)
                one, other, _ = found.groups[pairing.group]
                boxes += [(found.expansions[e].variance, *form[1]) for e in (one, other) if form[1] != (0.0, np.inf)]
    used = sorted({p.group for s in found.pairings for n, p in s.items() if n not in functions})
    try:
        body, size = block_source(found, functions) if entry == "block" else few_source(found)
    except MeanFieldError as open_node:  # maxima and other averages that only the recursion of two inputs lowers
        raise NotCovered(str(open_node)) from open_node
    text = HEADER.format(summary=f"{entry} of pairs") + printing.helpers_for(texts + body)
    text += printing.decorated(APART + texts, INLINED) + body
    return text, {
        "boxes": np.array(sorted(set(boxes)), dtype=float).reshape(-1, 3),
        "groups": np.array(used, dtype=np.int64),
        "error": np.array(error),
        "least": np.array(least),
        "workspace": np.array(size),
    }


def _steady(node: Average) -> bool:
    """Whether ⟨f g⟩ rises with the covariance by no more than √(⟨f′²⟩⟨g′²⟩), finite: f and g jump nowhere."""
    return all(_continuous(in_digits(f)) for f in separate(node))


@lru_cache(maxsize=256)
def _continuous(f: sp.Expr) -> bool:
    try:
        return not pieces(f, Z[0]).jumps() and resolved(pieces(f, Z[0]).diff().expr)[1] < 1e-9
    except MeanFieldError:
        return False


def _closed(node: Average) -> tuple[sp.Expr, tuple[float, float]] | None:
    """(closed form over (K_aa, K_ab, K_bb), between which variances it keeps its digits)."""
    plain = Average(node.args[0], sp.Tuple(K_aa, K_ab, K_bb), *node.args[2:])
    form = closed(plain)
    if form.has(Average):
        return None
    box = _closed_box(form, plain)
    if box is None or box[0] > 1e-4:
        return None
    return form, ((box[0], min(box[1], FAR)) if needs_care(form) else box)  # beyond, pairs go one by one


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
        exact = balls.certified_at(form, {K_aa: sp.Rational(a), K_bb: sp.Rational(b), K_ab: sp.Rational(ab)}, 20)
        scale = math.sqrt(scales[a][0] * scales[b][1])
        try:
            value = f(a, ab, b, apart(a, ab, b))
        except (OverflowError, ZeroDivisionError, ValueError):  # compiled, ∞ or nan: at c = 1, say
            value = math.nan
        if math.isnan(value):
            return math.inf
        off = abs(float(exact - value)) / scale
        worst = max(worst, 0.0 if math.isnan(off) else off)  # nan: the form has no ball at c = 1
    return worst
