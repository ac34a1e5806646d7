"""What `recommend` answers: numbers, one screen of text, JSON, and code to paste."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any

from meanfield.base.answers.arrays import Arrays, of_rows
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.networks.records import Network
from meanfield.tuning.recommendation import snippets
from meanfield.tuning.recommendation.choices import Anchor
from meanfield.tuning.recommendation.drawn_tokens import DrawnTokens
from meanfield.tuning.recommendation.initializers import Outcome

ROUNDING = 1e-8  # log J below this is printed as 0
SHALLOW = 0.25  # depth/width from which the scatter between networks is worth a warning


@dataclass(frozen=True)
class Layer:
    """One kind of Dense: "input", or "dense1", … in the order of the block; its axis, its fan-in (None where it is that
    of the data, or tokens), σ_w = √fan_in · std of a weight, σ_b = std of a bias; beta_w, beta_b: in the k-th block
    they are k^(−β/2) of that (a `Schedule`); weights: how they are drawn."""

    key: str
    axis: str
    fan_in: float | None
    sigma_w: float
    sigma_b: float
    beta_w: float = 0.0
    beta_b: float = 0.0
    weights: str = "gaussian"

    @property
    def weight_std(self) -> float | None:
        """σ_w/√fan_in, None where the fan-in is not known here."""
        return None if self.fan_in is None else self.sigma_w / math.sqrt(self.fan_in)


@dataclass(frozen=True)
class Point:
    """A certified critical point, as text, and what happens from it at this depth."""

    sigma_w: str
    sigma_b: str
    K: str
    kind: str
    log_J: float
    worst: float


@dataclass(frozen=True)
class Predicted:
    """Infinite width: log J^{1,L}, K^L, the largest |log J^{1,l}| on the way (swing), ξ = 1/|log J^{L,L+1}|, the last
    layer to which |log J^{1,l}| ≤ max(1, swing) (reach; None: beyond `scanned`), and the correlation at L of two inputs
    of this cosine (None where the theory does not follow them). by_draws: where a Dense mixes tokens, log J, K and
    their standard errors over draws of its matrices; all else is then of averages over these matrices."""

    log_J: float
    K: float
    swing: float
    xi: float
    reach: int | None
    scanned: int
    cosine: float
    correlation: float | None
    by_draws: DrawnTokens | None = None

    @property
    def allowed(self) -> float:
        """What |log J^{1,l}| stays within up to `reach`."""
        return max(1.0, self.swing)


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation of log J^{1,L} over networks of the width; networks: how many were drawn, None where
    both are derived to order 1/n."""

    mean: float
    sd: float
    networks: int | None

    @property
    def source(self) -> str:
        """"derived" or "measured"."""
        return "derived" if self.networks is None else "measured"


@dataclass(frozen=True)
class Recommendation(Result):
    """Standard deviations for one architecture, depth and width; see `recommend`.

    kind: "point" (a certified critical point), "line" (a critical ray), "flat" (critical at every σ_w), "search", or
    "budget" (skips of strength ≥ 1: the largest factor of the branches within the budget). scale: that factor, None
    where branches were left alone; scale_is_a_layer: whether some branch has it as a Scale (LayerScale), one of the
    record or one that is put behind a branch that ends in no Dense; scale_in_dense: whether some branch has it in the
    σ's of its last Dense. worst: the largest |log J^{1,L}| over starts K¹(1 ± 2√(2/n)). network:
    the record with these numbers, for `derive` and `check` (which then take no sigma_w, sigma_b).

    >>> found = recommend("relu", residual=True, depth=50, width=512, networks=0)
    >>> f"{found.scale:.5f}", f"{found.predicted.log_J:.3f}"
    ('0.20307', '1.000')
    >>> print(found.numbers())
    input weight_std=1.0/sqrt(fan_in) bias_std=0.0
    dense1 weight_std=0.008974319640364692 bias_std=0.0
    """

    what: str
    depth: int
    width: int
    input_norm: float
    budget: float
    layers: tuple[Layer, ...]
    scale: float | None
    scale_is_a_layer: bool
    scale_in_dense: bool
    kind: str
    points: tuple[Point, ...]
    anchor: Anchor | None
    K1: float
    worst: float
    predicted: Predicted
    window: tuple[float, float] | None
    spread: Spread | None
    silent: str
    common: tuple[Outcome, ...]
    network: Network = field(repr=False)
    grows: bool

    @property
    def windowed(self) -> str:
        """What `window` is a range of: σ_w of the block's Dense, or the scale of the branches where that was chosen."""
        return "sigma_w" if self.kind != "budget" else "branch scale"

    @property
    def sigmas(self) -> dict[str, tuple[float, float]]:
        """(σ_w, σ_b) of every kind of Dense by its key."""
        return {one.key: (one.sigma_w, one.sigma_b) for one in self.layers}

    @property
    def sigma_w(self) -> float:
        """σ_w of the Dense of a block; the input layer's own is in `sigmas`. MeanFieldError where they differ."""
        return self._shared(0, "sigma_w")

    @property
    def sigma_b(self) -> float:
        """σ_b of the Dense of a block; the input layer's own is in `sigmas`. MeanFieldError where they differ."""
        return self._shared(1, "sigma_b")

    def _shared(self, which: int, name: str) -> float:
        kinds = {key: both[which] for key, both in self.sigmas.items() if key != "input"}
        if len(set(kinds.values())) != 1:
            each = ", ".join(f"{key} {value:.6g}" for key, value in kinds.items())
            raise MeanFieldError(f"The Dense of a block have no {name} in common ({each}); .sigmas has all of them.")
        return next(iter(kinds.values()))

    @property
    def layer_scale(self) -> float | None:
        """The value of the `Scale` of branches, None where there is none."""
        return self.scale if self.scale_is_a_layer else None

    @property
    def _scale(self) -> tuple[float, str] | None:
        """The value of the `Scale` of branches, and of which."""
        if self.layer_scale is None:
            return None
        return self.layer_scale, "of branches that end in no Dense" if self.scale_in_dense else "of every branch"

    def torch(self) -> str:
        """Code for PyTorch: `init_` draws a Linear of one kind, `init_network_` all Linears of a network in order."""
        return snippets.torch(self.layers, self._scale, self.what, self.K1, self.depth)

    def flax(self) -> str:
        """Code for Flax (linen): a function that makes a Dense of each kind."""
        return snippets.flax(self.layers, self._scale, self.what)

    def numbers(self) -> str:
        """Plain numbers: std of weights and biases for each kind of Dense."""
        return snippets.numbers(self.layers, self.layer_scale)

    def data(self) -> dict[str, Any]:
        """All of it as plain numbers, text and lists (JSON)."""
        held = {name: plain(_parts(value)) for name, value in self.__dict__.items() if name != "network"}
        for entry, one in zip(held["layers"], self.layers):
            entry["weight_std"] = one.weight_std
        return held | {"why": self.why, "caveats": list(self.caveats), "record": repr(self.network)}

    def arrays(self) -> Arrays:
        """A row for every kind of Dense."""
        return of_rows([{**asdict(one), "weight_std": one.weight_std} for one in self.layers])

    @property
    def why(self) -> str:
        """Why these numbers and no others, in a sentence or two."""
        if self.kind == "point" and self.anchor is not None:
            w, b, K, kind, _ = self.anchor
            others = [p for p in self.points if (p.sigma_w, p.sigma_b) != (w, b)]
            text = f"critical point sigma_w = {w}, sigma_b = {b} ({kind}, K* = {_any(K)})"
            if K == "0" and kind != "scale-invariant":
                text += f"; K drifts to 0 there, so sigma_w is moved until J^(1,{self.depth}) = 1 from K^1 = 1"
            elif K not in ("0", "K"):
                text += "; the input layer starts at K*"
            for p in others:
                text += (
                    f". Not sigma_w = {p.sigma_w}, sigma_b = {p.sigma_b} ({p.kind}, K* = {_any(p.K)}): K^1 within two "
                    f"s.d. of width {self.width} ends at |log J| up to {p.worst:.3g}"
                )
            return text
        if self.kind == "budget":
            sign = "J grows at every scale > 0 of the branches (skips of strength >= 1)" if self.grows else (
                "no sigma_w gives J = 1"
            )
            if self.scale == 1.0:
                return f"{sign}; the branches as they are stay within |log J| <= {self.budget:g}"
            return f"{sign}; this is the largest common scale with |log J^(1,{self.depth})| <= {self.budget:g}"
        if self.kind == "line":
            return "critical at every point of the ray sigma_b/sigma_w (LayerNorm hides K); sigma_w = 1 is taken"
        if self.kind == "flat":
            return "critical at every sigma_w; 1 is taken"
        return f"no certified critical point holds here; a search over (sigma_w, sigma_b) gives J^(1,{self.depth}) = 1"

    @property
    def caveats(self) -> tuple[str, ...]:
        """What to know before trusting it, each in a sentence."""
        out, p = [], self.predicted
        if self.anchor is not None and self.anchor.kind == "half-stable":
            held = "above" if self.anchor.side.startswith("attracts from above") else "below"
            out.append(
                f"K* {self.anchor.side}: keep K^1 = sigma_w^2 |x|^2/N_0 at {self.K1:.4g} or a little {held} (two s.d. "
                f"of width {self.width} off: |log J| up to {self.worst:.2g})."
            )
        elif self.worst > max(1.0, abs(p.log_J) * 1.3):
            out.append(f"Starts K^1 that are two s.d. of width {self.width} off end at |log J| = {self.worst:.3g}.")
        if p.swing > max(1.0, abs(p.log_J) * 1.1):
            out.append(f"On the way |log J^(1,l)| reaches {p.swing:.3g}: J = 1 end to end is not J = 1 in each layer.")
        if p.correlation is not None and p.correlation > 0.99:
            out.append(
                f"Two inputs of cosine {p.cosine:g} end at 1 - c = {1 - p.correlation:.2g}: the last layer hardly "
                "tells them apart."
            )
        if self.depth / self.width > SHALLOW:
            out.append(
                f"depth/width = {self.depth / self.width:.2g}: single networks scatter widely around any prediction of "
                "infinite width."
            )
        if self.spread is None and self.silent:
            out.append(f"The scatter over networks was not measured: {self.silent.rstrip('.')}.")
        if any(one.axis == "tokens" for one in self.layers):
            out.append("For a Dense on tokens fan_in is the number of tokens it reads.")
            if p.by_draws is None:
                out.append(
                    "log J and K are averages over the matrices on tokens, which are exact for activations of degree 1 "
                    "alone."
                )
        return tuple(out)

    def __repr__(self) -> str:
        parts = ", ".join(f"{one.key}: {one.sigma_w:.6g}, {one.sigma_b:.6g}" for one in self.layers)
        return one_line("Recommendation", f"{self.what}; {parts}")

    def __str__(self) -> str:
        return wrapped("\n".join(screen(self)))


def _any(K: str) -> str:
    return "any" if K == "K" else K


def _number(value: float) -> str:
    if math.isinf(value) or math.isnan(value):
        return "vanishes" if value < 0 else "overflows"
    return "0" if abs(value) < ROUNDING else f"{value:.4g}"


def _variance(value: float) -> str:
    return "overflows" if math.isinf(value) or math.isnan(value) else f"{value:.4g}"


def screen(r: Recommendation) -> list[str]:
    """The lines of one screen; sentences are still to be wrapped."""
    p = r.predicted
    out = [f"{r.what}", f"depth {r.depth}, width {r.width}, inputs with |x|^2/N_0 = {r.input_norm:g}", ""]
    out.append(f"  {'layer':<16}{'sigma_w':>11}{'sigma_b':>11}{'fan_in':>8}{'weight std':>19}{'bias std':>11}")
    for one in r.layers:
        name = one.key + (" (tokens)" if one.axis == "tokens" else "")
        fan = "N_0" if one.key == "input" else "T" if one.fan_in is None else f"{one.fan_in:.6g}"
        std = f"{one.sigma_w:.6g}/sqrt({fan})" if one.weight_std is None else f"{one.weight_std:.6g}"
        out.append(f"  {name:<16}{one.sigma_w:>11.6g}{one.sigma_b:>11.6g}{fan:>8}{std:>19}{one.sigma_b:>11.6g}")
    if r.scale is not None:
        places = [
            *(["in sigma_w of the branch's last Dense"] if r.scale_in_dense else []),
            *(["value of its Scale (LayerScale)"] if r.scale_is_a_layer else []),
        ]
        other = ", elsewhere the " if r.scale_in_dense and r.scale_is_a_layer else ""
        out.append(f"  branch scale {r.scale:.6g}, {other.join(places)}")
    for one in r.layers:
        falls = [f"{n} as k^({-b / 2:g})" for n, b in (("sigma_w", one.beta_w), ("sigma_b", one.beta_b)) if b]
        if falls:
            out.append(f"  {one.key}: {' and '.join(falls)} in block k; the numbers are those of the first")
        if one.weights != "gaussian":
            out.append(f"  {one.key}: {one.weights} weights")
    out += ["", f"  why: {r.why}.", ""]
    log_J = f"log J^(1,{r.depth}) = {_number(p.log_J)}"
    out.append(f"  infinite width   {log_J}, K^1 = {r.K1:.4g}, K^{r.depth} = {p.K:.4g}")
    if p.by_draws is not None:
        d = p.by_draws
        numbers = f"log J = {d.log_J:.4g} +- {d.error_log_J:.1g}, K = {d.K:.4g} +- {d.error_K:.1g}"
        out.append(f"  {f'{d.tokens} tokens':<16} {numbers} (s.e. of draws)")
    if r.spread is not None:
        s = r.spread
        how = "derived to order 1/n" if s.networks is None else f"of {s.networks} networks"
        out.append(f"  width {r.width:<10} log J = {s.mean:.3g} +- {s.sd:.2g} (s.d. {how})")
    if p.correlation is not None:
        out.append(f"  two inputs       cosine {p.cosine:g} -> {p.correlation:.4g} at layer {r.depth}")
    reach = f"up to layer {p.reach}" if p.reach is not None else f"up to layer {p.scanned} at least"
    xi = "infinite" if math.isinf(p.xi) else f"{p.xi:.4g}"
    out.append(f"  depth            |log J^(1,l)| <= {p.allowed:.3g} {reach}")
    out.append(f"  depth scale      xi = 1/|log J^(l,l+1)| = {xi} at l = {r.depth}")
    if r.window is not None:
        (low, high), name = r.window, r.windowed
        top = "any larger one" if math.isinf(high) else f"{high:.5g}"
        out.append(f"  window           |log J^(1,{r.depth})| <= 1 for {name} from {low:.5g} to {top}")
    out += ["", f"  {'common initializer':<22}{'log J^(1,' + str(r.depth) + ')':>16}{'K^' + str(r.depth):>14}"]
    out += [f"  {one.name:<22}{_number(one.log_J):>16}{_variance(one.K):>14}" for one in r.common]
    out.append(f"  {'this one':<22}{_number(p.log_J):>16}{_variance(p.K):>14}")
    if r.caveats:
        out += ["", *(f"  note: {one}" for one in r.caveats)]
    return out


def _parts(value: Any) -> Any:
    """Records of numbers as dictionaries."""
    if isinstance(value, tuple):
        return [_parts(one) for one in value]
    return asdict(value) if is_dataclass(value) and not isinstance(value, type) else value
