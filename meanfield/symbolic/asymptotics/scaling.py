r"""How K grows under K' = K + s + …, and how a small δ dies under δ' = δ - c δⁿ - …, with its next orders, and what
that makes of log J = Σ log χ_J(δ^l).

With u = δ^{-(n-1)} the map is u' = u + a + Σ b_q u^{-q}, a = (n-1)c, so u = a l + … + γ log l + C: powers l^{1-q}
first, then the logarithm. Everything before the constant C, which depends on the start, is determined by the expansion.
Source: derived here (dominant balance); the leading order is [partial_jacobians] Lemma C.1 with the prefactor
(c(n-1))^{-1/(n-1)}, which the printed (C.3) has for n = 2 only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.arguments import shown, validated
from meanfield.base.symbols import K
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.averages.expansions.powerlog import Sums, left_out
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ONE, Atoms
from meanfield.symbolic.series.exponents import NO_POWER, Basis
from meanfield.symbolic.series.recurrences import Power, Powers, along, growing
from meanfield.symbolic.series.ring import MANY, Key, Ring, Series, binomial, key, scaled

Coefficients = dict[sp.Expr, sp.Expr]  # power → coefficient
Terms = dict[tuple[sp.Expr, int], sp.Expr]  # (power, power of the logarithm) → coefficient
_FALLS = -sp.Rational(3, 2)


@dataclass(frozen=True)
class Decay:
    """δ^l and log J^l as l → ∞, most important term first; the constant C of log J is left to the caller.

    order: n; coefficient: c; amplitude, exponent: δ ~ amplitude·l^{-exponent}; rate terms of log J.
    """

    order: sp.Expr
    coefficient: sp.Expr
    amplitude: sp.Expr
    exponent: sp.Expr
    delta: tuple[Term, ...]
    log_j: tuple[Term, ...]


@validated
def decay(gain: Mapping[Any, object], log_chi: Mapping[Any, object] | None = None) -> Decay:
    """The law of δ' = δ + Σ gain[m] δ^m, leading coefficient negative, and of log J = Σ_l Σ_k log_chi[k] δ^k.

    gain must reach to the power 2n - 1 and log_chi to n - 1 for the logarithms to be right.

    Raises: MeanFieldError for powers of gain that are not above 1, or a leading coefficient that is not negative.

    >>> law = decay({3: -sp.Rational(7, 10)})
    >>> law.exponent, sp.N(law.amplitude, 10)
    (1/2, 0.8451542547)
    """
    powers, logs = _powers(gain, "gain"), _powers({} if log_chi is None else log_chi, "log_chi")
    if not powers or min(powers) <= 1 or any(k < 0 for k in logs):
        raise MeanFieldError(
            f"A decay takes powers of δ above 1 in gain, and none below 0 in log_chi, but {shown(gain)} and "
            f"{shown(log_chi)} were given."
        )
    leading = powers[min(powers)]
    if leading.is_number and not leading < 0:
        raise MeanFieldError(
            f"δ falls where its leading coefficient is negative, but {shown(gain)} was given, with {leading} of the "
            f"power {min(powers)}."
        )
    return decay_of(powers, logs)


def _powers(given: object, what: str) -> Coefficients:
    """Powers with their coefficients, numbers exact; a coefficient may hold symbols."""
    if not isinstance(given, Mapping):
        raise MeanFieldError(f"{what} must be a mapping from powers to coefficients, but {shown(given)} was given.")
    found = {expression(k, f"A power of {what}"): expression(v, f"A coefficient of {what}") for k, v in given.items()}
    if not all(k.is_number for k in found):
        raise MeanFieldError(f"A power of {what} must be a number, but {shown(given)} was given.")
    return found


def decay_of(gain: Coefficients, log_chi: Coefficients | None = None) -> Decay:
    """`decay` of what is known to be in order."""
    gain, log_chi = ({sp.sympify(k): v for k, v in powers.items()} for powers in (gain, log_chi or {}))
    n = min(gain)
    found = path(Law(K, sp.S.Zero, tuple(Term(gain[p], p) for p in sorted(gain))))
    rest = {(k, 0): d for k, d in log_chi.items() if k != 0 and d != 0}
    log_j = found.summed(rest, None, max((-k / (n - 1) for k, _ in rest), default=sp.S.Zero) - 1)[0]
    c = -gain[n]
    return Decay(n, c, sp.simplify(((n - 1) * c) ** (-1 / (n - 1))), 1 / (n - 1), found.x, log_j)


@dataclass(frozen=True)
class Path:
    """x^l as l → ∞ under x' = x + c x^n + …, n ≠ 1, at 0 or at ∞: u = x^{1-n} grows linearly, u^l = s l (1 + w).

    w: the terms that are determined (a constant in u depends on the start), x those of x, most important first;
    remainder: of x, a power of l or "smaller"; error: u is known up to a relative l^error, None: up to the constant;
    irregular: whether logarithms or other powers than halves entered.
    """

    root: sp.Expr  # 1 - n
    s: sp.Symbol
    ring: Ring
    w: Series
    known: dict[sp.Symbol, sp.Expr]
    remainder: str | sp.Expr
    error: sp.Expr | None
    irregular: bool

    @property
    def x(self) -> tuple[Term, ...]:
        p = _power(self.ring, 1 / self.root)
        e, powers = self.ring.exponent(*p), self.ring.powers(self.w)
        series = self.ring.composed(powers, lambda j: binomial(e, j))
        if self.error is not None:
            series = self.ring.above(series, _any_logs(self.ring, self.error))
        series.pop(key(-1), None)  # the constant in u has this size, too
        return self._terms(scaled(series, self.ring.atoms.product(self.s ** (1 / self.root)), (*p, NO_POWER, 0)))

    def summed(self, terms: dict[tuple[sp.Expr, int], sp.Expr], rest, cut=_FALLS):
        """(Σ_l of Σ c x^p (log x)^m without the constant: the terms that grow, and the logarithm that falls as log(l)
        times a power; whether nothing that grows is missing). rest: (power, logs) of x beyond which terms are not
        known; cut: the power of l in the summand down to which the constant in u leaves terms determined."""
        known, r = dict(self.known), self.root
        moved = {(p / r, m): c / r**m for (p, m), c in terms.items()}
        ring = self.ring.with_floor(-self.ring.size((*_power(self.ring, cut), NO_POWER, 0))[0], NO_POWER)
        series = along(ring, _named(ring, moved, self.s, known), self.w, ring.atoms.of(sp.log(self.s)))
        if rest is not None:
            series = ring.above(series, (*_power(ring, rest[0] / r), fmpq(int(rest[1])), 0))
        error = sp.S.NegativeOne if self.error is None else self.error
        worst = max([p for p, _ in moved], default=-sp.oo) + error
        if worst >= -1:
            series = ring.above(series, _any_logs(ring, worst))
        return self._terms(_integrated(ring, series), known), rest is None and bool(worst < -1)

    def _terms(self, series: Series, names: Mapping[sp.Symbol, sp.Expr] | None = None) -> tuple[Term, ...]:
        """The terms, most important first, with what their names stand for."""
        ring, found = self.ring, []
        for (a, b, logs, _), c in ring.ordered(series):
            coefficient = _tidied(ring.atoms.expr(c).xreplace(self.known if names is None else names))
            if coefficient != 0:
                assert ring.basis is not None
                found.append(Term(coefficient, ring.basis.expr(a, b), ring.basis.expr(logs, NO_POWER)))
        return tuple(found)


def flow(slope: Law) -> Path:
    """The path of x under dx/dl = slope, as `path` follows x' - x."""
    return path(slope, continuous=True)


def path(gain: Law, continuous: bool = False) -> Path:
    """The path of x for the expansion `gain` of x' - x at 0 or ∞, led by c x^n without a logarithm, n ≠ 1.

    u = x^r with r = 1 - n obeys u' = u (1 + gain/x)^r = u + rc + …, an expansion at u → ∞ whose leading term is the
    constant rc, which must be > 0. u' - u = du/dl + ½ d²u/dl² + …, whose second term falls faster than 1/l and so adds
    to the constant only.
    """
    r = 1 - gain.leading.power
    left, sums = left_out(gain), Sums(-1, sp.Integer(2))
    moved = {((t.power - 1) / r, int(t.logs)): t.coefficient / r**t.logs for t in gain.terms}
    steps = sums.of(moved, left and ((left[0] - 1) / r, left[1]))
    one = sums.constant(sp.S.One)
    factor = sums.times(steps, sums.constant(r)) if continuous else sums.power(sums.plus(one, steps), r)
    increments = {(p + 1, m): c for (p, m), c in sums.terms(factor).items() if (p, m) != (0, 0)}
    beyond = sums.remainder(factor)
    error = None if beyond is None else beyond[0] + 1
    s, names = sp.Dummy("s", positive=True), {}
    names[s] = increments.pop((sp.S.Zero, 0))
    rest = {at: c for at, c in increments.items() if at[0] >= -1}
    ring = Ring(Atoms(), fmpq(1), NO_POWER, basis=Basis())
    w = growing(ring, _named(ring, rest, s, names, less=1), ring.atoms.of(sp.log(s)), continuous=continuous)
    if error is not None and error < -1:
        error = None
    if error is not None:
        w = ring.above(w, _any_logs(ring, error))
    irregular = any(m or not (2 * p).is_Integer for p, m in rest)
    remainder = sp.S.Zero if error is None and r == 1 else "smaller"
    return Path(r, s, ring, w, names, remainder, error, irregular)


def _power(ring: Ring, p: sp.Expr) -> Power:
    """A power as the exponent of a key."""
    assert ring.basis is not None
    return ring.basis.of(p, "a power of K")


def _any_logs(ring: Ring, p: sp.Expr) -> Key:
    """l^p times more logarithms than any term has."""
    return (*_power(ring, p), MANY, 0)


def _named(ring: Ring, terms: Terms, s: sp.Symbol, names: dict[sp.Symbol, sp.Expr], less: int = 0) -> Powers:
    """Σ c u^p (log u)^m over s^less, of u/s, with symbols for the coefficients, which `names` learns."""
    out: Powers = {}
    for (p, m), c in terms.items():
        name = sp.Dummy("c", real=True)
        names[name] = c
        out[_power(ring, p), m] = ring.atoms.product(name * s ** (p - less))
    return out


def _tidied(c: sp.Expr) -> sp.Expr:
    """Simplified; logarithms of several numbers are not merged into one of a huge number."""
    if not c.has(sp.log, sp.EulerGamma):
        return sp.simplify(c)
    return sp.factor_terms(sp.expand(sp.expand_log(c)))


def _integrated(ring: Ring, series: Series) -> Series:
    """∫ dl of every term that grows, and of log(l) l^p with p < -1 (it vanishes more slowly than what is not known)."""
    live = {k: c for k, c in series.items() if ring.size(k)[0] >= -1 or k[2] == 1}
    whole = ring.solved(scaled(live, ONE, key(1)))
    return {k: c for k, c in whole.items() if ring.size(k)[0] >= 0 or k[2] == 1}


def logarithm(chi: Coefficients, top) -> Coefficients:
    """log(1 + Σ_{p>0} x_p δ^p) up to the power `top`; the constant term must be 1."""
    basis = Basis()
    ring = Ring(Atoms(), NO_POWER, NO_POWER, basis=basis)
    ring.floor = ring.size((*_power(ring, top), NO_POWER, 0))[0]
    x = {(*_power(ring, -p), NO_POWER, 0): ring.atoms.of(v) for p, v in chi.items() if p > 0}
    found = ring.ordered(ring.log1p(ring.powers(x)))
    values = {-basis.expr(a, b): sp.simplify(ring.atoms.expr(c)) for (a, b, _, _), c in found}
    return {p: v for p, v in values.items() if v != 0}
