"""A row of a table up to constant factors, made by hand: its text and LaTeX, and where it is one law of several."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy as sp

from meanfield import MeanFieldError
from meanfield.presentation.phase_orders import OrderRow, order
from meanfield.symbolic.asymptotics.exponent_cells import Cell
from meanfield.symbolic.asymptotics.log_growth import Growth
from meanfield.symbolic.asymptotics.tables.phase_tree import Laws

a, b = (sp.Symbol(f"beta_{name}", positive=True) for name in "ab")
WHOLE = Cell((a, b))
ABOVE, BELOW = WHOLE.parts(a - 1)[0][1], WHOLE.parts(a - 1)[2][1]
RISE = Growth((((sp.S.One, sp.S.Zero, sp.S.Zero), sp.S.One),), leading=True)  # log X = Θ(l)
DECAY = Growth((((sp.S.One, sp.S.Zero, sp.S.Zero), -sp.S.One),), leading=True)
POWER = Growth((((sp.S.Zero, sp.S.One, sp.S.Zero), sp.Rational(3, 2)),))  # X ~ l^{3/2}
LARGE, SMALL = (Laws((("K", POWER),), "a regime", f"{which} starts") for which in ("large", "small"))
OPEN = Laws((), "nothing is derived here", "open")


def test_regions_of_a_row():
    """The first region stands alone, each further one behind "or"; a region without conditions is everywhere."""
    assert str(OrderRow((WHOLE,), (LARGE,))) == "everywhere\n  K = Θ(l**(3/2))"
    assert str(OrderRow((ABOVE, BELOW), (LARGE,))).splitlines()[:2] == ["beta_a > 1", "   or beta_a < 1"]
    assert str(OrderRow((ABOVE, WHOLE), (LARGE,))).splitlines()[:2] == ["beta_a > 1", "   or everywhere"]
    assert OrderRow((ABOVE, WHOLE), ()).conditions() == [["beta_a > 1"], []]
    assert r"\beta_{a} > 1 \\ \text{or}\; \text{everywhere} \\" in OrderRow((ABOVE, WHOLE), (LARGE,)).latex()


def test_starts_that_decide():
    """One law is not named by its starts, two are, and none says why in the place of laws."""
    one, both, none = OrderRow((WHOLE,), (LARGE,)), OrderRow((WHOLE,), (LARGE, SMALL)), OrderRow((WHOLE,), (OPEN,))
    assert "starts" not in str(one) and "starts" not in one.latex() and one["K"] is POWER
    law = "  K = Θ(l**(3/2))"
    assert str(both).splitlines() == ["everywhere", "  large starts:", law, "  small starts:", law]
    assert r"\text{large starts}" in both.latex() and r"\text{small starts}" in both.latex()
    assert str(none) == "everywhere\n  nothing is derived here" and r"\text{nothing is derived here}" in none.latex()
    with pytest.raises(MeanFieldError, match="The start decides between 2 laws of K here"):
        both["K"]


def test_quantities_without_a_law():
    """What was asked for beside a law and has none is said; where there is no law at all, the reason stands alone."""
    row = OrderRow((WHOLE,), (LARGE,), ("K", "J"))
    assert str(row).splitlines()[1:] == ["  K = Θ(l**(3/2))", "  J: not derived here"]
    assert "not derived here" not in str(OrderRow((WHOLE,), (OPEN,), ("K", "J")))


def test_only_the_leading_term_of_a_logarithm():
    """log X = Θ(l) or -Θ(l): its order with its sign; no factor 1 is printed."""
    assert (order("J", RISE), order("J", DECAY)) == ("log J = Θ(l)", "log J = -Θ(l)")
    unknown = replace(POWER, constant=None)  # a constant that depends on the start
    assert order("K", POWER) == order("K", unknown) == "K = Θ(l**(3/2))"
    found = [OrderRow((WHOLE,), (Laws((("J", g),), "", ""),)).latex() for g in (RISE, DECAY, POWER)]
    assert r"\log J = \Theta{\left(\ell \right)}" in found[0] and r"\log J = - \Theta{\left(\ell" in found[1]
    assert r"J = \Theta{\left(\ell^{\frac{3}{2}} \right)}" in found[2] and r"\log" not in found[2]
