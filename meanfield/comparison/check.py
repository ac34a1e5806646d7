"""check(): the theory against an ensemble of finite-width networks, layer by layer, in standard errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, shown, validated
from meanfield.base.arguments import names as names_of
from meanfield.base.quantities import (
    CARRIED,
    COVARIANCES,
    MEASURED,
    QUANTITIES,
    QUOTIENTS,
    independent_recursions,
    of_two,
)
from meanfield.base.words import unknown
from meanfield.comparison.allowances import compare
from meanfield.comparison.check_report import THRESHOLD, Report, Row
from meanfield.comparison.checked_networks import CheckedEnsembles, CheckedPoint
from meanfield.comparison.network_settings import LAZY_FROM, is_uniform, pairs_of
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.network.network import SAMPLERS
from meanfield.empirical.network.operations.checks import integer, networks_of, probes_of, seed_of
from meanfield.empirical.observables.wanted import PROBES
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.theory import Theory

__all__ = ["THRESHOLD", "Report", "Row", "check", "compare"]

ONE = tuple(n for n, q in QUANTITIES.items() if q.measured and independent_recursions(n) and not (q.order or of_two(n)))
TWO = tuple(n for n in MEASURED if of_two(n) and n in (*CARRIED, *QUOTIENTS))  # spreads are those of a batch


@validated
def check(
    network: Any,
    *,
    sigma_w: Any = None,
    sigma_b: Any = None,
    quantities: str | Sequence[str] | None = None,
    width: int | Sequence[int] = 10_000,
    depth: int = 50,
    networks: int = 200,
    seed: int = 0,
    input_norm: float = 1.0,
    correlation: float | None = None,
    layerwise: bool = False,
    batch: int | None = None,
    tokens: int | None = None,
    input_dimension: int | None = None,
    sampler: str | None = None,
    probes: int | None = None,
    backward: str = "own",
    threads: int | None = None,
    executor: Executor | None = None,
    device: str = "cpu",
    checkpoint: str | os.PathLike | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> Report:
    """The theory's K^l and J^{1,l} (or K_aa, K_bb, K_ab for two inputs) against measured ones, with standard errors and
    z-scores.

    network: a `Theory`, an architecture record, or what `derive` takes, with its keywords. sigma_w, sigma_b: as in
    `propagate`, one number, or with layerwise=True one per layer. Other keywords give numbers to symbols (mu=0.5).
    quantities: from K, J, Theta, J0 (J^{0,l}, with input_dimension), the gradients G_z, G_w, G_b (a row for every
    Dense), or, with a correlation, K_aa, K_bb, K_ab (the default then), J_ab, Theta_ab, distance, c, gamma; default K
    and J. width: neurons a layer, one number or one per layer; a
    Theta of layers of different widths is refused where they are projected. networks: how many independent ones;
    input_dimension: N_0 (width unless given); the input has |x|²/N_0 = input_norm exactly, and a second one the cosine
    `correlation`. backward: "copy" for gradients through weights drawn afresh, as in `run_ensemble`.
    sampler: "lazy" draws products of the weights exactly in law (default from 2000 neurons on; J and Theta by `probes`,
    default 4), "explicit" draws the weights (J and Theta exact unless probes are given).

    What finite width adds stands in every row beside the theory, as its allowance; z refers to their sum, and the
    standard error holds that of the allowance. K, J and Theta of one input have it from the theory of order 1/n (G1/n,
    J1/n, Theta1/n: plain MLPs; K and J also beside a skip with Gaussian weights), K_aa, K_ab and K_bb of plain MLPs
    with Gaussian weights, too; the standard error then holds r(r + l/n + s²) for the next order, r the allowance's
    share, s² the networks' relative variance. For all else, and where l/n or r is above 1/4, the report says why not,
    and it is measured on two narrower ensembles; networks too narrow for that are compared with a bias a·l/n in J, a
    fitted from widths n and n/2; Theta and J0 as 2 X(n) - X(n/2); K as it is. A row passes within `threshold`.
    batch: where a BatchNorm makes inputs act on each other, how many independent normal inputs the networks see, the
    theory's own unless given; a theory of an infinite batch is that of this size where it is derived, else what width
    and batch add is measured on networks with half and a quarter of both. tokens: how many a Dense on the tokens mixes.
    Both have K, K_ab (of any two positions), J and Theta, by `probes`.
    threads, executor, device, checkpoint (here a folder): as in `meanfield.empirical.run_ensemble`.

    Raises: MeanFieldError for sizes below 1, J of a discontinuous φ, or networks that overflow.

    >>> report = check(derive("tanh", residual=True), sigma_w=1.2, sigma_b=0.1, width=64, depth=5, networks=64)
    >>> report.passed
    True
    """
    at = CheckedPoint.of(network, sigma_w, sigma_b, input_norm, correlation, layerwise, depth, width, parameters)
    networks, seed = networks_of(networks), seed_of(seed)
    correlation = at.inputs["correlation"]
    if sampler is not None:
        choice(sampler, "sampler", SAMPLERS)
    if input_dimension is not None:
        input_dimension = integer(input_dimension, "The input dimension N_0", 1, 1 << 48)
    probes = None if probes is None else probes_of(probes)
    check_workers(threads, executor, device, checkpoint, progress)
    theory, coupled, batch, tokens = _positions(at.theory, batch, tokens, correlation)
    at = replace(at, theory=theory)
    names = _wanted(theory, None if quantities is None else names_of(quantities, "quantities"), correlation)
    if "J0" in names and input_dimension is None:
        raise MeanFieldError("A check of J0 is not available: give the input dimension N_0 as input_dimension=.")
    if sampler is None and max(at.widths) >= LAZY_FROM and is_uniform(theory.block):
        raise MeanFieldError(
            f"Uniform weights are drawn entry by entry, which is slow at width {max(at.widths)}; take a smaller one, "
            "such as width=500, or say sampler='explicit'."
        )
    sampler = sampler or ("lazy" if max(at.widths) >= LAZY_FROM else "explicit")
    run, derived = at.predicted(names, coupled, tokens, input_dimension)
    measured = tuple(n for n in names if n not in derived.of)
    halved = theory.kind == "batch" and theory.batch is None  # what a finite batch adds is seen from half of it, too
    others = at.narrower(names, measured)
    others = at.halves(batch) if halved else others
    sampled = dict(
        depth=at.depth, seed=seed, sampler=sampler, probes=PROBES if coupled and probes is None else probes,
        tokens=tokens, input_dimension=input_dimension, l0=0 if "J0" in names else 1, backward=backward,
        threads=threads, executor=executor, device=device,
    )  # fmt: skip
    ensembles = CheckedEnsembles(
        at, names, measured, others, networks, batch, halved, _folder(checkpoint),
        sampled | {"activation_pairs": pairs_of(theory, values=at.parameters)},
    )  # fmt: skip
    result, rest = ensembles.run(progress)
    per_batch = 4 / batch if halved and batch is not None else 0.0
    rows, log_scale, notes = compare(run, result, tuple(rest), names, derived, per_batch)
    if halved and batch is not None:
        seen = f"{batch // 2} and {batch // 4}"
        notes = [*notes, f"The theory is of an infinite batch; the narrower networks see {seen} inputs."]
    settings = at.told() | {
        "networks": networks,
        "seed": seed,
        "sampler": sampler,
        "probes": result.probes,
        "input_norm": result.input_norm,
        "correlation": result.correlation,
        "input_dimension": result.input_dimension,
        **({"batch": batch} if batch is not None else {}),
        **({"tokens": tokens} if tokens != 1 else {}),
        **({"backward": backward} if backward != "own" else {}),
        **at.symbols(),
    }
    return Report(f"Check of {describe(theory.block)}", settings, tuple(rows), log_scale, tuple(notes))


def _folder(checkpoint: str | os.PathLike | None) -> Path | None:
    """The folder that a check keeps its ensembles in, made where it is not there."""
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise MeanFieldError(f"The checkpoint of a check is a folder, but {folder} is a file; name another one.")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def _wanted(theory: Theory, quantities, correlation) -> tuple[str, ...]:
    finite = theory.default_quantities != ("K",)
    if theory.kind:
        can = ("K", "K_ab", *(("J",) if finite else ()), *(("Theta",) if "Theta" in theory.one_input.names else ()))
        asked = tuple(quantities or tuple(n for n in ("K", "J") if n in can))
        wrong = [n for n in asked if n not in can]
        if wrong:
            raise MeanFieldError(
                f"A check of {shown(wrong[0])} is not available: of positions that act on each other networks give "
                f"{', '.join(can)}."
            )
        return asked
    one = ONE if finite else ("K",)
    allowed = one if correlation is None else TWO
    wanted = tuple(quantities or (COVARIANCES if correlation is not None else allowed[:2]))
    if "J0" in wanted and set(wanted) - {"J0", "K"}:
        raise MeanFieldError("J0 starts at the input and J, Theta at layer 1; check them separately.")
    for q in wanted:
        if q in ONE + TWO and q not in allowed:
            why = (
                "it is infinite in the theory (φ jumps or rises like √z), and no finite network measures that"
                if q in ONE and correlation is None
                else "give correlation= for two-input quantities, leave it out for one-input ones"
            )
            raise MeanFieldError(f"A check of {q} is not available: {why}.")
        if q not in allowed:
            raise unknown("quantity of a check", q, allowed)
    return wanted


def _positions(theory: Theory, batch: Any, tokens: Any, correlation: Any) -> tuple[Theory, bool, int | None, int]:
    """The theory of networks that see this batch, whether their positions act on each other, and what they are given.

    Raises: MeanFieldError where the size of a batch, or the number of tokens, is missing or has no use.
    """
    if theory.kind != "batch" and batch is not None:
        raise MeanFieldError(
            f"batch={shown(batch)} was given, but no BatchNorm makes the inputs of a batch act on each other; leave it "
            "out."
        )
    if theory.kind != "tokens" and tokens is not None:
        raise MeanFieldError(f"tokens={shown(tokens)} was given, but no Dense mixes tokens; leave it out.")
    if not theory.kind:
        return theory, False, None, 1
    if correlation is not None:
        raise MeanFieldError(
            "correlation= is of two inputs that are apart; those that act on each other are independent at the input."
        )
    if theory.kind == "tokens":
        if tokens is None:
            raise MeanFieldError("A check of a network that mixes tokens needs their number; give tokens=.")
        return theory, True, None, integer(tokens, "The number of tokens", 2, 1 << 24)
    size = theory.batch if batch is None else integer(batch, "batch", 1, 1 << 24)
    if size is None:
        raise MeanFieldError(
            "A check of a network with a BatchNorm needs to know how many inputs it sees at a time; give batch=, or "
            "derive(..., batch=)."
        )
    if theory.batch is not None and size != theory.batch:
        raise MeanFieldError(f"batch={size} was given for a theory of a batch of {theory.batch}; leave it out.")
    finite = replace(theory, batch=size)  # refuses what is too small
    try:
        _ = finite.one_input
    except MeanFieldError:
        return theory, True, size, 1
    return finite, True, size, 1
