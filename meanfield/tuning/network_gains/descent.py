"""`method="gradient"`: the descent of a tuning loss by gains, of a theory or through one drawn network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from meanfield.tuning.network_gains.instance import Tape
from meanfield.tuning.network_gains.sweep import Drive

BEYOND = 30.0  # times the own-layer terms of a gradient, where it has exploded
PATIENCE = 100  # steps without a new lowest loss after which the descent has ended
FLOOR = 3.0  # times the loss that noise alone makes, at which there is nothing left to be seen
WINDOW = 20  # steps over which a noisy loss is averaged
WORSE = 30.0  # times the first loss, where the descent has diverged
Evaluated = tuple[float, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # loss, gradient, log J, K, s.e. of log J


@dataclass
class Descended:
    """Where a descent ended: the gains of the lowest loss, the trace, and why it stopped."""

    gains: np.ndarray
    trace: list[dict[str, float]]
    status: str
    message: str


def descend(
    evaluate: Callable[[np.ndarray, int], Evaluated],
    gains: np.ndarray,
    *,
    rate: float | np.ndarray,
    steps: int,
    tolerance: float,
    decides: Callable[[np.ndarray], str] = lambda _: "",
    progress: Callable[[int, int], None] | None = None,
) -> Descended:
    """Gains behind steps a → a − rate ∂loss/∂a, until the loss is below `tolerance` or below what noise makes of it.

    evaluate(gains, step): loss, gradient, log J of every block, K, standard errors of log J. decides(gains): a sentence
    about rates, for a descent that diverged.
    """
    trace: list[dict[str, float]] = []
    first, best, lowest, since = math.nan, gains.copy(), math.inf, 0
    floors: list[float] = []
    visited: list[np.ndarray] = []
    for step in range(steps + 1):
        with np.errstate(all="ignore"):
            loss, slope, log_J, _, error = evaluate(gains, step)
        floor = 0.5 * float((error**2).sum())
        largest = float(np.abs(slope).max()) if np.isfinite(slope).all() else math.inf
        own = float((2 * np.abs(log_J) / np.abs(gains[1:, :, 0]).max(axis=1)).max()) if len(log_J) else 0.0
        trace.append({"step": step, "loss": loss, "worst": float(np.abs(log_J).max()), "gradient": largest})
        if progress is not None:
            progress(step, steps)
        if step == 0:
            first = loss
        if loss < lowest:
            best, lowest, since = gains.copy(), loss, 0
        else:
            since += 1
        if loss <= tolerance:
            return Descended(gains, trace, "tuned", f"loss {loss:.3g} after {step} steps")
        floors.append(floor)
        visited = [*visited[1 - WINDOW :], gains]
        if floor > tolerance and _at_the_floor(trace, floors):
            why = (
                f"the loss is that of noise after {step} steps ({np.mean(floors[-WINDOW:]):.2g} of "
                f"{_mean_loss(trace, 0):.2g}): gains are means over {WINDOW} steps, more probes see further"
            )
            return Descended(np.mean(visited, axis=0), trace, "tuned", why)
        if not math.isfinite(largest) or largest > BEYOND * max(own, 1e-9):
            return Descended(
                best,
                trace,
                "exploded",
                f"the gradient exploded at step {step}: {largest:.3g} beside {own:.3g} from the layers' own terms, as "
                "in a chaotic network, where a change of one layer grows with depth; take method='sweep'",
            )
        if not loss < WORSE * max(first, tolerance):
            return Descended(
                best,
                trace,
                "not converged",
                f"the descent diverged at step {step}: {decides(best)}a smaller rate helps",
            )
        if since >= PATIENCE:
            break
        gains = gains - rate * slope
        if (gains[..., 0] <= 0).any():
            return Descended(
                best, trace, "not converged", f"a gain fell below 0 at step {step}: {decides(best)}a smaller rate helps"
            )
    return Descended(
        best, trace, "not converged", f"the lowest loss of {len(trace) - 1} steps is {lowest:.3g}; {decides(best)}"
        "take more steps or another rate"
    )


def sentences(rate: float | np.ndarray) -> str:
    """A rate, or the range of those of the layers."""
    return f"{rate:.4g}" if np.ndim(rate) == 0 else f"{np.min(rate):.4g} to {np.max(rate):.4g}"


def _mean_loss(trace: list[dict[str, float]], back: int) -> float:
    """Over the last window but `back`."""
    end = len(trace) - back * WINDOW
    return float(np.mean([one["loss"] for one in trace[end - WINDOW : end]]))


def _at_the_floor(trace: list[dict[str, float]], floors: list[float]) -> bool:
    """Whether a noisy loss has stopped falling within a few times what noise alone makes."""
    if len(trace) < 2 * WINDOW:
        return False
    now = _mean_loss(trace, 0)
    return now <= FLOOR * float(np.mean(floors[-WINDOW:])) and now > 0.9 * _mean_loss(trace, 1)


def through_network(
    d: Drive, gains: np.ndarray, step: int, loss: str, lam: float, within: np.ndarray | None = None
) -> Evaluated:
    """The loss of one drawn network and its gradient by the gains: probes of every block are pushed, and taken back.

    Probes are drawn anew at each step unless J is exact. within: which blocks the loss is over, all unless given.
    """
    instance, depth = d.instance, len(gains)
    z = instance.block(1, d.inputs, None, gains[0])[0]
    plain = gains[0].copy()
    plain[:, 1] = 0.0
    weighed = instance.block(1, d.inputs, None, plain)[0] if gains[0, 0, 1] else z
    layers, pushed, J, errors = [z], [], [], []
    tapes: list[Tape] = []
    for layer in range(2, depth + 1):
        rows = d.directions(layer - 1, z) if d.probes is None else d.fresh(layer - 1, z, step)
        z, behind, tape = instance.block(layer, z, rows, gains[layer - 1], tape=True)
        assert behind is not None and tape is not None
        each = (behind * behind).mean(axis=(1, 2))
        J.append(float(each.mean()))
        errors.append(0.0 if d.probes is None else _error(each))
        layers.append(z)
        tapes.append(tape)
        pushed.append(behind)
    values = np.array(J)
    K = np.array([float((one * one).mean()) for one in layers])
    if not (np.isfinite(values).all() and (values > 0).all() and (K > 0).all()):
        return math.inf, np.full_like(gains, math.nan), np.full(depth - 1, math.inf), K, np.zeros(depth - 1)
    taken = np.ones(depth - 1) if within is None else within.astype(float)
    log_J, growth = taken * np.log(values), taken * np.diff(np.log(K))
    by_J = taken * (values - 1) if loss == "JSL" else log_J / values
    total = 0.5 * float((by_J**2).sum() if loss == "JSL" else (log_J**2).sum())
    steps = lam * growth if loss == "JKL" else np.zeros(depth - 1)
    if loss == "JKL":
        total += 0.5 * lam * float((growth**2).sum())
    slope, z_bar = np.zeros_like(gains), np.zeros_like(z)
    for at in range(depth - 1, 0, -1):  # the block that makes layer at + 1
        over = steps[at - 1] - (steps[at] if at < depth - 1 else 0.0)
        z_bar = z_bar + over / K[at] * 2 * layers[at] / layers[at].size
        t_bar = by_J[at - 1] * 2 * pushed[at - 1] / pushed[at - 1].size
        z_bar, _, slope[at] = instance.reverse(tapes[at - 1], z_bar, t_bar, gains[at])
    z_bar = z_bar - steps[0] / K[0] * 2 * layers[0] / layers[0].size
    slope[0, 0, 0] = float((z_bar * weighed).sum()) / gains[0, 0, 0]
    if gains[0, 0, 1]:
        slope[0, 0, 1] = float((z_bar * (layers[0] - weighed)).sum()) / gains[0, 0, 1]
    return total, slope, log_J, K, np.array(errors)


def _error(each: np.ndarray) -> float:
    """Standard error of log J from its probes."""
    return float(each.std(ddof=1) / each.mean() / math.sqrt(len(each))) if len(each) > 1 else 1.0
