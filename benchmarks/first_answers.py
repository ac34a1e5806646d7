"""What first calls cost: `python benchmarks/first_answers.py` runs each in a process of its own, with an empty cache
folder and then with the one that it filled, and writes results/first_answers.md.

Seconds of CPU (all threads) without imports, which are listed by themselves. Ratios between two versions of the package
compare machines: run it in both on one machine, `--only WORD` for those calls whose text holds a word.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNEL = "mf.derive({0!r}).kernel(ROWS[:{1}], sigma_w=1.5, sigma_b=0.1, depth=11)"
CORRELATIONS = "mf.derive({0!r}).correlations(sigma_w=1.5, sigma_b=0.1)"
BUDGETS = {"kernel": 3.0, "correlations": 3.0, "bias": 3.0, "phase": 3.0, "init": 3.0, "recommend": 3.0}
BUDGETS |= {".report()": 15.0, "gains": 1.0}
LATER, OTHERS = 0.6, 1.2  # with a filled cache; derive, table, law
PLACE = "--sigma-w 1.5 --sigma-b 0.1"
VERBS = (
    f"bias tanh {PLACE}",
    "init gelu --architecture preln --depth 100 --width 512",
    f"critical gelu {PLACE}",
    "phase-diagram gelu --sigma-w 0,3,60 --sigma-b 0,3,60",
    "derive tanh --residual",
    "table erf --residual",
    "law erf --residual --quantity J --sigma-w 1 --sigma-b 0",
)
CALLS = (
    *(KERNEL.format(name, 16) for name in ("erf", "tanh", "gelu", "elu", "hard_swish", "z*erf(z)", "z/(1 + abs(z))")),
    *(f"{KERNEL.format(name, 16)}; {KERNEL.format(name, 1024)}" for name in ("relu", "tanh")),
    *(CORRELATIONS.format(name) for name in ("erf", "tanh", "relu", "gelu", "sin", "hard_swish", "z*erf(z)")),
    "mf.derive('gelu').phase(sigma_w=1.5, sigma_b=0.1)",
    "mf.derive('tanh').depth_law('K', sigma_w=1.5, sigma_b=0.1)",
    "mf.derive('tanh').propagate(sigma_w=1.5, sigma_b=0.1, depth=1000)",
    "mf.recipe('gpt2').report()",
    "mf.recipe('gpt2', depth=48, width=1600).report()",
    "mf.recipe('llama').report()",
    "mf.parametrization('mup').powers('gelu', residual=True, norm='pre')",
    "mf.coordinate_check('gelu', 'depth_mup', residual=True, depth=66, widths=(256,), rate=0.01)",
    "mf.coordinate_check('tanh', 'mup', depth=5, networks=16)",
    "mf.gains('z*sigmoid(2*z)')",
    *(f"verb({verb!r})" for verb in VERBS),
)
CHILD = """
import contextlib, io, json, sys, time
import numba, scipy.optimize, scipy.special, sympy
import meanfield as mf
import meanfield.cli.app, meanfield.theory.theory
import numpy as np
from numba.core import event

ROWS = np.random.default_rng(0).normal(size=(1024, 20))
spent, open_ = [0.0], []


class Compiling(event.Listener):
    def on_start(self, e):
        open_.append(time.process_time())

    def on_end(self, e):
        began = open_.pop()
        if not open_:
            spent[0] += time.process_time() - began


def verb(line):
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        meanfield.cli.app.main(line.split())


event.register("numba:compile", Compiling())
imports = time.process_time()
exec(sys.argv[1])
print(json.dumps([time.process_time() - imports, spent[0], imports]))
"""


def one(code: str, folder: str) -> list[float]:
    """(CPU seconds, those of compiling, those of imports) of a call in a process of its own."""
    env = os.environ | {"MEANFIELD_CACHE": folder, "NUMBA_CACHE_DIR": f"{folder}/numba"}
    return json.loads(subprocess.check_output([sys.executable, "-c", CHILD, code], cwd=HERE.parent, env=env))


def budget(code: str) -> float:
    """What a first call may take."""
    return next((b for word, b in BUDGETS.items() if word in code), OTHERS)


if __name__ == "__main__":
    word = sys.argv[sys.argv.index("--only") + 1] if "--only" in sys.argv else ""
    text = "# First answers\n\nCPU seconds without imports ({:.2f} s: SymPy, Numba, SciPy, the command line).\n\n"
    lines = ["| call | empty cache | of it compiling | budget | filled cache |", "|---|---|---|---|---|"]
    for code in (c for c in CALLS if word in c):
        with tempfile.TemporaryDirectory() as folder:
            (first, compiling, imports), (later, _, _) = one(code, folder), one(code, folder)
        lines.append(f"| `{code}` | {first:.2f} | {compiling:.2f} | {budget(code):.1f} | {later:.2f} |")
        print(lines[-1], flush=True)
    if not word:
        (HERE / "results" / "first_answers.md").write_text(text.format(imports) + "\n".join(lines) + "\n", "utf-8")
