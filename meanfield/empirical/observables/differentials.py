"""Tangent kernel, its differential and its two second differentials of one finite network, as dense tensors.

z¹ = W¹x + b¹, z^{l+1} = W^{l+1} σ(z^l) + b^{l+1}. Sums run over the parameters a, b, c up to the layer, each with its
rate λ: λ_w/fan-in for a weight, λ_b for a bias. Indices i, j, k, l are neurons of the layer.

    H_ij = Σ λ_a ∂_a z_i ∂_a z_j
    dH_ijk = Σ λ_a λ_b (∂_a∂_b z_i) ∂_a z_j ∂_b z_k
    ddI_ijkl = Σ λ_a λ_b λ_c (∂_a∂_b∂_c z_i) ∂_a z_j ∂_b z_k ∂_c z_l
    ddII_ijkl = Σ λ_a λ_b λ_c (∂_a∂_c z_i) (∂_b∂_c z_j) ∂_a z_k ∂_b z_l

A new layer's own weights enter z linearly, so no derivative is taken with respect to two of them, and a term with one
carries a Kronecker delta. With M = W diag σ′, G = M H, w = λ_w/n, r = σσ′, the old layer's n neurons m, p, s:

    H′ = G Mᵀ + (λ_b + w σ·σ) 1
    dH′_ijk = Σ_m W_im [σ′_m E_m;jk + σ″_m G_jm G_km] + w (δ_ij g_k + δ_ik g_j),  E_m = M dH_m Mᵀ,  g = G r
    ddI′_ijkl = Σ_m W_im [σ′_m (M⊗M⊗M ddI_m)_jkl + σ″_m (E_m;jk G_lm + E_m;jl G_km + E_m;kl G_jm)
        + σ‴_m G_jm G_km G_lm] + δ_ij X_kl + δ_ik X_jl + δ_il X_jk,  X = w Σ_m σ_m (σ′_m E_m + σ″_m G_m G_mᵀ)

Of several inputs every index has its own, see `mixed`; what follows is one input, where symmetries save more.
With the product f · g = Σ_c λ_c f_c g_c and the vectors ψ_ik = Σ_a λ_a (∂_a∂_c z_i) ∂_a z_k, ddII_ijkl = ψ_ik · ψ_jl,
dH_iks = ψ_ik · ∂z_s and H_ms = ∂z_m · ∂z_s. Of φ_mk = σ′_m Σ_p M_kp ψ_mp + σ″_m G_km ∂z_m and u = Σ_s r_s ∂z_s,

    ψ_ik = Σ_m W_im φ_mk + w δ_ik u,  ddII′_ijkl = ψ_ik · ψ_jl + w δ_ij Σ_s σ′_s² G_ks G_ls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import zip_longest
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.reference_functions import derivatives
from meanfield.empirical.network.operations.operation_derivatives import Slope
from meanfield.empirical.network.operations.operation_walk import Linear, Site
from meanfield.empirical.network.operations.operations import Map
from meanfield.empirical.network.operations.weighted import Weighted
from meanfield.empirical.observables.mixed import push_differentials

Derivatives = Callable[[np.ndarray], Sequence[np.ndarray]]
_END = object()


@dataclass(frozen=True, eq=False)
class LayerTensors:
    """z (P, n), H[α, β, i, j] (P, P, n, n), and dH[α, β, γ, i, j, k], ddI and ddII[α, β, γ, δ, i, j, k, l] or None, of
    one layer at P inputs: an input for each neuron's index, in their order.

    Each index goes with its input: dH is symmetric in its last two, ddI in its last three, ddII under the exchange of
    (i, k) with (j, l).
    """

    z: np.ndarray
    H: np.ndarray
    dH: np.ndarray | None = None
    ddI: np.ndarray | None = None
    ddII: np.ndarray | None = None


def differentials(
    weights: Iterable[np.ndarray],
    biases: Iterable[np.ndarray | None],
    inputs: np.ndarray,
    derivatives: Derivatives,
    rate_w: Sequence[float],
    rate_b: Sequence[float],
    order: int,
) -> Iterator[LayerTensors]:
    """The tensors of layers 1, 2, …; nothing of earlier layers is kept.

    `weights`: W^l (n_l, n_{l−1}) as it multiplies σ; `biases`: b^l (n_l,), None for zeros that are trained all the
    same; `inputs`: (P, n_0); `operation_derivatives`: z → (σ, σ′, …) up to the derivative number `order`, elementwise;
    `rate_w`, `rate_b`: λ_w^l and λ_b^l. Order 1 gives H, 2 also dH, 3 also ddI and ddII, in O(P⁴ n⁵) steps a layer.
    An overflow is carried on as a number that is not finite. Raises `MeanFieldError` for shapes that do not fit.
    """
    if order not in (1, 2, 3):
        raise MeanFieldError(f"The order must be 1 (H), 2 (dH) or 3 (ddI and ddII), but {order!r} was given.")
    x = np.asarray(inputs, dtype=float)
    if x.ndim != 2 or 0 in x.shape:
        raise MeanFieldError(f"The inputs must have shape (P, n_0), one row each, but their shape is {x.shape}.")
    if len(rate_w) != len(rate_b):
        raise MeanFieldError(
            f"rate_w and rate_b must have one number for each layer, but they have {len(rate_w)} and {len(rate_b)}."
        )
    return _layers(weights, biases, x, derivatives, list(zip(rate_w, rate_b)), order)


def _layers(
    weights: Iterable[np.ndarray],
    biases: Iterable[np.ndarray | None],
    x: np.ndarray,
    derivatives: Derivatives,
    rates: list[tuple[float, float]],
    order: int,
) -> Iterator[LayerTensors]:
    carried = Differentials(x, order)
    rows: Iterator[tuple[Any, ...]] = zip_longest(weights, biases, rates, fillvalue=_END)
    for layer, row in enumerate(rows, start=1):
        if any(entry is _END for entry in row):
            lacks = ("weights", "a bias (an array, or None)", "rates")[[entry is _END for entry in row].index(True)]
            raise MeanFieldError(f"Every layer needs weights, a bias and rates, but layer {layer} has not got {lacks}.")
        if layer > 1:
            carried.bend(derivatives)
        yield carried.weigh(row[0], row[1], *row[2])


class Differentials(Linear):
    """The tensors, carried through Dense(φ(z)): `tensors` are those of the last preactivations, None before them."""

    def __init__(self, x: np.ndarray, order: int) -> None:
        super().__init__(None)
        self._x, self._order, self._scratch, self._made = x, order, _Scratch(), 0
        self._sigma: list[np.ndarray] = []

    @property
    def tensors(self) -> LayerTensors:
        return self._stack[-1]

    def apply(self, site: Site) -> None:
        operation: Any = site.operation
        match site.derivative:
            case Slope() if isinstance(operation, Map) and self._made:
                self.bend(derivatives(operation.pair, 3 if self._order > 1 else 1))
            case Weighted(y) as given:
                w, b = site.weights.whole(operation, site, (given.shape[1], y.shape[1]))
                step_w, step_b = site.weights.steps(operation, site.layer)
                self.weigh(w, b, step_w**2, step_b**2)
            case _:
                raise MeanFieldError(
                    f"These differentials go through Dense(φ(z)) alone, but {operation!r} was met; see `jet_kernels`."
                )

    def bend(self, derivatives: Derivatives) -> None:
        """Go through φ: derivatives(z) are σ, σ′, …."""
        before = self.tensors.z
        with np.errstate(all="ignore"):
            sigma = derivatives(before)
        if len(sigma) <= self._order:
            raise MeanFieldError(
                f"Order {self._order} needs σ and its first {self._order} derivatives, but `derivatives` gave "
                f"{len(sigma)} arrays; give the others or lower the order."
            )
        self._sigma = [np.broadcast_to(np.asarray(f, dtype=float), before.shape) for f in sigma]

    def weigh(self, weights: Any, bias: Any, lam_w: float, lam_b: float) -> LayerTensors:
        """Go through a Dense."""
        self._made += 1
        before = self._x if self._made == 1 else self.tensors.z
        W, b = _parameters(self._made, before.shape[1], weights, bias)
        with np.errstate(all="ignore"):
            if self._made == 1:
                made = _first(self._x, W, b, lam_w / before.shape[1], lam_b, self._order)
            else:
                push = _Push(self.tensors, W, self._sigma, lam_w / before.shape[1], self._scratch)
                made = push.tensors(b, lam_b, self._order, started=self._made > 2)
        self._stack = [made]
        return made


def _parameters(layer: int, fan_in: int, weights: Any, bias: Any) -> tuple[np.ndarray, np.ndarray | float]:
    W = np.asarray(weights, dtype=float)
    if W.ndim != 2 or W.shape[1] != fan_in or not len(W):
        raise MeanFieldError(
            f"The weights of layer {layer} must have shape (n, {fan_in}), a column for each number they act on, but "
            f"their shape is {W.shape}."
        )
    if bias is None:
        return W, 0.0
    b = np.asarray(bias, dtype=float)
    if b.shape != (len(W),):
        raise MeanFieldError(f"The bias of layer {layer} must have shape ({len(W)},), but its shape is {b.shape}.")
    return W, b


def _first(x: np.ndarray, W: np.ndarray, b: np.ndarray | float, w: float, lam_b: float, order: int) -> LayerTensors:
    n, P = len(W), len(x)
    H = (lam_b + w * (x @ x.T))[:, :, None, None] * np.eye(n)
    dH = np.zeros((P,) * 3 + (n,) * 3) if order > 1 else None
    ddI, ddII = (np.zeros((P,) * 4 + (n,) * 4) if order > 2 else None for _ in range(2))
    return LayerTensors(x @ W.T + b, H, dH, ddI, ddII)


class _Scratch:
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


class _Push:
    """One layer forward: what its terms share, at input 0 but for M; dH, ddI and ddII here are of a single input."""

    def __init__(self, old: LayerTensors, W: np.ndarray, sigma: list[np.ndarray], w: float, scratch: _Scratch) -> None:
        self.old, self.W, self.w, self.scratch, self.sigma = old, W, w, scratch, sigma
        self.Ms = W * sigma[1][:, None, :]
        self.M, self.G = self.Ms[0], self.Ms[0] @ old.H[0, 0]

    def tensors(self, b: np.ndarray | float, lam_b: float, order: int, started: bool) -> LayerTensors:
        """Those of the new layer; `started` is False where dH, ddI and ddII of the old one are zero."""
        z, H = self.sigma[0] @ self.W.T + b, self._kernel(lam_b)
        old = self.old
        if order == 1 or old.dH is None:
            return LayerTensors(z, H)
        if len(z) > 1:
            before = (old.dH, old.ddI, old.ddII) if started else (None, None, None)
            return LayerTensors(z, H, *push_differentials(old.H, before, self.W, self.sigma, self.w, order))
        F = np.matmul(self.M, old.dH[0, 0, 0])  # F[m, k, s] = Σ_p M_kp dH_mps
        E = np.matmul(F, self.M.T)
        s, d1, d2 = (f[0] for f in self.sigma[:3])
        G, w, i = self.G, self.w, np.arange(len(self.W))
        Gt = np.ascontiguousarray(G.T)
        curved = d2[:, None, None] * (Gt[:, :, None] * Gt[:, None, :])
        inner = d1[:, None, None] * E + curved
        dH = self._out(inner)
        g = w * (G @ (s * d1))
        dH[i, i, :] += g
        dH[i, :, i] += g
        if order == 2:
            return LayerTensors(z, H, dH[None, None, None])
        X = w * np.tensordot(s, inner, axes=1)
        one = 0, 0, 0, 0
        ddI = self._third(E, Gt, d1, d2, self.sigma[3][0], old.ddI[one] if started and old.ddI is not None else None)
        ddI[i, i, :, :] += X
        ddI[i, :, i, :] += X
        ddI[i, :, :, i] += X
        ddII = self._gram(F, Gt, s, d1, d2, old.ddII[one] if started and old.ddII is not None else None)
        return LayerTensors(z, H, dH[None, None, None], ddI[None, None, None, None], ddII[None, None, None, None])

    def _kernel(self, lam_b: float) -> np.ndarray:
        inputs, n = self.sigma[0].shape[0], len(self.W)
        own = lam_b + self.w * (self.sigma[0] @ self.sigma[0].T)
        H = np.empty((inputs, inputs, n, n))
        for a in range(inputs):
            for b in range(a, inputs):
                G = self.Ms[a] @ self.old.H[a, b] if b else self.G
                np.matmul(G, self.Ms[b].T, out=H[a, b])
                H[a, b][np.diag_indices(n)] += own[a, b]
                if b > a:
                    H[b, a] = H[a, b].T
        return H

    def _out(self, inner: np.ndarray) -> np.ndarray:
        """Σ_m W_im inner_m…"""
        return (self.W @ inner.reshape(len(inner), -1)).reshape(len(self.W), *inner.shape[1:])

    def _third(self, E, Gt, d1, d2, d3, old: np.ndarray | None) -> np.ndarray:
        """ddI′ but for the terms with a delta; only j ≤ k ≤ l goes through W."""
        (n_out, n), M = self.W.shape, self.M
        j, k, l, jk, jl, kl, number, pairs, places = _triples(n_out)
        inner = self.scratch.take("packed", n, j.size)
        for m in range(n):
            g = Gt[m]
            sym = (d2[m] * E[m] + (d3[m] / 3) * np.outer(g, g)).ravel()
            inner[m] = sym[jk] * g[l] + sym[jl] * g[k] + sym[kl] * g[j]
            if old is not None:
                twice = np.matmul(M, (M @ old[m].reshape(n, n * n)).reshape(n_out, n, n)).reshape(-1, n)
                inner[m] += d1[m] * (twice[pairs] @ M.T).ravel()[places]
        rows = self.W @ inner
        new = np.empty((n_out,) * 4)
        for i in range(n_out):
            np.take(rows[i], number, out=new[i].reshape(-1), mode="clip")  # "raise" would copy `out`
        return new

    def _gram(self, F, Gt, s, d1, d2, old: np.ndarray | None) -> np.ndarray:
        """ddII′: half of it, with φ_m · φ_q for q ≥ m only, and then the exchange of both added."""
        (n_out, n), W, M, w, H = self.W.shape, self.W, self.M, self.w, self.old.H[0, 0]
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
            left[m:, :, n] = (d1[m] * d2[m:])[:, None] * F[m, :, m:].T + both[:, None] * Gt[m]
            left[m:, :, n + 1] = Gt[m]
            right[m:, n + 1] = (d2[m] * d1[m:])[:, None] * F[m:, :, m] + both[:, None] * Gt[m:]
            block = np.matmul(left[m:], right[m:])
            block[0] *= 0.5
            np.matmul(W[:, m:], block.reshape(n - m, -1), out=half[m].reshape(n_out, -1))
        new = self._out(half)
        r, i = s * d1, np.arange(n_out)
        new[:, i, :, i] += w * (W @ (d1[:, None] * (F @ r) + (d2 * (H @ r))[:, None] * Gt))  # w Σ_m W_im φ_mk · u
        new[i[:, None], i, i[:, None], i] += 0.5 * w * w * (r @ H @ r)
        new[i, i] += 0.5 * w * ((Gt.T * (d1 * d1)) @ Gt)
        for a in range(n_out):
            new[a, a:] += new[a:, a].transpose(0, 2, 1)
            new[a:, a] = new[a, a:].transpose(0, 2, 1)
        return new


def correlator_samples(t: LayerTensors) -> dict[str, np.ndarray]:
    """The averages of one network over neurons, and over ordered pairs i ≠ j, that the 1/n correlators are means of.

    S_αβ = ⟨z_iα z_iβ⟩, h_αβ = ⟨H_ii;αβ⟩ (P, P); SS, hh, B, Sh, F (P, P, P, P), indexed αβγδ: z_iα z_iβ z_jγ z_jδ,
    H_ii;αβ H_jj;γδ, H_ij;αβ H_ij;γδ, z_iα z_iβ H_jj;γδ, z_iα z_jβ H_ij;γδ; where dH is there: P = dH_ijj;αβγ z_iδ,
    Q = dH_iij;αβγ z_jδ, and where ddI is: R = ddI_iijj;αβγδ, S_dd = ddII_iijj;αβγδ, T = ddII_ijij;αβγδ,
    U = ddII_ijji;αβγδ. Their means are exact at every n, as neurons are exchangeable. Raises `MeanFieldError` for
    n = 1.
    """
    z, H = t.z, t.H
    inputs, n = z.shape
    if n < 2:
        raise MeanFieldError("Averages over pairs of neurons need a layer of at least 2, but this one has 1.")
    pairs, four = n * (n - 1), (inputs,) * 4
    zz = (z[:, None] * z[None]).reshape(-1, n)
    diagonal = np.diagonal(H, axis1=2, axis2=3).reshape(-1, n)
    off = np.where(np.eye(n, dtype=bool), 0.0, H)
    flat = off.reshape(-1, n * n)

    def apart(first: np.ndarray, second: np.ndarray) -> np.ndarray:
        """⟨first_i second_j⟩ over i ≠ j."""
        return ((first @ (second.sum(axis=1, keepdims=True) - second).T) / pairs).reshape(four)

    found = {
        "S": zz.mean(axis=1).reshape(inputs, inputs),
        "h": diagonal.mean(axis=1).reshape(inputs, inputs),
        "SS": apart(zz, zz),
        "hh": apart(diagonal, diagonal),
        "B": (flat @ flat.T / pairs).reshape(four),
        "Sh": apart(zz, diagonal),
        "F": (z @ off @ z.T / pairs).transpose(2, 3, 0, 1),
    }
    if t.dH is not None:
        found["P"] = _apart(np.einsum("abcijj,di->abcdij", t.dH, z))
        found["Q"] = _apart(np.einsum("abciij,dj->abcdij", t.dH, z))
    if t.ddI is not None and t.ddII is not None:
        found["R"] = _apart(np.einsum("...iijj->...ij", t.ddI))
        found["S_dd"], found["T"], found["U"] = (
            _apart(np.einsum(f"...{which}->...ij", t.ddII)) for which in ("iijj", "ijij", "ijji")
        )
    return found


def _apart(matrices: np.ndarray) -> np.ndarray:
    """Means of what is off the diagonals."""
    n = matrices.shape[-1]
    return np.asarray(np.where(np.eye(n, dtype=bool), 0.0, matrices).sum(axis=(-2, -1)) / (n * (n - 1)))
