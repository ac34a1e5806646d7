"""What tuning sees of an architecture record: its Dense layers one by one, their fan-in, and the ends of its branches.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import cast

from meanfield.networks.folds import chain, dense_of, rebuild, through, with_dense
from meanfield.networks.records import (
    OWN,
    Block,
    Constant,
    Dense,
    Deviation,
    Number,
    Param,
    Residual,
    Scale,
    Schedule,
    Sequential,
    Size,
    exact,
    scheduled,
)

BRANCH = "branch_scale"  # the symbol of the factor of every branch


@dataclass(frozen=True)
class Kind:
    """One Dense of a block: its key ("input", "dense1", …), its axis, and its fan-in and fan-out.

    fan, made: inputs and outputs per neuron (or token) of the layer, None where a symbol decides; ends: whether a
    branch ends in it, so that its σ's hold the branch's factor; scaled: whether behind it stands a `Scale` that is left
    open, which then is that factor; held: σ_w and σ_b as the record has them; weights: how they are drawn.
    """

    key: str
    axis: str
    fan: Fraction | None
    made: Fraction | None
    ends: bool = False
    scaled: bool = False
    held: tuple[Deviation, Deviation] = (1, 0)
    weights: str = "gaussian"


def kinds(block: Block) -> tuple[Kind, ...]:
    """The Dense of a block in the order they are met (a shortcut before its branch, a value before its gate)."""
    found: list[Kind] = []

    def number(held: Number) -> Size:
        if isinstance(held, Param):
            return None
        return Fraction(float(held) if isinstance(held, Constant) else held)

    def of(part: Block, sizes: tuple[Size, Size]) -> tuple[Size, Size]:
        neurons, tokens = sizes
        if isinstance(part, Dense):
            fan = tokens if part.mixes == "tokens" else neurons
            drawn = part.weights if isinstance(part.weights, str) else "independent"
            one = Kind(f"dense{len(found) + 1}", part.axis, fan, number(part.expand), weights=drawn)
            found.append(replace(one, held=(part.sigma_w, part.sigma_b)))
        return part.sizes(neurons, tokens, number)

    def joined(part: Block, ways: tuple[tuple[Size, Size], ...]) -> tuple[Size, Size]:
        if isinstance(part, Residual):
            last, scale = branch_end(part.branch)
            if last is not None:
                found[-1] = replace(found[-1], ends=True, scaled=is_open(scale))
        return ways[-1]

    start: tuple[Size, Size] = (Fraction(1), Fraction(1))
    through(block, start, of, joined)
    return tuple(found)


def branch_end(branch: Block) -> tuple[Dense | None, Scale | None]:
    """(the Dense, the Scale behind it) that a branch ends in, None for what is not there."""
    inner = chain(branch)
    scale = inner[-1] if inner and isinstance(inner[-1], Scale) else None
    before = inner[:-1] if scale is not None else inner
    last = before[-1] if before and isinstance(before[-1], Dense) else None
    return last, scale


def is_open(scale: Scale | None) -> bool:
    """Whether this is a Scale whose factor is a symbol, which is to be chosen; a number is held."""
    return scale is not None and isinstance(scale.factor, Param)


def scales_stand_alone(block: Block) -> bool:
    """Whether the factor of some branch is in no Dense: a `Scale` that is left open, or one that `filled` puts there.
    """
    found: list[bool] = []

    def seen(one: Residual) -> Block:
        last, scale = branch_end(one.branch)
        found.append(last is None or is_open(scale))
        return one

    _with_branches(block, seen)
    return any(found)


def falls(held: Deviation, blocks: int) -> tuple[float, float]:
    """(factor, β): in the k-th of L blocks a standard deviation is k^(−β/2) times this factor of its value."""
    if not isinstance(held, Schedule):
        return 1.0, 0.0
    total, beta = (float(cast(Fraction, v)) for v in (held.total, held.beta))  # symbols have values by now
    return scheduled(1, blocks, 1.0, 0.0, total), beta


def open_scales(block: Block) -> set[str]:
    """The symbols of the Scales at the ends of branches."""
    found: set[str] = set()

    def seen(one: Residual) -> Block:
        held = branch_end(one.branch)[1]
        if held is not None and isinstance(held.factor, Param):
            found.add(held.factor.name)
        return one

    _with_branches(block, seen)
    return found


def without_open_scales(block: Block) -> Block:
    """The record without the Scales at the ends of branches whose factor is a symbol."""

    def closed(one: Residual) -> Residual:
        held = branch_end(one.branch)[1]
        return replace(one, branch=Sequential(tuple(chain(one.branch)[:-1]))) if is_open(held) else one

    return _with_branches(block, closed)


def _with_branches(block: Block, of: Callable[[Residual], Block]) -> Block:
    """The record with every Residual put through a function."""
    return rebuild(block, lambda one: of(one) if isinstance(one, Residual) else one)


def with_scales(block: Block) -> Block:
    """The record with every branch times one factor, the symbol `BRANCH`."""
    return _with_branches(
        block, lambda one: replace(one, branch=Sequential((*chain(one.branch), Scale(Param(BRANCH)))))
    )


def own_deviations(block: Block) -> Block:
    """The record with every symbolic standard deviation as the network's own σ_w or σ_b."""

    def own(sigma: Deviation, name: str) -> Deviation:
        value = sigma.value if isinstance(sigma, Schedule) else sigma
        if not isinstance(value, Param) or value in OWN:
            return sigma
        return replace(sigma, value=Param(name)) if isinstance(sigma, Schedule) else Param(name)

    def named(_: int, one: Dense) -> Dense:
        return replace(one, sigma_w=own(one.sigma_w, "sigma_w"), sigma_b=own(one.sigma_b, "sigma_b"))

    return with_dense(block, named)


def put(held: Deviation, value: Number) -> Deviation:
    """A standard deviation with this value, which falls with depth as the one that was held."""
    return replace(held, value=value) if isinstance(held, Schedule) else value


def chosen(block: Block, sigma_w: float, sigma_b: float) -> list[tuple[float, float]]:
    """(σ_w, σ_b) of every Dense where the symbols have these values: numbers of the record are as they are."""

    def of(held: Deviation, own: float) -> float:
        value = held.value if isinstance(held, Schedule) else held
        return own if isinstance(value, Param) else float(value)

    return [(of(one.sigma_w, sigma_w), of(one.sigma_b, sigma_b)) for one in dense_of(block)]


def filled(block: Block, sigmas: list[tuple[float, float]], scale: float | None) -> Block:
    """The record with numbers: (σ_w, σ_b) of every Dense, without the branch's factor; scale: that factor.

    The factor is the value of a `Scale` that was left open, and goes into the σ's of the branch's last Dense elsewhere.
    """
    places = kinds(block)

    def numbers(i: int, one: Dense) -> Dense:
        factor = scale if scale is not None and places[i].ends and not places[i].scaled else 1.0
        sigma_w, sigma_b = (exact(factor * value, "sigma") for value in sigmas[i])
        return replace(one, sigma_w=put(one.sigma_w, sigma_w), sigma_b=put(one.sigma_b, sigma_b))

    def closed(one: Residual) -> Residual:
        last, held = branch_end(one.branch)
        inner = chain(one.branch)
        if is_open(held):
            inner = inner[:-1]
        elif scale is None or last is not None:
            return one
        return replace(one, branch=Sequential((*inner, Scale(exact(1.0 if scale is None else scale, "scale")))))

    return _with_branches(with_dense(block, numbers), closed)
