r"""The correlators of positively homogeneous φ (linear, ReLU, leaky ReLU, |z|) exactly in l, where that closes.

Without biases K^l = K¹ κ^{l-1}, and an average in the map of a correlator is a number times a power of K. Divided by
κ^{d(l-1)}, d its degree in K, each correlator is x_{l+1} = x_l + s_l with a source that is a polynomial in l, and in
the harmonic number H_l for a rate λ_b = c/l; sums of l^a H_l^b with b ≤ 2 are again such polynomials.

Source: derived here; [orthogonal_weights] (4.19) has V of ReLU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy as sp
from flint import fmpq

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K, l
from meanfield.symbolic.recursion import closed
from meanfield.symbolic.series.coefficients import ONE, Exact, of
from meanfield.symbolic.series.exponents import NO_POWER
from meanfield.symbolic.series.ring import ORDER_ONE, Key, any_logs, key, plus
from meanfield.symbolic.series.truncated import Calculus, Truncated

#: degree in K where rates of biases are 0: z has ½, a tangent kernel 1
DEGREE = {"K": 1, "Theta": 1, "G1": 1, "Theta1": 1, "J": 1, "D_J": 1, "F_J": 1, "J1_J": 0}
Polynomial = dict[tuple[int, int], sp.Expr]  # (a, b) → coefficient of l^a H_l^b
MOST_LOGS = 2
HARMONIC = 12  # terms of the series of H_l


class NotClosed(Exception):
    """A sum is no polynomial in l and H_l."""


def monomial(e: sp.Expr) -> tuple[sp.Expr, sp.Expr]:
    """(c, j) of a coefficient that is c K^j for every K. Raises: MeanFieldError for another one."""
    c, remainder = sp.expand(sp.powsimp(closed(e))).as_independent(K, as_Add=False)
    base, j = remainder.as_base_exp() if remainder != 1 else (K, sp.S.Zero)
    if c == 0:
        return sp.S.Zero, sp.S.Zero
    if base != K or c.has(K):
        simple = sp.simplify(closed(e))
        if simple == e:
            raise MeanFieldError(f"{e} is no power of K.")
        return monomial(simple)
    return c, j


def monomials(e: sp.Expr) -> list[tuple[sp.Expr, sp.Expr]]:
    """[(c, j), …] of a sum of powers of K."""
    found: dict[sp.Expr, sp.Expr] = {}
    for term in sp.Add.make_args(sp.expand(sp.powsimp(closed(e)))):
        c, j = monomial(term)
        found[j] = sp.simplify(found.get(j, sp.S.Zero) + c)
    return [(c, j) for j, c in found.items() if c != 0]


def summed(f: Polynomial) -> Polynomial:
    """Σ_{m=1}^{l-1} f(m)."""
    out: Polynomial = {}
    todo = dict(f)
    while todo:
        b = max(b for _, b in todo)
        if b > MOST_LOGS:
            raise NotClosed
        part = sp.Poly({(a,): c for (a, k), c in todo.items() if k == b}, l)
        todo = {(a, k): c for (a, k), c in todo.items() if k != b}
        P = _antidifference(part)  # P(m+1) − P(m) = part(m), P(0) = 0
        _add(out, {(a, b): c for (a,), c in P.terms()})
        if b == 0:
            _add(out, {(0, 0): -P.eval(1)})
            continue
        # Σ ΔP·H^b = P H^b | − Σ P(m+1) (H_{m+1}^b − H_m^b), H_{m+1} = H_m + 1/(m+1)
        _add(out, {(0, 0): -P.eval(1)})  # H_1 = 1
        ahead = sp.Poly(P.as_expr().subs(l, l + 1), l)
        for k in range(1, b + 1):
            quotient, left = sp.div(ahead, sp.Poly((l + 1) ** k, l))
            weight = -sp.binomial(b, k)
            _add(todo, {(a, b - k): weight * c for (a,), c in quotient.terms() if c != 0})
            if not left.is_zero:  # c/(m+1): Σ H_m^{b-k}/(m+1), which is H_l − 1 for b = k
                small = sp.div(left, sp.Poly((l + 1) ** (k - 1), l))
                if b != k or k != 2 or not small[1].is_zero or small[0].degree() > 0:
                    raise NotClosed
                c = weight * small[0].as_expr()
                _add(out, {(0, 1): c, (0, 0): -c})
    return {k: c for k, c in out.items() if c != 0}


def _antidifference(p: sp.Poly) -> sp.Poly:
    """P with P(x + 1) − P(x) = p(x) and P(0) = 0."""
    total = sp.S.Zero
    for (a,), c in p.terms():
        total += c * (sp.bernoulli(a + 1, l) - sp.bernoulli(a + 1, 0)) / (a + 1)
    return sp.Poly(sp.expand(total), l)


def _add(out: Polynomial, more: Polynomial) -> None:
    for k, c in more.items():
        out[k] = sp.expand(out.get(k, sp.S.Zero) + c)


def _product(f: Polynomial, g: Polynomial) -> Polynomial:
    out: Polynomial = {}
    for (a, b), x in f.items():
        for (c, d), y in g.items():
            _add(out, {(a + c, b + d): x * y})
    return out


def expr_of(f: Polynomial) -> sp.Expr:
    return sp.Add(*[c * l**a * sp.harmonic(l) ** b for (a, b), c in f.items()])


@dataclass(frozen=True)
class Homogeneous:
    """What functions of K are where φ is homogeneous and K^l = K¹ κ^{l-1}.

    start: values at layer 1; K1, kappa: numbers. `along` makes a `Truncated` series of a polynomial in l and H_l.
    """

    calculus: Calculus
    start: dict[str, sp.Expr]
    K1: sp.Expr
    kappa: sp.Expr

    def solved(
        self,
        name: str,
        parts: Mapping[tuple[sp.Expr, sp.Expr], sp.Expr],
        others: Callable[[sp.Symbol], tuple[str, Polynomial]],
        rate: Callable[[sp.Expr], tuple[sp.Expr, sp.Expr]],
    ) -> Polynomial:
        """x^l = κ^{-d(l-1)} X^l of one variable. parts: its map, as in `System.parts`; others: name of a symbol → its
        polynomial, with its name; rate: a rate of the layer that is made as a polynomial, and c of c/(l + 1)."""
        degree, harmonic, multiplier = DEGREE.get(name, 2), sp.S.Zero, sp.S.Zero
        source: Polynomial = {}
        split = [(place, c, j) for place, e in parts.items() for c, j in monomials(e)]
        for (states, of_layer), c, j in split:
            total, term = j, {(0, 0): c * self.K1**j}
            own = False
            for factor in sp.Mul.make_args(states):
                if factor == 1:
                    continue
                base, p = factor.as_base_exp()
                held, polynomial = others(base)
                total += DEGREE.get(held, 2) * p
                own = own or held == name
                for _ in range(int(p)):
                    term = _product(term, polynomial) if held != name else term
            if self.kappa != 1 and sp.simplify(total - degree) != 0:
                raise NotClosed
            term = {k: sp.simplify(v * self.kappa**-degree) for k, v in term.items()}
            if own:
                multiplier += term[0, 0]
                continue
            constant, falls = rate(of_layer)
            _add(source, {k: v * constant for k, v in term.items()})
            if falls != 0:
                if set(term) != {(0, 0)}:
                    raise NotClosed
                harmonic += falls * term[0, 0]
        if sp.simplify(multiplier - 1) != 0:
            raise NotClosed
        found = summed({k: c for k, c in source.items() if c != 0})
        _add(found, {(0, 0): self.start[name] - harmonic, (0, 1): harmonic})  # Σ_{m<l} 1/(m+1) = H_l − 1
        return {k: sp.simplify(c) for k, c in found.items() if sp.simplify(c) != 0} or {}

    def along(self, f: Polynomial) -> Truncated:
        """Its series in l and log l."""
        calc = self.calculus
        none = (NO_POWER,) * len(calc.bases)
        total = calc.constant(of(fmpq(0)))
        for (a, b), c in f.items():
            part = Truncated({key(a): calc.atoms.product(c)}, None, none)
            for _ in range(b):
                part = calc.times(part, self._harmonic)
            total = calc.plus(total, part)
        return total

    @property
    def _harmonic(self) -> Truncated:
        """H_l = log l + γ + 1/(2l) − Σ B_{2k}/(2k l^{2k})."""
        calc = self.calculus
        log: Key = (NO_POWER, NO_POWER, fmpq(1), 0)
        terms: dict[Key, Exact] = {log: ONE, key(0): calc.atoms.of(sp.EulerGamma), key(-1): of(fmpq(1, 2))}
        for k in range(1, HARMONIC // 2):
            b = sp.bernoulli(2 * k)
            terms = plus(terms, {key(-2 * k): of(fmpq(-int(b.p), int(b.q) * 2 * k))})
        return Truncated(terms, any_logs(-HARMONIC), (NO_POWER,) * len(calc.bases))


@dataclass(frozen=True)
class PowersOfK:
    """The `Setting` of a homogeneous φ: every coefficient is c K^j, and K^l is known. kappa: χ_K = χ_J."""

    calculus: Calculus
    K: Truncated
    kappa: sp.Expr

    def coefficient(self, e: sp.Expr) -> Truncated:
        calc, found = self.calculus, monomials(e)
        if any(not j.is_Integer for _, j in found):
            raise MeanFieldError(f"{e} is no sum of whole powers of K.")
        parts = [calc.scaled(calc.power(self.K, int(j)), calc.atoms.product(c)) for c, j in found]
        return calc.plus(*parts) if parts else calc.constant(of(fmpq(0)))

    def multiplier(self, e: sp.Expr) -> Truncated:
        ((c, j),) = monomials(e)
        a = next((a for a in range(-1, 5) if sp.simplify(c - self.kappa**a) == 0), None)
        if a is None or j != 0:
            raise MeanFieldError(f"The multiplier {e} is no power of chi_K.")
        return Truncated({ORDER_ONE: ONE}, None, tuple(fmpq(a) for _ in self.calculus.bases))
