"""Softmax attention as an operation: three signals that Dense made of one, queries, keys and values, become one.

In head h, A_t = softmax_s(λ q_t·k_s) over the tokens s of the same input (s ≤ t if causal), λ = 1/√d or 1/d, and
Σ_s A_ts v_s is what leaves, the heads side by side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import require_memory
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.network.operations.operation import Join, Shape
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Site
from meanfield.empirical.network.operations.softmax import (
    AppliedAttention,
    ByKey,
    ByQuery,
    ByValue,
    HeadLayout,
    ScoreSide,
    Turn,
    softmax,
    turned,
)
from meanfield.empirical.random.buffers import aligned

_LARGE = 1 << 26  # scores of one layer from which on memory is asked for


@dataclass(frozen=True)
class HeadSizes:
    """How many neurons heads have: `number` of them, each of `dim` neurons, or of N/`heads` where dim is None, N the
    neurons of the layer that is made."""

    number: int
    dim: int | None
    heads: int

    def size(self, layer: int, neurons: int) -> int:
        """The neurons of one head; raises `MeanFieldError` where the heads do not divide the layer."""
        if self.dim is not None:
            return self.dim
        if neurons % self.heads:
            raise MeanFieldError(
                f"The {neurons} neurons of layer {layer} were to be split among the {self.heads} heads of an "
                "Attention, which do not divide them; change the width or heads=, or give key_dim= and value_dim=."
            )
        return neurons // self.heads

    def outputs(self, layer: int, neurons: int) -> int:
        """The neurons of all."""
        return self.number * self.size(layer, neurons)


@dataclass(frozen=True)
class Attend(Join):
    """(q, k, v) → Σ_s A_ts v_s of every head, side by side.

    keys, values: the heads of keys and of values, as many as there are groups. inverse: whether λ = 1/d. rotary: the
    base of rotary positions, 0 for none: neurons 2i and 2i + 1 of q and k of a head are turned by t·base^(−2i/d) at
    token t = 0, 1, … normed: whether q and k of a head are divided by their root mean square.
    """

    keys: HeadSizes
    values: HeadSizes
    causal: bool = False
    inverse: bool = False
    rotary: float = 0.0
    normed: bool = False

    count = 3

    @property
    def mixes_tokens(self) -> bool:
        return True

    def joined_shape(self, shapes: Sequence[Shape], layer: int, end: Shape) -> Shape:
        size = self.keys.size(layer, end[1])
        if self.rotary and size % 2:
            raise MeanFieldError(
                f"rotary turns pairs of neurons, but the heads of an Attention have {size} at layer {layer}; change "
                "the width or heads=, or give an even key_dim=."
            )
        return shapes[-1][0], self.keys.heads * self.values.size(layer, end[1])

    def joined(self, signals: Sequence[np.ndarray], site: Site) -> tuple[np.ndarray, tuple[Derivative, ...]]:
        query, key, value = signals
        frame, turn, factor = self._split(query, site.inputs)
        self._require_memory(frame, site.differentiate)
        queries = ScoreSide.of(frame.apart(query, frame.each), turn, self.normed, factor)
        keys = ScoreSide.of(frame.apart(key, 1), turn, self.normed, 1.0)
        v, hidden = frame.apart(value, 1), frame.hidden if self.causal else None
        new_z = site.new(len(query), self.keys.heads * v.shape[-1])
        shape = frame.groups, frame.each * frame.tokens, frame.tokens
        kept = aligned(frame.inputs, *shape) if site.differentiate else None
        for _, positions, part in frame.parts():
            scores = aligned(part.stop - part.start, *shape) if kept is None else kept[part]
            np.matmul(queries.hat[part], keys.hat[part].swapaxes(-1, -2), out=scores)
            softmax(scores, hidden)
            new_z[positions] = frame.together(scores @ v[part], frame.each)
        if kept is None:
            return new_z, ()
        mixed = AppliedAttention(frame, kept, queries, keys, v)
        return new_z, (ByQuery(mixed, frame.each), ByKey(mixed, 1), ByValue(mixed, 1))

    def joined_formula(self, signals: Sequence[Jet], site: Site) -> Jet:
        frame, turn, factor = self._split(signals[0].value, site.inputs)
        v = signals[2].linear(lambda y: frame.apart(y, 1))
        q, k = signals[0].linear(lambda y: frame.apart(y, frame.each)), signals[1].linear(lambda y: frame.apart(y, 1))
        q, k = (one.linear(lambda y: turned(y, turn)) for one in (q, k))
        if self.normed:
            q, k = (one / np.sqrt((one * one).mean(-1, keepdims=True)) for one in (q, k))
        scores = (q * factor) @ k.linear(lambda y: y.swapaxes(-1, -2))
        seen = ~frame.hidden if self.causal else np.ones(frame.hidden.shape, dtype=bool)
        most = np.where(seen, scores.value, -np.inf).max(axis=-1, keepdims=True)
        scores = scores.linear(lambda y: np.where(seen, y, 0.0)) - np.where(seen, most, 0.0)
        weights = np.exp(scores) * seen.astype(float)
        return ((weights / weights.sum(-1, keepdims=True)) @ v).linear(lambda y: frame.together(y, frame.each))

    def bent(
        self, derivatives: Sequence[Derivative], tangents: Sequence[np.ndarray], cotangents: np.ndarray
    ) -> Sequence[np.ndarray]:
        first = derivatives[0]
        assert isinstance(first, ByQuery)
        frame, each = first.mixed.frame, (first.mixed.frame.each, 1, 1)
        found = [np.zeros(one.shape[1:]) for one in tangents]
        for vectors, positions, part in frame.parts(len(cotangents)):
            t = tuple(frame.apart(one[vectors, positions], r) for one, r in zip(tangents, each))
            bent = first.mixed.bent(t, frame.apart(cotangents[vectors, positions], frame.each), part)
            for whole, one, r in zip(found, bent, each):
                whole[positions] += frame.together(one.sum(axis=0), r)
        return found

    def _split(self, query: np.ndarray, inputs: int) -> tuple[HeadLayout, Turn | None, float]:
        """(how signals are split, the angles that q and k are turned by, λ)."""
        positions, neurons = query.shape[-2:]
        size = neurons // self.keys.heads
        frame = HeadLayout(inputs, positions // inputs, self.keys.number, self.keys.heads // self.keys.number)
        return frame, frame.turn(self.rotary, size), 1.0 / size if self.inverse else 1.0 / math.sqrt(size)

    def _require_memory(self, frame: HeadLayout, kept: bool) -> None:
        """Scores of all inputs are kept for derivatives, else those of one input at a time."""
        held = frame.scores * (frame.inputs if kept else 1)
        if held > _LARGE:
            what = f"The scores of {self.keys.heads} heads and {frame.tokens} tokens"
            require_memory(8.0 * (4 * frame.scores + held), what, "take fewer tokens, inputs or heads")
