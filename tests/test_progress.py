"""A bar where somebody watches a terminal: of calls that take long, and only there."""

import os
import pty
import subprocess
import sys

import pytest

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
    """What a terminal shows on stderr meanwhile."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "TERM": "xterm", "COLUMNS": "80"}
    env.pop("NO_COLOR", None)
    call = CALL.format(wait=wait, more=more)
    with subprocess.Popen([sys.executable, "-c", call], stderr=theirs, env=env) as child:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            shown += part
    os.close(ours)
    assert child.returncode == 0, shown.decode()
    return shown.decode()


@pytest.mark.parametrize(("wait", "names"), [(-1, ("networks", "blocks", "steps")), (1e9, ())])
def test_a_terminal_has_a_bar_of_long_calls(wait, names):
    shown = watched(wait)
    assert all(name in shown for name in names) and (names or not shown)


def test_a_function_of_ones_own_is_told_instead():
    assert "networks" not in watched(-1, ", progress=print")
