"""`Training`: what became of networks that were trained, step by step, and what the theory had said of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.arguments import choice
from meanfield.base.errors import MeanFieldError, one_line
from meanfield.base.words import unknown
from meanfield.empirical.network.operations.checks import given_inputs
from meanfield.empirical.training.passes import Trainee
from meanfield.prediction.trained import Prediction
from meanfield.training.predicted_training import PredictedTraining

SHOWN = ("loss", "accuracy", "largest_class")


@dataclass(frozen=True, eq=False)
class Training(Numbers):
    """Networks that were trained: curves over the steps, each network its own.

    steps: after how many steps a network was looked at; values, also attributes and items: "loss/train", "loss/test"
    (network, step), "accuracy/…" and "largest_class/…" (the largest part of the inputs that is assigned to one class),
    "class_accuracy/…" (network, step, class), "gradient" (network, step, layer), the norm of the gradient by the
    weights and biases of a layer, on the batch of the next step; "K" (network, step, layer) of the training inputs;
    "Theta" (network, step, input, input), mean of its diagonal over outputs, and "Theta_change", its relative change
    since the start, where theta_inputs= asked for them. NaN from the step on at which the loss, on the training inputs
    or on a batch, was seen to be no finite number, or beyond 1e6 times that at the start and 1e6: diverged_at
    (network), 0 where it never was. rate: the one that was
    taken; rates: {rate: mean loss on the held-out tenth at the end}, empty where one was given. message: what else is
    to be said.

    >>> from meanfield.training import train
    >>> run = train("tanh", ([[0.0], [1.0]], [0, 1]), sigma_w=1.2, sigma_b=0.1, width=8, depth=2, steps=30, networks=2)
    >>> run["loss/train"].shape, run.final("accuracy/train")
    ((2, 11), (1.0, 0.0))
    """

    steps: np.ndarray
    values: dict[str, np.ndarray]
    diverged_at: np.ndarray
    rate: float
    rates: dict[float, float]
    classes: tuple[Any, ...]
    about: str
    message: str = ""
    _predicted: PredictedTraining | None = field(default=None, repr=False)
    _kept: list[Trainee] = field(default_factory=list, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or "values" not in self.__dict__:
            raise AttributeError(name)
        if name in self.values:
            return self.values[name]
        raise self._absent(name, self.values)

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names in `values`."""
        return tuple(self.values)

    @property
    def networks(self) -> int:
        return len(self.diverged_at)

    @property
    def diverged(self) -> int:
        """How many networks left the finite numbers."""
        return int(np.count_nonzero(self.diverged_at))

    def mean(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        """Mean over the networks and its standard error, at every one of `steps`; NaN where a network has diverged."""
        held = self._held(quantity)
        with np.errstate(over="ignore", invalid="ignore"):  # of losses near the largest double
            error = held.std(axis=0, ddof=1) / np.sqrt(len(held)) if len(held) > 1 else np.full(held.shape[1:], np.nan)
            return held.mean(axis=0), error

    def final(self, quantity: str) -> tuple[Any, Any]:
        """Mean and standard error after the last step, over the networks that did not diverge (see `diverged`):
        numbers, or arrays over layers, classes or inputs where the quantity has them.

        Raises: MeanFieldError where all of them did.
        """
        held = self._held(quantity)[self.diverged_at == 0, -1]
        if not len(held):
            raise MeanFieldError(f"All {self.networks} networks diverged; take a lower rate, or other sigma_w.")
        mean = held.mean(axis=0)
        error = held.std(axis=0, ddof=1) / np.sqrt(len(held)) if len(held) > 1 else np.full(mean.shape, np.nan)
        return (mean, error) if mean.ndim else (float(mean), float(error))

    def _held(self, quantity: str) -> np.ndarray:
        if quantity not in self.values:
            raise unknown("quantity of these networks", quantity, tuple(self.values))
        return self.values[quantity]

    def outputs(self, X: Any) -> np.ndarray:
        """f(X) of every network as it is after the last step, (network, input, output).

        X: inputs like those it was trained on, shifted and scaled as they were. Raises: MeanFieldError for networks
        that were trained without keep_weights=True, and for inputs of another shape.
        """
        if not self._kept:
            raise MeanFieldError("The weights of these networks were not kept; train them with keep_weights=True.")
        ensemble = self._kept[0].layers.ensemble
        x, tokens, numbers = given_inputs(X, 1, None)
        if (tokens, numbers) != (ensemble.tokens, ensemble.fan_in):
            raise MeanFieldError(
                f"X has inputs of {tokens} × {numbers} (tokens × numbers), but the networks were trained on "
                f"{ensemble.tokens} × {ensemble.fan_in}."
            )
        with np.errstate(all="ignore"):
            return np.array([net.outputs(x).copy() for net in self._kept])

    def predicted(self) -> Prediction:
        """`Theory.predict` of the same data, steps and rate: the network linearized at its start, at infinite width.

        Raises: MeanFieldError where there is none, with the reason: for a loss, an optimizer, batches or a readout
        that `predict` does not have.
        """
        assert self._predicted is not None
        return self._predicted.prediction(self.steps)[0]

    def predicted_loss(self, steps: Any = None) -> dict[str, np.ndarray]:
        """The mean over networks of the loss after each of `steps`, as `predicted` has it: "train", and "test" where
        there are test inputs: (1/2N) Σ_a (|mean - y_a|² + C·variance) of C outputs.

        steps: numbers of steps, also infinity; those of the result unless given.
        """
        assert self._predicted is not None
        found, targets = self._predicted.prediction(self.steps if steps is None else np.atleast_1d(steps))
        parts = {"train": found.train, **({"test": found.test} if "test" in targets else {})}
        return {name: _loss(part, targets[name]) for name, part in parts.items()}

    def phase(self) -> str:
        """Phase, χ_J* and depth scale ξ of the network as it starts, at infinite width; "" where they are not known."""
        return "" if self._predicted is None else self._predicted.phase()

    def depth_scale(self, quantity: str = "xi") -> float:
        """ξ ("xi") or χ_J* ("chi_J") at infinite width; NaN where it is not known."""
        choice(quantity, "quantity", ("xi", "chi_J"))
        found = None if self._predicted is None else self._predicted.found_phase
        value = None if found is None else getattr(found, quantity)
        return float("nan") if value is None else float(value)

    def data(self) -> dict[str, Any]:
        """All curves, and how they were made."""
        own = {name: plain(one) for name, one in self.values.items()}
        rates = {repr(k): v for k, v in self.rates.items()}
        return {
            "about": self.about, "steps": plain(self.steps), **own, "diverged_at": plain(self.diverged_at),
            "rate": self.rate, "rates": plain(rates), "classes": plain(self.classes), "message": self.message,
        }  # fmt: skip

    def arrays(self) -> Arrays:
        """All curves over network, step, layer, class and input."""
        axes = {"gradient": ("layer",), "K": ("layer",), "Theta": ("input", "input_b")}
        columns: dict[str, Any] = {}
        for name, one in self.values.items():
            more = ("class",) if name.startswith("class_accuracy") else axes.get(name, ())
            columns[name.replace("/", "_")] = ("network", "step", *more), one
        columns["diverged_at"] = ("network",), self.diverged_at
        coords: dict[str, Any] = {"step": (("step",), self.steps), "network": (("network",), np.arange(self.networks))}
        if "K" in self.values:
            coords["layer"] = ("layer",), np.arange(1, self.values["K"].shape[2] + 1)
        if self.classes:
            coords["class"] = ("class",), np.array(self.classes)
        return Arrays(coords, columns, {"rate": self.rate, "about": self.about})

    def plot(self, ax: Any = None) -> Any:
        """Loss (and accuracy, where there are classes) against the step: mean over the networks, a band of ± 2 standard
        errors, and what the theory says beside it: the predicted loss, dashed, or phase and depth scale of the network
        as it starts. ax: Axes, or two of them. Returns: the Axes."""
        from meanfield.training.training_figures import plot_training

        return plot_training(self, ax)

    def __repr__(self) -> str:
        lost = f", {self.diverged} diverged" if self.diverged else ""
        return one_line("Training", f"{self.networks} networks, {self.steps[-1]} steps of rate {self.rate:g}{lost}")

    def __str__(self) -> str:
        lines = [self.about, f"rate {self.rate:g}, {self.networks} networks, {self.diverged} diverged"]
        if self.rates:
            tried = ", ".join(f"{k:g}: {v:.4g}" for k, v in self.rates.items())
            lines.append(f"loss on the held-out tenth by rate: {tried}")
        if self.classes and "mse" in self.about.split(", "):
            lines.append(f"targets: one-hot rows of {len(self.classes)} labels (floats and (n, k) arrays are targets)")
        names = [n for n in self.values if n.split("/")[0] in SHOWN]
        lines.append(f"{'step':>8}" + "".join(f"  {name:>20}" for name in names[:3]))
        chosen = sorted({round(k * (len(self.steps) - 1) / 4) for k in range(5)})
        means = {name: self.mean(name) for name in names[:3]}
        for k in chosen:
            cells = [with_error(m[k], e[k]) for m, e in means.values()]
            lines.append(f"{self.steps[k]:>8}" + "".join(f"  {c:>20}" for c in cells))
        return wrapped("\n".join([*lines, *[f"({self.message}.)"] * bool(self.message)]))


def with_error(mean: float, error: float) -> str:
    """A number as it is printed, with its standard error where it has one."""
    return f"{mean:.4g} ± {error:.1g}" if np.isfinite(error) else f"{mean:.4g}"


def _loss(part: Prediction, y: np.ndarray) -> np.ndarray:
    miss = np.square(part.mean - y).sum(axis=2) + y.shape[1] * part.variance
    return miss.mean(axis=1) / 2
