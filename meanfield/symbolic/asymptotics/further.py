r"""Laws with further terms: X = C · exp(terms that grow) · (1 + Σ c l^p (log l)^r (log log l)^s), p ≤ 0, with what is
left out.

K comes from `corrections`; log J = Σ log(1 + σ_v²σ_w² l^{-V} ⟨φ′²⟩_q), and log K where K is fed back linearly at V < 1,
are sums over blocks of series. Source: derived here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import sympy as sp
from flint import fmpq

from meanfield.results import MeanFieldError
from meanfield.symbolic.asymptotics.balance import kept
from meanfield.symbolic.asymptotics.branch import Branch
from meanfield.symbolic.asymptotics.coefficients import ONE, TRIAL, Atoms, Exact, expression, rational
from meanfield.symbolic.asymptotics.corrections import Solved, solve
from meanfield.symbolic.asymptotics.growth import Growth, value_of
from meanfield.symbolic.asymptotics.leading import Leading, NoFurther, decided
from meanfield.symbolic.asymptotics.logseries import NONE, Key, Ring, Series, TooLong, key, plus, scaled, times
from meanfield.symbolic.asymptotics.residual import Way
from meanfield.symbols import l

OF_K = "C_K"  # C of the law of K, in the law of J
MOST_ORDER = 12
TRIALS = 30
IDLE = 4  # trials without a new term, after which no more are looked for
Powers = tuple[sp.Expr, sp.Expr, int]


@dataclass(frozen=True)
class Corrections:
    """1 + Σ coefficient · l^p (log l)^r (log log l)^s and what is left out.

    terms: ((p, r, s), coefficient), most important first; rest: (p, r, s) of O(·), None where nothing is left out but
    what is smaller than every power; head: what they are added to, 1 unless the terms that grow are not all known: then
    those of log X, and `rest` grows, too.

    >>> Corrections((((-sp.S.Half, sp.S(1), 0), sp.S(3)),), (-sp.S.One, sp.S.Zero, 0)).text()
    '1 + 3*log(l)/sqrt(l) + O(1/l)'
    """

    terms: tuple[tuple[Powers, sp.Expr], ...] = ()
    rest: Powers | None = None
    head: tuple[sp.Expr, ...] = (sp.S.One,)

    @property
    def expr(self) -> sp.Expr:
        """The sum without what is left out."""
        return sp.Add(*self.parts())

    def parts(self) -> list[sp.Expr]:
        """The terms as expressions in l, the head first."""
        return [*self.head, *(c * monomial(k) for k, c in self.terms)]

    @property
    def remainder(self) -> str:
        """What is left out, in one word."""
        return "exponential" if self.rest is None else "power"

    @property
    def left_out(self) -> sp.Expr | None:
        """The argument of O(·)."""
        return None if self.rest is None else monomial(self.rest)

    def text(self, parts: list[sp.Expr] | None = None, left: sp.Expr | None = None) -> str:
        """On one line; parts, left: the terms and the argument of O(·) as they are to be written."""
        tail = [] if self.rest is None else [f"O({left or self.left_out})"]
        return " + ".join([*map(str, parts or self.parts()), *tail]).replace("+ -", "- ")

    def at(self, t: float, values: Mapping[sp.Symbol, object] | None = None) -> float:
        """The sum of the terms alone at log l = t > 1, in floats."""
        total = 0.0
        for powers, c in self.terms:
            p, r, s = (value_of(e, values) for e in powers)
            total += value_of(c, values) * math.exp(p * t + r * math.log(t)) * math.log(t) ** s
        return total


def monomial(k: Powers) -> sp.Expr:
    """l^p (log l)^r (log log l)^s."""
    return l ** k[0] * sp.log(l) ** k[1] * sp.log(sp.log(l)) ** k[2]


@dataclass(frozen=True)
class Found:
    """What was derived of one quantity: log X = grown + log(1 + small) + a constant, down to the key `rest`.

    short: whether the expansions of the averages, not of the solution, set `rest`; amplitude: of the leading term, for
    one that holds C of K.
    """

    ring: Ring
    grown: Series
    small: Series
    rest: Key | None
    short: bool = False
    amplitude: sp.Expr | None = None


def further(branch: Branch, way: Way, quantity: str, law: Growth, order: int) -> tuple[Growth, Corrections]:
    """The law with `order` further terms: those of log X that grow first, then those that vanish; fewer where no more
    are derived. Raises: MeanFieldError where none are."""
    derive = {"K": _of_k, "K[1]": _of_q, "J": _of_j}.get(quantity)
    if derive is None:
        raise MeanFieldError(f"Further terms of {quantity} were asked for; they are derived for K, K[1] and J.")
    floor, depth, ends, idle, known = NONE, fmpq(1), 3, 0, -1
    found: Found | None = None
    for _ in range(TRIALS):
        try:
            found = derive(branch, way, floor, depth, ends)
        except TooLong:
            break
        count = _count(found)
        idle, known = idle + 1 if count == known else 0, count
        if found.rest is None or count >= order or idle == IDLE:
            break
        p, r, _ = found.ring.size(found.rest)
        far = 2 * count < order
        if found.short:
            ends += 1
        elif p >= -floor:  # down to what was left out, and further where that gave little
            depth = max(depth + fmpq(1, 2), 2 * depth if far else -r)
        else:
            floor = max(2 * floor if far else NONE, -p)
    if found is None:
        raise NoFurther(f"The further terms of {quantity} are too many to be worked out here.")
    return _stated(found, law, order)


def _of_k(branch: Branch, way: Way, floor: fmpq, depth: fmpq, ends: int) -> Found:
    if way.K.stretched or way.K.products:
        return _linear(branch, way, floor, depth, branch.square)
    found = solve(Leading(branch, way.K, ends), floor, depth)
    return Found(found.ring, {}, found.eps, found.rest, found.short)


def _of_q(branch: Branch, way: Way, floor: fmpq, depth: fmpq, ends: int) -> Found:
    if way.K.stretched or way.K.products:
        return _linear(branch, way, floor, depth, branch.square, inside=True)
    found = solve(Leading(branch, way.K, ends), floor, depth)
    eta, rest = _inside(found)
    return Found(found.ring, {}, eta, rest, found.short, found.leading.q0)


def _inside(found: Solved) -> tuple[Series, Key | None]:
    """η of q = q0 (1 + η), and the key of what it leaves out."""
    ring = replace(found.ring, lost=None)
    eta = found.leading.eta(ring, found.eps)
    rest = ring.largest(ring.lost, None if found.rest is None else times(found.rest, found.leading.own[1]))
    return ring.above(eta, rest), rest


# ------------------------------------------------------------------------------------------------ sums over the blocks


def _of_j(branch: Branch, way: Way, floor: fmpq, depth: fmpq, ends: int) -> Found:
    if way.K.stretched or way.K.products:
        return _linear(branch, way, floor, depth, branch.slope)
    leading = Leading(branch, way.K, ends, OF_K)
    V = leading.beta("v") + leading.beta("w")
    average = leading.expanded(branch.slope, branch.strength, (-V, NONE, NONE, 0))
    ring = leading.ring(1 + floor, depth)
    moved = ring.largest(*[leading.full(p) for p in average.pieces if p.slope or p.logs != 0])
    if moved is None:  # ⟨φ′²⟩ is the same at every q
        return _product(ring, plus(*leading.evaluated(ring, average.pieces, {})), average.rest, True)
    found = solve(leading, max(1 + floor + ring.size(moved)[0], NONE), depth)
    eta, rest = _inside(found)
    x = plus(*leading.evaluated(ring, average.pieces, eta))
    through = None if rest is None else times(moved, rest)
    left = ring.largest(average.rest, through)
    return _product(ring, x, left, left is not None and (left == average.rest or found.short))


def _linear(branch: Branch, way: Way, floor: fmpq, depth: fmpq, node: sp.Expr, inside: bool = False) -> Found:
    """Π (1 + σ_v²σ_w² v l^{-V}), where q → ∞ faster than every power and ⟨φ²⟩_q ~ v q, or ⟨φ′²⟩_q ~ v."""
    end = branch.infinity
    power, logs, v = end.of_square if node == branch.square else end.of_slope
    numbers = [decided(b, "an exponent") for b in (branch.v.beta, branch.w.beta)]
    if any(n is None for n in numbers):
        raise NoFurther("Further terms are not derived at irrational exponents.")
    V = sum((rational(n) for n in numbers), NONE)
    ring = Ring(Atoms(), 1 + floor, depth)
    if node == branch.slope and power < 0:
        return Found(ring, {}, {}, None)
    if logs != 0:
        raise NoFurther("Further terms are not derived where a logarithm multiplies a linear feedback.")
    W = branch.strength * v
    if V == 0:
        grown = {key(1): ring.atoms.of(sp.log(1 + W))}
        found = Found(ring, grown, {}, None)
    else:
        found = _product(ring, {key(-V): ring.atoms.of(W)}, None, False)
    if not inside:
        return found
    shift = {(NONE, NONE, fmpq(1), 0): ring.atoms.of(-branch.w.beta)}
    return replace(found, grown=plus(found.grown, shift))


def _product(ring: Ring, x: Series, left: Key | None, short: bool) -> Found:
    """Π_{m<l} (1 + x_m) for a series that vanishes; left: the key of what x leaves out."""
    rate = ring.log1p(ring.powers(x))
    lost = ring.largest(ring.lost, left)
    short = short and lost == left
    outer = replace(ring, lost=None)
    total = outer.summed(rate)
    grown = {k: c for k, c in total.items() if ring.size(k) > (0, 0, 0)}
    small: Series = {}
    factor = fmpq(1)
    for j, power in enumerate(outer.powers({k: c for k, c in total.items() if ring.size(k) < (0, 0, 0)}), 1):
        factor = factor / j
        small = plus(small, scaled(power, ONE.scaled(factor)))
    rest = ring.largest(None if lost is None else _integrated(lost), outer.lost)
    return Found(ring, ring.above(grown, rest), ring.above(small, rest), rest, short)


def _integrated(k: Key) -> Key:
    """The key of Σ_{m<l} of a term of this key."""
    p, b, r, s = k[0] + 1, *k[1:]
    if (p, b) != (0, 0):
        return p, b, r, s
    return (p, b, r + 1, s) if r != -1 else (p, b, NONE, s + 1)


# ---------------------------------------------------------------------------------------------- stating what is found


def _terms(found: Found, series: Series) -> list[tuple[Key, Exact]]:
    """The terms, most important first, without those that are 0 to 30 digits."""
    return [(k, c) for k, c in found.ring.ordered(series) if not _is_zero(found.ring, c)]


def _is_zero(ring: Ring, c: Exact) -> bool:
    if c.number is not None or not ring.atoms.vanishes(c):
        return c.number == 0
    e = ring.atoms.expr(c)
    return bool(abs(sp.N(e.subs({s: TRIAL + i for i, s in enumerate(sorted(e.free_symbols, key=str))}), 30)) < 1e-20)


def _value(ring: Ring, c: Exact) -> sp.Expr:
    """A coefficient as an expression; 1/(a + bλ) stays a factor."""
    e = ring.atoms.expr(c)
    return kept(e, lambda x: sp.factor_terms(sp.expand(x) if ring.irrational is None else x))


def _powers(ring: Ring, k: Key) -> Powers:
    p = expression(k[0]) + (expression(k[1]) * ring.irrational if k[1] != 0 else 0)
    return p, expression(k[2]), k[3]


def _count(found: Found) -> int:
    """How many further terms there are."""
    grown = _terms(found, found.grown)
    return len(grown) + len(_terms(found, found.small)) - (1 if grown else 0)


def _stated(found: Found, law: Growth, order: int) -> tuple[Growth, Corrections]:
    """The law with `order` of the terms found."""
    ring = found.ring
    grown, small = (_terms(found, one) for one in (found.grown, found.small))
    _check(law, [(_powers(ring, k), _value(ring, c)) for k, c in grown[:1]])
    rest = found.rest if len(grown) <= order + 1 else grown[order + 1][0]
    terms = tuple(((*_powers(ring, k), sp.S.Zero), _value(ring, c)) for k, c in grown[: order + 1])
    if rest is not None and ring.size(rest) >= (0, 0, 0):
        if not grown:
            raise NoFurther("Further terms of this law are not derived.")
        return Growth(terms, (), None, True), Corrections((), _powers(ring, rest), _head(terms))
    if grown:
        same = law.is_regular and {k for k, _ in law.terms} == {k for k, _ in terms}
        law = Growth(terms, (), law.constant if same else None)
    elif found.amplitude is not None and law.constant is None:
        law = replace(law, constant=found.amplitude)
    room = order - max(0, len(grown) - 1)
    if len(small) > room:
        rest = small[room][0]
    kept = tuple((_powers(ring, k), _value(ring, c)) for k, c in small[:room])
    return law, Corrections(kept, None if rest is None else _powers(ring, rest))


def _head(terms: tuple[tuple[tuple[sp.Expr, ...], sp.Expr], ...]) -> tuple[sp.Expr, ...]:
    """The terms of log X."""
    return tuple(c * monomial((k[0], k[1], int(k[2]))) for k, c in terms)


def _check(law: Growth, first: list[tuple[Powers, sp.Expr]]) -> None:
    """That the first term of log X is what the leading order says."""
    known = {k[:3]: c for k, c in law.terms}
    known |= {(1 - V, sp.S.Zero, 0): n * W / (1 - V) for W, V, n in law.products}
    for k, value in first:
        if k not in known or abs(sp.N(known[k] - value, 30)) > 1e-15 * abs(sp.N(value, 30)):
            raise NoFurther("The leading term of the logarithm is not found again in its expansion.")
    if not first and (law.stretched or law.products):
        raise NoFurther("The leading term of the logarithm is not found again in its expansion.")
