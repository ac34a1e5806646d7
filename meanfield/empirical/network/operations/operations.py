"""What a network is made of: operations on a signal, or on the stack of signals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.functions.groups import group_jet, jumps
from meanfield.empirical.functions.jets import Jet
from meanfield.empirical.functions.reference_functions import derivatives
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.functions.user_formulas import has_switches
from meanfield.empirical.network.operations.attention_operation import HeadSizes
from meanfield.empirical.network.operations.forward import (
    apply_batch_norm,
    apply_group,
    apply_map,
    apply_norm,
    apply_pool,
    apply_root_norm,
)
from meanfield.empirical.network.operations.operation import Join, Operation, Parameter, Shape
from meanfield.empirical.network.operations.operation_derivatives import Derivative, Factor, GainsDerivative, Slope
from meanfield.empirical.network.operations.operation_walk import Carrier, Site
from meanfield.empirical.network.operations.weighted import Projected, Weighted, WeightedTokens
from meanfield.empirical.random.buffers import aligned
from meanfield.empirical.random.matrices import Matrix
from meanfield.networks.pooling import POOLS

# ------------------------------------------------------------------------------------------------------- on the stack


class _OnStack(Operation):
    """A carrier does by itself what it does."""

    bends = ""


@dataclass(frozen=True)
class Save(_OnStack):
    """Remember y."""

    def visit(self, carrier: Carrier, site: Site) -> None:
        carrier.save()


@dataclass(frozen=True)
class Swap(_OnStack):
    """Exchange y and the last one remembered."""

    def visit(self, carrier: Carrier, site: Site) -> None:
        carrier.swap()


@dataclass(frozen=True)
class AddSaved(_OnStack):
    """y → y + μ y′ with y′ the last one remembered, which is then forgotten; μ = mu[l − 1] in the block that makes
    layer l."""

    mu: tuple[float, ...]

    def visit(self, carrier: Carrier, site: Site) -> None:
        carrier.add(self.mu[site.layer - 1])


@dataclass(frozen=True)
class MultiplySaved(Join):
    """y → y ⊙ y′, neuron by neuron, with y′ the last one remembered, which is then forgotten."""

    def joined(self, signals: Sequence[np.ndarray], site: Site) -> tuple[np.ndarray, tuple[Derivative, ...]]:
        saved, top = signals
        return np.multiply(top, saved, out=site.new(*top.shape)), (Slope(top), Slope(saved))

    def joined_formula(self, signals: Sequence[Jet], site: Site) -> Jet:
        saved, top = signals
        return top * saved

    def bent(
        self, derivatives: Sequence[Derivative], tangents: Sequence[np.ndarray], cotangents: np.ndarray
    ) -> Sequence[np.ndarray]:
        return [(cotangents * other).sum(axis=0) for other in reversed(tangents)]


# ------------------------------------------------------------------------------------------------------- with weights


@dataclass(frozen=True)
class DenseOperation(Operation):
    """y → σ_w n^{−1/2} W y + σ_b b, the `ordinal`-th Dense of the block (of a layer, for the input layer).

    sigma_w, sigma_b: one per layer, or None for the network's own. expand: outputs per neuron of the layer that is made
    (per input token if `tokens`), one per layer. heads: what says how many there are in their place.
    """

    ordinal: int
    law: str = "gaussian"
    sigma_w: tuple[float, ...] | None = None
    sigma_b: tuple[float, ...] | None = None
    expand: tuple[float, ...] | None = None
    tokens: bool = False
    heads: HeadSizes | None = field(default=None, repr=False)  # a checkpoint knows it by what mixes the heads

    trains = ("W", "b")

    @property
    def mixes_tokens(self) -> bool:
        return self.tokens

    def outputs(self, layer: int, basis: int) -> int:
        """How many: those of the heads, or `expand` times `basis`, which must be a whole number."""
        if self.heads is not None:
            return self.heads.outputs(layer, basis)
        factor = 1.0 if self.expand is None else self.expand[layer - 1]
        number = round(factor * basis) if factor * basis < 1 << 53 else 0
        if number < 1 or abs(number - factor * basis) > 1e-9 * number:
            raise MeanFieldError(
                f"A Dense with expand = {factor:g} makes {factor * basis:g} of {basis} "
                f"{'tokens' if self.tokens else 'neurons'} at layer {layer}; the product must be a whole number ≥ 1."
            )
        return number

    def shape(self, here: Shape, layer: int, end: Shape) -> Shape:
        if self.tokens:
            return self.outputs(layer, end[0]), here[1]
        return here[0], self.outputs(layer, end[1])

    def parameters(self, here: Shape, layer: int, end: Shape) -> tuple[Parameter, ...]:
        which = 0 if self.tokens else 1
        outputs, inputs, role = self.shape(here, layer, end)[which], here[which], 2 * self.ordinal
        weights = Parameter("W", (outputs, inputs), law=self.law, role=role)
        return weights, Parameter("b", (outputs,), role=role + 1)

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative]:
        step_w, step_b = site.weights.steps(self, site.layer) if site.differentiate else (0.0, 0.0)
        if self.tokens:
            return self._mix(z, site, step_w, step_b)
        new_z, matrix, back = _weighed(self, z, site, self.outputs(site.layer, site.end[1]))
        return new_z, Weighted(z, step_w / math.sqrt(z.shape[1]), step_b, matrix, back)

    def rated(self, here: Shape, site: Site) -> dict[str, tuple[np.ndarray, float]]:
        """As w and β: a step of W is one of w."""
        which = 0 if self.tokens else 1
        outputs, inputs = self.shape(here, site.layer, site.end)[which], here[which]
        w, b = site.weights.whole(self, site, (outputs, inputs))
        step_w, step_b = site.weights.steps(self, site.layer)
        return {"W": (w, step_w / math.sqrt(inputs)), "b": (np.zeros(outputs) if b is None else b, step_b)}

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        if not self.tokens:
            return z @ values["W"].linear(_turned) + values["b"]
        w = values["W"].linear(lambda one: one[..., None, :, :])
        b = values["b"].linear(lambda one: _turned(one)[..., None, :, :])
        y = z.linear(lambda one: one.reshape(*one.shape[:-2], site.inputs, -1, one.shape[-1]))
        return (w @ y + b).linear(lambda one: one.reshape(*one.shape[:-3], -1, one.shape[-1]))

    def _mix(self, z: np.ndarray, site: Site, step_w: float, step_b: float) -> tuple[np.ndarray, Derivative]:
        """On the tokens: a small matrix, whose products are too many to be worth revealing one by one."""
        neurons, inputs = z.shape[1], site.inputs
        old, new = len(z) // inputs, self.outputs(site.layer, site.end[0])
        weights, bias = site.weights.whole(self, site, (new, old))
        y = z.reshape(inputs, old, neurons)
        new_z = site.new(inputs * new, neurons)
        np.matmul(weights, y, out=new_z.reshape(inputs, new, neurons))
        if bias is not None:
            new_z.reshape(inputs, new, neurons)[...] += bias[:, None]
        return new_z, WeightedTokens(y, step_w / math.sqrt(old), step_b, weights)


@dataclass(frozen=True)
class Project(Operation):
    """y → n^{−1/2} π y where the layer has not as many neurons as y, else y; `ordinal` is that of its own weights."""

    ordinal: int

    def acts(self, here: Shape, end: Shape) -> bool:
        return here[1] != end[1]

    def shape(self, here: Shape, layer: int, end: Shape) -> Shape:
        return here[0], end[1]

    def parameters(self, here: Shape, layer: int, end: Shape) -> tuple[Parameter, ...]:
        if not self.acts(here, end):
            return ()
        return (Parameter("W", (end[1], here[1]), role=2 * self.ordinal, trained=False),)

    def dense(self, layer: int) -> DenseOperation:
        """What π is drawn as."""
        return DenseOperation(self.ordinal, sigma_w=(1.0,) * layer, sigma_b=(0.0,) * layer)

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative | None]:
        if z.shape[1] == site.end[1]:
            return z, None
        new_z, matrix, back = _weighed(self.dense(site.layer), z, site, site.end[1])
        return new_z, Projected(z, 0.0, 0.0, matrix, back)

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        neurons = z.value.shape[-1]
        if neurons == site.end[1]:
            return z
        return z @ site.weights.whole(self.dense(site.layer), site, (site.end[1], neurons))[0].T


def _turned(one: np.ndarray) -> np.ndarray:
    return one.swapaxes(-1, -2)


def _weighed(
    dense: DenseOperation, z: np.ndarray, site: Site, outputs: int
) -> tuple[np.ndarray, Matrix, Matrix | None]:
    """(w z + β, w, what cotangents meet in its place)."""
    shape = outputs, z.shape[1]
    matrix = site.weights.matrix(dense, site, shape)
    new_z = site.new(len(z), outputs)
    matrix.affine(z, new_z)
    return new_z, matrix, site.weights.back(dense, site, shape) if site.passage.pulls else None


# ---------------------------------------------------------------------------------------------------- without weights


@dataclass(frozen=True)
class Map(Operation):
    """y → φ(y)."""

    pair: ScalarPair

    @property
    def jumps(self) -> str:
        return "" if self.pair.continuous else "an activation"

    @property
    def bends(self) -> str:
        return "" if self.pair.higher else "an activation with a kink or without φ″ and φ‴"

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative]:
        return apply_map(self.pair, z, site.differentiate, site.new)

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        return z.through(derivatives(self.pair, z.infinitesimals))


class _Gains(Operation):
    """Gains γ and shifts β behind what the operation does, if they are trained (`affine`); without the shifts unless it
    is `shifted`."""

    affine: bool
    shifted = True

    @property
    def trains(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("gamma", "beta")[: 1 + self.shifted] if self.affine else ()

    def parameters(self, here: Shape, layer: int, end: Shape) -> tuple[Parameter, ...]:
        return tuple(Parameter(name, (here[1],), start) for name, start in zip(self.trains, (1.0, 0.0)))

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative]:
        gain, shift = (site.value(name) if self.affine else None for name in ("gamma", "beta"))
        unit, derivative = self.normalized(z, gain)
        if gain is None:
            return unit, derivative
        new_z = np.multiply(unit, gain, out=site.new(*unit.shape))
        if shift is not None:
            new_z += shift
        return new_z, derivative

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        unit = self.unit(z)
        if not self.affine:
            return unit
        return values["gamma"] * unit + values["beta"] if self.shifted else values["gamma"] * unit

    def unit(self, z: Jet) -> Jet:
        """ŷ."""
        raise NotImplementedError

    def normalized(self, z: np.ndarray, gain: np.ndarray | None) -> tuple[np.ndarray, Derivative]:
        """ŷ, and the derivative of γŷ + β."""
        raise NotImplementedError


@dataclass(frozen=True)
class Normalize(_Gains):
    """y → (y − mean(y))/sd(y) over the neurons; `affine`: its γ and β are trained."""

    affine: bool

    def normalized(self, z: np.ndarray, gain: np.ndarray | None) -> tuple[np.ndarray, Derivative]:
        return apply_norm(z, self.affine, gain)

    def unit(self, z: Jet) -> Jet:
        return _standardized(z, -1)

    def shape(self, here: Shape, layer: int, end: Shape) -> Shape:
        refuse_one_neuron(here[1])
        return here


@dataclass(frozen=True)
class NormalizeRoot(_Gains):
    """y → y/√(mean(y²)) over the neurons; `affine`: its γ is trained."""

    affine: bool
    shifted = False

    def normalized(self, z: np.ndarray, gain: np.ndarray | None) -> tuple[np.ndarray, Derivative]:
        return apply_root_norm(z, self.affine, gain)

    def unit(self, z: Jet) -> Jet:
        return z / np.sqrt((z * z).mean(-1, keepdims=True))


@dataclass(frozen=True)
class NormalizeBatch(_Gains):
    """y → (y − mean(y))/sd(y) over the positions."""

    affine: bool

    @property
    def couples(self) -> bool:
        return True

    def normalized(self, z: np.ndarray, gain: np.ndarray | None) -> tuple[np.ndarray, Derivative]:
        return apply_batch_norm(z, self.affine, gain)

    def unit(self, z: Jet) -> Jet:
        return _standardized(z, -2)


@dataclass(frozen=True)
class Adapt(_Gains):
    """y → γy + β with γ = 1 and β = 0, which are trained."""

    affine: bool = True

    def normalized(self, z: np.ndarray, gain: np.ndarray | None) -> tuple[np.ndarray, Derivative]:
        new_z = aligned(*z.shape)
        new_z[...] = z
        return new_z, GainsDerivative(new_z, self.affine, gain)

    def unit(self, z: Jet) -> Jet:
        return z


def _standardized(z: Jet, axis: int) -> Jet:
    apart = z - z.mean(axis, keepdims=True)
    return apart / np.sqrt((apart * apart).mean(axis, keepdims=True))


@dataclass(frozen=True)
class PoolGroups(Operation):
    """Groups of `size` neurons → their largest ("max"), their mean ("average"), or a formula of theirs."""

    size: int
    kind: str

    @property
    def jumps(self) -> str:
        return "a pool" if jumps(self.kind, self.size) else ""

    @property
    def bends(self) -> str:
        smooth = self.kind == "average" or (self.kind not in POOLS and not has_switches(self.kind))
        return "" if smooth else "a pool with a kink"

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative]:
        if self.kind in POOLS:
            return apply_pool(z, self.size, self.kind == "max")
        return apply_group(z, self.size, self.kind, site.differentiate)

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        whole = z.value.shape[-1] // self.size * self.size
        groups = z.linear(lambda one: one[..., :whole].reshape(*one.shape[:-1], -1, self.size))
        if self.kind == "average":
            return groups.mean()
        return group_jet(self.kind, [groups.linear(itemgetter((..., k))) for k in range(self.size)])

    def shape(self, here: Shape, layer: int, end: Shape) -> Shape:
        if here[1] < self.size:
            raise MeanFieldError(f"A Pool of {self.size} neurons meets {here[1]} at layer {layer}.")
        return here[0], here[1] // self.size


@dataclass(frozen=True)
class Multiply(Operation):
    """y → factor[l − 1] y."""

    factor: tuple[float, ...]

    def apply(self, z: np.ndarray, site: Site) -> tuple[np.ndarray, Derivative]:
        factor = self.factor[site.layer - 1]
        return np.multiply(z, factor, out=site.new(*z.shape)), Factor(factor, (z.shape[0], z.shape[1]))

    def formula(self, z: Jet, values: Mapping[str, Jet], site: Site) -> Jet:
        return z * self.factor[site.layer - 1]


def refuse_one_neuron(neurons: int) -> None:
    """One neuron minus its mean is 0, with or without the rest of LayerNorm."""
    if neurons == 1:
        raise MeanFieldError(
            "LayerNorm was asked for in a network of width 1, where a neuron is its own mean and the standard "
            "deviation is 0; take a width of at least 2."
        )


def refuse_jumps(done: tuple[Operation, ...], what: str, instead: str) -> None:
    """Refuse a derivative, `what`, of operations with an activation or a pool that jumps; `instead` is what to do."""
    held = sorted({one.jumps for one in done} - {""})  # an activation comes before a pool
    if not held:
        return
    raise MeanFieldError(
        f"{what} was asked for {held[0]} that jumps: a finite network measures a derivative of 0 almost surely, while "
        f"the value at infinite width is infinite; {instead}."
    )
