"""A bar where somebody watches a terminal: of calls that take long, and only there."""

import sys

import pytest
from terminals import shown

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
