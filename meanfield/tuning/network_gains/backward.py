"""Tuning losses at infinite width and their gradients by the gains of every Dense, by one pass back over the layers.

A block takes y^l to y^{l+1} = f(y^l, a^{l+1}) and has log J^{l,l+1} = g(y^l, a^{l+1}), y the logarithm of K, and that
of K − K_ab where positions act on each other, a the gains of its Dense. Both are what `propagate` makes of one block:
every record with a J can be tuned. Derivatives are differences of fourth order in logarithms. Losses over blocks l = 1
… L − 1: "JLL" ½Σg², "JSL" ½Σ(J − 1)², "JKL" JLL + (λ/2)Σ(log K^{l+1}/K^l)². With Λ_l = ∂loss/∂y^l,

    Λ_l = ∂g/∂y ∂loss/∂g + (∂f/∂y)ᵀ Λ_{l+1} + (what the loss itself holds of y^l).

Source: derived here; [autoinit] (15), (16) for plain layers have a factor too much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import with_dense
from meanfield.networks.records import Block, Dense, Network, Param
from meanfield.theory.deriving import derive
from meanfield.theory.theory import Theory
from meanfield.tuning.dense_layers import kinds

LOSSES = ("JLL", "JSL", "JKL")
STEP = 2e-3  # of a logarithm
OFFSETS, WEIGHTS = (-2, -1, 1, 2), np.array([1, -8, 8, -1]) / 12
LARGEST = 1e280


@dataclass(frozen=True, eq=False)
class Blocks:
    """The maps of a block whose Dense have standard deviations of their own in every layer; values: numbers for its
    other symbols."""

    block: Block
    values: dict[str, Any]

    @cached_property
    def theory(self) -> Theory:
        """Of the record with w_0, b_0 in the input layer and w_d, b_d in the d-th Dense."""

        def named(i: int, one: Dense) -> Dense:
            return replace(one, sigma_w=Param(f"w_{i + 1}"), sigma_b=Param(f"b_{i + 1}"))

        first = Dense(sigma_w=Param("w_0"), sigma_b=Param("b_0"))
        found = derive(architecture=Network(with_dense(self.block, named), first))
        if "J" not in found.default_quantities:
            raise MeanFieldError(
                f"Gains were to be tuned by J, but {found.activations[0]} jumps, so that J is infinite at infinite "
                "width and 0 in a finite network; take a continuous activation."
            )
        return found

    @cached_property
    def count(self) -> int:
        return len(kinds(self.block))

    @cached_property
    def state(self) -> tuple[str, ...]:
        """What a layer hands on."""
        return ("K", "K_ab") if self.theory.kind else ("K",)

    @cached_property
    def _met(self) -> set[str]:
        return {s.name for s in self.theory.recursion(*self.state, "J").parameters}

    def run(self, sigma: np.ndarray, **settings: Any) -> Any:
        """`propagate` with sigma (…, Dense, 2) in the block's Dense; settings: sizes, starts, w_0 and b_0."""
        places = [(f"{x}_{d + 1}", sigma[..., d, i]) for d in range(self.count) for i, x in enumerate("wb")]
        given: dict[str, Any] = {name: value for name, value in places if name in self._met}
        given |= {name: value for name, value in self.values.items() if name in self._met}  # σ's of a Dense are places
        with np.errstate(all="ignore"):
            return self.theory.propagate(
                quantities=(*self.state, "J"), **given, **settings
            )

    def one(self, y: np.ndarray, sigma: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(f, g) at points: y (points, state), sigma (points, Dense, 2)."""
        K = np.exp(y[:, 0])
        start = {"K": K}
        if len(self.state) > 1:
            start["K_ab"] = K - np.exp(y[:, 1])
        run = self.run(sigma, depth=2, start=start, w_0=1.0, b_0=0.0)
        return coordinates(run, 1), run.log_J[..., 1] - run.log_J[..., 0]


def coordinates(run: Any, at: Any) -> np.ndarray:
    """y (points, state) of a run at a layer's place."""
    K = np.asarray(run.K)[..., at]
    found = [K] if "K_ab" not in run.quantities else [K, K - np.asarray(run.K_ab)[..., at]]
    with np.errstate(all="ignore"):
        return np.log(np.stack(found, axis=-1))


@dataclass(frozen=True, eq=False)
class State:
    """All layers with gains (layers, Dense, 2), the input layer's in place 0: y^l, K^l for l = 1 … L and J^{l,l+1} for
    l = 1 … L − 1, with the derivatives of f and g by y^l and by the logarithms of the gains of layer l + 1, those of y¹
    by the logarithms of the input layer's (state, 2). within: which blocks the loss is over."""

    y: np.ndarray
    log_J: np.ndarray
    f_y: np.ndarray
    g_y: np.ndarray
    f_a: np.ndarray
    g_a: np.ndarray
    y_a: np.ndarray
    gains: np.ndarray
    within: np.ndarray

    @property
    def K(self) -> np.ndarray:
        return np.exp(self.y[:, 0])

    @property
    def J(self) -> np.ndarray:
        return np.exp(self.log_J)

    def loss(self, kind: str, lam: float) -> float:
        """½Σ(log J)², ½Σ(J − 1)², or the first and (λ/2)Σ(log K^{l+1}/K^l)²."""
        if kind == "JSL":
            return 0.5 * float(((self.J - 1)[self.within] ** 2).sum())
        found = 0.5 * float((self.log_J[self.within] ** 2).sum())
        return found if kind == "JLL" else found + 0.5 * lam * float((np.diff(self.y[:, 0])[self.within] ** 2).sum())

    def gradient(self, kind: str, lam: float) -> np.ndarray:
        """∂loss/∂gains (layers, Dense, 2), by one pass back."""
        by_g = np.where(self.within, self.J * (self.J - 1) if kind == "JSL" else self.log_J, 0.0)
        step = np.where(self.within, lam * np.diff(self.y[:, 0]), 0.0) if kind == "JKL" else np.zeros(len(by_g))
        out, back = np.zeros(self.gains.shape), np.zeros(self.y.shape[1])
        back[0] = step[-1]
        for b in range(len(by_g) - 1, -1, -1):  # the block that makes layer b + 2, in place b + 1
            out[b + 1] = self.g_a[b] * by_g[b] + np.einsum("sdi,s->di", self.f_a[b], back)
            back = self.g_y[b] * by_g[b] + back @ self.f_y[b]
            back[0] += (step[b - 1] if b else 0.0) - step[b]
        out[0, 0] = back @ self.y_a
        return out / self.gains

    def jacobian(self, kind: str = "JLL", lam: float = 0.0) -> np.ndarray:
        """∂log J^{l,l+1}/∂gains, a row for each block of the loss, with the shape of the gains behind it; of "JKL" also
        √λ times those of log K^{l+1}/K^l."""
        D = len(self.y)
        by = np.zeros((D, self.y.shape[1], *self.gains.shape))  # y^l by all gains
        by[0, :, 0, 0] = self.y_a
        rows = np.zeros((D - 1, *self.gains.shape))
        for b in range(D - 1):
            rows[b] = np.tensordot(self.g_y[b], by[b], 1)
            rows[b, b + 1] += self.g_a[b]
            by[b + 1] = np.tensordot(self.f_y[b], by[b], 1)
            by[b + 1, :, b + 1] += self.f_a[b]
        found = rows[self.within]
        if kind == "JKL":
            found = np.concatenate([found, np.sqrt(lam) * np.diff(by[:, 0], axis=0)[self.within]])
        return found / self.gains

    def rate_bound(self, kind: str, lam: float) -> float:
        """2/λ_max(GᵀG): the constant rates below it hold where the loss is 0 here, and about so where it is small."""
        G = self.jacobian(kind, lam).reshape(-1, self.gains.size)
        return 2 / float(np.linalg.eigvalsh(G @ G.T).max())


def state(
    blocks: Blocks, sigma: np.ndarray, gains: np.ndarray, input_norm: float, within: np.ndarray | None = None
) -> State:
    """Every layer of a theory with standard deviations sigma times gains, both (layers, Dense, 2)."""
    here = gains * sigma
    D = len(here)
    b = here[0, 0, 1] ** 2
    run = blocks.run(here, depth=D, layerwise=True, input_norm=input_norm, w_0=here[0, 0, 0], b_0=here[0, 0, 1])
    y = coordinates(run, slice(None))
    if not (np.isfinite(y).all() and (np.exp(y[:, 0]) < LARGEST).all()):
        layer = int(np.argmax(~np.isfinite(y).all(axis=1) | (np.exp(y[:, 0]) >= LARGEST))) + 1
        raise MeanFieldError(f"K left the range of floats at layer {layer}.")
    shape = (D - 1, y.shape[1] + 2 * blocks.count, len(OFFSETS))
    ys = np.broadcast_to(y[:-1, None, None], (*shape, y.shape[1])).copy()
    sigmas = np.broadcast_to(here[1:, None, None], (*shape, blocks.count, 2)).copy()
    factors = np.exp(STEP * np.array(OFFSETS))
    for s in range(y.shape[1]):
        ys[:, s] += STEP * np.array(OFFSETS)[:, None] * (np.arange(y.shape[1]) == s)
    for i in range(2 * blocks.count):
        sigmas[:, y.shape[1] + i, :, i // 2, i % 2] *= factors
    f, g = blocks.one(
        np.concatenate([y[:-1], ys.reshape(-1, y.shape[1])]),
        np.concatenate([here[1:], sigmas.reshape(-1, blocks.count, 2)]),
    )
    f_at = f[D - 1 :].reshape(*shape, -1)
    g_by = np.tensordot(g[D - 1 :].reshape(shape), WEIGHTS, (2, 0)) / STEP
    f_by = np.einsum("blos,o->bsl", f_at, WEIGHTS) / STEP
    n, K = y.shape[1], float(np.exp(y[0, 0]))
    y_a = np.array([[2 * (1 - b / K), 2 * b / K], [2.0, 0.0]])[:n]
    within = np.ones(D - 1, dtype=bool) if within is None else within
    return State(
        y=y,
        log_J=g[: D - 1],
        f_y=f_by[:, :, :n],
        g_y=g_by[:, :n],
        f_a=f_by[:, :, n:].reshape(D - 1, n, blocks.count, 2),
        g_a=g_by[:, n:].reshape(D - 1, blocks.count, 2),
        y_a=y_a,
        gains=gains,
        within=within,
    )
