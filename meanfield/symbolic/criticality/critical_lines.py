r"""Critical line of an architecture: the (σ_w, σ_b) with χ_J = 1 at the fixed point of K.

F(K) = K and χ_J(K) = 1 are linear in (σ_w², σ_b²) for every block with one Dense, so the line is a curve with parameter
K*; where it is a ray, a vertical line, or invertible in closed form, it is given so. Source: derived here;
[partial_jacobians] § 2.1 for the definition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned
from meanfield.base.answers.named import values_by_name
from meanfield.base.answers.plain_text import legible, wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.arguments import whole
from meanfield.base.symbols import J, K, Z, sigma_b, sigma_w
from meanfield.functions import balls
from meanfield.functions.piecewise import pieces
from meanfield.functions.reading import parser
from meanfield.networks.records import Block
from meanfield.symbolic.asymptotics.depth import depth_law, grows_always
from meanfield.symbolic.averages.node import Average, average
from meanfield.symbolic.criticality.inner import InnerLine, inner_line
from meanfield.symbolic.criticality.small_bias import critical_line_powers, inverted
from meanfield.symbolic.fixed_points.certified_roots import from_ball, value_at
from meanfield.symbolic.fixed_points.half_line import sign_at_infinity, zeros
from meanfield.symbolic.fixed_points.variance_map import at_zero_value, integrand
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.recursions.block_recursions import one_input, plain_form, skip_strength
from meanfield.symbolic.recursions.coordinate_walk import remembered
from meanfield.symbolic.series.asymptotic_law import Law

DIGITS = 30
_REST = sp.Dummy("REST", positive=True)  # 1 - μ² where μ is a symbol, taken to be < 1


@dataclass(frozen=True)
class CriticalLine(Result):
    """The set of (σ_w, σ_b) with χ_J* = 1.

    kind: "closed" (σ_b as a function of σ_w), "ray" (σ_b proportional to σ_w), "vertical" (one σ_w, any σ_b),
    "parametric" (σ_w and σ_b as functions of the fixed point K), "everywhere" (every point is critical), "none",
    "unknown" (the message says why).
    sigma_w, sigma_b: expressions in K for a parametric line (averages are nodes); for the other kinds sigma_b is an
    expression in the symbol sigma_w, and sigma_w, where it is not free, a constant. parametric: (σ_w², σ_b²) as
    functions of K, also where a closed form is known. place: None where the parameter K is the fixed point; else K* as
    a function of it, the variance behind an inner Dense.

    >>> derive("tanh", norm="pre").critical_line().kind
    'ray'
    """

    kind: str
    sigma_w: sp.Expr | None
    sigma_b: sp.Expr | None
    message: str
    parametric: tuple[sp.Expr, sp.Expr] | None = None
    chi_K: sp.Expr | None = None  # along the line, as a function of K
    place: sp.Expr | None = None  # K* along the line, where its parameter is the variance behind an inner Dense

    columns = ("kind", "sigma_w", "sigma_b", "message")
    has_points = True  # whether critical points lie on it

    def data(self) -> dict[str, Any]:
        """Its kind and expressions as plain values; parametric and chi_K are functions of the fixed point K, or of the
        variance behind an inner Dense, of which `place` then is K*."""
        squares = None if self.parametric is None else dict(zip(("sigma_w^2", "sigma_b^2"), self.parametric))
        found = {n: plain(getattr(self, n)) for n in ("kind", "sigma_w", "sigma_b", "chi_K", "message")}
        return {**found, "parametric": plain(squares), **({} if self.place is None else {"place": plain(self.place)})}

    def at(self, k: object = None, **named: object) -> tuple[Solution, Solution]:
        """(σ_w, σ_b) of the point with K* = k, or of the one with this parameter, where `place` is given; named: values
        of symbols by name (mu, and K for k)."""
        if self.parametric is None:
            raise MeanFieldError(f"This critical line has no parameter K: {self.message}")
        given: dict[Any, object] = {**({} if k is None else {"K": k}), **named}
        if k is not None and "K" in named:
            raise MeanFieldError("K was given twice; give it once.")
        swap = values_by_name((*self.parametric, K), given)
        points = [e.subs(swap) for e in self.parametric]
        missing = sorted({s.name for e in points for s in e.free_symbols})
        if missing:
            raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
        values = [balls.certified(e, DIGITS) for e in points]
        k = swap.get(K)
        if values[1] < 0:
            raise MeanFieldError(f"At K* = {k} the critical line would need σ_b² = {float(values[1].mid()):.6g} < 0.")
        with balls.precision(160):
            return tuple(from_ball((v if not v.contains(0) else abs(v)).sqrt()) for v in values)  # type: ignore[return-value]

    def sigma_b_at(self, value: object) -> tuple[tuple[Solution, Solution], ...]:
        """((σ_b, K*), …) of the points of the line at σ_w = value, by increasing K*; empty where there is none.

        They are all, unless the message of K* says that others may exist.
        """
        at = parser.number(value, "sigma_w")
        if self.kind == "none":
            return ()
        if self.kind == "unknown":
            raise MeanFieldError(f"The critical line is not known: {self.message}")
        if self.kind == "vertical":
            raise MeanFieldError("This critical line is vertical: σ_w is one number and σ_b is free.")
        if self.kind == "everywhere":
            raise MeanFieldError("Every point is critical here; there is no line.")
        if self.kind == "ray" or self.parametric is None:
            b = self.sigma_b.subs(sigma_w, at)  # type: ignore[union-attr]
            number = b if not b.has(Average) else from_ball(balls.certified(b, DIGITS)).value
            return ((Solution(number, Status.EXACT if not b.has(Average) else Status.CERTIFIED), _no_k()),)
        s, b = self.parametric
        return self._meets(s, b, at, f"σ_w = {value}")

    def sigma_w_at(self, value: object) -> tuple[tuple[Solution, Solution], ...]:
        """((σ_w, K*), …) of the points of the line at σ_b = value, by increasing K*; empty where there is none.

        They are all, unless the message of K* says that others may exist. At σ_b = 0 the end of the line at K* = 0 is
        one of them.
        """
        at = parser.number(value, "sigma_b")
        if at < 0:
            raise MeanFieldError(f"sigma_b must be ≥ 0, but {value} was given.")
        if self.kind == "none":
            return ()
        if self.kind == "unknown":
            raise MeanFieldError(f"The critical line is not known: {self.message}")
        if self.kind == "everywhere":
            raise MeanFieldError("Every point is critical here; there is no line.")
        if self.kind == "vertical":
            return ((_exact_or_certified(self.sigma_w), _no_k()),)
        if self.kind == "ray" or self.parametric is None:
            slope = sp.simplify(self.sigma_b / sigma_w)
            if slope.has(sigma_w):
                raise MeanFieldError("This critical line is not a ray in σ_w; ask for sigma_b_at.")
            if slope == 0 and at == 0:
                raise MeanFieldError("This critical line is σ_b = 0: σ_w is free.")
            if slope == 0:
                return ()
            return ((_exact_or_certified(at / slope), _no_k()),)
        s, b = self.parametric
        first = _at_zero(s) if at == 0 and _at_zero(b) == 0 else None
        if first is None:
            return self._meets(b, s, at, f"σ_b = {value}")
        others: tuple[tuple[Solution, Solution], ...] = ()
        message = ""
        try:
            others = self._meets(b, s, at, f"σ_b = {value}")
        except MeanFieldError:
            message = "others with K* > 0 may exist: the search decided nothing"
        return ((Solution(sp.sqrt(first), Status.EXACT), Solution(sp.S.Zero, Status.EXACT, message=message)), *others)

    def near_zero(self, order: int = 2) -> Law:
        """σ_w² along the line as σ_b² → 0, `order` terms of a series in powers of σ_b².

        >>> from meanfield import derive
        >>> derive("tanh").critical_line().near_zero().terms[1].coefficient
        6**(1/3)
        """
        order = whole(order, "order", 1, 6)
        if self.parametric is None:
            raise MeanFieldError(f"This critical line has no parameter K to expand in: {self.message}")
        return inverted(*critical_line_powers(*self.parametric, order), order)

    def _meets(self, known: sp.Expr, wanted: sp.Expr, at: sp.Expr, what: str):
        """(√wanted, K*) at the places of the line where `known` is at²."""
        gap = cleared(known - at**2)
        out = []
        search = zeros(gap, integrand(gap), digits=DIGITS)
        if not search.complete and not search.roots:
            raise MeanFieldError(f"Whether the critical line meets {what} is not decided: {search.reason}.")
        for root in search.roots:
            square = value_at(wanted, root, DIGITS)
            with balls.precision(160):
                if square < 0:
                    continue
                with_error = from_ball((square if not square.contains(0) else abs(square)).sqrt())
                where = root.solution() if self.place is None else from_ball(value_at(self.place, root, DIGITS))
                out.append((with_error, flagged(where, search)))
        return tuple(out)

    def __repr__(self) -> str:
        return one_line("CriticalLine", self.kind)

    def latex(self) -> str:
        r"""The line as LaTeX for math mode (amsmath): σ_w and σ_b as far as they are given, and the remark."""
        if self.kind in ("everywhere", "none", "unknown"):
            return aligned([], (f"critical line: {self.message}",))
        values = ((r"\sigma_w", self.sigma_w), (r"\sigma_b", self.sigma_b))
        return aligned([(n, e) for n, e in values if e is not None], (self.message,))

    def __str__(self) -> str:
        return wrapped(self._text())

    def _text(self) -> str:
        if self.kind in ("everywhere", "none", "unknown"):
            return f"critical line: {self.message}"
        if self.kind == "vertical":
            return f"critical line: sigma_w = {self.sigma_w}\n  ({self.message})"
        if self.kind == "parametric":
            return f"critical line: sigma_w = {self.sigma_w},\n  sigma_b = {self.sigma_b}\n  ({self.message})"
        return f"critical line: sigma_b = {self.sigma_b}\n  ({self.message})"


def _exact_or_certified(e: sp.Expr) -> Solution:
    return from_ball(balls.certified(e, DIGITS)) if e.has(Average) else Solution(e, Status.EXACT)


def _at_zero(e: sp.Expr) -> sp.Expr | None:
    """The limit K → 0 of a quotient of averages; None where it is not one of finite numbers."""
    ends = {n: at_zero_value(n) for n in e.atoms(Average)}
    if None in ends.values():
        return None
    top, bottom = (part.xreplace(ends).subs(K, 0) for part in sp.fraction(sp.together(e)))
    return None if sp.simplify(bottom) == 0 else sp.simplify(top / bottom)


def flagged(where: Solution, search) -> Solution:
    """K* of a point, which is one of those that were found where it is not proved that there are no others."""
    return where if search.complete else replace(where, message=f"others may exist: {search.reason}")


def _no_k() -> Solution:
    return Solution(sp.nan, Status.NOT_UNIQUE, None, "K* follows from sigma_w and sigma_b")


def critical_line(block: Block, of: str = "J") -> CriticalLine:
    """The critical line of an architecture whose activation has no free parameters (μ may be symbolic, then μ < 1).

    of: "J", or "K" for the line χ_K = 1, on which a fixed point of K begins or ends.
    """
    return line_of(one_input(block).only("K", "J"), of, plain_form(block), skip_strength(block))


@remembered(maxsize=256)
def line_of(recursion: Recursion, of: str = "J", form=None, mu: sp.Symbol | None = None) -> CriticalLine:
    """The critical line of a recursion of (K, J); form: its `plain_form`, mu: a skip's strength that is a symbol."""
    if of == "K":
        return _line_of_K(recursion, mu)
    recursion = recursion.only("K", "J").homogeneous("A critical line is")
    if recursion["J"].has(sp.oo):
        jumps = form is None or bool(pieces(form[0], Z[0]).jumps())
        why = "jumps" if jumps else "rises like the root of |z| or more steeply"
        return CriticalLine("none", None, None, f"φ {why}, so chi_J is infinite everywhere")
    swap = {} if mu is None else {mu: sp.sqrt(1 - _REST)}
    step, chi = (e.subs(swap) for e in (recursion["K"], sp.diff(recursion["J"], J)))
    found = _where_finite(_line(recursion, step, chi, form), closed(chi))
    back = {} if mu is None else {_REST: 1 - mu**2}

    def put(e):
        return None if e is None else e.subs(back)

    return replace(
        found,
        sigma_w=put(found.sigma_w),
        sigma_b=put(found.sigma_b),
        message=found.message.replace("_REST", f"(1 - {mu}**2)"),
        parametric=None if found.parametric is None else tuple(map(put, found.parametric)),
        chi_K=put(found.chi_K),
        place=put(found.place),
    )


def _line_of_K(recursion: Recursion, mu: sp.Symbol | None) -> CriticalLine:
    alone = recursion.only("K").homogeneous("A line is")
    if mu is not None:
        raise MeanFieldError("The line chi_K = 1 is not available: give the skip's strength mu a number.")
    step = closed(alone["K"])
    step = alone["K"] if step.has(Average) else sp.simplify(step)
    found = _line(recursion.only("K", "J"), step, sp.diff(step, K), None)
    return replace(found, message=found.message.replace("chi_J", "chi_K"), chi_K=sp.S.One)


def _where_finite(found: CriticalLine, chi: sp.Expr) -> CriticalLine:
    """The line for those values of a parameter for which χ_J is finite (|z|^p: p > 1/2), and which they are."""
    finite = {
        part.cond
        for pw in chi.atoms(sp.Piecewise)
        if any(other.expr == sp.oo for other in pw.args)
        for part in pw.args
        if part.expr != sp.oo
    }
    if not finite or found.kind in ("none", "unknown", "everywhere"):
        return found

    def there(e: sp.Expr | None) -> sp.Expr | None:
        while e is not None:
            swap = {pw: pw.args[0].expr for pw in e.atoms(sp.Piecewise) if pw.args[0].cond in finite}
            if not swap:
                break
            e = sp.simplify(sp.gammasimp(e.xreplace(swap)))
        return e

    said = " and ".join(sorted(map(str, finite)))
    message = f"{found.message}; for {said}, and chi_J is infinite everywhere else"
    return replace(found, sigma_w=there(found.sigma_w), sigma_b=there(found.sigma_b), message=message)


def _line(recursion: Recursion, step: sp.Expr, chi: sp.Expr, form) -> CriticalLine:
    gain = sp.expand(step - K)
    if not gain.has(K) or grows_always(gain):
        return _without_fixed_point(recursion, step, chi)
    if not closed(chi).has(K):
        return _vertical(step, chi)
    s, b = sp.Dummy("s", positive=True), sp.Dummy("b", nonnegative=True)
    nodes = {
        n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(step.atoms(Average) | chi.atoms(Average), key=str))
    }
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
        found = inner_line(step, chi)
        if found is not None:
            return _inner_curve(found)
        raise MeanFieldError(
            "The critical line of this block is not linear in (σ_w², σ_b²) (it holds several Dense layers); ask for "
            "fixed_points(...) or phase_diagram(...) at given values."
        )
    absent = [name for name, v in (("sigma_w", s), ("sigma_b", b)) if not any(e.has(v) for e in equations)]
    if absent == ["sigma_b"]:  # a batch: K - K_ab does not feel what all its inputs share
        return _along_sigma_w(equations[0], chi.xreplace(nodes), s, back)
    if absent:
        return CriticalLine(
            "unknown",
            None,
            None,
            f"{' and '.join(absent)} of the network do not enter the block, whose Dense has its own: F(K) = K and "
            "chi_J = 1 are no line in the plane; ask phase, fixed_points or phase_diagram at given values",
        )
    solved = sp.solve(equations, [s, b], dict=True)
    if not solved:
        return CriticalLine("none", None, None, "chi_J = 1 has no solution at a fixed point")
    s_of_k, b_of_k = (sp.simplify(solved[0][v]).xreplace(back) for v in (s, b))
    ratio = sp.simplify(b_of_k / s_of_k)
    shown = closed(ratio)
    if shown.has(K) and not shown.has(Average) and not any(f.has(K) for f in shown.atoms(sp.Function)):
        top, bottom = (sp.expand(e) for e in sp.fraction(sp.together(shown)))
        ratio = sp.simplify(top / bottom)
    if not ratio.has(K):
        return _ray(ratio, s)
    return _curve(step, s_of_k, b_of_k, form)


def _along_sigma_w(rest: sp.Expr, chi: sp.Expr, s: sp.Symbol, back: dict) -> CriticalLine:
    """Where σ_b has no part: χ_J at the fixed point, which is often one number for every σ_w."""
    at = sp.solve(rest, s)
    there = sp.simplify(chi.subs(sigma_w, sp.sqrt(s)).subs(s, at[0])) if at else sp.nan
    value = closed(there.xreplace(back))
    if not value.has(Average):
        value = sp.N(value, 15) if value.has(sp.Float) and not value.free_symbols else sp.simplify(value)
    if not at or value.has(K):
        why = "sigma_b does not enter the maps, and chi_J* = 1 is not solved for sigma_w; ask phase_diagram"
        return CriticalLine("unknown", None, None, why)
    if value == 1:
        return CriticalLine("everywhere", None, None, "chi_J = 1 at the fixed point for every sigma_w > 0")
    digits = f" = {sp.N(value, 12)}" if value.has(Average) and not value.free_symbols else ""
    return CriticalLine(
        "none", None, None, f"chi_J = {value}{digits} at the fixed point for every sigma_w > 0 and sigma_b"
    )


def _inner_curve(found: InnerLine) -> CriticalLine:
    squares = found.sigma_w2, found.sigma_b2
    w, b = (sp.sqrt(closed(e)) for e in squares)
    message = f"parameter: K stands for {found.variance}, the variance behind an inner Dense, not for the fixed point"
    return CriticalLine(
        "parametric", w, b, f"{message}; the part with sigma_b^2 >= 0 counts", squares, found.chi_K, found.place
    )


def _without_fixed_point(recursion: Recursion, step, chi) -> CriticalLine:
    if sp.expand(step - K) == 0:
        return CriticalLine("none", None, None, "K' = K: there is nothing to tune")
    try:
        law = depth_law(recursion, "J", {})
    except MeanFieldError as error:
        return CriticalLine("unknown", None, None, f"K grows without bound everywhere, and whether J does: {error}")
    if law.rate == 0:
        return CriticalLine(
            "everywhere",
            None,
            None,
            f"K grows without bound and chi_J - 1 ~ p/l: J ~ l^p with p = {_shown(law.exponent)}",
        )
    if law.rate_power != 1:
        return CriticalLine(
            "none",
            sp.S.Zero,
            sp.S.Zero,
            f"K grows without bound everywhere, log J ~ {legible(law.rate)}*l^{law.rate_power}: only (0, 0) would be "
            "critical",
        )
    return CriticalLine(
        "none",
        sp.S.Zero,
        sp.S.Zero,
        f"K grows without bound and log J ~ {legible(law.rate)}*l everywhere: only (0, 0) would be critical",
    )


def _shown(p: sp.Expr) -> sp.Expr:
    """A quotient as it is read: decimals for numbers of many digits, else no signs that cancel."""
    short = legible(p)
    return _positive(p) if short == p else short


def _positive(p: sp.Expr) -> sp.Expr:
    """A positive quotient without signs that cancel: -π/(1 - π) → π/(π - 1)."""
    top, bottom = sp.fraction(sp.together(p))
    sign = -1 if any(f.is_number and f.is_negative for f in sp.Mul.make_args(bottom)) else 1
    return sp.simplify(sign * top) / sp.Mul(
        *[-f if sign < 0 and f.is_number and f.is_negative else f for f in sp.Mul.make_args(bottom)]
    )


def _vertical(step, chi) -> CriticalLine:
    """χ_J does not depend on K, so one σ_w is critical for every σ_b; what K does there, its map says.

    φ need not be homogeneous: |φ'| is constant for |z| - 1, too, whose map of K is not linear.
    """
    s = sp.Dummy("s", positive=True)
    found = sp.solve(closed(chi).subs(sigma_w, sp.sqrt(s)) - 1, s)
    if not found:
        return CriticalLine("none", None, None, "chi_J does not depend on the parameters")
    width = sp.sqrt(sp.simplify(found[0]))
    gain = sp.simplify(sp.expand(closed(step).subs(sigma_w, width) - K))
    if gain == sigma_b**2:  # φ is homogeneous of degree 1
        message = "with sigma_b > 0 K grows by sigma_b^2 a layer"
    elif not gain.has(K):
        message = f"K grows by {gain} a layer"
    else:
        message = f"K' - K = {sp.expand(gain)} there, and fixed_points says where K flows"
    return CriticalLine("vertical", width, None, "any sigma_b; " + message.replace("**", "^"))


def _ray(ratio, s) -> CriticalLine:
    """σ_b² = ratio·σ_w²; the same for every fixed point, because LayerNorm hides K."""
    if ratio is None or ratio.has(s, sigma_w):
        return CriticalLine("none", None, None, "chi_J = 1 has no solution at a fixed point")
    shown = sp.simplify(closed(ratio))
    if not shown.free_symbols:
        value = balls.certified(ratio, 30) if ratio != 0 else None
        if value is not None and value < 0:
            return CriticalLine(
                "none", None, None, f"chi_J < 1 everywhere (it would need σ_b² = {float(value.mid()):.6g} σ_w²)"
            )
    sigma = sp.sqrt(shown) * sigma_w if not shown.has(Average) else sp.sqrt(ratio) * sigma_w
    return CriticalLine("ray", None, sigma, "K is at its fixed point from layer 2 on, so the whole line is critical")


def _curve(step, s_of_k, b_of_k, form) -> CriticalLine:
    chi_k = sp.diff(step, K).subs({sigma_w: sp.sqrt(s_of_k), sigma_b: sp.sqrt(b_of_k)})
    s_closed, b_closed = closed(s_of_k), closed(b_of_k)
    parametric = (s_of_k, b_of_k)
    message = "parameter: the fixed point K; the part with sigma_b^2 >= 0 counts"
    inverse = _inverse(s_closed)
    if inverse is not None and not b_closed.has(Average):
        square = sp.simplify(b_closed.subs(K, inverse))
        start = sp.simplify(sp.sqrt(sp.limit(s_closed, K, 0, "+")))
        where = "for every sigma_w > 0" if start in (0, sp.oo, sp.zoo) else f"for sigma_w >= {start}"
        return CriticalLine("closed", None, sp.sqrt(square), where, parametric, chi_k)
    if _needs_negative_bias(form):
        message = "chi_J = 1 would need sigma_b^2 < 0 at every K"
        return CriticalLine("none", None, None, message, (s_of_k, b_of_k), chi_k)
    return CriticalLine("parametric", sp.sqrt(s_closed), sp.sqrt(b_closed), message, parametric, chi_k)


def _needs_negative_bias(form) -> bool:
    """Whether K⟨f′²⟩ - ⟨f²⟩, which σ_b² is a positive multiple of on the line, is proved to be < 0 for every K.

    It is ⟨M⟩_K with M(z) = z∫₀^z f′² - f² (Stein's lemma), on each side (M/z)′ = (f′ - f/z)² ≥ 0, so that M changes
    sign at most once, from - to +, and so does ⟨M⟩_K by Descartes' rule: its sign as K → ∞ decides.
    """
    if form is None or form[0].free_symbols - {Z[0]}:
        return False
    p = pieces(form[0], Z[0])
    square, slope = (average(q.map(lambda e: e**2).expr, K) for q in (p, p.diff()))
    return sign_at_infinity(sp.expand(K * slope - square)) == -1


def _inverse(s_closed):
    """K as a function of σ_w from σ_w² = s(K), where s = c·(aK + b)^p."""
    c, rest = s_closed.as_independent(K, as_Add=False)
    base, power = rest.as_base_exp()
    if c.has(Average) or not base.is_polynomial(K) or sp.degree(base, K) != 1:
        return None
    a, b = base.coeff(K, 1), base.coeff(K, 0)
    return sp.simplify(((sigma_w**2 / c) ** (1 / power) - b) / a)


def cleared(e: sp.Expr) -> sp.Expr:
    """The numerator of e, averages taken as symbols."""
    nodes = {n: sp.Dummy(f"a{i}", real=True) for i, n in enumerate(sorted(e.atoms(Average), key=str))}
    top = sp.expand(sp.numer(sp.together(e.xreplace(nodes))))
    return top.xreplace({v: n for n, v in nodes.items()})
