"""The first training step of infinitely wide layers: the law of one neuron, its cotangent and its change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.networks.folds import has_norm
from meanfield.parametrizations.step.affine_stage import AffineStage
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
        _refuse_lost_rank(case, dense)
        network.step(np.zeros((1, *case.inputs.T.shape)))
        last = dense[-1]
        z, own, total, gain = (
            np.stack([getattr(one, name) for one in dense], axis=1) for name in ("z2", "own2", "total2", "gain")
        )
        readout, features = (np.square(one).mean(axis=(1, 2)) for one in (last.own, last.inherited))
    return Squares(z, own, total, readout, features, gain)


def _refuse_lost_rank(case: Case, dense: list[AffineStage]) -> None:
    """Muon's step gives all directions of a gradient one size. Behind the last Dense, a norm makes cotangents of all
    inputs parallel as n → ∞, but never at any n."""
    moved = int(np.count_nonzero(case.slopes))
    if moved < 2 or not has_norm(case.head):
        return
    for one in dense:
        if one.optimizers[0] == "muon" and _rank(one.outer[:1]) < min(moved, _rank(one.second[:1])):
            raise MeanFieldError(
                f"A step of Muon was asked for with {moved} inputs and a norm before the readout: the gradient of the "
                "last hidden matrix has rank 1 at infinite width and full rank at any other; take one input."
            )


def _rank(covariance: np.ndarray) -> int:
    size = np.sqrt(np.maximum(np.einsum("rii->ri", covariance), 1e-300))
    return int(np.linalg.matrix_rank(covariance[0] / size[0, :, None] / size[0, None, :], tol=1e-7, hermitian=True))
