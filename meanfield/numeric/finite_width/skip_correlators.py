r"""Order 1/n of a network with a skip, z^{l+1} = W σ(z^l) + b + μ z^l: V, and the corrections G1 of K and J1 of J.

With a skip a neuron remembers its layers, so V and G1 of one layer do not determine those of the next. But W acts on
vectors of n entries, σ(z), and for a Jacobian σ′(z)t with t a random tangent, and given their Gram matrices

    O_ab = (1/n) Σ_j u_a(j) u_b(j),    u_0 = σ(z), u_1 = σ′(z) t,

the new increments of the neurons are independent Gaussians with covariance C_W O (+ C_b). So neurons are independent
paths (z^1, t^1), (z^2, t^2), …, Gaussian with covariances Q_ab of the present layer, Q′ = μ² Q + C_W O + C_b, and all
of order 1/n comes from O: in the sum over j it fluctuates, the paths it averages over know the fluctuations of earlier
layers, and the neuron j itself has made some of them. To first order in the fluctuations,

    δQ′ = G δQ + X,  G = μ² + C_W ∂O/∂Q,  X = C_W × what the sum over j deviates from its mean at given Q,
    n E[Q′ − Q̄′] = G·(n E[Q − Q̄]) + C_W/2 ∂²O/∂Q∂Q · Y + C_W Σ_b ⟨∂_b u u · m_b⟩,
    Y′ = G Y Gᵀ + G⟨m u u⟩ᵀ + ⟨m u u⟩Gᵀ + ⟨u u u u⟩_c,  Y = n cov(δQ),
    m_b(z, t) = n E[δQ_b | one neuron is at (z, t)],

where ∂_b acts as ½∂_z², ∂_z∂_t, ½∂_t² (Price's theorem). m is what a neuron remembers. It becomes that of the next
layer by the new increment, E[· | z′], which multiplies the Hermite polynomial h_n(z) h_j(t) by ρ^n ρ_t^j, the powers of
the correlations of two layers: m′ = E[G m + C_W u u | z′, t′]. For μ = 0, ρ is 0 and nothing is remembered.

V is n cov(z_1², z_2²) of two neurons, each of which has a share in the other's δK: Y_KK + 2⟨z² m_K⟩. Source: derived
here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.budgets import tick
from meanfield.functions.activations import Activation
from meanfield.numeric.quadrature.evaluation import evaluate
from meanfield.numeric.quadrature.hermite import spectrum

Numbers = Sequence[float] | np.ndarray
#: the vectors that W acts on: how often σ is differentiated, how many tangents are factors
VECTORS = ((0, 0), (1, 1))
#: their Gram entries, and the covariance of a neuron that each makes: K = ⟨zz⟩, M = ⟨zt⟩, J = ⟨tt⟩
GRAM = ((0, 0), (0, 1), (1, 1))
#: by Price's theorem, ∂/∂Q is this number times so many derivatives by (z, t)
PRICE = ((0.5, 2, 0), (1.0, 1, 1), (0.5, 0, 2))
#: t^d in orthonormal Hermite polynomials of a standard normal t, and ⟨t^d⟩
POWERS = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (1.0, 0.0, 2**0.5))
MOMENTS = (1.0, 0.0, 1.0, 0.0, 3.0)
CLOSE = 1e-10  # how near ⟨σ²⟩ and ⟨σ′²⟩ must come to the engine's own


@dataclass
class SkipLayer:
    """What a layer is to order 1/n, in units in which J is 1: shift n E[Q − Q̄], covariance n cov(δQ), memory m.

    memory[b, j, n] is the coefficient of h_n(z/√K) h_j(t) in m_b; error: what was left out of its averages so far.
    """

    shift: np.ndarray
    covariance: np.ndarray
    memory: np.ndarray
    error: float = 0.0

    def vertex(self, K: float) -> float:
        """V: z² is K(1 + √2 h_2)."""
        with np.errstate(over="ignore", invalid="ignore"):
            return float(self.covariance[0, 0] + 2 * math.sqrt(2) * K * self.memory[0, 0, 2])


@dataclass(frozen=True)
class ConnectedProducts:
    """The products u_a u_b of a φ at one K: coefficients O[ab, j, n], connected averages, and error."""

    O: np.ndarray
    connected: np.ndarray
    K: float
    missing: float = field(default=0.0)

    def differentiated(self, b: int, O: np.ndarray | None = None) -> np.ndarray:
        """∂/∂Q_b of what the coefficients stand for, under averages."""
        number, by_z, by_t = PRICE[b]
        found = number * (self.O if O is None else O)
        for _ in range(by_z):
            n = np.arange(1, found.shape[2])
            found = np.sqrt(n / self.K) * found[:, :, 1:]
        for _ in range(by_t):
            j = np.arange(1, found.shape[1])
            found = np.pad(np.sqrt(j)[:, None] * found[:, 1:], ((0, 0), (0, 1), (0, 0)))
        return found


def started(tangents: bool) -> SkipLayer:
    """Layer 1: independent Gaussians, exactly."""
    many = len(GRAM) if tangents else 1
    return SkipLayer(np.zeros(many), np.zeros((many, many)), np.zeros((many, 3, 3)))


def next_layer(here: SkipLayer, u: ConnectedProducts, C: float, mu: float, K_next: float, growth: float) -> SkipLayer:
    """Layer l + 1 from layer l: u of layer l, C = σ_w² and μ of the block, K and J/J of layer l + 1 over layer l."""
    many = len(here.shift)
    slopes = [u.differentiated(b) for b in range(many)]
    G = mu**2 * np.eye(many) + C * np.stack([s[:, 0, 0] for s in slopes], axis=1)
    curvature = np.array([[u.differentiated(c, s)[:, 0, 0] for c in range(many)] for s in slopes])  # [b, c, a]
    known = C * np.array([[_dot(u.O[a], here.memory[b]) for b in range(many)] for a in range(many)])
    shift = G @ here.shift + 0.5 * C * np.einsum("bca,bc->a", curvature, here.covariance)
    shift += C * sum(np.array([_dot(s[a], here.memory[b]) for a in range(many)]) for b, s in enumerate(slopes))
    covariance = G @ here.covariance @ G.T + G @ known.T + known @ G.T + C**2 * u.connected
    own = u.O[:many].copy()
    own[:, 0, 0] = 0.0
    length = max(own.shape[2], here.memory.shape[2])
    memory = C * _long(own, length) + np.einsum("ab,bjn->ajn", G, _long(here.memory, length))
    rho = mu * math.sqrt(u.K / K_next)
    tau = mu / math.sqrt(growth) if growth > 0 else 0.0
    memory *= tau ** np.arange(3)[:, None] * rho ** np.arange(length)
    unit = np.array([1.0, math.sqrt(growth), growth])[:many] if growth > 0 else np.ones(many)
    return SkipLayer(
        shift / unit, covariance / unit / unit[:, None], memory / unit[:, None, None], max(here.error, u.missing)
    )


def _dot(a: np.ndarray, b: np.ndarray) -> float:
    j, n = min(a.shape[0], b.shape[0]), min(a.shape[1], b.shape[1])
    return float((a[:j, :n] * b[:j, :n]).sum())


def _long(a: np.ndarray, length: int) -> np.ndarray:
    return np.pad(a, ((0, 0), (0, 0), (0, length - a.shape[2])))


def products(phi: Activation, K: float, rho: float, tangents: bool, fine: int = 1) -> ConnectedProducts:
    """u_a u_b at variance K, to as many coefficients as matter at correlations of layers up to rho."""
    found = spectrum(lambda z: _values(phi, z, tangents), K, _breaks(phi), rho, fine)
    pairs = GRAM if tangents else GRAM[:1]
    degree = [VECTORS[a][1] + VECTORS[b][1] for a, b in pairs]
    O = np.stack([np.array(POWERS[d])[:, None] * c for d, c in zip(degree, found.c)])
    mean = O[:, 0, 0]
    moments = np.array([[MOMENTS[d + e] for d in degree] for e in degree])
    with np.errstate(over="ignore", invalid="ignore"):
        return ConnectedProducts(O, moments * found.products - np.outer(mean, mean), K, found.missing)


def _values(phi: Activation, z: np.ndarray, tangents: bool) -> np.ndarray:
    u = [evaluate(e, z) for e in _derivatives(phi)[: 2 if tangents else 1]]
    return np.stack([u[a] * u[b] for a, b in (GRAM if tangents else GRAM[:1])])


@lru_cache(maxsize=64)
def _derivatives(phi: Activation) -> tuple[Any, Any]:
    return phi.pieces.expr, phi.pieces.diff().expr


@lru_cache(maxsize=64)
def _breaks(phi: Activation) -> tuple[float, ...]:
    return tuple(float(b) for b in phi.pieces.breaks)


@dataclass(frozen=True)
class SkipCorrections:
    """V, G1 and (with tangents) J1/J at layers 1, 2, …; error: largest relative error of an average, measured."""

    V: np.ndarray
    G1: np.ndarray
    J1_J: np.ndarray | None
    error: float


def corrections(
    phi: Activation, K: Numbers, log_J: Numbers | None, C_W: Numbers, C_b: Numbers, mu: Numbers
) -> SkipCorrections:
    """V, G1 and J1/J of z^{l+1} = W φ(z^l) + b + μ z^l with Gaussian W, from the K and J of infinite width.

    K: at layers 1, 2, …; log_J: the same, None for V and G1 alone; C_W, C_b, mu: of the blocks that make layers 2, 3,
    …. ⟨φ²⟩ and ⟨φ′²⟩ that the coefficients are made of are compared with those that K and J went by.

    Raises: MeanFieldError where the two do not agree within 1e-10.
    """
    tangents = log_J is not None
    layer, out, error = started(tangents), [], 0.0
    for k in range(len(K)):
        out.append((layer.vertex(K[k]), *layer.shift))
        if k + 1 == len(K):
            break
        tick()
        growth = math.exp(log_J[k + 1] - log_J[k]) if log_J is not None else 1.0
        expected = [(K[k + 1] - C_b[k] - mu[k] ** 2 * K[k]) / C_W[k] if C_W[k] else None]
        expected.append((growth - mu[k] ** 2) / C_W[k] if tangents and C_W[k] else None)
        rho = [mu[k] * math.sqrt(K[k] / K[k + 1])] + [mu[k - 1] * math.sqrt(K[k - 1] / K[k])] * (k > 0)
        u, off = _agreeing(phi, K[k], max(rho), tangents, expected, (K[k + 1], growth), C_W[k])
        with np.errstate(over="ignore", invalid="ignore"):  # V is of the order K², and may overflow where K does not
            layer, error = next_layer(layer, u, C_W[k], mu[k], K[k + 1], growth), max(error, off)
    columns = np.array(out).T
    return SkipCorrections(columns[0], columns[1], columns[3] if tangents else None, max(error, layer.error))


def _agreeing(phi, K, rho, tangents, expected, new, C) -> tuple[ConnectedProducts, float]:
    """The products at K with panels so fine that their means are the engine's, and what still parts them."""
    off = math.inf
    for fine in (1, 2, 4, 8):
        u = products(phi, K, rho, tangents, fine)
        own = (u.O[0, 0, 0], u.O[-1, 0, 0])
        off = max(C * abs(a - b) / max(x, 1e-300) for a, b, x in zip(own, expected, new) if b is not None) if C else 0.0
        if off <= CLOSE:
            return u, off
    raise MeanFieldError(
        f"The corrections of order 1/n of {phi.name} at K = {K:.6g} are not available: its averages are known to "
        f"{off:.0e} only: it is too steep, or oscillates too fast."
    )
