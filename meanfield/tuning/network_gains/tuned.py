"""What `tune` answers: gains for every Dense of every layer, what they did, and how it went."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.networks.folds import dense_of, with_dense
from meanfield.networks.records import Block, Dense, Network, Param, Schedule, exact
from meanfield.symbolic.recursions.naming import describe

STATUSES = ("tuned", "within budget", "not critical", "not converged", "exploded")
SHOWN = 12  # layers of a printed table


@dataclass(frozen=True, eq=False)
class Tuning(Result):
    """Gains a_w, a_b of every Dense of every layer of one network, or of a theory.

    gains: (layers, Dense, 2), the first row of the input layer (its only Dense in place 0); sigma: the same with the
    standard deviations, σ_w and σ_b times gains. before, after: log J^{l,l+1} for l = 1 … L − 1; log_J: log J^{1,L}
    (before, after); K: K^l for l = 1 … L behind tuning. trace: one mapping for each step (a block of a sweep, a step of
    the descent). status: "tuned", "within budget", "not critical", "not converged" or "exploded"; message: a sentence.
    network, values: the record with a symbol for every standard deviation and the numbers for them, layer by layer:
    `measure(tuning.network, **tuning.values, width=…, depth=…, networks=2, seed=…)` draws the
    same network again as its first, with an input of its own. scale: the common factor of the branches, where that was
    tuned, else None.
    rate_bound: of a descent at infinite width, 2/λ_max(GᵀG), G = ∂log J^{l,l+1}/∂gains at the gains found: constant
    rates below it hold there; else None.

    >>> found = tune("relu", depth=10, width=64, sigma_w=2, seed=1)
    >>> found.status, found.sigma.shape, round(found.log_J[0], 1)
    ('tuned', (10, 1, 2), 5.3)
    """

    method: str
    what: str
    depth: int
    width: int | None
    gains: np.ndarray
    sigma: np.ndarray
    before: np.ndarray
    after: np.ndarray
    log_J: tuple[float, float]
    K: np.ndarray
    status: str
    message: str
    scale: float | None = None
    rate_bound: float | None = None
    caveats: tuple[str, ...] = ()
    trace: tuple[dict[str, float], ...] = field(repr=False, default=())
    network: Network | None = field(repr=False, default=None)
    values: dict[str, list[float]] = field(repr=False, default_factory=dict)

    @property
    def converged(self) -> bool:
        """Whether J is where it was asked to be."""
        return self.status in ("tuned", "within budget")

    @property
    def worst(self) -> float:
        """The largest |log J^{l,l+1}| behind tuning."""
        return float(np.abs(self.after).max(initial=0.0))

    def data(self) -> dict[str, Any]:
        """All of it as plain numbers, text and lists (JSON); gains and sigma by layer, Dense and (w, b)."""
        names = ("method", "what", "depth", "width", "status", "message", "scale", "rate_bound", "values", "gains")
        more = ("sigma", "before", "after", "K", "log_J", "caveats", "trace")
        return {name: plain(getattr(self, name)) for name in (*names, *more)}

    def arrays(self) -> Arrays:
        """σ_w, σ_b of every Dense ("sigma_w_1", …), K and log J^{l,l+1} before and behind tuning, over the layer."""
        columns: dict[str, Any] = {"K": self.K}
        for i in range(self.sigma.shape[1]):
            columns |= {f"sigma_w_{i + 1}": self.sigma[:, i, 0], f"sigma_b_{i + 1}": self.sigma[:, i, 1]}
        columns |= {"before": np.append(self.before, np.nan), "after": np.append(self.after, np.nan)}
        layers = np.arange(1, self.depth + 1)
        return Arrays({"layer": (("layer",), layers)}, {n: (("layer",), v) for n, v in columns.items()}, {})

    def __repr__(self) -> str:
        return one_line("Tuning", f"{self.what}; {self.method}: {self.status}, log J {self.log_J[1]:.3g}")

    def __str__(self) -> str:
        size = "infinite width" if self.width is None else f"width {self.width}"
        out = [f"{self.what}, depth {self.depth}, {size}, by {self.method}: {self.status}", f"  {self.message}"]
        if self.scale is not None:
            out.append(f"  common factor of the branches: {self.scale:.6g}")
        out.append(f"  log J^(1,{self.depth}): {self.log_J[0]:.4g} before, {self.log_J[1]:.4g} behind tuning")
        out += ["", f"  {'layer':>5}{'sigma_w of each Dense':>36}{'K':>12}{'log J before':>14}{'behind':>10}"]
        rows = range(self.depth)
        if self.depth > SHOWN:
            rows = [*range(SHOWN // 2), *range(self.depth - SHOWN // 2, self.depth)]  # type: ignore[assignment]
        for i, at in enumerate(rows):
            if i and at != rows[i - 1] + 1:
                out.append(f"  {'...':>5}")
            many = self.sigma[at, :1, 0] if at == 0 else self.sigma[at, :, 0]
            text = " ".join(f"{w:.5g}" for w in many)
            text = text if len(text) <= 34 else text[:31] + "..."
            change = f"{self.before[at - 1]:>14.4f}{self.after[at - 1]:>10.4f}" if at else ""
            out.append(f"  {at + 1:>5}{text:>36}{self.K[at]:>12.4g}{change}")
        out += [f"  note: {one}" for one in self.caveats]
        return wrapped("\n".join(out))


def with_symbols(block: Block, sigma: np.ndarray) -> tuple[Network, dict[str, list[float]]]:
    """The record with w_d, b_d for the standard deviations of its d-th Dense, and the numbers of every layer for them.
    """

    def named(i: int, one: Dense) -> Dense:
        return replace(one, sigma_w=Param(f"w_{i + 1}"), sigma_b=Param(f"b_{i + 1}"))

    record = with_dense(block, named)
    values: dict[str, list[float]] = {}
    for i in range(sigma.shape[1]):
        for letter, column in zip("wb", sigma[:, i].T):
            values[f"{letter}_{i + 1}"] = [float(x) for x in column]
    first = [exact(float(x), "sigma") for x in sigma[0, 0]]
    return Network(record, Dense(sigma_w=first[0], sigma_b=first[1])), values


def bought(K: np.ndarray) -> bool:
    """Whether K falls or rises by more than e^5 over the layers."""
    ends = K[[0, -1]]
    return bool((ends > 0).all()) and abs(math.log(ends[1] / ends[0])) > 5


def answered(method, block, base, width, done, log_J, before, after, K) -> Tuning:
    sigma = base * done.gains
    record, values = with_symbols(block, sigma)
    return Tuning(
        method=method,
        what=describe(block),
        depth=len(base),
        width=width,
        gains=done.gains,
        sigma=sigma,
        before=before,
        after=after,
        log_J=log_J,
        K=K,
        status=done.status,
        message=done.message + ".",
        trace=tuple(done.trace),
        network=record,
        values=values,
    )


def refuse_schedules(block: Block) -> None:
    """Refuse standard deviations that follow a Schedule, and blocks without a Dense."""

    held = dense_of(block)
    for dense in held:
        if isinstance(dense.sigma_w, Schedule) or isinstance(dense.sigma_b, Schedule):
            raise MeanFieldError(
                f"Gains of every layer are not available: {dense} has standard deviations that follow a Schedule; "
                "give numbers."
            )
    if not held:
        raise MeanFieldError(f"Gains multiply weights, but {describe(block)} has no Dense.")
