"""P, Q, R, S, T, U of batches of finite networks from sums over random signs, in O(n²) steps a network and layer.

With θ_v = Λ∇(v·z), the direction in which the parameters move for a vector v on the neurons of the last layer,

    dH_ijk = D²z_i[θ_j, θ_k],  ddI_ijkl = D³z_i[θ_j, θ_k, θ_l],  ddII_ijkl = ⟨h(i, k), h(j, l)⟩,  h(u, v) = ∇²(u·z) θ_v,

⟨·,·⟩ the product with the rates. Let s be random signs on one half of the neurons and 0 elsewhere, t on the other.
Then D³(s·z)[θ_s, θ_t, θ_t] is on average the sum of ddI_iijj over i in one half, j in the other; other terms have
a sign left over. Neurons being exchangeable, that is (n/2)² times the mean over i ≠ j. So are ⟨h(s,t), h(s,t)⟩ of
ddII_iijj, ⟨h(s,s), h(t,t)⟩ of ddII_ijij, ⟨h(s,t), h(t,s)⟩ of ddII_ijji, D²(v·z)[θ_t, θ_t] of dH_ijj z_i and
⟨h(s,s), ∇(v′·z)⟩ of dH_iij z_j, where v and v′ are z on the half of s and of t. Gradients are pushed back, what moves
along θ_v forward. Axes: network, probe, sign (s or t), input, …, neuron.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

HIGHER = ("P", "Q", "R", "S_dd", "T", "U")


def _tanh(z):
    t = np.tanh(z)
    d = 1 - t * t
    return t, d, -2 * t * d, d * (6 * t * t - 2)


def _sin(z):
    s, c = np.sin(z), np.cos(z)
    return s, c, -s, -c


def _gelu(z):
    p = np.exp(-z * z / 2) / np.sqrt(2 * np.pi)
    return z * ndtr(z), ndtr(z) + z * p, (2 - z * z) * p, (z * z - 4) * z * p


JETS: dict[str, Callable] = {"tanh": _tanh, "sin": _sin, "gelu": _gelu}


@dataclass
class Networks:
    """Weights and biases of layers 1, 2, … and inputs (N, P, n), pushed once: y^k (N, P, n), y⁰ the inputs, z^k, and
    σ′, σ″, σ‴ at z^k."""

    phi: str
    W: Sequence[np.ndarray]
    b: Sequence[np.ndarray]
    x: np.ndarray
    rate_w: float = 1.0
    rate_b: float = 0.5

    def __post_init__(self) -> None:
        self.y, self.z, self.slopes = [self.x], [self.x], [()]
        for W, b in zip(self.W, self.b):
            self.z.append(self.y[-1] @ W.transpose(0, 2, 1) + b[:, None])
            value, *slopes = JETS[self.phi](self.z[-1])
            self.y.append(value)
            self.slopes.append(tuple(slopes))

    def forward(self, k: int, v: np.ndarray) -> np.ndarray:
        """W^k v on the last axis."""
        return _times(v, self.W[k - 1].transpose(0, 2, 1))

    def back(self, k: int, v: np.ndarray) -> np.ndarray:
        return _times(v, self.W[k - 1])

    def rows(self, layer: int, signs: np.ndarray) -> dict[str, np.ndarray]:
        """Estimates, indexed N, αβγδ, of the means over pairs i ≠ j in that layer; signs: (N, probes, n), ±1."""
        N, C, n = signs.shape
        P = self.x.shape[1]
        if layer == 1:
            return {name: np.zeros((N,) + (P,) * 4) for name in HIGHER}
        half = np.arange(n) < n // 2
        halves = np.stack([half, ~half])
        start = np.broadcast_to((signs[:, :, None] * halves)[:, :, :, None], (N, C, 2, P, n))
        u, delta = self._gradients(layer, start)
        # z_δ on each half, for the gradient at every input γ: axes network, 1, half, δ, γ
        weighted = np.repeat((self.z[layer][:, None, None] * halves[:, None])[:, :, :, :, None], P, axis=4)
        v, weighted_delta = self._gradients(layer, weighted)
        opposite = ({k: a[:, 0, ::-1] for k, a in part.items()} for part in (v, weighted_delta))
        pushed = _Pushed(self, layer, u, delta, *opposite)
        found = {"P": pushed.P(), "R": pushed.R()} | pushed.products()
        return {name: found[name] / (2 * C * (n // 2) * (n - n // 2)) for name in HIGHER}

    def _gradients(self, layer: int, start: np.ndarray) -> tuple[dict, dict]:
        """{k: u^k}, {k: δ^k} with δ^layer = start, u^k = W^{k+1}ᵀ δ^{k+1} and δ^k = σ′ u^k; inputs are the last axis
        but one."""
        u, delta = {}, {layer: start}
        for k in range(layer - 1, 0, -1):
            u[k] = self.back(k + 1, delta[k + 1])
            delta[k] = _at(self.slopes[k][0], u[k]) * u[k]
        return u, delta

    def along(self, k: int, v: np.ndarray) -> np.ndarray:
        """λ_w v·y^{k−1}_α/n: how a direction's own W^k moves with v before it; α is a new last axis."""
        y = self.y[k - 1]
        return self.rate_w / y.shape[2] * _times(v, y.transpose(0, 2, 1))


class _Pushed:
    """One layer's probes: u, δ and what moves along θ; v, weighted: of z on the half that the other sign is not on.

    t1, y1: what z^k, y^k of input α move along direction (sign q, input β): N, C, q, β, α, n; moved[k]: y1 before
    layer k with y_γ, λ_w/n times their product: N, C, q, β, α, γ.
    """

    def __init__(self, nets: Networks, layer: int, u: dict, delta: dict, v: dict, weighted: dict) -> None:
        self.nets, self.layer, self.u, self.delta, self.v, self.weighted = nets, layer, u, delta, v, weighted
        self.t1, self.y1, self.moved = {}, {}, {}
        for k in range(1, layer + 1):
            if k > 1:
                self.moved[k] = nets.along(k, self.y1[k - 1])
            if k < layer:
                own = nets.along(k, nets.y[k - 1][:, None])[:, 0] + nets.rate_b
                self.t1[k] = delta[k][:, :, :, :, None] * own[:, None, None, :, :, None]
                if k > 1:
                    self.t1[k] = self.t1[k] + nets.forward(k, self.y1[k - 1])
                self.y1[k] = _at(nets.slopes[k][0], self.t1[k]) * self.t1[k]

    def P(self) -> np.ndarray:
        """Sums over i in one half of z_iδ D²z_iα[θ_qβ, θ_qγ], q the signs of the other: W^k moves along one direction
        and what is before it along the other, or σ is bent."""
        total = 0.0
        for k in range(2, self.layer + 1):
            pairs = np.einsum("NCqbn,Nqdan->NCqbda", self.delta[k], self.weighted[k])
            one = np.einsum("NCqbda,NCqcab->Nabcd", pairs, self.moved[k])
            total = total + one + one.transpose(0, 1, 3, 2, 4)
        for k in range(1, self.layer):
            bend = self.v[k] * self.nets.slopes[k][1][:, None, None]
            both = np.einsum("NCqban,NCqcan->Nqabcn", self.t1[k], self.t1[k])
            total = total + np.einsum("Nqdan,Nqabcn->Nabcd", bend, both)
        return total

    def R(self) -> np.ndarray:
        """D³(s·z_α)[θ_sβ, θ_tγ, θ_tδ], and s with t exchanged."""
        total, y2 = 0.0, None
        for k in range(1, self.layer + 1):
            moved = None if y2 is None else self.nets.along(k, y2)  # q, β, r, γ, α, and the new one
            for p, t in ((0, 1), (1, 0)) if k > 1 else ():
                at_p, at_t = (self.delta[k][:, :, x] for x in (p, t))
                own, cross = at_p @ at_p.swapaxes(-1, -2), at_p @ at_t.swapaxes(-1, -2)
                total = total + _both(np.einsum("NCac,NCbdac->Nabcd", cross, moved[:, :, p, :, t]))
                total = total + np.einsum("NCab,NCcdab->Nabcd", own, moved[:, :, t, :, t])
            if k == self.layer:
                return total
            t1, (d1, d2, d3) = self.t1[k], self.nets.slopes[k]
            z2 = 0.0 * (t1[:, :, :, :, None, None] * t1[:, :, None, None])
            if k > 1:
                moved = self.moved[k].swapaxes(-1, -2)[:, :, :, :, None, :, :, None]
                one = self.delta[k][:, :, None, None, :, :, None] * moved
                z2 = one + one.transpose(0, 1, 4, 5, 2, 3, 6, 7) + self.nets.forward(k, y2)
            for p, t in ((0, 1), (1, 0)):
                c2, c3 = (self.u[k][:, :, p] * d[:, None] for d in (d2, d3))
                first, other = t1[:, :, p], t1[:, :, t]  # b and c, a, n
                total = total + _both(np.einsum("NCcan,NCbdan->Nabcd", c2[:, :, None] * other, z2[:, :, p, :, t]))
                twice = c2[:, :, None, None] * z2[:, :, t, :, t]
                twice = twice + c3[:, :, None, None] * other[:, :, :, None] * other[:, :, None]
                total = total + np.einsum("NCban,NCcdan->Nabcd", first, twice)
            y2 = _at(d1, z2) * z2 + _at(d2, z2) * (t1[:, :, :, :, None, None] * t1[:, :, None, None])

    def products(self) -> dict[str, np.ndarray]:
        """Q, S, T, U from h(p_α, θ_qγ): δ moves (by h here) and y before it (by y1); axes N, C, q, γ, p, α, n."""
        nets, layer = self.nets, self.layer
        N, C, _, P, n = self.delta[layer].shape
        G, Q, h = 0.0, 0.0, np.zeros((N, C, 2, P, 2, P, n))
        for k in range(layer, 0, -1):
            delta, flat = self.delta[k].reshape(N, C, 2 * P, n), h.reshape(N, C, 4 * P * P, n)
            deltas = delta @ delta.swapaxes(-1, -2)
            own = nets.along(k, nets.y[k - 1][:, None])[:, 0] + nets.rate_b
            kernel = (flat @ flat.swapaxes(-1, -2)).reshape(N, C, *(2, P) * 4)
            G = G + kernel * own[:, None, None, None, None, :, None, None, None, :]
            Q = Q + np.einsum("NCqbqan,Nqdcn,Nac->Nabcd", h, self.weighted[k], own, optimize=True)
            if k > 1:
                mixed = (flat @ delta.swapaxes(-1, -2)).reshape(N, C, 2, P, 2, P, 1, 1, 2, P)
                mixed = mixed * np.moveaxis(self.moved[k], -1, 2)[:, :, None, None, None, :, :, :, None]
                G = G + mixed + mixed.transpose(0, 1, 6, 7, 8, 9, 2, 3, 4, 5)
                y1 = self.y1[k - 1].reshape(N, C, 2 * P * P, n)
                squares = (nets.rate_w / n) * (y1 @ y1.swapaxes(-1, -2))
                squares = squares.reshape(N, C, 2, P, 1, P, 2, P, 1, P)
                G = G + squares * deltas.reshape(N, C, 1, 1, 2, P, 1, 1, 2, P)
                pairs = np.einsum("NCqan,Nqdcn->NCqadc", self.delta[k], self.weighted[k])
                Q = Q + np.einsum("NCqadc,NCqbac->Nabcd", pairs, self.moved[k])
                d1, d2, _ = nets.slopes[k - 1]
                back = nets.back(k, h)
                turned = deltas.reshape(N, C, 2, P, 2, P)[..., None] * nets.y[k - 1][:, None, None, :, None, None]
                back = back + (nets.rate_w / n) * turned
                bent = self.t1[k - 1][:, :, :, :, None] * self.u[k - 1][:, :, None, None]
                h = _at(d2, back) * bent + _at(d1, back) * back
        s, t = (0, 1), (1, 0)  # both ways round
        found = {
            "S_dd": sum(G[:, :, q, :, p, :, q, :, p] for p, q in (s, t)),
            "T": sum(G[:, :, p, :, p, :, q, :, q] for p, q in (s, t)),
            "U": sum(G[:, :, q, :, p, :, p, :, q] for p, q in (s, t)),
        }
        return {"Q": Q} | {x: np.einsum("NCcadb->Nabcd", g) for x, g in found.items()}


def _both(one: np.ndarray) -> np.ndarray:
    return one + one.transpose(0, 1, 2, 4, 3)


def _at(slope: np.ndarray, like: np.ndarray) -> np.ndarray:
    """(N, P, n) beside an array whose axes end in input and neuron."""
    return slope.reshape(slope.shape[0], *(1,) * (like.ndim - 3), *slope.shape[1:])


def _times(v: np.ndarray, matrices: np.ndarray) -> np.ndarray:
    """v (N, …, n) times (N, n, m)."""
    return (v.reshape(len(v), -1, v.shape[-1]) @ matrices).reshape(*v.shape[:-1], matrices.shape[2])
