r"""Order–chaos line of networks with attention: where tokens that are nearly alike neither come together nor go apart.

1 - c of two such tokens is distance/(2K), and both are multiplied by functions of K alone: distance by χ(K), K by
K'/K. The line is χ K = K', at the K where tokens end: at K* where K settles, as K → ∞ where it grows. Source: derived
here; [2403.02579] has such a line for a model of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.latex import aligned
from meanfield.base.answers.named import values_by_name
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Solution, Status, one_line
from meanfield.base.symbols import J, K
from meanfield.functions import balls
from meanfield.functions.signs import segments
from meanfield.symbolic.asymptotics.depth import grows_always
from meanfield.symbolic.averages.base import Node, nodes_in
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.criticality.critical_lines import DIGITS, cleared, flagged
from meanfield.symbolic.fixed_points.certified_roots import RootInterval, from_ball
from meanfield.symbolic.fixed_points.half_line import zeros
from meanfield.symbolic.fixed_points.variance_map import integrand
from meanfield.symbolic.recursion import Recursion


@dataclass(frozen=True)
class OrderChaosLine(Result):
    """Deviations at which tokens that are nearly alike neither come together nor go apart, to first order.

    condition: an expression in the deviations that is 0 on the line, < 0 where tokens come together (ordered) and > 0
    where they do not (chaotic); it knows nothing of queries, keys and the number of tokens. K: where it was taken, K*
    or ∞. kind: "line", "none" where one sign holds everywhere, "everywhere" where the condition is 0.

    >>> line = derive("tanh", architecture="gpt", heads=8, causal=False).critical_line()
    >>> print(line.condition)
    sigma_1**2*sigma_2**2*<sech(z)**4>_{sigma_1**2} - sigma_2**2*<tanh(z)**2>_{sigma_1**2} - sigma_o**2*sigma_v**2
    >>> print(f"{line.at(sigma_1=2, sigma_v=1, sigma_o=1)[0]:.9f}")  # sigma_2
    1.604286138
    """

    kind: str
    condition: sp.Expr
    K: sp.Expr
    message: str = ""

    columns = ("kind", "condition", "message")
    has_points = False  # it is a condition on all deviations

    def data(self) -> dict[str, Any]:
        """Its kind, condition and K as plain values."""
        return {n: plain(getattr(self, n)) for n in ("kind", "condition", "K", "message")}

    def at(self, **values: object) -> tuple[Solution, ...]:
        """The values > 0 on the line of the one deviation that is left out, by size, certified; all others are given.

        Where it is not proved that there are no more, their messages report it.
        """
        if self.kind != "line":
            raise MeanFieldError(f"There is no line to look for: {self.message}.")
        there = self.condition.subs(values_by_name((self.condition,), values))
        open_ = sorted(there.free_symbols, key=str)
        if len(open_) != 1:
            known = ", ".join(sorted(s.name for s in self.condition.free_symbols))
            raise MeanFieldError(
                f"The line is looked for along one deviation, but {len(open_)} of {known} were left open; give all but "
                "one of them a number."
            )
        gap = cleared(sp.expand(there.xreplace({open_[0]: sp.sqrt(K)})))  # by its square, which zeros are found of
        if gap.free_symbols - {K}:
            raise MeanFieldError(f"The line is not solved for {open_[0]}; give it a number, and leave out another.")
        search = zeros(gap, integrand(gap), digits=DIGITS)
        if not search.complete and not search.roots:
            raise MeanFieldError(f"Whether the line is met along {open_[0]} is not decided: {search.reason}.")
        with balls.precision(160):
            return tuple(flagged(_root_of(root), search) for root in search.roots)

    def __repr__(self) -> str:
        return one_line("OrderChaosLine", self.kind)

    def latex(self) -> str:
        r"""The condition as LaTeX for math mode (amsmath)."""
        return aligned([("0", self.condition)] if self.kind == "line" else [], (self.message,) if self.message else ())

    def __str__(self) -> str:
        if self.kind != "line":
            return wrapped(f"order-chaos line: {self.message}")
        return wrapped(f"order-chaos line: 0 = {self.condition}\n  (ordered where it is < 0; {self.message})")


def order_chaos_line(apart: Recursion) -> OrderChaosLine:
    """The line of a recursion of (K, J) in which J stands for the distance of tokens that are nearly alike.

    Raises: MeanFieldError where K does not settle for symbols, or where the distance is not multiplied by a number.
    """
    step, growth = (apart.flat()[n] for n in ("K", "J"))
    if growth in (0, sp.oo):
        raise MeanFieldError(
            "There is no order-chaos line: without a skip 1 - c is cubed in a layer, and tokens come together for all "
            "deviations." if growth == 0 else
            "There is no order-chaos line: φ jumps and makes of a small difference one of the size of its root, so "
            "that tokens never come together."
        )  # fmt: skip
    names = {n: _named(n) for n in sorted(nodes_in(step) | nodes_in(growth), key=str)}
    back = {s: n for n, s in names.items()}
    unsettled = _unsettled(step)
    if any(n.has(K) for n in names):
        raise unsettled
    step, chi = (sp.together(e.xreplace(names)) for e in (step, sp.diff(growth, J)))
    gain = sp.expand(step - K)
    geometric = gain.has(K) and grows_always(gain)
    if not step.has(K):
        place = step
    elif not gain.has(K) or geometric:
        place = sp.oo
    else:
        rest = sp.solve(sp.numer(sp.together(gain)), K)
        if len(rest) != 1:
            raise unsettled
        place = rest[0]
    found = sp.together(K * chi - step)
    if place == sp.oo:
        per = sp.limit(found / K, K, sp.oo)
        found = sp.limit(found, K, sp.oo) if per == 0 and not geometric else per
    else:
        found = found.subs(K, place)
    bottom = _positive(sp.denom(sp.together(found)))
    below = {bottom.is_positive: 1, bottom.is_negative: -1}.get(True)
    if below is None:  # which side is ordered is not known
        raise unsettled
    condition = _shown(below * sp.numer(sp.together(found)), back).primitive()[1]
    one_sign = _positive(condition)
    sign = {one_sign.is_negative: "ordered", one_sign.is_positive: "chaotic"}.get(True)
    where = "as K grows without bound" if place == sp.oo else "at the K where tokens end"
    if condition == 0:
        return OrderChaosLine("everywhere", condition, place, f"1 - c stays as it is to first order {where}")
    if sign:
        return OrderChaosLine("none", condition, place, f"{sign} for all deviations > 0, {where}")
    return OrderChaosLine("line", condition, place, where)


def _positive(e: sp.Expr) -> sp.Expr:
    """The same with symbols that are > 0, so that SymPy may see its sign."""
    own = {s for s in e.free_symbols if not isinstance(s, sp.Dummy)}
    return sp.factor_terms(sp.expand(e.xreplace({s: sp.Dummy(s.name, positive=True) for s in own})))


def _named(node: Node) -> sp.Dummy:
    """A symbol for an average, > 0 where its integrand is seen to be nowhere below 0."""
    signs = segments(node.integrand) if isinstance(node, Average) and node.dimension == 1 else None
    return sp.Dummy(**({"positive": True} if signs and all(s >= 0 for s, *_ in signs) else {"real": True}))


def _root_of(square: RootInterval) -> Solution:
    if square.exact is not None:
        return Solution(sp.sqrt(square.exact), Status.EXACT)
    return from_ball(square.ball().sqrt())


def _shown(e: sp.Expr, back: Mapping[sp.Symbol, Node]) -> sp.Expr:
    """With averages again, in their closed forms where these are plain numbers times powers."""
    closed = {s: n.doit() for s, n in back.items()}
    short = {s: c if not nodes_in(c) and c.count_ops() < 12 else back[s] for s, c in closed.items()}
    return sp.expand(e.xreplace(short))


def _unsettled(step: sp.Expr) -> MeanFieldError:
    return MeanFieldError(
        f"The order-chaos line is not known: where K' = {step} settles is not solved for symbols; ask phase at a place."
    )
