"""Figures 1, 5 and 7 of the partial-Jacobian paper at finite width: how J grows or decays over 250 layers of explicit
networks, against the recursion.

`python benchmarks/figure1.py` runs N = 1000, N_0 = 784, |x|²/N_0 = 1, 100 networks and 32 probes, all curves from the
same weights, and writes results/figure1.json: time, the slopes of log mean J ± standard error (jackknife over the
networks), those of the recursion for J^{1,l} on the same layers, and the curves. Figures 1 and 7 are J^{0,l} against
log l, figure 5 is J^{1,l} against √l.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import meanfield as mf
from meanfield.empirical import jacobian_curves

RESULTS = Path(__file__).parent / "results"
SCALES: dict[str, Any] = {"log(l)": np.log, "sqrt(l)": np.sqrt}


@dataclass(frozen=True)
class Case:
    """A network of the paper, the layers of its fit, and the distance from the recursion's slope that is allowed.

    allowed = 0: two standard errors.
    """

    label: str
    activation: str
    sigma_w: float
    sigma_b: float
    first: int
    last: int
    allowed: float = 0.0
    norm: str | None = None
    mu: int = 0
    l0: int = 0
    against: str = "log(l)"

    def theory(self) -> mf.Theory:
        return mf.derive(self.activation, norm=self.norm, mu=self.mu)

    def recursion(self) -> float:
        """The slope of log J^{1,l} at infinite width."""
        run = self.theory().propagate(sigma_w=self.sigma_w, sigma_b=self.sigma_b, depth=self.last, quantities=("J",))
        log_J = run.values["log_J"].reshape(-1)[self.first - 1 :]
        return float(np.polyfit(SCALES[self.against](np.arange(self.first, self.last + 1)), log_J, 1)[0])


ROOT = math.sqrt(2)
CASES = [
    Case("figure 1: erf", "erf", math.sqrt(math.pi / 4), 0.0, 101, 250, 0.1),
    Case("figure 1: ReLU", "relu", ROOT, 0.0, 1, 100, 0.05),
    Case("figure 1: LN-erf, mu = 1", "erf", ROOT, 0.0, 101, 250, 0.03, "pre", 1),
    Case("figure 1: LN-GELU, mu = 1", "gelu", ROOT, 0.0, 101, 250, 0.03, "pre", 1),
    Case("figure 5: erf, mu = 1", "erf", 1.0, 0.0, 101, 250, 0.0, None, 1, 1, "sqrt(l)"),
    Case("figure 7: LN-erf", "erf", 1.0, 0.32381, 101, 250, 0.0, "pre"),
    Case("figure 7: erf-LN", "erf", 1.0, 0.54053, 101, 250, 0.0, "act"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=1000)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--probes", type=int, default=32)
    parser.add_argument("--output", type=Path, default=RESULTS / "figure1.json")
    options = parser.parse_args()
    sizes = {"width": options.width, "depth": 250, "networks": options.networks, "probes": options.probes, "seed": 0}
    sizes["input_dimension"] = 784
    start, cpu = time.perf_counter(), time.process_time()
    curves = jacobian_curves(
        [case.theory().block for case in CASES],
        sigma_w=[case.sigma_w for case in CASES],
        sigma_b=[case.sigma_b for case in CASES],
        l0=[case.l0 for case in CASES],
        progress=lambda done, total: print(f"{done}/{total} {time.perf_counter() - start:.0f} s", flush=True),
        **sizes,
    )
    summary = sizes | {"input_norm": 1.0, "cores": os.cpu_count(), "seconds": round(time.perf_counter() - start, 1)}
    summary["cpu_seconds"] = round(time.process_time() - cpu, 1)
    shown = np.unique(np.geomspace(1, 250, 40).astype(int))
    summary["layers"] = " ".join(map(str, shown))
    rows = []
    for p, case in enumerate(CASES):
        slope, recursion = curves.slope(p, case.first, case.last, SCALES[case.against]), case.recursion()
        allowed = case.allowed or 2 * slope.standard_error
        network = {"activation": case.activation, "norm": case.norm or "none", "mu": case.mu}
        point = {"sigma_w": case.sigma_w, "sigma_b": case.sigma_b, "l0": case.l0}
        fit = {"against": case.against, "first": case.first, "last": case.last}
        found = {"slope": slope.mean, "standard_error": slope.standard_error, "recursion": recursion}
        verdict = {"allowed": round(allowed, 4), "agrees": bool(abs(slope.mean - recursion) <= allowed)}
        rows.append({"case": case.label} | network | point | fit | {k: round(v, 5) for k, v in found.items()} | verdict)
        print(rows[-1])
        mean = curves.mean_log(p)
        for name, values in (("log_J", mean.mean), ("log_J_error", mean.standard_error)):
            rows[-1][name] = " ".join(f"{v:.4f}" for v in values[shown - 1])
    summary["curves"] = rows
    options.output.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"{curves}: {summary['seconds']} s, {sum(row['agrees'] for row in rows)} of {len(rows)} slopes agree")


if __name__ == "__main__":
    main()
