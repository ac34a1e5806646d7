"""What is no configuration, contradicts itself, or changes the law and is not modelled: one sentence each."""

from __future__ import annotations

import argparse
import math
import sys
from types import SimpleNamespace

import pytest

import meanfield as mf
from meanfield.base.answers.results import MeanFieldError
from tests.recipes.audit_configs import BERT, CORE, GEMMA2, LLAMA, MEGATRON, NEOX_20B, SMALL, STORIES, VIT, without


@pytest.mark.parametrize(
    ("config", "match"),
    [
        (without(SMALL, "n_layer"), "has no n_layer .number of blocks., without which GPT2LMHeadModel"),
        (without(SMALL, "n_layer") | {"n_layers": 2}, "n_layers, which .* did you mean 'n_layer'"),
        (SMALL | {"initialiser_range": 0.02}, "did you mean 'initializer_range'"),
        (SMALL | {"n_head": 5}, "n_head must divide n_embd, but 5 heads of width 64"),
        (SMALL | {"hidden_size": 128}, "contradicts itself: n_embd = 64 and hidden_size = 128"),
        (SMALL | {"initializer_range": 0.0}, "initializer_range .* must be > 0, since nothing passes"),
        (SMALL | {"initializer_range": -0.02}, "initializer_range .* must be > 0, but -0.02"),
        (SMALL | {"initializer_range": math.nan}, "initializer_range of the configuration is nan"),
        (SMALL | {"initializer_range": "0.02"}, "must be a number, but the text '0.02'"),
        (SMALL | {"n_layer": True}, "n_layer .* must be a whole number from 1 .* but True"),
        (SMALL | {"n_layer": -2}, "n_layer .* must be a whole number from 1 .* but -2"),
        (SMALL | {"n_layer": 2.5}, "n_layer .* must be a whole number from 1 .* but 2.5"),
        (SMALL | {"n_layer": 10**9}, "n_layer .* must be a whole number from 1 to"),
        (SMALL | {"activation_function": "geluu"}, "activation of the configuration 'geluu': did you mean 'gelu'"),
        (SMALL | {"activation_function": 3}, "activation_function .* must be a word, but 3"),
        (SMALL | {"tie_word_embeddings": "yes"}, "tie_word_embeddings .* must be True or False, but 'yes'"),
        (SMALL | {"add_cross_attention": True}, "add_cross_attention = True: cross attention changes the law"),
        (LLAMA | {"num_local_experts": 8}, "num_local_experts = 8: a mixture of experts changes the law"),
        (LLAMA | {"num_key_value_heads": 5}, "num_key_value_heads must divide num_attention_heads, but 5 groups of 32"),
        (GEMMA2 | {"attn_logit_softcapping": 2.0}, "attn_logit_softcapping = 2 takes about 24 %"),
        (BERT | {"position_embedding_type": "relative_key"}, "'relative_key': a position embedding inside the scores"),
        (VIT | {"patch_size": 15}, "patch_size must divide image_size, but patches of 15 in images of 224"),
        (SMALL | {"model_type": "mamba"}, "model_type 'mamba' is not read here; those that are: gpt2"),
        (SMALL | {"architectures": ["LlamaForCausalLM"]}, "contradicts itself: its model_type is gpt2, and its arch"),
        ({"architectures": ["MambaForCausalLM"]}, "is for 'MambaForCausalLM', which is not read here"),
        ({"n_layer": 2, "n_embd": 64, "n_head": 4}, "could be one of gpt2, nanogpt, .* say which by reader="),
        ({"a": 1}, "says no model_type, and its keys are those of no reader"),
        ({}, "says no model_type, and its keys are those of no reader"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "init_fn": "fan_in"}},
         "init_fn = 'fan_in' is documented by OLMo, but its code raises NotImplementedError"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "init_fn": "kaiming_normal"}},
         "'kaiming_normal' is documented by OLMo"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "alibi": True}}, "alibi = True: a bias of the scores"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "clip_qkv": 8.0}}, "clip_qkv = 8.0: clipping"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "block_type": "parallel"}},
         "block_type of the configuration is 'parallel', which is not modelled; it is one of sequential"),
        ({"model": {"d_model": 64, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "multi_query_attention": True}},
         "multi_query_attention has one head of keys, but n_kv_heads is 2"),
        (CORE | {"block": CORE["block"] | {"feed_forward_moe": {"num_experts": 8}}}, "a mixture of experts changes"),
        (CORE | {"block": CORE["block"] | {"name": "normalized"}}, "block.name .* 'normalized', which is not modelled"),
        (MEGATRON + " --num-experts 8", "num_experts = 8: a mixture of experts"),
        (MEGATRON + " --init-method-xavier-uniform", "init_method_xavier_uniform = True: Xavier's law"),
        (MEGATRON + " --num-layers 12", "arguments contradict themselves: --num_layers"),
        (MEGATRON + " --use-mup", "use_mup needs mup_base_hidden_size"),
        (MEGATRON + " --swiglu --squared-relu", "swiglu and squared_relu are both true"),
        (MEGATRON + " --untie-embeddings-and-output-weights --share-embeddings-and-output-weights",
         "contradicts itself: untie_embeddings.* names of the same"),
        ({"num_layers": 2, "num-layers": 3, "hidden_size": 64, "num_attention_heads": 4, "pos_emb": "rotary"},
         "contradicts itself: num-layers is 3 and, spelt num_layers, 2"),
        ({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "pos_emb": "rotary", "gpt_j_residual": True,
          "init_method": "orthogonal"}, "init_method = 'orthogonal' is not modelled: orthogonal raises ValueError"),
        ({"num_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "pos_emb": "alibi", "gpt_j_residual": True},
         "pos_emb of the configuration is 'alibi', which is not modelled"),
        (STORIES | {"ffn_dim_multiplier": 1.3}, "ffn_dim_multiplier = 1.3: a file of Llama's own code"),
        ('{"n_layer": 2, "n_layer": 3}', "contradicts itself: n_layer is 2 and 3"),
        ('{"n_layer": 2,', "is no JSON .* a configuration is a file or text of JSON"),
        ('{"n_layer": NaN}', "n_layer of the configuration is nan"),
        ('{"a":' * 100_000, "nested too deeply|is no JSON"),
        ('{"a": ' + "[" * 60 + "]" * 60 + "}", "nested deeper than 40 levels"),
        ("no/such/config.json", "there is no such file, and it is no JSON text"),
        (3, "A configuration is a dictionary, the path of a file .* but 3 was given"),
        (None, "A configuration is a dictionary"),
        ([SMALL], "A configuration is a dictionary"),
        (argparse.Namespace, "Namespace is a class; give a configuration"),
        (SimpleNamespace(to_dict=lambda: 3), "to_dict.. of a SimpleNamespace gave 3"),
        (SimpleNamespace(config=SMALL, parameters=[]), "is a model; give its configuration, model.config"),
        ("{" + " " * 4_000_001, "has at most 4000000 characters"),
    ],
)  # fmt: skip
def test_refused(config, match):
    with pytest.raises(MeanFieldError, match=match):
        mf.audit(config)


def test_refused_files(tmp_path):
    def refused(name, text, match):
        file = tmp_path / name
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(MeanFieldError, match=match):
            mf.audit(file)

    refused("a.json", "no: json", "a.json is no JSON")
    refused("b.json", b"\xff\xfe\x00", "is no text file")
    refused("c.json", "[1, 2]", "is a mapping of names to values, but .* was read")
    refused("d.json", " " * 4_000_001, "has 4000001 bytes; a configuration has at most")
    with pytest.raises(MeanFieldError, match="is a folder; give the configuration file in it"):
        mf.audit(tmp_path)
    with pytest.raises(MeanFieldError, match="Unknown reader 'gpt3': did you mean 'gpt2'"):
        mf.audit(SMALL, reader="gpt3")
    pytest.importorskip("yaml")
    refused("a.yaml", "a: b: c", "is no YAML of plain values")
    refused("b.yaml", "model: !!python/object/apply:os.system ['touch executed']", "is no YAML of plain values")
    refused("c.yaml", "n_layers: 2\nn_layers: 3", "n_layers stands there twice")
    refused("d.yaml", "[" * 100_000, "nested too deeply|no YAML")
    refused("e.yaml", "a: &a [*a]", "nested deeper|no YAML")
    bomb = "a0: &a0 [1, 1]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30))
    refused("f.yaml", bomb, "holds more than 200000 values")
    refused("g.yaml", "model: {d_model: 64, n_layers: 2, n_heads: 4, init_std: .nan}", "init_std .* is nan")


def test_yaml_without_its_package(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    file = tmp_path / "a.yml"
    file.write_text(NEOX_20B)
    with pytest.raises(MeanFieldError, match=r"A configuration in YAML needs pyyaml, .* pip install pyyaml"):
        mf.audit(file)


def test_nothing_is_executed(tmp_path, monkeypatch):
    """Text that looks like code is a word that nobody knows."""
    code = "__import__('pathlib').Path('executed').touch()"
    monkeypatch.chdir(tmp_path)
    for key in ("activation_function", "initializer_range"):
        with pytest.raises(MeanFieldError, match=r"activation of the configuration|must be a number, but the text"):
            mf.audit(SMALL | {key: code})
    assert mf.audit(SMALL | {"other": code}).unknown == ("other",) and not list(tmp_path.iterdir())
