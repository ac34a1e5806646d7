"""Names of the oracle's activations as the engine spells them, and the assertions the theory tests share."""

from __future__ import annotations

import sympy as sp

from meanfield.base.answers.results import Equality
from meanfield.base.symbols import K
from meanfield.functions import balls
from meanfield.functions.activations import Activation, activation
from meanfield.symbolic.recursion import equal
from meanfield.symbolic.recursions.block_recursions import one_input_averages

SPELLING = {
    "scale_invariant": "scale_invariant(1.5, -0.25)",
    "swish": "swish(1.5)",
    "cubic": "polynomial",
    "monomial3": "monomial(3)",
    "z_erf": "z*erf(z)",
    "tanh_mix": "tanh(z) - tanh(2*z)/8",
}


def record(name: str) -> Activation:
    """The engine's record of an activation the oracle knows."""
    return activation(SPELLING.get(name, name))


def quantities(phi: Activation) -> dict[str, sp.Expr]:
    """The five one-input quantities of the accuracy requirement, as expressions in K (∞ where they are infinite)."""
    a = one_input_averages(phi)
    slope = a["phi'^2"]
    return {
        "phi": a["phi"],
        "phi2": a["phi^2"],
        "dphi2": slope,
        "dK_phi2": sp.diff(a["phi^2"], K),
        "dK_dphi2": sp.oo if slope == sp.oo else sp.diff(slope, K),
    }


def assert_proved_equal(ours: sp.Expr, theirs: sp.Expr) -> None:
    """Two expressions are the same function, and the engine can prove it."""
    verdict = equal(sp.sympify(ours), sp.sympify(theirs))
    assert verdict is Equality.PROVED, f"{ours} and {theirs}: {verdict.value}"


def assert_different(ours: sp.Expr, theirs: sp.Expr) -> None:
    """Two expressions are not the same function."""
    assert equal(sp.sympify(ours), sp.sympify(theirs)) is Equality.DIFFERENT, (
        f"{ours} should differ from {theirs}"
    )


def assert_law_matches(expr: sp.Expr, law, at: sp.Rational, order_gap: float) -> None:
    """An expansion agrees with the certified value at K = `at` within the size of the first left-out term."""
    truth = balls.certified(expr.subs(K, at), 30)
    series = balls.certified(law.expr.subs(K, at), 30)
    miss, size = abs(float(truth - series)), abs(float(truth.mid()))
    assert miss <= order_gap * size, (
        f"{expr} at K = {at}: expansion misses by {miss / size:.2e}, allowed {order_gap:.0e}"
    )
