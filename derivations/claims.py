"""Claims: published statements as data, and the engine's verdict on each.

A claim says where it is printed (R-number of the specification, equation number of the paper), for which networks, of
which quantity, and what is printed. Beside the print stands a contrast: a planted change where the print is right, the
right formula where the print is wrong (`misprint`). The engine derives the quantity from the architecture; nothing here
feeds it. A claim is `decided` when exactly one of print and contrast holds, the one that should.

In a printed formula the placeholders below stand for averages over the network's own φ, so one claim covers several φ.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from functools import lru_cache
from typing import Any

import sympy as sp

import meanfield as mf
from derivations.quantities import derived
from meanfield.symbols import K, parameter, sigma_b, sigma_w, z

mu = parameter("mu")
s = sigma_w**2 + sigma_b**2  # K with LayerNorm on activations, from layer 2 on

mean, square, slope = sp.symbols("<phi> <phi^2> <phi'^2>", real=True)  # over N(0, K)
A, B = sp.symbols("A B", positive=True)  # ⟨φ′²⟩ and ⟨φ²⟩ at K = 1
mean_s, square_s, slope_s = sp.symbols("<phi>_s <phi^2>_s <phi'^2>_s", real=True)  # at K = s
square_K, slope_K, slope_1 = sp.symbols("d<phi^2>/dK d<phi'^2>/dK d<phi'^2>/dK_1", real=True)
stein, delta = sp.symbols("<phi'^2+phi*phi''> <phi''^2+phi'''*phi'>", real=True)  # for smooth φ


class Verdict(Enum):
    """What the engine says of a statement. PROVED is symbolic; CERTIFIED compares enclosures of numbers."""

    PROVED = "proved"
    CERTIFIED = "certified"
    DIGITS = "equal to 30 digits"
    REFUTED = "refuted"

    def __bool__(self) -> bool:
        return self is not Verdict.REFUTED


@dataclass(frozen=True)
class Network:
    """An activation and the keywords of `meanfield.derive`."""

    activation: str
    keywords: tuple[tuple[str, Any], ...] = ()

    @property
    def theory(self) -> mf.Theory:
        return mf.derive(self.activation, **dict(self.keywords))

    def __str__(self) -> str:
        short = {"a_plus": "a±", "a_minus": ""}
        parts = [short.get(k, f"{v}" if k == "norm" else f"{k} = {v}") for k, v in self.keywords]
        return ", ".join([self.activation, *[p for p in parts if p]])


def network(activation: str, **keywords: Any) -> Network:
    return Network(activation, tuple(keywords.items()))


def each(names: str, **keywords: Any) -> tuple[Network, ...]:
    """The same architecture with several activations."""
    return tuple(network(n, **keywords) for n in names.split())


@dataclass(frozen=True)
class Claim:
    """One published statement about `quantity` of `networks`; the kinds below say what `printed` means."""

    source: str
    networks: Network | tuple[Network, ...]
    quantity: str
    printed: Any
    contrast: Any
    misprint: bool = False

    @property
    def cases(self) -> tuple[Network, ...]:
        return self.networks if isinstance(self.networks, tuple) else (self.networks,)

    def verdict(self) -> Verdict:
        """Whether the print holds on every network of the claim."""
        return self._over_networks(self.printed)

    def contrast_verdict(self) -> Verdict:
        """The same question for the contrast."""
        return self._over_networks(self.contrast)

    @property
    def decided(self) -> bool:
        """The print holds and the planted change does not, or the other way round where the print is wrong."""
        return bool(self.verdict()) != self.misprint and bool(self.contrast_verdict()) == self.misprint

    def _over_networks(self, statement: Any) -> Verdict:
        order = list(Verdict)
        return max((self._judge(n, statement) for n in self.cases), key=order.index)

    def _judge(self, case: Network, statement: Any) -> Verdict:
        raise NotImplementedError


@dataclass(frozen=True)
class Equation(Claim):
    """The quantity is the printed expression, for all values of its symbols."""

    def _judge(self, case: Network, statement: sp.Expr) -> Verdict:
        ours, theirs = derived(case.theory, self.quantity), filled(sp.sympify(statement), case)
        if sp.oo in (ours, theirs):
            return Verdict.PROVED if ours == theirs else Verdict.REFUTED
        match mf.equal(sp.sympify(ours), theirs):
            case mf.Equality.PROVED:
                return Verdict.PROVED
            case mf.Equality.TO_30_DIGITS:
                return Verdict.DIGITS
        return Verdict.REFUTED


@dataclass(frozen=True)
class Rounds(Claim):
    """The quantity, a number, rounds to the printed decimal: it lies within half a unit of the last digit.

    at: the values of the symbols left in the quantity.
    """

    at: tuple[tuple[sp.Symbol, Any], ...] = ()

    def _judge(self, case: Network, statement: str) -> Verdict:
        value = ball(filled(sp.sympify(derived(case.theory, self.quantity)), case).subs(dict(self.at)))
        number = Decimal(statement)
        half = Decimal(5).scaleb(int(number.as_tuple().exponent) - 1)
        low, high = (mf.certified(sp.Rational(str(number + d)), 30) for d in (-half, half))
        return Verdict.CERTIFIED if low <= value and value <= high else Verdict.REFUTED


@dataclass(frozen=True)
class Is(Claim):
    """The quantity is the printed word, truth value or whole number (the kind of a line, the number of points)."""

    def _judge(self, case: Network, statement: Any) -> Verdict:
        return Verdict.PROVED if derived(case.theory, self.quantity) == statement else Verdict.REFUTED


@dataclass(frozen=True)
class Among:
    """|x| ≤ the largest of |bounds| at each of the `places`: (values of sigma_w, sigma_b, mu)."""

    bounds: tuple[sp.Expr, ...]
    places: tuple[dict[sp.Symbol, sp.Expr], ...]


@dataclass(frozen=True)
class AtMost(Claim):
    """|quantity| is at most the largest of the printed numbers, at each of the printed places. One place refutes."""

    def _judge(self, case: Network, statement: Among) -> Verdict:
        ours = filled(sp.sympify(derived(case.theory, self.quantity)), case)
        for place in statement.places:
            left = abs(ball(ours.subs(place)))
            bounds = [filled(b, case).subs(place) for b in statement.bounds]
            rights = [abs(ball(b)) for b in bounds if b.is_finite is not False]  # log 0 bounds nothing
            if len(rights) == len(bounds) and not any(left <= r or left.overlaps(r) for r in rights):
                return Verdict.REFUTED
        return Verdict.CERTIFIED


def ball(e: sp.Expr):
    """The enclosure of a number, 30 digits."""
    return mf.certified(mf.closed(sp.sympify(e)), 30)


def filled(e: sp.Expr, case: Network) -> sp.Expr:
    """The printed expression with the averages of this network's φ in place of the placeholders."""
    wanted = e.free_symbols & set(_PLACES)
    return e.xreplace({p: _average(case.theory.activations[0], p) for p in wanted})


_PLACES = {mean, square, slope, A, B, mean_s, square_s, slope_s, square_K, slope_K, slope_1, stein, delta}


@lru_cache(maxsize=512)
def _average(phi: mf.Activation, placeholder: sp.Symbol) -> sp.Expr:
    f = phi.expression
    if placeholder in (stein, delta):  # derivatives taken here, not by the engine
        first, second, third = (f.diff(z, k) for k in (1, 2, 3))
        return mf.average(first**2 + f * second if placeholder == stein else second**2 + third * first, K)
    nodes = mf.derive(phi).averages()
    node = nodes[
        "phi"
        if placeholder in (mean, mean_s)
        else "phi^2"
        if placeholder in (square, square_s, B, square_K)
        else "phi'^2"
    ]
    if placeholder in (square_K, slope_K, slope_1):
        node = sp.diff(node, K)
    if placeholder in (A, B, slope_1):
        return node.subs(K, 1)
    return node.subs(K, s) if placeholder in (mean_s, square_s, slope_s) else node
