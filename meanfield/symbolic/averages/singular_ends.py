r"""What a smooth piece does next to an end where it is not analytic: |z - b|^p times a function, poles, logarithms.

A term of such a piece is Π h_i(z)^{α_i} at z = b + s·w, w > 0, s = ±1. A factor with a zero of order m at b is
h = w^m·s^m h^{(m)}(ξ)/m! for some ξ between b and z, so that the term is w^ρ·R with ρ = Σ m_i α_i and a product R of
values that balls enclose on [0, w]. It is integrable where ρ > -1. With w = u^q the integral over u has the integrand
q u^{qρ + q - 1} R: a power that balls hold at u = 0, and no branch point where q ρ is a whole number.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp
from flint import acb, arb, ctx

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import zeros
from meanfield.functions.balls import compile_ball, constant, precision
from meanfield.functions.derivatives import expanded
from meanfield.functions.growth import bound
from meanfield.functions.piecewise import half_line

MOST_ROOT = 24  # the largest q; other exponents keep their branch point
MOST_ORDER = 8  # of a zero
_U = sp.Dummy("u", positive=True)


@dataclass(frozen=True)
class _Term:
    """w^power · (1/(w^ε e ε) in place of each |log w|)^logs · a product of `regular` (functions of z between b and b +
    s w), `bounds` (order, D): |log h| ≤ order |log w| + |log D|."""

    power: sp.Expr
    regular: sp.Expr
    bounds: tuple[tuple[int, sp.Expr], ...] = ()
    order: int = 0  # the highest one of a zero among the factors


@dataclass(frozen=True)
class SingularEnd:
    """The piece `e` of an integrand next to its end b, on the side s, in u with z = b + s u^q."""

    e: sp.Expr
    b: sp.Expr
    side: int
    q: int
    terms: tuple[_Term, ...]
    order: int  # of the zeros that terms cancel in: so often w is lost in rounding at the distance w

    def integrand(self) -> Callable[[acb, bool], acb]:
        """e(z)·|dz/du| as a function of balls of u ≥ 0 that is finite at u = 0, too."""
        inside = self.e.subs(Z[0], self.b + self.side * _U**self.q) * self.q * _U ** (self.q - 1)
        away = compile_ball(inside.xreplace({_U: Z[0]}))
        parts = [
            (t, compile_ball(t.regular), [(order, compile_ball(D)) for order, D in t.bounds]) for t in self.terms
        ]

        def factored_out(u: acb, analytic: bool) -> acb:
            # (z - sin z)/z³ on a wide ball: the values of cos(ζ)/6 with ζ between 0 and z, whose hull is convex
            z = _hull(acb(constant(self.b)), acb(constant(self.b)) + self.side * u**self.q)
            total = acb(0)
            for t, regular, bounds in parts:
                factor = self.q * regular((z,), analytic)
                for order, D in bounds:
                    factor *= order * self.q * u.log(analytic=analytic) + D((z,), analytic).log(analytic=analytic)
                power = self.q * t.power + self.q - 1
                whole = power.is_Integer and power >= 0
                total += factor * (
                    u ** int(power) if whole else u.pow(acb(constant(power)), analytic=analytic)
                )
            return total

        def at(u: acb, analytic: bool) -> acb:
            near = abs(u).lower()  # 1 - cos z is known to 2^-bits there, and its quotient by z² is to be
            lost = -self.q * self.order * float(near.log()) / math.log(2) if 0 < near < 1 else 0.0
            with precision(ctx.prec + int(min(lost, 40 * ctx.prec))):
                value = away((u,), analytic)
            if not value.is_finite() or value.rel_accuracy_bits() < 0:
                value = _less_of(value, factored_out(u, analytic))
            if value.is_finite() or analytic or not u.imag.is_zero() or not u.is_finite():
                return value
            reach = arb(abs(u.real).abs_upper())
            z = acb(constant(self.b) + self.side * _up_to(reach**self.q))
            total = acb(0)
            for t, regular, bounds in parts:
                power, factor = self.q * t.power + self.q - 1, acb(self.q) * regular((z,), False)
                for order, D in bounds:
                    share = _share(t)
                    size = order / (arb(1).exp() * constant(share)) + abs(D((z,), False).log())
                    factor *= acb(arb(0, size.abs_upper())) if reach < 1 else acb("nan")
                    power -= self.q * share
                total += factor * (_up_to(reach ** constant(power)) if power != 0 else 1)
            return total

        return at


def singular_end(e: sp.Expr, b: sp.Expr, side: int) -> SingularEnd | None:
    """What a piece does at its end b, the piece on the side `side` of it; None where it is analytic there.

    Raises: InfiniteAverage where it is not integrable; MeanFieldError where that is not known.
    """
    if not any(_is_singular(p, b) for p in e.atoms(sp.Pow, sp.log)):
        return None
    forms = [tuple(_term(t, b, side) for t in sp.Add.make_args(form)) for form in _forms(e)]
    known = [f for f in forms if all(_is_finite(t.regular, b) for t in f)]
    terms = next((f for f in known or forms if all(zeros.sign(t.power + 1) == 1 for t in f)), None)
    if terms is None:
        _refuse(e, b, known)
        raise MeanFieldError(
            f"Whether {_shown(e)} is integrable at z = {b} is not known, so its average cannot be certified."
        )
    order = max(t.order for f in forms for t in f)
    return SingularEnd(e, b, side, _root([t.power for t in terms]), terms, order)


def _forms(e: sp.Expr) -> list[sp.Expr]:
    """A piece as sums of products: multiplied out, as it stands, and over one denominator, where (1 - cos z)/z² shows
    a zero that 1/z² - cos(z)/z² does not."""
    return list(dict.fromkeys([expanded(e), e, sp.together(e)]))


def _is_finite(regular: sp.Expr, b: sp.Expr) -> bool:
    return not regular.subs(Z[0], b).has(sp.nan, sp.zoo, sp.oo, -sp.oo)


def _refuse(e: sp.Expr, b: sp.Expr, forms: list[tuple[_Term, ...]]) -> None:
    """Raises: InfiniteAverage where one way of writing a piece shows that it is not integrable at b."""
    for terms in forms:
        least = min((t.power for t in terms), key=float)
        leading = [t for t in terms if t.power == least]
        total = sp.Add(*[t.regular.subs(Z[0], b) for t in leading])
        if any(t.bounds for t in leading) or zeros.sign(least + 1) not in (-1, 0) or not zeros.sign(total):
            continue
        raise InfiniteAverage(
            f"⟨{_shown(e)}⟩ is infinite or does not exist: near z = {b} the integrand is like |{_shown(Z[0] - b)}|^"
            f"({least}), which is not integrable."
        )


def _shown(e: sp.Expr) -> str:
    return str(e).replace("_z", "z")


def poles(e: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> list[sp.Expr]:
    """The zeros inside (lo, hi), in increasing order, of what a piece is divided by or takes the logarithm of: of
    polynomials always, of other functions where the rules do not bound the piece without them."""
    found: list[sp.Expr] = []
    others: list[sp.Expr] = []
    for p in sorted(e.atoms(sp.Pow, sp.log), key=str):
        h = p.args[0]
        if not h.has(Z[0]) or not (isinstance(p, sp.log) or p.exp.is_negative):
            continue
        if h.is_polynomial(Z[0]):
            found += zeros.polynomial_zeros(sp.Poly(h, Z[0]), lo, hi)
        else:
            others.append(h)
    if others and bound(e, Z[0], half_line(lo, hi), (lo, hi)) is None:
        for h in others:
            with contextlib.suppress(MeanFieldError):  # infinitely many, or not found: then there is no bound
                found += [w for w in zeros.real_zeros(h, Z[0], lo, hi) if _inside(w, lo, hi)]
    return zeros.same_place(list(dict.fromkeys(found)))


def _inside(w: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> bool:
    return (lo == -sp.oo or zeros.compare(w, lo) == 1) and (hi == sp.oo or zeros.compare(hi, w) == 1)


def _is_singular(p: sp.Expr, b: sp.Expr) -> bool:
    """Whether a power, or a logarithm, is not analytic at b (as far as it shows)."""
    if p.is_Pow and (p.base is sp.E or (p.exp.is_Integer and p.exp.is_positive) or not p.exp.is_number):
        return False
    return bool(p.args[0].has(Z[0])) and _value_is_zero(p.args[0], b)


def _value_is_zero(h: sp.Expr, b: sp.Expr) -> bool:
    value = h.subs(Z[0], b)
    return not value.has(sp.nan, sp.zoo, sp.oo) and zeros.sign(value) == 0


def _term(t: sp.Expr, b: sp.Expr, side: int) -> _Term:
    power, regular, logs, highest = sp.S.Zero, sp.S.One, [], 0
    for factor in sp.Mul.make_args(t):
        base, exponent = (factor, sp.S.One) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if isinstance(base, sp.log) and _is_singular(base, b) and exponent.is_Integer and exponent.is_positive:
            order, D = _lead(base.args[0], b, side)
            logs += [(order, D)] * int(exponent)
        elif base.has(Z[0]) and exponent.is_number and _value_is_zero(base, b) and _is_smooth(base, b):
            order, D = _lead(base, b, side)
            power, regular, highest = power + order * exponent, regular * D**exponent, max(highest, order)
        else:
            regular *= factor
    return _Term(power, regular, tuple(logs), highest)


def _is_smooth(h: sp.Expr, b: sp.Expr) -> bool:
    return not any(_is_singular(p, b) for p in h.atoms(sp.Pow, sp.log))


def _lead(h: sp.Expr, b: sp.Expr, side: int) -> tuple[int, sp.Expr]:
    """(m, s^m h^{(m)}/m!) for the order m of the zero of h at b."""
    slope = h
    for m in range(1, MOST_ORDER + 1):
        slope = sp.diff(slope, Z[0])
        if not _value_is_zero(slope, b):
            return m, sp.expand(sp.Integer(side) ** m / sp.factorial(m) * slope, deep=False)
    raise MeanFieldError(f"The order of the zero of {_shown(h)} at z = {b} was not found; no average is certified.")


def _share(t: _Term) -> sp.Rational:
    """ε in |log w| ≤ w^{-ε}/(eε), w ≤ 1: small enough that what it is multiplied with stays integrable."""
    room = sp.Rational(math.floor(64 * float(t.power + 1)), 64) or sp.Rational(1, 64)
    return min(sp.Rational(1, 4), room / 4) / len(t.bounds)


def _root(powers: list[sp.Expr]) -> int:
    """q: every q·ρ a whole number where that is possible, and q(ρ + 1) - 1 ≥ 1."""
    least = math.ceil(2 / min(float(p) + 1 for p in powers))
    rational = [p for p in powers if p.is_Rational]
    common = math.lcm(*[int(p.q) for p in rational]) if len(rational) == len(powers) else MOST_ROOT + 1
    if common > MOST_ROOT:
        return least
    return common * math.ceil(least / common)


def _less_of(first: acb, second: acb) -> acb:
    """The smaller one of two enclosures of one value."""
    if not first.is_finite() or not second.is_finite():
        return first if first.is_finite() else second
    return second if second.abs_upper() < first.abs_upper() else first


def _hull(a: acb, b: acb) -> acb:
    return acb(a.real.union(b.real), a.imag.union(b.imag))


def _up_to(x: arb) -> arb:
    """[0, x]."""
    return arb(0).union(x)
