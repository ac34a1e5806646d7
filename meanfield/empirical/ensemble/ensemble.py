"""Ensembles of finite-width networks: means with standard errors, and correlators of order 1/n, of any quantity."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.drawing import plot_estimates
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.answers.results import Estimate, MeanFieldError, Status
from meanfield.base.arguments import choice, flag, validated
from meanfield.base.arguments import names as names_of
from meanfield.base.budgets import require_memory
from meanfield.base.words import unknown
from meanfield.empirical.ensemble.ensemble_blocks import BlockStatistics as BlockOfNetworks
from meanfield.empirical.ensemble.ensemble_blocks import MergedBlocks
from meanfield.empirical.ensemble.one_run import Running
from meanfield.empirical.ensemble.scaleout import run_blocks
from meanfield.empirical.functions.registry import ScalarPair
from meanfield.empirical.network.network import SAMPLERS, Ensemble
from meanfield.empirical.network.operations.checks import given_inputs, integer, seed_of
from meanfield.empirical.observables.inputs import Inputs
from meanfield.empirical.observables.measured_correlators import ESTIMATORS, NEEDS
from meanfield.empirical.observables.measurement import MeasurementPlan
from meanfield.empirical.observables.wanted import Measurement, check_plan
from meanfield.networks.records import Block


@dataclass(frozen=True, eq=False)
class EnsembleResult(Numbers):
    """What was measured on an ensemble; `estimate` gives means with standard errors.

    samples, if kept: one row per network, one column per layer. K (one input; the mean over inputs where there are
    several, then also K_ab, the mean over pairs), or K_aa, K_bb, K_ab and distance = K_aa + K_bb − 2 K_ab (two), for
    layers 1..depth; Theta, the diagonal of the tangent kernel averaged over the neurons, for layers 1..depth; log_J for
    layers max(l0, 1)..depth, the logarithm of J^{l0,l} = ‖∂z^l/∂z^{l0}‖²_F/N (−∞ where J is exactly 0).
    diverged_at (with samples): per network, the first layer where a measured number is not finite (an overflow, or a
    norm of equal numbers), 0 if there is none; the samples from that layer on are NaN. `diverged` counts such networks.
    fan_ins: inputs of every Dense, in the columns of G_w: G_w/fan_ins is the theory's G_w.
    summary: block by block, the means and squared deviations that everything is estimated from.

    >>> measured = measure("relu", sigma_w=1.4, sigma_b=0, width=64, depth=3, networks=20)
    >>> measured.quantities, measured["K"].mean.round(2)
    (('K', 'J'), array([1.9 , 2.11, 2.16]))
    """

    width: int
    depth: int
    networks: int
    first_network: int
    seed: int
    input_dimension: int
    input_norm: float
    correlation: float | None
    l0: int
    widths: tuple[int, ...]
    sampler: str
    probes: int | None
    asked: tuple[str, ...]
    diverged: int
    finite_depth: int
    summary: MergedBlocks = field(repr=False)
    diverged_at: np.ndarray = field(repr=False)
    samples: Mapping[str, np.ndarray] = field(repr=False)
    fan_ins: np.ndarray = field(default_factory=lambda: np.ones((1, 1)), repr=False)
    note: str = ""  # what is to be known of the networks, such as that φ is a table

    def __repr__(self) -> str:
        asked = ", ".join(self.asked)
        end = self.finite_depth
        lost = f"; layers end at {end}: networks overflow or normalize equal numbers" if end < self.depth else ""
        note = f"; {self.note}" if self.note else ""
        return f"EnsembleResult({asked}; width {self.width}, depth {self.depth}, {self.networks} networks{lost}{note})"

    def __getattr__(self, name: str) -> Estimate:
        """`measured.K` is `measured.estimate("K")`."""
        if name.startswith("_") or "summary" not in self.__dict__:
            raise AttributeError(name)
        if name not in self.quantities and name not in self._names:
            raise self._absent(name, self.quantities)
        return self.estimate(name)

    def data(self) -> dict[str, Any]:
        """What was measured: layers, means and standard errors of every quantity, and the sizes, as plain values."""
        sizes = ("width", "depth", "networks", "seed", "input_dimension", "input_norm", "correlation", "sampler")
        values = {}
        for name in self._reached:
            found = self.estimate(name)
            pair = {"mean": plain(found.mean), "standard_error": plain(found.standard_error)}
            values[name] = {"layers": plain(self.layers(name)), **pair}
        own = {n: plain(getattr(self, n)) for n in sizes}
        return {**own, "status": self.status.value, "message": self.message, "note": self.note, "values": values}

    @property
    def _reached(self) -> list[str]:
        """The quantities that have a layer, and a mean in doubles."""
        found = []
        for name in self.quantities:
            try:
                self.estimate(name)
            except MeanFieldError:
                continue
            found.append(name)
        return found

    def arrays(self) -> Arrays:
        """Mean and standard error ("K", "K_error") of every quantity over the layer, and over inputs where it has
        such indices; NaN at layers that a quantity does not cover."""
        layers, columns = np.arange(1, self.finite_depth + 1), {}
        for name in self._reached:
            found, own = self.estimate(name), self.layers(name)
            for label, part in ((name, found.mean), (f"{name}_error", found.standard_error)):
                part = np.asarray(part, dtype=float)
                whole = np.full((len(layers), *part.shape[1:]), np.nan)
                whole[np.isin(layers, own)] = part
                columns[label] = ("layer", *(f"{name}_{i}" for i in range(1, part.ndim))), whole
        sizes = {n: getattr(self, n) for n in ("width", "networks", "seed", "sampler")}
        return Arrays({"layer": (("layer",), layers)}, columns, sizes)

    def plot(self, quantities: Sequence[str] | None = None, ax: Any = None) -> Any:
        """Means with bands of two standard errors against the layer; returns the Axes, an array of several."""
        return plot_estimates(self, quantities, ax)

    def __str__(self) -> str:
        head = f"{self.networks} networks of width {self.width} and depth {self.depth}, seed {self.seed}"
        lines = [head, f"{'layer':>7}{'quantity':>12}{'mean':>16}{'+-':>10}"]
        for name in self._reached:
            found, layers = self.estimate(name), self.layers(name)
            for i in sorted({0, len(layers) // 2, len(layers) - 1}):
                mean, error = (np.asarray(x)[i].flat[0] for x in (found.mean, found.standard_error))
                lines.append(f"{layers[i]:>7}{name:>12}{mean:>16.8g}{error:>10.2g}")
        return "\n".join([*lines, *(one for one in (self.note, self.message) if one)])

    @property
    def status(self) -> Status:
        """DIVERGES where networks do not reach the last layer with finite numbers, else MEASURED."""
        return Status.MEASURED if self.finite_depth >= self.depth else Status.DIVERGES

    @property
    def message(self) -> str:
        """Which layers are missing, and why; empty where none is."""
        if self.finite_depth >= self.depth:
            return ""
        if not self.finite_depth:
            return (
                f"networks overflow (or normalize equal numbers) at layer 1 of {self.depth}: nothing was measured; "
                "take a smaller sigma_w, sigma_b or input_norm"
            )
        return (
            f"networks overflow (or normalize equal numbers) at layer {self.finite_depth + 1} of {self.depth}: "
            f"layers 1 to {self.finite_depth} are there; take a smaller depth, sigma_w or sigma_b"
        )

    @property
    def quantities(self) -> tuple[str, ...]:
        """What `estimate` can be asked for; where J is measured, log_J can be asked for too."""
        plain = ["J" if name == "log_J" else name for name in self._names if not name.startswith("_")]
        return (*plain, *(name for name, needs in NEEDS.items() if set(needs) <= set(self.summary.means)))

    @property
    def _names(self) -> list[str]:
        return [name for name in self.summary.means if name != "J"]

    def layers(self, quantity: str) -> np.ndarray:
        """The layers an estimate covers: from l0 ≥ 1 (J, log_J) or 1 (all else) to `finite_depth`, the last layer that
        every network reached with finite numbers; chi, of the block from l to l + 1, ends one layer before."""
        if quantity == "chi":
            return np.arange(1, self.finite_depth)
        return np.arange(max(self.l0, 1) if quantity in ("J", "log_J") else 1, self.finite_depth + 1)

    def estimate(self, quantity: str, l: int | None = None, log_scale: Any = 0.0) -> Estimate:
        """Mean and standard error over the networks, at layer l or on all of `layers(quantity)`.

        Where networks diverge there are fewer layers than `depth`, and the estimate's status is DIVERGES.
        `log_scale` (a number, or one per layer) multiplies J by exp(−log_scale): with the predicted log J the
        prediction is 1 and nothing overflows. "K" also names K_aa. Correlators (V, A, B, D, F, P, Q, R, S, T, U) and
        ratios (c, gamma) come with a jackknife's standard error over blocks of networks; correlators have four input
        indices after the layer, αβγδ of z_iα z_iβ z_jγ z_jδ (V), H_ii;αβ H_jj;γδ (A), H_ij;αβ H_ij;γδ (B),
        z_iα z_iβ H_jj;γδ (D), z_iα z_jβ H_ij;γδ (F), dH_ijj;αβγ z_iδ (P), dH_iij;αβγ z_jδ (Q), ddI_iijj;αβγδ (R), and
        ddII_iijj, ddII_ijij, ddII_ijji (S, T, U).

        Raises `MeanFieldError` for a quantity that was not measured, or at no layer, for a layer that not every network
        reached (a mean over the survivors would be biased), for a J that overflows and for a log_J that is −∞
        somewhere.
        """
        name = {"J": "log_J", "K": "K" if "K" in self.summary.means else "K_aa"}.get(quantity, quantity)
        if quantity not in self.quantities and name not in self._names:
            raise unknown("quantity of this ensemble", quantity, self.quantities)
        layers = self.layers(quantity)
        if l is not None and l not in layers:
            raise MeanFieldError(f"{quantity} at layer {l} is not available: {self._covered(layers)}.")
        if not layers.size:
            raise MeanFieldError(f"{quantity} is not available: {self._covered(layers)}.")
        if quantity in NEEDS:
            mean, error = self._correlator(quantity)
        elif quantity == "J":
            mean, error = self._jacobian(log_scale)
        else:
            if quantity == "log_J" and np.isneginf(self.summary.means[name][:, : layers.size]).any():
                raise MeanFieldError("log_J has no mean here, because J is exactly 0 in some networks; ask for J.")
            with np.errstate(all="ignore"):  # a K near 1e308 has a mean; NaN where networks diverged
                mean, error = self._plain(name, layers.size)
        at: Any = slice(layers.size) if l is None else int(l) - int(layers[0])
        if np.isnan(mean[at]).any() and (quantity.startswith(("G_", "delta2")) or quantity in NEEDS):
            raise MeanFieldError(
                f"{quantity} is not a number: networks overflow (or normalize equal numbers) before the last layer, or "
                "a product of its moments does; take a smaller depth, sigma_w or sigma_b."
            )
        if l is None:
            return Estimate(mean[at], error[at], self.networks, self.status, self.message)
        return Estimate(mean[at], error[at], self.networks)

    def _covered(self, layers: np.ndarray) -> str:
        covered = f"at layers {layers[0]} to {layers[-1]}" if layers.size else "at no layer"
        end = self.finite_depth + 1
        reached = f", and networks overflow (or normalize equal numbers) at layer {end}" if end <= self.depth else ""
        return f"it is measured {covered}{reached}"

    def _plain(self, name: str, count: int) -> tuple[np.ndarray, np.ndarray]:
        if name not in self.samples:
            return self.summary.estimate(name)
        return self._sampled(self.samples[name][:, :count])

    def _sampled(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard error over the networks, the rows."""
        _, power = np.frexp(np.abs(values).max(axis=0, initial=0.0))  # the square of a K near 1e308 overflows
        scaled = np.ldexp(values, -power)
        error = scaled.std(axis=0, ddof=1) / math.sqrt(self.networks)
        return np.ldexp(scaled.mean(axis=0), power), np.ldexp(error, power)

    def _jacobian(self, log_scale: Any) -> tuple[np.ndarray, np.ndarray]:
        count = self.layers("J").size
        log_scale = np.asarray(log_scale, dtype=float)
        if "log_J" in self.samples:
            values = self.samples["log_J"][:, :count] - log_scale
            if values.max(initial=0.0) > 700:
                raise MeanFieldError("J overflows a double here; ask for log_J, or give log_scale=(predicted log J).")
            return self._sampled(np.exp(values))
        full = np.zeros(self.summary.means["J"].shape[1])
        full[:count] = log_scale
        with np.errstate(over="ignore"):
            scale = np.exp(np.asarray(self.summary.shifts) - full)
        if not np.isfinite(scale[:, :count]).all():
            raise MeanFieldError("J overflows a double here; ask for log_J, or give log_scale=(predicted log J).")
        with np.errstate(all="ignore"):
            return self.summary.estimate("J", scale)

    def _correlator(self, quantity: str) -> tuple[np.ndarray, np.ndarray]:
        needs = NEEDS[quantity]
        if quantity in ("c", "gamma"):
            needs = (*needs, *(("K_aa", "K_bb") if "K_aa" in self.summary.means else ("K",)))
        estimator, n = ESTIMATORS[quantity], np.array(self.widths, dtype=float)
        return self.jackknife(lambda means, count: estimator(means, count, n), needs)

    def jackknife(
        self, function: Callable[[Mapping[str, np.ndarray], int], Any], names: Sequence[str]
    ) -> tuple[np.ndarray, np.ndarray]:
        """function(means over networks of the rows `names`, number of networks), and its standard error from leaving
        out one block of networks at a time; for example a ratio of two quantities."""
        if self.networks < 3:
            raise MeanFieldError(f"A jackknife needs at least 3 networks, but there are {self.networks}.")
        with np.errstate(all="ignore"):
            return self.summary.jackknife(function, tuple(names))


@validated
def run_ensemble(
    block: Block,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: Any,
    depth: int,
    networks: int,
    seed: int = 0,
    quantities: Sequence[str] | None = None,
    sampler: str = "explicit",
    probes: int | None = None,
    input_norm: float = 1.0,
    correlation: float | None = None,
    inputs: Any = None,
    batch: int | None = None,
    tokens: int = 1,
    input_dimension: int | None = None,
    l0: int = 1,
    jacobian: bool = True,
    theta: bool = False,
    classes: int = 2,
    lambda_w: Any = None,
    lambda_b: Any = None,
    rates: tuple[Any, Any] | None = None,
    backward: str = "own",
    read: str = "mean",
    activation_pairs: Mapping[Hashable, ScalarPair] | None = None,
    first_network: int = 0,
    keep_samples: bool | None = None,
    threads: int | None = None,
    executor: Executor | None = None,
    device: str = "cpu",
    checkpoint: str | os.PathLike | None = None,
    progress: Callable[[int, int], None] | None = None,
    **parameters: Any,
) -> EnsembleResult:
    """Measure `networks` independent random networks: an input layer Dense, then depth − 1 blocks.

    block: the architecture record, or a `Network`, where the input layer has σ's of its own. sigma_w, sigma_b ≥ 0: one
    number or one per layer. width = N: one number or one per layer; input_dimension: N_0 (N unless given).
    parameters: values of the block's symbols by their names (mu=0.5), a number each, or one per layer (the first is not
    used). activation_pairs: functions for activations without a hand-written reference.

    quantities: K^l = Σ_i (z_i^l)²/N always; J (from layer l0; 0 is the input, J^{0,l} = ‖∂z^l/∂x‖²_F/N), chi (the
    Jacobian of every block alone, J^{l,l+1} at l = 1 … depth − 1, with directions of its own), Theta, gradients G_z,
    G_w, G_b of u·z^L/√N for random signs u (G_z^l estimates J^{l,L}; G_w, G_b: squared norms of the gradient by the
    weights and biases of every Dense), V, the tangent correlators A, B, D, F, P, Q, R, S, T, U (small explicit networks
    Dense(φ(z))), class fractions G0 of `classes` outputs, c and gamma of several inputs, the spread sigma_y2 of a
    neuron over inputs and the drift sigma_mu2 of its mean, delta2 (below). Without `quantities`, `jacobian` asks for J
    and `theta` for Theta.

    delta2: δ_i^l(a) = ∂L/∂z_i^l(a) of L = Σ_a −log softmax(z_1^L(a) … z_C^L(a)) at the label of a; C = `classes`, and
    labels come in random order and equally often. (1/N) Σ_i δ_i(a)² has one value for every input a; delta2 is the
    median over all inputs, delta2_favoured over those whose label is the class that the network assigns most inputs to
    (the largest of its C outputs), delta2_unfavoured the fewest. Estimates are means over networks, `samples` holds
    each one. Source: [bias_and_trainability] (88), App. G.

    lambda_w, lambda_b: learning rates that Theta, Theta_ab and the tangent correlators are taken with, λ_w divided by
    the fan-in: a number, one per layer, or a formula in l, the layer that is made ("1/l"); left out, σ_w² and σ_b²,
    those of standard normal parameters. They are of every Dense; trained gains have the rate 1. rates=(λ_w, λ_b) gives
    both.

    backward: "copy" takes the gradients G_z, G_w, G_b back through weights that are drawn afresh, independent of those
    of the forward pass (gradient independence, made true); J, pushed forward, has no such choice.
    Source: [variance_variation] Axiom 2(a).

    sampler: "explicit" draws every W, N² numbers; "lazy" draws its products, exactly in law, at O(N) for every vector.
    probes: random vectors that estimate J, Theta and gradients; None takes the exact N × N Jacobian and tangent kernel
    (2 N³ and 4 to 6 N³ operations a layer) with explicit weights, 4 probes with lazy ones.

    Inputs: one of |x|²/N_0 = input_norm > 0; two with `correlation` in [−1, 1]; `batch` of independent normal ones;
    or `inputs`, an array (inputs, N_0) or (inputs, tokens, N_0), the same for all networks. J and Theta are those of
    the first input where inputs do not act on each other, else of all (mean over positions). read: the tokens whose
    outputs are measured where tokens act on each other, "mean" for all of them, "last" for the last of every input (J:
    the squares of its derivatives by all tokens).

    Scale: networks are numbered from `first_network` and fall into at most 256 fixed blocks, the unit of work. The same
    seed gives the same bits for any number of threads, and in any `executor` (a process pool, dask's or mpi4py's).
    device: "cuda" measures K and J on a GPU, from the same streams (equal to rounding).
    checkpoint: a file that the blocks done are written to, every 20 s and at an interrupt; the same call goes on from
    it. keep_samples: keep every network's row (by default up to 10⁴ networks), else memory does not grow with them.
    progress: called as progress(done, networks) from the calling thread.

    Raises `MeanFieldError` for arguments out of range, an architecture that cannot be run, derivatives of a φ that
    jumps, a checkpoint of another run.

    >>> from meanfield.networks.records import mlp
    >>> run = run_ensemble(mlp("tanh", mu=1), sigma_w=1, sigma_b=0, width=20, depth=3, networks=4)
    >>> run.estimate("J").mean.shape, float(run.estimate("J", l=1).mean)
    ((3,), 1.0)
    >>> wide = run_ensemble(mlp("relu"), sigma_w=2**0.5, sigma_b=0, width=10**4, depth=5, networks=8, sampler="lazy")
    >>> bool(abs(wide.estimate("K", l=5).z(2.0)) < 4)
    True
    """
    choice(sampler, "sampler", SAMPLERS)
    jacobian, theta = flag(jacobian, "jacobian"), flag(theta, "theta")
    more = {"threads": threads, "executor": executor, "checkpoint": checkpoint, "progress": progress}
    run = Running.of(networks, first_network, keep_samples, device, **more)
    tokens = integer(tokens, "The number of tokens", 1, 1 << 24)
    if inputs is not None:
        inputs, tokens, input_dimension = given_inputs(inputs, tokens, input_dimension)
    ensemble = Ensemble(
        block,
        sigma_w,
        sigma_b,
        width,
        depth,
        input_dimension,
        activation_pairs,
        parameters,
        tokens=tokens,
        sampler=sampler,
        backward=backward,
        rates=_rates(rates, lambda_w, lambda_b),
    )
    if quantities is None:
        quantities = ("K", *(("J",) if jacobian else ()), *(("Theta",) if theta else ()))
    plan = MeasurementPlan(
        ensemble,
        Inputs.of(input_norm, correlation, inputs, batch, ensemble),
        Measurement.of(names_of(quantities, "quantities"), probes, l0, classes, ensemble, read),
        seed_of(seed),
    )
    check_plan(ensemble, plan.inputs, plan.measured)
    if device == "cuda":
        from meanfield.empirical.cuda.device import check_cuda, require_cuda

        check_cuda(plan)
        require_cuda()
    _require_memory(plan, run)
    return _result(plan, run, run_blocks(plan, run))


def _require_memory(plan: MeasurementPlan, run: Running) -> None:
    ensemble, measured = plan.ensemble, plan.measured
    rows = sum(math.prod(shape) for shape in plan.shapes.values())
    exact = measured.probes is None and {"J", "chi", "Theta", "J_ab"} & set(measured.quantities)
    held = 2 * run.networks if run.keep else 4 * min(run.networks, 256)
    require_memory(
        8.0 * rows * held + exact_bytes(plan) * bool(exact),
        f"{run.networks} networks of {ensemble.depth} layers, {max(ensemble.widths)} neurons and {plan.positions} "
        "inputs",
        "take fewer networks, layers, neurons or inputs, keep_samples=False, or probes= instead of exact Jacobians",
    )


def _result(plan: MeasurementPlan, run: Running, found: list[BlockOfNetworks]) -> EnsembleResult:
    ensemble, measured = plan.ensemble, plan.measured
    lost = np.concatenate([np.asarray(block.diverged_at) for block in found]) if run.keep else np.empty(0, np.int64)
    return EnsembleResult(
        width=ensemble.width,
        depth=ensemble.depth,
        networks=run.networks,
        first_network=run.first,
        seed=plan.seed,
        input_dimension=ensemble.fan_in,
        input_norm=plan.inputs.norm,
        correlation=plan.inputs.correlation,
        l0=measured.l0,
        widths=ensemble.widths,
        sampler=ensemble.sampler,
        probes=measured.probes,
        asked=measured.quantities,
        diverged=sum(block.lost for block in found),
        finite_depth=min(block.reach for block in found),
        summary=MergedBlocks.of(found),
        diverged_at=lost,
        samples={name: np.concatenate([block.rows[name] for block in found]) for name in found[0].rows},
        fan_ins=ensemble.fan_ins(),
        note="the last token of every input is read" if measured.read == "last" else "",
    )


def exact_bytes(plan: MeasurementPlan) -> float:
    """What an exact Jacobian of one network takes: its rows, once before and once after a product."""
    positions = plan.positions if plan.ensemble.couples else 1
    widths = plan.ensemble.widths
    return 16.0 * positions**2 * max(widths) * max(widths[0], widths[-1])


def _rates(rates: Any, lambda_w: Any, lambda_b: Any) -> Any:
    if rates is not None and (lambda_w is not None or lambda_b is not None):
        raise MeanFieldError("rates=(λ_w, λ_b) means lambda_w= and lambda_b=; give one or the other.")
    return (lambda_w, lambda_b) if rates is None else rates
