"""`meanfield explore`: what is refused, what is ended, and what an open page is told."""

from __future__ import annotations

import json
import queue
import socket
import threading
import time
import urllib.error
import urllib.request

import pytest

from meanfield.base.answers.results import MeanFieldError
from meanfield.explorer.serving.worker import answer
from meanfield.explorer.serving.worker_queue import WorkerQueue, close_all
from tests.explorer.explorer_pages import CHROMIUM

pytest.importorskip("bokeh", reason="Bokeh is not installed, which serves pages")
RELU = {"act": "relu", "parameters": {}}


@pytest.fixture
def address():
    """A server in a thread of its own."""
    import asyncio

    from meanfield.explorer.serving.server import server

    ready: queue.Queue = queue.Queue()

    def run() -> None:
        asyncio.set_event_loop(asyncio.new_event_loop())
        made, where = server(RELU, 0)
        made.start()
        ready.put((made, where))
        made.io_loop.start()

    threading.Thread(target=run, daemon=True).start()
    made, where = ready.get(timeout=20)
    yield where

    def stop() -> None:
        made.stop(wait=False)
        made.io_loop.stop()

    made.io_loop.add_callback(stop)
    close_all()


def status(address: str, **headers: str) -> int:
    try:
        return urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=30).status
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.filterwarnings("ignore")
def test_foreign_hosts_and_pages_are_refused(address):
    port = address.rsplit(":", 1)[1].strip("/")
    assert status(address) == 200
    assert status(address, Host=f"localhost:{port}", Origin=f"http://localhost:{port}") == 200
    for headers in (
        {"Host": "rebound.example"}, {"Host": f"rebound.example:{port}"}, {"Host": "127.0.0.1:1"},
        {"Origin": "http://rebound.example"}, {"Origin": "null"}, {"Host": ""},
    ):  # fmt: skip
        assert status(address, **headers) == 403, headers
        assert status(address + "static/js/bokeh.min.js", **headers) == 403, headers
    with socket.create_connection(("127.0.0.1", int(port)), timeout=20) as one:  # the WebSocket asks for an upgrade
        one.sendall((f"GET /ws HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                     "Origin: http://rebound.example\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                     "Sec-WebSocket-Version: 13\r\n\r\n").encode())  # fmt: skip
        assert b" 403 " in one.recv(200)


@pytest.mark.filterwarnings("ignore")
def test_nothing_listens_beyond_this_machine_and_a_taken_port_is_named():
    import asyncio

    from meanfield.explorer.serving.server import server

    asyncio.set_event_loop(asyncio.new_event_loop())
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        port = one.getsockname()[1]
        with pytest.raises(MeanFieldError, match=f"Port {port} of 127.0.0.1 cannot be listened to"):
            server(RELU, port)
    made, _ = server(RELU, 0)
    held = [s.getsockname()[0] for s in made._http._sockets.values()]
    made.stop(wait=False)
    assert held == ["127.0.0.1"]


def asked(what: str, **settings) -> dict:
    return json.loads(answer(json.dumps({"id": 1, "what": what, "settings": settings})))


def test_what_is_typed_is_answered_in_a_sentence():
    for act in ("__import__('os').system('true')", "no_such", "z**", "<script>alert(1)</script>", "z" * 300):
        said = asked("model", theory={"act": act, "parameters": {}})
        assert "error" in said and said["error"].endswith("."), act


def test_a_worker_answers_about_a_point():
    place = {"sigma_w": 1.2, "sigma_b": 0.3, "input_norm": 1.0, "depth": 5, "parameters": {}}
    said = asked("phase", theory=RELU, **place)["answer"]["text"]
    assert said.startswith("ordered: chi_J* = 18/25")
    bands = asked("bands", theory=RELU, **place)["answer"]
    assert bands["K"]["l"] == [1, 2, 3, 4, 5]
    K = 1.2**2 + 0.09
    assert bands["K"]["low"][0] < K < bands["K"]["high"][0]


class Slow:
    """A worker in the place of the real one: its text is run by Python."""

    def __init__(self, monkeypatch, body: str):
        import subprocess
        import sys

        from meanfield.explorer.serving import worker_queue

        whole = subprocess.Popen

        def opened(command, **settings):
            return whole([sys.executable, "-c", body], **settings)

        monkeypatch.setattr(worker_queue.subprocess, "Popen", opened)


ECHO = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    time.sleep(asked["settings"].get("seconds", 0))
    print(json.dumps({"id": asked["id"], "what": asked["what"], "answer": asked["settings"]}), flush=True)
"""


def test_stale_questions_are_dropped_and_slow_ones_end(monkeypatch):
    Slow(monkeypatch, ECHO)
    told: queue.Queue = queue.Queue()
    one = WorkerQueue(told.put, patience=1.5)
    for i in range(5):
        one.ask("phase", {"seconds": 0.2, "i": i})
    assert told.get(timeout=10)["answer"]["i"] == 4
    began = time.monotonic()
    one.ask("phase", {"seconds": 1000})
    assert "No answer came within 1.5 seconds" in told.get(timeout=10)["error"]
    assert time.monotonic() - began < 5
    one.ask("phase", {"seconds": 1, "i": 5})
    one.ask("model", {"i": 6})  # about another theory: the process that works on the old one is ended
    assert told.get(timeout=10)["answer"]["i"] == 6
    time.sleep(0.3)
    assert told.empty()
    one.close()


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed, in which pages are opened")
@pytest.mark.filterwarnings("ignore")
def test_a_served_page_follows_and_is_told(address):
    browsers = pytest.importorskip("playwright.sync_api", reason="playwright is not installed, which drives a browser")
    with browsers.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page, errors, foreign = browser.new_page(), [], []
        page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.on("request", lambda r: None if r.url.startswith((address, "data:")) else foreign.append(r.url))
        page.goto(address)
        page.wait_for_function("window.meanfieldReady === true", timeout=30_000)
        models = "Array.from(Bokeh.documents[0]._all_models.values())"
        page.wait_for_function(f"() => {models}.some((one) => one.room && one.room.last)", timeout=90_000)
        page.mouse.click(250, 300)
        seen = f"() => {models}.some((one) => one.name === 'certified' && one.text.includes('certified, '))"
        page.wait_for_function(seen, timeout=60_000)
        named = f"const named = (name) => {models}.find((one) => one.name === name);"
        page.select_option("select", "skip μ")
        page.wait_for_function(f"() => {{ {named} return named('mu').visible; }}", timeout=60_000)
        page.evaluate(f"() => {{ {named} named('mu').value = 0.5; named('mu').value_throttled = 0.5; }}")
        moved = f"() => {models}.find((one) => one.room).room.last.p.mu === 0.5"
        page.wait_for_function(moved, timeout=5_000)
        told = f"() => {{ {named} return named('notes').text.includes('(1.224745, 0)'); }}"
        page.wait_for_function(told, timeout=60_000)  # √2 √(1 - μ²)
        page.wait_for_function(seen, timeout=60_000)  # the point is held, and asked about again
        page.evaluate(f"() => {{ {named} named('chosen').value = '<b>other</b>'; }}")
        told = f"() => {{ {named} return named('notes').text.includes('The architecture must be one of plain'); }}"
        page.wait_for_function(told, timeout=10_000)
        browser.close()
    assert (errors, foreign) == ([], [])
