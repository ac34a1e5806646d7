"""What a coordinate check is about: a network in a parametrization at one width and depth, and its step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.empirical.training.readout import readout_of
from meanfield.networks.folds import dense_of, rebuild, with_dense
from meanfield.networks.records import Block, Dense, Network, Param, Residual, Scale, Schedule, Sequential, scheduled
from meanfield.networks.roles import roles_of
from meanfield.parametrizations.one_parametrization import Parametrization


@dataclass(frozen=True, eq=False)
class Case:
    """network: its record with numbers, but for the network's own sigma_w and sigma_b, which follow; parametrization;
    width, depth: neurons of a layer, and the layer of the output (the input layer is 1, then depth − 2 blocks);
    inputs: (inputs, N_0); rate: η at the base; eps: Adam's ε there; slopes: ∂L/∂f of each input, before the mean over
    the batch; biases: whether they are trained."""

    network: Network
    parametrization: Parametrization
    sigma_w: float
    sigma_b: float
    width: int
    depth: int
    inputs: np.ndarray
    rate: float
    eps: float
    slopes: np.ndarray
    biases: bool = True

    def at(self, width: int, depth: int) -> Case:
        """The same at another width and depth."""
        return replace(self, width=width, depth=depth)

    @property
    def blocks(self) -> int:
        """L: blocks between the input layer and the readout."""
        return max(self.depth - 2, 1)

    @property
    def head(self) -> Block:
        """What makes the output."""
        return readout_of(self.network.block) or self.network.block

    @property
    def cotangent(self) -> np.ndarray:
        """∂L/∂f of each input, L a mean over the batch."""
        return self.slopes / len(self.slopes)

    def deviation(self, of: Any, own: float, block: int) -> float:
        """A standard deviation of the record as a number, in the block of this number (0: the input layer)."""
        if isinstance(of, Schedule):
            numbers = (self.deviation(one, own, 0) for one in (of.value, of.beta, of.total))
            return scheduled(block, self.depth - 1, *numbers)
        if isinstance(of, Param):
            if of.name in ("sigma_w", "sigma_b"):
                return own
            raise MeanFieldError(f"A coordinate check needs a number for {of.name}; give {of.name}=...")
        return float(of)

    def factors(self, kind: str) -> dict[str, float]:
        """Of a kind of matrix: the multiplier, the factor of the deviation of m W √fan-in, the learning rate."""
        at = self.parametrization.at(self.width, self.blocks)[kind]
        fan = 1.0 if kind in ("input", "bias") else self.width / self.parametrization.base_width
        deviation = at["multiplier"] * np.sqrt(at["variance"] * fan)
        return {"multiplier": at["multiplier"], "deviation": float(deviation), "rate": self.rate * at["rate"]}

    def bias_factors(self, kind: str) -> dict[str, float]:
        """The same of biases beside matrices of this kind: powers of L count in blocks alone, and the bias of the
        readout, which is one number, has none of n either."""
        if kind == "readout":
            shared = self.parametrization.at(self.width, self.blocks)["factors"]["eps"]
            return {"multiplier": 1.0, "deviation": 1.0, "rate": self.rate, "eps": self.eps * shared}
        if kind == "hidden":
            return self.factors("bias") | {"eps": self.adam_eps("bias")}
        outside = replace(self.parametrization, base_depth=self.blocks)
        return replace(self, parametrization=outside).factors("bias") | {"eps": self.adam_eps("bias")}

    def branch(self) -> float:
        return self.parametrization.at(self.width, self.blocks)["factors"]["branch"]

    def adam_eps(self, kind: str) -> float:
        """ε beside the gradients by the stored matrices of a kind."""
        at = self.parametrization.at(self.width, self.blocks)
        return self.eps * at["factors"]["eps"] * at[kind]["eps"]

    def kinds(self, layer: int) -> tuple[str, ...]:
        """The kind of every Dense of what makes a layer, in the order they are met."""
        if layer == 1:
            return ("input",)
        count = len(dense_of(self.head if layer == self.depth else self.network.block))
        return ("hidden",) * (count - 1) + ("readout",) if layer == self.depth else ("hidden",) * count

    def rows(self) -> list[tuple[int, str, str]]:
        """(layer, matrix, kind) of every Dense: its role in the block, or "input" and "readout"."""
        out = []
        block_roles, head_roles = roles_of(self.network.block), roles_of(self.head)
        for layer in range(1, self.depth + 1):
            kinds = self.kinds(layer)
            roles = ("input",) if layer == 1 else (*head_roles[:-1], "readout") if layer == self.depth else block_roles
            out += [(layer, role, kind) for role, kind in zip(roles, kinds)]
        return out

    def scaled(self) -> tuple[Network, Block]:
        """The record of a finite network, and that of its head, with the deviations of this width and the factors of
        its branches."""

        def put(kind: str, one: Dense) -> Dense:
            w, b = self.factors(kind)["deviation"], self.bias_factors(kind)["deviation"]
            return replace(one, sigma_w=self._times(one.sigma_w, w, self.sigma_w),
                           sigma_b=self._times(one.sigma_b, b, self.sigma_b))  # fmt: skip

        def behind(one: Block) -> Block:
            if not isinstance(one, Residual) or self.branch() == 1:
                return one
            return replace(one, branch=Sequential((one.branch, Scale(exact_float(self.branch())))))

        first, net = self.network.first, self.network.block
        last = self.kinds(self.depth)
        head = with_dense(self.head, lambda k, one: put(last[k], one))
        block = rebuild(with_dense(net, lambda _, one: put("hidden", one)), behind)
        return Network(block, put("input", first)), head

    def _times(self, of: Any, factor: float, own: float) -> Any:
        if isinstance(of, Schedule):
            return replace(of, value=exact_float(self.deviation(of.value, own, 0) * factor))
        return exact_float(self.deviation(of, own, 0) * factor)


def exact_float(value: float) -> Fraction:
    """A double as the record of a network holds it."""
    return Fraction(float(value))
