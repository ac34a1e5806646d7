"""The page as Bokeh models: the plane, the curves over depth, the cobwebs, what is said, and the controls.

The same layout is written into a file and served; what moves it is `view.js`, in the browser. Bokeh is imported here.
"""

from __future__ import annotations

import html
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import Any

import numpy as np
from bokeh.document import Document
from bokeh.events import DocumentReady, MouseMove, Tap
from bokeh.layouts import column
from bokeh.models import ColumnDataSource, CustomJS, InlineStyleSheet
from bokeh.models.widgets import Div, Slider
from bokeh.plotting import figure
from jinja2 import Template

POINTS = 100  # of an axis of the plane's colours
BLUE, ORANGE, GREY = "#3b78c2", "#d5701f", "#8a8a8a"
LEAST, MOST = -6, 6  # log10 of the input norm
LIGHT = ":host { color: inherit; } .says td { padding: 1px 8px 1px 0; vertical-align: top; }"


@dataclass(frozen=True)
class Shown:
    """What a page shows of a theory: its name, the script of its model and the points it marks."""

    title: str
    script: str
    version: int = 0
    start: tuple[float, float] = (1.5, 0.1)
    extent: tuple[float, float] = (3.0, 3.0)
    marks: tuple[tuple[float, float, str], ...] = ()
    notes: tuple[str, ...] = ()
    parameters: dict[str, float] = field(default_factory=dict)


@lru_cache(maxsize=1)
def library() -> str:
    """The JavaScript that pages share."""
    folder = files("meanfield.explorer")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in ("follow.js", "view.js"))


@lru_cache(maxsize=1)
def template() -> str:
    """The page around the models, in Jinja."""
    return files("meanfield.explorer").joinpath("page.html").read_text(encoding="utf-8")


def _figure(title: str, x: str, y: str, **settings: Any) -> Any:
    one: Any = figure(
        title=title, x_axis_label=x, y_axis_label=y, height=270, sizing_mode="stretch_width", tools="", min_width=200,
        toolbar_location=None, background_fill_alpha=0, border_fill_alpha=0, output_backend="canvas", **settings,
    )  # fmt: skip
    one.title.text_font_size = "13px"
    return one


def layout(shown: Shown) -> dict[str, Any]:
    """Models by name: roots, in the order they stand, and "parts", what view.js is given.

    Everything a browser computes from is in `engine`: the script of the model, the start, and a version by which it is
    seen to be another one.
    """
    engine = ColumnDataSource(
        {"script": [shown.script], "start": [list(shown.start)], "fixed": [{}]}, tags=[shown.version]
    )
    sources = {name: ColumnDataSource({column: [1.0] for column in columns}) for name, columns in _COLUMNS.items()}
    for name in ("asked", "bands_K", "bands_J"):  # a server's affair
        sources[name].data = {column: [] for column in _COLUMNS[name]}
    sources["pointer"].data = {"x": [shown.start[0]], "y": [shown.start[1]]}
    plane = _plane(shown, sources)
    figures = [plane, *_curves(sources)]
    says, certified, notes = _text("says", ""), _text("certified", ""), _text("notes", noted(shown.notes))
    beside = column(notes, certified, name="beside", sizing_mode="stretch_width")
    controls = [
        _slider("depth", "layers", 2, 1000, 50, 1),
        _slider("norm", "log10 of |x|²/N", LEAST, MOST, 0, 0.05),
        _slider("cosine", "cosine of two inputs", -1, 1, 0.5, 0.01),
    ]
    more = [_slider(n, n, min(0.0, 2 * v), max(2.0, 2 * v), v, 0.01) for n, v in shown.parameters.items()]
    parts = sources | {"engine": engine, "plane": plane, "figures": figures, "sliders": more}
    parts |= {str(one.name): one for one in (*controls, says, notes, certified)}
    plane.js_on_event(MouseMove, _callback(parts, "moved(parts, cb_obj)"))
    plane.js_on_event(Tap, _callback(parts, "tapped(parts, cb_obj)"))
    changed = _callback(parts, "changed(parts)")
    for slider in (*controls, *more):
        slider.js_on_change("value", changed)
        slider.js_on_change("value_throttled", _callback(parts, "ask(parts)"))
    engine.js_on_change("data", changed)
    return {
        "shown": [plane, says, beside, *figures[1:]], "controls": [*controls, *more], "parts": parts,
        "ready": (DocumentReady, _callback(parts, "ready(parts)")),
    }  # fmt: skip


def _text(name: str, text: str) -> Div:
    return Div(text=text, name=name, sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=LIGHT)])


def _slider(name: str, title: str, low: float, high: float, value: float, step: float) -> Slider:
    style = InlineStyleSheet(css=INK)  # of this document alone
    return Slider(
        name=name, title=title, start=low, end=high, value=value, step=step, sizing_mode="stretch_width",
        stylesheets=[style],
    )  # fmt: skip


INK = (
    ":host { color: inherit; } .bk-slider-title { color: inherit; } "
    ".bk-input { color: inherit; background-color: transparent; }"
)
_COLUMNS = {
    "pointer": ("x", "y"),
    "curves": ("l", "K", "log_J", "c", "distance"),
    "maps_K": ("x", "y", "same"),
    "steps_K": ("x", "y"),
    "maps_c": ("x", "y", "same"),
    "steps_c": ("x", "y"),
    "picture": ("image",),
    "marks": ("x", "y", "name"),
    "asked": ("sigma_w", "sigma_b", "norm", "depth"),
    "bands_K": ("l", "low", "high"),
    "bands_J": ("l", "low", "high"),
}


def _callback(parts: dict[str, Any], call: str) -> CustomJS:
    names = ", ".join(parts)
    return CustomJS(args=dict(parts), code=f"const parts = {{{names}}};\nmeanfieldExplorer.{call};")


def noted(sentences: Iterable[str]) -> str:
    """What is said beside the numbers, as HTML."""
    return "".join(f"<p>{html.escape(one)}</p>" for one in sentences)


def _plane(shown: Shown, sources: dict[str, ColumnDataSource]) -> Any:
    w, b = shown.extent
    plane = _figure("phase: blue ordered, orange chaotic", "σ_w", "σ_b", x_range=(0, w), y_range=(0, b), name="plane")
    plane.grid.visible = False
    sources["picture"].data = {"image": [np.zeros((POINTS, POINTS), dtype=np.uint32)]}  # view.js fills it
    plane.image_rgba("image", source=sources["picture"], x=0, y=0, dw=w, dh=b)
    xs, ys, names = ([m[i] for m in shown.marks] for i in range(3))
    sources["marks"].data = {"x": xs, "y": ys, "name": names}
    plane.scatter("x", "y", source=sources["marks"], marker="star", size=13, color="#f5d90a", line_color="#222")
    plane.scatter("x", "y", source=sources["pointer"], marker="circle", size=9, fill_color="white", line_color="black")
    return plane


def _curves(sources: dict[str, ColumnDataSource]) -> tuple[Any, ...]:
    own = sources["curves"]
    K = _figure("variance", "l", "K", y_axis_type="log", name="K")
    J = _figure("squared Jacobian", "l", "log J", name="J")
    c = _figure("correlation of two inputs", "l", "c", name="c")
    apart = _figure("squared distance of two inputs", "l", "2K(1 - c)", y_axis_type="log", name="apart")
    for one, name in ((K, "K"), (J, "J")):  # filled by a server alone
        one.varea("l", "low", "high", source=sources[f"bands_{name}"], fill_alpha=0.3, fill_color=ORANGE)
    for one, held in ((K, "K"), (J, "log_J"), (c, "c"), (apart, "distance")):
        one.line("l", held, source=own, line_width=2, color=BLUE)
        one.scatter("l", held, source=own, size=3, color=BLUE)
    web_K = _figure("K to the next K", "K", "K'", x_axis_type="log", y_axis_type="log", name="web_K")
    web_c = _figure("c to the next c, at K* (or the last K)", "c", "c'", name="web_c")
    for one, name in ((web_K, "K"), (web_c, "c")):
        one.line("x", "same", source=sources[f"maps_{name}"], color=GREY)
        one.line("x", "y", source=sources[f"maps_{name}"], color=BLUE, line_width=2)
        one.line("x", "y", source=sources[f"steps_{name}"], color=ORANGE)
    return K, J, c, apart, web_K, web_c


@dataclass(frozen=True)
class Laid:
    """A document and its models by name."""

    doc: Document
    parts: dict[str, Any]


def document(shown: Shown, doc: Document, lead: str, more: dict[str, Any] | None = None) -> Laid:
    """A document with the layout of a theory, its template and what the template is given.

    more: roots by name that stand above the controls (those of a server).
    """
    made = layout(shown)
    with doc.models.freeze():  # what belongs to a document is found once, not for each root
        for one in [*(more or {}).values(), *made["controls"], *made["shown"]]:
            doc.add_root(one)
    doc.js_on_event(*made["ready"])
    doc.template = Template(template())
    doc.template_variables.update(
        heading=shown.title, lead=lead, library=library(), above=list(more or {}),
        controls=[one.name for one in made["controls"]], shown=[one.name for one in made["shown"]],
    )  # fmt: skip
    return Laid(doc, made["parts"])
