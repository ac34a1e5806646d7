"""What each operation launches on the device, by its type. A record of one's own has a kernel there by `on_device`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import meanfield.empirical.cuda.cuda_kernels as kernels
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.leading import Registry
from meanfield.empirical.cuda.compilation import geometry, kernel
from meanfield.empirical.functions.groups import group_functions
from meanfield.empirical.network.operations.operations import (
    Adapt,
    DenseOperation,
    Map,
    Multiply,
    Normalize,
    NormalizeRoot,
    PoolGroups,
    Project,
)
from meanfield.empirical.random.sampler import with_bias
from meanfield.networks.pooling import POOLS

MOST_VECTORS = 16  # that are multiplied with one draw of W: as many sums are held in registers
_OF_COMPILER = ("NumbaError", "NvvmError", "TypeError")  # numba.cuda's own classes depend on who ships it

Launch = Callable[[Any, Any, Any, Any, Any], None]
LAUNCHES: Registry[type, Launch] = Registry()


def on_device(operation: type) -> Callable[[Launch], Launch]:
    """Decorator: launch(batch, operation, site, x, out) starts the kernels that an operation of that type is on a GPU.

    x, out: (networks, rows, neurons) on the device; the first `batch.positions` of the `batch.rows` rows in use are
    signals, the others tangents at the first position. `compilation.kernel(function)` compiles a kernel (see there),
    `batch.each(kernel, neurons, …)` starts a thread for every neuron of every network, `batch.launch` any grid.
    """
    return LAUNCHES.adds(operation)


def refusal(what: str, instead: str = "") -> MeanFieldError:
    return MeanFieldError(f'With device="cuda", {what}; {instead}use device="cpu".')


def of_a_user(batch: Any, compiled: Any, what: str, neurons: int, *arguments: Any) -> None:
    """`batch.each` of a kernel with functions of the user's."""
    try:
        batch.each(compiled, neurons, *arguments)
    except Exception as error:
        if not any(base.__name__ in _OF_COMPILER for base in type(error).__mro__):
            raise
        raise refusal(f"{what} does not compile for the GPU") from error


@on_device(Map)
def _map(batch: Any, operation: Map, site: Any, x: Any, out: Any) -> None:
    pair = operation.pair
    compiled = kernel(kernels.map_kernel, phi=pair.phi, dphi=pair.dphi, PARAMETERS=pair.parameters)
    of_a_user(batch, compiled, f"the activation {pair!r}", x.shape[2], x, out, *batch.rest)


@on_device(Multiply)
def _multiply(batch: Any, operation: Multiply, site: Any, x: Any, out: Any) -> None:
    factor = operation.factor[site.layer - 1]
    batch.each(kernel(kernels.add_kernel), out.shape[2], x, factor, x, 0.0, out, *batch.rest)


@on_device(Adapt)
def _adapt(batch: Any, operation: Adapt, site: Any, x: Any, out: Any) -> None:
    batch.each(kernel(kernels.add_kernel), out.shape[2], x, 1.0, x, 0.0, out, *batch.rest)


@on_device(PoolGroups)
def _pool(batch: Any, operation: PoolGroups, site: Any, x: Any, out: Any) -> None:
    size, kind = operation.size, operation.kind
    if kind in POOLS:
        compiled = kernel(kernels.pool_kernel, LARGEST=kind == "max")
        batch.each(compiled, out.shape[2], x, out, *batch.rest, size)
        return
    value, slope = group_functions(kind, size)
    compiled = kernel(kernels.group_kernel, value=value, slope=slope)
    of_a_user(batch, compiled, f"the pool {kind!r}", out.shape[2], x, out, *batch.rest, size)


@on_device(NormalizeRoot)
@on_device(Normalize)
def _normalize(batch: Any, operation: Normalize | NormalizeRoot, site: Any, x: Any, out: Any) -> None:
    root = isinstance(operation, NormalizeRoot)
    spreads, positions = batch.store.spreads[: batch.networks], batch.positions
    given = x, out, spreads, batch.lost, positions
    batch.launch(kernel(kernels.normalize_kernel, ROOT=root), batch.networks * positions, batch.threads, *given)
    if batch.tangents:
        blocks = batch.networks * batch.tangents
        batch.launch(kernel(kernels.project_kernel, ROOT=root), blocks, batch.threads, x, out, spreads, positions)


@on_device(Project)
def _project(batch: Any, operation: Project, site: Any, x: Any, out: Any) -> None:
    if x.shape[2] == out.shape[2]:
        batch.each(kernel(kernels.add_kernel), out.shape[2], x, 1.0, x, 0.0, out, *batch.rest)
    else:
        _weigh(batch, operation.dense(site.layer), site, x, out)


@on_device(DenseOperation)
def _weigh(batch: Any, operation: DenseOperation, site: Any, x: Any, out: Any) -> None:
    sigma_w, sigma_b = batch.network.weights.deviations(operation, site.layer)
    scale, words = sigma_w / math.sqrt(x.shape[2]), batch.words(2 * operation.ordinal, site.layer)
    if batch.network.ensemble.sampler == "lazy":
        _reveal(batch, operation.law == "orthogonal", x, out, scale, sigma_b, words)
        return
    size = geometry()
    tiles = -(-out.shape[2] // size["ROWS"])
    most = -(-batch.rows // -(-batch.rows // MOST_VECTORS))  # equal parts
    for first in range(0, batch.rows, most):
        compiled = kernel(kernels.explicit_kernel, VECTORS=min(most, batch.rows - first))
        given = x, out, batch.lost, first, batch.positions, tiles, scale, sigma_b, words
        batch.launch(compiled, batch.networks * tiles, (size["LANES"], size["ROWS"]), *given)


def _reveal(batch: Any, haar: bool, x: Any, out: Any, scale: float, sigma_b: float, words: Any) -> None:
    longest, store, threads = max(x.shape[2], out.shape[2]), batch.store, 2 * batch.threads
    lengths = (longest, longest) if haar else (x.shape[2], out.shape[2])
    scale, *bias = (scale * math.sqrt(longest), 0.0, 1.0) if haar else with_bias(scale, sigma_b)
    rest = scale, tuple(bias), sigma_b if haar else 0.0, words
    known = (batch.shaped(flat, length) for flat, length in zip((store.frames, store.images), lengths))
    coefficients = store.coefficients[: batch.networks]
    given = x, out, batch.lost, *known, coefficients, batch.rows, batch.positions, *rest
    batch.launch(kernel(kernels.lazy_kernel, HAAR=haar, THREADS=threads), batch.networks, threads, *given)
