"""Walks over records: one fold, one rebuild, one way through; a composite record of one's own is walked like any."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.leading import Registry
from meanfield.empirical.network.operations.operation import OPERATIONS, operation
from meanfield.empirical.network.operations.operations import Multiply
from meanfield.empirical.network.program import RecordNumbers
from meanfield.networks.folds import (
    activations_of,
    chain,
    dense_of,
    fold,
    has_norm,
    parts,
    rebuild,
    skip_of,
    symbols_in,
    through,
    with_activations,
    with_dense,
)
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Param,
    Pool,
    Projection,
    Residual,
    Scale,
    Schedule,
    Sequential,
    mlp,
    scheduled,
)
from meanfield.numeric.run.layer_widths import inner_factors, refuse_rigid
from meanfield.parametrizations import parametrization
from meanfield.parametrizations.step.step_case import Case
from meanfield.symbolic.recursions.block_recursions import plain_form, untrained
from meanfield.theory.queries.given_values import symbols_of, with_values
from meanfield.tuning.dense_layers import kinds

PACKAGE = Path(mf.__file__).parent
TANH, RELU = Nonlinearity("tanh"), Nonlinearity("relu")
WIDE = Dense(expand=4)
GATED = Residual(Sequential((LayerNorm(), Gate("silu", WIDE, WIDE), Dense())), "a", Sequential((TANH, Dense())))


@dataclass(frozen=True, repr=False)
class Twice(Block):
    """A record of one's own that is made of others: `block`, then `block` again, then those of `more`."""

    block: Block
    more: tuple[Block, ...] = ()
    strength: Param | int = 1


OWN = Twice(Sequential((TANH, Dense(sigma_w="s"))), (RELU, Dense(), Scale("t")), Param("u"))


@pytest.mark.parametrize("block", [GATED, OWN, Network(GATED, Dense(sigma_w=1)), mlp("tanh"), Sequential(()), Pool()])
def test_a_record_made_of_what_it_is_made_of_is_itself(block):
    assert block.with_inner(block.inner()) == block
    assert rebuild(block, lambda one: one) is block
    assert rebuild(block, lambda one: replace(one)) == block


def test_parts_in_the_order_of_signals():
    """A shortcut before its branch, a value before its gate, and the function behind it."""
    assert list(parts(GATED)) == [TANH, Dense(), LayerNorm(), WIDE, WIDE, Nonlinearity("silu"), Dense()]
    assert list(parts(OWN)) == [TANH, Dense(sigma_w="s"), RELU, Dense(), Scale("t")]
    assert activations_of(GATED) == ("tanh", "silu") and len(dense_of(GATED)) == 4


def test_what_is_asked_of_records_of_ones_own():
    assert symbols_in(OWN) == {"sigma_w", "sigma_b", "s", "t", "u"}
    assert symbols_of((OWN, Dense())) == symbols_in(OWN)
    assert with_values(OWN, {"s": 2, "t": 3, "u": 4}) == Twice(
        Sequential((TANH, Dense(sigma_w=2))), (RELU, Dense(), Scale(3)), 4
    )
    assert with_activations(OWN, str.upper) == Twice(
        Sequential((Nonlinearity("TANH"), Dense(sigma_w="s"))), (Nonlinearity("RELU"), Dense(), Scale("t")), Param("u")
    )
    assert [d.sigma_w for d in dense_of(with_dense(OWN, lambda i, d: replace(d, sigma_w=i)))] == [0, 1]
    assert fold(OWN, lambda one, inside: isinstance(one, Scale) or any(inside))


def test_a_norm_is_found_at_any_depth():
    assert has_norm(GATED) and has_norm(Twice(TANH, (Sequential((BatchNorm(),)),)))
    assert not has_norm(OWN) and not has_norm(AffineNorm())  # gains alone divide by nothing


class Wider(Dense):
    """A record that is derived from one of the library."""


def test_a_registry_holds_what_a_record_is_derived_from():
    table: Registry[type, str] = Registry()
    table.adds(Dense)("dense")
    assert [table.nearest(type(one)) for one in (Dense(), Wider(), TANH)] == ["dense", "dense", None]
    table |= {Block: "any", Wider: "own"}
    assert table.nearest(Wider) == "own" and table.nearest(type(TANH)) == "any"


@dataclass(frozen=True, repr=False)
class Same(Block):
    """A record of one's own with an operation in networks, and one derived from it that has none."""


@dataclass(frozen=True, repr=False)
class Alike(Same):
    pass


def test_networks_read_what_is_derived_from_a_record_of_ones_own():
    def k_of(block: Block) -> float:
        found = mf.measure(block, sigma_w=1.5, sigma_b=0.1, width=32, depth=3, networks=2, quantities=("K",))
        return float(found.K.mean[-1])

    def behind(*before: Block) -> Sequential:
        return Sequential((*before, TANH, Dense()))

    with pytest.raises(mf.MeanFieldError, match=r"was asked for with Alike\(\); a block is made of"):
        k_of(behind(Alike()))
    try:
        operation(Same)(lambda record: Multiply((1.0, 1.0, 1.0)))
        assert k_of(behind(Alike())) == k_of(behind())
        operation(Same)(lambda record: Multiply((1.0, 1.0, 2.0)))  # planted: another one
        assert k_of(behind(Alike())) > 1.1 * k_of(behind())
    finally:
        del OPERATIONS[Same]


def test_a_schedule_falls_as_it_is_written():
    """value · k^(-beta/2) L^(-total/2) in networks and in a training step; with the exponents exchanged, not."""
    fallen = Schedule(3, "1/2", 1)
    by_hand = [3 / (max(k, 1) ** 0.25 * 4**0.5) for k in range(5)]
    in_networks = RecordNumbers({}, 5, None).scheduled(fallen, "the factor")
    case = Case(mlp("tanh"), parametrization("sp"), 1, 0, 8, 5, X := np.ones((1, 4)), 0.1, 0, X[:, 0])
    in_a_step = [case.deviation(fallen, 1.0, k) for k in range(5)]
    assert in_networks == pytest.approx(by_hand, rel=1e-14) and in_a_step == pytest.approx(by_hand, rel=1e-14)
    assert scheduled(3, 4, 3.0, 1.0, 0.5) != pytest.approx(by_hand[3], rel=1e-3)


def test_a_state_goes_every_way():
    """Neurons per neuron of the layer that is made, by every way of a sum and of a product."""
    met = []

    def of(part, x):
        met.append((type(part).__name__, x))
        return part.sizes(x, None, lambda n: Fraction(n))[0]

    def joined(part, ways):
        return ways

    block = Sequential((WIDE, Residual(Sequential((Pool(2), TANH)), 1), Projection()))
    assert through(block, Fraction(1), of, lambda _, ways: ways[-1]) == 1
    assert met == [("Dense", 1), ("Pool", 4), ("Nonlinearity", 2), ("Projection", 2)]
    assert through(Gate("silu", WIDE, WIDE), Fraction(1), of, joined) == (4, 4)
    assert through(Residual(WIDE), Fraction(1), of, joined) == (1, 4)


def test_what_is_nested_is_read_like_what_is_not():
    """A Sequential in a Sequential is the longer one: skips, plain forms, sizes and laws."""
    flat = Sequential((WIDE, TANH, Dense()))
    nested = Sequential((Sequential((WIDE, TANH)), Sequential((Dense(),))))
    assert chain(nested) == flat.blocks and inner_factors(nested, {}) == inner_factors(flat, {}) == (4,)
    assert skip_of(Sequential((Residual(flat, "m"),))) == Residual(flat, "m") and skip_of(flat) is None
    assert [(k.fan, k.made) for k in kinds(nested)] == [(1, 4), (4, 1)]
    assert plain_form(Sequential((Sequential((TANH,)), Dense()))) == plain_form(mlp("tanh"))
    skip = mf.derive(architecture=Sequential((Residual(Sequential((Sequential((RELU,)), Dense())), 1),)))
    assert str(skip.depth_law("K", sigma_w=1, sigma_b=0)) == str(
        mf.derive("relu", residual=True, mu=1).depth_law("K", sigma_w=1, sigma_b=0)
    )


@pytest.mark.parametrize(
    "block",
    [
        Sequential((TANH, Pool(2), Dense(expand=2))),
        Residual(Sequential((TANH, Dense())), 1),
        Sequential((TANH, Pool(2))),
    ],
)
def test_widths_are_refused_where_a_block_does_not_make_any(block):
    with pytest.raises(mf.MeanFieldError, match="Widths that vary are not available"):
        refuse_rigid(block)
    refuse_rigid(Residual(Sequential((Gate("silu", WIDE, WIDE), Pool(2), Dense())), 1, Projection()))


def test_trained_gains_are_fixed_wherever_they_stand():
    block = Sequential((AffineNorm(), Residual(Sequential((BatchNorm(), TANH, Dense())), 1, LayerNorm())))
    assert untrained(block) == Sequential(
        (Sequential(()), Residual(Sequential((BatchNorm(False), TANH, Dense())), 1, LayerNorm(False)))
    )


# ------------------------------------------------------------------------------------------- who names which record

#: where a record may be named: where it is defined, its presets, its rules and its operation
HOMES = {
    "__init__",
    "networks/records",
    "networks/architectures",
    "networks/folds",
    "empirical/network/program",
    "numeric/tokens/token_walk",
    "recipes/rows/recipe_shapes",
    "parametrizations/step/stage_rules",
    "parametrizations/exponents/power_records",
}
RULES = {
    "BatchNorm": {"symbolic/recursions/batch"},
    "AffineNorm": {"symbolic/recursions/batch", "networks/transformers"},
    "Pool": {"symbolic/recursions/pooling_rule", "parametrizations/exponents/unknown_steps"},
    "Gate": {"symbolic/recursions/gates", "networks/transformers"},
    "LayerNorm": {
        "symbolic/recursions/record_rules",
        "symbolic/recursions/naming",
        "symbolic/asymptotics/schedules/branch",
        "networks/transformers",
    },
    # factors of branches that are written
    "Scale": {"symbolic/recursions/record_rules", "tuning/dense_layers", "parametrizations/step/step_case"},
}


def names(text: str) -> set[str]:
    """The records of the library that a module imports from where they are defined."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == "meanfield.networks.records":
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ClassDef):
            found |= {node.name}
    return found


def assert_at_home(record: str, modules: dict[str, str]) -> None:
    strangers = {name for name, text in modules.items() if record in names(text)} - HOMES - RULES[record]
    assert not strangers, (
        f"{record} is named in {strangers}; ask the record (mixes, normalizes, untrained, sizes, ways)"
    )


def _modules() -> dict[str, str]:
    texts = {str(p.relative_to(PACKAGE).with_suffix("")): p.read_text() for p in PACKAGE.rglob("*.py")}
    return {name: text for name, text in texts.items() if "meanfield.networks.records import" in text}


@pytest.mark.slow
@pytest.mark.parametrize("record", RULES)
def test_a_record_is_named_where_it_is_read(record):
    assert_at_home(record, _modules())


def test_control_a_stranger_is_seen():
    text = "from meanfield.networks.records import Block, BatchNorm\n"
    with pytest.raises(AssertionError, match="BatchNorm is named in"):
        assert_at_home("BatchNorm", _modules() | {"verbs/new": text})


def descends(text: str) -> list[str]:
    """Functions that call themselves on the parts of a record, by the field's name: walks written by hand."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        fields = {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
        patterns = {
            n.cls.id for n in ast.walk(function) if isinstance(n, ast.MatchClass) and isinstance(n.cls, ast.Name)
        }
        called = {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}
        composite = {"branch", "blocks", "shortcut"} & fields or {"Sequential", "Residual"} & patterns
        if composite and function.name in called:
            found.append(function.name)
    return found


#: the readings themselves: finite networks, drawn token matrices, and the record that opens its last Dense
READINGS = {
    "empirical/network/program": ["walk"],
    "numeric/tokens/token_walk": [],
    "symbolic/recursions/block_recursions": ["opened"],
}


@pytest.mark.slow
def test_nothing_else_walks_a_record():
    met = {
        name: descends(text) for name, text in _modules().items() if name not in ("networks/records", "networks/folds")
    }
    assert {name: found for name, found in met.items() if found} == {k: v for k, v in READINGS.items() if v}


def test_control_a_walk_by_hand_is_seen():
    assert descends("def inner(b):\n    match b:\n        case Residual(x, _, _):\n            return inner(x)\n") == [
        "inner"
    ]
    assert descends("def inner(b):\n    return [inner(one) for one in b.blocks]\n") == ["inner"]
    assert descends("def inner(b):\n    return fold(b, lambda one, inside: one)\n") == []


def test_schedules_hold_their_symbols():
    assert symbols_in(Dense(sigma_w=Schedule("s", "b", "t"))) == {"s", "b", "t", "sigma_b"}
