"""The first training step of infinitely wide layers: the law of one neuron, its cotangent and its change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.parametrizations.step.populations import Population
from meanfield.parametrizations.step.stage_rules import stages_of
from meanfield.parametrizations.step.step_case import Case


@dataclass(frozen=True, eq=False)
class Squares:
    """Mean squares, a row for each replicate or network: z, own and total of every Dense (…, Dense), the last of which
    makes the output; own and inherited of Δf stand in `readout` and `features`. gain: what the own step of every Dense
    takes from the loss in first order, −Σ v·own, no square."""

    z: np.ndarray
    own: np.ndarray
    total: np.ndarray
    readout: np.ndarray
    features: np.ndarray
    gain: np.ndarray


def first_step(case: Case, neurons: int = 4096, replicates: int = 16, seed: int = 0) -> Squares:
    """What one step changes, for any learning rate, in the limit n → ∞ with n kept in all factors.

    A neuron before and after the step is a Gaussian pair beside what moves along its cotangent: m W ã given what the
    forward pass (m W a = z) and the backward pass (m Wᵀ v) have seen of W. Averages are over `neurons` neurons, whose
    errors the replicates show. Source: derived here.
    """
    inputs = len(case.inputs)
    among = Population(len(case.rows()) * (3 * inputs + 1), neurons, replicates, seed)
    network, dense = stages_of(case, among)
    with np.errstate(all="ignore"):  # an overflow is an answer
        network.forward(case.inputs.T[None])
        shape = (replicates, neurons, inputs)
        network.backward(np.broadcast_to(case.cotangent, shape))
        network.step(np.zeros((1, *case.inputs.T.shape)))
    last = dense[-1]
    z, own, total, gain = (
        np.stack([getattr(one, name) for one in dense], axis=1) for name in ("z2", "own2", "total2", "gain")
    )
    readout, features = (np.square(one).mean(axis=(1, 2)) for one in (last.own, last.inherited))
    return Squares(z, own, total, readout, features, gain)
