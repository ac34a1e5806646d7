"""LaTeX that can be printed: every line fits \\textwidth, long maps name their averages, nothing is left in ASCII.

The pure checks run everywhere: they read the LaTeX with `tex_read` and estimate its widths. Where TeX is installed the
same documents are set, and estimates are held against TeX's own boxes.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import unicodedata

import pytest
import sympy as sp

import meanfield as mf
from meanfield.base.answers.latex import aligned, tex
from meanfield.base.symbols import K, sigma_b, sigma_w
from meanfield.base.tex.lines import lines
from meanfield.base.tex.prose import _text_box, escape, prose, wrapped
from meanfield.base.tex.read import UnreadableTex, read
from meanfield.base.tex.width import TEXTWIDTH, width
from meanfield.networks.records import Dense, Nonlinearity, Residual, Sequential
from meanfield.presentation.columns import column_width
from meanfield.presentation.tables import _HEIGHT, Table, TableRow, _Cell, _pages
from meanfield.symbolic.averages.expansions.expansion import at_infinity

TEX = shutil.which("pdflatex")
ARCHITECTURES = {
    "plain": {},
    "residual": {"residual": True},
    "mu": {"mu": "mu"},
    "pre": {"norm": "pre"},
    "act": {"norm": "act"},
    "pre, mu": {"norm": "pre", "mu": "mu"},
    "act, mu": {"norm": "act", "mu": "mu"},
    "two Dense": None,
}
FEW = [("tanh", "residual"), ("elu", "act, mu"), ("gelu_tanh", "plain"), ("elu", "two Dense")]
ALL = [(name, a) for name in mf.activations() for a in ARCHITECTURES if (name, a) not in FEW]
HEAD = "\\documentclass{article}\n\\usepackage{amsmath,booktabs}\n\\begin{document}\n"


def theory(name: str, architecture: str) -> mf.Theory:
    keywords = ARCHITECTURES[architecture]
    if keywords is None:
        twice = Sequential((Nonlinearity(name), Dense(), Nonlinearity(name), Dense()))
        return mf.derive(architecture=Residual(twice, 1))
    return mf.derive(name, **keywords)


# -------------------------------------------------------------------------------------------------- what is demanded


def assert_readable(text: str) -> None:
    """Every formula between dollars is balanced, uses known macros only, and fits its column by the estimate."""
    share = re.search(r"p\{([\d.]+)\\linewidth\}", text)
    room = float(share[1]) * TEXTWIDTH if share else TEXTWIDTH
    for m in re.finditer(r"\$([^$]*)\$", text):
        read(m[1])
        if m[1].startswith(r"\displaystyle"):
            wide = width(m[1], "footnotesize")
            assert wide <= room, f"{wide:.0f} pt in a column of {room:.0f} pt: {m[1]}"


def assert_no_ascii(text: str) -> None:
    """No Python name of a symbol is left in print, and no long number but in the rows of named constants."""
    text = re.sub(r"(?m)^(\$[^$]*\$) & \\raggedright -?\d\.\d+(?=\\tabularnewline)", r"\1 &", text)
    bare = re.sub(r"\\[a-zA-Z]+", "", text.replace(r"\_", "_"))
    found = re.search(r"chi_|sigma_|K_aa|K_ab|K_bb|K_\{a a\}|sqrt|Moment|\*\*|Status|<.*>_|\d{15}", bare)
    assert found is None, f"left in print: {bare[max(0, found.start() - 40) : found.end() + 40]}"


def assert_fits(text: str, folder) -> None:
    """TeX sets the document without an error, an overfull box or a float taller than its page."""
    folder.mkdir(exist_ok=True)
    (folder / "a.tex").write_text(HEAD + text + "\n\\end{document}\n")
    done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "a.tex"], cwd=folder, capture_output=True)
    log = (folder / "a.log").read_text(errors="replace")
    assert done.returncode == 0, re.findall(r"^!.*", log, re.M)
    bad = re.findall(r"^Overfull \\hbox.*|^.*Float too large.*", log, re.M)
    assert not bad, bad


def assert_printable(text: str, folder) -> None:
    assert_readable(text)
    assert_no_ascii(text)
    if TEX:
        assert_fits(text, folder)


# ----------------------------------------------------------------------------------------------------------- theories


@pytest.mark.slow
@pytest.mark.parametrize(("name", "architecture"), FEW)
def test_theories_are_printable(name, architecture, tmp_path):
    assert_printable(theory(name, architecture).latex(), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "architecture"), ALL)
def test_all_theories_are_printable(name, architecture, tmp_path):
    assert_printable(theory(name, architecture).latex(), tmp_path)


@pytest.mark.slow
def test_latex_is_deterministic():
    """The same text whatever the order of sets is."""
    code = "import meanfield as mf; print(mf.derive('gelu_tanh', norm='act').two_inputs.latex())"
    runs = [
        subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True)
        for seed in ("1", "2")
    ]
    assert runs[0].stdout == runs[1].stdout and rb"A_{1}" in runs[0].stdout


@pytest.mark.slow
def test_objects_are_printable(tmp_path):
    erf, tanh = mf.derive("erf"), mf.derive("tanh", residual=True)
    found = [
        erf.recursion(),
        theory("gelu_tanh", "act").recursion(),
        erf.two_inputs.doit(),
        erf.critical_line(),
        erf.critical_points(),
        erf.critical_points()[0],
        erf.fixed_points(sigma_w="1.3", sigma_b=0),
        erf.fixed_points(sigma_w="1.3", sigma_b=0)[1],
        erf.phase(sigma_w="1.3", sigma_b="0.2"),
        mf.derive("relu", residual=True).critical_line(),
        tanh.depth_law("J"),
        at_infinity(erf.averages()["phi^2"], 3),
    ]
    displays = [f"\\[\n{x.latex()}\n\\]" for x in found]
    for text in displays:
        assert_no_ascii(text)
    tables = erf.propagate(sigma_w=1.3, sigma_b=0.2, depth=60).latex()
    assert_no_ascii(tables)
    assert tables.count(r"\begin{table}") == 2 and r"\log J" in tables
    if TEX:
        assert_fits("\n\n".join([*displays, tables]), tmp_path)


@pytest.mark.slow
def test_points_with_long_values_are_printable(tmp_path):
    points = mf.derive("gelu").critical_points()
    text = f"\\[\n{points.latex()}\n\\]"
    assert_no_ascii(text)
    assert r"\approx 1.408211013108" in text and r"\zeta_K" in text
    if TEX:
        assert_fits(text, tmp_path)


def test_a_run_of_many_points_is_no_table():
    with pytest.raises(mf.MeanFieldError, match="holds 3 points; propagate one point"):
        mf.derive("relu").propagate(sigma_w=[1.0, 1.2, 1.4], sigma_b=0, depth=3).latex()


def test_a_report_is_a_table(tmp_path):
    report = mf.check(mf.derive("relu"), sigma_w=2**0.5, sigma_b=0, width=64, depth=4, networks=8, seed=1)
    text = report.latex()
    assert text.count(r"\begin{table}") == 2 and "standard" not in text and r"\ell" in text
    assert_no_ascii(text)
    if TEX:
        assert_fits(text, tmp_path)


def test_recipes_parametrizations_and_phases_are_printable(tmp_path):
    scheme = mf.parametrization("depth_mup", branch="1/sqrt(L)", eps="1/n", decay="n")
    check = mf.coordinate_check("tanh", "sp", widths=(32, 64), rate=0.01, neurons=64)
    found = [
        mf.recipe("gpt2", depth=4, width=64, context=8).report(),
        scheme,
        scheme.powers("tanh", residual=True, mu=1),
        check,
        mf.derive("relu", architecture="full_residual", beta_v="beta_v").phase_table("K"),
        mf.summary(("tanh", "relu")),
    ]
    text = "\n\n".join(one.latex() for one in found)
    gains = mf.gains("silu").latex()
    assert_no_ascii(text + gains)
    if TEX:
        assert_fits(f"{text}\n\n\\[\n{gains}\n\\]", tmp_path)


# ------------------------------------------------------------------------------------------------- planted errors bite


def test_a_line_too_long_is_seen(tmp_path):
    text = theory("tanh", "plain").latex()
    long = text.replace(r"\sigma_b^{2}", " + ".join([r"\left(\sigma_b^{2} + K\right)^{2}"] * 8), 1)
    assert long != text
    with pytest.raises(AssertionError, match="in a column of"):
        assert_readable(long)
    if TEX:
        with pytest.raises(AssertionError, match="Overfull"):
            assert_fits(long.replace("+", "{+}"), tmp_path)  # a braced sign is no place to break at


@pytest.mark.parametrize(
    "bad", ["chi_J", r"chi\_J = 1", "sigma_w", "K**2", "Moment(z, 2)", "sqrt(2)", "3.14159265358979324"]
)
def test_ascii_is_seen(bad):
    with pytest.raises(AssertionError, match="left in print: "):
        assert_no_ascii(rf"$\chi_J$ at \textbf{{{bad}}}")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (r"\frac{1}{2", "} is missing"),
        (r"\left( x", r"\\right is missing"),
        (r"x \right)", r"\\right closes nothing"),
        (r"\nomacro", r"unknown macro \\nomacro"),
        (r"\begin{cases} x", "is missing"),
        ("é", "has no place in a formula"),
    ],
)
def test_what_is_not_latex_is_seen(bad, said):
    with pytest.raises(UnreadableTex, match=said):
        read(bad)


# -------------------------------------------------------------------------------------------------------------- lines

FORMULAS = [
    r"\frac{J \sigma_w^{2}}{4} + \left(\frac{K_{aa}^{\frac{3}{2}}}{2} + 1\right)^{2}",
    r"\left\langle z^{2} \left(\tanh{\left(\frac{\sqrt{2} z}{\sqrt{\pi}} \right)} + 1\right)^{2} \right\rangle_{K}",
    r"\begin{cases} e^{z} - 1 & \text{for}\: z < 0 \\z & \text{otherwise} \end{cases}",
    r"\log J^{\ell} = \frac{4 \sqrt{2} \sqrt{\ell}}{3 \sqrt{\pi}} + C + O\!\left(\frac{1}{\sqrt{\ell}}\right)",
    r"1.758099340847 e^{2 K} \operatorname{erfc}{\left(\frac{\sqrt{K}}{2} \right)} - \Biggl( \frac{K}{2} \Biggr)",
    r"\sqrt{\frac{1}{2} - \frac{e^{- 2 K_{aa}}}{2}} \sqrt{\mu^{2} + 1} \arcsin{\left(\frac{K}{K + 1} \right)}",
]


def test_estimates_hold_against_tex(tmp_path):
    """Estimates are at least TeX's widths (to 1 %) and at most 15 % above them."""
    assert all(50 < width(f) < TEXTWIDTH for f in FORMULAS)
    if TEX:
        body = "\n".join(rf"\setbox0\hbox{{$\displaystyle {f}$}}\message{{[\the\wd0]}}" for f in FORMULAS)
        (tmp_path / "w.tex").write_text(HEAD + body + "\n\\end{document}\n")
        done = subprocess.run(["pdflatex", "-interaction=nonstopmode", "w.tex"], cwd=tmp_path, capture_output=True)
        found = [float(x) for x in re.findall(r"\[([\d.]+)pt\]", done.stdout.decode(errors="replace"))]
        assert len(found) == len(FORMULAS)
        for f, real in zip(FORMULAS, found):
            assert 0.99 * real <= width(f) <= 1.15 * real, (f, width(f), real)


@pytest.mark.parametrize("room", [90.0, 110.0, 150.0, 300.0])
@pytest.mark.parametrize(
    "e", [sp.expand((K + sigma_w**2 + sigma_b) ** 6), (K + 1 / (1 + sigma_w**2)) ** 2 * sp.erf(K + sigma_b) + K]
)
def test_lines_fit_and_say_the_same(e, room):
    text = tex(e)
    found = lines(text, room)
    assert len(found) > 1 or width(text) <= room
    assert all(width(t) <= room for t in found)
    letters = [re.sub(r"\\(quad|[bB]igg?[lr]|left|right|times)|[\s{}]", "", t) for t in ("".join(found), text)]
    assert letters[0] == letters[1]  # nothing lost, nothing added


@pytest.mark.slow
def test_long_maps_name_their_averages():
    text = theory("gelu_tanh", "act").latex()
    assert "where $A_{1}$" in text
    names = set(re.findall(r"A_\{\d+\}", text))
    defined = set(re.findall(r"\$(A_\{\d+\})\$ & ", text))
    assert names and names == defined


@pytest.mark.slow
def test_names_avoid_the_symbols_in_use():
    A_1 = sp.Symbol("A_1", real=True)
    step = mf.derive("gelu_tanh", norm="act").recursion("J")["J"]
    text = aligned([("x", sp.Add(*[A_1**k * step for k in range(1, 5)]))])
    assert re.search(r"A_\{2\} &=", text) and not re.search(r"A_\{1\} &=", text)


def test_tall_tables_are_cut():
    rows = tuple(TableRow("Section", "K'", sp.Rational(1, k) * K**2, "K'") for k in range(2, 80))
    text = Table("Many rows", rows).latex()
    assert text.count(r"\begin{table}") > 2 and "(part 2 of " in text
    assert text.count(r"\tabularnewline\addlinespace[2pt]") == len(rows)


# -------------------------------------------------------------------------------------------------------------- prose


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("MLP, gelu_tanh", r"MLP, gelu\_tanh"),
        ("chi_J - 1 falls as K^(-1/2)", r"$\chi_J - 1$ falls as $K^{-1/2}$"),
        ("log J ~ 2*sqrt(2)*l^1/2: only", r"$\log J \sim 2\,\sqrt{2}\,\ell^{1/2}$: only"),
        ("it would need σ_b² = -0.5 σ_w² here", r"it would need $\sigma_b^2 = -0.5$ $\sigma_w^2$ here"),
        ("with sigma_b > 0 K grows by sigma_b^2 a layer", r"with $\sigma_b > 0$ $K$ grows by $\sigma_b^2$ a layer"),
        ("between K = 1e-12 and 1e12", r"between $K = 10^{-12}$ and $10^{12}$"),
        ("φ jumps, so ⟨φ′²⟩ is infinite", r"$\varphi$ jumps, so $\langle \varphi'^2\rangle$ is infinite"),
        ("contains <tanh(z)**2>_{K}; 50% and/or A&B", r"contains $\langle \tanh(z)^2\rangle_{K}$; 50\% and/or A\&B"),
        ("chi_J* = 1 (mu = 1)", r"$\chi_J^\ast = 1$ ($\mu = 1$)"),
        ("half - or not - so", "half - or not - so"),
        ("χ̃_1 < 1 − ℓ⁻² in São Paulo", r"$\tilde{\chi}_1 < 1 - \ell^{-2}$ in São Paulo"),
        ("K⁵ of Ã_l, ψ and ∇", r"$K^5$ of $\tilde{A}_{\ell}$, $\psi$ and $\nabla$"),
        ("σ_y^2, sigma_mu^2 and beta_fraction", r"$\sigma_y^2$, $\sigma_{\mu}^2$ and beta\_fraction"),
        ("χ_∥ and χ_⊥ < 1", r"$\chi_\parallel$ and $\chi_\perp < 1$"),
        ("l⁻¹/² with Ṽ", r"$\ell^{-1/2}$ with $\tilde{V}$"),
        ("log J − 2c̃√ℓ at l = 4·10⁶, η_0", r"$\log J - 2\tilde{c}\sqrt{\ell}$ at $\ell = 4 \cdot 10^6$, $\eta_0$"),
    ],
)
def test_prose(text, printed):
    assert prose(text) == printed
    assert prose(unicodedata.normalize("NFD", text)) == printed


def test_letters_that_text_lacks_are_set_in_math():
    assert escape("χ̃ and Ṽ, 10⁻³, ã") == r"$\tilde{\chi}$ and $\tilde{V}$, 10${}^{-3}$, $\tilde{a}$"
    assert escape("Ø, São, ∇") == r"Ø, São, $\nabla$"


@pytest.mark.slow_with("table tanh --residual --latex")
@pytest.mark.parametrize("line", ["table tanh --residual --latex", "derive gelu_tanh --norm act --latex"])
def test_the_command_line_is_printable(line, tmp_path, capsys):
    from meanfield.cli.app import app

    app(line.split(), standalone_mode=False)
    assert_printable(capsys.readouterr().out, tmp_path)


def test_a_fraction_of_numbers_is_never_taken_apart():
    """½·1 beside a number would read as another number."""
    text = r"\frac{1}{2} z \left\langle \frac{3 z^{2}}{4} + \frac{K \left(z + 1\right)}{2} \right\rangle_{K_{aa}}"
    for room in (30.0, 60.0, 90.0):
        assert r"\frac{1}{2} z" in lines(text, room)[0] and not re.search(r"\} \d", " ".join(lines(text, room)))


def test_lines_of_prose_are_no_wider_than_asked():
    text = prose("the map of K is proved to increase on the half line, so that its fixed points K* are all there are")
    for limit in (90.0, 130.0, 300.0):
        found = wrapped(text, limit)
        assert " ".join(found) == text and len(found) > 1
        for line in found:
            words = [_text_box(word, "normalsize") for word in re.findall(r"(?:\$[^$]*\$|[^\s$])+", line)]
            assert sum(words) + 4 * (len(words) - 1) <= limit or len(words) == 1


def test_floats_of_a_table_are_no_higher_than_a_page():
    """Forty rows of 30 points: none is lost, none of the floats higher than the page's; and as few as fit."""
    cells = [_Cell("Section", str(k), ("x",), 30.0) for k in range(40)]
    pages = _pages(cells, _HEIGHT)
    assert [c.left for page in pages for c in page] == [c.left for c in cells]
    heights = [20.0 + sum(c.height for c in page) for page in pages]
    assert max(heights) <= _HEIGHT and len(pages) == 3


def rows_of(display: str) -> list[str]:
    """The lines of an align* or gather*, without what opens and closes it."""
    inside = re.sub(r"\\(begin|end)\{\w+\*?\}|\{?\\allowdisplaybreaks|&", "", display)
    return [row.strip() for row in inside.removesuffix("}").split(r"\\")]


def too_wide(display: str, room: float) -> list[str]:
    found = []
    for row in rows_of(display):
        words = re.fullmatch(r"\\text\{(.*)\}", row)
        try:
            wide = sum(_text_box(w, "normalsize") for w in words[1].split()) if words else width(row)
        except UnreadableTex:
            continue
        found += [row] if wide > room else []
    return found


@pytest.mark.slow_with("F-345.0", "U-345.0")
@pytest.mark.parametrize("room", [345.0, 229.5])
@pytest.mark.parametrize("quantity", ["V", "F", "U"])
def test_derivations_fit_their_column(quantity, room):
    with column_width(room):
        found = mf.derive("tanh").derivation(quantity, latex=True)
    assert too_wide(found, room) == [] and len(rows_of(found)) > 20
    assert r"\Bigr)" in found and "' '" not in found, "TeX takes primes with a space between them as two superscripts"
    assert too_wide(found, 150.0), "control: a column that is narrower still"


@pytest.mark.slow_with("gelu", "silu")
@pytest.mark.parametrize("name", ["relu", "gelu", "silu"])
def test_tables_fit_a_column_of_two(name):
    formula = re.compile(r"\$\\displaystyle ([^$]*)\$")
    with column_width(229.5):
        narrow, points = mf.derive(name).table().latex(), mf.summary((name, "softplus")).latex()
    share = float(re.search(r"p\{([\d.]+)\\linewidth\}", narrow)[1])
    formulas = formula.findall(narrow)
    assert len(formulas) > 10 and all(width(f, "footnotesize") <= share * 229.5 for f in formulas)
    assert "kind" not in points and r"\begin{table}" in points
    wide = formula.findall(mf.derive(name).table().latex())
    assert any(width(f, "footnotesize") > share * 229.5 for f in wide), "control: lines of a page"
    with column_width(469, across=True):
        assert r"\begin{table*}" in mf.derive(name).latex() and r"\end{table*}" in mf.summary((name,)).latex()
    for given in (100, "wide", True):
        with pytest.raises(mf.MeanFieldError, match="200 to 2000 points"), column_width(given):
            pass
