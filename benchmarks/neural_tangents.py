"""Diagrams of c* and χ_1, and a deep pair, beside neural-tangents 0.6.5: writes results/neural_tangents.md.

    python -m venv ENV   # Python 3.11 to 3.13; numpy as old as jax
    ENV/bin/pip install --no-deps neural-tangents==0.6.5 jax==0.5.3 jaxlib==0.5.3
    ENV/bin/pip install numpy scipy opt_einsum ml_dtypes typing_extensions frozendict
    python benchmarks/neural_tangents.py --python ENV/bin/python

TensorFlow, which only `neural_tangents.experimental` needs, is left out, and that module stubbed. The peer runs in
float64 on all cores; its layers are its `stax` kernels, in a loop that XLA compiles for all points at once.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import numpy as np

HERE, ROUNDS, LAYERS = Path(__file__).resolve().parent, 5, 1000
W2, B2, PAIR = np.linspace(0.5, 4.0, 300), np.linspace(0.001, 0.2, 250), (2.5, 0.1)
CASES = (  # φ, degree of the peer's Gauss-Hermite rule (0: closed form), what it runs, every how many points, the bar
    ("erf", 0, "layers", 1, "≤ 0.5 x peer"),
    ("erf", 0, "Newton", 1, ""),
    ("tanh", 25, "layers", 25, "≤ 3 s"),
    ("tanh", 25, "Newton", 5, "≤ 3 s"),
    ("tanh", 200, "Newton", 25, "≤ 3 s"),
    ("tanh", 25, "pair", 1, "≤ 0.5 s"),
    ("tanh", 200, "pair", 1, "≤ 0.5 s"),
)
HEAD = """# Beside neural-tangents 0.6.5

{}. Medians of {} alternating rounds (CPU: all threads), both compiled before; ratio of walls: ours / peer.

A diagram has {} points, σ_w² in [0.5, 4], σ_b² in [0.001, 0.2]; ours makes its tables anew in every round. The peer
runs in float64 on all cores: {} of its layers, or Newton's rule, written here around its kernel and jax's derivatives
of it (neural-tangents has no such solver). It has no closed form of tanh: `ElementwiseNumerical` of the degree in
brackets. Where it runs a part of the points, its times are scaled. First: its first call, which compiles.

Off: points at which its c* is not ours within 1e-12 and the error that ours states. Settled: points at which what is
left of its c is below 1e-12; apart: the largest difference of c* and of χ_1 there (of a pair: of c, in any layer).

| what | wall | CPU | peer | wall | CPU | first | ratio | bar | NaN: ours, peer | off | settled | apart: c*, χ_1 |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""


def timed(f) -> tuple[list[float], object]:
    """[wall, CPU] seconds of f(), and what it gives."""
    wall, cpu = perf_counter(), process_time()
    out = f()
    return [perf_counter() - wall, process_time() - cpu], out


def peer(phi: str, degree: int, how: str, step: int):
    """A function without arguments → arrays (c*, χ_1, the last move of c), or (c,) of every layer of a pair."""
    import jax
    import jax.numpy as jnp
    from jax import lax
    from neural_tangents import stax

    f = stax.Erf() if phi == "erf" else stax.ElementwiseNumerical(jnp.tanh, degree, lambda z: 1 - jnp.tanh(z) ** 2)
    x = jnp.sqrt(2.0) * jnp.eye(2)  # two orthogonal inputs of norm 1 per neuron

    def first(w, b):
        return stax.Dense(1, W_std=w, b_std=b)[2](x[:1], x[1:], None).replace(ntk=None)

    def after(K, ab, w, b, **more):  # one covariance for both inputs, so that XLA computes it once
        k = first(w, b).replace(nngp=ab.reshape(1, 1), cov1=K.reshape(1), cov2=K.reshape(1), **more)
        return stax.Dense(1, W_std=w, b_std=b)[2](f[2](k))

    def start(w, b):
        return first(w, b).cov1[0], first(w, b).nngp[0, 0]

    def layer(*args):
        return after(*args).cov1[0], after(*args).nngp[0, 0]

    def chi(K, w, b):  # the factor of its tangent kernel from layer to layer
        k = after(K, K, w, b, ntk=jnp.ones((1, 1)))
        return (k.ntk - k.nngp)[0, 0]

    def layers(w, b):
        K, ab = lax.fori_loop(0, LAYERS - 2, lambda _, s: layer(*s, w, b), start(w, b))
        last, c = layer(K, ab, w, b), ab / K
        return last[1] / last[0], chi(last[0], w, b), jnp.abs(last[1] / last[0] - c)

    def zero(g, x):  # K falls to its end and c rises to it, both without a step too far: the maps are concave, convex
        def step(s):
            value, slope = jax.jvp(g, (s[0],), (jnp.ones_like(s[0]),))
            return s[0] - value / slope, jnp.abs(value / slope), s[2] + 1

        return lax.while_loop(lambda s: (s[1] > 1e-12) & (s[2] < 60), step, (x, jnp.inf, 0))[:2]

    def newton(w, b):
        K, _ = zero(lambda K: layer(K, K, w, b)[0] - K, start(w, b)[0])
        c, moved = zero(lambda c: layer(K, c * K, w, b)[1] / K - c, 0.0 * K)
        return c, chi(K, w, b), moved

    if how == "pair":
        path = lambda w, b: lax.scan(lambda s, _: (layer(*s, w, b), s[1] / s[0]), start(w, b), None, LAYERS)  # noqa: E731
        run, (w, b) = jax.jit(path), np.sqrt(PAIR)
        return lambda: (np.asarray(run(w, b)[1]),)
    w, b = (np.sqrt(v).ravel() for v in np.meshgrid(W2[::step], B2[::step]))
    shape = math.gcd(w.size, jax.device_count()), -1  # a share for each core, hard points spread evenly
    w, b = (jax.pmap(lambda v: v)(v.reshape(shape[::-1]).T) for v in (w, b))
    run = jax.pmap(jax.vmap(layers if how == "layers" else newton))
    return lambda: [np.asarray(v).T.ravel() for v in run(w, b)]


def serve(folder: Path) -> None:
    """Answer every line, the number of a case, with [wall, CPU]; what was found goes to a file."""
    import types
    import warnings

    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={os.cpu_count()}"
    sys.modules["neural_tangents.experimental"] = types.ModuleType("neural_tangents.experimental")
    warnings.simplefilter("ignore")  # that a numerical rule is used, and how jax is built
    import jax

    jax.config.update("jax_enable_x64", True)
    runs: dict = {}
    for line in sys.stdin:
        n = int(line)
        runs[n] = runs.get(n) or peer(*CASES[n][:4])
        spent, found = timed(runs[n])
        np.savez(folder / f"{n}.npz", *found)
        print(json.dumps(spent), flush=True)


def ours(phi: str, how: str):
    """A function without arguments → the diagram, or the run of a pair."""
    from meanfield import derive
    from meanfield.numeric.phases.gaps import compile_gaps

    theory = derive(phi)
    if how == "pair":
        w, b = (math.sqrt(v) for v in PAIR)
        given = {"sigma_w": w, "sigma_b": b, "depth": LAYERS, "correlation": 0.0, "quantities": ("K", "c")}
        return lambda: theory.propagate(**given)

    def diagram():
        compile_gaps(theory.activations[0].pieces.expr).tables.clear()
        return theory.phase_diagram(sigma_w=np.sqrt(W2), sigma_b=np.sqrt(B2), quantity="gamma", line=False)

    return diagram


def compared(found, theirs: list[np.ndarray], how: str, step: int) -> list[str]:
    """The last cells of a row: NaN, off, settled, apart."""
    if how == "pair":
        apart = np.abs(theirs[0] - found.c)
        return [f"{np.isnan(found.c).sum()}, {np.isnan(theirs[0]).sum()}", "", "", f"{apart.max():.1e}"]
    c, slope, chi, error = (v[::step, ::step].ravel() for v in (found.c, found.slope, found.chi_J, found.error))
    apart = np.abs(theirs[0] - c)
    settled = theirs[2] * (slope / (1 - slope) if how == "layers" else 1) < 1e-12
    nans = [int(np.isnan(np.array(v)).any(axis=0).sum()) for v in ([found.c, found.chi_J], theirs[:2])]
    off, far = (~(apart <= 1e-12 + error)).sum(), (apart[settled].max(), np.abs(theirs[1] - chi)[settled].max())
    return [f"{nans[0]}, {nans[1]}", f"{off} of {c.size}", f"{settled.sum()}", f"{far[0]:.1e}, {far[1]:.1e}"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="the interpreter that has neural-tangents")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        sys.exit()
    sys.path[:0] = [str(HERE.parent)]
    from report import duration

    with tempfile.TemporaryDirectory(dir=HERE) as folder:
        # -P: this file has the name of the package
        command = [options.python, "-P", __file__, "--serve", folder]
        other = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

        def ask(n: int) -> list[float]:
            print(n, file=other.stdin, flush=True)
            return json.loads(other.stdout.readline())

        text = ""
        for n, (phi, degree, how, step, bar) in enumerate(CASES):
            run = ours(phi, how)
            (cold, _), found, rounds = ask(n), run(), []
            for _ in range(ROUNDS):
                rounds.append([*timed(run)[0], *ask(n)])
            with np.load(Path(folder) / f"{n}.npz") as data:
                cells = compared(found, list(data.values()), how, step)
            scale = W2.size * B2.size / (W2[::step].size * B2[::step].size)
            wall, cpu, peer_wall, peer_cpu = map(median, zip(*rounds))
            ratio = median(r[0] / (scale * r[2]) for r in rounds)
            what = f"{LAYERS} layers of a pair, all kept" if how == "pair" else "diagram"
            name = f"{'layers' if how == 'pair' else how}{f' ({degree})' if degree else ''}"
            name += f", 1 point in {scale:g}" if scale > 1 else ""
            limit = float(bar.split()[1]) if bar else math.inf
            met = "" if not bar else "**missed**" if (ratio if "peer" in bar else wall) > limit else "pass"
            times = [duration(t) for t in (wall, cpu, scale * peer_wall, scale * peer_cpu, cold)]
            row = [f"{phi}, {what}", *times[:2], name, *times[2:], f"{ratio:.2g}", f"{bar} {met}".strip(), *cells]
            text += f"| {' | '.join(row)} |\n"
            print(text.splitlines()[-1], flush=True)
        other.stdin.close()
        other.wait()
        machine = (
            f"{os.cpu_count()} cores, load average {os.getloadavg()[1]:.1f}, Python {sys.version.split()[0]}, jax 0.5.3"
        )
        text = HEAD.format(machine, ROUNDS, f"{W2.size} × {B2.size}", LAYERS) + text
        whole = Path(folder) / "neural_tangents.md"  # appears whole or not at all
        whole.write_text(text, encoding="utf-8")
        (HERE / "results").mkdir(exist_ok=True)
        os.replace(whole, HERE / "results" / whole.name)
