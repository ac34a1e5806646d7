"""Networks on an NVIDIA GPU: K, and J by probes, of the very networks that the CPU draws, to rounding.

A batch of networks goes through its layers together, all vectors on the device; inputs come from the host. Explicit
weights are generated in registers where they are multiplied and never stored; lazy ones are revealed by one thread
block a network. Every sum has a fixed order and knows nothing of the batch, so the bits of a network depend on neither
the run nor its neighbours.

Kernels are plain functions (`cuda_kernels`), and call plain functions: those there, of `philox` and the twins.
`_kernel` rebuilds one with device functions and the constants of a plan in the place of its globals, and compiles that;
so numba.cuda is imported when the first one is needed.
"""

from __future__ import annotations

import importlib
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from types import CellType, FunctionType
from typing import Any

import numpy as np
from numba import config
from numba.extending import is_jitted

import meanfield.empirical.cuda.kernels as kernels
from meanfield.empirical.functions.groups import group_functions
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations import (
    AddSaved,
    Affine,
    Map,
    Multiply,
    MultiplySaved,
    Normalize,
    NormalizeBatch,
    PoolGroups,
    Save,
    Swap,
)
from meanfield.empirical.observables.measurement import Plan
from meanfield.empirical.observables.norms import PROBE_ROLE
from meanfield.empirical.random.buffers import Buffers
from meanfield.pooling import POOLS
from meanfield.results import MeanFieldError

MEASURED = ("K", "J", "K_aa", "K_bb", "K_ab", "distance", "c", "gamma")
MOST_VECTORS = 16  # that are multiplied with one draw of W: as many sums are held in registers
MOST_NETWORKS = 1 << 14  # of a batch
MOST_REGISTERS = 128  # of a thread of the lazy sampler: blocks of 512 fit
_OF_TWO = (AddSaved, MultiplySaved)
_WITH_KERNEL = (Affine, Map, Normalize, NormalizeBatch, PoolGroups, Multiply, Save, Swap, *_OF_TWO)
_OF_MEMORY = 0.8  # the share of what is free that a batch may take
_OF_COMPILER = ("NumbaError", "NvvmError", "TypeError")  # numba.cuda's own classes depend on who ships it


# -------------------------------------------------------------------------------------------------------- compilation


def require_cuda() -> Any:
    """The module numba.cuda with a GPU behind it; raises `MeanFieldError` where either is missing."""
    try:
        driver = importlib.import_module("numba.cuda")
    except ImportError:
        raise MeanFieldError(
            'device="cuda" was asked for, but numba.cuda is not installed; pip install meanfield[cuda], or use '
            'device="cpu".'
        ) from None
    if not driver.is_available():
        raise MeanFieldError(
            'device="cuda" was asked for, but numba.cuda finds no GPU that it can compile for; that takes an NVIDIA '
            'GPU with its driver and pip install meanfield[cuda], or use device="cpu".'
        )
    return driver


class _Rebuilt:
    """Functions rebuilt in copies of their modules' globals, with every function they call compiled for the device."""

    def __init__(self, driver: Any, constants: dict[str, Any]) -> None:
        self._driver = driver
        own = vars(kernels)
        self._scopes = {id(own): {**own, **constants, "cuda": driver}}  # all functions here share one: see `cuda`
        self._made: list[Any] = []

    def function(self, plain: Any) -> FunctionType:
        plain = getattr(plain, "py_func", plain)
        scope = self._scopes.setdefault(id(plain.__globals__), dict(plain.__globals__))
        for name in plain.__code__.co_names:
            if name in scope:
                scope[name] = self._on_device(scope[name])
        cells = tuple(CellType(self._on_device(cell.cell_contents)) for cell in plain.__closure__ or ())
        return FunctionType(plain.__code__, scope, plain.__name__, plain.__defaults__, cells or None)

    def _on_device(self, value: Any) -> Any:
        if any(value is one for one in self._made) or not (isinstance(value, FunctionType) or is_jitted(value)):
            return value
        plain = self.function(value)  # the simulator runs it as it is
        self._made.append(plain if _simulated() else self._driver.jit(device=True)(plain))
        return self._made[-1]


@lru_cache(maxsize=256)
def _kernel(function: Callable[..., None], **constants: Any) -> Any:
    """The kernel `function` with `constants` in the place of its module's globals."""
    driver = require_cuda()
    plain = _Rebuilt(driver, _geometry() | constants).function(function)
    limited = function is kernels.lazy_kernel and not _simulated()
    return driver.jit(plain, **({"max_registers": MOST_REGISTERS} if limited else {}))


def _simulated() -> bool:
    return bool(getattr(config, "ENABLE_CUDASIM", 0))  # set at run time, from the environment


def _geometry() -> dict[str, int]:
    """The size of thread blocks: small in the simulator, where a thread of the device is one of Python."""
    names = "THREADS", "LANES", "ROWS", "CHUNK"
    return dict.fromkeys(names, 2) if _simulated() else {name: getattr(kernels, name) for name in names}


def _launch(kernel: Any, grid: int, block: Any, *arguments: Any) -> None:
    kernel[grid, block](*arguments)


# ----------------------------------------------------------------------------------------------------------- the host


def check_cuda(plan: Plan) -> None:
    """Raise `MeanFieldError` for what has no kernel; `check_plan` comes first."""
    ensemble = plan.ensemble
    strange = [name for name in plan.quantities if name not in MEASURED]
    if strange:
        raise _refusal(f"{strange[0]} was asked for, but K and J are measured there alone")
    if "J" in plan.quantities and plan.probes is None:
        raise _refusal("the exact Jacobian was asked for, but J is measured with probes there", "give probes=..., or ")
    mixes = any(isinstance(one, Affine) and one.tokens for one in ensemble.operations)
    if ensemble.tokens > 1 or mixes:
        raise _refusal("the network has tokens, but only neurons are run there")
    for one in ensemble.operations:
        if type(one) not in _WITH_KERNEL:
            raise _refusal(f"the network has {type(one).__name__}, which has no kernel there")
    if any(isinstance(one, NormalizeBatch) for one in ensemble.operations):
        raise _refusal("the network has BatchNorm, but positions are run apart there")
    laws = {ensemble.input_layer.law, *(one.law for one in ensemble.operations if isinstance(one, Affine))}
    if ensemble.sampler == "explicit" and laws != {"gaussian"}:
        if "uniform" in laws:
            raise _refusal("uniform weights were asked for, but normal ones alone are drawn there")
        raise _refusal(
            "explicit orthogonal weights were asked for, but they are drawn by QR", 'use sampler="lazy", or '
        )


def _refusal(what: str, instead: str = "") -> MeanFieldError:
    return MeanFieldError(f'With device="cuda", {what}; {instead}use device="cpu".')


def measure_block_cuda(plan: Plan, first: int, count: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Networks first … first + count − 1: (first layer with a number that is not finite or 0, rows by name), as
    `Plan.measure` gives them one by one.

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
    longest, held = max(ensemble.fan_in, *ensemble.widths), 0
    for layer in range(2, ensemble.depth + 1):
        here, saved = ensemble.widths[layer - 2], []
        for operation in ensemble.operations:
            match operation:
                case Save():
                    saved.append(here)
                    held = max(held, len(saved))
                case Swap():
                    here, saved[-1] = saved[-1], here
                case AddSaved() | MultiplySaved():
                    saved.pop()
                case Affine():
                    here = operation.outputs(layer, ensemble.widths[layer - 1])
                case PoolGroups(size):
                    here //= size
            longest = max(longest, here)
    return longest, held + 2


def _batch(plan: Plan, count: int, driver: Any, extent: tuple[int, int]) -> int:
    """How many networks fit into what is free of the device's memory."""
    longest, held = extent
    vectors = held + (2 if plan.ensemble.sampler == "lazy" else 0)
    own = 8 * (_rows(plan) * (longest * vectors + 2) + 2 * plan.positions + 6 * plan.ensemble.depth)
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


def _rows(plan: Plan) -> int:
    return plan.positions + (plan.probes or 0 if "log_J" in plan.shapes else 0)


class _Store:
    """The device's memory for batches of `networks` networks; vectors are handed out and taken back."""

    def __init__(self, driver: Any, networks: int, plan: Plan, extent: tuple[int, int]) -> None:
        positions, rows, depth = plan.positions, _rows(plan), plan.ensemble.depth
        self.networks, self.rows, self._driver = networks, rows, driver
        self._size = networks * rows * extent[0]
        self._free: list[Any] = []
        self.frames, self.images = (self.take() if plan.ensemble.sampler == "lazy" else None for _ in range(2))
        self.coefficients = driver.device_array((networks, 2, rows))
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


class _Batch:
    """`networks` networks from number `first` on: their vectors on a stack, as in `Network`."""

    def __init__(self, store: _Store, plan: Plan, first: int, networks: int) -> None:
        self._store, self._plan, self._ensemble = store, plan, plan.ensemble
        self._first, self._networks = first, networks
        self._network = plan.ensemble.network(plan.seed, first, Buffers())
        self._positions = self._rows = plan.positions  # rows in use: tangents come in at layer l0
        self._lost = store.lost[:networks]
        self._threads = _geometry()["THREADS"]
        self._stack: list[_Signal] = []

    def run(self) -> None:
        self._stack = [_Signal(self._store.take(), self._ensemble.fan_in)]
        inputs = self._view(self._stack[0])
        for b in range(self._networks):
            drawn = np.ascontiguousarray(self._plan._inputs(self._first + b), dtype=float)
            inputs[b, : self._positions].copy_to_device(drawn)
        if self._plan.l0 == 0:
            self._begin()
        finish = _kernel(kernels.finish_kernel, PAIRED=self._plan.correlation is not None)
        for layer in range(1, self._ensemble.depth + 1):
            for operation in self._ensemble.operations if layer > 1 else (self._ensemble.input_layer,):
                self._apply(operation, layer)
            if layer == self._plan.l0:
                self._begin()
            x = self._view(self._stack[0])
            found = (of[layer - 1, : self._networks] for of in (self._store.values, self._store.norms))
            _launch(finish, self._networks, self._threads, x, self._lost, *found, self._rows, self._positions)
        self._store.give(self._stack.pop().flat)

    def read(self, rows: dict[str, np.ndarray]) -> np.ndarray:
        """Fill `rows` up to the first layer with a number that is not finite, and return that layer or 0."""
        plan, depth, positions = self._plan, self._ensemble.depth, self._positions
        values, norms = (of.copy_to_host()[:, : self._networks] for of in (self._store.values, self._store.norms))
        with np.errstate(all="ignore"):
            if plan.correlation is not None:
                found = {name: values[:, :, k].T for k, name in enumerate(("K_aa", "K_bb", "K_ab", "distance"))}
            else:
                own, square = values[:, :, 0].T, values[:, :, 1].T
                found = {"K": own / positions}
                if positions > 1:
                    found["K_ab"] = (square - own) / (positions * (positions - 1))
            good = np.all([np.isfinite(one) for one in found.values()], axis=0)
            if "log_J" in rows:
                start = max(plan.l0, 1) - 1
                log_norm, more = norms[start:, :, 0].T, norms[start:, :, 1].T
                good[:, start:] &= ~np.isnan(log_norm)
                shift = np.cumsum(more, axis=1) - more  # ln of what the tangents were divided by, before this layer
                counts = (plan.probes or 1) * np.array(self._ensemble.widths[start:], dtype=float)
                found["log_J"] = log_norm + 2 * shift - np.log(counts)
        reached = np.where(good.all(axis=1), depth, good.argmin(axis=1))
        for name, one in found.items():
            layers = np.arange(depth - one.shape[1], depth)
            rows[name][...] = np.where(layers < reached[:, None], one, math.nan)
        return np.where(reached < depth, reached + 1, 0)

    def _begin(self) -> None:
        """Tangents enter, if J is measured."""
        if self._store.rows > self._positions:
            self._rows = self._store.rows
            x = self._view(self._stack[-1])
            self._each(_kernel(kernels.probes_kernel), x.shape[2], x, self._positions, self._words(PROBE_ROLE, 0))

    def _words(self, role: int, layer: int) -> tuple[np.uint64, ...]:
        seed = self._plan.seed
        return tuple(np.uint64(word) for word in (role << 16, self._first, layer, seed & 0xFFFFFFFF, seed >> 32))

    def _view(self, signal: _Signal) -> Any:
        return self._shaped(signal.flat, signal.neurons)

    def _shaped(self, flat: Any, neurons: int) -> Any:
        shape = self._networks, self._store.rows, neurons
        return flat[: math.prod(shape)].reshape(shape)

    def _each(self, kernel: Any, neurons: int, *arguments: Any) -> None:
        """A thread for every neuron of every network."""
        _launch(kernel, -(-self._networks * neurons // self._threads), self._threads, *arguments)

    def _apply(self, operation: Any, layer: int) -> None:
        stack = self._stack
        match operation:
            case Save():
                stack.append(stack[-1])
            case Swap():
                stack[-2:] = stack[:-3:-1]
            case _:
                used = [stack.pop(), *([stack.pop()] if isinstance(operation, _OF_TWO) else [])]
                neurons = used[0].neurons
                match operation:
                    case Affine():
                        neurons = operation.outputs(layer, self._ensemble.widths[layer - 1])
                    case PoolGroups(size):
                        neurons //= size
                new = _Signal(self._store.take(), neurons)
                self._run(operation, layer, *(self._view(one) for one in (*used, new)))
                stack.append(new)
                for flat in {id(one.flat): one.flat for one in used}.values():  # a vector saved may be used twice
                    if all(flat is not one.flat for one in stack):
                        self._store.give(flat)

    def _run(self, operation: Any, layer: int, x: Any, *others: Any) -> None:
        out, rest = others[-1], (self._lost, self._rows, self._positions)
        match operation:
            case Affine():
                self._affine(operation, layer, x, out)
            case Map(pair):
                self._map(pair, x, out, *rest)
            case AddSaved(mu):
                self._each(_kernel(kernels.add_kernel), out.shape[2], x, 1.0, others[0], mu[layer - 1], out, *rest)
            case MultiplySaved():
                self._each(_kernel(kernels.product_kernel), out.shape[2], x, *others, *rest)
            case Multiply(factor):
                self._each(_kernel(kernels.add_kernel), out.shape[2], x, factor[layer - 1], x, 0.0, out, *rest)
            case PoolGroups(size, kind) if kind in POOLS:
                self._each(_kernel(kernels.pool_kernel, LARGEST=kind == "max"), out.shape[2], x, out, *rest, size)
            case PoolGroups(size, formula):
                value, slope = group_functions(formula, size)
                kernel = _kernel(kernels.group_kernel, value=value, slope=slope)
                self._compiled(kernel, f"the pool {formula!r}", out.shape[2], x, out, *rest, size)
            case Normalize():
                self._normalize(x, out)

    def _map(self, pair: ScalarPair, x: Any, *rest: Any) -> None:
        kernel = _kernel(kernels.map_kernel, phi=pair.phi, dphi=pair.dphi, PARAMETERS=pair.parameters)
        self._compiled(kernel, f"the activation {pair!r}", x.shape[2], x, *rest)

    def _compiled(self, kernel: Any, what: str, neurons: int, *arguments: Any) -> None:
        """`_each` of a kernel with functions of the user's."""
        try:
            self._each(kernel, neurons, *arguments)
        except Exception as error:
            if not any(base.__name__ in _OF_COMPILER for base in type(error).__mro__):
                raise
            raise _refusal(f"{what} does not compile for the GPU") from error

    def _normalize(self, x: Any, out: Any) -> None:
        spreads, positions, tangents = self._store.spreads[: self._networks], self._positions, self._tangents
        _launch(
            _kernel(kernels.normalize_kernel),
            self._networks * positions,
            self._threads,
            x,
            out,
            spreads,
            self._lost,
            positions,
        )
        if tangents:
            _launch(
                _kernel(kernels.project_kernel), self._networks * tangents, self._threads, x, out, spreads, positions
            )

    @property
    def _tangents(self) -> int:
        return self._rows - self._positions

    def _affine(self, operation: Affine, layer: int, x: Any, out: Any) -> None:
        sigma_w, sigma_b = self._network.weights.deviations(operation, layer)
        scale, words = sigma_w / math.sqrt(x.shape[2]), self._words(2 * operation.ordinal, layer)
        if self._ensemble.sampler == "lazy":
            self._reveal(operation.law == "orthogonal", x, out, scale, sigma_b, words)
            return
        size = _geometry()
        tiles = -(-out.shape[2] // size["ROWS"])
        most = -(-self._rows // -(-self._rows // MOST_VECTORS))  # equal parts
        for first in range(0, self._rows, most):
            kernel = _kernel(kernels.explicit_kernel, VECTORS=min(most, self._rows - first))
            arguments = x, out, self._lost, first, self._positions, tiles, scale, sigma_b, words
            _launch(kernel, self._networks * tiles, (size["LANES"], size["ROWS"]), *arguments)

    def _reveal(self, haar: bool, x: Any, out: Any, scale: float, *rest: Any) -> None:
        longest, store, threads = max(x.shape[2], out.shape[2]), self._store, 2 * self._threads
        lengths = (longest, longest) if haar else (x.shape[2], out.shape[2])
        scale *= math.sqrt(longest) if haar else 1.0
        known = (self._shaped(flat, length) for flat, length in zip((store.frames, store.images), lengths))
        kernel, coefficients = (
            _kernel(kernels.lazy_kernel, HAAR=haar, THREADS=threads),
            store.coefficients[: self._networks],
        )
        arguments = x, out, self._lost, *known, coefficients, self._rows, self._positions, scale, *rest
        _launch(kernel, self._networks, threads, *arguments)
