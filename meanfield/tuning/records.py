"""What tuning sees of an architecture record: its Dense layers one by one, their fan-in, and the ends of its branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from meanfield.architecture import (
    OWN,
    Block,
    Constant,
    Dense,
    Deviation,
    Gate,
    Number,
    Param,
    Pool,
    Residual,
    Scale,
    Schedule,
    Sequential,
    exact,
)

BRANCH = "branch_scale"  # the symbol of the factor of every branch


@dataclass(frozen=True)
class Kind:
    """One Dense of a block: its key ("input", "dense1", …), its axis, and its fan-in and fan-out.

    fan, made: inputs and outputs per neuron (or token) of the layer, None where a symbol decides; ends: whether a
    branch ends in it, so that its σ's hold the branch's factor; scaled: whether the record has a `Scale` of its own for
    that factor.
    """

    key: str
    axis: str
    fan: Fraction | None
    made: Fraction | None
    ends: bool = False
    scaled: bool = False


def kinds(block: Block) -> tuple[Kind, ...]:
    """The Dense of a block in the order they are met (a shortcut before its branch, a value before its gate)."""
    found: list[Kind] = []
    _walk(block, Fraction(1), Fraction(1), found)
    return tuple(found)


Size = Fraction | None


def _walk(part: Block, neurons: Size, tokens: Size, found: list[Kind]) -> tuple[Size, Size]:
    """(neurons, tokens) after a part, per neuron and token of the layer that is made."""
    match part:
        case Dense(axis=axis, expand=expand):
            key = f"dense{len(found) + 1}"
            fan = tokens if axis == "tokens" else neurons
            number = float(expand) if isinstance(expand, Constant) else expand
            factor = None if isinstance(number, Param) else Fraction(number)
            found.append(Kind(key, axis, fan, factor))
            return (neurons, factor) if axis == "tokens" else (factor, tokens)
        case Gate(_, value, gate):
            after = _walk(value, neurons, tokens, found)
            _walk(gate, neurons, tokens, found)
            return after
        case Pool(size):
            return (None if neurons is None else neurons / size), tokens
        case Sequential(blocks):
            for one in blocks:
                neurons, tokens = _walk(one, neurons, tokens, found)
            return neurons, tokens
        case Residual(branch, _, shortcut):
            if shortcut is not None:
                _walk(shortcut, neurons, tokens, found)
            last, scale = branch_end(branch)
            after = _walk(branch, neurons, tokens, found)
            if last is not None:
                found[-1] = replace(found[-1], ends=True, scaled=scale is not None)
            return after
    return neurons, tokens


def branch_end(branch: Block) -> tuple[Dense | None, Scale | None]:
    """(the Dense, the Scale behind it) that a branch ends in, None for what is not there."""
    parts = list(_flat(branch))
    scale = parts[-1] if parts and isinstance(parts[-1], Scale) else None
    before = parts[:-1] if scale is not None else parts
    last = before[-1] if before and isinstance(before[-1], Dense) else None
    return last, scale


def _flat(block: Block) -> Iterator[Block]:
    if isinstance(block, Sequential):
        for one in block.blocks:
            yield from _flat(one)
    else:
        yield block


def rebuilt(
    block: Block,
    dense: Callable[[int, Dense], Dense] = lambda _, one: one,
    branch: Callable[[Residual], Residual] = lambda one: one,
) -> Block:
    """The record with every Dense (and its place among them, from 0) and every Residual put through a function."""
    places = iter(range(1 << 14))

    def walk(part: Block) -> Block:
        match part:
            case Dense():
                return dense(next(places), part)
            case Gate(_, value, gate):
                return replace(part, value=walk(value), gate=walk(gate))  # type: ignore[arg-type]
            case Sequential(blocks):
                return Sequential(tuple(walk(one) for one in blocks))
            case Residual(inner, _, shortcut):
                beside = None if shortcut is None else walk(shortcut)
                return branch(replace(part, branch=walk(inner), shortcut=beside))
        return part

    return walk(block)


def with_scales(block: Block, keep: bool = False) -> Block:
    """The record with every branch times one factor, the symbol `BRANCH`, which takes the place of a `Scale` there, or
    (keep) stands behind it."""

    def scaled(one: Residual) -> Residual:
        parts = list(_flat(one.branch))
        if parts and isinstance(parts[-1], Scale) and not keep:
            parts = parts[:-1]
        return replace(one, branch=Sequential((*parts, Scale(Param(BRANCH)))))

    return rebuilt(block, branch=scaled)


def own_deviations(block: Block) -> Block:
    """The record with every symbolic standard deviation as the network's own σ_w or σ_b."""

    def own(sigma: Deviation, name: str) -> Deviation:
        value = sigma.value if isinstance(sigma, Schedule) else sigma
        if not isinstance(value, Param) or value in OWN:
            return sigma
        return replace(sigma, value=Param(name)) if isinstance(sigma, Schedule) else Param(name)

    def named(_: int, one: Dense) -> Dense:
        return replace(one, sigma_w=own(one.sigma_w, "sigma_w"), sigma_b=own(one.sigma_b, "sigma_b"))

    return rebuilt(block, dense=named)


def has_branches(block: Block) -> bool:
    """Whether there is a Residual in it."""
    match block:
        case Sequential(blocks):
            return any(map(has_branches, blocks))
        case Residual():
            return True
    return False


def put(held: Deviation, value: Number) -> Deviation:
    """A standard deviation with this value, which falls with depth as the one that was held."""
    return replace(held, value=value) if isinstance(held, Schedule) else value


def chosen(block: Block, sigma_w: float, sigma_b: float) -> list[tuple[float, float]]:
    """(σ_w, σ_b) of every Dense where the symbols have these values: numbers of the record are as they are."""
    found: list[tuple[float, float]] = []

    def look(_: int, one: Dense) -> Dense:
        values = [s.value if isinstance(s, Schedule) else s for s in (one.sigma_w, one.sigma_b)]
        w, b = (own if isinstance(s, Param) else float(s) for s, own in zip(values, (sigma_w, sigma_b)))
        found.append((w, b))
        return one

    rebuilt(block, dense=look)
    return found


def filled(block: Block, sigmas: list[tuple[float, float]], scale: float | None) -> Block:
    """The record with numbers: (σ_w, σ_b) of every Dense, without the branch's factor; scale: that factor.

    The factor stays a `Scale` where the record has one and goes into the σ's of the branch's last Dense elsewhere.
    """
    places = kinds(block)

    def numbers(i: int, one: Dense) -> Dense:
        factor = scale if scale is not None and places[i].ends and not places[i].scaled else 1.0
        sigma_w, sigma_b = (exact(factor * value, "sigma") for value in sigmas[i])
        return replace(one, sigma_w=put(one.sigma_w, sigma_w), sigma_b=put(one.sigma_b, sigma_b))

    def closed(one: Residual) -> Residual:
        last, held = branch_end(one.branch)
        if scale is None or (held is None and last is not None):
            return one
        parts = list(_flat(one.branch))[: None if held is None else -1]
        return replace(one, branch=Sequential((*parts, Scale(exact(scale, "scale")))))

    return rebuilt(block, dense=numbers, branch=closed)
