"""Figure 2 of the partial-Jacobian paper at finite width: 18 phase diagrams from explicit networks, against the theory.

`python benchmarks/figure2.py` runs N = 500, L = 50, 100 networks on a 20 × 20 grid of (σ_w, σ_b) for erf, ReLU and
GELU, μ = 0, ½, 1, without LayerNorm and with LayerNorm on preactivations; it writes results/figure2.json (time,
agreement per panel) and results/figure2.npz (all χ ± standard error). The theory is iterated to the same finite depth.
Points within 2 % of a separatrix are left out: there a change of σ_w by 2 % changes the sign that the theory predicts.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import meanfield as mf
from meanfield.empirical import criticality_grid

RESULTS = Path(__file__).parent / "results"
PANELS = [(name, norm, mu) for name in ("relu", "erf", "gelu") for norm in (None, "pre") for mu in (0, "1/2", 1)]


def predicted(theory: mf.Theory, w: np.ndarray, b: np.ndarray, depth: int) -> np.ndarray:
    """χ = J^{1,L-1}/J^{1,L-2} of the theory at finite depth; inf where K overflows."""
    logs = [
        theory.propagate(sigma_w=w, sigma_b=b, depth=d, every_layer=False).log_J[..., -1]
        for d in (depth - 2, depth - 1)
    ]
    return np.exp(logs[1] - logs[0])


def compare(theory: mf.Theory, w, b, depth: int, chi, error) -> dict[str, float]:
    """How the measured χ agrees with the theory: signs of χ - 1 where |χ - 1| > .02, largest relative deviation."""
    ours = predicted(theory, w, b, depth)
    near = [predicted(theory, w * f, b * g, depth) for f in (0.98, 1.02) for g in (0.98, 1.02)]
    same = np.all([np.sign(n - 1) == np.sign(ours - 1) for n in near], axis=0)
    decided = (np.abs(ours - 1) > 0.02) & same & np.isfinite(chi) & np.isfinite(ours)
    wrong = decided & (np.sign(chi - 1) != np.sign(ours - 1))
    return {
        "points": int(chi.size),
        "decided": int(decided.sum()),
        "wrong_signs": int(wrong.sum()),
        "near_a_separatrix": int((~same).sum()),
        "overflowed": int((~np.isfinite(chi)).sum()),
        "largest_deviation": float(np.max(np.abs(chi / ours - 1)[decided], initial=0.0)),
        "median_standard_error": float(np.nanmedian(error / chi)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--depth", type=int, default=50)
    parser.add_argument("--networks", type=int, default=100)
    parser.add_argument("--grid", type=int, default=20)
    parser.add_argument("--output", type=Path, default=RESULTS / "figure2")
    options = parser.parse_args()
    axis_w, axis_b = np.linspace(0.15, 3, options.grid), np.linspace(0, 2.85, options.grid)
    w, b = (a.ravel() for a in np.meshgrid(axis_w, axis_b))
    theories = [mf.derive(name, norm=norm, mu=mu) for name, norm, mu in PANELS]
    sizes = {"width": options.width, "depth": options.depth, "networks": options.networks}
    start = time.perf_counter()
    grid = criticality_grid([t.block for t in theories], sigma_w=w, sigma_b=b, seed=0, **sizes)
    seconds = time.perf_counter() - start
    rows = []
    for (name, norm, mu), theory, chi, error in zip(PANELS, theories, grid.chi, grid.standard_error):
        row = {"activation": name, "norm": norm or "none", "mu": str(mu)}
        rows.append(row | compare(theory, w, b, options.depth, chi, error))
        print(rows[-1])
    summary = sizes | {"grid": options.grid, "seconds": round(seconds, 1), "panels": rows}
    summary["wrong_signs"] = sum(r["wrong_signs"] for r in rows)
    options.output.with_suffix(".json").write_text(json.dumps(summary, indent=1) + "\n")
    np.savez_compressed(
        options.output.with_suffix(".npz"), sigma_w=axis_w, sigma_b=axis_b, chi=grid.chi, error=grid.standard_error
    )
    print(f"{seconds:.0f} s, {summary['wrong_signs']} wrong signs of {sum(r['decided'] for r in rows)} decided points")


if __name__ == "__main__":
    main()
