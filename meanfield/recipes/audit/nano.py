"""Configurations of nanoGPT, of nanoGPT-mup (muP, CompleteP), and of llama2.c."""

from __future__ import annotations

from typing import Any

from meanfield.recipes.audit.keys import NEEDED, Key, KeyValues, Reader, Reading, Refused, positive, size, truth
from meanfield.recipes.audit.meanings import heads_fit, times
from meanfield.recipes.description.matrix_laws import normal
from meanfield.recipes.rows.catalog import row_of
from meanfield.recipes.rows.language import FLAT
from meanfield.recipes.rows.recipe_shapes import Transformer, each


def _nanogpt(v: KeyValues) -> Reading:
    heads_fit(v.n_embd, v.n_head, None, ("n_embd", "n_head", ""))
    sizes = {"depth": v.n_layer, "width": v.n_embd, "heads": v.n_head, "hidden": 4 * v.n_embd, "context": v.block_size,
             "vocabulary": v.vocab_size}  # fmt: skip
    row, source = "nanogpt", row_of("nanogpt").source
    notes: tuple[str, ...] = ()
    laws: dict[str, Any] = dict(row_of("nanogpt").laws)
    if v.mup_enabled or v.depth_alpha_enabled:
        laws, notes = _scaled(v), ("the output multiplier is missing when it generates.",) if v.mup_enabled else ()
        row = "completep" if v.depth_alpha_enabled else "nanogpt-mup"
        source = "EleutherAI/nanoGPT-mup model.py 63-78, 113-118, 128-134, 158-177, 206-225"
    return Reading(row, Transformer("gelu"), laws, sizes, v.init_std, {"tied": True}, notes, source)


def _scaled(v: KeyValues) -> dict[str, Any]:
    """The laws of muP at the width multiplier m, and of CompleteP, whose branches are multiplied by m_L^−α."""
    by_width = f"/sqrt({v.mup_width_multiplier!r})" if v.mup_enabled else ""
    depth = "" if v.depth_alpha_enabled else "/sqrt(2*L)"
    inner, output = normal(f"s{by_width}"), normal(f"s{depth}{by_width}")
    if v.depth_alpha_enabled:
        output = times(output, repr(float(v.depth_multiplier) ** -float(v.depth_alpha_exp)))
    laws = each(inner, output, token=FLAT, position=FLAT)
    if v.mup_enabled:
        laws["head"] = times(FLAT, repr(v.mup_output_alpha / v.mup_width_multiplier))
        if not v.mup_disable_attention_scaling:
            laws["query"] = times(inner, "1/sqrt(h)")
        if v.mup_input_alpha != 1:
            laws |= {kind: times(FLAT, repr(v.mup_input_alpha)) for kind in ("token", "position")}
    return laws


_RUN = ("dropout", "bias", "dataset", "batch_size", "learning_rate", "max_iters", "weight_decay", "beta*", "*_iters",
        "device", "dtype", "compile", "out_dir", "wandb*", "eval*", "init_from", "always_save*", "log*", "grad*",
        "flash", "decay_lr", "min_lr", "backend", "seed", "mup_disable_hidden*", "mup_enable_coord*", "adam_*", "csv*",
        "vocab_source", "norm_eps", "*warmup*", "optimizer*")  # fmt: skip
NANOGPT = Reader(
    "nanogpt", "GPT of nanoGPT (or nanoGPT-mup)", (
        size("n_layer", NEEDED, what="number of blocks"), size("n_embd", NEEDED, what="width"),
        size("n_head", NEEDED, what="heads"), size("block_size", 1024), size("vocab_size", 50304),
        positive("init_std", 0.02), truth("mup_enabled", False), truth("mup_disable_attention_scaling", False),
        positive("mup_width_multiplier", 1.0), positive("mup_input_alpha", 1.0), positive("mup_output_alpha", 1.0),
        truth("depth_alpha_enabled", False), positive("depth_multiplier", 1.0),
        Key("depth_alpha_exp", "number", 1.0),
    ), _nanogpt, (), ("GPTConfig",), (Refused("num_exp", "a mixture of experts", (None, 0, 1)),), _RUN,
)  # fmt: skip


def _llama2c(v: KeyValues) -> Reading:
    heads_fit(v.dim, v.n_heads, v.n_kv_heads, ("dim", "n_heads", "n_kv_heads"))
    hidden = v.hidden_dim or -(-int(2 * 4 * v.dim / 3) // v.multiple_of) * v.multiple_of
    sizes = {"depth": v.n_layers, "width": v.dim, "heads": v.n_heads, "groups": v.n_kv_heads or v.n_heads,
             "hidden": hidden, "context": v.max_seq_len, "vocabulary": v.vocab_size}  # fmt: skip
    row = row_of("llama2.c")
    notes = ("w3, which makes one factor of the gate, is divided by sqrt(2 L); w2, which ends the branch, is not.",)
    shape = Transformer("silu", True, "rms", rotary=True)
    return Reading("llama2.c", shape, row.laws, sizes, 0.02, {"tied": True}, notes, row.source)


LLAMA2C = Reader(
    "llama2.c", "Transformer of llama2.c", (
        size("n_layers", NEEDED, what="number of blocks"), size("dim", NEEDED, what="width"),
        size("n_heads", NEEDED, what="heads"), size("n_kv_heads", None), size("hidden_dim", None),
        size("multiple_of", 256), size("max_seq_len", 2048), size("vocab_size", 32000),
    ), _llama2c, (), ("ModelArgs",),
    (Refused("ffn_dim_multiplier", "a file of Llama's own code, which llama2.c does not read,"),
     Refused("moe", "a mixture of experts")), _RUN,
)  # fmt: skip
READERS = (NANOGPT, LLAMA2C)
