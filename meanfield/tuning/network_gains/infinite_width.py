"""Gains at infinite width: the sweep of a theory, and the descent of a loss by one pass back over its layers."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.network.operations.checks import per_layer
from meanfield.networks.folds import dense_of, has_skip
from meanfield.networks.records import OWN, Block, Param
from meanfield.numeric.phases.float_roots import sides
from meanfield.tuning.dense_layers import branch_end, kinds
from meanfield.tuning.network_gains.backward import Blocks, State, state
from meanfield.tuning.network_gains.descent import Descended, Evaluated, descend, sentences
from meanfield.tuning.network_gains.sweep import zero
from meanfield.tuning.network_gains.tuned import Tuning, answered, refuse_schedules
from meanfield.tuning.recommendation.choices import grows


def of_theory(block, values, depth, sigma_w, sigma_b, input_norm, method, budget, settings, progress) -> Tuning:
    """Gains at infinite width."""
    refuse_schedules(block)
    blocks = Blocks(block, values)
    sigma = given_deviations(block, values, depth, sigma_w, sigma_b)
    start, within = np.ones(sigma.shape), settings["within"]
    loss, weight = settings["loss"], settings["weight"]

    def at(gains: np.ndarray) -> State:
        return state(blocks, sigma, gains, input_norm, within)

    before, scale = at(start), None
    if method == "sweep" and grows(block):
        done, scale = _scaled(block, blocks, sigma, start, input_norm, budget)
    elif method == "sweep":
        done = _swept(block, blocks, sigma, start, input_norm)
    else:

        def evaluate(gains: np.ndarray, _: int) -> Evaluated:
            try:
                now = at(gains)
            except MeanFieldError:
                nothing = np.full(depth - 1, math.inf)
                return math.inf, np.full_like(gains, math.nan), nothing, nothing, np.zeros(depth - 1)
            return now.loss(loss, weight), now.gradient(loss, weight), now.log_J, now.K, np.zeros(depth - 1)

        def decides(gains: np.ndarray) -> str:
            bound = at(gains).rate_bound(loss, weight)
            taken = sentences(rate)
            return f"near the best gains found a rate must stay below {bound:.4g}, {taken} was taken; "

        rate = settings.get("rate", 0.1 / max(1.0, float(before.J.max())))
        done = descend(
            evaluate,
            start,
            rate=rate,
            steps=settings["steps"],
            tolerance=settings["tolerance"],
            decides=decides,
            progress=progress,
        )
    now = at(done.gains)
    bound = now.rate_bound(loss, weight) if method == "gradient" else None
    totals = float(before.log_J.sum()), float(now.log_J.sum())
    found = answered(method, block, sigma, None, done, totals, before.log_J, now.log_J, now.K)
    return replace(found, scale=scale, rate_bound=bound, caveats=emptied(block) if method == "gradient" else ())


def _scaled(
    block: Block, blocks: Blocks, sigma: np.ndarray, start: np.ndarray, input_norm: float, budget: float
) -> tuple[Descended, float | None]:
    """Gains with the largest common factor ≤ 1 of the branches that keeps |log J^{1,L}| ≤ budget, and that factor."""
    ends = [i for i, one in enumerate(kinds(block)) if one.ends]

    def put(g: float) -> np.ndarray:
        gains = start.copy()
        gains[1:, ends] *= g
        return gains

    def over(g: float) -> float:
        here = put(g) * sigma
        first = {"w_0": here[0, 0, 0], "b_0": here[0, 0, 1]}
        log_J = float(blocks.run(here, depth=len(here), layerwise=True, input_norm=input_norm, **first).log_J[-1])
        return abs(log_J) - budget

    inside = next((g for g in (1.0, 0.1, 1e-2, 1e-4, 1e-6) if over(g) <= 0), None)
    if inside is None:
        return Descended(start, [], "not critical", f"no scale keeps |log J^(1,{len(sigma)})| <= {budget:g}"), None
    g = inside if inside == 1.0 else sides(over, inside, 1.0)[0]
    said = f"the largest common scale <= 1 of the branches with |log J^(1,{len(sigma)})| <= {budget:g}"
    return Descended(put(g), [], "within budget", said), g


def _swept(block: Block, blocks: Blocks, sigma: np.ndarray, start: np.ndarray, input_norm: float) -> Descended:
    """Gains with J^{l,l+1} = 1, block after block."""
    gains, good = start.copy(), True
    ends = [i for i, one in enumerate(kinds(block)) if one.ends]
    plain = not has_skip(block) and branch_end(block)[0] is not None
    for layer in range(1, len(sigma)):
        before = state(blocks, sigma[: layer + 1], gains[: layer + 1], input_norm)
        if plain:
            gains[layer, -1, 0] *= math.exp(-before.log_J[-1] / 2)
            continue

        def over(g: float, layer: int = layer, y: np.ndarray = before.y[-2:-1]) -> float:
            here = gains[layer].copy()
            here[ends or [-1]] *= g
            return float(blocks.one(y, (here * sigma[layer])[None])[1][0])

        g = zero(over)
        good &= g is not None
        gains[layer, ends or [-1]] *= 1.0 if g is None else g
    worst = float(np.abs(state(blocks, sigma, gains, input_norm).log_J).max())
    status, said = ("tuned", "every") if good else ("not critical", "no gain of the branches does it: the largest")
    return Descended(gains, [], status, f"{said} |log J^(l,l+1)| {'<=' if good else 'is'} {worst:.2g}")


def emptied(block: Block) -> tuple[str, ...]:
    """What the descent of a loss without a minimum does, in a sentence."""
    if not grows(block):
        return ()
    return (
        "J > 1 for every gain > 0 of the branches (skips of strength >= 1): the loss falls until they are empty, and "
        "stops where the steps do; method='sweep' keeps a budget.",
    )


def given_deviations(block: Block, values: dict[str, Any], depth: int, sigma_w: Any, sigma_b: Any) -> np.ndarray:
    """(layers, Dense, 2): the standard deviations that gains multiply, the network's own where a Dense has no other."""
    own = [per_layer(value, what, depth) for value, what in ((sigma_w, "sigma_w"), (sigma_b, "sigma_b"))]
    layers = dense_of(block)
    out = np.empty((depth, len(layers), 2))
    for at, dense in enumerate(layers):
        for i, held in enumerate((dense.sigma_w, dense.sigma_b)):
            if held in OWN:
                out[:, at, i] = own[OWN.index(held)]
            elif isinstance(held, Param):
                if held.name not in values:
                    raise MeanFieldError(f"{held.name} has no value; give it as a keyword ({held.name}=...).")
                out[:, at, i] = per_layer(values[held.name], held.name, depth)
            else:
                out[:, at, i] = float(held)  # type: ignore[arg-type]
    out[0] = 0.0
    out[0, 0] = own[0][0], own[1][0]
    return out
