r"""Orthogonal Weingarten functions: as rational functions of n, at an integer n, and as series in 1/n."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import islice
from math import gcd, lcm
from typing import Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Term
from meanfield.base.arguments import shown, validated, whole
from meanfield.base.symbols import n as width
from meanfield.symbolic.finite_width.haar.pairings import Type
from meanfield.symbolic.finite_width.haar.zonal import Vector, at, components, rational
from meanfield.symbolic.series.asymptotic_law import Law

MOST = 12  # order: there are 77 coset types, and a rational function takes 0.2 s
LARGEST = 10**9  # width that an integer n may be
MOST_TERMS = 200  # of a series


@validated
def weingarten(coset_type: Sequence[int] | int, n: int | None = None, *, terms: int | None = None) -> sp.Expr | Law:
    r"""Wg(ρ): the coefficient of two pairings whose coset type is ρ in the moments of a Haar-orthogonal matrix.

    E[O_{i_1 j_1} … O_{i_2k j_2k}] = Σ_{p,q} δ_p(i) δ_q(j) Wg(type of p and q), O uniform on O(n), p and q over the
    pairings of the 2k factors, δ_p(i) = 1 where labels that p pairs are equal. The type of p and q are half the lengths
    of the loops that they make together.

    coset_type: a partition of k, as a tuple of integers ≥ 1 in any order, or the integer k for one loop; k ≤ 12.
    n: None gives a rational function of the symbol n in lowest terms; an integer from 1 to 10^9 a fraction. For n < k
    the Gram matrix n^(loops) is singular, and its pseudo-inverse is taken: that, in the sum above, gives the moments.
    The rational function has poles at some of these n.
    terms: instead, this many powers of 1/n, from the leading one on, as a `Law` in n → ∞ (zeros are counted).

    Accuracy: exact. Raises: MeanFieldError for what is no such partition, order or n.
    Source: [Collins, Śniady 2006]; by zonal functions (`zonal`), derived here; `orthogonality` has a second algorithm.

    >>> print(weingarten((1, 1)), "|", weingarten(2))
    (n + 1)/(n*(n - 1)*(n + 2)) | -1/(n*(n - 1)*(n + 2))
    >>> weingarten((1, 1), 1), weingarten((1, 1), 5)
    (1/9, 3/70)
    >>> print(weingarten((1, 1), terms=4).text(), "|", weingarten(2, terms=2).text())
    n**(-2) + 2/n**4 - 2/n**5 + O(n**(-6)) | -1/n**3 + n**(-4) + O(n**(-5))
    """
    type_ = _type(coset_type)
    return in_form(components({type_: Fraction(1)}), n, terms)


def in_form(parts: Vector, n: int | None, terms: int | None) -> sp.Expr | Law:
    """A sum over zonal functions in the form that was asked for."""
    if n is not None and terms is not None:
        raise MeanFieldError(f"A series in 1/n was asked for (terms={shown(terms)}) and a value at n = {shown(n)}: "
                             "one of them, please.")  # fmt: skip
    if n is not None:
        value = at(parts, whole(n, "n, the size of the orthogonal matrix,", 1, LARGEST))
        return sp.Rational(value.numerator, value.denominator)
    if terms is not None:
        return _series(parts, whole(terms, "The number of terms", 1, MOST_TERMS))
    return _expression(parts)


def listed(given: Any, most: int) -> list | None:
    """The members of a sequence, `most` + 1 of them where it has more; None for a text, and for a set or a mapping,
    which forgets what is there twice."""
    if isinstance(given, (str, bytes, set, frozenset, Mapping)) or not hasattr(given, "__iter__"):
        return None
    try:
        return list(islice(given, most + 1))
    except TypeError:  # an array without axes
        return None


def _type(given: Any) -> Type:
    what = "A coset type is a partition of k into integers ≥ 1 (a tuple, or k itself)"
    parts = listed(given, MOST) if hasattr(given, "__iter__") else [given]
    try:
        if parts is None:
            raise MeanFieldError
        type_ = tuple(sorted((whole(p, what, 1, 10**9) for p in parts), reverse=True))
    except MeanFieldError as error:
        raise MeanFieldError(f"{what}, but {shown(given)} was given.") from error
    if sum(type_) > MOST:
        raise MeanFieldError(f"Weingarten functions go to order {MOST}, but {shown(given)} is of a higher order.")
    return type_


def _expression(parts: Vector) -> sp.Expr:
    above, below = rational(parts)
    common = lcm(*(c.denominator for c in above))
    numbers = [int(c * common) for c in above]
    content = (gcd(*numbers) or 1) * (-1 if numbers[-1] < 0 else 1)
    numerator = sp.Add(*[(c // content) * width**i for i, c in enumerate(numbers)])
    factors = [(width + a) ** -m for a, m in sorted(below.items(), key=lambda f: abs(f[0]))]
    return sp.Mul(sp.Rational(content, common), numerator, *factors)


def _series(parts: Vector, terms: int) -> Law:
    if not parts:
        return Law(width, sp.oo, ())
    above, below = rational(parts)
    order, lead = sum(next(iter(parts))), sum(below.values()) - (len(above) - 1)
    found = expansion(parts, lead - order + terms)[lead - order :]
    powers = [Term(sp.Rational(c.numerator, c.denominator), sp.Integer(-lead - m)) for m, c in enumerate(found) if c]
    return Law(width, sp.oo, tuple(powers), sp.Integer(-lead - terms))


def expansion(parts: Vector, terms: int) -> list[Fraction]:
    """The coefficients of n^{−k}, n^{−k−1}, …, k the order: 1/Π(n + a) = n^{−k} Σ_m h_m(−a) n^{−m}, h complete
    homogeneous."""
    total = [Fraction(0)] * terms
    for shape, c in parts.items():
        total = [t + c * h for t, h in zip(total, _complete(shape, terms))]
    return total


@lru_cache(maxsize=512)
def _complete(shape: Type, terms: int) -> tuple[int, ...]:
    from_one = [1] + [0] * (terms - 1)
    for i, part in enumerate(shape):
        for j in range(part):
            for m in range(1, terms):
                from_one[m] -= (2 * j - i) * from_one[m - 1]
    return tuple(from_one)
