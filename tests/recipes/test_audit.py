"""Configurations as those files look, read as recipes: every deviation by the tests' own arithmetic, the block by its
parts."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import json
import math
from types import SimpleNamespace

import pytest

import meanfield as mf
from meanfield.recipes.audit import recognition
from meanfield.recipes.audit.keys import Key
from tests.recipes.audit_configs import (
    BERT,
    CORE,
    CUT3,
    GEMMA2,
    GPT2,
    LLAMA,
    MEGATRON,
    MISTRAL,
    MUP,
    NANO,
    NEOX_20B,
    NEOX_HF,
    OLMO2_HF,
    OLMO_1,
    OLMO_2,
    QWEN3,
    SMALL,
    STORIES,
    T5,
    VIT,
    assert_row,
    flat,
    parts,
    plain_block,
    without,
)


@pytest.mark.parametrize(
    ("config", "row", "block"),
    [
        (GPT2, without(flat(0.02, output=0.02 / math.sqrt(24), down=0.02 / math.sqrt(24), position=0.02), "gate"),
         plain_block("LayerNorm", "Attention heads=12 groups=None head=None causal",
                     ["Dense ×4", "Nonlinearity gelu_tanh"])),
        (LLAMA, flat(0.02, head=0.02),
         plain_block("RMSNorm", "Attention heads=32 groups=32 head=None causal rotary=10000", ["Gate silu ×2.688"])),
        (MISTRAL, flat(0.02, head=0.02),
         plain_block("RMSNorm", "Attention heads=32 groups=8 head=None causal rotary=10000", ["Gate silu ×3.5"])),
        (QWEN3, flat(0.02),
         plain_block("RMSNorm", "Attention heads=16 groups=8 head=128 causal rotary=1e+06 qk_norm", ["Gate silu ×3"])),
        (OLMO2_HF, flat(0.02, head=0.02),
         ["skip", "Attention heads=32 groups=32 head=None causal rotary=500000 qk_norm", "Dense", "RMSNorm", "skip",
          "Gate silu ×2.688", "Dense", "RMSNorm"]),
        (GEMMA2, flat(0.02, token=0.02 * math.sqrt(2304), query=0.02 * math.sqrt(256 / 224)),
         ["skip", "RMSNorm", "Attention heads=8 groups=4 head=256 causal rotary=10000", "Dense", "RMSNorm",
          "skip", "RMSNorm", "Gate gelu_tanh ×4", "Dense", "RMSNorm"]),
        (NEOX_HF, without(flat(0.02, head=0.02), "gate"),
         ["skip", "LayerNorm", "Attention heads=12 groups=12 head=None causal rotary=10000", "Dense",
          "beside", "skip", "LayerNorm", "Dense ×4", "Nonlinearity gelu", "Dense"]),
        (BERT, without(flat(0.02, position=0.02, **{"token bias": 0.02}), "gate"),
         ["skip", "Attention heads=12 groups=None head=None", "Dense", "LayerNorm",
          "skip", "Dense ×4", "Nonlinearity gelu", "Dense", "LayerNorm"]),
        (VIT, without(flat(0.02, head=0.02, token=0.02 * 16 * math.sqrt(3), position=0.02), "gate"),
         plain_block("LayerNorm", "Attention heads=12 groups=None head=None", ["Dense ×4", "Nonlinearity gelu"])),
        (T5, without(flat(512**-0.5, token=1.0, down=2048**-0.5, head=512**-0.5), "gate"),
         plain_block("RMSNorm", "Attention heads=8 groups=None head=64", ["Dense ×4", "Nonlinearity relu"])),
        (CORE, flat(0.02 * CUT3, head=0.02 * CUT3),
         ["skip", "Attention heads=32 groups=32 head=None causal rotary=500000 qk_norm", "Dense", "RMSNorm", "skip",
          "Gate silu ×2.688", "Dense", "RMSNorm"]),
        (MEGATRON, without(flat(0.02, output=0.02 / math.sqrt(48), down=0.02 / math.sqrt(48), position=0.02), "gate"),
         plain_block("LayerNorm", "Attention heads=16 groups=16 head=None causal", ["Dense ×4", "Nonlinearity gelu"])),
        (NANO, without(flat(0.02, output=0.02 / math.sqrt(24), down=0.02 / math.sqrt(24), position=0.02), "gate"),
         plain_block("LayerNorm", "Attention heads=12 groups=None head=None causal",
                     ["Dense ×4", "Nonlinearity gelu"])),
        (MUP, without(flat(0.01, query=0.01 / 8, output=0.01 / math.sqrt(24), down=0.01 / math.sqrt(24), token=0.06,
                           position=0.06, head=0.005), "gate"), None),
        (MUP | {"depth_alpha_enabled": True, "depth_multiplier": 6.0, "depth_alpha_exp": 0.5},
         without(flat(0.01, query=0.01 / 8, output=0.01 * 6**-0.5, down=0.01 * 6**-0.5, token=0.06, position=0.06,
                      head=0.005), "gate"), None),
        (STORIES, flat(0.02, output=0.02 / math.sqrt(12), up=0.02 / math.sqrt(12)),
         plain_block("RMSNorm", "Attention heads=6 groups=6 head=None causal rotary=10000",
                     ["Gate silu ×2.667"])),
    ],
    ids=["gpt2", "llama", "mistral", "qwen3", "olmo2-hf", "gemma2", "gpt-neox-hf", "bert", "vit", "t5", "olmo-core",
         "megatron", "nanogpt", "nanogpt-mup", "completep", "llama2.c"],
)  # fmt: skip
def test_a_configuration_is_the_row_of_its_recipe(config, row, block):
    assert_row(config, row, block)


def test_yaml_of_olmo_and_neox(tmp_path):
    """As files: 1e-6 and 2e-2 without a point are numbers, commas may end lists, hyphens are underscores."""
    pytest.importorskip("yaml")
    d, f = 4096**-0.5 * CUT3, 11008**-0.5 * CUT3
    file = tmp_path / "OLMo-7B.yaml"
    file.write_text(OLMO_1)
    low = {1: 1 / math.sqrt(2), 4: 1 / math.sqrt(8)}
    for block, factor in low.items():
        row = flat(d, output=d * factor, down=f * factor, head=d)
        layers = plain_block("LayerNorm", "Attention heads=32 groups=32 head=None causal rotary=10000",
                             ["Gate silu ×2.688"])  # fmt: skip
        assert_row(file, row, layers, block)
    file.write_text(OLMO_2)
    layers = ["skip", "Attention heads=32 groups=32 head=None causal rotary=500000 qk_norm", "Dense", "RMSNorm",
              "skip", "Gate silu ×2.688", "Dense", "RMSNorm"]  # fmt: skip
    assert_row(str(file), flat(0.02 * CUT3, head=0.02 * CUT3), layers)
    neox = tmp_path / "20B.yml"
    neox.write_text(NEOX_20B)
    small, wang = math.sqrt(2 / (5 * 6144)), 2 / (44 * math.sqrt(6144))
    layers = ["skip", "LayerNorm", "Attention heads=64 groups=64 head=None causal rotary=10000", "Dense", "beside",
              "skip", "LayerNorm", "Dense ×4", "Nonlinearity gelu", "Dense"]  # fmt: skip
    assert_row(neox, without(flat(small, output=wang, down=wang, head=small), "gate"), layers)
    found = mf.audit(neox)
    assert found.reader == "neox" and found.recipe.context == 2048 and not found.unknown
    assert {"optimizer", "fp16", "vocab_file"} <= set(found.ignored)


@pytest.mark.parametrize(
    ("more", "row"),
    [
        ({"init_method": "llama"}, {"output": 0.02 / 8, "up": 0.02 / 8, "down": 0.02 / 8, "token": 1 / CUT3}),
        ({"init_method": "llama_depth"},
         dict.fromkeys(("output", "up", "down"), 0.02 / math.sqrt(2)) | {"token": 1 / CUT3}),
        ({"init_method": "fan_in"},
         dict.fromkeys(("query", "key", "value", "output", "up", "gate"), 1 / 64) | {"down": 11008**-0.5,
                                                                                    "token": 1 / CUT3}),
        ({"init_method": "normalized"},
         dict.fromkeys(("query", "key", "value", "up", "gate"), 1 / 64) | {"output": 1 / 512, "down": 1 / 512,
                                                                          "token": 1 / 64 / CUT3}),
        ({"embedding_init_std": 0.5, "embed_scale": 4.0, "init_std": 0.01},
         flat(0.01, token=2.0, head=0.01)),
    ],
    ids=["llama", "llama_depth", "fan_in", "normalized", "scales"],
)  # fmt: skip
def test_methods_of_olmo_core(more, row):
    """A truncated law at three deviations has .9866 of its parameter; those of the embeddings are not truncated."""
    head = 0.01 if "init_std" in more else 1 / 64
    assert_row(CORE | more, {k: v * CUT3 for k, v in (flat(0.02, head=head) | row).items()})


@pytest.mark.parametrize(
    ("method", "output", "row"),
    [
        ("xavier_uniform", "xavier_normal",
         {"query": (2 / (4 * 512)) ** 0.5, "key": (2 / 2048) ** 0.5, "value": (2 / 2048) ** 0.5,
          "output": 512**-0.5, "up": (2 / 2560) ** 0.5, "down": (2 / 2560) ** 0.5, "token": (2 / 1512) ** 0.5,
          "position": (2 / 1512) ** 0.5}),
        ("normal", "single_residual_scaled_normal",
         without(flat(0.03, output=0.03 / 2, down=0.03 / 2, position=0.03), "gate")),
        ("normal", "scaled_normal",
         without(flat(0.03, output=0.03 / 8**0.5, down=0.03 / 8**0.5, position=0.03), "gate")),
    ],
)  # fmt: skip
def test_initializers_of_neox(method, output, row):
    config = {"num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "init_method": method,
              "output_layer_init_method": output, "init_method_std": 0.03, "padded_vocab_size": 1000}  # fmt: skip
    assert_row(config, row, reader="neox")


def test_options_of_megatron():
    arguments = MEGATRON + " --swiglu --normalization RMSNorm --position-embedding-type rope --rotary-base 500000 " + (
        "--untie-embeddings-and-output-weights --init-method-std 0.01 --num-query-groups 4 --group-query-attention "
        "--apply-query-key-layer-scaling --use-mup --mup-base-hidden-size 256 --mup-base-head-dim 32"
    )  # fmt: skip
    s = 0.01 / 2  # m = 4
    low = s / math.sqrt(48)
    row = flat(s, output=low, down=low, token=0.01, head=0.0025, query=s * math.sqrt(32) / math.sqrt(64))
    hidden = int(4 * 1024 * 2 / 3 / 64) * 64
    assert hidden == 2688
    layers = plain_block("RMSNorm", "Attention heads=16 groups=4 head=None causal rotary=500000", ["Gate silu ×2.625"])
    assert_row(arguments, row, layers)
    space = argparse.Namespace(num_layers=2, hidden_size=64, num_attention_heads=4, squared_relu=True, kv_channels=16,
                               softmax_scale=0.25, num_query_groups=None, init_method=print, params_dtype="bf16",
                               position_embedding_type="none", embedding_init_method_std=1.0)  # fmt: skip
    row = without(flat(0.02, output=0.01, down=0.01, token=1.0), "gate")
    assert_row(space, row, None)
    assert "Nonlinearity relu(z)**2" in parts(mf.audit(space).recipe.architecture.block)


def test_attention_scores_by_layer():
    found = mf.audit(GPT2 | {"scale_attn_by_inverse_layer_idx": True, "tie_word_embeddings": False}).recipe
    assert math.isclose(found.deviation("query", 3), 0.02 / 3) and not found.tied and "head" in found.laws
    assert math.isclose(mf.audit(GPT2 | {"scale_attn_weights": False}).recipe.deviation("query"), 0.02 * 8)


def test_what_was_read_assumed_and_ignored():
    found = mf.audit({**GPT2, "n_layer": 3, "my_key": 1, "n_inner": None})
    assert found.reader == "gpt2" and "GPT2LMHeadModel" in found.assumed and "gpt2" in found.assumed
    assert found.read["n_layer"] == 3 and found.read["model_type"] == "gpt2"
    assert found.defaults["tie_word_embeddings"] is True and "n_layer" not in found.defaults
    assert {"attn_pdrop", "task_specific_params", "n_ctx"} <= set(found.ignored) and found.unknown == ("my_key",)
    text = str(found)
    assert all(len(line) < 80 for line in text.splitlines()) and "my_key" in text and "assumed" in text
    assert json.loads(found.to_json())["data"]["read"]["n_embd"] == 768
    assert "3 blocks" in repr(found)


def test_notes_say_what_is_left_out():
    def notes(config):
        return " ".join(mf.audit(config).recipe.notes)

    assert "sliding window, 4096 of 32768" in notes(MISTRAL) and mf.audit(MISTRAL).recipe.context == 4096
    assert mf.audit(MISTRAL | {"sliding_window": None}).recipe.context == 32768
    assert "covers the context" in notes(MISTRAL | {"max_position_embeddings": 2048})
    assert notes(QWEN3) == ""
    share = (0.0004 * 2304 * math.sqrt(256 / 224) / 50) ** 2 * 100
    assert f"takes {share:.2g} %" in notes(GEMMA2) and "logits are capped at 30" in notes(GEMMA2)
    assert "capped" not in notes(GEMMA2 | {"attn_logit_softcapping": None, "final_logit_softcapping": None})
    assert "takes 0.044 %" in notes(GEMMA2 | {"head_dim": None})  # (.0004·2304·√(288/224)/50)², 288 = 2304/8
    assert "llama3" in notes(LLAMA | {"rope_scaling": {"rope_type": "llama3", "factor": 8.0}})
    assert "25 %" in notes(NEOX_HF) and "encoder" in notes(T5)


def test_sources_agree(tmp_path):
    """A dictionary, JSON text, a file, an object with to_dict, a dataclass and a namespace are one configuration."""

    class Kind(enum.Enum):
        LLAMA = "llama"

    @dataclasses.dataclass
    class ModelArgs:
        dim: int = 288
        n_layers: int = 6
        n_heads: int = 6
        multiple_of: int = 32

    (tmp_path / "config.json").write_text(json.dumps(LLAMA))
    first = mf.audit(LLAMA).data()
    ways = (json.dumps(LLAMA), tmp_path / "config.json", str(tmp_path / "config.json"),
            SimpleNamespace(**LLAMA | {"model_type": Kind.LLAMA}), SimpleNamespace(to_dict=lambda: LLAMA))  # fmt: skip
    assert all(mf.audit(config).data() == first for config in ways)
    assert mf.audit(ModelArgs()).reader == "llama2.c"
    (tmp_path / "arguments.txt").write_text(MEGATRON)
    assert mf.audit(tmp_path / "arguments.txt").data() == mf.audit(MEGATRON).data()


@pytest.mark.slow_with("config15")
@pytest.mark.parametrize(
    "config",
    [GPT2, LLAMA, MISTRAL, QWEN3, OLMO2_HF, GEMMA2 | {"query_pre_attn_scalar": 256}, NEOX_HF, BERT, VIT, T5, CORE,
     MEGATRON, NANO, STORIES, CORE | {"init_method": "llama"}, CORE | {"init_method": "llama_depth"},
     CORE | {"init_method": "fan_in"}],
)  # fmt: skip
def test_the_recipe_that_is_named_has_the_same_laws(config):
    """By its name and at the same sizes; a head that is tied here need not be there."""
    found = mf.audit(config).recipe
    sizes = {"depth": found.depth, "width": found.width, "context": found.context, "heads": found.heads}
    hidden = round(float(found.sizes()["f"]))
    named = mf.recipe(found.name.removeprefix("config: "), **sizes, hidden=hidden)
    assert set(found.laws) ^ set(named.laws) <= {"head"}
    for kind in set(found.laws) & set(named.laws):
        for block in (1, 5):
            assert math.isclose(found.deviation(kind, block), named.deviation(kind, block)), kind


def test_report_and_compare():
    found = mf.audit(GPT2 | {"n_layer": 2, "n_embd": 64, "n_head": 4, "n_positions": 16})
    report = found.report(tokens=8, draws=2)
    assert report.recipe is found.recipe and len(report.followed.K) == 3
    other = mf.audit(NANO | {"n_layer": 2, "n_embd": 64, "n_head": 4, "block_size": 16})
    names = [one.recipe.name for one in found.compare("gpt2-released", other, tokens=8, draws=2)]
    assert names == ["config: gpt2", "gpt2-released", "config: nanogpt"]


def test_control_wrong_rows_do_not_pass():
    """Controls: L for l, a variance for a deviation, truncation ignored, a matrix too many."""
    right = without(flat(0.02, output=0.02 / math.sqrt(24), down=0.02 / math.sqrt(24), position=0.02), "gate")
    for kind, wrong in (("output", 0.02 / math.sqrt(2)), ("down", 0.02), ("query", 0.0004), ("token", 0.02 * CUT3)):
        with pytest.raises(AssertionError, match=f"{kind}: "):
            assert_row(GPT2, right | {kind: wrong})
    with pytest.raises(AssertionError, match="'head'} differ"):
        assert_row(GPT2, right | {"head": 0.02})


@pytest.mark.parametrize(
    ("reader", "name", "wrong", "config"),
    [
        ("gpt2", "initializer_range", 0.2, GPT2), ("gpt2", "tie_word_embeddings", False, GPT2),
        ("megatron", "init_method_std", 0.01, MEGATRON), ("nanogpt", "init_std", 0.04, NANO),
        ("llama2.c", "multiple_of", 1000, STORIES), ("olmo-core", "init_std", 0.1, CORE),
    ],
)  # fmt: skip
def test_control_a_wrong_default_shows(monkeypatch, reader, name, wrong, config):
    """Control: a default that is planted wrong changes what an absent key means."""
    config = {k: v for k, v in config.items() if k != name} if isinstance(config, dict) else config
    before = mf.audit(config).recipe.data()
    one = recognition.READERS[reader]

    def planted(key: Key) -> Key:
        return dataclasses.replace(key, default=wrong) if key.name == name else key

    monkeypatch.setitem(recognition.READERS, reader, dataclasses.replace(one, keys=tuple(map(planted, one.keys))))
    after = mf.audit(config).recipe.data()
    assert before["laws"] != after["laws"] or before["record"] != after["record"]


@pytest.mark.slow
def test_on_the_command_line(tmp_path, capsys):
    from meanfield.cli.app import main

    def run(*arguments):
        with pytest.raises(SystemExit, match=r"[02]") as end:
            main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        return end.value.code, out, err

    file = tmp_path / "config.json"
    file.write_text(json.dumps(SMALL | {"n_positions": 16}))
    code, out, _ = run("audit", file, "--tokens", 8, "--draws", 2, "--compare", "gpt2-released", "--compare", "bert")
    assert code == 0 and "assumed: GPT2LMHeadModel" in out and "helps most" in out and "gpt2-released" in out
    assert all(len(line) <= 80 for line in out.splitlines())
    code, out, _ = run("audit", file, "--tokens", 8, "--draws", 2, "--json")
    held = json.loads(out)
    assert held["command"] == "audit" and held["results"]["audit"]["reader"] == "gpt2"
    assert held["results"]["report"]["recipe"]["depth"] == 2
    code, out, _ = run("audit", '{"model_type": "gpt2", "n_layer": 2, "n_embd": 32, "n_head": 2}', "--tokens", 4)
    assert code == 0 and "2 blocks, width 32, 2 heads" in out, "the configuration itself, as in Python"
    code, out, err = run("audit", tmp_path / "none.json")
    assert code == 2 and "there is no such file" in err and out == ""
    code, _, err = run("audit", file, "--compare", "gpt3")
    assert code == 2 and "Unknown recipe 'gpt3': did you mean 'gpt2'" in err
    code, out, _ = run("recipe", "--list")
    assert code == 0 and {"gpt2", "llama", "bert"} <= set(out.split())
    code, out, _ = run("recipe", "gpt2", "--depth", 2, "--width", 64, "--context", 16, "--tokens", 8, "--draws", 2)
    assert code == 0 and out.startswith("gpt2: 2 blocks, width 64")
    code, _, err = run("recipe")
    assert code == 2 and "meanfield recipe --list names them" in err
