"""Double-precision two-input averages in polar coordinates, with NumPy twins of the activations.

A second float route: whitened polar coordinates, with angular breaks at the lines z_a = 0 and z_b = 0 and at the
crossings of kink lines, and radial breaks at the kinks.  The engine's rules and coordinates are not used here.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from scipy import special

Array = Any
Function = Callable[[Array], Array]
REACH = 10.0  # standard deviations: exp(-50) = 2e-22


@cache
def _rule(order: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(order)


def graded_edges(
    low: float, high: float, splits: Sequence[float], centres: Sequence[tuple[float, float]], cap: float
) -> list[float]:
    """Edges of a mesh of [low, high]: split at given places, no panel wider than ``cap``, graded at the centres.

    A panel is halved until its width is at most max(w, distance to p) for every centre (p, w).
    """
    edges = sorted({low, high, *(s for s in splits if low < s < high)})
    done = [edges[0]]
    stack = [(a, b) for a, b in itertools.pairwise(edges)][::-1]
    while stack:
        a, b = stack.pop()
        width = b - a
        allowed = min([cap, *(max(w, a - p, p - b) for p, w in centres)])
        if width > allowed * (1 + 1e-9):
            middle = (a + b) / 2
            stack += [(middle, b), (a, middle)]
        else:
            done.append(b)
    return done


def _nodes(edges: Array, order: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on consecutive panels; the last axis of ``edges`` lists the panels' edges."""
    x, w = _rule(order)
    middle, half = (edges[..., 1:] + edges[..., :-1]) / 2, (edges[..., 1:] - edges[..., :-1]) / 2
    shape = (*edges.shape[:-1], -1)
    return (middle[..., None] + half[..., None] * x).reshape(shape), (half[..., None] * w).reshape(shape)


def one_input_float(f: Function, K: float, kinks: Sequence[float] = (), order: int = 24, refine: float = 1.0) -> float:
    """Average of f(z) over z ~ N(0, K), split at the kinks and graded at 0."""
    return _line(lambda x: f(math.sqrt(K) * x), [k / math.sqrt(K) for k in kinks], math.sqrt(K), order, refine)


def _line(f: Function, splits: Sequence[float], spread: float, order: int, refine: float) -> float:
    centres = [(0.0, 0.5 / max(spread, 1e-3) / refine)]
    x, w = _nodes(np.array(graded_edges(-REACH, REACH, [0.0, *splits], centres, 1.5 / refine)), order)
    return float(np.sum(w * np.exp(-x * x / 2) * f(x)) / math.sqrt(2 * math.pi))


def two_input_float(
    phi: Function,
    K_aa: float,
    K_bb: float,
    K_ab: float,
    kinks: Sequence[float] = (),
    order: int = 16,
    refine: float = 1.0,
) -> float:
    """Average of phi(z_a) phi(z_b) over a centred Gaussian pair, in whitened polar coordinates.

    ``kinks`` lists every place where phi or a derivative jumps.  Accurate to about 1e-13 of sqrt(<phi_a^2><phi_b^2>)
    for functions whose features have scale one (not for sin or cos with K above about 10: use the closed forms).
    ``refine`` divides all panel widths; ``order`` is the angular Gauss-Legendre order (the radial one is three
    quarters of it).
    """
    s_a, s_b = math.sqrt(K_aa), math.sqrt(K_bb)
    determinant = float(Fraction(K_aa) * Fraction(K_bb) - Fraction(K_ab) ** 2)  # exact: it cancels near |c| = 1
    if determinant <= 0:  # |c| = 1, or more by rounding of K_ab, or a variance of zero
        s_b = math.copysign(s_b, K_ab)
        splits = [k / s for s in (s_a, s_b) if s for k in kinks]
        return _line(lambda x: phi(s_a * x) * phi(s_b * x), splits, max(s_a, abs(s_b)), 24, refine)
    alpha = math.atan2(math.sqrt(determinant), K_ab)  # z_a = s_a r cos t, z_b = s_b r cos(t - alpha)
    start = math.pi / 2  # half circle from one zero of z_a to the next; the other half is the mirror image
    cross = []
    for k, l in itertools.product((k for k in kinks if k), repeat=2):  # where the lines z_a = k and z_b = l meet
        x = k / s_a
        y = (l / s_b - math.cos(alpha) * x) / math.sin(alpha)
        cross.append(start + (math.atan2(y, x) - start) % math.pi)
    near_a, near_b = (1 / (ANGLE * s * refine) for s in (s_a, s_b))
    centres = [(start + turn, near_a) for turn in (0.0, math.pi)]
    centres += [(start + alpha + turn, near_b) for turn in (-math.pi, 0.0, math.pi)]
    edges = graded_edges(start, start + math.pi, [start + alpha, *cross], centres, 0.8 / refine)
    t, w_t = _nodes(np.array(edges), order)
    a, b = s_a * np.cos(t), s_b * np.cos(t - alpha)
    radial_first = 1 / (RADIAL * max(s_a, s_b) * refine)
    radial = np.array(graded_edges(0.0, REACH, [], [(0.0, radial_first)], 1.5 / refine))
    places = [abs(k) / np.maximum(np.abs(s), 1e-300) for s in (a, b) for k in sorted({abs(k) for k in kinks if k})]
    if places:
        moving = np.minimum(np.stack(places, axis=1), REACH)
        radial = np.sort(np.concatenate([np.broadcast_to(radial, (t.size, radial.size)), moving], axis=1), axis=1)
    r, w_r = _nodes(radial, order * 3 // 4)
    weight = w_r * r * np.exp(-r * r / 2)
    z_a, z_b = a[:, None] * r, b[:, None] * r
    total = phi(z_a) * phi(z_b) + phi(-z_a) * phi(-z_b)
    return float(w_t @ np.sum(weight * total, axis=1) / (2 * math.pi))


ANGLE, RADIAL = 4.0, 2.0


def _sigmoid(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return np.where(z > 0, 1.0, e) / (1 + e)


def _sigmoid_slope(z: Array) -> Array:
    e = np.exp(-np.abs(z))
    return e / (1 + e) ** 2


def _sech2(z: Array) -> Array:
    e = np.exp(-2 * np.abs(z))
    return 4 * e / (1 + e) ** 2


def _slopes(plus: float, minus: float) -> tuple[Function, Function, tuple[float, ...]]:
    def phi(z: Array) -> Array:
        return np.where(z > 0, plus, minus) * z

    return phi, lambda z: np.where(z > 0, plus, minus) + 0.0 * z, () if plus == minus else (0.0,)


def _erf_twin(a: float) -> tuple[Function, Function, tuple[float, ...]]:
    c = 2 * a / math.sqrt(math.pi)
    return lambda z: special.erf(a * z), lambda z: c * np.exp(-((a * z) ** 2)), ()


def _swish_twin(beta: float) -> tuple[Function, Function, tuple[float, ...]]:
    def slope(z: Array) -> Array:
        return _sigmoid(beta * z) + beta * z * _sigmoid_slope(beta * z)

    return lambda z: z * _sigmoid(beta * z), slope, ()


def _gelu(z: Array) -> Array:
    return z * special.erfc(-z / math.sqrt(2)) / 2


def _gelu_slope(z: Array) -> Array:
    return special.erfc(-z / math.sqrt(2)) / 2 + z * np.exp(-z * z / 2) / math.sqrt(2 * math.pi)


_C = math.sqrt(2 / math.pi)


def _gelu_tanh(z: Array) -> Array:
    return z * _sigmoid(2 * _C * (z + 0.044715 * z**3))


def _gelu_tanh_slope(z: Array) -> Array:
    u = 2 * _C * (z + 0.044715 * z**3)
    return _sigmoid(u) + z * 2 * _C * (1 + 3 * 0.044715 * z * z) * _sigmoid_slope(u)


def _mish_parts(z: Array) -> tuple[Array, Array]:
    """Pair (g, 1 - g) for g = tanh(softplus z), each without cancellation."""
    e = np.exp(-np.abs(z))
    right = z > 0
    below = np.where(right, 1 + 2 * e + 2 * e * e, e * (e + 2) + 2)
    return np.where(right, 1 + 2 * e, e * (e + 2)) / below, np.where(right, 2 * e * e, 2.0) / below


def _mish_slope(z: Array) -> Array:
    g, gap = _mish_parts(z)
    return g + z * gap * (1 + g) * _sigmoid(z)


def _elu_twin(scale: float, alpha: float) -> tuple[Function, Function, tuple[float, ...]]:
    def phi(z: Array) -> Array:
        return scale * np.where(z > 0, z, alpha * np.expm1(np.minimum(z, 0.0)))

    return phi, lambda z: scale * np.where(z > 0, 1.0, alpha * np.exp(np.minimum(z, 0.0))), (0.0,)


def _z_erf_slope(z: Array) -> Array:
    return special.erf(z) + 2 * z / math.sqrt(math.pi) * np.exp(-z * z)


def _inside(z: Array, low: float, high: float) -> Array:
    return ((z > low) & (z < high)).astype(float)


NUMPY_TWINS: dict[str, tuple[Function, Function | None, tuple[float, ...]]] = {
    "linear": _slopes(1.0, 1.0),
    "relu": _slopes(1.0, 0.0),
    "leaky_relu": _slopes(1.0, 0.01),
    "scale_invariant": _slopes(1.5, -0.25),
    "abs": _slopes(1.0, -1.0),
    "step": (lambda z: (z > 0).astype(float), None, (0.0,)),
    "sign": (np.sign, None, (0.0,)),
    "hard_tanh": (lambda z: np.clip(z, -1.0, 1.0), lambda z: _inside(z, -1.0, 1.0), (-1.0, 1.0)),
    "relu6": (lambda z: np.clip(z, 0.0, 6.0), lambda z: _inside(z, 0.0, 6.0), (0.0, 6.0)),
    "tanh": (np.tanh, _sech2, ()),
    "erf": _erf_twin(1.0),
    "erf_scaled": _erf_twin(math.sqrt(math.pi) / 2),
    "sigmoid": (_sigmoid, _sigmoid_slope, ()),
    "softsign": (lambda z: z / (1 + np.abs(z)), lambda z: 1 / (1 + np.abs(z)) ** 2, (0.0,)),
    "arctan": (np.arctan, lambda z: 1 / (1 + z * z), ()),
    "gelu": (_gelu, _gelu_slope, ()),
    "gelu_tanh": (_gelu_tanh, _gelu_tanh_slope, ()),
    "silu": _swish_twin(1.0),
    "swish": _swish_twin(1.5),
    "mish": (lambda z: z * _mish_parts(z)[0], _mish_slope, ()),
    "softplus": (lambda z: np.maximum(z, 0.0) + np.log1p(np.exp(-np.abs(z))), _sigmoid, ()),
    "elu": _elu_twin(1.0, 1.0),
    "selu": _elu_twin(1.0507009873554804934, 1.6732632423543772848),
    "sin": (np.sin, np.cos, ()),
    "cos": (np.cos, lambda z: -np.sin(z), ()),
    "gaussian": (lambda z: np.exp(-z * z / 2), lambda z: -z * np.exp(-z * z / 2), ()),
    "relu2": (lambda z: np.maximum(z, 0.0) ** 2, lambda z: 2 * np.maximum(z, 0.0), (0.0,)),
    "cubic": (lambda z: z - z**3 / 3, lambda z: 1 - z * z, ()),
    "monomial3": (lambda z: z**3, lambda z: 3 * z * z, ()),
    "z_erf": (lambda z: z * special.erf(z), _z_erf_slope, ()),
    "tanh_mix": (lambda z: np.tanh(z) - np.tanh(2 * z) / 8, lambda z: _sech2(z) - _sech2(2 * z) / 4, ()),
    "hard_swish": (
        lambda z: z * np.clip(z + 3.0, 0.0, 6.0) / 6,
        lambda z: np.where(z >= 3, 1.0, _inside(z, -3.0, 3.0) * (2 * z + 3) / 6),
        (-3.0, 3.0),
    ),
}
