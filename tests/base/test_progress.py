"""What long calls say where somebody watches, and only there: the verb and what it is at, or a bar."""

import io
import sys
import threading

import pytest

from meanfield.base import progress
from meanfield.base.progress import saying
from tests.cli.terminals import shown

CALL = """
import meanfield as mf
from meanfield.base import progress
progress.WAIT = {wait}
import numpy as np
mf.measure("relu", sigma_w=1.4, sigma_b=0, width=16, depth=3, networks=4{more})
mf.derive("relu").kernel(np.eye(3), sigma_w=1, sigma_b=0, depth=2)
mf.tune("relu", depth=4, width=16, probes=2, sigma_w=2)
"""


def watched(wait: float, more: str = "") -> str:
    code, text = shown([sys.executable, "-c", CALL.format(wait=wait, more=more)])
    assert code == 0, text
    return text


@pytest.mark.parametrize(("wait", "names"), [(-1, ("networks", "blocks", "steps")), (1e9, ())])
def test_a_terminal_has_a_bar_of_long_calls(wait, names):
    text = watched(wait)
    assert all(name in text for name in names) and (names or not text)


def test_a_function_of_ones_own_is_told_instead():
    assert "networks" not in watched(-1, ", progress=print")


SAYS = """
import sys, time
from meanfield.base import progress
from meanfield.base.arguments import validated
progress.WAIT = {wait}
def slept(step):  # until the thread has looked
    before = progress._teller.looks
    while progress._teller.looks < before + 3: time.sleep(.05)
@validated
def inner_verb(): slept(0)
@validated
def outer_verb():
    slept(0)
    with progress.doing("tables of averages"):
        slept(1)
    inner_verb()
    with progress.watched(None, "blocks") as tell:
        tell(1, 2)
        slept(2)
    raise ValueError("own")
try:
    outer_verb()
except ValueError:
    print("ended" if not progress._teller.what and not progress._teller.shown else "goes on", file=sys.stderr)
"""


def test_the_outermost_verb_is_named_with_what_it_is_at():
    code, text = shown([sys.executable, "-c", SAYS.format(wait=-1)])
    assert code == 0, text
    for said in ("outer_verb: 0 s", "outer_verb: tables of averages, ", "blocks", "ended"):
        assert said in text, text
    assert "inner_verb" not in text


def test_short_calls_say_nothing():
    assert shown([sys.executable, "-c", SAYS.format(wait=1e9)]) == (0, "ended\r\n")


def test_pipes_and_other_threads_say_nothing(monkeypatch):
    def quiet() -> None:
        with saying("kernel"):
            assert progress._teller.what == ""

    quiet()  # stderr is a pipe here

    def work() -> None:
        quiet()
        done.append(1)

    done: list[int] = []
    monkeypatch.setattr(progress, "somebody_watches", lambda: True)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [1]


def test_a_notebook_watches(monkeypatch):
    class ZMQInteractiveShell:
        pass

    class IPython:
        get_ipython = staticmethod(ZMQInteractiveShell)

    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert not progress.somebody_watches()
    monkeypatch.setitem(sys.modules, "IPython", IPython)
    assert progress.somebody_watches()
