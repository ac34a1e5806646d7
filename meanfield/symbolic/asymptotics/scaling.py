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

from meanfield.base.answers.results import Law, MeanFieldError, Term
from meanfield.base.arguments import shown, validated
from meanfield.base.symbols import K
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.averages.expansions.powerlog import Sum

Powers = dict[sp.Expr, sp.Expr]  # power → coefficient
Series = dict[tuple[sp.Expr, int], sp.Expr]  # (power of l, power of log l) → coefficient
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


def _powers(given: object, what: str) -> Powers:
    """Powers with their coefficients, numbers exact; a coefficient may hold symbols."""
    if not isinstance(given, Mapping):
        raise MeanFieldError(f"{what} must be a mapping from powers to coefficients, but {shown(given)} was given.")
    found = {expression(k, f"A power of {what}"): expression(v, f"A coefficient of {what}") for k, v in given.items()}
    if not all(k.is_number for k in found):
        raise MeanFieldError(f"A power of {what} must be a number, but {shown(given)} was given.")
    return found


def decay_of(gain: Powers, log_chi: Powers | None = None) -> Decay:
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

    u: the terms of u that are determined, most important first (a constant depends on the start), and x those of x;
    remainder: of x, a power of l or "smaller"; error: u is known up to a relative l^error; irregular: whether
    logarithms or other powers than halves entered.
    """

    root: sp.Expr  # 1 - n
    s: sp.Expr
    w: Series
    known: dict[sp.Symbol, sp.Expr]
    remainder: str | sp.Expr
    error: sp.Expr
    irregular: bool

    @property
    def x(self) -> tuple[Term, ...]:
        power = 1 / self.root
        series = _scaled(_binomial(self.w, power, sp.S.NegativeOne), self.s**power, power)
        return _put_back(series, self.known)

    def summed(self, terms: dict[tuple[sp.Expr, int], sp.Expr], rest, cut=_FALLS):
        """(Σ_l of Σ c x^p (log x)^m without the constant: the terms that grow, and the logarithm that falls as log(l)
        times a power; whether nothing that grows is missing). rest: (power, logs) of x beyond which terms are not
        known; cut: the power of l in the summand down to which the constant in u leaves terms determined."""
        known = dict(self.known)
        r = self.root
        along = {(p / r, m): c / r**m for (p, m), c in terms.items()}
        series = _along(_named(along, known), self.s, self.w, cut)
        if rest is not None:
            rest = (rest[0] / r, rest[1])
            series = {(p, g): v for (p, g), v in series.items() if (p, g) > rest}
        worst = max([p for p, _ in along], default=-sp.oo) + self.error
        if worst >= -1:
            series = {(p, g): v for (p, g), v in series.items() if p > worst}
        return _put_back(_integrated(series), known), rest is None and worst < -1


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
    plain = gain.remainder in ("zero", "exponential")
    left = None if plain else ((sp.sympify(gain.remainder) - 1) / r, int(gain.remainder_logs))
    steps = Sum(-1, {((t.power - 1) / r, int(t.logs)): t.coefficient / r**t.logs for t in gain.terms}, left)
    if continuous:
        factor = steps * Sum(-1, {(sp.S.Zero, 0): r})
    else:
        factor = (Sum(-1, {(sp.S.Zero, 0): sp.S.One}) + steps).power(r, sp.Integer(2))
    increments = {(p + 1, m): c for (p, m), c in factor.terms.items() if (p, m) != (0, 0)}
    error = None if factor.rest is None else factor.rest[0] + 1
    s, names = sp.Dummy("s", positive=True), {}
    names[s] = increments.pop((sp.S.Zero, 0))
    rest = _named({key: c for key, c in increments.items() if key[0] >= -1}, names)
    known = error is None or bool(error < -1)
    w: Series = {}
    for _ in range(2 + max([0, *(int(sp.ceiling(-1 / p)) for p, _ in rest)])):
        slope = _along(rest, s, w, sp.S.NegativeOne)
        if not known:
            slope = {(p, g): v for (p, g), v in slope.items() if p > error}
        w = {(p - 1, g): sp.expand(v / s) for (p, g), v in _grown(slope).items()}
    irregular = any(m or not (2 * p).is_Integer for p, m in rest)
    remainder = sp.S.Zero if known and r == 1 else "smaller"
    return Path(r, s, w, names, remainder, sp.S.NegativeOne if known else error, irregular)


def _named(terms, names: dict[sp.Symbol, sp.Expr]):
    """The same terms with symbols for their coefficients, which `names` learns."""
    out = {}
    for key, c in terms.items():
        out[key] = sp.Dummy("c", real=True)
        names[out[key]] = c
    return out


def _put_back(series: Series, names) -> tuple[Term, ...]:
    found = [Term(_tidied(sp.expand(v).xreplace(names)), p, sp.Integer(g)) for (p, g), v in series.items()]
    return tuple(sorted((t for t in found if t.coefficient != 0), key=lambda t: (t.power, t.logs), reverse=True))


def _tidied(c: sp.Expr) -> sp.Expr:
    """Simplified; logarithms of several numbers are not merged into one of a huge number."""
    if not c.has(sp.log, sp.EulerGamma):
        return sp.simplify(c)
    return sp.factor_terms(sp.expand(sp.expand_log(c)))


def _along(terms, s, w: Series, cut) -> Series:
    """Σ c K^p (log K)^m with K = s l (1 + w), down to l^cut."""
    out: Series = {}
    for (p, m), c in terms.items():
        part = _binomial(w, p, cut - p, inclusive=True)
        log = {(sp.S.Zero, 1): sp.S.One, (sp.S.Zero, 0): sp.log(s)} | _log1p(w, cut - p) if m else {}
        for _ in range(m):
            part = _product(part, log, cut - p)
        for key, v in _scaled(part, c * s**p, p).items():
            out[key] = out.get(key, sp.S.Zero) + v
    return {key: v for key, v in out.items() if v != 0}


def _product(a: Series, b: Series, cut) -> Series:
    out: Series = {}
    for (p, g), x in a.items():
        for (q, h), y in b.items():
            if p + q >= cut:
                out[p + q, g + h] = out.get((p + q, g + h), sp.S.Zero) + x * y
    return out


def _log1p(w: Series, cut) -> Series:
    out: Series = {}
    power: Series = {(sp.S.Zero, 0): sp.S.One}
    for k in range(1, 40):
        power = _product(power, w, cut)
        if not power:
            break
        for key, v in power.items():
            out[key] = out.get(key, sp.S.Zero) + sp.Rational((-1) ** (k + 1), k) * v
    return out


def _grown(series: Series) -> Series:
    """∫ dl of terms l^p (log l)^g with p ≥ -1."""
    out: Series = {}
    for (p, g), v in series.items():
        if p == -1:
            out[sp.S.Zero, g + 1] = out.get((sp.S.Zero, g + 1), sp.S.Zero) + v / (g + 1)
            continue
        factor = v / (p + 1)
        for k in range(g, -1, -1):
            out[p + 1, k] = out.get((p + 1, k), sp.S.Zero) + factor
            factor = -factor * k / (p + 1)
    return out


def _binomial(w: Series, s, cut, inclusive: bool = False) -> Series:
    """(1 + w)^s, kept down to the power `cut` of l: there itself only with a logarithm (which beats an unknown
    constant) unless `inclusive`."""
    out: Series = {(sp.S.Zero, 0): sp.S.One}
    power, k, factor = dict(out), 0, sp.S.One
    while power and k < 40:
        k += 1
        factor = factor * (s - k + 1) / k
        following: Series = {}
        for (p, g), x in power.items():
            for (q, h), y in w.items():
                if p + q > cut or (p + q == cut and (inclusive or g + h > 0)):
                    following[p + q, g + h] = following.get((p + q, g + h), sp.S.Zero) + x * y
        power = following
        for key, value in power.items():
            out[key] = out.get(key, sp.S.Zero) + factor * value
    return {key: w for key, v in out.items() if (w := sp.expand(v)) != 0}


def _scaled(series: Series, factor, shift) -> Series:
    return {(p + shift, g): factor * v for (p, g), v in series.items()}


def _integrated(series: Series) -> Series:
    """∫ dl of every term that grows, and of log(l) l^p with p < -1 (it vanishes more slowly than what is not known)."""
    out = _grown({key: v for key, v in series.items() if key[0] >= -1})
    for (p, g), v in series.items():
        if p < -1 and g == 1:
            out[p + 1, 1] = out.get((p + 1, 1), sp.S.Zero) + v / (p + 1)
    return out


def logarithm(chi: Powers, top) -> Powers:
    """log(1 + Σ_{p>0} x_p δ^p) up to the power `top`; the constant term must be 1."""
    x = {p: v for p, v in chi.items() if p > 0}
    out: Powers = {}
    power: Powers = {sp.S.Zero: sp.S.One}
    for k in range(1, 40):
        following: Powers = {}
        for p, a in power.items():
            for q, b in x.items():
                if p + q <= top:
                    following[p + q] = following.get(p + q, sp.S.Zero) + a * b
        if not following:
            break
        power = following
        for p, v in power.items():
            out[p] = out.get(p, sp.S.Zero) + sp.Rational((-1) ** (k + 1), k) * v
    return {p: sp.simplify(v) for p, v in sorted(out.items()) if sp.simplify(v) != 0}
