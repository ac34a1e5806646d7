"""A theory as JavaScript: one layer of (K, J, distance) as `propagate` computes it, averages as formulas and tables.

What stands in the loops of `propagate` is written in JavaScript line by line (`javascript`); tables travel as the bytes
of their doubles. Only the ratio of distances is another: a table of its own (`ratios`), where it has no closed form.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
import sympy as sp

from meanfield.base.budgets import deadline
from meanfield.base.precision import decimals
from meanfield.base.symbols import Q0, L
from meanfield.explorer import javascript
from meanfield.explorer.ratios import Ratios, ratios
from meanfield.explorer.tabled import CALL, Tabled, tabled
from meanfield.numeric.lowering.evaluators import LoweredAverages, averages
from meanfield.numeric.lowering.text import depth_loops, printing
from meanfield.numeric.lowering.text.helpers import helpers_for
from meanfield.symbolic.averages.base import nodes_in
from meanfield.symbolic.recursion import Recursion, c0

FIRST = 3  # coefficients in each direction that are kept as doubles
STARTS = (Q0.name, c0.name, L.name)


@dataclass(frozen=True, eq=False)
class Model:
    """The text of a JavaScript expression that computes layers, and what a page says of it.

    script: an object with `names`, `start(p)` and `step(s, p, layer)`, which takes a state as it is held (logarithms of
    J and of the distance) one layer further; parameters: their names beside Q0, c0 and L; error: the largest measured
    error of an average in one layer; limit: the largest K at which all averages are known.
    """

    script: str
    names: tuple[str, ...]
    parameters: tuple[str, ...]
    error: float
    limit: float


@lru_cache(maxsize=16)
def model(recursion: Recursion) -> Model:
    """One layer of a recursion whose parameters are numbers or plain symbols.

    Raises: MeanFieldError for averages that are not known in floats, or whose compiled form is not written in
    JavaScript.

    >>> found = model(derive("relu").recursion("K", "J"))
    >>> found.names, found.parameters
    (('K', 'J'), ('sigma_b', 'sigma_w'))
    """
    with deadline():
        recursion = tabled(recursion)
        found = averages(recursion)
    loop = depth_loops.loop(recursion, found.calls, found.text, found.held)
    ids = depth_loops.identifiers(recursion)
    drawn = {n: ratios(n.function) for n in depth_loops.placeholders(recursion) if isinstance(n, Tabled)}
    parts = [
        runtime(),
        f"const ERFCX = {json.dumps(_scaled_tails())};",
        _tables(found),
        ratio_tables({found.calls[n].partition("(")[0].split("_")[1]: r for n, r in drawn.items()}),
        javascript.script(helpers_for(found.text + _lines(loop))),
        javascript.script(found.text),
        HELD,
        *(_step(recursion, loop, k, "") for k in range(len(loop.layers))),
        *_alone(recursion, found),
        _start(recursion, ids),
        _face(recursion, loop),
    ]
    own = tuple(p.name for p in recursion.parameters if p.name not in STARTS)
    errors = found.arrays["errors"]
    worst = max([float(errors.max(initial=0.0)), *(r.error for r in drawn.values())])
    script = "(function () {\n'use strict';\n" + "\n".join(parts) + "\n})()"
    return Model(script, recursion.names, own, worst, float(found.arrays["limit"]))


@lru_cache(maxsize=1)
def runtime() -> str:
    """What generated functions call, in JavaScript."""
    return files("meanfield.explorer").joinpath("runtime.js").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _scaled_tails() -> list[float]:
    """Chebyshev coefficients of (1 + 2x) e^{x²} erfc(x) in (x - 3.75)/(x + 3.75), 0 ≤ x."""
    import mpmath as mp

    n = 50
    with decimals(30):
        at = [mp.cos(mp.pi * (k + mp.mpf(1) / 2) / n) for k in range(n)]
        x = [mp.mpf("3.75") * (1 + t) / (1 - t) for t in at]
        value = [(1 + 2 * u) * mp.exp(u * u) * mp.erfc(u) for u in x]
        angles = [[mp.cos(mp.pi * j * (k + mp.mpf(1) / 2) / n) for k in range(n)] for j in range(32)]
        found = [2 * mp.fsum(v * a for v, a in zip(value, row)) / n for row in angles]
    return [float(found[0] / 2), *map(float, found[1:])]


def _tables(found: LoweredAverages) -> str:
    """`T`: an array of flat tables, each once."""
    held: dict[str, int] = {}
    which = []
    for i in range(sum(name.startswith("T") for name in found.arrays)):
        which.append(held.setdefault(_bytes(found.arrays[f"T{i}"].astype("<f8")), len(held)))
    texts = ", ".join(f'numbers("{one}")' for one in held)
    return f"const HELD = [{texts}], T = {which}.map((i) => HELD[i]);"


def ratio_tables(tables: dict[str, Ratios]) -> str:
    """`RATIOS`: coefficients as singles, and beside them what singles miss of the first ones, which are large."""
    rows = []
    for number, one in tables.items():
        high = one.coefficients.astype("<f4")
        low = (one.coefficients - high)[..., :FIRST, :FIRST].astype("<f4")
        texts = ", ".join(f'singles("{_bytes(part)}")' for part in (high, low))
        n, jumps = one.coefficients.shape[-1], str(one.jumps).lower()
        edges = json.dumps(one.edges.tolist())
        power = f"degree: {one.degree!r}, whole: {float(max(one.whole, -1e300))!r}"
        facts = f"edges: {edges}, nodes: {n}, jumps: {jumps}, {power}"
        rows.append(f"{number}: {{{facts}, data: whole({n}, {FIRST}, {texts})}}")
    call = f"function {CALL}(i, V, apart) {{ return ratio(RATIOS[i], V, apart); }}"
    return f"const RATIOS = {{{', '.join(rows)}}};\n{call}"


def _bytes(values: np.ndarray) -> str:
    data = np.ascontiguousarray(values).tobytes()
    return base64.b64encode(data + b"\0" * (-len(data) % 8)).decode()


def _lines(loop: depth_loops.LoopSource) -> str:
    """All statements of a loop, to see what they call."""
    pairs = [
        *loop.constants,
        *loop.closer,
        *(line for layer in loop.layers for line in [*layer.evaluate, *layer.updates]),
    ]
    return "\n".join(f"{name} = {value}" for name, value in pairs)


def _alone(recursion: Recursion, found: LoweredAverages) -> list[str]:
    """The steps of K and J without a second input, by which fixed points and the plane's colours are found."""
    one = recursion.only(*(n for n in ("K", "J") if n in recursion.names))
    nested = any(nodes_in(sp.Tuple(*n.args[1:])) for n in depth_loops.placeholders(recursion))  # names of values differ
    if nested or one.names != recursion.names[: len(one.names)]:
        return ["const alone_steps = null;"]
    loop = depth_loops.loop(one, found.calls, found.text, found.held)
    texts = [_step(one, loop, k, "alone_") for k in range(len(loop.layers))]
    names = ", ".join(f"alone_step_{k}" for k in range(len(loop.layers)))
    return [*texts, f"const alone_steps = [{names}];"]


def _step(recursion: Recursion, loop: depth_loops.LoopSource, k: int, stem: str) -> str:
    """Two functions of the k-th step: the statements of the loop, and their state as it is held."""
    layer = loop.layers[k]
    lines = [f"{name} = {value}" for name, value in [*loop.constants, *layer.evaluate, *layer.updates]]
    lines += [f"{v.name}_next = {v.name} * {v.name}_factor" for v in loop.variables if v.wide and v.drives]
    lines += [f"{name} = {value}" for name, value in loop.closer]
    lines.append(f"return ({', '.join(f'{v.name}_factor' if v.wide else f'{v.name}_next' for v in loop.variables)},)")
    arguments = [*(v.name for v in loop.variables), *loop.parameters, "layer"]
    body = javascript.function(f"{stem}body_{k}", arguments, lines)
    read, given = [], []
    for i, v in enumerate(loop.variables):
        read.append(f"held(s[{i}], s[0], {str(not loop.jumps).lower()})" if v.wide else f"s[{i}]")
        given.append(f"s[{i}] + (s[{i}] > -Infinity ? Math.log(x[{i}]) : 0)" if v.wide else f"x[{i}]")
    own = {p.name: s.name for p, s in depth_loops.identifiers(recursion).items() if p in recursion.parameters}
    names = {s: name for name, s in own.items()}
    values = [f"p.{names[one]}" for one in loop.parameters]
    call = f"{stem}body_{k}({', '.join([*read, *values, 'layer'])})"
    return f"{body}\nfunction {stem}step_{k}(s, p, layer) {{ const x = {call}; return [{', '.join(given)}]; }}"


def _start(recursion: Recursion, ids: dict[sp.Symbol, sp.Symbol]) -> str:
    """The state at layer 1."""
    own = {p.name: ids[p].name for p in recursion.parameters}
    lines: list[str] = []
    done: dict[sp.Symbol, sp.Symbol] = {}
    for v in recursion.state:
        lines.append(f"start_{len(done)} = {printing.code(v.initial.xreplace(done).xreplace(ids))}")
        done[v.symbol] = sp.Symbol(f"start_{len(done)}", real=True)
    lines.append(f"return ({', '.join(s.name for s in done.values())},)")
    body = javascript.function("start_of", list(own.values()), lines)
    held = [f"Math.log(x[{i}])" if v.encoding.relative else f"x[{i}]" for i, v in enumerate(recursion.state)]
    call = f"start_of({', '.join(f'p.{name}' for name in own)})"
    return f"{body}\nfunction start(p) {{ const x = {call}; return [{', '.join(held)}]; }}"


def _face(recursion: Recursion, loop: depth_loops.LoopSource) -> str:
    keys = json.dumps([v.key for v in recursion.state])
    steps = ", ".join(f"step_{k}" for k in range(len(loop.layers)))
    changes = str(recursion.knows_layer or recursion.knows_depth).lower()
    return (
        f"const steps = [{steps}], at = (layer, those) => those[Math.min(layer - 2, those.length - 1)];\n"
        f"return {{names: {keys}, changes: {changes}, head: steps.length - 1, start,\n"
        "  step: (s, p, layer) => at(layer, steps)(s, p, layer),\n"
        "  alone: (s, p, layer) => at(layer, alone_steps || steps)(s, p, layer)};"
    )


HELD = """
function held(log, K, counts) {  // a distance below 1e-40 K is one of equal inputs, as in propagate
  const value = Math.exp(log);
  return counts && value < 1e-40 * K ? 0 : value;
}
"""
