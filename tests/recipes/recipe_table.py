"""Tables A1 to A3 of public initializations as plain arithmetic: the standard deviation of every kind of matrix in the
forward pass, written by hand from the table, without a law of the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import log, sqrt

from scipy.stats import truncnorm

TWO, THREE = (float(truncnorm(-k, k).std()) for k in (2, 3))
S = 0.02


@dataclass(frozen=True)
class Sizes:
    """L blocks of width d, f hidden neurons, H heads of h neurons, T tokens, V of a vocabulary; l: the block."""

    L: int
    d: int
    f: int
    H: int
    T: int
    V: int
    l: int

    @property
    def h(self) -> int:
        return self.d // self.H


def xavier(n: float, m: float) -> float:
    return sqrt(2 / (n + m))


def torch(n: float) -> float:
    return 1 / sqrt(3 * n)


def flat(size: float, **more: float | None) -> dict[str, float | None]:
    """One number for the matrices of attention and of the feed-forward branch, others by name."""
    return dict.fromkeys(("query", "key", "value", "output", "up", "down"), size) | more


def heads(one: float, **more: float | None) -> dict[str, float | None]:
    return dict.fromkeys(("query", "key", "value"), one) | more


def _gpt(x: Sizes, last: float, **more: float) -> dict[str, float | None]:
    return flat(S, output=last, down=last, token=S, position=S) | more


def _titan(x: Sizes, inner: float, last: float, token: float, **more: float) -> dict[str, float | None]:
    return heads(inner, gate=inner, output=last, up=last, down=last, token=token, head=THREE / sqrt(x.d)) | more


def _t5(x: Sizes, cut: float, **more: float) -> dict[str, float | None]:
    """Queries are √h larger than drawn, since the record divides scores by √h."""
    by = 1 / sqrt(x.d)
    return heads(by, output=by, up=cut * by, down=cut / sqrt(x.f), token=1.0, head=by) | more


def _scaled(x: Sizes) -> float:
    return S / sqrt(2 * x.L)


def _by_block(x: Sizes) -> float:
    return S / sqrt(2 * x.l)


def _vit(size: float, x: Sizes, **more: float) -> dict[str, float | None]:
    return flat(size, token=1 / sqrt(3), position=S, head=S) | more


def _llama(size: float = S, **more: float) -> dict[str, float | None]:
    return flat(size, gate=size, token=size, head=size) | more


def _deepnorm(x: Sizes, factor: float) -> dict[str, float | None]:
    kept = {"query bias": torch(x.d), "key bias": torch(x.d), "value bias": factor * torch(x.d)}
    wide = {"up": factor * torch(x.d), "down": factor * torch(x.f)}
    kept |= {"up bias": factor * torch(x.d), "down bias": factor * torch(x.f), "head": 1 / sqrt(x.d)}
    return heads(sqrt(1 / (2 * x.d)), output=factor * sqrt(1 / x.d), token=1.0) | wide | kept | {
        "value": factor * sqrt(1 / (2 * x.d))
    }


def _t_fixup(x: Sizes, factor: float) -> dict[str, float | None]:
    wide = factor * xavier(x.d, x.f)
    found = heads(sqrt(1 / (2 * x.d)), output=factor / sqrt(x.d), up=wide, down=wide, token=(9 * x.L) ** -0.25)
    return found | {"value": factor / sqrt(x.d)}


def _mup(x: Sizes, last: float, **more: float) -> dict[str, float | None]:
    m = x.d / 256
    return flat(S / sqrt(m), output=last, down=last, token=S, position=S, head=S / m) | more


Row = Callable[[Sizes], dict[str, float | None]]
ROWS: dict[str, Row] = {
    "gpt2-released": lambda x: _gpt(x, S, position=0.01),
    "gpt2": lambda x: _gpt(x, _scaled(x)),
    "nanogpt": lambda x: _gpt(x, _scaled(x)),
    "mingpt": lambda x: _gpt(x, _scaled(x), head=S),
    "megatron": lambda x: _gpt(x, _scaled(x)),
    "megatron-mup": lambda x: flat(
        S / sqrt(x.d / 1024), output=_scaled(x) / sqrt(x.d / 1024), down=_scaled(x) / sqrt(x.d / 1024), token=S,
        position=S, head=S * 1024 / x.d, query=S / sqrt(x.d / 1024) * 8 / sqrt(x.h)),
    "neox": lambda x: _gpt(x, _scaled(x), head=S),
    "neox-xavier": lambda x: heads(sqrt(1 / x.d), output=sqrt(1 / x.d), up=xavier(x.d, x.f), down=xavier(x.d, x.f),
                                   token=S, position=S, head=S),
    "neox-small-wang": lambda x: flat(sqrt(0.4 / x.d), output=2 / x.L / sqrt(x.d), down=2 / x.L / sqrt(x.d),
                                      token=sqrt(0.4 / x.d), head=sqrt(0.4 / x.d)),
    "neox-hf": lambda x: flat(S, token=S, head=S),
    "bert": lambda x: flat(S * TWO, token=S * TWO, position=S * TWO, **{"token bias": S * TWO}),
    "bert-hf": lambda x: flat(S, token=S, position=S, **{"token bias": S}),
    "t5-mesh": lambda x: _t5(x, TWO),
    "t5-mesh-multihead": lambda x: _t5(x, TWO, query=x.h**0.25 / sqrt(x.d), key=x.h**-0.25 / sqrt(x.d),
                                       output=1 / sqrt(x.d * x.H)),
    "t5": lambda x: _t5(x, 1.0),
    "t5-v1.1": lambda x: _t5(x, 1.0, gate=1 / sqrt(x.d), head=1.0),
    "llama2.c": lambda x: heads(S, output=_scaled(x), gate=S, up=_scaled(x), down=S, token=S),
    "llama": lambda x: _llama(),
    "mistral": lambda x: _llama(),
    "qwen3": lambda x: _llama(),
    "gemma2": lambda x: flat(S, gate=S, token=S * sqrt(x.d)),
    "llama-torchtitan": lambda x: _titan(x, S, _by_block(x), 1.0),
    "llama-torchtitan-tied": lambda x: _titan(x, S, _by_block(x), THREE / sqrt(x.d)),
    "torchtitan-hf": lambda x: _titan(x, S, _by_block(x), S),
    "torchtitan-hf-flat-depth": lambda x: _titan(x, S, _scaled(x), S),
    "qwen3-torchtitan": lambda x: flat(S, gate=S, token=S),
    "olmo-normal": lambda x: _llama(),
    "olmo-mitchell": lambda x: heads(
        THREE / sqrt(x.d), up=THREE / sqrt(x.d), gate=THREE / sqrt(x.d), token=THREE / sqrt(x.d),
        head=THREE / sqrt(x.d), output=THREE / sqrt(2 * x.d * x.l), down=THREE / sqrt(2 * x.f * x.l)),
    "olmo-full-megatron": lambda x: flat(S * THREE, gate=S * THREE, output=_scaled(x) * THREE, down=_scaled(x) * THREE,
                                         token=S * THREE, head=THREE / sqrt(x.d)),
    "olmo2": lambda x: _llama(S * THREE),
    "olmo2-hf": lambda x: _llama(),
    "olmo-core": lambda x: _llama(S * THREE),
    "olmo-core-llama": lambda x: _titan(x, S * THREE, _scaled(x) * THREE, 1.0),
    "olmo-core-llama-depth": lambda x: _titan(x, S * THREE, _by_block(x) * THREE, 1.0),
    "olmo-core-fan-in": lambda x: flat(THREE / sqrt(x.d), gate=THREE / sqrt(x.d), down=THREE / sqrt(x.f), token=1.0,
                                       head=THREE / sqrt(x.d)),
    "vit": lambda x: _vit(S, x),
    "vit-fix-init": lambda x: _vit(S, x, output=_by_block(x), down=_by_block(x)),
    "vit-jax": lambda x: heads(
        sqrt(2 / (4 * x.d)), output=sqrt(1 / x.d), up=xavier(x.d, x.f), down=xavier(x.f, x.d), token=1.0, position=S,
        head=0.0, **{"up bias": 1e-6, "down bias": 1e-6}),
    "vit-moco": lambda x: heads(sqrt(1 / x.d), output=sqrt(1 / x.d), up=xavier(x.d, x.f), down=xavier(x.f, x.d),
                                token=1 / sqrt(3), position=S, head=xavier(x.d, x.V)),
    "vit-hf": lambda x: _vit(S, x, token=S * sqrt(768)),
    "vit-swiglu": lambda x: _vit(S, x, gate=1e-6),
    "vit-swiglu-packed": lambda x: _vit(S, x),
    "dinov2": lambda x: _vit(S, x),
    "beit": lambda x: _vit(S, x, output=_by_block(x), down=_by_block(x)) | {"position": None},
    "mixer": lambda x: {
        "tokens1": xavier(x.T, 2 * x.T), "tokens2": xavier(2 * x.T, x.T), "up": xavier(x.d, x.f),
        "down": xavier(x.f, x.d), "token": 1.0, "head": 0.0,
        **{f"{one} bias": 1e-6 for one in ("tokens1", "tokens2", "up", "down")}},
    "resmlp": lambda x: {"tokens": sqrt(1 / x.T), "up": xavier(x.d, x.f), "down": xavier(x.d, x.f),
                         "token": 1 / sqrt(3), "head": 0.0},
    "deepnorm": lambda x: _deepnorm(x, (8 * x.L) ** -0.25),
    "sub-ln": lambda x: _deepnorm(x, sqrt(log(2 * x.L))),
    "fixup": lambda x: {"up": sqrt(2 / x.d / x.L), "down": 0.0, "token": 1.0, "head": 0.0},
    "t-fixup": lambda x: _t_fixup(x, 0.67 * x.L**-0.25),
    "t-fixup-decoder": lambda x: _t_fixup(x, (9 * x.L) ** -0.25),
    "rezero": lambda x: heads(sqrt(1 / (2 * x.d)), output=torch(x.d), up=torch(x.d), down=torch(x.f), token=1.0,
                              **{"up bias": torch(x.d), "down bias": torch(x.f)}),
    "nfnet": lambda x: {"up": 1 / sqrt(x.d), "down": 1 / sqrt(x.d), "token": 1.0, "head": 0.01},
    "normformer": lambda x: heads(sqrt(1 / (2 * x.d)), output=sqrt(1 / x.d), up=xavier(x.d, x.f),
                                  down=xavier(x.f, x.d), token=1.0),
    "lns": lambda x: _llama(),
    "lns-deeppost": lambda x: heads(
        sqrt(1 / x.d), head=S, token=S) | {
            "value": (8 * x.L) ** 0.25 / sqrt(x.d), "output": (8 * x.L) ** 0.25 / sqrt(x.d),
            **{one: (8 * x.L) ** 0.25 * xavier(x.d, x.f) for one in ("up", "gate", "down")}},
    "lns-scale-pre": lambda x: _llama(output=_scaled(x), down=_scaled(x)),
    "peri": lambda x: _llama(S * THREE),
    "dyt": lambda x: _vit(S, x),
    "dyt-llama": lambda x: _llama(token=S * sqrt(x.d)),
    "mup": lambda x: flat(1 / sqrt(x.d), query=0.0, token=1.0, head=0.0),
    "mutransformers": lambda x: _mup(x, _scaled(x) / sqrt(x.d / 256)),
    "nanogpt-mup": lambda x: _mup(x, _scaled(x) / sqrt(x.d / 256)),
    "completep": lambda x: _mup(x, S / sqrt(x.d / 256)),
    "u-mup": lambda x: flat(
        1 / sqrt(x.d), gate=1 / sqrt(x.d), down=2**0.75 / sqrt(x.f), token=sqrt(x.L), head=1 / x.d,
        output=1 / (log(x.T) / x.T) ** ((1 - 1 / (1 + 4 * x.h)) / 2) / sqrt(x.d)),
    "modded-nanogpt": lambda x: flat(torch(x.d), output=0.0, down=0.0, token=torch(x.d)),
    "pytorch": lambda x: heads(sqrt(1 / (2 * x.d)), output=torch(x.d), up=torch(x.d), down=torch(x.f), token=1.0,
                               head=torch(x.d), **{"up bias": torch(x.d), "down bias": torch(x.f)}),
    "pytorch-mlp": lambda x: {"dense": torch(x.d), "bias": torch(x.d), "token": 1 / sqrt(3), "token bias": torch(x.d),
                              "head": torch(x.d)},
    "flax": lambda x: flat(1 / sqrt(x.d), down=1 / sqrt(x.f), token=1 / sqrt(x.d), head=1 / sqrt(x.d)),
    "haiku": lambda x: flat(sqrt(2 / x.L / x.d), down=sqrt(2 / x.L / x.f), token=S * TWO, position=S * TWO,
                            head=TWO / sqrt(x.d)),
    "haiku-mlp": lambda x: {"dense": TWO / sqrt(x.d), "token": TWO, "head": TWO / sqrt(x.d)},
    "keras": lambda x: heads(
        sqrt(2 / (x.d * x.H + x.d * x.h)), output=sqrt(2 / (x.d + x.d * x.H)), up=xavier(x.d, x.f),
        down=xavier(x.f, x.d), token=0.05 / sqrt(3), position=0.05 / sqrt(3), head=xavier(x.d, x.V)),
    "keras-mlp": lambda x: {"dense": sqrt(1 / x.d), "token": 1.0, "head": xavier(x.d, x.V)},
    "siren": lambda x: {"dense": sqrt(2 / x.d), "bias": 30 * torch(x.d), "head": sqrt(2 / x.d) / 30,
                        "token": 30 / sqrt(18), "token bias": 30 / sqrt(6)},
    "kan": lambda x: {"dense": torch(x.d), "token": 1.0},
    "modula": lambda x: flat(1 / sqrt(x.d), output=1 / sqrt(x.d) / 3, down=sqrt(x.d / x.f) / sqrt(x.f), token=0.5,
                             position=0.5, head=sqrt(x.V / x.d) / sqrt(max(x.V, x.d))),
}  # fmt: skip
