"""Tangent kernel, its differential and its two second differentials of one finite network, as dense tensors.

z¹ = W¹x + b¹, z^{l+1} = W^{l+1} σ(z^l) + b^{l+1}. Sums run over the parameters a, b, c up to the layer, each with its
rate λ: λ_w/fan-in for a weight, λ_b for a bias. Indices i, j, k, l are neurons of the layer.

    H_ij = Σ λ_a ∂_a z_i ∂_a z_j
    dH_ijk = Σ λ_a λ_b (∂_a∂_b z_i) ∂_a z_j ∂_b z_k
    ddI_ijkl = Σ λ_a λ_b λ_c (∂_a∂_b∂_c z_i) ∂_a z_j ∂_b z_k ∂_c z_l
    ddII_ijkl = Σ λ_a λ_b λ_c (∂_a∂_c z_i) (∂_b∂_c z_j) ∂_a z_k ∂_b z_l

Of several inputs every index has its own; `chain_rule` has the step from one layer to the next.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.reference_functions import derivatives
from meanfield.empirical.network.operations.operation_derivatives import Slope
from meanfield.empirical.network.operations.operation_walk import Linear, Site
from meanfield.empirical.network.operations.operations import Map
from meanfield.empirical.network.operations.weighted import Weighted
from meanfield.empirical.observables.chain_rule import ChainRuleStep, Scratch


@dataclass(frozen=True, eq=False)
class LayerTensors:
    """z (P, n), H[α, β, i, j] (P, P, n, n), and dH[α, β, γ, i, j, k], ddI and ddII[α, β, γ, δ, i, j, k, l] or None, of
    one layer at P inputs: an input for each neuron's index, in their order.

    Each index goes with its input: dH is symmetric in its last two, ddI in its last three, ddII under the exchange of
    (i, k) with (j, l).
    """

    z: np.ndarray
    H: np.ndarray
    dH: np.ndarray | None = None
    ddI: np.ndarray | None = None
    ddII: np.ndarray | None = None


class Differentials(Linear):
    """The tensors, carried through Dense(φ(z)): `tensors` are those of the last preactivations, None before them."""

    def __init__(self, x: np.ndarray, order: int) -> None:
        super().__init__(None)
        self._x, self._order, self._scratch, self._made = x, order, Scratch(), 0
        self._sigma: list[np.ndarray] = []

    @property
    def tensors(self) -> LayerTensors:
        return self._stack[-1]

    def apply(self, site: Site) -> None:
        operation: Any = site.operation
        match site.derivative:
            case Slope() if isinstance(operation, Map) and self._made:
                self.bend(derivatives(operation.pair, 3 if self._order > 1 else 1))
            case Weighted(y) as given:
                w, b = site.weights.whole(operation, site, (given.shape[1], y.shape[1]))
                step_w, step_b = site.weights.steps(operation, site.layer)
                self.weigh(w, b, step_w**2, step_b**2)
            case _:
                raise MeanFieldError(
                    f"These differentials go through Dense(φ(z)) alone, but {operation!r} was met; see `jet_kernels`."
                )

    def bend(self, derivatives: Callable[[np.ndarray], Sequence[np.ndarray]]) -> None:
        """Go through φ: derivatives(z) are σ, σ′, …."""
        z = self.tensors.z
        with np.errstate(all="ignore"):
            self._sigma = [np.broadcast_to(np.asarray(f, dtype=float), z.shape) for f in derivatives(z)]

    def weigh(self, W: np.ndarray, bias: np.ndarray | None, lam_w: float, lam_b: float) -> LayerTensors:
        """Go through a Dense: W (n, n_old) as it multiplies σ, b (n,) or None for 0; an overflow is carried on."""
        self._made += 1
        b, w = 0.0 if bias is None else bias, lam_w / W.shape[1]
        with np.errstate(all="ignore"):
            made = _first(self._x, W, b, w, lam_b, self._order) if self._made == 1 else self._next(W, b, w, lam_b)
        self._stack = [made]
        return made

    def _next(self, W: np.ndarray, b: np.ndarray | float, w: float, lam_b: float) -> LayerTensors:
        old = self.tensors
        step = ChainRuleStep(old.H, W, self._sigma, w, self._scratch)
        z, H = self._sigma[0] @ W.T + b, step.kernel(lam_b)
        if self._order == 1:
            return LayerTensors(z, H)
        before = (None, None, None) if self._made == 2 else (old.dH, old.ddI, old.ddII)  # those of layer 1 are zero
        return LayerTensors(z, H, *step.differentials(before, self._order))


def _first(x: np.ndarray, W: np.ndarray, b: np.ndarray | float, w: float, lam_b: float, order: int) -> LayerTensors:
    n, P = len(W), len(x)
    H = (lam_b + w * (x @ x.T))[:, :, None, None] * np.eye(n)
    dH = np.zeros((P,) * 3 + (n,) * 3) if order > 1 else None
    ddI, ddII = (np.zeros((P,) * 4 + (n,) * 4) if order > 2 else None for _ in range(2))
    return LayerTensors(x @ W.T + b, H, dH, ddI, ddII)


def correlator_samples(t: LayerTensors) -> dict[str, np.ndarray]:
    """The averages of one network over neurons, and over ordered pairs i ≠ j, that the 1/n correlators are means of.

    S_αβ = ⟨z_iα z_iβ⟩, h_αβ = ⟨H_ii;αβ⟩ (P, P); SS, hh, B, Sh, F (P, P, P, P), indexed αβγδ: z_iα z_iβ z_jγ z_jδ,
    H_ii;αβ H_jj;γδ, H_ij;αβ H_ij;γδ, z_iα z_iβ H_jj;γδ, z_iα z_jβ H_ij;γδ; where dH is there: P = dH_ijj;αβγ z_iδ,
    Q = dH_iij;αβγ z_jδ, and where ddI is: R = ddI_iijj;αβγδ, S_dd = ddII_iijj;αβγδ, T = ddII_ijij;αβγδ,
    U = ddII_ijji;αβγδ. Their means are exact at every n, as neurons are exchangeable. Raises `MeanFieldError` for
    n = 1.
    """
    z, H = t.z, t.H
    inputs, n = z.shape
    if n < 2:
        raise MeanFieldError("Averages over pairs of neurons need a layer of at least 2, but this one has 1.")
    pairs, four = n * (n - 1), (inputs,) * 4
    zz = (z[:, None] * z[None]).reshape(-1, n)
    diagonal = np.diagonal(H, axis1=2, axis2=3).reshape(-1, n)
    off = np.where(np.eye(n, dtype=bool), 0.0, H)
    flat = off.reshape(-1, n * n)

    def apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """⟨first_i second_j⟩ over i ≠ j."""
        return ((first @ (second.sum(axis=1, keepdims=True) - second).T) / pairs).reshape(four)

    found = {
        "S": zz.mean(axis=1).reshape(inputs, inputs),
        "h": diagonal.mean(axis=1).reshape(inputs, inputs),
        "SS": apart(zz, zz),
        "hh": apart(diagonal, diagonal),
        "B": (flat @ flat.T / pairs).reshape(four),
        "Sh": apart(zz, diagonal),
        "F": (z @ off @ z.T / pairs).transpose(2, 3, 0, 1),
    }
    if t.dH is not None:
        found["P"] = _apart(np.einsum("abcijj,di->abcdij", t.dH, z))
        found["Q"] = _apart(np.einsum("abciij,dj->abcdij", t.dH, z))
    if t.ddI is not None and t.ddII is not None:
        found["R"] = _apart(np.einsum("...iijj->...ij", t.ddI))
        found["S_dd"], found["T"], found["U"] = (
            _apart(np.einsum(f"...{which}->...ij", t.ddII)) for which in ("iijj", "ijij", "ijji")
        )
    return found


def _apart(matrices: np.ndarray) -> np.ndarray:
    """Means of what is off the diagonals."""
    n = matrices.shape[-1]
    return np.asarray(np.where(np.eye(n, dtype=bool), 0.0, matrices).sum(axis=(-2, -1)) / (n * (n - 1)))
