"""Random matrices that are never formed: their products with given vectors, exactly in law, at O(N m) a vector.

For standard normal W, the images of orthonormal vectors are independent standard normal vectors; for a Haar-distributed
orthogonal O they are a random orthonormal frame. So W x is drawn when it is asked for: the part of x along vectors seen
before has a known image, the rest gets a fresh one, which is kept. Products with Wᵀ (back-propagated vectors) reveal
rows instead of columns; either kind of product then conditions on both.

With Q (orthonormal vectors multiplied, rows here) and Y = their images, U (orthonormal vectors back-multiplied) and H =
their images, x = Σ_j c_j q_j + r e with a unit vector e orthogonal to all q_j:
W x = Σ_j c_j y_j + r (ξ + Σ_i (h_i·e − u_i·ξ) u_i) with ξ ~ N(0, I), and Wᵀu the same with Q ↔ U, Y ↔ H.
A bias is one more coordinate: [W, b] is Gaussian, and W y + (σ_b/scale) b its product with (y, σ_b/scale), one draw
where a matrix and a vector take two. Tangents have 0 there. The coordinate is held beside the vectors, so that these
keep their length.
Haar: O x = Σ_j c_j v_j + r s, with s uniform on the unit sphere orthogonal to all v_j; an N′ × N matrix is √P times a
block of O ∈ O(P), P = max(N, N′), with vectors padded by zeros; its bias is drawn by itself.

The normals of a fresh image are those of the stream (seed, network, layer, role) from number c·P on, for the c-th
vector multiplied with the matrix from either side: skipping a dependent vector does not shift the others; the bias's
share of a back-multiplied vector is number c of the next role. Gram–Schmidt runs twice, on vectors scaled by a power of
two, in pieces that stay in a cache. Source: derived here (conditioning of Gaussian and Haar matrices).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from meanfield.empirical.random.buffers import Buffers
from meanfield.empirical.random.philox import fill_stream, stream

DEPENDENT = 64 * 2.0**-52  # what is left of a vector, relative to it, when it lies in the span of earlier ones
PIECE = 1024  # numbers of a vector that are worked on at once
_SIZE, _INFINITE = np.uint64(2**63 - 1), np.uint64(0x7FF0000000000000)  # the bits of |x|, and those of ∞

Key = tuple[int, int, int, int]


def with_bias(scale: float, sigma_b: float) -> tuple[float, float, float]:
    """(factor, coordinate, kept) with scale·W y + σ_b b = factor·[W, b](kept·y, coordinate); kept is 1 unless y counts
    for nothing beside the bias."""
    ratio = sigma_b / scale if scale > 0 else math.inf
    if sigma_b == 0.0:
        return scale, 0.0, 1.0
    return (scale, ratio, 1.0) if ratio < math.inf else (sigma_b, 1.0, 0.0)


class LazyMatrix:
    """scale · W of shape (outputs, inputs) and σ_b b, revealed product by product; see the module.

    law: "gaussian" or "orthogonal". key: (seed, network, layer, role). expected: how many products will be asked for
    (a hint). The rows of `matvec(x)` are scale·W x_j, those of `affine(x)` have σ_b b added, those of `rmatvec(u)` are
    scale·Wᵀu_j; all write into `out`.
    """

    redrawn = False  # what was revealed is nowhere else

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
        self.shape, self._buffers, self._key, self._sigma_b = shape, buffers, key, sigma_b
        self._haar = law == "orthogonal"
        self._size = max(shape)
        if self._haar:
            self._scale, self._coordinate, self._kept = scale * math.sqrt(self._size), 0.0, 1.0
        else:
            self._scale, self._coordinate, self._kept = with_bias(scale, sigma_b)
        self._lengths = (self._size, self._size) if self._haar else (inputs, outputs)
        self._biased = self._coordinate > 0.0
        self._words, self._bias_words = stream(*key), stream(*key[:3], key[3] + 1)
        self._asked, self._capacity = 0, [0, 0]
        # (Q, Y) and (U, H) with the bias's coordinates of each; Haar keeps (Q, V) in the first alone
        self._pairs: list[list[np.ndarray]] = [[], []]
        self._known = [0, 0]
        self._expected = expected

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._product(rows, out, 0, self._coordinate)
        if self._haar and self._sigma_b > 0:
            bias = np.empty(self.shape[0])
            fill_stream(bias, self._sigma_b, 0, self._bias_words)
            out += bias

    def matvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._product(rows, out, 0, 0.0)

    def rmatvec(self, rows: np.ndarray, out: np.ndarray) -> None:
        self._product(rows, out, 1, 0.0)

    def _product(self, rows: np.ndarray, out: np.ndarray, side: int, coordinate: float) -> None:
        store, back = (0, 0) if self._haar else (side, 1 - side)
        self._reserve(store, len(rows))
        self._reserve(back, 0)
        first, second = (0, 2), (2, 0)
        own = second if self._haar and side == 1 else first
        known = _products(
            np.ascontiguousarray(rows),
            out,
            (coordinate, self._kept if side == 0 else 1.0, self._biased and side == 1),
            (*self._of(store, own[0]), *self._of(store, own[1]), self._known[store]),
            (*self._of(back, 0), *self._of(back, 2), self._known[back]),
            self._haar,
            self._scale if side == 0 or self._kept else 0.0,
            self._size,
            self._asked,
            (self._words, self._bias_words),
        )
        self._known[store] = known
        self._asked += len(rows)

    def _of(self, store: int, which: int) -> tuple[np.ndarray, np.ndarray]:
        """Vectors, and their coordinate of the bias."""
        return self._pairs[store][which], self._pairs[store][which + 1]

    def _reserve(self, store: int, more: int) -> None:
        """Room for `more` vectors and one of scratch; a space has no more independent ones than dimensions."""
        dimension = self._lengths[store] + (self._biased and store == 0)
        needed = min(self._known[store] + more, dimension) + 1
        if self._pairs[store] and needed <= self._capacity[store]:
            return
        wanted = max(2 * self._capacity[store], self._expected + 1 if more else 1)
        capacity = max(needed, min(wanted, dimension + 1))
        lengths = self._lengths if store == 0 else self._lengths[::-1]
        new = []
        for length in lengths:
            new += [self._buffers.take(capacity, length), np.zeros(capacity)]
        for grown, old in zip(new, self._pairs[store]):
            grown[: self._known[store]] = old[: self._known[store]]
        self._give(store)
        self._pairs[store], self._capacity[store] = new, capacity

    def _give(self, store: int) -> None:
        for array in self._pairs[store][::2]:
            self._buffers.give(array)

    def release(self) -> None:
        """Forget what was revealed, and give the scratch memory back."""
        for store in (0, 1):
            self._give(store)
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
def _largest(x):
    """max |x_i|, or something that is not finite: the order of doubles ≥ 0 is that of their bits."""
    bits, largest = x.view(np.uint64), np.uint64(0)
    for i in range(x.size):
        size = bits[i] & _SIZE
        largest = size if size > largest else largest
    return math.nan if largest >= _INFINITE else np.uint64(largest).view(np.float64)


@njit(cache=True, nogil=True)
def _scaled_copy(x, e, kept, coordinate):
    """e = kept·x·2^{−k}, padded with zeros, with a largest entry (the coordinate of the bias among them) in [½, 1);
    returns k, or NaN where x is not finite, and the coordinate times 2^{−k}."""
    largest = _largest(x)
    if largest != largest:
        return math.nan, 0.0
    power = max(math.frexp(max(kept * largest, coordinate))[1], -1000)
    factor = math.ldexp(1.0, -power)
    for i in range(x.size):
        e[i] = x[i] * (factor * kept)
    e[x.size :] = 0.0
    return float(power), coordinate * factor


@njit(cache=True, nogil=True)
def _project_out(e, own, frame, beside, known, coefficients):
    """(e, own) minus its part in the span of the first `known` rows (frame, beside), which is added to `coefficients`;
    returns (its length before, after, own after): the projections on all rows, then all taken away, twice."""
    before = math.sqrt(dot(e, e) + own * own)
    if known == 0:
        return before, before, own
    along, after = np.zeros(known), 0.0
    for _ in range(2):  # the second time removes what rounding left
        for j in range(known):
            along[j] = beside[j] * own
        for i in range(0, e.size, PIECE):
            piece = e[i : i + PIECE]
            for j in range(known):
                along[j] += dot(frame[j, i : i + PIECE], piece)
        for j in range(known):
            own -= along[j] * beside[j]
            coefficients[j] += along[j]
        after = own * own
        for i in range(0, e.size, PIECE):
            piece = e[i : i + PIECE]
            for j in range(known):
                add_multiple(-along[j], frame[j, i : i + PIECE], piece)
            after += dot(piece, piece)
    return before, math.sqrt(after), own


@njit(cache=True, nogil=True)
def _combine(coefficients, images, used, factor, out):
    for i in range(0, out.size, PIECE):
        piece = out[i : i + PIECE]
        if used == 0:
            piece[:] = 0.0
        else:
            first = factor * coefficients[0]
            for k in range(piece.size):
                piece[k] = first * images[0, i + k]
        for j in range(1, used):
            add_multiple(factor * coefficients[j], images[j, i : i + piece.size], piece)


@njit(cache=True, nogil=True, error_model="numpy")
def _products(rows, out, bias, own, other, haar, scale, size, asked, words):
    """out[j] = scale · W rows[j]. own: Q, the coordinates of the bias beside it, their images Y, those beside them, and
    how many are known; other: the same of U and H, known from the other side.

    bias: the coordinate of `rows`, the factor of the rest of them, and whether images have a coordinate of their own.
    Returns how many are known now. Haar: Q and Y hold what was revealed from either side, U and H are not read.
    """
    Q, beside_q, Y, beside_y, known = own
    U, beside_u, H, beside_h, back = other
    coordinate, kept, beside = bias
    numbers, more = words
    drawn = np.zeros(1)
    for row in range(rows.shape[0]):
        e, image = Q[known], Y[known]
        power, extra = _scaled_copy(rows[row], e, kept, coordinate)
        if power != power:
            out[row] = math.nan
            continue
        coefficients = np.zeros(known + 1)
        before, left, extra = _project_out(e, extra, Q, beside_q, known, coefficients)
        if left > DEPENDENT * before and known + 1 < Q.shape[0]:
            inverse = 1.0 / left
            for i in range(e.size):
                e[i] *= inverse
            beside_q[known] = extra * inverse
            fill_stream(image, 1.0, (asked + row) * size, numbers)
            if haar:
                _, length, _ = _project_out(image, 0.0, Y, beside_y, known, np.zeros(known))
                for i in range(size):
                    image[i] /= length
            else:
                if beside:
                    fill_stream(drawn, 1.0, asked + row, more)
                beside_y[known] = drawn[0]
                for i in range(back):
                    seen = dot(U[i], image) + beside_u[i] * beside_y[known]
                    along = dot(H[i], e) + beside_h[i] * beside_q[known] - seen
                    add_multiple(along, U[i], image)
                    beside_y[known] += along * beside_u[i]
            coefficients[known] = left
            known += 1
        _combine(coefficients, Y, known, scale * math.ldexp(1.0, int(power)), out[row])
    return known
