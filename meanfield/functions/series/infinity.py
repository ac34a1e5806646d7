r"""What an expression is as t → ∞: e(t) = Σ t^s (log t)^m A(t^{-1/d}), each A analytic at 0, written out exactly.

atan(t) = π/2 - atan(1/t), √(1 + t²) = t √(1 + t^{-2}), asinh(t) = log t + log(1 + √(1 + t^{-2})); tanh, erf and the
like saturate, and what they leave out is smaller than every power. The coefficients follow from the Taylor series of
A, to any order; enclosures of A bound what a truncated series leaves out. Parts are multiplied as expressions, with
nothing left out: truncated they are in `powerlog`, on the ring of `symbolic/series`. Source: derived here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import Z
from meanfield.functions import balls
from meanfield.functions.elementary import cached, elementary_of
from meanfield.functions.elementary.record import ElementaryFunction, EndBehavior, PowerEnd
from meanfield.functions.series.taylor import taylor

_U = sp.Dummy("u", real=True)
V = Z[0]  # v = t^{-1/d} in the analytic factors
Terms = dict[tuple[sp.Expr, int], sp.Expr]  # (power of t, power of log t) → coefficient


@dataclass(frozen=True)
class Part:
    """t^power (log t)^logs · factor(v), with factor analytic at v = 0."""

    power: sp.Expr
    logs: int
    factor: sp.Expr


@dataclass(frozen=True)
class FormAtInfinity:
    """The sum of `parts` in v = t^{-1/d}; `dropped`: terms smaller than every power of t were left out."""

    parts: tuple[Part, ...]
    d: int
    dropped: bool

    def terms(self, floor: sp.Expr) -> Terms:
        """Every term down to and including t^floor, exact."""
        out: Terms = {}
        for p in self.parts:
            count = sp.floor(self.d * (p.power - floor))
            if count < 0:
                continue
            if not sp.sympify(count).is_number:
                raise MeanFieldError(f"A power in the tails depends on {count.free_symbols}; give it a number.")
            for k, c in enumerate(taylor(p.factor, V, int(count))):
                if c != 0:
                    key = (p.power - sp.Rational(k, self.d), p.logs)
                    out[key] = out.get(key, sp.S.Zero) + c
        return {key: c for key, c in out.items() if sp.expand(c) != 0}

    @property
    def is_finite_sum(self) -> bool:
        """Whether the terms end: no series, nothing left out."""
        return not self.dropped and all(p.factor.is_polynomial(V) for p in self.parts)


class _Finer(Exception):
    """Powers that differ by a fraction meet where one series is needed: start again with a finer v."""


class _Unknown(MeanFieldError):
    """No sum of powers and logarithms as far as these rules see."""


@cached(1024)
def normal_form(e: sp.Expr, t: sp.Symbol) -> FormAtInfinity:
    """The form of a smooth real expression in t > 0.

    Raises: MeanFieldError where it has none (sin, e^t, 1/log t) or the rules do not find it.
    """
    d = 1
    for _ in range(4):
        walk = _Walk(t, d)
        try:
            parts = walk(e)
        except _Finer as finer:
            d = math.lcm(d, finer.args[0])
            continue
        except (ValueError, NotImplementedError, TypeError, ZeroDivisionError) as error:
            if isinstance(error, MeanFieldError):
                raise
            raise _Unknown(f"How {e} behaves as {t} → ∞ was asked for and is not found by the rules.") from None
        return FormAtInfinity(tuple(parts), d, walk.dropped)
    raise _Unknown(f"How {e} behaves as {t} → ∞ is not available: its powers have no common denominator.")


def _sign(c: sp.Expr) -> int | None:
    if c.is_positive or c.is_negative:
        return 1 if c.is_positive else -1
    if not c.is_number:
        return None
    ball = balls.certified(c, 20)
    return None if ball.contains(0) else 1 if ball > 0 else -1


def _nonzero(c: sp.Expr) -> bool:
    if c.is_Rational:
        return bool(c != 0)
    if c.is_number and not balls.certified(c, 20).contains(0):
        return True
    return bool(sp.simplify(c) != 0)


class _Walk:
    def __init__(self, t: sp.Symbol, d: int):
        self.t, self.d, self.dropped = t, d, False

    def __call__(self, e: sp.Expr) -> list[Part]:
        if not e.has(self.t):
            return [Part(sp.S.Zero, 0, e)] if e != 0 else []
        if e == self.t:
            return [Part(sp.S.One, 0, sp.S.One)]
        if e.is_Add:
            return self._merge([p for a in e.args for p in self(a)])
        if e.is_Mul:
            total = [Part(sp.S.Zero, 0, sp.S.One)]
            # a factor that dies faster than every power may meet one that these rules cannot read (and grows no faster)
            for a in e.args:
                total = self._times(total, self(a))
            return total
        if e.is_Pow and e.base is not sp.E:
            return self._power(self(e.base), e.exp, e)
        if len(e.args) != 1:
            raise _Unknown(f"How {e} behaves at infinity is not among the rules.")
        return self._elementary(e, self(e.args[0]))

    def _merge(self, parts: list[Part]) -> list[Part]:
        out: list[Part] = []
        for p in parts:
            for i, q in enumerate(out):
                gap = self.d * (p.power - q.power)
                if p.logs == q.logs and gap.is_Integer:
                    high, low = (p, q) if gap > 0 else (q, p)
                    out[i] = Part(high.power, p.logs, high.factor + V ** abs(gap) * low.factor)
                    break
            else:
                out.append(p)
        return [p for p in out if p.factor != 0 and not (p.factor.is_polynomial(V) and sp.expand(p.factor) == 0)]

    def _times(self, a: list[Part], b: list[Part]) -> list[Part]:
        return self._merge([Part(p.power + q.power, p.logs + q.logs, p.factor * q.factor) for p in a for q in b])

    def _stripped(self, parts: list[Part]) -> list[Part]:
        """The parts with factors that do not vanish at v = 0."""
        out = []
        for p in parts:
            low = next((k for k in (0, 4, 16) if any(map(_nonzero, taylor(p.factor, V, k)))), None)
            if low is None:
                if sp.simplify(p.factor) == 0:
                    continue
                raise _Unknown(f"Whether {p.factor} vanishes is not decided.")
            k = next(k for k, c in enumerate(taylor(p.factor, V, low)) if _nonzero(c))
            if k == 0:
                out.append(p)
                continue
            factor = sp.cancel(sp.together(p.factor / V**k))
            if sp.denom(sp.together(factor)).subs(V, 0) == 0:  # √(1 + v²) - 1 = v²/(√(1 + v²) + 1)
                factor = 1 / sp.cancel(sp.together(sp.radsimp(1 / p.factor) * V**k))
            if sp.denom(sp.together(factor)).subs(V, 0) == 0 or sp.numer(sp.together(factor)).subs(V, 0) == 0:
                raise _Unknown(f"{p.factor} vanishes at infinity and has no quotient by v**{k} that can be written.")
            out.append(Part(p.power - sp.Rational(k, self.d), p.logs, factor))
        return out

    def _single(self, parts: list[Part], e: sp.Expr) -> Part:
        """The whole as one part without logarithm."""
        parts = self._merge(self._stripped(parts))
        if not parts:
            raise _Unknown(f"{e} does not exist: its base or argument is 0.")
        if any(p.logs for p in parts):
            raise _Unknown(f"{e} is not a sum of powers of z and log z at infinity.")
        if len(parts) > 1:
            gaps = [p.power - parts[0].power for p in parts[1:]]
            if not all(g.is_Rational for g in gaps):
                raise _Unknown(f"The powers in {e} differ by irrational numbers, so it has no series in one variable.")
            raise _Finer(math.lcm(self.d, *[int(g.q) for g in gaps]))
        return parts[0]

    def _power(self, base: list[Part], n: sp.Expr, e: sp.Expr) -> list[Part]:
        if n.has(self.t):
            raise _Unknown(f"{e} has a variable exponent; its behaviour at infinity is not among the rules.")
        if n.is_Integer and n >= 0:
            total = [Part(sp.S.Zero, 0, sp.S.One)]
            for _ in range(int(n)):
                total = self._times(total, base)
            return total
        p = self._single(base, e)
        if not n.is_Integer and _sign(p.factor.subs(V, 0)) != 1:
            raise _Unknown(f"{e} is real at infinity only if its base is positive there, which is not decided.")
        return [Part(p.power * n, 0, p.factor**n)]

    def _finite(self, parts: list[Part], e: sp.Expr) -> sp.Expr | None:
        """The argument as an analytic function of v; None if it grows."""
        if all(p.power <= 0 and not p.logs for p in parts):
            if not all((self.d * p.power).is_Integer for p in parts):
                if not all(p.power.is_Rational for p in parts):
                    raise _Unknown(f"The powers in {e} are irrational, so it has no series in one variable.")
                raise _Finer(math.lcm(self.d, *[int(p.power.q) for p in parts]))
            return sp.Add(*[V ** (-self.d * p.power) * p.factor for p in parts])
        return None

    def _elementary(self, e: sp.Expr, parts: list[Part]) -> list[Part]:
        head = e.func
        if head is sp.log:
            p = self._single(parts, e)
            if _sign(p.factor.subs(V, 0)) != 1:
                raise _Unknown(f"{e} is real at infinity only if its argument is positive there, which is not decided.")
            return self._merge([Part(sp.S.Zero, 1, p.power), Part(sp.S.Zero, 0, sp.log(p.factor))])
        inner = self._finite(parts, e)
        if inner is None:
            growing = [p for p in parts if p.power > 0 or (p.power == 0 and p.logs > 0)]
            parts = self._merge([*self._stripped(growing), *[p for p in parts if p not in growing]])
            inner = self._finite(parts, e)
        if inner is not None:
            return self._at_a_limit(head, inner, e)
        record = elementary_of(head)
        if record is None:
            raise _Unknown(f"{e} has no power-law limit at infinity.")
        if record.exponential_like:
            return self._saturated(record, parts, e)
        p = self._single(parts, e)
        sign = _sign(p.factor.subs(V, 0))
        if sign is None:
            raise _Unknown(f"The sign of the argument of {e} at infinity is not decided.")
        small = self._finite([Part(-p.power, 0, 1 / p.factor)], e)
        assert small is not None  # p grows, so its inverse does not
        end = record.end(sign)
        if not isinstance(end, PowerEnd):
            raise _Unknown(f"{e} has no power-law limit at infinity.")
        return self._merge([part for q, m, A in end.parts for part in self._powers(p, sign, q, m, A(small))])

    def _powers(self, p: Part, sign: int, q: sp.Expr, m: int, factor: sp.Expr) -> list[Part]:
        """|u|^q (log|u|)^m times an analytic factor, where u = ± t^p times another one."""
        size = sign * p.factor
        factor = factor * size**q
        rest = sp.S.One if size == 1 else sp.log(size)
        return [
            Part(p.power * q, k, sp.binomial(m, k) * p.power**k * rest ** (m - k) * factor)
            for k in range(m + 1)
            if k == m or size != 1
        ]

    def _at_a_limit(self, head: type, inner: sp.Expr, e: sp.Expr) -> list[Part]:
        record = elementary_of(head)
        if record is not None and record.branch is not None:
            limit = sp.simplify(inner.subs(V, 0))
            if abs(limit) == 1:
                rest = self._power([Part(sp.S.Zero, 0, sp.cancel(sp.together((1 - limit * inner) / 2)))], sp.S.Half, e)
                return [Part(sp.S.Zero, 0, record.branch(limit, self._finite(rest, e)))]
        taylor(head(inner), V, 0)  # raises where the function is not analytic there
        return [Part(sp.S.Zero, 0, head(inner))]

    def _saturated(self, head: ElementaryFunction, parts: list[Part], e: sp.Expr) -> list[Part]:
        growing = [p for p in parts if p.power > 0 or (p.power == 0 and p.logs > 0)]
        lead = max(growing, key=lambda p: (sp.N(p.power), p.logs))
        sign = _sign(lead.factor.subs(V, 0))
        if sign is None:
            raise _Unknown(f"The sign of the argument of {e} at infinity is not decided.")
        if lead.power == 0 and head.exponential is not None:
            if lead.logs > 1:
                raise _Unknown(f"{e} is not a sum of powers of z and log z at infinity.")
            return self._of_logarithm(head, parts, e)
        end = head.end(sign)
        if not isinstance(end, EndBehavior):
            raise _Unknown(f"{e} grows exponentially or oscillates and has no power-law limit at infinity.")
        self.dropped = True
        limit = end.limit(_U)
        if limit == _U:
            return parts
        if limit.has(_U):  # a + b u
            constant, slope = limit.subs(_U, 0), sp.expand(limit).coeff(_U)
            scaled = [Part(p.power, p.logs, slope * p.factor) for p in parts]
            return self._merge([*scaled, *([Part(sp.S.Zero, 0, constant)] if constant != 0 else [])])
        return [Part(sp.S.Zero, 0, limit)] if limit != 0 else []

    def _of_logarithm(self, head: ElementaryFunction, parts: list[Part], e: sp.Expr) -> list[Part]:
        """e^{a log t + b} = t^a e^b, and the functions that are functions of it."""
        logs = [p for p in parts if p.logs]
        if len(logs) != 1 or logs[0].factor.has(V):
            raise _Unknown(f"{e} is not a sum of powers of z and log z at infinity.")
        rest = self._finite([p for p in parts if not p.logs], e)
        if rest is None:
            raise _Unknown(f"{e} is not a sum of powers of z and log z at infinity.")
        assert head.exponential is not None
        grown = Part(logs[0].factor, 0, sp.exp(rest))
        if head.function is sp.exp:
            return [grown]
        c = sp.Dummy("c", positive=True)
        swap = _Walk(self.t, self.d)(head.exponential(c * self.t**grown.power))
        return [Part(p.power, p.logs, p.factor.subs(c, grown.factor)) for p in swap]
