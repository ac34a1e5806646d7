"""Benchmarks beside named peers: `pytest benchmarks`, or `python benchmarks/report.py` for the written report.

Rounds of the benchmark and of its peer alternate, so that a busy machine slows both; the ratio is the median over the
pairs. Nothing here asserts a time: bars are reported, not tested.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]  # the float oracle is a peer
_CACHE = tempfile.TemporaryDirectory(prefix="meanfield-bench-")
os.environ["MEANFIELD_CACHE"] = _CACHE.name  # compiled anew in every run: the user's cache stays as it is


def _seconds(f) -> float:
    start = time.perf_counter()
    own = f()
    return own if isinstance(own, float) else time.perf_counter() - start


@pytest.fixture
def beside(benchmark, request):
    """Run `ours` and `peer` in alternation and record seconds per unit, the peer's name and the bar.

    A function that returns a float has measured its own seconds; units and peer_units divide what was measured; bar is
    in seconds per unit, ratio_bar in units of the peer; warm=False skips the unrecorded first call of each.
    """

    def run(ours, peer, name, *, rounds=7, units=1.0, peer_units=1.0, bar=None, ratio_bar=None, warm=True, **extra):
        mine, theirs = [], []
        if warm:
            ours(), peer()
        benchmark.pedantic(
            lambda: mine.append(_seconds(ours) / units),
            setup=lambda: theirs.append(_seconds(peer) / peer_units),
            rounds=rounds,
        )
        title = " ".join(request.node.function.__doc__.split())
        for key, value in getattr(getattr(request.node, "callspec", None), "params", {}).items():
            title = title.replace(f"{{{key}}}", str(value))
        benchmark.extra_info.update(
            title=title, peer=name, seconds=mine, peer_seconds=theirs, bar=bar, ratio_bar=ratio_bar, **extra
        )

    return run
