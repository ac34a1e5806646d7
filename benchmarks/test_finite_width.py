"""Finite width: Weingarten functions beside haarpy where it is installed, else beside the second algorithm."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile

import pytest
from conftest import ROOT

import meanfield as mf
from meanfield.base.quantities import FINITE_WIDTH, SECOND_ORDER
from meanfield.base.symbols import n
from meanfield.symbolic.finite_width import correlator_maps, layer_law, variance, weight_averages
from meanfield.symbolic.finite_width.haar import orthogonality, weingarten, zonal
from meanfield.symbolic.finite_width.haar.pairings import partitions

CACHES = (zonal.zonal_functions, zonal.dimensions, weingarten._complete, orthogonality.by_orthogonality)
STEPS = (correlator_maps.weight_average, layer_law.first_order, weight_averages.leading, variance.cumulant_maps)
ALL = ("K", "Theta", *FINITE_WIDTH)
FIRST_CALL = """
import json, time; import meanfield as mf
start = time.perf_counter()
theory = mf.derive("tanh", weights="orthogonal")
theory.propagate(sigma_w=1, sigma_b=0, depth=1000, quantities={0})
print(json.dumps(time.perf_counter() - start))
"""


def _cold(function, *caches):
    for cache in caches:
        cache.cache_clear()
    return function()


@pytest.mark.parametrize(("order", "bar"), [(5, 0.2), (8, 2.0)])
def test_weingarten(beside, order, bar):
    """Orthogonal Weingarten functions of all coset types of order {order}, rational in n, caches empty"""
    types = list(partitions(order))
    peer, name = lambda: orthogonality.by_orthogonality(order), "orthogonality recursion (ours)"
    if importlib.util.find_spec("haarpy") is not None and order < 6:  # minutes beyond
        import haarpy

        modules = [m for name, m in sys.modules.items() if name.split(".")[0] == "haarpy"]
        kept = {f for m in modules for f in vars(m).values() if hasattr(f, "cache_clear")}
        peer, name = lambda: _cold(lambda: [haarpy.weingarten_orthogonal(t, n) for t in types], *kept), "haarpy"
    ours = lambda: [weingarten.weingarten(t) for t in types]  # noqa: E731
    beside(lambda: _cold(ours, *CACHES), lambda: _cold(peer, *CACHES), name, rounds=5, warm=False, bar=bar)


@pytest.mark.parametrize(("inputs", "bar"), [(1, 2.0), (4, 15.0)])
def test_maps(beside, inputs, bar):
    """Maps of V, A, B, D, F, P … U (V6, V1, G2 of one) by their steps, {inputs} input(s), orthogonal, caches empty"""

    def derived(weights):
        at = (0,) * 4 if inputs == 1 else (1, 2, 3, 4)
        names = [x for x in correlator_maps.NAMES if inputs == 1 or x not in correlator_maps.MEANS]
        found = [
            correlator_maps.correlator_map(x, at if x in correlator_maps.INDEX_OF else None, weights=weights)
            for x in names
        ]
        return found + [variance.second_order_map(x, weights=weights) for x in SECOND_ORDER if inputs == 1]

    ours, peer = (lambda w=w: _cold(lambda: derived(w), *STEPS) for w in ("orthogonal", "gaussian"))
    beside(ours, peer, "Gaussian weights (ours)", rounds=3, warm=False, bar=bar)


def test_several_inputs(beside):
    """10 layers of all correlators of four inputs of orthogonal tanh networks, all index patterns"""
    theory, at = mf.derive("tanh", weights="orthogonal"), dict(sigma_w=1, sigma_b=0, depth=10)
    four = lambda: theory.correlators(gram=[[1 if a == b else 0.5 for a in range(4)] for b in range(4)], **at)  # noqa: E731
    two = lambda: theory.correlators(gram=[[1, 0.5], [0.5, 1]], **at)  # noqa: E731
    beside(four, two, "two inputs (ours)", rounds=2, bar=20.0)


def test_run(beside):
    """1000 layers of K, Theta, V … U, G1, Theta1, J1, V6, V1, G2 of orthogonal tanh networks, compiled"""
    theory, at = mf.derive("tanh", weights="orthogonal"), dict(sigma_w=1, sigma_b=0, depth=1000)
    ours = lambda: theory.propagate(**at, quantities=ALL)  # noqa: E731
    theory.propagate(**at | {"depth": 10**6}, quantities=ALL, every_layer=False)  # so many layers that compiling pays
    beside(ours, lambda: theory.propagate(**at, quantities=("K", "J", "Theta")), "K, J, Theta (ours)", bar=2e-3)


@pytest.mark.parametrize(("call", "bar"), [("first call", 30.0), ("from the cache", 2.0)])
def test_fresh_process(beside, tmp_path, call, bar):
    """The same in a fresh process after the import, derivation included: {call}"""

    def seconds(quantities, folder):
        code = FIRST_CALL.replace("{0}", repr(quantities))
        env = os.environ | {
            "MEANFIELD_CACHE": folder,
            "PYTHONPYCACHEPREFIX": str(tmp_path),
            "PYTHONDONTWRITEBYTECODE": "",
        }
        return json.loads(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT, env=env))

    kept = tempfile.mkdtemp(dir=tmp_path)
    seconds(ALL, kept), seconds(("K", "J", "Theta"), kept)  # bytecode, and the cache
    folder = lambda: kept if call == "from the cache" else tempfile.mkdtemp(dir=tmp_path)  # noqa: E731
    peer = lambda: seconds(("K", "J", "Theta"), folder())  # noqa: E731
    beside(lambda: seconds(ALL, folder()), peer, "K, J, Theta (ours)", rounds=3, warm=False, bar=bar)
