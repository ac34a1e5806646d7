"""SymPy → Numba: a recursion becomes one readable, cached module of scalar functions and a parallel depth loop.

Every average becomes a function of its variance (`avg_0(K, T0)`, a closed form or a table) or of three covariances
(`pair_0`, a closed form or panel quadrature); the choice is made against certified values and stored with the module,
so that a second process neither analyses nor compiles.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from types import ModuleType

import numpy as np
import sympy as sp

from meanfield.functions.piecewise import pieces
from meanfield.numeric.lowering import (
    cache,
    chords,
    common,
    elementary,
    groups,
    largest,
    lockstep,
    loops,
    parametric,
    printing,
)
from meanfield.numeric.lowering.chord_check import error as chord_error
from meanfield.numeric.lowering.direct import direct
from meanfield.numeric.lowering.direct import measured as direct_error
from meanfield.numeric.lowering.helpers import COMPILED, HEADER, INLINED, helpers_for
from meanfield.numeric.lowering.modules import Module, T
from meanfield.numeric.lowering.near_zero import steadied
from meanfield.numeric.lowering.pairs import pair
from meanfield.numeric.lowering.parametric_check import stretch_error as parametric_error
from meanfield.numeric.lowering.printing import code
from meanfield.numeric.lowering.scalar import scalar
from meanfield.numeric.lowering.stages import branch_free
from meanfield.numeric.lowering.stretches import error as stretch_error
from meanfield.numeric.lowering.stretches import parts as stretch_parts
from meanfield.numeric.lowering.stretches import text as stretch_text
from meanfield.numeric.quadrature.sphere import sphere_value
from meanfield.results import MeanFieldError
from meanfield.symbolic.averages.chord import Chord, Rise
from meanfield.symbolic.averages.common import Common
from meanfield.symbolic.averages.groups import CHORD, PRODUCT, RADIAL, RISE, STRETCH, Group
from meanfield.symbolic.averages.largest import Largest
from meanfield.symbolic.averages.node import Average, Integrand
from meanfield.symbolic.averages.pools import MaxProduct, MaxStretch
from meanfield.symbolic.averages.sphere import SphereAverage
from meanfield.symbolic.averages.stretch import Stretch
from meanfield.symbolic.recursion import Recursion, closed
from meanfield.symbols import P_POSITIVE, K, K_aa, K_ab, K_bb, P, Z, distance, tilt

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
        K, 0 if none.

        start (points, variables): the state at layer 1, as it is held (`StateVar.key`: log J); sigma (parameters,
        points, 1 or depth - 1): of every later layer; homogeneous: σ's are the same in all of them.
        """
        repeats = homogeneous and not self.recursion.knows_layer
        return self._layers(start, sigma[..., :1] if homogeneous else sigma, 1, depth, repeats, every_layer)

    def step(self, state: np.ndarray, sigma: np.ndarray, layer: int = 1) -> np.ndarray:
        """The state one layer further, of many points at once.

        state (points, variables): at layer `layer` ≥ 1, each variable as it is held (`recursion.state[i].key`: log J
        for J); sigma (parameters, points): the values of `parameters` in the layer that is made. layer matters where
        the first layers differ from those that follow, or σ's are functions of it. Returns an array like `state`.
        Steps one after the other give what `propagate` gives, to the rounding of a logarithm; a state that is not
        finite, or whose K exceeds 1e300 then, is inf and NaN as there.

        >>> import numpy as np
        >>> from meanfield import derive
        >>> lowered = lower(derive("tanh").recursion("K", "J"))
        >>> lowered.parameters, [v.key for v in lowered.recursion.state]
        (('sigma_b', 'sigma_w'), ['K', 'log_J'])
        >>> state = np.array([[1.0, 0.0], [4.0, 0.0]])
        >>> print(lowered.step(state, np.array([[0.1, 0.1], [1.0, 1.5]])).round(6))
        [[ 0.404294 -0.767003]
         [ 1.439338 -0.551841]]
        """
        state, sigma = np.asarray(state, dtype=float), np.asarray(sigma, dtype=float)
        return self._layers(state, sigma[..., None], layer, layer + 1, False, False)[0][:, 0]

    def _layers(self, start, sigma, first: int, last: int, repeats: bool, every: bool):
        points, variables = start.shape
        out = np.empty((points, last - first + 1 if every else 1, variables))
        diverged = np.zeros(points, dtype=np.int64)
        wide = [i for i, v in enumerate(self.recursion.state) if v.carry.relative]
        begin = np.concatenate([start, np.zeros((points, len(wide)))], axis=1)
        begin[:, wide], begin[:, variables:] = elementary.wide(start[:, wide])
        block = lockstep.BLOCK if self.generated.weight < DIRECT_WEIGHT else 1  # quadratures have nothing to share
        sigma = np.require(sigma, requirements=["C", "W"])  # one type of array is one compiled form
        rest = (begin, sigma, T, first - 1, last - 1, repeats, every, out, diverged)
        self.generated.spread("layers", points, block, last - first + 1, *rest)
        if every:
            out[:, 0] = start
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
    bodies = (a.expr for n in loops.placeholders(recursion) for a in n.args if isinstance(a, Integrand))
    nodes = sorted(map(sp.srepr, bodies))
    carries = [str(v.carry) for v in recursion.state]
    closer = sp.srepr(recursion.closer)
    held = [p.name for p in recursion.parameters]  # their places in the code, those of the start among them
    return "|".join([VERSION, *steps, f"{recursion.names}{carries}{sp.srepr(recursion.layer)}{closer}{held}", *nodes])


def module_of(name: str, source: str, arrays: dict[str, np.ndarray]) -> Module:
    """The stored module and its tables."""
    tables = tuple(arrays[f"T{i}"] for i in range(sum(key.startswith("T") for key in arrays)))
    return Module(name, source, tables, float(arrays["weight"]))


def _generate(recursion: Recursion) -> tuple[str, dict[str, np.ndarray]]:
    recursion, error = steadied(recursion)
    found = averages(recursion)
    if error:
        found.arrays["errors"] = np.append(found.arrays["errors"], MARGIN * error)
    loop = lockstep.text(loops.loop(recursion, found.calls, found.text, found.held))
    head = HEADER.format(version=VERSION, summary="\n".join([str(recursion), "", *found.notes]))
    functions = printing.decorated(found.text, COMPILED)
    for name in branch_free(found.text):
        functions = functions.replace(f"{COMPILED}\ndef {name}(", f"{INLINED}\ndef {name}(")
    return head + helpers_for(found.text + loop) + functions + loop, found.arrays


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
        shape, variables = _canonical(node)
        written = [sp.sympify(v).xreplace(_written_out(recursion, node)) for v in variables]
        name = functions.of(shape, written)
        arguments = [code(sp.sympify(v).xreplace(ordered).xreplace(symbols)) for v in variables]
        if name.startswith("pair"):
            arguments.insert(3, _sine2(node, arguments[:3], ordered, symbols))
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
            kind = "stretch" if isinstance(shape, Stretch) else "avg" if _inputs(shape) == 1 else "pair"
            if kind == "stretch":
                used = [self.of(part) for part in stretch_parts(shape)]  # shared with the nodes of the recursion
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
        name = self.names[shape] = f"{'rise' if isinstance(shape, Rise) else 'chord'}_{len(self.names)}"
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
            canonical, variables = _canonical(node)
            own = self.of(canonical, [sp.sympify(v).xreplace(back) for v in variables])
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
            canonical, variables = _canonical(node)
            own = self.names.get(sp.Tuple(canonical))  # beside the same average's own function, which may be a table
            if own is None:
                own = self.names[sp.Tuple(canonical)] = f"avg_{len(self.names)}"
                self._direct(own, canonical, [sp.sympify(v) for v in variables])
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


def _inputs(shape: sp.Expr) -> int:
    """How many Gaussians the averages of an expression are over; of a number, or a function of K, one."""
    if not shape.atoms(Average) and not shape.has(K_aa, K_ab, K_bb):
        return 1
    return max([n.n for n in shape.atoms(Average)], default=2)


def _sine2(node: Average, arguments: list[str], ordered: dict, symbols: dict) -> str:
    """Source of 1 - c²: by way of the distance, where the covariance of two inputs of one norm is given by it."""
    a, ab, b = node.cov
    size = a if a == b else sp.sqrt(a) * sp.sqrt(b)
    near = sp.expand(2 * (size - ab))
    if near.has(K_ab) or not near.has(distance) or (a != b and not near.has(tilt)):
        return f"_sine2({', '.join(arguments)})"
    gap = code((near / (2 * size)).xreplace(ordered).xreplace(symbols))
    return f"_of_gap({gap})"


def _written_out(recursion: Recursion, node: loops.Node) -> dict[sp.Symbol, sp.Expr]:
    """What the intermediates are in the step that holds the node."""
    here = (step for step in recursion.steps if any(e.has(node) for e in step.expressions))
    return next(here, recursion.block).whole()


def _canonical(node: loops.Node):
    """The node over plain K or (K_aa, K_ab, K_bb), and what to put there."""
    if isinstance(node, Common):
        return Common(node.args[0], K_aa, K_bb, node.params), (node.own, node.shared)
    if isinstance(node, Group):
        plain = {STRETCH: (K, distance), CHORD: (K_aa, K_bb, distance, tilt), RISE: (K_aa, K_bb)}.get(node.what)
        return node.over(plain or ((K,) if len(node.variables) == 1 else (K_aa, K_ab, K_bb))), node.variables
    if isinstance(node, MaxStretch):
        return Largest(node.args[0], node.nodes, STRETCH, (K, distance)), (node.variance, node.apart)
    if isinstance(node, (Chord, Rise)) and node.params:
        raise MeanFieldError(
            f"The distance of two inputs through {node} depends on a mean and a scale that change from layer to "
            "layer; it is derived, but not compiled."
        )
    if isinstance(node, (Stretch, Rise)):
        if isinstance(node, Rise):
            return Rise(node.args[0], K_aa, K_bb), node.args[1:3]
        if isinstance(node, Chord):
            return Chord(node.args[0], K_aa, K_bb, distance, tilt), (*node.variances, node.apart, node.tilt)
        own = sp.Tuple(*[P_POSITIVE[i] if p.is_positive else P[i] for i, p in enumerate(node.params)])
        return Stretch(node.args[0], K, distance, own), (node.variance, node.apart, *node.params)
    if isinstance(node, MaxProduct):
        return Largest(node.args[0], node.nodes, PRODUCT, (K_aa, K_ab, K_bb)), node.cov
    if node.n > 2 or any(m != 0 for m in node.mean):
        raise MeanFieldError(f"{node} is not an average over one or two centred Gaussians; it cannot be lowered yet.")
    plain = (K,) if node.n == 1 else (K_aa, K_ab, K_bb)
    body, _, mean, params = node.args
    inner = body.expr.atoms(Average)
    if inner:  # constants of a LayerNorm at fixed variance, as rationals far beyond double precision
        body = Integrand(body.expr.xreplace({a: sp.Rational(str(sp.N(a, 40))) for a in inner}))
    if params:  # values that come with each layer: the node over its variances and its own dummies
        return Average(body, sp.Tuple(*plain), mean, P[: len(params)]), (*node.cov, *params)
    return Average(body, sp.Tuple(*plain), mean, params), node.cov
