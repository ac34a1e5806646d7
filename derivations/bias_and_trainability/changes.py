"""Theorem E.1 and Lemma F.1 by their change of variables: the Gaussian exponents and Jacobians of (61)-(64).

They hold node by node, so one node is enough; f does not enter. γ = σ_μ²/σ_y², q = σ_μ² + σ_y².
"""

from __future__ import annotations

import sympy as sp

import meanfield as mf
from derivations.claims import Formula, network

RELU = network("relu")  # any network: nothing below depends on it
y, y_, centre = sp.symbols("y y_ m", real=True)
v, gamma = sp.symbols("sigma_y2 gamma", positive=True)
v_mu, q, c = gamma * v, (1 + gamma) * v, gamma / (1 + gamma)
long = sp.sqrt(2 * gamma + 1)
new, new_ = y_, ((gamma + 1) * y - gamma * y_) / long  # (63), (64)
joint = ((y - centre) ** 2 + (y_ - centre) ** 2) / (2 * v) + centre**2 / (2 * v_mu)


def over_centres(exponent: sp.Expr) -> sp.Expr:
    """∫ dm e^{-exponent}/√(2πσ_μ²), the exponent quadratic in m."""
    a, half, rest = sp.Poly(sp.expand(exponent), centre).all_coeffs()
    return sp.exp(half**2 / (4 * a) - rest) / sp.sqrt(2 * v_mu * a)


def old_in_new(theory: mf.Theory) -> sp.Expr:
    """y in terms of the new variables, which are called y and y_ again."""
    first, second = sp.symbols("first second", real=True)
    found = sp.solve([new - first, new_ - second], [y, y_], dict=True)[0]
    return sp.simplify(found[y].subs({first: y, second: y_}))


def density(theory: mf.Theory) -> sp.Expr:
    """The joint density of y and y′ by its covariance: q, and σ_μ² between them."""
    form = sp.Matrix([[q, v_mu], [v_mu, q]])
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
        by=lambda t: sp.expand(centre**2 / (2 * v_mu) + (y - centre) ** 2 / (2 * v)),
    ),
    Formula("B30 (62), third line", RELU, "density", third, third * long, by=lambda t: over_centres(joint) / v),
    Formula("B30 (62), fourth line", RELU, "density", fourth, fourth.subs(q, v), by=lambda t: over_centres(joint) / v),
    Formula("B30 (62), as two correlated inputs", RELU, "density", fourth, fourth * long, by=density),
    Formula("B30 (64), y", RELU, "y", c * y + sp.sqrt(1 - c**2) * y_, c * y + sp.sqrt(1 - c) * y_, by=old_in_new),
    Formula(
        "B30, after (64)",
        RELU,
        "sqrt(1 - c^2)",
        long / (gamma + 1),
        long / gamma,
        by=lambda t: sp.sqrt(sp.factor(1 - c**2)),
    ),
)
