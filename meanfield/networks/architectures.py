"""Whole networks by name, made of `records`: `derive("tanh", architecture="full_residual")`.

A preset is a function of an activation; its keywords are the numbers, or the symbols, of the records it composes. With
keywords alone it is a preset again: `derive("gelu", architecture=preln(mu="1/2"))`.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.base.arguments import choice, meant, shown, validated
from meanfield.networks.records import (
    AffineNorm,
    BatchNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Number,
    Param,
    Projection,
    Residual,
    Scale,
    Schedule,
    Sequential,
    architecture,
    deviation_of,
    exact,
    mlp,
)
from meanfield.networks.transformers import deepnorm as deepnorm
from meanfield.networks.transformers import dyt as dyt
from meanfield.networks.transformers import encoder_postln as encoder_postln
from meanfield.networks.transformers import gpt as gpt
from meanfield.networks.transformers import llama as llama
from meanfield.networks.transformers import peri as peri

LETTERS = ("v", "w", "a", "b")  # of the standard deviations of a full residual network


def preset(function: Callable[..., Block]) -> Callable[..., Any]:
    """Decorator: called without an activation, a preset keeps its keywords and waits for one."""
    verb = validated(function)

    @functools.wraps(function)
    def made(*activation: Hashable, **numbers: object) -> Any:
        if activation or "activation" in numbers or own.default is not inspect.Parameter.empty:
            return verb(*activation, **numbers)
        verb("linear", **numbers)  # refuses keywords and numbers that do not fit
        return functools.partial(verb, **numbers)

    own = inspect.signature(function).parameters["activation"]
    return made


@architecture
@preset
def full_residual(
    activation: Hashable,
    *,
    sigma_w: object = "sigma_w",
    sigma_b: object = "sigma_b",
    sigma_v: object = "sigma_v",
    sigma_a: object = "sigma_a",
    beta_w: object = 0,
    beta_b: object = 0,
    beta_v: object = 0,
    beta_a: object = 0,
    total_w: object = 0,
    total_b: object = 0,
    total_v: object = 0,
    total_a: object = 0,
    expand: object = 1,
) -> Network:
    """The full residual network: x^l = x^{l−1} + v φ(w x^{l−1} + b) + a in the l-th block, whose variances fall with l.

    w, v are M × N and N × M matrices of variances σ_w² l^{−β_w}/N and σ_v² l^{−β_v}/M, b and a biases of variances
    σ_b² l^{−β_b} and σ_a² l^{−β_a}, each times L^{−total} in a network of L blocks; expand = M/N. Where the width
    changes, x^{l−1} is projected (`Projection`). The
    input layer has σ_w = 1 and σ_b = 0, so that K¹ = Q0, and K^{l+1} is the mean square of x^l. Numbers are exact (0.1
    is 1/10), names stay symbols; where beta and total are 0 there is no `Schedule` but a plain number.

    Raises: MeanFieldError for a beta or total that is negative or not finite. Source: [variance_variation] Sec. 4.

    >>> full_residual("tanh", sigma_v=1, beta_v="1/2").block.branch.blocks[2]
    Dense(sigma_w=Schedule(1, Fraction(1, 2)), sigma_b=Param('sigma_a'))
    >>> full_residual("tanh", sigma_v=1, total_v=1).block.branch.blocks[2]
    Dense(sigma_w=Schedule(1, 0, total=1), sigma_b=Param('sigma_a'))
    """
    w, b, v, a = (
        _falling(*one)
        for one in (
            ("w", sigma_w, beta_w, total_w),
            ("b", sigma_b, beta_b, total_b),
            ("v", sigma_v, beta_v, total_v),
            ("a", sigma_a, beta_a, total_a),
        )
    )
    wide = Dense(sigma_w=w, sigma_b=b, expand=expand)  # type: ignore[arg-type]
    branch = Sequential((wide, Nonlinearity(activation), Dense(sigma_w=v, sigma_b=a)))
    return Network(Residual(branch, 1, Projection()), Dense(sigma_w=1, sigma_b=0))


def _falling(letter: str, sigma: object, beta: object, total: object) -> Number | Schedule:
    """The standard deviation σ_letter, its variance falling as powers of the block's number and of how many there are.
    """
    powers = [_exponent(value, f"The exponent {name}_{letter}") for name, value in (("beta", beta), ("total", total))]
    value = deviation_of(sigma, f"sigma_{letter}")
    return value if powers == [0, 0] else Schedule(value, *powers)


def _exponent(beta: object, what: str) -> Number:
    if isinstance(beta, str) and beta.strip().lower().lstrip("+-") in ("nan", "inf", "infinity", "oo"):
        beta = math.nan if "nan" in beta.lower() else math.inf
    exponent = exact(beta, what)
    if isinstance(exponent, Param):
        exponent = replace(exponent, lower=0) if exponent.lower is None else exponent
    elif exponent < 0:
        raise MeanFieldError(f"{what} must be ≥ 0 (variances fall with depth), but {shown(beta)} was given.")
    return exponent


@architecture
@preset
def resnet(activation: Hashable, *, mu: object = 1) -> Block:
    """A residual layer, Dense(φ(z)) + μz.

    >>> resnet("tanh")
    Residual(Sequential((Nonlinearity('tanh'), Dense())))
    """
    return _skipped((Nonlinearity(activation), Dense()), mu)


@architecture
@preset
def preln(activation: Hashable, *, mu: object = 1) -> Block:
    """A pre-norm layer, Dense(φ(LN(z))) + μz: the skip carries z as it is. Source: [partial_jacobians] § 2.2.

    >>> preln("gelu", mu="1/2")
    Residual(Sequential((LayerNorm(), Nonlinearity('gelu'), Dense())), mu=Fraction(1, 2))
    """
    return _skipped((LayerNorm(), Nonlinearity(activation), Dense()), mu)


@architecture
@preset
def postln(activation: Hashable, *, mu: object = 1) -> Block:
    """A post-norm layer, LN(Dense(φ(z)) + μz): the LayerNorm stands in the way of the skip, too.

    >>> postln("gelu").blocks[1]
    LayerNorm()
    """
    return Sequential((_skipped((Nonlinearity(activation), Dense()), mu), LayerNorm()))


@architecture
@preset
def batchnorm_mlp(activation: Hashable, *, mu: object = 0, norm: str = "pre") -> Block:
    """A layer with BatchNorm on its preactivations, Dense(φ(BN(z))) + μz, or (norm="act") on its activations,
    Dense(BN(φ(z))) + μz. Source: [autoinit] (21).

    >>> batchnorm_mlp("relu", norm="act")
    Sequential((Nonlinearity('relu'), BatchNorm(), Dense()))
    """
    choice(norm, "norm", ("pre", "act"))
    inner: tuple[Block, ...] = (BatchNorm(), Nonlinearity(activation))
    return _skipped((*(inner if norm == "pre" else inner[::-1]), Dense()), mu)


@architecture
@preset
def swiglu(activation: Hashable = "silu", *, mu: object = 1, expand: object = 1) -> Block:
    """The feed-forward block of a language model, Dense(u ⊙ φ(v)) + μz with u and v two Dense of LN(z).

    expand: neurons of u and v per neuron of z (8/3 in most models). Infinite width does not know it.

    >>> swiglu(expand="8/3").branch.blocks[1]
    Gate('silu', value=Dense(expand=Fraction(8, 3)), gate=Dense(expand=Fraction(8, 3)))
    """
    wide = Dense(expand=expand)  # type: ignore[arg-type]
    return _skipped((LayerNorm(), Gate(activation, wide, wide), Dense()), mu)


@architecture
@preset
def resmlp(activation: Hashable, *, mu: object = 1, scale: object = "1/10", expand: object = 4) -> Block:
    """A block of ResMLP: a Dense that mixes tokens, then Dense, φ, Dense on neurons, each behind an `AffineNorm`, times
    `scale` (LayerScale) and beside a skip of strength μ.

    expand: hidden neurons per neuron. Source: [autoinit] App. D; its second skip starts behind the AffineNorm, which is
    the same at initialization but for the tangent kernel.

    >>> resmlp("gelu").blocks[0]
    Residual(Sequential((AffineNorm(), Dense(axis='tokens'), Scale(Fraction(1, 10)))))
    """
    wide = Dense(expand=expand)  # type: ignore[arg-type]
    small = Scale(scale)  # type: ignore[arg-type]
    tokens = _skipped((AffineNorm(), Dense(axis="tokens"), small), mu)
    return Sequential((tokens, _skipped((AffineNorm(), wide, Nonlinearity(activation), Dense(), small), mu)))


@architecture
@preset
def mlp_mixer(activation: Hashable, *, mu: object = 1, expand_tokens: object = 4, expand: object = 2) -> Block:
    """A block of MLP-Mixer: LN, Dense, φ, Dense on the tokens, then the same on the neurons, each beside a skip of
    strength μ.

    expand_tokens, expand: hidden tokens per token, hidden neurons per neuron. Source: [partial_jacobians] App. F.

    >>> mlp_mixer("gelu").blocks[1]
    Residual(Sequential((LayerNorm(), Dense(expand=2), Nonlinearity('gelu'), Dense())))
    """
    axes = {"tokens": expand_tokens, "neurons": expand}
    return Sequential(
        tuple(
            _skipped((LayerNorm(), Dense(expand=factor, axis=axis), Nonlinearity(activation), Dense(axis=axis)), mu)  # type: ignore[arg-type]
            for axis, factor in axes.items()
        )
    )


def _skipped(branch: tuple[Block, ...], mu: object) -> Block:
    strength = exact(mu, "The skip strength mu")
    return Sequential(branch) if strength == 0 else Residual(Sequential(branch), strength)


PRESETS: dict[str, Callable[..., Block]] = {
    one.__name__: one
    for one in (
        mlp, resnet, preln, postln, resmlp, mlp_mixer, full_residual, batchnorm_mlp, swiglu,
        gpt, llama, encoder_postln, peri, deepnorm,
    )
}  # fmt: skip


def keywords(name: str) -> tuple[str, ...]:
    """What a preset takes beside its activation."""
    choice(name, "architecture", tuple(PRESETS))
    return tuple(inspect.signature(PRESETS[name]).parameters)[1:]


def usual_activation(name: str) -> Any:
    """The activation that a preset has unless one is given; None where it needs one."""
    choice(name, "architecture", tuple(PRESETS))
    found = inspect.signature(PRESETS[name]).parameters["activation"].default
    return None if found is inspect.Parameter.empty else found


def decays(texts: str, kind: str = "beta") -> dict[str, str]:
    """The exponents of a full residual network from their letters, as keywords of `full_residual`; kind: "beta", or
    "total" for those of L.

    Raises: MeanFieldError for another letter than w, b, v, a, for one given twice or without a value.

    >>> decays("v=1/2,w=0")
    {'beta_v': '1/2', 'beta_w': '0'}
    """
    found: dict[str, str] = {}
    option = "decay" if kind == "beta" else kind
    for item in texts.split(",") if texts.strip() else ():
        letter, equals, value = (part.strip() for part in item.partition("="))
        if letter not in LETTERS or not (equals and value):
            hint = meant(letter, LETTERS) if letter not in (*LETTERS, "") else ""
            raise MeanFieldError(
                f"The exponents of {option} are written v=1/2,w=0 with the letters w, b, v, a, but "
                f"{shown(item.strip())} was given.{hint if hint.startswith(' Did') else ''}"
            )
        if f"{kind}_{letter}" in found:
            raise MeanFieldError(f"The exponent of {option} {letter} was given twice.")
        found[f"{kind}_{letter}"] = value
    return found
