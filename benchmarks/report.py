"""Run every benchmark and write results/cpu.md and cpu.json. `--slow` adds the 200-network ensemble (minutes).

`--short` runs those of the README's table (minutes), prints it, and writes it into results/short.md and the README.
"""

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

#: what the README shows: a benchmark → what it is called there
SHORT = {
    "test_point[Theory.propagate]": "1000 layers of K and J of tanh with a skip, one point",
    "test_grid[tanh residual-5.0]": "the same over a grid of 300 × 300 points",
    "test_kernel": "K and Theta of 512 inputs, ten layers of erf, one thread",
    "test_lazy": "100 networks of width 10⁴ and depth 100, exactly in law",
    "test_first_answer[meanfield critical": "`meanfield critical gelu`, first time, imports apart",
}
TITLE = "| what | time | beside it | ratio |\n"  # where the table begins; it ends with the first empty line


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


def measured(which: list[str]) -> list[dict]:
    """What pytest measures, one record a benchmark."""
    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        raw = Path(folder) / "raw.json"
        command = [sys.executable, "-m", "pytest", "-n0", *which, f"--benchmark-json={raw}"]
        subprocess.run(command, cwd=HERE.parent, check=True)
        return json.loads(raw.read_text())["benchmarks"]


def whole(file: Path, text: str) -> None:
    """The file appears whole or not at all."""
    part = file.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    os.replace(part, file)


def processor() -> str | None:
    """What the system calls it; None where it does not say."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), None)


def machine() -> dict:
    """What the times depend on."""
    found = {"CPU": name} if (name := processor()) else {}
    found |= {"cores": os.cpu_count(), "Python": sys.version.split()[0]}
    found |= {name: version(name) for name in ("numpy", "numba", "sympy", "python-flint")}
    return found | {"load average of the last 5 minutes": round(os.getloadavg()[1], 1)}


def short() -> str:
    """The README's table."""
    file = str(HERE / "test_benchmarks.py")
    collected = subprocess.run(
        [sys.executable, "-m", "pytest", "-n0", "--collect-only", file], cwd=HERE.parent, check=True,
        capture_output=True, text=True,
    ).stdout.splitlines()  # fmt: skip
    ids = [next(line for line in collected if f"::{name}" in line) for name in SHORT]
    found = {b["fullname"].split("::")[1]: row(b["extra_info"]) for b in measured(ids)}
    lines = [TITLE.rstrip(), "|---|---|---|---|"]
    for one, text in zip(ids, SHORT.values()):
        r = found[one.split("::")[1]]
        beside = f"{duration(r['peer_wall'])}: {r['peer']}"
        lines.append(f"| {text} | {duration(r['wall'])} | {beside} | {r['ratio']:.2g} |")
    return "\n".join(lines) + "\n"


def report(slow: bool) -> str:
    """Every benchmark, into results/cpu.md and cpu.json."""
    rows = [row(b["extra_info"]) for b in measured([str(HERE), *([] if slow else ["-m", "not slow"])])]
    about = machine()
    text = HEAD.format(", ".join(f"{k} {v}" for k, v in about.items()))
    for r in rows:
        cells = [r["title"], duration(r["wall"]), duration(r["cpu"]), r["peer"], duration(r["peer_wall"])]
        cells += [f"{r['ratio']:.3g}", ", ".join(bar for bar, _ in r["bars"])]
        text += f"| {' | '.join([*cells, ', '.join('pass' if met else '**missed**' for _, met in r['bars'])])} |\n"
    (HERE / "results").mkdir(exist_ok=True)
    data = {"machine": about, "rows": rows}
    whole(HERE / "results" / "cpu.json", json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    whole(HERE / "results" / "cpu.md", text)
    return text


if __name__ == "__main__":
    if "--short" in sys.argv:
        table, readme = short(), HERE.parent / "README.md"
        said = ", ".join(f"{k} {v}" for k, v in machine().items())
        whole(HERE / "results" / "short.md", f"# How fast\n\n{said}. Medians of wall time.\n\n{table}")
        before, after = readme.read_text(encoding="utf-8").split(TITLE)
        whole(readme, before + table + "\n" + after.split("\n\n", 1)[1])
        print(f"{said}\n\n{table}")
    else:
        print(report("--slow" in sys.argv))
