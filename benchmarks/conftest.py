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


def _seconds(f) -> float:
    start = perf_counter()
    own = f()
    return own if isinstance(own, float) else perf_counter() - start  # a float: it measured its own seconds


@pytest.fixture
def beside(benchmark, request):
    """Run ours and peer in alternation; record seconds divided by (peer_)units, and the bars (seconds, or × peer)."""

    def run(ours, peer, name, rounds=7, units=1.0, peer_units=1.0, warm=True, **bars):
        mine, theirs = [], []
        if warm:
            ours(), peer()
        setup = lambda: theirs.append(_seconds(peer) / peer_units)  # noqa: E731
        benchmark.pedantic(lambda: mine.append(_seconds(ours) / units), setup=setup, rounds=rounds)
        values = getattr(getattr(request.node, "callspec", None), "params", {})
        title = request.node.function.__doc__.format(**values)
        benchmark.extra_info.update(title=title, peer=name, seconds=mine, peer_seconds=theirs, **bars)

    return run
