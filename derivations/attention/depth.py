"""C8, C11, C12, C14, C15, C27 to C30: what depth does to K, to gradients, and to the tokens' likeness.

Laws of depth are derived of tokens that have come together; that they do is part of the engine's verdict. What is said
of finite depth is read off the averaged recursion, run. A gradient by a weight of branch l of L is J^{l,L}/K_L times
what does not depend on depth where a norm follows the last block; J^{l,L} = J^{1,L}/J^{1,l}.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.attention.networks import DENSE, Built, behind_dyt, block, two_factors, uniform
from derivations.claims import Claim
from derivations.comparisons import Formula, Holds
from derivations.placeholders import A, B
from meanfield.base.symbols import K, l
from meanfield.networks import Schedule

PRE, POST, PERI = (uniform(norm) for norm in ("pre", "post", "peri"))
SHARP = {norm: block("relu", norm) for norm in ("pre", "post", "peri")}  # with scores of deviation 1
GELU = {norm: block("gelu", norm) for norm in ("pre", "post", "peri")}
ALONE = Built(
    "pre-LN, gelu, no attention", (),
    mf.Residual(mf.Sequential((mf.LayerNorm(), DENSE, mf.Nonlinearity("gelu"), DENSE))),
)  # fmt: skip
DYT_ALONE = Built("DyT, relu, no attention", (), behind_dyt().record.block.blocks[1])
LAST_SUM = Built(
    "post-LN, cut before its last norm", (),
    mf.Sequential((mf.LayerNorm(), mf.Residual(mf.Sequential((DENSE, mf.Nonlinearity("relu"), DENSE))))),
)  # fmt: skip


@cache
def run(network: Built, depth: int, tokens: int, quantities: tuple[str, ...] = ("K", "K_ab", "J", "J_ab")) -> Any:
    """The averaged recursion from orthogonal tokens of norm 1; layer 1 is index 0, block l makes index l."""
    return network.theory.propagate(depth=depth + 1, tokens=tokens, correlation=0.0, quantities=quantities)


def law(quantity: str, field: str) -> Callable[[mf.Theory], sp.Expr]:
    """exponent: the power of l; rate: the coefficient of l in the logarithm; lead: the leading term."""

    def of(theory: mf.Theory) -> sp.Expr:
        found = theory.depth_law(quantity)
        return found.law.leading.expr(l) if field == "lead" else sp.sympify(getattr(found, field))

    return of


# ------------------------------------------------------------------------------------------------------------- C12


def between(bounds: tuple[float, float], tokens: int) -> bool:
    """Whether 1 + b l lies on its side of K_l for both b, l = 1 … 2000."""
    found = run(PRE, 2000, tokens).K
    at = np.arange(len(found))
    low, high = (1 + b * at for b in bounds)
    return bool((low <= found * (1 + 1e-12)).all() and (found <= high * (1 + 1e-12)).all())


def missing(power: float, tokens: int) -> bool:
    """Whether 1 + 3l/2 - K_l grows as that power of l (slope between 1000 and 2000 blocks, within .02)."""
    found = run(PRE, 2000, tokens).K
    gap = 1 + 1.5 * np.arange(len(found)) - found
    return bool(abs(np.log2(gap[2000] / gap[1000]) - power) < 0.02)


# ------------------------------------------------------------------------------------------------------------- C15


def falls(factor: float, tokens: int) -> bool:
    """Whether J^{1,L} of post-LN falls by that factor a block between blocks 50 and 60, within a tenth of 1 %."""
    found = run(POST, 60, tokens).J
    return bool(abs((found[60] / found[50]) ** 0.1 / factor - 1) < 1e-3)


def loses(share: float, tokens: int) -> bool:
    """Whether J^{1,L} of post-LN ends between 1/T and 6/T, and not above `share`."""
    end = run(POST, 60, tokens).J[60]
    return bool(1 / tokens < end < 6 / tokens and end < share)


# --------------------------------------------------------------------------------------------------------- C27, DyT


def stretched(slope: float, tokens: int, start: int = 300, depth: int = 10**6) -> bool:
    """Whether log J of DyT and relu with uniform attention grows as slope √l, within 2 % between depth/4 and depth.

    The engine runs the first blocks; from there on averages have their leading terms at large K, which is where the
    tanh is a sign but for a layer of thickness 1 around 0.
    """
    held = run(behind_dyt(q=0), start, tokens)
    K, C, J, C_J = (float(getattr(held, name)[-1]) for name in ("K", "K_ab", "J", "J_ab"))
    log_J, C_J, logs = math.log(J), C_J / J, {}
    for step in range(start, depth):
        for wide in (True, False):  # attention, then the layer; C_J is J_ab/J
            front, rho = 1 / math.sqrt(2 * math.pi * K), C / K
            square, both = 1 - 4 * front, 2 / math.pi * math.asin(rho)
            slope_own, slope_both = 2 / 3 * front, C_J * 4 * front**2 / math.sqrt(1 - rho * rho)
            if wide:
                added = added_ab = both + (square - both) / tokens
                more = more_ab = slope_both + (slope_own - slope_both) / tokens
            else:
                s = both / square
                added, more = square / 2, slope_own / 2
                added_ab = square * (math.sqrt(1 - s * s) + s * (math.pi - math.acos(s))) / (2 * math.pi)
                more_ab = slope_both * (math.pi - math.acos(s)) / (2 * math.pi)
            K, C, log_J, C_J = K + added, C + added_ab, log_J + math.log1p(more), (C_J + more_ab) / (1 + more)
        if step + 1 in (depth // 4, depth):
            logs[step + 1] = log_J
    return abs((logs[depth] - logs[depth // 4]) / (depth**0.5 / 2) / slope - 1) < 0.02


def settled_tokens(T: int) -> tuple[float, float]:
    """(ρ, gain of K a block) that DyT and relu end at with uniform attention: tanh has become the sign there."""

    def gains(rho: float) -> tuple[float, float]:
        s = 2 / np.pi * np.arcsin(rho)
        mixed = s + (1 - s) / T
        kink = (np.sqrt(1 - s * s) + s * (np.pi - np.arccos(s))) / np.pi
        return mixed + 0.5, mixed + 0.5 * kink

    rho = 0.5
    for _ in range(500):
        own, other = gains(rho)
        rho = other / own
    return rho, gains(rho)[0]


def slope_of_dyt(T: int) -> float:
    """The coefficient of √l in log J: (½ + 1/T) times the integral of tanh'(z/2)², 2/3, over √(2πK), K = gain·l."""
    return (0.5 + 1 / T) * 2 * (2 / 3) / np.sqrt(2 * np.pi * settled_tokens(T)[1])


# ------------------------------------------------------------------------------------------------------- C28, C29


def scaled(factor: Schedule | int, behind: Schedule | int) -> Built:
    """Pre-LN of relu, uniform attention; factor: behind each norm; behind: σ of output and second matrices."""
    return Built("pre-LN with factors", (), two_factors(factor, behind))


FALLING = Schedule(1, 1)
FACTORS = {
    "none": (1, 1),
    "LNS": (FALLING, 1),
    "1/sqrt(2l)": (1, Schedule(sp.sqrt(sp.Rational(1, 2)), 1)),
    "1/sqrt(2L)": (1, Schedule(sp.sqrt(sp.Rational(1, 2)), 0, 1)),
    "LNS and 1/sqrt(2l)": (FALLING, Schedule(sp.sqrt(sp.Rational(1, 2)), 1)),
    "LNS and 1/sqrt(2L)": (FALLING, Schedule(sp.sqrt(sp.Rational(1, 2)), 0, 1)),
}


def grows(name: str, low: float, high: float, depth: int = 1024) -> bool:
    """Whether K_L lies there after that many blocks of 16 tokens."""
    return bool(low < run(scaled(*FACTORS[name]), depth, 16, ("K",)).K[-1] < high)


# ------------------------------------------------------------------------------------------------------------- C30


def last_gradients(v: float, depth: int = 64) -> dict[str, float]:
    """Σ(∂/∂W²)² of the last block at σ_v = v, others 1, relu, up to a factor that the three have in common.

    W² acts on h, ⟨h²⟩ = ½: behind the sum (post) it is divided by K = 3/2; before a final norm (pre) by K_L; behind its
    own norm (peri) by |W²h|² = ⟨h²⟩, too.
    """
    K_pre = float(run(block("relu", "pre", sigma_q=0, sigma_v=v, expand=1), depth, 16, ("K",)).K[-1])
    K_peri = 1 + depth * float((PERI.theory.one_input["K"] - K).expand())
    return {"post": 0.5 / 1.5, "pre": 0.5 / K_pre, "peri": 0.5 / (0.5 * K_peri)}


def ordered(names: str, v: float) -> bool:
    """Whether they fall in the order of the words."""
    found = [last_gradients(v)[name] for name in names.split()]
    return found == sorted(found, reverse=True)


ratio = (1 + A) / (1 + B)  # of gelu at K = 1, values and deviations 1
CLAIMS: tuple[Claim, ...] = (
    Formula("C8, pre-LN, variance", (PRE, SHARP["pre"], GELU["pre"]), "power of K", sp.S.One, sp.S.Zero,
            by=law("K", "exponent")),
    Formula("C8, pre-LN, gradient hyperbolic, relu", SHARP["pre"], "power of J", sp.S.One, sp.S.Zero,
            by=law("J", "exponent")),
    Formula("C8, pre-LN, gradient hyperbolic, gelu", GELU["pre"], "power of J", sp.S.One, ratio, misprint=True,
            by=law("J", "exponent")),
    Formula("C8, post-LN, gradient exponential, relu", SHARP["post"], "rate of J", sp.log(sp.Rational(3, 2)),
            sp.S.Zero, misprint=True, by=law("J", "rate")),
    Formula("C8, post-LN, gradient exponential, gelu", GELU["post"], "rate of J", sp.log(ratio), sp.S.Zero,
            by=law("J", "rate")),
    Formula("C11, Lemma 2, post-LN", LAST_SUM, "K", sp.Rational(3, 2), sp.S(2), by=lambda t: t.one_input["K"]),
    Formula("C12, Lemma 2, l → ∞", PRE, "law of K", 3 * l / 2, l / 2, by=law("K", "lead")),
    Holds("C12, Lemma 2, bounds", PRE, "K", (0.5, 1.5), (0.5, 1.4), of=between, places=((16,),)),
    Holds("C12, Lemma 2, what is missing", PRE, "1 + 3l/2 - K", 1 / 3, 0.5, of=missing, places=((16,),)),
    Formula("C14, Thm 1, post-LN, last layer: power of L", POST, "power of 1/K", sp.S.Zero, -sp.Rational(1, 2),
            by=lambda t: -t.depth_law("K").exponent / 2),
    Formula("C14, Thm 1, pre-LN, last layer: power of L", PRE, "power of 1/K", -sp.Rational(1, 2), sp.S.Zero,
            by=lambda t: -t.depth_law("K").exponent / 2),
    Formula("C15, pre-LN: equal in all layers", PRE, "power of 1/J", sp.S.Zero, -sp.Rational(1, 2), misprint=True,
            by=lambda t: -t.depth_law("J").exponent / 2),
    Holds("C15, post-LN: (2/3)^(1/2) a layer", POST, "J", 2 / 3, 1.0, misprint=True, of=falls, places=((16,),)),
    Holds("C15, post-LN: falls towards the input", POST, "J", 0.9, 0.1, of=loses, places=((16,),)),
    Formula("C27, pre-LN, relu: power law", PRE, "power of J", sp.S.One, sp.Rational(1, 2), by=law("J", "exponent")),
    Formula("C27, pre-LN: attention changes the power, gelu", GELU["pre"], "power of J", ratio, A / B,
            by=law("J", "exponent")),
    Formula("C27, pre-LN, gelu, no attention", ALONE, "power of J", A / B, ratio, by=law("J", "exponent")),
    Formula("C27, DyT, relu, no attention", DYT_ALONE, "rate of J", 2 / (3 * sp.sqrt(sp.pi)), sp.S.Zero,
            by=law("J", "rate")),
    Formula("C28, pre-LN: variance exponential at the start", PRE, "rate of K", sp.log(sp.Rational(3, 2)), sp.S.Zero,
            misprint=True, by=law("K", "rate")),
    Formula("C30, peri: Var + constant", PERI, "K", K + 2, 2 * K, by=lambda t: t.one_input["K"]),
    Formula("C30, peri: law of K", SHARP["peri"], "law of K", 2 * l, l, by=law("K", "lead")),
    Holds("C30, order at the start, σ_v = 1", SHARP["pre"], "gradients", "post pre peri", "post peri pre",
          misprint=True, of=lambda names: ordered(names, 1.0)),
    Holds("C30, order at the start, σ_v = ¼", SHARP["pre"], "gradients", "post pre peri", "post peri pre",
          of=lambda names: ordered(names, 0.25)),
)  # fmt: skip
SLOW: tuple[Claim, ...] = (
    Holds("C27, DyT, relu, uniform attention, T = 16", behind_dyt(q=0), "rate of J", slope_of_dyt(16),
          2 / (3 * np.pi**0.5), of=stretched, places=((16,),)),
    Holds("C28, LNS: the logarithm of L", PRE, "K", "LNS", "none", of=lambda name: grows(name, 6.0, 13.0)),
    Holds("C29, LNS and 1/√(2l): bounded", PRE, "K", "LNS and 1/sqrt(2l)", "1/sqrt(2l)",
          of=lambda name: grows(name, 1.0, 3.0)),
    Holds("C29, LNS and 1/√(2L): 1", PRE, "K", "LNS and 1/sqrt(2L)", "1/sqrt(2L)",
          of=lambda name: grows(name, 1.0, 1.05)),
)  # fmt: skip
