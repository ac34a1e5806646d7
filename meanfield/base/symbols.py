"""Every SymPy symbol with its assumptions, made once, and two functions that SymPy lacks: `sigmoid` and `softplus`.

Public symbols (`sigma_w`, `K`, ...) appear in recursions and tables. The canonical dummies `Z` (integration variables)
and `P` (parameters inside an average; `P_POSITIVE` where one is known to be > 0 and orders breaks) never leave
`Average`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import sympy as sp
from sympy.core.function import ArgumentIndexError
from sympy.functions.elementary.hyperbolic import HyperbolicFunction
from sympy.printing.printer import Printer

sigma_w = sp.Symbol("sigma_w", nonnegative=True)
sigma_b = sp.Symbol("sigma_b", nonnegative=True)
lambda_w = sp.Symbol("lambda_w", nonnegative=True)
lambda_b = sp.Symbol("lambda_b", nonnegative=True)
K = sp.Symbol("K", positive=True)
K_aa = sp.Symbol("K_aa", positive=True)
K_bb = sp.Symbol("K_bb", positive=True)
K_ab = sp.Symbol("K_ab", real=True)
distance = sp.Symbol("distance", nonnegative=True)
norm_angle = sp.Symbol("norm_angle", real=True)
sigma_mu2 = sp.Symbol("sigma_mu2", real=True)
sigma_y2 = sp.Symbol("sigma_y2", nonnegative=True)
J = sp.Symbol("J", positive=True)
J_ab = sp.Symbol("J_ab", real=True)
c_J = sp.Symbol("c_J", real=True)
Theta = sp.Symbol("Theta", nonnegative=True)
Theta_ab = sp.Symbol("Theta_ab", real=True)
Q0 = sp.Symbol("Q0", positive=True)
N0 = sp.Symbol("N0", positive=True)
J0 = sp.Symbol("J0", positive=True)
D0 = sp.Symbol("D0", nonnegative=True)
l = sp.Symbol("l", positive=True, integer=True)
n = sp.Symbol("n", positive=True, integer=True)
L = sp.Symbol("L", positive=True, integer=True)
tokens = sp.Symbol("tokens", positive=True, integer=True)
z = sp.Symbol("z", real=True)

#: keywords by which verbs are given what formulas call so
KEYWORDS = {"Q0": "input_norm", "N0": "input_dimension", "c0": "correlation"}

LATEX_NAMES = {
    sigma_w: r"\sigma_w",
    sigma_b: r"\sigma_b",
    K_aa: "K_{aa}",
    K_bb: "K_{bb}",
    K_ab: "K_{ab}",
    distance: r"\Delta",
    norm_angle: r"\tau",
    sigma_mu2: r"{\sigma_{\mu}^{2}}",
    sigma_y2: r"{\sigma_{y}^{2}}",
    J_ab: "J_{ab}",
    c_J: "c_J",
    Theta: r"\Theta",
    Theta_ab: r"\Theta_{ab}",
    Q0: "Q_0",
    N0: "N_0",
    J0: "J_0",
    D0: "D_0",
    l: r"\ell",
    L: "L",
    tokens: "T",
}

Z = tuple(sp.Dummy(f"z{i}" if i else "z", dummy_index=71_000 + i, real=True) for i in range(4))
P = tuple(sp.Dummy(f"p{i}", dummy_index=72_000 + i, real=True) for i in range(8))
P_POSITIVE = tuple(sp.Dummy(f"p{i}", dummy_index=73_000 + i, positive=True) for i in range(8))


def parameter(name: str) -> sp.Symbol:
    """The symbol of a named parameter: a real number (where it may lie is the recursion's affair, `domain`)."""
    states = (K, K_aa, K_bb, K_ab, distance, norm_angle, J, J_ab, c_J, Theta, Theta_ab, J0, D0)
    known = {s.name: s for s in (sigma_w, sigma_b, Q0, N0, l, L, tokens, *states)}
    return known.get(name) or sp.Symbol(name, real=True)


MOST_DEGREE = 1000  # of a polynomial in e^{x/n} that a rewriting may make


def steep(e: sp.Expr) -> bool:
    """Whether a function's argument holds an integer that SymPy's polynomials would take as a degree (e^{-2·10^12 K} as
    a power of e^{-K}, tanh(10^6) as a quotient of powers of e): rewriting then needs as many coefficients."""
    return any(
        _is_steep(number) for function in e.atoms(sp.Function) for number in function.args[0].atoms(sp.Rational, sp.Pow)
    )


def _is_steep(number: sp.Expr) -> bool:
    if number.is_Rational:
        return bool(abs(number.p) > MOST_DEGREE or number.q > MOST_DEGREE)
    return bool(number.is_number and number.is_real and abs(sp.N(number, 6)) > MOST_DEGREE)  # π^64


LONG = 60  # operations of a number
HIGH_POWER = 8  # of a function's value, which SymPy would multiply out as sums of angles


def simplified(e: sp.Expr) -> sp.Expr:
    """`sp.simplify`, which a number that is plainly not zero is spared where it is steep or a high power (cos(2)^64).

    Exponentials and hyperbolic functions of one expression are all written in exponentials before: between the two
    SymPy looks for identities by factoring over the Gaussian numbers, which takes minutes. A long number is then one
    quotient of polynomials in them.
    """
    high = any(p.exp.is_Integer and p.exp > HIGH_POWER and p.base.has(sp.Function) for p in e.atoms(sp.Pow))
    if (high or steep(e)) and e.is_number:
        value = sp.N(e, 15)
        if abs(value) > 1e-10 or getattr(value, "_prec", 1) > 1:  # SymPy leaves one bit to what it cannot tell from 0
            return e
    if e.has(sp.exp) and e.has(HyperbolicFunction):
        e = e.rewrite(sp.exp)
        if e.is_number and e.count_ops() > LONG:
            return sp.cancel(e)
    return sp.simplify(e)


def factored(e: sp.Expr) -> sp.Expr:
    """`sp.factor`, which takes steep exponentials and long numbers as symbols of their own."""
    names = steep_exponentials(e)
    long = {r: sp.Dummy(f"r{i}", positive=True) for i, r in enumerate(_long_numbers(e))}
    there = names | {sign * r: sign * v for r, v in long.items() for sign in (1, -1)}
    return sp.factor(e.xreplace(there)).xreplace({v: a for a, v in (names | long).items()})


def _long_numbers(e: sp.Expr) -> list[sp.Rational]:
    """The sizes of rational numbers of more than 40 digits: SymPy looks for primes beyond all coefficients."""
    return sorted({abs(r) for r in e.atoms(sp.Rational) if max(abs(r.p), r.q) > 10**40})


def steep_exponentials(*expressions: sp.Expr) -> dict[sp.Expr, sp.Symbol]:
    """A symbol for each exponential, where they are no small powers of a common one: SymPy takes e^{-z²} for the
    500 000th power of e^{-z²/500000}, and would fill as many coefficients. Else nothing."""
    found = sorted(set().union(*[e.atoms(sp.exp) for e in expressions]), key=str)
    if _degree(found) <= SMALL_DEGREE:
        return {}
    return {a: sp.Dummy(f"v{i}", positive=True) for i, a in enumerate(found)}


SMALL_DEGREE = 60  # in a common base of exponentials, up to which factors among their powers are looked for


def _degree(exponentials: Iterable[sp.Expr]) -> int:
    """The largest power that one of them is of a common base, e^{u/n} of e^u at least."""
    rates: dict[sp.Expr, set[sp.Rational]] = {}
    for a in exponentials:
        for term in sp.Add.make_args(sp.expand(a.args[0])):
            rate, rest = term.as_coeff_Mul(rational=True)
            rates.setdefault(rest, {sp.S.One}).add(abs(rate))
    wholes = [[int(r * math.lcm(*(int(q.q) for q in group))) for r in group] for group in rates.values()]
    return max((max(w) // math.gcd(*w) for w in wholes), default=1)


class HeadFunction(sp.Function):
    """A function h(u) of one real number that SymPy lacks, kept whole so that no evaluation meets e^{800}/e^{800}.

    A subclass says what h is by functions that SymPy has (`written`), and its derivative (`slope`); `parity` 1 or -1,
    and `at_zero`, h(0), where it has a short form. `is_real = True` holds for real u.
    """

    nargs = 1
    is_real = True
    parity: int | None = None
    at_zero: sp.Expr | None = None

    @classmethod
    def written(cls, u: sp.Expr) -> sp.Expr:
        raise NotImplementedError

    @classmethod
    def slope(cls, u: sp.Expr) -> sp.Expr:
        raise NotImplementedError

    @classmethod
    def eval(cls, u: sp.Expr) -> sp.Expr | None:
        if u is sp.S.Zero:
            return cls.at_zero
        if cls.parity and u.could_extract_minus_sign():
            return cls.parity * cls(-u)
        return None

    def fdiff(self, argindex: int = 1) -> sp.Expr:
        if argindex != 1:
            raise ArgumentIndexError(self, argindex)
        return self.slope(self.args[0])

    def _eval_rewrite_as_exp(self, u: sp.Expr, **kwargs: Any) -> sp.Expr:
        return self.written(u).rewrite(sp.exp)

    def _eval_evalf(self, prec: int) -> sp.Expr:
        return self.written(self.args[0])._eval_evalf(prec)

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        body = rf"\operatorname{{{type(self).__name__}}}\left({printer._print(self.args[0])}\right)"
        return body if exp is None else rf"{body}^{{{exp}}}"


class sigmoid(HeadFunction):
    """The logistic function σ(x) = 1/(1 + e^{-x})."""

    is_positive = True
    at_zero = sp.S.Half

    @classmethod
    def written(cls, u: sp.Expr) -> sp.Expr:
        return 1 / (1 + sp.exp(-u))

    @classmethod
    def slope(cls, u: sp.Expr) -> sp.Expr:
        return sigmoid(u) * sigmoid(-u)

    @classmethod
    def eval(cls, u: sp.Expr) -> sp.Expr | None:
        if u in (sp.S.Infinity, sp.S.NegativeInfinity):
            return sp.S.One if u is sp.S.Infinity else sp.S.Zero
        return super().eval(u)


class softplus(HeadFunction):
    """log(1 + e^x), with derivative `sigmoid`."""

    is_positive = True
    at_zero = sp.log(2)

    @classmethod
    def written(cls, u: sp.Expr) -> sp.Expr:
        return sp.log(1 + sp.exp(u))

    @classmethod
    def slope(cls, u: sp.Expr) -> sp.Expr:
        return sigmoid(u)


def recognise(expr: sp.Expr) -> sp.Expr:
    """`expr` with 1/(1 + e^{-u}) and its powers written in sigmoid(u), log(1 + e^u) as softplus(u), e^u/(1 + e^u) as
    sigmoid(u), and powers of a number such as 2^u as e^{u log 2}."""
    expr = expr.replace(
        lambda e: e.is_Pow and e.base.is_number and e.base.is_positive and e.exp.has(z, *Z) and e.base != sp.E,
        lambda e: sp.exp(e.exp * sp.log(e.base)),
    )

    def is_one_plus_exp(e: sp.Expr) -> bool:
        return bool(e.is_Add and len(e.args) == 2 and sp.S.One in e.args and any(isinstance(a, sp.exp) for a in e.args))

    def exponent(e: sp.Expr) -> sp.Expr:
        return next(a.args[0] for a in e.args if isinstance(a, sp.exp))

    expr = expr.replace(
        lambda e: isinstance(e, sp.log) and is_one_plus_exp(e.args[0]), lambda e: softplus(exponent(e.args[0]))
    )

    def quotient(e: sp.Expr) -> sp.Expr:
        for factor in e.args:
            if factor.is_Pow and factor.exp == -1 and is_one_plus_exp(factor.base):
                u = exponent(factor.base)
                if sp.exp(u) in e.args:
                    return sigmoid(u) * sp.Mul(*[a for a in e.args if a not in (factor, sp.exp(u))])
        return e

    expr = expr.replace(lambda e: e.is_Mul, quotient)
    return expr.replace(
        lambda e: e.is_Pow and e.exp.is_Rational and e.exp < 0 and is_one_plus_exp(e.base),
        lambda e: sigmoid(-exponent(e.base)) ** (-e.exp),
    )
