"""check(): the theory against an ensemble of finite-width networks, layer by layer, in standard errors."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import (
    choice,
    count_of,
    finite,
    guess,
    meant,
    one_point,
    refuse_not_real,
    scalar,
    shown,
    validated,
)
from meanfield.base.arguments import names as names_of
from meanfield.base.progress import watched
from meanfield.base.quantities import (
    CARRIED,
    COVARIANCES,
    MEASURED,
    QUANTITIES,
    QUOTIENTS,
    differentials,
    independent_recursions,
    of_two,
)
from meanfield.base.words import unknown
from meanfield.comparison.allowances import compare, narrower, narrower_layers
from meanfield.comparison.check_report import THRESHOLD, Report, Row
from meanfield.comparison.finite_width_allowance import FiniteWidthCorrections, corrections
from meanfield.empirical import (
    CriticalityEstimate,
    EnsembleResult,
    MeasuredLine,
    PairStatistics,
    ScalarPair,
    run_ensemble,
)
from meanfield.empirical import measure_critical_line as _measure_critical_line
from meanfield.empirical import measure_criticality as _measure_criticality
from meanfield.empirical import measure_pairs as _measure_pairs
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.functions.reference_functions import names as reference_names
from meanfield.empirical.functions.tabulated import Tabulated, tabulated
from meanfield.empirical.functions.user_formulas import from_formula, has_switches
from meanfield.empirical.network.network import SAMPLERS, widths_of
from meanfield.empirical.network.operations.checks import integer, networks_of, per_layer, probes_of, seed_of
from meanfield.empirical.observables.wanted import PROBES
from meanfield.functions.activations import Activation, activation
from meanfield.functions.reading.callables import UnreadableFunction, named, values_of
from meanfield.functions.reading.formula import formula
from meanfield.networks.attention import Attention
from meanfield.networks.folds import activations_of, dense_of, fold, parts, symbols_in, with_activations
from meanfield.networks.records import OWN, Block, Network, Param, Projection
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import decided, deviations, double, numbered, of_widths, symbols_of
from meanfield.theory.queries.parameter_points import ParameterPoint
from meanfield.theory.theory import Theory

__all__ = [
    "THRESHOLD",
    "Report",
    "Row",
    "check",
    "compare",
    "measure_critical_line",
    "measure_criticality",
    "measure_pairs",
]
LAZY_FROM = 2000  # neurons from which on the lazy sampler is the default


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
    if sampler is None and max(widths) >= LAZY_FROM and _is_uniform(theory.block):
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
    pairs = _pairs(theory, values=parameters)

    record = Network(theory.block, theory.first)
    given = _given(record, parameters | hidden)

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


@validated
def measure(
    network: Any, *, sigma_w: Any = None, sigma_b: Any = None, layerwise: bool = False, **settings: Any
) -> EnsembleResult:
    """Any quantity of finite networks, with its standard error: K, J, Theta, V, A, B, D, F, P ... U, gradients (of
    a loss by class, too), class fractions; nothing analytic is used.

    network: a `Theory`, an architecture record, or what `derive` takes, with its keywords, or a function of one real
    number that nothing reads (a torch module): networks then hold a table of its values, and the answer says so
    (`note`). sigma_w, sigma_b: one number, or with layerwise=True one per layer; left out where the record says what
    they are. settings: numbers for
    symbols of the network (mu=0.5), and width, depth, networks, quantities, sampler (lazy from width 2000 on, but for
    uniform weights), lambda_w, lambda_b, probes, inputs, executor, checkpoint, ... as in
    `meanfield.empirical.run_ensemble`.

    >>> run = measure("z*erf(z)", sigma_w=1, sigma_b=0.1, width=40, depth=3, networks=30, quantities=("K", "V"))
    >>> run.estimate("K").mean.shape, run.estimate("V").mean.shape
    ((3,), (3, 1, 1, 1, 1))
    """
    rates = {k: settings.get(k) for k in ("lambda_w", "lambda_b")}
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b, **rates}, layerwise)
    asked = set(() if settings.get("quantities") is None else names_of(settings["quantities"], "quantities"))
    higher = differentials(asked) > 1
    block, numbers = record_and_settings(run_ensemble, network, sigma_w, sigma_b, settings, higher)
    refuse_not_real(numbers["width"], "width")
    widths = np.ravel(np.asarray(numbers["width"], dtype=object)).tolist()
    widest = max((n for w in widths if isinstance(n := count_of(w), int | float)), default=0)
    if widest >= LAZY_FROM and not differentials(asked) and not _is_uniform(block):
        numbers.setdefault("sampler", "lazy")
    with watched(numbers.pop("progress", None), "networks") as bar:
        found = run_ensemble(block, progress=bar, **numbers)
    notes = [f"activation: {one}" for one in activations_of(block) if isinstance(one, Tabulated)]
    return replace(found, note="; ".join([*notes, *filter(None, (found.note,))])) if notes else found


@validated
def measure_criticality(
    network: Any, *, sigma_w: Any = None, sigma_b: Any = None, **settings: Any
) -> CriticalityEstimate:
    """χ = J^{L-2,L-1} of explicit networks by random probes, with its standard error: is this architecture critical?

    network: as in `measure`; nothing analytic about it is used.
    settings: width, depth L (blocks), networks, probes, seed, sampler, input_norm, threads as in
    `meanfield.empirical.measure_criticality`. χ > 1: chaotic, χ < 1: ordered; the two sides of a critical line have
    opposite signs of χ - 1. The bias is of order 1/width. Source: [partial_jacobians] Prop. 2.6.

    >>> found = measure_criticality("tanh", sigma_w=0.7, sigma_b=0.1, width=64, depth=10, networks=20)
    >>> found.phase
    'ordered'
    """
    block, numbers = record_and_settings(_measure_criticality, network, sigma_w, sigma_b, settings)
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_criticality(block, progress=bar, **numbers)


@validated
def measure_critical_line(network: Any, *, sigma_w: Any, sigma_b: Any, **settings: Any) -> MeasuredLine:
    """The edge of chaos of finite networks: the σ_w² at which J^{1,l} does not depend on l, with its standard error;
    for one σ_b or several. Nothing analytic is used.

    network: as in `measure`. sigma_w: three values or more to
    scan, on both sides of the edge. settings: width (1000), depth (31), networks (8), probes, first, seed, sampler,
    input_norm, threads as in `meanfield.empirical.measure_critical_line`. Source: [bias_and_trainability] Sec. 4.

    >>> found = measure_critical_line("tanh", sigma_w=[1.2, 1.4, 1.6], sigma_b="sqrt(1/10)", width=200, depth=12)
    >>> print(found)
    σ_w² = 2.002 ± 0.04 at σ_b² = 0.1 (N = 200, L = 12, 8 networks)
    """
    block, numbers = record_and_settings(_measure_critical_line, network, sigma_w, sigma_b, settings)
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_critical_line(block, progress=bar, **numbers)


@validated
def measure_pairs(network: Any, *, sigma_w: Any = None, sigma_b: Any = None, **settings: Any) -> PairStatistics:
    """Covariances and correlations of all pairs of inputs of one network, layer by layer, with the spread sigma_y2 and
    the drift sigma_mu2 of its neurons, both without bias; nothing analytic is used.

    network: as in `measure`. sigma_w, sigma_b: numbers or arrays
    of points that share one draw of the weights. settings: width, depth, batch (100) or inputs, seed, index, sampler
    ("lazy"), input_dimension, input_norm, threads as in `meanfield.empirical.measure_pairs`.
    Source: [bias_and_trainability] Def. 2.1, Sec. 2.2 (Figs. 2, 16-19).

    >>> found = measure_pairs("relu", sigma_w=2**0.5, sigma_b=0, width=2000, depth=3, batch=20)
    >>> low, middle, high = found.quantiles("c")[:, 0, -1]
    >>> bool(low < found.c[0, -1] < high)
    True
    """
    block, numbers = record_and_settings(_measure_pairs, network, sigma_w, sigma_b, settings)
    refuse_not_real(numbers["width"], "width")
    with watched(numbers.pop("progress", None), "networks") as bar:
        return _measure_pairs(block, progress=bar, **numbers)


def record_and_settings(
    function: Callable, network: Any, sigma_w: Any, sigma_b: Any, settings: dict[str, Any], higher: bool = False
) -> tuple[Block, dict[str, Any]]:
    """(the record, what `function` is given with it) of a verb that measures: of its keywords, those that `function`
    takes are settings of the ensemble, and the others belong to the network, as `theory_and_values` has them."""
    known = [n for n in inspect.signature(function).parameters if n not in _OF_THE_NETWORK]
    own = {k: v for k, v in settings.items() if k in known}
    more = {k: v for k, v in settings.items() if k not in known}
    for name in more:
        if name in _OF_DERIVE:
            continue
        if (hint := guess(name, known)) and not isinstance(network, Theory | Block):
            raise MeanFieldError(f"{name} is no setting of an ensemble.{hint}")
    pairs: dict[Hashable, ScalarPair]
    if isinstance(network, Block) and not activations_of(network):
        record, pairs, values = network if isinstance(network, Network) else Network(network), {}, more
        _refuse_strange(record, record, more, known)
    else:
        try:
            theory, values = theory_and_values(network, more)
        except UnreadableFunction:  # networks need no formula, but its values
            theory, values = theory_and_values("tanh", more)  # for the architecture that the keywords say
            record, pairs = _of_values(theory, network)
        else:
            values = {k: double(k, v) for k, v in values.items()}
            record, pairs = network_and_pairs(theory, values, higher)
            _refuse_strange((theory.block, theory.first), record, values, known)
    _settings(function, own)
    read = record if not any(isinstance(one, Tabulated) for one in activations_of(record)) else theory
    deviating = deviations(read, {"sigma_w": sigma_w, "sigma_b": sigma_b}, more)
    return record, _numbers(own | deviating) | {"activation_pairs": pairs} | _given(record, values)


_OF_DERIVE = ("residual", "mu", "norm", "architecture", "weights")
_OF_THE_NETWORK = ("block", "activation_pairs", "parameters", "sigma_w", "sigma_b")


def _is_uniform(block: Block) -> bool:
    return any(one.weights == "uniform" for one in dense_of(block))


def _ndim(value: Any, what: str) -> int:
    """The number of axes of a number or an array."""
    try:
        return np.ndim(value)
    except ValueError:
        raise MeanFieldError(f"{what} must be a number or an array, but {shown(value)} was given.") from None


def _numbers(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of an ensemble with its numbers read as the theory reads them ("sqrt(2)", 2/3)."""
    taken = {k: double(k, v) for k, v in settings.items() if k in ("sigma_w", "sigma_b", "input_norm", "correlation")}
    for name in ("lambda_w", "lambda_b"):  # a formula in l is read by the networks' own reader
        if getattr(settings.get(name), "free_symbols", None):
            taken[name] = str(settings[name])
    return settings | taken


def _given(record: Block, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of symbols that a record has, as doubles by name: what theory decides with the others is done."""
    own = symbols_in(record)
    return {k: double(k, v) for k, v in values.items() if k in own and v is not None}


def network_and_pairs(
    theory: Theory, values: Mapping[str, Any], higher: bool = False
) -> tuple[Network, dict[Hashable, ScalarPair]]:
    """The record of a theory at these values of its symbols, and the functions that networks lack."""
    found, _ = decided(theory, dict(values))
    return Network(found.block, found.first), _pairs(found, higher, values)


def _of_values(theory: Theory, function: Any) -> tuple[Network, dict[Hashable, ScalarPair]]:
    """The record of a theory with a function that nothing reads in the place of its activations, and that function."""
    phi, pair = tabulated(named(function), partial(values_of, function))
    return Network(with_activations(theory.block, lambda _: phi), theory.first), {phi: pair}


def _refuse_strange(given: Any, block: Block, values: Mapping[str, Any], settings: Sequence[str]) -> None:
    """Refuse values of symbols that the network does not have: gains that were tuned for another architecture. given:
    the records as they were given; block: as it is run, with symbols that are decided."""
    known = (symbols_of(block) | symbols_of(given)) - {one.name for one in OWN}
    strange = next((n for n in sorted(values) if n not in known), None)
    if strange is not None:
        hint = guess(strange, [*known, *settings])
        raise MeanFieldError(
            f"A number for {strange} was given, but {describe(getattr(block, 'block', block))} has no such symbol: it "
            f"has {', '.join(sorted(known)) or 'none'}.{hint} A skip belongs to the "
            "network (mf.derive('tanh', mu=0.5)), and gains to the .network of their Tuning."
        )


def _settings(function: Callable, settings: dict[str, Any]) -> dict[str, Any]:
    """All settings of an ensemble with their defaults; names it does not take, and lacks, are refused."""
    known = {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is not p.VAR_KEYWORD}
    for name in settings:
        if name not in known:
            raise MeanFieldError(f"{name} is no setting of an ensemble.{meant(name, known)}")
    missing = [n for n, p in known.items() if p.default is p.empty and n not in ("block", "sigma_w", "sigma_b")]
    for name in missing:
        if name not in settings:
            raise MeanFieldError(f"An ensemble needs {' and '.join(missing)}; give {name}=.")
    check_workers(settings.get("threads"), settings.get("executor"), progress=settings.get("progress"))
    return {n: p.default for n, p in known.items()} | settings


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


def _pairs(theory: Theory, higher: bool = False, values: Any = None) -> dict[Hashable, ScalarPair]:
    """Functions for activations without a hand-written reference, from the formula as it was written; higher: φ″ and φ‴
    too, where they hold no delta function; values: numbers for symbolic parameters.

    The normal form of the theory (`piecewise`) decides nothing here but what is refused: a switch point it lost would
    be lost in the judge, too.
    """
    out: dict[Hashable, ScalarPair] = {}
    for held in activations_of(theory.block):
        record = activation(held)
        if record.name not in reference_names() or record.free_parameters:
            given = dict(values) if isinstance(values, Mapping) else {}
            missing = sorted({s.name for s in record.free_parameters} - set(given))
            if missing:
                raise MeanFieldError(f"A check needs numbers for {', '.join(missing)}; give them in derive(...).")
            out[record] = _written(record, given, higher)
    return out


def _written(record: Activation, given: Mapping[str, Any], higher: bool) -> ScalarPair:
    """The pair of a record's own text; of its expression, where that text is not one the networks read, or names a
    parameter without a number that cancels in the expression."""
    import sympy as sp

    numbers = {s: sp.Float(finite(given[s.name], s.name)) for s in record.free_parameters}
    texts = []
    if record.arguments is not None:
        cancelled = {s for _, v in record.arguments for s in v.free_symbols} - set(numbers)
        known = numbers | {s: sp.Float(finite(given[s.name], s.name)) for s in cancelled if s.name in given}
        own = {k: v.subs(known) for k, v in record.arguments}
        texts.append((record.source, {k: float(v) for k, v in own.items() if v.is_number}))
    texts.append((formula(record.expression), {s.name: float(v) for s, v in numbers.items()}))
    for k, (text, values) in enumerate(texts):
        try:
            smooth = higher and (not has_switches(text) or _has_second_derivative(record))
            return from_formula(text, values, continuous=record.is_continuous, smooth=smooth)
        except MeanFieldError:
            if k + 1 == len(texts):
                raise
    raise AssertionError


def _has_second_derivative(record: Activation) -> bool:
    first = record.pieces.diff()
    return record.is_continuous and not first.jumps() and not first.diff().jumps()
