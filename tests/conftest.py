"""Shared set-up: a cache folder of this run alone, and mpmath's global precision put back after every test."""

from __future__ import annotations

import os
import shutil
import tempfile

import mpmath
import pytest


def pytest_configure(config):
    """An empty cache for each run, shared by its workers: numeric tests see the engine as it is now, not as it was."""
    if not hasattr(config, "workerinput"):
        config.own_cache = os.environ["MEANFIELD_CACHE"] = tempfile.mkdtemp(prefix="meanfield-tests-")


def pytest_unconfigure(config):
    if hasattr(config, "own_cache"):
        shutil.rmtree(config.own_cache, ignore_errors=True)


@pytest.fixture(autouse=True)
def _precision():
    before = mpmath.mp.dps
    yield
    mpmath.mp.dps = before
