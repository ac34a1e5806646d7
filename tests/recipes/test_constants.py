"""Constants of public code: each claim comes out as it should, and exact numbers are those of quadrature in doubles.

The quadrature is of this file, in NumPy; what a constant does to a network is followed by a loop of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
import sympy as sp

from derivations.judging import judge
from derivations.recipes.acceptance import CHECKS
from derivations.recipes.constants import CLAIMS, MAGIC, NFNETS, truncated_complex
from derivations.recipes.effects import effect, lines

BY_SOURCE = {claim.source: claim for claim in CLAIMS}
SLOW = ("softmax", "attention", "cross-entropy")
X, W = np.polynomial.legendre.leggauss(60)


@pytest.mark.slow_with(
    "nfnets gelu (tanh form)", "nfnets glu", "nfnets log_sigmoid", "nfnets sigmoid", "nfnets silu", "nfnets softsign",
    "nfnets softplus", "unit-scaling silu forward, m=1/2", "unit-scaling silu_glu, m=1", "unit-scaling silu_glu, m=2",
)  # fmt: skip
@pytest.mark.parametrize(
    "claim",
    [pytest.param(c, marks=[pytest.mark.slow] * any(s in c.source for s in SLOW), id=c.source) for c in CLAIMS],
)
def test_the_constant_and_its_contrast_come_out_as_they_should(claim):
    complaint = judge(claim).complaint
    assert complaint is None, complaint


def test_constants_are_told_apart():
    assert len(BY_SOURCE) == len(CLAIMS)
    counts = Counter(claim.misprint for claim in CLAIMS)
    assert counts == {True: 38, False: 9} and sum(claim.composed for claim in CLAIMS) == 4
    assert len(NFNETS) == 15 and len(MAGIC) == 14


@pytest.mark.fast_with("1/rms tanh")
@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_acceptance_values(check):
    assert check.misses() <= 1 < check.misses("1/100")


# ------------------------------------------------------------------------------------------------ by quadrature here

SIGMOID: Callable = lambda z: 1 / (1 + np.exp(-z))  # noqa: E731
PHI: dict[str, Callable] = {
    "celu": lambda z: np.where(z > 0, z, np.expm1(z)),
    "elu": lambda z: np.where(z > 0, z, np.expm1(z)),
    "gelu (tanh form)": lambda z: z * (1 + np.tanh((2 / np.pi) ** 0.5 * (z + 0.044715 * z**3))) / 2,
    "leaky_relu": lambda z: np.where(z > 0, z, z / 100),
    "log_sigmoid": lambda z: -np.logaddexp(0, -z),
    "relu": lambda z: np.maximum(z, 0),
    "relu6": lambda z: np.clip(z, 0, 6),
    "selu": lambda z: 1.0507009873554805 * np.where(z > 0, z, 1.6732632423543772 * np.expm1(z)),
    "sigmoid": SIGMOID,
    "silu": lambda z: z * SIGMOID(z),
    "softsign": lambda z: z / (1 + abs(z)),
    "softplus": lambda z: np.logaddexp(0, z),
    "tanh": np.tanh,
}


def mean(f: Callable, K: float = 1.0) -> float:
    """⟨f⟩ by Gauss-Legendre on pieces of one deviation, with 6 among their ends."""
    s = K**0.5
    ends = np.unique([*(s * np.arange(-12, 13)), *([6.0] if 12 * s > 6 else [])])
    total = 0.0
    for a, b in pairwise(ends):
        z = (a + b) / 2 + (b - a) / 2 * X
        total += (b - a) / 2 * float(W @ (f(z) * np.exp(-z * z / (2 * K))))
    return total / (2 * np.pi * K) ** 0.5


def assert_magic(name: str, planted: float = 1.0) -> None:
    f = PHI[name]
    exact = (mean(lambda z: f(z) ** 2, planted) - mean(f, planted) ** 2) ** -0.5
    claim = BY_SOURCE[f"nfnets {name}"]
    off = abs(float(claim.contrast) / exact - 1)
    assert off < 2e-14, f"{name}: the exact constant is off by {off:.1e}"
    assert 5e-5 < float(claim.printed) / exact - 1 < 1e-3  # every one of them is too large


@pytest.mark.parametrize("name", PHI)
def test_the_thirteen_constants_of_nfnets(name):
    assert_magic(name)
    with pytest.raises(AssertionError, match="is off by"):
        assert_magic(name, 1 + 1e-6)


def assert_complex_truncation(constant: float, draws: int = 400_000) -> None:
    """The deviation of a complex normal cut at modulus 2, drawn by rejection: within 4 standard errors."""
    z = np.random.default_rng(3).normal(scale=0.5**0.5, size=(2, draws))
    squares = (z**2).sum(axis=0)
    squares = squares[squares < 4]
    score = (squares.mean() - constant**2) / (squares.std() / len(squares) ** 0.5)
    assert abs(score) < 4, f"{constant}: z = {score:.0f}"


def test_the_complex_truncation_of_jax_lacks_its_normalization():
    """What is printed is √(1 - 5e⁻⁴), the second moment without the division by 1 - e⁻⁴."""
    claim = BY_SOURCE["jax complex normal cut at |z| = 2"]
    assert_complex_truncation(float(truncated_complex()))
    with pytest.raises(AssertionError, match="z ="):
        assert_complex_truncation(float(claim.printed))
    assert abs(float(claim.printed) - (1 - 5 * np.exp(-4)) ** 0.5) < 1e-12


# ----------------------------------------------------------------------------------- what 50 layers make of a constant


def looped(f: Callable, slope: Callable, sigma_w: float, layers: int = 50) -> tuple[float, float]:
    K, log_J = 1.0, 0.0
    for _ in range(layers):
        log_J += np.log(sigma_w**2 * mean(lambda z: slope(z) ** 2, K))
        K = sigma_w**2 * mean(lambda z: f(z) ** 2, K)
    return K, log_J


def assert_effect(source: str, f: Callable, slope: Callable, planted: float = 1.0) -> None:
    claim = BY_SOURCE[source]
    (K, J), (K_exact, J_exact) = (looped(f, slope, float(c)) for c in (sp.sympify(claim.printed), claim.exact))
    found = effect(claim, float(sp.sympify(claim.printed)) * planted)
    for ours, right in ((found.K, K), (found.K_exact, K_exact), (found.J_ratio, np.exp(J - J_exact))):
        assert ours == pytest.approx(right, rel=1e-8), f"{source}: {ours} is not {right}"


def test_fifty_layers_by_a_loop():
    of_tanh = np.tanh, lambda z: 1 / np.cosh(z) ** 2
    assert_effect("torch tanh", *of_tanh)
    with pytest.raises(AssertionError, match="is not"):
        assert_effect("torch tanh", *of_tanh, planted=1 + 1e-6)
    assert_effect("nfnets relu", PHI["relu"], lambda z: (z > 0) * 1.0)


@pytest.mark.slow
def test_the_table_has_a_line_for_each():
    rows = list(lines())
    assert len(rows) == len(CLAIMS) + 1 and all(claim.source in row for claim, row in zip(CLAIMS, rows[1:]))
