"""Rounds of a benchmark and of its peer alternate, so that a busy machine slows both. Nothing here asserts a time."""

import os
import sys
import tempfile
from functools import partial
from pathlib import Path
from time import perf_counter, process_time

import pytest

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]  # an oracle of the tests is a peer
_CACHE = tempfile.TemporaryDirectory(prefix="meanfield-bench-")
os.environ["MEANFIELD_CACHE"] = _CACHE.name  # compiled anew in every run: the user's cache stays as it is


def _record(f, units: float, into: list) -> None:
    wall, cpu, own = perf_counter(), process_time() + sum(os.times()[2:4]), f()  # a float: f's own measurement
    wall, cpu = perf_counter() - wall, process_time() + sum(os.times()[2:4]) - cpu
    into.append(((own if isinstance(own, float) else wall) / units, cpu / units))


@pytest.fixture
def beside(benchmark, request):
    """Run ours and peer in alternation; record seconds per (peer_)unit, and the bars (seconds, or x peer)."""

    def run(ours, peer, name, rounds=7, units=1.0, peer_units=None, warm=True, **bars):
        mine, theirs = [], []
        if warm:
            ours(), peer()
        setup = partial(_record, peer, peer_units or units, theirs)
        benchmark.pedantic(_record, (ours, units, mine), setup=setup, rounds=rounds)
        title = request.function.__doc__.format(**request.node.funcargs)
        benchmark.extra_info.update(title=title, peer=name, ours=mine, theirs=theirs, **bars)

    return run
