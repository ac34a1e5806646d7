"""CUDA kernels of finite networks, as plain Python: `meanfield.empirical.cuda.compilation` compiles them.

Names in capitals and `cuda` are placeholders that stand for what a plan fixes: numba.cuda, the size of a thread block,
the vectors of a launch, φ and φ′. A kernel of one's own stands in a module with `cuda = None`, and with those of the
placeholders that it uses; it may call the device functions of `cooperation`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import float64

from meanfield.empirical.cuda.cooperation import (
    block_sum,
    divide,
    fill_block,
    largest_of,
    mark,
    normal,
    product,
    project_out,
)
from meanfield.empirical.network.operations.operation_derivatives import ROUNDING
from meanfield.empirical.observables.norms import _FAR, _LOG2
from meanfield.empirical.random.philox import normal_pair
from meanfield.empirical.random.sampler import DEPENDENT

# What a kernel is compiled for: `kernel` puts numba.cuda, the size of a thread block and a plan's functions in place.
cuda: Any = None
THREADS, LANES, ROWS, CHUNK = 256, 32, 4, 8
VECTORS = 1
HAAR = PAIRED = LARGEST = ROOT = False
PARAMETERS: tuple[float, ...] = ()
phi: Any = None
dphi: Any = None
value: Any = None  # of a group of neurons
slope: Any = None
_INF, _NAN = math.inf, math.nan


# x, out: (networks, rows, neurons); the first `positions` of the `rows` in use are z, the others tangents at the first
# position. lost[b, p] is set where z holds a number that is not finite. words: (stream, first network, layer, seed).


def explicit_kernel(x, out, lost, first, positions, tiles, scale, sigma_b, words):
    """Rows first … first + VECTORS − 1 of x times scale·Wᵀ, plus σ_b b for z.

    A thread block makes ROWS outputs of one network; LANES threads share the columns of a row of W, pair by pair.
    """
    sums = cuda.shared.array((ROWS, LANES, VECTORS), float64)
    part = cuda.local.array(VECTORS, float64)
    lane, row = cuda.threadIdx.x, cuda.threadIdx.y
    stream, network, layer, k0, k1 = words
    b, i = cuda.blockIdx.x // tiles, cuda.blockIdx.x % tiles * ROWS + row
    network += np.uint64(b)
    inputs, outputs = x.shape[2], out.shape[2]
    for k in range(VECTORS):
        part[k] = 0.0
    if i < outputs:
        start = i * inputs
        pair = (start >> 1) + lane
        for j in range(2 * lane - (start & 1), inputs, 2 * LANES):
            here, there = normal_pair(np.uint64(pair), stream, network, layer, k0, k1)
            if j >= 0:
                for k in range(VECTORS):
                    part[k] += scale * here * x[b, first + k, j]
            if j + 1 < inputs:
                for k in range(VECTORS):
                    part[k] += scale * there * x[b, first + k, j + 1]
            pair += LANES
    for k in range(VECTORS):
        sums[row, lane, k] = part[k]
    cuda.syncthreads()
    if i < outputs:
        for k in range(lane, VECTORS, LANES):
            total = 0.0
            for other in range(LANES):
                total += sums[row, other, k]
            if first + k < positions:
                if sigma_b > 0.0:
                    total += sigma_b * normal(i, stream + np.uint64(1 << 16), network, layer, k0, k1)
                mark(total, lost, b, first + k)
            out[b, first + k, i] = total


def lazy_kernel(x, out, lost, frames, images, coefficients, rows, positions, scale, bias, sigma_b, words):
    """All rows of x times scale·Wᵀ, plus the bias for z, by one thread block a network; see `sampler`.

    bias: the coordinate of the bias and the factor of the others, as `sampler.with_bias` gives them; sigma_b > 0: a
    bias that is drawn by itself (of a Haar matrix). coefficients: three vectors of scratch, the third the coordinates
    of the bias beside the frame.
    """
    sums = cuda.shared.array((CHUNK, THREADS), float64)
    b, t = cuda.blockIdx.x, cuda.threadIdx.x
    stream, network, layer, k0, k1 = words
    network += np.uint64(b)
    Q, Y, c = frames[b], images[b], coefficients[b]
    inputs, outputs = x.shape[2], out.shape[2]
    size = inputs if inputs > outputs else outputs
    dimension = Q.shape[1] + (1 if bias[0] > 0.0 else 0)
    known = 0
    for row in range(rows):
        largest = largest_of(x[b, row], sums)
        if not largest < _INF:
            for i in range(t, outputs, THREADS):
                out[b, row, i] = _NAN
            if t == 0 and row < positions:
                lost[b, row] = 1
            continue
        coordinate = bias[0] if row < positions else 0.0
        largest *= bias[1]
        largest = coordinate if coordinate > largest else largest
        e, image, used = Q[known], Y[known], known
        _, power = math.frexp(largest)
        power = power if power > -1000 else -1000
        factor = math.ldexp(1.0, -power)
        for i in range(t, e.size, THREADS):
            e[i] = x[b, row, i] * (factor * bias[1]) if i < inputs else 0.0
        before, left, own = project_out(e, coordinate * factor, Q, c[2], known, c[0], sums)
        if left > DEPENDENT * before and known < dimension:
            divide(e, left)
            fill_block(image, row * size, stream, network, layer, k0, k1)
            if HAAR:
                _, length, _ = project_out(image, 0.0, Y, c[2], known, c[1], sums)
                divide(image, length)
            if t == 0:
                c[0, known] = left
                c[2, known] = own / left
            used = known + 1
        cuda.syncthreads()
        factor = scale * math.ldexp(1.0, power)
        for i in range(t, outputs, THREADS):
            total = 0.0
            for j in range(used):
                total += factor * c[0, j] * Y[j, i]
            if row < positions:
                if sigma_b > 0.0:
                    total += sigma_b * normal(i, stream + np.uint64(1 << 16), network, layer, k0, k1)
                mark(total, lost, b, row)
            out[b, row, i] = total
        known = used
        cuda.syncthreads()


def map_kernel(x, out, lost, rows, positions):
    at, neurons = cuda.grid(1), x.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        for p in range(positions):
            value = phi(x[b, p, i], *PARAMETERS)
            mark(value, lost, b, p)
            out[b, p, i] = value
        if rows > positions:
            slope = dphi(x[b, 0, i], *PARAMETERS)
            for r in range(positions, rows):
                out[b, r, i] = slope * x[b, r, i]


def add_kernel(x, factor, saved, mu, out, lost, rows, positions):
    """factor x + μ saved."""
    at, neurons = cuda.grid(1), x.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        for r in range(rows):
            value = factor * x[b, r, i] + mu * saved[b, r, i]
            if r < positions:
                mark(value, lost, b, r)
            out[b, r, i] = value


def product_kernel(x, saved, out, lost, rows, positions):
    """x ⊙ saved; a tangent of either times the other at the first position."""
    at, neurons = cuda.grid(1), x.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        for r in range(rows):
            if r < positions:
                value = x[b, r, i] * saved[b, r, i]
                mark(value, lost, b, r)
            else:
                value = x[b, r, i] * saved[b, 0, i] + x[b, 0, i] * saved[b, r, i]
            out[b, r, i] = value


def pool_kernel(x, out, lost, rows, positions, group):
    """Groups of `group` neurons: their mean, or (LARGEST) the largest, for tangents that of the first position."""
    at, neurons = cuda.grid(1), out.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        first, kept = i * group, 0
        for r in range(rows):
            value = 0.0
            if LARGEST and r < positions:
                place = 0
                for s in range(1, group):
                    if x[b, r, first + s] > x[b, r, first + place]:
                        place = s
                value = x[b, r, first + place]
                if r == 0:
                    kept = place
            elif LARGEST:
                value = x[b, r, first + kept]
            else:
                for s in range(group):
                    value += x[b, r, first + s]
                value /= group
            if r < positions:
                mark(value, lost, b, r)
            out[b, r, i] = value


def group_kernel(x, out, lost, rows, positions, group):
    """A formula of each group of `group` neurons, for tangents its derivative at the first position."""
    at, neurons = cuda.grid(1), out.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        first = i * group
        for r in range(positions):
            out[b, r, i] = value(x, b, r, first)
            mark(out[b, r, i], lost, b, r)
        for r in range(positions, rows):
            total = 0.0
            for k in range(group):
                total += slope(x, b, 0, first, k) * x[b, r, first + k]
            out[b, r, i] = total


def normalize_kernel(x, out, spreads, lost, positions):
    """z of one position: (y − mean(y))/s, or (ROOT) y/s, with spreads[b, p] = s; see
    `operation_derivatives.normalize`."""
    sums = cuda.shared.array((1, THREADS), float64)
    t, b, p = cuda.threadIdx.x, cuda.blockIdx.x // positions, cuda.blockIdx.x % positions
    y, new = x[b, p], out[b, p]
    largest = largest_of(y, sums)
    _, power = math.frexp(largest if largest < _INF else 0.0)
    total = 0.0
    for i in range(t, y.size, THREADS):
        new[i] = math.ldexp(y[i], -power)
        total += new[i]
    mean = 0.0 if ROOT else block_sum(total, sums) / y.size
    for i in range(t, y.size, THREADS):
        new[i] -= mean
    spread = math.sqrt(product(new, new, sums) / y.size)
    if not (largest < _INF and spread > (0.0 if ROOT else ROUNDING * math.ldexp(largest, -power))):
        spread = _NAN
    divide(new, spread)
    if t == 0:
        spreads[b, p] = math.ldexp(spread, power)
        mark(spread, lost, b, p)


def project_kernel(x, out, spreads, positions):
    """One tangent through LayerNorm: (dy − mean(dy) − ŷ mean(ŷ dy))/s at the first position; (ROOT) without mean(dy).
    """
    sums = cuda.shared.array((1, THREADS), float64)
    tangents = x.shape[1] - positions
    b, r = cuda.blockIdx.x // tangents, positions + cuda.blockIdx.x % tangents
    old, new, unit = x[b, r], out[b, r], out[b, 0]
    total = 0.0
    for i in range(cuda.threadIdx.x, old.size, THREADS):
        total += old[i]
    mean = 0.0 if ROOT else block_sum(total, sums) / old.size
    along = product(unit, old, sums) / old.size
    for i in range(cuda.threadIdx.x, old.size, THREADS):
        new[i] = (old[i] - mean - unit[i] * along) / spreads[b, 0]


def probes_kernel(x, positions, words):
    """The tangents to begin with: probe k, neuron i is the sign of number k·neurons + i."""
    at, neurons = cuda.grid(1), x.shape[2]
    b, i = at // neurons, at % neurons
    if b < x.shape[0]:
        stream, network, layer, k0, k1 = words
        network += np.uint64(b)
        for r in range(positions, x.shape[1]):
            number = (r - positions) * neurons + i
            x[b, r, i] = 1.0 if normal(number, stream, network, layer, k0, k1) > 0.0 else -1.0


def finish_kernel(x, lost, values, norms, rows, positions):
    """The end of a layer, by one thread block a network: z that met a number that is not finite becomes NaN, its sums
    go to `values`, ln ‖tangents‖² and ln s to `norms`, where s is what they were divided by (`log_squared_norm`).

    values[b]: mean z² summed over positions and the mean of (Σ_p z_p)², or (PAIRED) K_aa, K_bb, K_ab and distance.
    """
    sums = cuda.shared.array((1, THREADS), float64)
    b, t, neurons = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[2]
    for p in range(positions):
        if lost[b, p] != 0:
            for i in range(t, neurons, THREADS):
                x[b, p, i] = _NAN
    cuda.syncthreads()
    for p in range(t, positions, THREADS):
        lost[b, p] = 0
    if PAIRED:
        here, there = x[b, 0], x[b, 1]
        gap = 0.0
        for i in range(t, neurons, THREADS):
            gap += (here[i] - there[i]) * (here[i] - there[i])
        gap = block_sum(gap, sums)
        own, other, cross = product(here, here, sums), product(there, there, sums), product(here, there, sums)
        if t == 0:
            values[b, 0] = own / neurons
            values[b, 1] = other / neurons
            values[b, 2] = cross / neurons
            values[b, 3] = gap / neurons
    else:
        own, square = 0.0, 0.0
        for p in range(positions):
            own += product(x[b, p], x[b, p], sums) / neurons
        for i in range(t, neurons, THREADS):
            total = 0.0
            for p in range(positions):
                total += x[b, p, i]
            square += total * total
        square = block_sum(square, sums)
        if t == 0:
            values[b, 0] = own
            values[b, 1] = square / neurons
    if rows > positions:
        log_norm, shift, square, largest = _NAN, 0.0, 0.0, 0.0
        for r in range(positions, rows):
            square += product(x[b, r], x[b, r], sums)
            size = largest_of(x[b, r], sums)
            largest = size if size > largest else largest
        if 1 / _FAR <= square <= _FAR:
            log_norm = math.log(square)
        elif largest == 0.0:
            log_norm = -_INF
        elif largest < _INF:
            _, power = math.frexp(largest)
            square = 0.0
            for r in range(positions, rows):
                for i in range(t, neurons, THREADS):
                    x[b, r, i] = math.ldexp(x[b, r, i], -power)
                square += product(x[b, r], x[b, r], sums)
            shift = power * _LOG2
            log_norm = math.log(square) + 2 * shift
        if t == 0:
            norms[b, 0] = log_norm
            norms[b, 1] = shift
