"""What the step of an optimizer on a matrix does to what the matrix makes, in a layer of infinitely many neurons.

A Dense makes m W a. A gradient step changes W by ΔW, a function of the cotangents v = ∂L/∂z behind it and of a before
it; on ã, what it is given after the step, it makes m ΔW ã more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import CubicSpline

from meanfield.parametrizations.step.populations import Population, inverse, mean_product, root

FEW = 512  # neurons that the average over one matrix's inputs is taken of where it is one for each output
NODES = 96  # of the table of such an average for one input


@dataclass(frozen=True)
class MatrixStep:
    """A matrix as an optimizer moves it: its multiplier, learning rate, Adam's ε, and its numbers of inputs and
    outputs."""

    multiplier: float
    rate: float
    eps: float
    fan_in: float
    fan_out: float


def own_change(
    optimizer: str, one: MatrixStep, v: np.ndarray, a: np.ndarray, new: np.ndarray, among: Population
) -> np.ndarray:
    """m ΔW ã for every neuron behind the matrix and every input; v, a, new: (replicates, neurons, inputs)."""
    size = one.multiplier * one.rate * one.fan_in
    if optimizer == "sgd":
        return -size * one.multiplier * (v @ mean_product(a, new))
    if optimizer == "muon":
        return -size * (v @ _polar(one, v, a) @ mean_product(a, new))
    if v.shape[2] == 1:
        return -size * _signed(one, v, a, new)
    return -size * _by_pairs(one, v, among.sample(a, FEW), among.sample(new, FEW))


def bias_change(optimizer: str, one: MatrixStep, v: np.ndarray) -> np.ndarray:
    """What the step on a bias adds to every input alike: (replicates, neurons, 1)."""
    pull = v.sum(axis=2, keepdims=True)
    if optimizer == "sgd":
        return -one.rate * one.multiplier**2 * pull
    return -one.rate * one.multiplier * _unit(one.multiplier * pull, one.eps)


def _unit(g: np.ndarray, eps: float) -> np.ndarray:
    """Adam's first step on entries with gradient g, over the rate."""
    return np.sign(g) if eps == 0 else g / (np.abs(g) + eps)


def _signed(one: MatrixStep, v: np.ndarray, a: np.ndarray, new: np.ndarray) -> np.ndarray:
    """⟨u(m v a) ã⟩ over a, for each v: for one input sgn v ⟨sgn(a) ã⟩, or with ε a function of |v|, which is tabled."""
    if one.eps == 0:
        return np.sign(v) * mean_product(np.sign(a), new)
    size = one.multiplier * np.abs(v[..., 0])
    out = np.empty_like(size)
    for k in range(len(size)):
        most = size[k].max()
        if most == 0:
            out[k] = 0.0
            continue
        x, y = a[k % len(a), :, 0], new[k % len(new), :, 0]
        nodes = np.geomspace(1e-6 * most, most, NODES)
        table = np.array([np.mean(s * x * y / (s * np.abs(x) + one.eps)) for s in nodes])
        inside = CubicSpline(np.log(nodes), table)(np.log(np.maximum(size[k], nodes[0])))
        out[k] = np.where(size[k] >= nodes[0], inside, table[0] * size[k] / nodes[0])
    return np.sign(v) * out[..., None]


def _by_pairs(one: MatrixStep, v: np.ndarray, a: np.ndarray, new: np.ndarray) -> np.ndarray:
    """⟨u(m Σ_b v_b a_b) ã_c⟩ over a, for each v."""
    out = np.empty_like(v)
    for k in range(len(v)):
        x, y = a[k % len(a)], new[k % len(new)]
        out[k] = _unit(one.multiplier * (v[k] @ x.T), one.eps) @ y / len(x)
    return out


def _polar(one: MatrixStep, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """The matrix P for which V P Aᵀ is the polar factor of V Aᵀ, from the two matrices of inner products alone."""
    outer, inner = one.fan_out * mean_product(v, v), one.fan_in * mean_product(a, a)
    left, right = np.broadcast_arrays(root(outer), root(inner))
    u, s, w = np.linalg.svd(left @ right)
    kept = (s > 1e-7 * s[:, :1])[:, None, :]
    return inverse(left) @ ((u * kept) @ w) @ inverse(right)
