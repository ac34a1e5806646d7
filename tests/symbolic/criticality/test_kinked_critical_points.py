"""Critical points of φ with kinks and curved pieces, and of higher order, against scans and iterations in NumPy."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp
from scipy.optimize import brentq

import meanfield as mf
from meanfield.base.answers.results import Status
from meanfield.base.symbols import Z
from meanfield.functions.piecewise import Pieces, jump, pieces
from meanfield.symbolic.criticality import critical_points as critical
from meanfield.symbolic.fixed_points import half_line

# ------------------------------------------------------------------------------------------------ another route

_X, _W = np.polynomial.legendre.leggauss(40)


def gaussian(f, K: float, breaks) -> float:
    """⟨f⟩_K by panels that end at the breaks: nothing of the engine is used."""
    s = math.sqrt(K)
    edges = {m * s for m in (-12, -9, -6.5, -4.5, -3, -2, -1, 0, 1, 2, 3, 4.5, 6.5, 9, 12)}
    edges |= {b + d * s for b in breaks if abs(b) < 12 * s for d in (-0.1, 0, 0.1)}
    ends = np.array(sorted(edges))
    half = np.diff(ends)[:, None] / 2
    x = (ends[1:] + ends[:-1])[:, None] / 2 + half * _X
    return float((f(x) * np.exp(-x * x / (2 * K)) * half * _W).sum() / math.sqrt(2 * math.pi * K))


def gap(f, slope, breaks, K: float) -> float:
    """d⟨f²⟩/dK - ⟨f′²⟩ = ⟨z f f′⟩/K - ⟨f′²⟩, without second derivatives."""
    return gaussian(lambda z: z * f(z) * slope(z) / K - slope(z) ** 2, K, breaks)


def scanned(f, slope, breaks) -> list[tuple[float, float, float]]:
    """(K*, σ_w², σ_b²) at each change of sign of the gap for K from 1e-4 to 1e5, where σ_b² ≥ 0."""
    ks = np.geomspace(1e-4, 1e5, 181)
    values = [gap(f, slope, breaks, k) for k in ks]
    out = []
    seen = [(k, v) for k, v in zip(ks, values) if abs(v) > 1e-11]
    for (a, u), (b, v) in pairwise(seen):
        if u * v < 0:
            k = brentq(lambda t: gap(f, slope, breaks, t), a, b, xtol=1e-15, rtol=1e-14)
            w2 = 1 / gaussian(lambda z: slope(z) ** 2, k, breaks)
            b2 = k - w2 * gaussian(lambda z: f(z) ** 2, k, breaks)
            out += [(k, w2, b2)] if b2 > 0 else []
    return out


def clipped(lo, hi):
    return lambda z: np.clip(z, lo, hi), lambda z: ((z > lo) & (z < hi)) * 1.0


def curved(power, size):
    return lambda z: size * z**power, lambda z: size * power * z ** (power - 1)


def squared(b, size):
    return lambda z: size * np.maximum(z - b, 0) ** 2, lambda z: 2 * size * np.maximum(z - b, 0)


def flat(size):
    return lambda z: size * z / (1 + abs(z)), lambda z: size / (1 + abs(z)) ** 2


def bent(b, size):
    return lambda z: size * abs(z - b), lambda z: size * np.sign(z - b)


#: a kink at 0, which weighs first and has no size, and tails from which no sign at K → ∞ is read
AT_ZERO = "abs(z-1)/2-abs(z)/2+3*z-2/5-softsign(z)/10"

CASES = {  # formula: (its parts, breaks, number of points with K* > 0)
    "clip(z,-1,2)+z**2/10": ([clipped(-1, 2), curved(2, 0.1)], (-1, 2), 2),
    "hard_tanh(z)+z**3/20": ([clipped(-1, 1), curved(3, 0.05)], (-1, 1), 2),
    "clip(z,-1,1)+relu(z-1)**2/4": ([clipped(-1, 1), squared(1, 0.25)], (-1, 1), 1),  # a kink of φ and of φ′ at 1
    AT_ZERO: ([bent(1, 0.5), bent(0, -0.5), curved(1, 3), curved(0, -0.4), flat(-0.1)], (0, 1), 1),
}


def parts_of(name):
    parts, breaks, count = CASES[name]
    f, slope = (lambda z, i=i: sum(part[i](z) for part in parts) for i in (0, 1))
    return f, slope, breaks, count


def assert_as_scanned(name: str) -> None:
    f, slope, breaks, count = parts_of(name)
    expected = scanned(f, slope, breaks)
    assert len(expected) == count
    critical.critical_points.cache_clear()
    found = mf.derive(name).critical_points()
    positive = [p for p in found if p.K.value != 0]
    assert found.status is Status.CERTIFIED and len(positive) == count, found
    for p, (k, w2, b2) in zip(positive, expected):
        got = float(p.K.value), float(p.sigma_w.value) ** 2, float(p.sigma_b.value) ** 2
        assert got == pytest.approx((k, w2, b2), rel=1e-9), name


def by_position(f):
    """Planted: pieces of φ and of φ″ paired by their number, although φ″ has fewer."""
    p = pieces(f, Z[0])
    slope = p.diff()
    g = Pieces(Z[0], p.breaks, tuple(a * b for a, b in zip(p.exprs, slope.diff().exprs))).expr
    bends = zip(p.breaks, p.exprs, slope.exprs, slope.exprs[1:])
    return g, tuple((b, sp.simplify(e.subs(Z[0], b) * jump(u, v, Z[0], b))) for b, e, u, v in bends)


@pytest.mark.fast_with("clip(z,-1,1)+relu(z-1)**2/4")
@pytest.mark.parametrize("name", CASES)
def test_every_critical_point_of_a_kinked_and_curved_phi_is_found(name):
    assert_as_scanned(name)


def test_control_pieces_paired_by_position(monkeypatch):
    monkeypatch.setattr(critical, "curvature", by_position)
    with pytest.raises(AssertionError, match="CriticalPoints"):
        assert_as_scanned("clip(z,-1,2)+z**2/10")
    critical.critical_points.cache_clear()


@pytest.mark.slow
def test_control_a_search_that_starts_at_the_size_of_a_kink_at_0(monkeypatch):
    """Planted: K = 1e-240, from where a walk of 80 decades meets no critical point, and "no critical points"."""
    monkeypatch.setattr(half_line, "_scale", lambda found: sp.Rational(1, 10**240))
    with pytest.raises(AssertionError, match="CriticalPoints"):
        assert_as_scanned(AT_ZERO)
    critical.critical_points.cache_clear()


MERGED = {  # φ″, or φ′, or both have fewer pieces than φ; kinks at a zero of φ, at 0, on both sides of it
    **{name: parts_of(name)[:3] for name in CASES},
    "abs(z-1)+abs(z+1)+z**2/4": (
        lambda z: abs(z - 1) + abs(z + 1) + z**2 / 4, lambda z: np.sign(z - 1) + np.sign(z + 1) + z / 2, (-1, 1)
    ),
    "abs(z)*z**2-relu(1-z)": (
        lambda z: abs(z) * z**2 - np.maximum(1 - z, 0), lambda z: 3 * z * abs(z) + (z < 1) * 1.0, (0, 1)
    ),
    "clip(z,-2,1)+relu(z-sqrt(2))**2/8": (
        lambda z: np.clip(z, -2, 1) + np.maximum(z - 2**0.5, 0) ** 2 / 8,
        lambda z: ((z > -2) & (z < 1)) + np.maximum(z - 2**0.5, 0) / 4,
        (-2, 1, 2**0.5),
    ),
    "abs(z**2-1)+2*z": (lambda z: abs(z**2 - 1) + 2 * z, lambda z: 2 * z * np.sign(z**2 - 1) + 2, (-1, 1)),
}  # fmt: skip


def assert_same_gap(name: str, curvature) -> None:
    """⟨G⟩_K + Σ w p_K(b) is d⟨φ²⟩/dK - ⟨φ′²⟩."""
    f, slope, breaks = MERGED[name]
    g, masses = curvature(phi(name))
    own = sp.lambdify(Z[0], g, "numpy")
    for k in (0.07, 0.9, 13.0):
        bends = sum(float(w) * math.exp(-float(b) ** 2 / (2 * k)) / math.sqrt(2 * math.pi * k) for b, w in masses)
        total = gaussian(lambda z: own(z) + 0 * z, k, breaks) + bends
        assert total == pytest.approx(gap(f, slope, breaks, k), rel=1e-9, abs=1e-10), name


def phi(name: str) -> sp.Expr:
    from meanfield.functions.activations import activation

    return activation(name).pieces.expr


@pytest.mark.parametrize("name", MERGED)
def test_the_curvature_over_the_common_pieces(name):
    assert_same_gap(name, critical.curvature)
    g, masses = critical.curvature(phi(name))
    if masses:
        with pytest.raises(AssertionError, match="z"):  # control: the last kink left out
            assert_same_gap(name, lambda f: (g, masses[:-1]))


# --------------------------------------------------------------------------------------------- order 3, doubt


def quartic(K: float) -> float:
    """K′ of φ = z⁴ - 18z² + 3 at σ_w² = 1/672, σ_b² = 9/28, by the moments of a Gaussian."""
    return (105 * K**4 - 540 * K**3 + 990 * K**2 - 108 * K + 9) / 672 + 9 / 28


def assert_approach(point, factor: float = 1.0) -> None:
    """δ √l → ±A from above and from below, and δ′ = δ - c₃δ³ + …"""
    assert (point.kind, point.order, point.zeta_K) == ("stable", 3, sp.S.Half)
    d = 1e-3
    third = (quartic(1 + d) - quartic(1 - d) - 2 * d) / (2 * d**3)
    assert -third == pytest.approx(float(point.c_n.value) * factor, rel=1e-4), "not the third coefficient"
    for start in (1.5, 0.5):
        K, left = start, []
        for layer in range(1, 64001):
            K = quartic(K)
            if layer in (16000, 64000):
                left.append(1 / (layer * (K - 1) ** 2))
        assert 2 * left[1] - left[0] == pytest.approx(1 / float(point.A.value) ** 2, rel=0.02)
    assert "above and from below" in point.side


def test_a_critical_point_of_order_three_attracts_from_both_sides():
    found = mf.derive("z**4-18*z**2+3").critical_points()
    assert [(p.K.value, p.kind) for p in found] == [
        (sp.Rational(1, 5), "half-stable"), (1, "stable"), (3, "half-stable")
    ]  # fmt: skip
    point = found[1]
    assert point.sigma_w.value**2 == sp.Rational(1, 672) and point.sigma_b.value**2 == sp.Rational(9, 28)
    assert point.c_n.value == sp.Rational(5, 28) and point.law_K is None and "zoo" not in point.latex() + str(point)
    assert_approach(point)
    with pytest.raises(AssertionError, match="not the third coefficient"):
        assert_approach(point, 1.01)


def test_what_is_not_decided_at_a_root_is_said(monkeypatch):
    """Planted: signs at the root of which nothing is known."""
    theory = mf.derive("z**4-15")
    (point,) = theory.critical_points()  # at σ_b = 0
    assert point.sigma_b.value == 0 and point.kind == "half-stable"
    with monkeypatch.context() as m:
        m.setattr(critical, "_sign_at", lambda e, root: None)
        critical.critical_points.cache_clear()
        found = theory.critical_points()
        assert not len(found) and found.status is Status.MEASURED
        assert "whether sigma_b^2 < 0 at K* = 1 is not decided" in found.message
        unknown = iter((0, None, None))  # σ_b², then F″
        m.setattr(critical, "_sign_at", lambda e, root: next(unknown))
        critical.critical_points.cache_clear()
        (carried,) = theory.critical_points()
        assert (carried.kind, carried.order, carried.c_n) == ("undecided", None, None)
        assert "whether the derivative 2 of F is 0 at K* is not decided" in carried.side
    critical.critical_points.cache_clear()
    assert theory.critical_points().status is Status.CERTIFIED


@pytest.mark.slow
def test_a_symbolic_skip_is_a_factor_of_what_a_root_decides():
    """swish at K* = 14.3: A, its error and the laws with mu are those of mu = 1/2 when mu is 1/2."""
    (whole,) = [p for p in mf.derive("swish", mu="mu").critical_points() if p.K.value != 0]
    (half,) = [p for p in mf.derive("swish", mu="1/2").critical_points() if p.K.value != 0]
    mu = next(iter(whole.A.value.free_symbols))
    at = whole.A.value.subs(mu, sp.Rational(1, 2))
    assert whole.side == half.side and whole.side.startswith("attracts from below")
    assert abs(at - half.A.value) <= half.A.error + whole.A.error / (1 - 0.25)
    assert whole.A.error == pytest.approx(half.A.error * (1 - 0.25), rel=1e-3)  # of the number before 1/(1 - mu²)
    lead = whole.law_K.terms[1].coefficient.subs(mu, sp.Rational(1, 2))
    assert lead == pytest.approx(float(half.law_K.terms[1].coefficient), rel=1e-12)
    assert lead != pytest.approx(float(half.law_K.terms[1].coefficient) * 1.001, rel=1e-4)
