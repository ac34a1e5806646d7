"""What the threads of a block do together, as device functions for kernels: sums and maxima over neurons, projections
of Gram–Schmidt, normals in columns. Placeholders are those of `cuda_kernels`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float64

from meanfield.empirical.random.philox import normal_pair

cuda: Any = None
THREADS, CHUNK = 256, 8
_INF = math.inf


def normal(number, stream, network, layer, k0, k1):
    """Standard normal `number` of a stream."""
    first, second = normal_pair(np.uint64(number >> 1), stream, network, layer, k0, k1)
    return second if number & 1 == 1 else first


def mark(value, lost, b, p):
    if not abs(value) < _INF:
        lost[b, p] = 1


def _reduce(sums, count):
    """sums[c, 0] = Σ_t sums[c, t] for c < count, by halves; every thread of the block takes part."""
    t, half = cuda.threadIdx.x, THREADS // 2
    cuda.syncthreads()
    while half > 0:
        if t < half:
            for c in range(count):
                sums[c, t] += sums[c, t + half]
        half //= 2
        cuda.syncthreads()


def block_sum(value, sums):
    """Σ_t of the threads' values."""
    sums[0, cuda.threadIdx.x] = value
    _reduce(sums, 1)
    total = sums[0, 0]
    cuda.syncthreads()  # before the next sum takes its place
    return total


def _block_max(value, sums):
    """The largest of the threads' values, none of them NaN."""
    t, half = cuda.threadIdx.x, THREADS // 2
    sums[0, t] = value
    cuda.syncthreads()
    while half > 0:
        if t < half:
            other = sums[0, t + half]
            sums[0, t] = other if other > sums[0, t] else sums[0, t]
        half //= 2
        cuda.syncthreads()
    largest = sums[0, 0]
    cuda.syncthreads()
    return largest


def largest_of(x, sums):
    """max |x_i|, ∞ if one is not finite."""
    largest = 0.0
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        size = abs(x[i])
        if not size < _INF:
            size = _INF
        largest = size if size > largest else largest
    return _block_max(largest, sums)


def product(x, y, sums):
    """Σ x_i y_i."""
    total = 0.0
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        total += x[i] * y[i]
    return block_sum(total, sums)


def divide(x, by):
    for i in range(cuda.threadIdx.x, x.size, THREADS):
        x[i] /= by


def project_out(e, own, frame, beside, known, coefficients, sums):
    """(e, own) minus its part in the span of `known` rows (frame, beside), which goes to `coefficients`; returns (its
    length before, after, own after).

    Rows are taken CHUNK at a time: classical Gram–Schmidt inside a chunk, modified between them, all of it twice.
    """
    t = cuda.threadIdx.x
    part = cuda.local.array(CHUNK, float64)
    before = math.sqrt(product(e, e, sums) + own * own)
    for j in range(t, known, THREADS):
        coefficients[j] = 0.0
    for _ in range(2):
        for first in range(0, known, CHUNK):
            for c in range(CHUNK):
                part[c] = 0.0
            for i in range(t, e.size, THREADS):
                for c in range(CHUNK):
                    if first + c < known:
                        part[c] += frame[first + c, i] * e[i]
            for c in range(CHUNK):
                sums[c, t] = part[c]
            _reduce(sums, CHUNK)
            kept = own
            for c in range(CHUNK):
                part[c] = sums[c, 0]
                if first + c < known:
                    part[c] += beside[first + c] * own
                    kept -= part[c] * beside[first + c]
            own = kept
            for i in range(t, e.size, THREADS):
                value = e[i]
                for c in range(CHUNK):
                    if first + c < known:
                        value -= part[c] * frame[first + c, i]
                e[i] = value
            if t == 0:
                for c in range(CHUNK):
                    if first + c < known:
                        coefficients[first + c] += part[c]
            cuda.syncthreads()
    return before, math.sqrt(product(e, e, sums) + own * own), own


def fill_block(image, start, stream, network, layer, k0, k1):
    """image[i] = normal number start + i."""
    odd, pair = start & 1, start >> 1
    for p in range(cuda.threadIdx.x, (image.size + odd + 1) // 2, THREADS):
        first, second = normal_pair(np.uint64(pair + p), stream, network, layer, k0, k1)
        i = 2 * p - odd
        if i >= 0:
            image[i] = first
        if i + 1 < image.size:
            image[i + 1] = second
    cuda.syncthreads()
