"""Rounds of a benchmark and of its peer alternate, so that a busy machine slows both. Nothing here asserts a time."""

import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the float oracle is a peer
_CACHE = tempfile.TemporaryDirectory(prefix="meanfield-bench-")
os.environ["MEANFIELD_CACHE"] = _CACHE.name  # compiled anew in every run: the user's cache stays as it is


def _record(times: list, f, units: float) -> None:
    start, own = perf_counter(), f()
    times.append((own if isinstance(own, float) else perf_counter() - start) / units)  # a float: its own seconds


@pytest.fixture
def beside(benchmark, request):
    """Run ours and peer in alternation; record seconds divided by (peer_)units, and the bars (seconds, or × peer)."""

    def run(ours, peer, name, rounds=7, units=1.0, peer_units=1.0, warm=True, **bars):
        mine, theirs = [], []
        if warm:
            ours(), peer()
        setup = lambda: _record(theirs, peer, peer_units)  # noqa: E731
        benchmark.pedantic(lambda: _record(mine, ours, units), setup=setup, rounds=rounds)
        title = request.node.function.__doc__
        title = title.format(**request.node.callspec.params) if hasattr(request.node, "callspec") else title
        benchmark.extra_info.update(title=title, peer=name, seconds=mine, peer_seconds=theirs, **bars)

    return run
