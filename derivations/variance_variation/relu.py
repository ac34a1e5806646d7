"""ReLU: Theorems C.9 and C.11 row by row (the rows R41 … R54), Lemmas D.7 and D.8 for δ > 0, and what B.1 says."""

from __future__ import annotations

import sympy as sp

from derivations.variance_variation.regions import (
    E,
    LogOrder,
    Occurs,
    Order,
    V,
    W,
    above,
    at_least,
    at_most,
    ba,
    bb,
    below,
    bv,
    bw,
    full,
    off,
    on,
    sa,
    sb,
    sv,
)
from meanfield.base.symbols import l

RELU = full("relu")
U = sp.Min(bv + bb, ba)  # U_r
SHIFT = sp.Rational(1, 50)  # an exponent that is wrong by 0.02
STEEP, EDGE, FLAT = above(V, 1), on(V, 1), below(V, 1)
top = sp.Max(W, 1 - U)
log = sp.log(l)

# where: (conditions, p, q, chi^(0)/chi^(l), chi_w, chi_b, chi_v, chi_a), all of them Θ(·)
ROWS = {
    "41, 48": (
        (STEEP, below(U, 1)),
        (l ** (1 - U), l ** sp.Max(1 - U - bw, -bb)),
        (1, l ** (U - 1 + bv), l**bv, l ** -sp.Max(1 - U - bw, -bb), 1),
    ),
    "42a, 49a": (
        (STEEP, on(U, 1), at_most(bw, bb)),
        (log, l**-bw * log),
        (1, l**bv / log, l**bv, l**bw / log, 1),
    ),
    "42b, 49b": ((STEEP, on(U, 1), above(bw, bb)), (log, l**-bb), (1, l**bv / log, l**bv, l**bb, 1)),
    "43, 50": ((STEEP, above(U, 1)), (1, l ** -sp.Min(bw, bb)), (1, l**bv, l**bv, l ** sp.Min(bw, bb), 1)),
    "44, 51": (
        (EDGE, off(W, 1 - U)),
        (l**top, l ** sp.Max(top - bw, -bb)),
        (l**W, l ** (W + bv - top), l ** (W + bv), l ** (W - sp.Max(top - bw, -bb)), l**W),
    ),
    "45a, 52a": (
        (EDGE, on(W, 1 - U), at_least(bb, bw - W)),
        (l**W * log, l ** (W - bw) * log),
        (l**W, l**bv / log, l ** (W + bv), l**bw / log, l**W),
    ),
    "46, 53": ((FLAT,), (E, E * l**-bw), (E, 1, E * l**bv, l**bw, E)),  # E9: chi_w
}
FORWARD, BACKWARD = ("p", "q"), ("chi", "chi_w", "chi_b", "chi_v", "chi_a")


def _rows():
    for rows, (conditions, forward, backward) in ROWS.items():
        one, other = rows.split(", ")
        for name, printed in (*zip(FORWARD, forward), *zip(BACKWARD, backward)):
            source = f"R{one}, Thm C.9" if name in FORWARD else f"R{other}, Thm C.11"
            wrong = (rows, name) == ("46, 53", "chi_w")
            right = l**bv if wrong else sp.sympify(printed) * l**SHIFT
            yield Order(source, RELU, name, sp.sympify(printed), right, wrong, conditions=conditions)


PHASES = tuple(_rows())
CORRECTED = (  # E7
    Order(
        "R43, Thm C.9, Δp",
        RELU,
        "Delta p",
        l**-U,
        l ** -sp.Min(U, V),
        True,
        conditions=(STEEP, above(U, 1)),
    ),
    Order(
        "R43, Thm C.9, Δp where U_r ≤ V_r",
        RELU,
        "Delta p",
        l**-U,
        l ** (SHIFT - U),
        conditions=(STEEP, above(U, 1), at_most(U, V)),
    ),
    Order("R53, B.1: chi_w bounded for V_r < 1, β_v = 0", RELU, "chi_w", sp.S.One, l**SHIFT,
          conditions=(FLAT, on(bv))),
    Order("R51, chi_v without the outer maximum", RELU, "chi_v", l ** (W + bw - top), l ** (W + bb - top),
          conditions=(EDGE, off(W, 1 - U))),
)  # fmt: skip
NO_DECAY = tuple(
    Order(f"R53, § 5: {n} without decay", RELU, n, sp.S.One, l**SHIFT, conditions=(on(bv), on(bw)))
    for n in ("chi_w", "chi_v")
)
# E10: where the proof divides by q ~ l^{W_r - β_w} log l
PROOF = (
    Order("R52a, proof of C.11", RELU, "chi_v", l**bv / log, l**bw / log, True,
          conditions=(EDGE, on(W, 1 - U), at_least(bb, bw - W))),
)  # fmt: skip
VACUOUS = (  # E32: rows that are printed and cannot occur
    Occurs("R45b, Thm C.9: V_r = 1, W_r = 1 - U_r, β_b < β_w - W_r", RELU, "row", True, False, True,
           conditions=(EDGE, on(W, 1 - U), below(bb, bw - W))),
    Occurs("R52b, Thm C.11: the same", RELU, "row of chi_v", True, False, True,
           conditions=(EDGE, on(W, 1 - U), below(bb, bw - W))),
    Occurs("R45a: V_r = 1, W_r = 1 - U_r", RELU, "row", True, False, conditions=(EDGE, on(W, 1 - U))),
)  # fmt: skip

source_b = sv**2 * sb**2 / 2
MIXED = (above(ba, bv + bb), below(ba, bv + bb), on(ba, bv + bb))
SIZES = (source_b, sa**2, sa**2 + source_b)
CONSTANTS = tuple(  # of the specification: which bias feeds K, and with which constant
    Order(f"R{n}, constant, {word}", RELU, "p", a * front, 2 * a * front, conditions=(*conditions, which), exact=True)
    for which, a, word in zip(MIXED, SIZES, ("β_a > β_v + β_b", "β_a < β_v + β_b", "β_a = β_v + β_b"))
    for n, conditions, front in (
        ("41", (STEEP, below(U, 1)), l ** (1 - U) / (1 - U)),
        ("42", (STEEP, on(U, 1)), log),
        ("44", (EDGE, below(W, 1 - U)), l ** (1 - U) / (1 - U - W)),
        ("45", (EDGE, on(W, 1 - U)), l**W * log),
    )
)
GROWTH = (  # R46, E30: the leading term of log p
    LogOrder("R46, B.1: log p for 0 < V_r < 1", RELU, "p", W * l ** (1 - V) / (1 - V), W * l ** (1 - V),
             conditions=(FLAT, above(V)), exact=True),
    LogOrder("R46, § 7.1: log p at V_r = 0", RELU, "p", W * l, sp.log(1 + W) * l, True,
             conditions=(on(V),), exact=True),
    LogOrder("R53, § 7.1: log chi for 0 < V_r < 1", RELU, "chi", W * l ** (1 - V) / (1 - V), W * l ** (1 - V),
             conditions=(FLAT, above(V)), exact=True),
    LogOrder("R53, § 7.1: log chi at V_r = 0", RELU, "chi", W * l, sp.log(1 + W) * l, True,
             conditions=(on(V),), exact=True),
)  # fmt: skip
ZIG = (on(bv), on(ba), on(bw, bb), on(W, sp.S.Half))
ZAG = (on(bv), on(bw, 2), on(bb, 2), on(W, sp.S.Half))
t = bw
SWEEPS = (  # table T5
    Order("T5, § 7.1, zig, t = 1", RELU, "p", 2 * sa**2 * l, sa**2 * l, conditions=(*ZIG, on(t, 1)), exact=True),
    Order("T5, § 7.1, zig, t = 1", RELU, "chi_v", l**sp.S.Half, l, conditions=(*ZIG, on(t, 1))),
    Order("T5, § 7.1, zig, t < 1", RELU, "chi_v", l**t, l ** (1 - t), conditions=(*ZIG, below(t, 1))),
    Order("T5, § 7.1, zig, t > 1", RELU, "chi_v", l ** (t - 1), l**t, conditions=(*ZIG, above(t, 1))),
    # E15: said to increase from Θ(1)
    Occurs("R51, § 7.1: zig, chi_w^(1)/chi_w^(l) grows", RELU, "chi_w", True, False, True,
           conditions=(*ZIG, above(W + bv - top), on(t, 1))),
    Order("T5, zig, t = 1", RELU, "chi_w", l**-sp.S.Half, l**sp.S.Half, conditions=(*ZIG, on(t, 1))),
    Order("T5, zig, t > 1", RELU, "chi_w", l**-1, l, conditions=(*ZIG, above(t, 1))),
    # E15: chi_v begins with Θ(l^{β_v}), which is 1 here
    Order("R53, § 7.1: zig, chi_v for V_r < 1", RELU, "chi_v", l**bv, l**bw, True,
          conditions=(*ZIG, below(t, 1), above(t))),
    Order("T5, zag, U_r < 1", RELU, "chi_v", l ** (1 + ba), l ** (1 - ba), conditions=(*ZAG, below(ba, 1))),
    Order("T5, zag, U_r = 1", RELU, "chi_v", l**2 / log, l**2, conditions=(*ZAG, on(ba, 1))),
    Order("T5, zag, U_r > 1", RELU, "chi_v", l**2, l, conditions=(*ZAG, above(ba, 1))),
)  # fmt: skip
CLAIMS = PHASES + CORRECTED + NO_DECAY + PROOF + VACUOUS + CONSTANTS + GROWTH + SWEEPS
