"""The rules of exponents of every record of the library."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from meanfield.empirical.training.readout import readout_of
from meanfield.functions.activations import activation
from meanfield.networks.folds import dense_of
from meanfield.networks.records import (
    AffineNorm,
    Block,
    Dense,
    Gate,
    Network,
    Nonlinearity,
    Norm,
    Pool,
    Residual,
    Scale,
    Schedule,
    Sequential,
)
from meanfield.parametrizations.exponents.power_matrices import AffineRule, Moved
from meanfield.parametrizations.exponents.power_rules import (
    ZERO,
    Chain,
    FactorRule,
    Function,
    NoPower,
    Normalized,
    Product,
    Rule,
    Skip,
    Watch,
)
from meanfield.parametrizations.exponents.record_positions import ASKED, DEPTH, WIDTH, RecordPosition, power_rule
from meanfield.parametrizations.exponents.unknown_steps import refuse


@power_rule(Sequential)
def _sequential(record: Sequential, at: RecordPosition) -> Rule:
    return Chain([at.make(one) for one in record.blocks])


@power_rule(Residual)
def _residual(record: Residual, at: RecordPosition) -> Rule:
    deep = at.size == DEPTH and at.skips == 0
    strength = at.number(record.mu)
    if deep and strength != 1:
        raise NoPower("The skips are not of strength 1, so that L of them are no power of L; take mu=1")
    if deep and record.shortcut is not None:
        raise NoPower("The skips hold a shortcut that is not the identity, so that L of them are no power of L")
    at.skips += 1
    kept = Rule() if record.shortcut is None else at.make(record.shortcut)
    at.ends_in_dense = False
    branch = at.make(record.branch)
    at.skips -= 1
    if deep and not at.ends_in_dense:
        raise NoPower(
            "A branch does not end in a Dense, so that what L of them add depends on the mean of its activation; put a "
            "Dense at the end of branches"
        )
    factor = at.exponent(at.scheme.branch)
    return Chain([branch, FactorRule(factor)]) if strength == 0 else Skip(kept, branch, factor, deep)


@power_rule(Dense)
def _dense(record: Dense, at: RecordPosition) -> Rule:
    refuse(record, ASKED)
    at.refuse_chain("Dense")
    kind = next(at.kinds)
    weights = at.moved(kind)
    weights.variance += 2 * at.falls(record.sigma_w, "the sigma_w of a Dense")
    made = AffineRule(at.watch, kind, weights, _bias(record, kind, at), *_fans(kind, at))
    at.affine.append(made)
    at.ends_in_dense = True
    return made


def _fans(kind: str, at: RecordPosition) -> tuple[Fraction, Fraction]:
    """Exponents of fan-in and fan-out: inputs and the output have a fixed number of entries."""
    return Fraction(at.size == WIDTH and kind != "input"), Fraction(at.size == WIDTH and kind != "readout")


def _bias(record: Dense, kind: str, at: RecordPosition) -> Moved | None:
    if isinstance(record.sigma_b, Schedule):
        falls = at.falls(record.sigma_b, "the sigma_b of a Dense")
    elif at.number(record.sigma_b) == 0:
        return None
    else:
        falls = ZERO
    if kind == "readout":  # one number for each output: it has no width, and moves at the base rate
        return Moved(at.scheme.stepping("bias"))
    bias = at.moved("bias", at.outside)
    bias.variance += 2 * falls
    return bias


@power_rule(Nonlinearity)
def _nonlinearity(record: Nonlinearity, at: RecordPosition) -> Rule:
    return _function(record, at)


def _function(record: Nonlinearity | Gate, at: RecordPosition) -> Function:
    refuse(record, ASKED)
    phi = activation(record.activation)
    at.refuse_chain("activations")
    at.ends_in_dense = False

    def linear() -> bool:
        sides = [phi.taylor(1, side) for side in (1, -1)]
        return all(value == 0 for value, _ in sides) and any(slope != 0 for _, slope in sides)

    return Function(at.watch, str(phi), linear)


@power_rule(Gate)
def _gate(record: Gate, at: RecordPosition) -> Rule:
    value = at.make(record.value)
    return Product(at.watch, value, Chain([at.make(record.gate), _function(record, at)]))


@power_rule(Norm)
def _norm(record: Norm, at: RecordPosition) -> Rule:
    return Chain([Normalized(), at.gains()]) if record.affine else Normalized()


@power_rule(AffineNorm)
def _affine_norm(record: AffineNorm, at: RecordPosition) -> Rule:
    return at.gains()


@power_rule(Scale)
def _scale(record: Scale, at: RecordPosition) -> Rule:
    if at.number(record.factor) != 1:
        at.refuse_chain("factors that are not 1")
    return FactorRule(at.falls(record.factor, "the factor of a Scale"))


@power_rule(Pool)
def _pool(record: Pool, at: RecordPosition) -> Rule:
    refuse(record, ASKED)
    at.refuse_chain("pools")
    at.ends_in_dense = False
    return Function(at.watch, f"a Pool ({record.kind})", lambda: True)


def rules_of(
    scheme: Any, network: Network, values: Mapping[str, Any], size: str, watch: Watch
) -> tuple[Rule, Rule, Rule, list[AffineRule]]:
    """The rules of input layer, block and readout, and their Dense in this order."""
    affine: list[AffineRule] = []

    def made(record: Block, kinds: list[str], outside: bool) -> Rule:
        return RecordPosition(scheme, size, values, watch, iter(kinds), outside, affine=affine).make(record)

    first = made(network.first, ["input"], True)
    block = made(network.block, ["hidden"] * len(dense_of(network.block)), False)
    head = readout_of(network.block) or network.block
    return first, block, made(head, ["readout"], True), affine
