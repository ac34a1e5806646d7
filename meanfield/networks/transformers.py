"""Blocks of language models by name: attention and a feed-forward layer, with norms before, behind or around them.

Every matrix has a standard deviation of its own, a number or a symbol: sigma_q, sigma_k, sigma_v of queries, keys and
values, sigma_o of the output matrix, sigma_1 and sigma_2 of the two layers of the feed-forward block, sigma_e of the
embeddings; at fan-in 1, as everywhere here: that of an entry is sigma/sqrt(fan-in). Biases are 0.
"""

from __future__ import annotations

from collections.abc import Hashable

from meanfield.base.arguments import choice, validated
from meanfield.networks.attention import Attention
from meanfield.networks.records import (
    AffineNorm,
    Block,
    Dense,
    Gate,
    LayerNorm,
    Network,
    Nonlinearity,
    Residual,
    RMSNorm,
    Schedule,
    Sequential,
    architecture,
    deviation_of,
    exact,
)

PLACES = ("pre", "post", "peri")
_NORMS = {"layer": LayerNorm, "rms": RMSNorm}


@architecture
@validated
def gpt(
    activation: Hashable = "gelu", *, heads: int = 12, causal: bool = True, norm: str = "pre", mu: object = 1,
    expand: object = 4, total: object = 0, sigma_e: object = "sigma_e", sigma_q: object = "sigma_q",
    sigma_k: object = "sigma_k", sigma_v: object = "sigma_v", sigma_o: object = "sigma_o",
    sigma_1: object = "sigma_1", sigma_2: object = "sigma_2",
) -> Network:  # fmt: skip
    """A block as GPT-2 has it: LayerNorm, causal attention and its output matrix beside a skip; then LayerNorm, Dense,
    φ, Dense beside a skip.

    norm: "pre" (before each branch), "post" (behind each sum) or "peri" (before and behind each branch). mu: strength
    of the skips. expand: hidden neurons per neuron. total: the variances of sigma_o and sigma_2 fall as L^−total with
    the number L of blocks (1: the factor 1/√L of residual projections).

    >>> gpt(heads=8, sigma_o=1, total=1).block.blocks[0].branch.blocks[2]
    Dense(sigma_w=Schedule(1, 0, total=1), sigma_b=0)
    """
    wide = _dense(sigma_1, expand=expand)
    inner = (wide, Nonlinearity(activation), _dense(sigma_2, total))
    heads_ = Attention(heads, causal=causal, query=_dense(sigma_q), key=_dense(sigma_k), value=_dense(sigma_v))
    return _block((heads_, _dense(sigma_o, total)), inner, "layer", norm, mu, sigma_e)


@architecture
@validated
def encoder_postln(
    activation: Hashable = "relu", *, heads: int = 8, mu: object = 1, expand: object = 4, total: object = 0,
    sigma_e: object = "sigma_e", sigma_q: object = "sigma_q", sigma_k: object = "sigma_k",
    sigma_v: object = "sigma_v", sigma_o: object = "sigma_o", sigma_1: object = "sigma_1", sigma_2: object = "sigma_2",
) -> Network:  # fmt: skip
    """A block of the first transformer's encoder: that of `gpt` without a mask, a LayerNorm behind each sum.

    The keywords are those of `gpt`. Source: [2002.04745] for its placement of norms.

    >>> encoder_postln().block.blocks[1]
    LayerNorm()
    """
    return gpt(
        activation, heads=heads, causal=False, norm="post", mu=mu, expand=expand, total=total, sigma_e=sigma_e,
        sigma_q=sigma_q, sigma_k=sigma_k, sigma_v=sigma_v, sigma_o=sigma_o, sigma_1=sigma_1, sigma_2=sigma_2,
    )  # fmt: skip


@architecture
@validated
def peri(
    activation: Hashable = "gelu", *, heads: int = 12, causal: bool = True, mu: object = 1, expand: object = 4,
    total: object = 0,
    sigma_e: object = "sigma_e", sigma_q: object = "sigma_q", sigma_k: object = "sigma_k",
    sigma_v: object = "sigma_v", sigma_o: object = "sigma_o", sigma_1: object = "sigma_1", sigma_2: object = "sigma_2",
) -> Network:  # fmt: skip
    """A block of `gpt` with a LayerNorm before and behind each branch; the keywords are its own. Source: [2502.02732].

    >>> peri().block.blocks[0].branch.blocks[-1]
    LayerNorm()
    """
    return gpt(
        activation, heads=heads, causal=causal, norm="peri", mu=mu, expand=expand, total=total, sigma_e=sigma_e,
        sigma_q=sigma_q, sigma_k=sigma_k, sigma_v=sigma_v, sigma_o=sigma_o, sigma_1=sigma_1, sigma_2=sigma_2,
    )  # fmt: skip


@architecture
@validated
def deepnorm(
    activation: Hashable = "relu", *, heads: int = 8, alpha: object = "alpha", expand: object = 4, total: object = 0,
    sigma_e: object = "sigma_e", sigma_q: object = "sigma_q", sigma_k: object = "sigma_k",
    sigma_v: object = "sigma_v", sigma_o: object = "sigma_o", sigma_1: object = "sigma_1", sigma_2: object = "sigma_2",
) -> Network:  # fmt: skip
    """A block of DeepNorm: `encoder_postln` whose skips have strength α, (2L)^(1/4) in an encoder of L blocks.

    Values, output and feed-forward matrices are drawn (8L)^(−1/4) times smaller there. The other keywords are those of
    `gpt`. Source: [2203.00555].

    >>> deepnorm(alpha=2).block.blocks[0].mu
    2
    """
    return encoder_postln(
        activation, heads=heads, mu=alpha, expand=expand, total=total, sigma_e=sigma_e, sigma_q=sigma_q,
        sigma_k=sigma_k, sigma_v=sigma_v, sigma_o=sigma_o, sigma_1=sigma_1, sigma_2=sigma_2,
    )  # fmt: skip


@architecture
@validated
def llama(
    activation: Hashable = "silu", *, heads: int = 32, groups: int | None = None, causal: bool = True,
    rotary: object = True, qk_norm: bool = False, norm: str = "pre", mu: object = 1, expand: object = "8/3",
    total: object = 0, sigma_e: object = "sigma_e", sigma_q: object = "sigma_q", sigma_k: object = "sigma_k",
    sigma_v: object = "sigma_v", sigma_o: object = "sigma_o", sigma_1: object = "sigma_1",
    sigma_g: object = "sigma_1", sigma_2: object = "sigma_2",
) -> Network:  # fmt: skip
    """A block as Llama has it: RMSNorm, causal attention with rotary positions beside a skip; then RMSNorm, a gated
    layer u ⊙ φ(v) and its Dense beside a skip.

    groups, rotary, qk_norm: as `Attention` has them. sigma_1, sigma_g: of u and of v; the others as in `gpt`.

    >>> llama(groups=8).block.blocks[1].branch.blocks[1]
    Gate('silu', value=Dense(sigma_w=Param('sigma_1'), sigma_b=0, expand=Fraction(8, 3)), \
gate=Dense(sigma_w=Param('sigma_1'), sigma_b=0, expand=Fraction(8, 3)))
    """
    inner = (Gate(activation, _dense(sigma_1, expand=expand), _dense(sigma_g, expand=expand)), _dense(sigma_2, total))
    heads_ = Attention(
        heads, causal=causal, rotary=rotary, groups=groups, qk_norm=qk_norm,  # type: ignore[arg-type]
        query=_dense(sigma_q), key=_dense(sigma_k), value=_dense(sigma_v),
    )  # fmt: skip
    return _block((heads_, _dense(sigma_o, total)), inner, "rms", norm, mu, sigma_e)


@validated
def dyt(alpha: object = "1/2") -> Block:
    """Dynamic tanh, γ tanh(αz) + β with γ = 1 and β = 0 at initialization: what stands in a norm's place.

    Source: [2503.10622].

    >>> dyt("1/2")
    Sequential((Nonlinearity('tanh(z*(1/2))'), AffineNorm()))
    """
    return Sequential((Nonlinearity(f"tanh(z*({alpha}))"), AffineNorm()))


def _dense(sigma: object, total: object = 0, expand: object = 1) -> Dense:
    value, power = deviation_of(sigma, "A standard deviation"), exact(total, "The exponent total")
    held = value if power == 0 else Schedule(value, 0, power)
    return Dense(sigma_w=held, sigma_b=0, expand=expand)  # type: ignore[arg-type]


def _block(
    attention: tuple[Block, ...], inner: tuple[Block, ...], kind: str, place: str, mu: object, sigma_e: object
) -> Network:
    """Two branches beside skips, with norms where `place` says."""
    choice(place, "norm", PLACES)
    norm, strength = _NORMS[kind](), exact(mu, "The skip strength mu")
    made: list[Block] = []
    for branch in (attention, inner):
        before, behind = (norm,) * (place != "post"), (norm,) * (place == "peri")
        made.append(Residual(Sequential((*before, *branch, *behind)), strength))
        made += [norm] * (place == "post")
    return Network(Sequential(tuple(made)), Dense(sigma_w=deviation_of(sigma_e, "sigma_e"), sigma_b=0))
