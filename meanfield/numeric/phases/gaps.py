r"""Where the correlation of two inputs settles, 1 - c*, at many K* at once: blocks of one Dense (and a skip μ).

At fixed K the gap g = 1 - c is multiplied by σ_w²S(K, g) + μ² in every layer, S = ⟨(f_a - f_b)²⟩/⟨(z_a - z_b)²⟩, which
falls with g (the map of c is convex). So c* is the zero of log S(K, g) - log((1 - μ²)/σ_w²): a function of two numbers,
solved in a compiled, parallel loop. Few points of one octave of K ask S itself; many share a table of log S in
Chebyshev polynomials of log K and of θ = arccos c, in which S is analytic, kinks of f included (of log(θS) where f
jumps). A table is compared with S between its nodes, and θ is cut until they agree; where that does not help (branch
points, fast oscillations), S itself is asked.

Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.budgets import tick
from meanfield.base.symbols import K, Z, distance
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import VERSION, Module, T
from meanfield.numeric.phases.gap_source import generate
from meanfield.numeric.phases.gap_tables import Panel, tables
from meanfield.symbolic.averages.nodes.equal_norms import DistanceRatio, distance_ratio

MANY = 64  # points in an octave of K from which a table pays
EVALUATIONS = 12  # of S for one point, about
BLOCK = 1024  # points solved without a table before the clock is asked


@dataclass(frozen=True)
class Gaps:
    """The compiled gaps of one f: its module, the relative error of S, whether f jumps, and the tables made so far (by
    octave of K; None where S itself is asked)."""

    module: Module
    error: float
    jumps: bool
    tables: dict[int, tuple[Panel, ...] | None] = field(default_factory=dict)

    def averages(self, K: np.ndarray, gap: np.ndarray) -> np.ndarray:
        """(log S, log ⟨f²⟩/K) at points."""
        out = np.empty((K.size, 2))
        self.module.call("averages", 2 * K.size, K, gap, T, out)
        return out

    def fixed_points(self, K: np.ndarray, want: np.ndarray, kept: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(1 - c*, C′(c*), absolute error of c*) at fixed points K with C′(1) > 1.

        want: log((1 - μ²)/σ_w²), what log S must be; kept: 1 - μ².
        """
        gap, slope, error = (np.empty(K.size) for _ in range(3))
        octaves = np.floor(np.log2(K)).astype(np.int64)
        found, counts = np.unique(octaves, return_counts=True)
        many = [int(o) for o in found[counts >= MANY]]
        new = [o for o in many if o not in self.tables]
        self.tables.update(tables(self.module, self.error, self.jumps, new) if new else {})
        own = [o for o in many if self.tables[o] is not None]
        inside = np.isin(octaves, own)
        eps = np.full(K.size, self.error)
        if own:
            panels = [self.tables.get(o) or () for o in range(own[0], own[-1] + 1)]
            flat = [p for row in panels for p in row]
            first = np.concatenate([[0], np.cumsum([len(row) for row in panels])])
            edges = np.array([(p.low, p.high) for p in flat])
            table = np.array([p.coefficients for p in flat])
            for o in own:
                eps[octaves == o] += max(p.error for p in self.tables[o] or ())
            parts = np.empty((2, int(inside.sum())))
            arguments = (K[inside], octaves[inside], want[inside], kept, own[0], first, edges, table, *parts)
            self.module.call("lookup", EVALUATIONS * parts.shape[1] / self.module.weight, *arguments)
            gap[inside], slope[inside] = parts
        if not inside.all():
            rest = np.flatnonzero(~inside)
            for at in range(0, rest.size, BLOCK):
                tick()
                here = rest[at : at + BLOCK]
                parts = np.empty((2, here.size))
                self.module.call("direct", EVALUATIONS * here.size, K[here], want[here], kept, T, *parts)
                gap[here], slope[here] = parts
        with np.errstate(divide="ignore"):
            error[:] = gap * (eps + 2.0**-52) / np.maximum(1 - slope, 1e-300) + 2.0**-53
        return gap, slope, error


@lru_cache(maxsize=64)
def compile_gaps(f: sp.Expr) -> Gaps | None:
    """The compiled gaps of f(z) without free parameters; None where f is linear, so that no map of c has a zero inside.

    Raises: MeanFieldError where S cannot be lowered.
    """
    node = distance_ratio(f, K, distance)
    scale, node = node.as_independent(DistanceRatio)
    if not isinstance(node, DistanceRatio):
        return None
    jumps = bool(pieces(node.function, Z[0]).jumps())
    name = cache.key(f"gaps|{VERSION}|{sp.srepr(node)}|{sp.srepr(node.args[0].expr)}|{scale}|{jumps}")
    stored = cache.read(name)
    if stored is None:
        stored = generate(node, float(scale), jumps)
        cache.write(name, *stored)
    return Gaps(Module.of(name, *stored), float(stored[1]["error"]), jumps)
