r"""Critical line and critical points of an architecture: where χ_J = 1, and where χ_K = 1, too.

F(K) = K and χ_J(K) = 1 are linear in (σ_w², σ_b²) for every block with one Dense, so the line is a curve with parameter
K*; where it is a ray, a vertical line, or invertible in closed form, it is given so. On the line of a block without
LayerNorm χ_K - χ_J is σ_w²⟨f f″⟩_K (Stein's lemma), whose zeros Descartes' rule counts: critical points are certified
and complete. Source: derived here; [partial_jacobians] § 2.1 for the definitions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from meanfield import balls
from meanfield.architecture import Block
from meanfield.piecewise import Pieces, pieces
from meanfield.results import MeanFieldError, Solution, Status
from meanfield.symbolic.average import Average, average
from meanfield.symbolic.blocks import one_input, plain_form
from meanfield.symbolic.depth import DepthLaw, critical_law, depth_law
from meanfield.symbolic.expansion import at_zero
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.roots import Root, brackets, from_ball, refine, value_at
from meanfield.symbolic.signs import Masses, changes
from meanfield.symbols import J, K, Z, parameter, sigma_b, sigma_w

DIGITS = 30
_MU = parameter("mu")


@dataclass(frozen=True)
class CriticalLine:
    """The set of (σ_w, σ_b) with χ_J* = 1.

    kind: "closed" (σ_b as a function of σ_w), "ray" (σ_b proportional to σ_w), "vertical" (one σ_w, any σ_b),
    "parametric" (σ_w and σ_b as functions of the fixed point K), "everywhere" (every point is critical), "none".
    sigma_w, sigma_b: expressions in K for a parametric line (averages are nodes); for the other kinds sigma_b is an
    expression in the symbol sigma_w, and sigma_w, where it is not free, a constant. parametric: (σ_w², σ_b²) as
    functions of K, also where a closed form is known.
    """

    kind: str
    sigma_w: sp.Expr | None
    sigma_b: sp.Expr | None
    message: str
    parametric: tuple[sp.Expr, sp.Expr] | None = None
    chi_K: sp.Expr | None = None  # along the line, as a function of K

    def at(self, k: object) -> tuple[Solution, Solution]:
        """(σ_w, σ_b) of the point with K* = k."""
        if self.parametric is None:
            raise MeanFieldError(f"This critical line has no parameter K: {self.message}")
        values = [balls.certified(e.subs(K, sp.sympify(k)), DIGITS) for e in self.parametric]
        if values[1] < 0:
            raise MeanFieldError(f"At K* = {k} the critical line would need σ_b² = {float(values[1].mid()):.6g} < 0.")
        with balls.precision(160):
            return tuple(from_ball((v if not v.contains(0) else abs(v)).sqrt()) for v in values)  # type: ignore[return-value]

    def sigma_b_at(self, value: object) -> tuple[tuple[Solution, Solution], ...]:
        """((σ_b, K*), …) of the points of the line at σ_w = value, by increasing K*; empty where there is none."""
        value = sp.Rational(str(value)) if not isinstance(value, sp.Expr) else value
        if self.kind == "none":
            return ()
        if self.kind == "vertical":
            raise MeanFieldError("This critical line is vertical: σ_w is one number and σ_b is free.")
        if self.kind in ("everywhere",):
            raise MeanFieldError("Every point is critical here; there is no line.")
        if self.kind == "ray" or self.parametric is None:
            b = self.sigma_b.subs(sigma_w, value)  # type: ignore[union-attr]
            number = b if not b.has(Average) else from_ball(balls.certified(b, DIGITS)).value
            return ((Solution(number, Status.EXACT if not b.has(Average) else Status.CERTIFIED), _no_k()),)
        s, b = self.parametric
        gap = _cleared(s - value**2)
        out = []
        for bracket in brackets(gap, _count(gap)):
            root = refine(gap, bracket, DIGITS)
            square = value_at(b, root, DIGITS)
            with balls.precision(160):
                if square < 0:
                    continue
                out.append((from_ball((square if not square.contains(0) else abs(square)).sqrt()), root.solution()))
        return tuple(out)

    def __str__(self) -> str:
        if self.kind in ("everywhere", "none"):
            return f"critical line: {self.message}"
        if self.kind == "vertical":
            return f"critical line: sigma_w = {self.sigma_w}   ({self.message})"
        if self.kind == "parametric":
            return f"critical line: sigma_w = {self.sigma_w}, sigma_b = {self.sigma_b}   ({self.message})"
        return f"critical line: sigma_b = {self.sigma_b}   ({self.message})"


@dataclass(frozen=True)
class CriticalPoint:
    """A point (σ_w, σ_b) with χ_J = χ_K = 1 at the fixed point K*.

    kind: "scale-invariant" (every K is fixed), "power law" (K* attracts, δK ~ A l^{-ζ_K}), "logarithmic" (δK falls as
    1/log l), "half-stable" (attracts from one side), "repelling" (K* = 0 attracts nothing). order: n of δK' = δK -
    c_n δKⁿ; c_n (> 0 attracts from above), d_1 = -dχ_J/dK; A, zeta_K; zeta: J ~ l^{-zeta} (None where J is a
    stretched exponential or K* attracts nothing). law_K, law_J: the laws with their next orders, for a start in the
    basin.
    """

    K: Solution
    sigma_w: Solution
    sigma_b: Solution
    kind: str
    order: sp.Expr | None = None
    c_n: Solution | None = None
    d_1: Solution | None = None
    A: Solution | None = None
    zeta_K: sp.Expr | None = None
    zeta: Solution | None = None
    law_K: DepthLaw | None = None
    law_J: DepthLaw | None = None
    side: str = ""

    def __str__(self) -> str:
        def text(s):
            short = s.value.free_symbols or (s.status is Status.EXACT and len(str(s.value)) < 40)
            return str(s.value) if short else f"{float(s.value):.13g}"

        line = f"critical point: sigma_w = {text(self.sigma_w)}, sigma_b = {text(self.sigma_b)}, K* = {text(self.K)}"
        line += f"   ({self.kind}{', ' + self.side if self.side else ''})"
        if self.zeta is not None:
            line += f", zeta = {text(self.zeta)}"
        return line


@dataclass(frozen=True)
class CriticalPoints:
    """The critical points by increasing K*, with the status of the claim that there are no others."""

    points: tuple[CriticalPoint, ...]
    status: Status
    message: str

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self):
        return iter(self.points)

    def __getitem__(self, i: int) -> CriticalPoint:
        return self.points[i]

    def __str__(self) -> str:
        return "\n".join([*map(str, self.points), f"({self.status.value}: {self.message})"])


def _no_k() -> Solution:
    return Solution(sp.nan, Status.NOT_UNIQUE, None, "K* follows from sigma_w and sigma_b")


# ---------------------------------------------------------------------------------------------------------- the line


@lru_cache(maxsize=256)
def critical_line(block: Block) -> CriticalLine:
    """The critical line of an architecture whose activation has no free parameters (μ may be symbolic, then μ < 1)."""
    recursion = one_input(block).only("K", "J")
    if recursion["J"].has(sp.oo):
        return CriticalLine("none", None, None, "φ jumps, so chi_J is infinite everywhere")
    rest = sp.Dummy("m", positive=True)  # 1 - μ² where μ is a symbol, taken to be < 1
    step, chi = (e.subs(_MU, sp.sqrt(1 - rest)) for e in (recursion["K"], sp.diff(recursion["J"], J)))
    found = _line(recursion, step, chi)
    back = {rest: 1 - _MU**2}

    def put(e):
        return None if e is None else e.subs(back)

    return replace(
        found,
        sigma_w=put(found.sigma_w),
        sigma_b=put(found.sigma_b),
        message=found.message.replace("_m", "(1 - mu**2)"),
        parametric=None if found.parametric is None else tuple(map(put, found.parametric)),  # type: ignore[arg-type]
        chi_K=put(found.chi_K),
    )


def _line(recursion: Recursion, step: sp.Expr, chi: sp.Expr) -> CriticalLine:
    gain = sp.expand(step - K)
    if not gain.has(K) or _never_fixed(gain):
        return _without_fixed_point(recursion, step, chi)
    if not closed(chi).has(K):
        return _vertical(chi)
    s, b = sp.Dummy("s", positive=True), sp.Dummy("b", nonnegative=True)
    nodes = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(step.atoms(Average) | chi.atoms(Average), key=str))}
    back = {v: n for n, v in nodes.items()}

    def numerator(e):
        flat = e.xreplace(nodes).subs({sigma_w: sp.sqrt(s), sigma_b: sp.sqrt(b)})
        return sp.numer(sp.together(flat))

    if not step.free_symbols:  # LayerNorm at the end of the block: K is the same number from layer 2 on
        flat = sp.together(chi.subs(K, step).subs({sigma_w: sp.sqrt(s), sigma_b: sp.sqrt(b)}) - 1)
        found = sp.solve(sp.numer(flat), b)
        return _ray(sp.simplify(found[0] / s) if found else None, s)
    equations = [sp.expand(numerator(e)) for e in (step - K, chi - 1)]
    if any(sp.Poly(e, s, b).total_degree() > 1 for e in equations if e.has(s, b)):
        raise MeanFieldError(
            "The critical line of this block is not linear in (σ_w², σ_b²) (it holds several Dense layers); ask for "
            "fixed_points(...) or phase_diagram(...) at given values."
        )
    solved = sp.solve(equations, [s, b], dict=True)
    if not solved:
        return CriticalLine("none", None, None, "chi_J = 1 has no solution at a fixed point")
    s_of_k, b_of_k = (sp.simplify(solved[0][v]).xreplace(back) for v in (s, b))
    ratio = sp.simplify(b_of_k / s_of_k)
    if not ratio.has(K):
        return _ray(ratio, s, (s_of_k, b_of_k))
    return _curve(step, s_of_k, b_of_k)


def _never_fixed(gain) -> bool:
    """K' > K for all σ's (μ = 1)."""
    from meanfield.symbolic.depth import _grows_always

    return _grows_always(gain)


def _without_fixed_point(recursion: Recursion, step, chi) -> CriticalLine:
    if sp.expand(step - K) == 0:
        return CriticalLine("none", None, None, "K' = K: there is nothing to tune")
    try:
        law = depth_law(recursion, "J", {})
    except MeanFieldError as error:
        return CriticalLine("none", sp.S.Zero, sp.S.Zero, f"K grows without bound everywhere; {error}")
    if law.rate == 0:
        return CriticalLine(
            "everywhere", None, None, f"K grows without bound and chi_J - 1 ~ p/l: J ~ l^p with p = {law.exponent}"
        )
    if law.rate_power != 1:
        return CriticalLine(
            "none", sp.S.Zero, sp.S.Zero, f"K grows without bound everywhere, log J ~ {law.rate}*l^{law.rate_power}: only "
            "(0, 0) would be critical"
        )
    return CriticalLine(
        "none", sp.S.Zero, sp.S.Zero, f"K grows without bound and log J ~ {law.rate}*l everywhere: only (0, 0) would be "
        "critical"
    )


def _vertical(chi) -> CriticalLine:
    """χ_J does not depend on K: a homogeneous φ of degree 1."""
    s = sp.Dummy("s", positive=True)
    found = sp.solve(closed(chi).subs(sigma_w, sp.sqrt(s)) - 1, s)
    if not found:
        return CriticalLine("none", None, None, "chi_J does not depend on the parameters")
    return CriticalLine(
        "vertical", sp.sqrt(sp.simplify(found[0])), None, "any sigma_b; with sigma_b > 0 K grows by sigma_b^2 a layer"
    )


def _ray(ratio, s, parametric=None) -> CriticalLine:
    """σ_b² = ratio·σ_w²; the same for every fixed point, because LayerNorm hides K."""
    if ratio is None or ratio.has(s, sigma_w):
        return CriticalLine("none", None, None, "chi_J = 1 has no solution at a fixed point")
    shown = sp.simplify(closed(ratio))
    if not shown.free_symbols:
        value = balls.certified(ratio, 30) if ratio != 0 else None
        if value is not None and value < 0:
            return CriticalLine("none", None, None, f"chi_J < 1 everywhere (it would need σ_b² = {float(value.mid()):.6g} σ_w²)")
    sigma = sp.sqrt(shown) * sigma_w if not shown.has(Average) else sp.sqrt(ratio) * sigma_w
    return CriticalLine("ray", None, sigma, "K is at its fixed point from layer 2 on, so the whole line is critical")


def _curve(step, s_of_k, b_of_k) -> CriticalLine:
    chi_k = sp.diff(step, K).subs({sigma_w: sp.sqrt(s_of_k), sigma_b: sp.sqrt(b_of_k)})
    s_closed, b_closed = closed(s_of_k), closed(b_of_k)
    parametric = (s_of_k, b_of_k)
    message = "parameter: the fixed point K; the part with sigma_b^2 >= 0 counts"
    inverse = _inverse(s_closed)
    if inverse is not None and not b_closed.has(Average):
        square = sp.simplify(b_closed.subs(K, inverse))
        start = sp.simplify(sp.sqrt(s_closed.subs(K, 0)))
        return CriticalLine("closed", None, sp.sqrt(square), f"for sigma_w >= {start}", parametric, chi_k)
    return CriticalLine("parametric", sp.sqrt(s_closed), sp.sqrt(b_closed), message, parametric, chi_k)


def _inverse(s_closed):
    """K as a function of σ_w from σ_w² = s(K), for s algebraic in K with one positive solution."""
    if s_closed.has(Average) or any(f.has(K) for f in s_closed.atoms(sp.Function)):
        return None
    found = sp.solve(s_closed - sigma_w**2, K)
    return sp.simplify(found[0]) if len(found) == 1 else None


def _cleared(e: sp.Expr) -> sp.Expr:
    """The numerator of e, averages taken as symbols."""
    nodes = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(e.atoms(Average), key=str))}
    top = sp.expand(sp.numer(sp.together(e.xreplace(nodes))))
    return top.xreplace({v: n for n, v in nodes.items()})


def _count(expr: sp.Expr) -> int | None:
    """Descartes' bound for an expression linear in averages."""
    from meanfield.symbolic.fixed_points import integrand

    g = integrand(expr)
    return None if g is None else changes(g)


# -------------------------------------------------------------------------------------------------------- the points


def curvature(f: sp.Expr) -> tuple[sp.Expr, Masses]:
    """(G, masses) with ⟨G⟩_K + Σ w p_K(b) = d⟨f²⟩/dK - ⟨f′²⟩: G = f f″, and w = f(b)·(jump of f′ at b)."""
    p = pieces(f, Z[0])
    slope = p.diff()
    bend = slope.diff()
    g = Pieces(Z[0], p.breaks, tuple(a * b for a, b in zip(p.exprs, bend.exprs))).expr
    jumps = dict(slope.jumps())
    masses = tuple((b, sp.simplify(e.subs(Z[0], b) * jumps[b])) for b, e in zip(p.breaks, p.exprs) if b in jumps)
    return g, tuple((b, w) for b, w in masses if w != 0)


@lru_cache(maxsize=256)
def critical_points(block: Block) -> CriticalPoints:
    """All critical points of an architecture, see `Theory.critical_points`."""
    form = plain_form(block)
    line = critical_line(block)
    if form is None:
        if line.kind == "everywhere":
            message = "every point is critical: " + line.message
        elif line.kind == "none":
            message = "no critical line: " + line.message
        else:
            message = "K does not decide: every point of the critical line is critical (" + line.message + ")"
        return CriticalPoints((), Status.EXACT, message)
    f, mu = form
    if pieces(f, Z[0]).jumps():
        return CriticalPoints((), Status.EXACT, "φ jumps, so chi_J is infinite everywhere")
    if line.kind == "none":
        return CriticalPoints((), Status.EXACT, line.message)
    found = _at_origin(block, f, mu)
    g, masses = curvature(f)
    most = changes(g, masses)
    p = pieces(f, Z[0])
    a = average(p.map(lambda e: e**2).expr, K)
    slope = average(p.diff().map(lambda e: e**2).expr, K)
    density = [w * sp.exp(-(b**2) / (2 * K)) / sp.sqrt(2 * sp.pi * K) for b, w in masses]
    gap = sp.Add(average(g, K), *density)  # d⟨f²⟩/dK - ⟨f′²⟩ as one node
    skipped = 0
    if gap != 0 and most != 0:
        for bracket in brackets(gap, most):
            root = refine(gap, bracket, DIGITS)
            exact = _exact_root(gap, root)
            root = Root(root.lo, root.hi, exact, root.rising)
            if value_at(K * slope - a, root, 20) < 0:
                skipped += 1  # σ_b² would be negative
                continue
            found.append(_at_root(root, a, slope, mu))
    count = len(found) + skipped
    positive = sum(q.kind == "half-stable" for q in found) + skipped
    if most is None:
        return CriticalPoints(
            tuple(found), Status.MEASURED, "K from 1e-12 to 1e12 was searched; a close pair may be missed"
        )
    left = f"{skipped} of them with σ_b² < 0; " if skipped else ""
    if positive == most or gap == 0 or (most == 1 and _settled_without(gap, g, masses)):
        message = f"{left}at most {most} at K > 0 by Descartes' rule, {positive} certified: there are no others"
        return CriticalPoints(tuple(found), Status.CERTIFIED if count else Status.EXACT, message)
    message = f"{left}at most {most} at K > 0 by Descartes' rule, {positive} found between K = 1e-12 and 1e12"
    return CriticalPoints(tuple(found), Status.MEASURED, message)


def _settled_without(gap, g, masses) -> bool:
    """One sign change and no root seen: there is none if ∫G has the sign that ⟨G⟩ has at K → 0 (its limit at K → ∞)."""
    from meanfield.symbolic.moments import moment
    from meanfield.symbolic.roots import sign_at

    try:
        total = moment(g, 0)
        value = balls.certified(total, 20) + sum((balls.constant(w) for _, w in masses), balls.arb(0))
    except MeanFieldError:
        return False
    return not value.contains(0) and (value > 0) == (sign_at(gap, sp.S.One) > 0)


def _at_origin(block: Block, f, mu) -> list[CriticalPoint]:
    """K* = 0: f(0) = 0 with slopes that are not both 0, at σ_w² = (1 - μ²)/⟨f′²⟩_{0}, σ_b = 0."""
    p = pieces(f, Z[0])
    right = next(e for e, lo, hi in p.intervals() if lo <= 0 < hi)
    left = next(e for e, lo, hi in p.intervals() if lo < 0 <= hi)
    if sp.simplify(right.subs(Z[0], 0)) != 0 or sp.simplify(left.subs(Z[0], 0)) != 0:
        return []
    square = sp.simplify(sum(e.diff(Z[0]).subs(Z[0], 0) ** 2 for e in (left, right)) / 2)
    if square == 0:
        return []
    s = sp.simplify((1 - mu**2) / square)
    recursion = one_input(block).only("K", "J").subs({sigma_w: sp.sqrt(s), sigma_b: 0})
    where = [Solution(v, Status.EXACT) for v in (sp.S.Zero, sp.sqrt(s), sp.S.Zero)]
    step, chi = recursion["K"], sp.diff(recursion["J"], J)
    gain = sp.expand(step - K)
    if sp.expand(closed(gain)) == 0:
        zero = Solution(sp.S.Zero, Status.EXACT)
        free = Solution(K, Status.EXACT, None, "every K is fixed")
        return [CriticalPoint(free, *where[1:], kind="scale-invariant", zeta_K=sp.S.Zero, zeta=zero)]
    law = at_zero(gain, 3)
    terms = [t for t in law.terms if sp.simplify(t.coefficient) != 0]
    if not terms:
        from meanfield.symbolic.depth import _logarithmic

        laws = (_logarithmic(step, chi, q) for q in "KJ")
        return [CriticalPoint(*where, "logarithmic", None, None, None, None, sp.S.Zero, None, *laws)]
    n, lead = terms[0].power, sp.simplify(terms[0].coefficient)
    if 2 * n - 1 > 3:
        law = at_zero(gain, int(sp.ceiling(2 * n - 1)))
    series = {t.power: sp.simplify(t.coefficient) for t in law.terms if sp.simplify(t.coefficient) != 0}
    chis = {t.power: t.coefficient for t in at_zero(chi, max(3, int(sp.ceiling(n - 1)))).terms}
    d_1 = Solution(sp.simplify(-chis.get(sp.S.One, sp.S.Zero)), Status.EXACT)
    c_n = Solution(-lead, Status.EXACT)
    if not _negative(lead):
        return [CriticalPoint(*where, "repelling", n, c_n, d_1, side="K* = 0 attracts nothing")]
    law_k, law_j = (critical_law(series, chis, sp.S.Zero, q) for q in "KJ")
    zeta = Solution(-law_j.exponent, Status.EXACT) if law_j.rate == 0 and law_j.exponent is not None else None
    amplitude = Solution(law_k.law.leading.coefficient, Status.EXACT)
    return [CriticalPoint(*where, "power law", n, c_n, d_1, amplitude, 1 / (n - 1), zeta, law_k, law_j, "attracts from above")]


def _negative(e: sp.Expr) -> bool:
    """Sign of a coefficient; (1 - μ²) counts as positive."""
    return bool(balls.certified(e.subs(_MU, sp.Rational(1, 3)), 20) < 0)


def _at_root(root: Root, a, slope, mu) -> CriticalPoint:
    """A critical point at K* > 0: with c₂ = -F″/2 ≠ 0 it attracts from one side only."""
    s = (1 - mu**2) / slope
    b = (1 - mu**2) * (K - a / slope)
    second, third = sp.diff(a, K, 2), sp.diff(a, K, 3)
    first, bend = sp.diff(slope, K), sp.diff(slope, K, 2)

    def at(e, square_root=False, exact=False) -> Solution:
        """The value at the root; the factor (1 - μ²) may be symbolic and stays outside the ball."""
        outer, inner = e.as_independent(K, Average, as_Add=False)
        if exact and root.exact is not None and not closed(inner).has(Average):
            value = outer * (closed(inner) if square_root else sp.simplify(closed(inner))).subs(K, root.exact)
            return Solution(sp.sqrt(value) if square_root else sp.radsimp(sp.simplify(value)), Status.EXACT)
        ball = value_at(inner, root, DIGITS)
        with balls.precision(200):
            found = from_ball((ball if not square_root else ball.sqrt()))
        factor = sp.sqrt(outer) if square_root else outer
        if factor.is_number:
            with balls.precision(200):
                return from_ball(balls.constant(factor) * (ball.sqrt() if square_root else ball))
        return Solution(factor * found.value, found.status, found.error, "times the symbolic factor")

    m = 1 - mu**2
    c2, c3 = at(-m * second / slope / 2), at(-m * third / slope / 6)
    d1, d2 = at(-m * first / slope), at(m * bend / slope / 2)
    zeta = at(2 * first / second, exact=True)
    positive = balls.certified(c2.value.subs(_MU, sp.Rational(1, 3)), 20) > 0
    sign = 1 if positive else -1  # δ = K - K* from above, K* - K from below
    short = {q: s.value if s.status is Status.EXACT else sp.N(s.value, 16) for q, s in zip("cdef", (c2, c3, d1, d2))}
    gain = {sp.Integer(2): -sign * short["c"], sp.Integer(3): -short["d"]}
    chi = {sp.S.Zero: sp.S.One, sp.S.One: -sign * short["e"], sp.Integer(2): short["f"]}
    law_j = critical_law(gain, chi, root.mid, "J")
    terms = tuple(replace(t, coefficient=-zeta.value) if t.power == 0 and t.logs == 1 else t for t in law_j.law.terms)
    law_j = replace(law_j, law=replace(law_j.law, terms=terms), exponent=-zeta.value, status=zeta.status)
    law_k = critical_law(gain, chi, root.solution().value, "K")
    if sign < 0:
        terms = (law_k.law.terms[0], *(_flipped(t) for t in law_k.law.terms[1:]))
        law_k = replace(law_k, law=replace(law_k.law, terms=terms))
    amplitude = Solution(1 / c2.value, c2.status, _inverse_error(c2))
    side = "attracts from above, repels below" if positive else "attracts from below, repels above"
    return CriticalPoint(
        root.solution(), at(s, True, True), at(b, True, True), "half-stable", sp.Integer(2), c2, d1, amplitude, sp.S.One, zeta,
        law_k, law_j, side,
    )


def _inverse_error(s: Solution) -> float | None:
    if s.error is None or not s.value.is_number:
        return s.error
    return s.error / float(abs(s.value)) ** 2


def _flipped(term):
    return replace(term, coefficient=-term.coefficient)


def _exact_root(gap: sp.Expr, root: Root) -> sp.Expr | None:
    """The root as an algebraic number, where the closed form's numerator has a polynomial factor that vanishes there."""
    form = closed(gap)
    if form.has(Average):
        return None
    for factor in sp.Mul.make_args(sp.factor(sp.numer(sp.together(form)))):
        base = factor.base if factor.is_Pow else factor
        if not base.is_polynomial(K) or not base.has(K) or not all(c.is_Rational for c in sp.Poly(base, K).all_coeffs()):
            continue
        for r in sp.real_roots(sp.Poly(base, K)):
            if root.lo < r and r < root.hi:
                return sp.radsimp(r)
    return None
