"""Networks over threads or any executor: their numbers do not depend on which of them does the work, or when."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, as_completed
from contextlib import ExitStack
from threading import Event, local
from typing import Any, TypeVar

from threadpoolctl import threadpool_limits

from meanfield.base.arguments import choice, path, provides
from meanfield.base.storage.checkpoints import SECONDS_BETWEEN_CHECKPOINTS, Checkpoint, explain
from meanfield.empirical.network.operations.checks import integer
from meanfield.empirical.random.buffers import Buffers

DEVICES = ("cpu", "cuda")
Work = Callable[[int, Buffers, Event], None]
Unit = TypeVar("Unit")
Answer = TypeVar("Answer")


def check_workers(
    threads: Any = None, executor: Any = None, device: Any = "cpu", checkpoint: Any = None, progress: Any = None
) -> None:
    """Raise `MeanFieldError` for what does not say who runs networks, where, and who is told; asked by every verb that
    runs some, before anything is derived or drawn for it."""
    if threads is not None:
        threads_used(threads)
    provides(executor, "executor", "submit", "an Executor of concurrent.futures or one with its submit")
    choice(device, "device", DEVICES)
    path(checkpoint, "checkpoint")
    provides(progress, "progress", None, "a function progress(done, networks)")


def each_network(
    work: Work, networks: int, threads: int | None, progress: Callable[[int, int], None] | None = None
) -> None:
    """Call work(i, buffers, stop) for i = 0..networks − 1; the scratch `buffers` are those of the thread.

    progress(done, networks) is called from the calling thread. `stop` is set on an interrupt: the work returns soon.
    """
    check_workers(threads, progress=progress)
    stop, scratch = Event(), local()

    def one(i: int) -> None:
        if stop.is_set():
            return
        if not hasattr(scratch, "buffers"):
            scratch.buffers = Buffers()
        work(i, scratch.buffers, stop)

    # One BLAS thread per network: two networks on two cores beat one product on two cores, and the bits are fixed.
    with (
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(min(threads_used(threads), networks)) as pool,
    ):
        try:
            for done, future in enumerate(as_completed([pool.submit(one, i) for i in range(networks)]), 1):
                future.result()
                if progress is not None:
                    progress(done, networks)
        except BaseException:  # an interrupt too: leave within one layer
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise


def gathered(
    units: Sequence[Unit],
    found: dict[Unit, Answer],
    submit: Callable[[Executor, Unit], Future],
    *,
    executor: Executor | None,
    threads: int,
    stop: Event,
    file: Checkpoint | None,
    arrays: Callable[[dict[Unit, Answer]], dict[str, Any]],
    what: str,
    tell: Callable[[Answer], None],
    first: Iterable[tuple[Unit, Answer]] = (),
) -> None:
    """Fill `found` with what every unit of work gives, in whatever order it comes back, and the checkpoint with it.

    submit(pool, unit): starts one unit, in `executor` or in so many threads. first: units that are done in this
    thread before any other is submitted. stop: set on an interrupt, so that units in threads return soon. arrays:
    what the checkpoint holds of `found`; what: a name of the units, for messages; tell: called with each result.
    """
    written = time.monotonic()

    def put(unit: Unit, result: Answer) -> None:
        nonlocal written
        found[unit] = result
        tell(result)
        if file is not None and time.monotonic() - written > SECONDS_BETWEEN_CHECKPOINTS:
            file.write(arrays(found))
            written = time.monotonic()

    futures: dict[Future, Unit] = {}
    with ExitStack() as stack:
        stack.enter_context(threadpool_limits(limits=1, user_api="blas"))
        pool = executor or stack.enter_context(ThreadPoolExecutor(threads))
        try:
            for unit, result in first:
                put(unit, result)
            for unit in units:
                if unit not in found:
                    futures[submit(pool, unit)] = unit
            for future in as_completed(futures):
                put(futures[future], future.result())
        except BaseException as error:  # an interrupt too: keep what is done, and leave soon
            stop.set()
            for future in futures:
                future.cancel()
            if file is not None:
                file.write(arrays(found))
            explain(error, file, len(found), len(units), what)
            raise
    if file is not None:
        file.write(arrays(found))


def threads_used(threads: int | None) -> int:
    """The number asked for, checked, or as many as this process may use cores."""
    if threads is not None:
        return integer(threads, "The number of threads", 1, 1 << 16)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
