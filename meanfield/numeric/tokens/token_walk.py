"""A block as a map of the fields of one draw: one rule for each record, or a refusal with its reason."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.leading import Registry
from meanfield.base.symbols import z
from meanfield.functions.activations import Activation, activation
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Block,
    Constant,
    Dense,
    Gate,
    LayerNorm,
    Nonlinearity,
    Param,
    Pool,
    Projection,
    Residual,
    RMSNorm,
    Scale,
    Schedule,
    Sequential,
)
from meanfield.numeric.quadrature.covariances.slopes import Slopes, slopes_of
from meanfield.numeric.tokens.token_fields import Fields, FieldTerm, Signal, is_gaussian, refuse_equal, scaled, summed
from meanfield.numeric.tokens.token_functions import Applied

Draw = Callable[[str, tuple[int, int]], np.ndarray]


@dataclass(eq=False)
class Notes:
    """Numbers met in one block, by name and the place of what they are of: "branch[2]" is of the second skip; read:
    which tokens they are of, "mean" (of all) or "last"."""

    read: str = "mean"
    found: dict[str, float] = field(default_factory=dict)

    def put(self, name: str, by_token: np.ndarray) -> None:
        """The next one of this name: a number for every token."""
        place = 1 + sum(key.startswith(f"{name}[") for key in self.found)
        self.found[f"{name}[{place}]"] = float(by_token.mean() if self.read == "mean" else by_token[-1])


@dataclass(eq=False)
class TokenWalk:
    """The block that makes layer `layer` of `depth`, at the matrices `draw(law, shape)` returns one after the other.

    values: numbers of the symbols, sigma_w and sigma_b among them; notes: what is seen on the way beside the signal,
    None if nobody asks; weights: the number among the tangents of the one that starts at the weights of the block's
    first Dense, the others following it in the order in which signals meet them, None where they are not carried; met:
    how many Dense were met.
    """

    fields: Fields
    values: Mapping[str, Any]
    layer: int
    depth: int
    tokens: int
    draws: Iterator[np.random.Generator]
    stack: list[Signal] = field(default_factory=list)
    notes: Notes | None = None
    weights: int | None = None
    met: int = 0

    def start(self, own: list[np.ndarray], gram: np.ndarray) -> None:
        """Adds to the tangent of the next Dense what its weights and biases start: a Gram matrix."""
        if self.weights is not None:
            own[1 + self.weights + self.met] = own[1 + self.weights + self.met] + gram
            self.met += 1

    def apply(self, block: Block, x: Signal) -> Signal:
        """The signal after a block."""
        match block:
            case Sequential(blocks):
                for inner in blocks:
                    x = self.apply(inner, x)
                return x
            case Residual(branch, mu, shortcut):
                self.stack.append(x)
                kept = x if shortcut is None else self.apply(shortcut, x)
                self.stack.append(kept)
                y = self.apply(branch, x)
                self.stack.pop()
                self.stack.pop()
                if self.fields.tokens(y) != self.fields.tokens(kept):
                    raise MeanFieldError(
                        f"A skip adds {self.fields.tokens(kept)} tokens to {self.fields.tokens(y)}; change expand= "
                        "of a Dense on tokens."
                    )
                if self.notes is not None:
                    moments = self.fields.moments(y)
                    self.notes.put("branch", np.diag(moments.own[0]) + moments.mean**2)
                return summed((y, scaled(kept, self.number(mu))))
        rule = RULES.get(type(block))
        if rule is None:
            raise MeanFieldError(
                f"The sampled theory of tokens was asked for with {block!r}, for which it has no rule; measure such a "
                "network with measure(..., tokens=...)."
            )
        return rule(self, block, x)

    def number(self, of: Any) -> float:
        """A record's number in this layer."""
        if isinstance(of, Param):
            if of.name not in self.values:
                raise MeanFieldError(f"{of.name} has no value; give it as a keyword ({of.name}=...).")
            return _at_layer(self.values[of.name], self.layer)
        if isinstance(of, Schedule):
            value, beta, total = (self.number(part) for part in (of.value, of.beta, of.total))
            return value * (self.layer - 1) ** (-beta / 2) * max(self.depth - 1, 1) ** (-total / 2)
        assert isinstance(of, int | float | Constant) or hasattr(of, "numerator")
        return float(of)

    def alive(self) -> set[int]:
        """The bases that a skip will ask for."""
        return {term.base for signal in self.stack for term in signal}


def _at_layer(value: Any, layer: int) -> float:
    return float(value if np.ndim(value) == 0 else value[layer - 1])


Rule = Callable[[TokenWalk, Any, Signal], Signal]
RULES: Registry[type, Rule] = Registry()


def sampled_rule(record: type) -> Callable[[Rule], Rule]:
    """Decorator: the rule of a record, from (walk, record, signal) to the new signal."""
    return RULES.adds(record)


@sampled_rule(Nonlinearity)
def _nonlinearity(walk: TokenWalk, block: Nonlinearity, x: Signal) -> Signal:
    phi = activation(block.activation)
    if phi.expression.is_polynomial(z) and sp.degree(phi.expression, z) <= 1 and not phi.free_parameters:
        shift = float(phi.expression.subs(z, 0))
        return scaled(x, float(phi.expression.diff(z)), shift)
    if len(x) > 1 and is_gaussian(x):
        x = gaussian(walk, x)
    if len(x) > 1 or (x[0].f.is_line and not is_gaussian(x)):
        raise MeanFieldError(
            f"{phi} is applied to a sum that is not Gaussian (a skip around an activation), to a product (a Gate), or "
            "to a mixture (an Attention); put a Dense in between."
        )
    (term,) = x
    return (FieldTerm(term.base, Applied(_functions(phi), term.f, phi.expression.has(sp.sin, sp.cos))),)


def gaussian(walk: TokenWalk, x: Signal) -> Signal:
    """A sum of Gaussians as one base."""
    moments = walk.fields.moments(x, walk.alive())
    return walk.fields.base(moments.mean, moments.own, moments.across)


def _functions(phi: Activation) -> Slopes:
    if phi.free_parameters:
        name = sorted(s.name for s in phi.free_parameters)[0]
        raise MeanFieldError(f"{name} has no value; give it as a keyword ({name}=...).")
    return slopes_of(phi, 1)


@sampled_rule(Dense)
def _dense(walk: TokenWalk, block: Dense, x: Signal) -> Signal:
    sigma_w, sigma_b = walk.number(block.sigma_w), walk.number(block.sigma_b)
    if block.axis == "tokens":
        return _mix(walk, block, x, sigma_w, sigma_b)
    moments = walk.fields.moments(x)
    first, *tangents = moments.own
    square = first + np.multiply.outer(moments.mean, moments.mean)
    own = [sigma_w**2 * square + sigma_b**2, *(sigma_w**2 * gram for gram in tangents)]
    walk.start(own, own[0])
    return walk.fields.base(np.zeros(len(square)), tuple(own))


def _mix(walk: TokenWalk, block: Dense, x: Signal, sigma_w: float, sigma_b: float) -> Signal:
    """x → σ_w T^{−1/2} W x + σ_b b, W and b drawn: exact where x is Gaussian, else T must be large enough for a sum
    over T tokens to be one."""
    if walk.weights is not None:
        raise MeanFieldError(
            "Theta of the sampled theory was asked for with a Dense on tokens, whose weights all neurons share; ask "
            "for other quantities, or measure such a network with measure(..., tokens=...)."
        )
    fields = walk.fields
    moments = fields.moments(x, walk.alive())
    fields.closed |= not is_gaussian(x)
    old = len(moments.mean)
    new = _whole(walk.number(block.expand), walk.tokens)
    generator = next(walk.draws)
    weights = sigma_w / math.sqrt(old) * matrix(generator, block.weights, new, old)
    bias = sigma_b * generator.standard_normal(new)
    own = tuple(weights @ gram @ weights.T for gram in moments.own)
    across = {name: tuple(weights @ gram for gram in grams) for name, grams in moments.across.items()}
    return fields.base(weights @ moments.mean + bias, own, across)


def matrix(generator: np.random.Generator, law: str, new: int, old: int) -> np.ndarray:
    """One draw of W, entries of mean 0 and variance 1."""
    if law == "uniform":
        return generator.uniform(-math.sqrt(3.0), math.sqrt(3.0), (new, old))
    normal = generator.standard_normal((new, old) if law == "gaussian" else (max(new, old),) * 2)
    if law == "gaussian":
        return normal
    q, r = np.linalg.qr(normal)
    return math.sqrt(max(new, old)) * (q * np.sign(np.diag(r)))[:new, :old]


def _whole(expand: float, tokens: int) -> int:
    count = round(expand * tokens)
    if count < 1 or abs(count - expand * tokens) > 1e-9 * count:
        raise MeanFieldError(
            f"A Dense on tokens with expand = {expand:g} makes {expand * tokens:g} of {tokens} tokens; the product "
            "must be a whole number ≥ 1."
        )
    return count


@sampled_rule(LayerNorm)
def _layer_norm(walk: TokenWalk, block: LayerNorm, x: Signal) -> Signal:
    """Over the channels: mean and spread of a token are numbers, and what a tangent changes in them averages out."""
    _refuse_narrow(walk, block, x)
    mean, sd = walk.fields.spread(x)
    refuse_equal(sd, walk.layer)
    return scaled(x, 1 / sd, -mean / sd)


@sampled_rule(RMSNorm)
def _rms_norm(walk: TokenWalk, block: RMSNorm, x: Signal) -> Signal:
    _refuse_narrow(walk, block, x)
    size = np.hypot(*walk.fields.spread(x))
    refuse_equal(size, walk.layer, "RMSNorm", "zeros")
    return scaled(x, 1 / size)


def _refuse_narrow(walk: TokenWalk, block: Block, x: Signal) -> None:
    if any(term.base in walk.fields.narrow for term in x):
        raise MeanFieldError(
            f"The sampled theory of tokens was asked for {block!r} right behind an Attention of given value_dim, and "
            "the mean square of finitely many channels is not a number; leave value_dim out, or put a Dense in between."
        )


@sampled_rule(Scale)
def _scale(walk: TokenWalk, block: Scale, x: Signal) -> Signal:
    return scaled(x, walk.number(block.factor))


@sampled_rule(AffineNorm)
def _affine_norm(walk: TokenWalk, block: AffineNorm, x: Signal) -> Signal:
    """The identity, as γ = 1 and β = 0."""
    return x


@sampled_rule(Gate)
def _gate(walk: TokenWalk, block: Gate, x: Signal) -> Signal:
    """u ⊙ φ(v): u and v are independent and u has mean 0, so that ⟨uu⟩⟨φφ⟩ and its two tangents are all there is."""
    fields = walk.fields
    value, gate = (fields.moments(_dense(walk, one, x)) for one in (block.value, block.gate))
    base = fields.base(gate.mean, gate.own)
    opened = fields.moments(_nonlinearity(walk, Nonlinearity(block.activation), base))
    shut = opened.own[0] + np.multiply.outer(opened.mean, opened.mean)
    covariance, *tangents = value.own
    grams = (shut * one + covariance * other for one, other in zip(tangents, opened.own[1:]))
    return fields.base(np.zeros(len(shut)), (covariance * shut, *grams), gaussian=False)


@sampled_rule(Projection)
def _projection(walk: TokenWalk, block: Projection, x: Signal) -> Signal:
    """The identity, as all layers have one width here."""
    return x


def _refusal(record: type, why: str) -> None:
    def refuse(walk: TokenWalk, block: Any, x: Signal) -> Signal:
        raise MeanFieldError(f"The sampled theory of tokens was asked for with {block!r}: {why}.")

    RULES[record] = refuse


_refusal(
    BatchNorm,
    "it acts on all tokens of a channel at once, and a channel's mean over finitely many tokens is not a number but "
    "random; use propagate, where the batch is infinite",
)
_refusal(
    Pool, "a function of several channels has no rule here; leave it out, or measure with measure(..., tokens=...)"
)
