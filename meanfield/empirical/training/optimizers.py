"""Optimizers: how parameters follow their gradients. Parameters are changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Arrays = Mapping[Any, np.ndarray]


class Optimizer:
    """One step after another on some arrays θ with gradients g = ∂L/∂θ; here θ → θ − η g.

    rates: for each array a factor of its own rate, which `scaled` takes. η is given at each step, so that it may vary.
    """

    def __init__(self, parameters: Arrays, rates: Mapping[Any, float]) -> None:
        self.parameters, self.rates = parameters, rates
        self.steps = 0

    def step(self, gradients: Arrays, eta: float) -> None:
        self.steps += 1
        for name, gradient in gradients.items():
            change = self.change(name, gradient)
            change *= eta
            self.parameters[name][...] -= change

    def change(self, name: Any, gradient: np.ndarray) -> np.ndarray:
        """What is subtracted from an array is η times this; `gradient` may be overwritten."""
        return gradient


class ScaledDescent(Optimizer):
    """θ → θ − η λ_θ g with λ_w/n for an entry of w of n inputs and λ_b for one of β: the descent whose tangent kernel
    Θ is. Source: [orthogonal_weights] (5.2), (5.3)."""

    def change(self, name: Any, gradient: np.ndarray) -> np.ndarray:
        gradient *= self.rates[name]
        return gradient


class Momentum(Optimizer):
    """v → m v + g, θ → θ − η v, m = 0.9."""

    decay = 0.9

    def __init__(self, parameters: Arrays, rates: Mapping[Any, float]) -> None:
        super().__init__(parameters, rates)
        self.velocity = {name: np.zeros_like(one) for name, one in parameters.items()}

    def change(self, name: Any, gradient: np.ndarray) -> np.ndarray:
        held = self.velocity[name]
        held *= self.decay
        held += gradient
        return held.copy()


class Adam(Optimizer):
    """m → β₁ m + (1 − β₁) g, v → β₂ v + (1 − β₂) g², θ → θ − η m̂/(√v̂ + ε) with m̂ = m/(1 − β₁ᵗ), v̂ = v/(1 − β₂ᵗ);
    β₁ = .9, β₂ = .999, ε = 1e-8. Source: Kingma and Ba, "Adam: a method for stochastic optimization", ICLR 2015."""

    first, second, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, parameters: Arrays, rates: Mapping[Any, float]) -> None:
        super().__init__(parameters, rates)
        self.means = {name: np.zeros_like(one) for name, one in parameters.items()}
        self.squares = {name: np.zeros_like(one) for name, one in parameters.items()}

    def change(self, name: Any, gradient: np.ndarray) -> np.ndarray:
        mean, square = self.means[name], self.squares[name]
        mean *= self.first
        mean += (1 - self.first) * gradient
        square *= self.second
        square += (1 - self.second) * gradient * gradient
        root = np.sqrt(square / (1 - self.second**self.steps))
        root += self.epsilon
        if self.epsilon == 0:  # what never had a gradient stays, mean and root being 0
            root[root == 0] = 1.0
        return np.divide(mean / (1 - self.first**self.steps), root, out=gradient)


OPTIMIZERS: dict[str, Callable[[Arrays, Mapping[Any, float]], Optimizer]] = {
    "sgd": Optimizer,
    "momentum": Momentum,
    "adam": Adam,
    "scaled": ScaledDescent,
}
