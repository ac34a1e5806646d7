"""A record that this file adds, RMSNorm with trained gains, goes through every carrier, and has a kernel of its own on
the device; a network's operations are met in one function."""

import ast
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numba import float64

import meanfield.empirical
from meanfield.base.answers.results import MeanFieldError
from meanfield.empirical import (
    Derivative,
    Ensemble,
    Operation,
    Parameter,
    criticality_grid,
    draw_network,
    jacobian_curves,
    measure_criticality,
    operation,
    run_ensemble,
)
from meanfield.empirical.cuda.compilation import kernel
from meanfield.empirical.cuda.cooperation import mark, product
from meanfield.empirical.cuda.launches import LAUNCHES, on_device
from meanfield.empirical.network.operations.operation_walk import Passage, placed, walk
from meanfield.empirical.network.shapes import Shapes
from meanfield.empirical.network.tangents_and_cotangents import TangentKernel, Tangents
from meanfield.networks.records import Block, Dense, Gate, Nonlinearity, Residual, Sequential, mlp
from tests import ROOT
from tests.empirical.observables.test_parameter_jets import assert_differentials

cuda = None  # numba.cuda, where the kernel is compiled
THREADS = 256


@dataclass(frozen=True, repr=False)
class RMSNorm(Block):
    """y → γ y/√(mean(y²)) over the neurons, γ = 1 trained."""


@dataclass(frozen=True, eq=False)
class RootSlope(Derivative):
    """Of γŷ, ŷ = y/s: dŷ = (dy − ŷ mean(ŷ dy))/s, a symmetric map."""

    unit: np.ndarray
    size: np.ndarray
    gain: np.ndarray | float

    names = ("gamma",)
    steps = (1.0,)

    @property
    def shape(self):
        return self.unit.shape

    @property
    def own(self):
        return self.unit[0] ** 2

    def push(self, rows, out):
        p = rows.shape[1]
        along = (rows * self.unit[:p]).mean(axis=2, keepdims=True)
        out[...] = self.gain * (rows - self.unit[:p] * along) / self.size[:p, None]

    def pull(self, rows, out):
        rows = rows * self.gain
        along = (rows * self.unit).mean(axis=2, keepdims=True)
        out[...] = (rows - self.unit * along) / self.size[:, None]

    def gradient(self, cotangent):
        return ((cotangent * self.unit).sum(axis=0),)

    def scatter(self, rows, normals):
        rows += self.unit[: len(rows)] * normals(rows.shape[1])


@operation(RMSNorm)
@dataclass(frozen=True)
class DivideByRoot(Operation):
    record: RMSNorm

    trains = ("gamma",)

    def parameters(self, here, layer, end):
        return (Parameter("gamma", (here[1],), 1.0),)

    def apply(self, z, site):
        gain, size = site.value("gamma"), np.sqrt((z * z).mean(axis=1))
        unit = z / size[:, None]
        gain = 1.0 if gain is None else gain
        return gain * unit, RootSlope(unit, size, gain)

    def formula(self, z, values, site):
        return values["gamma"] * z / np.sqrt((z * z).mean(keepdims=True))


def root_kernel(x, out, lost, rows, positions):
    """A network by a thread block: its signals, then its tangents at the first position."""
    sums = cuda.shared.array((1, THREADS), float64)
    b, t, neurons = cuda.blockIdx.x, cuda.threadIdx.x, x.shape[2]
    for p in range(positions):
        size = math.sqrt(product(x[b, p], x[b, p], sums) / neurons)
        for i in range(t, neurons, THREADS):
            value = x[b, p, i] / size
            mark(value, lost, b, p)
            out[b, p, i] = value
    size = math.sqrt(product(x[b, 0], x[b, 0], sums) / neurons)
    cuda.syncthreads()
    for r in range(positions, rows):
        along = product(out[b, 0], x[b, r], sums) / neurons
        for i in range(t, neurons, THREADS):
            out[b, r, i] = (x[b, r, i] - out[b, 0, i] * along) / size


@on_device(DivideByRoot)
def launch(batch, operation, site, x, out):
    batch.launch(kernel(root_kernel), batch.networks, batch.threads, x, out, *batch.rest)


PHI = Nonlinearity("tanh")
BLOCK = Residual(Sequential((RMSNorm(), PHI, Dense(), RMSNorm())), "0.6")
GATED = Residual(Sequential((RMSNorm(), Gate("silu"), Dense())), 1)
SIZES = {"sigma_w": 1.3, "sigma_b": 0.2, "width": 8, "depth": 4}


def _reading(network, x, phi=np.tanh):
    """BLOCK by hand, with the parameters of a stored network."""
    values, z = network.parameters, x
    for layer in range(1, network.ensemble.depth + 1):

        def of(place, name, layer=layer):
            return values[layer, place, name]

        def dense(y, place, of=of):
            return 1.3 / math.sqrt(y.shape[1]) * (y @ of(place, "W").T) + 0.2 * of(place, "b")

        def normed(y, place, of=of):
            return of(place, "gamma") * y / np.sqrt((y * y).mean(axis=1, keepdims=True))

        z = dense(z, 0) if layer == 1 else normed(dense(phi(normed(z, 1)), 3), 4) + 0.6 * z
    return z


def _stored():
    network = draw_network(BLOCK, **SIZES, seed=2, input_dimension=5)
    rng = np.random.default_rng(0)
    return network.moved({k: 0.2 * rng.standard_normal(v.shape) for k, v in network.parameters.items()})


X = np.random.default_rng(1).standard_normal((3, 5))


def test_values_and_gradients():
    """γ ≠ 1 everywhere; gradients by W, b and γ against differences of a plain reading."""
    network = _stored()
    z = network.forward(X)
    np.testing.assert_allclose(z, _reading(network, X), rtol=1e-12, atol=1e-13)
    assert np.abs(z - _reading(network, X, np.sin)).max() > 1e-2, "control"
    u, h, rng = np.random.default_rng(2).standard_normal(z.shape), 1e-3, np.random.default_rng(3)
    for name, gradient in network.gradients(X, u).items():
        along = rng.standard_normal(gradient.shape) / math.sqrt(gradient.size)
        at = [(_reading(network.moved({name: along}, k * h), X) * u).sum() for k in (-2, -1, 1, 2)]
        slope = (8 * (at[2] - at[1]) - (at[3] - at[0])) / (12 * h)
        assert slope == pytest.approx((gradient * along).sum(), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("sampler", ["explicit", "lazy"])
@pytest.mark.parametrize("block", [BLOCK, GATED], ids=["norm", "gate"])
def test_tangents_and_cotangents(block, sampler):
    network = Ensemble(block, 1.3, 0.2, 8, 4, 5, sampler=sampler).network(2, 1)
    rng, trace = np.random.default_rng(4), []
    t = rng.standard_normal((2, *X.shape))
    carried = Tangents(t.copy(), network.buffers)
    for _ in network.run(X, [carried], trace, 2):
        pushed = carried.rows.copy()
    u = rng.standard_normal(pushed.shape)
    *_, (_, _, pulled) = network.pull(trace, u)
    np.testing.assert_allclose((u * pushed).sum(axis=(1, 2)), (pulled * t).sum(axis=(1, 2)), rtol=1e-12, atol=1e-12)
    if sampler == "explicit":
        h = 1e-5
        ahead, behind = (list(network.run(X + s * h * t[0]))[-1][1] for s in (1, -1))
        np.testing.assert_allclose(pushed[0], (ahead - behind) / (2 * h), rtol=1e-6, atol=1e-8)


@pytest.mark.slow
def test_tangent_kernel_and_random_tangents():
    """Θ pushed forward is Θ of the gradients; random tangents have it as their mean square."""
    stored = draw_network(BLOCK, **SIZES, seed=2, index=1, input_dimension=5)
    whole, kernel_of = stored.tangent_kernel(X[:1])[0, :, 0, :], TangentKernel()
    for layer, _, _ in stored.ensemble.network(2, 1).layers(X[:1], None, kernel_of):
        if layer == 4:
            np.testing.assert_allclose(kernel_of.matrix, whole, rtol=1e-10, atol=1e-12)
    settings = SIZES | {"quantities": ("Theta",), "networks": 2, "inputs": X[:1], "seed": 2}
    exact = run_ensemble(BLOCK, **settings).samples["Theta"]
    probes = run_ensemble(BLOCK, **settings, probes=3000).samples["Theta"]
    assert np.abs(probes / exact - 1).max() < 4 * math.sqrt(2 / 3000)
    fixed = run_ensemble(Sequential((PHI, Dense())), **settings).samples["Theta"]
    assert np.abs(fixed / exact - 1)[:, 1:].min() > 0.05, "control"


def test_gradient_norms_have_rows_of_their_own():
    run = run_ensemble(BLOCK, **SIZES, networks=3, quantities=("G_w", "G_b"), seed=5)
    assert run.samples["G_gamma"].shape == (3, 4, 2) and (run.samples["G_gamma"][:, 1:] > 0).all()
    assert (run.samples["G_gamma"][:, 0] == 0).all(), "the input layer has no gains"


@pytest.mark.slow
def test_networks_that_share_their_weights():
    sizes = {"width": 8, "depth": 4, "networks": 2, "probes": 2, "seed": 6}
    grid = criticality_grid([BLOCK], sigma_w=[0.7, 1.1, 1.5, 1.9, 2.3], sigma_b=[0.1] * 5, **sizes)
    one = measure_criticality(BLOCK, sigma_w=1.5, sigma_b=0.1, **sizes)
    assert one.chi.mean == pytest.approx(grid.chi[0, 2], rel=1e-12)
    curves = jacobian_curves([BLOCK, mlp("tanh")], sigma_w=1.3, sigma_b=0.2, width=8, depth=4, networks=2, probes=2)
    alone = run_ensemble(BLOCK, **SIZES, networks=2, probes=2)
    np.testing.assert_allclose(curves.log_J[0], alone.samples["log_J"], rtol=1e-10, atol=1e-12)


def test_shapes():
    done = Ensemble(BLOCK, 1, 0, 8, 3).operations
    carrier = Shapes((1, 8), 2)
    assert len(list(walk(placed(done, Passage(2, (1, 8))), [carrier]))) == len(done) and carrier.here == (1, 8)


@pytest.mark.slow
@pytest.mark.parametrize("block", [BLOCK, GATED], ids=["norm", "gate"])
def test_differentials_of_the_tangent_kernel(block):
    network = draw_network(block, sigma_w=1.3, sigma_b=0.2, width=3, depth=3, seed=2, input_dimension=5)
    assert_differentials(network, X[:2])
    run = run_ensemble(block, **SIZES, networks=2, quantities=("P", "R"), inputs=X[:1], seed=2)
    assert all(np.isfinite(run.samples[name]).all() for name in run.samples)


def test_control_a_wrong_formula_is_seen(monkeypatch):
    right = DivideByRoot.formula
    network = draw_network(BLOCK, sigma_w=1.3, sigma_b=0.2, width=3, depth=3, seed=2, input_dimension=5)
    monkeypatch.setattr(DivideByRoot, "formula", lambda *given: (1 + 1e-5 * right(*given)) * right(*given))
    with pytest.raises(AssertionError, match=r"^(H|dH|ddI|ddII): "):
        assert_differentials(network, X[:1])


def test_without_a_formula_differentials_refuse_it(monkeypatch):
    monkeypatch.setattr(DivideByRoot, "formula", Operation.formula)
    with pytest.raises(MeanFieldError, match="this network has DivideByRoot without a formula"):
        run_ensemble(BLOCK, **SIZES, networks=2, quantities=("P",))
    assert np.isfinite(run_ensemble(BLOCK, **SIZES, networks=2, quantities=("A",)).samples["_B"]).all()


def test_without_a_kernel_the_device_refuses_it(monkeypatch):
    monkeypatch.delitem(LAUNCHES, DivideByRoot)
    with pytest.raises(MeanFieldError, match='has DivideByRoot, which has no kernel there; use device="cpu"'):
        run_ensemble(BLOCK, **SIZES, networks=2, probes=2, device="cuda")


def simulated_record():
    from tests.empirical.test_empirical_cuda import _agrees, _gap, _plan

    for sampler in ("explicit", "lazy"):
        _agrees(_plan(BLOCK, sampler, correlation=0.3, width=5, depth=3, sigma_w=1.1, sigma_b=0.2))
    root = sys.modules["meanfield.empirical.cuda.launches"].LAUNCHES
    right = root[DivideByRoot]
    root[DivideByRoot] = root[next(one for one in root if one.__name__ == "Adapt")]
    assert _gap(_plan(BLOCK, width=5, depth=3, sigma_w=1.1, sigma_b=0.2)) > 1e-3, "control: no norm"
    root[DivideByRoot] = right


@pytest.mark.slow
def test_the_device_runs_a_kernel_of_its_own():
    code = (
        "import sys, tests.networks.test_record_of_ones_own as here\n"
        "from tests.empirical import test_empirical_cuda\n"
        "sys.setswitchinterval(1e-6)\ntest_empirical_cuda.share_memory()\nhere.simulated_record()"
    )
    environment = os.environ | {"NUMBA_ENABLE_CUDASIM": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


ON_THE_STACK = {"Save", "Swap", "AddSaved", "MultiplySaved"}


def walkers(text):
    """Functions that meet operations one after the other: those that let one visit a carrier, and those with a loop
    that tells the operations on the stack apart (a class pattern, or isinstance)."""
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            called = node.func if isinstance(node, ast.Call) else None
            if isinstance(called, ast.Attribute) and called.attr == "visit":
                found.append(function.name)
            if not isinstance(node, ast.For | ast.While):
                continue
            patterns = [one.cls for one in ast.walk(node) if isinstance(one, ast.MatchClass)]
            calls = [one for one in ast.walk(node) if isinstance(one, ast.Call)]
            asked = [one for one in calls if getattr(one.func, "id", "") == "isinstance"]
            names = {one.id for part in (*patterns, *asked) for one in ast.walk(part) if isinstance(one, ast.Name)}
            if names & ON_THE_STACK:
                found.append(function.name)
    return sorted(set(found))


def test_one_function_walks():
    """For the CPU and for CUDA: the device's batch is a carrier of the same walk."""
    home = Path(meanfield.empirical.__file__).parent
    found = {str(path.relative_to(home)): walkers(path.read_text()) for path in home.rglob("*.py")}
    home_of_walk = "network/operations/operation_walk.py"
    assert {path: names for path, names in found.items() if names} == {home_of_walk: ["walk"]}
    device = (home / "cuda" / "device.py").read_text()
    calls = [n.func.id for n in ast.walk(ast.parse(device)) if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)]
    assert calls.count("walk") == 2, "the layers of a batch, and how much memory they take"


def test_control_a_second_interpreter_is_seen():
    second = (
        "def block(operations):\n    for operation in operations:\n        match operation:\n"
        "            case AddSaved(mu):\n                pass\n"
    )
    third = "def back(trace):\n    while trace:\n        if isinstance(trace.pop(), Save | Swap):\n            pass\n"
    assert walkers(second) == ["block"] and walkers(third) == ["back"]
    assert walkers("def one(operation, carrier):\n    operation.visit(carrier, None)\n") == ["one"]


def test_a_rule_that_is_replaced_is_heard_at_once():
    """Whatever was derived with the old rule is forgotten: maps, runs, lines and points of the same record."""
    from dataclasses import dataclass as made

    import sympy as sp

    import meanfield as mf

    @made(frozen=True, repr=False)
    class Twice(Block):
        """y → 2y, or what the rule of the day says."""

    def factor(value):
        mf.symbolic.rule(Twice)(lambda block, x, walk: x.rescaled((sp.sympify(value),) * x.positions))

    def found():
        theory = mf.derive(architecture=Sequential(Nonlinearity("relu"), Twice(), Dense()))
        run = theory.propagate(sigma_w=1, sigma_b=0, depth=2)
        point = float(theory.critical_points()[0].sigma_w)
        return run.K[-1] / run.K[0], point, theory.recursion("K_aa")["K_aa"].doit()

    factor(2)
    before = found()
    factor(3)
    after = found()
    assert (before[0], after[0]) == pytest.approx((2, 4.5), rel=1e-14)
    assert (before[1], after[1]) == pytest.approx((2**-0.5, 2**0.5 / 3), rel=1e-14)
    assert sp.simplify(4 * after[2] - 9 * before[2] + 5 * sp.Symbol("sigma_b", nonnegative=True) ** 2) == 0
