"""Theorem E.1 and Lemma F.1 by their change of variables: the Gaussian exponents and Jacobians of (61)-(64).

They hold node by node, so one node is enough; f does not enter. γ = σ_μ²/σ_y², q = σ_μ² + σ_y². Densities are averages
over the centre and those of the engine's covariance; what is algebra of the new variables alone is composed.
"""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import network
from derivations.comparisons import Formula
from derivations.pairs import covariance
from derivations.placeholders import c as shared
from meanfield.base.symbols import K, z

RELU = network("relu")  # any network: nothing below depends on it
y, y_, centre = sp.symbols("y y_ m", real=True)
v, gamma = sp.symbols("sigma_y2 gamma", positive=True)
v_mu, q, c = gamma * v, (1 + gamma) * v, gamma / (1 + gamma)
long = sp.sqrt(2 * gamma + 1)
new, new_ = y_, ((gamma + 1) * y - gamma * y_) / long  # (63), (64)


def over_centres(theory: mf.Theory) -> sp.Expr:
    """2π times the joint density of y and y′, independent at one centre m ~ N(0, σ_μ²), both with variance σ_y²."""
    spread = sp.Symbol("v_mu", positive=True)
    inner = sp.exp(-((y - z) ** 2 + (y_ - z) ** 2) / (2 * v))
    return mf.symbolic.closed(mf.average(inner, spread)).subs(spread, v_mu) / v


def old_in_new(theory: mf.Theory) -> sp.Expr:
    """y in terms of the new variables, which are called y and y_ again."""
    first, second = sp.symbols("first second", real=True)
    found = sp.solve([new - first, new_ - second], [y, y_], dict=True)[0]
    return sp.simplify(found[y].subs({first: y, second: y_}))


def density(theory: mf.Theory) -> sp.Expr:
    """The same by the covariance of two inputs that a layer of the network passes to φ, K = q and c = γ/(1 + γ)."""
    entries = [covariance(theory, i, j).subs({K: q, shared: c}) for i, j in ((0, 0), (0, 1), (0, 1), (1, 1))]
    form = sp.Matrix(2, 2, entries)
    x = sp.Matrix([y, y_])
    return sp.simplify(sp.exp(-(x.T * form.inv() * x)[0] / 2) / sp.sqrt(form.det()))


third = sp.exp(-(y**2 + y_**2) / (2 * v) + gamma**2 * (y + y_) ** 2 / (2 * v_mu * (2 * gamma + 1))) / long / v
fourth = sp.exp(-(new_**2 + new**2) / (2 * q)) / long / v

CLAIMS = (
    Formula(
        "B30 (61), third line",
        RELU,
        "exponent",
        y**2 / (2 * q) + (centre - v_mu * y / q) ** 2 / (2 * v * v_mu / q),
        y**2 / (2 * q) + (centre - v * y / q) ** 2 / (2 * v * v_mu / q),
        composed=True,
        by=lambda t: sp.expand(centre**2 / (2 * v_mu) + (y - centre) ** 2 / (2 * v)),
    ),
    Formula("B30 (62), third line", RELU, "density", third, third * long, by=over_centres),
    Formula("B30 (62), fourth line", RELU, "density", fourth, fourth.subs(q, v), by=over_centres),
    Formula("B30 (62), as two correlated inputs", RELU, "density", fourth, fourth * long, by=density),
    Formula(
        "B30 (64), y",
        RELU,
        "y",
        c * y + sp.sqrt(1 - c**2) * y_,
        c * y + sp.sqrt(1 - c) * y_,
        composed=True,
        by=old_in_new,
    ),
    Formula(
        "B30, after (64)",
        RELU,
        "sqrt(1 - c^2)",
        long / (gamma + 1),
        long / gamma,
        composed=True,
        by=lambda t: sp.sqrt(sp.factor(1 - c**2)),
    ),
)
