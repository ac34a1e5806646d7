r"""The correlators of positively homogeneous φ where K does not settle: exactly in l where that closes."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError, Status, Term
from meanfield.base.quantities import QUANTITIES
from meanfield.base.symbols import Q0, K, l
from meanfield.functions.activations import Activation
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.correlator_laws.scale_invariant import (
    Homogeneous,
    NotClosed,
    Polynomial,
    PowersOfK,
    expr_of,
    monomial,
)
from meanfield.symbolic.correlator_laws.systems import CARRIED, CorrelatorLaw, CorrelatorSystem
from meanfield.symbolic.correlator_laws.vanishing_variance import far_enough, shown_exactly
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.coefficients import Atoms
from meanfield.symbolic.series.ring import ORDER_ONE, key
from meanfield.symbolic.series.truncated import Calculus, Truncated


@lru_cache(maxsize=64)
def is_homogeneous(phi: Activation) -> bool:
    """Whether ⟨φ²⟩ = A K for every K."""
    try:
        c, j = monomial(average(phi.pieces.map(lambda e: e**2).expr, K))
    except MeanFieldError:
        return False
    return j == 1 and c != 0


class ExactSystem(CorrelatorSystem):
    """A `CorrelatorSystem` whose solutions are polynomials in l and H_l, where they close."""

    def __init__(self, recursion: Recursion, way: Homogeneous, regime: str) -> None:
        self.way, self.polynomials = way, {"K": {(0, 0): way.K1}}
        setting = PowersOfK(way.calculus, way.along(self.polynomials["K"]), way.kappa)
        super().__init__(recursion, setting, regime, Status.EXACT, shown_exactly)

    def polynomial(self, name: str) -> Polynomial:
        if name not in self.polynomials:
            if name == "J":
                self.polynomials[name] = {(0, 0): sp.S.One}
            else:
                others = lambda symbol: (self.names[symbol], self.polynomial(self.names[symbol]))  # noqa: E731
                own = self.recursion.state[self.recursion.index(name)].symbol
                of_others = lambda s: (name, {}) if s == own else others(s)  # noqa: E731
                self.polynomials[name] = self.way.solved(name, self.parts(name), of_others, _harmonic_rate)
        return self.polynomials[name]

    def _solved(self, name: str) -> Truncated:
        return self.way.along(self.polynomial(name))

    def law(self, name: str, order: int) -> CorrelatorLaw:
        found = super().law(name, order)
        top = expr_of(self.polynomial(CARRIED.get(name, name)))
        below = sp.S.One
        for x, p in QUANTITIES[name].over if name not in CARRIED else ():
            below = below * expr_of(self.polynomial(x)) ** p
        H = sp.Dummy("H")
        exact = sp.factor(sp.cancel((top / below).subs(sp.harmonic(l), H))).subs(H, sp.harmonic(l))
        kappa = self.way.kappa
        if name == "Theta" and kappa != 1:
            exact = exact * kappa ** (l - 1)
            grown = [replace(t, coefficient=t.coefficient / kappa, rate=sp.log(kappa)) for t in found.terms]
            found = replace(found, terms=tuple(grown))
        if exact.is_polynomial(l):
            terms = tuple(Term(c, sp.Integer(a)) for (a,), c in sp.Poly(exact, l).terms() if c != 0)
            found = replace(found, terms=terms, remainder="zero", remainder_logs=sp.S.Zero)
        return replace(found, exact=exact)


def _harmonic_rate(e: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(c, d) of a rate c + d/l."""
    d = sp.expand(e).coeff(l, -1)
    c = sp.expand(e - d / l)
    if c.has(l) or sp.sympify(d).has(l):
        raise NotClosed
    return c, d


def homogeneous_law(
    recursion: Recursion, sigma: sp.Expr, bias: sp.Expr, norm: sp.Expr, name: str, order: int
) -> CorrelatorLaw:
    """The law where φ is homogeneous and K does not settle: exactly in l where that closes. norm: Q0."""
    recursion = recursion.replaced({"sigma_w": sigma, "sigma_b": bias})
    kappa, _ = monomial(recursion["K"] - bias**2)
    first = {x: sp.simplify(v.subs(Q0, norm)) for x, v in recursion.start.items()}
    regime = "scale-invariant: every K is a fixed point" if kappa == 1 else "scale-invariant: K' = chi_K K"
    if bias == 0:
        exact = ExactSystem(recursion, Homogeneous(Calculus(Atoms()), first, first["K"], kappa), regime)
        try:
            return far_enough(lambda _: exact, name, order)
        except NotClosed:
            pass
    atoms = Atoms()
    bases = () if kappa == 1 else (kappa,)
    calculus = Calculus(atoms, bases=bases, transient=bias != 0 and kappa != 1)
    if kappa == 1:
        terms = {key(0): atoms.product(first["K"] - bias**2)} | ({key(1): atoms.product(bias**2)} if bias != 0 else {})
        along = Truncated({k: c for k, c in terms.items() if c}, None, ())
        regime = regime if bias == 0 else "K grows linearly"
    else:
        c = atoms.product(first["K"] / kappa) if bias == 0 else atoms.of(sp.Symbol("C_K", positive=True))
        along = Truncated({ORDER_ONE: c}, None, (fmpq(1),))
    system = CorrelatorSystem(recursion, PowersOfK(calculus, along, kappa), regime, Status.EXACT, shown_exactly)
    return far_enough(lambda _: system, name, order)
