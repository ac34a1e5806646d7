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

from meanfield.base.answers.results import MeanFieldError
from meanfield.numeric.lowering.modules import cache
from meanfield.numeric.lowering.modules.generated_modules import VERSION, Module
from meanfield.numeric.lowering.modules.module_functions import EVERY_K
from meanfield.numeric.lowering.text import depth_loops
from meanfield.symbolic.averages.node import Integrand
from meanfield.symbolic.recursion import Recursion


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
        """The module in Numba's hands: its functions one by one."""
        return self.generated.compiled

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        return tuple(p.name for p in self.recursion.parameters if p.name not in ("Q0", "c0"))

    @cached_property
    def relative(self) -> tuple[int, ...]:
        """The variables that are held as logarithms."""
        return tuple(i for i, v in enumerate(self.recursion.state) if v.encoding.relative)

    def run(self, start: np.ndarray, sigma: np.ndarray, depth: int, homogeneous: bool, every_layer: bool):
        """(values, diverged): values (points, depth or 1, variables); diverged (points,) the first layer with infinite
        K, 0 if none.

        start (points, variables): the state at layer 1, as it is held (`StateVar.key`: log J); sigma (parameters,
        points, 1 or depth - 1): of every later layer; homogeneous: σ's are the same in all of them.
        """
        repeats = homogeneous and not self.recursion.knows_layer
        return self.follow(start, sigma[..., :1] if homogeneous else sigma, 1, depth, repeats, every_layer)

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
        return self.follow(state, sigma[..., None], layer, layer + 1, False, False)[0][:, 0]

    def follow(self, start, sigma, first: int, last: int, repeats: bool, every: bool):
        """The same from layer `first` on, to layer `last`; sigma: of the layers that are made, or of all of them;
        repeats: whether a layer that changes nothing is followed by such layers."""
        return self.generated.follow(start, sigma, self.relative, first, last, repeats, every)


@lru_cache(maxsize=128)
def lower(recursion: Recursion, span: tuple[float, float] = EVERY_K) -> Lowered:
    """Generate (or find) the compiled form of a recursion whose only symbols are its state, σ's, μ, Q0 and c0.

    span: K at which averages are wanted, where a caller knows that no other is met; their tables are short then.

    Raises: MeanFieldError naming what cannot be lowered (a discontinuous φ's J, symbolic activation parameters, other
    nodes).
    """
    for name, e in ((n, e) for step in recursion.steps for n, e in zip(recursion.names, step.next)):
        if sp.sympify(e).has(sp.oo, sp.zoo, sp.nan):
            raise MeanFieldError(
                f"{name} is not available: it is infinite at every layer (φ jumps or rises like √z). Ask for K only."
            )
    for step in recursion.steps:
        if names := {s.name for s in step.free_symbols} & {"Q0", "c0"}:
            raise MeanFieldError(f"{min(names)} belongs to the start, but a step of this recursion holds it.")
    name = cache.key(described(recursion) + ("" if span == EVERY_K else f"|{span}"))
    stored = cache.read(name)
    if stored is None:
        from meanfield.numeric.lowering.generation import generated  # what derives functions and tables

        text, arrays = generated(recursion, span)
        cache.write(name, text, arrays)
        stored = (text, arrays)
    arrays = stored[1]
    return Lowered(recursion, Module.of(name, *stored), tuple(arrays["errors"]), float(arrays["limit"]))


def tree(e: object) -> str:
    """An expression as text, sums as they stand: by default SymPy sorts their terms, for which it wants the digits of
    averages that hold no symbol."""
    return sp.srepr(e, order="none")


def described(recursion: Recursion) -> str:
    """Text that two recursions share only if their compiled forms are the same."""
    steps = [f"{tree(step.definitions)}|{tree(step.next)}" for step in recursion.steps]
    bodies = (a.expr for n in depth_loops.placeholders(recursion) for a in n.args if isinstance(a, Integrand))
    nodes = sorted(map(tree, bodies))
    encodings = [str(v.encoding) for v in recursion.state]
    closer = tree(recursion.closer)
    held = [p.name for p in recursion.parameters]  # their places in the code, those of the start among them
    return "|".join([VERSION, *steps, f"{recursion.names}{encodings}{tree(recursion.layer)}{closer}{held}", *nodes])
