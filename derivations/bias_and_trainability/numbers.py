"""The acceptance values of section 8 of the specification as functions of a planted error, for `checks.Check`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.bias_and_trainability.relu import integral
from derivations.checks import leaky, root
from derivations.comparisons import ball
from derivations.pairs import G, coefficient
from derivations.placeholders import c, mu
from derivations.quantities import derived
from meanfield.base.symbols import K, sigma_b, sigma_w, sigma_y2, z

R = sp.Rational


def along(
    name: str,
    square_w: object,
    square_b: object,
    layers: Sequence[int],
    quantities: Sequence[str],
    scale: Callable = lambda value, l: value,
    correlation: float = 0.0,
) -> Callable:
    """`quantities` at `layers` of a run for two inputs of norm 1; one tuple, layer by layer."""

    def compute(off):
        run = mf.derive(name).propagate(
            sigma_w=float(root(square_w)) * float(1 + off),
            sigma_b=float(root(square_b)),
            depth=max(layers),
            correlation=correlation,
            quantities=tuple(quantities),
        )
        return [scale(float(np.ravel(getattr(run, q))[l - 1]), l) for l in layers for q in quantities]

    return compute


def apart(power: int) -> Callable:
    """l^power (1 - c) from γ, without cancellation."""
    return lambda gamma, l: l**power / (1 + gamma)


def without_bias(layers: Sequence[int], scale: Callable = lambda value, l: value) -> Callable:
    """γ of ReLU from γ¹ = 0 at σ_b = 0, where it does not depend on σ_w: the planted error is a bias."""
    return lambda off: along("relu", 2, off / 10, layers, ("gamma",), scale)(0)


def on_the_line(layers: Sequence[int], scale: Callable) -> Callable:
    """γ of ReLU at σ_w² = 2, σ_b² = 0.1; a planted error of one per cent would overflow, so it is 10⁻⁵ of that."""
    return lambda off: along("relu", 2, "0.1", layers, ("gamma",), scale)(off / 10**5)


def fixed(name: str, square_w: object, square_b: object) -> Callable:
    """K* and the stable c* < 1."""

    def compute(off):
        place = {"sigma_w": root(square_w) * (1 + off), "sigma_b": root(square_b)}
        theory = mf.derive(name)
        return float(theory.phase(**place).fixed_point.K.value), theory.correlations(**place).stable.c

    return compute


def gradients(name: str, square_w: object, square_b: object) -> Callable:
    """The factors by which q̃_aa and q̃_ab change from layer to layer: χ_J*, and σ_w²⟨φ′φ′⟩ at c*."""

    def compute(off):
        place = {"sigma_w": root(square_w) * (1 + off), "sigma_b": root(square_b)}
        points = list(mf.derive(name).correlations(**place))
        return points[0].slope, points[-1].slope

    return compute


def at_state(quantity: str, name: str, **values: object) -> Callable:
    """A quantity of `derived` at numbers for K, c, σ_w², σ_b² (q, c, w, b); the planted error is in K."""

    def compute(off):
        e = sp.sympify(derived(mf.derive(name), quantity))
        numbers = {
            K: R(str(values["q"])) * (1 + off),
            sigma_w: root(values.get("w", 1)),
            sigma_b: root(values.get("b", 0)),
        }
        return (float(ball(e.subs(numbers).subs(c, R(str(values.get("c", 0)))))),)

    return compute


def susceptibilities(off) -> list[float]:
    """χ̃_1, α and χ_1 of ReLU at layer 1, σ_w² = 2.5, σ_b² = 0.1."""
    w = R(5, 2) * (1 + off) ** 2
    at = {K: w + R(1, 10), sigma_w: sp.sqrt(w), sigma_b: root("0.1")}
    return [float(sp.sympify(derived(mf.derive("relu"), n)).subs(at)) for n in ("chi~_1", "chi_K", "chi_1")]


def one_node(off) -> list[float]:
    """(92) and (93) at μ = 0.7, σ_y² = 1.3."""
    at = {mu: R(7, 10) * (1 + off), sigma_y2: R(13, 10)}
    return [float(ball(derived(mf.derive("relu"), n).subs(at))) for n in ("<phi>_mu", "<phi^2>_mu")]


def h_at_one(off) -> tuple[float]:
    return (float(ball(integral(mf.derive("relu"), 0).subs(G, 1 + off))),)


def coefficients(off) -> list[float]:
    """Of g/f at γ, √γ, 1, γ^{-1/2}; the planted error is a slope below 0."""
    return [float(coefficient(mf.derive(leaky(off)), "g/f", p)) for p in ("1", "1/2", "0", "-1/2")]


def edge(off, square_b: str) -> tuple[float, ...]:
    """q, σ_w², α and β = 2⟨φ′²⟩/(q⟨φ″²⟩) of tanh's critical line."""
    theory = mf.derive("tanh")
    ((point, place),) = theory.critical_line().sigma_w_at(root(square_b) * (1 + off))
    q, w = (sp.Rational(str(sp.N(s.value, 25))) for s in (place, point))
    chi_K = theory.susceptibilities()["chi_K"].subs({K: q, sigma_w: w})
    f = theory.activations[0].expression
    first, second = (mf.average(f.diff(z, k) ** 2, K).subs(K, q) for k in (1, 2))
    return float(q), float(w**2), float(ball(chi_K)), float(2 * ball(first) / (ball(q) * ball(second)))


def neutral(off, square_b: str) -> tuple[float]:
    """σ_w² of tanh's neutrality line."""
    ((point, _),) = mf.derive("tanh").neutrality_line().sigma_w_at(root(square_b) * (1 + off))
    return (float(point.value) ** 2,)


def edge_run(layers: Sequence[int]) -> Callable:
    """l(1 - c) of tanh on the critical line at σ_b² = 0.1."""

    def compute(off):
        ((point, _),) = mf.derive("tanh").critical_line().sigma_w_at(root("0.1"))
        square_w = sp.N(point.value, 20) ** 2
        return along("tanh", square_w, "0.1", layers, ("gamma",), apart(1))(off)

    return compute


def depth_scale(off) -> list[float]:
    """E24: ξ·|χ_1 - 1| of tanh near its critical line at σ_b² = 0.1, where it must tend to 1."""
    theory, out = mf.derive("tanh"), []
    ((point, _),) = theory.critical_line().sigma_w_at(root("0.1"))
    for near in (R(-1, 10**4), R(1, 10**4), R(1, 10**6)):
        w = sp.Rational(str(sp.N(point.value, 25))) * (1 + near + off)
        phase = theory.phase(sigma_w=w, sigma_b=root("0.1"))
        out.append(phase.xi * abs(float(phase.chi_J.value - 1)))
    return out


def fractions(off) -> list[float]:
    """Var G_0 at γ = 0.05, ½, 1, 2, 10, the mean of max(G_0, 1 - G_0) there, and P(G_0 < 0.2) at γ = ½."""
    laws = [mf.bias.ClassFraction(gamma * float(1 + off)) for gamma in (0.05, 0.5, 1, 2, 10)]
    return [*(law.var() for law in laws), *(law.largest() for law in laws), float(laws[1].cdf(0.2))]
