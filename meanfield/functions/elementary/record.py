"""What the theory knows of a function h(u) of one real number: one frozen record, read by all machinery."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import sympy as sp
from flint import acb, arb_series

Formula = Callable[[Any], sp.Expr]

SHARE = sp.Dummy("s", positive=True)  #: some number in [0, 1], another one each time
LARGE_SHARE = sp.Dummy("S", positive=True)  #: in [1/3, 1]


class rest(sp.Function):
    """rest(name, side, u): h(u) - limit(u) of the function of that name at one end, where no other function is that."""

    nargs = 3
    is_real = True


@dataclass(frozen=True, eq=False)
class EndBehavior:
    """How h(u) dies away to `limit(u)`, a constant or u, as s·u → ∞, s = 1 at the right end and -1 at the left one.

    |h(u) - limit(u)| ≤ size e^{-rate s u} for *every* real u.

    enclosed: h(u) for s·u ≥ 0 by exponentials and the unknown numbers `SHARE` and `LARGE_SHARE`. rest: h(u) - limit(u)
    by a function that dies, without cancellation. series: (u, n, θ) → n terms of h(u) - limit(u) and the next one times
    an unknown θ in [0, 1], for s·u large. All three are for functions that are no rational function of e^u (those have
    `ElementaryFunction.exponential`). small: limit(u) - h(u) in a form that keeps its digits in floats.
    """

    limit: Formula
    size: sp.Rational
    rate: int = 1
    enclosed: Formula | None = None
    remainder: Formula | None = None
    series: Callable[[Any, int, sp.Expr], sp.Expr] | None = None
    small: Formula | None = None


@dataclass(frozen=True, eq=False)
class PowerEnd:
    """h(u) = Σ |u|^p (log|u|)^m A(1/u) far out, each A analytic at 0: `parts` are (p, m, A)."""

    parts: tuple[tuple[sp.Rational, int, Formula], ...]


@dataclass(frozen=True, eq=False)
class PowerGrowth:
    """|h(u)| ≤ constant + factor·|u|^power for every real u."""

    constant: float
    factor: float
    power: float = 1.0


@dataclass(frozen=True, eq=False)
class ExponentialGrowth:
    """|h(u)| ≤ Σ e^{s u} over `signs`."""

    signs: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class LogarithmicGrowth:
    """|h(u)| ≤ |log u|, on u > 0."""


@dataclass(frozen=True, eq=False)
class Joint:
    """Heads that are computed together, from one exponential: what `ball` and `series` return of (u, analytic, wanted)
    holds a function of u and of -u at the places `at` gives; the function `last` is computed only where it is
    wanted."""

    at: Mapping[type, tuple[int, int | None]]
    last: type
    ball: Callable[[acb, bool, bool], tuple[acb | None, ...]]
    series: Callable[[arb_series, bool, bool], tuple[arb_series | None, ...]]

    @property
    def size(self) -> int:
        return 1 + max(k for places in self.at.values() for k in places if k is not None)


@dataclass(frozen=True, eq=False)
class ElementaryFunction:
    """A function h of one real number u.

    What it is: function: its SymPy class, which knows h′: a subclass of `symbols.HeadFunction` where SymPy has none.
    mpmath: h at mpmath numbers, any precision: what everything else is checked against. names: how formulas call it;
    none for a function that only closed forms hold. domain: where it is real and smooth (an open interval). slope: h′
    as a function of u, in which h(u) itself and other functions of u may stand. Exact Taylor series follow. plain: h by
    another function, of which it is a linear function (erfc = 1 - erf).

    Its shape, which decides zeros, signs and ranges: values: infimum and supremum. shape: "rising", "falling", "valley"
    (falls to u = 0, then rises), "hill", or "". number: h at doubles, ±∞ included, without overflow; for functions with
    a shape. parity: 1, -1 or None. reflection: (h(u), u) → h(-u) for functions without parity. inverse: w → the u with
    h(u) = w (u ≥ 0 of a valley or a hill), or (g, v): the u with g(u) = v for another function g. None: zeros are
    isolated in balls, which is better where SymPy does not prove that h(inverse(w)) = w. square: the function g with 1
    - h² = g².

    Its size and its ends:
        growth: what bounds |h|; None where `certified_values` does.
        steepest: a bound of |h′| on the real line, None where there is none.
        right, left: how it behaves at ±∞ (`EndBehavior`, `PowerEnd`; None: it grows exponentially or oscillates). With
        a parity the left end follows from the right one.
        exponential: h as a function of y = e^u: rational in y, or with a logarithm or an arctangent.
        exponentiated: e^{h(u)} as a function of u, where that is simpler than h. branch: (s, r) → h(u) for u near
        s = ±1, where h has a square root of r² = (1 - s u)/2.

    Numbers: ball: h of (acb, analytic), or the name of a method of `acb` without branch cut: certified evaluation.
    Where h is not analytic on the whole ball and analytic is True, the answer must not be finite. series: the same on
    power series of balls (of (arb_series, analytic)). None: from `ball` and `slope`. numpy: text of h at an array x,
    over `np` and SciPy's `special()`; "" where NumPy has h under the name SymPy prints. code: body of a function of x
    that Numba compiles; "" where `math` has it. joint: functions that share one exponential with it.
    """

    function: type
    mpmath: Callable[[Any], Any]
    ball: str | Callable[[acb, bool], acb]
    slope: Formula | None = None
    names: tuple[str, ...] = ()
    domain: tuple[sp.Expr, sp.Expr] = (-sp.oo, sp.oo)
    plain: Formula | None = None

    values: tuple[sp.Expr, sp.Expr] = (-sp.oo, sp.oo)
    shape: str = ""
    number: Callable[[float], float] | None = None
    parity: int | None = None
    reflection: Callable[[sp.Expr, sp.Expr], sp.Expr] | None = None
    inverse: Callable[[sp.Expr], Any] | None = None
    square: type | None = None

    growth: PowerGrowth | ExponentialGrowth | LogarithmicGrowth | None = None
    steepest: float | None = None
    right: EndBehavior | PowerEnd | None = None
    left: EndBehavior | PowerEnd | None = None
    exponential: Formula | None = None
    exponentiated: Formula | None = None

    branch: Callable[[sp.Expr, sp.Expr], sp.Expr] | None = None
    series: str | Callable[[arb_series, bool], arb_series] | None = None
    numpy: str = ""
    code: str = ""
    joint: Joint | None = None

    @property
    def name(self) -> str:
        return self.function.__name__

    def __repr__(self) -> str:
        return f"ElementaryFunction({self.name})"

    # ---------------------------------------------------------------------------------------------- what follows

    @cached_property
    def ends(self) -> tuple[EndBehavior | PowerEnd | None, EndBehavior | PowerEnd | None]:
        """The (right, left) ends, the left one by parity where it is not given; each with its `remainder`."""
        left = self.left
        if left is None and self.right is not None and self.parity:
            left = _mirrored(self.right, self.parity)
        right, left = (self._with_rest(e, s) for e, s in ((self.right, 1), (left, -1)))
        if self.parity and isinstance(right, EndBehavior) and self.left is None and right.remainder is not None:
            left = _mirrored(right, self.parity)  # one name for what dies at both ends
        return right, left

    def _with_rest(self, end: EndBehavior | PowerEnd | None, side: int) -> EndBehavior | PowerEnd | None:
        if not isinstance(end, EndBehavior) or end.series is None or end.remainder is not None:
            return end
        own = end.limit(sp.Symbol("u")) == 0
        named = (lambda u: self.function(u)) if own else (lambda u: rest(sp.Symbol(self.name), sp.Integer(side), u))
        return EndBehavior(end.limit, end.size, end.rate, end.enclosed, named, end.series, end.small)

    @cached_property
    def zero_free(self) -> bool:
        """Whether h is known to have no zero in the complex plane: no factor but e^u can vanish, and that does not."""
        y = sp.Dummy("y", positive=True)
        if self.exponential is None or not self.exponential(y).is_rational_function(y):
            return False
        return len(sp.Poly(sp.numer(sp.together(self.exponential(y))), y).terms()) == 1

    def end(self, side: int) -> EndBehavior | PowerEnd | None:
        return self.ends[0 if side > 0 else 1]

    @cached_property
    def form(self) -> dict[int, Formula]:
        """{side: h(u) as a rational function of e^{-u} (side 1) or e^u (-1)}, where h is one."""
        y = sp.Dummy("y", positive=True)
        if self.exponential is None or not self.exponential(y).is_rational_function(y):
            return {}
        found: dict[int, Formula] = {}
        for side in (1, -1):
            e = sp.cancel(self.exponential(y ** (-side)))
            e = e if sp.denom(e).is_Add else sp.expand(e)
            found[side] = partial(_put, e, y, -side)
        return found

    @cached_property
    def positive(self) -> bool:
        """Whether h(u) > 0 for every u."""
        least = self.values[0]
        return bool(least > 0 or (least == 0 and self.shape in ("rising", "falling", "hill")))

    @property
    def whole(self) -> bool:
        """Whether it is defined on the whole line."""
        return self.domain == (-sp.oo, sp.oo)

    @property
    def injective(self) -> bool:
        return self.whole and self.shape in ("rising", "falling")

    @property
    def odd_rising(self) -> bool:
        """Whether it has the sign of its argument."""
        return self.parity == -1 and self.shape == "rising"

    @property
    def odd(self) -> bool:
        return self.parity == -1

    @property
    def even(self) -> bool:
        return self.parity == 1

    @cached_property
    def exponential_like(self) -> bool:
        """Whether powers and logarithms of u do not describe it far out: exponentials do, or it oscillates."""
        return bool(self.names) and not isinstance(self.right, PowerEnd)

    @property
    def power_like(self) -> bool:
        return isinstance(self.right, PowerEnd)

    @cached_property
    def algebraic_slope(self) -> bool:
        """Whether h′ is a rational function or a root."""
        u = sp.Symbol("u", real=True)
        return self.slope is not None and not self.slope(u).has(sp.Function, sp.exp)

    @property
    def arc(self) -> bool:
        """An inverse function of a circular or hyperbolic one."""
        return self.algebraic_slope and self.domain[0] != 0

    @property
    def bends(self) -> bool:
        """Whether it changes from one end's behaviour to the other's around u = 0, over a width of about 1."""
        return bool(self.names) and self.whole and any(e is not None for e in self.ends)

    @property
    def levels(self) -> bool:
        """`bends`, and does not grow exponentially."""
        return self.bends and not isinstance(self.growth, ExponentialGrowth)

    @property
    def grows_exponentially(self) -> bool:
        return isinstance(self.growth, ExponentialGrowth)

    @cached_property
    def rational_in_exponentials(self) -> bool:
        return bool(self.form)

    @property
    def by_exponentials(self) -> bool:
        return self.exponential is not None and self.function is not sp.exp

    @property
    def reduces_square(self) -> bool:
        return self.square is not None


def _put(e: sp.Expr, y: sp.Symbol, side: int, u: sp.Expr) -> sp.Expr:
    return e.subs(y, sp.exp(side * u))


def _mirrored(end: EndBehavior | PowerEnd, parity: int) -> EndBehavior | PowerEnd:
    """The left end of a function whose right one is known: h(u) = ± h(-u)."""

    def reflected(f: Callable[..., sp.Expr]) -> Callable[..., sp.Expr]:
        return lambda u, *more: parity * f(-u, *more)

    if isinstance(end, PowerEnd):
        return PowerEnd(tuple((p, m, reflected(A)) for p, m, A in end.parts))
    return EndBehavior(
        reflected(end.limit),
        end.size,
        end.rate,
        end.enclosed and reflected(end.enclosed),
        end.remainder and reflected(end.remainder),
        end.series and reflected(end.series),
        end.small and reflected(end.small),
    )
