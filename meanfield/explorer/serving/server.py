"""`meanfield explore`: the layout of a page served on 127.0.0.1, for any formula, with certified phases and bands.

The page is there at once; the model, and what is slow, follow when the worker has them. Requests that name another
host, or come from a page of another one, are refused (DNS rebinding).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from bokeh.application import Application
from bokeh.application.handlers import FunctionHandler
from bokeh.document import Document
from bokeh.server.server import BaseServer
from bokeh.server.tornado import BokehTornado
from bokeh.server.util import bind_sockets
from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import RequestHandler

from meanfield.base.errors import MeanFieldError
from meanfield.explorer.serving.selectable import strength
from meanfield.explorer.serving.served import Served
from meanfield.explorer.serving.worker_queue import PATIENCE, close_all

ADDRESS = "127.0.0.1"


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


def server(theory: dict[str, Any], port: int, patience: float = PATIENCE) -> tuple[BaseServer, str]:
    """(a server that is not started yet, its address). port: 0 for one that is free.

    theory: act, and what `derive` takes with it. Raises: MeanFieldError where the port is taken, or mu is no number.
    """
    strength(theory.get("mu"))
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
