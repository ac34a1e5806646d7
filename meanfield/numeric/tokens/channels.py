"""Tangents through the scores of heads of finitely many channels that are turned by position or divided by their size.

q̃_t = R_t N(q_t): N divides by the root mean square over the d channels (qk_norm), R_t turns pairs of channels by t θ_p
(rotary). A pair is one complex number. δS_tu = s (X^q_tu · δq_t + X^k_tu · δk_u) with
X^q_tu = (R_tᵀ k̃_u − q̂_t S⁰_tu/d)/r_t and X^k_tu = (R_uᵀ q̃_t − k̂_u S⁰_tu/d)/r_u, S⁰ = q̃·k̃, q̂ = N(q), r the root mean
squares; the second terms are those of N. Over the tangents ⟨δq_tc δq_t′c′⟩ = σ_q² Γ_tt′ δ_cc′.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

CHUNK = 2**18  # numbers of one array over (token, channels, token)


@dataclass(frozen=True, eq=False)
class Channels:
    """Heads of queries q and keys k (heads, T, d) before they are turned and divided; size: s; by_query, by_key: σ_q²,
    σ_k²; base: of rotary positions, 0 for none; normed: whether by their root mean square."""

    q: np.ndarray
    k: np.ndarray
    size: float
    by_query: float
    by_key: float
    base: float
    normed: bool

    @staticmethod
    def numbers(tokens: float) -> float:
        """How many numbers `moved` holds at once."""
        return 8.0 * max(CHUNK, 2 * tokens**2)

    def scores(self) -> np.ndarray:
        """s q̃·k̃, (heads, T, T)."""
        phase = self._phase()
        q, k = (_complex(_unit(one) if self.normed else one) * phase for one in (self.q, self.k))
        return self.size * np.real(q @ k.conj().swapaxes(1, 2))

    def moved(
        self, A: np.ndarray, values: np.ndarray, mean: np.ndarray, mixed: np.ndarray, tangents: list[np.ndarray]
    ) -> list[np.ndarray]:
        """Σ over the heads of ⟨δA G_v δAᵀ⟩ for every Gram matrix of tangents; mean = A G_v, mixed = A G_v Aᵀ."""
        total = [np.zeros_like(gram) for gram in tangents]
        for h in range(len(A) if tangents else 0):
            own = values if values.ndim == 2 else values[h]
            for sum_, one in zip(total, self._one(h, A[h], own, mean[h], mixed[h], tangents)):
                sum_ += one
        return total

    def _phase(self) -> np.ndarray:
        tokens, d = self.q.shape[1:]
        return turning(tokens, d, self.base)

    def _one(
        self, h: int, A: np.ndarray, values: np.ndarray, mean: np.ndarray, mixed: np.ndarray, tangents: list[np.ndarray]
    ) -> list[np.ndarray]:
        q, k, phase = _complex(self.q[h]), _complex(self.k[h]), self._phase()
        d, tokens, size_q, size_k = self.q.shape[2], len(A), np.ones(len(A)), np.ones(len(A))
        product = None
        if self.normed:
            size_q, size_k = (np.sqrt(np.square(np.abs(x)).sum(axis=1) / d) for x in (q, k))
            q, k = q / size_q[:, None], k / size_k[:, None]
        q_turned, k_turned = q * phase, k * phase
        if self.normed:
            product = np.real(q_turned @ k_turned.conj().T) / d
        queries, keys = np.zeros_like(A), [np.zeros_like(A) for _ in tangents]
        step = max(1, CHUNK // (2 * tokens**2))
        for start in range(0, q.shape[1], step):
            p = slice(start, start + step)
            X = (phase[:, p].conj() / size_q[:, None])[:, :, None] * k_turned[:, p].T
            if product is not None:
                X -= q[:, p][:, :, None] * (product / size_q[:, None])[:, None, :]
            centred = _real(X)
            centred -= centred @ A[:, :, None]
            centred *= A[:, None, :]
            queries += _gram(_left(centred, values), centred)
            X = q_turned[:, p][:, :, None] * (phase[:, p].conj() / size_k[:, None]).T
            if product is not None:
                X -= k[:, p].T * (product / size_k)[:, None, :]
            there = _real(X)
            there *= A[:, None, :]
            for sum_, gram in zip(keys, tangents):
                inner = _left(there, gram)
                sum_ += mixed * _gram(inner, there)
                inner *= mean[:, None, :]
                half = _gram(_left(there, 0.5 * gram * values) - inner, there)
                sum_ += half + half.T
        queries *= self.by_query
        return [self.size**2 * (gram * queries + self.by_key * one) for gram, one in zip(tangents, keys)]


def turning(tokens: int, d: int, base: float) -> np.ndarray:
    """e^{i t θ_p}, θ_p = base^{−2p/d}, of d channels (0: nothing is turned): (T, pairs)."""
    pairs = np.arange((d + 1) // 2)
    speed = base ** (-2.0 * pairs / d) if base else 0.0 * pairs
    return np.exp(1j * np.multiply.outer(np.arange(tokens), speed))


def diagonal(W: np.ndarray) -> np.ndarray | None:
    """The diagonal of a square matrix that has nothing beside it."""
    if W.shape[0] != W.shape[1]:
        return None
    line = np.diag(W)
    return line if np.count_nonzero(W) == np.count_nonzero(line) else None


def _unit(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(np.square(x).mean(axis=-1, keepdims=True))


def _complex(x: np.ndarray) -> np.ndarray:
    """Channels 2p and 2p + 1 as one number; an odd last one stands beside a 0."""
    if x.shape[-1] % 2:
        x = np.concatenate((x, np.zeros((*x.shape[:-1], 1))), axis=-1)
    return x[..., 0::2] + 1j * x[..., 1::2]


def _real(X: np.ndarray) -> np.ndarray:
    """(T, pairs, T) complex as (T, channels, T)."""
    return np.concatenate((X.real, X.imag), axis=1)


def _left(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    """X W along the last axis; a diagonal W, as tangents have it where they start, is no product."""
    line = diagonal(W)
    if line is not None:
        return X * line
    return (X.reshape(-1, X.shape[2]) @ W).reshape(*X.shape[:2], -1)


def _gram(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return X.reshape(len(X), -1) @ Y.reshape(len(Y), -1).T
