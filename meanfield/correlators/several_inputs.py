"""`Theory.correlators`: what a caller hands over for several inputs, checked, and the numbers that iteration takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import names as names_of
from meanfield.base.arguments import refuse_not_real, scalar, shown, whole
from meanfield.base.quantities import differentials
from meanfield.base.symbols import l
from meanfield.base.words import no_parameter, unknown
from meanfield.correlators.derived import RATES, plain, rates_of
from meanfield.functions.activations import Activation
from meanfield.functions.reading.parser import expression, number
from meanfield.networks.records import OWN, Block, Dense
from meanfield.numeric.finite_width.many_inputs import DEEPEST, Correlators, iterate
from meanfield.numeric.quadrature.evaluation import on_arrays
from meanfield.symbolic.finite_width.correlator_recursions import NEED_CURVATURE, NEED_SLOPE, ORDER
from meanfield.symbolic.finite_width.ensembles import Ensemble, ensemble_of
from meanfield.symbolic.recursions.coordinate_walk import Walk

MOST_INPUTS = 8  # as many as networks are measured at; the averages over four of them are 330
SYMMETRIC = 1e-12  # of the largest entry of a Gram matrix
INDEFINITE = 1e-10  # of its largest entry: an eigenvalue below minus it is negative


def several_inputs(
    block: Block,
    first: Dense,
    inputs: object,
    gram: object,
    depth: object,
    quantities: object,
    deviations: Mapping[str, Any],
    rates: Mapping[str, Any],
    input_ratio: object,
    parameters: Mapping[str, Any],
) -> Correlators:
    """What `Theory.correlators` answers; see there."""
    phi, law = plain(block, first, "The theory of several inputs")
    phi = _at(phi, parameters)
    layers_deep = whole(depth, "depth", 1, DEEPEST)
    names = _names(quantities, phi)
    ensemble = ensemble_of("orthogonal" if law == "mixed" else law)
    started = ensemble_of("gaussian") if law == "mixed" else ensemble
    X, fourth = _moments(inputs, gram, started)
    layers = _layers(deviations, rates, layers_deep, first)
    zero = layers["C_W"][0] * np.diag(X) + layers["C_b"][0] == 0
    if zero.any():
        raise MeanFieldError(
            f"Correlators are not available: K = sigma_w²·|x|²/N_0 + sigma_b² of input {int(np.argmax(zero))} is 0 at "
            "layer 1, where nothing varies; give an input or a bias."
        )
    what = "input_ratio"
    ratio = sp.nsimplify(expression(scalar(input_ratio, what), what), rational=True)
    if not ratio.is_positive:
        raise MeanFieldError(f"{what} = N_0/n must be a number > 0, but {shown(input_ratio)} was given.")
    return iterate(phi, ensemble, started, names, X, fourth, layers, ratio)


def _at(phi: Activation, values: Mapping[str, Any]) -> Activation:
    """The activation with numbers for all its parameters."""
    free = sorted(s.name for s in phi.free_parameters)
    extra = sorted(set(values) - set(free))
    if extra:
        raise no_parameter(extra[0], free)
    missing = [name for name in free if name not in values]
    if missing:
        raise MeanFieldError(f"{missing[0]} has no value; give it as a keyword ({missing[0]}=...).")
    return phi.at({name: number(scalar(v, name), name) for name, v in values.items()})


def _names(quantities: object, phi: Activation) -> tuple[str, ...]:
    if quantities is None:
        gone = (*(NEED_CURVATURE if phi.kinks else ()), *(() if phi.is_continuous else NEED_SLOPE))
        return tuple(x for x in ORDER if x not in gone)
    asked = names_of(quantities, "quantities")
    for name in asked:
        if name not in ORDER:
            raise unknown("quantity of several inputs", name, ORDER)
    held = ["Theta"] if any(differentials((name,)) == 1 for name in asked) else []  # what they are normalized by
    return tuple(dict.fromkeys((*asked, *held)))


def _moments(inputs: object, gram: object, weights: Ensemble) -> tuple[np.ndarray, np.ndarray | None]:
    """(x_a·x_b/N_0, Σ_j x_ja x_jb x_jc x_jd/N_0 where the weights feel it)."""
    if (inputs is None) == (gram is None):
        raise MeanFieldError(
            "Correlators of several inputs are not available: give inputs, an array with a row for each, or gram, the "
            "matrix of x_a·x_b/N_0" + (", but not both." if inputs is not None else ".")
        )
    if inputs is not None:
        x = _matrix(inputs, "inputs")
        _refuse_many(len(x))
        X = np.einsum("ai,bi->ab", x, x) / x.shape[1]
        fourth = None if weights.invariant else np.einsum("ai,bi,ci,di->abcd", x, x, x, x) / x.shape[1]
        _refuse_zero(np.diag(X))
        return X, fourth
    X = _matrix(gram, "gram")
    if X.shape[0] != X.shape[1]:
        raise MeanFieldError(f"gram must be a square matrix x_a·x_b/N_0, but its shape is {X.shape}.")
    _refuse_many(len(X))
    largest = float(np.abs(X).max())
    if np.abs(X - X.T).max() > SYMMETRIC * largest:
        a, b = np.unravel_index(np.argmax(np.abs(X - X.T)), X.shape)
        raise MeanFieldError(
            f"gram must be symmetric, but its entries ({a}, {b}) and ({b}, {a}) are {X[a, b]:g} and {X[b, a]:g}."
        )
    _refuse_zero(np.diag(X))
    lowest = float(np.linalg.eigvalsh((X + X.T) / 2)[0])
    if lowest < -INDEFINITE * largest:
        raise MeanFieldError(
            f"gram must be that of some inputs, but it has the negative eigenvalue {lowest:.3g}; correct its entries."
        )
    X = (X + X.T) / 2
    if weights.invariant:
        return X, None
    pairs = ("ab,cd", "ac,bd", "ad,bc")  # inputs in random directions, as networks draw them
    return X, sum(np.einsum(f"{one}->abcd", X, X) for one in pairs)


def _matrix(value: object, what: str) -> np.ndarray:
    refuse_not_real(value, what)
    try:
        found = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(f"{what} must be a matrix of real numbers, but {shown(value)} was given.") from None
    if found.ndim != 2 or 0 in found.shape:
        raise MeanFieldError(f"{what} must be a matrix, one row for each input, but its shape is {found.shape}.")
    if not np.isfinite(found).all():
        raise MeanFieldError(f"{what} must be finite, but {found[~np.isfinite(found)][0]} was given.")
    if np.abs(found).max() > 1e75:
        raise MeanFieldError(f"{what} must be of a size below 1e75, but {np.abs(found).max():g} was given; rescale.")
    return found


def _refuse_many(count: int) -> None:
    if count > MOST_INPUTS:
        raise MeanFieldError(
            f"Correlators of {count} inputs are not available: averages over all fours of them are done for up to "
            f"{MOST_INPUTS}, so give fewer, for example the tuples of interest one after the other."
        )


def _refuse_zero(norms: np.ndarray) -> None:
    if not (norms > 0).all():
        where = int(np.argmin(norms))
        raise MeanFieldError(f"Input {where} has |x|²/N_0 = {norms[where]:g}; every input must have a length > 0.")


def _layers(deviations: Mapping[str, Any], rates: Mapping[str, Any], depth: int, first: Dense) -> dict[str, np.ndarray]:
    """C_W, C_b, lambda_w, lambda_b at layers 1 … depth; numbers, or one for each layer."""
    found = {}
    for name, square in (("sigma_w", "C_W"), ("sigma_b", "C_b")):
        found[square] = _per_layer(name, deviations[name], depth) ** 2
    if (first.sigma_w, first.sigma_b) != OWN:
        walk = Walk()
        for square, given in (("C_W", first.sigma_w), ("C_b", first.sigma_b)):
            e = walk.plain(walk.deviation(given))
            if not e.is_number:
                raise MeanFieldError(f"The input layer's σ is {e}; several inputs need numbers there.")
            found[square][0] = float(e) ** 2
    for (name, _), square in zip(RATES.items(), ("C_W", "C_b")):
        value = rates.get(name)
        if value is None:
            found[name] = found[square].copy()
        elif isinstance(value, (str, sp.Expr)):
            e = rates_of({name: value})[list(RATES).index(name)]
            if e.free_symbols - {l}:
                raise MeanFieldError(f"{name} must be a number or a formula in l here, but {shown(value)} was given.")
            with np.errstate(all="ignore"):
                values = on_arrays((l,), e)(np.arange(1, 1 + depth, dtype=float))
            found[name] = _per_layer(name, np.broadcast_to(values, depth), depth)
        else:
            found[name] = _per_layer(name, value, depth)
    return found


def _per_layer(name: str, value: object, depth: int) -> np.ndarray:
    refuse_not_real(value, name)
    try:
        given = np.array(value, dtype=float)
    except (TypeError, ValueError, OverflowError):
        raise MeanFieldError(f"{name} must be a number or one for each layer, but {shown(value)} was given.") from None
    if given.ndim > 1 or (given.ndim == 1 and len(given) not in (1, depth)):
        raise MeanFieldError(
            f"{name} must be a number or one for each of {depth} layers, but its shape is {given.shape}."
        )
    if not np.isfinite(given).all() or (given < 0).any() or (given > 1e75).any():
        wrong = given[~(np.isfinite(given) & (given >= 0) & (given <= 1e75))].ravel()[0]
        raise MeanFieldError(f"{name} must be ≥ 0 and finite at every layer, but {wrong} was given.")
    return np.broadcast_to(given, depth).astype(float)
