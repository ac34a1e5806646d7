"""Many trainings: over threads or any executor of `concurrent.futures`, with a checkpoint.

The unit of work is one network of one plan at one rate, a pure function of its numbers: it may be done anywhere, in any
order, and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.storage.checkpoints import Checkpoint
from meanfield.empirical.ensemble.parallel import gathered, threads_used
from meanfield.empirical.training.one_network import TrainingPlan, train_one

_FORMAT = 1  # of a checkpoint; a number also stands for the arithmetic of a version
Unit = tuple[int, int, int]  # number of the plan, of the rate, of the network
NetworkArrays = dict[str, np.ndarray]


def run_units(
    plans: Sequence[TrainingPlan],
    rates: Sequence[Sequence[float]],
    networks: int,
    *,
    threads: int | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[Unit, NetworkArrays]:
    """`train_one` of every network of every plan, at every one of the plan's rates."""
    units = [(p, r, i) for p, each in enumerate(rates) for r in range(len(each)) for i in range(networks)]
    file = None if checkpoint is None else Checkpoint(Path(checkpoint), _fingerprint(plans, rates, networks))
    found: dict[Unit, NetworkArrays] = {} if file is None else _read(file.read())
    stop = Event()

    def submit(pool: Executor, unit: Unit) -> Future:
        p, r, i = unit
        if executor is None:
            return pool.submit(train_one, plans[p], i, rates[p][r], stop)
        return pool.submit(_elsewhere, plans[p], i, rates[p][r])

    def tell(_: NetworkArrays) -> None:
        if progress is not None:
            progress(len(found), len(units))

    gathered(
        units, found, submit, executor=executor, threads=threads_used(threads), stop=stop, file=file, arrays=_arrays,
        what="trained networks", tell=tell,
    )  # fmt: skip
    return found


def _elsewhere(plan: TrainingPlan, index: int, rate: float) -> NetworkArrays:
    with threadpool_limits(limits=1, user_api="blas"):
        return train_one(plan, index, rate)


def _arrays(found: dict[Unit, NetworkArrays]) -> NetworkArrays:
    return {"/".join((*map(str, unit), name)): one for unit, held in found.items() for name, one in held.items()}


def _read(arrays: NetworkArrays) -> dict[Unit, NetworkArrays]:
    found: dict[Unit, NetworkArrays] = {}
    for key, one in arrays.items():
        p, r, i, name = key.split("/", 3)
        found.setdefault((int(p), int(r), int(i)), {})[name] = one
    return found


def _fingerprint(plans: Sequence[TrainingPlan], rates: Sequence[Sequence[float]], networks: int) -> str:
    """A hash of all that decides the numbers."""
    digest = hashlib.sha256(repr((_FORMAT, [list(one) for one in rates], networks)).encode())
    for plan in plans:
        ensemble, layers = plan.layers.ensemble, plan.layers
        what: tuple[Any, ...] = (
            ensemble.operations, ensemble.input_layer, ensemble.sigma_w.tolist(), ensemble.sigma_b.tolist(),
            ensemble.widths, ensemble.fan_in, ensemble.tokens, ensemble.rates, layers.head, layers.outputs,
            layers.biases, plan.loss, plan.optimizer, plan.steps, plan.batch, plan.warmup, plan.records, plan.seed,
            plan.keep,
        )  # fmt: skip
        digest.update(repr(what).encode())
        for name, part in sorted(plan.parts.items()):
            digest.update(name.encode() + part.x.tobytes() + part.y.tobytes())
            digest.update(b"" if part.class_indices is None else part.class_indices.tobytes())
        digest.update(b"" if plan.theta is None else plan.theta.tobytes())
    return digest.hexdigest()
