"""What a recipe's first passes do, on one screen; and recipes beside each other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from meanfield.base.answers.arrays import Arrays
from meanfield.base.answers.export import Result, plain
from meanfield.base.answers.plain_text import wrapped
from meanfield.base.answers.results import MeanFieldError, one_line
from meanfield.base.arguments import whole
from meanfield.base.tex.prose import prose
from meanfield.base.tex.tabular import booktabs
from meanfield.recipes.description.change import Change, best_change
from meanfield.recipes.description.described import Described
from meanfield.recipes.description.findings import assumed, findings
from meanfield.recipes.description.first_passes import laws, run, usual_tokens
from meanfield.tuning.recommendation.blockwise import BlockwiseRun

_SHORT = {"input": "embed"}


@dataclass(frozen=True)
class Report(Result):
    """What the first forward and backward pass of a recipe do.

    followed: K, c (correlation of two tokens), log J by layer; entropy of the attention over log T, scores (their
    deviation), Θ_Q/Θ_V, and the fraction that every branch is of the stream by block; shares of the branches in the
    last layer, the tangent kernel by matrices, the spread between drawn heads. laws: of deep networks with these
    deviations. findings: sentences on what is critical, what is switched off, what drowns. change: the one change that
    helps most, None where none does. tokens, draws: how many tokens of the context were followed, and of how many
    draws of all heads these are means.

    Accuracy: exact at infinite width; means over the draws scatter as `first_passes.spread` says, and networks of width
    N differ by shares of the order tokens/N and depth/N.

    >>> from meanfield.recipes import recipe
    >>> found = recipe("gpt2", depth=2, width=64, context=8).report(draws=2)
    >>> list(found.theta_shares)
    ['input', 'query', 'key', 'value', 'output', 'up', 'down']
    """

    recipe: Described
    followed: BlockwiseRun
    laws: tuple[tuple[str, str], ...]
    findings: tuple[str, ...]
    change: Change | None
    tokens: int
    draws: int
    assumed: str = field(repr=False, default="")

    @property
    def theta_shares(self) -> dict[str, float]:
        """The share of every kind of matrix in the tangent kernel of the last layer, of "input" that of the embeddings;
        weights trained at the rate of their variance times fan-in."""
        last = self.followed.Theta[:, -1] if len(self.followed.Theta) else np.empty(0)
        return dict(zip(("input", *self.recipe.roles), last / last.sum() if len(last) else last))

    def data(self) -> dict[str, Any]:
        """All of it as plain values."""
        one = self.followed
        rows = {n: plain(v) for n, v in one.__dict__.items() if n not in ("Theta", "name", "sigmas")}
        own = {"tokens": self.tokens, "draws": self.draws, "assumed": self.assumed, "growth": one.growth}
        own |= {"laws": dict(self.laws), "findings": list(self.findings), "theta_shares": self.theta_shares}
        change = None if self.change is None else {
            "kinds": list(self.change.kinds), "deviations": list(self.change.deviations),
            "trouble": list(self.change.trouble), "before": list(self.change.before), "after": list(self.change.after),
        }  # fmt: skip
        return {"recipe": self.recipe.data(), "followed": rows, "change": change} | own

    def arrays(self) -> Arrays:
        """K, c, log J by layer, and of the block that made it the scores' deviation, entropy, Θ_Q/Θ_V, and the fraction
        and share of every branch."""
        one, layers = self.followed, np.arange(1, len(self.followed.K) + 1)
        columns: dict[str, Any] = {n: (("layer",), getattr(one, n)) for n in ("K", "c", "log_J")}
        blocks = {"scores": one.scores, "entropy": one.entropy, "query_share": one.query_share}
        for what, rows in (("fraction", one.fractions), ("share", one.shares)):
            blocks |= {f"{what}_{i + 1}": row for i, row in enumerate(rows)}
        columns |= {n: (("layer",), np.concatenate([[np.nan], row])) for n, row in blocks.items()}
        return Arrays({"layer": (("layer",), layers)}, columns, {"tokens": self.tokens, "draws": self.draws})

    def latex(self) -> str:
        """The table of blocks as LaTeX (booktabs)."""
        names = ["$l$", "$K/K_1$", "$c$", r"$\log J$", "scores", r"entropy$/\log T$", "branches of the stream"]
        caption = prose(f"{self.recipe.name}: {self.recipe.depth} blocks of width {self.recipe.width}")
        return booktabs(caption, names, [list(row) for row in _rows(self.followed)])

    def __repr__(self) -> str:
        return one_line("Report", f"{self.recipe.name}, {self.recipe.depth} blocks of width {self.recipe.width}")

    def __str__(self) -> str:
        return wrapped("\n".join(_screen(self)))


@dataclass(frozen=True)
class Comparison(Result):
    """Several recipes at the same sizes, a row for each; see `Recipe.compare`.

    >>> from meanfield.recipes import recipe
    >>> [one.recipe.name for one in recipe("gpt2", depth=2, width=64, context=8).compare("nanogpt")]
    ['gpt2', 'nanogpt']
    """

    reports: tuple[Report, ...]

    def __iter__(self) -> Any:
        return iter(self.reports)

    def data(self) -> list[dict[str, Any]]:
        """The reports as plain values."""
        return [one.data() for one in self.reports]

    def __str__(self) -> str:
        width = max(18, *(len(one.recipe.name) + 2 for one in self.reports))
        out = [f"  {'':<{width}}{'K_L/K_1':>9}{'K_2/K_1':>9}{'c':>9}{'log J':>8}{'Q/V':>9}{'least share':>13}"]
        for one in self.reports:
            f = one.followed
            share = f"{f.least_share:>11.2g}/L" if f.shares.size else f"{'-':>13}"
            query = f"{np.nanmean(f.query_share):>9.2g}" if np.isfinite(f.query_share).any() else f"{'-':>9}"
            first = f.K[1] / f.K[0]
            out.append(
                f"  {one.recipe.name:<{width}}{f.growth:>9.4g}{first:>9.3g}{f.c[-1]:>9.2g}{f.log_J[-1]:>8.2g}"
                f"{query}{share}"
            )
        return "\n".join([*out, f"  {self.reports[0].tokens} tokens; Q/V in the mean over blocks"])


def report_of(recipe: Described, *, tokens: object, draws: object, seed: object, change: bool = True) -> Report:
    """`Recipe.report`."""
    count = usual_tokens(recipe) if tokens is None else whole(tokens, "tokens", 2, 4096)
    if count > recipe.context:
        raise MeanFieldError(f"{count} tokens were to be followed, but the context of the recipe is {recipe.context}.")
    number, start = whole(draws, "draws", 2, 1 << 16), whole(seed, "seed", 0, 1 << 62)
    own = recipe.at_tokens(count)  # a law of T fits the tokens that are followed, not those that are left out
    one = run(own, tokens=count, draws=number, seed=start)
    found = laws(own, count) if change else ()
    helps = best_change(own, count, start) if change else None
    about = assumed(recipe, count) + ("" if own is recipe else f", laws of T at T = {count}")
    return Report(recipe, one, found, findings(own, one, count), helps, count, number, about)


def comparison(recipes: Sequence[Described], *, tokens: object, draws: object, seed: object) -> Comparison:
    """`Recipe.compare`."""
    count = min(map(usual_tokens, recipes)) if tokens is None else tokens
    return Comparison(tuple(report_of(one, tokens=count, draws=draws, seed=seed, change=False) for one in recipes))


def _rows(f: BlockwiseRun) -> list[list[str]]:
    last = len(f.K) - 1
    out = []
    for block in sorted({0, 1, last // 2, last - 1} & set(range(last))):
        sizes = (f.c[block + 1], f.log_J[block + 1])
        each = [f"{block + 2}", f"{f.K[block + 1] / f.K[0]:.4g}", *map(_cell, sizes)]
        each += ["-" if math.isnan(v[block]) else f"{v[block]:.3g}" for v in (f.scores, f.entropy)]
        out.append([*each, ", ".join(f"{part:.2g}" for part in f.fractions[:, block])])
    return out


def _cell(value: float) -> str:
    return "0" if abs(value) < 1e-9 else f"{value:.3g}"


def _screen(r: Report) -> list[str]:
    recipe, f = r.recipe, r.followed
    heads = "" if recipe.heads is None else f", {recipe.heads} heads"
    out = [f"{recipe.name}: {recipe.depth} blocks, width {recipe.width}{heads}; {r.assumed}", ""]
    out.append(f"  {'matrix':<10}{'deviation':>11}{'sigma_w':>10}  drawn")
    sigmas = recipe.sigmas
    for kind in [k for k in ("token", "position") if k in recipe.laws] + [k for k in recipe.roles]:
        sigma = f"{sigmas[kind]:.4g}" if kind in sigmas else "-"
        out.append(f"  {kind:<10}{recipe.deviation(kind):>11.4g}{sigma:>10}  {recipe.laws[kind]}")
    names = ("layer", "K/K_1", "c", "log J", "scores", "entropy", "branches/stream")
    sizes = (7, 9, 9, 9, 9, 9, 18)
    out += ["", "  " + "".join(f"{n:<{s}}" if n == "layer" else f"{n:>{s}}" for n, s in zip(names, sizes))]
    for row in _rows(f):
        out.append("  " + "".join(f"{n:<{s}}" if i == 0 else f"{n:>{s}}" for i, (n, s) in enumerate(zip(row, sizes))))
    if r.laws:
        out += ["", "  deep networks with these deviations (no mask, no positions):"]
        out += [f"    {name}: {law}" if law.startswith("no ") else f"    {name} = {law}" for name, law in r.laws]
    if r.theta_shares:
        each = ", ".join(f"{_SHORT.get(k, k)} {100 * v:.2g}" for k, v in r.theta_shares.items())
        out += ["", f"  tangent kernel, % by matrix, each trained at its own variance: {each}"]
    out += [""] + [f"  - {one}" for one in r.findings]
    out += [f"  note: {one}" for one in recipe.notes]
    return [*out, "", f"  helps most: {r.change}" if r.change else "  no single change of deviations helps"]
