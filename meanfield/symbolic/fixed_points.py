r"""All fixed points of K at given σ_w, σ_b: found, certified, counted, with their stability and basins.

K' - K = c₀ + c₁K + Σ aᵢ⟨fᵢ⟩_K is itself one average, ⟨G⟩_K with G = c₀ + c₁z² + Σ aᵢfᵢ, so Descartes' rule (`signs`)
bounds the number of fixed points by the sign changes of G. When as many are found, all are found. Because √K ⟨f²⟩_K
increases, χ_K ≥ -½ at every fixed point: there are no cycles.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp
from flint import arb

from meanfield import balls
from meanfield.piecewise import pieces
from meanfield.results import MeanFieldError, Solution, Status
from meanfield.symbolic.average import Average
from meanfield.symbolic.expansion import at_zero
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.roots import (
    Root,
    brackets,
    enclose,
    evaluate,
    from_ball,
    refine,
    sign_at,
    sign_at_infinity,
    value_at,
)
from meanfield.symbolic.signs import changes, signs
from meanfield.symbols import Q0, J, K, Z, parameter
from meanfield.tex_names import aligned, joined, solution_tex

DIGITS = 25


@dataclass(frozen=True)
class FixedPoint:
    """A value K* that the map keeps.

    chi_J, chi_K: the derivatives of the maps there; stability: "stable", "unstable", "half-stable" (attracts from one
    side), "neutral" (every K near it is fixed, too); basin: the open interval of K that flows here, None if only K*
    itself does.
    """

    K: Solution
    chi_J: Solution
    chi_K: Solution
    stability: str
    basin: tuple[sp.Expr, sp.Expr] | None = None

    @property
    def phase(self) -> str:
        """ "ordered" (χ_J < 1), "chaotic" (χ_J > 1) or "critical" (χ_J = 1 exactly); "undecided" inside the error."""
        return phase_of(self.chi_J)

    @property
    def xi(self) -> float:
        """Correlation length ξ = 1/|log χ_J|, in layers; infinite at χ_J = 1."""
        return length_of(self.chi_J)

    @property
    def xi_K(self) -> float:
        """The depth over which K relaxes, 1/|log χ_K|; 0 where χ_K = 0."""
        return length_of(self.chi_K)

    def latex(self) -> str:
        r"""K*, χ_J*, χ_K* and the stability as LaTeX for math mode (amsmath)."""
        flow = f"reached from K in {_interval(self.basin)}" if self.basin else "reached from no open set"
        pairs = (("K^\\ast", self.K), (r"\chi_J^\ast", self.chi_J), (r"\chi_K^\ast", self.chi_K))
        return aligned([(n, solution_tex(v)) for n, v in pairs], (f"{self.stability}, {self.phase}, {flow}",))

    def __str__(self) -> str:
        flow = f"K in {_interval(self.basin)}" if self.basin else "no open set"
        return (
            f"K* = {short(self.K)}, {self.stability}, reached from {flow}\n"
            f"  chi_J = {short(self.chi_J)} ({self.phase}), chi_K = {short(self.chi_K)}"
        )


@dataclass(frozen=True)
class FixedPoints:
    """The fixed points in increasing order, whether they are all, and where K goes otherwise.

    status: EXACT or CERTIFIED when the number is proved; MEASURED when a search found these and could have missed a
    pair. unbounded: the open interval of K from which K grows without bound, None if there is none.
    """

    points: tuple[FixedPoint, ...]
    status: Status
    message: str
    unbounded: tuple[sp.Expr, sp.Expr] | None = None
    monotone: bool = True  # the map increases: orbits never jump over a fixed point

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self):
        return iter(self.points)

    def __getitem__(self, i: int) -> FixedPoint:
        return self.points[i]

    @property
    def stable(self) -> tuple[FixedPoint, ...]:
        return tuple(p for p in self.points if p.stability == "stable")

    def reached_from(self, k: object) -> FixedPoint | None:
        """The fixed point that K¹ = k flows to; None if K grows without bound."""
        k = sp.sympify(k)
        for p in self.points:
            if p.basin and p.basin[0] < k < p.basin[1]:
                return p
            if p.K.error is None and p.K.value == k:
                return p
            if p.K.error is not None and abs(p.K.value - k) <= p.K.error:
                return p
        if self.unbounded and self.unbounded[0] < k:
            return None
        raise MeanFieldError(f"K = {k} lies within the error of an unstable fixed point; where it flows is undecided.")

    def latex(self) -> str:
        """All fixed points and what is known of others as LaTeX for math mode (amsmath)."""
        grows = [f"K grows without bound from K in {_interval(self.unbounded)}"] if self.unbounded else []
        last = aligned([], (*grows, f"{self.status.value}: {self.message}"))
        return joined([*(p.latex() for p in self.points), last])

    def __str__(self) -> str:
        lines = [str(p) for p in self.points]
        if self.unbounded:
            lines.append(f"K grows without bound from K in {_interval(self.unbounded)}")
        return "\n".join([*lines, f"({self.status.value}: {self.message})"])


def phase_of(chi: Solution) -> str:
    if chi.status is Status.NONEXISTENT:
        return "chaotic"
    if chi.error is None and chi.value.is_number:
        gap = sp.nsimplify(chi.value - 1) if chi.value.is_Rational else chi.value - 1
        if gap == 0:
            return "critical"
        sign = balls.certified(gap, 20)
        return "critical" if sign.contains(0) else "chaotic" if sign > 0 else "ordered"
    gap = chi.value - 1
    return "undecided" if abs(gap) <= chi.error else "chaotic" if gap > 0 else "ordered"


def length_of(chi: Solution) -> float:
    value = float(chi.value)
    if value <= 0:
        return 0.0
    log = float(sp.log(chi.value).evalf(20)) if value != 1 else 0.0
    return 1 / abs(log) if log else float("inf")


def short(s: Solution) -> str:
    if s.status is Status.EXACT and len(str(s.value)) < 24:
        return str(s.value)
    return f"{float(s.value):.12g}"


def _interval(ends) -> str:
    return "(" + ", ".join("oo" if e == sp.oo else f"{float(e):.8g}" for e in ends) + ")"


# --------------------------------------------------------------------------------------------------- the map at a point


def numeric_maps(recursion: Recursion, values: dict[str, sp.Expr]) -> tuple[sp.Expr, sp.Expr | None]:
    """(F, χ_J) as functions of K alone. Raises: MeanFieldError where a parameter has no value."""
    known = {p.name for p in recursion.parameters} | {"Q0"}
    extra = sorted(set(values) - known)
    if extra:
        raise MeanFieldError(f"{extra[0]} is not a parameter here; known are {', '.join(sorted(known))}.")
    swap = {parameter(k): sp.sympify(v) for k, v in values.items()}
    step = recursion["K"].subs(swap)
    missing = sorted(s.name for s in step.free_symbols - {K})
    if missing:
        raise MeanFieldError(f"Fixed points at one place need numbers for {', '.join(missing)}.")
    chi = None
    if "J" in recursion.names:
        chi = sp.oo if recursion["J"].has(sp.oo) else sp.diff(recursion["J"], J).subs(swap)
    return step, chi


def linear_parts(gain: sp.Expr):
    """(c₀, c₁, [(a, f)]) with gain = c₀ + c₁K + Σ a⟨f⟩_K; None if it has another form."""
    gain = sp.expand(gain)
    nodes = sorted((n for n in gain.atoms(Average) if n.has(K)), key=str)
    rest, parts = gain, []
    for n in nodes:
        if n.cov != (K,) or n.mean != (sp.S.Zero,):
            return None
        a = gain.coeff(n)
        parts.append((a, n.integrand))
        rest = sp.expand(rest - a * n)
    c1 = rest.coeff(K, 1)
    c0 = sp.expand(rest - c1 * K)
    if c0.has(K) or c1.has(K) or any(a.has(K) for a, _ in parts):
        return None
    return c0, c1, parts


def integrand(gain: sp.Expr) -> sp.Expr | None:
    """G with gain(K) = ⟨G⟩_K; None where gain is not of that form."""
    found = linear_parts(gain)
    if found is None:
        return None
    c0, c1, parts = found
    return c0 + c1 * Z[0] ** 2 + sp.Add(*[a * f for a, f in parts])


def at_zero_value(step: sp.Expr) -> sp.Expr | None:
    """The exact limit of the map at K → 0+ (None where the form is not linear in averages)."""
    found = linear_parts(step)
    if found is None:
        return None
    c0, _, parts = found
    total = c0
    for a, f in parts:
        p = pieces(f, Z[0])
        right = next(e for e, lo, hi in p.intervals() if lo <= 0 < hi)
        left = next(e for e, lo, hi in p.intervals() if lo < 0 <= hi)
        total += a * (right.subs(Z[0], 0) + left.subs(Z[0], 0)) / 2
    return sp.simplify(total)


# ------------------------------------------------------------------------------------------------------- the answer


def fixed_points(recursion: Recursion, values: dict[str, sp.Expr]) -> FixedPoints:
    """Every fixed point of K, see `Theory.fixed_points`."""
    step, chi = numeric_maps(recursion, values)
    gain = sp.expand(step - K)
    if gain == 0 or (gain.has(Average) and sp.expand(closed(gain)) == 0):
        return _neutral(chi)
    if not step.has(K) or (not any(n.has(K) for n in step.atoms(Average)) and sp.diff(step, K).is_number):
        return _affine(step, chi)
    zero = at_zero_value(step)
    g = integrand(gain)
    most = changes(g) if g is not None else None
    if most is None:
        found = [refine(gain, b, DIGITS) for b in brackets(gain, None)]
    else:
        found = [refine(gain, b, DIGITS) for b in brackets(gain, most)]
    missing = None if most is None else most - len(found)
    if missing:
        missing = _settle_missing(gain, g, most, found)
    status, message = _verdict(len(found), most, missing)
    return _assemble(gain, step, chi, zero, found, status, message)


def _settle_missing(gain, g, most, found) -> int:
    """How many fixed points may still hide: the signs at K → 0 and K → ∞ fix their parity, interval arithmetic excludes
    pairs."""
    missing, sequence = most - len(found), signs(g)
    assert sequence is not None
    far = sign_at_infinity(gain)
    if far is None:
        return missing
    odd = (sequence[0] != far) != (len(found) % 2 == 1)
    if missing == 1:
        return int(odd)
    return missing if odd or not _excluded(gain, found) else 0


def _excluded(gain, found, budget: int = 6000) -> bool:
    """No further root in [1e-12, 1e12] outside the brackets, by enclosures of h = (F - K)/K over short intervals.

    |h(K) - h(m)| ≤ |log K - log m|·sup |F′ - F/K|, the supremum by interval arithmetic on the closed forms. Without
    closed forms this would take minutes, and the answer is that nothing is excluded.
    """
    form = closed(gain)
    if form.has(Average):
        return False
    change = balls.compile_ball(_once(closed(sp.diff(gain, K)) - form / K), (K,))
    height = balls.compile_ball(_once(form / K), (K,))
    low, high = sp.Rational(1, 10**12), sp.Integer(10) ** 12
    constant = linear_parts(gain)
    if constant is not None and constant[0].is_positive:  # K' ≥ c₀ > K below c₀ (all other terms of K' are ≥ 0)
        low = max(low, sp.Rational(float(constant[0])) * sp.Rational(999, 1000))
    slope = sp.diff(gain, K)
    edges = [low]
    for r in found:
        near = r.lo * sp.Rational(99, 100), r.hi * sp.Rational(101, 100)
        if enclose(slope, *near, 12).contains(0):
            return False
        edges += near
    edges.append(high)
    work = [(a, b) for a, b in zip(edges[::2], edges[1::2]) if a < b]
    while work:
        a, b = work.pop()
        budget -= 1
        if budget < 0:
            return False
        m = sp.Rational(float(sp.sqrt(float(a) * float(b))))
        if b <= 4 * a:
            with balls.precision(80):
                ends = balls.constant(a), balls.constant(b)
                moved = abs(change((balls.acb(ends[0].union(ends[1])),), False).real)
                middle = height((balls.acb(balls.constant(m)),), False).real
                if abs(middle) > moved * (ends[1] / ends[0]).log():
                    continue
            if b < a * sp.Rational(1001, 1000):
                return False
        work += [(a, m), (m, b)]
    return True


def _once(e: sp.Expr) -> sp.Expr:
    """K/(1 + K) → 1 - 1/(1 + K) inside asin: an interval must not meet K twice there."""
    return e.replace(sp.asin, lambda u: sp.asin(sp.apart(u, K)))


def _verdict(count: int, most: int | None, missing: int | None):
    if most is None:
        return Status.MEASURED, "found by a search from K = 1e-12 to 1e12 that could miss a pair; each one is certified"
    if missing == 0:
        return (
            Status.CERTIFIED,
            f"at K > 0 at most {most} by Descartes' rule, and {count} certified: there are no others",
        )
    return (
        Status.MEASURED,
        f"at K > 0 at most {most} by Descartes' rule, {count} found and certified; a close pair may be missed",
    )


def _neutral(chi) -> FixedPoints:
    here = Solution(K, Status.EXACT, None, "every K is fixed: the map is the identity")
    chi_j = Solution(sp.simplify(closed(chi)), Status.EXACT) if chi not in (None, sp.oo) else no_chi()
    point = FixedPoint(here, chi_j, Solution(sp.S.One, Status.EXACT), "neutral")
    return FixedPoints((point,), Status.EXACT, "K' = K for every K")


def no_chi() -> Solution:
    return Solution(sp.oo, Status.NONEXISTENT, None, "φ jumps, so chi_J is infinite")


def _affine(step, chi) -> FixedPoints:
    """K' = c + rK, where the averages do not depend on K (LayerNorm)."""
    r = sp.diff(step, K)
    c = sp.expand(step - r * K)
    if r >= 1:
        message = f"K' = K + {float(c):.6g}" if r == 1 else f"K' = {r} K + {float(c):.6g}"
        return FixedPoints((), Status.EXACT, message + ", which grows without bound", (sp.S.Zero, sp.oo))
    exact = sp.simplify(closed(c) / (1 - r))
    value = Solution(exact, Status.EXACT) if not exact.has(Average) else from_ball(balls.certified(c / (1 - r), DIGITS))
    chi_j = no_chi()
    if chi not in (None, sp.oo):
        at = closed(chi.subs(K, c / (1 - r)))
        simple = sp.simplify(at) if not at.has(Average) else at
        chi_j = (
            Solution(simple, Status.EXACT) if not simple.has(Average) else from_ball(balls.certified(simple, DIGITS))
        )
    point = FixedPoint(value, chi_j, Solution(r, Status.EXACT), "stable", (sp.S.Zero, sp.oo))
    return FixedPoints((point,), Status.EXACT, "K' is linear in K: one fixed point, reached from every K")


def _assemble(gain, step, chi, zero, found: list[Root], status, message) -> FixedPoints:
    slope = sp.diff(step, K)
    edges: list[tuple[sp.Expr, Root | None]] = [(sp.S.Zero, None)] if zero == 0 else []
    edges += [(r.mid, r) for r in found]
    below = sign_at(gain, found[0].lo) if found else sign_at(gain, sp.S.One) or sign_at(gain, sp.Rational(3, 2))
    points = []
    for i, (_, root) in enumerate(edges):
        down = edges[i - 1][0] if i else sp.S.Zero
        up = edges[i + 1][0] if i + 1 < len(edges) else sp.oo
        if root is None:
            stable = below < 0
            basin = (sp.S.Zero, up) if stable else None
            chi_k, chi_j = _limits_at_zero(slope, chi)
            points.append(FixedPoint(Solution(sp.S.Zero, Status.EXACT), chi_j, chi_k, _word(stable), basin))
            continue
        stable = not root.rising
        with balls.precision(160):
            chi_k = from_ball(value_at(slope, root, DIGITS))
            chi_j = no_chi() if chi in (None, sp.oo) else from_ball(value_at(chi, root, DIGITS))
        basin = (down, up) if stable else None
        points.append(FixedPoint(root.solution(), chi_j, chi_k, _word(stable), basin))
    last = sign_at(gain, found[-1].hi) if found else below
    unbounded = ((edges[-1][0] if edges else sp.S.Zero), sp.oo) if last > 0 else None
    increasing = _increases(step)
    if not increasing:
        message += "; the map is not proved monotone, so basins hold for orbits that do not overshoot"
    return FixedPoints(tuple(points), status, message, unbounded, increasing)


def _word(stable: bool) -> str:
    return "stable" if stable else "unstable"


def _increases(step) -> bool:
    """Whether dF/dK ≥ 0 for every K: z G′(z) has no negative part."""
    g = integrand(step)
    if g is None:
        return False
    p = pieces(g, Z[0])
    masses = tuple((b, sp.Abs(b) * jump * sp.sign(b)) for b, jump in p.jumps())
    found = signs(p.diff().map(lambda e: Z[0] * e).expr, masses)
    return found is not None and -1 not in found


def _limits_at_zero(slope, chi) -> tuple[Solution, Solution]:
    out = []
    for e in (slope, chi):
        if e is None or e == sp.oo:
            out.append(no_chi())
            continue
        try:
            law = at_zero(e, 1)
            if any(t.power < 0 for t in law.terms):
                out.append(Solution(sp.oo, Status.EXACT, None, "the slope of the map is infinite at K = 0"))
                continue
            out.append(Solution(sp.simplify(law.coefficient(0)), Status.EXACT))
        except MeanFieldError as error:
            out.append(Solution(sp.nan, Status.UNKNOWN, None, str(error)))
    return out[0], out[1]


def start_of(recursion: Recursion, values: dict[str, sp.Expr]) -> sp.Expr:
    """K¹ at these values, Q0 = 1 unless given."""
    swap = {parameter(k): sp.sympify(v) for k, v in values.items()}
    return recursion.initial["K"].subs(swap).subs(Q0, 1)


def destination(points: FixedPoints, step: sp.Expr, start: sp.Expr) -> FixedPoint | None:
    """Where K flows from `start`: by the basins if the map increases, else by following the orbit."""
    if points.monotone or not points.points:
        return points.reached_from(start)
    k: arb | sp.Expr = start
    for _ in range(200):
        nearest = points.reached_from(k)
        following = sp.Rational(float(evaluate(step, k).mid()))
        if points.reached_from(following) is nearest:
            return nearest
        k = following
    return points.reached_from(k)
