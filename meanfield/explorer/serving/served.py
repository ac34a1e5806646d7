"""One open page of a server: what it has asked, what is shown of the answers, and which numbers it takes."""

from __future__ import annotations

import html
from typing import Any

from bokeh.document import Document
from bokeh.models import ColumnDataSource, InlineStyleSheet
from bokeh.models.widgets import Div, Select, TextInput

from meanfield.base.errors import MeanFieldError
from meanfield.explorer.layout import INK, Shown, document, noted
from meanfield.explorer.serving.selectable import (
    CHOICES,
    SYMBOLS,
    at_values,
    choice_of,
    strength,
    usable,
    with_activation,
    with_architecture,
    with_parameters,
)
from meanfield.explorer.serving.worker_queue import WorkerQueue

LONGEST = 400  # characters of a formula
LEAD = (
    "Move over the plane, and layers are computed under the pointer, in the browser; a click holds a point, and asks "
    "for its certified phase and for networks of finite width."
)


class Served:
    """One open page: its document, what it has asked, and what is shown of the answers."""

    def __init__(self, doc: Document, theory: dict[str, Any], patience: float):
        self.doc, self.patience = doc, patience
        found = choice_of(theory)
        start = SYMBOLS | {"mu": strength(theory.get("mu"))}
        self.theory = {"parameters": {}, **theory} if found is None else with_parameters(theory, CHOICES[found])
        self.version, self.place, self.shown = 0, (0.0, 0.0), ""
        self.parameters: dict[str, float] = {}
        self.notes: list[str] = []
        self.asking = WorkerQueue(self._told, patience)
        style: list[Any] = [InlineStyleSheet(css=INK)]
        options: list[Any] = [*([] if found else [""]), *CHOICES]
        self.typed = TextInput(
            value=theory["act"], title="activation: a name or a formula in z", name="typed",
            sizing_mode="stretch_width", stylesheets=style,
        )  # fmt: skip
        self.chosen = Select(
            value=found or "", options=options, title="architecture", name="chosen",
            sizing_mode="stretch_width", stylesheets=style,
        )  # fmt: skip
        first = Shown("meanfield explore", "", notes=(f"Deriving {theory['act']} …",), parameters=start)
        self.parts = document(first, doc, LEAD, {"typed": self.typed, "chosen": self.chosen}).parts
        self.sliders = {one.name: one for one in self.parts["sliders"]}
        for one in self.sliders.values():
            one.visible = False  # until a model has such a symbol
            one.on_change("value_throttled", lambda _, __, ___: self._moved())
        self.typed.on_change("value", lambda _, __, value: self.derive(value))
        self.chosen.on_change("value", lambda _, __, value: self._choose(value))
        self.parts["asked"].on_change("data", lambda _, __, data: self._tapped(data))
        doc.on_session_destroyed(lambda _: self.asking.close())
        self._ask_model()

    def derive(self, act: str) -> None:
        """Ask for the model of another activation."""
        if len(act) > LONGEST:
            self._say(f"A formula has at most {LONGEST} characters here, and this one has {len(act)}.")
            return
        self.theory = with_activation(self.theory, act)
        self._ask_model()

    def _choose(self, name: object) -> None:
        """Ask for the model of another architecture."""
        try:
            self.theory = with_architecture(self.theory, name)
        except MeanFieldError as error:
            self._say(str(error))
            return
        self._ask_model()

    def _ask_model(self) -> None:
        self._say(f"Deriving {self.theory['act']} …")
        self.asking.ask("model", {"theory": self.theory})

    def _values(self) -> dict[str, float]:
        """The numbers of the symbols that the model has."""
        return {name: usable(name, self.sliders[name].value) for name in self.parameters if name in self.sliders}

    def _moved(self) -> None:
        """Ask for the critical points where a slider was let go."""
        try:
            values = self._values()
        except MeanFieldError as error:
            self._say(str(error))
            return
        if values:
            self.asking.ask("marks", {"theory": at_values(self.theory, values)})

    def _say(self, *sentences: str) -> None:
        self.parts["notes"].text = noted(sentences)

    def _tapped(self, data: dict[str, Any]) -> None:
        """Ask for the certified phase and the networks of the point that is held in the browser."""
        names = ("sigma_w", "sigma_b", "norm", "depth")
        if not self.version or not set(names) <= set(data):
            return
        try:
            asked = {name: usable(name, next(iter(data[name]), None)) for name in names}
            parameters = self.parameters | self._values()
        except (MeanFieldError, TypeError) as error:
            self.parts["certified"].text = noted((str(error),))
            return
        settings = {
            "theory": self.theory, "sigma_w": asked["sigma_w"], "sigma_b": asked["sigma_b"],
            "parameters": parameters, "input_norm": asked["norm"], "depth": int(asked["depth"]),
        }  # fmt: skip
        self.parts["certified"].text = "<p>The certified phase and 20 networks follow …</p>"
        self.place = (asked["sigma_w"], asked["sigma_b"])
        self.asking.ask("phase", settings)
        self.asking.ask("bands", settings)

    def _told(self, said: dict[str, Any]) -> None:
        self.doc.add_next_tick_callback(lambda: self._show(said))

    def _show(self, said: dict[str, Any]) -> None:
        what, found = said["what"], said.get("answer")
        if found is None:
            still = (f"Still shown: {self.shown}.",) if what == "model" and self.shown else ()
            target: Div = self.parts["notes" if what == "model" else "certified"]
            target.text = noted((said["error"], *still))
        elif what == "model":
            self.version += 1
            self.parameters = found["parameters"]
            self.shown, self.notes = found["title"], found["notes"]
            for name, one in self.sliders.items():
                one.visible = name in self.parameters
            self._mark(found)
            engine: ColumnDataSource = self.parts["engine"]
            engine.tags = [self.version]
            fixed = {k: v for k, v in self.parameters.items() if k not in self.sliders}
            engine.data = dict(engine.data) | {"script": [found["script"]], "fixed": [fixed]}
            if self._values() != {k: SYMBOLS[k] for k in self.parameters if k in self.sliders}:
                self._moved()
        elif what == "marks":
            self._mark(found)
        elif what == "phase":
            text = html.escape(found["text"])
            self.parts["certified"].text = f"<p>at ({self.place[0]:.7g}, {self.place[1]:.7g}), certified, {text}</p>"
        else:
            for name in ("K", "J"):
                rows = found.get(name, {"l": [], "low": [], "high": []})
                self.parts[f"bands_{name}"].data = rows


    def _mark(self, found: dict[str, Any]) -> None:
        """Show critical points, and how far the plane goes."""
        (w, b), points = found["extent"], found["marks"]
        self.parts["plane"].x_range.end, self.parts["plane"].y_range.end = w, b
        self.parts["marks"].data = {k: [one[i] for one in points] for i, k in enumerate(("x", "y", "name"))}
        self._say(self.shown, found["recommended"], *self.notes)
