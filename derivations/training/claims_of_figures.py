"""One claim a figure: what is seen of it at a reduced scale, and what must not be seen in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import meanfield as mf
from derivations.claims import Claim, network
from derivations.comparisons import Holds
from derivations.training.experiments import (
    EDGE,
    LAWS,
    QUICK,
    Scale,
    after,
    critical_log_p,
    depth_scales,
    end_losses,
    gains,
    moved,
    of_bias,
    of_falling,
    of_law,
    rank_correlation,
    trainable_depth,
    trained,
    zig,
)

ONE = network("tanh")
ACCURACY, LOSS, CLASSES, CHANGE = "training accuracy", "test loss", "largest class", "change of Theta"


def claims(scale: Scale = QUICK) -> tuple[Claim, ...]:
    """The claims of all figures."""

    def held(source: str, quantity: str, printed: Any, contrast: Any, of: Callable[..., bool], **more: Any) -> Claim:
        phi = network(more.pop("phi", "tanh"))
        return Holds(f"[{source}", phi, quantity, printed, contrast, of=lambda what: of(scale, what), **more)

    return (
        held("partial_jacobians] Figs. 3, 8", ACCURACY, "tanh", "tanh(z/4)", depth_follows),
        held("partial_jacobians] Fig. 3, LayerNorm", ACCURACY, 1, 0, trains_everywhere, phi="relu"),
        held("partial_jacobians] Fig. 6", ACCURACY, "pre", None, trains_at_large_sigma, phi="erf"),
        held("partial_jacobians] Fig. 9", ACCURACY, "pre", None, trains_over_decades, phi="erf"),
        held("partial_jacobians] Fig. 4", ACCURACY, 1, "1/2", mixer_trains_far_out, phi="gelu"),
        held("bias_and_trainability] Fig. 5", CLASSES, 2.0, 5.0, biased_and_absorbed),
        held("bias_and_trainability] Figs. 7, 9", ACCURACY, 2.0, 5.0, first_of("tanh")),
        held("bias_and_trainability] Figs. 6, 8", ACCURACY, 2.0, 2.6, first_of("relu"), phi="relu"),
        held("bias_and_trainability] Fig. 10", CLASSES, True, False, absorbed_alike("relu"), phi="relu"),
        held("bias_and_trainability] Fig. 11", CLASSES, True, False, absorbed_alike("tanh")),
        held("variance_variation] Fig. 2 (a), (c)", ACCURACY, 0.01, 1e-5, p_decides, phi="relu"),
        held("variance_variation] Fig. 2, one line", ACCURACY, 0.0, 1.8, line_moves, phi="relu", misprint=True),
        held("variance_variation] Fig. 2 (b), (d)", ACCURACY, 1, -1, zag_rises, phi="relu"),
        held("variance_variation] Fig. 3", ACCURACY, 0.1, 0.0, sweep_differs, misprint=True),
        held("orthogonal_weights] Figs. 4, 5", LOSS, "orthogonal", "gaussian", smaller_in_each),
        held("orthogonal_weights] Figs. 6, 7", LOSS, "orthogonal", "gaussian", no_worse_deeper),
        held("orthogonal_weights] Figs. 8, 9", CHANGE, "orthogonal", "gaussian", moves_less),
        held("orthogonal_weights] Fig. 15", LOSS, 0.1, 1.0, deep_does_not_train),
        held("orthogonal_weights] Fig. 16", LOSS, 10.0, 1.0, diverges_at),
        held("orthogonal_weights] Fig. 17", LOSS, "relu", "tanh", hardly_differs, phi="relu"),
        held("orthogonal_weights] Fig. 18", LOSS, (5, 30), (30, 5), alike_then_better(optimizer="sgd", rate=1 / 30)),
        held("orthogonal_weights] Fig. 19", LOSS, (5, 30), (30, 5), alike_then_better(optimizer="adam", rate=1e-3)),
        held("orthogonal_weights] Fig. 20", LOSS, "orthogonal", "gaussian", learns_with_sigmoids),
        held("autoinit] Figs. 3, 4", ACCURACY, "tuned", "plain", tuning_decides),
        held("autoinit] Fig. 3", ACCURACY, "1/10", 3, small_branches_train, phi="gelu"),
    )


# -------------------------------------------------------------------------------------------------- partial Jacobians


def depth_follows(scale: Scale, phi: str) -> bool:
    """The trainable depth of tanh over σ_w² has the ranks of ξ of φ (correlation ≥ .8)."""
    return rank_correlation(trainable_depth(scale), depth_scales(phi)) >= 0.8


def trains_everywhere(scale: Scale, mu: object) -> bool:
    """ReLU behind LayerNorm, 30 layers, trains at σ_w = σ_b = .5, 2 and 8 with that skip."""
    found = [
        trained(
            "relu", norm="pre", residual=True, mu=mu, sigma_w=s, sigma_b=s, depth=30, width=scale.width, batch=128,
            steps=2 * scale.steps, networks=scale.networks, rate=(0.2, 0.5), records=1,
        )
        for s in (0.5, 2.0, 8.0)
    ]  # fmt: skip
    return all(float(np.nan_to_num(run["accuracy/train"][:, -1]).mean()) >= 0.75 for run in found)


def _of_erf(scale: Scale, norm: str | None, square: float, rate: Any) -> float:
    run = trained(
        "erf", norm=norm, sigma_w=square**0.5, sigma_b=0, depth=12, width=scale.width, batch=128, steps=scale.steps,
        networks=scale.networks, rate=rate, optimizer="scaled", records=1,
    )  # fmt: skip
    return float(np.nan_to_num(run["accuracy/train"][:, -1]).mean())


def trains_at_large_sigma(scale: Scale, norm: str | None) -> bool:
    """At σ_w² = 10 and 30, with the rate that is best at 1."""
    rates = (0.03, 0.1, 0.3)
    best = max(rates, key=lambda rate: _of_erf(scale, norm, 1.0, rate))
    return all(_of_erf(scale, norm, square, best) >= 0.6 for square in (10.0, 30.0))


def trains_over_decades(scale: Scale, norm: str | None) -> bool:
    """At σ_w² = 1, 30 and 1000, each with the best of several rates."""
    rates = (1e-4, 1e-3, 1e-2, 1e-1)
    return all(max(_of_erf(scale, norm, square, rate) for rate in rates) >= 0.6 for square in (1.0, 30.0, 1000.0))


def mixer_trains_far_out(scale: Scale, mu: object) -> bool:
    """A Mixer of 30 blocks at (σ_w², σ_b²) = (10, 10)."""
    run = trained(
        mf.architectures.mlp_mixer("gelu", mu=mu), "tokens", sigma_w=10**0.5, sigma_b=10**0.5, depth=30, width=16,
        steps=60, batch=64, networks=1, rate=0.1, records=1,
    )  # fmt: skip
    return run.final("accuracy/test")[0] >= 0.35


# ------------------------------------------------------------------------------------------------------------- bias


def biased_and_absorbed(scale: Scale, square: float) -> bool:
    """Most inputs are assigned to one class at the start, and about a tenth of them after 100 steps."""
    run = of_bias(scale, "tanh", square)
    start, end = run["largest_class/test"][:, [0, -1]].mean(axis=0)
    return start > 0.5 and end < 0.2 and run.final("accuracy/test")[0] > 0.8


def first_of(phi: str) -> Callable[[Scale, float], bool]:
    """Whether after 50 steps networks at that σ_w² are ahead of those on both sides of the edge."""

    def ahead(scale: Scale, square: float) -> bool:
        found = {s: after(of_bias(scale, phi, s), "accuracy/test", 50) for s in EDGE[phi]}
        return all(found[square] > one + 0.1 for s, one in found.items() if s != square)

    return ahead


def absorbed_alike(phi: str) -> Callable[[Scale, bool], bool]:
    """Whether odd and even digits are told apart after 50 steps at every σ_w², though one class has most at first."""

    def alike(scale: Scale, residual: bool) -> bool:
        runs = [of_bias(scale, phi, s, kind="odd", residual=residual) for s in (0.5, 1.0, 2.0, 4.0)]
        start = max(run["largest_class/test"][:, 0].mean() for run in runs)
        return bool(start > 0.75) and all(after(run, "largest_class/test", 50) < 0.62 for run in runs)

    return alike


# ------------------------------------------------------------------------------------------------- falling variances


def p_decides(scale: Scale, rate: float) -> bool:
    """At one rate p divides networks that train from those that do not: nothing beyond log p = 5 trains, all below
    3.6 do."""
    size, accuracy = zig(rate, scale.networks)
    return bool((accuracy[size > 5] < 0.3).all() and (accuracy[size < 3.6] > 0.5).all())


def line_moves(scale: Scale, slope: float) -> bool:
    """The critical log p rises with -log η at that slope, within ½, from η = 1e-2 to 1e-3 (0: one line for all)."""
    found = (critical_log_p(1e-3, scale.networks) - critical_log_p(1e-2, scale.networks)) / np.log(10)
    return bool(abs(found - slope) <= 0.5)


def zag_rises(scale: Scale, sign: int) -> bool:
    """Accuracy at η = 1e-3 after 48 blocks rises with β_a, as χ_v does."""
    betas = ("0", "1/2", "1", "2")
    held = [(("beta_w", "2"), ("beta_b", "2"), ("beta_a", b)) for b in betas]
    accuracy = [of_falling("relu", 48, one, 1e-3, scale.networks) for one in held]
    return sign * rank_correlation(range(len(betas)), accuracy) >= 0.8


def sweep_differs(scale: Scale, spread: float) -> bool:
    """tanh with all β equal, 0 to 1, 48 blocks: accuracies at η = 1e-2 differ by at least `spread`."""
    held = [tuple((f"beta_{one}", b) for one in "wbva") for b in ("0", "1/2", "1")]
    accuracy = [of_falling("tanh", 48, one, 1e-2, scale.networks) for one in held]
    return max(accuracy) - min(accuracy) >= spread


# ------------------------------------------------------------------------------------------- orthogonal and Gaussian


def _other(law: str) -> str:
    return LAWS[1 - LAWS.index(law)]


def smaller_in_each(scale: Scale, law: str) -> bool:
    """The test loss at 30 hidden layers is smaller in each pair of networks."""
    found = end_losses(scale, 30)
    return bool((found[law] < found[_other(law)]).all())


def no_worse_deeper(scale: Scale, law: str) -> bool:
    """The test loss at 30 hidden layers is not above that at 5."""
    return bool(end_losses(scale, 30)[law].mean() < 1.1 * end_losses(scale, 5)[law].mean())


def moves_less(scale: Scale, law: str) -> bool:
    """Θ has moved less at equal training loss: of 5 hidden layers at .33, of 30 at .42."""
    for hidden, loss in ((5, 0.33), (30, 0.42)):
        found = moved(scale, hidden, loss)
        if not np.isfinite([*found["orthogonal"], *found["gaussian"]]).all():
            return False
        if not found[law].mean() < found[_other(law)].mean():
            return False
    return True


def deep_does_not_train(scale: Scale, square: float) -> bool:
    """At that C_W 30 hidden layers stay at the loss of outputs 0, and both laws end within 1 % of each other."""
    found = end_losses(scale, 30, sigma_w=square**0.5)
    nothing = of_law(scale, "gaussian", 30, sigma_w=0.1**0.5)["loss/test"][:, -1].mean()
    means = [found[law].mean() for law in LAWS]
    return bool(abs(means[0] / means[1] - 1) < 0.01 and min(means) > 0.99 * nothing)


def diverges_at(scale: Scale, square: float) -> bool:
    """At the rate 2 losses of some networks end beyond 100, Gaussian ones of 5 hidden layers in at least half."""
    found = end_losses(scale, 5, sigma_w=square**0.5, rate=0.5 if square == 1.0 else 2.0)
    return bool((np.nan_to_num(found["gaussian"], nan=np.inf) > 100).mean() >= 0.5)


def hardly_differs(scale: Scale, phi: str) -> bool:
    """Orthogonal weights are at most mildly better at 30 hidden layers: by less than 15 % of the loss."""
    more = dict(phi=phi, sigma_w=2**0.5, lambda_w=1 / 31, lambda_b=1 / 31) if phi == "relu" else dict(phi=phi)
    found = end_losses(scale, 30, **more)
    return bool(np.nanmean(found["gaussian"]) < 1.15 * np.nanmean(found["orthogonal"]))


def alike_then_better(**more: Any) -> Callable[[Scale, tuple[int, int]], bool]:
    """Whether both laws are alike (within 25 %) at the first depth, and orthogonal better by more at the second."""

    def found(scale: Scale, depths: tuple[int, int]) -> bool:
        both = [end_losses(scale, hidden, **more) for hidden in depths]
        ratios = [one["gaussian"].mean() / one["orthogonal"].mean() for one in both]
        return bool(ratios[0] < 1.25 < ratios[1])

    return found


def learns_with_sigmoids(scale: Scale, law: str) -> bool:
    """With cross-entropy of sigmoids 30 hidden layers get below the loss of constant outputs, 3.25."""
    run = of_law(scale, law, 30, loss="sigmoid_cross_entropy", rate=5.0)
    return bool(run["loss/train"][:, -1].mean() < 3.15)


# ------------------------------------------------------------------------------------------------------------- tuning


def tuning_decides(scale: Scale, how: str) -> bool:
    """tanh networks of 48 layers from σ_w = .5, 2 and 4, with the gains of `tune` or as they are, train."""
    found = []
    for sigma in (0.5, 2.0, 4.0):
        run = trained(
            "tanh", sigma_w=gains(sigma) if how == "tuned" else sigma, sigma_b=0, depth=48, width=2 * scale.width,
            steps=100, batch=128, networks=scale.networks, rate=0.02, records=1,
        )  # fmt: skip
        found.append(run.final("accuracy/train")[0])
    return all(one > 0.5 for one in found)


def small_branches_train(scale: Scale, factor: object) -> bool:
    """A ResMLP of 8 blocks with that LayerScale trains."""
    run = trained(
        mf.architectures.resmlp("gelu", scale=factor), "tokens", sigma_w=1, sigma_b=0, depth=8, width=16, steps=120,
        batch=64, networks=1, rate=1.0, records=1,
    )  # fmt: skip
    return float(np.nan_to_num(run["accuracy/test"][:, -1]).mean()) > 0.6


CLAIMS = claims()
