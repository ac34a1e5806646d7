r"""`Common`: averages over what the positions of an infinite batch share, of averages over what each has for itself.

Of exchangeable Gaussian positions z = m + ε, with m ~ N(0, M) common to the batch, M = K_ab, and ε ~ N(0, V) of each
position, V = K - K_ab. A batch mean of f(z) is then ⟨f⟩ over N(m, V), a function of m, and a network behind a BatchNorm
of f(z) needs averages over m of functions of such means: here ⟨F(c_1, …, c_n)⟩_M, where each c_k = ⟨h_k⟩_{N(m, V)}
and h_k may hold the c's before it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NoReturn, Self

import mpmath as mp
import sympy as sp
from sympy.core.expr import AtomicExpr
from sympy.printing.printer import Printer

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.precision import decimals
from meanfield.base.symbols import K_aa, K_bb, P, Z
from meanfield.functions.elementary import mpmath_functions
from meanfield.functions.piecewise import pieces
from meanfield.symbolic.averages.base import Node

MOST = 24  # conditional means of one average
C = tuple(sp.Dummy(f"c{i}", dummy_index=74_000 + i, real=True) for i in range(MOST))
V_POSITIVE = tuple(sp.Dummy(f"v{i}", dummy_index=75_000 + i, positive=True) for i in range(MOST))
_NONE = sp.Tuple()
Means = tuple[tuple[sp.Symbol, sp.Expr], ...]


class Program(AtomicExpr):
    """What is averaged: (c_k, h_k) in order, h_k in Z[0] and earlier c's, and F in the c's. An atom to SymPy."""

    __slots__ = ("means", "value")
    means: Means
    value: sp.Expr
    is_number = False

    def __new__(cls, means: Means, value: sp.Expr) -> Self:
        self: Self = super().__new__(cls)
        self.means, self.value = means, value
        return self

    def __getnewargs__(self) -> tuple[Means, sp.Expr]:
        return self.means, self.value

    def _hashable_content(self) -> tuple[sp.Tuple, sp.Expr]:
        return sp.Tuple(*[sp.Tuple(c, h) for c, h in self.means]), self.value

    @property
    def free_symbols(self) -> set[sp.Basic]:
        return set()

    @property
    def inside(self) -> set[sp.Symbol]:
        """The symbols of its formulas."""
        return set().union(self.value.free_symbols, *[h.free_symbols for _, h in self.means])

    def map(self, function: Callable[[sp.Expr], sp.Expr]) -> Program:
        return Program(tuple((c, function(h)) for c, h in self.means), function(self.value))

    def sort_key(self, order: str | None = None) -> tuple[object, ...]:
        return self.class_key(), (1, (str(self.means) + str(self.value),)), sp.S.One.sort_key(), sp.S.One

    def _sympystr(self, printer: Printer) -> str:
        means = {c: sp.Symbol(f"E[{printer._print(_named(h))}]") for c, h in self.means}
        return str(printer._print(self.value.xreplace(means)))


def _named(e: sp.Expr) -> sp.Expr:
    return e.xreplace({Z[0]: sp.Symbol("z", real=True)})


class Common(Node):
    """⟨F⟩ over the part of z that a batch shares; build it with `common`. `evalf(n)`: digits by quadrature (mpmath)."""

    is_finite = True
    tex_letter = "B"
    instead = "an average over what a batch shares is known in floats only: ask phase, phase_diagram or propagate"

    def __new__(cls, body: Program, own: sp.Expr, shared: sp.Expr, params: sp.Tuple = _NONE) -> Self:
        numbers = {p: v for p, v in zip(P, params) if v.is_number}
        if numbers:
            kept = [i for i, v in enumerate(params) if not v.is_number]
            swap = numbers | {P[i]: P[k] for k, i in enumerate(kept)}
            body, params = body.map(lambda e: e.xreplace(swap)), sp.Tuple(*[params[i] for i in kept])
        made: Self = super().__new__(cls, body, sp.sympify(own), sp.sympify(shared), params)
        return made

    @property
    def body(self) -> Program:
        """The averages, with parameters put back."""
        swap = dict(zip(P, self.args[3]))
        body: Program = self.args[0]
        return body.map(lambda e: e.xreplace(swap)) if swap else body

    @property
    def own(self) -> sp.Expr:
        """V, the variance of each position by itself."""
        return self.args[1]

    @property
    def shared(self) -> sp.Expr:
        """M, the variance of what all positions share."""
        return self.args[2]

    @property
    def params(self) -> sp.Tuple:
        return self.args[3]

    def _eval_derivative(self, symbol: sp.Symbol) -> NoReturn:
        raise MeanFieldError(f"The derivative of {self} by {symbol} is not available: it is not derived.")

    def _eval_is_extended_positive_negative(self, positive: bool) -> None:
        return None  # not by digits: those are a quadrature within a quadrature

    def _eval_evalf(self, prec: int) -> sp.Float | None:
        if not self.is_number:
            return None
        own, shared = (sp.N(v, int(prec / 3.3219) + 15) for v in (self.own, self.shared))
        if own <= 0 or shared < 0:
            raise MeanFieldError(f"{self} needs V > 0 and M ≥ 0; a neuron is constant over the batch, or K_ab < 0.")
        return sp.Float(str(_digits(self.body, own, shared, int(prec / 3.3219) + 3)), precision=prec)

    def over_symbols(self) -> tuple[sp.Expr, tuple[sp.Expr, ...]]:
        return Common(self.args[0], K_aa, K_bb, self.params), (self.own, self.shared)

    def _sympystr(self, printer: Printer) -> str:
        return f"<{printer._print(self.body)}>_{{{printer._print(self.own)}; {printer._print(self.shared)}}}"

    def _latex(self, printer: Printer, exp: str | None = None) -> str:
        names: dict[sp.Symbol, sp.Symbol] = {}
        for c, h in self.body.means:
            inner = printer._print(_named(h.xreplace(names)))
            names[c] = sp.Symbol(rf"\left\langle {inner} \right\rangle_{{m}}")
        body = printer._print(self.body.value.xreplace(names))
        text = rf"\left\langle {body} \right\rangle_{{m \sim {printer._print(self.shared)}}}"
        return text if exp is None else rf"\left( {text} \right)^{{{exp}}}"


def common(value: sp.Expr, means: Means, own: sp.Expr, shared: sp.Expr) -> sp.Expr:
    """⟨value⟩ over the common part, of `means` that are used; a value without any is itself."""
    needed, kept = set(value.free_symbols), []
    for c, h in reversed(means):
        if c in needed:
            needed |= h.free_symbols
            kept.append((c, h))
    if not kept:
        return value
    # each mean under a name of its place, so that equal averages are equal
    swap: dict[sp.Symbol, sp.Symbol] = {}
    ordered: list[tuple[sp.Symbol, sp.Expr]] = []
    for c, h in reversed(kept):
        h = h.xreplace(swap)
        same = [name for name, other in ordered if other == h and bool(name.is_positive) == bool(c.is_positive)]
        if same:
            swap[c] = same[0]
            continue
        family = V_POSITIVE if c.is_positive else C
        swap[c] = family[len(ordered)]
        ordered.append((swap[c], h))
    value = value.xreplace(swap)
    free = sorted(Program(tuple(ordered), value).inside - set(swap.values()) - {Z[0]}, key=str)
    constant, value = value.as_independent(*swap.values(), as_Add=False)
    if constant.free_symbols & set(free):
        free = sorted(Program(tuple(ordered), value).inside - set(swap.values()) - {Z[0]}, key=str)
    if len(free) > len(P):
        raise MeanFieldError(f"An average over a batch has {len(free)} free parameters; at most {len(P)} are taken.")
    put = dict(zip(free, P))
    body = Program(tuple(ordered), value).map(lambda e: e.xreplace(put))
    return constant * Common(body, own, shared, sp.Tuple(*free))


@lru_cache(maxsize=64)
def _digits(body: Program, own: sp.Float, shared: sp.Float, digits: int) -> mp.mpf:
    """⟨F⟩ by quadrature within quadrature, inner panels ending at breaks, wherever they are at this m."""
    with decimals(digits + 8):
        V, M = mp.mpmathify(own), mp.mpmathify(shared)
        names, modules = [c for c, _ in body.means], [dict(mpmath_functions()), "mpmath"]
        read = [
            (
                [sp.lambdify([Z[0], *names[:k]], e, modules=modules) for e in pieces(h, Z[0]).exprs],
                [sp.lambdify(names[:k], b, modules=modules) for b in pieces(h, Z[0]).breaks],
            )
            for k, (_, h) in enumerate(body.means)
        ]
        value = sp.lambdify(names, body.value, modules=modules)
        reach = mp.sqrt(2 * (digits + 10) * mp.log(10))

        def at(m: mp.mpf) -> mp.mpf:
            known: list[mp.mpf] = []
            for functions, breaks in read:
                places = sorted((mp.re(b(*known)) - m) / mp.sqrt(V) for b in breaks)
                ends = [-reach, *[min(max(x, -reach), reach) for x in places], reach]
                total = mp.mpf(0)
                for f, a, b in zip(functions, ends, ends[1:]):
                    if b > a:
                        cuts = [a, *[c for c in (-3, 0, 3) if a < c < b], b]
                        total += mp.quad(
                            lambda x, f=f: f(m + mp.sqrt(V) * x, *known) * mp.exp(-x * x / 2), cuts
                        )
                known.append(total / mp.sqrt(2 * mp.pi))
            return value(*known)

        if M == 0:
            return at(mp.mpf(0))
        cuts = [-reach, -3, 0, 3, reach]
        return mp.quad(lambda x: at(mp.sqrt(M) * x) * mp.exp(-x * x / 2), cuts) / mp.sqrt(2 * mp.pi)
