"""The documentation is executed: Python blocks, the output printed below them, links, command lines, docstrings.

A ```python block runs in the namespace of its file, after the blocks above it; a ```text block right below it is what
it must print. A ```bash block holds command lines that must parse (they are not run).
"""

from __future__ import annotations

import contextlib
import doctest
import functools
import importlib
import io
import re
import shlex
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

import meanfield as mf
from tests import ROOT, TESTS

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
WITH_EXAMPLES = {
    "meanfield",
    "meanfield.bias.class_fraction",
    "meanfield.theory.deriving",
    "meanfield.theory.theory",
    "meanfield.theory.queries.architecture_maps",
    "meanfield.functions.activations",
    "meanfield.functions.reading.parser",
    "meanfield.symbolic.averages.node",
    "meanfield.symbolic.finite_width.correlator_maps",
    "meanfield.symbolic.finite_width.first_layer",
    "meanfield.symbolic.finite_width.index_maps",
    "meanfield.symbolic.finite_width.layer_law",
    "meanfield.symbolic.finite_width.linear_correlators",
    "meanfield.symbolic.finite_width.haar.haar_moments",
    "meanfield.symbolic.finite_width.weight_averages",
    "meanfield.symbolic.finite_width.haar.orthogonality",
    "meanfield.symbolic.finite_width.correlator_recursions",
    "meanfield.symbolic.finite_width.haar.weingarten",
    "meanfield.comparison.check",
    "meanfield.comparison.measure",
}


def names(paths):
    return [str(p.relative_to(ROOT)) for p in paths]


@dataclass(frozen=True)
class Block:
    """A fenced block: language, text, its first line, and whether only blank lines part it from the one above."""

    language: str
    text: str
    line: int
    follows: bool


def blocks(text: str) -> list[Block]:
    found, lines, end = [], text.splitlines(), -10
    i = 0
    while i < len(lines):
        if lines[i].startswith("```"):
            close = next(j for j in range(i + 1, len(lines)) if lines[j].startswith("```"))
            follows = bool(found) and not "".join(lines[end + 1 : i]).strip()
            found.append(Block(lines[i][3:].strip(), "\n".join(lines[i + 1 : close]) + "\n", i + 2, follows))
            i = end = close
        i += 1
    return found


def prose(text: str) -> str:
    """The text without its fenced blocks and without inline code."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"(?ms)^```.*?^```", "", text))


def run_page(text: str, where: str) -> int:
    """Execute the Python blocks of a page and compare what they print; returns how many ran."""
    space: dict[str, object] = {"__name__": "page"}
    page, count = blocks(text), 0
    for i, block in enumerate(page):
        if block.language != "python":
            continue
        printed = io.StringIO()
        code = compile("\n" * (block.line - 1) + block.text, where, "exec", dont_inherit=True)
        with contextlib.redirect_stdout(printed):
            exec(code, space)
        count += 1
        if i + 1 < len(page) and page[i + 1].language == "text" and page[i + 1].follows:
            ours, theirs = (
                [line.rstrip() for line in t.rstrip().splitlines()] for t in (printed.getvalue(), page[i + 1].text)
            )
            assert ours == theirs, f"{where}, line {page[i + 1].line}: the block above prints\n{printed.getvalue()}"
    return count


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def check_links(text: str, folder: Path) -> int:
    """Every relative link and picture exists, and so does the heading it names; returns how many were looked at."""
    targets = [t for t in re.findall(r"\]\(([^)\s]+)\)", prose(text)) if not re.match(r"https?:|mailto:", t)]
    for target in targets:
        file, _, anchor = target.partition("#")
        file = re.sub(r"^pictures/index\.rst$", "gallery/README.rst", file)  # what Sphinx makes of the scripts there
        file = re.sub(r"^notebooks/index\.rst$", "stories/README.rst", file)
        path = (folder / file).resolve() if file else None
        assert path is None or path.exists(), f"{target} does not exist"
        if anchor:
            page = path.read_text() if path else text
            headings = re.findall(r"(?m)^#+ (.*)$", re.sub(r"(?ms)^```.*?^```", "", page))
            assert anchor in map(slug, headings), f"{target} names no heading"
    return len(targets)


def check_command(line: str) -> None:
    """One command line of the documentation: a real extra, a real program, a real verb with real options."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        extra = re.fullmatch(r"\.\[(\w+)\]", words[-1])
        assert extra and extra[1] in EXTRAS, f"{line}: there is no such extra"
    elif words[0] == "pytest":
        assert any(r.startswith("pytest") for r in EXTRAS["dev"]), f"{line}: no such tool"
    elif words[:2] == ["python", "-m"]:
        path = ROOT / words[2].replace(".", "/")
        assert (path / "__main__.py").exists() or path.with_suffix(".py").exists(), f"{line}: no such module"
    else:
        assert words[0] in SCRIPTS, f"{line}: {words[0]} is not a program of this project"
        module, function = SCRIPTS[words[0]].split(":")
        cli = importlib.import_module(module)
        assert callable(getattr(cli, function))
        if words[1:] in (["--version"], ["--help"]):
            return
        verbs = typer.main.get_command(importlib.import_module("meanfield.cli.app").app).commands
        assert len(words) > 1 and words[1] in verbs, f"{line}: there is no verb {words[1:2]}"
        try:
            verbs[words[1]].make_context(words[1], words[2:])
        except Exception as error:
            raise AssertionError(f"{line}: {error}") from error


def commands(text: str) -> list[str]:
    lines = [line for b in blocks(text) if b.language == "bash" for line in b.text.splitlines()]
    bare = [line.split("#")[0].strip() for line in lines]
    return [part.strip() for line in bare if line for part in line.split("&&")]


@pytest.fixture
def registry():
    """The registry of activations, put back after a page has added to it."""
    module = importlib.import_module("meanfield.functions.activations")
    before = dict(module._REGISTRY)
    yield
    module._REGISTRY.clear()
    module._REGISTRY.update(before)
    module._named.cache_clear()


# the errata prove again what the tests of their paper prove: a quarter of a minute
RUN = [pytest.param(p, marks=[pytest.mark.slow] * (p.name == "errata.md"), id=i) for p, i in zip(PAGES, names(PAGES))]


@pytest.mark.slow_with(
    "docs/accuracy.md", "docs/batch.md", "docs/coordinate_checks.md", "docs/ensembles.md", "docs/functions.md",
    "docs/gains.md", "docs/gates.md", "docs/one_activation.md", "docs/orthogonal_weights.md", "docs/phase_tables.md",
    "docs/quickstart.md", "docs/results.md", "docs/tour.md", "docs/training.md", "docs/transformers.md",
)  # fmt: skip
@pytest.mark.parametrize("page", RUN)
def test_python_blocks_run_and_print_what_is_shown(page, registry, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    count = run_page(page.read_text(), str(page.relative_to(ROOT)))
    if page.name in ("README.md", "errata.md"):
        assert count > 0


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_links_and_pictures_exist(page):
    looked = check_links(page.read_text(), page.parent)
    if page.name == "README.md":
        assert looked > 0


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_command_lines_name_real_entry_points(page):
    lines = commands(page.read_text())
    for line in lines:
        check_command(line)
    if page.name == "README.md":
        assert "meanfield demo" in lines and "pytest" in lines


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_lines_have_at_most_100_columns(page):
    long = [i for i, line in enumerate(page.read_text().splitlines(), 1) if len(line) > 100 and line[:1] != "|"]
    assert not long, f"{page.name}: lines {long} are longer than 100 columns"


def example_modules() -> list[str]:
    """Modules of the package with an example in their text."""
    found = []
    for path in sorted((ROOT / "meanfield").rglob("*.py")):
        if re.search(r"(?m)^\s*>>> ", path.read_text()):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return found


@pytest.mark.slow_with(
    "meanfield.empirical.functions.groups", "meanfield.numeric.run.depth_iteration", "meanfield.theory.theory"
)
@pytest.mark.parametrize("name", example_modules())
def test_docstring_examples(name):
    module = importlib.import_module(name)
    printed = io.StringIO()
    runner = doctest.DocTestRunner()
    face = {n: getattr(mf, n) for n in mf.__all__}  # examples are written for a reader of the public names
    held = {
        f"{cls.__name__}.{n}": p.func  # doctest does not look into them
        for cls in vars(module).values()
        if isinstance(cls, type) and cls.__module__ == name
        for n, p in vars(cls).items()
        if isinstance(p, functools.cached_property)
    }
    finder = doctest.DocTestFinder()
    examples = finder.find(module, extraglobs=face)
    examples += [e for n, f in held.items() for e in finder.find(f, n, module, extraglobs=face)]
    for example in examples:
        runner.run(example, out=printed.write)
    assert runner.failures == 0, printed.getvalue()
    assert runner.tries > 0 or name not in WITH_EXAMPLES


def test_the_public_modules_have_examples():
    assert set(example_modules()) >= WITH_EXAMPLES


def test_planted_errors_in_a_page_are_caught(tmp_path):
    good = "```python\nx = 1\nprint(x)\n```\n\n```text\n1\n```\n"
    assert run_page(good, "page") == 1
    with pytest.raises(AssertionError, match="prints"):
        run_page(good.replace("\n1\n", "\n2\n"), "page")
    with pytest.raises(NameError, match="name 'y' is not defined"):
        run_page("```python\ny + 1\n```\n", "page")
    with pytest.raises(AssertionError, match="does not exist"):
        check_links("[a](no-such-file.md)", tmp_path)
    with pytest.raises(AssertionError, match="heading"):
        check_links("# One\n[a](#two)", tmp_path)
    for line, said in (
        ("meanfield derrive tanh", "there is no verb"),
        ("meanfield derive tanh --sigma 1", "No such option: --sigma"),
        ("pip install -e .[nothing]", "there is no such extra"),
        ("fieldmean x", "is not a program of this project"),
    ):
        with pytest.raises(AssertionError, match=said):
            check_command(line)


def missing_tests(text: str) -> list[str]:
    """Tests that a page names (`file::test`) and that do not exist."""
    found = re.findall(r"`(test_\w+\.py)::(test_\w+)`", text)
    return [f"{f}::{t}" for f, t in found if not re.search(rf"^def {t}\(", _tests(f), re.MULTILINE)]


@functools.lru_cache
def _tests(name: str) -> str:
    paths = TESTS.rglob(name)
    return "".join(path.read_text(encoding="utf-8") for path in paths)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_tests_that_a_page_names_exist(page):
    assert missing_tests(page.read_text(encoding="utf-8")) == []


def test_a_test_that_does_not_exist_is_seen():
    own = "`test_docs.py::test_a_test_that_does_not_exist_is_seen`"
    assert missing_tests(f"`test_docs.py::test_no`, `test_none.py::test_x`, {own}") == [
        "test_docs.py::test_no",
        "test_none.py::test_x",
    ]


def unknown_in(page: str) -> list[str]:
    """Names in the table of rooms, and paths anywhere, of a page of docs/ that are no module, folder or definition."""
    package = Path(mf.__file__).parent
    files = [p.relative_to(package) for p in package.rglob("*.py")]
    modules = {"/".join(p.with_suffix("").parts[i:]) for p in files for i in range(len(p.parts))}
    folders = {"/".join(p.parts[i:-1]) for p in files for i in range(len(p.parts) - 1)}
    defined = set(re.findall(r"(?:def|class) (\w+)", "".join(p.read_text() for p in package.rglob("*.py"))))
    rows = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    written = re.findall(r"`([a-z_][a-z0-9_]*)`", rows) + re.findall(r"`([a-z_][a-z0-9_]*(?:/[a-z0-9_]+)+/?)`", page)
    named = {name for name in written if name.split("/")[0] not in ("tests", "docs", "benchmarks", "derivations")}
    return sorted(n for n in named if n.rstrip("/") not in modules | folders | defined)


def test_the_rooms_of_the_design_are_there():
    """`tex/names` stood there after it had moved."""
    page = (ROOT / "docs" / "design.md").read_text()
    assert not unknown_in(page)
    assert unknown_in(page + "\n| a room | `tex/names`, `no_such_module` |\n") == ["no_such_module", "tex/names"]


def uneven_rows(page: str) -> list[str]:
    """Rows of tables with another number of columns than the row above them."""
    lines = ["", *page.splitlines()]
    counts = [len(re.findall(r"(?<!\\)\|", line)) if line.startswith("|") else 0 for line in lines]
    return [line for line, own, above in zip(lines[1:], counts[1:], counts) if own and above and own != above]


@pytest.mark.parametrize("page", PAGES, ids=names(PAGES))
def test_rows_of_tables_have_their_columns(page):
    """A bar in a formula ends a cell: what stood behind |c| was not shown."""
    assert not uneven_rows(page.read_text())
    assert uneven_rows("| a | b |\n|---|---|\n| |c| = 1 | d |\n") == ["| |c| = 1 | d |"]
