"""Values that verbs are given: made exact or double, put into records, refused where nothing takes them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import fields, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import scalar, shown
from meanfield.base.symbols import parameter
from meanfield.base.words import missing, no_parameter
from meanfield.functions.activations import activation
from meanfield.functions.reading.parser import number
from meanfield.networks.folds import activations_of, dense_of, rebuild, symbols_in, with_activations, with_dense
from meanfield.networks.records import (
    OWN,
    Block,
    Constant,
    Dense,
    Network,
    Param,
    Schedule,
    exact,
)
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.recursion import Recursion
from meanfield.symbolic.recursions.coordinate import too_steep
from meanfield.theory.queries.architecture_maps import Maps

M = TypeVar("M", bound=Maps)
HELD = {"sigma_w": 1.0, "sigma_b": 0.0}  # what stands in the place of one that has no effect


def decided(theory: M, values: dict) -> tuple[M, dict]:
    """The theory with those of the given numbers put in that its maps wait for, and the other values.

    `z if z > t else (z/2 if z > s else 0)` has no recursion before it is known whether s or t comes first; and where φ
    jumps, J is infinite unless the weights behind it are 0.
    """
    held = [activation(a) for a in activations_of(theory.block)]
    waiting = {s.name for a in held if not a.is_decided for s in a.free_parameters} & set(values)
    if waiting:
        block = with_values(theory.block, {k: values[k] for k in waiting})
        theory, values = replace(theory, block=block), {k: v for k, v in values.items() if k not in waiting}
        held = [activation(a) for a in activations_of(block)]
    return _without_weights(theory, values) if any(a.is_decided and too_steep(a.pieces) for a in held) else (
        theory,
        values,
    )


def _without_weights(theory: M, values: dict) -> tuple[M, dict]:
    """The theory with weights that are given as 0 as numbers: behind them nobody sees how steep φ is."""
    named = {d.sigma_w.name for d in dense_of(theory.block) if isinstance(d.sigma_w, Param)}
    zero = {k for k in named & set(values) if _is_zero(values[k])}
    if not zero:
        return theory, values
    theory = replace(theory, block=_with_zeros(theory.block, zero))
    kept = {"sigma_w", "sigma_b"} | {p.name for p in theory.one_input.parameters}
    return theory, {k: v for k, v in values.items() if k not in zero or k in kept}


def _is_zero(value: object) -> bool:
    try:
        return exact_number("A deviation", value) == 0
    except MeanFieldError:  # an array, or no number at all: whoever takes it raises
        return False


def _with_zeros(block: Block, names: set[str]) -> Block:
    """The block with 0 for the σ_w of these names."""

    def put(_: int, one: Dense) -> Dense:
        return replace(one, sigma_w=0) if isinstance(one.sigma_w, Param) and one.sigma_w.name in names else one

    return with_dense(block, put)


def numbered(theory: M, values: dict) -> tuple[M, dict]:
    """The theory with those of the given numbers put in that are parameters of its activations, and the other values.
    """
    inner = {s.name for a in activations_of(theory.block) for s in activation(a).free_parameters} & set(values)
    rest = {k: v for k, v in values.items() if k not in inner}
    if not inner:
        return theory, rest
    return replace(theory, block=with_values(theory.block, {k: values[k] for k in inner})), rest


def symbols_of(record: Block | tuple[Block, ...]) -> frozenset[str]:
    """The names of the symbols of a record and of all that it is made of."""
    blocks = record if isinstance(record, tuple) else (record,)
    held = [activation(a) for one in blocks for a in activations_of(one)]
    return symbols_in(record) | {s.name for phi in held for s in phi.free_parameters}


def deviations(
    network: Maps | Network, values: Mapping[str, object], given: Iterable[str] = ()
) -> dict[str, Any]:
    """sigma_w and sigma_b as a verb was given them: where the records hold others in their place, they have no effect,
    and a number in their place is returned. given: its other keywords, of which one may have meant them.

    Raises: MeanFieldError for one that is needed and missing, and for one that is given and held by the records.
    """
    known, found = symbols_of((network.block, network.first)), dict(values)
    for name in ("sigma_w", "sigma_b"):
        if name not in values:
            continue
        if name in known and values[name] is None:
            raise missing(name, given)
        if name not in known and values[name] is not None:
            raise MeanFieldError(
                f"{name}={shown(values[name])} was given, but every Dense of this network has a {name} of its own in "
                "its record, which says what it is; leave it out here, or there."
            )
        found[name] = values[name] if name in known else HELD[name]
    return found


def refuse_held(theory: Maps, values: Mapping[str, object]) -> None:
    """Refuse sigma_w and sigma_b that the records hold; a 0 that `decided` put into them is the one that was given."""
    zeros = {n for n in ("sigma_w", "sigma_b") for d in dense_of(theory.block) if getattr(d, n) == 0}
    given = {n: values[n] for n in ("sigma_w", "sigma_b") if values.get(n) is not None}
    deviations(theory, {n: v for n, v in given.items() if not (n in zeros and _is_zero(v))})


def of_widths(block: Block) -> set[str]:
    """Symbols of a block that say how wide a layer is: infinite width does not know them."""
    return {d.expand.name for d in dense_of(block) if isinstance(d.expand, Param)}


def require_cosine(cosine: sp.Expr, given: object) -> None:
    if not cosine.is_number or not -1 <= cosine <= 1:
        raise MeanFieldError(f"correlation must be a number between -1 and 1, but {shown(given)} was given.")


def mapping(value: object, what: str) -> dict:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
        raise MeanFieldError(f"{what} must be a mapping from names to numbers, but {shown(value)} was given.")
    return dict(value)


def listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def refuse_unknown(values: dict, recursion: Recursion, also: tuple[str, ...] = ()) -> None:
    """Refuse a keyword that the recursion has no parameter for (also: names that every theory knows)."""
    names = {p.name for p in recursion.parameters} - {"Q0", "N0", "c0", "sigma_w", "sigma_b", "L"}
    extra = sorted(set(values) - names - set(also))
    if extra:
        raise no_parameter(extra[0], names)


def inside_averages(recursion: Recursion, values: dict) -> dict[str, sp.Expr]:
    """The values of parameters that stand inside an average: they must be put in before anything is compiled."""
    inside = _names_inside(recursion) if values else frozenset()
    return {k: exact_number(k, v) for k, v in values.items() if k in inside}


@lru_cache(maxsize=256)
def _names_inside(recursion: Recursion) -> frozenset[str]:
    nodes = [a for step in recursion.steps for e in step.expressions for a in e.atoms(Average)]
    return frozenset(s.name for a in nodes for s in sp.Tuple(*a.args[2:]).free_symbols)  # not those of a variance


def with_values(block: Block, values: dict) -> Block:
    """The block with numbers for its symbols, those of its activations among them; the network's own σ_w and σ_b stay
    symbols, which verbs are given."""

    def held(of: Hashable) -> Hashable:
        record = activation(of)
        given = {s.name: exact_number(s.name, values[s.name]) for s in record.free_parameters if s.name in values}
        return record.at(given) if given else of

    def put(one: Block) -> Block:
        found = {f.name: getattr(one, f.name) for f in fields(one)}  # type: ignore[arg-type]
        made = {name: _put(value, values) for name, value in found.items() if isinstance(value, Param | Schedule)}
        return replace(one, **made) if any(made[name] is not found[name] for name in made) else one  # type: ignore

    return rebuild(with_activations(block, held), put)


def _put(held: object, values: dict) -> object:
    """A number of a record with what is given for its symbol, or for those of its schedule."""
    if isinstance(held, Schedule):
        return replace(held, **{f.name: _put(getattr(held, f.name), values) for f in fields(held)})  # type: ignore
    return values.get(held.name, held) if isinstance(held, Param) and held not in OWN else held


def exact_number(name: str, value) -> sp.Expr:
    """An exact number: text, integers and SymPy numbers as they are, a float as the decimal it prints as; a name is a
    symbol."""
    scalar(value, name)
    if isinstance(value, sp.Expr) and value.free_symbols:
        return value
    if isinstance(value, str) and not value.strip():
        raise MeanFieldError(f"{name} must be a number, but an empty text was given.")
    if isinstance(value, str) and value.strip().isidentifier():
        found = exact(value, name)
        if isinstance(found, Param):
            return parameter(found.name)
    return number(value, name)


def double(name: str, value):
    """`value` with text, fractions and SymPy numbers in it as doubles, which compiled recursions and networks take."""
    if isinstance(value, (str, sp.Expr, Fraction, Constant)):
        return float(number(value, name))
    if getattr(getattr(value, "dtype", None), "kind", "") in ("U", "O"):  # an array of text or of objects
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [double(name, v) for v in value] if isinstance(value, list) else tuple(double(name, v) for v in value)
    return value
