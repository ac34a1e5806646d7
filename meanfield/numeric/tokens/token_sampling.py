"""Networks of T tokens at infinitely many channels, token matrices and heads drawn: layer by layer, with standard
errors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Numbers, plain
from meanfield.base.answers.results import Estimate, MeanFieldError, one_line
from meanfield.base.budgets import counted
from meanfield.base.words import unknown
from meanfield.networks.records import Block, Dense
from meanfield.numeric.tokens import drawn_heads as _attention  # noqa: F401 (its rule)
from meanfield.numeric.tokens.token_fields import Fields, Signal, is_gaussian
from meanfield.numeric.tokens.token_walk import Notes, TokenWalk, gaussian

_FAR = 1e100  # a Gram matrix is rescaled beyond it


@dataclass(frozen=True, eq=False)
class Sampled(Numbers):
    """K, K_ab, J and chi of `draws` draws of the token matrices and heads, at infinitely many channels and T tokens.

    level: "sampled", as every answer of this theory is called, beside the "averaged" one of `propagate`. l: layers
    1 … depth. samples: K (mean square over tokens), K_ab (mean product over pairs of tokens) and log_J = log
    J^{1,l} (J summed over perturbations of every token, per output) at layers 1 … depth, chi = J^{l,l+1} at layers
    1 … depth − 1; arrays (draws, layers). exact: whether every token Dense acts on a Gaussian; else a sum over the
    tokens is taken as Gaussian: right to order 1/T of tokens that have nothing in common, to no order of others.
    error: the largest error of an average over a pair of tokens, of the root mean squares of its factors
    multiplied. mixes: whether there is a Dense on tokens or an Attention; if not, all draws are alike. read:
    "mean", or "last" where all of it is that of the last token (K_ab: with the tokens before it).
    """

    tokens: int
    draws: int
    seed: int
    exact: bool
    error: float
    mixes: bool
    l: np.ndarray = field(repr=False)
    samples: Mapping[str, np.ndarray] = field(repr=False)
    level: str = "sampled"
    read: str = "mean"

    def __getattr__(self, name: str) -> Estimate:
        """`answer.K` is `answer.estimate("K")`."""
        if name.startswith("_") or "samples" not in self.__dict__:
            raise AttributeError(name)
        if name not in (*self.quantities, "log_J"):
            raise AttributeError(f"The sampled theory has {', '.join(self.quantities)}, and not {name!r}.")
        return self.estimate(name)

    def data(self) -> dict[str, Any]:
        """Tokens, draws, seed, and mean and standard error of every quantity by layer, as plain values."""
        names = ("level", "tokens", "draws", "seed", "exact", "error", "mixes", "read")
        own = {name: plain(getattr(self, name)) for name in names}
        found = self.arrays()
        return {**own, "values": {name: plain(values) for name, (_, values) in found.columns.items()}}

    def arrays(self) -> Arrays:
        """Mean and standard error ("K", "K_error") over the layer; chi, of the block from l to l + 1, ends before."""
        columns: dict[str, Any] = {}
        for name in self.samples:
            found, count = self.estimate(name), self.samples[name].shape[1]
            for label, part in ((name, found.mean), (f"{name}_error", found.standard_error)):
                columns[label] = ("layer",), np.concatenate([part, np.full(len(self.l) - count, np.nan)])
        return Arrays({"layer": (("layer",), self.l)}, columns, {"tokens": self.tokens, "draws": self.draws})

    @property
    def quantities(self) -> tuple[str, ...]:
        """What `estimate` can be asked for."""
        return tuple("J" if name == "log_J" else name for name in self.samples)

    def only(self, names: tuple[str, ...]) -> Sampled:
        """The same with these samples alone."""
        return replace(self, samples={name: self.samples[name] for name in names})

    def estimate(self, quantity: str, l: int | None = None) -> Estimate:
        """Mean and standard error over the draws at layer l, or at all its layers."""
        name = "log_J" if quantity == "J" else quantity
        if name not in self.samples:
            raise unknown("quantity of the sampled theory", quantity, (*self.quantities, "log_J"))
        values = self.samples[name]
        if l is not None and not 1 <= l <= values.shape[1]:
            raise MeanFieldError(f"{quantity} at layer {l} is not available: it is known at 1 to {values.shape[1]}.")
        values = values if l is None else values[:, l - 1]
        if quantity == "J":
            if values.max(initial=0.0) > 700:
                raise MeanFieldError("J overflows a double here; ask for log_J.")
            values = np.exp(values)
        return Estimate(values.mean(axis=0), values.std(axis=0, ddof=1) / math.sqrt(self.draws), self.draws)

    def __repr__(self) -> str:
        return one_line("Sampled", f"{', '.join(self.quantities)}; {self.tokens} tokens, {self.draws} draws")

    def __str__(self) -> str:
        shown = {}
        for name, values in self.samples.items():
            found = self.estimate(name, values.shape[1])
            shown[name] = f"{name} = {found.mean:.5g} ± {found.standard_error:.1g}"
        block = shown.pop("chi", None)
        how = "" if self.mixes else "; there is no Dense on tokens and no Attention, so that all draws are alike"
        how = how or ("" if self.exact else "; sums over tokens are taken as Gaussian")
        read = "" if self.read == "mean" else ", the last one read"
        lines = [f"sampled theory, {self.tokens} tokens{read}, {self.draws} draws{how}"]
        lines += [f"layer {len(self.l)}: {', '.join(shown.values())}"] if shown else []
        lines += [f"last block: {block}"] if block else []
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class SamplingSetting:
    """What is sampled: a block after an input layer of σ's (σ_w, σ_b), T tokens of Gram matrix `gram` at the input;
    read: "mean" over the tokens, or the "last" one; noted: whether branches, entropies and shares are wanted; weights:
    the number of Dense in the block where Theta by matrices is wanted, else 0."""

    block: Block
    first: Dense
    gram: np.ndarray
    depth: int
    values: Mapping[str, Any]
    tangents: bool
    seed: int
    read: str = "mean"
    noted: bool = False
    weights: int = 0


def draw_all(setting: SamplingSetting, draws: int, mixes: bool, threads: int | None = None) -> Sampled:
    """All draws, each a function of (seed, its number) alone."""
    count = threads or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
    with (
        threadpool_limits(limits=1, user_api="blas"),
        ThreadPoolExecutor(min(count, draws)) as pool,
    ):
        found = list(pool.map(counted(partial(_one, setting)), range(draws)))
    samples = {name: np.stack([rows[name] for _, rows in found]) for name in found[0][1]}
    fields = [one for one, _ in found]
    return Sampled(
        tokens=len(setting.gram),
        draws=draws,
        seed=setting.seed,
        exact=not any(one.closed for one in fields),
        error=max(one.error for one in fields),
        mixes=mixes,
        l=np.arange(1, setting.depth + 1),
        samples=samples,
        read=setting.read,
    )


def _one(setting: SamplingSetting, draw: int) -> tuple[Fields, dict[str, np.ndarray]]:
    fields, depth, tokens = Fields(), setting.depth, len(setting.gram)
    rows = {name: np.empty(depth) for name in ("K", "K_ab")}
    if setting.tangents:
        rows |= {"log_J": np.zeros(depth), "chi": np.empty(depth - 1)}
    names = [f"Theta[{d}]" for d in range(setting.weights + 1)] if setting.weights else []
    rows |= {name: np.zeros(depth) for name in names}
    with np.errstate(over="ignore", invalid="ignore"):
        own = _input_layer(setting)
        mean, log_J = np.zeros(tokens), 0.0
        gram = np.eye(tokens)  # of tangents from layer 1 on
        kernels = [own, *(np.zeros_like(own) for _ in names[1:])] if names else []  # of those of the weights
        for layer in range(1, depth + 1):
            square = own + np.multiply.outer(mean, mean)
            rows["K"][layer - 1] = one = _own(square, setting.read)
            all_pairs = square.sum() / tokens if setting.read == "mean" else square[-1].sum()
            rows["K_ab"][layer - 1] = (all_pairs - one) / (tokens - 1)
            if not np.isfinite(square).all():
                raise MeanFieldError(
                    f"K overflows at layer {layer} in draw {draw}; take a smaller depth, sigma_w or sigma_b."
                )
            for name, kernel in zip(names, kernels):
                rows[name][layer - 1] = _own(kernel, setting.read)
            if layer == depth:
                break
            carried = (gram, np.eye(tokens), *kernels) if setting.tangents else ()
            x = fields.base(mean, (own, *carried))
            walk = TokenWalk(
                fields, setting.values, layer + 1, depth, tokens, _generators(setting.seed, draw, layer + 1)
            )
            walk.notes = Notes(setting.read) if setting.noted else None
            walk.weights = 3 if names else None  # behind those of J, of chi and of the input layer
            x = _closed(walk, walk.apply(setting.block, x), tokens)
            for name, value in (walk.notes.found if walk.notes else {}).items():
                rows.setdefault(name, np.full(depth - 1, np.nan))[layer - 1] = value
            moments = fields.moments(x)
            mean, (own, *pushed) = moments.mean, moments.own
            fields.keep(())
            if setting.tangents:
                gram, fresh, *kernels = pushed
                rows["chi"][layer - 1] = _own(fresh, setting.read)
                size = _own(gram, setting.read)
                if not 0 < size < math.inf or not 0 < rows["chi"][layer - 1] < math.inf:
                    raise MeanFieldError(_no_jacobian(min(rows["chi"][layer - 1], size), layer))
                log_J += math.log(size)
                gram = gram / size
                rows["log_J"][layer] = log_J
    return fields, rows


def _own(gram: np.ndarray, read: str) -> float:
    """The entry of a token with itself: the mean over the tokens, or that of the last."""
    return float(np.trace(gram)) / len(gram) if read == "mean" else float(gram[-1, -1])


def _no_jacobian(chi: float, layer: int) -> str:
    if chi < 0 or math.isnan(chi):
        return (
            f"J of the block that makes layer {layer + 1} is lost to rounding: scores are so large that almost every "
            "softmax is a single 1, and J is made by the few that are not; take smaller deviations or fewer layers, or "
            "propagate, which has their mean."
        )
    size = "0" if chi == 0 else "infinite"
    return (
        f"J of the block that makes layer {layer + 1} is {size}, so that no perturbation is carried on; ask for "
        "quantities=('K', 'K_ab') alone, or change sigma_w."
    )


def _input_layer(setting: SamplingSetting) -> np.ndarray:
    walk = TokenWalk(Fields(), setting.values, 1, setting.depth, len(setting.gram), iter(()))
    sigma_w, sigma_b = walk.number(setting.first.sigma_w), walk.number(setting.first.sigma_b)
    return sigma_w**2 * setting.gram + sigma_b**2


def _closed(walk: TokenWalk, x: Signal, tokens: int) -> Signal:
    """The end of a block: what the next one starts from."""
    if not is_gaussian(x):
        raise MeanFieldError(
            "A block that ends in an activation, a Gate or an Attention is not Gaussian, so that the next one cannot "
            "start from it; let it end in a Dense."
        )
    if walk.fields.tokens(x) != tokens:
        raise MeanFieldError(
            f"The block makes {walk.fields.tokens(x)} tokens of {tokens}; change expand= of a Dense on tokens."
        )
    return gaussian(walk, x) if len(x) > 1 else x


def _generators(seed: int, draw: int, layer: int) -> Iterator[np.random.Generator]:
    """A stream for every Dense on tokens of a layer, and one or two for an Attention, whatever stands beside it."""
    ordinal = 0
    while True:
        yield np.random.Generator(np.random.Philox(np.random.SeedSequence((seed, draw, layer, ordinal))))
        ordinal += 1
