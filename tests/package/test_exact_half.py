"""What is derived needs SymPy, mpmath and python-flint alone: a Python with nothing else answers to the byte what one
with NumPy, SciPy and Numba does, and refuses numbers in a sentence. Without Numba and SciPy layers are run, too."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests import ROOT
from tests.package import exact_calls
from tests.package.exact_calls import CALLS

EXACT = ("sympy", "mpmath", "flint", "python_flint", "lazy_loader")  # beginnings of the names of what is needed
NUMERIC = ("numpy", "scipy", "numba", "threadpoolctl", "matplotlib")
NUMBERS = (
    'mf.derive("tanh").propagate(sigma_w=1.5, sigma_b=0.1, depth=10)',
    'mf.derive("tanh").correlations(sigma_w=1.5, sigma_b=0.1)',
    'mf.derive("tanh").phase_diagram()',
    'mf.derive("tanh").source()',
    'mf.derive("tanh").kernel([[1, 0], [0, 1]], sigma_w=1, sigma_b=0, depth=3)',
    'mf.train("tanh", mf.data.teacher(classes=2), sigma_w=1.4, sigma_b=0.1, width=16, steps=50)',
    'mf.recommend("relu", depth=20, width=512, networks=0)',
)
#: run where nothing of `NUMERIC` can be found: the calls of the other file, then these, then what was loaded
ABSENT = """
import sys
folder, here, calls = sys.argv[1:]
sys.path[:0] = [folder, here]
from tests.package import exact_calls
import json
found = {"answers": exact_calls.answers(), "numbers": {c: exact_calls.answer(c) for c in json.loads(calls)}}
for name in NAMES:
    try:
        __import__(name)
        raise SystemExit(f"{name} is there")
    except ModuleNotFoundError:
        pass
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def without_numbers(tmp_path_factory):
    """The answers of a Python that sees SymPy, mpmath, python-flint and lazy_loader, and no metadata of any library."""
    folder = tmp_path_factory.mktemp("libraries")
    for home in {Path(find_spec(name).origin).parents[1] for name in ("sympy", "mpmath", "flint", "lazy_loader")}:
        for entry in home.iterdir():
            if entry.name.startswith(EXACT) and not entry.name.endswith((".dist-info", ".egg-info")):
                (folder / entry.name).symlink_to(entry)
    command = [sys.executable, "-I", "-S", "-c", ABSENT.replace("NAMES", repr(NUMERIC)), str(folder), str(ROOT)]
    own = os.environ | {"MEANFIELD_CACHE": str(tmp_path_factory.mktemp("cache"))}
    ran = subprocess.Popen(
        [*command, json.dumps(NUMBERS)], env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    native = exact_calls.answers()  # in the meantime
    out, said = ran.communicate(timeout=600)
    assert ran.returncode == 0, said
    return json.loads(out) | {"native": native}


def assert_same(found: str, native: str) -> None:
    assert found.encode() == native.encode(), f"it answers {found!r}, the whole library {native!r}"


@pytest.mark.parametrize("verb", CALLS)
def test_answers_are_those_of_the_whole_library(verb, without_numbers):
    for call in CALLS[verb]:
        assert_same(without_numbers["answers"][call], without_numbers["native"][call])
        assert without_numbers["native"][call].startswith("MeanFieldError: ") == (verb == "refusals"), call


def test_one_changed_digit_is_seen(without_numbers):
    native = without_numbers["native"]['mf.derive("tanh").phase(sigma_w=1.5, sigma_b=0.1)']
    changed = native.replace("1.12905", "1.12906")
    assert changed != native
    with pytest.raises(AssertionError, match=r"1\.12906.*, the whole library .*1\.12905"):
        assert_same(changed, native)


@pytest.mark.parametrize("call", NUMBERS)
def test_numbers_are_refused_in_a_sentence(call, without_numbers):
    said = without_numbers["numbers"][call]
    assert said.startswith("MeanFieldError: "), said
    assert " needs numpy, which is not installed; try: pip install numpy, or ask for what is derived" in said


#: NumPy alone: what Emscripten has where somebody builds NumPy for it
INTERPRETED = """
import sys
for name in ("scipy", "numba", "llvmlite", "threadpoolctl"):
    sys.modules[name] = None
import meanfield as mf
from meanfield.numeric.lowering.modules import generated_modules as modules
modules.PATIENCE = 0.0  # compiling pays at once
if PLANTED:
    modules.has_numba = lambda: True
tanh = mf.derive("tanh")
for _ in range(3):
    run = tanh.propagate(sigma_w=1.5, sigma_b=0.1, depth=10)
print(run.K[-1].hex(), run.log_J[-1].hex())
print(mf.derive("gelu").propagate(sigma_w=1.5, sigma_b=0.1, depth=10, correlation=0.3).c[-1].hex())
try:
    tanh.propagate(sigma_w=1.5, sigma_b=0.1, depth=10**9, every_layer=False)
except mf.MeanFieldError as error:
    print(error)
"""


def interpreted(tmp_path: Path, planted: bool = False) -> subprocess.CompletedProcess:
    own = os.environ | {"MEANFIELD_CACHE": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", INTERPRETED.replace("PLANTED", str(planted))]
    return subprocess.run(command, env=own, capture_output=True, text=True, timeout=600)


def test_layers_run_without_numba_and_scipy(tmp_path):
    """However often: nothing waits for a compiled form; the bits are those of the whole library."""
    import meanfield as mf

    ran = interpreted(tmp_path)
    assert ran.returncode == 0, ran.stderr
    numbers, cosine, refusal = ran.stdout.splitlines()
    run = mf.derive("tanh").propagate(sigma_w=1.5, sigma_b=0.1, depth=10)
    assert numbers.split() == [run.K[-1].hex(), run.log_J[-1].hex()]
    pair = mf.derive("gelu").propagate(sigma_w=1.5, sigma_b=0.1, depth=10, correlation=0.3)
    assert cosine == pair.c[-1].hex()
    assert refusal.startswith("Without Numba this run would take about ") and "install numba" in refusal


def test_a_budget_without_numba_would_end_in_a_refusal(tmp_path):
    """The planted error: as where Numba is installed, calls cost until compiling pays, and then there is none."""
    ran = interpreted(tmp_path, planted=True)
    assert ran.returncode == 1
    assert "propagate needs numba, which is not installed" in ran.stderr
