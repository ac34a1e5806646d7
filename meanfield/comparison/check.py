"""check(): the theory against an ensemble of finite-width networks, layer by layer, in standard errors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, one_point, scalar, shown, validated
from meanfield.base.arguments import names as names_of
from meanfield.base.progress import watched
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
from meanfield.comparison.allowances import compare, narrower, narrower_layers
from meanfield.comparison.check_report import THRESHOLD, Report, Row
from meanfield.comparison.finite_width_allowance import FiniteWidthCorrections, corrections
from meanfield.comparison.network_settings import LAZY_FROM, given_to, is_uniform, pairs_of
from meanfield.empirical import EnsembleResult, run_ensemble
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.network.network import SAMPLERS, widths_of
from meanfield.empirical.network.operations.checks import integer, networks_of, per_layer, probes_of, seed_of
from meanfield.empirical.observables.wanted import PROBES
from meanfield.networks.attention import Attention
from meanfield.networks.folds import dense_of, fold, parts
from meanfield.networks.records import Block, Network, Param, Projection
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import decided, numbered, of_widths
from meanfield.theory.queries.parameter_points import ParameterPoint
from meanfield.theory.theory import Theory

__all__ = ["THRESHOLD", "Report", "Row", "check", "compare"]

SEEN = 32  # inputs from which on half and a quarter of a batch say what a finite batch adds
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
    theory, parameters = theory_and_values(network, parameters)
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b}, layerwise)
    point = ParameterPoint.of(theory, sigma_w, sigma_b, input_norm, correlation, None, parameters)
    asked = {"sigma_w": sigma_w, "sigma_b": sigma_b}
    own = {k: None if v is None else point.inputs[k] for k, v in asked.items()}  # the theory is asked with them
    sigma_w, sigma_b, input_norm, correlation = point.inputs.values()
    parameters = point.doubles()
    depth = integer(depth, "The depth", 1, 1 << 24)
    widths = widths_of(width, depth)
    networks, seed = networks_of(networks), seed_of(seed)
    hidden = {k: parameters.pop(k) for k in of_widths(theory.block) & set(parameters)}
    hidden = {k: per_layer(v, f"The factor {k}", depth) for k, v in hidden.items()}
    for name, value in {**parameters, "input_norm": input_norm}.items():
        if _ndim(value, name) > 0:
            raise MeanFieldError(
                f"A check takes one number for {name}, but {shown(value)} was given; check one at a time."
            )
        scalar(value, name)
    numbers = parameters
    theory, parameters = decided(theory, parameters)
    if correlation is not None:
        scalar(correlation, "correlation")
    if sampler is not None:
        choice(sampler, "sampler", SAMPLERS)
    if input_dimension is not None:
        input_dimension = integer(input_dimension, "The input dimension N_0", 1, 1 << 48)
    probes = None if probes is None else probes_of(probes)
    check_workers(threads, executor, device, checkpoint, progress)
    theory, coupled, batch, tokens = _positions(theory, batch, tokens, correlation)
    names = _wanted(theory, None if quantities is None else names_of(quantities, "quantities"), correlation)
    if "J0" in names and input_dimension is None:
        raise MeanFieldError("A check of J0 is not available: give the input dimension N_0 as input_dimension=.")
    layered = _ndim(sigma_w, "sigma_w") > 0 or _ndim(sigma_b, "sigma_b") > 0
    if sampler is None and max(widths) >= LAZY_FROM and is_uniform(theory.block):
        raise MeanFieldError(
            f"Uniform weights are drawn entry by entry, which is slow at width {max(widths)}; take a smaller one, such "
            "as width=500, or say sampler='explicit'."
        )
    given: dict[str, Any] = own | dict(depth=depth, input_norm=input_norm, layerwise=layered)
    of_input: dict[str, Any] = {"input_dimension": input_dimension if "J0" in names else None}
    of_input |= {"tokens": tokens} if "tokens" in theory.named_in_records else {}
    run = theory.propagate(**given, **of_input, **parameters, correlation=correlation, quantities=names)
    exact, free = numbered(theory, parameters)
    asked = given | free | {"input_ratio": Fraction(input_dimension or widths[0], widths[0])}
    derived = FiniteWidthCorrections() if coupled else corrections(exact, run, names, widths, asked)
    measured = tuple(n for n in names if n not in derived.of)
    differentiated = any(QUANTITIES[n].differentiates for n in measured)
    sampler = sampler or ("lazy" if max(widths) >= LAZY_FROM else "explicit")
    others: tuple[Any, ...] = narrower(widths[0], depth)
    projects = len(set(widths)) > 1 and any(isinstance(p, Projection) for p in parts(theory.block))
    if projects and {"Theta", "Theta_ab"} & set(names):
        raise MeanFieldError(
            "Theta of layers of different widths is not available: a Projection has no trained weights, and the "
            "theory's "
            "Theta is that of one width, where it is the identity."
        )
    if measured and (len(set(widths)) > 1 or _denominator(theory.block, hidden) > 1):
        others = narrower_layers(widths, depth, _denominator(theory.block, hidden))
    others = others if differentiated or (measured and len(others) == 2) else ()
    halved = theory.kind == "batch" and theory.batch is None  # what a finite batch adds is seen from half of it, too
    if halved:
        if len(set(widths)) > 1 or widths[0] % 4 or batch is None or batch < SEEN:
            raise MeanFieldError(
                "A check of a theory of an infinite batch compares networks with others of half and a quarter of their "
                f"width and batch; give one width, a multiple of 4, and a batch of {SEEN} or more."
            )
        others = (widths[0] // 2, widths[0] // 4)
    if coupled and probes is None:
        probes = PROBES
    folder = None if checkpoint is None else Path(checkpoint)
    if folder is not None and folder.exists() and not folder.is_dir():
        raise MeanFieldError(f"The checkpoint of a check is a folder, but {folder} is a file; name another one.")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    pairs = pairs_of(theory, values=parameters)

    record = Network(theory.block, theory.first)
    given = given_to(record, parameters | hidden)

    def ensemble(order: int, n: int | tuple[int, ...], tell: Callable[[int, int], None] | None) -> EnsembleResult:
        total = networks * (1 + len(others))
        report = None if tell is None else (lambda k, _: tell(order * networks + k, total))
        return run_ensemble(
            record,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            width=n,
            depth=depth,
            networks=networks,
            seed=seed,
            quantities=tuple(QUANTITIES[q].measured for q in (measured if order else names)),
            sampler=sampler,
            probes=probes,
            input_norm=input_norm,
            correlation=correlation,
            batch=batch // 2**order if halved and batch is not None else batch,
            tokens=tokens,
            input_dimension=input_dimension,
            l0=0 if "J0" in names else 1,
            backward=backward,
            activation_pairs=pairs,
            threads=threads,
            executor=executor,
            device=device,
            checkpoint=None if folder is None else folder / f"width-{np.ravel(n)[-1]}.npz",
            progress=report,
            first_network=order * networks,
            **given,
            keep_samples=True if measured and len(others) < 2 else None,
        )

    wide = widths[0] if len(set(widths)) == 1 else widths
    with watched(progress, "networks") as bar:
        result = ensemble(0, wide, bar)
        try:
            rest = [ensemble(order, n, bar) for order, n in enumerate(others, 1)]
        except MeanFieldError as error:
            seen = ", ".join(str(n if isinstance(n, int) else n[0]) for n in others)
            raise MeanFieldError(
                f"A check of networks of width {widths[0]} compares them with others of width {seen}, to see what "
                f"finite width adds, but: {error}"
            ) from error
    rows, log_scale, notes = compare(
        run, result, tuple(rest), names, derived, 4 / batch if halved and batch is not None else 0.0
    )
    if halved and batch is not None:
        seen = f"{batch // 2} and {batch // 4}"
        notes = [*notes, f"The theory is of an infinite batch; the narrower networks see {seen} inputs."]
    settings = {
        "sigma_w": np.asarray(sigma_w, dtype=float).tolist(),
        "sigma_b": np.asarray(sigma_b, dtype=float).tolist(),
        "width": wide if isinstance(wide, int) else list(wide),
        "depth": depth,
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
        **{k: str(v) for k, v in {**numbers, **parameters, **{k: v.tolist() for k, v in hidden.items()}}.items()},
    }
    return Report(f"Check of {describe(theory.block)}", settings, tuple(rows), log_scale, tuple(notes))
















def _ndim(value: Any, what: str) -> int:
    """The number of axes of a number or an array."""
    try:
        return np.ndim(value)
    except ValueError:
        raise MeanFieldError(f"{what} must be a number or an array, but {shown(value)} was given.") from None














def _denominator(block: Block, hidden: Mapping[str, Any]) -> int:
    """What widths must be multiples of, so that every `expand` makes a whole number of neurons, and so do heads."""
    held = [one.expand for one in dense_of(block)]
    values = [v for e in held for v in np.ravel(hidden.get(e.name, 1) if isinstance(e, Param) else float(e)).tolist()]
    heads = fold(block, lambda one, inside: math.lcm(one.heads if isinstance(one, Attention) else 1, *inside))
    return math.lcm(heads, *(Fraction(v).limit_denominator(1 << 12).denominator for v in values))


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






