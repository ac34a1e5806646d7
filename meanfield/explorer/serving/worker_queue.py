"""One worker of a served page: questions in a row, the last of each kind alone, and an end to those that take long."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from typing import Any

PATIENCE = 60.0  # seconds that an answer may take
_OPEN: weakref.WeakSet[WorkerQueue] = weakref.WeakSet()
Callback = Callable[[dict[str, Any]], None]


class WorkerQueue:
    """Asks a worker; `told` gets {"what", "answer"} or {"what", "error"}, in another thread, of the last question of
    each kind.

    A new question drops an older one of its kind that waits; where that is being answered, its answer is not told, and
    where another theory is asked about, its process is ended. What takes longer than `patience` seconds is ended, too.
    """

    def __init__(self, told: Callback, patience: float = PATIENCE):
        self.told, self.patience = told, patience
        self._lock = threading.Condition()
        self._waiting: dict[str, dict[str, Any]] = {}
        self._last: dict[str, int] = {}
        self._count = 0
        self._process: subprocess.Popen | None = None
        self._running: dict[str, Any] | None = None
        self._closed = False
        self._ended: list[subprocess.Popen] = []
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()
        _OPEN.add(self)

    def ask(self, what: str, settings: dict[str, Any]) -> None:
        """Put a question."""
        with self._lock:
            self._count += 1
            self._waiting[what] = {"id": self._count, "what": what, "settings": settings}
            self._last[what] = self._count
            if what == "model":
                for other in [k for k in self._waiting if k != what]:
                    del self._waiting[other]
                self._last = {what: self._count}  # nothing about another theory is told any more
                if self._running is not None:
                    self._end()
            self._lock.notify()

    def close(self) -> None:
        """End the worker."""
        with self._lock:
            self._closed = True
            self._end()
            self._lock.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(5)

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._ended.append(self._process)
            self._process = None

    def _clean(self) -> None:
        """Let go of processes that have ended; in the thread that reads from them."""
        while self._ended:
            one = self._ended.pop()
            one.wait()
            for pipe in (one.stdin, one.stdout):
                with suppress(OSError):
                    pipe.close()  # type: ignore[union-attr]

    def _started(self) -> subprocess.Popen:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "meanfield.explorer.serving.worker"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, encoding="utf-8",
                env=os.environ | {"PYTHONIOENCODING": "utf-8", "MEANFIELD_SECONDS": str(self.patience)},
            )  # fmt: skip
        return self._process

    def _work(self) -> None:
        while True:
            with self._lock:
                while not self._waiting and not self._closed:
                    self._lock.wait()
                self._clean()
                if self._closed:
                    return
                what = next(k for k in ("model", "marks", "phase", "bands") if k in self._waiting)
                self._running = asked = self._waiting.pop(what)
                process = self._started()
            said = self._answered(process, asked)
            with self._lock:
                self._running = None
                if "ended" in said and self._process is process:  # killed, and not yet gone
                    self._end()
                fresh = self._last.get(what) == asked["id"] and not self._closed
            if fresh:
                self.told(said)

    def _answered(self, process: subprocess.Popen, asked: dict[str, Any]) -> dict[str, Any]:
        late = threading.Timer(self.patience, process.kill)
        late.start()
        try:
            process.stdin.write(json.dumps(asked) + "\n")  # type: ignore[union-attr]
            process.stdin.flush()  # type: ignore[union-attr]
            line = process.stdout.readline()  # type: ignore[union-attr]
        except (OSError, ValueError):
            line = ""
        finally:
            late.cancel()
        if line:
            return json.loads(line)
        sentence = f"No answer came within {self.patience:g} seconds; take a simpler formula, or ask in Python."
        return {"what": asked["what"], "ended": True, "error": sentence}


def close_all() -> None:
    """End the workers of all pages of this process."""
    for one in list(_OPEN):
        one.close()
