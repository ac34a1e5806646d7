"""What a fresh process costs: import, derive with its table, and the first compiled call."""

import json
import os
import subprocess
import sys
import tempfile
from functools import partial

from conftest import ROOT

TABLE = "from meanfield import derive; str(derive('tanh', residual=True).table())"
IMPORT = "from time import perf_counter as t; a = t(); import {0}; print(t() - a)"
FIRST_CALL = """
import json, sys, time
from meanfield import derive
start = time.perf_counter()
theory = derive("tanh", residual=True)
theory.propagate(sigma_w=1.0, sigma_b=0.1, depth=1000)
first = time.perf_counter() - start
theory.propagate(sigma_w=[1.0, 2.0], sigma_b=0.1, depth=10, every_layer=False)
found = {id(f): f.stats for name, m in sys.modules.items() if name.startswith("meanfield")
         for f in vars(m).values() if hasattr(f, "nopython_signatures")}.values()
print(json.dumps([first, sum(sum(s.cache_misses.values()) for s in found),
                  sum(sum(s.cache_hits.values()) for s in found)]))
"""


def _python(code: str, **environment: str) -> str:
    """What a fresh interpreter prints."""
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, check=True, capture_output=True, text=True
    ).stdout


def _own_seconds(code: str) -> float:
    return float(_python(code))


def test_table(beside):
    """Cold process: derive("tanh", residual=True) and its table."""
    beside(partial(_python, TABLE), partial(_python, "import sympy"), "process that imports sympy", bar=2.0)


def test_import(beside):
    """Cold process: import meanfield."""
    ours, peer = (partial(_own_seconds, IMPORT.format(name)) for name in ("meanfield", "sympy"))
    beside(ours, peer, "import sympy", rounds=11, bar=0.5, ratio_bar=1.4)


def test_second_process(beside):
    """Second process: first propagate (1000 layers), imports of Numba included."""
    counts = []

    def warm() -> float:
        first, *found = json.loads(_python(FIRST_CALL))
        counts.append(found)
        return first

    def cold() -> float:
        with tempfile.TemporaryDirectory() as folder:
            return json.loads(_python(FIRST_CALL, MEANFIELD_CACHE=folder))[0]

    warm(), counts.clear()  # this fills the cache
    extra = {"misses": counts}
    beside(warm, cold, "first process, empty cache", rounds=3, warm=False, **extra)
