"""Posteriors of many inputs by every solver: adds a row to results/solvers.md.

    python benchmarks/solvers.py cg --rows 20000 --rtol 1e-12 --folder RUNS      # minutes
    python benchmarks/solvers.py cholesky --rows 20000 --folder RUNS             # 3.2 GB
    python benchmarks/solvers.py nystrom --rows 100000 --rank 4000 --folder RUNS
    python benchmarks/solvers.py cg --rows 100000 --folder RUNS --workers 2      # hours; two dask workers

Inputs are digits with normal noise of .3 of a pixel's deviation, 64 columns; targets one-hot codes minus .1; erf NNGP
of depth 3, σ_w = 1.3, σ_b = .1, ridge 1e-3 of the mean diagonal, rank 1000, residual 1e-6 unless given. The mean at
1000 further inputs is kept in the folder, and so is the state of a run: after a kill the same command goes on. A run of
the same rows by another solver, whose mean is there, is compared. Memory: the largest resident size, of Python and of
all that is imported, too.
"""

import argparse
import json
import os
import resource
import sys
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, process_time

import numpy as np
from report import processor

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
AT = dict(sigma_w=1.3, sigma_b=0.1, depth=3)
FURTHER, NOISE, RIDGE = 1000, 0.3, 1e-3
HEAD = """# Posteriors by every solver

erf NNGP of depth 3 (σ_w = 1.3, σ_b = .1), digits with noise, ten outputs, ridge 1e-3 of the mean diagonal
(`benchmarks/solvers.py`). Apart: the largest difference of the mean at 1000 further inputs, of which the largest is
about 1, to another solver's. Errors: of digits, in %.

| solver | rows | rank | iterations | residual | wall | CPU | memory | errors | apart | machine |
|---|---|---|---|---|---|---|---|---|---|---|
"""


def data(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Digits with noise and their classes, those that are asked about last."""
    from sklearn.datasets import load_digits

    X, labels = load_digits(return_X_y=True)
    X = (X - X.mean()) / X.std()
    rng = np.random.default_rng(35)
    which = rng.integers(len(X), size=rows + FURTHER)
    return X[which] + NOISE * rng.standard_normal((rows + FURTHER, 64)), labels[which]


def machine() -> str:
    """The processor, the cores that are used, and the load beside this run."""
    return f"{processor() or 'unknown'}, {len(os.sched_getaffinity(0))} cores, numpy {version('numpy')}"


def main() -> None:
    asked = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    asked.add_argument("solver", choices=("eigh", "cholesky", "cg", "nystrom"))
    asked.add_argument("--rows", type=int, default=20000)
    asked.add_argument("--rank", type=int)
    asked.add_argument("--rtol", type=float, default=1e-6)
    asked.add_argument("--workers", type=int, default=0, help="of a local dask cluster; 0: threads")
    asked.add_argument("--folder", type=Path, required=True)
    asked.add_argument("--dry", action="store_true", help="print, and leave results/ as it is")
    args = asked.parse_args()

    from meanfield import derive

    args.folder.mkdir(exist_ok=True)
    (X, labels), n = data(args.rows), args.rows
    codes, theory = np.eye(10)[labels] - 0.1, derive("erf")
    theory.kernel(X[:600], quantities="K", **AT)  # compiled before anything is timed
    ridge = RIDGE * theory.kernel_operator(X[:n], **AT).diagonal().mean()
    name = f"{args.solver}-{n}" + (f"-{args.workers}" if args.workers else "")
    usual = {"cg": 1000, "nystrom": 4000}
    more = {"rank": args.rank or usual[args.solver]} if args.solver in usual else {}
    more |= {"checkpoint": args.folder / f"{name}.npz"} if more else {}
    more |= {"rtol": args.rtol} if args.solver == "cg" else {}
    with ExitStack() as stack:
        if args.workers:
            from dask.distributed import Client, LocalCluster

            cluster = stack.enter_context(
                LocalCluster(n_workers=args.workers, threads_per_worker=1, dashboard_address=None)
            )
            more["executor"] = stack.enter_context(Client(cluster)).get_executor()
        wall, cpu, began = perf_counter(), process_time(), [0.0]

        def tell(done: int, of: int) -> None:
            if perf_counter() - began[0] > 30:
                began[0] = perf_counter()
                print(f"{perf_counter() - wall:8.0f} s  {done} of {of}", flush=True)

        found = theory.predict(
            X[:n], codes[:n], X[n:], train="last", ridge=ridge, solver=args.solver, progress=tell, **more, **AT
        )
        wall, cpu = perf_counter() - wall, process_time() - cpu
    mean = found.test.mean[0]
    np.save(args.folder / f"mean-{name}.npy", mean)
    others = [f for f in sorted(args.folder.glob(f"mean-*-{n}*.npy")) if f.stem != f"mean-{name}"]
    apart = {f.stem.split("-")[1]: float(np.abs(np.load(f) - mean).max()) for f in others}
    row = {
        "solver": args.solver + (f", {args.workers} dask workers" if args.workers else ""), "rows": n,
        "rank": more.get("rank", ""), "iterations": found.iterations or "",
        "residual": "" if found.residual is None else f"{found.residual:.1e}", "wall": f"{wall:.0f} s",
        "CPU": f"{cpu:.0f} s" if not args.workers else "",
        "memory": f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB",
        "errors": f"{100 * (mean.argmax(axis=1) != labels[n:]).mean():.1f}",
        "apart": ", ".join(f"{k} {v:.1e}" for k, v in apart.items()), "machine": machine(),
    }  # fmt: skip
    print(json.dumps(row, indent=1, ensure_ascii=False))
    print(found.message)
    if args.dry:
        return
    file = HERE / "results" / "solvers.json"
    rows = json.loads(file.read_text()) if file.exists() else []
    rows = [r for r in rows if any(r[k] != row[k] for k in ("solver", "rows", "rank"))] + [row]
    file.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    file.with_suffix(".md").write_text(HEAD + "".join(f"| {' | '.join(map(str, r.values()))} |\n" for r in rows))


if __name__ == "__main__":
    main()
