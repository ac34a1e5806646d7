"""The networks of a theory: its records at numbers, the functions that they lack, and the settings of an ensemble."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import finite, guess, meant
from meanfield.empirical import ScalarPair
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.functions.reference_functions import names as reference_names
from meanfield.empirical.functions.tabulated import Tabulated, tabulated
from meanfield.empirical.functions.user_formulas import from_formula, has_switches
from meanfield.functions.activations import Activation, activation
from meanfield.functions.reading.callables import UnreadableFunction, named, values_of
from meanfield.functions.reading.formula import formula
from meanfield.networks.folds import activations_of, dense_of, symbols_in, with_activations
from meanfield.networks.records import OWN, Block, Network
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.queries.given_values import decided, deviations, double, symbols_of
from meanfield.theory.theory import Theory

LAZY_FROM = 2000  # neurons from which on the lazy sampler is the default
_OF_DERIVE = ("residual", "mu", "norm", "architecture", "weights")
_OF_THE_NETWORK = ("block", "activation_pairs", "parameters", "sigma_w", "sigma_b")


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
    return record, _numbers(own | deviating) | {"activation_pairs": pairs} | given_to(record, values)


def is_uniform(block: Block) -> bool:
    return any(one.weights == "uniform" for one in dense_of(block))


def _numbers(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings of an ensemble with its numbers read as the theory reads them ("sqrt(2)", 2/3)."""
    taken = {k: double(k, v) for k, v in settings.items() if k in ("sigma_w", "sigma_b", "input_norm", "correlation")}
    for name in ("lambda_w", "lambda_b"):  # a formula in l is read by the networks' own reader
        if getattr(settings.get(name), "free_symbols", None):
            taken[name] = str(settings[name])
    return settings | taken


def given_to(record: Block, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of symbols that a record has, as doubles by name: what theory decides with the others is done."""
    own = symbols_in(record)
    return {k: double(k, v) for k, v in values.items() if k in own and v is not None}


def network_and_pairs(
    theory: Theory, values: Mapping[str, Any], higher: bool = False
) -> tuple[Network, dict[Hashable, ScalarPair]]:
    """The record of a theory at these values of its symbols, and the functions that networks lack."""
    found, _ = decided(theory, dict(values))
    return Network(found.block, found.first), pairs_of(found, higher, values)


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


def pairs_of(theory: Theory, higher: bool = False, values: Any = None) -> dict[Hashable, ScalarPair]:
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
