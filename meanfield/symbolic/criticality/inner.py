r"""The critical line of a block whose averages are all over the variance V of an inner Dense (or of a gate's two).

Then F(K) = K and χ_J = 1 are not linear in (σ_w², σ_b²), but they are three polynomial equations with V = αK + β, in
which V, as what averages are over, is the parameter: the definition of V gives σ_b², the map K, and what is left one
polynomial in σ_w², whose positive root is taken where it has one. Source: derived here.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, sigma_b, sigma_w
from meanfield.functions import balls
from meanfield.symbolic.averages.node import Average, average, outermost

_S, _B = sp.Dummy("s", positive=True), sp.Dummy("b", nonnegative=True)
_V = sp.Dummy("V", positive=True)
_SAMPLES = (sp.Rational(1, 7), sp.Integer(1), sp.Rational(23, 3))


@dataclass(frozen=True)
class InnerLine:
    """σ_w², σ_b², the fixed point and χ_K there as functions of V, which is written K; variance: V itself."""

    sigma_w2: sp.Expr
    sigma_b2: sp.Expr
    place: sp.Expr
    chi_K: sp.Expr
    variance: sp.Expr


def inner_line(step: sp.Expr, chi: sp.Expr) -> InnerLine | None:
    """The line χ_J = 1 of the map `step`; None where the averages have several variances, or no root is known."""
    inner = {n.cov for e in (step, chi) for n in outermost(e)}
    if len(inner) != 1:
        return None
    (cov,) = inner
    if len(cov) != 1 or cov == (K,) or not cov[0].has(sigma_w, sigma_b):
        return None
    names: dict[sp.Expr, sp.Symbol] = {}
    slope = sp.diff(step, K)

    def flat(e: sp.Expr) -> sp.Expr:
        known = {n: names.setdefault(_over(n), sp.Dummy(f"a{len(names)}", real=True)) for n in outermost(e)}
        return e.xreplace(known).subs({sigma_w: sp.sqrt(_S), sigma_b: sp.sqrt(_B)})

    variance = sp.expand(flat(cov[0]))
    b_share = variance.coeff(_B, 1)
    if b_share == 0 or sp.expand(variance - b_share * _B).has(_B) or b_share.has(_S, K):
        return None
    b = (_V - sp.expand(variance - b_share * _B)) / b_share
    whole = sp.expand(sp.numer(sp.together(flat(step - K).subs(_B, b))))
    if not whole.is_polynomial(K) or sp.degree(whole, K) != 1:
        return None
    place = sp.cancel(-whole.coeff(K, 0) / whole.coeff(K, 1))
    rest = sp.numer(sp.cancel(sp.together(flat(chi - 1).subs(_B, b).subs(K, place))))
    root = _positive_root(sp.expand(rest), {v: n for n, v in names.items()})
    if root is None:
        return None
    b = b.subs(K, place)

    def put(e: sp.Expr) -> sp.Expr:
        return sp.factor_terms(sp.together(flat(e).subs(_B, b).subs(K, place).subs(_S, root)))

    found = (root, put(sigma_b**2), put(K), put(slope))
    back = {v: n for n, v in names.items()}
    w, b, place, chi_k = (e.xreplace(back).xreplace({_V: K}) for e in found)
    return InnerLine(w, b, place, chi_k, cov[0])


def _over(node: Average) -> sp.Expr:
    """The same average over V."""
    return average(node.integrand, _V) if not node.args[3] else node.xreplace({node.cov[0]: _V})


def _positive_root(equation: sp.Expr, back: dict[sp.Symbol, sp.Expr]) -> sp.Expr | None:
    """The root s > 0 of a polynomial equation, which must be the only one at several V; None if there is none."""
    if not equation.is_polynomial(_S) or not equation.has(_S):
        return None
    roots = [r for r in sp.roots(sp.Poly(equation, _S), multiple=False) if r != 0]
    if not roots or sp.degree(equation, _S) > 4:
        return None
    free = {s: sp.Rational(1, 2) for s in equation.free_symbols - {_S, _V, *back}}
    kept = roots
    for sample in _SAMPLES:
        try:
            at = {v: _number(n.subs(_V, sample)) for v, n in back.items()} | free | {_V: sample}
        except MeanFieldError:
            return None
        values = [(r, complex(sp.N(r.subs(at), 30))) for r in roots]
        here = [r for r, z in values if abs(z.imag) < 1e-12 * abs(z) and z.real > 0]
        if len(here) != 1:
            return None
        kept = [r for r in kept if r in here]
    return sp.factor_terms(kept[0]) if len(kept) == 1 else None


def _number(e: sp.Expr) -> sp.Expr:
    return sp.Float(str(float(balls.certified(e, 30).mid())), 30) if e.has(Average) else e
