"""⟨f⟩_K as K → ∞: the tails of f, each by its continued half moment, and finite parts of its moments (`mellin`)."""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import MeanFieldError, NoClosedForm
from meanfield.base.symbols import K, Z, recognise
from meanfield.functions.piecewise import pieces
from meanfield.functions.series.infinity import FormAtInfinity, Terms, normal_form
from meanfield.symbolic.averages.expansions.mellin import moment_term, tails_sum
from meanfield.symbolic.averages.expansions.moments import Moment, moment
from meanfield.symbolic.averages.expansions.powerlog import Key, Sums, expands
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.series.truncated import Truncated

_T = sp.Symbol("|z|", positive=True)  # messages show it


@expands("K -> oo")
def _node_at_infinity(node: Average, order: int, sums: Sums) -> Truncated:
    """Every term down to K^{1/2-order}; fewer, and an earlier remainder, where a moment is neither exact nor
    certified."""
    f = recognise(node.integrand) if node.integrand.has(sp.exp) else node.integrand  # 1/(1 + e^{-z}) saturates
    p = pieces(f, Z[0])
    try:
        sides = [normal_form(p.exprs[i].subs(Z[0], side * _T), _T) for i, side in ((0, -1), (-1, 1))]
    except MeanFieldError as error:
        return _from_closed_form(node, order, sums) or _oscillating(node, str(error), sums)
    total = tails_sum(_tails(sides, -sp.Integer(2 * order + 1)))
    if all(s.is_finite_sum for s in sides) and set(p.breaks) <= {sp.S.Zero}:
        return sums.of(total)
    for j in range(order):
        try:
            value = moment(f, 2 * j)
        except MeanFieldError:
            value = None
        if value is None or value.has(Moment):
            closed = _from_closed_form(node, order, sums)
            if closed is not None:
                return closed
        if value is None:
            return sums.of(total, (-sp.S.Half - j, 0))
        key, c = moment_term(value, j)
        total[key] = total.get(key, sp.S.Zero) + c
    return sums.of(total, (-sp.S.Half - order, 0))


def _tails(sides: list[FormAtInfinity], floor: sp.Expr) -> Terms:
    total: Terms = {}
    for form in sides:
        for key, c in form.terms(floor).items():
            total[key] = total.get(key, sp.S.Zero) + c
    return total


def _from_closed_form(node: Average, order: int, sums: Sums) -> Truncated | None:
    """The same expansion read off the closed form as a function of t = √K; None where there is no closed form or no
    series."""
    try:
        form = normal_form(sp.powsimp(node.closed_form().subs(K, _T**2)), _T)
        terms = form.terms(-sp.Integer(2 * order))
    except (NoClosedForm, MeanFieldError):
        return None
    found: dict[Key, sp.Expr] = {}
    for (s, m), c in terms.items():  # log t = ½ log K
        found[s / 2, m] = found.get((s / 2, m), sp.S.Zero) + c / sp.Integer(2) ** m
    if form.is_finite_sum or (form.dropped and all(p.factor.is_polynomial(Z[0]) for p in form.parts)):
        return sums.of(found, None, form.dropped)
    return sums.of(found, (-sp.S.Half - order, 0))


def _oscillating(node: Average, reason: str, sums: Sums) -> Truncated:
    """No approach to powers (sin): the closed form without what is exponentially small."""
    try:
        form = node.closed_form()
    except NoClosedForm:
        raise MeanFieldError(
            f"{node.integrand} has no power-law limit at infinity ({reason}) and no closed average; its expansion at "
            "K → ∞ is not known."
        ) from None
    limit = form.replace(
        lambda e: isinstance(e, sp.exp) and sp.limit(e.args[0], K, sp.oo) == -sp.oo, lambda e: sp.S.Zero
    )
    if limit.has(sp.exp, sp.erfc, K):
        raise MeanFieldError(f"The expansion of {node} at K → ∞ is not known.")
    return sums.of({(sp.S.Zero, 0): limit}, None, limit != form)
