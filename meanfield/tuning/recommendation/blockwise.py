"""Deviations by kind of matrix, followed block by block with drawn heads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import fold, has_skip, through, with_dense
from meanfield.networks.records import Block, Constant, Dense, Network, Param, Residual, Schedule
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.theory import Theory
from meanfield.tuning.dense_layers import branch_end

FOLLOWED = ("K", "K_ab", "J", "branch", "entropy", "query_share", "scores")


@dataclass(frozen=True)
class BlockwiseRun:
    """One choice of deviations, followed through the blocks: arrays over the layers (K, c, log J) and over the blocks
    (entropy of the scores over log T, query_share Θ_Q/Θ_V of what a block adds, scores their standard deviation, shares
    of the branches in the variance of the last layer, fractions of them where they are added), means over draws of the
    heads; Theta: by matrix and layer, empty where it was not asked for; spread: the standard deviation over the draws
    of K and log J at the last layer."""

    name: str
    sigmas: Mapping[str, float]
    K: np.ndarray = field(repr=False)
    c: np.ndarray = field(repr=False)
    log_J: np.ndarray = field(repr=False)
    entropy: np.ndarray = field(repr=False)
    query_share: np.ndarray = field(repr=False)
    scores: np.ndarray = field(repr=False)
    shares: np.ndarray = field(repr=False)
    fractions: np.ndarray = field(repr=False)
    Theta: np.ndarray = field(repr=False)
    spread: Mapping[str, float] = field(repr=False)

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
    """Follows deviations by role through the blocks."""

    block: Block
    roles: tuple[str, ...]
    depth: int
    tokens: int
    draws: int
    input_norm: float
    seed: int

    @property
    def ends(self) -> tuple[str | None, ...]:
        """For every skip, in the order in which they are met, the role of the Dense that its branch ends in."""
        found: list[str | None] = []
        met = 0

        def of(one: Block, inside: tuple[None, ...]) -> None:
            nonlocal met
            if isinstance(one, Dense):
                met += 1
            if isinstance(one, Residual):
                found.append(None if branch_end(one.branch)[0] is None else self.roles[met - 1])

        fold(self.block, of)
        return tuple(found)

    def __call__(self, name: str, sigmas: Mapping[str, float], tangents: bool = True) -> BlockwiseRun:
        if not self.ends:
            raise MeanFieldError(
                "Deviations of a network with attention are chosen for branches beside skips, and this block has none; "
                "look at it with theory.sample(quantities=('K', 'entropy', 'query_share'))."
            )
        first = Dense(sigma_w=exactly(sigmas["input"]), sigma_b=0)
        return followed(
            name, Network(with_deviations(self.block, self.roles, sigmas), first), sigmas, depth=self.depth,
            tokens=self.tokens, draws=self.draws, seed=self.seed, input_norm=self.input_norm,
            quantities=FOLLOWED if tangents else tuple(n for n in FOLLOWED if n != "J"),
        )  # fmt: skip


def followed(
    name: str, network: Network, sigmas: Mapping[str, float], *, depth: int, tokens: int, draws: int, seed: int,
    input_norm: float = 1.0, quantities: tuple[str, ...] = FOLLOWED,
) -> BlockwiseRun:  # fmt: skip
    """A network whose deviations are numbers, followed through its blocks; what it has not (no branch beside a skip, no
    attention) is empty or not a number."""
    run = Theory(network.block, network.first).sample(
        depth=depth, tokens=tokens, draws=draws, seed=seed, input_norm=input_norm, quantities=quantities
    )
    mean = {n: run.estimate(n).mean for n in run.samples}
    K, unknown = mean["K"], np.full(depth - 1, np.nan)

    def several(what: str) -> np.ndarray:
        found = [mean[n] for n in sorted((n for n in mean if n.startswith(f"{what}[")), key=lambda n: (len(n), n))]
        return np.stack(found) if found else np.empty((0, depth - 1))

    branches = several("branch")
    shares = shares_of(network.block, K, branches) if len(branches) else (branches, branches)
    entropy, share, scores = (mean.get(f"{what}[1]", unknown) for what in ("entropy", "query_share", "scores"))
    spread = {n: float(np.std(run.samples[n][:, -1], ddof=1)) for n in ("K", "log_J") if n in run.samples}
    return BlockwiseRun(
        name=name, sigmas=dict(sigmas), K=K, c=mean["K_ab"] / K, log_J=mean.get("log_J", np.full(len(K), np.nan)),
        entropy=entropy, query_share=share, scores=scores, shares=shares[0], fractions=shares[1],
        Theta=several("Theta"), spread=spread,
    )  # fmt: skip


def shares_of(block: Block, K: np.ndarray, branches: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The share of every branch of every block in the variance of the last layer, and the fraction that it is where it
    is added, each (branches, blocks).

    A branch that adds b to a stream of variance μ²K is the fraction b/(μ²K + b) of it, and every later one leaves 1 −
    (its own fraction) of what was there; a norm in the way of the skip makes K = 1 and moves no share.
    """
    fractions = np.empty_like(branches)
    for at in range(branches.shape[1]):
        fractions[:, at] = _fractions(block, float(K[at]), branches[:, at])
    flat = fractions.T.ravel()
    later = np.append(np.cumprod((1 - flat)[::-1])[::-1][1:], 1.0)
    return (flat * later).reshape(-1, len(branches)).T, fractions


def _fractions(block: Block, start: float, branches: np.ndarray) -> list[float]:
    """The fraction that every branch is of the stream it is added to, where the block starts with the variance K."""
    found: list[float] = []

    def of(part: Block, here: float) -> float:
        return 1.0 if part.normalizes else np.nan  # what else stands in the way leaves nothing of the stream

    def joined(part: Block, ways: tuple[float, ...]) -> float:
        if not isinstance(part, Residual):
            return np.nan
        kept, added = ways[0] * strength_of(part) ** 2, float(branches[len(found)])
        if np.isnan(kept) or has_skip(part.branch):
            raise _refusal(part)
        found.append(added / (kept + added) if kept + added > 0 else np.nan)
        return kept + added

    if np.isnan(through(block, start, of, joined)):
        raise _refusal(block)
    return found


def _refusal(part: Block) -> MeanFieldError:
    return MeanFieldError(
        "Deviations of a network with attention are chosen for branches beside skips, one behind or beside the other, "
        f"with norms between them, but in {describe(part)} something else stands in the way of the skips, or a skip "
        "inside a branch; look at it with theory.sample(quantities=('K', 'branch', 'entropy', 'query_share'))."
    )


def strength_of(skip: Residual) -> float:
    """μ of a skip; MeanFieldError where it is a symbol."""
    if isinstance(skip.mu, Param):
        raise MeanFieldError(f"An initialization needs numbers, but {skip.mu.name} is a symbol; give {skip.mu.name}=….")
    return float(skip.mu)


def with_deviations(block: Block, roles: tuple[str, ...], sigmas: Mapping[str, float]) -> Block:
    """The record with numbers for the deviations that it leaves open; biases that it leaves open are 0."""

    def put(at: int, one: Dense) -> Dense:
        bias = 0 if isinstance(one.sigma_b, Param | Schedule) else one.sigma_b
        return replace(one, sigma_w=exactly(sigmas[roles[at]]) if is_free(one) else one.sigma_w, sigma_b=bias)

    return with_dense(block, put)


def is_free(one: Dense) -> bool:
    """Whether a Dense leaves its deviation open: a symbol, or a Schedule of one."""
    return isinstance(one.sigma_w.value if isinstance(one.sigma_w, Schedule) else one.sigma_w, Param)


def exactly(value: float) -> Constant:
    return Constant(repr(float(value)))
