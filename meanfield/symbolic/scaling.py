r"""How a small δ dies under δ' = δ - c δⁿ - …, with its next orders, and what that makes of log J = Σ log χ_J(δ^l).

With u = δ^{-(n-1)} the map is u' = u + a + Σ b_q u^{-q}, a = (n-1)c, so u = a l + … + γ log l + C: powers l^{1-q}
first, then the logarithm. Everything before the constant C, which depends on the start, is determined by the expansion.
Source: derived here (dominant balance); the leading order is [partial_jacobians] Lemma C.1 with the prefactor
(c(n-1))^{-1/(n-1)}, which the printed (C.3) has for n = 2 only.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.results import Term

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


def decay(gain: Powers, log_chi: Powers) -> Decay:
    """The law of δ' = δ + Σ gain[m] δ^m, leading coefficient negative, and of log J = Σ_l Σ_k log_chi[k] δ^k.

    gain must reach to the power 2n - 1 and log_chi to n - 1 for the logarithms to be right.

    >>> law = decay({sp.Integer(3): -sp.Rational(7, 10)}, {})
    >>> law.exponent, sp.N(law.amplitude, 10)
    (1/2, 0.8451542547)
    """
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
    return {key: sp.simplify(v) for key, v in out.items() if v != 0}


def _scaled(series: Series, factor, shift) -> Series:
    return {(p + shift, g): factor * v for (p, g), v in series.items()}


def _integrated(series: Series) -> Series:
    """∫ dl of every term that grows, and of log(l) l^p with p < -1 (it vanishes more slowly than what is not known)."""
    out: Series = {}
    for (p, g), v in series.items():
        if p == -1 and g == 0:
            key, value = (sp.S.Zero, 1), v
        elif p > -1 and g == 0:
            key, value = (p + 1, 0), v / (p + 1)
        elif p < -1 and g == 1:
            key, value = (p + 1, 1), v / (p + 1)
        else:
            continue
        out[key] = out.get(key, sp.S.Zero) + value
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
