"""Depth iteration: a compiled recursion run over arrays of (σ_w, σ_b, inputs), and the arrays that come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import SHOWN, Numbers, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, Status, one_line
from meanfield.base.arguments import position_of, refuse_not_real, shown, whole
from meanfield.base.budgets import require_memory, require_steps
from meanfield.base.quantities import GRADIENTS, QUANTITIES, QUOTIENTS, VARIANCES
from meanfield.base.symbols import KEYWORDS, Q0, L, parameter
from meanfield.numeric.lowering.assembly import Lowered, lower
from meanfield.numeric.lowering.modules.module_functions import EVERY_K
from meanfield.numeric.quadrature.evaluation import on_arrays
from meanfield.numeric.run.starts import BETWEEN, NAMES, pair_start, two_norms_start
from meanfield.numeric.run.vanishing import LN2, SMALLEST, Units, degree, units
from meanfield.symbolic.recursion import Recursion, c0
from meanfield.symbolic.steps import Domain

DEEPEST = 10**12  # layers


@dataclass(frozen=True, eq=False)
class Run(Numbers):
    """State variables layer by layer.

    l: layer indices (the last axis of every array). values: name → array of shape (broadcast shape of the parameters,
    layers); a quantity carried as a logarithm is stored as one ("log_J"), and `run.J` exponentiates it. diverged_at:
    first layer at which K overflows, 0 where it does not; from that layer on K is inf. c, gamma, logarithms and
    normalized correlators go on where the map is homogeneous as K → ∞ (ReLU, GELU): two layers whose K are 2^450 and
    2^200 agree to 1e-12 once scaled. Elsewhere (φ = z²) they are NaN from there on, which is then `lost_at`, and of two
    inputs the one that overflows is inf, and the other's K is NaN (propagate it by itself).

    `underflows_at`: the first layer at which K (of either input) is below 1e-290, where doubles lose their digits and
    then are 0; 0 where it never is. Logarithms, c, gamma, log_gamma and normalized correlators go on, being followed in
    other units; where they cannot (φ = z², whose map is not homogeneous near K = 0) they are NaN from `lost_at` on.

    level: "averaged" where a Dense mixes tokens (means over its matrix, beside the "sampled" level of `Theory.sample`),
    else "".
    """

    l: np.ndarray
    values: dict[str, np.ndarray]
    diverged_at: np.ndarray
    lowered: Lowered
    parameters: dict[str, np.ndarray]
    layerwise: bool = False  # the last axis of the σ's (and μ) is the layer
    level: str = field(default="", kw_only=True)
    units: Units | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        points = int(np.prod(np.shape(self.diverged_at), dtype=int))
        many = f"; {points} points {np.shape(self.diverged_at)}" if np.shape(self.diverged_at) else ""
        many += f"; {self.level} over token matrices" if self.level else ""
        return one_line("Run", f"{', '.join(self.quantities)}; layers {self.l[0]} to {self.l[-1]}{many}")

    def __str__(self) -> str:
        said = self.message()
        return wrapped(f"{self!r}\n  {said}") if said else repr(self)

    @property
    def status(self) -> np.ndarray:
        """`Status.DIVERGES` or `Status.MEASURED` per point."""
        choices = np.array([Status.MEASURED, Status.DIVERGES], dtype=object)
        return choices[(np.asarray(self.diverged_at) > 0).astype(int)]

    @property
    def error(self) -> float:
        """Measured relative error of the worst average in one layer (not of the iterated result)."""
        return max(self.lowered.errors, default=0.0)

    @property
    def underflows_at(self) -> np.ndarray:
        """First layer with K < 1e-290 per point, 0 where there is none."""
        return np.zeros_like(self.diverged_at) if self.units is None else self.units.below

    @property
    def lost_at(self) -> np.ndarray:
        """First layer per point from which on quotients by K are unknown, because K has left the doubles; 0 of none."""
        return np.zeros_like(self.diverged_at) if self.units is None else self.units.lost

    @cached_property
    def held(self) -> Run:
        """The run in units in which K neither underflows nor overflows."""
        if self.units is None:
            return self
        return replace(self, values={n: self.units.at(n, self.l) for n in self.values}, units=None)

    def logarithm(self, key: str) -> np.ndarray:
        """The logarithm of one of `values`, also where that leaves the doubles."""
        held = np.log(self.held.values[key])
        return held if self.units is None else held + self.units.exponent * (LN2 * (degree(key) or 0))

    def changed(self, key: str, function: Callable[[dict[str, np.ndarray]], np.ndarray]) -> Run:
        """The run with another of `values`: function(values)."""
        units = self.units
        if units is not None:
            units = replace(units, values=units.values | {key: function(units.values)})
        return replace(self, values=self.values | {key: function(self.values)}, units=units)

    def __getattr__(self, name: str) -> np.ndarray:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        if not values:  # a copy in the making
            raise AttributeError(name)
        recursion = self.lowered.recursion
        for v in recursion.state:
            if v.name == name:
                return v.encoding.value(values[v.key])
        for own, formula in recursion.readout:
            if own == name:
                if self.units is not None and degree(name) == 0:  # quotients of the state
                    return getattr(self.held, name)
                held = {v.symbol: v.name for v in recursion.state if v.symbol in formula.free_symbols}
                logs = {sp.log(v.symbol): parameter(v.key) for v in recursion.state if v.encoding.relative}
                kept = {s: v.key for v in recursion.state for e, s in logs.items() if e.args[0] == v.symbol}
                formula = formula.xreplace(logs)
                with np.errstate(all="ignore"):
                    columns = [getattr(self, n) for n in held.values()] + [values[key] for key in kept.values()]
                    return _function(formula, (*held, *kept))(*columns)
        raise self._absent(name, self.quantities)

    @property
    def quantities(self) -> tuple[str, ...]:
        """Names that can be read off the run."""
        return (*self.lowered.recursion.names, *(name for name, _ in self.lowered.recursion.readout))

    def at(self, layer: int) -> dict[str, np.ndarray]:
        """All quantities at one layer index l (not array position), logarithms that are kept (log_J) among them."""
        where = position_of(layer, self.l)
        logs = [n for n in self.values if n not in self.quantities]  # J overflows where log_J does not
        return {n: getattr(self, n)[..., where] for n in (*self.quantities, *logs)}

    def normalized(self, name: str, width: int | None = None) -> np.ndarray:
        """A correlator of order 1/n, or the correction of a mean, divided by the means it is naturally measured in.

        name: V/K²; A, B, P, Q over Θ²; D, F over KΘ; R, S, T, U over Θ³/K; G1/K, Theta1/Θ, J1/J; V6/K³, V1/K², G2/K:
        one the run holds. width: n of the hidden layers, for a name whose next order the run holds, which is V where
        it has V1: numerator and denominator are those of `at_width(n)`, and the quotient is not expanded,
        (V + V1/n)/(K + G1/n)² (K + G1/n + G2/n² where G2 was propagated); without a width, n → ∞.
        Returns an array as `run.V` is. Accuracy: that of the run, J1/J also where J overflows; NaN where Θ = 0; at a
        width, what is left out is of order 1/n². Raises: MeanFieldError for other names. Source: [orthogonal_weights]
        (2.9), (5.9), (5.10), (5.15), (5.16), to which (A.1)-(A.5) reduce where all inputs are one.

        >>> from meanfield import derive
        >>> theory = derive("relu", weights="orthogonal")
        >>> run = theory.propagate(sigma_w="sqrt(2)", sigma_b=0, depth=4, quantities="V")
        >>> run.normalized("V").round(9).tolist()
        [-2.0, 1.0, 4.0, 7.0]
        >>> tanh = derive("tanh", weights="orthogonal")  # networks of width 25 have -1.731
        >>> run = tanh.propagate(sigma_w=1, sigma_b=0, depth=6, input_norm="1/3", quantities=("V1", "G2"))
        >>> print(round(run.normalized("V", width=25)[-1], 3), round(run.normalized("V")[-1], 3))
        -1.729 -1.839
        """
        have = [q for q in self.quantities if q in QUANTITIES and QUANTITIES[q].over]
        if name not in have:
            raise MeanFieldError(
                f"The normalized form of {shown(name)} is not available: this run has "
                + (f"that of {', '.join(have)}." if have else "none: ask for quantities of order 1/n, such as V.")
            )
        at = {} if width is None else self._at_width(width)
        if width is not None and name not in at:
            raise MeanFieldError(
                f"{shown(name)} at a width is not available: this run has next orders of {', '.join(at) or 'nothing'}: "
                "propagate V1 for V."
            )
        if name == "J1":
            return self.values["J1_J"]
        if self.units is not None:
            return self.held.normalized(name, width)
        found = np.array(at.get(name, getattr(self, name)), dtype=float)
        with np.errstate(all="ignore"):
            for mean, power in QUANTITIES[name].over:
                by = at.get(mean, getattr(self, mean))
                for _ in range(abs(power)):  # one after the other: powers of a small K underflow
                    found = found / by if power > 0 else found * by
        return found

    def at_width(self, width: int) -> dict[str, np.ndarray]:
        """The means of networks of finite width, K + G1/n, Theta + Theta1/n, J + J1/n, and V + V1/n: those whose
        corrections the run holds. What is left out is of order 1/n²; of K of order 1/n³ where the run holds G2, which
        is then in it, K + G1/n + G2/n².

        width: n of the hidden layers, ≥ 2. Returns arrays by name, as `run.K` is. Source: [orthogonal_weights] (4.25);
        G2 and V1 are derived here. Raises: MeanFieldError where no correction was propagated.

        >>> from meanfield import derive
        >>> theory = derive("tanh", weights="orthogonal")
        >>> run = theory.propagate(sigma_w=1, sigma_b=0, depth=6, quantities=("K", "G1"), input_norm="1/3")
        >>> print(round(run.at_width(100)["K"][-1] / run.K[-1], 6))  # 1 + 0.9786/100
        1.009786
        """
        found = self._at_width(width)
        if not found:
            raise MeanFieldError(
                "Means at finite width are not available: propagate G1, Theta1 or J1, or V1 for V, too."
            )
        return found

    def _at_width(self, width: int) -> dict[str, np.ndarray]:
        n = whole(width, "width", 2, 1 << 62)
        found: dict[str, np.ndarray] = {}
        for name in self.quantities:
            of = QUANTITIES[name].corrects if name in QUANTITIES else ""
            if of:
                power = QUANTITIES[name].order - QUANTITIES[of].order
                found[of] = found.get(of, getattr(self, of)) + getattr(self, name) / float(n) ** power
        return found

    def data(self) -> dict[str, Any]:
        """Parameters, layers and quantities as lists, and the layers at which K diverges or underflows."""
        own = {n: plain(getattr(self, n)) for n in ("l", "diverged_at", "underflows_at", "lost_at", "error")}
        named = {KEYWORDS.get(n, n): plain(v) for n, v in self.parameters.items()}
        return {"parameters": named, **own, "values": {n: plain(getattr(self, n)) for n in self._held}}

    @property
    def _held(self) -> tuple[str, ...]:
        return (*self.quantities, *(n for n in self.values if n.startswith("log_") and n not in self.quantities))

    def arrays(self) -> Arrays:
        """Every quantity over the points and the layer; a parameter that varies along one axis alone names it."""
        shape = np.shape(self.diverged_at)
        axes = [f"point_{i}" if len(shape) > 1 else "point" for i in range(len(shape))]
        varied: dict[str, np.ndarray] = {}
        for name, values in self.parameters.items():
            if np.size(values) > 1 and (name in ("Q0", "c0") or not self.layerwise):
                varied[KEYWORDS.get(name, name)] = np.asarray(values)
        along = {n: [i for i, k in enumerate(v.shape, len(shape) - v.ndim) if k > 1] for n, v in varied.items()}
        for i in range(len(shape)):
            names = [n for n, own in along.items() if i in own]
            if len(names) == 1 and along[names[0]] == [i]:
                axes[i] = names[0]
        coords = {n: (tuple(axes[i] for i in along[n]), v.squeeze()) for n, v in varied.items()}
        columns = {n: ((*axes, "layer"), np.asarray(getattr(self, n))) for n in self._held}
        fixed = {KEYWORDS.get(n, n): float(v) for n, v in self.parameters.items() if np.size(v) == 1}
        if not shape:
            fixed["diverged_at"] = int(self.diverged_at)
        return Arrays({**coords, "layer": (("layer",), self.l)}, columns, fixed)

    def plot(self, quantities: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Quantities against the layer, K and J (or K_ab and c) unless named; returns the Axes, an array of several."""
        return SHOWN["plot of layers"](self, quantities, ax)

    def latex(self) -> str:
        r"""The layers as `table` floats (booktabs): \ell and every quantity, logarithms as they are carried."""
        if any(v.ndim != 1 for v in self.values.values()):
            raise MeanFieldError(
                f"A table of layers is not available: this run holds {np.asarray(self.diverged_at).size} points; "
                "propagate one point."
            )
        return SHOWN["latex of layers"](self)

    def undefined(self, *names: str) -> np.ndarray:
        """Where one of these is NaN in some layer whose K is finite: 0/0."""
        K = self.values.get("K", np.array([np.nan]))
        met = np.zeros(K.shape[:-1], bool)
        for name in set(names) & set(self.values):
            met |= (np.isfinite(K) & np.isnan(self.values[name])).any(-1)
        return met

    @staticmethod
    def at_points(met: np.ndarray) -> str:
        """How many points these are, where there are several."""
        return f" at {int(met.sum())} of {met.size} points" if met.size > 1 else ""

    def message(self) -> str:
        """One sentence on divergence, empty where everything stays finite."""
        bad = np.asarray(self.diverged_at)
        if not (bad > 0).any():
            return self._underflow()
        first = int(bad[bad > 0].min())
        count = self.at_points(bad > 0)
        norms = [v for n, v in self.values.items() if n in VARIANCES]
        if norms and not any(np.isinf(v).any() for v in norms):  # the normalized zero vector, say
            return f"The state is not a number{count} from layer {first} on; the layers before it are intact."
        said = f"K diverges{count}: it exceeds 1e300 first at layer {first}; the layers before it are intact"
        quotients = ", ".join(self._quotients)
        if not quotients:
            return said + "."
        lost = np.asarray(self.lost_at)[bad > 0]
        if (lost > 0).any():
            return f"{said}, from layer {lost[lost > 0].min()} on {quotients} are unknown (NaN)."
        return f"{said}, and {quotients} go on."

    @property
    def _quotients(self) -> list[str]:
        """What goes on where K leaves the doubles, or is lost with it."""
        return [n for n in self.quantities if n in QUOTIENTS or n.partition("[")[0] in GRADIENTS]

    def _underflow(self) -> str:
        below, lost = np.asarray(self.underflows_at), np.asarray(self.lost_at)
        if not (below > 0).any():
            return ""
        count = self.at_points(below > 0)
        said = f"K underflows{count}: it is below 1e-290 first at layer {int(below[below > 0].min())}, where it is 0"
        quotients = self._quotients
        if not quotients:
            return said + "."
        if (lost > 0).any():
            return f"{said}, and {', '.join(quotients)} are unknown (NaN)."
        return f"{said}; {', '.join(quotients)} go on."


def propagate(
    recursion: Recursion,
    *,
    sigma_w,
    sigma_b,
    depth: int,
    input_norm=1.0,
    correlation=None,
    layerwise: bool = False,
    every_layer: bool = True,
    parameters: dict[str, float] | None = None,
    start: dict[str, Any] | None = None,
    span: tuple[float, float] = EVERY_K,
) -> Run:
    """Iterate a recursion in float64 to layer `depth`; see `Theory.propagate`. span: as in `lower`."""
    depth = whole(depth, "depth", 1, DEEPEST)
    given = {"sigma_w": sigma_w, "sigma_b": sigma_b, **(parameters or {})}
    if recursion.knows_depth:
        given[L.name] = float(max(depth - 1, 1))  # blocks after the input layer
    lowered = lower(recursion, span)
    arrays = _of_parameters(recursion, lowered.parameters, given)
    inputs = _of_inputs(recursion, input_norm, correlation, start or {})
    layer_1 = {n: a[..., 0] if layerwise and a.ndim else a for n, a in arrays.items()} | inputs
    given_start = _of_start(recursion, start or {}, layer_1)
    shape = _shape_of(arrays, inputs | given_start, depth, layerwise)
    points = math.prod(shape)
    _refuse_size(points, depth, len(recursion.state), len(arrays), layerwise, every_layer)
    # one column where a parameter is the same in every layer, else one per layer; rows are points
    length = depth if layerwise else 1
    sigma = {
        n: np.broadcast_to(a if layerwise else a[..., None], (*shape, length)).reshape(points, length)
        for n, a in arrays.items()
    }
    first = {n: s[:, 0] for n, s in sigma.items()}
    spread = {n: np.broadcast_to(v, shape).reshape(points) for n, v in (inputs | given_start).items()}
    begin = _start(recursion, first, spread, points)
    used = np.zeros((max(1, len(lowered.parameters)), points, 1 if not layerwise else max(1, depth - 1)))
    for i, n in enumerate(lowered.parameters):
        # layer l + 1 is made with the σ of layer l + 1: index 0 of the array belongs to the input layer
        if depth > 1:
            used[i] = sigma[n][:, 1:] if layerwise else sigma[n]
    out, diverged = lowered.run(begin, used, int(depth), not layerwise, every_layer)
    if diverged.any() and math.isfinite(lowered.limit):
        raise MeanFieldError(
            f"Propagation to layer {depth} is not available: at layer {int(diverged[diverged > 0].min())} an average "
            f"is needed beyond K = {lowered.limit:.3g}, where this activation oscillates too fast for the float64 "
            "quadrature; use fewer layers or a smaller sigma_w, sigma_b or Q0."
        )
    names = [v.key for v in recursion.state]
    steady = not layerwise and not recursion.knows_layer
    beside = units(lowered, begin, used, int(depth), steady, out, diverged, every_layer, shape)
    if beside is not None:
        _flushed(out, beside.below.ravel(), every_layer, recursion)
    layers = np.arange(1, depth + 1) if every_layer else np.array([depth])
    values = {n: out[:, :, i].reshape(*shape, len(layers)) for i, n in enumerate(names)}
    known = {**arrays, **inputs, **given_start}
    return Run(layers, values, diverged.reshape(shape), lowered, known, layerwise, units=beside)


def _of_parameters(recursion: Recursion, names: tuple[str, ...], given: dict[str, Any]) -> dict[str, np.ndarray]:
    """σ's and the parameters that a lowered recursion asks for, as arrays within their domains."""
    missing = [n for n in names if n not in given]
    if missing:
        name = KEYWORDS.get(missing[0], missing[0])
        raise MeanFieldError(f"{name} has no value; give it as a keyword ({name}=...).")
    domains = recursion.domains
    return {
        n: checked(KEYWORDS.get(n, n), given[n], domains.get(n, _ANYWHERE))
        for n in dict.fromkeys(("sigma_w", "sigma_b", *names))
    }


def _of_inputs(recursion: Recursion, input_norm: Any, correlation: Any, start: dict[str, Any]) -> dict[str, np.ndarray]:
    """Q0, and c0 where layer 1 is made of it."""
    inputs = {"Q0": checked("input_norm", input_norm, Domain(sp.S.Zero))}
    if not any(v.initial.has(c0) for v in recursion.state) or set(start) & set(NAMES):
        return inputs
    if correlation is None and {"K_aa", "K_bb"} & set(start):
        raise MeanFieldError(
            f"Two inputs were started with {' and '.join(start)}, but nothing says how they are correlated; "
            "give K_ab, c or distance in start as well, or correlation=."
        )
    c = checked("correlation", 1.0 if correlation is None else correlation)
    if (np.abs(c) > 1).any():
        raise MeanFieldError(
            f"A correlation must lie between -1 and 1, but {float(c.ravel()[np.abs(c).argmax()])} was given."
        )
    return inputs | {"c0": c}


def _of_start(recursion: Recursion, start: dict[str, Any], layer_1: dict[str, Any]) -> dict[str, np.ndarray]:
    """The values at layer 1 that a start says, or implies, of state variables, by names that no parameter has (K^1)."""
    said = {"c", "distance", *({"K_ab"} - {*recursion.names})} if "K_bb" in recursion.names else {*BETWEEN}
    of_norms = "K_aa" in recursion.names and bool(said & set(start))
    if start and (recursion.names[0] == "K" or "norm_angle" in recursion.names or of_norms):
        whole_start = pair_start if recursion.names[0] == "K" else two_norms_start
        start = whole_start(start, lambda: first_value(recursion.state[0].initial, layer_1))
        implied = ("K_ab", "distance", *(() if recursion.names[0] == "K" else ("K_aa", "K_bb", "norm_angle")))
        start = {n: v for n, v in start.items() if n in recursion.names or n not in implied}
    start = _with_tangents(recursion, start, layer_1)
    for n in start:
        recursion.index(n)  # raises for what is no state variable
    return {f"{n}^1": checked(f"The start of {n}", v) for n, v in start.items()}


def _shape_of(
    arrays: dict[str, np.ndarray], others: dict[str, np.ndarray], depth: int, layerwise: bool
) -> tuple[int, ...]:
    """The common shape of all points; the last axis of `arrays` is one of layers where layerwise."""
    for n, a in arrays.items() if layerwise else ():
        if a.ndim and a.shape[-1] not in (1, depth):
            raise MeanFieldError(
                f"layerwise=True reads the last axis of {n} as layers, but it has {a.shape[-1]} entries for "
                f"depth {depth}."
            )
    sizes = {n: a.shape[:-1] if layerwise else a.shape for n, a in arrays.items()}
    shape = common_shape(sizes | {n: v.shape for n, v in others.items()})
    if math.prod(shape) == 0:
        raise MeanFieldError("An empty array of parameters was given; there is nothing to propagate.")
    return shape


def _flushed(out: np.ndarray, below: np.ndarray, every: bool, recursion: Recursion) -> None:
    """Where K has no digits left, it and what falls with it are 0, not what rounding of the last bits repeats."""
    for p in np.flatnonzero(below):
        for i, v in enumerate(recursion.state):
            if not v.encoding.relative and degree(v.name):
                part = out[p, below[p] - 1 if every else 0 :, i]
                part[np.abs(part) < SMALLEST] = 0.0


def _refuse_size(points: int, depth: int, variables: int, parameters: int, layerwise: bool, every_layer: bool) -> None:
    """Refuse a run whose arrays, or whose number of steps, are beyond the limits."""
    layers = depth if every_layer else 1
    kept = points * (layers * variables * 2 + parameters * (2 * depth if layerwise else 2) + variables + 2) + layers
    require_memory(
        8.0 * kept,
        f"{points} points × {layers} layers × {variables} quantities",
        "ask for " + ("the last layer only (every_layer=False) or for " if every_layer else "") + "fewer points",
    )
    require_steps(points * depth, "This run")


_ANYWHERE = Domain()


def common_shape(sizes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The shape that arrays of these names and shapes broadcast to; refused with what makes a grid of them."""
    try:
        return np.broadcast_shapes(*sizes.values())
    except ValueError:
        given = {n: s for n, s in sizes.items() if s}
        first, shown_shapes = next(iter(given)), ", ".join(f"{n} {s}" for n, s in given.items())
        raise MeanFieldError(
            f"The shapes {shown_shapes} do not broadcast with each other; for a grid give one a further axis, as in "
            f"{first}={first}[:, None]."
        ) from None


def checked(name: str, value, domain: Domain = _ANYWHERE) -> np.ndarray:
    """The value as an array of finite doubles in its domain."""
    refuse_not_real(value, name)
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # the last of a tensor that requires grad
        raise MeanFieldError(f"{name} must be a number or an array of numbers, but {shown(value)} was given.") from None
    if not np.isfinite(array).all():
        raise MeanFieldError(f"{name} must be finite, but {array[~np.isfinite(array)].ravel()[0]} was given.")
    for end, sign, beyond in ((domain.lower, "≥", np.min), (domain.upper, "≤", np.max)):
        if end is not None and array.size and (float(beyond(array)) - float(end)) * (1 if sign == "≥" else -1) < 0:
            raise MeanFieldError(f"{name} must be {sign} {end}, but {float(beyond(array))} was given.")
    return array


@lru_cache(maxsize=256)
def _function(formula: sp.Expr, symbols: tuple[sp.Symbol, ...]):
    """A start or a readout as a NumPy function."""
    return on_arrays(symbols, formula)


def first_value(formula: sp.Expr, values: dict[str, Any]) -> Any:
    """A value at layer 1, from those of its symbols by name."""
    symbols = tuple(sorted(formula.free_symbols, key=lambda s: s.name))
    with np.errstate(over="ignore"):
        return _function(formula, symbols)(*[values[s.name] for s in symbols])


def affine(formula: sp.Expr, values: dict[str, Any]) -> tuple[Any, Any]:
    """(a, b) of a value at layer 1 that is a·Q0 + b, by itself: of the difference of two values a large b leaves a few
    digits."""
    return first_value(formula.diff(Q0), values), first_value(formula.subs(Q0, 0), values)


def _with_tangents(recursion: Recursion, start: dict[str, Any], layer_1: dict[str, Any]) -> dict[str, Any]:
    """Where covariances at layer 1 were given, Theta there is that of inputs that have them: σ_w² q + σ_b² is K of
    q = Q0, and K_ab of their product, so that λ_w q + λ_b is Theta of either."""
    if not {"K", "K_ab"} & start.keys():
        return start
    initial = {v.name: v.initial.subs(c0, 1) for v in recursion.state}
    K1 = recursion.state[0].initial
    for name, covariance in (("Theta", "K"), ("Theta_ab", "K_ab")):
        if name not in initial or name in start or covariance not in start:
            continue
        value = start[covariance]
        if initial[name] != K1:
            (scale, shift), (weights, bias) = (affine(e, layer_1) for e in (K1, initial[name]))
            if np.any(np.equal(scale, 0)):
                raise MeanFieldError(
                    f"{name} at layer 1 is not available: with sigma_w = 0 there, {covariance} does not know the "
                    f"inputs that weights are trained by; give sigma_w > 0, or {name} in start."
                )
            value = weights * ((np.asarray(value, float) - shift) / scale) + bias
        start = start | {name: value}
    return start


def _start(recursion: Recursion, sigma: dict, inputs: dict, points: int) -> np.ndarray:
    start = np.empty((points, len(recursion.state)))
    everything = sigma | inputs
    for i, v in enumerate(recursion.state):
        if f"{v.name}^1" in everything:
            value = everything[f"{v.name}^1"]
        else:
            value = np.broadcast_to(first_value(v.initial, everything), points)
        if v.symbol.is_nonnegative and (np.asarray(value) < 0).any():
            raise MeanFieldError(f"The start of {v.name} must be ≥ 0, but {float(np.min(value))} was given.")
        start[:, i] = v.encoding.held(value)
        if not v.encoding.allows(start[:, i]).all():
            raise MeanFieldError(
                f"{v.name} overflows already at layer 1: the variances or the input norm are too large for a double."
            )
    column = {v.name: start[:, i] for i, v in enumerate(recursion.state)}
    if {"K_aa", "K_bb", "K_ab"} <= set(column):
        most = np.sqrt(column["K_aa"]) * np.sqrt(column["K_bb"])
        bad = np.abs(column["K_ab"]) > most * (1 + 1e-12)
        if bad.any():
            raise MeanFieldError(
                f"K_ab = {column['K_ab'][bad][0]:.6g} at layer 1 is no covariance of inputs with sqrt(K_aa*K_bb) = "
                f"{most[bad][0]:.6g}; give K_aa, K_bb and K_ab together in start."
            )
    return start
