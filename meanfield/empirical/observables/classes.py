"""A cross-entropy on the first C neurons of the last layer, with random labels: how its gradient differs by class.

Source: [bias_and_trainability] (88), App. G; Figs. 4, 24, 25.
"""

from __future__ import annotations

import numpy as np

from meanfield.empirical.random.philox import normals

LABEL_ROLE = 5  # of layer 0
CLASS_ROWS = ("delta2", "delta2_favoured", "delta2_unfavoured")


def draw_labels(inputs: int, classes: int, seed: int, index: int) -> np.ndarray:
    """0, 1, …, C − 1, 0, 1, … in a random order, drawn per network: every class is the label of ⌊m/C⌋ inputs or one
    more."""
    return np.argsort(normals(seed, index, 0, LABEL_ROLE, inputs)) % classes


def loss_gradient(z: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """∂L/∂z of L = Σ_a −log p_a(label of a), p_a the softmax of z_a1 … z_aC: p − 1 at the label, p elsewhere.

    p − 1 is −Σ of the other p, so that it keeps its digits, and is 0 where they underflow.
    """
    logits = z[:, :classes]
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    total, rows = weights.sum(axis=1, keepdims=True), np.arange(len(z))
    others = weights.copy()
    others[rows, labels] = 0.0
    found = np.zeros(z.shape)
    found[:, :classes] = others / total
    found[rows, labels] = -others.sum(axis=1) / total[:, 0]
    return found


def favoured_classes(z: np.ndarray, classes: int) -> tuple[int, int]:
    """(the class that most inputs are assigned to, the class that fewest are); of several, the first."""
    counts = np.bincount(z[:, :classes].argmax(axis=1), minlength=classes)
    return int(counts.argmax()), int(counts.argmin())


def class_medians(squares: np.ndarray, labels: np.ndarray, favoured: int, unfavoured: int) -> dict[str, float]:
    """Medians of one number per input: over all, and over those whose label is the favoured or the unfavoured class."""
    chosen = squares, squares[labels == favoured], squares[labels == unfavoured]
    return {name: float(np.median(part)) for name, part in zip(CLASS_ROWS, chosen)}
