r"""Zonal spherical functions of the pairings, and sums over them as rational functions of n.

With H the group of permutations that keep a pairing of 2k positions, the functions of coset types are spanned by one
ω_λ for each partition λ of k, with ω_λ(1, …, 1) = 1. The Gram matrix n^(loops) of the pairings is diagonal in them, its
eigenvalues are Π over the boxes (i, j) of λ of n + 2(j − 1) − (i − 1), and the projection onto λ has the kernel
f_{2λ} ω_λ/(2k − 1)!!, f_{2λ} the number of standard tableaux of the doubled shape.

The ω_λ are coefficients of the zonal polynomials (Jack polynomials at α = 2) in power sums. Those are found in
monomials, from the differential operator whose eigenfunctions they are (triangular in the dominance order), and carried
over to power sums.

Source: derived here; [James 1968] has the recurrence in monomials, [Macdonald 1995] VII.2 the zonal functions.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import factorial, prod

from meanfield.symbolic.finite_width.haar.pairings import Type, joined, partitions

Vector = dict[Type, Fraction]
Factored = tuple[list[Fraction], dict[int, int]]  # coefficients, constant term first; (n + a)^m below: {a: m}


def double_factorial(k: int) -> int:
    """(2k − 1)!! = 1·3·…·(2k − 1), the number of pairings of 2k."""
    return prod(range(1, 2 * k, 2))


def _eigenvalue(shape: Type) -> int:
    return sum(part * (part - 1 - i) for i, part in enumerate(shape))


def _in_monomials(shape: Type, below: list[Type]) -> Vector:
    """The zonal polynomial with leading coefficient 1, by monomials; `below`: all partitions after it, in order."""
    found: Vector = {shape: Fraction(1)}
    top = _eigenvalue(shape)
    for mu in below:
        total = Fraction(0)
        for j in range(1, len(mu)):
            for i in range(j):
                for r in range(1, mu[j] + 1):
                    moved = joined(mu, (mu[i], mu[j]), [p for p in (mu[i] + r, mu[j] - r) if p])
                    if moved in found:
                        total += (mu[i] - mu[j] + 2 * r) * found[moved]
        if total:
            found[mu] = total / (top - _eigenvalue(mu))
    return found


def _power_sums(k: int) -> dict[Type, dict[Type, int]]:
    """Products of power sums, by monomials: {type: {monomial: coefficient}}."""
    tables: dict[Type, dict[Type, int]] = {(): {(): 1}}
    for order in range(1, k + 1):
        for rho in partitions(order):
            found: dict[Type, int] = {}
            part, rest = rho[0], rho[1:]
            for mu, c in tables[rest].items():
                for old in {*mu, 0}:
                    nu = joined(mu, [old] if old else [], [old + part])
                    found[nu] = found.get(nu, 0) + c * nu.count(old + part)
            tables[rho] = found
    return {rho: tables[rho] for rho in partitions(k)}


@lru_cache(maxsize=32)
def zonal_functions(k: int) -> dict[Type, Vector]:
    """{λ: {coset type: ω_λ}} for the partitions of k."""
    types = list(partitions(k))
    sums = _power_sums(k)
    size = {rho: _coset_size(rho) for rho in types}
    found = {}
    for place, shape in enumerate(types):
        rest, coefficients = _in_monomials(shape, types[place + 1 :]), {}
        for rho in reversed(types):  # a product of power sums begins at its own monomial, the last in this order
            value = rest.pop(rho, Fraction(0)) / sums[rho][rho]
            if value:
                coefficients[rho] = value
                for mu, c in sums[rho].items():
                    if mu != rho:
                        rest[mu] = rest.get(mu, Fraction(0)) - value * c
        unit = coefficients[types[-1]] / size[types[-1]]
        found[shape] = {rho: coefficients.get(rho, Fraction(0)) / (size[rho] * unit) for rho in types}
    return found


def _coset_size(rho: Type) -> Fraction:
    """The number of pairings of a coset type with a given one, by 2^k k!, that of all permutations that keep it."""
    repeated = prod(factorial(rho.count(part)) for part in set(rho))
    return Fraction(1, prod(2 * part for part in rho) * repeated)


@lru_cache(maxsize=32)
def dimensions(k: int) -> dict[Type, int]:
    """{λ: f_{2λ}}, standard tableaux of the doubled shape, by the hook lengths; their sum is (2k − 1)!!."""
    found = {}
    for shape in partitions(k):
        doubled = [2 * part for part in shape]
        columns = [sum(1 for part in doubled if part > j) for j in range(doubled[0])] if doubled else []
        hooks = prod(part - j + columns[j] - i - 1 for i, part in enumerate(doubled) for j in range(part))
        found[shape] = factorial(2 * k) // hooks
    return found


def contents(shape: Type) -> list[int]:
    """2(j − 1) − (i − 1) of every box (i, j) of a shape."""
    return [2 * j - i for i, part in enumerate(shape) for j in range(part)]


def components(weights: dict[Type, Fraction]) -> Vector:
    """Σ over coset types ρ of weights[ρ]·Wg(ρ) as {λ: c_λ}: the sum is Σ_λ c_λ/Π(n + content)."""
    k = sum(next(iter(weights)))
    omega, size, all_of = zonal_functions(k), dimensions(k), double_factorial(k)
    found = {}
    for shape, values in omega.items():
        c = sum((weight * values[rho] for rho, weight in weights.items()), Fraction(0))
        if c:
            found[shape] = c * size[shape] / all_of
    return found


def at(parts: Vector, n: int) -> Fraction:
    """Σ_λ c_λ/Π(n + content) over the λ of at most n parts: where the Gram matrix is singular, its pseudo-inverse."""
    return sum((c / prod(n + a for a in contents(shape)) for shape, c in parts.items() if len(shape) <= n), Fraction(0))


def rational(parts: Vector) -> Factored:
    """Σ_λ c_λ/Π(n + content) in lowest terms: a numerator and the factors n + a below."""
    powers = {shape: _counted(contents(shape)) for shape in parts}
    below: dict[int, int] = {}
    for counts in powers.values():
        for a, m in counts.items():
            below[a] = max(m, below.get(a, 0))
    total = [Fraction(0)]
    for shape, c in parts.items():
        term = [c]
        for a, m in below.items():
            for _ in range(m - powers[shape].get(a, 0)):
                term = _times(term, a)
        total = [x + y for x, y in zip(total + [Fraction(0)] * len(term), term + [Fraction(0)] * len(total))]
    while len(total) > 1 and not total[-1]:
        total.pop()
    if total == [0]:
        return total, {}
    for a in list(below):
        while below[a] and not (divided := _divided(total, a))[1]:
            total, below[a] = divided[0], below[a] - 1
    return total, {a: m for a, m in below.items() if m}


def _counted(values: list[int]) -> dict[int, int]:
    return {a: values.count(a) for a in set(values)}


def _times(p: list[Fraction], a: int) -> list[Fraction]:
    """p·(n + a)."""
    return [a * x + y for x, y in zip([*p, Fraction(0)], [Fraction(0), *p])]


def _divided(p: list[Fraction], a: int) -> tuple[list[Fraction], Fraction]:
    """p by n + a: quotient and remainder."""
    quotient, carry = [], Fraction(0)
    for x in reversed(p):
        carry = x - a * carry
        quotient.append(carry)
    remainder = quotient.pop()
    return quotient[::-1] or [Fraction(0)], remainder
