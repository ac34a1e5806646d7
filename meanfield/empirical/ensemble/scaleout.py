"""Blocks of networks over threads or any `concurrent.futures.Executor`, with a checkpoint.

A block is a pure function of the plan and its range of networks, so it may be measured anywhere, in any order, and more
than once; what comes back is filed under its number. A checkpoint is one file with the blocks done so far, written
whole: a run that was killed goes on from it and ends with the same bits.
"""

from __future__ import annotations

import hashlib
import io
import os
import tempfile
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from pathlib import Path
from threading import Event, local
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.results import MeanFieldError
from meanfield.empirical.ensemble.blocks import Block, edges, measure_block, measure_elsewhere, measure_on_device
from meanfield.empirical.ensemble.parallel import threads_used
from meanfield.empirical.ensemble.running import Running
from meanfield.empirical.observables.measurement import Plan
from meanfield.empirical.random.buffers import Buffers

SECONDS_BETWEEN_CHECKPOINTS = 20.0
BLOCKS_ON_DEVICE = 64  # of networks that are measured together on a GPU
_FORMAT = 2  # of a checkpoint; a number also stands for the samples of a version


def run_blocks(plan: Plan, run: Running) -> list[Block]:
    """All blocks of a run in the order of their index."""
    networks = run.networks
    borders = edges(networks)
    file = None if run.checkpoint is None else Checkpoint(Path(run.checkpoint), fingerprint(plan, run))
    found: dict[int, Block] = {} if file is None else file.read()
    missing = [g for g in range(len(borders) - 1) if g not in found]
    stop, scratch = Event(), local()

    def here(first: int, count: int) -> Block | None:
        if not hasattr(scratch, "buffers"):
            scratch.buffers = Buffers()
        if stop.is_set():
            return None
        block = measure_block(plan, first, count, run.keep, run.device, scratch.buffers, stop)
        return None if stop.is_set() else block

    def submit(g: int) -> Future:
        first, count = run.first + int(borders[g]), int(borders[g + 1] - borders[g])
        if run.executor is None:
            return pool.submit(here, first, count)
        return run.executor.submit(measure_elsewhere, plan, first, count, run.keep, run.device, os.getpid())

    done, written = sum(block.count for block in found.values()), time.monotonic()
    alone = run.executor is None and run.device == "cuda"

    def tell(block: Block) -> None:
        nonlocal done, written
        done += block.count
        if run.progress is not None:
            run.progress(done, networks)
        if file is not None and time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS:
            file.write(found)
            written = time.monotonic()

    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(limits=1, user_api="blas"))
        workers = min(threads_used(run.threads), networks)
        pool: Executor = run.executor or stack.enter_context(ThreadPoolExecutor(workers))
        futures: dict[Future, int] = {}
        try:
            for g, block in _on_device(plan, run, borders, missing) if alone else []:
                found[g] = block
                tell(block)
            for g in [] if alone else missing:
                futures[submit(g)] = g
            for future in as_completed(futures):
                found[futures[future]] = future.result()
                tell(found[futures[future]])
        except BaseException as error:  # an interrupt too: keep what is done, leave within one layer
            stop.set()
            for future in futures:
                future.cancel()
            if file is not None:
                file.write(found)
            _explain(error, file, len(found), len(borders) - 1)
            raise
    if file is not None:
        file.write(found)
    return [found[g] for g in range(len(borders) - 1)]


def _on_device(
    plan: Plan, whole: Running, borders: np.ndarray, missing: list[int]
) -> Iterator[tuple[int, Block]]:
    """(number, block), runs of consecutive missing blocks measured together."""
    while missing:
        run = [g for i, g in enumerate(missing[:BLOCKS_ON_DEVICE]) if g == missing[0] + i]
        missing = missing[len(run) :]
        counts = [int(borders[g + 1] - borders[g]) for g in run]
        yield from zip(run, measure_on_device(plan, whole.first + int(borders[run[0]]), counts, whole.keep))


def _explain(error: BaseException, file: Checkpoint | None, done: int, blocks: int) -> None:
    """Say in a sentence what a lost worker, or a plan that cannot travel, leaves behind."""
    lost = type(error).__name__ in ("BrokenProcessPool", "BrokenThreadPool", "BrokenExecutor", "KilledWorker")
    told = str(error).lower()
    if not lost and "pickle" not in told and "local object" not in told:  # the last in Python 3.12 and 3.13
        return
    kept = (
        f"{done} of {blocks} blocks are in {file.path}: the same call goes on from there"
        if file is not None
        else "give checkpoint=... to keep what is done"
    )
    what = (
        "A worker of the executor died (a script that spawns processes must guard its main part with "
        "if __name__ == '__main__')"
        if lost
        else "The functions of an activation cannot be sent to another process (give a formula, a registered name or "
        "ScalarPair.from_sources)"
    )
    raise MeanFieldError(f"{what}; {kept}.") from error


def fingerprint(plan: Plan, run: Running) -> str:
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
        (measured.probes, measured.l0, measured.classes, ensemble.rates),
        (run.first, run.networks, run.keep, run.device),
    )
    return hashlib.sha256(repr(what).encode() + given).hexdigest()


class Checkpoint:
    """Blocks in one .npz file: every field stacked over the blocks that are done."""

    def __init__(self, path: Path, key: str) -> None:
        if not path.parent.is_dir():
            raise MeanFieldError(f"A checkpoint was asked for in {path.parent}, but there is no folder of that name.")
        self.path, self._key = path, key

    def read(self) -> dict[int, Block]:
        """The blocks on file, none if there is no file; raises `MeanFieldError` for a file of another run."""
        if not self.path.exists():
            return {}
        try:
            with np.load(self.path, allow_pickle=False) as data:
                arrays = {name: data[name] for name in data.files}
                key = str(arrays.pop("key"))
        except OSError as error:
            raise MeanFieldError(f"{self.path} cannot be read: {error.strerror or error}.") from None
        except (ValueError, KeyError, TypeError, zipfile.BadZipFile):  # an .npy is no archive
            raise MeanFieldError(f"{self.path} is not a checkpoint; remove it or name another file.") from None
        if key != self._key:
            raise MeanFieldError(
                f"{self.path} is the checkpoint of another run (other settings, seed or number of networks); remove it "
                "or name another file."
            )
        return dict(_blocks(arrays))

    def write(self, found: dict[int, Block]) -> None:
        """Whole or not at all: a temporary file in the same folder takes the place of the old one."""
        if not found:
            return
        buffer = io.BytesIO()
        np.savez(buffer, key=np.array(self._key), **_arrays(found))  # type: ignore[arg-type]
        handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=self.path.name, suffix=".part")
        try:
            with os.fdopen(handle, "wb") as out:
                out.write(buffer.getvalue())
                out.flush()
                os.fsync(out.fileno())
            os.replace(name, self.path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


def _arrays(found: dict[int, Block]) -> dict[str, np.ndarray]:
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
            Block(
                count=int(arrays["count"][i]),
                lost=int(arrays["lost"][i]),
                reach=int(arrays["reach"][i]),
                shift=arrays["shift"][i] if "shift" in arrays else None,
                diverged_at=arrays["diverged_at"][own] if "diverged_at" in arrays else None,
                **parts,
            ),
        )
