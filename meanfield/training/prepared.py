"""What `train` is asked for, read: data as arrays, the network as layers, and the plan of a training."""

from __future__ import annotations

import inspect
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from meanfield.base.arguments import choice, flag, positive, refuse_not_real, shown, whole
from meanfield.base.budgets import require_memory
from meanfield.base.errors import MeanFieldError
from meanfield.comparison.network_settings import network_and_pairs, record_and_settings
from meanfield.data.data_sources import from_arrays
from meanfield.data.sets import Data, shuffled
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.checks import given_inputs, integer, per_layer
from meanfield.empirical.network.operations.operations import DenseOperation, refuse_jumps
from meanfield.empirical.network.program import operations
from meanfield.empirical.training.losses import LOSSES
from meanfield.empirical.training.one_network import DataPart, TrainingPlan
from meanfield.empirical.training.optimizers import OPTIMIZERS
from meanfield.empirical.training.passes import TrainedLayers
from meanfield.empirical.training.readout import readout_of
from meanfield.networks.folds import activations_of
from meanfield.networks.records import Network, block_of
from meanfield.theory.derivation import theory_and_values

LARGEST_THETA = 2000  # inputs times outputs whose tangent kernel is followed


@dataclass(frozen=True, eq=False)
class Prepared:
    """One training that was asked for. plan; rates: those that are tried; record: the network; own_head: whether the
    last block makes the outputs; classes: the labels, () for targets; network, settings: as they were given;
    parameters: those of the settings that belong to the network."""

    plan: TrainingPlan
    rates: tuple[float, ...]
    record: Network
    own_head: bool
    classes: tuple[Any, ...]
    data: Data
    network: Any
    settings: Mapping[str, Any]
    parameters: Mapping[str, Any]


def prepared(network: Any, data: Any, *, sigma_w: Any, sigma_b: Any, **settings: Any) -> Prepared:
    """A training as `train` takes it; raises `MeanFieldError`."""
    known = _data(data)
    depth = settings["depth"]
    for name, value in (("sigma_w", sigma_w), ("sigma_b", sigma_b)):
        if np.ndim(value) == 1 and len(value) != depth:
            raise MeanFieldError(
                f"{name} must be one number, or one for each of the {shown(depth)} layers, but {len(value)} were "
                f"given; networks at several values are mf.trainability(..., axes={{{name!r}: [...]}})."
            )
    record, numbers = record_and_settings(_asked, network, sigma_w, sigma_b, settings)
    assert isinstance(record, Network)
    plan, rates, own_head, classes = _asked(record, data=known, **numbers)
    given = settings | {"sigma_w": sigma_w, "sigma_b": sigma_b}
    of_training = inspect.signature(_asked).parameters
    parameters = {k: v for k, v in settings.items() if k not in of_training}
    return Prepared(plan, rates, record, own_head, classes, known, network, given, parameters)


def _data(given: Any) -> Data:
    if isinstance(given, Data):
        return given
    if isinstance(given, str):
        raise MeanFieldError(
            f"data must be a Data, or arrays, but {shown(given)} was given; write mf.data.digits(), or another "
            "function of mf.data."
        )
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 4):
        raise MeanFieldError(
            "data must be a Data (see meanfield.data), or (X, y) or (X, y, X_test, y_test), but "
            f"{shown(type(given).__name__ if hasattr(given, '__len__') else given)} was given."
        )
    return from_arrays(*given)


def _asked(
    block: Any, *, data: Data | None = None, sigma_w: Any, sigma_b: Any, depth: Any, width: Any, head: Any,
    loss: Any, optimizer: Any, rate: Any, steps: Any, batch: Any, warmup: Any, lambda_w: Any, lambda_b: Any,
    biases: Any, seed: Any, records: Any, theta_inputs: Any, keep_weights: Any,
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None, **parameters: Any,
) -> tuple[TrainingPlan, tuple[float, ...], bool, tuple[Any, ...]]:  # fmt: skip
    """The plan, the rates, whether the last block makes the outputs, and the classes."""
    assert data is not None
    loss, optimizer = choice(loss, "loss", tuple(LOSSES)), choice(optimizer, "optimizer", tuple(OPTIMIZERS))
    if optimizer != "scaled" and (lambda_w is not None or lambda_b is not None):
        raise MeanFieldError(f"lambda_w and lambda_b are rates of optimizer='scaled', but {optimizer!r} was asked for.")
    depth, rates = integer(depth, "The depth", 2, 1 << 20), _rates(rate)
    parts, classes, tokens = _parts(data, loss)
    whole_part, outputs = parts["train"], parts["train"].y.shape[1]
    seed = whole(seed, "seed", 0, 2**63)
    if len(rates) > 1:
        order, count = shuffled(len(whole_part), seed), max(1, len(whole_part) // 10)
        if count == len(whole_part):
            raise MeanFieldError("Several rates are compared on a tenth of the data, but there is one training input.")
        parts |= {"train": whole_part.taken(order[count:]), "held_out": whole_part.taken(order[:count])}
    hidden = _hidden(width, depth, outputs)
    ensemble = Ensemble(
        block, sigma_w, sigma_b, (*hidden, hidden[-1]), depth, whole_part.x.shape[1], activation_pairs, parameters,
        tokens=tokens, rates=(lambda_w, lambda_b),
    )  # fmt: skip
    own, pairs = readout_of(block.block), dict(activation_pairs or {})
    last = block.block if own is None else own
    if head is not None:
        last = block_of(head, "head")
        if activations_of(last):
            last, more = network_and_pairs(theory_and_values(last, {})[0], {})
            last, pairs = last.block, pairs | more
    sigmas = {n: per_layer(v, n, depth) for n, v in (("sigma_w", sigma_w), ("sigma_b", sigma_b))}
    held = {} if head is not None else parameters
    readout = operations(last, pairs, held, depth, sigmas)
    refuse_jumps((*ensemble.operations, *readout), "a gradient", "train with an activation that is continuous")
    ends = readout[-1] if readout else None
    if not isinstance(ends, DenseOperation) or ends.tokens:
        raise MeanFieldError(
            f"head must end in a Dense on the neurons, which makes the outputs, but {shown(head)} was given."
        )
    layers = TrainedLayers(ensemble, readout, outputs, flag(biases, "biases"))
    size = sum(float(np.prod(one.shape)) for _, one, _ in layers.held())
    require_memory(8 * 6 * size, "A network of this depth and width, as it is trained,", "take fewer neurons or layers")
    steps = whole(steps, "steps", 0, 10**9)
    count = len(parts["train"])
    batch = count if batch is None else whole(batch, "batch", 1, count)
    if layers.mixes_inputs:
        _enough(parts, batch, tokens, theta_inputs)
    plan = TrainingPlan(
        layers, parts, loss, optimizer, steps, batch, whole(warmup, "warmup", 0, steps), _records(records, steps), seed,
        _theta(theta_inputs, parts["train"], outputs), flag(keep_weights, "keep_weights"),
    )  # fmt: skip
    return plan, rates, head is None and own is None, classes


def _hidden(width: Any, depth: int, outputs: int) -> tuple[int, ...]:
    """Neurons of layers 1 … depth − 1."""
    refuse_not_real(width, "width")
    several = isinstance(width, (list, tuple)) or bool(getattr(width, "ndim", 0))
    hidden = tuple(integer(n, "The width", 1, 1 << 20) for n in (list(width) if several else [width] * (depth - 1)))
    if len(hidden) != depth - 1:
        raise MeanFieldError(
            f"width must be one number, or one for each of the {depth - 1} layers before the outputs, but "
            f"{len(hidden)} were given."
        )
    if min(hidden) < outputs:
        raise MeanFieldError(
            f"A layer has {min(hidden)} neurons, fewer than the {outputs} outputs behind it; take width ≥ {outputs}."
        )
    return hidden


def _enough(parts: Mapping[str, DataPart], batch: int, tokens: int, theta_inputs: Any) -> None:
    """Refuse means over fewer than three positions, which a BatchNorm takes of what is at hand."""
    counts = {"a batch": batch} | {f"the part {name!r}": len(part) for name, part in parts.items()}
    if theta_inputs:
        counts["theta_inputs"] = int(theta_inputs)
    for what, count in counts.items():
        if count * tokens < 3:
            raise MeanFieldError(
                f"A BatchNorm takes means over the inputs at hand, at least 3 of them, but {what} has {count}; take "
                "more, or one rate (several are compared on a tenth of the data)."
            )


def _rates(rate: Any) -> tuple[float, ...]:
    refuse_not_real(rate, "rate")
    several = list(rate) if isinstance(rate, (list, tuple, np.ndarray)) and np.ndim(rate) else [rate]
    found = tuple(positive(one, "rate") for one in several)
    if not found or len(set(found)) < len(found):
        raise MeanFieldError(f"rate must be a number, or several different ones, but {shown(rate)} was given.")
    return found


def _records(given: Any, steps: int) -> tuple[int, ...]:
    if isinstance(given, (list, tuple, range)) or (isinstance(given, np.ndarray) and given.ndim):
        found = {whole(one, "records", 0, steps) for one in list(given)}
    else:
        count = whole(given, "records", 1, 10**6)
        found = {round(k * steps / count) for k in range(count + 1)}
    return tuple(sorted(found | {0, steps}))


def _theta(given: Any, train: DataPart, outputs: int) -> np.ndarray | None:
    count = whole(given, "theta_inputs", 0, len(train))
    if count * outputs > LARGEST_THETA:
        raise MeanFieldError(
            f"Theta of {count} inputs and {outputs} outputs is a matrix of {count * outputs} rows, and at most "
            f"{LARGEST_THETA} are followed; take theta_inputs={LARGEST_THETA // outputs} or fewer."
        )
    return train.taken(np.arange(count)).x if count else None


def _parts(data: Data, loss: str) -> tuple[dict[str, DataPart], tuple[Any, ...], int]:
    """(training and test inputs, the labels, tokens of an input)."""
    X, tokens, _ = given_inputs(data.X, 1, None)
    if len(data.X) > 1 and (data.X[:1] == data.X).all():
        raise MeanFieldError("All training inputs are equal, so that nothing tells them apart; give others.")
    given = {"train": (X, data.y)}
    if len(data.X_test):
        given["test"] = given_inputs(data.X_test, 1, None)[0], data.y_test
    labels = data.y.ndim == 1 and (data.y.dtype.kind != "f" or loss != "mse")
    if not labels:
        return {k: DataPart(x, _targets(y, loss)) for k, (x, y) in given.items()}, (), tokens
    if data.y.dtype.kind == "f" and not (data.y == np.floor(data.y)).all():
        strange = data.y[data.y != np.floor(data.y)][0]
        raise MeanFieldError(
            f"loss={loss!r} needs labels of classes, but y holds {strange:g}; give whole numbers or texts, rows of "
            "probabilities, or loss='mse' for targets."
        )
    classes = np.unique(np.concatenate([y for _, y in given.values()]))
    missing = set(classes.tolist()) - set(data.y.tolist())
    if missing:
        raise MeanFieldError(f"The class {min(missing)!r} of a test input is that of no training input.")
    if len(classes) < 2:
        targets = " (whole numbers are labels: give targets of a square loss as floats)" if loss == "mse" else ""
        raise MeanFieldError(f"y has one class alone, {classes.tolist()[0]!r}; at least two are needed{targets}.")
    found = {}
    for name, (x, y) in given.items():
        places = np.searchsorted(classes, y)
        found[name] = DataPart(x, np.eye(len(classes))[places], places)
    return found, tuple(classes.tolist()), tokens


def _targets(y: np.ndarray, loss: str) -> np.ndarray:
    rows = np.asarray(y, dtype=float).reshape(len(y), -1)
    if loss == "cross_entropy" and not ((rows >= 0).all() and np.allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-9)):
        raise MeanFieldError("Rows of y must be probabilities that sum to 1 for loss='cross_entropy'.")
    if loss == "sigmoid_cross_entropy" and not ((rows >= 0) & (rows <= 1)).all():
        raise MeanFieldError("Rows of y must lie between 0 and 1 for loss='sigmoid_cross_entropy'.")
    return rows
