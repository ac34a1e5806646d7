"""`tune`: gains that make a drawn network critical, block after block, or by the descent of a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import (
    choice,
    finite,
    flag,
    one_point,
    positive,
    provides,
    refuse_not_real,
    shown,
    validated,
    whole,
)
from meanfield.base.progress import watched
from meanfield.comparison.network_settings import network_and_pairs
from meanfield.empirical import draw_network
from meanfield.empirical.network.operations.checks import per_layer
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.random.philox import normals
from meanfield.networks.folds import has_skip
from meanfield.networks.records import Block
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.deriving import derive
from meanfield.tuning.dense_layers import branch_end, kinds
from meanfield.tuning.network_gains.backward import LOSSES
from meanfield.tuning.network_gains.descent import Evaluated, descend, through_network
from meanfield.tuning.network_gains.infinite_width import emptied, of_theory
from meanfield.tuning.network_gains.instance import Instance
from meanfield.tuning.network_gains.sweep import ACTIVE, Drive, active_share, by_blocks, by_scale
from meanfield.tuning.network_gains.tuned import Tuning, answered, bought, refuse_schedules, with_symbols
from meanfield.tuning.recommendation.choices import grows
from meanfield.tuning.recommendation.recommend import has_batch_norm, read, refuse_strange
from meanfield.tuning.recommendation.scatter import BATCH

METHODS = ("sweep", "gradient")
CLOSE = 0.05  # |log J^{l,l+1}| up to which a block counts as tuned
APART = 3.0  # ratio of the K of two inputs at the last layer that is worth a sentence
ALL = 0.2  # |log J^{1,L}| up to which the network does
INPUT_ROLE = (1 << 15) + (1 << 13)  # the stream of inputs


@validated
def tune(
    network: Any,
    *,
    architecture: str | None = None,
    depth: int,
    width: int | None = None,
    sigma_w: Any = 1.0,
    sigma_b: Any = 0.0,
    layerwise: bool = False,
    method: str = "sweep",
    budget: float = 1.0,
    inputs: Any = None,
    tokens: int = 1,
    input_norm: float = 1.0,
    probes: int | None = None,
    seed: int = 0,
    loss: str = "JLL",
    weight: float = 0.5,
    rate: Any = None,
    blocks: tuple[int, int] | None = None,
    steps: int = 1000,
    tolerance: float = 1e-6,
    minibatches: bool = False,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Tuning:
    """Gains a_w, a_b of every Dense with which one drawn network of this width has J^{l,l+1} = 1, and J^{1,L} near 1;
    without a width those of the theory.

    network, architecture, parameters: as in `recommend`. sigma_w, sigma_b: the standard deviations that the gains
    multiply, with layerwise=True one for each layer. inputs: how many random inputs of norm `input_norm` = |x|²/N_0 (of
    `tokens` each), or an array (positions, N_0); 1 unless given, 32 where they act on each other (BatchNorm). probes:
    random directions that estimate each J; unless given, J is exact up to 1024 entries of z, and estimated by 128
    directions beyond. seed: of weights, inputs and probes; the same seed gives the same gains on any number of threads.

    method: "sweep": one forward pass solves block after block, since J^{l,l+1} knows only gains up to layer l + 1;
    without a skip a_w of the block's last Dense is divided by √J, with skips the gain of the branches is its one
    unknown. Where J > 1 for every gain > 0 (skips of strength ≥ 1) there is no minimum but the empty branch: then the
    largest common factor of the branches with |log J^{1,L}| ≤ budget.

    method "gradient": steps a → a − rate ∂loss/∂a of all gains, `steps` at most, until the loss is below `tolerance`
    or that of the noise of the probes; rate: a number or one per layer, 0.1/max(1, J) unless given. loss: "JLL"
    ½Σ(log J)², "JSL" ½Σ(J − 1)², "JKL" JLL + (weight/2)Σ(log K^{l+1}/K^l)², over the blocks l = first … last of
    `blocks`, all unless given. Through a drawn network in reverse, J exact or (probes) with new probes at every step,
    new inputs too with minibatches=True; of a theory by one pass back, whatever record has a J. Which rates converge is
    said by `tuning_rates` and `tuning_region` for a φ of degree 1, and by the answer's rate_bound at infinite width. In
    a chaotic network this gradient grows with depth: then the answer says "exploded".

    Returns a `Tuning`: standard deviations times gains (`sigma`; `network` and `values` draw the same network with
    them), or the gains to hold beside the weights (`gains`). Raises: MeanFieldError for numbers out
    of range, a φ that jumps, standard deviations that follow a Schedule.
    Accuracy: J by `probes` directions is known to √(2κ/(probes · inputs · n)) of itself, κ ≥ 1 the mean square over
    the squared mean of the block's squared singular values. Source: [autoinit], the sweep is derived here.

    >>> found = tune("relu", depth=10, width=100, sigma_w=2, probes=16)
    >>> found.status, bool(found.worst < 0.05)
    ('tuned', True)
    """
    choice(method, "method", METHODS)
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b}, layerwise)
    budget, input_norm = positive(budget, "budget"), positive(input_norm, "input_norm")
    depth = whole(depth, "depth", 2, 10_000)
    choice(loss, "loss", LOSSES)
    settings = _settings(rate, steps, tolerance, weight, loss, depth) | {"within": _within(blocks, depth)}
    probes = None if probes is None else whole(probes, "probes", 1, 1 << 20)
    tokens, seed = whole(tokens, "tokens", 1, 4096), whole(seed, "seed", 0, (1 << 64) - 1)
    minibatches = flag(minibatches, "minibatches")
    provides(progress, "progress", None, "a function progress(done, steps)")
    block, values = read(network, architecture, parameters)
    for name in values:
        refuse_strange(block, name)
    if width is None:
        with watched(progress, "steps") as tell:
            return of_theory(block, values, depth, sigma_w, sigma_b, input_norm, method, budget, settings, tell)
    width = whole(width, "width", 2, 1 << 20)
    drive, base = _drive(block, values, depth, width, sigma_w, sigma_b, inputs, tokens, input_norm, probes, seed)
    with threadpool_limits(limits=1, user_api="blas"), watched(progress, "steps") as drive.progress:
        if method == "sweep":
            return swept(drive, block, base, width, budget)
        new = (tokens, input_norm, width, inputs) if minibatches else None
        return _descended(drive, block, base, width, settings, new)


def _settings(rate: Any, steps: Any, tolerance: Any, weight: Any, loss: str, depth: int) -> dict[str, Any]:
    numbers: dict[str, Any] = {"tolerance": finite(tolerance, "tolerance"), "weight": finite(weight, "weight")}
    for name, value in numbers.items():
        if value < 0:
            raise MeanFieldError(f"{name} must be ≥ 0, but {value:g} was given.")
    if rate is not None:
        many = hasattr(rate, "__len__") and not isinstance(rate, str) and getattr(rate, "shape", None) != ()
        each = per_layer(rate, "rate", depth) if many else np.array(finite(rate, "rate"))
        if not (each > 0).all():
            raise MeanFieldError(f"rate must be > 0, but {float(each.min()):g} was given.")
        numbers["rate"] = each[:, None, None] if each.ndim else float(each)
    return numbers | {"steps": whole(steps, "steps", 1, 10_000_000), "loss": loss}


def _within(blocks: Any, depth: int) -> np.ndarray:
    """Which of the blocks l = 1 … depth − 1 a loss is over."""
    out = np.zeros(depth - 1, dtype=bool)
    first, last = (1, depth - 1) if blocks is None else _two(blocks)
    first, last = whole(first, "the first of blocks", 1, depth - 1), whole(last, "the last of blocks", 1, depth - 1)
    if first > last:
        raise MeanFieldError(f"blocks are (first, last), but ({first}, {last}) was given.")
    out[first - 1 : last] = True
    return out


def _two(blocks: Any) -> tuple[Any, Any]:
    if not isinstance(blocks, (tuple, list)) or len(blocks) != 2:
        raise MeanFieldError(f"blocks are (first, last), but {shown(blocks)} was given.")
    return blocks[0], blocks[1]


def _descended(
    d: Drive, block: Block, base: np.ndarray, width: int, settings: dict[str, Any], new: tuple | None
) -> Tuning:
    """The descent through a drawn network."""
    loss, weight = settings["loss"], settings["weight"]
    probes, d.probes = d.probes, None
    log_J0, before, _ = d.total(d.gains)
    fixed, d.probes = d.inputs, probes
    if not math.isfinite(log_J0):
        raise MeanFieldError(
            f"{describe(block)} was to be tuned, but no perturbation passes it (log J = {log_J0}); does its activation "
            "jump or rest?"
        )

    def evaluate(gains: np.ndarray, step: int) -> Evaluated:
        if new is not None:
            tokens, norm, _, count = new
            count = len(fixed) // tokens if isinstance(count, np.ndarray) or count is None else count
            seed = d.instance.stored.seed + step
            d.inputs = random_inputs(count, tokens, norm, fixed.shape[1], seed % (1 << 64))[0]
        return through_network(d, gains, step, loss, weight, settings["within"])

    rate = settings.get("rate", 0.1 / max(1.0, float(np.exp(np.minimum(before, 50)).max())))
    done = descend(
        evaluate,
        d.gains,
        rate=rate,
        steps=settings["steps"],
        tolerance=settings["tolerance"],
        progress=d.progress,
    )
    d.inputs, d.probes = fixed, None  # what is reported is known better than what led there
    log_J, after, K = d.total(done.gains)
    found = answered("gradient", block, base, width, done, (log_J0, log_J), before, after, K)
    return replace(found, caveats=emptied(block))


def _drive(block, values, depth, width, sigma_w, sigma_b, inputs, tokens, input_norm, probes, seed):
    """(the drive, (layers, Dense, 2) standard deviations that gains multiply)."""
    record, pairs = network_and_pairs(derive(architecture=block), values)
    refuse_schedules(block)
    seed = whole(seed, "seed", 0, (1 << 64) - 1)
    if inputs is None:
        inputs = BATCH if has_batch_norm(block) else 1
    x, groups = random_inputs(inputs, tokens, input_norm, width, seed)
    stored = draw_network(
        record,
        sigma_w=sigma_w,
        sigma_b=sigma_b,
        width=width,
        depth=depth,
        seed=seed,
        input_dimension=x.shape[1],
        tokens=tokens,
        activation_pairs=pairs,
        **values,
    )
    instance = Instance(stored, groups)
    gains = np.ones((depth, instance.count, 2))
    places = kinds(block)
    ends = tuple(i for i, one in enumerate(places) if one.ends)
    drive = Drive(instance, x, probes, gains, len(places) - 1, ends)
    return drive, base_deviations(instance, depth)


def base_deviations(instance: Instance, depth: int) -> np.ndarray:
    """(layers, Dense, 2): σ_w and σ_b of every Dense, those of the input layer in the first row."""
    weights, ensemble = instance.stored.network.weights, instance.ensemble
    out = np.zeros((depth, instance.count, 2))
    out[0, 0] = weights.deviations(ensemble.input_layer, 1)
    for operation in ensemble.operations:
        if isinstance(operation, DenseOperation):
            for layer in range(2, depth + 1):
                out[layer - 1, operation.ordinal] = weights.deviations(operation, layer)
    return out


def random_inputs(inputs: Any, tokens: int, norm: float, width: int, seed: int) -> tuple[np.ndarray, int]:
    """(positions × N_0, number of inputs): random directions of squared length N_0·norm, or what was given."""
    if isinstance(inputs, np.ndarray) and inputs.ndim:
        refuse_not_real(inputs, "inputs")
        if inputs.ndim != 2 or len(inputs) % tokens or not np.isfinite(inputs).all() or not inputs.size:
            raise MeanFieldError(
                f"inputs must be finite numbers of shape (inputs × tokens, N_0), but an array {inputs.shape} was given "
                f"with tokens={tokens}."
            )
        return np.ascontiguousarray(inputs, dtype=float), len(inputs) // tokens
    count = whole(inputs, "inputs", 1, 1 << 16)
    x = normals(seed, 0, 0, INPUT_ROLE, count * tokens * width, 0).reshape(count * tokens, width)
    return x * np.sqrt(norm * width / (x * x).sum(axis=1, keepdims=True)), count


def swept(d: Drive, block: Block, base: np.ndarray, width: int, budget: float) -> Tuning:
    """The sweep, and what it says."""
    depth = len(base)
    log_J0, before, _ = d.total(d.gains)
    if not math.isfinite(log_J0) and not np.isfinite(before).any():
        raise MeanFieldError(
            f"{describe(block)} was to be tuned, but no perturbation passes its first block (log J = {log_J0}); is its "
            "activation one that jumps or is constant, or sigma_w so large that it saturates?"
        )
    scale = None
    if grows(block):
        gains, scale = by_scale(d, budget)
        status = "within budget" if scale is not None else "not critical"
    else:
        gains, good = by_blocks(d, has_skip(block), branch_end(block)[0] is not None)
        status = "tuned" if good else "not critical"
        if not good and has_skip(block):
            gains, scale = by_scale(d, budget)
            status = "within budget" if scale is not None else "not critical"
    log_J, after, K = d.total(gains)
    scatter = d.scatter
    worst = float(np.abs(after).max())
    if status == "tuned" and (worst > CLOSE or abs(log_J) > ALL):
        status = "not converged"
    caveats = []
    share = active_share(d.instance, d.first(), gains[1])
    if share < ACTIVE:
        caveats.append(
            f"The input layer saturates: {share:.0%} of its neurons have a tenth of the largest slope (K^1 = "
            f"{K[0]:.3g}), so J = 1 is not enough; take a smaller sigma_w there, or `recommend`."
        )
    if gains[0, 0, 0] != 1:
        caveats.append(
            f"The gain of the input layer is {gains[0, 0, 0]:g}: from K^1 = {K[0] / gains[0, 0, 0] ** 2:.3g} K is "
            "repelled and J^(1,L) leaves the product of the blocks."
        )
    if scatter > APART and not d.instance.ensemble.couples:
        caveats.append(
            f"The inputs drift apart: their K^{depth} differ by a factor of {scatter:.3g}, and with them their J; a "
            "mean over them hides it (GELU at sigma_b = 0 does this; `recommend` knows places that hold)."
        )
    if scale is None and bought(K):
        caveats.append(
            f"J = 1 was bought with the scale of K (K^L/K^1 = {K[-1] / K[0]:.3g}), which is all that the gains change."
        )
    sigma = base * gains
    record, values = with_symbols(block, sigma)
    said = {
        "tuned": f"every |log J^(l,l+1)| <= {worst:.2g}",
        "within budget": (
            "no gain > 0 of the branches gives J = 1 in every block; this is the largest with "
            f"|log J^(1,{depth})| <= {budget:g}"
        ),
        "not critical": f"no gain of the branches does it: the largest |log J^(l,l+1)| is {worst:.3g}",
        "not converged": f"the largest |log J^(l,l+1)| is {worst:.2g}, log J^(1,{depth}) {log_J:.2g}"
        + ("" if d.exact else "; more probes help"),
    }[status]
    return Tuning(
        method="sweep",
        what=describe(block),
        depth=depth,
        width=width,
        gains=gains,
        sigma=sigma,
        before=before,
        after=after,
        log_J=(log_J0, log_J),
        K=K,
        status=status,
        message=said + ".",
        scale=scale,
        caveats=tuple(caveats),
        trace=tuple(d.trace),
        network=record,
        values=values,
    )


