r"""Ensembles of random weights as data: what a product of entries of one matrix is on average.

E[W_{i_1 j_1} … W_{i_r j_r}] is a sum of coefficients times Kronecker deltas, one set partition of the positions for
the labels on the left and one for those on the right (`Contraction`). Entries have mean 0 and variance C_W/n, n the
number of labels on the right (the fan-in).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import scalar, shown, text, whole
from meanfield.base.symbols import n as width
from meanfield.functions.reading.parser import expression
from meanfield.symbolic.finite_width.haar.pairings import Blocks, all_pairings, coset_type, even_partitions
from meanfield.symbolic.finite_width.haar.weingarten import weingarten

MOST_FACTORS = 8  # of one product; the pairs of pairings of ten factors are 893 025


@dataclass(frozen=True)
class Contraction:
    """coefficient · δ_left(i) δ_right(j): labels in one block are equal."""

    left: Blocks
    right: Blocks
    coefficient: sp.Expr


@dataclass(frozen=True)
class Independent:
    """Independent entries, alike and symmetric about 0, known by their cumulants.

    cumulants: ((4, κ_4), (6, κ_6), …), each of the entry divided by its standard deviation, so that κ_2 = 1; `rest`:
    whether those not listed are 0 (else a product that needs one is refused).
    """

    name: str
    cumulants: tuple[tuple[int, sp.Expr], ...] = ()
    rest: bool = False

    def __post_init__(self) -> None:
        text(self.name, "The name of an ensemble")
        checked = []
        for order, value in self.cumulants:
            whole(order, "The order of a cumulant", 4, 100)
            if order % 2:
                raise MeanFieldError(f"Entries that are symmetric about 0 have no cumulant of the odd order {order}.")
            checked.append((int(order), expression(scalar(value, f"The cumulant of order {order}"), "A cumulant")))
            if order == 4 and (checked[-1][1] < -2) == True:  # noqa: E712 (a symbol is not decided)
                raise MeanFieldError(f"No law has a fourth cumulant below -2 (two points), but {value} was given.")
        object.__setattr__(self, "cumulants", tuple(checked))

    invariant = property(lambda self: self.rest and not any(value for _, value in self.cumulants))

    def cumulant(self, order: int) -> sp.Expr:
        """κ of one even order. Raises: MeanFieldError where it is not known."""
        known = {2: sp.S.One, **dict(self.cumulants)}
        if order not in known and not self.rest:
            raise MeanFieldError(
                f"The cumulant of order {order} of {self.name} weights was needed, but only those of the orders "
                f"{', '.join(map(str, sorted(known)))} are given."
            )
        return known.get(order, sp.S.Zero)

    def contractions(self, factors: int, C_W: sp.Expr, fan_in: sp.Expr, whole_: sp.Expr) -> Iterator[Contraction]:
        """One for each partition into even blocks; left and right labels are equal together."""
        scale = (C_W / fan_in) ** (sp.Integer(factors) / 2)
        for blocks in even_partitions(range(factors)):
            value = prod((self.cumulant(len(b)) for b in blocks), start=sp.S.One)
            if value != 0:
                yield Contraction(blocks, blocks, scale * value)


@dataclass(frozen=True)
class Orthogonal:
    """√(C_W P/n) times a block of a Haar-distributed orthogonal P × P matrix, P the larger of fan-in and fan-out: for
    P = n the matrix has orthogonal columns or rows of squared length C_W, and entries have variance C_W/n always."""

    name: str = "orthogonal"
    invariant = True

    def contractions(self, factors: int, C_W: sp.Expr, fan_in: sp.Expr, whole_: sp.Expr) -> Iterator[Contraction]:
        """One for each pair of pairings, its coefficient a Weingarten function of P."""
        k = factors // 2
        for left in all_pairings(k) if factors % 2 == 0 else ():
            for right in all_pairings(k):
                yield Contraction(left, right, _scaled(coset_type(left, right), C_W, fan_in, whole_))


@lru_cache(maxsize=1024)
def _scaled(type_: tuple[int, ...], C_W: sp.Expr, fan_in: sp.Expr, size: sp.Expr) -> sp.Expr:
    if size.is_Integer:
        value = weingarten(type_, int(size))
    else:
        value = weingarten(type_).xreplace({width: size})  # type: ignore[union-attr]
    return value * (C_W * size / fan_in) ** sum(type_)


def _uniform() -> tuple[tuple[int, sp.Expr], ...]:
    """Cumulants of the uniform law of variance 1: (2√3)^{2m} B_{2m}/(2m), B the Bernoulli numbers; κ_4 = −6/5."""
    return tuple((2 * m, 12**m * sp.bernoulli(2 * m) / (2 * m)) for m in range(2, 13))


GAUSSIAN = Independent("gaussian", rest=True)
UNIFORM = Independent("uniform", _uniform())
ORTHOGONAL = Orthogonal()
Ensemble = Independent | Orthogonal
ENSEMBLES: dict[str, Ensemble] = {e.name: e for e in (GAUSSIAN, ORTHOGONAL, UNIFORM)}


def ensemble_of(given: object) -> Ensemble:
    """An ensemble, or one of "gaussian", "orthogonal", "uniform" by its name."""
    if isinstance(given, (Independent, Orthogonal)):
        return given
    if isinstance(given, str) and given in ENSEMBLES:
        return ENSEMBLES[given]
    raise MeanFieldError(
        f"weights={shown(given)} is not available: the ensembles are {', '.join(ENSEMBLES)}, or an `Independent` with "
        "cumulants of its own."
    )
