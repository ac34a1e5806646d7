"""The edge of chaos of finite networks, found as it is in practice: the σ_w² at which gradients do not depend on depth.

J^{1,l} = ‖∂z^l/∂z^1‖²_F/N is what a gradient is multiplied with between the layers l and 1. Networks of several σ_w
share their weights, so that the slope of log J over the layers is a smooth function of σ_w², and its zero is
interpolated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.answers.results import Estimate, MeanFieldError, one_line
from meanfield.base.arguments import shown, validated
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.operations.checks import integer, networks_of
from meanfield.empirical.random.philox import MAX_LAYER
from meanfield.empirical.shared.curves import jacobian_curves
from meanfield.empirical.shared.several_networks import deviations
from meanfield.networks.records import Block


@dataclass(frozen=True, eq=False)
class MeasuredLine:
    """Where the slope of log J^{1,l} over first ≤ l ≤ depth is 0, for each of B values of σ_b.

    variances: σ_w² found, with standard errors (arrays of length B); the error is that of the slope there, a
    jackknife's over the networks, divided by the slope's derivative. Not in it is what finite width and depth shift, of
    order 1/N.
    slopes: what the zero was read off, arrays (B, G) over the σ_w scanned: d log J/dl, with standard errors.

    >>> found = measure_critical_line("relu", sigma_w=[1.2, 1.4, 1.6], sigma_b=0, width=40, depth=5, networks=20)
    >>> print(found)
    σ_w² = 2.084 ± 0.05 at σ_b² = 0 (N = 40, L = 5, 20 networks)
    """

    sigma_b: np.ndarray
    variances: Estimate
    sigma_w: np.ndarray
    slopes: Estimate
    first: int
    depth: int
    width: int
    networks: int
    probes: int
    seed: int

    def __repr__(self) -> str:
        return one_line("MeasuredLine", str(self))

    def __str__(self) -> str:
        pairs = zip(self.sigma_b, self.variances.mean, self.variances.standard_error)
        points = "; ".join(f"σ_w² = {v:.4g} ± {e:.1g} at σ_b² = {b * b:.4g}" for b, v, e in pairs)
        return f"{points} (N = {self.width}, L = {self.depth}, {self.networks} networks)"


@validated
def measure_critical_line(
    block: Block,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: int = 1000,
    depth: int = 31,
    networks: int = 8,
    probes: int = 8,
    first: int | None = None,
    seed: int = 0,
    sampler: str = "explicit",
    input_norm: float = 1.0,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> MeasuredLine:
    """Scan σ_w, and return the σ_w² at which J^{1,l} of these networks neither falls nor grows with l, for every σ_b.

    sigma_w: at least 3 values in increasing order, on both sides of the edge. sigma_b ≥ 0: a number or several. The
    slope of log mean J is fitted over first ≤ l ≤ depth (a quarter of the depth on unless given, so that K has settled)
    and interpolated in σ_w² by a polynomial through the four nearest values. All σ's see the same `networks` ≥ 3
    networks, inputs and probes, those of `empirical.jacobian_curves`. The other arguments are those of `run_ensemble`.

    Raises `MeanFieldError` for arguments out of range, for a φ that jumps, for networks that overflow, and where the
    slope does not change its sign exactly once. Source: [bias_and_trainability] Sec. 4; the error is derived here.

    >>> from meanfield.networks.records import mlp
    >>> found = measure_critical_line(mlp("relu"), sigma_w=[1.2, 1.4, 1.6], sigma_b=0.1, width=60, depth=9)
    >>> bool(abs(found.variances.mean[0] - 2) < 4 * found.variances.standard_error[0])
    True
    """
    scanned, biases = deviations(sigma_w, "sigma_w"), deviations(sigma_b, "sigma_b")
    if len(scanned) < 3 or not (np.diff(scanned) > 0).all():
        raise MeanFieldError(
            f"A scan takes three values of sigma_w or more in increasing order, but {shown(sigma_w)} was given."
        )
    depth = integer(depth, "The depth", 3, MAX_LAYER)
    first = integer(max(2, depth // 4) if first is None else first, "The first layer of the fit", 1, depth)
    networks = networks_of(networks, 3)
    shape = len(biases), len(scanned)
    curves = jacobian_curves(
        [block] * math.prod(shape),
        sigma_w=np.tile(scanned, len(biases)),
        sigma_b=np.repeat(biases, len(scanned)),
        width=width,
        depth=depth,
        networks=networks,
        probes=probes,
        seed=seed,
        sampler=sampler,
        input_norm=input_norm,
        activation_pairs=activation_pairs,
        threads=threads,
        progress=progress,
        **parameters,
    )
    reached = [curves.finite_depth(p) for p in range(math.prod(shape))]
    if min(reached) < depth:
        p = int(np.argmin(reached))
        raise MeanFieldError(
            f"Networks overflow (or normalize equal numbers) at layer {reached[p] + 1} for sigma_w = "
            f"{scanned[p % len(scanned)]:g}; take a smaller depth or sigma_w."
        )
    fits = [curves.slope(p, first, depth, np.asarray) for p in range(math.prod(shape))]
    slope, error = (
        np.array([getattr(fit, name) for fit in fits]).reshape(shape) for name in ("mean", "standard_error")
    )
    found = [zero_of(scanned**2, y, e, bias) for bias, y, e in zip(biases, slope, error)]
    variances, errors = np.array(found).T
    return MeasuredLine(
        biases,
        Estimate(variances, errors, networks),
        scanned,
        Estimate(slope, error, networks),
        first,
        depth,
        curves.width,
        networks,
        curves.probes,
        curves.seed,
    )


def zero_of(x: np.ndarray, y: np.ndarray, error: np.ndarray, sigma_b: float = 0.0) -> tuple[float, float]:
    """(where y is 0, its standard error): the only change of sign of y at increasing x, interpolated by a polynomial
    through up to four neighbours, whose zero between the two is halved down to.

    Raises `MeanFieldError` for no change of sign, or several.
    """
    changes = np.flatnonzero((y[:-1] < 0) != (y[1:] < 0))
    if len(changes) != 1:
        what = f"the slope of log J is {y[0]:.3g} at σ_w² = {x[0]:.4g} and {y[-1]:.3g} at {x[-1]:.4g}"
        raise MeanFieldError(
            f"The edge at sigma_b = {sigma_b:g} is not available: {what}, with {len(changes)} changes of sign; "
            + ("take fewer or more distant values of sigma_w" if len(changes) else "scan a wider range of sigma_w")
            + ", or more networks."
        )
    k = int(changes[0])
    near = slice(max(0, k - 1), k + 3)
    center, scale = x[k], x[k + 1] - x[k]
    t = (x[near] - center) / scale
    fit = np.polynomial.Polynomial(np.polynomial.polynomial.polyfit(t, y[near], len(t) - 1))
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if (fit(middle) < 0) == (y[k] < 0) else (low, middle)
    there = (1 - low) * error[k] + low * error[k + 1]
    return float(center + scale * low), float(there * scale / abs(fit.deriv()(low)))
