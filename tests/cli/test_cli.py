"""The command line: what every verb prints and writes, its exit codes, its sentences for what cannot be answered."""

from __future__ import annotations

import csv
import inspect
import json
import math
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import meanfield
from meanfield.base.answers.drawing import plot_report
from meanfield.base.answers.export import Result
from meanfield.cli import app as cli
from meanfield.cli.commands import doctor as cli_doctor
from meanfield.cli.terminal import help as cli_help
from meanfield.cli.terminal import output as cli_output
from meanfield.cli.terminal import reading as cli_reading
from meanfield.cli.terminal.options import Json, Output
from meanfield.comparison import check as comparison

VERBS = tuple(cli.VERBS)  # fmt: skip
HEAVY = ("numba", "scipy", "matplotlib")


@pytest.fixture
def run(capsys, monkeypatch, tmp_path):
    """Run one command line in an empty folder; returns (exit code, stdout, stderr)."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.chdir(tmp_path)

    def call(line: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit, match=r"^[0-9]+$") as stop:
            cli.main(shlex.split(line))
        out, err = capsys.readouterr()
        return stop.value.code or 0, out, err

    return call


def strict(text: str) -> dict:
    """Exactly one JSON document without NaN or Infinity, with the head every command gives."""

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    found = json.loads(text, parse_constant=refuse)
    assert found["schema"] == 1 and found["meanfield"] == meanfield.__version__
    assert set(found) == {"schema", "meanfield", "command", "inputs", "results"}
    return found


@dataclass(frozen=True)
class FakeRow:
    quantity: str
    layer: int
    theory: float
    allowance: float
    measured: float
    standard_error: float
    z: float
    passed: bool


@dataclass(frozen=True)
class FakeReport(Result):
    """What the command line and the figures may know of a report."""

    rows: tuple[FakeRow, ...]
    log_scale: dict = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        return all(r.passed for r in self.rows)

    def data(self) -> dict:
        return {"passed": self.passed, "rows": [asdict(r) for r in self.rows]}

    def plot(self, ax=None):
        return plot_report(self, ax)

    def __str__(self) -> str:
        return "a long line " * 12 + "\n" + ("PASSED" if self.passed else "FAILED")


def fake_report(z: float = 0.5) -> FakeReport:
    def row(q: str, l: int) -> FakeRow:
        allowance = 0.25 * l if q == "J" else 0.0
        return FakeRow(q, l, 1.0 + l, allowance, 1.0 + l + allowance + 0.1 * z, 0.1, z, abs(z) <= 4)

    return FakeReport(tuple(row(q, l) for q in ("K", "J") for l in range(1, 6)), {"J": [0.0] * 5})


@pytest.fixture
def faked(monkeypatch):
    """comparison.check replaced: it records its arguments and returns the report it is told to."""
    seen: dict = {"report": fake_report()}

    def check(theory, **given):
        seen.update(given, theory=theory)
        return seen["report"]

    monkeypatch.setattr(comparison, "check", check)
    return seen


# ------------------------------------------------------------------------------------------------- the face


def test_entry_point_is_main():
    project = tomllib.loads((Path(meanfield.__file__).parent.parent / "pyproject.toml").read_text())
    assert project["project"]["scripts"]["meanfield"] == "meanfield.__main__:main"


def test_an_interruption_of_the_imports_ends_with_a_line():
    """Whoever stops a command in its first second gets no traceback of imports."""
    code = (
        "import builtins, sys\n"
        "from meanfield.__main__ import main\n"
        "whole = builtins.__import__\n"
        "def stopped(name, *rest):\n"
        "    if name.startswith('sympy'):\n"
        "        raise KeyboardInterrupt\n"
        "    return whole(name, *rest)\n"
        "builtins.__import__ = stopped\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "interrupted; nothing had begun.\n")


def test_version(run):
    assert run("--version") == (0, f"meanfield {meanfield.__version__}\n", "")


def test_alone_prints_help(run):
    code, out, _ = run("")
    assert code == 0 and all(verb in out for verb in VERBS)
    assert out == run("--help")[1]


@pytest.mark.parametrize("verb", VERBS)
def test_help_teaches(run, verb):
    code, out, _ = run(f"{verb} --help")
    assert code == 0 and f"Example: meanfield {verb}" in out
    if verb not in ("activations", "doctor"):
        for symbol in ("σ_w", "σ_b", "standard deviation", "K^1 = σ_w² Q0 + σ_b²", "J^(1,1) = 1", "first layer after"):
            assert symbol in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80


def assert_filled(told: str, columns: int = 78) -> None:
    """No line of the paragraphs of a help, before its tables, ends where the next word would have stood on it."""
    for paragraph in re.split(r"\n\s*\n", told.split("╭")[0].strip()):
        lines = [line.strip() for line in paragraph.strip().splitlines()]
        for one, other in pairwise(lines):
            assert len(one) + 1 + len(other.split()[0]) > columns, f"a line is broken early: {one!r}"


@pytest.mark.parametrize("verb", VERBS)
def test_lines_of_help_are_filled(run, verb):
    assert_filled(run(f"{verb} --help")[1])


def test_lines_that_are_broken_in_the_source_are_seen(run, monkeypatch):
    one = next(command for command in cli.app.registered_commands if command.name == "coordinate-check")
    with pytest.raises(AssertionError, match="broken early: 'networks'"):
        monkeypatch.setattr(one, "help", inspect.cleandoc(one.callback.__doc__))
        assert_filled(run("coordinate-check --help")[1])


def assert_one_face(verbs) -> None:
    """Every verb that prints has --json and --output, flags show no type, and an option is one thing in every verb."""
    seen: dict[str, tuple] = {}
    for name, (function, example) in verbs.items():
        assert example.split()[0] == name, f"the example of {name} is of another verb"
        options = {}
        for key, parameter in inspect.signature(function, eval_str=True).parameters.items():
            options[key] = next((m for m in getattr(parameter.annotation, "__metadata__", ())), None)
        assert {"json", "output"} <= set(options) or name in ("demo", "explore"), f"{name} lacks --json or --output"
        for key in {"residual", "mu", "norm", "param", "architecture", "sigma_w", "sigma_b", "json"} & set(options):
            one = options[key]
            told = key, one.metavar, one.help if key in ("residual", "param", "json", "norm") else None
            assert seen.setdefault(key, told)[2] == told[2], f"{key} of {name} is another one"
        if "latex" not in options and "output" in options:
            assert ".tex" not in options["output"].help, f"{name} offers a .tex file, and has no LaTeX"


def _planted(json: Json = False, output: Output = None) -> None:
    """A verb without --latex whose option says that it writes LaTeX."""


def test_the_table_of_verbs():
    assert_one_face(cli.VERBS)
    with pytest.raises(AssertionError, match=r"bias offers a \.tex file"):
        assert_one_face({**cli.VERBS, "bias": (_planted, cli.VERBS["bias"][1])})
    planted = {**cli.VERBS, "law": (lambda act, json: None, "law tanh")}
    with pytest.raises(AssertionError, match="law lacks"):
        assert_one_face(planted)
    with pytest.raises(AssertionError, match="of another verb"):
        assert_one_face({**cli.VERBS, "law": (cli.VERBS["law"][0], "table tanh")})


@pytest.mark.parametrize("verb", VERBS)
def test_flags_have_no_type(run, verb):
    assert "<bool>" not in run(f"{verb} --help")[1]


@pytest.mark.slow_with(
    "derive tanh-a.json-{", "derive tanh-a.tex-\\begin{table}",
    "law erf --residual --sigma-w 1 --sigma-b 0-a.txt-Large depth", "activations-a.txt-name",
)  # fmt: skip
@pytest.mark.parametrize(
    ("line", "name", "begins"),
    [
        ("derive tanh", "a.json", "{"),
        ("derive tanh", "a.tex", "\\begin{table}"),
        ("law erf --residual --sigma-w 1 --sigma-b 0", "a.txt", "Large depth"),
        ("law erf --residual --sigma-w 1 --sigma-b 0", "a.tex", "\\begin{table}"),
        ("critical gelu", "a.json", "{"),
        ("bias relu --sigma-w 1 --sigma-b 0.1", "a.txt", "ordered"),
        ("widths tanh --sigma-w 1.2 --sigma-b 0.1 --width 64 --depth 5", "a.json", "{"),
        ("activations", "a.txt", "name"),
        ("tune tanh --depth 4", "a.json", "{"),
        ("measure tanh --sigma-w 1 --sigma-b 0 --width 9 --depth 3 --networks 4", "a.csv", "layer,K"),
        ("doctor", "a.json", "{"),
    ],
)
def test_every_verb_writes_a_file(run, tmp_path, line, name, begins):
    code, out, err = run(f"{line} -o {name}")
    assert code == 0 and err.endswith(f"Wrote {name}\n") and (tmp_path / name).read_text().startswith(begins)
    assert (out == "") == (not line.startswith("measure"))
    code, _, err = run(f"{line} -o a.xyz")
    assert code == 2 and "this command writes" in err


def test_doctor_says_what_is_missing(run, monkeypatch):
    found = json.loads(run("doctor --json")[1])["results"]
    assert found["works"] and found["needed"]["sympy"] and found["trial"]["off"] < 1e-12
    monkeypatch.setattr(cli_doctor, "NEEDED", ("sympy", "no-such-package"))
    code, out, _ = run("doctor")
    assert code == 1 and "no-such-package MISSING: pip install no-such-package" in " ".join(out.split())
    monkeypatch.setattr(cli_doctor, "NEEDED", ("sympy",))
    monkeypatch.setattr(cli_doctor, "_trial", lambda: (0.1, 1.0, "K of erf is 1.0e+00 off its closed form"))
    assert run("doctor")[0] == 1 and "it does not work: K of erf" in run("doctor")[1]


def test_an_interrupted_command_says_how_to_go_on(run, monkeypatch):
    def stopped(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "check", stopped)
    code, out, err = run("check tanh --sigma-w 1 --sigma-b 0")
    assert (code, out) == (130, "") and err == (
        "meanfield: interrupted; with --checkpoint FOLDER the same command goes on where it was.\n"
    )
    assert cli_help.interrupted(["law", "tanh"]).endswith("gives the same numbers.")
    given = ["measure", "tanh", "--checkpoint", "run.npz"]
    assert cli_help.interrupted(given) == "interrupted; the same command goes on where it was."


def test_a_measurement_of_nothing_is_refused(run):
    code, out, told = run("measure relu --sigma-w 1e200 --sigma-b 0 --width 10 --networks 3 --depth 3")
    assert code == 2 and not out
    assert "nothing was measured; take a smaller sigma_w, sigma_b or input_norm" in " ".join(told.split())
    assert run("measure relu --sigma-w 1e60 --sigma-b 0 --width 10 --networks 3 --depth 4")[0] == 0  # layers 1 and 2


@pytest.mark.slow_with("derive", "table", "critical", "phase-diagram", "measure", "reproduce", "activations", "demo")
@pytest.mark.parametrize("verb", VERBS)
def test_examples_in_the_help_run(run, faked, verb):
    example = cli.VERBS[verb][1]
    if "data.npz" in example:
        np.savez("data.npz", X=np.array([[1.0, 0.5], [0.2, -1.0], [1.0, 0.5]]))
    if "config.json" in example:
        Path("config.json").write_text('{"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}')
    code, out, err = run(example)
    assert code == 0 and (out or "Wrote" in err)


@pytest.mark.fast_with("--help")
@pytest.mark.parametrize(
    "line",
    [
        "--help",
        "derive tanh --residual",
        "table relu",
        "activations",
        "law tanh --residual",
        "derive foo",
        "critical gelu",
    ],
)
def test_symbolic_verbs_load_nothing_heavy(line):
    code = (
        "import sys; from meanfield.cli.app import main\n"
        f"try: main({line.split()!r})\n"
        f"except SystemExit: print([m for m in {HEAVY} if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"


def test_a_terminal_without_greek_still_gets_its_answer():
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(
        [sys.executable, "-m", "meanfield.cli.app", "derive", "step"], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0 and "K' = sigma_b**2 + sigma_w**2/2" in done.stdout and not done.stderr


# ------------------------------------------------------------------------------------------------- derive, table, law


@pytest.mark.slow
def test_derive_prints_the_first_part_of_the_story(run):
    code, out, err = run("derive tanh --residual")
    assert (code, err) == (0, "")
    for line in (
        "K' = K + sigma_b**2 + sigma_w**2*<tanh(z)**2>_{K}",
        "J' = J*(sigma_w**2*<sech(z)**4>_{K} + 1)",
        "K^1 = Q0*sigma_w**2 + sigma_b**2",
        "chi_J = sigma_w**2*<sech(z)**4>_{K} + 1",
        "log J^(1,l) = 4*sqrt(2)*sqrt(l)*sigma_w**2",
    ):
        assert line in out


@pytest.mark.slow
def test_derive_closes_averages_and_gives_no_law_without_a_unit_skip(run):
    out = run("derive erf")[1]
    assert "K' = sigma_b**2 + 2*sigma_w**2*asin(2*K/(2*K + 1))/pi" in out and "Large depth" not in out
    assert "mu**2" in run("derive relu --mu mu")[1]
    assert "Large depth" in run("derive relu --mu 1")[1]
    assert run("derive relu --mu 0")[1] == run("derive relu")[1]


@pytest.mark.slow
def test_layer_norm(run):
    assert run("derive erf --norm none")[1] == run("derive erf")[1]
    assert "sigma_w**2*<tanh(z)**2>_{1}" in run("derive tanh --norm pre")[1]
    assert "K' = sigma_b**2 + sigma_w**2\n" in run("derive relu --norm act")[1]  # LN(φ(z)) has norm 1
    for norm in ("pre", "act"):
        assert strict(run(f"derive erf --norm {norm} --mu 1/2 --json")[1])["inputs"]["norm"] == norm
        assert "LayerNorm on" in run(f"table erf --norm {norm}")[1]
    assert "everywhere critical" in run("law erf --norm pre --residual")[1]
    line = "propagate gelu --norm act --sigma-w 1.5 --sigma-b 0.1 --depth 9 --input-norm 4 --json"
    layers = strict(run(line)[1])["results"]["layers"]
    assert layers["K"] == pytest.approx([9.01] + [2.26] * 8)


def test_positions_that_act_on_each_other(run, faked):
    """Presets with a BatchNorm or token matrices, in every verb that has something to say of them."""
    norm = "--architecture batchnorm_mlp"
    out = run(f"derive relu {norm}")[1]
    assert "K_ab' = sigma_b**2 + sigma_w**2/(2*pi)" in out and "chi_J = sigma_w**2/(2*K)" in out
    assert "K stands for K - K_ab" in out and "J_ab^1 = 0" in out
    assert set(strict(run(f"derive relu {norm} --json")[1])["results"]["recursion"]) >= {"K_ab", "J_ab"}
    assert "chi_J = pi/(-1 + pi) at the fixed point" in run(f"critical relu {norm}")[1]
    assert "any two tokens" in run("table relu --architecture resmlp")[1]
    assert "averaged over token matrices" in run("derive relu --architecture resmlp")[1]
    assert run(f"check relu {norm} --sigma-w 1 --sigma-b 0 --batch 16")[0] == 0 and faked["theory"].batch == 16
    run("check relu --architecture resmlp --sigma-w 1 --sigma-b 0 --tokens 9")
    assert faked["tokens"] == 9
    for line in ("derive tanh --batch 8", f"derive relu {norm} --batch 3"):
        code, _, err = run(line)
        assert code == 2 and err.startswith("meanfield: ") and err.count("\n") == 1
    named = run(f"propagate relu {norm} --sigma-w 1 --sigma-b 0 --depth 3 --quantities V")[2]
    assert "known here are K, J, Theta, K_ab, J_ab, Theta_ab, c" in named


def test_check_knows_layer_norm(run, faked):
    assert run("check relu --norm pre --mu 1/2 --sigma-w 1 --sigma-b 0.1 --depth 3")[0] == 0
    assert faked["theory"] is meanfield.derive("relu", norm="pre", mu="1/2")


def test_derive_says_that_j_of_a_jump_is_infinite(run):
    out = run("derive step")[1]
    assert "J' = infinite" in out and "J^1" not in out and "chi_J" not in out
    found = strict(run("derive step --json")[1])["results"]
    assert found["recursion"]["J"] == {"step": "inf", "closed_form": "inf", "first": "1"}


@pytest.mark.slow
def test_parameters_of_activations(run):
    assert run("derive leaky_relu --param alpha=0.2")[1] == run("derive 'leaky_relu(0.2)'")[1]
    assert "<tanh(z)**2>" in run("derive 'mu*tanh(z)' --param mu=2")[1]  # not the skip strength


@pytest.mark.slow
def test_derive_json(run):
    code, out, err = run("derive tanh --residual --json")
    found = strict(out)
    assert (code, err) == (0, "") and found["command"] == "derive"
    assert found["inputs"] == {"activation": "tanh", "formula": "tanh(z)", "parameters": {}, "mu": "1", "norm": "none"}
    assert set(found["results"]["recursion"]) == {"K", "J", "Theta", "K_aa", "K_bb", "K_ab"}
    assert found["results"]["depth_laws"]["J"]["rate_power"] == "1/2"
    closed = strict(run("derive relu --json")[1])["results"]["recursion"]["K"]
    assert closed["closed_form"] == "K*sigma_w**2/2 + sigma_b**2" and closed["step"] != closed["closed_form"]


@pytest.mark.parametrize("verb", ["derive", "table", "law"])
def test_latex(run, verb):
    out = run(f"{verb} relu --residual --latex")[1]
    assert out.startswith(r"\begin{table}") and out.rstrip().endswith(r"\end{table}") and r"\ell" in out


def test_the_heading_of_a_law_is_typeset(run):
    out = run("law relu --quantity c --sigma-w 1 --sigma-b 0.1 --correlation 0.3 --latex")[1]
    assert r"$\sigma_b = 1/10$, correlation $= 3/10$" in out


def test_table_is_the_theory_s_own(run):
    assert run("table relu --residual --order 2")[1] == f"{meanfield.derive('relu', residual=True).table(2)}\n"
    found = strict(run("table relu --json")[1])
    assert found["inputs"]["order"] == 3 and {"section", "name", "value", "latex"} <= set(found["results"]["rows"][0])


def test_table_to_a_file(run, tmp_path):
    code, out, err = run("table relu -o t.tex")
    assert (code, out, err) == (0, "", "Wrote t.tex\n")
    assert (tmp_path / "t.tex").read_text() == meanfield.derive("relu").latex() + "\n"
    run("table relu --json -o t.json")
    assert strict((tmp_path / "t.json").read_text())["command"] == "table"


@pytest.mark.slow
def test_law(run):
    out = run("law erf --residual --sigma-w 1 --sigma-b 0")[1]
    assert "log J^(1,l) = 4*sqrt(l)/pi" in out and "1.2732395*l**0.5" in out and f"{4 / math.pi:.7f}" == "1.2732395"
    found = strict(run("law tanh --sigma-w 1 --sigma-b 0 --json")[1])
    assert found["results"]["exponent"] == "-1" and found["inputs"]["sigma_w"] == "1"
    decaying = strict(run("law relu --sigma-w 1 --sigma-b 0 --quantity K --json")[1])["results"]
    assert decaying["rate"] == "-log(2)"  # K' = K/2


# ------------------------------------------------------------------------------------------------- propagate


def relu_by_hand(depth: int, sigma_w: float, sigma_b: float) -> tuple[list[float], list[float]]:
    k, j = [sigma_w**2 + sigma_b**2], [1.0]
    for _ in range(depth - 1):
        k.append(sigma_w**2 * k[-1] / 2 + sigma_b**2)
        j.append(sigma_w**2 * j[-1] / 2)
    return k, j


def test_propagate_prints_selected_layers(run):
    code, out, err = run("propagate relu --sigma-w 1.5 --sigma-b 0.1 --depth 70")
    rows = [line.split() for line in out.splitlines()[4:]]
    assert (code, err) == (0, "") and [int(r[0]) for r in rows] == [1, 2, 3, 5, 10, 20, 50, 70]
    k, j = relu_by_hand(70, 1.5, 0.1)
    for layer, *shown in rows:
        assert [float(x) for x in shown] == pytest.approx([k[int(layer) - 1], j[int(layer) - 1]], rel=1e-7)


def test_propagate_json_holds_every_layer(run):
    found = strict(run("propagate relu --sigma-w 3/2 --sigma-b 0.1 --depth 12 --json")[1])
    k, j = relu_by_hand(12, 1.5, 0.1)
    layers = found["results"]["layers"]
    assert layers["l"] == list(range(1, 13)) and layers["K"] == pytest.approx(k) and layers["J"] == pytest.approx(j)
    assert found["results"]["diverged_at"] == 0 and found["results"]["status"] == "measured"
    assert found["inputs"]["sigma_w"] == 1.5 and found["inputs"]["correlation"] is None


def test_divergence_is_an_answer(run):
    code, out, _ = run("propagate relu2 --sigma-w 3 --sigma-b 0.1 --depth 30")
    assert code == 0 and "K diverges" in out and "layer 9" in out and "-" in out
    found = strict(run("propagate relu2 --sigma-w 3 --sigma-b 0.1 --depth 30 --json")[1])["results"]
    assert found["status"] == "diverges" and found["layers"]["K"][-1] == "inf" and found["layers"]["J"][-1] is None


def test_j_beyond_the_doubles_keeps_its_digits(run):
    out = run("propagate tanh --sigma-w 10 --sigma-b 0 --depth 600")[1]
    last = out.splitlines()[-1].split()[-1]
    log_j = float(meanfield.derive("tanh").propagate(sigma_w=10, sigma_b=0, depth=600).log_J[-1])
    mantissa, exponent = last.split("e")
    assert math.log(float(mantissa)) + int(exponent) * math.log(10) == pytest.approx(log_j, rel=1e-6)
    found = strict(run("propagate tanh --sigma-w 10 --sigma-b 0 --depth 600 --json")[1])["results"]["layers"]
    assert found["J"][-1] == "inf" and found["log_J"][-1] == log_j


def test_two_inputs(run):
    out = run("propagate relu --sigma-w 1.5 --sigma-b 0.1 --depth 3 --correlation -0.5")[1]
    assert out.splitlines()[3].split() == ["layer", "K_aa", "K_bb", "K_ab", "c"]
    assert float(out.splitlines()[4].split()[3]) == pytest.approx(-0.5 * 2.25 + 0.01)
    only = run("propagate relu --sigma-w 1.5 --sigma-b 0.1 --depth 3 --correlation 1 --quantities c")[1]
    assert [line.split() for line in only.splitlines()[4:]] == [["1", "1"], ["2", "1"], ["3", "1"]]


def test_run_to_files(run, tmp_path):
    line = "propagate relu --sigma-w 1.5 --sigma-b 0.1 --depth 8 --quantities K,J,Theta -o "
    k, j = relu_by_hand(8, 1.5, 0.1)
    assert run(line + "run.csv")[2] == "Wrote run.csv\n"
    with open(tmp_path / "run.csv", newline="") as text:
        rows = list(csv.DictReader(text))
    assert list(rows[0]) == ["layer", "K", "J", "Theta", "log_J"] and [float(r["K"]) for r in rows] == pytest.approx(k)
    run(line + "run.npz")
    with np.load(tmp_path / "run.npz") as arrays:
        assert arrays["J"] == pytest.approx(j) and arrays["sigma_w"] == 1.5 and arrays["diverged_at"] == 0
    run(line + "run.png")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.csv", "run.npz", "run.png"]  # and no temporary file


# ------------------------------------------------------------------------------------------------- check, demo


def test_check_exit_codes(run, faked):
    line = "check tanh --residual --sigma-w 1.2 --sigma-b 0.1 --width 30 --depth 5 --networks 7 --seed 3"
    code, out, _ = run(line)
    assert code == 0 and out.endswith("PASSED\n") and max(map(len, out.splitlines())) < 80
    names = ("sigma_w", "sigma_b", "width", "depth", "networks", "seed", "input_norm", "correlation")
    assert [faked[n] for n in names] == [1.2, 0.1, 30, 5, 7, 3, 1.0, None]
    faked["report"] = fake_report(z=math.inf)
    assert run(line)[0] == 1


def test_check_json_and_files(run, faked, tmp_path):
    faked["report"] = fake_report(z=-math.inf)
    code, out, err = run("check tanh --sigma-w 1.2 --sigma-b 0.1 --depth 5 --json -o report.json")
    found = strict(out)
    assert (code, err) == (1, "Wrote report.json\n") and found["results"]["rows"][0]["z"] == "-inf"
    assert (tmp_path / "report.json").read_text() == out and "schema" not in found["results"]
    run("check tanh --sigma-w 1.2 --sigma-b 0.1 -o report.png")
    assert (tmp_path / "report.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_check_for_real(run):
    line = "check relu --residual --mu 1/2 --sigma-w 1 --sigma-b 0.1 --width 40 --depth 4 --networks 60"
    code, out, err = run(line)
    assert (code, err) == (0, "") and "PASSED" in out and max(map(len, out.splitlines())) < 80
    assert run(line + " --json")[1] == run(line + " --json")[1]  # same seed, same numbers
    found = strict(run(line + " --json")[1])["results"]
    assert found["passed"] is True and {r["quantity"] for r in found["rows"]} == {"K", "J"}


@pytest.mark.slow
def test_demo(run, faked, monkeypatch, tmp_path):
    code, out, _ = run("demo")
    files = tmp_path / "meanfield-demo"
    assert code == 0 and sorted(p.name for p in files.iterdir()) == [
        "propagate.png",
        "report.json",
        "source.py",
        "table.tex",
    ]
    assert (
        max(map(len, out.splitlines())) <= 80 and "Large-width theory" in out and "report.json to meanfield-demo" in out
    )
    strict((files / "report.json").read_text())
    compile((files / "source.py").read_text(), "source.py", "exec")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, out, err = run("demo -o bare")
    assert code == 0 and "pip install" in err and not (tmp_path / "bare" / "propagate.png").exists()
    faked["report"] = fake_report(z=9)
    assert run("demo -o again")[0] == 1 and (tmp_path / "again" / "report.json").exists()


# ------------------------------------------------------------------------------------------------- activations


def test_activations(run):
    out = run("activations")[1]
    assert [line.split()[0] for line in out.splitlines()[1:] if not line.startswith(" ")] == list(
        meanfield.activations()
    )
    found = {a["name"]: a for a in strict(run("activations --json")[1])["results"]}
    assert found["tanh"]["parity"] == "odd" and found["tanh"]["kinks"] == [] and found["tanh"]["homogeneity"] is None
    assert found["relu"]["homogeneity"] == "1"
    assert found["relu"]["kinks"] == [{"z": "0", "jump": "0", "slope_jump": "1"}]
    assert found["step"]["continuous"] is False and found["leaky_relu"]["parameters"] == {"alpha": "1/100"}


# ------------------------------------------------------------------------------------------------- bad requests

LAYERS = "propagate tanh --sigma-b 0.1"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("derive foo", "'foo'"),
        ("derive \"__import__('os')\"", "not allowed"),
        ("derive z.__class__", "not allowed"),
        ("derive 1/z", "not real and finite"),
        ("derive tanh --mu nan", "finite number"),
        ("derive tanh --mu -1", "≥ 0"),
        ("derive tanh --mu K", "already has a meaning"),
        ("derive 'a*tanh(z)' --param a=sigma_w", "already has a meaning"),
        ("derive leaky_relu --param beta=2", "no parameter 'beta'"),
        ("derive leaky_relu --param alpha", "name=value"),
        ("derive leaky_relu --param alpha=1 --param alpha=2", "each name once"),
        ("derive tanh --latex --json", "choose one"),
        ("derive tanh --norm foo", "--norm must be one of none, pre, act, but 'foo'"),
        ("check tanh --norm batch --sigma-w 1 --sigma-b 0", "none, pre, act"),
        ("law tanh --sigma-w 1", "sigma_b"),
        ("law tanh --quantity W --sigma-w 1 --sigma-b 0", "'W'"),
        ("law tanh --sigma-w \"__import__('os')\" --sigma-b 0", "--sigma-w must be a finite number"),
        (f"{LAYERS} --sigma-w nan --depth 5", "--sigma-w must be a finite number"),
        (f"{LAYERS} --sigma-w inf --depth 5", "--sigma-w must be a finite number"),
        (f"{LAYERS} --sigma-w 1/0 --depth 5", "--sigma-w must be a finite number"),
        (f"{LAYERS} --sigma-w -1 --depth 5", "≥ 0"),
        (f"{LAYERS} --sigma-w 1 --depth 0", "--depth"),
        (f"{LAYERS} --sigma-w 1 --depth 99999999999", "--depth"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --mu mu", "--mu must be a number"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --correlation 1.5", "between -1 and 1"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --quantities W", "K, J, Theta"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --quantities ,", "names none"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --quantities K_ab", "--correlation"),
        (f"{LAYERS} --sigma-w 1 --depth 5 --quantities J,K_aa --correlation 0", "of any norms, and J"),
        (f"{LAYERS} --sigma-w 1 --depth 5 -o run.xyz", ".csv"),
        (f"{LAYERS} --sigma-w 1 --depth 5 -o no/run.csv", "does not exist"),
        ("propagate swish --param beta=b --sigma-w 1 --sigma-b 0 --depth 3", "parameter b must be a number"),
        ("propagate step --sigma-w 1 --sigma-b 0 --depth 3 --quantities J", "infinite"),
        ("check tanh --sigma-w 1 --sigma-b 0 --networks 0", "networks"),
        ("check tanh --sigma-w 1 --sigma-b 0 --depth 0", "--depth"),
        ("check tanh --sigma-w 1 --sigma-b 0 -o report.csv", ".json"),
    ],
)
def test_one_sentence_and_exit_code_2(run, tmp_path, line, words):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("meanfield: ") and err.count("\n") == 1 and words in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "line",
    ["nosuch", "derive", f"{LAYERS} --depth 5", f"{LAYERS} --sigma-w 1 --depth 1.5", "table tanh --order 0", "--foo"],
)
def test_usage_errors_exit_2(run, line):
    code, out, err = run(line)
    assert (code, out) == (2, "") and "Usage" in err


def test_not_enough_memory_is_said(run, monkeypatch):
    def greedy(*_, **__):
        raise MemoryError

    monkeypatch.setattr(cli_output, "derivation", greedy)
    code, _, err = run("derive tanh")
    assert code == 2 and "memory" in err


def test_figures_need_matplotlib_and_say_so_first(run, monkeypatch, faked):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    code, _, err = run("check tanh --sigma-w 1 --sigma-b 0 -o report.png")
    assert code == 2 and "pip install" in err and "theory" not in faked  # before the work, not after it


@pytest.mark.parametrize("line", ["table relu -o t.tex", f"{LAYERS} --sigma-w 1 --depth 3 -o t.tex.csv"])
def test_files_are_whole_or_untouched(run, monkeypatch, tmp_path, line):
    target = tmp_path / line.split()[-1]
    target.write_text("before")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    code, _, err = run(line)
    assert code == 2 and "No space left" in err
    assert target.read_text() == "before" and list(tmp_path.iterdir()) == [target]


def test_a_folder_is_not_overwritten(run, tmp_path):
    (tmp_path / "folder").mkdir()
    code, _, err = run("table relu -o folder")
    assert code == 2 and "not a file" in err


# ------------------------------------------------------------------------------------------------- helpers


@pytest.mark.slow_with(
    "derive tanh --residual", "derive mish --residual", "derive selu --residual", "table hard_tanh --residual"
)
@pytest.mark.parametrize(
    "line",
    [f"derive {a} --residual" for a in ("tanh", "mish", "selu", "polynomial", "step")]
    + ["table mish", "table selu", "table hard_tanh --residual", "law erf --residual", "activations"]
    + ["propagate relu --residual --sigma-w 1.5 --sigma-b 0.1 --depth 2000"]
    + ["propagate relu --sigma-w 1.5 --sigma-b 0.1 --depth 20 --correlation -0.5", "derive gelu --norm act --mu mu"],
)
def test_output_fits_80_columns(run, line):
    code, out, _ = run(line)
    assert code == 0 and max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("columns", [40, 79])
def test_wrapping_loses_nothing(columns, monkeypatch):
    monkeypatch.setattr(cli_output, "COLUMNS", columns)
    text = (
        "  K' = " + " + ".join(f"sigma_w**{i}*sqrt(pi)*f(K, {i})/3" for i in range(20)) + "\n\nshort line\n" + "9" * 200
    )
    wrapped = cli_output.wrapped(text)
    assert max(map(len, wrapped.splitlines())) <= columns
    assert "".join(wrapped.split()) == "".join(text.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [("1.5", 1.5), ("3/2", 1.5), ("sqrt(2)", math.sqrt(2)), ("1e-3", 1e-3), ("1e200", 1e200), ("-2", -2)],
)
def test_numbers(text, value):
    assert cli_reading.double(text, "--x") == value


def test_numbers_stay_exact():
    assert cli_reading.number("0.1", "--x") * 10 == 1 and cli_reading.number("sqrt(2)", "--x") ** 2 == 2


def test_plain_values():
    given = {"a": np.array([1.0, np.inf, -np.inf, np.nan]), 2: (True, None, np.float64(0.5), meanfield.derive("relu"))}
    found = cli_output.plain(given)
    assert found["a"] == [1.0, "inf", "-inf", None] and found["2"][:3] == [True, None, 0.5]
    assert isinstance(found["2"][3], str)


@pytest.mark.slow
def test_law_of_a_full_residual_network(run):
    """Exponents that --decay leaves out give the table, all given one law; no σ the laws at critical points."""
    whole = "law relu --architecture full_residual --quantity K,J"
    code, text, _ = run(whole + " --decay b=1,a=1")
    assert code == 0 and "beta_v + beta_w < 1" in text and "log(l)" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    code, text, _ = run(whole + " --decay v=1/2,w=1/4,a=1,b=1 --sigma-w 1 --param sigma_v=1 --json")
    found = strict(text)["results"]
    assert code == 0 and len(found["rows"]) == 1 and found["rows"][0]["cases"][0]["laws"]["J"].startswith("C*Product(")
    code, text, _ = run("law gelu --quantity K")
    assert code == 0 and "At the critical point sigma_w = 1.408211013" in text
    code, text, _ = run("law relu")
    assert code == 0 and "At the critical point sigma_w = 1.414213562" in text and "log J^(1,l) = 0" in text
    code, text, _ = run("law relu --quantity gamma")
    assert code == 0 and "2*l**2/(9*pi**2)" in text
    code, _, error = run("law exp(-z**2)")
    assert code == 2 and "has no critical point" in error
    code, _, error = run(whole + " --decay x=1")
    assert code == 2 and "letters" in error
    code, _, error = run("law tanh --architecture full_residual --quantity c --correlation 0.5")
    assert code == 2 and "leave --correlation out" in error


@pytest.mark.slow
def test_correlators_of_order_1_by_n(run):
    """--weights, --lambda-w and --lambda-b: the numbers of `propagate`, four columns a table; V and F of networks."""
    command = "propagate tanh --sigma-w 1 --sigma-b 0 --depth 3 --quantities V,F,R,A,G1 --weights orthogonal"
    code, text, _ = run(f"{command} --lambda-w 1 --lambda-b 1/l")
    assert code == 0 and "orthogonal weights" in text and "lambda_b 1/l" in text
    assert all(len(line) <= 80 for line in text.splitlines()) and text.count("layer") == 2
    found = strict(run(f"{command} --lambda-w 1 --lambda-b 1/l --json")[1])
    assert found["inputs"]["weights"] == "orthogonal" and found["inputs"]["lambda_b"] == "1/l"
    theory = meanfield.derive("tanh", weights="orthogonal")
    expected = theory.propagate(sigma_w=1, sigma_b=0, depth=3, quantities=("V", "R"), lambda_w=1, lambda_b="1/l")
    assert found["results"]["layers"]["V"] == expected.V.tolist()
    assert found["results"]["layers"]["R"] == pytest.approx(expected.R.tolist(), rel=1e-13)
    for wrong, sentence in (
        ("--weights haar", "--weights must be one of"),
        ("--residual", "of networks with a skip K, J, V, G1, J1 are derived"),
        ("--lambda-b -1", "lambda_b must be"),
        ("--lambda-w x", "--lambda-w must be a finite number"),
        ("--architecture full_residual --weights orthogonal", "is of the plain layer"),
    ):
        code, _, error = run(command.replace(" --weights orthogonal", "") + " " + wrong)
        assert code == 2 and sentence in " ".join(error.split()), error


def test_maps_and_derivations_of_order_one_over_n(run):
    """--quantities shows these maps alone, --steps how they are found; both as text, LaTeX and JSON."""
    code, out, _ = run("derive tanh --weights orthogonal --quantities V")
    assert code == 0 and "V^1 = -2*Q0**2*sigma_w**4" in out and "-3*sigma_w**4*<tanh(z)**2>_{K}**2" in out
    assert "-3*" not in run("derive tanh --quantities V")[1]
    assert r"$V^{\ell+1}$" in run("derive tanh --quantities V --latex")[1]
    rows = strict(run("derive tanh --weights mixed --quantities V,J1 --json")[1])
    assert rows["inputs"]["weights"] == "mixed" and any(r["name"] == "J1_J'" for r in rows["results"]["rows"])
    code, out, _ = run("derive tanh --weights orthogonal --quantities K,F --steps")
    assert code == 0 and "pairings: equal labels" in out and "K' = C_W*<σ**2> + C_b\n\nσ = φ(z)" in out
    assert max(map(len, out.splitlines())) < 80
    latex = run("derive tanh --quantities F --steps --latex")[1]
    assert latex.startswith("{\\allowdisplaybreaks\n\\begin{align*}") and latex.endswith("\\end{align*}}\n")
    assert set(strict(run("derive relu --quantities V,G1 --steps --json")[1])["results"]["steps"]) == {"V", "G1"}
    for line, words in (
        ("derive tanh --steps", "--steps of no quantity is not available"),
        ("derive tanh --quantities J --steps", "--steps of J"),
        ("derive tanh --quantities W", "--quantities of W"),
        ("derive tanh --residual --quantities V", "has a skip"),
    ):
        code, out, err = run(line)
        assert code == 2 and words in err and not out
