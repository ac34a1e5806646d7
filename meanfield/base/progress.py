"""What a long call says while it works, where somebody watches: a terminal, or a notebook.

After `WAIT` seconds the outermost verb is named with the seconds that have passed, and what it is at (`doing`); loops
that know how much is left draw a bar with an estimate in its place (`watched`). What nobody watches says nothing.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Progress = Callable[[int, int], None]
WAIT = 1.0  # seconds: what takes less says nothing
_LOOK = 0.2  # seconds between two looks of the thread that says it


def somebody_watches() -> bool:
    """Whether stderr is a terminal, or this is a notebook."""
    shell = sys.modules.get("IPython")
    if shell is not None and type(shell.get_ipython()).__name__ == "ZMQInteractiveShell":
        return True
    return sys.stderr is not None and sys.stderr.isatty()


class _Teller:
    """Names the verb at work after `WAIT` seconds; one thread looks, from the first call that is watched on."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.what = self.detail = ""
        self.since = 0.0
        self.looks = 0
        self.bars = 0  # while one is drawn nothing else is
        self.shown: Any = None
        self.thread: threading.Thread | None = None
        self.wake = threading.Event()

    def begin(self, what: str) -> None:
        with self.lock:
            self.what, self.detail, self.since = what, "", time.monotonic()
            if self.thread is None or not self.thread.is_alive():  # none survives a fork
                self.thread = threading.Thread(target=self._look, name="meanfield-progress", daemon=True)
                self.thread.start()
        self.wake.set()

    def end(self) -> None:
        with self.lock:
            self.what = ""
            self._hide()
        self.wake.clear()

    def text(self) -> str:
        """The sentence of this moment."""
        seconds = f"{time.monotonic() - self.since:.0f} s"
        return f"{self.what}: {self.detail}, {seconds}" if self.detail else f"{self.what}: {seconds}"

    def _look(self) -> None:
        while True:
            self.wake.wait()
            time.sleep(_LOOK)
            with self.lock:
                self.looks += 1
                if not self.what or self.bars or time.monotonic() - self.since < WAIT:
                    continue
                if self.shown is None:
                    self._show()
                elif self.shown:
                    self.shown.update(self.text())

    def _show(self) -> None:
        from rich.console import Console
        from rich.errors import LiveError

        shown = Console(stderr=True).status(self.text())
        try:
            shown.start()
        except LiveError:  # the caller draws something of its own
            self.shown = False
            return
        self.shown = shown

    def _hide(self) -> None:
        if self.shown:
            self.shown.stop()
        self.shown = None

    @contextmanager
    def bar(self) -> Iterator[None]:
        """While a bar is drawn."""
        with self.lock:
            self.bars += 1
            self._hide()
        try:
            yield
        finally:
            with self.lock:
                self.bars -= 1


_teller = _Teller()


class saying:
    """What is at work inside, said where somebody watches and it takes long; only the outermost one speaks."""

    __slots__ = ("own", "what")

    def __init__(self, what: str) -> None:
        self.what, self.own = what, False

    def __enter__(self) -> None:
        if not _teller.what and threading.current_thread() is threading.main_thread() and somebody_watches():
            self.own = True
            _teller.begin(self.what)

    def __exit__(self, *error: object) -> None:
        if self.own:
            _teller.end()


@contextmanager
def doing(what: str) -> Iterator[None]:
    """What the verb at work is at."""
    before, _teller.detail = _teller.detail, what
    try:
        yield
    finally:
        _teller.detail = before


@contextmanager
def watched(progress: Progress | None, what: str) -> Iterator[Progress | None]:
    """The function progress(done, total) that was given, or one that draws a bar of `what`, with an estimate of the
    time that is left, where somebody watches.

    >>> with watched(None, "networks") as tell:  # here nobody watches
    ...     print(tell)
    None
    """
    if progress is not None or not somebody_watches():
        yield progress
        return
    begun, drawn = time.monotonic(), list[tuple[Any, Any]]()

    def tell(done: int, total: int) -> None:
        if not drawn:
            if time.monotonic() - begun < WAIT:
                return
            from rich.console import Console
            from rich.progress import Progress as Bar

            quiet = _teller.bar()
            quiet.__enter__()
            bar = Bar(console=Console(stderr=True), transient=True)
            bar.start()
            drawn.append((bar, bar.add_task(what, total=total)))
            ends.append(quiet)
        bar, task = drawn[0]
        bar.update(task, completed=done, total=total)

    ends: list[Any] = []
    try:
        yield tell
    finally:
        for bar, _ in drawn:
            bar.stop()
        for quiet in ends:
            quiet.__exit__(None, None, None)
