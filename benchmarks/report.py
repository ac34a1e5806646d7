"""Run every benchmark and write results/cpu.md and cpu.json. `--slow` adds the 200-network ensemble (minutes)."""

import json
import os
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve().parent
HEAD = """# CPU benchmarks

{}. Rounds alternate with the peer's; ratio = median over the pairs of ours / peer. The machine is shared: ratios say
more than times.

| what | median | fastest | peer | peer median | ratio | bar | |
|---|---|---|---|---|---|---|---|
"""


def row(info: dict) -> dict:
    """Medians, the ratio, and the verdict on the bars."""
    ours, peers = info.pop("seconds"), info.pop("peer_seconds")
    info |= {"median": median(ours), "fastest": min(ours), "peer_median": median(peers), "rounds": len(ours)}
    info["ratio"] = median(a / b for a, b in zip(ours, peers))
    tests = [info["median"] <= info["bar"]] if "bar" in info else []
    tests += [info["ratio"] <= info["ratio_bar"]] if "ratio_bar" in info else []
    tests += [info["misses"] == 0] if "misses" in info else []
    return info | {"passes": all(tests) if tests else None}


def duration(t: float) -> str:
    """Seconds in the unit that suits them."""
    unit, size = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)) if t >= 0.5 * s)
    return f"{t / size:.3g} {unit}"


def line(r: dict) -> str:
    """One row of the table."""
    bars = [f"≤ {duration(r['bar'])}"] if "bar" in r else []
    bars += [f"≤ {r['ratio_bar']} x peer"] if "ratio_bar" in r else []
    bars += [f"0 cache misses (found {r['misses']})"] if "misses" in r else []
    cells = [r["title"], duration(r["median"]), duration(r["fastest"]), r["peer"], duration(r["peer_median"])]
    cells += [format(r["ratio"], ".3g"), ", ".join(bars), {None: "", True: "pass", False: "**missed**"}[r["passes"]]]
    return f"| {' | '.join(cells)} |\n"


if __name__ == "__main__":
    machine = {"cores": os.cpu_count(), "Python": sys.version.split()[0]}
    machine |= {name: version(name) for name in ("numpy", "numba", "sympy", "python-flint")}
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        raw = Path(folder) / "raw.json"
        command = [sys.executable, "-m", "pytest", str(HERE), f"--benchmark-json={raw}"]
        subprocess.run([*command, *([] if "--slow" in sys.argv else ["-m", "not slow"])], cwd=HERE.parent, check=True)
        rows = [row(b["extra_info"]) for b in json.loads(raw.read_text())["benchmarks"]]
        machine["load average of the last 5 minutes"] = round(os.getloadavg()[1], 1)
        text = HEAD.format(", ".join(f"{k} {v}" for k, v in machine.items())) + "".join(map(line, rows))
        data = json.dumps({"machine": machine, "rows": rows}, indent=1, ensure_ascii=False) + "\n"
        (HERE / "results").mkdir(exist_ok=True)
        for name, content in (("cpu.json", data), ("cpu.md", text)):  # each file appears whole or not at all
            (Path(folder) / name).write_text(content, encoding="utf-8")
            os.replace(Path(folder) / name, HERE / "results" / name)
    print(text)
