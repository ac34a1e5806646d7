"""Differentials of the tangent kernel of one finite network at several inputs, every pattern of them, layer by layer.

Each index of a neuron has an input of its own, i of a, j of b, k of c, l of d (K = k at c, and so on):

    dH_ijk;abc = Σ λ_α λ_β (∂_α∂_β z_ia) ∂_α z_jb ∂_β z_kc
    ddI_ijkl;abcd = Σ λ_α λ_β λ_γ (∂_α∂_β∂_γ z_ia) ∂_α z_jb ∂_β z_kc ∂_γ z_ld
    ddII_ijkl;abcd = Σ λ_α λ_β λ_γ (∂_α∂_γ z_ia) (∂_β∂_γ z_jb) ∂_α z_kc ∂_β z_ld

The chain rule is that of `differentials`: a weight or bias of the new layer occurs once, and only for the neuron of its
row, whatever the input. With M_b = W diag σ′_b, G_K,ma = Σ_p M_c,kp H_pm;ca, w = λ_w/n and sums over the old layer's m:

    dH′_ijk;abc = Σ_m W_im [σ′_ma E_m;jk;abc + σ″_ma G_J,ma G_K,ma] + δ_ij g_ab,K + δ_ik g_ac,J
        E_m;jk;abc = M_b dH_m;abc M_cᵀ,  g_ab,K = w Σ_m σ′_ma σ_mb G_K,ma
    ddI′_ijkl;abcd = Σ_m W_im [σ′_ma M_b⊗M_c⊗M_d ddI_m;abcd + σ″_ma (E_m;jk;abc G_L,ma + E_m;jl;abd G_K,ma
        + E_m;kl;acd G_J,ma) + σ‴_ma G_J,ma G_K,ma G_L,ma] + δ_ij X_ab,KL + δ_ik X_ac,JL + δ_il X_ad,JK
        X_ab,KL = w Σ_m σ_mb (σ′_ma E_m;kl;acd + σ″_ma G_K,ma G_L,ma)

and with the vectors φ_ma,K = σ′_ma Σ_p M_c,kp ψ_ma,pc + σ″_ma G_K,ma ∂z_ma and u_ac = Σ_m σ′_ma σ_mc ∂z_ma,

    ψ′_ia,K = Σ_m W_im φ_ma,K + w δ_ik u_ac,  ddII′_ijkl;abcd = ψ′_IK · ψ′_JL + w δ_ij Σ_m σ′_ma σ′_mb G_K,ma G_L,mb.

A tensor is stored as T[a, b, …, i, j, …] for every pattern of inputs; those that a symmetry relates are computed once.
A layer costs of the order of P⁴ n⁵ operations and 16 P⁴ n⁴ bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np

Blocks = dict[tuple[int, ...], np.ndarray]  # by the inputs of its indices


def push_differentials(
    H: np.ndarray,
    old: Sequence[np.ndarray | None],
    weights: np.ndarray,
    sigma: Sequence[np.ndarray],
    w: float,
    order: int,
) -> list[np.ndarray]:
    """[dH′], or [dH′, ddI′, ddII′] for order 3, from H (P, P, n, n) and old = (dH, ddI, ddII) of the layer before,
    None for zero. sigma: σ, σ′, σ″ and, for order 3, σ‴ of the old preactivations, (P, n) each; w = λ_w/n."""
    step = _Step(H, weights, sigma, w)
    dH, ddI, ddII = old
    E = step.between(dH)
    found = [step.first(E)]
    if order > 2:
        found += [step.third(E, ddI), step.gram(dH, ddII)]
    return found


class _Step:
    """What the terms of one layer share."""

    def __init__(self, H: np.ndarray, W: np.ndarray, sigma: Sequence[np.ndarray], w: float) -> None:
        self.H, self.W, self.w, self.s, self.d1, self.d2 = H, W, w, *sigma[:3]
        self.d3 = sigma[-1]
        self.inputs, (self.new, self.old) = len(H), W.shape
        self.M = W * self.d1[:, None, :]
        self.G = np.matmul(self.M[:, None], H)  # G[c, a, k, m] = G_K,ma
        self.i = np.arange(self.new)

    def between(self, dH: np.ndarray | None) -> Blocks:
        """E[a, b, c][m, j, k] for b ≤ c."""
        found: Blocks = {}
        shape = self.old, self.new, self.new
        for a, (b, c) in product(range(self.inputs), self._sorted(2)):
            found[a, b, c] = np.zeros(shape) if dH is None else self.M[b] @ dH[a, b, c] @ self.M[c].T
        return found

    def _sorted(self, count: int) -> list[tuple[int, ...]]:
        return list(combinations_with_replacement(range(self.inputs), count))

    def _curved(self, a: int, b: int, c: int, E: Blocks) -> np.ndarray:
        """σ′ E + σ″ G G of (m, j, k), b ≤ c."""
        Gb, Gc = self.G[b, a].T, self.G[c, a].T
        bent = (self.d2[a][:, None] * Gb)[:, :, None] * Gc[:, None, :]
        return self.d1[a][:, None, None] * E[a, b, c] + bent

    def _out(self, inner: np.ndarray) -> np.ndarray:
        """Σ_m W_im inner_m…"""
        return (self.W @ inner.reshape(self.old, -1)).reshape(self.new, *inner.shape[1:])

    def first(self, E: Blocks) -> np.ndarray:
        P, n, i = self.inputs, self.new, self.i
        new = np.empty((P, P, P, n, n, n))
        for a, (b, c) in product(range(P), self._sorted(2)):
            block = self._out(self._curved(a, b, c, E))
            block[i, i, :] += self.w * (self.G[c, a] @ (self.d1[a] * self.s[b]))
            block[i, :, i] += self.w * (self.G[b, a] @ (self.d1[a] * self.s[c]))
            new[a, b, c] = block
            new[a, c, b] = block.transpose(0, 2, 1)
        return new

    def third(self, E: Blocks, ddI: np.ndarray | None) -> np.ndarray:
        P, n, i = self.inputs, self.new, self.i
        new, inner = np.empty((P,) * 4 + (n,) * 4), np.empty((self.old, n, n, n))
        for a in range(P):
            inner_two = {(c, d): self._curved(a, c, d, E) for c, d in self._sorted(2)}
            for b, c, d in self._sorted(3):
                for m in range(self.old):  # what is added up then stays in a cache
                    Gb, Gc, Gd = (self.G[x, a][:, m] for x in (b, c, d))
                    d1, d2, d3 = self.d1[a, m], self.d2[a, m], self.d3[a, m]
                    inner[m] = (d2 * E[a, c, d][m] + d3 * np.outer(Gc, Gd)) * Gb[:, None, None]
                    inner[m] += (d2 * E[a, b, c][m])[:, :, None] * Gd
                    inner[m] += (d2 * E[a, b, d][m])[:, None, :] * Gc[:, None]
                    if ddI is not None:
                        one = (d1 * self.M[b]) @ ddI[a, b, c, d][m].reshape(self.old, -1)
                        inner[m] += np.matmul(self.M[c], one.reshape(n, self.old, self.old)) @ self.M[d].T
                block = self._out(inner)
                for k, own, rest in ((1, b, (c, d)), (2, c, (b, d)), (3, d, (b, c))):
                    where: list[Any] = [slice(None)] * 4
                    where[0] = where[k] = i
                    block[tuple(where)] += self.w * np.tensordot(self.s[own], inner_two[rest], axes=1)
                for order in set(permutations(range(3))):
                    place = tuple((b, c, d)[x] for x in order)
                    new[(a, *place)] = block.transpose(0, *(1 + x for x in order))
        return new

    def gram(self, dH: np.ndarray | None, ddII: np.ndarray | None) -> np.ndarray:
        P, n = self.inputs, self.new
        new, half = np.empty((P,) * 4 + (n,) * 4), np.empty((self.old, n, n, n))
        pairs = list(product(range(P), repeat=2))
        F: Blocks = {}  # F[a, c, b][m, k, s] = Σ_p M_c,kp dH_mps;acb
        if dH is not None:
            F = {(a, c, b): np.matmul(self.M[c], dH[a, c, b]) for a, c, b in product(range(P), repeat=3)}
        for number, (a, c) in enumerate(pairs):
            for b, d in pairs[number:]:
                block = self._gram(a, b, c, d, F, None if ddII is None else ddII[a, b, c, d], half)
                new[a, b, c, d] = block
                new[b, a, d, c] = block.transpose(1, 0, 3, 2)
        return new

    def _gram(
        self, a: int, b: int, c: int, d: int, F: Blocks, ddII: np.ndarray | None, half: np.ndarray
    ) -> np.ndarray:
        """ddII′ of one pattern: φ_ma,K · φ_nb,L, both W's, and the terms with a delta."""
        n, i, w, Gb = self.new, self.i, self.w, self.G[d, b].T  # Gb[n, l]
        d1b, d2b = self.d1[b], self.d2[b]
        for m in range(self.old):  # of (n, k, l)
            Ga, d1, d2 = self.G[c, a][:, m], self.d1[a, m], self.d2[a, m]
            left = (d2 * d2b * self.H[a, b][m])[:, None] * Ga
            if F:
                left += (d1 * d2b)[:, None] * F[a, c, b][m].T
            inner = left[:, :, None] * Gb[:, None, :]
            if F:
                right = (d2 * d1b)[:, None] * F[b, d, a][:, :, m]
                inner += Ga[:, None] * right[:, None, :]
            if ddII is not None:
                inner += np.matmul(self.M[c], ddII[m]) @ self.M[d].T * (d1 * d1b)[:, None, None]
            np.matmul(self.W, inner.reshape(self.old, -1), out=half[m].reshape(n, -1))
        new = self._out(half)
        r, q = self.d1[a] * self.s[c], d1b * self.s[d]
        new[i, :, i] += w * self.W @ self._along(b, d, a, r, F)  # k = i: u_ac with Σ_n W_jn φ_nb,L
        new[:, i, :, i] += w * self.W @ self._along(a, c, b, q, F)  # l = j
        new[i[:, None], i, i[:, None], i] += w * w * (r @ self.H[a, b] @ q)
        new[i, i] += w * ((self.G[c, a] * (self.d1[a] * d1b)) @ self.G[d, b].T)
        return new

    def _along(self, b: int, d: int, a: int, r: np.ndarray, F: Blocks) -> np.ndarray:
        """φ_nb,L · Σ_m r_m ∂z_ma of (n, l)."""
        found = (self.d2[b] * (self.H[b, a] @ r))[:, None] * self.G[d, b].T
        if F:
            found += self.d1[b][:, None] * (F[b, d, a] @ r)
        return found
