"""The site: `sphinx-build -W docs docs/_build` (needs `pip install -e ".[docs,plot]"`).

Pages are Markdown, the reference is made from the docstrings; the gallery and the stories, each with a notebook, are
`docs/gallery/*.py` and `docs/stories/*.py`. Blocks of pages and docstrings are executed by test_docs.py,
stories by test_stories.py; `-D plot_gallery=0` leaves the pictures out, too.
"""

import inspect
import re
from pathlib import Path

import meanfield

project = "meanfield"
author = "meanfield contributors"
release = version = meanfield.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "gallery", "stories"]
nitpicky = True
default_role = "code"

html_theme = "furo"
html_title = f"meanfield {release}"
html_theme_options = {"source_edit_link": ""}
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "static/favicon.svg"  # browsers ask for one, and log an error where there is none

if (Path(__file__).parent / "static" / "derive_here" / "engine" / "manifest.json").exists():
    tags.add("engine")  # noqa: F821 (Sphinx's own): what docs/browser/assemble.py makes is there

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "colon_fence"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
templates_path = ["templates"]
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": ["gallery", "stories"],
    "gallery_dirs": ["pictures", "notebooks"],
    "within_subsection_order": "FileNameSortKey",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 10**6,
    "remove_config_comments": True,
    "copyfile_regex": "",
    "capture_repr": (),  # a picture, and not the name of its legend
}


def escaped(text):
    """Docstrings are plain text with `code` and |x|; reStructuredText would read marks where none are meant."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        f"`{p}`\\ " if p.startswith("`") else re.sub(r"([|*\\])|(?<=\w)_(?!\w)", r"\\\g<0>", p) for p in parts
    )


def as_fields(text, names):
    """A paragraph "a: …; b, c: …" about arguments as a list, with the sentence before it; other text as it is."""
    name = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
    starts = list(re.finditer(rf"(?:^|(?<=[.;] ))((?:{name})(?:, (?:and )?(?:{name}))*): ", text)) if names else []
    if not starts:
        return [escaped(text)]
    ends = [m.start() for m in starts[1:]] + [len(text)]
    made = [escaped(text[: starts[0].start()]), ""] if starts[0].start() else []
    return [*made, *(f"* **{m[1]}** — {escaped(text[m.end() : end].rstrip(' ;'))}" for m, end in zip(starts, ends))]


def as_rest(app, what, name, obj, options, lines):
    """The docstrings of this project: paragraphs of plain text, what is said of arguments, and examples."""
    if not (getattr(obj, "__module__", None) or "meanfield").startswith("meanfield"):
        return
    try:
        names = [n.lstrip("*") for n in inspect.signature(obj).parameters if n != "self"]
    except (TypeError, ValueError):
        names = []
    made = []
    for paragraph in re.split(r"\n\s*\n", "\n".join(lines)):
        rows = paragraph.splitlines()
        kept = ">>>" in paragraph or "::" in paragraph or any(re.match(r"\s|[-*|] ", row) for row in rows)
        made += [*(rows if kept else as_fields(" ".join(rows), names)), ""]
    lines[:] = made


def ours(app, what, name, obj, skip, options):
    """What a class has from SymPy or Python is documented there."""
    made = getattr(obj, "fget", getattr(obj, "func", None))  # of a property
    home = getattr(obj, "__module__", None) or getattr(made, "__module__", "")
    return True if home and not home.startswith("meanfield") else None


#: pages of the explorer: name of the file, and what the theory is derived from
EXPLORERS = {
    "relu": ("relu", {}), "relu_skip": ("relu", {"residual": True, "mu": "mu"}),
    "relu_preln": ("relu", {"architecture": "preln"}), "relu_layernorm": ("relu", {"norm": "act"}),
    "relu_resnet": ("relu", {"architecture": "resnet"}),
    "relu_full": ("relu", {"architecture": "full_residual"}), "leaky_relu": ("leaky_relu", {}),
    "erf": ("erf", {}), "erf_skip": ("erf", {"residual": True, "mu": "mu"}), "gelu": ("gelu", {}),
    "step": ("step", {}), "tanh": ("tanh", {}),
}  # fmt: skip


def explorers(app, error):
    """Pages that compute, beside explorer.html; a builder of other formats has none."""
    if error is None and app.builder.name == "html":
        folder = Path(app.outdir, "explorers")
        folder.mkdir(exist_ok=True)
        for name, (act, settings) in EXPLORERS.items():
            meanfield.derive(act, **settings).explore(folder / f"{name}.html")


def setup(app):
    app.connect("build-finished", explorers)
    app.connect("autodoc-process-docstring", as_rest)
    app.connect("autodoc-skip-member", ours)
