"""Finite networks beside prints and the averaged recursion: a few blocks, orthogonal or equally alike tokens, z-scores.

Tokens come in with an exact Gram matrix, so that only weights are random. Each claim has its right statement on the
other side: that of the engine or of `softmax`, which networks follow where they do not follow the print.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import meanfield as mf
from derivations.attention import depth, softmax
from derivations.attention.networks import Built, block, only_attention
from derivations.claims import Claim
from derivations.comparisons import Holds

WIDTH, TOKENS = 128, 16
FAR = 4.0  # standard errors beyond which two numbers differ
FINITE = 0.03  # what is allowed for the width, as a share
NORMED = only_attention(norm=True)
ENCODER = block("relu", "post")


def alike(rho: float, norm: float = 1.0) -> np.ndarray:
    """Tokens of that mean square and correlation."""
    columns, _ = np.linalg.qr(np.random.default_rng(3).standard_normal((WIDTH, TOKENS + 1)))
    mixed = np.sqrt(1 - rho) * columns[:, :TOKENS] + np.sqrt(rho) * columns[:, TOKENS:]
    return np.sqrt(norm * WIDTH) * mixed.T[None]


@cache
def networks(built: Built, quantities: tuple[str, ...], blocks: int, rho: float, norm: float) -> Any:
    return mf.measure(
        built.record, width=WIDTH, depth=blocks + 1, networks=16, inputs=alike(rho, norm), seed=34,
        quantities=quantities,
    )  # fmt: skip


def follows(built: Built, expected: dict[str, float], blocks: int, rho: float, norm: float = 1.0) -> bool:
    """Whether networks have these values after the last block, but for errors and 3 %."""
    run = networks(built, tuple(expected), blocks, rho, norm)
    for quantity, value in expected.items():
        found = run.estimate(quantity)
        if abs(found.mean[-1] - value) > FAR * found.standard_error[-1] + FINITE * abs(value):
            return False
    return True


def moments_of(which: str) -> bool:
    """C7 at s = 2, r = .3: variance, covariance, and the gradient of gradients without correlation."""
    formula = {"coded": softmax.coded, "exact": softmax.exact}[which]
    names = {"K": "variance", "K_ab": "covariance", "J": "gradient"}
    return follows(only_attention(q=2), {q: formula(k, TOKENS, 2.0, 0.3) for q, k in names.items()}, 1, 0.3)


def sharpened(norm: str) -> bool:
    """C25: a branch of a pre-LN block, scores of deviation 1, on tokens of norm 4 and correlation .3."""
    K, rho = 4.0, 0.3
    beta2 = {"q, p before the norm": K * K * (1 - rho), "normalized": 1 - rho}[norm]
    return follows(NORMED, {"K": rho + (1 - rho) * softmax.overlap("value", TOKENS, beta2)}, 1, rho, K)


def gradients_of(kind: str) -> bool:
    """C15: J after 3 blocks of post-LN, by (2/3)^l or by the averaged recursion."""
    exact = float(depth.run(depth.POST, 60, TOKENS).J[3])
    return follows(depth.POST, {"J": {"(2/3)^l": (2 / 3) ** 3, "exact": exact}[kind]}, 3, 0.0)


def sizes_of(kind: str) -> bool:
    """C12: K after 6 blocks of pre-LN, by the upper or the lower bound, or by the averaged recursion."""
    exact = float(depth.run(depth.PRE, 2000, TOKENS).K[6])
    return follows(depth.PRE, {"K": {"upper bound": 10.0, "lower bound": 4.0, "exact": exact}[kind]}, 6, 0.0)


def masked(kind: str) -> bool:
    """C26: whether c of the last of 64 tokens after 6 blocks of post-LN, sampled, is that of the recursion without a
    mask, within .005."""
    expected = ENCODER.theory.propagate(depth=7, tokens=64, correlation=0.0, quantities=("K", "K_ab")).K_ab[-1]
    theory = block("relu", "post", heads=64, causal=kind == "causal").theory
    found = theory.sample(depth=7, tokens=64, correlation=0.0, draws=6, read="last", quantities=("K", "K_ab"))
    return abs(found.K_ab.mean[-1] - expected) < 0.005


CLAIMS: tuple[Claim, ...] = ()
SLOW: tuple[Claim, ...] = (
    Holds("C7, networks at s = 2, r = .3, T = 16", only_attention(q=2), "K, K_ab, J", "coded", "exact", misprint=True,
          of=moments_of),
    Holds("C12, networks after 6 blocks", depth.PRE, "K", "exact", "upper bound", of=sizes_of),
    Holds("C15, networks after 3 blocks", depth.POST, "J", "(2/3)^l", "exact", misprint=True, of=gradients_of),
    Holds("C25, networks: what sharpens attention", NORMED, "K", "q, p before the norm", "normalized", misprint=True,
          of=sharpened),
    Holds("C26, the last tokens of a causal model", ENCODER, "c", "causal", "no mask", misprint=True, of=masked),
)  # fmt: skip
