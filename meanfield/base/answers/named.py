"""Values for symbols by their names: SymPy tells symbols of one name and other assumptions apart, a reader does not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any

import sympy as sp

from meanfield.base.answers.plain_text import text
from meanfield.base.arguments import meant, scalar, shown
from meanfield.base.errors import MeanFieldError

_readers: list[Callable[[object, str], sp.Expr]] = []


def reader(read: Callable[[object, str], sp.Expr]) -> Callable[[object, str], sp.Expr]:
    """Register what reads a number as text exactly ("sqrt(2)", 0.1 as 1/10): the parser of formulas."""
    _readers[:] = [read]
    return read


def values_by_name(expressions: Iterable[sp.Expr], values: Mapping[Any, object]) -> dict[sp.Symbol, sp.Expr]:
    """The symbols of expressions with what is given for them, by name or by a symbol of the same name.

    Raises: MeanFieldError for a name that is none of theirs, and for a number outside of what its symbol stands for.
    """
    free = set().union(*(e.free_symbols for e in expressions))
    known = sorted({s.name for s in free})
    found: dict[sp.Symbol, sp.Expr] = {}
    for key, given in values.items():
        name = key.name if isinstance(key, sp.Symbol) else key
        if not isinstance(name, str) or name not in known:
            raise MeanFieldError(f"{shown(name)} is no symbol here.{meant(name, known)}")
        value = _exact(given, name)
        for symbol in (s for s in free if s.name == name):
            if value.is_number and not _fits(symbol, value):
                kind = "> 0" if symbol.is_positive else "≥ 0" if symbol.is_nonnegative else "a whole number"
                raise MeanFieldError(f"{name} must be {kind}, but {shown(given)} was given.")
            found[symbol] = value
    return found


def _exact(given: object, name: str) -> sp.Expr:
    scalar(given, name)
    if isinstance(given, sp.Expr) and (given.free_symbols or not given.has(sp.Float)):
        return given
    return _readers[0](given, name) if _readers else sp.Rational(Fraction(str(given)))


def _fits(symbol: sp.Symbol, value: sp.Expr) -> bool:
    if symbol.is_nonnegative and (value < 0 or (symbol.is_positive and value == 0)):
        return False
    return not symbol.is_integer or value == sp.floor(value)


def given_values(values: Mapping[Any, object] | None, named: Mapping[str, object]) -> dict[Any, object]:
    """Values in a mapping and as keywords."""
    if values is not None and not isinstance(values, Mapping):
        raise MeanFieldError(f"Values are given by name, at(K=1) or at({{'K': 1}}), but {shown(values)} was given.")
    return {**(values or {}), **named}


class Formulas(dict[str, sp.Expr]):
    """Formulas by name, which `at` puts numbers into.

    >>> K = sp.Symbol("K", positive=True)
    >>> Formulas(chi_J=2 / K).at(K="1/2")
    {'chi_J': 4}
    """

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{name!r}: {text(e)}' for name, e in self.items())}}}"

    def at(self, values: Mapping[Any, object] | None = None, **named: object) -> Formulas:
        """The formulas with numbers, or other expressions, for symbols by name; those not named stay."""
        swap = values_by_name(self.values(), given_values(values, named))
        return Formulas({name: e.subs(swap) for name, e in self.items()})
