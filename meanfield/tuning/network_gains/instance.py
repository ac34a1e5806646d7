"""One network with stored weights, block by block: probes pushed forwards, and the reverse pass through both.

`Instance.block` and `reverse` are the whole interface. Probes and their cotangents are carriers of the one walk over a
network's operations; the reverse of a pushed probe needs of an operation the derivative of its push alone: φ″ of a
map, one formula for both norms, nothing of what is linear.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import StoredNetwork
from meanfield.empirical.functions.registry import ScalarPair, elementwise
from meanfield.empirical.network.cotangents import Cotangents
from meanfield.empirical.network.operations.operation_derivatives import (
    BatchProjection,
    Derivative,
    Factor,
    GainsDerivative,
    LayerNormDerivative,
    PoolDerivative,
    RootProjection,
    Slope,
)
from meanfield.empirical.network.operations.operation_walk import Linear, Site, walk
from meanfield.empirical.network.operations.operations import DenseOperation, Map, Project
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.network.signals import SignalValues
from meanfield.empirical.random.philox import normals

PROBE_ROLE = (1 << 15) + (1 << 14)  # the streams of probes
_STEP = 1e-6  # of the difference that stands for φ″ where φ has kinks
Signal = np.ndarray


class Probes(Linear):
    """Tangents (vectors, positions, neurons) of which every version is kept: `before` holds what each site was given.
    """

    def __init__(self, rows: np.ndarray) -> None:
        super().__init__(rows)
        self.before: dict[int, Any] = {}

    @property
    def rows(self) -> np.ndarray:
        return self._stack[-1]

    @property
    def products(self) -> int:  # type: ignore[override]
        return len(self.rows) * self.rows.shape[1]

    def push(self, derivative: Derivative) -> None:
        out = np.empty((len(self.rows), *derivative.shape))
        derivative.push(np.ascontiguousarray(self.rows), out)
        self._stack[-1] = out

    def add(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        self._stack.append(top + mu * below)

    def apply(self, site: Site) -> None:
        self.before[site.place] = self.rows
        super().apply(site)

    def join(self, site: Site) -> None:
        self.before[site.place] = self._stack[-site.operation.count :]  # type: ignore[attr-defined]
        super().join(site)


class Watched(SignalValues):
    """Signals of which φ's argument is kept at every site, as long as a tape wants it."""

    def __init__(self, z: np.ndarray, inputs: int, watch: bool) -> None:
        super().__init__(z, inputs)
        self.watch = watch
        self.before: dict[int, Signal] = {}

    def apply(self, site: Site) -> None:
        if self.watch and isinstance(site.operation, Map):
            self.before[site.place] = self.z
        super().apply(site)


class Tape:
    """The sites of a block that were passed, with what probes and signals were there."""

    def __init__(self, done: list[Site], probes: Probes, values: Watched) -> None:
        self.done, self.probes, self.values = done, probes.before, values.before


class Instance:
    """A stored network whose gains are set layer by layer; inputs: how many its positions are."""

    def __init__(self, stored: StoredNetwork, inputs: int) -> None:
        self.stored, self.inputs = stored, inputs
        self._network = stored.network
        self._weights = self._network.weights
        self.ensemble, self.count = stored.ensemble, stored.gain_w.shape[1]

    def put(self, layer: int, gains: np.ndarray) -> None:
        """Gains (Dense, 2) of the block that makes `layer`; the input layer's stands in place 0."""
        at = slice(None) if layer > 1 else slice(self.count - 1, None)
        of = slice(None) if layer > 1 else slice(0, 1)
        self.stored.gain_w[layer - 1, at] = gains[of, 0]
        self.stored.gain_b[layer - 1, at] = gains[of, 1]

    def probes(self, layer: int, count: int, shape: tuple[int, ...], step: int = 0) -> np.ndarray:
        """Random directions at z^layer, each of squared length positions × neurons: on a sphere, where a mean square
        is estimated with less noise than by normal ones."""
        size = math.prod(shape)
        key = self.stored.seed, self.stored.index, layer, PROBE_ROLE
        rows = normals(*key, count * size, step * count * size).reshape(count, size)
        rows *= np.sqrt(size / (rows * rows).sum(axis=1, keepdims=True))
        return rows.reshape(count, *shape)

    def block(
        self, layer: int, z: Signal, rows: np.ndarray | None, gains: np.ndarray, tape: bool = False
    ) -> tuple[Signal, np.ndarray | None, Tape | None]:
        """(z^layer, pushed probes, tape) from z^{layer−1} (positions, neurons) and probes (vectors, positions, neurons)
        there, with these gains."""
        self.put(layer, gains)
        values, carried = Watched(z, self.inputs, tape), Probes(np.empty((0, *z.shape)) if rows is None else rows)
        here = self._network.sites(layer, inputs=self.inputs, differentiate=True)
        carriers: list[Any] = [values] if rows is None else [values, carried]
        done = list(walk(here, carriers))
        pushed = None if rows is None else carried.rows
        return values.finish(), pushed, Tape(done, carried, values) if tape else None

    def reverse(
        self, tape: Tape, z_bar: Signal, t_bar: np.ndarray, gains: np.ndarray
    ) -> tuple[Signal, np.ndarray, np.ndarray]:
        """(z̄, t̄ before the block, ∂S/∂gains) of a scalar S with the cotangents z̄ of z and t̄ of the pushed probes
        behind it."""
        carrier = _Bent(tape, z_bar, t_bar)
        found = np.zeros_like(gains)
        for site in walk(reversed(tape.done), [carrier]):
            if isinstance(site.operation, DenseOperation) and site.derivative is not None:
                at = site.operation.ordinal if site.layer > 1 else 0
                # z̄·(a w y) = (wᵀ a z̄)·y: what was pulled already holds it
                found[at, 0] += carrier.inner(site) / gains[at, 0] if gains[at, 0] else 0.0
                bias = self.stored.parameters.get(Name(site.layer, site.place, "b"))
                _, sigma_b = self._weights.deviations(site.operation, site.layer)
                if bias is not None and sigma_b > 0:
                    found[at, 1] += self._by_bias(site, carrier.met[0], bias) * sigma_b / gains[at, 1]
        return carrier.rows[0], carrier.rows[1:], found

    def _by_bias(self, site: Site, z_bar: Signal, bias: np.ndarray) -> float:
        if not getattr(site.operation, "tokens", False):
            return float(z_bar.sum(axis=0) @ bias)
        return float(z_bar.reshape(self.inputs, len(bias), -1).sum(axis=(0, 2)) @ bias)


class _Bent(Cotangents):
    """Cotangents of a signal (the first row) and of probes pushed beside it (the others)."""

    def __init__(self, tape: Tape, z_bar: Signal, t_bar: np.ndarray) -> None:
        super().__init__(np.concatenate([z_bar[None], t_bar]))
        self._tape = tape

    def inner(self, site: Site) -> float:
        """Σ of what a Dense was given times what came back through it."""
        y = np.concatenate([site.derivative.y.reshape(1, *self.rows.shape[1:]), self._tape.probes[site.place]])  # type: ignore
        return float((self.rows * y).sum())

    def apply(self, site: Site) -> None:
        met = self._stack[-1]
        super().apply(site)
        if site.derivative is None or not len(met) > 1:
            return
        bent = _bend(site, self._tape, met[1:])
        if bent is not None:
            self._stack[-1][0] += bent

    def join(self, site: Site) -> None:
        rows, operation = self._stack[-1], site.operation
        super().join(site)
        if len(rows) > 1:
            bent = operation.bent(site.derivative, self._tape.probes[site.place], rows[1:])  # type: ignore[attr-defined]
            for one, more in zip(reversed(self._stack), reversed(bent)):
                one[0] += more


def _bend(site: Site, tape: Tape, t_bar: np.ndarray) -> np.ndarray | None:
    """∂/∂y of Σ t̄·(derivative at y) t, None where it is 0."""
    derivative, t = site.derivative, tape.probes[site.place]
    if isinstance(site.operation, Map):
        second = second_derivative(site.operation.pair, tape.values[site.place])
        return second * (t * t_bar).sum(axis=0)
    if isinstance(derivative, LayerNormDerivative | RootProjection | BatchProjection):
        axis = -2 if isinstance(derivative, BatchProjection) else -1
        spread = derivative.spread[:, None] if axis == -1 else derivative.spread[None, :]
        unit = derivative.unit
        alpha, beta = ((unit * x).mean(axis=axis, keepdims=True) for x in (t, t_bar))
        t_c, b_c = t, t_bar
        if not isinstance(derivative, RootProjection):
            t_c, b_c = (x - x.mean(axis=axis, keepdims=True) for x in (t, t_bar))
        along = (t_c * b_c).mean(axis=axis, keepdims=True) - alpha * beta  # S s/n
        bent = -along * unit - beta * (t_c - alpha * unit) - alpha * (b_c - beta * unit)
        return bent.sum(axis=0) / spread**2
    linear = isinstance(derivative, Factor | PoolDerivative | GainsDerivative)
    linear = linear or isinstance(site.operation, DenseOperation | Project)
    if not linear or isinstance(derivative, Slope):
        raise MeanFieldError(
            f"The gradient of a Jacobian was asked for through {type(site.operation).__name__}, which has no rule for "
            "the derivative of its push; take method='sweep'."
        )
    return None


def second_derivative(pair: ScalarPair, z: np.ndarray) -> np.ndarray:
    """φ″ where φ is smooth; with kinks the smaller of the two one-sided differences of φ′, which is φ″ beside them."""
    out = np.empty(z.shape)
    flat = np.ascontiguousarray(z).ravel()
    if pair.higher is not None:
        elementwise(pair.higher[0])(flat, out.ravel(), pair.parameters)
        return out
    slopes = []
    for shift in (-_STEP, 0.0, _STEP):
        at = np.empty(z.shape)
        elementwise(pair.dphi)(flat + shift, at.ravel(), pair.parameters)
        slopes.append(at)
    below, above = (slopes[1] - slopes[0]) / _STEP, (slopes[2] - slopes[1]) / _STEP
    return np.where(np.abs(below) < np.abs(above), below, above)
