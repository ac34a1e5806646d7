r"""Large-depth laws of the correlators of order 1/n, divided by what they are measured in, and of Θ.

The maps of the correlators are a triangular linear system driven by K: each is x′ = m(K) x + s(K, those before it). A
`Setting` says what functions of K are at large depth, `difference.solved` solves one equation after the other, and what
the start decides is kept as a constant C_x. Sources that cancel leave their next orders, since every series goes on
below its leading term and says down to where it is known.

Source: derived here; [orthogonal_weights] (4.24), (4.27) and its conjectures about depth are claims of `derivations`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sympy as sp
from flint import fmpq

from meanfield.base.answers.export import plain
from meanfield.base.answers.latex import aligned
from meanfield.base.answers.results import MeanFieldError, Status, Term, of_start
from meanfield.base.quantities import QUANTITIES
from meanfield.base.symbols import K, l
from meanfield.symbolic.asymptotics.depth import DepthLaw
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.correlator_laws.settings import Setting
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.series.asymptotic_law import Law
from meanfield.symbolic.series.coefficients import ZERO, Exact, expression
from meanfield.symbolic.series.difference import NotFar, home_of, solved
from meanfield.symbolic.series.ring import Key, any_logs, key
from meanfield.symbolic.series.truncated import Calculus, Truncated

#: what a correction of a mean is divided by, where the recursion carries the quotient
CARRIED = {"J1": "J1_J"}
MOST_LOGS = 3  # terms in powers of 1/log l that are stated
TAIL = 8  # powers of 1/l of a learning rate that are worked out


@dataclass(frozen=True, repr=False)
class CorrelatorLaw(DepthLaw):
    """A `DepthLaw` of a correlator divided by powers of K and Θ, or of the correction of a mean divided by the mean.

    over: ((name, power), …) of what it is divided by; constants: the symbols in the terms that the start decides (C_X
    is what it adds to X at the power, or exponential, that solves the map of X without sources).

    `limit` and `exponent` (the power of l that leads) do not depend on the start where `forgets` is True.
    """

    over: tuple[tuple[str, int], ...] = ()

    def data(self) -> dict[str, Any]:
        """As that of a `DepthLaw`, with what the correlator is divided by and, where it is known, the quotient."""
        return {**super().data(), "over": dict(self.over), "exact": plain(self.exact)}

    @property
    def constants(self) -> tuple[sp.Symbol, ...]:
        """Symbols of the terms that the start decides."""
        return tuple(s for s in sorted(self.law.expr.free_symbols, key=str) if of_start(s))

    @property
    def forgets(self) -> bool:
        """Whether the leading term is the same for every start that K flows from to the same place."""
        return not any(map(of_start, self.leading.coefficient.free_symbols))

    @property
    def exponent(self) -> sp.Expr:
        return self.leading.power if self.terms else sp.S.Zero

    @property
    def name(self) -> str:
        """The quotient: V/K**2, R*K/Theta**3."""
        above = "".join(f"*{x}" for x, p in self.over if p < 0)
        below = [x + (f"**{p}" if p != 1 else "") for x, p in self.over if p > 0]
        return self.quantity + above + (f"/{below[0]}" if len(below) == 1 else f"/({'*'.join(below)})" * bool(below))

    def __str__(self) -> str:
        own = super().__str__()
        return own.replace(f"{self.quantity} = ", f"{self.name} = ", 1)

    @property
    def latex_name(self) -> str:
        """The quotient as LaTeX."""
        below = "".join(_powered(QUANTITIES[x].latex, p) for x, p in self.over if p > 0)
        above = "".join(_powered(QUANTITIES[x].latex, -p) for x, p in self.over if p < 0)
        above = QUANTITIES[self.quantity].latex + above
        return rf"\frac{{{above}}}{{{below}}}" if below else above

    def latex(self) -> str:
        """The law as LaTeX for math mode (amsmath)."""
        return aligned([(self.latex_name, self.law)], self.remarks())


def _powered(latex: str, p: int) -> str:
    return latex if p == 1 else rf"\left({latex}\right)^{{{p}}}"


class CorrelatorSystem:
    """The correlators of one network at one place, solved one after the other as they are asked for.

    recursion: with numbers put in, σ_w inside φ; setting: what functions of K are at large depth; number: how a
    coefficient becomes an expression; regime, status: as in `DepthLaw`; costly: whether what is left out of a law need
    not be worked out; bare: whether constants of the start are carried along only where they lead; after: the onset
    of the laws of K and J.
    """

    def __init__(
        self,
        recursion: Recursion,
        setting: Setting,
        regime: str,
        status: Status,
        number: Callable[[sp.Expr], sp.Expr],
        costly: bool = False,
        bare: bool = False,
        after: float = 1.0,
    ) -> None:
        self.after = after
        self.costly, self.bare = costly, bare
        self.recursion, self.setting, self.regime, self.status = recursion, setting, regime, status
        self.calculus: Calculus = setting.calculus
        self.number = number
        self.names = {v.symbol: v.name for v in recursion.state}
        self.solutions: dict[str, Truncated] = {}

    def solution(self, name: str) -> Truncated:
        """X^l of one variable of the recursion."""
        if name not in self.solutions:
            self.solutions[name] = self._solved(name)
        return self.solutions[name]

    def _solved(self, name: str) -> Truncated:
        if name == "K":
            return self.setting.coefficient(K)
        calc = self.calculus
        own = self.recursion.state[self.recursion.index(name)].symbol
        multiplier, sources = None, []
        for (states, of_layer), c in self.parts(name).items():
            if states == own:
                multiplier = self.setting.multiplier(c)
                continue
            source = calc.times(self.setting.coefficient(c), self.rate(of_layer))
            for factor in sp.Mul.make_args(states):
                if factor != 1:
                    base, power = factor.as_base_exp()
                    source = calc.times(source, calc.power(self.solution(self.names[base]), int(power)))
            sources.append(source)
        total = calc.plus(*sources) if sources else calc.constant(ZERO)
        if multiplier is None:  # χ_K = 0: no layer remembers the one before
            return calc.later(total, -1)
        most = calc.lead(total) if self.bare and total.terms else None
        if most is not None and calc.size(home_of(calc, multiplier)) < calc.size(most) + 1:
            return solved(calc, multiplier, total, lambda: ZERO)
        return solved(calc, multiplier, total, lambda: calc.atoms.of(sp.Symbol(f"C_{name}", real=True)))

    def parts(self, name: str) -> dict[tuple[sp.Expr, sp.Expr], sp.Expr]:
        """The map of a variable: (product of variables, what holds l) → a coefficient, a function of K."""
        states = set(self.names) - {K}
        groups: dict[tuple[sp.Expr, sp.Expr], sp.Expr] = {}
        for term in sp.Add.make_args(sp.expand(self.recursion[name])):
            held: dict[str, list[sp.Expr]] = {"states": [], "layer": [], "rest": []}
            for f in sp.Mul.make_args(term):
                free = f.free_symbols
                kind = "layer" if l in free else "states" if free & states and not f.has(Average) else "rest"
                held[kind].append(f)
            place = sp.Mul(*held["states"]), sp.Mul(*held["layer"])
            groups[place] = groups.get(place, sp.S.Zero) + sp.Mul(*held["rest"])
        return {place: c for place, c in groups.items() if c != 0}

    def rate(self, e: sp.Expr) -> Truncated:
        """A learning rate of the layer that is made, l + 1, as a series in 1/l."""
        calc = self.calculus
        if e == 1:
            return calc.constant(calc.atoms.of(sp.S.One))
        small = sp.Dummy("x", positive=True)
        try:
            series = sp.series(e.subs(l, 1 / small + 1), small, 0, TAIL)
        except (NotImplementedError, ValueError, sp.PoleError):
            series = sp.nan
        terms: dict[Key, Exact] = {}
        for t in sp.Add.make_args(sp.expand(series.removeO()) if series is not sp.nan else sp.nan):
            c, p = t.as_coeff_exponent(small)
            if c.has(small) or not p.is_Rational or not c.is_finite:
                raise MeanFieldError(f"The learning rate {e} is no series in powers of 1/l; no law is derived for it.")
            terms[key(fmpq(-int(p.p), int(p.q)))] = calc.atoms.of(c)
        remainder = any_logs(-TAIL) if series.has(sp.Order) else None
        return Truncated(terms, remainder, (fmpq(0),) * len(calc.bases))

    def normalized(self, name: str) -> tuple[Truncated, tuple[tuple[str, int], ...]]:
        """X over its powers of K and Θ, and what these are."""
        over = QUANTITIES[name].over
        if name in CARRIED:
            return self.solution(CARRIED[name]), over
        found = self.solution(name)
        for x, p in over:
            found = self.calculus.times(found, self.calculus.power(self.solution(x), -p))
        return found, over

    def law(self, name: str, order: int) -> CorrelatorLaw:
        """The law of a normalized correlator, down to l^-order below its leading power."""
        found, over = self.normalized(name)
        calc = self.calculus
        terms = [(k, self.expr(c)) for k, c in calc.order.ordered(found.terms)]
        terms = [(k, c) for k, c in terms if c != 0]
        rate = self.exponential(found)
        if not terms:
            if found.remainder is None:
                return self._stated(name, Law(l, sp.oo, (), "exponential" if calc.transient else "zero"), over)
            raise NotFar
        edge, left = calc.size(terms[0][0]) - order, calc.edge(found)
        if left is not None and left >= edge:
            raise NotFar
        kept = [(k, c) for k, c in terms if calc.size(k) >= edge]
        if any(k[2] < 0 for k, _ in terms):  # a quotient led by a logarithm: powers of 1/log l without end
            top = kept[0][0]
            kept = [(k, c) for k, c in kept if k[:2] == top[:2] and k[2] > top[2] - MOST_LOGS]
        held = {k for k, _ in kept}
        below = [k for k, _ in terms if k not in held]
        remainder, logs = ("exponential" if calc.transient else "zero"), sp.S.Zero
        if below and rate == 0:
            remainder, logs = self.power(below[0]), expression(below[0][2])
        elif below:
            remainder = "smaller"
        elif left is not None:
            if left >= edge - 1 and not self.costly:
                raise NotFar
            remainder = "smaller"
        stated = tuple(Term(c, self.power(k), expression(k[2]), rate) for k, c in kept)
        return self._stated(name, Law(l, sp.oo, stated, remainder, logs), over)

    def _stated(self, name: str, law: Law, over) -> CorrelatorLaw:
        own = law.variable, law.point, law.terms, law.remainder, law.remainder_logs
        return CorrelatorLaw(*own, name, self.regime, self.status, over=over, after=self.after)

    def exponential(self, x: Truncated) -> sp.Expr:
        rate = sp.S.Zero
        for r, b in zip(x.rate, self.calculus.bases):
            rate += expression(r) * sp.log(b)
        return self.number(rate) if rate != 0 else rate

    def power(self, k: Key) -> sp.Expr:
        p = expression(k[0])
        if k[1] != 0:
            p = self.number(p + expression(k[1]) * self.calculus.irrational)
        return p

    def expr(self, c: Exact) -> sp.Expr:
        return self.number(self.calculus.atoms.expr(c))
