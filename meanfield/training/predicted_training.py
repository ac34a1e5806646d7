"""What the theory says of a network that is trained, and what else is to be said of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.errors import MeanFieldError
from meanfield.data.sets import shuffled
from meanfield.empirical.training.passes import Trainee
from meanfield.networks.folds import activations_of
from meanfield.prediction.trained import Prediction
from meanfield.symbolic.recursions.naming import describe
from meanfield.theory.derivation import theory_and_values
from meanfield.theory.theory import Theory
from meanfield.training.prepared import Prepared

SAMPLE = 400  # training inputs that say which rates are stable


@dataclass(frozen=True, eq=False)
class PredictedTraining:
    """asked: a training; rate: the one that was taken."""

    prepared: Prepared
    rate: float

    @cached_property
    def theory(self) -> Theory:
        return theory_and_values(self.prepared.network, self.prepared.parameters)[0]

    @property
    def about(self) -> str:
        """What was trained on what, and how."""
        plan = self.prepared.plan
        ensemble = plan.layers.ensemble
        whole = plan.batch == len(plan.parts["train"])
        how = f"{plan.optimizer}, {plan.loss}, {'full batch' if whole else f'batch {plan.batch}'}"
        sigmas = ", ".join(
            f"{n} = {self.prepared.settings[n]}"
                for n in ("sigma_w", "sigma_b") if self.prepared.settings[n] is not None
        )
        sizes = sorted(set(ensemble.widths[:-1]))
        width = str(sizes[0]) if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        of = f"{describe(self.prepared.record.block)}, {sigmas}, depth {ensemble.depth}, width {width}"
        return f"{of}; {self.prepared.data.name}; {how}"

    @property
    def why_not(self) -> str:
        """Why nothing predicts the outputs; "" where something does."""
        plan = self.prepared.plan
        reasons = {
            "predict has the loss mse in closed form": plan.loss == "mse",
            f"{plan.optimizer} is no gradient descent": plan.optimizer in ("sgd", "scaled"),
            "predict takes all inputs in every step": plan.batch == len(plan.parts["train"]),
            "predict has no warm-up": not plan.warmup,
            "predict has no readout of its own": self.prepared.own_head,
            "predict has no tokens": plan.layers.ensemble.tokens == 1,
            "no formula of the activation is known": self._readable,
        }
        return next((why for why, holds in reasons.items() if not holds), "")

    @property
    def _readable(self) -> bool:
        try:
            return bool(activations_of(self.theory.block))
        except MeanFieldError:
            return False

    def prediction(self, steps: np.ndarray) -> tuple[Prediction, dict[str, np.ndarray]]:
        """(`Theory.predict` of the same descent, the targets of its parts); raises `MeanFieldError`."""
        if self.why_not:
            raise MeanFieldError(f"There is no prediction of these outputs: {self.why_not}.")
        plan, settings = self.prepared.plan, self.prepared.settings
        rates: dict[str, Any] = {k: settings[k] for k in ("lambda_w", "lambda_b") if settings[k] is not None}
        if plan.optimizer == "sgd":  # a step of η of w itself: λ_w is the fan-in
            fan_ins = [one.shape[1] for name, one, _ in plan.layers.held() if name.name == "W"]
            rates = {"lambda_w": fan_ins, "lambda_b": 1}
        if not plan.layers.biases:
            rates["lambda_b"] = 0
        layered = any(np.ndim(settings[k]) for k in ("sigma_w", "sigma_b")) or any(np.ndim(v) for v in rates.values())
        if layered:  # one number a layer, of each
            rates = {k: np.broadcast_to(v, plan.layers.ensemble.depth).tolist() for k, v in rates.items()}
        test = plan.parts.get("test")
        parameters = theory_and_values(self.prepared.network, self.prepared.parameters)[1]
        found = self.theory.predict(
            plan.parts["train"].x, plan.parts["train"].y, None if test is None else test.x, t=steps, rate=self.rate,
            depth=plan.layers.ensemble.depth, layerwise=layered, sigma_w=settings["sigma_w"],
            sigma_b=settings["sigma_b"], **rates, **parameters,
        )  # fmt: skip
        return found, {k: plan.parts[k].y for k in ("train", "test") if k in plan.parts}

    @cached_property
    def found_phase(self) -> Any:
        """`Theory.phase` of the network as it starts, at the mean norm of the training inputs; None if not known."""
        settings, x = self.prepared.settings, self.prepared.plan.parts["train"].x
        try:
            parameters = theory_and_values(self.prepared.network, self.prepared.parameters)[1]
            given = {n: settings[n] for n in ("sigma_w", "sigma_b") if settings[n] is not None}
            return self.theory.phase(input_norm=float(np.square(x).mean()), **given, **parameters)
        except MeanFieldError:
            return None

    def scales(self, name: str, values: np.ndarray) -> np.ndarray:
        """ξ of the same network with other values of one of its settings; NaN where it is not known."""
        found = []
        for value in values.tolist():
            prepared = replace(self.prepared, settings={**self.prepared.settings, name: value})
            phase = PredictedTraining(prepared, self.rate).found_phase
            found.append(np.nan if phase is None or phase.xi is None else float(phase.xi))
        return np.array(found)

    def phase(self) -> str:
        """Phase and depth scale of the network as it starts, "" where they are not known."""
        found = self.found_phase
        if found is None:
            return ""
        xi = "" if found.xi is None else f", xi = {float(found.xi):.3g}"
        return f"{found.name}: chi_J* = {float(found.chi_J):.4g}{xi}"

    def message(self) -> str:
        """What is to be said of the rate: whether gradient descent on square loss is stable with it."""
        plan = self.prepared.plan
        if plan.loss != "mse" or plan.optimizer not in ("sgd", "scaled"):
            return ""
        stable = stable_rate(self.prepared)
        if not self.rate > stable:
            return ""
        return f"the rate {self.rate:g} is above {stable:.3g}, up to which network 0 is stable at its start"


def stable_rate(prepared: Prepared) -> float:
    """2N/λ_max of the tangent kernel of network 0 at its start, on up to 400 training inputs in the order of the seed;
    NaN if it overflows."""
    plan = prepared.plan
    part = plan.parts["train"]
    if len(part) > SAMPLE:
        part = part.taken(shuffled(len(part), plan.seed)[:SAMPLE])
    net = Trainee(plan.layers, plan.seed, 0)
    if plan.optimizer == "sgd":
        net.rates = dict.fromkeys(net.rates, 1.0)
    with np.errstate(all="ignore"):
        largest = net.largest_eigenvalue(part.x)
    return 2 * len(part) / largest if largest > 0 else float("nan")

