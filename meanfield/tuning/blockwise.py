"""Deviations by kind of matrix, followed block by block with drawn heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from meanfield.networks.folds import chain, with_dense
from meanfield.networks.records import Block, Constant, Dense, Param, Residual
from meanfield.theory.theory import Theory
from meanfield.tuning.records import kinds

FOLLOWED = ("K", "K_ab", "J", "branch", "entropy", "query_share")


@dataclass(frozen=True)
class Followed:
    """One choice of deviations, followed through the blocks: arrays over the layers (K, c, log J) and over the blocks
    (entropy of the scores over log T, query_share Θ_Q/Θ_V of what a block adds, shares of the branches in the variance
    of the last layer, fractions of them where they are added), means over draws of the heads."""

    name: str
    sigmas: Mapping[str, float]
    K: np.ndarray = field(repr=False)
    c: np.ndarray = field(repr=False)
    log_J: np.ndarray = field(repr=False)
    entropy: np.ndarray = field(repr=False)
    query_share: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    fractions: np.ndarray = field(repr=False)

    @property
    def growth(self) -> float:
        """K of the last layer over that of the first."""
        return float(self.K[-1] / self.K[0])

    @property
    def least_share(self) -> float:
        """The smallest share of a branch, in units of 1/L."""
        return float(self.shares.min() * self.shares.shape[1])


@dataclass(frozen=True)
class Follow:
    """Follows deviations by role through the blocks. ends: the roles of the Dense that a branch ends in."""

    block: Block
    roles: tuple[str, ...]
    depth: int
    tokens: int
    draws: int
    input_norm: float
    seed: int

    @property
    def ends(self) -> tuple[str, ...]:
        return tuple(role for role, kind in zip(self.roles, kinds(self.block)) if kind.ends)

    def __call__(self, name: str, sigmas: Mapping[str, float], tangents: bool = True) -> Followed:
        first = Dense(sigma_w=exactly(sigmas["input"]), sigma_b=0)
        theory = Theory(with_deviations(self.block, self.roles, sigmas), first)
        wanted = FOLLOWED if tangents else tuple(n for n in FOLLOWED if n != "J")
        run = theory.sample(
            depth=self.depth, tokens=self.tokens, draws=self.draws, seed=self.seed,
            input_norm=self.input_norm, quantities=wanted,
        )  # fmt: skip
        mean = {n: run.estimate(n).mean for n in run.samples}
        K = mean["K"]
        log_J = mean.get("log_J", np.full(len(K), np.nan))
        branches = np.stack([mean[n] for n in sorted(n for n in mean if n.startswith("branch["))])
        return Followed(
            name, dict(sigmas), K, mean["K_ab"] / K, log_J, mean["entropy[1]"], mean["query_share[1]"],
            *shares_of(self.block, K, branches),
        )  # fmt: skip


def shares_of(block: Block, K: np.ndarray, branches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of every branch of every block in the variance of the last layer, and the fraction that it is where it
    is added, each (branches, blocks).

    A branch that adds b to a stream of variance μ²K is the fraction b/(μ²K + b) of it, and every later one leaves 1 −
    (its own fraction) of what was there; a norm in the way of the skip makes K = 1 and moves no share.
    """
    parts, fractions = chain(block), np.empty_like(branches)
    for at in range(branches.shape[1]):
        here, place = float(K[at]), 0
        for part in parts:
            if isinstance(part, Residual):
                kept = here * float(part.mu) ** 2 if not isinstance(part.mu, Param) else here
                fractions[place, at] = branches[place, at] / (kept + branches[place, at])
                here, place = kept + branches[place, at], place + 1
            elif part.normalizes:
                here = 1.0
    flat = fractions.T.ravel()
    later = np.append(np.cumprod((1 - flat)[::-1])[::-1][1:], 1.0)
    return (flat * later).reshape(-1, len(branches)).T, fractions


def with_deviations(block: Block, roles: tuple[str, ...], sigmas: Mapping[str, float]) -> Block:
    """The record with numbers."""
    return with_dense(block, lambda at, one: replace(one, sigma_w=exactly(sigmas[roles[at]]), sigma_b=0))


def exactly(value: float) -> Constant:
    return Constant(repr(float(value)))
