"""Exact powers (in the making)."""

from __future__ import annotations

from typing import Any


class Powers:
    """Exact powers."""


def powers_of(parametrization: Any, architecture: Any, parameters: Any) -> Powers:
    raise NotImplementedError
