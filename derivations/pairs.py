"""Quantities of two inputs of one norm by name, for claims: their map in its coordinates, and what it is made of.

State: K and c, K and γ = c/(1 - c), or σ_μ² = cK and σ_y² = (1 - c)K. A name is that of the next value ("c" is c'),
with ^1 that of layer 1 for inputs of norm 1 and correlation 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import sympy as sp

import meanfield as mf
from derivations import nested
from derivations.placeholders import c, gamma
from meanfield.base.symbols import Q0, K, K_aa, K_ab, K_bb, distance, sigma_b, sigma_mu2, sigma_w, sigma_y2

OF_STATE = {"c": ("K", "c"), "gamma": ("gamma",), "sigma_mu2": ("sigma_mu2", "sigma_y2")}
OF_STATE["sigma_y2"] = OF_STATE["sigma_mu2"]
AT_C = {K_ab: c * K, distance: 2 * K * (1 - c)}
SPREADS = {sigma_mu2: K * gamma / (1 + gamma), sigma_y2: K / (1 + gamma)}
G, X = sp.Symbol("gamma", positive=True), sp.Symbol("x", positive=True)  # in series and limits


def coordinate(theory: mf.Theory, name: str) -> sp.Expr:
    return theory.recursion(*OF_STATE[name])[name]


def first(theory: mf.Theory, name: str) -> sp.Expr:
    """Its value at layer 1 for orthogonal inputs with |x|² = N_0."""
    start = theory.recursion(*OF_STATE[name]).initial[name]
    return sp.simplify(start.subs({Q0: 1, sp.Symbol("c0", real=True): 0}))


def covariance(theory: mf.Theory, i: int, j: int) -> sp.Expr:
    """The covariance of u and u' that K_ab' averages φ(u)φ(u') over."""
    (node,) = theory.equal_norms["K_ab"].atoms(mf.symbolic.Average)
    return node.covariance(i, j).subs(AT_C)


def slope_of_c(theory: mf.Theory) -> sp.Expr:
    return coordinate(theory, "c").diff(c)


def slope_of_covariance(theory: mf.Theory) -> sp.Expr:
    """∂q_ab'/∂q_ab at c = 1."""
    return theory.two_inputs.susceptibilities()["chi_c"].subs({K_aa: K, K_bb: K, K_ab: K})


def gamma_of_spreads(theory: mf.Theory) -> sp.Expr:
    """σ_μ²'/σ_y²' at the state (K, γ)."""
    return (coordinate(theory, "sigma_mu2") / coordinate(theory, "sigma_y2")).subs(SPREADS)


def variance_over_data(theory: mf.Theory) -> sp.Expr:
    """The bar over Var φ, by averages over data and then over weights."""
    f = theory.activations[0].expression
    return nested.square(f) - nested.square_of_mean(f)


@lru_cache(maxsize=64)
def share(theory: mf.Theory, name: str) -> sp.Expr:
    """g or f of γ, for φ of degree 1: the bar over ⟨φ⟩² is σ_y² g/2, that over Var φ is σ_y² f/2."""
    of = coordinate(theory, {"g": "sigma_mu2", "f": "sigma_y2"}[name])
    return 2 * mf.symbolic.closed(of.subs({sigma_w: 1, sigma_b: 0, sigma_mu2: gamma, sigma_y2: 1}))


@lru_cache(maxsize=64)
def series(theory: mf.Theory, name: str) -> sp.Expr:
    """g or f at large γ up to x³, x = γ^{-1/2}; g/f up to x, as g begins with x^{-2}."""
    top, _, bottom = name.partition("/")
    if bottom:
        return sp.series(series(theory, top) / series(theory, bottom), X, 0, 2).removeO()
    return sp.series(sp.expand(share(theory, name)).subs(gamma, 1 / X**2), X, 0, 4).removeO()


def coefficient(theory: mf.Theory, name: str, power: str) -> sp.Expr:
    """The coefficient of γ^power in the series."""
    return sp.expand(series(theory, name)).coeff(X, -2 * sp.Rational(power))


def pair_quantity(theory: mf.Theory, name: str) -> Any:
    """The quantity, or None where this is no name of one."""
    if name.endswith("^1") and name[:-2] in OF_STATE:
        return first(theory, name[:-2])
    if name in OF_STATE:
        return coordinate(theory, name)
    head, _, power = name.rpartition(" ")
    if head in ("g", "f", "g/f"):
        return coefficient(theory, head, power)
    return NAMED[name](theory) if name in NAMED else None


def _phi(theory: mf.Theory) -> sp.Expr:
    return theory.activations[0].expression


NAMED: dict[str, Callable[[mf.Theory], Any]] = {
    "c of K_ab": lambda t: dict(t.two_inputs.readout)["c"],
    "K_ab": lambda t: t.equal_norms["K_ab"].subs(AT_C),
    "J_ab": lambda t: t.equal_norms["J_ab"].subs(AT_C),
    "Var u": partial(covariance, i=0, j=0),
    "Cov(u, u')": partial(covariance, i=0, j=1),
    "Var u'": partial(covariance, i=1, j=1),
    "dc'/dc": slope_of_c,
    "chi_1": lambda t: mf.symbolic.closed(slope_of_c(t).subs(c, 1)),
    "chi~_1": slope_of_covariance,
    "sigma_mu2 + sigma_y2": lambda t: coordinate(t, "sigma_mu2") + coordinate(t, "sigma_y2"),
    "gamma of sigma_mu2, sigma_y2": gamma_of_spreads,
    "c from 0 at sigma_b = 0": lambda t: coordinate(t, "c").subs({c: 0, sigma_b: 0}),
    "<phi>_mu": lambda t: nested.over_data(_phi(t)),
    "<phi^2>_mu": lambda t: nested.over_data(_phi(t) ** 2),
    "<phi>_mu^2": lambda t: nested.over_data(_phi(t)) ** 2,
    "bar<phi^2>": lambda t: nested.square(_phi(t)),
    "bar<phi>^2": lambda t: nested.square_of_mean(_phi(t)),
    "bar Var phi": variance_over_data,
    "g": partial(share, name="g"),
    "f": partial(share, name="f"),
}
