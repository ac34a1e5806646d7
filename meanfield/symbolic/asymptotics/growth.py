r"""How a positive quantity X behaves as l → ∞: log X = Σ c·l^p (log l)^q (log log l)^r … + log C + o(1).

One form holds powers (c log l), powers of logarithms (c log log l), exponentials (c l), stretched ones (c l^p) and what
lies between (exp(c √log l)). Where the partial products of Π (1 + W m^{-V}) are a factor, they are kept: their
logarithm has ever more growing terms as V → 0. Products and powers need nothing but addition; which of two laws is
larger, and whether a sum over layers converges, are questions about exponents, which an oracle answers (`cells`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import mpmath
import sympy as sp

from meanfield.results import MeanFieldError, one_line
from meanfield.symbols import l

LEVELS = 4  # l, log l, log log l, log log log l
CONSTANT = sp.Symbol("C", positive=True)  # what depends on the start
Key = tuple[sp.Expr, ...]
_LOG: tuple[Key, ...] = tuple(
    tuple(sp.Integer(i == level) for i in range(LEVELS)) for level in range(1, LEVELS)
)  # log l, log log l, log log log l as terms of log X


class Oracle(Protocol):
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
        """The law as an expression in l; C stands for what depends on the start."""
        x = sp.S.One if self.constant is None else self.constant
        front = CONSTANT if self.constant is None else sp.S.One
        m = sp.Symbol("m", integer=True, positive=True)
        for W, V, n in self.products:
            x *= sp.Product(1 + W * m ** (-V), (m, 1, l)) ** n
        x *= sp.Mul(*[_iterated(i) ** self.power_of(i) for i in range(LEVELS - 1)])
        above = sp.Add(*[c * sp.Mul(*[_iterated(i) ** p for i, p in enumerate(k)]) for k, c in self.stretched])
        return front * x * sp.exp(above)

    def text(self) -> str:
        """The law on one line."""
        return f"exp({self.log} + smaller order)" if self.leading else str(self.expr)

    @property
    def log(self) -> sp.Expr:
        """The terms of log X, products as they are."""
        m = sp.Symbol("m", integer=True, positive=True)
        kept = [n * sp.log(sp.Product(1 + W * m ** (-V), (m, 1, l))) for W, V, n in self.products]
        return sp.Add(*kept, *[c * sp.Mul(*[_iterated(i) ** p for i, p in enumerate(k)]) for k, c in self.terms])

    def __repr__(self) -> str:
        return one_line("Growth", self.text())

    def log_at(self, t: float, values: Mapping[sp.Symbol, object] | None = None) -> float:
        """log X − log C at log l = t > 1, in floats (C: the constant, where it depends on the start)."""
        values = dict(values or {})

        def number(e: sp.Expr) -> float:
            return float(sp.N(sp.sympify(e).subs(values)))

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
        constant = None if self.constant is None or other.constant is None else self.constant * other.constant
        leading = self.leading or other.leading
        # powers of l lie below what a leading term leaves out
        kept = tuple((k, c) for k, c in terms.items() if c != 0 and not (leading and k in _LOG))
        left = tuple((W, V, n) for (W, V), n in products.items() if n != 0)
        return Growth(kept, left, constant, leading)

    def __pow__(self, n: object) -> Growth:
        n = sp.sympify(n)
        if n == 0:
            return Growth()
        return Growth(
            tuple((k, -c if n == -1 else sp.expand(n * c)) for k, c in self.terms),
            tuple((W, V, n * m) for W, V, m in self.products),
            None if self.constant is None else power_of_positive(self.constant, n),
            self.leading,
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
        return Growth(kept, products, None if self.constant is None else function(self.constant), self.leading)


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


def _iterated(i: int) -> sp.Expr:
    x: sp.Expr = l
    for _ in range(i):
        x = sp.log(x)
    return x


def regular(constant: sp.Expr | None, *powers: object) -> Growth:
    """constant · l^powers[0] (log l)^powers[1] (log log l)^powers[2]; None: a constant that depends on the start."""
    found = [(key, sp.sympify(p)) for key, p in zip(_LOG, powers)]
    return Growth(tuple((k, p) for k, p in found if p != 0), (), None if constant is None else sp.sympify(constant))


def exponential(coefficient: sp.Expr, *powers: object, leading: bool = False) -> Growth:
    """exp(coefficient · l^powers[0] (log l)^powers[1] …), up to a constant that depends on the start."""
    key = tuple(sp.sympify(p) for p in (*powers, *[0] * LEVELS))[:LEVELS]
    return Growth(((key, sp.sympify(coefficient)),), (), None, leading)


def product(W: sp.Expr, V: sp.Expr, oracle: Oracle) -> Growth:
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
    with mpmath.workdps(30):
        W, V = mpmath.mpf(W), mpmath.mpf(V)
        grown = integral(mpmath.exp(t)) - integral(mpmath.mpf(first))
        return start + float(grown + mpmath.log1p(W * first**-V) / 2 - slope / 12)


# --------------------------------------------------------------------------------------------- with an oracle's help


def compared(a: Growth, b: Growth, oracle: Oracle) -> int:
    """1 if a/b → ∞, -1 if it → 0, 0 if they are of one order; both regular."""
    gap = a / b
    if not gap.is_regular:
        raise MeanFieldError("Which of two laws is larger was asked for; only powers and logarithms are compared.")
    for level in range(LEVELS - 1):
        s = oracle.sign(gap.power_of(level))
        if s:
            return s
    return 0


def largest(laws: list[Growth], oracle: Oracle) -> list[Growth]:
    """Those of the largest order."""
    found: list[Growth] = []
    for one in laws:
        s = compared(one, found[0], oracle) if found else 1
        found = [one] if s > 0 else [*found, one] if s == 0 else found
    return found


def added(laws: list[Growth], oracle: Oracle) -> Growth:
    """Their sum: the largest, constants of equal ones added."""
    top = largest(laws, oracle)
    constants = [one.constant for one in top]
    whole = None if any(c is None for c in constants) else sp.Add(*constants)
    return replace(top[0], constant=whole)


def log_of(x: Growth, oracle: Oracle) -> Growth:
    """|log X|, to leading order."""
    if x.products:
        (W, V, n), *more = x.products
        if more:
            raise MeanFieldError("The logarithm of a law with two products over layers is not derived.")
        return regular(abs(n) * W / (1 - V), 1 - V)
    if x.stretched:
        key, c = x.stretched[0]
        return regular(sp.Abs(c), *key[:3])
    for level in range(LEVELS - 1):
        power = x.power_of(level)
        if oracle.sign(power):
            return regular(sp.Abs(power), *[sp.Integer(i == level + 1) for i in range(3)])
    return regular(None if x.constant is None else sp.Abs(sp.log(x.constant)))


def summed(x: Growth, oracle: Oracle) -> Growth | None:
    """Σ_{m<l} X_m of a regular X where it grows, to leading order; None where it converges."""
    assert x.is_regular
    for level in range(LEVELS - 1):
        power = x.power_of(level) + 1
        s = oracle.sign(power)
        if s < 0:
            return None
        if s > 0:
            grown = regular(1 / power, *[sp.Integer(i <= level) for i in range(3)])
            return x * grown
    raise MeanFieldError("A sum over layers grows as a fourfold logarithm, which no law here holds.")


def direction(x: Growth, oracle: Oracle) -> int:
    """1 where X → ∞, -1 where X → 0, 0 where it tends to a number > 0 (or stays between two).

    Exponents that are no affine forms are averages times σ's, whose sign is known.
    """
    for _, _, n in x.products:  # factors > 1 whose product diverges
        return 1 if n > 0 else -1
    for _, c in (*x.stretched, *((k, c) for k, c in x.terms if k in _LOG)):
        s = sign_of_number(c, oracle)
        if s:
            return s
    return 0


def sign_of_number(c: sp.Expr, oracle: Oracle) -> int:
    """The sign of a number of a law: a product of σ's, averages of squares and forms in the exponents."""
    if c.is_positive or c.is_negative:
        return 1 if c.is_positive else -1
    if c.is_Mul:
        signs = [sign_of_number(factor, oracle) for factor in c.args]
        return int(sp.prod(signs))
    if c.is_Pow and not c.exp.is_Integer:
        return 1
    if c.is_Pow:
        return sign_of_number(c.base, oracle) ** (int(c.exp) % 2 or 2)
    return 1 if c.is_nonnegative and not c.is_Symbol else oracle.sign(c)
