"""Trainings that the claims are judged by: sizes, seeds and data, quick or full; each is run once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import meanfield as mf


@dataclass(frozen=True)
class Scale:
    """How much is trained. networks: of each point; depths, squares: of the maps of [partial_jacobians]; pairs: of
    orthogonal and Gaussian networks; steps: of them."""

    networks: int
    depths: tuple[int, ...]
    width: int
    steps: int
    pairs: int

    def __str__(self) -> str:
        return f"{self.networks} networks a point, depths {self.depths}, width {self.width}, {self.steps} steps"


QUICK = Scale(networks=2, depths=(6, 12, 24, 48), width=50, steps=100, pairs=4)
FULL = Scale(networks=4, depths=(8, 16, 32, 48, 64), width=100, steps=150, pairs=8)
SQUARES = (0.6, 1.0, 1.4, 1.7, 2.0, 2.5, 3.2, 4.0)  # σ_w² of the trainable depths
BIAS = 0.05**0.5  # their σ_b
EDGE = {"tanh": (1.2, 2.0, 5.0), "relu": (1.2, 2.0, 2.6)}  # σ_w² below, at and above the edge at σ_b² = 0.1


@cache
def data(kind: str = "digits") -> Any:
    """Digits; "odd": odd or even; "tokens": as 16 tokens of 4 pixels; "300", "600": so many for training."""
    held = mf.data.digits()
    if kind.isdigit():
        return held.take(int(kind))
    return {"digits": held, "odd": held.odd_even(), "tokens": held.patches()}[kind]


@cache
def trained(network: Any, kind: str = "digits", **settings: Any) -> mf.training.Training:
    """`mf.train` of hashable arguments, once; a tuple of σ's is one for each layer."""
    given: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in settings.items()}
    return mf.train(network, data(kind), **given)


# -------------------------------------------------------------------------------------- trainable depth and correlation


@cache
def depths_map(scale: Scale) -> mf.training.TrainabilityMap:
    """tanh at σ_b² = .05: accuracy over σ_w² and depth, the better of two rates."""
    return mf.trainability(
        "tanh", data(), axes={"sigma_w": np.sqrt(SQUARES), "depth": scale.depths}, sigma_b=BIAS, width=scale.width,
        steps=scale.steps, batch=128, rate=[0.05, 0.2], networks=scale.networks, records=2,
    )  # fmt: skip


def trainable_depth(scale: Scale) -> np.ndarray:
    """At each σ_w² the depth up to which the accuracy on training inputs is above ½, between two depths by a straight
    line; beyond the last one with the accuracy there, so that depths that all train are told apart."""
    found = depths_map(scale)
    accuracy, out = found.mean("accuracy/train"), []
    for row in accuracy:
        below = np.flatnonzero(row < 0.5)
        if not below.size:
            out.append(scale.depths[-1] * (0.5 + row[-1]))
        elif below[0] == 0:
            out.append(scale.depths[0] * row[0])
        else:
            k = below[0]
            share = (row[k - 1] - 0.5) / (row[k - 1] - row[k])
            out.append(scale.depths[k - 1] + share * (scale.depths[k] - scale.depths[k - 1]))
    return np.array(out)


def rank_correlation(a: Any, b: Any) -> float:
    """Spearman's; equal numbers share a rank."""
    from scipy.stats import spearmanr

    return float(spearmanr(a, b).statistic)


def depth_scales(phi: str) -> np.ndarray:
    """ξ of φ at the same σ's."""
    theory = mf.derive(phi)
    return np.array([float(theory.phase(sigma_w=s**0.5, sigma_b=BIAS).xi) for s in SQUARES])


# ---------------------------------------------------------------------------------------------------------- class bias


def of_bias(scale: Scale, phi: str, square: float, **more: Any) -> mf.training.Training:
    """A network of 30 layers at σ_b² = .1, trained by Adam, as the paper trains."""
    return trained(
        phi, sigma_w=square**0.5, sigma_b=0.1**0.5, depth=30, width=2 * scale.width, steps=100, batch=100,
        networks=scale.networks, optimizer="adam", rate=1e-3, records=(20, 50), **more,
    )  # fmt: skip


def after(run: mf.training.Training, quantity: str, step: int) -> float:
    """The mean over networks after a number of steps that was recorded."""
    return float(run[quantity][:, run.steps.tolist().index(step)].mean())


# ------------------------------------------------------------------------------------------------- falling variances


def falling(phi: str, **betas: str) -> Any:
    """A full residual network whose variances fall with depth."""
    return mf.architectures.full_residual(phi, sigma_w=1, sigma_b=1, sigma_v=1, sigma_a=1, **betas)


@cache
def of_falling(phi: str, blocks: int, betas: tuple[tuple[str, str], ...], rate: float, networks: int) -> float:
    """Accuracy on test inputs after 100 steps at that rate; of networks that diverge, that of guessing."""
    run = mf.train(
        falling(phi, **dict(betas)), data("600"), depth=blocks + 2, width=64, steps=100, batch=60, networks=networks,
        rate=rate, records=1,
    )  # fmt: skip
    return float(np.nan_to_num(run["accuracy/test"][:, -1], nan=0.1).mean())


@cache
def log_p(phi: str, blocks: int, betas: tuple[tuple[str, str], ...]) -> float:
    """log of the mean square of the last layer, at the norm of the digits."""
    norm = float(np.square(data("600").X).mean())
    run = mf.derive(architecture=falling(phi, **dict(betas))).propagate(depth=blocks + 1, input_norm=norm)
    return float(np.log(run.K[-1]))


ZIG = tuple((blocks, (("beta_w", b), ("beta_b", b))) for blocks in (8, 16, 32) for b in ("0", "1/4", "1/2", "1", "3/2"))


@cache
def zig(rate: float, networks: int) -> tuple[np.ndarray, np.ndarray]:
    """(log p, accuracy) of ReLU at the places of the zig."""
    return (
        np.array([log_p("relu", *place) for place in ZIG]),
        np.array([of_falling("relu", *place, rate, networks) for place in ZIG]),
    )


def critical_log_p(rate: float, networks: int) -> float:
    """The log p between networks that train at that rate and those that do not, where as few as can be are on the
    wrong side."""
    size, accuracy = zig(rate, networks)
    order = np.sort(size)
    places = (order[:-1] + order[1:]) / 2
    wrong = [np.count_nonzero((size < place) != (accuracy > 0.4)) for place in places]
    return float(np.mean(places[np.array(wrong) == min(wrong)]))


# ------------------------------------------------------------------------------------------- orthogonal and Gaussian


def of_law(scale: Scale, weights: str, hidden: int, **more: Any) -> mf.training.Training:
    """n = 30, 300 digits, critical C_W, scaled descent with λ_W = 1, λ_b = 1/l."""
    own: dict[str, Any] = dict(loss="mse", optimizer="scaled", rate=1.0, sigma_w=1.0, steps=scale.steps, phi="tanh")
    own |= more
    if own["optimizer"] == "scaled":
        own = dict(lambda_w=1, lambda_b="1/l") | own
    phi = own.pop("phi")
    return trained(
        phi, "300", weights=weights, sigma_b=0, depth=hidden + 1, width=30, networks=scale.pairs, records=20, **own
    )  # fmt: skip


LAWS = ("orthogonal", "gaussian")


def end_losses(scale: Scale, hidden: int, **more: Any) -> dict[str, np.ndarray]:
    """The test loss of every network after the last step, by the law of its weights."""
    return {law: of_law(scale, law, hidden, **more)["loss/test"][:, -1] for law in LAWS}


def moved(scale: Scale, hidden: int, loss: float) -> dict[str, np.ndarray]:
    """The relative change of Θ of every network when its training loss first falls below `loss`; NaN where it never
    does."""
    out = {}
    for law in LAWS:
        run = of_law(scale, law, hidden, theta_inputs=3)
        below = run["loss/train"] < loss
        first = below.argmax(axis=1)
        held = run["Theta_change"][np.arange(len(first)), first]
        out[law] = np.where(below.any(axis=1), held, np.nan)
    return out


# ------------------------------------------------------------------------------------------------------------- tuning


@cache
def gains(sigma_w: float, depth: int = 48) -> tuple[float, ...]:
    """σ_w of every layer with which `tune` makes J^{l,l+1} = 1 at infinite width."""
    return tuple(mf.tune("tanh", depth=depth, sigma_w=sigma_w, sigma_b=0).sigma[:, 0, 0].tolist())
