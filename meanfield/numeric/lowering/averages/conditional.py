"""Two-input averages of functions with branch points (|z|^p): conditional panel quadrature.

z_a = s_a x outside, z_b = s_b (ρ x + r y) inside, ρ = c, r² = sine2. Panels are graded dyadically towards every
point where the integrand is steep: the kinks, 0 (scale 1 in z), and, outside, where a kink of g passes through the bulk
of y. A panel that touches a branch point is integrated in a power of its distance (`branches`); where f or g
oscillates, no panel holds more than a period, which limits K. `pair_check` measures the error.
"""

from __future__ import annotations

import sympy as sp

from meanfield.base.symbols import Z
from meanfield.numeric.lowering.averages.planes import NODES, PERIODS, PanelPlan, function_text
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature import branches
from meanfield.numeric.quadrature.rules import gauss_legendre

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


def {name}_touch(lo, hi, branch, shift, scale, close):
    # k + 1 where branch point k is the lower end of a panel, -(k + 1) where it is the upper end, else 0
    for k in range(branch.shape[0]):
        p = (branch[k] - shift) / scale
        if abs(lo - p) <= close:
            return k + 1
        if abs(hi - p) <= close:
            return -(k + 1)
    return 0


def {name}_quadrature(K_aa, K_ab, K_bb, sine2):
    X, W = {name}_X, {name}_W
    s_a, s_b = max(math.sqrt(K_aa), 1e-150), max(math.sqrt(K_bb), 1e-150)
    rho, r = max(-1.0, min(1.0, K_ab / (s_a * s_b))), math.sqrt(sine2)
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
    close = 1.1e-14 * reach
    total = 0.0
    for i in range(n_outer - 1):
        half_x = 0.5 * (outer[i + 1] - outer[i])
        at_f = {name}_touch(outer[i], outer[i + 1], {name}_BF, 0.0, s_a, close)
        at_g = 0
        if abs(rho) > 1e-3:
            at_g = {name}_touch(outer[i], outer[i + 1], {name}_BG, 0.0, s_b * rho, close)
        for a in range(X.shape[0]):
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
            weight *= math.exp(-0.5 * x * x)
            if f == 0.0 or weight == 0.0:
                continue
            if r == 0.0:
                if at_g != 0 and (at_f == 0 or at_f * at_g > 0):
                    g = {name}_g_near(abs(at_g) - 1, s_b * rho * d)
                else:
                    g = {name}_g(s_b * rho * x)
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
            total += weight * f * part
    return total * 0.15915494309189535


"""


def text(plan: PanelPlan, name: str) -> str:
    """Source of `name_quadrature(K_aa, K_ab, K_bb, sine2)`."""
    parts = ""
    z = sp.Symbol("z", real=True)
    arrays: dict[str, list[float]] = dict(zip("XW", map(list, gauss_legendre(NODES))))
    for label, h, kinks, sites in zip("fg", (plan.f, plan.g), plan.kinks, plan.branches):
        parts += function_text(h, f"{name}_{label}")
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
        + _TEMPLATE.format(
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
