"""Networks of finite width before and after training steps: by how much the outputs of every Dense change, and by how
much through its own parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.empirical.network.cotangents import Cotangents
from meanfield.empirical.network.operations.operation_derivatives import Derivative
from meanfield.empirical.network.operations.operation_walk import Site, walk
from meanfield.empirical.network.operations.operations import DenseOperation
from meanfield.empirical.network.parameter_sources import Name
from meanfield.empirical.network.signals import SignalValues
from meanfield.empirical.training.optimizers import OPTIMIZERS, Adam, Optimizer
from meanfield.empirical.training.own_steps import Move
from meanfield.empirical.training.passes import TrainedLayers, Trainee
from meanfield.empirical.training.trained_weights import PlainMatrix, TrainedParameters

Moves = Callable[[Name, bool], Move | None]  # by name, and whether it belongs to a Dense; None: it stays


@dataclass(eq=False)
class Seen:
    """What a Dense met: a before it, z behind it and v = ∂L/∂z, a row for each input; own: what its own parameters
    changed."""

    a: np.ndarray
    z: np.ndarray
    v: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))
    own: np.ndarray = field(default_factory=lambda: np.empty((0, 0)))


@dataclass(eq=False)
class _Stepped(PlainMatrix):
    """The matrix after its step, which is added to what it makes."""

    seen: Seen | None = None
    weights: Move | None = None
    bias: Move | None = None

    def affine(self, rows: np.ndarray, out: np.ndarray) -> None:
        super().affine(rows, out)
        assert self.seen is not None
        own = np.zeros_like(out)
        if self.weights is not None:
            own += self.weights.of_matrix(self.seen.v, self.seen.a, rows)
        if self.bias is not None:
            own += self.bias.of_vector(self.seen.v.sum(axis=0))
        self.seen.own = own
        out += own


@dataclass(eq=False)
class _Steps(TrainedParameters):
    """Parameters, and the step that is added to those of every Dense."""

    seen: Mapping[Name, Seen] = field(default_factory=dict)
    moves: Moves = lambda name, dense: None

    def matrix(self, dense: DenseOperation, site: Site, shape: tuple[int, int]) -> PlainMatrix:
        w, beta = self.whole(dense, site, shape)
        name = Name(site.layer, site.place, "W")
        if name not in self.seen:
            return PlainMatrix(w, beta)
        bias = self.moves(name._replace(name="b"), True)
        return _Stepped(w, beta, self.seen[name], self.moves(name, True), bias)


def stepped(
    layers: TrainedLayers, seed: int, index: int, x: np.ndarray, cotangent: np.ndarray, moves: Moves, optimizer: str,
    steps: int = 1,
) -> dict[str, np.ndarray]:
    """Mean squares over neurons and inputs of network `index`: "z", "own" and "total" of every Dense after so many
    steps, of which the first needs no changed matrix; "readout" and "features" of the output's change; "gain", what the
    own step of each takes from the loss in first order, −Σ v·own.

    cotangent: ∂L/∂f (inputs, outputs), the same in every step. Of later steps, "own" is what the changed parameters of
    a Dense make of what it is given then, less what those at the start make of it.
    """
    net = Trainee(layers, seed, index)
    with np.errstate(all="ignore"):  # an overflow is an answer
        before = _looked_at(net, x, cotangent)
        if steps == 1:
            _move_vectors(net, before, moves)
            net.weights = _Steps(
                layers.ensemble, seed, index, net.arena, net.weights.values, {n: s for n, s in before.dense.items()},
                moves,
            )  # fmt: skip
            net.forget()
            after = {name: z for name, _, z in _passed(net, x, False)}
        else:
            after = _trained(net, before, x, cotangent, moves, optimizer, steps)
        rows = {name: (one.z, one.own, after[name] - one.z) for name, one in before.dense.items()}
        made = {
            what: np.array([np.square(row[k]).mean() for row in rows.values()])
            for k, what in enumerate(("z", "own", "total"))
        }
        gains = [-float(np.vdot(before.dense[name].v, own)) for name, (_, own, _) in rows.items()]
        made["gain"] = np.array(gains)
        _, own, total = list(rows.values())[-1]
        return made | {"readout": np.square(own).mean(), "features": np.square(total - own).mean()}


@dataclass(eq=False)
class _Before:
    dense: dict[Name, Seen]
    others: dict[Name, np.ndarray]  # gradients of what belongs to no Dense


def _passed(net: Trainee, x: np.ndarray, differentiate: bool) -> Iterator[tuple[Name, Site, np.ndarray]]:
    """(its name, where it stands, what it makes) of every Dense, as x goes through."""
    net.arena.again()
    values = SignalValues(x, len(x), net.arena)
    for here in net.sites(len(x), differentiate):
        for site in walk(here, [values]):
            if isinstance(site.operation, DenseOperation):
                yield Name(site.layer, site.place, "W"), site, values.z.copy()
        values.finish()


def _looked_at(net: Trainee, x: np.ndarray, cotangent: np.ndarray) -> _Before:
    dense = {
        name: Seen(site.derivative.y.copy(), z)  # type: ignore[union-attr]
        for name, site, z in _passed(net, x, True)
    }
    others: dict[Name, np.ndarray] = {}
    carrier = Cotangents(cotangent[None], net.arena.take)
    first, *every = (site for here in net.sites(len(x), True) for site in here)
    for site in walk(reversed(every), [carrier]):
        name = Name(site.layer, site.place, "W")
        if name in dense:
            dense[name].v = carrier.met[0].copy()
        elif isinstance(site.derivative, Derivative) and site.derivative.names:
            for own, found in zip(site.derivative.names, site.derivative.gradient(carrier.met[0])):
                others[name._replace(name=own)] = found
    dense[Name(first.layer, first.place, "W")].v = carrier.rows[0].copy()  # nobody asks for the gradient by the input
    return _Before(dense, others)


def _move_vectors(net: Trainee, before: _Before, moves: Moves) -> None:
    """Gains and shifts of norms take their step in place."""
    for name, gradient in before.others.items():
        move = moves(name, False)
        if move is not None and name in net.parameters:
            net.parameters[name] += move.of_vector(gradient)


def _trained(
    net: Trainee, before: _Before, x: np.ndarray, cotangent: np.ndarray, moves: Moves, optimizer: str, steps: int
) -> dict[Name, np.ndarray]:
    """What every Dense makes after several steps; `own` of each is filled in."""
    start = {name: one.copy() for name, one in net.parameters.items()}
    how = {name: moves(name, name.name in ("W", "b")) for name in net.parameters}
    made: Optimizer = OPTIMIZERS[optimizer](net.parameters, net.rates)
    for _ in range(steps):
        net.outputs(x, differentiate=True)
        gradients: dict[Any, np.ndarray] = net.gradients(cotangent)
        made.steps += 1
        for name, gradient in gradients.items():
            move = how[name]
            if move is None:
                continue
            if isinstance(made, Adam):
                made.epsilon = move.eps
            change = made.change(name, move.multiplier * gradient)
            net.parameters[name] -= move.multiplier * move.rate * change
    after = {}
    for name, site, z in _passed(net, x, True):
        a = site.derivative.y  # type: ignore[union-attr]
        one = before.dense[name]
        one.own = a @ (net.parameters[name] - start[name]).T
        beta = name._replace(name="b")
        if beta in net.parameters:
            one.own = one.own + net.parameters[beta] - start[beta]
        after[name] = z
    return after
