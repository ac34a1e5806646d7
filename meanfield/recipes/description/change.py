"""The one change of a recipe that helps its first passes most."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from meanfield.base.answers.export import Result
from meanfield.base.answers.results import MeanFieldError
from meanfield.networks.folds import with_dense
from meanfield.networks.records import Param
from meanfield.networks.roles import HEADS
from meanfield.recipes.description.described import Described
from meanfield.recipes.description.first_passes import run
from meanfield.recipes.description.matrix_laws import normal
from meanfield.theory.queries.stored_answers import answered
from meanfield.tuning.recommendation.blockwise import BlockwiseRun, Follow
from meanfield.tuning.recommendation.token_networks import LEAST, chosen

DRAWS = 2
QUICK = 16  # tokens by which changes are compared
MOST = 3.0  # of each trouble with what trains, as a logarithm: keeping signals and gradients goes before
NEAR = 1.0  # by how much a change may raise |log K_L/K_1| + |log J|
WIDEST = 10.0  # of the σ_w that is recommended


@dataclass(frozen=True)
class Change(Result):
    """Other deviations for one group of matrices; see `best_change`.

    kinds: what is changed; deviations: of their entries (in the first block), as `recommend` chooses them for this
    architecture; recipe: the recipe with the change; trouble: of the recipe and with the change (`trouble`); before,
    after: growth K_L/K_1, log J, the mean Θ_Q/Θ_V and the least share of a branch in units of 1/L of both, compared at
    16 tokens, with heads of infinitely many channels.

    >>> from meanfield.recipes import recipe
    >>> recipe("gpt2", depth=2, width=64, context=8).report(draws=2).change.kinds
    ('query', 'key')
    """

    kinds: tuple[str, ...]
    deviations: tuple[float, ...]
    recipe: Described
    trouble: tuple[float, float]
    before: tuple[float, float, float, float]
    after: tuple[float, float, float, float]

    def __str__(self) -> str:
        each = ", ".join(f"{kind} {value:.3g}" for kind, value in zip(self.kinds, self.deviations))
        names = ("K_L/K_1", "log J", "Θ_Q/Θ_V", "least share")
        moved = [
            f"{name} {after:.2g} for {before:.2g}" + "/L" * (name == "least share")
            for name, after, before in zip(names, self.after, self.before)
            if not (math.isnan(after) or math.isclose(after, before, rel_tol=0.05, abs_tol=0.02))
        ]
        return f"deviations of {each} (roughly: {', '.join(moved)})"


def trouble(one: BlockwiseRun) -> float:
    """How far a network is from one that keeps its signals and trains all of its matrices: |log K_L/K_1| + |log J| +
    the mean of |log Θ_Q/Θ_V| over the blocks, at most MOST, + by how much, as a logarithm, the least share of a branch
    in the last layer is below 1/(4L), at most MOST."""
    found = _keeping(one)
    with np.errstate(divide="ignore"):
        if np.isfinite(one.query_share).any():
            found += min(MOST, float(np.nanmean(np.abs(np.log(one.query_share)))))
        if one.shares.size:
            found += min(MOST, float(np.maximum(0.0, np.log(LEAST / max(one.least_share, 1e-20)))))
    return found


def _keeping(one: BlockwiseRun) -> float:
    """What signals and gradients lose or gain: |log K_L/K_1| + |log J|."""
    return abs(math.log(one.growth)) + abs(float(one.log_J[-1]))


def _figures_of(one: BlockwiseRun) -> tuple[float, float, float, float]:
    share = float(np.nanmean(one.query_share)) if np.isfinite(one.query_share).any() else math.nan
    return one.growth, float(one.log_J[-1]), share, one.least_share if one.shares.size else math.nan


def best_change(recipe: Described, tokens: int, seed: int) -> Change | None:
    """`_best_change`, kept like other answers that take long."""
    found = answered("best change", recipe.theory, (recipe.told, tokens, seed), {}, lambda: [
        _best_change(recipe, tokens, seed)
    ])  # fmt: skip
    return found[0]


def _best_change(recipe: Described, tokens: int, seed: int) -> Change | None:
    """Of the embeddings, queries and keys, values, first and last matrices of branches: the group whose deviations,
    put to what `recommend` chooses for this architecture, lower `trouble` most; None where none lowers it."""
    tokens = min(tokens, QUICK)
    open_block = with_dense(recipe.network.block, lambda _, one: replace(one, sigma_w=Param("sigma_w")))
    follow = Follow(open_block, recipe.roles, recipe.depth + 1, tokens, DRAWS, 1.0, seed)
    if not follow.ends:
        return None
    try:
        target = chosen(follow, set(recipe.roles))[0].sigmas
        before = run(recipe, tokens=tokens, draws=DRAWS, seed=seed, rough=True)
    except MeanFieldError:
        return None
    now, best = trouble(before), None
    for kinds in _groups(recipe, follow):
        changed = recipe.with_laws(f"{recipe.name}, changed", **_laws(recipe, kinds, target))
        after = run(changed, tokens=tokens, draws=DRAWS, seed=seed, rough=True)
        left, worse = trouble(after), _keeping(after) - _keeping(before)
        wide = any(changed.sigmas.get("input" if kind == "token" else kind, 0.0) > WIDEST for kind in kinds)
        if worse > NEAR or wide:  # what was silenced on purpose (zeros, LayerScale) is not to be undone by growth
            continue
        if left < (now if best is None else best.trouble[1]) - 0.05:
            values = tuple(changed.deviation(kind) for kind in kinds)
            best = Change(kinds, values, changed, (now, left), _figures_of(before), _figures_of(after))
    return best


def _groups(recipe: Described, follow: Follow) -> list[tuple[str, ...]]:
    held, ends = recipe.roles, [one for one in follow.ends if one is not None]

    def of(*begins: str) -> tuple[str, ...]:
        return tuple(one for one in held if one.rstrip("0123456789") in begins)

    embeddings = () if recipe.input_norm else ("token",)
    inner = tuple(one for one in held if one not in ends and not one.startswith(HEADS))
    groups = [embeddings, of("query", "key"), of("value"), inner, tuple(dict.fromkeys(ends))]
    return [one for one in groups if one]


def _laws(recipe: Described, kinds: tuple[str, ...], target: object) -> dict[str, object]:
    """Laws that have the deviations of the target: normal ones, as texts of the fan-in."""
    out: dict[str, object] = {}
    for kind in kinds:
        if kind == "token":
            out |= {"token": normal(repr(target["input"]))}  # type: ignore[index]
            out |= {"position": normal("0")} if "position" in recipe.laws else {}
        else:
            out[kind] = normal(f"{target[kind]!r}/sqrt(n)")  # type: ignore[index]
    return out
