"""Float64 averages over two correlated Gaussians ⟨f(z_a) g(z_b)⟩: the checked closed form, or conditional panel
quadrature.

Quadrature: z_a = s_a x outside, z_b = s_b (ρ x + r y) inside, r² = 1 - ρ². Panels are graded dyadically towards every
point where the integrand is steep: the kinks, 0 (scale 1 in z), and, outside, where a kink of g passes through the bulk
of y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield import balls
from meanfield.numeric import printing, quadrature
from meanfield.numeric.rules import gauss_legendre
from meanfield.numeric.scalar import scalar
from meanfield.piecewise import pieces
from meanfield.results import MeanFieldError
from meanfield.symbolic.average import Average, average
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K, K_aa, K_ab, K_bb, Z

GRID = (1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e8)
CORRELATIONS = (-1 + 1e-6, -0.9, 0.0, 0.3, 0.9, 1 - 1e-6)
TOLERANCE = 2e-13  # of √(⟨f²⟩⟨g²⟩), the scale of a two-input average


@dataclass(frozen=True)
class Pair:
    """A lowered ⟨f g⟩: generated source of `name(K_aa, K_ab, K_bb)` and how it is computed."""

    name: str
    text: str
    note: str
    error: float = TOLERANCE
    closed: bool = False  # a closed form everywhere: no quadrature is ever called


@lru_cache(maxsize=128)
def pair(expr: sp.Expr, name: str = "g") -> Pair:
    """Lower `expr`, a function of K_aa, K_ab, K_bb with one or more two-input averages.

    Raises: MeanFieldError where an average does not separate into a function of z_a times a function of z_b.
    """
    form = closed(expr)
    stable = printing.as_angles(form)
    direct = f"def {name}_closed(K_aa, K_ab, K_bb):\n{printing.body(stable)}\n\n" if not form.has(Average) else ""
    box = _closed_box(form, expr) if direct else None
    if box == (0.0, math.inf):
        return Pair(
            name,
            direct + f"def {name}(K_aa, K_ab, K_bb):\n    return {name}_closed(K_aa, K_ab, K_bb)\n",
            "closed form everywhere",
            closed=True,
        )
    node, outer = _only_node(expr)
    quad = _quadrature_text(node, name)
    call = printing.code(outer.xreplace({node: sp.Symbol("q")}))
    text = direct + quad + f"def {name}(K_aa, K_ab, K_bb):\n"
    note = "panel quadrature"
    if box is not None:
        text += f"    if min(K_aa, K_bb) >= {box[0]!r} and max(K_aa, K_bb) <= {_float(box[1])}:\n"
        text += f"        return {name}_closed(K_aa, K_ab, K_bb)\n"
        note = f"closed form for K in [{box[0]:.0e}, {box[1]:.0e}], elsewhere panel quadrature"
    error = max(TOLERANCE, *(quadrature.resolved(h)[1] for h in separate(node)))
    if error > 1e-6:
        raise MeanFieldError(
            f"{expr} is too steep or oscillates too fast for the float64 quadrature (measured error {error:.0e}); "
            "use certified digits (evalf, ball) or rescale the activation."
        )
    return Pair(name, text + f"    q = {name}_quadrature(K_aa, K_ab, K_bb)\n    return {call}\n", note, error)


def _signed_centres(h) -> list[float]:
    """Places where a factor is steep although it has no kink, on both sides (harmless where there is nothing)."""
    found = [c for c in quadrature.centres(h) if c != 0]
    return [*found, *(-c for c in found)]


def _float(x: float) -> str:
    return repr(x) if math.isfinite(x) else "math.inf"


def _only_node(expr):
    nodes = [n for n in expr.atoms(Average) if n.n == 2]
    if len(nodes) != 1 or nodes[0].cov != (K_aa, K_ab, K_bb) or expr.atoms(Average) != {nodes[0]}:
        raise MeanFieldError(
            f"{expr} is not one two-input average over (K_aa, K_ab, K_bb) times a constant; it cannot be lowered yet."
        )
    return nodes[0], expr


def separate(node: Average) -> tuple[sp.Expr, sp.Expr]:
    """(f, g), both in Z[0], with integrand f(z_a) g(z_b)."""
    f = g = sp.S.One
    for factor in sp.Mul.make_args(node.integrand):
        used = [i for i in (0, 1) if factor.has(Z[i])]
        if len(used) > 1:
            raise MeanFieldError(f"{factor} does not separate into a function of z_a times a function of z_b.")
        if used == [1]:
            g *= factor.xreplace({Z[1]: Z[0]})
        else:
            f *= factor
    return f, g


def _closed_box(form, expr) -> tuple[float, float] | None:
    """[lo, hi] such that the closed form keeps its digits for all K_aa, K_bb inside, decided against certified values
    on a grid."""
    if not {K_aa, K_bb} <= form.free_symbols | {K_ab} and not form.has(K_ab):
        return 0.0, math.inf
    scope = printing.interpret(f"def f(K_aa, K_ab, K_bb):\n{printing.body(printing.as_angles(form))}", "f")
    nodes = [n for n in expr.atoms(Average) if n.n == 2]
    scales = _scales(nodes[0]) if len(nodes) == 1 else dict.fromkeys(GRID, None)
    good: dict[tuple[int, int], bool] = {}
    for i, a in enumerate(GRID):
        for j, b in enumerate(GRID[: i + 1]):
            good[i, j] = all(_close(form, scope, a, b, c * math.sqrt(a * b), scales) for c in CORRELATIONS)
    best = None
    for lo in range(len(GRID)):
        for hi in range(lo, len(GRID)):
            if all(good[i, j] for i in range(lo, hi + 1) for j in range(lo, i + 1)) and (
                best is None or hi - lo > best[1] - best[0]
            ):
                best = (lo, hi)
    if best is None or best[0] == best[1]:
        return None
    return (0.0 if best[0] == 0 else GRID[best[0]]), (math.inf if best[1] == len(GRID) - 1 else GRID[best[1]])


def _scales(node):
    f, g = separate(node)
    second = [average(pieces(h, Z[0]).map(lambda e: e**2).expr, K) for h in (f, g)]
    values = [scalar(s) if s.has(K) else (lambda _, s=s: float(s)) for s in second]
    return {k: (values[0](k), values[1](k)) for k in GRID}


def _close(form, f, a, b, ab, scales) -> bool:
    exact = balls.certified(form.subs({K_aa: sp.Rational(a), K_bb: sp.Rational(b), K_ab: sp.Rational(ab)}), 16)
    scale = math.sqrt(scales[a][0] * scales[b][1]) if scales[a] else abs(float(exact.mid()))
    try:
        value = f(a, ab, b)
    except (OverflowError, ZeroDivisionError, ValueError):
        return False
    return math.isfinite(value) and abs(float(exact - value)) <= TOLERANCE * scale + 1e-290


_TEMPLATE = """
def {name}_edges(edges, points, scales, count, reach):
    # panel edges on [-reach, reach], doubling away from every steep point; sorted in place, their number returned
    n = 2
    edges[0] = -reach
    edges[1] = reach
    for k in range(count):
        p, h = points[k], scales[k]
        if abs(p) < reach:
            edges[n] = p
            n += 1
        near = 0.0 if abs(p) < reach else abs(p) - reach
        while h < near:
            h *= 2.0
        while h < 2.0 * reach + near and n < edges.shape[0] - 2:
            if abs(p - h) < reach:
                edges[n] = p - h
                n += 1
            if abs(p + h) < reach:
                edges[n] = p + h
                n += 1
            h *= 2.0
    edges[:n].sort()
    m = 1
    for i in range(1, n):  # merge edges that coincide to rounding
        if edges[i] - edges[m - 1] > 1e-14 * reach:
            edges[m] = edges[i]
            m += 1
    edges[m - 1] = reach
    return m


def {name}_quadrature(K_aa, K_ab, K_bb):
    X, W = {name}_X, {name}_W
    s_a, s_b = math.sqrt(K_aa), math.sqrt(K_bb)
    if s_a == 0.0 or s_b == 0.0:
        s_a, s_b = max(s_a, 1e-150), max(s_b, 1e-150)
    rho = max(-1.0, min(1.0, K_ab / (s_a * s_b)))
    r = math.sqrt(_det(K_aa, K_bb, K_ab)) / (s_a * s_b)
    reach = {reach}
    outer_p, outer_h = np.empty(2 + {nf} + 3 * {ng}), np.empty(2 + {nf} + 3 * {ng})
    outer_p[0], outer_h[0] = 0.0, min(1.0, {step} / s_a)
    outer_p[1], outer_h[1] = 0.0, min(1.0, {step} / (s_b * max(abs(rho), 1e-3)))
    count = 2
    for k in range({nf}):
        outer_p[count], outer_h[count] = {name}_KF[k] / s_a, min(1.0, {step} / s_a)
        count += 1
    if abs(rho) > 1e-3:
        for k in range({ng}):  # where a kink of g crosses the bulk of y
            outer_p[count], outer_h[count] = {name}_KG[k] / (s_b * rho), min(1.0, max(r, 1e-12) / abs(rho))
            count += 1
        outer_p[count], outer_h[count] = 0.0, min(1.0, max(r, 1e-12) / abs(rho))
        count += 1
    outer = np.empty(4000)
    inner = np.empty(4000)
    n_outer = {name}_edges(outer, outer_p, outer_h, count, reach)
    inner_p, inner_h = np.empty(2 + {ng}), np.empty(2 + {ng})
    total = 0.0
    for i in range(n_outer - 1):
        half_x = 0.5 * (outer[i + 1] - outer[i])
        for a in range(X.shape[0]):
            x = outer[i] + half_x * (1.0 + X[a])
            weight = W[a] * half_x * math.exp(-0.5 * x * x)
            f = {name}_f(s_a * x)
            if f == 0.0 or weight == 0.0:
                continue
            if r == 0.0:
                total += weight * f * {name}_g(s_b * rho * x) * 2.5066282746310002
                continue
            shift, s = s_b * rho * x, s_b * r
            inner_p[0], inner_h[0] = -shift / s, min(1.0, {step} / s)
            inner_p[1], inner_h[1] = 0.0, 1.0
            for k in range({ng}):
                inner_p[2 + k], inner_h[2 + k] = ({name}_KG[k] - shift) / s, min(1.0, {step} / s)
            n_inner = {name}_edges(inner, inner_p, inner_h, 2 + {ng}, reach)
            part = 0.0
            for j in range(n_inner - 1):
                half_y = 0.5 * (inner[j + 1] - inner[j])
                for b in range(X.shape[0]):
                    y = inner[j] + half_y * (1.0 + X[b])
                    part += W[b] * half_y * math.exp(-0.5 * y * y) * {name}_g(shift + s * y)
            total += weight * f * part
    return total * 0.15915494309189535


"""


def _quadrature_text(node: Average, name: str) -> str:
    f, g = separate(node)
    parts = ""
    for label, h in (("f", f), ("g", g)):
        p = pieces(h, Z[0])
        parts += f"def {name}_{label}(z):\n"
        variable = sp.Symbol("z", real=True)
        for e, _, hi in p.intervals()[:-1]:
            parts += f"    if z < {float(hi)!r}:\n{printing.body(e.xreplace({Z[0]: variable}), ' ' * 8)}"
        parts += printing.body(p.exprs[-1].xreplace({Z[0]: variable})) + "\n\n"
    kinks = [sorted({float(b) for b in pieces(h, Z[0]).breaks} | set(_signed_centres(h))) for h in (f, g)]
    rate = max(quadrature.rule_for(h).rate for h in (f, g))
    x, w = gauss_legendre(16)
    arrays: dict[str, list[float]] = {"X": list(x), "W": list(w), "KF": kinks[0] or [0.0], "KG": kinks[1] or [0.0]}
    head = "".join(f"{name}_{k} = np.array({[float(t) for t in v]!r})\n" for k, v in arrays.items())
    reach = f"9.0 + {rate!r} * max(s_a, s_b)" if rate else "9.0"
    return (
        head
        + "\n\n"
        + parts
        + _TEMPLATE.format(
            name=name,
            nf=len(kinks[0]),
            ng=len(kinks[1]),
            reach=reach,
            step=min(quadrature.resolved(f)[0], quadrature.resolved(g)[0]),
        )
    )
