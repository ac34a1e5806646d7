"""Shared set-up: a cache folder of its own, and mpmath's global precision put back after every test."""

from __future__ import annotations

import os
import tempfile

import mpmath
import pytest

os.environ.setdefault("MEANFIELD_CACHE", os.path.join(tempfile.gettempdir(), f"meanfield-tests-{os.getuid()}"))


@pytest.fixture(autouse=True)
def _precision():
    before = mpmath.mp.dps
    yield
    mpmath.mp.dps = before
