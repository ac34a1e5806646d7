r"""Critical points of an architecture: where χ_J = 1 and χ_K = 1 at the fixed point of K; their exponents and laws.

On the critical line of a block without LayerNorm χ_K - χ_J is σ_w²⟨f f″⟩_K (Stein's lemma), whose zeros Descartes' rule
counts: critical points are certified, and complete. Source: derived here; [partial_jacobians] § 2.1 for the
definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned, joined, solution_tex
from meanfield.base.answers.named import Formulas, given_values, values_by_name
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import Solution, Status, Term, one_line
from meanfield.base.symbols import J, K, Z, factored, sigma_b, sigma_w, simplified
from meanfield.functions import balls
from meanfield.functions.piecewise import at, jump, pieces
from meanfield.functions.signs import Masses
from meanfield.functions.zeros import is_zero
from meanfield.networks.records import Block
from meanfield.symbolic.asymptotics.depth import DepthLaw, critical_law, first_terms, is_negative, logarithmic_law
from meanfield.symbolic.averages.expansions.expansion import at_zero
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.criticality.critical_lines import DIGITS, CriticalLine, critical_line
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, from_ball, value_at
from meanfield.symbolic.fixed_points.half_line import zeros
from meanfield.symbolic.recursion import closed
from meanfield.symbolic.recursions.block_recursions import converges_at_once, one_input, opened, plain_form
from meanfield.symbolic.recursions.coordinate import too_steep
from meanfield.symbolic.recursions.coordinate_walk import remembered

SHORT = 20  # operations up to which an exact coefficient is shown instead of its digits
HIGHEST = 9  # derivatives of F that are looked at for one that is not 0 at K*


@dataclass(frozen=True)
class Approach:
    """How K and J behave near a critical point, where all of it is known from the start; see `CriticalPoint`."""

    c_n: Solution | None = None
    d_1: Solution | None = None
    A: Solution | None = None
    zeta: Solution | None = None
    law_K: DepthLaw | None = None
    law_J: DepthLaw | None = None
    side: str = ""


@dataclass(frozen=True)
class CriticalPoint(Result):
    """A point (σ_w, σ_b) with χ_J = χ_K = 1 at the fixed point K*.

    kind: "scale-invariant" (every K is fixed), "power law" (K* = 0 attracts, δK ~ A l^{-ζ_K}), "logarithmic" (δK falls
    as 1/log l), "half-stable" (attracts from one side), "stable" (K* > 0 attracts from both, F″ = 0 there, |δK| ~ A
    l^{-ζ_K}), "repelling" (attracts nothing), "undecided" (symbolic parameters, or a
    root whose order is not known). order: n of δK' = δK - c_n δKⁿ; c_n
    (> 0 attracts from above), d_1 = -dχ_J/dK; A, zeta_K; zeta: J ~ l^{-zeta} (None where J is a stretched exponential
    or K* attracts nothing). law_K, law_J: the laws with their next orders, for a start in the basin; None where K* > 0
    attracts from both sides, whose laws `depth_law` gives for a start. side: from where K* attracts.

    At K* > 0 what belongs to the approach (side, c_n, d_1, A, zeta, the laws) is computed when it is asked for: it
    takes averages of higher derivatives than the place of the point does.

    >>> point = derive("tanh").critical_points()[0]
    >>> print(point.sigma_w, point.zeta, "|", point.law_K.law)
    1 1 | 1/(2*l) + 5*log(l)/(24*l**2) + smaller order
    """

    K: Solution
    sigma_w: Solution
    sigma_b: Solution
    kind: str
    order: sp.Expr | None = None
    zeta_K: sp.Expr | None = None
    approach: Approach | ApproachToRoot = field(default=Approach(), repr=False, compare=False)

    columns = ("K", "sigma_w", "sigma_b", "kind", "zeta_K", "zeta", "side")

    def data(self) -> dict[str, Any]:
        """The place, the exponents and constants with their errors, and the laws of K and J, as plain values."""
        numbers = ("K", "sigma_w", "sigma_b", "c_n", "d_1", "A", "zeta", "zeta_K")
        return {
            "kind": self.kind,
            "side": self.side or None,
            "order": plain(self.order),
            **{n: plain(getattr(self, n)) for n in numbers},
            "laws": {"K": plain(self.law_K), "J": plain(self.law_J)},
        }

    def at(self, values: Mapping[Any, object] | None = None, **named: object) -> Formulas:
        """K*, σ_w and σ_b with numbers for the symbols of the activation or the architecture by name (mu, alpha).

        >>> from meanfield import derive
        >>> derive("leaky_relu", alpha="alpha").critical_points()[0].at(alpha="1/7")["sigma_w"]
        7/5
        """
        own = Formulas({name: getattr(self, name).value for name in ("K", "sigma_w", "sigma_b")})
        return own.at(given_values(values, named))

    @property
    def c_n(self) -> Solution | None:
        return self.approach.c_n

    @property
    def d_1(self) -> Solution | None:
        return self.approach.d_1

    @property
    def A(self) -> Solution | None:
        return self.approach.A

    @property
    def zeta(self) -> Solution | None:
        return self.approach.zeta

    @property
    def law_K(self) -> DepthLaw | None:
        return self.approach.law_K

    @property
    def law_J(self) -> DepthLaw | None:
        return self.approach.law_J

    @property
    def side(self) -> str:
        return self.approach.side

    def __repr__(self) -> str:
        return one_line("CriticalPoint", self._text().split(":", 1)[1].replace("\n", ";"))

    def latex(self) -> str:
        r"""σ_w, σ_b, K*, the exponents and laws as LaTeX for math mode (amsmath)."""
        values: list = [(r"\sigma_w", solution_tex(self.sigma_w)), (r"\sigma_b", solution_tex(self.sigma_b))]
        values.append((r"K^\ast", r"\text{any}" if self.K.value == K else solution_tex(self.K)))
        if self.zeta_K is not None:
            values.append((r"\zeta_K", self.zeta_K))
        if self.zeta is not None:
            values.append((r"\zeta", solution_tex(self.zeta)))
        for name, law in ((r"K^{\ell}", self.law_K), (r"\log J^{\ell}", self.law_J)):
            if law is not None:
                values.append((name, law.law))
        known = [(n, law.onset_text()) for n, law in (("K", self.law_K), ("log J", self.law_J)) if law is not None]
        onsets = [f"the law of {n} {text}" for n, text in known if text]
        return aligned(values, (f"{self.kind}{': ' + self.side if self.side else ''}", *onsets))

    def __str__(self) -> str:
        return wrapped(self._text())

    def _text(self) -> str:
        def text(s):
            short = s.value.free_symbols or (s.status is Status.EXACT and len(str(s.value)) < 40)
            return str(s.value) if short else f"{float(s.value):.13g}"

        zeta = "" if self.zeta is None else f", zeta = {text(self.zeta)}"
        return (
            f"critical point: sigma_w = {text(self.sigma_w)}, sigma_b = {text(self.sigma_b)}\n"
            f"  K* = {text(self.K)}{zeta}\n"
            f"  {self.kind}{': ' + self.side if self.side else ''}"
        )


@dataclass(frozen=True)
class CriticalPoints(Result):
    """The critical points by increasing K*, with the status of the claim that there are no others.

    everywhere: every point of the critical line (or of the plane) is critical, and none of them is isolated.

    >>> found = derive("gelu").critical_points()
    >>> len(found), found.status
    (2, <Status.CERTIFIED: 'certified'>)
    """

    points: tuple[CriticalPoint, ...]
    status: Status
    message: str
    everywhere: bool = False

    def data(self) -> dict[str, Any]:
        """All of them, and what is known of others, as plain values."""
        return {"points": [p.data() for p in self.points], "status": self.status.value, "message": self.message}

    def __len__(self) -> int:
        return len(self.points)

    def __iter__(self):
        return iter(self.points)

    def __getitem__(self, i: int) -> CriticalPoint:
        return self.points[i]

    def at(self, values: Mapping[Any, object] | None = None, **named: object) -> tuple[Formulas, ...]:
        """`CriticalPoint.at` of each of them."""
        own = [one.at() for one in self.points]
        swap = values_by_name([e for one in own for e in one.values()], given_values(values, named))
        return tuple(Formulas({name: e.subs(swap) for name, e in one.items()}) for one in own)

    def __repr__(self) -> str:
        numbers = [f"K* = {float(p.K.value):.6g} " if p.K.value.is_number else "" for p in self.points]
        found = ", ".join(k + p.kind for k, p in zip(numbers, self.points))
        return one_line("CriticalPoints", f"{found or 'none'}; {self.status.value}")

    def latex(self) -> str:
        """All critical points and what is known of others as LaTeX for math mode (amsmath)."""
        none = () if self.points else (self._none(),)
        last = aligned([], (*none, f"{self.status.value}: {self.message}"))
        return joined([*(p.latex() for p in self.points), last])

    def __str__(self) -> str:
        lines = [str(p) for p in self.points] or [self._none()]
        return wrapped("\n".join([*lines, f"({self.status.value}: {self.message})"]))

    def _none(self) -> str:
        """What is said where there is no point."""
        if self.status is Status.UNKNOWN:
            return "critical points: not known"
        return "no isolated critical points" if self.everywhere else "no critical points"


def curvature(f: sp.Expr) -> tuple[sp.Expr, Masses]:
    """(G, masses) with ⟨G⟩_K + Σ w p_K(b) = d⟨f²⟩/dK - ⟨f′²⟩: G = f f″, and w = f(b)·(jump of f′ at b)."""
    p = pieces(f, Z[0])
    slope = p.diff()
    g = pieces(p.expr * slope.diff().expr, Z[0]).expr  # f″ may have fewer pieces than f: 1/5 of clip(z) + z²/10
    before = dict(zip(p.breaks, p.exprs))
    masses = []
    for b, left, right in zip(slope.breaks, slope.exprs, slope.exprs[1:]):
        value = at(before[b], Z[0], b)
        if not is_zero(value):  # where f is 0 its slope may even be infinite: f f′ is 0 while ⟨f′²⟩ is finite
            masses.append((b, simplified(value * jump(left, right, Z[0], b))))
    return g, tuple((b, w) for b, w in masses if w != 0)


def points_on(line: CriticalLine, at_once: bool = False) -> CriticalPoints:
    """What a line says of critical points where none is derived; at_once: K is at its fixed point from layer 2 on."""
    if line.kind == "everywhere":
        message = "every point is critical: " + line.message
    elif line.kind == "unknown":
        return CriticalPoints((), Status.UNKNOWN, line.message)
    elif line.kind == "none":
        message = "no critical line: " + line.message
    elif at_once:
        message = "K is at its fixed point from layer 2 on: every point of the critical line is critical"
    else:
        message = (
            "critical points are derived for one Dense, last in its branch, without a LayerNorm, a Pool, a Gate or a "
            "shortcut; the critical line is known, and fixed_points gives chi_K along it"
        )
        return CriticalPoints((), Status.UNKNOWN, message)
    return CriticalPoints((), Status.EXACT, message, line.kind != "none")


@remembered(maxsize=256)
def critical_points(block: Block) -> CriticalPoints:
    """All critical points of an architecture, see `Theory.critical_points`."""
    form = plain_form(block)
    plane = opened(block) if form is None else None
    if plane is not None and plain_form(plane[0]) is not None:
        return _held(critical_points(plane[0]), plane[1])
    line = critical_line(block)
    if form is None:
        return points_on(line, converges_at_once(block))
    f, mu = form
    if pieces(f, Z[0]).jumps():
        return CriticalPoints((), Status.EXACT, "φ jumps, so chi_J is infinite everywhere")
    if too_steep(pieces(f, Z[0])):
        return CriticalPoints((), Status.EXACT, line.message)
    if line.kind == "unknown" or (line.kind == "none" and line.parametric is None):
        return CriticalPoints((), Status.EXACT if line.kind == "none" else Status.UNKNOWN, line.message)
    free = sorted(s.name for s in f.free_symbols - {Z[0]})
    try:
        found = _at_origin(block, f, mu)
    except NotImplementedError:  # SymPy's, where a limit depends on a parameter
        if not free:
            raise
        return CriticalPoints((), Status.UNKNOWN, f"none was looked for: that needs numbers for {', '.join(free)}")
    if free and not any(p.kind == "scale-invariant" for p in found):
        message = f"only K* = 0 was looked at; points with K* > 0 need numbers for {', '.join(free)}"
        return CriticalPoints(tuple(found), Status.UNKNOWN, message)
    g, masses = curvature(f)
    p = pieces(f, Z[0])
    a = average(p.map(lambda e: e**2).expr, K)
    slope = average(p.diff().map(lambda e: e**2).expr, K)
    density = [w * sp.exp(-(b**2) / (2 * K)) / sp.sqrt(2 * sp.pi * K) for b, w in masses]
    gap = sp.Add(average(g, K), *density)  # d⟨f²⟩/dK - ⟨f′²⟩ as one node
    skipped, unsure = 0, []
    positive: list[CriticalPoint] = []
    search = None
    if gap != 0:
        search = zeros(gap, g, masses, DIGITS)
        for root in search.roots:
            if root.exact is None:
                root = replace(root, exact=_exact_root(gap, root))
            bias = _sign_at(K * slope - a, root)  # of σ_b²
            if bias is None:
                unsure.append(f"whether sigma_b^2 < 0 at K* = {float(root.mid):.10g} is not decided; ")
            elif bias < 0:
                skipped += 1
            else:
                positive.append(_at_root(root, a, slope, mu))
    found += positive
    most = 0 if search is None else search.most
    count = len(positive) + skipped + len(unsure)
    left = f"{skipped} of them with σ_b² < 0; " if skipped else ""
    if search is None or search.complete:
        message = f"{left}at K > 0 at most {most} by Descartes' rule, and {count} certified: there are no others"
        status = Status.MEASURED if unsure else Status.CERTIFIED if found or skipped else Status.EXACT
        return CriticalPoints(tuple(found), status, "".join(unsure) + message)
    limit = "" if most is None else f"at most {most} at K > 0 by Descartes' rule, {count} found; "
    return CriticalPoints(tuple(found), Status.MEASURED, "".join(unsure) + left + limit + search.reason)


def _held(found: CriticalPoints, held: Mapping[str, sp.Expr]) -> CriticalPoints:
    """Of the points in the plane of σ_w and σ_b, those at which a record's numbers are what they have to be."""
    kept, unsure = [], ""
    for point in found:
        same = [_same(getattr(point, name), number) for name, number in held.items()]
        if all(same):
            kept.append(point)
        elif None in same and False not in same:
            unsure += f"whether the point with sigma_w = {point.sigma_w.value}, sigma_b = {point.sigma_b.value} is one "
            unsure += "of them is not decided; "
    numbers = ", ".join(f"{name} = {number}" for name, number in held.items())
    status = Status.UNKNOWN if unsure and found.status is not Status.UNKNOWN else found.status
    message = f"of those in the plane of sigma_w and sigma_b, the ones with {numbers}: {unsure}{found.message}"
    return CriticalPoints(tuple(kept), status, message)


def _same(value: Solution, number: sp.Expr) -> bool | None:
    """Whether a coordinate of a point is a number; None where that is not decided."""
    gap = value.value - number
    if gap.free_symbols:
        return True if simplified(gap) == 0 else None
    if value.status is Status.EXACT:
        return is_zero(gap)
    return None if abs(float(gap)) <= (value.error or 0.0) else False


def _sign_at(e: sp.Expr, root: RootInterval) -> int | None:
    """The sign of e at a root, 0 where the closed form is 0 there; None where it is not decided."""
    ball = value_at(e, root, 20)
    if not ball.contains(0):
        return 1 if ball > 0 else -1
    form = closed(e)
    known = ball.is_finite() and root.exact is not None and not form.has(Average)
    return 0 if known and is_zero(form.subs(K, root.exact)) else None


def _at_origin(block: Block, f, mu) -> list[CriticalPoint]:
    """K* = 0: f(0) = 0 with slopes that are not both 0, at σ_w² = (1 - μ²)/⟨f′²⟩_{0}, σ_b = 0."""
    p = pieces(f, Z[0])
    left, right = p.around_zero()
    if simplified(right.subs(Z[0], 0)) != 0 or simplified(left.subs(Z[0], 0)) != 0:
        return []
    slopes = [_slope_at_origin(e, side) for e, side in ((left, -1), (right, 1))]
    if any(e.is_infinite for e in slopes):  # chi_J is infinite there whatever σ_w is
        return []
    square = simplified(sum(e**2 for e in slopes) / 2)
    if square == 0:
        return []
    s = simplified((1 - mu**2) / square)
    recursion = one_input(block).only("K", "J").subs({sigma_w: sp.sqrt(s), sigma_b: 0})
    origin, w, b = (Solution(v, Status.EXACT) for v in (sp.S.Zero, sp.sqrt(s), sp.S.Zero))
    step, chi = recursion["K"], sp.diff(recursion["J"], J)
    gain = sp.expand(step - K)
    if simplified(closed(gain)) == 0:
        zero = Solution(sp.S.Zero, Status.EXACT)
        free = Solution(K, Status.EXACT, None, "every K is fixed")
        return [CriticalPoint(free, w, b, "scale-invariant", zeta_K=sp.S.Zero, approach=Approach(zeta=zero))]
    law, terms = first_terms(gain)
    if not terms:
        laws = [logarithmic_law(step, chi, q) for q in "KJ"]
        known = Approach(law_K=laws[0], law_J=laws[1])
        return [CriticalPoint(origin, w, b, "logarithmic", zeta_K=sp.S.Zero, approach=known)]
    n, lead = terms[0].power, simplified(terms[0].coefficient)
    law = at_zero(gain, max(3, int(sp.ceiling(2 * n - 1))))
    series = {t.power: simplified(t.coefficient) for t in law.terms if simplified(t.coefficient) != 0}
    chis = {t.power: t.coefficient for t in at_zero(chi, max(3, int(sp.ceiling(n - 1)))).terms}
    d_1 = Solution(simplified(-chis.get(sp.S.One, sp.S.Zero)), Status.EXACT)
    c_n = Solution(-lead, Status.EXACT)
    of_parameters = lead.free_symbols - mu.free_symbols
    falls = lead.is_nonpositive or False if of_parameters else is_negative(lead)  # it is not 0: it leads
    if of_parameters and lead.is_nonpositive is None and lead.is_nonnegative is None:
        side = "the sign of c_n depends on the parameters"
        return [CriticalPoint(origin, w, b, "undecided", n, approach=Approach(c_n, d_1, side=side))]
    if not falls:
        known = Approach(c_n, d_1, side="K* = 0 attracts nothing")
        return [CriticalPoint(origin, w, b, "repelling", n, approach=known)]
    law_k, law_j = (critical_law(series, chis, sp.S.Zero, q) for q in "KJ")
    zeta = Solution(-law_j.exponent, Status.EXACT) if law_j.rate == 0 and law_j.exponent is not None else None
    amplitude = Solution(law_k.law.leading.coefficient, Status.EXACT)
    known = Approach(c_n, d_1, amplitude, zeta, law_k, law_j, "attracts from above")
    return [CriticalPoint(origin, w, b, "power law", n, 1 / (n - 1), known)]


def _slope_at_origin(piece: sp.Expr, side: int) -> sp.Expr:
    """The slope of a piece at 0, from its side."""
    slope = piece.diff(Z[0]).subs(Z[0], 0)
    if not slope.has(sp.nan, sp.zoo, sp.oo):
        return slope
    t = sp.Dummy("t", positive=True)
    return sp.limit(simplified(piece.subs(Z[0], side * t).diff(t)), t, 0, "+")


def _at_root(root: RootInterval, a, slope, mu) -> CriticalPoint:
    """A critical point at K* > 0, by the first derivative of F that is not 0 there: with F″ ≠ 0 it attracts from one
    side only."""
    m = 1 - mu**2
    width, bias = (_value(root, e, square_root=True, exact=True) for e in (m / slope, m * (K - a / slope)))
    for n in range(2, HIGHEST + 1):
        sign = _sign_at(sp.diff(a, K, n), root)
        if sign is None:
            side = f"whether the derivative {n} of F is 0 at K* is not decided"
            break
        if sign and n == 2:
            near = ApproachToRoot(root, a, slope, mu)
            return CriticalPoint(root.solution(), width, bias, "half-stable", sp.Integer(2), sp.S.One, near)
        if sign:
            return _of_higher_order(n, ApproachToRoot(root, a, slope, mu), width, bias)
    else:
        side = f"its order, above {HIGHEST}, is not decided"
    return CriticalPoint(root.solution(), width, bias, "undecided", approach=Approach(side=side))


def _of_higher_order(n: int, near: ApproachToRoot, width: Solution, bias: Solution) -> CriticalPoint:
    """One at which the first n - 1 derivatives of F - K vanish, n > 2."""
    root, order = near.root, sp.Integer(n)
    lead = _value(root, -near.m * sp.diff(near.a, K, n) / near.slope / sp.factorial(n))
    attracts = is_negative(-lead.value)
    size = abs(lead.value) * (n - 1)
    amplitude = Solution(size ** (-1 / (order - 1)), lead.status, lead.error)
    if n % 2:
        kind = "stable" if attracts else "repelling"
        side = "attracts from above and from below" if attracts else "K* attracts nothing"
    else:
        kind = "half-stable"
        side = "attracts from above, repels below" if attracts else "attracts from below, repels above"
    known = Approach(lead, near.d_1, None if kind == "repelling" else amplitude, side=side)
    return CriticalPoint(root.solution(), width, bias, kind, order, 1 / (order - 1), known)


def _value(root: RootInterval, e, square_root=False, exact=False, digits=DIGITS) -> Solution:
    """The value at the root; the factor (1 - μ²) may be symbolic and stays outside the ball."""
    outer, inner = e.as_independent(K, Average, as_Add=False)
    if (exact or isinstance(root.exact, sp.Rational)) and root.exact is not None and not closed(inner).has(Average):
        value = outer * (closed(inner) if square_root else simplified(closed(inner))).subs(K, root.exact)
        return Solution(sp.sqrt(value) if square_root else sp.radsimp(simplified(value)), Status.EXACT)
    ball = value_at(inner, root, digits)
    with balls.precision(200):
        found = from_ball(ball if not square_root else ball.sqrt())
    factor = sp.sqrt(outer) if square_root else outer
    if factor.is_number:
        with balls.precision(200):
            return from_ball(balls.constant(factor) * (ball.sqrt() if square_root else ball))
    return Solution(factor * found.value, found.status, found.error, "times the symbolic factor")


class ApproachToRoot:
    """The same as `Approach` at a critical point K* > 0, each part computed once, when it is asked for.

    root: K*; a, slope: ⟨f²⟩ and ⟨f′²⟩ as functions of K; mu: the strength of the skip.
    """

    def __init__(self, root: RootInterval, a: sp.Expr, slope: sp.Expr, mu: sp.Expr) -> None:
        self.root, self.a, self.slope, self.m = root, a, slope, 1 - mu**2

    @cached_property
    def second(self) -> sp.Expr:
        return sp.diff(self.a, K, 2)

    @cached_property
    def first(self) -> sp.Expr:
        return sp.diff(self.slope, K)

    @cached_property
    def c_n(self) -> Solution:
        return _value(self.root, -self.m * self.second / self.slope / 2)

    @cached_property
    def d_1(self) -> Solution:
        return _value(self.root, -self.m * self.first / self.slope)

    @cached_property
    def _number(self) -> Solution:
        """c_n, without the factor 1 - mu² where that is a symbol."""
        return self.c_n if self.m.is_number else _value(self.root, -self.second / self.slope / 2)

    @cached_property
    def is_decided(self) -> bool:
        """Whether c_n is known not to be 0."""
        return self._number.error is None or bool(abs(self._number.value) > self._number.error)

    @cached_property
    def A(self) -> Solution | None:
        if not self.is_decided:
            return None
        return Solution(1 / self.c_n.value, self.c_n.status, _inverse_error(self._number), self.c_n.message)

    @cached_property
    def zeta(self) -> Solution | None:
        if not self.is_decided:
            return None
        return _value(self.root, 2 * self.first / self.second, exact=True)

    @cached_property
    def sign(self) -> int:
        """δ = K - K* from above (1), K* - K from below (-1)."""
        return 1 if is_negative(-self.c_n.value) else -1

    @property
    def side(self) -> str:
        if not self.is_decided:
            return "whether c_n is 0, and what K* attracts, is not decided"
        return "attracts from above, repels below" if self.sign > 0 else "attracts from below, repels above"

    @cached_property
    def laws(self) -> tuple[DepthLaw, DepthLaw]:
        """The laws of K and J, from the expansions of the maps to the order after the leading one."""
        root, m, sign = self.root, self.m, self.sign
        c3 = _value(root, -m * sp.diff(self.a, K, 3) / self.slope / 6, digits=16)
        d2 = _value(root, m * sp.diff(self.slope, K, 2) / self.slope / 2, digits=16)
        c, d, e, f = sp.symbols("c d e f", real=True, cls=sp.Dummy)
        numbers = {
            symbol: known.value if known.status is Status.EXACT else sp.N(known.value, 16)
            for symbol, known in ((c, self.c_n), (d, c3), (e, self.d_1), (f, d2))
        }
        whole = {c: -m * self.second / self.slope / 2, e: -m * self.first / self.slope}

        def at_root(t: Term) -> Term:
            """The term at K*: what the leading orders determine alone, certified (exact where that is short)."""
            if t.coefficient.free_symbols & {d, f} or not t.coefficient.free_symbols & {c, e}:
                return replace(t, coefficient=t.coefficient.xreplace(numbers))
            value = t.coefficient.xreplace(whole)
            exact = _value(root, value, exact=True).value
            return replace(t, coefficient=exact if exact.count_ops() <= SHORT else _value(root, value).value)

        gain = {sp.Integer(2): -sign * c, sp.Integer(3): -d}
        chi = {sp.S.Zero: sp.S.One, sp.S.One: -sign * e, sp.Integer(2): f}
        law_k = critical_law(gain, chi, root.solution().value, "K", sign)
        law_j = critical_law(gain, chi, root.mid, "J")
        law_k = replace(law_k, terms=tuple(map(at_root, law_k.terms)), status=self.c_n.status)
        assert self.zeta is not None
        return law_k, replace(law_j, terms=tuple(map(at_root, law_j.terms)), status=self.zeta.status)

    @property
    def law_K(self) -> DepthLaw | None:
        return self.laws[0] if self.is_decided else None

    @property
    def law_J(self) -> DepthLaw | None:
        return self.laws[1] if self.is_decided else None


def _inverse_error(s: Solution) -> float | None:
    if s.error is None:
        return None
    return s.error / float(abs(s.value)) ** 2


def _exact_root(gap: sp.Expr, root: RootInterval) -> sp.Expr | None:
    """The root as an algebraic number, where the closed form's numerator has a polynomial factor that vanishes
    there."""
    form = closed(gap)
    if form.has(Average):
        return None
    for factor in sp.Mul.make_args(factored(sp.numer(sp.together(form)))):
        base = factor.base if factor.is_Pow else factor
        if (
            not base.is_polynomial(K)
            or not base.has(K)
            or not all(c.is_Rational for c in sp.Poly(base, K).all_coeffs())
        ):
            continue
        for r in sp.real_roots(sp.Poly(base, K)):
            if not r.has(sp.CRootOf) and root.lo < r and r < root.hi:  # of those without radicals digits are enough
                return sp.radsimp(r)
    return None
