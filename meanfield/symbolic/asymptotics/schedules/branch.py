r"""What a large-depth law has to know of a residual block's branch, l counting blocks:

    K → K + σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a},    q = σ_w² l^{-β_w} K + σ_b² l^{-β_b}.

`branch` reads it off the architecture record; `End` is how ⟨φ²⟩_q and ⟨φ′²⟩_q behave at q → 0 and q → ∞.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.symbols import K
from meanfield.functions.activations import Activation, activation
from meanfield.functions.reading.parser import value_of
from meanfield.networks.folds import chain, skip_of
from meanfield.networks.records import (
    Block,
    Dense,
    LayerNorm,
    Nonlinearity,
    Number,
    Param,
    Projection,
    Schedule,
    Sequential,
)
from meanfield.symbolic import parity
from meanfield.symbolic.averages.expansions.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.node import average
from meanfield.symbolic.recursions.block_recursions import slope_average
from meanfield.symbolic.recursions.naming import describe
from meanfield.symbolic.series.asymptotic_law import Law

ORDER = 3  # to which the averages are expanded at both ends


@dataclass(frozen=True)
class Variance:
    """σ² l^{-β} L^{-δ}: the variance of weights or biases in block l of L; None as a whole where there are none."""

    size: sp.Expr  # σ²
    beta: sp.Expr
    total: sp.Expr = sp.S.Zero  # δ

    @property
    def fall(self) -> sp.Expr:
        """β + δ: the power of L at l = tL."""
        return self.beta + self.total


@dataclass(frozen=True)
class Asymptote:
    """⟨φ²⟩_q ~ v q^a |log q|^k and ⟨φ′²⟩_q ~ v1 q^a1 |log q|^k1 at one end of q, with their expansions; no slope where
    ⟨φ′²⟩ is infinite, and nothing but K is asked for."""

    square: Law
    slope: Law | None

    def _leading(self, law: Law) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        if not law.terms and law.point == 0:
            return sp.oo, sp.S.Zero, sp.S.Zero
        lead = law.leading
        sign = (-1) ** lead.logs if law.point == 0 else 1
        return lead.power, lead.logs, lead.coefficient * sign

    @property
    def of_square(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """(a, k, v)."""
        return self._leading(self.square)

    @property
    def of_slope(self) -> tuple[sp.Expr, sp.Expr, sp.Expr]:
        """(a1, k1, v1)."""
        return self._leading(self.slope_expansion)

    @property
    def slope_expansion(self) -> Law:
        """That of ⟨φ′²⟩_q, where it is finite."""
        assert self.slope is not None
        return self.slope

    @property
    def is_flat(self) -> bool:
        """Whether ⟨φ²⟩_q vanishes at q → 0 faster than every power: φ is 0 around z = 0, and a = ∞."""
        return not self.square.terms and self.square.point == 0

    @property
    def is_linear(self) -> bool:
        """Whether ⟨φ²⟩_q ~ v q."""
        return self.of_square[:2] == (1, 0)


@dataclass(frozen=True)
class Branch:
    """The branch of a residual block with unit skip: φ and the variances of its two Dense layers.

    a, b: None without such biases; inner: whether there is a Dense before φ, else φ acts on K itself (σ_w = 1,
    β_w = 0). norm: where a LayerNorm stands, "first" (what enters has variance 1) or "inner" (what enters φ has); ""
    without one.
    """

    phi: Activation
    v: Variance
    a: Variance | None
    w: Variance
    b: Variance | None
    inner: bool = True
    norm: str = ""

    @cached_property
    def square(self) -> sp.Expr:
        """⟨φ²⟩_K."""
        return average(self.phi.pieces.map(lambda e: e**2).expr, K)

    @cached_property
    def slope(self) -> sp.Expr:
        """⟨φ′²⟩_K. Raises: MeanFieldError where it is infinite."""
        if self._slope is None:
            raise MeanFieldError(
                f"{self.phi} jumps or rises like √|z|, so ⟨φ′²⟩ and every gradient is infinite; ask for K alone."
            )
        return self._slope

    @cached_property
    def _slope(self) -> sp.Expr | None:
        found = slope_average(self.phi)
        return None if found == sp.oo else found

    @cached_property
    def zero(self) -> Asymptote:
        """At q → 0."""
        slope = None if self._slope is None else at_zero(self._slope, ORDER)
        return Asymptote(at_zero(self.square, ORDER), slope)

    @cached_property
    def infinity(self) -> Asymptote:
        """At q → ∞. Raises: MeanFieldError for a φ that outgrows |z| or is no power with a logarithm there."""
        end = Asymptote(
            at_infinity(self.square, ORDER), None if self._slope is None else at_infinity(self._slope, ORDER)
        )
        (a, k, _), k1 = end.of_square, 0 if end.slope is None else end.of_slope[1]
        if a > 1 or (a == 1 and k > 0):
            raise MeanFieldError(f"{self.phi} outgrows |z|, so K grows faster than any law of this library.")
        if k1 < 0 or (a == 1 and k != 0):
            grows = end.square.leading.expr(K)
            raise MeanFieldError(f"<phi^2> of {self.phi} grows as {grows}; no law is derived there.")
        return end

    @property
    def is_odd(self) -> bool:
        """Whether φ is shown to be odd."""
        return parity.of_function(self.phi.pieces.expr) == -1

    @property
    def degree(self) -> sp.Expr | None:
        """The degree of a homogeneous φ, ⟨φ²⟩_q = v q^degree for every q; None for others."""
        if self.zero.square.remainder != "zero" or len(self.zero.square.terms) != 1:
            return None
        lead = self.zero.square.leading
        return lead.power if lead.logs == 0 and self.infinity.square.terms == self.zero.square.terms else None

    @property
    def variances(self) -> tuple[Variance, ...]:
        """Those that there are."""
        return tuple(one for one in (self.v, self.w, self.a, self.b) if one is not None)

    @property
    def knows_depth(self) -> bool:
        """Whether a variance depends on how many blocks there are."""
        return any(one.total != 0 for one in self.variances)

    @property
    def strength(self) -> sp.Expr:
        """S = σ_v² σ_w²."""
        return self.v.size * self.w.size

    @property
    def symbols(self) -> tuple[sp.Symbol, ...]:
        """The parameters that have no numbers, σ's first."""
        sizes, betas = set(), set()
        for one in self.variances:
            sizes |= one.size.free_symbols
            betas |= one.beta.free_symbols | one.total.free_symbols
        return (*sorted(sizes, key=str), *sorted(betas, key=str))

    @property
    def exponents(self) -> tuple[sp.Symbol, ...]:
        """The exponents β, then those of L, that have no numbers."""
        held = [one for one in (self.v, self.w, self.a, self.b) if one is not None]
        powers = [*(one.beta for one in held), *(one.total for one in held)]
        return tuple(dict.fromkeys(s for e in powers for s in sorted(e.free_symbols, key=str)))

    def subs(self, values: dict) -> Branch:
        """With numbers put in; a bias whose σ is 0 is gone. Raises: MeanFieldError for a σ_v or σ_w of 0, β < 0."""

        def put(one: Variance | None) -> Variance | None:
            if one is None:
                return None
            size = one.size.subs(values)
            return None if size == 0 else Variance(size, one.beta.subs(values), one.total.subs(values))

        v, w, a, b = put(self.v), put(self.w), put(self.a), put(self.b)
        if v is None or w is None:
            raise MeanFieldError(
                "σ_v = 0 or σ_w = 0 switches the branch off: K grows by its biases alone, and J = 1 at every layer."
            )
        for one in (v, w, a, b):
            for name, e in (("β", one.beta), ("total", one.total)) if one is not None else ():
                if e.is_number and (not e.is_real or e < 0):
                    raise MeanFieldError(f"An exponent {name} must be a number ≥ 0, but {e} was given.")
        return replace(self, v=v, w=w, a=a, b=b)


def branch(block: Block) -> Branch:
    """The branch of a block K → K + Dense(φ(Dense(z))), or without the inner Dense, whose skip has strength 1; a
    LayerNorm may stand before φ or before the inner Dense.

    Raises: MeanFieldError for other blocks.
    """
    skip = skip_of(block)
    if skip is not None and value_of(skip.mu) == 1 and _keeps(skip.shortcut):
        match chain(skip.branch):
            case (*before, Nonlinearity(phi), Dense() as last) if (found := _before(tuple(before))) is not None:
                norm, first = found
                v, a = _variances(last)
                w, b = (Variance(sp.S.One, sp.S.Zero), None) if first is None else _variances(first)
                return Branch(activation(phi), v, _present(a), w, b and _present(b), first is not None, norm)
    raise MeanFieldError(
        "Phase tables and laws under schedules are derived for a Residual of strength 1 around Dense, φ, Dense or "
        f"around φ, Dense, with at most a LayerNorm before φ or before the first Dense, but the block is "
        f"{describe(block)}."
    )


def _before(chain: tuple[Block, ...]) -> tuple[str, Dense | None] | None:
    """(where a LayerNorm stands, the inner Dense) of what comes before φ; None where that is something else."""
    match chain:
        case ():
            return "", None
        case (Dense() as first,):
            return "", first
        case (LayerNorm(),):
            return "first", None
        case (LayerNorm(), Dense() as first):
            return "first", first
        case (Dense() as first, LayerNorm()):
            return "inner", first
    return None


def _keeps(shortcut: Block | None) -> bool:
    """Whether a shortcut carries K as it is."""
    return shortcut is None or isinstance(shortcut, Projection) or shortcut == Sequential(())


def _present(one: Variance) -> Variance | None:
    return None if one.size == 0 else one


def _variances(dense: Dense) -> tuple[Variance, Variance]:
    def of(given) -> Variance:
        if isinstance(given, Schedule):
            return Variance(_symbol(given.value) ** 2, _symbol(given.beta), _symbol(given.total))
        return Variance(_symbol(given) ** 2, sp.S.Zero)

    return of(dense.sigma_w), of(dense.sigma_b)


def _symbol(given: Number) -> sp.Expr:
    """A record's number; σ's and β's without one are symbols > 0, from which 0 is put in as a number."""
    return sp.Symbol(given.name, positive=True) if isinstance(given, Param) else value_of(given)
