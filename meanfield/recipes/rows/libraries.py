"""What frameworks draw unless they are told otherwise, and parametrizations by width and depth (specification table A3,
rows 50 to 62).

Left out: DKS and TAT, which are targets and no numbers; modded-nanogpt's later records, which multiply skips and share
embeddings between layers.
"""

from __future__ import annotations

from dataclasses import replace

from meanfield.recipes.description.matrix_laws import Law, normal, orthogonal, truncated, uniform, xavier_uniform
from meanfield.recipes.rows.recipe_row import RecipeRow
from meanfield.recipes.rows.recipe_shapes import DenseStack, Transformer, each

FLAT, SCALED, NARROW = "s", "s/sqrt(2*L)", "s/sqrt(d/256)"
GPT2 = {"depth": 12, "width": 768, "heads": 12, "hidden": 3072, "context": 1024, "vocabulary": 50257}
NANOGPT = GPT2 | {"vocabulary": 50304}
SMALL = {"depth": 6, "width": 512, "heads": 8, "hidden": 2048, "context": 512, "vocabulary": 32000}
PLAIN = {"depth": 8, "width": 512, "context": 64, "vocabulary": 10}
LINEAR = uniform("1/sqrt(n)")
LECUN = truncated("1/sqrt(n)", corrected=True)
CUT = truncated("1/sqrt(n)")
DEPTH = truncated("sqrt(2/L)/sqrt(n)", corrected=True)
MUP = Transformer(scale="1/d")
BY_256 = "widths are measured by a base of 256."
INPUTS = uniform("1/sqrt(n)", multiplier="sqrt(n)")
UNIT = normal("1", multiplier="1/sqrt(n)")
SPREAD = orthogonal("sqrt(m/n)")
TIED = {"tied": True}
BARE = {"final_norm": False}
COLUMNS = "inputs are taken as independent, of as many numbers as the width, of mean square 1."

ROWS = (
    RecipeRow("mup", replace(MUP, place="post", activation="relu"),
        each("1/sqrt(d)", "1/sqrt(d)", token="1") | {"query": "0", "head": "0"}, SMALL,
        "microsoft/mup examples/Transformer/model.py 112-116, 181-197, 291-306, 462-465; mup/layer.py 14-57",
        BARE, (
            "linear2 has the deviation of linear1, though its fan-in is f.",
            "sinusoids of mean square 1/2 are added to its embeddings, and a key and a value of 0 to its tokens, which "
            "the record leaves out.")),
    RecipeRow("mutransformers", MUP, each(NARROW, "s/sqrt(2*L*d/256)", token=FLAT, position=FLAT)
            | {"head": normal(FLAT, multiplier="1/(d/256)")}, GPT2,
        "microsoft/mutransformers mutransformers/models/gpt2/modeling_gpt2.py 200-207, 475-521", TIED, (BY_256,)),
    RecipeRow("nanogpt-mup", MUP, each(NARROW, "s/sqrt(2*L*d/256)", token=FLAT, position=FLAT)
            | {"head": normal(FLAT, multiplier="1/(d/256)")}, NANOGPT,
        "EleutherAI/nanoGPT-mup model.py 63-78, 128-134, 158-171, 206-225", TIED,
        (BY_256, "logits are divided by d/256 in training alone; generation is unscaled.")),
    RecipeRow("completep", replace(MUP, branch="1/(L/2)"), each(NARROW, NARROW, token=FLAT, position=FLAT)
            | {"head": normal(FLAT, multiplier="1/(d/256)")}, NANOGPT,
        "EleutherAI/nanoGPT-mup branch completep, model.py 113-118, 164-177, 312-362", TIED,
        (BY_256, "depths are measured by a base of 2, at alpha = 1.")),
    RecipeRow("u-mup", Transformer("silu", gated=True, norm="rms", rotary=True, scale="1/d"),
        each(UNIT, normal("1", multiplier="(T/log(T))**(2*h/(1+4*h))/sqrt(n)"), gate=UNIT,
             down=normal("1", multiplier="2**(3/4)/sqrt(n)"), token=normal("1", multiplier="sqrt(L)"),
             head=normal("1", multiplier="1/d")),
        {"depth": 12, "width": 1024, "heads": 16, "hidden": 4096, "context": 1024, "vocabulary": 50257},
        "graphcore-research/unit-scaling unit_scaling/functional.py 223-262, 396-442, 506-532; _modules.py 430-540",
        notes=("its sums are divided so that each has variance 1; the record is the same network without these "
               "divisions, where embeddings are sqrt(L) and each branch adds 1.",
               "what attention makes is multiplied by its fit for T tokens: of a report, those that are followed.")),
    RecipeRow("modded-nanogpt", Transformer("relu(z)**2", norm="rms", affine=False, rotary=True, qk_norm=True),
        each(LINEAR, "0", up=LINEAR, token=LINEAR), GPT2,
        "KellerJordan/modded-nanogpt records/track_1_short/2024-10-14_ModernArch/train_gpt2.py 149, 171", TIED,
        ("embeddings have the law of the tied head, torch's default of a Linear.",)),
    RecipeRow("pytorch", Transformer("relu", place="post", causal=False),
        each(uniform("sqrt(6/(n+3*d))"), LINEAR, up=LINEAR, token="1", head=LINEAR)
            | {"up bias": LINEAR, "down bias": LINEAR}, SMALL,
        "pytorch/pytorch torch/nn/modules/activation.py _reset_parameters; linear.py reset_parameters; transformer.py",
        BARE, ("an nn.TransformerEncoder behind an nn.Embedding.",)),
    RecipeRow("pytorch-mlp", DenseStack("relu"), {"dense": LINEAR, "bias": LINEAR, "token": INPUTS,
            "token bias": LINEAR, "head": LINEAR}, PLAIN,
        "pytorch/pytorch torch/nn/modules/linear.py reset_parameters", BARE, (COLUMNS,)),
    RecipeRow("flax", Transformer("gelu_tanh"), each(LECUN, LECUN, token="1/sqrt(d)", head=LECUN), SMALL,
        "google/flax flax/linen/linear.py 49, 1105-1107; nnx/nn/linear.py 48, 1212; "
        "google/jax jax/_src/nn/initializers.py 163-197", notes=("its layers in the block of GPT-2.",)),
    RecipeRow("haiku", Transformer("gelu_tanh"), each(DEPTH, DEPTH, token=truncated(".02"), position=truncated(".02"),
            head=CUT), SMALL, "google-deepmind/dm-haiku examples/transformer/model.py 56-116"),
    RecipeRow("haiku-mlp", DenseStack("relu"),
        {"dense": CUT, "token": truncated("1/sqrt(n)", multiplier="sqrt(n)"), "head": CUT}, PLAIN,
        "google-deepmind/dm-haiku haiku/_src/basic.py 147, 176; initializers.py 97-228", BARE, (COLUMNS,)),
    RecipeRow("keras", Transformer("relu", place="post", causal=False),
        each(uniform("sqrt(6/(d*H+d*h))"), uniform("sqrt(6/(d+d*H))"), up=xavier_uniform(), down=xavier_uniform(),
             token=uniform(".05"), position=uniform(".05"), head=xavier_uniform()), SMALL,
        "keras-team/keras keras/src/layers/core/dense.py 89; embedding.py 91; "
        "initializers/random_initializers.py 66-317", BARE, (
            "kernels of attention have three axes, whose fans are (d H, d h) of q, k, v and (d, d H) of the output "
            "matrix.",)),
    RecipeRow("keras-mlp", DenseStack("relu"), {"dense": xavier_uniform(), "head": xavier_uniform(),
            "token": uniform("sqrt(6/(n+m))", multiplier="sqrt(n)")}, PLAIN,
        "keras-team/keras keras/src/layers/core/dense.py 89", BARE, (COLUMNS,)),
    RecipeRow("siren", DenseStack("sin(z)"), {"dense": uniform("sqrt(6/n)/30", multiplier="30"),
            "bias": uniform("1/sqrt(n)", multiplier="30"), "token": uniform("1/2", multiplier="30*sqrt(2/3)"),
            "token bias": uniform("1/sqrt(2)", multiplier="30"),
            "head": uniform("sqrt(6/n)/30")},
        PLAIN | {"depth": 4, "width": 256, "vocabulary": 3},
        "vsitzmann/siren modules.py 33-34, 59-68, 622-635; explore_siren.ipynb", BARE,
        ("points are taken as independent, of two coordinates uniform on ±1.",
         "the 30 of sin(30 z) is written as a factor of the matrices and biases.")),
    RecipeRow("kan", DenseStack("silu"), {"dense": uniform("1/sqrt(n)"), "token": "1"},
        PLAIN | {"depth": 3, "width": 64}, "Blealtan/efficient-kan src/efficient_kan/kan.py 13-76", BARE,
        (COLUMNS, "the base alone; splines start as noise of a share of about 1e-4 of it.")),
    RecipeRow("modula", Transformer("sqrt(2)*gelu(z)", scale="1/d", skip="1-1/(2*L)", branch="1/(2*L)"),
        each(SPREAD, SPREAD, head=SPREAD)
            | {"output": Law("sqrt(m/n)", "orthogonal", multiplier="1/3"), "token": normal("1", multiplier="1/2"),
               "position": normal("1", multiplier="1/2")}, GPT2,
        "jxbz/modula modula/atom.py 15-24, 96-115; bond.py 84-103, 154; compound.py 33-59",
        notes=("rows of its embeddings are of one length, in the record normal.",)),
)  # fmt: skip
