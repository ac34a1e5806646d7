"""K and J where a Dense mixes tokens, by draws of its matrices: averages are exact for φ of degree 1 alone."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from meanfield.base.answers.results import MeanFieldError
from meanfield.tuning.dense_layers import kinds
from meanfield.tuning.recommendation.choices import Choice, largest_scale
from meanfield.tuning.recommendation.compiled_prediction import INPUT, CompiledPrediction

DRAWS = 12
DEEPEST = 100  # layers that are followed by draws
SEEN = 3.0  # standard errors from which on draws are believed against averages
ROUNDS, NEAR = 4, 5e-3  # evaluations of the scale, and how near to the budget is near enough: the draws scatter as much


@dataclass(frozen=True)
class DrawnTokens:
    """log J^{1,L} and K^L of infinitely many channels at T tokens, with standard errors over the draws."""

    log_J: float
    K: float
    error_log_J: float
    error_K: float
    tokens: int

    def differs(self, averaged: float) -> bool:
        """Whether log J is not that of averages over the matrices, beyond what the draws scatter."""
        return abs(self.log_J - averaged) > SEEN * self.error_log_J


def mixes(p: CompiledPrediction) -> bool:
    """Whether a Dense of the block acts on tokens."""
    return any(one.axis == "tokens" for one in kinds(p.block))


def drawn(p: CompiledPrediction, c: Choice, depth: int, tokens: int, seed: int) -> DrawnTokens | None:
    """What `Theory.sample` says of a choice; None where it does not follow the block, or not so deep."""
    if depth > DEEPEST:
        return None
    theory, values = p.theory, p.factor(c.scale)
    values[INPUT] = math.sqrt(c.K1 / p.input_norm)
    places = p.open(sigma_w=c.sigma_w, sigma_b=c.sigma_b) | {"depth": depth, "input_norm": p.input_norm}
    try:
        found = theory.sample(**places, tokens=tokens, draws=DRAWS, seed=seed, quantities=("K", "J"), **values)
        J, K = (found.estimate(name, depth) for name in ("J", "K"))
    except MeanFieldError:
        return None
    mean, error = float(J.mean), float(J.standard_error)
    if not 0 < mean < math.inf:
        return None
    return DrawnTokens(math.log(mean), float(K.mean), error / mean, float(K.standard_error), tokens)


def followed(
    p: CompiledPrediction, c: Choice, depth: int, width: int, tokens: int, seed: int, budget: float
) -> tuple[Choice, DrawnTokens | None]:
    """The choice and what draws say of it. Where they say more than the averages do, beyond what they scatter, the
    scale of the branches is moved to log J^{1,L} = budget by draws, which are the same at every scale."""
    now = drawn(p, c, depth, tokens, seed) if mixes(p) else None
    if c.kind != "budget":
        return c, now
    # log J by draws is about log J by averages to a power: one at first, then that of the last two scales
    power, before = 1.0, None
    for _ in range(ROUNDS):
        if now is None or not now.differs(c.log_J) or (c.scale == 1.0 and now.log_J <= budget):
            break
        if abs(now.log_J / budget - 1) <= NEAR or not now.log_J > 0 or c.scale is None:
            break
        if before is not None and before[0] != c.log_J:
            power = math.log(now.log_J / before[1]) / math.log(c.log_J / before[0])
        before = c.log_J, now.log_J
        wanted = c.log_J * (budget / now.log_J) ** (1 / power)
        there = largest_scale(p, depth, width, wanted, c.sigma_w)
        if there is None:
            break
        c = replace(c, scale=there.scale, log_J=there.log_J)
        now = drawn(p, c, depth, tokens, seed)
    return c, now
