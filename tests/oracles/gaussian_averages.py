"""Independent multiprecision oracle: references for Gaussian averages, each with its own error bound.

The oracle shares nothing with the package it judges.  Every quadrature is run twice, with other panels, orders, reach,
precision and (one input) arithmetic library or (two inputs) order of integration; the error bound is made of the
difference.  ``python -m tests.oracles.gaussian_averages`` writes the files in ``tests/references``, which
``load_one_input`` and ``load_two_input`` read.
"""

from __future__ import annotations

import json
import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mpmath import mp, mpf

from tests import REFERENCES
from tests.oracles.activations import ACTIVATIONS, ARB, MPMATH
from tests.oracles.closed_forms import one_input_closed, two_input_closed
from tests.oracles.polar import NUMPY_TWINS, one_input_float, two_input_float
from tests.oracles.quadrature import (
    PAIR_QUANTITIES,
    QUANTITIES,
    OneInput,
    Settings,
    one_input_quadrature,
    precision,
    two_input_quadrature,
)

__all__ = [
    "NUMPY_TWINS",
    "Reference",
    "assert_close",
    "assert_intervals_overlap",
    "assert_reference",
    "load_one_input",
    "load_two_input",
    "one_input_closed",
    "one_input_float",
    "two_input_closed",
    "two_input_float",
]

ONE_INPUT_FILE, TWO_INPUT_FILE = REFERENCES / "one_input.json", REFERENCES / "two_input.json"
ONE_INPUT_FIRST = Settings(MPMATH, 60, 48, 0.5, 2.0, 1.5, 17.0)
ONE_INPUT_SECOND = Settings(ARB, 70, 60, 0.4, 1.8, 1.3, 18.0)
TWO_INPUT_FIRST = Settings(ARB, 34, 24, 0.5, 2.0, 3.0, 12.0)
TWO_INPUT_SECOND = Settings(ARB, 38, 28, 0.45, 2.2, 2.6, 12.5)
ONE_DIGITS, TWO_DIGITS = 40, 28
FLOOR = mpf("1e-10000")  # smaller numbers are stored as 0 +- FLOOR: their decimal texts are slow to read

VARIANCES = (1e-8, 1e-4, 0.1, 1.0, 3.7, 100.0, 1e4, 1e8)
PAIR_VARIANCES = (1e-4, 1.0, 1e4)
PAIR_CORRELATIONS = (-0.9, 0.0, 0.3, 0.9, 1 - 1e-6)
PAIR_NAMES = ("tanh", "gelu", "silu", "relu", "hard_tanh", "softsign", "elu", "erf", "mish", "leaky_relu")


@dataclass(frozen=True)
class Reference:
    """Reference value with a bound on its error and the scale by which deviations are judged."""

    value: Any
    error: Any
    scale: Any


def assert_close(name: str, left: Any, right: Any, bound: Any) -> None:
    """Check that two numbers differ by at most the bound; raises AssertionError otherwise."""
    if not abs(left - right) <= bound:
        raise AssertionError(
            f"{name}: |{mp.nstr(left, 25)} - {mp.nstr(right, 25)}| = {mp.nstr(abs(left - right), 3)}"
            f" exceeds {mp.nstr(bound, 3)}"
        )


def assert_intervals_overlap(name: str, left: tuple[Any, Any], right: tuple[Any, Any]) -> None:
    """Check that two intervals given as (value, error) have a point in common; raises AssertionError otherwise."""
    assert_close(name, left[0], right[0], left[1] + right[1])


def assert_reference(name: str, value: Any, reference: Reference, tolerance: float) -> None:
    """Check a value against a reference, up to the reference's error plus ``tolerance`` times its scale."""
    if mp.isinf(reference.value):
        if not value == reference.value:
            raise AssertionError(f"{name}: {value} is not {reference.value}")
        return
    value = mpf(value) if isinstance(value, (int, float)) else value
    assert_close(name, value, reference.value, reference.error + mpf(tolerance) * reference.scale)


def compare_runs(name: str, first: OneInput, second: OneInput, quantity: str) -> tuple[Any, Any]:
    """Value and error bound from two quadratures; raises AssertionError where the Gaussian identity disagrees."""
    value = first.values[quantity]
    error = 2 * abs(value - second.values[quantity]) + second.radii[quantity]
    for run in (first, second):
        if quantity in run.identity:
            other, modulus = run.identity[quantity]
            assert_close(f"{name} identity", run.values[quantity], other, error + mpf(10) ** -44 * modulus)
    return value, error


def _oscillating_scales(K: Any) -> dict[str, Any]:
    """Scales of sin and cos when the phase covers many periods: averages of |sin| become 2/pi."""
    slope = (2 / mp.pi) * mp.sqrt(2 / (mp.pi * K)) / 2
    return {"phi": 2 / mp.pi, "phi2": mpf(0.5), "dphi2": mpf(0.5), "dK_phi2": slope, "dK_dphi2": slope}


def _found(name: str, K: float) -> tuple[dict[str, tuple[Any, Any]], dict[str, Any]]:
    """Intervals (value, error) and scales of one activation at one variance, cross-checked in every way available."""
    closed = one_input_closed(name, K)
    if name in ("sin", "cos") and K > 1000:  # quadrature cannot reach relative digits of exp(-2K)
        return closed, _oscillating_scales(mpf(K))
    runs = [one_input_quadrature(ACTIVATIONS[name], K, s) for s in (ONE_INPUT_FIRST, ONE_INPUT_SECOND)]
    scales, found = runs[0].scales, {}
    for q in QUANTITIES:
        where = f"{name} K={K!r} {q}"
        found[q] = compare_runs(where, *runs, q)
        if q in closed:
            if mp.isfinite(closed[q][0]):
                moduli = [scales[q]] + [r.identity[q][1] for r in runs if q in r.identity]
                assert_close(where, found[q][0], closed[q][0], mpf(10) ** -44 * max(moduli))
            found[q] = closed[q]
    if ACTIVATIONS[name].odd:
        found["phi"] = mpf(0), mpf(0)
    return found, scales


def one_input_entries(name: str, K: float) -> list[dict[str, str]]:
    """Entries of the data file for one activation and one variance."""
    entries = []
    with precision(ONE_INPUT_SECOND.digits):
        found, scales = _found(name, K)
        for q in QUANTITIES:
            value, error = found[q]
            # phi of infinite slope jumps: <|z F'|> has no meaning, and the value (0 or infinity) is its own scale
            own = ACTIVATIONS[name].infinite_slope and (q.startswith("dK") or mp.isinf(value))
            where = {"activation": name, "K": repr(K), "quantity": q}
            scale = abs(value) if own else scales[q]
            entries.append(where | entry_texts(where, value, error, scale, ONE_DIGITS, 1e-32))
    return entries


def two_input_entries(name: str, K_aa: float, K_bb: float, c: float) -> list[dict[str, str]]:
    """Entries of the data file for one activation and one pair of inputs."""
    activation, K_ab = ACTIVATIONS[name], c * math.sqrt(K_aa * K_bb)
    entries = []
    with precision(TWO_INPUT_SECOND.digits):
        first = two_input_quadrature(activation, K_aa, K_bb, K_ab, TWO_INPUT_FIRST)
        second = two_input_quadrature(activation, K_bb, K_aa, K_ab, TWO_INPUT_SECOND)
        squares = [one_input_quadrature(activation, K, TWO_INPUT_FIRST).values for K in (K_aa, K_bb)]
        closed = two_input_closed(name, K_aa, K_bb, K_ab)
        for q, square in zip(PAIR_QUANTITIES, ("phi2", "dphi2")):
            value, radius = second[q]
            error = 2 * abs(value - first[q][0]) + radius + first[q][1]
            where = {"activation": name, "K_aa": repr(K_aa), "K_bb": repr(K_bb), "K_ab": repr(K_ab), "c": repr(c)}
            where["quantity"] = q
            scale = mp.sqrt(squares[0][square] * squares[1][square])
            if q in closed:
                assert_close(str(where), value, closed[q], error + mpf(10) ** -30 * scale)
            entries.append(where | entry_texts(where, value, error, scale, TWO_DIGITS, 1e-24))
    return entries


def entry_texts(where: Any, value: Any, error: Any, scale: Any, digits: int, limit: float) -> dict[str, str]:
    """Texts of a value, its error bound (with the rounding of the text) and its scale; refuses a loose bound."""
    if mp.isfinite(value):
        error = (error + abs(value) * mpf(10) ** (1 - digits) / 2) * mpf("1.1")  # half a unit of the last digit
        if not error <= limit * scale:
            raise AssertionError(f"{where}: error {mp.nstr(error, 3)} is too large for scale {mp.nstr(scale, 3)}")
        if 0 < abs(value) < FLOOR:
            value, error, scale = mpf(0), FLOOR, max(scale, FLOOR)
    return {"value": _text(value, digits), "error": _text(error, 3), "scale": _text(scale, 8)}


def _text(value: Any, digits: int) -> str:
    return "inf" if mp.isinf(value) else "0" if value == 0 else mp.nstr(value, digits, min_fixed=0, max_fixed=0)


def write_json(path: Path, header: dict[str, Any], entries: list[dict[str, str]]) -> None:
    """Write a data file atomically, one entry per line."""
    path.parent.mkdir(exist_ok=True)
    rows = ",\n".join(json.dumps(e, separators=(",", ":")) for e in entries)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as stream:
        stream.write(f'{json.dumps(header)[:-1]}, "values": [\n{rows}\n]}}\n')
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)


def _load(path: Path, keys: tuple[str, ...]) -> dict[tuple[Any, ...], Reference]:
    found = {}
    with precision(60):
        for e in json.loads(path.read_text())["values"]:
            key = (e["activation"], *(float(e[k]) for k in keys), e["quantity"])
            found[key] = Reference(mpf(e["value"]), mpf(e["error"]), mpf(e["scale"]))
    return found


def load_one_input() -> dict[tuple[Any, ...], Reference]:
    """References by (activation, K, quantity)."""
    return _load(ONE_INPUT_FILE, ("K",))


def load_two_input() -> dict[tuple[Any, ...], Reference]:
    """References by (activation, K_aa, K_bb, K_ab, quantity)."""
    return _load(TWO_INPUT_FILE, ("K_aa", "K_bb", "K_ab"))


def two_input_points() -> list[tuple[str, float, float, float]]:
    """Points (activation, K_aa, K_bb, c) of the two-input file: every variance pair with every correlation once."""
    pairs = [(a, b) for a in PAIR_VARIANCES for b in PAIR_VARIANCES]
    table = []
    for p, pair in enumerate(pairs):
        for i, c in enumerate(PAIR_CORRELATIONS):
            table.append((PAIR_NAMES[(p + 2 * i) % len(PAIR_NAMES)], *pair, c))
    return sorted(table, key=lambda point: PAIR_NAMES.index(point[0]))


def main() -> None:
    """Regenerate the data files."""
    start = time.perf_counter()
    header: dict[str, Any] = {"schema": 1, "generator": "tests/oracles/gaussian_averages.py", "digits": ONE_DIGITS}
    header["activations"] = {name: a.formula for name, a in ACTIVATIONS.items()}
    entries = [e for name in ACTIVATIONS for K in VARIANCES for e in one_input_entries(name, K)]
    write_json(ONE_INPUT_FILE, header, entries)
    print(f"{ONE_INPUT_FILE.name}: {len(entries)} values, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    entries = [e for point in two_input_points() for e in two_input_entries(*point)]
    header |= {"digits": TWO_DIGITS, "activations": {name: ACTIVATIONS[name].formula for name in PAIR_NAMES}}
    write_json(TWO_INPUT_FILE, header, entries)
    print(f"{TWO_INPUT_FILE.name}: {len(entries)} values, {time.perf_counter() - start:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
