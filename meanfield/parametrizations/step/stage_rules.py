"""The stages of a network, from its record: a rule for each record of the library."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from meanfield.base.errors import MeanFieldError
from meanfield.functions.activations import activation
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Param,
    Pool,
    Residual,
    RMSNorm,
    Scale,
    Sequential,
)
from meanfield.numeric.quadrature.covariances.slopes import slopes_of
from meanfield.parametrizations.exponents.unknown_steps import refuse, rule_of
from meanfield.parametrizations.step.affine_stage import AffineStage
from meanfield.parametrizations.step.norm_stages import BatchNormStage, GainStage, NormStage, PoolStage
from meanfield.parametrizations.step.own_changes import MatrixStep
from meanfield.parametrizations.step.populations import Population
from meanfield.parametrizations.step.step_case import Case
from meanfield.parametrizations.step.training_stages import (
    STAGES,
    ChainStage,
    FunctionStage,
    GateStage,
    ScaleStage,
    SkipStage,
    Stage,
    stage,
)

ASKED = "A coordinate check was asked"


@dataclass
class Builder:
    """Where a record stands: the case, the layer that is made, and how many neurons come in; `affine`: the Dense so
    far."""

    case: Case
    among: Population
    layer: int
    neurons: float
    kinds: Iterator[str]
    affine: list[AffineStage] = field(default_factory=list)

    def make(self, record: Block) -> Stage:
        """The stage of a record here. Raises: MeanFieldError for one without a rule."""
        adds = "meanfield.parametrizations.stage, or take networks alone"
        return rule_of(STAGES, record, ASKED, adds)(record, self)

    def number(self, of: Any, what: str) -> float:
        """A number of a record, in the block at hand."""
        if isinstance(of, Param):
            raise MeanFieldError(f"A coordinate check needs a number for {what} {of.name}; give {of.name}=...")
        return self.case.deviation(of, 0.0, self.layer - 1)

    def bias_like(self, kind: str = "hidden") -> MatrixStep:
        """A bias, gain or shift as the optimizer moves it."""
        found = self.case.bias_factors(kind)
        return MatrixStep(found["multiplier"], found["rate"], found["eps"], 1.0, 1.0)


def stages_of(case: Case, among: Population) -> tuple[ChainStage, list[AffineStage]]:
    """The whole network, and its Dense in the order in which signals meet them."""
    made: list[Stage] = []
    builder = Builder(case, among, 1, float(case.inputs.shape[1]), iter(()))
    for layer in range(1, case.depth + 1):
        builder.layer, builder.kinds = layer, iter(case.kinds(layer))
        block = case.network.first if layer == 1 else case.head if layer == case.depth else case.network.block
        made.append(builder.make(block))
    return ChainStage(made), builder.affine


@stage(Sequential)
def _sequential(record: Sequential, at: Builder) -> Stage:
    return ChainStage([at.make(one) for one in record.blocks])


@stage(Residual)
def _residual(record: Residual, at: Builder) -> Stage:
    before = at.neurons
    shortcut = Stage() if record.shortcut is None else at.make(record.shortcut)
    behind, at.neurons = at.neurons, before
    branch: Stage = at.make(record.branch)
    if behind != at.neurons:
        raise MeanFieldError(f"A skip adds {behind:g} neurons to {at.neurons:g}; give both ways as many.")
    if at.layer < at.case.depth and at.case.branch() != 1:
        branch = ChainStage([branch, ScaleStage(at.case.branch())])
    return SkipStage(shortcut, branch, at.number(record.mu, "the strength of a skip"))


@stage(Nonlinearity)
def _nonlinearity(record: Nonlinearity, at: Builder) -> Stage:
    return _function(record)


def _function(record: Nonlinearity | Gate) -> Stage:
    refuse(record, ASKED)
    return FunctionStage(slopes_of(activation(record.activation), 1))


@stage(Dense)
def _dense(record: Dense, at: Builder) -> Stage:
    refuse(record, ASKED)
    case, kind = at.case, next(at.kinds)
    last = kind == "readout"
    out = 1.0 if last else case.width * at.number(record.expand, "the factor expand")
    of, of_bias, block = case.factors(kind), case.bias_factors(kind), at.layer - 1
    scheme = case.parametrization
    made = AffineStage(
        at.among,
        (scheme.stepping(kind), scheme.stepping("bias")),
        MatrixStep(of["multiplier"], of["rate"], case.adam_eps(kind), at.neurons, out),
        MatrixStep(of_bias["multiplier"], of_bias["rate"], of_bias["eps"], 1.0, out) if case.biases else None,
        case.deviation(record.sigma_w, case.sigma_w, block) * of["deviation"],
        case.deviation(record.sigma_b, case.sigma_b, block) * of_bias["deviation"],
        kind == "input",
        last,
    )
    at.neurons = out
    at.affine.append(made)
    return made


@stage(Gate)
def _gate(record: Gate, at: Builder) -> Stage:
    before = at.neurons
    value = at.make(record.value)
    at.neurons = before
    return GateStage(value, ChainStage([at.make(record.gate), _function(record)]))


def _norm(centred: bool, record: Any, at: Builder) -> Stage:
    if not record.affine:
        return NormStage(centred)
    return ChainStage([NormStage(centred), _gains(at, shifted=centred)])


def _gains(at: Builder, shifted: bool) -> GainStage:
    kind = "hidden" if at.layer < at.case.depth else "input"  # without powers of L
    return GainStage(at.case.parametrization.stepping("bias"), at.bias_like(kind), shifted)


@stage(LayerNorm)
def _layer_norm(record: LayerNorm, at: Builder) -> Stage:
    return _norm(True, record, at)


@stage(RMSNorm)
def _rms_norm(record: RMSNorm, at: Builder) -> Stage:
    return _norm(False, record, at)


@stage(BatchNorm)
def _batch_norm(record: BatchNorm, at: Builder) -> Stage:
    if len(at.case.inputs) < 3:
        raise MeanFieldError(
            f"A BatchNorm takes means over the batch, at least 3 inputs, but {len(at.case.inputs)} were given; give "
            "more inputs."
        )
    made = BatchNormStage()
    return ChainStage([made, _gains(at, shifted=True)]) if record.affine else made


@stage(AffineNorm)
def _affine_norm(record: AffineNorm, at: Builder) -> Stage:
    return _gains(at, shifted=True)


@stage(Scale)
def _scale(record: Scale, at: Builder) -> Stage:
    return ScaleStage(at.number(record.factor, "the factor"))


@stage(Pool)
def _pool(record: Pool, at: Builder) -> Stage:
    refuse(record, ASKED)
    if at.neurons < record.size:
        raise MeanFieldError(f"A Pool of {record.size} neurons meets {at.neurons:g} at layer {at.layer}.")
    at.neurons = float(int(at.neurons) // record.size)
    return PoolStage(record.size, record.kind)
