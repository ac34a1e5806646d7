"""check(): the theory against an ensemble of explicit finite-width networks, layer by layer, in standard errors."""

from __future__ import annotations

import json
import os
import sys
import textwrap
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meanfield import figures
from meanfield.activations import Activation, activation
from meanfield.architecture import activations_of
from meanfield.empirical import CriticalityEstimate, EnsembleResult, ScalarPair, run_ensemble
from meanfield.empirical import measure_criticality as _measure_criticality
from meanfield.empirical.twins import names as twin_names
from meanfield.numeric import printing
from meanfield.results import MeanFieldError
from meanfield.symbolic.blocks import describe
from meanfield.symbols import Z
from meanfield.theory import ONE_INPUT, TWO_INPUTS, Theory, derive

THRESHOLD = 4.0  # standard errors; over 100 rows of exact theory a larger |z| happens once in 160 runs


@dataclass(frozen=True)
class Row:
    """One quantity at one layer: prediction (with the 1/n allowance already in it), ensemble mean, standard error,
    z."""

    quantity: str
    layer: int
    predicted: float
    allowance: float
    measured: float
    standard_error: float
    z: float
    passed: bool


@dataclass(frozen=True)
class Report:
    """The verdict of a check. `str` is a table for a terminal, `data()` plain values for JSON, `passed` the answer.

    predicted, measured and standard_error of J are in units of the predicted J (so that no depth overflows);
    `log_scale` holds its logarithm.
    """

    title: str
    settings: dict[str, Any]
    rows: tuple[Row, ...]
    log_scale: dict[str, list[float]]
    notes: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every row lies within `THRESHOLD` standard errors."""
        return all(r.passed for r in self.rows)

    def worst(self, quantity: str) -> Row:
        """The row of `quantity` with the largest |z|."""
        rows = [r for r in self.rows if r.quantity == quantity]
        if not rows:
            raise MeanFieldError(f"{quantity} is not in this report; it holds {', '.join(self.quantities)}.")
        return max(rows, key=lambda r: abs(r.z))

    @property
    def quantities(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(r.quantity for r in self.rows))

    def data(self) -> dict[str, Any]:
        """Everything as plain Python values."""
        return {
            "schema": 1,
            "title": self.title,
            "passed": self.passed,
            "threshold": THRESHOLD,
            "settings": self.settings,
            "notes": list(self.notes),
            "log_scale": self.log_scale,
            "rows": [{k: _json_value(v) for k, v in asdict(r).items()} for r in self.rows],
        }

    def plot(self):
        """The figure of this report: theory lines, ensemble bands, z-scores (needs matplotlib: meanfield[plot])."""
        return figures.plot_report(self)

    def to_json(self, path: str | os.PathLike) -> None:
        """Write `data()` to a file, whole or not at all."""
        figures.write_whole(Path(path), json.dumps(self.data(), indent=1).encode())

    def __str__(self) -> str:
        s = self.settings
        head = ", ".join(
            f"{k} {s[k]}" for k in ("width", "depth", "networks", "seed", "sigma_w", "sigma_b", "input_norm")
        )
        lines = [self.title, *textwrap.wrap(head, 78), ""]
        for q in self.quantities:
            rows, worst = [r for r in self.rows if r.quantity == q], self.worst(q)
            lines.append(f"{q} (in units of the predicted {q})" if q in ("J", "Theta", "J0") else q)
            lines.append(
                f"  largest |z| {abs(worst.z):.2f} at layer {worst.layer}; "
                f"{sum(r.passed for r in rows)} of {len(rows)} layers pass"
            )
            lines.append(f"  {'layer':>5} {'predicted':>14} {'measured':>14} {'+-':>10} {'z':>7}")
            for r in _selected(rows):
                mark = "" if r.passed else "  <-- fails"
                values = f"{r.predicted:>14.8g} {r.measured:>14.8g} {r.standard_error:>10.2g} {r.z:>7.2f}"
                lines.append(f"  {r.layer:>5} {values}{mark}")
            lines.append("")
        for note in self.notes:
            lines += textwrap.wrap(note, 78)
        verdict = "PASSED" if self.passed else "FAILED"
        return "\n".join([*lines, f"{verdict} (a row passes within {THRESHOLD:g} standard errors)"])


def _json_value(value: Any) -> Any:
    """JSON has no infinity: non-finite numbers become text."""
    return repr(value) if isinstance(value, float) and not np.isfinite(value) else value


def _selected(rows: list[Row]) -> list[Row]:
    """First layers, round ones, the last, the worst, and up to five failures."""
    last = rows[-1].layer
    keep = {1, 2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1000, last, max(rows, key=lambda r: abs(r.z)).layer}
    keep |= {r.layer for r in [r for r in rows if not r.passed][:5]}
    return [r for r in rows if r.layer in keep]


def check(
    theory: Theory,
    *,
    sigma_w: Any,
    sigma_b: Any,
    width: int = 500,
    depth: int = 50,
    networks: int = 200,
    seed: int = 0,
    input_norm: float = 1.0,
    correlation: float | None = None,
    input_dimension: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    quantities: tuple[str, ...] | None = None,
    threads: int | None = None,
    **parameters: Any,
) -> Report:
    """Predicted against measured K^l and J^{1,l} (or K_aa, K_bb, K_ab for two inputs), with standard errors and
    z-scores.

    theory: what `derive` returned. sigma_w, sigma_b: as in `propagate`, one number or one per layer. width: neurons a
    layer; networks: how many independent ones; input_dimension: N_0 (width unless given); the input has |x|²/N_0 =
    input_norm exactly, and a second one the cosine `correlation`. quantities: from K, J, Theta, J0 (J^{0,l}, with
    input_dimension), or K_aa, K_bb, K_ab; default K and J. K is compared without any allowance; J with a bias a·l/n
    whose a is fitted from ensembles of width n and n/2, never from the theory; Theta and J0 as 2 X(n) - X(n/2), which
    has no bias of order 1/n. A row passes within 4 standard errors.

    Raises: MeanFieldError for sizes below 1, J of a discontinuous φ, or networks that overflow.

    >>> report = check(derive("tanh", residual=True), sigma_w=1.2, sigma_b=0.1, width=64, depth=5, networks=64)
    >>> report.passed
    True
    """
    names = _wanted(theory, quantities, correlation)
    jacobian, tangent, from_input = ("J" in names), ("Theta" in names), ("J0" in names)
    halved = jacobian or tangent or from_input
    if from_input:
        if input_dimension is None:
            raise MeanFieldError("A check of J0 was asked for; give the input dimension N_0 as input_dimension=.")
        parameters["N0"] = input_dimension
    layered = np.ndim(sigma_w) > 0 or np.ndim(sigma_b) > 0
    run = theory.propagate(
        sigma_w=sigma_w,
        sigma_b=sigma_b,
        depth=depth,
        input_norm=input_norm,
        correlation=correlation,
        quantities=tuple(n for n in names),
        layerwise=layered,
        **parameters,
    )
    total = networks + (networks if halved else 0)

    def ensemble(n: int, first: int, done: int, shown: Callable[[int, int], None] | None) -> EnsembleResult:
        report = None if shown is None else (lambda k, _: shown(done + k, total))
        return run_ensemble(
            theory.block,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            width=n,
            depth=depth,
            networks=networks,
            seed=seed,
            input_norm=input_norm,
            correlation=correlation,
            input_dimension=input_dimension,
            jacobian=jacobian or from_input,
            theta=tangent,
            l0=0 if from_input else 1,
            mu=parameters.get("mu"),
            activation_pairs=_pairs(theory),
            threads=threads,
            progress=report,
            first_network=first,
        )

    with _shown(progress) as shown:
        result = ensemble(width, 0, 0, shown)
        half = ensemble(max(1, width // 2), networks, networks, shown) if halved else None
    rows, log_scale, notes = compare(run, result, half, names)
    settings = {
        "sigma_w": np.asarray(sigma_w).tolist(),
        "sigma_b": np.asarray(sigma_b).tolist(),
        "width": width,
        "depth": depth,
        "networks": networks,
        "seed": seed,
        "input_norm": input_norm,
        "correlation": correlation,
        "input_dimension": result.input_dimension,
        **{k: str(v) for k, v in parameters.items()},
    }
    return Report(f"Check of {describe(theory.block)}", settings, tuple(rows), log_scale, tuple(notes))


def measure_criticality(network: Any, *, sigma_w: float, sigma_b: float, **settings: Any) -> CriticalityEstimate:
    """χ = J^{L-2,L-1} of explicit networks by random probes, with its standard error: is this architecture critical?

    network: a `Theory`, an architecture record, an activation's name or a formula; nothing analytic about it is used.
    settings: width, depth L (blocks), networks, probes, seed, input_norm, mu, threads as in
    `meanfield.empirical.measure_criticality`. χ > 1: chaotic, χ < 1: ordered; the two sides of a critical line have
    opposite signs of χ - 1. The bias is of order 1/width. Source: [partial_jacobians] Prop. 2.6.

    >>> found = measure_criticality("tanh", sigma_w=0.7, sigma_b=0.1, width=64, depth=10, networks=20)
    >>> found.phase
    'ordered'
    """
    from meanfield.architecture import Block

    if not isinstance(network, Theory):
        network = derive(architecture=network) if isinstance(network, Block) else derive(network)
    with _shown(settings.pop("progress", None)) as shown:
        return _measure_criticality(
            network.block,
            sigma_w=sigma_w,
            sigma_b=sigma_b,
            activation_pairs=_pairs(network),
            progress=shown,
            **settings,
        )


@contextmanager
def _shown(progress: Callable[[int, int], None] | None) -> Iterator[Callable[[int, int], None] | None]:
    """The given progress function, or a bar on stderr where somebody watches a terminal."""
    if progress is not None or not sys.stderr.isatty():
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("networks", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def compare(
    run: Any, result: EnsembleResult, half: EnsembleResult | None, names: tuple[str, ...]
) -> tuple[list[Row], dict, list[str]]:
    """(rows, log scale of J, notes): one propagated theory against one ensemble, and one of half the width that fixes
    the allowance on J."""
    depth = result.depth
    reach = min(result.finite_depth, int(run.diverged_at) - 1 if int(run.diverged_at) else depth)
    notes = [run.message()] if run.message() else []
    if result.finite_depth < depth:
        notes.append(
            f"The networks overflow (or normalize equal numbers) at layer {result.finite_depth + 1}; "
            "rows end before it."
        )
    rows: list[Row] = []
    log_scale: dict[str, list[float]] = {}
    for q in (n for n in names if n not in ("J", "Theta", "J0")):
        rows += _rows(q, run.l[:reach], getattr(run, q)[:reach], np.zeros(reach), result.samples[q][:, :reach], None)
    for q in (n for n in names if n in ("Theta", "J0") and half is not None):
        rows += _extrapolated(q, run, result, half, reach)  # type: ignore[arg-type]
        notes.append(f"{q} is measured as 2 {q}(n) - {q}(n/2) from widths {result.width} and {half.width}.")  # type: ignore[union-attr]
    if half is not None and "J" in names:
        log_j = np.asarray(run.log_J)[:reach]
        more, note = _jacobian_rows(run.l[:reach], log_j, result, half, result.width, reach)
        rows += more
        notes.append(note)
        log_scale["J"] = log_j.tolist()
    return rows, log_scale, notes


def _extrapolated(quantity: str, run: Any, full: EnsembleResult, half: EnsembleResult, reach: int) -> list[Row]:
    """Rows of 2 X(n) - X(n/2) in units of the prediction: what is left of the bias is of order 1/n²."""
    reach = min(reach, half.finite_depth)
    name, predicted = ("log_J", run.log_J0) if quantity == "J0" else ("Theta", run.Theta)

    def scaled(result: EnsembleResult) -> np.ndarray:
        values = result.samples[name][:, :reach]
        return np.exp(values - predicted[:reach]) if quantity == "J0" else values / predicted[:reach]

    wide, narrow = scaled(full), scaled(half)
    mean = 2 * wide.mean(axis=0) - narrow.mean(axis=0)
    error = np.sqrt(4 * wide.var(axis=0, ddof=1) / len(wide) + narrow.var(axis=0, ddof=1) / len(narrow))
    return _rows(quantity, run.l[:reach], np.ones(reach), np.zeros(reach), np.stack([mean, mean]), error)


def _wanted(theory: Theory, quantities, correlation) -> tuple[str, ...]:
    smooth = theory.activation.is_continuous
    allowed = TWO_INPUTS if correlation is not None else ("K", "J", "Theta", "J0") if smooth else ("K",)
    wanted = tuple(quantities or (allowed if correlation is not None else allowed[:2]))
    if "J0" in wanted and set(wanted) - {"J0", "K"}:
        raise MeanFieldError("J0 starts at the input and J, Theta at layer 1; check them separately.")
    for q in wanted:
        if q in ONE_INPUT + TWO_INPUTS and q not in allowed:
            why = (
                "φ jumps, so a finite network measures 0 and the theory says ∞"
                if q == "J"
                else "give correlation= for two-input quantities, leave it out for one-input ones"
            )
            raise MeanFieldError(f"A check of {q} was asked for, but {why}.")
        if q not in allowed:
            raise MeanFieldError(f"A check of {q!r} was asked for; what can be checked here is {', '.join(allowed)}.")
    return wanted


def _rows(quantity, layers, predicted, allowance, samples, error) -> list[Row]:
    predicted = np.broadcast_to(np.asarray(predicted, dtype=float), (len(layers),))
    # a K near 1e300 has a mean, but its square overflows: work in units of the largest sample
    unit = np.maximum(np.abs(samples).max(axis=0), 1e-300)
    mean = (samples / unit).mean(axis=0) * unit
    se = (samples / unit).std(axis=0, ddof=1) * unit / np.sqrt(len(samples)) if error is None else error
    out = []
    for i, layer in enumerate(layers):
        gap = mean[i] - predicted[i] - allowance[i]
        # what every network shares exactly (J at its first layer) has no spread: only rounding may separate it from the
        # theory
        z = (
            0.0
            if abs(gap) <= 1e-9 * abs(predicted[i]) and se[i] <= 1e-9 * abs(predicted[i])
            else gap / se[i]
            if se[i] > 0
            else np.inf
        )
        out.append(
            Row(
                quantity,
                int(layer),
                float(predicted[i] + allowance[i]),
                float(allowance[i]),
                float(mean[i]),
                float(se[i]),
                float(z),
                bool(abs(z) <= THRESHOLD),
            )
        )
    return out


def _jacobian_rows(layers, log_j, full: EnsembleResult, half: EnsembleResult, width: int, reach: int):
    """J in units of its prediction, with the bias a·(l-1)/n that two widths show: E J_n = J (1 + a (l-1)/n).

    a is a fixed linear functional of the per-network values (weights from the spread), so its error, and its covariance
    with the row it corrects, follow from plain sample variances.
    """
    with np.errstate(over="ignore"):
        wide = np.exp(full.samples["log_J"][:, :reach] - log_j)
        narrow = np.exp(
            half.samples["log_J"][:, : min(reach, half.finite_depth)] - log_j[: min(reach, half.finite_depth)]
        )
    steps = (layers - 1).astype(float)
    reach = narrow.shape[1]
    spread = wide[:, :reach].var(axis=0, ddof=1) + narrow.var(axis=0, ddof=1)
    weight = np.where(spread > 0, steps[:reach] / np.where(spread > 0, spread, 1.0), 0.0)
    norm = float((weight * steps[:reach]).sum()) * (1 / half.width - 1 / full.width)
    if norm <= 0:
        return _rows(
            "J", layers, np.ones(len(layers)), np.zeros(len(layers)), wide, None
        ), "J is compared without allowance."
    functional_wide = (wide[:, :reach] * weight).sum(axis=1) / norm
    functional_narrow = (narrow * weight).sum(axis=1) / norm
    a = functional_narrow.mean() - functional_wide.mean()
    a_error = np.sqrt(functional_narrow.var(ddof=1) / len(narrow) + functional_wide.var(ddof=1) / len(wide))
    corrected = wide + functional_wide[:, None] * steps / full.width
    error = np.sqrt(
        corrected.var(axis=0, ddof=1) / len(wide)
        + (steps / full.width) ** 2 * functional_narrow.var(ddof=1) / len(narrow)
    )
    note = (
        f"J carries the allowance a (l-1)/n with a = {a:.2f} +- {a_error:.2f}, fitted from widths {full.width} and "
        f"{half.width}; K carries none."
    )
    return _rows("J", layers, np.ones(len(layers)), a * steps / full.width, wide, error), note


def _pairs(theory: Theory, higher: bool = False) -> dict[Hashable, ScalarPair]:
    """Plain functions, as text, for activations the checker has no hand-written twin of; higher: φ″ and φ‴ too, where
    they hold no delta function."""
    out: dict[Hashable, ScalarPair] = {}
    for held in activations_of(theory.block):
        record = activation(held)
        if record.name not in twin_names():
            first = record.pieces.diff()
            parts = [record.pieces, first]
            if higher and record.is_continuous and not first.jumps() and not first.diff().jumps():
                parts += [first.diff(), first.diff().diff()]
            texts = [_plain(record, one) for one in parts]
            out[record] = ScalarPair.from_sources(*texts, continuous=record.is_continuous)
    return out


def _plain(record: Activation, parts) -> str:
    """Python text of a function of one number from the pieces of φ or a derivative (the checker compiles it)."""
    import sympy as sp

    if record.free_parameters:
        raise MeanFieldError(
            f"A check needs numbers for {', '.join(sorted(s.name for s in record.free_parameters))}; "
            "give them in derive(...)."
        )
    x = sp.Symbol("z", real=True)
    text = "def f(z):\n"
    for e, _, hi in parts.intervals()[:-1]:
        text += f"    if z < {float(hi)!r}:\n{printing.body(e.xreplace({Z[0]: x}), ' ' * 8)}"
    text += printing.body(parts.exprs[-1].xreplace({Z[0]: x}))
    return printing.self_contained(text)
