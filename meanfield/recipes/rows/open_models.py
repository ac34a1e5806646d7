"""Initializations of Llama and its kin: llama2.c, Gemma, Qwen, torchtitan, OLMo (specification table A1).

Left out: torchtitan's gpt_oss, DeepSeek V3 and Kimi, whose experts, routers, latent attention and sinks are no record
here; its muse_glimmer, which multiplies queries behind their norm; OLMo's kaiming_normal and fan_in, which raise
NotImplementedError; OLMo-core's `normalized` (nGPT), whose stream is divided by its norm in every step.
"""

from __future__ import annotations

from meanfield.recipes.description.matrix_laws import normal, trunc_normal_, truncated
from meanfield.recipes.rows.recipe_row import RecipeRow
from meanfield.recipes.rows.recipe_shapes import Transformer, each

FLAT, SCALED, BY_BLOCK = "s", "s/sqrt(2*L)", "s/sqrt(2*l)"
CUT, CUT_BY_BLOCK, CUT_SCALED = trunc_normal_(FLAT), trunc_normal_(BY_BLOCK), trunc_normal_(SCALED)
THREE, THREE_SCALED, THREE_BY_BLOCK = truncated(FLAT, 3), truncated(SCALED, 3), truncated(BY_BLOCK, 3)
HEAD = truncated("1/sqrt(d)", 3)
LLAMA = {"depth": 32, "width": 4096, "heads": 32, "hidden": 11008, "context": 2048, "vocabulary": 32000}
LLAMA2C = {"depth": 12, "width": 768, "heads": 12, "hidden": 2048, "context": 1024, "vocabulary": 32000}
LLAMA3 = {"depth": 32, "width": 4096, "heads": 32, "hidden": 14336, "groups": 8, "context": 8192, "vocabulary": 128256}
LLAMA3_1B = LLAMA3 | {"depth": 16, "width": 2048, "hidden": 8192}
MISTRAL = LLAMA | {"hidden": 14336, "groups": 8, "context": 4096}
QWEN3 = LLAMA | {"depth": 36, "hidden": 12288, "groups": 8, "context": 4096, "vocabulary": 151936}
QWEN3_SMALL = QWEN3 | {"depth": 28, "width": 2048, "heads": 16, "hidden": 6144}
GEMMA2 = {"depth": 42, "width": 3584, "heads": 16, "hidden": 14336, "groups": 8, "context": 8192, "vocabulary": 256000}
OLMO = LLAMA | {"vocabulary": 50304}
OLMO2 = LLAMA | {"context": 4096, "vocabulary": 100352}

MODEL = Transformer("silu", gated=True, norm="rms", rotary=True)
QK = Transformer("silu", gated=True, norm="rms", rotary=True, qk_norm=True)
UNGAINED = Transformer("silu", gated=True, affine=False, rotary=True)
BEHIND = Transformer("silu", gated=True, norm="rms", place="behind", rotary=True, qk_norm=True)
TIED = {"tied": True}
WHOLE = ("q and k are divided by their size over the whole width, in the record by that of each head.",)
TITAN = "pytorch/torchtitan torchtitan/models/llama3/__init__.py"
BASE = "huggingface/transformers modeling_utils.py 2295-2340"
CORE = "allenai/OLMo-core src/olmo_core/nn/transformer/init.py"
FLAT_MODEL = each(FLAT, FLAT, gate=FLAT, token=FLAT, head=FLAT)


def titan(inner: object, last: object, token: object) -> dict[str, object]:
    """As torchtitan draws: output, down and the linear factor of the gate by one law, the rest by another."""
    return each(inner, last, up=last, gate=inner, token=token, head=HEAD)


ROWS = (
    RecipeRow("llama2.c", MODEL, each(FLAT, SCALED, up=SCALED, gate=FLAT, down=FLAT, token=FLAT), LLAMA2C,
        "karpathy/llama2.c model.py 168-180, 215-247", TIED),
    RecipeRow("llama", MODEL, FLAT_MODEL, LLAMA, f"{BASE}; models/llama/configuration_llama.py 64-84"),
    RecipeRow("mistral", MODEL, FLAT_MODEL, MISTRAL, f"{BASE} (mistral has no _init_weights)",
        notes=("its sliding window is longer than the context here.",)),
    RecipeRow("qwen3", QK, FLAT_MODEL, QWEN3, f"{BASE} (qwen3 has no _init_weights)"),
    RecipeRow("gemma2", Transformer("gelu_tanh", gated=True, norm="rms", place="peri", rotary=True),
        each(FLAT, FLAT, gate=FLAT, token=normal(FLAT, multiplier="sqrt(d)")), GEMMA2,
        "huggingface/transformers models/gemma2/modeling_gemma2.py 335-341, 363-380", TIED,
        ("heads are 256 wide whatever the width, in the record width/heads; scores are bent by 50 tanh(s/50) and "
         "logits by 30, which the record does not do.",)),
    RecipeRow("llama-torchtitan", MODEL, titan(CUT, CUT_BY_BLOCK, "1"), LLAMA3,
        f"{TITAN} 45-111, 236-315; models/common/config_utils.py 281-308; param_init.py 28-30"),
    RecipeRow("llama-torchtitan-tied", MODEL, titan(CUT, CUT_BY_BLOCK, HEAD) | {"head": HEAD}, LLAMA3_1B,
        f"{TITAN} 148-233; models/common/decoder.py 257-272", TIED),
    RecipeRow("torchtitan-hf", MODEL, titan(CUT, CUT_BY_BLOCK, FLAT), LLAMA3,
        "pytorch/torchtitan torchtitan/experiments/transformers_modeling_backend/model.py 770-905, __init__.py 50",
        notes=("models with biases have them uniform on ±1/sqrt(fan-in); Llama has none.",)),
    RecipeRow("torchtitan-hf-flat-depth", MODEL, titan(CUT, CUT_SCALED, FLAT), LLAMA3,
        "pytorch/torchtitan torchtitan/experiments/transformers_modeling_backend/model.py 770-905",
        notes=("with depth_init=False.",)),
    RecipeRow("qwen3-torchtitan", QK, each(FLAT, FLAT, gate=FLAT, token=FLAT), QWEN3_SMALL,
        "pytorch/torchtitan torchtitan/models/qwen3/__init__.py 48-85, 100-131, 150-190", TIED),
    RecipeRow("olmo-normal", UNGAINED, FLAT_MODEL, OLMO,
        "allenai/OLMo olmo/model.py 483-506, 707-726, 865-886, 1173-1230; olmo/initialization.py"),
    RecipeRow("olmo-mitchell", UNGAINED, each(HEAD, truncated("1/sqrt(2*d*l)", 3), gate=HEAD,
            down=truncated("1/sqrt(2*n*l)", 3), token=HEAD, head=HEAD), OLMO,
        "allenai/OLMo olmo/model.py 483-506, 707-726, 865-886, 1173-1230; configs/official-0724/*.yaml 36-37"),
    RecipeRow("olmo-full-megatron", UNGAINED, each(THREE, THREE_SCALED, gate=THREE, token=THREE, head=HEAD), OLMO,
        "allenai/OLMo olmo/model.py 483-506, 707-726, 865-886, 1173-1230"),
    RecipeRow("olmo2", BEHIND, each(THREE, THREE, gate=THREE, token=THREE, head=THREE), OLMO2,
        "allenai/OLMo configs/official-1124/OLMo2-7B-stage1.yaml 24, 34-36; olmo/initialization.py", notes=WHOLE),
    RecipeRow("olmo2-hf", BEHIND, FLAT_MODEL, OLMO2,
        f"{BASE}; models/olmo2/modeling_olmo2.py Olmo2DecoderLayer", notes=WHOLE),
    RecipeRow("olmo-core", MODEL, each(THREE, THREE, gate=THREE, token=THREE, head=THREE), OLMO2, CORE),
    RecipeRow("olmo-core-llama", MODEL, titan(THREE, THREE_SCALED, "1"), OLMO2, f"{CORE} 88-90, 154-180, 194-254"),
    RecipeRow("olmo-core-llama-depth", MODEL, titan(THREE, THREE_BY_BLOCK, "1"), OLMO2,
        f"{CORE} 88-90, 154-180, 194-254"),
    RecipeRow("olmo-core-fan-in", MODEL, each(*2 * (truncated("1/sqrt(n)", 3),), gate=truncated("1/sqrt(n)", 3),
            token="1", head=HEAD), OLMO2, f"{CORE} 70-77, 92-95, 117-122"),
)  # fmt: skip
