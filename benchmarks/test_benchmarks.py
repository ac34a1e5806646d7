"""What meanfield costs, beside named peers: `pytest benchmarks`, or `python benchmarks/report.py` for the report."""

import ctypes
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from itertools import count

import numba
import numpy as np
import pytest
from conftest import ROOT
from numba import njit

from meanfield import Dense, Gate, LayerNorm, Nonlinearity, Residual, Scale, Sequential, architectures, derive
from meanfield.empirical.ensemble.ensemble import run_ensemble
from meanfield.empirical.random.philox import fill_normals
from meanfield.networks import mlp
from meanfield.numeric.lowering.assembly import lower
from meanfield.numeric.quadrature.softmax.overlaps import softmax_average
from tests.oracles.polar import _nodes, graded_edges, one_input_float, two_input_float

TANH, POINT, PAIR = derive("tanh", residual=True), {"sigma_w": 1.0, "sigma_b": 0.1}, ("K_aa", "K_bb", "K_ab")
TIMED = "from time import perf_counter as t; a = t(); {0}; print(t() - a)"
TABLE = "from meanfield import derive; str(derive('tanh', residual=True).table())"
COLD = {"import meanfield": {"bar": 0.5, "ratio_bar": 1.4}, TABLE: {"bar": 2.0}}
FIRST_CALL = """
import json, time; from meanfield import derive
start = time.perf_counter()
derive("tanh", residual=True).propagate(sigma_w=1.0, sigma_b=0.1, depth=1000)
first = time.perf_counter() - start
print(json.dumps([first]))
"""


def _python(code, **env):
    """What a fresh interpreter prints, as JSON."""
    return json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=os.environ | env))


@pytest.mark.parametrize("code", COLD)
def test_cold(beside, code):
    """Cold process: {code}"""
    calls = (partial(_python, TIMED.format(c)) for c in (code, "import sympy"))
    beside(*calls, "import sympy", rounds=9, **COLD[code])


def test_second_process(beside, tmp_path):
    """Second process: derive and first propagate (1000 layers)"""
    _python(FIRST_CALL)  # fills the cache
    peer = lambda: _python(FIRST_CALL, MEANFIELD_CACHE=tempfile.mkdtemp(dir=tmp_path))[0]  # noqa: E731
    beside(lambda: _python(FIRST_CALL)[0], peer, "first process", rounds=5, warm=False)


FIRST = """
import contextlib, io, sys, time
import numba, scipy.special, sympy, meanfield as mf, numpy as np
import meanfield.cli.app, meanfield.theory.theory
rows = np.random.default_rng(0).normal(size=(16, 20))
start = time.perf_counter()
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    {0}
print(time.perf_counter() - start)
"""
FIRST_ANSWERS = {
    "meanfield critical gelu": "meanfield.cli.app.main(['critical', 'gelu'])",
    "meanfield init tanh": "meanfield.cli.app.main('init tanh --depth 50 --width 512'.split())",
    "derive('tanh').kernel": "mf.derive('tanh').kernel(rows, sigma_w=1.5, sigma_b=0.1, depth=10)",
}


@pytest.mark.parametrize("call", FIRST_ANSWERS)
def test_first_answer(beside, call, tmp_path):
    """First answer on a machine, imports apart: {call}"""
    code = FIRST.format(FIRST_ANSWERS[call])
    kept = tempfile.mkdtemp(dir=tmp_path)
    _python(code, MEANFIELD_CACHE=kept)
    ours = lambda: _python(code, MEANFIELD_CACHE=tempfile.mkdtemp(dir=tmp_path))  # noqa: E731
    beside(ours, lambda: _python(code, MEANFIELD_CACHE=kept), "kept from a call before", rounds=2, warm=False)


def test_kernel(beside):
    """K and Theta of 512 inputs, ten layers of erf, one thread"""
    X = np.random.default_rng(0).standard_normal((512, 8))
    at = {"sigma_w": 1.5, "sigma_b": 0.1}

    def peer():  # the closed forms, layer by layer
        K = 1.5**2 * (X @ X.T) / 8 + 0.01
        theta = K.copy()
        for _ in range(10):
            own = 1 + 2 * np.diag(K)
            root = np.sqrt(np.outer(own, own))
            theta *= 1.5**2 * 4 / math.pi / np.sqrt(root**2 - 4 * K**2)
            K = 1.5**2 * 2 / math.pi * np.arcsin(2 * K / root) + 0.01
            theta += K
        return K, theta

    ours = partial(derive("erf").kernel, X, depth=11, threads=1, **at)
    for one, other in zip((ours().K, ours().Theta), peer()):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    for _ in range(600):  # past what is interpreted: what each row brings, until that has cost what compiling does
        ours()
    beside(ours, peer, "NumPy, closed forms", rounds=9)


def test_averages(beside):
    """<tanh^2> and <sech^4> at one K, in a compiled loop over K"""
    lowered, K = lower(TANH.recursion("K", "J")), np.exp(np.random.default_rng(0).uniform(-7, 7, 10**6))
    first, second = lowered.module.avg_0, lowered.module.avg_1

    @njit
    def ours(out, K, T0, T1):
        for k in K:
            out += first(k, T0) + second(k, T1)
        return [out]

    @njit
    def peer(out, K):
        for k in K:
            out += math.tanh(k)
        return [out]

    calls = partial(ours, 0.0, K, *lowered.tables), partial(peer, 0.0, K)
    beside(*calls, "one math.tanh in a compiled loop", units=K.size, peer_units=K.size, bar=1e-7)


def _numpy(phi, sigma_w, sigma_b, depth, spread=150.0):
    """(K, log J) at the last layer; averages by panels graded for √K up to spread (tanh) or closed forms (erf)."""
    mu, K, log_J = float("residual" in phi), sigma_w**2 + sigma_b**2, 0.0 * sigma_w
    x, weights = _nodes(np.array(graded_edges(0.0, 10.0, [], [(0.0, 1.0 / spread)], 1.5)), 16)
    weights = weights * np.exp(-(x**2) / 2) * math.sqrt(2 / math.pi)
    for _ in range(depth - 1):
        if "tanh" in phi:
            t = np.tanh(np.sqrt(K)[..., None] * x) ** 2
            second, slope = t @ weights, (1 - t) ** 2 @ weights
        else:
            second, slope = 2 / math.pi * np.arcsin(2 * K / (2 * K + 1)), 4 / math.pi / np.sqrt(1 + 4 * K)
        K, log_J = mu * K + sigma_w**2 * second + sigma_b**2, log_J + np.log(mu + sigma_w**2 * slope)
    return K, log_J


@pytest.mark.parametrize("call", ["Lowered.run", "Theory.propagate"])
def test_point(beside, call):
    """1000 layers of (K, J) at one point, tanh residual: {call}"""
    lowered, peer = lower(TANH.recursion("K", "J")), lambda: _numpy("tanh residual", np.float64(1.0), 0.1, 1000, 30.0)
    TANH.propagate(**POINT, depth=10**7, every_layer=False)  # so many that compiling pays
    assert lowered.module.avg_0  # compiled, too
    start, sigma = np.array([[1.01, 0.0]]), np.array([POINT[n] for n in lowered.parameters])[:, None, None]
    kernel = partial(lowered.run, start, np.broadcast_to(sigma, (2, 1, 999)), 1000, True, True)
    ours = kernel if call == "Lowered.run" else partial(TANH.propagate, **POINT, depth=1000)
    beside(ours, peer, "NumPy, Gauss-Legendre panels", rounds=51, bar=5e-4)


@pytest.mark.parametrize(("phi", "bar"), [("tanh residual", 5.0), ("erf residual", 1.0), ("erf", 1.0)])
def test_grid(beside, phi, bar):
    """300 x 300 grid x 1000 layers, last layer only: {phi}"""
    theory, axis = derive(phi.split()[0], residual="residual" in phi), np.linspace(0.1, 3.0, 300)
    few, depth = (axis[::10], 101) if "tanh" in phi else (axis, 21)
    share, name = axis.size**2 * 999 / (few.size**2 * (depth - 1)), f"NumPy, {few.size} x {few.size} x {depth - 1}"
    peer = partial(_numpy, phi, *np.meshgrid(few, few, indexing="ij"), depth)
    run = theory.propagate(sigma_w=few[:, None], sigma_b=few, depth=depth, every_layer=False)
    np.testing.assert_allclose(run.log_J[..., -1], peer()[1], rtol=1e-11, atol=1e-12)
    ours = partial(theory.propagate, sigma_w=axis[:, None], sigma_b=axis, depth=1000, every_layer=False)
    beside(ours, peer, f"{name}, scaled by {share:g}", rounds=5, peer_units=1 / share, bar=bar)


def _in_c(folder):
    """The loop of lockstep.c, compiled here; skips where there is no C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler (cc, gcc or clang) is on the path, so there is no C loop to compare with")
    library = folder / "lockstep.so"
    flags = ["-O3", "-ffast-math", "-march=native", "-fopenmp-simd", "-shared", "-fPIC"]
    subprocess.run([compiler, *flags, "-o", library, ROOT / "benchmarks" / "lockstep.c", "-lm"], check=True)
    pointer = np.ctypeslib.ndpointer(dtype=float, flags="C_CONTIGUOUS")
    function = ctypes.CDLL(str(library)).layers
    function.argtypes, function.restype = [ctypes.c_long, ctypes.c_long, *[pointer] * 4], None

    def layers(sigma_w, sigma_b, depth):
        K, log_J = np.empty(sigma_w.size), np.empty(sigma_w.size)
        function(sigma_w.size, depth, sigma_w, sigma_b, K, log_J)
        return K, log_J

    return layers


@pytest.mark.parametrize(("name", "bar"), [("NumPy", 1.0), ("C", 2.0)])
def test_lockstep(beside, name, bar, tmp_path, monkeypatch):
    """300 x 300 grid x 1000 layers of (K, log J), erf residual, last layer, one thread, CPU time: against {name}"""
    monkeypatch.setattr(numba.config, "NUMBA_NUM_THREADS", 1)
    axis, depth = np.linspace(0.1, 3.0, 300), 1000 if name == "C" else 21
    w, b = (np.ascontiguousarray(v.ravel()) for v in np.meshgrid(axis, axis, indexing="ij"))
    layers = _in_c(tmp_path) if name == "C" else lambda w, b, depth: _numpy("erf residual", w, b, depth)
    theory = derive("erf", residual=True)
    run = theory.propagate(sigma_w=w, sigma_b=b, depth=depth, every_layer=False)
    np.testing.assert_allclose([run.K[:, 0], run.log_J[:, 0]], layers(w, b, depth), rtol=1e-11)

    def seconds(f):  # of CPU
        start = time.process_time()
        f()
        return time.process_time() - start

    ours = partial(seconds, partial(theory.propagate, sigma_w=w, sigma_b=b, depth=1000, every_layer=False))
    share = (depth - 1) / 999
    what = "C, vector code of libmvec, -ffast-math" if name == "C" else f"NumPy, {depth - 1} layers, scaled"
    beside(ours, partial(seconds, partial(layers, w, b, depth)), what, rounds=7, peer_units=share, ratio_bar=bar)


def test_pair_average(beside):
    """<tanh(z_a) tanh(z_b)> at one (K_aa, K_ab, K_bb), panel quadrature"""
    pair = next(f for n, f in vars(lower(TANH.recursion(*PAIR)).module).items() if n.removeprefix("pair_").isdigit())
    sine2 = 1 - 0.3**2 / 2.0  # of the angle between the inputs, which layers carry by itself

    @njit  # functions of a module are called by compiled code alone
    def ours():
        return [pair(1.0, 0.3, 2.0, sine2)]

    beside(ours, lambda: [two_input_float(np.tanh, 1.0, 2.0, 0.3)], "two_input_float (NumPy)", rounds=51)


def test_pair_layers(beside):
    """100 layers of (K_aa, K_bb, K_ab), tanh residual: Theory.propagate"""

    def peer(aa=1.01, bb=1.01, ab=0.31):
        for _ in range(99):
            ab += two_input_float(np.tanh, aa, bb, ab) + 0.01
            aa, bb = (k + one_input_float(lambda z: np.tanh(z) ** 2, k) + 0.01 for k in (aa, bb))
        return [aa, bb, ab]

    run = TANH.propagate(**POINT, depth=100, correlation=0.3)
    np.testing.assert_allclose([run.values[n][-1] for n in PAIR], peer(), rtol=1e-11)
    beside(partial(TANH.propagate, **POINT, depth=100, correlation=0.3), peer, "two_input_float (NumPy)", rounds=5)


def test_normals(beside):
    """One standard normal of the ensemble's generator (2^20 in a call)"""
    out, numpy = np.empty(2**20), np.random.default_rng(0).standard_normal
    calls = partial(fill_normals, out, 1, 2, 3, 0), partial(numpy, out=out)
    beside(*calls, "numpy's own", rounds=21, units=out.size, peer_units=out.size)


@pytest.mark.slow
def test_ensemble(beside):
    """200 networks of 500 x 50, tanh residual, exact Jacobian"""
    generator, block = np.random.default_rng(0), mlp("tanh", mu=1)

    def peer():
        z, J = generator.standard_normal(500), np.eye(500)
        for _ in range(4 * 49):
            W, h = generator.standard_normal((500, 500)) / math.sqrt(500), np.tanh(z)
            z, J = z + W @ h, J + W @ ((1 - h * h)[:, None] * J)

    ours = partial(run_ensemble, block, sigma_w=1, sigma_b=0, width=500, depth=50, networks=200)
    beside(ours, peer, "NumPy loop, 4 networks, scaled by 50", rounds=1, peer_units=1 / 50, warm=False)


def test_explicit(beside):
    """10 networks of 500 × 20 with explicit weights, K of every layer"""
    generator = np.random.default_rng(0)

    def peer():  # draws as many weights, computes the same outputs
        for _ in range(10):
            z = generator.standard_normal((500, 500)) @ generator.standard_normal(500) / math.sqrt(500)
            moments = [z @ z / 500]
            for _ in range(19):
                z = 1.2 / math.sqrt(500) * (generator.standard_normal((500, 500)) @ np.tanh(z))
                moments.append(z @ z / 500)

    sizes = {"sigma_w": 1.2, "sigma_b": 0, "width": 500, "depth": 20, "networks": 10, "jacobian": False}
    beside(partial(run_ensemble, mlp("tanh"), **sizes), peer, "NumPy loop", rounds=7, ratio_bar=1.25)


def test_lazy(beside):
    """100 networks of 10⁴ × 100 exactly in law: one input and four tangents"""
    sizes = {"sigma_w": 1.2, "sigma_b": 0.1, "width": 10_000, "probes": 4}
    ours = partial(run_ensemble, mlp("tanh"), **sizes, depth=100, networks=100, sampler="lazy")
    peer = partial(run_ensemble, mlp("tanh"), **sizes, depth=3, networks=2)  # 1/1667 of the layers
    name = "explicit path, 2 networks of 3 layers, scaled"
    beside(ours, peer, name, rounds=3, peer_units=6 / 10_000, ratio_bar=round(1 / 300, 5))


def test_widest(beside):
    """One network of 10⁶ × 50, a single input"""
    generator = np.random.default_rng(0)

    def peer():  # nothing but the normals that such a network needs
        for _ in range(50):
            generator.standard_normal(10**6)

    sizes = {"sigma_w": 1.2, "sigma_b": 0, "width": 10**6, "depth": 50, "networks": 2, "jacobian": False}
    ours = partial(run_ensemble, mlp("tanh"), **sizes, sampler="lazy", threads=1)
    beside(ours, peer, "NumPy: 50 × 10⁶ normals", rounds=3, units=2, bar=5.0)


@pytest.mark.slow
def test_many_small(beside):
    """10⁵ networks of 64 × 20, K, J by one probe, in bounded memory, two processes"""
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    sizes = {"sigma_w": 1, "sigma_b": 0.1, "width": 64, "depth": 20, "networks": 100_000, "probes": 1}

    def ours():
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            run_ensemble(mlp("tanh"), **sizes, sampler="lazy", keep_samples=False, executor=pool)

    def peer():
        generator = np.random.default_rng(0)
        for _ in range(100):
            x = generator.standard_normal((64, 2))
            for _ in range(20):
                x = generator.standard_normal((64, 64)) @ np.tanh(x) / 8

    beside(ours, peer, "NumPy loop, 100 networks, scaled by 1000", rounds=1, peer_units=1e-3, warm=False)


@pytest.mark.parametrize("name", ["erf", "gelu", "tanh"])
def test_phase_diagram(beside, name):
    """A phase diagram of 300 × 300 points, compiled before"""
    theory = derive(name)
    theory.phase_diagram(sigma_w=[0, 1, 2, 3], sigma_b=[0, 1, 2, 3], line=False)
    w, b = np.meshgrid(np.linspace(0, 3, 300), np.linspace(0, 3, 300))

    def peer():  # the same answer by iteration, as far as 300 layers reach
        return theory.propagate(sigma_w=w, sigma_b=b, depth=300, every_layer=False)

    beside(lambda: theory.phase_diagram(line=False), peer, "300 iterated layers", rounds=3)


def _correlations(phi, w2, b2, layers, nodes=61):
    """(K, c) of two orthogonal inputs after some layers, arrays of σ_w² and σ_b²: erf by Williams' arcsine, else
    the trapezoid rule in sum and difference. What `nngp_fn` of neural-tangents iterates, in plain NumPy.

    Beside neural-tangents itself, in an environment of its own: benchmarks/neural_tangents.py.
    """
    K, ab = w2 + b2, b2 + 0 * w2
    x = np.linspace(-8.5, 8.5, nodes)
    v = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    for _ in range(layers - 1):
        if phi == "erf":
            both, one = (2 / math.pi * np.arcsin(2 * k / (1 + 2 * K)) for k in (ab, K))
        else:
            m, d = (np.sqrt(np.maximum(K + s * ab, 0) / 2)[..., None] * x for s in (1, -1))
            f = np.tanh(m[..., :, None] + d[..., None, :]) * np.tanh(m[..., :, None] - d[..., None, :])
            both, one = np.einsum("...ij,i,j->...", f, v, v), np.tanh(np.sqrt(K)[..., None] * x) ** 2 @ v
        K, ab = w2 * one + b2, w2 * both + b2
    return K, ab / K


@pytest.mark.parametrize(("name", "bar"), [("erf", 1.0), ("tanh", 3.0)])
def test_bias_diagram(beside, name, bar):
    """A diagram of c* and the guessing bias, 300 × 250 points, compiled before, its tables of {name} made anew"""
    from meanfield.numeric.phases.gaps import compile_gaps

    theory, w2, b2 = derive(name), np.linspace(0.5, 4.0, 300), np.linspace(0.001, 0.2, 250)
    f, few = theory.activations[0].pieces.expr, (1 if name == "erf" else 25)

    def ours():
        compile_gaps(f).tables.clear()
        return theory.phase_diagram(sigma_w=np.sqrt(w2), sigma_b=np.sqrt(b2), quantity="gamma", line=False)

    def peer():  # the same answer where 100 layers reach it
        return _correlations(name, *np.meshgrid(w2[::few], b2[::few]), 100)

    share = (w2[::few].size * b2[::few].size) / (w2.size * b2.size)
    found, (_, c) = ours(), peer()
    left = 100 * found.slope[::few, ::few] ** 100 + 1e-8  # of the way that c had to go; the peer's quadrature
    assert (np.abs(found.c[::few, ::few] - c) < left)[left < 1e-3].all() and (left < 1e-6).mean() > 0.2
    beside(ours, peer, f"NumPy, 100 iterated layers, scaled by {1 / share:.4g}", rounds=3, peer_units=share, bar=bar)


@pytest.mark.parametrize(("name", "bar"), [("tanh", 30.0), ("relu", 30.0), ("gelu", 90.0)])
def test_phase_table(beside, name, bar):
    """The phase table of K, J and gradients of a full residual network of {name}, every β free, from expansions on"""
    from meanfield.presentation import phase_tables
    from meanfield.symbolic.asymptotics import exponent_cells
    from meanfield.symbolic.asymptotics.schedules import stationary_variance

    betas = {f"beta_{s}": f"beta_{s}" for s in "vwab"}
    theory = derive(name, architecture="full_residual", **betas)
    place = dict.fromkeys(("sigma_v", "sigma_w", "sigma_a", "sigma_b"), 1) | {"beta_v": "1/2", "beta_w": "1/4"}

    def ours():
        for cached in (
            phase_tables.phase_table,
            exponent_cells._witness,
            exponent_cells._affine,
            stationary_variance.is_monotone,
        ):
            cached.cache_clear()
        return theory.phase_table("K", "J", "G_w", "G_b")

    def peer():  # one place by iteration, to a depth that cannot tell a slope of .40 from .49
        numbers = place | {"beta_v": 0.5, "beta_w": 0.25, "beta_a": 1.0, "beta_b": 1.0}
        return theory.propagate(**numbers, depth=10**6, every_layer=False, quantities=("K", "J"))

    peer()
    assert ours().at(**place, beta_a=1, beta_b=1)["J"].leading is (name == "tanh")
    beside(ours, peer, "one place, 10^6 compiled blocks", rounds=3, bar=bar)


def _full(name, **betas):
    return derive(name, architecture="full_residual", **{f"beta_{s}": betas.get(s, f"beta_{s}") for s in "vwab"})


def test_phase_table_again(beside):
    """The same table of tanh, as it is kept"""
    theory = _full("tanh")

    def ours():
        return len(theory.phase_table("K", "J", "G_w", "G_b").rows)

    def peer():
        return len(str(theory.table()))

    beside(ours, peer, "the table of the recursion", bar=0.1)


@pytest.mark.parametrize("name", ["tanh", "gelu"])
def test_depth_law_at_a_point(beside, name):
    """The law of J of a full residual network of {name} at one place, V = 1, from the expansions on"""
    from meanfield.presentation import phase_tables
    from meanfield.symbolic.asymptotics.schedules import stationary_variance

    place = dict.fromkeys(("sigma_v", "sigma_w", "sigma_b"), 1) | {"sigma_a": 2}
    theory = _full(name, v="1/2", w="1/2", a=1, b=1)

    def ours():
        phase_tables.phase_table.cache_clear(), stationary_variance.is_monotone.cache_clear()
        return theory.depth_law("J", **place)

    def peer():
        return theory.propagate(**place, depth=10**6, every_layer=False, quantities=("K", "J"))

    beside(ours, peer, "the place by 10^6 compiled blocks", rounds=3, bar=2.0)


def test_flow_point(beside):
    """The judge of one law: 10^5 blocks of tanh, then a flow in log l to l = e^2000"""
    from tests.oracles.flow import follow, table

    square, slope = table(np.tanh, 1), table(lambda z: 1 / np.cosh(np.clip(z, -350, 350)) ** 2, 0)
    theory = _full("tanh", v="1/2", w="1/4", a=1, b=1)

    def ours():
        ones, betas = np.ones(4), np.array([0.5, 0.25, 1.0, 1.0])
        return follow(square, slope, ones, betas, 1.0, np.array([1000.0, 2000.0]), 0.1)

    def peer():
        ones = dict.fromkeys(("sigma_v", "sigma_w", "sigma_a", "sigma_b"), 1)
        return theory.propagate(**ones, depth=10**7, every_layer=False, quantities=("K", "J"))

    beside(ours, peer, "10^7 compiled blocks", rounds=3, ratio_bar=0.1)


def test_pair_of_one_norm(beside):
    """1000 layers of (K, K_ab, distance) of a tanh pair: Theory.propagate"""
    theory, point = derive("tanh"), {"sigma_w": math.sqrt(2.5), "sigma_b": math.sqrt(0.1)}
    ours = partial(theory.propagate, **point, depth=1000, correlation=0.0, quantities=("K", "c"))
    peer = lambda: list(_correlations("tanh", np.float64(2.5), np.float64(0.1), 1000))  # noqa: E731
    np.testing.assert_allclose([ours().K[-1], ours().c[-1]], peer(), rtol=1e-9)
    beside(ours, peer, "NumPy, trapezoid rule, 61 × 61", rounds=5)


@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_critical_points(beside, name):
    """All critical points, certified, from a cold derivation"""
    from scipy.optimize import brentq
    from scipy.special import erf, expit

    def ours():
        from meanfield.symbolic.criticality import critical_points as criticality
        from meanfield.symbolic.fixed_points import certified_roots

        criticality.critical_points.cache_clear()
        certified_roots._node.cache_clear()
        return derive(name).critical_points()

    z, weight = np.polynomial.hermite_e.hermegauss(100)
    weight = weight / weight.sum()

    def gap(k):  # float64 Gauss-Hermite and a root bracket given by hand: no certificate, no count
        x = np.sqrt(k) * z
        p = np.exp(-x * x / 2) / np.sqrt(2 * np.pi)
        s = expit(x)
        phi, slope = (x * (1 + erf(x / np.sqrt(2))) / 2, (1 + erf(x / np.sqrt(2))) / 2 + x * p)
        if name == "silu":
            phi, slope = x * s, s + x * s * (1 - s)
        return weight @ (x * phi * slope / k - slope**2)

    beside(ours, lambda: brentq(gap, 0.5, 60), "SciPy brentq on Gauss-Hermite, uncertified", rounds=1)


def _nested(levels=12):
    """A residual in a residual, 12 deep, with norms, gates and scales in turn; and 12 such blocks in a row."""
    found, kinds = Dense(), ("gelu", "tanh", "relu", "silu")
    for k in range(levels):
        phi = Nonlinearity(kinds[k % 4])
        one = (
            (LayerNorm(), Dense(), phi, Dense(), found),
            (Gate(kinds[k % 4], Dense(), Dense()), Dense(), found),
            (phi, Dense(), Scale("9/10"), found),
        )[k % 3]
        found = Residual(Sequential(one), "1/2")
    return found


def _in_a_row(blocks=12):
    gate = Residual(Sequential((LayerNorm(), Gate("silu", Dense(expand=2), Dense(expand=2)), Dense())), 1)
    plain = [
        Residual(Sequential((LayerNorm(), Dense(), Nonlinearity(phi), Dense(), Scale("1/2"))), 1)
        for phi in ("gelu", "tanh", "relu")
    ]
    return Sequential(tuple(gate if k % 2 else plain[k // 2 % 3] for k in range(blocks)))


@pytest.mark.parametrize("shape", ["nested 12 deep", "12 in a row"])
def test_composition(beside, shape):
    """Every row of the table (K, J, Θ, K_ab, χ's) of blocks {shape}, derived in a fresh process"""
    make = "_nested" if "nested" in shape else "_in_a_row"
    code = "import sys, time; sys.path[:0] = ['benchmarks']; import test_benchmarks as t; a = time.perf_counter(); "
    code += f"str(t.derive(architecture=t.{make}()).table()); print(time.perf_counter() - a)"
    sizes = {"sigma_w": 1, "sigma_b": 0.1, "width": 256, "depth": 2, "networks": 20, "quantities": ("K", "J")}
    peer = partial(run_ensemble, globals()[make](), **sizes)
    beside(partial(_python, code), peer, "20 networks of width 256, measured", rounds=3, bar=5.0)


def test_sampled_mixer(beside):
    """12 blocks of an MLP-Mixer (GELU) at 64 tokens, sampled theory, 12 draws"""
    place = {"sigma_w": 1, "sigma_b": 0.5, "depth": 13, "tokens": 64, "quantities": ("K", "chi")}
    block = architectures.mlp_mixer("gelu", mu="1/2")
    ours = partial(derive(architecture=block).sample, **place, draws=12)
    peer = partial(run_ensemble, block, **place, width=128, networks=12, probes=1)
    beside(ours, peer, "12 networks of 128 channels", rounds=3, bar=10.0)


def _attention(tokens, width, heads, blocks, seed=0):
    """Forward pass of pre-norm blocks in plain NumPy."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((tokens, width))

    def weights(fan, made):
        return rng.standard_normal((fan, made)) / math.sqrt(fan)

    def normed(y):
        return (y - y.mean(1, keepdims=True)) / y.std(1, keepdims=True)

    for _ in range(blocks):
        q, k, v = ((normed(x) @ weights(width, width)).reshape(tokens, heads, -1).swapaxes(0, 1) for _ in range(3))
        scores = q @ k.swapaxes(1, 2) / math.sqrt(width // heads)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ v
        x = x + 0.3 * mixed.swapaxes(0, 1).reshape(tokens, width) @ weights(width, width)
        x = x + 0.3 * np.maximum(normed(x) @ weights(width, 4 * width), 0) @ weights(4 * width, width)
    return x


SIGMAS = dict.fromkeys(("sigma_e", "sigma_q", "sigma_k", "sigma_v", "sigma_1"), 1) | {"sigma_o": 0.3, "sigma_2": 0.3}


def test_softmax_overlap(beside):
    """Overlap of two softmax rows of 128 scores, to 1e-12"""
    rng = np.random.default_rng(0)

    def sampled():
        z = rng.standard_normal((2, 10_000, 128))
        rows = np.exp(3 * np.stack([z[0], 0.6 * z[0] + 0.8 * z[1]]))
        return (rows / rows.sum(-1, keepdims=True)).prod(0).sum(-1).mean()

    variances = count(9000)  # no two calls alike: values are remembered
    ours = lambda: softmax_average("value", 128, next(variances) / 1000, 3.6)  # noqa: E731
    beside(ours, sampled, "10^4 sampled rows, NumPy", rounds=9, bar=0.02)


def test_tokens(beside):
    """K, c and J of two tokens through 100 pre-norm blocks"""
    theory = derive("relu", architecture="gpt", heads=12, causal=False)
    ours = partial(theory.propagate, depth=101, tokens=32, quantities=("K", "c", "J"), **SIGMAS)
    beside(ours, partial(_attention, 32, 768, 12, 1), "one block of width 768, forward, NumPy", rounds=9, bar=0.01)


def test_drawn_heads(beside):
    """Drawn heads: K and J of 128 tokens, 12 heads, 12 causal blocks, 16 draws"""
    theory = derive("gelu", architecture="gpt", heads=12)
    ours = partial(theory.sample, depth=13, tokens=128, draws=16, **SIGMAS)
    peer = partial(_attention, 128, 768, 12, 12)
    beside(ours, peer, "16 networks of width 768, forward, NumPy", rounds=3, peer_units=1 / 16, bar=10.0)


_DIAGRAM = """
import time; from meanfield import derive
a = time.perf_counter(); t = derive({0!r}, architecture={1!r}{2})
t.phase_diagram(sigma_w=(0.1, 3, 300), sigma_b=(0, 3, 300), line=False); print(time.perf_counter() - a)
"""


@pytest.mark.parametrize("name", architectures.PRESETS)
def test_first_diagram(beside, name, tmp_path):
    """A phase diagram of 300 × 300 points, its first time on a machine: {name}"""
    phi = {"swiglu": "silu", "resmlp": "gelu", "mlp_mixer": "gelu"}.get(name, "tanh")
    given = {"sigma_v": 1, "sigma_a": 0} if name == "full_residual" else {}
    code = _DIAGRAM.format(phi, name, "".join(f", {k}={v}" for k, v in given.items()))
    ours = lambda: _python(code, MEANFIELD_CACHE=tempfile.mkdtemp(dir=tmp_path))  # noqa: E731
    axis = np.linspace(0.1, 3, 30)
    theory = derive(phi, architecture=name, **given)

    def peer():  # the same answer by iteration, as far as 300 layers reach, at a hundredth of the points
        theory.propagate(sigma_w=axis[:, None], sigma_b=axis, depth=300, every_layer=False)

    beside(ours, peer, "300 iterated layers, compiled, 30 × 30, scaled by 100", rounds=1, peer_units=1e-2, bar=10.0)


def test_predict(beside):
    """Mean at 30 times, 1000 training and 100 further inputs, 10 outputs, kernels given"""
    from scipy.linalg import eigh

    from meanfield.prediction.predict import predict

    rng = np.random.default_rng(3)
    X, y, far = (rng.standard_normal(shape) for shape in ((1000, 20), (1000, 10), (100, 20)))
    at = {"sigma_w": 1.5, "sigma_b": 0.1, "depth": 3}
    found = derive("erf").kernel(np.concatenate((X, far)), **at)
    asked = dict(t=np.geomspace(1, 1e6, 30), rate=None, loss="mse", train="all", ridge=0, networks=None, seed=0)
    asked |= dict(threads=None, executor=None, progress=None, operator=None)
    ours = lambda: predict(lambda *_, **__: found, X, y, far, **asked, **at).mean  # noqa: E731
    peer = lambda: eigh(found.Theta[:1000, :1000], driver="evd")[0]  # noqa: E731
    beside(ours, peer, "its eigendecomposition (scipy.linalg.eigh)", rounds=7, ratio_bar=1.2)


def test_training_step(beside):
    """One step of gradient descent, tanh, width 100, 32 layers, batch of 128 digits, one thread"""
    from sklearn.datasets import load_digits

    from meanfield.empirical.training.losses import cross_entropy
    from meanfield.empirical.training.optimizers import Optimizer
    from meanfield.empirical.training.passes import Trainee
    from meanfield.training.prepared import prepared

    X, y = load_digits(return_X_y=True)
    X, Y = (X[:128] - X.mean()) / X.std(), np.eye(10)[y[:128]]
    at = dict(depth=32, width=100, head=None, loss="cross_entropy", optimizer="sgd", rate=0.01, steps=1, batch=None)
    at |= dict(warmup=0, lambda_w=None, lambda_b=None, biases=True, seed=0, records=1, theta_inputs=0)
    plan = prepared("tanh", (X, y[:128]), sigma_w=1.4, sigma_b=0.2, keep_weights=False, **at).plan
    net, part = Trainee(plan.layers, 0, 0), plan.parts["train"]
    descent = Optimizer(net.parameters, net.rates)
    w, b = ([a.copy() for n, a in net.parameters.items() if n.name == kind] for kind in ("W", "b"))

    def ours():
        _, cotangent = cross_entropy(net.outputs(part.x, True), part.y)
        descent.step(net.gradients(cotangent), 0.01)

    def plain():
        h = [X]
        for k in range(32):
            z = h[-1] @ w[k].T + b[k]
            h.append(np.tanh(z) if k < 31 else z)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        u = (e / e.sum(axis=1, keepdims=True) - Y) / len(Y)
        for k in range(31, -1, -1):
            gw, gb = u.T @ h[k], u.sum(axis=0)
            if k:
                u = (u @ w[k]) * (1 - h[k] * h[k])
            w[k] -= 0.01 * gw
            b[k] -= 0.01 * gb

    beside(ours, plain, "the same network in plain NumPy", rounds=9, ratio_bar=1.5)
