r"""The correlators where K comes close to K* > 0: exponentially, or by a power of l at a critical point.

Numbers are known to `DIGITS` digits, and where K* and they are rational, exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.symbols import J, K, sigma_b, sigma_w
from meanfield.functions.activations import Activation
from meanfield.symbolic.asymptotics.depth import critical_law
from meanfield.symbolic.asymptotics.slow import derivative, slow_approach
from meanfield.symbolic.asymptotics.slow import taylor as powers_near
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.correlator_laws.local_series import exact
from meanfield.symbolic.correlator_laws.settings import HalfStable, SlowPoint, at_fixed_point
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw, CorrelatorSystem
from meanfield.symbolic.correlator_laws.vanishing_variance import far_enough, names_for, zero_test
from meanfield.symbolic.criticality.critical_points import ApproachToRoot, CriticalPoint
from meanfield.symbolic.equality import equal
from meanfield.symbolic.finite_width.correlator_recursions import correlator_recursion
from meanfield.symbolic.fixed_points.all_fixed_points import FixedPoint, FixedPoints
from meanfield.symbolic.fixed_points.certified_roots import enclose, evaluate, rational
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbolic.series.coefficients import Atoms, Exact, of
from meanfield.symbolic.series.coefficients import rational as as_fmpq
from meanfield.symbolic.series.truncated import Calculus

DIGITS = 18  # that a number at K* > 0 must have
SHOWN = 15  # that are stated
LAMBDA = sp.Symbol("lambda", real=True)


def number_at(e: sp.Expr, lo: sp.Expr, hi: sp.Expr) -> fmpq:
    """A function of K at a K* between two rationals, to `DIGITS` digits."""
    if e == 0:
        return fmpq(0)
    ball = enclose(e, lo, hi, DIGITS + 4)
    if not ball.is_finite() or ball.rel_accuracy_bits() < 3.33 * DIGITS:
        exact = closed(e)  # a number that is 0 has no digits
        exact = exact if exact.has(Average) or lo != hi else sp.simplify(exact.subs(K, lo))
        if exact.is_Rational:
            return as_fmpq(exact)
        raise MeanFieldError(f"A coefficient at K* = {float(lo):.6g} is not known to {DIGITS} digits; nor is the law.")
    return as_fmpq(rational(ball, DIGITS + 5))


def _digits(e: sp.Expr) -> sp.Expr:
    """A coefficient with long rationals in it, in digits."""
    if all(len(str(r.p)) + len(str(r.q)) < 20 for r in e.atoms(sp.Rational)):
        return sp.factor_terms(sp.cancel(e)) if e.free_symbols else e
    return sp.N(sp.expand(sp.cancel(e)) if e.free_symbols else e, SHOWN)


@dataclass(frozen=True)
class NearFixedPoint:
    """A network whose K comes to K* > 0: its numbers, and the fixed points of K. start: K at layer 1."""

    phi: Activation
    weights: str
    sigma: sp.Expr
    bias: sp.Expr
    rates: tuple[sp.Expr, sp.Expr]
    start: sp.Expr
    point: FixedPoint
    points: FixedPoints

    def recursion(self) -> Recursion:
        """All correlators of this φ at these σ's."""
        found = correlator_recursion(self.phi, weights=self.weights, quantities=names_for(self.phi), rates=self.rates)
        return found.subs({"sigma_w": self.sigma, "sigma_b": self.bias})


@lru_cache(maxsize=64)
def at_point(place: NearFixedPoint) -> CorrelatorSystem:
    """K → K* > 0 exponentially."""
    recursion, point = place.recursion(), place.point
    star, error = point.K.value, point.K.error
    ends = (star, star)
    if error is not None:
        ends = sp.Rational(star) - sp.Rational(error), sp.Rational(star) + sp.Rational(error)
    atoms = Atoms()

    def value(e: sp.Expr) -> Exact:
        if not e.has(K):
            return atoms.of(e)
        if error is None:
            exact = closed(e).subs(K, star)
            if not exact.has(sp.Integral) and (simple := sp.simplify(exact)).is_Rational:
                return atoms.of(simple)
        return of(number_at(e, *ends))

    chi_K, chi_J = sp.diff(recursion["K"], K), sp.diff(recursion["J"], J) if "J" in recursion.names else sp.S.One
    setting = at_fixed_point(atoms, value, chi_K, chi_J)
    regime = f"fixed point K* = {float(star):.10g}"
    return CorrelatorSystem(recursion, setting, regime, place.points.status, _digits)


def law_at_point(place: NearFixedPoint, name: str, order: int) -> CorrelatorLaw:
    """The law of a correlator where K comes exponentially close to K* > 0."""
    return far_enough(lambda _: at_point(place), name, order)


@lru_cache(maxsize=16)
def _slow(place: NearFixedPoint, reach: int) -> CorrelatorSystem:
    """K → K* > 0 with χ_K = 1 by a power of l."""
    recursion, point = place.recursion(), place.point
    step, chi_J, star = recursion["K"], sp.diff(recursion["J"], J), point.K.value
    near = slow_approach(step, None, point, place.start, place.points.monotone)
    if near is None:
        raise MeanFieldError(
            f"chi_K is 1 at K* = {float(star):.10g}, to {float(point.chi_K.error or 0):.1e}, and how K comes there is "
            "not known exactly, so that no law of a correlator is derived; follow it with propagate."
        )
    atoms = Atoms()

    def taylor(e: sp.Expr, length: int) -> list[Exact]:
        found = powers_near(closed(e), star, 0, length)
        return [exact(atoms, _rational(near.side**k * found.get(sp.Integer(k), sp.S.Zero))) for k in range(length)]

    steep = taylor(chi_J, 1)[0]
    base = atoms.expr(steep)
    bases = () if base == 1 else (base,)
    calculus = Calculus(atoms, bases=bases, is_zero=zero_test(atoms), transient=bool(bases))
    order = int(min(near.gain))
    length = (order - 1) * (reach + 2) + 2
    setting = SlowPoint(calculus, taylor, step, chi_J, steep, near.side, length, reach + 2)
    regime = f"fixed point K* = {float(star):.10g} with chi_K = 1; power-law approach of K to K*"
    after = critical_law(near.gain, {}, star, "K", near.side).onset or 1.0
    return CorrelatorSystem(recursion, setting, regime, place.points.status, _digits, after=after)


def _rational(e: sp.Expr) -> sp.Expr:
    """A number in digits as a rational, which exact arithmetic takes."""
    return e.xreplace({x: sp.Rational(x) for x in e.atoms(sp.Float)})


def law_where_slow(place: NearFixedPoint, name: str, order: int) -> CorrelatorLaw:
    """The law of a correlator where K comes to K* > 0 by a power of l."""
    return far_enough(lambda more: _slow(place, order + more), name, order)


def law_at_critical_point(
    phi: Activation, weights: str, point: CriticalPoint, rates: tuple[sp.Expr, sp.Expr], name: str, order: int
) -> CorrelatorLaw:
    """The law at a critical point with K* > 0, for a start in its basin; rates hold sigma_w and sigma_b."""
    return far_enough(lambda more: _half_stable(phi, weights, point, rates, order + more), name, order)


def _long(x: object) -> sp.Rational:
    """A number as a rational of many digits."""
    return sp.Rational(sp.N(x, 2 * DIGITS))


def _vanishes(e: sp.Expr, recursion: Recursion, lo: sp.Expr, hi: sp.Expr) -> bool:
    """Whether a function of K is a multiple of χ_K − χ_J = σ_w²⟨φφ″⟩, which is 0 at a critical point."""
    if not enclose(e, lo, hi, 15).contains(0):
        return False
    gap = sp.diff(recursion["K"], K) - sp.diff(recursion["J"], J)
    ratio = evaluate(e, sp.S.One, 20) / evaluate(gap, sp.S.One, 20)
    factor = sp.nsimplify(rational(ratio, 15), rational=True, tolerance=sp.Rational(1, 10**12))
    return bool(equal(e, factor * gap))


@lru_cache(maxsize=16)
def _half_stable(
    phi: Activation, weights: str, point: CriticalPoint, rates: tuple[sp.Expr, sp.Expr], reach: int
) -> CorrelatorSystem:
    names = names_for(phi)
    assert isinstance(point.approach, ApproachToRoot)
    root = point.approach.root
    w2 = _long(point.sigma_w.value) ** 2
    recursion = correlator_recursion(phi, weights=weights, quantities=names, rates=rates)
    recursion = recursion.replaced({sigma_w: sp.sqrt(w2), sigma_b: _long(point.sigma_b.value)})
    lo, hi = (root.exact, root.exact) if root.exact is not None else (root.lo, root.hi)
    known: dict[sp.Expr, list[fmpq]] = {}

    def taylor(e: sp.Expr, length: int) -> list[fmpq]:
        found = known.setdefault(e, [])
        if length and not found and isinstance(e, Average) and _vanishes(w2 * e, recursion, lo, hi):
            found.append(fmpq(0))
        while len(found) < length:
            found.append(number_at(derivative(e, len(found)), lo, hi) if e != K else as_fmpq(_long(root.mid)))
        return found[:length]

    atoms = Atoms()
    zeta = point.zeta
    assert zeta is not None
    rational_zeta = sp.sympify(zeta.value).is_Rational
    near = _long(zeta.value)
    calculus = Calculus(atoms) if rational_zeta else Calculus(atoms, LAMBDA, as_fmpq(near))
    lam = atoms.of(zeta.value if rational_zeta else LAMBDA)
    chi_J = sp.diff(recursion["J"], J)
    setting = HalfStable(calculus, taylor, recursion["K"], chi_J, lam, reach + 3, reach + 1)
    value = {LAMBDA: near}
    regime = f"critical: power-law approach of K to K* = {float(root.mid):.10g}"
    after = max(law.onset or 1.0 for law in point.approach.laws)
    return CorrelatorSystem(
        recursion, setting, regime, Status.MEASURED, lambda e: _digits(e.xreplace(value)), True, after=after
    )
