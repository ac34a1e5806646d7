"""Finite-width random networks: the judge of the theory, which knows nothing of it.

It reads the same architecture record as the theory and shares no other code with it.
"""

from meanfield.empirical.ensemble.ensemble import EnsembleResult, run_ensemble
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.functions.twins import twin
from meanfield.empirical.network.derivatives import Derivative
from meanfield.empirical.network.network import Ensemble, Network
from meanfield.empirical.network.operation import Operation, Parameter, operation
from meanfield.empirical.network.stored import StoredNetwork, draw_network, number_of_parameters
from meanfield.empirical.shared.criticality import CriticalityEstimate, measure_criticality
from meanfield.empirical.shared.curves import JacobianCurves, jacobian_curves
from meanfield.empirical.shared.grid import CriticalityGrid, criticality_grid
from meanfield.empirical.shared.line import MeasuredLine, measure_critical_line
from meanfield.empirical.shared.pairs import PairStatistics, measure_pairs

__all__ = [
    "CriticalityEstimate",
    "CriticalityGrid",
    "Derivative",
    "Ensemble",
    "EnsembleResult",
    "JacobianCurves",
    "MeasuredLine",
    "Network",
    "Operation",
    "PairStatistics",
    "Parameter",
    "ScalarPair",
    "StoredNetwork",
    "criticality_grid",
    "draw_network",
    "jacobian_curves",
    "measure_critical_line",
    "measure_criticality",
    "measure_pairs",
    "number_of_parameters",
    "operation",
    "run_ensemble",
    "twin",
]
