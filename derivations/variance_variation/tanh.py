"""tanh: Theorems C.5 and C.6 (R27 … R35) where q → ∞, what § 6 and § 7.2 say beside them, and what holds beyond.

q → ∞ is the hypothesis of both theorems: the claims with `grows` are decided on the part of the engine's table where it
is so for every start.
"""

from __future__ import annotations

import math

import sympy as sp

import meanfield as mf
from derivations.claims import Claim
from derivations.comparisons import Floats
from derivations.variance_variation.regions import (
    Kind,
    LogOrder,
    Occurs,
    Order,
    OverRegion,
    V,
    above,
    at_least,
    at_most,
    ba,
    bb,
    below,
    bv,
    bw,
    full,
    on,
    sa,
    sv,
    sw,
)
from meanfield.base.symbols import l

TANH = full("tanh")
U = sp.Min(bv, ba)  # U_t
W_t = 1 - bw + U - 2 * bv
SHIFT = sp.Rational(1, 50)
pi, log = sp.pi, sp.log(l)
C = sp.Rational(2, 3) * sp.sqrt(2 / pi)
v2, a2, w2 = sv**2, sa**2, sw**2
CASES = (  # (condition, what feeds K)
    ("β_v < β_a", below(bv, ba), v2),
    ("β_a < β_v", below(ba, bv), a2),
    ("β_a = β_v", on(ba, bv), a2 + v2),
)
LOW, UNIT = below(U, 1), on(U, 1)


def claim(kind: type[OverRegion], source: str, name: str, printed, right, *conditions, misprint=False, **more):
    """A claim under the hypothesis q → ∞."""
    return kind(
        source,
        TANH,
        name,
        sp.sympify(printed) if not isinstance(printed, (bool, str)) else printed,
        right,
        misprint,
        conditions=conditions,
        grows=True,
        **more,
    )


ORDERS = (
    claim(Order, "R27, Thm C.5 (1)", "p", l ** (1 - U), l ** (1 + SHIFT - U), LOW),
    claim(Order, "R27, Thm C.5 (1)", "q", l ** (1 - bw - U), l ** (1 - U), LOW),
    claim(Occurs, "R27, Thm C.5 (1): 1 ≤ β_w + U_t occurs", "row", False, True, LOW, at_least(bw + U, 1)),
    claim(Order, "R28, Thm C.5 (2)", "p", log, l**SHIFT * log, UNIT),
    claim(Order, "R28, Thm C.5 (2)", "q", log, l**SHIFT * log, UNIT),
    claim(Occurs, "R28, Thm C.5 (2): β_w > 0 occurs", "row", False, True, UNIT, above(bw)),
    claim(Occurs, "R29, Thm C.5 (3): U_t > 1 occurs", "row", False, True, above(U, 1)),
)


def _leading():
    for word, which, size in CASES:
        for name, front, more in (("p", size, 0), ("q", size * w2, bw)):
            printed = front * l ** (1 - U - more)  # E4: without 1/(1 - U_t)
            low = (which, LOW, above(U))
            yield claim(
                Order, f"R27, Thm C.5 (1), {word}", name, printed, printed / (1 - U), *low, misprint=True, exact=True
            )
            printed, right = (v2, v2 * log) if (name, size) == ("p", v2) else (front * log, 2 * front * log)
            lost = not printed.has(l)  # E5: the logarithm
            yield claim(
                Order, f"R28, Thm C.5 (2), {word}", name, printed, right, which, UNIT, misprint=lost, exact=True
            )


LEADING = tuple(_leading())
NO_DECAY = tuple(
    claim(Order, f"R27, Thm C.5 (1), U_t = 0, {word}", "p", size * l, 2 * size * l, which, on(U), exact=True)
    for word, which, size in CASES
)
GRADIENTS = (
    claim(LogOrder, "R30, Thm C.6: log chi, W_t > 0", "chi", l ** (W_t / 2), l**W_t, LOW, above(W_t)),
    claim(LogOrder, "R31, Thm C.6: log chi, W_t = 0", "chi", log, l**SHIFT, LOW, on(W_t)),
    claim(LogOrder, "R32, Thm C.6: log chi, W_t < 0", "chi", 1, log, LOW, below(W_t)),
    claim(Occurs, "R33, Thm C.6: U_t = 1, V_t < 1 occurs", "row", False, True, UNIT, below(V, 1)),
    claim(LogOrder, "R34, Thm C.6: log chi, U_t = V_t = 1", "chi", sp.sqrt(log), log, UNIT, on(V, 1)),
    claim(LogOrder, "R35, Thm C.6: log chi, U_t = 1 < V_t", "chi", 1, sp.sqrt(log), UNIT, above(V, 1)),
)


def _rates():
    """The constants of C.6, with q ~ κ l^{1 - β_w - U_t} or κ log l."""
    for word, which, size in CASES:
        kappa = size * w2 / (1 - U)
        rate = v2 * w2 * C / sp.sqrt(kappa)
        yield claim(
            LogOrder,
            f"R30, constant, {word}",
            "chi",
            2 / W_t * rate * l ** (W_t / 2),
            rate * l ** (W_t / 2),
            which,
            LOW,
            above(W_t),
            exact=True,
        )
        if size == a2:  # W_t = 0 needs β_a < β_v
            yield claim(
                LogOrder,
                f"R31, constant, {word}",
                "chi",
                rate * log,
                2 * rate * log,
                which,
                LOW,
                on(W_t),
                exact=True,
            )
        rate = v2 * w2 * C / sp.sqrt(size * w2)
        if size != a2:  # β_v = 1
            yield claim(
                LogOrder,
                f"R34, constant, {word}",
                "chi",
                2 * rate * sp.sqrt(log),
                rate * sp.sqrt(log),
                which,
                UNIT,
                on(V, 1),
                exact=True,
            )


RATES = tuple(_rates())
A = 2 * v2 * sw * C / sp.sqrt(v2 + a2)
SECTION_6 = (
    claim(LogOrder, "R37, § 6: log chi, no decay", "chi", A * sp.sqrt(l), A / 2 * sp.sqrt(l),
          on(bv), on(bw), on(ba), on(bb), exact=True),
)  # fmt: skip


def of_log(v: float, w: object, a: float) -> float:
    """The coefficient of log l in log χ by the engine's law, no decay."""
    theory = mf.derive("tanh", architecture="full_residual", sigma_v=v, sigma_a=a)
    terms = theory.depth_law("J", sigma_w=w, sigma_b=1).law.terms
    return sum(float(sp.N(t.coefficient)) for t in terms if (t.power, t.logs) == (0, 1))


def by_hand(v: float, w: object, a: float) -> float:
    """B of the specification."""
    size = v**2 + a**2
    return 4 / (9 * math.pi) * v**4 / size * (3 / size - float(w) ** 2)


LEVEL = sp.sqrt(sp.Rational(3, 2))  # σ_w²(σ_v² + σ_a²) = 3
REST = (
    Floats("R37, coefficient of log l", TANH, "log chi", by_hand, lambda v, w, a: 2 * by_hand(v, w, a) + 1, of=of_log,
           places=((1, 1, 1), (2, 1, 1), (1, 2, 3))),
    # it is O(log l): on one surface the logarithm is absent
    Floats("R37, § 6: the rest is Θ(log l - log m)", TANH, "it grows", lambda *p: 1.0, lambda *p: 0.0, True,
           of=lambda *p: float(abs(of_log(*p)) > 1e-12), places=((1, LEVEL, 1),)),
)  # fmt: skip
ANGLES = (  # R38: what bounds gradients makes all inputs alike (C.7: β_a < β_v gives e* = 1)
    claim(Occurs, "R38: chi polynomial or bounded with β_a ≥ β_v", "row", False, True,
          LOW, at_most(W_t), at_least(ba, bv)),
    claim(Occurs, "R38: chi polynomial or bounded with β_a < β_v", "row", True, False,
          LOW, at_most(W_t), below(ba, bv)),
)  # fmt: skip
half = (1 - bw - U) / 2
PARAMETERS = (  # R40 over chi: W_t < 0 and V_t > 1, where chi is bounded and the orders can be read off
    claim(Order, "R40: chi_a, U_t < 1, W_t < 0", "chi_a", 1, l**SHIFT, LOW, below(W_t)),
    claim(Order, "R40: chi_v, U_t < 1, W_t < 0", "chi_v", 1, l**SHIFT, LOW, below(W_t)),
    claim(Order, "R40: chi_b, U_t < 1, W_t < 0", "chi_b", l ** (bv + half), l**bv, LOW, below(W_t)),
    claim(Order, "R40: chi_w, U_t < 1, W_t < 0", "chi_w", l ** (bv + half - 1 + U), l**bv, LOW, below(W_t)),
    claim(Order, "R40: chi_a, U_t = 1 < V_t", "chi_a", 1, l**SHIFT, UNIT, above(V, 1)),
    claim(Order, "R40: chi_v, U_t = 1 < V_t", "chi_v", 1, l**SHIFT, UNIT, above(V, 1)),
    claim(Order, "R40: chi_b, U_t = 1 < V_t", "chi_b", l**bv * sp.sqrt(log), l**bv, UNIT, above(V, 1)),
    claim(Order, "R40: chi_w, U_t = 1 < V_t", "chi_w", l**bv / sp.sqrt(log), l**bv, UNIT, above(V, 1)),
    # E16: subpolynomial for every parameter when U_t = 1
    *(
        claim(Kind, f"R40, § 7.2: {n} subpolynomial", n, "subpolynomial", "power", UNIT, on(V, 1), misprint=True)
        for n in ("chi_w", "chi_b")
    ),
    *(
        claim(Kind, f"R34, § 7.2: {n} subpolynomial", n, "subpolynomial", "power", UNIT, on(V, 1))
        for n in ("chi", "chi_v", "chi_a")
    ),
    claim(Kind, "R35, B.2: chi bounded, U_t = 1 < V_t", "chi", "bounded", "subpolynomial", UNIT, above(V, 1)),
)


CLAIMS: tuple[Claim, ...] = (
    *(ORDERS + LEADING + NO_DECAY + GRADIENTS + RATES + SECTION_6 + REST),
    *(ANGLES + PARAMETERS),
)
