r"""The correlators where K falls to 0: by a power of l at a critical point, or exponentially.

σ_w is put into φ, so that what cancels cancels in exact numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Status
from meanfield.base.symbols import J, K
from meanfield.functions.activations import Activation
from meanfield.functions.activations import activation as record
from meanfield.symbolic.correlator_laws.local_series import in_lowest_terms, near_zero
from meanfield.symbolic.correlator_laws.settings import PowerApproach, falling, power_law_at_zero
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw, CorrelatorSystem
from meanfield.symbolic.finite_width.correlator_recursions import NEED_CURVATURE, ORDER, correlator_recursion
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.coefficients import TRIAL, ZERO, Atoms, Exact
from meanfield.symbolic.series.difference import NotFar
from meanfield.symbolic.series.truncated import Calculus, leading

REACHES = (0, 1, 3, 6)  # beyond the order that is asked for, where leading sources cancel


def law_at_zero(
    phi: Activation, weights: str, sigma: sp.Expr, rates: tuple[sp.Expr, sp.Expr], name: str, order: int, status: Status
) -> CorrelatorLaw:
    """The law of a correlator where K falls to 0 (σ_b = 0)."""
    return far_enough(lambda more: _at_zero(phi, weights, sigma, rates, order + more, status), name, order)


def far_enough(system: Callable[[int], CorrelatorSystem], name: str, order: int) -> CorrelatorLaw:
    """The law from the first system that reaches far enough; system: makes one from the orders beyond `order`."""
    held = None
    for more in REACHES:
        if (there := system(more)) is held:
            break
        held = there
        try:
            return there.law(name, order)
        except NotFar:
            continue
    raise MeanFieldError(
        f"The law of {name} is not available: its leading sources cancel in all orders that were looked at, so it is "
        "not "
        "known."
    )


def names_for(phi: Activation) -> tuple[str, ...]:
    """What exists for this φ."""
    if not phi.is_continuous:
        return "V", "G1"
    kinked = bool(phi.kinks)
    return tuple(x for x in (*ORDER[1:], "J1") if not (kinked and x in NEED_CURVATURE))


@lru_cache(maxsize=64)
def recursion_with(phi: Activation, weights: str, sigma: sp.Expr, rates: tuple[sp.Expr, sp.Expr]) -> Recursion:
    """The recursion of all that exists for σ_w φ, with σ_w = 1 and rates to match; σ_b stays."""
    inside = record(sigma * phi.expression) if sigma != 1 else phi
    own = (rates[0] / sigma**2, rates[1])
    return correlator_recursion(inside, weights=weights, quantities=names_for(phi), rates=own).subs({"sigma_w": 1})


def shown_exactly(e: sp.Expr) -> sp.Expr:
    """An exact coefficient as it is shown: a number in the shorter of two forms."""
    if e.free_symbols or e.is_Rational:
        return sp.factor_terms(sp.cancel(e)) if e.free_symbols else e
    return min(sp.radsimp(e), sp.expand(in_lowest_terms(e)), key=sp.count_ops)


@lru_cache(maxsize=64)
def _at_zero(
    phi: Activation, weights: str, sigma: sp.Expr, rates: tuple[sp.Expr, sp.Expr], reach: int, status: Status
) -> CorrelatorSystem:
    recursion = recursion_with(phi, weights, sigma, rates).subs({"sigma_b": 0})
    atoms = Atoms()
    expander = near_zero(atoms, reach + 3)
    slope = expander(recursion["K"] / K)
    first, c = leading(slope) if slope.terms else (1, ZERO)
    kappa = sp.simplify(atoms.expr(c)) if first == 0 else sp.nan
    if kappa == 1:
        calculus = Calculus(atoms, is_zero=zero_test(atoms))
        near = power_law_at_zero(calculus, expander, recursion["K"], reach + 1)
        _require_falling(calculus, near)
        return CorrelatorSystem(recursion, near, "critical: power-law approach of K to 0", status, shown_exactly)
    if kappa is sp.nan or not kappa.is_positive:
        raise MeanFieldError("K falls to 0 faster than exponentially here, so no law of a correlator is derived.")
    chi_K, chi_J = sp.diff(recursion["K"], K), sp.diff(recursion["J"], J) if "J" in recursion.names else sp.S.One
    setting = falling(atoms, expander, chi_K, chi_J, kappa)
    return CorrelatorSystem(recursion, setting, "K falls to 0 exponentially", status, shown_exactly)


def _require_falling(calculus: Calculus, setting: PowerApproach) -> None:
    amplitude = calculus.atoms.expr(setting.A)
    if not (amplitude > 0) == True:  # noqa: E712 (a symbol is not decided)
        raise MeanFieldError("Whether K falls to 0 here depends on symbols that have no numbers.")


def zero_test(atoms: Atoms) -> Callable[[Exact], bool]:
    """Whether a coefficient with atoms is 0: looked at in digits, then proved. Symbols alone are independent."""
    values: list[float] = []
    point: dict[sp.Symbol, sp.Rational] = {}

    def value(i: int) -> float:
        while len(values) <= i:
            e = atoms.found[len(values)]
            for s in sorted(e.free_symbols, key=str):
                point.setdefault(s, TRIAL + sp.Rational(len(point), 7))
            values.append(float(sp.N(e.subs(point), 17)))
        return values[i]

    def is_zero(c: Exact) -> bool:
        if all(atoms.found[i].is_Symbol for monomial in c.terms for i, _ in monomial):
            return False
        total = size = 0.0
        for monomial, x in c.terms.items():
            part = int(x.p) / int(x.q)  # whole numbers of any length
            for i, n in monomial:
                part *= value(i) ** n
            total, size = total + part, size + abs(part)
        if abs(total) > 1e-10 * size:
            return False
        if sp.simplify(atoms.expr(c)) != 0:
            raise MeanFieldError("A coefficient that is 0 to ten digits is not proved to be 0; nor is the law.")
        return True

    return is_zero
