"""`recommend`: the standard deviations for an architecture, an activation, a depth and a width."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import meant, positive, scalar, shown, validated, whole
from meanfield.networks.architectures import PRESETS, usual_activation
from meanfield.networks.folds import attends, has_skip, parts, with_dense
from meanfield.networks.records import OWN, Block, Dense, Network, Param, exact
from meanfield.numeric.phases.float_roots import sides
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.deriving import derive
from meanfield.theory.queries.given_values import symbols_of, with_values
from meanfield.tuning.dense_layers import chosen as values_of
from meanfield.tuning.dense_layers import (
    falls,
    filled,
    kinds,
    open_scales,
    own_deviations,
    scales_stand_alone,
    without_open_scales,
)
from meanfield.tuning.recommendation.answer import Layer, Point, Predicted, Recommendation
from meanfield.tuning.recommendation.choices import HOLDS, SCALES, Choice, choices, grows, judged, largest_scale
from meanfield.tuning.recommendation.compiled_prediction import CompiledPrediction
from meanfield.tuning.recommendation.drawn_tokens import DrawnTokens, followed
from meanfield.tuning.recommendation.initializers import outcomes
from meanfield.tuning.recommendation.scatter import TOKENS, derived, measured
from meanfield.tuning.recommendation.token_networks import DRAWS, recommend_transformer
from meanfield.tuning.recommendation.transformer_answer import TransformerRecommendation

COSINE = 0.5  # of the two inputs whose correlation is followed
DEEPEST, WIDEST = 100_000, 10_000_000
FURTHER = 10  # times the depth, to see where |log J| passes 1


@validated
def recommend(
    network: Any,
    *,
    architecture: str | None = None,
    depth: int,
    width: int,
    budget: float = 1.0,
    input_norm: float = 1.0,
    batch: int | None = None,
    tokens: int = TOKENS,
    context: int | None = None,
    networks: int = 16,
    seed: int = 0,
    **parameters: Any,
) -> Recommendation | TransformerRecommendation:
    """Standard deviations that keep J^{1,L} near 1 at this depth: what to initialize the network with, and why.

    network: a `Theory`, an architecture record (the input layer of a `Network` is replaced), or what `derive` takes,
    with its keywords (residual=True, norm="pre", architecture="preln"). depth L ≥ 2 layers, the input layer among them;
    width n ≥ 2. budget > 0: the
    |log J^{1,L}| that is allowed where no gain makes it 0. input_norm: Q0 = |x|²/N_0 > 0 of the inputs. batch: of a
    `BatchNorm` (infinitely many). tokens: how many a Dense on tokens mixes; its matrices are drawn (`Theory.sample`,
    with this seed) and believed where averages over them say less. networks: how many are drawn at this width, with
    this seed, to see how log J scatters where that is not derived (it is of plain MLPs with Gaussian weights); 0 draws
    none. parameters: numbers for symbols of the architecture and for φ's parameters.

    Of a network with attention, such as "gpt" (the name of a preset that has a usual activation; heads= among the
    parameters) with context= tokens, the deviations of all kinds of matrices are chosen: those that end a branch so
    that each branch has at least 1/(4L) of the variance of the last layer of L = depth - 1 blocks, those of queries and
    keys so that they have as much of the tangent kernel as the values; a `TransformerRecommendation` then says what
    every block does, beside GPT-2's and PyTorch's deviations. Followed with drawn heads (`Theory.sample`).

    The choice, in this order: certified critical points, with K¹ = K* from the first layer on and σ_w moved to J^{1,L}
    = 1 where K drifts to K* = 0; critical rays behind a LayerNorm; a search over σ_w at eight σ_b. Each is judged by
    the worst |log J^{1,L}| over starts K¹ two standard deviations √(2/n) off. With skips of strength ≥ 1 J grows for
    every branch: there the largest common factor of the branches with |log J^{1,L}| ≤ budget. Depth is followed by
    `propagate`, never by a law.

    Returns a `Recommendation`: `layers` (σ's of each kind of Dense), `scale`, `predicted`, `window`, `spread`,
    `common`, `caveats`, `network` (the record with these numbers), `torch()`, `flax()`, `numbers()`, `data()`.
    Raises: MeanFieldError where no choice holds, with the best that was found; for a φ that jumps; for numbers out of
    range. Accuracy: predictions as in `propagate`; the window's ends to 1e-6 (of tokens, to the scatter of the draws).
    Source: derived here.

    >>> found = recommend("relu", depth=50, width=500, networks=0)
    >>> [(one.key, round(one.sigma_w, 6), one.sigma_b) for one in found.layers]
    [('input', 1.0, 0.0), ('dense1', 1.414214, 0.0)]
    """
    depth, width = whole(depth, "depth", 2, DEEPEST), whole(width, "width", 2, WIDEST)
    block, values = read(network, architecture, parameters)
    if attends(block):
        return _with_attention(block, values, depth, width, context, input_norm, seed)
    if context is not None:
        raise MeanFieldError("context= is the number of tokens that an Attention weighs, and this network has none.")
    tokens = whole(tokens, "tokens", 2, 4096)
    networks, seed = whole(networks, "networks", 0, 100_000), whole(seed, "seed", 0, (1 << 62) - 1)
    if networks == 1:
        raise MeanFieldError(
            "A scatter of one network is not available: it needs at least two; give 0 to measure none."
        )
    budget, input_norm = positive(budget, "budget"), positive(input_norm, "input_norm")
    p = CompiledPrediction(numbered(block, values), input_norm, batch)
    assert p.theory is not None  # refuses what has no J before anything else is done
    chosen, points = _chosen(p, depth, width, budget)
    chosen, by_draws = followed(p, chosen, depth, width, tokens, seed, budget)
    spread, silent = derived(p.own, (chosen.sigma_w, chosen.sigma_b, chosen.K1), depth, width), ""
    found = _answer(p, chosen, points, by_draws, depth=depth, width=width, budget=budget, spread=spread, silent=silent)
    if spread is None:
        spread, silent = measured(found.network, p, depth, width, tokens, networks, seed)
    return replace(found, spread=spread, silent=silent)


def _with_attention(
    block: Block, values: dict[str, Any], depth: int, width: int, context: Any, input_norm: Any, seed: Any
) -> TransformerRecommendation:
    if context is None:
        raise MeanFieldError(
            "How much attention averages away depends on how many tokens there are; give context=, for example "
            "context=128."
        )
    for name in values:
        refuse_strange(block, name)
    return recommend_transformer(
        with_values(block, values), depth=depth, width=width, context=whole(context, "context", 2, 1 << 24),
        draws=DRAWS, input_norm=positive(input_norm, "input_norm"), seed=whole(seed, "seed", 0, (1 << 62) - 1),
    )  # fmt: skip


def read(network: Any, architecture: str | None, parameters: dict[str, Any]) -> tuple[Block, dict[str, Any]]:
    """(the block, numbers for its symbols) that an activation, a record or a theory asks for."""
    if isinstance(network, str) and architecture is None and network in PRESETS and usual_activation(network):
        network, architecture = usual_activation(network), network
    theory, values = theory_and_values(
        network, parameters | ({} if architecture is None else {"architecture": architecture})
    )
    return theory.block, values


def numbered(block: Block, values: dict[str, Any]) -> Block:
    """The block with the given numbers in it. Symbols that are left are standard deviations and widths.

    Raises: MeanFieldError for a name that the block does not have, and for any other symbol without a number.
    """
    found = {one.name for one in OWN}
    for name, value in values.items():
        if name in found:
            raise MeanFieldError(
                f"{name} was given, but it is what recommend answers; leave it out, or hold it in the record of a "
                f"Dense, as in Dense({name}=1)."
            )
        refuse_strange(block, name)
        if isinstance(value, Param) or (isinstance(value, str) and value.strip().isidentifier()):
            raise MeanFieldError(f"An initialization needs numbers, but {name}={shown(value)} was given.")
        scalar(value, name)
    block = with_values(block, values)
    dense = with_dense(own_deviations(block), lambda _, one: replace(one, expand=1))
    missing = sorted(symbols_of(dense) - found - open_scales(block))
    if missing:
        raise MeanFieldError(
            f"An initialization needs numbers, but {missing[0]} of {describe(block)} is a symbol; give "
            f"{missing[0]}=... a number."
        )
    if not kinds(block):
        raise MeanFieldError(
            f"There is no Dense in {describe(block)} whose standard deviations could be chosen; put one in, as in "
            "Sequential((Nonlinearity('tanh'), Dense()))."
        )
    if "sigma_w" not in symbols_of(dense) and not has_skip(block):
        raise MeanFieldError(
            f"Every Dense of {describe(block)} has a number for sigma_w, which recommend holds, so that nothing is "
            "left to choose: it chooses sigma_w. Leave sigma_w out of one, as in Dense(); which sigma_b is critical at "
            "a given sigma_w says critical_line().sigma_b_at(sigma_w)."
        )
    return block


def refuse_strange(block: Block, name: str) -> None:
    """Refuse a number for a symbol that the block does not have."""
    known = sorted(symbols_of(block) - {one.name for one in OWN})
    if name not in known:
        raise MeanFieldError(f"{name} is no symbol of {describe(block)}.{meant(name, known)}")


def _chosen(p: CompiledPrediction, depth: int, width: int, budget: float) -> tuple[Choice, tuple[Choice, ...]]:
    """(the choice, the certified critical points beside it)."""
    invariant = _invariant(p)
    if invariant is not None:
        raise MeanFieldError(
            f"{describe(p.block)} cannot be made critical: J^{{l,l+1}} (K - K_ab)^l/(K - K_ab)^{{l+1}} is "
            f"{invariant:.6g} > 1 whatever the standard deviations, so that log J^{{1,{depth}}} is "
            f"{(depth - 1) * math.log(invariant):.4g} at best; add a skip (mu=1) and let the branches be scaled."
        )
    found = choices(p, depth, width)
    points = tuple(one for one in found if one.kind == "point")
    if found and found[0].worst <= HOLDS:
        return found[0], points
    if p.branches:
        scaled = largest_scale(p, depth, width, budget)
        if scaled is not None:
            return scaled, points
    if found and math.isfinite(found[0].worst) and found[0].worst <= depth * 0.1:
        return found[0], points
    if found:
        raise _repelled(p, found[0], depth, width)
    sigma_w, log_J, _ = _balanced(p, depth)
    if abs(log_J) <= HOLDS and not p.branches:
        nearest = judged(p, (sigma_w, 0.0, 1.0), depth, width, kind="search", anchor=None)
        if not nearest.worst <= HOLDS:
            raise _repelled(p, nearest, depth, width)
    if grows(p.block):
        least = float(abs(p.last(1.0, 0.0, 1.0, depth, SCALES[-1])[0]))
        raise MeanFieldError(
            f"{describe(p.block)} has |log J^{{1,{depth}}}| = {least:.3g} with a factor {SCALES[-1]:g} of its "
            f"branches, the smallest that is tried, and budget={budget:g} was asked for; take a larger budget."
        )
    other = "LayerNorm (norm='pre')" if p.branches else "LayerNorm (norm='pre') or a skip (mu=1)"
    raise MeanFieldError(
        f"{describe(p.block)} cannot be made critical by sigma_w, sigma_b or the scale of its branches: "
        f"{_nearest(p, depth)}; take another activation or {other}."
    )


def _repelled(p: CompiledPrediction, best: Choice, depth: int, width: int) -> MeanFieldError:
    """That a place is critical, and no network stays there."""
    off = f"as far off as |log J| = {best.worst:.3g}" if math.isfinite(best.worst) else "where K overflows or vanishes"
    return MeanFieldError(
        f"{describe(p.block)} cannot be held critical over {depth} layers: the best place found, sigma_w = "
        f"{best.sigma_w:.6g}, sigma_b = {best.sigma_b:.6g} with K^1 = {best.K1:.6g}, has log J^{{1,{depth}}} = "
        f"{best.log_J:.3g}, but repels K, and what width {width} draws ends {off}; take LayerNorm (norm='pre')"
        f"{'' if p.branches else ' or a skip'}, or another activation."
    )


def _nearest(p: CompiledPrediction, depth: int) -> str:
    """The best |log J^{1,l}| from K¹ = 1 at σ_b = 0, in words: at l = L, or at the deepest layer that doubles reach
    where K vanishes on one side of it and overflows on the other."""
    to = depth
    while to > 2:
        sigma_w, log_J, off = _balanced(p, to)
        if math.isfinite(log_J):
            found = f"the best found is |log J^{{1,{to}}}| = {abs(log_J):.3g} at sigma_w = {sigma_w:.6g}, sigma_b = 0"
            if to < depth:
                return f"{found}, and no double keeps K from vanishing or overflowing before layer {depth}"
            return found if off else f"{found}, where a millionth more or less makes K overflow or vanish"
        to = 3 * to // 4
    return "from K^1 = 1, K overflows or vanishes at every sigma_w from 0.05 to 20"


def _balanced(p: CompiledPrediction, depth: int) -> tuple[float, float, bool]:
    """(σ_w, log J^{1,depth} there, whether it is a number a millionth off, too) where |log J| is smallest: on a grid,
    or beside the jump of J from 0 to ∞."""

    def log_J(x: Any) -> np.ndarray:
        return p.last(x, 0.0, 1.0, depth)[0]

    x = np.geomspace(0.05, 20, 60)
    y = log_J(x)
    jump = np.flatnonzero((y[:-1] <= 0) != (y[1:] <= 0))
    if len(jump) and not np.isfinite(y[jump[0] : jump[0] + 2]).all():
        inside, outside = sorted((jump[0], jump[0] + 1), key=lambda j: y[j])
        x = np.array(sorted(sides(lambda s: float(log_J(s)), x[inside], x[outside], 1e-15)))
        y = log_J(x)
    i = int(np.argmin(np.where(np.isfinite(y), np.abs(y), math.inf)))
    off = np.isfinite(log_J(x[i] * np.array([1 - 1e-6, 1 + 1e-6]))).all()
    return float(x[i]), float(y[i]), bool(off)


def _invariant(p: CompiledPrediction) -> float | None:
    """J against K - K_ab of a network behind BatchNorm without skips, where it is not 1; None for all others."""
    if p.branches or not has_batch_norm(p.block):
        return None
    try:
        value = derive(architecture=p.own, batch=p.batch).batch_invariant()
    except MeanFieldError:  # behind φ, or at the block's end, the product depends on the state: σ's move it
        return None
    return float(value) if value.is_number and value > 1 + 1e-12 else None


def has_batch_norm(block: Block) -> bool:
    """Whether a BatchNorm, or a record that acts on a batch alike, is in it."""
    return any(one.mixes == "batch" for one in parts(block))


def _answer(
    p: CompiledPrediction,
    c: Choice,
    points: tuple[Choice, ...],
    by_draws: DrawnTokens | None,
    *,
    depth: int,
    width: int,
    **more: Any,
) -> Recommendation:
    places = kinds(p.block)
    sigma_input = math.sqrt(c.K1 / p.input_norm)
    sigmas = values_of(p.block, c.sigma_w, c.sigma_b)
    first = Dense(sigma_w=exact(sigma_input, "sigma_w"), sigma_b=0)
    record = Network(filled(p.block, sigmas, c.scale), first)
    factor = 1.0 if c.scale is None else c.scale
    layers = [Layer("input", "neurons", None, sigma_input, 0.0)]
    for one, (sigma_w, sigma_b) in zip(places, sigmas):
        held = factor if one.ends and not one.scaled else 1.0
        fan = None if one.fan is None or one.axis == "tokens" else float(one.fan) * width
        (of_w, beta_w), (of_b, beta_b) = (falls(s, depth - 1) for s in one.held)
        deviations = held * sigma_w * of_w, held * sigma_b * of_b
        layers.append(Layer(one.key, one.axis, fan, *deviations, beta_w, beta_b, one.weights))
    in_dense = c.scale is not None and any(one.ends and not one.scaled for one in places)
    scaled = c.scale is not None and scales_stand_alone(p.block)
    predicted, shift = _predicted(p, c, depth), 0.0
    if by_draws is not None:
        predicted = replace(predicted, by_draws=by_draws)
        if by_draws.differs(predicted.log_J):
            shift = by_draws.log_J - predicted.log_J
            predicted = replace(predicted, log_J=by_draws.log_J, K=by_draws.K)
    window = _window(p, c, depth, shift)
    return Recommendation(
        what=describe(p.block),
        depth=depth,
        width=width,
        input_norm=p.input_norm,
        layers=tuple(layers),
        scale=c.scale,
        scale_is_a_layer=scaled,
        scale_in_dense=in_dense,
        kind=c.kind,
        points=tuple(Point(*one.anchor[:4], one.log_J, one.worst) for one in points if one.anchor is not None),
        anchor=c.anchor,
        K1=c.K1,
        worst=c.worst,
        predicted=predicted,
        window=window,
        common=outcomes(without_open_scales(p.block), depth, width, p.input_norm, p.batch),
        network=record,
        grows=grows(p.block),
        **more,
    )


def _predicted(p: CompiledPrediction, c: Choice, depth: int) -> Predicted:
    two = "K_ab" in p.theory.default_quantities
    deep = depth * (2 if two else FURTHER)
    if p.theory.one_input.knows_depth:  # a deeper network is another one
        deep = depth
    run = p.run(c.sigma_w, c.sigma_b, c.K1, deep, c.scale, quantities=("K", "J"))
    log_J = np.asarray(run.log_J)
    swing = float(np.abs(log_J[:depth]).max())
    beyond = np.flatnonzero(~(np.abs(log_J) <= max(1.0, swing) * (1 + 1e-6)))
    before, after = log_J[min(depth, deep - 1) - 1 :][:2].tolist()
    step = after - before
    try:
        pair = p.run(c.sigma_w, c.sigma_b, c.K1, depth, c.scale, correlation=COSINE, quantities=None)
        correlation = float(pair.c[-1])
    except MeanFieldError:
        correlation = None
    return Predicted(
        log_J=float(log_J[depth - 1]),
        K=float(run.K[depth - 1]),
        swing=swing,
        xi=math.inf if abs(step) < 1e-12 else 1 / abs(step),
        reach=int(beyond[0]) if len(beyond) else None,
        scanned=deep,
        cosine=COSINE,
        correlation=correlation,
    )


def _window(p: CompiledPrediction, c: Choice, depth: int, shift: float) -> tuple[float, float] | None:
    """(lowest, highest) σ_w of the block, or scale where that was chosen, with |log J^{1,L}| ≤ 1 around the choice, the
    input layer held; 0 and ∞ where there is no end within a factor of 10^70. shift: what log J is more by draws, there
    as at the choice."""
    budgeted = c.kind == "budget"
    start = float(c.scale or 1.0) if budgeted else c.sigma_w

    def over(s: float) -> float:
        point = (c.sigma_w, c.sigma_b, c.K1, depth, s) if budgeted else (s, c.sigma_b, c.K1, depth, c.scale)
        return abs(float(p.last(*point)[0]) + shift) - 1 - (1e-8 if shift == 0 else 1e-3)

    if not over(start) <= 0:
        return None
    ends = []
    for sign in (-1, 1):
        inside, step = start, 0.01
        while step < math.log(1e140):
            outside = start * math.exp(sign * step)
            if not over(outside) <= 0:  # a K that overflows is outside
                ends.append(sides(over, inside, outside)[0])
                break
            inside, step = outside, 2 * step
        else:
            ends.append(0.0 if sign < 0 else math.inf)
    return ends[0], ends[1]
