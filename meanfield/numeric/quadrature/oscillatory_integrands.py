"""Oscillating integrands as waves, Σ A(z) e^{iωz} with amplitudes that vary only on the scale of z, and their
quadrature at any frequency (Filon–Legendre).

A panel that doubles outwards holds thousands of periods at large K. Its amplitude is a polynomial to rounding, and the
moments of Legendre polynomials against a wave are spherical Bessel functions, ∫_{-1}^{1} P_n(x) e^{ikx} dx = 2 iⁿ
j_n(k): so the number of nodes does not depend on K. Source: derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import sympy as sp

from meanfield.base.budgets import tick
from meanfield.base.symbols import Z
from meanfield.numeric.quadrature.evaluation import evaluate, numpy_function
from meanfield.numeric.quadrature.rules import gauss_legendre

Oscillations = dict[tuple[sp.Expr, sp.Expr], complex]  # (frequency, real amplitude) → coefficient

_MOST = 400  # waves of one integrand
_SAMPLES = 1024  # of one period, for functions of trigonometric functions


def oscillations(expr: sp.Expr) -> Oscillations | None:
    """{(ω, A): c} with expr = Re Σ c A(z) e^{iωz}, the frequencies of both signs kept; None where expr does not split,
    as sin(z²)."""
    if not expr.has(sp.sin, sp.cos) or slow(expr):
        return {(sp.S.Zero, expr): 1.0}
    if expr.is_Add:
        total: Oscillations = {}
        for part in map(oscillations, expr.args):
            if part is None:
                return None
            for key, c in part.items():
                total[key] = total.get(key, 0.0) + c
        return total if len(total) <= _MOST else None
    if expr.is_Mul or (expr.is_Pow and expr.exp.is_Integer and expr.exp > 0 and expr.exp <= 12):
        found = _product([expr.base] * int(expr.exp) if expr.is_Pow else list(expr.args))
        if found is not None:
            return found
    elif isinstance(expr, (sp.sin, sp.cos)):
        found = _elementary(expr)
        if found is not None:
            return found
    return _periodic(expr)


def _product(factors) -> Oscillations | None:
    total: Oscillations = {(sp.S.Zero, sp.S.One): 1.0}
    for part in map(oscillations, factors):
        if part is None or len(total) * len(part) > 20 * _MOST:
            return None
        new: Oscillations = {}
        for (v, a), c in total.items():
            for (w, b), d in part.items():
                key = (v + w, a * b)
                new[key] = new.get(key, 0.0) + c * d
        total = {k: c for k, c in new.items() if c != 0}
    return total if len(total) <= _MOST else None


def _elementary(expr) -> Oscillations | None:
    """sin or cos of ωz + r(z) with a slow r: e^{±iωz} with the amplitudes cos r and sin r."""
    u = sp.expand(expr.args[0])
    w = u.coeff(Z[0], 1) if u.is_Add or u.is_Mul or u == Z[0] else sp.S.Zero
    rest = u - w * Z[0]
    if not w.is_number or not slow(rest) or not slow(sp.cos(rest)):
        return None
    c, s = sp.cos(rest), sp.sin(rest)
    # cos u = Re e^{ir} e^{iωz}; written with both signs so that products are products
    if isinstance(expr, sp.cos):
        parts = {(w, c): 0.5, (-w, c): 0.5, (w, s): 0.5j, (-w, s): -0.5j}
    else:
        parts = {(w, c): -0.5j, (-w, c): 0.5j, (w, s): 0.5, (-w, s): 0.5}
    out: Oscillations = {}
    for (v, amplitude), coefficient in parts.items():
        if amplitude != 0:
            scale = 1.0
            if amplitude.is_number:
                scale, amplitude = float(amplitude), sp.S.One
            out[v, amplitude] = out.get((v, amplitude), 0.0) + scale * coefficient
    return out


@lru_cache(maxsize=512)
def slow(expr: sp.Expr) -> bool:
    """Whether every sin and cos in `expr` has an argument that moves by at most 3 while |z| doubles: then panels that
    double follow it."""
    z = 2.0 ** np.arange(-4, 60)
    for head in expr.atoms(sp.sin, sp.cos):
        u = head.args[0]
        if u.has(Z[0]):
            if not slow(u) or u.is_polynomial(Z[0]):
                return False
            with np.errstate(all="ignore"):
                moved = np.concatenate([np.diff(evaluate(u, s * z)) for s in (1.0, -1.0)])
            if not (np.abs(np.nan_to_num(moved, nan=0.0)) <= 3).all():
                return False
    return True


def _periodic(expr) -> Oscillations | None:
    """The Fourier series of a function that repeats, such as tanh(sin z) or 1/(2 + cos z); None if it does not."""
    speeds = {abs(u.args[0].expand().coeff(Z[0], 1)) for u in expr.atoms(sp.sin, sp.cos)} - {sp.S.Zero}
    if not speeds or not all(s.is_number for s in speeds):
        return None
    unit = next(iter(speeds))
    ratios = [sp.nsimplify(s / unit) for s in speeds]
    if not all(r.is_Rational for r in ratios):
        return None
    base = unit * sp.Rational(math.gcd(*[int(r.p) for r in ratios]), math.lcm(*[int(r.q) for r in ratios]))
    period = 2 * math.pi / float(base)
    f = numpy_function(expr)
    probe = np.array([0.1234, 0.77, 2.31, -1.9, 5.07])
    with np.errstate(all="ignore"):
        here = f(probe)
        for turns in (1, 3, -2):
            if not (np.abs(f(probe + turns * period) - here) <= 1e-11 * (1 + np.abs(here))).all():
                return None
        values = f(np.arange(_SAMPLES) * (period / _SAMPLES))
    c = np.fft.fft(values) / _SAMPLES
    largest = np.abs(c).max()
    if not np.isfinite(largest) or np.abs(c[_SAMPLES // 2 - 50 : _SAMPLES // 2 + 50]).max() > 1e-15 * largest:
        return None
    out: Oscillations = {}
    for k in range(-_SAMPLES // 2, _SAMPLES // 2):
        if abs(c[k]) > 2e-16 * largest:  # what is less is rounding of the transform
            out[k * base, sp.S.One] = complex(c[k])
    return out if len(out) <= _MOST else None


@lru_cache(maxsize=512)
def split(expr: sp.Expr) -> tuple[tuple[sp.Expr, tuple[tuple[float, complex], ...]], ...] | None:
    """((A, ((ω, c), …)), …) for `oscillations`, amplitude by amplitude, with ω ≥ 0 only: expr = Σ A Re Σ c e^{iωz}."""
    found = oscillations(expr)
    if found is None:
        return None
    groups: dict[sp.Expr, dict[sp.Expr, complex]] = {}
    for (w, amplitude), c in found.items():
        w = sp.nsimplify(w) if w.is_Float else w
        group, flip = groups.setdefault(amplitude, {}), bool(w < 0)
        key = -w if flip else w
        group[key] = group.get(key, 0.0) + (complex(c).conjugate() if flip else complex(c))
    return tuple(
        (amplitude, tuple((float(w), c) for w, c in group.items() if c != 0)) for amplitude, group in groups.items()
    )


def fastest(expr: sp.Expr) -> float:
    """The largest frequency of a split expression."""
    found = split(expr)
    assert found is not None
    return max((w for _, group in found for w, _ in group), default=0.0)


@lru_cache(maxsize=4)
def _legendre(n: int) -> np.ndarray:
    """P_k(x_i) of the n Gauss nodes, row k."""
    x, _ = gauss_legendre(n)
    rows = [np.ones_like(x), x]
    for k in range(1, n - 1):
        rows.append(((2 * k + 1) * x * rows[-1] - k * rows[-2]) / (k + 1))
    return np.array(rows)


def weights(omega: float, middle: np.ndarray, half: np.ndarray, n: int) -> np.ndarray:
    """W (panels × nodes, complex) with Σ_i W_i A(z_i) = ∫ A(z) e^{iωz} dz over each panel, exact for polynomials A of
    degree below n."""
    tick()
    keys = [(omega, m, h, n) for m, h in zip(middle.tolist(), half.tolist())]
    new = np.array([i for i, key in enumerate(keys) if key not in _KNOWN], dtype=int)
    if len(_KNOWN) + len(new) > 200_000:
        _KNOWN.clear()
        new = np.arange(len(keys))
    if len(new):
        _KNOWN.update(zip([keys[i] for i in new], _panel_weights(omega, middle[new], half[new], n)))
    return np.array([_KNOWN[key] for key in keys])


# panels that double are the same at every K, so few are computed
_KNOWN: dict[tuple[float, float, float, int], np.ndarray] = {}


def _panel_weights(omega: float, middle: np.ndarray, half: np.ndarray, n: int) -> np.ndarray:
    _, w = gauss_legendre(n)
    if omega == 0:
        return (half[:, None] * w).astype(complex)
    total = np.zeros((len(half), n), dtype=complex)
    for k, (row, j) in enumerate(zip(_legendre(n), _spherical(n, omega * half))):
        total += ((2 * k + 1) * _I[k % 4] * j)[:, None] * row
    return (half * np.exp(1j * omega * middle))[:, None] * total * w


_I = np.array([1, 1j, -1, -1j])


def _spherical(n: int, x: np.ndarray) -> np.ndarray:
    """The spherical Bessel functions j_0, …, j_{n-1} of an array, row by row; upwards from j_0 and j_1 where x > n."""
    out = np.empty((n, len(x)))
    far = x > n
    y = x[far]
    here, then = np.sin(y) / y, (np.sin(y) / y - np.cos(y)) / y
    for k in range(n):
        out[k, far] = here
        here, then = then, (2 * k + 3) * then / y - here
    if not far.all():
        out[:, ~far] = _bessel()(np.arange(n)[:, None], x[~far])
    return out


@lru_cache(maxsize=1)
def _bessel():
    from scipy.special import spherical_jn  # a quarter of a second; only waves need it

    return spherical_jn
