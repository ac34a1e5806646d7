"""Writes run_error.json: ⟨φ²⟩ and ⟨φ′²⟩ of activations that oscillate, branch or are steep, to 25 digits.

Nothing here is shared with the package: φ and φ′ are written by hand over Arb, panels are plain Gauss–Legendre of 40
points that follow every period, and a fractional power at 0 is removed by the substitution z = w^m. Each value is
computed a second time with 48 points on panels 0.8 times as wide where that is affordable; the difference is stored.

Run: python tests/references/make_run_error_references.py (about a quarter of an hour).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

from flint import arb, ctx

POINTS = (1e-8, 1e-3, 0.05, 1.0, 30.0, 1e4, 2e5, 4e5, 1e7, 1e8)
REACH = 12.5  # standard deviations; e^{-78}


@dataclass(frozen=True)
class Case:
    """φ and φ′ (None where ⟨φ′²⟩ = ∞) for z ≠ 0; feature: width of the narrowest structure; period: a width that
    resolves the fastest oscillation of φ²; centre: where the narrow structure sits; power: m of z = w^m."""

    text: str
    phi: Callable
    dphi: Callable | None
    feature: float = 1.0
    period: float = float("inf")
    centre: float = 0.0
    power: int = 1


def sgn(x):
    return 1 if x > 0 else -1


def sech2(x):
    return 1 / x.cosh() ** 2


def sigmoid(x):
    return 1 / (1 + (-x).exp())


def tenth(x, n):
    """|x|^(n/10)."""
    return abs(x).root(10) ** n if n >= 0 else 1 / abs(x).root(10) ** (-n)


CASES = (
    Case("tanh(z)*sin(z)", lambda z: z.tanh() * z.sin(), lambda z: sech2(z) * z.sin() + z.tanh() * z.cos(), 1, 5),
    Case(
        "sin(3*z)*z/(1+abs(z))",
        lambda z: (3 * z).sin() * z / (1 + abs(z)),
        lambda z: 3 * (3 * z).cos() * z / (1 + abs(z)) + (3 * z).sin() / (1 + abs(z)) ** 2,
        1,
        1.7,
    ),
    Case(
        "sqrt(1+z**2)*cos(z)",
        lambda z: (1 + z * z).sqrt() * z.cos(),
        lambda z: z * z.cos() / (1 + z * z).sqrt() - (1 + z * z).sqrt() * z.sin(),
        1,
        5,
    ),
    Case(
        "sin(z)/(1+z**2)",
        lambda z: z.sin() / (1 + z * z),
        lambda z: z.cos() / (1 + z * z) - 2 * z * z.sin() / (1 + z * z) ** 2,
        1,
        5,
    ),
    Case("z*sin(z)", lambda z: z * z.sin(), lambda z: z.sin() + z * z.cos(), 1, 5),
    Case(
        "cos(5*z)*sigmoid(z)",
        lambda z: (5 * z).cos() * sigmoid(z),
        lambda z: -5 * (5 * z).sin() * sigmoid(z) + (5 * z).cos() * sigmoid(z) * sigmoid(-z),
        1,
        1,
    ),
    Case("tanh(sin(z))", lambda z: z.sin().tanh(), lambda z: z.cos() * sech2(z.sin()), 1, 2),
    Case("sin(z+tanh(z))", lambda z: (z + z.tanh()).sin(), lambda z: (z + z.tanh()).cos() * (1 + sech2(z)), 1, 5),
    Case("abs(z)**1.5", lambda z: tenth(z, 15), lambda z: sgn(z) * tenth(z, 5) * 3 / 2, 1, power=10),
    Case("abs(z)**0.7", lambda z: tenth(z, 7), lambda z: sgn(z) * tenth(z, -3) * 7 / 10, 1, power=10),
    Case("sign(z)*sqrt(abs(z))", lambda z: sgn(z) * tenth(z, 5), None, 1, power=10),
    Case(
        "tanh(z)*sqrt(abs(z))",
        lambda z: z.tanh() * tenth(z, 5),
        lambda z: sech2(z) * tenth(z, 5) + z.tanh() * sgn(z) * tenth(z, -5) / 2,
        1,
        power=10,
    ),
    Case(
        "abs(z)**0.8*exp(-abs(z))",
        lambda z: tenth(z, 8) * (-abs(z)).exp(),
        lambda z: sgn(z) * (tenth(z, -2) * 8 / 10 - tenth(z, 8)) * (-abs(z)).exp(),
        1,
        power=10,
    ),
    Case(
        "relu(z)**1.5",
        lambda z: tenth(z, 15) if z > 0 else arb(0),
        lambda z: tenth(z, 5) * 3 / 2 if z > 0 else arb(0),
        1,
        power=10,
    ),
    Case("arctan(20*z)", lambda z: (20 * z).atan(), lambda z: 20 / (1 + 400 * z * z), 0.05),
    Case("tanh(30*(z-2))", lambda z: (30 * (z - 2)).tanh(), lambda z: 30 * sech2(30 * (z - 2)), 0.02, centre=2.0),
)


@cache
def rule(order: int, digits: int):
    return [arb.legendre_p_root(order, i, weight=True) for i in range(order)]


def edges(case: Case, K: float, scale: float, side: int) -> list[float]:
    """Panel edges of |z|, from 0 to the reach: no panel wider than the period, half the distance to 0 or to the
    centre plus the feature, and half a standard deviation where the Gaussian decides."""
    sigma = K**0.5
    end, x, out = REACH * sigma, 0.0, [0.0]
    if case.centre:  # where the integrand itself grows towards its centre
        end = max(end, min(case.centre + 3, 45 * sigma))
    floor = min(sigma, case.feature) * 0.4
    while x < end:
        near = abs(x - case.centre) if side > 0 and case.centre else x
        width = max(floor, 0.4 * near) if not case.centre else floor + 0.3 * near
        x = min(end, x + scale * min(width, case.period, 0.7 * sigma))
        out.append(x)
    return out


def averages(case: Case, K: float, order: int = 40, scale: float = 1.0) -> list[str]:
    """⟨φ²⟩ and ⟨φ′²⟩ as decimal texts."""
    ctx.dps = 40
    k, totals = arb(K), [arb(0), arb(0)]
    for side in (1, -1):
        places = edges(case, K, scale, side)
        walls = [arb(x) if case.power == 1 else arb(x).root(case.power) if x else arb(0) for x in places]
        for a, b in pairwise(walls):
            middle, half = (a + b) / 2, (b - a) / 2
            for x, weight in rule(order, 40):
                w = middle + half * x
                z = side * w**case.power
                density = weight * half * case.power * w ** (case.power - 1) * (-z * z / (2 * k)).exp()
                totals[0] += density * case.phi(z) ** 2
                if case.dphi is not None:
                    totals[1] += density * case.dphi(z) ** 2
    norm = (2 * arb.pi() * k).sqrt()
    return [(t / norm).mid().str(25, radius=False) for t in totals]


def main() -> None:
    target = Path(__file__).with_name("run_error.json")
    rows = []
    for case in CASES:
        for K in POINTS:
            value = averages(case, K)
            check = None
            if K <= 1e4 or case.period == float("inf"):
                second = averages(case, K, 48, 0.8)
                check = [float(abs(arb(a) - arb(b)) / (abs(arb(a)) + arb("1e-9000"))) for a, b in zip(value, second)]
            if case.dphi is None:
                value[1] = "inf"
            rows.append({"phi": case.text, "K": K, "phi2": value[0], "dphi2": value[1], "second": check})
            print(rows[-1], flush=True)
        target.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
