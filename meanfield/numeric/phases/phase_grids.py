"""Phase diagrams in float64: for each (σ_w, σ_b) the fixed point that K¹ flows to, and χ_J there; compiled and
parallel.

Averages that depend on K alone are tabulated once on a grid of K; those behind an inner Dense, which depend on σ_w and
σ_b as well, are evaluated where they are needed. Each point of the diagram then follows the
sign of K' - K along the grid from K¹ to the first change and solves there; the number of attracting states is counted
along the way. A pair of fixed points inside one grid cell (1/24 decade) is not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import J, K
from meanfield.numeric.lowering.assembly import described
from meanfield.numeric.lowering.evaluators import averages
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import VERSION, Module, T
from meanfield.numeric.lowering.text import depth_loops, printing
from meanfield.numeric.lowering.text.helpers import HEADER, helpers_for
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.steps import Step

# decades of K: far out only the sign matters
GRID = np.concatenate(
    [np.logspace(-30, -6, 72, endpoint=False), np.logspace(-6, 8, 336, endpoint=False), np.logspace(8, 30, 67)]
)

_LOOP = """
@njit(cache=True, error_model='numpy')
def gain_at(K, T, {args}):
{evaluate}
    F, chi = maps(K, {inner})
    return F - K, chi


@njit(cache=True, error_model='numpy')
def sign_of(g, K):
    # 0 within what the averages are known to; without a branch, so that a loop over the grid becomes vector code
    return int(g > 1e-12 * K) - int(g < -1e-12 * K)


@njit(cache=True, error_model='numpy')
def solve(a, b, up, T, {args}):
    # K' - K has the sign `up` at a and not at b: Illinois' rule in log K
    u, v = math.log(a), math.log(b)
    f = gain_at(a, T, {args})[0] / a
    g = gain_at(b, T, {args})[0] / b
    side = 0
    for _ in range(100):
        if abs(v - u) < 2e-16 * max(1.0, abs(u)):
            break
        w = (f * v - g * u) / (f - g)
        if not min(u, v) < w < max(u, v):
            w = 0.5 * (u + v)
        K = math.exp(w)
        h = gain_at(K, T, {args})[0] / K
        if h == 0.0:
            return K
        if (h > 0.0) == (up > 0):
            if abs(w - u) < 1e-15 * max(1.0, abs(w)):
                break
            u, f = w, h
            if side == 1:
                g *= 0.5
            side = 1
        else:
            if abs(w - v) < 1e-15 * max(1.0, abs(w)):
                break
            v, g = w, h
            if side == -1:
                f *= 0.5
            side = -1
    return math.exp(u) if abs(f) < abs(g) else math.exp(v)


@njit(cache=True, error_model='numpy')
def point(p, grid, nodes, start, sigma, T, K_star, chi_star, attractors):
{params}
    n = grid.size
    K = float(start[p])
    g, chi = gain_at(K, T, {args})
    way = sign_of(g, K)
    found = way == 0
    previous = K
    signs = np.empty(n, np.int8)
    for j in range(n):
{table}
        k = float(grid[j])
        F, chi_j = maps(k, {inner})
        signs[j] = sign_of(F - k, k)
    if not found:
        j = np.searchsorted(grid, K)
        if way < 0:
            j -= 1
        while 0 <= j < n:
            if signs[j] == -way:
                found = True
                K = solve(previous, float(grid[j]), way, T, {args})
                break
            if signs[j] != 0:
                previous = float(grid[j])
            j += way
    if not found:
        K_star[p] = math.inf if way > 0 else 0.0
        K = float(grid[n - 1] if way > 0 else grid[0])
    else:
        K_star[p] = K
    chi_star[p] = gain_at(K, T, {args})[1]
    # all states: where + turns to -; the ends of the grid close it. A 0 continues the sign before it: rare, and done
    # apart, so that the count is vector code
    zeros = 0
    for j in range(n):
        zeros += signs[j] == 0
    if zeros > 0:
        for j in range(1, n):
            if signs[j] == 0:
                signs[j] = signs[j - 1]
    count = int(signs[0] < 0) + int(signs[n - 1] > 0)
    for j in range(1, n):
        count += signs[j] < signs[j - 1]
    attractors[p] = count


@njit(cache=True, error_model='numpy', parallel=True)
def diagram(grid, nodes, start, sigma, T, K_star, chi_star, attractors):
    for p in prange(start.size):
        point(p, grid, nodes, start, sigma, T, K_star, chi_star, attractors)


@njit(cache=True, error_model='numpy')
def tabulate(grid, T, out):
    for j in range(grid.size):
        K = float(grid[j])
{store}
"""


@dataclass(frozen=True)
class Compiled:
    """The generated module of one architecture, its parameters, and how many averages it tabulates."""

    module: Module
    parameters: tuple[str, ...]
    count: int

    def run(self, start: np.ndarray, sigma: np.ndarray):
        """(K*, χ_J*, number of attracting states) for points with K¹ = start and parameters sigma (rows)."""
        nodes = np.zeros((max(1, self.count), GRID.size))
        self.module.call("tabulate", GRID.size, GRID, T, nodes)
        K_star, chi = np.empty(start.size), np.empty(start.size)
        attractors = np.zeros(start.size, dtype=np.int64)
        # the interpreter takes a layer's time for each place of the grid that a point looks at
        self.module.call("diagram", GRID.size * start.size, GRID, nodes, start, sigma, T, K_star, chi, attractors)
        return K_star, chi, attractors


@lru_cache(maxsize=64)
def compile_phase(recursion: Recursion) -> Compiled:
    """The compiled phase diagram of a (K, J) recursion.

    Raises: MeanFieldError where χ_J is infinite or a parameter inside an average has no value.
    """
    recursion = recursion.homogeneous("A phase diagram is")
    if recursion["J"].has(sp.oo):
        raise MeanFieldError(
            "A phase diagram is not available: φ jumps or rises like √|z|, so χ_J is infinite everywhere."
        )
    averages = [n for n in depth_loops.placeholders(recursion) if isinstance(n, Average)]
    inside = sorted(p.name for n in averages for s in n.args[3] for p in s.free_symbols - {K})
    if inside:
        swept = inside[0] in ("sigma_w", "sigma_b")
        raise MeanFieldError(
            f"The parameter {inside[0]} stands inside an average"
            + (", so that no grid over it is compiled; ask phase(...) at single points." if swept else
               " and has no value; give it a number.")
        )  # fmt: skip
    name = cache.key(f"phase|{described(recursion)}")
    stored = cache.read(name)
    parameters = tuple(p.name for p in recursion.parameters if p.name not in ("Q0", "c0"))
    if stored is None:
        text, arrays = _generate(recursion, parameters)
        cache.write(name, text, arrays)
        stored = (text, arrays)
    if (limit := float(stored[1]["limit"])) < GRID[-1]:
        raise MeanFieldError(
            f"A phase diagram follows K up to {GRID[-1]:.0e}, but an average of this activation oscillates too fast to "
            f"be evaluated beyond K = {limit:.3g}; use fixed_points at single points."
        )
    return Compiled(Module.of(name, *stored), parameters, len(_tabulated(recursion)))


def _tabulated(recursion: Recursion) -> list[Average]:
    """The averages that K alone decides; those over the variance of an inner Dense depend on σ_w and σ_b as well."""
    return [n for n in depth_loops.placeholders(recursion) if not n.free_symbols - {K}]


def _generate(recursion: Recursion, parameters: tuple[str, ...]):
    found = averages(recursion)
    calls, functions, notes, arrays = found.calls, found.text, found.notes, found.arrays
    names_of = depth_loops.placeholders(recursion)
    ids = depth_loops.identifiers(recursion)
    tabulated = {n: str(names_of[n]) for n in _tabulated(recursion)}
    nodes = list(tabulated.values())
    whole = Step(
        (recursion.block.next[recursion.index("K")], recursion.block.derivative(1, J)), recursion.block.definitions
    )
    between = [t for part in depth_loops.assignments(whole, calls, names_of, ids, frozenset(tabulated)) for t in part]
    lines, values = printing.statements([e.xreplace(names_of).xreplace(ids) for e in whole.next])
    body = "\n".join(f"    {t}" for t in [*between, *lines, f"return {values[0]}, {values[1]}"])
    own = [ids[p].name for p in recursion.parameters if p.name in parameters]
    args = ", ".join(own)
    inner = ", ".join(["T", *nodes, *own])
    maps = f"@njit(cache=True, error_model='numpy')\ndef maps(K, {inner}):\n{body}\n\n\n"
    source = [f"{a} = {calls[n]}" for n, a in tabulated.items()]
    fill = {
        "args": args,
        "inner": inner,
        "evaluate": "\n".join(f"    {t}" for t in source) or "    pass",
        "params": "\n".join(f"    {p} = float(sigma[{i}, p])" for i, p in enumerate(own)),
        "table": "\n".join(f"            {a} = float(nodes[{i}, j])" for i, a in enumerate(nodes))
        or "            pass",
        # an average may be a parameter of one further down (the mean of a LayerNorm)
        "store": "\n".join(f"        {t}\n        out[{i}, j] = {nodes[i]}" for i, t in enumerate(source))
        or "        pass",
    }
    loop = _LOOP
    first, second = loop.split("{table}", 1)[0], loop.split("{table}", 1)[1]
    shallow = fill["table"].replace("            ", "        ")
    loop = first + shallow + second
    for key, value in fill.items():
        loop = loop.replace("{" + key + "}", value)
    head = HEADER.format(version=VERSION, summary="\n".join([str(recursion), "", *notes]))
    helpers = helpers_for(functions + maps + loop)
    return head + helpers + printing.decorated(
        functions, "@njit(cache=True, error_model='numpy')"
    ) + maps + loop, arrays
