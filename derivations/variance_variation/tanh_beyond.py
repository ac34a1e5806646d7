"""tanh where q does not grow (R39, E17), a step of the proof of C.6 (E20), and the sweeps of figure 3 (E13)."""

from __future__ import annotations

import sympy as sp

from derivations.claims import Claim
from derivations.variance_variation.regions import (
    Kind,
    Occurs,
    Order,
    OverRegion,
    S,
    V,
    above,
    at_least,
    at_most,
    ba,
    bb,
    below,
    bv,
    bw,
    on,
)
from derivations.variance_variation.tanh import LOW, SHIFT, TANH, UNIT, U, W_t, a2, claim, log, v2
from meanfield.base.symbols import l


def beyond(kind: type[OverRegion], source: str, name: str, printed, right, *conditions, misprint=False, **more):
    """A claim whatever q does."""
    return kind(source, TANH, name, printed, right, misprint, conditions=conditions, **more)


SMALL = above(bw + ba, 1), above(bb)  # with V ≥ 1: q → 0, where tanh is linear
U_r = sp.Min(bv + bb, ba)
BEYOND = (  # R39: the classification of chi holds without the hypothesis
    beyond(Kind, "R39: chi, U_t < 1, W_t > 0", "chi", "superpolynomial", "power", LOW, above(W_t)),
    beyond(Kind, "R39: chi, U_t < 1, W_t = 0", "chi", "power", "bounded", LOW, on(W_t)),
    beyond(Kind, "R39: chi, U_t < 1, W_t < 0", "chi", "bounded", "power", LOW, below(W_t)),
    beyond(Kind, "R39: chi, U_t = 1 = V_t", "chi", "subpolynomial", "power", UNIT, on(V, 1)),
    beyond(Kind, "R39: chi, U_t = 1 < V_t", "chi", "bounded", "power", UNIT, above(V, 1)),
    beyond(Kind, "R39: chi, U_t > 1", "chi", "bounded", "power", above(U, 1)),
    beyond(Order, "R39: p as ReLU's where q → 0, V > 1, U_r < 1", "p", l ** (1 - U_r), l ** (1 - U), *SMALL,
           above(V, 1), below(U_r, 1)),
    beyond(Order, "R39: p as ReLU's where q → 0, V > 1, U_r = 1", "p", log, l**SHIFT, *SMALL, above(V, 1), on(U_r, 1)),
    beyond(Order, "R39: p as ReLU's where q → 0, V > 1, U_r > 1", "p", sp.S.One, log, above(bb), above(bw),
           above(V, 1), above(U_r, 1)),
    beyond(Order, "R39: p as ReLU's where q → 0, V = 1, S < 1 - U_r", "p", l ** (1 - U_r), l ** (1 - U), *SMALL,
           on(V, 1), below(S, 1 - U_r)),
    beyond(Order, "R39: p as ReLU's where q → 0, V = 1, S = 1 - U_r", "p", l**S * log, l**S, *SMALL,
           on(V, 1), on(S, 1 - U_r)),
    beyond(Order, "R27: q → ∞ wherever 1 > β_w + U_t", "q", l ** (1 - bw - U), l ** (1 - U), below(bw + U, 1)),
    beyond(Order, "R28: q → ∞ wherever U_t = 1, β_w = 0", "q", log, l**SHIFT, UNIT, on(bw)),
    # E17: q bounded does not make p bounded
    beyond(Order, "R39, B.2: p bounded where q is", "p", sp.S.One, l, on(ba), on(bw, 1), above(bv, 1), misprint=True),
)  # fmt: skip
STEPS = (  # E20: the step of the proof that bounds log chi
    claim(Occurs, "R32, proof of C.6: (W_t - 2)/2 > 1 at W_t < 0", "exponent", True, False, LOW, below(W_t),
          above(W_t / 2 - 1, 1), misprint=True),
    claim(Occurs, "R32, (W_t - 2)/2 ≥ -1 at W_t < 0", "exponent", False, True, LOW, below(W_t),
          at_least(W_t / 2 - 1, -1)),
)  # fmt: skip
ALIKE = on(bv, bw), on(ba, bw), on(bb, bw)  # figure 3 (a), as β_w goes from 0 to 1
CLAMPED = on(ba, 1), on(bb, 1), on(bv, bw)  # (b)
SWEPT = on(bv, 1), on(ba, 1), on(bb, bw)  # (c)
half_1 = sp.S.Half
SWEEPS = (  # E13: the sweeps leave the hypothesis of the theorems they are to test
    claim(Occurs, "R27, figure 3 (a): q → ∞ at β ≥ 1/2", "row", True, False, *ALIKE, at_least(bw, half_1),
          at_most(bw, 1), misprint=True),
    claim(Occurs, "R27, figure 3 (b): q → ∞ at β_v ≥ 1/2", "row", True, False, *CLAMPED, at_least(bw, half_1),
          at_most(bw, 1), misprint=True),
    claim(Occurs, "R28, figure 3 (c): q → ∞ at β_w > 0", "row", True, False, *SWEPT, above(bw), at_most(bw, 1),
          misprint=True),
    claim(Occurs, "R27, figure 3 (a): q → ∞ at β < 1/2", "row", True, False, *ALIKE, below(bw, half_1)),
    beyond(Order, "R27, figure 3 (a), 1/2 < β < 1", "p", (a2 + v2) * l ** (1 - bw) / (1 - bw),
           a2 * l ** (1 - bw) / (1 - bw), *ALIKE, above(bw, half_1), below(bw, 1), misprint=True, exact=True),
    beyond(Order, "R27, figure 3 (b), 1/2 < β_v < 1", "p", l ** (1 - bw), log, *CLAMPED, above(bw, half_1),
           below(bw, 1), misprint=True),
)  # fmt: skip

CLAIMS: tuple[Claim, ...] = BEYOND + STEPS + SWEEPS
