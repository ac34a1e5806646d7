"""Which of two laws is larger, what a sum of laws or a sum over layers is: questions about exponents, for an oracle."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.symbolic.asymptotics.exponent_cells import Undecided
from meanfield.symbolic.asymptotics.log_growth import LEVELS, Growth, Key, SignOracle, regular

NOWHERE: Key = (sp.S.Zero,) * LEVELS


def compared(a: Growth, b: Growth, oracle: SignOracle) -> int:
    """1 if a/b → ∞, -1 if it → 0, 0 if they are of one order.

    Raises: `Undecided` where the largest terms cancel and what follows them is not known.
    """
    return leading_term(a, b, oracle)[0]


def leading_term(a: Growth, b: Growth, oracle: SignOracle) -> tuple[int, Key, sp.Expr]:
    """The largest term of log a - log b: (its sign, its powers of l, log l, …, its coefficient); sign 0 where none
    grows. Raises: `Undecided` as `compared` does."""
    products: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
    found: list[tuple[Key, sp.Expr]] = []
    for one, sign in ((a, 1), (b, -1)):
        found += [(key, sign * c) for key, c in one.terms]
        for W, V, n in one.products:
            products[W, V] = products.get((W, V), sp.S.Zero) + sign * n
    # log Π (1 + W m^{-V}) = W l^{1-V}/(1 - V) + …, 0 < V < 1
    open_ = [((1 - V, *[sp.S.Zero] * (LEVELS - 1)), n * W / (1 - V)) for (W, V), n in products.items() if n != 0]
    unknown = a.leading or b.leading
    kept = [(key, c) for key, c in _gathered(found) if unknown or c != 0]  # what cancels tells what is not known
    left = [*kept, *open_]
    while left:
        top = _topmost([key for key, _ in left], oracle)
        total = sp.expand(sp.Add(*[c for i, (_, c) in enumerate(left) if i in top]))
        sign = sign_of_number(total, oracle) if total != 0 else 0
        if sign:
            return sign, left[top[0]][0], total
        if unknown or any(i >= len(left) - len(open_) for i in top):
            raise Undecided(f"which of {a.text()} and {b.text()} is larger is a question of terms that are not derived")
        left = [one for i, one in enumerate(left) if i not in top]
    if unknown and a != b:
        raise Undecided(f"which of {a.text()} and {b.text()} is larger is a question of terms that are not derived")
    return 0, NOWHERE, sp.S.Zero


def _gathered(terms: list[tuple[Key, sp.Expr]]) -> list[tuple[Key, sp.Expr]]:
    """Equal keys put together, those that cancel left in where nothing else tells that they were there."""
    out: dict[Key, sp.Expr] = {}
    for key, c in terms:
        out[key] = sp.expand(out.get(key, sp.S.Zero) + c)
    return list(out.items())


def _topmost(keys: list[Key], oracle: SignOracle) -> list[int]:
    """The places of the keys of the terms that outgrow all others."""
    top = [0]
    for i in range(1, len(keys)):
        order = _key_order(keys[i], keys[top[0]], oracle)
        top = [i] if order > 0 else [*top, i] if order == 0 else top
    return top


def _key_order(one: Key, other: Key, oracle: SignOracle) -> int:
    """1 where l^p (log l)^q … of the first outgrows that of the second."""
    for p, q in zip(one, other):
        gap = sp.expand(p - q)
        sign = oracle.sign(gap) if gap != 0 else 0
        if sign:
            return sign
    return 0


def largest(laws: list[Growth], oracle: SignOracle) -> list[Growth]:
    """Those of the largest order."""
    found: list[Growth] = []
    for one in laws:
        s = compared(one, found[0], oracle) if found else 1
        found = [one] if s > 0 else [*found, one] if s == 0 else found
    return found


def added(laws: list[Growth], oracle: SignOracle) -> Growth:
    """Their sum: the largest, constants of equal ones added."""
    top = largest(laws, oracle)
    constants = [one.constant for one in top]
    whole = None if any(c is None for c in constants) else sp.Add(*constants)
    return replace(top[0], constant=whole)


def log_of(x: Growth, oracle: SignOracle) -> Growth:
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
            if level + 1 == LEVELS - 1:
                raise MeanFieldError("The logarithm of a law is a fourfold logarithm, which no law here holds.")
            return regular(sp.Abs(power), *[sp.Integer(i == level + 1) for i in range(3)])
    return regular(None if x.constant is None else sp.Abs(sp.log(x.constant)))


def summed(x: Growth, oracle: SignOracle) -> Growth | None:
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


def direction(x: Growth, oracle: SignOracle) -> int:
    """1 where X → ∞, -1 where X → 0, 0 where it tends to a number > 0 (or stays between two)."""
    return compared(x, regular(1), oracle)


def sign_of_number(c: sp.Expr, oracle: SignOracle) -> int:
    """The sign of a number of a law: a product of σ's, averages of squares and forms in the exponents.

    Exponents can be 0; symbols that are no coordinates of the oracle are > 0.
    """
    if not c.free_symbols & set(getattr(oracle, "coordinates", ())) and (c.is_positive or c.is_negative):
        return 1 if c.is_positive else -1
    if c.is_Mul:
        return int(sp.prod([sign_of_number(factor, oracle) for factor in c.args]))
    if c.is_Pow:
        base = sign_of_number(c.base, oracle)
        return base ** (int(c.exp) % 2 or 2) if c.exp.is_Integer else base
    if not (c.is_Symbol or c.is_Add) and c.is_nonnegative:  # an average of a square
        return 1
    try:
        return oracle.sign(c)
    except Undecided:
        if (apart := _apart(c)).is_Mul:
            return sign_of_number(apart, oracle)
        signs = {sign_of_number(term, oracle) for term in c.args} - {0} if c.is_Add else set()
        if len(signs) != 1:
            raise
        return signs.pop()


@lru_cache(maxsize=4096)
def _apart(c: sp.Expr) -> sp.Expr:
    """A sum with what its terms share taken out."""
    return sp.factor_terms(c)
