"""Statements on transformer blocks: each print and its contrast come out as they should."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from derivations.attention import CLAIMS, SLOW, STATEMENTS, depth, softmax
from derivations.attention.acceptance import CHECKS
from derivations.judging import judge


@pytest.mark.slow_with(
    "C3, gelu, covariance", "C3, gelu, gradients of two tokens", "C8, pre-LN, variance",
    "C8, pre-LN, gradient hyperbolic, relu", "C8, pre-LN, gradient hyperbolic, gelu",
    "C8, post-LN, gradient exponential, gelu", "C12, Lemma 2, l → ∞", "C12, Lemma 2, bounds",
    "C14, Thm 1, post-LN, last layer: power of L", "C14, Thm 1, pre-LN, last layer: power of L",
    "C27, pre-LN: attention changes the power, gelu", "C27, pre-LN, gelu, no attention",
    "C28, pre-LN: variance exponential at the start", "C30, peri: law of K", "C18, pre-LN with a relu MLP",
    "C21, λ_a = λ_g = 0 at once: λ_g - λ_a, ordered", "C21, order-chaos transition",
    "C21, order-chaos transition, beyond",
)  # fmt: skip
@pytest.mark.parametrize(
    "claim", [pytest.param(c, marks=[pytest.mark.slow] * (c in SLOW), id=c.source) for c in CLAIMS]
)
def test_the_print_and_its_contrast_come_out_as_they_should(claim):
    """A right statement holds and its planted change does not; a wrong one fails and the right one holds."""
    complaint = judge(claim).complaint
    assert complaint is None, complaint


def test_sources_are_told_apart():
    assert len(CLAIMS) == len({c.source for c in CLAIMS})
    assert Counter(c.misprint for c in CLAIMS)[True] >= 9


# ------------------------------------------------------------- uniform attention and relu, by a loop in plain NumPy


def kinks(x: float) -> tuple[float, float]:
    """⟨relu relu⟩ and ⟨relu′ relu′⟩ of two normals of variance 1 and correlation x."""
    angle = np.arccos(x)
    return (np.sqrt(1 - x * x) + x * (np.pi - angle)) / (2 * np.pi), (np.pi - angle) / (2 * np.pi)


def looped(norm: str, tokens: int, blocks: int, lost: float = 0.0) -> np.ndarray:
    """K, K_ab, J, J_ab after that many blocks of [2002.04745] from orthogonal tokens; lost: taken from relu's slope."""
    q, c, j, a = 1.0, 0.0, 1.0, 0.0
    for _ in range(blocks):
        mixed, moved = c + (q - c) / tokens, a + (j - a) / tokens
        scale = q if norm == "pre" else 1.0
        q, c, j, a = q + mixed / scale, c + mixed / scale, j + moved / scale, a + moved / scale
        if norm == "post":
            q, c, j, a = 1.0, c / q, j / q, a / q
        value, slope = kinks(c / q)
        scale = 1.0 if norm == "pre" else q
        j, a = j + (0.5 - lost) * j / q, a + (slope - lost) * a / q
        q, c = q + 0.5 * scale, c + value * scale
        if norm == "post":
            q, c, j, a = 1.0, c / q, j / q, a / q
    return np.array([q, c, j, a])


def assert_runs_as_looped(norm: str, lost: float = 0.0) -> None:
    network = {"pre": depth.PRE, "post": depth.POST}[norm]
    blocks = {"pre": 2000, "post": 60}[norm]
    found = depth.run(network, blocks, 16)
    ours = np.array([getattr(found, name)[-1] for name in ("K", "K_ab", "J", "J_ab")])
    np.testing.assert_allclose(ours, looped(norm, 16, blocks, lost), rtol=1e-7)


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_the_setting_of_2002_04745_by_a_loop(norm):
    assert_runs_as_looped(norm)
    with pytest.raises(AssertionError, match="Not equal to tolerance"):
        assert_runs_as_looped(norm, lost=1e-4)


# ------------------------------------------------------------------------------- attention, by softmaxes that are drawn


def drawn(T: int, s: float, r: float, r_g: float, draws: int = 4000, through_scores: bool = True) -> np.ndarray:
    """(variance, covariance, gradient, gradients of two) of C7 at V = 1 by drawn scores, with their errors in row 1.

    A token's value and gradient have the covariance (1 - r)δ + r. Given A, the gradient by values is Aᵀ of what comes
    in; by scores dS = A ⊙ (gVᵀ - rows' means), which queries and keys hand on with their own covariance G.
    """
    rng = np.random.default_rng(7)
    G = (1 - r) * np.eye(T) + r
    G_g = (1 - r_g) * np.eye(T) + r_g
    L = np.linalg.cholesky(G)
    found = []
    for _ in range(draws):
        S = s * L @ rng.standard_normal((T, T)) @ L.T
        A = np.exp(S - S.max(axis=1, keepdims=True))
        A /= A.sum(axis=1, keepdims=True)
        mixed, back = A @ G @ A.T, A.T @ G_g @ A
        if through_scores:  # g_t v_s is normal with the covariance G_g,tt' G_ss'
            N = np.linalg.cholesky(G_g) @ rng.standard_normal((T, T)) @ L.T
            D = A * (N - (A * N).sum(axis=1, keepdims=True))
            back = back + s * s * (D @ G @ D.T + D.T @ G @ D)
        off = T * (T - 1)
        rows = [np.trace(mixed) / T, (mixed.sum() - np.trace(mixed)) / off]
        found.append([*rows, np.trace(back) / T, (back.sum() - np.trace(back)) / off])
    return np.array([np.mean(found, axis=0), np.std(found, axis=0) / draws**0.5])


def assert_as_drawn(T: int, s: float, r: float, r_g: float, through_scores: bool = True) -> None:
    value, error = drawn(T, s, r, r_g, through_scores=through_scores)
    ours = [softmax.exact(kind, T, s, r, r_g) for kind in softmax.KINDS]
    z = (value - ours) / error
    assert np.abs(z).max() < 4, f"z-scores {z}"


@pytest.mark.slow
@pytest.mark.parametrize("place", [(8, 1.5, 0.3, 0.0), (8, 0.6, 0.5, 0.4)])
def test_the_moments_of_attention_by_drawn_softmaxes(place):
    """Forward and backward, with gradients that are correlated between tokens, at one head given its softmax."""
    assert_as_drawn(*place)
    with pytest.raises(AssertionError, match="z-scores"):
        assert_as_drawn(*place, through_scores=False)


@pytest.mark.slow
def test_where_the_coded_gradient_leaves_ten_per_cent():
    """(T, r, r_g) and the score deviation s, as the page has it."""
    for T, r, r_g, s in ((16, 0.0, 0.0, 0.196), (128, 0.3, 0.3, 0.485), (128, 0.0, 0.7, 1.14)):
        assert softmax.first_off("gradient", T, r, r_g, most=2.0) == pytest.approx(s, rel=0.02)


def test_every_statement_stands_in_the_table():
    assert [row[0] for row in STATEMENTS] == [f"C{i}" for i in range(1, 31)]
    claimed = {c.source.split(",")[0] for c in CLAIMS if c.source.startswith("C")}
    unclaimed = {"C9", "C10", "C16", "C20", "C22"}  # a log, a setting, data, order L/d, and the model of C21
    assert claimed == {row[0] for row in STATEMENTS} - unclaimed


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.name)
def test_acceptance_values(check):
    assert check.misses() <= 1 < check.misses("1/100")
