"""`Theory.explore`: one HTML file that computes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from meanfield.base.arguments import path as refuse_no_path
from meanfield.base.arguments import positive
from meanfield.base.errors import MeanFieldError
from meanfield.base.storage.files import write_whole
from meanfield.explorer.page_content import accuracy, extent_of, followed, marks
from meanfield.theory.queries.architecture_maps import Maps

LEAD = (
    "Move over the plane of σ_w and σ_b, and layers are computed under the pointer; click to hold a point. Everything "
    "is computed in this page."
)


def require() -> None:
    """Raise `MeanFieldError` where Bokeh is not installed."""
    try:
        import bokeh  # noqa: F401
    except ImportError:
        raise MeanFieldError(
            "A page that computes is not available: Bokeh is not installed; try: pip install 'meanfield[explorer]'."
        ) from None


def explore(theory: Maps, page: str | os.PathLike, *, start: tuple[Any, Any] = (1.5, 0.1), **parameters: Any) -> Path:
    """`Theory.explore`."""
    refuse_no_path(page, "The page of an explorer", optional=False)
    target = Path(page)
    if target.suffix.lower() not in (".html", ".htm"):
        raise MeanFieldError(f"page must be a file that ends in .html, but {str(page)!r} was given.")
    if not target.parent.is_dir():
        raise MeanFieldError(f"{page} cannot be written: the folder {target.parent} does not exist.")
    require()
    return write_whole(target, written(theory, start, parameters).encode())


def written(theory: Maps, start: tuple[Any, Any], parameters: dict[str, Any]) -> str:
    """The file as text."""
    from bokeh.document import Document
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    from meanfield.explorer.layout import Shown, document

    known = followed(theory, parameters)
    w, b = (float(positive(v, n)) if v else 0.0 for v, n in zip(start, ("sigma_w", "sigma_b")))
    points, recommended = marks(theory)
    extent = extent_of(points)
    shown = Shown(
        known.title, known.model.script, start=(w, b), extent=extent, marks=points,
        notes=(recommended, *known.notes, accuracy(known.model)), parameters=known.parameters,
    )  # fmt: skip
    doc = document(shown, Document(), LEAD).doc
    return file_html(doc, INLINE, template=doc.template, template_variables=doc.template_variables, title=known.title)
