"""`tune`: gains that make a drawn network critical, block after block, or by the descent of a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.architecture import Block, Schedule
from meanfield.arguments import choice, finite, spoken, whole
from meanfield.comparison.check import network_and_pairs
from meanfield.deriving import derive
from meanfield.empirical import draw_network
from meanfield.empirical.network.operations import Affine
from meanfield.empirical.random.philox import normals
from meanfield.results import MeanFieldError
from meanfield.symbolic.blocks.naming import describe
from meanfield.tuning.choices import grows
from meanfield.tuning.instance import Instance
from meanfield.tuning.recommend import BATCH, has_batch_norm, read
from meanfield.tuning.records import branch_end, has_branches, kinds, rebuilt
from meanfield.tuning.sweep import ACTIVE, Drive, active_share, by_blocks, by_scale
from meanfield.tuning.tuned import Tuning, bought, with_symbols

METHODS = ("sweep", "gradient")
CLOSE = 0.05  # |log J^{l,l+1}| up to which a block counts as tuned
APART = 3.0  # ratio of the K of two inputs at the last layer that is worth a sentence
ALL = 0.2  # |log J^{1,L}| up to which the network does
INPUT_ROLE = (1 << 15) + (1 << 13)  # the stream of inputs


@spoken
def tune(
    network: Any,
    *,
    architecture: str | None = None,
    depth: int,
    width: int,
    sigma_w: Any = 1.0,
    sigma_b: Any = 0.0,
    method: str = "sweep",
    budget: float = 1.0,
    inputs: Any = None,
    tokens: int = 1,
    input_norm: float = 1.0,
    probes: int | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Tuning:
    """Gains a_w, a_b of every Dense with which one drawn network of this width has J^{l,l+1} = 1, and J^{1,L} near 1.

    network, architecture, parameters: as in `recommend`. sigma_w, sigma_b: the standard deviations that the gains
    multiply. inputs: how many random inputs of norm `input_norm` = |x|²/N_0 (of `tokens` each), or an array (positions,
    N_0); 1 unless given, 32 where they act on each other (BatchNorm). probes: random directions that estimate each J;
    unless given, J is exact up to 1024 entries of z, and estimated by 128 directions beyond. seed: of weights, inputs
    and probes; the same seed gives the same gains on any number of threads.

    method: "sweep": one forward pass solves block after block, since J^{l,l+1} knows only gains up to layer l + 1;
    without a skip a_w of the block's last Dense is divided by √J, with skips the gain of the branches is its one
    unknown. Where J > 1 for every gain > 0 (skips of strength ≥ 1) there is no minimum but the empty branch: then the
    largest common factor of the branches with |log J^{1,L}| ≤ budget.

    Returns a `Tuning`; its `network` and `values` draw the same network again. Raises: MeanFieldError for numbers out
    of range, a φ that jumps, standard deviations that follow a Schedule.
    Accuracy: J by `probes` directions is known to √(2κ/(probes · inputs · n)) of itself, κ ≥ 1 the mean square over
    the squared mean of the block's squared singular values. Source: [autoinit], the sweep is derived here.

    >>> found = tune("relu", depth=10, width=100, sigma_w=2, probes=16)
    >>> found.status, bool(found.worst < 0.05)
    ('tuned', True)
    """
    choice(method, "method", METHODS)
    budget, input_norm = finite(budget, "budget"), finite(input_norm, "input_norm")
    for value, what in ((budget, "budget"), (input_norm, "input_norm")):
        if not value > 0:
            raise MeanFieldError(f"{what} must be > 0, but {value:g} was given.")
    depth, width = whole(depth, "depth", 2, 10_000), whole(width, "width", 2, 1 << 20)
    probes = None if probes is None else whole(probes, "probes", 1, 1 << 20)
    block, values = read(network, architecture, parameters)
    drive, base = _drive(block, values, depth, width, sigma_w, sigma_b, inputs, tokens, input_norm, probes, seed)
    drive.progress = progress
    with threadpool_limits(limits=1, user_api="blas"):
        return swept(drive, block, base, width, budget)


def _drive(block, values, depth, width, sigma_w, sigma_b, inputs, tokens, input_norm, probes, seed):
    """(the drive, (layers, Dense, 2) standard deviations that gains multiply)."""
    record, pairs = network_and_pairs(derive(architecture=block), values=values or None)
    _refuse(block)
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
        mu=values or None,
        activation_pairs=pairs,
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
        if isinstance(operation, Affine):
            for layer in range(2, depth + 1):
                out[layer - 1, operation.ordinal] = weights.deviations(operation, layer)
    return out


def _refuse(block: Block) -> None:
    def one(_: int, dense: Any) -> Any:
        if isinstance(dense.sigma_w, Schedule) or isinstance(dense.sigma_b, Schedule):
            raise MeanFieldError(
                f"Gains of every layer were asked for, but {dense} has standard deviations that follow a Schedule; "
                "give numbers."
            )
        return dense

    rebuilt(block, dense=one)
    if not kinds(block):
        raise MeanFieldError(f"Gains multiply weights, but {describe(block)} has no Dense.")


def random_inputs(inputs: Any, tokens: int, norm: float, width: int, seed: int) -> tuple[np.ndarray, int]:
    """(positions × N_0, number of inputs): random directions of squared length N_0·norm, or what was given."""
    if isinstance(inputs, np.ndarray):
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
            "activation one that jumps or rests?"
        )
    scale = None
    if grows(block):
        gains, scale = by_scale(d, budget)
        status = "within budget" if scale is not None else "not critical"
    else:
        gains, good = by_blocks(d, has_branches(block), branch_end(block)[0] is not None)
        status = "tuned" if good else "not critical"
        if not good and has_branches(block):
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
        "not converged": f"the largest |log J^(l,l+1)| is {worst:.2g}, log J^(1,{depth}) {log_J:.2g}; more probes help",
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


