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

{}. Rounds alternate with the peer's. Times are medians (CPU: all threads and child processes), ratio: ours / peer.

| what | wall | CPU | peer | peer's wall | ratio | bar | |
|---|---|---|---|---|---|---|---|
"""


def duration(t: float) -> str:
    """Seconds in the unit that suits them."""
    unit, size = next((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)) if t >= 0.5 * s)
    return f"{t / size:.3g} {unit}"


def row(info: dict) -> dict:
    """Medians, the ratio, and each bar as [its text, whether it is met]."""
    (wall, cpu), (peer, _) = (map(median, zip(*info[k])) for k in ("ours", "theirs"))
    ratio, bars = median(a / b for (a, _), (b, _) in zip(info["ours"], info["theirs"])), []
    bars += [[f"≤ {duration(info['bar'])}", wall <= info["bar"]]] if "bar" in info else []
    bars += [[f"≤ {info['ratio_bar']} x peer", ratio <= info["ratio_bar"]]] if "ratio_bar" in info else []
    bars += [[f"Numba not imported (found {info['imports']})", info["imports"] == 0]] if "imports" in info else []
    out = {"title": info["title"], "wall": wall, "cpu": cpu, "peer": info["peer"], "peer_wall": peer, "ratio": ratio}
    return out | {"rounds": len(info["ours"]), "bars": bars}


if __name__ == "__main__":
    machine = {"cores": os.cpu_count(), "Python": sys.version.split()[0]}
    machine |= {name: version(name) for name in ("numpy", "numba", "sympy", "python-flint")}
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        raw = Path(folder) / "raw.json"
        command = [sys.executable, "-m", "pytest", "-n0", str(HERE), f"--benchmark-json={raw}"]
        subprocess.run([*command, *([] if "--slow" in sys.argv else ["-m", "not slow"])], cwd=HERE.parent, check=True)
        rows = [row(b["extra_info"]) for b in json.loads(raw.read_text())["benchmarks"]]
        machine["load average of the last 5 minutes"] = round(os.getloadavg()[1], 1)
        text = HEAD.format(", ".join(f"{k} {v}" for k, v in machine.items()))
        for r in rows:
            cells = [r["title"], duration(r["wall"]), duration(r["cpu"]), r["peer"], duration(r["peer_wall"])]
            cells += [f"{r['ratio']:.3g}", ", ".join(bar for bar, _ in r["bars"])]
            text += f"| {' | '.join([*cells, ', '.join('pass' if met else '**missed**' for _, met in r['bars'])])} |\n"
        data = json.dumps({"machine": machine, "rows": rows}, indent=1, ensure_ascii=False) + "\n"
        (HERE / "results").mkdir(exist_ok=True)
        for name, content in (("cpu.json", data), ("cpu.md", text)):  # each file appears whole or not at all
            (Path(folder) / name).write_text(content, encoding="utf-8")
            os.replace(Path(folder) / name, HERE / "results" / name)
    print(text)
