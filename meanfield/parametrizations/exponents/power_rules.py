"""Exponents of what one training step does: rules in which sums of sizes become the largest of their exponents.

A rule is a record where it stands in a network. `forward` takes the exponent of K (the mean square of what it is
given), `backward` that of the root mean square of ∂f/∂z behind it, `step` that of how much what it is given has
changed; None stands for what does not change at all. Exponents are those of one size, n or L: the rules are followed
once for each. A rule for a record of one's own is added by `power_rule`.
Source: derived here; max-plus rules of this kind are those of [2011.14522].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

from meanfield.base.errors import MeanFieldError

HALF = Fraction(1, 2)
ZERO = Fraction(0)
Change = Fraction | None


class NoPower(MeanFieldError):
    """Why a size is no power of n or L, in a sentence."""


def largest(*sizes: Change) -> Change:
    """The exponent of a sum: the largest of those of its terms; None where nothing is added."""
    return max((one for one in sizes if one is not None), default=None)


def times(size: Change, exponent: Fraction) -> Change:
    """The exponent of a change that is multiplied."""
    return None if size is None else size + exponent


@dataclass
class Watch:
    """Whose step is taken, and how much of it the next function sees.

    only: the parameters that move, None for all; seen: the exponent of the change that the first function behind them
    is given.
    """

    only: object = None
    seen: Change = None

    def moves(self, one: object) -> bool:
        return self.only is None or self.only is one

    def sees(self, change: Change) -> None:
        if self.seen is None:
            self.seen = change


class Rule:
    """The identity, which others are derived from."""

    def forward(self, square: Fraction) -> Fraction:
        return square

    def backward(self, slope: Fraction) -> Fraction:
        return slope

    def step(self, change: Change) -> Change:
        return change


class Chain(Rule):
    """Rules one after the other."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rules)

    def forward(self, square: Fraction) -> Fraction:
        for one in self.rules:
            square = one.forward(square)
        return square

    def backward(self, slope: Fraction) -> Fraction:
        for one in reversed(self.rules):
            slope = one.backward(slope)
        return slope

    def step(self, change: Change) -> Change:
        for one in self.rules:
            change = one.step(change)
        return change


class FactorRule(Rule):
    """A fixed factor of this exponent."""

    def __init__(self, exponent: Fraction) -> None:
        self.exponent = exponent

    def forward(self, square: Fraction) -> Fraction:
        return square + 2 * self.exponent

    def backward(self, slope: Fraction) -> Fraction:
        return slope + self.exponent

    def step(self, change: Change) -> Change:
        return times(change, self.exponent)


class Function(Rule):
    """φ, neuron by neuron. linear: asks whether it is linear near 0 (φ(0) = 0, a slope that is not 0)."""

    def __init__(self, watch: Watch, name: str, linear: Callable[[], bool]) -> None:
        self.watch, self.name, self.linear = watch, name, linear

    def forward(self, square: Fraction) -> Fraction:
        if square < 0 and not self.linear():
            raise NoPower(
                f"The mean square of what enters {self.name} has the exponent {square}, where it is not linear: a "
                "power needs φ(0) = 0 and φ′(0) ≠ 0; keep the forward pass of order 1"
            )
        return square

    def step(self, change: Change) -> Change:
        self.watch.sees(change)
        return change


class Product(Rule):
    """u · φ(v), neuron by neuron, u and φ(v) made of the same signal."""

    def __init__(self, watch: Watch, value: Rule, gate: Rule) -> None:
        self.watch, self.value, self.gate = watch, value, gate

    def forward(self, square: Fraction) -> Fraction:
        self.u, self.v = self.value.forward(square), self.gate.forward(square)
        return self.u + self.v

    def backward(self, slope: Fraction) -> Fraction:
        return max(self.value.backward(slope + self.v / 2), self.gate.backward(slope + self.u / 2))

    def step(self, change: Change) -> Change:
        made = times(self.value.step(change), self.v / 2), times(self.gate.step(change), self.u / 2)
        self.watch.sees(largest(*made))
        return largest(*made)


class Normalized(Rule):
    """x over its size."""

    def forward(self, square: Fraction) -> Fraction:
        self.square = square
        return ZERO

    def backward(self, slope: Fraction) -> Fraction:
        return slope - self.square / 2

    def step(self, change: Change) -> Change:
        return times(change, -self.square / 2)


class Skip(Rule):
    """x + the branch of x times a factor. repeated: whether L of them act on one signal, in exponents of L: random
    parts of branches add in the mean square, and changes that all follow ∂f/∂z add as they are."""

    def __init__(self, shortcut: Rule, branch: Rule, factor: Fraction, repeated: bool) -> None:
        self.shortcut, self.branch, self.factor, self.repeated = shortcut, branch, factor, repeated

    def forward(self, square: Fraction) -> Fraction:
        kept, made = self.shortcut.forward(square), self.branch.forward(square) + 2 * self.factor
        if self.repeated and made + 1 > kept:
            raise NoPower(
                f"The branches of L blocks add up to a mean square of exponent {made + 1}, and what follows is no "
                "power of L that all networks share; multiply branches with L^(-1/2) or less"
            )
        return max(kept, made)

    def backward(self, slope: Fraction) -> Fraction:
        kept, made = self.shortcut.backward(slope), self.branch.backward(slope + self.factor)
        if self.repeated and made + HALF > kept:
            raise NoPower(
                f"The gradients by L branches add up to a size of exponent {made + HALF}, and what follows is no "
                "power of L that all networks share; multiply branches with L^(-1/2) or less"
            )
        return max(kept, made)

    def step(self, change: Change) -> Change:
        kept = self.shortcut.step(change)
        if not self.repeated:
            return largest(kept, times(self.branch.step(change), self.factor))
        made = times(self.branch.step(None), self.factor + 1)
        total = largest(kept, made)
        return largest(total, times(self.branch.step(total), self.factor))
