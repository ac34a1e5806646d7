"""Compile every kernel of `meanfield.empirical.cuda` for a real GPU, on a machine that has none.

`python benchmarks/compile_cuda.py [--cc 9.0]` runs `measure_block_cuda` with NumPy arrays in the place of the device's,
and compiles every launch for its arguments instead of starting it. It prints each kernel's registers, stack and spills
where ptxas is found, and the size of its PTX; it exits 1 if one does not compile. It needs
`pip install numba-cuda[cu12]` (the compiler NVVM and ptxas as wheels; no driver).
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numba import cuda as driver
from numba import typeof

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from meanfield.empirical import Ensemble, ScalarPair  # noqa: E402
from meanfield.empirical.cuda import compilation  # noqa: E402
from meanfield.empirical.cuda import device as cuda  # noqa: E402
from meanfield.empirical.functions.registry import REFERENCES  # noqa: E402
from meanfield.empirical.observables.inputs import Inputs  # noqa: E402
from meanfield.empirical.observables.measurement import MeasurementPlan  # noqa: E402
from meanfield.empirical.observables.wanted import Measurement  # noqa: E402
from meanfield.networks.records import (  # noqa: E402
    Dense,
    LayerNorm,
    Nonlinearity,
    Pool,
    Residual,
    Scale,
    Sequential,
    mlp,
)

SOURCES = (
    "@njit\ndef _sech(x):\n    e = math.exp(-abs(x))\n    return 2.0 * e / (1.0 + e * e)\n\n\n"
    "@njit\ndef f(z):\n    return math.tanh(z) + 0.1 * math.erfc(z) + math.log1p(z * z)\n",
    "@njit\ndef _sech(x):\n    e = math.exp(-abs(x))\n    return 2.0 * e / (1.0 + e * e)\n\n\n"
    "@njit\ndef f(z):\n    return _sech(z)**2 - 0.2 / math.sqrt(math.pi) * math.exp(-z * z) + 2 * z / (1 + z * z)\n",
)


POOL = "sqrt(1 + z1**2 + relu(z2)**3) + softplus(z1)*clip(z2, -1, 1) + (z1 if z1 > z2 else erf(z2)*sigmoid(z1))"


class Host(np.ndarray):
    """A NumPy array that stands for one of the device."""

    def copy_to_device(self, other: np.ndarray) -> None:
        self[...] = other

    def copy_to_host(self) -> np.ndarray:
        return np.asarray(self)


class Compiler:
    """What takes numba.cuda's place: `launch` compiles for a GPU of capability `cc`."""

    def __init__(self, cc: tuple[int, int]) -> None:
        self.cc, self.done, self.failed = cc, {}, 0
        self.ptxas = shutil.which("ptxas") or next(
            (str(p) for root in sys.path for p in Path(root or ".").glob("nvidia/cuda_nvcc/bin/ptxas")), None
        )

    def install(self) -> None:
        """Put NumPy's memory, this compiler and a device of its capability in numba.cuda's place."""
        driver.device_array = lambda shape: np.zeros(shape).view(Host)
        driver.to_device = lambda array: array.view(Host)
        driver.current_context = lambda: SimpleNamespace(get_memory_info=lambda: (2**33, 2**33))
        driver.is_available = lambda: True
        module: Any = sys.modules[type(driver.jit(lambda: None)).__module__]
        module.get_current_device = lambda: SimpleNamespace(compute_capability=self.cc)  # device functions ask for it
        compilation.launch = self.launch

    def launch(self, kernel: Any, grid: int, block: Any, *arguments: Any) -> None:
        function = kernel.py_func
        plain = (np.asarray(one) if isinstance(one, Host) else one for one in arguments)
        signature = tuple(typeof(one) for one in plain)
        scope = function.__globals__
        names = ("VECTORS", "HAAR", "PAIRED", "LARGEST", "PARAMETERS")
        constants = {name: scope[name] for name in names if name in function.__code__.co_names}
        given = [name for name in ("phi", "dphi", "value", "slope") if name in function.__code__.co_names]
        constants |= {name: scope[name].py_func.__name__ for name in given}
        key = (function.__name__, str(constants), signature)
        if key in self.done:
            return
        label = f"{function.__name__} {' '.join(f'{k}={v}' for k, v in constants.items())}"
        try:
            ptx, _ = driver.compile_ptx(function, signature, cc=self.cc)
        except Exception as error:
            self.failed += 1
            self.done[key] = None
            print(f"{label}: FAILED\n{error}")
            return
        self.done[key] = ptx
        print(f"{label}: PTX {len(ptx)} bytes{self.resources(ptx, kernel.targetoptions.get('max_registers'))}")

    def resources(self, ptx: str, limit: int | None) -> str:
        if self.ptxas is None:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "kernel.ptx"
            file.write_text(ptx)
            command = [self.ptxas, f"-arch=sm_{self.cc[0]}{self.cc[1]}", "-v", str(file), "-o", os.devnull]
            command += [f"-maxrregcount={limit}"] if limit else []
            told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode:
            self.failed += 1
            return f", ptxas FAILED: {told.stderr}"
        found = re.search(r"Used (\d+) registers", told.stderr)
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores", told.stderr)
        shared = re.search(r"(\d+) bytes smem", told.stderr)
        parts = [
            f"{found[1]} registers" if found else "",
            f"stack {stack[1]}, spilled {stack[2]}" if stack else "",
            f"shared {shared[1]}" if shared else "",
        ]
        return "".join(f", {part}" for part in parts if part)


def plans():
    """Networks that launch every kernel, every activation with a twin, and one given as text."""
    wide = Sequential((Nonlinearity("tanh"), Dense(expand=2), Pool(2, "max")))
    rich = Sequential((LayerNorm(), Nonlinearity("gelu"), Dense(), Scale(2)))
    for sampler in ("explicit", "lazy"):
        for probes in (1, 3, 7, 15):
            yield mlp("tanh", mu=1), sampler, {"probes": probes}
        yield mlp("tanh"), sampler, {"correlation": 0.5, "probes": 2}
        yield wide, sampler, {"probes": 2}
        yield Residual(rich, 1, Sequential((Pool(2, "average"), Dense(expand=1)))), sampler, {"probes": 2}
    yield Sequential((Nonlinearity("tanh"), Dense("orthogonal"))), "lazy", {"probes": 2}
    for name in REFERENCES:
        if REFERENCES[name].continuous:
            yield mlp(name), "lazy", {"probes": 1}
    yield mlp(ScalarPair.from_sources(*SOURCES)), "lazy", {"probes": 1}
    yield Sequential((Pool(2, POOL), Dense())), "lazy", {"probes": 1}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cc", default="9.0", help="compute capability")
    major, minor = parser.parse_args().cc.split(".")
    compiler = Compiler((int(major), int(minor)))
    compiler.install()
    for block, sampler, options in plans():
        ensemble = Ensemble(block, 1.0, 0.5, 8, 3, sampler=sampler)
        inputs = Inputs(correlation=options.pop("correlation", None))
        cuda.measure_block_cuda(MeasurementPlan(ensemble, inputs, Measurement(("K", "J"), **options)), 0, 2)
    print(f"{len(compiler.done)} kernels for compute capability {major}.{minor}, {compiler.failed} failed")
    sys.exit(bool(compiler.failed))


if __name__ == "__main__":
    main()
