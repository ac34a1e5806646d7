"""The same numbers on every machine: bit for bit whatever the BLAS, within the claimed error whatever the instructions.

Each case is a process of its own with an empty cache. Its BLAS kernel is forced by OPENBLAS_CORETYPE, the instructions
that NumPy may use by NPY_DISABLE_CPU_FEATURES.
"""

import json
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__

PROBE = Path(__file__).with_name("machine_probe.py")
KERNELS = ["Nehalem", *(["Haswell"] if __cpu_features__.get("AVX2") else [])]
KERNELS += ["SkylakeX"] if __cpu_features__.get("AVX512F") else []
KERNELS = KERNELS[-2:]  # the two of the latest kind; a process takes ten seconds
AVAILABLE = [f for f in __cpu_dispatch__ if __cpu_features__.get(f)]
DISABLED = [AVAILABLE] if AVAILABLE else []  # dispatched instruction sets taken away


def _run(settings: dict[str, str], cache: Path) -> dict:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS_", "NPY_"))}
    environment |= {"MEANFIELD_CACHE": str(cache), "PYTHONPATH": os.getcwd(), **settings}
    done = subprocess.run([sys.executable, str(PROBE)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def machines(tmp_path_factory):
    cases = {f"kernel {k}": {"OPENBLAS_CORETYPE": k} for k in KERNELS}
    cases |= {f"without {' '.join(d)}": {"NPY_DISABLE_CPU_FEATURES": " ".join(d)} for d in DISABLED}
    with ThreadPoolExecutor(2) as pool:
        runs = {name: pool.submit(_run, s, tmp_path_factory.mktemp("cache")) for name, s in cases.items()}
        return {name: run.result() for name, run in runs.items()}


def assert_same_bits(a: dict, b: dict, names) -> None:
    for name in names:
        assert a["values"][name] == b["values"][name], f"{name} differs"


def assert_within_error(a: dict, b: dict) -> None:
    for name, error in a["errors"].items():
        for u, v in zip(a["values"][name], b["values"][name], strict=True):
            x, y = float.fromhex(u), float.fromhex(v)
            # log J is compared on the scale of 1, where its rounding happens
            assert abs(x - y) <= error * max(abs(x), 1.0 if name.startswith("propagate") else 0.0), (
                f"{name}: {x} and {y} differ by more than the error"
            )


@pytest.mark.slow
def test_blas_kernels_change_no_bit(machines):
    first, *others = (machines[f"kernel {k}"] for k in KERNELS)
    names = [n for n in first["values"] if "control" not in n]
    assert sum(n.startswith("table of") for n in names) >= 4 and sum(n.startswith("propagate") for n in names) == 3
    for other in others:
        assert_same_bits(first, other, names)
        if platform.machine().lower() in ("x86_64", "amd64"):  # elsewhere the names of the kernels mean nothing
            # the kernels do differ: products with a matrix show it
            with pytest.raises(AssertionError, match="control differs"):
                assert_same_bits(first, other, ["control"])


@pytest.mark.slow
def test_instructions_stay_within_the_claimed_error(machines):
    cases = [v for k, v in machines.items() if k.startswith("without")]
    reference = machines[f"kernel {KERNELS[-1]}"]
    for other in cases:
        assert_within_error(reference, other)
    if cases:
        planted = json.loads(json.dumps(reference))
        for name in planted["errors"]:  # a table that is off by twice what it claims
            planted["values"][name] = [
                (float.fromhex(v) * (1 + 2 * planted["errors"][name]) if v != "0x0.0p+0" else 0.0).hex()
                for v in planted["values"][name]
            ]
        with pytest.raises(AssertionError, match="differ by more than the error"):
            assert_within_error(reference, planted)
