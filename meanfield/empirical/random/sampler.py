"""Random matrices that are never formed: their products with given vectors, exactly in law, at O(N m) a vector.

For standard normal W, the images of orthonormal vectors are independent standard normal vectors; for a Haar-distributed
orthogonal O they are a random orthonormal frame. So W x is drawn when it is asked for: the part of x along vectors seen
before has a known image, the rest gets a fresh one, which is kept. Products with Wᵀ (back-propagated vectors) reveal
rows instead of columns; either kind of product then conditions on both.

With Q (orthonormal vectors multiplied, rows here) and Y = their images, U (orthonormal vectors back-multiplied) and H =
their images, x = Σ_j c_j q_j + r e with a unit vector e orthogonal to all q_j:
W x = Σ_j c_j y_j + r (ξ + Σ_i (h_i·e − u_i·ξ) u_i) with ξ ~ N(0, I), and Wᵀu the same with Q ↔ U, Y ↔ H.
Haar: O x = Σ_j c_j v_j + r s, with s uniform on the unit sphere orthogonal to all v_j; an N′ × N matrix is √P times a
block of O ∈ O(P), P = max(N, N′), with vectors padded by zeros.

The normals of a fresh image are those of the stream (seed, network, layer, role) from number c·P on, for the c-th
vector multiplied with the matrix from either side: skipping a dependent vector does not shift the others. Gram–Schmidt
runs twice, on vectors scaled by a power of two. Source: derived here (conditioning of Gaussian and Haar matrices).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import fill_stream, stream

DEPENDENT = 64 * 2.0**-52  # what is left of a vector, relative to it, when it lies in the span of earlier ones

Key = tuple[int, int, int, int]


class LazyMatrix:
    """scale · W of shape (outputs, inputs), revealed product by product; see the module.

    law: "gaussian" or "orthogonal". key: (seed, network, layer, role). expected: how many products will be asked for
    (a hint). The rows of `matvec(x)` are W x_j, those of `rmatvec(u)` are Wᵀu_j; both write into `out`.
    """

    def __init__(
        self,
        law: str,
        key: Key,
        shape: tuple[int, int],
        scale: float,
        buffers: Buffers,
        expected: int = 4,
        sigma_b: float = 0.0,
    ) -> None:
        outputs, inputs = shape
        self.shape, self._scale, self._buffers = shape, scale, buffers
        self._key, self._sigma_b = key, sigma_b
        self._haar = law == "orthogonal"
        self._size = max(shape)
        if self._haar:
            self._scale = scale * math.sqrt(self._size)
        self._lengths = (self._size, self._size) if self._haar else (inputs, outputs)
        self._words = stream(*key)
        self._asked, self._capacity = 0, [0, 0]
        self._pairs: list[list[np.ndarray]] = [[], []]  # (Q, Y) and (U, H); Haar keeps (Q, V) in the first alone
        self._known = [0, 0]
        self._expected = expected

    redrawn = False  # what was revealed is nowhere else

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        self.matvec(rows, out)
        if self._sigma_b > 0:
            bias = np.empty(self.shape[0])
            fill_stream(bias, self._sigma_b, 0, stream(*self._key[:3], self._key[3] + 1))
            out += bias

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._product(rows, out, 0)

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._product(rows, out, 1)

    def _product(self, rows: np.ndarray, out: np.ndarray, side: int) -> None:
        store, back = (0, 0) if self._haar else (side, 1 - side)
        self._reserve(store, len(rows))
        self._reserve(back, 0)
        (first, second), (third, fourth) = self._pairs[store], self._pairs[back]
        if self._haar and side == 1:
            first, second = second, first
        state = first, second, self._known[store], third, fourth, self._known[back]
        known = _products(rows, out, *state, self._haar, self._scale, self._size, self._asked, self._words)
        self._known[store] = known
        self._asked += len(rows)

    def _reserve(self, store: int, more: int) -> None:
        """Room for `more` vectors and one of scratch; a space has no more independent ones than dimensions."""
        needed = min(self._known[store] + more, self._lengths[store]) + 1
        if self._pairs[store] and needed <= self._capacity[store]:
            return
        wanted = max(2 * self._capacity[store], self._expected + 1 if more else 1)
        capacity = max(needed, min(wanted, self._lengths[store] + 1))
        lengths = self._lengths if store == 0 else self._lengths[::-1]
        new = [self._buffers.take(capacity, length) for length in lengths]
        for grown, old in zip(new, self._pairs[store]):
            grown[: self._known[store]] = old[: self._known[store]]
            self._buffers.give(old)
        self._pairs[store], self._capacity[store] = new, capacity

    def release(self) -> None:
        """Forget what was revealed, and give the scratch memory back."""
        for pair in self._pairs:
            for array in pair:
                self._buffers.give(array)
        self._pairs, self._known, self._capacity, self._asked = [[], []], [0, 0], [0, 0], 0


@njit(cache=True, nogil=True)
def dot(a, b):
    """Σ a_i b_i in eight interleaved partial sums: a fixed order that vectorizes."""
    s0 = s1 = s2 = s3 = s4 = s5 = s6 = s7 = 0.0
    whole = a.size - a.size % 8
    for i in range(0, whole, 8):
        s0 += a[i] * b[i]
        s1 += a[i + 1] * b[i + 1]
        s2 += a[i + 2] * b[i + 2]
        s3 += a[i + 3] * b[i + 3]
        s4 += a[i + 4] * b[i + 4]
        s5 += a[i + 5] * b[i + 5]
        s6 += a[i + 6] * b[i + 6]
        s7 += a[i + 7] * b[i + 7]
    for i in range(whole, a.size):
        s0 += a[i] * b[i]
    return ((s0 + s1) + (s2 + s3)) + ((s4 + s5) + (s6 + s7))


@njit(cache=True, nogil=True)
def add_multiple(factor, x, y):
    for i in range(x.size):
        y[i] += factor * x[i]


@njit(cache=True, nogil=True)
def _scaled_copy(x, e):
    """e = x·2^{−k}, padded with zeros, with a largest entry in [½, 1); returns k, or NaN where x is not finite."""
    largest = 0.0
    for i in range(x.size):
        size = abs(x[i])
        if not size < math.inf:
            return math.nan
        largest = max(largest, size)
    power = math.frexp(largest)[1]
    factor = math.ldexp(1.0, -max(power, -1000))
    for i in range(x.size):
        e[i] = x[i] * factor
    e[x.size :] = 0.0
    return float(max(power, -1000))


@njit(cache=True, nogil=True)
def _project_out(e, frame, known, coefficients):
    """e minus its part in the span of the first `known` rows, added to `coefficients`; returns (|e| before, after)."""
    before = math.sqrt(dot(e, e))
    for _ in range(2):  # the second pass removes what rounding left
        for j in range(known):
            along = dot(frame[j], e)
            coefficients[j] += along
            add_multiple(-along, frame[j], e)
    return before, math.sqrt(dot(e, e))


@njit(cache=True, nogil=True)
def _combine(coefficients, images, used, factor, out):
    out[:] = 0.0
    for j in range(used):
        add_multiple(factor * coefficients[j], images[j, : out.size], out)


@njit(cache=True, nogil=True, error_model="numpy")
def _products(rows, out, Q, Y, known, U, H, other, haar, scale, size, asked, words):
    """out[j] = scale · W rows[j]; the first `known` rows of Q have the images Y, the first `other` of U the images H.

    Returns how many are known now. Haar: Q and Y hold what was revealed from either side, U and H are not read.
    """
    for row in range(rows.shape[0]):
        e, image = Q[known], Y[known]
        power = _scaled_copy(rows[row], e)
        if power != power:
            out[row] = math.nan
            continue
        coefficients = np.zeros(known + 1)
        before, left = _project_out(e, Q, known, coefficients)
        if left > DEPENDENT * before and known < e.size:
            for i in range(e.size):
                e[i] /= left
            fill_stream(image, 1.0, (asked + row) * size, words)
            if haar:
                _, length = _project_out(image, Y, known, np.zeros(known))
                for i in range(size):
                    image[i] /= length
            else:
                for i in range(other):
                    add_multiple(dot(H[i], e) - dot(U[i], image), U[i], image)
            coefficients[known] = left
            known += 1
        _combine(coefficients, Y, known, scale * math.ldexp(1.0, int(power)), out[row])
    return known
