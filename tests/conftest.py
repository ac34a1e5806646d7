"""Shared set-up: a cache folder of this run alone, kernels compiled once, few searches for garbage, which tests are
slow, shards of these, and mpmath's global precision put back after every test."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict

import mpmath
import pytest

from tests import ROOT


def pytest_addoption(parser):
    parser.addoption(
        "--shard",
        metavar="I/N",
        help="of the slow tests, run only those of shard I of N (0 ≤ I < N); I = auto: chosen by the content of the "
        "package and of the claims, so that one version always runs the same shard, a mended test is run again by the "
        "shard that failed, and versions take turns",
    )


def content() -> int:
    """A number that is a function of every source file of the package and of the claims."""
    files = sorted(p for folder in ("meanfield", "derivations") for p in (ROOT / folder).rglob("*.py"))
    value = 0
    for path in files:
        value = zlib.crc32(path.read_bytes().replace(b"\r\n", b"\n"), value)
    return value


def shard_of(test: str, shards: int) -> int:
    """The shard a test belongs to: a function of its name alone."""
    return zlib.crc32(test.encode()) % shards


def mark_slow(items) -> list[str]:
    """Marks as slow what `slow_with` names and what `fast_with` leaves out, by the text that pytest prints in brackets.

    Returns what is named and is no parameter of its test.
    """
    unknown, known = {}, defaultdict(set)
    for item in items:
        test, _, rest = item.nodeid.partition("[")
        known[test].add(rest[:-1])
        for mark in item.iter_markers():
            if mark.name in ("slow_with", "fast_with"):
                named = {text.encode("unicode_escape").decode(): text for text in mark.args}
                unknown[test] = named
                if (rest[:-1] in named) == (mark.name == "slow_with"):
                    item.add_marker(pytest.mark.slow)
    return [f"{test}: {named[text]!r}" for test, named in unknown.items() for text in named if text not in known[test]]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    unknown = mark_slow(items)
    picked = config.getoption("last_failed", False) or any("[" in argument for argument in config.args)
    if unknown and not picked:
        raise pytest.UsageError(f"{unknown[0]} is marked and no parameter of the test (of {len(unknown)} such marks).")
    chosen = config.getoption("--shard")
    if not chosen:
        return
    index, _, count = chosen.partition("/")
    shards = int(count)
    here = content() % shards if index == "auto" else int(index)
    if not 0 <= here < shards:
        raise pytest.UsageError(f"--shard {chosen}: the shards are 0 to {shards - 1}.")
    out = [i for i in items if i.get_closest_marker("slow") and shard_of(i.nodeid, shards) != here]
    config.hook.pytest_deselected(items=out)
    gone = set(out)
    items[:] = [i for i in items if i not in gone]


def pytest_configure(config):
    """An empty cache for each run, shared by its workers: numeric tests see the engine as it is now, not as it was."""
    if not hasattr(config, "workerinput"):
        config.own_cache = os.environ["MEANFIELD_CACHE"] = tempfile.mkdtemp(prefix="meanfield-tests-")
        if getattr(config.option, "numprocesses", None):
            for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):  # the workers are as many as the cores: BLAS
                os.environ.setdefault(name, "1")  # threads beside them would wait for each other
            config.warming = warm()


WARM = """
import meanfield as mf

at = dict(sigma_w=1.2, sigma_b=0.1, width=8, depth=3, networks=4, threads=1)
for sampler in ("explicit", "lazy"):
    mf.measure("tanh", sampler=sampler, quantities=("K", "J", "Theta"), **at)
mf.measure("gelu", correlation=0.5, **at)
mf.measure(mf.derive("relu", norm="pre"), **at)
"""


def warm() -> subprocess.Popen:
    """Compiles the kernels of finite networks once, before workers run tests that would each compile them.

    They lie in Numba's cache then. In a process of its own, while the workers collect: a package that is broken is for
    the tests to report.
    """
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.Popen([sys.executable, "-c", WARM], cwd=ROOT, **quiet)


def ended(process: subprocess.Popen | None, seconds: float) -> None:
    """Waits for a process, and ends it where it takes longer."""
    if process is not None:
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node):
    """No worker is sent tests before the kernels are compiled."""
    ended(getattr(node.config, "warming", None), 120)


def pytest_collection_finish():
    """What is alive after collection stays, and SymPy makes little garbage in cycles: both save a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def pytest_unconfigure(config):
    ended(getattr(config, "warming", None), 0)
    if hasattr(config, "own_cache"):
        shutil.rmtree(config.own_cache, ignore_errors=True)


@pytest.fixture(autouse=True)
def _precision():
    mpmath.mp.dps = 15  # also where a module set it while it was imported
    yield
    mpmath.mp.dps = 15


@pytest.fixture
def interpreted(monkeypatch):
    """Depth loops in the same bits without seconds of compiling."""
    from meanfield.numeric.lowering.modules import generated_modules

    monkeypatch.setattr(generated_modules, "PATIENCE", float("inf"))


@pytest.fixture
def interpreted_where_fast(request):
    """The same where a test is to be fast; slow ones run what is compiled."""
    if request.node.get_closest_marker("slow") is None:
        request.getfixturevalue("interpreted")


@pytest.fixture(autouse=True)
def no_answers_kept(monkeypatch):
    """What a test puts into the engine must show in its answers: none is taken from an earlier test."""
    from meanfield.theory.queries import stored_answers

    monkeypatch.setattr(stored_answers, "LEAST", float("inf"))


@pytest.fixture(autouse=True)
def no_activations_left():
    """What a test registers is gone after it: pages list all activations."""
    from meanfield.functions import activations

    held = activations._OWN, activations._REGISTRY
    before = [dict(one) for one in held]
    yield
    for one, own in zip(held, before):
        one.clear()
        one.update(own)
