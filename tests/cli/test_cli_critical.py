"""`meanfield critical` and `meanfield phase-diagram`: what they print, against independent quadrature and orbits."""

from __future__ import annotations

import csv
import math
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest
import sympy as sp
from scipy.special import erf

import meanfield
from meanfield.cli.terminal import critical_output as cli_criticality
from meanfield.presentation.phase_diagram import PHASES as NAMES
from tests.cli import test_cli

run, strict = test_cli.run, test_cli.strict
POINT = "critical gelu --sigma-w 1.7 --sigma-b 0"
SMALL = "phase-diagram erf --sigma-w 0,3,61 --sigma-b 0,3,61"


def shown(text: str, section: str, name: str) -> str:
    """The right-hand side of one row of a printed table, lines joined, without its remark."""
    body = text.split(f"\n{section}", 1)[1].split("\n\n", 1)[0]
    found = re.search(rf"(?m)^  {re.escape(name)} = (.*(?:\n      \S.*)*)", body)
    assert found, f"{name} is not in {body}"
    return " ".join(found[1].split())


def gelu(z):
    """φ, φ′, φ″ of GELU, by hand."""
    p, d = (1 + erf(z / np.sqrt(2))) / 2, np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
    return z * p, p + z * d, (2 - z**2) * d


def susceptibilities(k: float, w: float, b: float) -> tuple[float, float, float]:
    """(K' - K, χ_J, χ_K) of GELU at K, by the trapezoidal rule: nothing of the engine."""
    t = np.linspace(-12, 12, 4001)
    weight = np.exp(-(t**2) / 2) * (t[1] - t[0]) / np.sqrt(2 * np.pi)
    f, slope, bend = gelu(np.sqrt(k) * t)
    mean = (weight * f**2).sum(), (weight * slope**2).sum(), (weight * f * bend).sum()
    return w**2 * mean[0] + b**2 - k, w**2 * mean[1], w**2 * (mean[1] + mean[2])


# ------------------------------------------------------------------------------------------------- critical


def test_critical_points_of_gelu(run):
    """The printed digits solve K' = K, χ_J = χ_K = 1 of an independent quadrature."""
    code, out, err = run("critical gelu")
    assert (code, err) == (0, "")
    section = "Critical point 2 (half-stable, attracts from above, repels below)"
    k, w, b = (float(shown(out, section, f"{n}, in digits")) for n in ("K*", "sigma_w", "sigma_b"))
    gap, chi_j, chi_k = susceptibilities(k, w, b)
    assert abs(gap) < 1e-11 and abs(chi_j - 1) < 1e-11 and abs(chi_k - 1) < 1e-11
    planted = susceptibilities(k, w * (1 + 1e-9), b)
    assert abs(planted[0]) > 1e-10 and abs(planted[1] - 1) > 1e-10
    assert shown(out, section, "zeta").startswith("-8*sqrt(17) - 32") and shown(out, section, "zeta_K").startswith("1")
    assert "log(l)" in shown(out, section, "log J^(1,l)") and "6962.507377304/l" in shown(out, section, "K^l")
    assert "there are no others" in " ".join(out.split())
    assert shown(out, "Critical point 1 (repelling", "sigma_w") == "2"


@pytest.mark.slow_with(
    "critical erf-sigma_w = sqrt(pi)/2", "critical erf-log J^(1,l) = -log(l) + C + log(l)/(6*l) + smaller order",
    "critical erf --mu mu-sigma_w = sqrt(pi)*sqrt(1 - mu**2)/2",
    "critical hard_tanh-K^l = 1/(2*log(l)) + smaller order",
)  # fmt: skip
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("critical erf", "sigma_w = sqrt(pi)/2"),
        ("critical erf", "log J^(1,l) = -log(l) + C + log(l)/(6*l) + smaller order"),
        ("critical erf --mu mu", "sigma_w = sqrt(pi)*sqrt(1 - mu**2)/2"),
        ("critical relu", "K* = any K"),
        ("critical erf --norm pre", "every point of the critical line is critical"),
        ("critical relu --norm act", "sigma_b = sigma_w/sqrt(-1 + pi)"),
        ("critical erf --residual", "line = none"),
        ("critical relu --norm pre --residual", "line = everywhere"),
        ("critical step", "φ jumps"),
        ("critical hard_tanh", "K^l = 1/(2*log(l)) + smaller order"),
    ],
)
def test_lines_and_points(run, line, words):
    code, out, err = run(line)
    assert (code, err) == (0, "") and words in " ".join(out.split())


@pytest.mark.slow
def test_certified_numbers_show_thirteen_digits(run):
    text, data = run("critical swish")[1], strict(run("critical swish --json")[1])["results"]["points"][1]
    section = "Critical point 2"
    for name in ("K", "sigma_w", "sigma_b", "zeta"):
        ball, printed = data[name], shown(text, section, "K*" if name == "K" else name).split()[0]
        assert ball["status"] == "certified" and 0 < ball["error"] < 1e-20
        assert ball["float"] == pytest.approx(float(ball["value"]), rel=1e-15)
        assert len(printed.replace(".", "").lstrip("0")) == 13
        value = sp.Rational(ball["value"])
        assert abs(sp.Rational(printed) - value) < value * sp.Rational("1e-12")


@pytest.mark.slow
def test_fixed_points_basins_and_phase(run):
    """Inputs on either side of the printed edge of the basin flow where it says."""
    out = run(POINT)[1]
    low, high = (f"Fixed point {i} at sigma_w = 17/10, sigma_b = 0" for i in (1, 2))
    edge = float(shown(out, f"{high} (unstable, chaotic)", "K*"))
    assert shown(out, f"{low} (stable, ordered)", "basin") == f"K^1 in (0, {edge})"
    assert shown(out, "All fixed points", "unbounded from") == f"K^1 in ({edge}, oo)"
    assert shown(out, "Phase at", "phase").startswith("chaotic Other input norms")
    theory = meanfield.derive("gelu")
    for factor, verdict in ((0.99, "ordered"), (1.01, "chaotic")):
        norm = factor * edge / 1.7**2
        k = theory.propagate(sigma_w=1.7, sigma_b=0, input_norm=norm, depth=200, every_layer=False, quantities=("K",)).K
        assert (k[-1] < 1e-3) == (verdict == "ordered")
        assert shown(run(f"{POINT} --input-norm {norm}")[1], "Phase at", "phase").startswith(verdict)


def test_critical_json(run):
    code, out, err = run(f"{POINT} --json")
    found = strict(out)
    results = found["results"]
    assert (code, err, found["command"]) == (0, "", "critical")
    assert found["inputs"]["sigma_w"] == "17/10" and found["inputs"]["input_norm"] == "1"
    assert set(results) == {"line", "points", "status", "message", "fixed_points", "phase", "rows"}
    assert results["points"][1]["K"]["value"] == "3/2 + sqrt(17)/2"
    assert results["points"][0]["laws"] == {"K": None, "J": None}
    stable, unstable = results["fixed_points"]["points"]
    assert stable["K"]["value"] == "0" and stable["chi_J"]["value"] == "289/400" and stable["phase"] == "ordered"
    assert unstable["basin"] is None and results["fixed_points"]["unbounded"][1] == "inf"
    ball = unstable["K"]
    gap = [susceptibilities(ball["float"] * f, 1.7, 0)[0] for f in (1 - 1e-10, 1 + 1e-10)]
    assert gap[0] < 0 < gap[1] and ball["error"] < 1e-20
    phase = results["phase"]
    assert phase.pop("xi") == pytest.approx(1 / math.log(1.445), rel=1e-14)
    assert phase.pop("chi_J")["value"] == "289/200"
    assert phase | {"status": 0, "message": 0} == {
        "name": "chaotic", "K": "inf", "bistable": True, "status": 0, "message": 0
    }  # fmt: skip
    line = results["line"]
    assert line["kind"] == "parametric" and "<" in line["parametric"]["sigma_w^2"]


def test_json_without_a_place_and_with_infinities(run):
    found = strict(run("critical erf --mu mu --json")[1])
    assert found["results"]["phase"] is None and found["results"]["fixed_points"] is None
    assert "sigma_w" not in found["inputs"] and found["inputs"]["mu"] == "mu"
    jump = strict(run("critical step --sigma-w 1 --sigma-b 1 --json")[1])["results"]["fixed_points"]["points"][0]
    assert jump["chi_J"]["value"] == "inf" and jump["chi_J"]["status"] == "does not exist"
    every = strict(run("critical relu --sigma-w sqrt(2) --sigma-b 0 --json".replace("sqrt(2)", "'sqrt(2)'"))[1])[
        "results"
    ]
    assert every["fixed_points"]["points"][0]["K"]["value"] == "K" and every["phase"]["xi"] == "inf"


def well_formed(text: str) -> bool:
    """Braces, \\left … \\right, dollars and environments of a LaTeX table pair up, and text holds no bare _ or ^."""
    bare = text.replace(r"\{", "").replace(r"\}", "")
    depth = 0
    for c in bare:
        depth += (c == "{") - (c == "}")
        if depth < 0:
            return False
    pairs = len(re.findall(r"\\left(?![a-z])", bare)) == len(re.findall(r"\\right(?![a-z])", bare))
    outside = re.sub(r"\$[^$]*\$", "", bare)
    ends = re.findall(r"\\begin{(\w+)}", text) == re.findall(r"\\end{(\w+)}", text)[::-1]
    return depth == 0 and pairs and bare.count("$") % 2 == 0 and not re.search(r"(?<!\\)[_^]", outside) and ends


LATEX = [f"{POINT} --latex", "critical step --sigma-w 1 --sigma-b 0 --latex", "critical swish --mu mu --latex"]


@pytest.mark.slow_with("critical swish --mu mu --latex")
@pytest.mark.parametrize("line", LATEX)
def test_critical_latex(run, line):
    out = run(line)[1]
    assert out.startswith(r"\begin{table}") and well_formed(out)
    assert not well_formed(out.replace("}", "", 1)) and not well_formed(out.replace(r"\caption{", r"\caption{chi_J", 1))


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_critical_latex_compiles(run, tmp_path):
    body = "\n\\clearpage\n".join(run(line)[1] for line in LATEX)
    head = r"\documentclass{article}\usepackage{amsmath,booktabs}\begin{document}"
    (tmp_path / "a.tex").write_text(f"{head}\n{body}\n\\end{{document}}\n")
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "a.tex"], cwd=tmp_path, capture_output=True
    )
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-800:]


@pytest.mark.slow_with(
    "critical polynomial", "critical swish --mu mu", "phase-diagram erf --sigma-w 0,3,61 --sigma-b 0,3,61",
    "phase-diagram gelu --sigma-w 1,2,40 --sigma-b 0,0.5,40",
)  # fmt: skip
@pytest.mark.parametrize(
    "line",
    [f"critical {a}" for a in ("erf", "gelu", "step", "relu --norm act", "polynomial", "tanh --mu mu --norm act")]
    + [POINT, "critical swish --mu mu", "critical erf --residual --sigma-w 1 --sigma-b 0"]
    + [SMALL, "phase-diagram gelu --sigma-w 1,2,40 --sigma-b 0,0.5,40"],
)
def test_output_fits_80_columns(run, line):
    code, out, _ = run(line)
    assert code == 0 and max(map(len, out.splitlines())) <= 80


# ------------------------------------------------------------------------------------------------- phase diagrams


def cells(text: str) -> list[str]:
    return [line.split("|")[1] for line in text.splitlines() if "|" in line]


def closed_line(sigma_w: float) -> float:
    """σ_b on the critical line of erf: σ_w² = π√(1+4K)/4 inverted, σ_b² = K - σ_w² ⟨erf²⟩."""
    k = ((4 * sigma_w**2 / math.pi) ** 2 - 1) / 4
    return math.sqrt(max(k - sigma_w**2 * 2 / math.pi * math.asin(2 * k / (1 + 2 * k)), 0)) if k > 0 else -1


@pytest.mark.slow
def test_the_map_shows_the_phases(run):
    code, out, err = run(SMALL)
    rows = cells(out)
    assert (code, err, len(rows)) == (0, "", 20) and {len(r) for r in rows} == {60}
    for r, row in enumerate(rows[::-1]):
        for c, mark in enumerate(row):
            w, b = round(c * 60 / 59) * 0.05, round(r * 60 / 19) * 0.05
            gap = closed_line(w) - b
            assert mark == ("#" if gap > 0 else "o") or abs(gap) < 1e-6
    assert out.splitlines()[0].startswith("MLP, erf: sigma_w 0 to 3 (61)") and "o ordered, # chaotic" in out


@pytest.mark.slow
def test_bistable_cells_are_marked(run):
    out = run("phase-diagram gelu --sigma-w 1,2.2,60 --sigma-b 0,0.6,60")[1]
    assert "O" in cells(out)[-1] and "@" in cells(out)[-1] and "other input norms end" in " ".join(out.split())
    assert not set("O@") & set("".join(cells(out)[:4]))


def test_what_is_not_a_number_is_marked():
    diagram = meanfield.derive("erf").phase_diagram(sigma_w=(0, 3, 20), sigma_b=(0, 3, 20))
    chi = diagram.chi_J.copy()
    chi[:, :10] = np.nan
    lost = replace(diagram, chi_J=chi)
    assert all(row.startswith("?" * 30) for row in cells(cli_criticality.phase_map(lost)))
    assert (
        "? not a number" in cli_criticality.phase_map(lost)
        and cli_criticality.summary(lost)["shares"]["unknown"] == 0.5
    )
    assert "?" not in cli_criticality.phase_map(diagram)


@pytest.mark.parametrize("count", [2, 19, 20, 21, 300])
def test_cells_cover_every_point(count):
    found = cli_criticality._cells(count, 20)
    assert len(found) == 20 and found[0][0] == 0 and found[-1][0] == count - 1
    assert all(low <= centre < high for centre, low, high in found)
    assert set().union(*(range(low, high) for _, low, high in found)) == set(range(count))


@pytest.mark.slow
def test_phase_diagram_json_is_a_summary(run):
    code, out, err = run(f"{SMALL} --json")
    found = strict(out)["results"]
    assert (code, err) == (0, "") and found["sigma_w"] == {"low": 0.0, "high": 3.0, "count": 61}
    assert (
        sum(found["shares"].values()) == pytest.approx(1) and found["bistable"] == 0 and found["status"] == "measured"
    )
    chaotic = np.mean([closed_line(w) > b for w in np.linspace(0, 3, 61) for b in np.linspace(0, 3, 61)])
    assert found["shares"]["chaotic"] == pytest.approx(chaotic, abs=1e-9)
    assert found["line"]["kind"] == "closed"
    assert found["critical_points"]["points"][0]["sigma_w"]["value"] == "sqrt(pi)/2"
    assert len(out) < 8000


def test_phase_diagram_files(run, tmp_path):
    small = "phase-diagram erf --sigma-w 0.5,2,4 --sigma-b 0,1,3"
    code, out, err = run(f"{small} -o d.npz")
    assert (code, err) == (0, "Wrote d.npz\n") and out.startswith("MLP, erf") and "|" not in out
    with np.load(tmp_path / "d.npz") as arrays:
        rows = [0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]
        assert arrays["phase"].tolist() == [[NAMES[i] for i in row] for row in rows]
        chi = arrays["chi_J"]
    run(f"{small} -o d.csv")
    with open(tmp_path / "d.csv", newline="") as text:
        rows = list(csv.DictReader(text))
    assert [float(r["chi_J"]) for r in rows] == pytest.approx(chi.ravel().tolist())
    for name, head in (("d.png", b"\x89PNG"), ("d.pdf", b"%PDF"), ("d.svg", b"<?xml")):
        assert run(f"{small} -o {name}")[0] == 0 and (tmp_path / name).read_bytes().startswith(head)
    assert len(list(tmp_path.iterdir())) == 5  # and no temporary file


def test_the_input_norm_decides_where_both_states_attract(run):
    line = "phase-diagram gelu --sigma-w 1.5,1.6,2 --sigma-b 0,0.01,2 --json --input-norm"
    shares = [strict(run(f"{line} {q}")[1])["results"]["shares"] for q in (0.001, 10)]
    assert shares[0]["ordered"] == 1 and shares[1]["chaotic"] == 1


# ------------------------------------------------------------------------------------------------- bad requests


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("critical erf --norm foo", "none, pre, act"),
        ("critical erf --latex --json", "choose one"),
        ("critical erf --sigma-w 1", "--sigma-b is missing"),
        ("critical erf --sigma-b 1", "--sigma-w is missing"),
        ("critical erf --input-norm 2", "without --sigma-w and --sigma-b"),
        ("critical erf --sigma-w -1 --sigma-b 0", "--sigma-w must be ≥ 0"),
        ("critical erf --sigma-w x --sigma-b 0", "--sigma-w must be a finite number"),
        ("critical erf --mu mu --sigma-w 1 --sigma-b 0", "number for --mu"),
        ("critical swish --param beta=b", "parameter b must be a number"),
        ("phase-diagram step", "φ jumps"),
        ("phase-diagram erf --mu mu", "--mu must be a number"),
        ("phase-diagram swish --param beta=b", "parameter b must be a number"),
        ("phase-diagram erf --sigma-w 0,3", "LO,HI,N, such as 0,3,300"),
        ("phase-diagram erf --sigma-w 0,3,x", "N of --sigma-w must be a whole number"),
        ("phase-diagram erf --sigma-b 0,3,1", "N of --sigma-b must be a whole number from 2"),
        ("phase-diagram erf --sigma-b 0,nan,9", "HI of --sigma-b must be a finite number"),
        ("phase-diagram erf --sigma-b 3,0,9", "LO ≥ 0"),
        ("phase-diagram erf --sigma-w 0,3,10000 --sigma-b 0,3,10000", "2^26"),
        ("phase-diagram erf --input-norm 0", "> 0"),
        ("phase-diagram erf -o d.txt", ".npz"),
        ("phase-diagram erf -o no/d.npz", "does not exist"),
    ],
)
def test_one_sentence_and_exit_code_2(run, tmp_path, line, words):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert err.startswith("meanfield: ") and err.count("\n") == 1 and words in err
    assert not list(tmp_path.iterdir())
