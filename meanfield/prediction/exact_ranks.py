"""The rank that a kernel of some inputs has in exact arithmetic, as far as the network's records say it.

Doubles do not tell an eigenvalue of 0 from one of 1e-20, which inputs close to each other have through any smooth φ,
and which is trained in the end. Three things make a kernel singular for certain: equal inputs; without biases, inputs
on one ray through 0 where every φ is homogeneous or stands behind a norm, and opposite ones where every φ is odd or
even; and outputs that are polynomials of the inputs, of which there are few. Of records not named here the first of
these alone is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.symbols import Z, z
from meanfield.functions.activations import Activation, activation
from meanfield.networks.folds import fold
from meanfield.networks.records import OWN, Block, Dense, Network, Nonlinearity, Residual, Scale, Schedule, Sequential
from meanfield.symbolic.recursions.block_recursions import untrained

ALIKE = 1e-14  # distance of directions, on the unit sphere, that are one but for rounding

Change = Callable[[Any], Any]  # of what is known of a signal by a block; None: nothing is known of it any more


@dataclass(frozen=True)
class Property:
    """Something that is known of the input, and how blocks change it: a φ, what is added to a neuron without regard to
    the input (biases), a sum of two signals, a norm over neurons; constant: what is known where nothing of the input is
    left, by whether there are biases. A change gives None for what is not known."""

    at: Any
    phi: Callable[[Nonlinearity], Change | None]
    shift: Change
    sum: Callable[[Any, Any], Any]
    constant: Callable[[bool], Any]
    norm: Callable[[Block], Change | None] = lambda _: None


def largest_rank(
    block: Block, first: Dense, X: np.ndarray, depth: int, values: Mapping[str, Any], name: str = "Theta"
) -> int:
    """The rank of the kernel of inputs X, (N, N₀): at most this one, and this one for inputs in no special position.

    block, first: the network's; values: σ's and rates by name, as verbs are given them; name: of the kernel, "Theta" or
    "K", which knows nothing of what is trained.

    >>> from meanfield.networks.architectures import mlp
    >>> rows = np.array([[1.0, 2.0], [2.0, 4.0], [1.0, 0.0], [0.0, 3.0]])
    >>> [largest_rank(mlp(phi), Dense(), rows, 3, {"sigma_b": 0}) for phi in ("tanh", "relu", "linear")]
    [4, 3, 2]
    """
    if name == "K":
        block, values = untrained(block), {k: v for k, v in values.items() if not k.startswith("lambda_")}
    elif depth == 1:  # of one layer Theta knows what is trained alone
        if "lambda_w" in values:
            first, values = replace(first, sigma_w=OWN[0]), {**values, "sigma_w": values["lambda_w"]}
        if "lambda_b" in values:
            first, values = replace(first, sigma_b=OWN[1]), {**values, "sigma_b": values["lambda_b"]}
    network = Network(block, first) if depth > 1 else first

    def behind(known: Property) -> Any:
        return _repeated(network, depth, lambda one, inner: _change(one, inner, values, known), known.at)

    degree, parity, vanishes = behind(DEGREE), behind(PARITY), behind(ZERO)
    terms = Property(
        frozenset({1}),
        lambda one: _of_polynomial(one, len(X)),
        lambda known: known | {0},
        frozenset.union,
        lambda biased: frozenset({0} if biased else ()),
    )
    degrees = behind(terms)
    rows = X if vanishes is None else X[(X != 0).any(axis=1)]  # an input of 0 has outputs of 0
    count = _classes(rows, degree is not None, parity is not None)
    return count if degrees is None else min(count, _polynomials(rows, degrees, count))


def _repeated(network: Block, depth: int, of: Callable, at: Any) -> Any:
    if not isinstance(network, Network):
        found = fold(network, of)
        return None if found is None else found(at)
    first, block = fold(network.first, of), fold(network.block, of)
    for change in (first, *[block] * (depth - 1)):
        at = None if at is None or change is None else change(at)
    return at


def _change(
    one: Block, inner: tuple[Change | None, ...], values: Mapping[str, Any], known: Property
) -> Change | None:
    """What a record does to what is known of a signal; inner: what the records in it do."""
    if any(change is None for change in inner):
        return None
    if isinstance(one, Nonlinearity):
        return known.phi(one)
    if isinstance(one, Dense) and not one.mixes:
        biased = _has_any(one.sigma_b, "b", values)
        if not _has_any(one.sigma_w, "w", values):
            return lambda _: known.constant(biased)
        return known.shift if biased else _kept
    if isinstance(one, Scale):
        return _kept
    if isinstance(one, Sequential):
        return lambda at: _through(inner, at)
    if isinstance(one, Residual):
        *skip, branch = inner

        def summed(at: Any) -> Any:
            kept, added = _through(skip, at), _through([branch], at)
            return None if kept is None or added is None else known.sum(kept, added)

        return summed
    return known.norm(one) if one.normalizes == "neurons" else None


def _through(changes: Any, known: Any) -> Any:
    for change in changes:
        known = None if known is None else change(known)
    return known


def _has_any(own: Any, which: str, values: Mapping[str, Any]) -> bool:
    """Whether weights ("w") or biases ("b") of a Dense are drawn, or trained, or may be."""
    own = own.value if isinstance(own, Schedule) else own
    drawn = values.get(f"sigma_{which}") if own in OWN else own
    return not all(_is_zero(v) for v in (drawn, values.get(f"lambda_{which}", 0)))


def _is_zero(value: Any) -> bool:
    try:
        return not np.any(np.asarray(value, dtype=float))
    except (TypeError, ValueError):
        return False  # a name, or a formula in the layer


def _kept(known: Any) -> Any:
    return known


def _same(one: Any, other: Any) -> Any:
    return one if one == other else None


def _of_homogeneous(one: Nonlinearity) -> Change | None:
    degree = activation(one.activation).homogeneity
    positive = degree is not None and degree > 0
    return lambda known: degree * known if positive else 0 if known == 0 else None


def _of_parity(one: Nonlinearity) -> Change:
    parity = activation(one.activation).parity
    return lambda known: 1 if known == 1 or parity == 1 else known if parity == -1 else None


def _of_zero(one: Nonlinearity) -> Change | None:
    return _kept if activation(one.activation).expression.subs(z, 0) == 0 else None


def _only(value: Any) -> Change:
    """What nothing changes is left where it is `value`."""
    return lambda known: value if known == value else None


#: k of f(cx) = c^k f(x), c > 0: behind a norm 0, which biases and every φ leave
DEGREE = Property(
    sp.Integer(1), _of_homogeneous, _only(0), _same, lambda _: sp.Integer(0), lambda _: lambda known: sp.Integer(0)
)
#: -1 of odd functions of the input, 1 of even ones; a norm keeps it, but for shifts that are trained
PARITY = Property(
    -1, _of_parity, _only(1), _same, lambda _: 1, lambda one: _only(1) if getattr(one, "affine", True) else _kept
)
#: that an input of 0 has an output of 0
ZERO = Property(True, _of_zero, lambda _: None, _same, lambda biased: None if biased else True)


def _of_polynomial(one: Nonlinearity, most: int) -> Change | None:
    powers = _powers(activation(one.activation))
    if powers is None:
        return lambda known: frozenset({0}) if known <= {0} else None

    def sums(known: frozenset[int]) -> frozenset[int] | None:
        """The degrees of powers of what has the degrees `known`; None of more than `most`, which bound nothing."""
        found: set[int] = set()
        power, reached = frozenset({0}), 0
        for p in sorted(powers):
            while reached < p:
                power, reached = frozenset(a + b for a in power for b in known), reached + 1
                if len(power) > most:
                    return None
            found |= power
        return frozenset(found) if len(found) <= most else None

    return sums


def _powers(phi: Activation) -> frozenset[int] | None:
    """The powers of z in a polynomial, None for another φ."""
    (expression, *more) = phi.pieces.exprs
    if more or not expression.is_polynomial(Z[0]):
        return None
    return frozenset(p for (p,) in sp.Poly(expression, Z[0]).as_dict())


def _classes(rows: np.ndarray, rays: bool, signs: bool) -> int:
    """How many of the rows differ; rays: those on one ray are one; signs: opposite ones are."""
    rows = np.unique(rows, axis=0)
    if not len(rows) or not (rays or signs):
        return len(rows)
    if signs:
        leading = rows[np.arange(len(rows)), (rows != 0).argmax(axis=1)]
        rows = rows * np.where(leading < 0, -1.0, 1.0)[:, None]
    if not rays:
        return len(np.unique(rows + 0.0, axis=0))
    from scipy.spatial import KDTree

    rows = rows / np.abs(rows).max(axis=1, initial=np.finfo(float).tiny)[:, None]
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True).clip(np.finfo(float).tiny)
    near = KDTree(rows).query_ball_point(rows, ALIKE)
    return sum(min(those) == i for i, those in enumerate(near))


def _polynomials(rows: np.ndarray, degrees: frozenset[int], most: int) -> int:
    """How many polynomials with terms of these degrees there are on the space that the rows span, at most `most`."""
    if degrees <= {0, 1}:
        columns = [np.ones((len(rows), int(0 in degrees))), rows[:, : rows.shape[1] if 1 in degrees else 0]]
        whole = np.concatenate(columns, axis=1)
        return int(np.linalg.matrix_rank(whole)) if whole.size else 0
    full = set(degrees) == set(range(len(degrees)))  # up to the largest: then the constant is one more coordinate
    space = np.concatenate([rows, np.ones((len(rows), 1))], axis=1) if full else rows
    dimension, total = (int(np.linalg.matrix_rank(space)) if len(rows) else 0) - full, 0
    for d in sorted(degrees):
        total += comb(dimension + d - 1, d) if dimension else int(d == 0)
        if total >= most:
            return most
    return total
