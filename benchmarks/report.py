"""Run every benchmark and write benchmarks/results/cpu.md and cpu.json: medians, ratios to the peers, bars.

python benchmarks/report.py [--slow]   (--slow: the 200-network ensemble too, some minutes)
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
PACKAGES = ("numpy", "numba", "scipy", "sympy", "python-flint")


def measure(slow: bool) -> list[dict]:
    """One row for each benchmark, from a pytest-benchmark run."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "raw.json"
        command = [sys.executable, "-m", "pytest", str(HERE), f"--benchmark-json={target}"]
        subprocess.run([*command, *([] if slow else ["-m", "not slow"])], cwd=HERE.parent, check=True)
        found = [b["extra_info"] for b in json.loads(target.read_text())["benchmarks"]]
    return [row(info) for info in found]


def row(info: dict) -> dict:
    """Median, fastest round, peer's median, median ratio of the pairs, and the verdict on the bars."""
    ours, peers = info["seconds"], info["peer_seconds"]
    out = {k: info[k] for k in ("title", "peer", "bar", "ratio_bar")}
    out |= {"median": median(ours), "fastest": min(ours), "peer_median": median(peers), "rounds": len(ours)}
    out["ratio"] = median(a / b for a, b in zip(ours, peers))
    tests = [out["median"] <= info["bar"]] if info["bar"] else []
    tests += [out["ratio"] <= info["ratio_bar"]] if info["ratio_bar"] else []
    if "misses" in info:
        out["cache_misses"], out["cache_hits"] = (max(c) for c in zip(*info["misses"]))
        tests.append(out["cache_misses"] == 0)
    return out | {"passes": all(tests) if tests else None}


def seconds(t: float) -> str:
    """A duration in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)):
        if t >= 0.5 * size or unit == "ns":
            return f"{t / size:.3g} {unit}"
    raise AssertionError


def markdown(machine: dict, rows: list[dict]) -> str:
    """The report for readers."""
    lines = ["# CPU benchmarks", "", "; ".join(f"{k} {v}" for k, v in machine.items()) + ".", ""]
    lines += ["Rounds alternate with the peer's; ratio = median over the pairs of ours / peer. The machine is shared:"]
    lines += ["read ratios before times.", "", "| what | median | fastest | peer | peer median | ratio | bar | |"]
    lines += ["|---|---|---|---|---|---|---|---|"]
    for r in rows:
        bars = [f"≤ {seconds(r['bar'])}"] if r["bar"] else []
        bars += [f"≤ {r['ratio_bar']} x peer"] if r["ratio_bar"] else []
        bars += [f"0 cache misses ({r['cache_misses']}, {r['cache_hits']} hits)"] if "cache_misses" in r else []
        verdict = {None: "", True: "pass", False: "**missed**"}[r["passes"]]
        cells = [r["title"].rstrip("."), seconds(r["median"]), seconds(r["fastest"]), r["peer"]]
        cells += [seconds(r["peer_median"]), f"{r['ratio']:.3g}", ", ".join(bars), verdict]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def main() -> None:
    """Measure and write."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    machine = {"cores": os.cpu_count(), "architecture": platform.machine(), "Python": platform.python_version()}
    machine |= {name: version(name) for name in PACKAGES} | {"load average before": round(load, 1)}
    rows = measure("--slow" in sys.argv[1:])
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    write(results / "cpu.json", json.dumps({"machine": machine, "rows": rows}, indent=1, ensure_ascii=False) + "\n")
    write(results / "cpu.md", markdown(machine, rows))
    print(markdown(machine, rows))


if __name__ == "__main__":
    main()
