"""What is measured on one network: a plan of quantities as plain data, and the rows of numbers they leave.

Every row is such that its mean over networks is what is asked for, or a building block of it; see
`measured_correlators` for those that combine means.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

import numpy as np

from meanfield.empirical.network.network import Ensemble, Network, Trace
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Linear, Site
from meanfield.empirical.network.tangents_and_cotangents import ParameterTangents, TangentKernel, Tangents
from meanfield.empirical.observables.classes import (
    class_medians,
    draw_labels,
    favoured_classes,
    loss_gradient,
)
from meanfield.empirical.observables.differentials import correlator_samples
from meanfield.empirical.observables.inputs import Inputs
from meanfield.empirical.observables.jet_kernels import layer_tensors
from meanfield.empirical.observables.norms import (
    COTANGENT_ROLE,
    FRESH_ROLE,
    PROBE_ROLE,
    draw_probes,
    log_squared_norm,
    mean_product,
    pair_rows,
    spread_and_drift,
)
from meanfield.empirical.observables.wanted import PROBES, SPREADS, Measurement
from meanfield.empirical.random.buffers import Buffers


@dataclass(frozen=True, eq=False)
class MeasurementPlan:
    """Networks (those of a seed), their inputs and what is measured on them: plain data that travels to another
    process, and what one network of it gives."""

    ensemble: Ensemble
    inputs: Inputs
    measured: Measurement
    seed: int = 0
    shapes: Mapping[str, tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", self.measured.shapes(self.ensemble, self.inputs))

    @property
    def positions(self) -> int:
        return self.inputs.positions(self.ensemble.tokens)

    @property
    def read(self) -> slice:
        """The positions whose outputs are measured."""
        return self.measured.read_of(self.ensemble.tokens)

    def measure(self, index: int, buffers: Buffers, stop: Event | None = None) -> tuple[int, dict[str, np.ndarray]]:
        """(first layer with a number that is not finite or 0, rows) of network `index`."""
        rows = {name: np.full(shape, math.nan) for name, shape in self.shapes.items()}
        network = self.ensemble.network(self.seed, index, buffers)
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            inputs = self.inputs.draw(self.ensemble, self.seed, index)
            bad = self._forward(network, inputs, rows, stop)
            if not bad and self.measured.order:
                self._differentials(network, inputs, rows)
        return bad, rows

    # ------------------------------------------------------------------------------------------- one forward pass

    def _forward(
        self, network: Network, inputs: np.ndarray, rows: Mapping[str, np.ndarray], stop: Event | None
    ) -> int:
        ensemble = self.ensemble
        carried: list[Linear] = []
        trace: Trace | None = [] if self.measured.pulls else None
        kernel = self._kernel(network, carried)
        between = self._pair_tangents(network, carried)
        jacobian: Tangents | None = None
        block: Tangents | None = None  # of the block that is run, from the layer before
        shift = 0.0  # ln of what the tangents were divided by
        if "log_J" in rows and self.measured.l0 == 0:
            jacobian = self._tangents(network, ensemble.fan_in)
            carried.append(jacobian)
        for layer, z in network.run(inputs, carried, trace, self.measured.pulls):
            if stop is not None and stop.is_set():
                break
            found = self._values(z[self.read])
            if kernel is not None:
                found["Theta"] = _theta(kernel, self.read)
            if layer == 1 and "J_ab" in self.shapes:
                size = ensemble.widths[0]
                between["J_ab"] = self._tangents(network, size) if ensemble.couples else self._same_tangents(network)
                carried.append(between["J_ab"])
            found |= {name: self._across(name, pushed.rows[:, self.read]) for name, pushed in between.items()}
            if not all(map(_finite, found.values())):
                return layer
            if "chi" in rows:
                if block is not None:
                    rows["chi"][layer - 2] = float(np.square(block.rows[:, self.read]).sum()) / self._count(block)
                    if not math.isfinite(rows["chi"][layer - 2]):
                        return layer
                    carried.remove(block)
                    block.release()
                if layer < ensemble.depth:
                    block = self._tangents(network, ensemble.widths[layer - 1], layer)
                    carried.append(block)
            if layer == self.measured.l0 and "log_J" in rows:
                jacobian = self._tangents(network, ensemble.widths[layer - 1])
                carried.append(jacobian)
            if jacobian is not None:
                log_norm, more = log_squared_norm(jacobian.rows.reshape(-1, jacobian.rows.shape[-1]))
                if self.measured.read == "last":  # of rows that were divided by exp(more)
                    part = np.ascontiguousarray(jacobian.rows[:, self.read])
                    log_norm = log_squared_norm(part.reshape(-1, part.shape[-1]))[0] + 2 * more
                if math.isnan(log_norm):
                    return layer
                rows["log_J"][layer - max(self.measured.l0, 1)] = log_norm + 2 * shift - math.log(self._count(jacobian))
                shift += more
            for name, value in found.items():
                rows[name][layer - 1] = value
        if trace and (stop is None or not stop.is_set()):
            self._backward(network, trace, z, rows)
        return 0

    def _kernel(self, network: Network, carried: list[Linear]) -> TangentKernel | ParameterTangents | None:
        if "Theta" not in self.measured.quantities:
            return None
        kernel: TangentKernel | ParameterTangents = TangentKernel(network.buffers)
        if self.measured.probes is not None:
            positions = self.positions if self.ensemble.couples else None
            kernel = ParameterTangents(
                self.measured.probes, positions, self.ensemble.fan_in, self.seed, network.index, network.buffers
            )
        carried.append(kernel)
        return kernel

    def _pair_tangents(self, network: Network, carried: list[Linear]) -> dict[str, Tangents]:
        """What carries Θ_ab: random tangents of the parameters at both inputs."""
        if "Theta_ab" not in self.shapes:
            return {}
        if self.ensemble.couples and carried and isinstance(carried[0], ParameterTangents):
            return {"Theta_ab": carried[0]}  # those of Theta
        own = ParameterTangents(
            self.measured.probes or PROBES, self.positions, self.ensemble.fan_in, self.seed, network.index,
            network.buffers,
        )  # fmt: skip
        carried.append(own)
        return {"Theta_ab": own}

    def _same_tangents(self, network: Network) -> Tangents:
        """The same tangents of layer 1 at both inputs: every unit vector, or random ones."""
        size = self.ensemble.widths[0]
        count = size if self.measured.probes is None else self.measured.probes
        rows = network.buffers.take(count, 2, size)
        drawn = draw_probes(size, self.seed, network.index, count).T if self.measured.probes else np.eye(size)
        rows[...] = drawn[:, None, :]
        if self.measured.probes is not None:
            return Tangents(rows, network.buffers)
        rows *= math.sqrt(size)  # so that a mean over the vectors is Σ_j of unit vectors
        return Tangents(rows, network.buffers)

    def _count(self, pushed: Tangents) -> int:
        """What a sum of squares over all vectors, neurons and positions that are read is divided by."""
        return (self.measured.probes or 1) * len(range(pushed.rows.shape[1])[self.read]) * pushed.rows.shape[2]

    def _tangents(self, network: Network, size: int, fresh: int | None = None) -> Tangents:
        """The directions of a Jacobian; fresh: the layer they start at, which then has directions of its own."""
        positions = self.positions if self.ensemble.couples else 1
        if self.measured.probes is None and not self.ensemble.couples:
            return network.tangents(size)
        if self.measured.probes is None:
            every = network.buffers.take(positions * size, positions, size)
            every[...] = np.eye(positions * size).reshape(every.shape)
            return Tangents(every, network.buffers)
        rows = network.buffers.take(self.measured.probes, positions, size)
        role, after = (PROBE_ROLE, 0) if fresh is None else (FRESH_ROLE, fresh * rows.size)
        drawn = draw_probes(positions * size, self.seed, network.index, self.measured.probes, role, after)
        rows[...] = drawn.T.reshape(rows.shape)
        return Tangents(rows, network.buffers, alone=not self.ensemble.couples)

    def _across(self, name: str, rows: np.ndarray) -> float:
        """The mean over vectors, neurons and pairs of positions of the products of their tangents."""
        if rows.shape[1] == 2 and not self.ensemble.couples:
            return float((rows[:, 0] * rows[:, 1]).mean())
        vectors, positions, neurons = rows.shape
        if name == "J_ab":  # unit vectors of all positions, or random ones in their place
            vectors = self.measured.probes or 1
        square = np.square(rows.sum(axis=1)).sum() - np.square(rows).sum()
        return float(square) / (vectors * neurons * positions * (positions - 1))

    def _values(self, z: np.ndarray) -> dict[str, np.ndarray | float]:
        if self.inputs.correlation is not None:
            gap = z[0] - z[1]  # K_aa + K_bb − 2 K_ab would cancel near correlation 1
            found: dict[str, np.ndarray | float] = {
                "K_aa": mean_product(z[0], z[0]),
                "K_bb": mean_product(z[1], z[1]),
                "K_ab": mean_product(z[0], z[1]),
                "distance": mean_product(gap, gap),
            }
        else:
            own = sum(mean_product(one, one) for one in z)
            found = {"K": own / len(z)}
            if len(z) > 1:
                total = z.sum(axis=0)
                found["K_ab"] = (mean_product(total, total) - own) / (len(z) * (len(z) - 1))
        if "_S" in self.shapes and not self.measured.order:
            found |= pair_rows(z)
        if set(SPREADS) & set(self.shapes):
            both = dict(zip(SPREADS, spread_and_drift(z)))
            found |= {name: value for name, value in both.items() if name in self.shapes}
        if "G0" in self.shapes:
            classes = self.measured.classes
            fractions = np.bincount(z[:, :classes].argmax(axis=1), minlength=classes) / len(z)
            found |= {"G0": fractions[0], "G0_squared": fractions[0] ** 2, "G_max": fractions.max()}
        return found

    # ------------------------------------------------------------------------------------------ one backward pass

    def _backward(self, network: Network, trace: Trace, z: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        width, positions, signs = self.ensemble.widths[-1], self.positions, self.measured.signs
        cotangents = np.empty((self.measured.pulls, positions, width))
        drawn = draw_probes(positions * width, self.seed, network.index, signs, COTANGENT_ROLE)
        cotangents[:signs] = 0.0
        cotangents[:signs, self.read] = drawn.T.reshape(signs, positions, width)[:, self.read]
        if "delta2" in rows:
            labels = draw_labels(positions, self.measured.classes, self.seed, network.index)
            chosen = favoured_classes(z, self.measured.classes)
            cotangents[signs] = loss_gradient(z, labels, self.measured.classes)
        unit = 1 / (max(signs, 1) * width * len(range(positions)[self.read]))
        place: Counter[tuple[int, str]] = Counter()
        for name in rows.keys() & {f"G_{name.lower()}" for site in trace for name in _trained(site)}:
            rows[name][...] = 0.0
        for layer, derivative, u in network.pull(trace, cotangents):
            if derivative is None and layer > 0:
                if "G_z" in rows:
                    rows["G_z"][layer - 1] = float(np.square(u[:signs]).sum()) * unit
                if "delta2" in rows:
                    found = class_medians(np.square(u[signs]).mean(axis=1), labels, *chosen)
                    for name, value in found.items():
                        rows[name][layer - 1] = value if math.isfinite(value) else math.nan
            elif derivative is not None and signs:
                norms = zip(*(derivative.gradient_norms(one) for one in u[:signs]))
                for name, found_norms in zip(derivative.names, norms):
                    place[layer, name] += 1
                    rows[f"G_{name.lower()}"][layer - 1, -place[layer, name]] = sum(found_norms) * unit

    # ------------------------------------------------------------------------------- the tangent kernel's moments

    def _differentials(self, network: Network, inputs: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        for layer, tensors in layer_tensors(network, inputs, self.measured.order):
            found = correlator_samples(tensors)
            S, h = found["S"], found["h"]
            rows["_S"][layer - 1], rows["_h"][layer - 1] = S, h
            for name, one, other in (("_S*S", S, S), ("_h*h", h, h), ("_S*h", S, h)):
                rows[name][layer - 1] = np.multiply.outer(one, other)
            for name in ("SS", "hh", "Sh", "B", "F"):
                rows[f"_{name}"][layer - 1] = found[name]
            for raw, name in self.measured.raw_differentials.items():
                rows[raw][layer - 1] = found[name]


def _finite(value: np.ndarray | float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else bool(np.isfinite(value).all())


def _trained(site: Site) -> tuple[str, ...]:
    return site.derivative.names if isinstance(site.derivative, Derivative) else ()


def _theta(kernel: TangentKernel | ParameterTangents, read: slice) -> float:
    if isinstance(kernel, TangentKernel):
        return kernel.mean
    return float(np.square(kernel.rows[:, read]).mean())
