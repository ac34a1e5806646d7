"""The stage of a Dense: what its matrix makes before the step, takes back, and makes of what has changed."""

from __future__ import annotations

import numpy as np

from meanfield.parametrizations.step.own_changes import MatrixStep, bias_change, own_change
from meanfield.parametrizations.step.populations import Population, inverse, mean_product, root
from meanfield.parametrizations.step.training_stages import Stage


class AffineStage(Stage):
    """A Dense. After `step`, `z2`, `own2` and `total2` hold the mean squares of z, of what its own parameters changed,
    and of all that changed, `gain` what its own step takes from the loss in first order, one for each replicate.

    deviation_w, deviation_b: of m W √fan-in and of the bias as it is added; weights, bias: as the optimizer moves them
    (bias None: it stays). first: whether it is given the inputs of the network, which do not change; last: whether it
    makes the output, one number.
    """

    def __init__(
        self, among: Population, optimizers: tuple[str, str], weights: MatrixStep, bias: MatrixStep | None,
        deviation_w: float, deviation_b: float, first: bool, last: bool,
    ) -> None:  # fmt: skip
        self.among, self.optimizers, self.weights, self.bias = among, optimizers, weights, bias
        self.deviation_w, self.deviation_b, self.first, self.last = deviation_w, deviation_b, first, last

    def forward(self, a: np.ndarray) -> np.ndarray:
        self.a, inputs = a, a.shape[2]
        self.second = np.broadcast_to(mean_product(a, a), (self.among.replicates, inputs, inputs))
        kept, turned = self.among.normals(inputs + 1, 2 * inputs)
        self.q_normals, self.xi_normals = turned[..., :inputs], turned[..., inputs:]
        self.product = self.deviation_w * (kept[..., :inputs] @ root(self.second))
        z = self.product + self.deviation_b * kept[..., inputs:]
        self.z2 = np.square(z).mean(axis=(1, 2))
        return z

    def backward(self, v: np.ndarray) -> np.ndarray:
        self.v = v
        self.outer = self.weights.fan_out * mean_product(v, v)
        if self.first:
            return v
        normals = self.among.sample(self.q_normals, self.a.shape[1])
        self.q = self.deviation_w / np.sqrt(self.weights.fan_in) * (normals @ root(self.outer))
        return self.q

    def step(self, change: np.ndarray) -> np.ndarray:
        own = own_change(self.optimizers[0], self.weights, self.v, self.a, self.a + change, self.among)
        if self.bias is not None:
            own = own + bias_change(self.optimizers[1], self.bias, self.v)
        self.own2 = np.square(own).mean(axis=(1, 2))
        self.gain = -self.weights.fan_out * (self.v * own).sum(axis=2).mean(axis=1)
        self.inherited = self._inherited(change)
        total = own + self.inherited
        self.total2 = np.square(total).mean(axis=(1, 2))
        self.own, self.total = own, total
        return total

    def _inherited(self, change: np.ndarray) -> np.ndarray:
        """m W Δa given m W a and m Wᵀ v: along v, along m W a, and what is new."""
        if self.first:
            return np.zeros(self.v.shape)
        along = self.v @ (inverse(self.outer) @ (self.weights.fan_in * mean_product(self.q, change)))
        if self.last:
            return along
        crossed = mean_product(self.a, change)
        kept = inverse(self.second) @ crossed
        rest = mean_product(change, change) - crossed.transpose(0, 2, 1) @ kept
        return along + self.product @ kept + self.deviation_w * (self.xi_normals @ root(rest))
