"""A generated module, run: as plain Python until that has cost what the compiled form does, compiled from then on.

Compiling takes seconds, loading Numba and compiled code from its cache half a second; ten layers take some microseconds
in any form. Nobody knows how often a module will still be called. So calls are interpreted until the time spent on
them, and what the present one is going to take, come to the price of the compiled form: then all calls together never
cost more than twice the cheaper of the two (the rule for renting or buying skis). The text is the same, and so are the
bits; where the interpreter raises what compiled code answers with inf or nan (a division by zero, an overflow), the
compiled form answers. Where Numba is not installed all calls are interpreted, and such a call is refused.
"""

from __future__ import annotations

import importlib.util
import math
import os
import re
import struct
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property, lru_cache
from types import ModuleType, SimpleNamespace

import numpy as np

from meanfield.base.budgets import require_seconds
from meanfield.base.progress import doing
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.module_functions import DIRECT_WEIGHT
from meanfield.numeric.lowering.text import elementary_numeric, interpreting
from meanfield.numeric.lowering.text.interpreting import FloatRows

VERSION = "0.3.0"
PATIENCE = 1.0  # prices of the compiled form that interpreted calls may cost in all
UNIT = 2.5e-6  # seconds that the interpreter takes for a unit of work, a layer of a plain recursion
NUMBA = 0.5  # seconds that its import takes
KEPT = 0.3  # seconds that compiled code takes to load from Numba's cache
CHARACTER = 2.5e-4  # seconds that compiling takes for each character of a module

SPLIT = 2e5  # units of work below which threads cost more than they give
SHARES = 8  # of the points, for each thread

#: places of a table of lists, which the interpreter reads faster than arrays
_LISTS = re.compile(r"(?<!\w)(T_\d+)\[([^\[\],:]+), (\w+)\]"), r"\1[\2][\3]"

T = object()  # stands for the module's tables among the arguments of a call


class _TooLongError(Exception):
    """A plain call has cost what compiling would."""


class Module:
    """The functions of one stored module.

    name: its name in the cache; source: its text; tables: the arrays T that its functions read; weight: work of one
    step relative to one layer whose averages are tables or closed forms; workspace: numbers that `layers` has for its
    own use; plain: what stands in the interpreter for compiled functions that the text imports.
    """

    def __init__(
        self,
        name: str,
        source: str,
        tables: tuple[np.ndarray, ...],
        weight: float,
        workspace: int = 0,
        plain: Mapping[str, Callable] | None = None,
    ):
        self.name, self.source, self.tables, self.weight, self.workspace = name, source, tables, weight, workspace
        self.plain = plain or {}
        self._spent = 0.0  # seconds, on interpreted calls
        self._until = math.inf  # of the thread's time, when the plain call that runs is given up

    @classmethod
    def of(cls, name: str, source: str, arrays: dict[str, np.ndarray]) -> Module:
        """The module that is stored as `source` and `arrays`."""
        tables = tuple(arrays[f"T{i}"] for i in range(sum(key.startswith("T") for key in arrays)))
        return cls(name, source, tables, float(arrays["weight"]), int(arrays.get("workspace", 0)))

    def __getstate__(self) -> dict:
        """Without what is made of the source: functions do not travel."""
        made = ("compiled", "price", "_plain", "_rows")
        return {k: v for k, v in self.__dict__.items() if k not in made}

    @cached_property
    def compiled(self) -> ModuleType:
        """The module in Numba's hands."""
        return cache.load(self.name)

    @cached_property
    def price(self) -> float:
        """The seconds that it takes, about, until the compiled form can be called."""
        made = KEPT if cache.is_compiled(self.name) else CHARACTER * len(self.source)
        return made + (NUMBA if "numba" not in sys.modules else 0.0)

    @cached_property
    def _plain(self) -> dict:
        """The same source with decorators that do nothing."""

        text = interpreting.NUMBA.sub("", self.source, count=1)
        text = _LISTS[0].sub(_LISTS[1], text)
        scope = interpreting.scope_of(text, self.name)
        scope |= {"math": _MATH, **self.plain}  # in place: it is where the functions look names up
        if "_bits" in scope:
            scope["_bits"] = lambda x: struct.unpack("<q", struct.pack("<d", x))[0]
        if "_room" in scope:
            scope["_room"] = self._limited(scope["_room"])
        if "_float" in scope:
            scope["_float"] = lambda bits: struct.unpack("<d", struct.pack("<q", bits))[0]
        return scope

    @cached_property
    def _rows(self) -> tuple[FloatRows, ...]:
        return tuple(FloatRows(t.tolist()) for t in self.tables)

    def follow(
        self, start: np.ndarray, sigma: np.ndarray, relative: tuple[int, ...], first: int, last: int, repeats: bool,
        every: bool,
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """(values, diverged) of all points at the layers first … last (every), or at the last one.

        start (points, variables): as they are held at layer `first`, those in `relative` as logarithms; sigma
        (parameters, points, 1 or layers); repeats: whether a layer that changes nothing is followed by such layers;
        values (points, layers, variables); diverged (points,): the first layer with infinite K, 0 if none.
        """
        points, variables = start.shape
        out = np.empty((points, last - first + 1 if every else 1, variables))
        diverged = np.zeros(points, dtype=np.int64)
        begin = np.empty((points, variables + len(relative)))
        begin[:, :variables] = start
        for k, i in enumerate(relative):
            begin[:, i], begin[:, variables + k] = elementary_numeric.wide(start[:, i])
        block = elementary_numeric.WIDTH if self.weight < DIRECT_WEIGHT else 1  # quadratures have nothing to share
        sigma = np.require(sigma, requirements=["C", "W"])  # one type of array is one compiled form
        rest = (begin, sigma, T, first - 1, last - 1, repeats, every, out, diverged)
        self.in_parallel(points, block, last - first + 1, *rest)
        if every:
            out[:, 0] = start
        return out, diverged

    def call(self, function: str, steps: float, *arguments) -> None:
        """Run `function(*arguments)`, where `T` stands for the tables; `steps` is how much work it is."""
        if not (self.is_little(self.seconds(steps)) and self.interpreted(function, arguments)):
            with self._compiling():
                getattr(self.compiled, function)(*(self.tables if a is T else a for a in arguments))

    def _compiling(self) -> AbstractContextManager[None]:
        """What a long call says while the first run of the compiled form is made."""
        return nullcontext() if "compiled" in self.__dict__ else doing("compiling")

    def in_parallel(self, points: int, block: int, steps: float, *arguments) -> None:
        """Run `layers(low, high, block, *arguments, workspace)`, which serves the points low to high - 1 by blocks, for
        all points, in as many threads as Numba may use; `steps` is how much work a point is. What a point gets does not
        depend on the others, so neither does it on how they are split."""
        done, seconds = 0, self.seconds(steps)  # of a point: guessed, then as it was found
        while done < points and self.is_little((points - done) * seconds, begun=done > 0):
            spent, high = self._spent, min(done + block, points)
            if not self.interpreted("layers", (done, high, block, *arguments, [0.0] * self.workspace)):
                break
            done, seconds = high, max(seconds, (self._spent - spent) / (high - done))
        if done < points:
            with self._compiling():
                self._run_in_parallel(done, points, block, steps, arguments)

    def _run_in_parallel(self, first: int, points: int, block: int, steps: float, arguments: tuple) -> None:
        run, rest = self.compiled.layers, [self.tables if a is T else a for a in arguments]
        blocks = -(-(points - first) // block)
        threads = min(_threads(), blocks) if (points - first) * steps * max(1.0, self.weight) > SPLIT else 1
        share = block * max(1, -(-blocks // (SHARES * threads)))  # more shares than threads: their work differs

        def part(low: int, high: int) -> None:
            run(low, high, block, *rest, np.zeros(self.workspace))

        if threads == 1:
            part(first, points)
            return
        from concurrent.futures import ThreadPoolExecutor  # not needed above: logging comes with it

        with ThreadPoolExecutor(threads) as pool:
            starts = range(first, points, share)
            for done in [pool.submit(part, low, min(low + share, points)) for low in starts]:
                done.result()

    def seconds(self, steps: float) -> float:
        """What the interpreter takes for so much work, about."""
        return steps * self.weight * UNIT

    def is_little(self, seconds: float, begun: bool = False) -> bool:
        """Whether the plain form is to run for what takes it so long: while there is no compiled one, and that would
        not have paid yet; always where there is nothing to compile with, unless what has not begun takes too long."""
        if not has_numba():
            if not begun:
                require_seconds(seconds, "Without Numba this run", "ask for fewer layers or points, install numba")
            return True
        return "compiled" not in self.__dict__ and self._spent + seconds <= PATIENCE * self.price

    def _limited(self, room: Callable) -> Callable:
        """`_room`, which every quadrature asks for, where a plain call ends that takes longer than was guessed."""

        def limited(n: int) -> Sequence[float]:
            if time.thread_time() > self._until:
                raise _TooLongError
            return room(n)

        return limited

    def interpreted(self, function: str, arguments: tuple) -> bool:
        """Run the plain form; whether that gave the answer."""
        began = time.thread_time()
        self._until = began + PATIENCE * self.price if has_numba() else math.inf
        try:
            with np.errstate(all="ignore"):
                self._plain[function](*(self._rows if a is T else a for a in arguments))
            return True
        except (ZeroDivisionError, OverflowError, ValueError, _TooLongError):
            self._spent = math.inf  # inf and nan are answers of the compiled form
            return False
        finally:
            self._spent += time.thread_time() - began


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Whether Numba is installed; in a browser there is none."""
    return importlib.util.find_spec("numba") is not None


def _log(x: float) -> float:
    """log as compiled code has it."""
    return math.log(x) if x > 0.0 else -math.inf if x == 0.0 else math.nan


_MATH = SimpleNamespace(**{**vars(math), "log": _log})


def _threads() -> int:
    """How many threads Numba may use, whether it is imported or not."""
    config = getattr(sys.modules.get("numba"), "config", None)
    if config is not None:
        return int(config.NUMBA_NUM_THREADS)
    given = os.environ.get("NUMBA_NUM_THREADS", "")
    if given.isdecimal() and int(given) > 0:
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
