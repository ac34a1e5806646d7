"""Every function h(u) that formulas and closed forms may hold: one record each (`ElementaryFunction`), and what is
asked of them all.

`add` puts a new one in: from then on it is parsed, bounded, expanded, integrated in balls, lowered, and run in
networks. No other module holds a table of functions; docs/functions.md says how a record is written.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

import sympy as sp

from meanfield.base import scalars
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.scalars import Scalar
from meanfield.base.symbols import HeadFunction
from meanfield.functions.elementary.exponential import EXPONENTIAL, NUMPY
from meanfield.functions.elementary.oscillatory import WAVES
from meanfield.functions.elementary.power_like import POWERS
from meanfield.functions.elementary.record import ElementaryFunction, ExponentialGrowth, PowerEnd

T = TypeVar("T")

ELEMENTARY_FUNCTIONS: dict[type, ElementaryFunction] = {h.function: h for h in (*EXPONENTIAL, *POWERS, *WAVES)}
_ADDED: list[ElementaryFunction] = []
#: name in a formula → (1, SymPy class)
NAMES: dict[str, tuple[int | None, Callable[..., sp.Expr]]] = {}


def _named(record: ElementaryFunction) -> None:
    NAMES.update({name: (1, record.function) for name in record.names})


for _function in ELEMENTARY_FUNCTIONS.values():
    _named(_function)


def add(record: ElementaryFunction, scalar: Scalar) -> None:
    """Make a new function known: `record` to the theory, `scalar` (its text and derivatives, which share nothing with
    `record`) to finite networks.

    `functions.consistency.assert_consistent` tells whether the two records are right.

    Raises: MeanFieldError where the function or one of its names is taken.
    """
    taken = [name for name in record.names if name in NAMES or scalars.known(name)]
    if record.function in ELEMENTARY_FUNCTIONS or taken:
        raise MeanFieldError(
            f"The function {record.name} was to be added, but {(taken or [record.name])[0]} is known already; take a "
            "name of its own."
        )
    if not record.names or any(not name.isidentifier() for name in record.names):
        raise MeanFieldError(f"The function {record.name} was to be added; its record needs identifiers as names.")
    ELEMENTARY_FUNCTIONS[record.function] = record
    _ADDED.append(record)
    _named(record)
    for name in record.names:
        scalars.add(name, scalar)
    _forget()


def remove(record: ElementaryFunction) -> None:
    """Take back what `add` did."""
    if record not in _ADDED:
        raise MeanFieldError(f"The function {record.name} was to be removed, but it was not added in this process.")
    del ELEMENTARY_FUNCTIONS[record.function]
    _ADDED.remove(record)
    for name in record.names:
        del NAMES[name]
        scalars.remove(name)
    _forget()


@contextmanager
def trial(record: ElementaryFunction) -> Iterator[None]:
    """`record` known for a while, under no name: what the machinery makes of a record that has not been added."""
    before = ELEMENTARY_FUNCTIONS.get(record.function)
    if before is record:
        yield
        return
    ELEMENTARY_FUNCTIONS[record.function] = record
    _forget()
    try:
        yield
    finally:
        if before is None:
            del ELEMENTARY_FUNCTIONS[record.function]
        else:
            ELEMENTARY_FUNCTIONS[record.function] = before
        _forget()


_CACHES: list[Any] = []


def cached(maxsize: int) -> Callable[[Callable[..., T]], Callable[..., T]]:
    """`lru_cache` for what follows from records: it is forgotten when they change."""

    def wrap(function: Callable[..., T]) -> Callable[..., T]:
        found = lru_cache(maxsize=maxsize)(function)
        _CACHES.append(found)
        return found

    return wrap


def _forget() -> None:
    for cache in _CACHES:
        cache.cache_clear()


def elementary_of(what: Any) -> ElementaryFunction | None:
    """The record of an expression's function, or of a SymPy class; None for anything else."""
    return ELEMENTARY_FUNCTIONS.get(what if isinstance(what, type) else what.func)


@cached(64)
def where(attribute: str) -> tuple[Any, ...]:
    """The SymPy classes of all functions with this property (`ElementaryFunction.bends`, `ElementaryFunction.positive`,
    …), for `has` and `atoms`."""
    return tuple(f for f, h in ELEMENTARY_FUNCTIONS.items() if getattr(h, attribute))


def records(attribute: str) -> Iterator[ElementaryFunction]:
    """The functions that have something there: a field that is not None, a property that holds."""
    return (ELEMENTARY_FUNCTIONS[f] for f in where(attribute))


@cached(1)
def own() -> tuple[type, ...]:
    """The classes that SymPy lacks: they are written by functions that it has (`written`)."""
    return tuple(f for f in ELEMENTARY_FUNCTIONS if issubclass(f, HeadFunction))


def written(e: sp.Expr) -> sp.Expr:
    """`e` with every function that SymPy lacks written out: log(1 + e^u) for softplus(u)."""
    return e.replace(lambda a: isinstance(a, own()), lambda a: a.func.written(*a.args)) if e.has(*own()) else e


def far_out(e: sp.Expr, w: sp.Symbol) -> sp.Expr:
    """`e`, a function of w > 0, with functions of what grows as w → 0 by what they are there: atan u = ±π/2 -
    atan(1/u). Heads with logarithms there stay.

    Raises: NotImplementedError (of SymPy's) where it is not known whether an argument grows.
    """

    def far(record: ElementaryFunction, u: sp.Expr) -> sp.Expr:
        lead, power = sp.together(u).leadterm(w) if u.has(w) else (sp.S.Zero, sp.S.Zero)
        if not power.is_negative:
            return record.function(u)
        if not (lead.is_positive or lead.is_negative):
            raise NotImplementedError(f"the sign of {u}")
        end = record.end(1 if lead.is_positive else -1)
        if not isinstance(end, PowerEnd) or any(m for _, m, _ in end.parts):
            return record.function(u)
        return sp.Add(*[sp.Abs(u) ** p * A(1 / u) if p else A(1 / u) for p, _, A in end.parts])

    for record in records("power_like"):
        if e.has(record.function):
            e = e.replace(record.function, lambda u, h=record: far(h, u))
    return e


def numpy_texts() -> Mapping[str, str]:
    """By name, what NumPy lacks: text in x, over `np` and `special()`."""
    return NUMPY | {h.name: h.numpy for h in records("numpy")}


def mpmath_functions() -> Mapping[str, Callable[[Any], Any]]:
    """By name, what mpmath lacks."""
    return {f.__name__: ELEMENTARY_FUNCTIONS[f].mpmath for f in own()}


@cached(1)
def fingerprint() -> str:
    """All that decides what the functions added in this process compute: a part of the name of stored modules."""
    return "\n".join(f"{h.name} {h.names} {h.values} {h.code} {_identity(h.function)} {_fields(h)}" for h in _ADDED)


def _fields(record: ElementaryFunction) -> str:
    return " ".join(_identity(value) for value in vars(record).values() if callable(value))


def _identity(function: Callable[..., Any]) -> str:
    """The text of a function or class, else its code."""
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):
        code = getattr(function, "__code__", None)
        return repr(function) if code is None else f"{code.co_code.hex()} {code.co_consts} {code.co_names}"


def vast(e: sp.Expr, most: float = 709.0) -> sp.Expr | None:
    """The innermost e^u, sinh u, cosh u or power of numbers in `e` that is larger than e^most, or smaller than
    e^-10^6; None where there is none.

    Its digits would fill the memory, or take hours: exp(exp(1e30)) has 10^(4·10^29) of them. 709 is the logarithm of
    the largest double.
    """
    for node in sp.postorder_traversal(e):
        if not node.is_number:
            continue
        if isinstance(node, where("grows_exponentially")):
            growth = ELEMENTARY_FUNCTIONS[node.func].growth
            one_sided = isinstance(growth, ExponentialGrowth) and growth.signs == (1,)
            size = sp.N(node.args[0] if one_sided else sp.Abs(node.args[0]), 15)
        elif node.is_Pow and (abs(node.exp) > 1000 if node.exp.is_Rational else True):
            size = sp.N(node.exp * sp.log(sp.Abs(node.base)), 15)
        else:
            continue
        if size.is_extended_real and not -1e6 <= size <= most:
            return node
    return None
