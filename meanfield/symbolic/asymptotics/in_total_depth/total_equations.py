r"""The limiting equations of networks of L blocks in t = l/L, and their solutions where they are linear or one power.

k = lim K/L^κ, j = lim log J/L^ρ, h = lim K_ab. Source: derived here.
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.symbolic.asymptotics.log_growth import CONSTANT, Growth

t = sp.Symbol("t", positive=True)  # l/L
K_0 = sp.Symbol("K_0", positive=True)  # K behind the first blocks
k, j = sp.Function("k", positive=True), sp.Function("j", nonnegative=True)
c_0 = sp.Symbol("c_0", real=True)  # the cosine of two inputs there
h = sp.Function("h", real=True)
NAMES = ("t", "K_0", "c_0", "L")


def equal(left: sp.Expr, right: sp.Expr) -> sp.Eq:
    return sp.Eq(left, right, evaluate=False)


def grown(start: sp.Expr, forces: list[tuple[sp.Expr, sp.Expr]]) -> sp.Expr:
    """k of k' = Σ size·t^{-power}."""
    return start + sp.Add(*[size * t ** (1 - p) / (1 - p) for size, p in forces])


def root(grown: sp.Expr, power: sp.Expr) -> sp.Expr:
    """(c t^p)^{1/(1 - a)}, written as one power of t."""
    c, falls = grown.as_independent(t, as_Add=False)
    return c ** (1 / (1 - power)) * t ** (sp.powsimp(falls).as_base_exp()[1] / (1 - power))


def linear(start: sp.Expr, rate: sp.Expr, V: sp.Expr, forces: list[tuple[sp.Expr, sp.Expr]]) -> sp.Expr:
    """k' = rate·t^{-V} k + Σ size·t^{-power}, V < 1."""
    r = 1 - V
    c = rate / r
    e = sp.exp(c * t**r)
    parts = [start * e]
    for size, p in forces:
        x = sp.simplify((1 - p) / r)
        kept = e - 1 if x == 1 else e * sp.lowergamma(x, c * t**r)
        parts.append(size / r * c**-x * kept)
    return sp.Add(*parts)


def integral(rate: sp.Expr) -> sp.Expr | None:
    """∫₀ᵗ of c·t^{-p}; None for what is no power of t."""
    flat = sp.powsimp(sp.powdenest(sp.expand_power_base(rate, force=True), force=True), force=True)
    c, rest = flat.as_independent(t, as_Add=False)
    if rest == 1:
        return c * t
    base, power = rest.as_base_exp()
    if base != t or power.has(t):
        return None
    return c * t ** (1 + power) / (1 + power)


def in_t(law: Growth) -> Growth:
    """A law in l at l = tL."""
    constant = None if law.constant is None else law.constant * t ** law.power_of(0)
    if constant is None and law.power_of(0) != 0:
        constant = CONSTANT * t ** law.power_of(0)
    terms = tuple((key, c * t ** key[0]) if key[0] != 0 else (key, c) for key, c in law.terms)
    return replace(law, terms=terms, constant=constant)
