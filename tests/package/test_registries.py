"""Registries find rare entries in their homes: every name of a table exists, and its home registers it."""

from __future__ import annotations

import importlib
import re
import sys
from dataclasses import dataclass

import pytest

import meanfield as mf
import meanfield.theory.derivation  # where the table of presets stands
from meanfield.base.leading import Registry
from meanfield.networks.architectures import PRESETS
from meanfield.networks.records import ARCHITECTURES, Block
from meanfield.numeric.lowering import formulas  # noqa: F401  where nodes are refused
from meanfield.numeric.lowering.modules.module_functions import Functions
from meanfield.symbolic.averages.base import Node
from tests.package.test_imports import modules, name_of, tables

HELD = {name_of(path): found for path in modules() if (found := tables(path.read_text()))}
ENTRIES = [
    pytest.param(module, registry, key, home, id=f"{registry}-{key.rpartition('.')[2]}")
    for module, found in HELD.items()
    for registry, homes in found
    for key, home in homes.items()
]


def assert_registers(module: str, registry: str, key: str, home: str) -> None:
    """The registry that `module` has a table for holds this entry, and its home made it."""
    known = getattr(importlib.import_module(f"meanfield.{module}"), registry)
    place, _, name = key.rpartition(".")
    asked = getattr(importlib.import_module(f"meanfield.{place}"), name, None) if place else key
    assert asked is not None, f"meanfield.{place} has no {name}"
    assert asked in known, f"{home} registers nothing for {key}"
    made = known.data[asked]
    assert made.__module__ == f"meanfield.{home}", f"{key} is registered by {made.__module__}, not by {home}"


@pytest.mark.parametrize(("module", "registry", "key", "home"), ENTRIES)
def test_a_home_registers_what_the_table_says(module, registry, key, home):
    assert_registers(module, registry, key, home)


LOWERED = ("numeric.lowering.evaluators", "LOWERED")
MAXIMA = "numeric.lowering.many_positions.maximum_averages"


@pytest.mark.parametrize(
    ("key", "home", "said"),
    [
        ("symbolic.averages.nodes.maxima.Large", MAXIMA, "meanfield.symbolic.averages.nodes.maxima has no Large"),
        (
            "symbolic.averages.nodes.maxima.MaximumAverage",
            "numeric.lowering.distances.distance_functions",
            "is registered by .*maximum_averages",
        ),
        ("symbolic.averages.nodes.maxima.Max", MAXIMA, "registers nothing for symbolic.averages.nodes.maxima.Max"),
    ],
)
def test_a_wrong_line_of_a_table_is_seen(key, home, said, monkeypatch):
    monkeypatch.setattr(importlib.import_module("meanfield.symbolic.averages.nodes.maxima"), "Max", str, raising=False)
    with pytest.raises(AssertionError, match=said):
        assert_registers(*LOWERED, key, home)


@dataclass(frozen=True, repr=False)
class Unheard(Block):
    """A record that nobody registers a rule for."""


class Silent(Node):
    """A node of which nobody says how it is compiled."""

    def _sympystr(self, printer):
        return "silent"


def _compiled():
    Functions().of(Silent())


def _walked():
    mf.derive(architecture=mf.Sequential((Unheard(), mf.Nonlinearity("tanh"), mf.Dense()))).recursion("K")


def _named():
    mf.derive("tanh", architecture="resnte")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (_compiled, "silent is derived, but not compiled; register a function for Silent with lowers"),
        (_walked, "has no rule in the theory yet; finite networks with it can be measured"),
        (_named, "Unknown architecture 'resnte': did you mean 'resnet'?"),
    ],
)
def test_what_nobody_registers_is_refused_in_its_sentence(asked, said):
    with pytest.raises(mf.MeanFieldError, match=re.escape(said)):
        asked()


def test_every_preset_has_a_home():
    assert ARCHITECTURES.names == tuple(PRESETS) and "dyt" not in ARCHITECTURES
    assert all(ARCHITECTURES[name] is PRESETS[name] for name in PRESETS)


class Planted:
    """A type with a home in a table of this file."""


class Derived(Planted):
    """One without."""


@pytest.fixture
def registry(monkeypatch, tmp_path):
    """A registry of types, with a home that is not imported yet."""
    (tmp_path / "planted_home.py").write_text(
        "from meanfield.planted_registry import known, kind\nknown[kind] = 'entry'\n"
    )
    known: Registry[object, str] = Registry()
    held = type(sys)("meanfield.planted_registry")
    held.known, held.kind = known, Planted
    monkeypatch.setitem(sys.modules, "meanfield.planted_registry", held)
    monkeypatch.setattr(meanfield, "__path__", [*meanfield.__path__, str(tmp_path)])
    monkeypatch.setattr(Planted, "__module__", "meanfield.rooms")
    known.rare({"rooms.Planted": "planted_home", "by_name": "planted_home"})
    yield known
    sys.modules.pop("meanfield.planted_home", None)


def test_an_entry_is_found_in_its_home(registry):
    assert not registry.data and Derived not in registry
    assert registry.nearest(Derived) == "entry" and registry[Planted] == "entry" and Planted in registry


def test_one_that_nobody_registers_is_not_found(registry):
    """Neither a type without a home, nor one whose home does not register it."""
    assert registry.get(str) is None and str not in registry and registry.nearest(str) is None
    assert "by_name" not in registry
    with pytest.raises(KeyError, match="by_name"):
        registry["by_name"]


def test_what_others_register_takes_its_place_and_keeps_it(registry):
    registry[Planted] = "their own"
    importlib.import_module("meanfield.planted_home")  # has come before, and does not take it back
    assert registry[Planted] == "their own"


def test_a_type_of_ones_own_is_not_mistaken(registry, monkeypatch):
    """A name counts with the package: a type in a module of one's own that is called as one of ours has no home."""
    monkeypatch.setattr(Planted, "__module__", "rooms")
    assert Planted not in registry
