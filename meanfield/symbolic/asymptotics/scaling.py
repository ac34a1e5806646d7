r"""How K grows under K' = K + s + …, and how a small δ dies under δ' = δ - c δⁿ - …, with its next orders, and what
that makes of log J = Σ log χ_J(δ^l).

With u = δ^{-(n-1)} the map is u' = u + a + Σ b_q u^{-q}, a = (n-1)c, so u = a l + … + γ log l + C: powers l^{1-q}
first, then the logarithm. Everything before the constant C, which depends on the start, is determined by the expansion.
Source: derived here (dominant balance); the leading order is [partial_jacobians] Lemma C.1 with the prefactor
(c(n-1))^{-1/(n-1)}, which the printed (C.3) has for n = 2 only.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.results import Law, Term

Powers = dict[sp.Expr, sp.Expr]  # power → coefficient
Series = dict[tuple[sp.Expr, int], sp.Expr]  # (power of l, power of log l) → coefficient


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


def decay(gain: Powers, log_chi: Powers | None = None) -> Decay:
    """The law of δ' = δ + Σ gain[m] δ^m, leading coefficient negative, and of log J = Σ_l Σ_k log_chi[k] δ^k.

    gain must reach to the power 2n - 1 and log_chi to n - 1 for the logarithms to be right.

    >>> law = decay({3: -sp.Rational(7, 10)})
    >>> law.exponent, sp.N(law.amplitude, 10)
    (1/2, 0.8451542547)
    """
    gain, log_chi = ({sp.sympify(k): v for k, v in powers.items()} for powers in (gain, log_chi or {}))
    n = min(gain)
    c, r = -gain[n], n - 1
    increments = _increments(gain, c, n, r)
    a = increments.pop(sp.S.One)
    w = _relative(a, {q - 1: b for q, b in increments.items()})
    delta = _scaled(_binomial(w, -1 / r, sp.S.NegativeOne), a ** (-1 / r), -1 / r)
    total: Series = {}
    for k, d in log_chi.items():
        if k == 0 or d == 0:
            continue
        part = _scaled(_binomial(w, -k / r, sp.S.NegativeOne), d * a ** (-k / r), -k / r)
        for key, value in part.items():
            total[key] = total.get(key, sp.S.Zero) + value
    return Decay(n, c, sp.simplify(a ** (-1 / r)), 1 / r, _terms(delta), _terms(_integrated(total)))


def _increments(gain: Powers, c, n, r) -> Powers:
    """u' - u as Σ coefficient·u^{1-e}, keyed by e, up to e = 2: (1 - ε)^{-r} - 1 with ε = Σ e_m u^{-(m-1)/r}."""
    epsilon = {(m - 1) / r: -g for m, g in gain.items() if (m - 1) / r <= 2}
    out: Powers = {}
    for e, g in epsilon.items():
        out[e] = out.get(e, sp.S.Zero) + r * g
    for e, g in epsilon.items():
        for f, h in epsilon.items():
            if e + f <= 2:
                out[e + f] = out.get(e + f, sp.S.Zero) + r * (r + 1) / 2 * g * h
    return {e: sp.simplify(v) for e, v in out.items() if v != 0}


def _relative(a, increments: Powers) -> Series:
    """w with u = a l (1 + w), from du/dl = a + Σ b_q u^{-q}: powers of l down to log(l)/l."""
    w: Series = {}
    for _ in range(1 + max([0, *(int(sp.ceiling(1 / q)) for q in increments)])):
        slope: Series = {}
        for q, b in increments.items():
            part = _scaled(_binomial(w, -q, q - 1, inclusive=True), b * a ** (-q), -q)
            for key, value in part.items():
                slope[key] = slope.get(key, sp.S.Zero) + value
        w = {(p - 1, g): v / a for (p, g), v in _integrated(slope).items()}
    return w


@dataclass(frozen=True)
class Growth:
    """K^l = s l (1 + w) as l → ∞, for K' = K + s + terms that fall as powers of K.

    K: the terms that are determined, most important first (a constant depends on the start); remainder: of K, a power
    of l or "smaller"; error: K is known up to a relative l^error; irregular: whether logarithms or other powers than
    halves entered.
    """

    s: sp.Expr
    w: Series
    known: dict[sp.Symbol, sp.Expr]
    K: tuple[Term, ...]
    remainder: str | sp.Expr
    error: sp.Expr
    irregular: bool

    def summed(self, terms: dict[tuple[sp.Expr, int], sp.Expr], rest) -> tuple[tuple[Term, ...], bool]:
        """Σ_l of the same, without the constant: the terms that grow, and the logarithm that falls as log(l)/√l;
        whether nothing that grows is missing."""
        known = dict(self.known)
        series = _along(_named(terms, known), self.s, self.w, -sp.Rational(3, 2))
        if rest is not None:
            series = {(p, g): v for (p, g), v in series.items() if (p, g) > rest}
        worst = max([p for p, _ in terms], default=-sp.oo) + self.error
        if worst >= -1:
            series = {(p, g): v for (p, g), v in series.items() if p > worst}
        return _put_back(_integrated(series), known), rest is None and worst < -1


def linear_growth(gain: Law) -> Growth:
    """The path of K for the expansion `gain` of K' - K at K → ∞, whose leading term is a positive constant.

    K' - K = dK/dl + ½ d²K/dl² + …, whose second term falls faster than 1/l and so adds to the constant only.
    """
    s, names = sp.Dummy("s", positive=True), {}
    names[s] = gain.leading.coefficient
    rest = _named({(t.power, int(t.logs)): t.coefficient for t in gain.terms[1:] if t.power >= -1}, names)
    known = gain.remainder in ("zero", "exponential") or bool(sp.sympify(gain.remainder) < -1)
    w: Series = {}
    steps = 2 + max([0, *(int(sp.ceiling(-1 / p)) for p, _ in rest)])
    for _ in range(steps):
        slope = _along(rest, s, w, sp.S.NegativeOne)
        if not known:
            slope = {(p, g): v for (p, g), v in slope.items() if p > gain.remainder}
        w = {(p - 1, g): sp.expand(v / s) for (p, g), v in _grown(slope).items()}
    terms = _put_back({(p + 1, g): s * v for (p, g), v in w.items()} | {(sp.S.One, 0): s}, names)
    remainder = sp.S.Zero if known else "smaller"
    irregular = any(m or not (2 * p).is_Integer for p, m in rest)
    return Growth(s, w, names, terms, remainder, sp.S.NegativeOne if known else gain.remainder, irregular)


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


def _terms(series: Series) -> tuple[Term, ...]:
    found = [Term(sp.simplify(v), p, sp.Integer(g)) for (p, g), v in series.items()]
    found = [t for t in found if t.coefficient != 0]
    return tuple(sorted(found, key=lambda t: (t.power, t.logs), reverse=True))


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
