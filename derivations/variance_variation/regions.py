"""Claims on large-depth laws over regions of the exponents, decided on every region of the engine's phase table.

A statement holds where its conditions do. Minima and maxima in it, and the conditions, are affine in the exponents and
in S = σ_v²σ_w², so each row of the table is cut until they have one sign, and what is left is algebra: the verdict is a
proof for all exponents at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import sympy as sp

import meanfield as mf
from derivations.claims import Claim, Network, Verdict, network
from meanfield.base.symbols import l

bv, bw, ba, bb, S = sp.symbols("beta_v beta_w beta_a beta_b S", positive=True)
sv, sw, sa, sb = sp.symbols("sigma_v sigma_w sigma_a sigma_b", positive=True)
E = sp.Symbol("E", positive=True)  # Π_{m ≤ l} (1 + W_r m^{-V_r})
V, W = bv + bw, S / 2  # V_r = V_t, W_r
QUANTITIES = ("K", "K[1]", "J", "G_w", "G_b")
NAMES = {"p": ("K", 1), "q": ("K[1]", 1), "chi": ("J", 1), "chi_w": ("G_w[1]", -1), "chi_v": ("G_w[2]", -1)}
NAMES |= {"chi_b": ("G_b[1]", -1), "chi_a": ("G_b[2]", -1)}  # of chi: chi^(0)/chi^(l), of chi_w: chi_w^(1)/chi_w^(l)

Condition = tuple[sp.Expr, tuple[int, ...]]
_RELATIONS = {(1,): sp.Gt, (-1,): sp.Lt, (0,): sp.Eq, (-1, 1): sp.Ne, (0, 1): sp.Ge, (-1, 0): sp.Le}


def full(phi: str) -> Network:
    """The paper's network, every exponent and σ a symbol."""
    return network(phi, architecture="full_residual", **{f"beta_{k}": f"beta_{k}" for k in "vwab"})


def above(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (1,)


def below(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (-1,)


def on(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (0,)


def off(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (-1, 1)


def at_least(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (0, 1)


def at_most(x: Any, y: Any = 0) -> Condition:
    return sp.sympify(x) - y, (-1, 0)


@lru_cache(maxsize=8)
def table(theory: mf.Theory, grows: bool):
    """(region, laws) of the phase table, all of it or only where q grows for every start."""
    made = theory.phase_table(*QUANTITIES)
    rows = [(row.region, row.regimes) for row in made]
    if not grows:
        return tuple(rows)
    out = []
    for found in made.where(K1="grows").regions:
        for region, ways in rows:
            both = replace(
                region,
                strict=(*region.strict, *found.strict),
                weak=(*region.weak, *found.weak),
                equal=(*region.equal, *found.equal),
            )
            if not both.is_empty:
                out.append((both, ways))
    return tuple(out)


def resolved(cell, e: sp.Expr) -> Iterator[tuple[Any, sp.Expr]]:
    """The parts of a cell on which every minimum and maximum is one of its arguments, with the expression there."""
    found = sorted(e.atoms(sp.Min, sp.Max), key=sp.count_ops)
    if not found:
        yield cell, e
        return
    first, (a, b, *rest) = found[0], found[0].args
    for sign, part in cell.parts(a - b):
        if not part.is_empty:
            larger = a if sign >= 0 else b
            smaller = b if sign >= 0 else a
            chosen = first.func(larger if isinstance(first, sp.Max) else smaller, *rest)
            yield from resolved(part, e.xreplace({first: chosen}))


def within(cell, conditions: tuple[Condition, ...]) -> Iterator[Any]:
    """The parts of a cell where the conditions hold."""
    if not conditions:
        yield cell
        return
    (form, signs), *rest = conditions
    for part, plain in resolved(cell, form):
        for sign, inner in part.parts(plain):
            if sign in signs and not inner.is_empty:
                yield from within(inner, tuple(rest))


def vanishes(cell, e: sp.Expr) -> bool:
    """Whether an expression is 0 everywhere on a cell."""
    for part, plain in resolved(cell, sp.sympify(e)):
        left = sp.sympify(part.simplified(plain)).subs(S, sv**2 * sw**2)
        if left != 0 and sp.simplify(left) != 0:
            return False
    return True


def equal(cell, a: sp.Expr, b: sp.Expr) -> bool:
    """Whether two positive expressions, square roots among them, are equal on a cell."""
    for part, ratio in resolved(cell, sp.sympify(a) / b):
        left = sp.sympify(part.simplified(ratio)).subs(S, sv**2 * sw**2)
        if sp.simplify(left**2 - 1) != 0:
            return False
    return True


def logs_of(law) -> tuple[sp.Expr | None, tuple[sp.Expr, sp.Expr]]:
    """(c, (p, k)) with log X ~ c l^p (log l)^k; c = None where X tends to a constant."""
    if law.products:
        ((w, v, n),) = law.products
        return n * w / (1 - v), (1 - v, sp.S.Zero)
    if law.stretched:
        key, c = law.stretched[0]
        return c, key[:2]
    if law.exponent != 0:
        return law.exponent, (sp.S.Zero, sp.S.One)
    assert law.power_of(1) == 0 and law.power_of(2) == 0, "log X grows as log log l, which no claim here is about"
    return None, (sp.S.Zero, sp.S.Zero)


@dataclass(frozen=True)
class OverRegion(Claim):
    """A statement on a law where `conditions` hold; grows: only where q → ∞ (the hypothesis of the tanh theorems)."""

    conditions: tuple[Condition, ...] = ()
    grows: bool = False

    @property
    def where(self) -> tuple[sp.Basic, ...]:
        return tuple(_RELATIONS[signs](form, 0) for form, signs in self.conditions)

    def sides(self, case: Network) -> tuple[Any, Any]:
        """Each law of the engine's table that holds somewhere under the conditions."""
        if self.quantity not in NAMES:
            return self.printed, None
        found: dict[str, Any] = {}
        for region, ways in table(case.theory, self.grows):
            for _ in within(region, self.conditions):
                for way in ways:
                    law = self._law(way)
                    found.setdefault(str(law), law)
        return self.printed, tuple(("", law) for law in found.values())

    def _judge(self, case: Network, statement: Any) -> Verdict:
        met = False
        for region, ways in table(case.theory, self.grows):
            for cell in within(region, self.conditions):
                met = True
                assert all(way.laws for way in ways), f"{self.source}: the law is open without numbers"
                if not all(self._holds(cell, way, statement) for way in ways):
                    return Verdict.REFUTED
        assert met, f"{self.source}: no place fulfils the conditions"
        return Verdict.PROVED

    def _holds(self, cell, way, statement: Any) -> bool:
        raise NotImplementedError

    def _law(self, way):
        name, power = NAMES[self.quantity]
        return way[name] ** power


@dataclass(frozen=True)
class Order(OverRegion):
    """X = Θ(printed): powers of l and log l, and of E; exact: X ~ printed."""

    exact: bool = False

    def _holds(self, cell, way, statement: sp.Expr) -> bool:
        front, power, logs, product = factors(statement)
        if self.quantity == "Delta p":  # σ_v² l^{-β_v} ⟨φ²⟩_q + σ_a² l^{-β_a}, where no logarithm enters
            square = way["G_w[2]"] * way["J"]
            assert square.is_regular and square.power_of(1) == 0 and not (self.exact or product)
            return vanishes(cell, sp.Max(square.exponent - bv, -ba) - power)
        law = self._law(way)
        assert not law.leading, f"{self.source}: the law is known to the leading order of its logarithm only"
        grown, rest = sp.S.Zero, law.stretched
        for w, v, n in law.products:
            if not (vanishes(cell, w - W) and vanishes(cell, v - V)):
                return False
            grown += n
        if rest and rest[0][0][0] == 1 and len(rest) == 1:  # E at V_r = 0
            grown, rest = sp.simplify(rest[0][1] / sp.log(1 + W)), ()
        gaps = (law.exponent - power, law.power_of(1) - logs, law.power_of(2), grown - product)
        if rest or not all(vanishes(cell, g) for g in gaps):
            return False
        return not self.exact or (law.constant is not None and equal(cell, law.constant, front))


@dataclass(frozen=True)
class LogOrder(OverRegion):
    """log X = Θ(printed); exact: log X ~ printed."""

    exact: bool = False

    def _holds(self, cell, way, statement: sp.Expr) -> bool:
        front, power, logs, _ = factors(sp.sympify(statement))
        c, (p, k) = logs_of(self._law(way))
        if not (vanishes(cell, p - power) and vanishes(cell, k - logs)):
            return False
        return not self.exact or (c is not None and equal(cell, c, front))


@dataclass(frozen=True)
class Kind(OverRegion):
    """X is "bounded", a "power" of l (with logarithms), or more than any power ("superpolynomial")."""

    def _holds(self, cell, way, statement: str) -> bool:
        law = self._law(way)
        if law.leading or law.products or any(key[0] != 0 for key, _ in law.stretched):
            return statement == "superpolynomial"
        if law.exponent != 0:
            return statement == "power"
        grows = any(law.power_of(k) != 0 for k in (1, 2)) or bool(law.stretched)
        return statement == ("subpolynomial" if grows else "bounded")


@dataclass(frozen=True)
class Occurs(OverRegion):
    """Whether there is a place that fulfils the conditions."""

    def sides(self, case: Network) -> tuple[Any, Any]:
        return self.printed, None

    def _judge(self, case: Network, statement: bool) -> Verdict:
        found = any(True for region, _ in table(case.theory, self.grows) for _ in within(region, self.conditions))
        return Verdict.PROVED if found == statement else Verdict.REFUTED


def factors(e: sp.Expr) -> tuple[sp.Expr, sp.Expr, sp.Expr, sp.Expr]:
    """(c, p, k, n) of c l^p (log l)^k E^n."""
    front, power, logs, product = sp.S.One, sp.S.Zero, sp.S.Zero, sp.S.Zero
    for factor in sp.Mul.make_args(sp.sympify(e)):
        base, exponent = factor.as_base_exp()
        if base == l:
            power += exponent
        elif base == sp.log(l):
            logs += exponent
        elif base == E:
            product += exponent
        else:
            assert not factor.has(l, E), factor
            front *= factor
    return front, power, logs, product
