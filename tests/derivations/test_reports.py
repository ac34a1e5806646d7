"""Reports of papers: nothing wrong stays unseen, nothing done is lost, and nothing is computed twice."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import sympy as sp

import meanfield as mf
from derivations.checks import Check
from derivations.claims import network
from derivations.comparisons import Equation, Floats, Is
from derivations.coverage import Coverage, Item
from derivations.drawing import Beside, beside, note_beside, note_law, noted
from derivations.reports import papers, records, reproducing, units
from derivations.reports.fingerprints import fingerprint
from derivations.reports.names import named
from derivations.reports.statements import shown, statement
from meanfield.base.errors import MeanFieldError
from meanfield.base.storage import files
from meanfield.base.symbols import K, sigma_b, sigma_w
from tests.explorer.explorer_pages import CHROMIUM

RELU = network("relu")
RIGHT = sigma_w**2 * K / 2 + sigma_b**2
CLAIMS = (
    Equation("R1 (1), ℓ⁵", RELU, "K", RIGHT, 2 * RIGHT),
    Equation("R2 (2)", (network("erf"), network("sin")), "<phi>", 2 * sp.sqrt(K), sp.S.Zero, misprint=True),
    Is("R3 (3), γ_0", RELU, "line kind", "vertical", "ray"),
    Floats("R4 (4)", RELU, "", lambda x: x + 1.0, lambda x: x + 1.1, of=lambda x: 1.0 + x, places=((1,), (2.5,))),
)
CHECKS = (Check("1", "half of σ_w²", (0.5,), 1e-9, lambda off: [0.5 * (1 + float(off))]),)
SHIFT = (0.0,)  # of the networks in the figure, in units of the line


def adding(shift):
    return lambda x: x + shift


def figure_1():
    """Networks on a line."""
    figure = files.new_figure(3, 2)
    x = np.arange(1.0, 9.0)
    found = x * (1 + SHIFT[0]) + 0.01 * np.cos(7 * x), np.full(8, 0.01)
    beside(figure.subplots(), x, x, found, found, 0.0, "C0", note="x")
    return figure


@dataclass(frozen=True)
class Toy(papers.Paper):
    """A paper of four claims, one number and one figure."""

    name: str = "toy"
    title: str = "A paper of 100 % & more"
    authors: str = "N. N."
    given: tuple = CLAIMS
    numbers: tuple = CHECKS

    claims = property(lambda self: self.given)
    checks = property(lambda self: self.numbers)
    to_digits = frozenset()
    coverage = property(
        lambda self: Coverage(
            "toy",
            (Item("equation", "(1)", "K"), Item("equation", "(5)", "a law", outside="a definition")),
            self.given, self.numbers,
        )
    )  # fmt: skip

    def drawn(self, paper):
        return {"figure1": figure_1}


@pytest.fixture
def toy(monkeypatch):
    """Put a toy paper in the place of all papers; called again with other claims or numbers, it changes them."""

    def put(**changes):
        paper = replace(Toy(), **changes)
        monkeypatch.setattr(units, "PAPERS", (paper,))
        monkeypatch.setattr(papers, "PAPERS", (paper,))
        return paper

    put()
    return put


def run(folder, **settings):
    return reproducing.reproduce((), folder, jobs=1, **settings)


def pages(folder):
    """The bytes of all pages and documents, without their times."""
    found = {path.name: path.read_bytes() for path in Path(folder).iterdir() if path.suffix in (".html", ".tex")}
    return {name: re.sub(rb"(?:Time: |% )\d+ s of CPU", b"", content) for name, content in found.items()}


def assert_shows(folder, *texts):
    """Whatever is not as expected stands in the page and in the document."""
    for name in ("toy.html", "toy.tex"):
        content = (Path(folder) / name).read_text(encoding="utf-8")
        assert "Not as expected" in content, f"{name} says that all is well"
        for text in texts:
            assert text in content, f"{name} does not say {text!r}"


def test_a_report_says_what_was_printed_what_is_derived_and_how(toy, tmp_path):
    found = run(tmp_path / "r")
    assert found.passed and (found.computed, found.recalled) == (6, 0)
    page = (tmp_path / "r/toy.html").read_text(encoding="utf-8")
    for text in ("R1 (1), ℓ⁵", "misprint", "Proved symbolically", "100 % &amp; more", "vertical", "1 out of scope"):
        assert text in page
    assert "Every verdict, number and figure is as expected." in page and "Not as expected" not in page
    assert str(found).startswith("toy\n  4 claims: 2 proved, 1 refuted, 1 measured; 1 misprints\n  1 numbers, 1 fig")
    data = found.data()["papers"]["toy"]
    assert data["verdicts"] == {"proved": 2, "refuted": 1, "measured": 1} and data["complaints"] == []
    with pytest.raises(AssertionError, match="says that all is well"):
        assert_shows(tmp_path / "r", "anything")


def test_a_wrong_verdict_a_wrong_number_and_a_wrong_point_are_seen(toy, tmp_path, monkeypatch):
    wrong = replace(CLAIMS[0], printed=RIGHT + sp.Rational(1, 10**6))
    toy(given=(wrong, *CLAIMS[1:]))
    found = run(tmp_path / "a")
    assert not found.passed
    assert_shows(tmp_path / "a", "the print should be proved, and is refuted")
    toy(numbers=(replace(CHECKS[0], expected=(0.5000001,)),))
    run(tmp_path / "b")
    assert_shows(tmp_path / "b", "tolerances off")
    toy(numbers=(replace(CHECKS[0], tolerance=0.1),))  # a number whose planted error is not seen
    run(tmp_path / "c")
    assert_shows(tmp_path / "c", "a planted error of one per cent is not seen")
    toy()
    monkeypatch.setattr(sys.modules[__name__], "SHIFT", (0.02,))
    run(tmp_path / "d")
    assert_shows(tmp_path / "d", "standard errors off the line")


def test_a_run_that_was_ended_goes_on_and_writes_the_same(toy, tmp_path, monkeypatch):
    whole = run(tmp_path / "whole")
    compute, count = reproducing.compute, []

    def ended(unit):
        if len(count) == 3:
            raise KeyboardInterrupt("ended here")
        count.append(unit)
        return compute(unit)

    monkeypatch.setattr(reproducing, "compute", ended)
    with pytest.raises(KeyboardInterrupt, match="ended here"):
        run(tmp_path / "r")
    monkeypatch.setattr(reproducing, "compute", compute)
    again = run(tmp_path / "r")
    assert (whole.computed, again.computed, again.recalled) == (6, 3, 3)
    assert pages(tmp_path / "r") == pages(tmp_path / "whole")
    assert (run(tmp_path / "r").computed, run(tmp_path / "r").recalled) == (0, 6)


def test_what_changed_is_computed_again_and_nothing_else(toy, tmp_path, monkeypatch):
    run(tmp_path)
    toy(given=(*CLAIMS[:2], replace(CLAIMS[2], contrast="everywhere"), CLAIMS[3]))
    assert (run(tmp_path).computed, run(tmp_path).computed) == (1, 0)
    read = units.of_file
    changed = "meanfield/symbolic/recursion.py"
    monkeypatch.setattr(units, "of_file", lambda path: "another" if path.endswith(changed) else read(path))
    assert run(tmp_path).computed == 6  # every one of these processes has loaded the recursions
    monkeypatch.setattr(units, "of_file", lambda path: "another" if path.endswith("cli/app.py") else read(path))
    run(tmp_path)
    assert run(tmp_path).computed == 0


def test_a_fingerprint_is_of_all_that_a_claim_says():
    base = fingerprint(CLAIMS[3])
    assert base == fingerprint(replace(CLAIMS[3]))
    others = [
        replace(CLAIMS[3], printed=lambda x: x + 1.2), replace(CLAIMS[3], places=((1,), (2.6,))),
        replace(CLAIMS[3], tolerance=1e-10), replace(CLAIMS[3], of=lambda x: x + 1.0),
        replace(CLAIMS[3], contrast=lambda x: x + 1.11), replace(CLAIMS[3], source="R5"),
    ]  # fmt: skip
    assert len({base, *map(fingerprint, others)}) == 7
    made = [adding(shift) for shift in (1, 2)]  # one code, two values that it closes over
    assert fingerprint(made[0]) != fingerprint(made[1])
    assert fingerprint({"b", "a"}) == fingerprint({"a", "b"}) and fingerprint(1) != fingerprint(1.0)


def test_fingerprints_are_the_same_in_every_process():
    program = (
        "from derivations.reports.fingerprints import fingerprint as f; from derivations import autoinit as a;"
        "print(f(a.CLAIMS)); print(f({str(c.source) for c in a.CLAIMS}))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(said) == 1


def test_folders_that_cannot_be_used_are_refused_in_a_sentence(toy, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/thesis.tex").write_text("mine")
    with pytest.raises(MeanFieldError, match="holds files that no earlier report left there"):
        run(tmp_path / "other")
    with pytest.raises(MeanFieldError, match="is a file, and reports are written into a folder"):
        run(tmp_path / "other/thesis.tex")
    with pytest.raises(MeanFieldError, match="cannot be written: Not a directory"):
        run(tmp_path / "other/thesis.tex/r")
    run(tmp_path / "r")
    mark = tmp_path / "r/reproduce.json"
    mark.write_text("half of it")
    with pytest.raises(MeanFieldError, match="cannot be read as that of a report"):
        run(tmp_path / "r")
    mark.write_bytes(records.as_json({"format": units.FORMAT + 1, "versions": {}}))
    with pytest.raises(MeanFieldError, match="of a later version of meanfield"):
        run(tmp_path / "r")
    with pytest.raises(MeanFieldError, match="ask for one of them"):
        run(tmp_path / "s", quick=True, full=True)
    with pytest.raises(MeanFieldError, match="jobs is a number of processes, 1 or more, but 0 was given"):
        reproducing.reproduce((), tmp_path / "s", jobs=0)
    with pytest.raises(MeanFieldError, match="Unknown paper 'toi'; the choices are toy"):
        reproducing.reproduce(("toi",), tmp_path / "s")
    assert not (tmp_path / "s").exists() and (tmp_path / "other/thesis.tex").read_text() == "mine"


def test_half_a_record_and_one_of_another_version_are_computed_again(toy, tmp_path):
    run(tmp_path)
    record = tmp_path / "records/toy/claim0001.json"
    record.write_text(record.read_text(encoding="utf-8")[:100], encoding="utf-8")
    found = run(tmp_path)
    assert found.computed == 1 and "claim0001.json cannot be read as a record" in str(found)
    (tmp_path / "records/toy/figure1.pdf").unlink()  # a picture that was lost
    assert run(tmp_path).computed == 1
    mark = tmp_path / "reproduce.json"
    before = json.loads(mark.read_text())
    before["versions"]["sympy"] = "1.0"
    mark.write_text(json.dumps(before))
    assert "are of sympy 1.0: what depends on it is computed again" in str(run(tmp_path))


def test_a_quick_report_lists_what_it_leaves_out(toy, tmp_path, monkeypatch):
    monkeypatch.setattr(reproducing, "_slow", lambda: {"toy": {"claim": ["R2 (2) <phi>"], "figure": ["figure1"]}})
    found = run(tmp_path, quick=True)
    assert found.computed == 4 and "2 left out, of more than ten seconds each" in str(found)
    page = (tmp_path / "toy.html").read_text(encoding="utf-8")
    assert "<li>claim R2 (2) &lt;phi&gt;</li>" in page and "<li>figure 1</li>" in page and "R2 (2) &lt;phi&gt;" in page
    assert run(tmp_path).computed == 2  # a whole report goes on from the quick one


def test_slow_units_are_units_that_there_are():
    slow = json.loads(reproducing.SLOW.read_text(encoding="utf-8"))
    assert set(slow) <= {paper.name for paper in papers.PAPERS}
    for paper in papers.PAPERS:
        names = {"claim": {f"{c.source} {c.quantity}" for c in paper.claims}, "figure": set(paper.drawn(False))}
        names["number"] = {f"{check.line} {check.name}" for check in paper.checks}
        for kind, listed in slow.get(paper.name, {}).items():
            assert set(listed) <= names[kind], f"slow.json names units of {paper.name} that there are not"


class Requests(HTMLParser):
    """What a page would ask for: addresses of pictures, scripts, styles and frames."""

    def __init__(self):
        super().__init__()
        self.asked, self.tags = [], set()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        asking = ("src", "srcset", "data", "action")
        self.asked += [v for k, v in attributes if k in asking or (k, tag) == ("href", "link")]


def test_a_page_asks_for_nothing(toy, tmp_path):
    run(tmp_path)
    for name in ("toy.html", "index.html"):
        content = (tmp_path / name).read_text(encoding="utf-8")
        reader = Requests()
        reader.feed(content)
        assert all(address.startswith("data:") for address in reader.asked), reader.asked
        assert "script" not in reader.tags and "url(" not in content and "@import" not in content
        assert "math" in reader.tags or name == "index.html"
    reader = Requests()
    reader.feed('<img src="https://example.org/a.png">')
    assert reader.asked == ["https://example.org/a.png"]


needs_tex = pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")


def log_of_tex(folder, source):
    """What TeX says of a document; raises where it cannot be set."""
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", source]
    done = subprocess.run(command, cwd=folder, capture_output=True)
    log = done.stdout.decode(errors="replace")
    assert done.returncode == 0, log[-600:]
    return log


@needs_tex
def test_no_box_of_a_document_is_overfull(toy, tmp_path):
    run(tmp_path)
    for source, bad in (("toy.tex", False), ("wide.tex", True)):
        if bad:
            text = (tmp_path / "toy.tex").read_text(encoding="utf-8")
            text = text.replace("Printed:", r"\leavevmode\hbox to 400pt{\hfil}", 1)
            (tmp_path / source).write_text(text, encoding="utf-8")
        assert ("Overfull" in log_of_tex(tmp_path, source)) == bad


@needs_tex
@pytest.mark.slow
@pytest.mark.parametrize("paper", [paper.name for paper in papers.PAPERS])
def test_the_report_of_a_paper_is_as_expected_and_can_be_set(paper, tmp_path):
    done = reproducing.reproduce((paper,), tmp_path, quick=True, jobs=2)
    assert done.passed, str(done)
    assert "Overfull" not in log_of_tex(tmp_path, f"{paper}.tex")
    page = (tmp_path / f"{paper}.html").read_text(encoding="utf-8")
    assert "<code>" not in page  # every formula is MathML


def test_networks_beside_a_line_are_judged_by_their_errors():
    x = np.arange(1.0, 5.0)
    note = Beside("x", x, x, x + np.array([0.0, 0.02, -0.03, 0.01]), np.full(4, 0.01), np.zeros(4), 4.0)
    assert note.agrees and note.errors_off() == pytest.approx(3)
    assert not replace(note, means=x + 0.05).agrees  # five standard errors
    assert replace(note, means=x + 0.05, allowance=np.full(4, 0.01)).agrees
    assert 0.005 < note.shows < 0.03 and not replace(note, line=x + 4 * note.shows, size=4.0).agrees
    assert replace(note, errors=np.full(4, 1e6)).shows == float("inf")
    assert note.tells and not replace(note, errors=np.full(4, 1e6)).tells
    with files.figures_for_files():
        figure = figure_1()
    assert [one.label for one in noted(figure)] == ["x"] and noted(files.figure_of(figure_1().axes[0])) != ()


def seen(note, *given, **more):
    """What one of the functions that note down says of a figure."""
    with files.figures_for_files():  # pyplot would keep it
        figure = files.new_figure(3, 2)
    note(figure, "x", *given, **more)
    return noted(figure)[0]


def test_two_widths_take_the_first_term_of_a_finite_width_away():
    x, ratio = np.arange(1.0, 9.0), np.arange(1.0, 9.0) / 50
    errors = np.full(8, 1e-3)
    wide, narrow = ((x * np.exp(r), errors) for r in (ratio, 2 * ratio))
    assert seen(note_beside, x, x, wide, narrow, ratio).agrees
    for planted in (0.1, -0.1):
        assert not seen(note_beside, x, x * (1 + planted), wide, narrow, ratio).agrees
    assert not seen(note_beside, x, x, wide, wide, ratio).agrees  # one width alone does not show its first term


def test_a_law_beside_an_iteration_is_judged_by_what_the_last_decade_changed():
    l = np.geomspace(3, 1e5, 60)
    steps = 0.5 * np.log(l) + 2 + 3 / l**0.5
    assert seen(note_law, l, 0.5 * np.log(l), steps).agrees
    for wrong in (0.6, 0.4):
        assert not seen(note_law, l, wrong * np.log(l), steps).agrees


def test_names_of_quantities_are_set_as_formulas():
    known = {
        "point 1 sigma_w^2": r"$\sigma _{w}^{2}$ at critical point $2$",
        "c from 0 at sigma_b = 0": r"$c$ from $0$ at $\sigma _{b} = 0$",
        "bar<phi>^2": r"$\overline{\langle \varphi \rangle}^{2}$",
        "chi~_1/alpha": r"$\tilde{\chi}_{1}/\alpha$",
        "law J rate": r"$J$ at large depth: rate of the exponential",
        "sigma_mu2 at large l": r"${\sigma _{\mu}^{2}}$ at large $\ell$",
    }
    assert {name: named(name) for name in known} == known


@pytest.mark.parametrize("paper", papers.PAPERS, ids=lambda paper: paper.name)
def test_every_name_is_mathematics_that_a_page_can_show(paper):
    from derivations.reports.mathematics import text

    for claim in paper.claims:
        shown_as = text(named(claim.quantity))
        assert "<code>" not in shown_as, f"{claim.source}: {claim.quantity} is no formula: {named(claim.quantity)}"
    assert "<code>" in text(r"$\frac{1$")


def test_sides_are_shown_whatever_they_are():
    assert shown(True) == {"text": "yes"} and shown(frozenset({2, 1})) == {"text": "1, 2"}
    assert shown(sp.Rational(1, 2))["tex"] == r"\frac{1}{2}"
    rows = shown(tuple((str(k), float(k)) for k in range(6)))
    assert len(rows["rows"]) == 4 and rows["more"] == 2
    assert shown(lambda x: x) == {"text": "another rule, bound or start"}
    law = mf.derive("relu").depth_law("K", sigma_w="sqrt(2)", sigma_b=1).law
    assert "\\ell" in shown(law)["tex"]


def test_a_misprint_is_shown_where_the_print_fails():
    claim = Equation("(1)", (network("linear"), RELU), "chi_J", sigma_w**2, sigma_w**2 / 2, misprint=True)
    from derivations.judging import judge

    assert statement(judge(claim))["shown_for"] == "relu"


def test_a_browser_shows_a_page_without_asking_for_anything(toy, tmp_path):
    browsers = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, which drives a browser")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed, which shows the page")
    run(tmp_path)
    with browsers.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for wide in (1200, 400):
            one = browser.new_context(offline=True, viewport={"width": wide, "height": 800}).new_page()
            asked, said = [], []
            one.on("request", lambda request, asked=asked: asked.append(request.url))
            one.on("console", lambda message, said=said: said.append(message.text))
            one.on("pageerror", lambda error, said=said: said.append(str(error)))
            one.goto((tmp_path / "toy.html").as_uri())
            loaded = [url for url in asked if not url.startswith(("file:", "data:"))]
            assert not loaded and not said and one.title() == "A paper of 100 % & more"
            width = "[document.documentElement.scrollWidth, document.querySelectorAll('math').length]"
            scrolled, formulas = one.evaluate(width)
            assert scrolled <= wide and formulas > 5  # only what is inside a formula's box scrolls
            one.evaluate("fetch('https://example.org/').catch(() => 0)")
            assert any("example.org" in url for url in asked)  # a request would have been seen
        browser.close()


@pytest.mark.slow
def test_a_killed_command_goes_on_and_writes_the_same(tmp_path):
    command = [sys.executable, "-m", "meanfield", "reproduce", "autoinit", "--quick", "--jobs", "2", "-o"]
    quiet = {"stdout": subprocess.DEVNULL, "start_new_session": True}
    with subprocess.Popen([*command, str(tmp_path / "r")], **quiet) as process:
        while len(list((tmp_path / "r").glob("records/autoinit/*.json"))) < 8 and process.poll() is None:
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL and not (tmp_path / "r/autoinit.html").exists()
    done = subprocess.run([*command, str(tmp_path / "r")], capture_output=True, text=True, check=True).stdout
    kept = int(re.search(r"(\d+) on record before", done)[1])
    assert kept >= 8
    subprocess.run([*command, str(tmp_path / "whole")], capture_output=True, check=True)
    assert pages(tmp_path / "r") == pages(tmp_path / "whole")


WORKING = """
import multiprocessing, os, sys, time
from derivations.reports.units import follow_parent
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    own = (follow_parent, (spawn.Event(),)) if sys.argv[1] == "follow" else ()
    pool = spawn.Pool(1, *own)
    print(pool.apply(os.getpid), flush=True)
    time.sleep(60)
"""


def assert_gone(process_id: int, seconds: float) -> None:
    """Raise unless a process ends in so many seconds."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError(f"process {process_id} still works")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows knows no SIGKILL")
@pytest.mark.slow
def test_no_process_works_for_a_run_that_was_killed(tmp_path):
    script = tmp_path / "working.py"
    script.write_text(WORKING)
    for follows in ("follow", "stay"):
        with subprocess.Popen([sys.executable, str(script), follows], stdout=subprocess.PIPE, text=True) as run_:
            child = int(run_.stdout.readline())
            run_.kill()
        if follows == "follow":
            assert_gone(child, 10)
            continue
        try:  # one that does not follow its parent would have been seen, where it does not end by itself
            with pytest.raises(AssertionError, match="still works"):
                assert_gone(child, 1)
        finally:
            os.kill(child, signal.SIGKILL)
