r"""How a positive quantity X behaves as l → ∞: log X = Σ c·l^p (log l)^q (log log l)^r … + log C + o(1).

One form holds powers (c log l), powers of logarithms (c log log l), exponentials (c l), stretched ones (c l^p) and what
lies between (exp(c √log l)). Where the partial products of Π (1 + W m^{-V}) are a factor, they are kept: their
logarithm has ever more growing terms as V → 0. Products and powers need nothing but addition; which of two laws is
larger, and whether a sum over layers converges, are questions about exponents (`comparing`), which an oracle answers
(`exponent_cells`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import mpmath
import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Term, one_line
from meanfield.base.answers.terms import little_o
from meanfield.base.precision import decimals
from meanfield.base.symbols import l
from meanfield.symbolic.asymptotics.depth import CONSTANT as FREE
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.series.asymptotic_law import Law

LEVELS = 4  # l, log l, log log l, log log log l
CONSTANT = sp.Symbol("C", positive=True)  # what depends on the start
Key = tuple[sp.Expr, ...]
_LOG: tuple[Key, ...] = tuple(
    tuple(sp.Integer(i == level) for i in range(LEVELS)) for level in range(1, LEVELS)
)  # log l, log log l, log log log l as terms of log X


class SignOracle(Protocol):
    """What answers whether a form in the exponents is negative, zero or positive."""

    def sign(self, form: sp.Expr) -> int: ...


@dataclass(frozen=True)
class Growth:
    """X ~ constant · Π_j Π_{m<l} (1 + W_j m^{-V_j})^{n_j} · exp(Σ coefficient · l^p (log l)^q …).

    terms: (key, coefficient) with key = (p, q, …), those of the largest size first; products: (W, V, n); constant: None
    where it depends on the start or is not derived; leading: whether terms of log X that grow, but less than the first,
    are left out.
    """

    terms: tuple[tuple[Key, sp.Expr], ...] = ()
    products: tuple[tuple[sp.Expr, sp.Expr, sp.Expr], ...] = ()
    constant: sp.Expr | None = sp.S.One
    leading: bool = False
    of: sp.Symbol = l  # or L, of a network of L blocks

    # ------------------------------------------------------------------------------------------------- reading it

    @property
    def stretched(self) -> tuple[tuple[Key, sp.Expr], ...]:
        """The terms of log X that outgrow log l."""
        return tuple((k, c) for k, c in self.terms if k not in _LOG)

    @property
    def is_regular(self) -> bool:
        """Whether X is a power of l times powers of logarithms."""
        return not self.products and not self.stretched and not self.leading

    def power_of(self, level: int) -> sp.Expr:
        """The exponent of l (level 0), log l (1) or log log l (2) as a factor of X."""
        return next((c for k, c in self.terms if k == _LOG[level]), sp.S.Zero)

    @property
    def has_root(self) -> bool:
        """Whether a number of it is known by the equation it solves, and all numbers are numbers."""
        found = [e for e in (self.constant, *(c for _, c in self.terms)) if e is not None]
        return all(e.is_number for e in found) and any(
            hasattr(n, "equation") for e in found for n in sp.preorder_traversal(e)
        )

    @property
    def exponent(self) -> sp.Expr:
        """The power of l as a factor of X."""
        return self.power_of(0)

    @property
    def expr(self) -> sp.Expr:
        """The law as an expression in l; C stands for what depends on the start. Where terms of log X that grow are
        left out, they stand in the exponential as o(·) of the last one: X is not this expression up to a factor."""
        x = sp.S.One if self.constant is None else self.constant
        front = CONSTANT if self.constant is None else sp.S.One
        m = sp.Symbol("m", integer=True, positive=True)
        for W, V, n in self.products:
            x *= sp.Product(1 + W * m ** (-V), (m, 1, self.of)) ** n
        x *= sp.Mul(*[self._iterated(i) ** self.power_of(i) for i in range(LEVELS - 1)])
        above = sp.Add(*[c * self._monomial(k) for k, c in self.stretched])
        if self.leading and self.terms:
            above += little_o(self._monomial(self.terms[-1][0]))
        return front * x * sp.exp(above)

    def _monomial(self, key: Key) -> sp.Expr:
        return sp.Mul(*[self._iterated(i) ** p for i, p in enumerate(key)])

    def text(self) -> str:
        """The law on one line."""
        return f"exp({self.log} + smaller order)" if self.leading else str(self.expr)

    @property
    def log(self) -> sp.Expr:
        """The terms of log X, products as they are."""
        m = sp.Symbol("m", integer=True, positive=True)
        kept = [n * sp.log(sp.Product(1 + W * m ** (-V), (m, 1, self.of))) for W, V, n in self.products]
        return sp.Add(*kept, *[c * self._monomial(k) for k, c in self.terms])

    @property
    def law(self) -> Law:
        """The same as a `Law`. Raises: MeanFieldError where it is none: a power of log log l, a logarithm in an
        exponent, a product over layers, or terms of log X that grow and are left out."""
        above = self.stretched
        if self.products or self.leading or self.power_of(2) != 0 or any(any(k[1:]) for k, _ in above):
            raise MeanFieldError(f"{self.text()} is no sum of terms c*l^p*log(l)^q*exp(r*l^s); take its `expr`.")
        rates = [(c, k[0]) for k, c in above]
        first = rates[0] if rates else (sp.S.Zero, sp.S.One)
        constant = CONSTANT if self.constant is None else self.constant
        lead = Term(constant, self.power_of(0), self.power_of(1), *first, tuple(rates[1:]))
        return Law(self.of, sp.oo, (lead,), "smaller")

    def __repr__(self) -> str:
        return one_line("Growth", self.text())

    def log_at(
        self, t: float, values: Mapping[sp.Symbol, object] | None = None, leading: bool = False
    ) -> float:
        """log X − log C at log l = t > 1, in floats (C: the constant, where it depends on the start).

        leading: whether the known terms will do where log X has further ones that grow. Raises: MeanFieldError where it
        has, and they were not asked for.
        """
        if self.leading and not leading:
            raise MeanFieldError(
                f"log X is known to its leading terms alone, {self.log}, and what is left out grows, too. For these "
                "terms give leading=True; depth_law(..., order=n) may know more."
            )

        def number(e: sp.Expr) -> float:
            return value_of(e, values)

        logs = [t, math.log(t), math.log(math.log(t)) if t > math.e else math.nan]  # of l, log l, log log l
        total = 0.0 if self.constant is None else math.log(number(self.constant))
        for key, c in self.terms:
            powers = [number(p) for p in key]
            size = sum(p * logs[i] for i, p in enumerate(powers[:3]) if p)
            if powers[3]:
                size += powers[3] * math.log(logs[2])
            total += number(c) * math.exp(size)
        for W, V, n in self.products:
            total += number(n) * log_product(number(W), number(V), t)
        return total

    # ------------------------------------------------------------------------------------------------- arithmetic

    def __mul__(self, other: Growth) -> Growth:
        terms = dict(self.terms)
        for key, c in other.terms:
            terms[key] = sp.expand(terms[key] + c) if key in terms else c  # a lone one keeps its factors
        products = {(W, V): n for W, V, n in self.products}
        for W, V, n in other.products:
            products[W, V] = products.get((W, V), sp.S.Zero) + n
        constant = _together(self.constant, other.constant)
        leading = self.leading or other.leading
        # powers of l lie below what a leading term leaves out
        kept = tuple((k, c) for k, c in terms.items() if c != 0 and not (leading and k in _LOG))
        left = tuple((W, V, n) for (W, V), n in products.items() if n != 0)
        return Growth(kept, left, constant, leading, self.of if other.of == l else other.of)

    def __pow__(self, n: object) -> Growth:
        n = sp.sympify(n)
        if n == 0:
            return Growth(of=self.of)
        return Growth(
            tuple((k, -c if n == -1 else sp.expand(n * c)) for k, c in self.terms),
            tuple((W, V, n * m) for W, V, m in self.products),
            None if self.constant is None else _unknown_once(power_of_positive(self.constant, n)),
            self.leading,
            self.of,
        )

    def __truediv__(self, other: Growth) -> Growth:
        return self * other**-1

    def times(self, number: sp.Expr) -> Growth:
        """The same times a positive number."""
        return self if self.constant is None else replace(self, constant=self.constant * number)

    @property
    def of_unknown_size(self) -> Growth:
        """The same with a constant that depends on the start."""
        return replace(self, constant=None)

    def at(self, values: Mapping[sp.Symbol, sp.Expr]) -> Growth:
        """The law with numbers put in."""
        constant = self.constant
        for factor in () if constant is None else constant.atoms(sp.gamma):
            if inverse_gamma(factor.args[0].subs(values) - 1) is None:
                constant = None
        return replace(self, constant=constant).map(lambda e: sp.sympify(e).subs(values))

    def map(self, function) -> Growth:
        """`function` applied to every number of the law."""
        terms = tuple((tuple(map(function, k)), function(c)) for k, c in self.terms)
        products = tuple((function(W), function(V), n) for W, V, n in self.products)
        kept = tuple((k, c) for k, c in terms if c != 0)
        return Growth(kept, products, None if self.constant is None else function(self.constant), self.leading, self.of)

    def _iterated(self, i: int) -> sp.Expr:
        x: sp.Expr = self.of
        for _ in range(i):
            x = sp.log(x)
        return x


def _unknown_once(constant: sp.Expr) -> sp.Expr:
    """A power of what depends on the start is such a number, too."""
    known, unknown = constant.as_independent(CONSTANT, as_Add=False)
    return known * CONSTANT if unknown.as_base_exp()[0] == CONSTANT else constant


def _together(a: sp.Expr | None, b: sp.Expr | None) -> sp.Expr | None:
    """The product of two constants. What depends on the start is another number in each, and never cancels."""
    if a is None or b is None:
        return None
    if not (a.has(CONSTANT) and b.has(CONSTANT)):
        return a * b
    parts = [x.as_independent(CONSTANT, as_Add=False) for x in (a, b)]
    if any(unknown != CONSTANT for _, unknown in parts):
        return None
    return parts[0][0] * parts[1][0] * CONSTANT


def power_of_positive(x: sp.Expr, n: sp.Expr) -> sp.Expr:
    """x^n for x > 0, factor by factor: 1/√(1/(1 - β)) is √(1 - β), as only one factor has a sign that is not known."""
    open_ = [f for f in sp.Mul.make_args(x) if not f.is_positive]
    if n.is_Integer or len(open_) > 1 or any(f.is_Pow and not (f.exp.is_Integer and f.exp % 2) for f in open_):
        return x**n
    pairs = [f.as_base_exp() for f in sp.Mul.make_args(x)]
    return sp.Mul(*[base ** (e * n) for base, e in pairs])


def inverse_gamma(x: sp.Expr) -> sp.Expr | None:
    """1/Γ(1 + x), x > 0; None for a number beyond 1000, whose factorial would have to be worked out."""
    return None if x.is_number and x > 1000 else 1 / sp.gamma(1 + x)


def value_of(e: sp.Expr, values: Mapping[sp.Symbol, object] | None = None) -> float:
    """A number of a law as a float; those without symbols are kept (a product over all layers takes seconds)."""
    e = sp.sympify(e)
    return _digits(e.subs(values) if values else e)


@lru_cache(maxsize=4096)
def _digits(e: sp.Expr) -> float:
    return float(sp.N(e.xreplace({p: _infinite(p) for p in e.atoms(sp.Product)})))


def _infinite(p: sp.Product) -> sp.Expr:
    """Π_{m ≥ 1} (1 + W m^{-V}), V > 1, as a number: 30 exact factors, then Σ_k (-W)^k ζ(kV, 31)/k."""
    m, first, last = p.limits[0]
    W = (p.function - 1).subs(m, 1)
    V = sp.log(W / (p.function - 1).subs(m, 2), 2)
    if (first, last) != (1, sp.oo) or not (W.is_number and V.is_number):
        return p
    with decimals(25):
        w, v = (mpmath.mpf(str(sp.N(x, 25))) for x in (W, V))
        begin = max(31, math.ceil(float(2 * w) ** (1 / float(v))) + 1)
        total = mpmath.fsum(mpmath.log1p(w * mpmath.mpf(j) ** -v) for j in range(1, begin))
        k, term = 1, mpmath.mpf(1)
        while abs(term) > mpmath.mpf(10) ** -22:
            term = -((-w) ** k) * mpmath.zeta(k * v, begin) / k
            total, k = total + term, k + 1
        return sp.Float(str(mpmath.exp(total)), 20)


def regular(constant: sp.Expr | None, *powers: object) -> Growth:
    """constant · l^powers[0] (log l)^powers[1] (log log l)^powers[2]; None: a constant that depends on the start."""
    found = [(key, sp.sympify(p)) for key, p in zip(_LOG, powers)]
    return Growth(tuple((k, p) for k, p in found if p != 0), (), None if constant is None else sp.sympify(constant))


def exponential(coefficient: sp.Expr, *powers: object, leading: bool = False) -> Growth:
    """exp(coefficient · l^powers[0] (log l)^powers[1] …), up to a constant that depends on the start."""
    key = tuple(sp.sympify(p) for p in (*powers, *[0] * LEVELS))[:LEVELS]
    return Growth(((key, sp.sympify(coefficient)),), (), None, leading)


def grown(law: DepthLaw) -> Growth:
    """The law of J, K at one place as a `Growth`. Raises: MeanFieldError where it is one in another variable
    than l, or of J where no power of l is known."""
    if law.variable != l:
        raise MeanFieldError(f"{law.quantity} falls with 1/log l here; no power of l says how.")
    if law.quantity != "J":
        lead = law.leading
        front = regular(None if lead.coefficient.has(FREE) else lead.coefficient, lead.power, lead.logs)
        for rate, power in lead.rates:
            front = front * exponential(rate, power)
        return front
    above = [t for t in law.terms if t.power > 0 or (t.power == 0 and t.logs > 0)]
    terms = tuple(((t.power, sp.sympify(t.logs), sp.S.Zero, sp.S.Zero), t.coefficient) for t in above)
    if not law.is_whole and not above:  # o(l) of a point that is known in digits alone
        raise MeanFieldError("The power of l with which J grows is not known here.")
    left, rest = law.remainder, [t.coefficient for t in law.terms if t.power == 0 and t.logs == 0]
    if isinstance(left, str):  # a lone power of l may lack powers of logarithms, as every law of this form
        known, more = left in ("zero", "exponential"), not law.is_whole and above[-1].power > 0
    else:
        known, more = bool(left < 0), bool(left > 0 or (left == 0 and law.remainder_logs > 0))
    known = known and not any(c.has(FREE) for c in rest)
    return Growth(terms, (), sp.exp(sp.Add(*rest)) if known else None, leading=more and bool(terms))


def product(W: sp.Expr, V: sp.Expr, oracle: SignOracle) -> Growth:
    """Π_{m<l} (1 + W m^{-V}) for V ≥ 0, W > 0, up to a constant."""
    above = oracle.sign(V - 1)
    if above > 0:
        return regular(None)
    if above == 0:
        return regular(None, W)
    if oracle.sign(V) == 0:
        return exponential(sp.log(1 + W), 1)
    return Growth((), ((W, V, sp.S.One),), None)


def log_product(W: float, V: float, t: float) -> float:
    """Σ_{m<l} log(1 + W m^{-V}) at log l = t, 0 < V < 1, up to what vanishes: 1000 exact terms, then Euler–Maclaurin.

    ∫ log(1 + W m^{-V}) dm = m log(1 + W m^{-V}) + V m ₂F₁(1, 1/V; 1 + 1/V; -m^V/W), whatever the size of W.
    """
    first = 1000

    def integral(m: mpmath.mpf) -> mpmath.mpf:
        return m * (mpmath.log1p(W * m**-V) + V * mpmath.hyp2f1(1, 1 / V, 1 + 1 / V, -(m**V) / W))

    start = sum(math.log1p(W * m**-V) for m in range(1, first))
    slope = -V * W / (first * (first**V + W))
    with decimals(30):
        W, V = mpmath.mpf(W), mpmath.mpf(V)
        grown = integral(mpmath.exp(t)) - integral(mpmath.mpf(first))
        return start + float(grown + mpmath.log1p(W * first**-V) / 2 - slope / 12)
