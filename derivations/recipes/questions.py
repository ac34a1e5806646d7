"""What people ask of initializations, each answered by recipes that differ in one thing: K, c, J block by block.

python -m derivations.recipes questions       prints a table for each
python -m derivations.recipes figures DIR     draws K and log J over the blocks for each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

import meanfield as mf
from meanfield.recipes import Recipe, Report, kaiming_uniform, normal, uniform, xavier_uniform

GPT = {"depth": 12, "width": 768, "context": 32}
LLAMA = {"depth": 32, "width": 1024, "heads": 16, "hidden": 2752, "context": 16}


@dataclass(frozen=True)
class Question:
    """One question: its key, its words, and by what name the recipes that answer it are told apart."""

    key: str
    words: str
    variants: Callable[[], Mapping[str, Recipe]]

    def answers(self) -> dict[str, Report]:
        """A report of every variant."""
        return {name: followed(self.key, name) for name in self.variants()}


@cache
def followed(key: str, name: str) -> Report:
    """One variant of one question, followed."""
    return next(q for q in QUESTIONS if q.key == key).variants()[name].report()


def numbers(report: Report) -> dict[str, float]:
    """Growth and log J with the standard errors of the draws, c at the end, the least share of a branch in units of
    1/L, the embeddings' share of the last layer, Θ_Q/Θ_V in the middle, and the deviation of scores in block 1."""
    f, draws = report.followed, report.draws
    return {
        "K_L/K_1": f.growth, "error of K": f.spread["K"] / f.K[0] / draws**0.5,
        "log J": float(f.log_J[-1]), "error of J": f.spread["log_J"] / draws**0.5,
        "c": float(f.c[-1]), "least share": f.least_share if f.shares.size else float("nan"),
        "embeddings": 1 - float(f.shares.sum()), "Q/V": float(np.median(f.query_share)),
        "scores": float(f.scores[0]),
    }  # fmt: skip


def _llama(**laws: object) -> Recipe:
    """A gated pre-norm network whose embeddings have size 1 and whose matrices have deviation .02, but for some."""
    return mf.recipe("llama", **LLAMA).with_laws(token="1", **laws)


def _depth_scale() -> dict[str, Recipe]:
    scaled = normal(".02/sqrt(2*L)")
    return {
        "none": _llama(output=scaled),
        "w2": _llama(output=scaled, down=scaled),
        "w3": _llama(output=scaled, up=scaled),
        "both": _llama(output=scaled, up=scaled, down=scaled),
    }


def _depth_rule() -> dict[str, Recipe]:
    def by(rule: str) -> Recipe:
        return _llama(output=normal(f".02/sqrt({rule})"), down=normal(f".02/sqrt({rule})"))

    return {"no scale": by("1"), "1/sqrt(2l)": by("2*l"), "1/sqrt(2L)": by("2*L")}


def _fan_in() -> dict[str, Recipe]:
    def of(width: int, deviation: str) -> Recipe:
        own = {"depth": 32, "width": width, "heads": 16, "hidden": 4 * width, "context": 32}
        kinds = dict.fromkeys(("query", "key", "value", "output", "up", "down"), normal(deviation))
        return mf.recipe("gpt2", **own).with_laws(token="1", position="0", **kinds)

    widths = (768, 2560, 8192)
    return {f"{name}, d = {d}": of(d, s) for name, s in ((".02", ".02"), ("1/sqrt(n)", "1/sqrt(n)")) for d in widths}


def _embeddings() -> dict[str, Recipe]:
    own = mf.recipe("gpt2", **GPT)
    return {"size .02": own, "size 1": own.with_laws(token="1", position="0")}


def _fused() -> dict[str, Recipe]:
    own = mf.recipe("gpt2", **GPT).with_laws(token="1", position="0", output=xavier_uniform())
    fused, apart = xavier_uniform(n="n", m="3*m"), xavier_uniform()
    return {name: own.with_laws(query=law, key=law, value=law) for name, law in (("fused", fused), ("apart", apart))}


def _truncation() -> dict[str, Recipe]:
    cut = mf.recipe("bert", **GPT)
    return {"cut at 2 deviations": cut, "not cut": cut.with_laws(**dict.fromkeys(cut.laws, normal(".02")))}


def _norm_behind() -> dict[str, Recipe]:
    def of(place: str) -> Recipe:
        architecture = mf.architectures.llama(heads=16, norm=place, sigma_g="sigma_g", expand="43/16")
        laws = dict.fromkeys(("token", "query", "key", "value", "output", "up", "gate", "down"), ".02")
        return Recipe(architecture, laws | {"token": "1"}, depth=32, width=1024, context=16, name=place)

    return {place: of(place) for place in ("pre", "peri", "post")}


def _norm_scaled() -> dict[str, Recipe]:
    def of(scaled: bool) -> Recipe:
        norm = [mf.networks.RMSNorm(), *([mf.Scale(mf.Schedule(1, 1))] if scaled else [])]
        heads = mf.networks.Attention(16, causal=True)
        gate = mf.Gate("silu", mf.Dense(expand="43/16"), mf.Dense(expand="43/16"))
        block = mf.Sequential(
            mf.Residual(mf.Sequential(*norm, heads, mf.Dense())), mf.Residual(mf.Sequential(*norm, gate, mf.Dense()))
        )
        laws = dict.fromkeys(("token", "query", "key", "value", "output", "up", "gate", "down"), ".02")
        return Recipe(block, laws | {"token": "1"}, depth=32, width=1024, context=16)

    return {"norm": of(False), "norm / sqrt(l)": of(True)}


def _default_linear() -> dict[str, Recipe]:
    own = mf.recipe("gpt2", **GPT).with_laws(token="1", position="0")
    kinds = ("query", "key", "value", "output", "up", "down")
    default, unit = kaiming_uniform(), uniform("sqrt(3)/sqrt(n)")
    return {"sqrt(5): 1/(3n)": own.with_laws(**dict.fromkeys(kinds, default)),
            "1/n": own.with_laws(**dict.fromkeys(kinds, unit))}  # fmt: skip


def _gated() -> dict[str, Recipe]:
    plain = mf.recipe("gpt2", depth=12, width=768, heads=12, hidden=3072, context=32)
    kinds = dict.fromkeys(("query", "key", "value", "output", "up", "down"), normal("1/sqrt(n)"))
    plain = plain.with_laws(token="1", position="0", **kinds)
    gated = Recipe(
        mf.architectures.llama("gelu_tanh", heads=12, rotary=False, norm="pre", expand="8/3", sigma_g="sigma_g"),
        {"token": "1", "gate": normal("1/sqrt(n)")} | kinds, depth=12, width=768, context=32,
    )  # fmt: skip
    return {"plain": plain, "gated": gated}


QUESTIONS: tuple[Question, ...] = (
    Question("w2 or w3", "Which of w2, w3 carries the depth scale of a gated branch?", _depth_scale),
    Question("2L or 2l", "1/sqrt(2L), 1/sqrt(2l), or no scale?", _depth_rule),
    Question("fan-in", "A deviation of .02, or 1/sqrt(fan-in)?", _fan_in),
    Question("embeddings", "Embeddings of size .02, or 1?", _embeddings),
    Question("fused", "Queries, keys and values as one matrix under Xavier?", _fused),
    Question("truncation", "Does it matter that a truncated normal is not corrected?", _truncation),
    Question("norm behind", "A norm behind the branch, too, or behind the sum?", _norm_behind),
    Question("norm scaled", "The norm's output times 1/sqrt(l)?", _norm_scaled),
    Question("default linear", "What does the sqrt(5) in the default Linear do?", _default_linear),
    Question("gated", "A gated branch against a plain one?", _gated),
)


def lines() -> Iterator[str]:
    """A table for each question."""
    for question in QUESTIONS:
        yield f"{question.words}"
        head = ("K_L/K_1", "log J", "c", "least share", "embeddings", "Q/V", "scores")
        yield f"  {'':<22}" + "".join(f"{name:>13}" for name in head)
        for name, report in question.answers().items():
            found = numbers(report)
            yield f"  {name:<22}" + "".join(f"{found[key]:>13.4g}" for key in head)
        yield ""


def write(folder: str | Path) -> list[Path]:
    """K and log J over the blocks, a figure for each question, as PNG files of a folder."""
    import matplotlib.pyplot as plt

    Path(folder).mkdir(parents=True, exist_ok=True)
    out = []
    for question in QUESTIONS:
        figure, axes = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
        for name, report in question.answers().items():
            f = report.followed
            blocks = np.arange(len(f.K))
            for ax, values in zip(axes, (f.K / f.K[0], f.log_J)):
                ax.plot(blocks, values, label=name)
        axes[0].set(xlabel="block", ylabel="K / K of the embeddings", yscale="log")
        axes[1].set(xlabel="block", ylabel="log J")
        axes[1].legend(frameon=False)
        figure.suptitle(question.words)
        path = Path(folder) / f"{question.key.replace(' ', '_')}.png"
        figure.savefig(path, dpi=120)
        plt.close(figure)
        out.append(path)
    return out
