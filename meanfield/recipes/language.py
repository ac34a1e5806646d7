"""Initializations of language models, as their public code has them (specification table A1)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from meanfield.networks.records import Network
from meanfield.networks.transformers import encoder_postln, gpt, llama
from meanfield.recipes.laws import trunc_normal_, truncated
from meanfield.recipes.rows import Row

FLAT, SCALED, BY_BLOCK = "s", "s/sqrt(2*L)", "s/sqrt(2*l)"


def plain(
    activation: str = "gelu", preset: Any = gpt, **keywords: Any
) -> Any:
    """From sizes to a network with a feed-forward branch of two matrices."""

    def make(*, depth: int, width: int, heads: int, hidden: int, **_: Any) -> Network:
        return preset(activation, heads=heads, expand=Fraction(hidden, width), **keywords)

    return make


def gated(activation: str = "silu", **keywords: Any) -> Any:
    """From sizes to a network with gated feed-forward branches."""

    def make(*, depth: int, width: int, heads: int, hidden: int, groups: int | None = None, **_: Any) -> Network:
        return llama(activation, heads=heads, groups=groups, expand=Fraction(hidden, width), sigma_g="sigma_g",
                     **keywords)  # fmt: skip

    return make


def each(
    inner: object, output: object, up: object | None = None, down: object | None = None,
    gate: object | None = None, **more: object,
) -> dict[str, object]:  # fmt: skip
    """Laws by kind: q, k, v and up (and gate) as `inner`, output and down as `output`, unless they are given."""
    found = {"query": inner, "key": inner, "value": inner, "output": output, "up": inner if up is None else up}
    found |= {} if gate is None else {"gate": gate}
    return found | {"down": output if down is None else down} | more


GPT2 = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 1024, "vocabulary": 50257}
LLAMA = {"depth": 32, "width": 4096, "heads": 32, "hidden": 11008, "context": 2048, "vocabulary": 32000}
LLAMA3 = {"depth": 32, "width": 4096, "heads": 32, "hidden": 14336, "groups": 8, "context": 8192, "vocabulary": 128256}
BERT = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 512, "vocabulary": 30522}
TANH_GELU = "gelu_tanh"

ROWS = (
    Row("gpt2-released", plain(TANH_GELU), each(FLAT, FLAT, token=FLAT, position=".01"), GPT2,
        "openai/gpt-2 src/model.py 28-38, 50-56, 94, 123-130, 152-155", {"tied": True}),
    Row("gpt2", plain(TANH_GELU), each(FLAT, SCALED, token=FLAT, position=FLAT), GPT2,
        "huggingface/transformers models/gpt2/modeling_gpt2.py 431-448", {"tied": True}),
    Row("nanogpt", plain(), each(FLAT, SCALED, token=FLAT, position=FLAT), GPT2 | {"vocabulary": 50304},
        "karpathy/nanoGPT model.py 109-168", {"tied": True}),
    Row("llama2.c", gated(), each(FLAT, SCALED, up=SCALED, gate=FLAT, down=FLAT, token=FLAT), LLAMA,
        "karpathy/llama2.c model.py 168-180, 215-247", {"tied": True}),
    Row("llama", gated(), each(FLAT, FLAT, gate=FLAT, token=FLAT, head=FLAT), LLAMA,
        "huggingface/transformers modeling_utils.py 2295-2340; configuration_llama.py 64-84"),
    Row("llama-torchtitan", gated(), each(
            trunc_normal_(FLAT), trunc_normal_(BY_BLOCK), up=trunc_normal_(BY_BLOCK), gate=trunc_normal_(FLAT),
            token="1", head=truncated("1/sqrt(d)", 3)), LLAMA3,
        "pytorch/torchtitan models/llama3/__init__.py 45-111, 236-315; models/common/config_utils.py 281-308"),
    Row("bert", plain("gelu_tanh", encoder_postln), each(
            truncated(FLAT), truncated(FLAT), token=truncated(FLAT), position=truncated(FLAT)), BERT,
        "google-research/bert modeling.py 362-377, 412, 479-495",
        {"tied": True, "input_norm": True, "final_norm": False}),
    Row("vit", plain("gelu", causal=False), each(
            trunc_normal_(FLAT), trunc_normal_(FLAT), token="1", position=trunc_normal_(FLAT)),
        BERT | {"context": 197, "vocabulary": 1000}, "huggingface/pytorch-image-models models/vision_transformer.py"),
)  # fmt: skip
