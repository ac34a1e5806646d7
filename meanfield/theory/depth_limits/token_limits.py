"""What happens to the tokens of a network with attention at large depth: whether they come together, and how fast.

At rank collapse, where every two tokens are alike, K, J and what is left of their differences obey maps of K alone
`symbolic/recursions/tokens/collapse`). Tokens come together where distance/K falls to 0, since an Attention takes of a
small difference its third power; J follows where scores fade, too. Elsewhere they end at a correlation c* < 1, a zero
of the map of c, which is searched for. That tokens which start far apart come together is not proved by maps at c = 1,
so what is said of where tokens end is never CERTIFIED or EXACT.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, Solution, Status, Term
from meanfield.base.arguments import choice
from meanfield.base.symbols import K, l, parameter
from meanfield.numeric.phases.maps.scalar_map import known_to
from meanfield.symbolic.asymptotics import depth as _depth
from meanfield.symbolic.asymptotics.comparing import direction
from meanfield.symbolic.asymptotics.exponent_cells import At
from meanfield.symbolic.asymptotics.log_growth import Growth, grown
from meanfield.symbolic.averages.base import nodes_in
from meanfield.symbolic.averages.expansions.expansion import at_infinity
from meanfield.symbolic.criticality.critical_points import CriticalPoints
from meanfield.symbolic.criticality.order_chaos import OrderChaosLine, order_chaos_line
from meanfield.symbolic.criticality.phases import Phase, phase_at
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.attention_rule import DIFFERENCE
from meanfield.symbolic.recursions.first import begun
from meanfield.symbolic.recursions.tokens.collapse import collapsed, score_variances
from meanfield.theory.depth_limits.depth_limit import DepthLimit, Values
from meanfield.theory.queries.architecture_maps import Maps

if TYPE_CHECKING:
    from meanfield.numeric.phases.correlations import Correlations

QUANTITIES = ("K", "J", "distance", "c")
NAMES = {-1: "ordered", 0: "critical", 1: "chaotic"}
NEAR = "derived of tokens that start nearly alike; correlations says where others end"
SHOWN = 8  # digits of an exponent that takes more operations than that to write
_JUMPS = "φ jumps and makes of a small difference one of the size of its root"
_CUBED = (
    "without a skip an Attention takes 1 - c to a multiple of its third power, so that its logarithm grows as 3^l, "
    "which is no term of a law; follow the distance with propagate"
)


@dataclass(frozen=True)
class TokensAlike(DepthLimit):
    """K of tokens that are nearly alike, with the growth of their distance in the place of J."""

    answers_alone = True

    def require_bias(self) -> None:
        raise MeanFieldError(
            "The guessing bias is one of inputs that are apart, and an Attention mixes the tokens of each; follow two "
            "inputs with propagate(quantities=('K_same', 'K_other'))."
        )

    def phase(self, values: Values, norm: sp.Expr, units: Mapping[str, Any]) -> Phase:
        return _phase(self.theory, values, norm)

    def correlations(self, values: Values, norm: sp.Expr, phase: Phase) -> Correlations:
        from meanfield.theory.depth_limits.token_correlations import token_correlations

        return token_correlations(self.theory, values, phase)

    def law(self, quantity: str, values: Values) -> _depth.DepthLaw:
        return law(self.theory, quantity, values)

    def line(self, of: str) -> OrderChaosLine:
        """Where tokens that are nearly alike neither come together nor go apart."""
        if of == "K":
            raise MeanFieldError(
                "The line chi_K = 1 is not derived where an Attention mixes tokens; leave quantity out for the line "
                "between order and chaos."
            )
        return order_chaos_line(alike(self.theory)[1])

    def critical_points(self) -> CriticalPoints:
        raise MeanFieldError(
            "Critical points are those of a line in (sigma_w, sigma_b), and tokens have a condition on all deviations; "
            "critical_line() is the line between order and chaos, and phase says what a place is."
        )


def alike(theory: Maps) -> tuple[Recursion, Recursion]:
    """The recursions of (K, J) and of (K, growth of the distance) of tokens that are alike."""
    found = begun(collapsed(theory.block), theory.first), begun(collapsed(theory.block, DIFFERENCE), theory.first)
    if any(one.knows_depth or one.knows_layer for one in found):
        raise MeanFieldError(
            "Where tokens end at large depth is derived for blocks that are all alike, but here deviations follow a "
            "Schedule; follow it with propagate, or with flow where they fall as 1/sqrt(L)."
        )
    return found


def _growth(apart: Recursion, given: Mapping[str, sp.Expr]) -> sp.Expr:
    """What multiplies a small distance in a layer, with numbers: 0 where the tokens' values are all that is left."""
    found = apart["J"]
    return found if found == sp.oo else found.subs({s: given[s.name] for s in found.free_symbols if s.name in given})


def _closeness(theory: Maps, values: Mapping[str, sp.Expr]) -> tuple[Growth, Growth, _depth.DepthLaw]:
    """The laws of the distance and of K as growths, and that of K."""
    _, apart = alike(theory)
    given = known_to(apart, values)
    if _growth(apart, given) == sp.oo:
        raise MeanFieldError(f"The law of c is not available: the tokens do not come together, as {_JUMPS}.")
    if _growth(apart, given) == 0:
        raise MeanFieldError(f"The law of c is not available: {_CUBED}.")
    of_K = _depth.depth_law(apart, "K", given)
    return grown(_depth.depth_law(apart, "J", given)), grown(of_K), of_K


def law(theory: Maps, quantity: str, values: Mapping[str, sp.Expr]) -> _depth.DepthLaw:
    """The law of K, J, the distance or c of tokens that come together.

    Raises: MeanFieldError where they do not.
    """
    choice(quantity, "quantity", QUANTITIES)
    if quantity in ("K", "J") and _growth(alike(theory)[1], values) == 0:
        return _of_alike(theory, quantity, values)
    apart, own, of_K = _closeness(theory, values)
    gap = apart / own
    if direction(gap, At({})) == 0:
        raise MeanFieldError(
            f"The law of {quantity} is not available: to first order 1 - c of two tokens stays as it is, and further "
            "orders are not derived; follow it with propagate."
        )
    if direction(gap, At({})) > 0:
        raise MeanFieldError(
            f"The law of {quantity} is not available: the tokens do not come together here (1 - c of two that nearly "
            f"have goes as {gap.of_unknown_size.text()}); ask correlations for where they end, or propagate."
        )
    if quantity in ("K", "J"):
        if quantity == "J":
            _require_soft(theory, values, apart, own)
        return _of_alike(theory, quantity, values)
    held = (apart if quantity == "distance" else gap).of_unknown_size.law.terms
    below = tuple(replace(t, coefficient=-t.coefficient) for t in held)
    terms = held if quantity == "distance" else (Term(sp.S.One), *below)
    regime = f"tokens that come together, as nearly alike ones do; {of_K.regime}"
    return _depth.DepthLaw(l, sp.oo, terms, "smaller", quantity=quantity, regime=regime, status=Status.MEASURED)


def _require_soft(theory: Maps, values: Mapping[str, sp.Expr], apart: Growth, own: Growth) -> None:
    """Refuse the law of J where scores grow although tokens come together: what queries and keys carry is then no
    small part of J."""
    given = {parameter(k): v for k, v in values.items()}
    for one in score_variances(theory.block):
        one = sp.sympify(one).subs(given).subs({s: values[s.name] for s in one.free_symbols if s.name in values})
        if one == 0:
            continue
        power = at_infinity(one, 1).leading.power if one.has(K) and _has_terms(own) else sp.S.Zero
        if direction(apart * own**power, At({})) >= 0:
            raise MeanFieldError(
                "The law of J is not available: K grows faster than tokens come together, so that scores grow, and "
                "what queries and keys carry does not fade; follow J with propagate."
            )


def _has_terms(own: Growth) -> bool:
    """Whether K moves at large depth."""
    return bool(own.terms or own.products)


def _of_alike(theory: Maps, quantity: str, values: Mapping[str, sp.Expr]) -> _depth.DepthLaw:
    """The leading behaviour of one token, which that of many has, too; the constant depends on how they came together.
    """
    one, _ = alike(theory)
    found = _depth.depth_law(one, quantity, known_to(one, values))
    regime = f"{found.regime}; of tokens that come together, as nearly alike ones do"
    if quantity == "J":
        kept = tuple(t for t in found.terms if t.coefficient.free_symbols.isdisjoint({_depth.CONSTANT}))
        grows = tuple(t for t in kept if t.power > 0 or (t.power == 0 and t.logs > 0))
        terms = (*grows, Term(_depth.CONSTANT))
    else:  # where every K is kept, the one that is left depends on how the tokens came together
        terms = (Term(_depth.CONSTANT),) if found.regime.startswith("scale-invariant") else found.terms[:1]
    return replace(found, terms=terms, remainder="smaller", exact=None, regime=regime, status=Status.MEASURED)


def _phase(theory: Maps, values: Mapping[str, sp.Expr], norm: sp.Expr) -> Phase:
    """Whether tokens come together ("ordered") or not ("chaotic"); chi_J is the growth of their distance at K*.

    K*, χ_J and the way of 1 - c are derived; that tokens of every start go that way is not, hence MEASURED.
    """
    _, apart = alike(theory)
    given = known_to(apart, values)
    found = phase_at(apart, given, norm)
    why = [found.message] if found.status is Status.MEASURED else []
    found = replace(found, status=Status.MEASURED, message="; ".join([*why, NEAR]))
    if _growth(apart, given) == 0:
        zero = Solution(sp.S.Zero, Status.EXACT)
        return replace(found, name="ordered", chi_J=zero, tokens="1 - c is cubed in a layer")
    if _growth(apart, given) == sp.oo:
        return replace(found, name="chaotic", tokens=f"1 - c of two tokens does not fall to 0, as {_JUMPS}")
    distance, own, _ = _closeness(theory, values)
    gap = distance / own
    try:
        name = NAMES[direction(gap, At({}))]
    except MeanFieldError:
        name = "undecided"
    if name == "critical":
        return replace(found, name=name, tokens="1 - c of two tokens stays as it is to first order; others decide")
    shown = gap.of_unknown_size.map(lambda e: sp.N(e, SHOWN) if not e.free_symbols and _is_long(e) else e)
    return replace(found, name=name, tokens=f"1 - c of two tokens ~ {shown.text()}")


def _is_long(e: sp.Expr) -> bool:
    return bool(nodes_in(e)) or e.has(sp.Float) or e.count_ops() > SHOWN
