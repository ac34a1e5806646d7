"""Depths at which something changes in a network of finite width: where the laws of infinite width give way.

>>> from meanfield import derive
>>> optimal_depth(derive("tanh"), width=30, outputs=10, sigma_w=1, sigma_b=0)
18/5
"""

from __future__ import annotations

import math
from typing import Any

import sympy as sp

from meanfield.base.arguments import finite, shown, validated, whole
from meanfield.base.errors import MeanFieldError
from meanfield.base.symbols import sigma_b, sigma_w
from meanfield.symbolic.correlator_laws.systems import CorrelatorLaw
from meanfield.theory.theory import Theory


@validated
def crossover_depth(
    theory: Theory, *, width: int, amplitude: float = 1.0, input_norm: Any = 1, **parameters: Any
) -> float:
    """The layer from which fluctuations of K decide how far two networks of width N part: log(N/A)/log(χ_K/χ_J).

    What differs by the Jacobian grows as χ_J a layer, what differs by K, of relative size A/N, as χ_K: they meet where
    (χ_K/χ_J)^l = N/A. width: N; amplitude: A > 0, a number that the fluctuations of the first layers decide (1 unless
    given); input_norm, parameters: as in `Theory.phase`. χ_K and χ_J are those at K*; where K grows without bound,
    those of a φ for which they do not know K.

    Returns a number of layers, 0 where A ≥ N, else ∞ where χ_K ≤ χ_J: then they never meet. Raises: MeanFieldError
    where χ_K or χ_J is not known. Accuracy: of χ_K and χ_J. Source: [bias_and_trainability] App. L for pools; here for
    every theory with a K*.

    >>> from meanfield import Dense, Nonlinearity, Pool, Sequential, derive
    >>> theory = derive(architecture=Sequential((Nonlinearity("relu"), Pool(2, "max"), Dense())))
    >>> round(crossover_depth(theory, width=1000, amplitude=10, sigma_w=1, sigma_b=0.1), 6)
    23.930131
    """
    count, size = whole(width, "width", 1, 10**12), finite(amplitude, "amplitude")
    if not size > 0:
        raise MeanFieldError(f"amplitude must be > 0, but {shown(amplitude)} was given.")
    point = theory.phase(input_norm=input_norm, **parameters).fixed_point
    if point is not None:
        chi_J, chi_K = (sp.sympify(one.value) for one in (point.chi_J, point.chi_K))
    else:
        values = {s: sp.sympify(parameters[s.name]) for s in (sigma_w, sigma_b) if s.name in parameters}
        both = theory.susceptibilities()
        chi_J, chi_K = (sp.sympify(both[name]).doit().subs(values) for name in ("chi_J", "chi_K"))
    if not (chi_J.is_number and chi_K.is_number and chi_J.is_comparable and chi_K.is_comparable and chi_J > 0):
        known = "K grows without bound and moves them" if point is None else f"they are {chi_K} and {chi_J}"
        raise MeanFieldError(
            f"The crossover depth is log(N/A)/log(chi_K/chi_J), but {known}; take standard deviations at which chi_K "
            "and chi_J > 0 are numbers."
        )
    if size >= count:  # fluctuations of K lead from the first layer on
        return 0.0
    if not chi_K > chi_J:
        return math.inf
    return math.log(count / size) / math.log(float(chi_K / chi_J))


@validated
def optimal_depth(theory: Theory, *, width: int, outputs: int, **parameters: Any) -> sp.Expr:
    """The depth at which the mutual information of the outputs of two inputs peaks: L* = 4n/((20 + 3n_L) ν).

    ν: the slope of V/K² at large depth, from `Theory.depth_law`; width: n; outputs: n_L; parameters: σ_w, σ_b at a
    critical point, or at=, as in `Theory.depth_law`. Exact where ν is. Raises: MeanFieldError where V/K² does not grow
    linearly with a positive slope: then its sign or its size says that there is no such peak.

    Source: L*(ν) is quoted from Roberts, Yaida and Hanin, Appendix A, and not derived here; ν is.

    >>> from meanfield import derive
    >>> optimal_depth(derive("relu"), width=100, outputs=10, sigma_w="sqrt(2)", sigma_b=0)
    8/5
    """
    neurons, ends = whole(width, "width", 1, 10**12), whole(outputs, "outputs", 1, 10**12)
    law = theory.depth_law("V", **parameters)
    assert isinstance(law, CorrelatorLaw)
    slope = sp.sympify(law.leading.coefficient)
    if law.rate != 0 or law.leading.power != 1 or not slope.is_number:  # V/K² ≥ -2: what grows linearly has ν > 0
        raise MeanFieldError(
            f"The optimal depth follows from a V/K**2 that grows as nu*l with nu > 0, but here it is {law.lines()[0]}; "
            "networks whose V does not grow have none."
        )
    return 4 * neurons / ((20 + 3 * ends) * slope)
