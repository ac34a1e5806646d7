"""Schemes of skips and norms with the initialization that belongs to them (specification table A3, rows 39 to 49).

Of an encoder with a decoder it is one of both alone, without attention from one to the other. Left out: DeepScaleLM,
whose values follow a correlation of tokens from block to block, and NFNet's weight standardization.
"""

from __future__ import annotations

from meanfield.recipes.description.matrix_laws import (
    Law,
    normal,
    trunc_normal_,
    truncated,
    uniform,
    xavier_normal,
    xavier_uniform,
)
from meanfield.recipes.rows.recipe_row import RecipeRow
from meanfield.recipes.rows.recipe_shapes import DenseStack, Transformer, each

FLAT, SCALED = "s", "s/sqrt(2*L)"
TRANSFORMER = {"depth": 12, "width": 512, "heads": 8, "hidden": 2048, "context": 512, "vocabulary": 32000}
LLAMA = {"depth": 32, "width": 4096, "heads": 32, "hidden": 11008, "context": 2048, "vocabulary": 32000}
VIT = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 197, "vocabulary": 1000}
BARE = {"final_norm": False}
CONVOLUTIONS = {"depth": 18, "width": 256, "context": 64}
PATCH = uniform("1/sqrt(768)", multiplier="sqrt(768)")
THREE = truncated(FLAT, 3)
ALL = each(FLAT, FLAT, gate=FLAT, token=FLAT, head=FLAT)
SCALE = "torchscale/architecture"
POSITIONS = "sinusoids of mean square 1/2 are added to its embeddings, which the record leaves out."
DENSE = "the fully connected reading of its convolutions."


def torchscale(factor: str) -> dict[str, object]:
    """Xavier and torch's defaults, times a factor in v, out_proj, fc1 and fc2."""
    narrow = "sqrt(6/(n+m))/sqrt(2)"
    torch = uniform(f"{factor}/sqrt(n)")
    found = each(uniform(narrow), uniform(f"{factor}*sqrt(6/(n+m))"), up=torch, down=torch)
    found |= {"value": uniform(f"{factor}*{narrow}"), "token": normal("1/sqrt(d)", multiplier="sqrt(d)")}
    biases = {f"{one} bias": uniform("1/sqrt(n)") for one in ("query", "key")}
    return found | biases | {f"{one} bias": torch for one in ("value", "up", "down")} | {"head": normal("1/sqrt(d)")}


def t_fixup(factor: str, embedding: str) -> dict[str, object]:
    """Xavier laws times a factor in all that is no query and no key."""
    last = xavier_uniform(factor)
    found = each(xavier_uniform("1/sqrt(2)"), last, up=last, token=normal(embedding, multiplier="sqrt(d)"))
    return found | {"value": last}


def torch(bias: bool = True) -> dict[str, Law]:
    """torch's MultiheadAttention and Linear: one Xavier matrix of q, k and v, and uniform laws by fan-in."""
    fused, plain = uniform("sqrt(6/(n+3*d))"), uniform("1/sqrt(n)")
    found = {"query": fused, "key": fused, "value": fused, "output": plain, "up": plain, "down": plain}
    return found | ({"up bias": plain, "down bias": plain} if bias else {})


ROWS = (
    RecipeRow("deepnorm", Transformer(place="post", causal=False, skip="(2*L)**(1/4)"), torchscale("(8*L)**(-1/4)"),
        TRANSFORMER,
        f"microsoft/torchscale {SCALE}/decoder.py 89-95, 283-314; encoder.py 78-89, 235-270; "
        "torchscale/component/multihead_attention.py 61-66; feedforward_network.py 121-126",
        BARE, ("an encoder alone.",)),
    RecipeRow("sub-ln", Transformer(inner=("output", "down"), causal=False), torchscale("sqrt(log(2*L))"), TRANSFORMER,
        f"microsoft/torchscale {SCALE}/encoder.py 254-270; decoder.py 300-314; config.py 34-80",
        notes=("an encoder alone.",)),
    RecipeRow("fixup", DenseStack("relu", 2, skip=True, first=True), {"up": normal("sqrt(2/m)/sqrt(L)"), "down": "0",
            "token": "1", "head": "0"}, CONVOLUTIONS,
        "hongyi-zhang/Fixup cifar/models/fixup_resnet_cifar.py 18-27, 66-72", BARE,
        (DENSE, "deviations are by the fan-out; its relu behind the sum is left out.")),
    RecipeRow("t-fixup", Transformer("relu", norm="none", causal=False),
        t_fixup(".67*L**(-1/4)", "(9*L)**(-1/4)/sqrt(d)"), TRANSFORMER | {"depth": 6},
        "layer6ai-labs/T-Fixup fairseq/modules/transformer_layer.py 31-49; models/transformer.py 378-381, 908-920; "
        "modules/multihead_attention.py 89-99", BARE, ("the encoder.", POSITIONS)),
    RecipeRow("t-fixup-decoder", Transformer("relu", norm="none"),
        t_fixup("(9*L)**(-1/4)", "(9*L)**(-1/4)/sqrt(d)"), TRANSFORMER | {"depth": 6},
        "layer6ai-labs/T-Fixup fairseq/modules/transformer_layer.py 157-175; models/transformer.py 604-607",
        BARE, ("the decoder without attention to an encoder.", POSITIONS)),
    RecipeRow("rezero", Transformer("relu", norm="none", causal=False, branch="0"), torch() | {"token": normal("1")},
        TRANSFORMER, "majumderb/rezero rezero/transformer/rztx.py 37-82", BARE),
    RecipeRow("nfnet", DenseStack("1.7139588594436646*relu(z)", 2, skip=True, factor="0"),
        {"up": "1/sqrt(n)", "down": "1/sqrt(n)", "token": "1", "head": ".01"}, CONVOLUTIONS,
        "google-deepmind/deepmind-research nfnets/base.py 98-136; nfnets/nfnet.py 42-43, 85-129, 228-251",
        BARE, (DENSE, "each branch is multiplied by .2 times a gain that is 0; weights are standardized.",
               "what divides its input, 1/sqrt(1 + .04(l-1)), stands before that 0 and is left out.")),
    RecipeRow("normformer", Transformer("relu", inner=("down",), after=("output",)), each(
            xavier_uniform("1/sqrt(2)"), xavier_uniform(), up=xavier_uniform(),
            token=normal("1/sqrt(d)", multiplier="sqrt(d)")), TRANSFORMER,
        "facebookresearch/fairseq fairseq/modules/transformer_layer.py 277-323, 460-513; "
        "multihead_attention.py 172-182",
        notes=("with scale_attn and scale_fc.", POSITIONS)),
    RecipeRow("lns", Transformer("silu", gated=True, norm="rms", rotary=True, by_block=True), ALL, LLAMA,
        "lmsdss/LayerNorm-Scaling peft_pretraining/modeling_llama.py 265, 292, 403, 427-453; "
        "allenai/OLMo-core src/olmo_core/nn/transformer/block.py 232-290",
        notes=("what leaves the norms is divided by sqrt(l), as meant; the released code compares a name in lower case "
               "with 'LNS', so that the branch never runs.",)),
    RecipeRow("lns-deeppost", Transformer("silu", gated=True, norm="rms", place="post", rotary=True, skip="64**(1/4)"),
        {"query": xavier_normal(), "key": xavier_normal(), "head": FLAT, "token": FLAT}
            | {one: xavier_normal("(8*L)**(1/4)") for one in ("value", "output", "up", "gate", "down")}, LLAMA,
        "lmsdss/LayerNorm-Scaling peft_pretraining/modeling_llama.py 157-198, 488-502, 857-879", BARE,
        ("DeepNorm has (8L)^(-1/4) where this code has (8L)^(1/4), and (2L)^(1/4) where it has 64^(1/4).",)),
    RecipeRow("lns-scale-pre", Transformer("silu", gated=True, norm="rms", rotary=True),
        ALL | {"output": SCALED, "down": SCALED}, LLAMA,
        "lmsdss/LayerNorm-Scaling peft_pretraining/modeling_llama.py 157-198, 488-502, 857-879"),
    RecipeRow("peri", Transformer("silu", gated=True, norm="rms", place="peri", rotary=True),
        each(THREE, THREE, gate=THREE, token=THREE, head=THREE), LLAMA,
        "allenai/OLMo-core src/olmo_core/nn/transformer/block.py 293-362; init.py"),
    RecipeRow("dyt", Transformer(norm="1/2", causal=False), each(*2 * (trunc_normal_(FLAT),), token=PATCH,
            position=trunc_normal_(FLAT), head=trunc_normal_(FLAT)), VIT,
        "jiachenzhu/DyT dynamic_tanh.py 7-18; the laws of timm/models/vision_transformer.py", BARE,
        ("a tanh stands before the head, too, so that its logits are smaller than said.",)),
    RecipeRow("dyt-llama", Transformer("silu", gated=True, norm=".8,.2", rotary=True),
        ALL | {"token": normal(FLAT, multiplier="sqrt(d)")}, LLAMA,
        "jiachenzhu/DyT other_tasks/LLaMA/README.md 61-158; other_tasks/LLaMA/fms_fsdp/models/llama.py 32-49, 208-209",
        BARE, ("alpha is .8 before attention and .2 elsewhere (7B); matrices are taken as N(.02), which was not read.",
               "a tanh stands before the head, too.")),
)  # fmt: skip
