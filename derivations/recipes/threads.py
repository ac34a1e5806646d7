"""Statements of public threads, documents and code about initializations, decided by runs of their recipes: C36 to C38,
and where code does other than its own words say (E.1 to E.9).

A print is what the words say; a misprint where the recipe does otherwise, whose contrast is what it does.
"""

from __future__ import annotations

import math
from functools import cache

import meanfield as mf
from derivations.claims import Claim, network
from derivations.comparisons import Holds
from derivations.recipes.questions import followed

ANY = network("gelu")
SMALL = {"depth": 8, "width": 512, "context": 16}


def _near(found: float, stated: float, share: float = 1e-9) -> bool:
    return math.isclose(found, stated, rel_tol=share)


def deviation(name: str, kind: str, **sizes: int) -> float:
    """The deviation of a matrix in units of the one that a configuration holds, .02."""
    return mf.recipe(name, **({"depth": 12, "width": 768} | sizes)).deviation(kind) / 0.02


@cache
def growth(name: str) -> float:
    """K_L/K_1 of a recipe at small sizes."""
    return mf.recipe(name, **SMALL).report(tokens=8, draws=2).followed.growth


@cache
def exponents(name: str) -> tuple[float, float]:
    """(1/L) log of what lengths of signals and of gradients grow by: half of log K_L/K_1 and of log J, over L."""
    f = mf.recipe(name, depth=16, width=2048, context=16).report(tokens=8, draws=2).followed
    return math.log(f.growth) / 32, float(f.log_J[-1]) / 32


def smaller(order: str) -> bool:
    """Whether the first of two recipes has the smaller exponents."""
    less, more = (exponents(name) for name in order.split(" < "))
    return less[0] < more[0] and less[1] < more[1]


def same_forward(names: str) -> bool:
    """Whether two recipes of a gated branch have one K and one J."""
    one, other = (followed("w2 or w3", name).followed for name in names.split(" and "))
    return _near(one.growth, other.growth, 1e-6) and _near(one.log_J[-1], other.log_J[-1], 1e-3)


def lns(stated: str) -> bool:
    """Whether the blocks that the released code runs, each of which returns its input, change K as a recipe does."""
    branch = mf.Sequential(mf.Nonlinearity("silu"), mf.Dense(sigma_w=0, sigma_b=0))
    run = mf.derive(architecture=mf.Residual(branch)).propagate(depth=9, quantities=("K",), sigma_w=1, sigma_b=0)
    return _near(float(run.K[-1] / run.K[0]), growth("lns") if stated == "lns" else 1.0, 1e-6)

CLAIMS: tuple[Claim, ...] = (
    Holds("C36, w2 or w3: one forward pass", ANY, "K, J", "w2 and w3", "w2 and both", of=same_forward),
    Holds("C37, at the start: who has the smaller exponents of signals and gradients", ANY, "exponent",
          "olmo2 < olmo-mitchell", "olmo-mitchell < olmo2", misprint=True, of=smaller),
    Holds("C38, bert-hf draws as bert does", ANY, "deviation / .02", 1.0, 0.879625661034, misprint=True,
          of=lambda s: _near(deviation("bert", "query") / deviation("bert-hf", "query"), s)),
    Holds("C38, t5 draws as t5-mesh does", ANY, "deviation ratio", 1.0, 0.879625661034, misprint=True,
          of=lambda s: _near(deviation("t5-mesh", "up") / deviation("t5", "up"), s)),
    Holds("C38, neox-hf draws as neox does", ANY, "deviation ratio", 1.0, 24**-0.5, misprint=True,
          of=lambda s: _near(deviation("neox", "output") / deviation("neox-hf", "output"), s)),
    Holds("E.1, LayerNorm Scaling as released", ANY, "K_L/K_1", "lns", "the identity", misprint=True, of=lns),
    Holds("E.4, torchtitan's trunc_normal is cut", ANY, "deviation / .02", 0.879625661034, 1.0, misprint=True,
          of=lambda s: _near(deviation("llama-torchtitan", "query", width=512), s)),
    Holds("E.4, 1B and 3B start as 8B do", ANY, "K_1 tied / K_1", 1.0, 1 / 512, misprint=True,
          of=lambda s: _near(first("llama-torchtitan-tied") / first("llama-torchtitan"), s, 0.06)),
    Holds("E.6, wang_init is by fan-in", ANY, "deviation, down / output", 0.5, 1.0, misprint=True,
          of=lambda s: _near(deviation("neox-small-wang", "down") / deviation("neox-small-wang", "output"), s)),
    Holds("E.7, llama2.c scales the residual projections", ANY, "deviation / .02 of w2", 24**-0.5, 1.0, misprint=True,
          of=lambda s: _near(deviation("llama2.c", "down"), s)),
    Holds("E.7, what llama2.c scales is w3", ANY, "deviation / .02 of w3", 24**-0.5, 1.0,
          of=lambda s: _near(deviation("llama2.c", "up"), s)),
    Holds("E.7, GPT-2's released file has 1/√(2L)", ANY, "deviation / .02", 24**-0.5, 1.0, misprint=True,
          of=lambda s: _near(deviation("gpt2-released", "down"), s)),
    Holds("E.8, BERT: .02", ANY, "deviation / .02", 1.0, 0.879625661034, misprint=True,
          of=lambda s: _near(deviation("bert", "up"), s)),
    Holds("E.9, fused q, k, v: the variance of a square Xavier matrix", ANY, "variance · d", 1.0, 0.5, misprint=True,
          of=lambda s: _near((deviation("vit-jax", "query") * 0.02) ** 2 * 768, s)),
)  # fmt: skip


def first(name: str) -> float:
    """K_1 of a recipe of width 512."""
    return mf.recipe(name, depth=2, width=512).sigmas["input"] ** 2
