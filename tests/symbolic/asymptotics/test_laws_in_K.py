"""Laws of J where K falls as 1/log l: they are laws in K."""

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.symbols import K


@pytest.mark.parametrize("phi, sigma_w", [("hard_tanh", 1), ("clip(z, 0, 1)", sp.sqrt(2))])
def test_J_of_a_logarithmic_point_is_a_power_of_K(phi, sigma_w):
    """`expr` holds √K (C alone before), and a number without a name is no K."""
    theory = mf.derive(phi)
    law = theory.depth_law("J", sigma_w=sigma_w, sigma_b=0)
    run = theory.propagate(sigma_w=sigma_w, sigma_b=0, depth=100_000, quantities=("K", "J"))
    ratio = sp.lambdify(K, law.expr.subs({s: 1 for s in law.expr.free_symbols - {K}}))
    drift = [run.log_J[at] - np.log(ratio(run.K[at])) for at in (999, 99_999)]
    planted = [run.log_J[at] for at in (999, 99_999)]
    assert abs(drift[1] - drift[0]) < 0.02 < abs(planted[1] - planted[0])
    with pytest.raises(mf.MeanFieldError, match="is one in K, and 1000 was given for the layer"):
        law.at(1000)
    assert sp.simplify(law.at(K=sp.Rational(1, 4)) - law.law.expr_of_terms.subs(law.variable, sp.Rational(1, 4))) == 0
