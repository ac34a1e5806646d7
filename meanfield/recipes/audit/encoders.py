"""Configurations of Hugging Face's BERT, T5 and ViT."""

from __future__ import annotations

from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.recipes.audit.hugging_face import CROSS, IGNORED, RANGE
from meanfield.recipes.audit.keys import NEEDED, Key, KeyValues, Reader, Reading, Refused, positive, size, truth, word
from meanfield.recipes.audit.meanings import activation_of, heads_fit, times
from meanfield.recipes.description.matrix_laws import normal, trunc_normal_
from meanfield.recipes.rows.catalog import row_of
from meanfield.recipes.rows.language import FLAT
from meanfield.recipes.rows.recipe_shapes import Transformer


def _common(context: int, vocabulary: int) -> tuple[Key, ...]:
    return (
        size("num_hidden_layers", NEEDED, what="number of blocks"), size("hidden_size", NEEDED, what="width"),
        size("num_attention_heads", NEEDED, what="heads"), size("intermediate_size", 3072), word("hidden_act", "gelu"),
        RANGE,
    ) + ((size("max_position_embeddings", context), size("vocab_size", vocabulary)) if context else ())  # fmt: skip


def _sizes(v: KeyValues, **more: Any) -> dict[str, Any]:
    heads_fit(v.hidden_size, v.num_attention_heads, None, ("hidden_size", "num_attention_heads", ""))
    return {"depth": v.num_hidden_layers, "width": v.hidden_size, "heads": v.num_attention_heads,
            "hidden": v.intermediate_size, **more}  # fmt: skip


def _bert(v: KeyValues) -> Reading:
    sizes = _sizes(v, context=v.max_position_embeddings, vocabulary=v.vocab_size)
    laws: dict[str, Any] = dict(row_of("bert-hf").laws)
    laws |= {} if v.tie_word_embeddings else {"head": FLAT}
    shape = Transformer(activation_of(v.hidden_act), place="post", causal=v.is_decoder)
    more = {"tied": v.tie_word_embeddings, "input_norm": True, "final_norm": False}
    notes = (*row_of("bert-hf").notes,
             "its head has a matrix of its own and a norm before the embeddings' matrix, which are not followed.")
    return Reading("bert-hf", shape, laws, sizes, v.initializer_range, more, notes,
                 row_of("bert-hf").source)  # fmt: skip


BERT = Reader(
    "bert", "BertForMaskedLM of Hugging Face",
    (*_common(512, 30522), truth("tie_word_embeddings", True), truth("is_decoder", False)),
    _bert, ("bert",), ("Bert",),
    (CROSS, Refused("position_embedding_type", "a position embedding inside the scores", (None, "absolute"))), IGNORED,
)  # fmt: skip


def _vit(v: KeyValues) -> Reading:
    tiles, rest = divmod(v.image_size, v.patch_size)
    if rest:
        raise MeanFieldError(
            f"patch_size must divide image_size, but patches of {v.patch_size} in images of {v.image_size} were given; "
            "the configuration contradicts itself."
        )
    pixels = v.num_channels * v.patch_size**2
    patch = times(trunc_normal_(FLAT), f"sqrt({pixels})")
    laws: dict[str, Any] = dict(row_of("vit-hf").laws) | {"token": patch}
    sizes = _sizes(v, context=tiles**2 + 1)
    shape = Transformer(activation_of(v.hidden_act), causal=False)
    notes = (f"a patch of {pixels} pixels of variance 1 is embedded by the patch convolution; the class token is not.",)
    return Reading("vit-hf", shape, laws, sizes, v.initializer_range, {}, notes,
                 row_of("vit-hf").source)  # fmt: skip


VIT = Reader(
    "vit", "ViTForImageClassification of Hugging Face",
    (*_common(0, 0), size("image_size", 224), size("patch_size", 16), size("num_channels", 3)),
    _vit, ("vit",), ("ViT",), (), IGNORED,
)  # fmt: skip


def _t5(v: KeyValues) -> Reading:
    gated = v.feed_forward_proj.startswith("gated-")
    name = v.feed_forward_proj.removeprefix("gated-")
    phi = activation_of("gelu_new" if gated and name == "gelu" else name)
    laws: dict[str, Any] = {
        "token": normal("s"), "query": normal("s/sqrt(d*h)", "sqrt(h)"), "key": normal("s/sqrt(d)"),
        "value": normal("s/sqrt(d)"), "output": normal("s/sqrt(H*h)"), "up": normal("s/sqrt(d)"),
        "down": normal("s/sqrt(f)"),
    }  # fmt: skip
    laws |= {"gate": normal("s/sqrt(d)")} if gated else {}
    laws["head"] = normal("s", "1/sqrt(d)" if v.tie_word_embeddings else "1")
    sizes = {"depth": v.num_layers, "width": v.d_model, "heads": v.num_heads, "hidden": v.d_ff,
             "context": v.n_positions, "vocabulary": v.vocab_size}  # fmt: skip
    bias = v.initializer_factor / v.d_model**0.5
    notes = ("its encoder is read; the decoder has cross attention besides, which is not followed.",
             f"a bias of deviation {bias:.2g} by distance is added to the scores, and is left out.")  # fmt: skip
    shape = Transformer(phi, gated, "rms", causal=False, head=v.d_kv)
    row, more = "t5-v1.1" if gated else "t5", {"tied": v.tie_word_embeddings}
    return Reading(row, shape, laws, sizes, v.initializer_factor, more, notes, row_of(row).source)


T5 = Reader(
    "t5", "the encoder of T5ForConditionalGeneration of Hugging Face", (
        size("num_layers", NEEDED, "num_hidden_layers", what="number of blocks"),
        size("d_model", NEEDED, "hidden_size", what="width"),
        size("num_heads", NEEDED, "num_attention_heads", what="heads"),
        size("d_kv", 64), size("d_ff", 2048), positive("initializer_factor", 1.0), word("feed_forward_proj", "relu"),
        size("vocab_size", 32128), size("n_positions", 512), truth("tie_word_embeddings", True),
    ), _t5, ("t5", "mt5", "umt5"), ("T5", "MT5"), (),
    (*IGNORED, "num_decoder_layers", "relative_attention*", "dense_act_fn", "is_gated_act", "classifier_*"),
)  # fmt: skip
READERS = (BERT, VIT, T5)
