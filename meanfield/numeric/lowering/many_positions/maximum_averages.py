"""Averages over the largest of φ at n nodes for any φ: `MaximumAverage`, for one input and for two of any norms.

The largest lies below t with probability F(t)^n, F(t) = P(φ(z) ≤ t), and at two inputs below s and t with F₂(s, t)^n.
Where φ goes up and down {φ ≤ t} is a union of intervals between its branches' inverses, so that F is a sum of normal
probabilities, and everything is an integral over values, two-dimensional for two inputs and any n (Hoeffding):

    ⟨(M_a - M_b)²⟩ = 2∬_{s<t} [F_b(s)^n - F₂(t, s)^n + F_a(s)^n - F₂(s, t)^n],
    ∂⟨M_a M_b⟩/∂K_ab = n∬ F₂^{n-1} ∂F₂/∂K_ab.

F_b(s) - F₂ = P(φ_b ≤ s, φ_a > t) is summed up from rectangles off the diagonal, each a positive integral of its own, so
that close inputs lose nothing. Values between two turning points (or kinks) are run through by the place on a branch,
in which no inverse root of them is met. Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.base.symbols import K_aa, K_ab, K_bb, Z
from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering.averages import planes
from meanfield.numeric.lowering.modules.module_functions import DIRECT_WEIGHT, Functions, lowers
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import evaluation
from meanfield.numeric.quadrature.rules import gauss_legendre
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.nodes import group_functions
from meanfield.symbolic.averages.nodes.maxima import MaximumAverage

NEAREST = 1e-12  # 1 - c below which averages are followed to c = 1 by their powers of it
MOST = 80  # branches within reach: more of them limit K
REACH = 9.0
SAMPLES = (0.02, 1.0, 10.0)  # variances at which the rule is compared with a finer one
GAPS = (1.5, 0.7, 0.1, 1e-4, 1e-8, NEAREST)  # and 1 - c
USABLE = 1e-3  # a larger measured error is refused
FLOOR = 1e-13
TRIANGLES = 2e5  # what a call for two inputs costs at least, in layers of tables


def core(node: MaximumAverage, name: str) -> tuple[str, float]:
    """(source of `name_one(V, fine)` and `name_two(A, B, gap, negative, fine)`, the largest variance it reaches)."""
    f = pieces(node.function, Z[0])
    marks, before, after, reach = _branches(node.function)
    plan = planes.plan(_product(node))
    kinks = sorted({0.0, *plan.kinks[0]})
    arrays: dict[str, Iterable[float]] = {"B": marks, "L": before, "R": after, "P": kinks}
    for key, order in (("0", 10), ("1", 16)):
        arrays[f"X{key}"], arrays[f"W{key}"] = gauss_legendre(order)
    out = "".join(f"{name}_{k} = np.array({[float(t) for t in v]!r}, dtype=np.float64)\n" for k, v in arrays.items())
    out += "\n\n" + planes.function_text(f.expr, f"{name}_f") + planes.function_text(f.diff().expr, f"{name}_d")
    out += _CORE.format(name=name, n=node.nodes, reach=REACH, rate=2 * plan.rate, step=1.5 * min(plan.step, 1e3))
    return out, (reach / REACH) ** 2


def text(node: MaximumAverage, name: str, core: str) -> str:
    """Source of the function of a node by those of its `core`."""
    one = {group_functions.MEAN: 0, group_functions.SECOND: 1, group_functions.SLOPE: 2, group_functions.RADIAL: 3}
    if node.which in one:
        return f"def {name}(V):\n    return {core}_one(V, 0)[{one[node.which]}]\n"
    return {
        group_functions.PRODUCT: _PRODUCT,
        group_functions.SLOPES: _SLOPES,
        group_functions.RATIO: _DISTANCE_RATIO,
        group_functions.UNEQUAL_RATIO: _UNEQUAL_DISTANCE_RATIO,
        group_functions.DIFFERENCE: _RISE.replace(
            "NODES", repr(tuple((0.5 + 0.5 * float(x), 0.5 * float(w)) for x, w in _RULE))
        ),
    }[node.which].format(name=name, core=core, nearest=NEAREST, jumps=bool(pieces(node.function, Z[0]).jumps()))


_RULE = list(zip(*gauss_legendre(8)))


def error(node: MaximumAverage, source: str, name: str, limit: float) -> float:
    """The error of the rule at sample states: its largest difference from one with other nodes and finer panels.

    Raises: MeanFieldError where it does not see the averages.
    """
    one, two = (printing.compiled(source, f"{name}_{k}") for k in ("one", "two"))
    worst = FLOOR
    for V in (min(v, limit / 2) for v in SAMPLES):
        own, finer = np.array(one(V, 0)), np.array(one(V, 1))
        unit = np.array([math.sqrt(finer[1]), finer[1], finer[2], max(finer[1], abs(finer[3])), finer[4]])
        worst = max([worst, *np.abs(own - finer)[unit > 0] / unit[unit > 0]])
        states = [(V, V, gap, False) for gap in (GAPS if V == 1 else GAPS[1::4])]
        states += [(V, V, 0.3, True), (V, V / 2, 0.4, False)] if V == 1 else []
        for state in states:
            tick()
            own, finer = np.array(two(*state, 0)), np.array(two(*state, 1))
            size = np.array([finer[0], one(V, 1)[2]])
            worst = max([worst, *np.abs(own - finer)[size > 0] / size[size > 0]])
    if not worst < USABLE:
        raise MeanFieldError(
            f"{node} is too steep, or turns too often, for the panels of its values (measured error {worst:.0e}); it "
            "is derived, but not compiled."
        )
    return float(worst)


def _product(node: MaximumAverage):
    f = node.function
    return Average(Integrand(f * f.xreplace({Z[0]: Z[1]})), sp.Tuple(K_aa, K_ab, K_bb), sp.Tuple(0, 0), sp.Tuple())


@lru_cache(maxsize=64)
def _branches(phi: sp.Expr) -> tuple[list[float], list[float], list[float], float]:
    """(ends of branches on which φ is monotone: turning points, kinks and jumps; φ before and after each; how far |z|
    may go): turning points by a search, on a grid as fine as φ's own scale and its waves."""
    from scipy.optimize import brentq

    f = pieces(phi, Z[0])
    slope = f.diff().expr
    width = planes.resolved(phi)
    waves, _ = planes._frequencies((phi, phi))
    h = 0.05 * min(width, 1.0, 1.0 / max(waves[0], 1e-9))
    near = h * np.arange(1, 4001)
    far = near[-1] * np.geomspace(1.0, 1e6, 2001)[1:] if not waves[0] else np.empty(0)
    z = np.concatenate([near, far])
    z = np.concatenate([-z[::-1], [0.0], z])
    with np.errstate(all="ignore"):
        d = np.nan_to_num(np.asarray(evaluation.evaluate(slope, z), dtype=float))
    d[np.abs(d) < 1e-13 * np.max(np.abs(d[np.abs(z) < 10 * width]), initial=1e-300)] = 0.0
    breaks = [float(b) for b in f.breaks]
    kept = np.flatnonzero(d)
    marks = list(breaks)
    for i, j in pairwise(kept):
        if (d[i] < 0) != (d[j] < 0) and not any(z[i] < b < z[j] for b in breaks):
            def at(t: float) -> float:
                return float(evaluation.evaluate(slope, np.array([t]))[0])

            extremum = brentq(at, z[i], z[j], xtol=1e-15, rtol=8.9e-16)
            if all(abs(extremum - b) > 1e-9 * max(1.0, abs(b)) for b in breaks):  # else it is a kink on the grid
                marks.append(extremum)
    marks = sorted(marks)
    extrema = sorted(abs(m) for m in marks)
    reach = float(z[-1]) if len(extrema) < MOST else extrema[MOST - 1]
    marks = [m for m in marks if abs(m) <= reach]
    before, after = [], []
    for m in marks:
        sides = [value(f, m, side) for side in (-1, 1)]
        before.append(sides[0])
        after.append(sides[1])
    return marks, before, after, reach if waves[0] or len(extrema) >= MOST else math.inf


def value(f, m: float, side: int) -> float:
    """φ at m from one side."""
    k = next((i for i, b in enumerate(f.breaks) if float(b) == m), None)
    if k is None:
        return float(evaluation.evaluate(f.expr, np.array([m]))[0])
    piece = f.exprs[k + (side > 0)]
    try:
        found = complex(piece.subs(Z[0], f.breaks[k]).evalf(20))
        if math.isfinite(abs(found)):
            return found.real
    except (TypeError, ValueError):
        pass
    return float(sp.N(sp.limit(piece, Z[0], f.breaks[k], "+" if side > 0 else "-"), 20))


_CORE = """def {name}_inverse(t, lo, hi, v0, v1):
    # where the branch from lo to hi takes the value t, which lies between its ends' values
    up = v1 > v0
    x = 0.5 * (lo + hi)
    for _ in range(200):
        y = {name}_f(x) - t
        if (y > 0.0) == up:
            hi = x
        else:
            lo = x
        slope = {name}_d(x)
        new = x - y / slope if slope != 0.0 else lo
        if not lo < new < hi:
            new = 0.5 * (lo + hi)
        if abs(new - x) <= 2e-16 * abs(new) or not lo < new < hi:
            return new
        x = new
    return x


def {name}_edges(t, s, r, E):
    # places z/s at which phi crosses t, upwards or downwards by turns: (how many, whether phi <= t far on the left)
    n, lo, v0 = 0, -r, {name}_f(-r)
    left = v0 <= t
    state = left
    for k in range({name}_B.shape[0] + 1):
        last = k == {name}_B.shape[0] or {name}_B[k] >= r
        hi, v1 = r, 0.0
        if last:
            v1 = {name}_f(r)
        else:
            hi, v1 = {name}_B[k], {name}_L[k]
            if hi <= -r:
                continue
        if (v0 <= t) != state:
            E[n] = lo / s
            n += 1
            state = v0 <= t
        if (v1 <= t) != state:
            E[n] = {name}_inverse(t, lo, hi, v0, v1) / s
            n += 1
            state = v1 <= t
        if last:
            break
        lo, v0 = hi, {name}_R[k]
    return n, left


def {name}_inside(E, n, left, below):
    # the probability of phi <= t (below), or of phi > t
    total, low = 0.0, -40.0
    state = left == below
    for k in range(n + 1):
        high = E[k] if k < n else 40.0
        if state:
            total += _between(low, high)
        low, state = high, not state
    return total


def {name}_mass(Eb, nb, lb, Ea, na, la, gap, negative):
    # P(phi_b <= s, phi_a > t)
    total, a = 0.0, -40.0
    ib = lb
    wide = 9.3 * math.sqrt(2.0 * gap)
    for i in range(nb + 1):
        b = Eb[i] if i < nb else 40.0
        if ib and b > a:
            c = -40.0
            ja = not la
            for j in range(na + 1):
                d = Ea[j] if j < na else 40.0
                if ja and d > c and (negative or (c - b < wide and a - d < wide)):
                    right = c + d >= a + b  # else both are mirrored
                    for corner in range(4):  # the nearest first
                        h = (b if right else -a) if corner < 2 else (a if right else -b)
                        k = (c if right else -d) if corner % 2 == 0 else (d if right else -c)
                        part = _lost(h, k, gap, negative)
                        total += part if corner == 0 or corner == 3 else -part
                c, ja = d, not ja
        a, ib = b, not ib
    return max(total, 0.0)


def {name}_density(Eb, nb, lb, Ea, na, la, gap, negative):
    # of ends of intervals at both inputs, with their signs
    total, up_b = 0.0, not lb
    for i in range(nb):
        up_a = not la
        for j in range(na):
            x, y = Eb[i], -Ea[j] if negative else Ea[j]
            p = math.exp(-(x - y) ** 2 / (4.0 * gap) - (x + y) ** 2 / (8.0 - 4.0 * gap))
            total += p if up_b == up_a else -p
            up_a = not up_a
        up_b = not up_b
    return total * 0.15915494309189535 / math.sqrt(gap * (2.0 - gap))


def {name}_power(F, D):
    # F^n - (F - D)^n
    return F ** {n} * (1.0 if D >= F else -math.expm1({n} * math.log1p(-D / F))) if F > 0.0 else 0.0


def {name}_cells(r, low, high, at_low, at_high, rough):
    # ranges of values between those at ends of branches, each with the places on the branch that it takes most of;
    # rough: whether another branch turns at its lower, upper end; this is what it is run by; this one turns at an end
    W = np.empty(2 * {name}_B.shape[0] + 3)
    W[0], W[1], m = {name}_f(-r), {name}_f(r), 2
    for k in range({name}_B.shape[0]):
        if abs({name}_B[k]) < r:
            W[m], W[m + 1] = {name}_L[k], {name}_R[k]
            m += 2
    _sort(W, m)
    least, most = W[0], W[m - 1]
    if least < 0.0 < most:
        W[m] = 0.0
        m += 1
        _sort(W, m)
    n = 0
    for i in range(m - 1):
        a, b = W[i], W[i + 1]
        if not b - a > 1e-14 * (most - least) and not b - a > 1e-9 * max(abs(a), abs(b)):
            continue
        low[n], high[n], at_low[n], at_high[n], widest = a, b, a, b, -1.0
        z0, v0 = -r, {name}_f(-r)
        for k in range({name}_B.shape[0] + 1):
            last = k == {name}_B.shape[0] or {name}_B[k] >= r
            z1, v1 = r, 0.0
            if last:
                v1 = {name}_f(r)
            else:
                z1, v1 = {name}_B[k], {name}_L[k]
                if z1 <= -r:
                    continue
            if min(v0, v1) <= a and max(v0, v1) >= b:
                p = z0 if v0 == a else z1 if v1 == a else {name}_inverse(a, z0, z1, v0, v1)
                q = z0 if v0 == b else z1 if v1 == b else {name}_inverse(b, z0, z1, v0, v1)
                if abs(p - q) > widest:
                    widest, at_low[n], at_high[n] = abs(p - q), p, q
            if last:
                break
            z0, v0 = z1, {name}_R[k]
        rough[n, 2] = widest > 0.0
        for side in range(2):
            v, p = (b, at_high[n]) if side else (a, at_low[n])
            rough[n, side] = False
            for k in range({name}_B.shape[0]):
                if abs({name}_B[k]) < r and {name}_B[k] != p and (v == {name}_L[k] or v == {name}_R[k]):
                    rough[n, side] = True
            if widest > 0.0 and abs({name}_d(p)) < 1e-9:
                rough[n, side] = False
            h = 1e-7 * max(1.0, abs(p))
            rough[n, 3 + side] = widest > 0.0 and ({name}_f(p - h) < v) == ({name}_f(p + h) < v)
        n += 1
    return n


def {name}_panels(lo, hi, more, scales, n, rough, k, up, s, S, fine, near, edges):
    # panels over the places q, = z upwards or = -z, of a cell; near: how far apart two inputs are where it turns
    m = {name}_P.shape[0]
    points, widths = np.empty(n + m + 4), np.empty(n + m + 4)
    for i in range(n):
        points[i], widths[i] = more[i], scales[i]
    widest = (1.0 if fine else 1.4) * S / math.sqrt(1.0 + 0.3 * math.log({n}))
    own = min({step!r}, s) * (0.7 if fine else 1.0)
    for i in range(m):
        points[n + i], widths[n + i] = up * {name}_P[i], own
    n += m
    for side in range(2):
        if rough[k, side]:
            points[n], widths[n] = (hi if side else lo), (1e-7 if fine else 1e-6) * (hi - lo)
            n += 1
        if near > 0.0 and rough[k, 3 + side]:
            points[n], widths[n] = (hi if side else lo), near
            n += 1
    return _panels(lo, hi, points[:n], widths[:n], widest, edges)


def {name}_value(q, up, of_branch):
    return {name}_f(up * q) if of_branch else q


def {name}_one(V, fine):
    s = math.sqrt(max(V, 1e-290))
    r = s * ({reach!r} + {rate!r} * s)
    size = 2 * {name}_B.shape[0] + 4
    low, high, at_low, at_high = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    rough, E, edges = np.zeros((size, 5), dtype=np.bool_), np.empty(size), np.empty(400)
    X, W = ({name}_X1, {name}_W1) if fine else ({name}_X0, {name}_W0)
    cells = {name}_cells(r, low, high, at_low, at_high, rough)
    mean = second = slope = radial = along = 0.0
    if cells > 0:
        mean = max(low[0], 0.0) + min(high[cells - 1], 0.0)
        second = max(low[0], 0.0) ** 2 + min(high[cells - 1], 0.0) ** 2
    else:
        mean = {name}_f(0.0)
        second = mean * mean
    for k in range(cells):
        up = 1.0 if at_high[k] >= at_low[k] else -1.0
        n = {name}_panels(up * at_low[k], up * at_high[k], E, E, 0, rough, k, up, s, s, fine, 0.0, edges)
        for i in range(n - 1):
            half = 0.5 * (edges[i + 1] - edges[i])
            for j in range(X.shape[0]):
                q = edges[i] + half * (1.0 + X[j])
                v = {name}_value(q, up, rough[k, 2])
                w = half * W[j] * (abs({name}_d(up * q)) if rough[k, 2] else 1.0)
                m, left = {name}_edges(v, s, r, E)
                F, rest = {name}_inside(E, m, left, True), {name}_inside(E, m, left, False)
                whole = F ** {n}
                share = (-math.expm1({n} * math.log1p(-rest)) if rest < 1.0 else 1.0) if v > 0.0 else whole
                mean += w * (share if v > 0.0 else -share)
                second += 2.0 * w * abs(v) * share
                here = {n} * F ** ({n} - 1) * w * 0.3989422804014327
                lower = left
                for e in range(m):
                    x = E[e]
                    p = math.exp(-0.5 * x * x)
                    steep = abs({name}_d(x * s))
                    slope += here * p * steep / s
                    along += here * p * steep / s * x * x
                    radial += here * v * x * (p if lower else -p)
                    lower = not lower
    return mean, second, slope, radial, along


def {name}_triangle(sb, sa, gap, negative, fine):
    # twice the integral of F_b(s)^n - F_2^n, and that of n F_2^(n-1) dF_2/dc, over s < t
    S, least = max(sa, sb), min(sa, sb)
    r = S * ({reach!r} + {rate!r} * S)
    size = 2 * {name}_B.shape[0] + 4
    low, high, at_low, at_high = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    rough, Eb, Ea = np.zeros((size, 5), dtype=np.bool_), np.empty(size), np.empty(size)
    outer, inner, more, scales = np.empty(400), np.empty(400), np.empty(size), np.empty(size)
    X, W = ({name}_X1, {name}_W1) if fine else ({name}_X0, {name}_W0)
    cells = {name}_cells(r, low, high, at_low, at_high, rough)
    moved = slopes = 0.0
    wide = math.sqrt(2.0 * gap)
    for k in range(cells):
        up = 1.0 if at_high[k] >= at_low[k] else -1.0
        lo, hi = up * at_low[k], up * at_high[k]
        n = {name}_panels(lo, hi, more, scales, 0, rough, k, up, least, S, fine, S * wide, outer)
        for i in range((n - 1) * X.shape[0]):
            panel = i // X.shape[0]
            half = 0.5 * (outer[panel + 1] - outer[panel])
            q = outer[panel] + half * (1.0 + X[i - panel * X.shape[0]])
            v = {name}_value(q, up, rough[k, 2])
            own = abs({name}_d(up * q)) if rough[k, 2] else 1.0
            w = half * W[i - panel * X.shape[0]] * own
            nb, lb = {name}_edges(v, sb, r, Eb)
            F = {name}_inside(Eb, nb, lb, True)
            if not F > 0.0:
                continue
            ratio = 1.0
            for e in range(nb):
                ratio = min(ratio, abs({name}_d(Eb[e] * sb)) / max(own, 1e-300))
            near = wide * max(ratio, math.sqrt(gap))
            over = False
            for j in range(k, cells):
                way = 1.0 if at_high[j] >= at_low[j] else -1.0
                start, end = (q if j == k else way * at_low[j]), way * at_high[j]
                more[0], scales[0], count = start, max(sa * near, 1e-14 * (abs(start) + least)), 1
                if sa != sb:  # where an end of the one input meets one of the other
                    for e in range(nb):
                        t = {name}_f(Eb[e] * sa)
                        if max(low[j], v) < t < high[j]:
                            p = t
                            if rough[j, 2]:
                                p = {name}_inverse(t, min(at_low[j], at_high[j]), max(at_low[j], at_high[j]),
                                    low[j] if way > 0.0 else high[j], high[j] if way > 0.0 else low[j])
                            more[count], scales[count] = way * p, scales[0]
                            count += 1
                m = {name}_panels(start, end, more, scales, count, rough, j, way, least, S, fine, S * wide, inner)
                for h in range((m - 1) * X.shape[0]):
                    part = h // X.shape[0]
                    width = 0.5 * (inner[part + 1] - inner[part])
                    p = inner[part] + width * (1.0 + X[h - part * X.shape[0]])
                    t = {name}_value(p, way, rough[j, 2])
                    u = w * width * W[h - part * X.shape[0]] * (abs({name}_d(way * p)) if rough[j, 2] else 1.0)
                    na, la = {name}_edges(t, sa, r, Ea)
                    D = {name}_mass(Eb, nb, lb, Ea, na, la, gap, negative)
                    dense = {name}_density(Eb, nb, lb, Ea, na, la, gap, negative)
                    moved += 2.0 * u * {name}_power(F, D)
                    slopes += u * dense * {n} * max(F - D, 0.0) ** ({n} - 1)
                    if D <= 1e-18 * wide * F and abs(dense) <= 1e-18:
                        over = True
                        break
                if over:
                    break
    return moved, slopes / (sa * sb)


def {name}_two(A, B, gap, negative, fine):
    # <(M_a - M_b)^2> and d<M_a M_b>/dK_ab; gap: 1 - |c|
    a, b, gap = math.sqrt(max(A, 1e-290)), math.sqrt(max(B, 1e-290)), max(gap, 1e-14)
    if gap >= 1.0 and not negative:  # c = 1 - gap <= 0
        gap, negative = max(2.0 - gap, 1e-14), True
    moved = slopes = 0.0
    for side in range(2):
        own, more = {name}_triangle(b if side == 0 else a, a if side == 0 else b, gap, negative, fine)
        moved, slopes = moved + own, slopes + more
        if a == b:
            return 2.0 * moved, 2.0 * slopes
    return moved, slopes


"""
_GAP = "gap = _closeness(K_aa, K_ab, K_bb, sine2)"
_PRODUCT = f"""def {{name}}(K_aa, K_ab, K_bb, sine2):
    {_GAP}
    moved = {{core}}_two(K_aa, K_bb, gap, K_ab < 0.0, 0)[0]
    return 0.5 * ({{core}}_one(K_aa, 0)[1] + {{core}}_one(K_bb, 0)[1] - moved)
"""
# closer than `nearest` by the first two powers of 1 - c, 0 and a half; of what jumps there is -1/2 alone
_SLOPES = f"""def {{name}}(K_aa, K_ab, K_bb, sine2):
    {_GAP}
    if K_aa != K_bb or K_ab < 0.0 or gap >= {{nearest!r}}:
        return {{core}}_two(K_aa, K_bb, gap, K_ab < 0.0, 0)[1]
    near = {{core}}_two(K_aa, K_bb, {{nearest!r}}, False, 0)[1]
    if {{jumps}}:
        return near * math.sqrt({{nearest!r}} / gap) if gap > 0.0 else math.inf
    slope = {{core}}_one(K_aa, 0)[2]
    return slope + (near - slope) * math.sqrt(gap / {{nearest!r}})
"""
_DISTANCE_RATIO = """def {name}(V, apart):
    gap = min(0.5 * apart / max(V, 1e-290), 2.0)
    if gap >= {nearest!r}:
        return {core}_two(V, V, gap, False, 0)[0] / apart
    near = {core}_two(V, V, {nearest!r}, False, 0)[0] / (2.0 * {nearest!r} * max(V, 1e-290))
    if {jumps}:
        return near * math.sqrt({nearest!r} / gap) if gap > 0.0 else math.inf
    slope = {core}_one(V, 0)[2]
    return slope + (near - slope) * math.sqrt(gap / {nearest!r})
"""
_UNEQUAL_DISTANCE_RATIO = """def {name}(A, B, apart, norm_angle):
    s, t = math.sqrt(max(A, 1e-290)), math.sqrt(max(B, 1e-290))
    norms, turns = math.sin(norm_angle) ** 2, _cos(norm_angle) ** 2
    if apart < 2e-14 * s * t:
        here = {core}_one(A, 0)
        return norms * here[4] + turns * here[2]
    gap = min(0.5 * turns * apart / (s * t), 2.0)
    return {core}_two(A, B, gap, False, 0)[0] / apart
"""
_RISE = """def {name}(A, B):
    low, high = max(min(A, B), 1e-290), max(A, B, 1e-290)
    if high > 1.5 * low:
        return ({core}_one(high, 0)[1] - {core}_one(low, 0)[1]) / (high - low)
    total = 0.0
    for u, w in NODES:
        V = low + u * (high - low)
        total += w * {core}_one(V, 0)[3] / V
    return total
"""


@lowers(MaximumAverage)
def _lowered(functions: Functions, shape: MaximumAverage, written: Sequence[sp.Expr]) -> None:
    key = sp.Tuple(shape.args[0], shape.args[1])  # what its averages have in common
    if key not in functions.names:
        shared = functions.name(key, "nodes")
        source, limit = core(shape, shared)
        missed = error(shape, source, shared, limit)
        note = f"{shared} = max over {shape.nodes} nodes of {shape.function}: panels of its values, error {missed:.0e}"
        functions.add(shared, source, note, missed, 0.0, limit)
    shared = functions.names[key]
    of_two = len(shape.variables) == 3
    name = functions.name(shape, "pair" if of_two else "group")
    cost = TRIANGLES if shape.which > group_functions.RADIAL else DIRECT_WEIGHT
    functions.add(name, text(shape, name, shared), f"{name} = {shape}", 0.0, cost, sine2=of_two)
