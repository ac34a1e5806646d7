"""`Theory.kernel` and `Theory.kernel_operator`: all arguments checked against the theory, and the work done."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import replace
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.arguments import choice, one_point, provides, whole
from meanfield.base.arguments import names as names_of
from meanfield.base.errors import MeanFieldError
from meanfield.base.progress import watched
from meanfield.base.words import unknown
from meanfield.kernels.input_data import inputs
from meanfield.kernels.kernel_blocks import Work
from meanfield.kernels.kernel_matrices import KernelOperator, Kernels, bounds, computed, prepare, workers
from meanfield.kernels.sides import QUANTITIES
from meanfield.kernels.theory_at_numbers import TheoryAtNumbers
from meanfield.numeric.run.depth_iteration import checked
from meanfield.theory.queries.architecture_maps import Maps
from meanfield.theory.queries.given_values import (
    decided,
    double,
    listed,
    numbered,
    refuse_unknown,
    symbols_of,
)
from meanfield.theory.queries.parameter_points import ParameterPoint
from meanfield.theory.queries.selection import selected

DEEPEST = 10**6
_NOT_HERE = {"J": "J_ab between inputs", "J_ab": "J_ab between inputs"}


def kernel(
    theory: Maps,
    /,
    X,
    Y=None,
    *,
    sigma_w=None,
    sigma_b=None,
    depth,
    lambda_w=None,
    lambda_b=None,
    layerwise=False,
    quantities=None,
    dtype="float64",
    out=None,
    threads=None,
    executor: Executor | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters,
) -> Kernels:
    """`Theory.kernel`."""
    rates = {n: v for n, v in (("lambda_w", lambda_w), ("lambda_b", lambda_b)) if v is not None}
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b, **rates, **parameters}, layerwise)
    names = QUANTITIES if quantities is None else names_of(quantities, "quantities")
    work = planned(theory, X, Y, sigma_w, sigma_b, depth, names, dtype, parameters, rates)
    provides(executor, "executor", "submit", "an executor (concurrent.futures)")
    provides(progress, "progress", None, "a function of two numbers")
    count = workers(threads)
    with watched(progress, "blocks") as tell:
        found = computed(work, out, count, executor, tell)
    work.network.keep()
    return found


def operator(
    theory: Maps,
    /,
    X,
    Y=None,
    *,
    quantity="K",
    sigma_w=None,
    sigma_b=None,
    depth,
    lambda_w=None,
    lambda_b=None,
    layerwise=False,
    threads=None,
    executor=None,
    **parameters,
) -> KernelOperator:
    """`Theory.kernel_operator`."""
    rates = {n: v for n, v in (("lambda_w", lambda_w), ("lambda_b", lambda_b)) if v is not None}
    one_point({"sigma_w": sigma_w, "sigma_b": sigma_b, **rates, **parameters}, layerwise)
    name = choice(quantity, "quantity", QUANTITIES)
    work = planned(theory, X, Y, sigma_w, sigma_b, depth, (name,), "float64", parameters, rates)
    provides(executor, "executor", "submit", "an executor (concurrent.futures)")
    count = workers(threads)
    prepare(work)
    return KernelOperator(work, count, executor, bounds(work)[name])


def planned(
    theory: Maps, X, Y, sigma_w, sigma_b, depth, names: tuple[str, ...], dtype, parameters: dict,
    rates: dict | None = None,
) -> Work:  # fmt: skip
    """The work, all arguments checked; rates: those of lambda_w and lambda_b that are given."""
    for n in names:
        if n not in QUANTITIES:
            if n in _NOT_HERE:
                raise MeanFieldError(
                    f"{n} is a quantity of propagate; kernels of data sets are {listed(QUANTITIES)}."
                )
            raise unknown("kernel", n, QUANTITIES)
    if theory.kind:
        raise MeanFieldError(
            "A kernel of a data set is not available: in this network "
            + ("the inputs of a batch" if theory.kind == "batch" else "the tokens of an input")
            + " act on each other, so that no function of two inputs exists; use propagate."
        )
    depth = whole(depth, "depth", 1, DEEPEST)
    kind = np.dtype(choice(np.dtype(dtype).name if _is_dtype(dtype) else dtype, "dtype", ("float64", "float32")))
    rows = inputs(X, "X")
    other = None if Y is None else inputs(Y, "Y", rows.shape[1])
    theory, rest = decided(theory, parameters)
    theory, rest = numbered(theory, rest)
    theta = "Theta" in names
    if rates and not theta:
        raise MeanFieldError(
            f"{next(iter(rates))} was given, but learning rates change Theta alone, and {', '.join(names)} "
            f"{'was' if len(names) == 1 else 'were'} asked for; leave it out."
        )
    if rates:
        theory = replace(theory, rate_names=tuple(rates))
    recursion = selected(theory, ("K_aa", "K_bb", "K_ab", *(("Theta_ab",) if theta else ())))
    if any(sp.sympify(e).has(sp.oo) for step in recursion.steps for e in step.next):
        raise MeanFieldError(
            "Theta is not available: it is infinite at every layer, because an activation jumps (or rises like √z); "
            'ask for quantities=("K", "distance").'
        )
    refuse_unknown(rest, recursion)
    point = ParameterPoint.of(theory, sigma_w, sigma_b, 1.0, None, None, rest)
    known = symbols_of((theory.block, theory.first))
    values = {n: v for n, v in point.inputs.items() if n in known} | point.doubles()
    values |= {n: double(n, rates[n]) for n in theory.rate_names} if rates else {}
    given = tuple((n, _of_layers(n, v, depth, recursion.domains.get(n))) for n, v in values.items())
    pairs = len(rows) * len(rows if other is None else other)
    return Work(TheoryAtNumbers(given, depth, theta, theory, pairs), rows, other, names, kind)


def _is_dtype(value: object) -> bool:
    try:
        return value is not None and bool(np.dtype(value).name)  # type: ignore[call-overload]
    except TypeError:
        return False


def _of_layers(name: str, value, depth: int, domain) -> Any:
    array = checked(name, value) if domain is None else checked(name, value, domain)
    if array.ndim == 0:
        return float(array)
    if array.shape != (depth,):
        raise MeanFieldError(
            f"{name} must be one number or one for each of the {depth} layers, but its shape is {array.shape}."
        )
    return tuple(array.tolist())
