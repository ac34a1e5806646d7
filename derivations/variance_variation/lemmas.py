"""Difference equations: Lemmas D.6 … D.8 (R24 … R26).

For δ > 0 they are ReLU networks: K with σ_b = 0 and the source σ_a² l^{-β_a} is ε of D.8 with β = β_v + β_w, δ = W_r,
α = β_a, and J is ε of D.7, so the engine's table decides them for all exponents, and its runs what the table does not
hold. For δ < 0, which no network has, and for sums of growing powers the equations are iterated here, and exponents are
those of the last factor of ten: these claims are composed.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import mpmath
import numpy as np
import sympy as sp

import meanfield as mf
from derivations.claims import Claim, network
from derivations.comparisons import Floats
from derivations.variance_variation.regions import (
    E,
    LogOrder,
    Order,
    V,
    W,
    above,
    ba,
    below,
    bv,
    bw,
    off,
    on,
    sa,
)
from meanfield.base.symbols import l

ALONE = network("relu", architecture="full_residual", sigma_b=0, **{f"beta_{k}": f"beta_{k}" for k in "vwa"})
RELU = network("relu")
log, SHIFT = sp.log(l), sp.Rational(1, 50)
top = sp.Max(W, 1 - ba)


def law(source: str, name: str, printed, wrong, *conditions, kind=Order, misprint: bool = False, exact: bool = False):
    return kind(
        source, ALONE, name, sp.sympify(printed), sp.sympify(wrong), misprint, conditions=conditions, exact=exact
    )


STEEP, EDGE, FLAT = above(V, 1), on(V, 1), below(V, 1)
LEMMA_D6 = (  # with hardly any feedback K is the sum of its sources: d = -α ≤ 0
    law("R24, Lemma D.6, d = -1, V_r > 1", "p", sa**2 * log, log**2, STEEP, on(ba, 1), exact=True),
    law("R24, Lemma D.6, -1 < d < 0, V_r > 1", "p", sa**2 * l ** (1 - ba) / (1 - ba), l, STEEP, below(ba, 1),
        above(ba), exact=True),
    law("R24, Lemma D.6, d < -1, V_r > 1", "p", 1, log, STEEP, above(ba, 1)),
    law("R24, Lemma D.6, d = 0, V_r > 1", "p", sa**2 * l, l**2, STEEP, on(ba), exact=True),
)  # fmt: skip
LEMMA_D7 = (
    law("R25, Lemma D.7, β > 1, δ > 0", "chi", 1, l**SHIFT, STEEP),
    law("R25, Lemma D.7, β = 1, δ > 0", "chi", l**W, l ** (2 * W), EDGE),
    law("R25, Lemma D.7, β < 1, δ > 0", "chi", E, E**2, FLAT),
    law("R25, Lemma D.7, 0 < β < 1, log ε", "chi", W * l ** (1 - V) / (1 - V), W * l ** (1 - V), FLAT, above(V),
        kind=LogOrder, exact=True),
    law("R25, β = 0: log ε", "chi", sp.log(1 + W) * l, W * l, on(bv), on(bw), kind=LogOrder, exact=True),
)  # fmt: skip
LEMMA_D8 = (
    law("R26, Lemma D.8, β > 1, α < 1", "p", l ** (1 - ba), l, STEEP, below(ba, 1), above(ba)),
    law("R26, Lemma D.8, β > 1, α = 1", "p", log, log**2, STEEP, on(ba, 1)),
    law("R26, Lemma D.8, β > 1, α > 1", "p", 1, log, STEEP, above(ba, 1)),
    law("R26, Lemma D.8, β = 1, 1 - δ ≠ α", "p", l**top, l**top * log, EDGE, off(1 - W, ba)),
    law("R26, Lemma D.8, β = 1, 1 - δ = α", "p", l**W * log, l**W, EDGE, on(1 - W, ba)),
    law("R26, Lemma D.8, β < 1, δ > 0", "p", E, E**2, FLAT),
)


@lru_cache(maxsize=64)
def iterated(beta: float, delta: float, alpha: float, source: float, steps: int) -> tuple[float, float]:
    """ε at steps/10 and at steps, from ε = 1 (0 for δ = -1 at β = 1, where the first factor is 0 anyway)."""
    m = np.arange(1, steps + 1, dtype=float)
    factor, rain = 1 + delta * m**-beta, source * m**-alpha
    x, early = 1.0, 0.0
    for n, (f, r) in enumerate(zip(factor.tolist(), rain.tolist()), 1):
        x = r + x * f
        if n == steps // 10:
            early = x
    return early, x


FAR = 10**6


def power(beta: float, delta: float, alpha: float = 0.0, source: float = 0.0) -> float:
    """The exponent of the last factor of ten."""
    early, late = iterated(beta, delta, alpha, source, FAR)
    return math.log10(late / early)


def stretched(beta: float, delta: float) -> float:
    """The same of exp(δ l^{1-β}/(1-β))."""
    return delta / (1 - beta) * (FAR ** (1 - beta) - (FAR / 10) ** (1 - beta)) / math.log(10)


def at_edge(delta: float, alpha: float) -> float:
    """ε l^{-max(δ, 1 - α)} (log l)^{-1} at the tie 1 - δ = α, ε l^{-max(…)} elsewhere, for β = 1, C = 1."""
    _, late = iterated(1.0, delta, alpha, 1.0, FAR)
    return late / FAR ** max(delta, 1 - alpha) / (math.log(FAR) if delta == 1 - alpha else 1)


def sum_of_powers(d: float) -> float:
    """Σ_{a ≤ N} a^d at N = 10^5, minus N^{d+1}/(d+1), over N^d."""
    N = 10**5
    return (math.fsum((np.arange(1, N + 1) ** d).tolist()) - N ** (d + 1) / (d + 1)) / N**d


def grown(beta: float, delta: float, far: int = FAR) -> float:
    """log ε of D.7 at l = far less that at far/10."""
    m = np.arange(far // 10 + 1, far + 1, dtype=float)
    return float(np.sum(np.log1p(delta * m**-beta)))


@lru_cache(maxsize=16)
def log_product(V: float, W: float, steps: int, off: float = 0.0) -> float:
    """log χ^(0)/χ^(steps) of ReLU networks, V_r = V and W_r = W (1 + off)²: by the engine. p does not enter, and stays
    a double for longest from 10^-300 and without sources."""
    theory = mf.derive("relu", architecture="full_residual", sigma_v=1, sigma_a=0, beta_v=str(V))
    sigma_w = math.sqrt(2 * W) * (1 + off)
    run = theory.propagate(sigma_w=sigma_w, sigma_b=0, depth=steps + 1, input_norm=1e-300, quantities=("J",))
    return float(np.ravel(run.log_J)[-1])


def grown_network(beta: float, delta: float, far: int = FAR) -> float:
    """The same as `grown` of a network, δ > 0."""
    return log_product(beta, delta, far) - log_product(beta, delta, far // 10)


def remainder(beta: float, delta: float, of: Callable[..., float] = grown, far: int = FAR) -> float:
    """R of D.7 between l = far/10 and far, over l^{1-2β} or log l: Σ log(1 + δ/m^β) - δ/m^β, its growth."""
    main = delta / (1 - beta) * (far ** (1 - beta) - (far / 10) ** (1 - beta))
    size = math.log(10) if beta == 0.5 else far ** (1 - 2 * beta) - (far / 10) ** (1 - 2 * beta)
    return (of(beta, delta, far) - main) / size


def growth_of_rest(beta: float, delta: float, of: Callable[..., float] = grown) -> float:
    """R(10⁶) - R(10⁵)."""
    return remainder(beta, delta, of) * (FAR ** (1 - 2 * beta) - (FAR / 10) ** (1 - 2 * beta))


def tie(V: float, source: float) -> float:
    """p l^{-½}/log l of ReLU networks at V_r = 1, W_r = ½, β_a = ½ and σ_a² = source, by the engine."""
    given = {"sigma_v": 1, "sigma_a": str(math.sqrt(source)), "beta_v": str(V), "beta_w": str(1 - V), "beta_a": "1/2"}
    run = mf.derive("relu", architecture="full_residual", **given).propagate(
        sigma_w=1, sigma_b=0, depth=FAR + 1, quantities=("K",), every_layer=False
    )
    return float(np.ravel(run.K)[-1]) / math.sqrt(FAR) / math.log(FAR)


def floats(
    source: str, name: str, printed, wrong, of, places, tolerance: float, misprint: bool = False, composed: bool = True
) -> Floats:
    return Floats(
        source, RELU, name, printed, wrong, misprint, composed=composed, of=of, places=places, tolerance=tolerance
    )


ITERATED = (
    floats("R24, Lemma D.6, d > 0: N^{d+1}/(d + 1) + N^d/2", "sum", lambda d: 0.5, lambda d: 1.0, sum_of_powers,
           ((0.5,), (1.0,), (2.5,)), 1e-3),
    floats("R25, Lemma D.7, β > 1, δ < 0", "power", lambda b, d: 0.0, lambda b, d: d, power, ((1.5, -0.5),), 5e-3),
    floats("R25, Lemma D.7, β = 1, δ < 0", "power", lambda b, d: d, lambda b, d: d / 2, power, ((1.0, -0.5),), 1e-4),
    floats("R25, Lemma D.7, R for β < 1/2, δ < 0", "R/l^{1-2β}", lambda b, d: -(d**2) / 2 / (1 - 2 * b),
           lambda b, d: d**2 / 2, remainder, ((0.3, -0.5),), 1e-2),
    floats("R25, Lemma D.7, R for β = 1/2, δ < 0", "R/log l", lambda b, d: -(d**2) / 2, lambda b, d: d**2, remainder,
           ((0.5, -0.5),), 1e-3),
    floats("R25, Lemma D.7, R for β > 1/2, δ < 0", "R(10⁶) - R(10⁵)", lambda b, d: 0.0, lambda b, d: 0.5,
           growth_of_rest, ((0.8, -0.5),), 1e-3),
    floats("R26, Lemma D.8, β > 1, δ < 0", "power", lambda b, d, a, c: max(0.0, 1 - a), lambda b, d, a, c: 1.0, power,
           ((1.5, -0.5, 0.4, 1.0), (1.5, -0.5, 2.0, 1.0)), 1e-2),
    floats("R26, Lemma D.8, β = 1, δ < 0", "power", lambda b, d, a, c: max(d, 1 - a), lambda b, d, a, c: d, power,
           ((1.0, -0.5, 0.7, 1.0), (1.0, -0.5, 2.5, 1.0)), 1e-2),
    # E11: for δ < 0 the source decides, and ε ~ (C/|δ|) l^{β-α}
    floats("R26, Lemma D.8, β < 1, δ < 0: exponential", "power", lambda b, d, a, c: stretched(b, d),
           lambda b, d, a, c: b - a, power, ((0.6, -0.5, 1.0, 1.0), (0.4, -0.3, 0.2, 1.0)), 1e-2, True),
    floats("R26, β < 1, δ < 0: ε l^{α-β}", "constant", lambda b, d, a: 1 / abs(d), lambda b, d, a: 1.0,
           lambda b, d, a: iterated(b, d, a, 1.0, FAR)[1] * FAR ** (a - b), ((0.6, -0.5, 1.0), (0.4, -0.3, 0.2)), 1e-2),
    # E12: orders, not constants
    floats("R26, Lemma D.8, Furthermore: ~, α < 2", "constant", lambda d, a: 1.0, lambda d, a: 1 / (2 - a), at_edge,
           ((-1.0, 1.5), (-1.0, 0.5)), 1e-3, True),
    floats("R26, Lemma D.8, Furthermore: ~, α > 2", "constant", lambda d, a: 1.0,
           lambda d, a: float(mpmath.zeta(a - 1)), at_edge, ((-1.0, 3.0), (-1.0, 4.0)), 1e-3, True),
    floats("R26, Lemma D.8, Furthermore, α = 2", "ε l/log l", lambda d, a: 1.0, lambda d, a: 2.0, at_edge,
           ((-1.0, 2.0),), 0.05),
)  # fmt: skip
RUNS = tuple(  # the same where a network has them
    floats(source, name, printed, wrong, of, places, tolerance, composed=False)
    for source, name, printed, wrong, of, places, tolerance in (
        ("R25, Lemma D.7, R for β < 1/2, δ > 0", "R/l^{1-2β}", lambda b, d: -(d**2) / 2 / (1 - 2 * b),
         lambda b, d: d**2 / 2, lambda b, d: remainder(b, d, grown_network, FAR // 10), ((0.4, 0.5),), 1e-2),
        ("R25, Lemma D.7, R for β = 1/2, δ > 0", "R/log l", lambda b, d: -(d**2) / 2, lambda b, d: d**2,
         lambda b, d: remainder(b, d, grown_network), ((0.5, 0.5),), 1e-3),
        ("R25, Lemma D.7, R for β > 1/2, δ > 0", "R(10⁶) - R(10⁵)", lambda b, d: 0.0, lambda b, d: 0.5,
         lambda b, d: growth_of_rest(b, d, grown_network), ((0.8, 0.5),), 1e-3),
        ("R26, Lemma D.8, tie at δ = ½", "ε l^{-½}/log l", lambda V, s: s, lambda V, s: 2 * s, tie,
         ((0.3, 1.0), (1.0, 0.25)), 0.15),
    )
)  # fmt: skip
CLAIMS: tuple[Claim, ...] = LEMMA_D6 + LEMMA_D7 + LEMMA_D8 + ITERATED + RUNS
