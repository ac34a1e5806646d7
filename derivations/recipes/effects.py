"""What the error of a constant does to a plain network: K and J after 50 layers, beside those of the exact constant."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import sympy as sp

import meanfield as mf
from derivations.recipes.constants import CLAIMS, Constant

LAYERS = 50


@dataclass(frozen=True)
class Effect:
    """K behind 50 layers x ↦ σ_w W φ(x) from K = 1, with the published constant and the exact one; the ratio of J."""

    K: float
    K_exact: float
    J_ratio: float

    @property
    def K_ratio(self) -> float:
        return self.K / self.K_exact


def effect(constant: Constant, published: float | None = None) -> Effect | None:
    """The effect of a constant, or of a number in its place; None where it belongs to no plain network."""
    if not constant.phi:
        return None
    given = float(sp.sympify(constant.printed)) if published is None else published
    (K, J), (K_exact, J_exact) = (_behind(constant, c) for c in (given, float(constant.exact)))
    return Effect(K, K_exact, math.exp(J - J_exact))


def _behind(constant: Constant, c: float) -> tuple[float, float]:
    """(K, log J) after `LAYERS` layers; no biases."""
    sigmas = {"sigma_w": constant.as_sigma_w(c), "sigma_b": 0}
    run = mf.derive(constant.phi).propagate(**sigmas, depth=LAYERS + 1, start={"K": 1.0}, quantities=("K", "J"))
    return float(run.K[-1]), float(run.log_J[-1])


def lines() -> Iterator[str]:
    """A row for each constant: published, exact, relative difference; K after the layers, its ratio to that of the
    exact constant, and that of J."""
    yield f"{'constant':<42}{'published':>11}{'exact':>10}{'off':>9}{'K':>9}{'of K':>9}{'of J':>9}"
    for one in CLAIMS:
        row = f"{one.source:<42}{float(sp.sympify(one.printed)):>11.7g}{float(one.exact):>10.7g}{one.off:>9.1e}"
        found = effect(one)
        numbers = () if found is None else (f"{found.K:>9.3g}", f"{found.K_ratio:>9.3g}", f"{found.J_ratio:>9.3g}")
        yield row + "".join(numbers)
