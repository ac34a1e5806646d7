"""One network, trained: what is recorded of it at some of the steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import numpy as np

from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.random.philox import MAX_LAYER, normals
from meanfield.empirical.training.losses import LOSSES
from meanfield.empirical.training.optimizers import OPTIMIZERS
from meanfield.empirical.training.passes import TrainedLayers, Trainee

SHUFFLE = MAX_LAYER - 2  # the layer of the streams that order the inputs, below which no network reaches
KEPT = "parameter/"  # what names of arrays begin with that are parameters
LOST = 1e6  # times its loss at the start: a network beyond it has diverged
CHUNK = 512  # inputs that are looked at together


@dataclass(frozen=True, eq=False)
class DataPart:
    """Inputs (positions, N_0), their targets (inputs, outputs), and their classes as places, None without classes."""

    x: np.ndarray
    y: np.ndarray
    class_indices: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.y)

    def taken(self, which: Any) -> DataPart:
        """The inputs of these numbers."""
        x = self.x.reshape(len(self.y), -1, self.x.shape[1])[which].reshape(-1, self.x.shape[1])
        return DataPart(x, self.y[which], None if self.class_indices is None else self.class_indices[which])


@dataclass(frozen=True, eq=False)
class TrainingPlan:
    """How networks are trained: on parts["train"], in batches of `batch` inputs; records: the numbers of steps after
    which a network is looked at, on every part. theta: positions of the inputs that Θ is taken at."""

    layers: TrainedLayers
    parts: dict[str, DataPart]
    loss: str
    optimizer: str
    steps: int
    batch: int
    warmup: int
    records: tuple[int, ...]
    seed: int
    theta: np.ndarray | None = field(default=None, repr=False)
    keep: bool = False


def train_one(plan: TrainingPlan, index: int, rate: float, stop: Event | None = None) -> dict[str, np.ndarray]:
    """Arrays over the records of network `index`, trained with that rate; NaN from the step on at which its loss, on
    the training inputs or on a batch, was seen to be no finite number, or beyond 1e6 times what it was at the start
    and 1e6 ("diverged_at", 0 where it never was)."""
    net = Trainee(plan.layers, plan.seed, index)
    optimizer = OPTIMIZERS[plan.optimizer](net.parameters, net.rates)
    loss, train = LOSSES[plan.loss], plan.parts["train"]
    found, start = dict[str, list[Any]](), dict[str, np.ndarray]()
    diverged_at, batches, most = 0, _batches(plan, index), np.inf
    with np.errstate(all="ignore"):  # an overflow is an answer
        for step in range(plan.steps + 1):
            if stop is not None and stop.is_set():
                break
            part = train if (which := next(batches)) is None else train.taken(which)
            recorded = step in plan.records
            if step == plan.steps and not recorded:
                break
            seen = _seen(plan, net, start) if recorded else {}
            value, cotangent = loss(net.outputs(part.x, differentiate=True), part.y)
            if not (value <= most and seen.get("loss/train", 0.0) <= most and value < np.inf):
                diverged_at = max(step, 1)
                if not found:  # from the start: the shapes of what is not a number
                    found = {name: [np.full(np.shape(one), np.nan)] for name, one in seen.items()}
                break
            most = LOST * max(value, 1.0) if step == 0 else most
            gradients = net.gradients(cotangent)
            if recorded:
                seen["gradient"] = _by_layer(gradients, plan.layers.ensemble.depth)
                for name, one in seen.items():
                    found.setdefault(name, []).append(one)
            if step < plan.steps:
                optimizer.step(gradients, rate * min(1.0, (step + 1) / plan.warmup) if plan.warmup else rate)
    if found and "gradient" not in found:
        found["gradient"] = [np.full(plan.layers.ensemble.depth, np.nan)]
    filled = {name: _filled(rows, len(plan.records)) for name, rows in found.items()}
    kept = {f"{KEPT}{'/'.join(map(str, name))}": one for name, one in net.parameters.items()} if plan.keep else {}
    return filled | kept | {"diverged_at": np.array(diverged_at)}


def with_parameters(plan: TrainingPlan, index: int, found: dict[str, np.ndarray]) -> Trainee:
    """Network `index` with the parameters that `train_one` gave back."""
    net = Trainee(plan.layers, plan.seed, index)
    for name, array in net.parameters.items():
        array[...] = found[f"{KEPT}{'/'.join(map(str, name))}"]
    return net


def _filled(rows: list[Any], count: int) -> np.ndarray:
    whole = np.full((count, *np.shape(rows[0])), np.nan)
    whole[: len(rows)] = rows
    return whole


def _batches(plan: TrainingPlan, index: int) -> Iterator[np.ndarray | None]:
    """The numbers of the inputs of each step, None for all; every epoch has an order of its own, and leaves out what
    does not fill a batch."""
    count, epoch = len(plan.parts["train"]), 0
    while plan.batch >= count:
        yield None
    while True:
        order = np.argsort(normals(plan.seed, index, SHUFFLE, 0, count, epoch * count), kind="stable")
        for first in range(0, count - plan.batch + 1, plan.batch):
            yield order[first : first + plan.batch]
        epoch += 1


def _seen(plan: TrainingPlan, net: Trainee, start: dict[str, np.ndarray]) -> dict[str, Any]:
    """What is recorded of a network as it is; start: the Θ it began with, kept here."""
    seen: dict[str, Any] = {}
    tokens = plan.layers.ensemble.tokens
    for name, part in plan.parts.items():
        size = len(part) if plan.layers.mixes_inputs else CHUNK
        rows, squares = [], np.zeros(plan.layers.ensemble.depth)
        for first in range(0, len(part), size):
            z = np.empty((0, 0))
            for layer, z in enumerate(net.layer_outputs(part.x[first * tokens : (first + size) * tokens])):
                squares[layer] += np.square(z).mean(axis=1).sum()
            rows.append(z.reshape(-1, tokens, z.shape[1]).mean(axis=1))
        f = np.concatenate(rows)
        seen[f"loss/{name}"] = LOSSES[plan.loss](f, part.y)[0]
        if name == "train":
            seen["K"] = squares / len(part.x)
        if part.class_indices is not None:
            assigned = f.argmax(axis=1)
            right, classes = assigned == part.class_indices, f.shape[1]
            of_class = np.bincount(part.class_indices, minlength=classes)
            seen[f"accuracy/{name}"] = right.mean()
            seen[f"largest_class/{name}"] = np.bincount(assigned, minlength=classes).max() / len(part)
            seen[f"class_accuracy/{name}"] = np.bincount(part.class_indices, right, classes) / of_class
            if not np.isfinite(f).all():
                for held in ("accuracy", "largest_class", "class_accuracy"):
                    seen[f"{held}/{name}"] = seen[f"{held}/{name}"] * np.nan
    if plan.theta is not None:
        theta = net.tangent_kernel(plan.theta)
        before = start.setdefault("Theta", theta)
        seen["Theta"] = theta
        seen["Theta_change"] = np.linalg.norm(theta - before) / np.linalg.norm(before)
    return seen


def _by_layer(gradients: dict[Name, np.ndarray], depth: int) -> np.ndarray:
    """The norm of ∂L/∂θ over all parameters θ of each layer."""
    squares = np.zeros(depth)
    for name, one in gradients.items():
        squares[name.layer - 1] += np.vdot(one, one)
    return np.sqrt(squares)
