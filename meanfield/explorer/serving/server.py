"""`meanfield explore`: the layout of a page served on 127.0.0.1, for any formula, with certified phases and bands.

The page is there at once; the model, and what is slow, follow when the worker has them. Requests that name another
host, or come from a page of another one, are refused (DNS rebinding).
"""

from __future__ import annotations

import html
import logging
from collections.abc import Callable
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.models import ColumnDataSource, InlineStyleSheet
from bokeh.models.widgets import Div, TextInput
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from meanfield.base.errors import MeanFieldError
from meanfield.explorer.layout import INK, Shown, document, noted
from meanfield.explorer.serving.asking import PATIENCE, Asking, close_all

ADDRESS = "127.0.0.1"
LONGEST = 400  # characters of a formula
LEAD = (
    "Move over the plane, and layers are computed under the pointer, in the browser; a click holds a point, and asks "
    "for its certified phase and for networks of finite width."
)


class _Foreign(RequestHandler):
    def prepare(self) -> None:
        self.set_status(403)
        self.finish("This page answers to its own address alone.\n")


class _Guarded(BokehTornado):
    """Bokeh's application, which answers only to requests that name this host, and come from no other page."""

    allowed: frozenset[str] = frozenset()

    def find_handler(self, request: Any, **kwargs: Any) -> Any:
        origin = request.headers.get("Origin")
        own = origin is None or origin in {f"http://{host}" for host in self.allowed}
        if request.headers.get("Host") in self.allowed and own:
            return super().find_handler(request, **kwargs)
        return self.get_handler_delegate(request, _Foreign)


class Served:
    """One open page: its document, what it has asked, and what is shown of the answers."""

    def __init__(self, doc: Document, theory: dict[str, Any], patience: float):
        self.doc, self.theory, self.patience = doc, dict(theory), patience
        self.version, self.place, self.shown = 0, (0.0, 0.0), ""
        self.parameters: dict[str, float] = {}
        self.asking = Asking(self._told, patience)
        self.typed = TextInput(
            value=theory["act"], title="activation: a name or a formula in z", name="typed",
            sizing_mode="stretch_width", stylesheets=[InlineStyleSheet(css=INK)],
        )  # fmt: skip
        first = Shown("meanfield explore", "", notes=(f"Deriving {theory['act']} …",))
        self.parts = document(first, doc, LEAD, {"typed": self.typed}).parts
        self.typed.on_change("value", lambda _, __, value: self.derive(value))
        self.parts["asked"].on_change("data", lambda _, __, data: self._tapped(data))
        doc.on_session_destroyed(lambda _: self.asking.close())
        self.derive(theory["act"])

    def derive(self, act: str) -> None:
        """Ask for the model of another activation."""
        if len(act) > LONGEST:
            self._say(f"A formula has at most {LONGEST} characters here, and this one has {len(act)}.")
            return
        self.theory["act"] = act
        self._say(f"Deriving {act} …")
        self.asking.ask("model", {"theory": self.theory})

    def _say(self, *sentences: str) -> None:
        self.parts["notes"].text = noted(sentences)

    def _tapped(self, data: dict[str, Any]) -> None:
        """Ask for the certified phase and the networks of the point that is held in the browser."""
        asked = {name: float(rows[0]) for name, rows in data.items() if len(rows)}
        if not self.version or set(asked) != {"sigma_w", "sigma_b", "norm", "depth"}:
            return
        settings = {
            "theory": self.theory, "sigma_w": asked["sigma_w"], "sigma_b": asked["sigma_b"],
            "parameters": self.parameters, "input_norm": asked["norm"], "depth": int(asked["depth"]),
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
            (w, b), points = found["extent"], found["marks"]
            self.parts["plane"].x_range.end, self.parts["plane"].y_range.end = w, b
            self.parts["marks"].data = {k: [one[i] for one in points] for i, k in enumerate(("x", "y", "name"))}
            self.shown = found["title"]
            self._say(found["title"], *found["notes"])
            engine: ColumnDataSource = self.parts["engine"]
            engine.tags = [self.version]
            engine.data = dict(engine.data) | {"script": [found["script"]], "fixed": [self.parameters]}
        elif what == "phase":
            text = html.escape(found["text"])
            self.parts["certified"].text = f"<p>at ({self.place[0]:.7g}, {self.place[1]:.7g}), certified, {text}</p>"
        else:
            for name in ("K", "J"):
                rows = found.get(name, {"l": [], "low": [], "high": []})
                self.parts[f"bands_{name}"].data = rows


def server(theory: dict[str, Any], port: int, patience: float = PATIENCE) -> tuple[BaseServer, str]:
    """(a server that is not started yet, its address). port: 0 for one that is free.

    theory: act, and what `derive` takes with it. Raises: MeanFieldError where the port is taken.
    """
    try:
        sockets, port = bind_sockets(ADDRESS, port)
    except OSError as error:
        raise MeanFieldError(
            f"Port {port} of {ADDRESS} cannot be listened to: {error.strerror or error}; give another --port, or 0 for "
            "one that is free."
        ) from None
    hosts = frozenset({f"{ADDRESS}:{port}", f"localhost:{port}"})
    application = Application(FunctionHandler(lambda doc: _opened(doc, theory, patience)))
    guarded = _Guarded({"/": application}, extra_websocket_origins=sorted(hosts), use_index=False)
    guarded.allowed = hosts
    listening = HTTPServer(guarded)
    listening.add_sockets(sockets)
    return BaseServer(IOLoop.current(), guarded, listening), f"http://{ADDRESS}:{port}/"


def _opened(doc: Document, theory: dict[str, Any], patience: float) -> None:
    Served(doc, theory, patience)


def serve(theory: dict[str, Any], port: int, opened: Callable[[str], None]) -> None:
    """Serve until the process is interrupted; `opened` is told the address."""
    made, address = server(theory, port)
    logging.getLogger("bokeh").setLevel(logging.ERROR)  # a page that is closed is no event here
    made.start()
    opened(address)
    try:
        made.io_loop.start()
    except KeyboardInterrupt:
        made.stop()
    finally:
        close_all()
