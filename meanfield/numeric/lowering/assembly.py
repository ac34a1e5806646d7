"""SymPy → Numba: a recursion becomes one readable, cached module of scalar functions and a parallel depth loop.

Every average becomes a function of its variance (`avg_0(K, T0)`, a closed form or a table) or of three covariances
(`pair_0`, a closed form or panel quadrature); the choice is made against certified values and stored with the module,
so that a second process neither analyses nor compiles.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType

import numpy as np
import sympy as sp

from meanfield.numeric.lowering import cache, loops
from meanfield.numeric.lowering.direct import direct
from meanfield.numeric.lowering.direct import measured as direct_error
from meanfield.numeric.lowering.modules import Module, T
from meanfield.numeric.lowering.pairs import pair
from meanfield.numeric.lowering.printing import code
from meanfield.numeric.lowering.scalar import scalar
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.recursion import Recursion
from meanfield.symbols import K, K_aa, K_ab, K_bb, P

VERSION = "0.3.0"
DIRECT_WEIGHT, PAIR_WEIGHT = 300.0, 1e6  # work of an average by quadrature at every call, in layers of tables
MARGIN = 3.0  # between the places where an error is measured it may be larger: up to 2.3 times was seen
ROUNDING = 2e-15  # no average is claimed to be better: libm and NumPy round differently from one CPU to the next


@dataclass(frozen=True)
class Lowered:
    """A lowered recursion: its generated module, and how accurate each average was measured to be."""

    recursion: Recursion
    generated: Module
    errors: tuple[float, ...]
    limit: float = float("inf")  # the largest K at which every average is known

    @property
    def source(self) -> str:
        return self.generated.source

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        return self.generated.tables

    @property
    def module(self) -> ModuleType:
        """The compiled module."""
        return self.generated.compiled

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.recursion.parameters if p.name not in ("Q0", "c0"))

    def run(self, start: np.ndarray, sigma: np.ndarray, depth: int, homogeneous: bool, every_layer: bool):
        """(values, diverged): values (points, depth or 1, variables); diverged (points,) the first layer with infinite
        K, 0 if none."""
        points, variables = start.shape
        out = np.empty((points, depth if every_layer else 1, variables))
        diverged = np.zeros(points, dtype=np.int64)
        many = "" if points > 1 else "_one"
        function = ("trace" if every_layer else "final") + many
        head = () if points > 1 else (0,)
        repeats = homogeneous and not self.recursion.knows_layer
        arguments = (*head, start, sigma, T, depth, repeats, out, diverged)
        self.generated.call(function, points * depth, *arguments)
        return out, diverged


@lru_cache(maxsize=128)
def lower(recursion: Recursion) -> Lowered:
    """Generate (or find) the compiled form of a recursion whose only symbols are its state, σ's, μ, Q0 and c0.

    Raises: MeanFieldError naming what cannot be lowered (a discontinuous φ's J, symbolic activation parameters, other
    nodes).
    """
    for name, e in ((n, e) for step in recursion.steps for n, e in zip(recursion.names, step.next)):
        if sp.sympify(e).has(sp.oo, sp.zoo, sp.nan):
            raise MeanFieldError(
                f"{name} was asked for, but is infinite at every layer (φ jumps or rises like √z). Ask for K only."
            )
    for step in recursion.steps:
        if names := {s.name for s in step.free_symbols} & {"Q0", "c0"}:
            raise MeanFieldError(f"{min(names)} belongs to the start, but a step of this recursion holds it.")
    name = cache.key(described(recursion))
    stored = cache.read(name)
    if stored is None:
        text, arrays = _generate(recursion)
        cache.write(name, text, arrays)
        stored = (text, arrays)
    arrays = stored[1]
    return Lowered(recursion, module_of(name, *stored), tuple(arrays["errors"]), float(arrays["limit"]))


def described(recursion: Recursion) -> str:
    """Text that two recursions share only if their compiled forms are the same."""
    steps = [f"{sp.srepr(step.lets)}|{sp.srepr(step.next)}" for step in recursion.steps]
    nodes = sorted(sp.srepr(n.integrand) for n in loops.placeholders(recursion))
    carries = [str(v.carry) for v in recursion.state]
    return "|".join([VERSION, *steps, f"{recursion.names}{carries}{sp.srepr(recursion.layer)}", *nodes])


def module_of(name: str, source: str, arrays: dict[str, np.ndarray]) -> Module:
    """The stored module and its tables."""
    tables = tuple(arrays[f"T{i}"] for i in range(sum(key.startswith("T") for key in arrays)))
    return Module(name, source, tables, float(arrays["weight"]))


def _generate(recursion: Recursion) -> tuple[str, dict[str, np.ndarray]]:
    calls, functions, notes, arrays = averages(recursion)
    return loops.source(recursion, calls, functions, VERSION, notes), arrays


def averages(recursion: Recursion):
    """(node → source of its evaluation, source of the functions called, a line on each, their tables and errors)."""
    calls, functions, notes, arrays, errors, weight, limit = {}, "", [], {}, [], 1.0, float("inf")
    names: dict[sp.Expr, str] = {}
    symbols = loops.identifiers(recursion)
    ordered = loops.placeholders(recursion)
    for node in ordered:
        shape, variables = _canonical(node)
        if shape not in names:
            index = len(names)
            if len(variables) > node.n * (node.n + 1) // 2:
                source = direct(shape, f"avg_{index}")
                functions += source + "\n\n"
                arrays[f"T{index}"] = np.zeros((1, 10))
                apart = [sp.sympify(v).xreplace(_written_out(recursion, node)) for v in variables]
                errors.append(direct_error(shape, source, f"avg_{index}", apart))
                weight += DIRECT_WEIGHT
                notes.append(f"avg_{index}(K, …) = {shape}: panel quadrature at every call")
            elif node.n == 1:
                s = scalar(shape, f"avg_{index}")
                arrays[f"T{index}"] = s.table.coefficients if s.table else np.zeros((1, 10))
                functions += s.text + "\n\n"
                errors.append(s.error)
                limit = min(limit, s.limit)
                notes.append(f"avg_{index}(K) = {shape}: {s.note}")
            else:
                p = pair(shape, f"pair_{index}")
                arrays[f"T{index}"] = np.zeros((1, 10))
                functions += p.text + "\n\n"
                errors.append(p.error)
                weight += 0.0 if p.closed else PAIR_WEIGHT
                limit = min(limit, p.limit)
                notes.append(f"pair_{index}(K_aa, K_ab, K_bb) = {shape}: {p.note}")
            names[shape] = f"{'avg' if node.n == 1 else 'pair'}_{index}"
        index = list(names).index(shape)
        arguments = [code(sp.sympify(v).xreplace(ordered).xreplace(symbols)) for v in variables]
        if node.n == 2:
            arguments.append(f"_sine2({', '.join(arguments)})")
        tabled = node.n == 1 and len(variables) == 1
        calls[node] = f"{names[shape]}({', '.join(arguments)}{f', T[{index}]' if tabled else ''})"
    arrays["errors"] = np.maximum(MARGIN * np.array(errors), ROUNDING)
    arrays |= {"weight": np.array(weight), "limit": np.array(limit)}
    return calls, functions, notes, arrays


def _written_out(recursion: Recursion, node: Average) -> dict[sp.Symbol, sp.Expr]:
    """What the intermediates are in the step that holds the node."""
    here = (step for step in recursion.steps if any(e.has(node) for e in step.expressions))
    return next(here, recursion.block).whole()


def _canonical(node: Average):
    """The node over plain K or (K_aa, K_ab, K_bb), and what to put there."""
    if node.n > 2 or any(m != 0 for m in node.mean):
        raise MeanFieldError(f"{node} is not an average over one or two centred Gaussians; it cannot be lowered yet.")
    plain = (K,) if node.n == 1 else (K_aa, K_ab, K_bb)
    body, _, mean, params = node.args
    inner = body.expr.atoms(Average)
    if inner:  # constants of a LayerNorm at fixed variance, as rationals far beyond double precision
        body = Integrand(body.expr.xreplace({a: sp.Rational(str(sp.N(a, 40))) for a in inner}))
    if params and node.n == 1:  # values that come with each layer: the node over K and its own dummies
        return Average(body, sp.Tuple(K), mean, P[: len(params)]), (*node.cov, *params)
    return Average(body, sp.Tuple(*plain), mean, params), node.cov
