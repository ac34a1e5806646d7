"""The averages of a recursion as functions of one module: one for each shape of an average, with its tables, its
measured error and what a call costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import sympy as sp

from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering import (
    chords,
    common,
    groups,
    largest,
    loops,
    parametric,
    printing,
)
from meanfield.numeric.lowering.canonical import canonical, inputs, sine2, written_out
from meanfield.numeric.lowering.chord_check import error as chord_error
from meanfield.numeric.lowering.direct import direct
from meanfield.numeric.lowering.direct import measured as direct_error
from meanfield.numeric.lowering.modules import DIRECT_WEIGHT
from meanfield.numeric.lowering.pairs import pair
from meanfield.numeric.lowering.parametric_check import stretch_error as parametric_error
from meanfield.numeric.lowering.printing import code
from meanfield.numeric.lowering.scalar import scalar
from meanfield.numeric.lowering.stretches import error as stretch_error
from meanfield.numeric.lowering.stretches import parts as stretch_parts
from meanfield.numeric.lowering.stretches import text as stretch_text
from meanfield.numeric.quadrature.sphere import sphere_value
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.chord import Chord, Rise, Turn
from meanfield.symbolic.averages.common import Common
from meanfield.symbolic.averages.groups import RADIAL, Group
from meanfield.symbolic.averages.largest import Largest
from meanfield.symbolic.averages.node import Average
from meanfield.symbolic.averages.sphere import SphereAverage
from meanfield.symbolic.averages.stretch import Stretch
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import K, K_aa, K_bb, Z, distance

PAIR_WEIGHT = 1e6  # as DIRECT_WEIGHT, of averages over several inputs
MARGIN = 3.0  # between the places where an error is measured it may be larger: up to 2.3 times was seen
ROUNDING = 2e-15  # no average is claimed to be better: libm and NumPy round differently from one CPU to the next


@dataclass(frozen=True)
class Averages:
    """What the averages of a recursion became: node → source of its evaluation, source of the functions called, a line
    on each, their tables and errors; the functions that are a table and nothing else, with its first octave."""

    calls: dict[loops.Node, str]
    text: str
    notes: list[str]
    arrays: dict[str, np.ndarray]
    held: dict[str, int]


def averages(recursion: Recursion) -> Averages:
    """Functions and tables for every average of a recursion."""
    calls: dict[loops.Node, str] = {}
    symbols, ordered, functions = loops.identifiers(recursion), loops.placeholders(recursion), Functions()
    for node in ordered:
        if isinstance(node, SphereAverage):
            calls[node] = functions.constant(node)
            continue
        shape, variables = canonical(node)
        written = [sp.sympify(v).xreplace(written_out(recursion, node)) for v in variables]
        name = functions.of(shape, written)
        arguments = [code(sp.sympify(v).xreplace(ordered).xreplace(symbols)) for v in variables]
        if name.startswith("pair"):
            arguments.insert(3, sine2(node, arguments[:3], ordered, symbols))
        calls[node] = f"{name}({', '.join([*arguments, *functions.table(name)])})"
    arrays = functions.arrays | {"errors": np.maximum(MARGIN * np.array(functions.errors), ROUNDING)}
    arrays |= {"weight": np.array(functions.weight), "limit": np.array(functions.limit)}
    return Averages(calls, functions.text, functions.notes, arrays, functions.held)


class Functions:
    """The functions of a module, one for each shape of an average, and their tables T[i]."""

    def __init__(self) -> None:
        self.names: dict[sp.Expr, str] = {}
        self.text, self.weight, self.limit = "", 1.0, float("inf")
        self.notes: list[str] = []
        self.errors: list[float] = []
        self.arrays: dict[str, np.ndarray] = {}
        self.held: dict[str, int] = {}  # functions that are a table and nothing else: its first octave
        self._tabled: dict[str, list[str]] = {}

    def table(self, name: str) -> list[str]:
        """The arguments by which a function gets its tables, if it has some."""
        return self._tabled.get(name, [])

    def constant(self, node: SphereAverage) -> str:
        """Source of an average over a normalized batch, which no state moves."""
        if node.free_symbols:
            raise MeanFieldError(
                f"{node} holds {', '.join(sorted(map(str, node.free_symbols)))}; give numbers for them, which the "
                "averages of a batch need before they are compiled."
            )
        value, error = sphere_value(node)
        self.errors.append(error)
        return repr(value)

    def of(self, shape: sp.Expr, written: Sequence[sp.Expr] = ()) -> str:
        """The name of the function for `shape`; written: its variables as formulas of the state."""
        if shape not in self.names and isinstance(shape, Largest):
            self._largest(shape)
        if shape not in self.names and isinstance(shape, Group):
            self._group(shape)
        if shape not in self.names and isinstance(shape, Common):
            name = self.names[shape] = f"common_{len(self.names)}"
            source = common.text(shape, name)
            note = f"{name}(V, M) = {shape}: quadrature within quadrature at every call"
            self._add(name, source, note, None, common.error(shape, source, name), PAIR_WEIGHT)
        if shape not in self.names and isinstance(shape, (Chord, Rise)):
            self._two_norms(shape)
        if shape not in self.names and isinstance(shape, Stretch) and shape.params:
            self._parametric_stretch(shape, written)
        if shape not in self.names:
            kind = "stretch" if isinstance(shape, Stretch) else "avg" if inputs(shape) == 1 else "pair"
            if kind == "stretch":
                used = self.parts(shape)  # shared with the nodes of the recursion
            name = self.names[shape] = f"{kind}_{len(self.names)}"
            if kind == "stretch":
                self._stretch(name, shape, used)
            elif kind == "avg" and isinstance(shape, Average) and len(written) > 1:
                self._direct(name, shape, written)
            elif kind == "avg" and any(n.args[3] for n in shape.atoms(Average)):
                self._combined(name, shape)
            elif kind == "avg":
                s = scalar(shape, name)
                table = s.table.coefficients if s.table else np.zeros((1, 10))
                self._add(name, s.text, f"{name}(K) = {shape}: {s.note}", table, s.error, 0.0, s.limit, tabled=True)
                if s.table is not None and s.only_table:
                    self.held[name] = s.table.first
            elif isinstance(shape, Average) and len(written) > 3:
                source, error, limit, how = parametric.pair(shape, name, written)
                note = f"{name}(K_aa, K_ab, K_bb, …) = {shape}: {how}"
                self._add(name, source, note, None, error, PAIR_WEIGHT, limit)
            else:
                p = pair(shape, name)
                note = f"{name}(K_aa, K_ab, K_bb) = {shape}: {p.note}"
                self._add(name, p.text, note, None, p.error, 0.0 if p.closed else PAIR_WEIGHT, p.limit)
        return self.names[shape]

    def parts(self, shape: Stretch) -> list[str]:
        """The functions of ⟨f²⟩, ⟨f f⟩ and its slope."""
        second, product, slope = stretch_parts(shape)
        return [self.of(second), self.of(product), self._slope(slope) if slope.has(distance) else self.of(slope)]

    def _slope(self, e: sp.Expr) -> str:
        """The function of a slope where φ jumps, by (K_aa, K_ab, K_bb, 1 - c²) of one norm: a sum over (K, distance) of
        averages over two inputs, over one where the other stands at a jump, and of densities."""
        if e not in self.names:
            swap = {}
            for node in sorted(e.atoms(Average), key=str):
                plain, variables = canonical(node)
                own = self._untabled(plain, variables) if node.n == 1 else self.of(plain, variables)
                arguments = [code(sp.sympify(v)) for v in variables]
                if node.n == 2:
                    arguments.insert(3, "sine2")
                swap[node] = sp.Symbol(f"{own}({', '.join(arguments)})", real=True)
            name = self.names[e] = f"pair_{len(self.names)}"
            text = f"""def {name}(K_aa, K_ab, K_bb, sine2):
    K, gap = K_aa, sine2 / (1.0 + math.sqrt(1.0 - sine2))
    distance = 2.0 * K * (gap if K_ab > 0.0 else 2.0 - gap)
    return {code(e.xreplace(swap))}
"""
            how = "panel quadrature" if swap else "closed form everywhere"
            weight = PAIR_WEIGHT if swap else 0.0
            self._add(name, text, f"{name}(K, distance) = {e}: {how}", None, max(self.errors, default=0.0), weight)
        return self.names[e]

    def _untabled(self, plain: Average, variables: Sequence[sp.Expr]) -> str:
        """An average by quadrature at every call, beside the same one's own function, which may be a table."""
        own = self.names.get(sp.Tuple(plain))
        if own is None:
            own = self.names[sp.Tuple(plain)] = f"avg_{len(self.names)}"
            self._direct(own, plain, [sp.sympify(v) for v in variables])
        return own

    def _group(self, shape: Group) -> None:
        name = self.names[shape] = f"group_{len(self.names)}"
        source = groups.text(shape, name)
        error = groups.error(shape, source, name)
        note = f"{name} = {shape}: a lattice of {groups.POINTS} points, measured error {error:.0e}"
        self._add(name, source, note, groups.normals(), error, PAIR_WEIGHT, tabled=True)

    def _largest(self, shape: Largest) -> None:
        key = sp.Tuple(shape.args[0], shape.args[1])  # what its averages have in common
        if key not in self.names:
            core = self.names[key] = f"nodes_{len(self.names)}"
            source, limit = largest.core(shape, core)
            error = largest.error(shape, source, core, limit)
            note = f"{core} = max over {shape.nodes} nodes of {shape.function}: panels of its values, error {error:.0e}"
            self._add(core, source, note, None, error, 0.0, limit)
        core, two = self.names[key], len(shape.variables) == 3
        name = self.names[shape] = f"{'pair' if two else 'group'}_{len(self.names)}"
        weight = PAIR_WEIGHT if shape.what > RADIAL else DIRECT_WEIGHT
        self._add(name, largest.text(shape, name, core), f"{name} = {shape}", None, 0.0, weight)

    def _two_norms(self, shape: Chord | Rise) -> None:
        used = [self.of(part) for part in chords.parts(shape)]
        kind = "rise" if isinstance(shape, Rise) else "turn" if isinstance(shape, Turn) else "chord"
        name = self.names[shape] = f"{kind}_{len(self.names)}"
        tabled = [t for u in used for t in self.table(u)]
        text = chords.text(shape, name, used)
        tables = [self.arrays[t[:-1].replace("[", "")] for t in tabled]
        error = chord_error(shape, self.text + text, name, tables, self.limit)
        if not error < 1e-6:
            raise MeanFieldError(
                f"{shape} is too steep or oscillates too fast for float64 (measured error {error:.0e}); it is derived, "
                "but not compiled."
            )
        quadrature = any("quadrature" in n for n in self.notes if n.startswith(tuple(f"{u}(" for u in used)))
        weight = 0.0 if isinstance(shape, Rise) else PAIR_WEIGHT if quadrature else DIRECT_WEIGHT
        self._add(name, text, f"{name} = {shape}: {chords.NOTES[type(shape)]}", None, error, weight)
        self._tabled[name] = tabled

    def _stretch(self, name: str, shape: Stretch, used: list[str]) -> None:
        text = stretch_text(shape, name, *used)
        closed = all("quadrature" not in n for n in self.notes if n.startswith(tuple(f"{u}(" for u in used)))
        note = f"{name}(K, distance) = {shape}: the mean of {used[2]} for inputs close together, else of {used[1]}"
        table = self.arrays[f"T{used[0].split('_')[1]}"]
        error = stretch_error(shape, self.text + text, name, table, self.limit)
        if not error < 1e-6:
            raise MeanFieldError(
                f"{shape} is too steep or oscillates too fast for float64 (measured error {error:.0e}); it is derived, "
                "but not compiled."
            )
        self._add(name, text, note, table, error, 0.0 if closed else PAIR_WEIGHT, float("inf"), tabled=True)

    def _parametric_stretch(self, shape: Stretch, written: Sequence[sp.Expr]) -> None:
        if pieces(shape.function, Z[0]).jumps():
            raise MeanFieldError(
                f"The distance of two inputs through {shape.function} was asked for, which jumps at a place or by a "
                "height that changes from layer to layer; it is derived, but not compiled: ask for K_aa, K_bb and K_ab."
            )
        back = dict.fromkeys((K, K_aa, K_bb), written[0]) | dict(zip(shape.params, written[2:]))
        parts = stretch_parts(shape)
        calls = [self._wrapped(part, back) for part in parts]
        name = self.names[shape] = f"stretch_{len(self.names)}"
        used, text = (f"{name}_second", f"{name}_product", f"{name}_slope"), ""
        for own, call, signature in zip(used, calls, ("K", parametric.SIGNATURE, parametric.SIGNATURE)):
            more = "".join(f", {p}" for p in parametric.names(len(shape.params)))
            text += f"def {own}({signature}{more}):\n    return {call}\n\n\n"
        text += parametric.stretch(name, used, shape, written)
        function = printing.interpret(self.text + text, name)
        error = parametric_error(parts[1:], function, written, self.limit)
        if not error < 1e-6:
            raise MeanFieldError(
                f"{shape} is too steep or oscillates too fast for float64 (measured error {error:.0e}); it is derived, "
                "but not compiled."
            )
        note = f"{name}(K, distance, …) = {shape}: the mean of slopes for inputs close together, else of products"
        self._add(name, text, note, None, error, PAIR_WEIGHT, float("inf"))

    def _wrapped(self, e: sp.Expr, back: dict[sp.Symbol, sp.Expr]) -> str:
        """Source of an expression in averages whose parameters are functions of p0, p1, …; back: what these, and the
        variances, are as formulas of the state."""
        swap = {}
        for node in sorted(e.atoms(Average), key=str):
            plain, variables = canonical(node)
            own = self.of(plain, [sp.sympify(v).xreplace(back) for v in variables])
            arguments = [code(parametric.named(sp.sympify(v))) for v in variables]
            if own.startswith("pair"):
                arguments.insert(3, "sine2")
            elif self.table(own):
                raise MeanFieldError(f"{e} holds an average without parameters beside others; it is not compiled.")
            swap[node] = sp.Symbol(f"{own}({', '.join(arguments)})", real=True)
        return code(parametric.named(e.xreplace(swap)))

    def _combined(self, name: str, shape: sp.Expr) -> None:
        """An expression in K with averages whose parameters are functions of K."""
        form = closed(shape)
        swap = {}
        for node in sorted(form.atoms(Average), key=str):
            plain, variables = canonical(node)
            own = self._untabled(plain, variables)
            swap[node] = sp.Symbol(f"{own}({', '.join(code(sp.sympify(v)) for v in variables)})")
        text = f"def {name}(K, T=0):\n    return {code(form.xreplace(swap))}\n"
        self._add(name, text, f"{name}(K) = {shape}", None, max(self.errors, default=0.0), 0.0)

    def _direct(self, name: str, shape: Average, written: Sequence[sp.Expr]) -> None:
        source = direct(shape, name)
        error = direct_error(shape, source, name, written)
        self._add(name, source, f"{name}(K, …) = {shape}: panel quadrature at every call", None, error, DIRECT_WEIGHT)

    def _add(self, name, text, note, table, error, weight, limit=float("inf"), tabled=False) -> None:
        self.arrays[f"T{name.split('_')[1]}"] = np.zeros((1, 10)) if table is None else table
        self.text += text + "\n\n"
        self.notes.append(note)
        self.errors.append(error)
        self.weight += weight
        self.limit = min(self.limit, limit)
        if tabled:
            self._tabled[name] = [f"T[{name.split('_')[1]}]"]
