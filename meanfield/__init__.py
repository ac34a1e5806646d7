"""meanfield: a theory engine for wide random neural networks at initialization.

>>> theory = derive("erf")
>>> print(theory.recursion("K").doit())
K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield import architectures as architectures
from meanfield.architecture import (
    BatchNorm,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Param,
    Pool,
    Projection,
    Residual,
    Scale,
    Schedule,
    Sequential,
    mlp,
)
from meanfield.balls import certified
from meanfield.functions.activations import Activation, activation, activations, register
from meanfield.results import Equality, Estimate, Law, MeanFieldError, NoClosedForm, Solution, Status, Term
from meanfield.symbolic.asymptotics.scaling import decay
from meanfield.symbolic.averages.expansion import at_infinity, at_zero
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.averages.node import average_of as average
from meanfield.symbolic.bias import BiasPhase, bias_recursion
from meanfield.symbolic.blocks.walk import rule
from meanfield.symbolic.criticality.lines import CriticalLine
from meanfield.symbolic.criticality.phases import Phase
from meanfield.symbolic.criticality.points import CriticalPoint, CriticalPoints
from meanfield.symbolic.equality import closed
from meanfield.symbolic.equality import expressions_equal as equal
from meanfield.symbolic.fixed_points.points import FixedPoint, FixedPoints
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.theory import Theory, derive

if TYPE_CHECKING:
    from meanfield.bias import Bias
    from meanfield.class_fraction import ClassFraction
    from meanfield.comparison.check import (
        Report,
        check,
        measure,
        measure_critical_line,
        measure_criticality,
        measure_pairs,
    )
    from meanfield.presentation.bias_diagrams import BiasDiagram
    from meanfield.presentation.diagrams import PhaseDiagram
    from meanfield.symbolic.correlator_laws.smooth_class import class_law
    from meanfield.symbolic.finite_width.linear import first_linear_layer, linear_moments
    from meanfield.symbolic.finite_width.moments import haar_moment
    from meanfield.symbolic.finite_width.weingarten import weingarten

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Average",
    "BatchNorm",
    "Bias",
    "BiasDiagram",
    "BiasPhase",
    "ClassFraction",
    "CriticalLine",
    "CriticalPoint",
    "CriticalPoints",
    "Dense",
    "Equality",
    "Estimate",
    "FixedPoint",
    "FixedPoints",
    "Gate",
    "Law",
    "LayerNorm",
    "MeanFieldError",
    "Network",
    "NoClosedForm",
    "Nonlinearity",
    "Param",
    "Phase",
    "PhaseDiagram",
    "Pool",
    "Projection",
    "Recursion",
    "Report",
    "Residual",
    "Scale",
    "Schedule",
    "Sequential",
    "Solution",
    "StateVar",
    "Status",
    "Term",
    "Theory",
    "activation",
    "activations",
    "at_infinity",
    "at_zero",
    "average",
    "bias_recursion",
    "certified",
    "check",
    "class_law",
    "closed",
    "decay",
    "derive",
    "equal",
    "first_linear_layer",
    "haar_moment",
    "linear_moments",
    "measure",
    "measure_critical_line",
    "measure_criticality",
    "measure_pairs",
    "mlp",
    "register",
    "rule",
    "weingarten",
]

# these need Numba or SciPy, or are seldom asked for
_VERBS = ("check", "Report", "measure", "measure_criticality", "measure_critical_line", "measure_pairs")
_LAZY = dict.fromkeys(_VERBS, "meanfield.comparison.check")
_LAZY["Bias"] = "meanfield.bias"
_LAZY["ClassFraction"] = "meanfield.class_fraction"
_LAZY["BiasDiagram"] = "meanfield.presentation.bias_diagrams"
_LAZY["PhaseDiagram"] = "meanfield.presentation.diagrams"
_LAZY["first_linear_layer"] = _LAZY["linear_moments"] = "meanfield.symbolic.finite_width.linear"
_LAZY["class_law"] = "meanfield.symbolic.correlator_laws.smooth_class"
_LAZY["haar_moment"] = "meanfield.symbolic.finite_width.moments"
_LAZY["weingarten"] = "meanfield.symbolic.finite_width.weingarten"


def __dir__() -> list[str]:
    """The public names and nothing else (`dir(meanfield)`)."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'meanfield' has no attribute {name!r}")
