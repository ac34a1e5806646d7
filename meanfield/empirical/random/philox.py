"""Standard normals and uniform numbers from the counter-based Philox4x32-10, each a pure function of its key.

The key of a number is (seed, network, layer, role, index): nothing is carried from one draw to the next, so any split
of the work over chunks, threads or machines gives the same bits. The core uses 32-bit words held in unsigned 64-bit
integers, masked by hand, and +, −, ×, ÷, √ in double precision without reassociation: compiled, interpreted
(NUMBA_DISABLE_JIT=1), vectorized and scalar code agree in every bit, and a GPU kernel can call the same functions.

Source: Philox4x32-10 of Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC'11; the
Box–Muller transform with Taylor polynomials for its logarithm, sine and cosine is derived here (comments).
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numba.extending import register_jitable

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)  # multipliers of the two halves
_W0, _W1 = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)  # Weyl increments of the key
_LOW = np.uint64(0xFFFFFFFF)
_1, _2, _12, _16, _20, _32, _52 = (np.uint64(n) for n in (1, 2, 12, 16, 20, 32, 52))
_ONE = np.uint64(0x3FF0000000000000)  # the bits of 1.0
_TO_SQRT_HALF = np.uint64(0x3FF0000000000000 - 0x3FE6A09E667F3BCD)  # bits of 1.0 minus bits of √½
_BIAS = np.uint64(1023)
_TWO_LN2 = 2.0 * math.log(2.0)
_HALF_PI = 0.5 * math.pi
_SQRT_12 = math.sqrt(12.0)

MAX_INDEX = 2**49
MAX_NETWORK = 2**32
MAX_LAYER = 2**32
MAX_ROLE = 2**16


@register_jitable(forceinline=True, error_model="numpy")
def philox4x32(c0, c1, c2, c3, k0, k1):
    """Ten rounds of Philox4x32: counter c0..c3 and key k0, k1 (uint64 below 2³²) to four words below 2³²."""
    for _ in range(10):
        p0, p1 = _M0 * c0, _M1 * c2  # at most (2³² − 1)²: no overflow
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ k0, p1 & _LOW, (p0 >> _32) ^ c3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _W0) & _LOW, (k1 + _W1) & _LOW
    return c0, c1, c2, c3


@register_jitable(forceinline=True, error_model="numpy")
def _uniform(high, low):
    """The midpoint of one of 2⁵² equal cells of (0, 1): 32 bits of `high` and the upper 20 of `low`."""
    return (np.uint64((high << _20) | (low >> _12) | _ONE).view(np.float64) - 1.0) + 2.0**-53


@register_jitable(forceinline=True, error_model="numpy")
def _minus_two_log(u):
    """−2 ln u for u in (0, 1), to about 2 ulp: u = 2⁻ⁿ m with m in [√½, √2), ln m = 2 artanh((m − 1)/(m + 1))."""
    bits = np.float64(u).view(np.uint64)
    n = _BIAS - ((bits + _TO_SQRT_HALF) >> _52)
    m = np.uint64(bits + (n << _52)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    w = s * s  # ≤ 0.0295: the first omitted term, w¹⁰/21, is below 3e-17
    p = 1 / 19
    p = p * w + 1 / 17
    p = p * w + 1 / 15
    p = p * w + 1 / 13
    p = p * w + 1 / 11
    p = p * w + 1 / 9
    p = p * w + 1 / 7
    p = p * w + 1 / 5
    p = p * w + 1 / 3
    # n as a double without an integer conversion, which AVX2 does not have: n sits in the last bits of 1 + n 2⁻⁵².
    octaves = (np.uint64(n | _ONE).view(np.float64) - 1.0) * 2.0**52
    return octaves * _TWO_LN2 - 4.0 * (s + s * (w * p))


@register_jitable(forceinline=True, error_model="numpy")
def _sin_cos(t):
    """(sin t, cos t) for |t| ≤ π/4, to about 1 ulp: Taylor, first omitted terms t¹⁷/17! and t¹⁸/18!, below 5e-17."""
    q = t * t
    a = -1 / 1307674368000
    a = a * q + 1 / 6227020800
    a = a * q - 1 / 39916800
    a = a * q + 1 / 362880
    a = a * q - 1 / 5040
    a = a * q + 1 / 120
    a = a * q - 1 / 6
    c = 1 / 20922789888000
    c = c * q - 1 / 87178291200
    c = c * q + 1 / 479001600
    c = c * q - 1 / 3628800
    c = c * q + 1 / 40320
    c = c * q - 1 / 720
    c = c * q + 1 / 24
    c = c * q - 1 / 2
    return t + t * (q * a), 1.0 + q * c


@register_jitable(forceinline=True, error_model="numpy")
def normal_pair(pair, stream, network, layer, k0, k1):
    """Two independent standard normals: numbers 2·pair and 2·pair + 1 of the stream (seed, network, layer, role).

    All uint64: pair < 2⁴⁸, stream = role·2¹⁶, network and layer < 2³², (k0, k1) the low and high word of the seed.
    Box–Muller: 52 bits give the radius, 52 the angle within ±π/4 and 2 the quarter of the circle; |value| ≤ 8.58.
    """
    x0, x1, x2, x3 = philox4x32(pair & _LOW, (pair >> _32) | stream, network, layer, k0, k1)
    radius = math.sqrt(_minus_two_log(_uniform(x1, x0)))
    sine, cosine = _sin_cos((_uniform(x3, x2) - 0.5) * _HALF_PI)
    radius = radius if (x2 & _2) == _2 else -radius
    swap = (x2 & _1) == _1
    return radius * (sine if swap else cosine), radius * (cosine if swap else sine)


@njit(cache=True, nogil=True, error_model="numpy")
def fill_stream(out, scale, start, words):
    """out[i] = scale × number start + i of the stream that `words` names, see `stream`."""
    stream, network, layer = np.uint64(words[0]), np.uint64(words[1]), np.uint64(words[2])
    k0, k1 = np.uint64(words[3]), np.uint64(words[4])
    first = np.uint64(start) & _1
    pair = np.uint64(start) >> _1
    if first == _1 and out.size > 0:
        out[0] = scale * normal_pair(pair, stream, network, layer, k0, k1)[1]
        pair += _1
    offset = np.int64(first)
    pairs = max(out.size - offset, 0) // 2
    for i in range(pairs):
        j = offset + 2 * i
        x, y = normal_pair(pair + np.uint64(i), stream, network, layer, k0, k1)
        out[j], out[j + 1] = scale * x, scale * y
    if offset + 2 * pairs < out.size:
        out[out.size - 1] = scale * normal_pair(pair + np.uint64(pairs), stream, network, layer, k0, k1)[0]


def fill_normals(
    out: np.ndarray, seed: int, network: int, layer: int, role: int, start: int = 0, scale: float = 1.0
) -> None:
    """out[i] = scale × standard normal number start + i of the stream (seed, network, layer, role); `out` is 1-D."""
    fill_stream(out, float(scale), start, stream(seed, network, layer, role))


@njit(cache=True, nogil=True, error_model="numpy")
def fill_uniform_stream(out, scale, start, words):
    """out[i] = scale × uniform number start + i of the stream that `words` names: mean 0, variance 1, |x| < √3."""
    stream, network, layer = np.uint64(words[0]), np.uint64(words[1]), np.uint64(words[2])
    k0, k1 = np.uint64(words[3]), np.uint64(words[4])
    wide = scale * _SQRT_12
    for i in range(out.size):
        place = np.uint64(start + i)
        pair = place >> _1
        x0, x1, x2, x3 = philox4x32(pair & _LOW, (pair >> _32) | stream, network, layer, k0, k1)
        u = _uniform(x1, x0) if (place & _1) == np.uint64(0) else _uniform(x3, x2)
        out[i] = wide * (u - 0.5)


def fill_uniforms(
    out: np.ndarray, seed: int, network: int, layer: int, role: int, start: int = 0, scale: float = 1.0
) -> None:
    """out[i] = scale × uniform number start + i of the stream (seed, network, layer, role), of mean 0 and variance 1;
    `out` is 1-D. The words are those that `fill_normals` makes normals of."""
    fill_uniform_stream(out, float(scale), start, stream(seed, network, layer, role))


def stream(seed: int, network: int, layer: int, role: int) -> tuple[int, int, int, int, int]:
    """The words that name a stream in compiled code."""
    return role << 16, network, layer, seed & 0xFFFFFFFF, seed >> 32


def normals(seed: int, network: int, layer: int, role: int, count: int, start: int = 0) -> np.ndarray:
    """`count` standard normals of the stream (seed, network, layer, role), from number `start` on.

    Ranges: 0 ≤ seed < 2⁶⁴, network and layer < 2³², role < 2¹⁶, start + count ≤ 2⁴⁹.

    >>> bool((normals(7, 0, 1, 0, 6)[2:] == normals(7, 0, 1, 0, 4, start=2)).all())
    True
    """
    out = np.empty(count)
    fill_normals(out, seed, network, layer, role, start)
    return out
