"""Ensembles of finite networks, many at once, for correlators of order 1/n: z and H of whole batches, pushed layer by
layer with numpy alone, and what is known to be 0 on average at every width taken out of the noise.

Given the layer before, the neurons of the next one are alike, so means over them of z², σ(z)², H, σ′(z)²H less their
averages are 0 on average, at every n, see `controls`; and so are products of these of different layers, and of
two of a layer less their covariance. At leading order nothing else moves V, A, D.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from tests.oracles.controls import PAIRS, component, first_layer, normal, tables
from tests.oracles.estimates import Ensemble, joined
from tests.oracles.probes import Networks

PHI: dict[str, tuple[Callable, Callable]] = {
    "tanh": (np.tanh, lambda z: 1 - np.tanh(z) ** 2),
    "sin": (np.sin, np.cos),
    "gelu": (
        lambda z: z * ndtr(z),
        lambda z: ndtr(z) + z * np.exp(-z * z / 2) / np.sqrt(2 * np.pi),
    ),
}
_CHUNK = 1 << 21  # numbers of H held at once


@dataclass(frozen=True)
class Law:
    """Networks z¹ = W x + b, z^{l+1} = W φ(z^l) + b of one width: entries of W have variance σ_w²/n."""

    phi: str
    weights: str
    sigma_w: float = 1.0
    sigma_b: float = 0.0
    rate_w: float = 1.0
    rate_b: float = 0.5
    gram: tuple[tuple[float, ...], ...] = ((1.0,),)  # of the inputs, divided by n

    def matrices(self, draw: np.random.Generator, count: int, n: int) -> np.ndarray:
        if self.weights == "uniform":
            return draw.uniform(-np.sqrt(3), np.sqrt(3), (count, n, n)) * (self.sigma_w / np.sqrt(n))
        W = draw.standard_normal((count, n, n))
        if self.weights == "gaussian":
            return W * (self.sigma_w / np.sqrt(n))
        q, r = np.linalg.qr(W)
        return q * np.where(np.diagonal(r, axis1=1, axis2=2) < 0, -self.sigma_w, self.sigma_w)[:, None, :]

    def inputs(self, draw: np.random.Generator, count: int, n: int) -> np.ndarray:
        """Rows of the given Gram matrix in a random direction."""
        gram = np.array(self.gram)
        frame = np.linalg.qr(draw.standard_normal((count, n, len(gram))))[0]
        return np.einsum("pq,Nnq->Npn", np.linalg.cholesky(gram), frame) * np.sqrt(n)

    def layers(
        self, draw: np.random.Generator, count: int, n: int, depth: int, x: np.ndarray | None = None
    ) -> Iterator[tuple[np.ndarray, ...]]:
        """(z, H, controls, products, W, b) of `count` networks: (N, P, n), (N, P, P, n, n), and the controls of this
        layer, (N, c) each: those that may be multiplied with other layers', and those that may not."""
        sigma, slope = PHI[self.phi]
        y, P = self.inputs(draw, count, n) if x is None else x, len(self.gram)
        inner = np.zeros((count, P, P, n, n))
        for layer in range(depth):
            W = self.matrices(draw, count, n)
            own = self.rate_b + self.rate_w * (y @ y.transpose(0, 2, 1)) / n
            b = self.sigma_b * draw.standard_normal((count, 1, n))
            z = y @ W.transpose(0, 2, 1) + b
            H = W[:, None, None] @ inner @ W.transpose(0, 2, 1)[:, None, None]
            H[..., np.arange(n), np.arange(n)] += own[..., None]
            if P == 2 and layer == 0 and self.weights != "uniform":
                controls, products = self._of_the_first(z)
            elif P > 1:
                controls, products = self._of_pairs(y, inner, own, z, H)
            else:
                diagonal = np.diagonal(H[:, 0, 0], axis1=1, axis2=2)
                controls, products = self._of_neurons(y[:, 0], inner[:, 0, 0], own[:, 0, 0], z[:, 0], diagonal)
            d, new_y = slope(z), sigma(z)
            new_inner = d[:, :, None, :, None] * H * d[:, None, :, None, :]
            if P == 1 and self.weights == "gaussian":
                vectors = [x[:, 0] for x in (y, z, new_y)]
                more = self._of_pairs_of_neurons(*vectors, *(x[:, 0, 0] for x in (inner, own, H, new_inner)))
                products = np.concatenate([products, more], axis=1)
            yield z, H, controls, products, W, b[:, 0]
            y, inner = new_y, new_inner

    def paths(self, draw: np.random.Generator, count: int, n: int, depth: int) -> Iterator[tuple[np.ndarray, ...]]:
        """(z, controls, products) of one input, without matrices: W y is |y| times a normal or unit vector."""
        y = self.inputs(draw, count, n)[:, 0]
        for _ in range(depth):
            W = draw.standard_normal((count, n))
            if self.weights == "orthogonal":
                W *= np.sqrt(n / (W * W).sum(axis=1, keepdims=True))
            length = np.sqrt((y * y).mean(axis=1, keepdims=True))
            z = self.sigma_w * length * W + self.sigma_b * draw.standard_normal((count, n))
            yield z, *self._of_neurons(y, None, None, z, None)
            y = PHI[self.phi][0](z)

    def _of_the_first(self, z) -> tuple[np.ndarray, np.ndarray]:
        """Of two inputs at layer 1, which nothing random precedes: means of zz, σσ and σ′σ′, and products of two."""
        settings = (self.sigma_w, self.sigma_b, self.gram)
        mean, covariance = first_layer(PHI[self.phi], self.weights, z.shape[2], *settings)
        p, q = np.triu_indices(2)
        seen = [(x[:, p] * x[:, q]).mean(axis=2) for x in (z, *(f(z) for f in PHI[self.phi]))]
        controls = np.concatenate(seen, axis=1) - mean
        i, j = np.tril_indices(len(mean))
        return controls, controls[:, i] * controls[:, j] - covariance[i, j]

    def _of_pairs(self, y, inner, own, z, H) -> tuple[np.ndarray, np.ndarray]:
        """Of every pair of inputs |z|²/n and tr H/n, less their means given the layer before; of normal weights, whose
        neurons are independent quadratic forms of normal numbers, products of two of these, less theirs."""
        (count, P, n), w2 = z.shape, self.sigma_w**2
        S, K = z @ z.transpose(0, 2, 1) / n, w2 * (y @ y.transpose(0, 2, 1)) / n + self.sigma_b**2
        h, k = np.trace(H, axis1=3, axis2=4) / n, w2 / n * np.trace(inner, axis1=3, axis2=4) + own
        p, q = np.triu_indices(P)
        controls = np.concatenate([(S - K)[:, p, q], (h - k)[:, p, q]], axis=1)
        if self.weights != "gaussian":
            return controls, np.empty((count, 0))
        even = (inner + inner.transpose(0, 1, 2, 4, 3))[:, p, q] / 2
        flat, size = even.reshape(count, len(p), n * n), len(p)
        covariance = np.empty((count, 2 * size, 2 * size))
        covariance[:, :size, :size] = (K[:, p][:, :, p] * K[:, q][:, :, q] + K[:, p][:, :, q] * K[:, q][:, :, p]) / n
        covariance[:, size:, size:] = 2 * w2**2 / n**3 * (flat @ flat.transpose(0, 2, 1))
        image = even @ y[:, None].transpose(0, 1, 3, 2)
        forms = 2 * w2**2 / n**3 * (y[:, None] @ image)  # of pair rs: y_p·inner_rs y_q
        covariance[:, size:, :size] = forms[:, :, p, q]
        i, j = np.tril_indices(2 * size)
        return controls, controls[:, i] * controls[:, j] - covariance[:, i, j]

    def _of_neurons(self, y, inner, own, z, diagonal) -> tuple[np.ndarray, np.ndarray]:
        """Means over neurons of z², σ², H, σ′²H (without H: the first two), less their averages given the layer before,
        and products of two of them, less theirs."""
        (count, n), (sigma, slope) = y.shape, PHI[self.phi]
        if self.weights == "uniform":
            return np.empty((count, 0)), np.empty((count, 0))
        square, kernel = (y * y).sum(axis=1), None
        seen = [z**2, sigma(z) ** 2]
        if inner is not None:
            seen += [diagonal, slope(z) ** 2 * diagonal]
            kernel = (own, *along_and_across(y, square, inner))
        known = tables(PHI[self.phi], self.weights, n, self.sigma_w, self.sigma_b).at(square, kernel)
        controls = [s.mean(axis=1) - m for s, m in zip(seen, known)]
        products = [controls[k] * controls[l] - c for (k, l), c in zip(PAIRS, known[4:]) if l < len(seen)]
        if inner is not None:
            products.append((z**2 * diagonal).mean(axis=1) - known[-1])
        return np.stack(controls, axis=1), np.stack(products, axis=1)

    def _of_pairs_of_neurons(self, y, z, new_y, inner, own, H, new_inner) -> np.ndarray:
        """z·Hz, tr H², σ·σ′Hσ′σ and tr (σ′Hσ′)² by n², less their averages given the layer before; normal weights."""
        n, w2, b2 = y.shape[1], self.sigma_w**2, self.sigma_b**2
        sigma, slope = PHI[self.phi]
        square = (y * y).sum(axis=1)
        a, across, mixed, second = along_and_across(y, square, inner)
        trace, norm, along = a + across, second + a**2 + 2 * mixed, a * square
        zHz = own * (w2 * square + n * b2) + w2**2 * ((1 + 1 / n) * along + trace * square / n) + b2 * w2 * trace
        HH = n * own**2 + 2 * own * w2 * trace + w2**2 * ((1 + 1 / n) * norm + trace**2 / n)
        c, weight = component("gaussian", n)
        g, other = (np.zeros(1), np.ones(1)) if b2 == 0 else normal()
        at = (self.sigma_w * np.sqrt(square)[:, None] * c)[:, :, None] + self.sigma_b * g
        d = slope(at)

        def mean(f):
            return (f @ other) @ weight

        kernel = own[:, None] + w2 * (a[:, None] * c * c + (trace - a)[:, None] / n)
        spread = w2**2 * (4 * mixed[:, None] * c * c / n + 2 * second[:, None] / n**2)
        once = mean(sigma(at) * d * c[:, None])
        pairs = w2 * a * once**2
        first = n * mean((sigma(at) * d) ** 2 * kernel[:, :, None]) + n * (n - 1) * pairs
        one, two = mean(d**2), mean(d**2 * (c * c)[:, None])
        off = w2**2 * (a**2 * two**2 + 2 * mixed * one * two / n + second * one**2 / n**2)
        last = n * mean(d**4 * (kernel**2 + spread)[:, :, None]) + n * (n - 1) * off
        seen = [np.einsum("Ni,Nij,Nj->N", v, A, v) for v, A in ((z, H), (new_y, new_inner))]
        squares = [(A * A).sum(axis=(1, 2)) for A in (H, new_inner)]
        found = [seen[0] - zHz, squares[0] - HH, seen[1] - first, squares[1] - last]
        return np.stack(found, axis=1) / n**2


def along_and_across(y: np.ndarray, square: np.ndarray, inner: np.ndarray) -> tuple[np.ndarray, ...]:
    """a, t, |v|², |M|² of `inner` along y and across it, see `controls`."""
    image = np.einsum("Nij,Nj->Ni", inner, y)
    a = (image * y).sum(axis=1) / square
    v2 = (image * image).sum(axis=1) / square - a**2
    return a, np.trace(inner, axis1=1, axis2=2) - a, v2, (inner * inner).sum(axis=(1, 2)) - a**2 - 2 * v2


def rows(z: np.ndarray, H: np.ndarray) -> dict[str, np.ndarray]:
    """Means over pairs of different neurons of every network, as the correlators are means of: indexed N, αβγδ."""
    count, P, n = z.shape
    pairs = n * (n - 1)
    zz = (z[:, :, None] * z[:, None]).reshape(count, P * P, n)
    diagonal = np.diagonal(H, axis1=3, axis2=4).reshape(count, P * P, n)
    flat = H.reshape(count, P * P, n * n)

    def apart(first, second):
        total = first.sum(axis=2)[:, :, None] * second.sum(axis=2)[:, None]
        return ((total - first @ second.transpose(0, 2, 1)) / pairs).reshape(count, P, P, P, P)

    full = np.einsum("Nai,Ncdij,Nbj->Nabcd", z, H, z, optimize=True)
    equal = (zz @ diagonal.transpose(0, 2, 1)).reshape(count, P, P, P, P)
    B = flat @ flat.transpose(0, 2, 1) - diagonal @ diagonal.transpose(0, 2, 1)
    return {
        "S": zz.mean(axis=2).reshape(count, P, P),
        "h": diagonal.mean(axis=2).reshape(count, P, P),
        "V": apart(zz, zz),
        "A": apart(diagonal, diagonal),
        "B": (B / pairs).reshape(count, P, P, P, P),
        "D": apart(zz, diagonal),
        "F": (full - equal) / pairs,
    }


def rows_of_paths(z: np.ndarray) -> dict[str, np.ndarray]:
    """S and V of `rows`, of one input."""
    count, n = z.shape
    square = z * z
    total = square.sum(axis=1)
    found = {"S": total / n, "V": (total**2 - (square * square).sum(axis=1)) / (n * (n - 1))}
    return {x: v.reshape(count, *(1,) * (2 if x == "S" else 4)) for x, v in found.items()}


def ensemble(law: Law, n: int, networks: int, depth: int, seed: int, matrices: bool = True) -> Ensemble:
    """`networks` of width n, in batches; without matrices: z alone, of one input."""
    P, parts = len(law.gram), []
    chunk = max(1, min(networks, _CHUNK // (P * P * n * n if matrices else 40 * n)))
    draw = np.random.default_rng([seed, n])
    for first in range(0, networks, chunk):
        count = min(chunk, networks - first)
        if matrices:
            parts.append([(rows(z, H), c, p) for z, H, c, p, *_ in law.layers(draw, count, n, depth)])
        else:
            parts.append([(rows_of_paths(z), c, p) for z, c, p in law.paths(draw, count, n, depth)])
    return joined(n, parts)


def differential_ensemble(law: Law, n: int, networks: int, depth: int, seed: int, probes: int = 2) -> Ensemble:
    """The same for P … U, estimated from `probes` random signs of every network."""
    draw, parts = np.random.default_rng([seed, n]), []
    P = len(law.gram)
    for first in range(0, networks, chunk := max(1, min(networks, 10_000 // (n * P * P)))):
        count = min(chunk, networks - first)
        x = law.inputs(draw, count, n)
        layers = list(law.layers(draw, count, n, depth, x))
        pushed = Networks(law.phi, [one[4] for one in layers], [one[5] for one in layers], x, law.rate_w, law.rate_b)
        signs = draw.choice([-1.0, 1.0], size=(count, probes, n))
        parts.append([(pushed.rows(layer, signs), *one[2:4]) for layer, one in enumerate(layers, 1)])
    return joined(n, parts)
