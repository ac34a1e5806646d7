"""Configurations as they look in the wild, a row of deviations and a block's parts by means of this file alone."""

from __future__ import annotations

import math

import meanfield as mf

CUT3 = math.sqrt(1 - 6 * math.exp(-4.5) / math.sqrt(2 * math.pi) / math.erf(3 / math.sqrt(2)))  # .986578…


def flat(s, **more):
    """The same deviation for every matrix of a gated block, and what differs from it."""
    return dict.fromkeys(("query", "key", "value", "output", "up", "gate", "down", "token"), s) | more


def without(row, *kinds):
    return {kind: value for kind, value in row.items() if kind not in kinds}


def parts(block):
    """The record's parts in order, as words: what this file knows of a block without the library's own walk."""
    kind = type(block).__name__
    if kind == "Sequential":
        return [word for one in block.blocks for word in parts(one)]
    if kind == "Residual":
        inner = [] if block.shortcut is None else ["beside", *parts(block.shortcut)]
        return ["skip", *parts(block.branch), *inner]
    if kind == "Attention":
        marks = [f"heads={block.heads}", f"groups={block.groups}", f"head={block.key_dim}"]
        marks += ["causal"] * block.causal + [f"rotary={float(block.rotary):g}"] * bool(block.rotary)
        return [" ".join(["Attention", *marks, *["qk_norm"] * block.qk_norm])]
    if kind in ("Gate", "Nonlinearity"):
        wide = f" ×{float(block.value.expand):.4g}" if kind == "Gate" else ""
        return [f"{kind} {block.activation}{wide}"]
    if kind == "Dense":
        return ["Dense" if block.expand == 1 else f"Dense ×{float(block.expand):.4g}"]
    return [f"{kind} {block.factor.value}/k^{block.factor.beta}/2" if kind == "Scale" else kind]


def assert_row(config, row, block=None, block_number=1, **of):
    """The audit's recipe has exactly these kinds of matrices with these deviations in a block, and these parts."""
    found = mf.audit(config, **of).recipe
    assert set(found.laws) == set(row), f"{set(found.laws) ^ set(row)} differ"
    for kind, value in row.items():
        held = found.deviation(kind, block_number)
        assert math.isclose(held, value, rel_tol=1e-9), f"{kind}: {held} for {value}"
    if block is not None:
        assert parts(found.architecture.block) == block


GPT2 = {
    "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
    "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024,
    "resid_pdrop": 0.1, "summary_activation": None, "summary_first_dropout": 0.1, "summary_type": "cls_index",
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}}, "vocab_size": 50257,
}  # fmt: skip
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "attention_bias": False, "bos_token_id": 1, "eos_token_id": 2,
    "hidden_act": "silu", "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 11008,
    "max_position_embeddings": 4096, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
    "num_key_value_heads": 32, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "use_cache": True,
    "tie_word_embeddings": False, "torch_dtype": "float16", "transformers_version": "4.31.0", "vocab_size": 32000,
}  # fmt: skip
MISTRAL = LLAMA | {
    "architectures": ["MistralForCausalLM"], "model_type": "mistral", "intermediate_size": 14336,
    "num_key_value_heads": 8, "max_position_embeddings": 32768, "sliding_window": 4096,
}  # fmt: skip
QWEN3 = without(LLAMA, "pretraining_tp") | {
    "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "head_dim": 128,
    "num_attention_heads": 16, "num_key_value_heads": 8, "intermediate_size": 3072, "num_hidden_layers": 28,
    "tie_word_embeddings": True, "rope_theta": 1000000, "use_sliding_window": False, "sliding_window": None,
    "max_window_layers": 28, "attention_dropout": 0.0,
}  # fmt: skip
OLMO2_HF = LLAMA | {"architectures": ["Olmo2ForCausalLM"], "model_type": "olmo2", "rope_theta": 500000}
GEMMA2 = {
    "architectures": ["Gemma2ForCausalLM"], "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
    "cache_implementation": "hybrid", "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 2304,
    "hidden_activation": "gelu_pytorch_tanh", "initializer_range": 0.02, "intermediate_size": 9216,
    "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 8, "num_hidden_layers": 26,
    "num_key_value_heads": 4, "query_pre_attn_scalar": 224, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
    "sliding_window": 4096, "vocab_size": 256000,
}  # fmt: skip
NEOX_HF = {
    "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 768, "initializer_range": 0.02,
    "intermediate_size": 3072, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048, "model_type": "gpt_neox",
    "num_attention_heads": 12, "num_hidden_layers": 12, "rotary_emb_base": 10000, "rotary_pct": 0.25,
    "tie_word_embeddings": False, "use_cache": True, "use_parallel_residual": True, "vocab_size": 50304,
}  # fmt: skip
BERT = {
    "architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "initializer_range": 0.02,
    "intermediate_size": 3072, "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert",
    "num_attention_heads": 12, "num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute",
    "type_vocab_size": 2, "use_cache": True, "vocab_size": 30522,
}  # fmt: skip
VIT = {
    "architectures": ["ViTForImageClassification"], "attention_probs_dropout_prob": 0.0, "encoder_stride": 16,
    "hidden_act": "gelu", "hidden_dropout_prob": 0.0, "hidden_size": 768, "id2label": {"0": "tench"},
    "image_size": 224, "initializer_range": 0.02, "intermediate_size": 3072, "layer_norm_eps": 1e-12,
    "model_type": "vit", "num_attention_heads": 12, "num_channels": 3, "num_hidden_layers": 12, "patch_size": 16,
    "qkv_bias": True,
}  # fmt: skip
T5 = {
    "architectures": ["T5ForConditionalGeneration"], "d_ff": 2048, "d_kv": 64, "d_model": 512, "dropout_rate": 0.1,
    "decoder_start_token_id": 0, "initializer_factor": 1.0, "is_encoder_decoder": True, "layer_norm_epsilon": 1e-06,
    "model_type": "t5", "n_positions": 512, "num_heads": 8, "num_layers": 6, "output_past": True,
    "relative_attention_num_buckets": 32, "vocab_size": 32128,
}  # fmt: skip
OLMO_1 = """
run_name: OLMo-7B
seed: 6198
model:
  d_model: 4096
  n_heads: 32
  n_layers: 32
  mlp_hidden_size: 22016
  weight_tying: false
  alibi: false
  rope: true
  flash_attention: true
  attention_dropout: 0.0
  include_bias: false
  block_type: sequential
  layer_norm_type: default
  layer_norm_with_affine: false
  bias_for_layer_norm: false
  attention_layer_norm_with_affine: false
  activation_type: swiglu
  max_sequence_length: 2048
  vocab_size: 50280
  embedding_size: 50304
  eos_token_id: 50279
  init_device: meta
  init_fn: mitchell
optimizer:
  name: adamw
  learning_rate: 3.0e-4
  eps: 1e-8
device_eval_batch_size: ${device_train_microbatch_size}
"""
OLMO_2 = (
    OLMO_1.replace("init_fn: mitchell", "init_fn: normal\n  init_std: 2e-2\n  init_cutoff_factor: 3")
    .replace("layer_norm_type: default", "layer_norm_type: rms\n  layer_norm_eps: 1e-6\n  norm_after: true")
    .replace("  rope: true", "  rope: true\n  rope_theta: 500000\n  attention_layer_norm: true")
)
CORE = {
    "_CLASS_": "olmo_core.nn.transformer.config.TransformerConfig", "d_model": 4096, "vocab_size": 100352,
    "n_layers": 32, "dtype": "float32", "init_method": "normal", "init_seed": 0, "name": "default",
    "block": {
        "name": "reordered_norm",
        "attention": {
            "n_heads": 32, "n_kv_heads": None, "bias": False, "name": "default", "use_flash": True, "clip_qkv": None,
            "rope": {"name": "default", "theta": 500_000}, "qk_norm": {"name": "rms", "eps": 1e-6, "bias": False},
        },
        "feed_forward": {"hidden_size": 11008, "bias": False, "name": "default"},
        "layer_norm": {"name": "rms", "eps": 1e-6, "bias": False},
    },
    "lm_head": {"name": "default", "layer_norm": {"name": "rms"}, "bias": False},
}  # fmt: skip
MEGATRON = """
    --num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024 \\
    --max-position-embeddings 1024 --micro-batch-size 4 --lr 0.00015 --train-iters 500000 --lr-decay-style cosine \\
    --vocab-file vocab.json --merge-file merges.txt --split 949,50,1 --fp16 --weight-decay 1e-2 --clip-grad 1.0
"""
NEOX_20B = """
# the file of GPT-NeoX-20B
{
  "vocab-file": "./20B_checkpoints/20B_tokenizer.json",
  "pipe-parallel-size": 4,
  "num-layers": 44,
  "hidden-size": 6144,
  "num-attention-heads": 64,
  "seq-length": 2048,
  "max-position-embeddings": 2048,
  "norm": "layernorm",
  "pos-emb": "rotary",
  "rotary_pct": 0.25,
  "no-weight-tying": true,
  "gpt_j_residual": true,
  "output_layer_parallelism": "column",
  "scaled-upper-triang-masked-softmax-fusion": true,
  "init_method": "small_init",
  "output_layer_init_method": "wang_init",
  "optimizer": {"type": "Adam", "params": {"lr": 0.97e-4, "betas": [0.9, 0.95], "eps": 1.0e-8,}},
  "zero_optimization": {"stage": 1, "allgather_partitions": True,},
  "attention-dropout": 0,
  "fp16": {"fp16": true, "loss_scale": 0,},
}
"""
NANO = {"n_layer": 12, "n_head": 12, "n_embd": 768, "block_size": 1024, "bias": False, "vocab_size": 50304,
        "dropout": 0.0}  # fmt: skip
MUP = NANO | {"mup_enabled": True, "mup_width_multiplier": 4.0, "init_std": 0.02, "mup_input_alpha": 3.0,
              "mup_output_alpha": 1.0, "mup_disable_attention_scaling": False}  # fmt: skip
STORIES = {"dim": 288, "n_layers": 6, "n_heads": 6, "n_kv_heads": 6, "vocab_size": 32000, "multiple_of": 32,
           "max_seq_len": 256, "dropout": 0.0}  # fmt: skip


def plain_block(norm, attention, inner):
    return ["skip", norm, attention, "Dense", "skip", norm, *inner, "Dense"]
SMALL = {"model_type": "gpt2", "n_layer": 2, "n_embd": 64, "n_head": 4}
