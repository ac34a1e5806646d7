"""Same bits for any split of the work, executors, checkpoints, memory, and what is left when something dies."""

import json
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from meanfield.base.storage import files
from meanfield.empirical import ScalarPair, run_ensemble
from meanfield.empirical.ensemble.ensemble_blocks import MOST_BLOCKS, MergedBlocks, edges, measure_block
from meanfield.empirical.network.network import Ensemble
from meanfield.networks.records import Dense, LayerNorm, Nonlinearity, Residual, Sequential, mlp

BLOCK = Residual(Sequential((LayerNorm(), Dense(expand=2), Nonlinearity("tanh"), Dense())), "0.5")
SIZES = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 9, "depth": 4, "networks": 600, "seed": 5}
QUANTITIES = ("K", "J", "Theta", "V", "G_w", "G_z")


def _run(**more):
    given = {"quantities": QUANTITIES, "probes": 2, "correlation": 0.3} | SIZES | more
    return run_ensemble(BLOCK, **given)


def _numbers(run):
    parts = [run.summary.means, run.summary.squares, run.samples]
    return {f"{i}{name}": values for i, part in enumerate(parts) for name, values in part.items()}


def assert_same_bits(first, second):
    one, other = _numbers(first), _numbers(second)
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].tobytes() == other[name].tobytes(), f"{name} has other bits"


def _spawn():
    return ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn"))


@pytest.fixture(scope="module")
def alone():
    return _run(threads=1)


@pytest.mark.slow
def test_threads_and_processes_give_the_same_bits():
    with ThreadPoolExecutor(2) as threads, _spawn() as processes:  # fork would not be safe after compiled threads ran
        for sampler in ("explicit", "lazy"):
            run = partial(_run, sampler=sampler, networks=300)
            one = run(threads=1)
            for split in ({"threads": 3}, {"executor": threads}, {"executor": processes}):
                assert_same_bits(one, run(**split))


def test_control_another_seed_has_other_bits(alone):
    with pytest.raises(AssertionError, match="has other bits"):
        assert_same_bits(alone, _run(seed=6))


@pytest.mark.slow
def test_a_users_formula_travels_as_text():
    theory = mf.derive("z*erf(z) + z/3", residual=True)
    from meanfield.comparison.network_settings import pairs_of

    pairs = pairs_of(theory, higher=True)
    ((_, pair),) = pairs.items()
    again = pickle.loads(pickle.dumps(pair))
    assert again.sources == pair.sources and len(pair.sources) == 4 and again.phi(0.7) == pair.phi(0.7)
    more = {"sigma_w": 1.0, "sigma_b": 0.1, "width": 8, "depth": 3, "networks": 4, "activation_pairs": pairs}
    here = run_ensemble(theory.block, **more)
    with _spawn() as pool:
        assert_same_bits(here, run_ensemble(theory.block, executor=pool, **more))


def test_what_cannot_travel_says_so():
    local = ScalarPair(lambda x: x, lambda x: 1.0)
    block = Sequential((Nonlinearity(local), Dense()))
    with _spawn() as pool, pytest.raises(MeanFieldError, match="cannot be sent to another process"):
        run_ensemble(block, **{**SIZES, "networks": 3}, executor=pool)


def test_an_ensemble_travels_without_records():
    ensemble = Ensemble(BLOCK, 1.0, 0.1, 6, 3)
    again = pickle.loads(pickle.dumps(ensemble))
    assert again.block is None and again.operations == ensemble.operations
    x = np.ones((1, 6))
    for (_, a), (_, b) in zip(ensemble.network(0, 1).run(x), again.network(0, 1).run(x)):
        assert a.tobytes() == b.tobytes()


# ------------------------------------------------------------------------------------------------------- blocks


def test_blocks_are_fixed_and_bounded():
    assert edges(3).tolist() == [0, 1, 2, 3]
    for networks in (256, 257, 1000, 100_000):
        borders = edges(networks)
        assert len(borders) - 1 == MOST_BLOCKS and borders[-1] == networks and (np.diff(borders) > 0).all()


def test_streamed_estimates_are_those_of_the_samples(alone):
    streamed = _run(keep_samples=False)
    assert streamed.samples == {} and streamed.diverged_at.size == 0 and alone.samples
    for name in alone.quantities:
        kept, found = alone.estimate(name), streamed.estimate(name)
        np.testing.assert_allclose(found.mean, kept.mean, rtol=1e-11, atol=1e-13)
        np.testing.assert_allclose(found.standard_error, kept.standard_error, rtol=1e-8, atol=1e-15)


def test_the_summary_against_the_definition(alone):
    """Mean and standard error over all networks, and a jackknife by hand, blocks of 2 or 3 networks."""
    k, borders = alone.samples["K_aa"], edges(SIZES["networks"])
    mean, error = alone.summary.estimate("K_aa")
    np.testing.assert_allclose(mean, k.mean(axis=0), rtol=1e-13)
    np.testing.assert_allclose(error, k.std(axis=0, ddof=1) / np.sqrt(len(k)), rtol=1e-10)
    ratio = lambda means, _: means["K_ab"] / means["K_aa"]  # noqa: E731
    value, error = alone.jackknife(ratio, ("K_ab", "K_aa"))
    without = []
    for g in range(MOST_BLOCKS):
        left = np.r_[0 : borders[g], borders[g + 1] : len(k)]
        without.append(alone.samples["K_ab"][left].mean(axis=0) / k[left].mean(axis=0))
    expected = np.sqrt((MOST_BLOCKS - 1) * np.var(without, axis=0))
    np.testing.assert_allclose(value, alone.samples["K_ab"].mean(axis=0) / k.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(error, expected, rtol=1e-9)


@pytest.mark.slow
def test_a_large_jacobian_is_streamed_as_a_logarithm():
    sizes = {"sigma_w": 3e4, "sigma_b": 0, "width": 4, "depth": 80, "networks": 300}
    kept = run_ensemble(mlp("linear"), input_norm=1e-300, **sizes)
    streamed = run_ensemble(mlp("linear"), input_norm=1e-300, keep_samples=False, **sizes)
    scale = 2 * np.log(3e4) * np.arange(80)
    for run in (kept, streamed):
        with pytest.raises(MeanFieldError, match="J overflows a double"):
            run.estimate("J")
    np.testing.assert_allclose(
        streamed.estimate("J", log_scale=scale[: streamed.finite_depth]).mean,
        kept.estimate("J", log_scale=scale[: kept.finite_depth]).mean,
        rtol=1e-10,
    )


def test_divergence_is_counted():
    run = run_ensemble(mlp("monomial"), sigma_w=3, sigma_b=0, width=5, depth=9, networks=20, keep_samples=False)
    kept = run_ensemble(mlp("monomial"), sigma_w=3, sigma_b=0, width=5, depth=9, networks=20)
    assert run.diverged == kept.diverged == np.count_nonzero(kept.diverged_at) > 0
    assert run.finite_depth == kept.finite_depth == kept.diverged_at[kept.diverged_at > 0].min() - 1
    assert np.isfinite(run.estimate("K").mean).all()


# -------------------------------------------------------------------------------------------------- checkpoints


class _Stop(BaseException):
    """Like an interrupt."""


def _interrupted_after(number):
    def progress(done, total):
        if done >= number:
            raise _Stop

    return progress


def test_an_interrupted_run_goes_on_with_the_same_bits(alone, tmp_path):
    file = tmp_path / "run.npz"
    with pytest.raises(_Stop, match=r"^$"):
        _run(checkpoint=file, progress=_interrupted_after(200))
    calls = []
    again = _run(checkpoint=file, progress=lambda done, total: calls.append(done))
    assert calls[0] > 200 and calls[-1] == 600, "only what was missing is measured"
    assert_same_bits(alone, again)
    calls.clear()
    assert_same_bits(alone, _run(checkpoint=file, progress=lambda done, total: calls.append(done)))
    assert calls == [] and os.listdir(tmp_path) == ["run.npz"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", [{"seed": 6}, {"networks": 50}, {"sigma_w": 1.3}, {"keep_samples": False}, {"probes": 3}]
)
def test_a_checkpoint_belongs_to_its_run(change, tmp_path):
    small = {"checkpoint": tmp_path / "run.npz", "networks": 60}
    _run(**small)
    _run(**small)
    with pytest.raises(MeanFieldError, match="checkpoint of another run"):
        _run(**small | change)


def test_a_file_that_is_no_checkpoint(tmp_path):
    file = tmp_path / "run.npz"
    file.write_text("something else")
    with pytest.raises(MeanFieldError, match="is not a checkpoint"):
        _run(checkpoint=file)
    assert file.read_text() == "something else"
    with pytest.raises(MeanFieldError, match="no folder"):
        _run(checkpoint=tmp_path / "missing" / "run.npz")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    with pytest.raises(_Stop, match=r"^$"):
        _run(checkpoint=file, progress=_interrupted_after(100))
    before = file.read_bytes()

    def broken(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(files.os, "replace", broken)
    with pytest.raises(MeanFieldError, match="cannot be written: disk full"):
        _run(checkpoint=file)
    assert file.read_bytes() == before and os.listdir(tmp_path) == ["run.npz"]


SCRIPT = """
import sys, json, time
from meanfield.networks.records import mlp
from meanfield.empirical import run_ensemble
from meanfield.empirical.ensemble import parallel
hold = len(sys.argv) > 2
parallel.SECONDS_BETWEEN_CHECKPOINTS = 0.0 if hold else 0.2
lines = 0
def progress(done, total):
    global lines
    lines += 1
    print(done, flush=True)
    if hold and lines == 40:
        time.sleep(60)  # whoever stops this process finds it in the middle of its work, however fast the machine is
run = run_ensemble(mlp("tanh", mu=1), sigma_w=1, sigma_b=0.1, width=40, depth=20, networks=1000, seed=2,
    checkpoint=sys.argv[1], progress=progress, keep_samples=False, threads=1)
print(json.dumps([run.estimate("K").mean.tolist(), run.estimate("J").standard_error.tolist()]))
"""


def _script(file, stop=None):
    """Run SCRIPT; after a few lines send `stop`; returns (exit code, lines)."""
    environment = os.environ | {"PYTHONPATH": str(Path(mf.__file__).parents[1])}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(file), *(["hold"] if stop is not None else [])],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    lines = []
    with process:
        for line in process.stdout:
            lines.append(line.strip())
            if stop is not None and len(lines) == 40:
                process.send_signal(stop)
                stop = None
    return process.returncode, lines


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_killed_and_interrupted_processes_leave_a_checkpoint(tmp_path):
    code, whole = _script(tmp_path / "whole.npz")
    assert code == 0 and len(whole) == MOST_BLOCKS + 1
    for stop in (signal.SIGKILL, signal.SIGINT):
        file = tmp_path / f"{stop.name}.npz"
        code, lines = _script(file, stop)
        assert code != 0 and file.exists() and len(lines) < len(whole)
        code, rest = _script(file)
        assert code == 0 and len(rest) < len(whole), "what was done is not done again"
        assert json.loads(rest[-1]) == json.loads(whole[-1])


# ------------------------------------------------------------------------------------------------ dying workers


def _die(plan, first, count, keep, device, home):
    if first > 100:
        time.sleep(0.5)
        os._exit(1)
    return measure_block(plan, first, count, keep)


@pytest.mark.slow
def test_a_broken_pool_is_explained(tmp_path, alone, monkeypatch):
    file = tmp_path / "run.npz"
    with _spawn() as pool:
        plain = pool.submit
        monkeypatch.setattr(pool, "submit", lambda work, *arguments: plain(_die, *arguments))
        with pytest.raises(MeanFieldError, match=r"executor died .*; \d+ of 256 blocks are in .*run\.npz"):
            _run(checkpoint=file, executor=pool)
    assert_same_bits(alone, _run(checkpoint=file))


@pytest.mark.slow
def test_dask_with_a_worker_killed(tmp_path, alone):
    """Two workers, one killed mid-run: nothing lost, nothing counted twice."""
    distributed = pytest.importorskip("distributed")
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(
                n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, local_directory=str(tmp_path)
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            killed = []

            def progress(done, total):
                if done > 100 and not killed:
                    killed.append(next(iter(cluster.workers.values())).pid)
                    os.kill(killed[0], signal.SIGKILL)

            run = _run(executor=client.get_executor(), progress=progress, checkpoint=tmp_path / "run.npz")
    assert killed and int(run.summary.counts.sum()) == 600
    assert_same_bits(alone, run)


# ------------------------------------------------------------------------------------------------------- memory

MEMORY = """
import resource, sys
from meanfield.networks.records import mlp
from meanfield.empirical import run_ensemble
def peak(): return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
sizes = dict(sigma_w=1, sigma_b=0.1, width=64, depth=20, sampler="lazy", quantities=("K", "J", "V"), probes=1)
run_ensemble(mlp("tanh"), networks=300, keep_samples=False, **sizes)
before = peak()
run = run_ensemble(mlp("tanh"), networks=int(sys.argv[1]), keep_samples=False, **sizes)
print(peak() - before, int(run.summary.counts.sum()))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="resource")
def test_memory_does_not_grow_with_networks():
    environment = os.environ | {"PYTHONPATH": str(Path(mf.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, "2000"], capture_output=True, text=True, check=True, env=environment
    )
    grown, networks = map(float, done.stdout.split())
    assert networks == 2000 and grown < 20


def test_merging_is_in_the_order_of_the_blocks(alone):
    """A summary of shuffled blocks has other bits: the order is part of the result, so it is fixed."""
    counts = alone.summary.counts
    order = np.random.default_rng(0).permutation(len(counts))
    means = {"K_aa": alone.summary.means["K_aa"][order]}
    squares = {"K_aa": alone.summary.squares["K_aa"][order]}
    mean, error = MergedBlocks(counts[order], means, squares, None).estimate("K_aa")
    np.testing.assert_allclose(mean, alone.summary.estimate("K_aa")[0], rtol=1e-13)
    np.testing.assert_allclose(error, alone.summary.estimate("K_aa")[1], rtol=1e-11)
