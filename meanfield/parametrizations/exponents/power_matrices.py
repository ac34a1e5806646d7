"""Exponents of what the step of an optimizer on a matrix, a bias or a gain changes: rules of what holds parameters."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

from meanfield.parametrizations.exponents.power_rules import ZERO, Change, NoPower, Rule, Watch, largest, times


@dataclass(eq=False)
class Moved:
    """Parameters as an optimizer moves them: exponents of multiplier, variance of an entry, rate, and Adam's ε."""

    optimizer: str
    multiplier: Fraction = ZERO
    variance: Fraction = ZERO
    rate: Fraction = ZERO
    eps: Fraction = ZERO

    @property
    def effective(self) -> Fraction:
        """Of multiplier² · variance."""
        return 2 * self.multiplier + self.variance

    def vector(self, slope: Fraction, square: Fraction = ZERO) -> Fraction:
        """What the step on one parameter of each neuron changes: its multiplier times the step times the signal."""
        if self.optimizer == "sgd":
            return self.rate + 2 * self.multiplier + slope + square
        return self.rate + self.multiplier + square / 2

    def matrix(self, slope: Fraction, square: Fraction, fan_in: Fraction, fan_out: Fraction) -> Fraction:
        """The same of a matrix, whose step is δ aᵀ (SGD), the signs of its entries (Adam), or itself over its norm
        (Muon), on a: with fan-in terms that have one sign."""
        if self.optimizer == "muon":
            return self.rate + self.multiplier + (fan_in + square - fan_out) / 2
        return self.vector(slope, square) + fan_in


@dataclass(eq=False)
class AffineRule(Rule):
    """A Dense, m W a + b.

    kind: which scaling it has; bias: None if there is none; that of the readout does not count in f. After the three
    passes `square` and `entering` hold the exponents of K behind and before it, `slope` that of ∂f/∂z, `inherited` and
    `total` those of changes.
    """

    watch: Watch
    kind: str
    weights: Moved
    bias: Moved | None
    fan_in: Fraction
    fan_out: Fraction
    square: Fraction = field(default=ZERO, init=False)
    slope: Fraction = field(default=ZERO, init=False)
    entering: Fraction = field(default=ZERO, init=False)
    inherited: Change = field(default=None, init=False)
    total: Change = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.last = self.kind == "readout"
        self.effective = self.weights.effective
        random = (self.fan_in + self.effective) / 2
        # m Wᵀδ correlates with the change before it, a sum over the fan-in, which comes back along δ, over the fan-out
        along = random + (self.fan_in - self.fan_out) / 2
        self.gain = max(random, along)

    def forward(self, square: Fraction) -> Fraction:
        self.entering = square
        made = square + self.effective + self.fan_in
        if self.bias is not None and not self.last:
            made = max(made, self.bias.effective)
        if made > 0 and not self.last:
            raise NoPower(
                f"The forward pass grows: the mean square of what {self.kind} matrices make has the exponent {made}; "
                "let their variance or multiplier fall with the fan-in"
            )
        self.square = made
        return made

    def backward(self, slope: Fraction) -> Fraction:
        self.slope = slope
        return slope + (self.fan_out + self.effective) / 2

    def own(self) -> Fraction:
        """What the step on W changes of what it makes."""
        return self.weights.matrix(self.slope, self.entering, self.fan_in, self.fan_out)

    def own_bias(self) -> Change:
        """What the step on b changes."""
        return None if self.bias is None else self.bias.vector(self.slope)

    def share(self, own: Fraction) -> Fraction:
        """What a change of its output alone does to f: a sum over neurons along ∂f/∂z."""
        return own + self.fan_out + self.slope

    def eps(self) -> Change:
        """Adam's ε over an entry of the gradient by W."""
        gradient = self.weights.multiplier + self.slope + self.entering / 2
        return self.weights.eps - gradient if self.weights.optimizer == "adam" else None

    def step(self, change: Change) -> Change:
        if self.last:
            self.watch.sees(change)
        self.inherited = times(change, self.gain)
        own = self.own() if self.watch.moves(self.weights) else None
        bias = self.own_bias() if self.watch.moves(self.bias) else None
        self.total = largest(own, bias, self.inherited)
        return self.total


class GainsRule(Rule):
    """γ x + β, γ = 1 and β = 0, of every neuron. shared: the exponent of how many of them act on one signal."""

    def __init__(self, watch: Watch, moved: Moved, shared: Fraction = ZERO) -> None:
        self.watch, self.moved, self.shared = watch, moved, shared

    def forward(self, square: Fraction) -> Fraction:
        self.square = square
        return square

    def backward(self, slope: Fraction) -> Fraction:
        self.slope = slope
        return slope

    def step(self, change: Change) -> Change:
        if not self.watch.moves(self):
            return change
        own = max(self.moved.vector(self.slope, self.square), self.moved.vector(self.slope))
        return largest(change, own + self.shared)
