"""Pages of the explorer beside `propagate`: what runs their JavaScript, and how two runs are compared."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
from functools import lru_cache
from importlib.resources import files

import numpy as np
import pytest

from meanfield.explorer.model import ratio_tables, runtime

NODE = shutil.which("node")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
needs_node = pytest.mark.skipif(NODE is None, reason="node is not installed, which runs JavaScript here")
WITHIN = 1e-6


def run_script(text: str):
    """What a script prints as JSON, with numbers that JSON has not as text."""
    shown = "(k, v) => typeof v === 'number' && !Number.isFinite(v) ? String(v) : v"
    text = f"const out = (function () {{ {text} }})();\nconsole.log(JSON.stringify(out, {shown}));"
    done = subprocess.run([NODE], input=text, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    return json.loads(done.stdout)


@lru_cache(maxsize=1)
def follow_text() -> str:
    return files("meanfield.explorer").joinpath("follow.js").read_text(encoding="utf-8")


def followed_by_script(script: str, points: list[dict], depth: int) -> list[dict]:
    """`follow` of follow.js at many points: columns, stop, lost."""
    return run_script(
        f"{follow_text()}\nconst model = {script};\nreturn {json.dumps(points)}.map((p) => follow(model, p, {depth}));"
    )


def column(values: list) -> np.ndarray:
    return np.array([float("nan") if v is None else float(v) for v in values])


def propagated(theory, point: dict, depth: int, names: tuple[str, ...]):
    own = {k: v for k, v in point.items() if k not in ("Q0", "c0")}
    given = {"input_norm": point["Q0"], "depth": depth, "quantities": names}
    return theory.propagate(**own, **given, **({"correlation": point["c0"]} if "distance" in names else {}))


def misses(theory, point: dict, found: dict, depth: int, names: tuple[str, ...]) -> dict[str, float]:
    """The largest difference from `propagate` of K (relative), log J, and c, over the layers that are drawn."""
    run, out = propagated(theory, point, depth, names), {}
    columns = {k: column(v) for k, v in found["columns"].items()}
    drawn = columns["K"].size
    assert drawn == depth or found["stop"] is not None, "a curve stops and nothing says so"
    if "c" in columns:
        assert np.isfinite(columns["c"]).all() or found["lost"] is not None, "c stops and nothing says so"
    with np.errstate(all="ignore"):
        out["K"] = np.abs(columns["K"] / run.K[:drawn] - 1)
        if "log_J" in columns:
            true = run.log_J[:drawn]
            out["log_J"] = np.where(columns["log_J"] == true, 0, np.abs(columns["log_J"] - true))
        if "c" in columns:
            out["c"] = np.abs(columns["c"] - run.c[:drawn])
    return {k: float(np.nanmax(v, initial=0.0)) for k, v in out.items()}


def assert_follows(theory, script: str, points: list[dict], depth: int, names=("K", "J", "distance"), within=WITHIN):
    """Raise unless the script says at all points what `propagate` says, or says that it stops."""
    for point, found in zip(points, followed_by_script(script, points, depth)):
        assert_run(theory, point, found, depth, names, within)


def assert_run(theory, point: dict, found: dict, depth: int, names=("K", "J", "distance"), within=WITHIN):
    """Raise unless one run of a page is that of `propagate`."""
    point = {k: v for k, v in point.items() if k != "L"}
    worst = misses(theory, point, found, depth, names)
    if not max(worst.values()) <= within:
        raise AssertionError(f"{worst} at {point}")


def points_of(seed: int, count: int, **more) -> list[dict]:
    """Points over the plane, K from 1e-12 to 1e12, and correlations from -1 to 1 - 1e-12."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(count):
        c0 = (rng.uniform(-1, 1), 0.0, 1 - 10 ** rng.uniform(-12, -1), 1.0)[i % 4]
        biased = (0.0, rng.uniform(0, 1))[i % 2]
        point = {"sigma_w": rng.uniform(0.3, 2.5), "sigma_b": biased, "Q0": 10 ** rng.uniform(-12, 12), "c0": c0}
        out.append({k: float(v) for k, v in (point | {k: rng.uniform(*v) for k, v in more.items()}).items()})
    return out


def by_lattice(f, s: float, v: float, sign: int, step: float = 0.1) -> float:
    """⟨(f(z_a) - f(z_b))²⟩ of an analytic f by a lattice over two Gaussians, which shares nothing with the panels."""
    half = round(9 / step)
    t = np.arange(-half, half + 1) * step
    weight = np.exp(-(t**2) / 2)
    V, c = s * s + v, sign * v / (s * s + v)
    a, b = math.sqrt(V) * t[:, None], math.sqrt(V) * (c * t[:, None] + math.sqrt(1 - c * c) * t)
    return float((np.outer(weight, weight) * (f(a) - f(b)) ** 2).sum() / np.outer(weight, weight).sum())


def assert_ratios(table, values, within=1e-7):
    """Raise unless the JavaScript table gives these (V, apart, ratio)."""
    text = ratio_tables({"0": table})
    found = run_script(
        f"{runtime()}\n{text}\nreturn {json.dumps([v[:2] for v in values])}.map(([V, a]) => _ratio(0, V, a));"
    )
    for one, (V, apart, true) in zip(column(found), values):
        if not abs(one / true - 1) <= within:
            raise AssertionError(f"{one} at V = {V}, apart = {apart}, where it is {true}")
