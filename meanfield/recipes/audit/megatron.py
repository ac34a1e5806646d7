"""Configurations of Megatron-LM (TransformerConfig, arguments) and of GPT-NeoX (its yml)."""

from __future__ import annotations

from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.recipes.audit.configurations import LINE
from meanfield.recipes.audit.hugging_face import turned
from meanfield.recipes.audit.keys import NEEDED, Key, KeyValues, Reader, Reading, Refused, positive, size, truth, word
from meanfield.recipes.audit.meanings import ACTIVATIONS, activation_of, heads_fit, times
from meanfield.recipes.description.matrix_laws import Law, normal, xavier_uniform
from meanfield.recipes.rows.language import FLAT, SCALED
from meanfield.recipes.rows.recipe_shapes import Transformer, each

CALLED = dict(ACTIVATIONS) | {"F.gelu": "gelu", "F.silu": "silu", "F.relu": "relu"}
SCORES = "apply_query_key_layer_scaling divides scores by l and multiplies them again before the softmax: no change."


def _megatron(v: KeyValues) -> Reading:
    d, heads = v.hidden_size, v.num_attention_heads
    if v.kv_channels is None:
        heads_fit(d, heads, v.num_query_groups, ("hidden_size", "num_attention_heads", "num_query_groups"))
    gated = v.swiglu or v.gated_linear_unit
    if v.squared_relu and v.swiglu:
        raise MeanFieldError("The configuration contradicts itself: swiglu and squared_relu are both true.")
    phi = "silu" if v.swiglu else "relu(z)**2" if v.squared_relu else activation_of(v.activation_func, CALLED)
    hidden = v.ffn_hidden_size or (int(4 * d * 2 / 3 / 64) * 64 if v.swiglu else 4 * d)
    own = FLAT if v.embedding_init_method_std is None else repr(v.embedding_init_method_std)
    laws: dict[str, Any] = each(FLAT, SCALED, token=own, position=own) | ({"gate": FLAT} if gated else {})
    row = "megatron"
    notes: tuple[str, ...] = (SCORES,) if v.apply_query_key_layer_scaling else ()
    if v.use_mup:
        row = "megatron-mup"
        _mup(v, laws)
    if v.softmax_scale is not None:
        laws["query"] = times(laws["query"], f"{v.softmax_scale!r}*sqrt(h)")
    if v.position_embedding_type != "learned_absolute":
        laws.pop("position")
    if v.untie_embeddings_and_output_weights:
        laws.setdefault("head", FLAT)
    rope = v.position_embedding_type == "rope" and v.rotary_percent > 0
    shape = Transformer(
        phi, gated, "rms" if v.normalization == "RMSNorm" else "layer", rotary=v.rotary_base if rope else 0,
        qk_norm=v.qk_layernorm, head=v.kv_channels,
    )  # fmt: skip
    sizes = {"depth": v.num_layers, "width": d, "heads": heads, "groups": v.num_query_groups or heads, "hidden": hidden,
             "context": v.max_position_embeddings, "vocabulary": v.padded_vocab_size}  # fmt: skip
    more = {"tied": not v.untie_embeddings_and_output_weights}
    notes += turned(v.rotary_percent) if rope else ()
    return Reading(row, shape, laws, sizes, v.init_method_std, more, notes,
                 "NVIDIA/Megatron-LM megatron/core/utils.py 862-871; transformer_config.py 388-417, 2571-2610")


def _mup(v: KeyValues, laws: dict[str, Any]) -> None:
    """The laws of use_mup, put in their places: matrices by √m, m = hidden_size/mup_base_hidden_size; scores by
    √(base head)/h^p."""
    if v.mup_base_hidden_size is None:
        raise MeanFieldError("use_mup needs mup_base_hidden_size, the width that others are compared with; give it.")
    m = v.hidden_size / v.mup_base_hidden_size
    if v.softmax_scale is not None:
        raise MeanFieldError("The configuration contradicts itself: use_mup and softmax_scale both scale the scores.")
    laws |= {kind: normal(f"s/sqrt({m!r})") for kind in ("query", "key", "value", "up", "gate") if kind in laws}
    laws["output"] = laws["down"] = normal(f"s/sqrt(2*L*{m!r})")
    base = v.mup_base_head_dim or (v.kv_channels or v.hidden_size // v.num_attention_heads)
    laws["query"] = times(laws["query"], f"sqrt({base})*sqrt(h)/h**{v.mup_attn_scale_power!r}")
    if v.mup_embedding_mult != 1:
        laws |= {kind: times(laws[kind], repr(v.mup_embedding_mult)) for kind in ("token", "position")}
    laws["head"] = times(FLAT, repr(v.mup_output_mult / m))


_IGNORED = (
    "*dropout*", "*fusion*", "*parallel*", "fp16*", "bf16*", "fp32*", "params_dtype", "lr*", "min_lr*", "*interval",
    "*path*", "save*", "load*", "log*", "tensorboard*", "wandb*", "*batch_size", "*iters", "weight_decay*", "adam*",
    "optimizer*", "clip_grad", "*recompute*", "use_flash_attn", "*distributed*", "*vocab*", "tokenizer*", "split",
    "seed", "*_epsilon", "*zero_centered*", "apply_layernorm_1p", "add_*bias*", "*add_bias*", "disable_bias*",
    "attention_softmax_in_fp32", "*checkpoint*", "overlap*", "*cuda*", "transformer_impl", "use_mcore_models",
    "data*", "train*", "eval*", "exit*", "num_workers", "window_size", "use_rotary*",
    "*precision*", "*gradient*", "nproc*", "nnodes*", "master*", "group_query_attention", "rank", "world_size",
)  # fmt: skip
MEGATRON = Reader(
    "megatron", "GPTModel of Megatron-LM", (
        size("num_layers", NEEDED, "encoder_num_layers", what="number of blocks"),
        size("hidden_size", NEEDED, what="width"), size("num_attention_heads", NEEDED, what="heads"),
        size("ffn_hidden_size", None), size("num_query_groups", None), size("kv_channels", None),
        truth("swiglu", False), truth("gated_linear_unit", False), truth("squared_relu", False),
        word("activation_func", "gelu"), word("normalization", "LayerNorm", choices=("LayerNorm", "RMSNorm")),
        truth("qk_layernorm", False), positive("softmax_scale", None), truth("apply_query_key_layer_scaling", False),
        positive("init_method_std", 0.02), positive("embedding_init_method_std", None),
        truth("untie_embeddings_and_output_weights", False, "!share_embeddings_and_output_weights"),
        word("position_embedding_type", "learned_absolute", choices=("learned_absolute", "rope", "none")),
        positive("rotary_base", 10_000), Key("rotary_percent", "number", 1.0), truth("use_mup", False),
        size("mup_base_hidden_size", None), size("mup_base_head_dim", None), positive("mup_attn_scale_power", 1.0),
        positive("mup_embedding_mult", 1.0), positive("mup_output_mult", 1.0),
        Key("max_position_embeddings", "size", 1024, instead=("seq_length",)), size("padded_vocab_size", None),
    ), _megatron, (), (LINE,),
    (
        Refused("num_moe_experts", "a mixture of experts", (None, 0, 1)),
        Refused("num_experts", "a mixture of experts", (None, 0, 1)),
        Refused("is_hybrid_model", "a model with layers of a state space"),
        Refused("multi_latent_attention", "latent attention"),
        Refused("apply_residual_connection_post_layernorm", "a skip that begins behind the norm"),
        Refused("softmax_type", "a softmax with an offset", (None, "vanilla")),
        Refused("init_method_xavier_uniform", "Xavier's law (which sets scaled_init_method, no field there)"),
        Refused("window_size_pattern", "a window in some layers"),
    ),
    (*_IGNORED, "init_method", "output_layer_init_method", "embedding_init_method"), hyphens=True,
)  # fmt: skip

#: initializers of GPT-NeoX (megatron/model/init_functions.py), by their names
INITS: dict[str, Law] = {
    "normal": normal(FLAT), "scaled_normal": normal(SCALED), "small_init": normal("sqrt(2/(5*d))"),
    "wang_init": normal("2/(L*sqrt(d))"), "single_residual_scaled_normal": normal("s/sqrt(L)"),
    "xavier_uniform": xavier_uniform(), "xavier_normal": normal("sqrt(2/(n+m))"),
}  # fmt: skip
#: the same where q, k and v are one matrix, and where it is the embeddings'
FUSED = {"xavier_uniform": xavier_uniform(m="3*d"), "xavier_normal": normal("sqrt(2/(n+3*d))")}
TOKENS = {"xavier_uniform": xavier_uniform(n="d", m="V"), "xavier_normal": normal("sqrt(2/(d+V))")}
GATED = {"swiglu": "silu", "geglu": "gelu", "reglu": "relu", "bilinear": "z", "glu": "sigmoid"}


def _init(name: str, key: str) -> Law:
    if name in ("orthogonal", "scaled_orthogonal"):
        raise MeanFieldError(
            f"{key} = {name!r} is not modelled: orthogonal raises ValueError in GPT-NeoX's code (its arguments are "
            f"shifted), and a fused matrix of either is no orthogonal q, k, v; it is one of {', '.join(INITS)}."
        )
    if name not in INITS:
        raise MeanFieldError(f"{key} = {name!r} is no initializer that is read here; it is one of {', '.join(INITS)}.")
    return INITS[name]


def _neox(v: KeyValues) -> Reading:
    d, heads = v.hidden_size, v.num_attention_heads
    heads_fit(d, heads, v.num_kv_heads, ("hidden_size", "num_attention_heads", "num_kv_heads"))
    gated = v.activation in GATED
    hidden = v.intermediate_size or int((v.expansion_factor or 4) * d)
    if gated:  # both factors are one matrix of two thirds
        step = v.mlp_multiple_of
        hidden = -(-(int(hidden * 2 / 3) // 2) // step) * step
    inner, output = _init(v.init_method, "init_method"), _init(v.output_layer_init_method, "output_layer_init_method")
    q, token = FUSED.get(v.init_method, inner), TOKENS.get(v.init_method, inner)
    laws: dict[str, Any] = each(q, output, up=inner, down=output, token=token) | ({"gate": inner} if gated else {})
    laws |= {"position": token} if v.pos_emb == "learned" else {}
    laws |= {"head": token} if v.no_weight_tying else {}
    rotary = v.pos_emb == "rotary" and v.rotary_pct > 0
    shape = Transformer(
        GATED[v.activation] if gated else activation_of(v.activation), gated, "rms" if v.norm == "rmsnorm" else "layer",
        parallel=v.gpt_j_residual, rotary=v.rotary_emb_base if rotary else 0, qk_norm=v.use_qk_layernorm,
    )  # fmt: skip
    sizes = {"depth": v.num_layers, "width": d, "heads": heads, "groups": v.num_kv_heads or heads, "hidden": hidden,
             "context": v.seq_length, "vocabulary": v.padded_vocab_size}  # fmt: skip
    small = (v.init_method, v.output_layer_init_method) == ("small_init", "wang_init")
    notes = (turned(v.rotary_pct) if rotary else ()) + ((SCORES,) if v.apply_query_key_layer_scaling else ())
    notes += ("wang_init takes no notice of the fan-in of the second matrix of a branch.",) if small else ()
    if v.gpt_j_residual and v.gpt_j_tied:
        notes += ("one norm serves both branches: as two of gain 1 at the start.",)
    return Reading("neox-small-wang" if small else "neox", shape, laws, sizes, v.init_method_std,
                 {"tied": not v.no_weight_tying}, notes,
                 "EleutherAI/gpt-neox megatron/model/init_functions.py 25-227; transformer.py 1063-1177")  # fmt: skip


NEOX = Reader(
    "neox", "GPT2ModelPipe of GPT-NeoX", (
        size("num_layers", NEEDED, what="number of blocks"), size("hidden_size", NEEDED, what="width"),
        size("num_attention_heads", NEEDED, what="heads"), size("num_kv_heads", None), size("intermediate_size", None),
        positive("expansion_factor", None), size("mlp_multiple_of", 1), word("activation", "gelu"),
        word("norm", "layernorm", choices=("layernorm", "rmsnorm")),
        word("pos_emb", "learned", choices=("learned", "rotary", "none")), Key("rotary_pct", "number", 1.0),
        positive("rotary_emb_base", 10_000), truth("no_weight_tying", False), truth("gpt_j_residual", False),
        truth("gpt_j_tied", False), word("init_method", "normal"), positive("init_method_std", 0.02),
        word("output_layer_init_method", "scaled_normal"), truth("apply_query_key_layer_scaling", False),
        truth("use_qk_layernorm", False), Key("seq_length", "size", 2048, instead=("max_position_embeddings",)),
        size("padded_vocab_size", None),
    ), _neox, (), ("NeoX",),
    (
        Refused("use_mup", "muP of GPT-NeoX, whose base shapes stand in another file,"),
        Refused("moe_num_experts", "a mixture of experts", (None, 0, 1)),
        Refused("num_experts", "a mixture of experts", (None, 0, 1)),
    ),
    (*_IGNORED, "mup_*", "*warmup*", "pipe*", "scaled_*", "synchronize*", "steps_per_print", "wall_clock*", "zero_*",
     "partition*", "attention_config", "hysteresis", "use_bias*", "make_vocab*", "launcher", "deepspeed*", "rms_norm*",
     "text_gen*", "*_tokens"), hyphens=True,
)  # fmt: skip
READERS = (MEGATRON, NEOX)
