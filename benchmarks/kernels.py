"""Kernels of data sets beside neural-tangents 0.6.5: writes results/kernels.md.

    python benchmarks/kernels.py --python ENV/bin/python   # ENV: as neural_tangents.py makes it

Ratios are of CPU time, both programs on one core in alternating rounds, so that what else runs matters less. The peer
runs in float64; its kernel is one function that XLA compiles, anew for another number of inputs or another depth. A
fresh process is timed from its start to its answer; ours finds compiled loops in its cache, the peer
compiles (by default it stores nothing) or finds what jax's persistent cache holds.
"""

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from statistics import median
from time import perf_counter, process_time, sleep

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
ROUNDS, SIGMA_W, SIGMA_B, N, DEPTH, MANY = 7, 1.5, 0.1, 512, 11, 20_000
HEAD = """# Kernels beside neural-tangents 0.6.5

{}. K and Theta of normal inputs of dimension 8, σ_w = 1.5, σ_b = 0.1, 10 nonlinearities and a readout unless a row says
otherwise; float64, one core. Medians of CPU time of {} alternating rounds; ratio: peer / ours.

| what | ours | peer | ratio | bar |
|---|---|---|---|---|
"""


def inputs(n: int) -> np.ndarray:
    return np.random.default_rng(17).standard_normal((n, 8))


def spent() -> float:
    """CPU seconds of this process since its start."""
    return sum(resource.getrusage(resource.RUSAGE_SELF)[:2])


def peer(phi: str, depth: int, degree: int):
    """The peer's kernel of a network: X → (K, Theta)."""
    import jax
    import jax.numpy as jnp
    from neural_tangents import stax

    acts = {"erf": stax.Erf, "relu": stax.Relu}
    layers = []
    for _ in range(depth - 1):
        f = acts[phi]() if phi in acts else stax.ElementwiseNumerical(jnp.tanh, degree, lambda z: 1 - jnp.tanh(z) ** 2)
        layers += [stax.Dense(1, W_std=SIGMA_W, b_std=SIGMA_B), f]
    kernel = stax.serial(*layers, stax.Dense(1, W_std=SIGMA_W, b_std=SIGMA_B))[2]
    run = jax.jit(lambda x: kernel(x, None, ("nngp", "ntk")))

    def both(X):
        found = run(X)
        return np.asarray(found.nngp), np.asarray(found.ntk)

    return both


def ours(phi: str, depth: int, degree: int = 0):
    """The same of meanfield."""
    from meanfield import derive

    theory = derive(phi)
    given = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "depth": depth, "quantities": ("K", "Theta"), "threads": 1}

    def both(X):
        found = theory.kernel(X, **given)
        return found.K, found.Theta

    return both


def serve(make) -> None:
    """Answer lines [φ, n, depth, degree, file] with [CPU, wall] of a call; a depth not met before is made anew."""
    runs: dict = {}
    print(json.dumps(0), flush=True)
    for line in sys.stdin:
        phi, n, depth, degree, file = json.loads(line)
        X = inputs(n)
        cpu, wall = process_time(), perf_counter()
        run = runs.setdefault((phi, depth, degree), None) or make(phi, depth, degree)
        runs[phi, depth, degree] = run
        found = run(X)
        times = process_time() - cpu, perf_counter() - wall
        if file:
            np.savez(file, K=found[0], Theta=found[1])
        print(json.dumps(times), flush=True)


def start_peer(cache: str) -> None:
    import types
    import warnings

    sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")
    warnings.simplefilter("ignore")
    import jax

    jax.config.update("jax_enable_x64", True)
    if cache:
        jax.config.update("jax_compilation_cache_dir", cache)
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def many(folder: str) -> None:
    """K of many inputs into a memory map, on two cores: [wall, CPU, peak of what is no file, bytes of the map]."""
    from meanfield import derive

    theory, X = derive("erf"), inputs(MANY)
    given = {"sigma_w": SIGMA_W, "sigma_b": SIGMA_B, "depth": DEPTH, "quantities": "K"}
    theory.kernel(X[:8], **given)
    peak, over = 0.0, False

    def look():
        nonlocal peak
        while not over:
            for line in Path("/proc/self/status").read_text().splitlines():
                if line.startswith("RssAnon"):
                    peak = max(peak, 1024.0 * int(line.split()[1]))
            sleep(0.02)

    watcher = threading.Thread(target=look)
    watcher.start()
    wall, cpu = perf_counter(), process_time()
    theory.kernel(X, **given, out=f"{folder}/K.npy", threads=2)
    took = perf_counter() - wall, process_time() - cpu
    over = True
    watcher.join()
    print(json.dumps([*took, peak, os.path.getsize(f"{folder}/K.npy")]))


class Other:
    """A process that answers lines (-P: a file beside this one has the name of the peer's package)."""

    def __init__(self, python: str, *words: str) -> None:
        self.process = subprocess.Popen(
            [python, "-P", __file__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(),
        )
        assert self.process.stdin and self.process.stdout
        self.process.stdout.readline()

    def __call__(self, phi: str, n: int = N, depth: int = DEPTH, degree: int = 0, file: str = "") -> float:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([phi, n, depth, degree, file]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())[0]

    def close(self) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()


def environment() -> dict[str, str]:
    flags = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    kept = {"PYTHONDONTWRITEBYTECODE": ""}  # a fresh process finds its bytecode, as the peer's installed package does
    return os.environ | {"XLA_FLAGS": flags, "PYTHONPATH": str(HERE.parent)} | kept


def fresh(python: str, *words: str) -> float:
    """CPU seconds of a process from its start to its answer."""
    done = subprocess.run(
        [python, "-P", __file__, "--once", *words], capture_output=True, text=True, check=True, env=environment()
    )
    return float(done.stdout)


def errors(file: str) -> tuple[float, float]:
    """The largest errors of K and Theta over the committed references of tanh, of the roots of the diagonals."""
    from tests.references.make_kernel_references import FILE, PAIRS

    found, worst = np.load(file), [0.0, 0.0]
    for (a, b), row in zip(PAIRS, json.loads(FILE.read_text())["tanh"]):
        exact = [float(v) for v in row[2:]]
        for i, name in enumerate(("K", "Theta")):
            values = found[name]
            worst[i] = max(worst[i], abs(values[a, b] - exact[i]) / math.sqrt(values[a, a] * values[b, b]))
    return worst[0], worst[1]


def rows(python: str, folder: str):
    """(what, ours, peer, bar) of every row, in seconds."""
    from benchmarks.report import duration

    mine, other = Other(sys.executable, "--serve", "ours"), Other(python, "--serve", "peer")
    for phi in ("erf", "relu"):
        first = [one(phi) for one in (mine, other)]
        times = [(mine(phi), other(phi)) for _ in range(ROUNDS)]
        yield f"{phi}, {N} inputs (first calls {duration(first[0])}, {duration(first[1])})", *zip(*times), 3
        times = [(mine(phi, N - 1 - i), other(phi, N - 1 - i)) for i in range(3)]
        yield f"{phi}, another number of inputs", *zip(*times), 50
        times = [(mine(phi, N, DEPTH + 1 + i), other(phi, N, DEPTH + 1 + i)) for i in range(3)]
        yield f"{phi}, another depth", *zip(*times), 50
    for words, what in (((), "it compiles"), ((f"{folder}/jax",), "jax's cache")):
        for phi in ("erf", "relu"):
            times = [(fresh(sys.executable, "ours", phi), fresh(python, "peer", phi, *words)) for _ in range(4)][1:]
            yield f"{phi}, {N} inputs in a fresh process (peer: {what})", *zip(*times), "" if words else 4
    times = [(fresh(sys.executable, "libraries", ""), fresh(python, "peer", "erf")) for _ in range(4)][1:]
    yield "the same of erf; ours: Python and NumPy, nothing else", *zip(*times), ""
    mine("tanh"), mine("tanh", 64)  # compiled, tables made
    times = [(mine("tanh", 64, file=f"{folder}/ours.npz"), 0.0) for _ in range(ROUNDS)]
    compiled = other("tanh", 64, DEPTH, 100)
    slow = other("tanh", 64, DEPTH, 100, f"{folder}/peer.npz")
    parts = [errors(f"{folder}/{name}.npz") for name in ("ours", "peer")]
    off = "; ".join(f"{name} {a:.0e}, {b:.0e}" for name, (a, b) in zip(("ours", "peer"), parts))
    what = f"tanh, 64 inputs, order 100 (first call {duration(compiled)}; errors of K, Theta: {off})"
    yield what, [t[0] for t in times], [slow], 1000
    mine.close()
    other.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="the Python of neural-tangents")
    parser.add_argument("--serve", choices=("ours", "peer"), help=argparse.SUPPRESS)
    parser.add_argument("--once", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--many", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.many:
        many(args.many)
    elif args.once:
        who, phi, *cache = args.once
        if who == "peer":
            start_peer(*cache or [""])
        if who != "libraries":
            (peer if who == "peer" else ours)(phi, DEPTH, 0)(inputs(N))
        print(spent())
    elif args.serve:
        if args.serve == "peer":
            start_peer("")
        serve(peer if args.serve == "peer" else ours)
    else:
        everything(args.python)


def everything(python: str) -> None:
    from benchmarks.report import duration

    cores = os.sched_getaffinity(0)
    text = ""
    with tempfile.TemporaryDirectory() as folder:
        os.sched_setaffinity(0, {min(cores)})  # inherited by the processes that are timed
        for what, mine, theirs, bar in rows(python, folder):
            a, b = median(mine), median(theirs)
            met = "" if not bar else f"≥ {bar} x {'pass' if b / a >= bar else '**missed**'}"
            text += f"| {what} | {duration(a)} | {duration(b)} | {b / a:.3g} | {met} |\n"
            print(text.splitlines()[-1], flush=True)
        os.sched_setaffinity(0, cores)
        done = subprocess.run(
            [sys.executable, "-P", __file__, "--many", folder],
            capture_output=True,
            text=True,
            check=True,
            env=environment(),
        )
        wall, cpu, peak, size = json.loads(done.stdout)
        met = "pass" if wall < 30 and peak < 5e8 else "**missed**"
        text += (
            f"\nK of {MANY:,} inputs (erf) into a memory map of {size / 1e9:.1f} GB, two threads: {wall:.1f} s, "
            f"{cpu:.1f} s of CPU, {peak / 1e6:.0f} MB beyond the map (bar: 30 s, 500 MB: {met}).\n"
        )
        print(text.splitlines()[-1], flush=True)
        load = os.getloadavg()[1]
        machine = f"{len(cores)} cores, load average {load:.1f}, Python {sys.version.split()[0]}, jax 0.5.3"
        whole = Path(folder) / "kernels.md"  # appears whole or not at all
        whole.write_text(HEAD.format(machine, ROUNDS) + text, encoding="utf-8")
        (HERE / "results").mkdir(exist_ok=True)
        (HERE / "results" / "kernels.md").write_bytes(whole.read_bytes())


if __name__ == "__main__":
    main()
