r"""The random variance of a layer of one input: K, V and their next orders in 1/n, for Gaussian and orthogonal weights.

Definition. Given the layer before, the neurons of z' = W σ(z) + b are independent N(0, v') with Gaussian weights,

    v' = C_b + r,   r = (C_W/n) Σ_j σ(z_j)²,

and r is random. An orthogonal W of size P puts W σ(z) uniformly on a sphere of radius √(P r). A Gaussian vector is such
a one whose squared radius is P r·χ²_P/P, independent of its direction, so a Gaussian average is that over the sphere
with r^θ multiplied by E(χ²_P/P)^θ = Γ(P/2 + θ)/(Γ(P/2)(P/2)^θ), θ = r∂_r = r∂_K; divide by it: over the sphere

    E f = [(P/2)^θ Γ(P/2)/Γ(P/2 + θ)] ⟨f⟩,   which multiplies r^p by P^p/(P(P + 2)…(P + 2p − 2)).

So both laws are Gaussian neurons of one random variance, v' = C_b + r(1 + s), with E(1 + s)^p = 1 or that number (no
probability has such moments; nothing needs one). Its cumulants are the connected averages of different neurons,

    κ_p = E[z_1² z_2² … z_p²]_c = Σ_q κ_{p,q}/n^q, q ≥ p − 1:
    κ_1 = K + G1/n + G2/n² + …,   κ_2 = V/n + V1/n² + …,   κ_3 = V6/n² + …

and E[z_1 … z_2m]_c = κ_m Σ_pairings δ…δ. A layer takes moments of v to moments of v': E[F(v)] by Taylor's formula about
K, and E r^p over neurons that are independent given v, in averages ⟨σ^{2k}⟩_v. To order 1/n^N the κ_{p,q} with q ≤ N
are a closed set; nothing else of the layer's law enters. Source: derived here; [orthogonal_weights] (4.18) and (4.26)
are V and G1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import comb, factorial

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import whole
from meanfield.base.symbols import parameter
from meanfield.base.words import unknown
from meanfield.symbolic.finite_width.ensembles import Ensemble, ensemble_of
from meanfield.symbolic.finite_width.haar.pairings import partitions
from meanfield.symbolic.finite_width.layer_law import correlator
from meanfield.symbolic.finite_width.neuron_fields import NEURON, Mean, Sigma
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b

Series = tuple[sp.Expr, ...]  # coefficients of n⁰, 1/n, …, 1/n^N
Orders = tuple[int, int]  # (p, q) of κ_{p,q}
NAMES: dict[str, Orders] = {"K": (1, 0), "G1": (1, 1), "G2": (1, 2), "V": (2, 1), "V1": (2, 2), "V6": (3, 2)}
#: what is of order 1/n² and comes from here alone, each after what its map may hold
SECOND = ("V6", "V1", "G2")
_BY_ORDERS = {place: name for name, place in NAMES.items()}


def symbol(p: int, q: int) -> sp.Symbol:
    """κ_{p,q}: K, G1, V, … where it has a name."""
    name = _BY_ORDERS.get((p, q), f"kappa_{p}_{q}")
    return correlator(name, (0,) * (4 if name == "V" else 2)) if name in ("K", "G1", "V") else parameter(name)


def closed_orders(order: int) -> list[Orders]:
    """The (p, q) that are closed to order 1/n^order."""
    return [(p, q) for p in range(1, order + 2) for q in range(p - 1, order + 1)]


def second_order_map(name: str, *, weights: object = "gaussian", ratio: object = 1) -> sp.Expr:
    r"""The next layer's value of G2, V1 or V6 (or K, G1, V), in averages ⟨…⟩ and in those of this layer.

    weights: "gaussian", "orthogonal", or an ensemble; ratio: width of the new layer by that of the layer before, each
    layer's κ_{p,q} being the coefficient of its own width's power. `in_averages` puts in an activation.
    Raises: MeanFieldError for weights whose law changes under rotations: given its variance such a layer is neither
    Gaussian nor uniform on a sphere.

    >>> print(second_order_map("V", weights="orthogonal"))
    C_W**2*V*<∂∂ (σ**2)>**2/4 - 3*C_W**2*<σ**2>**2 + C_W**2*<σ**4>
    """
    if name not in NAMES:
        raise unknown("cumulant of the random variance", name, NAMES)
    return cumulant_maps(2, ensemble_of(weights), sp.sympify(ratio))[NAMES[name]]


@lru_cache(maxsize=64)
def cumulant_maps(order: int, weights: Ensemble, ratio: sp.Expr = sp.S.One) -> dict[Orders, sp.Expr]:
    """{(p, q): the next layer's κ_{p,q}} to order 1/n^order, in the `symbol`s of this layer; see `second_order_map`."""
    order = whole(order, "The order in 1/n", 0, 6)
    _refuse(weights)
    moments = about_K(order)
    of_r = [_power_of_r(p, moments, order) for p in range(1, order + 2)]
    spread = sphere_moments(order + 1, weights, sp.Max(sp.S.One, ratio), order)
    found = cumulants_of([_times(a, b, order) for a, b in zip(of_r, spread)], order)
    maps = {}
    for p, series in enumerate(found, 1):
        if any(sp.expand(c) != 0 for c in series[: p - 1]):
            raise MeanFieldError(f"The cumulant of order {p} of a layer's variance is not of order 1/n^{p - 1}.")
        for q in range(p - 1, order + 1):
            maps[p, q] = sp.expand(ratio**q * series[q] + (C_b if (p, q) == (1, 0) else 0))
    return maps


def about_K(order: int) -> list[Series]:
    """E(v − K)^m, m = 0 … 2·order, of this layer: the later ones are beyond 1/n^order."""
    known = [
        tuple(symbol(p, q) if q >= p - 1 and (p, q) != (1, 0) else sp.S.Zero for q in range(order + 1))
        for p in range(1, order + 2)
    ]
    return moments_of(known, 2 * order, order)


def first_cumulants(order: int, weights: object, ratio: sp.Expr, variance: sp.Expr) -> dict[Orders, sp.Expr]:
    """{(p, q): κ_{p,q} of layer 1}, whose r is not random: `variance`, C_W Q0; ratio: N_0/n."""
    law = ensemble_of(weights)
    _refuse(law)
    spread = sphere_moments(order + 1, law, sp.Max(sp.S.One, ratio), order)
    found = cumulants_of([tuple(variance**p * c for c in series) for p, series in enumerate(spread, 1)], order)
    return {(p, q): sp.expand(found[p - 1][q] + (C_b if (p, q) == (1, 0) else 0)) for p, q in closed_orders(order)}


def sphere_moments(count: int, weights: Ensemble, size: sp.Expr, order: int) -> list[Series]:
    """E(1 + s)^p, p = 1 … count: 1, or P^p/(P(P + 2)…(P + 2p − 2)) as a series in 1/n, P = size·n."""
    found: list[Series] = []
    value: Series = (sp.S.One, *[sp.S.Zero] * order)
    for p in range(count):
        step = -2 * p / size if weights.name == "orthogonal" else sp.S.Zero  # 1/(1 + 2p/P) = Σ (−2p/P)^q
        value = _times(value, tuple(step**q for q in range(order + 1)), order)
        found.append(value)
    return found


def _refuse(weights: Ensemble) -> None:
    if not weights.invariant:
        raise MeanFieldError(
            f"Orders beyond 1/n are derived for Gaussian and orthogonal weights; given its variance a layer of "
            f"{weights.name} ones is neither Gaussian nor uniform on a sphere."
        )


def _times(a: Sequence[sp.Expr], b: Sequence[sp.Expr], order: int) -> Series:
    return tuple(sp.expand(sp.Add(*[a[i] * b[q - i] for i in range(q + 1)])) for q in range(order + 1))


def moments_of(cumulants: Sequence[Series], count: int, order: int) -> list[Series]:
    """E δ^m, m = 0 … count, of cumulants of orders 1, 2, …: μ_m = Σ_j binomial(m − 1, j − 1) κ_j μ_{m−j}."""
    found: list[Series] = [(sp.S.One, *[sp.S.Zero] * order)]
    for m in range(1, count + 1):
        terms = [
            tuple(comb(m - 1, j - 1) * c for c in _times(cumulants[j - 1], found[m - j], order))
            for j in range(1, min(m, len(cumulants)) + 1)
        ]
        found.append(tuple(sp.expand(sp.Add(*column)) for column in zip(*terms)))
    return found


def cumulants_of(moments: Sequence[Series], order: int) -> list[Series]:
    """The inverse of `moments_of`; moments of orders 1, 2, …"""
    found: list[Series] = []
    for m, moment in enumerate(moments, 1):
        rest = [moment]
        for j in range(1, m):
            rest.append(tuple(-comb(m - 1, j - 1) * c for c in _times(found[j - 1], moments[m - j - 1], order)))
        found.append(tuple(sp.expand(sp.Add(*column)) for column in zip(*rest)))
    return found


def coincidences(p: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """(number of ways, how many factors each neuron has): p factors over neurons."""
    for shape in partitions(p):
        ways = factorial(p)
        for part in set(shape):
            ways //= factorial(part) ** shape.count(part) * factorial(shape.count(part))
        yield ways, tuple(shape)


def _power_of_r(p: int, moments: Sequence[Series], order: int) -> Series:
    """E r^p: the p factors go to different neurons in all ways, n(n − 1)… choices for as many neurons."""
    total: list[sp.Expr] = [sp.S.Zero] * (order + 1)
    for ways, shape in coincidences(p):
        falling: Series = tuple(sp.S.One if q == p - len(shape) else sp.S.Zero for q in range(order + 1))
        for j in range(len(shape)):
            falling = _times(falling, (sp.S.One, sp.Integer(-j), *[sp.S.Zero] * order), order)
        if any(falling):
            for q, c in enumerate(_times(falling, expectation(shape, moments, order), order)):
                total[q] += ways * C_W**p * c
    return tuple(sp.expand(c) for c in total)


def expectation(shape: Sequence[int], moments: Sequence[Series], order: int) -> Series:
    """E[Π ⟨σ^{2k}⟩_v] over v, k the parts of a shape: Σ_m F^{(m)}(K) μ_m/m!."""
    tokens = {(k, 0): sp.Symbol(f"m{k}_0") for k in shape}
    value, total = sp.Mul(*[tokens[k, 0] for k in shape]), [sp.S.Zero] * (order + 1)
    for m, moment in enumerate(moments):
        for q in range(order + 1):
            total[q] += moment[q] * value / factorial(m)
        if m + 1 < len(moments):
            later = {(k, d): tokens.setdefault((k, d + 1), sp.Symbol(f"m{k}_{d + 1}")) for k, d in list(tokens)}
            value = sp.expand(sp.Add(*[value.diff(tokens[at]) * after for at, after in later.items()]))
    means = {s: slope(k, d) for (k, d), s in tokens.items()}
    return tuple(sp.expand(c).xreplace(means) for c in total)


def slope(k: int, d: int) -> sp.Expr:
    """d^d⟨σ^{2k}⟩/dK^d, as 2^{-d}⟨∂^{2d} σ^{2k}⟩."""
    return Mean(Sigma(0, 0, NEURON) ** (2 * k), (0,) * (2 * d)) / 2**d
