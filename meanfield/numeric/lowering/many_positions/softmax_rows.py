"""How averages of softmax rows become functions of a module: tables of one T, kept beside the modules.

A table is found again by the hash of what computes it, so that another theory of the same T builds none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.progress import doing
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.module_functions import Functions, lowers, require_usable
from meanfield.numeric.lowering.text import printing
from meanfield.numeric.quadrature.softmax import overlaps, softmax_grids, softmax_tables
from meanfield.numeric.quadrature.softmax.softmax_tables import CELLS, DEGREE, TableFrame, Tables
from meanfield.symbolic.averages.nodes.overlap import Overlap

_LARGEST = 1 << 20  # entries: beyond, the tables' rectangles are too coarse
_AT = """def {name}_at(row, x, y, T):
    a, b = min(int({cells}.0 * x), {last}), min(int({cells}.0 * y), {last})
    s, t = 2.0 * ({cells}.0 * x - a) - 1.0, 2.0 * ({cells}.0 * y - b) - 1.0
    row += {size} * ({cells} * a + b)
    u = s * s
    even = _horner(T[row + 8], t)
    odd = _horner(T[row + 9], t)
    for k in range(6, -1, -2):
        even = even * u + _horner(T[row + k], t)
        odd = odd * u + _horner(T[row + k + 1], t)
    return math.exp(even + s * odd)


"""
_ONE_AT = """def {name}_at(row, x, T):
    a = min(int({cells}.0 * x), {last})
    return math.exp(_horner(T[row + a], 2.0 * ({cells}.0 * x - a) - 1.0))


"""
_TWO_ROWS = """def {name}(V, D, T):
    # D = V - C of two softmax rows of {T} entries; three panels of log(1 + V), then 1/sqrt(V) or an angle
    if not V > 0.0:
        return {at_zero!r}
    if not 0.0 <= D <= {most!r} * V:
        # C of one and the same row has roundings of its own: of V, and of what V is a small difference of
        if not -1e-6 * V - 1e-12 <= D <= {beyond!r} * V + 1e-12:
            return math.nan
        D = {most!r} * V if D > 0.0 else 0.0
    if V <= {V1!r}:
        y = {thirds!r} * math.log1p(V)
        panel = min(int(y), 2)
        return {name}_at(panel * {step}, y - panel, {share}, T)
{mirrored}    if D <= {D1!r}:
        return {name}_at({near}, math.sqrt({V1!r} / V), {ratio!r} * math.log1p(D), T){near_scale}
    return {name}_at({far}, math.sqrt({D1!r} / D), {turn!r} * math.asin(math.sqrt(0.5 * D / V)), T){far_scale}
"""
_MIRRORED = """    if D > V:
        E = 2.0 * V - D
        if E <= {D1!r}:
            return {name}_at({near_mirrored}, math.sqrt({V1!r} / V), {ratio!r} * math.log1p(E), T){near_mirrored_scale}
        angle = {turn!r} * math.asin(math.sqrt(0.5 * E / V))
        return {name}_at({far_mirrored}, math.sqrt({D1!r} / E), angle, T){far_mirrored_scale}
"""
_ONE_ROW = """def {name}(V, T):
    # of one softmax row of {T} entries: three panels of log(1 + V), then 1/sqrt(V)
    if not V > 0.0:
        return {at_zero!r}
    if V <= {V1!r}:
        y = {thirds!r} * math.log1p(V)
        panel = min(int(y), 2)
        return {name}_at(panel * {cells}, y - panel, T)
    return {name}_at({end}, math.sqrt({V1!r} / V), T){scale}
"""
_NEAR = {"value": "", "slope": " / math.sqrt(V)", "quotient": " / math.sqrt(V)"}
_FAR = {"value": "", "slope": " / (math.sqrt(V) * math.sqrt(D))", "quotient": " / (math.sqrt(V) * math.sqrt(D))"}
_NEAR_MIRRORED = {"value": " / math.sqrt(V)", "slope": " / math.sqrt(V)", "quotient": " / V"}
_FAR_MIRRORED = {
    "value": " * math.sqrt(E / V)", "slope": " / (math.sqrt(V) * math.sqrt(E))", "quotient": " / V"
}  # fmt: skip
_ALONE = {
    "value": "", "slope": " / math.sqrt(V)", "growth": " / (V * math.sqrt(V))", "entropy": " / math.sqrt(V)"
}  # fmt: skip


def text(T: int, kind: str, two: bool, name: str) -> str:
    """Source of `name(V, D, T)`, or `name(V, T)` of one row; the last argument is its table."""
    frame = TableFrame(T)
    step = CELLS * CELLS * (DEGREE + 1)
    flat = (T - 1.0) / T**2
    at_zero = {"value": 1.0 / T, "entropy": float(np.log(T))}.get(kind, flat)
    common = {
        "name": name, "T": T, "cells": CELLS, "last": CELLS - 1, "size": DEGREE + 1, "at_zero": at_zero,
        "V1": frame.V1, "D1": frame.D1, "thirds": 3.0 / float(np.log1p(frame.V1)),
    }  # fmt: skip
    if not two:
        return (_ONE_AT + _ONE_ROW).format(**common, end=3 * CELLS, scale=_ALONE[kind])
    most = T / (T - 1.0)
    share = f"math.log1p(D) / math.log1p({frame.nu!r} * V)"
    if T == 2:
        share = "0.5 + 0.5 * (math.log1p(D) - math.log1p(max(2.0 * V - D, 0.0))) / math.log1p(2.0 * V)"
    more = {
        "most": most, "beyond": most * (1.0 + 1e-9), "step": step, "share": share, "near": 3 * step, "far": 4 * step,
        "ratio": 1.0 / float(np.log1p(frame.D1)), "turn": 1.0 / frame.turn, "near_mirrored": 5 * step,
        "far_mirrored": 6 * step, "near_scale": _NEAR[kind], "far_scale": _FAR[kind],
        "near_mirrored_scale": _NEAR_MIRRORED[kind], "far_mirrored_scale": _FAR_MIRRORED[kind],
    }  # fmt: skip
    mirrored = _MIRRORED.format(**common, **more) if T == 2 else ""
    return (_AT + _TWO_ROWS).format(**common, **more, mirrored=mirrored)


@lru_cache(maxsize=1)
def _sources() -> str:
    """A hash of the code and of the libraries that make a table."""
    digest = hashlib.sha256("".join(f"{name} {cache.version(name)}\n" for name in ("numpy", "scipy")).encode())
    for module in (softmax_grids, overlaps, softmax_tables):
        digest.update(Path(str(module.__file__)).read_bytes())
    digest.update(Path(__file__).read_bytes())
    return digest.hexdigest()


@lru_cache(maxsize=16)
@doing("tables of softmax overlaps")
def tables(T: int) -> Tables:
    """The tables of T ≥ 2 entries with their measured errors, from the cache where they are there.

    Building takes seconds, once for each T. Raises: MeanFieldError where T is too large.
    """
    if T > _LARGEST:
        raise MeanFieldError(f"Tables of softmax overlaps have at most {_LARGEST} entries, but T = {T} was asked for.")
    file = cache.folder() / f"softmax_{T}_{_sources()[:24]}.npz"
    kept = cache.arrays(file)
    if kept is not None:
        return Tables.of(T, kept)
    found = softmax_tables.build(T)
    errors = {}
    for two, held in ((True, found.pairs), (False, found.alone)):
        for kind, table in held.items():
            f = printing.interpret(text(T, kind, two, "f"), "f")
            rows = table.tolist()
            errors[f"{kind}_{2 if two else 1}"] = softmax_tables.measured(
                T, kind, lambda *x, f=f, rows=rows: f(*x, rows), two
            )
    made = Tables(T, found.pairs, found.alone, errors)
    cache.replace(file, lambda handle: np.savez(handle, **made.arrays()))  # type: ignore[arg-type]
    return made


@lowers(Overlap)
def _lowered(functions: Functions, shape: Overlap, written: Sequence[sp.Expr]) -> None:
    name = functions.name(shape, "overlap")
    T, two = int(shape.entries), shape.distance != 0
    found = tables(T)
    held = found.pairs if two else found.alone
    if shape.which not in held:
        raise MeanFieldError(f"{shape} is derived, but not compiled.")
    error = found.errors[f"{shape.which}_{2 if two else 1}"]
    require_usable(shape, error)
    note = f"{name}({'V, D' if two else 'V'}) = {shape}: table, measured error {error:.0e}"
    functions.add(name, text(T, shape.which, two, name), note, error, 0.0, table=held[shape.which])
