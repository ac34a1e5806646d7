"""The site: `sphinx-build -W docs docs/_build` (needs `pip install -e ".[docs,plot]"`).

Pages are Markdown, the reference is made from the docstrings, the gallery from `docs/gallery/*.py`. Blocks of pages and
docstrings are executed by tests/test_docs.py, not here; `-D plot_gallery=0` leaves the pictures out, too.
"""

import re

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
exclude_patterns = ["_build", "gallery"]
nitpicky = True
default_role = "code"

html_theme = "furo"
html_title = f"meanfield {release}"
html_theme_options = {"source_edit_link": ""}
html_show_sphinx = False

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "colon_fence"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = True
templates_path = ["templates"]
add_module_names = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "pictures",
    "filename_pattern": r"\.py$",
    "download_all_examples": False,
    "show_signature": False,
    "min_reported_time": 10**6,
    "remove_config_comments": True,
    "copyfile_regex": "",
}


def as_rest(app, what, name, obj, options, lines):
    """Docstrings are written as plain text with `code` and |x|; reStructuredText reads marks where none are meant."""
    plain = True
    for i, line in enumerate(lines):
        if line.lstrip().startswith(">>>"):
            plain = False
        elif not line.strip():
            plain = True
        if plain:
            parts = re.split(r"(`[^`]*`)", line)
            lines[i] = "".join(
                f"`{p}`" if p.startswith("`") else re.sub(r"([|*\\])|(?<=\w)_(?!\w)", r"\\\g<0>", p) for p in parts
            )


def setup(app):
    app.connect("autodoc-process-docstring", as_rest)
