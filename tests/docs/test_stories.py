"""docs/stories: each is executed as the notebook that the site offers, and what it says is found again by recursions
that are written here, with averages by a trapezoidal rule; networks are held against these, and planted errors fail."""

from __future__ import annotations

import ast
import json
import math
import os
import re
import resource
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from scipy.special import ndtr
from sphinx_gallery import gen_gallery
from sphinx_gallery.notebook import jupyter_notebook
from sphinx_gallery.py_source_parser import split_code_and_text_blocks

from tests import DOCS

STORIES = sorted((DOCS / "stories").glob("*.py"))
PAGES = [*STORIES, *sorted((DOCS / "gallery").glob("*.py"))]
NAMES = [path.stem for path in STORIES]
SECTIONS = ["The derivation", "The picture", "The check", "What to remember"]
Z = np.linspace(-12, 12, 4001)
NORMAL = np.exp(-(Z**2) / 2) / math.sqrt(2 * math.pi) * (Z[1] - Z[0])
SIGMAS = 4.5


def notebook(path: Path) -> dict:
    """The notebook that the site offers beside a page, read back from its text."""
    made = jupyter_notebook(split_code_and_text_blocks(str(path))[1], dict(gen_gallery.DEFAULT_GALLERY_CONF), DOCS)
    return json.loads(json.dumps(made))


def code_of(made: dict) -> str:
    return "\n".join("".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code")


def text_of(path: Path) -> str:
    return "\n\n".join(block[1] for block in split_code_and_text_blocks(str(path))[1] if block[0] == "text")


def assert_valid(made: dict) -> None:
    """What nbformat 4 asks of a notebook without outputs."""
    assert made["nbformat"] == 4 and made["nbformat_minor"] >= 0 and made["metadata"]["kernelspec"]["name"] == "python3"
    for k, cell in enumerate(made["cells"]):
        needed = {"cell_type", "metadata", "source"}
        if cell["cell_type"] == "code":
            needed |= {"execution_count", "outputs"}
        else:
            assert cell["cell_type"] == "markdown", f"cell {k} is {cell['cell_type']}"
        assert set(cell) == needed, f"cell {k} has {sorted(cell)}"
        lines = [cell["source"]] if isinstance(cell["source"], str) else cell["source"]
        assert all(isinstance(line, str) for line in lines) and "".join(lines).strip(), f"cell {k} is empty"


@cache
def told(name: str) -> SimpleNamespace:
    """What a story holds when its notebook has run, cell by cell, in one namespace; and the number of its figures."""
    matplotlib.use("Agg", force=True)
    import matplotlib.pyplot as plt

    plt.close("all")
    held: dict = {"__name__": "__main__"}
    for k, cell in enumerate(notebook(DOCS / "stories" / f"{name}.py")["cells"]):
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), f"{name}, cell {k}", "exec"), held)
    axes = [ax for number in plt.get_fignums() for ax in plt.figure(number).axes]
    assert axes and all(ax.get_xlabel() for ax in axes) and axes[0].get_ylabel()
    plt.close("all")
    return SimpleNamespace(**held)


def average(f, K) -> float:
    return float((NORMAL * f(math.sqrt(K) * Z)).sum())


def layers(phi, slope, sigma_w, sigma_b, depth: int, skip: float = 0) -> tuple[np.ndarray, np.ndarray]:
    """K and log J of every layer; sigma_w, sigma_b: a number or one for each layer."""
    w, b = np.broadcast_to(sigma_w, depth), np.broadcast_to(sigma_b, depth)
    K = [float(w[0] ** 2 + b[0] ** 2)]
    log_J = [0.0]
    for k in range(1, depth):
        log_J.append(log_J[-1] + math.log(skip + w[k] ** 2 * average(lambda z: slope(z) ** 2, K[-1])))
        K.append(skip * K[-1] + float(w[k] ** 2) * average(lambda z: phi(z) ** 2, K[-1]) + float(b[k] ** 2))
    return np.array(K), np.array(log_J)


def sech2(z):
    return 1 - np.tanh(z) ** 2


def gelu(z):
    return z * ndtr(z)


def gelu_slope(z):
    return ndtr(z) + z * np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)


def assert_equal(ours, theirs, bar: float = 1e-8) -> None:
    """Two routes to the same numbers, to `bar` of each or of 1."""
    ours, theirs = np.asarray(ours, dtype=float), np.asarray(theirs, dtype=float)
    assert ours.shape == theirs.shape
    apart = np.abs(ours - theirs) / np.maximum(np.abs(theirs), 1)
    assert apart.max() < bar, f"two routes differ by {apart.max():.1e}"


def assert_within(measured, error, expected, next_order: float = 0.0) -> None:
    """Networks within their errors of a theory, and within a share of it that is of the next order in 1/n."""
    allowed = SIGMAS * np.asarray(error) + next_order * np.abs(expected) + 1e-12
    off = np.abs(np.asarray(measured) - expected) / allowed
    assert off.max() < 1, f"networks are off by {off.max():.1f} times what is allowed"


# ------------------------------------------------------------------------------------------------ pages and notebooks


@pytest.mark.parametrize("path", PAGES, ids=[path.stem for path in PAGES])
def test_a_notebook_is_the_page(path):
    made = notebook(path)
    assert_valid(made)
    assert made["cells"][0]["cell_type"] == "markdown" and "".join(made["cells"][0]["source"]).strip().startswith("# ")
    body = ast.parse(path.read_text(encoding="utf-8")).body[1:]  # behind the docstring
    assert [ast.dump(one) for one in ast.parse(code_of(made)).body] == [ast.dump(one) for one in body]


def test_notebooks_that_are_none_are_seen():
    made = notebook(STORIES[0])
    for change, match in (({"cell_type": "raw"}, "is raw"), ({"source": [" "]}, "is empty"), ({"id": 1}, "has .*'id'")):
        cells = [made["cells"][0] | change, *made["cells"][1:]]
        with pytest.raises(AssertionError, match=match):
            assert_valid(made | {"cells": cells})


@pytest.mark.parametrize("path", STORIES, ids=NAMES)
def test_a_story_has_its_parts_and_types_no_numbers_in(path):
    """A title that asks, four parts in this order, and no number in its text that its code does not have."""
    text, code = text_of(path).strip(), code_of(notebook(path))
    assert text.splitlines()[0].endswith("?")
    assert re.findall(r"(?m)^(.+)\n-{4,}$", text) == SECTIONS
    typed = {one for one in re.findall(r"(?<![\w./^])\d+(?:\.\d+)?(?![\w./])", text) if float(one) >= 10}
    assert typed <= set(re.findall(r"\d+(?:\.\d+)?", code)), f"{path.stem} types {sorted(typed)} in"
    assert "print(" in code and re.search(r"subplots\(", code)


def test_there_are_six_stories_and_the_front_page_links_them():
    assert len(STORIES) == 6 and [name[:2] for name in NAMES] == [f"{k:02d}" for k in range(1, 7)]
    assert "notebooks/index" in (DOCS / "index.md").read_text(encoding="utf-8")


# -------------------------------------------------------------------------------------------------- what is said holds


def test_criticality():
    said = told("01_criticality")
    assert (said.point.sigma_w, said.point.sigma_b) == (1, 0) and len(said.points) == 1
    assert said.sigmas == pytest.approx([0.8, 1, 1.5])
    for sigma, run in zip(said.sigmas, said.runs):
        K, log_J = layers(np.tanh, sech2, sigma, 0, 100)
        assert_equal(run.K, K)
        assert_equal(run.log_J, log_J)
    with pytest.raises(AssertionError, match="two routes differ"):  # planted: σ_w off by a thousandth
        assert_equal(said.runs[1].log_J, layers(np.tanh, sech2, 1.001, 0, 100)[1])
    assert said.report.passed
    slope = np.diff(said.runs[1].log_J)[-1] / math.log(100 / 99)
    assert abs(slope + 1) < 0.05 and 2 * 100 * said.runs[1].K[-1] == pytest.approx(1, abs=0.1)
    assert said.runs[0].log_J[-1] < -40 and said.runs[2].log_J[-1] > 2


@pytest.mark.slow
def test_residual_networks():
    said = told("02_residual_networks")
    assert not said.plain.critical_points().points
    for name, total in (("1", 0), ("1/√L", 1), ("1/L", 2)):
        expected = [
            layers(np.tanh, sech2, [1, *[L ** (-total / 2)] * L], 0, L + 1, skip=1)[1][-1]
            for L in map(int, said.blocks)
        ]
        assert_equal(said.lines[name], expected)
        with pytest.raises(AssertionError, match="two routes differ"):
            assert_equal(said.lines[name], said.lines["1/L" if total < 2 else "1"])
        for L in said.few:
            mean, error = said.networks[name, L]
            here = expected[list(said.blocks).index(L)]
            assert_within(mean, error, here)
            with pytest.raises(AssertionError, match="networks are off"):  # planted: a factor 1/√L more
                assert_within(mean, error, here / L)
    before, last = said.lines["1/√L"][-2:]
    assert abs(before - last) < 0.01 and said.lines["1"][-1] > 15 and said.lines["1/L"][-1] < 0.01


@pytest.mark.slow
def test_two_inputs_and_bias():
    said = told("03_two_inputs_and_bias")
    c = np.zeros(1000)
    for k in range(1, 1000):
        x = c[k - 1]
        c[k] = (math.sqrt(1 - x * x) + x * (math.pi - math.acos(x))) / math.pi
    gamma = c / (1 - c)
    assert_equal(said.run.gamma, gamma, 1e-6)  # 1 - c loses digits here, and none there
    assert said.first == int(np.argmax(gamma > 1)) + 1
    p = ndtr(np.sqrt(gamma[: said.shown, None]) * Z)
    G2 = ((p**2 + p * (1 - p) / said.inputs) * NORMAL).sum(axis=1)
    assert_equal(said.G2, G2)
    with pytest.raises(AssertionError, match="two routes differ"):  # planted: of infinitely many inputs
        assert_equal(said.G2, (p**2 * NORMAL).sum(axis=1))
    seen = said.measured
    assert_within(seen.mean, seen.standard_error, G2[: said.counted])
    with pytest.raises(AssertionError, match="networks are off"):  # planted: γ of one layer, in all of them
        assert_within(seen.mean, seen.standard_error, G2[0])
    assert abs(gamma[-1] / (2 * 1000**2 / (9 * math.pi**2) + 2 * 1000 * math.log(1000) / (3 * math.pi**2)) - 1) < 0.01
    larger = [float(np.sum(NORMAL * np.maximum(q, 1 - q))) for q in ndtr(np.sqrt(gamma[[9, 99, 999], None]) * Z)]
    assert larger[0] > 0.85 and larger[2] > 0.99


@pytest.mark.slow
def test_finite_width():
    said = told("04_finite_width")
    K, _ = layers(np.tanh, sech2, 1, 0, said.depth)
    V = [0.0]
    for one in K[:-1]:
        square, fourth = average(lambda z: np.tanh(z) ** 2, one), average(lambda z: np.tanh(z) ** 4, one)
        bent = average(lambda z: z * z * np.tanh(z) ** 2, one)
        response = (bent / one - square) / (2 * one)  # ∂⟨φ²⟩/∂K
        V.append(fourth - square**2 + V[-1] * response**2)
    ratio = np.array(V) / K**2
    assert_equal(said.ratio, ratio)
    for n in said.widths:
        share = said.depth / n
        sampled = np.sqrt(1 / said.networks)  # relative error of a deviation, √2 that of a Gaussian's
        assert_within(said.seen[n], sampled * said.spread(n), np.sqrt((ratio + 2) / n), share)
        with pytest.raises(AssertionError, match="networks are off"):  # planted: no fluctuation is handed on
            assert_within(said.seen[n], sampled * said.spread(n), np.sqrt(2 / n) + 0 * ratio, share)
        mean = said.measured[n]
        shift, error = n * (mean.mean[-1] - K[-1]), n * mean.standard_error[-1]
        assert_within(shift, error, said.run.G1[-1], share)
    assert 0.5 < said.slope < 0.8


def kernels_of_erf(X: np.ndarray, sigma_w: float, sigma_b: float, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """K and Θ of all pairs of rows, by the closed forms of erf."""
    K = sigma_w**2 * X @ X.T / X.shape[1] + sigma_b**2
    theta = K.copy()
    for _ in range(depth - 1):
        size = 1 + 2 * np.diag(K)
        both = np.sqrt(np.outer(size, size))
        slopes = 4 / math.pi / np.sqrt(both**2 - 4 * K**2)
        K = sigma_w**2 * 2 / math.pi * np.arcsin(2 * K / both) + sigma_b**2
        theta = K + sigma_w**2 * slopes * theta
    return K, theta


@pytest.mark.slow
def test_kernels():
    said = told("05_kernels")
    X, count = said.X, len(said.X)
    K, theta = kernels_of_erf(np.concatenate([X, said.grid]), **said.at)
    inner = theta[:count, :count]
    left = np.linalg.matrix_power(np.eye(count) - said.rate / count * inner, said.steps)
    taken = theta[count:, :count] @ np.linalg.inv(inner) @ (np.eye(count) - left)
    mean = taken @ said.y[:, 0]
    K_tx = taken @ K[:count, count:]
    variance = np.diag(K[count:, count:] - K_tx - K_tx.T + taken @ K[:count, :count] @ taken.T)
    assert_equal(said.mean, mean)
    assert_equal(said.sd, np.sqrt(variance))
    assert_equal(said.trace, np.trace(inner))
    with pytest.raises(AssertionError, match="two routes differ"):  # planted: the kernel of the readout alone
        assert_equal(said.mean, K[count:, :count] @ np.linalg.inv(K[:count, :count]) @ said.y[:, 0])
    errors = np.sqrt(variance / said.networks)
    assert_within(said.outputs[256].mean(axis=0), errors, mean)
    with pytest.raises(AssertionError, match="networks are off"):  # sixteen neurons are not wide
        assert_within(said.outputs[16].mean(axis=0), errors, mean)
    share = [np.sqrt(np.mean(said.outputs[n].var(axis=0, ddof=1)) / np.mean(variance)) for n in (16, 256)]
    assert abs(share[1] - 1) < 0.2


@pytest.mark.slow
def test_initialization():
    said = told("06_initialization")
    w, b, first = said.sigma_w, said.sigma_b, said.K
    assert w**2 * average(lambda z: gelu_slope(z) ** 2, first) == pytest.approx(1, abs=1e-9)
    assert w**2 * average(lambda z: gelu(z) ** 2, first) + b**2 == pytest.approx(first, rel=1e-9)
    for name, (sigma_w, sigma_b) in said.starts.items():
        _, log_J = layers(gelu, gelu_slope, sigma_w, sigma_b, said.depth)
        assert_equal(said.expected[name], log_J, 1e-6)
        order = said.depth / said.width
        assert_within(said.measured[name][-1], said.errors[name][-1] + order / SIGMAS, log_J[-1], order**2)
        with pytest.raises(AssertionError, match="networks are off"):  # planted: another start
            other = next(one for one in said.starts if one != name)
            assert_within(said.measured[name][-1], said.errors[name][-1] + order / SIGMAS, said.expected[other][-1])
    assert abs(said.expected["critical"][-1]) < 0.01 < 10 < -said.expected["He"][-1]


# ----------------------------------------------------------------------------------------------------------- from cold


@pytest.mark.slow
@pytest.mark.parametrize("path", STORIES, ids=NAMES)
def test_a_script_runs_by_itself_from_cold(path, tmp_path):
    """In a process and a cache of its own, as somebody new runs it: 6 to 12 s of CPU when this was written."""
    env = os.environ | {"MEANFIELD_CACHE": str(tmp_path), "MPLBACKEND": "Agg", "PYTHONPATH": str(DOCS.parent)}
    began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([sys.executable, path], env=env, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert len(done.stdout.splitlines()) > 4 and "nan" not in done.stdout
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - began < 30
