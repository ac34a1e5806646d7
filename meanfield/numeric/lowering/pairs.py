"""Float64 averages over two correlated Gaussians ⟨f(z_a) g(z_b)⟩: the checked closed form, or conditional panel
quadrature.

Quadrature: z_a = s_a x outside, z_b = s_b (ρ x + r y) inside, r² = 1 - ρ². Panels are graded dyadically towards every
point where the integrand is steep: the kinks, 0 (scale 1 in z), and, outside, where a kink of g passes through the bulk
of y. A panel that touches a branch point is integrated in a power of its distance (`branches`); where f or g
oscillates, no panel holds more than a period, which limits K. `pair_check` measures the error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from meanfield import balls
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering import printing
from meanfield.numeric.lowering.pair_check import measured
from meanfield.numeric.lowering.scalar import scalar
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature import tables as quadrature
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.results import InfiniteAverage, MeanFieldError
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.recursion import closed
from meanfield.symbols import K, K_aa, K_ab, K_bb, Z

GRID = (1e-8, 1e-4, 1e-2, 1.0, 1e2, 1e4, 1e8)
CORRELATIONS = (-1 + 1e-6, -0.9, 0.0, 0.3, 0.9, 1 - 1e-6)
TOLERANCE = 2e-13  # of √(⟨f²⟩⟨g²⟩), the scale of a two-input average
NODES = 16  # Gauss–Legendre nodes a panel
PERIODS = 6.0  # radians of phase a panel may hold
PANELS = 400  # of the outer variable, for phases; this limits K
MEASURED = (  # (K_aa, K_bb, c) at which the quadrature is compared with a finer one
    (1.0, 1.0, 0.6),
    (0.5, 3.0, -0.99),
    (1e-4, 1e4, 0.9),
    (2e3, 5.0, -0.3),
    (1e4, 1e4, 1 - 1e-6),
    (1e-2, 0.3, -1 + 1e-9),
)


@dataclass(frozen=True)
class Pair:
    """A lowered ⟨f g⟩: generated source of `name(K_aa, K_ab, K_bb)` and how it is computed."""

    name: str
    text: str
    note: str
    error: float = TOLERANCE
    closed: bool = False  # a closed form everywhere: no quadrature is ever called
    limit: float = math.inf  # the value is NaN where K_aa or K_bb is beyond: too many periods to follow


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
    plan = _plan(node)
    quad = _quadrature_text(plan, name)
    call = printing.code(outer.xreplace({node: sp.Symbol("q")}))
    text = direct + quad + f"def {name}(K_aa, K_ab, K_bb):\n"
    note = "panel quadrature"
    if box is not None:
        text += f"    if min(K_aa, K_bb) >= {box[0]!r} and max(K_aa, K_bb) <= {_float(box[1])}:\n"
        text += f"        return {name}_closed(K_aa, K_ab, K_bb)\n"
        note = f"closed form for K in [{box[0]:.0e}, {box[1]:.0e}], elsewhere panel quadrature"
    if plan.limit < math.inf:
        text += f"    if max(K_aa, K_bb) > {plan.limit!r}:\n        return math.nan\n"
        note += f" for K up to {plan.limit:.3g}"
    error = max(measured(plan, MEASURED), TOLERANCE if box is not None else 0.0)
    if not error < 1e-6:
        raise MeanFieldError(
            f"{expr} is too steep or oscillates too fast for the float64 quadrature (measured error {error:.0e}); "
            "use certified digits (evalf, ball) or rescale the activation."
        )
    text += f"    q = {name}_quadrature(K_aa, K_ab, K_bb)\n    return {call}\n"
    return Pair(name, text, note, error, limit=plan.limit)


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
def {name}_edges(edges, points, scales, count, reach, widest):
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
    total = 0  # then cut what holds too many periods
    for i in range(m - 1):
        total += max(1, math.ceil((edges[i + 1] - edges[i]) / widest))
    if total < m or total > edges.shape[0] - 2:
        return m
    at = total
    for i in range(m - 1, 0, -1):
        lo, hi = edges[i - 1], edges[i]
        cuts = max(1, math.ceil((hi - lo) / widest))
        for k in range(cuts, 0, -1):
            edges[at] = lo + (hi - lo) * k / cuts
            at -= 1
    return total + 1

#<branch>

def {name}_touch(lo, hi, branch, shift, scale, close):
    # k + 1 where branch point k is the lower end of a panel, -(k + 1) where it is the upper end, else 0
    for k in range(branch.shape[0]):
        p = (branch[k] - shift) / scale
        if abs(lo - p) <= close:
            return k + 1
        if abs(hi - p) <= close:
            return -(k + 1)
    return 0


#<plain>


#<end>
def {name}_quadrature(K_aa, K_ab, K_bb):
    X, W = {name}_X, {name}_W
    s_a, s_b = math.sqrt(K_aa), math.sqrt(K_bb)
    if s_a == 0.0 or s_b == 0.0:
        s_a, s_b = max(s_a, 1e-150), max(s_b, 1e-150)
    rho = max(-1.0, min(1.0, K_ab / (s_a * s_b)))
    r = math.sqrt(_det(K_aa, K_bb, K_ab)) / (s_a * s_b)
    reach = {reach}
    outer_p, outer_h = np.empty(3 + {nf} + 3 * {ng}), np.empty(3 + {nf} + 3 * {ng})
    outer_p[0], outer_h[0] = 0.0, min(1.0, {step} / s_a)
    outer_p[1], outer_h[1] = 0.0, min(1.0, {step} / (s_b * max(abs(rho), 1e-3)))
    count = 2
    for k in range({nf}):
        outer_p[count], outer_h[count] = {name}_KF[k] / s_a, max(1e-12, min(1.0, {step} / s_a) * {name}_HF[k])
        count += 1
    if abs(rho) > 1e-3:
        for k in range({ng}):  # where a kink of g crosses the bulk of y
            outer_p[count] = {name}_KG[k] / (s_b * rho)
            outer_h[count] = max(1e-12, min(1.0, max(r, 1e-12) / abs(rho)) * {name}_HG[k])
            count += 1
        outer_p[count], outer_h[count] = 0.0, min(1.0, max(r, 1e-12) / abs(rho))
        count += 1
    outer = np.empty(4000)
    inner = np.empty(4000)
    phase = {wf} * s_a + {wg} * s_b * abs(rho) + 1e-9
    n_outer = {name}_edges(outer, outer_p, outer_h, count, reach, {periods} / phase)
    inner_p, inner_h = np.empty(2 + {ng}), np.empty(2 + {ng})
#<branch>
    close = 1.1e-14 * reach
#<plain>
#<end>
    total = 0.0
    for i in range(n_outer - 1):
        half_x = 0.5 * (outer[i + 1] - outer[i])
#<branch>
        at_f = {name}_touch(outer[i], outer[i + 1], {name}_BF, 0.0, s_a, close)
        at_g = 0
        if abs(rho) > 1e-3:
            at_g = {name}_touch(outer[i], outer[i + 1], {name}_BG, 0.0, s_b * rho, close)
#<plain>
#<end>
        for a in range(X.shape[0]):
#<branch>
            d = 0.0
            if at_f == 0 and at_g == 0:
                x = outer[i] + half_x * (1.0 + X[a])
                weight = W[a] * half_x
                f = {name}_f(s_a * x)
            else:
                u = 0.5 * (1.0 + X[a])
                weight = W[a] * half_x * {m_outer}.0 * u ** ({m_outer} - 1)
                d = 2.0 * half_x * u**{m_outer}
                if at_f < 0 or (at_f == 0 and at_g < 0):
                    d = -d
                    x = outer[i + 1] + d
                else:
                    x = outer[i] + d
                f = {name}_f_near(abs(at_f) - 1, s_a * d) if at_f != 0 else {name}_f(s_a * x)
#<plain>
            x = outer[i] + half_x * (1.0 + X[a])
            weight = W[a] * half_x
            f = {name}_f(s_a * x)
#<end>
            weight *= math.exp(-0.5 * x * x)
            if f == 0.0 or weight == 0.0:
                continue
            if r == 0.0:
#<branch>
                if at_g != 0 and (at_f == 0 or at_f * at_g > 0):
                    g = {name}_g_near(abs(at_g) - 1, s_b * rho * d)
                else:
                    g = {name}_g(s_b * rho * x)
#<plain>
                g = {name}_g(s_b * rho * x)
#<end>
                total += weight * f * g * 2.5066282746310002
                continue
            shift, s = s_b * rho * x, s_b * r
            inner_p[0], inner_h[0] = -shift / s, min(1.0, {step} / s)
            inner_p[1], inner_h[1] = {middle}, 1.0
            for k in range({ng}):
                inner_p[2 + k] = ({name}_KG[k] - shift) / s
                inner_h[2 + k] = max(1e-12, min(1.0, {step} / s) * {name}_HG[k])
            phase = {wg} * s + 1e-9
            n_inner = {name}_edges(inner, inner_p, inner_h, 2 + {ng}, reach, min({widest}, {periods} / phase))
            part = 0.0
            for j in range(n_inner - 1):
                half_y = 0.5 * (inner[j + 1] - inner[j])
#<branch>
                here = {name}_touch(inner[j], inner[j + 1], {name}_BG, shift, s, close)
                if here == 0:
                    for b in range(X.shape[0]):
                        y = inner[j] + half_y * (1.0 + X[b])
                        part += W[b] * half_y * math.exp(-0.5 * y * y) * {name}_g(shift + s * y)
                else:  # |z_b - b| = h u^m, and g evaluated in z_b - b
                    for b in range(X.shape[0]):
                        u = 0.5 * (1.0 + X[b])
                        d = 2.0 * half_y * u**{m_inner}
                        d = d if here > 0 else -d
                        y = d + (inner[j] if here > 0 else inner[j + 1])
                        v = W[b] * half_y * {m_inner}.0 * u ** ({m_inner} - 1)
                        part += v * math.exp(-0.5 * y * y) * {name}_g_near(abs(here) - 1, s * d)
#<plain>
                for b in range(X.shape[0]):
                    y = inner[j] + half_y * (1.0 + X[b])
                    part += W[b] * half_y * math.exp(-0.5 * y * y) * {name}_g(shift + s * y)
#<end>
            total += weight * f * part
    return total * 0.15915494309189535


"""


@dataclass(frozen=True)
class _Plan:
    """What the quadrature knows of f and g: kinks, which of them are branch points, panel scales, frequencies."""

    f: sp.Expr
    g: sp.Expr
    kinks: tuple[tuple[float, ...], tuple[float, ...]]
    branches: tuple[tuple[branches.Branch, ...], tuple[branches.Branch, ...]]
    m_inner: int
    m_outer: int
    rate: float
    step: float
    frequencies: tuple[float, float]
    limit: float


def _plan(node: Average) -> _Plan:
    pair = separate(node)
    kinks = tuple(
        tuple(sorted({float(b) for b in pieces(h, Z[0]).breaks} | set(_signed_centres(h)))) or (0.0,) for h in pair
    )
    sites = tuple(branches.branches(h) for h in pair)
    powers = [min([0.0, *(b.power for b in found)]) for found in sites]
    ms = [max([1, *(b.m for b in found)]) for found in sites]
    # at |c| = 1 both factors can branch at one place, and the powers add; there 0.15 is as near to -1 as is resolved
    both = math.ceil(4.5 / max(0.15, 1 + sum(powers)))
    frequencies, limit = _frequencies(pair)
    return _Plan(
        *pair,
        (kinks[0], kinks[1]),
        (sites[0], sites[1]),
        ms[1],
        max(*ms, both) if any(sites) else 1,
        max(quadrature.rule_for(h).rate for h in pair),
        min(_resolved(h)[0] for h in pair),
        frequencies,
        limit,
    )


def _resolved(h) -> tuple[float, float]:
    try:
        return quadrature.resolved(h)
    except InfiniteAverage:  # ⟨h²⟩ = ∞, as of |z|^(-3/5); ⟨h h⟩ is finite away from full correlation
        return 1.0, 0.0


def _frequencies(pair) -> tuple[tuple[float, float], float]:
    """The fastest phases of f and g for K up to a limit, which is ∞ where nothing oscillates."""
    rules = [quadrature.rule_for(h) for h in pair]
    if not any(r.fastest or r.slopes for r in rules):
        return (0.0, 0.0), math.inf
    best = (0.0, 0.0), 0.0
    for octave in range(-8, 20):
        K = 2.0**octave
        speeds = tuple(quadrature.fastest_phase(r, 9.0 * math.sqrt(K)) for r in rules)
        if 18.0 / PERIODS * sum(speeds) * math.sqrt(K) > PANELS:
            break
        best = (speeds[0], speeds[1]), K
    return best


@lru_cache(maxsize=2)
def _variant(branching: bool) -> str:
    """The template with the lines for branch points or, faster to compile, without."""
    keep, out = True, []
    for line in _TEMPLATE.splitlines():
        if line in ("#<branch>", "#<plain>", "#<end>"):
            keep = line == "#<end>" or (line == "#<branch>") == branching
        elif keep:
            out.append(line)
    return "\n".join(out) + "\n"


def _quadrature_text(plan: _Plan, name: str) -> str:
    parts = ""
    z = sp.Symbol("z", real=True)
    arrays: dict[str, list[float]] = dict(zip("XW", map(list, gauss_legendre(NODES))))
    for label, h, kinks, sites in zip("fg", (plan.f, plan.g), plan.kinks, plan.branches):
        p = pieces(h, Z[0])
        parts += f"def {name}_{label}(z):\n"
        for e, _, hi in p.intervals()[:-1]:
            parts += f"    if z < {float(hi)!r}:\n{printing.body(e.xreplace({Z[0]: z}), ' ' * 8)}"
        parts += printing.body(p.exprs[-1].xreplace({Z[0]: z})) + "\n\n"
        if not any(plan.branches):
            arrays |= {f"K{label.upper()}": list(kinks), f"H{label.upper()}": [1.0] * len(kinks)}
            continue
        # the same in z - b beside branch point k = b
        parts += f"def {name}_{label}_near(k, z):\n"
        for k, site in enumerate(sites):
            left, right = (e.xreplace({Z[0]: z}) for e in (site.left, site.right))
            parts += f"    if k == {k}:\n        if z < 0.0:\n{printing.body(left, ' ' * 12)}"
            parts += printing.body(right, " " * 8)
        parts += "    return 0.0 * z\n\n"
        places = {s.at for s in sites}
        arrays |= {f"K{label.upper()}": list(kinks), f"B{label.upper()}": [s.at for s in sites]}
        arrays[f"H{label.upper()}"] = [branches.NEAR if k in places else 1.0 for k in kinks]
    head = "".join(
        f"{name}_{k} = np.array({[float(t) for t in v]!r}{', dtype=np.float64' if not v else ''})\n"
        for k, v in arrays.items()
    )
    return (
        head
        + "\n\n"
        + parts
        + _variant(any(plan.branches)).format(
            name=name,
            nf=len(plan.kinks[0]),
            ng=len(plan.kinks[1]),
            reach=f"9.0 + {plan.rate!r} * max(s_a, s_b)" if plan.rate else "9.0",
            step=plan.step,
            m_outer=plan.m_outer,
            m_inner=plan.m_inner,
            wf=plan.frequencies[0],
            wg=plan.frequencies[1],
            periods=PERIODS,
            # an edge at y = 0 would cut the panel beside a branch point that is near; a largest width does not
            middle="-shift / s" if plan.branches[1] else "0.0",
            widest=2.0 if plan.branches[1] else 1e10,
        )
    )
