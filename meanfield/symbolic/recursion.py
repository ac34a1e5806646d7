"""Recursion: a state pushed one layer forward by a map. `blocks` derives the map from an architecture record."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import sympy as sp

from meanfield.functions.parser import expression
from meanfield.results import Equality, MeanFieldError, one_line
from meanfield.symbolic.equality import closed, expressions_equal
from meanfield.symbols import Q0, l, parameter
from meanfield.tex.names import after, aligned

c0 = sp.Symbol("c0", real=True)


@dataclass(frozen=True)
class StateVar:
    """One quantity of the state: its name, its symbol, its value at layer 1 and how it is carried ("linear" or
    "log")."""

    name: str
    symbol: sp.Symbol
    initial: sp.Expr
    carry: str = "linear"


@dataclass(frozen=True)
class Recursion:
    """x^{l+1} = step(x^l; parameters).

    state: the variables, each depending only on itself and on those before it; step: their next values in the same
    order; depth: the symbol of the layer index (l = 1 is the first layer after the input). Two recursions are equal
    (==) when they are structurally the same; `equals` asks whether they are the same mathematically.
    """

    state: tuple[StateVar, ...]
    step: tuple[sp.Expr, ...]
    depth: sp.Symbol = l

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.state)

    @property
    def initial(self) -> dict[str, sp.Expr]:
        return {v.name: v.initial for v in self.state}

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Symbols that are neither state nor depth, by name."""
        free = set().union(*[e.free_symbols for e in self.step], *[v.initial.free_symbols for v in self.state])
        return tuple(sorted(free - {v.symbol for v in self.state} - {self.depth}, key=lambda s: s.name))

    def __getitem__(self, name: str) -> sp.Expr:
        """The next value of one state variable."""
        return self.step[self.index(name)]

    def index(self, name: str) -> int:
        if name not in self.names:
            raise MeanFieldError(f"The quantity {name!r} was asked for; this recursion has {', '.join(self.names)}.")
        return self.names.index(name)

    def only(self, *names: str) -> Recursion:
        """The same recursion reduced to `names` and whatever they depend on."""
        if not names:
            return self
        wanted = {self.state[self.index(n)].symbol for n in names}
        for v, e in zip(reversed(self.state), reversed(self.step)):
            if v.symbol in wanted:
                wanted |= e.free_symbols & {s.symbol for s in self.state}
        keep = [i for i, v in enumerate(self.state) if v.symbol in wanted]
        return replace(self, state=tuple(self.state[i] for i in keep), step=tuple(self.step[i] for i in keep))

    def map(self, function) -> Recursion:
        """`function` applied to every step and initial value."""
        return replace(
            self,
            step=tuple(function(e) for e in self.step),
            state=tuple(replace(v, initial=function(v.initial)) for v in self.state),
        )

    def subs(self, values: dict) -> Recursion:
        """Parameters replaced, e.g. {"sigma_w": 1, mu: 1/2} by name or symbol."""
        free = set().union(*[sp.sympify(e).free_symbols for v in self.state for e in (v.initial,)])
        free = free.union(*[sp.sympify(e).free_symbols for e in self.step])
        swap: dict = {}
        for k, v in values.items():  # by name: a symbol may have been declared with other assumptions
            for s in [s for s in free if s.name == k] if isinstance(k, str) else [k]:
                swap[s] = expression(v, str(k))
        return self.map(lambda e: e.subs(swap))

    def doit(self) -> Recursion:
        """Every average replaced by its closed form where the rule finds one."""
        return self.map(closed)

    def susceptibilities(self) -> dict[str, sp.Expr]:
        """Derivatives of the map: chi_K = ∂K'/∂K, chi_J = ∂J'/∂J, chi_Delta = ∂chi_J/∂K; for two inputs chi_c =
        ∂K_ab'/∂K_ab."""
        out: dict[str, sp.Expr] = {}
        for name, label in (("K", "chi_K"), ("J", "chi_J"), ("K_ab", "chi_c")):
            if name in self.names:
                infinite = self[name].has(sp.oo)  # φ jumps: ⟨φ′²⟩ = ∞
                out[label] = sp.oo if infinite else sp.diff(self[name], self.state[self.index(name)].symbol)
        if "chi_J" in out and out["chi_J"] != sp.oo:
            out["chi_Delta"] = sp.diff(out["chi_J"], self.state[self.index("K")].symbol)
        return out

    def iterate(self, values: dict, depth: int, digits: int = 30) -> list[dict[str, sp.Float]]:
        """Layers 1 … depth with `digits` digits: the slow exact route that the compiled one is tested against.

        values: numbers for all parameters, by name (floats count as the binary doubles they are); state variables may
        be given to override their initial value.
        """
        exact = {k: sp.Rational(v) if isinstance(v, float) else expression(v, k) for k, v in values.items()}
        numbers = {parameter(k): v for k, v in exact.items()}
        numbers |= {p: exact[p.name] for p in self.parameters if p.name in exact}  # those declared positive, too
        layer = {v.symbol: numbers.get(v.symbol, v.initial).subs(numbers) for v in self.state}
        missing = (
            set().union(*[sp.sympify(v).free_symbols for v in layer.values()], set(self.parameters))
            - set(numbers)
            - {Q0, c0}
        )
        if missing:
            raise MeanFieldError(f"Iterating needs values for {sorted(s.name for s in missing)}.")
        out = []
        for _ in range(depth):
            layer = {s: sp.N(v.subs(numbers), digits + 5) for s, v in layer.items()}
            out.append({v.name: layer[v.symbol] for v in self.state})
            layer = {v.symbol: e.subs(numbers).subs(layer) for v, e in zip(self.state, self.step)}
        return out

    def equals(self, other: Recursion, points: int = 3) -> Equality:
        """Proved equal (by closed forms and simplification), equal to 30 digits at `points` random exact points, or
        different."""
        if self == other:
            return Equality.PROVED
        if self.names != other.names:
            return Equality.DIFFERENT
        swap = {b.symbol: a.symbol for a, b in zip(self.state, other.state)}
        pairs = list(zip(self.step, [e.xreplace(swap) for e in other.step]))
        pairs += [(a.initial, b.initial.xreplace(swap)) for a, b in zip(self.state, other.state)]
        return min((expressions_equal(a, b, points) for a, b in pairs), key=list(Equality)[::-1].index)

    def latex(self) -> str:
        r"""The maps as LaTeX for math mode (amsmath): one `aligned`, whose lines fit \textwidth of an article at 10 pt.

        Long maps break at their signs, or name their averages A_1, A_2, …, whose definitions follow. Write
        `.doit().latex()` for closed forms.

        >>> from meanfield import derive
        >>> print(derive("tanh").recursion("K").latex())
        K^{\ell+1} = \sigma_b^{2} + \sigma_w^{2} \left\langle \tanh^{2}{\left(z \right)} \right\rangle_{K}
        """
        return aligned([(after(v.symbol), e) for v, e in zip(self.state, self.step)])

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def __repr__(self) -> str:
        return one_line("Recursion", ", ".join(self.names))

    def __str__(self) -> str:
        return "\n".join(f"{v.name}' = {e}" for v, e in zip(self.state, self.step))
