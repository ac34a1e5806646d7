"""Certified averages of functions that are not analytic at an end of a piece: |z|^p times another function, removable
poles, logarithms. Compared with mpmath quadrature in a coordinate that flattens the singularity; no ball is nan."""

from __future__ import annotations

from itertools import pairwise

import mpmath as mp
import pytest
import sympy as sp

import meanfield as mf
from meanfield.results import InfiniteAverage, MeanFieldError


def reference(f, K, places):
    """⟨f(z, z - b)⟩_K: next to a place b the variable is u, z = b ± u^12."""
    s, k = mp.sqrt(K), 12
    ends = sorted({-14 * s, -4 * s, 4 * s, 14 * s, *places, *(b + d * s for b in places for d in (-0.5, 0.5))})
    total = mp.mpf(0)
    for a, b in pairwise(ends):
        for place, other, side in ((a, b, 1), (b, a, -1)):
            if place in places:
                top = abs(other - place) ** (mp.mpf(1) / k)

                def inside(u, place=place, side=side):
                    z = place + side * u**k
                    return f(z, side * u**k) * k * u ** (k - 1) * mp.exp(-z * z / 2 / K)

                total += mp.quad(inside, [0, top])
                break
        else:
            total += mp.quad(lambda z: f(z, z - places[0]) * mp.exp(-z * z / 2 / K), [a, b])
    return total / mp.sqrt(2 * mp.pi * K)


R = mp.mpf
CASES = [
    ("silu(z)*abs(z)**1.2", lambda z, _: z / (1 + mp.exp(-z)) * abs(z) ** R("1.2"), "1", (0,)),
    ("abs(z)**(-0.4)*cos(z)", lambda z, _: abs(z) ** R("-0.4") * mp.cos(z), "1", (0,)),
    ("abs(z)**(-0.9)*exp(z)", lambda z, _: abs(z) ** R("-0.9") * mp.exp(z), "9/4", (0,)),
    ("abs(tanh(z))**(-0.4)*cos(z)", lambda z, _: abs(mp.tanh(z)) ** R("-0.4") * mp.cos(z), "4", (0,)),
    ("abs(z - 1)**(-0.25)*sigmoid(z)", lambda z, d: abs(d) ** R("-0.25") / (1 + mp.exp(-z)), "1/4", (1,)),
    ("tanh(z)**2/abs(z)", lambda z, _: mp.tanh(z) ** 2 / abs(z), "1", (0,)),
    ("tanh(z)/z", lambda z, _: mp.tanh(z) / z, "2", (0,)),
    ("sin(z)**2*abs(z)**(-1.5)", lambda z, _: mp.sin(z) ** 2 * abs(z) ** R("-1.5"), "1", (0,)),
    ("log(abs(z))**2*abs(z)**(-0.3)", lambda z, _: mp.log(abs(z)) ** 2 * abs(z) ** R("-0.3"), "1", (0,)),
    ("abs(z)**sqrt(2)*tanh(z)**2", lambda z, _: abs(z) ** mp.sqrt(2) * mp.tanh(z) ** 2, "1/100", (0,)),
]


@pytest.mark.parametrize(("text", "f", "K", "places"), CASES, ids=[c[0] for c in CASES])
def test_balls_of_singular_integrands(text, f, K, places):
    with mp.workdps(25):
        ball = mf.average(text, K).ball(20)
        value = reference(f, R(sp.Rational(K).p) / sp.Rational(K).q, tuple(R(p) for p in places))
        found, radius = mp.mpf(ball.mid().str(30, radius=False)), mp.mpf(ball.rad().str(5, radius=False))
        assert ball.rel_accuracy_bits() > 60
        assert abs(found - value) < radius + 1e-15 * abs(value)
        # control: a rule that misses the last percent of the way to the place does not pass
        assert abs(found - value * (1 + R("1e-12"))) > radius + 1e-15 * abs(value)


def test_logarithm_in_closed_form():
    """⟨log|z|⟩_1 = -(γ + log 2)/2."""
    with mp.workdps(30):
        ball = mf.average("log(abs(z))", 1).ball(20)
        exact = -(mp.euler + mp.log(2)) / 2
        found = mp.mpf(ball.mid().str(30, radius=False))
        assert abs(found - exact) < mp.mpf("1e-20") < abs(found - exact * (1 + mp.mpf("1e-19")))


@pytest.mark.parametrize("text", ["abs(z)**(-1.5)*cos(z)", "cos(z)/abs(z)", "(cos(z) + 1)/abs(z)**1.5", "tanh(z)/z**2"])
def test_what_is_not_integrable_is_infinite(text):
    with pytest.raises(InfiniteAverage, match=r"near z = 0 the integrand is like \|z\|\^"):
        mf.average(f"({text}) if z > 0 else 0", 1).ball(15)


@pytest.mark.parametrize("text", ["exp(-1/abs(z))", "cos(log(abs(z)))*tanh(z)**2"])
def test_no_ball_is_nan_without_a_word(text):
    with pytest.raises(MeanFieldError, match="no finite enclosure of it was found"):
        mf.average(text, 1).ball(8)
