"""How the maps of a layer's random variance are found, step by step, as text or LaTeX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy as sp

from meanfield.base.symbols import n
from meanfield.base.tex.tabular import stacked
from meanfield.symbolic.finite_width.ensembles import ensemble_of
from meanfield.symbolic.finite_width.neuron_fields import Expected
from meanfield.symbolic.finite_width.variance import (
    NAMES,
    about_K,
    coincidences,
    expectation,
    second_order_map,
    slope,
    sphere_moments,
    symbol,
)
from meanfield.symbolic.finite_width.weight_averages import C_W, C_b

ORDER = 2
r, s, delta = sp.symbols("r s delta")


def variance_derivation(name: str, *, weights: object = "gaussian", ratio: object = 1, latex: bool = False) -> str:
    r"""How `second_order_map` finds V6, V1 or G2 (K, G1, V): the variance of the next layer, powers of r over neurons
    that coincide or differ, what the sphere multiplies them by, averages over this layer's v, the cumulant, the map.

    name, weights, ratio: those of `second_order_map`; latex: an align* of amsmath instead of text. Raises: as there.

    >>> print(variance_derivation("V", weights="orthogonal"))
    z' given the layer before: uniform on a sphere, as Gaussian neurons of one variance v'
      v' = C_b + r*(s + 1)
    r is a mean over n neurons that are independent given v, with factors that coincide or differ
      E[r] = C_W*E[<σ**2>]
      E[r**2] = C_W**2*((1 - 1/n)*E[<σ**2>**2] + E[<σ**4>]/n)
    a Gaussian vector with its radius divided out
      E[s + 1] = 1
      E[(s + 1)**2] = 1 + (-2)/n
    v = K + delta, E[F(v)] = F(K) + F'(K) E[delta] + F''(K) E[delta^2]/2 + ...
      E[delta] = (G1)/n
      E[delta**2] = (V)/n
      E[<σ**2>] = <σ**2> + (G1*<∂∂ (σ**2)>/2 + V*<∂∂∂∂ (σ**2)>/8)/n
      E[<σ**4>] = <σ**4> + (G1*<∂∂ (σ**4)>/2 + V*<∂∂∂∂ (σ**4)>/8)/n
      E[<σ**2>**2] = <σ**2>**2 + (G1*<σ**2>*<∂∂ (σ**2)> + V*<σ**2>*<∂∂∂∂ (σ**2)>/4 + V*<∂∂ (σ**2)>**2/4)/n
    cumulant of order 2 of v', the coefficient of 1/n^1
    V' = C_W**2*V*<∂∂ (σ**2)>**2/4 - 3*C_W**2*<σ**2>**2 + C_W**2*<σ**4>
    """
    ensemble, width = ensemble_of(weights), sp.sympify(ratio)
    found, how = second_order_map(name, weights=ensemble, ratio=width), _TEX if latex else _TEXT
    p, q = NAMES[name]
    sphere = ensemble.name == "orthogonal"
    law = "uniform on a sphere, as Gaussian neurons of one variance v'" if sphere else "Gaussian neurons of variance v'"
    lines = [how.title(f"z' given the layer before: {law}")]
    lines.append(f"  v' = {how.name(C_b + r * (1 + s) if sphere else C_b + r)}")
    lines.append(
        how.title("r is a mean over n neurons that are independent given v, with factors that coincide or differ")
    )
    lines += [f"  {how.mean(r**power)} = {how.name(_of_r(power))}" for power in range(1, p + 1)]
    if sphere:
        lines.append(how.title("a Gaussian vector with its radius divided out"))
        for power, series in enumerate(sphere_moments(p, ensemble, sp.Max(sp.S.One, width), ORDER), 1):
            lines.append(f"  {how.mean((1 + s) ** power)} = {how.series(series[: q + 1])}")
    lines.append(how.title("v = K + delta, E[F(v)] = F(K) + F'(K) E[delta] + F''(K) E[delta^2]/2 + ..."))
    moments = about_K(ORDER)
    lines += [f"  {how.mean(delta**m)} = {how.series(moments[m][: q + 1])}" for m in range(1, 2 * q + 1)
              if any(moments[m][: q + 1])]  # fmt: skip
    shapes = dict.fromkeys(shape for power in range(1, p + 1) for _, shape in coincidences(power))
    for shape in shapes:
        lines.append(f"  {how.name(_product(shape))} = {how.series(expectation(shape, moments, ORDER)[: q + 1])}")
    of = "" if width == 1 else f", n' = {width}*n"
    lines.append(how.title(f"cumulant of order {p} of v', the coefficient of 1/n{chr(39) if of else ''}^{q}{of}"))
    lines.append(f"{how.name(symbol(p, q))}' = {how.name(found)}")
    if not latex:
        return "\n".join(lines)
    return stacked(lines)


def _product(shape: Sequence[int]) -> sp.Expr:
    return Expected(sp.Mul(*[slope(k, 0) for k in shape]))


def _of_r(power: int) -> sp.Expr:
    """E r^p in averages over v."""
    terms = []
    for ways, shape in coincidences(power):
        apart = sp.Mul(*[1 - sp.Integer(j) / n for j in range(len(shape))])
        terms.append(ways * apart * n ** (len(shape) - power) * _product(shape))
    return C_W**power * sp.Add(*terms)


@dataclass(frozen=True)
class _Writer:
    """How steps are written: as text or as LaTeX."""

    name: Callable[[Any], str]
    title: Callable[[str], str]
    average: str
    over: Callable[[str, int], str]

    def mean(self, e: sp.Expr) -> str:
        return self.average.format(self.name(e))

    def series(self, coefficients: Sequence[sp.Expr]) -> str:
        terms = [self.name(c) if q == 0 else self.over(self.name(c), q) for q, c in enumerate(coefficients) if c != 0]
        return " + ".join(terms) or "0"


_TEXT = _Writer(str, str, "E[{}]", lambda c, q: f"({c})/n" + (f"**{q}" if q > 1 else ""))
_TEX = _Writer(
    sp.latex,
    lambda t: r"\text{" + t.replace("^", r"\^{}") + "}",
    r"\mathbb{{E}}\left[{}\right]",
    lambda c, q: rf"\frac{{1}}{{n{f'^{q}' if q > 1 else ''}}} \left({c}\right)",
)
