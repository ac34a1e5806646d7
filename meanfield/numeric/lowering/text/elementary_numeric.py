"""Helper functions of loops that go in lockstep, as source over `math` and `np`: without branches, so that a compiler
makes vector code of a loop that calls them, and with the same bits there, one by one and interpreted.

An angle is a polynomial; a logarithm-carried variable is m·2^e with 1 ≤ m < 2, of which one multiplication and two
masks are taken each layer and a logarithm only where a value is read; of a table in K each point holds the
coefficients of its present cell.
"""

from __future__ import annotations

import numpy as np

# atan(√u)/√u on 0 ≤ u ≤ tan²(π/8), interpolated at Chebyshev points: its error there is 1.3e-18
ATAN = (
    1.0, -0.3333333333333312, 0.1999999999994089, -0.1428571427925024, 0.11111110744919396, -0.09090896809056438,
    0.07692045330765912, -0.06662951812061838, 0.05846878285787001, -0.050351024039430294, 0.037965256099576565,
    -0.017805395704537506,
)  # fmt: skip
LN2, LN2_HIGH, LN2_LOW = 0.6931471805599453, 0.6931471803691238, 1.9082149292705877e-10  # high: 21 bits are free
LEAST_NORMAL = 2.0**-1022
WIDTH = 64  # of a row of a loop's workspace: points that are followed together


def polynomial(coefficients: tuple[float, ...], v: str) -> str:
    """Source of a polynomial in v by Horner's rule, in brackets where it has several terms."""
    text = repr(coefficients[-1])
    for c in coefficients[-2::-1]:
        text = f"{c!r} + {v} * ({text})"
    return text


def wide(logarithms: np.ndarray) -> tuple[np.ndarray | float, np.ndarray | float]:
    """(m, e) with m·2^e the exponentials; m is 0, inf or NaN where those are. One number each where all are 1."""
    if not logarithms.any():  # the usual start, of all that is 1 at layer 1
        return 1.0, 0.0
    finite = np.isfinite(logarithms)
    x = np.where(finite, logarithms, 0.0)
    e = np.rint(x / LN2)
    with np.errstate(over="ignore"):
        return np.where(finite, np.exp((x - e * LN2_HIGH) - e * LN2_LOW), np.exp(logarithms)), e


ELEMENTARY = {
    "_angle": f"""def _angle(y, x):
    # atan2 of two numbers >= 0; taken back to t, |t| <= tan(pi/8), by pi/4 or pi/2
    steep, middle = y > 2.414213562373095 * x, y > 0.41421356237309503 * x
    over = -x if steep else y - x if middle else y
    under = y if steep else y + x if middle else x
    t = over / under if under > 0.0 else 0.0
    u = t * t
    v = u * u
    even = {polynomial(ATAN[0::2], "v")}
    odd = {polynomial(ATAN[1::2], "v")}
    return t * (even + u * odd) + (1.5707963267948966 if steep else 0.7853981633974483 if middle else 0.0)
""",
    "_atan2": """def _atan2(y, x):
    angle = _angle(abs(y), abs(x))
    return math.copysign(math.pi - angle if x < 0.0 else angle, y)
""",
    "_bits": """def _bits(x):
    return np.float64(x).view(np.int64)
""",
    "_float": """def _float(bits):
    return np.int64(bits).view(np.float64)
""",
    "_split": f"""def _split(y, e):
    # y 2^e as m 2^e, 1 <= m < 2; a y that has no such form (0, inf, nan) is its own m
    bits = _bits(y)
    normal = (y >= {LEAST_NORMAL!r}) & (y < math.inf)
    m = _float((bits & {2**52 - 1}) | {1023 << 52})
    shift = _float((bits >> 52) | {(1023 + 52) << 52}) - {2.0**52 + 1023.0!r}  # an integer below 2^52 as a double
    return m if normal else y, e + shift if normal else e
""",
    "_log": f"""def _log(m, e):
    # log of m 2^e; nothing cancels where it is small
    m, e = _split(m, e)
    if m > 1.4142135623730951:
        m, e = 0.5 * m, e + 1.0
    return e * {LN2_HIGH!r} + (math.log(m) + e * {LN2_LOW!r})
""",
    "_double": """def _double(m, e):
    # m 2^e, 0 below every double; in two factors, the second of which alone may leave the normal doubles
    e = min(max(e, -2040.0), 2040.0)
    h = math.floor(0.5 * e)
    return m * _power(h) * _power(e - h)
""",
    "_power": """def _power(e):
    # 2^e of an integer that is a double: what is added moves it to the last bits
    return _float((_bits(e + 4503599627371519.0) & 2047) << 52)
""",
    "_held": f"""def _held(c, i, t):
    u, v, w, x = i + {2 * WIDTH}, i + {4 * WIDTH}, i + {6 * WIDTH}, i + {8 * WIDTH}
    s = t * t
    even = c[i] + s * (c[u] + s * (c[v] + s * (c[w] + s * c[x])))
    odd = c[i + {WIDTH}] + s * (c[u + {WIDTH}] + s * (c[v + {WIDTH}] + s * (c[w + {WIDTH}] + s * c[x + {WIDTH}])))
    return even + t * odd
""",
}

#: what loops may call and still become vector code
BRANCH_FREE = frozenset({"_sqrt", "_rooted", "_angle", "_atan2", "_split", "_double", "_held", "_defined", "_of_gap",
                         "math.floor", "math.sqrt", "math.copysign", "abs", "min", "max"})  # fmt: skip

NEEDS = {
    "_atan2": ("_angle",),
    "_split": ("_bits", "_float"),
    "_log": ("_split",),
    "_double": ("_power",),
    "_power": ("_bits", "_float"),
}
#: what is short, or called by loops that are to become vector code
INLINE = frozenset({"_sqrt", "_rooted", "_angle", "_atan2", "_bits", "_float", "_split", "_double", "_power", "_held",
                    "_horner", "_defined", "_of_gap"})  # fmt: skip
