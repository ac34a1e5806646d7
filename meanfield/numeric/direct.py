"""Averages whose integrand has parameters that change from layer to layer, by panel quadrature at every call.

Such are the averages of a nonlinearity behind a LayerNorm that acts on activations: its mean and scale are averages
themselves. A table in K alone does not serve, so the compiled function evaluates the integral: 24-point Legendre panels
that double outwards from half of min(1, √K), on the folded integrand f(z) + f(-z).
"""

from __future__ import annotations

import sympy as sp

from meanfield.numeric import printing
from meanfield.numeric.rules import gauss_legendre
from meanfield.piecewise import pieces
from meanfield.results import MeanFieldError
from meanfield.symbolic.average import Average
from meanfield.symbols import P, Z

ERROR = 1e-12  # relative to the average of the modulus, measured on the cases of the tests


def direct(node: Average, name: str) -> str:
    """Source of `name(K, p0, p1, …)`, the average over N(0, K) of the node's integrand with its parameters p.

    Raises: MeanFieldError where a piece ends anywhere but at 0.
    """
    body = node.args[0].expr
    p = pieces(body, Z[0])
    if any(b != 0 for b in p.breaks):
        raise MeanFieldError(
            f"{node} has a kink away from 0 behind a LayerNorm that changes with K; such averages are derived, but not "
            "compiled."
        )
    names = [sp.Symbol(f"p{i}", real=True) for i in range(len(node.args[3]))]
    swap = dict(zip(P, names)) | {Z[0]: sp.Symbol("z", real=True)}
    right, left = p.exprs[-1].xreplace(swap), p.exprs[0].subs(Z[0], -Z[0]).xreplace(swap)
    x, w = gauss_legendre(24)
    args = ", ".join(["K", *(s.name for s in names)])
    inner = ", ".join(["z", *(s.name for s in names)])
    return f"""def {name}_f({inner}):
{printing.body(right + left)}

def {name}({args}):
    s = math.sqrt(K)
    reach, a, b, total = 9.5 * s, 0.0, 0.5 * min(1.0, s), 0.0
    while a < reach:
        h, m = 0.5 * (b - a), 0.5 * (a + b)
        for x, w in zip({tuple(map(float, x))!r}, {tuple(map(float, w))!r}):
            z = m + h * x
            total += h * w * {name}_f({inner}) * math.exp(-0.5 * (z / s) ** 2)
        a, b = b, min(2.0 * b, reach)
        if not b > a:
            break
    return total / (s * math.sqrt(2.0 * math.pi))
"""
