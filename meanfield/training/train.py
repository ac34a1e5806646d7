"""`train`: networks of any architecture, small, trained on data, with what the theory says of them beside it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Any

import numpy as np

from meanfield.base.arguments import validated, whole
from meanfield.base.progress import Progress, watched
from meanfield.empirical.ensemble.parallel import check_workers
from meanfield.empirical.training.one_network import KEPT, with_parameters
from meanfield.empirical.training.runs import NetworkArrays, run_units
from meanfield.networks.records import Block
from meanfield.training.predicted_training import PredictedTraining
from meanfield.training.prepared import Prepared, prepared
from meanfield.training.trained_networks import Training


@validated
def train(
    network: Any,
    data: Any,
    *,
    sigma_w: Any = None,
    sigma_b: Any = None,
    depth: int = 3,
    width: Any = 128,
    head: Block | None = None,
    loss: str = "cross_entropy",
    optimizer: str = "sgd",
    rate: Any = 0.1,
    steps: int = 200,
    batch: int | None = None,
    warmup: int = 0,
    lambda_w: Any = None,
    lambda_b: Any = None,
    biases: bool = True,
    networks: int = 4,
    seed: int = 0,
    records: int | Sequence[int] = 10,
    theta_inputs: int = 0,
    keep_weights: bool = False,
    threads: int | None = None,
    executor: Executor | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> Training:
    """Networks of finite width, trained on data: curves of loss, accuracy, gradients and K, each network its own.

    network: a `Theory`, an architecture record, or what `derive` takes, with its keywords (residual=True, norm="pre");
    other keywords give numbers to its symbols (mu=0.5). data: `Data` (see `meanfield.data`), or (X, y) or
    (X, y, X_test, y_test). sigma_w, sigma_b: as in `measure`, one number or one per layer.
    depth: the layer of the outputs, as in `Theory.predict`: two nonlinearities and a readout are depth 3. width: of the
    layers before it. head: the record that makes the outputs, which ends in a Dense; left out, the last block makes
    them, without its skip, or, where a block is more than one layer, a Dense behind a LayerNorm (without one if the
    block has none). Outputs of several tokens are averaged. A BatchNorm takes means over the inputs at hand: the batch
    in training, all inputs of a part when it is looked at.

    loss: "cross_entropy" or "sigmoid_cross_entropy" (means over inputs), "mse" (1/2N) Σ_a |f(x_a) - y_a|²; labels
    become one-hot rows. optimizer: "sgd", "momentum" (0.9), "adam" on the weights w = σ_w n^{-1/2} W and biases
    β = σ_b b themselves; "scaled", gradient descent with the learning rates of Θ, η lambda_w/n of a weight and
    η lambda_b of a bias (as in `kernel`; σ_w² and σ_b² unless given). rate: η, a number, or several: networks are then
    trained with each on nine tenths of the training inputs, and the rate of the least loss on the tenth that is held
    out is kept; all of them stand in .rates. warmup: steps in which η rises linearly from 0. batch: inputs of a step,
    all unless given. biases=False leaves β as they are drawn. networks: how many; seed: decides weights (those that
    `measure` draws) and batches. records: how many times, evenly, or after which steps a network is looked at, beside
    the start and the end. theta_inputs: of so many training inputs Θ is followed, too. keep_weights: whether the
    networks can be run on other inputs afterwards (.outputs).

    threads, executor, checkpoint, progress: as in `meanfield.empirical.run_ensemble`; the unit of work is one network
    at one rate, and the numbers are the same for any number of workers. Returns: a `Training`. Raises: MeanFieldError
    for data that do not fit, an activation that jumps, and sizes out of range. Source: derived here.

    >>> from meanfield.data import teacher
    >>> data = teacher(inputs=60, test=20, input_dimension=5, classes=2)
    >>> run = train("tanh", data, sigma_w=1.4, sigma_b=0.1, width=16, depth=3, steps=60, rate=0.3, networks=2)
    >>> run.steps.tolist()[::5], bool(run.final("loss/train")[0] < run["loss/train"][:, 0].mean())
    ([0, 30, 60], True)
    """
    one = prepared(
        network, data, sigma_w=sigma_w, sigma_b=sigma_b, depth=depth, width=width, head=head, loss=loss,
        optimizer=optimizer, rate=rate, steps=steps, batch=batch, warmup=warmup, lambda_w=lambda_w,
        lambda_b=lambda_b, biases=biases, seed=seed, records=records,
        theta_inputs=theta_inputs, keep_weights=keep_weights, **parameters,
    )  # fmt: skip
    networks = whole(networks, "networks", 1, 10**6)
    return trained([one], networks, threads, executor, checkpoint, progress)[0]


def trained(
    asked: Sequence[Prepared],
    networks: int,
    threads: Any,
    executor: Executor | None,
    checkpoint: Any,
    progress: Progress | None,
) -> list[Training]:
    """What became of them, all over one pool of workers."""
    check_workers(threads, executor, "cpu", checkpoint, progress)
    with watched(progress, "networks") as tell:
        found = run_units(
            [one.plan for one in asked], [one.rates for one in asked], networks, threads=threads, executor=executor,
            checkpoint=checkpoint, progress=tell,
        )  # fmt: skip
    made = []
    for p, one in enumerate(asked):
        each = [[found[p, r, i] for i in range(networks)] for r in range(len(one.rates))]
        made.append(_result(one, each))
    return made


def _result(one: Prepared, each: list[list[NetworkArrays]]) -> Training:
    """The result of one training; each: what was found by rate and network."""
    ends = [float(np.mean([run["loss/held_out"][-1] for run in runs])) for runs in each] if len(each) > 1 else [0.0]
    best = int(np.argmin([end if math.isfinite(end) else math.inf for end in ends]))
    runs, rate, plan = each[best], one.rates[best], one.plan
    names = [n for n in runs[0] if n != "diverged_at" and n[: len(KEPT)] != KEPT and all(n in run for run in runs)]
    beside = PredictedTraining(one, rate)
    lost = "" if np.isfinite(ends).any() else "no rate has a held-out loss that is a number, and the first was taken; "
    return Training(
        np.array(plan.records),
        {n: np.array([run[n] for run in runs]) for n in names},
        np.array([int(run["diverged_at"]) for run in runs]),
        rate,
        dict(zip(one.rates, ends)) if len(each) > 1 else {},
        one.classes,
        beside.about,
        (lost + beside.message()).removesuffix("; "),
        beside,
        [with_parameters(plan, i, run) for i, run in enumerate(runs)] if plan.keep else [],
    )
