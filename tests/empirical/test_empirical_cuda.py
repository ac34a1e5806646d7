"""The GPU's kernels, run by Numba's simulator, against the CPU's networks; refusals; nothing asks for a GPU early.

The functions `simulated_*` run in a process of their own, where numba.cuda is its simulator.
"""

import importlib
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import Ensemble, ScalarPair, run_ensemble
from meanfield.empirical.cuda import device as cuda
from meanfield.empirical.cuda.launches import LAUNCHES
from meanfield.empirical.ensemble import scaleout
from meanfield.empirical.network.operations.operations import NormalizeRoot
from meanfield.empirical.observables.inputs import Inputs
from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.observables.wanted import Measurement
from meanfield.empirical.random.buffers import Buffers
from meanfield.networks.architectures import full_residual
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Pool,
    Projection,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
    mlp,
)
from tests import ROOT

WIDE = Sequential((Nonlinearity("gelu"), Dense(expand=2), Pool(2, "max")))
SHORTCUT = Sequential((Dense(expand=3), Pool(3, "average")))
NORMED = Residual(Sequential((LayerNorm(), Nonlinearity("tanh"), Dense())), 0.5, SHORTCUT)
INNER = Dense(sigma_w=Schedule(1, 1), sigma_b=0.1)
SCALED = Residual(Sequential((Nonlinearity("swish"), Scale(0.5), INNER, Nonlinearity("tanh"))))
HAAR = Sequential((Nonlinearity("tanh"), Dense("orthogonal")))
HUGE = Dense(sigma_w=10**150)
HIDDEN = Sequential((HUGE, HUGE, HUGE, Nonlinearity("hard_tanh"), Dense()))
EQUAL = Sequential((Nonlinearity(ScalarPair(lambda x: 0.7 + 1e-16 * x, lambda x: 1e-16)), LayerNorm(), Dense()))
SMALL = {"sigma_w": 1.0, "sigma_b": 0.0, "width": 4}
SOURCES = (
    "_SLOPE = 0.5\n\n\n@njit\ndef _half(x):\n    return 0.5 * x\n\n\n"
    "@njit\ndef f(z):\n    return math.erf(_half(z)) + _SLOPE * z\n",
    "@njit(cache=True)\ndef f(z):\n    return math.exp(-0.25 * z * z) / math.sqrt(math.pi) + 0.5\n",
)


def _waves(factor):
    return ScalarPair(lambda x: factor * math.sin(x), lambda x: factor * math.cos(x))


def _plan(block, sampler="explicit", **more):
    measured = {"probes": 2, "quantities": ("K", "J")}
    measured |= {name: more.pop(name) for name in ("probes", "l0", "quantities") if name in more}
    names = {"correlation": "correlation", "batch": "batch", "inputs": "given"}
    inputs = Inputs(**{own: more.pop(name) for name, own in names.items() if name in more})
    law = {"sigma_w": [1.1, 0.9, 1.3, 1.0], "sigma_b": [0.3, 0.0, 0.2, 0.1], "width": 7, "depth": 4} | more
    return MeasurementPlan(Ensemble(block, **law, sampler=sampler), inputs, Measurement(**measured), 2**40 + 8)


def _gap(plan, networks=2, first=3):
    """The largest gap between the GPU's rows and the CPU's, 0 where both are NaN or the same infinity: for log_J
    absolute, for distance relative to K_aa + K_bb, else relative. The layers of divergence must be equal."""
    diverged_at, rows = cuda.measure_block_cuda(plan, first, networks)
    assert set(rows) == set(plan.shapes)
    gaps = []
    for i in range(networks):
        layer, expected = plan.measure(first + i, Buffers())
        assert diverged_at[i] == layer
        for name, values in expected.items():
            found, size = rows[name][i], np.abs(values)
            if name == "log_J":
                size = np.ones_like(values)
            elif name == "distance":
                size = expected["K_aa"] + expected["K_bb"]
            with np.errstate(all="ignore"):
                gap = np.abs(found - values) / size
            gaps.append(np.where((found == values) | (np.isnan(found) & np.isnan(values)), 0.0, gap).max())
    return np.max(gaps)


def _agrees(plan, **more):
    gap = _gap(plan, **more)
    assert gap < 1e-12, gap


def share_memory():
    """One shared array for all threads of a block: the simulator asks for it and then makes it, so that two threads may
    both find none and make one each."""
    from numba.cuda.simulator import kernelapi

    def array(self, shape, dtype):
        caller = sys._getframe(1)
        made = kernelapi.np.empty(shape, kernelapi.numpy_support.as_dtype(dtype))
        return self._allocations.setdefault((caller.f_code, caller.f_lineno), made)

    kernelapi.FakeCUDAShared.array = array


def simulated_shared_memory():
    """However slowly a thread makes its array, all work in one; with two arrays the sums are wrong."""
    from numba.cuda.simulator import kernelapi

    class Slow:
        def __getattr__(self, name):
            return getattr(np, name)

        def empty(self, *arguments):
            time.sleep(0.01)
            return np.empty(*arguments)

    kernelapi.np = Slow()
    more = {"width": 3, "depth": 2, "sigma_w": 1, "sigma_b": 0.3, "correlation": 0.3}
    _agrees(_plan(mlp("tanh", norm="pre"), **more), networks=2)


def simulated_explicit():
    _agrees(_plan(mlp("tanh", mu=1)))
    _agrees(_plan(mlp("relu", norm="pre"), correlation=0.3, width=6))
    _agrees(_plan(mlp("gelu", norm="act", mu=1), input_dimension=3, l0=2, width=6))
    _agrees(_plan(WIDE, width=[5, 8, 3, 6], batch=3))
    _agrees(_plan(NORMED, l0=0, inputs=np.linspace(-1, 1, 5)[None], input_dimension=5))
    _agrees(_plan(full_residual("tanh", sigma_v="3/2", sigma_a=1, beta_w=1), width=4))  # an input layer of its own


def simulated_vectors_and_functions():
    _agrees(_plan(SCALED, probes=19))  # more vectors than one draw of W serves
    _agrees(_plan(mlp(ScalarPair.from_sources(*SOURCES))))
    _agrees(_plan(mlp(_waves(1.25))))
    _agrees(_plan(mlp("leaky_relu"), correlation=-1.0, quantities=("K",), probes=None, depth=1, sigma_w=1, sigma_b=0))


def simulated_pools():
    """A formula of groups of neurons, with a switch and a root."""
    block = Sequential((Nonlinearity("tanh"), Dense(expand=2), Pool(2, "max(z1, 2*z2) - sqrt(1 + z1**2)")))
    _agrees(_plan(block, width=3, depth=3, sigma_w=1.1, sigma_b=0.3))


def simulated_gates():
    """A product of two Dense with a skip around it; its tangents have two terms."""
    gate = Gate("silu", Dense(sigma_b=0, expand=2), Dense(sigma_w=2, expand=2))
    for sampler in ("explicit", "lazy"):
        _agrees(_plan(Residual(Sequential((LayerNorm(), gate, Dense())), 1), sampler, width=4))


def simulated_roots():
    """RMSNorm, of large vectors, too, and one of zeros, which is lost; controls: a LayerNorm in its place."""
    block = Residual(Sequential((RMSNorm(), Nonlinearity("gelu"), Dense())), 0.5)
    _agrees(_plan(block, width=6, correlation=0.3))
    _agrees(_plan(Sequential((Nonlinearity("relu"), RMSNorm(), Dense())), "lazy", width=4, sigma_w=1e160, sigma_b=0))
    dead = _plan(Sequential((Nonlinearity("relu"), RMSNorm(), Dense())), width=2, sigma_w=1, sigma_b=0)
    _agrees(dead, networks=4)
    assert any(dead.measure(3 + i, Buffers())[0] for i in range(4)), "one is lost"
    right = LAUNCHES[NormalizeRoot]
    LAUNCHES[NormalizeRoot] = lambda batch, operation, *more: right(batch, None, *more)
    assert _gap(_plan(block, width=6, correlation=0.3)) > 1e-3, "control: the mean is taken off"
    LAUNCHES[NormalizeRoot] = right


def simulated_lazy():
    _agrees(_plan(mlp("tanh", norm="pre", mu=1), "lazy", correlation=0.4))
    _agrees(_plan(WIDE, "lazy", width=[5, 8, 3, 6], batch=3))  # more vectors than neurons: some are dependent
    _agrees(_plan(NORMED, "lazy", input_dimension=3, l0=0))
    _agrees(_plan(mlp("gelu"), "lazy", correlation=1.0))  # the second input is the first


def simulated_projections():
    """Weights that are not trained, and gains that are 1, where widths differ and where they do not."""
    block = Residual(Sequential((AffineNorm(), Nonlinearity("tanh"), Dense())), 1, Projection())
    for sampler in ("explicit", "lazy"):
        _agrees(_plan(block, sampler, width=[5, 8, 8, 6], sigma_w=1.1, sigma_b=0.2))


def simulated_haar():
    _agrees(_plan(HAAR, "lazy", correlation=0.4))
    _agrees(_plan(HAAR, "lazy", width=[5, 9, 4, 6], input_dimension=8, l0=2))
    _agrees(_plan(mlp("relu", weights="mixed"), "lazy", width=5, probes=4))


def simulated_depth():
    """30 layers at the critical point."""
    _agrees(_plan(mlp("relu", mu=1, norm="pre"), sigma_w=1.0, sigma_b=0.0, depth=30, width=5, probes=1), networks=1)


def simulated_divergence():
    """An overflow, a norm of equal numbers and an exact zero end where they end on the CPU."""
    for sampler in ("explicit", "lazy"):
        growing = _plan(mlp("relu2"), sampler, sigma_w=1e60, sigma_b=0.0, depth=5)
        assert cuda.measure_block_cuda(growing, 3, 2)[0].min() > 1
        _agrees(growing)
        for block in (HIDDEN, EQUAL):  # nothing that reaches layer 2 tells of it
            assert (cuda.measure_block_cuda(_plan(block, sampler, depth=2, **SMALL), 3, 1)[0] == 2).all()
            _agrees(_plan(block, sampler, depth=2, **SMALL))
        _agrees(_plan(mlp("linear"), sampler, sigma_w=[1, 1, 0, 1], sigma_b=0.5))
    far = _plan(mlp("linear"), sigma_w=1e-50, sigma_b=0.0, depth=5, width=4)  # ln J without underflow
    assert cuda.measure_block_cuda(far, 3, 2)[1]["log_J"][:, -1].max() < -800
    _agrees(far)


def simulated_batches():
    """The bits of a network depend on neither its batch nor the run."""
    for sampler in ("explicit", "lazy"):
        plan = _plan(mlp("tanh", norm="pre"), sampler, width=6)
        whole, most = cuda.measure_block_cuda(plan, 3, 3), cuda.MOST_NETWORKS
        cuda.MOST_NETWORKS = 2
        parts = cuda.measure_block_cuda(plan, 3, 3)
        cuda.MOST_NETWORKS = most
        alone = cuda.measure_block_cuda(plan, 4, 1)
        assert (whole[0] == parts[0]).all()
        for name, values in whole[1].items():
            assert (values == parts[1][name]).all() and (values[1] == alone[1][name][0]).all()


def simulated_planted_errors():
    """A key that is off by one in one of its parts, for the weights or for the probes, is seen by the comparison."""
    words, plan = cuda._Batch.words, _plan(mlp("tanh"), width=5, depth=2, sigma_w=1.0, sigma_b=0.1)
    for part in range(5):
        for probes in (False, True):

            def wrong(self, role, layer, part=part, probes=probes):
                right = list(words(self, role, layer))
                if probes == (layer == 0):
                    right[part] += np.uint64(1 if part else 1 << 16)
                return tuple(right)

            cuda._Batch.words = wrong
            assert _gap(plan, networks=1) > 1e-3, (part, probes)
    cuda._Batch.words = words
    _agrees(plan, networks=1)


def simulated_runs():
    """device="cuda" as a user asks for it: runs of blocks on the device, split as on the CPU, and a checkpoint."""
    sizes = {"sigma_w": 1.1, "sigma_b": 0.2, "width": 4, "depth": 2, "networks": 5, "probes": 1, "sampler": "lazy"}
    here = run_ensemble(mlp("tanh"), **sizes)
    scaleout.BLOCKS_ON_DEVICE, calls = 2, []
    with tempfile.TemporaryDirectory() as folder:
        more = {"device": "cuda", "checkpoint": Path(folder) / "run.npz"}
        there = run_ensemble(mlp("tanh"), **sizes, **more, progress=lambda done, total: calls.append(done))
        again = run_ensemble(mlp("tanh"), **sizes, **more)
    assert calls == [1, 2, 3, 4, 5]
    for name, values in here.samples.items():
        np.testing.assert_allclose(there.samples[name], values, rtol=0, atol=1e-12)
        assert (again.samples[name] == there.samples[name]).all()


SIMULATED = [name for name in globals() if name.startswith("simulated_")]
SLOW = (
    "simulated_projections",
    "simulated_depth",
    "simulated_haar",
    "simulated_divergence",
    "simulated_batches",
    "simulated_pools",
    "simulated_vectors_and_functions",
)


@pytest.mark.fast_with("simulated_shared_memory")
@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.slow] * (n in SLOW)) for n in SIMULATED])
def test_networks_of_the_simulator(name):
    start = "sys.setswitchinterval(1e-6)\nhere.share_memory()"  # the simulator waits busily
    code = f"import sys, tests.empirical.test_empirical_cuda as here\n{start}\nhere.{name}()"
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (lambda: _plan(mlp("tanh"), quantities=("K", "Theta")), "Theta is not available: K and J are measured there"),
        (lambda: _plan(mlp("tanh"), quantities=("G_z",)), "G_z is not available: K and J are measured there"),
        (lambda: _plan(mlp("tanh"), quantities=("V",)), "V is not available: K and J are measured there"),
        (lambda: _plan(mlp("tanh"), probes=None), "give probes="),
        (lambda: _plan(Sequential((BatchNorm(), Nonlinearity("tanh"), Dense())), batch=4), "BatchNorm"),
        (lambda: _plan(mlp("tanh"), tokens=2), "tokens"),
        (lambda: _plan(HAAR), 'sampler="lazy"'),
    ],
)
def test_refusals(plan, message):
    with pytest.raises(MeanFieldError, match=message) as refusal:
        cuda.check_cuda(plan())
    assert str(refusal.value).endswith('use device="cpu".')


def test_what_is_measured_is_not_refused():
    for plan in (
        _plan(NORMED, correlation=0.5, quantities=("K", "K_ab", "J")),
        _plan(HAAR, "lazy", batch=3, quantities=("K", "c", "gamma"), probes=None),
        _plan(SCALED),
    ):
        cuda.check_cuda(plan)


def test_a_machine_without_a_gpu_says_so(monkeypatch):
    monkeypatch.setattr(importlib.import_module("numba.cuda"), "is_available", lambda: False)
    with pytest.raises(
        MeanFieldError, match=r"finds no GPU .* pip install meanfield\[cuda\], or use device=\"cpu\"\.$"
    ):
        cuda.measure_block_cuda(_plan(mlp("tanh")), 0, 2)
    monkeypatch.setitem(sys.modules, "numba.cuda", None)
    with pytest.raises(MeanFieldError, match=r"is not installed; pip install meanfield\[cuda\]"):
        cuda.require_cuda()


def test_nothing_imports_the_driver_before_it_is_used():
    code = "import sys, meanfield.empirical, meanfield.empirical.cuda; print('numba.cuda' in sys.modules)"
    root = str(Path(cuda.__file__).parents[3])
    environment = os.environ | {"PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_batch_fits_into_the_memory():
    """At N = 1000 with 1 + 2 vectors: 2 of N numbers for a chain, 3 with a skip, and 2 more for the lazy sampler."""

    def batch(free, block, sampler):
        plan = _plan(block, sampler, width=1000)
        driver = SimpleNamespace(current_context=lambda: SimpleNamespace(get_memory_info=lambda: (free, free)))
        return cuda._batch(plan, 10**6, driver, cuda._extent(plan.ensemble))

    free = 10**7
    for block, sampler, vectors in (
        (mlp("tanh"), "explicit", 2),
        (mlp("tanh", mu=1), "explicit", 3),
        (mlp("tanh"), "lazy", 4),
    ):
        ideal = 0.8 * free / (8 * 3 * 1000 * vectors)
        assert 0.98 * ideal < batch(free, block, sampler) < ideal
    assert batch(10**12, mlp("tanh"), "lazy") == cuda.MOST_NETWORKS
    with pytest.raises(MeanFieldError, match=r"One network takes .* take a smaller width"):
        batch(10**4, mlp("tanh"), "explicit")
