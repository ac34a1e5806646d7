r"""Half-range integrals of polynomials times waves against a Gaussian, at a cost that does not grow with the periods.

∫_b^∞ p(z) e^{iωz} e^{-(z-m)²/2s²} dz, ω > 0: the integrand is entire, so that the path may go up from b by Y and then
along Im z = Y, where it is smaller by e^{-ωY + Y²/2s²}. On the way up it only decays; the rest is bounded. Cauchy's
theorem is all that is used.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp
from flint import acb, arb, ctx

from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.functions.balls import constant, integral

PERIODS = 50  # from which on the path is moved; fewer are followed


@dataclass(frozen=True)
class Oscillation:
    """f = still + Σ 2 Re(p_ω e^{iωz}), ω > 0; p_ω as coefficients (real, imaginary) from degree 0 on."""

    still: sp.Expr
    parts: tuple[tuple[sp.Expr, tuple[tuple[sp.Expr, sp.Expr], ...]], ...]


@lru_cache(maxsize=256)
def oscillation_of(f: sp.Expr) -> Oscillation | None:
    """A sum of polynomials times sines and cosines of a·z + b as waves; None for every other function."""
    if not f.has(sp.sin, sp.cos):
        return None
    e = sp.expand(sp.expand(f.replace(sp.sin, _sine).replace(sp.cos, _cosine)), power_exp=False)
    found: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(sp.powsimp(e))):
        plain, waves = term.as_independent(sp.exp, as_Add=False)
        if not all(isinstance(w, sp.exp) for w in sp.Mul.make_args(waves) if w != 1):
            return None  # tanh(sin z)², 1/(2 + cos z)
        exponent = sp.expand(sp.Add(*[w.args[0] for w in sp.Mul.make_args(waves) if w != 1]))
        omega = exponent.coeff(Z[0], 1) / sp.I
        if not plain.is_polynomial(Z[0]) or exponent.diff(Z[0], 2) != 0 or not omega.is_real:
            return None
        phase = sp.exp(exponent.subs(Z[0], 0))
        found[omega] = found.get(omega, sp.S.Zero) + plain * phase
    parts = []
    for omega, p in found.items():
        if omega.is_positive and sp.expand(p) != 0:
            coefficients = reversed(sp.Poly(p, Z[0]).all_coeffs())
            parts.append((omega, tuple(sp.expand(c, complex=True).as_real_imag() for c in coefficients)))
    still = sp.expand(found.get(sp.S.Zero, sp.S.Zero), complex=True)
    return None if still.has(sp.I) or not still.is_polynomial(Z[0]) else Oscillation(still, tuple(parts))


def _sine(u: sp.Expr) -> sp.Expr:
    return (sp.exp(sp.I * u) - sp.exp(-sp.I * u)) / (2 * sp.I)


def _cosine(u: sp.Expr) -> sp.Expr:
    return (sp.exp(sp.I * u) + sp.exp(-sp.I * u)) / 2


def half_range(waves: Oscillation, m: arb, s: arb, b: arb, side: int) -> arb | None:
    """Σ ∫ 2 Re(p_ω e^{iωz}) times the density of N(m, s²), from b to ∞ (side 1) or from -∞ to b (-1).

    None where there are few periods, or where e^{Y²/2s²} takes back what e^{-ωY} gains.
    """
    total = arb(0)
    for omega, coefficients in waves.parts:
        w = constant(omega)
        size = float((w * s).mid())
        if not size > PERIODS:
            return None
        degree = len(coefficients) - 1
        gain = 2 * ctx.prec * math.log(2) + degree * (abs(float(s.mid().log())) + 5) + 40
        height = arb(1.2 * gain) / w.mid()
        if not 2 * gain < 0.1 * size**2:
            return None
        p = [acb(constant(re), constant(im)) for re, im in coefficients]
        up = _up(p, w, m, s, b, height)
        total += 2 * (up if side > 0 else -up).real
        beyond = 2 * _beyond(p, w, m, s, height)
        total += arb(0, beyond.abs_upper())
    return total


def _up(p: list[acb], w: arb, m: arb, s: arb, b: arb, height: arb) -> acb:
    """∫ from b to b + i·height."""
    norm = 1 / (s * (2 * arb.pi()).sqrt())

    def integrand(y: acb, analytic: bool) -> acb:
        tick()
        z = acb(b) + acb(0, 1) * y
        value = acb(0)
        for c in reversed(p):
            value = value * z + c
        t = (z - m) / s
        return acb(0, 1) * value * (acb(0, 1) * w * z - t * t / 2).exp()

    points = [arb(0), *(height * arb(2) ** -k for k in range(9, 0, -1)), height]
    total = acb(0)
    sizes = (abs(c).abs_upper() * abs(b).max(arb(1)) ** k for k, c in enumerate(p))
    goal = arb(2) ** (-ctx.prec) * sum(sizes, arb(0)) / w
    for low, high in itertools.pairwise(points):
        total += integral(integrand, acb(low), acb(high), abs_tol=goal, eval_limit=200 * ctx.prec + 20000)
    return total * norm


def _beyond(p: list[acb], w: arb, m: arb, s: arb, height: arb) -> arb:
    """A bound of ∫ |p e^{iωz}| times the density along Im z = height: E|X + iY|ⁿ ≤ 3ⁿ(|m|ⁿ + sⁿ E|N|ⁿ + Yⁿ), with
    E|N|ⁿ ≤ n! for N standard normal and n ≥ 0."""
    size = arb(0)
    for n, c in enumerate(p):
        moment = arb(3) ** n * (abs(m) ** n + s**n * math.factorial(n) + height**n)
        size += abs(c).abs_upper() * moment
    return size * (-w * height + height * height / (2 * s * s)).exp()
