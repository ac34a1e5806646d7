"""Finite-width random networks: the judge of the theory, which knows nothing of it.

It reads the same architecture record as the theory and shares no other code with it.
"""

from meanfield.empirical.criticality import CriticalityEstimate, measure_criticality
from meanfield.empirical.curves import JacobianCurves, jacobian_curves
from meanfield.empirical.ensemble import EnsembleResult, run_ensemble
from meanfield.empirical.functions import ScalarPair
from meanfield.empirical.grid import CriticalityGrid, criticality_grid
from meanfield.empirical.network import Ensemble, Network
from meanfield.empirical.twins import twin

__all__ = [
    "CriticalityEstimate",
    "CriticalityGrid",
    "Ensemble",
    "EnsembleResult",
    "JacobianCurves",
    "Network",
    "ScalarPair",
    "criticality_grid",
    "jacobian_curves",
    "measure_criticality",
    "run_ensemble",
    "twin",
]
