"""Heads that are mixed by softmax, and the derivatives by queries, keys and values.

A group of r heads of queries has one head of keys and values. Arrays are (inputs, groups, r·tokens, d) of queries,
(inputs, groups, tokens, d) of keys and values, and A, the weights of softmax, (inputs, groups, r·tokens, tokens);
vectors that are pushed or pulled stand in front.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.random.buffers import aligned

_CHUNK = 1 << 21  # scores that are made at once
Turn = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class HeadLayout:
    """How a signal (inputs·tokens, neurons) is split: `groups` of `each` heads of queries."""

    inputs: int
    tokens: int
    groups: int
    each: int

    @property
    def scores(self) -> int:
        """How many an input has."""
        return self.groups * self.each * self.tokens**2

    @property
    def hidden(self) -> np.ndarray:
        """(each·tokens, tokens): which tokens a causal mask hides from which."""
        return np.tile(~np.tri(self.tokens, dtype=bool), (self.each, 1))

    def apart(self, rows: np.ndarray, each: int) -> np.ndarray:
        """(…, positions, neurons) → (…, inputs, groups, each·tokens, d)."""
        *front, positions, _ = rows.shape
        inputs = positions // self.tokens
        moved = np.moveaxis(rows.reshape(*front, inputs, self.tokens, self.groups, each, -1), -4, -2)
        held = aligned(*moved.shape)
        held[...] = moved
        return held.reshape(*front, inputs, self.groups, each * self.tokens, -1)

    def together(self, heads: np.ndarray, each: int) -> np.ndarray:
        """(…, inputs, groups, each·tokens, d) → (…, positions, neurons)."""
        *front, inputs, _, _, size = heads.shape
        split = np.moveaxis(heads.reshape(*front, inputs, self.groups, each, self.tokens, size), -2, -4)
        return split.reshape(*front, inputs * self.tokens, self.groups * each * size)

    def parts(self, vectors: int = 1) -> Iterator[tuple[slice, slice, slice]]:
        """(vectors, positions, inputs) that are taken together."""
        many = max(1, _CHUNK // self.scores)  # vectors times inputs
        inputs = min(self.inputs, many)
        for k in range(0, vectors, max(1, many // inputs)):
            for first in range(0, self.inputs, inputs):
                last = min(first + inputs, self.inputs)
                positions = slice(first * self.tokens, last * self.tokens)
                yield slice(k, min(k + max(1, many // inputs), vectors)), positions, slice(first, last)

    def turn(self, base: float, size: int) -> Turn | None:
        """(cos, sin) of t·base^(−2i/size) for the pairs i of a head, (tokens, size/2); None where base is 0."""
        if not base:
            return None
        angles = np.outer(np.arange(self.tokens), base ** (-2.0 * np.arange(size // 2) / size))
        return np.cos(angles), np.sin(angles)


def turned(x: np.ndarray, turn: Turn | None, sign: float = 1.0) -> np.ndarray:
    """Heads (…, each·tokens, d) whose neurons 2i and 2i + 1 are turned by the angles; sign = −1 turns them back."""
    if turn is None:
        return x
    each = x.shape[-2] // len(turn[0])
    cosine, sine = (np.tile(one, (each, 1)) for one in turn)
    even, odd, new = x[..., 0::2], x[..., 1::2], aligned(*x.shape)
    new[..., 0::2] = even * cosine - sign * odd * sine
    new[..., 1::2] = odd * cosine + sign * even * sine
    return new


def softmax(scores: np.ndarray, hidden: np.ndarray | None) -> None:
    """In place, over the last axis; the largest score is subtracted. A row with a score that is NaN or +∞ is NaN."""
    if hidden is not None:
        np.copyto(scores, -np.inf, where=hidden)
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)


def _less_mean(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The derivative of softmax, a symmetric map: A ⊙ (x − Σ_s A_s x_s)."""
    return weights * (x - (weights * x).sum(axis=-1, keepdims=True))


@dataclass(frozen=True, eq=False)
class ScoreSide:
    """Queries or keys as scores meet them: unit = turned y, divided by its root mean square `size` where that is given,
    and hat = factor·unit."""

    unit: np.ndarray
    size: np.ndarray | None
    turn: Turn | None
    factor: float

    @classmethod
    def of(cls, heads: np.ndarray, turn: Turn | None, normed: bool, factor: float) -> ScoreSide:
        unit = turned(heads, turn)
        if not normed:
            return cls(unit, None, turn, factor)
        power = np.frexp(np.abs(unit).max(axis=-1, keepdims=True))[1]  # squares neither overflow nor underflow
        unit = np.ldexp(unit, -power)
        size = np.sqrt((unit * unit).mean(axis=-1, keepdims=True))
        return cls(unit / size, np.ldexp(size, power), turn, factor)  # 0/0 is NaN, as of a LayerNorm of equal numbers

    @cached_property
    def hat(self) -> np.ndarray:
        return self.unit if self.factor == 1.0 else self.unit * self.factor

    def push(self, x: np.ndarray, part: slice) -> np.ndarray:
        """Tangents of y as those of hat."""
        return self._projected(turned(x, self.turn), part) * self.factor

    def pull(self, x: np.ndarray, part: slice) -> np.ndarray:
        return turned(self._projected(x, part), self.turn, -1.0) * self.factor

    def bent(self, t: np.ndarray, u: np.ndarray, part: slice) -> np.ndarray:
        """The derivative of `pull(u)` along tangents t of y."""
        if self.size is None:
            return np.zeros(t.shape)
        unit, t, u = self.unit[part], turned(t, self.turn), u * self.factor
        alpha, beta = ((unit * x).mean(axis=-1, keepdims=True) for x in (t, u))
        along = (t * u).mean(axis=-1, keepdims=True) - alpha * beta
        bent = -along * unit - beta * (t - alpha * unit) - alpha * (u - beta * unit)
        return turned(bent / self.size[part] ** 2, self.turn, -1.0)

    def _projected(self, x: np.ndarray, part: slice) -> np.ndarray:
        if self.size is None:
            return x
        unit = self.unit[part]
        return (x - unit * (unit * x).mean(axis=-1, keepdims=True)) / self.size[part]


@dataclass(frozen=True, eq=False)
class AppliedAttention:
    """Attention at the point where it was applied: y = A v, A = softmax(q̂ k̂ᵀ)."""

    frame: HeadLayout
    weights: np.ndarray
    query: ScoreSide
    key: ScoreSide
    value: np.ndarray

    def from_scores(self, x: np.ndarray, part: slice) -> np.ndarray:
        """Tangents of scores as those of y."""
        return _less_mean(x, self.weights[part]) @ self.value[part]

    def to_scores(self, u: np.ndarray, part: slice) -> np.ndarray:
        """Cotangents of y as those of scores."""
        return _less_mean(u @ self.value[part].swapaxes(-1, -2), self.weights[part])

    def bent(
        self, tangents: tuple[np.ndarray, ...], u: np.ndarray, part: slice
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The derivatives of what u is pulled to, at queries, keys and values, along tangents of all three."""
        t_q, t_k, t_v = tangents
        query, key, weights = self.query.hat[part], self.key.hat[part], self.weights[part]
        q, k = self.query.push(t_q, part), self.key.push(t_k, part)
        moved = _less_mean(q @ key.swapaxes(-1, -2) + query @ k.swapaxes(-1, -2), weights)  # dA
        g, dg = (u @ x.swapaxes(-1, -2) for x in (self.value[part], t_v))
        scores = _less_mean(g, weights)
        mean = (weights * g).sum(axis=-1, keepdims=True)
        bend = moved * (g - mean) - weights * (moved * g).sum(axis=-1, keepdims=True) + _less_mean(dg, weights)
        back = scores.swapaxes(-1, -2)
        by_query = self.query.pull(bend @ key + scores @ k, part) + self.query.bent(t_q, scores @ key, part)
        by_key = self.key.pull(bend.swapaxes(-1, -2) @ query + back @ q, part)
        return by_query, by_key + self.key.bent(t_k, back @ query, part), moved.swapaxes(-1, -2) @ u


class _OfMixed(Derivative):
    """By one of the three; each: how many of its heads a group has."""

    def __init__(self, mixed: AppliedAttention, each: int) -> None:
        self.mixed, self._each = mixed, each

    @property
    def shape(self) -> tuple[int, int]:
        frame = self.mixed.frame
        return frame.inputs * frame.tokens, frame.groups * frame.each * self.mixed.value.shape[-1]

    @property
    def before(self) -> tuple[int, int]:
        frame = self.mixed.frame
        return frame.inputs * frame.tokens, frame.groups * self._each * self._size

    @property
    def _size(self) -> int:
        return self.mixed.query.unit.shape[-1]

    def push(self, rows: np.ndarray, out: np.ndarray) -> None:
        frame = self.mixed.frame
        for vectors, positions, part in frame.parts(len(rows)):
            x = self._push(frame.apart(rows[vectors, positions], self._each), part)
            out[vectors, positions] = frame.together(x, frame.each)

    def pull(self, rows: np.ndarray, out: np.ndarray) -> None:
        frame = self.mixed.frame
        for vectors, positions, part in frame.parts(len(rows)):
            u = self._pull(frame.apart(rows[vectors, positions], frame.each), part)
            out[vectors, positions] = frame.together(u, self._each)

    def _push(self, x: np.ndarray, part: slice) -> np.ndarray:
        raise NotImplementedError

    def _pull(self, u: np.ndarray, part: slice) -> np.ndarray:
        raise NotImplementedError


class ByQuery(_OfMixed):
    def _push(self, x: np.ndarray, part: slice) -> np.ndarray:
        mixed = self.mixed
        return mixed.from_scores(mixed.query.push(x, part) @ mixed.key.hat[part].swapaxes(-1, -2), part)

    def _pull(self, u: np.ndarray, part: slice) -> np.ndarray:
        mixed = self.mixed
        return mixed.query.pull(mixed.to_scores(u, part) @ mixed.key.hat[part], part)


class ByKey(_OfMixed):
    def _push(self, x: np.ndarray, part: slice) -> np.ndarray:
        mixed = self.mixed
        return mixed.from_scores(mixed.query.hat[part] @ mixed.key.push(x, part).swapaxes(-1, -2), part)

    def _pull(self, u: np.ndarray, part: slice) -> np.ndarray:
        mixed = self.mixed
        return mixed.key.pull(mixed.to_scores(u, part).swapaxes(-1, -2) @ mixed.query.hat[part], part)


class ByValue(_OfMixed):
    @property
    def _size(self) -> int:
        return self.mixed.value.shape[-1]

    def _push(self, x: np.ndarray, part: slice) -> np.ndarray:
        return self.mixed.weights[part] @ x

    def _pull(self, u: np.ndarray, part: slice) -> np.ndarray:
        return self.mixed.weights[part].swapaxes(-1, -2) @ u
