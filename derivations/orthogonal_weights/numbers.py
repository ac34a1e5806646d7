"""Numbers of the engine for the acceptance values, each as a function of a planted error `off`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import sympy as sp

import meanfield as mf
from derivations.checks import root
from meanfield.base.symbols import n

Compute = Callable[[sp.Rational], Sequence[float]]
INPUT = sp.Rational(1, 3)  # |x|²/n of the paper's inputs, uniform on [0, 1]


def at(e: sp.Expr, width: object) -> float:
    return float(sp.sympify(e).subs(n, width))


def entries(size: int, *patterns: tuple[str, str]) -> Compute:
    """Moments of entries of a Haar matrix; planted: of a size that is 1 + off times as large."""

    def compute(off: sp.Rational) -> list[float]:
        return [at(mf.symbolic.haar_moment(*[[int(i) for i in x] for x in p]), size * (1 + off)) for p in patterns]

    return compute


def functions(size: int, *types: tuple[int, ...]) -> Compute:
    """Weingarten functions at one size."""
    return lambda off: [at(mf.symbolic.weingarten(t), size * (1 + off)) for t in types]


def moments(law: str, width: int, order: int, layer: int, square: object = 1, C_W: object = 1) -> Compute:
    """G_order of one layer of a linear network, |x|² = square · N_0."""

    def compute(off: sp.Rational) -> list[float]:
        variance = sp.Rational(str(C_W)) * (1 + off) ** 2
        found = mf.symbolic.linear_moments(order, layer, width, width, weights=law, variance=variance)[-1]
        return [float(found * sp.Rational(str(square)) ** (order // 2))]

    return compute


def characteristic(width: int, C_W: object, layer: int, square: object, u: object, terms: int = 40) -> Compute:
    """E exp(i u z_1) = Σ (-u²/2)^m G_2m/m! of orthogonal linear networks, which ends beyond 40 terms at small u."""

    def compute(off: sp.Rational) -> list[float]:
        variance, x = sp.Rational(str(C_W)) * (1 + off) ** 2, -(sp.Rational(str(u)) ** 2) / 2
        total = sp.S.One
        for m in range(1, terms):
            G = mf.symbolic.linear_moments(2 * m, layer, width, width, weights="orthogonal", variance=variance)[-1]
            total += x**m / sp.factorial(m) * G * sp.Rational(str(square)) ** m
        return [float(total)]

    return compute


def vertex_of_block(inputs: int, neurons: int) -> Compute:
    """Ṽ¹ of `neurons` orthogonal neurons on `inputs` inputs; planted: 1 % in C_W, V undivided."""

    def compute(off: sp.Rational) -> list[float]:
        layer = mf.symbolic.first_linear_layer(inputs, neurons, weights="orthogonal", variance=(1 + off) ** 2, bias=0)
        return [float(layer.correlators()["V"])]

    return compute


def theory(phi: str, law: str) -> mf.Theory:
    return mf.derive(phi, weights=law)


def along(phi: str, law: str, name: str, layers: Sequence[int], normalized: bool = True, C_W: object = 1) -> Compute:
    """A mean or correlator at some layers at σ_b = 0, K¹ = C_W/3; planted: 1 % in σ_w."""

    def compute(off: sp.Rational) -> list[float]:
        run = theory(phi, law).propagate(
            sigma_w=root(C_W) * (1 + off), sigma_b=0, input_norm=INPUT, depth=max(layers), quantities=("K", name)
        )
        values = run.normalized(name) if normalized else getattr(run, name)
        return [float(np.ravel(values)[l - 1]) for l in layers]

    return compute


def fixed(C_W: object) -> Compute:
    """K*, χ_⊥, χ_∥ of tanh away from criticality."""

    def compute(off: sp.Rational) -> list[float]:
        found = theory("tanh", "orthogonal").fixed_points(sigma_w=root(C_W) * (1 + off), sigma_b=0)
        (point,) = [p for p in found if p.K.value != 0]
        return [float(x.value) for x in (point.K, point.chi_J, point.chi_K)]

    return compute


def optimal_depth(width: int, outputs: int, slope: object) -> float:
    """L* = 4 n/((20 + 3 n_L) ν), ν the slope of Ṽ: a formula of Roberts, Yaida and Hanin, quoted and not derived."""
    return float(4 / (20 + 3 * sp.Integer(outputs)) * width / sp.sympify(slope))


def depths(*widths: int) -> Compute:
    """Optimal depths for 10 outputs, ν taken from the engine's Ṽ of Gaussian tanh networks at large depth; planted: 1 %
    in σ_w."""

    def compute(off: sp.Rational) -> list[float]:
        far = 10**5
        (value,) = along("tanh", "gaussian", "V", (far,))(off)
        return [optimal_depth(w, 10, value / far) for w in widths]

    return compute
