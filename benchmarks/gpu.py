"""Both samplers on the GPU of this machine: how fast they are, where the time goes, and that they agree with the CPU.

`python benchmarks/gpu.py` writes results/<device>.json. Every case is run once to compile, then timed: networks ×
layers per second over all (host included), and the share of every kernel, by the device's own events. For "explicit"
the normals drawn per second of its kernel; for "lazy" the bytes that its kernel reads and writes per second, as a
fraction of what a copy on the device moves. Without a GPU it says what is missing and exits 2.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import sys
import tempfile
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from meanfield.base.answers.results import MeanFieldError  # noqa: E402
from meanfield.empirical import Ensemble  # noqa: E402
from meanfield.empirical.cuda import compilation, cuda_kernels, launches  # noqa: E402
from meanfield.empirical.cuda import device as cuda  # noqa: E402
from meanfield.empirical.observables.inputs import Inputs  # noqa: E402
from meanfield.empirical.observables.measurement import MeasurementPlan  # noqa: E402
from meanfield.empirical.observables.wanted import Measurement  # noqa: E402
from meanfield.empirical.random.buffers import Buffers  # noqa: E402
from meanfield.networks.records import Block, Dense, Nonlinearity, Sequential, mlp  # noqa: E402

RESULTS = Path(__file__).parent / "results"
ALLOWED = 1e-12  # between GPU and CPU


@dataclass(frozen=True)
class Case:
    label: str
    block: Block
    sampler: str
    probes: int

    def plan(self, width: int, depth: int) -> MeasurementPlan:
        ensemble = Ensemble(self.block, 1.0, 0.1, width, depth, sampler=self.sampler)
        return MeasurementPlan(ensemble, Inputs(), Measurement(("K", "J"), self.probes))


CASES = [
    Case("explicit: tanh, mu = 1, 8 probes", mlp("tanh", mu=1), "explicit", 8),
    Case("explicit: LN-GELU, 32 probes", mlp("gelu", norm="pre"), "explicit", 32),
    Case("lazy: tanh, mu = 1, 4 probes", mlp("tanh", mu=1), "lazy", 4),
    Case("lazy: tanh, orthogonal, 4 probes", Sequential((Nonlinearity("tanh"), Dense("orthogonal"))), "lazy", 4),
]


class Clock:
    """Seconds on the device by kernel, while it stands in the place of `compilation.launch`."""

    def __init__(self, driver: Any) -> None:
        self._driver, self._plain, self._events = driver, compilation.launch, []

    def __enter__(self) -> Clock:
        compilation.launch = self._launch
        return self

    def __exit__(self, *_: object) -> None:
        compilation.launch = self._plain

    def _launch(self, kernel: Any, *arguments: Any) -> None:
        before, after = self._driver.event(), self._driver.event()
        before.record()
        self._plain(kernel, *arguments)
        after.record()
        self._events.append((kernel.py_func.__name__.strip("_"), before, after))

    def seconds(self) -> dict[str, float]:
        self._driver.synchronize()
        spent: dict[str, float] = defaultdict(float)
        for name, before, after in self._events:
            spent[name] += self._driver.event_elapsed_time(before, after) / 1e3
        return dict(sorted(spent.items(), key=lambda item: -item[1]))


def copy_bandwidth(driver: Any, numbers: int = 1 << 27) -> float:
    """Bytes read and written per second by a copy on the device."""
    source, target = driver.device_array(numbers), driver.device_array(numbers)
    best = math.inf
    for _ in range(5):
        driver.synchronize()
        start = perf_counter()
        target.copy_to_device(source)
        driver.synchronize()
        best = min(best, perf_counter() - start)
    return 16 * numbers / best


def vectors_at(plan: MeasurementPlan, layer: int) -> int:
    """How many vectors the Dense of a layer multiplies; tangents come in after layer l0."""
    return plan.positions + (plan.measured.probes or 0 if layer > plan.measured.l0 else 0)


def normals(plan: MeasurementPlan) -> int:
    """Weights drawn per network, once for every MOST_VECTORS vectors."""
    shapes = zip(plan.ensemble.widths, (plan.ensemble.fan_in, *plan.ensemble.widths))
    parts = (-(-vectors_at(plan, layer) // launches.MOST_VECTORS) for layer in range(1, plan.ensemble.depth + 1))
    return sum(part * outputs * inputs for part, (outputs, inputs) in zip(parts, shapes))


def lazy_bytes(plan: MeasurementPlan, haar: bool) -> int:
    """What the lazy kernel reads and writes per network, cached or not, in a square network.

    A vector with `known` ones before it: x is read twice and becomes e, whose norm is taken twice and which is divided
    (7); in each of two passes Q is read twice and e read twice and written (by chunks of 8); for Haar the image goes
    through the same (without x and its copy, 4 to begin with); it is written, and Y read for the result.
    """

    def projected(known: int) -> int:
        return 2 * (2 * known + 3 * -(-known // cuda_kernels.CHUNK))

    total = 0
    for layer, width in enumerate(plan.ensemble.widths, 1):
        for known in range(vectors_at(plan, layer)):
            vectors = 7 + projected(known) + (4 + projected(known) if haar else 0) + 1 + known + 1 + 1
            total += 8 * width * vectors
    return total


def gap(plan: MeasurementPlan, found: tuple[np.ndarray, dict[str, np.ndarray]], networks: int) -> float:
    """The largest gap to the CPU: of K relative, of log J absolute."""
    worst = []
    for i in range(networks):
        layer, rows = plan.measure(i, Buffers())
        worst.append(0.0 if layer == found[0][i] else math.inf)
        worst.append(np.abs(found[1]["K"][i] / rows["K"] - 1).max())
        worst.append(np.abs(found[1]["log_J"][i] - rows["log_J"]).max())
    return float(np.max(worst))


def measured(case: Case, driver: Any, width: int, depth: int, networks: int, bandwidth: float) -> dict[str, Any]:
    plan = case.plan(width, depth)
    few = min(networks, 4)
    checked = gap(plan, cuda.measure_block_cuda(plan, 0, few), min(few, 2))  # compiles, too
    start = perf_counter()
    cuda.measure_block_cuda(plan, 0, networks)
    seconds = perf_counter() - start
    with Clock(driver) as clock:
        cuda.measure_block_cuda(plan, 0, networks)
    spent = clock.seconds()
    row: dict[str, Any] = {"case": case.label, "width": width, "depth": depth, "networks": networks}
    row |= {"seconds": round(seconds, 4), "networks x layers per second": round(networks * depth / seconds, 1)}
    row["device seconds by kernel"] = {name: round(value, 5) for name, value in spent.items()}
    own = max(spent[case.sampler], 1e-9)
    if case.sampler == "explicit":
        row["normals per second"] = float(f"{networks * normals(plan) / own:.4g}")
    else:
        haar = plan.ensemble.input_law == "orthogonal"
        rate = networks * lazy_bytes(plan, haar) / own
        row |= {"bytes per second": float(f"{rate:.4g}"), "fraction of a copy": round(rate / bandwidth, 3)}
    return row | {"largest gap to the CPU": checked, "agrees": checked < ALLOWED}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--explicit-width", type=int, default=1000)
    parser.add_argument("--lazy-width", type=int, default=10_000)
    parser.add_argument("--depth", type=int, default=20)
    parser.add_argument("--networks", type=int, default=1024)
    parser.add_argument("--copied", type=int, default=1 << 27, help="numbers of the copy that bandwidth is taken from")
    parser.add_argument("--output", type=Path, help="results/<device>.json unless given")
    options = parser.parse_args()
    try:
        driver = cuda.require_cuda()
    except MeanFieldError as error:
        print(error)
        sys.exit(2)
    name = driver.get_current_device().name
    name = name.decode() if isinstance(name, bytes) else str(name)
    bandwidth = copy_bandwidth(driver, options.copied)
    rows = []
    for case in CASES:
        width = options.explicit_width if case.sampler == "explicit" else options.lazy_width
        rows.append(measured(case, driver, width, options.depth, options.networks, bandwidth))
        print(json.dumps(rows[-1], indent=1), flush=True)
    summary = {"device": name, "copy, bytes per second": float(f"{bandwidth:.4g}"), "cases": rows}
    output = options.output or RESULTS / f"{re.sub('[^a-z0-9]+', '-', name.lower()).strip('-')}.json"
    with tempfile.NamedTemporaryFile("w", dir=output.parent, delete=False, suffix=".part") as file:
        json.dump(summary, file, indent=1)
        file.write("\n")
    os.replace(file.name, output)  # whole or not at all
    print(f"{output}: {sum(row['agrees'] for row in rows)} of {len(rows)} cases agree with the CPU")
    sys.exit(not all(row["agrees"] for row in rows))


if __name__ == "__main__":
    main()
