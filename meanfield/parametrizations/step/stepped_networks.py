"""The networks of a coordinate check: finite width, explicit matrices, the step as the parametrization has it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from meanfield.base.budgets import require_memory
from meanfield.empirical.ensemble.parallel import each_network
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import Ensemble
from meanfield.empirical.network.operations.operations import DenseOperation, refuse_jumps
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.network.program import operations
from meanfield.empirical.training.first_steps import stepped
from meanfield.empirical.training.own_steps import Move
from meanfield.empirical.training.passes import TrainedLayers
from meanfield.parametrizations.step.first_step import Squares
from meanfield.parametrizations.step.step_case import Case


def layers_of(case: Case, pairs: Mapping[Hashable, ScalarPair]) -> TrainedLayers:
    """The layers of a finite network, with the deviations of this width."""
    record, head = case.scaled()
    widths = (case.width,) * case.depth
    ensemble = Ensemble(record, 1.0, 1.0, widths, case.depth, case.inputs.shape[1], pairs, {})
    ones = {"sigma_w": np.ones(case.depth), "sigma_b": np.ones(case.depth)}
    readout = operations(head, pairs, {}, case.depth, ones)
    refuse_jumps((*ensemble.operations, *readout), "a gradient", "take a continuous activation")
    layers = TrainedLayers(ensemble, readout, 1, case.biases)
    size = sum(float(np.prod(one.shape)) for _, one, _ in layers.held())
    require_memory(8 * 2 * size, "A network of this depth and width", "take fewer neurons or layers")
    return layers


def moves_of(case: Case, layers: TrainedLayers, optimizer: str) -> Callable[[Name, bool], Move | None]:
    """How each parameter moves: a matrix by its kind, biases, gains and shifts as biases do."""
    kinds: dict[tuple[int, int], str] = {}
    for layer in range(1, case.depth + 1):
        done, _ = layers.of(layer)
        places = [place for place, one in enumerate(done) if isinstance(one, DenseOperation)]
        for place, kind in zip(places, case.kinds(layer)):
            kinds[layer, place] = kind
    scheme = case.parametrization

    def move(name: Name, dense: bool) -> Move | None:
        kind = kinds.get((name.layer, name.place), "hidden" if name.layer < case.depth else "input")
        if dense and name.name == "W":
            of = case.factors(kind)
            return Move(scheme.stepping(kind), of["multiplier"], of["rate"], case.adam_eps(kind))
        if dense and not case.biases:
            return None
        of = case.bias_factors(kind)
        return Move(scheme.stepping("bias"), of["multiplier"], of["rate"], of["eps"])

    return move


def measured(
    case: Case,
    pairs: Mapping[Hashable, ScalarPair],
    networks: int,
    seed: int,
    steps: int = 1,
    optimizer: str | None = None,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Squares:
    """The mean squares of each network. optimizer: of later steps, "sgd", "momentum" or "adam"."""
    layers = layers_of(case, pairs)
    moves = moves_of(case, layers, optimizer or case.parametrization.optimizer)
    found: dict[int, dict[str, Any]] = {}

    def one(index: int, *_: Any) -> None:
        cotangent = case.cotangent[:, None]
        found[index] = stepped(
            layers, seed, index, case.inputs, cotangent, moves, optimizer or case.parametrization.optimizer, steps
        )

    each_network(one, networks, threads, progress)
    rows = {name: np.stack([found[i][name] for i in range(networks)]) for name in found[0]}
    return Squares(*(rows[name] for name in ("z", "own", "total", "readout", "features", "gain")))
