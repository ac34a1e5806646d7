"""meanfield: a theory engine for wide random neural networks at initialization.

>>> theory = derive("erf")
>>> print(theory.recursion("K").doit())
K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meanfield.activations import Activation, activation, activations, register
from meanfield.architecture import Dense, Nonlinearity, Param, Residual, Sequential, mlp
from meanfield.results import Equality, Estimate, Law, MeanFieldError, NoClosedForm, Solution, Status, Term
from meanfield.symbolic.average import Average, average
from meanfield.symbolic.expansion import at_infinity, at_zero
from meanfield.symbolic.recursion import Recursion, StateVar
from meanfield.theory import Theory, derive

if TYPE_CHECKING:
    from meanfield.comparison import Report, check

__version__ = "0.1.0"

__all__ = [
    "Activation",
    "Average",
    "Dense",
    "Equality",
    "Estimate",
    "Law",
    "MeanFieldError",
    "NoClosedForm",
    "Nonlinearity",
    "Param",
    "Recursion",
    "Report",
    "Residual",
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
    "check",
    "derive",
    "mlp",
    "register",
]

_LAZY = {"check": "meanfield.comparison", "Report": "meanfield.comparison"}  # these need Numba


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'meanfield' has no attribute {name!r}")
