"""meanfield: a theory engine for wide random neural networks at initialization.

>>> theory = derive("erf")
>>> print(theory.recursion("K").doit())
K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meanfield.base.results import Equality, Estimate, Law, MeanFieldError, NoClosedForm, Solution, Status, Term
    from meanfield.base.saved import load
    from meanfield.bias.class_fraction import ClassFraction
    from meanfield.bias.initial import Bias
    from meanfield.comparison.check import (
        Report,
        check,
        measure,
        measure_critical_line,
        measure_criticality,
        measure_pairs,
    )
    from meanfield.functions.activations import Activation, activation, activations, register
    from meanfield.functions.balls import certified
    from meanfield.kernels.matrices import KernelOperator, Kernels
    from meanfield.networks import presets as architectures  # noqa: F401
    from meanfield.networks.records import (
        AffineNorm,
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
    from meanfield.presentation.bias_diagrams import BiasDiagram
    from meanfield.presentation.diagrams import PhaseDiagram
    from meanfield.symbolic.asymptotics.scaling import decay
    from meanfield.symbolic.averages.expansion import at_infinity, at_zero
    from meanfield.symbolic.averages.node import Average
    from meanfield.symbolic.averages.node import average_of as average
    from meanfield.symbolic.bias import BiasPhase, bias_recursion
    from meanfield.symbolic.blocks.walk import rule
    from meanfield.symbolic.correlator_laws.smooth_class import class_law
    from meanfield.symbolic.criticality.lines import CriticalLine
    from meanfield.symbolic.criticality.phases import Phase
    from meanfield.symbolic.criticality.points import CriticalPoint, CriticalPoints
    from meanfield.symbolic.equality import closed
    from meanfield.symbolic.equality import expressions_equal as equal
    from meanfield.symbolic.finite_width.linear import first_linear_layer, linear_moments
    from meanfield.symbolic.finite_width.moments import haar_moment
    from meanfield.symbolic.finite_width.weingarten import weingarten
    from meanfield.symbolic.fixed_points.points import FixedPoint, FixedPoints
    from meanfield.symbolic.recursion import Recursion, StateVar
    from meanfield.theory.deriving import derive
    from meanfield.theory.gaussian_processes import nngp, ntk
    from meanfield.theory.theory import Theory
    from meanfield.tuning.answer import Recommendation
    from meanfield.tuning.rates import TuningRates, tuning_rates, tuning_region
    from meanfield.tuning.recommend import recommend
    from meanfield.tuning.tune import tune
    from meanfield.tuning.tuned import Tuning

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "AffineNorm",
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
    "KernelOperator",
    "Kernels",
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
    "Recommendation",
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
    "Tuning",
    "TuningRates",
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
    "load",
    "measure",
    "measure_critical_line",
    "measure_criticality",
    "measure_pairs",
    "mlp",
    "nngp",
    "ntk",
    "recommend",
    "register",
    "rule",
    "tune",
    "tuning_rates",
    "tuning_region",
    "weingarten",
]

#: where each public name lives; it is loaded when it is first asked for, so that `import meanfield` costs nothing
_HOMES = {
    "base.saved": "load",
    "networks.records": (
        "AffineNorm BatchNorm Dense Gate LayerNorm Network Nonlinearity Param Pool "
        "Projection Residual Scale Schedule Sequential mlp"
    ),
    "functions.balls": "certified",
    "bias.initial": "Bias",
    "bias.class_fraction": "ClassFraction",
    "comparison.check": "Report check measure measure_critical_line measure_criticality measure_pairs",
    "theory.deriving": "derive",
    "functions.activations": "Activation activation activations register",
    "theory.gaussian_processes": "nngp ntk",
    "kernels.matrices": "KernelOperator Kernels",
    "presentation.bias_diagrams": "BiasDiagram",
    "presentation.diagrams": "PhaseDiagram",
    "base.results": "Equality Estimate Law MeanFieldError NoClosedForm Solution Status Term",
    "symbolic.asymptotics.scaling": "decay",
    "symbolic.averages.expansion": "at_infinity at_zero",
    "symbolic.averages.node": "Average average",
    "symbolic.bias": "BiasPhase bias_recursion",
    "symbolic.blocks.walk": "rule",
    "symbolic.correlator_laws.smooth_class": "class_law",
    "symbolic.criticality.lines": "CriticalLine",
    "symbolic.criticality.phases": "Phase",
    "symbolic.criticality.points": "CriticalPoint CriticalPoints",
    "symbolic.equality": "closed equal",
    "symbolic.finite_width.linear": "first_linear_layer linear_moments",
    "symbolic.finite_width.moments": "haar_moment",
    "symbolic.finite_width.weingarten": "weingarten",
    "symbolic.fixed_points.points": "FixedPoint FixedPoints",
    "symbolic.recursion": "Recursion StateVar",
    "theory.theory": "Theory",
    "tuning.answer": "Recommendation",
    "tuning.recommend": "recommend",
    "tuning.rates": "TuningRates tuning_rates tuning_region",
    "tuning.tune": "tune",
    "tuning.tuned": "Tuning",
}
_LAZY = {name: home for home, names in _HOMES.items() for name in names.split()}
_MODULES = {"architectures": "networks.presets", "symbols": "base.symbols"}
_CALLED = {"average": "average_of", "equal": "expressions_equal"}  # in their homes


def __dir__() -> list[str]:
    """The public names and nothing else (`dir(meanfield)`)."""
    return sorted(__all__)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"meanfield.{_MODULES[name]}")
    if name not in _LAZY:
        raise AttributeError(f"module 'meanfield' has no attribute {name!r}")
    found = getattr(import_module(f"meanfield.{_LAZY[name]}"), _CALLED.get(name, name))
    globals()[name] = found  # asked for once
    return found
