"""Initializations of GPT-2, BERT and T5 and of what trains their like, as public code has them (table A1).

Left out: Megatron's `--init-method-xavier-uniform`, whose field its configuration has not; NeoX's orthogonal methods,
whose arguments are shifted so that they always raise.
"""

from __future__ import annotations

from meanfield.recipes.description.matrix_laws import Law, normal, truncated, xavier_normal
from meanfield.recipes.rows.recipe_row import RecipeRow
from meanfield.recipes.rows.recipe_shapes import Transformer, each

FLAT, SCALED = "s", "s/sqrt(2*L)"
TANH_GELU = "gelu_tanh"
GPT2 = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 1024, "vocabulary": 50257}
MEGATRON = {"depth": 24, "width": 1024, "heads": 16, "hidden": 4096, "context": 1024, "vocabulary": 50257}
NEOX = {"depth": 44, "width": 6144, "heads": 64, "hidden": 24576, "context": 2048, "vocabulary": 50432}
BERT = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 512, "vocabulary": 30522}
T5 = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 512, "vocabulary": 32128}
T5_V11 = T5 | {"hidden": 2048}

GPT, BIDIRECTIONAL = Transformer(), Transformer(place="post", causal=False)
ENCODER = Transformer("relu", norm="rms", causal=False)
GATED_ENCODER = Transformer(TANH_GELU, gated=True, norm="rms", causal=False)
TIED = {"tied": True}
POST = {"tied": True, "input_norm": True, "final_norm": False}
SUMMED = "the embedding of the sentence is that of all tokens, so that a third of what is summed is common to them."
T5_NOTES = ("the encoder; scores get a learned bias by distance, which is not in the record.",)
SMALL, WANG = "sqrt(2/(5*d))", "2/(L*sqrt(d))"


def bert(law: Law) -> dict[str, object]:
    """All of it by one law; "token bias" is the embedding of the sentence."""
    return each(law, law, token=law, position=law) | {"token bias": law}


def t5(up: object, down: object, **more: object) -> dict[str, object]:
    """Attention as both codes of T5 have it, whose scores are not divided by √h."""
    query, inner = normal("1/sqrt(d*h)", multiplier="sqrt(h)"), normal("1/sqrt(d)")
    found = each(inner, normal("1/sqrt(H*h)"), up=up, down=down, token=normal("1"), **more)
    return found | {"query": query, "head": normal("1", multiplier="1/sqrt(d)")}


ROWS = (
    RecipeRow("gpt2-released", Transformer(TANH_GELU), each(FLAT, FLAT, token=FLAT, position=".01"), GPT2,
        "openai/gpt-2 src/model.py 28-38, 50-56, 94, 123-130, 152-155, 171", TIED),
    RecipeRow("gpt2", Transformer(TANH_GELU), each(FLAT, SCALED, token=FLAT, position=FLAT), GPT2,
        "huggingface/transformers models/gpt2/modeling_gpt2.py 431-448; modeling_utils.py 2295-2340", TIED),
    RecipeRow("nanogpt", GPT, each(FLAT, SCALED, token=FLAT, position=FLAT), GPT2 | {"vocabulary": 50304},
        "karpathy/nanoGPT model.py 109-168", TIED),
    RecipeRow("mingpt", Transformer(TANH_GELU), each(FLAT, SCALED, token=FLAT, position=FLAT, head=FLAT), GPT2,
        "karpathy/minGPT mingpt/model.py 21-27, 151-169"),
    RecipeRow("megatron", GPT, each(FLAT, SCALED, token=FLAT, position=FLAT), MEGATRON,
        "NVIDIA/Megatron-LM megatron/core/utils.py 862-871; transformer/transformer_config.py 388-417, 2571-2610",
        TIED),
    RecipeRow("megatron-mup", GPT, each("s/sqrt(d/1024)", "s/sqrt(2*L*d/1024)", token=FLAT, position=FLAT)
            | {"query": normal("s/sqrt(d/1024)", multiplier="8/sqrt(h)"),
               "head": normal(FLAT, multiplier="1/(d/1024)")}, MEGATRON,
        "NVIDIA/Megatron-LM megatron/core/transformer/transformer_config.py 428-475, 2530-2603; utils.py 874-891",
        notes=("widths are measured by a base of 1024 and heads by 64; scores are multiplied by sqrt(64)/h.",)),
    RecipeRow("neox", GPT, each(FLAT, SCALED, token=FLAT, position=FLAT, head=FLAT), MEGATRON | {"vocabulary": 50432},
        "EleutherAI/gpt-neox megatron/neox_arguments/neox_args.py 352-421; megatron/model/init_functions.py 25-227"),
    RecipeRow("neox-xavier", GPT, each(xavier_normal(), xavier_normal(), token=FLAT, position=FLAT, head=FLAT),
        MEGATRON | {"vocabulary": 50432}, "EleutherAI/gpt-neox megatron/model/init_functions.py 25-227",
        notes=("embeddings and head are taken as N(.02), for a Xavier law of theirs goes with the vocabulary; the "
               "fused matrix of q, k, v is read as three.",)),
    RecipeRow("neox-small-wang", Transformer(rotary=True, parallel=True),
        each(SMALL, WANG, token=SMALL, head=SMALL), NEOX,
        "EleutherAI/gpt-neox megatron/model/init_functions.py 146-175; configs/20B.yml 34-36",
        notes=("wang_init is by the width for the matrix of fan-in 4d, too; a quarter of each head is rotary, in the "
               "record all of it.",)),
    RecipeRow("neox-hf", Transformer(rotary=True, parallel=True), each(FLAT, FLAT, token=FLAT, head=FLAT), NEOX,
        "huggingface/transformers modeling_utils.py 2295-2340 (gpt_neox has no _init_weights)",
        notes=("a quarter of each head is rotary, in the record all of it.",)),
    RecipeRow("bert", Transformer(TANH_GELU, place="post", causal=False), bert(truncated(FLAT)), BERT,
        "google-research/bert modeling.py 362-377, 412, 479-495, 671-703, 861-880", POST, (SUMMED,)),
    RecipeRow("bert-hf", BIDIRECTIONAL, bert(normal(FLAT)), BERT,
        "huggingface/transformers models/bert/modeling_bert.py 547-554; modeling_utils.py 2295-2340", POST, (SUMMED,)),
    RecipeRow("t5-mesh", ENCODER, t5(truncated("1/sqrt(d)"), truncated("1/sqrt(f)")), T5,
        "tensorflow/mesh mesh_tensorflow/transformer/attention.py 428-443; layers.py 314-365; "
        "transformer_layers.py 36-80, 338-340; transformer.py 2143-2174", TIED, T5_NOTES),
    RecipeRow("t5-mesh-multihead", ENCODER, t5(truncated("1/sqrt(d)"), truncated("1/sqrt(f)")) | {
            "query": normal("1/sqrt(d*sqrt(h))", multiplier="sqrt(h)"), "key": normal("1/sqrt(d*sqrt(h))"),
            "output": normal("1/sqrt(d*H)")}, T5,
        "tensorflow/mesh mesh_tensorflow/layers.py 1587-1591", TIED, T5_NOTES),
    RecipeRow("t5", ENCODER, t5("1/sqrt(d)", "1/sqrt(f)"), T5,
        "huggingface/transformers models/t5/modeling_t5.py 563-617, 197, 1044", TIED, T5_NOTES),
    RecipeRow("t5-v1.1", GATED_ENCODER, t5("1/sqrt(d)", "1/sqrt(f)", gate="1/sqrt(d)") | {"head": normal("1")}, T5_V11,
        "huggingface/transformers models/t5/modeling_t5.py 563-617, 197, 1044", notes=T5_NOTES),
)  # fmt: skip
