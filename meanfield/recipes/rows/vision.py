"""Initializations of networks of images, as public code has them (specification table A2).

Patches have 768 = 3·16·16 pixels, taken as of mean square 1: a convolution of torch's default law gives their embedding
the deviation 1/√3. Left out: gMLP, which gates by matrices over tokens; CaiT's attention of the class token; Swin.
"""

from __future__ import annotations

from dataclasses import replace

from meanfield.recipes.description.matrix_laws import normal, trunc_normal_, truncated, uniform, xavier_uniform
from meanfield.recipes.rows.recipe_row import RecipeRow
from meanfield.recipes.rows.recipe_shapes import Mixer, Transformer, each

FLAT, BY_BLOCK = "s", "s/sqrt(2*l)"
CUT = trunc_normal_(FLAT)
PATCH = uniform("1/sqrt(768)", multiplier="sqrt(768)")
PATCH_CUT = truncated("1/sqrt(768)", corrected=True, multiplier="sqrt(768)")
VIT = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 197, "vocabulary": 1000}
DINO = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 257}
GIANT = {"depth": 40, "width": 1536, "heads": 24, "hidden": 4096, "context": 257}
MIXER = {"depth": 12, "width": 768, "hidden": 3072, "context": 196, "vocabulary": 1000}
RESMLP = {"depth": 12, "width": 384, "hidden": 1536, "context": 196, "vocabulary": 1000}
ENCODER = Transformer(causal=False)
TIMM = "huggingface/pytorch-image-models timm/models"
XAVIER = xavier_uniform()
FUSED = xavier_uniform(1, "n", "3*d")
CUTS = each(CUT, CUT, token=PATCH, position=CUT, head=CUT)
TOKENS = {"tokens1": XAVIER, "tokens2": XAVIER}
TINY = {f"{one} bias": normal("1e-6") for one in ("tokens1", "tokens2", "up", "down")}
PIXELS = "patches are taken as independent, of pixels of mean square 1; the class token starts at about 0."

ROWS = (
    RecipeRow("vit", ENCODER, CUTS, VIT, f"{TIMM}/vision_transformer.py 906-941, 1305-1320", notes=(PIXELS,)),
    RecipeRow("vit-fix-init", ENCODER, each(CUT, trunc_normal_(BY_BLOCK), token=PATCH, position=CUT, head=CUT), VIT,
        f"{TIMM}/vision_transformer.py 906-941", notes=(PIXELS,)),
    RecipeRow("vit-jax", ENCODER, each(FUSED, XAVIER, up=XAVIER, token=PATCH_CUT, position=CUT, head="0")
            | {f"{one} bias": normal("1e-6") for one in ("up", "down")}, VIT,
        f"{TIMM}/vision_transformer.py 1323-1352", notes=(PIXELS,)),
    RecipeRow("vit-moco", ENCODER, each(XAVIER, XAVIER, token=PATCH, position=CUT,
            head=XAVIER), VIT, f"{TIMM}/vision_transformer.py 1355-1375", notes=(PIXELS,)),
    RecipeRow("vit-hf", ENCODER,
        each(FLAT, FLAT, token=normal(FLAT, multiplier="sqrt(768)"), position=CUT, head=FLAT), VIT,
        "huggingface/transformers models/vit/modeling_vit.py 324-332",
        notes=(PIXELS,)),
    RecipeRow("vit-swiglu", Transformer("(z+1)/(1+exp(-z-1))", gated=True, causal=False),
        each(CUT, CUT, gate=normal("1e-6"), token=PATCH, position=CUT, head=CUT), VIT | {"hidden": 2048},
        "huggingface/pytorch-image-models timm/layers/mlp.py 151-160", notes=(
            PIXELS, "the bias 1 of the gate is in the activation, silu(z + 1): the branch starts as .731 of its linear "
            "factor.")),
    RecipeRow("vit-swiglu-packed", replace(ENCODER, activation="silu"), CUTS, VIT | {"hidden": 2048},
        "huggingface/pytorch-image-models timm/layers/mlp.py 95-104, 112; models/_manipulate.py 29-42", notes=(
            PIXELS, "the linear factor, not the gate, gets N(1e-6) and bias 1: the branch starts as one of silu "
            "without a gate, and is written so.")),
    RecipeRow("dinov2", replace(ENCODER, branch="1e-5"), CUTS, DINO,
        f"{TIMM}/vision_transformer.py 906-941; layers/layer_scale.py 11-49", notes=(PIXELS,)),
    RecipeRow("beit", replace(ENCODER, branch=".1"), each(CUT, trunc_normal_(BY_BLOCK), token=PATCH, head=CUT), VIT,
        f"{TIMM}/beit.py 587-606, 999-1020", notes=(PIXELS, "LayerScale .1 (the large model: 1e-5).")),
    RecipeRow("mixer", Mixer(hidden_tokens=2),
        TOKENS | TINY | {"up": XAVIER, "down": XAVIER, "token": PATCH_CUT, "head": "0"}, MIXER,
        f"{TIMM}/mlp_mixer.py 60-102, 519-556", notes=(
            "patches are taken as independent; hidden tokens are twice as many as tokens (196), in the code half as "
            "many as neurons.",)),
    RecipeRow("resmlp", Mixer(affine=True, scales=((12, "1e-4"), (24, "1e-5"), (1 << 24, "1e-6"))),
        {"tokens": XAVIER, "up": XAVIER, "down": XAVIER, "token": PATCH, "head": "0"}, RESMLP,
        f"{TIMM}/mlp_mixer.py 105-171, 787-829", {"final_norm": False}, ("patches are taken as independent.",)),
)  # fmt: skip
