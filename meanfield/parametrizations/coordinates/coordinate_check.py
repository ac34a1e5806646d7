"""`coordinate_check`: by how much every layer moves in a training step at several widths, as theory has it and as
networks do."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from meanfield.base.arguments import choice, flag, positive, provides, validated, whole
from meanfield.base.budgets import require_memory
from meanfield.base.errors import MeanFieldError
from meanfield.base.progress import Progress, watched
from meanfield.networks.folds import fold, has_norm
from meanfield.networks.records import Block, Residual
from meanfield.parametrizations.coordinates.coordinate_arguments import (
    base_of,
    inputs_of,
    not_negative,
    scheme_of,
    several,
    slopes_of,
)
from meanfield.parametrizations.coordinates.coordinate_result import CoordinateCheck
from meanfield.parametrizations.coordinates.coordinate_rows import REPLICATES, CoordinateRow
from meanfield.parametrizations.step.first_step import Squares, first_step
from meanfield.parametrizations.step.step_case import Case
from meanfield.parametrizations.step.stepped_networks import measured

WIDTHS = (64, 128, 256, 512, 1024)
CHANGE = 0.1  # of the largest change that a rate is chosen for, over the size it is the change of
FEW, MANY = 2048, 8192  # neurons of a population where a network has many Dense, or few
ROUNDING = 1e-15  # of z, relative
BELOW = "Changes below the rounding of a double are not measured; a larger rate makes them larger."
LATER = ("sgd", "momentum", "adam")  # optimizers of more than one step


@validated
def coordinate_check(
    network: Any,
    parametrization: Any = "mup",
    *,
    optimizer: str | None = None,
    widths: Sequence[int] = WIDTHS,
    depth: int = 4,
    depths: Sequence[int] | None = None,
    rate: Any = None,
    eps: Any = 0,
    sigma_w: Any = None,
    sigma_b: Any = None,
    inputs: Any = 1,
    slopes: Any = 1,
    biases: bool = False,
    networks: int = 0,
    steps: int = 1,
    seed: int = 0,
    neurons: int | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
    **parameters: Any,
) -> CoordinateCheck:
    """How much the outputs of every Dense change in a training step, at several widths: the line, and networks.

    network: a record, a `Theory`, or what `derive` takes first, with its keywords (residual=True, norm="pre"); other
    keywords give numbers to its symbols. parametrization: a `Parametrization`, or its name with optimizer= ("adam",
    "sgd", "muon"). depth: the layer of the output, depths: several; the input layer is 1, then come depth - 2 blocks,
    and the readout as in `train`. rate: the learning rate at the base, chosen so that the smallest width moves by a
    tenth unless given. eps: Adam's ε at the base. sigma_w, sigma_b: those of the record at the base (1 and 0 unless
    given). inputs: an array (inputs, N_0), or a number of inputs of 64 normal entries with |x|² = N_0. slopes: ∂L/∂f,
    one number or one for each input: the loss is the mean over inputs of slope · f, as any loss is in its first step;
    what one step does with several outputs is that of one whose slope is the norm of theirs. biases: whether they are
    trained. Gains and shifts of norms are trained where the record says so (affine).

    networks: how many of each width are trained beside the theory, 0 for theory alone. steps: more than one are
    measured, not predicted, with the optimizers of `train` ("sgd", "momentum", "adam"). neurons: of the populations
    that averages of the theory are taken over, 16 times; its errors are their spread. seed: of inputs, networks and
    populations. Returns: a `CoordinateCheck`. Raises: MeanFieldError for records without a rule (Attention, orthogonal
    weights), an activation that jumps, and sizes out of range. Accuracy: .2 to 1 % in the limit n → ∞, stated as
    theory_error; terms of order 1/n and depth/n are measured, not predicted. Source: derived here,
    docs/parametrizations.md; the picture: [2203.03466] App. D.

    >>> found = coordinate_check("tanh", "ntk", optimizer="sgd", widths=(64, 256), depth=4, rate=0.1)
    >>> [round(row.theory, 3) for row in found.column("own", layer=1)]
    [0.371, 0.185]
    """
    scheme = scheme_of(parametrization, optimizer)
    base, pairs, about = base_of(network, scheme, sigma_w, sigma_b, parameters)
    seed = whole(seed, "seed", 0, 2**63)
    X = inputs_of(inputs, seed)
    every = [whole(d, "depth", 2, 1 << 12) for d in ([depth] if depths is None else several(depths, "depths"))]
    sizes = sorted({whole(n, "width", 2, 1 << 20) for n in several(widths, "widths")})
    steps, networks = whole(steps, "steps", 1, 10**6), whole(networks, "networks", 0, 10**6)
    if neurons is not None:
        neurons = whole(neurons, "neurons", 16, 1 << 20) // 2 * 2
    if networks == 1:
        raise MeanFieldError("One network shows no error of its own; give networks=0 for theory alone, or 2 or more.")
    if steps > 1 and not networks:
        raise MeanFieldError(
            f"{steps} steps were asked for without networks, but later steps are measured alone; give networks=."
        )
    later = optimizer or scheme.optimizer
    if steps > 1:
        choice(later, "optimizer of several steps", LATER)
    base = replace(
        base, inputs=X, slopes=slopes_of(slopes, len(X)), eps=not_negative(eps), biases=flag(biases, "biases"),
        width=sizes[0], depth=every[0],
    )  # fmt: skip
    eta = positive(rate, "rate") if rate is not None else _chosen(base, neurons)
    rows: list[CoordinateRow] = []
    provides(progress, "progress", None, "a function progress(done, networks)")
    with watched(progress, "networks") as tell:
        total, done = len(every) * len(sizes) * networks, 0
        for d in sorted(set(every)):
            for n in sizes:
                case = replace(base, width=n, depth=d, rate=eta)
                line = _theory(case, neurons, seed)
                seen = None
                if networks:
                    before = done
                    count = None if tell is None else _counted(tell, before, total)
                    seen = measured(case, pairs, networks, seed, steps, later if steps > 1 else None, threads, count)
                    done += networks
                with np.errstate(all="ignore"):  # an overflow is an answer
                    rows += _rows(case, line, seen)
    spread, counts = _spreads(rows, networks), _dense_counts(base, every)
    check = CoordinateCheck(scheme, about, eta, base.eps, steps, networks, seed, (), _spread=spread, _counts=counts)
    lost = networks and any(row.measured is None for row in rows)
    return check.with_rows(rows, BELOW if lost else "")


def _theory(case: Case, neurons: int | None, seed: int) -> Squares:
    few = len(case.rows()) > 12 or len(case.inputs) > 1
    count = neurons or (FEW if few else MANY)
    require_memory(
        8.0 * 8 * REPLICATES * count * len(case.inputs) * len(case.rows()),
        f"The populations of {len(case.rows())} matrices and {len(case.inputs)} inputs",
        "take fewer inputs, blocks or neurons=",
    )
    return first_step(case, count, REPLICATES, seed)


def _chosen(case: Case, neurons: int | None) -> float:
    """The rate at which the largest change of a Dense before the readout is a tenth of what it is the change of."""
    rate, most = 1.0, math.inf
    for _ in range(40):
        found = first_step(replace(case, rate=rate), neurons or FEW, replicates=2)
        z, change = found.z.mean(axis=0)[:-1], found.total.mean(axis=0)[:-1]
        if not np.isfinite(z).all():
            layer = int(np.argmin(np.isfinite(z).reshape(len(z), -1).all(axis=1))) + 1
            raise MeanFieldError(
                f"The forward pass overflows at layer {layer}, so that no step can be followed: take a smaller sigma_w "
                "or depth=, or another activation."
            )
        with np.errstate(over="ignore"):
            most = float(np.sqrt(np.max(change / np.maximum(z, 1e-300))))
        if not math.isfinite(most):
            rate *= 1e-3
            continue
        if most == 0:
            raise MeanFieldError("Nothing moves in this step, so that no rate can be chosen; give rate=.")
        if abs(most / CHANGE - 1) < 0.1:
            break
        rate *= CHANGE / most if most < 3 * CHANGE else 0.5 * CHANGE / most + 0.01
    if not math.isfinite(most):
        raise MeanFieldError(
            f"No rate can be chosen: a step of {rate:.0e}, too, changes the signal by no finite number; take a smaller "
            "sigma_w or depth=, or another activation."
        )
    return float(f"{rate:.2g}")


def _counted(tell: Callable[[int, int], None], before: int, total: int) -> Callable[[int, int], None]:
    return lambda done, _: tell(before + done, total)


def _rows(case: Case, line: Squares, seen: Squares | None) -> list[CoordinateRow]:
    """A row for each column of each Dense."""
    out = []
    for k, (layer, matrix, kind) in enumerate(case.rows()):
        last = kind == "readout"
        columns = ("f", "Df_readout", "Df") if last else ("z", "own", "total")
        for column, name in zip((*columns, "gain"), ("z", "own", "total", "gain")):
            out.append(_row(case, layer, matrix, column, _at(line, name, k), _at(seen, name, k)))
        if last:
            out.append(_row(case, layer, matrix, "Df_features", line.features, seen and seen.features))
        out[-len(columns) :] = [_rounded(row, _at(seen, "z", k)) for row in out[-len(columns) :]]
    return out


def _rounded(row: CoordinateRow, z: np.ndarray | None) -> CoordinateRow:
    """Differences of what was there before and after a step have no more digits than these have, and are not measured
    where these have none."""
    if z is None or row.column not in ("total", "Df", "Df_features"):
        return row
    digit = ROUNDING * _rms(z)[0]
    if 0 < row.theory < digit:
        return replace(row, measured=None, error=None, networks=0)
    return replace(row, error=math.hypot(row.error or 0.0, digit))


def _at(squares: Squares | None, name: str, k: int) -> np.ndarray | None:
    return None if squares is None else getattr(squares, name)[:, k]


def _row(case: Case, layer: int, matrix: str, column: str, line: Any, seen: Any) -> CoordinateRow:
    of_one = _mean if column == "gain" else _rms
    theory, theory_error = of_one(line)
    measured_at, error = (None, None) if seen is None else of_one(seen)
    of = 0 if seen is None else len(seen)
    return CoordinateRow(case.depth, case.width, layer, matrix, column, theory, theory_error, measured_at, error, of)


def _mean(values: np.ndarray) -> tuple[float, float]:
    """The mean of numbers, and its standard error."""
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), spread


def _rms(squares: np.ndarray) -> tuple[float, float]:
    """The root of a mean of squares, and its standard error."""
    mean = float(np.mean(squares))
    root = math.nan if math.isnan(mean) else math.sqrt(mean)
    if not root > 0 or len(squares) == 1:
        return root, 0.0
    spread = float(np.std(squares / mean, ddof=1)) / math.sqrt(len(squares))  # relative: it is squared on the way
    return root, spread * root / 2


def _dense_counts(case: Case, depths: Sequence[int]) -> dict[int, int]:
    """How many Dense add to what finite width changes. A product of two signals doubles what is there, unless a norm
    stands before it."""
    out = {}
    for d in depths:
        one = replace(case, depth=d)
        doubled = 1 if has_norm(case.network.block) else 2 ** min(_gates(case.network.block) * (d - 1), 8)
        out[d] = len(one.rows()) * doubled
    return out


def _gates(block: Block) -> int:
    """How many products of two signals a block makes."""
    return fold(block, lambda one, inside: int(bool(one.ways()) and not isinstance(one, Residual)) + sum(inside))


def _spreads(rows: Sequence[CoordinateRow], networks: int) -> dict[tuple, float]:
    """The relative deviation of one network, by column: what a reader's own numbers are taken to have."""
    return {
        (*row.key, row.width): row.error / row.measured * math.sqrt(networks)
        for row in rows
        if row.measured and row.error is not None
    }
