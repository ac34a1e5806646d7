r"""Moments fp∫ zⁿ f(z) dz, the coefficients of the expansion of ⟨f⟩_K at K → ∞: exact where rules reach, else a
certified node.

Where f approaches a polynomial P exponentially fast, this is ∫ zⁿ (f - P) (the finite part of ∫ z^k over a half-line is
0); with an algebraic tail see `finite_parts`. Exact rule for the former: ∫₀^∞ z^m v^a/(1+v)^b dz with v = e^{-cz} is an
alternating sum, hence a rational combination of Dirichlet eta values (log 2, π², ζ(3), …). Source: derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Self

import sympy as sp
from flint import acb, arb
from flint import ctx as flint_context
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import MOST_DEGREE, Z
from meanfield.functions import balls
from meanfield.functions.elementary import records, where
from meanfield.functions.growth import decay
from meanfield.functions.isolation import Root
from meanfield.functions.piecewise import half_line, pieces
from meanfield.symbolic.averages.base import Node, Typeset
from meanfield.symbolic.averages.expansions import finite_parts
from meanfield.symbolic.averages.node import Integrand


class Moment(Node):
    r"""fp∫_{-∞}^{∞} zⁿ f(z) dz: a number known by its ball; ∫ zⁿ (f - P_±) where f approaches polynomials P_± at ±∞.

    args: the integrand f (opaque, in Z[0]) and n. `evalf(d)` gives d certified digits.
    """

    is_number = True
    is_constant_number = True
    is_finite = True

    def __new__(cls, body: Integrand, n: int | sp.Integer) -> Self:
        made: Self = super().__new__(cls, body, sp.sympify(n))
        return made

    def ball(self, digits: int = 30) -> arb:
        """A ball containing the moment, with about `digits` digits relative to the size of the integrand."""
        with balls.precision(int(digits * 3.33) + 40):
            f = self.args[0].expr
            return sum(
                (
                    _half_moment(e, lo, hi, int(self.args[1]), _polynomial_part(f, half_line(lo, hi)))
                    for e, lo, hi in _half_lines(f)
                ),
                arb(0),
            )

    def _eval_evalf(self, prec: int) -> sp.Float:
        from mpmath.libmp import from_str

        digits = int(prec / 3.3219) + 2
        return sp.Float._new(from_str(self.ball(digits).mid().str(digits + 5, radius=False), prec), prec)

    def _eval_derivative(self, symbol: sp.Symbol) -> sp.Expr:
        return sp.S.Zero

    def _sympystr(self, printer: Printer) -> str:
        return f"Moment({printer._print(self.args[0])}, {self.args[1]})".replace("_z", "z")

    tex_letter = "M"  # where a long formula names its moments

    def tex_inside(self) -> Typeset:
        """(the integrand as it is printed, a function from its LaTeX to the node's)."""
        inside = self.args[0].expr.xreplace({Z[0]: sp.Symbol("z")})
        return inside, lambda body, _: rf"m_{{{self.args[1]}}}\!\left[{body}\right]"


def _half_lines(f: sp.Expr) -> list[tuple[sp.Expr, sp.Expr, sp.Expr]]:
    """(expression, lo, hi) covering the line, cut at 0, each in Z[0]."""
    out = []
    for e, lo, hi in pieces(f, Z[0]).intervals():
        out += [(e, lo, hi)] if half_line(lo, hi) else [(e, lo, sp.S.Zero), (e, sp.S.Zero, hi)]
    return out


@lru_cache(maxsize=512)
def _power_part(f: sp.Expr, side: int) -> sp.Expr:
    """P_+ or P_-, as a polynomial in Z[0]; refused unless the remainder dies exponentially."""
    outer = pieces(f, Z[0]).exprs[-1 if side > 0 else 0]
    found = decay(outer.subs(Z[0], side * Z[1]), Z[1])
    if found is None:
        raise MeanFieldError(f"{outer} does not approach a power exponentially fast (or the rules cannot prove it).")
    return found.power.subs(Z[1], side * Z[0])


def power_parts(f: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(P_-, P_+) of a function that approaches powers exponentially fast. Raises: MeanFieldError otherwise."""
    return _power_part(f, -1), _power_part(f, 1)


def _polynomial_part(f: sp.Expr, side: int) -> sp.Expr | None:
    try:
        return _power_part(f, side)
    except MeanFieldError:
        return None


def moment(f: sp.Expr, n: int) -> sp.Expr:
    """fp∫ zⁿ f dz: exact where the rules reach, else a `Moment`.

    Raises: MeanFieldError where neither is found (a tail that the rules cannot bound).
    """
    total = []
    for e, lo, hi in _half_lines(f):
        side = half_line(lo, hi)
        power = _polynomial_part(f, side)
        if power is None:
            exact = _exact_algebraic(e, lo, hi, side, n)
        else:
            exact = _exact_half(sp.expand(e) - power, lo, hi, side, n)
        if exact is None:
            return _certifiable(f, n)
        total.append(exact)
    return sp.expand(sp.Add(*total))


def _certifiable(f: sp.Expr, n: int) -> Moment:
    for e, lo, hi in _half_lines(f):
        side = half_line(lo, hi)
        if hi == sp.oo or lo == -sp.oo:
            outer = e.subs(Z[0], side * finite_parts.t)
            if _polynomial_part(f, side) is None and finite_parts.tail_split(outer, finite_parts.t) is None:
                raise MeanFieldError(f"The tail of {e} cannot be bounded by the rules, so its moment is not certified.")
        balls.compile_ball(e, (Z[0],))
    return Moment(Integrand(f), n)


def _exact_algebraic(e: sp.Expr, lo: sp.Expr, hi: sp.Expr, side: int, n: int) -> sp.Expr | None:
    x = finite_parts.t
    a, b = (lo, hi) if side > 0 else (-hi, -lo)
    return finite_parts.exact(sp.expand(e.subs(Z[0], side * x) * (side * x) ** n), a, b)


def _exact_half(g: sp.Expr, lo: sp.Expr, hi: sp.Expr, side: int, n: int) -> sp.Expr | None:
    t = sp.Dummy("t", positive=True)
    g = g.subs(Z[0], side * t)
    a, b = (lo, hi) if side > 0 else (-hi, -lo)
    g = sp.expand(g * (side * t) ** n)
    if g == 0:
        return sp.S.Zero
    if g.is_polynomial(t) and b != sp.oo:
        return sp.integrate(g, (t, a, b))
    if b == sp.oo and a == 0:
        return _eta_rule(g, t)
    if a.has(Root) or b.has(Root):  # an antiderivative at a number without a closed form says no more than its ball
        return None
    if g.has(sp.exp) and not g.has(sp.log, *(f for f in where("bends") if f is not sp.exp)):
        found = _gaussian_rule(g, t, a, b)
        return sp.integrate(g, (t, a, b)) if found is None else found
    return None


def _gaussian_rule(g: sp.Expr, t: sp.Symbol, a: sp.Expr, b: sp.Expr) -> sp.Expr | None:
    """∫_a^b g dt for a sum of c tᵐ e^{q(t)}, q of degree 2 at most and falling; None outside that class.

    With q = γ + βt - αt², F_m = ∫ tᵐ e^q obeys 2α F_{m+1} = β F_m + m F_{m-1} - tᵐ e^q: the antiderivative at once,
    where SymPy tries its algorithms for a minute.
    """
    total = sp.S.Zero
    for term in sp.Add.make_args(sp.expand(sp.powsimp(sp.expand(g)))):
        plain, waves = term.as_independent(sp.exp, as_Add=False)
        q = sp.expand(sp.Add(*[w.args[0] for w in sp.Mul.make_args(waves) if isinstance(w, sp.exp)]))
        if not (plain.is_polynomial(t) and q.is_polynomial(t) and waves.func in (sp.exp, sp.Mul, type(sp.S.One))):
            return None
        m, alpha, beta = sp.degree(plain, t) if plain.has(t) else 0, -q.coeff(t, 2), q.coeff(t, 1)
        if q == 0 or sp.degree(q, t) > 2 or not (alpha.is_positive or (alpha == 0 and beta.is_negative)):
            return None
        total += plain.coeff(t, m) * (_antiderivative(q, m, t, b) - _antiderivative(q, m, t, a))
    return total


def _antiderivative(q: sp.Expr, m: int, t: sp.Symbol, at: sp.Expr) -> sp.Expr:
    """∫ tᵐ e^q at a number or at ∞, see `_gaussian_rule`."""
    alpha, beta, gamma = -q.coeff(t, 2), q.coeff(t, 1), q.coeff(t, 0)
    edge = [sp.S.Zero if at == sp.oo else at**k * sp.exp(q.subs(t, at)) for k in range(m + 1)]
    if alpha == 0:
        found = edge[0] / beta
        for k in range(1, m + 1):
            found = (edge[k] - k * found) / beta
        return found
    reached = sp.S.One if at == sp.oo else sp.erf(sp.sqrt(alpha) * at - beta / (2 * sp.sqrt(alpha)))
    before, found = sp.S.Zero, sp.sqrt(sp.pi / alpha) / 2 * sp.exp(gamma + beta**2 / (4 * alpha)) * reached
    for k in range(m):
        before, found = found, (beta * found + k * before - edge[k]) / (2 * alpha)
    return found


def _eta_rule(g: sp.Expr, t: sp.Symbol) -> sp.Expr | None:
    """∫₀^∞ g dt for g polynomial in t and rational in v = e^{-ct} with denominator (1 + v)^b; None outside that
    class."""
    for head in records("form"):
        for node in g.atoms(head.function):
            u = node.args[0]
            if not u.is_polynomial(t) or sp.Poly(u, t).degree() != 1 or u.subs(t, 0) != 0 or not u.coeff(t).is_Rational:
                return None
        if head.function is not sp.exp:
            g = g.replace(head.function, lambda u, h=head: h.form[1 if u.coeff(t) > 0 else -1](u))
    rates = {abs(node.args[0].coeff(t)) for node in g.atoms(sp.exp)}
    if not rates:
        return None
    common = math.lcm(*[int(r.q) for r in rates])
    c = sp.Rational(math.gcd(*[int(r * common) for r in rates]), common)
    if max(rates) / c > MOST_DEGREE:
        return None
    v = sp.Dummy("v", positive=True)
    g = g.replace(sp.exp, lambda u: v ** (-u.coeff(t) / c))
    if not g.is_rational_function(v, t):
        return None
    numerator, denominator = sp.fraction(sp.cancel(sp.together(g)))
    if denominator.has(t):
        return None
    powers = [n for part in (numerator, denominator) for (_, n) in sp.Poly(part, t, v).monoms()]
    step = math.gcd(*powers) or 1  # v^{2k} in the place of v^k where no odd power is left: c is twice as large
    numerator, denominator = (part.subs(v, v ** sp.Rational(1, step)) for part in (numerator, denominator))
    c = c * step
    den = sp.Poly(denominator, v)
    b = den.degree()
    scale = den.LC()
    if sp.expand(den.as_expr() - scale * (1 + v) ** b) != 0:
        return None
    total = sp.S.Zero
    for (m, a), coefficient in sp.Poly(numerator, t, v).terms():
        if a == 0:
            return None
        total += coefficient / scale * sp.factorial(m) / c ** (m + 1) * _alternating(a, b, m + 1)
    return total


def _alternating(a: int, b: int, s: int) -> sp.Expr:
    """Σ_{k≥0} (-1)^k C(b-1+k, k) (k+a)^{-s}, Abel-summed."""
    if b == 0:
        return sp.Rational(1, a) ** s
    q = sp.Dummy("q")
    weight = sp.Poly(sp.expand(sp.Mul(*[(q - a + i) for i in range(1, b)]) / sp.factorial(b - 1)), q)
    total = sp.S.Zero
    for (i,), p in weight.terms():
        t = s - i
        head = sum(((-1) ** (j - 1) * sp.Rational(j) ** (-t) for j in range(1, a)), sp.S.Zero)
        total += p * (-1) ** (a - 1) * (_eta(t) - head)
    return total


def _eta(t: int) -> sp.Expr:
    """Dirichlet's eta(t) = Σ (-1)^{k-1} k^{-t}, also by Abel's sum for t ≤ 0."""
    return sp.log(2) if t == 1 else (1 - sp.Integer(2) ** (1 - t)) * sp.zeta(t)


def _half_moment(e: sp.Expr, lo: sp.Expr, hi: sp.Expr, n: int, power: sp.Expr | None) -> arb:
    """Certified ∫ zⁿ (e - power) over one piece of a half-line; the finite part of ∫ zⁿ e if the side has no polynomial
    `power`."""
    side = half_line(lo, hi)
    if power is None and sp.oo in (hi, -lo):
        outer = e.subs(Z[0], side * finite_parts.t)
        beyond: arb = side**n * finite_parts.outer_ball(outer, finite_parts.t, lo if side > 0 else -hi, n)
        return beyond
    power = sp.S.Zero if power is None else power
    g, p = (h.subs(Z[0], side * Z[1]).xreplace({Z[1]: Z[0]}) for h in (e, power))
    a, b = (lo, hi) if side > 0 else (-hi, -lo)
    rest = arb(0)
    if b == sp.oo:
        found = decay(g, Z[0])
        if found is None:
            raise MeanFieldError(f"The tail of {e} cannot be bounded by the rules, so its moment cannot be certified.")
        # the tail must vanish at this precision: A (1+T)^{p+n} e^{-cT} < 2^-prec
        digits = (flint_context.prec + 20) * math.log(2) + math.log(max(found.A, 1.0))
        T = arb(math.ceil(1.3 * digits / found.c + 40 * (found.p + n + 1)) if found.A else 4)
        slope = arb(found.c) - arb(found.p + n) / T if found.A else arb(1)
        rest = arb(found.A) * (1 + T) ** (arb(found.p) + n) * (-arb(found.c) * T).exp() / slope if found.A else arb(0)
    else:
        T = balls.constant(b)
    f, q = balls.compile_ball(g), balls.compile_ball(p)
    start, total = balls.constant(a), arb(0)
    points = [start]
    while points[-1] + 4 < T:
        points.append(points[-1] + 4)
    for x, y in zip(points, [*points[1:], T]):
        total += balls.integral(lambda z, an: (f((z,), an) - q((z,), an)) * (side * z) ** n, acb(x), acb(y)).real
    return total + arb(0, rest.abs_upper())
