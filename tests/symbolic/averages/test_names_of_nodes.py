"""No name that a node adds is one of SymPy's: a caller that asks a node without it would be answered by SymPy, in
silence and with something else (`x.apart` is partial fractions, `x.n` digits, `x.kind` the sort of object)."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import sympy as sp

import meanfield as mf

#: SymPy's own hooks, which a node answers in SymPy's sense
HOOKS = {"doit", "free_symbols", "sort_key", "func", "default_assumptions"}


def _below(cls: type) -> Iterator[type]:
    for one in cls.__subclasses__():
        yield one
        yield from _below(one)


def _ours(cls: type) -> bool:
    return (cls.__module__ or "").split(".")[0] in ("meanfield", __name__.split(".")[0])


def names_of_sympy(cls: type) -> set[str]:
    """The public names that a class, or what it inherits from the library, adds though SymPy's Expr has them."""
    added = {n for base in cls.__mro__ if _ours(base) for n in vars(base) if not n.startswith("_")}
    return {n for n in added - HOOKS if hasattr(sp.Expr, n) and not n.startswith("is_")}


def nodes() -> set[type]:
    for part in ("symbolic", "functions", "numeric", "explorer"):
        package = importlib.import_module(f"meanfield.{part}")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(found.name)
    return {one for one in _below(sp.Basic) if (one.__module__ or "").startswith("meanfield.")}


def test_no_node_adds_a_name_that_sympy_has():
    found = nodes()
    assert mf.symbolic.Average in found and len(found) > 20
    assert {one.__name__: names_of_sympy(one) for one in found if names_of_sympy(one)} == {}


def test_control_a_planted_name_is_seen():
    class Planted(sp.Expr):
        apart, which, is_ratio = 1, 2, True

        def doit(self, **hints):
            return self

    assert names_of_sympy(Planted) == {"apart"}
