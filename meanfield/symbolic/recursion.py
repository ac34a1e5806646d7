"""Recursion: a state pushed one layer forward by a map. `blocks` derives the map from an architecture record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import sympy as sp

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.export import SHOWN, Result, plain
from meanfield.base.answers.named import Formulas, given_values
from meanfield.base.answers.plain_text import text
from meanfield.base.answers.results import Equality, MeanFieldError, one_line
from meanfield.base.arguments import meant, scalar, shown, validated, whole
from meanfield.base.encodings import ENCODINGS, PLAIN, Encoding
from meanfield.base.quantities import QUANTITIES, symbols_of
from meanfield.base.symbols import Q0, L, l, parameter
from meanfield.base.words import unknown
from meanfield.functions.reading.parser import expression, parse
from meanfield.symbolic.averages.base import nodes_in
from meanfield.symbolic.averages.nodes.equal_norms import as_printed
from meanfield.symbolic.equality import closed, equal
from meanfield.symbolic.steps import Domain, Step

c0 = sp.Symbol("c0", real=True)
_DEVIATIONS = dict.fromkeys(("sigma_w", "sigma_b"), Domain(sp.S.Zero))


def _formula(given: object, what: str) -> sp.Expr:
    """An expression as it is, anything else read as a number or a formula (never evaluated as code)."""
    return given if isinstance(given, sp.Expr) else expression(given, what)


@dataclass(frozen=True)
class StateVar:
    """One quantity of the state: its name, its symbol, its value at layer 1 and how it is held (an `Encoding`, or its
    name: "linear", "log").

    >>> [(one.name, one.initial) for one in derive("tanh").recursion("J").state]
    [('K', Q0*sigma_w**2 + sigma_b**2), ('J', 1)]
    """

    name: str
    symbol: sp.Symbol
    initial: sp.Expr
    encoding: Encoding = PLAIN

    def __post_init__(self) -> None:
        if isinstance(self.encoding, str):
            if self.encoding not in ENCODINGS:
                raise MeanFieldError(f"An encoding is one of {', '.join(ENCODINGS)}, but {self.encoding!r} was given.")
            object.__setattr__(self, "encoding", ENCODINGS[self.encoding])
        object.__setattr__(self, "initial", _formula(self.initial, f"The start of {self.name}"))

    @property
    def key(self) -> str:
        """Its name in a run, as it is held."""
        return self.encoding.key(self.name)


@dataclass(frozen=True)
class Recursion(Result, Mapping[str, sp.Expr]):
    """x^l = block(x^{l-1}; parameters) for the layers l = 2, 3, …; x^1 is the start.

    state: the variables, each depending only on itself and on those before it, with their values at layer 1 (`start`);
    block: the `Step` that repeats (a tuple of formulas is one without intermediates), which fixed points, lines and
    laws read; head: steps of the first layers after layer 1, where they differ from it (a trained LayerNorm at the end
    of a block is missing before the first one); readout: (name, formula) of what is read off the state of a layer;
    layer: the symbol of the layer that is made (in the step that makes layer 2 it is 2); domain: where parameters may
    lie, by symbol; closer: (variable, another formula of the same layer, where that one keeps more digits). It is a
    mapping from the names of the variables to their next values by the block. Two recursions are equal (==) when they
    are structurally the same; `equals` asks whether they are the same mathematically.

    >>> from meanfield.base.symbols import K, l
    >>> [int(x["K"]) for x in Recursion((StateVar("K", K, 1),), (K + l,)).iterate({}, 4)]
    [1, 3, 6, 10]
    """

    state: tuple[StateVar, ...]
    block: Step
    head: tuple[Step, ...] = ()
    readout: tuple[tuple[str, sp.Expr], ...] = ()
    layer: sp.Symbol = l
    domain: tuple[tuple[sp.Symbol, Domain], ...] = ()
    closer: tuple[tuple[sp.Symbol, sp.Expr, sp.Basic], ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.block, Step):
            object.__setattr__(self, "block", Step(tuple(_formula(e, "A step") for e in self.block)))
        if any(len(one.next) != len(self.state) for one in self.steps):
            raise MeanFieldError(f"A step of {len(self.state)} formulas was expected, one for each state variable.")

    def data(self) -> dict[str, Any]:
        """The maps, their closed forms (None where an average has none), the values at layer 1 and the parameters."""
        maps = {v.name: e for v, e in zip(self.state, self.block.next)}
        forms = {name: None if e == sp.oo else closed(e) for name, e in maps.items()}
        return {
            "maps": plain(maps),
            "closed_forms": {n: None if e is None or any(nodes_in(e)) else plain(e) for n, e in forms.items()},
            "intermediates": {str(s): plain(e) for s, e in self.block.definitions},
            "start": {n: plain(e) for n, e in self.start.items()},
            "parameters": [s.name for s in self.parameters],
        }

    def arrays(self) -> Arrays:
        """A row for each variable: its name, its map and its value at layer 1, as text."""
        rows = zip(self.state, self.block.next)
        return of_rows([{"quantity": v.name, "next": str(e), "start": str(v.initial)} for v, e in rows])

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the head, then the block."""
        return (*self.head, self.block)

    def step_to(self, layer: int) -> Step:
        """The step that makes layer 2, 3, …"""
        return self.steps[min(layer - 2, len(self.head))]

    @cached_property
    def step(self) -> tuple[sp.Expr, ...]:
        """The next values by the block, as one formula each."""
        return self.block.flat()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(v.name for v in self.state)

    @property
    def start(self) -> dict[str, sp.Expr]:
        """The values at layer 1."""
        return {v.name: v.initial for v in self.state}

    initial = start

    @property
    def domains(self) -> dict[str, Domain]:
        """Where parameters may lie, by name: standard deviations are ≥ 0 whether a record states it or not."""
        return _DEVIATIONS | {s.name: d for s, d in self.domain}

    @cached_property
    def parameters(self) -> tuple[sp.Symbol, ...]:
        """Symbols that are neither state nor layer, by name."""
        free = set().union(*[s.free_symbols for s in self.steps], *[v.initial.free_symbols for v in self.state])
        return tuple(sorted(free - {v.symbol for v in self.state} - {self.layer}, key=lambda s: s.name))

    @property
    def knows_layer(self) -> bool:
        """Whether a step depends on the layer it makes: then no state repeats itself, and there are no fixed points."""
        return any(self.layer in one.free_symbols for one in self.steps)

    @property
    def knows_depth(self) -> bool:
        """Whether a step depends on L, the number of blocks of the network (depth - 1)."""
        return any(L in one.free_symbols for one in self.steps)

    @property
    def only_floats(self) -> bool:
        """Whether some average is known as doubles only, and nothing encloses it."""
        return any(not a.is_enclosed for step in self.steps for e in step.expressions for a in nodes_in(e))

    def homogeneous(self, what: str, enclosed: bool = True) -> Recursion:
        """This recursion, if every layer has the same map, and averages that can be enclosed (`enclosed`). Raises:
        MeanFieldError, saying that `what` needs it."""
        if enclosed and self.only_floats:
            raise MeanFieldError(
                f"{what} not available: this Pool has averages that are known as doubles, and that nothing encloses; "
                "ask fixed_points, phase, correlations or bias (critical_line() too, where the block has one Dense), "
                "which measure, or follow it with propagate."
            )
        if self.knows_depth:
            raise MeanFieldError(
                f"{what} not available: the map depends on the number of blocks {L} of the network (a Schedule with "
                "total=), which this verb does not know; use propagate, depth_law or phase_table."
            )
        if self.knows_layer:
            raise MeanFieldError(
                f"{what} not available: the map changes from layer to layer (it holds {self.layer}, as with a "
                "Schedule); use propagate or iterate."
            )
        return self

    def __getitem__(self, name: str) -> sp.Expr:
        """The next value of one state variable, by the block."""
        return self.step[self.index(name)]

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.state)

    def get(self, name, default=None):
        """The next value of a state variable, or `default` where there is no such variable."""
        return self[name] if name in self.names else default

    def index(self, name: str) -> int:
        if name not in self.names:
            raise unknown("quantity of this recursion", name, self.names)
        return self.names.index(name)

    def reading(self, formulas: Mapping[str, str]) -> Recursion:
        """The same recursion with what is read off its state by name, where it holds all that stands in a formula."""
        held = {v.name: v.symbol for v in self.state}
        known = {*held, *(n for n, _ in self.readout)}
        new = [(n, text) for n, text in formulas.items() if n not in known and set(symbols_of(text)) <= set(held)]
        return replace(self, readout=(*self.readout, *((n, _read(text)) for n, text in new))) if new else self

    def with_own(self, names: Iterable[str]) -> Recursion:
        """The same recursion with those of `names` that are quantities of a user's own: read off its state, or carried
        beside it by their own map. Raises: MeanFieldError where it does not carry what they are made of."""
        found = self
        for own in (QUANTITIES[n] for n in names if n in QUANTITIES and QUANTITIES[n].text and n not in self.names):
            missing = [n for n in symbols_of(own.text) if n not in found.names and n != own.name]
            if missing:
                raise MeanFieldError(
                    f"{own.name} is {own.text}, but {missing[0]} is not carried here; this recursion has "
                    f"{', '.join(self.names)}."
                )
            if own.name in {p.name for p in found.parameters}:
                raise MeanFieldError(
                    f"{own.name} is a quantity of yours and a parameter of this theory; call one of them otherwise."
                )
            if not own.step:
                found = found.reading({own.name: own.text})
                continue
            new = StateVar(own.name, parameter(own.name), expression(own.step[0], own.name), own.encoding)
            ahead = _read(own.text)
            found = replace(
                found,
                state=(*found.state, new),
                block=Step((*found.block.next, ahead), found.block.definitions),
                head=tuple(Step((*s.next, ahead), s.definitions) for s in found.head),
            )
        return found

    def only(self, *names: str) -> Recursion:
        """The same recursion reduced to `names`, variables or what is read off them, and whatever they depend on."""
        if not names:
            return self
        symbols, read = {v.symbol for v in self.state}, dict(self.readout)
        wanted = {self.state[self.index(n)].symbol for n in names if n not in read}
        wanted |= set().union(*[read[n].free_symbols for n in names if n in read])
        for i, v in reversed(list(enumerate(self.state))):
            if v.symbol in wanted:
                wanted |= set().union(*[s.pick([i]).free_symbols for s in self.steps]) & symbols
        keep = [i for i, v in enumerate(self.state) if v.symbol in wanted]
        kept = {self.state[i].symbol for i in keep}
        return replace(
            self,
            state=tuple(self.state[i] for i in keep),
            block=self.block.pick(keep),
            head=_shortened(tuple(s.pick(keep) for s in self.head), self.block.pick(keep)),
            readout=tuple((n, e) for n, e in self.readout if e.free_symbols & symbols <= kept),
            closer=tuple(one for one in self.closer if sp.Tuple(*one).free_symbols <= kept),
        )

    def map(self, function) -> Recursion:
        """`function` applied to every step and initial value."""
        return replace(
            self,
            block=self.block.map(function),
            head=tuple(s.map(function) for s in self.head),
            state=tuple(replace(v, initial=function(v.initial)) for v in self.state),
        )

    def flat(self) -> Recursion:
        """The same recursion without intermediates: one formula for each variable."""
        return replace(self, block=Step(self.step), head=tuple(Step(s.flat()) for s in self.head))

    @validated
    def subs(self, values: Mapping[Any, object] | None = None, **named: object) -> Recursion:
        """Parameters replaced, e.g. {"sigma_w": 1, mu: 1/2} by name or symbol, or sigma_w=1.

        Raises: MeanFieldError for a number outside the domain of its parameter, and for a name that is none here.
        """
        free = set().union(*[s.free_symbols for s in self.steps], *[v.initial.free_symbols for v in self.state])
        known = sorted({s.name for s in free})
        given = given_values(values, named)
        for key in given:
            name = key.name if isinstance(key, sp.Symbol) else key
            if name not in known:
                raise MeanFieldError(f"{shown(name)} is no symbol of this recursion.{meant(name, known)}")
        return self.replaced(given)

    def replaced(self, values: Mapping[Any, object]) -> Recursion:
        """`subs`, where a name that is none here is left alone."""
        free = set().union(*[s.free_symbols for s in self.steps], *[v.initial.free_symbols for v in self.state])
        swap: dict = {}
        for key, v in values.items():
            name = key.name if isinstance(key, sp.Symbol) else key  # it may have been declared with other assumptions
            for s in (s for s in free if s.name == name):
                swap[s] = expression(v, str(name))
                if s.name in self.domains and swap[s].is_number:
                    self.domains[s.name].require(s.name, swap[s])
        rest = tuple((s, d) for s, d in self.domain if s not in swap)
        return replace(self.map(lambda e: e.subs(swap)), domain=rest)

    def doit(self) -> Recursion:
        """Every average replaced by its closed form where the rule finds one."""
        return self.map(closed)

    def at(self, values: Mapping[Any, object] | None = None, **named: object) -> Formulas:
        """The next values with numbers for parameters and state variables by name; those not named stay symbols.

        >>> from meanfield import derive
        >>> derive("relu").recursion("K").doit().at(K=1, sigma_w=2, sigma_b=0)
        {'K': 2}
        """
        return Formulas(zip(self.names, self.step)).at(given_values(values, named))

    def susceptibilities(self) -> Formulas:
        """Derivatives of the map: chi_K = ∂K'/∂K, chi_J = ∂J'/∂J, chi_Delta = ∂chi_J/∂K; for two inputs chi_c =
        ∂K_ab'/∂K_ab. In terms of the intermediates, where a block has some. `.at(sigma_w=1.5, K=1)` puts numbers in."""
        out = Formulas()
        for name, label in (("K", "chi_K"), ("J", "chi_J"), ("K_ab", "chi_c")):
            if name in self.names:
                i = self.index(name)
                infinite = self.block.next[i].has(sp.oo)  # φ jumps: ⟨φ′²⟩ = ∞
                out[label] = sp.oo if infinite else self.block.derivative(i, self.state[i].symbol)
        if "chi_J" in out and out["chi_J"] != sp.oo:
            slope = Step((out["chi_J"],), self.block.definitions)
            out["chi_Delta"] = slope.derivative(0, self.state[self.index("K")].symbol)
        return out

    def iterate(self, values: dict, depth: int, digits: int = 30) -> list[dict[str, sp.Float]]:
        """Layers 1 … depth with `digits` digits: the slow exact route that the compiled one is tested against.

        values: numbers for all parameters, by name (floats count as the binary doubles they are); state variables may
        be given to override their initial value.
        """
        for k, v in given_values(values, {}).items():
            scalar(v, str(k))
        depth, digits = whole(depth, "depth", 1, 10**6), whole(digits, "digits", 1, 100_000)
        exact = {k: sp.Rational(v) if isinstance(v, float) else expression(v, k) for k, v in values.items()}
        for name, value in exact.items():
            if name in self.domains and value.is_number:
                self.domains[name].require(name, value)
        numbers = {parameter(k): v for k, v in exact.items()}
        numbers |= {p: exact[p.name] for p in self.parameters if p.name in exact}  # those declared positive, too
        begin = {v.symbol: exact.get(v.name, v.initial) for v in self.state}
        numbers = {s: v for s, v in numbers.items() if s not in begin}
        layer = {s: v.subs(numbers) for s, v in begin.items()}
        missing = (
            set().union(*[sp.sympify(v).free_symbols for v in layer.values()], set(self.parameters))
            - set(numbers)
            - {Q0, c0}
        )
        if missing == {L}:
            return self.iterate({**values, L.name: max(depth - 1, 1)}, depth, digits)
        if missing:
            raise MeanFieldError(f"Iterating needs values for {sorted(s.name for s in missing)}.")
        out = []
        for made in range(2, depth + 2):
            layer = {s: sp.N(v.subs(numbers), digits + 5) for s, v in layer.items()}
            out.append({v.name: layer[v.symbol] for v in self.state})
            if made > depth:
                break
            here = layer | {self.layer: sp.Integer(made)}
            step = self.step_to(made)
            for symbol, e in step.definitions:
                here[symbol] = sp.N(e.subs(numbers).subs(here), digits + 5)
            layer = {v.symbol: e.subs(numbers).subs(here) for v, e in zip(self.state, step.next)}
        return out

    def equals(self, other: Recursion, points: int = 3) -> Equality:
        """Proved equal (by closed forms and simplification), equal to 30 digits at `points` random exact points, or
        different."""
        if self == other:
            return Equality.PROVED
        if self.names != other.names:
            return Equality.DIFFERENT
        swap = {b.symbol: a.symbol for a, b in zip(self.state, other.state)} | {other.layer: self.layer}
        length = max(len(self.head), len(other.head)) + 2
        pairs = [
            (a, b.xreplace(swap))
            for made in range(2, length + 1)
            for a, b in zip(self.step_to(made).flat(), other.step_to(made).flat())
        ]
        pairs += [(a.initial, b.initial.xreplace(swap)) for a, b in zip(self.state, other.state)]
        return min((equal(a, b, points) for a, b in pairs), key=list(Equality)[::-1].index)

    def latex(self) -> str:
        r"""The maps as LaTeX for math mode (amsmath): one `aligned`, whose lines fit \textwidth of an article at 10 pt.

        Intermediates come first. Long maps break at their signs, or name their averages A_1, A_2, …, whose definitions
        follow. Write `.doit().latex()` for closed forms.

        >>> from meanfield import derive
        >>> print(derive("tanh").recursion("K").latex())
        K^{\ell+1} = \sigma_b^{2} + \sigma_w^{2} \left\langle \tanh^{2}{\left(z \right)} \right\rangle_{K}
        """
        block = self.block.map(as_printed)
        maps = [(v.symbol, None, e) for v, e in zip(self.state, block.next)]
        first = [(v.symbol, layer, as_printed(e)) for layer, v, e in self.first_maps()]
        return SHOWN["latex of maps"](block.definitions, [*maps, *first])

    def _repr_latex_(self) -> str:
        return f"$${self.latex()}$$"

    def __repr__(self) -> str:
        return one_line("Recursion", ", ".join(self.names))

    def __str__(self) -> str:
        block = self.block.map(as_printed)
        lines = [f"{s} = {text(e)}" for s, e in block.definitions]
        lines += [f"{v.name}' = {text(e)}" for v, e in zip(self.state, block.next)]
        lines += [f"{v.name}' = {text(e)} (to layer {layer})" for layer, v, e in self.first_maps()]
        return "\n".join(lines)

    def first_maps(self) -> list[tuple[int, StateVar, sp.Expr]]:
        """(layer that is made, variable, its map written out) of the head, where it differs from the block's."""
        return [
            (i, v, e)
            for i, step in enumerate(self.head, 2)
            for v, e, later in zip(self.state, step.flat(), self.step)
            if e != later
        ]


@lru_cache(maxsize=256)
def _read(text: str) -> sp.Expr:
    return parse(text, symbols_of(text))


def _shortened(head: tuple[Step, ...], block: Step) -> tuple[Step, ...]:
    """The head without the steps at its end that are the block's."""
    while head and head[-1] == block:
        head = head[:-1]
    return head
