"""Losses of outputs and targets: the value, and its derivative by the outputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Loss = Callable[[np.ndarray, np.ndarray], tuple[float, np.ndarray]]


def mse(f: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """L = (1/2N) Σ_a |f(x_a) − y_a|², summed over outputs, as `Theory.predict` has it."""
    miss = f - y
    return float(np.vdot(miss, miss)) / (2 * len(f)), miss / len(f)


def cross_entropy(f: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """L = −(1/N) Σ_a Σ_c y_ac log softmax(f(x_a))_c; y: one-hot rows, or probabilities."""
    shifted = f - f.max(axis=1, keepdims=True)
    exponentials = np.exp(shifted)
    total = exponentials.sum(axis=1, keepdims=True)
    value = -float(np.vdot(y, shifted - np.log(total))) / len(f)
    return value, (exponentials / total * y.sum(axis=1, keepdims=True) - y) / len(f)


def sigmoid_cross_entropy(f: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """L = (1/N) Σ_a Σ_c log(1 + e^{f_c(x_a)}) − y_ac f_c(x_a): each output is the logit of its own class."""
    small = np.exp(-np.abs(f))
    value = (np.maximum(f, 0.0) + np.log1p(small) - y * f).sum() / len(f)
    return float(value), (np.where(f >= 0.0, 1.0, small) / (1.0 + small) - y) / len(f)


LOSSES: dict[str, Loss] = {
    "mse": mse,
    "cross_entropy": cross_entropy,
    "sigmoid_cross_entropy": sigmoid_cross_entropy,
}
