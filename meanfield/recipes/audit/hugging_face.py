"""Configurations of Hugging Face's transformers: GPT-2, Llama and its kin, Gemma 2, GPT-NeoX, BERT, T5, ViT.

Such a file holds one number of the initialization, initializer_range; its class decides the rest.
"""

from __future__ import annotations

from typing import Any

from meanfield.base.answers.results import MeanFieldError
from meanfield.recipes.audit.keys import NEEDED, Key, KeyValues, Reader, Reading, Refused, positive, size, truth, word
from meanfield.recipes.audit.meanings import activation_of, heads_fit, times
from meanfield.recipes.rows.catalog import row_of
from meanfield.recipes.rows.language import FLAT
from meanfield.recipes.rows.recipe_shapes import Transformer

IGNORED = (
    *("_*", "transformers_version", "torch_dtype", "dtype", "use_cache", "*drop*"),
    *("*_token_id", "*_token_index", "bos*", "eos*", "pad_*", "sep_*", "summary_*", "task_specific_params", "id2label"),
    *("label2id", "num_labels", "problem_type", "output_*", "return_dict*", "gradient_checkpointing", "auto_map"),
    *("quantization_config", "attn_implementation", "chunk_size_feed_forward", "finetuning_task", "prefix", "tf_*"),
    *("pruned_heads", "torchscript", "use_bfloat16", "is_encoder_decoder", "is_decoder", "tokenizer_class"),
    *("do_sample", "early_stopping", "max_length", "min_length", "num_beam*", "num_return*", "diversity_penalty"),
    *("temperature", "top_*", "typical_p", "repetition_penalty", "length_penalty", "*ngram*", "bad_words*"),
    *("forced_*", "suppress*", "remove_invalid*", "exponential_*", "begin_*", "cross_attention_hidden*"),
    *("layer_norm_eps*", "rms_norm_eps", "attention_bias", "mlp_bias", "pretraining_tp", "classifier_*"),
    *("layer_types", "max_window_layers", "cache_implementation", "n_ctx", "type_vocab_size", "rope_scaling"),
    *("reorder*", "n_positions", "hidden_act", "qkv_bias", "encoder_stride", "pooler_*", "decoder_*"),
    *("feed_forward_*", "position_embedding_type", "clean_up*", "tie_encoder_decoder", "name_or_path", "original_*"),
)  # fmt: skip
CROSS = Refused("add_cross_attention", "cross attention")
EXPERTS = tuple(
    Refused(name, "a mixture of experts", (None, 0, 1))
    for name in ("num_local_experts", "num_experts", "n_routed_experts", "num_experts_per_tok")
)
RANGE = Key("initializer_range", "positive", 0.02, instead=("init_std", "initializer_factor"))
ROPE = Key("rope_theta", "positive", 10_000.0, ("rope_parameters.rope_theta", "rotary_emb_base"))
SCALING = Key(
    "rope_scaling", "given", None, ("rope_parameters.rope_type", "rope_scaling.rope_type", "rope_scaling.type")
)  # fmt: skip


def scaled(v: KeyValues) -> tuple[str, ...]:
    """What is to be said of scaled rotary positions."""
    if v.rope_scaling in (None, "default"):
        return ()
    return (f"the scaling of its rotary positions ({v.rope_scaling}) is not followed: angles are those of the base.",)


def window(context: int, width: int | None, used: bool = True) -> tuple[int, tuple[str, ...]]:
    """The context that is seen whole, and what is to be said of a sliding window."""
    if width is None or not used:
        return context, ()
    if width >= context:
        return context, (f"its sliding window of {width} tokens covers the context, and is left out.",)
    return width, (f"the context is taken as its sliding window, {width} of {context} tokens, which is seen whole.",)


def _gpt2(v: KeyValues) -> Reading:
    heads_fit(v.n_embd, v.n_head, None, ("n_embd", "n_head", ""))
    laws: dict[str, Any] = dict(row_of("gpt2").laws)
    factor = "1" if v.scale_attn_weights else "sqrt(h)"
    factor += "/l" if v.scale_attn_by_inverse_layer_idx else ""
    if factor != "1":
        laws["query"] = times(laws["query"], factor)
    if not v.tie_word_embeddings:
        laws["head"] = FLAT
    sizes = {"depth": v.n_layer, "width": v.n_embd, "heads": v.n_head, "hidden": v.n_inner or 4 * v.n_embd,
             "context": v.n_positions, "vocabulary": v.vocab_size}  # fmt: skip
    more = {"tied": v.tie_word_embeddings}
    shape = Transformer(activation_of(v.activation_function))
    return Reading("gpt2", shape, laws, sizes, v.initializer_range, more, source=row_of("gpt2").source)


GPT2 = Reader(
    "gpt2", "GPT2LMHeadModel of Hugging Face", (
        size("n_layer", NEEDED, "num_hidden_layers", what="number of blocks"),
        size("n_embd", NEEDED, "hidden_size", what="width"),
        size("n_head", NEEDED, "num_attention_heads", what="heads"),
        size("n_inner", None), word("activation_function", "gelu_new"), RANGE,
        size("n_positions", 1024, "max_position_embeddings"), size("vocab_size", 50257),
        truth("tie_word_embeddings", True), truth("scale_attn_weights", True),
        truth("scale_attn_by_inverse_layer_idx", False),
    ), _gpt2, ("gpt2",), ("GPT2",), (CROSS,), (*IGNORED, "layer_norm_epsilon"),
)  # fmt: skip


def sizes_of(v: KeyValues) -> dict[str, Any]:
    """The sizes by the names that most classes have."""
    groups = v.num_key_value_heads or v.num_attention_heads
    if v.head_dim is None:
        names = ("hidden_size", "num_attention_heads", "num_key_value_heads")
        heads_fit(v.hidden_size, v.num_attention_heads, groups, names)
    return {
        "depth": v.num_hidden_layers, "width": v.hidden_size, "heads": v.num_attention_heads, "groups": groups,
        "hidden": v.intermediate_size, "context": v.max_position_embeddings, "vocabulary": v.vocab_size,
    }  # fmt: skip


def kin(
    hidden: int, groups: int | None, head: int | None, context: int, vocabulary: int, act: str = "hidden_act",
    usual: str = "silu", tied: bool = False, slide: int | None = None,
) -> tuple[Key, ...]:  # fmt: skip
    """The keys of Llama and its kin, with what a class takes where they are absent."""
    return (
        size("num_hidden_layers", NEEDED, "n_layers", what="number of blocks"),
        size("hidden_size", NEEDED, what="width"), size("num_attention_heads", NEEDED, what="heads"),
        Key("num_key_value_heads", "size", groups, off=True), Key("head_dim", "size", head, off=True),
        size("intermediate_size", hidden),
        word(act, usual), RANGE, ROPE, SCALING, size("max_position_embeddings", context),
        size("vocab_size", vocabulary), truth("tie_word_embeddings", tied),
        Key("sliding_window", "size", slide, off=True), truth("use_sliding_window", None),
    )  # fmt: skip


def _llama(row: str, place: str = "pre", qk_norm: bool = False, slides: bool = False, note: str = "") -> Any:
    """The builder of Llama and of what differs from it by the place of norms and a norm of queries and keys."""

    def build(v: KeyValues) -> Reading:
        sizes = sizes_of(v)
        used = slides and v.use_sliding_window is not False
        sizes["context"], notes = window(sizes["context"], v.sliding_window, used)
        laws = dict(row_of(row).laws)
        if v.tie_word_embeddings:
            laws.pop("head", None)
        shape = Transformer(
            activation_of(v.hidden_act), True, "rms", place=place, rotary=v.rope_theta, qk_norm=qk_norm,
            head=v.head_dim,
        )  # fmt: skip
        said = (*notes, *scaled(v), *((note,) if note else ()))
        return Reading(row, shape, laws, sizes, v.initializer_range, {"tied": v.tie_word_embeddings}, said,
                     row_of(row).source)  # fmt: skip

    return build


def _reader(name: str, classes: str, keys: tuple[Key, ...], build: Any, refused: tuple[Refused, ...] = ()) -> Reader:
    return Reader(name, f"{classes}ForCausalLM of Hugging Face", keys, build, (name,), (classes,),
                  (CROSS, *EXPERTS, *refused), IGNORED)  # fmt: skip


WHOLE = "its norm of queries and keys is over the whole width; here it is over each head, the same at infinite width."
LLAMA_KIN = (
    _reader("llama", "Llama", kin(11008, None, None, 2048, 32000), _llama("llama")),
    _reader("mistral", "Mistral", kin(14336, 8, None, 131072, 32000, slide=4096), _llama("mistral", slides=True)),
    _reader("qwen2", "Qwen2", kin(22016, 32, None, 32768, 151936, slide=None), _llama("llama", slides=True)),
    _reader("qwen3", "Qwen3", kin(22016, 32, 128, 32768, 151936), _llama("qwen3", qk_norm=True, slides=True)),
    _reader("olmo2", "Olmo2", kin(11008, None, None, 2048, 50304), _llama("olmo2-hf", "behind", True, note=WHOLE)),
)


def _capped(v: KeyValues, width: int) -> tuple[str, ...]:
    """What is to be said of capped scores: by how much a cap changes their deviation, to leading order."""
    cap, notes = v.attn_logit_softcapping, []
    if v.final_logit_softcapping is not None:
        notes.append(f"logits are capped at {v.final_logit_softcapping:g}, which is behind all that is followed here.")
    if cap is not None:
        head = v.head_dim or width / v.num_attention_heads
        share = (float(v.initializer_range) ** 2 * width * (head / v.query_pre_attn_scalar) ** 0.5 / cap) ** 2
        if share > 0.05:
            raise MeanFieldError(
                f"attn_logit_softcapping = {cap:g} takes about {100 * share:.0f} % from the deviation of scores, which "
                "is not modelled; give null for it to leave it out."
            )
        notes.append(f"scores are capped at {cap:g}, left out here: it takes {100 * share:.2g} % from their deviation.")
    return tuple(notes)


def _gemma2(v: KeyValues) -> Reading:
    sizes = sizes_of(v)
    sizes["context"], slid = window(sizes["context"], v.sliding_window)
    laws: dict[str, Any] = dict(row_of("gemma2").laws)
    laws["query"] = times(laws["query"], f"sqrt(h/{v.query_pre_attn_scalar})")
    laws |= {} if v.tie_word_embeddings else {"head": FLAT}
    shape = Transformer(activation_of(v.hidden_activation), True, "rms", place="peri", rotary=v.rope_theta,
                        head=v.head_dim)  # fmt: skip
    notes = (*slid, *scaled(v), *_capped(v, sizes["width"]))
    return Reading("gemma2", shape, laws, sizes, v.initializer_range, {"tied": v.tie_word_embeddings}, notes,
                 row_of("gemma2").source)  # fmt: skip


GEMMA2 = _reader(
    "gemma2", "Gemma2", (
        *kin(9216, 4, 256, 8192, 256000, "hidden_activation", "gelu_pytorch_tanh", True, 4096),
        positive("query_pre_attn_scalar", 256), Key("attn_logit_softcapping", "positive", 50.0, off=True),
        Key("final_logit_softcapping", "positive", 30.0, off=True),
    ), _gemma2,
)  # fmt: skip


def _gpt_neox(v: KeyValues) -> Reading:
    sizes = sizes_of(v)
    laws = {k: law for k, law in row_of("neox-hf").laws.items() if k != "head" or not v.tie_word_embeddings}
    base = v.rope_theta if v.rotary_pct else 0
    shape = Transformer(activation_of(v.hidden_act), parallel=v.use_parallel_residual, rotary=base)
    notes = scaled(v) + turned(v.rotary_pct)
    return Reading("neox-hf", shape, laws, sizes, v.initializer_range, {"tied": v.tie_word_embeddings},
                 notes, row_of("neox-hf").source)  # fmt: skip


def turned(share: float) -> tuple[str, ...]:
    """What is to be said where positions turn a share of a head's neurons alone."""
    if share in (0, 1):
        return ()
    return (f"positions turn {100 * share:g} % of the neurons of a head; here they turn all of them.",)


GPT_NEOX = _reader(
    "gpt_neox", "GPTNeoX", (
        *kin(24576, None, None, 2048, 50432, usual="gelu"), truth("use_parallel_residual", True),
        Key("rotary_pct", "number", 0.25, ("rope_parameters.partial_rotary_factor",)),
    ), _gpt_neox,
)  # fmt: skip
READERS = (GPT2, *LLAMA_KIN, GEMMA2, GPT_NEOX)
