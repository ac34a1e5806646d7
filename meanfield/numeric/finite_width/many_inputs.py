"""Correlators of several inputs, layer by layer: arrays over all tuples of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import sympy as sp
from flint import arb

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import position_of, shown, whole
from meanfield.base.budgets import require_memory
from meanfield.base.quantities import QUANTITIES, differentials
from meanfield.functions import balls
from meanfield.functions.activations import Activation
from meanfield.numeric.quadrature.covariances.layer_averages import LayerAverages, averages_of
from meanfield.numeric.quadrature.covariances.small_variance import BITS, small
from meanfield.symbolic.finite_width.correlator_maps import INDEX_OF, MEANS
from meanfield.symbolic.finite_width.ensembles import Ensemble, Orthogonal
from meanfield.symbolic.finite_width.first_layer import first_value
from meanfield.symbolic.finite_width.index_maps import (
    CONSTANTS,
    Average2,
    Average4,
    CorrelatorEntry,
    IndexMap,
    index_maps,
    refuse,
)

DEEPEST = 10**5
LETTERS = "abcd"
SAME = 1e-13  # of K: inputs that differ by less are one


@dataclass(frozen=True, eq=False)
class Correlators(Numbers):
    """Means and correlators of order 1/n of P inputs, layer by layer, as attributes and in `values`.

    l: layer indices. values: name → array (layers, P, P) for K, Theta, G1, Theta1, (layers, P, P, P, P) for V, A, B, D,
    F, P, …, U, indexed as the fields are in `mf.measure`: z_a z_b z_c z_d, H_ab H_cd, z_a z_b H_cd, dH_abc z_d,
    ddI_abcd, ddII_abcd. error: the largest error of an average in one layer, of the root mean squares of its factors
    multiplied (of the averages, not of what is iterated).
    """

    l: np.ndarray
    values: dict[str, np.ndarray]
    error: float

    def __repr__(self) -> str:
        return one_line(
            "Correlators",
            f"{', '.join(self.values)}; {self.inputs} input{'s' if self.inputs > 1 else ''}; layers {self.l[0]} to "
            f"{self.l[-1]}",
        )

    def data(self) -> dict[str, Any]:
        """Layers, arrays and the error of an average as plain values."""
        return {n: plain(getattr(self, n)) for n in ("l", "values", "error")}

    def arrays(self) -> Arrays:
        """Every array over the layer and the inputs a, b, c, d."""
        axes = ("layer", *LETTERS)
        columns = {n: (axes[: v.ndim], v) for n, v in self.values.items()}
        return Arrays({"layer": (("layer",), self.l)}, columns, {"error": self.error})

    def __str__(self) -> str:
        lines = [repr(self)[12:-1], f"at layer {self.l[-1]}, of input 1 with itself:"]
        return "\n".join([*lines, *(f"  {n} = {v[-1].flat[0]:.10g}" for n, v in self.values.items())])

    @property
    def inputs(self) -> int:
        """How many inputs there are."""
        return self.values["K"].shape[-1]

    def __getattr__(self, name: str) -> np.ndarray:
        values = self.__dict__.get("values", {})
        if name in values:
            return values[name]
        raise self._absent(name, values)

    def at(self, layer: int) -> dict[str, np.ndarray]:
        """All quantities at one layer index l (not array position)."""
        where = position_of(layer, self.l)
        return {name: value[where] for name, value in self.values.items()}

    def normalized(self, name: str) -> np.ndarray:
        """A correlator divided by the means it is measured in, with indices as itself.

        V by the mean of the different ones among K_ab K_cd, K_ac K_bd, K_ad K_bc, which are one, two or three products
        by which of a, b, c, d are equal; A and B by the mean of Θ_ab Θ_cd, Θ_ac Θ_bd, Θ_ad Θ_bc; D and F by that of the
        six K_ab Θ_cd, …; G1 by K, Theta1 by Θ. Of one input also P, Q over Θ² and R, S, T, U over Θ³/K.

        Accuracy: that of the arrays. Raises: MeanFieldError for other names, and P … U of several inputs, for which no
        normalization is published. Source: [orthogonal_weights] (A.1)-(A.5), (2.9), (5.9)-(5.16).
        """
        have = [q for q in self.values if q in QUANTITIES and QUANTITIES[q].over]
        if name not in have:
            raise MeanFieldError(
                f"The normalized form of {shown(name)} is not available: these correlators have "
                + (f"those of {', '.join(have)}." if have else "none: ask for quantities of order 1/n, such as V.")
            )
        higher = differentials((name,)) > 1
        if higher and self.inputs > 1:
            raise MeanFieldError(
                f"The normalized form of {name} is not available: of several inputs only V, A, B, D and F have one "
                "that "
                "is published, so divide by products of Theta and K of your own."
            )
        with np.errstate(all="ignore"):
            if not higher and not QUANTITIES[name].corrects:
                return self.values[name] / self._scale(name)
            found = self.values[name]
            for mean, power in QUANTITIES[name].over:
                by = self.values[mean] if found.ndim == 3 else self.values[mean][..., None, None]
                found = found / by**power
            return found

    def _scale(self, name: str) -> np.ndarray:
        first = self.values["Theta" if name in "AB" else "K"]
        second = self.values["K" if name == "V" else "Theta"]
        pairs = [("ab", "cd"), ("ac", "bd"), ("ad", "bc")]
        if name in "DF":
            pairs += [(two, one) for one, two in pairs]
        terms = [np.einsum(f"l{one},l{two}->labcd", first, second) for one, two in pairs]
        if name != "V":
            return sum(terms) / len(terms)
        inputs, weight = self.inputs, np.zeros((3, *(self.inputs,) * 4))
        for at in product(range(inputs), repeat=4):
            kinds = [_product_of(at, one, two) for one, two in pairs]
            for i, kind in enumerate(kinds):
                weight[(i, *at)] = (kind not in kinds[:i]) / len(set(kinds))
        return sum(w * term for w, term in zip(weight, terms))

    def at_width(self, width: int) -> dict[str, np.ndarray]:
        """The means of networks of finite width: K + G1/n, Theta + Theta1/n, those whose corrections are held; what is
        left out is of order 1/n².

        width: n of the hidden layers, ≥ 2. Returns arrays by name. Raises: MeanFieldError where no correction was asked
        for. Source: [orthogonal_weights] (4.25).
        """
        n = whole(width, "width", 2, 1 << 62)
        found = {
            QUANTITIES[name].corrects: self.values[QUANTITIES[name].corrects] + value / n
            for name, value in self.values.items()
            if name in QUANTITIES and QUANTITIES[name].corrects
        }
        if not found:
            raise MeanFieldError("Means at finite width are not available: ask for G1 or Theta1, too.")
        return found


def _product_of(at: Sequence[int], one: str, two: str) -> tuple:
    """Which product K_ab K_cd is, whichever way it is written."""
    pairs = [tuple(sorted(at[LETTERS.index(x)] for x in some)) for some in (one, two)]
    return tuple(sorted(pairs))


def iterate(
    phi: Activation,
    weights: Ensemble,
    first_weights: Ensemble,
    names: Sequence[str],
    gram: np.ndarray,
    fourth: np.ndarray | None,
    layers: Mapping[str, np.ndarray],
    ratio: sp.Expr,
) -> Correlators:
    """Layers 1 … depth. gram: X_ab = x_a·x_b/N_0; fourth: Σ_j x_ja x_jb x_jc x_jd/N_0, or None; layers: C_W, C_b,
    lambda_w, lambda_b at every layer; ratio: N_0/n. See `Theory.correlators`."""
    maps = index_maps(names, weights)
    refuse(phi, maps, names)
    depth = len(layers["C_W"])
    chosen, back = _different(gram, fourth, layers)
    size = len(gram)
    require_memory(
        8.0 * depth * sum(size ** (2 if name in MEANS else 4) for name in maps) * 2,
        f"{depth} layers × {len(maps)} quantities of {size} inputs",
        "ask for fewer layers, quantities or inputs",
    )
    few = gram[np.ix_(chosen, chosen)], None if fourth is None else fourth[np.ix_(*[chosen] * 4)]
    with balls.precision(BITS):
        four = None if few[1] is None else _in_balls(few[1])
        balled = _first(maps, first_weights, (_in_balls(few[0]), four), {k: v[0] for k, v in layers.items()}, ratio)
    state = {name: value.astype(float) for name, value in balled.items()}
    steps = {name: _steps(one) for name, one in maps.items()}
    wanted = averages_of(
        phi,
        [one.key for m in maps.values() for one in m.averages if isinstance(one, Average2)],
        [one.key for m in maps.values() for one in m.averages if isinstance(one, Average4)],
    )
    found, error = [state], 0.0  # in balls, too, while K is small: sources are what is left of terms that cancel
    for layer in range(1, depth):
        numbers = {s: float(layers[s.name][layer]) for s in CONSTANTS}
        with balls.precision(BITS):
            near = small(wanted, phi, balled["K"]) if isinstance(weights, Orthogonal) else None
            if near is not None:
                error = max(error, near.error)
                balled = {name: _value(steps[name], maps[name], balled, near, numbers) for name in maps}
                found.append({name: value.astype(float) for name, value in balled.items()})
                continue
        averages = wanted.at(found[-1]["K"])
        error = max(error, averages.error)
        with np.errstate(invalid="ignore"):
            new = {name: _value(steps[name], maps[name], found[-1], averages, numbers) for name in maps}
        _refuse_infinite(new, found[-1]["K"], chosen, phi, layer + 1)
        found.append(new)
        balled = {name: _in_balls(value) for name, value in new.items()}
    values = {}
    for name in names:
        stacked = np.stack([one[name] for one in found])
        values[name] = _spread(stacked, back) if name in MEANS else _in_fields(name, _spread(stacked, back))
    values = {"K": _spread(np.stack([one["K"] for one in found]), back)} | values
    return Correlators(np.arange(1, depth + 1), values, error)


def _different(
    gram: np.ndarray, fourth: np.ndarray | None, layers: Mapping[str, np.ndarray]
) -> tuple[list[int], list[int]]:
    """(the inputs that differ, for each input its place among them), by the rows of the Gram matrix."""
    K = layers["C_W"][0] * gram + layers["C_b"][0]
    chosen: list[int] = []
    back: list[int] = []
    for a in range(len(K)):
        near = [
            i
            for i, b in enumerate(chosen)
            if np.abs(K[a] - K[b]).max() <= SAME * K[a, a]
            and np.abs(gram[a] - gram[b]).max() <= SAME * gram[a, a]
            and (fourth is None or np.abs(fourth[a] - fourth[b]).max() <= SAME * np.abs(fourth).max())
        ]
        if not near:
            chosen.append(a)
        back.append(near[0] if near else len(chosen) - 1)
    return chosen, back


def _spread(values: np.ndarray, back: Sequence[int]) -> np.ndarray:
    """Arrays over different inputs as arrays over all of them."""
    for axis in range(1, values.ndim):
        values = np.take(values, back, axis=axis)
    return values


def _in_fields(name: str, own: np.ndarray) -> np.ndarray:
    """A correlator with the order of its own indices as one with that of the fields it is an average of."""
    letters = "".join(LETTERS[position] for position in INDEX_OF[name][2])
    return np.ascontiguousarray(np.einsum(f"l{letters}->l{LETTERS}", own))


def _first(
    maps: Mapping[str, IndexMap],
    weights: Ensemble,
    grams: tuple[np.ndarray, np.ndarray | None],
    numbers: Mapping[str, float],
    ratio: sp.Expr,
) -> dict[str, np.ndarray]:
    """The state at layer 1 in balls, from the law of the first layer."""
    gram, fourth = grams
    state: dict[str, np.ndarray] = {}
    size = len(gram)
    for name, one in maps.items():
        e = first_value(name, weights, ratio)
        total = np.zeros((size,) * len(one.labels), dtype=object)
        for term in sp.Add.make_args(e):
            constant, moments = term.as_independent(*[s for s in term.free_symbols if s.name.startswith("X_")])
            number = _exactly(constant, {s: numbers[s.name] for s in CONSTANTS})
            operands: list[Any] = []
            letters: list[str] = []
            for factor in sp.Mul.make_args(moments):
                base, power = factor.as_base_exp()
                if base.is_Symbol:
                    inputs = base.name.removeprefix("X_")
                    operands += [gram if len(inputs) == 2 else fourth] * int(power)
                    letters += ["".join(LETTERS[int(a) - 1] for a in inputs)] * int(power)
            total = total + number * _einsum(letters, operands, len(one.labels), size)
        state[name] = total
    return state


Step = tuple[Callable[..., Any], list[str], list[tuple[str, Any]]]


def _steps(one: IndexMap) -> list[Step]:
    """Each term as its coefficient, the letters of its factors, and where these are found."""
    steps = []
    for term in one.terms:
        letters = ["".join(LETTERS[a - 1] for a in f.labels) for f in term.factors]
        where: list[tuple[str, Any]] = []
        for f in term.factors:
            if isinstance(f, CorrelatorEntry):
                where.append(("state", f.name))
            else:
                where.append(("two" if isinstance(f, Average2) else "four", f.key))
        steps.append((sp.lambdify(CONSTANTS, term.coefficient, modules="math"), letters, where))
    return steps


def _value(
    steps: list[Step],
    one: IndexMap,
    state: Mapping[str, np.ndarray],
    averages: LayerAverages,
    numbers: Mapping[sp.Symbol, float],
) -> np.ndarray:
    places: dict[str, Mapping[Any, np.ndarray]] = {"state": state, "two": averages.two, "four": averages.four}
    size, constants = len(state["K"]), [numbers[s] for s in CONSTANTS]
    exact = state["K"].dtype == object  # terms may cancel: their coefficients, too
    total = np.zeros((size,) * len(one.labels), dtype=state["K"].dtype)
    for i, (coefficient, letters, where) in enumerate(steps):
        number = coefficient(*constants)
        if exact:
            number = _exactly(one.terms[i].coefficient, numbers)
        if number != 0:
            operands = [places[kind][key] for kind, key in where]
            total += number * _einsum(letters, operands, len(one.labels), size)
    return total


def _in_balls(values: np.ndarray) -> np.ndarray:
    """Doubles as the numbers they are."""
    return np.vectorize(arb, otypes=[object])(values)


def _exactly(coefficient: sp.Expr, numbers: Mapping[sp.Symbol, float]) -> arb:
    return balls.constant(coefficient.xreplace({s: sp.Rational(v) for s, v in numbers.items()}))


def _einsum(letters: Sequence[str], operands: Sequence[np.ndarray], axes: int, size: int) -> np.ndarray:
    """A product of arrays with input labels; labels that none has are broadcast over."""
    out = LETTERS[:axes]
    missing = [x for x in out if x not in "".join(letters)]
    return np.einsum(
        ",".join([*letters, *missing]) + f"->{out}", *operands, *[np.ones(size)] * len(missing), optimize=False
    )


def _refuse_infinite(
    state: Mapping[str, np.ndarray], before: np.ndarray, chosen: Sequence[int], phi: Activation, layer: int
) -> None:
    """Refuse numbers that are not finite; before: K of the layer before, of the `chosen` inputs."""
    for name, values in state.items():
        if np.isfinite(values).all():
            continue
        if np.isfinite(state["K"]).all() and phi.pieces.breaks and len(before) > 1:
            cosines = np.abs(before) / np.sqrt(np.outer(np.diag(before), np.diag(before))) - 2 * np.eye(len(before))
            a, b = sorted(np.unravel_index(np.argmax(cosines), cosines.shape))
            raise MeanFieldError(
                f"{name} is not available: the inputs {chosen[int(a)]} and {chosen[int(b)]} are collinear at layer "
                f"{layer - 1}, where the breaks of {phi.name} at both meet and an average is infinite; leave one out."
            )
        raise MeanFieldError(f"{name} overflows at layer {layer}; take fewer layers or a smaller sigma_w.")
