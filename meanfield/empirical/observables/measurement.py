"""What is measured on one network: a plan of quantities as plain data, and the rows of numbers they leave.

Every row is such that its mean over networks is what is asked for, or a building block of it; see `correlators` for
those that combine means.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event

import numpy as np

from meanfield.arguments import shown
from meanfield.empirical.network.carried import ParameterTangents, TangentKernel, Tangents
from meanfield.empirical.network.derivatives import Derivative
from meanfield.empirical.network.network import Ensemble, Network, Trace
from meanfield.empirical.network.operations import Affine, Map, refuse_jumps
from meanfield.empirical.network.walk import Linear, Site
from meanfield.empirical.observables.classes import (
    CLASS_ROWS,
    class_medians,
    draw_labels,
    favoured_classes,
    loss_gradient,
)
from meanfield.empirical.observables.differentials import Differentials, correlator_samples
from meanfield.empirical.observables.norms import (
    COTANGENT_ROLE,
    FRESH_ROLE,
    PROBE_ROLE,
    draw_batch,
    draw_inputs,
    draw_probes,
    log_squared_norm,
    mean_product,
    pair_rows,
    spread_and_drift,
)
from meanfield.empirical.random.buffers import Buffers
from meanfield.quantities import DIFFERENTIATED, MEASURED, OF_PARAMETERS, PAIR_TANGENTS
from meanfield.results import MeanFieldError

TANGENT_CORRELATORS = ("A", "B", "D", "F")
DIFFERENTIALS = ("P", "Q"), ("R", "S", "T", "U")
DEVICES = ("cpu", "cuda")
SPREADS = ("sigma_y2", "sigma_mu2")
PROBES = 4  # random vectors, where nobody says how many
WIDEST = {1: 2000, 2: 400, 3: 100}  # neurons, by the order of the differential: below about 4 GB
ALSO = {"log_J": "J", "G0_squared": "G0", "G_max": "G0"} | dict.fromkeys(CLASS_ROWS, "delta2")  # come with another


@dataclass(frozen=True, eq=False)
class Plan:
    """The networks, their inputs and what is measured on them: plain data that travels to another process.

    inputs: an array (positions, N_0) for all networks, or None: one input of norm `input_norm`, two with `correlation`,
    or `batch` of independent standard normals. probes: None for exact Jacobians and tangent kernels, else how many
    random vectors estimate them. classes: how many outputs compete in "G0" and "delta2".
    """

    ensemble: Ensemble
    quantities: tuple[str, ...]
    seed: int
    input_norm: float = 1.0
    correlation: float | None = None
    inputs: np.ndarray | None = None
    batch: int | None = None
    probes: int | None = None
    l0: int = 1
    classes: int = 2
    device: str = "cpu"
    shapes: Mapping[str, tuple[int, ...]] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", self._shapes())

    @property
    def positions(self) -> int:
        if self.inputs is not None:
            return len(self.inputs)
        return (self.batch or (1 if self.correlation is None else 2)) * self.ensemble.tokens

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of every row; a first axis of length `depth` counts layers 1..depth, unless the row is log_J."""
        depth, p, wanted = self.ensemble.depth, self.positions, self.quantities
        pair = self.correlation is not None
        shapes: dict[str, tuple[int, ...]] = {}
        if pair:
            shapes |= {name: (depth,) for name in ("K_aa", "K_bb", "K_ab", "distance")}
        else:
            shapes["K"] = (depth,)
            if p > 1:
                shapes["K_ab"] = (depth,)
        if "J" in wanted:
            shapes["log_J"] = (depth - max(self.l0, 1) + 1,)
        if "chi" in wanted:
            shapes["chi"] = (depth - 1,)
        shapes |= {name: (depth,) for name in ("Theta", *PAIR_TANGENTS) if name in wanted}
        if "V" in wanted or self.order:
            shapes |= {"_S": (depth, p, p), "_SS": (depth, p, p, p, p), "_S*S": (depth, p, p, p, p)}
        if self.order:
            shapes["_h"] = (depth, p, p)
            four = ("_hh", "_h*h", "_Sh", "_S*h", "_B", "_F")
            shapes |= {name: (depth, p, p, p, p) for name in four}
            shapes |= {raw: (depth, p, p, p, p) for raw in self._raw_differentials}
        if self.signs:
            shapes["G_z"] = (depth,)
            repeated, first = self.ensemble.operations, self.ensemble.input_layer
            for name in dict.fromkeys(name for one in (first, *repeated) for name in one.trains):
                shapes[f"G_{name.lower()}"] = depth, max(1, sum(name in one.trains for one in repeated))
        if "G0" in wanted:
            shapes |= {"G0": (depth,), "G0_squared": (depth,), "G_max": (depth,)}
        shapes |= {name: (depth,) for name in SPREADS if name in wanted}
        if "delta2" in wanted:
            shapes |= dict.fromkeys(CLASS_ROWS, (depth,))
        return shapes

    @property
    def order(self) -> int:
        """How many differentials of the tangent kernel the quantities need, 0 for none (not even the kernel)."""
        if set(self.quantities) & set(DIFFERENTIALS[1]):
            return 3
        if set(self.quantities) & set(DIFFERENTIALS[0]):
            return 2
        return int(bool(set(self.quantities) & set(TANGENT_CORRELATORS)))

    @property
    def _raw_differentials(self) -> dict[str, str]:
        """Row → what `correlator_samples` calls it."""
        names = [name for names in DIFFERENTIALS[: max(self.order - 1, 0)] for name in names]
        return {"_ddII" if name == "S" else f"_{name}": "S_dd" if name == "S" else name for name in names}

    @property
    def signs(self) -> int:
        """How many random cotangents are taken back."""
        return (self.probes or 1) if set(self.quantities) & set(OF_PARAMETERS) else 0

    @property
    def pulls(self) -> int:
        """How many cotangents are taken back, with that of a loss."""
        return self.signs + ("delta2" in self.quantities)

    def measure(self, index: int, buffers: Buffers, stop: Event | None = None) -> tuple[int, dict[str, np.ndarray]]:
        """(first layer with a number that is not finite or 0, rows) of network `index`."""
        rows = {name: np.full(shape, math.nan) for name, shape in self.shapes.items()}
        network = self.ensemble.network(self.seed, index, buffers)
        with np.errstate(all="ignore"):  # an overflow is an answer: it is returned as a layer
            inputs = self._inputs(index)
            bad = self._forward(network, inputs, rows, stop)
            if not bad and self.order:
                self._differentials(network, inputs, rows)
        return bad, rows

    def _inputs(self, index: int) -> np.ndarray:
        if self.inputs is not None:
            return self.inputs
        if self.batch is not None or self.ensemble.tokens > 1:
            return draw_batch(self.positions, self.ensemble.fan_in, self.seed, index, self.input_norm)
        return draw_inputs(self.ensemble.fan_in, self.seed, index, self.input_norm, self.correlation)

    # ------------------------------------------------------------------------------------------- one forward pass

    def _forward(self, network: Network, inputs: np.ndarray, rows: Mapping[str, np.ndarray], stop: Event | None) -> int:
        ensemble = self.ensemble
        carried: list[Linear] = []
        trace: Trace | None = [] if self.pulls else None
        kernel = self._kernel(network, carried)
        between = self._pair_tangents(network, carried)
        jacobian: Tangents | None = None
        block: Tangents | None = None  # of the block that is run, from the layer before
        shift = 0.0  # ln of what the tangents were divided by
        if "log_J" in rows and self.l0 == 0:
            jacobian = self._tangents(network, ensemble.fan_in)
            carried.append(jacobian)
        for layer, z in network.run(inputs, carried, trace, self.pulls):
            if stop is not None and stop.is_set():
                break
            found = self._values(z)
            if kernel is not None:
                found["Theta"] = _theta(kernel)
            if layer == 1 and "J_ab" in self.shapes:
                between["J_ab"] = self._same_tangents(network)
                carried.append(between["J_ab"])
            found |= {name: _across(pushed.rows) for name, pushed in between.items()}
            if not all(map(_finite, found.values())):
                return layer
            if "chi" in rows:
                if block is not None:
                    rows["chi"][layer - 2] = float(np.square(block.rows).sum()) / self._count(block)
                    if not math.isfinite(rows["chi"][layer - 2]):
                        return layer
                    carried.remove(block)
                    block.release()
                if layer < ensemble.depth:
                    block = self._tangents(network, ensemble.widths[layer - 1], layer)
                    carried.append(block)
            if layer == self.l0 and "log_J" in rows:
                jacobian = self._tangents(network, ensemble.widths[layer - 1])
                carried.append(jacobian)
            if jacobian is not None:
                log_norm, more = log_squared_norm(jacobian.rows.reshape(-1, jacobian.rows.shape[-1]))
                if math.isnan(log_norm):
                    return layer
                rows["log_J"][layer - max(self.l0, 1)] = log_norm + 2 * shift - math.log(self._count(jacobian))
                shift += more
            for name, value in found.items():
                rows[name][layer - 1] = value
        if trace and (stop is None or not stop.is_set()):
            self._backward(network, trace, z, rows)
        return 0

    def _kernel(self, network: Network, carried: list[Linear]) -> TangentKernel | ParameterTangents | None:
        if "Theta" not in self.quantities:
            return None
        kernel: TangentKernel | ParameterTangents = TangentKernel(network.buffers)
        if self.probes is not None:
            positions = self.positions if self.ensemble.couples else None
            kernel = ParameterTangents(
                self.probes, positions, self.ensemble.fan_in, self.seed, network.index, network.buffers
            )
        carried.append(kernel)
        return kernel

    def _pair_tangents(self, network: Network, carried: list[Linear]) -> dict[str, Tangents]:
        """What carries Θ_ab: random tangents of the parameters at both inputs."""
        if "Theta_ab" not in self.shapes:
            return {}
        own = ParameterTangents(
            self.probes or PROBES, 2, self.ensemble.fan_in, self.seed, network.index, network.buffers
        )
        carried.append(own)
        return {"Theta_ab": own}

    def _same_tangents(self, network: Network) -> Tangents:
        """The same tangents of layer 1 at both inputs: every unit vector, or random ones."""
        size = self.ensemble.widths[0]
        count = size if self.probes is None else self.probes
        rows = network.buffers.take(count, 2, size)
        one = np.eye(size) if self.probes is None else draw_probes(size, self.seed, network.index, self.probes).T
        rows[...] = one[:, None, :]
        if self.probes is not None:
            return Tangents(rows, network.buffers)
        rows *= math.sqrt(size)  # so that a mean over the vectors is Σ_j of unit vectors
        return Tangents(rows, network.buffers)

    def _count(self, pushed: Tangents) -> int:
        """What a sum of squares over all vectors, positions and neurons is divided by."""
        return (self.probes or 1) * pushed.rows.shape[1] * pushed.rows.shape[2]

    def _tangents(self, network: Network, size: int, fresh: int | None = None) -> Tangents:
        """The directions of a Jacobian; fresh: the layer they start at, which then has directions of its own."""
        positions = self.positions if self.ensemble.couples else 1
        if self.probes is None and not self.ensemble.couples:
            return network.tangents(size)
        if self.probes is None:
            every = network.buffers.take(positions * size, positions, size)
            every[...] = np.eye(positions * size).reshape(every.shape)
            return Tangents(every, network.buffers)
        rows = network.buffers.take(self.probes, positions, size)
        role, after = (PROBE_ROLE, 0) if fresh is None else (FRESH_ROLE, fresh * rows.size)
        drawn = draw_probes(positions * size, self.seed, network.index, self.probes, role, after)
        rows[...] = drawn.T.reshape(rows.shape)
        return Tangents(rows, network.buffers, alone=not self.ensemble.couples)

    def _values(self, z: np.ndarray) -> dict[str, np.ndarray | float]:
        if self.correlation is not None:
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
        if "_S" in self.shapes and not self.order:
            found |= pair_rows(z)
        if set(SPREADS) & set(self.shapes):
            both = dict(zip(SPREADS, spread_and_drift(z)))
            found |= {name: value for name, value in both.items() if name in self.shapes}
        if "G0" in self.shapes:
            fractions = np.bincount(z[:, : self.classes].argmax(axis=1), minlength=self.classes) / len(z)
            found |= {"G0": fractions[0], "G0_squared": fractions[0] ** 2, "G_max": fractions.max()}
        return found

    # ------------------------------------------------------------------------------------------ one backward pass

    def _backward(self, network: Network, trace: Trace, z: np.ndarray, rows: Mapping[str, np.ndarray]) -> None:
        width, positions, signs = self.ensemble.widths[-1], self.positions, self.signs
        cotangents = np.empty((self.pulls, positions, width))
        drawn = draw_probes(positions * width, self.seed, network.index, signs, COTANGENT_ROLE)
        cotangents[:signs] = drawn.T.reshape(signs, positions, width)
        if "delta2" in rows:
            labels = draw_labels(positions, self.classes, self.seed, network.index)
            chosen = favoured_classes(z, self.classes)
            cotangents[signs] = loss_gradient(z, labels, self.classes)
        unit = 1 / (max(signs, 1) * width * positions)
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
        carried = Differentials(inputs, self.order)
        for layer, _ in network.run(inputs, [carried]):
            found = correlator_samples(carried.tensors)
            S, h = found["S"], found["h"]
            rows["_S"][layer - 1], rows["_h"][layer - 1] = S, h
            for name, one, other in (("_S*S", S, S), ("_h*h", h, h), ("_S*h", S, h)):
                rows[name][layer - 1] = np.multiply.outer(one, other)
            for name in ("SS", "hh", "Sh", "B", "F"):
                rows[f"_{name}"][layer - 1] = found[name]
            for raw, name in self._raw_differentials.items():
                rows[raw][layer - 1] = found[name]


def _across(rows: np.ndarray) -> float:
    """The mean over vectors and neurons of the product of both inputs' tangents."""
    return float((rows[:, 0] * rows[:, 1]).mean())


def _finite(value: np.ndarray | float) -> bool:
    return math.isfinite(value) if isinstance(value, float) else bool(np.isfinite(value).all())


def _trained(site: Site) -> tuple[str, ...]:
    return site.derivative.names if isinstance(site.derivative, Derivative) else ()


def _theta(kernel: TangentKernel | ParameterTangents) -> float:
    if isinstance(kernel, TangentKernel):
        return kernel.mean
    return float(np.square(kernel.rows).mean())


def check_plan(plan: Plan) -> None:
    """Raise `MeanFieldError` for quantities that these networks or inputs cannot give."""
    ensemble, wanted = plan.ensemble, set(plan.quantities)
    known = set(MEASURED)
    if wanted & {"K_aa", "K_bb", "distance"} and plan.correlation is None:
        raise MeanFieldError("K_aa, K_bb and distance are of two inputs; give correlation=.")
    if wanted - known:
        raise MeanFieldError(
            f"{shown(sorted(wanted - known)[0])} was asked for; what can be measured is {', '.join(sorted(known))}."
        )
    differentiated = [name for name in DIFFERENTIATED if name in wanted]
    if differentiated:
        refuse_jumps(ensemble.operations, differentiated[0], "leave it out (jacobian=False) to measure K")
    if wanted & set(PAIR_TANGENTS):
        if plan.positions != 2 or ensemble.tokens > 1:
            raise MeanFieldError("J_ab and Theta_ab are of two inputs; give correlation=, or inputs= with two rows.")
        if ensemble.couples:
            raise MeanFieldError("J_ab and Theta_ab are measured where positions are apart, not under a BatchNorm.")
    if ensemble.backward == "copy" and ("delta2" in wanted or ensemble.couples):
        raise MeanFieldError(
            'backward="copy" is for G_z, G_w and G_b of networks whose positions are apart; a loss (delta2), BatchNorm '
            "and mixed tokens are taken back through the weights that made them."
        )
    if "chi" in wanted and ensemble.depth < 2:
        raise MeanFieldError("chi is J^{l,l+1} of one block, but a network of depth 1 has none; take depth=2 or more.")
    exact = wanted & {"J", "chi", "Theta", "J_ab"} if plan.probes is None else set()
    if "Theta" in exact and ensemble.couples:
        raise MeanFieldError(
            "Theta of a network whose positions act on each other is measured with random vectors; give probes=..., "
            "for example 8."
        )
    if exact and ensemble.sampler == "lazy":
        raise MeanFieldError(
            "The lazy sampler never forms a matrix, so an exact Jacobian would cost as many products as neurons; give "
            "probes=..., for example 4, or sampler='explicit'."
        )
    if "K_ab" in wanted and plan.positions < 2:
        raise MeanFieldError("K_ab needs two inputs; give correlation=, batch= or inputs=.")
    if wanted & set(SPREADS) and (plan.positions < 2 or min(ensemble.widths) < 2):
        raise MeanFieldError(
            "sigma_y2 and sigma_mu2 are variances over inputs and neurons, of which there must be two or more; give "
            "batch=, inputs= or correlation=."
        )
    if wanted & {"c", "gamma", "G0"} and plan.positions < 2:
        raise MeanFieldError(
            "Class fractions, c and gamma need several inputs; give batch= or inputs= (c: correlation=)."
        )
    if plan.order:
        _check_chain(plan)
    if ("V" in wanted or plan.order) and (plan.positions > 8 or ensemble.tokens > 1):
        raise MeanFieldError("V, A, B, D, F are measured for up to 8 inputs without tokens; give fewer inputs.")
    if "G0" in wanted and not 2 <= plan.classes <= min(ensemble.widths):
        raise MeanFieldError(f"classes must be from 2 to the smallest width, but {plan.classes} was given.")
    if "delta2" in wanted:
        if ensemble.tokens > 1:
            raise MeanFieldError("delta2 is of a loss with one label for each input; give inputs without tokens.")
        if not 2 <= plan.classes <= ensemble.width:
            raise MeanFieldError(
                f"classes must be from 2 to {ensemble.width}, the width of the last layer, but {plan.classes} was "
                "given."
            )
        if plan.positions < plan.classes:
            raise MeanFieldError(
                f"delta2 of {plan.classes} classes needs an input of every class, but there are {plan.positions}; give "
                f"batch= or inputs= with {plan.classes} or more."
            )


def _check_chain(plan: Plan) -> None:
    ensemble = plan.ensemble
    chain = ensemble.operations
    first, last = chain if len(chain) == 2 else (None, None)
    plain = isinstance(first, Map) and isinstance(last, Affine) and not last.tokens
    if not isinstance(first, Map) or not plain or ensemble.sampler != "explicit":
        raise MeanFieldError(
            "A, B, D, F, P, Q, R, S, T, U are measured for Dense(φ(z)) without skip or norm, with explicit weights; "
            "change the architecture or the sampler."
        )
    if first.pair.higher is None and plan.order > 1:
        raise MeanFieldError(
            "P, Q, R, S, T, U need φ″ (and φ‴) as functions, but this activation has a kink or no hand-written ones; "
            "take a smooth one such as tanh."
        )
    widest = WIDEST[plan.order] // (plan.positions if plan.order > 1 else 1)
    if max(ensemble.widths) > widest:
        inputs = f" for {plan.positions} inputs" if plan.order > 1 and plan.positions > 1 else ""
        raise MeanFieldError(
            f"A, B, D, F hold tensors of N² numbers, P, Q of N³ and R, S, T, U of N⁴: here N ≤ {widest}{inputs}, but "
            f"N = {max(ensemble.widths)} was given."
        )
