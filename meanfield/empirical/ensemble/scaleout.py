"""Blocks of networks over threads or any `concurrent.futures.Executor`, with a checkpoint.

A block is a pure function of the plan and its range of networks, so it may be measured anywhere, in any order, and more
than once; what comes back is filed under its number. A checkpoint is one file with the blocks done so far, written
whole: a run that was killed goes on from it and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from pathlib import Path
from threading import Event, local
from typing import Any

import numpy as np

from meanfield.base.storage.checkpoints import Checkpoint
from meanfield.empirical.ensemble.ensemble_blocks import (
    BlockStatistics,
    edges,
    measure_block,
    measure_elsewhere,
    measure_on_device,
)
from meanfield.empirical.ensemble.one_run import Running
from meanfield.empirical.ensemble.parallel import gathered, threads_used
from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.random.buffers import Buffers

BLOCKS_ON_DEVICE = 64  # of networks that are measured together on a GPU
_FORMAT = 2  # of a checkpoint; a number also stands for the samples of a version


def run_blocks(plan: MeasurementPlan, run: Running) -> list[BlockStatistics]:
    """All blocks of a run in the order of their index."""
    networks = run.networks
    borders = edges(networks)
    file = None if run.checkpoint is None else Checkpoint(Path(run.checkpoint), fingerprint(plan, run))
    found: dict[int, BlockStatistics] = {} if file is None else dict(_blocks(file.read()))
    stop, scratch = Event(), local()
    done = sum(block.count for block in found.values())

    def here(first: int, count: int) -> BlockStatistics | None:
        if not hasattr(scratch, "buffers"):
            scratch.buffers = Buffers()
        if stop.is_set():
            return None
        block = measure_block(plan, first, count, run.keep, run.device, scratch.buffers, stop)
        return None if stop.is_set() else block

    def submit(pool: Executor, g: int) -> Future:
        first, count = run.first + int(borders[g]), int(borders[g + 1] - borders[g])
        if run.executor is None:
            return pool.submit(here, first, count)
        return pool.submit(measure_elsewhere, plan, first, count, run.keep, run.device, os.getpid())

    def tell(block: BlockStatistics) -> None:
        nonlocal done
        done += block.count
        if run.progress is not None:
            run.progress(done, networks)

    alone = run.executor is None and run.device == "cuda"
    missing = [g for g in range(len(borders) - 1) if g not in found]
    gathered(
        range(len(borders) - 1), found, submit, executor=run.executor, threads=min(threads_used(run.threads), networks),
        stop=stop, file=file, arrays=_arrays, what="blocks", tell=tell,
        first=_on_device(plan, run, borders, missing) if alone else (),
    )  # fmt: skip
    return [found[g] for g in range(len(borders) - 1)]


def _on_device(
    plan: MeasurementPlan, whole: Running, borders: np.ndarray, missing: list[int]
) -> Iterator[tuple[int, BlockStatistics]]:
    """(number, block), runs of consecutive missing blocks measured together."""
    while missing:
        run = [g for i, g in enumerate(missing[:BLOCKS_ON_DEVICE]) if g == missing[0] + i]
        missing = missing[len(run) :]
        counts = [int(borders[g + 1] - borders[g]) for g in run]
        yield from zip(run, measure_on_device(plan, whole.first + int(borders[run[0]]), counts, whole.keep))


def fingerprint(plan: MeasurementPlan, run: Running) -> str:
    """A hash of all that decides the numbers."""
    ensemble, inputs, measured = plan.ensemble, plan.inputs, plan.measured
    given = b"" if inputs.given is None else np.ascontiguousarray(inputs.given).tobytes()
    what = (
        _FORMAT,
        ensemble.operations,
        (ensemble.input_layer, ensemble.backward),
        ensemble.sigma_w.tolist(),
        ensemble.sigma_b.tolist(),
        ensemble.widths,
        ensemble.fan_in,
        ensemble.tokens,
        ensemble.sampler,
        sorted(plan.shapes.items()),
        (plan.seed, inputs.norm, inputs.correlation, inputs.batch),
        (measured.probes, measured.l0, measured.classes, ensemble.rates, *_named(measured.read)),
        (run.first, run.networks, run.keep, run.device),
    )
    return hashlib.sha256(repr(what).encode() + given).hexdigest()


def _named(read: str) -> tuple[str, ...]:
    """Nothing where all positions are read, as checkpoints had it before there was a choice."""
    return () if read == "mean" else (read,)


def _arrays(found: dict[int, BlockStatistics]) -> dict[str, np.ndarray]:
    if not found:
        return {}
    order = sorted(found)
    blocks = [found[g] for g in order]
    arrays = {"order": np.array(order)}
    for name in ("count", "lost", "reach"):
        arrays[name] = np.array([getattr(block, name) for block in blocks])
    for part in ("means", "squares"):
        for name in getattr(blocks[0], part):
            arrays[f"{part}/{name}"] = np.stack([getattr(block, part)[name] for block in blocks])
    if blocks[0].shift is not None:
        arrays["shift"] = np.stack([np.asarray(block.shift) for block in blocks])
    for name in blocks[0].rows:
        arrays[f"rows/{name}"] = np.concatenate([block.rows[name] for block in blocks])
    if blocks[0].diverged_at is not None:
        arrays["diverged_at"] = np.concatenate([np.asarray(block.diverged_at) for block in blocks])
    return arrays


def _blocks(arrays: dict[str, np.ndarray]):
    if not arrays:
        return
    ends = np.cumsum(arrays["count"])
    for i, g in enumerate(arrays["order"].tolist()):
        own = slice(int(ends[i] - arrays["count"][i]), int(ends[i]))
        parts: dict[str, dict[str, Any]] = {"means": {}, "squares": {}, "rows": {}}
        for name, values in arrays.items():
            part, _, inner = name.partition("/")
            if inner:
                parts[part][inner] = values[own] if part == "rows" else values[i]
        yield (
            g,
            BlockStatistics(
                count=int(arrays["count"][i]),
                lost=int(arrays["lost"][i]),
                reach=int(arrays["reach"][i]),
                shift=arrays["shift"][i] if "shift" in arrays else None,
                diverged_at=arrays["diverged_at"][own] if "diverged_at" in arrays else None,
                **parts,
            ),
        )
