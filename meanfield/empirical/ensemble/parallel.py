"""Networks over threads: one network is one piece of work, and its numbers do not depend on which thread does it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from threading import Event, local

from threadpoolctl import threadpool_limits

from meanfield.empirical.network.checks import integer
from meanfield.empirical.random.buffers import Buffers

Work = Callable[[int, Buffers, Event], None]


def each_network(
    work: Work, networks: int, threads: int | None, progress: Callable[[int, int], None] | None = None
) -> None:
    """Call work(i, buffers, stop) for i = 0..networks − 1; the scratch `buffers` are those of the thread.

    progress(done, networks) is called from the calling thread. `stop` is set on an interrupt: the work returns soon.
    """
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


def threads_used(threads: int | None) -> int:
    """The number asked for, checked, or as many as this process may use cores."""
    if threads is not None:
        return integer(threads, "The number of threads", 1, 1 << 16)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
