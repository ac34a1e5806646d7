"""The page "Derive it here": what it asks the engine natively, in a browser's Python under node, and in Chromium.

node and Chromium need the folder that docs/browser/assemble.py makes; where it or they are not there, tests say so.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import json
import shutil
import subprocess
import threading
from pathlib import Path
from types import ModuleType

import pytest

import meanfield as mf
from tests import DOCS
from tests.package.exact_calls import CALLS, answer, digest

PAGE = DOCS / "static" / "derive_here"
HOSTILE = (
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "eval('1')",
    "z**z",
    "9**9**9**9*z",
    "lambda: z",
    "tanh(z",
    "tnah",
    "",
    "'" * 50,
    "<img src=x onerror=alert(1)>",
    "tanh(" * 200 + "z" + ")" * 200,
    "z" * 5000,
    "\0",
)


def loaded(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ASSEMBLE = loaded("assemble", DOCS / "browser" / "assemble.py")


@pytest.fixture
def asking(monkeypatch):
    """What the page runs in its worker, here."""
    monkeypatch.setenv("MEANFIELD_SECONDS", "300")
    module = loaded("ask", PAGE / "ask.py")

    def ask(question="recursion", formula="tanh", architecture="plain", sigma_w="3/2", sigma_b="0.1") -> dict:
        given = dict(question=question, formula=formula, architecture=architecture, sigma_w=sigma_w, sigma_b=sigma_b)
        return json.loads(module.ask(json.dumps(given)))

    ask.module = module
    return ask


def test_questions_are_the_calls_that_are_shown(asking):
    for question in asking.module.QUESTIONS:
        found = asking(question, architecture="skip" if question == "table" else "plain")
        native = eval(found["call"], {"mf": mf})
        if question == "expansions":
            assert all(str(law) in found["text"] and law.latex() in found["latex"] for law in native.values())
        else:
            assert found["text"] == str(native) and found["latex"] == native.latex()
        assert found["math"] == (question != "table")


def test_the_form_offers_what_can_be_asked(asking):
    form = (PAGE / "form.html").read_text("utf-8")
    offered = [row.split(">")[1].split("<")[0] for row in form.splitlines() if "<option" in row]
    assert len(offered) == len(asking.module.ARCHITECTURES) + len(asking.module.QUESTIONS)
    for name in (*asking.module.ARCHITECTURES, *asking.module.QUESTIONS):
        assert f'value="{name}"' in form or f">{name}</option>" in form


@pytest.mark.parametrize("formula", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_formulas_are_refused_in_a_sentence(formula, asking):
    found = asking(formula=formula)
    assert set(found) == {"call", "refused"} and len(found["refused"]) < 700, found


def test_hostile_numbers_are_refused_in_a_sentence(asking):
    for text in ("", "nan", "1e999", "-1", "__import__('os')", "sigma_w", "9**9**9"):
        assert set(asking("phase", sigma_w=text)) == {"call", "refused"}, text


@pytest.mark.slow
def test_a_slow_question_ends_in_a_sentence(asking, monkeypatch):
    monkeypatch.setenv("MEANFIELD_SECONDS", "0.05")
    found = asking("critical points", formula="sin(3*z)*tanh(z) + exp(-z**2)*cos(5*z)")
    assert "was not found within 0.05 seconds of CPU time" in found["refused"]


@pytest.fixture(scope="module")
def engine() -> Path:
    """The assembled folder."""
    state = ASSEMBLE.state_of(ASSEMBLE.ENGINE)
    if state:
        pytest.skip(state)
    return ASSEMBLE.ENGINE


def in_node(engine: Path, script: Path, *arguments: str) -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    command = [node, str(DOCS / "browser" / "run.mjs"), str(engine), str(script), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert ran.returncode == 0, ran.stderr[-2000:]
    return ran.stdout


def assert_same(found: dict[str, dict], each: int | None) -> None:
    """The answers under node are those of this process, by their hashes."""
    calls = [call for calls in CALLS.values() for call in calls[:each]]
    assert list(found) == calls
    for call in calls:
        native = answer(call)
        assert found[call]["sha256"] == digest(native), f"{call}: {found[call]['answer']!r}, natively {native!r}"


def test_a_call_of_each_verb_under_node(engine):
    found = json.loads(in_node(engine, DOCS.parent / "tests" / "package" / "exact_calls.py", "1"))
    assert_same(found, 1)
    changed = found | {'mf.derive("tanh").susceptibilities()': {"sha256": "0", "answer": "chi_J = 2"}}
    with pytest.raises(AssertionError, match=r"chi_J = 2', natively .*sigma_w\*\*2"):
        assert_same(changed, 1)


@pytest.mark.slow
def test_every_call_under_node(engine):
    assert_same(json.loads(in_node(engine, DOCS.parent / "tests" / "package" / "exact_calls.py")), None)


def test_the_folder_is_known_by_its_sources(tmp_path):
    assert "is not there; python docs/browser/assemble.py makes it" in ASSEMBLE.state_of(tmp_path)
    made = {"sources": ASSEMBLE.source_hash(), "files": {"library.zip": 3}}
    (tmp_path / "manifest.json").write_text(json.dumps(made))
    assert "lacks library.zip" in ASSEMBLE.state_of(tmp_path)
    (tmp_path / "library.zip").write_text("abc")
    assert ASSEMBLE.state_of(tmp_path) == ""
    (tmp_path / "manifest.json").write_text(json.dumps(made | {"sources": ""}))
    assert "was made of other sources" in ASSEMBLE.state_of(tmp_path)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Seen:
    """A page in Chromium whose network is refused beyond this machine, with what it asked for and logged."""

    def __init__(self, page, base: str):
        self.page, self.base, self.requests, self.errors = page, base, [], []
        page.on("request", lambda r: self.requests.append(r.url))
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        page.goto(f"{base}/index.html")

    def ask(self, question: str, formula: str, wait: bool = True, **fields: str) -> str:
        """The text of the answer."""
        page = self.page
        page.select_option("select[name=question]", question)
        for name, text in {"formula": formula, **fields}.items():
            page.fill(f"input[name={name}]", text)
        page.evaluate(
            "window.answered = false; document.getElementById('derive-here')"
            ".addEventListener('answered', () => { window.answered = true; }, { once: true })"
        )
        page.click("[data-part=go]")
        if not wait:
            return ""
        page.wait_for_function("window.answered")
        return page.inner_text("[data-part=answer]")


def assert_clean(seen: Seen) -> None:
    """Nothing was asked of another machine, and nothing was logged."""
    foreign = [url for url in seen.requests if not url.startswith((seen.base, "blob:", "data:"))]
    assert not foreign, f"the page asked for {foreign}"
    assert not seen.errors, f"the page logged {seen.errors}"


@pytest.fixture
def opened(tmp_path):
    """Open a page that holds the form, and more."""
    sync = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><link rel="icon" href="data:,">'
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "derive_here").symlink_to(PAGE)
    handler = functools.partial(Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync.sync_playwright() as tools:
        browser = tools.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
        )

        def open_page(more: str = "", width: int = 1200) -> Seen:
            body = f'<meta name="viewport" content="width=device-width">{(PAGE / "form.html").read_text("utf-8")}'
            (tmp_path / "index.html").write_text(head + body + more, "utf-8")
            page = browser.new_page(viewport={"width": width, "height": 800})
            page.set_default_timeout(90_000)
            return Seen(page, f"http://127.0.0.1:{server.server_port}")

        yield open_page
        browser.close()
    server.shutdown()
    server.server_close()


def test_the_page_answers_in_chromium(engine, opened, asking):
    seen = opened(width=400)
    assert not [url for url in seen.requests if "engine" in url], "it loads on a click, not before"
    for question, formula in (("recursion", "z*tanh(z) + z/2"), ("phase", "erf"), ("table", "relu")):
        text = seen.ask(question, formula)
        assert asking(question, formula)["text"] in text.replace("\xa0", " ")
    assert seen.page.locator("math").count() == 0  # a table is no formula
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert "is not allowed" in seen.ask("recursion", "__import__('os')")
    assert asking("recursion", "tnah")["refused"] in seen.ask("recursion", "tnah")
    seen.ask("expansions", "tanh")
    assert seen.page.locator("math").count() == 1
    assert_clean(seen)


ECHO = """onmessage = ({ data }) => {
  const answer = { call: data.formula, text: `the answer to ${data.formula}` };
  if (data.formula !== "slow") postMessage({ id: data.id, answer, seconds: 0 });
};"""


def assert_nothing_stands(page) -> None:
    """No answer is shown."""
    text = page.inner_text("[data-part=answer]")
    assert not text, f"an answer still stands: {text}"


def test_an_old_answer_fades_and_is_gone_with_a_stop(opened, tmp_path):
    (tmp_path / "_static" / "derive_here").unlink()
    there = tmp_path / "_static" / "derive_here"
    shutil.copytree(PAGE, there, ignore=shutil.ignore_patterns("engine", "__pycache__"))
    (there / "engine").mkdir()
    (there / "engine" / "temml.min.js").write_text("")
    (there / "worker.js").write_text(ECHO, "utf-8")
    seen = opened()
    faded = "getComputedStyle(document.querySelector('[data-part=answer]')).opacity < 1"
    assert "the answer to erf" in seen.ask("recursion", "erf") and not seen.page.evaluate(faded)
    seen.ask("recursion", "slow", wait=False)
    assert seen.page.inner_text("[data-part=answer] .call") == "erf" and seen.page.evaluate(faded)
    with pytest.raises(AssertionError, match="an answer still stands: erf"):
        assert_nothing_stands(seen.page)
    seen.page.click("[data-part=stop]")
    assert_nothing_stands(seen.page)
    assert seen.page.inner_text("[data-part=status]").startswith("stopped") and not seen.page.evaluate(faded)
    assert "the answer to tanh" in seen.ask("recursion", "tanh")
    assert_clean(seen)


@pytest.mark.slow
def test_a_slow_question_is_stopped_in_chromium(engine, opened):
    seen = opened()
    seen.ask("critical points", "sin(3*z)*tanh(z) + exp(-z**2)*cos(5*z)", wait=False)
    seen.page.wait_for_function("document.querySelector('[data-part=status]').textContent.startsWith('deriving')")
    seen.page.click("[data-part=stop]")
    assert seen.page.inner_text("[data-part=status]").startswith("stopped")
    assert "K' = sigma_b**2" in seen.ask("recursion", "tanh")
    assert_clean(seen)


def test_a_page_that_asks_elsewhere_is_seen(opened):
    seen = opened('<img src="https://example.org/a.png" alt="">')
    seen.page.wait_for_load_state("networkidle")
    with pytest.raises(AssertionError, match=r"asked for \['https://example.org/a.png'\]"):
        assert_clean(seen)
    seen.requests.clear()
    with pytest.raises(AssertionError, match=r"logged .*ERR_NAME_NOT_RESOLVED"):
        assert_clean(seen)


def test_a_page_without_the_engine_says_what_is_missing(opened, tmp_path):
    (tmp_path / "_static" / "derive_here").unlink()
    shutil.copytree(PAGE, tmp_path / "_static" / "derive_here", ignore=shutil.ignore_patterns("engine", "__pycache__"))
    text = opened().ask("recursion", "tanh")
    assert "engine/" in text and "This is an error of the page or of the library" in text
