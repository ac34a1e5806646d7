"""One layer of the tangent kernel and its differentials of a finite network, at every pattern of its inputs.

Each index of a neuron has an input of its own, i of a, j of b, k of c, l of d (K = k at c, and so on):

    dH_ijk;abc = Σ λ_α λ_β (∂_α∂_β z_ia) ∂_α z_jb ∂_β z_kc
    ddI_ijkl;abcd = Σ λ_α λ_β λ_γ (∂_α∂_β∂_γ z_ia) ∂_α z_jb ∂_β z_kc ∂_γ z_ld
    ddII_ijkl;abcd = Σ λ_α λ_β λ_γ (∂_α∂_γ z_ia) (∂_β∂_γ z_jb) ∂_α z_kc ∂_β z_ld

A new layer's own weights enter z linearly, so no derivative is taken with respect to two of them, and a term with one
carries a Kronecker delta, whatever the inputs. With M_b = W diag σ′_b, G_K,ma = Σ_p M_c,kp H_pm;ca, w = λ_w/n and sums
over the old layer's m:

    H′_ij;ab = G_a M_bᵀ + (λ_b + w Σ_m σ_ma σ_mb) δ_ij
    dH′_ijk;abc = Σ_m W_im [σ′_ma E_m;jk;abc + σ″_ma G_J,ma G_K,ma] + δ_ij g_ab,K + δ_ik g_ac,J
        E_m;jk;abc = M_b dH_m;abc M_cᵀ,  g_ab,K = w Σ_m σ′_ma σ_mb G_K,ma
    ddI′_ijkl;abcd = Σ_m W_im [σ′_ma M_b⊗M_c⊗M_d ddI_m;abcd + σ″_ma (E_m;jk;abc G_L,ma + E_m;jl;abd G_K,ma
        + E_m;kl;acd G_J,ma) + σ‴_ma G_J,ma G_K,ma G_L,ma] + δ_ij X_ab,KL + δ_ik X_ac,JL + δ_il X_ad,JK
        X_ab,KL = w Σ_m σ_mb (σ′_ma E_m;kl;acd + σ″_ma G_K,ma G_L,ma)

and with the vectors φ_ma,K = σ′_ma Σ_p M_c,kp ψ_ma,pc + σ″_ma G_K,ma ∂z_ma and u_ac = Σ_m σ′_ma σ_mc ∂z_ma,

    ψ′_ia,K = Σ_m W_im φ_ma,K + w δ_ik u_ac,  ddII′_ijkl;abcd = ψ′_IK · ψ′_JL + w δ_ij Σ_m σ′_ma σ′_mb G_K,ma G_L,mb.

(With the product f · g = Σ_γ λ_γ f_γ g_γ and the vectors ψ_ia,kc = Σ_α λ_α (∂_α∂_γ z_ia) ∂_α z_kc, ddII_IJKL is
ψ_IK · ψ_JL, dH_IKS is ψ_IK · ∂z_S and H_MS is ∂z_M · ∂z_S.)

A tensor is stored as T[a, b, …, i, j, …] for every pattern of inputs; those that a symmetry relates are computed once,
and so are the entries of a pattern that it relates.
A layer costs of the order of P⁴ n⁵ operations and 16 P⁴ n⁴ bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations_with_replacement, permutations, product
from typing import Any

import numpy as np

Blocks = dict[tuple[int, ...], np.ndarray]  # by the inputs of its indices


class Scratch:
    """Arrays used again at every layer: fresh pages for n⁴ numbers cost as much as what fills them."""

    def __init__(self) -> None:
        self._kept: dict[str, np.ndarray] = {}

    def take(self, name: str, *shape: int) -> np.ndarray:
        if name not in self._kept or self._kept[name].shape != shape:
            self._kept[name] = np.empty(shape)
        return self._kept[name]


@lru_cache(maxsize=8)
def _triples(n: int) -> tuple[np.ndarray, ...]:
    """Of the triples j ≤ k ≤ l < n: j, k, l, jn + k, jn + l, kn + l, the number among them of every place of (n, n, n)
    with its indices in order, all j ≤ k as jn + k, and the flat places of the triples in (those, n)."""
    ordered = np.sort(np.indices((n, n, n)).reshape(3, -1), axis=0)
    packed, number = np.unique((ordered[0] * n + ordered[1]) * n + ordered[2], return_inverse=True)
    j, k, l = np.unravel_index(packed, (n, n, n))
    pairs, row = np.unique(j * n + k, return_inverse=True)
    return j, k, l, j * n + k, j * n + l, k * n + l, number, pairs, row * n + l


class ChainRuleStep:
    """What the terms of one layer share: the old layer's H (P, P, n, n); σ, σ′, σ″, σ‴ of its preactivations, (P, n)
    each, as many as are needed; w = λ_w/n. dH, ddI and ddII of the old layer are None for zero."""

    def __init__(self, H: np.ndarray, W: np.ndarray, sigma: Sequence[np.ndarray], w: float, scratch: Scratch) -> None:
        self.H, self.W, self.w, self.scratch = H, W, w, scratch
        self.s, self.d1, *bent = sigma
        self.d2, self.d3, *_ = (*bent, self.d1, self.d1)  # a low order asks for none of the two
        self.inputs, (self.new, self.old) = len(H), W.shape
        self.M = W * self.d1[:, None, :]
        self.G = np.matmul(self.M[:, None], H)  # G[c, a, k, m] = G_K,ma
        self.i = np.arange(self.new)

    def kernel(self, lam_b: float) -> np.ndarray:
        """H′."""
        own = lam_b + self.w * (self.s @ self.s.T)
        new = np.empty((self.inputs, self.inputs, self.new, self.new))
        for a, b in self._sorted(2):
            np.matmul(self.G[a, b], self.M[b].T, out=new[a, b])
            new[a, b][self.i, self.i] += own[a, b]
            if b > a:
                new[b, a] = new[a, b].T
        return new

    def differentials(self, old: Sequence[np.ndarray | None], order: int) -> list[np.ndarray]:
        """[dH′], or [dH′, ddI′, ddII′] for order 3, from old = (dH, ddI, ddII) of the layer before."""
        dH, ddI, ddII = old
        E = self.between(dH)
        found = [self.first(E)]
        if order > 2:
            found += [self.third(E, ddI), self.gram(dH, ddII)]
        return found

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
        new = np.empty((P,) * 4 + (n,) * 4)
        for a in range(P):
            inner_two = {(c, d): self._curved(a, c, d, E) for c, d in self._sorted(2)}
            for b, c, d in self._sorted(3):
                old = None if ddI is None else ddI[a, b, c, d]
                block = self._third_of_one(a, b, E, old) if b == d else self._third(a, (b, c, d), E, old)
                for k, own, rest in ((1, b, (c, d)), (2, c, (b, d)), (3, d, (b, c))):
                    where: list[Any] = [slice(None)] * 4
                    where[0] = where[k] = i
                    block[tuple(where)] += self.w * np.tensordot(self.s[own], inner_two[rest], axes=1)
                orders = {tuple((b, c, d)[x] for x in order): order for order in permutations(range(3))}
                for place, order in orders.items():
                    new[(a, *place)] = block.transpose(0, *(1 + x for x in order))
        return new

    def _third(self, a: int, others: tuple[int, int, int], E: Blocks, old: np.ndarray | None) -> np.ndarray:
        """ddI′ of one pattern but for the terms with a delta."""
        n, (b, c, d) = self.new, others
        inner = self.scratch.take("third", self.old, n, n, n)
        for m in range(self.old):  # what is added up then stays in a cache
            Gb, Gc, Gd = (self.G[x, a][:, m] for x in others)
            d1, d2, d3 = self.d1[a, m], self.d2[a, m], self.d3[a, m]
            inner[m] = (d2 * E[a, c, d][m] + d3 * np.outer(Gc, Gd)) * Gb[:, None, None]
            inner[m] += (d2 * E[a, b, c][m])[:, :, None] * Gd
            inner[m] += (d2 * E[a, b, d][m])[:, None, :] * Gc[:, None]
            if old is not None:
                one = (d1 * self.M[b]) @ old[m].reshape(self.old, -1)
                inner[m] += np.matmul(self.M[c], one.reshape(n, self.old, self.old)) @ self.M[d].T
        return self._out(inner)

    def _third_of_one(self, a: int, b: int, E: Blocks, old: np.ndarray | None) -> np.ndarray:
        """`_third` where j, k and l have one input, so that only j ≤ k ≤ l goes through W."""
        n, M = self.new, self.M[b]
        j, k, l, jk, jl, kl, number, pairs, places = _triples(n)
        inner = self.scratch.take("packed", self.old, j.size)
        for m in range(self.old):
            g, d1, d2, d3 = np.ascontiguousarray(self.G[b, a][:, m]), self.d1[a, m], self.d2[a, m], self.d3[a, m]
            sym = (d2 * E[a, b, b][m] + (d3 / 3) * np.outer(g, g)).ravel()
            inner[m] = sym[jk] * g[l] + sym[jl] * g[k] + sym[kl] * g[j]
            if old is not None:
                half = (M @ old[m].reshape(self.old, -1)).reshape(n, self.old, self.old)
                twice = np.matmul(M, half).reshape(-1, self.old)
                inner[m] += d1 * (twice[pairs] @ M.T).ravel()[places]
        rows, new = self.W @ inner, np.empty((n,) * 4)
        for i in range(n):
            np.take(rows[i], number, out=new[i].reshape(-1), mode="clip")  # "raise" would copy `out`
        return new

    def gram(self, dH: np.ndarray | None, ddII: np.ndarray | None) -> np.ndarray:
        P, n = self.inputs, self.new
        new = np.empty((P,) * 4 + (n,) * 4)
        pairs = list(product(range(P), repeat=2))
        F: Blocks = {}  # F[a, c, b][m, k, s] = Σ_p M_c,kp dH_mps;acb
        if dH is not None:
            F = {(a, c, b): np.matmul(self.M[c], dH[a, c, b]) for a, c, b in product(range(P), repeat=3)}
        for number, (a, c) in enumerate(pairs):
            for b, d in pairs[number:]:
                old = None if ddII is None else ddII[a, b, c, d]
                block = self._gram_of_one(a, c, F, old) if (a, c) == (b, d) else self._gram(a, b, c, d, F, old)
                new[b, a, d, c] = block.transpose(1, 0, 3, 2)
                new[a, b, c, d] = block
        return new

    def _gram(self, a: int, b: int, c: int, d: int, F: Blocks, ddII: np.ndarray | None) -> np.ndarray:
        """ddII′ of one pattern: φ_ma,K · φ_nb,L, both W's, and the terms with a delta."""
        n, i, w, Gb = self.new, self.i, self.w, self.G[d, b].T  # Gb[n, l]
        d1b, d2b = self.d1[b], self.d2[b]
        half = self.scratch.take("half", self.old, n, n, n)
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

    def _gram_of_one(self, a: int, c: int, F: Blocks, old: np.ndarray | None) -> np.ndarray:
        """`_gram` at b = a, d = c: half of it, with φ_m · φ_q for q ≥ m only, and then the exchange of both added."""
        n_out, n, W, M, w, H, i = self.new, self.old, self.W, self.M[c], self.w, self.H[a, a], self.i
        d1, d2, G = self.d1[a], self.d2[a], self.G[c, a]
        Gt = np.ascontiguousarray(G.T)
        half = self.scratch.take("half", n, n_out, n_out, n_out)
        left = self.scratch.take("left", n, n_out, n + 2)  # left[q] right[q] = φ_m · φ_q, its k and l
        right = self.scratch.take("right", n, n + 2, n_out)
        right[:, :n] = d1[:, None, None] * M.T
        right[:, n] = Gt
        for m in range(n):
            if old is None:
                left[m:, :, :n] = 0.0
            else:
                np.matmul(d1[m] * M, old[m, m:], out=left[m:, :, :n])
            both = (0.5 * d2[m]) * d2[m:] * H[m, m:]
            left[m:, :, n] = both[:, None] * Gt[m]
            left[m:, :, n + 1] = Gt[m]
            right[m:, n + 1] = both[:, None] * Gt[m:]
            if F:
                left[m:, :, n] += (d1[m] * d2[m:])[:, None] * F[a, c, a][m, :, m:].T
                right[m:, n + 1] += (d2[m] * d1[m:])[:, None] * F[a, c, a][m:, :, m]
            block = np.matmul(left[m:], right[m:])
            block[0] *= 0.5
            np.matmul(W[:, m:], block.reshape(n - m, -1), out=half[m].reshape(n_out, -1))
        new, r = self._out(half), d1 * self.s[c]
        new[:, i, :, i] += w * (W @ self._along(a, c, a, r, F))
        new[i[:, None], i, i[:, None], i] += 0.5 * w * w * (r @ H @ r)
        new[i, i] += 0.5 * w * ((G * (d1 * d1)) @ Gt)
        for k in range(n_out):
            new[k, k:] += new[k:, k].transpose(0, 2, 1)
            new[k:, k] = new[k, k:].transpose(0, 2, 1)
        return new

    def _along(self, b: int, d: int, a: int, r: np.ndarray, F: Blocks) -> np.ndarray:
        """φ_nb,L · Σ_m r_m ∂z_ma of (n, l)."""
        found = (self.d2[b] * (self.H[b, a] @ r))[:, None] * self.G[d, b].T
        if F:
            found += self.d1[b][:, None] * (F[b, d, a] @ r)
        return found
