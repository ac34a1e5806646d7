"""What `recommend` answers for a network with attention: numbers, one screen of text, JSON, and code to paste."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import one_line
from meanfield.networks.records import Network
from meanfield.tuning.recommendation import snippets
from meanfield.tuning.recommendation.answer import Layer
from meanfield.tuning.recommendation.blockwise import BlockwiseRun


@dataclass(frozen=True)
class TransformerRecommendation(Result):
    """Standard deviations for a network with attention, and what its first passes do; see `recommend`.

    layers: a row for the embeddings ("input") and for each matrix of a block, by its role; followed: this choice;
    recipes: GPT-2's and PyTorch's, followed alike; tokens: how many were followed; network: the record with these
    numbers, for `derive` (which then takes no deviations).

    >>> found = recommend("gpt", depth=5, width=96, heads=8, context=8, seed=1)
    >>> [one.key for one in found.layers]
    ['input', 'query', 'key', 'value', 'output', 'up', 'down']
    >>> found.followed.growth < 3 < found.recipes[0].growth
    True
    """

    what: str
    depth: int
    width: int
    heads: int
    context: int
    tokens: int
    draws: int
    layers: tuple[Layer, ...]
    followed: BlockwiseRun
    recipes: tuple[BlockwiseRun, ...]
    network: Network = field(repr=False)
    caveats: tuple[str, ...] = ()

    @property
    def sigmas(self) -> dict[str, tuple[float, float]]:
        """(σ_w, σ_b) of every kind of matrix by its role."""
        return {one.key: (one.sigma_w, one.sigma_b) for one in self.layers}

    def torch(self) -> str:
        """Code for PyTorch: `init_` draws a Linear of one kind, `init_network_` all Linears of a network in order."""
        return snippets.torch(self.layers, None, self.what, float(self.followed.K[0]), self.depth)

    def numbers(self) -> str:
        """Plain numbers: std of weights and biases for each kind of matrix."""
        return snippets.numbers(self.layers, None)

    def data(self) -> dict[str, Any]:
        """All of it as plain numbers, text and lists (JSON)."""
        own = ("what", "depth", "width", "heads", "context", "tokens", "draws")
        found = {name: getattr(self, name) for name in own} | {"caveats": list(self.caveats)}
        rows = [plain(one.__dict__) | {"weight_std": one.weight_std} for one in self.layers]
        both = {n: [_plain(one) for one in held] for n, held in (("recipes", self.recipes), ("own", (self.followed,)))}
        return found | {"layers": rows, "followed": both["own"][0], "recipes": both["recipes"]} | {
            "record": repr(self.network)
        }

    def arrays(self) -> Arrays:
        """K, c, log J, and of the block that made a layer the entropy, Θ_Q/Θ_V and the shares of its branches."""
        one, layers = self.followed, np.arange(1, self.depth + 1)
        columns: dict[str, Any] = {n: (("layer",), getattr(one, n)) for n in ("K", "c", "log_J")}
        blocks = {"entropy": one.entropy, "query_share": one.query_share}
        blocks |= {f"share_{i + 1}": row for i, row in enumerate(one.shares)}
        columns |= {n: (("layer",), np.concatenate([[np.nan], row])) for n, row in blocks.items()}
        return Arrays({"layer": (("layer",), layers)}, columns, {"tokens": self.tokens, "draws": self.draws})

    def __repr__(self) -> str:
        each = ", ".join(f"{one.key}: {one.sigma_w:.4g}" for one in self.layers)
        return one_line("TransformerRecommendation", f"{self.what}; {each}")

    def __str__(self) -> str:
        return wrapped("\n".join(_screen(self)))


def _plain(one: BlockwiseRun) -> dict[str, Any]:
    return {name: plain(value) for name, value in one.__dict__.items()} | {
        "growth": one.growth, "least_share": one.least_share,
    }  # fmt: skip


def _screen(r: TransformerRecommendation) -> list[str]:
    out = [f"{r.what}", f"{r.depth - 1} blocks, width {r.width}, {r.heads} heads, {r.context} tokens", ""]
    out.append(f"  {'matrix':<10}{'sigma_w':>12}{'fan_in':>10}{'weight std':>14}")
    for one in r.layers:
        std = one.sigma_w if one.weight_std is None else one.weight_std
        fan = "-" if one.fan_in is None else f"{one.fan_in:g}"
        out.append(f"  {one.key:<10}{one.sigma_w:>12.6g}{fan:>10}{std:>14.6g}")
    out += ["", "  biases 0; std of an embedding is that of the sum of all that are added", ""]
    f, last = r.followed, r.depth - 1
    out.append(f"  {'layer':<7}{'K/K_1':>9}{'c':>9}{'log J':>9}{'entropy':>9}{'Q/V':>9}{'shares of 1/L':>18}")
    for block in sorted({0, 1, last // 2, last - 1} & set(range(last))):
        shares = ", ".join(f"{s * last:.2f}" for s in f.shares[:, block])
        out.append(
            f"  {block + 2:<7}{f.K[block + 1] / f.K[0]:>9.4g}{f.c[block + 1]:>9.3g}{f.log_J[block + 1]:>9.3g}"
            f"{f.entropy[block]:>9.3g}{f.query_share[block]:>9.3g}{shares:>18}"
        )
    out += ["", f"  {'':<12}{'K_L/K_1':>10}{'c':>9}{'log J':>9}{'Q/V':>20}{'least share':>13}"]
    for each in (*r.recipes, f):
        ends = f"{each.query_share.min():.2g} to {each.query_share.max():.2g}"
        own = f"{each.growth:>10.4g}{each.c[-1]:>9.3g}{each.log_J[-1]:>9.3g}{ends:>20}{each.least_share:>13.2g}"
        out.append(f"  {each.name:<12}{own}")
    return out + [""] + [f"  note: {one}" for one in r.caveats]
