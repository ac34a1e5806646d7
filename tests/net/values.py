"""What an answer says, as a flat table of texts and of rows of doubles."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

Flat = dict[str, Any]  # texts, and lists of doubles as hexadecimal texts
OPAQUE = ("theory", "recursion", "recursions", "block", "first", "map", "maps", "source", "lowered")  # of fields


def flat(value: Any, name: str = "", out: Flat | None = None) -> Flat:
    """Every number and text of an answer under a path that names it."""
    out = {} if out is None else out
    if isinstance(value, bool | str | enum.Enum | None):
        out[name] = str(value)
    elif isinstance(value, int | float | np.floating | np.integer):
        out[name] = [float(value).hex()] if not isinstance(value, int) else str(value)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        out[name] = [float(x).hex() for x in value.astype(float).ravel()]
    elif isinstance(value, sp.Basic):
        out[name] = sp.srepr(value) if not value.is_Float else [float(value).hex()]
    elif isinstance(value, Mapping):
        for key, one in value.items():
            flat(one, f"{name}[{key}]", out)
    elif isinstance(value, list | tuple):
        for i, one in enumerate(value):
            flat(one, f"{name}[{i}]", out)
    elif dataclasses.is_dataclass(value):
        if not name:
            out["printed"] = str(value)
        for field in dataclasses.fields(value):
            if field.name not in OPAQUE and not field.name.startswith("_"):
                flat(getattr(value, field.name), f"{name}.{field.name}", out)
    else:
        out[name] = f"{type(value).__name__} {value}" if " at 0x" not in str(value) else type(value).__name__
    return out


def numbers(row: list[str]) -> np.ndarray:
    return np.array([float.fromhex(x) for x in row])


def differences(old: Flat, new: Flat, exact: bool) -> list[str]:
    """In what two answers differ, a line each; empty where they agree.

    exact: bit for bit, errors to a millionth; otherwise numbers may differ by 1e-13 of the largest of their row, or of
    1, and by the error that the answer states, and printed tables of them are not compared.
    """
    found = [f"{k}: only {'before' if k in old else 'now'}" for k in old.keys() ^ new.keys()]
    stated = max(
        (
            float(np.max(np.nan_to_num(numbers(v)), initial=0))
            for k, v in old.items()
            if "error" in k and isinstance(v, list)
        ),
        default=0.0,
    )
    for k in old.keys() & new.keys():
        a, b = old[k], new[k]
        if a == b:
            continue
        if not (isinstance(a, list) and isinstance(b, list) and len(a) == len(b)):
            if exact or not _has_digits(a):
                found.append(f"{k}: {_short(a)} → {_short(b)}")
            continue
        x, y = numbers(a), numbers(b)
        size = np.max(np.abs(x[np.isfinite(x)]), initial=1.0)  # what should be 0 is a rounding of something
        room = 0.0 if exact else (1e-13 + 2 * (stated if math.isfinite(stated) else 0.0)) * size
        with np.errstate(invalid="ignore"):
            apart = ~((x == y) | (np.isnan(x) & np.isnan(y)) | (np.abs(x - y) <= room))
            if "error" in k:  # the last digits of a ball's radius depend on what was enclosed before
                apart &= (np.isfinite(x) != np.isfinite(y)) | (exact & (np.abs(x - y) > 1e-6 * np.abs(x)))
        if apart.any():
            i = int(np.argmax(apart))
            found.append(f"{k}[{i}]: {x[i]!r} → {y[i]!r}")
    return sorted(found)


def _has_digits(text: Any) -> bool:
    """Whether a text prints doubles, whose last digits are those of one machine."""
    return isinstance(text, str) and any(c.isdigit() for c in text)


def _short(text: Any) -> str:
    whole = str(text)
    return whole if len(whole) < 100 else whole[:97] + "…"
