"""Attention of one draw: its heads are drawn, and given them what leaves has known second moments.

x has the second moments G, (T, T). In a head, q and k are d channels each that are independent and Gaussian over the
tokens, with G_q = σ_w² G + σ_b² (σ's of the query) and G_k likewise: the scores S = Q Kᵀ/√d are drawn as such at finite
d, and at infinite d as a Gaussian of covariance (G_q)_tt′ (G_k)_ss′. The weights of v are fresh, so that A = softmax S
leaves the mean of A G_v Aᵀ over the heads, independent of all that a skip holds. A tangent of Gram matrix Γ moves v,
and through q and k the scores: A σ_v²Γ Aᵀ + ⟨δA G_v δAᵀ⟩. δS is linear in the tangent, and its covariance given the
head is (σ_q²Γ)_tt′ (K Kᵀ)_ss′/d + (Q Qᵀ)_tt′ (σ_k²Γ)_ss′/d, so that the average over it is taken in closed form
(`channels` where heads are turned by position or divided by their size).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.networks.attention import Attention
from meanfield.networks.records import Block, Dense
from meanfield.numeric.tokens.channels import Channels, diagonal, turning
from meanfield.numeric.tokens.token_fields import Signal
from meanfield.numeric.tokens.token_walk import TokenWalk, sampled_rule

BATCH = 2**16  # numbers of the A's that are worked on at once: they stay in the cache
MATRICES = 16.0  # T × T matrices that a head takes


@dataclass(frozen=True, eq=False)
class HeadSide:
    """A Dense that makes q, k or v: its deviations, and what it makes of second moments and of tangents."""

    sigma_w: float
    sigma_b: float

    @classmethod
    def of(cls, walk: TokenWalk, dense: Dense) -> HeadSide:
        return cls(walk.number(dense.sigma_w), walk.number(dense.sigma_b))

    def gram(self, square: np.ndarray) -> np.ndarray:
        return self.sigma_w**2 * square + self.sigma_b**2

    def factor(self, root: np.ndarray) -> np.ndarray:
        """F with F Fᵀ its Gram matrix, (T, T + 1): the last column is the bias."""
        return np.concatenate([self.sigma_w * root, np.full((len(root), 1), self.sigma_b)], axis=1)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some heads: A (heads, T, T), the Gram matrix of their values (T, T) or one for each head, and what a tangent does
    to their scores: its Gram matrix is Γ ∘ row for queries and Γ ∘ column for keys, met with the matrices `keys` and
    `queries` of the drawn ones; or, where the channels of a head do not all meet it alike, `channels` knows."""

    A: np.ndarray
    values: np.ndarray
    row: np.ndarray | float = 0.0
    column: np.ndarray | float = 0.0
    keys: np.ndarray | None = None
    queries: np.ndarray | None = None
    channels: Channels | None = None

    def moments(self, sigma_v: float, tangents: list[np.ndarray]) -> list[np.ndarray]:
        """Σ over the heads of A G_v Aᵀ, and of what becomes of every Gram matrix of tangents."""
        transposed = self.A.swapaxes(1, 2)
        mean = left(self.A, self.values)
        mixed = mean @ transposed

        def through(W: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            """A W Aᵀ, and Σ_uu′ W_uu′ (J_t G_v J_t′)_uu′ with J_t = diag A_t − A_t A_tᵀ, the derivative of softmax.

            What all tokens share of W and of G_v, J_t does not see; without it less is lost where it is nearly all.
            """
            carried = left(self.A, W) @ transposed
            own = centered(W)
            inner = left(self.A, own)
            half = (0.5 * left(self.A, own * values) - inner * across) @ transposed
            half += half.swapaxes(1, 2)
            half += apart * (inner @ transposed)
            diag = half.reshape(len(half), -1)[:, :: half.shape[1] + 1]
            np.maximum(diag, 0.0, out=diag)  # a mean square: what is left of it below 0 is rounding
            return carried, half

        values = centered(self.values)
        across = left(self.A, values)
        apart = across @ transposed

        found = [mixed.sum(axis=0)]
        if self.keys is None or self.queries is None:
            assert self.channels is not None
            direct = [sigma_v**2 * (left(self.A, gram) @ transposed).sum(axis=0) for gram in tangents]
            moved = self.channels.moved(self.A, self.values, mean, mixed, tangents)
            return found + [one + other for one, other in zip(direct, moved)]
        by_query = self.row * through(self.keys)[1].sum(axis=0) if tangents else 0.0
        for gram in tangents:
            carried, by_key = through(gram)
            if isinstance(self.column, np.ndarray):
                by_key = through(self.column * gram)[1]
            else:
                by_key *= self.column
            by_key *= self.queries
            found.append(sigma_v**2 * carried.sum(axis=0) + by_query * gram + by_key.sum(axis=0))
        return found

    def by_queries(self, square: np.ndarray) -> np.ndarray:
        """Σ over the heads of what the weights of the queries add to the tangent kernel, where x has the second moments
        `square`: a tangent of that Gram matrix, through the queries alone."""
        channels = None if self.channels is None else replace(self.channels, by_key=0.0)
        return replace(self, column=0.0, channels=channels).moments(0.0, [square])[1]

    def by_keys(self, square: np.ndarray) -> np.ndarray:
        """The same of the keys."""
        channels = None if self.channels is None else replace(self.channels, by_query=0.0)
        return replace(self, row=0.0, channels=channels).moments(0.0, [square])[1]

    def entropy(self) -> np.ndarray:
        """Σ over the heads of the entropy of every token's softmax."""
        terms = np.where(self.A > 0, -self.A * np.log(np.where(self.A > 0, self.A, 1.0)), 0.0)
        return terms.sum(axis=(0, 2))


def centered(W: np.ndarray) -> np.ndarray:
    """W less its mean over rows and over columns."""
    rows = W - W.mean(axis=-1, keepdims=True)
    return rows - rows.mean(axis=-2, keepdims=True)


def left(A: np.ndarray, W: np.ndarray) -> np.ndarray:
    """A W, as one product where W is common to all heads; a diagonal W, as tangents have it where they start, is
    none."""
    line = diagonal(W) if W.ndim == 2 else None
    if line is not None:
        return A * line
    return A @ W if W.ndim == 3 else (A.reshape(-1, A.shape[2]) @ W).reshape(*A.shape[:2], -1)


def root_of(gram: np.ndarray) -> np.ndarray:
    """The symmetric root: it exists for equal tokens, too, and moves continuously with the matrix."""
    values, vectors = np.linalg.eigh(gram)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T


def weights_of(scores: np.ndarray, causal: bool) -> np.ndarray:
    """The softmax of every row, in place of the scores; under a mask token t sees the tokens s ≤ t."""
    if causal:
        scores[..., np.triu(np.ones(scores.shape[-2:], dtype=bool), 1)] = -np.inf
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    return scores


@dataclass(frozen=True, eq=False)
class DrawnHeads:
    """An Attention at one signal: `batches` draws its heads, in the order of their numbers whatever a batch holds."""

    block: Attention
    query: HeadSide
    key: HeadSide
    value: HeadSide
    square: np.ndarray
    root: np.ndarray

    def batches(self, draws: Iterator[np.random.Generator]) -> Iterator[Batch]:
        scores, values = next(draws), None if self.block.value_dim is None else next(draws)
        count, shared = self.block.key_heads, self.block.heads // self.block.key_heads
        most = max(1, BATCH // len(self.square) ** 2)
        draw = self._limit if self.block.key_dim is None else self._finite
        for start in range(0, count, max(1, most // shared)):
            here = min(count - start, max(1, most // shared))
            own = None if values is None else self._values(values, here)
            heads = np.repeat(np.arange(here), shared)  # their numbers among the heads of keys and values that are here
            kept = (heads[first : first + most] for first in range(0, len(heads), most))
            for batch, which in draw(scores, heads, kept):
                yield batch if own is None else replace(batch, values=own[which])

    def deviations(self) -> np.ndarray:
        """The standard deviation of every token's scores about their mean over all tokens, in the mean over draws:
        √((G_q)_tt (mean of (G_k)_ss − mean of (G_k)_ss′ κ)), over √d where scores are divided by d; κ: what rotary
        positions s and s′ leave of a common part, the mean of cos((s − s′)θ) over pairs of channels."""
        grams = [one.gram(self.square) for one in (self.query, self.key)]
        if self.block.qk_norm:
            grams = [gram / np.multiply.outer(*2 * (np.sqrt(np.diag(gram)),)) for gram in grams]
        common = grams[1]
        if self.block.rotary and self.block.key_dim is not None:
            phase = turning(len(common), self.block.key_dim, float(self.block.rotary))  # type: ignore[arg-type]
            common = common * np.real(phase @ phase.conj().T) / phase.shape[1]
        within = max(0.0, np.diag(common).mean() - common.mean())
        d = 1.0 if self.block.scale == "1/sqrt(d)" else self.block.key_dim or math.inf
        return np.sqrt(np.diag(grams[0]) * within / d)

    def _values(self, generator: np.random.Generator, count: int) -> np.ndarray:
        """V Vᵀ/d of so many heads of values, which have d channels each: (count, T, T)."""
        assert self.block.value_dim is not None
        normal = generator.standard_normal((count, self.root.shape[1] + 1, self.block.value_dim))
        V = self.value.factor(self.root) @ normal
        return V @ V.swapaxes(1, 2) / self.block.value_dim

    def _limit(
        self, generator: np.random.Generator, heads: np.ndarray, kept: Iterator[np.ndarray]
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Heads of infinitely many channels: Gaussian scores, or none where they are divided by d. Heads that share
        their keys are independent here, since only K Kᵀ/d matters, a number."""
        size = 1.0 if self.block.scale == "1/sqrt(d)" else 0.0
        sides = self.query, self.key
        grams, factors = [one.gram(self.square) for one in sides], [one.factor(self.root) for one in sides]
        gains: list[np.ndarray | float] = [size * one.sigma_w**2 for one in sides]
        if self.block.qk_norm:
            for i, gram in enumerate(grams):
                norm = np.sqrt(np.diag(gram))
                pairs = np.multiply.outer(norm, norm)
                factors[i], grams[i], gains[i] = factors[i] / norm[:, None], gram / pairs, gains[i] / pairs
        columns, values = factors[0].shape[1], self.value.gram(self.square)
        for which in kept:
            normal = generator.standard_normal((len(which), columns, columns))
            scores = size * left(factors[0] @ normal, factors[1].T)
            A = weights_of(scores, self.block.causal)
            yield Batch(A, values, gains[0], gains[1], keys=grams[1], queries=size * grams[0]), which

    def _finite(
        self, generator: np.random.Generator, heads: np.ndarray, kept: Iterator[np.ndarray]
    ) -> Iterator[tuple[Batch, np.ndarray]]:
        """Heads of d channels: q and k are drawn, those of all queries beside their key."""
        d, block, values = self.block.key_dim, self.block, self.value.gram(self.square)
        assert d is not None
        count = int(heads[-1]) + 1
        normal = generator.standard_normal((count, 1 + len(heads) // count, self.root.shape[1] + 1, d))
        K = self.key.factor(self.root) @ normal[:, 0]
        Q = self.query.factor(self.root) @ normal[:, 1:].reshape(len(heads), -1, d)
        size = d**-0.5 if block.scale == "1/sqrt(d)" else 1 / d
        gains = self.query.sigma_w**2, self.key.sigma_w**2
        done = 0
        for which in kept:
            q, k = Q[done : done + len(which)], K[which]
            done += len(which)
            if block.qk_norm or block.rotary:
                base = float(block.rotary)  # type: ignore[arg-type]  # a record holds a number
                channels = Channels(q, k, size, *gains, base, block.qk_norm)
                yield Batch(weights_of(channels.scores(), block.causal), values, channels=channels), which
            else:
                A = weights_of(size * (q @ k.swapaxes(1, 2)), block.causal)
                keys, queries = (size * size * (one @ one.swapaxes(1, 2)) for one in (k, q))
                yield Batch(A, values, *gains, keys, queries), which


@sampled_rule(Attention)
def _attention(walk: TokenWalk, block: Attention, x: Signal) -> Signal:
    if block.rotary and block.key_dim is None:
        raise MeanFieldError(
            "The sampled theory of tokens was asked for rotary positions at key_dim=None, and the number of pairs that "
            "turn is not known; give key_dim= of the Attention, as in key_dim=64."
        )
    moments = walk.fields.moments(x)
    first, *tangents = moments.own
    square = first + np.multiply.outer(moments.mean, moments.mean)
    query, key, value = (HeadSide.of(walk, one) for one in (block.query, block.key, block.value))
    _refuse(block, (query, key), square, walk.layer)
    heads = DrawnHeads(block, query, key, value, square, root_of(square))
    total = [np.zeros_like(square) for _ in moments.own]
    entropy, by_queries, by_keys = np.zeros(len(square)), np.zeros_like(square), np.zeros_like(square)
    for batch in heads.batches(walk.draws):
        tick()
        if walk.notes is not None or walk.weights is not None:
            by_queries += batch.by_queries(square)
        if walk.notes is not None:
            entropy += batch.entropy()
        if walk.weights is not None:
            by_keys += batch.by_keys(square)
        for sum_, one in zip(total, batch.moments(value.sigma_w, tangents)):
            sum_ += one
    own = [one / block.heads for one in total]
    if walk.notes is not None:
        walk.notes.put("entropy", entropy / block.heads / math.log(len(square)))
        walk.notes.put("query_share", np.diag(by_queries) / block.heads / np.diag(own[0]))
        walk.notes.put("scores", heads.deviations())
    for gram in (by_queries / block.heads, by_keys / block.heads, own[0]):
        walk.start(own, gram)
    made = walk.fields.base(np.zeros(len(square)), tuple(own), gaussian=False)
    if block.value_dim is not None:
        walk.fields.narrow.add(made[0].base)
    return made


def _refuse(block: Attention, sides: tuple[HeadSide, ...], square: np.ndarray, layer: int) -> None:
    if not np.isfinite(square).all():
        raise MeanFieldError(
            f"K overflows inside the block that makes layer {layer}; take a smaller depth, sigma_w or sigma_b."
        )
    if block.qk_norm and not all((np.diag(side.gram(square)) > 0).all() for side in sides):
        raise MeanFieldError(
            f"The qk_norm of the block that makes layer {layer} divides by 0, since a query or key is 0; take "
            "sigma_w > 0 of both, or qk_norm=False."
        )


def workspace(block: Block, tokens: float) -> float:
    """Bytes that one draw takes for the heads of a record: 0 for one that is no Attention."""
    if not isinstance(block, Attention):
        return 0.0
    together = max(1.0, min(block.heads, BATCH / tokens**2))
    shared = block.heads // block.key_heads
    drawn = 0.0 if block.key_dim is None else 3 * max(together, 1 + shared) * tokens * block.key_dim
    drawn += 0.0 if block.value_dim is None else 2 * together * tokens * block.value_dim
    transposed = Channels.numbers(tokens) if block.rotary or block.qk_norm else 0.0
    return 8.0 * (MATRICES * together * tokens**2 + drawn + transposed)
