"""A bar on stderr while a long call works, where somebody watches a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], None]
WAIT = 1.0  # seconds: what takes less has no bar


@contextmanager
def watched(progress: Progress | None, what: str) -> Iterator[Progress | None]:
    """The function progress(done, total) that was given, or one that draws a bar of `what` where stderr is a terminal.

    >>> with watched(None, "networks") as tell:  # here nobody watches
    ...     print(tell)
    None
    """
    if progress is not None or not sys.stderr.isatty():
        yield progress
        return
    begun, drawn = time.monotonic(), list[tuple[Any, Any]]()

    def tell(done: int, total: int) -> None:
        if not drawn:
            if time.monotonic() - begun < WAIT:
                return
            from rich.console import Console
            from rich.progress import Progress as Bar

            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            drawn.append((bar, bar.add_task(what, total=total)))
        bar, task = drawn[0]
        bar.update(task, completed=done, total=total)

    try:
        yield tell
    finally:
        for bar, _ in drawn:
            bar.stop()
