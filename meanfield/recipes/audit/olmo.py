"""Configurations of OLMo (the section model: of its YAML) and of OLMo-core (TransformerConfig)."""

from __future__ import annotations

from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.recipes.audit.keys import NEEDED, Key, KeyValues, Reader, Reading, Refused, positive, size, truth, word
from meanfield.recipes.audit.meanings import heads_fit, times
from meanfield.recipes.description.matrix_laws import Law, normal, truncated
from meanfield.recipes.rows.language import FLAT
from meanfield.recipes.rows.recipe_shapes import Transformer, each

WHOLE = "its norm of queries and keys is over the whole width; here it is over each head, the same at infinite width."
ABSENT = ("fan_in", "kaiming_normal")  # of OLMo: in its enum and its documentation, and in no branch of its code


def _cut(deviation: str, cutoff: float | None) -> Law:
    return normal(deviation) if cutoff is None else truncated(deviation, float(cutoff))


def _olmo_laws(v: KeyValues) -> dict[str, Any]:
    """The laws of init_fn (olmo/initialization.py, and reset_parameters of olmo/model.py)."""
    if v.init_fn in ABSENT:
        raise MeanFieldError(
            f"init_fn = {v.init_fn!r} is documented by OLMo, but its code raises NotImplementedError for it in every "
            "branch; it is normal, mitchell or full_megatron."
        )
    own = None if v.emb_init_std is None else repr(v.emb_init_std)
    if v.init_fn == "normal":
        flat = _cut(FLAT, v.init_cutoff_factor)
        found = each(flat, flat, gate=flat, token=_cut(own or FLAT, v.init_cutoff_factor))
        return found | {"position": flat, "head": flat}
    cutoff = 3.0 if v.init_cutoff_factor is None else v.init_cutoff_factor
    by_width = truncated("1/sqrt(d)", cutoff)
    if v.init_fn == "mitchell":
        start, low = truncated(own or "1/sqrt(d)", cutoff), truncated("1/sqrt(2*n*l)", cutoff)
        found = each(by_width, low, gate=by_width, token=start)
        return found | {"position": by_width, "head": by_width}
    flat = truncated(FLAT, cutoff)
    token = own or ("s*sqrt(d)" if v.scale_emb_init else FLAT)
    found = each(flat, truncated("s/sqrt(2*L)", cutoff), gate=flat, token=truncated(token, cutoff))
    return found | {"position": flat, "head": by_width}


def _olmo(v: KeyValues) -> Reading:
    groups = 1 if v.multi_query_attention else v.n_kv_heads
    if v.multi_query_attention and v.n_kv_heads not in (None, 1):
        raise MeanFieldError(
            f"The configuration contradicts itself: multi_query_attention has one head of keys, but n_kv_heads is "
            f"{v.n_kv_heads}."
        )
    heads_fit(v.d_model, v.n_heads, groups, ("d_model", "n_heads", "n_kv_heads"))
    gated = v.activation_type == "swiglu"
    held = v.mlp_hidden_size or int(v.mlp_ratio * v.d_model)
    laws = _olmo_laws(v)
    if v.scale_logits:
        laws["head"] = times(laws["head"], "1/sqrt(d)")
    for kind, wanted in (("gate", gated), ("position", not v.rope), ("head", v.scale_logits or not v.weight_tying)):
        laws = laws if wanted else {k: law for k, law in laws.items() if k != kind}
    sizes = {"depth": v.n_layers, "width": v.d_model, "heads": v.n_heads, "groups": groups or v.n_heads,
             "hidden": held // 2 if gated else held, "context": v.max_sequence_length,
             "vocabulary": v.embedding_size or v.vocab_size}  # fmt: skip
    shape = Transformer(
        "silu" if gated else v.activation_type, gated, "rms" if v.layer_norm_type == "rms" else "layer",
        v.layer_norm_with_affine, "behind" if v.norm_after else "pre", rotary=v.rope_theta if v.rope else 0,
        qk_norm=v.attention_layer_norm,
    )  # fmt: skip
    notes: tuple[str, ...] = (WHOLE,) if v.attention_layer_norm else ()
    if v.scale_emb_init and v.init_fn != "full_megatron":
        notes += (f"scale_emb_init does nothing with init_fn {v.init_fn}.",)
    more = {"tied": v.weight_tying, "input_norm": v.embedding_layer_norm}
    row = "olmo2" if v.norm_after and v.init_fn == "normal" else f"olmo-{v.init_fn.replace('_', '-')}"
    return Reading(row, shape, laws, sizes, v.init_std, more, notes,
                 "allenai/OLMo olmo/model.py 483-506, 707-726, 865-886, 1173-1230; olmo/initialization.py")  # fmt: skip


OLMO = Reader(
    "olmo", "the section model: of an OLMo configuration", (
        size("n_layers", NEEDED, what="number of blocks"), size("d_model", NEEDED, what="width"),
        size("n_heads", NEEDED, what="heads"), size("n_kv_heads", None), truth("multi_query_attention", None),
        positive("mlp_ratio", 4), size("mlp_hidden_size", None),
        word("activation_type", "swiglu", choices=("swiglu", "gelu", "relu")),
        word("block_type", "sequential", choices=("sequential", "llama")),
        word("layer_norm_type", "default", choices=("default", "low_precision", "amd_compatible", "rms")),
        truth("attention_layer_norm", False), truth("norm_after", False),
        truth("layer_norm_with_affine", True), truth("embedding_layer_norm", False),
        truth("weight_tying", True), truth("rope", False), positive("rope_theta", 10_000), truth("scale_logits", False),
        word("init_fn", "normal", choices=("normal", "mitchell", "full_megatron", *ABSENT)), positive("init_std", 0.02),
        positive("init_cutoff_factor", None), positive("emb_init_std", None), truth("scale_emb_init", False),
        size("max_sequence_length", 1024), size("vocab_size", 50257), Key("embedding_size", "count", 50304),
    ), _olmo, (), ("OLMo", "Olmo", "ModelConfig"),
    (Refused("alibi", "a bias of the scores by distance"), Refused("clip_qkv", "clipping of queries, keys and values")),
    ("*dropout*", "*_token_id", "init_device", "precision", "flash_attention", "block_group_size", "include_bias",
     "bias_for_layer_norm", "*_with_affine", "layer_norm_eps", "alibi_bias_max", "rope_full_precision", "fused_dense"),
    "model",
)  # fmt: skip

_PLACES = {"default": "pre", "reordered_norm": "behind", "peri_norm": "peri", "default_scaled": "pre"}
_METHODS = ("normal", "llama", "llama_depth", "normalized", "fan_in")


def _core_laws(v: KeyValues) -> dict[str, Any]:
    """The laws of init_method (src/olmo_core/nn/transformer/init.py)."""
    flat, head = truncated(FLAT, 3), truncated("1/sqrt(d)", 3)
    own = None if v.embedding_init_std is None else truncated(repr(v.embedding_init_std), 3)
    if v.init_method == "normal":
        return each(flat, flat, gate=flat, token=own or flat) | {"head": flat}
    if v.init_method == "fan_in":
        by_fan = truncated("1/sqrt(n)", 3)
        start = "1" if v.embed_scale is None else f"1/{v.embed_scale!r}"
        return each(by_fan, by_fan, gate=by_fan, token=own or normal(start)) | {"head": head}
    if v.init_method == "normalized":
        low = truncated("1/sqrt(d)/sqrt(2*L)", 3)
        return each(head, low, gate=head, token=own or normal("1/sqrt(d)")) | {"head": head}
    low = truncated("s/sqrt(2*L)" if v.init_method == "llama" else "s/sqrt(2*l)", 3)
    return each(flat, low, up=low, gate=flat, token=own or normal("1")) | {"head": head}


def _core(v: KeyValues) -> Reading:
    heads, groups = v.block_sequence_mixer_n_heads, v.block_sequence_mixer_n_kv_heads
    if v.block_sequence_mixer_head_dim is None:
        heads_fit(v.d_model, heads, groups, ("d_model", "n_heads", "n_kv_heads"))
    laws = _core_laws(v)
    if v.tie_word_embeddings:
        laws.pop("head")
    if v.embed_scale is not None:
        laws["token"] = times(laws["token"], repr(v.embed_scale))
    for kind, alpha in (("output", v.block_attention_residual_alpha), ("down", v.block_feed_forward_residual_alpha)):
        if alpha is not None:
            laws[kind] = times(laws[kind], repr(alpha))
    normed = v.block_sequence_mixer_qk_norm_name is not None
    whole = normed and not v.block_sequence_mixer_use_head_qk_norm
    sizes = {"depth": v.n_layers, "width": v.d_model, "heads": heads, "groups": groups or heads,
             "hidden": v.block_feed_forward_hidden_size, "context": v.sequence_length,
             "vocabulary": v.vocab_size}  # fmt: skip
    shape = Transformer(
        "silu", True, "layer" if v.block_layer_norm_name == "default" else "rms", place=_PLACES[v.block_name],
        by_block=v.block_name == "default_scaled", rotary=v.block_sequence_mixer_rope_theta or 0, qk_norm=normed,
        head=v.block_sequence_mixer_head_dim,
    )  # fmt: skip
    more = {"tied": v.tie_word_embeddings, "input_norm": v.embedding_norm_name is not None}
    row = "olmo-core" if v.init_method == "normal" else f"olmo-core-{v.init_method.replace('_', '-')}"
    return Reading(row, shape, laws, sizes, v.init_std, more,
                 (WHOLE,) if whole else (),
                 "allenai/OLMo-core src/olmo_core/nn/transformer/init.py; attention/__init__.py 727-771")  # fmt: skip


def _mixer(name: str, *more: str) -> tuple[str, tuple[str, ...]]:
    return f"block.sequence_mixer.{name}", (f"block.attention.{name}", *more)


def _mixed(kind: str, name: str, default: Any, what: str = "") -> Key:
    own, aliases = _mixer(name)
    return Key(own, kind, default, aliases, what=what)


OLMO_CORE = Reader(
    "olmo-core", "TransformerConfig of OLMo-core", (
        size("n_layers", NEEDED, what="number of blocks"), size("d_model", NEEDED, what="width"),
        _mixed("size", "n_heads", NEEDED, "heads"), _mixed("size", "n_kv_heads", None),
        _mixed("size", "head_dim", None),
        _mixed("positive", "rope.theta", None), _mixed("word", "qk_norm.name", None),
        _mixed("flag", "use_head_qk_norm", False),
        size("block.feed_forward.hidden_size", NEEDED, what="hidden neurons"),
        word("block.layer_norm.name", "rms", choices=("default", "rms", "fused_rms", "cute_rms")),
        word("block.name", "default", choices=tuple(_PLACES)), word("init_method", "normal", choices=_METHODS),
        positive("init_std", 0.02), positive("embedding_init_std", None), positive("embed_scale", None),
        word("embedding_norm.name", None), truth("tie_word_embeddings", False), size("vocab_size", None),
        positive("block.attention_residual_alpha", None), positive("block.feed_forward_residual_alpha", None),
        size("sequence_length", 2048),
    ), _core, (), ("TransformerConfig",),
    tuple(Refused(name, what) for name, what in (
        ("block.sequence_mixer.clip_qkv", "clipping of queries, keys and values"),
        ("block.attention.clip_qkv", "clipping of queries, keys and values"),
        ("block.feed_forward_moe", "a mixture of experts"), ("block_overrides", "blocks that differ"),
        ("block_pattern", "a pattern of blocks"), ("block.hyper_connections", "connections of several streams"),
        ("block.sequence_mixer.gate", "a gate behind attention"), ("block.attention.gate", "a gate behind attention"),
    )),
    ("_CLASS_", "dtype", "name", "init_seed", "init_device", "lm_head", "freeze_params", "block", "fused_ops",
     "embedding_norm", "float8_config"), "model",
)  # fmt: skip
READERS = (OLMO, OLMO_CORE)
