r"""Expansions of averages at both ends of K, as `Law`s.

K → 0: half-Gaussian moments of the Taylor coefficients of the two pieces that meet at 0; a kink elsewhere is
exponentially small. K → ∞: `large_variance`. Averages meet in `powerlog` sums, where no term outlives the remainder of
the sum it is in. Source: derived here (Laplace's method on e^{-z²/2K}).
"""

from __future__ import annotations

from dataclasses import replace

import sympy as sp

from meanfield.base.answers.results import InfiniteAverage, MeanFieldError
from meanfield.base.answers.results import Term as Term
from meanfield.base.arguments import validated, whole
from meanfield.base.symbols import K, Z
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.taylor import fractional, taylor
from meanfield.symbolic.averages.expansions.mellin import half_moment
from meanfield.symbolic.averages.expansions.powerlog import ENDS, Key, Sums, expands, left_out
from meanfield.symbolic.averages.node import Average, average, expression, outermost
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.truncated import Truncated

_T = sp.Symbol("|z|", positive=True)  # messages show it
ENDS.rare({"K -> oo": "symbolic.averages.expansions.large_variance"})


@validated
def at_zero(expr: sp.Expr, order: int = 3) -> Law:
    """The expansion of an expression in averages over K as K → 0+, up to K^order.

    Raises: MeanFieldError where a piece has no Taylor series at 0.

    >>> from meanfield.base.symbols import K
    >>> print(at_zero(average("tanh(z)**2", K)).text())
    K - 2*K**2 + 17*K**3/3 + O(K**4)
    """
    expr, order = expression(expr, "What is expanded"), whole(order, "order", 0, 200)
    return _law(expr, order, 1)


@validated
def at_infinity(expr: sp.Expr, order: int = 3) -> Law:
    """The expansion of an expression in averages over K as K → ∞, down to K^{1/2-order}.

    Raises: MeanFieldError where f is not a sum of powers and logarithms at ±∞ and has no closed average.

    >>> from meanfield.base.symbols import K
    >>> print(at_infinity(average("tanh(z)**2", K), 1).text())
    1 - sqrt(2)/(sqrt(pi)*sqrt(K)) + O(K**(-3/2))
    """
    expr, order = expression(expr, "What is expanded"), whole(order, "order", 0, 200)
    return _law(expr, order, -1)


def _law(expr: sp.Expr, order: int, end: int) -> Law:
    """Averages are expanded further where factors K^p or cancelling terms cost orders."""
    expr = sp.expand(expr)
    nodes = sorted((n for n in outermost(expr) if n.has(K)), key=str)
    for n in nodes:
        if n.dimension > 1 or n.mean != (sp.S.Zero,) or n.integrand.has(K):
            raise MeanFieldError(f"{n} is not a centred average over K; its expansion is not known.")
    last = sp.Integer(order) if end > 0 else sp.S.Half - order  # the last power that is wanted
    reach, inner, before = sp.Integer(order + 1), order, None
    for _ in range(3):
        sums = Sums(end, reach)
        sums.known |= {n: _node(n, inner, sums) for n in nodes}
        found = sums(expr)
        remainder = sums.remainder(found)
        if remainder is None or remainder == before or (missing := end * (last - remainder[0])) < 0:
            break
        more, before = int(sp.floor(missing)) + 1, remainder
        inner, reach = inner + more, reach + more
    return sums.law(found)


def _node(node: Average, order: int, sums: Sums) -> Truncated:
    if node.cov != (K,):
        return _behind(node, order, sums)
    return ENDS["K -> 0" if sums.end > 0 else "K -> oo"](node, order, sums)


def _behind(node: Average, order: int, sums: Sums) -> Truncated:
    """⟨f⟩_V for the variance V(K) of an inner Dense: the expansion of ⟨f⟩ where V goes, with that of V put in."""
    f, end, law = average(node.integrand, K), sums.end, _law(node.cov[0], order, sums.end)
    if not law.terms or law.leading.logs != 0:
        raise MeanFieldError(f"How the variance of {node} behaves is led by a logarithm or not known; nor is it known.")
    c, power = law.leading.coefficient, law.leading.power
    if power == 0:

        def slope(k: int) -> sp.Expr:
            return sp.diff(f, K, k).subs(K, c) / sp.factorial(k)

        return sums.composed(sums.of_law(replace(law, terms=law.terms[1:])), slope)
    outer, inner = _law(f, order, end if power > 0 else -end), sums.of_law(law)
    log = sums.of({(sp.S.Zero, 0): sp.log(c), (sp.S.Zero, 1): power})
    if any(t.logs for t in outer.terms):
        log = sums.plus(log, sums.apply(lambda t: sp.log(1 + t), sums.calculus.relative(inner)[2]))
    left = left_out(outer)
    total = sums.of({}, left and (left[0] * power, left[1]), outer.remainder == "exponential")
    for t in outer.terms:
        part = sums.times(sums.constant(t.coefficient), sums.power(inner, t.power))
        for _ in range(int(t.logs)):
            part = sums.times(part, log)
        total = sums.plus(total, part)
    return total


@expands("K -> 0")
def _node_at_zero(node: Average, order: int, sums: Sums) -> Truncated:
    f = node.integrand
    p = pieces(f, Z[0])
    left, right = p.around_zero()
    exact = left.is_polynomial(Z[0]) and right.is_polynomial(Z[0])
    top = 2 * order
    if exact:
        top = max([top, *(sp.Poly(e, Z[0]).degree() for e in (left, right) if e.has(Z[0]))])
    try:
        a, b = taylor(right, Z[0], top), taylor(left, Z[0], top)
    except MeanFieldError:
        return sums.of(*_powers_at_zero(node, left, right, top, any(b != 0 for b in p.breaks)))
    terms: dict[Key, sp.Expr] = {}
    for k in range(top + 1):
        value = (a[k] + (-1) ** k * b[k]) * half_moment(k)
        if value != 0:
            terms[sp.Rational(k, 2), 0] = value
    if exact:
        return sums.of(terms, None, any(b != 0 for b in p.breaks))
    return sums.of(terms, (sp.Integer(order + 1) if left == right else sp.Rational(top + 1, 2), 0))


def _powers_at_zero(
    node: Average, left: sp.Expr, right: sp.Expr, top: int, more: bool
) -> tuple[dict[Key, sp.Expr], Key | None, bool]:
    """The same, as `Sums.of` takes it, where the pieces are series in a root of |z|; `more`: whether a break elsewhere
    adds what is exponentially small."""
    total: dict[sp.Rational, sp.Expr] = {}
    ends = []
    for piece, side in ((right, 1), (left, -1)):
        found, remainder = fractional(piece.subs(Z[0], side * _T), _T, top)
        for k, c in found.items():
            total[k] = sp.expand(total.get(k, sp.S.Zero) + c)
        ends += [] if remainder is None else [remainder]
    live = {k: c for k, c in total.items() if c != 0}
    if live and min(live) <= -1:
        raise InfiniteAverage(f"{node} is infinite: |z|^({min(live)}) is not integrable at 0.")
    terms: dict[Key, sp.Expr] = {(k / 2, sp.S.Zero): c * half_moment(k) for k, c in live.items()}
    return (terms, (min(ends) / 2, 0), False) if ends else (terms, None, more)
