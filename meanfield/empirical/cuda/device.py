"""Networks on an NVIDIA GPU: K, and J by probes, of the very networks that the CPU draws, to rounding.

A batch of networks goes through its layers together, all vectors on the device; inputs come from the host. The batch is
a carrier of the walk that every network is taken through; what an operation launches is found by its type (`launches`).
Explicit weights are generated in registers where they are multiplied and never stored; lazy ones are revealed by one
thread block a network. Every sum has a fixed order and knows nothing of the batch, so the bits of a network depend on
neither the run nor its neighbours.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

import meanfield.empirical.cuda.compilation as compilation
import meanfield.empirical.cuda.cuda_kernels as kernels
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical.cuda.compilation import geometry, kernel, require_cuda
from meanfield.empirical.cuda.launches import LAUNCHES, refusal
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.operation import Join
from meanfield.empirical.network.operations.operation_walk import Passage, Site, Stack, placed, walk
from meanfield.empirical.network.operations.operations import AddSaved, DenseOperation, MultiplySaved, Save, Swap
from meanfield.empirical.network.shapes import Shapes
from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.observables.norms import PROBE_ROLE
from meanfield.empirical.random.buffers import Buffers

MEASURED = ("K", "J", "K_aa", "K_bb", "K_ab", "distance", "c", "gamma")
MOST_NETWORKS = 1 << 14  # of a batch
_OF_STACK = (Save, Swap, AddSaved, MultiplySaved)
_OF_MEMORY = 0.8  # the share of what is free that a batch may take


def check_cuda(plan: MeasurementPlan) -> None:
    """Raise `MeanFieldError` for what has no kernel; `check_plan` comes first."""
    ensemble = plan.ensemble
    strange = [name for name in plan.measured.quantities if name not in MEASURED]
    if strange:
        raise refusal(f"{strange[0]} is not available: K and J are measured there alone")
    if "J" in plan.measured.quantities and plan.measured.probes is None:
        raise refusal("the exact Jacobian is not available: J is measured with probes there", "give probes=..., or ")
    mixing = [one for one in ensemble.operations if one.mixes_tokens]
    if any(isinstance(one, Join) for one in mixing):
        raise refusal("attention has no kernel")
    if ensemble.tokens > 1 or mixing:
        raise refusal("the network has tokens, but only neurons are run there")
    if ensemble.couples:
        raise refusal("positions act on each other (BatchNorm), but they are run apart there")
    for one in ensemble.operations:
        if type(one) not in LAUNCHES and not isinstance(one, _OF_STACK):
            raise refusal(f"the network has {type(one).__name__}, which has no kernel there")
    laws = {ensemble.input_layer.law, *(one.law for one in ensemble.operations if isinstance(one, DenseOperation))}
    if ensemble.sampler == "explicit" and laws != {"gaussian"}:
        if "uniform" in laws:
            raise refusal("uniform weights are not available: normal ones alone are drawn there")
        raise refusal(
            "explicit orthogonal weights are not available: they are drawn by QR", 'use sampler="lazy", or '
        )


def measure_block_cuda(plan: MeasurementPlan, first: int, count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Networks first … first + count − 1: (first layer with a number that is not finite or 0, rows by name), as
    `MeasurementPlan.measure` gives them one by one.

    Raises `MeanFieldError` for a plan that has no kernel, for a machine without a GPU, for an activation that does not
    compile and for one network that does not fit into the memory of the GPU.
    """
    check_cuda(plan)
    driver = require_cuda()
    extent = _extent(plan.ensemble)
    store = _Store(driver, _batch(plan, count, driver, extent), plan, extent)
    rows = {name: np.full((count, *shape), math.nan) for name, shape in plan.shapes.items()}
    diverged_at = np.zeros(count, dtype=np.int64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*under-utilization.*")  # a few networks do not fill a GPU: no news
        for start in range(0, count, store.networks):
            part = slice(start, min(start + store.networks, count))
            batch = _Batch(store, plan, first + start, part.stop - start)
            batch.run()
            diverged_at[part] = batch.read({name: values[part] for name, values in rows.items()})
    return diverged_at, rows


def _extent(ensemble: Ensemble) -> tuple[int, int]:
    """(the longest vector of a network, how many are held at once)."""
    longest, held = max(ensemble.fan_in, *ensemble.widths), 1
    for layer in range(2, ensemble.depth + 1):
        carrier, end = Shapes((1, ensemble.widths[layer - 2]), layer), (1, ensemble.widths[layer - 1])
        for _ in walk(placed(ensemble.operations, Passage(layer, end)), [carrier]):
            longest, held = max(longest, carrier.longest), max(held, carrier.held)
    return longest, held + 1


def _batch(plan: MeasurementPlan, count: int, driver: Any, extent: tuple[int, int]) -> int:
    """How many networks fit into what is free of the device's memory."""
    longest, held = extent
    vectors = held + (2 if plan.ensemble.sampler == "lazy" else 0)
    own = 8 * (_rows(plan) * (longest * vectors + 3) + 2 * plan.positions + 6 * plan.ensemble.depth)
    free = driver.current_context().get_memory_info()[0]
    fit = min(count, MOST_NETWORKS)
    if math.isfinite(free):  # it is not in the simulator
        fit = min(fit, int(_OF_MEMORY * free / own))
    if fit < 1:
        raise MeanFieldError(
            f"One network takes {own / 2**30:.3g} GiB on the GPU, where {free / 2**30:.3g} GiB are free; take a "
            "smaller width, fewer probes or inputs, or another device."
        )
    return fit


def _rows(plan: MeasurementPlan) -> int:
    return plan.positions + (plan.measured.probes or 0 if "log_J" in plan.shapes else 0)


class _Store:
    """The device's memory for batches of `networks` networks; vectors are handed out and taken back."""

    def __init__(self, driver: Any, networks: int, plan: MeasurementPlan, extent: tuple[int, int]) -> None:
        positions, rows, depth = plan.positions, _rows(plan), plan.ensemble.depth
        self.networks, self.rows, self._driver = networks, rows, driver
        self._size = networks * rows * extent[0]
        self._free: list[Any] = []
        self.frames, self.images = (self.take() if plan.ensemble.sampler == "lazy" else None for _ in range(2))
        self.coefficients = driver.device_array((networks, 3, rows))
        self.spreads = driver.device_array((networks, positions))
        self.lost = driver.to_device(np.zeros((networks, positions), dtype=np.int32))
        self.values = driver.device_array((depth, networks, 4))
        self.norms = driver.device_array((depth, networks, 2))

    def take(self) -> Any:
        return self._free.pop() if self._free else self._driver.device_array(self._size)

    def give(self, flat: Any) -> None:
        self._free.append(flat)


@dataclass(frozen=True, eq=False)
class _Signal:
    """Vectors of `neurons` numbers, all rows of all networks, in a flat piece of memory."""

    flat: Any
    neurons: int


class _Batch(Stack):
    """`networks` networks from number `first` on: a carrier, whose vectors are on the device."""

    def __init__(self, store: _Store, plan: MeasurementPlan, first: int, networks: int) -> None:
        self.store, self._plan, self._ensemble = store, plan, plan.ensemble
        self._first, self.networks = first, networks
        self.network = plan.ensemble.network(plan.seed, first, Buffers())
        self.positions = self.rows = plan.positions  # rows in use: tangents come in at layer l0
        self.lost = store.lost[:networks]
        self.threads = geometry()["THREADS"]
        super().__init__(_Signal(store.take(), plan.ensemble.fan_in))

    @property
    def tangents(self) -> int:
        return self.rows - self.positions

    @property
    def rest(self) -> tuple[Any, int, int]:
        """What most kernels end with: marks of positions that are lost, vectors in use, positions among them."""
        return self.lost, self.rows, self.positions

    # ------------------------------------------------------------------------------------------------- as a carrier

    def add(self, mu: float) -> None:
        top, below = self._stack.pop(), self._stack.pop()
        self._made(kernels.add_kernel, top.neurons, (top, below), 1.0, mu)

    def join(self, site: Site) -> None:
        below, top = self.operands(site)  # of the joins, MultiplySaved alone has a kernel
        self._made(kernels.product_kernel, top.neurons, (top, below))

    def _made(self, function: Any, neurons: int, used: tuple[_Signal, ...], *numbers: float) -> None:
        new = _Signal(self.store.take(), neurons)
        x, saved, out = (self.view(one) for one in (*used, new))
        given = (x, numbers[0], saved, numbers[1]) if numbers else (x, saved)
        self.each(kernel(function), neurons, *given, out, *self.rest)
        self._put(new, used)

    def apply(self, site: Site) -> None:
        operation: Any = site.operation
        old = self._stack.pop()
        new = _Signal(self.store.take(), operation.shape((1, old.neurons), site.layer, site.end)[1])
        LAUNCHES[type(operation)](self, operation, site, self.view(old), self.view(new))
        self._put(new, (old,))

    def _put(self, new: _Signal, used: tuple[_Signal, ...]) -> None:
        self._stack.append(new)
        for flat in {id(one.flat): one.flat for one in used}.values():  # a vector saved may be used twice
            if all(flat is not one.flat for one in self._stack):
                self.store.give(flat)

    # ------------------------------------------------------------------------------------------------------ launches

    def view(self, signal: _Signal) -> Any:
        return self.shaped(signal.flat, signal.neurons)

    def shaped(self, flat: Any, neurons: int) -> Any:
        shape = self.networks, self.store.rows, neurons
        return flat[: math.prod(shape)].reshape(shape)

    def words(self, role: int, layer: int) -> tuple[np.uint64, ...]:
        """The stream of the first network, in compiled code."""
        seed = self._plan.seed
        return tuple(np.uint64(word) for word in (role << 16, self._first, layer, seed & 0xFFFFFFFF, seed >> 32))

    def launch(self, compiled: Any, grid: int, block: Any, *arguments: Any) -> None:
        compilation.launch(compiled, grid, block, *arguments)

    def each(self, compiled: Any, neurons: int, *arguments: Any) -> None:
        """A thread for every neuron of every network."""
        self.launch(compiled, -(-self.networks * neurons // self.threads), self.threads, *arguments)

    # ----------------------------------------------------------------------------------------------------- the layers

    def run(self) -> None:
        inputs = self.view(self._stack[0])
        for b in range(self.networks):
            drawn = self._plan.inputs.draw(self._ensemble, self._plan.seed, self._first + b)
            inputs[b, : self.positions].copy_to_device(np.ascontiguousarray(drawn, dtype=float))
        if self._plan.measured.l0 == 0:
            self._begin()
        finish = kernel(kernels.finish_kernel, PAIRED=self._plan.inputs.correlation is not None)
        for layer in range(1, self._ensemble.depth + 1):
            for _ in walk(self.network.sites(layer), [self]):
                pass
            if layer == self._plan.measured.l0:
                self._begin()
            x = self.view(self._stack[0])
            found = (of[layer - 1, : self.networks] for of in (self.store.values, self.store.norms))
            self.launch(finish, self.networks, self.threads, x, self.lost, *found, self.rows, self.positions)
        self.store.give(self._stack.pop().flat)

    def _begin(self) -> None:
        """Tangents enter, if J is measured."""
        if self.store.rows > self.positions:
            self.rows = self.store.rows
            x = self.view(self._stack[-1])
            self.each(kernel(kernels.probes_kernel), x.shape[2], x, self.positions, self.words(PROBE_ROLE, 0))

    def read(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Fill `rows` up to the first layer with a number that is not finite, and return that layer or 0."""
        plan, depth, positions = self._plan, self._ensemble.depth, self.positions
        values, norms = (of.copy_to_host()[:, : self.networks] for of in (self.store.values, self.store.norms))
        with np.errstate(all="ignore"):
            if plan.inputs.correlation is not None:
                found = {name: values[:, :, k].T for k, name in enumerate(("K_aa", "K_bb", "K_ab", "distance"))}
            else:
                own, square = values[:, :, 0].T, values[:, :, 1].T
                found = {"K": own / positions}
                if positions > 1:
                    found["K_ab"] = (square - own) / (positions * (positions - 1))
            good = np.all([np.isfinite(one) for one in found.values()], axis=0)
            if "log_J" in rows:
                start = max(plan.measured.l0, 1) - 1
                log_norm, more = norms[start:, :, 0].T, norms[start:, :, 1].T
                good[:, start:] &= ~np.isnan(log_norm)
                shift = np.cumsum(more, axis=1) - more  # ln of what the tangents were divided by, before this layer
                counts = (plan.measured.probes or 1) * np.array(self._ensemble.widths[start:], dtype=float)
                found["log_J"] = log_norm + 2 * shift - np.log(counts)
        reached = np.where(good.all(axis=1), depth, good.argmin(axis=1))
        for name, one in found.items():
            layers = np.arange(depth - one.shape[1], depth)
            rows[name][...] = np.where(layers < reached[:, None], one, math.nan)
        return np.where(reached < depth, reached + 1, 0)
